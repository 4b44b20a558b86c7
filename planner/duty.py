"""Duty cycles: what a card that serves several models in turn can promise; squishy bin packing of Nexus (SOSP'19)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

from planner.plans import Bottleneck
from planner.sizing import Kind, Sized
from simulator.profile import Profile
from simulator.sharing import turn_order

LOST_WEIGHT = 10
"""How much more a share of demand that gets no turn counts than one that may wait too long: the usual promises allow
1 to 5 % of misses, so that a tenth that is lost breaks them all."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What every card of a plan must keep."""

    headroom: float
    context_bytes: int
    swap: bool
    """Models may take turns in memory."""
    prefetch: bool
    pinned: bool
    padded: bool
    tightness: Mapping[str, float] = field(default_factory=dict)
    """By model: how many times closer than its SLO its worst case should stay; learnt from simulation."""

    def limit_s(self, sized: Sized) -> float:
        """Latency that the worst case should keep."""
        return sized.need.slo.latency_s / self.tightness.get(sized.model, 1.0)


@dataclass(frozen=True, slots=True)
class Duty:
    """What one round over all models of a card takes."""

    cycle_s: float
    batch_sizes: tuple[int, ...]
    """Requests that gather in one round, by model."""
    fits: tuple[int, ...]
    """Largest batch of each model that fits in memory: beside the others, or alone where they take turns."""
    worst_s: tuple[float, ...]
    """Worst latency of each model: it just missed its turn."""
    strain: float
    """Worst latency over its SLO, or requests in a round over the largest batch, whichever is greater; at most 1 where
    the card keeps every promise in the worst case."""
    worst: str
    """The model that sets it."""
    swapped: bool


@dataclass(frozen=True, slots=True)
class Portion:
    """A model's part on one card."""

    sized: Sized
    share: float
    """Of the model's requests."""

    @property
    def rate_rps(self) -> float:
        """Requests per second that must be processed here."""
        return self.sized.need.needed_rps * self.share


def weight_bytes(portions: Iterable[Portion]) -> int:
    """Bytes of the union of layers: what two models share is held once."""
    return sum({x.key: x.weight_bytes for p in portions for x in p.sized.profile.layers}.values())


def batch_cap(sized: Sized, room_bytes: float) -> int:
    """Largest feasible batch whose workspace fits in `room_bytes`; 0 where none does."""
    workspace = sized.profile.workspace
    return next((b for b in range(sized.batch_size_max, 0, -1) if workspace(b) <= room_bytes), 0)


def duty_cycle(portions: Sequence[Portion], kind: Kind, rules: Rules) -> Duty | None:
    """The shortest round in which a card serves all that arrives, by fixed-point iteration; None where memory is short.

    In a round of C seconds r C requests of each model gather, so their batch is b = ceil(r C), and the round lasts
    C = sum l(b) / (1 - headroom), plus the loading of what is swapped. A request just missed waits a round and then its
    own batch: C + l(b) must be within the SLO. Where more gathers than a batch may hold, the last wait further rounds,
    usual ones, in which models that are rarely asked take no part. Where models may take turns in memory, they do so
    if they must, or if memory holds their batches back and the turns strain the card less.

    Two models at 50 rps that take 10 ms for any batch: C = 20 ms, b = 1, worst latency 30 ms.
    """
    resident = _duty_cycle(portions, kind, rules, swapped=False)
    if not rules.swap or (resident is not None and (resident.strain <= 1 or not held_back(portions, resident.fits))):
        return resident
    swapped = _duty_cycle(portions, kind, rules, swapped=True)
    return min((duty for duty in (resident, swapped) if duty), default=None, key=lambda duty: duty.strain)


def held_back(portions: Sequence[Portion], fits: Sequence[int]) -> bool:
    """Whether memory keeps a batch below what the SLO allows."""
    return any(fit < p.sized.batch_size_max for p, fit in zip(portions, fits, strict=True))


def _duty_cycle(portions: Sequence[Portion], kind: Kind, rules: Rules, *, swapped: bool) -> Duty | None:
    turns = _turns(portions, kind, rules, swapped=swapped)
    if not turns:
        return None
    load_s = round_load_s(portions, rules) if swapped else 0.0
    cycle_s, sizes = _fixed_point(turns, load_s, rules)
    usual_s = _usual_cycle_s(turns, cycle_s, load_s, rules)
    worst_s = [
        cycle_s + p.sized.need.max_queue_delay_s + _rounds_left(t, cycle_s) * usual_s + t.run_s[b - 1]
        for p, t, b in zip(portions, turns, sizes, strict=True)
    ]
    strain, worst = max(
        (max(latency_s / _limit_s(p, t, turns, cycle_s, rules), _crowding(p, t, usual_s, rules)), p.sized.model)
        for p, t, latency_s in zip(portions, turns, worst_s, strict=True)
    )
    return Duty(cycle_s, tuple(sizes), tuple(t.cap for t in turns), tuple(worst_s), strain, worst, swapped)


