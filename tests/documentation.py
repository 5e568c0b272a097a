"""Pages that are made from the catalogue; ``python -m tests.documentation`` writes them again."""

from __future__ import annotations

from pathlib import Path

from gpu_actuary import catalogue
from gpu_actuary.catalogue.cli import as_markdown

DOCS = Path(__file__).resolve().parent.parent / "docs"

OWNERS = {
    "exporters": "Published by the exporters",
    "rules": "Recorded by the rules",
    "predictor": "Published by the predictor",
    "simulator": "Published by the simulator",
}


def metrics_page() -> str:
    """``docs/metrics.md``: every series, the core ones first."""
    parts = [
        "# Metrics\n",
        "Generated from the catalogue (`actuary catalogue`); do not edit. `cluster` and `source` are"
        " set by the scrape configuration and therefore not among an exporter's own labels.\n",
        f"## Core\n\nThe {len(catalogue.core())} that matter most, and all that the overview"
        " dashboard shows.\n",
        as_markdown(catalogue.core()),
    ]
    for owner, title in OWNERS.items():
        parts += [f"\n## {title}\n", as_markdown(catalogue.owned_by(owner))]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    (DOCS / "metrics.md").write_text(metrics_page(), encoding="utf-8")
