"""Worlds: one deployment replayed again and again, with what all its replications have in common built once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

from simulator.clock.metrics import Summary, Tally, device_metrics, finished_latency_s, summarise, total
from simulator.clock.records import SimulationResult
from simulator.clock.run import TURNS, Compiled, World, noise_by_queue, replicate
from simulator.clock.serving import ROUNDING, ServingGpu
from simulator.clock.stability import BACKLOG, compute_load, drain, phase, watched_s
from simulator.machine_code import cores
from simulator.rules.latencies import Counts, counts_of
from simulator.rules.routing import split
from simulator.rules.speeds import Costs, Speeds
from simulator.world.deployment import Deployment, Routing
from simulator.world.doubt import drawn
from simulator.world.workload import (
    Cameras,
    Demand,
    Floats,
    Workload,
    arrivals_of,
    draw,
    frames_each,
    steady_cameras,
)

KEPT_BYTES = 2**28
"""Arrivals that are kept for the next deployment: 22 million requests."""
THREADS_MAX = 8
"""Worlds that are replayed side by side at most: so many come between two looks at how often SLOs were broken."""
REQUESTS_FOR_THREADS = 200_000
"""Requests that are worth another thread: 5 ms of work. To start it and to share Python with it takes 0.5 ms."""
KEPT_PHASES_BYTES = 2**26
"""Cameras with their phases that are kept beside: 800 draws of 5,000 of them."""
SPARE = 1.1
"""Room for requests over those of the first world: arrivals are random."""


class Arrivals:
    """Arrivals that were drawn: every deployment of a search meets the same, world after world.

    The first worlds are kept: were the oldest to go, each would be gone when the next deployment asks for it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._workload: Workload | None = None
        self._kept: dict[tuple[str, float, int], Any] = {}
        self._cameras: dict[int, dict[str, Cameras]] = {}
        self._cameras_bytes = 0

    def of(self, workload: Workload, duration_s: float, seed: int) -> dict[str, Demand]:
        """As `draw`."""

        def come() -> tuple[dict[str, Demand], int]:
            demand = draw(workload, duration_s, seed, self._steady(workload, seed))
            return demand, sum(one.arrival_s.nbytes + one.source.nbytes for one in demand.values())

        return cast("dict[str, Demand]", self._once(workload, ("each", duration_s, seed), come))

    def coming(self, workload: Workload, duration_s: float, seed: int) -> "Coming":
        """The same for machine code, without who sent which."""

        def come() -> tuple[Coming, int]:
            by_model = arrivals_of(workload, duration_s, seed, self._steady(workload, seed))
            return together(list(by_model.values()), duration_s)

        return cast("Coming", self._once(workload, ("together", duration_s, seed), come))

    def _once(self, workload: Workload, key: tuple[str, float, int], come: Callable[[], tuple[Any, int]]) -> Any:
        """What was drawn, with its bytes, if it was not kept."""
        if workload is not self._workload:
            self._workload, self._kept, self.held_bytes = workload, {}, 0
            self._cameras, self._cameras_bytes = {}, 0
        if key in self._kept:
            return self._kept[key]
        found, size_bytes = come()
        if self.held_bytes + size_bytes <= self.limit_bytes:
            self._kept[key] = found
            self.held_bytes += size_bytes
        return found

    def _steady(self, workload: Workload, seed: int) -> dict[str, Cameras]:
        """As `steady_cameras`: the same for replications of any length."""
        if seed in self._cameras:
            return self._cameras[seed]
        cameras = steady_cameras(workload, seed)
        size_bytes = sum(one.phase_s.nbytes + one.source.nbytes + one.stream.nbytes for one in cameras.values())
        if self._cameras_bytes + size_bytes <= KEPT_PHASES_BYTES:
            self._cameras[seed] = cameras
            self._cameras_bytes += size_bytes
        return cameras


class Coming(NamedTuple):
    """As `simulator.clock.compiled.Coming`, with how many requests these may be at most."""

    rate_rps: Floats
    given_s: Floats
    begin: Counts
    most: Counts
    """By model."""


def together(come: Sequence[Cameras | Floats], duration_s: float) -> tuple[Coming, int]:
    """Arrivals of all models in one piece, and its bytes."""
    given = [np.sort(one.phase_s) if isinstance(one, Cameras) else one for one in come]
    rates = [one.rate_rps if isinstance(one, Cameras) else 0.0 for one in come]
    each = [frames_each(rate_rps, duration_s) if rate_rps else 1 for rate_rps in rates]
    most = np.array([count * len(one) for count, one in zip(each, given, strict=True)], dtype=np.int64)
    given_s = np.concatenate([np.empty(0), *given])
    return Coming(np.array(rates), given_s, _begins(list(map(len, given))), most), given_s.nbytes


