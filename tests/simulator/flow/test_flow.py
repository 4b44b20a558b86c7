"""Pipelines on the clock, by hand: order, losses, decoders, failures, figures, loads and refusals."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
import pytest
from support import pipelines, worlds
from support.pipelines import after, model, station, work

from simulator.clock.metrics import summarise
from simulator.clock.records import Outcome, SimulationResult
from simulator.clock.run import simulate
from simulator.clock.stability import drain, offered_load
from simulator.clock.worlds import Worlds
from simulator.errors import DeploymentError
from simulator.flow.frames import in_turn_s
from simulator.flow.items import draw_items, fan_outs
from simulator.rules.queues import Delays
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Failures
from simulator.world.pipelines import (
    ENGINES,
    FanOut,
    FanOutKind,
    Pipeline,
    PipelineStage,
    Station,
    StationWork,
    in_order,
)
from simulator.world.workload import Demand, FixedRate, Poisson, Stream, Workload

CAMERA = Workload((Stream("p", FixedRate(10.0, 0.0)),))


def seen(
    deployment: Deployment, workload: Workload = CAMERA, duration_s: float = 10.0, seed: int = 1
) -> SimulationResult:
    return simulate(deployment, workload, duration_s, seed)


# Items


@pytest.mark.parametrize("kind", FanOutKind)
def test_draws_of_a_fan_out_have_its_mean(kind: FanOutKind) -> None:
    """Within five standard errors of 40,000 draws, and no draw of a fixed one is off by more than one."""
    given = FanOut(2.3, kind, (0, 1, 6, 2))
    drawn = fan_outs(given, np.zeros(40_000, dtype=np.int32), np.random.default_rng(1))
    assert abs(np.mean(drawn) - given.items) <= 5 * np.std(drawn) / 200
    assert drawn.min() >= 0
    if kind is FanOutKind.FIXED:
        assert set(drawn.tolist()) == {2, 3}
    if kind in (FanOutKind.TABLE, FanOutKind.RECORDED):
        assert drawn[:8].tolist() == [0, 1, 6, 2, 0, 1, 6, 2]


def test_each_camera_goes_through_a_recording_in_its_order() -> None:
    """Six cameras, whose frames come mixed: each sees all of it in turn, the first from the first row on."""
    recording = np.array([0, 1, 6, 2, 2, 9, 4])
    asked = pipelines.pipeline(model("all"), model("cars", after("all", 1, FanOutKind.RECORDED, counts=(*recording,))))
    source = np.random.default_rng(3).permuted(np.repeat(np.arange(6, dtype=np.int32), 21))
    begins: list[set[int]] = [set() for _ in range(6)]
    for seed in range(40):
        drawn = draw_items(asked, Demand(np.arange(126) / 10, source), seed)
        items = np.bincount(drawn["cars"].frame, minlength=126)
        for camera in range(6):
            seen_there = items[source == camera]
            turned = [first for first in range(7) if np.array_equal(seen_there, np.tile(np.roll(recording, -first), 3))]
            assert len(turned) == 1
            begins[camera] |= set(turned)
    assert begins[0] == {0}
    assert all(len(places) > 3 for places in begins[1:])


@pytest.mark.parametrize("cameras", [1, 3, 4])
def test_one_frame_in_three_of_each_camera_goes_on(cameras: int) -> None:
    """In turn, whatever the number of cameras; with which frame each begins is drawn."""
    source = np.tile(np.arange(cameras, dtype=np.int32), 30)
    demand = Demand(np.arange(30 * cameras) / 10, source)
    asked = pipelines.pipeline(model("all"), model("some", after("all", every=3)))
    begins = set()
    for seed in range(10):
        frame = draw_items(asked, demand, seed)["some"].frame
        for camera in range(cameras):
            turns = frame[source[frame] == camera] // cameras
            begins.add(int(turns[0]))
            assert turns.tolist() == list(range(int(turns[0]), 30, 3))
    assert begins == {0, 1, 2}


def test_the_slo_counts_frames_that_reach_a_last_stage() -> None:
    """Of frames of 10 ms two in three end there; the others take 60 ms more, past an SLO of 50 ms: none is in time."""
    asked = pipelines.pipeline(work("decode", 0.01), work("detect", 0.06, after("decode", every=3)), slo_s=0.05)
    result = seen(pipelines.deployment(asked), duration_s=30.0)
    frames, figures = result.requests["p"], summarise(result).models["p"]
    assert len(frames.arrival_s) == 300
    assert figures.offered_rps == pytest.approx(10.0)
    assert figures.arrived == figures.finished == 100
    assert figures.slo_attainment == 0.0
    assert figures.goodput_rps == 0.0
    assert figures.p50_s == pytest.approx(0.07)


def test_frames_lost_on_the_way_count_where_an_answer_was_due() -> None:
    """All are late at the detector, which gives them up; a vehicle is in every second frame. Counted one by one."""
    detector = worlds.service(worlds.profile("p.detect", [0.03]), slo_s=0.02, drop=Drop.LATE)
    asked = pipelines.pipeline(
        model("detect", slo_s=0.02), work("read", 0.0, after("detect", 1, FanOutKind.TABLE, counts=(0, 1))), slo_s=0.02
    )
    result = seen(pipelines.deployment(asked, detector))
    frames, figures = result.requests["p"], summarise(result).models["p"]
    assert np.all(frames.outcome[:-1] == Outcome.DROPPED)
    odd = [i for i in range(len(frames.arrival_s)) if i % 2]
    assert figures.arrived == len(odd)
    assert figures.dropped == sum(frames.outcome[i] == Outcome.DROPPED for i in odd)


def test_what_follows_depends_on_no_other_stage() -> None:
    """The same vehicles come whether or not somebody also reads their plates."""
    vehicles = model("classify", after("detect", 3.2, FanOutKind.POISSON))
    plates = model("plates", after("detect", 3, share=0.3))
    alone = draw_items(pipelines.pipeline(model("detect"), vehicles), pipelines.frames(1000), 7)
    beside = draw_items(pipelines.pipeline(plates, model("detect"), vehicles), pipelines.frames(1000), 7)
    assert np.array_equal(alone["classify"].frame, beside["classify"].frame)
    other = draw_items(pipelines.pipeline(model("detect"), vehicles), pipelines.frames(1000), 8)
    assert not np.array_equal(alone["classify"].frame, other["classify"].frame)


def test_items_of_a_frame_on_average() -> None:
    """A join counts once for each frame, at the most."""
    crossing = pipelines.pipeline(
        work("answer", 0.0, "classify", "plates"),
        model("detect"),
        model("classify", after("detect", 3.2)),
        model("plates", after("classify", 3, share=0.3)),
        model("rare", after("detect", share=0.1), after("detect2", share=0.1)),
        model("detect2"),
    )
    expected = {"detect": 1.0, "detect2": 1.0, "classify": 3.2, "plates": 2.88, "answer": 1.0, "rare": 0.2}
    assert crossing.items_per_frame == pytest.approx(expected)


def test_a_join_that_nothing_reaches_does_not_run() -> None:
    """Of 100 frames half have a crop; only for those there is something to join."""
    joined = pipelines.pipeline(
        work("a", 0.001),
        work("b", 0.001, after("a", 1, FanOutKind.TABLE, counts=(0, 1))),
        work("c", 0.001, after("a", 1, FanOutKind.TABLE, counts=(0, 2))),
        work("d", 0.001, "b", "c"),
    )
    result = seen(pipelines.deployment(joined))
    assert [len(result.requests[f"p.{name}"].arrival_s) for name in "abcd"] == [100, 50, 100, 50]
    assert np.all(result.requests["p"].outcome == Outcome.FINISHED)


# Order and losses


def test_answers_leave_in_turn() -> None:
    answered_s = np.array([3.0, 2.0, np.nan, 5.0, 4.0, 9.0])
    lost_s = np.array([np.nan, np.nan, 4.5, np.nan, np.nan, np.nan])
    source = np.array([0, 0, 0, 0, 1, 1])
    assert in_turn_s(answered_s, lost_s, source).tolist() == [
        3.0,
        3.0,
        pytest.approx(np.nan, nan_ok=True),
        5.0,
        4.0,
        9.0,
    ]
    stuck_s = in_turn_s(np.array([np.nan, 2.0]), np.full(2, np.nan), np.zeros(2))
    assert np.all(np.isnan(stuck_s))


def test_a_quick_frame_waits_for_those_before_it() -> None:
    """Two servers, times at random: frames overtake each other, their answers do not where that is asked."""
    overtaking = pipelines.pipeline(work("a", 0.15, cv=1.0))
    two = [station("a", 2)]
    free = seen(pipelines.deployment(overtaking, stations=two)).requests["p"]
    ordered = seen(pipelines.deployment(replace(overtaking, ordered=True), stations=two)).requests["p"]
    assert np.any(np.diff(free.finish_s) < 0)
    kept = ~np.isnan(ordered.finish_s)
    assert np.all(np.diff(ordered.finish_s[kept]) >= 0)
    assert ordered.finish_s[kept] == pytest.approx(np.maximum.accumulate(free.finish_s)[kept])


@pytest.mark.parametrize(("drop", "plates"), [(Drop.LATE, 0), (Drop.NEVER, 98)])
def test_a_lost_item_loses_its_frame_and_spares_what_would_follow(drop: Drop, plates: int) -> None:
    """The fourth crop would be done at 130 ms, so it is given up at 100 ms; tracking ends at 210 ms."""
    asked = pipelines.pipeline(
        model("detect"),
        model("crops", after("detect", 4), slo_s=0.1),
        work("track", 0.2, "detect"),
        model("plates", "track"),
        slo_s=10.0,
    )
    services = (
        worlds.service(worlds.profile("p.detect", 0.01)),
        worlds.service(worlds.profile("p.crops", (0.03, 0.03)), devices=("g1",), drop=drop),
        worlds.service(worlds.profile("p.plates", 0.001), devices=("g2",)),
    )
    given = pipelines.deployment(asked, *services, stations=[station("track", 3)], devices=3)
    result = seen(given)
    frames, crops = result.requests["p"], result.requests["p.crops"]
    assert len(result.requests["p.plates"].arrival_s) == plates
    if drop is Drop.LATE:
        assert np.all(frames.outcome[:99] == Outcome.DROPPED)
        assert np.count_nonzero(crops.outcome[:396] == Outcome.DROPPED) == 99
        assert np.nanmax(crops.finish_s - np.repeat(frames.arrival_s, 4)) <= 0.1 + 1e-9


def test_a_stage_with_an_slo_of_its_own_gives_up_by_that() -> None:
    asked = pipelines.pipeline(model("crops", slo_s=0.05), slo_s=10.0)
    slow = worlds.service(worlds.profile("p.crops", 0.04), drop=Drop.LATE)
    frames = seen(pipelines.deployment(asked, slow), Workload((Stream("p", FixedRate(10.0, 0.0), 3),))).requests["p"]
    assert np.count_nonzero(frames.outcome == Outcome.FINISHED) == 100
    assert np.count_nonzero(frames.outcome == Outcome.DROPPED) == 200


# Stations


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_keeps_its_sources(kind: str) -> None:
    """Six cameras at engines, two and one: four and two. All frames of a camera go to one."""
    asked = pipelines.pipeline(work(kind, 0.001))
    engines = [station(kind, 2, number=0), station(kind, 1, number=1)]
    result = seen(pipelines.deployment(asked, stations=engines), Workload((Stream("p", FixedRate(10.0), 6),)))
    assert [len(result.stations[f"{kind}-{i}"].start_s) for i in (0, 1)] == [400, 200]


def test_cameras_are_dealt_to_decoders_and_encoders_each_by_what_these_can_do() -> None:
    """Six cameras: decoders share them 3 to 3, and encoders, two and one, 4 to 2. Two more are decoded alone."""
    coded = pipelines.pipeline(work("decode", 0.001), work("encode", 0.002, "decode"))
    plain = replace(pipelines.pipeline(work("decode", 0.001)), name="q")
    counts = {"decode-0": (1, 400), "decode-1": (1, 400), "encode-0": (2, 400), "encode-1": (1, 200)}
    engines = [station(name[:-2], servers, number=int(name[-1])) for name, (servers, _) in counts.items()]
    both = replace(pipelines.deployment(coded, stations=engines), pipelines=(coded, plain))
    result = seen(both, Workload((Stream("p", FixedRate(10.0), 6), Stream("q", FixedRate(10.0), 2))))
    assert {name: len(use.start_s) for name, use in result.stations.items()} == {
        name: items for name, (_, items) in counts.items()
    }


def test_host_work_goes_where_least_is_outstanding_for_what_it_can_do() -> None:
    asked = pipelines.pipeline(work("host", 0.05, cv=1.0))
    hosts = [station("host", 3, number=0), station("host", 1, number=1)]
    result = seen(pipelines.deployment(asked, stations=hosts), Workload((Stream("p", Poisson(70.0)),)), 60.0)
    done = [len(result.stations[f"host-{i}"].start_s) for i in (0, 1)]
    assert 2.5 <= done[0] / done[1] <= 3.5


def test_times_that_were_seen_are_drawn_from() -> None:
    """Half of a frame's work takes half of its mean and half of it half as much again, and nothing between."""
    one = work("host", 0.02)
    assert isinstance(one.work, StationWork)
    seen_before = replace(one, work=replace(one.work, factors=(0.5, 1.5)))
    asked = pipelines.deployment(pipelines.pipeline(seen_before), stations=(station("host"),))
    items = seen(asked, duration_s=100.0).requests["p.host"]
    took_ms = np.round(1e3 * (items.finish_s - items.start_s)[:990]).tolist()
    assert set(took_ms) == {10, 30}
    assert abs(took_ms.count(10) - 495) < 5 * 990**0.5 / 2
    assert not asked.is_fixed


