"""Values of command-line options: the server's address and headers. Errors name the option."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx

from gpu_actuary.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def parse_prometheus(text: str) -> str:
    """The base address of a Prometheus-compatible server."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"--prometheus is not a web address: {error}") from error
    if url.userinfo:
        # Log lines name the address, so a password in it would spread; nor is it repeated here.
        raise UsageError(
            "--prometheus: expected an address without user and password; "
            "give them as --header 'Authorization=Basic …'"
        )
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(
            f"--prometheus {text!r}: expected an address such as http://127.0.0.1:9090"
        )
    return text


def parse_headers(pairs: Sequence[str]) -> dict[str, str]:
    """``["X-Scope-OrgID=team"]`` as a mapping."""
    headers: dict[str, str] = {}
    for position, pair in enumerate(pairs, start=1):
        name, equals, value = pair.partition("=")
        # The value may be a password: the message must not repeat it.
        if not equals or not _HEADER_NAME.fullmatch(name) or not _is_header_value(value):
            raise UsageError(
                f"--header number {position} (name {name!r} "
                f"{'' if equals else 'without a value'}): expected NAME=VALUE in ASCII, "
                "such as X-Scope-OrgID=team"
            )
        headers[name] = value
    return headers


def _is_header_value(value: str) -> bool:
    return value.isascii() and value.isprintable()
