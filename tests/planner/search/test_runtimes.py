"""Runtimes: what a scenario names decides which figures count, and nothing else does."""

from pathlib import Path

import pytest

from calibrate.library.lookup import find_profiles
from planner import plan, simulate
from planner.catalog.catalog import load_catalog
from planner.io.load import ScenarioError, load_scenario, workload
from planner.model.plan import Drawn, Searched
from planner.model.statement import Code
from planner.search.question import _predictor, ask
from planner.show.documents.brief import brief
from planner.show.text.reasons import never_tried
from planner.units.writing import Screen
from planner.words.statements import rejection_line, rejection_reason, rejection_remedy
from simulator.world.profile import Evidence

LIBRARY = find_profiles((), load_catalog().gpus)

SCENARIO = """
models:
  - {{name: resnet50, {wish}slo: {{latency: 100 ms, attainment: 99 %}}}}
streams:
  - {{name: cams, model: resnet50, poisson: 900 rps}}
buy: {{gpus: [T4], providers: [aws], instances: [g4dn.xlarge], regions: [us-east-1]}}
"""


def answer(path: Path, wish: str):
    file = path / "s.yaml"
    file.write_text(SCENARIO.format(wish=wish), encoding="utf-8")
    return plan(file)


def test_a_faster_runtime_costs_less(tmp_path):
    """A T4 answers 420 ResNet-50 a second by PyTorch at fp32, 1,139 by Paddle with TensorRT at fp16 and batch 8; of 95
    in 100 users' T4 the slowest 240 and 651: exp(1.645 x 0.34) = 1.75 times less."""
    eager = answer(tmp_path, "runtime: pytorch, ").recommendation
    compiled = answer(tmp_path, "runtime: paddle-tensorrt, precision: fp16, ").recommendation
    assert eager.cost_usd_per_hour == pytest.approx(5 * 0.526)
    assert compiled.cost_usd_per_hour == pytest.approx(2 * 0.526)
    assert not compiled.predicted


@pytest.mark.parametrize(("changes", "kept"), [({"buy.evidence": "measured"}, 1), ({"predict": "never"}, 0)])
def test_no_second_predictor_is_made_to_say_what_a_gpu_lacks(tmp_path, changes, kept):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.format(wish="precision: bf16, "), encoding="utf-8")
    loaded = load_scenario(file, [f"{key}={value}" for key, value in changes.items()])
    _predictor.cache_clear()
    _, rejections = ask(loaded.scenario, workload(loaded), load_catalog(), LIBRARY)
    assert _predictor.cache_info().currsize == kept
    assert "T4 computes nothing in bf16" in " ".join(map(rejection_line, rejections))


def test_without_one_it_is_the_usual_one(tmp_path):
    wished, plain = (answer(tmp_path, wish).recommendation for wish in ("runtime: pytorch, ", ""))
    assert plain.cost_usd_per_hour == wished.cost_usd_per_hour
    assert plain.models == wished.models


@pytest.mark.parametrize(
    ("wish", "gpu", "computes"),
    [
        ("", "T4", [("fp32",)]),
        ("", "A10G", [("fp32", "A10G")]),
        ("precision: torch, ", "A10G", [("torch", "A10G")]),
        ("runtime: tensorrt, precision: int8, ", "T4", []),
    ],
)
def test_a_plan_says_in_what_pytorch_computes_and_which_gpus_have_tf32(tmp_path, wish, gpu, computes):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.format(wish=wish), encoding="utf-8")
    made = plan(file, overrides=[f"buy={{gpus: [{gpu}], providers: [aws]}}"])
    assert [one.subjects for one in made.assumptions if one.code is Code.COMPUTES_IN] == computes
    assert made.by_gpu[0].prices_as_of == made.prices_as_of


