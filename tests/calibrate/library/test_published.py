"""Profiles of published points: the best source, the others beside it, and what is not known said."""

from dataclasses import replace

import pytest

from calibrate.library.lookup import Library, find_profiles
from calibrate.library.published import MLPERF, profile_of, sources_of
from calibrate.published import names
from calibrate.published.points import points, sources
from planner.catalog.catalog import load_catalog
from simulator.world.curves import Interpolated
from simulator.world.profile import Evidence, Profile

GPUS = load_catalog().gpus


def test_every_runtime_stands_for_itself():
    """ResNet-50 at batch 1 on a T4: 12.96 ms by PyTorch with mixed precision, 2.64 ms by Paddle with TensorRT."""
    eager = profile_of("resnet50", GPUS["T4"], "amp", "pytorch")
    compiled = profile_of("resnet50", GPUS["T4"], "fp16", "paddle-tensorrt")
    assert eager is not None
    assert compiled is not None
    assert (eager.latency(1), compiled.latency(1)) == pytest.approx((12.96e-3, 2.64e-3), rel=0.01)
    assert (eager.runtime, compiled.runtime) == ("pytorch", "paddle-tensorrt")
    assert eager.latency_evidence is Evidence.PUBLISHED
    assert eager.memory_evidence is Evidence.PREDICTED


@pytest.mark.parametrize("name", ["nvidia_resnet50", "resnet50v1.5", "resnet50.a1_in1k"])
def test_the_name_that_is_typed_decides_nothing(name):
    one, other = (profile_of(model, GPUS["T4"], "fp32", "pytorch") for model in ("resnet50", name))
    assert one is not None
    assert other is not None
    assert (one.latency, one.weight_bytes, one.source) == (other.latency, other.weight_bytes, other.source)
    assert other.model == name


def test_other_networks_have_no_part_in_it():
    assert sources_of("resnet50_v2") != sources_of("resnet50")


def test_weights_are_parameters_times_bytes():
    half, whole = (profile_of("resnet50", GPUS["T4"], p, "paddle-tensorrt") for p in ("fp16", "fp32"))
    assert half is not None
    assert whole is not None
    assert (half.weight_bytes, whole.weight_bytes) == (2 * 25_560_000, 4 * 25_560_000)
    of_batches = [one.workspace(8) - one.workspace(1) for one in (half, whole)]
    assert of_batches[0] == pytest.approx(of_batches[1] / 2)


def test_the_source_with_most_batches_is_used_and_the_others_make_the_spread():
    """Rounds of MLPerf and MMDeploy both have ResNet-50 at int8 in TensorRT on a T4 at batch 1."""
    found = sources_of("resnet50")["T4", "int8", "tensorrt"]
    first, second = (one.latency_s[1] for one in found.series[:2])
    assert len(found.best.latency_s) >= max(len(one.latency_s) for one in found.series)
    assert found.spread == pytest.approx(max(first / second, second / first) - 1)
    profile = profile_of("resnet50", GPUS["T4"], "int8", "tensorrt")
    assert profile is not None
    assert profile.source_spread == found.spread
    assert any("Sources differ" in doubt for doubt in profile.doubts)


def test_every_profile_is_of_its_points():
    """Each latency is the median of published points, and none is faster than its GPU allows."""
    made = 0
    for architecture in ("resnet50", "vgg16", "efficientnet_b0", "seresnext101_32x4d", "vit_b_16", "bert_large"):
        for gpu, precision, runtime in sources_of(architecture):
            if gpu not in GPUS or (profile := profile_of(architecture, GPUS[gpu], precision, runtime)) is None:
                continue
            made += 1
            of_pair = [p for p in points(architecture, gpu) if (p.precision, p.runtime) == (precision, runtime)]
            for batch, latency_s in zip(profile.latency.x, profile.latency.y, strict=True):
                at = [p.latency_s for p in of_pair if p.batch == batch]
                assert min(at) <= latency_s <= max(at)
    assert made > 20


def test_what_is_unknown_has_no_profile():
    assert profile_of("resnet50", GPUS["GTX580"], "fp32", "pytorch") is None
    assert profile_of("nobody_knows", GPUS["T4"], "fp32", "pytorch") is None
    assert names.usual_input("nobody_knows") == ""


LIBRARY = find_profiles((), GPUS)


