"""What to know of the options of a training: what was left out and why, what is assumed, what is in doubt."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from math import ceil

from calibrate.io.points import PRECISIONS
from calibrate.layers.facts import known, of_any_input
from calibrate.library.lookup import Library
from planner.catalog.catalog import Catalog
from planner.catalog.sold import stale_price, usual_days
from planner.io.load import ScenarioError, refusal, refused
from planner.io.strict_yaml import Problem
from planner.model.candidate import MachineType
from planner.model.plan import PlanWarning, Rejection
from planner.model.statement import Code
from planner.prediction.rules.roofline import PrecisionError, lacks, peak_flops, why_not
from planner.questions.training.answer.choosing import is_stale
from planner.questions.training.answer.option import TrainingOption
from planner.questions.training.layout import Subject
from planner.questions.training.reading import LoadedTraining
from planner.questions.training.scenario import SHOWN_COUNTS, ParallelSpec, TrainingScenario, batch_of, has_a_step
from planner.questions.training.sources import (
    ASSUMED_NETWORK_BYTES_PER_S,
    OWN,
    MachineSource,
    counts,
    hourly_usd,
    sources,
    whole_counts,
)
from planner.questions.training.speed import steps_optimizer
from planner.units.errors import Wrong
from planner.units.writing import counted, dollars, gpus, names, ranges, span
from planner.words.statements import rejection_lines
from simulator.grouping import grouped
from simulator.world.hardware import GPU

BITS_OF_GBYTE = 8e-9
"""Gb/s of bytes a second."""


def no_option(
    loaded: LoadedTraining,
    scenario: TrainingScenario,
    machines: Sequence[MachineSource],
    rejections: Sequence[Rejection],
    catalog: Catalog,
) -> ScenarioError:
    """The error of a scenario for which no machine on offer will do."""
    if not machines:
        unpriced = [no for no in rejections if no.why.code is Code.NO_PRICE]
        others = [no for no in rejections if no not in unpriced]
        key = ("prices",) if scenario.prices else ("buy", "price")
        problems: list[Wrong] = [(key, without_price(scenario, unpriced))] if unpriced else []
        return refused(loaded, [*problems, *((("buy",), line) for line in rejection_lines(others))])
    able = [one for one in machines if computes(scenario, one.gpu)]
    if not able:
        return refused(loaded, [(("train", "precision"), no_precision(scenario, machines, catalog))])
    if (most := scenario.buy.max_cost) is not None and not any(any(counts(scenario, one)) for one in able):
        hourly = [hourly_usd(one, count) for one in able for count in whole_counts(scenario, one)]
        if hourly:
            text = f"allows {dollars(most)}/h, and what is on offer costs {dollars(min(hourly))}/h at least."
            remedy = f"Write {dollars(ceil(100 * min(hourly)) / 100)}/h or more."
            return refused(loaded, [(("buy", "max_cost"), f"{text} {remedy}")])
    tried = gpus(scenario.gpu_counts[:SHOWN_COUNTS])
    more = ", a higher `buy.max_cost`" if most is not None else ""
    remedy = f"Name other `counts`, `buy.gpus`{more}, or another precision."
    first = f"no machine on offer makes up {tried} at {scenario.train.precision}. {remedy}"
    reasons = (*rejection_lines(rejections), *without_precision(scenario, machines, ()), *too_dear(scenario, able))
    return refusal(loaded.path, [Problem(0, 0, text, "") for text in (first, *reasons)])


def without_price(scenario: TrainingScenario, unpriced: Sequence[Rejection]) -> str:
    """Machines that lack nothing but the kinds of price that are asked for, and the kinds that they have."""
    machines = dict.fromkeys(no.subject for no in unpriced)
    kinds = sorted({one.gpu for one in machines if isinstance(one, MachineType)})
    wanted = " or ".join(scenario.price_kinds)
    has = dict.fromkeys(kind for no in unpriced for remedy in no.remedies for kind in remedy.subjects)
    known = [kind for kind in has if kind not in scenario.price_kinds]
    text = f"no {wanted} price is known of any of {counted(len(machines), 'machine')} with {names(kinds)}."
    write = f"Write {' or '.join(known)}, or put" if known else "Put"
    return f"{text} {write} such prices into prices.yaml of a --catalog directory."


def computes(scenario: TrainingScenario, gpu: GPU, precision: str = "") -> bool:
    """Whether a GPU has a rate at a precision, the scenario's where none is named, or the scenario states its speed."""
    try:
        peak_flops(gpu, precision or scenario.train.precision)
    except PrecisionError:
        return not precision and any(speed.gpu == gpu.name for speed in scenario.speed)
    return True


