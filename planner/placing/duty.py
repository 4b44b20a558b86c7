"""Duty cycles: which SLOs a GPU meets that serves several models in turn; squishy bin packing of Nexus (SOSP'19)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan, sqrt
from statistics import NormalDist
from typing import NamedTuple

from planner.model.plan import Bottleneck
from planner.placing.rounds import LOST_WEIGHT, Cycle, Demanded, RoundRule, gathered, longest_round_s, settle, turns_for
from planner.placing.sizing import Kind, Sized
from simulator.clock.run import cut
from simulator.world.model import Layer
from simulator.world.profile import WeightSource
from simulator.world.sharing import turn_order

GROWN_MAX, CLEARLY, EXACTLY = 64.0, 10, 4
"""Times the load looked at for what gives way; halvings until it clearly does, then until that is known to 0.004."""


class Shortage(NamedTuple):
    """What gives way first as load grows, and at how many times the load; infinite where nothing was found, NaN where
    the worst case of a round says nothing of it."""

    bottleneck: Bottleneck
    demand_factor: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What every GPU of a plan must keep."""

    headroom: float
    swap: bool
    """Models may take turns in memory."""
    prefetch: bool
    source: WeightSource
    tightness: Mapping[str, float] = field(default_factory=dict)
    """By model: how many times closer than its SLO its worst case should stay; learnt from simulation."""

    @property
    def of_rounds(self) -> RoundRule:
        """What a round must keep."""
        return RoundRule(float(self.headroom), self.swap, self.prefetch)

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
    here = _turns(portions, kind, rules, swapped=swapped)
    if not all(here.cap):
        return None
    count, rule, asked = len(portions), rules.of_rounds, asked_of(portions, rules)
    cycle_s = longest_round_s(asked, here, count, rule)
    sizes = tuple(here.size)
    here.most[:] = [len(p.latency_s) for p in portions]  # how long a round would be must not fall with the memory left
    longest_s = settle(asked, here, count, rule)
    most, worst = max((strained, p.sized.model) for p, strained in zip(portions, here.strain, strict=True))
    return Duty(cycle_s, sizes, tuple(here.cap), tuple(longest_s + own_s for own_s in here.own_s), most, worst, swapped)


def _turns(portions: Sequence[Portion], kind: Kind, rules: Rules, *, swapped: bool) -> Cycle:
    """Each model's part in a round; a `cap` of 0 where memory is short."""
    count = len(portions)
    room = kind.memory_bytes - context_bytes(portions)
    together = weight_bytes(portions)
    held = [p.weight_bytes if swapped else together for p in portions]
    caps = [batch_cap(p, room - weights) for p, weights in zip(portions, held, strict=True)]
    loads_s = round_loads_s(portions, rules) if swapped else [0.0] * count
    return turns_for(count)._replace(
        model=list(range(count)), rate_rps=[p.rate_rps for p in portions], load_s=loads_s, most=[*caps], cap=caps
    )


def asked_of(portions: Sequence[Portion], rules: Rules) -> Demanded:
    """What is asked of each."""
    needs = [p.sized.need for p in portions]
    return Demanded(
        spread=[spread_of(p) for p in portions],
        misses=[(1 - need.slo.attainment) / 2 for need in needs],
        gap_s=[need.gap_s for need in needs],
        delay_s=[need.max_queue_delay_s for need in needs],
        limit_s=[rules.limit_s(p) for p in portions],
        tightness=[rules.tightness.get(p.sized.model, 1.0) for p in portions],
        run_s=[p.latency_s for p in portions],
    )


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


def share_served(strain: float, headroom: float) -> float:
    """Part of the demand that gets a turn on a GPU strained by crowding; what `LOST_WEIGHT` weighs, undone."""
    return (1 + LOST_WEIGHT * (1 - headroom)) / (strain + LOST_WEIGHT)


