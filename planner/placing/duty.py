"""Duty cycles: which SLOs a GPU meets that serves several models in turn; squishy bin packing of Nexus (SOSP'19)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, sqrt
from statistics import NormalDist
from typing import NamedTuple

from planner.model.plan import Bottleneck
from planner.placing.sizing import Kind, Sized
from simulator.clock.run import cut
from simulator.world.model import Layer
from simulator.world.profile import WeightSource
from simulator.world.sharing import turn_order

LOST_WEIGHT = 10
"""How much more a share of demand that gets no turn counts than one that may wait too long: the usual SLOs allow
1 to 5 % of misses, so that a tenth that is lost breaks them all."""
USUAL_ROUNDS = 12
"""Steps from the full round down to the usual one."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What every GPU of a plan must keep."""

    headroom: float
    swap: bool
    """Models may take turns in memory."""
    prefetch: bool
    source: WeightSource
    padded: bool
    tightness: Mapping[str, float] = field(default_factory=dict)
    """By model: how many times closer than its SLO its worst case should stay; learnt from simulation."""

    def limit_s(self, portion: "Portion") -> float:
        """Latency that the worst case should keep on one GPU; the stages of a replica divide it by their times."""
        slo_s = portion.sized.need.slo.latency_s / self.tightness.get(portion.sized.model, 1.0)
        if portion.part is None:
            return slo_s
        fair = portion.part.weight_bytes / portion.sized.profile.weight_bytes
        return slo_s * (fair + 1 / portion.part.count) / 2


@dataclass(frozen=True, slots=True)
class Duty:
    """What one round over all models of a GPU takes."""

    cycle_s: float
    batch_sizes: tuple[int, ...]
    """Requests that gather in one round, by model."""
    fits: tuple[int, ...]
    """Largest batch of each model that fits in memory: beside the others, or alone where they take turns."""
    worst_s: tuple[float, ...]
    """Worst latency of each model: it just missed its turn."""
    strain: float
    """Worst latency over its SLO, but for as many requests as may be late, or requests in a round over the largest
    batch, whichever is greater; at most 1 where the GPU meets every SLO in the worst case."""
    worst: str
    """The model that sets it."""
    swapped: bool


@dataclass(frozen=True, slots=True)
class StagePart:
    """One stage of a replica that is cut over several GPUs."""

    index: int
    """From 0, the stage that sees a request first."""
    count: int
    """Stages of the replica."""
    layers: tuple[Layer, ...]
    weight_bytes: int
    latency_s: tuple[float, ...]
    """Run time here of a batch of 1, 2, ...: of the whole batch's time, the stage's share of the bytes."""


