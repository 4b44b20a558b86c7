"""Processors are offers like any other: whether a GPU is needed at all."""

from math import log
from pathlib import Path

import pytest
from scipy.stats import binom
from support.planning import CATALOG

import planner
from calibrate.library.lookup import find_profiles
from planner.model.plan import Plan
from planner.model.statement import Code
from planner.prediction.predict import Predictor
from planner.prediction.rules.bands import SPREAD_80
from planner.prediction.rules.transfer import measured_ratio
from simulator.world.profile import Evidence

LIBRARY = find_profiles((), CATALOG.gpus)
QUARTER, WHOLE = "CPU-Sapphire-Rapids-1c", "CPU-Sapphire-Rapids-4c"


def asked(folder: Path, model: str, cameras: int, fps: float, latency: str, buy: str = "{}") -> Plan:
    """The plan of cameras of one model."""
    file = folder / "cameras.yaml"
    file.write_text(
        f"models: [{{name: {model}, slo: {{latency: {latency}, attainment: 99 %}}}}]\n"
        f"streams: [{{model: {model}, count: {cameras}, rate: {fps} fps}}]\n"
        f"buy: {buy}\n",
        encoding="utf-8",
    )
    return planner.plan(file)


def processors(plan: Plan) -> bool:
    """Whether all that is bought is no GPU."""
    return all(CATALOG.gpus[gpu.kind].cores for gpu in plan.recommendation.gpus)


def test_one_camera_of_a_light_model_needs_no_gpu(tmp_path: Path) -> None:
    plan = asked(tmp_path, "mobilenet_v3_large", 1, 5, "500 ms")
    assert plan.recommendation.feasible
    assert processors(plan)
    (said,) = [one for one in plan.assumptions if one.code is Code.PROCESSOR]
    kind = CATALOG.gpus[said.subjects[0]]
    assert said.figures["cores"] == kind.cores
    cheapest_gpu = min(
        price.usd_per_hour
        for one in CATALOG.instances
        if not CATALOG.gpus[one.gpu].cores and one.status == "active" and "on-demand" in one.prices
        for price in [one.prices["on-demand"]]  # type: ignore[index]
    )
    assert plan.recommendation.cost_usd_per_hour < cheapest_gpu


def test_many_cameras_of_a_heavy_model_need_one(tmp_path: Path) -> None:
    plan = asked(tmp_path, "resnet152", 40, 15, "200 ms", "{gpus: [T4, CPU-Ice-Lake-4c, CPU-Sapphire-Rapids-4c]}")
    assert plan.recommendation.feasible
    assert not processors(plan)
    assert not [one for one in plan.assumptions if one.code is Code.PROCESSOR]


def test_a_processor_can_be_asked_for_by_name(tmp_path: Path) -> None:
    plan = asked(tmp_path, "resnet18", 1, 5, "500 ms", f"{{gpus: [{WHOLE}], evidence: measured}}")
    assert {gpu.kind for gpu in plan.recommendation.gpus} == {WHOLE}
    assert not plan.recommendation.models[0].predicted


def test_what_was_published_of_a_processor_is_a_profile_by_one_batch() -> None:
    known = LIBRARY.get("resnet50", WHOLE)
    assert known is not None
    assert (known.runtime, known.largest_batch) == ("pytorch", 1)
    assert known.latency_evidence is Evidence.PUBLISHED
    assert known.latency(1) == pytest.approx(14 / 311.47, rel=1e-4)  # 14 processes did 311.47 a second


def test_fewer_cores_take_longer_by_their_share() -> None:
    """Nobody published one core; four of them are no more than four times as fast."""
    told = Predictor(LIBRARY, CATALOG.gpus).predicted_pair("resnet50", QUARTER)
    known = LIBRARY.get("resnet50", WHOLE)
    assert told is not None
    assert known is not None
    assert told.time_s(1).value == pytest.approx(4 * known.latency(1), rel=0.01)  # shares are given to 3 digits
    assert told.evidence is Evidence.ASSUMED
    assert told.time_s(1).low < 4 * known.latency(1) < told.time_s(1).high


@pytest.mark.parametrize("precision", ["fp16", "bf16", "amp"])
def test_processors_are_not_planned_at_half_precision(precision: str) -> None:
    assert Predictor(LIBRARY, CATALOG.gpus).predicted_pair("resnet50", WHOLE, precision) is None


def test_int8_on_a_processor_is_what_was_published() -> None:
    known = LIBRARY.get("resnet50", WHOLE, "int8")
    assert known is not None
    assert known.latency(1) == pytest.approx(14 / 1135.22, rel=1e-4)


def test_figures_of_processors_are_shares() -> None:
    """Two cores of a kind have twice what one has."""
    for family in ("Sapphire-Rapids", "Ice-Lake"):
        one, two = (CATALOG.gpus[f"CPU-{family}-{cores}c"] for cores in (1, 2))
        assert two.fp32_flops == pytest.approx(2 * one.fp32_flops, rel=0.01)
        assert two.memory_bytes_per_s == pytest.approx(2 * one.memory_bytes_per_s, rel=0.01)
        assert two.tdp_w == pytest.approx(2 * one.tdp_w, rel=0.01)
    for instance in CATALOG.instances:
        kind = CATALOG.gpus[instance.gpu]
        if kind.cores and instance.host_memory_bytes:
            assert instance.gpu_count * kind.memory_bytes < instance.host_memory_bytes


def test_a_processor_is_told_from_another_by_models_published_on_both() -> None:
    """Each of them left out in turn: four in five lie in the 80 % band, or as many as a binomial allows at 99 %."""
    told = Predictor(LIBRARY, CATALOG.gpus)
    pairs = told.carrying.published_pairs(CATALOG.gpus["CPU-i9-10940X"], CATALOG.gpus[WHOLE])
    others = [measured_ratio(pairs[:i] + pairs[i + 1 :]) for i in range(len(pairs))]
    errors = [log(p.source_s * ratio(p.arithmetic) / p.target_s) for p, ratio in zip(pairs, others, strict=True)]
    inside = sum(abs(e) <= SPREAD_80 * ratio.spread for e, ratio in zip(errors, others, strict=True))
    assert len(pairs) >= 10
    assert binom.cdf(inside, len(pairs), 0.8) > 0.01


def test_a_model_timed_on_the_i9_alone_is_carried_over_by_those_probes() -> None:
    told = Predictor(LIBRARY, CATALOG.gpus)
    direct, by_sheets = (told.predicted_pair("vit_b_16", kind) for kind in (WHOLE, QUARTER))
    assert direct is not None
    assert by_sheets is not None
    assert "resnet50" in direct.probes
    assert by_sheets.time_s(1).value > direct.time_s(1).value
    assert by_sheets.time_s(1).high / by_sheets.time_s(1).value > direct.time_s(1).high / direct.time_s(1).value
