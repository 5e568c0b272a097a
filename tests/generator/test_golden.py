from __future__ import annotations

from tests import golden


def test_the_golden_files_are_current() -> None:
    assert golden.committed() == golden.rendered(), "refresh them: python -m tests.golden"
