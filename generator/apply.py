"""Installing rules into a running server: all of them and proven to work, or none.

One wrong rule makes Prometheus refuse the whole reload and keep the old rules, which nobody
notices; vmalert does not even say so, and a folder that the configuration does not match is not
refused by anyone. So the rules are read back from the server, and the files are put back when
anything is not as it should be.
"""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_actuary.errors import ActuaryError, PrometheusError, UsageError

from .output import is_ours, write_files
from .promql import PromqlError, parse
from .targets import TARGETS
from .tools import check_rules, check_vmalert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_actuary.prometheus import PrometheusClient

    from .order import Group
    from .render import Rendered

FILES = "gpu-actuary-*.yaml"
"""Our rule files in a folder that others may use too."""
PREVIOUS = ".gpu-actuary-previous"
LOCK = ".gpu-actuary.lock"
POLL_SECONDS = 0.2

_SETTINGS = {"prometheus": "rule_files", "thanos": "--rule-file", "vmalert": "-rule"}
_INSTEAD = {
    "operator": "apply the manifests with kubectl",
    "mimir": "load the namespaces with mimirtool rules sync",
}


class ApplyError(ActuaryError):
    """The rules could not be installed; the message says why and what stands now."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What stands now. ``pending`` groups had no evaluation yet when the wait was over."""

    rules: int
    groups: int
    pending: tuple[str, ...]
    unhealthy: tuple[str, ...]


