"""``actuary predictor``."""

from __future__ import annotations

import logging
import math
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gpu_actuary.errors import UsageError
from gpu_actuary.formulas.risk import PRIOR_HAZARD_PER_GPU_DAY
from gpu_actuary.options import join_address, parse_duration, parse_listen
from gpu_actuary.prometheus import PrometheusClient
from gpu_actuary.serving import serving

from .exposition import PredictorCollector
from .hazard import PriorHazard
from .options import parse_headers, parse_prometheus
from .server import pages
from .service import Predictor, Settings

if TYPE_CHECKING:
    from types import FrameType

log = logging.getLogger(__name__)

predictor = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@predictor.callback()
def _group() -> None:
    """Failure probability and elastic budget."""


@predictor.command()
def serve(
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Prometheus to read from, with any path prefix.")
    ],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve /metrics; port 0: a free one.")
    ] = "127.0.0.1:9420",
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time from cycle to cycle.")
    ] = "60s",
    hazard_per_day: Annotated[
        float,
        typer.Option(metavar="RATE", help="Prior hazard: unexpected interruptions per GPU-day."),
    ] = PRIOR_HAZARD_PER_GPU_DAY,
    restart_hours: Annotated[
        float,
        typer.Option(metavar="HOURS", help="Time a job needs from interruption to its next step."),
    ] = 0.25,
    recovery_coefficient: Annotated[
        float,
        typer.Option(metavar="FACTOR", help="Budget per unit of expected loss."),
    ] = 1.0,
    stale_after: Annotated[
        str, typer.Option(metavar="DURATION", help="Older inputs give no results.")
    ] = "5m",
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="HTTP header of every request to Prometheus; repeatable."
        ),
    ] = None,
) -> None:
    """Estimate from Prometheus every interval and serve the results for it to scrape.

    Scrape it with honor_labels: true, since the results carry the cluster and source of their
    inputs. /-/ready answers 200 after the first successful cycle.
    """
    settings = Settings(
        interval_seconds=parse_duration(interval, "--interval"),
        stale_after_seconds=parse_duration(stale_after, "--stale-after"),
        restart_hours=_at_least_zero(restart_hours, "--restart-hours"),
        recovery_coefficient=_at_least_zero(recovery_coefficient, "--recovery-coefficient"),
    )
    if settings.stale_after_seconds <= settings.interval_seconds:
        raise UsageError(
            f"--stale-after {stale_after} must be longer than --interval {interval}: "
            "otherwise every result is stale before the next one is there"
        )
    hazard = PriorHazard(_at_least_zero(hazard_per_day, "--hazard-per-day"))
    host, port = parse_listen(listen)
    url, headers = parse_prometheus(prometheus), parse_headers(header or [])

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("gpu_actuary").setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    collector = PredictorCollector(hazard)
    with (
        serving(pages(collector), host, port) as bound,
        PrometheusClient(url, headers=headers) as client,
    ):
        log.info("serving http://%s/metrics", join_address(host, bound))
        Predictor(client, hazard, collector, settings).run()


def _stop(number: int, _: FrameType | None) -> None:
    log.info("stopping on %s", signal.Signals(number).name)
    sys.exit(0)


def _at_least_zero(value: float, option: str) -> float:
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{option} {value}: expected a finite number, at least 0")
    return value
