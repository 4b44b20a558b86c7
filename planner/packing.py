"""Packing: which models share which card of a fleet, with which batch sizes; a card is judged by its duty cycle."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from random import Random
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from planner.cutting import Card, Span, needed_spans
from planner.duty import (
    Duty,
    Portion,
    Rules,
    caps_with_slack,
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
from planner.plans import Bottleneck
from planner.sizing import Kind, SizedModels
from simulator.sharing import turn_order

COLUMNS_MAX = 2000
"""Ways to fill one card up to which the assignment is also solved as an integer program."""


@dataclass(frozen=True, slots=True)
class Placed:
    """One replica: a part of a model on one card, or on several as pipeline stages."""

    portion: Portion
    cards: tuple[Card, ...]
    batch_size_max: int
    batch_size_fit: int
    """Largest that memory allows beside its neighbours."""
    worst_s: float
    """Its worst latency by the duty cycle."""
    swapped: bool
    bottleneck: Bottleneck
    """What its card is short of first when load grows."""


@dataclass(frozen=True, slots=True)
class Packing:
    """All models on the cards of a fleet."""

    placed: tuple[Placed, ...]
    strain: float
    """The highest of any card; see `Duty.strain`."""
    worst: str
    """The model that sets it."""
    work: float
    """Share of its time that the busiest card works in batches as large as are allowed there; above 1 - headroom the
    plan is refused."""
    busiest: str
    """The model with most work on that card."""
    held_back: bool = False
    """Whether memory keeps a batch on some card below what its SLO allows."""

    def contents(self, cards: Sequence[Card]) -> list["Content"]:
        """The whole models on each card, as `Packer.place` takes them."""
        here: dict[str, Content] = dict.fromkeys((card.id for card in cards), ())
        for p in self.placed:
            if len(p.cards) == 1:
                here[p.cards[0].id] = added(here[p.cards[0].id], p.portion.sized.model, p.portion.share)
        return list(here.values())

    @property
    def spans(self) -> tuple[Span, ...]:
        """The replicas that are cut over several cards."""
        return tuple(Span(p.portion.sized, p.portion.share, p.cards) for p in self.placed if len(p.cards) > 1)

    def with_batches(self, sizes: Sequence[int]) -> "Packing":
        """The same placement with other largest batches."""
        placed = tuple(replace(p, batch_size_max=n) for p, n in zip(self.placed, sizes, strict=True))
        work, busiest = busiest_card(placed)
        return replace(self, placed=placed, work=work, busiest=busiest)

    def replays_like(self, other: "Packing") -> bool:
        """Whether a replay could not tell the two apart: shares may differ by rounding."""
        return len(self.placed) == len(other.placed) and all(
            a.portion.sized is b.portion.sized
            and abs(a.portion.share - b.portion.share) < SHARE_SAME
            and (a.cards, a.batch_size_max) == (b.cards, b.batch_size_max)
            for a, b in zip(self.placed, other.placed, strict=True)
        )


def busiest_card(placed: Sequence[Placed]) -> tuple[float, str]:
    """Offered load of the busiest card, every batch as large as is allowed there, and the model with most of it."""
    loads: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for p in placed:
        for card, portion in zip(p.cards, portions_of(p), strict=True):
            loads[card.id].append((offered_load([portion], [p.batch_size_max]), portion.sized.model))
    each = ((sum(load for load, _ in here), max(here)[1]) for here in loads.values())
    return max(each, default=(0.0, ""))


def portions_of(placed: Placed) -> list[Portion]:
    """What each of its cards has of a replica."""
    whole, count = placed.portion, len(placed.cards)
    if count == 1:
        return [whole]
    return [replace(whole, part=part) for part in parts_of(whole.sized, count)]


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why no packing can exist on this fleet, or none was found."""

    bottleneck: Bottleneck
    observed: float
    """Bytes on a card or host, or number of cards."""
    limit: float
    model: str


Content = tuple[tuple[str, float], ...]
"""Models on one card and the share of each, sorted; stages of models that are cut over several cards are not in it."""


class Slot(NamedTuple):
    """Cards that are the same to packing: of one kind, with the same stages on them."""

    kind: Kind
    pinned: int = 0
    """Number of the set of stages that stay there; 0: none."""


