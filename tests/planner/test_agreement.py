"""Commands that are asked about the same model on the same GPU give the same figures, measured or predicted."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest
import yaml
from support import commands
from support.forks import forking

from calibrate.layers.facts import facts
from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.exports.targets import files_of
from planner.io.load import Loaded, ScenarioError, load_scenario, workload
from planner.model.calendar import CalendarSpec
from planner.model.choices import Target
from planner.model.parts.fields import Precision
from planner.model.parts.models import ModelSpec, SloSpec, Variant
from planner.model.plan import PredictionRule
from planner.model.progress import silent
from planner.model.statement import Code
from planner.prediction.learnt import learnt
from planner.prediction.predict import Predictor
from planner.prediction.queries import QueryKnowledge
from planner.prediction.rules.bands import End, at_quantile
from planner.prediction.rules.floors import floor_of
from planner.questions.horizons.market import market
from planner.questions.merging.breakeven import Comparison
from planner.questions.profiling.anatomy import Anatomy, Wish, look
from planner.questions.profiling.systolic import Dataflow
from planner.questions.studies.engine import Ask, Context, Inputs, WorkerMachine, run_point
from planner.questions.training.layout import subject_of
from planner.questions.training.plan import train
from planner.questions.training.reading import load_training
from planner.questions.training.speed import OnePass, SpeedRule
from planner.search.names import with_known_names
from planner.search.outlooks import AlikeInBatches, keeps_another, other_precisions
from planner.search.plan import plan
from planner.search.question import ask, predictor_of
from planner.search.simulation import simulate_named
from planner.show.text.profiling import as_json
from planner.words.statements import rejection_reason
from simulator.world.curves import Interpolated
from simulator.world.precision import WEIGHT_BYTES
from simulator.world.profile import Evidence, Profile
from simulator.world.sharing import NOTHING_SHARED

CATALOG = load_catalog()
DAY = date(2026, 11, 22)
LIBRARY = find_profiles((), CATALOG.gpus)
PREDICTOR = Predictor(LIBRARY, CATALOG.gpus)
TABLES = QueryKnowledge(learnt(), CATALOG.gpus)
SCENARIO = """
models: [{{name: {model}, precision: {precision}, slo: {{latency: 5 s, attainment: 90 %}}}}]
streams: [{{model: {model}, rate: 2 fps}}]
buy: {{own: [{{name: box, gpu: {gpu}, price: $1/h, count: 4}}]}}
horizon: 20 s
replications: 2
confidence: 50 %
"""
PAIRS = [
    ("resnet50", "V100", "fp32"),  # measured
    ("nvidia_resnet50", "T4", "fp32"),  # published
    ("nvidia_resnet50", "V100", "amp"),
    ("resnet50", "T4", "fp32"),  # by a measured ratio
    ("yolov3", "A10G", "fp32"),  # by data sheets
    ("resnet50", "A100-80GB", "fp16"),  # by a roofline
    ("bert_base", "L4", "fp16"),
    ("vit_b_16", "H100", "bf16"),
    ("resnet18", "T4", "int8"),
]


def scenario(folder: Path, model: str, gpu: str, precision: str) -> Loaded:
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(model=model, gpu=gpu, precision=precision), encoding="utf-8")
    return load_scenario(path)


def profiled(
    model: str, gpu: str | None, precision: str, batch: int, input_shape: tuple[int, ...] | None = None
) -> Anatomy:
    """What `planner profile` shows."""
    wish = Wish(
        model=model,
        input_shape=input_shape,
        resolution=None,
        batch=batch,
        precision=precision,
        gpu=CATALOG.gpus[gpu] if gpu else None,
        device=None,
        dataflow=Dataflow.WS,
        measure=False,
    )
    return look(wish, LIBRARY, CATALOG.gpus)


@pytest.mark.parametrize(("model", "gpu", "precision"), PAIRS)
def test_profile_plan_simulate_merge_study_and_horizon_know_the_same(
    model: str, gpu: str, precision: Precision, tmp_path: Path
) -> None:
    loaded = scenario(tmp_path, model, gpu, precision)
    question, _ = ask(loaded.scenario, workload(loaded), CATALOG, LIBRARY)
    (sized,) = question.sized.values()
    used: Profile = sized.profile
    batch = sized.batch_size_max
    predictor = predictor_of(loaded.scenario, CATALOG, LIBRARY)
    assert predictor is not None
    predicted = predictor.get(model, gpu, precision)
    assert predicted is not None
    assert used.latency(batch) == predicted.latency(batch)
    assert (used.weight_bytes, used.workspace(batch)) == (predicted.weight_bytes, predicted.workspace(batch))
    shown = PREDICTOR.predict(model, gpu, precision, batch)
    assert shown is not None
    doubt = predicted.doubt
    quantile = doubt.quantile if doubt else End.HIGH
    assert at_quantile(shown.latency_s, quantile) == pytest.approx(used.latency(batch), rel=1e-6)
    assert shown.reserved_bytes == pytest.approx(used.weight_bytes + used.workspace(batch), rel=1e-6)
    assert at_quantile(shown.load_s, quantile) == pytest.approx(used.load(used.weight_bytes), rel=1e-6)

    answer = plan(loaded, CATALOG, LIBRARY, created_at="2026-11-22T00:00:00")
    replay = simulate_named(loaded, CATALOG, LIBRARY, gpu.lower(), 1, DAY)
    (planned,), (replayed,) = answer.recommendation.models, replay.models
    assert planned.precision == replayed.precision == used.precision == precision
    # Of what is predicted means of other worlds: four standard errors of the difference of two means.
    error = 4 * doubt.error_sd(batch) * (2 / answer.recommendation.replications) ** 0.5 if doubt else 1e-9
    assert planned.mean_s == pytest.approx(replayed.mean_s, rel=error)
    assert answer.recommendation.gpus[0].peak_memory_bytes == replay.gpus[0].peak_memory_bytes
    cells = Comparison(CATALOG, LIBRARY).cells(loaded)
    assert {cell.gpu_count for cell in cells if cell.way == "resident"} == {1}
    assert all(cell.predicted == planned.predicted for cell in cells)
    point = run_point(Context(CATALOG, LIBRARY), Inputs(Ask.SIMULATE, loaded, WorkerMachine(gpu, 1)))
    figures = point["values"]
    assert figures["mean_s"] == pytest.approx(replayed.mean_s, rel=1e-8)  # nine digits are kept
    assert figures["peak_memory_bytes"] == replay.gpus[0].peak_memory_bytes
    daily = replace(loaded, scenario=replace(loaded.scenario, calendar=CalendarSpec(hourly=(1.0,) * 24)))
    on_offer = market(daily, CATALOG, LIBRARY, 1.0, silent)
    ((offer, *_),) = [offers for offers in on_offer.offers.values() if offers]
    at_the_peak = on_offer.group(offer)
    assert at_the_peak is not None
    assert at_the_peak.machines_peak == answer.recommendation.gpu_count == 1
    assert [one.portion.sized.profile for one in at_the_peak.trial.packing.placed] == [used]
    assert at_the_peak.trial.packing.work == pytest.approx(answer.recommendation.gpus[0].offered_load)


@pytest.mark.parametrize(("model", "gpu", "precision"), [pair for pair in PAIRS if "nvidia" not in pair[0]])
def test_profile_shows_what_plans_rest_on(model: str, gpu: str, precision: str) -> None:
    shown = profiled(model, gpu, precision, batch=4).prediction
    assert shown == PREDICTOR.predict(model, gpu, precision, 4)


def test_tables_are_answered_by_the_profiles_that_plans_go_by() -> None:
    known = TABLES
    for precision, batch in (("torch", 64), ("fp32", 8), ("amp", 256)):
        row = {"gpu": "H200", "model": "resnet50", "precision": precision, "runtime": "pytorch", "batch": str(batch)}
        profile = LIBRARY.profiles["resnet50", "H200", precision]
        assert known.answer(row).latency_s == pytest.approx(profile.latency(batch))
        assert replace(known, measured=False).answer(row).rule != "profile"


@pytest.mark.parametrize("gpu", ["A10", "A100-80GB"])
@pytest.mark.parametrize("model", ["mobilenet_v2", "mobilenet_v3_large", "vit_b_32"])
@pytest.mark.parametrize("batch", [1, 32, 128])
def test_tables_and_profiles_say_the_same_where_only_published_times_tell(model: str, gpu: str, batch: int) -> None:
    seen = profiled(model, gpu, "fp32", batch)
    shown = seen.prediction
    assert shown is not None
    assert " and its " not in shown.source
    told = TABLES.answer({"gpu": gpu, "model": model, "precision": "fp32", "batch": str(batch)})
    band = told.latency_s, told.latency_low_s, told.latency_high_s
    assert band == pytest.approx((shown.latency_s.value, shown.latency_s.low, shown.latency_s.high))
    assert (told.memory_bytes, told.reserved_bytes) == (shown.memory_bytes, shown.reserved_bytes)
    assert shown.latency_s.low >= floor_of(seen.facts, CATALOG.gpus[gpu], "fp32", "pytorch")(batch) * (1 - 1e-9)


OWN = """
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario with a model of one's own beside one of the zoo's, in the folder of its module."""
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.run", commands.tracing)
    path = tmp_path / "s.yaml"
    text = SCENARIO.format(model="small", gpu="T4", precision="fp32")
    path.write_text(text.replace("name: small,", "name: small, factory: 'mine:small', input: [3, 64, 64],"), "utf-8")
    return path


def test_a_model_of_ones_own_is_planned_by_its_layers(own: Path) -> None:
    answer = plan(load_scenario(own), CATALOG, LIBRARY, created_at="2026-11-22T00:00:00")
    (prediction,) = answer.predictions
    assert (prediction.model, prediction.rule) == ("mine.small.3x64x64", PredictionRule.LEARNT)
    shown = profiled("mine:small", "T4", "fp32", batch=prediction.batch_size, input_shape=(3, 64, 64))
    assert shown.prediction == prediction
    assert shown.facts.weight_bytes == 4 * (3 * 32 * 9 + 32 + 32 * 10 + 10)
    config = yaml.safe_load(files_of(answer, Target.RAY_SERVE)["serve_config.yaml"])
    made = config["applications"][0]["args"]
    assert (made["factory"], made["shape"]) == ("mine:small", [3, 64, 64])


def test_models_of_one_factory_are_told_apart_by_their_input(own: Path) -> None:
    text = own.read_text("utf-8")
    entry = text[text.index("{name") : text.index("}]") + 1]
    other = entry.replace("name: small", "name: large").replace("[3, 64, 64]", "[3, 640, 640]")
    stream = "{model: large, rate: 2 fps}"
    means = []
    for both in (f"{entry}, {other}", f"{other}, {entry}"):
        own.write_text(text.replace(entry, both).replace("streams: [", f"streams: [{stream}, "), "utf-8")
        found = simulate_named(load_scenario(own), CATALOG, LIBRARY, "T4", 1, DAY)
        means.append({model.name: model.mean_s for model in found.models})
    assert means[0] == pytest.approx(means[1])
    assert means[0]["large"] > 2 * means[0]["small"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("models[small].profile=nosuch",), "models[0].profile: no model is known as `nosuch`"),
        (("models[small].factory=mine:big",), "models[0].factory: mine:big: big is not there"),
        (("models[small].factory=mine",), "models[0].factory: must be `package.module:function`, got `mine`."),
        (("models[small].input=null",), "models[0]: needs `input`, the shape of one sample"),
        (
            ("models[small].factory=null",),
            "models[0]: has `input`, which goes only with a `model` of a",
        ),
    ],
)
def test_a_model_of_ones_own_that_cannot_be_has_a_place(own: Path, changes: Sequence[str], said: str) -> None:
    with pytest.raises(ScenarioError) as error:
        with_known_names(load_scenario(own, changes), CATALOG, LIBRARY)
    assert said in str(error.value)


# Precisions


@pytest.mark.parametrize("model", ["resnet50", "yolov3", "bert_base", "vit_b_16", "resnet18"])
@pytest.mark.parametrize("gpu", ["T4", "A100-80GB", "H100"])
def test_memory_and_loads_follow_the_size_of_numbers(model: str, gpu: str) -> None:
    """By whatever rule the time is told: weights, loads and tensors exactly; what libraries keep does not shrink."""
    told = {precision: PREDICTOR.predicted_pair(model, gpu, precision) for precision in ("fp32", "amp", "fp16", "int8")}
    held = {precision: one.footprint for precision, one in told.items() if one is not None}
    whole = held["fp32"].weight_bytes
    for precision, footprint in held.items():
        share = WEIGHT_BYTES[precision] / 4
        assert footprint.weight_bytes == pytest.approx(share * whole, rel=1e-6)
        assert footprint.load(footprint.weight_bytes) - footprint.load.t0_s == pytest.approx(
            share * (held["fp32"].load(whole) - held["fp32"].load.t0_s), rel=1e-6
        )
    for batch in (1, 4, 32, 256):
        single, half, quarter = (held[precision].workspace(batch) for precision in ("fp32", "fp16", "int8"))
        assert (half.allocated, quarter.allocated) == pytest.approx((0.5 * single.allocated, 0.25 * single.allocated))
        assert 0.5 * single.reserved <= half.reserved <= single.reserved
        assert 0.25 * single.reserved <= quarter.reserved <= half.reserved


TRAINED = """
model: {{zoo: {model}, profile: {profile}}}
data: {{samples: 1000}}
train: {{epochs: 1, global_batch: 4, precision: {precision}, optimizer: momentum}}
buy: {{instances: [{instance}], retired: true}}
counts: [1]
"""


@pytest.mark.parametrize(
    ("model", "profile", "gpu", "instance", "precision"),
    [
        ("resnet50", "resnet50", "V100", "p3.2xlarge", "fp32"),  # measured
        ("resnet50", "nvidia_resnet50", "T4", "g4dn.xlarge", "fp32"),  # published
        ("resnet50", "nvidia_resnet50", "V100", "p3.2xlarge", "amp"),
        ("resnet50", "resnet50", "T4", "g4dn.xlarge", "fp32"),  # learnt, and by a measured ratio
        ("alexnet", "alexnet", "V100", "p3.2xlarge", "fp32"),  # learnt alone
        ("yolov3", "yolov3", "A10G", "g5.xlarge", "fp32"),  # learnt, and by data sheets
        ("resnet50", "resnet50", "L4", "g6.xlarge", "amp"),
    ],
)
def test_train_rests_on_the_same_times_and_memory(
    model: str, profile: str, gpu: str, instance: str, precision: Precision, tmp_path: Path
) -> None:
    path = tmp_path / "training.yaml"
    path.write_text(
        TRAINED.format(model=model, profile=profile, precision=precision, instance=instance), encoding="utf-8"
    )
    loaded = load_training(path)
    option = train(loaded, CATALOG, LIBRARY).options[0]
    found = OnePass(
        scenario=loaded.scenario,
        subject=subject_of(loaded.scenario),
        gpu=CATALOG.gpus[gpu],
        batch=4,
        predictor=PREDICTOR,
    ).speed()
    assert found is not None
    shown = profiled(model, gpu, precision, batch=4)
    assert option.gpu == gpu
    inference = PREDICTOR.predict(profile, gpu, precision, 4)
    assert inference is not None
    assert found.rule == option.rule == SpeedRule.TRAININGS
    assert found.pass_s.high > inference.latency_s.low  # forward alone is a part of it
    read_and_written = 5 * 4 * facts(model).params  # weights and momentum twice, gradients once, at most of 4 bytes
    update_s = option.step_s - found.pass_s.mid
    assert 0 < update_s < read_and_written / CATALOG.gpus[gpu].memory_bytes_per_s
    if precision == "fp32":
        context_bytes = option.memory["context"]
        assert option.memory_bytes - context_bytes == pytest.approx(shown.training.total.mid, rel=0.01)


def test_memory_that_nobody_saw_is_what_layers_hold_and_room_for_libraries() -> None:
    footprint = PREDICTOR.predicted_pair("resnet18", "A100-40GB", "fp32").footprint  # type: ignore[union-attr]
    each = facts("resnet18").peak_activation_bytes_per_sample
    rooms = [footprint.workspace(batch) for batch in (1, 4, 64)]
    assert [room.allocated for room in rooms] == [each, 4 * each, 64 * each]
    assert all(room.reserved > room.allocated for room in rooms)
    assert footprint.weight_bytes == facts("resnet18").weight_bytes


@pytest.mark.parametrize("gpu", ["T4", "A100-40GB", "V100", "H200"])
@pytest.mark.parametrize("model", ["resnet50", "resnet18", "bert_base", "vgg16", "yolov3", "faster_rcnn"])
@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_predict_profile_and_plans_say_one_memory(model: str, gpu: str, precision: str) -> None:
    """At every batch that all of them know: also where only a profile's memory was published, as on a V100."""
    used = PREDICTOR.get(model, gpu, precision)
    assert used is not None
    for batch in filter(used.latency.covers, (1, 4, 32)):
        row = {"gpu": gpu, "model": model, "precision": precision, "runtime": "", "batch": str(batch)}
        seen_bytes = used.weight_bytes + used.workspace(batch)
        told = TABLES.answer(row)
        assert told.reserved_bytes == pytest.approx(seen_bytes, rel=0.001), batch
        shown = PREDICTOR.predict(model, gpu, precision, batch)
        assert shown is not None
        assert shown.reserved_bytes == pytest.approx(seen_bytes, rel=0.001), batch
        assert shown.memory_bytes == pytest.approx(told.memory_bytes, rel=0.001), batch


