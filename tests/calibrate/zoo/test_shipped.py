"""Shipped layer facts of packages' models against what their makers, papers and model cards publish."""

from types import MappingProxyType

import pytest

from calibrate.layers.facts import facts, known, named
from calibrate.layers.work import Facts
from calibrate.published import names

AGREEMENT = 0.01
"""Asked for; a published figure has half a unit of its last digit besides."""
OF = {source: [one for one in named() if one.startswith(f"{source}:")] for source in ("torchvision", "timm")}

CARDS = MappingProxyType(
    {
        # Descriptions in the package `ultralytics` (`cfg/models`), exact.
        "ultralytics:yolov8n": "3157200",
        "ultralytics:yolov8s": "11166560",
        "ultralytics:yolov8m": "25902640",
        "ultralytics:yolo11n": "2624080",
        "ultralytics:yolo11s": "9458752",
        "ultralytics:yolo11m": "20114688",
        "ultralytics:yolo11l": "25372160",
        "ultralytics:yolo11s-seg": "10113248",
        "ultralytics:yolo11s-pose": "9948811",
        "ultralytics:yolo11s-obb": "9744931",
        "ultralytics:yolo12s": "9284096",
        # Its documentation.
        "ultralytics:yolov5s": "9.1e6",
        "ultralytics:yolov8s-seg": "11.8e6",
        "ultralytics:yolov8s-pose": "11.6e6",
        # Papers and model cards.
        "hf:bert-base-uncased": "110e6",  # Devlin et al. 2019
        "hf:bert-large-uncased": "335e6",  # its card
        "hf:distilbert-base-uncased": "66e6",  # Sanh et al. 2019
        "hf:roberta-base": "125e6",  # Liu et al. 2019
        "hf:roberta-large": "355e6",
        "hf:xlm-roberta-base": "278e6",  # its card
        "hf:albert-base-v2": "12e6",  # Lan et al. 2020
        "hf:google/electra-small-discriminator": "14e6",  # Clark et al. 2020
        "hf:microsoft/deberta-v3-base": "184e6",  # its card: a backbone of 86 and words of 98
        "hf:answerdotai/ModernBERT-base": "149e6",  # Warner et al. 2024
        "hf:sentence-transformers/all-MiniLM-L6-v2": "22.7e6",  # cards, as those that follow
        "hf:sentence-transformers/all-MiniLM-L12-v2": "33.4e6",
        "hf:sentence-transformers/all-mpnet-base-v2": "109e6",
        "hf:sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2": "118e6",
        "hf:cross-encoder/ms-marco-MiniLM-L6-v2": "22.7e6",
        "hf:intfloat/e5-small-v2": "33.4e6",
        "hf:intfloat/e5-base-v2": "109e6",
        "hf:intfloat/e5-large-v2": "335e6",
        "hf:intfloat/multilingual-e5-base": "278e6",
        "hf:intfloat/multilingual-e5-large": "560e6",
        "hf:BAAI/bge-small-en-v1.5": "33.4e6",
        "hf:BAAI/bge-base-en-v1.5": "109e6",
        "hf:BAAI/bge-large-en-v1.5": "335e6",
        "hf:BAAI/bge-m3": "568e6",
        "hf:openai/whisper-tiny": "37.8e6",
        "hf:openai/whisper-base": "72.6e6",
        "hf:openai/whisper-small": "242e6",
        "hf:openai/whisper-medium": "764e6",
        "hf:openai/whisper-large-v3": "1.54e9",
        "hf:openai/whisper-large-v3-turbo": "809e6",
        "hf:facebook/wav2vec2-base-960h": "95e6",  # Baevski et al. 2020
        "hf:facebook/wav2vec2-large-960h": "317e6",
        "hf:facebook/hubert-base-ls960": "95e6",  # Hsu et al. 2021
        "hf:openai/clip-vit-base-patch32": "151e6",
        "hf:openai/clip-vit-base-patch16": "149.6e6",  # the table of open_clip
        "hf:openai/clip-vit-large-patch14": "428e6",
        "hf:google/siglip-base-patch16-224": "203e6",
        "hf:facebook/dinov2-small": "22.1e6",
        "hf:facebook/dinov2-base": "86.6e6",
        "hf:facebook/dinov2-large": "304e6",
        "hf:google/vit-base-patch16-224": "86.6e6",
        "hf:Intel/dpt-large": "344e6",  # the table of MiDaS 3.0
        "hf:depth-anything/Depth-Anything-V2-Small-hf": "24.8e6",  # Yang et al. 2024
        "hf:depth-anything/Depth-Anything-V2-Base-hf": "97.5e6",
        "hf:depth-anything/Depth-Anything-V2-Large-hf": "335.3e6",
        "hf:nvidia/segformer-b0-finetuned-ade-512-512": "3.8e6",  # Xie et al. 2021
        "hf:nvidia/segformer-b2-finetuned-ade-512-512": "27.5e6",
        "hf:nvidia/segformer-b5-finetuned-ade-640-640": "84.7e6",
        "hf:PekingU/rtdetr_r50vd": "42e6",  # Zhao et al. 2024
        "hf:PekingU/rtdetr_r18vd": "20e6",
        "hf:hustvl/yolos-tiny": "6.5e6",  # Fang et al. 2021
        "hf:usyd-community/vitpose-base-simple": "86e6",  # Xu et al. 2022
        "hf:microsoft/trocr-small-printed": "62e6",  # Li et al. 2021
        "hf:microsoft/trocr-base-printed": "334e6",
        "osnet_x1_0": "2.2e6",  # Zhou et al. 2019
        "crnn": "8.3e6",  # Shi et al. 2015
    }
)
"""Parameters as they are published, with their digits."""