@pytest.mark.parametrize("model", ["bert_base", "bert_large"])  # of the second only its name is known
def test_of_a_model_without_convolutions_there_is_nothing_to_say_of_tf32(tmp_path, model):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.format(wish="precision: fp32, ").replace("resnet50", model), encoding="utf-8")
    made = plan(file, overrides=["buy={gpus: [A10G], providers: [aws]}", "streams[0].poisson=2 rps"])
    assert made.recommendation.models[0].precision == "fp32"
    assert Code.COMPUTES_IN not in {one.code for one in made.assumptions}


@pytest.mark.parametrize(("model", "tokens"), [("bert_large", [128.0]), ("resnet50", [])])
def test_a_plan_says_how_many_tokens_it_takes_where_none_are_stated(tmp_path, model, tokens):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.format(wish="precision: fp16, ").replace("resnet50", model), encoding="utf-8")
    made = plan(file, overrides=["buy={gpus: [A10G], providers: [aws]}", "streams[0].poisson=2 rps"])
    assert [one.figures["tokens"] for one in made.assumptions if one.code is Code.USUAL_TOKENS] == tokens
    said = f"{made.recommendation.models[0].name}: a sample has 128 tokens, as no `input` is stated."
    assert (said in brief(made, Screen(120))) == bool(tokens)


@pytest.mark.parametrize(
    ("name", "taken"), [("resnet", [("resnet", "resnet50")]), ("ResNet-50", []), ("faster_rcnn", [])]
)
def test_a_name_of_many_networks_is_said_to_be_taken_for_one(tmp_path, name, taken):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.format(wish="").replace("resnet50", name), encoding="utf-8")
    made = plan(file, overrides=["streams[0].poisson=20 rps"])
    assert [one.what.subjects for one in made.warnings if one.what.code is Code.TAKEN_FOR] == taken


def test_runtimes_are_understood_as_sources_write_them(tmp_path):
    assert answer(tmp_path, "runtime: TensorRT, precision: int8, ").recommendation.feasible


@pytest.mark.parametrize(
    ("wish", "place"),
    [
        ("precision: [fp16, fp61], ", "models[0].precision[1]: must be one of"),
        ("runtime: [pytorch, tensorttr], ", "models[0].runtime[1]: nothing is known"),
        ("runtime: [tensorrt], precision: [fp16, amp], ", "models[0].precision[1]: `amp` is a way of PyTorch"),
    ],
)
def test_a_wrong_item_of_a_list_is_an_error_at_its_place(tmp_path, wish, place):
    with pytest.raises(ScenarioError) as error:
        answer(tmp_path, wish)
    (line,) = str(error.value).splitlines()
    assert place in line


def test_an_unknown_runtime_is_an_error_at_its_place(tmp_path):
    with pytest.raises(ScenarioError) as error:
        answer(tmp_path, "runtime: tensorttr, ")
    (line,) = str(error.value).splitlines()
    assert ":3:" in line
    assert "models[0].runtime" in line
    assert "Did you mean `tensorrt`?" in line


@pytest.mark.parametrize("wish", ["fastertransformer", "[fastertransformer, fastertransformer-int8-v2]"])
def test_a_runtime_that_does_not_run_the_model_is_an_error_at_its_place(tmp_path, wish):
    with pytest.raises(ScenarioError) as error:
        answer(tmp_path, f"runtime: {wish}, precision: fp16, ")
    (line,) = str(error.value).splitlines()
    assert ":3:" in line
    assert "models[0].runtime: fastertransformer runs BERT" in line
    assert "resnet50 is none of them" in line
    assert "tensorrt" in line


@pytest.mark.parametrize("asked", ["torch", "amp", "amp-bf16", "[fp16, torch]"])
@pytest.mark.parametrize("runtime", ["tensorrt", "triton-tensorrt", "[tensorrt, onnxruntime]"])
def test_a_precision_of_pytorch_is_an_error_at_its_place_in_what_computes_in_its_own_way(tmp_path, asked, runtime):
    with pytest.raises(ScenarioError) as refused:
        answer(tmp_path, f"runtime: {runtime}, precision: {asked}, ")
    line = str(refused.value)
    assert "\n" not in line
    assert f"models[0].precision{'[1]' if '[' in asked else ''}: `" in line
    assert "is a way of PyTorch to compute, which " in line
    assert "Write one of fp32, tf32, fp16, bf16, int8, or `runtime: pytorch`." in line