def test_another_precision_is_priced_in_plan_and_explain(tmp_path: Path) -> None:
    path = tmp_path / "open.yaml"
    path.write_text(SCENARIO.format(model="resnet50", gpu="T4", precision="fp32"), encoding="utf-8")
    changes = ["models[resnet50].precision=null", "streams[0].count=300", "buy.own[box].count=20"]
    loaded = load_scenario(path, changes)
    found = plan(loaded, CATALOG, LIBRARY, created_at="2026-11-22T00:00:00")
    (half,) = (one for one in found.precisions if not one.runtime)
    (quarter,) = (one for one in found.precisions if one.precision == "int8")
    assert (half.precision, quarter.runtime) == ("fp16", "tensorrt"), "PyTorch computes nothing in int8 on a GPU"
    assert half.instead_of == ("fp32",)
    (as_now,) = (one for one in found.precisions if (one.precision, one.runtime) == ("", "tensorrt"))
    assert as_now.accuracy == (), "fp32, as the plan runs: ResNet-50 is published in TensorRT at int8 on a T4"
    assert quarter.cost_usd_per_hour.value <= half.cost_usd_per_hour.value < found.recommendation.cost_usd_per_hour
    assert half.cost_usd_per_hour.low <= half.cost_usd_per_hour.value <= half.cost_usd_per_hour.high
    settled = plan(
        replace(loaded, scenario=load_scenario(path).scenario), CATALOG, LIBRARY, created_at="2026-11-22T00:00:00"
    )
    assert {one.precision for one in settled.precisions} <= {""}
    assert all(one.runtime for one in settled.precisions)