def apply(
    rendered: Rendered,
    folder: Path,
    client: PrometheusClient,
    *,
    wait_seconds: float,
    keep_unhealthy: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Applied:
    """Install the rule files of ``rendered`` into ``folder`` and make ``client`` load them.

    Waits up to ``wait_seconds`` for the first evaluation of every group. Rules that cannot be
    evaluated undo everything unless ``keep_unhealthy``. Raises :class:`ApplyError`, after which the
    files are those of before, and :class:`UsageError` when ``folder`` is not there or the target
    does not read rule files.
    """
    target = rendered.server.target
    if target.layout != "rule file":
        raise UsageError(f"{target.title} reads no rule files; {_INSTEAD[target.name]}")
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not a folder; expected one that {_SETTINGS[target.name]} of {target.title} matches"
        )
    with _lock(folder):
        _validate(rendered)
        client.rule_groups()  # a server that cannot be reached is found before anything changes
        before = {f.name: f.read_text("utf-8") for f in folder.glob(FILES) if is_ours(f)}
        progress("writing the rules")
        _write(folder, rendered.rule_files())
        try:
            progress(f"reloading {target.title}")
            client.reload()
            _await_reload(rendered, folder, client)
            applied = _await_evaluation(rendered, folder, client, wait_seconds, progress)
            if applied.unhealthy and not keep_unhealthy:
                _refuse(applied)
        except BaseException as error:
            outcome = _roll_back(rendered, folder, before, client)
            if isinstance(error, ActuaryError):
                raise ApplyError(f"{error}\n{outcome}") from error
            raise
        _keep(folder, before)
        return applied


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    path = folder / LOCK
    try:
        stream = path.open("a")
    except OSError as error:
        raise ApplyError(f"cannot write into {folder}: {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ApplyError(f"another apply is at work in {folder}; try again later") from error
        yield


def _validate(rendered: Rendered) -> None:
    with tempfile.TemporaryDirectory(prefix="gpu-actuary-") as name:
        folder = Path(name)
        check = check_vmalert if rendered.server.target is TARGETS["vmalert"] else check_rules
        plain = rendered.rule_files() if check is check_vmalert else rendered.plain_rule_files()
        write_files(folder, plain)
        outcome = check(sorted(folder.iterdir()))
    if outcome.status == "failed":
        tool = outcome.check.partition(" ")[0]
        raise ApplyError(f"{tool} refuses the rules; nothing was changed:\n{outcome.detail}")


def _write(folder: Path, files: dict[str, str]) -> None:
    write_files(folder, files, stale=[FILES])


def _keep(folder: Path, before: dict[str, str]) -> None:
    """Keep the version before this one; an equal one is no earlier version."""
    if not before:
        return
    if before == {f.name: f.read_text("utf-8") for f in folder.glob(FILES) if is_ours(f)}:
        return
    _write(folder / PREVIOUS, before)


def _roll_back(
    rendered: Rendered, folder: Path, before: dict[str, str], client: PrometheusClient
) -> str:
    target = rendered.server.target
    try:
        _write(folder, before)
    except ActuaryError as error:
        return f"The files of before could not be put back ({error}): look into {folder}."
    try:
        client.reload()
    except PrometheusError:
        # Why stands in the message before this one, unless it has just begun to fail.
        goes_on = f"{target.title} goes on with the rules that it has loaded."
        return f"The files of before are back. {goes_on}"
    if target.reload_seconds:
        return "The files of before are back, and a reload was asked for."
    return "The files of before are back and loaded."


def _own_groups(
    rendered: Rendered, folder: Path, client: PrometheusClient
) -> dict[str, dict[str, Any]]:
    """The server's groups that come from the files of ours in ``folder``."""
    names = {group.name for group in rendered.groups}
    return {
        group["name"]: group
        for group in client.rule_groups()
        if group["name"] in names and _may_be(Path(group["file"]), folder / f"{group['name']}.yaml")
    }


def _may_be(loaded: Path, written: Path) -> bool:
    """Whether the file ``loaded`` by the server can be the one ``written`` here.

    A server in a container knows the folder by another path, so only a file that is there and
    another one is surely not it.
    """
    return loaded.name == written.name and (not loaded.exists() or loaded.samefile(written))


def _await_reload(rendered: Rendered, folder: Path, client: PrometheusClient) -> None:
    """Read back until all is there, for as long as the target may take after a reload."""
    deadline = time.monotonic() + rendered.server.target.reload_seconds
    while True:
        try:
            _read_back(rendered, folder, client)
        except ApplyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return


def _read_back(rendered: Rendered, folder: Path, client: PrometheusClient) -> None:
    loaded = _own_groups(rendered, folder, client)
    target = rendered.server.target
    for group in rendered.groups:
        if group.name not in loaded:
            refused = "; or it refuses another file, see its log" if target.reload_seconds else ""
            raise ApplyError(
                f"{target.title} reloaded, but does not have the group {group.name}: "
                f"{_SETTINGS[target.name]} in its configuration matches nothing in {folder.resolve()}"
                f"{refused}"
            )
        _compare(group, loaded[group.name]["rules"], target.title)


def _compare(group: Group, loaded: list[dict[str, Any]], title: str) -> None:
    expected = [(rule.name, _canonical(rule.expression.text)) for rule in group.rules]
    actual = [(rule["name"], _canonical(rule["query"])) for rule in loaded]
    if expected == actual:
        return
    for (name, query), (actual_name, actual_query) in zip(expected, actual, strict=False):
        if (name, query) != (actual_name, actual_query):
            raise ApplyError(
                f"{title} evaluates something else than was written: in {group.name} it has "
                f"{actual_name} = {actual_query}; expected {name} = {query}"
            )
    raise ApplyError(f"{title} has {len(actual)} rules in {group.name}; expected {len(expected)}")


def _canonical(expression: str) -> str:
    """One spelling of an expression, whoever printed it."""
    try:
        return str(parse(expression).tree)
    except PromqlError:
        return expression


def _await_evaluation(
    rendered: Rendered,
    folder: Path,
    client: PrometheusClient,
    wait_seconds: float,
    progress: Callable[[str], None],
) -> Applied:
    deadline = time.monotonic() + wait_seconds
    while True:
        groups = _own_groups(rendered, folder, client)
        pending = [name for name, group in groups.items() if not _evaluated(group)]
        if not pending or time.monotonic() >= deadline:
            break
        progress(f"waiting for the first evaluation of {', '.join(pending)}")
        time.sleep(POLL_SECONDS)
    unhealthy = [
        f"{rule['name']}: {rule.get('lastError', 'no reason given')}"
        for group in groups.values()
        for rule in group["rules"]
        if rule["health"] == "err"
    ]
    return Applied(len(rendered.rules()), len(groups), tuple(pending), tuple(unhealthy))


def _evaluated(group: dict[str, Any]) -> bool:
    # vmalert calls a rule healthy before it has evaluated it; Go writes a time that is not set so.
    return not any(rule["lastEvaluation"].startswith("0001-") for rule in group["rules"])


def _refuse(applied: Applied) -> None:
    count = len(applied.unhealthy)
    heading = "1 rule" if count == 1 else f"{count} rules"
    raise ApplyError("\n".join([f"{heading} cannot be evaluated:", *applied.unhealthy]))
