"""Predictions: laws of their parts, errors on what others measured, and what plans make of them."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle, product
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.planning import CATALOG, T4, V100, loaded, model, profile, scenario

from benchmarks.__main__ import PARTS
from benchmarks.predictions import FILES, Case, all_cases, cut_short, layer_spread, pixels, rows, t4_from_v100, table
from calibrate.layers.facts import facts
from calibrate.layers.work import Facts
from calibrate.library.lookup import Library, find_profiles
from calibrate.library.memory import CARRIED
from calibrate.zoo.sources import is_sourced
from planner import cli
from planner.api import modelling
from planner.compare.gate import weak
from planner.io.store import read_plan, write_answer
from planner.model.parts.machines import BuySpec, EvidenceAsked
from planner.model.plan import Estimate, Plan, PredictionRule
from planner.model.scenario import Predict, Scenario
from planner.model.statement import Code, Statement
from planner.placing.sizing import held_bytes
from planner.prediction.effects import WINOGRAD
from planner.prediction.learnt import OWN_SOFTWARE_SD, Learnt, learnt
from planner.prediction.predict import Predictor, doubt_of
from planner.prediction.queries import QueryKnowledge
from planner.prediction.rules import transfer
from planner.prediction.rules.bands import SAME, SPREAD_80, End, around, at_least, is_no_slower, joined
from planner.prediction.rules.carrying import REACHED
from planner.prediction.rules.floors import computed_share
from planner.prediction.rules.layered import BATCHES, roofline_s, work_of
from planner.prediction.rules.measured import interpolated
from planner.prediction.rules.transfer import (
    Pair,
    SampleWork,
    Transferred,
    floor_and_slope,
    layer_model,
    measured_ratio,
    sheet_ratio,
)
from planner.search.plan import plan
from planner.show.kept import render
from planner.units.writing import Format, Screen
from simulator.world.curves import Interpolated
from simulator.world.profile import Evidence, Profile

L4 = CATALOG.gpus["L4"]
SHIPPED = find_profiles((), CATALOG.gpus)
here = pytest.mark.skipif(not all(map(rows, FILES)), reason="the files of pytorch-image-models are not here")


def case(name: str) -> Case:
    return next(c for c in all_cases() if c.name.startswith(name))


def library(*profiles: Profile) -> Library:
    return Library({(p.model, p.gpu, p.precision): p for p in profiles})


# What others measured


@here
def test_another_gpu_from_five_probes() -> None:
    found = case("RTX 4090 from the RTX 3090 and five probes")
    assert len(found.seen) > 1400
    assert found.median <= 0.08
    assert found.p90 <= 0.25
    assert 0.75 <= found.inside <= 0.90


@here
def test_probes_err_less_than_data_sheets() -> None:
    probes = case("RTX 4090 from the RTX 3090 and five probes")
    sheets = case("RTX 4090 from the RTX 3090 and both data sheets")
    assert probes.median < 0.5 * sheets.median
    assert sheets.inside >= 0.75


@here
def test_a_processor_from_its_own_five_probes_and_layers_is_honest_where_the_error_is_large() -> None:
    found = case("i9 CPU from its five probes")
    assert found.median > 0.1
    assert 0.75 <= found.inside <= 0.90


@here
def test_held_out_models_from_the_others_on_the_gpu() -> None:
    found = case("RTX 3090 from four fifths")
    assert found.median < 0.15
    assert 0.75 <= found.inside <= 0.90


@here
def test_the_usual_spread_of_a_handful_of_probes_is_that_of_the_rtx_3090() -> None:
    assert round(layer_spread(), 2) == transfer.LAYER_SPREAD


@pytest.mark.parametrize("known", [1, 2, 4, 8, 16, 32, 64, 128, 256])
def test_a_t4_from_a_v100_and_any_one_point_is_within_the_band_at_every_batch(known: int) -> None:
    told = list(t4_from_v100(known))
    assert len(told) == 8
    assert [seen for one, seen in told if not one.low <= seen <= one.high] == []


def test_one_point_narrows_the_band() -> None:
    widths = [max(one.high / one.low for one, _ in t4_from_v100(known)) for known in (None, 64)]
    assert widths[1] < 0.8 * widths[0]


@here
@pytest.mark.parametrize("gpu", ["RTX3090", "RTX4090"])
def test_time_scales_with_pixels_at_full_batch(gpu: str) -> None:
    found = pixels(gpu)
    assert found.median <= 0.03
    assert found.inside >= 0.75


@here
def test_single_pictures_on_a_processor_do_not_scale_with_pixels() -> None:
    assert pixels("i9-10940X").median > 0.2


@here
def test_the_table_in_the_docs_is_what_the_command_gives() -> None:
    docs = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    assert "\n".join(table(all_cases())) in docs


def test_the_command_prints_the_tables_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    PARTS["predictions"]()
    told, judged, twice = re.split("\n\n(?:Errors beside|One batch).*\n\n", capsys.readouterr().out.strip())
    assert told == "\n".join(["Errors of predictions", "", *table(all_cases())])
    page = (ROOT / "docs" / "prediction.md").read_text(encoding="utf-8")
    assert judged in page
    assert twice in page


# Laws of the parts


def test_a_band_of_80_percent() -> None:
    ten = around(0.010, 0.1)
    assert (round(ten.low * 1e3, 1), round(ten.high * 1e3, 1)) == (8.8, 11.4)
    drawn = np.exp(np.random.default_rng(1).normal(log(0.010), 0.1, 100_000))
    assert np.mean((drawn >= ten.low) & (drawn <= ten.high)) == pytest.approx(0.8, abs=0.005)


def test_both_ratios_are_found_again() -> None:
    shares = (0.05, 0.1, 0.2, 0.3, 0.4)
    pairs = [Pair(f"m{u}", u, 1.0, u * 0.2 + (1 - u) * 0.8) for u in shares]
    found = measured_ratio(pairs)
    assert (found.arithmetic, found.other) == (pytest.approx(0.2, abs=0.01), pytest.approx(0.8, abs=0.01))
    assert found(0.3) == pytest.approx(0.62, abs=0.002)
    assert found.spread < transfer.RATIO_SPREAD
    assert found.probes == tuple(pair.model for pair in pairs)


def test_one_probe_is_one_ratio_with_a_wider_band() -> None:
    found = measured_ratio([Pair("resnet50", 0.3, 0.010, 0.015)])
    assert found(0.1) == found(0.9) == found(None) == pytest.approx(1.5)
    assert found.spread == transfer.ONE_RATIO_SPREAD > transfer.RATIO_SPREAD


def test_data_sheets_that_disagree_have_a_wider_band() -> None:
    alike, apart = sheet_ratio((10, 5), (100, 50)), sheet_ratio((10, 40), (100, 50))
    assert (alike(None), alike.spread) == (pytest.approx(2), transfer.SHEET_SPREAD)
    assert apart.spread == pytest.approx(log(8) / 2)


def test_a_large_batch_tells_the_slope_and_a_small_one_the_floor() -> None:
    batches = (1, 2, 4, 8, 16, 32, 64)
    form, unknown = floor_and_slope(batches, [(0.010**3 + (0.001 * b) ** 3) ** (1 / 3) for b in batches], 0.0005)
    assert unknown == 0
    assert (form.a, form.c) == (pytest.approx(0.010, rel=0.02), pytest.approx(0.001, rel=0.02))
    large = Transferred(form, 1.0, 0.5, ((64.0, 0.128),))
    assert large(64).value == 0.128
    assert large(128).value == pytest.approx(0.256, rel=0.05)
    assert large(1).value == pytest.approx(0.010, rel=0.05)
    small = Transferred(form, 1.0, 0.5, ((1.0, 0.010),))
    assert small(64).high / small(64).low > 2 * large(32).high / large(32).low


def test_a_series_under_its_knee_says_little_of_its_work() -> None:
    """ResNet-50 on a V100 is flat up to batch 4; a T4 is not. NVIDIA's series: facts of both GPUs, fp32."""
    v100 = {1: 10.37, 2: 10.24, 4: 10.46}
    t4 = {1: 10.7, 2: 11.26, 4: 12.73, 8: 22.41}
    work_ms = 8.22e9 / (REACHED * 15.7e12) * 1e3
    form, unknown = floor_and_slope(list(v100), list(v100.values()), work_ms)
    assert unknown == transfer.ROOFLINE_SPREAD
    assert form(4) == pytest.approx(10.46, rel=0.05)
    told = Transferred(form, 15.7 / 8.1, unknown)
    for batch, truth in t4.items():
        assert told(batch).low <= truth <= told(batch).high


