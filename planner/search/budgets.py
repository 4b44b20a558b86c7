"""Budgets: a question for the GPUs of one fleet, with a part of its pipeline's SLO for each stage."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf
from typing import NamedTuple

from planner.catalog.offers import Offer
from planner.io.load import Loaded, refused
from planner.model.candidate import OnGpu
from planner.model.parts.models import SloSpec
from planner.model.parts.pipelines import PipelineSpec, StageSpec
from planner.model.plan import Rejection
from planner.model.statement import Code
from planner.placing.cutting import FleetGpu
from planner.placing.sizing import Kind, Part, Sized, design_work
from planner.placing.splitting import Before, Choice, budgets_s, least_cost, longest_s, most_s
from planner.placing.stages import items_of
from planner.placing.stations import held_on, kind_of, piped, service_s
from planner.search.question import Question
from planner.units.errors import Steps
from planner.units.writing import counted, per_second, seconds
from simulator.world.hardware import GPU
from simulator.world.workload import SLO

TOO_SLOW = (Code.SAMPLE_TOO_SLOW, Code.SAMPLE_MAY_BE_TOO_SLOW)
"""Reasons that say how long a sample runs alone."""
WAITS = (1.0, 0.0, 2.0)
"""Time that an item waits for its batch, in run times of it, that budgets leave. One run time is Nexus's: whoever just
missed a batch waits for it. Without, batches are larger and cost less, which is enough where GPUs have time to spare;
with two they are smaller, for bursts."""

RESOURCES = {"decode": "decoders", "encode": "encoders", "host": "cores", "copy": "links"}
"""Kinds of station, as an error names them."""
FAR_OVER = 10.0
"""Times all that GPUs can do above which no replay is worth its time: every queue grows, and no SLO is near."""


class Budget(NamedTuple):
    """A stage's part of all SLOs that it counts for."""

    time_s: float
    own: Part | None
    """As of `Need`."""


Budgets = Mapping[str, Budget]
"""By the names of stages' models."""


def with_budgets(question: Question, devices: Sequence[FleetGpu]) -> Iterator[Question]:
    """The question with budgets for these GPUs, the most promising first; as it is where no pipeline is asked."""
    seen: list[Budgets] = []
    kinds = list(dict.fromkeys(device.kind for device in devices))
    for budgets in _splits(question, kinds) if question.scenario.pipelines else ():
        if budgets and budgets not in seen:
            seen.append(budgets)
            yield budgeted(question, devices, budgets)
    if not seen:
        yield question


def _splits(question: Question, kinds: Sequence[Kind]) -> Iterator[Budgets]:
    """Budgets at least cost under each rule of waiting; last what each stage may take at most."""
    for wait in WAITS:
        yield split(question, kinds, wait)
    yield generous(question, kinds)


def whole(question: Question) -> Budgets:
    """For each stage its pipeline's whole SLO."""
    return {
        pipeline.stage(stage.name): Budget(pipeline.slo.latency, None)
        for pipeline in question.scenario.pipelines
        for stage in pipeline.stages
        if stage.is_model
    }


def designed(question: Question) -> Question:
    """The question with the work that each stage takes within its budget where only one kind of GPU is bought: fleets
    are proposed by it."""
    sized = dict(question.sized)
    for kind in dict.fromkeys(kind for _, kind in question.sized):
        ways = (split(question, [kind], wait) for wait in WAITS)
        for model, budget in next(filter(None, ways), {}).items():
            one = question.sized[model, kind]
            sized[model, kind] = replace(one, design_work=within(one, budget.time_s).design_work)
    return replace(question, sized=sized)


def split(question: Question, kinds: Sequence[Kind], wait: float) -> Budgets:
    """Budgets of all stages that run models; empty where some pipeline's SLO is too short."""
    found: dict[str, Budget] = {}
    for pipeline in question.scenario.pipelines:
        ways = choices(question, pipeline, kinds, wait)
        chosen = least_cost(before_of(pipeline), ways, pipeline.slo.latency, own_slos_s(pipeline))
        if chosen is None:
            return {}
        found |= parts_of(pipeline, budgets_s, {stage: choice.time_s for stage, choice in chosen.items()})
    return found


def generous(question: Question, kinds: Sequence[Kind]) -> Budgets:
    """For each stage all that the others leave of the SLO at their quickest; empty where some have no time.

    Batches are then as large as a frame may find them that is late nowhere else: what comes at once, of a frame with
    many items, is done at once.
    """
    found: dict[str, Budget] = {}
    for pipeline in question.scenario.pipelines:
        ways = choices(question, pipeline, kinds, 0.0)
        if not all(ways.values()):
            return {}
        found |= parts_of(pipeline, most_s, {stage: min(each).time_s for stage, each in ways.items()})
    return found


