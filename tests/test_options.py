"""Durations and listening addresses, as every component reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_actuary.errors import UsageError
from gpu_actuary.options import duration_seconds, join_address, parse_duration, parse_listen


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("250ms", 0.25),
        ("1h30m", 5400),
        ("24h", 86_400),
        ("1d12h", 129_600),
        ("2w", 1_209_600),
        ("1y", 31_536_000),
    ],
)
def test_durations_are_those_of_prometheus(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "24", "h", "1h1d", "-1h", "1.5h", "24 h", "1h ", "١h"])
def test_anything_else_is_not_a_duration(text: str) -> None:
    assert duration_seconds(text) is None


@given(st.text(max_size=20) | st.from_regex(r"(\d{1,3}(ms|s|m|h|d)){1,3}", fullmatch=True))
def test_a_duration_is_positive_seconds_or_a_clear_error(text: str) -> None:
    try:
        assert parse_duration(text, "--interval") > 0
    except UsageError as error:
        assert "--interval" in str(error)


def test_a_duration_below_the_least_is_refused_with_the_least() -> None:
    with pytest.raises(UsageError, match="--restart-every 10s: expected at least 75s"):
        parse_duration("10s", "--restart-every", at_least=75)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9410", ("127.0.0.1", 9410)),
        ("[::1]:0", ("::1", 0)),
        (":9410", ("", 9410)),
        ("node-7:80", ("node-7", 80)),
    ],
)
def test_addresses_are_understood_and_joined_again(text: str, address: tuple[str, int]) -> None:
    assert parse_listen(text) == address
    assert join_address(*address) == text


@pytest.mark.parametrize(
    "text", ["9410", "localhost", "::1:9410", "host:port", "host:70000", "h:²"]
)
def test_a_wrong_address_is_a_usage_error_that_names_it(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        parse_listen(text)


@given(st.text(max_size=20) | st.builds("{}:{}".format, st.text(max_size=9), st.integers()))
def test_any_address_is_a_port_or_a_clear_error(text: str) -> None:
    try:
        _, port = parse_listen(text)
    except UsageError as error:
        assert "--listen" in str(error)
    else:
        assert 0 <= port <= 65535