def test_costs_of_a_layer_model_are_found_again() -> None:
    rng = np.random.default_rng(1)
    works = [SampleWork(*(10 ** rng.uniform(-1, 1, 4) * np.array([1e9, 1e8, 1e7, 0.1]))) for _ in range(200)]
    costs = (1e-13, 2e-12, 5e-12, 1e-3)
    times = [sum(c * t for c, t in zip(costs, w.terms, strict=True)) * exp(rng.normal(0, 0.02)) for w in works]
    found = layer_model([f"m{i}" for i in range(200)], works, times)
    assert found.costs == pytest.approx(costs, rel=0.05)
    assert found.spread == pytest.approx(0.02, rel=0.3)


def test_few_models_do_not_show_their_own_spread() -> None:
    works = [SampleWork(k * 1e9, k * 1e8, 1e6, 0.01) for k in (1, 2, 3, 4, 5)]
    assert layer_model(list("abcde"), works, [0.001 * k for k in (1, 2, 3, 4, 5)]).spread == transfer.LAYER_SPREAD


# Rules in order of trust

ON_V100 = [profile(name, V100, 0.004, 0.001) for name in ("one", "two", "three")]


def test_what_was_measured_at_another_resolution_needs_no_prediction() -> None:
    large = profile("resnet50.448px", V100, 0.004, 0.001)

    def layers_of(name: str) -> Facts:
        return facts("resnet50").at(448) if name == large.model else facts(name)

    known = Predictor(library(large), CATALOG.gpus, facts_of=layers_of)
    told = known.predict(large.model, "V100", None, 4)
    assert told is not None
    assert told.rule is PredictionRule.PROFILE
    assert told.latency_s.value == pytest.approx(large.latency(4))


def test_without_a_runtime_that_of_ones_own_measurement_is_meant() -> None:
    """PyTorch computes nothing in int8; who measured an engine of TensorRT asks for what was measured."""
    mine = replace(profile("one", V100, 0.004, 0.001), precision="int8", runtime="tensorrt")
    known = Predictor(library(mine), CATALOG.gpus)
    assert known.predicted_pair("one", "T4", "int8") is not None
    assert "does not compute" not in known.why_not("one", "T4", "int8").why


