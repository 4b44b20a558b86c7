"""Random pipelines: one to four models in a graph, few GPUs of two or three kinds; the same for the same seed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

from planner.catalog.catalog import Catalog
from planner.io.load import Loaded
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.models import ModelSpec, SloSpec
from planner.model.parts.pipelines import EdgeSpec, FanOutSpec, PipelineSpec, StageSpec
from planner.model.parts.streams import Phase, StreamSpec
from planner.model.scenario import MemoryPolicy, Scenario
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.deployment import Drop
from simulator.world.model import Layer
from simulator.world.profile import Evidence, Profile

BATCHES = (1, 2, 4, 8, 16)
SPEEDS = {"T4": (1.0, 1.0), "L4": (0.4, 0.7), "V100": (0.25, 0.5)}
"""Between what parts of the times on a T4 those of a GPU lie."""
USD = {"T4": (0.2, 0.5), "L4": (0.4, 0.9), "V100": (0.6, 1.6)}
"""Between which prices an hour of one GPU lies."""
WORKSPACE_BYTES = 2e7
"""Of each sample of a batch."""


@dataclass(frozen=True)
class Shelf:
    """Profiles by model and GPU."""

    profiles: Mapping[tuple[str, str], Profile]

    def get(self, model: str, gpu: str, precision: str | None, runtime: str | None = None, /) -> Profile | None:
        """As a library finds them."""
        return self.profiles.get((model, gpu))


@dataclass(frozen=True)
class Drawn:
    """A question, and what is known of its models."""

    loaded: Loaded
    library: Shelf


def shapes(random: Random) -> Scenario:
    """A chain, a fork or a join of one to three models, on two kinds of GPU."""
    stages = graph(random, random.choice([1, 2, 2, 3]))
    return asked(random, [pipeline(random, "street", stages)], machines(random, ["T4", "V100"]))


def mixed(random: Random) -> Scenario:
    """Two to four models, some stages with an SLO of their own, on three kinds of GPU, some of them in pairs."""
    asks = pipeline(random, "street", graph(random, random.choice([2, 3, 4])), own_slo=True)
    return asked(random, [asks], machines(random, ["T4", "L4", "V100"], pairs=True))


def tight(random: Random) -> Scenario:
    """One pipeline or two, on few machines, in whose memory not all models fit side by side."""
    both = random.random() < 0.4
    streets = [pipeline(random, "street", graph(random, random.choice([1, 2] if both else [2, 3])))]
    if both:
        streets.append(pipeline(random, "yard", graph(random, 1)))
    kinds = random.sample(["T4", "L4", "V100"], 2)
    return asked(random, streets, machines(random, kinds, pairs=True, memory=random.choice([4e9, 6e9])))


def boxes(random: Random) -> Scenario:
    """A chain of two or three models on own machines, of up to three GPUs each, some with little memory."""
    names = "abc"[: random.choice([2, 3])]
    stages = [StageSpec(name="a", model="a")]
    stages += [StageSpec(name=name, model=name, after=(edge(random, before),)) for before, name in pairwise(names)]
    memory = random.choice([None, 3_000_000_000, 5_000_000_000])

    def machine(gpu: str) -> OwnMachine:
        number = random.choice([1, 1, 2, 3])
        price = round(number * random.uniform(*USD[gpu]), 2)
        count = random.choice([1, 2, 3]) if number == 1 else 1
        return OwnMachine(name=gpu.lower(), gpu=gpu, gpu_count=number, price=price, count=count, memory=memory)

    kinds = random.sample(list(USD), random.choice([1, 2]))
    return asked(random, [pipeline(random, "street", tuple(stages))], BuySpec(own=tuple(map(machine, kinds))))


def beside(random: Random) -> Scenario:
    """A pipeline beside another that runs one of its models too, beside a plain model, or beside both."""
    streets = [pipeline(random, "street", graph(random, 2), own_slo=True)]
    others = random.choice(["yard", "plain", "both"])
    if others != "plain":
        streets.append(pipeline(random, "yard", (StageSpec(name="x", model="b"),)))
    found = asked(random, streets, machines(random, random.sample(list(USD), 2), pairs=True))
    if others == "yard":
        return found
    plain = ModelSpec(name="c", slo=SloSpec(latency=random.choice([0.06, 0.12, 0.25]), attainment=0.95))
    more = StreamSpec(model="c", count=random.choice([1, 4, 8]), rate=10.0, phase=Phase.SPREAD)
    return replace(found, models=(plain,), streams=(*found.streams, more))


GENERATORS: dict[str, Callable[[Random], Scenario]] = {
    "shapes": shapes,
    "mixed": mixed,
    "tight": tight,
    "boxes": boxes,
    "beside": beside,
}


def drawn(generator: str, seed: int, catalog: Catalog) -> Drawn:
    """The question of one seed."""
    random = Random(f"{generator} {seed}")
    scenario = GENERATORS[generator](random)
    models = [one.model for each in scenario.pipelines for one in each.stages if one.model]
    models += [one.name for one in scenario.models]
    held = (5e8, 2.5e9) if any(one.memory for one in scenario.buy.own) else (5e7, 3e8)
    profiles = {
        (model, gpu): one for model in dict.fromkeys(models) for gpu, one in profiles_of(random, model, held, catalog)
    }
    return Drawn(Loaded(scenario, "0" * 64, Path("drawn.yaml")), Shelf(profiles))


def graph(random: Random, count: int) -> tuple[StageSpec, ...]:
    """So many models, in any order that has one before the others, and sometimes work on a core before or behind."""
    names = "abcd"[:count]
    shape = random.choice(["chain", "tree", "join", "diamond"])
    begin = random.random() < 0.4
    stages = [StageSpec(name="begin", host=random.uniform(0.001, 0.004))] if begin else []
    stages.append(StageSpec(name="a", model="a", after=(EdgeSpec(stage="begin"),) if begin else ()))
    for before, name in pairwise(names):
        ways = (edge(random, before if shape == "chain" else "a"),)
        if shape == "diamond" and name == names[-1] and count > 2:
            ways = tuple(EdgeSpec(stage=one) for one in names[1:-1])
        stages.append(StageSpec(name=name, model=name, after=ways))
    if shape == "join" and count > 1:
        stages.append(StageSpec(name="end", host=0.001, after=tuple(EdgeSpec(stage=one) for one in names[-2:])))
    return tuple(stages)


def edge(random: Random, source: str) -> EdgeSpec:
    """A way on which items become fewer or more."""
    fan_out = FanOutSpec(mean=random.choice([0.5, 1.0, 2.0, 3.0]), poisson=random.random() < 0.5)
    return EdgeSpec(stage=source, fan_out=fan_out, share=random.choice([1.0, 1.0, 0.3, 0.6]))


def pipeline(random: Random, name: str, stages: tuple[StageSpec, ...], own_slo: bool = False) -> PipelineSpec:
    """With an SLO; one of its own for the first model, where asked, now and then."""
    slo_s = random.choice([0.04, 0.06, 0.1, 0.15, 0.25, 0.5])
    if own_slo and random.random() < 0.25:
        own = SloSpec(latency=slo_s / 2, attainment=0.9)
        stages = tuple(
            StageSpec(name=one.name, model=one.model, after=one.after, slo=own) if one.name == "a" else one
            for one in stages
        )
    return PipelineSpec(name=name, slo=SloSpec(latency=slo_s, attainment=random.choice([0.9, 0.95])), stages=stages)


def machines(random: Random, kinds: list[str], *, pairs: bool = False, memory: float | None = None) -> BuySpec:
    """One or two of each kind, single GPUs, or two in a machine."""

    def machine(gpu: str) -> OwnMachine:
        number = 2 if pairs and random.random() < 0.25 else 1
        price = round(number * random.uniform(*USD[gpu]), 2)
        count = 1 if number > 1 else random.choice([1, 2, 2])
        held = None if memory is None else int(memory)
        return OwnMachine(name=gpu.lower(), gpu=gpu, gpu_count=number, price=price, count=count, memory=held)

    return BuySpec(own=tuple(map(machine, kinds)))


def asked(random: Random, streets: list[PipelineSpec], buy: BuySpec) -> Scenario:
    """Cameras that ask each pipeline ten times a second, evenly spread in time."""
    streams = tuple(
        StreamSpec(model=one.name, count=random.choice([2, 4, 8, 12]), rate=10.0, phase=Phase.SPREAD) for one in streets
    )
    return Scenario(
        pipelines=tuple(streets),
        streams=streams,
        buy=buy,
        memory=MemoryPolicy.RESIDENT,
        drop=random.choice([Drop.LATE, Drop.NEVER]),
        horizon=12.0,
        replications=2,
    )


def profiles_of(
    random: Random, model: str, held: tuple[float, float], catalog: Catalog
) -> Iterator[tuple[str, Profile]]:
    """A model on each kind of GPU, each at a speed of its own."""
    floor_s, slope_s = random.uniform(0.003, 0.024), random.uniform(0.001, 0.015)
    weights_bytes = round(random.uniform(*held))
    for gpu, speeds in SPEEDS.items():
        part = random.uniform(*speeds)
        times_s = tuple(part * (floor_s + slope_s * batch) for batch in BATCHES)
        sizes = tuple(map(float, BATCHES))
        yield (
            gpu,
            Profile(
                model=model,
                gpu=catalog.gpus[gpu].name,
                precision="fp32",
                layers=(Layer(model, weights_bytes),),
                latency=Interpolated(sizes, times_s),
                workspace=Interpolated(sizes, tuple(WORKSPACE_BYTES * batch for batch in BATCHES)),
                load=LoadTime(0.0, 12e9),
                latency_evidence=Evidence.FITTED,
                memory_evidence=Evidence.FITTED,
                load_evidence=Evidence.FITTED,
                source="drawn",
                as_of="2026-07-20",
            ),
        )
