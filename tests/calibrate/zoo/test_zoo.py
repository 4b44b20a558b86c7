"""The zoo: names without torch, models as published, a user's own, and one clear line for all that cannot be had."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import torchvision_guard

from calibrate.io.points import Settings
from calibrate.zoo import zoo
from calibrate.zoo.built import tensors

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
V100 = Path(zoo.__file__).parent.parent / "profiles" / "V100"
OWN = """
import sys
import torch

scale = 3

def half(): return torch.nn.Linear(4, 2)
def pair():
    class Pair(torch.nn.Linear):
        def forward(self, x): return {"sum": super().forward(x), "rows": [x.argmax(1)]}
    return Pair(4, 2)
def shy(): raise KeyError("no\\nweights")
def gone(): sys.exit(3)
def text(): return "resnet"
"""


def on_meta(name):
    """The model without memory or arithmetic, but with all its shapes."""
    with torch.device("meta"):
        return zoo.build(name)


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "owned.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("raise RuntimeError('built for another torch')")
    monkeypatch.syspath_prepend(tmp_path)


# Names


def test_names_are_known_without_torch():
    code = "import sys, calibrate.zoo.zoo as zoo; zoo.expand('all'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_groups_stand_for_their_models():
    assert zoo.expand("all") == tuple(zoo.MODELS)
    assert zoo.expand("lenet") == ("lenet",)
    assert zoo.expand("lent") is None


def test_the_lectures_models_are_named_as_their_shipped_profiles():
    assert len(zoo.expand("lecture")) == 8
    assert all((V100 / f"{name}.json").exists() and name in zoo.MODELS for name in zoo.expand("lecture"))


# Models as published


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("yolov3", 61_949_149),
        ("resnet152", 60_192_808),
        ("resnet50", 25_557_032),
        ("vgg16", 138_357_544),
        ("faster_rcnn", 41_808_406),
        ("ssd_vgg", 35_641_826),
        ("inceptionv3", 27_161_264),
        ("alexnet", 61_100_840),
        ("mobilenet_v3_large", 5_483_032),
        ("efficientnet_b0", 5_288_548),
        ("vit_b_16", 86_567_656),
        ("convnext_tiny", 28_589_128),
    ],
)
def test_models_have_the_published_number_of_parameters(name, parameters):
    assert sum(weight.numel() for weight in on_meta(name).module.parameters()) == parameters


def test_tiny_yolo_has_the_published_number_with_the_statistics_its_file_holds():
    module = on_meta("tiny_yolov3").module
    kept = [buffer.numel() for name, buffer in module.named_buffers() if name.endswith(("mean", "var"))]
    assert sum(weight.numel() for weight in module.parameters()) + sum(kept) == 8_858_734


@pytest.mark.parametrize(("name", "maps"), [("yolov3", (13, 26, 52)), ("tiny_yolov3", (13, 26))])
def test_yolo_gives_a_map_per_scale(name, maps):
    built = on_meta(name)
    outputs = built.forward(built.module, built.make_input(2, "meta", Settings()))
    assert [tuple(output.shape) for output in outputs] == [(2, 255, size, size) for size in maps]
    smaller = built.forward(built.module, built.make_input(1, "meta", Settings(resolution=320)))
    assert [output.shape[-1] for output in smaller] == [size * 320 // 416 for size in maps]


def test_tiny_yolo_runs_for_real_in_numbers():
    built = zoo.build("tiny_yolov3")
    with torch.inference_mode():
        outputs = built.forward(built.module, built.make_input(1, "cpu", Settings(resolution=64)))
    assert all(output.isfinite().all() for output in outputs)


def test_bert_reads_rows_of_tokens():
    pytest.importorskip("transformers")
    built = on_meta("bert_base")
    assert sum(weight.numel() for weight in built.module.parameters()) == 109_482_240
    tokens = built.make_input(2, "cpu", Settings())
    assert tokens.shape == (2, 128)
    assert not tokens.is_floating_point()
    assert built.loss(built.module, tokens.to("meta")).shape == ()


# Inputs, inference, loss


def test_weights_and_inputs_are_the_same_each_time():
    one, other = zoo.build("lenet"), zoo.build("lenet")
    assert torch.equal(one.module.fc3.weight, other.module.fc3.weight)
    assert not one.module.training
    assert torch.equal(one.make_input(3, "cpu", Settings()), other.make_input(3, "cpu", Settings()))


def test_building_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    zoo.build("lenet")
    assert torch.equal(torch.rand(1), expected)


def test_a_resolution_changes_the_input():
    built = on_meta("resnet18")
    assert built.make_input(2, "meta", Settings(resolution=448)).shape == (2, 3, 448, 448)
    assert built.make_input(2, "meta", Settings()).shape == (2, 3, 224, 224)


@pytest.mark.parametrize("name", ["lenet", "vit_b_16", "ssd_vgg"])
def test_a_resolution_that_cannot_be_had_is_refused(name):
    built = on_meta(name)
    with pytest.raises(zoo.ZooError, match=rf"^{name}: resolution 448: it.*pixels.*--resolution away") as caught:
        built.make_input(1, "meta", Settings(resolution=448))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "inceptionv3", "vit_b_16", "tiny_yolov3"])
def test_a_training_step_reaches_every_weight(name):
    built = on_meta(name)
    module = built.module.train()
    built.loss(module, built.make_input(2, "meta", Settings())).backward()
    assert [key for key, weight in module.named_parameters() if weight.grad is None] == []


def test_cross_entropy_of_equal_scores_is_the_logarithm_of_their_number():
    built = zoo.build("lenet")
    torch.nn.init.zeros_(built.module.fc3.weight)
    torch.nn.init.zeros_(built.module.fc3.bias)
    loss = built.loss(built.module.train(), built.make_input(4, "cpu", Settings()))
    assert loss.item() == pytest.approx(2.302585)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch and torchvision use it themselves
@pytest.mark.parametrize("name", ["faster_rcnn", "ssd_vgg"])
def test_detectors_run_and_train_on_lists_of_pictures(name, monkeypatch):
    if name == "faster_rcnn" and torchvision_guard.stands_in():
        pytest.skip("without torchvision's operators, pooling of regions is compiled first: minutes")
    for drawn in ("uniform_", "normal_"):  # drawing 36 million weights takes longer than running with them
        monkeypatch.setattr(torch.Tensor, drawn, lambda weights, *_, **__: weights.zero_())
    built = zoo.build(name)
    # Detectors scale every picture to their own size; the tests' is smaller to be quick.
    built.module.transform.min_size = (128,)
    if name == "ssd_vgg":
        built.module.transform.max_size, built.module.transform.fixed_size = 128, (128, 128)
        for layer in built.module.backbone.extra[-2:].modules():  # of 2 x 2 places nothing is left without a border
            if getattr(layer, "kernel_size", None) == (3, 3):
                layer.padding = (1, 1)
    pictures = built.make_input(2, "cpu", Settings())
    assert [tuple(picture.shape) for picture in pictures] == [built.shape] * 2
    with torch.inference_mode():
        found = built.forward(built.module, pictures[:1])
    assert len(found) == 1
    assert len(found[0]["boxes"]) == 0  # no class of 91 stands out
    loss = built.loss(built.module.train(), pictures[:1])
    loss.backward()
    assert loss.isfinite()
    assert [key for key, weight in built.module.named_parameters() if weight.grad is None] == []


# A user's own model


def test_an_own_model_is_built_by_its_factory(own):
    built = zoo.build("owned:half", (4,))
    assert built.make_input(3, "cpu", Settings()).shape == (3, 4)
    assert built.forward(built.module, built.make_input(3, "cpu", Settings())).shape == (3, 2)


def test_an_own_model_lies_where_the_program_was_started(tmp_path, monkeypatch):
    """The command `planner` has its own folder on Python's path, not the one that it is started in."""
    (tmp_path / "started_here.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    assert zoo.build("started_here:half", (4,)).shape == (4,)


def test_a_folder_beside_an_own_model_hides_no_package_later(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text(
        "from torch import nn\ndef f():\n    import helper_beside\n    return nn.ReLU()\n"
    )
    (tmp_path / "helper_beside.py").write_text("")
    monkeypatch.chdir(tmp_path)
    before = sys.path.copy()
    zoo.build("beside:f", (4,))  # its factory, too, finds what lies there
    assert sys.path == before


def test_the_loss_of_an_own_model_is_of_all_its_numbers(own):
    built = zoo.build("owned:pair", (4,))
    inputs = built.make_input(3, "cpu", Settings())
    outputs = built.forward(built.module, inputs)
    assert len(tensors(outputs)) == 2
    assert built.loss(built.module, inputs).item() == pytest.approx(outputs["sum"].square().mean().item())


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("resnet5", None, r"no such model\. Did you mean resnet50\?"),
        ("zzz", None, r"no such model\. Known: yolov3, .*docs/models\.md\. .*or `package\.module:factory"),
        ("owned:half", None, r"shape of its input is not known\. Write --input, e\.g\. --input 3x224x224"),
        ("nowhere.at_all:f", (4,), r"cannot be imported: ModuleNotFoundError: No module named 'nowhere'\. Start where"),
        ("broken:f", (4,), r"broken cannot be imported: RuntimeError: built for another torch\. Start where"),
        ("owned:full", (4,), r"full is not there\. Name a function of owned"),
        ("owned:scale", (4,), r"scale is an int, which cannot be called\. Name a function of owned"),
        ("owned:shy", (4,), r"the factory raised: KeyError: 'no\\nweights'\. Try python -c"),
        ("owned:gone", (4,), r"the factory raised: SystemExit: 3\. Try python -c"),
        ("owned:text", (4,), r"the factory returned a str, not a torch\.nn\.Module\. Return the model itself, or"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_clear_line(own, name, shape, message):
    with pytest.raises(zoo.ZooError, match=message) as caught:
        zoo.build(name, shape)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "package", "message"),
    [
        ("resnet50", "torchvision.models", "Install the torchvision made for your torch"),
        ("ssd_vgg", "torchvision.models.detection", "Install the torchvision made for your torch"),
        ("bert_base", "transformers", "pip install transformers"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, name, package, message):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(zoo.ZooError, match=message):
        zoo.build(name)