MULTIPLY_ADDS = MappingProxyType(
    {
        "osnet_x1_0": "978.9e6",  # Zhou et al. 2019
        "hf:nvidia/segformer-b0-finetuned-ade-512-512": "8.4e9",  # Xie et al. 2021
        "hf:nvidia/segformer-b2-finetuned-ade-512-512": "62.4e9",
        "hf:nvidia/segformer-b5-finetuned-ade-640-640": "183.3e9",
        "hf:PekingU/rtdetr_r50vd": "68e9",  # half of the operations of Zhao et al. 2024
        "hf:PekingU/rtdetr_r18vd": "30e9",
        "hf:google/vit-base-patch16-224": "17.6e9",  # Touvron et al. 2021
        "ultralytics:rtdetr-l": "55e9",
        "ultralytics:yolov5s": "12e9",  # half of the operations in the documentation, as those that follow
        "ultralytics:yolov8n": "4.35e9",
        "ultralytics:yolov8s": "14.3e9",
        "ultralytics:yolov8s-pose": "15.1e9",
        "ultralytics:yolo11n": "3.25e9",
        "ultralytics:yolov8m": "39.45e9",
        "ultralytics:yolo11s": "10.75e9",
        "ultralytics:yolo11m": "34e9",
        "ultralytics:yolo11l": "43.45e9",
    }
)


WITHOUT_PRODUCTS = MappingProxyType(
    {
        "ultralytics:yolo11s": 21.5,
        "ultralytics:yolo11s-seg": 33.0,
        "ultralytics:yolo11s-pose": 23.2,
        "ultralytics:yolo11s-obb": 57.5,
        "ultralytics:yolo12s": 21.4,
    }
)
"""Billions of operations in Ultralytics' documentation, which counts modules alone: not what attention multiplies."""


def unit(published: str) -> float:
    """What the last digit of a figure counts: 0.1e6 of `37.8e6`."""
    digits, _, power = published.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def agrees(ours: float, published: float, rounding: float) -> bool:
    return abs(ours - published) <= AGREEMENT * published + rounding / 2