def no_precision(scenario: TrainingScenario, machines: Sequence[MachineSource], catalog: Catalog) -> str:
    """No GPU on offer computes in the precision: the precisions in which one does, and other GPUs that have it."""
    kinds = {one.gpu.name: one.gpu for one in machines}
    others = [one for one in PRECISIONS if any(computes(scenario, gpu, one) for gpu in kinds.values())]
    anything, _ = sources(replace(scenario, buy=replace(scenario.buy, gpus=())), catalog)
    able = sorted({one.gpu.name for one in anything if computes(scenario, one.gpu)})
    named = f", or name another GPU in `buy.gpus`: {names(able)}" if able else ""
    lacking = "; ".join(sorted({f"{name} {why_not(gpu, scenario.train.precision)}" for name, gpu in kinds.items()}))
    return f"{lacking}. Write one of {', '.join(others)}{named}."


def stale_prices(answers: Sequence[TrainingOption], today: date | None) -> Iterator[PlanWarning]:
    """Prices that may have changed since, by the rule and in the words of a plan."""
    old = [option for option in answers if today and is_stale(option, today)]
    dated = grouped(((option.price_as_of, usual_days(option.provider)), option) for option in old)
    for (as_of, _), options in sorted(dated.items()):
        instances = tuple(dict.fromkeys(option.instance for option in options))
        if today and (what := stale_price(instances, options[0].provider, as_of, today)):
            yield PlanWarning(what=what)


def usual_length(scenario: TrainingScenario, subject: Subject) -> Iterator[str]:
    """How long sequences are taken to be where the scenario does not say it."""
    own = subject.facts
    if own is None or len(own.input_shape) != 1 or scenario.model.input:
        return
    reads_tokens = any(layer.type == "Embedding" for layer in own.layers)
    length = f"{own.input_shape[0]:,} {'tokens' if reads_tokens else 'numbers'}"
    named = of_any_input(subject.name) if subject.name in known() else subject.name
    other = 3 * own.input_shape[0]
    remedy = f"; for others write e.g. `model: {{zoo: {named}, input: [{other}]}}`" if named else ""
    yield f"Assumed: sequences of {length}, at which {subject.name} is known{remedy}."


def warnings(
    scenario: TrainingScenario, machines: Sequence[MachineSource], options: Sequence[TrainingOption]
) -> Iterator[str]:
    """GPUs that are no option though the scenario names them, or another option than it names, and why."""
    if scenario.goodput and scenario.interruptions.mean_time_between:
        yield (
            "Restarts count twice: `goodput` has them in it, and `interruptions.mean_time_between` adds them again."
            " Leave one of them out."
        )
    parts = scenario.parallel
    if not scenario.counts and (whole := [n for n in scenario.usual_counts if n % parts.parts]):
        divided = f"tensor {parts.tensor} x pipeline {parts.pipeline} do not divide"
        yield f"Left out: {gpus(whole)}, which {divided}. Name them in `counts` to have the model whole on each."
    if short := [count for count in scenario.gpu_counts if not has_a_step(scenario, count)]:
        yield f"Left out: {gpus(short)}, of which one step has more samples than the whole training."
    if uneven := [count for count in scenario.gpu_counts if batch_of(scenario, count) is None]:
        yield f"Left out: {ranges(uneven)} GPUs, which do not divide a batch of {scenario.train.global_batch}."
    asked = set(scenario.counts)
    owned = [one for one in machines if one.price_kind == OWN]
    for one in owned:
        if left := sorted(asked - set(whole_counts(scenario, one))):
            most = "" if one.count_max is None else f", {one.count_max} at most"
            machines_of = f"whole machines are counted, of {counted(one.gpus_each, 'GPU')} each{most}"
            yield f"Left out: {gpus(left)} of {one.instance}: {machines_of}."
    others = [one for one in machines if one not in owned]
    made = {count for one in others for count in whole_counts(scenario, one)}
    if others and (left := sorted(asked - made)):
        beyond = f" within `buy.max_gpus: {scenario.buy.max_gpus}`" if left[-1] > scenario.buy.max_gpus else ""
        yield f"Left out: {gpus(left)}, which no whole machines on offer make up{beyond}."
    yield from without_precision(scenario, machines, options)
    yield from too_dear(scenario, machines)
    precision, answered = scenario.train.precision, {option.gpu for option in options}
    lacking = {one.gpu.name for one in machines if one.gpu.name in answered and lacks(one.gpu, precision)}
    for name in sorted(lacking):
        yield f"{name} computes nothing in {precision}: its speed, as stated, is of another precision."
    yield from undivided(scenario.parallel, options)
    if sellers := sorted({option.provider or "your own" for option in options if option.network_assumed}):
        link = ASSUMED_NETWORK_BYTES_PER_S * BITS_OF_GBYTE
        yield (
            f"Assumed: {link.mid:g} Gb/s for each GPU between machines of {names(sellers)}, whose network nobody lists"
            f" ({link.low:g} to {link.high:g}); write `network.bandwidth`."
        )


