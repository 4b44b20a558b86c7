"""`planner profile`: what it says of the zoo's models and of a user's own, and what it refuses."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest
from support.paths import ROOT

from calibrate.layers.facts import facts
from planner import cli
from planner.catalog.knowledge import knowledge
from planner.prediction.rules.roofline import Bound

OWN = """
from torch import nn

def factory():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
"""


@pytest.fixture
def planner(forked, tmp_path, monkeypatch, capsys):
    """`planner(...)` in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["planner", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


def answer(planner, *words):
    status, out, err = planner("profile", *words, "--format", "json")
    assert status == 0, err
    return json.loads(out)


def test_a_model_alone(planner):
    found = answer(planner, "resnet50")
    assert (found["params"], found["macs"]) == (25_557_032, 4_089_184_256)
    assert found["bytes_moved"] == pytest.approx(sum(layer["bytes_moved"] for layer in found["layers"]))
    assert found["flops"] == 2 * found["macs"]
    assert "latency_s" not in found
    assert "time_s" not in found["layers"][0]


@pytest.mark.parametrize(
    ("name", "gpu", "rule"),
    [("resnet50", "V100", "profile"), ("yolov3", "T4", "measured-ratio"), ("convnext_tiny", "B200", "learnt")],
)
def test_a_model_on_a_gpu(planner, name, gpu, rule):
    found = answer(planner, name, "--gpu", gpu, "--batch", 4)
    assert found["gpu"] == gpu
    assert facts(name).weight_bytes < found["memory_bytes"] <= found["reserved_bytes"]
    for key in ("latency_s", "load_s"):
        assert 0 < found[key]["low"] <= found[key]["value"] <= found[key]["high"]
    assert found["bound"] in ("arithmetic", "bandwidth", "overhead")
    assert sum(found["bound_shares"].values()) == pytest.approx(1)
    assert found["roofline_s"] == pytest.approx(sum(layer["time_s"] for layer in found["layers"]))
    assert found["evidence"]
    if gpu != "T4":  # which rule reaches a T4 depends on what is shipped for it
        assert found["rule"] == rule


def test_probes_count_with_their_own_layers(planner):
    """A layer model of the V100 fitted to real layers gives LeNet its 11 kernels' time, not a middling model's."""
    assert answer(planner, "lenet", "--gpu", "V100")["latency_s"]["high"] < 1e-3


def test_a_table_for_people(planner):
    status, out, _ = planner("profile", "resnet50", "--gpu", "V100", "--batch", "4")
    assert status == 0
    assert out.startswith("resnet50: 25.56 M parameters, 4.09 G multiply-adds a sample of 3x224x224")
    for words in ("Bound by arithmetic", "layers that take longest", "grayscale", "-1.9 %", "checkpointing", "L2"):
        assert words in out


@pytest.mark.parametrize(
    ("batch", "held"),
    [
        ("4", ""),
        ("1024", ", whose 16 GB may not hold it, so that no plan runs it there"),
        ("100000", ", whose 16 GB do not hold it"),
    ],
)
def test_a_batch_that_memory_does_not_hold_is_said_so_first(planner, batch, held):
    said = " ".join(planner("profile", "resnet50", "--gpu", "T4", "--batch", batch)[1].split())
    assert f"On T4{held}: " in said
    assert "launch of" not in said or batch == "4"  # a host that takes 0.1 ms an operator is no cause


def test_a_roofline_above_a_time_that_somebody_saw_is_called_no_bound(planner):
    """Winograd's convolutions leave operations out that the roofline counts."""
    words = ("vgg16", "--gpu", "V100", "--batch", "64")
    found = answer(planner, *words)
    assert found["latency_s"]["value"] < found["roofline_s"]
    said = " ".join(planner("profile", *words)[1].split())
    assert "Bound by" not in said
    assert "it takes less than the roofline's 137 ms, whose ceilings are none here" in said


def test_markdown(planner):
    status, out, _ = planner("profile", "lenet", "--format", "md")
    assert status == 0
    assert "| layer | type |" in out


def test_a_systolic_array(planner):
    found = {
        flow: answer(planner, "resnet50", "--device", "tpu-v1", "--dataflow", flow)["array"] for flow in ("ws", "os")
    }
    assert found["ws"]["cycles"] != found["os"]["cycles"]
    assert 0 < found["ws"]["utilization"] < 1
    assert len(found["ws"]["layers"]) == 54
    status, out, _ = planner("profile", "resnet50", "--device", "tpu-v1")
    assert status == 0
    assert "On tpu-v1, ws:" in out


def test_accuracy_at_other_precisions(planner):
    found = answer(planner, "resnet50")["accuracies"]
    assert {(one["precision"], one["runtime"]) for one in found} > {("int8", "tensorrt"), ("int8", "pytorch")}
    assert all(one["lost"] == pytest.approx(one["reference"] - one["value"]) and one["source"] for one in found)
    assert "Accuracy at other precisions" in planner("profile", "resnet50")[1]
    assert "is not published" in planner("profile", "lenet")[1]


def test_another_resolution(planner):
    usual, large = (answer(planner, "resnet50", "--resolution", pixels) for pixels in (224, 448))
    assert large["input_shape"] == [3, 448, 448]
    assert large["macs"] == pytest.approx(4 * usual["macs"], rel=0.002)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture(planner, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    status, _, err = planner("profile", "alexnet_2012", "--gpu", "GTX580", "--batch", "128", "--plot", f"a.{suffix}")
    assert status == 0, err
    if suffix == "png":
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    else:
        ElementTree.parse(tmp_path / "a.svg")


def test_the_picture_of_an_array_has_the_cells_of_every_dataflow():
    """AlexNet's first convolution, 3025 x 363 x 64, by SCALE-Sim's forms by hand: folds x (2 x 256 + 256 + T - 2)."""
    from planner.show.charts.profiling import cells_at_work

    (chart,) = cells_at_work(seen("alexnet", device="tpu-v1"))
    cycles = {
        "weights stay": 2 * 1 * (766 + 3025),
        "inputs stay": 2 * 12 * (766 + 64),
        "outputs stay": 12 * 1 * (766 + 363),
    }
    first = {box.name: box.high for box in chart.marks if box.title == "features.0"}
    assert first == pytest.approx({flow: 100 * 3025 * 363 * 64 / 256**2 / each for flow, each in cycles.items()})
    assert cells_at_work(seen("alexnet")) == []


def seen(model, *, device=None, gpu=None, batch=1):
    """The anatomy of a shipped model."""
    from planner.questions.profiling.anatomy import Wish, look
    from planner.questions.profiling.systolic import Dataflow

    known, library = knowledge(None, None)
    wish = Wish(
        model=model,
        input_shape=None,
        resolution=None,
        batch=batch,
        precision="fp32",
        gpu=known.gpus[gpu] if gpu else None,
        device=device,
        dataflow=Dataflow.WS,
        measure=False,
    )
    return look(wish, library, known.gpus)


def test_the_picture_shows_why_alexnet_was_split():
    from planner.show.charts.kit.blocks import Box, Line, Rule
    from planner.show.charts.profiling import training

    chart = training(seen("alexnet_2012", gpu="GTX580", batch=128))
    (limit,) = (mark.at for mark in chart.marks if isinstance(mark, Rule))
    batches = [int(text) for _, text in chart.x.ticks]
    tops = dict.fromkeys(batches, 0.0)
    for box in (mark for mark in chart.marks if isinstance(mark, Box)):
        batch = batches[round((box.left + box.right) / 2)]
        tops[batch] = max(tops[batch], box.high)
    assert limit == 3.0
    assert tops[64] < tops[128] < limit < tops[256]
    lines = [mark for mark in chart.marks if isinstance(mark, Line)]
    band = {batch: [y for _, y in line.points] for batch, line in zip(batches, lines, strict=True)}
    assert band[128][0] < limit < band[128][1]
    assert band[64][1] < limit


def test_an_own_model(planner, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    found = answer(planner, "mine:factory", "--input", "3x8x8", "--gpu", "T4")
    assert found["macs"] == 27 * 8 * 36 + 8 * 36 * 10
    assert found["rule"] in ("layer-model", "learnt")
    assert found["latency_s"]["value"] > 0


def test_measured_on_this_machine(planner):
    pytest.importorskip("torch")
    found = answer(planner, "lenet", "--device", "cpu", "--measure", "--batch", "2")
    assert set(found["measured"]["latency_s"]) == {"1", "2", "4", "8"}
    assert found["measured"]["verdict"].startswith("time ")


def test_a_model_without_layers_is_sent_to_its_profiles_where_they_are(planner, tmp_path):
    known = json.loads((ROOT / "calibrate/profiles/V100/resnet152.json").read_text(encoding="utf-8"))
    (tmp_path / "mine/V100").mkdir(parents=True)
    (tmp_path / "mine/V100/unheard_of.json").write_text(json.dumps(known | {"model": "unheard_of"}), encoding="utf-8")
    _, _, err = planner("profile", "unheard_of", "--profiles", tmp_path / "mine")
    (command,) = re.findall("`planner (profiles show .*)`", " ".join(err.split()))
    status, out, _ = planner(*command.split())
    assert status == 0
    assert "unheard_of" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nvidia_resnet50"], "Its times are known: `planner profiles show nvidia_resnet50`."),
        (["resnet5"], "resnet5: its layers are not known. Did you mean resnet50?"),
        (["mine:factory"], "mine:factory: the shape of its input is not known. Name it, e.g. 3x224x224."),
        (["resnet50", "--input", "3x8x8"], "resnet50: its own input is 3x224x224. Leave it out"),
        (["lenet", "--resolution", "56"], "lenet: resolution 56: its linear layers fit 28 pixels only."),
        (
            ["resnet50", "--gpu", "V10"],
            "--gpu V10: is not in the catalog. Did you mean `V100` or `V100-32GB` or `V100S`?",
        ),
        (["resnet50", "--gpu", "V100", "--precision", "bf16"], "V100: computes nothing in bf16."),
        (["resnet50", "--precision", "fp8"], "--precision must be one of fp32"),
        (["resnet50", "--device", "tpu"], "--device tpu: is not known. Did you mean `tpu-v1`?"),
        (["resnet50", "--device", "tpu-v1", "--dataflow", "rs"], "--dataflow rs: write one of ws, is, os."),
        (["resnet50", "--dataflow", "os"], "--dataflow os: only systolic arrays have one. Add --device tpu-v1."),
        (["resnet50", "--device", "cuda:0"], "--device cuda:0: says nothing by itself. Add --measure, or name"),
        ([":f", "--input", "3x8x8"], ":f: must name a module and a function. Write package.module:factory."),
        (["m:", "--input", "3x8x8"], "m:: must name a module and a function. Write package.module:factory."),
        (["resnet50", "--measure"], "--measure runs the model: write --device cpu or --device cuda:0."),
        (["resnet50", "--format", "csv"], "must be table, json or md, got csv."),
        (["resnet50", "--plot", "a.jpg"], "--plot a.jpg: must end in .png or .svg."),
        (["resnet50", "--plot", "no/a.png"], "--plot no/a.png: cannot be written: folder no is not there."),
        (["m:f", "--input", "3xx8"], "--input 3xx8: must be sizes with x between. Write e.g. 3x224x224, or 384"),
        (["resnet50", "--batch", "0"], "--batch 0: must be at least 1."),
    ],
)
def test_what_is_refused(planner, words, said):
    status, out, err = planner("profile", *words)
    assert (status, out) == (2, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err


def keys_in(value):
    """Of a JSON, at any depth."""
    if isinstance(value, list):
        return {key for item in value for key in keys_in(item)}
    return {*value}.union(*map(keys_in, value.values())) if isinstance(value, dict) else set()


@pytest.mark.parametrize("on", [("--gpu", "T4"), ("--device", "tpu-v1")])
def test_every_key_of_the_json_is_explained(planner, on):
    _, _, section = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8").partition("## What the JSON holds")
    found = keys_in(answer(planner, "resnet50", *on)) - {"schema"}
    # Shares of the time are by what limits a layer, which the page has in a table of its own.
    assert {key for key in found if f"`{key}`" not in section} <= {bound.value for bound in Bound}
