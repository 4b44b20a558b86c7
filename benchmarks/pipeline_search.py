"""Pipelines planned, beside a search of fleets, placements and batches.

`python -m benchmarks.pipeline_search --count 70`. All fleets that cost less than the answer are tried, the cheapest
first. On each, every model goes onto any of its GPUs, in even shares or by their speeds, in batches that a part of the
SLO allows. Where there are more such ways than `--tries`, a random part is replayed: a cheaper fleet may be overlooked,
never made up.
"""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, combinations, groupby, islice, product
from math import inf
from random import Random
from time import process_time

from benchmarks.outside import each
from benchmarks.random_pipelines import GENERATORS, drawn
from planner.catalog.catalog import load_catalog
from planner.catalog.offers import offers
from planner.io.load import workload
from planner.model.plan import Bottleneck
from planner.placing.cutting import FleetGpu
from planner.placing.duty import Portion, Shortage
from planner.placing.fleets import Fleet, cost_usd_per_hour
from planner.placing.packing.packed import Placed
from planner.placing.sizing import needs, size
from planner.placing.stations import loads_on
from planner.replay.deploying import deploy, devices_of
from planner.replay.run import PLANNING, replay
from planner.search.plan import plan
from planner.search.question import Question
from simulator.errors import InputError

SAME, NEAR = 1e-6, 0.02
GPUS_MAX = 3
"""In a fleet; more have too many ways to place models on them."""
CONFIRMED = (PLANNING, 1)
"""Seeds of confirmations: that of plans, and another."""
LOOKED_AT = 4_000
"""Ways that are drawn for each fleet: most are too busy, or do not fit."""
PARTS = (1.0, 0.5, 0.33, 0.2, 0.1, 0.0)
"""Parts of the SLO in which the largest batch of a model runs; the last is one item."""