def test_who_serves_takes_time_before_each_item() -> None:
    """Two items of 20 ms of each frame: the first waits 5 ms until somebody wakes, the second 1 ms more."""
    asked = pipelines.pipeline(work("a", 0.0), work("host", 0.02, after("a", 2)))
    delays = {"p.host": Delays(repeat(0.005), repeat(0.001))}
    found = simulate(pipelines.deployment(asked, stations=(station("a"), station("host"))), CAMERA, 1.0, 1, delays)
    items = found.requests["p.host"]
    starts_ms = 1e3 * (items.start_s - items.arrival_s)[:18]
    assert starts_ms == pytest.approx([5, 5 + 20 + 1] * 9)


def test_a_gpu_that_items_wake_takes_time_for_it_and_is_slower_beside_a_core() -> None:
    """A frame has two items of 20 ms at a station. The GPU wakes 5 ms after the first is done and runs it for 12 ms
    beside the second, then that one alone for 10 ms: by its profile 10 ms, 1.2 times as long beside a core."""
    asked = pipelines.pipeline(work("a", 0.0), work("host", 0.02, after("a", 2)), model("look", "host"))
    service = worlds.service(worlds.profile("p.look", 0.01))
    made = pipelines.deployment(asked, service, stations=(station("a"), station("host")))
    (device,) = made.devices
    nothing = Delays(repeat(0.0), repeat(0.0))
    delays = {device.id: Delays(repeat(0.005), repeat(0.0), slowdown=1.2), "p.a": nothing, "p.host": nothing}
    found = simulate(made, CAMERA, 1.0, 1, delays).requests["p.look"]
    starts_ms = 1e3 * (found.start_s - found.arrival_s)[:18]
    took_ms = 1e3 * (found.finish_s - found.start_s)[:18]
    assert starts_ms == pytest.approx([5] * 18)
    assert took_ms == pytest.approx([12, 10] * 9)


