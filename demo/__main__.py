"""``python -m demo``: run the whole of GPU Actuary, show what it found, and clean up."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path

from rich.console import Console

from gpu_actuary.prometheus import PrometheusClient

from .checks import Checks
from .configuration import write_summary
from .crash import Crash
from .notifications import received_alerts, receiving
from .processes import adopt_orphans
from .report import print_alerts, print_failure, print_results, print_statement, summary
from .settings import PATIENCE_SECONDS, ROOT, DemoError, Settings, check_ports, number_from
from .stack import Stack, prepared_folder

EXIT_FAILED = 1
EXIT_USAGE = 2
LOOK_EVERY_SECONDS = 2.0
SAY_EVERY_SECONDS = 10.0
LAST_LOOK_SECONDS = 20.0
"""How long the conditions may take to hold again at the end: a scrape may just have been late."""

console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


class Run:
    """One run, from the start of the processes to the verdict."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._began = time.monotonic()
        self._said = 0.0
        self._stack = Stack(settings, self._say)
        self._crash = Crash(settings.folder / "training")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        console.print(f"[{self._elapsed():4.0f} s] {text}")

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> int:
        """Returns the exit code; whatever happens, nothing keeps running."""
        settings = self._settings
        notifications = settings.folder / "notifications.jsonl"
        try:
            self._stack.start()
            with (
                receiving(settings.address("notifications"), notifications),
                PrometheusClient(settings.url("prometheus")) as client,
            ):
                return self._watch(Checks(settings, client), notifications)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            self._say("ending all processes")
            self._stack.children.stop()

    def _watch(self, checks: Checks, notifications: Path) -> int:
        settings = self._settings
        end = PATIENCE_SECONDS if settings.seconds is None else settings.seconds
        passed = self._wait(checks, until=end)
        if passed:
            print_results(console, settings, checks)
            if not settings.once:
                self._stay()
                if settings.seconds is not None:
                    passed = self._wait(checks, until=self._elapsed() + LAST_LOOK_SECONDS)
                print_statement(console, settings, checks)
        print_alerts(console, received_alerts(notifications))
        write_summary(
            settings.folder / "summary.json",
            summary(settings, checks, self._elapsed(), received_alerts(notifications)),
        )
        if passed:
            self._say("all checks passed")
            return 0
        for check in checks.missing():
            print_failure(console, check, self._stack.log_tail(check.log))
        return EXIT_FAILED

    def _wait(self, checks: Checks, *, until: float) -> bool:
        """Wait for all conditions, and say now and then for which."""
        while not checks.look():
            if self._elapsed() > until:
                return False
            if time.monotonic() - self._said > SAY_EVERY_SECONDS:
                missing = [f"{check.name} ({check.missing})" for check in checks.missing()]
                self._say(f"waiting for: {'; '.join(missing)}")
            self._pause(LOOK_EVERY_SECONDS)
        return True

    def _stay(self) -> None:
        """Until the end that was asked for, or Ctrl-C."""
        end = self._settings.seconds
        how_long = "Ctrl-C ends" if end is None else f"runs until {end:g} s have passed"
        self._say(f"the demonstration goes on; {how_long}")
        with contextlib.suppress(KeyboardInterrupt):
            while end is None or self._elapsed() < end:
                self._pause(LOOK_EVERY_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Let time pass, kill the rank when it is due, and see that everything runs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._crash.tick():
                self._say("killed rank 1 of the training with SIGKILL, between two checkpoints")
            child = self._stack.ended()
            if child is not None:
                raise DemoError(
                    f"{child.name} ended ({child.process.returncode}):\n{child.log_tail()}"
                )
            time.sleep(0.2)


def parse_settings() -> Settings:
    """What the command line and the environment say."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=ROOT / ".demo", help="everything is kept here"
    )
    parser.add_argument("--once", action="store_true", help="end as soon as all checks have passed")
    arguments = parser.parse_args()
    base = number_from("DEMO_PORT_BASE", 19090)
    if base is None or base != int(base):
        raise DemoError(f"DEMO_PORT_BASE={base}: expected a whole number")
    return Settings(
        folder=arguments.folder.resolve(),
        port_base=int(base),
        seconds=number_from("DEMO_SECONDS", None),
        once=arguments.once,
    )


def main() -> int:
    """Run the demonstration; returns the exit code."""
    if sys.platform != "linux":
        console.print("demo: needs Linux")
        return EXIT_USAGE
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(EXIT_FAILED))
    try:
        settings = parse_settings()
        check_ports(settings)
        run = Run(settings)
        with prepared_folder(settings.folder):
            return run.run()
    except DemoError as error:
        console.print(f"demo: {error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        console.print("demo: interrupted before the results were there")
        return 130


sys.exit(main())