def test_another_precision_is_not_praised_for_larger_batches(tmp_path: Path) -> None:
    path = tmp_path / "open.yaml"
    path.write_text(SCENARIO.format(model="tiny_yolov3", gpu="V100", precision="fp32"), encoding="utf-8")
    changes = ["models[tiny_yolov3].precision=null", "streams[0].count=300", "buy.own[box].count=20"]
    loaded = load_scenario(path, changes)
    asked, _ = ask(loaded.scenario, workload(loaded), CATALOG, LIBRARY)
    largest = {sized.profile.model: sized.profile.largest_batch for sized in asked.sized.values()}
    assert largest == {"tiny_yolov3": 4}  # the lecture measured no larger ones
    half = next(other_precisions(asked, CATALOG, PREDICTOR, None, NOTHING_SHARED))
    told = PREDICTOR.predicted_pair("tiny_yolov3", "V100", "fp16")
    assert told is not None
    assert max(told.latency_s) > 4
    carried_rps = 4 / told.prediction(4).latency_s.value
    count = half.candidate.gpu_count
    assert count >= asked.needs["tiny_yolov3"].rate_rps / carried_rps


@pytest.mark.parametrize(
    ("variant", "keeps"),
    [
        (Variant("fp16", None), True),
        (Variant("fp32", None), False),
        (Variant(None, "tensorrt"), True),
        (Variant(None, "pytorch"), False),
        (Variant("fp32", "tensorrt"), True),
    ],
)
def test_a_model_that_states_another_precision_or_runtime_keeps_it(variant: Variant, keeps: bool) -> None:
    own = ModelSpec(name="resnet50", slo=SloSpec(latency=0.1), precision="fp32", runtime="pytorch")
    assert keeps_another(variant, own) is keeps
    assert not keeps_another(variant, replace(own, precision=None, runtime=None))