def test_own_times_in_a_runtime_tell_of_other_gpus() -> None:
    """Twice the time on a V100 moves what is told of an L4 by more than half of that; of others only learnt counts."""
    engine = replace(profile("resnet50", V100, 0.0006, 0.0003), precision="fp16", runtime="tensorrt")
    engine = replace(engine, latency_evidence=Evidence.ELSEWHERE, flops_per_sample=8.2e9)
    slow = replace(engine, latency=Interpolated(engine.latency.x, tuple(2 * s for s in engine.latency.y)))
    fast_s, slow_s, unknown_s = (told_s(library(*own), "L4", "fp16", "tensorrt", 8) for own in ((engine,), (slow,), ()))
    assert 1.4 < slow_s / fast_s <= 2
    assert unknown_s == told_s(
        library(replace(engine, latency_evidence=Evidence.PUBLISHED)), "L4", "fp16", "tensorrt", 8
    )
    assert unknown_s == told_s(library(replace(engine, runtime="onnxruntime")), "L4", "fp16", "tensorrt", 8)


def told_s(known: Library, *case: str | int) -> float:
    """Seconds of a batch of ResNet-50 on a GPU, at a precision, in a runtime."""
    gpu, precision, runtime, batch = case
    pair = Predictor(known, CATALOG.gpus).predicted_pair("resnet50", str(gpu), str(precision), str(runtime))
    assert pair is not None
    return pair.time_s(float(batch)).value


def test_times_of_an_engine_say_nothing_of_pytorch_where_that_is_asked_for() -> None:
    """And where no runtime is named, the engine's is meant on other GPUs too."""
    engine = replace(profile("resnet50", V100, 0.0006, 0.0003), precision="fp16", runtime="tensorrt")
    assert told_s(library(engine), "L4", "fp16", "pytorch", 8) == told_s(library(), "L4", "fp16", "pytorch", 8)
    unnamed = Predictor(library(engine), CATALOG.gpus).predicted_pair("resnet50", "L4", "fp16")
    assert unnamed is not None
    assert unnamed.runtime == "tensorrt"
    assert unnamed.time_s(8).value == told_s(library(engine), "L4", "fp16", "tensorrt", 8)


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_ones_own_runtime_at_the_precision_is_meant_whatever_is_known_at_others(precision: str) -> None:
    engine = replace(profile("resnet50", V100, 0.0006, 0.0003), gpu="T4", precision=precision, runtime="tensorrt")
    known = library(engine, profile("resnet50", V100, 0.004, 0.001))
    unnamed = Predictor(known, CATALOG.gpus).predicted_pair("resnet50", "L4", precision)
    assert unnamed is not None
    assert unnamed.runtime == "tensorrt"


def test_ones_own_precision_is_meant_where_the_runtime_alone_is_named() -> None:
    engine = replace(profile("one", V100, 0.0006, 0.0003), precision="fp16", runtime="tensorrt")
    found = Predictor(library(engine), CATALOG.gpus).predicted_pair("one", "L4", None, "tensorrt")
    assert found is not None
    assert found.precision == "fp16"


def test_one_batch_of_ones_own_tells_of_other_gpus() -> None:
    """Smaller batches are extrapolated from it."""
    engine = replace(profile("one", V100, 0.0006, 0.0003), precision="fp16", runtime="tensorrt")
    single = replace(engine, latency_evidence=Evidence.EXTRAPOLATED)
    assert Predictor(library(single), CATALOG.gpus).predicted_pair("one", "L4", "fp16", "tensorrt") is not None


def test_of_ones_own_times_those_of_the_same_chip_come_first() -> None:
    engines = [
        replace(profile("one", V100, s, s), gpu=gpu, precision="fp16", runtime="tensorrt")
        for gpu, s in (("T4", 0.004), ("H100", 0.0005))
    ]
    both, near = (
        Predictor(library(*known), CATALOG.gpus).predicted_pair("one", "H200", "fp16", "tensorrt")
        for known in (engines, engines[1:])
    )
    assert both is not None
    assert near is not None
    assert both.latency_s == near.latency_s


def test_probes_of_another_runtime_are_none() -> None:
    engines = [replace(profile(name, V100, 0.004, 0.001), runtime="tensorrt") for name in ("two", "three")]
    on_l4 = [profile(name, L4, 0.004, 0.003) for name in ("two", "three")]
    found = Predictor(library(ON_V100[0], *engines, *on_l4), CATALOG.gpus).predict("one", "L4")
    assert found is not None
    assert found.probes == ()


def test_what_was_learnt_counts_in_ratios_of_data_sheets() -> None:
    """The ratio of both rooflines and of what was learnt of GPUs, each by half."""
    source = replace(profile("resnet50", V100, 0.004, 0.001), flops_per_sample=8.2e9)
    known = Predictor(library(source), CATALOG.gpus)
    sheets = known.carrying.sheets(source, T4)
    both = known._sheets(source, T4)
    assert both(0.3) == pytest.approx(sqrt(sheets(0.3) * known._learnt_ratio(source, T4, source.latency.x[-1])))


def test_what_was_measured_needs_no_prediction() -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    assert known.get("one", "V100") == ON_V100[0]
    exact, between, past = (known.predict("one", "V100", None, batch) for batch in (4, 3, 64))
    assert exact is not None
    assert between is not None
    assert past is not None
    assert exact.latency_s.low == exact.latency_s.high == pytest.approx(0.008)
    assert between.latency_s.low < 0.007 < between.latency_s.high
    assert between.rule is PredictionRule.PROFILE
    assert past.evidence is Evidence.EXTRAPOLATED
    assert past.latency_s.high / past.latency_s.low > between.latency_s.high / between.latency_s.low


def test_probes_go_before_data_sheets() -> None:
    on_l4 = [profile(name, L4, 0.004, 0.003) for name in ("one", "two")]
    found = Predictor(library(*ON_V100, *on_l4), CATALOG.gpus).predict("three", "L4")
    assert found is not None
    assert (found.rule, found.source, found.probes) == (PredictionRule.MEASURED_RATIO, "V100", ("one", "two"))
    assert found.evidence is Evidence.TRANSFERRED
    assert found.latency_s.low < 0.052 < found.latency_s.high  # as long as the probes with the same times


