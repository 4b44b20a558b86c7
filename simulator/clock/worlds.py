"""Worlds: one deployment replayed again and again, with what all its replications have in common built once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from math import nan
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulator.clock.metrics import Summary, Tally, attainments, device_metrics, finished_latency_s, summarise, total
from simulator.clock.records import SimulationResult
from simulator.clock.replays.arrivals import ARRIVALS
from simulator.clock.replays.backlog import Backlog
from simulator.clock.replays.places import Place, Places, PlainGpus, plain_gpus
from simulator.clock.run import ITEMS, TURNS, Compiled, no_search_for_cycles, nobody_fails, replicate
from simulator.clock.stability import compute_load, drain, order_decides
from simulator.machine_code import cores
from simulator.rules.latencies import Counts, counts_of
from simulator.rules.noise import NoiseOfWorlds
from simulator.rules.speeds import Costs, Speeds
from simulator.world.deployment import Deployment
from simulator.world.workload import Demand, Floats, Workload

Seen = TypeVar("Seen")
THREADS_MAX = 8
"""Worlds that are replayed side by side at most: so many come between two looks at how often SLOs were broken."""
REQUESTS_FOR_THREADS = 200_000
"""Requests that are worth another thread: 5 ms of work. To start it and to share Python with it takes 0.5 ms."""


@dataclass(frozen=True, slots=True)
class WorldFigures:
    """What one replication showed."""

    summary: Summary
    requests: int
    latency_counts: Mapping[str, Counts]
    """By model: the latencies of requests that came after the warm-up and finished, in bins."""
    growing: tuple[str, ...]
    """Models whose queues grow without end at the speeds of this world; empty where speeds are known."""
    load: float
    """Share of its time that the busiest GPU computes in full batches, or the busiest stations work; NaN where speeds
    are known."""
    wall_s: float
    in_time_up: Mapping[str, float] = field(default_factory=dict)
    """By model the share in time while all hosts are up, where outages count by their mean over time; else empty."""


class Shares(NamedTuple):
    """What many replications showed of whether SLOs are met."""

    in_time: Mapping[str, Floats]
    """By model the share of requests answered within the SLO, by replication; NaN where none was judged."""
    growing: tuple[tuple[str, ...], ...]
    """As of `WorldFigures`, by replication."""
    load: Floats
    """As of `WorldFigures`, by replication."""
    requests: int
    """That came in all."""

    def at(self, places: NDArray[np.intp]) -> "Shares":
        """Those of some replications, one after the other; no request counts."""
        in_time = {model: share[places] for model, share in self.in_time.items()}
        return Shares(in_time, tuple(self.growing[place] for place in places.tolist()), self.load[places], 0)

    def and_more(self, more: "Shares") -> "Shares":
        """The same and further replications, of the models that are named here."""
        in_time = {model: np.append(share, more.in_time[model]) for model, share in self.in_time.items()}
        load = np.append(self.load, more.load)
        return Shares(in_time, self.growing + more.growing, load, self.requests + more.requests)

    def with_others(self, at: NDArray[np.intp], others: "Shares") -> "Shares":
        """The same with other replications at some places; all requests count."""
        growing = dict(zip(at.tolist(), others.growing, strict=True))
        load = self.load.copy()
        load[at] = others.load
        in_time = {model: share.copy() for model, share in self.in_time.items()}
        for model, share in others.in_time.items():
            in_time[model][at] = share
        all_growing = tuple(growing.get(i, mine) for i, mine in enumerate(self.growing))
        return Shares(in_time, all_growing, load, self.requests + others.requests)


def shares_of(seen: Sequence[WorldFigures]) -> Shares:
    """Of replications with all their figures, what says whether SLOs are met."""
    return Shares(
        {
            model: np.array([one.summary.models[model].slo_attainment for one in seen])
            for model in seen[0].summary.models
        },
        tuple(one.growing for one in seen),
        np.array([one.load for one in seen]),
        sum(one.requests for one in seen),
    )


class Worlds:
    """Replications of one deployment, equal to those of `simulator.clock.run.simulate` to the last bit."""

    def __init__(
        self,
        deployment: Deployment,
        workload: Workload,
        duration_s: float,
        warmup_s: float,
        rates_rps: Mapping[str, float],
    ) -> None:
        self.deployment = deployment
        self.workload = workload
        self.duration_s = duration_s
        self.warmup_s = warmup_s
        self.rates_rps = rates_rps
        """Requests of each model that must be processed in the long run."""
        self._made: dict[bool, PlainWorlds | None] = {}

    def result(self, seed: int) -> SimulationResult:
        """One replication with all its records."""
        demand = ARRIVALS.of(self.workload, self.duration_s, seed)
        return replicate(self.deployment, demand, self.duration_s, seed)

    def lasting(self, duration_s: float, warmup_s: float) -> "Worlds":
        """The same, as long as that."""
        return Worlds(self.deployment, self.workload, duration_s, warmup_s, self.rates_rps)

    def in_time_at_most(self, model: str) -> float:
        """The share of a model's requests in time where no replay shows one that is late."""
        return 1.0

    @property
    def judged_s(self) -> float:
        """Time whose requests count."""
        return self.duration_s - self.warmup_s

    @property
    def apart(self) -> "Worlds":
        """The same without the room that replications take, to be kept for later."""
        return self.lasting(self.duration_s, self.warmup_s)

    def seen(self, seeds: Sequence[int]) -> Iterator[WorldFigures]:
        """Replications by their figures alone, in this order; on the clock one when it is asked for."""
        if self.deployment.failures:
            calm = iter(self._without_failures.seen([seed for seed in seeds if self._is_calm(seed)]))
            yield from (next(calm) if self._is_calm(seed) else self.figures(self.result(seed)) for seed in seeds)
        elif self._pays(len(seeds)) and self._plain:
            yield from self._plain.seen(seeds)
        else:
            yield from self._each(seeds, self.figures)

    def recorded(self, seeds: Sequence[int]) -> Iterator[tuple[WorldFigures, SimulationResult]]:
        """The same with all records of each."""
        results = map(self.result, seeds)
        if self._pays(len(seeds)) and self._plain:
            yield from zip(self._plain.seen(seeds), results, strict=True)
        else:
            yield from ((self.figures(result), result) for result in results)

    def shares(self, seeds: Sequence[int]) -> "Shares":
        """Replications by what says whether SLOs are met."""
        if self.deployment.failures:
            return shares_of(list(self.seen(seeds)))
        if self._pays(len(seeds)) and self._plain:
            return self._plain.shares(seeds)
        in_time, growing, load, requests = zip(*self._each(seeds, self._shares), strict=True)
        by_model = {model: np.array([one[model] for one in in_time]) for model in in_time[0]}
        return Shares(by_model, growing, np.array(load), sum(requests))

    def _shares(self, result: SimulationResult) -> tuple[Mapping[str, float], tuple[str, ...], float, int]:
        load, growing = self._offered(result)
        return attainments(result, self.warmup_s), growing, load, result.request_count

    def _each(self, seeds: Sequence[int], look: Callable[[SimulationResult], Seen]) -> Iterator[Seen]:
        """What is seen of each world: of pipelines in machine code, several are replayed side by side."""
        requests = len(seeds) * self.duration_s * sum(self.workload.rates_rps().values())
        runs_compiled = self.deployment.pipelines and not self.deployment.failures and ITEMS.pays
        if not runs_compiled or requests < REQUESTS_FOR_THREADS:
            yield from (look(self.result(seed)) for seed in seeds)
            return
        demands = [ARRIVALS.of(self.workload, self.duration_s, seed) for seed in seeds]

        def replay(seed: int, demand: Mapping[str, Demand]) -> Seen:
            return look(replicate(self.deployment, demand, self.duration_s, seed))

        with no_search_for_cycles(), ThreadPoolExecutor(min(len(seeds), THREADS_MAX, cores())) as pool:
            found = list(pool.map(replay, seeds, demands))
        yield from found

    def _pays(self, replications: int) -> bool:
        """Whether so many are worth fetching machine code."""
        each = self.duration_s * sum(self.workload.rates_rps().values())
        return Compiled.is_worth_it(replications * each)

    def figures(self, result: SimulationResult) -> WorldFigures:
        """Those of a replication."""
        load, growing = self._offered(result)
        return WorldFigures(
            summary=summarise(result, self.warmup_s),
            requests=result.request_count,
            latency_counts={m: counts_of(finished_latency_s(r, self.warmup_s)) for m, r in result.requests.items()},
            growing=growing,
            load=load,
            wall_s=result.wall_s,
        )

    def _offered(self, result: SimulationResult) -> tuple[float, tuple[str, ...]]:
        """The load of a world, and models whose queues grow there; where speeds are known, nothing is worked
        out."""
        if not self.deployment.doubted:
            return nan, ()
        if Compiled.is_worth_it() and self._plain:
            return self._plain.offered(result.seed, bool(result.loads))
        world = result.deployment
        load = compute_load(world, self.rates_rps)
        plain = not result.loads and all(len(r.devices) == 1 for service in world.services for r in service.replicas)
        return load, () if plain and load < 1 else drain(world, self.rates_rps, self.workload).growing

    @cached_property
    def _without_failures(self) -> "Worlds":
        deployment = replace(self.deployment, failures=None)
        return Worlds(deployment, self.workload, self.duration_s, self.warmup_s, self.rates_rps)

    @cached_property
    def _is_calm(self) -> Callable[[int], bool]:
        """Whether all hosts are up in a replication."""
        return cache(partial(nobody_fails, self.deployment, self.duration_s))

    @property
    def _plain(self) -> "PlainWorlds | None":
        """All GPUs in machine code; None where somebody can disturb one of them, or until it pays for models that take
        turns or are cut into stages."""
        if TURNS.pays not in self._made:
            gpus = plain_gpus(self.deployment, self.duration_s)
            self._made[TURNS.pays] = PlainWorlds(self.apart, gpus) if gpus else None
        return self._made[TURNS.pays]


