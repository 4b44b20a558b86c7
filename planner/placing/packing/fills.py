"""Fills: what single GPUs may hold, and how strained each would be."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from planner.placing.cutting import CutReplica, FleetGpu
from planner.placing.duty import Portion, Rules, held_bytes, least_work, parts_of, strain
from planner.placing.packing.contents import Change, Content, Slot
from planner.placing.packing.strain import Exchanges, Filled, Strains
from planner.placing.rounds import HARD, score
from planner.placing.sizing import Kind, SizedModels

KNOWN_MAX = 400_000
"""Scores, exchanges and contents that are kept for the next fleets: some 200 MB."""
RULES_MAX = 12
"""Models and rules of which these are kept: those of one search, with parts of each GPU kept free, and of what it asks
beside."""


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

    @property
    def size(self) -> int:
        """Scores, exchanges and contents."""
        return len(self.best_changes) + sum(map(len, [*self.scores.values(), *self.contents.values()]))

    def forget(self) -> None:
        """All of these."""
        for known in (self.scores, self.best_changes, self.contents):
            known.clear()


_KNOWN: dict[tuple[object, ...], KnownFills] = {}
"""The last few, the oldest first."""


def known_of(models: Sequence[str], sized: SizedModels, rules: Rules) -> KnownFills:
    """What other packings of the same models found out; fleets of one search ask much the same."""
    of_rules = (rules.headroom, rules.swap, rules.prefetch, rules.source)
    key = (*models, id(sized), *of_rules, *sorted(rules.tightness.items()))
    # What is known holds `sized`, whose id stays its own.
    known = _KNOWN.pop(key, None) or KnownFills(sized, Strains(models, sized, rules))
    _KNOWN[key] = known
    if known.size > KNOWN_MAX:
        known.forget()
    while len(_KNOWN) > RULES_MAX or sum(one.size for one in _KNOWN.values()) > KNOWN_MAX:
        del _KNOWN[next(iter(_KNOWN))]
    return known


class Fills:
    """Contents of single GPUs, and how strained a GPU is by each; what was found out is kept for the next fleet."""

    def __init__(self, models: Sequence[str], sized: SizedModels, rules: Rules) -> None:
        self.models = models
        self.sized = sized
        self.rules = rules
        self.known = known_of(models, sized, rules)
        self.slots: dict[str, Slot] = {}
        """By GPU, where stages stay on it."""
        self.pinned: list[tuple[Portion, ...]] = [()]
        """Sets of stages, by number."""
        self.by_kinds: dict[tuple[Kind, ...], Exchanges] = {}
        """Exchanges by machine code, by the kinds of all GPUs of a fleet."""

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

    def fits(self, model: str, kind: Kind) -> bool:
        """Whether such a GPU holds the whole model and is quick enough with it."""
        sized = self.sized.get((model, kind))
        return sized is not None and sized.batches[0] > 0

    def has_room(self, models: Collection[str], kind: Kind) -> bool:
        """Whether such a GPU holds these models side by side, or in turns where these are allowed."""
        if not all(self.fits(model, kind) for model in models):
            return False
        portions = [Portion(self.sized[model, kind], 1.0) for model in models]
        return held_bytes(portions, self.rules) <= kind.memory_bytes

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

    def scores_on(self, devices: Sequence[FleetGpu], contents: Sequence[Content]) -> Iterator[float]:
        """Of each GPU with what it holds."""
        return (self.score(content, self.slot(device)) for content, device in zip(contents, devices, strict=True))

    def scores_of(self, places: Sequence[tuple[Slot, Content]]) -> list[float]:
        """Of many at once: of whole models that fit, new ones are scored together."""
        scores = self.known.scores
        new = [one for one in dict.fromkeys(places) if one[1] not in scores[one[0]] and self.is_in_numbers(*one)]
        fills = [self.in_numbers(*one) for one in new]
        for (slot, content), found in zip(new, self.known.strains.scores(fills), strict=True):
            scores[slot][content] = found
        return [self.score(content, slot) for slot, content in places]

    def is_in_numbers(self, slot: Slot, content: Content) -> bool:
        """Whether `strains` knows all that stands there: no stages, no shared layers, nothing that does not fit."""
        strains = self.known.strains
        fitting = strains.numbers.get(slot.kind)
        if fitting is None or slot.pinned or not strains.exact:
            return False
        return all(model in fitting for model, _ in content)

    def in_numbers(self, slot: Slot, content: Content) -> Filled:
        numbers = self.known.strains.numbers[slot.kind]
        return [(numbers[model], share) for model, share in content]

    def _score(self, content: Content, slot: Slot) -> float:
        if self.is_in_numbers(slot, content):
            return self.known.strains.scores([self.in_numbers(slot, content)])[0]
        if not all(self.fits(model, slot.kind) for model, _ in content):
            return HARD * HARD
        portions = self.portions(content, slot)
        if not portions:
            return 0.0
        work, _ = least_work(portions)
        strained = strain(portions, slot.kind, self.rules)
        held = held_bytes(portions, self.rules) / slot.kind.memory_bytes
        return score(work, inf if strained is None else strained, held, self.rules.headroom)

    def is_for_code(self, slots: Sequence[Slot]) -> bool:
        """Whether machine code is at hand, and knows all there is of such GPUs with nothing on them."""
        return self.known.strains.is_compiled and all(self.is_in_numbers(slot, ()) for slot in set(slots))

    def exchanges(self, slots: Sequence[Slot]) -> Exchanges:
        kinds = tuple(slot.kind for slot in slots)
        if kinds not in self.by_kinds:
            self.by_kinds[kinds] = Exchanges(self.known.strains, kinds)
        return self.by_kinds[kinds]

    def named(self, fills: Iterable[Filled]) -> list[Content]:
        return [tuple((self.known.strains.names[number], share) for number, share in fill) for fill in fills]