HARD = 1e9
"""Score of a card that breaks a limit which no simulation could excuse: above that of any strain up to 177."""
STRAINED_MAX = 3
"""How many of the most strained cards are looked at before giving up: the first may be stuck where the next is not,
and each costs as many trials again."""
MOVED_PARTS = (0.5, 0.25, 0.1)
"""Parts of a model's share on one card that may move to another."""
SHARE_MIN = 0.05
"""Smallest share of a model that is worth a copy of its weights."""
SHARE_SAME = 1e-9
"""Shares that differ by less are the same, but for rounding."""
KICKS_MAX = 60
KICKED_SCORES_MAX = 3000
"""Kicks, and cards scored after them, in search of a better optimum than the first."""
APART = 8.0
"""How many times its work a model counts that gets cards of its own; they are busy to about an eighth of the others."""
CALM = 0.6**4
"""Score of a card that need not be relieved: at a strain of 0.6 even a longer round keeps the promises."""


class Packer:
    """Assigns models to single cards: a start, then moves and swaps away from the most strained card."""

    def __init__(
        self,
        models: Sequence[str],
        sized: SizedModels,
        rules: Rules,
        seed: int = 0,
        even: bool = False,
        apart: Collection[str] = (),
        spans: Sequence[Span] | None = None,
    ) -> None:
        self.models = models
        self.sized = sized
        self.rules = rules
        self.seed = seed
        self.even = even
        """Keep all cards equally busy, with as many replicas as that takes, rather than as few as the work needs."""
        self.apart = apart
        """Models that share no card with others; a Misfit where no cards can be spared for them."""
        self.spans = spans
        """Replicas that are cut over several cards; where not given, of the models that no single card holds."""
        self.work: Mapping[tuple[str, Kind], float] = {}
        """Cards that all requests of a model keep busy on each kind, by which `even` goes; else the least."""
        self.scores: dict[tuple[Slot, Content], float] = {}
        self.slots: dict[str, Slot] = {}
        """By card, where stages stay on it."""
        self.pinned: list[tuple[Portion, ...]] = [()]
        """Sets of stages, by number."""

    def pack(self, cards: Sequence[Card]) -> Packing | Misfit:
        """The least strained packing that was found, or what stands in the way."""
        spans = needed_spans(self.models, self.sized, cards, self.rules.headroom) if self.spans is None else self.spans
        if isinstance(spans, str):
            return Misfit(Bottleneck.GPU_COUNT, len(cards), len(cards) + 1, spans)
        cut = {span.sized.model for span in spans}
        whole = [m for m in self.models if m not in cut]
        packer = self if len(whole) == len(self.models) else self._for(whole)
        packer.pin(spans)
        return packer.pack_whole(cards, spans)

    def _for(self, models: Sequence[str]) -> "Packer":
        return Packer(models, self.sized, self.rules, self.seed, self.even, self.apart)

    def pin(self, spans: Sequence[Span]) -> None:
        """Let the stages of these replicas stay where they are."""
        here: dict[str, list[Portion]] = defaultdict(list)
        kinds = {card.id: card.kind for span in spans for card in span.cards}
        for span in spans:
            for card, part in zip(span.cards, parts_of(span.sized, len(span.cards)), strict=True):
                here[card.id].append(Portion(span.sized, span.share, part))
        for name, portions in here.items():
            self.pinned.append(tuple(portions))
            self.slots[name] = Slot(kinds[name], len(self.pinned) - 1)

    def slot(self, card: Card) -> Slot:
        """What a card is to packing."""
        return self.slots.get(card.id) or Slot(card.kind)

    def pack_whole(self, cards: Sequence[Card], spans: Sequence[Span] = ()) -> Packing | Misfit:
        """Pack models that need one card each, besides stages that stay where they are."""
        filled: list[Content] | None = [()] * len(cards)
        if self.models:
            filled = self.fill(cards)
        return self._no_kind(cards) if filled is None else self.place(cards, filled, spans)

    def place(self, cards: Sequence[Card], contents: Sequence[Content], spans: Sequence[Span] = ()) -> Packing | Misfit:
        """The packing with these contents on the cards, besides stages that stay where they are."""
        placed: list[Placed] = []
        stages: dict[tuple[str, str], Placed] = {}
        most, worst, short_of_memory = 0.0, "", False
        for content, card in zip(contents, cards, strict=True):
            portions = self.portions(content, self.slot(card))
            if not portions:
                continue
            found = self._on_card(portions, card)
            if isinstance(found, Misfit):
                return found
            here, duty = found
            most, worst = max((most, worst), (duty.strain, duty.worst))
            short_of_memory |= held_back(portions, duty.fits)
            placed += [one for one in here if one.portion.part is None]
            stages |= {(one.portion.sized.model, card.id): one for one in here if one.portion.part}
        placed += [joined(span, [stages[span.sized.model, card.id] for card in span.cards]) for span in spans]
        work, busiest = busiest_card(placed)
        packing = Packing(tuple(placed), most, worst, work, busiest, short_of_memory)
        return self._too_much_for_hosts(placed) or packing

    def _on_card(self, portions: Sequence[Portion], card: Card) -> tuple[list[Placed], Duty] | Misfit:
        """What is on one card, and its duty cycle."""
        duty = duty_cycle(portions, card.kind, self.rules)
        if duty is None:
            return self._no_memory(portions, card)
        short = gives_way(portions, card.kind, self.rules)
        caps = caps_with_slack(portions, duty, card.kind, self.rules)
        swapped = duty.swapped and not self._fit_together(portions, caps, card)
        parts = zip(portions, caps, duty.fits, duty.worst_s, strict=True)
        return [Placed(p, (card,), cap, fit, worst_s, swapped, short) for p, cap, fit, worst_s in parts], duty

    def fill(self, cards: Sequence[Card]) -> list[Content] | None:
        """What each card holds; None where some model fits none."""
        if self.apart:
            return self._fill_apart(cards)
        spread = self.start_wrapped(cards)
        if spread is None or self.even:
            return spread
        starts = [self.start_by_program(cards), self.start_by_kinds(cards), spread]
        if self.sharers:
            starts.append(self.start_wrapped(cards, self.sharers))
        return self.best_of(cards, [start for start in starts if start is not None])

    def _fill_apart(self, cards: Sequence[Card]) -> list[Content] | None:
        """Some models evenly on the cards that serve them fastest, the others on the rest."""
        groups = [m for m in self.models if m in self.apart], [m for m in self.models if m not in self.apart]
        mine, theirs = (sum(self._least_work(m, cards) for m in group) for group in groups)
        spare = len(cards) - ceil(theirs / (1 - self.rules.headroom))
        if not all(groups) or spare < 1:
            return None
        wanted = round(len(cards) * APART * mine / (APART * mine + theirs))
        order = sorted(range(len(cards)), key=lambda j: sum(self._least_work(m, [cards[j]]) for m in groups[0]))
        count = min(max(1, wanted), spare)
        contents: list[Content] = [()] * len(cards)
        for models, places, even in ((groups[0], order[:count], True), (groups[1], order[count:], False)):
            packer = Packer(models, self.sized, self.rules, self.seed, even)
            filled = packer.fill([cards[j] for j in places])
            if filled is None:
                return None
            for j, content in zip(places, filled, strict=True):
                contents[j] = content
        return contents

    def _least_work(self, model: str, cards: Sequence[Card]) -> float:
        """Cards that are busy with a model at least, on the fastest of these; infinite where none holds it."""
        kinds = {card.kind for card in cards if self.fits(model, card.kind)}
        return min((self.sized[model, kind].least_work for kind in kinds), default=inf)

    def _fit_together(self, portions: Sequence[Portion], caps: Sequence[int], card: Card) -> bool:
        workspace = max(p.sized.profile.workspace(cap) for p, cap in zip(portions, caps, strict=True))
        return self.rules.context_bytes + weight_bytes(portions) + workspace <= card.kind.memory_bytes

    def _no_memory(self, portions: Sequence[Portion], card: Card) -> Misfit:
        largest = max(portions, key=lambda p: p.sized.profile.weight_bytes)
        held = held_bytes(portions, self.rules)
        return Misfit(Bottleneck.MEMORY, held, card.kind.memory_bytes, largest.sized.model)

    def _too_much_for_hosts(self, placed: Sequence[Placed]) -> Misfit | None:
        """A host keeps a copy of every weight it serves."""
        for host in dict.fromkeys(p.cards[0].host for p in placed):
            here = [p for p in placed if p.cards[0].host == host]
            held, limit = weight_bytes(p.portion for p in here), here[0].cards[0].host_memory_bytes
            if limit is not None and held > limit:
                return Misfit(Bottleneck.HOST_MEMORY, held, limit, here[0].portion.sized.model)
        return None

    def _no_kind(self, cards: Sequence[Card]) -> Misfit:
        kinds = {card.kind for card in cards}
        model = next((m for m in self.models if not any(self.fits(m, k) for k in kinds)), self.models[0])
        return Misfit(Bottleneck.GPU_COUNT, len(cards), len(cards) + 1, model)

    def fits(self, model: str, kind: Kind) -> bool:
        found = self.sized.get((model, kind))
        return found is not None and found.batches[0] > 0

    def portions(self, content: Content, slot: Slot) -> list[Portion]:
        """What a card runs: whole models, and the stages that stay there."""
        whole = [Portion(self.sized[model, slot.kind], share) for model, share in content]
        return [*whole, *self.pinned[slot.pinned]]

    def score(self, content: Content, slot: Slot) -> float:
        """Lower is better; grows steeply with strain, so that the sum over cards is ruled by the worst."""
        key = (slot, content)
        if key not in self.scores:
            self.scores[key] = self._score(content, slot)
        return self.scores[key]

    def _score(self, content: Content, slot: Slot) -> float:
        kind = slot.kind
        if not all(self.fits(model, kind) for model, _ in content):
            return HARD * HARD
        portions = self.portions(content, slot)
        if not portions:
            return 0.0
        work, _ = least_work(portions)
        if work > 1 - self.rules.headroom + 1e-9:
            return HARD * (0.1 + work - (1 - self.rules.headroom))
        found = strain(portions, kind, self.rules)
        if found is None:
            return HARD * (1 + held_bytes(portions, self.rules) / kind.memory_bytes)
        return found**4

    def start_by_kinds(self, cards: Sequence[Card]) -> list[Content] | None:
        """Shares of kinds by linear program, then the largest part first, each onto the card it strains least."""
        shares = self._shares_of_kinds(cards, {cell: sized.design_work for cell, sized in self.sized.items()})
        if shares is None:
            return None
        contents: list[Content] = [()] * len(cards)
        parts = [part for (model, kind), share in shares.items() for part in self._parts(model, kind, share)]
        for _, model, kind, share in sorted(parts, key=lambda p: (-p[0], p[1], p[3])):
            at = min(
                (j for j, card in enumerate(cards) if card.kind == kind),
                key=lambda j: (self.score(added(contents[j], model, share), self.slot(cards[j])), j),
            )
            contents[at] = added(contents[at], model, share)
        return contents

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

    def start_wrapped(self, cards: Sequence[Card], together: Sequence[str] = ()) -> list[Content] | None:
        """Cards of a kind equally busy: filled one after the other, a model cut where a card is full.

        McNaughton's rule (Management Science, 1959). Models come in the order of `together`, else those of like SLO
        next to each other.
        """
        least = {cell: self.work.get(cell, sized.least_work) for cell, sized in self.sized.items()}
        shares = self._shares_of_kinds(cards, least)
        if shares is None:
            return None
        contents: list[Content] = [()] * len(cards)
        for kind in {card.kind: None for card in cards}:
            mine = [j for j, card in enumerate(cards) if card.kind == kind]
            on_kind = [m for m, k in shares if k == kind]
            slo_s = {m: self.sized[m, kind].need.slo.latency_s for m in on_kind}
            order = sorted(on_kind, key=together.index) if together else sorted(on_kind, key=lambda m: (slo_s[m], m))
            level = sum(shares[m, kind] * least[m, kind] for m in order) / len(mine)
            begun = 0.0
            for model in order:
                ended = begun + shares[model, kind] * least[model, kind]
                for place, j in enumerate(mine):
                    part = min(ended, (place + 1) * level) - max(begun, place * level)
                    if part > 1e-9:
                        contents[j] = added(contents[j], model, part / least[model, kind])
                begun = ended
        return contents

    def _shares_of_kinds(
        self, cards: Sequence[Card], work: Mapping[tuple[str, Kind], float]
    ) -> dict[tuple[str, Kind], float] | None:
        """Share of each model on each kind so that the busiest kind is as little busy as can be."""
        kinds = list(dict.fromkeys(card.kind for card in cards))
        cells = [(m, k) for m in self.models for k in kinds if self.fits(m, k)]
        if {m for m, _ in cells} != set(self.models):
            return None
        counts = [sum(card.kind == k for card in cards) for k in kinds]
        busy = [[work[m, k] * (k == kind) for m, k in cells] for kind in kinds]
        whole = [[float(m == model) for m, _ in cells] + [0.0] for model in self.models]
        found = linprog(
            [0.0] * len(cells) + [1.0],
            A_ub=[[*row, -float(n)] for row, n in zip(busy, counts, strict=True)],
            b_ub=[0.0] * len(kinds),
            A_eq=whole,
            b_eq=[1.0] * len(self.models),
        )
        assert found.x is not None  # always feasible: the work of the busiest kind has no limit here
        shares = {cell: float(x) for cell, x in zip(cells, found.x[:-1], strict=True) if x > 0.02}
        total = {m: sum(x for (n, _), x in shares.items() if n == m) for m in self.models}
        return {(m, k): x / total[m] for (m, k), x in shares.items()}

    def start_by_program(self, cards: Sequence[Card]) -> list[Content] | None:
        """The least sum of scores over all ways to fill the cards, by integer program; None where there are too many.

        Columns are the sets of models a card may hold, so equal cards are interchangeable and the duty-cycle test is
        exact. A model that one card cannot carry comes in equal parts, no two on one card.
        """
        counts = Counter(map(self.slot, cards))
        parts = {m: self._parts_needed(m, counts) for m in self.models}
        columns = [(slot, content) for slot in counts for content in self._contents(slot, parts)]
        if not columns:
            return None
        served = [[float(m in dict(content)) for _, content in columns] for m in self.models]
        used = [[float(s == slot) for s, _ in columns] for slot in counts]
        found = milp(
            [self.score(content, slot) for slot, content in columns],
            constraints=[
                LinearConstraint(np.array(served), list(parts.values()), list(parts.values())),
                LinearConstraint(np.array(used), 0, list(counts.values())),
            ],
            integrality=np.ones(len(columns), dtype=np.int8),
            bounds=Bounds(0, inf),
            options={"node_limit": 500, "mip_rel_gap": 0.01},
        )
        if found.x is None:
            return None
        filled: dict[Slot, list[Content]] = {slot: [] for slot in counts}
        for (slot, content), n in zip(columns, found.x, strict=True):
            filled[slot] += [content] * round(n)
        return [filled[slot].pop() if filled[slot] else () for slot in map(self.slot, cards)]

    def _parts_needed(self, model: str, counts: Mapping[Slot, int]) -> int:
        kinds = (slot.kind for slot in counts if self.fits(model, slot.kind))
        work = min((self.sized[model, kind].design_work for kind in kinds), default=0.0)
        return max(1, ceil(work / (1 - self.rules.headroom) - 1e-9))

    def _contents(self, slot: Slot, parts: Mapping[str, int]) -> list[Content]:
        """All sets of models that one card can hold, none where there are too many.

        Any part of such a set can be held too, so sets are grown.
        """
        contents: list[Content] = []
        grown: list[Content] = [()]
        for model in sorted(self.models):
            if 2 * len(contents) > COLUMNS_MAX:
                return []
            larger = [added(content, model, 1 / parts[model]) for content in grown]
            larger = [content for content in larger if self.score(content, slot) < HARD]
            grown += larger
            contents += larger
        return contents

    def best_of(self, cards: Sequence[Card], starts: Sequence[list[Content]]) -> list[Content]:
        """The best local optimum from `starts`, and from random kicks to it while some card is strained."""
        left, contents = min(((self.improve(cards, start), start) for start in starts), key=lambda found: found[0])
        random = Random(self.seed)
        scored_max = len(self.scores) + KICKED_SCORES_MAX
        for _ in range(KICKS_MAX if len(cards) > 1 else 0):
            if len(self.scores) > scored_max or not self._strained(cards, contents):
                break
            kicked = self._kicked(cards, contents, random)
            again = self.improve(cards, kicked)
            if again < left:
                left, contents = again, kicked
        return contents

    def _strained(self, cards: Sequence[Card], contents: Sequence[Content]) -> bool:
        return any(self.score(c, self.slot(card)) > 1 for c, card in zip(contents, cards, strict=True))

    def _kicked(self, cards: Sequence[Card], contents: Sequence[Content], random: Random) -> list[Content]:
        """A few models moved to other cards at random."""
        kicked = list(contents)
        for _ in range(3):
            a, b = random.sample(range(len(cards)), 2)
            if not kicked[a]:
                continue
            model, share = random.choice(kicked[a])
            if self.fits(model, cards[b].kind):
                kicked[a], kicked[b] = without(kicked[a], model), added(kicked[b], model, share)
        return kicked

    def improve(self, cards: Sequence[Card], contents: list[Content]) -> float:
        """Move and swap parts between cards while that lowers the sum of scores; the sum that is left."""
        while self._step(cards, contents):
            pass
        return sum(self.score(c, self.slot(card)) for c, card in zip(contents, cards, strict=True))

    def _step(self, cards: Sequence[Card], contents: list[Content]) -> bool:
        """Take the best change that relieves the most strained card for which there is one."""
        scores = [self.score(c, self.slot(card)) for c, card in zip(contents, cards, strict=True)]
        for a in sorted(range(len(scores)), key=lambda j: -scores[j])[:STRAINED_MAX]:
            if scores[a] < CALM:
                return False
            best = min(self._changes(cards, contents, scores, a), default=None, key=lambda change: change[0])
            if best is not None and best[0] < -1e-3 * scores[a]:
                _, b, contents[a], contents[b] = best
                return True
        return False

    def _changes(
        self, cards: Sequence[Card], contents: list[Content], scores: list[float], a: int
    ) -> Iterable[tuple[float, int, Content, Content]]:
        """Every way to move all or half of a model from card `a`, or to swap it: (gain below zero, card, contents)."""
        seen: set[tuple[Slot, Content]] = set()
        for b, (there, slot) in enumerate(zip(contents, map(self.slot, cards), strict=True)):
            if b == a or (slot, there) in seen:
                continue
            seen.add((slot, there))
            for here_new, there_new in neighbours(contents[a], there):
                new = self.score(here_new, self.slot(cards[a])) + self.score(there_new, slot)
                yield new - scores[a] - scores[b], b, here_new, there_new


