"""Strict YAML: every value keeps its line, and whatever YAML leaves ambiguous is refused.

Plain ``yes``, ``no``, ``on``, ``off`` and numbers with a leading zero mean different things to
different readers; duplicate keys silently lose one value; anchors, aliases and tags hide where a
value comes from. ``1e3`` is the number 1000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from .problems import Location, Path, Problems, excerpt

if TYPE_CHECKING:
    from pathlib import Path as FilePath

MAX_DEPTH = 50
"""Deeper nesting than any spec needs; it bounds the recursion over a hostile file."""

_WIDEST_INDENTATION = 500

_AMBIGUOUS = re.compile(r"(?i:yes|no|on|off)|[-+]?0[0-9][0-9_]*")
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|nan)", re.I)
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data, and the place of every value in it."""

    data: dict[str, Any]
    where: dict[Path, Location]

    def locate(self, path: Path) -> Location:
        """The place of the value at ``path``, or of the nearest thing around it."""
        while path not in self.where:
            path = path[:-1]
        return self.where[path]


if yaml.__with_libyaml__:
    # Ten times faster; wheels of PyYAML bring it, some builds do not.
    from yaml.cyaml import CParser  # type: ignore[attr-defined]  # the stubs import it only

    class _Composer(CParser, yaml.resolver.BaseResolver):
        """Composes nodes; without implicit tags, every plain scalar stays text."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            yaml.resolver.BaseResolver.__init__(self)

else:

    class _Composer(  # type: ignore[no-redef]  # the same in Python
        yaml.reader.Reader,
        yaml.scanner.Scanner,
        yaml.parser.Parser,
        yaml.composer.Composer,
        yaml.resolver.BaseResolver,
    ):
        """Composes nodes; without implicit tags, every plain scalar stays text."""

        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)
            yaml.resolver.BaseResolver.__init__(self)


def read_documents(file: FilePath, shown: str, problems: Problems) -> list[Document]:
    """The documents of ``file``, which messages call ``shown``; what is wrong goes to ``problems``.

    A file with a syntax error yields the documents before it.
    """
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problems.add(Location(shown, line), "", "is not UTF-8 text", "a YAML file in UTF-8")
        return []
    except OSError as error:
        problems.add(Location(shown, 1), "", f"cannot be read: {error.strerror}")
        return []
    return parse_documents(text, shown, problems)


def parse_documents(text: str, shown: str, problems: Problems) -> list[Document]:
    """As :func:`read_documents`, from text."""
    documents: list[Document] = []
    too_deep = _first_too_deep_line(text)
    if too_deep:
        problems.add(
            Location(shown, too_deep), "", "nests too deeply", f"at most {MAX_DEPTH} levels"
        )
        return documents
    try:
        composer = _Composer(text)
        while (node := composer.get_node() if composer.check_node() else None) is not None:
            converter = _Converter(shown, problems)
            data = converter.convert(node, ())
            if isinstance(data, dict):
                documents.append(Document(data, converter.where))
            elif data is not None:
                problems.add(
                    converter.where[()],
                    "",
                    f"the document is {excerpt(data)}",
                    "a mapping that begins with `version: actuary/v1`",
                )
    except yaml.MarkedYAMLError as error:
        problems.add(*_syntax_problem(error, text, shown))
    except RecursionError:
        problems.add(Location(shown, 1), "", "nests too deeply", f"at most {MAX_DEPTH} levels")
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        problems.add(Location(shown, line), "", f"unreadable character: {error.reason}")
    return documents


def _first_too_deep_line(text: str) -> int:
    """The line (from 1) that nests too deeply by its indentation or its dashes, or 0.

    The composer recurses natively, so this depth is bounded before it runs; libyaml itself bounds
    brackets.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        lead = line[: len(line) - len(line.lstrip(" -?:"))]
        if len(lead.replace(" ", "")) > MAX_DEPTH or len(lead) > _WIDEST_INDENTATION:
            return number
    return 0


def _syntax_problem(
    error: yaml.MarkedYAMLError, text: str, shown: str
) -> tuple[Location, str, str, str]:
    mark = error.problem_mark or error.context_mark
    number = mark.line if mark is not None else 0
    lines = text.splitlines()
    line = lines[number] if number < len(lines) else ""
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation:
        return Location(shown, number + 1), "", "a tab in the indentation", "spaces"
    reason = error.problem or error.context or "cannot be read as YAML"
    context = f" {error.context}" if error.context and error.problem else ""
    return Location(shown, number + 1), "", f"YAML: {reason}{context}: {excerpt(line.strip())}", ""


class _Converter:
    """Turns nodes into plain data and notes the place of each."""

    def __init__(self, shown: str, problems: Problems) -> None:
        self.where: dict[Path, Location] = {}
        self._shown = shown
        self._problems = problems
        self._seen: set[int] = set()

    def convert(self, node: yaml.Node, path: Path) -> Any:
        # The line of a key was noted before; it is the better place for its value.
        place = self.where.setdefault(path, Location(self._shown, node.start_mark.line + 1))
        if id(node) in self._seen:
            self._problems.add(place, path, "is an alias", "the value itself, written out")
            return None
        self._seen.add(id(node))
        if node.tag not in _PLAIN_TAGS:
            self._problems.add(place, path, f"has the tag {excerpt(node.tag)}", "no tag")
            return None
        if len(path) > MAX_DEPTH:
            self._problems.add(place, (), "nests too deeply", f"at most {MAX_DEPTH} levels")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.convert(item, (*path, i)) for i, item in enumerate(node.value)]
        text = str(node.value)
        quoted = isinstance(node, yaml.ScalarNode) and node.style
        return text if quoted else self._plain(text, path, place)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = Location(self._shown, key_node.start_mark.line + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                self._problems.add(place, path, "a key is not a plain word", "a word")
                continue
            key = str(key_node.value)
            if key in result:
                first = self.where[*path, key].line
                self._problems.add(
                    place, (*path, key), f"stands twice; first in line {first}", "each key once"
                )
                continue
            if key == "<<" and not key_node.style:
                self._problems.add(place, path, "merges with `<<`", "the values, written out")
                continue
            self.where[*path, key] = place
            result[key] = self.convert(value_node, (*path, key))
        return result

    def _plain(self, text: str, path: Path, place: Location) -> Any:
        """What a scalar without quotes means."""
        if text in _WORDS:
            return _WORDS[text]
        if _AMBIGUOUS.fullmatch(text):
            self._problems.add(
                place, path, f"{text} is ambiguous", f"true, false, a number or '{text}' in quotes"
            )
            return None
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        return text
