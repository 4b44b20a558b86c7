"""What must hold in every world: random deployments under random demand, watched from outside."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import worlds

import simulator.clock.run
from simulator.clock.records import Outcome, Requests, SimulationResult
from simulator.clock.run import World, check, simulate, stages
from simulator.clock.serving import ServingGpu
from simulator.world.curves import LoadTime
from simulator.world.deployment import (
    BatchingPolicy,
    Deployment,
    Drop,
    Eviction,
    Failures,
    Routing,
    Scheduling,
    Service,
    SwapPolicy,
)
from simulator.world.hardware import Device, Host
from simulator.world.model import Layer
from simulator.world.profile import Profile
from simulator.world.workload import FixedRate, Gamma, Poisson, Stream, Workload, draw

DURATION_S = 2.0
ROUNDING_S = 1e-6
BUILDING_BLOCKS = tuple(Layer(f"block-{size}", size * 10**6) for size in (1, 2, 3, 5, 8, 13, 21, 34))


@st.composite
def profiles(draw: st.DrawFn, model: str) -> Profile:
    own = Layer(f"{model}-head", draw(st.integers(1, 40)) * 10**6)
    shared = draw(st.lists(st.sampled_from(BUILDING_BLOCKS), max_size=4, unique=True))
    steps = draw(st.lists(st.floats(0.001, 0.02), min_size=1, max_size=6))
    return worlds.profile(
        model,
        np.cumsum(steps).tolist(),
        cv=draw(st.sampled_from([0.0, 0.0, 0.3])),
        layers=(*shared, own),
        workspace_bytes=draw(st.integers(0, 30)) * 10**6,
        load=LoadTime(draw(st.sampled_from([0.0, 0.001])), draw(st.sampled_from([1e9, 1e10]))),
        output_bytes_per_sample=draw(st.sampled_from([0, 10**6])),
    )


@st.composite
def services(draw: st.DrawFn, model: str, devices: int) -> Service:
    names = [f"g{i}" for i in range(devices)]
    whole = st.lists(st.sampled_from(names), min_size=1, max_size=devices, unique=True)
    pipeline = st.permutations(names).map(lambda order: [tuple(order[:2])])
    batch = BatchingPolicy(
        draw(st.integers(1, 6)), draw(st.sampled_from([0.0, 0.0, 0.004, 0.05])), padded=draw(st.booleans())
    )
    return worlds.service(
        draw(profiles(model)),
        devices=draw(st.one_of(whole, whole, pipeline) if devices > 1 else whole),
        batch=batch,
        slo_s=draw(st.sampled_from([0.02, 0.1, 0.5])),
        drop=draw(st.sampled_from(Drop)),
        routing=draw(st.sampled_from(Routing)),
    )


@st.composite
def deployments(draw: st.DrawFn, failing: bool | None = None) -> Deployment:
    devices = draw(st.integers(1, 3))
    hosts = draw(st.integers(1, 2))
    models = [f"m{i}" for i in range(draw(st.integers(1, 4)))]
    asked = tuple(draw(services(model, devices)) for model in models)
    swap = SwapPolicy(draw(st.sampled_from(Eviction)), draw(st.booleans()), draw(st.booleans()))
    needs = [
        stage.weight_bytes + stage.workspace_bytes
        for service in asked
        for replica in service.replicas
        for stage in stages(service, replica, swap, None)
    ]
    room = round(max(needs) * draw(st.sampled_from([1.0, 1.2, 1.7, 9.0])))
    root_bytes_per_s = draw(st.sampled_from([5e8, 1.5e9, 1e11]))
    fails = draw(st.booleans()) if failing is None else failing
    return Deployment(
        services=asked,
        devices=tuple(
            Device(id=f"g{i}", gpu=worlds.CARD, host=f"h{i % hosts}", memory_bytes=room + 7, context_bytes=7)
            for i in range(devices)
        ),
        hosts=tuple(Host(id=f"h{i}", pcie_root_bytes_per_s=root_bytes_per_s) for i in range(hosts)),
        scheduling=draw(st.sampled_from(Scheduling)),
        swap=swap,
        failures=Failures(mean_time_between_s=1.0, recovery_s=draw(st.sampled_from([0.0, 0.3]))) if fails else None,
    )


@st.composite
def workloads(draw: st.DrawFn, deployment: Deployment) -> Workload:
    rate = st.sampled_from([1.0, 12.0, 40.0, 150.0])
    kinds = st.one_of(
        rate.map(Poisson),
        rate.map(lambda r: FixedRate(r, 0.0)),
        rate.map(lambda r: FixedRate(r, None, 0.01)),
        rate.map(lambda r: Gamma(r, 3.0)),
    )
    asked = draw(st.lists(st.sampled_from([s.model for s in deployment.services]), max_size=5))
    return Workload(tuple(Stream(model, draw(kinds), draw(st.integers(1, 2))) for model in asked))


class Watched(ServingGpu):
    """A GPU that also notes which layers it holds."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.held: list[frozenset[str]] = []
        super().__init__(*args, **kwargs)

    def note(self) -> None:
        super().note()
        self.held.append(frozenset(self.memory.resident))


