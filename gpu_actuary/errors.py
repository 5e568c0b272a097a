"""Errors that a person caused or can mend; the command line prints them without a traceback."""

from __future__ import annotations


class ActuaryError(Exception):
    """Base of every error that is reported as one clear message."""


class UsageError(ActuaryError):
    """The call, a specification or the environment is wrong: exit code 2."""


class PrometheusError(ActuaryError):
    """Prometheus did not answer, or answered with an error."""


class PrometheusUnreachableError(PrometheusError):
    """Nobody answered: the connection failed, broke off or timed out."""