def test_a_precision_of_pytorch_is_one_beside_it(tmp_path):
    found = answer(tmp_path, "runtime: [tensorrt, pytorch], precision: torch, ")
    assert (found.recommendation.models[0].precision, found.recommendation.models[0].runtime) == ("torch", "pytorch")


def test_of_several_runtimes_one_that_does_not_run_the_model_is_left_out(tmp_path):
    found = answer(tmp_path, "runtime: [fastertransformer, tensorrt], precision: fp16, ")
    (model,) = found.recommendation.models
    assert model.runtime == "tensorrt"
    left_out = [one.what.subjects for one in found.warnings if one.what.code is Code.RUNTIME_LEFT_OUT]
    assert left_out == [("resnet50", "fastertransformer")]


def test_what_was_measured_in_other_runtimes_is_not_said_to_be_unmeasured(tmp_path):
    """ResNet-50 is published on a T4 in PyTorch, in TensorRT and in Paddle, and not in ONNX Runtime."""
    found = answer(tmp_path, "runtime: onnxruntime, precision: fp16, ")
    (said,) = (one.what.subjects for one in found.warnings if one.what.code is Code.PREDICTED)
    assert said == ("resnet50 on T4 in onnxruntime at fp16",)


def test_a_precision_that_a_runtime_does_not_compute_in_is_said(tmp_path):
    found = answer(tmp_path, "runtime: pytorch, precision: int8, ")
    assert not found.recommendation.feasible
    (no,) = (one for one in found.rejections if one.why.code is Code.NO_PROFILE)
    assert no.beside[0].text == "pytorch does not compute in int8 on GPUs"


@pytest.mark.parametrize("predict", ["auto", "never"])
def test_a_precision_that_a_gpu_lacks_is_not_to_be_measured(tmp_path, predict):
    file = tmp_path / "s.yaml"
    file.write_text(SCENARIO.format(wish="precision: bf16, "), encoding="utf-8")
    found = plan(file, overrides=[f"predict={predict}"])
    assert never_tried(found) == [
        "Not tried on T4: no profile of resnet50 (bf16), nothing predicts it there: T4 computes nothing in bf16. "
        "Remedy: another `precision` (fp32, torch, amp, fp16, int8), or another kind of GPU."
    ]


def test_a_new_model_is_planned_in_a_runtime_in_which_nobody_published_it(tmp_path):
    """What `planner predict` answers from its layers, a plan does too."""
    models = """
models:
  - {name: own, model: "timm:convnext_nano.in12k_ft_in1k", precision: fp16, runtime: tensorrt,
     slo: {latency: 100 ms, attainment: 95 %}}
streams: [{model: own, poisson: 20 rps}]
buy: {gpus: [T4], instances: [g4dn.xlarge]}
"""
    (tmp_path / "own.yaml").write_text(models, encoding="utf-8")
    found = plan(tmp_path / "own.yaml")
    (model,) = found.recommendation.models
    assert (model.runtime, model.predicted) == ("tensorrt", True)
    (measure,) = found.measure_next
    assert measure.command == (
        "trtexec --onnx=FILE.onnx --fp16 > times.txt && planner profiles import times.txt "
        "--model timm.convnext_nano.in12k_ft_in1k --gpu T4 --precision fp16 --runtime tensorrt"
    ), "`planner calibrate` measures PyTorch"


def test_memory_that_layers_tell_is_predicted(tmp_path):
    found = answer(tmp_path, "runtime: paddle-tensorrt, precision: fp16, ")
    assert found.recommendation.models[0].evidence is Evidence.PREDICTED
    said = {warning.what.code for warning in found.warnings}
    assert Code.MEMORY_PREDICTED in said
    assert Code.PARTLY_ASSUMED not in said


