"""Machines of one type: how the models are placed on so many of them, and what they do at a level of load."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf, isnan, sqrt

from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer
from planner.io.load import Loaded
from planner.model.replications import longest_slo_s, warmup_s
from planner.placing.packing.packed import Packing
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Kind, Profiles, needs
from planner.replay.deploying import deploy, devices_of
from planner.replay.run import replay, seed_of
from planner.replay.trial import Trial
from planner.search.question import NothingToPlanError, ask
from simulator.clock.metrics import ModelMetrics, Summary, summarise
from simulator.clock.outages.averaged import AveragedWorlds
from simulator.clock.run import simulate
from simulator.clock.stability import NEAR, drain, offered_load
from simulator.world.deployment import Deployment, Drop
from simulator.world.doubt import slow_end
from simulator.world.workload import Workload, scaled

STAGE = 2
"""Seeds of these replays are no others': 0 chooses plans, 1 confirms them."""
REPLAYS = 2
"""Replays of each level of load on each number of machines."""
JUDGED_S = 30.0
"""Judged time of one replay, at most."""
JUDGED_MAX = 40_000
"""Requests after which a replay may end sooner: the standard error of 99 % is then 0.05 points."""
JUDGED_MIN = 2000
"""Requests of the rarest model that a replay judges, however long that takes."""


Hardware = tuple[Kind, int, int | None]
"""Kind of GPU, number of GPUs in a machine, and host memory."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The SLO attainment and the use of so many machines at one level of load."""

    attainment: Mapping[str, float]
    """Share of each model's requests that are in time."""
    busy_gpus: float
    """GPUs that run a batch, on average."""
    error: Mapping[str, float] = field(default_factory=dict)
    """Standard error of each `attainment`; none where nothing was replayed."""
    growing: tuple[str, ...] = ()
    """Models whose queues would grow without end, were the load to stay."""
    requests: int = 0
    """Requests that were replayed."""


@dataclass(frozen=True, slots=True)
class Sureness:
    """What a plan says of so many machines at one load: the verdict of its own replays, in draws of what is unsure."""

    met: bool
    draws_kept: float | None = None
    """Share of the draws in which every SLO is met; None where nothing is drawn."""
    draws: int = 0
    requests: int = 0


@dataclass
class ReplayTally:
    """Requests of one model, added up over replays."""

    judged: int = 0
    in_time: float = 0.0
    variance: float = 0.0
    """Variance of `in_time`."""

    def add(self, seen: ModelMetrics) -> None:
        """Count one more replay."""
        if not seen.judged:
            return
        self.judged += seen.judged
        self.in_time += seen.slo_attainment * seen.judged
        if not isnan(seen.slo_attainment_error):
            self.variance += (seen.slo_attainment_error * seen.judged) ** 2

    @property
    def attainment(self) -> float:
        """Share in time; 1 where nothing was judged."""
        return self.in_time / self.judged if self.judged else 1.0

    @property
    def error(self) -> float:
        """Standard error of the attainment."""
        return sqrt(self.variance) / self.judged if self.judged else 0.0


@dataclass(frozen=True)
class MachineBase:
    """Machines of one type that are always there."""

    group: "MachineGroup"
    machines: int

    @property
    def offer(self) -> Offer:
        """The machines' type and price."""
        return self.group.offer

    @property
    def gpus(self) -> int:
        """GPUs of all these machines."""
        return self.machines * self.offer.gpu_count


