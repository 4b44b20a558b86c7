"""What must hold of pipelines in every world: random stages, joins, rules and failures, watched from outside."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support import pipelines, worlds

from simulator.clock.records import Outcome, Requests
from simulator.clock.run import World, check
from simulator.flow.items import draw_items
from simulator.world.deployment import (
    BatchingPolicy,
    Deployment,
    Drop,
    Eviction,
    Failures,
    Routing,
    Scheduling,
    SwapPolicy,
)
from simulator.world.model import Layer
from simulator.world.pipelines import DECODE, ENCODE, FanOutKind, ModelWork, Pipeline, PipelineStage
from simulator.world.workload import Demand, FixedRate, Poisson, Stream, Workload, draw

DURATION_S = 4.0
ROUNDING_S = 1e-9
KINDS = (DECODE, ENCODE, "host")


@st.composite
def fan_outs(draw: st.DrawFn, source: str):
    kind = draw(st.sampled_from(FanOutKind))
    mean = draw(st.sampled_from([1.0, 1.0, 0.4, 2.5, 3.0]))
    counts = (*draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)), 1)
    share, every = draw(st.sampled_from([1.0, 1.0, 0.5])), draw(st.sampled_from([1, 1, 3]))
    return pipelines.after(source, mean, kind, counts=counts, share=share, every=every)


@st.composite
def stages(draw: st.DrawFn, number: int) -> PipelineStage:
    before = (
        draw(st.lists(st.sampled_from([f"s{i}" for i in range(number)]), max_size=3, unique=True)) if number else []
    )
    edges = [draw(fan_outs(name)) for name in before]
    slo_s = draw(st.sampled_from([None, None, 0.1]))
    if draw(st.booleans()):
        return pipelines.model(f"s{number}", *edges, slo_s=slo_s)
    service_s = draw(st.sampled_from([0.0, 0.002, 0.01]))
    return pipelines.work(
        f"s{number}", service_s, *edges, cv=draw(st.sampled_from([0.0, 0.5])), at=draw(st.sampled_from(KINDS))
    )


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    asked = pipelines.pipeline(
        *(draw(stages(i)) for i in range(draw(st.integers(1, 5)))),
        slo_s=draw(st.sampled_from([0.05, 0.2, 2.0])),
        ordered=draw(st.booleans()),
    )
    devices = draw(st.integers(1, 3))
    names = [f"g{i}" for i in range(devices)]
    whole = st.lists(st.sampled_from(names), min_size=1, max_size=devices, unique=True)
    cut = st.permutations(names).map(lambda order: [tuple(order[:2])])
    services = [
        worlds.service(
            worlds.profile(
                asked.name_of(stage),
                np.cumsum(draw(st.lists(st.floats(0.001, 0.01), min_size=1, max_size=4))).tolist(),
                cv=draw(st.sampled_from([0.0, 0.3])),
                layers=(Layer("shared", 10**7), Layer(stage.name, draw(st.integers(1, 40)) * 10**6)),
            ),
            devices=draw(st.one_of(whole, whole, cut) if devices > 1 else whole),
            batch=BatchingPolicy(draw(st.integers(1, 4)), draw(st.sampled_from([0.0, 0.0, 0.01]))),
            slo_s=asked.slo_of(stage).latency_s,
            drop=draw(st.sampled_from(Drop)),
            routing=draw(st.sampled_from(Routing)),
        )
        for stage in (*asked.stages, pipelines.model("other"))
        if isinstance(stage.work, ModelWork)
    ]
    stations = [
        pipelines.station(
            kind, draw(st.integers(1, 3)), number=i, host=f"h{i % 2}", speed=draw(st.sampled_from([1.0, 2.0]))
        )
        for kind in KINDS
        for i in range(draw(st.integers(1, 2)))
    ]
    fails = draw(st.booleans())
    return pipelines.deployment(
        asked,
        *services,
        stations=stations,
        devices=devices,
        hosts=2,
        memory_bytes=draw(st.sampled_from([10**8, 10**9])),
        scheduling=draw(st.sampled_from(Scheduling)),
        swap=SwapPolicy(draw(st.sampled_from(Eviction)), draw(st.booleans())),
        failures=Failures(mean_time_between_s=2.0, recovery_s=0.3) if fails else None,
    )


WORKLOADS = st.sampled_from(
    [
        Workload((Stream("p", FixedRate(10.0), 4),)),
        Workload((Stream("p", Poisson(20.0), 3), Stream("p", FixedRate(5.0, 0.0), 2))),
        Workload((Stream("p", Poisson(200.0)), Stream("p.other", Poisson(20.0)))),
    ]
)


def run(deployment: Deployment, workload: Workload) -> World:
    check(deployment, workload)
    world = World(deployment, draw(workload, DURATION_S, 1), DURATION_S, 1)
    world.run()
    return world


def demand_of(frames: Requests) -> Demand:
    """The frames as they were asked."""
    return Demand(frames.arrival_s, frames.source)


def close(times_s: np.ndarray, expected_s: np.ndarray) -> bool:
    """Equal but for rounding."""
    return np.allclose(times_s, expected_s, rtol=0, atol=ROUNDING_S)


def frames_are_answered_with_their_last_item(world: World, asked: Pipeline, found: dict[str, Requests]) -> None:
    """Counted anew from what was drawn and from the items of each stage."""
    frames = found["p"]
    count = len(frames.arrival_s)
    drawn = draw_items(asked, demand_of(frames), 1)
    done, due = np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    followed = {edge.source for stage in asked.stages for edge in stage.after}
    ends = [drawn[stage.name].frame for stage in asked.stages if stage.name not in followed]
    assert frames.due is not None
    assert set(np.flatnonzero(frames.due)) == set(np.concatenate(ends))
    last_s, lost_s = np.zeros(count), np.full(count, np.inf)
    for stage in asked.stages:
        items, frame = found[f"p.{stage.name}"], world.flow.stages[f"p.{stage.name}"].frame_by_place
        due += np.bincount(drawn[stage.name].frame, minlength=count)
        finished, gone = items.outcome == Outcome.FINISHED, items.outcome == Outcome.DROPPED
        done += np.bincount(frame[finished], minlength=count)
        np.maximum.at(last_s, frame[finished], items.finish_s[finished])
        np.minimum.at(lost_s, frame[gone], items.start_s[gone])
        assert np.all(np.bincount(frame, minlength=count) <= np.bincount(drawn[stage.name].frame, minlength=count))
    lost = np.isfinite(lost_s)
    assert np.array_equal(frames.outcome == Outcome.DROPPED, lost)
    assert close(frames.start_s[lost], lost_s[lost])
    whole = (done == due) & ~lost & (last_s < DURATION_S - 1e-9)
    finished = frames.outcome == Outcome.FINISHED
    if asked.ordered:
        assert np.all(whole[finished])
        for source in np.unique(frames.source):
            mine = finished & (frames.source == source)
            assert np.all(np.diff(frames.finish_s[mine]) >= 0)
            assert np.all(frames.finish_s[mine] >= last_s[mine] - 1e-9)
    else:
        assert np.array_equal(finished, whole)
        assert close(frames.finish_s[finished], last_s[finished])


def items_come_when_what_is_before_them_is_done(world: World, asked: Pipeline, found: dict[str, Requests]) -> None:
    drawn = draw_items(asked, demand_of(found["p"]), 1)
    for stage in asked.stages:
        here = world.flow.stages[f"p.{stage.name}"]
        came_s = found[f"p.{stage.name}"].arrival_s
        assert len(set(here.items)) == len(here.items)
        assert np.all(np.diff(came_s) >= 0)
        finish_s = [finish_by_item(world, found, edge.source, len(drawn[edge.source].frame)) for edge in stage.after]
        frame = here.frame_by_place
        if stage.is_join:
            last_s = np.zeros(len(found["p"].arrival_s))
            for edge, times_s in zip(stage.after, finish_s, strict=True):
                np.maximum.at(last_s, drawn[edge.source].frame, np.nan_to_num(times_s, nan=np.inf))
            assert close(came_s, last_s[frame])
        elif stage.after:
            begins = drawn[stage.name].begins
            parent = np.searchsorted(begins, np.array(here.items, dtype=int), side="right") - 1
            assert close(came_s, finish_s[0][parent])
        else:
            assert close(came_s, found["p"].arrival_s[frame])


def finish_by_item(world: World, found: dict[str, Requests], name: str, count: int) -> np.ndarray:
    times_s = np.full(count, np.nan)
    times_s[np.array(world.flow.stages[f"p.{name}"].items, dtype=int)] = found[f"p.{name}"].finish_s
    return times_s


def stations_serve_first_come_first_served(world: World) -> None:
    for one in world.flow.stations:
        start_s, finish_s = np.array(one.start_s), np.array(one.finish_s)
        # What an outage cuts short is done again behind others that came later.
        assert world.outages[one.station.host] or np.all(np.diff(start_s) >= -1e-9)
        at_work = [np.count_nonzero((start_s <= t) & (finish_s > t)) for t in start_s]
        assert max(at_work, default=0) <= one.station.servers
        for outage in world.outages[one.station.host]:
            assert np.all((finish_s <= outage.start_s + 1e-9) | (start_s >= outage.finish_s - 1e-9))


def gpus_keep_their_memory_and_run_one_batch_at_a_time(world: World) -> None:
    for name, gpu in world.gpus.items():
        assert max(gpu.memory_used) <= gpu.device.memory_bytes
        mine = [b for b in world.batches() if b.device == name]
        spans = sorted((s, f) for b in mine for s, f in zip(b.start_s, b.finish_s, strict=True))
        assert all(later[0] >= earlier[1] - 1e-9 for earlier, later in pairwise(spans))


def replicas_take_items_in_turn(world: World, found: dict[str, Requests]) -> None:
    for name, chains in world.queues.items():
        if name not in found:
            continue  # nobody asks it
        items, given_back = found[name], any(b.aborted.any() for b in world.batches())
        for _, places in zip(chains, world.places[name], strict=True):
            start_s = items.start_s[places]
            begun = start_s[~np.isnan(start_s)]
            assert given_back or np.all(np.diff(begun) >= 0)
            assert len(set(places.tolist())) == len(places)


@given(st.data())
@settings(max_examples=20)
def test_the_same_seed_gives_the_same_bytes(data: st.DataObject) -> None:
    deployment, workload = data.draw(deployments()), data.draw(WORKLOADS)
    once, again = (columns(run(deployment, workload)) for _ in range(2))
    assert once == again


def columns(world: World) -> dict[str, bytes]:
    """All times of a world, as they lie in memory."""
    found = {
        name: items.start_s.tobytes() + items.finish_s.tobytes() for name, items in world.requests_by_name().items()
    }
    stations = {name: use.start_s.tobytes() + use.finish_s.tobytes() for name, use in world.station_uses().items()}
    return found | stations


@given(st.data())
@settings(max_examples=60)
def test_every_pipeline_keeps_its_books(data: st.DataObject) -> None:
    deployment, workload = data.draw(deployments()), data.draw(WORKLOADS)
    world = run(deployment, workload)
    (asked,) = deployment.pipelines
    found = world.requests_by_name()
    frames_are_answered_with_their_last_item(world, asked, found)
    items_come_when_what_is_before_them_is_done(world, asked, found)
    stations_serve_first_come_first_served(world)
    gpus_keep_their_memory_and_run_one_batch_at_a_time(world)
    replicas_take_items_in_turn(world, found)
    for name, items in found.items():
        if all(service.drop is Drop.NEVER for service in deployment.services):
            assert not np.any(items.outcome == Outcome.DROPPED), name