def test_times_that_others_published_are_said_to_be_theirs(tmp_path):
    """Two publishers of one batch are within 55 % of each other in four of five cases; what was measured is known."""
    found = answer(tmp_path, "runtime: paddle-tensorrt, precision: fp16, ")
    (theirs,) = [warning.what for warning in found.warnings if warning.what.code is Code.AS_PUBLISHED]
    assert theirs.figures["error"] == 0.55
    assert theirs.subjects == ("resnet50 on T4",)
    best = found.recommendation
    assert [(model.predicted, model.speed_evidence, model.uncertain) for model in best.models] == [
        (False, Evidence.PUBLISHED, True)
    ]
    assert [(gpu.speed_evidence, gpu.uncertain) for gpu in best.gpus] == [(Evidence.PUBLISHED, True)] * best.gpu_count
    assert best.replayed.drawn == (Drawn.SPEEDS,)
    measured = {
        "models": [{"name": "resnet50", "precision": "torch", "slo": {"latency": "100 ms"}}],
        "streams": [{"model": "resnet50", "poisson": "20 rps"}],
        "buy": {"gpus": ["H200"]},
    }
    known = plan(measured)
    assert Code.AS_PUBLISHED not in {warning.what.code for warning in known.warnings}
    assert not known.recommendation.uncertain


@pytest.mark.parametrize("key", ["evidence: measured", "predict: never"])
def test_published_times_may_be_taken_as_they_stand(tmp_path, key):
    file = tmp_path / "s.yaml"
    text = SCENARIO.format(wish="runtime: paddle-tensorrt, precision: fp16, ")
    inside = text.replace("buy: {", f"buy: {{{key}, ") if key.startswith("evidence") else f"{text}{key}\n"
    file.write_text(inside, encoding="utf-8")
    found = plan(file)
    (theirs,) = [warning.what for warning in found.warnings if warning.what.code is Code.TAKEN_AS_PUBLISHED]
    assert theirs.subjects == ("resnet50 on T4",)
    assert [model.speed_evidence for model in found.recommendation.models] == [Evidence.PUBLISHED]
    assert not found.recommendation.uncertain
    assert found.recommendation.cost_usd_per_hour == pytest.approx(0.526)


@pytest.mark.parametrize(
    ("rate_rps", "slo_over_run", "code"), [(2, 1.3, Code.SAMPLE_MAY_BE_TOO_SLOW), (700, 30, Code.TOO_BUSY)]
)
def test_what_published_speeds_reject_says_so_and_how_to_take_them_as_they_stand(
    tmp_path, rate_rps, slo_over_run, code
):
    """One sample, or all work, would do at the published speed: at the slow end of its band it is too much."""
    known = LIBRARY.get("resnet50", "T4", "fp16", "paddle-tensorrt")
    text = SCENARIO.format(wish="runtime: paddle-tensorrt, precision: fp16, ").replace("900 rps", f"{rate_rps} rps")
    text = text.replace("100 ms, attainment: 99 %", f"{slo_over_run * known.latency(1) * 1e3} ms, attainment: 90 %")
    file = tmp_path / "s.yaml"
    file.write_text(text.replace("buy: {", "buy: {max_gpus: 1, "), encoding="utf-8")
    refused = plan(file)
    assert not refused.recommendation.feasible
    no = next(one for one in refused.rejections if one.why.code is code)
    if code is Code.SAMPLE_MAY_BE_TOO_SLOW:
        assert " as published, but at the asked `confidence` up to " in rejection_reason(no)
    assert "`buy.evidence: measured`, which takes published speeds as they stand, or a lower `confidence`" in (
        rejection_remedy(no)
    )
    for change in ("buy.evidence=measured", "confidence=0.5"):
        assert plan(file, overrides=[change]).recommendation.feasible, change


