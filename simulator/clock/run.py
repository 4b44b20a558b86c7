"""One replication: a deployment and a workload go in, what happened comes out."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import pstdev
from time import perf_counter, thread_time
from types import MappingProxyType
from typing import Any

import numpy as np
import simpy

from simulator.clock.drivers import Ahead, Clocked, DelayedAhead, DelayedClocked
from simulator.clock.link import Link
from simulator.clock.metrics import total
from simulator.clock.records import Batches, MemoryUse, Outcome, Requests, SimulationResult, StationUse, settled
from simulator.clock.serving import ServingGpu
from simulator.errors import DeploymentError
from simulator.flow.checking import check_pipelines, once
from simulator.flow.compiled import replaying
from simulator.flow.flow import Flow, OpenPipeline
from simulator.flow.stages import OpenStage, StationStage
from simulator.machine_code import MadeOnce
from simulator.rules.noise import noise_by_queue
from simulator.rules.queues import AT_ONCE, Delays, FormedQueue, Outage, Queue, Stage
from simulator.rules.routing import Entrance, StreamEntrance
from simulator.world.curves import by_size
from simulator.world.deployment import Deployment, Failures, Replica, Routing, Service, SwapPolicy
from simulator.world.doubt import drawn
from simulator.world.hardware import Device, Host
from simulator.world.model import Layer
from simulator.world.profile import Profile
from simulator.world.workload import Demand, Workload, draw

CLOCK = Path(__file__).parent
TURNS = MadeOnce(
    20_000_000,
    "turns",
    "serve_on",
    *(CLOCK / name for name in ("swapping.py", "compiled.py", "replays/links.py", "replays/chains.py")),
)
"""For models that take turns or are cut into stages: made once they took Python as many microseconds as Numba takes to
make the code. Time counts, for a request takes 5 microseconds in large batches, and 400 where GPUs share a link and
load for each."""
ITEMS = MadeOnce(1_000_000, "items", "go_on", *replaying.SOURCES)
"""For pipelines: so many items of their stages take Python some 20 s too, 20 microseconds each."""


REQUEST_US = 5
"""What Python takes for a request of a model that stays in memory."""


class Compiled:
    """Machine code for GPUs that nobody disturbs, the same to the last bit: fetched once enough was replayed for it."""

    installed = find_spec("numba") is not None
    worth_requests = 20_000
    """Requests that Python replays in half the time that the code takes to fetch, a fifth of a second: whoever replays
    so many replays more."""
    in_turns, on_link = 4, 20
    """Requests of models that stay in memory which may take Python as long as one of models that take
    turns, and as one of such on GPUs that share their link."""
    of_stage = 4
    """Requests of models that stay in memory, of 5 microseconds, which take Python as long as one item at a stage."""
    seen_requests = 0

    @classmethod
    def pays(cls, requests: int, items: int, *, on_links: int) -> bool:
        """Whether to use it from now on; counts what has been replayed so far: requests, and items of pipelines."""
        cls.seen_requests += items * cls.of_stage + requests * cls.weight(on_links)
        return cls.is_worth_it()

    @classmethod
    def weight(cls, on_links: int) -> int:
        """Of a request, where so many GPUs at most load over one link: none where all models stay in memory."""
        return cls.on_link if on_links > 1 else cls.in_turns if on_links else 1

    @classmethod
    def is_worth_it(cls, coming_requests: float = 0.0) -> bool:
        """Whether so much has been replayed, with what is to be replayed now, that it pays to fetch it."""
        return cls.installed and cls.seen_requests + coming_requests > cls.worth_requests

    @classmethod
    def serve(cls, gpus: Sequence[ServingGpu], link_bytes_per_s: float, delays: Delays | None) -> bool:
        """Let GPUs serve together until the horizon; False where others disturb them, or that is not compiled."""
        alone = len(gpus) == 1 and gpus[0].self_contained
        if not cls.takes(gpus) or (delays and not alone):
            return False
        if alone and not gpus[0].swaps:
            import_module("simulator.clock.compiled").serve(gpus[0], delays)
        else:
            import_module("simulator.clock.swapping").serve(gpus, link_bytes_per_s, delays)
        return True

    @classmethod
    def takes(cls, gpus: Sequence[ServingGpu]) -> bool:
        """Whether nobody disturbs GPUs that are served together, and there is code for them, or should be made."""
        if not all(gpu.steady for gpu in gpus):
            return False
        if not any(gpu.swaps or not gpu.self_contained for gpu in gpus):
            return True
        if not TURNS.pays or len({gpu.device.host for gpu in gpus if gpu.swaps}) > 1:
            return False
        return all(map(import_module("simulator.clock.replays.links").compiles, gpus))


@contextmanager
def counted_turns(requests: int, on_links: int) -> Iterator[list[ServingGpu]]:
    """Counts what Python takes for a world in which any GPU is named for which it serves though there may be code;
    before that what it may take, so that one long world has the code made too."""
    expected_us = requests * Compiled.weight(on_links) * REQUEST_US if on_links else 0
    begun_s, by_python = thread_time(), list[ServingGpu]()
    TURNS.done += expected_us
    yield by_python
    TURNS.done += (round(1e6 * (thread_time() - begun_s)) if by_python else 0) - expected_us


def simulate(
    deployment: Deployment,
    workload: Workload,
    duration_s: float = 600.0,
    seed: int = 1,
    delays: Mapping[str, Delays] | None = None,
) -> SimulationResult:
    """Replay `workload` on `deployment` for `duration_s` seconds of its time.

    The same seed gives the same arrivals for every deployment and the same result for the same one. Where speeds are
    known only so well, it stands for one world of those that may be: the result's deployment is as it is there.
    `delays`: by device, or by stage of pipelines, times that whoever serves takes for itself; a plan has none.
    Raises DeploymentError where models, devices or memory do not fit together.
    """
    check(deployment, workload)
    return replicate(deployment, draw(workload, duration_s, seed), duration_s, seed, delays)


def replicate(
    deployment: Deployment,
    demand: Mapping[str, Demand],
    duration_s: float,
    seed: int,
    delays: Mapping[str, Delays] | None = None,
) -> SimulationResult:
    """As `simulate`, of what was checked and drawn already."""
    began_s = perf_counter()
    deployment = drawn(deployment, seed)
    world = World(deployment, demand, duration_s, seed)
    world.run(delays or {})
    return SimulationResult(
        deployment=deployment,
        duration_s=duration_s,
        seed=seed,
        requests=world.requests_by_name(),
        batches=world.batches(),
        loads=tuple(load for gpu in world.gpus.values() for load in gpu.loads),
        stalls=tuple(stall for gpu in world.gpus.values() for stall in gpu.stalls),
        memory={
            name: MemoryUse(np.array(gpu.memory_at_s), np.array(gpu.memory_used, dtype=np.int64))
            for name, gpu in world.gpus.items()
        },
        wall_s=perf_counter() - began_s,
        frames={name: stage.frame_by_place for name, stage in world.flow.stages.items()},
        stations=world.station_uses(),
    )


def check(deployment: Deployment, workload: Workload) -> None:
    """Refuse what cannot be run. Raises DeploymentError."""
    devices = {device.id: device for device in deployment.devices}
    hosts = {host.id: host for host in deployment.hosts}
    _check_names(deployment)
    check_pipelines(deployment)
    _check_streams(deployment, workload)
    for device in deployment.devices:
        if device.host not in hosts:
            raise DeploymentError(f"{device.id}: host {device.host!r} is not in the deployment. Add it to hosts.")
    held = _weights_by_host(deployment, devices)
    if not deployment.swap.disk:
        for name, weights in held.items():
            _check_host_memory(hosts[name], sum(weights.values()))


def _weights_by_host(deployment: Deployment, devices: Mapping[str, Device]) -> dict[str, dict[str, int]]:
    """Bytes of each layer that a host keeps. Raises DeploymentError where a device cannot hold its own."""
    held: dict[str, dict[str, int]] = {host.id: {} for host in deployment.hosts}
    for service in deployment.services:
        for device, layers in _checked(service, devices, deployment.swap):
            held[device.host] |= {layer.key: layer.weight_bytes for layer in layers}
    return held


def _check_names(deployment: Deployment) -> None:
    """Refuse two things of one name. Raises DeploymentError."""
    services = [service.model for service in deployment.services]
    pipelines = [pipeline.name for pipeline in deployment.pipelines]
    once("device or host", [device.id for device in deployment.devices] + [host.id for host in deployment.hosts])
    once("service", services)
    once("pipeline or service", services + pipelines)


def _check_streams(deployment: Deployment, workload: Workload) -> None:
    """Refuse streams that ask what is not there. Raises DeploymentError."""
    staged = {pipeline.name_of(stage) for pipeline in deployment.pipelines for stage in pipeline.stages}
    asked = {service.model for service in deployment.services} | {pipeline.name for pipeline in deployment.pipelines}
    for stream in workload.streams:
        if stream.model in staged:
            raise DeploymentError(f"workload: stream asks {stream.model!r}, a stage. Ask its pipeline.")
        if stream.model not in asked:
            raise DeploymentError(f"workload: stream asks {stream.model!r}, which no service answers. Add a service.")


def _checked(
    service: Service, devices: Mapping[str, Device], swap: SwapPolicy
) -> Iterator[tuple[Device, tuple[Layer, ...]]]:
    """What a service's replicas hold on each device. Raises DeploymentError."""
    if not service.replicas:
        raise DeploymentError(f"{service.model}: has no replica. Give it at least one.")
    for replica in service.replicas:
        if replica.share <= 0:
            raise DeploymentError(
                f"{service.model}: a replica's share must be above 0, got {replica.share:g}. Leave the replica out."
            )
        for name, stage in zip(replica.devices, stages(service, replica, swap, None), strict=True):
            if name not in devices:
                raise DeploymentError(f"{service.model}: device {name!r} is not in the deployment. Add it.")
            _check_memory(devices[name], stage, replica.batching.max_batch_size)
            yield devices[name], stage.layers