@pytest.mark.parametrize("other", [False, True], ids=["alone", "beside fp32"])
def test_it_is_said_where_a_priced_precision_is_not_of_all_models(tmp_path: Path, other: bool) -> None:
    text = SCENARIO.format(model="resnet50", gpu="T4", precision="null")
    if other:
        stated = "{name: resnet18, precision: fp32, slo: {latency: 5 s, attainment: 90 %}}"
        text = text.replace("}}]\nstreams: [", f"}}}}, {stated}]\nstreams: [{{model: resnet18, rate: 2 fps}}, ")
    (path := tmp_path / "open.yaml").write_text(text, encoding="utf-8")
    loaded = load_scenario(path)
    asked, _ = ask(loaded.scenario, workload(loaded), CATALOG, LIBRARY)
    priced = {one.precision: one for one in other_precisions(asked, CATALOG, PREDICTOR, None, NOTHING_SHARED)}
    assert priced["fp16"].some_keep is other


def test_a_shelf_ends_at_todays_batches_also_where_it_begins_later() -> None:
    told = PREDICTOR.predicted_pair("tiny_yolov3", "V100", "fp16")
    assert told is not None
    late = replace(told.profile(End.VALUE), latency=Interpolated((8.0, 16.0), (0.01, 0.02)))
    for largest, sizes in ((4, (8.0,)), (12, (8.0, 12.0)), (64, (8.0, 16.0))):
        found = AlikeInBatches(Given(late), {"tiny_yolov3": largest}).get("tiny_yolov3", "V100", "fp16")
        assert found is not None
        assert found.latency.x == sizes