@pytest.mark.parametrize("evidence", ["predicted", "measured"])
def test_assumed_times_are_no_surer_than_published_ones(evidence):
    """The lecture does not name the GPU of its times: they are drawn as widely as if it had."""
    found = plan(
        {
            "models": [{"name": "tiny_yolov3", "slo": {"latency": "50 ms"}}],
            "streams": [{"model": "tiny_yolov3", "poisson": "20 rps"}],
            "buy": {"own": [{"name": "box", "gpu": "V100", "price": "$1/h"}], "evidence": evidence},
        }
    )
    (model,) = found.recommendation.models
    drawn = evidence == "predicted"
    assert (model.speed_evidence, model.uncertain) == (Evidence.ASSUMED, drawn)
    codes = {Code.ASSUMED_SPEEDS, Code.PARTLY_ASSUMED, Code.AS_PUBLISHED, Code.TAKEN_AS_PUBLISHED}
    said = [warning.what for warning in found.warnings if warning.what.code in codes]
    assert [one.code for one in said] == [Code.ASSUMED_SPEEDS if drawn else Code.PARTLY_ASSUMED]
    assert said[0].subjects == ("tiny_yolov3 on V100",)
    assert found.recommendation.replayed.drawn == ((Drawn.SPEEDS,) if drawn else ())


def test_weight_loading_that_is_assumed_is_said_beside_speeds_that_are_drawn():
    found = plan(
        {
            "models": [{"name": name, "slo": {"latency": "1 s"}} for name in ("yolov3", "vgg16")],
            "streams": [{"model": name, "poisson": "0.5 rps"} for name in ("yolov3", "vgg16")],
            "buy": {"own": [{"name": "box", "gpu": "V100", "price": "$1/h", "memory": "1.5 GB"}]},
            "context": "0.5 GB",
        }
    )
    assert {model.mode for model in found.recommendation.models} == {"swapped"}
    said = {warning.what.code: warning.what.subjects for warning in found.warnings}
    assert said[Code.PARTLY_ASSUMED] == said[Code.ASSUMED_SPEEDS] == ("vgg16 on V100", "yolov3 on V100")


def test_published_times_that_differ_may_be_taken_as_they_stand():
    """Two publications differ by more than 5 %: neither the plan nor its replay draws that, or prices it."""
    asked = {
        "models": [{"name": "nvidia_resnext101_32x4d", "precision": "fp32", "slo": {"latency": "150 ms"}}],
        "streams": [{"model": "nvidia_resnext101_32x4d", "poisson": "120 rps"}],
        "buy": {"own": [{"name": "box", "gpu": "V100", "price": "$1/h", "count": 4}], "evidence": "measured"},
    }
    found = plan(asked)
    again = simulate(asked, plan=found)
    assert LIBRARY.get("nvidia_resnext101_32x4d", "V100", "fp32").source_spread > 0.05
    assert not found.recommendation.uncertain
    assert found.outlooks == ()
    assert again.gpus[0].offered_load == pytest.approx(found.recommendation.gpus[0].offered_load)


def test_a_plan_that_its_spares_decided_stands_among_the_kinds_as_it_was_confirmed():
    """Without spares an L4 is cheapest; with one for each machine two T4 are, which were only compared before."""
    asked = {
        "models": [
            {"name": "resnet50", "precision": "fp16", "runtime": "paddle-tensorrt", "slo": {"latency": "60 ms"}},
        ],
        "streams": [{"model": "resnet50", "poisson": "600 rps"}],
        "buy": {"providers": ["aws"], "gpus": ["T4", "L4"]},
        "survive": 1,
        "horizon": "5 s",
    }
    found = plan(asked)
    best, own = found.recommendation, next(kind for kind in found.by_gpu if kind.gpu == "T4")
    assert [gpu.kind for gpu in best.gpus] == ["T4", "T4"]
    assert (own.searched, own.replications) == (Searched.CONFIRMED, best.replications)
    assert own.cost_usd_per_hour == best.cost_usd_per_hour
