"""Outages in the long run: which hosts are away together for how much of the time, and what is late for it.

`docs/concepts.md` has the formulas.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations_with_replacement, islice
from math import comb, prod

from simulator.clock.metrics import slos_s
from simulator.clock.run import stages
from simulator.clock.stability import compute_loads, offered_load
from simulator.grouping import grouped
from simulator.world.deployment import Deployment, Drop, Replica, Routing, Service
from simulator.world.hardware import Device
from simulator.world.pipelines import ENGINES, ModelWork, Pipeline, StationWork

STATES_MAX = 24
"""Sets of hosts that are away, those that do the same once, which are replayed: each is one replay more of a draw."""
REST = 0.02
"""Part of what an SLO lets be late that the states come to which are not replayed: in these all counts as late."""
LATE_MIN = 1e-6
"""What may be late of an SLO of 100 %, by which states are chosen: no fleet that fails meets it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A replica: what is late there when one of its hosts fails."""

    hosts: frozenset[str]
    share: float
    """Of the model's requests."""
    late_s: float
    """Time whose requests are late, if nobody takes them over: until the host is back, holds its weights, and has
    worked off what waited."""
    caught_s: float
    """Time whose requests wait or run there at any moment: a failure catches them."""
    load_s: float
    """Time until a host that is back holds its weights again."""