def test_a_gpu_that_is_awake_takes_time_for_the_next_batch_and_none_for_its_answers() -> None:
    """Two items of each frame, 10 ms each: the second waits 3 ms after the first is done, as its stage has it. What
    follows from the first comes at once."""
    asked = pipelines.pipeline(work("a", 0.0), model("look", after("a", 2)), work("host", 0.001, "look"))
    service = worlds.service(worlds.profile("p.look", 0.01))
    made = pipelines.deployment(asked, service, stations=(station("a"), station("host")))
    found = simulate(made, CAMERA, 1.0, 1, {"p.look": Delays(repeat(0.005), repeat(0.003))}).requests
    looks, after_it = found["p.look"], found["p.host"]
    assert 1e3 * (looks.start_s - looks.arrival_s)[:18] == pytest.approx([5, 5 + 10 + 3] * 9)
    assert after_it.arrival_s[:18] == pytest.approx(looks.finish_s[:18])


def test_what_an_outage_cuts_short_is_done_again() -> None:
    """The host is away now and then: no frame is lost, and none is worked on meanwhile."""
    asked = pipelines.pipeline(work("a", 0.02), model("b", "a"))
    deployed = pipelines.deployment(
        asked,
        worlds.service(worlds.profile("p.b", 0.02)),
        failures=Failures(mean_time_between_s=3.0, recovery_s=0.5),
    )
    result = seen(deployed, duration_s=60.0)
    frames = result.requests["p"]
    assert any(batches.aborted.any() for batches in result.batches)
    assert np.all(frames.outcome[:580] == Outcome.FINISHED)
    assert np.max(frames.finish_s[:580] - frames.arrival_s[:580]) > 0.5


