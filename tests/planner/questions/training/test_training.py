"""Training: published answers that the formulas reproduce (tests/data/training-checks.yaml), memory and money."""

import csv
import math
from dataclasses import replace
from typing import Any

import pytest
from support.paths import DATA
from support.spike import spike

from calibrate.layers.facts import facts
from planner.catalog.cost import Ownership, annuity_usd, co2_kg, rent_usd, usd_per_tflops
from planner.io.strict_yaml import parse
from planner.model.ranges import exactly
from planner.prediction.trainings import DEPTHWISE, kind_of
from planner.questions.training.closed_forms import (
    END_TO_END,
    RUN_OVER_STEPS,
    SECONDS_PER_DAY,
    SECONDS_PER_YEAR,
    STEP_OVER_INFERENCE,
    NetworkLink,
    all_reduce_s,
    bubble,
    checkpoint_interval_s,
    epoch_law,
    exposed_s,
    loader_s,
    pipeline_s,
    rescaled_step_s,
    step_from_inference,
    training_flops,
    with_interruptions_s,
    workers_enough,
)
from planner.questions.training.memory import (
    ALLOCATOR,
    Split,
    gpus_needed,
    largest_batch,
    memory,
    states,
    vision_activation_bytes,
)
from planner.questions.training.scenario import Transformer
from planner.questions.training.speed import Series, SpeedRule
from simulator.world.curves import Interpolated
from simulator.world.profile import Evidence

CHECKS = parse((DATA / "training-checks.yaml").read_text()).data
CLOSED = {check["id"]: check for check in CHECKS["closed_form"]}
PREDICTED = {check["id"]: check for check in CHECKS["predicted"]}
GIB = 2**30


def compute_s(flops: float, flops_per_s: float, gpus: int = 1) -> float:
    return flops / (flops_per_s * gpus)


def days(i: dict[str, Any]) -> float:
    return compute_s(training_flops(i["params"], i["tokens"], i["flops_per_param_token"]),
                     i["achieved_tflops"] * 1e12, i["gpus"]) / SECONDS_PER_DAY  # fmt: skip


def activations(i: dict[str, Any]) -> dict[str, float]:
    shape = Transformer(layers=i["layers"], hidden=i["hidden"], heads=i["heads"], sequence=i["sequence"])
    t, b = i["tensor_parallel"], i["micro_batch"]
    return {
        "gib_no_recompute": shape.activation_bytes(b, Split(tensor=t)) / GIB,
        "gib_sequence_parallel_selective": shape.activation_bytes(
            b, Split(tensor=t, sequence_parallel=True), "selective"
        ) / GIB,
    }  # fmt: skip


def adam(i: dict[str, Any]) -> dict[str, float]:
    known = facts(i["model"])
    whole = states(known.weight_bytes / 4, i["precision"], i["optimizer"])
    return {"weights_mb": whole.weights / 2**20, "weights_grads_states_mb": whole.total / 2**20}


def gray(i: dict[str, Any]) -> dict[str, float]:
    known = facts(i["model"])
    return {"macs_saved": 1 - known.with_channels(i["channels"]).macs / known.macs}


ANSWERS = {
    "gpt3-one-gpu": lambda i: {
        "years": compute_s(i["train_flops"], i["achieved_tflops"] * 1e12, i["gpus"]) / SECONDS_PER_YEAR
    },
    "gpt3-one-gpu-cost": lambda i: {
        "usd": rent_usd(compute_s(i["train_flops"], i["achieved_tflops"] * 1e12), i["usd_per_gpu_hour"])
    },
    "gpt3-1024-a100": lambda i: {"days": days(i)},
    "tinyllama": lambda i: {"days": i["tokens"] / i["tokens_per_second_per_gpu"] / i["gpus"] / SECONDS_PER_DAY},
    "deepseek-v3": lambda i: {"usd": rent_usd(i["gpu_hours"] * 3600, i["usd_per_gpu_hour"])},
    "activations-22b": activations,
    "grayscale-resnet50": gray,
    "grayscale-vgg16": gray,
    "resolution-resnet50": lambda i: {
        "macs_ratio_to_224": facts(i["model"]).at(i["pixels"]).macs / facts(i["model"]).macs
    },
    "adam-states-resnet50": adam,
    "dgx-dollars": lambda i: {"usd": rent_usd(i["hours"] * 3600, i["usd_per_hour"])},
}