def parts_of(sized: Sized, count: int) -> tuple[StagePart, ...]:
    """A replica cut over `count` GPUs, as the simulator cuts it."""
    total = sized.profile.weight_bytes
    whole_s = sized.latency_s[: sized.batches[count - 1]]
    parts = []
    for index, layers in enumerate(cut(sized.profile, count)):
        held = sum(layer.weight_bytes for layer in layers)
        parts.append(StagePart(index, count, layers, held, tuple(run_s * held / total for run_s in whole_s)))
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Portion:
    """A model's part on one GPU: a whole replica, or one stage of one."""

    sized: Sized
    share: float
    """Of the model's requests."""
    part: StagePart | None = None
    """None: the GPU runs the whole model."""

    @property
    def rate_rps(self) -> float:
        """Requests per second that must be processed here."""
        return self.sized.need.needed_rps * self.share

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What the GPU holds of the model."""
        return self.part.layers if self.part else self.sized.profile.layers

    @property
    def weight_bytes(self) -> int:
        """Bytes of those layers."""
        return self.part.weight_bytes if self.part else self.sized.profile.weight_bytes

    @property
    def latency_s(self) -> tuple[float, ...]:
        """Run time here of a batch of 1, 2, ... up to the largest feasible one."""
        return self.part.latency_s if self.part else self.sized.latency_s[: self.sized.batches[0]]

    @property
    def least_work(self) -> float:
        """Share of its time that the GPU works at least for it."""
        whole = self.share * self.sized.least_work
        return whole * self.part.weight_bytes / self.sized.profile.weight_bytes if self.part else whole


def weight_bytes(portions: Iterable[Portion]) -> int:
    """Bytes of the union of layers: what two models share is held once."""
    return sum({x.key: x.weight_bytes for p in portions for x in p.layers}.values())


def context_bytes(portions: Iterable[Portion]) -> int:
    """What the one process of these models holds besides weights and workspace: as with the model that asks most."""
    return max((p.sized.context_bytes for p in portions), default=0)


def batch_cap(portion: Portion, room_bytes: float) -> int:
    """Largest feasible batch whose workspace fits in `room_bytes`; 0 where none does."""
    workspace = portion.sized.profile.workspace
    return next((b for b in range(len(portion.latency_s), 0, -1) if workspace(b) <= room_bytes), 0)


def duty_cycle(portions: Sequence[Portion], kind: Kind, rules: Rules) -> Duty | None:
    """The shortest round in which a GPU serves all that arrives, by fixed-point iteration; None where memory is short.

    In a round of C seconds r C requests of each model gather, so their batch is b = ceil(r C), and the round lasts
    C = sum l(b) / (1 - headroom), plus the loading of what is swapped. A request just missed waits a round and then its
    own batch: C + l(b) must be within the SLO, but for as many requests as may be late. Where more gathers than a batch
    may hold, the last wait further, usual rounds. Where models may take turns in memory, they do so if they must, or if
    that strains a GPU less that is strained otherwise.

    Two models at 50 rps that take 10 ms for any batch: C = 20 ms, b = 1, worst latency 30 ms.
    """
    resident = _duty_cycle(portions, kind, rules, swapped=False)
    if not rules.swap or (resident is not None and resident.strain <= 1):
        return resident
    swapped = _duty_cycle(portions, kind, rules, swapped=True)
    return min((duty for duty in (resident, swapped) if duty), default=None, key=lambda duty: duty.strain)


def strain(portions: Sequence[Portion], kind: Kind, rules: Rules) -> float | None:
    """Of a GPU, models resident or taking turns, whichever strains it less; None where memory is short.

    One more model on the GPU never makes it less, as long as no two share layers.
    """
    duties = [_duty_cycle(portions, kind, rules, swapped=swapped) for swapped in (False, True)[: 1 + rules.swap]]
    return min((duty.strain for duty in duties if duty), default=None)


def held_back(portions: Sequence[Portion], fits: Sequence[int]) -> bool:
    """Whether memory keeps a batch below what the SLO allows."""
    return any(fit < len(p.latency_s) for p, fit in zip(portions, fits, strict=True))


def _duty_cycle(portions: Sequence[Portion], kind: Kind, rules: Rules, *, swapped: bool) -> Duty | None:
    turns = _turns(portions, kind, rules, swapped=swapped)
    if not turns:
        return None
    loads_s = round_loads_s(portions, rules) if swapped else [0.0] * len(portions)
    cycle_s, sizes = _fixed_point(turns, loads_s, rules)
    longest_s, gathered, usual_turns = cycle_s, sizes, turns
    if held_back(portions, [t.cap for t in turns]):  # how long a round would be must not fall with the memory left
        usual_turns = [t._replace(run_s=run_times_s(p, rules)) for p, t in zip(portions, turns, strict=True)]
        longest_s, gathered = _fixed_point(usual_turns, loads_s, rules)
    usual_s = _usual_cycle_s(usual_turns, longest_s, loads_s, rules)
    batch_s = [t.run_s[b - 1] for t, b in zip(usual_turns, gathered, strict=True)]
    waits_s = _round_waits_s(portions, turns, batch_s, loads_s, usual_s, rules)
    own_s = [
        p.sized.need.max_queue_delay_s + _rounds_left(t, longest_s) * usual_s + run_s
        for p, t, run_s in zip(portions, turns, batch_s, strict=True)
    ]
    worst_s = [longest_s + own for own in own_s]
    most, worst = max(
        (max((wait_s + own) / rules.limit_s(p), _crowding(p, t, usual_s, rules)), p.sized.model)
        for p, t, wait_s, own in zip(portions, turns, waits_s, own_s, strict=True)
    )
    return Duty(cycle_s, tuple(sizes), tuple(t.cap for t in turns), tuple(worst_s), most, worst, swapped)


class _Turn(NamedTuple):
    """A model's part in a round."""

    rate_rps: float
    run_s: tuple[float, ...]
    """Of a batch of 1, 2, ... up to the largest that fits in memory here."""
    spread: float
    """Standard deviations over the mean that its SLO must bear, times that of one arrival."""

    @property
    def cap(self) -> int:
        return len(self.run_s)

    def gathered(self, cycle_s: float) -> int:
        """Requests that a round may bring at worst: 100 Poisson arrivals and an SLO of 99 % make 100 + 2.33 x 10."""
        mean = self.rate_rps * cycle_s
        return max(1, ceil(mean + self.spread * sqrt(mean) - 1e-9))


