"""Stability: whether a deployment would work off any backlog, whatever its policies, and how much load it is offered.

A queueing network is stable if its fluid limit drains from every start (Dai, Annals of Applied Probability 5, 1995).
Here the start is several full batches of every model, requests then come evenly spaced, and the simulator itself runs
the batches, loads of weights, pipeline stages and shared links. Where the order of requests decides how often weights
are loaded, they come in the order of the traffic. A queue that is busy all the time because it may run
small batches drains all the same; one that grows by a little a minute does not, however short the replay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from simulator.clock.metrics import SHRINKS, outstanding
from simulator.clock.records import Requests
from simulator.clock.replays.backlog import BACKLOG, Backlog, backlogs, in_order, ordered_s, watched_s
from simulator.clock.replays.places import plain_gpus
from simulator.clock.run import TURNS, Compiled, World, stages
from simulator.flow.rates import held_up, service_rates_rps, station_loads
from simulator.world.deployment import Deployment, Drop, Scheduling, Service
from simulator.world.workload import Workload

LOAD_MAX = 64.0
NEAR = 1.006
"""Loads closer to each other by this factor are one."""
KNOWN_BACKLOGS = 4
"""Deployments of which it is kept how machine code sees them: each is asked again and again at other rates."""
KNOWN_DRAINS = 256
"""Answers that are kept: a kilobyte each, beside deployments that the search holds anyway."""


@dataclass(frozen=True, slots=True)
class Drain:
    """What became of a backlog."""

    growing: tuple[str, ...]
    """Models whose backlog does not shrink; empty: the deployment is stable."""
    duration_s: float
    """Time that was watched."""


def drain(deployment: Deployment, rates_rps: Mapping[str, float], traffic: Workload | None = None) -> Drain:
    """Let a backlog of several full batches of each model meet evenly spaced requests at `rates_rps`, by model.

    Nothing is dropped, fails or varies: only means count here. One model at 90 rps in batches of 1 that take 10 ms is
    offered 0.9 erlangs and drains; at 100 rps it does not. Pipelines are another matter: their first stage forms the
    batches of all, so what comes evenly fills the later ones with small batches, and what comes in bursts does not.
    There requests come as in `traffic`, brought to the same rates; where `order_decides`, in its order. Stages of
    `deployment.pipelines` count as models of their own, each asked as often as its items come; those at stations grow
    where these are offered all they can do.
    """
    is_cut = any(len(replica.devices) > 1 for service in deployment.services for replica in service.replicas)
    if traffic is not None and (is_cut or order_decides(deployment)):
        return _watched(deployment, rates_rps, traffic)
    return _known(deployment, tuple(rates_rps.items()))


@lru_cache(maxsize=KNOWN_DRAINS)
def _known(deployment: Deployment, rates_rps: tuple[tuple[str, float], ...]) -> Drain:
    """The same of requests evenly spaced, looked up: a search asks again of most deployments that it tries."""
    return _watched(deployment, dict(rates_rps), None)


def _watched(deployment: Deployment, rates_rps: Mapping[str, float], traffic: Workload | None) -> Drain:
    """The same, in bursts where there is traffic."""
    if not deployment.services:
        return Drain(tuple(held_up(deployment, rates_rps, ())), 0.0)
    frames_rps, rates_rps = rates_rps, service_rates_rps(deployment, rates_rps)
    duration_s = watched_s(longest_round_s(deployment), rates_rps)
    compiled = Compiled.is_worth_it(duration_s * sum(rates_rps.values()))
    if compiled and (backlog := _backlog(deployment, tuple(rates_rps), TURNS.pays)):
        growing, duration_s = backlog.growing(rates_rps, traffic=traffic)
    else:
        growing, duration_s = _growing_on_the_clock(deployment, rates_rps, traffic, duration_s)
    return Drain((*growing, *held_up(deployment, frames_rps, growing)), duration_s)


@lru_cache(maxsize=KNOWN_BACKLOGS)
def _backlog(deployment: Deployment, models: Sequence[str], _turns_pay: bool) -> Backlog | None:
    """Looks into it by machine code, where that pays and is the same; asked anew once it pays for models that take
    turns."""
    gpus = plain_gpus(calmed(deployment), 1.0)
    return Backlog(gpus, models, order_decides=order_decides(deployment)) if gpus else None


def _growing_on_the_clock(
    deployment: Deployment, rates_rps: Mapping[str, float], traffic: Workload | None, duration_s: float
) -> tuple[tuple[str, ...], float]:
    """Models whose backlog grows, and the time that was watched."""
    calm = calmed(deployment)
    caps = {s.model: sum(r.batching.max_batch_size for r in s.replicas) for s in calm.services}
    if order_decides(deployment):
        duration_s = ordered_s(longest_round_s(deployment), rates_rps)
        demand, waiting, _ = in_order(traffic, rates_rps, duration_s, caps)
    else:
        waiting = {model: BACKLOG * cap for model, cap in caps.items()}
        demand = backlogs(traffic, rates_rps, duration_s, waiting)
    world = World(calm, demand, duration_s, seed=0)
    world.run()
    growing = tuple(model for model in demand if _grows(world.requests(model), waiting[model], duration_s))
    return growing, duration_s


def calmed(deployment: Deployment) -> Deployment:
    """The deployment without drops, failures and noise; stages of pipelines as models of their own."""

    def service(one: Service) -> Service:
        replicas = tuple(
            replace(r, profile=replace(r.profile, latency_cv=0.0, latency_factors=())) for r in one.replicas
        )
        return replace(one, replicas=replicas, drop=Drop.NEVER)

    services = tuple(map(service, deployment.services))
    return replace(deployment, services=services, failures=None, pipelines=(), stations=())


def order_decides(deployment: Deployment) -> bool:
    """Whether the order in which requests come decides how often weights are loaded: on some GPU models do not fit
    together, and do not run in turn. Of requests that come evenly each may ask for another model; of as many at random
    every second does."""
    return deployment.scheduling is not Scheduling.ROUND_ROBIN and bool(swapping(deployment))


def swapping(deployment: Deployment) -> set[str]:
    """GPUs whose models do not all fit together."""
    held: dict[str, dict[str, int]] = {device.id: {} for device in deployment.devices}
    most = dict.fromkeys(held, 0)
    for service in deployment.services:
        for replica in service.replicas:
            for name, stage in zip(replica.devices, stages(service, replica, deployment.swap, None), strict=True):
                held[name] |= {layer.key: layer.weight_bytes for layer in stage.layers}
                most[name] = max(most[name], stage.workspace_bytes)
    return {
        d.id for d in deployment.devices if d.context_bytes + sum(held[d.id].values()) + most[d.id] > d.memory_bytes
    }


def longest_round_s(deployment: Deployment) -> float:
    """Time in which the slowest GPU runs one full batch of each of its models, and loads the weights of each."""
    rounds_s = {device.id: 0.0 for device in deployment.devices}
    for service in deployment.services:
        for replica in service.replicas:
            parts = stages(service, replica, deployment.swap, None)
            for name, stage in zip(replica.devices, parts, strict=True):
                rounds_s[name] += stage.service_s[-1] + stage.load_s(stage.weight_bytes)
    return max(rounds_s.values())


def _grows(requests: Requests, waiting: int, duration_s: float) -> bool:
    """Whether neither most of the backlog is gone at the end nor it was shrinking in the second half."""
    late = outstanding(requests, 0.8 * duration_s, duration_s)
    if late <= waiting / 2:
        return False
    return late > SHRINKS * outstanding(requests, 0.4 * duration_s, 0.6 * duration_s)


def compute_load(deployment: Deployment, rates_rps: Mapping[str, float]) -> float:
    """Share of its time that the busiest GPU computes in full batches, or that the busiest stations work.

    90 rps in batches of 1 that take 10 ms: 0.9.
    """
    loads = station_loads(deployment, rates_rps)
    return max(*compute_loads(deployment, rates_rps).values(), *loads.values(), 0.0)


def compute_loads(deployment: Deployment, rates_rps: Mapping[str, float]) -> dict[str, float]:
    """Share of its time that each GPU computes in full batches."""
    rates_rps = service_rates_rps(deployment, rates_rps)
    busy = {device.id: 0.0 for device in deployment.devices}
    for service in deployment.services:
        shares = sum(replica.share for replica in service.replicas)
        for replica in service.replicas:
            batches_per_s = rates_rps[service.model] * replica.share / shares / replica.batching.max_batch_size
            for name, stage in zip(replica.devices, stages(service, replica, deployment.swap, None), strict=True):
                busy[name] += batches_per_s * stage.service_s[-1]
    return busy


def offered_load(deployment: Deployment, rates_rps: Mapping[str, float], traffic: Workload | None = None) -> float:
    """Demand over the most that the deployment could bear, all models alike: above 1 some queue grows without end.

    Found by halving to one percent, from what is computed on. One model at 90 rps in batches of 1 that take 10 ms: 0.9.
    """

    def drains(load: float) -> bool:
        return not drain(deployment, {model: rate / load for model, rate in rates_rps.items()}, traffic).growing

    guess = max(compute_load(deployment, rates_rps), 1 / LOAD_MAX)
    low, high = guess / NEAR, guess * NEAR
    while high < LOAD_MAX and not drains(high):
        low, high = high, 1.5 * high
    while low > 1 / LOAD_MAX and drains(low):
        low, high = low / 1.5, low
    while high > NEAR**2 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if drains(middle) else (middle, high)
    return float((low * high) ** 0.5)
