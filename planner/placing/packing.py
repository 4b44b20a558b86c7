"""Packing: which models share which GPU of a fleet, with which batch sizes; a GPU is judged by its duty cycle."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from math import ceil, inf
from operator import add
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from planner.model.plan import Bottleneck
from planner.placing.cutting import CutReplica, FleetGpu, needed_spans
from planner.placing.duty import (
    Duty,
    Portion,
    Rules,
    Shortage,
    caps_with_slack,
    context_bytes,
    duty_cycle,
    gives_way,
    held_back,
    held_bytes,
    least_work,
    offered_load,
    parts_of,
    strain,
    weight_bytes,
)
from planner.placing.exchanges import CALM, MOVED_PARTS, SHARE_MIN, STRAINED_MAX, WORTH
from planner.placing.rounds import HARD, score
from planner.placing.sizing import Kind, SizedModels
from planner.placing.strain import Exchanges, Filled, Strains
from simulator.world.profile import WeightSource
from simulator.world.sharing import turn_order

COLUMNS_MAX = 2000
"""Ways to fill one GPU up to which the assignment is also solved as an integer program."""
PROGRAM_MODELS_MAX = 62
"""Models up to which these are listed: of 63, alone and in pairs, there are 2,016 already."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One replica: a part of a model on one GPU, or on several as pipeline stages."""

    portion: Portion
    devices: tuple[FleetGpu, ...]
    batch_size_max: int
    batch_size_fit: int
    """Largest that memory allows beside its neighbours."""
    worst_s: float
    """Its worst latency by the duty cycle."""
    swapped: bool
    short: Callable[[], Shortage] = field(compare=False)
    """Works out what its GPU is short of first when load grows: that takes long, and few are asked."""


@dataclass(frozen=True, slots=True)
class Packing:
    """All models on the GPUs of a fleet."""

    placed: tuple[Placed, ...]
    strain: float
    """The highest of any GPU; see `Duty.strain`."""
    worst: str
    """The model that sets it."""
    work: float
    """Share of its time that the busiest GPU works in batches as large as are allowed there; above 1 - headroom the
    plan is rejected."""
    busiest: str
    """The model with most work on that GPU."""
    held_back: bool = False
    """Whether memory keeps a batch on some GPU below what its SLO allows."""

    def contents(self, devices: Sequence[FleetGpu]) -> list["Content"]:
        """The whole models on each GPU, as `Packer.place` takes them."""
        here: dict[str, Content] = dict.fromkeys((device.id for device in devices), ())
        for p in self.placed:
            if len(p.devices) == 1:
                here[p.devices[0].id] = added(here[p.devices[0].id], p.portion.sized.model, p.portion.share)
        return list(here.values())

    @property
    def spans(self) -> tuple[CutReplica, ...]:
        """The replicas that are cut over several GPUs."""
        return tuple(CutReplica(p.portion.sized, p.portion.share, p.devices) for p in self.placed if len(p.devices) > 1)

    def with_batches(self, sizes: Sequence[int]) -> "Packing":
        """The same placement with other largest batches."""
        placed = tuple(replace(p, batch_size_max=n) for p, n in zip(self.placed, sizes, strict=True))
        work, busiest = busiest_device(placed)
        return replace(self, placed=placed, work=work, busiest=busiest)

    def with_batches_of(self, model: str, sizes: Sequence[int]) -> "Packing":
        """The same placement with other largest batches of one model."""
        mine = (p.portion.sized.model == model for p in self.placed)
        chosen = [n if own else p.batch_size_max for p, n, own in zip(self.placed, sizes, mine, strict=True)]
        return self.with_batches(chosen)

    def replays_like(self, other: "Packing") -> bool:
        """Whether a replay could not tell the two apart: shares may differ by rounding."""
        return len(self.placed) == len(other.placed) and all(
            a.portion.sized is b.portion.sized
            and abs(a.portion.share - b.portion.share) < SHARE_SAME
            and (a.devices, a.batch_size_max) == (b.devices, b.batch_size_max)
            for a, b in zip(self.placed, other.placed, strict=True)
        )


def busiest_device(placed: Sequence[Placed]) -> tuple[float, str]:
    """Offered load of the busiest GPU, every batch as large as is allowed there, and the model with most of it."""
    loads: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for p in placed:
        for device, portion in zip(p.devices, portions_of(p), strict=True):
            loads[device.id].append((offered_load([portion], [p.batch_size_max]), portion.sized.model))
    each = ((sum(load for load, _ in here), max(here)[1]) for here in loads.values())
    return max(each, default=(0.0, ""))


