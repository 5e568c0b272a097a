from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpu_actuary.errors import UsageError
from gpu_actuary.generator.models import Economics
from gpu_actuary.generator.output import write_files
from gpu_actuary.generator.render import render

from .folders import SETTINGS, alert, builtin, expressions, problems_of, recording, write

if TYPE_CHECKING:
    from pathlib import Path

PRICES = recording("prices", "cluster:price:sum", "up * << economics.default_price_per_gpu_hour >>")


def test_a_users_settings_replace_only_the_fields_that_they_name(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(
        user,
        "mine.yaml",
        """\
        version: actuary/v1
        kind: Economics
        name: default
        energy: {pue: 1.1}
        prices: []
        """,
    )
    rendered = render(user, builtin=builtin(tmp_path))
    economics, entry = next(rendered.specs.of(Economics))
    assert (economics.energy.pue, economics.energy.price_per_kwh) == (1.1, 0.12)
    assert economics.prices == []
    assert entry.locate("energy", "pue").file.endswith("mine.yaml")
    assert entry.locate("energy", "price_per_kwh").file.endswith("settings.yaml")


def test_a_users_spec_of_another_kind_replaces_the_built_in_one_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "user", "mine.yaml", recording("prices", "cluster:mine:sum", "up"))
    rendered = render(tmp_path / "user", builtin=builtin(tmp_path, prices=PRICES))
    assert expressions(rendered) == {"cluster:mine:sum": "up"}


def test_a_user_can_disable_a_built_in_spec(tmp_path: Path) -> None:
    write(
        tmp_path / "user",
        "off.yaml",
        "version: actuary/v1\nkind: Recording\nname: prices\ndisabled: true\n",
    )
    rendered = render(tmp_path / "user", builtin=builtin(tmp_path, prices=PRICES))
    assert expressions(rendered) == {}


def test_an_alert_that_the_built_in_routes_name_can_be_disabled(tmp_path: Path) -> None:
    folder = builtin(tmp_path, a=alert("gone", "up == 0"), b=alert("silent", "up == 1"))
    write(
        folder,
        "settings.yaml",
        SETTINGS + "inhibit:\n  - {source: [gone], target: [silent], equal: [node]}\n",
    )
    assert "inhibit_rules: []" not in render(builtin=folder).files["alertmanager.yaml"]
    write(
        tmp_path / "user",
        "off.yaml",
        "version: actuary/v1\nkind: Alert\nname: silent\ndisabled: true\n",
    )
    rendered = render(tmp_path / "user", builtin=folder)
    assert "inhibit_rules: []" in rendered.files["alertmanager.yaml"]


def test_a_missing_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not a folder"):
        render(tmp_path / "nowhere", builtin=builtin(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "version: actuary/v1\nkind: Recordng\nname: x\n",
            "spec.yaml:2: kind: 'Recordng' is not known (did you mean 'Recording'?); expected one "
            "of Economics, Inventory, Ledger, Recording, Alert, Baseline, Route",
        ),
        (
            "version: v1\nkind: Recording\nname: x\n",
            "spec.yaml:1: version: 'v1' is not known; expected actuary/v1",
        ),
        (
            "version: actuary/v1\nkind: Economics\nname: default\nenergy: {pu: 1.2}\n",
            "spec.yaml:4: energy.pu: is not a known key (did you mean 'pue'?); expected one of "
            "price_per_kwh, pue",
        ),
        (
            "version: actuary/v1\nkind: Economics\nname: default\nenergy: {pue: 0.5}\n",
            "spec.yaml:4: energy.pue: 0.5 does not fit; expected a number of at least 1",
        ),
        (
            "version: actuary/v1\nkind: Economics\nname: default\ncurrency: 5\n",
            "spec.yaml:4: currency: 5 does not fit; expected a currency code of three capital "
            "letters, such as USD",
        ),
        (
            "version: actuary/v1\nkind: Ledger\nname: default\nwindow: 5 minutes\n",
            "spec.yaml:4: window: '5 minutes' does not fit; expected a duration such as 30s, 5m, "
            "1h, 1d or 2w",
        ),
        (
            "version: actuary/v1\nkind: Ledger\nname: default\nbusy_above: 5\n",
            "spec.yaml:4: busy_above: 5 does not fit; expected a percentage such as 5%, or a ratio "
            "from 0 to 1",
        ),
        (
            "version: actuary/v1\nkind: Economics\nname: default\nprices:\n"
            '  - {model: "(", per_gpu_hour: 1}\n',
            "spec.yaml:5: prices[0].model: '(' does not fit; expected a regular expression "
            "(missing ), unterminated subpattern at position 0)",
        ),
        (
            "version: actuary/v1\nkind: Ledger\nname: default\nevaluation_interval: 0s\n",
            "spec.yaml:4: evaluation_interval: '0s' does not fit; expected a duration above 0, "
            "such as 30s",
        ),
        (
            recording("x", "cluster:a:b", "up")
            + "tests: [{name: t, input: [], expect: [{at: 1m, alert: []}]}]\n",
            "spec.yaml:9: tests: expect an alert, which a Recording has not; expected `query` and "
            "`samples`",
        ),
        (
            recording("x", "cluster:a:b", "up")
            + "tests: [{name: t, input: [], expect: [{at: 1m, query: up}]}]\n",
            "spec.yaml:9: tests[0].expect[0]: expects nothing, or two things; expected either `alert`, "
            "or `query` together with `samples`",
        ),
        (
            "version: actuary/v1\nkind: Recording\nname: x\nrules: []\n",
            "spec.yaml:4: rules: [] does not fit; expected at least 1 of them",
        ),
        (
            "version: actuary/v1\nkind: Recording\nname: x\nrules:\n  - record: cluster:a:b\n",
            "spec.yaml:5: rules[0].expr: is missing; expected this key",
        ),
        (
            "version: actuary/v1\nkind: Recording\nname: prices\n---\n"
            "version: actuary/v1\nkind: Recording\nname: prices\n",
            "spec.yaml:7: name: Recording prices stands twice; first at spec.yaml:3",
        ),
        (
            "version: actuary/v1\nkind: Alert\nname: nothing\ndisabled: true\n",
            "spec.yaml:3: name: there is no built-in Alert 'nothing' to disable",
        ),
    ],
)
def test_a_mistake_in_a_spec_gives_its_place_and_what_was_expected(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert problem in problems_of(tmp_path, text)


def test_all_mistakes_of_a_folder_are_reported_together(tmp_path: Path) -> None:
    text = recording("a", "cluster:a:b", "sum(") + "---\n" + recording("b", "b", "rate(up[5m])")
    problems = problems_of(tmp_path, text)
    assert len(problems) == 2
    assert problems[0].startswith("spec.yaml:8: rules[0].expr: PromQL: unclosed left parenthesis")
    assert problems[1].startswith("spec.yaml:14: rules[0].record: 'b' is not a recorded name")


def test_rendered_files_inside_the_folder_of_specs_are_no_specs(tmp_path: Path) -> None:
    user = tmp_path / "user"
    write(user, "mine.yaml", recording("prices", "cluster:mine:sum", "up"))
    folder = builtin(tmp_path)
    first = render(user, builtin=folder)
    write_files(user / "rendered", first.files)
    assert render(user, builtin=folder).files == first.files