def put_out(found: Facts, *kinds: str) -> int:
    """Numbers that layers of some kinds put out."""
    return sum(layer.output_bytes // 4 for layer in found.layers if any(kind in layer.type for kind in kinds))


def test_every_kind_of_model_is_shipped():
    assert len(named()) + len(known()) >= 100
    for word in ("yolo", "segformer", "osnet", "crnn", "trocr", "pose", "whisper", "MiniLM", "clip", "Depth"):
        assert any(word in name for name in (*named(), *known())), word


@pytest.mark.parametrize("name", named())
def test_facts_say_what_they_were_made_with_and_hang_together(name):
    found = facts(name)
    assert {"torch", "torchvision", "timm", "transformers", "ultralytics"} & set(found.made_with)
    assert found.model == name
    for layer in found.layers:
        assert 2 * sum(product.macs for product in layer.products) == layer.flops, layer.name


@pytest.mark.parametrize("name", OF["torchvision"])
def test_torchvision_agrees_with_its_own_weights(name):
    models = pytest.importorskip("torchvision.models")
    meta = models.get_model_weights(name.partition(":")[2]).DEFAULT.meta
    found = facts(name)
    frozen = 0
    if "_fpn" in name and not name.endswith("_v2"):  # the weights' backbones have norms that are not trained: buffers
        frozen = sum(x.params for x in found.layers if x.type == "BatchNorm2d" and x.name.startswith("backbone."))
    assert found.params - frozen == meta["num_params"]
    one_person = 14 * 14 * (9 * 512 * (256 + 7 * 512) + 16 * 512 * 17) if "keypoint" in name else 0  # whom it found
    assert agrees((found.macs + one_person) / 1e9, meta["_ops"], 0.001)


@pytest.mark.parametrize("name", OF["timm"])
def test_timm_agrees_with_its_own_table(name):
    found = facts(name)
    published = names.facts_of(names.architecture(name), str(found.input_shape[-1]))
    assert published.input == str(found.input_shape[-1])
    assert agrees(found.params / 1e6, published.params / 1e6, 0.01)
    assert agrees(found.outputs / 1e6, published.activations / 1e6, 0.01)
    # timm counts by fvcore, which counts norms too: 2 for each number of a batch norm, 5 of a layer norm.
    norms = 2 * put_out(found, "BatchNorm") + 5 * put_out(found, "LayerNorm")
    assert agrees((found.macs + norms) / 1e9, published.macs / 1e9, 0.01)


@pytest.mark.parametrize(("name", "published"), CARDS.items())
def test_parameters_are_as_published(name, published):
    assert agrees(facts(name).params, float(published), unit(published))


@pytest.mark.parametrize(("name", "published"), MULTIPLY_ADDS.items())
def test_multiply_adds_are_as_published(name, published):
    assert agrees(facts(name).macs, float(published), unit(published))


@pytest.mark.parametrize(("name", "published"), WITHOUT_PRODUCTS.items())
def test_operations_of_modules_are_as_published(name, published):
    found = facts(name)
    attention = sum(layer.flops for layer in found.layers if layer.type in ("Attention", "AAttn"))
    assert attention
    assert agrees((2 * found.macs - attention) / 1e9, published, 0.1)


def test_every_model_is_compared_with_what_is_published():
    others = {"ultralytics:rtdetr-l", "ultralytics:yolo11s-cls"}  # below
    assert set(named()) <= {*OF["torchvision"], *OF["timm"], *CARDS, *others}


def test_rtdetr_l_is_published_without_its_last_digits():
    """32 M in Zhao et al. 2024."""
    assert facts("ultralytics:rtdetr-l").params // 1_000_000 == 32


def test_a_classifier_of_ultralytics_has_a_thousand_classes():
    described_with_80_classes = 5_545_488
    assert facts("ultralytics:yolo11s-cls").params == described_with_80_classes + (1000 - 80) * (1280 + 1)
