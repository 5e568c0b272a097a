from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .shim import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stand-in for libnvidia-ml.so.1 lies."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a stand-in lies that lacks the younger functions."""
    return build(tmp_path_factory.mktemp("old-nvml"), "-DOLD_DRIVER")