class _Loads(NamedTuple):
    """What loading weights came to on one GPU."""

    stalled_s: float = 0.0
    times: int = 0
    most_bytes: int = 0


class _Seen(NamedTuple):
    """What a world adds up to, and how many requests came in it."""

    sums: Any
    requests: int
    loads: dict[int, _Loads]
    """By number of the GPU, of `PlainGpus.joined`."""


class _World(NamedTuple):
    """What one world is."""

    come: Any
    """Its requests."""
    service_s: Floats
    watts: Floats
    noise: Callable[[int, int, np.random.Generator], Floats] | None
    """The first factors of a queue, so many; None where no batches have noise."""


class PlainWorlds:
    """Worlds of a deployment whose GPUs nobody disturbs: all of them in one go, several side by side.

    What machine code does is all that threads do, so what comes out does not depend on how many there are.
    """

    def __init__(self, worlds: Worlds, gpus: PlainGpus) -> None:
        self.worlds, self.plain = worlds, gpus
        self.code, self.adding, self.rule = gpus.code, gpus.adding, gpus.rule
        self.gpus, self.queues, self.joined = gpus.gpus, gpus.queues, gpus.joined
        self.kinds = {device.id: device.gpu for device in worlds.deployment.devices}
        self.mine = {model: sorted(own) for model, own in gpus.stages.items()}
        self.models = list(worlds.workload.rates_rps())
        self.places = Places(gpus, self.models)
        self.doubted = worlds.deployment.doubted
        self.peak_bytes = [max(gpu.memory_used) for gpu in self.gpus]

    def seen(self, seeds: Sequence[int]) -> Iterator[WorldFigures]:
        """Replications by their figures."""
        began_s = perf_counter()
        costs = self._costs(seeds)
        seen = self._each(seeds, costs, self._added_up)
        each_s = (perf_counter() - began_s) / len(seeds)
        for number, (sums, requests, loads) in enumerate(seen):
            began_s = perf_counter()
            summary = self._summary(sums, loads)
            counts = dict(zip(self.models, sums.bins, strict=True))
            load, growing = self._offered(costs.service_s[number], any(one.times for one in loads.values()))
            yield WorldFigures(summary, requests, counts, growing, load, each_s + perf_counter() - began_s)

    def shares(self, seeds: Sequence[int]) -> Shares:
        """Replications by what says whether SLOs are met."""
        if self.joined:
            return shares_of(list(self.seen(seeds)))
        costs = self._costs(seeds)
        judged, in_time, requests = zip(*self._each(seeds, costs, self._judged), strict=True)
        with np.errstate(invalid="ignore"):
            by_model = (np.array(in_time) / np.array(judged)).T
        offered = [self._offered(service_s, loads=False) for service_s in costs.service_s]
        load, growing = zip(*offered, strict=True)
        return Shares(dict(zip(self.models, by_model, strict=True)), growing, np.array(load), sum(requests))

    def offered(self, seed: int, loads: bool) -> tuple[float, tuple[str, ...]]:
        """The load of a world, and models whose queues grow there, if weights were loaded meanwhile or not."""
        return self._offered(self._costs([seed]).service_s[0], loads)

    def _offered(self, service_s: Floats, loads: bool) -> tuple[float, tuple[str, ...]]:
        """The same by how long batches take; where speeds are known, nothing is worked out."""
        if not self.doubted:
            return nan, ()
        load = self._load(service_s)
        if load < 1 and not loads and not self.plain.cut:
            return load, ()
        traffic = self.worlds.workload if self.plain.cut or self._backlog.order_decides else None
        return load, self._backlog.growing(self.worlds.rates_rps, service_s, traffic)[0]

    @cached_property
    def _speeds(self) -> Speeds:
        return Speeds(self.plain.replicas, self.kinds)

    @cached_property
    def _known_costs(self) -> tuple[Floats, Floats]:
        known = self._speeds.costs([None])
        return self.plain.parted(known.service_s), known.watts

    def _costs(self, seeds: Sequence[int]) -> Costs:
        """How long batches take, and what GPUs draw meanwhile; the same in all worlds where speeds are known."""
        if self.doubted:
            drawn = self._speeds.costs(seeds)
            return Costs(self.plain.parted(drawn.service_s), drawn.watts)
        return Costs(*(np.repeat(known, len(seeds), axis=0) for known in self._known_costs))

    def _each(self, seeds: Sequence[int], costs: Costs, replayed: "Callable[[Place, _World], Seen]") -> "list[Seen]":
        """What is seen of each world."""
        workload, duration_s = self.worlds.workload, self.worlds.duration_s
        coming = ARRIVALS.coming(workload, duration_s, seeds)
        noise = NoiseOfWorlds.of([gpu.queues for gpu in self.gpus], seeds) if self.plain.noisy else None
        worlds = [
            _World(
                self.code.Coming(one.rate_rps, one.given_s, one.begin),
                costs.service_s[number],
                costs.watts[number],
                partial(noise.first, number) if noise else None,
            )
            for number, one in enumerate(coming)
        ]
        most = np.array([one.most for one in coming])
        return self.places.with_room(partial(self._side_by_side, worlds, most, replayed))

    def _side_by_side(
        self, worlds: "Sequence[_World]", most: Counts, replayed: "Callable[[Place, _World], Seen]"
    ) -> "list[Seen]":
        """The same of worlds that are dealt to threads in turn, with so many requests of each model at most."""
        threads = min(len(worlds), THREADS_MAX, cores()) if most.sum() >= REQUESTS_FOR_THREADS else 1
        places = self.places.wide_enough(most.max(axis=0), threads)
        found: dict[int, Seen] = {}

        def replay(thread: int) -> None:
            for number in range(thread, len(worlds), threads):
                found[number] = replayed(places[thread], worlds[number])

        if threads == 1:
            replay(0)
        else:
            with ThreadPoolExecutor(threads - 1) as pool:
                others = [pool.submit(replay, thread) for thread in range(1, threads)]
                replay(0)
                for other in others:
                    other.result()
        return [found[number] for number in range(len(worlds))]

    def _added_up(self, place: Place, world: "_World") -> "_Seen":
        """What one world adds up to."""
        sums = self.adding.emptied(place.sums, world.watts)
        loads: dict[int, _Loads] = {}

        def replay(columns: Any) -> int:
            if self.joined:
                return self._serve_in_turns(place, columns, world, loads)
            code = self.adding
            return self._step(place, world, columns, sums, code.COME | code.SERVE | code.ADD_UP)

        columns = self._with_enough_factors(place, world, replay)
        if self.joined:
            self._step(place, world, columns, sums, self.adding.ADD_UP)
        return _Seen(sums._replace(room=None), int(place.requests.begin[-1]), loads)

    def _judged(self, place: Place, world: "_World") -> tuple[Counts, Counts, int]:
        """Of one world, by model: requests that are judged, and those of them in time; and how many came in all."""
        code, counts = self.adding, place.sums.counts
        steps = code.COME | code.SERVE | code.JUDGE
        self._with_enough_factors(place, world, lambda columns: self._step(place, world, columns, place.sums, steps))
        return counts[:, code.JUDGED].copy(), counts[:, code.IN_TIME].copy(), int(place.requests.begin[-1])

    def _step(self, place: Place, world: "_World", columns: Any, sums: Any, steps: int) -> int:
        """Take these steps with a world. -1, or a queue that is short of factors."""
        short = self.adding.replay(
            self.places.layout,
            world.come,
            self.adding.NO_BACKLOG,
            place.requests,
            columns,
            sums,
            self.rule,
            self.worlds.warmup_s,
            self.worlds.duration_s,
            steps,
        )
        return int(short)

    def _with_enough_factors(self, place: Place, world: "_World", replay: Callable[[Any], int]) -> Any:
        """Replay a world, with more factors for a queue of which it says that it is short of them, until it does not;
        the columns then."""
        wanted = self.plain.noisy
        one_s = world.service_s[wanted, 1]
        place.stock_for(wanted, one_s)
        own_s = world.service_s
        answer_s = self.plain.answers(own_s)
        columns = place.columns._replace(service_s=own_s, answer_s=answer_s, longest_s=answer_s.max(axis=1))
        while True:
            if world.noise:
                for number in wanted:
                    stock = int(columns.stock[number])
                    columns.factors[number, :stock] = world.noise(number, stock, place.rng)
            short = replay(columns)
            if short < 0:
                place.learn_use(self.plain.noisy, one_s)
                return columns
            columns = columns._replace(factors=place.stock_up(short))
            wanted = [short]

    def _serve_in_turns(self, place: Place, columns: Any, world: "_World", loads: dict[int, _Loads]) -> int:
        """Where models take turns in memory or are cut into stages: what loading came to, in `loads`. -1, or a queue
        that is short of factors."""
        self._step(place, world, columns, place.sums, self.adding.COME)
        short, seen = self.places.serve_in_turns(place, columns, self.worlds.duration_s)
        loads |= {number: _Loads(*figures) for number, figures in seen.items()}
        return short

    @cached_property
    def _backlog(self) -> Backlog:
        models, deployment = tuple(self.worlds.rates_rps), self.worlds.deployment
        return Backlog(self.plain, models, order_decides=order_decides(deployment))

    @cached_property
    def _batches_per_s(self) -> Floats:
        """Of each queue, by model and replica, were all its batches full."""
        rates_rps = [
            self.worlds.rates_rps[service.model] * replica.share / sum(one.share for one in service.replicas)
            for service in self.worlds.deployment.services
            for replica in service.replicas
            for _ in replica.devices
        ]
        return np.array(rates_rps) / self.plain.caps

    def _load(self, service_s: Floats) -> float:
        """Share of its time that the busiest GPU computes in full batches."""
        plain = self.plain
        busy = self._batches_per_s * service_s[plain.in_order, plain.caps]
        return float(np.bincount(plain.places, busy).max())

    def _summary(self, sums: Any, loads: Mapping[int, _Loads]) -> Summary:
        worlds = self.worlds
        busy_s, energy_j = sums.busy_s.tolist(), sums.energy_j.tolist()
        batched, batches = sums.batched.tolist(), sums.batches.tolist()
        counts, values, quantiles_s = sums.counts.tolist(), sums.values.tolist(), sums.quantiles_s.tolist()
        models, devices, end = {}, {}, 0
        for place, model in enumerate(self.models):
            mine = self.mine[model]
            arrived, finished, dropped, waiting, running, judged, answered, in_time, good, in_all, parts = counts[place]
            mean_s, mean_queueing_s, parts_sd, growth = values[place]
            tally = Tally(
                came=arrived,
                arrived=arrived,
                finished=finished,
                dropped=dropped,
                waiting=waiting,
                running=running,
                judged=judged,
                judged_finished=answered,
                in_time=in_time,
                judged_in_time=good,
                batched=sum(batched[number] for number in mine),
                batches=sum(batches[number] for number in mine),
                finished_in_all=in_all,
                mean_s=mean_s,
                mean_queueing_s=mean_queueing_s,
                stretches=parts,
                stretches_sd=parts_sd,
                backlog_growth=growth,
                energy_j=total(energy_j[number] for number in mine),
                quantiles_s=quantiles_s[place],
            )
            models[model] = tally.metrics(worlds.judged_s)
        for number, (gpu, peak_bytes) in enumerate(zip(self.gpus, self.peak_bytes, strict=True)):
            loaded = loads.get(number, _Loads())
            begin, end = end, end + len(gpu.queues)
            devices[gpu.device.id] = device_metrics(
                gpu.device.gpu,
                worlds.duration_s,
                busy_s=total(busy_s[begin:end]),
                batches_j=total(energy_j[begin:end]),
                peak_memory_bytes=max(peak_bytes, loaded.most_bytes),
                stalled_s=loaded.stalled_s,
                loads=loaded.times,
            )
        return Summary(models, devices)
