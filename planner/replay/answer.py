"""Answers: a trial becomes a recommendation."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from math import ceil, inf, isnan, nan

from planner.catalog.offers import Offer
from planner.model.candidate import Machines
from planner.model.plan import (
    Accuracy,
    Bottleneck,
    Drawn,
    GpuAnswer,
    Instances,
    Interval,
    ModelAnswer,
    Policies,
    Recommendation,
    Replayed,
    UnitCosts,
)
from planner.model.replications import (
    horizon_s,
    warmup_s,
)
from planner.model.scenario import Scenario
from planner.placing import duty
from planner.placing.cutting import FleetGpu
from planner.placing.duty import Shortage
from planner.placing.fleets import gpu_count
from planner.placing.packing.packed import Placed, portions_of, workspace_room_bytes
from planner.placing.sizing import Need
from planner.replay.deploying import failures
from planner.replay.pipelines import each_once, mode_of, replicas_of, resources_of, stages_of
from planner.replay.replay import Replay
from planner.replay.trial import Trial, evidence, mean_of_known
from planner.units.reading import HOURS_PER_MONTH
from simulator.clock.metrics import (
    ModelMetrics,
    Verdict,
    confidence_interval,
)
from simulator.clock.stability import drain
from simulator.world.profile import speed_evidence_of, weakest
from simulator.world.workload import FixedRate, Workload

CLEARLY_LESS = 0.95
"""Part of the load at which a round of a GPU breaks. Queues that grow below it grow by loads of weights."""
JUST_BEYOND = 1.02
"""Times the load up to which every queue drains."""
FULL = 0.9
"""Part of the largest batch from which on batches are full on average."""
WORTH_MEASURING = 0.05
"""Part more that larger batches would carry, from which on it is said that nobody measured them."""


def recommend(trial: Trial, lower_bound_usd_per_hour: float) -> Recommendation:
    """What a person reads about a trial."""
    candidate = trial.candidate
    cost = trial.cost_usd_per_hour
    models = tuple(_model_answer(trial, need) for need in trial.replay.needs.values())
    return Recommendation(
        feasible=trial.met,
        unready=trial.unready,
        searched=trial.searched,
        instances=_instances(trial),
        memory=candidate.memory,
        gpu_count=gpu_count(trial.offers, trial.fleet),
        cost_usd_per_hour=cost,
        cost_usd_per_month=cost * HOURS_PER_MONTH,
        unit_costs=unit_costs(cost, models, trial.replay.traffic),
        lower_bound_usd_per_hour=lower_bound_usd_per_hour,
        power_w=trial.power_w,
        replications=trial.replay.replayed,
        replayed=replayed(trial),
        requests=trial.replay.requests,
        models=models,
        resources=resources_of(trial),
        gpus=tuple(_gpu_answer(trial, device) for device in trial.devices),
    )


def _instances(trial: Trial) -> tuple[Instances, ...]:
    """Machines of each offer that serve, and their spares."""
    spares = dict(zip(trial.offers, trial.spares, strict=True)) if trial.spares else {}
    bought = zip(trial.bought, trial.candidate.machines, strict=True)
    return tuple(_of_offer(offer, machines, spares.get(offer, 0)) for offer, machines in bought)


def _of_offer(offer: Offer, machines: Machines, spares: int) -> Instances:
    """So many of an offer, at its price."""
    return Instances(
        provider=machines.provider,
        region=machines.region,
        instance=machines.instance,
        gpu=machines.gpu,
        gpu_count=machines.gpu_count,
        count=machines.count,
        usd_per_hour=offer.usd_per_hour,
        price_as_of=offer.as_of,
        price_kind=offer.price_kind,
        ambiguous=machines.ambiguous,
        spares=spares,
    )


def unit_costs(usd_per_hour: float, models: Sequence[ModelAnswer], traffic: Workload) -> UnitCosts | None:
    """What a request, a right answer and a stream cost. $3.60 an hour for 1,000 requests a second: $1 a million."""
    millions = sum(model.offered_rps for model in models) * 3600 / 1e6
    right = sum(m.offered_rps * m.due_fraction * m.accuracy.lost_is_wrong for m in models) * 3600 / 1e6
    streams = sum(stream.count for stream in traffic.streams)
    only = all(isinstance(stream.arrivals, FixedRate) for stream in traffic.streams)
    if not millions:
        return None
    return UnitCosts(
        per_million_requests=usd_per_hour / millions,
        per_million_right=usd_per_hour / right if right > 0 else nan,
        per_stream_month=usd_per_hour * HOURS_PER_MONTH / streams if only else None,
    )


def replayed(trial: Trial) -> Replayed:
    """How long was replayed, and why that suffices."""
    seen, length = trial.replay, trial.replay.stretch
    return Replayed(
        horizon_s=length.horizon_s,
        warmup_s=length.warmup_s,
        settling_s=length.settling_s,
        repeat_s=length.repeat_s,
        draws_asked=seen.draws.share if seen.draws else None,
        drawn=drawn(trial),
        draws_mixed=seen.draws.mixed if seen.draws else 1,
        draws=seen.replications if seen.draws else None,
        draws_clear=seen.clear,
        draws_inferred=seen.inferred,
        draws_kept=seen.all_kept,
        swap=trial.deployment.swap if any(p.swapped for p in trial.packing.placed) else None,
    )


def drawn(trial: Trial) -> tuple[Drawn, ...]:
    """What differs between its draws."""
    phases = (Drawn.PHASES,) if trial.replay.traffic.draws_phases else ()
    return (*phases, Drawn.SPEEDS) if trial.deployment.doubted else phases


def _model_answer(trial: Trial, need: Need) -> ModelAnswer:
    seen, placed = trial.replay.of(need.model), trial.placed(need.model)
    profiles = [p.portion.sized.profile for p in placed]
    swapped = any(p.swapped for p in placed)
    verdict = trial.replay.verdicts[need.model]
    attainment_max = trial.attainment_max.get(need.model)
    short = _gives_way(trial, need, placed)

    def mean(figure: Callable[[ModelMetrics], float]) -> float:
        return mean_of_known([figure(m) for m in seen])

    p99 = Interval(*confidence_interval([m.p99_s for m in seen if not isnan(m.p99_s)]))
    return ModelAnswer(
        name=need.model,
        replicas=replicas_of(placed),
        batch_size=max(p.batch_size_max for p in placed),
        max_queue_delay_s=need.max_queue_delay_s,
        gpus=tuple(dict.fromkeys(device.id for p in placed for device in p.devices)),
        mode=mode_of(placed),
        slo_s=need.slo.latency_s,
        slo_attainment_target=need.slo.attainment,
        slo_attainment=trial.replay.attainment[need.model],
        slo_met=trial.replay.kept[need.model] if verdict is Verdict.STABLE and attainment_max is None else False,
        attainment_max=attainment_max,
        draws_kept=trial.replay.draws_kept.get(need.model),
        mean_s=mean(lambda m: m.mean_s),
        p50_s=mean(lambda m: m.p50_s),
        p90_s=mean(lambda m: m.p90_s),
        p95_s=mean(lambda m: m.p95_s),
        p99_s=p99.mean,
        p99=p99,
        p99_in_draws_s=_p99_in_draws_s(trial, need.model, seen),
        throughput_rps=mean(lambda m: m.throughput_rps),
        offered_rps=mean(lambda m: m.offered_rps),
        due_fraction=mean(lambda m: m.due_fraction),
        goodput_rps=mean(lambda m: m.goodput_rps),
        dropped_fraction=mean(lambda m: m.dropped_fraction),
        processed_fraction=mean(lambda m: m.processed_fraction),
        mean_batch_size=mean(lambda m: m.mean_batch_size),
        accuracy=_accuracy(trial.replay, need.model),
        joules_per_inference=mean(lambda m: m.joules_per_inference),
        verdict=verdict,
        bottleneck=short.bottleneck,
        demand_factor_max=short.demand_factor,
        stages=stages_of(trial, need),
        evidence=weakest(*(evidence(profile, swapped) for profile in profiles)),
        predicted=any(profile.predicted for profile in profiles),
        speed_evidence=speed_evidence_of(profile.speed_evidence for profile in profiles),
        uncertain=any(profile.doubt for profile in profiles),
        precision=each_once(profile.precision for profile in profiles),
        runtime=each_once(profile.runtime for profile in profiles),
    )


def _p99_in_draws_s(trial: Trial, model: str, seen: Sequence[ModelMetrics]) -> float | None:
    """p99 that as many draws of phases and speeds keep as are asked; None where none are drawn, or a site meets many.
    Infinite where in too many of them nothing is answered, or the queue grows for good."""
    replay = trial.replay
    if replay.draws is None or replay.draws.mixed > 1:
        return None
    each_s = [
        inf if model in growing or isnan(one.p99_s) else one.p99_s
        for one, growing in zip(seen, replay.overloads, strict=True)
        if one.arrived
    ]
    return sorted(each_s)[ceil(replay.draws.share * len(each_s)) - 1] if each_s else nan


def p99_over_slo(trial: Trial) -> float:
    """The longest p99 of any model, over its SLO, as it is shown."""
    needs = trial.replay.needs
    return max(_p99_shown_s(trial, model) / need.slo.latency_s for model, need in needs.items())


def _p99_shown_s(trial: Trial, model: str) -> float:
    seen = trial.replay.of(model)
    in_draws_s = _p99_in_draws_s(trial, model, seen)
    return mean_of_known([one.p99_s for one in seen]) if in_draws_s is None else in_draws_s


def _accuracy(seen: Replay, model: str) -> Accuracy:
    """Mean over replications; None for what a repeated answer is worth where the scenario names no half-life."""
    lost_is_wrong = mean_of_known([accuracy[model] for accuracy in seen.lost_is_wrong])
    reuse_last = [accuracy[model] for accuracy in seen.reuse_last]
    return Accuracy(lost_is_wrong=lost_is_wrong, reuse_last=mean_of_known(reuse_last) if reuse_last else None)


def _gives_way(trial: Trial, need: Need, placed: Sequence[Placed]) -> Shortage:
    """What gives way first: of a pipeline, what most is taken of.

    Its stages' budgets only choose places and batches, and with these given its SLO is missed where a queue grows.
    """
    resources = resources_of(trial) if need.pipeline else ()
    if busiest := max(resources, key=lambda one: one.used, default=None):
        return Shortage(busiest.kind, 1 / busiest.used if busiest.used else inf)
    slowest = max(placed, key=lambda p: p.worst_s)
    short, bears = shortage_of(slowest, trial.packing.placed), trial.limit * trial.demand_factor_max
    swapped = {device for p in trial.packing.placed if p.swapped for device in p.devices}
    turns = swapped.intersection(slowest.devices)
    if turns and not short.demand_factor <= bears and _grows_first(trial, need.model):  # NaN in a simulation
        is_loading = bears < CLEARLY_LESS * short.demand_factor
        short = Shortage(Bottleneck.LOADING if is_loading else short.bottleneck, bears)
    if trial.replay.verdicts[need.model] is not Verdict.OVERLOADED:
        return short
    is_short_of_time = short.bottleneck is Bottleneck.LATENCY
    bottleneck = _scarce_beside_slo(trial, need.model, slowest) if is_short_of_time else short.bottleneck
    return Shortage(bottleneck, short.demand_factor if short.demand_factor <= trial.limit else bears)  # NaN: bears


def _grows_first(trial: Trial, model: str) -> bool:
    """Whether its queue is among those that grow just beyond what the deployment bears."""
    rates_rps = trial.replay.rates_rps(JUST_BEYOND * trial.demand_factor_max)
    return model in drain(trial.deployment, rates_rps, trial.replay.traffic).growing


def _scarce_beside_slo(trial: Trial, model: str, placed: Placed) -> Bottleneck:
    """What an overloaded model is short of whose GPU could do the work in larger batches: rounds that SLOs keep short,
    where its batches are not full or not the largest known; else larger ones, where they would carry more."""
    is_full = mean_of_known([m.mean_batch_size for m in trial.replay.of(model)]) > FULL * placed.batch_size_max
    if not is_full or placed.batch_size_max < placed.portion.sized.profile.largest_batch:
        return Bottleneck.SLO_BATCH
    return Bottleneck.BATCH_RANGE if _larger_would_do(placed, trial.packing.placed) else Bottleneck.COMPUTE


def shortage_of(placed: Placed, among: Sequence[Placed]) -> Shortage:
    """What gives way first: the end of the measured batches, or of those that the SLO leaves time for, where larger
    ones would carry more than these can. `among`: all that is placed."""
    short = placed.short()
    if short.bottleneck is not Bottleneck.COMPUTE:
        return short
    if _larger_would_do(placed, among):
        return short._replace(bottleneck=Bottleneck.BATCH_RANGE)
    return short._replace(bottleneck=Bottleneck.SLO_BATCH) if larger_than_slo(placed, among) else short


def larger_than_slo(placed: Placed, among: Sequence[Placed]) -> range:
    """Measured batches that run longer than the SLO allows, up to the one that costs least a request of those that fit
    in memory beside the others; none where memory holds batches already, or that one carries hardly more.

    With 12 ms at most, 2 in 12 ms; 16 in 26 ms carry 3.7 times as much: 3 to 16.
    """
    sized, profile = placed.portion.sized, placed.portion.sized.profile
    most = sized.batches[len(placed.devices) - 1]
    if placed.batch_size_fit < most or most >= profile.largest_batch:
        return range(0)
    if profile.latency(most + 1) <= sized.need.slo.latency_s:
        return range(0)
    room_bytes = workspace_room_bytes(placed, among)
    sizes = range(most + 1, profile.largest_batch + 1)
    fitting = takewhile(lambda batch: profile.workspace(batch) <= room_bytes, sizes)
    cheapest = min(fitting, key=lambda batch: profile.latency(batch) / batch, default=most)
    now_s = min(run_s / batch for batch, run_s in enumerate(sized.latency_s[:most], start=1))
    carries_more = now_s >= (1 + WORTH_MEASURING) * profile.latency(cheapest) / cheapest
    return range(most + 1, cheapest + 1) if carries_more else range(0)


def _larger_would_do(placed: Placed, among: Sequence[Placed]) -> bool:
    """Whether twice the largest measured batch would carry more if its curve goes on, within the SLO and in memory.

    4 in 10 ms and 8 in 16 ms carry a quarter more. Waiting for such a batch and running it must be within the SLO.
    """
    sized, profile = placed.portion.sized, placed.portion.sized.profile
    largest = profile.largest_batch
    if placed.batch_size_max < largest or len(profile.latency.x) < 2:
        return False
    run_s = profile.latency(2 * largest)
    fits = profile.workspace(2 * largest) <= workspace_room_bytes(placed, among)
    carries_more = 2 * profile.latency(largest) >= (1 + WORTH_MEASURING) * run_s
    return carries_more and fits and 2 * run_s <= sized.need.slo.latency_s


def _gpu_answer(trial: Trial, device: FleetGpu) -> GpuAnswer:
    seen = [summary.devices[device.id] for summary in trial.replay.summaries]
    here = [p for p in trial.packing.placed if device in p.devices]
    profiles = [p.portion.sized.profile for p in here]
    return GpuAnswer(
        id=device.id,
        kind=device.kind.gpu.name,
        host=device.host,
        machines=device.machines,
        models=tuple(p.portion.sized.model for p in here),
        utilization=mean_of_known([d.utilization for d in seen]),
        offered_load=sum(_offered_load(p, device) for p in here),
        load_share=mean_of_known([d.load_share for d in seen]),
        swaps_per_s=mean_of_known([d.swaps_per_s for d in seen]),
        peak_memory_bytes=max(d.peak_memory_bytes for d in seen),
        memory_bytes=device.kind.memory_bytes,
        mean_power_w=mean_of_known([d.mean_power_w for d in seen]),
        predicted=any(profile.predicted for profile in profiles),
        speed_evidence=speed_evidence_of(profile.speed_evidence for profile in profiles),
        uncertain=any(profile.doubt for profile in profiles),
    )


def _offered_load(placed: Placed, device: FleetGpu) -> float:
    """Of one replica on one of its GPUs."""
    here = portions_of(placed)[placed.devices.index(device)]
    return duty.offered_load([here], [placed.batch_size_max])


def policies(scenario: Scenario, workload: Workload, trial: Trial | None) -> Policies:
    """The rules that a scenario's deployments are replayed under; those of the answer, where there is one."""
    swap = trial.deployment.swap if trial else scenario.swap.policy
    length = trial.replay.stretch if trial else None
    return Policies(
        objective=scenario.objective,
        memory=scenario.memory,
        scheduling=scenario.scheduling,
        routing=scenario.routing,
        drop=scenario.drop,
        accuracy=scenario.accuracy.rule,
        half_life_s=scenario.accuracy.half_life,
        eviction=swap.eviction,
        prefetch=swap.prefetch,
        pinned=swap.pinned,
        disk=swap.disk,
        padded=scenario.padded,
        headroom=scenario.headroom,
        survive=scenario.survive,
        horizon_s=length.horizon_s if length else horizon_s(scenario, workload),
        warmup_s=length.warmup_s if length else warmup_s(scenario),
        failures=failures(scenario),
    )
