"""Refusals of fleets: what stood in the way, by how much, and the smallest change that would help."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, floor

from planner.answer import Trial, remedy_unproven
from planner.catalog import Offer
from planner.cost import cards_label
from planner.duty import share_served
from planner.packing import Misfit, Packing
from planner.plans import Bottleneck, Rejection
from planner.scenario import MemoryPolicy
from planner.sizing import Need, gigabytes_up
from simulator.metrics import Verdict
from simulator.workload import FixedRate


def dominated(offer: Offer, by: Offer) -> Rejection:
    """An offer whose cards another sells for no more."""
    limit = by.usd_per_hour * offer.gpu_count / by.gpu_count
    return Rejection(
        candidate=f"{offer.instance} ({cards_label(offer)}, {offer.provider} {offer.region})",
        bottleneck=Bottleneck.COST,
        observed=offer.usd_per_hour,
        limit=limit,
        unit="USD/h",
        reason=f"{by.instance} ({cards_label(by)}, {by.provider} {by.region}) has the same GPUs at no more each",
        way_out=f"a price below ${limit:.4g}/h",
        cost_usd_per_hour=offer.usd_per_hour,
    )


def misfit(candidate: str, found: Misfit, memory: MemoryPolicy, cost_usd_per_hour: float) -> Rejection:
    """A fleet on which the models cannot be placed."""
    if found.bottleneck is Bottleneck.GPU_COUNT:
        unit, reason = "GPUs", f"no GPUs are left that can hold {found.model}"
        way_out = f"one more machine that can hold {found.model}"
    else:
        where = "GPU" if found.bottleneck is Bottleneck.MEMORY else "host"
        needed, more = gigabytes_up(found.observed), gigabytes_up(found.observed - found.limit)
        unit, reason = "bytes", f"the fullest {where} needs {needed} of {found.limit / 1e9:.2f} GB"
        way_out = f"at least {needed} of {where} memory ({more} more), or one more GPU"
        if found.bottleneck is Bottleneck.MEMORY and memory is MemoryPolicy.RESIDENT:
            way_out += ", or `memory: swap`"
    return Rejection(
        candidate=candidate,
        bottleneck=found.bottleneck,
        observed=found.observed,
        limit=found.limit,
        unit=unit,
        reason=reason,
        way_out=way_out,
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_busy(
    candidate: str, packing: Packing, needs: Mapping[str, Need], headroom: float, cost_usd_per_hour: float
) -> Rejection:
    """A fleet whose busiest GPU works longer than the headroom allows, even at its cheapest batches."""
    limit = 1 - headroom
    return Rejection(
        candidate=candidate,
        bottleneck=Bottleneck.COMPUTE,
        observed=packing.work,
        limit=limit,
        unit="fraction",
        reason=f"the busiest GPU would work {packing.work:.1%} of the time, with {headroom:.0%} to be kept free",
        way_out=f"{_less_load(needs[packing.busiest], limit / packing.work)} at the very least, or one more GPU",
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_strained(
    candidate: str, packing: Packing, needs: Mapping[str, Need], headroom: float, cost_usd_per_hour: float
) -> Rejection:
    """A fleet on which one round over a GPU's models lasts far too long for one of them."""
    model, need = packing.worst, needs[packing.worst]
    slo_s = need.slo.latency_s
    worst_s = max(p.worst_s for p in packing.placed if p.portion.sized.model == model)
    if worst_s <= slo_s:
        served = share_served(packing.strain, headroom)
        bottleneck, unit, observed, limit = Bottleneck.COMPUTE, "fraction", served, need.slo.attainment
        reason = f"{model} gets turns for {served:.0%} of its frames: its GPU is busy with other models"
        change = _less_load(need, served)
    else:
        bottleneck, unit, observed, limit = Bottleneck.LATENCY, "s", worst_s, slo_s
        reason = f"{model} would wait {worst_s * 1e3:.0f} ms in the worst case while its GPU serves other models"
        change = _more_time(model, worst_s)
    return Rejection(
        candidate=candidate,
        bottleneck=bottleneck,
        observed=observed,
        limit=limit,
        unit=unit,
        reason=reason,
        way_out=f"{change}, or one more GPU",
        cost_usd_per_hour=cost_usd_per_hour,
    )


