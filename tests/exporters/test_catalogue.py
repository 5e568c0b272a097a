"""The real exposition and the catalogue say the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpu_actuary.catalogue import BY_NAME, owned_by
from gpu_actuary.catalogue.exported import NVML, SERVICE
from gpu_actuary.catalogue.vocabulary import PHASES

from ..servers import wait_for
from .reading import finished, run_script, sidecar

if TYPE_CHECKING:
    from prometheus_client import Metric

# Two ranks train together on data of their own, with all that can be asked for, evaluate, save, and
# stay alive while the sidecar is scraped.
TRAINING = """
import os, time, torch, torch.distributed, torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel
from gpu_actuary.exporters import sampling
from gpu_actuary.exporters.pipeline import stage
from gpu_actuary.exporters.pytorch import monitor

sampling.interval = lambda *_: 2  # noise takes ten measurements

def collate(samples):
    with stage("collate"):
        return torch.utils.data.default_collate(samples)

def train(rank, port_file):
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{port_file}", rank=rank, world_size=2)
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Embedding(9, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = monitor(model, optimizer, job_id="all", directory="ranks", peak_flops=1e12,
                  flops_per_token=24.0, team="t", project="p", gradient_statistics=True,
                  scaler=(scaler := torch.amp.GradScaler("cpu")))
    pairs = [{"input_ids": torch.randint(0, 9, (8,))} for _ in range(120)]
    loader = torch.utils.data.DataLoader(
        pairs, batch_size=2, num_workers=1, collate_fn=collate)
    for _ in range(2):
        for batch in run.batches(loader):
            loss = model(batch["input_ids"]).square().mean()
            run.record_loss(loss)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            time.sleep(0.08)
    with run.evaluating():
        run.evaluation(accuracy=0.5, loss=2.0, quality=0.5)
    with run.checkpoint(__file__):
        pass
    open(f"ready{rank}", "w").close()
    while not os.path.exists("stop"):
        time.sleep(0.05)
    run.close()

if __name__ == "__main__":
    torch.multiprocessing.spawn(train, (os.path.abspath("rendezvous"),), nprocs=2)
"""


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> list[Metric]:
    folder = tmp_path_factory.mktemp("catalogue")
    process = run_script(folder, TRAINING)
    try:
        wait_for(
            lambda: (
                process.poll() is not None or all((folder / f"ready{r}").exists() for r in "01")
            ),
            seconds=100,
            what="the training",
        )
        with sidecar(folder / "ranks") as url:
            text = httpx.get(f"{url}/metrics", trust_env=False).text
    finally:
        (folder / "stop").touch()
        finished(process)
    return list(text_string_to_metric_families(text))


def test_the_exposition_is_exactly_what_the_catalogue_says(families: list[Metric]) -> None:
    seen = set()
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name in BY_NAME, f"{name} is exposed but not in the catalogue"
        series = BY_NAME[name]
        seen.add(name)
        assert series.owner == "exporters", name
        assert series.help == family.documentation, name
        assert family.type == ("gauge" if series.type == "info" else series.type), name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(series.labels), sample
            for label, values in series.values.items():
                assert sample.labels[label] in values, sample
        assert len(family.samples) > 0, name
    optional = {series.name for series in (*NVML, *SERVICE)}
    catalogued = {series.name for series in owned_by("exporters")} - optional
    assert seen == catalogued, json.dumps(sorted(catalogued ^ seen))


def test_a_rank_stays_within_its_share_of_the_cardinality_budget(families: list[Metric]) -> None:
    by_name = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in families
    }
    for name, family in by_name.items():
        ranks = 2 if BY_NAME[name].per in {"rank", "gpu"} else 1
        assert len(family.samples) <= BY_NAME[name].series_each * ranks, name
    phases = {sample.labels["phase"] for sample in by_name["actuary_step_seconds_total"].samples}
    assert phases == set(PHASES) - {"h2d"}
