"""The answer to a training scenario: options with time, memory, cost and limit of each; the cheapest and the fastest.

`train` is the whole of it, as a function: scenario, catalog and profiles in, a `TrainingPlan` out. It reads and writes
no file, and the same input gives the same plan.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial

from calibrate.io.points import WORKERS_MAX
from calibrate.layers.facts import facts
from calibrate.layers.work import Facts, FactsError
from calibrate.library.lookup import Library, Probes
from calibrate.published.names import gpu_named
from planner.catalog.catalog import Catalog
from planner.catalog.cost import HOURS_PER_YEAR, JOULES_PER_KWH, co2_kg, rent_usd, usd_per_tflops
from planner.catalog.offers import which_gpu, wrong_offers
from planner.catalog.sold import ANY_REGION, stale, stale_price, usual_days
from planner.io.load import ScenarioError, refusal, refused
from planner.io.strict_yaml import Problem
from planner.model.plan import PlanWarning, Rejection
from planner.model.ranges import Range
from planner.prediction.predict import Predictor
from planner.prediction.rules.roofline import PrecisionError, peak_flops, why_not
from planner.questions.training.closed_forms import FLOPS_PER_PARAM_TOKEN
from planner.questions.training.held import accumulation_enough, activations, largest, peak
from planner.questions.training.layout import Subject, TrainingLayout, subject_of
from planner.questions.training.memory import Fits, gpus_needed
from planner.questions.training.scenario import (
    SHOWN_COUNTS,
    SPEEDS,
    LoadedTraining,
    ParallelSpec,
    SpeedSpec,
    TrainingScenario,
    batch_of,
)
from planner.questions.training.sources import ASSUMED_NETWORK_BYTES_PER_S, MachineSource, counts, sources
from planner.questions.training.speed import MEASURED_OPTIMIZER, Limit, OnePass, PassSpeed, SpeedRule
from planner.questions.training.step import RunInterruptions, StepTimes, interruptions, run_time
from planner.search.names import spelt
from planner.units.errors import Wrong
from planner.units.writing import counted, names, ranges
from planner.words.statements import rejection_line
from simulator.world.hardware import GPU
from simulator.world.power import AT_FULL_PACE
from simulator.world.profile import Evidence

SCHEMA = "planner.training/v1"
PLAIN_FLOPS = FLOPS_PER_PARAM_TOKEN["none"]
WINOGRAD = 2.25
"""Times that convolutions may seem to pass the peak: Winograd's form of 3x3 takes 16 products where 36 are counted."""
ALIKE = 0.05
"""Share by which the middles of two times may differ that nobody can tell apart: even measured steps are taken within
10 %, half of those that are predicted err by more than 8 %."""
A_WORKER = 150.0
"""Pictures of 500x375 that a vCPU decodes and resizes to 224 in a second, to begin with: Pillow makes 320 to 390 on one
core of a Xeon at 2.5 GHz, of 91 and of 40 kB, and a core is two vCPUs."""
A_VCPU_MOST = 195.0
"""The same at most: half of what one core makes of the small ones."""
BITS_OF_GBYTE = 8e-9
"""Gb/s of bytes a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOption:
    """One way to train: its time, memory and cost at the ends and the middle of what is predicted."""

    gpu: str
    gpu_count: int
    instance: str
    provider: str
    """Who rents the machine; empty where it is one's own or bought."""
    region: str = ""
    """Where it is rented."""
    machines: int
    price_kind: str
    price_as_of: str = ""
    """ISO date of its price; empty where it is one's own."""
    global_batch: int
    micro_batch: float
    """Samples of one pass on one copy of the model."""
    parallel: str
    """How the GPUs share the work, in words."""
    fits: bool
    """At the upper end of the memory that it may need."""
    memory_bytes: int
    """Memory of the fullest GPU, at the middle."""
    memory: Mapping[str, float]
    """Memory of the fullest GPU by kind."""
    memory_range_bytes: Range
    memory_limit_bytes: int
    largest_batch: int
    """Most samples of one pass that fit on one GPU or pipeline, at the middle; 0 where none fits."""
    accumulation_enough: int | None = None
    """Fewest passes a step with which it surely fits; None where it does already, or with none."""
    gpus_needed: int
    """Fewest GPUs that could hold weights, gradients and optimizer states divided among them."""
    steps: float
    step_s: float
    step_range_s: Range | None = None
    """Its band; None in answers of before that was said."""
    time_s: Range
    time_parts_s: Mapping[str, float] = field(default_factory=dict)
    """The middle of `time_s` by what takes it; empty in answers of before that was told apart."""
    interruptions: RunInterruptions | None = None
    """None where nothing interrupts the run."""
    cost_usd: Range
    commitment_usd: float
    """Cost of a whole reservation or purchase, of which the run uses a part; 0 where machines are paid by the hour."""
    commitment_used: float | None
    """Share of the commitment's time that the run takes; None without one."""
    energy_j: float
    co2_kg: float | None
    bottleneck: Limit
    host_cores: int | None = None
    """Virtual CPUs of one machine; None where nobody says."""
    workers_enough: int | None
    """Loader workers for each GPU with which the loader delays nothing; None where the scenario has no loader."""
    network_bytes_per_s: Range | None = None
    """Bandwidth of one machine to others; None where it is the only one."""
    network_assumed: bool = False
    """Neither does the scenario state that bandwidth nor its provider list it."""
    staleness: int
    """Updates by others before a gradient arrives; 0 where all step together."""
    usd_per_tflops: float | None
    """Dollars of three years of a machine, or its price where bought, for each TFLOP/s of its peak; None where it has
    no such precision."""
    rule: SpeedRule | None = None
    """How the speed was found; None in answers of before that was said."""
    evidence: Evidence
    source: str
    """Where the speed comes from, in words."""
    sources: tuple[str, ...] = ()
    """Ids of publications that it rests on, and the source of a profile; empty where the scenario or data sheets say
    it."""
    within_deadline: bool
    """It meets the deadline even at the late end."""
    within_budget: bool
    """It keeps the budget even at the dear end, commitments counted whole."""
    pareto: bool = False
    """No option that fits is both faster and cheaper, commitments counted whole; where none surely fits, that may."""

    @property
    def may_fit(self) -> bool:
        """It fits at the middle of the memory that it may need."""
        return self.memory_bytes <= self.memory_limit_bytes

    @property
    def name(self) -> str:
        """`4 x p3.16xlarge (32 V100)`."""
        return f"{self.machines} x {self.instance} ({self.gpu_count} {self.gpu})"

    @property
    def priced(self) -> str:
        """`spot of aws us-east-2`; `own`."""
        seller = f"{self.provider} {self.region}".removesuffix(ANY_REGION).strip()
        return f"{self.price_kind} of {seller}" if seller else self.price_kind

    @property
    def paid_usd(self) -> float:
        """Dollars that are really paid at the middle: the run, or the whole commitment that it needs."""
        return max(self.cost_usd.mid, self.commitment_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """The answer."""

    schema: str = SCHEMA
    name: str
    options: tuple[TrainingOption, ...]
    cheapest: TrainingOption | None
    """By what is really paid, within memory, the deadline and the budget at the bad ends; where none fits so surely, at
    the middle of memory."""
    fastest: TrainingOption | None
    """The same, by time; of those whose times cannot be told apart, the cheapest."""
    cheaper_if_it_fits: TrainingOption | None = None
    """Cheapest of all that fit at the middle of their memory and keep the limits, where it does not surely fit."""
    faster_if_it_fits: TrainingOption | None = None
    """The same, by time."""
    cheapest_rival: TrainingOption | None = None
    """Cheapest of the other kinds of GPU, where nobody can tell whether it is not cheaper than `cheapest`."""
    fastest_rival: TrainingOption | None = None
    """The same, by time."""
    warnings: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    prices_as_of: str = ""
    """ISO date of the oldest price; empty where all machines are one's own."""
    cheapest_at_fresh_price: TrainingOption | None = None
    """The same as `cheapest` of those whose price is not stale, where its own is."""
    stale_prices: tuple[PlanWarning, ...] = ()
    """Prices of the answers that may have changed since, one of each date."""
    deadline_s: float | None = None
    budget_usd: float | None = None


def train(loaded: LoadedTraining, catalog: Catalog, library: Library, today: date | None = None) -> TrainingPlan:
    """Every option of a training scenario, cheapest first; ScenarioError or CatalogError where there is none.

    `today` tells which prices are stale; without it none is called so.
    """
    scenario = with_catalog_names(loaded.scenario, catalog)
    subject = known_subject(loaded, scenario, catalog)
    if problems := [*impossible_speeds(scenario, subject, catalog)]:
        raise refused(loaded, problems)
    machines, rejections = sources(scenario, catalog)
    predictor = Predictor(library, catalog.gpus, facts_of=partial(facts_of, subject))
    rates = loader_rates(loaded, {source.gpu.name for source in machines}, library)
    options = marked(every_option(scenario, subject, machines, predictor, rates))
    if not options:
        raise no_option(loaded, scenario, rejections)
    allowed = [option for option in options if is_allowed(option)]
    sure = keeping_up(scenario, subject, surest(allowed))
    cheapest, fastest = cheapest_of(sure), fastest_of(sure)
    return TrainingPlan(
        name=scenario.name or subject.name,
        options=options,
        cheapest=cheapest,
        fastest=fastest,
        cheaper_if_it_fits=unsure_of(cheapest, cheapest_of(allowed)),
        faster_if_it_fits=unsure_of(fastest, fastest_of(allowed)),
        cheapest_rival=cheapest and rival_of(cheapest, sure, paid_usd),
        fastest_rival=fastest and rival_of(fastest, sure, time_s),
        warnings=(
            *loaded.warnings,
            *usual_length(scenario, subject),
            *warnings(scenario, machines, options),
            *fed(scenario, subject, [one for one in (cheapest, fastest) if one]),
            *probed_rates(scenario, rates),
            *measured_doubts(scenario, subject, options, library),
        ),
        rejections=tuple(rejections),
        cheapest_at_fresh_price=at_fresh_price(sure, today),
        stale_prices=tuple(stale_prices([one for one in (cheapest, fastest) if one], today)),
        prices_as_of=min((source.as_of for source in machines if source.as_of), default=""),
        deadline_s=scenario.deadline,
        budget_usd=scenario.budget,
    )


# The scenario beside the catalog


def with_catalog_names(scenario: TrainingScenario, catalog: Catalog) -> TrainingScenario:
    """The scenario with its GPUs as the catalog spells them."""
    speeds = [replace(speed, gpu=gpu_named(speed.gpu, catalog.gpus)) for speed in scenario.speed]
    return replace(scenario, buy=spelt(scenario.buy, catalog), speed=tuple(speeds))


def known_subject(loaded: LoadedTraining, scenario: TrainingScenario, catalog: Catalog) -> Subject:
    """The model that is trained; ScenarioError with every name and division that model and catalog lack, in place."""
    problems: list[Wrong] = [*wrong_offers(catalog, scenario.buy), *unknown_gpus(scenario, catalog)]
    pipeline = scenario.parallel.pipeline
    try:
        subject = subject_of(scenario)
    except FactsError as error:
        problems.append((("model", "zoo" if scenario.model.zoo else "factory"), str(error)))
        raise refused(loaded, problems) from None
    if pipeline > subject.layers:
        text = f"must be at most {subject.layers}, the layers of {subject.name}, got {pipeline}."
        problems.append((("parallel", "pipeline"), text))
    if problems:
        raise refused(loaded, problems)
    return subject


def unknown_gpus(scenario: TrainingScenario, catalog: Catalog) -> Iterator[Wrong]:
    """Kinds of GPU of stated speeds that the catalog lacks."""
    for i, speed in enumerate(scenario.speed):
        if speed.gpu not in catalog.gpus:
            hint = which_gpu(speed.gpu, catalog.gpus)
            yield ("speed", i, "gpu"), f"`{speed.gpu}` is not in the catalog.{hint}"


ACHIEVED = "Write what one GPU reached, or the `precision` it was measured at."
MEASURED = "Write `gpu_count`, the GPUs it was measured on, or the `precision` and `global_batch` it had."
"""What to do about a speed that no GPU has."""


def impossible_speeds(scenario: TrainingScenario, subject: Subject, catalog: Catalog) -> Iterator[Wrong]:
    """Stated speeds at which each GPU would compute faster than it can."""
    for i, speed in enumerate(scenario.speed):
        key = next(key for key in SPEEDS if getattr(speed, key) is not None)
        try:
            peak_flops_per_s = peak_flops(catalog.gpus[speed.gpu], scenario.train.precision)
        except PrecisionError:
            continue
        reached = reached_flops_per_s(scenario, subject, speed)
        if reached <= peak_flops_per_s * (1.0 if speed.achieved else shortcut(subject)):
            continue
        rates = f"{reached / 1e12:,.4g} TFLOP/s on each of {counted(speed.gpu_count, 'GPU')}"
        limit = f"a {speed.gpu} computes at most {peak_flops_per_s / 1e12:g} at {scenario.train.precision}"
        yield ("speed", i, key), f"means {rates}; {limit}. {ACHIEVED if speed.achieved else MEASURED}"


def shortcut(subject: Subject) -> float:
    """How many times fewer operations a GPU may compute than the model has."""
    convolves = subject.facts is not None and any(layer.type == "Conv2d" for layer in subject.facts.layers)
    return WINOGRAD if convolves else 1.0


def reached_flops_per_s(scenario: TrainingScenario, subject: Subject, speed: SpeedSpec) -> float:
    """Operations a second of each GPU at a stated speed, by the batch of the whole step; 0 where that is not known."""
    if speed.achieved:
        return speed.achieved
    train, data = scenario.train, scenario.data
    batch = speed.global_batch or train.global_batch or 0
    samples_per_s = speed.rate or (batch / speed.step if speed.step else 0.0)
    if speed.run and data.samples and train.epochs:
        samples_per_s = data.samples * data.used * train.epochs / speed.run
    return subject.step_flops(samples_per_s, PLAIN_FLOPS) / speed.gpu_count


def loader_rates(loaded: LoadedTraining, gpus: Collection[str], library: Library) -> dict[str, float]:
    """Samples a second of one worker by kind of GPU; ScenarioError where the scenario has a loader and that is unknown.

    The scenario's rate, else what was probed on the GPU's host.
    """
    loader = loaded.scenario.data.loader
    if loader is None:
        return {}
    found = {gpu: loader.rate or worker_rate(library.probes(gpu), loader.workers) for gpu in gpus}
    if missing := sorted(gpu for gpu, rate in found.items() if rate is None):
        text = f"`rate` is missing, and beside the profiles of {', '.join(missing)} no loader was probed."
        remedy = f"Write what one worker makes ready, e.g. `rate: {A_WORKER:g} /s`, or measure it:"
        remedy += " planner calibrate --what loader."
        raise refused(loaded, [(("data", "loader"), f"{text} {remedy}")])
    return {gpu: rate for gpu, rate in found.items() if rate}


def worker_rate(probes: Probes, workers: int) -> float | None:
    """Samples a second of one of so many workers: of the fewest probed that are as many, else all that were share.

    With 100/s by 1 and 160/s by 2 workers: 1 makes 100/s, each of 2 makes 80/s, each of 4 makes 40/s.
    """
    of_loader = probes.get("loader", {})
    rates = {n: rate for n in range(1, WORKERS_MAX + 1) if (rate := of_loader.get(f"workers_{n}_samples_per_s"))}
    if not rates:
        return None
    as_many = min((n for n in rates if n >= workers), default=max(rates))
    return rates[as_many] / max(as_many, workers)


def probed_rates(scenario: TrainingScenario, rates: Mapping[str, float]) -> Iterator[str]:
    """Rates of loaders that the scenario does not state."""
    loader = scenario.data.loader
    if loader and not loader.rate:
        each = ", ".join(f"{rate:,.0f}/s on the host of {gpu}" for gpu, rate in sorted(rates.items()))
        yield f"A worker of the loader makes {each}, as probed there: pictures of 500x375, decoded and resized to 224."


def fed(scenario: TrainingScenario, subject: Subject, answers: Sequence[TrainingOption]) -> Iterator[str]:
    """What processors have to make ready that the scenario does not say, or more workers than they have."""
    loader = scenario.data.loader
    if loader is None:
        if hungry := [option for option in answers if makes_pictures(scenario, subject, option)]:
            yield unstated_loader(
                max(hungry, key=lambda option: pictures_per_s(option) / (option.host_cores or math.inf))
            )
        return
    for option in answers:
        workers = loader.workers * option.gpu_count // option.machines
        if option.host_cores and workers > option.host_cores:
            yield (
                f"data.loader.workers: {workers} on each {option.instance}, which has {option.host_cores} vCPUs: they"
                " share these, and are counted as if each had its own. Write fewer."
            )


def unstated_loader(option: TrainingOption) -> str:
    """The pictures that a machine must make ready, and how to say how fast it does."""
    cores = f"{option.host_cores} vCPUs" if option.host_cores else "vCPUs that nobody lists"
    needed_per_s, gpus = pictures_per_s(option), option.gpu_count // option.machines
    workers = math.ceil(needed_per_s / gpus / A_WORKER)
    few = ""
    if option.host_cores and needed_per_s > A_WORKER * option.host_cores:
        workers = max(1, option.host_cores // gpus)
        few = f", which likely make {A_WORKER * option.host_cores:,.0f}: take machines with more"
    return (
        f"Assumed: the loader is never too slow. Each {option.instance} must make {needed_per_s:,.0f} pictures"
        f" a second ready and has {cores}{few}; write `data.loader`, e.g."
        f" `{{workers: {workers}, rate: {A_WORKER:g} /s}}`, and it is counted."
    )


def keeping_up(
    scenario: TrainingScenario, subject: Subject, options: Sequence[TrainingOption]
) -> Sequence[TrainingOption]:
    """Without those that no loader can feed, where the scenario states none; all, where that leaves none."""
    if scenario.data.loader is not None:
        return options
    return [option for option in options if not is_starved(scenario, subject, option)] or options


def is_starved(scenario: TrainingScenario, subject: Subject, option: TrainingOption) -> bool:
    """Its processors cannot make as many pictures ready as its GPUs take."""
    most_per_s = A_VCPU_MOST * (option.host_cores or math.inf)
    return makes_pictures(scenario, subject, option) and pictures_per_s(option) > most_per_s


def pictures_per_s(option: TrainingOption) -> float:
    """Samples that one of its machines must make ready in a second."""
    return option.global_batch / option.step_s / option.machines


def makes_pictures(scenario: TrainingScenario, subject: Subject, option: TrainingOption) -> bool:
    """Samples are pictures, and no stated run or step says how fast they come."""
    pictures = subject.facts is not None and len(subject.facts.input_shape) == len(("colours", "rows", "columns"))
    return pictures and option.rule is not SpeedRule.STATED and scenario.data.samples is not None


def no_option(loaded: LoadedTraining, scenario: TrainingScenario, rejections: Sequence[Rejection]) -> ScenarioError:
    """The error of a scenario for which no machine on offer will do."""
    tried = ", ".join(map(str, scenario.gpu_counts[:SHOWN_COUNTS]))
    remedy = "Name other `counts`, `buy.gpus`, or another precision."
    first = f"no machine on offer makes up {tried} GPUs at {scenario.train.precision}. {remedy}"
    reasons = map(rejection_line, rejections)
    return refusal(loaded.path, [Problem(0, 0, text, "") for text in (first, *reasons)])


def facts_of(subject: Subject, model: str) -> Facts:
    """The layers of the model that is trained, by the name of its profile, or of another; FactsError where unknown."""
    return subject.own if subject.own and model == subject.profile else facts(model)


def stale_prices(answers: Sequence[TrainingOption], today: date | None) -> Iterator[PlanWarning]:
    """Prices that may have changed since, by the rule and in the words of a plan."""
    dated: dict[tuple[str, int], list[TrainingOption]] = {}
    for option in answers:
        if today and is_stale(option, today):
            dated.setdefault((option.price_as_of, usual_days(option.provider)), []).append(option)
    for (as_of, _), options in sorted(dated.items()):
        instances = names(list(dict.fromkeys(option.instance for option in options)))
        if today and (old := stale_price(instances, options[0].provider, as_of, today)):
            yield PlanWarning(what=old)


def is_stale(option: TrainingOption, today: date | None) -> bool:
    """Its price is older than its provider's usually become."""
    return today is not None and stale(option.price_as_of, today, usual_days(option.provider))


def at_fresh_price(options: Sequence[TrainingOption], today: date | None) -> TrainingOption | None:
    """The cheapest option whose price is not stale, where the cheapest of all has one that is."""
    cheapest = cheapest_of(options)
    if cheapest is None or not is_stale(cheapest, today):
        return None
    return cheapest_of([option for option in options if not is_stale(option, today)])


def usual_length(scenario: TrainingScenario, subject: Subject) -> Iterator[str]:
    """How long sequences are taken to be where the scenario does not say it."""
    if subject.facts and len(subject.facts.input_shape) == 1 and not scenario.model.input:
        yield (
            f"Assumed: sequences of {subject.facts.input_shape[0]} tokens, at which {subject.name} is known;"
            " write `model.input`, e.g. `[384]`."
        )


def warnings(
    scenario: TrainingScenario, machines: Sequence[MachineSource], options: Sequence[TrainingOption]
) -> Iterator[str]:
    """GPUs that are no option though the scenario names them, or another option than it names, and why."""
    if scenario.goodput and scenario.interruptions.mean_time_between:
        yield (
            "Restarts count twice: `goodput` has them in it, and `interruptions.mean_time_between` adds them again."
            " Leave one of them out."
        )
    yield from left_out(scenario, machines, options)
    yield from undivided(scenario.parallel, options)
    if sellers := sorted({option.provider or "your own" for option in options if option.network_assumed}):
        link = ASSUMED_NETWORK_BYTES_PER_S * BITS_OF_GBYTE
        yield (
            f"Assumed: {link.mid:g} Gb/s for each GPU between machines of {names(sellers)}, whose network nobody lists"
            f" ({link.low:g} to {link.high:g}); write `network.bandwidth`."
        )


def left_out(
    scenario: TrainingScenario, machines: Sequence[MachineSource], options: Sequence[TrainingOption]
) -> Iterator[str]:
    """Numbers of GPUs that the batch cannot be divided among, and GPUs without the precision."""
    if uneven := [count for count in scenario.gpu_counts if batch_of(scenario, count) is None]:
        yield f"Left out: {ranges(uneven)} GPUs, which do not divide a batch of {scenario.train.global_batch}."
    yield from without_precision(scenario, machines, options)


def without_precision(
    scenario: TrainingScenario, machines: Sequence[MachineSource], options: Sequence[TrainingOption]
) -> Iterator[str]:
    """GPUs that do not compute in the precision, by why."""
    answered = {option.gpu for option in options}
    unable = {gpu.name: gpu for gpu in gpus_with_batch(scenario, machines) if gpu.name not in answered}
    reasons = {name: why_not(gpu, scenario.train.precision) for name, gpu in unable.items()}
    for reason in sorted(set(reasons.values())):
        yield f"Left out: {', '.join(sorted(name for name in reasons if reasons[name] == reason))} ({reason})."


def measured_doubts(
    scenario: TrainingScenario, subject: Subject, options: Sequence[TrainingOption], library: Library
) -> Iterator[str]:
    """What speaks against training steps that were measured."""
    optimizer = MEASURED_OPTIMIZER.get(scenario.train.optimizer)
    for gpu in dict.fromkeys(option.gpu for option in options):
        profile = library.get(subject.profile, gpu, scenario.train.precision) if subject.profile else None
        doubts = library.measured(profile).get("training_doubts", {}) if profile else {}
        for doubt in doubts.get(optimizer, []):
            yield f"{subject.profile} on {gpu}: {doubt}"


def undivided(parallel: ParallelSpec, options: Sequence[TrainingOption]) -> Iterator[str]:
    """Numbers of GPUs that the parts of the model do not divide."""
    if whole := sorted({option.gpu_count for option in options if option.gpu_count % parallel.parts}):
        gpus = "GPU" if whole == [1] else "GPUs"
        yield (
            f"The model is whole on each of {ranges(whole)} {gpus}:"
            f" tensor {parallel.tensor} x pipeline {parallel.pipeline} do not divide that."
        )


def gpus_with_batch(scenario: TrainingScenario, machines: Sequence[MachineSource]) -> list[GPU]:
    """Kinds of GPU of which some number divides the batch."""
    return [
        source.gpu
        for source in machines
        if any(batch_of(scenario, gpu_count) for gpu_count in counts(scenario, source))
    ]


# Options


def every_option(
    scenario: TrainingScenario,
    subject: Subject,
    machines: Sequence[MachineSource],
    predictor: Predictor,
    loader_rates: Mapping[str, float],
) -> Iterator[TrainingOption]:
    """An option for each machine and number of GPUs, where the batch is divided by it and the GPU has the precision."""
    speeds: dict[tuple[str, float], PassSpeed | None] = {}
    for source in machines:
        for gpu_count in counts(scenario, source):
            micro_batch = batch_of(scenario, gpu_count)
            if micro_batch is None:
                continue
            layout = TrainingLayout(
                scenario=scenario,
                subject=subject,
                source=source,
                gpu_count=gpu_count,
                micro_batch=micro_batch,
                loader_rate=loader_rates.get(source.gpu.name, math.inf),
            )
            asked = (layout.gpu.name, micro_batch)
            if asked not in speeds:
                one_pass = OnePass(
                    scenario=scenario,
                    subject=subject,
                    gpu=layout.gpu,
                    batch=micro_batch,
                    predictor=predictor,
                )
                speeds[asked] = one_pass.speed()
            if speed := speeds[asked]:
                yield option_of(layout, speed, predictor)


def option_of(layout: TrainingLayout, speed: PassSpeed, predictor: Predictor) -> TrainingOption:
    """The option of one layout, where a pass takes so long."""
    scenario, subject, source = layout.scenario, layout.subject, layout.source
    per_sample = activations(layout, predictor.library)
    memory = peak(layout, per_sample)
    fits = Fits.of(memory.total, source.memory_bytes) is Fits.YES
    times = StepTimes(layout=layout, speed=speed)
    step = times.step()
    run = run_time(layout, times)
    time_s = run.interrupted_s
    usd = cost_usd(time_s, source, layout.machines)
    commitment_usd = layout.machines * source.commitment_usd
    term_s = source.committed_years * HOURS_PER_YEAR * 3600
    energy_j = layout.gpu_count * power_w(layout, predictor.library) * time_s.mid
    return TrainingOption(
        gpu=layout.gpu.name,
        gpu_count=layout.gpu_count,
        instance=source.instance,
        provider=source.provider,
        region=source.region,
        machines=layout.machines,
        price_kind=source.price_kind,
        price_as_of=source.as_of,
        global_batch=layout.global_batch,
        micro_batch=layout.micro_batch,
        parallel=layout.in_words(),
        fits=fits,
        memory_bytes=round(memory.total.mid),
        memory=memory.kinds(),
        memory_range_bytes=memory.total,
        memory_limit_bytes=source.memory_bytes,
        largest_batch=largest(layout, per_sample),
        accumulation_enough=None if fits else accumulation_enough(layout, predictor.library),
        gpus_needed=gpus_needed(
            subject.params, scenario.train.precision, scenario.train.optimizer, source.memory_bytes, scenario.context
        ),
        steps=layout.steps().mid,
        step_s=step.time_s.mid,
        step_range_s=step.time_s,
        time_s=time_s,
        time_parts_s=run.parts_s(),
        interruptions=interruptions(layout),
        cost_usd=usd,
        commitment_usd=commitment_usd,
        commitment_used=time_s.mid / term_s if term_s else None,
        energy_j=energy_j,
        co2_kg=None if scenario.grid is None else co2_kg(energy_j, scenario.grid),
        bottleneck=step.limit if memory.total.mid <= source.memory_bytes else Limit.MEMORY,
        host_cores=source.host_cores,
        workers_enough=times.workers_enough(),
        network_bytes_per_s=layout.network_bytes_per_s if layout.machines > 1 else None,
        network_assumed=layout.machines > 1 and layout.is_network_assumed,
        staleness=layout.staleness(),
        usd_per_tflops=dollars_for_speed(source, scenario.train.precision),
        rule=step.rule,
        evidence=step.evidence,
        source=step.source,
        sources=step.sources,
        within_deadline=is_within(time_s.high, scenario.deadline),
        within_budget=is_within(max(usd.high, commitment_usd), scenario.budget),
    )


def is_within(value: float, limit: float | None) -> bool:
    """The value is at most the limit, or there is none."""
    return limit is None or value <= limit


def cost_usd(time_s: Range, source: MachineSource, machines: int) -> Range:
    """Rent at both ends and the middle."""
    return time_s.joined(lambda taken_s, usd_per_hour: rent_usd(taken_s, usd_per_hour, machines), source.usd_per_hour)


def dollars_for_speed(source: MachineSource, precision: str) -> float | None:
    """A machine's dollars for each TFLOP/s of peak; None where its GPUs have none at that precision."""
    try:
        peak_tflops = peak_flops(source.gpu, precision) / 1e12
    except PrecisionError:
        return None
    return usd_per_tflops(source.usd_in_all, source.gpus_each * peak_tflops)


def power_w(layout: TrainingLayout, library: Library) -> float:
    """Power of one GPU at work: as a profile measured it, else that of full batches."""
    name, gpu = layout.subject.profile, layout.gpu
    profile = library.get(name, gpu.name, layout.scenario.train.precision) if name else None
    if profile and profile.busy_w:
        return profile.busy_w
    return gpu.idle_w + AT_FULL_PACE * (gpu.tdp_w - gpu.idle_w)


def kilowatt_hours(energy_j: float) -> float:
    """3.6 MJ are one."""
    return energy_j / JOULES_PER_KWH


# Which option is best


def by_cost(option: TrainingOption) -> tuple[float, float]:
    """The order of options."""
    return option.cost_usd.mid, option.time_s.mid


def marked(options: Iterator[TrainingOption]) -> tuple[TrainingOption, ...]:
    """Options, cheapest first, each with its mark where none is both faster and cheaper."""
    ranked = sorted(options, key=by_cost)
    room = [option for option in ranked if option.fits] or [option for option in ranked if option.may_fit]
    return tuple(replace(option, pareto=option in room and is_pareto(option, room)) for option in ranked)


def surest(options: Sequence[TrainingOption]) -> Sequence[TrainingOption]:
    """Those that surely fit in memory; where none does, those that may."""
    return [option for option in options if option.fits] or [option for option in options if option.may_fit]


def cheapest_of(options: Sequence[TrainingOption]) -> TrainingOption | None:
    """By what is really paid."""
    return min(options, key=lambda option: (option.paid_usd, *by_cost(option)), default=None)


def fastest_of(options: Sequence[TrainingOption]) -> TrainingOption | None:
    """The cheapest of those whose times cannot be told apart from the shortest.

    $17.92 for 1,536 s and $2.96 for 1,537 s, both predicted: the second.
    """
    quickest = min(options, key=lambda option: (option.time_s.mid, *by_cost(option)), default=None)
    return quickest and cheapest_of([option for option in options if is_as_fast(option, quickest)])


def is_as_fast(option: TrainingOption, quickest: TrainingOption) -> bool:
    """Its time cannot be told apart from the shortest one: the bands meet, and the middles differ little."""
    little = option.time_s.mid <= (1 + ALIKE) * quickest.time_s.mid or option is quickest
    return little and option.time_s.low <= quickest.time_s.high


def rival_of(
    best: TrainingOption, options: Sequence[TrainingOption], figure: Callable[[TrainingOption], float]
) -> TrainingOption | None:
    """The best of other kinds of GPU, where the order of both is another in more than a tenth of cases.

    Steps err independently, runs over their steps alike. 10 h and 12 h with steps known within 1.2 times cannot be told
    apart, 10 h and 15 h can.
    """
    rival = min((option for option in options if option.gpu != best.gpu), key=figure, default=None)
    if rival is None or not (rival.step_range_s and best.step_range_s) or not math.isfinite(figure(rival)):
        return None
    slower, faster = best.step_range_s, rival.step_range_s
    doubt = math.hypot(math.log(slower.high / slower.mid), math.log(faster.mid / faster.low))
    return rival if math.log(figure(rival) / figure(best)) < doubt else None


def paid_usd(option: TrainingOption) -> float:
    """What is really paid for an option."""
    return option.paid_usd


def time_s(option: TrainingOption) -> float:
    """The middle of its time."""
    return option.time_s.mid


def unsure_of(chosen: TrainingOption | None, of_all: TrainingOption | None) -> TrainingOption | None:
    """The best of all that may fit, where it is another than what was chosen of those that surely do."""
    return None if of_all is None or of_all is chosen or of_all.fits else of_all


def is_allowed(option: TrainingOption) -> bool:
    """The option may fit, ends, and meets deadline and budget at its bad ends."""
    return option.may_fit and option.within_deadline and option.within_budget and math.isfinite(option.time_s.high)


def is_pareto(option: TrainingOption, others: Sequence[TrainingOption]) -> bool:
    """No other is faster and costs no more, or costs less and is no slower."""
    return not any(is_better(other, option) for other in others)


def is_better(other: TrainingOption, option: TrainingOption) -> bool:
    """The other option is at most as slow and as dear, and not both the same."""
    figures, other_figures = (option.time_s.mid, option.paid_usd), (other.time_s.mid, other.paid_usd)
    at_most = other_figures[0] <= figures[0] and other_figures[1] <= figures[1]
    return at_most and other_figures != figures