def _check_memory(device: Device, stage: Stage, batch_size: int) -> None:
    needs = device.context_bytes + stage.weight_bytes + stage.workspace_bytes
    if needs > device.memory_bytes:
        raise DeploymentError(
            f"{stage.model} on {device.id}: needs {needs / 1e9:.2f} GB for context, weights and workspace at "
            f"batch {batch_size}, has {device.memory_bytes / 1e9:.2f} GB. "
            "Use smaller batches, more memory or more pipeline stages."
        )


def _check_host_memory(host: Host, weight_bytes: int) -> None:
    if host.memory_bytes is not None and weight_bytes > host.memory_bytes:
        raise DeploymentError(
            f"{host.id}: weights of its models take {weight_bytes / 1e9:.2f} GB, host memory is "
            f"{host.memory_bytes / 1e9:.2f} GB. Place fewer models there or take a host with more memory."
        )


def stages(service: Service, replica: Replica, swap: SwapPolicy, link_bytes_per_s: float | None) -> list[Stage]:
    """What a replica takes on each of its devices: its layers cut in order, so that bytes are about equal.

    Time is cut in proportion to bytes; every stage keeps the whole workspace. `link_bytes_per_s`: to the next device.
    """
    profile, most, count = replica.profile, replica.batching.max_batch_size, len(replica.devices)
    factors = profile.factors_up_to(most)
    run_s = by_size(profile.latency, most)
    service_s = (0.0, *(run_s[-1:] * most if replica.batching.padded else run_s))
    load = profile.swap_from(swap.source)
    parts = cut(profile, count)
    return [
        Stage(
            model=service.model,
            layers=layers,
            service_s=service_s
            if count == 1
            else tuple(s * sum(x.weight_bytes for x in layers) / profile.weight_bytes for s in service_s),
            cv=pstdev(factors) if factors else profile.latency_cv,
            factors=factors,
            workspace_bytes=round(profile.workspace(most)),
            load_t0_s=load.t0_s,
            load_bytes_per_s=load.bytes_per_s,
            transfer_s_per_sample=profile.output_bytes_per_sample / link_bytes_per_s if link_bytes_per_s else 0.0,
            after_load=profile.after_load.batch_ratio if profile.after_load else 1.0,
            beside_load=profile.beside_load,
        )
        for layers in parts
    ]