def parts_of(
    pipeline: PipelineSpec,
    rule: Callable[[Before, Mapping[str, float], float, Mapping[str, float]], dict[str, float]],
    times_s: Mapping[str, float],
) -> Iterator[tuple[str, Budget]]:
    """Budgets of the stages that run models, by one of the rules of `splitting`."""
    before, ends_s = before_of(pipeline), own_slos_s(pipeline)
    in_all_s = rule(before, times_s, pipeline.slo.latency, ends_s)
    own_s = {end: rule(before, times_s, inf, {end: end_s}) for end, end_s in ends_s.items()}
    for stage in (one.name for one in pipeline.stages if one.is_model):
        parts = [Part(pipeline.stage(end), ends_s[end], each_s[stage]) for end, each_s in own_s.items()]
        least = min(parts, key=lambda part: part.time_s, default=None)
        yield pipeline.stage(stage), Budget(in_all_s[stage], least)


def before_of(pipeline: PipelineSpec) -> Before:
    """The stages that come right before each."""
    return {stage.name: tuple(edge.stage for edge in stage.after) for stage in pipeline.stages}


def own_slos_s(pipeline: PipelineSpec) -> dict[str, float]:
    """Stages that have an SLO besides the pipeline's: from the frame's arrival to their end."""
    return {stage.name: stage.slo.latency for stage in pipeline.stages if stage.slo}


def choices(question: Question, pipeline: PipelineSpec, kinds: Sequence[Kind], wait: float) -> dict[str, list[Choice]]:
    """Ways to do each stage on these kinds of GPU, and what their work costs."""
    usd = {kind: _usd_per_second(question, kind) for kind in kinds}
    found: dict[str, list[Choice]] = {}
    for stage in pipeline.stages:
        if not stage.is_model:
            found[stage.name] = _at_stations(stage, kinds, wait)
            continue
        model = pipeline.stage(stage.name)
        sized = [(question.sized[model, kind], usd[kind]) for kind in kinds if (model, kind) in question.sized]
        found[stage.name] = [choice for one, price in sized for choice in _batches(one, price, wait)]
    return found


def _at_stations(stage: StageSpec, kinds: Sequence[Kind], wait: float) -> list[Choice]:
    """The slowest of the stations that can do a stage; nothing where none can."""
    times_s = [took_s for kind in kinds if (took_s := service_s(stage, kind.gpu)) < inf]
    return [Choice((1 + wait) * max(times_s), 0.0)] if times_s else []


def _batches(sized: Sized, usd_per_second: float, wait: float) -> Iterator[Choice]:
    """A choice for each batch size: it waits while another runs, or until as many items have come."""
    rate_rps = sized.need.needed_rps
    for size, run_s in enumerate(sized.latency_s[: sized.batch_size_max], start=1):
        gathers_s = (size - 1) / rate_rps
        yield Choice(run_s + max(wait * run_s, gathers_s if wait else 0.0), rate_rps * run_s / size * usd_per_second)


def _usd_per_second(question: Question, kind: Kind) -> float:
    """Price of a second of one GPU at the cheapest of the offers."""
    prices = [o.usd_per_hour / o.gpu_count for o in question.offers if Kind.of(o) == kind]
    return min(prices, default=1.0) / 3600


def budgeted(question: Question, devices: Sequence[FleetGpu], budgets: Budgets) -> Question:
    """The question with these budgets as the SLOs of its stages, and with what streams of video hold of GPUs' memory:
    of each kind, that of the GPU with most."""
    held: dict[Kind, int] = {}
    kind_of = {device.id: device.kind for device in devices}
    for gpu, mine in held_on(question.needs, devices).items():
        held[kind_of[gpu]] = max(mine.size_bytes, held.get(kind_of[gpu], 0))
    needs = dict(question.needs)
    for model, (time_s, own) in budgets.items():
        slo = SLO(time_s, needs[model].slo.attainment)
        needs[model] = replace(needs[model], slo=slo, own=own)
    sized: dict[tuple[str, Kind], Sized] = {}
    for (model, kind), one in question.sized.items():
        beside = one.beside_streams(held.get(kind, 0))
        tight = within(beside, budgets[model].time_s) if model in budgets else beside
        if tight.latency_s:
            sized[model, kind] = tight
    return replace(question, needs=needs, sized=sized)


def within(sized: Sized, budget_s: float) -> Sized:
    """The batches that run no longer than a budget; none where a single item takes longer."""
    latency_s = tuple(takewhile(lambda run_s: run_s <= budget_s, sized.latency_s))
    need = replace(sized.need, slo=SLO(budget_s, sized.need.slo.attainment))
    batches = tuple(min(most, len(latency_s)) for most in sized.batches)
    work = design_work(need, latency_s) if latency_s else inf
    return replace(sized, need=need, latency_s=latency_s, batches=batches, design_work=max(sized.least_work, work))


def too_short(least_s: float, slo_s: float, uncertain: bool) -> str:
    """What is wrong with an SLO that nothing can keep. Uncertain times are at the slow end of their bands."""
    end = ", uncertain ones at the slow end of their bands" if uncertain else ""
    rule = f"must be at least {seconds(least_s)}, the sum of the quickest service times on the longest way{end}"
    return f"{rule}, got {seconds(slo_s)}."


