"""Trainings: what published steps tell of others, and that their file follows from layers and data sheets."""

import csv
from dataclasses import replace
from functools import cache
from itertools import permutations
from math import exp, log
from statistics import median

import pytest
from scipy.stats import binom

from benchmarks.making.trainings import MADE, made
from benchmarks.trainings import errors_without, trainings_table
from calibrate.layers.facts import facts
from planner.catalog.catalog import load_catalog
from planner.prediction.effects import chip
from planner.prediction.rules.roofline import PrecisionError, peak_flops
from planner.prediction.trainings import EFFECTS, FILE, PLAIN, Trainings, published_steps, step_case, trainings
from simulator.world.hardware import GPU

GPUS = load_catalog().gpus
KNOWN = trainings(GPUS)
USUAL_SD = 0.1
ROUNDED = 1.3
"""Factor by which a spread may be off the likeliest one: it is written with two digits."""
MODELS = ("resnet50", "vit_b_16", "efficientnet_b0", "hf:bert-large-uncased")


def test_made_columns_follow_from_layers_and_data_sheets() -> None:
    with FILE.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    for row in rows[::5]:
        again = made(row, GPUS)
        assert again["kind"] == row["kind"]
        for name in MADE[1:]:
            assert float(again[name]) == pytest.approx(float(row[name]), rel=1e-4), row["place"]


def test_each_published_step_names_where_it_stands() -> None:
    assert len({step.gpu for step in published_steps()}) >= 20
    assert all(step.place and step.source and step.gpu in GPUS for step in published_steps())


@pytest.mark.parametrize(("what", "most"), [("a model on a chip", 0.12), ("a chip", 0.15), ("a publisher", 0.2)])
def test_what_is_left_out_is_told_by_the_rest(what: str, most: float) -> None:
    """Half err by no more than these; 80 % bands hold three quarters and more, and not everything."""
    errors = errors_without(what)
    assert median(abs(error.log_error) for error in errors) < most
    assert 0.75 <= sum(error.inside for error in errors) / len(errors) <= 0.92


def test_the_table_has_a_row_for_each_kind_of_gpu() -> None:
    rows = trainings_table()
    assert {case.gpu.name for case in KNOWN.cases} <= {row.split(" | ")[0].removeprefix("| ") for row in rows}


def posterior(known: Trainings) -> float:
    """Logarithm, but for a constant: each spread has a usual one as evidence of its own."""
    spreads = [*(effect.sd for effect in known.effects), known.noise]
    return known.log_likelihood() - sum(log(sd / USUAL_SD) ** 2 for sd in spreads) / 2


def test_spreads_are_the_likeliest() -> None:
    best = posterior(KNOWN)
    for i, effect in enumerate(EFFECTS):
        for factor in (1 / ROUNDED, ROUNDED):
            other = effect._replace(sd=factor * effect.sd)
            assert posterior(replace(KNOWN, effects=[*EFFECTS[:i], other, *EFFECTS[i + 1 :]])) < best, effect
    for factor in (1 / ROUNDED, ROUNDED):
        assert posterior(replace(KNOWN, noise=factor * KNOWN.noise)) < best


@cache
def step_s(model: str, gpu: str, precision: str, batch: int) -> float:
    return KNOWN.predict(step_case(facts(model), GPUS[gpu], precision, batch)).value


def is_better(gpu: GPU, other: GPU, precision: str) -> bool:
    """More bandwidth, and no less of anything else that a step takes."""
    try:
        peaks = peak_flops(gpu, precision), peak_flops(other, precision)
    except PrecisionError:
        return False
    more = gpu.memory_bytes_per_s > other.memory_bytes_per_s
    return more and peaks[0] >= peaks[1] and gpu.tdp_w >= other.tdp_w