def answers_s(parts: Sequence[Stage], service_s: Sequence[Sequence[float]]) -> list[float]:
    """Times from the start of a batch on the first of a replica's GPUs, where none waits, to its answer, by size."""
    handed_s = total(part.transfer_s_per_sample for part in parts[:-1])
    return [total(times_s) + size * handed_s for size, times_s in enumerate(zip(*service_s, strict=True))]


def cut(profile: Profile, count: int) -> list[tuple[Layer, ...]]:
    """Cut a model's layers into `count` runs of about equal bytes. A model of fewer layers is cut into equal shares."""
    if count == 1:
        return [profile.layers]
    if len(profile.layers) < count:
        share = -(-profile.weight_bytes // count)
        return [(Layer(f"{profile.model}[{i}/{count}]", share),) for i in range(count)]
    before = np.cumsum([0, *(layer.weight_bytes for layer in profile.layers)])
    edges = [0]
    for i in range(1, count):
        nearest = int(np.argmin(np.abs(before - before[-1] * i / count)))
        edges.append(min(max(nearest, edges[-1] + 1), len(profile.layers) - count + i))
    edges.append(len(profile.layers))
    return [profile.layers[a:b] for a, b in pairwise(edges)]


def nobody_fails(deployment: Deployment, duration_s: float, seed: int) -> bool:
    """Whether all hosts are up in a replication, which then is that of a deployment without failures."""
    _, failing = np.random.SeedSequence([seed, 1]).spawn(2)
    return not any(outages_of(deployment, duration_s, failing).values())


def outages_of(deployment: Deployment, duration_s: float, failing: np.random.SeedSequence) -> dict[str, list[Outage]]:
    """By host: when it is away."""
    hosts, failures = deployment.hosts, deployment.failures
    if failures is None:
        return {host.id: [] for host in hosts}
    rngs = map(np.random.default_rng, failing.spawn(len(hosts)))
    return {host.id: draw_outages(failures, duration_s, rng) for host, rng in zip(hosts, rngs, strict=True)}


def draw_outages(failures: Failures, duration_s: float, rng: np.random.Generator) -> list[Outage]:
    """When one host is away: exponential times between a recovery and the next failure, watched from any moment on.

    Up for 30 s on average, then away for 10 s: it is away at 0 s with probability 1/4, then for anything up to 10 s.
    """
    outages: list[Outage] = []
    up_s, away_s = failures.mean_time_between_s, failures.recovery_s
    if rng.uniform() < away_s / (up_s + away_s):
        outages.append(Outage(start_s=0.0, finish_s=rng.uniform(0.0, away_s)))
    while (at_s := (outages[-1].finish_s if outages else 0.0) + rng.exponential(up_s)) < duration_s:
        outages.append(Outage(start_s=at_s, finish_s=at_s + away_s))
    return outages


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Python frees only what nothing refers to: its search for cycles would go through all items of a world again and
    again, which takes a good part of the time where pipelines have a hundred thousand items, or GPUs as many loads."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


class World:
    """The SimPy environment of one replication, and the queues and GPUs in it."""

    def __init__(self, deployment: Deployment, demand: Mapping[str, Demand], duration_s: float, seed: int) -> None:
        self.deployment = deployment
        self.demand = dict(demand)
        self.duration_s = duration_s
        self.env = simpy.Environment()
        noise, failing = np.random.SeedSequence([seed, 1]).spawn(2)
        self.outages = outages_of(deployment, duration_s, failing)
        self.host = {device.id: device.host for device in deployment.devices}
        self.flow = Flow(deployment, demand, seed, self.env, self.outages)
        self.queues: dict[str, list[list[Queue]]] = {}
        """By model: the queues of each replica, one for each stage."""
        self.places: dict[str, list[np.ndarray]] = {}
        """By model: which requests each replica got; known at the end."""
        self.on_device: dict[str, list[Queue]] = {device.id: [] for device in deployment.devices}
        stages = self.flow.models
        self.entrances = {one.model: stages.get(one.model) or self._entrance(one) for one in deployment.services}
        for service in deployment.services:
            self._place(service, self.entrances[service.model])
        self.gpus = self._gpus(noise)

    def _entrance(self, service: Service) -> Entrance[Any]:
        """That of a service whose requests are no stage's items."""
        asked = self.demand.get(service.model)
        return StreamEntrance(asked.arrival_s if asked else np.empty(0), service.slo.latency_s)

    def _place(self, service: Service, entrance: Entrance[Any]) -> None:
        """Queues for a service's replicas."""
        shared = service.routing is Routing.SHARED and len(service.replicas) > 1
        chains = []
        for replica in service.replicas:
            parts = self._parts(service, replica)
            first = entrance.add_queue(parts[0], replica.batching, service.drop, shared=shared)
            chains.append(self._chain(replica, parts, first))
        self.queues[service.model] = chains
        entrance.open(service, [self.outages[self.host[replica.devices[0]]] for replica in service.replicas])

    def _parts(self, service: Service, replica: Replica) -> list[Stage]:
        link = min(d.gpu.link_bytes_per_s for d in self.deployment.devices if d.id in replica.devices)
        return stages(service, replica, self.deployment.swap, link)

    def _chain(self, replica: Replica, parts: Sequence[Stage], first: Queue) -> list[Queue]:
        """The queues of a replica's GPUs, one behind the other."""
        chain = [first]
        for stage in parts[1:]:
            following = FormedQueue(stage, replica.batching, first)
            following.answered, chain[-1].answered = chain[-1].answered, following.answered
            chain[-1].next_stage = following
            chain.append(following)
        if len(parts) > 1:
            chain[0].answer_after(answers_s(parts, [part.service_s for part in parts]))
        for name, queue in zip(replica.devices, chain, strict=True):
            self.on_device[name].append(queue)
        return chain

    def _gpus(self, noises: np.random.SeedSequence) -> dict[str, ServingGpu]:
        gpus = {}
        for device, noise in zip(
            self.deployment.devices, noise_by_queue(list(self.on_device.values()), noises), strict=True
        ):
            queues = self.on_device[device.id]
            gpu = ServingGpu(
                device,
                queues,
                noise,
                scheduling=self.deployment.scheduling,
                swap=self.deployment.swap,
                outages=self.outages[device.host],
                horizon_s=self.duration_s,
            )
            gpu.routers = [
                entrance.router
                for entrance in self.entrances.values()
                if entrance.router and any(queue in queues for queue in entrance.queues)
            ]
            gpus[device.id] = gpu
        loading: dict[str, list[ServingGpu]] = {}
        for gpu in gpus.values():
            if gpu.swaps:
                gpu.on_link = loading.setdefault(gpu.device.host, [])
                gpu.on_link.append(gpu)
        return gpus

    def together(self) -> list[list[ServingGpu]]:
        """GPUs that load over one link, or hand batches to one another."""
        gpus = list(self.gpus.values())
        places = {name: place for place, name in enumerate(self.gpus)}
        chains = [[places[name] for name in r.devices] for s in self.deployment.services for r in s.replicas]
        links = {id(gpu.on_link): [places[one.device.id] for one in gpu.on_link] for gpu in gpus}
        group = list(range(len(gpus)))
        for one in (*links.values(), *chains):
            joined = {group[place] for place in one}
            if len(joined) > 1:
                group = [min(joined) if number in joined else number for number in group]
        found: dict[int, list[ServingGpu]] = {}
        for gpu, number in zip(gpus, group, strict=True):
            found.setdefault(number, []).append(gpu)
        return list(found.values())

    @no_search_for_cycles()
    def run(self, delays: Mapping[str, Delays] = MappingProxyType({})) -> None:
        """Let the clock run to the horizon."""
        items, gpus = sum(len(stage.drawn.frame) for stage in self.flow.stages.values()), self.gpus.values()
        requests = sum(len(asked.arrival_s) for asked in self.demand.values())
        on_links = max((len(gpu.on_link) for gpu in gpus if gpu.swaps), default=0)
        compiles = Compiled.pays(requests, items, on_links=on_links)
        flows = self._flows_alone and ITEMS.pays_after(items) and compiles
        with counted_turns(requests, on_links) as by_python:
            by_python.extend(self._start(delays, compiles=compiles, flows=flows))
            if flows:
                clocked = [gpu for gpu in gpus if gpu.clocked]
                replaying.serve(self.flow, clocked, self.deployment.scheduling, self.duration_s, delays)
            else:
                self.flow.start(delays)
                self.env.run(until=self.duration_s)
        for gpu in gpus:
            gpu.end_stall()
        self._settle_places()

    def _start(self, delays: Mapping[str, Delays], *, compiles: bool, flows: bool) -> list[ServingGpu]:
        """Serve where nobody disturbs, and start all others but those that serve as pipelines flow; of these, the GPUs
        for which there may be code: whose models take turns or are cut into stages."""
        rates = {host.id: host.pcie_root_bytes_per_s for host in self.deployment.hosts}
        links = {host: Link(self.env, rate) for host, rate in rates.items()}
        together = {gpu.device.id: group for group in self.together() for gpu in group}
        served: dict[int, bool] = {}
        by_python = []
        for name, gpu in self.gpus.items():
            if flows and gpu.clocked:
                continue
            group = together[name]
            if id(group) not in served:
                host = next((one for one in group if one.swaps), gpu).device.host
                own = delays.get(name, AT_ONCE) if delays else None
                served[id(group)] = compiles and Compiled.serve(group, rates[host], own)
            if not served[id(group)]:
                self._driver(gpu, links[gpu.device.host], delays).start()
                by_python += [gpu] if gpu.steady and (gpu.swaps or not gpu.self_contained) else []
        return by_python

    @property
    def _flows_alone(self) -> bool:
        """Whether what pipelines need is theirs alone, nothing fails, and no model comes or goes."""
        clocked = [gpu for gpu in self.gpus.values() if gpu.clocked]
        steady = self.deployment.failures is None and not any(gpu.swaps for gpu in clocked)
        return bool(self.flow.pipelines) and steady and replaying.compiles(clocked, self.deployment.scheduling)

    def _driver(self, gpu: ServingGpu, link: Link, delays: Mapping[str, Delays]) -> Ahead | Clocked:
        if not delays:
            return Clocked(self.env, gpu, link) if gpu.clocked else Ahead(gpu, link)
        if gpu.clocked:
            return DelayedClocked(self.env, gpu, link, delays, self.flow.stations)
        return DelayedAhead(gpu, link, delays.get(gpu.device.id, AT_ONCE))

    def _settle_places(self) -> None:
        """Which requests each replica got, and what came to stages."""
        self.demand |= {name: stage.demand for name, stage in self.flow.models.items()}
        self.places = {model: entrance.settle(self.duration_s) for model, entrance in self.entrances.items()}

    def requests_by_name(self) -> dict[str, Requests]:
        """The columns of all that was asked, and of the stages of pipelines."""
        found: dict[str, Requests] = {}
        stages = self.flow.models
        for name in self.demand:
            if name in self.flow.pipelines:
                found |= self._requests_of_pipeline(self.flow.pipelines[name])
            elif name not in stages:
                found[name] = self.requests(name)
        return found

    def _requests_of_pipeline(self, one: OpenPipeline) -> dict[str, Requests]:
        """Of its frames and, one after another, of its stages."""
        stages = {name: self._requests_of_stage(name, stage) for name, stage in one.stages.items()}
        return {one.pipeline.name: settled_frames(one, stages, self.duration_s), **stages}

    def _requests_of_stage(self, name: str, stage: OpenStage) -> Requests:
        if isinstance(stage, StationStage):
            return settled(stage.demand, np.array(stage.start_s), np.array(stage.finish_s), self.duration_s)
        return self.requests(name)

    def requests(self, model: str) -> Requests:
        """The columns of one model's requests."""
        demand = self.demand[model]
        count = len(demand.arrival_s)
        start_s, finish_s = np.full(count, np.nan), np.full(count, np.nan)
        outcome = np.full(count, Outcome.WAITING, dtype=np.int8)
        for chain, places in zip(self.queues[model], self.places[model], strict=True):
            self._fill(chain, places if len(self.queues[model]) > 1 else slice(None), start_s, finish_s, outcome)
        return Requests(demand.arrival_s, demand.source, start_s, finish_s, outcome)

    def _fill(self, chain: list[Queue], places: "np.ndarray | slice", *columns: np.ndarray) -> None:
        first, last = chain[0].log, chain[-1].log
        if not first.count:
            return
        count, start_s = np.frombuffer(first.count, dtype=np.intc), np.frombuffer(first.start_s)
        ends_s = np.array(first.finish_s)
        gone = np.isnan(ends_s)
        if first is not last:
            through = np.flatnonzero(~gone)
            ends_s[through] = np.nan
            ends_s[through[: len(last.finish_s)]] = last.finish_s
        late = ~(ends_s <= self.duration_s)
        ends_s[late] = np.nan
        state = np.full(len(count), Outcome.FINISHED, dtype=np.int8)
        state[late] = Outcome.RUNNING
        state[gone] = Outcome.DROPPED
        known = int(count.sum())
        index = slice(0, known) if isinstance(places, slice) else places[:known]
        values: tuple[np.ndarray, ...] = (start_s, ends_s, state)
        for column, value in zip(columns, values, strict=True):
            column[index] = np.repeat(value, count)

    def station_uses(self) -> dict[str, StationUse]:
        """What each station did."""
        return {one.station.id: StationUse(np.array(one.start_s), np.array(one.finish_s)) for one in self.flow.stations}

    def batches(self) -> tuple[Batches, ...]:
        """The batches of every queue, dropped rows left out, failed attempts marked."""
        return tuple(_batches(queue, device) for device, queues in self.on_device.items() for queue in queues)


def settled_frames(one: OpenPipeline, stages: Mapping[str, Requests], end_s: float) -> Requests:
    """The frames of a pipeline as requests, of what is known of its stages."""
    begun_s = np.full(len(one.frames.arrival_s), np.nan)
    for name in one.first:
        start_s = stages[name].start_s
        begun_s[: len(start_s)] = np.fmin(begun_s[: len(start_s)], start_s)
    answered_s, lost_s = one.frames.columns(one.pipeline.ordered)
    return replace(settled(one.frames.demand, begun_s, answered_s, end_s, lost_s), due=one.frames.due)


def _batches(queue: Queue, device: str) -> Batches:
    log = queue.log
    start_s, finish_s, count = np.array([]), np.array([]), np.array([], dtype=np.int32)
    if log.count:
        start_s, finish_s = np.frombuffer(log.start_s), np.frombuffer(log.finish_s)
        count = np.frombuffer(log.count, dtype=np.int32)
    ran = ~np.isnan(finish_s)
    if not ran.all():
        start_s, finish_s, count = start_s[ran], finish_s[ran], count[ran]
    aborted = np.zeros(len(count), dtype=bool)
    if log.aborted:
        failed = np.array(log.aborted, dtype=float)
        start_s, finish_s = np.concatenate([start_s, failed[:, 0]]), np.concatenate([finish_s, failed[:, 1]])
        count = np.concatenate([count, failed[:, 2].astype(np.int32)])
        aborted = np.concatenate([aborted, np.ones(len(failed), dtype=bool)])
        order = np.argsort(start_s, kind="stable")
        start_s, finish_s, count, aborted = start_s[order], finish_s[order], count[order], aborted[order]
    return Batches(queue.stage.model, device, start_s, finish_s, count, aborted)
