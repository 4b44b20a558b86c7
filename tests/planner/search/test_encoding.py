"""Plans of pipelines that encode video: engines, presets, memory and drivers decide; what cannot be done is said."""

import re
from dataclasses import replace
from datetime import date

import pytest
from support.planning import CATALOG, loaded, planned, profile, shelf

from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.models import SloSpec
from planner.model.parts.pipelines import EdgeSpec, PipelineSpec, StageSpec
from planner.model.parts.streams import Phase, StreamSpec
from planner.model.plan import Bottleneck, Plan
from planner.model.scenario import Scenario
from planner.model.statement import Code
from planner.questions.readiness.whatif import whatif
from planner.search.question import NothingToPlanError
from planner.search.simulation import simulate_named, simulate_plan
from planner.show.text.readiness import obstacles, standing
from planner.show.text.resources import resource_line
from planner.words.statements import rejection_line

DAY = date(2026, 7, 25)
QUICK = {name: profile("detector", CATALOG.gpus[name], 0.0001, 0.0001) for name in ("T4", "L4", "RTX4090", "A100-40GB")}


def packed(cameras: int, gpu: str = "T4", rate: float = 30.0, **encode: object) -> Plan:
    return planned(asked_of(cameras, gpu, rate, **encode), shelf(QUICK[gpu]))


def thumbed(cameras: int, stages: int) -> Scenario:
    """Each frame encoded so many times, slowly and in little memory: only drivers are in the way."""
    return asked_of(cameras, "RTX4090", 1.0, stages, memory=1_000_000)


def asked_of(cameras: int, gpu: str, rate: float = 30.0, stages: int = 1, **encode: object) -> Scenario:
    """A quick detector, and each of its frames encoded anew, on machines of one GPU each."""
    detect = StageSpec(name="detect", model="detector")
    after = (EdgeSpec(stage="detect"),)
    how = {"encode": "h264", "preset": "p3"} | encode
    packs = [StageSpec(name=f"pack{n or ''}", after=after, **how) for n in range(stages)]
    return Scenario(
        pipelines=(PipelineSpec(name="gate", slo=SloSpec(latency=0.3, attainment=1.0), stages=(detect, *packs)),),
        streams=(StreamSpec(model="gate", count=cameras, rate=rate, phase=Phase.SPREAD),),
        buy=BuySpec(own=(OwnMachine(name="box", gpu=gpu, price=0.35, count=4, cores=4),)),
        horizon=3.0,
        replications=2,
    )


def on_one(asked: Scenario) -> Scenario:
    """With one machine that may be bought."""
    return replace(asked, buy=replace(asked.buy, own=tuple(replace(one, count=1) for one in asked.buy.own)))


def lines(plan: Plan) -> list[str]:
    return [rejection_line(one) for one in plan.rejections]


@pytest.mark.parametrize(
    ("preset", "one", "fps"),
    [("p3", 18, 600), ("p7", 6, 207)],
)
def test_encoders_decide_how_many_machines_there_are(preset: str, one: int, fps: int) -> None:
    """One engine of a T4 encodes so many frames a second of H.264, and 90 % of them may be asked."""
    assert one == int(0.9 * fps / 30)
    fits, beyond = (packed(cameras, preset=preset, memory=1_000_000).recommendation for cameras in (one, one + 1))
    assert (fits.gpu_count, beyond.gpu_count) == (1, 2)
    assert fits.lower_bound_usd_per_hour == pytest.approx(0.35)
    assert beyond.lower_bound_usd_per_hour == pytest.approx(0.70)
    first = max(fits.resources, key=lambda resource: resource.used)
    assert (first.kind, first.codecs, first.servers) == (Bottleneck.ENCODE, ("h264",), 1)
    assert first.load == pytest.approx(one * 30 / fps)
    assert resource_line(first) == f"encoding H.264 on T4: {one} of {one} streams"
    (model,) = fits.models
    assert model.bottleneck is Bottleneck.ENCODE
    (pack,) = (stage for stage in model.stages if stage.kind == "encode")
    assert pack.service_p50_s == pytest.approx(1 / fps, rel=1e-6)
    assert pack.utilization == pytest.approx(first.load, abs=0.02)  # a frame of each camera at the ends of 3 s


def test_what_a_plan_assumes_of_encoding_is_said() -> None:
    said = {one.code: one for one in packed(4).assumptions}
    assert said[Code.ENCODE_RATE].subjects == ("T4", "published", "p3")
    assert said[Code.STREAM_MEMORY].subjects == ("encoding",)
    stated = {one.code for one in packed(4, memory=1_000_000, engine_rate=500.0).assumptions}
    assert not stated & {Code.ENCODE_RATE, Code.STREAM_MEMORY}


@pytest.mark.parametrize(("cameras", "gpus"), [(14, 1), (15, 2)])
def test_memory_that_encoded_streams_hold_counts(cameras: int, gpus: int) -> None:
    """A T4 has 16 GB: 14 streams of 1 GB, decoded and encoded in 500 MB each, beside 0.8 GB and a detector."""
    plan = packed(cameras, rate=5.0, memory=1_060_000_000)
    assert plan.recommendation.gpu_count == gpus
    memory = next(one for one in plan.recommendation.resources if one.kind is Bottleneck.MEMORY)
    assert memory.streams == cameras