def unused_speeds(scenario: TrainingScenario, machines: Sequence[MachineSource], catalog: Catalog) -> Iterator[str]:
    """Speeds of kinds of GPU that are not on offer, and how to have them there."""
    offered = {one.gpu.name for one in machines}
    for kind in dict.fromkeys(speed.gpu for speed in scenario.speed):
        if kind in offered:
            continue
        wider, _ = sources(replace(scenario, buy=replace(scenario.buy, gpus=(kind,))), catalog)
        remedy = "Name a machine that has it in `buy.own`, or price one in prices.yaml of a --catalog directory."
        if wider:
            remedy = f"Add {kind} to `buy.gpus`."
        yield f"speed: that of {kind} counts for nothing, for no machine on offer has it. {remedy}"


def mostly_start(scenario: TrainingScenario, shown: Sequence[TrainingOption]) -> Iterator[str]:
    """Runs that end before machines and processes have begun, of whose start nobody knows more."""
    restart_s = scenario.interruptions.restart
    if any(option.time_s.mid < restart_s for option in shown):
        yield (
            f"A run shorter than a restart (`interruptions.restart`, {span(restart_s)}) is mostly its start, which is"
            " counted as a share of its steps alone."
        )


def too_dear(scenario: TrainingScenario, machines: Sequence[MachineSource]) -> Iterator[str]:
    """Kinds of GPU of which no number costs as little an hour as `buy.max_cost` allows."""
    kinds = grouped((one.gpu.name, one) for one in machines if any(whole_counts(scenario, one)))
    dear = [name for name, those in kinds.items() if not any(any(counts(scenario, one)) for one in those)]
    if dear and scenario.buy.max_cost:
        yield f"Left out: {', '.join(sorted(dear))} (`buy.max_cost` allows {dollars(scenario.buy.max_cost)}/h)."


def without_precision(
    scenario: TrainingScenario, machines: Sequence[MachineSource], options: Sequence[TrainingOption]
) -> Iterator[str]:
    """GPUs that do not compute in the precision, by why."""
    answered = {option.gpu for option in options}
    divide = [one for one in machines if any(batch_of(scenario, count) for count in counts(scenario, one))]
    unable = {one.gpu.name: one.gpu for one in divide if one.gpu.name not in answered}
    reasons = {name: why_not(gpu, scenario.train.precision) for name, gpu in unable.items()}
    for reason in sorted(set(reasons.values())):
        yield f"Left out: {', '.join(sorted(name for name in reasons if reasons[name] == reason))} ({reason})."


def measured_doubts(
    scenario: TrainingScenario, subject: Subject, options: Sequence[TrainingOption], library: Library
) -> Iterator[str]:
    """How much speaks against training steps that were measured, and where it stands."""
    for gpu in dict.fromkeys(option.gpu for option in options):
        profile = library.get(subject.profile, gpu, scenario.train.precision) if subject.profile else None
        measured = library.measured(profile) if profile else {}
        optimizer = steps_optimizer(measured, scenario.train.optimizer)
        if doubts_of_steps := measured.get("training_doubts", {}).get(optimizer, []):
            how_many = counted(len(doubts_of_steps), "doubt")
            yield f"Steps measured on {gpu} leave {how_many}: `planner profiles show {subject.profile} --gpu {gpu}`."


def undivided(parallel: ParallelSpec, options: Sequence[TrainingOption]) -> Iterator[str]:
    """Numbers of GPUs that the parts of the model do not divide."""
    if whole := sorted({option.gpu_count for option in options if option.gpu_count % parallel.parts}):
        kind = "GPU" if whole == [1] else "GPUs"
        yield (
            f"The model is whole on each of {ranges(whole)} {kind}:"
            f" tensor {parallel.tensor} x pipeline {parallel.pipeline} do not divide that."
        )