ARRIVALS = Arrivals(KEPT_BYTES)


@dataclass(frozen=True, slots=True)
class WorldFigures:
    """What one replication showed."""

    summary: Summary
    requests: int
    latency_counts: Mapping[str, Counts]
    """By model: the latencies of requests that came after the warm-up and finished, in bins."""
    growing: tuple[str, ...]
    """Models whose queues grow without end at the speeds of this world; empty where speeds are known."""
    wall_s: float


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

    def result(self, seed: int) -> SimulationResult:
        """One replication with all its records."""
        demand = ARRIVALS.of(self.workload, self.duration_s, seed)
        return replicate(self.deployment, demand, self.duration_s, seed)

    @property
    def apart(self) -> "Worlds":
        """The same without the room that replications take, to be kept for later."""
        return Worlds(self.deployment, self.workload, self.duration_s, self.warmup_s, self.rates_rps)

    def seen(self, seeds: Sequence[int]) -> Iterator[WorldFigures]:
        """Replications by their figures alone, in this order; on the clock one when it is asked for."""
        if Compiled.is_worth_it() and self._plain:
            yield from self._plain.seen(seeds)
        else:
            yield from (self.figures(self.result(seed)) for seed in seeds)

    def figures(self, result: SimulationResult) -> WorldFigures:
        """Those of a replication."""
        return WorldFigures(
            summary=summarise(result, self.warmup_s),
            requests=result.request_count,
            latency_counts={m: counts_of(finished_latency_s(r, self.warmup_s)) for m, r in result.requests.items()},
            growing=self._growing(result) if self.deployment.doubted else (),
            wall_s=result.wall_s,
        )

    def _growing(self, result: SimulationResult) -> tuple[str, ...]:
        world = result.deployment
        plain = not result.loads and all(len(r.devices) == 1 for service in world.services for r in service.replicas)
        if plain and compute_load(world, self.rates_rps) < 1:
            return ()
        return drain(world, self.rates_rps, self.workload).growing

    @cached_property
    def _plain(self) -> "PlainWorlds | None":
        """All GPUs in machine code; None where somebody can disturb one of them, or a router decides."""
        dealt = all(s.routing is Routing.ROUND_ROBIN or len(s.replicas) == 1 for s in self.deployment.services)
        if self.deployment.failures is not None or self.deployment.pipelines or not dealt:
            return None
        template = World(self.deployment, {}, self.duration_s, seed=0)
        plain = all((gpu.self_contained and _is_compiled(gpu)) or not gpu.queues for gpu in template.gpus.values())
        return PlainWorlds(self, template) if plain else None


def _is_compiled(gpu: ServingGpu) -> bool:
    """Whether there is machine code for it, or should be made."""
    return not gpu.swaps or (TURNS.pays and import_module("simulator.clock.swapping").compiles(gpu))


@dataclass
class _Place:
    """Where one world at a time is replayed: another thread needs another place."""

    columns: Any
    sums: Any
    requests: Any
    turns: dict[int, Any]
    """Of GPUs whose models take turns in memory, by number."""


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
    """By number of the GPU, where models take turns in memory."""


