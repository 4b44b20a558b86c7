"""The answer to a training scenario: options with time, memory, cost and limit of each; the cheapest and the fastest.

`train` is the whole of it, as a function: scenario, catalog and profiles in, a `TrainingPlan` out. It reads and writes
no file, and the same input gives the same plan.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from operator import attrgetter

from calibrate.io.points import WORKERS_MAX
from calibrate.layers.facts import facts
from calibrate.layers.work import Facts, FactsError
from calibrate.library.lookup import Library, Probes
from calibrate.published.names import gpu_named
from planner.catalog.catalog import Catalog
from planner.catalog.cost import HOURS_PER_YEAR, JOULES_PER_KWH, co2_kg, rent_usd, usd_per_tflops
from planner.catalog.offers import which_gpu, wrong_offers
from planner.io.load import refused
from planner.model.ranges import Range, is_within
from planner.prediction.effects import WINOGRAD
from planner.prediction.predict import Predictor
from planner.prediction.rules.roofline import PrecisionError, peak_flops, rate_held_to
from planner.questions.training.answer.choosing import (
    at_fresh_price,
    cheapest_of,
    fastest_of,
    is_allowed,
    marked,
    nearest_to,
    other_than,
    rival_of,
    surest,
    unsure_of,
)
from planner.questions.training.answer.feeding import A_WORKER, fed, keeping_up, probed_rates
from planner.questions.training.answer.fitting import changes
from planner.questions.training.answer.option import TrainingOption, TrainingPlan, TriedChange
from planner.questions.training.answer.remarks import (
    measured_doubts,
    mostly_start,
    no_option,
    stale_prices,
    unused_speeds,
    usual_length,
    warnings,
)
from planner.questions.training.closed_forms import FLOPS_PER_PARAM_TOKEN
from planner.questions.training.held import accumulation_enough, in_room, largest, peak
from planner.questions.training.layout import Subject, TrainingLayout, epochs_of, subject_of
from planner.questions.training.memory import Fits, gpus_needed
from planner.questions.training.reading import SPEEDS, LoadedTraining
from planner.questions.training.scenario import SpeedSpec, TrainingScenario, batch_of, has_a_step, step_samples
from planner.questions.training.sources import MachineSource, counts, sources
from planner.questions.training.speed import Limit, OnePass, PassSpeed
from planner.questions.training.step import StepTimes, interruptions, run_time
from planner.search.names import spelt
from planner.units.errors import Wrong
from planner.units.writing import counted
from simulator.world.hardware import with_article
from simulator.world.power import AT_FULL_PACE


def train(loaded: LoadedTraining, catalog: Catalog, library: Library, today: date | None = None) -> TrainingPlan:
    """Every option of a training scenario, cheapest first; ScenarioError or CatalogError where there is none.

    `today` tells which prices are stale; without it none is called so.
    """
    speeds = [replace(speed, gpu=gpu_named(speed.gpu, catalog.gpus)) for speed in loaded.scenario.speed]
    scenario = replace(loaded.scenario, buy=spelt(loaded.scenario.buy, catalog), speed=tuple(speeds))
    subject = known_subject(loaded, scenario, catalog)
    if problems := [*impossible_speeds(scenario, subject, catalog)]:
        raise refused(loaded, problems)
    machines, rejections = sources(scenario, catalog)
    predictor = Predictor(library, catalog.gpus, facts_of=partial(facts_of, subject))
    rates = loader_rates(loaded, {source.gpu.name for source in machines}, library)
    options = marked(every_option(scenario, subject, machines, predictor, rates))
    if not options:
        raise no_option(loaded, scenario, machines, rejections, catalog)
    allowed = list(filter(is_allowed, options))
    fitting = surest(allowed)
    sure = keeping_up(scenario, subject, fitting)
    cheapest, fastest = cheapest_of(sure), fastest_of(sure)
    chosen = [one for one in (cheapest, fastest) if one]
    may_fit = any(option.may_fit for option in options)
    shown = chosen or list(nearest_to(options, scenario.deadline, scenario.budget).values())
    return TrainingPlan(
        name=scenario.name or subject.name,
        options=options,
        cheapest=cheapest,
        fastest=fastest,
        cheaper_if_it_fits=unsure_of(cheapest, cheapest_of(allowed)),
        faster_if_it_fits=unsure_of(fastest, fastest_of(allowed)),
        cheaper_if_fed=other_than(cheapest, cheapest_of(fitting)),
        faster_if_fed=other_than(fastest, fastest_of(fitting)),
        cheapest_rival=cheapest and rival_of(cheapest, sure, attrgetter("paid_usd")),
        fastest_rival=fastest and rival_of(fastest, sure, attrgetter("time_s.mid")),
        tried=() if may_fit else tuple(tried_changes(scenario, subject, machines, predictor, rates)),
        unused=tuple(unused_speeds(scenario, machines, catalog)),
        assumptions=tuple(usual_length(scenario, subject)),
        feeding=tuple(fed(scenario, subject, chosen)),
        warnings=(
            *loaded.warnings,
            *warnings(scenario, machines, options),
            *mostly_start(scenario, shown),
            *probed_rates(scenario, rates),
            *measured_doubts(scenario, subject, options, library),
        ),
        rejections=tuple(rejections),
        cheapest_at_fresh_price=at_fresh_price(sure, today),
        stale_prices=tuple(stale_prices(shown, today)),
        prices_as_of=min((source.as_of for source in machines if source.as_of), default=""),
        deadline_s=scenario.deadline,
        budget_usd=scenario.budget,
    )


# The scenario beside the catalog


def known_subject(loaded: LoadedTraining, scenario: TrainingScenario, catalog: Catalog) -> Subject:
    """The model that is trained; ScenarioError with every name and division that model and catalog lack, in place."""
    problems: list[Wrong] = [*wrong_offers(catalog, scenario.buy)]
    for i, speed in enumerate(scenario.speed):
        if speed.gpu not in catalog.gpus:
            hint = which_gpu(speed.gpu, catalog.gpus)
            problems.append((("speed", i, "gpu"), f"`{speed.gpu}` is not in the catalog.{hint}"))
    pipeline = scenario.parallel.pipeline
    try:
        subject = subject_of(scenario)
    except FactsError as error:
        key = error.key or ("zoo" if scenario.model.zoo else "factory")
        problems.append((("model", key), str(error)))
        raise refused(loaded, problems) from None
    if pipeline > subject.layers:
        text = f"must be at most {subject.layers}, the layers of {subject.name}, got {pipeline}."
        problems.append((("parallel", "pipeline"), text))
    if problems:
        raise refused(loaded, problems)
    return subject


ACHIEVED = "Write what one GPU reached, or the `precision` it was measured at."
MEASURED = "Write `gpu_count`, the GPUs it was measured on, or the `precision` and `global_batch` it had."
"""What to do about a speed that no GPU has."""


def impossible_speeds(scenario: TrainingScenario, subject: Subject, catalog: Catalog) -> Iterator[Wrong]:
    """Stated speeds at which each GPU would compute faster than it can."""
    for i, speed in enumerate(scenario.speed):
        key = next(key for key in SPEEDS if getattr(speed, key) is not None)
        try:
            peak_flops_per_s, computed = rate_held_to(catalog.gpus[speed.gpu], scenario.train.precision)
        except PrecisionError:
            continue
        reached = reached_flops_per_s(scenario, subject, speed)
        if reached <= peak_flops_per_s * (1.0 if speed.achieved else shortcut(subject)):
            continue
        rates = f"{reached / 1e12:,.4g} TFLOP/s on each of {counted(speed.gpu_count, 'GPU')}"
        limit = f"{with_article(speed.gpu)} computes at most {peak_flops_per_s / 1e12:g} at {computed}"
        yield ("speed", i, key), f"means {rates}; {limit}. {ACHIEVED if speed.achieved else MEASURED}"


def shortcut(subject: Subject) -> float:
    """How many times fewer operations a GPU may compute than the model has."""
    convolves = subject.facts is not None and any(layer.type == "Conv2d" for layer in subject.facts.layers)
    return WINOGRAD if convolves else 1.0


def reached_flops_per_s(scenario: TrainingScenario, subject: Subject, speed: SpeedSpec) -> float:
    """Operations a second of each GPU at a stated speed, by the batch of the whole step.

    Of a run to a target the fewest epochs that such a batch may need.
    """
    if speed.achieved:
        return speed.achieved
    batch = speed.global_batch or step_samples(scenario, speed.gpu_count)
    samples_per_s = speed.rate or (batch / speed.step if speed.step else 0.0)
    if speed.run:
        samples_per_s = scenario.epoch_samples * epochs_of(scenario.train, batch).low / speed.run
    return subject.step_flops(samples_per_s, FLOPS_PER_PARAM_TOKEN) / speed.gpu_count


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


def facts_of(subject: Subject, model: str) -> Facts:
    """The layers of the model that is trained, by the name of its profile, or of another; FactsError where unknown."""
    return subject.own if subject.own and model == subject.profile else facts(model)


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
            if micro_batch is None or not has_a_step(scenario, gpu_count):
                continue
            whole = TrainingLayout(
                scenario=scenario,
                subject=subject,
                source=source,
                gpu_count=gpu_count,
                micro_batch=micro_batch,
                loader_rate=loader_rates.get(source.gpu.name, math.inf),
            )
            layout = in_room(whole, predictor)
            asked = (layout.gpu.name, layout.micro_batch)
            if asked not in speeds:
                one_pass = OnePass(
                    scenario=scenario,
                    subject=subject,
                    gpu=layout.gpu,
                    batch=layout.micro_batch,
                    predictor=predictor,
                )
                speeds[asked] = one_pass.speed()
            if speed := speeds[asked]:
                chosen = None if layout is whole else layout.scenario.train.passes
                yield replace(option_of(layout, speed, predictor), accumulation_chosen=chosen)


def tried_changes(
    scenario: TrainingScenario,
    subject: Subject,
    machines: Sequence[MachineSource],
    predictor: Predictor,
    loader_rates: Mapping[str, float],
) -> list[TriedChange]:
    """Changes of a scenario of which nothing fits, each with the cheapest that fits then; those that help first."""
    found: dict[str, list[TriedChange]] = {}
    for change in changes(scenario, machines):
        changed = subject_of(change.scenario) if subject.shape else subject
        options = list(every_option(change.scenario, changed, machines, predictor, loader_rates))
        room = surest([*filter(is_allowed, options)]) or surest(options)
        tried = TriedChange(key=change.key, values=(change.value,), option=cheapest_of(room))
        found.setdefault(change.key, []).append(tried)
    return sorted((best_of(tried) for tried in found.values()), key=paid_usd)


def best_of(tried: Sequence[TriedChange]) -> TriedChange:
    """The value of a key that costs least; all its values where nothing fits with any."""
    best = min(tried, key=paid_usd)
    return best if best.option else replace(best, values=tuple(value for one in tried for value in one.values))


def paid_usd(tried: TriedChange) -> float:
    """Dollars that are paid with a change; infinite where nothing fits."""
    return tried.option.paid_usd if tried.option else math.inf


def option_of(layout: TrainingLayout, speed: PassSpeed, predictor: Predictor) -> TrainingOption:
    """The option of one layout, where a pass takes so long."""
    scenario, subject, source = layout.scenario, layout.subject, layout.source
    memory = peak(layout, predictor)
    fits = Fits.of(memory.total, source.memory_bytes) is Fits.YES
    times = StepTimes(layout=layout, speed=speed)
    step = times.step
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
        undivided=layout.gpu_count % scenario.parallel.parts > 0,
        fits=fits,
        memory_bytes=round(memory.total.mid),
        memory=memory.kinds(),
        memory_range_bytes=memory.total,
        memory_limit_bytes=source.memory_bytes,
        largest_batch=largest(layout, predictor),
        accumulation_enough=None if fits else accumulation_enough(layout, predictor),
        gpus_needed=gpus_needed(
            subject.params, scenario.train.precision, scenario.train.optimizer, source.memory_bytes, memory.context
        ),
        steps=layout.steps().mid,
        step_s=step.time_s.mid,
        step_range_s=step.time_s,
        time_s=time_s,
        time_parts_s=run.parts_s(),
        interruptions=interruptions(layout, run.run_s.mid),
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
        deadline_probability=None if scenario.deadline is None else time_s.chance_within(scenario.deadline),
        within_budget=is_within(max(usd.high, commitment_usd), scenario.budget),
    )


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
