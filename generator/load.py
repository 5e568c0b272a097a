"""A folder of specs laid over the built-in one: read, merge by kind and name, validate."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, TypeVar

from gpu_actuary.errors import UsageError

from .documents import Document, read_documents
from .models import KINDS, VERSION, Economics, Inventory, Ledger, Route, Spec
from .output import is_ours
from .problems import Location, Problems, nearest
from .validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .problems import Path

AnySpec = TypeVar("AnySpec", bound=Spec)


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A valid spec, its document with the place of each value, and whether the user wrote it.

    Two are equal only when they are the same.
    """

    spec: Spec
    document: Document
    users: bool

    def locate(self, *path: str | int) -> Location:
        """The place of a value of the spec."""
        return self.document.locate(path)


@dataclass(frozen=True, slots=True)
class SpecSet:
    """All specs after the overlay, in order of file and position."""

    loaded: tuple[Loaded, ...]
    folders: tuple[FilePath, ...]

    def of(self, kind: type[AnySpec]) -> Iterator[tuple[AnySpec, Loaded]]:
        """The specs of one kind, each with where it comes from."""
        for entry in self.loaded:
            if isinstance(entry.spec, kind):
                yield entry.spec, entry

    def settings(self) -> tuple[Economics, Inventory, Ledger]:
        """The three settings; loading has made sure that each is there."""
        return self._single(Economics), self._single(Inventory), self._single(Ledger)

    def route(self) -> Route:
        """The notification routes; loading has made sure that they are there."""
        return self._single(Route)

    def _single(self, kind: type[AnySpec]) -> AnySpec:
        return next(spec for spec, _ in self.of(kind))


def builtin_folder() -> FilePath:
    """Where the product's own specs are installed."""
    package = importlib.util.find_spec("gpu_actuary.rules")
    if package is None or not package.submodule_search_locations:
        raise UsageError("the built-in rules are not installed; reinstall gpu-actuary")
    return FilePath(package.submodule_search_locations[0])


def load(user: FilePath | None, problems: Problems, *, builtin: FilePath | None = None) -> SpecSet:
    """The specs of the folder ``user`` over those of ``builtin`` (the product's own when None).

    What is wrong goes to ``problems``; the result then lacks the specs concerned. Raises
    :class:`UsageError` when a folder is not there.
    """
    builtin = builtin or builtin_folder()
    folders = (builtin,) if user is None else (builtin, user)
    documents: dict[tuple[str, str], tuple[Document, bool]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a folder; expected one with specs (*.yaml)")
        _overlay(documents, _identified(folder, problems), folder is user, problems)
    loaded = []
    for (kind, _), (document, users) in documents.items():
        spec = validate(KINDS[kind], document, problems)
        if spec is not None:
            loaded.append(Loaded(spec, document, users))
    present = {kind for kind, _ in documents}
    for kind in ("Economics", "Inventory", "Ledger", "Route"):
        if kind not in present:
            message = f"no spec of kind {kind} is there"
            problems.add(Location(str(builtin), 1), "", message, f"kind: {kind}, name: default")
    return SpecSet(tuple(loaded), folders)


_Identified = list[tuple[tuple[str, str], Document]]


def _identified(folder: FilePath, problems: Problems) -> _Identified:
    """The documents of ``folder`` with kind and name; unusable ones become problems."""
    found: _Identified = []
    first: dict[tuple[str, str], Location] = {}
    for file in _spec_files(folder):
        for document in read_documents(file, str(file), problems):
            key = _identify(document, problems)
            if key is None:
                continue
            place = document.locate(("name",))
            if key in first:
                problems.add(
                    place, "name", f"{key[0]} {key[1]} stands twice; first at {first[key]}"
                )
                continue
            first[key] = place
            found.append((key, document))
    return found


def _spec_files(folder: FilePath) -> list[FilePath]:
    files = (f for pattern in ("*.yaml", "*.yml") for f in folder.rglob(pattern) if f.is_file())
    visible = (f for f in files if not any(p[0] == "." for p in f.relative_to(folder).parts))
    # A person may render into a folder inside that of the specs.
    return sorted(f for f in visible if not is_ours(f))


def _identify(document: Document, problems: Problems) -> tuple[str, str] | None:
    data = document.data
    if data.get("version") != VERSION:
        message = f"{data['version']!r} is not known" if "version" in data else "is missing"
        problems.add(document.locate(("version",)), "version", message, VERSION)
        return None
    kind, name = data.get("kind"), data.get("name")
    if not isinstance(kind, str) or kind not in KINDS:
        message = f"{kind!r} is not known{nearest(str(kind), KINDS)}" if kind else "is missing"
        problems.add(document.locate(("kind",)), "kind", message, f"one of {', '.join(KINDS)}")
        return None
    if not isinstance(name, str):
        problems.add(document.locate(("name",)), "name", "is missing or not text", "a name")
        return None
    return kind, name


def _overlay(
    documents: dict[tuple[str, str], tuple[Document, bool]],
    additions: _Identified,
    users: bool,
    problems: Problems,
) -> None:
    for key, document in additions:
        kind, name = key
        if document.data.get("disabled") is True:
            _disable(documents, key, document, problems)
        elif KINDS[kind].settings and key in documents:
            documents[key] = (merge(documents[key][0], document), users)
        elif KINDS[kind].settings and kind in {k for k, _ in documents}:
            problems.add(
                document.locate(("name",)), "name", f"{name!r} is a second {kind}", "default"
            )
        else:
            documents[key] = (document, users)


def _disable(
    documents: dict[tuple[str, str], tuple[Document, bool]],
    key: tuple[str, str],
    document: Document,
    problems: Problems,
) -> None:
    kind, name = key
    surplus = sorted(set(document.data) - {"version", "kind", "name", "disabled", "summary"})
    if surplus:
        place = document.locate((surplus[0],))
        problems.add(place, surplus[0], "stands in a disabled spec", "only kind and name")
    if KINDS[kind].settings or kind == "Route":
        place = document.locate(("disabled",))
        problems.add(place, "disabled", f"{kind} cannot be disabled", "other values instead")
    elif documents.pop(key, None) is None:
        names = [n for k, n in documents if k == kind]
        problems.add(
            document.locate(("name",)),
            "name",
            f"there is no built-in {kind} {name!r} to disable{nearest(name, names)}",
        )


def merge(base: Document, over: Document) -> Document:
    """``over`` laid over ``base`` field by field; lists and single values are replaced."""
    where = dict(base.where)
    data = _merge_mapping(base.data, over.data, (), where, over)
    return Document(data, where)


def _merge_mapping(
    base: dict[str, Any],
    over: dict[str, Any],
    path: Path,
    where: dict[Path, Location],
    document: Document,
) -> dict[str, Any]:
    merged = dict(base)
    where[path] = document.where[path]
    for key, value in over.items():
        below = (*path, key)
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merge_mapping(base[key], value, below, where, document)
            continue
        for stale in [p for p in where if p[: len(below)] == below]:
            del where[stale]
        where.update({p: at for p, at in document.where.items() if p[: len(below)] == below})
        merged[key] = value
    return merged