@dataclass(frozen=True)
class Given:
    """A shelf with one profile."""

    profile: Profile

    def get(self, model: str, gpu: str, precision: str | None, /) -> Profile | None:
        return self.profile


def test_what_is_too_slow_is_not_called_unmeasured(tmp_path: Path) -> None:
    path = tmp_path / "tight.yaml"
    path.write_text(SCENARIO.format(model="resnet50", gpu="T4", precision="int8"), encoding="utf-8")
    for latency, known in (("1 ms", True), ("5 s", True)):
        loaded = load_scenario(path, [f"models[resnet50].slo.latency={latency}"])
        assert all(cell.measured is known for cell in Comparison(CATALOG, LIBRARY).cells(loaded))
    alone = load_scenario(path, ["buy.own[box].gpu=V100"])  # which computes nothing in int8
    assert not any(cell.measured for cell in Comparison(CATALOG, LIBRARY).cells(alone))


@pytest.mark.parametrize(("model", "least"), [("inceptionv3", 75), ("alexnet", 63)])
def test_a_picture_that_is_too_small_is_refused_alike(model: str, least: int, tmp_path: Path) -> None:
    wanted = f"takes no picture of {least - 1} pixels a side, the smallest has {least}. Write {least} or more"
    looked = ("profile", model, "--gpu", "T4", "--resolution")
    assert commands.planner(*looked, least - 1) == (2, "", f"{model} {wanted}.\n")
    assert commands.planner(*looked, least)[0] == 0
    row = {"gpu": "T4", "model": model}
    assert TABLES.answer(row | {"input": str(least - 1)}).reason == f"{model} {wanted}"
    assert TABLES.answer(row | {"input": f"900x{least - 1}"}).reason == f"{model} {wanted}"
    assert TABLES.answer(row | {"input": str(least)}).latency_s
    path = tmp_path / "training.yaml"
    trained = TRAINED.format(model=model, profile=model, precision="fp32", instance="g4dn.xlarge")
    path.write_text(trained.replace(f"zoo: {model}", f"zoo: {model}, pixels: {least - 1}"), encoding="utf-8")
    with pytest.raises(ScenarioError, match=rf"model\.pixels: {model} {wanted}\."):
        train(load_training(path), CATALOG, LIBRARY)