def near(text: str, value: float) -> float:
    """The tolerance that an entry states, in the unit of `value`."""
    number, points = float(text.rstrip("% points")), text.endswith("points")
    return number / 100 if points else value * number / 100


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_agree_with_what_was_published(name: str) -> None:
    check = CLOSED[name]
    found = ANSWERS[name](check["in"])
    assert set(found) == set(check["out"])
    for key, value in check["out"].items():
        assert found[key] == pytest.approx(value, abs=near(check["tolerance"], value)), key


OVERHEAD_S = 3 * facts("resnet50").kernels * 10e-6
"""What issuing the operators of a ResNet-50 step takes at 10 us each."""


@pytest.mark.parametrize(
    ("name", "inside", "machines"),
    [("resnet50-scaling", 450e9, 8), ("l40s-scaling", 32e9, 8)],
)
def test_eight_times_the_gpus_take_more_than_an_eighth_of_the_time(name: str, inside: float, machines: int) -> None:
    """MLPerf's runs have the same epochs and global batch: what remains is the fixed part of a step, and the link."""
    check = PREDICTED[name]
    minutes = float(check["in"]["measured"].split()[1])
    steps = 35 * 1_281_167 / 3200
    step = rescaled_step_s(minutes * 60 / steps, 3200 / 8, 3200 / 64, OVERHEAD_S)
    gradients = 2 * facts("resnet50").params
    ring_s = all_reduce_s(gradients, 8, machines, NetworkLink(bytes_per_s=inside, latency_s=5e-6),
                          NetworkLink(bytes_per_s=25e9, latency_s=2e-5))  # fmt: skip
    found = step.each(lambda s: (s + exposed_s(ring_s, s, overlap=True)) * steps / 60)
    published = check["out"]["minutes"]
    assert found.mid == pytest.approx(published, rel=float(check["band"].rstrip("%")) / 100)
    assert found.low < published < found.high


def test_larger_batches_need_more_epochs() -> None:
    check = PREDICTED["epochs-and-batch"]
    points = list(zip(check["in"]["global_batch"], check["out"]["epochs"], strict=True))
    law = epoch_law(points)
    assert [law(batch) for batch, _ in points] == pytest.approx([35, 77])
    assert law.critical == pytest.approx(41_920, rel=0.01)
    assert 35 < law(16_384) < 77
    assert law.range(3200).low == law.range(3200).high  # one run each: nothing is known of seeds


def test_a_run_takes_more_than_its_steps() -> None:
    check = PREDICTED["a100-90-epochs"]
    i, out = check["in"], check["out"]
    arithmetic_h = i["images"] * i["epochs"] / i["images_per_second"] / 3600
    assert arithmetic_h == pytest.approx(out["arithmetic_hours"], rel=0.001)
    low, _, high = RUN_OVER_STEPS.ends
    assert low * arithmetic_h < out["hours"] < high * arithmetic_h
    assert high == 1 + 0.55


def test_training_over_inference_is_a_band() -> None:
    out = PREDICTED["train-over-infer"]["out"]
    assert (out["p10"], out["median"], out["p90"]) == STEP_OVER_INFERENCE.ends
    assert step_from_inference(0.01, depthwise=False).mid == pytest.approx(0.035)
    assert step_from_inference(0.01, depthwise=True).mid == pytest.approx(0.046)


@pytest.mark.parametrize(
    ("model", "thin"),
    [("mobilenet_v3_large", True), ("efficientnet_b0", True), ("convnext_tiny", True), ("resnet50", False),
     ("vgg16", False), ("alexnet", False), ("vit_b_16", False)],
)  # fmt: skip
def test_depthwise_networks_are_told_by_their_layers(model: str, thin: bool) -> None:
    assert (kind_of(facts(model)) == DEPTHWISE) is thin


def test_one_utilization_cannot_be_right_for_llama() -> None:
    check = PREDICTED["llama31-8b"]
    i, out = check["in"], check["out"]
    flops = training_flops(i["params"], i["tokens"])
    hours = sorted(compute_s(flops, i["peak_tflops"] * 1e12 * share) / 3600 for share in END_TO_END.ends)
    assert hours[0] < out["gpu_hours"] < hours[-1]
    assert hours[-1] / hours[0] < 5