# Figures


def crossing() -> Deployment:
    asked = pipelines.pipeline(
        work("decode", 0.01),
        model("detect", "decode"),
        model("crops", after("detect", 3)),
        work("answer", 0.0, "detect", "crops"),
        slo_s=0.2,
    )
    services = (
        worlds.service(worlds.profile("p.detect", 0.02), slo_s=0.05),
        worlds.service(worlds.profile("p.crops", (0.010, 0.012, 0.014)), batch=BatchingPolicy(3), slo_s=0.05),
    )
    return pipelines.deployment(asked, *services)


def test_figures_say_where_the_time_goes() -> None:
    """10 ms of decoding, 20 ms of detection, 14 ms for three crops: 44 ms, and nobody waits."""
    summary = summarise(seen(crossing()))
    assert summary.models["p"].p99_s == pytest.approx(0.044)
    assert summary.models["p"].slo_attainment == 1.0
    assert summary.models["p.crops"].p50_s == pytest.approx(0.014)
    assert summary.stages["p.crops"].items_per_s == pytest.approx(30.0)
    found = {
        name: (one.waiting.p99_s, one.service.p50_s, one.since_arrival.p95_s) for name, one in summary.stages.items()
    }
    assert found == {
        "p.decode": pytest.approx((0.0, 0.010, 0.010), abs=1e-9),
        "p.detect": pytest.approx((0.0, 0.020, 0.030), abs=1e-9),
        "p.crops": pytest.approx((0.0, 0.014, 0.044), abs=1e-9),
        "p.answer": pytest.approx((0.0, 0.0, 0.044), abs=1e-9),
    }
    assert summary.stations["decode-0"].utilization == pytest.approx(0.1)
    assert summary.devices["g0"].utilization == pytest.approx(0.34)
    busy = {name: one.busy for name, one in summary.stages.items()}
    assert busy == pytest.approx({"p.decode": 0.1, "p.detect": 0.2, "p.crops": 0.14, "p.answer": 0.0})
    energy_j = summary.models["p"].joules_per_inference
    assert energy_j == pytest.approx(
        summary.models["p.detect"].joules_per_inference + 3 * summary.models["p.crops"].joules_per_inference
    )