@pytest.fixture(scope="module", autouse=True)
def watching() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator.clock.run, "ServingGpu", Watched)
        patch.setattr(simulator.clock.run.Compiled, "installed", False)  # machine code notes no layers
        yield


def run(deployment: Deployment, workload: Workload) -> World:
    check(deployment, workload)
    world = World(deployment, draw(workload, DURATION_S, 1), DURATION_S, 1)
    world.run()
    return world


def busy(world: World, device: str, shared: str = "") -> np.ndarray:
    """Intervals in which a device ran, stood still for weights or was away; sorted, without overlap.

    Of a model whose queue is `shared` also those in which any replica ran a batch that a failure cut short.
    """
    ran = [(b, s, f, cut) for b in world.batches() for s, f, cut in zip(b.start_s, b.finish_s, b.aborted, strict=True)]
    spans = [(s, f) for b, s, f, cut in ran if b.device == device or (cut and b.model == shared)]
    gpu = world.gpus[device]
    spans += [(s.start_s, s.finish_s) for s in gpu.stalls]
    spans += [(o.start_s, o.finish_s) for o in world.outages[gpu.device.host]]
    joined: list[list[float]] = []
    for start_s, finish_s in sorted(spans):
        if joined and start_s <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], finish_s)
        else:
            joined.append([start_s, finish_s])
    return np.array(joined).reshape(-1, 2)


def idle_s(spans: np.ndarray, from_s: np.ndarray, to_s: np.ndarray) -> np.ndarray:
    """Time outside `spans` in each [from_s, to_s]."""
    times, total = spans.ravel(), np.concatenate([[0.0], np.cumsum(spans[:, 1] - spans[:, 0])])
    knots = np.repeat(total, 2)[1:-1]
    inside = [np.interp(t, times, knots) if len(times) else 0 * t for t in (from_s, to_s)]
    return (to_s - from_s) - (inside[1] - inside[0])


def requests_are_accounted_for(world: World, model: str, requests: Requests) -> None:
    finished, dropped = requests.outcome == Outcome.FINISHED, requests.outcome == Outcome.DROPPED
    waiting = requests.outcome == Outcome.WAITING
    assert np.all(np.diff(requests.arrival_s) >= 0)
    assert np.array_equal(np.isnan(requests.start_s), waiting)
    assert np.array_equal(np.isnan(requests.finish_s), ~finished)
    assert np.all(requests.start_s[~waiting] >= requests.arrival_s[~waiting] - 1e-9)
    assert np.all(requests.finish_s[finished] > requests.start_s[finished])
    assert np.all(requests.finish_s[finished] <= DURATION_S)
    begun = sum(b.count[~b.aborted].sum() for b in first_stages(world, model))
    assert begun == np.count_nonzero(~waiting & ~dropped)


def first_stages(world: World, model: str) -> list:
    first = {id(chain[0]) for chain in world.queues[model]}
    flat = [queue for queues in world.on_device.values() for queue in queues]
    return [b for b, queue in zip(world.batches(), flat, strict=True) if id(queue) in first]


def the_drop_rule_holds(service: Service, requests: Requests) -> None:
    if service.drop is Drop.NEVER:
        assert not np.any(requests.outcome == Outcome.DROPPED)
    exact = service.replicas[0].profile.latency_cv == 0 and len(service.replicas[0].devices) == 1
    if service.drop in (Drop.LATE, Drop.NEWEST_AND_LATE) and exact:
        assert np.nanmax(requests.finish_s - requests.arrival_s, initial=0) <= service.slo.latency_s + 1e-8