class Outages:
    """What failing hosts cost each model of a deployment in the long run."""

    def __init__(self, deployment: Deployment, rates_rps: Mapping[str, float]) -> None:
        assert deployment.failures is not None
        self.calm, self.failures = replace(deployment, failures=None), deployment.failures
        self.rates_rps = rates_rps
        self.slo_s = slos_s(deployment)
        self.host_of = {device.id: device.host for device in deployment.devices}

    @property
    def cycle_s(self) -> float:
        """From one failure of a host to the next."""
        return self.failures.mean_time_between_s + self.failures.recovery_s

    @property
    def away(self) -> float:
        """Share of the time in which a host is away. 5 min after 12 h: 0.69 %."""
        return self.failures.recovery_s / self.cycle_s

    @cached_property
    def up_share(self) -> float:
        """Of the time in which no host that holds anything is away."""
        return float((1 - self.away) ** sum(map(len, self._alike)))

    @property
    def drops(self) -> bool:
        """Whether what comes too late is dropped."""
        return all(service.drop is not Drop.NEVER for service in self.calm.services)

    # What waits for one host

    @cached_property
    def _parts(self) -> dict[str, list[Part]]:
        """By service."""
        return {service.model: [self._part(service, one) for one in service.replicas] for service in self.calm.services}

    def _part(self, service: Service, replica: Replica) -> Part:
        hosts = frozenset(self.host_of[device] for device in replica.devices)
        load_s = max(sum(self._load_s[device] for device in self.host_of if self.host_of[device] == h) for h in hosts)
        # Of the time in which it is up: what earlier outages left is worked off then, too.
        load = max(self._loads[device] for device in replica.devices) / (1 - self.away)
        idle = max(1 - load, 1e-9)
        run_s = max(self._runs_s[device] for device in replica.devices)
        waits_s = run_s * (1 + load / (2 * idle))
        away_s = self.failures.recovery_s + load_s
        if service.drop in (Drop.NEWEST, Drop.NEWEST_AND_LATE):  # whatever waits makes way
            waits_s, late_s = run_s, away_s
        else:
            late_s = max(0.0, away_s + waits_s - service.slo.latency_s)
        return Part(
            hosts=hosts,
            share=replica.share / sum(one.share for one in service.replicas),
            late_s=late_s if self.drops else late_s / idle,
            load_s=load_s,
            caught_s=min(waits_s, service.slo.latency_s, self.failures.recovery_s),
        )

    @cached_property
    def _runs_s(self) -> dict[str, float]:
        """By GPU: the longest batch of those that run there."""
        found: dict[str, float] = {}
        for service in self.calm.services:
            for replica in service.replicas:
                run_s = replica.profile.latency(replica.batching.max_batch_size)
                found |= {device: max(run_s, found.get(device, 0.0)) for device in replica.devices}
        return found

    @cached_property
    def _loads(self) -> dict[str, float]:
        """By GPU, of full batches, and of loads of weights where models take turns in memory."""
        loads = compute_loads(self.calm, self.rates_rps)
        most = max(loads.values(), default=0.0)
        more = max(1.0, offered_load(self.calm, self.rates_rps) / most) if most and not self.drops else 1.0
        return {device: more * load for device, load in loads.items()}

    @cached_property
    def _load_s(self) -> dict[str, float]:
        """By GPU: the time in which it loads all its weights."""
        found = dict.fromkeys(self.host_of, 0.0)
        for service in self.calm.services:
            for replica in service.replicas:
                for device, stage in zip(replica.devices, stages(service, replica, self.calm.swap, None), strict=True):
                    found[device] += stage.load_s(stage.weight_bytes)
        return found

    def _parts_of(self, model: str) -> list[tuple[Part, float]]:
        """Replicas that a model or a pipeline works on, each with its items a request."""
        pipeline = self._pipelines.get(model)
        if pipeline is None:
            return [(part, 1.0) for part in self._parts[model]]
        items = pipeline.items_per_frame
        works = [one for one in pipeline.stages if isinstance(one.work, ModelWork)]
        of_stages = [(part, max(1.0, items[one.name])) for one in works for part in self._parts[pipeline.name_of(one)]]
        return [*of_stages, *((part, 1.0) for part in self._engines(pipeline))]

    @cached_property
    def _pipelines(self) -> dict[str, Pipeline]:
        return {one.name: one for one in self.calm.pipelines}

    def _engines(self, pipeline: Pipeline) -> Iterator[Part]:
        """Engines for video, at which a source stays."""
        late_s = max(0.0, self.failures.recovery_s - pipeline.slo.latency_s)
        for kind in filter(pipeline.uses, ENGINES):
            mine = [station for station in self.calm.stations if station.kind == kind]
            can = sum(station.capacity for station in mine)
            for station in mine:
                yield Part(frozenset({station.host}), station.capacity / can, late_s, 0.0, 0.0)

    def late_if_dealt(self, model: str) -> float:
        """The share of requests that are late where nobody takes over what a host is asked that is away."""
        shares: dict[str, float] = {}
        late_s: dict[str, float] = {}
        for part, items in self._parts_of(model):
            for host in part.hosts:
                shares[host] = shares.get(host, 0.0) + part.share * items
                late_s[host] = max(late_s.get(host, 0.0), part.late_s + (part.caught_s if part.late_s else 0.0))
        late = sum(min(1.0, share) * late_s[host] for host, share in shares.items())
        return min(1.0, late / self.cycle_s)

    # What others take over

    @cached_property
    def is_dealt(self) -> bool:
        """Whether nobody takes anything over: then no host has more to do than else."""
        taken_over = (one.model for one in self.calm.services if one.routing is not Routing.ROUND_ROBIN)
        return all(len(frozenset(chain(*(part.hosts for part in self._parts[one])))) == 1 for one in taken_over)

    def is_on_one(self, model: str) -> bool:
        """Whether one host alone serves a model."""
        return len(frozenset(chain(*(part.hosts for part, _ in self._parts_of(model))))) == 1

    def late_beside(self, model: str) -> float:
        """The share that is late besides what replays of states show: caught by a failure, or sent to a host that still
        loads; of what no other host serves what is worked off later; and frames whose source stays at its engine."""
        late_s = sum(part.share * (part.caught_s + part.load_s) for part, _ in self._parts_of(model))
        if self.is_on_one(model):
            late_s += max(0.0, max(part.late_s for part, _ in self._parts_of(model)) - self.failures.recovery_s)
        elif pipeline := self._pipelines.get(model):
            late_s += sum(part.share * part.late_s for part in self._engines(pipeline))
        return late_s / self.cycle_s

    def states(self) -> Iterator[tuple[frozenset[str], float]]:
        """Hosts that are away and the share of the time in which just so many like them are, until the rest does not
        matter or they are too many."""
        groups, away = self._alike, self.away
        used = sum(map(len, groups))
        rest = 1 - self.up_share
        may_be_late = min(1 - self.asked_share(model) for model in self.rates_rps)
        for chosen in islice(_choices(groups), STATES_MAX):
            if rest <= REST * max(may_be_late, LATE_MIN):
                return
            ways = prod(comb(len(groups[group]), n) for group, n in Counter(chosen).items())
            share = ways * away ** len(chosen) * (1 - away) ** (used - len(chosen))
            rest -= share
            hosts = (groups[group][: chosen.count(group)] for group in dict.fromkeys(chosen))
            yield frozenset(chain(*hosts)), share

    def asked_share(self, model: str) -> float:
        """The share of requests that must be in time."""
        pipeline = self._pipelines.get(model)
        slos = {service.model: service.slo for service in self.calm.services}
        return (pipeline.slo if pipeline else slos[model]).attainment

    @cached_property
    def _alike(self) -> list[list[str]]:
        """Hosts that hold the same, together; without such as hold nothing."""
        places = {device.id: str(place) for place, device in self._in_hosts()}
        held: dict[str, list[object]] = {host.id: [] for host in self.calm.hosts}
        for service in self.calm.services:
            for replica in service.replicas:
                there = replace(replica, devices=tuple(places[device] for device in replica.devices))
                for host in {self.host_of[device] for device in replica.devices}:
                    held[host].append((service.model, there))
        for station in self.calm.stations:
            held[station.host].append(replace(station, id="", host=""))
        gpus: dict[str, list[object]] = {host: [] for host in held}
        for _, device in self._in_hosts():
            gpus[device.host].append(replace(device, id="", host=""))
        return list(grouped(((*held[host], *gpus[host]), host) for host in held if held[host]).values())

    def _in_hosts(self) -> Iterator[tuple[int, Device]]:
        """GPUs, each with its place in its host."""
        seen: Counter[str] = Counter()
        for device in self.calm.devices:
            yield seen[device.host], device
            seen[device.host] += 1


