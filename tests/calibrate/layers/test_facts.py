"""Shipped layer facts against published figures and against a fresh trace; a user's own model; clear refusals."""

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from itertools import pairwise

import pytest
from support.forks import forking

from calibrate.layers.facts import facts, known, named, traced
from calibrate.layers.work import FactsError, Product, from_document, to_document
from calibrate.zoo import sources
from calibrate.zoo.zoo import MODELS
from planner.questions.profiling.working_set import working_set_bytes

OWN = """
import torch
from torch import nn

class Attention(nn.Module):
    def forward(self, x):
        return (x @ x.transpose(1, 2)).softmax(-1) @ x

def conv():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, groups=1), nn.ReLU(inplace=True), nn.Flatten())

def attention():
    return Attention()

def same_twice():
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 4), relu)

def words():
    return nn.Embedding(1000, 16)

def raises():
    raise ValueError("no weights here")

class Picky(nn.Linear):
    def forward(self, x):
        if self.weight.shape[0] > 1:
            raise RuntimeError("needs\\na GPU")

def picky():
    return Picky(4, 2)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of a user's in the folder where the command runs; `own(factory, shape)` traces it in this process."""
    pytest.importorskip("torch").set_num_threads(1)
    from calibrate.layers import tracing
    from calibrate.zoo import zoo

    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return lambda factory, shape: tracing.trace(zoo.build(factory, shape))


def test_every_model_of_the_zoo_is_shipped():
    assert set(MODELS) <= set(known())


@pytest.mark.parametrize(
    ("name", "gmac", "millions", "tolerance"),
    [
        ("resnet50", 4.09, 25.557, 0.001),  # torchvision's own table: 4.09 GFLOPS, 25,557,032 parameters
        ("vgg16", 15.47, 138.358, 0.001),  # the same: 15.47, 138,357,544
        ("alexnet", 0.71, 61.101, 0.01),  # the same: 0.71, 61,100,840
        ("alexnet_2012", 0.724406816, 60.965224, 1e-9),  # Sze et al. 2017, table 2: 724 M MACs, 61 M weights
        ("vit_b_16", 17.56, 86.568, 0.001),
        ("bert_base", 11.17, 109.482, 0.001),
        ("faster_rcnn", 134.38, 41.755, 0.002),  # 41.755 M, and buffers that this version counts as parameters
        ("mobilenet_v3_large", 0.22, 5.483, 0.02),
    ],
)
def test_macs_and_parameters_are_as_published(name, gmac, millions, tolerance):
    assert facts(name).macs == pytest.approx(gmac * 1e9, rel=tolerance)
    assert facts(name).params == pytest.approx(millions * 1e6, rel=0.002)


def test_lenet_is_as_in_the_lecture():
    layers = {layer.name: layer for layer in facts("lenet").layers}
    assert layers["conv1"].params * 24 * 24 == 89_856
    assert layers["fc3"].flops // 2 == 600
    assert working_set_bytes(layers["fc1"], 1) == 4 * (256 + 120 * 256 + 120 + 120)


def test_working_sets_worked_by_hand():
    vgg = {layer.name: layer for layer in facts("vgg16").layers}
    assert working_set_bytes(vgg["features.0"], 1) == 4 * (3 * 224**2 + 64 * 27 + 64 + 64 * 224**2)
    assert working_set_bytes(vgg["classifier.0"], 1) == 4 * (25_088 + 25_088 * 4096 + 4096 + 4096)
    first = facts("alexnet_2012").layers[0]
    assert first.output_bytes == 4 * 55 * 55 * 96  # 290,400 neurons, as the paper says
    resnet = {layer.name: layer for layer in facts("resnet50").layers}
    assert resnet["layer1.0.relu"].calls == 3
    assert working_set_bytes(resnet["layer1.0.relu"], 1) < 2 * 4 * 256 * 56**2


@pytest.mark.parametrize("name", known())
def test_products_are_the_operations(name):
    for layer in facts(name).layers:
        assert 2 * sum(product.macs for product in layer.products) == layer.flops, layer.name


@pytest.mark.parametrize("name", known())
def test_figures_hang_together(name):
    found = facts(name)
    assert to_document(from_document(to_document(found))) == to_document(found)
    assert found.moved_bytes(2) - found.moved_bytes(1) == sum(layer.moved_bytes for layer in found.layers)
    assert found.peak_activation_bytes_per_sample >= max(
        layer.output_bytes // max(1, layer.calls) for layer in found.layers
    )
    assert all(layer.calls for layer in found.layers if layer.kernels)


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_shipped_facts_are_what_a_trace_gives(name):
    pytest.importorskip("torch")
    from calibrate.layers import tracing
    from calibrate.zoo import zoo

    assert to_document(tracing.trace(zoo.build(name))) == to_document(facts(name))