def _turns(portions: Sequence[Portion], kind: Kind, rules: Rules, *, swapped: bool) -> list[_Turn]:
    """Each model's part; none where memory is short."""
    room = kind.memory_bytes - context_bytes(portions)
    together = weight_bytes(portions)
    held = [p.weight_bytes if swapped else together for p in portions]
    caps = [batch_cap(p, room - weights) for p, weights in zip(portions, held, strict=True)]
    if not all(caps):
        return []
    run_s = [run_times_s(p, rules)[:cap] for p, cap in zip(portions, caps, strict=True)]
    return [_Turn(p.rate_rps, times, spread_of(p)) for p, times in zip(portions, run_s, strict=True)]


def run_times_s(portion: Portion, rules: Rules) -> tuple[float, ...]:
    """Run times of batches of 1, 2, ... as they are run: padded ones take as long as the largest."""
    times = portion.latency_s
    return (times[-1],) * len(times) if rules.padded else times


def spread_of(portion: Portion) -> float:
    """Standard deviations over the mean that its SLO must bear, times that of one arrival."""
    need = portion.sized.need
    return NormalDist().inv_cdf(min(max(need.slo.attainment, 0.5), 0.999)) * sqrt(need.dispersion)


def round_load_s(portions: Sequence[Portion], rules: Rules) -> float:
    """Loading in one round of all models."""
    return sum(round_loads_s(portions, rules))


def round_loads_s(portions: Sequence[Portion], rules: Rules) -> list[float]:
    """Loading of each model in one round, where it finds only what it shares with the one before it.

    Two models of 100 MB that share 60: 40 MB each, as long as they stand next to each other.
    """
    alone = sum(p.weight_bytes for p in portions)
    if len(portions) == 1 or weight_bytes(portions) == alone:
        return [load_s(p, p.weight_bytes, rules) for p in portions]
    order = [int(i) for i in turn_order({str(i): p.layers for i, p in enumerate(portions)})]
    before = dict(zip(order, [order[-1], *order], strict=False))  # the last one's layers are there when a round begins
    return [load_s(p, _missing_bytes(p, portions[before[i]]), rules) for i, p in enumerate(portions)]


def _missing_bytes(portion: Portion, before: Portion) -> int:
    """Weights of a model that the one before it has not left in memory."""
    there = {layer.key for layer in before.layers}
    sizes = {layer.key: layer.weight_bytes for layer in portion.layers}
    return sum(size for key, size in sizes.items() if key not in there)


def load_s(portion: Portion, size_bytes: int, rules: Rules) -> float:
    """Loading of so many bytes of a model."""
    return portion.sized.profile.swap_from(rules.source)(size_bytes)


def _round_waits_s(
    portions: Sequence[Portion],
    turns: Sequence[_Turn],
    batch_s: Sequence[float],
    loads_s: Sequence[float],
    usual_s: float,
    rules: Rules,
) -> list[float]:
    """For each model, the longest round that all but half of the misses it may have must wait.

    In the longest round every model takes part. A round with a model that is rarely asked is as rare as its requests;
    late in it are only those who come in the first seconds, as many as it is longer than what may be waited. So what a
    model adds to the round is left out while it comes to few enough misses, the rarest first: an SLO of 95 % beside a
    model asked once a second leave out 0.05 / 2 / 1 = 25 ms of it. Its own last batch counts, unless its requests
    cannot come that close to each other.
    """
    often = [min(t.rate_rps, 1 / usual_s) for t in turns]
    rarest = sorted(range(len(turns)), key=lambda j: often[j])
    kinds = (batch_s, loads_s) if rules.prefetch else ([r + w for r, w in zip(batch_s, loads_s, strict=True)],)
    waits_s = []
    for i, p in enumerate(portions):
        misses = (1 - p.sized.need.slo.attainment) / 2
        alone = sum(batch_s) + sum(loads_s) <= p.sized.need.gap_s
        waits_s.append(max(_wait_s(times, often, rarest, i if alone else -1, misses) for times in kinds))
    return [wait_s / (1 - rules.headroom) for wait_s in waits_s]


def _wait_s(times: Sequence[float], often: Sequence[float], rarest: Sequence[int], but: int, misses: float) -> float:
    """Sum of `times` without that of `but`, and without what the rarest add as long as misses allow."""
    wait_s = sum(times) - (times[but] if but >= 0 else 0.0)
    for j in rarest:
        if j == but:
            continue
        cost = often[j] * times[j]
        if cost > misses:
            return wait_s - misses / often[j]
        misses -= cost
        wait_s -= times[j]
    return max(wait_s, 0.0)