# Names


def test_training_knows_names_in_any_case_and_says_where_it_does_not(tmp_path: Path) -> None:
    path = tmp_path / "training.yaml"
    path.write_text(
        TRAINED.format(model="resnet50", profile="resnet50", precision="fp32", instance="g4dn.xlarge"), encoding="utf-8"
    )
    found = train(load_training(path, ["buy.gpus=[t4]", "speed=[{gpu: t4, rate: 100 /s}]"]), CATALOG, LIBRARY)
    assert {option.gpu for option in found.options} == {"T4"}
    wrong = ["buy.gpus=[T5]", "model={zoo: resnet5O}", "speed=[{gpu: A2500, step: 1 s}]"]
    with pytest.raises(ScenarioError) as error:
        train(load_training(path, wrong), CATALOG, LIBRARY)
    assert [line.split(": ")[0] for line in error.value.problems] == [
        "--set buy.gpus=[T5]",
        "--set speed=[{gpu",
        "--set model={zoo",
    ]
    path.write_text(path.read_text(encoding="utf-8").replace("zoo: resnet50", "zoo: resnet5O"), encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"training\.yaml:2:14: model\.zoo: resnet5O: .* Did you mean resnet50"):
        train(load_training(path), CATALOG, LIBRARY)


def test_machines_that_are_no_longer_made_are_not_bought(tmp_path: Path) -> None:
    path = tmp_path / "training.yaml"
    text = (
        TRAINED.replace("[1]", "[8]")
        .replace("batch: 4", "batch: 64")
        .replace("instances: [{instance}], retired: true", "gpus: [V100, A100-40GB]")
    )
    path.write_text(text.format(model="resnet50", profile="resnet50", precision="fp32"), encoding="utf-8")
    found = train(load_training(path, ["purchase={used: 90 %}"]), CATALOG, LIBRARY)
    assert "purchase" not in {option.price_kind for option in found.options}
    assert [no.why.code for no in found.rejections if no.subject.instance == "DGX-1V"] == [Code.NOT_MADE]
    still = train(load_training(path, ["purchase={used: 90 %}", "buy.retired=true"]), CATALOG, LIBRARY)
    assert "purchase" in {option.price_kind for option in still.options}