def test_worlds_of_a_pipeline_are_those_of_simulate() -> None:
    worlds = Worlds(crossing(), CAMERA, 10.0, 1.0, {"p": 10.0})
    (figures,) = worlds.seen([3])
    shares = worlds.shares([3])
    assert {model: list(share) for model, share in shares.in_time.items()} == {
        model: [one.slo_attainment] for model, one in figures.summary.models.items()
    }
    assert repr(figures.summary) == repr(summarise(simulate(crossing(), CAMERA, 10.0, 3), 1.0))
    assert figures.requests == 100


# Loads


@pytest.mark.parametrize(
    ("fps", "servers", "growing"),
    [
        (28.0, 1, ()),
        (30.0, 1, ("p.detect", "p.crops", "p")),
        (28.0, 0.25, ("p.decode", "p")),
    ],
)
def test_what_is_offered_more_than_it_can_do_grows(fps: float, servers: float, growing: Sequence[str]) -> None:
    """A frame keeps the GPU busy for 34 ms, so 29.4 a second are the most; the decoder does 100, or a quarter of it."""
    slow = replace(crossing(), stations=(replace(station("decode"), speed=servers), station("answer")))
    assert set(drain(slow, {"p": fps}).growing) == set(growing)


def test_load_is_that_of_the_fullest_resource() -> None:
    assert offered_load(crossing(), {"p": 20.0}) == pytest.approx(0.68, rel=0.02)
    slow = replace(crossing(), stations=(replace(station("decode"), speed=0.25), station("answer")))
    assert offered_load(slow, {"p": 20.0}) == pytest.approx(0.8, rel=0.02)


