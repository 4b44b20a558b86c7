"""Layers of real models: parameters, operations and bytes against published figures and against torch's own counts."""

import pytest

from calibrate.io.points import Settings
from calibrate.zoo import zoo
from simulator.world.model import LayerFacts
from simulator.world.signature import WeightShape, read_signature

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from calibrate.layers.modules import ROOT, trace  # noqa: E402


def on_meta(name):
    with torch.device("meta"):
        return zoo.build(name)


def own(module, *shape):
    return zoo.Built("own", module.eval(), shape, zoo.ZooTask.OTHER)


def traced(built, **settings):
    values, details = trace(built, Settings(**settings))
    layers = [layer | {"signature": read_signature(layer["signature"])} for layer in details["layers"]]
    return values, {layer["name"]: LayerFacts(**layer) for layer in layers}


@pytest.mark.parametrize(
    ("name", "gmac", "millions", "tolerance"),
    [
        ("resnet50", 4.11, 25.56, 0.006),  # 4.11 counts what normalisation and pooling do as well
        ("vit_b_16", 17.58, 86.57, 0.002),
        ("vgg16", 15.47, 138.36, 0.001),
        ("yolov3", 65.86 / 2, 61.95, 0.001),  # published as 65.86 billion operations
        ("tiny_yolov3", 5.56 / 2, 8.85, 0.002),  # published as 5.56
        ("mobilenet_v3_large", 0.217, 5.483, 0.003),
        ("convnext_tiny", 4.456, 28.59, 0.001),
        ("inceptionv3", 5.713, 27.16, 0.001),
    ],
)
def test_models_have_the_published_operations(name, gmac, millions, tolerance):
    built = on_meta(name)
    values, details = trace(built, Settings())
    layers = details["layers"]
    assert values["macs"] == pytest.approx(gmac * 1e9, rel=tolerance)
    assert values["flops_per_sample"] == 2 * values["macs"]
    assert values["params"] == pytest.approx(millions * 1e6, rel=0.0005)
    loaded = [*built.module.parameters(), *built.module.buffers()]
    assert values["weight_bytes"] == sum(tensor.numel() * tensor.element_size() for tensor in loaded)
    assert values["weight_bytes"] == sum(layer["weight_bytes"] for layer in layers)
    assert values["params"] == sum(layer["params"] for layer in layers)
    assert len({layer["name"] for layer in layers}) == len(layers)


@pytest.mark.parametrize("name", ["resnet18", "efficientnet_b0", "tiny_yolov3"])
def test_layers_add_up_to_what_torch_counts(name):
    built = on_meta(name)
    _, layers = traced(built)
    with FlopCounterMode(display=False) as counter:
        built.forward(built.module, built.make_input(1, "meta", Settings()))
    assert sum(layer.flops for layer in layers.values()) == counter.get_total_flops()


def test_bert_is_as_published():
    pytest.importorskip("transformers")
    values, _ = trace(on_meta("bert_base"), Settings())
    assert values["macs"] == pytest.approx(11.17e9, rel=0.001)


