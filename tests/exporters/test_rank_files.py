from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.exporters.layout import (
    FILE_BYTES,
    METADATA_FIELDS,
    SLOT,
    SLOT_NAMES,
    clean_text,
    decode_metadata,
    encode_metadata,
)
from gpu_actuary.exporters.location import file_name
from gpu_actuary.exporters.rankfile import FileInUse, open_rank_file
from gpu_actuary.exporters.rankreader import RejectedFile, read_rank_file

from .reading import snapshot
from .writing import described, rank_file

STEPS = SLOT["actuary_steps_total"]
# Any text that an environment variable can hold, lone surrogates included.
anything = st.text(st.characters(exclude_characters="\0"), max_size=60)


def test_what_was_published_is_read_and_what_was_not_set_is_absent(tmp_path: Path) -> None:
    file = rank_file(tmp_path, team="vision")
    taken = read_rank_file(file.path)
    assert taken.fields["team"] == "vision"
    assert taken.fields["attempt"] == "1"
    assert taken.pid == os.getpid()
    assert taken.values["actuary_steps_total"] == 10.0
    assert "actuary_learning_rate" not in taken.values
    assert not taken.closed
    assert taken.age() < 5
    file.release()


def test_a_change_is_seen_only_once_it_is_published(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    file.values[STEPS] = 11.0
    assert snapshot(tmp_path).values["actuary_steps_total"] == 10.0
    file.publish()
    assert snapshot(tmp_path).values["actuary_steps_total"] == 11.0
    file.release()


@given(anything, st.integers(0, 10**6).map(str))
def test_a_file_name_stays_in_its_folder(job_id: str, rank: str) -> None:
    name = file_name(job_id, rank)
    assert Path(name).name == name
    assert name.isascii()
    assert not name.startswith(".")
    assert len(name) < 100


@given(anything, anything)
def test_different_jobs_have_different_files(one: str, other: str) -> None:
    assert (file_name(one, "0") == file_name(other, "0")) == (one == other)


@given(st.fixed_dictionaries(dict.fromkeys(METADATA_FIELDS, anything)))
def test_metadata_survive_the_file_as_clean_text(fields: dict[str, str]) -> None:
    decoded, slots = decode_metadata(encode_metadata(fields))
    assert slots == SLOT_NAMES
    assert decoded == {name: clean_text(value) for name, value in fields.items()}


def test_endless_metadata_are_cut_to_fit(tmp_path: Path) -> None:
    endless = dict.fromkeys(METADATA_FIELDS, "\x01ß" * 5000)
    decoded, _ = decode_metadata(encode_metadata(endless))
    assert all(decoded.values())
    rank_file(tmp_path, job_id="ü" * 3000).release()
    assert snapshot(tmp_path).fields["job_id"].startswith("üüü")


def test_every_user_can_read_the_file_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        file = rank_file(tmp_path / "new" / "folder")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o644
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o1777
    assert list(file.path.parent.iterdir()) == [file.path]
    file.release()


def test_a_restarted_rank_continues_its_counters_as_the_next_attempt(tmp_path: Path) -> None:
    rank_file(tmp_path).release()
    file = open_rank_file(tmp_path, described(team="new"))
    file.publish()
    taken = snapshot(tmp_path)
    assert taken.fields["attempt"] == "2"
    assert taken.fields["team"] == "new"
    assert taken.values["actuary_steps_total"] == 10.0
    file.release()


def test_a_made_up_job_that_ended_well_is_followed_by_a_new_one(tmp_path: Path) -> None:
    rank_file(tmp_path, closed=True)
    file = open_rank_file(tmp_path, described(), new_job_after_clean_end=True)
    taken = snapshot(tmp_path)
    assert taken.fields["attempt"] == "1"
    assert "actuary_steps_total" not in taken.values
    file.release()


def test_a_live_writer_keeps_its_file(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    with pytest.raises(FileInUse):
        open_rank_file(tmp_path, described())
    file.release()
    open_rank_file(tmp_path, described()).release()


def test_a_file_that_was_removed_comes_back_with_its_values(tmp_path: Path) -> None:
    file = rank_file(tmp_path / "ranks")
    file.path.unlink()
    file.path.parent.rmdir()
    file.restore_if_missing()
    assert snapshot(tmp_path / "ranks").values["actuary_steps_total"] == 10.0
    file.values[STEPS] = 12.0
    file.publish()
    assert snapshot(tmp_path / "ranks").values["actuary_steps_total"] == 12.0
    file.release()


def test_a_writer_killed_in_the_middle_leaves_the_last_state(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    sequence = read_rank_file(file.path).sequence
    idle_bank = FILE_BYTES - (FILE_BYTES - 16384) // 2 if sequence % 2 == 0 else 16384
    with file.path.open("r+b") as raw:
        raw.seek(idle_bank)
        raw.write(b"\xff" * 300)
    assert read_rank_file(file.path).values["actuary_steps_total"] == 10.0
    file.release()


def test_a_reader_beside_a_busy_writer_sees_only_consistent_states(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    loss = SLOT["actuary_loss"]
    stop = threading.Event()

    def write() -> None:
        count = 10.0
        while not stop.is_set():
            count += 1
            file.values[STEPS], file.values[loss] = count, count / 4
            file.publish()

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    try:
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            values = read_rank_file(file.path).values
            if values["actuary_steps_total"] > 10:
                assert values["actuary_loss"] == values["actuary_steps_total"] / 4
                seen.append(values["actuary_steps_total"])
    finally:
        stop.set()
        thread.join()
        file.release()
    assert len(set(seen)) > 10
    assert seen == sorted(seen)


def _rejection(path: Path) -> str:
    with pytest.raises(RejectedFile) as caught:
        read_rank_file(path)
    return str(caught.value.reason)


def test_what_is_no_rank_file_is_told_apart(tmp_path: Path) -> None:
    file = rank_file(tmp_path)
    file.release()
    whole = file.path.read_bytes()
    bad = tmp_path / "bad.rank"

    bad.write_bytes(b"")
    assert _rejection(bad) == "truncated"
    bad.write_bytes(whole[:-1])
    assert _rejection(bad) == "truncated"
    bad.write_bytes(whole[:5000])
    assert _rejection(bad) == "truncated"
    bad.write_bytes(b"something else" * 4000)
    assert _rejection(bad) == "foreign"
    bad.write_bytes(whole[:8] + (99).to_bytes(4, "little") + whole[12:])
    assert _rejection(bad) == "layout"
    bad.write_bytes(whole[:16384] + bytes(len(whole) - 16384))
    assert _rejection(bad) == "torn"
    bad.write_bytes(whole[:140] + b"?" + whole[141:])
    assert _rejection(bad) == "torn"
    bad.unlink()
    os.mkfifo(bad)
    assert _rejection(bad) == "foreign"
    bad.unlink()
    bad.symlink_to(file.path)
    assert _rejection(bad) == "unreadable"


@given(st.binary(max_size=200), st.integers(0, FILE_BYTES))
def test_damage_never_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, position: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damage"
    folder.mkdir(exist_ok=True)
    whole = folder / "whole.bytes"
    if not whole.exists():
        file = rank_file(folder)
        file.release()
        file.path.rename(whole)
    content = bytearray(whole.read_bytes())
    content[position : position + len(damage)] = damage
    bad = folder / "bad.rank"
    bad.write_bytes(content)
    try:
        assert read_rank_file(bad).values["actuary_steps_total"] == 10.0
    except RejectedFile as rejection:
        assert rejection.reason in {"foreign", "layout", "torn", "truncated"}
