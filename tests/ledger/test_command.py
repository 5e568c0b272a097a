from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from gpu_actuary.cli import main
from tests.ledger.conftest import ODD_NAME
from tests.servers import exposition, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_actuary.prometheus import PrometheusClient

    Actuary = Callable[..., tuple[int, str, str]]

TWO_HOURS = ("--since", "2025-01-01T00:00:00Z", "--until", "2025-01-01T02:00:00Z")
ONE_HOUR = ("--since", "2025-01-01T00:00:00Z", "--until", "2025-01-01T01:00:00Z")


@pytest.fixture
def actuary(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Actuary:
    """Run ``actuary statement`` with arguments; returns exit code, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["actuary", "statement", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def rows(text: str) -> dict[str, list[str]]:
    """The rows of the first table by their first cell."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"[│┃]", line.strip("│┃"))]
        if len(cells) > 1 and cells[0] not in found:
            found[cells[0]] = cells[1:]
    return found


def test_the_printed_rows_add_up_to_the_printed_totals(
    server: PrometheusClient, actuary: Actuary
) -> None:
    code, out, _ = actuary("--prometheus", server.url, *TWO_HOURS, "--cluster", "gap")
    assert code == 0
    real = out.partition("Below the line")[0]
    table = rows(real)
    assert table["Assets: all supplied hours"] == ["7.2000", "14.400", "100.0"]
    assert table["Residual"] == ["0.0000", "0.000", "0.0"]
    for column in range(3):
        values = {name: Decimal(cells[column]) for name, cells in table.items() if name}
        liabilities = [v for n, v in values.items() if "(" not in n and n[0].islower()]
        equity = [v for n, v in values.items() if "(" in n]
        assert len(liabilities) == 8
        assert len(equity) == 4
        assert sum(liabilities) == values["Liabilities"]
        assert sum(equity) == values["Equity"]
        total = values["Liabilities"] + values["Equity"] + values["Residual"]
        assert total == values["Assets: all supplied hours"]


def test_the_table_says_what_is_simulated_what_is_missing_and_what_it_rests_on(
    server: PrometheusClient, actuary: Actuary
) -> None:
    _, out, err = actuary("--prometheus", server.url, *TWO_HOURS, "--cluster", "gap")
    assert out.count("SIMULATED, no real hardware") == 1
    assert "coverage: 90.0 % of the period has data (216 samples of 30 s)" in out
    assert "12m of the period have no data" in out
    assert "contingent liability (elastic budgets at the end): 2.00 USD" in out
    assert "prices of the Economics spec" in out
    assert err == ""


def test_jobs_are_listed_with_a_dash_for_what_is_unknown(
    server: PrometheusClient, actuary: Actuary
) -> None:
    _, out, _ = actuary("--prometheus", server.url, *ONE_HOUR, "--cluster", "jobs")
    table = rows(out.partition("Jobs")[2])
    assert table["full"] == [
        *("4.0000", "8.00", "data_wait 18.8 %", "0.750", "12.5 %"),
        *("0.04167", "0.740", "0.240", "40.0 %", "16"),
    ]
    assert table["bare"] == ["1.0000", *["–"] * 9]

    _, out, _ = actuary("--prometheus", server.url, *ONE_HOUR, "--cluster", "jobs", "--jobs", "1")
    assert "bare" not in out
    assert "and 1 smaller jobs with 1.00 GPU-hours" in out


def test_json_carries_units_in_its_keys_and_null_for_the_unknown(
    server: PrometheusClient, actuary: Actuary
) -> None:
    code, out, _ = actuary(
        *("--prometheus", server.url, *ONE_HOUR, "--cluster", "jobs", "--format", "json")
    )
    assert code == 0
    document = json.loads(out)
    assert document["period"] == {
        "since": "2025-01-01T00:00:00Z",
        "until": "2025-01-01T01:00:00Z",
        "duration_seconds": 3600,
    }
    (sheet,) = document["sheets"]
    assert sheet["assets_gpu_hours"] == pytest.approx(8)
    assert sheet["liabilities_gpu_hours"] == pytest.approx(4)
    assert sheet["assets_money_by_currency"] == {"USD": pytest.approx(16)}
    assert sheet["contingent_liability_money_by_currency"] is None
    states = {state["state"]: state for state in sheet["states"]}
    assert len(states) == 12
    assert states["compute"]["equity_kind"] == "proven"
    assert states["comm_wait"]["side"] == "liability"
    assert states["comm_wait"]["share_of_assets_ratio"] == pytest.approx(0.5)
    full, bare = sheet["jobs"]
    assert full["gpu_hours"] == pytest.approx(4)
    assert full["mfu_ratio"] == pytest.approx(0.4)
    assert bare["mfu_ratio"] is None
    assert bare["largest_waste_state"] is None


def test_odd_names_are_printed_as_they_are(server: PrometheusClient, actuary: Actuary) -> None:
    code, out, _ = actuary("--prometheus", server.url, *ONE_HOUR, "--cluster", ODD_NAME)
    assert code == 0
    assert f"cluster {ODD_NAME}" in out


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--since", "tomorrow"), 2, "neither a duration"),
        (("--since", "1h", "--until", "later"), 2, "neither a duration"),
        (("--header", "X-Scope-OrgID"), 2, "expected KEY=VALUE"),
        (("--header", "X-Team=Zürich"), 2, "ASCII"),
        (("--format", "xml"), 2, "xml"),
        (("--prometheus", "not an address"), 1, "not an address"),
    ],
)
def test_wrong_use_gets_a_clear_message(
    actuary: Actuary, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    ended, out, err = actuary(*arguments)
    assert ended == code
    assert complaint in err
    assert "Traceback" not in err
    assert out == ""


def test_no_data_and_a_dead_server_end_with_one(server: PrometheusClient, actuary: Actuary) -> None:
    ended, out, err = actuary("--prometheus", server.url, "--since", "5m")
    assert (ended, out) == (1, "")
    assert "has no samples of cluster:inventory_gpus:count" in err

    address = f"http://127.0.0.1:{free_port()}"
    ended, out, err = actuary("--prometheus", address)
    assert (ended, out) == (1, "")
    assert f"{address} cannot be reached" in err


def test_a_server_that_is_no_prometheus_is_named(actuary: Actuary) -> None:
    with exposition(lambda _: "hello") as address:
        ended, _, err = actuary("--prometheus", f"http://{address}")
    assert ended == 1
    assert "is it a Prometheus?" in err