# Refusals


def step(*after_: str) -> Pipeline:
    return pipelines.pipeline(work("a", 0.1, "c"), work("b", 0.1, "a"), work("c", 0.1, "b"))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (step(), "p: stages go round in a cycle, a -> b -> c -> a"),
        (pipelines.pipeline(work("a", 0.1, "a")), "p: stages go round in a cycle, a -> a"),
        (pipelines.pipeline(), "p: has no stage"),
        (
            pipelines.pipeline(work("a", 0.1), work("b", 0.1, "x")),
            "p.b after x: the pipeline has no such stage. It has a, b",
        ),
        (pipelines.pipeline(work("a", 0.1), work("a", 0.2)), "names must differ, got stage 'p.a' twice"),
        (pipelines.pipeline(work("a", 0.1), work("b", 0.1, "a", "a")), "p.b: is after 'a' twice"),
        (
            pipelines.pipeline(work("a", 0.1), work("b", 0.1, after("a", -1))),
            "p.b after a: fan-out must be 0 or more, got -1",
        ),
        (
            pipelines.pipeline(work("a", 0.1), work("b", 0.1, after("a", 1, FanOutKind.TABLE, counts=(2, -3)))),
            "p.b after a: fan-out must be 0 or more, got -3",
        ),
        (pipelines.pipeline(work("a", 0.1), work("b", 0.1, after("a", 1, FanOutKind.TABLE))), "needs counts, got none"),
        (
            pipelines.pipeline(work("a", 0.1), work("b", 0.1, after("a", share=1.5))),
            "share must be above 0 and at most 1, got 1.5",
        ),
        (pipelines.pipeline(work("a", 0.1), work("b", 0.1, after("a", 0))), "p.b: no item ever reaches it"),
        (pipelines.pipeline(work("a", 0.1), model("b", "a")), "p.b: is a model, and no service has that name"),
        (pipelines.pipeline(work("a", -0.1)), "p.a: time and spread must be 0 or more, got -0.1 s"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(asked: Pipeline, text: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        seen(pipelines.deployment(asked))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("stations", "text"),
    [
        ([], "p.a: no station is of kind 'a'"),
        ([station("a", 0)], "a-0: servers must be 1 or more, got 0"),
        ([station("a", speed=0.0)], "a-0: speed must be above 0, got 0"),
        ([station("a", host="nowhere")], "a-0: host 'nowhere' is not in the deployment"),
        ([station("a"), station("a")], "names must differ, got station 'a-0' twice"),
    ],
)
def test_stations_that_cannot_be_are_refused(stations: Sequence[Station], text: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        seen(pipelines.deployment(pipelines.pipeline(work("a", 0.1)), stations=stations))
    assert text in str(caught.value)


def test_a_stage_is_asked_by_its_pipeline_alone() -> None:
    with pytest.raises(DeploymentError, match=r"stream asks 'p\.crops', a stage\. Ask its pipeline"):
        seen(crossing(), Workload((Stream("p.crops", Poisson(1.0)),)))


def test_stages_are_put_in_order() -> None:
    stages: tuple[PipelineStage, ...] = (model("c", "b"), model("a"), model("b", "a"))
    assert [stage.name for stage in in_order(stages)] == ["a", "b", "c"]