def models_bytes(placed: Sequence[Placed], device: FleetGpu) -> float:
    """GPU memory that the models on a GPU take with their context: all weights and the largest batch, or those of the
    largest model where they take turns; 0 where there are none."""
    here = [(portions_of(p)[p.devices.index(device)], p) for p in placed if device in p.devices]
    if not here:
        return 0
    portions = [portion for portion, _ in here]
    batches = [portion.sized.profile.workspace(p.batch_size_max) for portion, p in here]
    alone = max(portion.weight_bytes + batch for portion, batch in zip(portions, batches, strict=True))
    turns = any(p.swapped for _, p in here)
    return context_bytes(portions) + (alone if turns else weight_bytes(portions) + max(batches))


def portions_of(placed: Placed) -> list[Portion]:
    """What each of its GPUs has of a replica."""
    whole, count = placed.portion, len(placed.devices)
    if count == 1:
        return [whole]
    return [replace(whole, part=part) for part in parts_of(whole.sized, count)]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why no packing can exist on this fleet, or none was found."""

    bottleneck: Bottleneck
    observed: float
    """Bytes on a GPU or host, or number of GPUs."""
    limit: float
    model: str


Content = tuple[tuple[str, float], ...]
"""Models on one GPU and the share of each, sorted; stages of models that are cut over several GPUs are not in it."""


class Change(NamedTuple):
    """What two GPUs hold after an exchange."""

    gain: float
    """Of the sum of both scores; below zero: less strained than before."""
    here: Content
    there: Content


class Slot(NamedTuple):
    """GPUs that are the same to packing: of one kind, with the same stages on them."""

    kind: Kind
    pinned: int = 0
    """Number of the set of stages that stay there; 0: none."""


KNOWN_MAX = 100_000
"""Scores and exchanges that are kept for the next fleet: some 50 MB."""
SEARCHES_MAX = 4
"""Models and rules of which these are kept: those of one search, and of what it asks beside."""
SLIVER = 0.02
"""Share of a model on one kind of GPU that is given to its other kinds: too little to be worth a copy there."""
SHARE_SAME = 1e-9
"""Shares that differ by less are the same, but for rounding."""
KICKS_MAX = 60
LOOKED_MAX = 4_000
"""Kicks, and partners of strained GPUs looked at after them, in search of a better optimum than the first."""
APART = 8.0
"""How many times its work a model counts that gets GPUs of its own; they are busy to about an eighth of the others."""


@dataclass(frozen=True)
class KnownFills:
    """What was found out about GPUs that hold whole models, and nothing else, under the same rules."""

    sized: SizedModels
    strains: Strains
    scores: dict[Slot, dict[Content, float]] = field(default_factory=lambda: defaultdict(dict))
    best_changes: dict[tuple[Slot, Content, Slot, Content], Change | None] = field(default_factory=dict)
    """The best that two GPUs can exchange, by what is on them."""
    contents: dict[tuple[Slot, tuple[int, ...]], list[Content]] = field(default_factory=dict)
    """All sets of models that one GPU can hold, by the parts that each model comes in."""

    def without_much(self) -> "KnownFills":
        """The same, forgotten where it has become too much."""
        if len(self.best_changes) + sum(map(len, self.scores.values())) > KNOWN_MAX:
            self.scores.clear()
            self.best_changes.clear()
        return self


_KNOWN: dict[tuple[object, ...], KnownFills] = {}
"""The last few, the oldest first."""


def known_of(models: Sequence[str], sized: SizedModels, rules: Rules) -> KnownFills:
    """What other packings of the same models found out; fleets of one search ask much the same."""
    of_rules = (rules.headroom, rules.swap, rules.prefetch, rules.source, rules.padded)
    key = (*models, id(sized), *of_rules, *sorted(rules.tightness.items()))
    known = _KNOWN.pop(key, None) or KnownFills(
        sized, Strains(models, sized, rules)
    )  # it holds `sized`, whose id stays its own
    _KNOWN[key] = known.without_much()
    if len(_KNOWN) > SEARCHES_MAX:
        del _KNOWN[next(iter(_KNOWN))]
    return known


def places_of(devices: Sequence[FleetGpu]) -> dict[Kind, list[int]]:
    """Which of the GPUs are of each kind."""
    places: dict[Kind, list[int]] = {}
    for place, device in enumerate(devices):
        places.setdefault(device.kind, []).append(place)
    return places


class Packer:
    """Assigns models to single GPUs: a start, then moves and swaps away from the most strained GPU."""

    def __init__(
        self,
        models: Sequence[str],
        sized: SizedModels,
        rules: Rules,
        seed: int = 0,
        even: bool = False,
        apart: Collection[str] = (),
        spans: Sequence[CutReplica] | None = None,
    ) -> None:
        self.models = models
        self.sized = sized
        self.rules = rules
        self.seed = seed
        self.even = even
        """Keep all GPUs equally busy, with as many replicas as that takes, rather than as few as the work needs."""
        self.apart = apart
        """Models that share no GPU with others; a Misfit where no GPUs can be spared for them."""
        self.spans = spans
        """Replicas that are cut over several GPUs; where not given, of the models that no single GPU holds."""
        self.work: Mapping[tuple[str, Kind], float] = {}
        """GPUs that all requests of a model keep busy on each kind, by which `even` goes; else the least."""
        self.known = known_of(models, sized, rules)
        self.looked_at = 0
        """Pairs of GPUs of which the best exchange was looked for."""
        self.exchanges: dict[tuple[Kind, ...], Exchanges] = {}
        """By the kinds of all GPUs of a fleet."""
        self.slots: dict[str, Slot] = {}
        """By GPU, where stages stay on it."""
        self.pinned: list[tuple[Portion, ...]] = [()]
        """Sets of stages, by number."""

    def pack(self, devices: Sequence[FleetGpu]) -> Packing | Misfit:
        """The least strained packing that was found, or what stands in the way."""
        spans: Sequence[CutReplica] | str | None = self.spans
        if spans is None:
            spans = needed_spans(self.models, self.sized, devices, self.rules.headroom)
        if isinstance(spans, str):
            return Misfit(Bottleneck.GPU_COUNT, len(devices), len(devices) + 1, spans)
        cut = {span.sized.model for span in spans}
        whole = [m for m in self.models if m not in cut]
        packer = self if len(whole) == len(self.models) else self._for(whole)
        packer.pin(spans)
        return packer.pack_whole(devices, spans)

    def _for(self, models: Sequence[str]) -> "Packer":
        return Packer(models, self.sized, self.rules, self.seed, self.even, self.apart)

    def pin(self, spans: Sequence[CutReplica]) -> None:
        """Let the stages of these replicas stay where they are."""
        here: dict[str, list[Portion]] = defaultdict(list)
        kinds = {device.id: device.kind for span in spans for device in span.devices}
        for span in spans:
            for device, part in zip(span.devices, parts_of(span.sized, len(span.devices)), strict=True):
                here[device.id].append(Portion(span.sized, span.share, part))
        if here:  # what stands on a slot then is this packer's own
            self.known = KnownFills(self.sized, self.known.strains)
        for name, portions in here.items():
            self.pinned.append(tuple(portions))
            self.slots[name] = Slot(kinds[name], len(self.pinned) - 1)

    def slot(self, device: FleetGpu) -> Slot:
        """What a GPU is to packing."""
        return self.slots.get(device.id) or Slot(device.kind)

    def pack_whole(self, devices: Sequence[FleetGpu], spans: Sequence[CutReplica] = ()) -> Packing | Misfit:
        """Pack models that need one GPU each, besides stages that stay where they are."""
        filled: list[Content] | None = [()] * len(devices)
        if self.models:
            filled = self.fill(devices)
        return self._no_kind(devices) if filled is None else self.place(devices, filled, spans)

    def place(
        self, devices: Sequence[FleetGpu], contents: Sequence[Content], spans: Sequence[CutReplica] = ()
    ) -> Packing | Misfit:
        """The packing with these contents on the GPUs, besides stages that stay where they are."""
        placed: list[Placed] = []
        stages: dict[tuple[str, str], Placed] = {}
        most, worst, short_of_memory = 0.0, "", False
        for content, device in zip(contents, devices, strict=True):
            portions = self.portions(content, self.slot(device))
            if not portions:
                continue
            on_device = self._on_device(portions, device)
            if isinstance(on_device, Misfit):
                return on_device
            here, duty = on_device
            most, worst = max((most, worst), (duty.strain, duty.worst))
            short_of_memory |= held_back(portions, duty.fits)
            placed += [one for one in here if one.portion.part is None]
            stages |= {(one.portion.sized.model, device.id): one for one in here if one.portion.part}
        placed += [joined(span, [stages[span.sized.model, device.id] for device in span.devices]) for span in spans]
        work, busiest = busiest_device(placed)
        packing = Packing(tuple(placed), most, worst, work, busiest, short_of_memory)
        return self._too_much_for_hosts(placed) or packing

    def _on_device(self, portions: Sequence[Portion], device: FleetGpu) -> tuple[list[Placed], Duty] | Misfit:
        """What is on one GPU, and its duty cycle."""
        duty = duty_cycle(portions, device.kind, self.rules)
        if duty is None:
            return self._no_memory(portions, device)
        short = partial(gives_way, portions, device.kind, self.rules)
        caps = caps_with_slack(portions, duty, self.rules)
        swapped = duty.swapped and not self._fit_together(portions, caps, device)
        parts = zip(portions, caps, duty.fits, duty.worst_s, strict=True)
        return [Placed(p, (device,), cap, fit, worst_s, swapped, short) for p, cap, fit, worst_s in parts], duty

    def fill(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """What each GPU holds; None where some model fits none."""
        if self.apart:
            return self._fill_apart(devices)
        spread = self.start_wrapped(devices)
        if spread is None or self.even:
            return spread
        starts = [self.start_by_program(devices), self.start_by_kinds(devices), spread]
        if self.sharers:
            starts.append(self.start_wrapped(devices, self.sharers))
        return self.best_of(devices, [start for start in starts if start is not None])

    def _fill_apart(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """Some models evenly on the GPUs that serve them fastest, the others on the rest."""
        mine = [m for m in self.models if m in self.apart]
        theirs = [m for m in self.models if m not in self.apart]
        count = self._gpus_apart(mine, theirs, devices)
        if not count:
            return None
        fastest_first = sorted(range(len(devices)), key=lambda j: self._least_work_of(mine, [devices[j]]))
        contents: list[Content] = [()] * len(devices)
        for models, places in ((mine, fastest_first[:count]), (theirs, fastest_first[count:])):
            packer = Packer(models, self.sized, self.rules, self.seed, even=models is mine)
            filled = packer.fill([devices[j] for j in places])
            if filled is None:
                return None
            for j, content in zip(places, filled, strict=True):
                contents[j] = content
        return contents

    def _gpus_apart(self, mine: Sequence[str], theirs: Sequence[str], devices: Sequence[FleetGpu]) -> int:
        """How many GPUs some models get of their own; 0 where the others can spare none."""
        work = self._least_work_of(mine, devices)
        others_work = self._least_work_of(theirs, devices)
        spare = len(devices) - ceil(others_work / (1 - self.rules.headroom))
        if not mine or not theirs or spare < 1:
            return 0
        wanted = round(len(devices) * APART * work / (APART * work + others_work))
        return min(max(1, wanted), spare)

    def _least_work_of(self, models: Sequence[str], devices: Sequence[FleetGpu]) -> float:
        return sum(self._least_work(model, devices) for model in models)

    def _least_work(self, model: str, devices: Sequence[FleetGpu]) -> float:
        """GPUs that are busy with a model at least, on the fastest of these; infinite where none holds it."""
        kinds = {device.kind for device in devices if self.fits(model, device.kind)}
        return min((self.sized[model, kind].least_work for kind in kinds), default=inf)

    def _fit_together(self, portions: Sequence[Portion], caps: Sequence[int], device: FleetGpu) -> bool:
        workspace = max(p.sized.profile.workspace(cap) for p, cap in zip(portions, caps, strict=True))
        return context_bytes(portions) + weight_bytes(portions) + workspace <= device.kind.memory_bytes

    def _no_memory(self, portions: Sequence[Portion], device: FleetGpu) -> Misfit:
        largest = max(portions, key=lambda p: p.sized.profile.weight_bytes)
        held = held_bytes(portions, self.rules)
        return Misfit(Bottleneck.MEMORY, held, device.kind.memory_bytes, largest.sized.model)

    def _too_much_for_hosts(self, placed: Sequence[Placed]) -> Misfit | None:
        """A host keeps a copy of every weight it serves, unless they come from disk."""
        if self.rules.source is WeightSource.DISK:
            return None
        by_host: dict[str, list[Placed]] = defaultdict(list)
        for p in placed:
            by_host[p.devices[0].host].append(p)
        for here in by_host.values():
            held, limit = weight_bytes(p.portion for p in here), here[0].devices[0].host_memory_bytes
            if limit is not None and held > limit:
                return Misfit(Bottleneck.HOST_MEMORY, held, limit, here[0].portion.sized.model)
        return None

    def _no_kind(self, devices: Sequence[FleetGpu]) -> Misfit:
        kinds = {device.kind for device in devices}
        model = next((m for m in self.models if not any(self.fits(m, k) for k in kinds)), self.models[0])
        return Misfit(Bottleneck.GPU_COUNT, len(devices), len(devices) + 1, model)

    def fits(self, model: str, kind: Kind) -> bool:
        sized = self.sized.get((model, kind))
        return sized is not None and sized.batches[0] > 0

    def portions(self, content: Content, slot: Slot) -> list[Portion]:
        """What a GPU runs: whole models, and the stages that stay there."""
        whole = [Portion(self.sized[model, slot.kind], share) for model, share in content]
        return [*whole, *self.pinned[slot.pinned]]

    def score(self, content: Content, slot: Slot) -> float:
        """Lower is better; grows steeply with strain, so that the sum over GPUs is ruled by the worst."""
        known = self.known.scores[slot]
        if content not in known:
            known[content] = self._score(content, slot)
        return known[content]

    def scores_of(self, places: Sequence[tuple[Slot, Content]]) -> list[float]:
        """Of many at once: of whole models that fit, new ones are scored together."""
        scores = self.known.scores
        new = [one for one in dict.fromkeys(places) if one[1] not in scores[one[0]] and self._is_in_numbers(*one)]
        fills = [self._in_numbers(*one) for one in new]
        for (slot, content), found in zip(new, self.known.strains.scores(fills), strict=True):
            scores[slot][content] = found
        return [self.score(content, slot) for slot, content in places]

    def _is_in_numbers(self, slot: Slot, content: Content) -> bool:
        """Whether `strains` knows all that stands there: no stages, no shared layers, nothing that does not fit."""
        strains = self.known.strains
        fitting = strains.numbers.get(slot.kind)
        if fitting is None or slot.pinned or not strains.exact:
            return False
        return all(model in fitting for model, _ in content)

    def _in_numbers(self, slot: Slot, content: Content) -> Filled:
        numbers = self.known.strains.numbers[slot.kind]
        return [(numbers[model], share) for model, share in content]

    def _score(self, content: Content, slot: Slot) -> float:
        if self._is_in_numbers(slot, content):
            return self.known.strains.scores([self._in_numbers(slot, content)])[0]
        if not all(self.fits(model, slot.kind) for model, _ in content):
            return HARD * HARD
        portions = self.portions(content, slot)
        if not portions:
            return 0.0
        work, _ = least_work(portions)
        strained = strain(portions, slot.kind, self.rules)
        held = held_bytes(portions, self.rules) / slot.kind.memory_bytes
        return score(work, inf if strained is None else strained, held, self.rules.headroom)

    def start_by_kinds(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """Shares of kinds by linear program, then the largest part first, each onto the GPU it strains least."""
        shares = self._shares_of_kinds(devices, {cell: sized.design_work for cell, sized in self.sized.items()})
        if shares is None:
            return None
        parts = [part for (model, kind), share in shares.items() for part in self._parts(model, kind, share)]
        largest_first = [part[1:] for part in sorted(parts, key=lambda p: (-p[0], p[1], p[3]))]
        slots = list(map(self.slot, devices))
        lay = self._laid_by_code if self._is_for_code(slots) else self._laid
        return lay(slots, largest_first)

    def _laid(self, slots: Sequence[Slot], parts: Sequence[tuple[str, Kind, float]]) -> list[Content]:
        """Each part in turn on the GPU of its kind that it strains least."""
        contents: list[Content] = [()] * len(slots)
        for model, kind, share in parts:
            fuller = {j: added(contents[j], model, share) for j, slot in enumerate(slots) if slot.kind == kind}
            scores = self.scores_of([(slots[j], content) for j, content in fuller.items()])
            at = min(zip(scores, fuller, strict=True))[1]
            contents[at] = fuller[at]
        return contents

    def _laid_by_code(self, slots: Sequence[Slot], parts: Sequence[tuple[str, Kind, float]]) -> list[Content]:
        """The same by machine code."""
        numbers = self.known.strains.numbers
        return self._named(self._exchanges(slots).laid([(numbers[kind][m], share) for m, kind, share in parts]))

    def _parts(self, model: str, kind: Kind, share: float) -> list[tuple[float, str, Kind, float]]:
        work = share * self.sized[model, kind].design_work
        count = max(1, ceil(work / (1 - self.rules.headroom) - 1e-9))
        return [(work / count, model, kind, share / count)] * count

    @cached_property
    def sharers(self) -> list[str]:
        """All models, those that share layers next to each other; empty where none do."""
        held = {m: s.profile.layers for (m, _), s in self.sized.items() if m in self.models}
        keys = Counter(key for layers in held.values() for key in {layer.key for layer in layers})
        return turn_order(held) if max(keys.values(), default=0) > 1 else []

    def start_wrapped(self, devices: Sequence[FleetGpu], together: Sequence[str] = ()) -> list[Content] | None:
        """GPUs of a kind equally busy: filled one after the other, a model cut where a GPU is full.

        McNaughton's rule (Management Science, 1959). Models come in the order of `together`, else those of like SLO
        next to each other.
        """
        work = {cell: self.work.get(cell, sized.least_work) for cell, sized in self.sized.items()}
        shares = self._shares_of_kinds(devices, work)
        if shares is None:
            return None
        contents: list[Content] = [()] * len(devices)
        for kind, places in places_of(devices).items():
            order = self._wrapping_order([m for m, k in shares if k == kind], kind, together)
            works = [shares[m, kind] * work[m, kind] for m in order]
            for model, place, part in wrapped(works, len(places)):
                name = order[model]
                contents[places[place]] = added(contents[places[place]], name, part / work[name, kind])
        return contents

    def _wrapping_order(self, models: Sequence[str], kind: Kind, together: Sequence[str]) -> list[str]:
        if together:
            return sorted(models, key=together.index)
        return sorted(models, key=lambda m: (self.sized[m, kind].need.slo.latency_s, m))

    def _shares_of_kinds(
        self, devices: Sequence[FleetGpu], work: Mapping[tuple[str, Kind], float]
    ) -> dict[tuple[str, Kind], float] | None:
        """Share of each model on each kind so that the busiest kind is as little busy as can be; a linear program."""
        counts = Counter(device.kind for device in devices)
        cells = [(m, k) for m in self.models for k in counts if self.fits(m, k)]
        if {m for m, _ in cells} != set(self.models):
            return None
        works = np.array([work[cell] for cell in cells])
        shares = self._even_shares(cells, works, counts)
        return _without_slivers(dict(zip(cells, shares, strict=True)))

    def _even_shares(
        self, cells: Sequence[tuple[str, Kind]], works: NDArray[np.float64], counts: Mapping[Kind, int]
    ) -> list[float]:
        """The program's solution. Its last column is the work of a GPU of the busiest kind."""
        on_kind = np.array([[k == kind for _, k in cells] for kind in counts], dtype=float)
        of_model = np.array([[m == model for m, _ in cells] for model in self.models], dtype=float)
        gpus = np.array([list(counts.values())], dtype=float).T
        solution = linprog(
            [0.0] * len(cells) + [1.0],
            A_ub=np.hstack([on_kind * works, -gpus]),
            b_ub=[0.0] * len(counts),
            A_eq=np.hstack([of_model, np.zeros((len(self.models), 1))]),
            b_eq=[1.0] * len(self.models),
        )
        assert solution.x is not None  # always feasible: the work of the busiest kind has no limit here
        return [float(share) for share in solution.x[:-1]]

    def start_by_program(self, devices: Sequence[FleetGpu]) -> list[Content] | None:
        """The least sum of scores over all ways to fill the GPUs, by integer program; None where there are too many.

        Columns are the sets of models a GPU may hold, so equal GPUs are interchangeable and the duty-cycle test is
        exact. A model that one GPU cannot carry comes in equal parts, no two on one GPU.
        """
        if len(self.models) > PROGRAM_MODELS_MAX:
            return None
        counts = Counter(map(self.slot, devices))
        parts = {m: self._parts_needed(m, counts) for m in self.models}
        columns = [(slot, content) for slot in counts for content in self._contents(slot, parts)]
        times = self._times_used(columns, counts, parts) if columns else None
        return None if times is None else self._dealt(devices, zip(columns, times, strict=True))

    def _dealt(self, devices: Sequence[FleetGpu], columns: Iterable[tuple[tuple[Slot, Content], int]]) -> list[Content]:
        """What each GPU holds, where each content stands so often on GPUs of its slot."""
        filled: dict[Slot, list[Content]] = defaultdict(list)
        for (slot, content), n in columns:
            filled[slot] += [content] * n
        return [filled[slot].pop() if filled[slot] else () for slot in map(self.slot, devices)]

    def _times_used(
        self, columns: Sequence[tuple[Slot, Content]], counts: Mapping[Slot, int], parts: Mapping[str, int]
    ) -> list[int] | None:
        """How often each column of the integer program is used; None where the solver found nothing."""
        served = np.array([[m in dict(content) for _, content in columns] for m in parts], dtype=float)
        used = np.array([[s == slot for s, _ in columns] for slot in counts], dtype=float)
        solution = milp(
            [self.score(content, slot) for slot, content in columns],
            constraints=[
                LinearConstraint(served, list(parts.values()), list(parts.values())),
                LinearConstraint(used, 0, list(counts.values())),
            ],
            integrality=np.ones(len(columns), dtype=np.int8),
            bounds=Bounds(0, inf),
            options={"node_limit": 500, "mip_rel_gap": 0.01},
        )
        return None if solution.x is None else [round(n) for n in solution.x]

    def _parts_needed(self, model: str, counts: Mapping[Slot, int]) -> int:
        kinds = (slot.kind for slot in counts if self.fits(model, slot.kind))
        work = min((self.sized[model, kind].design_work for kind in kinds), default=0.0)
        return max(1, ceil(work / (1 - self.rules.headroom) - 1e-9))

    def _contents(self, slot: Slot, parts: Mapping[str, int]) -> list[Content]:
        """All sets of models that one GPU can hold, none where there are too many.

        Any part of such a set can be held too, so sets are grown.
        """
        key = slot, tuple(parts.values())
        if key not in self.known.contents:
            self.known.contents[key] = self._grown(slot, parts)
        return self.known.contents[key]

    def _grown(self, slot: Slot, parts: Mapping[str, int]) -> list[Content]:
        if self._holds_too_many(slot, parts):
            return []
        contents: list[Content] = []
        grown: list[Content] = [()]
        for model in sorted(self.models):
            if 2 * len(contents) > COLUMNS_MAX:
                return []
            larger = [added(content, model, 1 / parts[model]) for content in grown]
            scores = self.scores_of([(slot, content) for content in larger])
            larger = [content for content, score in zip(larger, scores, strict=True) if score < HARD]
            grown += larger
            contents += larger
        return contents

    def _holds_too_many(self, slot: Slot, parts: Mapping[str, int]) -> bool:
        """Whether one set of models is so large that its parts alone are too many: ten models have 1,023."""
        held: Content = ()
        for model in sorted(self.models)[:-1]:
            larger = added(held, model, 1 / parts[model])
            if self.score(larger, slot) < HARD:
                held = larger
            if 2 * (2 ** len(held) - 1) > COLUMNS_MAX:
                return True
        return False

    def best_of(self, devices: Sequence[FleetGpu], starts: Sequence[list[Content]]) -> list[Content]:
        """The best local optimum from `starts`, and from random kicks to it while some GPU is strained."""
        left, contents = min(((self.improve(devices, start), start) for start in starts), key=lambda pair: pair[0])
        random = Random(self.seed)
        looked_max = self.looked_at + LOOKED_MAX
        for _ in range(KICKS_MAX if len(devices) > 1 else 0):
            if self.looked_at > looked_max or not self._strained(devices, contents):
                break
            kicked = self._kicked(devices, contents, random)
            again = self.improve(devices, kicked)
            if again < left:
                left, contents = again, kicked
        return contents

    def _strained(self, devices: Sequence[FleetGpu], contents: Sequence[Content]) -> bool:
        return any(self.score(c, self.slot(device)) > 1 for c, device in zip(contents, devices, strict=True))

    def _kicked(self, devices: Sequence[FleetGpu], contents: Sequence[Content], random: Random) -> list[Content]:
        """A few models moved to other GPUs at random."""
        kicked = list(contents)
        for _ in range(3):
            a, b = random.sample(range(len(devices)), 2)
            if not kicked[a]:
                continue
            model, share = random.choice(kicked[a])
            if self.fits(model, devices[b].kind):
                kicked[a], kicked[b] = without(kicked[a], model), added(kicked[b], model, share)
        return kicked

    def improve(self, devices: Sequence[FleetGpu], contents: list[Content]) -> float:
        """Move and swap parts between GPUs while that lowers the sum of scores; the sum that is left."""
        slots = list(map(self.slot, devices))
        if self._is_for_code(slots) and all(map(self._is_in_numbers, slots, contents)):
            contents[:] = self._improved(slots, contents)
        else:
            while self._step(devices, contents):
                pass
        return sum(map(self.score, contents, slots))

    def _is_for_code(self, slots: Sequence[Slot]) -> bool:
        """Whether machine code is at hand, and knows all there is of such GPUs with nothing on them."""
        return self.known.strains.is_compiled and all(self._is_in_numbers(slot, ()) for slot in set(slots))

    def _improved(self, slots: Sequence[Slot], contents: Sequence[Content]) -> list[Content]:
        """The same steps by machine code."""
        filled, looked_at = self._exchanges(slots).improve(list(map(self._in_numbers, slots, contents)))
        self.looked_at += looked_at
        return self._named(filled)

    def _exchanges(self, slots: Sequence[Slot]) -> Exchanges:
        kinds = tuple(slot.kind for slot in slots)
        if kinds not in self.exchanges:
            self.exchanges[kinds] = Exchanges(self.known.strains, kinds)
        return self.exchanges[kinds]

    def _named(self, fills: Iterable[Filled]) -> list[Content]:
        return [tuple((self.known.strains.names[number], share) for number, share in fill) for fill in fills]

    def _step(self, devices: Sequence[FleetGpu], contents: list[Content]) -> bool:
        """Take the best change that relieves the most strained GPU for which there is one."""
        scores = [self.score(c, self.slot(device)) for c, device in zip(contents, devices, strict=True)]
        for a in sorted(range(len(scores)), key=lambda j: -scores[j])[:STRAINED_MAX]:
            if scores[a] < CALM:
                return False
            self.looked_at += len(devices) - 1
            best = min(self._changes(devices, contents, a), default=None, key=lambda change: change[0])
            if best is not None and best[0] < -WORTH * scores[a]:
                _, b, contents[a], contents[b] = best
                return True
        return False

    def _changes(
        self, devices: Sequence[FleetGpu], contents: list[Content], a: int
    ) -> Iterator[tuple[float, int, Content, Content]]:
        """The best exchange of GPU `a` with each other one: (gain below zero, GPU, contents)."""
        mine, here = self.slot(devices[a]), contents[a]
        others: dict[tuple[Slot, Content], int] = {}
        for b, (there, device) in enumerate(zip(contents, devices, strict=True)):
            if b != a:
                others.setdefault((self.slot(device), there), b)
        self._compare(mine, here, others)
        for (slot, there), b in others.items():
            if change := self.known.best_changes[mine, here, slot, there]:
                yield change.gain, b, change.here, change.there

    def _compare(self, mine: Slot, here: Content, others: Iterable[tuple[Slot, Content]]) -> None:
        """Find the best exchanges that are not known yet, of one GPU with others: scored all at once."""
        ways = {
            (slot, there): list(neighbours(here, there))
            for slot, there in others
            if (mine, here, slot, there) not in self.known.best_changes
        }
        lefts = [(mine, left) for pairs in ways.values() for left, _ in pairs]
        rights = [(slot, right) for (slot, _), pairs in ways.items() for _, right in pairs]
        scores = self.scores_of([*lefts, *rights])
        sums = map(add, scores[: len(lefts)], scores[len(lefts) :])
        now = self.score(here, mine)
        for (slot, there), pairs in ways.items():
            then = self.score(there, slot)
            gains = [both - now - then for both in islice(sums, len(pairs))]
            least = min(gains, default=0.0)
            best = Change(least, *pairs[gains.index(least)]) if gains else None
            self.known.best_changes[mine, here, slot, there] = best


