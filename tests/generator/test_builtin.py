from __future__ import annotations

from gpu_actuary.generator.check import check


def test_the_built_in_specs_pass_every_check() -> None:
    outcomes = list(check(None, lambda _: None))
    assert [o for o in outcomes if o.status != "ok"] == []
    assert "promtool test rules" in {o.check for o in outcomes}
