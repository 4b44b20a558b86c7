"""Models by `source:name`: found, traced once, kept by content; and one clear line for all that cannot be had."""

import gzip
import json
import resource

import pytest
from support import commands

from calibrate.layers import facts as layer_facts
from calibrate.layers.facts import facts, full_name, has_layers, named
from calibrate.layers.work import FactsError, to_document
from calibrate.zoo import sources
from calibrate.zoo.sources import ZooError, config_of, is_sourced

TINY = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 1200}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The user's cache, empty; what is traced in this process is forgotten too."""
    monkeypatch.setattr("subprocess.run", commands.tracing)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    layer_facts.sourced_or_why_not.cache_clear()
    yield tmp_path / "cache" / "gpu-capacity-planner" / "layers"
    layer_facts.sourced_or_why_not.cache_clear()


def refusal(model, shape=None):
    layer_facts.sourced_or_why_not.cache_clear()
    with pytest.raises(FactsError) as caught:
        facts(model, shape)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(model)
    return text


def test_what_is_refused_is_traced_once(cache, monkeypatch):
    """A table asks for the same input in many rows, and each refusal took as long as a trace."""
    asked = []

    def refused(model, *_):
        asked.append(model)
        raise FactsError(f"{model}: takes no such input.", "input")

    monkeypatch.setattr(layer_facts, "_run", refused)
    pytest.importorskip("torchvision")
    for _ in range(3):
        with pytest.raises(FactsError, match="takes no such input") as caught:
            facts("torchvision:shufflenet_v2_x0_5", (3, 7, 7))
        assert caught.value.key == "input"
    assert asked == ["torchvision:shufflenet_v2_x0_5"]


# Names


def test_which_names_say_where_a_model_comes_from():
    assert is_sourced("timm:resnet50")
    assert is_sourced("hf:BAAI/bge-m3")
    assert not is_sourced("my.module:make")
    assert not is_sourced("resnet50")


def test_a_plain_name_stands_for_the_one_model_that_it_can():
    assert full_name("resnet50") == "resnet50"  # the zoo's, whatever packages have
    assert full_name("yolo11s") == "ultralytics:yolo11s"
    assert full_name("bge-m3") == full_name("BAAI/bge-m3") == "hf:BAAI/bge-m3"
    assert full_name("convnext_nano") == "timm:convnext_nano.in12k_ft_in1k"
    assert facts("yolo11s") == facts("ultralytics:yolo11s")


def test_a_plain_name_of_several_models_is_answered_with_all():
    assert not has_layers("convnext_base")
    with pytest.raises(FactsError, match=r"may be timm:convnext_base\S* or torchvision:convnext_base\. Write one"):
        facts("convnext_base")


@pytest.mark.parametrize(
    ("name", "write"), [("yolov9s", "`ultralytics:yolov9s`"), ("zzz", "`timm:convnext_tiny.fb_in1k`")]
)
def test_a_name_nobody_knows_is_answered_with_how_to_name_it(name, write):
    with pytest.raises(FactsError) as caught:
        facts(name)
    assert write in str(caught.value)
    assert "yolov3" not in str(caught.value)


def test_a_misspelt_name_of_timm_starts_no_process(monkeypatch):
    """It would import torch and timm first, which takes long."""
    pytest.importorskip("timm")
    monkeypatch.setattr("calibrate.layers.facts._run", lambda *_: pytest.fail("a process was started"))
    with pytest.raises(FactsError, match=r"^timm:resnet5o: timm has no such model\. Did you mean timm:resnet50\?$"):
        facts("timm:resnet5o")


# What is traced, and kept


def test_shipped_layers_need_no_package_and_no_process(monkeypatch):
    monkeypatch.setattr(layer_facts, "_run", None)
    monkeypatch.setattr(sources, "version", None)
    assert all(facts(name).params for name in named()[:3])


def test_a_model_of_a_package_is_traced_once(cache, monkeypatch):
    pytest.importorskip("torchvision")
    found = facts("torchvision:shufflenet_v2_x0_5")
    assert found.params == 1_366_792  # its weights' own metadata
    assert found.macs == pytest.approx(0.04e9, rel=0.02)
    assert found.made_with["torchvision"]
    (kept,) = cache.iterdir()
    monkeypatch.setattr(layer_facts, "_run", None)
    layer_facts.sourced_or_why_not.cache_clear()
    assert to_document(facts("torchvision:shufflenet_v2_x0_5")) == to_document(found)

    traced_again = []
    monkeypatch.setattr(layer_facts, "_run", lambda *asked: traced_again.append(asked) or to_document(found))
    packed = kept.read_bytes()
    middle = len(packed) // 2
    damages = [b"damaged", packed[:middle], packed[:middle] + b"~~~~" + packed[middle + 4 :], gzip.compress(b"[3]")]
    for damaged in damages:
        kept.write_bytes(damaged)
        layer_facts.sourced_or_why_not.cache_clear()
        assert facts("torchvision:shufflenet_v2_x0_5").params == found.params
    monkeypatch.setattr(sources, "version", lambda package: "another")
    layer_facts.sourced_or_why_not.cache_clear()
    facts("torchvision:shufflenet_v2_x0_5")
    assert [model for model, *_ in traced_again] == 5 * ["torchvision:shufflenet_v2_x0_5"]


