"""One name for each thing, however published sources write it."""

import pytest

from calibrate.layers.facts import named
from calibrate.layers.naming import profile_name
from calibrate.published import names
from planner.catalog.catalog import load_catalog


@pytest.mark.parametrize(
    ("written", "name", "size"),
    [
        ("PyTorch/Classification/ConvNets/resnet50v1.5", "resnet50", "224"),
        ("MxNet/Classification/RN50v1.5", "resnet50", "224"),
        ("nvidia_resnet50", "resnet50", "224"),
        ("resnet", "resnet50", "224"),
        ("resnet50.a1_in1k", "resnet50", "224"),
        ("ResNeXt50_32x4d", "resnext50_32x4d", "224"),
        ("PyTorch/Classification/ConvNets/se-resnext101-32x4d", "seresnext101_32x4d", "224"),
        ("ResNet50_vd_ssld", "resnet50d", "224"),
        ("PyTorch/Classification/ConvNets/efficientnet:efficientnet-b4", "efficientnet_b4", "320"),
        ("ViT_base_patch16_384", "vit_b_16", "384"),
        ("vit_base_patch16_224.augreg_in21k", "vit_b_16", "224"),
        ("SwinTransformer_base_patch4_window7_224[1]", "swin_b", "224"),
        ("MobileNetV3_large_x1_0_ssld", "mobilenet_v3_large", "224"),
        ("InceptionV3", "inceptionv3", "299"),
        ("bert-99", "bert_large", "seq384"),
        ("YOLOv11n.pt", "yolo11n", "640"),
        ("RegNetY-1.6GF", "regnety_016", "224"),
        ("RegNetY-16GF", "regnety_160", "224"),
        ("RegNetX-1.6 GF", "regnetx_016", "224"),
        ("MaxViT-T", "maxvit_tiny_tf", "224"),
        ("torchvision:regnet_y_3_2gf", "regnety_032", "224"),
        ("torchvision.models.regnet_x_32gf", "regnetx_320", "224"),
        ("RegNetX_200MF", "regnetx_002", "224"),
        ("torchvision:mnasnet1_0", "mnasnet_100", "224"),
        ("Faster R-CNN", "fasterrcnn_resnet50_fpn", "800"),
        ("ssd_vgg", "ssd300_vgg16", "300"),
        ("RT-DETRv2-R18", "rt_detrv2_s", "640"),
        ("hf:PekingU/rtdetr_v2_r50vd", "rt_detrv2_l", "640"),
        ("YOLOv11-XL-Seg", "yolo11x_seg", "640"),
        ("squeezenet_v1.1", "squeezenet1_1", "224"),
        ("dinov2_vitb14", "vit_base_patch14_dinov2", "518"),
    ],
)
def test_an_architecture_has_one_name(written, name, size):
    assert names.architecture(written) == name
    assert names.identity(written, size) == (name, size)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("resnet50", "resnet50_v2"),  # pre-activation
        ("resnet50", "ResNet50_vd"),  # other stem
        ("resnet50", "winograd_resnet50_v2"),
        ("efficientnet-b0", "efficientnet-widese-b0"),
        ("PP-YOLOE_l", "PP-YOLOE+_l"),
        ("DLA102x", "DLA102x2"),
        ("mobilenetv2_035", "mobilenetv2_100"),  # a width, no size
        ("mobilenetv1_125", "mobilenetv1_100"),
    ],
)
def test_different_networks_keep_apart(one, other):
    assert names.architecture(one) != names.architecture(other)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("A100-SXM-80GB", "A100-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("A100-PCIe-80GB", "A100-80GB-PCIe"),
        ("A100-SXM-80GB (1x1g.10gb MIG)", "A100-80GB-MIG-1g.10gb"),
        ("A100 MIG 1g.5gb x1", "A100-40GB-MIG-1g.5gb"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA L40S", "L40S"),
        ("Intel(R) Core(TM) i9-10940X CPU @ 3.30GHz", "CPU-i9-10940X"),
        ("cpu-intel-xeon-2.50ghz", "cpu-intel-xeon-2.50ghz"),
        ("cpu-amd-epyc", "cpu-amd-epyc"),
    ],
)
def test_a_gpu_has_one_name(written, name):
    assert names.gpu(written) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [("A100", "A100-40GB"), ("t4", "T4"), ("RTX 4090", "RTX4090"), ("x1", "X1"), ("A1000", "A1000")],
)
def test_a_gpu_is_found_among_those_that_are_known(written, name):
    assert names.gpu_among(written, {"A100-40GB", "T4", "RTX4090", "X1"}) == name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("A100", ["A100-40GB", "A100-40GB-PCIe", "A100-80GB", "A100-80GB-PCIe"]),
        ("A100-PCIe", ["A100-40GB-PCIe", "A100-80GB-PCIe"]),
        ("NVIDIA A100-SXM4-80GB", ["A100-80GB"]),
        ("A100 MIG 1g.5gb", ["A100-40GB-MIG-1g.5gb"]),
        ("t4", ["T4"]),
        ("X1", []),
    ],
)
def test_a_person_who_leaves_out_the_memory_may_mean_several_gpus(written, meant):
    known = {"A100-40GB", "A100-40GB-PCIe", "A100-80GB", "A100-80GB-PCIe", "A100-40GB-MIG-1g.5gb", "T4"}
    assert names.gpus_meant(written, known) == meant
    assert names.gpu_named(written, known) == (meant[0] if len(meant) == 1 else written)