@dataclass(frozen=True)
class OnFleet:
    """A fleet, and the ways to place the models on it."""

    question: Question
    fleet: Fleet

    @cached_property
    def devices(self) -> list[FleetGpu]:
        """Its GPUs."""
        return devices_of(self.question.offers, self.fleet)

    @property
    def able(self) -> bool:
        """Whether decoders, cores and links are enough, and GPUs, each model on the kind that it keeps least busy."""
        limit = 1 - self.question.scenario.headroom
        kinds = {device.kind for device in self.devices}
        sized = self.question.sized
        least = [
            min((sized[m, k].least_work for k in kinds if (m, k) in sized), default=inf) for m in self.question.needs
        ]
        loads = (one.load for one in loads_on(self.question.needs, self.devices))
        return sum(least) <= limit * len(self.devices) + 1e-9 and all(load <= limit + 1e-9 for load in loads)

    def run_s(self, model: str, gpu: int, batch: int) -> float:
        """Of one batch."""
        return self.question.sized[model, self.devices[gpu].kind].latency_s[batch - 1]

    def alike(self) -> list[list[int]]:
        """GPUs that may change places: of one kind, each alone in its machine, or in the same machine."""
        hosts = Counter(device.host for device in self.devices)

        def group(gpu: int) -> tuple[str, str]:
            device = self.devices[gpu]
            return device.kind.gpu.name, device.host if hosts[device.host] > 1 else ""

        return [list(same) for _, same in groupby(sorted(range(len(self.devices)), key=group), key=group)]

    def places(self) -> list[tuple[tuple[int, ...], ...]]:
        """GPUs of each model: each way once, also where GPUs could change places."""
        models, gpus = list(self.question.needs), range(len(self.devices))
        subsets = list(chain.from_iterable(combinations(gpus, n) for n in range(1, len(gpus) + 1)))
        seen = {}
        for way in product(subsets, repeat=len(models)):
            holds = [tuple(gpu in where for where in way) for gpu in gpus]
            seen.setdefault(tuple(tuple(sorted(holds[gpu] for gpu in same)) for same in self.alike()), way)
        return list(seen.values())

    def ways(self, random: Random) -> Iterator[tuple[Placed, ...]]:
        """Placements that fit into memory and keep the headroom, in random order; some twice."""
        places = self.places()
        for _ in range(LOOKED_AT):
            placed = self.placed(random, random.choice(places))
            if placed and self.fits(placed):
                yield placed

    def placed(self, random: Random, places: Sequence[Sequence[int]]) -> tuple[Placed, ...]:
        """One way; nothing where some model cannot run where it should."""
        found: list[Placed] = []
        part, by_speed = random.choice(PARTS), random.random() < 0.5
        apart = random.random() < 0.6
        for model, where in zip(self.question.needs, places, strict=True):
            part = random.choice(PARTS) if apart else part
            sizes = {gpu: self.batch(model, gpu, part) for gpu in where}
            if 0 in sizes.values():
                return ()
            speeds = {gpu: n / self.run_s(model, gpu, n) if by_speed else 1.0 for gpu, n in sizes.items()}
            for gpu, batch in sizes.items():
                sized = self.question.sized[model, self.devices[gpu].kind]
                portion = Portion(sized, speeds[gpu] / sum(speeds.values()))
                found.append(Placed(portion, (self.devices[gpu],), batch, batch, 0.0, False, unasked))
        return tuple(found)

    def batch(self, model: str, gpu: int, part: float) -> int:
        """The largest batch that runs in a part of the SLO, one at least; 0 where one GPU cannot run the model."""
        sized = self.question.sized.get((model, self.devices[gpu].kind))
        if sized is None or sized.stages > 1:
            return 0
        longest_s = part * sized.need.slo.latency_s
        return max(1, sum(run_s <= longest_s for run_s in sized.latency_s[: sized.batch_size_max]))

    def fits(self, placed: Sequence[Placed]) -> bool:
        """Whether all fits into memory, and the headroom is kept."""
        limit = 1 - self.question.scenario.headroom
        for device in self.devices:
            here = [p for p in placed if p.devices == (device,)]
            load = sum(p.portion.rate_rps * p.portion.latency_s[p.batch_size_max - 1] / p.batch_size_max for p in here)
            held = sum(p.portion.weight_bytes for p in here)
            held += max((p.portion.sized.profile.workspace(p.batch_size_max) for p in here), default=0)
            held += max((p.portion.sized.context_bytes for p in here), default=0)
            if load > limit + 1e-9 or held > device.kind.memory_bytes:
                return False
        return True

    def meets(self, placed: tuple[Placed, ...]) -> bool:
        """Whether every SLO is surely met, seen twice: dozens are tried, and one may be lucky once."""
        question = self.question
        deployment = deploy(question.scenario, question.needs, self.devices, placed)
        replayed = partial(replay, question.scenario, question.workload, question.needs, deployment)
        screened = replayed(screen=True)
        if not (screened.met or screened.promising):
            return False
        return all(replayed(screen=False, seed=seed).met for seed in CONFIRMED)


def unasked() -> Shortage:
    """What a GPU is short of: here nobody asks."""
    return Shortage(Bottleneck.COMPUTE, 1.0)


def fleets(question: Question, below_usd: float) -> list[Fleet]:
    """All small ones that cost less, the cheapest first."""
    counts = product(*(range(1 + min(GPUS_MAX, offer.count_max or GPUS_MAX)) for offer in question.offers))
    small = [
        one for one in counts if 0 < sum(n * o.gpu_count for n, o in zip(one, question.offers, strict=True)) <= GPUS_MAX
    ]
    cost = {fleet: cost_usd_per_hour(question.offers, fleet) for fleet in small}
    return sorted((fleet for fleet in small if cost[fleet] < below_usd * (1 - SAME)), key=lambda fleet: cost[fleet])


def cheapest(
    question: Question, below_usd: float, tries: int, random: Random
) -> tuple[OnFleet, tuple[Placed, ...]] | None:
    """The cheapest fleet below a price on which some placement does, with that; None where none was found."""
    for fleet in fleets(question, below_usd):
        here = OnFleet(question, fleet)
        if not here.able:
            continue
        done = next((placed for placed in islice(here.ways(random), tries) if here.meets(placed)), None)
        if done:
            return here, done
    return None