def test_what_does_not_fit_leaves_nothing(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            layer_facts.pack({"layers": list(range(1000))}, tmp_path / "x.json.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_another_input_is_traced_anew(cache):
    pytest.importorskip("torchvision")
    usual = facts("torchvision:mobilenet_v3_small")
    larger = facts("torchvision:mobilenet_v3_small", (3, 448, 448))
    assert larger.input_shape == (3, 448, 448)
    assert larger.flops == pytest.approx(usual.at(448).flops, rel=0.001)
    assert larger.params == usual.params


def test_a_configuration_is_found_in_files_and_where_hugging_face_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(TINY))
    assert config_of("mine")[0] == config_of("./mine/config.json")[0] == TINY
    hub = tmp_path / "hf" / "hub" / "models--someone--tiny"
    (hub / "snapshots" / "abc").mkdir(parents=True)
    (hub / "snapshots" / "abc" / "config.json").write_text(json.dumps(TINY))
    assert config_of("someone/tiny")[0] == TINY
    assert config_of("bert-base-uncased")[0] == {"model_type": "bert"}


def test_a_configuration_becomes_a_model(cache, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    found = facts("hf:config.json", (16,))
    assert found.input_shape == (16,)
    words, places, kinds = 1200, 512, 2
    assert next(x for x in found.layers if "word" in x.name).params == 32 * words
    assert found.params > 32 * (words + places + kinds)


def test_a_torchscript_file_is_one_layer_of_work(cache, tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten())
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        torch.jit.save(torch.jit.trace(model, torch.rand(1, 3, 8, 8)), str(tmp_path / "m.pt"))
    found = facts("torchscript:m.pt", (3, 8, 8))
    assert found.flops == 2 * 27 * 8 * 64
    assert found.params == 27 * 8 + 8
    assert "shape of its input is not known" in refusal("torchscript:m.pt")


@pytest.mark.parametrize(
    "name",
    [
        "hf:sentence-transformers/all-MiniLM-L6-v2",
        "timm:vit_tiny_patch16_224.augreg_in21k_ft_in1k",
        "torchvision:squeezenet1_1",
        "ultralytics:yolo11n",
    ],
)
def test_shipped_layers_are_what_the_command_gives(name):
    from calibrate.layers import tracing

    try:
        versions = sources.installed(name)
    except ZooError as error:
        pytest.skip(str(error))
    shipped = facts(name)
    if versions != shipped.made_with:
        pytest.skip(f"made with {shipped.made_with}")
    assert to_document(tracing.grown(tracing.look(name, None))) == to_document(shipped)


# What cannot be had


def test_a_package_that_is_not_installed_is_named_with_its_licence(cache, monkeypatch):
    def missing(package):
        raise sources.PackageNotFoundError(package)

    monkeypatch.setattr(sources, "version", missing)
    assert "needs torch and timm, which are not installed. Install them: pip install torch timm." in refusal(
        "timm:resnet10t"
    )
    monkeypatch.setattr(sources, "version", lambda package: "2" if package == "torch" else missing(package))
    said = refusal("ultralytics:yolo11x")
    assert "pip install ultralytics" in said
    assert "AGPL-3.0" in said


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("torchvision:efficientnet_v2_ss", "Did you mean torchvision:efficientnet_v2_s"),
        ("torchvision:zzz", "See torchvision.models.list_models()"),
        ("torchvision:raft_large", "Name a factory with a make_input"),
        ("torchscript:none.pt", "the file is not there"),
        ("torchscript:.", "the file is a folder"),
        ("torchscript:damaged.pt", "is no TorchScript file, or a damaged one"),
        ("hf:no/such", "hf download no/such config.json"),
        ("hf:BAAI/bge-m4", "the network is not used"),
        ("hf:./none.json", "there is no such file or folder"),
        ("hf:damaged.pt", "is no configuration"),
        ("hf:empty.json", "has no `model_type`"),
    ],
)
def test_one_line_says_what_is_wrong_and_what_to_do(cache, tmp_path, model, said):
    pytest.importorskip("torchvision")
    (tmp_path / "damaged.pt").write_bytes(b"PK\x03\x04 damaged")
    (tmp_path / "empty.json").write_text("{}")
    shape = (3, 8, 8) if model.startswith("torchscript:damaged") else None
    if model.startswith("torchvision") or shape:  # as its process says it
        from calibrate.zoo.zoo import build

        with pytest.raises(ZooError) as caught:
            build(model, shape)
        text = str(caught.value)
    else:
        text = refusal(model)
    assert said in text
    assert "\n" not in text


def test_a_broken_torchvision_is_named(monkeypatch):
    pytest.importorskip("timm")
    from calibrate.zoo import packages

    def breaks(module):
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(packages, "import_module", breaks)
    with pytest.raises(ZooError, match=r"timm:resnet10t: .* Install the torchvision made for your torch\."):
        packages.entry_of("timm:resnet10t", None)


def test_timm_is_traced_beside_a_torchvision_made_for_another_torch(tmp_path, monkeypatch):
    """In a process, as it is for users: nothing declares the operators that torchvision lacks there. 5.44 million by
    timm's table."""
    pytest.importorskip("timm")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert facts("timm:resnet10t.c3_in1k", (3, 32, 32)).params == pytest.approx(5.44e6, abs=5e3)


def test_what_the_meta_device_does_not_bear_is_run_for_real(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from calibrate.layers import tracing

    (tmp_path / "looks.py").write_text(
        "from torch import nn\n"
        "class Looks(nn.Linear):\n"
        "    def forward(self, x): return super().forward(x) if x.sum().item() < 1e9 else x\n"
        "def make(): return Looks(4, 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert tracing.look("looks:make", (4,)).flops == 2 * 4 * 2
    monkeypatch.setattr(tracing, "WEIGHTS_MAX", 10)
    with pytest.raises(tracing.TracingError, match=r"tried without weights"):
        tracing.look("looks:make", (4,))


def test_both_devices_see_the_same(torchvision_in_workers):
    pytest.importorskip("torchvision")
    from calibrate.layers import tracing
    from calibrate.zoo.zoo import build

    for name in ("resnet18", "lenet"):
        assert to_document(tracing.look(name, None)) == to_document(tracing.trace(build(name)))
