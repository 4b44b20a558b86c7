"""Brute force: the cheapest fleet on which some placement was found to do, beside what the planner buys.

`python -m benchmarks.brute_force --count 20`. Fleets are tried from the cheapest on. On each, models go onto any single
GPUs or are cut over two of one host, in equal or speed-proportional shares, with a few batch caps. Where there are more
such placements than `--tries`, a random part is tried: a cheaper fleet may be overlooked, never made up.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, combinations, groupby, permutations, product
from math import inf
from pathlib import Path
from random import Random
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.outside import FEASIBLE, INFEASIBLE, Watch, each, planner
from benchmarks.random_scenarios import HEAD, Drawn, Kind, options, write
from planner.catalog.knowledge import knowledge
from planner.io.load import load_scenario, workload
from planner.model.parts.machines import OwnMachine
from planner.model.parts.models import ModelSpec
from planner.model.scenario import MemoryPolicy, Scenario
from simulator.clock.metrics import Summary, summarise
from simulator.clock.run import cut, simulate, stages
from simulator.clock.stability import drain
from simulator.rules.queues import Stage
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Replica, Service, SwapPolicy
from simulator.world.hardware import CONTEXT_BYTES, GPU, Device, Host
from simulator.world.profile import Profile
from simulator.world.workload import SLO, FixedRate, Workload

LOOKED_AT = 30
"""Placements looked at for each that is replayed: most do not fit or are too busy."""
SCREEN_S, SCREEN_SLACK = 30.0, 0.02
"""A first replay, and how far below its target it may be: it is short."""
CONFIRM_S, CONFIRMATIONS = 400.0, 3
"""Replays with other seeds, each of which must keep every SLO: hundreds are tried, and one may be lucky once."""
SITE_S, SITES, SITES_LOST_MAX = 60.0, 60, 3
"""Where all arrivals come from cameras: draws of their phases, of which 19 in 20 must keep every SLO."""
CAPS = ((1.0, 1.0), (0.5, 1.0), (0.25, 1.0), (0.0, 1.0), (1.0, 0.5))
"""Largest batches: a part of the largest that fits, which runs in a part of the SLO; 1 at least."""

Place = tuple[str, ...]
"""GPUs of one replica."""
Placement = tuple[tuple[Place, ...], ...]
"""Replicas of each model."""
Turn = tuple[float, Stage]
"""Full batches a second, and what each takes of a GPU."""


@dataclass(frozen=True)
class Problem:
    """A scenario with what is known of its models."""

    scenario: Scenario
    workload: Workload
    kinds: Mapping[str, GPU]
    profiles: Mapping[tuple[str, str], Profile]
    """By model and GPU."""

    @classmethod
    def read(cls, scenario: Path, profiles: Path) -> "Problem":
        """From files."""
        loaded = load_scenario(scenario)
        catalog, library = knowledge((), (profiles,))
        pairs = product(loaded.scenario.models, {machine.gpu for machine in loaded.scenario.buy.own})
        found = {(spec.name, gpu): library.get(spec.known_as, gpu, spec.precision) for spec, gpu in pairs}
        known = {cell: profile for cell, profile in found.items() if profile}
        return cls(loaded.scenario, workload(loaded), catalog.gpus, known)

    @cached_property
    def swap(self) -> SwapPolicy:
        """As the scenario says; what was not used for longest gives way."""
        return SwapPolicy(prefetch=self.scenario.swap.prefetch is not False, pinned=self.scenario.swap.pinned)

    @cached_property
    def only_cameras(self) -> bool:
        """Whether nothing is random but phases."""
        return all(isinstance(stream.arrivals, FixedRate) for stream in self.workload.streams)

    @cached_property
    def needed_rps(self) -> dict[str, float]:
        """Requests of each model that must run: those beyond the target may be dropped, if any may."""
        rates, may_drop = self.workload.rates_rps(), self.scenario.drop is not Drop.NEVER
        return {spec.name: rates[spec.name] * (spec.slo.attainment if may_drop else 1) for spec in self.scenario.models}

    def fleets(self, gpus_max: int) -> list["Fleet"]:
        """All of so many GPUs at most, cheapest first."""
        own = self.scenario.buy.own
        counts = product(*(range(min(machine.count, gpus_max // machine.gpu_count) + 1) for machine in own))
        fleets = [Fleet(self, tuple(zip(own, n, strict=True))) for n in counts if any(n)]
        small = [fleet for fleet in fleets if len(fleet.devices) <= gpus_max]
        return sorted(small, key=lambda fleet: (fleet.usd_per_hour, len(fleet.devices)))


@dataclass(frozen=True)
class Fleet:
    """Machines, and the ways to place the models on them."""

    problem: Problem
    machines: tuple[tuple[OwnMachine, int], ...]

    @property
    def usd_per_hour(self) -> float:
        """All machines."""
        return sum(n * machine.price for machine, n in self.machines)

    def __str__(self) -> str:
        return " + ".join(f"{n} x {machine.name}" for machine, n in self.machines if n)

    @cached_property
    def devices(self) -> dict[str, Device]:
        """Its GPUs, host by host."""
        return {device.id: device for machine, n in self.machines for i in range(n) for device in self._of(machine, i)}

    def _of(self, machine: OwnMachine, number: int) -> list[Device]:
        gpu, host = self.problem.kinds[machine.gpu], f"{machine.name}-{number}"
        memory, given = machine.memory or gpu.memory_bytes, self.problem.scenario.context
        context = CONTEXT_BYTES if given is None else given
        names = [f"{host}:{i}" for i in range(machine.gpu_count)]
        return [Device(id=name, gpu=gpu, host=host, memory_bytes=memory, context_bytes=context) for name in names]

    def room_bytes(self, name: str) -> int:
        """Beside the context of one GPU."""
        return self.devices[name].memory_bytes - self.devices[name].context_bytes

    def profile(self, model: str, place: Place) -> Profile:
        """Of a model on the GPUs of one replica; KeyError where nobody measured it."""
        return self.problem.profiles[model, self.devices[place[0]].gpu.name]

    def held(self, model: str, place: Place) -> Iterator[tuple[str, int]]:
        """GPUs of one replica, and the weights on each."""
        for name, layers in zip(place, cut(self.profile(model, place), len(place)), strict=True):
            yield name, sum(layer.weight_bytes for layer in layers)

    def holds(self, model: str, place: Place) -> bool:
        """Whether one sample can run there, with nothing else in memory."""
        if (model, self.devices[place[0]].gpu.name) not in self.problem.profiles:
            return False
        sample = self.profile(model, place).workspace(1)
        return all(size + sample <= self.room_bytes(name) for name, size in self.held(model, place))

    def ways(self, model: str) -> list[tuple[Place, ...]]:
        """On any GPUs that hold it; or cut over two GPUs of one host or more, in either order."""
        singles = [(name,) for name in self.devices if self.holds(model, (name,))]
        whole = chain.from_iterable(combinations(singles, n) for n in range(1, len(singles) + 1))
        hosts = [list(group) for _, group in groupby(self.devices, key=lambda name: self.devices[name].host)]
        pairs = [[(), *(pair for pair in permutations(host, 2) if self.holds(model, pair))] for host in hosts]
        halves = (tuple(filter(None, chosen)) for chosen in product(*pairs))
        return [*whole, *filter(None, halves)]

    def placements(self) -> list[Placement]:
        """Of all models, without those that differ only in which of several like GPUs is which."""
        everything = product(*(self.ways(spec.name) for spec in self.problem.scenario.models))
        return list({self._shape(placement): placement for placement in everything}.values())

    def _shape(self, placement: Placement) -> tuple[object, ...]:
        on: dict[str, list[tuple[int, ...]]] = {name: [] for name in self.devices}
        for number, places in enumerate(placement):
            for place in places:
                for stage, name in enumerate(place):
                    on[name].append((number, stage, len(place)))
        hosts = groupby(self.devices.values(), key=lambda device: device.host)
        contents = ((host.rpartition("-")[0], sorted(on[device.id] for device in group)) for host, group in hosts)
        return tuple(sorted((machine, repr(models)) for machine, models in contents))

    def deployments(self, tries: int, random: Random) -> Iterator[Deployment]:
        """Those that fit and keep their headroom, each once, in random order."""
        s, placements = self.problem.scenario, self.placements()
        links = {device.host: device.gpu.pcie_bytes_per_s for device in self.devices.values()}
        hosts = tuple(Host(id=host, pcie_root_bytes_per_s=link) for host, link in links.items())
        choices = len(CAPS) ** len(s.models)
        total = len(placements) * choices * 4
        seen: set[tuple[Service, ...]] = set()
        for number in random.sample(range(total), min(total, LOOKED_AT * tries)):
            which, choice = divmod(number // 4, choices)
            caps = [CAPS[choice // len(CAPS) ** i % len(CAPS)] for i in range(len(s.models))]
            services = self.services(placements[which], caps, proportional=number % 2 == 1, stay=number % 4 < 2)
            if services is None or services in seen or not self.has_headroom(services):
                continue
            seen.add(services)
            yield Deployment(
                services=services,
                devices=tuple(self.devices.values()),
                hosts=hosts,
                scheduling=s.scheduling,
                swap=self.problem.swap,
            )
            if len(seen) == tries:
                return

    def services(
        self, placement: Placement, caps: Sequence[tuple[float, float]], proportional: bool, stay: bool
    ) -> tuple[Service, ...] | None:
        """None where some replica does not fit. `stay`: weights stay in memory wherever they can, however small that
        makes the batches."""
        s, free = self.problem.scenario, self._free_bytes(placement, stay)
        found = []
        for spec, places, cap in zip(s.models, placement, caps, strict=True):
            replicas = [self._replica(spec, place, cap, free, proportional) for place in places]
            fitting = tuple(replica for replica in replicas if replica)
            if len(fitting) < len(places):
                return None
            slo = SLO(spec.slo.latency, spec.slo.attainment)
            found.append(Service(model=spec.name, slo=slo, replicas=fitting, drop=s.drop, routing=s.routing))
        return tuple(found)

    def _free_bytes(self, placement: Placement, stay: bool) -> dict[str, float]:
        """Of each GPU beside all its weights; infinite where models take turns."""
        free: dict[str, float] = {name: self.room_bytes(name) for name in self.devices}
        largest_sample = dict.fromkeys(self.devices, 0.0)
        for spec, places in zip(self.problem.scenario.models, placement, strict=True):
            for place in places:
                sample = self.profile(spec.name, place).workspace(1)
                for name, size in self.held(spec.name, place):
                    free[name] -= size
                    largest_sample[name] = max(largest_sample[name], sample)
        if self.problem.scenario.memory is MemoryPolicy.RESIDENT:
            return free
        return {name: size if stay and size >= largest_sample[name] else inf for name, size in free.items()}

    def _replica(
        self, spec: ModelSpec, place: Place, cap: tuple[float, float], free: Mapping[str, float], proportional: bool
    ) -> Replica | None:
        profile = self.profile(spec.name, place)
        room = min(min(free[name], self.room_bytes(name) - size) for name, size in self.held(spec.name, place))
        fitting = [b for b in range(1, profile.largest_batch + 1) if profile.workspace(b) <= room]
        quick = [b for b in fitting if profile.latency(b) <= cap[1] * spec.slo.latency]
        if not fitting or profile.latency(1) > spec.slo.latency:
            return None
        most = max(1, int(cap[0] * len(quick)))
        speed = len(place) * most / profile.latency(most)
        batching = BatchingPolicy(most, spec.max_queue_delay, self.problem.scenario.padded)
        return Replica(profile=profile, devices=place, batching=batching, share=speed if proportional else 1.0)

    def has_headroom(self, services: Iterable[Service]) -> bool:
        """Whether each GPU, in full batches, is busy and loading for no longer than headroom allows."""
        swap, turns = self.problem.swap, {name: list[Turn]() for name in self.devices}
        for service in services:
            shares = sum(replica.share for replica in service.replicas)
            for replica in service.replicas:
                most = replica.batching.max_batch_size
                per_s = self.problem.needed_rps[service.model] * replica.share / shares / most
                for name, stage in zip(replica.devices, stages(service, replica, swap, None), strict=True):
                    turns[name].append((per_s, stage))
        limit = 1 - self.problem.scenario.headroom
        return all(load(mine, self.room_bytes(name), swap.prefetch) <= limit for name, mine in turns.items())


def load(turns: Sequence[Turn], room_bytes: float, prefetch: bool) -> float:
    """Erlangs of one GPU, weights included where not all stay: a model loads at most as often as the others run."""
    run = sum(per_s * stage.service_s[-1] for per_s, stage in turns)
    work_bytes = max((stage.workspace_bytes for _, stage in turns), default=0)
    if sum(stage.weight_bytes for _, stage in turns) + work_bytes <= room_bytes:
        return run
    all_per_s = sum(per_s for per_s, _ in turns)
    loading = sum(min(per_s, all_per_s - per_s) * stage.load_s(stage.weight_bytes) for per_s, stage in turns)
    return max(run, loading) if prefetch else run + loading


def replayed(problem: Problem, deployment: Deployment, judged_s: float, seed: int) -> Summary:
    """One replay in which requests are judged for so long."""
    slo_s = max(service.slo.latency_s for service in deployment.services)
    return summarise(simulate(deployment, problem.workload, judged_s + 2 * slo_s, seed), slo_s)


def keeps(deployment: Deployment, seen: Summary, slack: float = 0.0) -> bool:
    """Whether all models reach their targets, or all but."""
    services = deployment.services
    return all(seen.models[x.model].slo_attainment >= x.slo.attainment - slack for x in services)


def does(problem: Problem, deployment: Deployment) -> bool:
    """Whether it works off a backlog at its headroom, and keeps every SLO: in a short look, then in long replays, or
    where there are cameras on most sites.

    Models that take turns may look well for hours until the first burst, and never catch up again.
    """
    most = 1 - problem.scenario.headroom
    if drain(deployment, {m: rps / most for m, rps in problem.needed_rps.items()}, problem.workload).growing:
        return False
    if not keeps(deployment, replayed(problem, deployment, SCREEN_S, seed=1), SCREEN_SLACK):
        return False
    times, each_s, lost_max = (SITES, SITE_S, SITES_LOST_MAX) if problem.only_cameras else (CONFIRMATIONS, CONFIRM_S, 0)
    lost = 0
    for seed in range(2, 2 + times):
        lost += not keeps(deployment, replayed(problem, deployment, each_s, seed))
        if lost > lost_max:
            return False
    return True


def cheapest(problem: Problem, gpus_max: int, tries: int, seed: int) -> tuple[Fleet, Deployment] | None:
    """The first fleet, cheapest first, with a placement that does."""
    random = Random(seed)
    for fleet in problem.fleets(gpus_max):
        for deployment in fleet.deployments(tries, random):
            if does(problem, deployment):
                return fleet, deployment
    return None


@dataclass(frozen=True, slots=True)
class Compared:
    """What the planner buys, and the cheapest fleet found."""

    drawn: Drawn
    planned: float | None
    """Dollars an hour; None where it finds no plan."""
    best: float | None
    """Dollars an hour; None where no fleet was found."""
    remark: str

    @property
    def gap(self) -> float | None:
        """What is paid too much, as a share; below 0 where the planner is cheaper."""
        return self.planned / self.best - 1 if self.planned and self.best else None

    def __str__(self) -> str:
        costs = ("-" if usd is None else f"${usd:.2f}/h" for usd in (self.planned, self.best))
        gap = "-" if self.gap is None else f"{self.gap:+.1%}"
        return "  ".join([str(self.drawn), *(f"{cost:>8}" for cost in costs), f"{gap:>7}", self.remark])


def compare(seed: int, given: Namespace) -> Compared:
    """Draw one scenario, plan it, and look for something cheaper."""
    watch = Watch()
    with TemporaryDirectory() as folder:
        drawn = write(seed, Path(folder), given)
        ran = planner("plan", *drawn.files)
        problem = Problem.read(drawn.folder / "scenario.yaml", drawn.folder / "profiles")
        found = None if drawn.kind is Kind.MERGED else cheapest(problem, given.gpus, given.tries, seed)
    usd_per_hour, remark = (found[0].usd_per_hour, str(found[0])) if found else (None, "")
    if drawn.kind is Kind.MERGED:
        remark = "merging is not tried"
    if ran.code not in (FEASIBLE, INFEASIBLE):
        remark = f"plan: exit {ran.code}: {ran.error}"
    return Compared(drawn, ran.cost_usd_per_hour, usd_per_hour, f"{watch}  {remark}")


def summary(lines: Sequence[Compared]) -> list[str]:
    """Means and counts of what could be compared."""
    lines = [line for line in lines if line.drawn.kind is not Kind.MERGED]
    gaps = [line.gap for line in lines if line.gap is not None]
    mean, worst = (fmean(max(0.0, gap) for gap in gaps), max(gaps)) if gaps else (0.0, 0.0)
    dearer, cheaper = sum(gap > 0.001 for gap in gaps), sum(gap < -0.001 for gap in gaps)
    no_plan = sum(line.planned is None and line.best is not None for line in lines)
    no_fleet = sum(line.planned is not None and line.best is None for line in lines)
    return [
        f"compared: {len(gaps)} of {len(lines)}; too dear by {mean:.1%} on the mean, by {worst:.1%} at worst",
        f"planner dearer: {dearer}; planner cheaper: {cheaper}",
        f"no plan, though a fleet was found: {no_plan}; a plan, though no fleet was found: {no_fleet}",
    ]


def main() -> None:
    """One line for each scenario, then the summary."""
    ask = options(__doc__, count=10)
    ask.add_argument("--gpus", type=int, default=4, help="most in a fleet")
    ask.add_argument("--tries", type=int, default=300, help="placements replayed for each fleet, at most")
    given = ask.parse_args()
    lines = each(partial(compare, given=given), given, f"{HEAD}   planner      best      gap     took  cheapest found")
    print("\n" + "\n".join(summary(lines)))


if __name__ == "__main__":
    main()