@dataclass(frozen=True)
class Compared:
    """One seed of one generator."""

    name: str
    planned_usd: float | None
    """What the plan costs; None where it finds none."""
    least_usd: float | None
    """Of what was found below that; None where nothing was."""
    bound_usd: float
    planning_s: float
    remark: str

    @property
    def verdict(self) -> str:
        """Equal, within 2 %, worse, or infeasible though feasible."""
        if self.planned_usd is None:
            return "infeasible though feasible" if self.least_usd else "equal: infeasible"
        if self.least_usd is None:
            return "equal"
        if self.least_usd < self.bound_usd * (1 - SAME):
            return "below the bound"
        return "within 2 %" if self.planned_usd <= self.least_usd * (1 + NEAR) else "worse"

    def __str__(self) -> str:
        costs = ("-" if usd is None else f"${usd:.2f}" for usd in (self.planned_usd, self.least_usd))
        return "  ".join(
            [
                f"{self.name:<12}",
                *(f"{cost:>8}" for cost in costs),
                f"{self.planning_s:6.2f} s  {self.verdict}  {self.remark}",
            ]
        )


def compare(number: int, given: Namespace) -> Compared:
    """Draw one question, plan it, and look for something cheaper."""
    generator, seed = given.generators[number % len(given.generators)], number // len(given.generators)
    catalog = load_catalog()
    asked = drawn(generator, seed, catalog)
    scenario = asked.loaded.scenario
    name = f"{generator} {seed}"
    began_s = process_time()
    try:
        answer = plan(asked.loaded, catalog, asked.library, created_at="2026-07-25T00:00:00")
    except InputError as error:
        return Compared(name, None, None, 0.0, process_time() - began_s, f"refused: {str(error).splitlines()[0]}")
    took_s, best = process_time() - began_s, answer.recommendation
    planned_usd = best.cost_usd_per_hour if best.feasible else None
    staged = scenario.with_stages
    demand = workload(asked.loaded)
    offered, _ = offers(catalog, staged.buy)
    sized, _ = size(staged, needs(staged, demand), offered, asked.library)
    question = Question(staged, demand, needs(staged, demand), tuple(offered), sized)
    found = cheapest(question, planned_usd or inf, given.tries, Random(seed))
    usd, remark = None, ""
    if found:
        usd = cost_usd_per_hour(question.offers, found[0].fleet)
        remark = ", ".join(
            f"{p.portion.sized.model} {p.portion.share:.2f} on {p.devices[0].id} by {p.batch_size_max}"
            for p in found[1]
        )
    return Compared(name, planned_usd, usd, best.lower_bound_usd_per_hour or 0.0, took_s, remark)


def main() -> None:
    """One line for each question, then how many came to what."""
    ask = ArgumentParser(description=__doc__)
    ask.add_argument("--count", type=int, default=70, help="seeds of each generator")
    ask.add_argument("--first-seed", type=int, default=0)
    ask.add_argument("--jobs", type=int, default=1)
    ask.add_argument("--tries", type=int, default=150, help="placements replayed for each fleet, at most")
    ask.add_argument("--generators", nargs="+", choices=list(GENERATORS), default=list(GENERATORS))
    given = ask.parse_args()
    given.first_seed, given.count = (n * len(given.generators) for n in (given.first_seed, given.count))
    lines = each(
        partial(compare, given=given), given, "drawn          planned   cheaper  planning  verdict, and what is cheaper"
    )
    print()
    for verdict in dict.fromkeys(line.verdict for line in lines):
        names = [line.name for line in lines if line.verdict == verdict]
        print(f"{verdict}: {len(names)}" + ("" if verdict.startswith("equal") else f" ({', '.join(names)})"))
    print(f"planning: {sum(line.planning_s for line in lines):.0f} processor seconds")


if __name__ == "__main__":
    main()