def test_without_probes_data_sheets_tell_with_a_wider_band() -> None:
    found = Predictor(library(*ON_V100), CATALOG.gpus).predict("one", "L4")
    assert found is not None
    assert (found.rule, found.probes, found.evidence) == (PredictionRule.DATA_SHEETS, (), Evidence.ASSUMED)
    assert found.latency_s.high / found.latency_s.low > 1.5


def test_weaker_evidence_of_the_source_stays() -> None:
    weak_one = replace(ON_V100[0], memory_evidence=Evidence.ASSUMED)
    on_l4 = profile("two", L4, 0.004, 0.003)
    found = Predictor(library(weak_one, ON_V100[1], on_l4), CATALOG.gpus).predict("one", "L4")
    assert found is not None
    assert (found.rule, found.evidence) == (PredictionRule.MEASURED_RATIO, Evidence.ASSUMED)


def test_layers_alone_are_told_of_as_a_new_model_with_a_wide_band() -> None:
    found = Predictor(library(*ON_V100), CATALOG.gpus).predict("lenet", "L4", "fp32", 8)
    assert found is not None
    assert (found.rule, found.evidence) == (PredictionRule.LEARNT, Evidence.PREDICTED)
    assert found.latency_s.high > 2 * found.latency_s.low
    assert found.latency_s.low >= 8 * facts("lenet").flops / L4.peak_flops("fp32")


def test_layers_and_data_sheets_tell_where_nothing_was_learnt() -> None:
    knows_nothing = Predictor(library(*ON_V100), CATALOG.gpus, learnt=Learnt({}, {}, {}))
    found = knows_nothing.predict("lenet", "L4", "fp32", 8)
    assert found is not None
    assert (found.rule, found.evidence) == (PredictionRule.ROOFLINE, Evidence.ASSUMED)
    assert found.latency_s.value == pytest.approx(roofline_s(facts("lenet"), L4, "fp32", 8))
    assert Predictor(library(*ON_V100), CATALOG.gpus).predict("unheard_of", "L4") is None


def test_what_was_published_of_an_architecture_goes_before_one_ratio() -> None:
    on_l4 = profile("one", L4, 0.004, 0.003)
    known = Predictor(library(*ON_V100, profile("yolov3", V100, 0.004, 0.001), on_l4), CATALOG.gpus)
    found = known.predict("yolov3", "L4")
    assert found is not None
    assert (found.rule, found.evidence) == (PredictionRule.LEARNT, Evidence.PREDICTED)
    assert found.latency_s.low < found.latency_s.value < found.latency_s.high


@pytest.mark.parametrize(("evidence", "joined"), [(Evidence.MEASURED, True), (Evidence.ASSUMED, False)])
def test_an_assumed_time_is_no_evidence_against_published_ones(evidence: Evidence, joined: bool) -> None:
    probes = [profile(name, kind, 0.004, 0.003) for name in ("one", "two") for kind in (V100, L4)]
    slow = replace(profile("yolov3", V100, 1.0, 0.5), latency_evidence=evidence)
    found = Predictor(library(*probes, slow), CATALOG.gpus).predict("yolov3", "L4", batch=1)
    published = Predictor(library(*probes), CATALOG.gpus).predict("yolov3", "L4", batch=1)
    assert found is not None
    assert published is not None
    assert (found.latency_s.value > published.latency_s.high) == joined
    assert (found.latency_s.value == pytest.approx(published.latency_s.value)) != joined


def test_an_assumed_time_that_published_ones_bear_out_narrows_the_band() -> None:
    probes = [profile(name, kind, 0.004, 0.003) for name in ("one", "two") for kind in (V100, L4)]
    published = Predictor(library(*probes), CATALOG.gpus).predict("yolov3", "L4", batch=1)
    assert published is not None
    alike = profile("yolov3", V100, 0.0, published.latency_s.value)
    assumed = replace(alike, latency_evidence=Evidence.ASSUMED)
    found = Predictor(library(*probes, assumed), CATALOG.gpus).predict("yolov3", "L4", batch=1)
    assert found is not None
    assert found.latency_s.high / found.latency_s.low < published.latency_s.high / published.latency_s.low


@pytest.mark.parametrize("precision", ["bf16", "amp-bf16", "tf32"])
@pytest.mark.parametrize("runtime", [None, "tensorrt"])
def test_nothing_is_predicted_at_a_precision_that_the_gpu_lacks(precision: str, runtime: str | None) -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    assert known.get("vgg16", "T4", precision, runtime) is None
    no = known.why_not("vgg16", "T4", precision)
    assert no.why == f"T4 computes nothing in {precision}"
    assert no.remedy == "another `precision` (fp32, torch, amp, fp16, int8), or another kind of GPU"
    is_pytorchs = (precision, runtime) == ("amp-bf16", "tensorrt")
    assert (known.get("vgg16", "L4", precision, runtime) is None) == is_pytorchs


def test_a_model_whose_layers_nobody_knows_is_predicted_at_the_precisions_it_was_measured_at() -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    assert known.get("one", "L4", "amp") is None
    assert known.why_not("one", "L4", "amp").why == "it was measured at fp32 only, and its layers are not known"


def test_pytorch_as_it_comes_is_fp32_where_there_is_no_tf32() -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    as_it_comes, fp32 = (known.get("efficientnet_b0", "T4", precision) for precision in ("torch", "fp32"))
    assert as_it_comes is not None
    assert fp32 is not None
    assert [as_it_comes.latency(batch) for batch in (1, 8)] == [fp32.latency(batch) for batch in (1, 8)]