def check_fastest(
    loaded: Loaded, question: Question, offered: Sequence[Offer], rejections: Sequence[Rejection]
) -> None:
    """ScenarioError where an SLO of a pipeline or of a stage is shorter than the stages until there take at their
    quickest, one after the other."""
    kinds = list(dict.fromkeys(map(Kind.of, offered)))
    uncertain = any(sized.profile.doubt for sized in question.sized.values())
    wrong: list[tuple[Steps, str]] = []
    for i, pipeline in enumerate(loaded.scenario.pipelines):
        quickest = _quickest_s(question, pipeline, kinds, rejections)
        if len(quickest) < len(pipeline.stages):
            continue
        until_s = longest_s(before_of(pipeline), quickest)
        slos: dict[Steps, tuple[float, SloSpec | None]] = {(): (max(until_s.values()), pipeline.slo)}
        slos |= {("stages", k): (until_s[stage.name], stage.slo) for k, stage in enumerate(pipeline.stages)}
        for place, (least_s, slo) in slos.items():
            if slo and least_s > slo.latency:
                wrong.append((("pipelines", i, *place, "slo", "latency"), too_short(least_s, slo.latency, uncertain)))
    if wrong:
        raise refused(loaded, wrong)


def _quickest_s(
    question: Question, pipeline: PipelineSpec, kinds: Sequence[Kind], rejections: Sequence[Rejection]
) -> dict[str, float]:
    """What stages take at least on any kind of GPU; without those of which that is not known."""
    ways = [choices(question, pipeline, [kind], 0.0) for kind in kinds]
    times_s = {one.name: [choice.time_s for way in ways for choice in way[one.name]] for one in pipeline.stages}
    known = {
        stage: min(each) if each else _too_slow_s(pipeline.stage(stage), rejections) for stage, each in times_s.items()
    }
    return {stage: time_s for stage, time_s in known.items() if time_s < inf}


def _too_slow_s(model: str, rejections: Sequence[Rejection]) -> float:
    """The quickest run of a model that takes longer than the whole SLO on every kind of GPU; infinite where it is not
    known, or it is rejected for something else."""
    mine = [no for no in rejections if isinstance(no.subject, OnGpu) and no.subject.models == (model,)]
    return min((no.observed for no in mine if no.why.code in TOO_SLOW), default=inf)


class Asked(NamedTuple):
    """What all models and stages ask of one resource, and which of them takes most of it."""

    name: str
    """A model, or a stage with its pipeline."""
    rate_rps: float
    resource: str
    gpus: float
    """GPUs of the kind that does it best whose resource is then full, without any headroom: a replay keeps none."""


def check_load(loaded: Loaded, question: Question, gpus: int) -> None:
    """ScenarioError where many times more is asked than so many GPUs and their machines can do, in full batches and
    without any waiting."""
    worst = max(_asked(question), key=lambda one: one.gpus, default=None)
    if worst is None or not 0 < FAR_OVER * gpus < worst.gpus:
        return
    scenario = loaded.scenario
    places: dict[str, Steps] = {model.name: ("models", i) for i, model in enumerate(scenario.models)}
    for i, pipeline in enumerate(scenario.pipelines):
        places |= {pipeline.stage(one.name): ("pipelines", i, "stages", k) for k, one in enumerate(pipeline.stages)}
    raise refused(loaded, [(places[worst.name], too_much(worst, gpus))])


def too_much(worst: Asked, gpus: int) -> str:
    """What is wrong with a load that no replay is worth."""
    rule = f"all together must ask at most what the {worst.resource} of {counted(gpus, 'GPU')} can do"
    times = worst.gpus / gpus
    got = f"{times:,.0f}" if times >= 100 else f"{times:.3g}"
    most = f"the largest part by {worst.name}, at {per_second(worst.rate_rps)}"
    return f"{rule}, got {got} times that, {most}. Ask less, or allow more GPUs."


def _asked(question: Question) -> Iterator[Asked]:
    """What all ask of GPUs, and of each kind of station beside them."""
    works: dict[str, float] = {}
    for (model, _), one in question.sized.items():
        each_s = min(run_s / size for size, run_s in enumerate(one.latency_s, start=1))
        works[model] = min(one.need.needed_rps * each_s, works.get(model, inf))
    if works:
        name = max(works, key=lambda model: works[model])
        yield Asked(name, question.needs[name].rate_rps, "arithmetic", sum(works.values()))
    for resource in question.program().resources:
        able = [offer for offer in question.offers if offer.gpu.name in resource.work and resource.servers(offer)]
        gpus = [resource.work[o.gpu.name] * o.gpu_count / resource.servers(o) for o in able]
        if able:
            name, rate_rps = _busiest(question, resource.kind, able[0].gpu)
            yield Asked(name, rate_rps, RESOURCES[resource.kind], min(gpus))


def _busiest(question: Question, kind: str, gpu: GPU) -> tuple[str, float]:
    """The stage that works longest at stations of a kind, and how often it does."""
    stages = [
        (need.rate_rps * items_of(pipeline)[stage.name].mean, stage, pipeline.stage(stage.name))
        for need, pipeline in piped(question.needs)
        for stage in pipeline.stages
        if kind_of(stage) == kind
    ]
    rate_rps, _, name = max(stages, key=lambda one: one[0] * service_s(one[1], gpu))
    return name, rate_rps