def test_a_profile_of_the_very_name_counts_whatever_it_ran_in():
    clockwork = LIBRARY.get("resnet50_v2", "V100")
    assert clockwork is not None
    assert clockwork.runtime == "tvm"
    assert LIBRARY.get("resnet50_v2", "V100", None, "pytorch") is None
    assert LIBRARY.get("resnet50_v2", "V100", None, "tvm") == clockwork


def test_without_a_runtime_what_was_published_of_the_usual_one_counts():
    found = LIBRARY.get("resnet50", "T4")
    named = LIBRARY.get("nvidia_resnet50", "T4")
    assert found is not None
    assert named is not None
    assert (found.runtime, found.precision) == ("pytorch", "fp32")
    assert found.latency_evidence is Evidence.PUBLISHED
    # The profile of that name was made of the same table by hand, with means where they count the first batch.
    assert found.latency(1) == pytest.approx(named.latency(1))
    assert found.latency(256) == pytest.approx(named.latency(256), rel=0.04)


@pytest.mark.parametrize("gpu", ["V100", "T4"])
@pytest.mark.parametrize("name", ["nvidia_resnet50", "ResNet-50", "resnet50v1.5", "resnet50.a1_in1k"])
def test_the_name_does_not_decide_which_source_is_used(name, gpu):
    plain, other = (LIBRARY.get(model, gpu) for model in ("resnet50", name))
    assert plain is not None
    assert other is not None
    assert other == replace(plain, model=name, layers=other.layers)
    assert other.weight_bytes == plain.weight_bytes
    assert {layer.key for layer in plain.layers}.isdisjoint({layer.key for layer in other.layers})


def profile_with(factor: float, batches: int, evidence: Evidence = Evidence.PUBLISHED, **given: object) -> Profile:
    shipped = LIBRARY.profiles["nvidia_resnet50", "V100", "fp32"]
    x = shipped.latency.x[:batches]
    latency = Interpolated(x, tuple(factor * y for y in shipped.latency.y[:batches]))
    return replace(shipped, latency=latency, latency_evidence=evidence, **given)


def library_of(*profiles: Profile) -> Library:
    return Library(
        {
            (f"resnet50.run{i}_in1k", p.gpu, p.precision): replace(p, model=f"resnet50.run{i}_in1k")
            for i, p in enumerate(profiles)
        }
    )


def test_what_was_measured_here_comes_first_then_most_batches_then_the_newest():
    few, many = profile_with(1.2, 3), profile_with(1.0, 9)
    newer = profile_with(0.8, 9, as_of="2026-01-01")
    measured = profile_with(1.1, 2, Evidence.MEASURED)
    for profiles, best in [((few, many), many), ((many, newer), newer), ((many, newer, measured), measured)]:
        found = library_of(*profiles).sources("resnet50", "V100", "fp32", "pytorch")
        assert len(found) == len(profiles)
        assert found[0].latency == best.latency


def test_the_first_source_says_how_far_others_are_from_it():
    found = library_of(profile_with(1.0, 9), profile_with(1.2, 3)).get("resnet50", "V100")
    assert found is not None
    assert found.source_spread == pytest.approx(0.2)


@pytest.mark.parametrize(
    "other",
    [profile_with(1.0, 9, as_of="2026-01-01"), profile_with(1.5, 9, Evidence.ASSUMED)],
    ids=["a copy", "its GPU is assumed"],
)
def test_copies_and_sources_that_assume_their_gpu_are_not_compared(other):
    found = library_of(profile_with(1.0, 9), other).get("resnet50", "V100")
    assert found is not None
    assert found.source_spread is None


def test_another_runtime_stands_in_with_that_doubt_only_where_nothing_else_is_known():
    found = LIBRARY.get("hrnet_w18", "T4")
    assert found is not None
    assert found.runtime == "paddle-tensorrt"
    assert any("of pytorch nothing is known" in doubt for doubt in found.doubts)
    asked = LIBRARY.get("hrnet_w18", "T4", None, "paddle-tensorrt")
    assert asked is not None
    assert asked.doubts == ()
    assert LIBRARY.get("vgg16", "T4") is None  # known on a V100 and by its layers: predicted


def test_libraries_without_gpus_hold_only_their_profiles():
    alone = Library(LIBRARY.profiles)
    assert alone.get("hrnet_w18", "T4") is None
    assert alone.published_of("resnet50") == ()


def test_all_rounds_of_mlperf_are_known_as_its_own():
    assert {id for id in sources() if id.startswith("mlperf-v")} == MLPERF  # of inference, not of training