@pytest.mark.parametrize(("model", "other"), [("bert_base", "fp32"), ("vit_b_16", "fp32"), ("resnet50", "tf32")])
def test_pytorch_as_it_comes_multiplies_matrices_in_fp32_and_convolves_in_tf32(model: str, other: str) -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    times_s = [known.get(model, "A100-40GB", precision) for precision in ("torch", other)]
    assert None not in times_s
    assert len({one.latency(32) for one in times_s if one}) == 1


CONVNEXT, COATNET = "convnext_tiny", "timm:coatnet_0_rw_224.sw_in1k"
SEGFORMER = "hf:nvidia/segformer-b2-finetuned-ade-512-512"


@pytest.mark.parametrize(("model", "end"), [*product((CONVNEXT, COATNET, SEGFORMER), End)])
def test_pytorch_as_it_comes_takes_time_between_both_of_what_does_both(model: str, end: float) -> None:
    """By its share of matrix products: nine tenths of ConvNeXt, a twentieth of CoAtNet."""
    known = Predictor(library(*ON_V100), CATALOG.gpus, end)
    mixed, products, convolutions = (known.get(model, "A100-40GB", p) for p in ("torch", "fp32", "tf32"))
    assert mixed is not None
    assert products is not None
    assert convolutions is not None
    times_s = [one.latency(32) for one in (convolutions, mixed, products)]
    assert times_s == sorted(times_s)
    if times_s[0] * (1 + SAME) < times_s[2]:  # CoAtNet's high ends are the same in both
        share = (times_s[1] - times_s[0]) / (times_s[2] - times_s[0])
        assert share == pytest.approx(facts(model).products_share, abs=0.15)  # bands join two rules, not linearly


OF_LAYERS = ("hf:BAAI/bge-small-en-v1.5", "hf:google/siglip-base-patch16-224", "hf:hustvl/yolos-tiny", "crnn")
"""Of which nothing was published: what was learnt of others is joined with what their layers say."""


@pytest.mark.parametrize("model", OF_LAYERS)
@pytest.mark.parametrize(
    ("narrower", "wider"), [("tf32", "torch"), ("torch", "fp32"), ("fp16", "amp"), ("fp16", "fp32")]
)
def test_two_rules_together_keep_the_order_of_precisions_that_each_keeps(model: str, narrower: str, wider: str) -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    kept = []
    for gpu in ("A10G", "A100-40GB", "L4", "B200"):
        one, other = (known.predicted_pair(model, gpu, precision) for precision in (narrower, wider))
        assert one is not None
        assert other is not None
        assert len(one.parts) == len(other.parts) == 2
        for batch in (1, 2, 4, 8, 16, 32, 64):
            parts = zip(one.parts, other.parts, strict=True)
            if all(is_no_slower(mine.time_s(batch), others.time_s(batch)) for mine, others in parts):
                kept.append(is_no_slower(one.time_s(batch), other.time_s(batch)))
    assert kept
    assert all(kept)


@pytest.mark.parametrize(
    ("model", "gpu", "precision", "runtime", "batch"),
    [
        ("nnunet_2d", "V100-32GB", "fp32", "tensorflow", 16),  # published from 32 on: drawn through the same batches
        ("yolo11s", "L4", "fp32", "pytorch", 32),  # its layers are shipped: their counts
        ("YOLO11s", "T4", "fp16", "tensorrt", 8),
        ("ultralytics:yolo11s", "H100", "fp16", "tensorrt", 4),
        ("resnet152", "Jetson-AGX-Orin-64GB", "fp32", "tensorrt", 32),  # held to the GPU's peak
        ("inception_v4", "L4", "fp32", "torch-compile", 16),
        (CONVNEXT, "A100-40GB", "torch", "pytorch", 32),  # its name says nothing of its products, its layers do
        (COATNET, "L4", "torch", "pytorch", 8),
    ],
)
def test_a_plan_and_a_query_say_the_same(
    model: str, gpu: str, precision: str, runtime: str, batch: int, tmp_path: Path
) -> None:
    file = tmp_path / "asked.csv"
    file.write_text(f"gpu,model,input,precision,runtime,batch\n{gpu},{model},,{precision},{runtime},{batch}\n")
    (answer,) = modelling.predict(file)
    pair = Predictor(library(*ON_V100), CATALOG.gpus).predicted_pair(model, gpu, precision, runtime)
    assert pair is not None
    told = pair.time_s(float(batch))
    answered = (answer.latency_s, answer.latency_low_s, answer.latency_high_s)
    assert (told.value, told.low, told.high) == pytest.approx(answered)
    spared = WINOGRAD if precision == "fp32" else 1.0
    least_s = (pair.flops or 0.0) / spared * batch / CATALOG.gpus[gpu].peak_flops(precision)
    assert told.low >= least_s * (1 - 1e-9)


def test_a_published_time_has_the_band_that_two_publishers_differ_by() -> None:
    row = {"gpu": "T4", "model": "resnet50", "precision": "fp32", "runtime": "pytorch", "batch": "16"}
    answer = QueryKnowledge(learnt(), CATALOG.gpus).answer(row)
    assert answer.rule == "published"
    assert answer.latency_s is not None
    assert answer.latency_high_s == pytest.approx(answer.latency_s * exp(SPREAD_80 * OWN_SOFTWARE_SD))
    assert answer.latency_low_s == pytest.approx(answer.latency_s / exp(SPREAD_80 * OWN_SOFTWARE_SD))


def test_a_runtime_that_is_asked_for_is_predicted_from_what_was_published_in_it() -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    usual, compiled = (known.get("resnet50", "A10G", "fp16", runtime) for runtime in ("pytorch", "tensorrt"))
    assert usual is not None
    assert compiled is not None
    assert compiled.runtime == "tensorrt"
    assert compiled.latency(1) < usual.latency(1)
    assert known.get("one", "L4", None, "tensorrt") is None