class PlainWorlds:
    """Worlds of a deployment whose GPUs nobody disturbs: all of them in one go, several side by side.

    What machine code does is all that threads do, so what comes out does not depend on how many there are.
    """

    def __init__(self, worlds: Worlds, template: World) -> None:
        self.code: Any = import_module("simulator.clock.compiled")
        self.adding: Any = import_module("simulator.clock.adding_up")
        self.worlds = worlds
        self.gpus = list(template.gpus.values())
        self.queues = [queue for gpu in self.gpus for queue in gpu.queues]
        self.by_model = {model: [chain[0] for chain in chains] for model, chains in template.queues.items()}
        self.replicas = {
            id(queue): replica
            for service in worlds.deployment.services
            for queue, replica in zip(self.by_model[service.model], service.replicas, strict=True)
        }
        self.kinds = {device.id: device.gpu for device in worlds.deployment.devices}
        self.numbers = {id(queue): number for number, queue in enumerate(self.queues)}
        self.mine = {model: sorted(self.numbers[id(queue)] for queue in own) for model, own in self.by_model.items()}
        self.rule = self.code.rule_of(self.gpus[0])
        self.swapping = [number for number, gpu in enumerate(self.gpus) if gpu.queues and gpu.swaps]
        self.turning: Any = import_module("simulator.clock.swapping") if self.swapping else None
        links = {host.id: host.pcie_root_bytes_per_s for host in worlds.deployment.hosts}
        self.links = [links[gpu.device.host] for gpu in self.gpus]
        self.models = list(worlds.workload.rates_rps())
        self.room = _Room(self, self.models)
        self.doubted = worlds.deployment.doubted
        self.noisy = any(queue.stage.cv for queue in self.queues)
        self.load_s = np.array([queue.stage.load_s(queue.stage.weight_bytes) for queue in self.queues])
        """Of all its weights, by queue."""
        self.peak_bytes = [max(gpu.memory_used) for gpu in self.gpus]

    def seen(self, seeds: Sequence[int]) -> Iterator[WorldFigures]:
        """Replications by their figures."""
        began_s = perf_counter()
        costs = self._costs(seeds)
        seen = self._replayed(seeds, costs)
        each_s = (perf_counter() - began_s) / len(seeds)
        for number, (sums, requests, loads) in enumerate(seen):
            began_s = perf_counter()
            summary = self._summary(sums, loads)
            counts = dict(zip(self.models, sums.bins, strict=True))
            growing = self._growing(seeds[number], costs.service_s[number], loads) if self.doubted else ()
            yield WorldFigures(summary, requests, counts, growing, each_s + perf_counter() - began_s)

    def _growing(self, seed: int, service_s: Floats, loads: Mapping[int, _Loads]) -> tuple[str, ...]:
        """Models whose queues grow without end at the speeds of one world."""
        if self._load(service_s) < 1 and not any(one.times for one in loads.values()):
            return ()
        if self.swapping:
            return drain(drawn(self.worlds.deployment, seed), self.worlds.rates_rps).growing
        return self._backlog.growing(service_s)

    @cached_property
    def _speeds(self) -> Speeds:
        return Speeds([self.replicas[id(queue)] for queue in self.queues], self.kinds)

    @cached_property
    def _known_costs(self) -> tuple[Floats, Floats]:
        known = self._speeds.costs([None])
        return known.service_s, known.watts

    def _costs(self, seeds: Sequence[int]) -> Costs:
        """How long batches take, and what GPUs draw meanwhile; the same in all worlds where speeds are known."""
        if self.doubted:
            return self._speeds.costs(seeds)
        return Costs(*(np.repeat(known, len(seeds), axis=0) for known in self._known_costs))

    def _replayed(self, seeds: Sequence[int], costs: Costs) -> list[_Seen]:
        """What each world adds up to: worlds are dealt to threads in turn."""
        workload, duration_s = self.worlds.workload, self.worlds.duration_s
        coming = [ARRIVALS.coming(workload, duration_s, seed) for seed in seeds]
        most = np.array([one.most for one in coming])
        threads = min(len(seeds), THREADS_MAX, cores()) if most.sum() >= REQUESTS_FOR_THREADS else 1
        places = self.room.places(most.max(axis=0), threads)
        found: dict[int, _Seen] = {}

        def replay(thread: int) -> None:
            for number in range(thread, len(seeds), threads):
                speeds = Costs(costs.service_s[number], costs.watts[number])
                found[number] = self._replayed_at(places[thread], coming[number], speeds, seeds[number])

        if threads == 1:
            replay(0)
        else:
            with ThreadPoolExecutor(threads - 1) as pool:
                others = [pool.submit(replay, thread) for thread in range(1, threads)]
                replay(0)
                for other in others:
                    other.result()
        return [found[number] for number in range(len(seeds))]

    def _replayed_at(self, place: _Place, coming: Coming, costs: Costs, seed: int) -> _Seen:
        """What one world adds up to."""
        code, requests = self.code, place.requests
        columns = place.columns._replace(service_s=costs.service_s, longest_s=costs.service_s.max(axis=1))
        sums = self.adding.emptied(place.sums, costs.watts)
        come = code.Coming(coming.rate_rps, coming.given_s, coming.begin)
        warmup_s, end_s = self.worlds.warmup_s, self.worlds.duration_s
        loads: dict[int, _Loads] = {}
        if self.noisy or self.swapping:
            code.come(come, requests, end_s)
            loads = self._serve(place, columns, seed)
            self.adding.add_up(self.room.layout, columns, requests, sums, warmup_s, end_s)
        else:
            self.adding.replay(self.room.layout, come, requests, columns, sums, self.rule, warmup_s, end_s)
        return _Seen(sums._replace(room=None), int(requests.begin[-1]), loads)

    def _serve(self, place: _Place, columns: Any, seed: int) -> dict[int, _Loads]:
        """Where batches have noise, whose factors are drawn as they are used up, or models take turns in memory."""
        code = self.code
        code.deal(self.room.layout, place.requests, columns)
        noise = self._noise(seed)
        for number, factors in noise.items():
            code.draw_factors(columns, factors, number)
        begins = self.room.layout.gpu_begin
        for number, gpu in enumerate(self.gpus):
            if number not in self.swapping:
                alone = self.room.layout._replace(gpu_begin=begins[number : number + 2])
                self._serve_resident(alone, columns, noise, code.rule_of(gpu))
        return {number: self._serve_in_turns(number, place, columns, noise) for number in self.swapping}

    def _serve_resident(self, layout: Any, columns: Any, noise: Mapping[int, Iterator[float]], rule: int) -> None:
        code, end_s = self.code, self.worlds.duration_s
        gpu, now_s, last, empty = code.serve_all(layout, columns, rule, end_s, 0, 0.0, -1)
        while empty >= 0:
            code.draw_factors(columns, noise[empty], empty)
            gpu, now_s, last, empty = code.serve_all(layout, columns, rule, end_s, gpu, now_s, last)

    def _serve_in_turns(self, number: int, place: _Place, columns: Any, noise: Mapping[int, Iterator[float]]) -> _Loads:
        turning, end_s, gpu = self.turning, self.worlds.duration_s, self.gpus[number]
        first, end = self.room.layout.gpu_begin[number : number + 2].tolist()
        queues, rule = self.code.part(columns, first, end), turning.rule_in_turns(gpu)
        most_s = (1 + ROUNDING) * float((self.load_s + columns.longest_s)[first:end].max())
        turns = place.turns[number]._replace(most_s=most_s)
        turning.begin(queues, turns, rule)
        while (empty := turning.serve_on(queues, turns, rule, end_s)) >= 0:
            self.code.draw_factors(columns, noise[first + empty], first + empty)
        return _Loads(*turning.figures(turns, end_s))

    def _noise(self, seed: int) -> dict[int, Iterator[float]]:
        """Factors on the batch times of each queue that has any."""
        noises = np.random.SeedSequence([seed, 1]).spawn(2)[0]
        by_gpu = noise_by_queue([gpu.queues for gpu in self.gpus], noises)
        every = zip(self.queues, (factors for of_gpu in by_gpu for factors in of_gpu), strict=True)
        return {number: factors for number, (queue, factors) in enumerate(every) if queue.stage.cv}

    @cached_property
    def _backlog(self) -> "_PlainBacklog":
        return _PlainBacklog(self)

    @cached_property
    def work(self) -> tuple[Counts, Counts, Counts, Floats]:
        """Of each replica: its queue, its largest batch, its GPU, and how many such batches come in a second."""
        gpus = {gpu.device.id: place for place, gpu in enumerate(self.gpus)}
        rows = []
        for service in self.worlds.deployment.services:
            shares = sum(replica.share for replica in service.replicas)
            for queue, replica in zip(self.by_model[service.model], service.replicas, strict=True):
                batches_per_s = self.worlds.rates_rps[service.model] * replica.share / shares / queue.cap
                rows.append((self.numbers[id(queue)], queue.cap, gpus[replica.devices[0]], batches_per_s))
        queues, caps, places, rates = map(np.array, zip(*rows, strict=True))
        return queues, caps, places, rates

    def _load(self, service_s: Floats) -> float:
        """Share of its time that the busiest GPU computes in full batches."""
        queues, caps, places, batches_per_s = self.work
        return float(np.bincount(places, batches_per_s * service_s[queues, caps]).max())

    def _summary(self, sums: Any, loads: Mapping[int, _Loads]) -> Summary:
        worlds = self.worlds
        busy_s, energy_j = sums.busy_s.tolist(), sums.energy_j.tolist()
        batched, batches = sums.batched.tolist(), sums.batches.tolist()
        counts, values, quantiles_s = sums.counts.tolist(), sums.values.tolist(), sums.quantiles_s.tolist()
        models, devices, end = {}, {}, 0
        for place, model in enumerate(self.models):
            mine = self.mine[model]
            arrived, finished, dropped, waiting, running, judged, in_time, judged_in_time, in_all, parts = counts[place]
            mean_s, mean_queueing_s, parts_sd, growth = values[place]
            tally = Tally(
                came=arrived,
                arrived=arrived,
                finished=finished,
                dropped=dropped,
                waiting=waiting,
                running=running,
                judged=judged,
                in_time=in_time,
                judged_in_time=judged_in_time,
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
            models[model] = tally.metrics(worlds.duration_s - worlds.warmup_s)
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


class _Room:
    """Places for replaying worlds, and which queues are whose there: larger ones where a world has more requests."""

    def __init__(self, plain: PlainWorlds, models: Sequence[str]) -> None:
        self.plain = plain
        self.by_model = [plain.by_model[model] for model in models]
        self.most = np.full(len(models), -1)
        """Requests of each model for which there is room."""
        self.dealt: Counts
        """As `simulator.clock.compiled.WorldRequests.place`."""
        self.layout: Any
        self._places: list[_Place] = []

    def places(self, wanted: Counts, count: int) -> list[_Place]:
        """So many, with room for so many requests of each model."""
        if (wanted > self.most).any():
            self.most, self._places = (SPARE * wanted).astype(np.int64) + 1, []
            self._lay_out()
        while len(self._places) < count:
            self._places.append(self._place())
        return self._places

    def _lay_out(self) -> None:
        """Deal so many requests of each model to its queues."""
        plain = self.plain
        numbers = [[plain.numbers[id(queue)] for queue in queues] for queues in self.by_model]
        dealt: dict[int, Counts] = {}
        for most, queues, own in zip(self.most.tolist(), self.by_model, numbers, strict=True):
            parts = split(most, [plain.replicas[id(queue)].share for queue in queues])
            dealt |= zip(own, parts, strict=True)
        nobody = np.empty(0, dtype=np.int64)
        parts = [dealt.get(number, nobody) for number in range(len(plain.queues))]
        self.dealt = np.concatenate([nobody, *parts])
        self.layout = plain.code.Layout(
            gpu_begin=_begins([len(gpu.queues) for gpu in plain.gpus]),
            replica=np.array([number for own in numbers for number in own], dtype=np.int64),
            replica_begin=_begins(list(map(len, numbers))),
            room_begin=_begins(list(map(len, parts))),
        )

    def _place(self) -> _Place:
        """For one thread."""
        plain, room = self.plain, len(self.dealt)
        columns = plain.code.columns(plain.queues, room)
        turns = {n: plain.turning.turns_of(plain.gpus[n], plain.links[n], 0) for n in plain.swapping}
        if turns:
            shared = plain.turning.logs_for(room)  # one GPU after another is served in a place
            turns = {number: one._replace(**shared) for number, one in turns.items()}
        largest = columns.service_s.shape[1] - 1
        return _Place(
            columns,
            plain.adding.sums(len(plain.queues), largest, len(self.by_model), room),
            plain.code.WorldRequests(
                arrival_s=np.empty(room),
                begin=np.zeros(len(self.by_model) + 1, dtype=np.int64),
                slo_s=np.array([queues[0].slo_s for queues in self.by_model]),
                place=self.dealt,
                start_s=np.empty(room),
                gone_s=np.empty(room),
            ),
            turns,
        )


class _PlainBacklog:
    """What becomes of a backlog on the same GPUs, in one world after another: as `simulator.clock.stability` says."""

    def __init__(self, plain: PlainWorlds) -> None:
        self.plain, self.rates_rps = plain, plain.worlds.rates_rps
        self.models = list(self.rates_rps)
        caps = [sum(queue.cap for queue in plain.by_model[model]) for model in self.models]
        self.waiting = BACKLOG * np.array(caps, dtype=np.int64)
        self.phases = np.array([phase(place) for place in range(len(self.models))])
        self.room = _Room(plain, self.models)

    def growing(self, service_s: Floats) -> tuple[str, ...]:
        """Models whose backlog does not shrink where batches take so long."""
        plain, rates_rps = self.plain, np.array(list(self.rates_rps.values()))
        queues, caps, gpus, _ = plain.work
        rounds_s = np.bincount(gpus, service_s[queues, caps] + plain.load_s[queues])
        end_s = watched_s(float(rounds_s.max()), self.rates_rps)
        place = self.room.places(self.waiting + np.ceil(end_s * rates_rps).astype(np.int64), 1)[0]
        backlog = plain.adding.Backlog(self.waiting, rates_rps, self.phases, np.zeros(len(self.models), dtype=np.bool_))
        calm = place.columns._replace(
            service_s=service_s,
            drop=np.zeros(len(plain.queues), dtype=np.int64),
            used=np.full(len(plain.queues), -1),
        )
        plain.adding.grow(self.room.layout, backlog, place.requests, calm, place.sums.room, plain.rule, end_s)
        return tuple(model for model, grows in zip(self.models, backlog.grows.tolist(), strict=True) if grows)


def _begins(lengths: Sequence[int]) -> Counts:
    """Where each of several runs begins, and where the last ends."""
    return np.array([0, *accumulate(lengths)], dtype=np.int64)
