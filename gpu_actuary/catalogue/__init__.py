"""The metric catalogue: every series of every component, with exactly one owner.

It drives what the exporters expose, which names the rules may record, what the dashboards call
core, and the table of series in the documentation; tests compare the real exposition with it.
"""

from __future__ import annotations

from typing import Final

from gpu_actuary.catalogue.exported import EXPORTED
from gpu_actuary.catalogue.model import LEVELS, Series
from gpu_actuary.catalogue.recorded import PREDICTOR, RECORDED, SIMULATOR

ALL: Final[tuple[Series, ...]] = (*EXPORTED, *RECORDED, *PREDICTOR, *SIMULATOR)

MAX_CORE: Final = 20
"""More core metrics than a person can look at are no core metrics."""


def _index() -> dict[str, Series]:
    by_name: dict[str, Series] = {}
    for series in ALL:
        if series.name in by_name:
            raise ValueError(f"{series.name} stands twice in the catalogue")
        by_name[series.name] = series
    return by_name


BY_NAME: Final[dict[str, Series]] = _index()


def get(name: str) -> Series:
    """The catalogue's entry of ``name``; ``KeyError`` names what is missing."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise KeyError(f"{name} is not in the metric catalogue") from None


def core() -> tuple[Series, ...]:
    """The metrics that the overview dashboard and the first page of the docs show."""
    return tuple(series for series in ALL if series.core)


def owned_by(owner: str) -> tuple[Series, ...]:
    """All series of one component."""
    return tuple(series for series in ALL if series.owner == owner)


__all__ = ["ALL", "BY_NAME", "LEVELS", "MAX_CORE", "Series", "core", "get", "owned_by"]
