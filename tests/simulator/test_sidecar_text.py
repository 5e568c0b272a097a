"""The simulated sidecar text is that of the real sidecar: names, types, labels, restarts."""

from __future__ import annotations

import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.catalogue import get
from gpu_actuary.catalogue.exported import EXPORTED, GRADIENT, NVML, SUPPLY

from .reading import NODES, STARTED, only, select, sidecar_text, simulation, values

OWN_OF_THE_REAL_SIDECAR = {
    s.name for s in EXPORTED if s.layer == "health" or s in (*NVML, *GRADIENT, *SUPPLY)
}
PARSED_TYPES = {"info": "gauge"}
"""The text format has no info type."""


def _parsed() -> dict[str, tuple[str, str, set[frozenset[str]]]]:
    """Type, help and label keys by catalogue name, over all nodes."""
    found: dict[str, tuple[str, str, set[frozenset[str]]]] = {}
    for node in NODES:
        text = sidecar_text(simulation(), node, 100)
        for family in text_string_to_metric_families(text):
            name = family.name + ("_total" if family.type == "counter" else "")
            keys = {frozenset(sample.labels) - {"le"} for sample in family.samples}
            known = found.setdefault(name, (family.type, family.documentation, set()))
            known[2].update(keys)
    return found


def test_names_types_help_and_labels_are_exactly_the_catalogues() -> None:
    parsed = _parsed()
    expected = {s.name for s in EXPORTED} - OWN_OF_THE_REAL_SIDECAR | {"actuary_simulator_info"}
    assert set(parsed) == expected
    for name, (kind, text, keys) in parsed.items():
        series = get(name)
        assert kind == PARSED_TYPES.get(series.type, series.type), name
        assert text == series.help, name
        assert keys == {frozenset(series.labels)}, name


def test_values_of_closed_labels_are_the_catalogues() -> None:
    for node in NODES:
        for name, labels in values(sidecar_text(simulation(), node, 100)):
            series = next((s for s in EXPORTED if s.name == name), None)
            for label, allowed in (series.values if series else {}).items():
                assert dict(labels)[label] in allowed, name


@pytest.mark.parametrize("node", NODES)
def test_every_node_says_that_it_is_simulated(node: str) -> None:
    found = values(sidecar_text(simulation(seed=7), node, 1))
    assert only(found, "actuary_simulator_info", seed="7") == 1


@pytest.mark.parametrize("node", ["sim-a", "sim-c"])
def test_promtool_finds_nothing_to_say(node: str) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=sidecar_text(simulation(), node, 100),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_ranks_gpu_is_the_gpu_that_dcgm_shows() -> None:
    fleet = simulation()
    for node, label in (("sim-a", "UUID"), ("sim-b", "uuid"), ("sim-e", "UUID")):
        shown = {
            (dict(labels)["gpu"], dict(labels)[label]) for _, labels in values(fleet.dcgm(node, 10))
        }
        ranks = select(values(sidecar_text(fleet, node, 10)), "actuary_rank_info", device="cuda")
        assert ranks
        for _, labels in ranks:
            assert (dict(labels)["gpu"], dict(labels)["gpu_uuid"]) in shown


def test_serving_nodes_report_no_training() -> None:
    for node in ("sim-c", "sim-d"):
        found = values(sidecar_text(simulation(), node, 10))
        assert {name for name, _ in found} == {"actuary_simulator_info"}


def test_loss_falls_in_noise_and_evaluations_improve() -> None:
    fleet = simulation()
    early, late = (values(sidecar_text(fleet, "sim-a", t)) for t in (0, 20_000))
    mean = [sum(select(f, "actuary_loss").values()) / 8 for f in (early, late)]
    assert mean[1] < mean[0]
    assert len(set(select(early, "actuary_loss").values())) == 8
    assert all(slope < 0 for slope in select(early, "actuary_loss_slope_per_hour").values())
    assert only(late, "actuary_evaluation_loss") < only(early, "actuary_evaluation_loss")
    assert only(early, "actuary_evaluation_loss") < only(early, "actuary_evaluation_initial_loss")
    scores = [only(f, "actuary_evaluation_score", metric="accuracy") for f in (early, late)]
    assert 0 < scores[0] < scores[1] < 1


def test_flops_over_wall_time_and_peak_is_a_plausible_mfu() -> None:
    fleet = simulation()
    for node in ("sim-a", "sim-b", "sim-e"):
        early, late = (values(sidecar_text(fleet, node, t)) for t in (0, 500))
        flops = [only(f, "actuary_model_flops_total", rank="1") for f in (early, late)]
        peak = only(late, "actuary_gpu_peak_flops", rank="1")
        assert peak == 989e12
        assert 0.1 < (flops[1] - flops[0]) / (500 * peak) < 0.6


def test_the_finetuning_starves_on_data_and_the_pretraining_does_not() -> None:
    def share(node: str) -> float:
        found = select(values(sidecar_text(simulation(), node, 0)), "actuary_step_seconds_total")
        waiting = select(found, "actuary_step_seconds_total", phase="data_wait")
        return sum(waiting.values()) / sum(found.values())

    assert share("sim-b") > 0.3
    assert share("sim-a") < 0.03


def test_a_crashed_job_goes_silent_and_then_redoes_what_its_checkpoint_lacked() -> None:
    fleet = simulation(restart_every=200.0)
    before, silent, after = (values(sidecar_text(fleet, "sim-a", t)) for t in (199, 220, 300))
    assert only(before, "actuary_rank_up", rank="3") == 1
    assert only(silent, "actuary_rank_up", rank="3") == 0
    assert only(silent, "actuary_rank_heartbeat_timestamp_seconds", rank="3") == STARTED + 200
    assert not select(silent, "actuary_loss")
    assert select(silent, "actuary_steps_total")
    assert only(after, "actuary_rank_up", rank="3") == 1
    assert select(before, "actuary_job_info", attempt="1")
    assert select(after, "actuary_job_info", attempt="2")
    assert only(before, "actuary_redone_steps_total", rank="3") == 0
    assert only(after, "actuary_redone_steps_total", rank="3") > 0
    assert only(after, "actuary_step_seconds_total", rank="3", phase="recompute") > 0
    untouched = values(sidecar_text(fleet, "sim-b", 300))
    assert select(untouched, "actuary_job_info", attempt="1")


def test_timestamps_lie_in_the_past_and_checkpoints_are_young() -> None:
    found = values(sidecar_text(simulation(), "sim-a", 1000))
    now = STARTED + 1000
    assert only(found, "actuary_rank_heartbeat_timestamp_seconds", rank="0") == now
    for name in ("checkpoint_last_success", "evaluation"):
        age = now - only(found, f"actuary_{name}_timestamp_seconds")
        assert 0 <= age < 120
