"""Improving: what GPUs hold, exchanged between them while that makes the most strained less so."""

from collections.abc import Iterator, Sequence
from random import Random

from planner.placing.cutting import FleetGpu
from planner.placing.packing.contents import Change, Content, Slot, added, moves, without
from planner.placing.packing.exchanges import CALM, STRAINED_MAX, WORTH, at_least
from planner.placing.packing.fills import Fills

KICKS_MAX = 60
LOOKED_MAX = 4_000
"""Kicks, and partners of strained GPUs looked at after them, in search of a better optimum than the first."""


class Improving:
    """Moves and swaps away from the most strained GPU, until none makes the sum of scores less."""

    def __init__(self, fills: Fills, seed: int) -> None:
        self.fills = fills
        self.seed = seed
        self.looked_at = 0
        """Pairs of GPUs of which the best exchange was looked for."""

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
        return any(score > 1 for score in self.fills.scores_on(devices, contents))

    def _kicked(self, devices: Sequence[FleetGpu], contents: Sequence[Content], random: Random) -> list[Content]:
        """A few models moved to other GPUs at random."""
        kicked = list(contents)
        for _ in range(3):
            a, b = random.sample(range(len(devices)), 2)
            if not kicked[a]:
                continue
            model, share = random.choice(kicked[a])
            if self.fills.fits(model, devices[b].kind):
                kicked[a], kicked[b] = without(kicked[a], model), added(kicked[b], model, share)
        return kicked

    def improve(self, devices: Sequence[FleetGpu], contents: list[Content]) -> float:
        """Move and swap parts between GPUs while that lowers the sum of scores; the sum that is left."""
        slots = list(map(self.fills.slot, devices))
        if self.fills.is_for_code(slots) and all(map(self.fills.is_in_numbers, slots, contents)):
            contents[:] = self.improved(slots, contents)
        else:
            while self.step(devices, contents):
                pass
        return sum(map(self.fills.score, contents, slots))

    def improved(self, slots: Sequence[Slot], contents: Sequence[Content]) -> list[Content]:
        """The same steps by machine code."""
        filled, looked_at = self.fills.exchanges(slots).improve(list(map(self.fills.in_numbers, slots, contents)))
        self.looked_at += looked_at
        return self.fills.named(filled)

    def step(self, devices: Sequence[FleetGpu], contents: list[Content]) -> bool:
        """Take the best change that relieves the most strained GPU for which there is one."""
        scores = list(self.fills.scores_on(devices, contents))
        for a in sorted(range(len(scores)), key=lambda j: -scores[j])[:STRAINED_MAX]:
            if scores[a] < CALM:
                return False
            self.looked_at += len(devices) - 1
            best = min(self._changes(devices, contents, a), default=None, key=lambda change: change[0])
            if best is not None:
                _, b, contents[a], contents[b] = best
                return True
        return False

    def _changes(
        self, devices: Sequence[FleetGpu], contents: list[Content], a: int
    ) -> Iterator[tuple[float, int, Content, Content]]:
        """The best exchange of GPU `a` with each other one: (gain below zero, GPU, contents)."""
        mine, here = self.fills.slot(devices[a]), contents[a]
        others: dict[tuple[Slot, Content], int] = {}
        for b, (there, device) in enumerate(zip(contents, devices, strict=True)):
            if b != a:
                others.setdefault((self.fills.slot(device), there), b)
        for (slot, there), b in others.items():
            if change := self.best_change(mine, here, slot, there):
                yield change.gain, b, change.here, change.there

    def best_change(self, mine: Slot, here: Content, slot: Slot, there: Content) -> Change | None:
        """The best exchange of two GPUs; None where none is worth it."""
        known, pair = self.fills.known.best_changes, (mine, here, slot, there)
        if pair not in known:
            known[pair] = self._compared(*pair)
        return known[pair]

    def _compared(self, mine: Slot, here: Content, slot: Slot, there: Content) -> Change | None:
        """The same, found: what cannot be better than the best so far is not scored."""
        score, best = self.fills.score, None
        now, then = score(here, mine), score(there, slot)
        least = -WORTH * now
        for left_least, right_least, left, right in self._ways(mine, here, slot, there):
            if left_least + right_least - now - then >= least:
                continue
            left_score = score(left, mine)
            if left_score + right_least - now - then >= least:
                continue
            gain = left_score + score(right, slot) - now - then
            if gain < least:
                least, best = gain, Change(gain, left, right)
        return best

    def _ways(
        self, mine: Slot, here: Content, slot: Slot, there: Content
    ) -> Iterator[tuple[float, float, Content, Content]]:
        """What two GPUs may hold after an exchange, and the scores that each has then at least."""
        here_models, there_models = {model for model, _ in here}, {model for model, _ in there}
        for model, share in here:
            rest = without(here, model)
            rest_least, right_least = self._least(rest, mine), self._least(without(there, model), slot)
            for left, right in moves(here, there, model, share):
                yield rest_least, right_least, left, right
            for other, part in there:
                if other != model:
                    fewer = without(there, other)
                    left_least = 0.0 if other in here_models else rest_least
                    right_least = 0.0 if model in there_models else self._least(fewer, slot)
                    yield left_least, right_least, added(rest, other, part), added(fewer, model, share)

    def _least(self, content: Content, slot: Slot) -> float:
        """What a GPU has at least with one more model than these; nothing where models share layers."""
        return at_least(self.fills.score(content, slot)) if self.fills.known.strains.exact else 0.0