def test_another_resolution_scales_what_depends_on_pixels():
    pytest.importorskip("torch")
    from calibrate.io.points import Settings
    from calibrate.layers.tracing import _pass
    from calibrate.zoo import zoo

    built = zoo.build("resnet18")
    scaled, real = facts("resnet18").at(448), _pass(built, Settings(resolution=448))
    assert scaled.flops == real.flops
    assert scaled.moved_bytes(1) == real.moved_bytes(1)
    between, real = facts("resnet18").at(320), _pass(built, Settings(resolution=320))
    assert between.flops == pytest.approx(real.flops, rel=0.001)
    assert between.weight_bytes == real.weight_bytes
    with pytest.raises(FactsError, match=r"lenet: resolution 56: its linear layers fit 28 pixels only\."):
        facts("lenet").at(56)


@pytest.mark.parametrize("name", ["tiny_yolov3", "resnet18"])
def test_the_smallest_picture_is_the_smallest_that_runs(name):
    pytest.importorskip("torch")
    from calibrate.layers.tracing import META, pixels_min
    from calibrate.zoo import zoo

    built = zoo.build(name, None, META)
    built.module.to(META)
    assert pixels_min(built) == facts(name).pixels_min


def test_the_smallest_pictures_are_those_of_torchvision():
    """Its own errors: `Kernel size can't be greater than actual input size` and `Output size is too small` below."""
    smallest = {"inceptionv3": 75, "alexnet": 63, "vgg16": 32, "convnext_tiny": 32, "resnet50": 1}
    assert {name: facts(name).pixels_min for name in smallest} == smallest


def test_every_layer_computes_one_position_at_least_and_more_on_more_pixels():
    shipped = map(facts, (*known(), *named()))
    of_pictures = [own for own in shipped if own.twice and not own.fixed]
    assert len(of_pictures) > 50
    for own in of_pictures:
        computes_more_on_more_pixels(own)


def computes_more_on_more_pixels(own):
    for layer in (layer for layer in own.at(own.pixels_min).layers if layer.products):
        assert layer.flops >= min(2 * p.inner * p.columns * p.times for p in layer.products), layer.name
    sizes = [own.at(pixels) for pixels in range(own.pixels_min, own.input_shape[-1], 13)]
    for smaller, larger in pairwise(sizes):
        assert all(one.flops <= other.flops for one, other in zip(smaller.layers, larger.layers, strict=True))
        assert smaller.moved_bytes(1) <= larger.moved_bytes(1)
    if own.pixels_min > 1:
        with pytest.raises(FactsError, match=rf"takes no picture of .* Write {own.pixels_min} or more"):
            own.at(own.pixels_min - 1)


def test_pictures_lose_their_borders():
    """Inception's first layers pad nothing: of 75 pixels the second is left 35, of 299 it is left 147."""
    (layer,) = (layer for layer in facts("inceptionv3").at(75).layers if layer.name == "Conv2d_2a_3x3.conv")
    assert sum(product.rows for product in layer.products) ** 0.5 == pytest.approx(35, abs=1)


def test_what_kernels_do_worked_by_hand(own):
    conv, relu, flatten = own("mine:conv", (3, 8, 8)).layers
    assert conv.flops == 2 * 27 * 8 * 64
    assert conv.products == (Product(64, 27, 8),)
    assert (conv.moved_bytes, conv.weights_read_bytes) == (4 * (3 + 8) * 64, 4 * (27 * 8 + 8))
    assert (relu.kernels, relu.moved_bytes, relu.made_bytes) == (1, 2 * 4 * 8 * 64, 0)  # in place
    assert (flatten.kernels, flatten.moved_bytes) == (0, 0)  # a view


def test_attention_grows_with_the_batch_on_both_sides(own):
    (layer,) = own("mine:attention", (5, 4)).layers
    assert {(p.rows, p.inner, p.columns, p.batched) for p in layer.products} == {(5, 4, 5, True), (5, 5, 4, True)}