def test_an_offer_that_cannot_be_does_not_hide_an_unknown_model(tmp_path: Path) -> None:
    said = refused(tmp_path, "models[resnet50].profile=resnet5O", "buy={providers: [azure], instances: [g4dn.xlarge]}")
    assert any("no model is known as `resnet5O`" in line for line in said)


@pytest.mark.parametrize("precision", ["fp32", "amp", "fp16", "int8"])
def test_bytes_of_layers_add_up_to_those_of_the_model(precision: str) -> None:
    found = as_json(profiled("alexnet", None, precision, batch=1))
    assert sum(layer["weight_bytes"] for layer in found["layers"]) == pytest.approx(found["weight_bytes"], abs=40)


def refused(folder: Path, *changes: str) -> list[str]:
    path = folder / "s.yaml"
    path.write_text(SCENARIO.format(model="resnet50", gpu="T4", precision="fp32"), encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        with_known_names(load_scenario(path, changes), CATALOG, LIBRARY)
    return [line.replace(f"{path}", "s.yaml") for line in str(error.value).splitlines()]


def test_an_unknown_model_is_told_once_at_its_place(tmp_path: Path) -> None:
    two = ("models=[{name: a, profile: resnet5, slo: {latency: 1 s}}, {name: yolov3, slo: {latency: 1 s}}]",
           "streams=[{model: a, rate: 1 fps}, {model: yolov3, rate: 1 fps}]")  # fmt: skip
    (unknown,) = refused(tmp_path, *two)
    assert "models[0].profile: no model is known as `resnet5`" in unknown
    assert "Did you mean `resnet50` or `resnet50_v2`?" in unknown


@pytest.mark.parametrize("name", ["yolov9z", "osnet_x9", "llama-3-8b", "efficientnet_b99"])
def test_a_model_that_is_another_is_not_taken_for_a_slip(name: str, tmp_path: Path) -> None:
    (line,) = refused(tmp_path, f"models[0].profile={name}")
    assert f"no model is known as `{name}`" in line
    assert "Did you mean" not in line


def test_gpus_and_precisions_are_known_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(model="resnet50", gpu="t4", precision="FP16"), encoding="utf-8")
    loaded = with_known_names(load_scenario(path), CATALOG, LIBRARY)
    assert (loaded.scenario.buy.own[0].gpu, loaded.scenario.models[0].precision) == ("T4", "fp16")
    (line,) = refused(tmp_path, "buy.own[box].gpu=Z9000")
    assert line.startswith("--set buy.own[box].gpu=Z9000: buy.own[0].gpu: `Z9000` is not in the catalog. Known: ")
    assert "gpus.yaml" in line
    assert "Did you mean" not in line
    with pytest.raises(
        ScenarioError, match=r"precision: must be one of fp32, tf32, torch, amp, amp-bf16, fp16, bf16, int8, got `fp23`"
    ):
        load_scenario(path, ["models[0].precision=fp23"])