def _usual_cycle_s(turns: Sequence[_Turn], cycle_s: float, loads_s: Sequence[float], rules: Rules) -> float:
    """A round in which a model that is rarely asked rarely takes part: found from the full round downwards."""
    for _ in range(USUAL_ROUNDS):
        run_s = loading_s = 0.0
        for (rate_rps, times, _), load_s in zip(turns, loads_s, strict=True):
            gathered = rate_rps * cycle_s
            taken = min(1.0, gathered)
            run_s += taken * times[min(len(times), max(1, ceil(gathered - 1e-9))) - 1]
            loading_s += taken * load_s
        shorter_s = (max(run_s, loading_s) if rules.prefetch else run_s + loading_s) / (1 - rules.headroom)
        if shorter_s >= cycle_s:
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
    """Part of the demand that gets a turn on a GPU strained by crowding; what `_crowding` weighs, undone."""
    return (1 + LOST_WEIGHT * (1 - headroom)) / (strain + LOST_WEIGHT)


def gives_way(portions: Sequence[Portion], kind: Kind, rules: Rules) -> Bottleneck:
    """What a GPU is short of first when the load on all its models grows.

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
    run_s = sum(p.latency_s[b - 1] for p, b in zip(portions, duty.batch_sizes, strict=True))
    if duty.swapped and round_load_s(portions, rules) > run_s:
        return Bottleneck.LOADING
    if least_work(portions)[0] * high > 0.9 * (1 - rules.headroom):
        return Bottleneck.COMPUTE
    return Bottleneck.MEMORY if held_back(portions, duty.fits) else Bottleneck.LATENCY


def _grown(portions: Sequence[Portion], factor: float) -> list[Portion]:
    return [replace(p, share=p.share * factor) for p in portions]


def _fixed_point(turns: Sequence[_Turn], loads_s: Sequence[float], rules: Rules) -> tuple[float, list[int]]:
    """Batches only grow from round to round and are capped, so this ends."""
    sizes, load_s = [1] * len(turns), sum(loads_s)
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
    GPU could not keep its headroom otherwise.
    """
    cycle_s = duty.cycle_s
    turns = _turns(portions, kind, rules, swapped=duty.swapped)
    sizes = [max(b, min(t.cap, t.gathered(cycle_s))) for t, b in zip(turns, duty.batch_sizes, strict=True)]
    slack_s = [
        rules.limit_s(p) - cycle_s - p.sized.need.max_queue_delay_s - p.latency_s[b - 1]
        for p, b in zip(portions, sizes, strict=True)
    ]

    def cap(i: int) -> int:
        run_s = portions[i].latency_s
        others = min((s for j, s in enumerate(slack_s) if j != i), default=inf)
        longest_s = run_s[sizes[i] - 1] + max(0.0, min(others, slack_s[i] / 2))
        return next((n for n in range(duty.fits[i], sizes[i], -1) if run_s[n - 1] <= longest_s), sizes[i])

    caps = tuple(map(cap, range(len(portions))))
    if offered_load(portions, caps) <= 1 - rules.headroom:
        return caps
    return tuple(
        min(range(n, fit + 1), key=lambda b, run_s=p.latency_s: run_s[b - 1] / b)  # type: ignore[misc]
        for p, n, fit in zip(portions, caps, duty.fits, strict=True)
    )


def offered_load(portions: Iterable[Portion], batch_sizes: Iterable[int]) -> float:
    """Erlangs of one GPU in full batches of these sizes: 100 rps in batches of 4 that run 20 ms are 0.5."""
    return sum(p.rate_rps * p.latency_s[b - 1] / b for p, b in zip(portions, batch_sizes, strict=True))


def least_work(portions: Sequence[Portion]) -> tuple[float, str]:
    """Least work of a GPU, and the model with most of it."""
    each = [(p.least_work, p.sized.model) for p in portions]
    return sum(work for work, _ in each), max(each)[1]


def held_bytes(portions: Sequence[Portion], rules: Rules) -> float:
    """Memory that the GPU needs at batch 1: all weights, or the largest model's where they take turns."""
    workspace = [p.sized.profile.workspace(1) for p in portions]
    if not rules.swap:
        return context_bytes(portions) + weight_bytes(portions) + max(workspace)
    alone = (p.weight_bytes + w for p, w in zip(portions, workspace, strict=True))
    return context_bytes(portions) + max(alone)
