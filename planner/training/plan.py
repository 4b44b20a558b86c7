"""The answer to a training scenario: options with time, memory, money and what holds each; cheapest and fastest.

`train` is the whole of it, as a function: scenario, catalog and profiles in, a `TrainingPlan` out. It reads and writes
no file, and the same input gives the same plan.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from calibrate.layer_facts import Facts, FactsError, facts
from calibrate.library import Library
from planner.catalog import Catalog, wrong_offers
from planner.layout import ranges
from planner.load import ScenarioError, refused
from planner.names import spelt
from planner.plans import Rejection
from planner.prediction.predict import Predictor
from planner.prediction.roofline import PrecisionError, peak_flops
from planner.training.closed_forms import Range
from planner.training.cost import HOURS_PER_YEAR, JOULES_PER_KWH, co2_kg, rent_usd, usd_per_tflops
from planner.training.held import activations, largest, peak
from planner.training.job import Job
from planner.training.memory import Split, gpus_needed
from planner.training.scenario import LoadedTraining, TrainingScenario, batch_of
from planner.training.sources import Source, counts, sources
from planner.training.speed import Limit, Subject, speed, subject
from planner.units import perhaps
from simulator.hardware import GPU
from simulator.near import in_any_case
from simulator.power import AT_FULL_PACE
from simulator.profile import Evidence

SCHEMA = "planner.training/v1"
SHOWN_COUNTS = 12
"""Numbers of GPUs that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to train: its time, memory and money at the ends and the middle of what is foretold."""

    gpu: str
    gpu_count: int
    instance: str
    machines: int
    price_kind: str
    global_batch: int
    micro_batch: float
    """Samples of one pass on one copy of the model."""
    parallel: str
    """How the GPUs share the work, in words."""
    fits: bool
    memory_bytes: int
    """On the fullest GPU, at the middle."""
    memory: Mapping[str, float]
    """By kind."""
    memory_range_bytes: Range
    memory_limit_bytes: int
    largest_batch: int
    """Most samples of one pass that fit on one GPU or pipeline, at the middle; 0: none."""
    gpus_needed: int
    """Fewest GPUs that could hold weights, gradients and optimizer states divided among them."""
    steps: float
    step_s: float
    time_s: Range
    cost_usd: Range
    commitment_usd: float
    """Of a reservation or a purchase, whole, of which the run uses a part; 0 where machines are paid by the hour."""
    commitment_used: float | None
    """Share of its time that the run takes; None without one."""
    energy_j: float
    co2_kg: float | None
    bottleneck: Limit
    workers_enough: int | None
    """Loader workers for each GPU that end a loader's hold; None where nothing is known of the loader."""
    staleness: int
    """Updates by others before a gradient arrives; 0 where all step together."""
    usd_per_tflops: float | None
    """Three years of a machine, or its price where bought, for each TFLOP/s of its peak; None: no such precision."""
    evidence: Evidence
    source: str
    """Where the speed comes from."""
    within_deadline: bool
    """Even at the late end."""
    within_budget: bool
    """Even at the dear end, commitments counted whole."""
    pareto: bool = False
    """Whether no option that fits is both faster and cheaper, commitments counted whole."""

    @property
    def paid_usd(self) -> float:
        """What is really paid at the middle: the run, or the whole commitment that it needs."""
        return max(self.cost_usd.mid, self.commitment_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The answer."""

    schema: str = SCHEMA
    name: str
    options: tuple[Option, ...]
    cheapest: Option | None
    """Of what is really paid, within the deadline and the budget at the bad ends."""
    fastest: Option | None
    """Within the budget and the deadline, at the bad ends."""
    warnings: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    prices_as_of: str = ""
    """ISO date of the oldest price; empty where all machines are one's own."""
    deadline_s: float | None = None
    budget_usd: float | None = None


def train(loaded: LoadedTraining, catalog: Catalog, library: Library) -> TrainingPlan:
    """Every option of a training scenario, cheapest first; ScenarioError or CatalogError where there is none."""
    s = spelt_alike(loaded.scenario, catalog)
    what = known_subject(loaded, s, catalog)
    found, rejected = sources(s, catalog)
    predictor = Predictor(library, catalog.gpus, facts_of=partial(facts_of, what))
    made = [option(s, what, source, count, predictor) for source in found for count in counts(s, source)]
    known = sorted((o for o in made if o), key=lambda o: (o.cost_usd.mid, o.time_s.mid))
    if not known:
        tried = ", ".join(map(str, s.gpu_counts[:SHOWN_COUNTS]))
        hint = "Name other `counts`, `buy.gpus`, or another precision."
        wrong = [f"{loaded.path}: no machine on offer makes up {tried} GPUs at {s.train.precision}. {hint}"]
        whys = dict.fromkeys(f"{loaded.path}: {no.candidate}: {no.reason} {no.way_out}" for no in rejected)
        raise ScenarioError([*wrong, *whys])
    options = tuple(replace(o, pareto=is_pareto(o, known)) for o in known)
    allowed = [o for o in options if is_allowed(o)]
    return TrainingPlan(
        name=s.name or what.name,
        options=options,
        cheapest=min(allowed, key=lambda o: (o.paid_usd, o.cost_usd.mid, o.time_s.mid), default=None),
        fastest=min(allowed, key=lambda o: (o.time_s.mid, o.cost_usd.mid), default=None),
        warnings=(*loaded.warnings, *left_out(s, found, {(o.gpu, o.gpu_count) for o in known})),
        rejections=tuple(rejected),
        prices_as_of=min((source.as_of for source in found if source.as_of), default=""),
        deadline_s=s.deadline,
        budget_usd=s.budget,
    )


def spelt_alike(s: TrainingScenario, catalog: Catalog) -> TrainingScenario:
    """The scenario with its GPUs as the catalog spells them."""
    speeds = tuple(replace(x, gpu=in_any_case(x.gpu, catalog.gpus)) for x in s.speed)
    return replace(s, buy=spelt(s.buy, catalog), speed=speeds)


def known_subject(loaded: LoadedTraining, s: TrainingScenario, catalog: Catalog) -> Subject:
    """What is trained; ScenarioError with every name and division that neither model nor catalog has, each in place."""
    wrong = list(wrong_offers(catalog, s.buy))
    for i, x in enumerate(s.speed):
        if x.gpu not in catalog.gpus:
            text = f"`{x.gpu}` is not a kind of GPU in the catalog.{perhaps(x.gpu, catalog.gpus)}"
            wrong.append((("speed", i, "gpu"), text))
    what = None
    try:
        what = subject(s)
        if s.parallel.pipeline > what.layers:
            text = f"must be at most {what.layers}, the layers of {what.name}, got {s.parallel.pipeline}."
            wrong.append((("parallel", "pipeline"), text))
    except FactsError as error:
        wrong.append((("model", "zoo" if s.model.zoo else "factory"), str(error)))
    if wrong or what is None:
        raise refused(loaded, wrong)
    return what


def left_out(s: TrainingScenario, found: Sequence[Source], known: set[tuple[str, int]]) -> Iterator[str]:
    """What was asked for and is no option, or another one, and why."""
    if s.goodput and s.interruptions.mean_time_between:
        yield (
            "Restarts count twice: `goodput` has them in it, and `interruptions.mean_time_between` adds them again."
            " Leave one of them out."
        )
    if uneven := [count for count in s.gpu_counts if batch_of(s, count) is None]:
        yield f"Left out: {ranges(uneven)} GPUs, which do not divide a batch of {s.train.global_batch}."
    kinds = {source.gpu.name for source in found if any(batch_of(s, n) for n in counts(s, source))}
    if unable := sorted(kinds - {gpu for gpu, _ in known}):
        yield f"Left out: {', '.join(unable)}, which cannot compute in {s.train.precision}."
    p = s.parallel
    if whole := sorted({count for _, count in known if count % (p.tensor * p.pipeline)}):
        yield (
            f"The model is whole on each of {ranges(whole)} {'GPU' if whole == [1] else 'GPUs'}:"
            f" tensor {p.tensor} x pipeline {p.pipeline} do not divide that."
        )


def is_allowed(o: Option) -> bool:
    """Whether it fits, ends, and keeps deadline and budget at its bad ends."""
    return o.fits and o.within_deadline and o.within_budget and math.isfinite(o.time_s.high)


def is_pareto(o: Option, others: Sequence[Option]) -> bool:
    """Whether none that fits is faster and takes no more money, or takes less and is no slower."""
    at = (o.time_s.mid, o.paid_usd)
    return o.fits and not any(
        x.fits and x.time_s.mid <= at[0] and x.paid_usd <= at[1] and (x.time_s.mid, x.paid_usd) != at for x in others
    )


def facts_of(what: Subject, model: str) -> Facts:
    """The layers of the model that is trained, by the name of its profile, or of another; FactsError where unknown."""
    return what.own if what.own and model == what.profile else facts(model)


def option(s: TrainingScenario, what: Subject, source: Source, count: int, predictor: Predictor) -> Option | None:
    """One way to train; None where the batch is not divided by it, or the GPU lacks the precision."""
    micro = batch_of(s, count)
    found = speed(s, what, source.gpu, micro, predictor) if micro is not None else None
    if micro is None or found is None:
        return None
    split = split_of(s, count)
    job = Job(s=s, what=what, source=source, count=count, split=split, micro=micro, speed=found)
    each = activations(s, what, split, source.gpu, predictor.library)
    held = peak(s, what, micro, split, each)
    fits = held.total.mid <= source.memory_bytes
    step = job.step()
    time_s = job.time(step)
    cost = cost_usd(time_s, source, job.machines)
    commitment_usd = job.machines * source.commitment_usd
    term_s = source.committed_years * HOURS_PER_YEAR * 3600
    energy_j = count * power_w(s, what, source.gpu, predictor.library) * time_s.mid
    return Option(
        gpu=source.gpu.name,
        gpu_count=count,
        instance=source.instance,
        machines=job.machines,
        price_kind=source.price_kind,
        global_batch=job.per_step,
        micro_batch=micro,
        parallel=in_words(split, s),
        fits=fits,
        memory_bytes=round(held.total.mid),
        memory=held.kinds(),
        memory_range_bytes=held.total,
        memory_limit_bytes=source.memory_bytes,
        largest_batch=largest(s, what, source.memory_bytes, split, each),
        gpus_needed=gpus_needed(what.params, s.train.precision, s.train.optimizer, source.memory_bytes, s.context),
        steps=job.steps().mid,
        step_s=step.time_s.mid,
        time_s=time_s,
        cost_usd=cost,
        commitment_usd=commitment_usd,
        commitment_used=time_s.mid / term_s if term_s else None,
        energy_j=energy_j,
        co2_kg=None if s.grid is None else co2_kg(energy_j, s.grid),
        bottleneck=step.limit if fits else Limit.MEMORY,
        workers_enough=job.workers_enough(),
        staleness=job.staleness(),
        usd_per_tflops=dollars_for_speed(source, s.train.precision),
        evidence=step.evidence,
        source=step.source,
        within_deadline=s.deadline is None or time_s.high <= s.deadline,
        within_budget=s.budget is None or max(cost.high, commitment_usd) <= s.budget,
    )


def cost_usd(time_s: Range, source: Source, machines: int) -> Range:
    """Rent at both ends and the middle."""
    price = source.usd_per_hour
    return Range(
        low=rent_usd(time_s.low, price.low, machines),
        mid=rent_usd(time_s.mid, price.mid, machines),
        high=rent_usd(time_s.high, price.high, machines),
    )


def dollars_for_speed(source: Source, precision: str) -> float | None:
    """A machine's dollars for each TFLOP/s of peak; None where its GPUs have none at that precision."""
    try:
        peak_tflops = peak_flops(source.gpu, precision) / 1e12
    except PrecisionError:
        return None
    return usd_per_tflops(source.usd_in_all, source.gpus_each * peak_tflops)


def power_w(s: TrainingScenario, what: Subject, gpu: GPU, library: Library) -> float:
    """Of one GPU at work: as a profile measured it, else what full batches draw."""
    profile = library.get(what.profile, gpu.name, s.train.precision) if what.profile else None
    return profile.busy_w if profile and profile.busy_w else gpu.idle_w + AT_FULL_PACE * (gpu.tdp_w - gpu.idle_w)


def split_of(s: TrainingScenario, count: int) -> Split:
    """How so many GPUs share the work; whole models where the parts asked for do not come out even."""
    p = s.parallel
    if count % (p.tensor * p.pipeline):
        return Split(data=count, zero=p.zero)
    data = count // (p.tensor * p.pipeline)
    return Split(data=data, tensor=p.tensor, pipeline=p.pipeline, zero=p.zero, sequence_parallel=p.sequence_parallel)


def in_words(split: Split, s: TrainingScenario) -> str:
    """`data 8, tensor 8, pipeline 16`."""
    parts = {"data": split.data, "tensor": split.tensor, "pipeline": split.pipeline}
    words = [f"{name} {n}" for name, n in parts.items() if n > 1]
    if split.zero:
        words.append(f"ZeRO-{split.zero}")
    if not s.parallel.synchronous:
        words.append("asynchronous")
    return ", ".join(words) or "one GPU"


def kilowatt_hours(energy_j: float) -> float:
    """3.6 MJ are one."""
    return energy_j / JOULES_PER_KWH