def test_what_is_known_and_cannot_be_predicted_says_why(tmp_path: Path) -> None:
    v100 = scenario(tmp_path, "resnet50", "V100", "int8")
    (no,) = plan(v100, CATALOG, LIBRARY, created_at="2026-11-22T00:00:00").rejections
    assert rejection_reason(no).endswith("V100 computes nothing in int8")


def test_a_model_that_must_be_cut_is_replayed_on_machines_that_can(tmp_path: Path) -> None:
    """24 GB of weights over T4s of 16 GB: four machines with one each would be no way."""
    loaded = scenario(tmp_path, "resnet50", "T4", "fp32")
    profile = LIBRARY.get("resnet50", "V100", "fp32")
    assert profile is not None
    layers = tuple(replace(profile.layers[0], key=f"part {i}", weight_bytes=6_000_000_000) for i in range(4))
    known = replace(
        LIBRARY,
        profiles={
            ("resnet50", "T4", "fp32"): replace(profile, gpu="T4", layers=layers, latency_evidence=Evidence.MEASURED)
        },
        paths={},
    )
    rented = replace(loaded, scenario=replace(loaded.scenario, buy=replace(loaded.scenario.buy, own=())))
    run = simulate_named(rented, CATALOG, known, "T4", 4, DAY)
    assert {gpu.host for gpu in run.gpus} == {run.gpus[0].host}
    assert len(run.gpus) == 4


# Standard output

NOISY = """
import ctypes, sys
import planner.placing.fleets
solve = planner.placing.fleets.milp

def noisy(*given, **options):
    ctypes.CDLL(None).puts(b"HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();")
    ctypes.CDLL(None).fflush(None)
    return solve(*given, **options)

planner.placing.fleets.milp = noisy
from planner.cli import main
sys.argv = ["planner", *sys.argv[1:]]
main()
"""


def test_what_a_library_prints_is_not_shown(tmp_path: Path) -> None:
    """HiGHS writes a line of its own on some programs, past Python."""
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(model="resnet50", gpu="T4", precision="fp32"), encoding="utf-8")
    words = [sys.executable, "-c", NOISY, "plan", str(path), "--format", "json", "-q"]
    with forking():
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["recommendation"]["feasible"]
    assert "HighsMipSolverData" not in done.stderr


@pytest.mark.parametrize("name", ["rt_detr_r50", "d_fine_m", "fasterrcnn_resnet50_fpn", "yolo11m_pose"])
def test_a_network_that_was_published_is_planned_with_the_times_that_tables_tell(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.format(model=name, gpu="T4", precision="fp16"), encoding="utf-8")
    found = plan(with_known_names(load_scenario(path), CATALOG, LIBRARY), CATALOG, LIBRARY, created_at=f"{DAY}")
    assert found.recommendation.feasible
    (one,) = found.predictions
    row = {"gpu": "T4", "model": name, "input": "", "precision": "fp16", "runtime": "", "batch": f"{one.batch_size}"}
    told = TABLES.answer(row)
    assert told.latency_s == pytest.approx(one.latency_s.value)
    assert told.memory_bytes == one.memory_bytes
