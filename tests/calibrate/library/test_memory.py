"""Memory: what is kept free for a batch, against all batches whose memory this project measured on a GPU."""

from dataclasses import replace

import pytest

from benchmarks.making.fitting import OWN
from calibrate.layers.facts import facts
from calibrate.library.lookup import find_profiles
from calibrate.library.memory import CARRIED, LIBRARIES_BYTES, LIBRARIES_GROWTH, PAST, memory_source, room_in, room_of
from calibrate.library.published import profile_of
from planner.catalog.catalog import load_catalog
from simulator.world.curves import Interpolated
from simulator.world.precision import FACT_BYTES
from simulator.world.profile import Evidence, Profile

GPUS = load_catalog().gpus
LIBRARY = find_profiles((), GPUS)
MEASURED = [p for _, p in sorted(LIBRARY.profiles.items()) if OWN in p.source]
BATCHES = [(p, batch) for p in MEASURED for batch in p.workspace.x]
TRACED_ERROR = 0.15
"""What layers hold is as near to allocations."""
KEPT_BYTES = 41e6
"""On top of it: cuBLAS keeps 34 MB on an H200, and autocast copies of a few layers' weights."""


SEGMENT_BYTES = 20 * 2**20
"""What PyTorch's allocator asks for where a tensor takes 1 to 10 MB."""


def held(profile: Profile) -> float:
    return facts(profile.model).peak_activation_bytes_per_sample / FACT_BYTES


def described(profile: Profile, batch: float) -> str:
    return f"{profile.gpu} {profile.model} {profile.precision} {batch:g}"


def test_tensors_that_were_measured_are_those_that_layers_hold() -> None:
    """But for what libraries keep: convolutions' workspace where cuDNN takes any."""
    apart = {
        described(p, batch)
        for p, batch in BATCHES
        if p.workspace(batch) - (p.slack(batch) if p.slack else 0.0) - KEPT_BYTES
        > (1 + TRACED_ERROR) * room_of(None, held(p), p.precision)(batch).allocated
    }
    assert len(BATCHES) >= 40
    assert apart == {
        *("H200 vgg16 fp32 16", "H200 vgg16 fp32 32", "H200 tiny_yolov3 fp32 32"),
        *("H100 vgg16 torch 1", "H100 vgg16 torch 8", "H100 vgg16 torch 64", "H100 vit_b_16 amp 64"),
    }


def test_nine_in_ten_batches_need_no_more_than_is_kept_free() -> None:
    """By layers alone, as if nobody had seen the memory of any: in all, and by each but one at batch 8 or less.

    That one needs less than a segment more, in which the allocator asks a GPU for memory.
    """
    lacking_bytes = {
        (described(p, batch), batch): p.workspace(batch) - room_of(None, held(p), p.precision)(batch).reserved
        for p, batch in BATCHES
    }
    short = {one: size for one, size in lacking_bytes.items() if size > 0}
    assert len(short) <= 0.1 * len(BATCHES), short
    small = {name: size for (name, batch), size in short.items() if batch <= 8}
    assert set(small) == {"H100 vit_b_16 amp 1"}
    assert max(small.values()) < SEGMENT_BYTES


@pytest.mark.parametrize(("gpu", "count"), [("H100", 2), ("H200", 4)])
def test_what_is_carried_over_from_another_precision_is_enough(gpu: str, count: int) -> None:
    """Each of those of ResNet-50 from the others."""
    of_model = [p for p in MEASURED if (p.model, p.gpu) == ("resnet50", gpu)]
    assert len(of_model) == count
    for left in of_model:
        others = [p for p in of_model if p is not left]
        source = memory_source(others, GPUS[gpu], left.precision, left.flops_per_sample, GPUS)
        assert source is not None
        room = room_of(source, held(left), left.precision)
        assert all(room(batch).reserved >= left.workspace(batch) for batch in left.workspace.x), left.precision


