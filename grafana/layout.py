"""Placing panels on Grafana's grid, left to right and top to bottom."""

from __future__ import annotations

from typing import Any, Final

from grafanalib.core import GridPos, Repeat, RowPanel

COLUMNS: Final = 24


class Page:
    """Collects panels; each goes beside the one before, or under it when the line is full."""

    def __init__(self) -> None:
        self.panels: list[Any] = []
        self._x = 0
        self._y = 0
        self._line_height = 0

    def row(self, title: str, *, repeat: str | None = None) -> None:
        """Start a section. With ``repeat`` Grafana shows it once for each value of a variable."""
        self._next_line()
        row = RowPanel(title=title, repeat=Repeat(variable=repeat))
        row.gridPos = GridPos(h=1, w=COLUMNS, x=0, y=self._y)
        self.panels.append(row)
        self._y += 1

    def add(self, panel: Any, *, width: int, height: int) -> None:
        """Place ``panel``; ``width`` in columns of 24, ``height`` in units of 30 pixels."""
        if self._x + width > COLUMNS:
            self._next_line()
        panel.gridPos = GridPos(h=height, w=width, x=self._x, y=self._y)
        self.panels.append(panel)
        self._x += width
        self._line_height = max(self._line_height, height)

    def _next_line(self) -> None:
        self._y += self._line_height
        self._x = 0
        self._line_height = 0
