"""Refresh the golden files."""

from __future__ import annotations

from gpu_actuary.generator.output import write_files
from tests.golden import FOLDER, rendered

write_files(FOLDER, rendered(), stale=["**/*.yaml"])
