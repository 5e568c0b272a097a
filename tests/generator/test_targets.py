"""What is rendered for each target, judged by the target's own tools where they are at hand."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from gpu_actuary.errors import UsageError
from gpu_actuary.generator.check import check as run_checks
from gpu_actuary.generator.layouts import Manifest
from gpu_actuary.generator.models import STAGES
from gpu_actuary.generator.output import write_files
from gpu_actuary.generator.problems import SpecError
from gpu_actuary.generator.render import Rendered, render
from gpu_actuary.generator.targets import TARGETS, server, shown

from .folders import alert, builtin, expressions, recording, write

if TYPE_CHECKING:
    from gpu_actuary.generator.models import Stage

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "targets.md"


def run(tool: str, *arguments: str) -> str:
    """What a tool says against its input; empty when it is content."""
    binary = shutil.which(tool)
    assert binary, f"{tool} is not installed: make tools"
    done = subprocess.run([binary, *arguments], capture_output=True, text=True)
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def groups(rendered: Rendered) -> list[dict[str, Any]]:
    documents = [yaml.safe_load(text) for text in rendered.rule_files().values()]
    return [group for d in documents for group in d.get("spec", d)["groups"]]


@pytest.mark.parametrize("stage", STAGES)
def test_vmalert_accepts_every_rule_of_every_stage(stage: Stage, tmp_path: Path) -> None:
    rendered = render(server=server("vmalert"), stage=stage)
    write_files(tmp_path, rendered.rule_files())
    assert run("vmalert", "-dryRun", f"-rule={tmp_path}/*.yaml") == ""


@pytest.mark.parametrize("target", TARGETS)
def test_prometheus_accepts_every_expression_that_is_rendered_for_any_target(
    target: str, tmp_path: Path
) -> None:
    rendered = render(server=server(target))
    write_files(tmp_path, rendered.plain_rule_files())
    assert run("promtool", "check", "rules", *map(str, tmp_path.iterdir())) == ""


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_gets_every_rule_once(target: str) -> None:
    rendered = render(server=server(target))
    names = sorted(rule.name for rule in rendered.rules())
    assert names == sorted(rule.name for rule in render().rules())
    written = [r.get("record") or r["alert"] for g in groups(rendered) for r in g["rules"]]
    assert sorted(written) == names


def test_what_is_rendered_for_thanos_and_the_operator_is_evaluated_as_on_prometheus() -> None:
    same = {group["name"]: group["rules"] for group in groups(render())}
    for target in ("thanos", "operator"):
        rendered = render(server=server(target))
        assert {group["name"]: group["rules"] for group in groups(rendered)} == same


def test_thanos_must_not_count_what_a_silent_store_hides() -> None:
    rendered = render(server=server("thanos"))
    assert {group["partial_response_strategy"] for group in groups(rendered)} == {"abort"}


def test_a_manifest_carries_the_labels_that_a_rule_selector_asks_for() -> None:
    manifest = Manifest({"release": "monitoring"}, "observability")
    rendered = render(server=server("operator"), manifest=manifest)
    assert rendered.notes == ()
    for text in rendered.rule_files().values():
        document = yaml.safe_load(text)
        assert (document["apiVersion"], document["kind"]) == (
            "monitoring.coreos.com/v1",
            "PrometheusRule",
        )
        assert document["metadata"]["labels"] == {"release": "monitoring"}
        assert document["metadata"]["namespace"] == "observability"
    [note] = render(server=server("operator")).notes
    assert "ignores them in silence" in note


def test_the_operator_gets_alertmanagers_configuration_as_a_secret(tmp_path: Path) -> None:
    rendered = render(server=server("operator"))
    secret = yaml.safe_load(rendered.files["alertmanager-secret.yaml"])
    configuration = write(tmp_path, "a.yaml", secret["stringData"]["alertmanager.yaml"])
    assert run("amtool", "check-config", str(configuration)) == ""


def test_mimir_gets_groups_that_it_takes_and_namespaces_of_their_own() -> None:
    rendered = render(server=server("mimir"))
    assert max(len(group["rules"]) for group in groups(rendered)) == 20
    assert all(group["align_evaluation_time_on_interval"] for group in groups(rendered))
    namespaces = [yaml.safe_load(text)["namespace"] for text in rendered.rule_files().values()]
    assert sorted(namespaces) == sorted(set(namespaces))


def test_the_ledger_stands_in_one_group_of_mimir_and_reads_nothing_late() -> None:
    rendered = render(server=server("mimir"))
    [ledger] = [g for g in rendered.groups if "cluster:ledger_residual:ratio" in names(g)]
    assert {"gpu:inventory:bool", "gpu:ledger_share:rate", "cluster:ledger_gpus:rate"} <= names(
        ledger
    )
    texts = {rule.name: rule.expression.text for rule in ledger.rules}
    assert "offset" not in texts["cluster:ledger_residual:ratio"]


def names(group: Any) -> set[str]:
    return {rule.name for rule in group.rules}


CHAIN = {
    "a": recording("a", "cluster:a:sum", "sum(up)"),
    "b": recording("b", "cluster:b:sum", "cluster:a:sum + sum(up) + time()"),
    "c": recording("c", "cluster:c:sum", "sum_over_time(cluster:a:sum[5m]) * cluster:b:sum"),
    "d": recording("d", "cluster:d:sum", "last_over_time(cluster:d:sum[1h]) + cluster:a:sum"),
}


def test_on_vmalert_all_that_a_rule_reads_describes_one_moment(tmp_path: Path) -> None:
    rendered = render(builtin=builtin(tmp_path, **CHAIN), server=server("vmalert"))
    assert expressions(rendered) == {
        "cluster:a:sum": "sum(up)",
        "cluster:b:sum": (
            "last_over_time(cluster:a:sum[30s] offset 30s) + sum(up offset 30s) + (time() - 30)"
        ),
        "cluster:c:sum": (
            "sum_over_time(cluster:a:sum[5m] offset 60s) "
            "* last_over_time(cluster:b:sum[30s] offset 30s)"
        ),
        "cluster:d:sum": (
            "last_over_time(cluster:d:sum[1h]) + last_over_time(cluster:a:sum[30s] offset 30s)"
        ),
    }


def test_on_mimir_only_what_another_group_records_is_read_late(tmp_path: Path) -> None:
    chain = {f"n{i:02}": recording(f"n{i:02}", f"cluster:n{i:02}:sum", read(i)) for i in range(45)}
    rendered = render(builtin=builtin(tmp_path, **chain), server=server("mimir"))
    assert [len(group.rules) for group in rendered.groups] == [20, 20, 5]
    texts = expressions(rendered)
    assert texts["cluster:n19:sum"] == "cluster:n18:sum + sum(up)"
    assert texts["cluster:n20:sum"] == "cluster:n19:sum offset 30s + sum(up offset 30s)"
    assert texts["cluster:n21:sum"] == "cluster:n20:sum + sum(up offset 30s)"
    assert texts["cluster:n44:sum"] == "cluster:n43:sum + sum(up offset 60s)"


def read(number: int) -> str:
    return f"cluster:n{number - 1:02}:sum + sum(up)" if number else "sum(up)"


def test_a_recursion_over_several_rules_keeps_its_round_on_vmalert(tmp_path: Path) -> None:
    folder = builtin(
        tmp_path,
        a=recording("a", "cluster:a:sum", "sum(up) - last_over_time(cluster:b:sum[1h])"),
        b=recording("b", "cluster:b:sum", "last_over_time(cluster:b:sum[1h]) + cluster:a:sum"),
    )
    texts = expressions(render(builtin=folder, server=server("vmalert")))
    assert texts["cluster:a:sum"] == "sum(up) - last_over_time(cluster:b:sum[1h])"
    assert texts["cluster:b:sum"] == (
        "last_over_time(cluster:b:sum[1h]) + (sum(up) - last_over_time(cluster:b:sum[1h]))"
    )


def test_a_recursion_that_cannot_be_written_for_vmalert_is_refused(tmp_path: Path) -> None:
    folder = builtin(
        tmp_path,
        a=recording("a", "cluster:a:sum", "sum(up) - last_over_time(cluster:b:sum[1h])"),
        b=recording("b", "cluster:b:sum", "'cluster:a:sum{source=\"x\"} + 1'"),
    )
    with pytest.raises(SpecError) as caught:
        render(builtin=folder, server=server("vmalert"))
    [problem] = map(str, caught.value.problems)
    assert 'reads cluster:a:sum{source="x"} in a recursion, which vmalert cannot' in problem


def test_an_expression_that_victoriametrics_would_refuse_for_its_length_is_refused(
    tmp_path: Path,
) -> None:
    long = f"'sum(up{{job=\"{'j' * 16384}\"}})'"
    folder = builtin(tmp_path, a=recording("a", "cluster:a:sum", long))
    assert render(builtin=folder).rules()
    with pytest.raises(SpecError) as caught:
        render(builtin=folder, server=server("vmalert"))
    [problem] = map(str, caught.value.problems)
    assert "cluster:a:sum is longer than the 16384 bytes that vmalert takes" in problem


def test_more_groups_than_mimir_takes_are_refused(tmp_path: Path) -> None:
    many = {f"n{i}": recording(f"n{i}", f"cluster:n{i}:sum", "sum(up)") for i in range(1401)}
    with pytest.raises(SpecError) as caught:
        render(builtin=builtin(tmp_path, **many), server=server("mimir"))
    [problem] = map(str, caught.value.problems)
    assert "the rules need 71 groups, and Grafana Mimir takes 70" in problem


def test_keep_firing_for_is_left_out_where_it_is_unknown_and_said_so(tmp_path: Path) -> None:
    folder = builtin(tmp_path, a=alert("down", "up == 0") + "keep_firing_for: 5m\n")
    old = render(builtin=folder, server=server("vmalert"))
    assert "keep_firing_for" not in groups(old)[0]["rules"][0]
    [note] = old.notes
    assert note.startswith("vmalert 1.79 knows no keep_firing_for: 1 alerts")
    new = render(builtin=folder, server=server("vmalert", "v1.92.0"))
    assert groups(new)[0]["rules"][0]["keep_firing_for"] == "5m"
    assert new.notes == ()


def test_an_interval_that_is_too_short_to_see_the_round_before_is_said(tmp_path: Path) -> None:
    folder = builtin(tmp_path, a=recording("a", "cluster:a:sum", "sum(up)") + "interval: 5s\n")
    [note] = render(builtin=folder, server=server("vmalert")).notes
    assert note.startswith("gpu-actuary-5s is evaluated every 5s: vmalert may not see in time")


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("prometheus", "2.37.0", "Prometheus 2.37.0 is too old; expected 2.42 or later"),
        ("mimir", "two", "'two' is no version; expected one such as 2.7"),
        ("promtheus", None, "did you mean 'prometheus'"),
    ],
)
def test_a_target_or_version_that_is_none_is_a_usage_error(
    name: str, version: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        server(name, version)


@pytest.mark.parametrize("version", ["2.42", "v2.53.1", "3.0.0-rc.1", "3.7.2"])
def test_versions_are_read_as_people_write_them(version: str) -> None:
    assert render(server=server("prometheus", version)).rule_files() == render().rule_files()


def test_the_documentation_says_what_the_data_say() -> None:
    text = DOCUMENTATION.read_text("utf-8")
    lines = text.splitlines()
    for target in TARGETS.values():
        [row] = [line for line in lines if line.startswith(f"| `{target.name}` |")]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[1] == f"{target.title} {shown(target.oldest)}"
        assert cells[2] == target.layout
        assert cells[3] == target.visibility
        assert cells[4] == str(target.rules_per_group or "any")
        since = max(target.oldest, target.keep_firing_for)
        assert cells[5] == (f"from {shown(since)}" if since > target.oldest else "yes")
        assert cells[6] == (", ".join(f"`{key}`" for key in target.group_fields) or "none")


@pytest.mark.parametrize(
    ("target", "check", "status"),
    [
        ("prometheus", "promtool check rules", "ok"),
        ("vmalert", "vmalert -dryRun", "ok"),
        ("operator", "rule files", "skipped"),
        ("mimir", "rule files", "skipped"),
        ("thanos", "rule files", "skipped"),
    ],
)
def test_a_rendered_folder_is_checked_by_what_can_read_it(
    target: str, check: str, status: str, tmp_path: Path
) -> None:
    folder = builtin(tmp_path, a=alert("down", "up == 0"))
    write_files(tmp_path / "out", render(builtin=folder, server=server(target)).files)
    outcomes = list(run_checks(tmp_path / "out", lambda _: None))
    assert (outcomes[0].check, outcomes[0].status) == (check, status)
    assert all(outcome.status != "failed" for outcome in outcomes), outcomes


def test_specs_are_checked_for_prometheus_and_then_for_the_target(tmp_path: Path) -> None:
    folder = builtin(tmp_path, a=recording("a", "cluster:a:sum", "sum(up)"))
    for target in ("vmalert", "mimir", "thanos", "operator"):
        outcomes = list(run_checks(None, lambda _: None, builtin=folder, server=server(target)))
        assert outcomes[-2].check == f"specs for {target}"
        assert (outcomes[-1].check.endswith(f" for {target}"), outcomes[-1].status) == (True, "ok")