class _Turn(NamedTuple):
    """A model's part in a round."""

    rate_rps: float
    run_s: tuple[float, ...]
    """Of a batch of 1, 2, ... up to the largest that fits in memory here."""
    spread: float
    """Standard deviations over the mean that its promise must bear, times that of one arrival."""

    @property
    def cap(self) -> int:
        return len(self.run_s)

    def gathered(self, cycle_s: float) -> int:
        """Requests that a round may bring at worst: 100 Poisson arrivals and 99 % promised make 100 + 2.33 x 10."""
        mean = self.rate_rps * cycle_s
        return max(1, ceil(mean + self.spread * sqrt(mean) - 1e-9))


def _turns(portions: Sequence[Portion], kind: Kind, rules: Rules, *, swapped: bool) -> list[_Turn]:
    """Each model's part; none where memory is short."""
    room = kind.memory_bytes - rules.context_bytes
    together = weight_bytes(portions)
    held = [p.sized.profile.weight_bytes if swapped else together for p in portions]
    caps = [batch_cap(p.sized, room - weights) for p, weights in zip(portions, held, strict=True)]
    if not all(caps):
        return []
    run_s = [p.sized.latency_s[:cap] for p, cap in zip(portions, caps, strict=True)]
    if rules.padded:
        run_s = [(times[-1],) * len(times) for times in run_s]
    return [_Turn(p.rate_rps, times, _spread(p)) for p, times in zip(portions, run_s, strict=True)]


def _spread(portion: Portion) -> float:
    need = portion.sized.need
    return NormalDist().inv_cdf(min(max(need.slo.attainment, 0.5), 0.999)) * sqrt(need.dispersion)


def round_load_s(portions: Sequence[Portion], rules: Rules) -> float:
    """Loading in one round where each model finds only what it shares with the one before it.

    Two models of 100 MB that share 60: 40 MB each, as long as they stand next to each other.
    """
    alone = sum(p.sized.profile.weight_bytes for p in portions)
    if len(portions) == 1 or weight_bytes(portions) == alone:
        return sum(_load_s(p.sized.profile, p.sized.profile.weight_bytes, rules) for p in portions)
    by_model = {p.sized.model: p.sized.profile for p in portions}
    held = {model: {x.key: x.weight_bytes for x in profile.layers} for model, profile in by_model.items()}
    order = turn_order({model: profile.layers for model, profile in by_model.items()})
    return sum(
        _load_s(by_model[m], sum(size for key, size in held[m].items() if key not in held[before]), rules)
        for before, m in zip([order[-1], *order], order, strict=False)
    )


def _load_s(profile: Profile, size_bytes: int, rules: Rules) -> float:
    return profile.load_from(pinned=rules.pinned)(size_bytes)


def _limit_s(portion: Portion, turn: _Turn, turns: Sequence[_Turn], cycle_s: float, rules: Rules) -> float:
    """Worst latency that still keeps the promise.

    Full rounds come no more often than the model that is asked least. In each, those are late who arrive in its first
    (worst latency - SLO) seconds: as a share of all, that times the rate of full rounds. Half of the allowed misses go
    there. 95 % promised beside a model asked once a second: 0.5 x 0.05 / 1 = 25 ms over the SLO.
    """
    rounds_per_s = min([1 / cycle_s, *(t.rate_rps for t in turns if t is not turn)])
    return rules.limit_s(portion.sized) + (1 - portion.sized.need.slo.attainment) / rounds_per_s / 2


def _usual_cycle_s(turns: Sequence[_Turn], cycle_s: float, load_s: float, rules: Rules) -> float:
    """A round in which a model that is rarely asked rarely takes part: found from the full round downwards."""
    for _ in range(12):
        run_s = taken = 0.0
        for rate_rps, times, _ in turns:
            gathered = rate_rps * cycle_s
            taken += min(1.0, gathered)
            run_s += min(1.0, gathered) * times[min(len(times), max(1, ceil(gathered - 1e-9))) - 1]
        loading_s = load_s * taken / len(turns)
        shorter_s = (max(run_s, loading_s) if rules.prefetch else run_s + loading_s) / (1 - rules.headroom)
        if shorter_s > 0.99 * cycle_s:
            break
        cycle_s = shorter_s
    return cycle_s


def _rounds_left(turn: _Turn, cycle_s: float) -> int:
    """Rounds that the last request of a round waits besides, for want of room: 9 gathered, 4 fit, so 2 more."""
    return ceil(turn.gathered(cycle_s) / turn.cap) - 1


def _crowding(portion: Portion, turn: _Turn, cycle_s: float, rules: Rules) -> float:
    """Requests that gather in a usual round over the largest batch. What is over even without headroom is surely lost
    and weighs ten times: a worst latency is rare, a lost frame is not."""
    crowding = turn.rate_rps * cycle_s / turn.cap * rules.tightness.get(portion.sized.model, 1.0)
    return crowding + LOST_WEIGHT * max(0.0, crowding * (1 - rules.headroom) - 1)