def measured_by_layers(name: str) -> Profile:
    times = [b * 1e-13 * sum(work_of(facts(name), b, "fp32").terms[:2]) + 0.001 for b in (1, 2, 4, 8, 16)]
    made = profile(name, L4, 0.001, 0.001)
    return replace(made, latency=replace(made.latency, y=tuple(times)))


def test_models_measured_on_the_gpu_tell_of_another_by_its_layers() -> None:
    others = ("resnet18", "resnet34", "vgg16", "resnet101", "convnext_tiny")
    known = Predictor(library(*map(measured_by_layers, others)), CATALOG.gpus)
    found = known.predict("ssd_vgg", "L4", None, 8)
    assert found is not None
    assert (found.rule, set(found.probes)) == (PredictionRule.LAYER_MODEL, set(others))
    assert found.evidence is Evidence.PREDICTED
    seen = measured_by_layers("ssd_vgg").latency(8)
    assert found.latency_s.low < seen < found.latency_s.high


def test_bytes_are_exact_and_bandwidth_is_the_devices() -> None:
    on_t4 = replace(profile("two", T4, 0.004, 0.003), load=replace(ON_V100[0].load, bytes_per_s=6e9))
    told = Predictor(library(*ON_V100, on_t4), CATALOG.gpus).predicted_pair("one", "T4")
    assert told is not None
    footprint = told.footprint
    assert footprint.weight_bytes == ON_V100[0].weight_bytes
    assert footprint.load(footprint.weight_bytes) == pytest.approx(footprint.weight_bytes / 6e9)
    shown = told.prediction(16)
    assert shown.reserved_bytes == pytest.approx(footprint.weight_bytes + CARRIED * 16 * 2e7)
    assert footprint.weight_bytes < shown.memory_bytes < shown.reserved_bytes


def test_the_bad_end_is_slower_larger_and_possible() -> None:
    known = Predictor(library(*ON_V100), CATALOG.gpus)
    low, value, high = (known.at(end).get("one", "L4") for end in End)
    assert low is not None
    assert value is not None
    assert high is not None
    assert low.latency(8) < value.latency(8) < high.latency(8)
    assert held_bytes(low, 8, 1) == held_bytes(high, 8, 1), "no end of a band keeps less memory free"
    assert high.load.bytes_per_s < low.load.bytes_per_s <= L4.pcie_bytes_per_s
    assert list(high.latency.y) == sorted(high.latency.y)
    assert high.predicted
    assert known.get("one", "L4") is known.get("one", "L4")


def test_shipped_models_are_predicted_on_every_gpu() -> None:
    """One on each, in turn."""
    known = Predictor(SHIPPED, CATALOG.gpus)
    for gpu, name in zip(CATALOG.gpus, cycle(("yolov3", "nvidia_resnet50", "resnet50_v2", "bert_base"))):
        found = known.predict(name, gpu)
        assert found is not None
        assert 0 < found.latency_s.low <= found.latency_s.value <= found.latency_s.high < 100
    assert BATCHES[0] == 1


def test_interpolation_keeps_the_profiles_own_band() -> None:
    told = interpolated(SHIPPED.profiles["nvidia_resnet50", "V100", "fp32"], 24)
    assert told.latency_s.low < told.latency_s.value < told.latency_s.high < 1.1 * told.latency_s.value


@pytest.mark.parametrize(
    ("model", "gpu", "precision", "batch"),
    [
        ("resnet50", "V100", "fp32", 64),  # published
        ("resnet50", "V100", "fp32", 200),  # between published batches
        ("resnet50", "V100", "fp32", 512),  # past the last
        ("resnet50", "H100", "torch", 32),  # between batches that this project measured
        ("bert_base", "H100", "torch", 128),
    ],
)
def test_where_there_is_a_profile_a_row_of_a_table_is_answered_as_plans_have_it(
    model: str, gpu: str, precision: str, batch: int
) -> None:
    """V100, ResNet-50, 512 pictures: `predict` said 407 ms and `profile` 429."""
    row = {"model": model, "gpu": gpu, "precision": precision, "batch": str(batch)}
    told = QueryKnowledge(learnt(), CATALOG.gpus).answer({"input": "", "runtime": "", **row})
    planned = Predictor(SHIPPED, CATALOG.gpus).predict(model, gpu, precision, batch)
    assert planned is not None
    in_plans = planned.latency_s
    assert told.latency_s == in_plans.value
    assert told.latency_low_s is not None
    assert told.latency_high_s is not None
    assert told.latency_low_s <= in_plans.low <= in_plans.high <= told.latency_high_s


@pytest.mark.parametrize(
    ("evidence", "spread", "error_sd"),
    [
        (Evidence.MEASURED, 1.0, None),
        (Evidence.ELSEWHERE, 1.0, None),
        (Evidence.PUBLISHED, None, OWN_SOFTWARE_SD),
        (Evidence.PUBLISHED, 0.2, OWN_SOFTWARE_SD),
        (Evidence.PUBLISHED, 1.0, log(2) / sqrt(2)),
        (Evidence.ASSUMED, None, OWN_SOFTWARE_SD),
        (Evidence.ASSUMED, 1.0, log(2) / sqrt(2)),
        (Evidence.EXTRAPOLATED, 0.2, log(1.2) / sqrt(2)),
        (Evidence.EXTRAPOLATED, 0.01, None),
    ],
)
def test_times_of_others_are_as_sure_as_their_software_is_ones_own_or_as_they_agree(
    evidence: Evidence, spread: float | None, error_sd: float | None
) -> None:
    """Of two draws from one distribution the difference has twice the variance of each."""
    doubt = doubt_of(replace(profile("one", T4, 0.01, 0.001), latency_evidence=evidence, source_spread=spread))
    assert (doubt and doubt.error_sd(8)) == (error_sd and pytest.approx(error_sd))


