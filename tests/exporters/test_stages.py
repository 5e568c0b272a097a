"""Stages of an input pipeline, in the processes where they really run."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, IterableDataset

from gpu_actuary.catalogue.exported import MAX_STAGES
from gpu_actuary.exporters.pipeline import stage
from gpu_actuary.exporters.pytorch import Run, monitor
from gpu_actuary.exporters.rankreader import RejectedFile
from gpu_actuary.exporters.stagefile import SUFFIX, read_stages

from .reading import exposed
from .writing import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAUSE = 0.002
SERIES = "actuary_pipeline_stage_seconds_total"


def _read(index: int) -> torch.Tensor:
    with stage("read"):
        time.sleep(PAUSE)
        with stage("decode"):
            time.sleep(2 * PAUSE)
    return torch.full((2,), float(index))


class Images(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        return _read(index)


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = torch.utils.data.get_worker_info()
        assert worker is not None
        yield from map(_read, range(worker.id, 40, worker.num_workers))


def _monitor(folder: Path) -> Run:
    training = Training()
    return monitor(training.model, training.optimizer, job_id="job", directory=folder)


def _stages(folder: Path) -> dict[str, float]:
    (path,) = folder.glob(f"*{SUFFIX}")
    return read_stages(path)


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (Images(), {"num_workers": 2, "multiprocessing_context": "fork"}),
        (Images(), {"num_workers": 2, "multiprocessing_context": "spawn"}),
        (Images(), {"num_workers": 2, "persistent_workers": True}),
        (Stream(), {"num_workers": 2}),
        (Images(), {"num_workers": 0}),
    ],
    ids=["fork", "spawn", "persistent", "iterable", "no workers"],
)
def test_every_worker_counts_and_nothing_is_lost_over_two_epochs(
    tmp_path: Path, data: Any, settings: dict[str, Any]
) -> None:
    with _monitor(tmp_path) as run:
        loader = DataLoader(data, batch_size=5, **settings)
        epochs = 1 if settings.get("multiprocessing_context") == "spawn" else 2
        for _ in range(epochs):
            assert sum(len(batch) for batch in run.batches(loader)) == 40
        shown = exposed(tmp_path)[SERIES]
    by_stage = {dict(labels)["stage"]: seconds for labels, seconds in shown.items()}
    assert set(by_stage) == {"read", "decode"}
    # A sleep never ends early; the time of the inner stage is not counted again in the outer one.
    assert by_stage["read"] >= epochs * 40 * PAUSE
    assert by_stage["decode"] >= epochs * 40 * 2 * PAUSE
    assert by_stage["decode"] > by_stage["read"]
    assert by_stage == _stages(tmp_path)


def _in_processes(count: int, target: Callable[..., None], *arguments: Any) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target, args=(n, *arguments)) for n in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0


def _count(_number: int, times: int) -> None:
    for _ in range(times):
        with stage("augment"):
            pass
    with stage("read"):
        time.sleep(0.01)


def test_the_counters_of_dead_workers_stay_and_files_do_not_multiply(tmp_path: Path) -> None:
    with _monitor(tmp_path):
        before = 0.0
        for _ in range(5):
            _in_processes(4, _count, 100)
            after = _stages(tmp_path)["read"]
            assert after >= before + 4 * 0.01
            before = after
        assert len(list(tmp_path.iterdir())) == 2


def test_threads_of_a_process_count_together(tmp_path: Path) -> None:
    with _monitor(tmp_path):
        threads = [threading.Thread(target=_count, args=(0, 200)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _stages(tmp_path)["read"] >= 4 * 0.01


def _name_many(number: int) -> None:
    for index in range(30):
        with stage(f"stage {number} {index}"):
            time.sleep(0.0005)


def test_names_without_end_are_counted_as_other_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _monitor(tmp_path):
        _in_processes(3, _name_many)
        _name_many(9)
        found = _stages(tmp_path)
    assert len(found) == MAX_STAGES
    assert found["other"] >= (4 * 30 - MAX_STAGES) * 0.0005
    assert sum(found.values()) >= 4 * 30 * 0.0005
    assert len([r for r in caplog.records if "counts as other" in r.message]) == 1


@given(st.lists(st.text(max_size=80), max_size=20))
def test_any_name_becomes_a_label_or_other(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    with _monitor(folder):
        for name in ["first", *names]:
            with stage(name):
                pass
        found = _stages(folder)
    assert "first" in found
    assert len(found) <= MAX_STAGES
    assert all(len(name.encode()) < 40 and "\0" not in name and name for name in found)


def test_a_name_that_is_no_text_does_not_stop_the_data(tmp_path: Path) -> None:
    class Unnameable:
        def __str__(self) -> str:
            raise ValueError("no name")

    with _monitor(tmp_path):
        for name in (None, 7, Unnameable()):
            with stage(name):  # type: ignore[arg-type]  # that is the test
                pass


def test_errors_pass_through_a_stage_and_its_time_counts(tmp_path: Path) -> None:
    with _monitor(tmp_path):
        with pytest.raises(ValueError, match="corrupt"), stage("read"):
            time.sleep(0.01)
            raise ValueError("corrupt image")
        with stage("decode"):
            time.sleep(0.01)
        found = _stages(tmp_path)
    assert found["read"] >= 0.01
    assert found["decode"] >= 0.01


def test_without_a_monitored_rank_a_stage_does_nothing(tmp_path: Path) -> None:
    run = _monitor(tmp_path)
    run.close()
    with stage("read"):
        pass
    assert not list(tmp_path.glob(f"*{SUFFIX}"))
    assert "ACTUARY_RANK_FILE" not in os.environ


def test_a_restarted_rank_continues_its_stages(tmp_path: Path) -> None:
    for _ in range(2):
        with _monitor(tmp_path), stage("read"):
            time.sleep(0.01)
    assert _stages(tmp_path)["read"] >= 0.02


def test_a_job_that_has_no_name_begins_its_stages_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ACTUARY_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "JOB_NAME"):
        monkeypatch.delenv(variable, raising=False)
    training = Training()
    for name in ("read", "decode"):
        with monitor(training.model, training.optimizer, directory=tmp_path), stage(name):
            pass
    assert set(_stages(tmp_path)) == {"decode"}


def test_a_removed_file_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_actuary.exporters.stages._LOOK_EVERY_SECONDS", 0.0)
    with _monitor(tmp_path):
        _count(0, 1)
        (path,) = tmp_path.glob(f"*{SUFFIX}")
        path.unlink()
        _count(0, 1)
        assert _stages(tmp_path)["read"] >= 0.01


def test_something_else_in_its_place_is_said_once_counted_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with _monitor(tmp_path):
        (rank_file,) = tmp_path.glob("*.rank")
        path = rank_file.with_suffix(SUFFIX)
        path.write_text("my notes")
        _count(0, 3)
        rejected = exposed(tmp_path)["actuary_rank_files_rejected_total"]
    assert path.read_text() == "my notes"
    assert len([r for r in caplog.records if "not counted" in r.message]) == 1
    assert rejected[(("reason", "truncated"),)] == 1


@given(st.binary(min_size=1, max_size=100), st.integers(0, 12_700))
def test_damage_never_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes, position: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "stages"
    if not folder.exists():
        with _monitor(folder):
            _count(0, 1)
    (whole,) = folder.glob(f"*{SUFFIX}")
    content = bytearray(whole.read_bytes())
    content[position : position + len(damage)] = damage
    bad = folder / "bad"
    bad.write_bytes(content)
    try:
        found = read_stages(bad)
    except RejectedFile as rejection:
        assert rejection.reason in {"foreign", "layout"}
    else:
        assert len(found) <= MAX_STAGES
        assert all(0 <= seconds < float("inf") for seconds in found.values())
