"""Cutting: which models are cut into pipeline stages, and over which cards of one machine."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from planner.duty import parts_of
from planner.sizing import Kind, Sized, SizedModels

PLANS_MAX = 8
"""Ways to cut that are tried on one fleet: with more models than that, those that must be cut come first."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU of a fleet."""

    id: str
    host: str
    kind: Kind
    host_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A replica of a model that is cut over several cards of one machine."""

    sized: Sized
    share: float
    """Of the model's requests."""
    cards: tuple[Card, ...]


Machine = tuple[Card, ...]
"""The cards of one host."""


def machines_of(cards: Sequence[Card]) -> list[Machine]:
    """Cards by host, which stand next to each other."""
    return [tuple(group) for _, group in groupby(cards, key=lambda card: card.host)]


def needed_spans(
    models: Sequence[str], sized: SizedModels, cards: Sequence[Card], headroom: float
) -> tuple[Span, ...] | str:
    """Replicas of the models that no single card holds, each over as few cards as hold it; the first model for which
    there are not enough cards, by name."""
    return _Cutter(sized, cards, headroom).cut(_too_large(models, sized, cards), widest=False, everywhere=False)


def ways_to_cut(
    models: Sequence[str], sized: SizedModels, cards: Sequence[Card], headroom: float
) -> Iterator[tuple[Span, ...]]:
    """Different ways to cut models over the cards of their machines, the simplest first.

    Those too large for one card, over as few cards as hold them, over all of a machine, and on every machine; then all
    models over all cards of a machine, so that each may use what the others leave free (AlpaServe, OSDI'23); then one
    model at a time.
    """
    must = _too_large(models, sized, cards)
    wanted = [(must, widest, everywhere) for everywhere in (False, True) for widest in (False, True)]
    if any(len(machine) > 1 for machine in machines_of(cards)):
        wanted.append((list(models), True, True))
        wanted += [([*must, model], True, True) for model in models if model not in must]
    seen: list[tuple[Span, ...]] = []
    for chosen, widest, everywhere in wanted:
        spans = _Cutter(sized, cards, headroom).cut(chosen, widest=widest, everywhere=everywhere)
        if not isinstance(spans, str) and spans not in seen:
            seen.append(spans)
            yield spans
        if len(seen) == PLANS_MAX:
            return


def _too_large(models: Sequence[str], sized: SizedModels, cards: Sequence[Card]) -> list[str]:
    """Models that no single one of the cards holds."""
    kinds = {card.kind for card in cards}
    return [m for m in models if not any((m, k) in sized and sized[m, k].batches[0] for k in kinds)]


class _Cutter:
    """Gives models cards, those with least work on them first."""

    def __init__(self, sized: SizedModels, cards: Sequence[Card], headroom: float) -> None:
        self.sized = sized
        self.machines = machines_of(cards)
        self.headroom = headroom
        self.work: dict[str, float] = defaultdict(float)
        """By card: share of its time that the stages on it take."""

    def cut(self, models: Sequence[str], *, widest: bool, everywhere: bool) -> tuple[Span, ...] | str:
        """Each model over as few cards as hold it, or all of a machine; on as few machines as its work needs, or on all
        that hold it."""
        spans: list[Span] = []
        for model in models:
            able = [m for m in self.machines if self._stages(model, m, widest)]
            if not able:
                return model
            chosen = self._chosen(model, able, widest, everywhere)
            speeds = [len(cards) / sized.design_work for sized, cards in chosen]
            for (sized, cards), speed in zip(chosen, speeds, strict=True):
                share = speed / sum(speeds)
                spans.append(Span(sized, share, cards))
                self._note(spans[-1])
        return tuple(spans)

    def _stages(self, model: str, machine: Machine, widest: bool) -> int:
        """Cards of a machine that a replica spans; 0 where it cannot be cut over them."""
        sized = self.sized.get((model, machine[0].kind))
        if sized is None:
            return 0
        fewest = next((k for k, most in enumerate(sized.batches, start=1) if k > 1 and most), 0)
        if not fewest or fewest > len(machine):
            return 0
        return len(machine) if widest else fewest

    def _chosen(
        self, model: str, able: Sequence[Machine], widest: bool, everywhere: bool
    ) -> list[tuple[Sized, tuple[Card, ...]]]:
        """Cards of each replica, no card twice: as many as the model's work needs, or as there are."""
        groups = [group for machine in able for group in self._groups(machine, self._stages(model, machine, widest))]
        chosen: list[tuple[Sized, tuple[Card, ...]]] = []
        carried = 0.0
        for cards in sorted(groups, key=lambda group: sum(self.work[c.id] for c in group) / len(group)):
            if carried >= 1 - 1e-9 and not everywhere:
                break
            sized = self.sized[model, cards[0].kind]
            chosen.append((sized, cards))
            carried += (1 - self.headroom) * len(cards) / sized.design_work
        return chosen

    def _groups(self, machine: Machine, count: int) -> list[tuple[Card, ...]]:
        """Cards of a machine in groups of `count`, those with least work together."""
        calm = sorted(machine, key=lambda card: self.work[card.id])
        groups = [calm[i : i + count] for i in range(0, len(calm) - count + 1, count)]
        return [tuple(card for card in machine if card in group) for group in groups]

    def _note(self, span: Span) -> None:
        parts = parts_of(span.sized, len(span.cards))
        total = span.sized.profile.weight_bytes
        for card, part in zip(span.cards, parts, strict=True):
            self.work[card.id] += span.share * span.sized.design_work * part.weight_bytes / total