@pytest.mark.parametrize(("cameras", "machines"), [(8, 1), (9, 2), (16, 2), (17, 3)])
def test_drivers_of_geforce_encode_eight_streams_in_a_machine(cameras: int, machines: int) -> None:
    """However slow they are."""
    found = packed(cameras, "RTX4090", rate=1.0).recommendation
    assert (found.feasible, found.gpu_count) == (True, machines)
    assert found.lower_bound_usd_per_hour == pytest.approx(0.35 * machines)
    encoding = next(one for one in found.resources if one.kind is Bottleneck.ENCODE)
    assert resource_line(encoding) == f"encoding H.264 on RTX4090: {cameras} of {8 * machines} streams"


@pytest.mark.parametrize(("stages", "cameras", "machines"), [(2, 4, 1), (2, 5, 2), (2, 9, 3), (3, 2, 1), (3, 3, 2)])
def test_each_stage_that_encodes_is_a_stream_to_the_driver(stages: int, cameras: int, machines: int) -> None:
    """Of three a camera, eight streams are those of two cameras in a machine."""
    found = planned(thumbed(cameras, stages), shelf(QUICK["RTX4090"])).recommendation
    assert (found.feasible, found.gpu_count) == (True, machines)
    assert found.lower_bound_usd_per_hour == pytest.approx(0.35 * machines)
    encoding = next(one for one in found.resources if one.kind is Bottleneck.ENCODE)
    assert (encoding.streams, encoding.streams_max) == (cameras, 8 // stages * machines)


def test_pipelines_of_other_numbers_of_streams_share_what_drivers_take() -> None:
    """Four cameras of one stream and two of two fill a machine; a third of two needs another."""
    for twos, machines in ((2, 1), (3, 2)):
        one, two = thumbed(4, 1), thumbed(twos, 2)
        both = replace(
            one,
            pipelines=(*one.pipelines, replace(two.pipelines[0], name="door")),
            streams=(*one.streams, replace(two.streams[0], model="door")),
        )
        found = planned(both, shelf(QUICK["RTX4090"])).recommendation
        assert (found.feasible, found.gpu_count) == (True, machines)
        assert found.lower_bound_usd_per_hour == pytest.approx(0.35 * machines)
        encoding = next(one for one in found.resources if one.kind is Bottleneck.ENCODE)
        assert encoding.streams == 4 + twos <= encoding.streams_max


def test_a_camera_of_more_streams_than_a_driver_takes_is_refused_with_the_reason() -> None:
    plan = planned(thumbed(1, 9), shelf(QUICK["RTX4090"]))
    assert not plan.recommendation.feasible
    told = (
        "RTX4090: the driver of RTX4090 encodes 8 streams at once in a machine, one for each `encode` stage of a camera"
    )
    assert [line for line in lines(plan) if line.startswith(f"{told}; 9 would come")], lines(plan)


def test_more_streams_than_drivers_take_are_refused_by_name() -> None:
    plan = packed(40, "RTX4090", rate=1.0)
    assert not plan.recommendation.feasible
    told = "encodes 8 streams at once in a machine, one for each `encode` stage of a camera; 10 would come"
    assert any(told in line for line in lines(plan)), lines(plan)


BESIDE = {"rate": 5.0, "memory": 1_010_000_000}
"""15 streams fit into a T4 beside its context, not beside a detector."""
TOLD = {
    "driver": "the driver of RTX4090 encodes 8 streams at once in a machine, one for each `encode` stage of a camera;",
    "memory": "the {} streams of video on one T4 hold",
}


@pytest.mark.parametrize(
    ("cameras", "gpu", "how", "why"),
    [
        (8, "RTX4090", {"rate": 1.0}, ""),
        (9, "RTX4090", {"rate": 1.0}, "driver"),
        (4, "RTX4090", {"rate": 1.0, "stages": 2}, ""),
        (5, "RTX4090", {"rate": 1.0, "stages": 2}, "driver"),
        (14, "T4", BESIDE, ""),
        (15, "T4", BESIDE, "memory"),
        (16, "T4", BESIDE, "memory"),
    ],
)
def test_a_machine_that_streams_cannot_come_to_is_refused_by_all_commands(
    cameras: int, gpu: str, how: dict[str, float], why: str
) -> None:
    """A plan of one such machine, a simulation on it, and a plan of 2 cameras with more, its batches as they are."""
    told = TOLD[why].format(cameras) if why else ""
    asked, few = on_one(asked_of(cameras, gpu, **how)), on_one(asked_of(2, gpu, **how))
    library, kept = shelf(QUICK[gpu]), planned(few, shelf(QUICK[gpu]))
    assert planned(asked, library).recommendation.feasible is not bool(why)
    grown = whatif(loaded(asked), CATALOG, library, kept, lose=0, load=1.0, overrides=(), created_at="2026-07-25")
    (case,) = grown.cases
    assert (grown.feasible, bool(case.models)) == (not why, not why)
    assert [one for one in obstacles(grown) if told in one] == list(obstacles(grown))
    if not why:
        assert simulate_plan(loaded(asked), CATALOG, library, kept, DAY).feasible
        assert simulate_named(loaded(asked), CATALOG, library, gpu, 1, DAY).feasible
        return
    with pytest.raises(NothingToPlanError, match=re.escape(told)):
        simulate_plan(loaded(asked), CATALOG, library, kept, DAY)
    packed_anew = "the fullest GPU needs" if cameras == 15 else told
    with pytest.raises(NothingToPlanError, match=re.escape(packed_anew)):
        simulate_named(loaded(asked), CATALOG, library, gpu, 1, DAY)


def test_what_no_engine_there_does_is_refused_by_all_commands() -> None:
    """An A100 encodes nothing; of an L4 nobody published how fast it encodes AV1."""
    asked, library = asked_of(2, "A100-40GB"), shelf(QUICK["A100-40GB"])
    with pytest.raises(NothingToPlanError, match="none of its GPUs encodes these frames"):
        simulate_named(loaded(asked), CATALOG, library, "A100-40GB", 1, DAY)
    kept, other = planned(asked_of(2, "L4"), shelf(QUICK["L4"])), asked_of(2, "L4", encode="av1")
    with pytest.raises(NothingToPlanError, match="none of its GPUs encodes these frames"):
        simulate_plan(loaded(other), CATALOG, shelf(QUICK["L4"]), kept, DAY)


def test_a_plan_that_loses_a_machine_may_have_too_many_streams_for_those_left() -> None:
    asked, library = asked_of(16, "RTX4090", 1.0), shelf(QUICK["RTX4090"])
    kept = planned(asked, library)
    assert kept.recommendation.gpu_count == 2
    away = whatif(loaded(asked), CATALOG, library, kept, lose=1, load=1.0, overrides=(), created_at="2026-07-25")
    refused = [case for case in away.cases if not case.unserved]
    assert refused, "both machines hold the detector"
    for case in refused:
        assert (case.feasible, standing(case)) == (False, "cannot run")
        assert case.rejection is not None
        assert (case.rejection.why.code, case.rejection.observed) == (Code.TOO_MANY_ENCODED, 16)


@pytest.mark.parametrize(
    ("gpu", "asked", "told"),
    [
        (
            "A100-40GB",
            {},
            "A100-40GB: it has no engine that encodes video. Remedy: a GPU that encodes it (Jetson-Thor-T5000, L40S, "
            "L40, L4, RTX-6000-Ada, RTX-4000-Ada and 31 others), or that work on a core, as `host: 12 ms`.",
        ),
        (
            "T4",
            {"encode": "av1"},
            "T4: it is not known to encode av1. Remedy: a codec that it encodes (h264, hevc), or another kind of GPU.",
        ),
        (
            "L4",
            {"encode": "av1"},
            "L4: nobody published how fast it encodes av1. Remedy: what one engine does, as the stage's `engine_rate`, "
            "e.g. `engine_rate: 200 fps`, or a codec that it encodes (h264, hevc), or another kind of GPU.",
        ),
    ],
)
def test_a_gpu_that_does_not_encode_it_is_refused_with_what_does(gpu: str, asked: dict[str, str], told: str) -> None:
    plan = packed(4, gpu, **asked)
    assert not plan.recommendation.feasible
    assert told in lines(plan)


def test_a_rate_that_is_stated_takes_the_place_of_what_nobody_published() -> None:
    """Two engines of an L4 at 200 fps: 12 cameras of 30."""
    fits, beyond = (packed(n, "L4", encode="av1", engine_rate=200.0).recommendation for n in (12, 13))
    assert (fits.gpu_count, beyond.gpu_count) == (1, 2)
    assert resource_line(max(fits.resources, key=lambda one: one.used)) == "encoding AV1 on L4: 12 of 12 streams"


def test_frames_are_encoded_in_the_size_in_which_they_were_decoded() -> None:
    stages = (
        StageSpec(name="decode", decode="h264", resolution=(3840, 2160)),
        StageSpec(name="detect", model="detector", after=(EdgeSpec(stage="decode"),)),
        StageSpec(name="pack", encode="hevc", after=(EdgeSpec(stage="detect"),)),
        StageSpec(name="small", encode="hevc", resolution=(1280, 720), after=(EdgeSpec(stage="detect"),)),
    )
    made = PipelineSpec(name="gate", slo=SloSpec(latency=0.3, attainment=0.9), stages=stages)
    assert [stage.resolution for stage in made.stages] == [(3840, 2160), None, (3840, 2160), (1280, 720)]
    pack = made.stages[2].coding
    assert pack is not None
    assert (pack.kind, pack.codec, pack.width, pack.height) == ("encode", "hevc", 3840, 2160)
