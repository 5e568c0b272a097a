"""The documentation is current and leads nowhere that does not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from gpu_actuary import catalogue
from tests.documentation import DOCS, OWNERS, metrics_page

if TYPE_CHECKING:
    from pathlib import Path

ROOT = DOCS.parent
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_the_table_of_metrics_is_current() -> None:
    """Refresh it with ``make golden``."""
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == metrics_page()


def test_every_owner_of_a_series_has_its_section() -> None:
    assert {series.owner for series in catalogue.ALL} == set(OWNERS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path = target.partition("#")[0]
        if path and "://" not in path:
            assert (page.parent / path).exists(), f"{page.name} links to {target}"


def test_every_alert_has_a_runbook_with_the_four_sections() -> None:
    alerts = [
        document
        for path in sorted((ROOT / "rules").rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document["kind"] in ("Alert", "Baseline")
    ]
    assert alerts
    for alert in alerts:
        page = DOCS / "runbooks" / f"{alert['runbook']}.md"
        assert page.exists(), f"{alert['name']}: {page} is missing"
        text = page.read_text(encoding="utf-8")
        for section in ("Meaning", "Impact", "Diagnosis", "Mitigation"):
            assert f"**{section}.**" in text, f"{page.name} lacks {section}"