def test_opt_spent_most_of_its_days_on_restarts() -> None:
    check = PREDICTED["opt-175b"]
    i, out = check["in"], check["out"]
    flops = training_flops(i["params"], i["tokens"], 8)
    ideal_s = compute_s(flops, i["achieved_tflops"] * 1e12, i["gpus"])
    assert ideal_s / SECONDS_PER_DAY == pytest.approx(out["ideal_days"], rel=0.01)
    # Zhang et al. (2022), 2.5, published: "at least 35" restarts by hand, and "70+" by themselves by their estimate.
    between_s = out["calendar_days"] * SECONDS_PER_DAY / (35 + 70)
    # Assumed, for nobody published it: each took 3 to 12 hours, and a checkpoint half an hour.
    quick, slow = (with_interruptions_s(ideal_s, between_s, 1800, h * 3600) / SECONDS_PER_DAY for h in (3, 12))
    assert quick < out["calendar_days"] < slow


# Steps on several GPUs


def test_the_ring_is_bound_by_latency_or_by_bandwidth() -> None:
    link = NetworkLink(bytes_per_s=100e9, latency_s=5e-6)
    assert link.ring_s(100e6, 8) == pytest.approx(1.75e-3 + 70e-6)
    assert link.ring_s(1e3, 8) == pytest.approx(70e-6, rel=0.01)
    assert link.ring_s(100e6, 1) == 0
    assert exposed_s(0.03, 0.03, overlap=True) == pytest.approx(0.01)
    assert exposed_s(0.03, 0.03, overlap=False) == 0.03


def test_a_pipeline_waits_for_its_bubble() -> None:
    assert pipeline_s(0.04, 4, 8) == pytest.approx(0.11)
    assert pytest.approx(bubble(4, 8)) == 1 - 8 * 0.01 / 0.11
    assert pipeline_s(0.04, 1, 8) == pytest.approx(8 * 0.04)
    assert pipeline_s(0.04, 1, 8, hand_over_s=1.0) == pytest.approx(8 * 0.04)  # there is nobody to hand over to


def test_a_slow_link_holds_a_pipeline_like_a_stage() -> None:
    assert pipeline_s(0.04, 4, 8, hand_over_s=0.001) == pytest.approx(0.116)
    # Slower than both passes of a stage, links set the pace: 3 on the way and 7 more, forward and backward.
    assert pipeline_s(0.04, 4, 8, hand_over_s=0.1) == pytest.approx(0.04 + 2 * (3 + 7) * 0.1)


def test_one_loader_worker_starves_a_small_net() -> None:
    """Lane's notebook: LeNet's GPU needs 4.37 s for two epochs of MNIST, one worker with batches of 64 made it 8.92."""
    check = CHECKS["starvation"][0]
    samples, out = 2 * 60_000, check["out"]["one_worker_batch64_s"]
    rate = samples / out
    gpu_s = check["in"]["gpu_only_s"]
    assert max(gpu_s, loader_s(samples, 1, rate)) == pytest.approx(out)
    enough = workers_enough(samples, rate, gpu_s)
    assert enough == 3
    assert loader_s(samples, enough, rate) <= gpu_s < loader_s(samples, enough - 1, rate)


def test_daly_and_young_agree_where_failures_are_rare() -> None:
    young_s = math.sqrt(2 * 60 * 86_400)
    assert checkpoint_interval_s(60, 86_400) == pytest.approx(young_s, rel=0.02)
    assert checkpoint_interval_s(60, 86_400) == pytest.approx(3180, rel=0.005)
    assert with_interruptions_s(1e6, math.inf, 60, 300) == 1e6
    assert with_interruptions_s(20 * 3600, 5 * 3600, 60, 300) / 3600 == pytest.approx(22.1, rel=0.005)


def test_a_flat_curve_that_rises_has_its_knee_found() -> None:
    check = CHECKS["working_set"][0]
    knee = spike(check["in"]["hidden"], check["out"]["epoch_s"])
    assert knee is not None
    assert 1024 < knee < 4096  # the first that is clearly slower is 4,096; 2,048 takes a quarter more than 1,024
    assert spike([1, 2, 4, 8], [1.0, 1.1, 0.9, 1.0]) is None


# Memory


def test_zero_divides_what_it_says() -> None:
    """ZeRO (2020), figure 1: 7.5B parameters with Adam in fp16 on 64 GPUs: 120, 31.4, 16.6 and 1.9 GB."""
    held = [states(7.5e9, "fp16", "adam", Split(data=64, zero=stage)).total / 1e9 for stage in range(4)]
    assert held == pytest.approx([120, 31.4, 16.6, 1.88], rel=0.005)
    assert gpus_needed(175e9, "bf16", "adam", 80e9, 0.8e9) == 36