@dataclass
class MachineGroup:
    """Machines of one type, however many there are, and beside them a base that never changes, or none."""

    loaded: Loaded
    catalog: Catalog
    library: Profiles
    offer: Offer
    demand: Workload
    """Demand at factor 1."""
    peak: float
    """The largest factor."""
    trial: Trial
    """Result of the search for the peak, on this type alone."""
    erlangs: Mapping[str, float]
    """GPUs that factor 1 of each model keeps busy in the best of its batches."""
    base: MachineBase | None = None
    placed: dict[int, Deployment] = field(default_factory=dict)
    seen: dict[tuple[float, int], Behaviour] = field(default_factory=dict)
    factors_max: dict[int, float] = field(default_factory=dict)
    planned: dict[tuple[float, int], Sureness] = field(default_factory=dict)
    mixes: "dict[tuple[int | None, Hardware, int], MachineGroup]" = field(default_factory=dict)

    @property
    def machines_peak(self) -> int:
        """Machines that the search found for the peak."""
        return sum(self.trial.fleet)

    @property
    def machines_max(self) -> int:
        """Most machines that may be had beside the base."""
        gpus = self.loaded.scenario.buy.max_gpus
        if self.base:
            gpus -= self.base.gpus
        machines = gpus // self.offer.gpu_count
        if self.offer.count_max is not None:
            machines = min(machines, self.offer.count_max)
        return max(0, machines)

    @property
    def load_erlangs(self) -> float:
        """Machines that factor 1 keeps busy in the best of its batches."""
        return sum(self.erlangs.values()) / self.offer.gpu_count

    @property
    def base_erlangs(self) -> float:
        """Machines of this type that do as much as the base, by the mix of the demand."""
        if self.base is None:
            return 0.0
        return self.base.machines * self.load_erlangs / self.base.group.load_erlangs

    @property
    def base_erlangs_most(self) -> float:
        """Machines of this type that do as much as the base, were it given only the model that it is best at."""
        if self.base is None:
            return 0.0
        base, other = self.base, self.base.group
        best = max(self.erlangs[model] / other.erlangs[model] for model in self.erlangs if other.erlangs[model])
        return base.machines * best * base.offer.gpu_count / self.offer.gpu_count

    @property
    def targets(self) -> dict[str, float]:
        """SLO attainment that is wanted, by model."""
        return {spec.name: spec.slo.attainment for spec in self.loaded.scenario.models}

    def beside(self, base: MachineBase | None) -> "MachineGroup":
        """The same machines beside a base."""
        if base is None:
            return self
        key = self.offer.count_max, hardware(base.offer), base.machines
        if key not in self.mixes:
            self.mixes[key] = replace(self, base=base, placed={}, seen={}, factors_max={}, planned={}, mixes={})
        return self.mixes[key]

    def of_one_type(self, machines: int) -> MachineBase | None:
        """The base and these machines together, where they are of one type; else None."""
        if self.base is None:
            return None
        if machines and hardware(self.base.offer) != hardware(self.offer):
            return None
        return MachineBase(self.base.group, self.base.machines + machines)

    # Placing

    def deployment(self, machines: int) -> Deployment:
        """The models on so many machines, placed for as much of the peak as these are of the peak's machines."""
        if whole := self.of_one_type(machines):
            return whole.group.deployment(whole.machines)
        if machines not in self.placed:
            self.placed[machines] = self._place(machines)
        return self.placed[machines]

    def _place(self, machines: int) -> Deployment:
        if machines == self.machines_peak and not self.base:
            return self.trial.deployment
        scenario = self.loaded.scenario
        fleet = [MachineBase(self, machines)]
        if self.base:
            fleet.append(self.base)
        part = self.peak * min(1.0, sum(some.machines / some.group.machines_peak for some in fleet))
        question, _ = ask(scenario, scaled(self.demand, part), self.catalog, self.library)
        devices = devices_of([some.offer for some in fleet], tuple(some.machines for some in fleet))
        for swap in question.policies:
            packer = Packer(list(question.needs), question.sized, question.rules(swap, {}))
            packing = packer.pack(devices)
            if isinstance(packing, Packing):
                return deploy(scenario, question.needs, devices, packing.placed)
        raise NothingToPlanError(f"{machines} x {self.offer.instance} cannot hold all models.")

    # Headroom and sureness, as plans have them

    def factor_max(self, machines: int) -> float:
        """Factor up to which so many machines keep up and leave the headroom, uncertain speeds at their slow end."""
        if whole := self.of_one_type(machines):
            return whole.group.factor_max(whole.machines)
        if machines not in self.factors_max:
            self.factors_max[machines] = self._factor_max(machines)
        return self.factors_max[machines]

    def _factor_max(self, machines: int) -> float:
        deployment = self._held(machines)
        if deployment is None:
            return 0.0
        full = 1 - self.loaded.scenario.headroom
        if not drain(deployment, self.needed_rps(self.peak / full), self.demand).growing:
            return inf
        load = offered_load(deployment, self.needed_rps(self.peak), self.demand)
        return self.peak * full / (load * NEAR)  # the load is known as well as that

    def sureness(self, factor: float, machines: int) -> Sureness:
        """The verdict of a plan on so many machines at one load; remembered."""
        if whole := self.of_one_type(machines):
            return whole.group.sureness(factor, whole.machines)
        key = factor, machines
        if key not in self.planned:
            self.planned[key] = self._sureness(factor, machines)
        return self.planned[key]

    def _sureness(self, factor: float, machines: int) -> Sureness:
        deployment = self._held(machines)
        if deployment is None:
            return Sureness(met=False)
        if not deployment.doubted:
            return Sureness(met=True)
        scenario, demand = self.loaded.scenario, scaled(self.demand, factor)
        seen = replay(scenario, demand, needs(scenario, demand), deployment, screen=False, verdict_only=True)
        return Sureness(seen.met, seen.kept_share, seen.replications, seen.requests)

    def _held(self, machines: int) -> Deployment | None:
        """The models on so many machines; None where these are too few to hold all."""
        if not machines and not self.base:
            return None
        try:
            return self.deployment(machines)
        except NothingToPlanError:
            return None

    # Replaying

    def judged_s(self, factor: float) -> float:
        """Judged time of a replay at one level of load."""
        rates_rps = self.demand.rates_rps().values()
        wanted_s = min(JUDGED_S, JUDGED_MAX / (sum(rates_rps) * factor))
        return max(wanted_s, JUDGED_MIN / (min(rates_rps) * factor))

    def behaviour(self, factor: float, machines: int) -> Behaviour:
        """Replays at one level of load, each number of machines under the same arrivals; remembered."""
        if whole := self.of_one_type(machines):
            return whole.group.behaviour(factor, whole.machines)
        key = factor, machines
        if key not in self.seen:
            self.seen[key] = self._behaviour(factor, machines)
        return self.seen[key]

    def replayed(self, factor: float, machines: int) -> Behaviour | None:
        """The behaviour where it was replayed already; else None."""
        if whole := self.of_one_type(machines):
            return whole.group.replayed(factor, whole.machines)
        return self.seen.get((factor, machines))

    def _behaviour(self, factor: float, machines: int) -> Behaviour:
        if not factor:
            return Behaviour(dict.fromkeys(self.targets, 1.0), 0.0)
        deployment = self._held(machines)
        if deployment is None:
            return Behaviour(dict.fromkeys(self.targets, 0.0), 0.0)
        deployment = slow_end(deployment)
        scenario, demand = self.loaded.scenario, scaled(self.demand, factor)
        early_s = warmup_s(scenario)
        duration_s = early_s + self.judged_s(factor) + longest_slo_s(scenario)
        growing = drain(deployment, self.needed_rps(factor), demand).growing
        tallies = {model: ReplayTally() for model in self.targets}
        busy_gpus, requests = 0.0, 0
        for summary, seen in self._summaries(deployment, demand, duration_s, early_s, factor):
            busy_gpus += sum(device.utilization for device in summary.devices.values()) / REPLAYS
            requests += seen
            for model, metrics in summary.models.items():
                tallies[model].add(metrics)
        attainment = {model: tally.attainment for model, tally in tallies.items()}
        if scenario.drop is Drop.NEVER:  # a queue that grows makes all requests late in the end
            attainment |= dict.fromkeys(growing, 0.0)
        errors = {model: tally.error for model, tally in tallies.items()}
        return Behaviour(attainment, busy_gpus, errors, growing, requests)

    def _summaries(
        self, deployment: Deployment, demand: Workload, duration_s: float, early_s: float, factor: float
    ) -> Iterator[tuple[Summary, int]]:
        """Replications, each with its requests. Outages of machines that fail count by their mean over time, as in a
        plan: no replay of a level lasts long enough to show them."""
        seeds = [seed_of(self.loaded.scenario.seed, STAGE, replication) for replication in range(REPLAYS)]
        if deployment.failures is None:
            results = (simulate(deployment, demand, duration_s, seed) for seed in seeds)
            yield from ((summarise(one, early_s), one.request_count) for one in results)
            return
        worlds = AveragedWorlds(deployment, demand, duration_s, early_s, self.needed_rps(factor))
        yield from ((one.summary, one.requests) for one in worlds.seen(seeds))

    def needed_rps(self, factor: float) -> dict[str, float]:
        """Requests of each model that must be processed at one level of load."""
        rates_rps = {model: factor * rate_rps for model, rate_rps in self.demand.rates_rps().items()}
        if self.loaded.scenario.drop is Drop.NEVER:
            return rates_rps
        return {model: rate_rps * self.targets[model] for model, rate_rps in rates_rps.items()}

    def needed(self, factor: float, least: int = 1) -> int:
        """Fewest machines, `least` or more, on which every SLO is met on average and the headroom is left.

        Where even the most that may be had miss one: the machines that the load would keep busy, one more at least.
        """
        most = self.machines_max
        machines = max(least, floor(factor * self.load_erlangs * min(self.targets.values())))
        while machines < most and self.misses(factor, machines):
            machines += 1
        if machines < most:
            return machines
        if machines == most and not self.misses(factor, machines):
            return machines
        return max(most + 1, least, ceil(factor * self.load_erlangs))

    def misses(self, factor: float, machines: int) -> bool:
        """Some SLO is missed on average, or would be were the load to stay, or the headroom is not left."""
        if self.loaded.scenario.headroom and factor > self.factor_max(machines):
            return True
        return bool(self.behaviour(factor, machines).growing) or self.misses_target(factor, machines)

    def misses_target(self, factor: float, machines: int) -> bool:
        """Some model's attainment is below its target in the replays."""
        attainment = self.behaviour(factor, machines).attainment
        return any(attainment[model] < target for model, target in self.targets.items())


def hardware(offer: Offer) -> Hardware:
    """The key of a type of machine, whoever rents it out."""
    return Kind.of(offer), offer.gpu_count, offer.host_memory_bytes
