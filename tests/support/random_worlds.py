"""Random small worlds: any rule of batching, dropping and turns, any traffic; memory for all models, or for some."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from simulator.flow.compiled.replaying import SCHEDULINGS
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import (
    BatchingPolicy,
    Deployment,
    Drop,
    Eviction,
    Replica,
    Routing,
    Scheduling,
    Service,
    SwapPolicy,
)
from simulator.world.hardware import GPU, Device, Host
from simulator.world.model import Layer
from simulator.world.pipelines import (
    DECODE,
    ENCODE,
    Edge,
    FanOut,
    FanOutKind,
    ModelWork,
    Pipeline,
    PipelineStage,
    Station,
    StationWork,
)
from simulator.world.profile import AfterLoad, Doubt, Evidence, Profile
from simulator.world.workload import SLO, FixedRate, Gamma, Poisson, Stream, Workload

KIND = GPU(
    name="any",
    memory_bytes=16_000_000_000,
    memory_bytes_per_s=3e11,
    fp32_flops=1e13,
    tensor_fp16_flops=None,
    tdp_w=70,
    idle_w=10,
    pcie_bytes_per_s=1e10,
    nvlink_bytes_per_s=None,
    source="made up",
)


def one_of(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """As `rng.choice` has it, in a third of the time."""
    return options[rng.integers(len(options))]


def profile(rng: np.random.Generator, model: str) -> Profile:
    """Of any speed, growth with the batch and spread, exponential at most."""
    floor_s, slope_s = rng.uniform(0.001, 0.02), rng.uniform(0, 0.01)
    return Profile(
        model=model,
        gpu=KIND.name,
        precision="fp32",
        layers=(Layer(model, 10_000_000),),
        latency=Interpolated((1, 16), (floor_s, floor_s + 15 * slope_s)),
        latency_cv=float(one_of(rng, [0, 0.05, 0.5, 1])),
        workspace=Interpolated((1, 16), (1e6, 1e7)),
        load=LoadTime(0, 1e10),
        latency_evidence=Evidence.ASSUMED,
        memory_evidence=Evidence.ASSUMED,
        load_evidence=Evidence.ASSUMED,
        source="made up",
        as_of="2026-11-23",
    )


def service(rng: np.random.Generator, model: str, gpus: list[str]) -> Service:
    """On some of the GPUs, by any rule of batching and dropping."""
    of_one, chosen = profile(rng, model), [gpu for gpu in gpus if rng.random() < 0.7] or gpus[:1]
    replicas = tuple(
        Replica(
            profile=of_one,
            devices=(gpu,),
            batching=BatchingPolicy(
                max_batch_size=int(one_of(rng, [1, 2, 3, 4, 8, 16])),
                max_queue_delay_s=float(one_of(rng, [0, 0, 0.01, 0.1])),
                padded=bool(rng.random() < 0.2),
            ),
            share=float(one_of(rng, [1, 2])),
        )
        for gpu in chosen
    )
    drop = list(Drop)[rng.integers(len(Drop))]
    return Service(model=model, slo=SLO(float(rng.uniform(0.01, 0.3)), 0.95), replicas=replicas, drop=drop)


def stream(rng: np.random.Generator, model: str) -> Stream:
    """Cameras in step, apart or unsteady, and random traffic, from idle to overload."""
    rate_rps = float(rng.uniform(1, 60))
    arrivals = [
        FixedRate(rate_rps, None, 0.0),
        FixedRate(rate_rps, 0.0, 0.0),
        FixedRate(rate_rps, None, 0.01),
        Poisson(rate_rps),
        Gamma(rate_rps, 2.0),
    ]
    return Stream(model=model, arrivals=arrivals[rng.integers(len(arrivals))], count=int(rng.integers(1, 5)))


@cache
def world(seed: int) -> tuple[Deployment, Workload]:
    """One to three GPUs with one to six models."""
    rng = np.random.default_rng(seed)
    gpus = [f"gpu{i}" for i in range(rng.integers(1, 4))]
    models = [f"model{i}" for i in range(rng.integers(1, 7))]
    deployment = Deployment(
        services=tuple(service(rng, model, gpus) for model in models),
        devices=tuple(
            Device(id=gpu, gpu=KIND, host="host", memory_bytes=KIND.memory_bytes, context_bytes=0) for gpu in gpus
        ),
        hosts=(Host(id="host", memory_bytes=None, pcie_root_bytes_per_s=1e10),),
        scheduling=list(Scheduling)[rng.integers(len(Scheduling))],
    )
    return deployment, Workload(tuple(stream(rng, model) for model in models))


def routed(seed: int) -> tuple[Deployment, Workload]:
    """The same of one to six GPUs, where replicas draw from one queue, or get what a router sends; some models are
    dealt in turn. In every second world all takes a number of ticks, so that much happens at one instant; in every
    third batches wait to fill, and no router sends."""
    rng = np.random.default_rng([seed, 6])
    gpus, models = [f"gpu{i}" for i in range(rng.integers(1, 7))], [f"model{i}" for i in range(rng.integers(1, 6))]
    services, streams = [service(rng, model, gpus) for model in models], [stream(rng, model) for model in models]
    if seed % 2:
        services = [in_ticks(rng, one) for one in services]
        streams = [Stream(one.model, FixedRate(float(one_of(rng, [8, 32])), 0.0, 0.0), one.count) for one in streams]
    rules = [Routing.SHARED, Routing.SHARED, Routing.ROUND_ROBIN]
    if seed % 3:
        services = [at_once(one) for one in services]
        rules = [Routing.SHARED, Routing.LEAST_OUTSTANDING, Routing.LEAST_OUTSTANDING, Routing.ROUND_ROBIN]
    deployment = Deployment(
        services=tuple(replace(one, routing=one_of(rng, rules)) for one in services),
        devices=tuple(
            Device(id=gpu, gpu=KIND, host="host", memory_bytes=KIND.memory_bytes, context_bytes=0) for gpu in gpus
        ),
        hosts=(Host(id="host", memory_bytes=None, pcie_root_bytes_per_s=1e10),),
        scheduling=list(Scheduling)[rng.integers(len(Scheduling))],
    )
    return deployment, Workload(tuple(streams))


def at_once(one: Service) -> Service:
    """The same, whose batches never wait to fill."""
    return replace(
        one, replicas=tuple(replace(r, batching=replace(r.batching, max_queue_delay_s=0.0)) for r in one.replicas)
    )


def in_turns(seed: int) -> tuple[Deployment, Workload]:
    """The same with too little memory for all, each GPU on a host of its own: models come and go, some share layers,
    loads and batches hold each other up."""
    deployment, workload = world(seed)
    rng = np.random.default_rng([seed, 2])
    hosts = {device.id: f"host of {device.id}" for device in deployment.devices}
    return swapped(rng, deployment, hosts, [1e10, 6e9]), workload


def on_links(seed: int) -> tuple[Deployment, Workload]:
    """The same of one to three hosts, on each of which two to eight GPUs share a link, slow or not; some hold all their
    models. In every third world all GPUs are asked the same in step, so that much happens at one instant."""
    rng = np.random.default_rng([seed, 4])
    hosts = {f"gpu{i} of host{j}": f"host{j}" for j in range(rng.integers(1, 4)) for i in range(rng.integers(2, 9))}
    gpus, models = rng.permutation(list(hosts)).tolist(), [f"model{i}" for i in range(rng.integers(2, 7))]
    services, streams = [service(rng, model, gpus) for model in models], [stream(rng, model) for model in models]
    if seed % 3 == 0:
        services = [in_step(one, gpus) for one in services]
        steady = FixedRate(float(one_of(rng, [5, 10, 40])), 0.0, 0.0)
        streams = [Stream(model=model, arrivals=steady, count=2 * len(gpus)) for model in models]
    deployment = Deployment(
        services=tuple(services),
        devices=tuple(Device(id=gpu, gpu=KIND, host=hosts[gpu], memory_bytes=0, context_bytes=0) for gpu in gpus),
        hosts=(),
        scheduling=list(Scheduling)[rng.integers(len(Scheduling))],
    )
    deployment = swapped(rng, deployment, hosts, [1e9, 6e9, 1e10, 1e11])
    holds_all = [seed % 3 and rng.random() < 0.1 for _ in gpus]
    devices = [
        replace(d, memory_bytes=KIND.memory_bytes) if holds else d
        for d, holds in zip(deployment.devices, holds_all, strict=True)
    ]
    return replace(deployment, devices=tuple(devices)), Workload(tuple(streams))


TICK_S = 1 / 256
TICK_BYTES = 39_062_500
"""What comes in over a link of 1e10 bytes a second meanwhile."""
LAYERS = 6
"""Of which one, two or three GPUs hold equal parts."""


def in_stages(seed: int) -> tuple[Deployment, Workload]:
    """The same of one to three hosts with two to four GPUs, where most models are cut over some of them; some GPUs
    hold all their models. In every second world all takes a number of ticks, so that much happens at one instant."""
    rng = np.random.default_rng([seed, 5])
    hosts = {f"gpu{i} of host{j}": f"host{j}" for j in range(rng.integers(1, 4)) for i in range(rng.integers(2, 5))}
    gpus, models = rng.permutation(list(hosts)).tolist(), [f"model{i}" for i in range(rng.integers(2, 7))]
    services, streams = [service(rng, model, gpus) for model in models], [stream(rng, model) for model in models]
    deployment = Deployment(
        services=tuple(services),
        devices=tuple(Device(id=gpu, gpu=KIND, host=hosts[gpu], memory_bytes=0, context_bytes=0) for gpu in gpus),
        hosts=(),
        scheduling=list(Scheduling)[rng.integers(len(Scheduling))],
    )
    deployment = swapped(rng, deployment, hosts, [1e10] if seed % 2 else [1e9, 6e9, 1e10, 1e11])
    services = [cut(rng, one, hosts) for one in deployment.services]
    memory_bytes = deployment.devices[0].memory_bytes
    if seed % 2:
        services = [in_ticks(rng, one) for one in services]
        memory_bytes = int(rng.integers(LAYERS, 2 * LAYERS)) * TICK_BYTES + 10_000_000
        streams = [Stream(one.model, FixedRate(float(one_of(rng, [8, 32])), 0.0, 0.0), one.count) for one in streams]
    devices = [
        replace(device, memory_bytes=KIND.memory_bytes if rng.random() < 0.25 else memory_bytes)
        for device in deployment.devices
    ]
    return replace(deployment, services=tuple(services), devices=tuple(devices)), Workload(tuple(streams))


def over_hosts(seed: int) -> tuple[Deployment, Workload]:
    """The same, each GPU on a host of its own: no two share a link, and stages are handed from host to host."""
    deployment, workload = in_stages(seed)
    devices = tuple(replace(device, host=f"host of {device.id}") for device in deployment.devices)
    hosts = tuple(replace(deployment.hosts[0], id=device.host) for device in devices)
    return replace(deployment, devices=devices, hosts=hosts), workload


def cut(rng: np.random.Generator, one: Service, hosts: Mapping[str, str]) -> Service:
    """The same, each replica over up to three GPUs of its host."""
    sent_bytes = one_of(rng, [0, 1_000_000, TICK_BYTES])

    def over_some(replica: Replica) -> Replica:
        (first,) = replica.devices
        near = [gpu for gpu, host in hosts.items() if host == hosts[first] and gpu != first]
        others = rng.permutation(near)[: one_of(rng, [0, 1, 1, 2])].tolist()
        profile = replace(replica.profile, output_bytes_per_sample=sent_bytes)
        return replace(replica, devices=(first, *others), profile=profile)

    return replace(one, replicas=tuple(map(over_some, one.replicas)))


def in_ticks(rng: np.random.Generator, one: Service) -> Service:
    """The same, whose stages, loads and waits take a number of ticks."""
    low_s, high_s = sorted((rng.integers(1, 3, 2) * LAYERS * TICK_S).tolist())
    changed = replace(
        one.replicas[0].profile,
        layers=tuple(Layer(f"{one.model}{i}", TICK_BYTES) for i in range(LAYERS)),
        latency=Interpolated((1, 16), (low_s, high_s)),
        latency_cv=0.0,
        load=LoadTime(float(one_of(rng, [0, TICK_S])), 1e10),
        after_load=None,
    )

    def timed(replica: Replica) -> Replica:
        policy = replace(replica.batching, max_queue_delay_s=float(one_of(rng, [0, 0, 8 * TICK_S])))
        return replace(replica, profile=changed, batching=policy)

    return replace(one, replicas=tuple(map(timed, one.replicas)))


def in_step(one: Service, gpus: Sequence[str]) -> Service:
    """The same on all GPUs, which take equal shares in equal times."""
    first = one.replicas[0]
    profile = replace(first.profile, latency_cv=0.0)
    return replace(one, replicas=tuple(replace(first, profile=profile, devices=(gpu,), share=1.0) for gpu in gpus))


def swapped(
    rng: np.random.Generator, deployment: Deployment, hosts: Mapping[str, str], links_bytes_per_s: Sequence[float]
) -> Deployment:
    """The same with too little memory for all, on these hosts."""
    shared = tuple(Layer(f"shared{i}", int(rng.integers(1, 30)) * 1_000_000) for i in range(3))

    def swapping(replica: Replica) -> Replica:
        known = replica.profile
        own = tuple(Layer(f"{known.model}{i}", int(rng.integers(1, 80)) * 1_000_000) for i in range(rng.integers(1, 4)))
        both = [*own, *(layer for layer in shared if rng.random() < 0.3)]
        changed = replace(
            known,
            layers=tuple(both[i] for i in rng.permutation(len(both))),
            load=LoadTime(float(one_of(rng, [0, 0.002])), float(rng.uniform(5e9, 2e10))),
            after_load=AfterLoad(batch_ratio=1.3, load_ratio=1.2) if rng.random() < 0.5 else None,
            beside_load=float(one_of(rng, [1, 1.5, 2])),
        )
        return replace(replica, profile=changed)

    services = []
    for one in deployment.services:
        same = swapping(one.replicas[0]).profile
        services.append(replace(one, replicas=tuple(replace(r, profile=same) for r in one.replicas)))
    largest = max(r.profile.weight_bytes + r.profile.workspace(16) for one in services for r in one.replicas)
    memory_bytes = int(largest * rng.uniform(1, 2.5)) + 1
    devices = [replace(d, host=hosts[d.id], memory_bytes=memory_bytes) for d in deployment.devices]
    swap = SwapPolicy(eviction=list(Eviction)[rng.integers(len(Eviction))], prefetch=bool(rng.random() < 0.7))
    return replace(
        deployment,
        services=tuple(services),
        devices=tuple(devices),
        hosts=tuple(
            Host(id=host, memory_bytes=None, pcie_root_bytes_per_s=float(one_of(rng, links_bytes_per_s)))
            for host in dict.fromkeys(hosts.values())
        ),
        swap=swap,
    )


def doubted(deployment: Deployment, seed: int) -> Deployment:
    """The same where speeds are known only so well: predicted, or by a few sessions; and where power was measured."""
    rng = np.random.default_rng([seed, 1])

    def uncertain(replica: Replica) -> Replica:
        sds = Interpolated((1, 8), (float(rng.uniform(0.01, 0.3)), float(rng.uniform(0.01, 0.3))))
        changed = replace(
            replica.profile,
            doubt=Doubt(error_sd=sds, shared=float(rng.uniform())) if rng.random() < 0.6 else None,
            session_cv=float(one_of(rng, [0, 0.05])),
            busy_w=float(one_of(rng, [0, 60])) or None,
        )
        return replace(replica, profile=changed)

    services = (replace(one, replicas=tuple(map(uncertain, one.replicas))) for one in deployment.services)
    return replace(deployment, services=tuple(services))


def alike(deployment: Deployment) -> Deployment:
    """The same where replicas of a model have one profile, and no GPU is slower than others in a session."""

    def with_one(service: Service) -> Service:
        profile = replace(service.replicas[0].profile, session_cv=0.0)
        return replace(service, replicas=tuple(replace(replica, profile=profile) for replica in service.replicas))

    return replace(deployment, services=tuple(map(with_one, deployment.services)))


KINDS = (DECODE, ENCODE, "host")
"""Of stations."""


def fan_out(rng: np.random.Generator) -> FanOut:
    """Of any kind, from often none to many."""
    kind = list(FanOutKind)[rng.integers(len(FanOutKind))]
    return FanOut(float(one_of(rng, [0.4, 1, 1, 2.5, 3])), kind, (*rng.integers(0, 4, 2).tolist(), 1))


def stages(rng: np.random.Generator) -> tuple[PipelineStage, ...]:
    """One to six, each after none, one or several of those before; half of them at stations, of any time."""
    found: list[PipelineStage] = []
    for number in range(rng.integers(1, 7)):
        before = rng.permutation(number)[: one_of(rng, [0, 1, 1, 1, 2, 3])]
        edges = tuple(
            Edge(
                source=found[place].name,
                fan_out=fan_out(rng),
                share=float(one_of(rng, [1, 1, 0.5])),
                every=int(one_of(rng, [1, 1, 3])),
            )
            for place in before
        )
        at_station = StationWork(
            KINDS[rng.integers(len(KINDS))], float(one_of(rng, [0, 0.002, 0.01])), float(one_of(rng, [0, 0, 0.5]))
        )
        work = at_station if rng.random() < 0.5 else ModelWork()
        slo = SLO(0.1) if rng.random() < 0.3 else None
        found.append(PipelineStage(name=f"stage{number}", work=work, after=edges, slo=slo))
    return tuple(found)


def pipeline(rng: np.random.Generator, name: str) -> Pipeline:
    """Of any SLO; some keep the order of frames."""
    slo = SLO(float(one_of(rng, [0.05, 0.2, 2])))
    return Pipeline(name=name, stages=stages(rng), slo=slo, ordered=bool(rng.random() < 0.3))


def station(rng: np.random.Generator, kind: str, number: int) -> Station:
    """On a host of its number."""
    servers, speed = int(rng.integers(1, 4)), float(one_of(rng, [1, 2]))
    return Station(id=f"{kind}{number}", host=f"host{number}", kind=kind, servers=servers, speed=speed)


def piped(seed: int) -> tuple[Deployment, Workload]:
    """One or two pipelines on one to three GPUs and the stations of two hosts, without failures; at times a model that
    is asked for itself, on a GPU of its own."""
    rng = np.random.default_rng([seed, 3])
    pipelines = tuple(
        Pipeline(
            name=f"p{i}", stages=stages(rng), slo=SLO(float(one_of(rng, [0.05, 0.2, 2]))), ordered=rng.random() < 0.3
        )
        for i in range(rng.integers(1, 3))
    )
    gpus = [f"gpu{i}" for i in range(rng.integers(1, 4))]
    services = [
        replace(service(rng, one.name_of(stage), gpus), slo=one.slo_of(stage))
        for one in pipelines
        for stage in one.stages
        if isinstance(stage.work, ModelWork)
    ]
    if beside := rng.random() < 0.2:
        services.append(service(rng, "model", ["gpu of its own"]))
    stations = tuple(station(rng, kind, number) for kind in KINDS for number in range(rng.integers(1, 3)))
    deployment = Deployment(
        services=tuple(services),
        devices=tuple(
            Device(id=gpu, gpu=KIND, host="host0", memory_bytes=KIND.memory_bytes, context_bytes=0)
            for gpu in [*gpus, "gpu of its own"]
        ),
        hosts=tuple(Host(id=f"host{i}", memory_bytes=None, pcie_root_bytes_per_s=1e10) for i in range(2)),
        scheduling=SCHEDULINGS[rng.integers(len(SCHEDULINGS))],
        pipelines=pipelines,
        stations=stations,
    )
    asked = [one.name for one in pipelines for _ in range(rng.integers(1, 3))]
    return deployment, Workload(tuple(stream(rng, name) for name in asked + ["model"] * beside))