@pytest.mark.parametrize("gpu", ["V100", "B200", "GTX580"])
def test_no_time_is_below_operations_over_the_peak(gpu: str) -> None:
    known = Predictor(SHIPPED, CATALOG.gpus)
    for name in ("vgg16", "resnet50", "bert_base", "lenet"):
        for batch in (64, 1000):
            found = known.predict(name, gpu, "fp32", batch)
            assert found is not None
            measured = SHIPPED.get(name, "V100", "fp32")
            flops = (
                facts(name).flops
                if measured is None or found.rule is PredictionRule.ROOFLINE
                else measured.flops_per_sample
            )
            assert flops is not None
            spared = 1.0 if name == "bert_base" else WINOGRAD
            assert found.latency_s.low >= 0.999 * flops / spared * batch / CATALOG.gpus[gpu].fp32_flops
            assert found.latency_s.low <= found.latency_s.value <= found.latency_s.high


@pytest.mark.parametrize(
    ("name", "gpu", "precision", "spared"),
    [
        ("vgg16", "V100", "fp32", 15.35 / 15.47),
        ("resnet50", "V100", "fp32", 16 * 0.1156 / 4.089),
        ("vgg16", "V100", "torch", 15.35 / 15.47),
        ("vgg16", "A30", "torch", 0.0),
        ("vgg16", "V100", "fp16", 0.0),
        ("vit_b_16", "V100", "fp32", 0.0),
    ],
)
def test_what_kernels_leave_out_is_left_out_of_the_least(name: str, gpu: str, precision: str, spared: float) -> None:
    """4 of 9 products of 3x3 convolutions are computed at fp32, which `torch` is on a V100.

    By hand, in G multiply-adds: all convolutions of VGG-16, and the middle one of each block of ResNet-50.
    """
    layers = Predictor(SHIPPED, CATALOG.gpus).grounds.facts(name)
    assert computed_share(layers, CATALOG.gpus[gpu], precision) == pytest.approx(1 - spared * 5 / 9, rel=1e-3)


@pytest.mark.parametrize("gpu", ["RTX3060", "A30", "B200"])
def test_a_band_of_convolutions_does_not_end_at_the_peak_of_the_gpu(gpu: str) -> None:
    """VGG-16 passed the V100's peak by 2 %: where that is carried over, the fast end may pass the peak."""
    pair = Predictor(SHIPPED, CATALOG.gpus).predicted_pair("vgg16", gpu, "fp32")
    assert pair is not None
    assert pair.flops is not None
    at_peak_s = pair.flops * 64 / CATALOG.gpus[gpu].peak_flops("fp32")
    assert at_peak_s / WINOGRAD <= pair.time_s(64).low < 0.99 * at_peak_s


def test_a_series_that_is_cut_short_goes_on_as_it_was_measured() -> None:
    """80 % bands hold 70 % and more, and half of the errors is half of those on a straight line, or less."""
    learnt_on, straight_on = cut_short()
    assert len(learnt_on.seen) > 150
    assert learnt_on.inside >= 0.7
    assert learnt_on.median <= straight_on.median / 2


def test_a_series_of_one_batch_on_a_processor_goes_on_in_proportion() -> None:
    one = replace(profile("resnet50", V100, 0.003, 0.0001), latency=Interpolated((2.0,), (0.02,)))
    assert interpolated(one, 8).latency_s.value == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("model", "gpu", "precision", "end"),
    [
        ("resnet50", "A100-80GB", "amp", 256),  # its profile on another GPU ends there
        ("resnet50", "A100-80GB", "amp", 32),  # batches that are predicted at once end there
        ("yolov3", "T4", "fp32", 4),
        ("lenet", "V100", "fp32", 32),  # of layers alone
        ("resnext101_64x4d", "V100", "fp32", 16),  # measured there
    ],
)
def test_time_and_band_do_not_jump_where_what_was_measured_ends(model, gpu, precision, end) -> None:
    predictor = Predictor(SHIPPED, CATALOG.gpus)
    at, past = (predictor.predict(model, gpu, precision, batch) for batch in (end, end * (1 + 1e-6)))
    assert at is not None
    assert past is not None
    step = 1e-4  # a hundred times that of the batch
    for name in ("value", "low", "high"):
        assert getattr(past.latency_s, name) == pytest.approx(getattr(at.latency_s, name), rel=step)


def test_a_value_under_its_limit_is_raised_with_its_band() -> None:
    assert at_least(Estimate(value=4.0, low=2.0, high=8.0), 5.0) == Estimate(value=5.0, low=5.0, high=10.0)


def test_a_layer_model_is_fitted_to_launches_not_passes() -> None:
    """LeNet starts 11 kernels, a ResNet-50 174: it does not take a ResNet's overhead."""
    told = Predictor(SHIPPED, CATALOG.gpus).predict("lenet", "V100", "fp32", 1)
    assert told is not None
    assert told.rule is PredictionRule.LAYER_MODEL
    assert 1e-5 < told.latency_s.low < told.latency_s.high < 8.4e-3 / 2  # of a ResNet-50


# What a plan makes of it

CAMERAS = {"one": (4, 10.0)}


def answer(known: Library, gpus: tuple[str, ...], **changes: object) -> Plan:
    buy = BuySpec(gpus=gpus, providers=("aws", "azure"), retired=True, evidence=EvidenceAsked.MEASURED)
    asked = scenario([model("one", 0.2)], CAMERAS, buy=buy, **changes)
    return asked_of(asked, known)