def missed_promise(trial: Trial, more_gpus: int = 1) -> Rejection:
    """A fleet that was replayed and did not surely keep a promise. `more_gpus`: how many might help; 0 where none do.

    The figures are those of the trial's last replays: the confirmation where there was one, else the screening.
    """
    if trial.overloaded or not trial.replay.stable:
        return _overloaded(trial)
    model = trial.replay.missed[0]
    if not trial.replay.margin(model) < 0:
        return _unproven(trial, model)
    need, placed = trial.replay.needs[model], trial.placed(model)
    worst_s = max(p.worst_s for p in placed)
    devices = [s.devices[p.cards[0].id] for s in trial.replay.summaries for p in placed]
    busy, loading = max(d.utilization for d in devices), max(d.load_share for d in devices)
    changes = [_more_time(model, worst_s)] if worst_s > need.slo.latency_s else []
    bottleneck = Bottleneck.LATENCY
    if busy + loading > 0.9:
        bottleneck = Bottleneck.LOADING if loading > busy else Bottleneck.COMPUTE
        changes.append(_less_load(need, trial.replay.attainment[model].mean / need.slo.attainment * 0.95))
    seen = trial.replay.attainment[model]
    lower = floor(seen.low * 1000) / 10
    if lower > 0 and not trial.replay.draws and (not more_gpus or need.slo.attainment <= seen.high):
        changes.append(f"promise {lower:g} % for {model}")
    if more_gpus:
        changes.append("one more GPU" if more_gpus == 1 else f"{more_gpus} more GPUs")
    others = [m for m in trial.replay.missed if m != model and trial.replay.margin(m) < 0]
    way_out = ", or ".join(changes) or f"raise {model}'s latency SLO"
    if others:
        way_out += f"; that is for {model} alone, {', '.join(others)} miss{'es' if len(others) == 1 else ''} too"
    return _missed(trial, model, bottleneck, way_out)


def _overloaded(trial: Trial) -> Rejection:
    """A fleet that cannot bear the demand, with its headroom, however long a replay it looks well in."""
    limit, load = trial.limit, trial.load
    loading = ", loads of weights included," if any(p.swapped for p in trial.packing.placed) else ""
    way_out = "one more GPU"
    if load > limit:
        reason = f"in the largest batches that are allowed{loading} it would be offered {load:.1%} of what it can bear"
        reason += f", where {limit:.0%} are allowed" if limit < 1 else ""
        reason += "; what waits would grow without end" if load > 1 else ""
        way_out = f"{limit / load:.0%} of the demand, or {way_out}"
    else:
        late = [m for m, verdict in trial.replay.verdicts.items() if verdict is not Verdict.STABLE]
        reason = f"what waits for {', '.join(late)} grew from the middle of the replays to their end"
    return Rejection(
        candidate=trial.label,
        bottleneck=Bottleneck.LOADING if loading else Bottleneck.COMPUTE,
        observed=load,
        limit=limit,
        unit="fraction",
        reason=reason,
        way_out=way_out,
        cost_usd_per_hour=trial.cost_usd_per_hour,
    )


def replayed(refused: Rejection, trial: Trial) -> Rejection:
    """A refusal before any replay, with the models that a replay of the fleet then saw miss."""
    missed = [m for m in trial.replay.missed if trial.replay.margin(m) < 0]
    said = f"{refused.way_out}; in a replay {', '.join(missed)} miss{'es' if len(missed) == 1 else ''}"
    return replace(refused, way_out=said) if missed else refused