@pytest.mark.parametrize("precision", ["amp", "fp32", "tf32", "torch"])
def test_of_one_chip_the_kind_with_more_bandwidth_is_no_slower(precision: str) -> None:
    kinds = [gpu for gpu in GPUS.values() if gpu.chip in ("A100", "H100", "H200", "V100", "A10")]
    pairs = [
        (gpu, other)
        for gpu, other in permutations(kinds, 2)
        if chip(gpu) == chip(other) and is_better(gpu, other, precision)
    ]
    assert any((gpu.name, other.name) == ("A100-80GB", "A100-40GB") for gpu, other in pairs) or precision == "fp8"
    for gpu, other in pairs:
        for model in MODELS:
            for batch in (4, 128):
                faster, slower = (step_s(model, one.name, precision, batch) for one in (gpu, other))
                assert faster <= slower, (gpu.name, other.name, model, batch)


def test_what_bandwidth_holds_goes_by_bandwidth() -> None:
    """ViT-B/16: an A100-80GB was told to be slower than an L40S, which has 0.42 of its bandwidth."""
    seconds = {name: step_s("vit_b_16", name, "amp", 256) for name in ("L4", "L40S", "A100-80GB", "H100")}
    assert sorted(seconds, key=seconds.__getitem__) == ["H100", "A100-80GB", "L40S", "L4"]
    assert seconds["L40S"] > 1.2 * seconds["A100-80GB"]


def test_small_batches_take_what_issuing_operators_takes() -> None:
    """Twelve pictures at fp16 on an A100, which taught nothing: half within a quarter, where a batch of 256 is not."""
    small = [step for step in published_steps() if step.software == "pytorch-with-copies" and step.precision == "fp16"]
    errors = [abs(log(step.step_s / KNOWN.predict(step.case(GPUS)).value)) for step in small]
    assert len(small) >= 12
    assert median(errors) < log(1.25)
    one, many = (step_s("resnet50", "A100-40GB", "fp16", batch) / batch for batch in (12, 256))
    assert one > 1.5 * many


MEASURED_H200 = {
    ("resnet50", 8): 28.6, ("resnet50", 32): 29.9, ("resnet50", 128): 45.7, ("vit_b_16", 8): 31.2,
    ("vit_b_16", 32): 31.3, ("vit_b_16", 128): 59.2, ("bert_base", 8): 36.1, ("bert_base", 32): 39.7,
}  # fmt: skip
"""Milliseconds of a step at amp that `planner calibrate --mode training` measured on an H200 (docs/training.md)."""


def test_steps_measured_later_lie_in_their_bands() -> None:
    """Of eight, so many that bands of 80 % have fewer once in forty draws; half within 30 %."""
    told = {
        (model, batch): KNOWN.predict(step_case(facts(model), GPUS["H200"], "amp", batch))
        for model, batch in MEASURED_H200
    }
    inside = sum(told[one].low <= ms / 1e3 <= told[one].high for one, ms in MEASURED_H200.items())
    assert inside >= binom.ppf(0.025, len(MEASURED_H200), 0.8)
    assert median(abs(log(told[one].value / ms * 1e3)) for one, ms in MEASURED_H200.items()) < log(1.3)


def test_tuned_software_is_faster_and_teaches_nothing() -> None:
    tuned = [step for step in published_steps() if step.model == "resnet50" and step.precision == "amp"]
    faster = [step for step in tuned if step.software in ("pytorch-channels-last", "mlperf")]
    assert len(faster) >= 5
    assert all(step.step_s < KNOWN.predict(step.case(GPUS)).value for step in faster)
    assert len(KNOWN.cases) == sum(step.software == PLAIN for step in published_steps())


def test_a_vendor_without_trainings_is_told_with_more_doubt() -> None:
    bands = {}
    for name in ("H100", "MI300X"):
        told = KNOWN.predict(step_case(facts("vit_b_16"), GPUS[name], "amp", 256))
        bands[name] = told.high / told.low
    assert KNOWN.knows_vendor(GPUS["H100"])
    assert not KNOWN.knows_vendor(GPUS["MI300X"])
    assert bands["MI300X"] > bands["H100"] * exp(0.34)