def _choices(groups: Sequence[Sequence[str]]) -> Iterator[tuple[int, ...]]:
    """Numbers of groups, one for each host that is away: one host first, then two, and so on to all."""
    for away in range(1, sum(map(len, groups)) + 1):
        for chosen in combinations_with_replacement(range(len(groups)), away):
            if all(n <= len(groups[group]) for group, n in Counter(chosen).items()):
                yield chosen


def without(deployment: Deployment, away: frozenset[str]) -> Deployment:
    """What is left without some hosts: models that have a replica, and pipelines of which each stage has a place."""
    host_of = {device.id: device.host for device in deployment.devices}
    left = [replace(service, replicas=_left(service, host_of, away)) for service in deployment.services]
    stations = tuple(one for one in deployment.stations if one.host not in away)
    places = {one.model for one in left if one.replicas} | {one.kind for one in stations}
    pipelines = tuple(one for one in deployment.pipelines if places >= _places_of(one))
    of_pipelines = {one.name_of(stage) for one in deployment.pipelines for stage in one.stages}
    kept = {one.name_of(stage) for one in pipelines for stage in one.stages}
    return replace(
        deployment,
        services=tuple(one for one in left if one.replicas and (one.model not in of_pipelines or one.model in kept)),
        devices=tuple(one for one in deployment.devices if one.host not in away),
        hosts=tuple(one for one in deployment.hosts if one.id not in away),
        pipelines=pipelines,
        stations=stations,
    )


def _left(service: Service, host_of: Mapping[str, str], away: frozenset[str]) -> tuple[Replica, ...]:
    """Replicas that no host takes with it."""
    return tuple(one for one in service.replicas if not any(host_of[device] in away for device in one.devices))


def _places_of(pipeline: Pipeline) -> set[str]:
    """Services and kinds of stations at which its stages work."""
    return {one.work.station if isinstance(one.work, StationWork) else pipeline.name_of(one) for one in pipeline.stages}
