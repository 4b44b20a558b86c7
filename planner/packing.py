"""Packing: which models share which card of a fleet, with which batch sizes; a card is judged by its duty cycle."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import ceil, inf
from random import Random

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from planner.duty import (
    Portion,
    Rules,
    caps_with_slack,
    duty_cycle,
    gives_way,
    held_back,
    held_bytes,
    least_work,
    weight_bytes,
)
from planner.plans import Bottleneck
from planner.sizing import Kind, SizedModels
from simulator.sharing import turn_order

COLUMNS_MAX = 2000
"""Ways to fill one card up to which the assignment is also solved as an integer program."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of a fleet."""

    id: str
    host: str
    kind: Kind
    host_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """One replica: a part of a model on one card, or on several as pipeline stages."""

    portion: Portion
    cards: tuple[Card, ...]
    batch_size_max: int
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
    """Least share of its time that the busiest card works; above 1 - headroom the plan is refused."""
    busiest: str
    """The model with most work on that card."""
    held_back: bool = False
    """Whether memory keeps a batch on some card below what its SLO allows."""

    def replays_like(self, other: "Packing") -> bool:
        """Whether a replay could not tell the two apart: shares may differ by rounding."""
        return len(self.placed) == len(other.placed) and all(
            a.portion.sized is b.portion.sized
            and abs(a.portion.share - b.portion.share) < SHARE_SAME
            and (a.cards, a.batch_size_max) == (b.cards, b.batch_size_max)
            for a, b in zip(self.placed, other.placed, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why no packing can exist on this fleet, or none was found."""

    bottleneck: Bottleneck
    observed: float
    """Bytes on a card or host, or number of cards."""
    limit: float
    model: str


Content = tuple[tuple[str, float], ...]
"""Models on one card and the share of each, sorted."""

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
    ) -> None:
        self.models = models
        self.sized = sized
        self.rules = rules
        self.seed = seed
        self.even = even
        """Keep all cards equally busy, with as many replicas as that takes, rather than as few as the work needs."""
        self.apart = apart
        """Models that share no card with others; a Misfit where no cards can be spared for them."""
        self.scores: dict[tuple[Kind, Content], float] = {}

    def pack(self, cards: Sequence[Card]) -> Packing | Misfit:
        """The least strained packing that was found, or what stands in the way."""
        spanning, rest = self._place_spanning(cards)
        if isinstance(spanning, Misfit):
            return spanning
        whole = [m for m in self.models if m not in {p.portion.sized.model for p in spanning}]
        if len(whole) == len(self.models):
            return self.pack_whole(rest, spanning)
        return Packer(whole, self.sized, self.rules, self.seed, self.even, self.apart).pack_whole(rest, spanning)

    def pack_whole(self, cards: Sequence[Card], spanning: Sequence[Placed] = ()) -> Packing | Misfit:
        """Pack models that need one card each, besides replicas that are placed already."""
        contents: list[Content] = []
        if self.models:
            filled = self.fill(cards)
            if filled is None:
                return self._no_kind(cards)
            contents = filled
        placed, strain, worst, work, busiest, short_of_memory = list(spanning), 0.0, "", 0.0, "", False
        for content, card in zip(contents, cards, strict=False):
            if not content:
                continue
            portions = self.portions(content, card.kind)
            duty = duty_cycle(portions, card.kind, self.rules)
            if duty is None:
                return self._no_memory(portions, card)
            strain, worst = max((strain, worst), (duty.strain, duty.worst))
            work, busiest = max((work, busiest), least_work(portions))
            short = gives_way(portions, card.kind, self.rules)
            caps = caps_with_slack(portions, duty, card.kind, self.rules)
            parts = zip(portions, caps, duty.worst_s, strict=True)
            swapped = duty.swapped and not self._fit_together(portions, caps, card)
            placed += [Placed(p, (card,), cap, worst_s, swapped, short) for p, cap, worst_s in parts]
            short_of_memory |= held_back(portions, duty.fits)
        packing = Packing(tuple(placed), strain, worst, work, busiest, short_of_memory)
        return self._too_much_for_hosts(placed) or packing

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

    def _place_spanning(self, cards: Sequence[Card]) -> tuple[list[Placed] | Misfit, list[Card]]:
        """Give models that no single card holds whole cards of one host each, as many replicas as their work needs."""
        placed: list[Placed] = []
        rest = list(cards)
        for model in self.models:
            if any(self.fits(model, card.kind) for card in cards):
                continue
            served = 0.0
            while served < 1 - 1e-9:
                stages = self._stages(model, rest)
                if stages is None:
                    return Misfit(Bottleneck.GPU_COUNT, len(cards), len(cards) + 1, model), rest
                sized = self.sized[model, stages[0].kind]
                share = min(1 - served, (1 - self.rules.headroom) * len(stages) / sized.design_work)
                placed.append(self._spanning(Portion(sized, share), tuple(stages)))
                rest = [card for card in rest if card not in stages]
                served += share
        return placed, rest

    def _spanning(self, portion: Portion, stages: tuple[Card, ...]) -> Placed:
        most, run_s = portion.sized.batch_size_max, portion.sized.latency_s
        cap = next((b for b in range(most, 1, -1) if 2 * run_s[b - 1] <= self.rules.limit_s(portion.sized)), 1)
        return Placed(portion, stages, cap, 2 * run_s[cap - 1], swapped=False, bottleneck=Bottleneck.MEMORY)

    def _stages(self, model: str, cards: Sequence[Card]) -> list[Card] | None:
        """Cards of the host with the fewest to spare."""
        hosts = [list(group) for _, group in groupby(cards, key=lambda card: card.host)]
        able = [h for h in hosts if (model, h[0].kind) in self.sized and len(h) >= self.sized[model, h[0].kind].stages]
        host = min(able, key=len, default=None)
        return None if host is None else host[: self.sized[model, host[0].kind].stages]

    def fits(self, model: str, kind: Kind) -> bool:
        found = self.sized.get((model, kind))
        return found is not None and found.stages == 1

    def portions(self, content: Content, kind: Kind) -> list[Portion]:
        return [Portion(self.sized[model, kind], share) for model, share in content]

    def score(self, content: Content, kind: Kind) -> float:
        """Lower is better; grows steeply with strain, so that the sum over cards is ruled by the worst."""
        key = (kind, content)
        if key not in self.scores:
            self.scores[key] = self._score(content, kind)
        return self.scores[key]

    def _score(self, content: Content, kind: Kind) -> float:
        if not content:
            return 0.0
        if not all(self.fits(model, kind) for model, _ in content):
            return HARD * HARD
        portions = self.portions(content, kind)
        work, _ = least_work(portions)
        if work > 1 - self.rules.headroom + 1e-9:
            return HARD * (0.1 + work - (1 - self.rules.headroom))
        duty = duty_cycle(portions, kind, self.rules)
        if duty is None:
            return HARD * (1 + held_bytes(portions, self.rules) / kind.memory_bytes)
        return duty.strain**4

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
                key=lambda j: (self.score(added(contents[j], model, share), kind), j),
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
        least = {cell: sized.least_work for cell, sized in self.sized.items()}
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
        counts = Counter(card.kind for card in cards)
        parts = {m: self._parts_needed(m, counts) for m in self.models}
        columns = [(kind, content) for kind in counts for content in self._contents(kind, parts)]
        if not columns:
            return None
        served = [[float(m in dict(content)) for _, content in columns] for m in self.models]
        used = [[float(k == kind) for k, _ in columns] for kind in counts]
        found = milp(
            [self.score(content, kind) for kind, content in columns],
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
        filled: dict[Kind, list[Content]] = {kind: [] for kind in counts}
        for (kind, content), n in zip(columns, found.x, strict=True):
            filled[kind] += [content] * round(n)
        return [filled[card.kind].pop() if filled[card.kind] else () for card in cards]

    def _parts_needed(self, model: str, counts: Mapping[Kind, int]) -> int:
        work = min((self.sized[model, kind].design_work for kind in counts if self.fits(model, kind)), default=0.0)
        return max(1, ceil(work / (1 - self.rules.headroom) - 1e-9))

    def _contents(self, kind: Kind, parts: Mapping[str, int]) -> list[Content]:
        """All sets of models that one card can hold, none where there are too many.

        Any part of such a set can be held too, so sets are grown.
        """
        contents: list[Content] = []
        grown: list[Content] = [()]
        for model in sorted(self.models):
            if 2 * len(contents) > COLUMNS_MAX:
                return []
            larger = [added(content, model, 1 / parts[model]) for content in grown]
            larger = [content for content in larger if self.score(content, kind) < HARD]
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
        return any(self.score(content, card.kind) > 1 for content, card in zip(contents, cards, strict=True))

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
        return sum(self.score(c, card.kind) for c, card in zip(contents, cards, strict=True))

    def _step(self, cards: Sequence[Card], contents: list[Content]) -> bool:
        """Take the best change that relieves the most strained card for which there is one."""
        scores = [self.score(c, card.kind) for c, card in zip(contents, cards, strict=True)]
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
        seen: set[tuple[Kind, Content]] = set()
        for b, (there, card) in enumerate(zip(contents, cards, strict=True)):
            if b == a or (card.kind, there) in seen:
                continue
            seen.add((card.kind, there))
            for here_new, there_new in neighbours(contents[a], there):
                new = self.score(here_new, cards[a].kind) + self.score(there_new, card.kind)
                yield new - scores[a] - scores[b], b, here_new, there_new


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
