"""Rejections of fleets: what stood in the way, by how much, and the smallest change that would help."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, floor, inf, sqrt

from planner.catalog.engines import engine_count, engine_rates
from planner.catalog.offers import Offer
from planner.model.candidate import Candidate, MachineType, OnGpu
from planner.model.plan import Bottleneck, Rejection
from planner.model.scenario import MemoryPolicy, Scenario
from planner.model.statement import Code, Statement
from planner.placing.cutting import FleetGpu
from planner.placing.duty import share_served
from planner.placing.outages import attainment_max
from planner.placing.packing.packed import Misfit, Packing, Placed, device_loads, models_bytes
from planner.placing.sizing import Kind, Need, Part, context_without_models
from planner.placing.stations import STATIONS, Held, StationLoad, Unable, beyond_drivers, encoded_max, held_on, loads_on
from planner.replay.answer import larger_than_slo
from planner.replay.replay import Replay
from planner.replay.trial import Trial
from planner.replay.warnings import remedies_unproven, surer, surer_in_draws
from simulator.clock.metrics import Verdict
from simulator.world.deployment import Failures, Routing
from simulator.world.hardware import GPU
from simulator.world.pipelines import DECODE, ENCODE
from simulator.world.workload import FixedRate

LEAST_LEFT = 0.1
"""Part of its load that a model keeps at least where less of it is asked: nobody wants to hear of less."""
ONE_MORE_GPU = Statement(code=Code.MORE_GPUS, figures={"gpu_count": 1})
KIND_TOO_DEAR, NO_FLEET_OF_KIND = Statement(code=Code.KIND_TOO_DEAR), Statement(code=Code.NO_FLEET_OF_KIND)
HUGE_GPUS = 512
"""GPUs of a huge fleet, of which each try takes ten seconds or more: there are few tries, and no fleet of each kind of
GPU is set beside the best."""
KIND_TOO_LARGE = Statement(code=Code.KIND_TOO_LARGE, figures={"gpu_count": HUGE_GPUS})
SURELY = 0.9
"""Of a recovery that would just do: what else is late differs a little from replay to replay."""
HEADROOM_LEAST = 0.02
"""Headroom that is advised at least."""
SWAPPING = Statement(code=Code.ALLOW_SWAPPING)


def kind_of(no: Rejection) -> str | None:
    """The kind of GPU on which models cannot run, or that nobody sells so; None where a fleet or an offer was."""
    match no.subject:
        case OnGpu(gpu=gpu):
            return gpu
        case MachineType(gpu=gpu) if no.bottleneck in (Bottleneck.PRICE, Bottleneck.RETIRED):
            return gpu
        case _:
            return None


def dominated(offer: Offer, by: Offer) -> Rejection:
    """An offer whose GPUs another sells for no more."""
    limit = by.usd_per_hour * offer.gpu_count / by.gpu_count
    return Rejection(
        subject=offer.machine,
        bottleneck=Bottleneck.COST,
        observed=offer.usd_per_hour,
        limit=limit,
        unit="USD/h",
        why=Statement(
            code=Code.OFFERED_FOR_LESS,
            subjects=(by.instance, by.gpu.name, by.provider, by.region),
            figures={"gpu_count": by.gpu_count},
        ),
        remedies=(Statement(code=Code.LOWER_PRICE, figures={"usd_per_hour": limit}),),
        cost_usd_per_hour=offer.usd_per_hour,
    )


def misfit(candidate: Candidate, found: Misfit, memory: MemoryPolicy, cost_usd_per_hour: float) -> Rejection:
    """A fleet on which the models cannot be placed."""
    if found.bottleneck is Bottleneck.GPU_COUNT:
        unit = "GPUs"
        why = Statement(code=Code.NO_GPU_LEFT, subjects=(found.model,))
        remedies = [Statement(code=Code.ONE_MORE_MACHINE, subjects=(found.model,))]
    else:
        unit = "bytes"
        on_gpu = found.bottleneck is Bottleneck.MEMORY
        why = Statement(
            code=Code.GPU_TOO_FULL if on_gpu else Code.HOST_TOO_FULL,
            figures={"needed_bytes": found.observed, "limit_bytes": found.limit},
        )
        remedies = [more_memory("GPU" if on_gpu else "host", found.observed, found.limit), ONE_MORE_GPU]
        if on_gpu and memory is MemoryPolicy.RESIDENT:
            remedies.append(SWAPPING)
    return Rejection(
        subject=candidate,
        bottleneck=found.bottleneck,
        observed=found.observed,
        limit=found.limit,
        unit=unit,
        why=why,
        remedies=tuple(remedies),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_busy(
    candidate: Candidate,
    packing: Packing,
    needs: Mapping[str, Need],
    headroom: float,
    cost_usd_per_hour: float,
    *,
    drains: bool,
) -> Rejection:
    """A fleet whose busiest GPU works longer than the headroom allows, even at its cheapest batches.

    `drains`: whether its queues would, so that less headroom may help.
    """
    limit = 1 - headroom
    figures = {"work": packing.work, "headroom": headroom}
    if packing.doubted:
        figures["work_at_middle"] = packing.work_at_middle
    return Rejection(
        subject=candidate,
        bottleneck=Bottleneck.COMPUTE,
        observed=packing.work,
        limit=limit,
        unit="fraction",
        why=Statement(code=Code.TOO_BUSY, figures=figures),
        remedies=(
            *_measuring_decides(packing, figures.get("work_at_middle", inf), limit),
            *_less_work(packing, needs, limit),
            *(_less_headroom(packing.work) if drains else ()),
        ),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def _less_work(packing: Packing, needs: Mapping[str, Need], limit: float) -> Iterator[Statement]:
    """Longer SLOs of all models whose GPUs have too much work, less of the one with most work on the busiest where that
    alone would do, and as many GPUs more as all the work takes, evenly spread."""
    loads = device_loads(packing.placed)
    busiest = max(loads, key=lambda here: sum(load for load, _ in here))
    most, first = max(busiest)
    factor = 1 - (packing.work - limit) / most

    def does(factor: float) -> bool:
        less = (sum(load * (factor if model == first else 1.0) for load, model in here) for here in loads)
        return all(work <= limit + 1e-9 for work in less)

    yield from _longer_slos(loads, packing, needs, limit)
    if factor >= LEAST_LEFT and does(factor):
        yield _less_load(needs[first], factor)
    needed = ceil(sum(load for here in loads for load, _ in here) / limit - 1e-9)
    yield Statement(code=Code.MORE_GPUS, figures={"gpu_count": max(1, needed - len(loads))})


def _longer_slos(
    loads: Sequence[Sequence[tuple[float, str]]], packing: Packing, needs: Mapping[str, Need], limit: float
) -> Iterator[Statement]:
    """What all models on GPUs with too much work need together; nothing where one is not alone there, or larger batches
    would not do."""
    busy = [here for here in loads if sum(load for load, _ in here) > limit + 1e-9]
    short = list(dict.fromkeys(model for here in busy for _, model in here))
    latencies_s: dict[str, float] = {}
    for model in short:
        mine = [here for here in loads if any(one == model for _, one in here)]
        most = max(load for here in mine for load, _ in here)
        time_s = _time_for_larger(model, packing, limit, partial(_fits, most, limit))
        if not time_s or any(len(here) > 1 for here in mine):
            return
        short_of = _short_of(needs[model], time_s)
        # Stages of one pipeline add up.
        latencies_s[short_of.name] = latencies_s.get(short_of.name, short_of.slo_s) + time_s - short_of.time_s
    if len(latencies_s) == 1:
        ((name, latency_s),) = latencies_s.items()
        yield _raised(name, latency_s, needs[short[0]])
    elif latencies_s:
        figures = {f"latency_{i}_s": time_s for i, time_s in enumerate(latencies_s.values(), 1)}
        yield Statement(code=Code.RAISE_LATENCIES, subjects=tuple(latencies_s), figures=figures)


def _fits(load: float, limit: float, factor: float) -> bool:
    """Whether so many times a load is within the limit."""
    return load * factor <= limit + 1e-9


def _time_for_larger(model: str, packing: Packing, limit: float, does: Callable[[float], bool]) -> float:
    """Worst latency of a model that is alone on its GPUs in the smallest batches, of those that its SLO leaves no time
    for, in which the GPUs do the work: it waits for one batch, then runs in its own. 0 where there are none, or its
    replicas differ."""
    first, *rest = (p for p in packing.placed if p.portion.sized.model == model)
    sized, batch_size = first.portion.sized, first.batch_size_max
    if any(p.portion.sized is not sized or p.batch_size_max != batch_size for p in rest):
        return 0.0
    now_s = sized.latency_s[batch_size - 1] / batch_size
    for batch in larger_than_slo(first, packing.placed):
        run_s = sized.profile.latency(batch)
        if does(run_s / batch / now_s):
            return sized.need.max_queue_delay_s + run_s / limit + run_s
    return 0.0


def often_away(trial: Trial, need: Need, more_gpus: int) -> Rejection:
    """A fleet whose machines fail too often for an SLO, or for too long."""
    model, target, seen = need.model, need.slo.attainment, trial.replay
    up, in_time = seen.in_time_while_up(model), seen.attainment[model].mean
    why = Statement(code=Code.OFTEN_AWAY, subjects=(model,), figures={"attainment": in_time, "up": up})
    return Rejection(
        subject=trial.candidate,
        bottleneck=Bottleneck.LATENCY,
        observed=in_time,
        limit=target,
        unit="fraction",
        why=why,
        remedies=tuple(_against_outages(trial, need, more_gpus)),
        cost_usd_per_hour=trial.cost_usd_per_hour,
    )


def _against_outages(trial: Trial, need: Need, more_gpus: int) -> Iterator[Statement]:
    """Others take over what a machine is asked that is away, machines are back sooner, or there are more of them; and
    the SLO that is met as it is."""
    failures, seen, target = trial.deployment.failures, trial.replay, need.slo.attainment
    assert failures is not None
    in_turn = trial.deployment.services[0].routing is Routing.ROUND_ROBIN
    if in_turn and attainment_max(failures, need.slo.latency_s, hosts=2) >= target:
        yield Statement(code=Code.ROUTE_AROUND)
    up, in_time = seen.in_time_while_up(need.model), seen.attainment[need.model]
    sure = 0.0 if seen.draws else in_time.mean - in_time.low
    recovery_s = _rounded_down(_recovery_s(failures, up - in_time.mean, up - target, sure))
    if recovery_s > need.slo.latency_s:
        yield Statement(code=Code.SHORTER_RECOVERY, figures={"recovery_s": recovery_s})
    if more_gpus and not trial.never_in_time:
        yield Statement(code=Code.MORE_GPUS, figures={"gpu_count": more_gpus})
    if floor((low := seen.surely_in_time(need.model)) * 1000) > 0:
        yield Statement(code=Code.LOWER_SLO, subjects=(need.model,), figures={"attainment": low})


def _recovery_s(failures: Failures, lost: float, lost_max: float, sure: float) -> float:
    """The recovery with which so much is lost at most, where `lost` is lost now, within `sure`; 0 where none helps.

    Losses are as the time away, and their intervals as its root, as counts vary. 4 % for 1 h of 25 h, 1 % at most: 14.5
    min; known within 0.07 %: 14.0 min. Without an interval a tenth is left for what else is late.
    """
    if not 0 < lost_max < lost:
        return 0.0
    root = (sqrt(sure**2 + 4 * lost * lost_max) - sure) / (2 * lost)
    away = root**2 * failures.recovery_s / (failures.mean_time_between_s + failures.recovery_s)
    recovery_s = failures.mean_time_between_s * away / (1 - away)
    return recovery_s if sure else SURELY * recovery_s


def _rounded_down(time_s: float) -> float:
    """To whole minutes, or of less than two to whole seconds: 173 s are 2 min."""
    unit_s = 60.0 if time_s >= 120 else 1.0
    return floor(time_s / unit_s + 1e-9) * unit_s


def too_strained(
    candidate: Candidate, packing: Packing, needs: Mapping[str, Need], headroom: float, cost_usd_per_hour: float
) -> Rejection:
    """A fleet on which one round over a GPU's models lasts far too long for one of them."""
    model, need = packing.worst, needs[packing.worst]
    slo_s = need.slo.latency_s
    worst_s = max(p.worst_s for p in packing.placed if p.portion.sized.model == model)
    if worst_s <= slo_s:
        served = share_served(packing.strain, headroom)
        bottleneck, unit, observed, limit = Bottleneck.COMPUTE, "fraction", served, need.slo.attainment
        why = Statement(code=Code.FEW_TURNS, subjects=(model,), figures={"served": served})
        change = _less_load(need, served)
    else:
        bottleneck, unit, observed, limit = Bottleneck.LATENCY, "s", worst_s, slo_s
        why = Statement(code=Code.LONG_WAIT, subjects=(model,), figures={"worst_s": worst_s})
        change = _more_time(need, worst_s)
    return Rejection(
        subject=candidate,
        bottleneck=bottleneck,
        observed=observed,
        limit=limit,
        unit=unit,
        why=why,
        remedies=(change, ONE_MORE_GPU),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def missed_slo(trial: Trial, more_gpus: int = 1) -> Rejection:
    """A fleet that was replayed and did not surely meet an SLO. `more_gpus`: how many might help; 0 where none do.

    The figures are those of the trial's last replays: the confirmation where there was one, else the screening.
    """
    if trial.overloaded or not trial.replay.stable:
        return _overloaded(trial)
    away = trial.broken[0] if trial.broken else lost_to_outages(trial)
    if away:
        return often_away(trial, away, more_gpus)
    model = trial.replay.missed[0]
    if not _judged(trial, model):
        return _missed(trial, model, Bottleneck.EVIDENCE, (Statement(code=Code.ANY_LONGER_HORIZON),), ())
    if not trial.replay.falls_short(model):
        return _unproven(trial, model)
    bottleneck = Bottleneck.LATENCY
    busy, loading = _busiest(trial, model)
    if busy + loading > 0.9:
        bottleneck = Bottleneck.LOADING if loading > busy else Bottleneck.COMPUTE
    remedies = _changes(trial, model, bottleneck, more_gpus)
    but = _misses(trial.replay, Code.OTHERS_MISS_TOO, model)
    return _missed(trial, model, bottleneck, remedies, but)


def lost_to_outages(trial: Trial) -> Need | None:
    """What misses its SLO on the mean, of which outages alone are the cause; None where nothing does."""
    seen = trial.replay
    missed = (seen.needs[model] for model in seen.missed if seen.margin(model) < 0 and seen.in_time_up)
    return next((need for need in missed if seen.in_time_while_up(need.model) >= need.slo.attainment), None)


def _judged(trial: Trial, model: str) -> int:
    """Requests of a model that were judged, in all replays."""
    return sum(one.judged for one in trial.replay.of(model))


def _busiest(trial: Trial, model: str) -> tuple[float, float]:
    """Utilization and share of weight loading of the busiest GPU that a model runs on."""
    seen = [s.devices[p.devices[0].id] for s in trial.replay.summaries for p in trial.placed(model)]
    return max(d.utilization for d in seen), max(d.load_share for d in seen)


def _changes(trial: Trial, model: str, bottleneck: Bottleneck, more_gpus: int) -> list[Statement]:
    """What would help a model that misses its SLO."""
    need, seen = trial.replay.needs[model], trial.replay.attainment[model]
    target = need.slo.attainment
    worst_s = max(p.worst_s for p in trial.placed(model))
    in_draws = surer_in_draws(trial) if trial.deployment.doubted and trial.replay.counted else ()
    changes: list[Statement] = []
    if worst_s > need.slo.latency_s:
        changes.append(_more_time(need, worst_s))
    if in_draws:
        changes += in_draws
    elif bottleneck is not Bottleneck.LATENCY and seen.mean > 0:
        changes.append(_less_load(need, min(1.0, seen.mean / target) * 0.95))
    within_reach = not more_gpus or target <= seen.high
    if floor(seen.low * 1000) > 0 and not trial.replay.draws and within_reach:
        changes.append(Statement(code=Code.LOWER_SLO, subjects=(model,), figures={"attainment": seen.low}))
    if more_gpus:
        changes.append(Statement(code=Code.MORE_GPUS, figures={"gpu_count": more_gpus}))
    return changes or [Statement(code=Code.RAISE_ANY_LATENCY, subjects=(model,))]


def _overloaded(trial: Trial) -> Rejection:
    """A fleet that cannot bear the demand, with its headroom, however long a replay it looks well in."""
    limit, load = trial.limit, trial.load
    loading = any(p.swapped for p in trial.packing.placed)
    remedies: tuple[Statement, ...] = (ONE_MORE_GPU,)
    if load > limit:
        figures = {"load": load, "limit": limit, "loading": float(loading)}
        if trial.packing.doubted:
            figures["load_at_middle"] = trial.load_at_middle
        why = Statement(code=Code.OVERLOADED, figures=figures)
        decides = _measuring_decides(trial.packing, figures.get("load_at_middle", inf), limit)
        offered = max(load, 1 / trial.demand_factor_max)
        remedies = (*decides, _less_demand(limit / load), _as_many_more(trial), *_less_headroom(offered))
    else:
        late = (m for m, verdict in trial.replay.verdicts.items() if verdict is not Verdict.STABLE)
        why = Statement(code=Code.QUEUES_GREW, subjects=tuple(late))
    return Rejection(
        subject=trial.candidate,
        bottleneck=Bottleneck.LOADING if loading else Bottleneck.COMPUTE,
        observed=load,
        limit=limit,
        unit="fraction",
        why=why,
        remedies=remedies,
        cost_usd_per_hour=trial.cost_usd_per_hour,
    )


def _as_many_more(trial: Trial) -> Statement:
    """As many more GPUs as bear the load where all are of one kind; else one."""
    count = len(trial.devices)
    more = ceil(count * trial.load / trial.limit - 1e-9) - count if len(trial.kinds) == 1 else 1
    return Statement(code=Code.MORE_GPUS, figures={"gpu_count": max(1, more)})


def replayed(rejection: Rejection, trial: Trial) -> Rejection:
    """A rejection before any replay, with the models that a replay of the fleet then saw miss; besides one whose longer
    SLO is a remedy, for that alone does not make the others' SLOs."""
    raised = (Code.RAISE_LATENCY, Code.RAISE_SHARED_LATENCY)
    longer = [one.subjects[0] for one in rejection.remedies if one.code in raised]
    code = Code.OTHERS_MISS_TOO if longer else Code.MISSED_IN_A_REPLAY
    return replace(rejection, but=(*rejection.but, *_misses(trial.replay, code, *longer)))


def _misses(seen: Replay, code: Code, *first: str) -> tuple[Statement, ...]:
    """Models besides the first that miss their SLO on the mean, the last of them undecided as tables have them."""
    short = [m for m in seen.missed if m not in first and seen.falls_short(m)]
    undecided = [m for m in short if seen.kept[m] is None and seen.verdicts[m] is Verdict.STABLE]
    subjects = (*first, *(m for m in short if m not in undecided), *undecided)
    figures = {"undecided": float(len(undecided))} if undecided else {}
    return (Statement(code=code, subjects=subjects, figures=figures),) if short else ()


def _unproven(trial: Trial, model: str) -> Rejection:
    """An SLO that is met on the mean, but not surely: what helps is more requests, not more GPUs."""
    return _missed(trial, model, Bottleneck.EVIDENCE, remedies_unproven(trial, model), ())


def _missed(
    trial: Trial, model: str, bottleneck: Bottleneck, remedies: Sequence[Statement], but: tuple[Statement, ...]
) -> Rejection:
    observed, limit = _observed(trial, model, bottleneck)
    why = _how_missed(trial, model, bottleneck)
    return Rejection(
        subject=trial.candidate,
        bottleneck=bottleneck,
        observed=observed,
        limit=limit,
        unit="fraction",
        why=why,
        beside=_queues_unseen(trial.replay) if why.code is Code.DRAWS_BREAK else (),
        remedies=tuple(remedies),
        but=but,
        cost_usd_per_hour=trial.cost_usd_per_hour,
    )


def _queues_unseen(seen: Replay) -> tuple[Statement, ...]:
    """The queue that breaks most draws, where these keep every SLO as long as they are replayed: figures of what was in
    time show nothing of it."""
    first = seen.growing_unseen
    if not first or 2 * len(first) < seen.kept_together.count(False):
        return ()
    ((queue, _),) = Counter(first).most_common(1)
    figures = {"unseen": float(len(first)), "draws": float(len(seen.summaries))}
    return (Statement(code=Code.QUEUES_GROW_UNSEEN, subjects=(queue,), figures=figures),)


def _observed(trial: Trial, model: str, bottleneck: Bottleneck) -> tuple[float, float]:
    """The share of requests in time and the SLO; where draws were counted, the share of them that keep every SLO and
    the share that is asked."""
    seen = trial.replay
    if seen.draws and seen.all_kept and seen.counted and not _is_told_by_own(seen, model):
        return seen.all_kept.mean, seen.draws.share
    share = seen.attainment[model]
    return share.low if bottleneck is Bottleneck.EVIDENCE else share.mean, seen.needs[model].slo.attainment


def _is_told_by_own(seen: Replay, model: str) -> bool:
    """Whether draws with requests of the model itself say more against it than all draws do: it is asked in few."""
    together = seen.all_kept
    return model in seen.rare or (together is not None and seen.draws_kept[model].mean < together.mean)


def _how_missed(trial: Trial, model: str, bottleneck: Bottleneck) -> Statement:
    """What a replay saw of a model that did not surely meet its SLO."""
    seen, target = trial.replay.attainment[model], trial.replay.needs[model].slo.attainment
    judged = _judged(trial, model)
    figures: dict[str, float] = {"mean": seen.mean, "low": seen.low, "high": seen.high}
    if not judged:
        return Statement(code=Code.NOT_JUDGED, subjects=(model,))
    draws, together = trial.replay.draws, trial.replay.all_kept
    if draws and together and trial.replay.counted and not _is_told_by_own(trial.replay, model):
        count = trial.replay.replications
        broken = {"broken": round((1 - together.mean) * count), "draws": count, "asked": draws.share}
        broken |= {"mean": seen.mean, "target": target}
        if trial.replay.at_best_only:
            broken["at_least"] = 1.0
        return Statement(code=Code.DRAWS_BREAK, subjects=(model,), figures=broken)
    if draws:
        kept = trial.replay.draws_kept[model].mean
        figures = {"mean": seen.mean, "target": target, "kept": kept, "asked": draws.share}
        figures["draws"] = trial.replay.told_by(model)
        return Statement(code=Code.MISSED_IN_DRAWS, subjects=(model,), figures=figures)
    if bottleneck is Bottleneck.EVIDENCE:
        figures |= {"judged": judged, "target": target}
        return Statement(code=Code.NOT_PROVEN, subjects=(model,), figures=figures)
    return Statement(code=Code.MISSED, subjects=(model,), figures=figures)


def too_many(candidate: Candidate, gpus_max: int, cost_usd_per_hour: float) -> Rejection:
    """The next fleet, were more GPUs allowed."""
    count = candidate.gpu_count
    return Rejection(
        subject=candidate,
        bottleneck=Bottleneck.GPU_COUNT,
        observed=count,
        limit=gpus_max,
        unit="GPUs",
        why=Statement(code=Code.TOO_MANY_GPUS, figures={"gpu_count": count, "gpu_count_max": gpus_max}),
        remedies=(Statement(code=Code.RAISE_MAX_GPUS, figures={"gpu_count": count}),),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_few_machines(candidate: Candidate, offer: Offer, count: int, cost_usd_per_hour: float) -> Rejection:
    """The next fleet, were there more machines of a kind."""
    most = offer.count_max or 0
    return Rejection(
        subject=candidate,
        bottleneck=Bottleneck.GPU_COUNT,
        observed=count * offer.gpu_count,
        limit=most * offer.gpu_count,
        unit="GPUs",
        why=Statement(
            code=Code.TOO_FEW_MACHINES, subjects=(offer.instance,), figures={"count": count, "count_max": most}
        ),
        remedies=(
            Statement(code=Code.RAISE_COUNT, subjects=(offer.instance,), figures={"count": count}),
            Statement(code=Code.OTHER_MACHINE),
        ),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_dear(candidate: Candidate, cost_usd_per_hour: float, most_usd_per_hour: float) -> Rejection:
    """The next fleet, were more money allowed."""
    figures = {"cost_usd_per_hour": cost_usd_per_hour, "cost_max_usd_per_hour": most_usd_per_hour}
    return Rejection(
        subject=candidate,
        bottleneck=Bottleneck.COST,
        observed=cost_usd_per_hour,
        limit=most_usd_per_hour,
        unit="USD/h",
        why=Statement(code=Code.TOO_DEAR, figures=figures),
        remedies=(Statement(code=Code.RAISE_MAX_COST, figures={"cost_usd_per_hour": cost_usd_per_hour}),),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def _more_time(need: Need, latency_s: float) -> Statement:
    """An SLO that leaves so much time."""
    short = _short_of(need, latency_s)
    return _raised(short.name, short.slo_s + latency_s - short.time_s, need)


def _raised(name: str, latency_s: float, need: Need) -> Statement:
    """A longer SLO for a model; for a pipeline that much at least, since its stages share what is added."""
    pipeline = need.judged.pipeline
    shares = pipeline is not None and need.judged.model == name and len(pipeline.stages) > 1
    code = Code.RAISE_SHARED_LATENCY if shares else Code.RAISE_LATENCY
    return Statement(code=code, subjects=(name,), figures={"latency_s": latency_s})


def _short_of(need: Need, latency_s: float) -> Part:
    """The SLO that leaves too little time: of a stage that of its pipeline, unless one of its own leaves less."""
    if need.own and need.own.time_s < latency_s:
        return need.own
    asked = need.judged
    return Part(asked.model, asked.slo.latency_s, need.slo.latency_s)


def _less_load(need: Need, factor: float) -> Statement:
    """Fewer cameras, or a lower rate where the sources are no cameras."""
    need = need.judged
    cameras = sum(s.count for s in need.streams if isinstance(s.arrivals, FixedRate))
    left = floor(cameras * factor + 1e-9)
    if left and cameras == sum(s.count for s in need.streams):
        figures = {"left": float(left), "count": float(cameras)}
        return Statement(code=Code.FEWER_CAMERAS, subjects=(need.model,), figures=figures)
    return Statement(code=Code.LOWER_RATE, subjects=(need.model,), figures={"rate_rps": need.rate_rps * factor})


def _fewer_streams(gpu: str, streams: int, share: float) -> list[Statement]:
    """So many whole streams of those that come to one kind of GPU; none where not one could."""
    return fewer_streams(gpu, streams, floor(streams * share + 1e-9))


def fewer_streams(gpu: str, streams: int, left: int) -> list[Statement]:
    """At most so many of the streams that come to one kind of GPU; none where not one could."""
    figures = {"left": float(left), "count": float(streams)}
    return [Statement(code=Code.FEWER_STREAMS, subjects=(gpu,), figures=figures)] if left else []


def more_memory(where: str, needed_bytes: float, limit_bytes: float) -> Statement:
    """At least so much memory of a GPU, or of a host."""
    figures = {"needed_bytes": needed_bytes, "more_bytes": needed_bytes - limit_bytes}
    return Statement(code=Code.MORE_MEMORY, subjects=(where,), figures=figures)


def _measuring_decides(packing: Packing, work_at_middle: float, limit: float) -> Sequence[Statement]:
    """Where uncertain speeds are too slow at the slow ends of their bands alone, measuring tells whether they are."""
    return surer(packing) if work_at_middle <= limit else ()


def _less_headroom(load: float) -> list[Statement]:
    """The headroom that so much load leaves, in whole percent; none where queues would take for ever to forget."""
    left = floor(100 * (1 - load) + 1e-9) / 100
    return [Statement(code=Code.LOWER_HEADROOM, figures={"headroom": left})] if left >= HEADROOM_LEAST else []


def _less_demand(share: float) -> Statement:
    """So many whole percent of the demand: 99 of 99.9, for 100 would not do."""
    return Statement(code=Code.LESS_DEMAND, figures={"share": floor(100 * share) / 100})


def too_few_stations(
    candidate: Candidate, busiest: StationLoad, headroom: float, cost_usd_per_hour: float
) -> Rejection:
    """A fleet whose engines for video, cores or links cannot do the work of its pipelines."""
    limit, subjects = 1 - headroom, (busiest.kind, busiest.gpu)
    if not busiest.servers:
        observed, why = 0.0, Statement(code=Code.NO_STATION, subjects=subjects)
        remedies: tuple[Statement, ...] = (Statement(code=Code.OTHER_MACHINE),)
    else:
        observed = busiest.load
        why = Statement(code=Code.STATION_TOO_BUSY, subjects=subjects, figures={"load": observed, "headroom": headroom})
        fewer = _fewer_streams(busiest.gpu, busiest.sources, limit / observed) or [_less_demand(limit / observed)]
        remedies = (*fewer, ONE_MORE_GPU, *_less_headroom(observed))
    return Rejection(
        subject=candidate,
        bottleneck=STATIONS[busiest.kind],
        observed=observed,
        limit=limit,
        unit="fraction",
        why=why,
        remedies=remedies,
        cost_usd_per_hour=cost_usd_per_hour,
    )


def streams_refused(
    candidate: Candidate,
    scenario: Scenario,
    needs: Mapping[str, Need],
    devices: Sequence[FleetGpu],
    cost_usd_per_hour: float,
    placed: Sequence[Placed] = (),
) -> Rejection | None:
    """Why streams of video cannot come to a fleet: nothing there decodes or encodes them, its drivers do not encode so
    many, or its GPUs do not hold them, beside the models that are placed there; None where they can."""
    if nowhere := next((one for one in loads_on(needs, devices) if not one.servers), None):
        return too_few_stations(candidate, nowhere, scenario.headroom, cost_usd_per_hour)
    if over := beyond_drivers(needs, devices):
        return too_many_encoded(candidate, *over, cost_usd_per_hour)
    context_bytes = context_without_models(scenario)
    held_by_gpu = held_on(needs, devices)
    for device in devices:
        held = held_by_gpu.get(device.id, Held())
        by_models = models_bytes(placed, device)
        beside = {"models_bytes": by_models} if by_models else {"context_bytes": context_bytes}
        if held.size_bytes > _room_bytes(device.kind, beside):
            return too_many_streams(candidate, device.kind, held, beside, cost_usd_per_hour)
    return None


def too_many_streams(
    candidate: Candidate, kind: Kind, held: Held, beside: Mapping[str, float], cost_usd_per_hour: float
) -> Rejection:
    """A fleet of which one GPU would hold more streams of video than fit in its memory.

    `beside`: what else is held there, in bytes: `models_bytes` with their context, or where no models are placed yet
    `context_bytes`; how many streams fit is not known then.
    """
    gpu, room_bytes, share = kind.gpu, _room_bytes(kind, beside), 0.0
    if "models_bytes" in beside:
        share = room_bytes / held.size_bytes
    needed_bytes = held.size_bytes + sum(beside.values())
    return Rejection(
        subject=candidate,
        bottleneck=Bottleneck.MEMORY,
        observed=held.size_bytes,
        limit=room_bytes,
        unit="bytes",
        why=_streams_too_large(kind, held, beside),
        remedies=(
            *_fewer_streams(gpu.name, held.streams, share),
            more_memory("GPU", needed_bytes, kind.memory_bytes),
        ),
        cost_usd_per_hour=cost_usd_per_hour,
    )


def _room_bytes(kind: Kind, beside: Mapping[str, float]) -> float:
    """GPU memory that is left for streams."""
    return max(0, kind.memory_bytes - sum(beside.values()))


def _streams_too_large(kind: Kind, held: Held, beside: Mapping[str, float]) -> Statement:
    figures = {"streams": held.streams, "held_bytes": held.size_bytes, "memory_bytes": kind.memory_bytes, **beside}
    return Statement(code=Code.TOO_MANY_STREAMS, subjects=(kind.gpu.name,), figures=figures)


def too_many_encoded(
    subject: Candidate | OnGpu, gpu: GPU, streams: int, cost_usd_per_hour: float | None = None
) -> Rejection:
    """A fleet of which one machine would encode more streams than its driver takes, or a kind of GPU that does not take
    those of one source."""
    most = encoded_max(ENCODE, gpu)
    of_kind = isinstance(subject, OnGpu)
    fewer = _fewer_streams(gpu.name, streams, most / streams)
    remedies = (Statement(code=Code.OTHER_MACHINE),) if of_kind else (*fewer, ONE_MORE_GPU)
    return Rejection(
        subject=subject,
        bottleneck=Bottleneck.ENCODE,
        observed=streams,
        limit=most,
        unit="streams",
        why=Statement(code=Code.TOO_MANY_ENCODED, subjects=(gpu.name,), figures={"streams": streams, "most": most}),
        remedies=remedies,
        cost_usd_per_hour=cost_usd_per_hour,
    )


def stream_too_large(kind: Kind, held_bytes: int, context_bytes: int) -> Rejection:
    """A kind of GPU whose memory cannot hold the largest stream of video beside a context."""
    beside = {"context_bytes": context_bytes}
    return Rejection(
        subject=OnGpu(gpu=kind.gpu.name),
        bottleneck=Bottleneck.MEMORY,
        observed=held_bytes,
        limit=_room_bytes(kind, beside),
        unit="bytes",
        why=_streams_too_large(kind, Held(1, held_bytes), beside),
        remedies=(Statement(code=Code.OTHER_MACHINE),),
    )


def no_engine(unable: Unable, able: Sequence[str]) -> Rejection:
    """A kind of GPU whose engines do not decode or encode what pipelines ask; `able`: kinds that do."""
    gpu, kind = unable.gpu, unable.kind
    codecs = tuple(dict.fromkeys(one.codec.value for one in unable.codings))
    return Rejection(
        subject=OnGpu(gpu=gpu.name),
        bottleneck=STATIONS[kind],
        observed=0,
        limit=1,
        unit="",
        why=Statement(code=_lacking(unable), subjects=codecs),
        remedies=tuple(_other_engines(unable, able)),
    )


def _lacking(unable: Unable) -> Code:
    if unable.kind == DECODE:
        return Code.NO_DECODE_RATE if unable.unpublished else Code.NO_DECODER
    if engine_count(unable.gpu, ENCODE) == 0:
        return Code.NO_ENCODER
    return Code.NO_ENCODE_RATE if unable.unpublished else Code.NOT_ENCODED


def _other_engines(unable: Unable, able: Sequence[str]) -> Iterator[Statement]:
    """Another codec that it does, kinds of GPU that do this one, the rate where only that is missing."""
    if unable.unpublished:
        yield Statement(code=Code.STATE_ENGINE_RATE)
    known = tuple(dict.fromkeys(rate.codec.value for rate in engine_rates(unable.gpu, unable.kind) if rate.engines))
    if known:
        yield Statement(code=Code.OTHER_CODEC, subjects=(unable.kind, *known))
    elif able:
        yield Statement(code=Code.ABLE_GPUS, subjects=(unable.kind, *able))
    else:
        yield Statement(code=Code.OTHER_MACHINE)