def share_served(strain: float, headroom: float) -> float:
    """Part of the demand that gets a turn on a card strained by crowding; what `_crowding` weighs, undone."""
    return (1 + LOST_WEIGHT * (1 - headroom)) / (strain + LOST_WEIGHT)


def gives_way(portions: Sequence[Portion], kind: Kind, rules: Rules) -> Bottleneck:
    """What a card is short of first when the load on all its models grows.

    Grown until the duty cycle breaks: compute, where even the cheapest batches then fill nine tenths of its time;
    loading, where that is longer than running; memory, where it holds batches below what the SLOs allow; else latency.
    """
    low, high = 0.0, 64.0
    for _ in range(10):
        middle = (low + high) / 2
        duty = duty_cycle(_grown(portions, middle), kind, rules)
        low, high = (middle, high) if duty is not None and duty.strain <= 1 else (low, middle)
    duty = duty_cycle(_grown(portions, high), kind, rules)
    if duty is None:
        return Bottleneck.MEMORY
    run_s = sum(p.sized.latency_s[b - 1] for p, b in zip(portions, duty.batch_sizes, strict=True))
    if duty.swapped and round_load_s(portions, rules) > run_s:
        return Bottleneck.LOADING
    if least_work(portions)[0] * high > 0.9 * (1 - rules.headroom):
        return Bottleneck.COMPUTE
    return Bottleneck.MEMORY if held_back(portions, duty.fits) else Bottleneck.LATENCY


def _grown(portions: Sequence[Portion], factor: float) -> list[Portion]:
    return [Portion(p.sized, p.share * factor) for p in portions]


def _fixed_point(turns: Sequence[_Turn], load_s: float, rules: Rules) -> tuple[float, list[int]]:
    """Batches only grow from round to round and are capped, so this ends."""
    sizes = [1] * len(turns)
    while True:
        run_s = sum([t.run_s[b - 1] for t, b in zip(turns, sizes, strict=True)])
        busy_s = max(run_s, load_s) if rules.prefetch else run_s + load_s
        cycle_s = busy_s / (1 - rules.headroom)
        grown = [
            max(b, min(len(times), ceil(rate_rps * cycle_s - 1e-9)))
            for b, (rate_rps, times, _) in zip(sizes, turns, strict=True)
        ]
        if grown == sizes:
            return cycle_s, sizes
        sizes = grown


def caps_with_slack(portions: Sequence[Portion], duty: Duty, kind: Kind, rules: Rules) -> tuple[int, ...]:
    """The largest batch each model may form, so that bursts are caught without making the others late.

    Each is raised as far as one longer round leaves every model within its SLO, and to the cheapest batch where the
    card could not keep its headroom otherwise.
    """
    cycle_s = duty.cycle_s
    turns = _turns(portions, kind, rules, swapped=duty.swapped)
    sizes = [max(b, min(t.cap, t.gathered(cycle_s))) for t, b in zip(turns, duty.batch_sizes, strict=True)]
    slack_s = [
        rules.limit_s(p.sized) - cycle_s - p.sized.need.max_queue_delay_s - p.sized.latency_s[b - 1]
        for p, b in zip(portions, sizes, strict=True)
    ]

    def cap(i: int) -> int:
        run_s = portions[i].sized.latency_s
        others = min((s for j, s in enumerate(slack_s) if j != i), default=inf)
        longest_s = run_s[sizes[i] - 1] + max(0.0, min(others, slack_s[i] / 2))
        return next((n for n in range(duty.fits[i], sizes[i], -1) if run_s[n - 1] <= longest_s), sizes[i])

    caps = tuple(map(cap, range(len(portions))))
    if offered_load(portions, caps) <= 1 - rules.headroom:
        return caps
    return tuple(
        min(range(n, fit + 1), key=lambda b, run_s=p.sized.latency_s: run_s[b - 1] / b)  # type: ignore[misc]
        for p, n, fit in zip(portions, caps, duty.fits, strict=True)
    )


def offered_load(portions: Iterable[Portion], batch_sizes: Iterable[int]) -> float:
    """Erlangs of one card in full batches of these sizes: 100 rps in batches of 4 that run 20 ms are 0.5."""
    parts = zip(portions, batch_sizes, strict=True)
    return sum(p.rate_rps * p.sized.latency_s[b - 1] / b for p, b in parts)


def least_work(portions: Sequence[Portion]) -> tuple[float, str]:
    """Least work of a card, and the model with most of it."""
    each = [(p.share * p.sized.least_work, p.sized.model) for p in portions]
    return sum(work for work, _ in each), max(each)[1]


def held_bytes(portions: Sequence[Portion], rules: Rules) -> float:
    """Memory that the card needs at batch 1: all weights, or the largest model's where they take turns."""
    workspace = [p.sized.profile.workspace(1) for p in portions]
    if not rules.swap:
        return rules.context_bytes + weight_bytes(portions) + max(workspace)
    alone = (p.sized.profile.weight_bytes + w for p, w in zip(portions, workspace, strict=True))
    return rules.context_bytes + max(alone)