def gives_way(portions: Sequence[Portion], kind: Kind, rules: Rules) -> Shortage:
    """What a GPU is short of first when the load on all its models grows, and at how many times the load.

    Grown until the duty cycle breaks: compute, where even the cheapest batches then fill nine tenths of its time;
    loading, where that is longer than running; memory, where it holds batches below what the SLOs allow; else latency.
    A GPU that cannot do even the work of the load as it is lacks compute or loading, however early an SLO broke. Where
    the duty cycle breaks at a sixteenth of the load already, it is far from what happens.
    """
    work, _ = least_work(portions)
    if work > 1 - rules.headroom:
        return Shortage(_scarce(portions, kind, rules), (1 - rules.headroom) / work)
    low, high = _break(portions, kind, rules, (0.0, GROWN_MAX), CLEARLY)
    scarce = _scarce(_grown(portions, high), kind, rules)
    if low == 0:
        return Shortage(scarce, nan)
    return Shortage(scarce, _break(portions, kind, rules, (low, high), EXACTLY)[1] if high < GROWN_MAX else inf)


def _break(
    portions: Sequence[Portion], kind: Kind, rules: Rules, between: tuple[float, float], halvings: int
) -> tuple[float, float]:
    """Times the load between which the duty cycle breaks, halved so often."""
    low, high = between
    for _ in range(halvings):
        middle = (low + high) / 2
        duty = duty_cycle(_grown(portions, middle), kind, rules)
        low, high = (middle, high) if duty is not None and duty.strain <= 1 else (low, middle)
    return low, high


def _scarce(portions: Sequence[Portion], kind: Kind, rules: Rules) -> Bottleneck:
    """What breaks the duty cycle at a load that is too much."""
    duty = duty_cycle(portions, kind, rules)
    if duty is None:
        return Bottleneck.MEMORY
    run_s = sum(p.latency_s[b - 1] for p, b in zip(portions, duty.batch_sizes, strict=True))
    if duty.swapped and round_load_s(portions, rules) > run_s:
        return Bottleneck.LOADING
    if least_work(portions)[0] > 0.9 * (1 - rules.headroom):
        return Bottleneck.COMPUTE
    return Bottleneck.MEMORY if held_back(portions, duty.fits) else Bottleneck.LATENCY


def _grown(portions: Sequence[Portion], factor: float) -> list[Portion]:
    return [replace(p, share=p.share * factor) for p in portions]


def caps_with_slack(portions: Sequence[Portion], duty: Duty, rules: Rules) -> tuple[int, ...]:
    """The largest batch each model may form, so that bursts are caught without making the others late.

    Each is raised as far as one longer round leaves every model within its SLO, and to the cheapest batch where the
    GPU could not keep its headroom otherwise.
    """
    cycle_s = duty.cycle_s
    most = [gathered(p.rate_rps, spread_of(p), cycle_s) for p in portions]
    sizes = [max(b, min(fit, n)) for b, fit, n in zip(duty.batch_sizes, duty.fits, most, strict=True)]
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
    least = duty.batch_sizes if duty.swapped else (1,) * len(caps)  # smaller ones: more turns, each with its loads
    return tuple(cheapest_batch(p.latency_s[:fit], n) for p, fit, n in zip(portions, duty.fits, least, strict=True))


def cheapest_batch(latency_s: Sequence[float], least: int = 1) -> int:
    """The batch of which a request takes least of the GPU: of 10, 12 and 30 ms the second, 6 ms for each. Of predicted
    times it need not be the largest: nobody measured that, and its bad end is far off."""
    return min(range(least, len(latency_s) + 1), key=lambda b: latency_s[b - 1] / b)


def offered_load(portions: Iterable[Portion], batch_sizes: Iterable[int]) -> float:
    """Erlangs of one GPU in full batches of these sizes: 100 rps in batches of 4 that run 20 ms are 0.5."""
    return sum(p.rate_rps * p.latency_s[b - 1] / b for p, b in zip(portions, batch_sizes, strict=True))


def least_load(portion: Portion) -> float:
    """Erlangs of one model in full batches of the size that costs least."""
    return min(offered_load([portion], [b]) for b in range(1, len(portion.latency_s) + 1))


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