def test_lenet_takes_the_connections_of_the_lecture():
    """Its counting: one per weight and bias of a convolution at each place, one per weight of a linear layer."""
    values, layers = traced(zoo.build("lenet"))
    places = {"conv1": 24 * 24, "conv2": 8 * 8}
    counted = {name: layers[name].params * places[name] for name in places}
    counted |= {name: layers[name].flops // 2 for name in ("fc1", "fc2", "fc3")}
    assert counted == {"conv1": 89_856, "conv2": 154_624, "fc1": 30_720, "fc2": 7_200, "fc3": 600}
    assert values["input_bytes_per_sample"] == 28 * 28 * 4
    assert values["output_bytes_per_sample"] == 10 * 4
    assert list(layers)[:4] == ["conv1", "relu1", "pool1", "conv2"]


def test_the_meta_device_shows_what_a_real_run_shows():
    assert trace(on_meta("lenet"), Settings()) == trace(zoo.build("lenet"), Settings())


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_halves_the_bytes_and_leaves_the_operations(precision):
    whole, layers = traced(on_meta("resnet18"))
    half, halved = traced(on_meta("resnet18"), precision=precision)
    counters = 8 * sum(layer.type == "BatchNorm2d" for layer in layers.values())  # of batches seen: whole numbers
    assert half["weight_bytes"] - counters == (whole["weight_bytes"] - counters) / 2
    assert sum(layer.weight_bytes for layer in halved.values()) == half["weight_bytes"]
    for key in ("activation_bytes_per_sample", "input_bytes_per_sample", "output_bytes_per_sample"):
        assert half[key] == whole[key] / 2
    assert half["flops_per_sample"] == whole["flops_per_sample"]
    assert traced(on_meta("resnet18"), precision="amp") == (whole, layers)


def test_a_resolution_multiplies_the_work_of_convolutions():
    built = on_meta("resnet18")
    normal, large = (traced(built, resolution=pixels)[1]["conv1"] for pixels in (224, 448))
    assert large.flops == 4 * normal.flops
    assert large.weight_bytes == normal.weight_bytes


def test_a_signature_names_all_that_sharing_needs():
    _, layers = traced(on_meta("resnet50"))
    expected = "Conv2d kernel_size=7x7 stride=2x2 padding=3x3 dilation=1x1 groups=1 weight=64x3x7x7"
    assert str(layers["conv1"].signature) == expected
    assert str(layers["fc"].signature) == "Linear weight=1000x2048 bias=1000"
    same = {name for name, layer in layers.items() if layer.signature == layers["layer1.1.conv2"].signature}
    assert same == {"layer1.0.conv2", "layer1.1.conv2", "layer1.2.conv2"}
    assert WeightShape("num_batches_tracked", (1,), "int64") in layers["bn1"].signature.weights


def test_attention_is_one_layer_with_its_own_weights():
    _, layers = traced(own(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 5, 8))
    attention = layers["self_attn"]
    assert attention.params == 4 * (8 * 8 + 8)
    projections, products = 4 * 2 * 5 * 8 * 8, 2 * 2 * 5 * 5 * 8
    assert attention.flops == projections + products
    assert not any(name.startswith("self_attn.") for name in layers)


class Odd(nn.Module):
    """Weights and work of its own, a layer used twice, a layer never used, tied weights, an activation in place."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, 4))
        self.twice = nn.Linear(4, 4, bias=False)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.twice.weight
        self.never = nn.Linear(4, 2)
        self.inplace = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.inplace(self.tied(self.twice(self.twice(x)))) @ self.scale


def test_what_is_odd_is_still_counted_once():
    values, layers = traced(own(Odd(), 4))
    assert {name: layer.flops for name, layer in layers.items()} == {
        ROOT: 32,
        "twice": 64,
        "tied": 32,
        "inplace": 0,
        "never": 0,
    }
    assert {name: layer.params for name, layer in layers.items() if layer.params} == {
        ROOT: 16,
        "twice": 16,
        "never": 10,
    }
    assert values["weight_bytes"] == 4 * (16 + 16 + 10)
    assert values["activation_bytes_per_sample"] == 3 * 4 * 4


class Picky(nn.Linear):
    def forward(self, x):
        raise RuntimeError("needs\na GPU")


def test_a_model_that_does_not_run_still_shows_its_weights():
    values, details = trace(own(nn.Sequential(nn.Linear(4, 4), Picky(4, 2)), 4), Settings())
    assert values == {"params": 30, "weight_bytes": 120}
    assert details["unknown"] == "operations and activations: RuntimeError: needs a GPU"
    assert [(layer["name"], layer["params"]) for layer in details["layers"]] == [("0", 20), ("1", 10)]
    assert "flops" not in details["layers"][0]
    sound = own(nn.Linear(4, 4), 4)
    assert trace(sound, Settings())[0]["flops_per_sample"] == 32
