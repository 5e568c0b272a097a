"""What every dashboard has: uid, tag, links to the others, refresh, time zone, crosshair."""

from __future__ import annotations

from typing import Any, Final

import grafanalib.core as g

TAG: Final = "gpu-actuary"


def dashboard(
    uid: str,
    title: str,
    description: str,
    panels: list[Any],
    variables: list[Any],
    *,
    since: str,
) -> Any:
    """A dashboard that opens with the time range from ``since`` (like ``now-6h``) to now.

    ``uid`` is for ever: bookmarks and links hold it.
    """
    return g.Dashboard(
        uid=uid,
        title=f"GPU Actuary / {title}",
        description=description,
        tags=[TAG],
        links=[
            g.DashboardLink(
                title="GPU Actuary dashboards",
                type="dashboards",
                tags=[TAG],
                keepTime=True,
                includeVars=True,
            )
        ],
        panels=panels,
        templating=g.Templating(list=variables),
        time=g.Time(since, "now"),
        timezone="browser",
        refresh="1m",
        graphTooltip=g.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
    )
