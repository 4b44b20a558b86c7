"""One GPU whose memory is too small, against what GEMEL's published scheduler answers.

Source of the table: GEMEL's published scheduler (NSDI'23) on V100 serving profiles (Clockwork model zoo, OSDI'20),
3,000 frames for each model. Its rules: round robin in the order given; the most recently used weights give way first;
a load overlaps the run before it only when both fit; of the frames that have arrived only the newest batch is kept, and
those that would finish after 100 ms are lost; a batch takes the time of a full one; run memory is the weights and
0.01 GB for each image of the batch, and 0.8 GB are the framework's.
"""

from dataclasses import dataclass

import pytest
from support import worlds

from simulator.clock.metrics import summarise
from simulator.clock.run import simulate
from simulator.world.curves import LoadTime
from simulator.world.deployment import BatchingPolicy, Drop, Eviction, Service, SwapPolicy
from simulator.world.model import Layer
from simulator.world.workload import FixedRate, Stream, Workload

FRAMES = 3000
SLO_S = 0.1
ZOO_MS = {
    "resnet50_v2": (102.2, 8.32, (2.73, 4.05, 5.87)),
    "resnet101_v2": (178.1, 14.47, (5.51, 8.05, 11.83)),
    "resnet152_v2": (240.6, 19.56, (8.21, 11.66, 17.03)),
    "resnext101_64x4d": (333.4, 27.18, (6.46, 10.24, 17.13)),
    "se_resnext101_64x4d": (352.5, 28.75, (8.18, 12.97, 19.93)),
    "tsn_inceptionv3": (90.4, 7.37, (4.47, 6.87, 10.97)),
}
"""Weights in MB, load time in ms, run time in ms of batches of 1, 2 and 4."""


@dataclass(frozen=True, slots=True)
class Row:
    models: tuple[str, ...]
    fps: float
    memory_gb: float
    batches: tuple[int, ...]
    processed: tuple[float, ...]
    load_share: float
    swaps: int


THREE = ("resnet152_v2", "resnext101_64x4d", "se_resnext101_64x4d")
FOUR = ("resnet50_v2", "resnet101_v2", "resnet152_v2", "tsn_inceptionv3")
TABLE = (
    Row(THREE, 30, 1.17, (1, 1, 1), (0.34, 0.34, 0.34), 0.7677, 3053),
    Row(THREE, 30, 1.4532, (4, 4, 4), (0.89, 0.89, 0.86), 0.4184, 3228),
    Row(THREE, 30, 100, (1, 1, 1), (1.0, 1.0, 1.0), 0.0, 0),
    Row(FOUR, 30, 1.06, (1, 1, 1, 2), (0.5, 0.5, 0.5, 1.0), 0.6476, 6047),
)


def zoo_service(name: str, batch: int) -> Service:
    weights_mb, load_ms, (one, two, four) = ZOO_MS[name]
    weight_bytes = round(weights_mb * 1e6)
    profile = worlds.profile(
        name,
        [one / 1e3, two / 1e3, (two + four) / 2e3, four / 1e3],
        layers=[Layer(name, weight_bytes)],
        workspace_bytes=batch * 10**7,
        load=LoadTime(0.0, weight_bytes / load_ms * 1e3),
    )
    return worlds.service(profile, batch=BatchingPolicy(batch, padded=True), slo_s=SLO_S, drop=Drop.NEWEST_AND_LATE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{len(row.models)} models in {row.memory_gb} GB")
def test_frames_load_share_and_swaps(row: Row) -> None:
    deployment = worlds.deployment(
        *(zoo_service(name, batch) for name, batch in zip(row.models, row.batches, strict=True)),
        memory_bytes=round(row.memory_gb * 1e9),
        context_bytes=800_000_000,
        root_bytes_per_s=1e12,
        swap=SwapPolicy(eviction=Eviction.MRU),
    )
    demand = Workload(tuple(Stream(name, FixedRate(row.fps, 0.0)) for name in row.models))
    summary = summarise(simulate(deployment, demand, FRAMES / row.fps))
    assert [summary.models[name].processed_fraction for name in row.models] == pytest.approx(row.processed, abs=0.02)
    assert summary.devices["g0"].load_share == pytest.approx(row.load_share, abs=0.02)
    assert summary.devices["g0"].loads == pytest.approx(row.swaps, rel=0.03)