def test_gpt3_has_its_parameters() -> None:
    shape = Transformer(layers=96, hidden=12288, heads=96, sequence=2048, vocabulary=51200)
    assert shape.shape_params == pytest.approx(175e9, rel=0.005)
    assert shape.activation_bytes(1, Split(), "full") < shape.activation_bytes(1, Split(), "selective")


def test_alexnet_was_at_the_edge_of_one_gpu() -> None:
    """Batch 128, momentum SGD, fp32, 3 GB: weights take most of what does not grow, and two GPUs have room."""
    known = facts("alexnet_2012")
    kept = vision_activation_bytes(known, "fp32")
    one = memory(states(known.params, "fp32", "momentum"), kept * 128, 0.1e9)
    half = memory(states(known.params, "fp32", "momentum", Split(tensor=2)), kept * 64, 0.1e9)
    assert one.weights == one.gradients == one.optimizer == pytest.approx(244e6, rel=0.01)
    assert one.total.low < 3e9 < one.total.high
    assert half.total.high < 3e9
    fixed = states(known.params, "fp32", "momentum")
    assert 64 < largest_batch(fixed, kept.mid, 0.1e9, 3e9, ALLOCATOR.mid) < 512


def test_amp_halves_activations_and_keeps_weights() -> None:
    known = facts("resnet50")
    assert vision_activation_bytes(known, "amp").mid == pytest.approx(
        vision_activation_bytes(known, "fp32").mid / 2 * 1.2
    )
    assert states(known.params, "amp", "momentum").total == pytest.approx(known.params * 14)
    full = vision_activation_bytes(known, "fp32", "full")
    assert full.mid < vision_activation_bytes(known, "fp32").mid / 3


# Money


def machines() -> list[dict[str, str]]:
    text = (DATA / "reserved-and-purchase.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in text if not line.startswith("#")))


EXACT_TFLOPS = {("K80", "dp"): 1.455, ("K80", "sp"): 4.365}
"""Of one die, by its vendor: the slide rounds them to a tenth before it prints them, and divides by these."""


@pytest.mark.parametrize("row", machines(), ids=lambda row: row["item"])
def test_dollars_for_each_tflops_are_the_lectures(row: dict[str, str]) -> None:
    """To the dollar."""
    for kind in ("dp", "sp", "hp"):
        if printed := row[f"usd_per_{kind}"]:
            each = EXACT_TFLOPS.get((row["gpu"], kind))
            tflops = each * int(row["gpu_count"]) if each else float(row[f"{kind}_tflops"])
            assert tflops == pytest.approx(float(row[f"{kind}_tflops"]), abs=0.051)
            assert usd_per_tflops(float(row["usd"]), tflops) == pytest.approx(float(printed), abs=1.0), kind


def test_owning_is_an_annuity_and_electricity() -> None:
    assert annuity_usd(149_000, 3, 0.05) == pytest.approx(54_714, rel=1e-4)
    assert annuity_usd(149_000, 3, 0) == pytest.approx(149_000 / 3)
    assert Ownership().usd_per_hour(149_000, 3500) == pytest.approx(10.41 + 0.546, rel=0.001)
    assert co2_kg(3.6e9, 400) == pytest.approx(400)


def test_past_its_last_batch_a_series_lies_between_its_line_and_the_last_time_a_sample() -> None:
    """ResNet-50 on an H200: 29.9 ms at 32, held up by the host, 45.7 at 128: 256 take 67 to 91 ms."""
    series = Series(
        curve=Interpolated((32.0, 128.0), (0.0299, 0.0457)), factor=exactly(1.0), rule=SpeedRule.TRAINING_STEPS,
        evidence=Evidence.MEASURED, source="", sources=(),
    )  # fmt: skip
    step_s = series.growth(256) * float(series.curve(256))
    assert step_s.ends == pytest.approx((0.0668, (0.0668 * 0.0914) ** 0.5, 0.0914), rel=0.002)
    assert series.growth(128) == series.growth(64) == exactly(1.0)
    proportional = replace(series, curve=Interpolated((32.0, 128.0), (0.01, 0.04)))
    assert proportional.growth(256).high == pytest.approx(1.0)
