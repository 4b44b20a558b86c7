"""Worlds: one deployment replayed again and again, with what all its replications have in common built once."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from simulator.clock.metrics import Summary, Tally, device_metrics, finished_latency_s, summarise, total
from simulator.clock.records import SimulationResult
from simulator.clock.replays.arrivals import ARRIVALS, Coming
from simulator.clock.replays.backlog import Backlog
from simulator.clock.replays.places import Place, Places, PlainGpus, plain_gpus
from simulator.clock.run import Compiled, noise_by_queue, replicate
from simulator.clock.serving import ROUNDING
from simulator.clock.stability import compute_load, drain
from simulator.machine_code import cores
from simulator.rules.latencies import Counts, counts_of
from simulator.rules.speeds import Costs, Speeds
from simulator.world.deployment import Deployment
from simulator.world.doubt import drawn
from simulator.world.workload import Floats, Workload

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
        gpus = plain_gpus(self.deployment, self.duration_s)
        return PlainWorlds(self.apart, gpus) if gpus else None


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

    def __init__(self, worlds: Worlds, gpus: PlainGpus) -> None:
        self.worlds, self.plain = worlds, gpus
        self.code, self.adding, self.rule = gpus.code, gpus.adding, gpus.rule
        self.gpus, self.queues, self.swapping = gpus.gpus, gpus.queues, gpus.swapping
        self.kinds = {device.id: device.gpu for device in worlds.deployment.devices}
        self.mine = {model: sorted(own) for model, own in gpus.by_model.items()}
        self.models = list(worlds.workload.rates_rps())
        self.places = Places(gpus, self.models)
        self.doubted = worlds.deployment.doubted
        self.noisy = any(queue.stage.cv for queue in self.queues)
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
        return self._backlog.growing(self.worlds.rates_rps, service_s)[0]

    @cached_property
    def _speeds(self) -> Speeds:
        return Speeds(self.plain.replicas, self.kinds)

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
        places = self.places.wide_enough(most.max(axis=0), threads)
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

    def _replayed_at(self, place: Place, coming: Coming, costs: Costs, seed: int) -> _Seen:
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
            self.adding.add_up(self.places.layout, columns, requests, sums, warmup_s, end_s)
        else:
            self.adding.replay(self.places.layout, come, requests, columns, sums, self.rule, warmup_s, end_s)
        return _Seen(sums._replace(room=None), int(requests.begin[-1]), loads)

    def _serve(self, place: Place, columns: Any, seed: int) -> dict[int, _Loads]:
        """Where batches have noise, whose factors are drawn as they are used up, or models take turns in memory."""
        code = self.code
        code.deal(self.places.layout, place.requests, columns)
        noise = self._noise(seed)
        for number, factors in noise.items():
            code.draw_factors(columns, factors, number)
        begins = self.places.layout.gpu_begin
        for number, gpu in enumerate(self.gpus):
            if number not in self.swapping:
                alone = self.places.layout._replace(gpu_begin=begins[number : number + 2])
                self._serve_resident(alone, columns, noise, code.rule_of(gpu))
        return {number: self._serve_in_turns(number, place, columns, noise) for number in self.swapping}

    def _serve_resident(self, layout: Any, columns: Any, noise: Mapping[int, Iterator[float]], rule: int) -> None:
        code, end_s = self.code, self.worlds.duration_s
        gpu, now_s, last, empty = code.serve_all(layout, columns, rule, end_s, 0, 0.0, -1)
        while empty >= 0:
            code.draw_factors(columns, noise[empty], empty)
            gpu, now_s, last, empty = code.serve_all(layout, columns, rule, end_s, gpu, now_s, last)

    def _serve_in_turns(self, number: int, place: Place, columns: Any, noise: Mapping[int, Iterator[float]]) -> _Loads:
        turning, end_s, gpu = self.plain.turning, self.worlds.duration_s, self.gpus[number]
        first, end = self.places.layout.gpu_begin[number : number + 2].tolist()
        queues, rule = self.code.part(columns, first, end), turning.rule_in_turns(gpu)
        most_s = (1 + ROUNDING) * float((self.plain.load_s + columns.longest_s)[first:end].max())
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
    def _backlog(self) -> Backlog:
        return Backlog(self.plain, tuple(self.worlds.rates_rps))

    @cached_property
    def _batches_per_s(self) -> Floats:
        """Of each queue, by model and replica, were all its batches full."""
        rates_rps = [
            self.worlds.rates_rps[service.model] * replica.share / sum(one.share for one in service.replicas)
            for service in self.worlds.deployment.services
            for replica in service.replicas
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