def _unproven(trial: Trial, model: str) -> Rejection:
    """A promise that is kept on the mean, but not surely: what helps is more requests, not more GPUs."""
    return _missed(trial, model, Bottleneck.EVIDENCE, remedy_unproven(trial.replay, model))


def _missed(trial: Trial, model: str, bottleneck: Bottleneck, way_out: str) -> Rejection:
    seen, target = trial.replay.attainment[model], trial.replay.needs[model].slo.attainment
    judged = sum(m.judged for m in trial.replay.of(model))
    reason = f"{model} answers {seen.mean:.2%} in time ({seen.low:.2%} to {seen.high:.2%} with 95 % confidence)"
    if draws := trial.replay.draws:
        kept = trial.replay.draws_kept[model].mean
        reason = f"{model} answers {seen.mean:.2%} in time, on the mean over draws of the cameras' phases, and keeps "
        reason += f"{target * 100:.6g} % in {kept:.0%} of them, where {draws.share * 100:.6g} % must surely"
    elif bottleneck is Bottleneck.EVIDENCE:
        reason += f", and {judged:,} requests do not prove {target * 100:.6g} %"
    if not judged:
        reason = f"no request of {model} was replayed long enough to be judged"
    return Rejection(
        candidate=trial.label,
        bottleneck=bottleneck,
        observed=seen.low if bottleneck is Bottleneck.EVIDENCE else seen.mean,
        limit=target,
        unit="fraction",
        reason=reason,
        way_out=way_out,
        cost_usd_per_hour=trial.cost_usd_per_hour,
    )


def too_many(candidate: str, gpus: int, gpus_max: int, cost_usd_per_hour: float) -> Rejection:
    """The next fleet, were more GPUs allowed."""
    return Rejection(
        candidate=candidate,
        bottleneck=Bottleneck.GPU_COUNT,
        observed=gpus,
        limit=gpus_max,
        unit="GPUs",
        reason=f"the next larger fleet has {gpus} GPUs, {gpus_max} are allowed",
        way_out=f"`buy.max_gpus: {gpus}` or more",
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_few_machines(candidate: str, offer: Offer, count: int, cost_usd_per_hour: float) -> Rejection:
    """The next fleet, were there more machines of a kind."""
    return Rejection(
        candidate=candidate,
        bottleneck=Bottleneck.GPU_COUNT,
        observed=count * offer.gpu_count,
        limit=(offer.count_max or 0) * offer.gpu_count,
        unit="GPUs",
        reason=f"the next larger fleet has {count} of {offer.instance}, there are {offer.count_max}",
        way_out=f"`count: {count}` of {offer.instance}, or another machine",
        cost_usd_per_hour=cost_usd_per_hour,
    )


def too_dear(candidate: str, cost_usd_per_hour: float, most_usd_per_hour: float) -> Rejection:
    """The next fleet, were more money allowed."""
    return Rejection(
        candidate=candidate,
        bottleneck=Bottleneck.COST,
        observed=cost_usd_per_hour,
        limit=most_usd_per_hour,
        unit="USD/h",
        reason=f"the next fleet costs ${cost_usd_per_hour:.4g}/h, ${most_usd_per_hour:.4g}/h is allowed",
        way_out=f"`buy.max_cost: ${ceil(cost_usd_per_hour * 100) / 100:.2f}/h` or more",
        cost_usd_per_hour=cost_usd_per_hour,
    )


def _more_time(model: str, latency_s: float) -> str:
    return f"raise {model}'s latency SLO to {ceil(latency_s * 1e3)} ms"


def _less_load(need: Need, factor: float) -> str:
    """`drop to 28 of 40 cameras of yolov3`, or a lower rate where the sources are no cameras."""
    cameras = sum(s.count for s in need.streams if isinstance(s.arrivals, FixedRate))
    left = floor(cameras * factor)
    if left and cameras == sum(s.count for s in need.streams):
        return f"drop to {left} of {cameras} cameras of {need.model}"
    return f"lower {need.model}'s rate to {need.rate_rps * factor:.3g} rps"