def wrapped(works: Sequence[float], count: int) -> Iterator[tuple[int, int, float]]:
    """Works laid end to end and cut into equal parts: which work, which part, how much of it.

    Works of 1 and 2 on two GPUs: (0, 0, 1.0), (1, 0, 0.5), (1, 1, 1.5).
    """
    level = sum(works) / count
    begun = 0.0
    for number, work in enumerate(works):
        ended = begun + work
        for place in range(count):
            here = min(ended, (place + 1) * level) - max(begun, place * level)
            if here > 1e-9:
                yield number, place, here
        begun = ended


def _without_slivers(shares: Mapping[tuple[str, Kind], float]) -> dict[tuple[str, Kind], float]:
    """Shares of models on kinds, each model's to 1 again once those too small are left out."""
    large = {cell: share for cell, share in shares.items() if share > SLIVER}
    total: dict[str, float] = defaultdict(float)
    for (model, _), share in large.items():
        total[model] += share
    return {(model, kind): share / total[model] for (model, kind), share in large.items()}


def joined(span: CutReplica, stages: Sequence[Placed]) -> Placed:
    """A replica cut over several GPUs: its batches are those that every stage bears."""
    worst = max(stages, key=lambda stage: stage.worst_s)
    return Placed(
        Portion(span.sized, span.share),
        span.devices,
        min(stage.batch_size_max for stage in stages),
        min(stage.batch_size_fit for stage in stages),
        sum(stage.worst_s for stage in stages),
        any(stage.swapped for stage in stages),
        worst.short,
    )


def added(content: Content, model: str, share: float) -> Content:
    """`content` with so much more of a model."""
    for place, (other, part) in enumerate(content):
        if other == model:
            return (*content[:place], (model, part + share), *content[place + 1 :])
        if other > model:
            return (*content[:place], (model, share), *content[place:])
    return (*content, (model, share))


def without(content: Content, model: str) -> Content:
    """`content` less a model."""
    return tuple(part for part in content if part[0] != model)


def neighbours(here: Content, there: Content) -> Iterable[tuple[Content, Content]]:
    """Contents of two GPUs after a model, or a part of one, has moved from the first, or two have changed places."""
    for model, share in here:
        rest = without(here, model)
        yield rest, added(there, model, share)
        for part in MOVED_PARTS:
            if share * part >= SHARE_MIN:
                yield added(rest, model, share * (1 - part)), added(there, model, share * part)
        for other, part in there:
            if other != model:
                yield added(rest, other, part), added(without(there, other), model, share)
