"""Roofline, what-ifs and working sets against figures worked by hand and published rules of thumb."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import DATA, SCENARIOS

from calibrate.layers.facts import facts, known
from calibrate.layers.work import Facts, LayerWork, Product
from calibrate.library.lookup import SHIPPED, find_profiles
from calibrate.sweep import assemble
from calibrate.sweep.journal import read_journal
from planner.catalog.catalog import load_catalog
from planner.prediction.rules.roofline import (
    LAUNCH_S,
    UNLIMITED,
    VALUE_BYTES,
    Bound,
    Ceilings,
    PrecisionError,
    ceilings,
    latency_s,
    peak_flops,
    under,
    vendor_ceilings,
)
from planner.questions.profiling.anatomy import exponent
from planner.questions.profiling.whatif import (
    ChangedModel,
    Unanswered,
    checkpointing,
    fused,
    grayscale,
    sparse,
    training_memory,
    what_ifs,
)
from planner.questions.profiling.working_set import (
    MemoryLevel,
    cpu_levels,
    first_outside,
    gpu_levels,
    knee_of,
    knees,
    working_set_bytes,
)
from planner.questions.training.memory import Fits
from planner.questions.training.plan import train
from planner.questions.training.reading import load_training
from planner.show.text.profiling import verdict
from simulator.world.profile import Evidence
from simulator.world.signature import Signature

OLDER = ("3.", "5.", "6.", "7.")
"""Compute capabilities of Kepler to Turing, without bf16."""
GPUS = load_catalog().gpus
ALEXNET = SCENARIOS / "training" / "alexnet.yaml"
RECORDED = DATA / "lenet-cpu.jsonl"


def limits(flops_per_s=10e12, bytes_per_s=1e12, launch_s=5e-6):
    return Ceilings(
        flops_per_s=flops_per_s, bytes_per_s=bytes_per_s, launch_s=launch_s, evidence=Evidence.ASSUMED, source="a test"
    )


def layer(name="conv", kind="Conv2d", **figures):
    nothing = dict.fromkeys(
        ("params", "weight_bytes", "flops", "input_bytes", "output_bytes", "kernels", "moved_bytes", "made_bytes"), 0
    )
    return LayerWork(
        name=name, type=kind, signature=Signature(kind), **nothing | {"calls": 1, "weights_read_bytes": 0} | figures
    )


def model(*layers):
    return Facts(
        model="m",
        input_shape=(4,),
        fixed="it is made up",
        layers=layers,
        input_bytes_per_sample=16,
        output_bytes_per_sample=16,
        activation_bytes_per_sample=64,
        peak_activation_bytes_per_sample=64,
    )


def asked(name="resnet50", gpu="V100", batch=1, precision="fp32"):
    return ChangedModel(facts(name), lambda p: vendor_ceilings(GPUS[gpu], p), batch, precision)


def answers(question):
    return {each.name: each for each in what_ifs(question)}


def test_the_rule_of_thumb_of_the_lecture():
    a100 = limits(flops_per_s=19.5e12, bytes_per_s=1.5e12)
    assert a100.operations_per_value(4) == pytest.approx(104)
    assert a100.balance == pytest.approx(13)


@pytest.mark.parametrize(
    ("figures", "bound", "time_s"),
    [
        ({"flops": 1e9, "moved_bytes": 10e6, "kernels": 2}, Bound.ARITHMETIC, 100e-6),
        ({"flops": 1e8, "moved_bytes": 30e6, "kernels": 2}, Bound.BANDWIDTH, 30e-6),
        ({"flops": 1e6, "moved_bytes": 1e6, "kernels": 4}, Bound.OVERHEAD, 20e-6),
        ({}, Bound.NONE, 0.0),
    ],
)
def test_each_layer_has_the_bound_that_takes_longest(figures, bound, time_s):
    (time,) = under(model(layer(**figures)), limits(), 1).layers
    assert (time.bound, time.time_s) == (bound, pytest.approx(time_s))


def test_weights_are_read_once_a_batch():
    one = model(layer(moved_bytes=100, weights_read_bytes=1000, kernels=1))
    assert [under(one, limits(), batch).bytes for batch in (1, 8)] == [1100, 1800]
    assert under(one, limits(), 8, "int8").bytes == 450


@given(st.sampled_from(known()), st.integers(0, 10), st.sampled_from(sorted(GPUS)))
def test_a_larger_batch_never_takes_less_and_never_more_a_sample(name, power, gpu):
    small, large = (latency_s(facts(name), GPUS[gpu], batch).total_s for batch in (2**power, 2 ** (power + 1)))
    assert small <= large <= 2 * small * (1 + 1e-12)


def test_shares_add_up_and_the_batch_moves_the_bound():
    roofs = [latency_s(facts("resnet50"), GPUS["V100"], batch) for batch in (1, 64)]
    assert [roof.bound for roof in roofs] == [Bound.OVERHEAD, Bound.ARITHMETIC]
    assert all(sum(roof.shares.values()) == pytest.approx(1) for roof in roofs)
    assert sum(time.time_s for time in roofs[0].layers) == roofs[0].total_s


def test_peaks_of_reduced_precisions():
    t4, a100, v100 = GPUS["T4"], GPUS["A100-40GB"], GPUS["V100"]
    assert peak_flops(t4, "int8") == 130e12  # NVIDIA's T4 data sheet
    assert (peak_flops(a100, "tf32"), peak_flops(a100, "bf16"), peak_flops(a100, "int8")) == (156e12, 312e12, 624e12)
    assert peak_flops(v100, "amp") == 125e12
    with pytest.raises(
        PrecisionError, match=r"V100: computes nothing in bf16\. Name another --precision, e\.g\. fp32\."
    ):
        peak_flops(v100, "bf16")


@pytest.mark.parametrize("precision", ["tf32", "int8", "fp8"])
def test_a_rate_that_the_catalog_states_is_the_peak(precision):
    stated = {name: rate for name, gpu in GPUS.items() if (rate := getattr(gpu, f"tensor_{precision}_flops"))}
    assert len(stated) > 10
    assert {name: peak_flops(GPUS[name], precision) for name in stated} == stated


def test_every_chip_since_ampere_and_cdna_computes_in_bf16_as_in_fp16():
    newer = [
        gpu
        for gpu in GPUS.values()
        if not gpu.cores and gpu.tensor_fp16_flops and not gpu.compute_capability.startswith(OLDER)
    ]
    assert {"MI300X", "MI210", "MI250X", "MI355X", "A100-40GB", "B300"} <= {gpu.name for gpu in newer}
    for gpu in newer:
        assert peak_flops(gpu, "bf16") == peak_flops(gpu, "amp-bf16") == gpu.tensor_fp16_flops


def test_a_rate_that_is_not_known_is_not_called_impossible():
    for gpu in (replace(GPUS["MI300X"], compute_capability=""), replace(GPUS["A100-80GB"], tensor_fp16_flops=None)):
        with pytest.raises(PrecisionError, match=f"{gpu.name}: its rate in bf16 is not known"):
            peak_flops(gpu, "bf16")


def test_a_gpu_without_tf32_computes_in_fp32_instead():
    assert {GPUS["V100"].peak_flops(precision) for precision in ("tf32", "torch", "fp32")} == {15.7e12}
    assert GPUS["A100-40GB"].peak_flops("torch") == 156e12


@pytest.mark.parametrize(("gpu", "products"), [("A100-40GB", 19.5e12), ("T4", 8.1e12)])
def test_pytorch_as_it_comes_multiplies_matrices_in_fp32(gpu, products):
    layers = latency_s(facts("vgg16"), GPUS[gpu], 64, "torch").layers
    rates = {time.layer.convolves: time.flops / time.arithmetic_s for time in layers if time.flops}
    assert rates == {True: pytest.approx(GPUS[gpu].peak_flops("torch")), False: pytest.approx(products)}


def test_every_gpu_computes_fp32_and_amp():
    assert all(peak_flops(gpu, p) > 0 for gpu in GPUS.values() if not gpu.cores for p in ("fp32", "amp", "torch"))
    assert set(VALUE_BYTES) == {"fp32", "tf32", "torch", "amp", "amp-bf16", "fp16", "bf16", "int8"}


def test_measured_ceilings_go_before_the_vendors(tmp_path):
    header, outcomes = read_journal(RECORDED)
    assemble.write(outcomes, header, tmp_path)
    (path,) = tmp_path.rglob("device.json")
    device = json.loads(path.read_text(encoding="utf-8"))
    probes = {name: outcome["values"] for name, outcome in device["probes"].items()}
    kind = replace(GPUS["V100"], name=device["gpu"]["name"])
    found = ceilings(kind, "fp32", [tmp_path])
    assert found.flops_per_s == probes.get("matmul", {}).get("fp32_flops", kind.fp32_flops)
    assert found.bytes_per_s == probes.get("device_copy", {}).get("bytes_per_s", kind.memory_bytes_per_s)
    assert found.launch_s == probes.get("launch", {}).get("queued_s", LAUNCH_S)
    assert found.source.startswith(str(path))
    shipped = ceilings(GPUS["H200"], "bf16")
    assert shipped.evidence is Evidence.ELSEWHERE
    assert ceilings(GPUS["H200"], "bf16", [SHIPPED]) == shipped  # however its folder is named
    assert ceilings(GPUS["T4"], "fp32", [tmp_path]) == vendor_ceilings(GPUS["T4"], "fp32")


# What-ifs


def test_grayscale_saves_little():
    now, then = facts("resnet50"), grayscale(facts("resnet50"))
    assert 1 - then.flops / now.flops == pytest.approx(0.019, abs=0.0005)  # and not two thirds
    first = then.layers[0]
    assert (first.flops, first.params) == (now.layers[0].flops // 3, now.layers[0].params // 3)
    assert first.weight_bytes == 4 * 64 * 49
    assert 2 * sum(p.macs for p in first.products) == first.flops
    assert grayscale(facts("lenet")) is None
    assert grayscale(facts("bert_base")) is None


def test_fusion_removes_the_traffic_of_element_wise_layers():
    pair = model(layer(flops=100, moved_bytes=80, kernels=1), layer("relu", "ReLU", moved_bytes=80, kernels=1))
    assert (fused(pair).moved_bytes(3), fused(pair).kernels, fused(pair).flops) == (240, 1, 100)
    assert fused(facts("resnet50")).moved_bytes(1) < facts("resnet50").moved_bytes(1)


def test_sparsity_halves_products_with_weights_only():
    products = (Product(10, 10, 10), Product(10, 10, 10, 1, batched=True))
    (halved,) = sparse(model(layer(flops=4000, weights_read_bytes=400, products=products))).layers
    assert (halved.flops, halved.weights_read_bytes) == (3000, 200)


def test_what_ifs_at_a_glance():
    found = answers(asked("resnet50", "A100-40GB", 64))
    now = found["as it is"]
    assert found["bf16"].bytes == now.bytes / 2
    assert found["int8"].bytes == now.bytes / 4
    assert found["bf16"].time_s < found["tf32"].time_s < now.time_s
    assert found["launch overhead removed"].time_s <= now.time_s
    assert found["448 x 448 pixels"].time_s == pytest.approx(4 * now.time_s, rel=0.03)
    assert all(each.assumes for each in found.values())


def test_pixels_do_not_scale_time_where_overhead_dominates():
    small = answers(asked(batch=1))["112 x 112 pixels"]
    assert small.time_s > answers(asked(batch=1))["as it is"].time_s / 3
    assert "time does not follow the pixels" in small.assumes


def test_what_cannot_be_has_a_reason():
    found = answers(asked("lenet", "V100"))
    refused = {name: each.reason for name, each in found.items() if isinstance(each, Unanswered)}
    assert set(refused) == {"tf32", "bf16", "int8", "another resolution", "grayscale"}
    assert "fit 28 pixels only" in refused["another resolution"]


def test_without_a_device_there_is_no_time():
    found = what_ifs(ChangedModel(facts("vgg16"), lambda _: UNLIMITED, 1, "fp32"))
    assert all(each.time_s is None for each in found)


def test_checkpointing_keeps_about_the_square_root():
    chain = model(*(layer(str(i), made_bytes=10, kernels=1) for i in range(100)))
    found = checkpointing(chain, 2)
    assert (found.kept_bytes, found.segments) == (2000, 10)
    assert found.checkpointed_bytes == 2 * (9 * 10 + 10 * 10)
    assert found.more_operations == pytest.approx(1 / 3)


def test_alexnet_needed_two_gpus():
    """Krizhevsky et al. trained it at batch 128 on two GPUs of 3 GB: one may not hold it, half of it fits surely."""
    memory_bytes = GPUS["GTX580"].memory_bytes
    assert memory_bytes == 3e9
    held = training_memory(facts("alexnet_2012"), 128)
    assert Fits.of(held.total, memory_bytes) is Fits.LIKELY
    assert Fits.of(held.total * 0.5, memory_bytes) is Fits.YES
    assert held.weights == held.gradients == held.optimizer == 4 * 60_965_224


def test_profile_and_train_agree_on_what_alexnet_holds():
    catalog = load_catalog()
    loaded = load_training(ALEXNET)
    one = min(train(loaded, catalog, find_profiles((), catalog.gpus)).options, key=lambda option: option.gpu_count)
    context_bytes = 100e6
    held = training_memory(facts("alexnet_2012"), 128).total
    assert one.memory_range_bytes == held + context_bytes


# Working sets


def test_a_level_is_left_where_the_largest_working_set_passes_it():
    one = model(layer(weight_bytes=1000, input_bytes=100, output_bytes=50, kernels=1))
    assert working_set_bytes(one.layers[0], 4) == 1600
    assert working_set_bytes(one.layers[0], 4, "int8") == 400
    (knee,) = knees(one, [MemoryLevel("L2", 1600)])
    assert (knee.batch, knee.layer, knee.share) == (5, "conv", 1.0)
    assert knees(one, [MemoryLevel("L1", 100)])[0].batch == 1
    assert first_outside(1e6, 2e6, MemoryLevel("", 6_000_000)) == 3


def test_memory_holds_everything():
    cache, memory = knees(facts("resnet50"), gpu_levels(GPUS["V100"]))
    assert (cache.level.name, cache.batch) == ("L2", 1)
    assert memory.batch == int((16e9 - facts("resnet50").weight_bytes) // (11.03872e6)) + 1


def test_a_cpu_tells_its_levels(tmp_path):
    for index, (kind, level, size) in enumerate([("Data", 1, "32K"), ("Instruction", 1, "32K"), ("Unified", 2, "1M")]):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "meminfo").write_text("MemTotal:        1000 kB\n")
    found = cpu_levels(tmp_path, tmp_path / "meminfo")
    assert found == (MemoryLevel("L1", 32 * 1024), MemoryLevel("L2", 2**20), MemoryLevel("memory", 1_024_000))
    assert cpu_levels(tmp_path / "none", tmp_path / "none") == ()


def test_a_measured_knee_is_where_a_sample_takes_longer():
    assert knee_of({1: 1.0, 2: 1.6, 4: 3.2, 8: 9.6}) == 8
    assert knee_of({1: 1.0, 2: 2.05, 4: 4.0}) is None


def test_whether_time_follows_the_data():
    assert exponent({4: 1.0, 8: 0.010, 16: 0.0196}) == pytest.approx(0.97, abs=0.005)
    assert exponent({1: 0.010, 2: 0.0102}) == pytest.approx(0.03, abs=0.005)
    assert exponent({1: 0.010, 4: 0.020}) == pytest.approx(0.5)
    assert exponent({1: 0.010}) is None
    words = {figure: verdict(figure) for figure in (0.81, 0.5, 0.19, None)}
    assert len(set(words.values())) == len(words)