def test_a_layer_used_twice_is_one_layer(own):
    found = {layer.name: layer for layer in own("mine:same_twice", (4,)).layers}
    assert (found["1"].calls, working_set_bytes(found["1"], 1)) == (2, 2 * 16)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("mine:raises", r"mine:raises: the factory raised: ValueError: no weights here"),
        ("mine:nothing", r"mine:nothing: nothing is not there"),
        ("yours:conv", r"yours:conv: yours cannot be imported: ModuleNotFoundError"),
        (
            "mine:picky",
            r"mine:picky: does not run on an input of 4\. It fails with: needs a GPU\. Give the shape of one sample",
        ),
        ("mine:words", r"mine:words: does not run on an input of 4\. It fails with: "),
    ],
)
def test_what_cannot_be_traced_says_why(own, capsys, factory, said):
    from calibrate.layers.tracing import main

    assert main(["trace", factory, "--input", "4"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(said, line)


def test_a_file_of_layers_that_cannot_be_written_is_told_in_one_line(capsys):
    pytest.importorskip("torch")
    from calibrate.layers.tracing import main

    assert main(["write", "nosuchnet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("nosuchnet: no such model.")


def test_the_reason_comes_out_of_the_process(own):
    says = r"^mine:picky: does not run on an input of 4\. It fails with: needs a GPU\."
    with forking(), pytest.raises(FactsError, match=says):
        traced("mine:picky", (4,))


def test_folders_named_as_packages_are_not_taken_for_them(own, tmp_path):
    """An empty folder `triton` passed for the package that torch looks for; a file `numpy.py` ended at once."""
    (tmp_path / "numpy.py").write_text("raise RuntimeError('this is no package')\n")
    assert traced("mine:conv", (3, 8, 8)).params == own("mine:conv", (3, 8, 8)).params


def test_a_name_is_known_however_it_is_spelt():
    assert facts("vgg-16") == facts("VGG16") == facts("vgg16")


def test_unknown_models_are_refused():
    with pytest.raises(FactsError, match=r"vgg1: its layers are not known\. Did you mean vgg16 or vgg19\?"):
        facts("vgg1")
    with pytest.raises(FactsError, match=r"Did you mean hf:bert-large-uncased\?"):  # it begins so, without its source
        facts("bert_large")
    with pytest.raises(FactsError, match=r"schema: must be planner.layers/v1, got None"):
        from_document({})


def test_facts_need_no_torch():
    code = "import sys; from calibrate.layers.facts import facts; facts('resnet50'); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_are_timed(own):
    from calibrate.layers import tracing
    from calibrate.zoo import zoo

    found = tracing.times(zoo.build("mine:conv", (3, 8, 8)), "cpu", [1, 2])
    assert set(found) == {1, 2}
    assert all(time_s > 0 for time_s in found.values())


def test_a_trace_prints_one_line_of_json(capsys):
    pytest.importorskip("torch")
    from calibrate.layers.tracing import main

    assert main(["trace", "lenet"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert to_document(from_document(json.loads(line))) == to_document(facts("lenet"))


def test_a_misspelt_name_of_a_package_that_is_missing_may_mean_one_whose_layers_are_shipped(monkeypatch):
    def missing(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr(sources, "version", missing)
    with pytest.raises(FactsError, match=r"pip install torch timm\. Or did you mean timm:resnet50d\.ra2_in1k\?"):
        facts("timm:resnet50d.ra2_in1")
    with pytest.raises(FactsError, match=r"pip install torch timm\.$"):
        facts("timm:nothing_like_it")
    with pytest.raises(FactsError, match=r"Or did you mean vgg16\? Its layers are shipped\.$"):
        facts("torchvision:vgg16")


@pytest.mark.parametrize(
    ("model", "shape", "peak_error"),
    [
        ("hf:BAAI/bge-small-en-v1.5", (300,), 0.02),  # between lengths at which memory was looked at
        ("hf:BAAI/bge-m3", (4096,), 0.0),
        ("hf:facebook/dinov2-small", (3, 448, 448), 0.0),
    ],
)
def test_attention_at_another_input_is_what_is_traced_there(model, shape, peak_error):
    pytest.importorskip("transformers")
    from calibrate.layers.tracing import look

    scaled, real = facts(model).of_shape(shape), look(model, shape)
    assert scaled.flops == real.flops
    assert scaled.moved_bytes(1) == real.moved_bytes(1)
    assert scaled.outputs == pytest.approx(real.outputs, rel=0.005)  # the part of the class is no part of the picture
    assert sum(layer.macs for layer in scaled.layers) == pytest.approx(scaled.macs, rel=0.005)
    peaks = (one.peak_activation_bytes_per_sample for one in (scaled, real))
    assert next(peaks) == pytest.approx(next(peaks), rel=peak_error)


def test_a_transformer_is_made_for_other_pictures_but_does_not_take_them():
    """By hand: 12 blocks of 12 products of the width 768, and two of all parts with all others."""
    own, pixels = facts("vit_b_16"), 1024
    with pytest.raises(FactsError, match="its positions fit 224 pixels only"):
        own.at(pixels)
    parts = (pixels // 16) ** 2 + 1
    blocks = 2 * 12 * (12 * parts * 768**2 + 2 * parts**2 * 768)
    patches = 2 * (parts - 1) * 768 * 16 * 16 * 3
    assert own.made_for(pixels).flops == pytest.approx(blocks + patches, rel=0.005)  # as above


def test_no_model_is_told_of_more_tokens_than_it_has_positions_for():
    assert facts("bert_base").tokens_max == facts("hf:roberta-base").tokens_max == 512
    with pytest.raises(FactsError, match=r"reads at most 512 tokens, got 513\. Write 512 or fewer"):
        facts("hf:roberta-base", (513,))