@pytest.mark.parametrize(
    ("name", "millions"),
    [  # of the papers' and torchvision's tables
        ("mobilenet_v1", 4.2), ("mobilenet_v2", 3.50), ("mobilenet_v3_large", 5.48), ("resnet18", 11.69),
        ("vgg16", 138.36), ("alexnet", 61.10), ("densenet121", 7.98), ("efficientnet_b0", 5.29), ("vit_b_16", 86.57),
        ("swin_t", 28.29), ("convnext_tiny", 28.59), ("bert_base", 110), ("bert_large", 340),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_network(name, millions):
    found = names.facts_of(name)
    assert found is not None
    assert found.params == pytest.approx(millions * 1e6, rel=0.02)


def test_runtimes_go_without_versions():
    assert names.runtime("TensorRT 8.4.2, CUDA 11.6") == "tensorrt"
    assert names.runtime("Paddle Inference + TensorRT 8.0.3.4") == "paddle-tensorrt"
    assert names.runtime("PyTorch detectron2 (COCO val, batch 1)") == "pytorch"
    assert names.runtime("NVIDIA TensorRT - (Triton)") == "triton-tensorrt"
    assert names.precision("half") == "fp16"


def test_unknown_names_are_themselves():
    assert names.identity("my_own:Net", "128x64") == ("my_own:Net", "128x64")
    assert names.gpu("Z9 Ultra") == "Z9 Ultra"
    assert names.runtime("my engine") == "my engine"
    assert names.precision("int2") == "int2"


def test_every_name_is_its_own_spelling():
    known = names.architectures()
    assert [name for name in known if names.architecture(name) != name] == []


def test_what_is_known_of_a_network_is_of_its_input():
    """ResNet-50 has 25.56 M parameters and 4.11 G multiply-adds at 224 pixels (He et al., with the stride of v1.5)."""
    found = names.facts_of("resnet50", "224")
    assert found is not None
    assert (found.params, found.macs) == (25.56e6, pytest.approx(4.11e9))
    larger = names.facts_of("resnet50", "288")
    assert larger is not None
    assert larger.macs == pytest.approx(found.macs * (288 / 224) ** 2, rel=0.02)


@pytest.mark.parametrize("model", ["hf:google-bert/bert-base-uncased", "timm:resnet50.a1_in1k", *named()])
def test_profiles_of_packages_models_are_those_architectures(model):
    """As `calibrate --model` calls what it writes."""
    assert model.partition(":")[0] in {"hf", "timm", "torchvision", "ultralytics"}
    written, meant = profile_name(model), names.architecture(model)
    assert names.of_profile(written) == (written if meant == model else meant)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("torchvision.models.resnet50", "resnet50"),
        ("torchvision.models.detection.maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn"),
        ("tf.keras.applications.resnet50", "resnet50"),
        ("resnet50_v1", "resnet50"),
        ("resnet50-v1-12", "resnet50"),  # the ONNX zoo's file
        ("YOLOv11n", "yolo11n"),
        ("Mask R-CNN", "maskrcnn_resnet50_fpn"),
        ("mask_rcnn", "maskrcnn_resnet50_fpn"),
        ("resnet50_v2", "resnet50_v2"),
        ("yolov8n", "yolov8n"),
    ],
)
def test_a_network_goes_by_what_its_package_calls_it(written, name):
    assert names.architecture(written) == name


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("nvidia-h100-80gb", "H100"),
        ("nvidia-h100-mega-80gb", "H100"),
        ("nvidia-a100-80gb", "A100-80GB"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI210", "MI210"),
    ],
)
def test_a_gpu_goes_by_the_labels_of_clouds_and_drivers(written, kind):
    assert names.gpu(written) == kind


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        ("Tesla V100-PCIE-16GB", "V100-PCIe"),
        ("Tesla V100-PCIE-32GB", "V100-32GB-PCIe"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("Tesla V100S-PCIE-32GB", "V100S"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla P100-SXM2-16GB", "P100-SXM2"),
        ("Tesla T4", "T4"),
        ("A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("A100 80GB PCIe", "A100-80GB-PCIe"),
        ("A100-SXM4-80GB", "A100-80GB"),
        ("A100-SXM4-80GB MIG 1g.10gb", "A100-80GB-MIG-1g.10gb"),
        ("H100 PCIe", "H100-PCIe"),
        ("H100 NVL", "H100-NVL-94GB"),
        ("H100 80GB HBM3", "H100"),
        ("H100 80GB HBM3 MIG 2g.20gb", "H100-MIG-2g.20gb"),
        ("H200", "H200"),
        ("GH200 480GB", "GH200-96GB"),
        ("B200", "B200"),
        ("B300 SXM6 AC", "B300"),
        ("A10G", "A10G"),
        ("L40S", "L40S"),
        ("GeForce RTX 4090", "RTX4090"),
        ("RTX A6000", "RTX-A6000"),
        ("RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("Quadro RTX 6000", "Quadro-RTX-6000"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("AMD Instinct MI300X VF", "MI300X"),
    ],
)
def test_a_gpu_goes_by_what_its_driver_calls_it_however_it_is_written(driver, kind):
    for written in (driver, f"NVIDIA {driver}"):
        spellings = (written, written.lower(), written.replace(" ", "_"), written.replace(" ", "-"))
        assert {names.gpu(one) for one in spellings} == {kind}


@pytest.mark.parametrize(
    "driver",
    [
        "Tesla V100-PCIE-16GB",
        "Tesla V100-DGXS-32GB",
        "Tesla P100-PCIE-12GB",
        "A100-SXM-64GB",
        "H100 64GB HBM2",
        "RTX A2000 12GB",
        "RTX 4000 SFF Ada Generation",
        "GeForce RTX 4070 Ti SUPER",
        "GeForce RTX 4090 D",
        "GeForce RTX 4090 Laptop GPU",
    ],
)
def test_a_gpu_that_is_none_of_the_catalog_is_not_taken_for_one(driver):
    known = load_catalog().gpus
    for written in (driver, f"NVIDIA {driver}"):
        assert names.gpu_named(written, known) == written


@pytest.mark.parametrize(
    ("written", "kinds"),
    [
        ("Tesla V100-PCIE-16GB", ["V100", "V100-32GB"]),
        ("Tesla V100-PCIE-32GB", ["V100", "V100-32GB"]),
        ("Tesla_V100_PCIE_32G", ["V100", "V100-32GB"]),
        ("RTX A2000 12GB", ["RTX-A2000"]),
        ("GeForce RTX 3080 12 GB", ["RTX3080"]),
        ("A100-SXM-64GB", ["A100-40GB", "A100-80GB"]),
        ("NVIDIA A10M", ["A10"]),
        ("GeForce RTX 4090 D", ["RTX4090"]),
        ("NVIDIA H20", []),
        ("NVIDIA H20 96GB", []),
    ],
)
def test_kinds_of_the_family_of_another(written, kinds):
    assert names.gpus_of_family(written, load_catalog().gpus) == kinds
