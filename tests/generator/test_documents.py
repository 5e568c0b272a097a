from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_actuary.generator.documents import parse_documents, read_documents
from gpu_actuary.generator.problems import Problems

if TYPE_CHECKING:
    from pathlib import Path

YAML_PIECES = st.sampled_from(
    [
        "a",
        ": ",
        "- ",
        "\n",
        "  ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&x ",
        "*x",
        ">",
        "'",
        '"',
        "#",
        "!!str ",
        "!t ",
        "---\n",
        "...\n",
        "? ",
        "\t",
        "%YAML 1.2\n",
        "<<",
        "1e3",
        "0o7",
        "~",
        "é",
    ]
)


def parse(text: str) -> tuple[list[object], list[str]]:
    problems = Problems()
    documents = parse_documents(text, "f.yaml", problems)
    return [document.data for document in documents], [str(p) for p in problems.found]


@given(st.lists(YAML_PIECES, max_size=60).map("".join))
@example("[" * 900)
@example("- " * 20_000)
@example("{a: " * 3_000)
@example("a: &x [*x]")
@example("? [a, b]\n: c")
@example("a: \x00")
def test_any_yaml_text_yields_documents_or_problems_and_never_another_error(text: str) -> None:
    _, problems = parse(text)
    assert all(problem.startswith("f.yaml:") and "\n" not in problem for problem in problems)


@given(st.binary(max_size=200))
def test_any_bytes_in_a_file_yield_documents_or_problems(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("bytes") / "f.yaml"
    file.write_bytes(content)
    problems = Problems()
    read_documents(file, "f.yaml", problems)
    assert all(str(problem).startswith("f.yaml:") for problem in problems.found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1e3", 1000.0),
        ("a: 12", 12),
        ("a: -0.5", -0.5),
        ("a: 5m", "5m"),
        ("a: 'no'", "no"),
        ("a: true", True),
        ("a:", None),
        ("a: 2024-01-01", "2024-01-01"),
        ("a: 1:30", "1:30"),
        ("a: 0", 0),
    ],
)
def test_a_plain_value_means_what_it_looks_like(text: str, value: object) -> None:
    assert parse(text) == ([{"a": value}], [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: no", "f.yaml:1: a: no is ambiguous; expected true, false, a number or 'no' in quotes"),
        ("a: 010", "f.yaml:1: a: 010 is ambiguous; expected true, false, a number or '010' in quotes"),
        ("a: 1\nb: 2\na: 3", "f.yaml:3: a: stands twice; first in line 1; expected each key once"),
        ("a:\n\t- 1", "f.yaml:2: a tab in the indentation; expected spaces"),
        ("a: &x 1\nb: *x", "f.yaml:2: b: is an alias; expected the value itself, written out"),
        ("a: !!python/name:os.system", "f.yaml:1: a: has the tag 'tag:yaml.org,2002:python/name:os.system'; expected no tag"),
        ("x: {<<: {a: 1}}", "f.yaml:1: x: merges with `<<`; expected the values, written out"),
        ("- 1", "f.yaml:1: the document is [1]; expected a mapping that begins with `version: actuary/v1`"),
    ],
)  # fmt: skip
def test_what_yaml_leaves_ambiguous_is_refused_with_its_place(text: str, problem: str) -> None:
    assert parse(text)[1] == [problem]


def test_every_value_keeps_its_line(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a:\n  b: 1\n  c:\n    - x\n    - y\n---\nd: 2\n")
    first, second = read_documents(file, "f.yaml", Problems())
    assert first.locate(("a", "b")).line == 2
    assert first.locate(("a", "c", 1)).line == 5
    assert first.locate(("a", "missing", "below")).line == 1
    assert second.locate(("d",)).line == 7