def asked_of(asked: Scenario, known: Library) -> Plan:
    return plan(loaded(asked), CATALOG, known, created_at="2026-08-01T12:00:00+00:00")


ONE = library(replace(ON_V100[0], layers=ON_V100[0].layers))


def test_without_any_profile_the_plan_is_predicted_and_says_so_on_every_figure() -> None:
    found = answer(ONE, ("L4",))
    best = found.recommendation
    assert best.feasible
    assert best.predicted
    assert all(m.predicted and m.evidence.rank > Evidence.FITTED.rank for m in best.models)
    assert all(g.predicted for g in best.gpus)
    assert [(p.model, p.gpu, p.rule) for p in found.predictions] == [("one", "L4", PredictionRule.DATA_SHEETS)]
    shown = render(found, Format.TABLE, Screen())
    (gpu_row,) = [line for line in shown.splitlines() if " L4 " in line and "GB" in line and "%" in line]
    assert gpu_row.count("~") == 6
    model_rows = [line for line in shown.splitlines() if line.startswith("  one ")]  # of a table in two parts
    assert sum(row.count("~") for row in model_rows) == 6  # the mean batch too
    assert [(one.model, one.gpu) for one in found.measure_next] == [("one", "L4")]
    assert (best.gpu_count, found.measure_next[0].worth_usd_per_month) == (1, 0.0), "one GPU is the least there is"
    assert weak(found)


def test_profiles_go_before_predictions_and_cheaper_gpus_are_named() -> None:
    found = answer(ONE, ("V100", "L4"))
    assert {g.kind for g in found.recommendation.gpus} == {"V100"}
    assert not found.recommendation.predicted
    assert found.predictions == ()
    assert [o.gpu for o in found.outlooks] == ["L4"]
    (next_one,) = found.measure_next
    assert (next_one.model, next_one.gpu) == ("one", "L4")
    cost = found.outlooks[0].cost_usd_per_hour
    assert cost.low <= cost.value <= cost.high
    assert cost.value < found.recommendation.cost_usd_per_hour


@pytest.mark.parametrize("named", ["timm:resnet50d.ra2_in1k", "resnet50d.ra2_in1k"])
def test_a_measurement_is_asked_for_as_calibrate_knows_the_model(named: str) -> None:
    one = replace(model("one", 0.2), model=named)
    found = asked_of(scenario([one], CAMERAS, buy=BuySpec(gpus=("L4",))), ONE)
    words = found.measure_next[0].command.split()
    assert words[-2:] == ["--model", "timm:resnet50d.ra2_in1k"]
    assert is_sourced(words[-1]), "calibrate refuses other names"


def test_what_no_measured_gpu_can_do_others_might() -> None:
    providers, measured = ("aws", "azure"), EvidenceAsked.MEASURED
    buy = BuySpec(gpus=("V100", "L4"), providers=providers, retired=True, max_cost=1.0, evidence=measured)
    found = asked_of(
        scenario([model("one", 0.2)], CAMERAS, buy=buy),
        ONE,
    )
    assert not found.recommendation.feasible
    assert [o.gpu for o in found.outlooks] == ["L4"]


def test_what_is_measured_best_of_all_asks_for_no_measurement() -> None:
    sure = Evidence.MEASURED
    only = replace(ON_V100[0], latency_evidence=sure, memory_evidence=sure, load_evidence=sure)
    found = answer(library(only), ("V100",))
    assert (found.outlooks, found.measure_next) == ((), ())


def test_predict_never_refuses_what_has_no_profile() -> None:
    found = answer(ONE, ("L4",), predict=Predict.NEVER)
    assert not found.recommendation.feasible
    assert found.outlooks == ()
    assert Statement(code=Code.NO_PROFILE, subjects=("one", "L4")) in [no.why for no in found.rejections]


def test_a_predicted_plan_is_read_again(tmp_path: Path) -> None:
    found = answer(ONE, ("L4",))
    write_answer(found, tmp_path / "plan.json")
    raw = json.loads((tmp_path / "plan.json").read_text())
    assert raw["recommendation"]["models"][0]["predicted"] is True
    assert raw["predictions"][0]["latency_s"].keys() == {"value", "low", "high"}
    assert read_plan(tmp_path / "plan.json").recommendation.predicted


SCENARIO: Mapping[str, object] = {
    "models": [{"name": "nvidia_resnet50", "slo": {"latency": "200 ms", "attainment": "95 %"}}],
    "streams": [{"model": "nvidia_resnet50", "count": 4, "rate": "10 fps"}],
    "buy": {"gpus": ["L4"], "providers": ["aws"]},
    "horizon": "10 s",
    "replications": 2,
}


def test_strict_refuses_a_predicted_plan_with_5_and_its_placement_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.yaml").write_text(json.dumps(SCENARIO))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["planner", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    code, out, err = run("plan", "scenario.yaml", "--strict", "-o", "plan.json")
    assert code == 5, err
    code, out, err = run("simulate", "scenario.yaml", "--plan", "plan.json")
    assert code == 0, err
    assert "~: predicted" in out


def test_two_estimates_are_joined_by_their_certainty_and_widened_where_they_differ() -> None:
    sure, unsure = Estimate(value=10.0, low=9.0, high=11.1), Estimate(value=11.0, low=5.0, high=24.2)
    both = joined(sure, unsure)
    assert sure.value < both.value < 10.1
    assert both.high / both.low < sure.high / sure.low
    far = joined(sure, Estimate(value=20.0, low=18.0, high=22.2))
    assert far.low < 11.1
    assert far.high > 18.0
