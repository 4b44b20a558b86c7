"""Models by `source:name` in scenarios and commands: planned without torch, told of honestly; wrong ones in place."""

import subprocess
import sys
from dataclasses import replace
from math import log

import pytest
from support.forks import forking
from support.paths import ROOT

from calibrate.layers.facts import facts, full_name, has_layers, known, named
from calibrate.library.held import counted
from calibrate.published import names
from planner.api import modelling, serving, training
from planner.catalog.catalog import load_catalog
from planner.model.parts.models import ModelSpec
from planner.model.plan import PredictionRule
from planner.prediction.predict import is_alike
from simulator.errors import InputError
from simulator.world.profile import Evidence

SLO = {"latency": "300 ms", "attainment": "99 %"}
SCENARIO = """
models:
- {name: detector, model: "timm:resnet50d.ra2_in1k", slo: {latency: 300 ms, attainment: 99 %}}
- {name: yolov8s, slo: {latency: 300 ms, attainment: 99 %}}
- {name: text, model: hf:sentence-transformers/all-MiniLM-L6-v2, slo: {latency: 300 ms, attainment: 99 %}}
streams:
- {model: detector, count: 2, rate: 5 fps}
- {model: yolov8s, rate: 5 fps}
- {model: text, poisson: 5 rps}
buy: {gpus: [T4]}
horizon: 10s
replications: 2
confidence: 50 %
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


def test_a_plan_of_shipped_names_needs_no_torch(scenario):
    code = f"import sys; from planner import plan; plan({str(scenario)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_names_are_checked_in_their_place(scenario):
    scenario.write_text(SCENARIO.replace("name: yolov8s, slo", "name: yolov8s, model: yolov9s, slo"), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        serving.plan(scenario)
    assert ":4:" in str(caught.value)
    assert "`ultralytics:yolov9s`" in str(caught.value)
    assert "yolov3" not in str(caught.value)


def test_a_source_that_may_be_meant_is_to_be_written_as_the_model(scenario):
    scenario.write_text(SCENARIO.replace("yolov8s", "yolo11xl"), encoding="utf-8")
    with pytest.raises(InputError, match=r"Did you mean `ultralytics:yolo11l`\? Write it as its `model`\."):
        serving.plan(scenario)


def test_an_ambiguous_name_lists_the_candidates():
    with pytest.raises(InputError, match=r"may be timm:convnext_base\S* or torchvision:convnext_base"):
        modelling.profile("convnext_base")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"model": "timm:a", "factory": "m:f", "input": "3x8x8"}, "cannot stand beside `factory`"),
        ({"model": "m:f"}, "needs `input`"),
        ({"model": "resnet50", "input": "3x8x8"}, "has `input`, which goes only with"),
        ({"model": "timm:"}, "must be `package.module:function`"),
        ({"model": "my mod:small"}, "got `my mod:small`. A name has no spaces."),
        ({"model": "timm:resnet50", "input": "3xx8"}, 'must be the shape of one sample, got "3xx8"'),
        ({"factory": "m:f", "input": 64}, r"must be the shape of one sample, got 64\. Write e\.g\. `3x224x224`"),
        ({"factory": "m.f", "input": "3x8x8"}, r"^ModelSpec.factory: must be [^\n]*, got `m\.f`\. Write `m:f`\.$"),
        ({"model": "ultralitics:yolo11s"}, "no source of models. Did you mean `ultralytics:yolo11s`"),
        ({"model": "Timm:resnet50"}, "Did you mean `timm:resnet50`"),
        (
            {"model": "HF:bert-base-uncased"},
            r"^[^\n]*got `HF:bert-base-[^\n]*mean `hf:bert-base-uncased`\?$",
        ),
    ],
)
def test_keys_that_do_not_go_together(keys, said):
    with pytest.raises(InputError, match=said):
        ModelSpec(name="a", slo=SLO, **keys)


def test_commands_say_which_source_was_meant(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="Did you mean `timm:resnet50`"):
        modelling.profile("Timm:resnet50")
    with (
        forking(),
        pytest.raises(InputError, match=r"Write timm:resnet50, or start where python -c 'import tim' works\.$"),
    ):
        modelling.profile("tim:resnet50", input_shape=(3, 8, 8))


def test_a_models_profile_goes_by_where_it_comes_from():
    assert ModelSpec(name="a", model="timm:resnet50d.ra2_in1k", slo=SLO).known_as == "timm.resnet50d.ra2_in1k"
    sized = ModelSpec(name="a", model="hf:BAAI/bge-m3", input="512", slo=SLO)
    assert (sized.known_as, sized.input) == ("hf.BAAI.bge-m3.512", (512,))
    assert ModelSpec(name="a", model="resnet50", slo=SLO).known_as == "resnet50"


def test_a_published_architecture_is_known_by_name_and_parameters():
    resnet = facts("timm:resnet50d.ra2_in1k")
    assert is_alike(resnet, "resnet50d")
    assert not is_alike(resnet, "resnet101")
    assert not is_alike(replace(resnet, model="mine:resnet50d"), "resnet50d")  # a function of a user's own
    counts = counted(resnet, "resnet50d")
    assert (counts.input, counts.params, counts.macs) == ("224", resnet.params, resnet.macs)
    assert counted(facts("bge-m3"), "bge-m3").input == "seq128"


NAMES = ["yolo11s", "YOLOv8s", "hf:openai/whisper-small", "osnet_x1_0", "timm:resnet50d.ra2_in1k"]


@pytest.mark.parametrize("model", NAMES)
def test_every_name_is_told_of_with_a_band(model):
    found = modelling.profile(model, "T4")
    assert found.prediction is not None
    assert (found.prediction.rule, found.prediction.evidence) == (PredictionRule.LEARNT, Evidence.PREDICTED)
    time = found.prediction.latency_s
    assert time.low < time.value < time.high
    assert time.low >= found.facts.flops / load_catalog().gpus["T4"].peak_flops("fp32")


def test_queries_know_them_too(tmp_path):
    table = tmp_path / "q.csv"
    table.write_text("gpu,model,batch\nT4,hf:openai/whisper-small,1\nT4,hf:openai/whisper-small,8\nT4,zzz,1\n")
    one, eight, none = modelling.predict(table)
    assert one.latency_s < eight.latency_s
    assert one.memory_bytes > 4 * facts("hf:openai/whisper-small").params
    assert none.latency_s is None
    assert "Others go by e.g. `timm:" in none.reason


def test_any_two_models_may_be_merged_on_paper():
    analysis = modelling.merge_analyze("torchvision:vgg11", "vgg16")
    assert 0 < analysis.shareable_bytes < analysis.total_bytes
    of_timm = [name for name in named() if name.startswith("timm:vit_")][:2]
    assert modelling.merge_analyze(*of_timm).total_bytes > 0


def test_a_training_names_its_model_the_same_way(tmp_path):
    text = (ROOT / "scenarios" / "training" / "lenet.yaml").read_text(encoding="utf-8")
    assert "zoo: lenet" in text
    path = tmp_path / "t.yaml"
    text = text.partition("\nspeed:")[0].replace("zoo: lenet", "zoo: timm:resnet50d.ra2_in1k")
    path.write_text(f"{text}\ncounts: [1]\nbuy: {{instances: [g4dn.xlarge]}}\n", encoding="utf-8")
    layers = facts("timm:resnet50d.ra2_in1k")
    assert 4 * layers.params <= training.train(path).options[0].memory["weights"] <= layers.weight_bytes


def test_one_name_is_one_network_everywhere():
    """Where a name has layers and published counts, both are of one network, which `predict` and `profile` share.

    Within a quarter: tables count some heads otherwise. The next size of a family has half as many operations more.
    """
    last = {full.rpartition("/")[2].rpartition(":")[2] for full in named()}
    both = [name for name in (*known(), *named(), *last) if has_layers(name) or name in named()]
    counts = {name: names.facts_of(names.architecture(name), size_of(name)) for name in both}
    judged = {name: one for name, one in counts.items() if one and one.macs}
    assert {"resnet50", "googlenet", "ultralytics:yolov5s", "yolo11s-cls"} <= set(judged)
    others = {
        name: one.macs for name, one in judged.items() if abs(log(macs_at(name, one.input) / one.macs)) > log(1.25)
    }
    assert others == {}


def size_of(name):
    """The input at which its layers are shipped, as published tables write it."""
    return counted(facts(full_name(name)), name).input


def macs_at(name, size):
    """Multiply-adds by its layers, grown to another input."""
    own = counted(facts(full_name(name)), name)
    return own.macs * names.grown(own.input, size)


def test_the_older_network_of_a_name_is_not_given_the_layers_of_the_newer(tmp_path):
    with pytest.raises(InputError, match="ultralytics:yolov5s is another network"):
        modelling.profile("yolov5s", "T4")
    table = tmp_path / "q.csv"
    table.write_text("gpu,model,batch\nT4,yolov5s,32\nT4,ultralytics:yolov5s,32\n")
    older, newer = modelling.predict(table)
    assert older.latency_s < newer.latency_s  # 8.25 and 12 billion multiply-adds