def test_another_input_says_nothing_of_memory() -> None:
    profile = next(p for p in MEASURED if p.model == "resnet50")
    assert profile.flops_per_sample is not None
    assert memory_source([profile], GPUS["T4"], "fp32", profile.flops_per_sample, GPUS) is profile
    assert memory_source([profile], GPUS["T4"], "fp32", 4 * profile.flops_per_sample, GPUS) is None


def test_what_others_published_is_reserved_there_and_says_nothing_of_another_gpu() -> None:
    """A lecture's 720 MB for four pictures on a V100, of which layers hold 44."""
    profile = LIBRARY.profiles["resnet50", "V100", "fp32"]
    assert profile.memory_evidence is Evidence.PUBLISHED
    assert memory_source([profile], GPUS["T4"], "fp32", profile.flops_per_sample, GPUS) is None
    assert memory_source([profile], GPUS["V100"], "fp32", profile.flops_per_sample, GPUS) is profile
    room = room_in(profile, held(profile), 4)
    assert room.reserved == profile.workspace(4)
    assert room.allocated == pytest.approx(4 * 4 * held(profile))


def test_what_was_measured_is_allocated_and_reserved_as_it_was() -> None:
    for profile, batch in BATCHES:
        assert profile.slack is not None
        room = room_in(profile, None, batch)
        assert (room.allocated, room.reserved - room.allocated) == pytest.approx(
            (profile.workspace(batch) - profile.slack(batch), profile.slack(batch))
        )


def test_a_batch_past_the_measured_ones_grows_as_its_layers_do() -> None:
    """230 and 720 MB at batch 1 and 4 are no 10 GB at batch 64, and never less than what was seen."""
    source = replace(MEASURED[0], precision="fp32", slack=None, workspace=Interpolated((1, 4), (230e6, 720e6)))
    room = room_of(source, 11e6 / 4, "fp32")
    assert room(4).reserved == pytest.approx(CARRIED * 720e6)
    assert room(64).reserved == pytest.approx(PAST * (720e6 + LIBRARIES_GROWTH * 60 * 11e6))
    sizes = [room(batch).reserved for batch in range(1, 65)]
    assert sizes == sorted(sizes)


def test_what_libraries_keep_is_no_smaller_in_smaller_numbers() -> None:
    whole, half = (room_of(None, 1e6, precision)(8).reserved for precision in ("fp32", "fp16"))
    assert half - LIBRARIES_BYTES == pytest.approx((whole - LIBRARIES_BYTES) / 2)


@pytest.mark.parametrize("precision", ["fp32", "amp"])
def test_a_profile_of_published_times_keeps_what_was_measured_elsewhere_free(precision: str) -> None:
    alone = profile_of("resnet50", GPUS["T4"], precision, "pytorch")
    beside = LIBRARY.published("resnet50", "T4", precision, "pytorch")
    assert alone is not None
    assert beside is not None
    seen = LIBRARY.profiles["resnet50", "H200", precision]
    for batch in (1, 32):
        assert alone.workspace(batch) >= 4 * held(seen) / (1 if precision == "fp32" else 2) * batch
        assert beside.workspace(batch) >= seen.workspace(batch)
    assert beside.memory_evidence is Evidence.PREDICTED


def test_what_somebody_only_assumed_is_no_less_than_is_predicted() -> None:
    """The shipped file of NVIDIA's series assumes 20 MB a picture, 0.64 GB at 32; an H200 held 0.67."""
    typed = LIBRARY.profiles["nvidia_resnet50", "T4", "fp32"]
    used = LIBRARY.get("nvidia_resnet50", "T4", "fp32")
    by_its_name = LIBRARY.get("resnet50", "T4", "fp32")
    assert used is not None
    assert by_its_name is not None
    assert typed.memory_evidence is Evidence.ASSUMED
    assert typed.workspace(32) < LIBRARY.profiles["resnet50", "H200", "fp32"].workspace(32) <= used.workspace(32)
    assert used.workspace == by_its_name.workspace