def replicas_serve_in_order(world: World, service: Service, requests: Requests) -> None:
    """In order of arrival, but for what another replica of a shared queue had to give back."""
    given_back = service.routing is Routing.SHARED and any(b.aborted.any() for b in world.batches())
    for places in world.places[service.model]:
        assert given_back or np.all(np.diff(places) > 0)
        assert len(set(places.tolist())) == len(places)
        start_s = requests.start_s[places]
        begun = ~np.isnan(start_s)
        assert np.all(begun[:-1] >= begun[1:])
        assert np.all(np.diff(start_s[begun]) >= 0)


def part_filled_batches_wait_for_their_time(world: World, service: Service, requests: Requests) -> None:
    """Without drops: a batch that is not full has an oldest request that waited as long as it may."""
    policy = service.replicas[0].batching
    if service.drop is Drop.NEVER:
        for places in world.places[service.model]:
            begun = places[~np.isnan(requests.start_s[places])]
            start_s, oldest, count = np.unique(requests.start_s[begun], return_index=True, return_counts=True)
            short = count < policy.max_batch_size
            waited_s = (start_s - requests.arrival_s[begun][oldest])[short]
            assert np.all(waited_s >= policy.max_queue_delay_s - ROUNDING_S)


def nobody_waits_for_an_idle_gpu(world: World, service: Service, requests: Requests) -> None:
    for replica, chain, places in zip(
        service.replicas, world.queues[service.model], world.places[service.model], strict=True
    ):
        spans = busy(world, replica.devices[0], service.model if service.routing is Routing.SHARED else "")
        start_s = requests.start_s[places]
        until_s = np.where(np.isnan(start_s), DURATION_S, start_s)
        wait_s = idle_s(spans, requests.arrival_s[places], until_s)
        assert np.all(wait_s <= replica.batching.max_queue_delay_s + ROUNDING_S)
        for name, stage in zip(replica.devices[1:], chain[1:], strict=True):
            due_s = np.array(stage.times)[: len(stage.log.start_s)]
            assert np.all(idle_s(busy(world, name), due_s, np.array(stage.log.start_s)) <= ROUNDING_S)


def gpus_run_one_batch_at_a_time(world: World) -> None:
    services = {s.model: s for s in world.deployment.services}
    for name in world.gpus:
        mine = [b for b in world.batches() if b.device == name]
        spans = sorted((s, f) for b in mine for s, f in zip(b.start_s, b.finish_s, strict=True))
        assert all(later[0] >= earlier[1] - 1e-9 for earlier, later in pairwise(spans))
        for batches in mine:
            replica = services[batches.model].replicas[0]
            assert np.all(batches.count <= replica.batching.max_batch_size)
            if len(replica.devices) == 1 and not replica.profile.latency_cv:
                least = replica.batching.max_batch_size if replica.batching.padded else 1
                took_s = (batches.finish_s - batches.start_s)[~batches.aborted]
                expected_s = [replica.profile.latency(max(n, least)) for n in batches.count[~batches.aborted]]
                assert took_s == pytest.approx(expected_s)


def memory_is_the_union_and_fits(world: World) -> None:
    for name, gpu in world.gpus.items():
        size = {layer.key: layer.weight_bytes for queue in gpu.queues for layer in queue.stage.layers}
        layers = {queue.stage.model: {layer.key for layer in queue.stage.layers} for queue in gpu.queues}
        space = {queue.stage.model: queue.stage.workspace_bytes for queue in gpu.queues}
        runs = sorted(
            (s, f, b.model)
            for b in world.batches()
            if b.device == name
            for s, f, cut in zip(b.start_s, b.finish_s, b.aborted, strict=True)
            if not cut
        )
        at_s, used = np.array(gpu.memory_at_s), np.array(gpu.memory_used)
        assert np.all(np.diff(at_s) >= 0)
        assert used.max() <= gpu.device.memory_bytes
        starts = np.array([s for s, _, _ in runs])
        for i, (t, held) in enumerate(zip(at_s, gpu.held, strict=True)):
            if i + 1 < len(at_s) and at_s[i + 1] == t:
                continue
            place = int(np.searchsorted(starts, t, side="right")) - 1
            running = runs[place][2] if place >= 0 and t < runs[place][1] else None
            reserved = (space[running] if running else 0) if gpu.swaps else max(space.values(), default=0)
            assert used[i] == gpu.device.context_bytes + sum(size[key] for key in held) + reserved
            assert not running or layers[running] <= held
        if gpu.swaps:
            noted = np.searchsorted(at_s, starts, side="right") - 1
            assert all(layers[model] <= gpu.held[i] for i, (_, _, model) in zip(noted, runs, strict=True))
        mine = sorted(gpu.loads, key=lambda load: load.start_s)
        assert all(later.start_s >= earlier.finish_s - 1e-9 for earlier, later in pairwise(mine))
        for load in mine:
            here = gpu.held[np.searchsorted(at_s, load.start_s, "right") - 1 : np.searchsorted(at_s, load.finish_s)]
            assert all(sum(size[key] for key in layers[load.model] & held) >= load.size_bytes for held in here)
            begun = [s for s, _, model in runs if model == load.model]
            assert not any(load.start_s + 1e-9 < s < load.finish_s - 1e-9 for s in begun)