def joined(span: Span, stages: Sequence[Placed]) -> Placed:
    """A replica cut over several cards: its batches are those that every stage bears."""
    worst = max(stages, key=lambda stage: stage.worst_s)
    return Placed(
        Portion(span.sized, span.share),
        span.cards,
        min(stage.batch_size_max for stage in stages),
        min(stage.batch_size_fit for stage in stages),
        sum(stage.worst_s for stage in stages),
        any(stage.swapped for stage in stages),
        worst.bottleneck,
    )


def added(content: Content, model: str, share: float) -> Content:
    """`content` with so much more of a model."""
    return tuple(sorted({**dict(content), model: dict(content).get(model, 0.0) + share}.items()))


def without(content: Content, model: str) -> Content:
    """`content` less a model."""
    return tuple(part for part in content if part[0] != model)


def neighbours(here: Content, there: Content) -> Iterable[tuple[Content, Content]]:
    """Contents of two cards after a model, or a part of one, has moved from the first, or two have changed places."""
    for model, share in here:
        rest = without(here, model)
        yield rest, added(there, model, share)
        for part in MOVED_PARTS:
            if share * part >= SHARE_MIN:
                yield added(rest, model, share * (1 - part)), added(there, model, share * part)
        for other, part in there:
            if other != model:
                yield added(rest, other, part), added(without(there, other), model, share)