def links_carry_what_they_can(world: World) -> None:
    for host in world.deployment.hosts:
        loads = [load for gpu in world.gpus.values() if gpu.device.host == host.id for load in gpu.loads]
        for a in loads[:60]:
            for b in loads[:60]:
                inside = [x.size_bytes for x in loads if x.start_s >= a.start_s and x.finish_s <= b.finish_s]
                assert sum(inside) <= host.pcie_root_bytes_per_s * max(0.0, b.finish_s - a.start_s) * (1 + 1e-9) + 1


@given(st.data())
@settings(max_examples=120)
def test_every_world_keeps_its_books(data: st.DataObject) -> None:
    deployment = data.draw(deployments())
    world = run(deployment, data.draw(workloads(deployment)))
    for service in deployment.services:
        if service.model in world.demand:
            requests = world.requests(service.model)
            requests_are_accounted_for(world, service.model, requests)
            the_drop_rule_holds(service, requests)
            replicas_serve_in_order(world, service, requests)
            part_filled_batches_wait_for_their_time(world, service, requests)
            nobody_waits_for_an_idle_gpu(world, service, requests)
    gpus_run_one_batch_at_a_time(world)
    memory_is_the_union_and_fits(world)
    links_carry_what_they_can(world)


def columns(result: SimulationResult) -> list[bytes]:
    per_model = [(r.arrival_s, r.source, r.start_s, r.finish_s, r.outcome) for r in result.requests.values()]
    per_queue = [(b.start_s, b.finish_s, b.count, b.aborted) for b in result.batches]
    per_gpu = [(m.at_s, m.used_bytes) for m in result.memory.values()]
    found = [array.tobytes() for row in [*per_model, *per_queue, *per_gpu] for array in row]
    return [*found, repr((result.loads, result.stalls)).encode()]


@given(st.data())
@settings(max_examples=12)
def test_the_same_seed_gives_the_same_bytes(data: st.DataObject) -> None:
    deployment = data.draw(deployments())
    workload = data.draw(workloads(deployment))
    assert columns(simulate(deployment, workload, 2.0, 7)) == columns(simulate(deployment, workload, 2.0, 7))


def noisy(service: Service) -> Service:
    """Times that never tie: which of two equal ones comes first is a matter of rounding."""
    replicas = tuple(replace(r, profile=replace(r.profile, latency_cv=0.3)) for r in service.replicas)
    return replace(service, replicas=replicas)


@given(st.data())
@settings(max_examples=30)
def test_running_ahead_of_the_clock_changes_nothing(data: st.DataObject) -> None:
    deployment, roomy = data.draw(deployments(failing=False)), data.draw(st.booleans())
    calm = replace(
        deployment,
        services=tuple(noisy(service) for service in deployment.services),
        devices=tuple(
            replace(d, memory_bytes=10**9 if roomy else d.memory_bytes, host=f"host-{d.id}") for d in deployment.devices
        ),
        hosts=tuple(replace(deployment.hosts[0], id=f"host-{d.id}") for d in deployment.devices),
    )
    workload = Workload(tuple(Stream(s.model, Poisson(60.0)) for s in calm.services))
    ahead = simulate(calm, workload, DURATION_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watched, "clocked", property(lambda self: True))
        clocked = simulate(calm, workload, DURATION_S)
    for seen in ("loads", "stalls"):
        found, expected = getattr(ahead, seen), getattr(clocked, seen)
        assert [(x.device, getattr(x, "ahead", None)) for x in found] == [
            (x.device, getattr(x, "ahead", None)) for x in expected
        ]
        assert [x.finish_s for x in found] == pytest.approx([x.finish_s for x in expected], abs=1e-9)
    for model, requests in ahead.requests.items():
        assert np.array_equal(requests.outcome, clocked.requests[model].outcome)
        for column in ("start_s", "finish_s"):
            expected = getattr(clocked.requests[model], column)
            assert getattr(requests, column) == pytest.approx(expected, abs=1e-9, nan_ok=True)
