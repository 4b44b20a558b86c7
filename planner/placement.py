"""Placement: on one fleet, replicas, batch sizes, cuts and rules of swapping under which every SLO is kept."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import sqrt
from typing import NamedTuple

from planner.answer import Trial, cards_of, deploy, label, replay
from planner.catalog import Offer
from planner.cost import Fleet, cost_usd_per_hour
from planner.cutting import Card, Span, ways_to_cut
from planner.packing import Content, Misfit, Packer, Packing, added, neighbours, without
from planner.plans import Bottleneck, Rejection
from planner.prediction.question import Question
from planner.refusals import misfit, missed_promise, too_busy, too_strained
from simulator.deployment import SwapPolicy
from simulator.stability import drain

REPAIRS = 4
"""How often a fleet that missed is packed anew, with more room for the models that missed: 1.2^4, twice the room."""
TIGHTEN = 1.2
"""How much more room they get: less changes no batch, more overshoots what neighbours can spare."""
HOPELESS = 4.0
"""Strain above which a packing is not worth a replay: the worst case is rare; up to about 3 promises were kept."""
NEAR = 0.3
"""A miss by more than that share of requests is not mended by other batches or a model moved."""
MOVES_MAX = 24
"""Placements a step from the nearest miss that are replayed on one fleet."""
LOOKED_AT_MAX, FAR_LOOKED_AT_MAX = 60, 6
"""Placements a step away that are looked at, from a near miss and from one by a mile."""
MOVES_REQUESTS_MAX = 5e5
"""Requests after which no more of them are: a second or a few."""
LOAD_MAX = 0.98
"""Load above which queues would take for ever to forget."""
CARDS_MOVED_MAX = 6
"""Cards of a fleet above which only batches are changed after a miss: a model moved is then one change of very many."""


class Refused(NamedTuple):
    """A fleet under one policy of memory that did not do."""

    why: Rejection
    nearest: Trial | None
    """What came nearest of all that was replayed; None where nothing was."""
    short_of_memory: bool
    """Whether it might do were models to take turns in memory."""
    too_few: bool = False
    """Whether it failed only for want of requests, so that no other fleet would do better."""


Tell = Callable[[str], Callable[[float], None]]
"""Says what is going on, and hears how much of it is done."""


@dataclass
class OnFleet:
    """Looks for a placement on one fleet that keeps every SLO."""

    question: Question
    offered: tuple[Offer, ...]
    fleet: Fleet
    swap: bool
    """Whether models may take turns in memory."""
    tell: Tell
    missed: list[Trial] = field(default_factory=list)
    """What was replayed and did not do, in order."""
    refused: list[Refused] = field(default_factory=list)
    """What was refused before any replay, in order."""

    def __post_init__(self) -> None:
        self.cards = cards_of(self.offered, self.fleet)
        self.models = list(self.question.needs)
        self.too_few = False

    def find(self) -> Trial | Refused:
        """The first placement that keeps every SLO, or why none was found.

        First the usual way to cut models that are too large, packed again and again with more room for what missed;
        then other ways to cut; then all of these with larger batches and with stages in the opposite order; then other
        batches, rules of swapping and small moves from what came nearest.
        """
        found = self._repaired()
        cuts = self._other_cuts()
        while not (found or self.too_few) and (spans := next(cuts, None)):
            found = self._packed_once(spans)
        if not (found or self.too_few):
            found = self._cut_anew() or self._near_misses()
        return found or self._refusal()

    def _other_cuts(self) -> Iterator[tuple[Span, ...]]:
        """Ways to cut models besides that of packing itself."""
        ways = ways_to_cut(self.models, self.question.sized, self.cards, self.question.scenario.headroom)
        yield from [spans for spans in ways if spans][int(self._must_cut) :]

    @property
    def _must_cut(self) -> bool:
        kinds = {card.kind for card in self.cards}
        sized = self.question.sized
        return any(not any((m, k) in sized and sized[m, k].batches[0] for k in kinds) for m in self.models)

    def _repaired(self) -> Trial | None:
        """Pack, replay, and pack again: with replicas on all cards, then with more room for what missed.

        Where even replicas on all cards miss, models that always missed get cards of their own.
        """
        tightness: dict[str, float] = {}
        for attempt in range(2 + REPAIRS):
            even = attempt == 1
            packing = self._packer({} if even else tightness, None, attempt, even).pack(self.cards)
            refusal = self._refuse(packing, repaired=bool(self.missed))
            if refusal and not self.missed:
                self.refused.append(refusal)
                return None
            if refusal or isinstance(packing, Misfit) or self._seen(packing):
                if even:
                    continue
                break
            known = next((t for t in self.missed if packing.replays_like(t.packing)), None)
            trial = replace(known, packing=packing) if known else self.replayed(packing)
            if even and not trial.met and trial.replay.short:
                self.missed.append(trial)
                trial = self._apart() or trial
            if trial.met:
                return trial
            self.missed.append(trial)
            self.too_few = trial.replay.too_few and not trial.replay.short
            if self.too_few or (attempt > 1 and trial.replay.far_off):
                break
            if even:
                continue
            tightness |= {m: tightness.get(m, 1.0) * TIGHTEN for m in trial.replay.missed}
        return None

    def _packed_once(self, spans: Sequence[Span]) -> Trial | None:
        packing = self._packer({}, spans).pack(self.cards)
        refusal = self._refuse(packing, repaired=False)
        if isinstance(packing, Misfit) or refusal or self._seen(packing):
            self.refused += [refusal] if refusal else []
            return None
        return self._tried(packing)

    def _packer(
        self, tightness: Mapping[str, float], spans: Sequence[Span] | None, seed: int = 0, even: bool = False
    ) -> Packer:
        rules = self.question.rules(self.swap, tightness)
        return Packer(self.models, self.question.sized, rules, seed, even, spans=spans)

    def _seen(self, packing: Packing) -> bool:
        return any(packing.placed == t.packing.placed for t in self.missed)

    def _apart(self) -> Trial | None:
        """Cards of their own for the models that every packing so far has missed; None where none can be spared."""
        always = [m for m in self.models if all(t.replay.margin(m) < 0 for t in self.missed)]
        rules = self.question.rules(self.swap, {})
        packing = Packer(self.models, self.question.sized, rules, apart=always).pack(self.cards)
        if self._refuse(packing, repaired=True) or isinstance(packing, Misfit) or self._seen(packing):
            return None
        return self.replayed(packing)

    def _tried(self, packing: Packing, swap: SwapPolicy | None = None) -> Trial | None:
        """A packing replayed; None where it missed."""
        trial = self.replayed(packing, swap)
        if trial.met:
            return trial
        self.missed.append(trial)
        return None

    def _cut_anew(self) -> Trial | None:
        """What was cut and missed, with its stages in the opposite order, and with larger batches for what missed.

        A later stage runs batches as the first has formed them, and gets one turn among its neighbours for each: behind
        a quick first stage they are small, and it may starve however well its cards look.
        """
        for trial in [t for t in self.missed if t.packing.spans]:
            turned = self._turned(trial.packing)
            for packing in (trial.packing, turned):
                if isinstance(packing, Misfit):
                    continue
                for one in (packing, self._widened(packing, trial.replay.missed)):
                    if self._refuse(one, repaired=True) or self._seen(one):
                        continue
                    if found := self._tried(one):
                        return found
        return None

    def _turned(self, packing: Packing) -> Packing | Misfit:
        """The same contents of all cards, with the stages on them in the opposite order."""
        spans = [replace(span, cards=span.cards[::-1]) for span in packing.spans]
        packer = self._packer({}, spans)
        packer.pin(spans)
        return packer.place(self.cards, packing.contents(self.cards), spans)

    def _widened(self, packing: Packing, models: Collection[str]) -> Packing:
        """The largest batches that memory allows for some models."""
        sizes = ((p.batch_size_fit if p.portion.sized.model in models else p.batch_size_max) for p in packing.placed)
        return packing.with_batches(list(sizes))

    # From the nearest miss on

    def _near_misses(self) -> Trial | None:
        """Steps from what came nearest, each a little better than the last, until one keeps every SLO."""
        if not self.missed:
            return None
        nearest, tried, spent = self._nearest(), 0, 0
        better = True
        while better:
            better = False
            for packing, swap in self._steps(nearest):
                if tried >= MOVES_MAX or spent > MOVES_REQUESTS_MAX:
                    return None
                if any(packing.replays_like(t.packing) and t.deployment.swap == swap for t in self.missed):
                    continue
                if found := self._tried(packing, swap):
                    return found
                tried, spent = tried + 1, spent + self.missed[-1].replay.requests
                if self.missed[-1].nearness > nearest.nearness:
                    nearest, better = self.missed[-1], True
                    break
        return None

    def _nearest(self) -> Trial:
        return max(self.missed, key=lambda t: t.nearness)

    def _steps(self, trial: Trial) -> Iterator[tuple[Packing, SwapPolicy]]:
        """Placements a step away: other rules of swapping, other batches, a model elsewhere or on one card more.

        A backlog tells at once, and better than any replay, whether rounds of loads and batches have time enough.
        A miss by a mile is not mended by a model moved, and seldom by other batches.
        """
        near = trial.replay.nearness[1] > -NEAR
        for packing, swap in islice(self._all_steps(trial, near), LOOKED_AT_MAX if near else FAR_LOOKED_AT_MAX):
            if self._refuse(packing, repaired=True) or isinstance(packing, Misfit):
                continue
            if not any(p.swapped for p in packing.placed) or self._drains(packing, swap):
                yield packing, swap

    def _drains(self, packing: Packing, swap: SwapPolicy) -> bool:
        """Whether a backlog is worked off with the headroom kept."""
        q = self.question
        rates_rps = {model: need.needed_rps / (1 - q.scenario.headroom) for model, need in q.needs.items()}
        deployment = deploy(q.scenario, q.needs, self.cards, packing.placed, swap)
        return not drain(deployment, rates_rps, q.workload).growing

    def _all_steps(self, trial: Trial, near: bool) -> Iterator[tuple[Packing | Misfit, SwapPolicy]]:
        swap = trial.deployment.swap
        if near and any(p.swapped for p in trial.packing.placed):
            yield from ((trial.packing, other) for other in self.question.scenario.swap.policies if other != swap)
        yield from ((packing, swap) for packing in self._other_batches(trial))
        if near and len(self.cards) <= CARDS_MOVED_MAX:
            yield from ((packing, swap) for packing in self._moved(trial))

    def _other_batches(self, trial: Trial) -> Iterator[Packing]:
        """The largest batches that memory allows, those half-way, half of what is allowed; then model by model.

        Small batches leave the weights of others in memory, and keep others waiting for a shorter time. Models that
        share no card with one that missed have no part in it.
        """
        packing = trial.packing
        now, fit = ([getattr(p, name) for p in packing.placed] for name in ("batch_size_max", "batch_size_fit"))
        between = [round(sqrt(a * b)) for a, b in zip(now, fit, strict=True)]
        half, quarter = ([max(1, n // part) for n in now] for part in (2, 4))
        for sizes in (fit, between, half):
            yield packing.with_batches(sizes)
        for sizes in (fit, half, quarter):
            for model in beside(packing, trial.replay.missed or self.models):
                mine = [p.portion.sized.model == model for p in packing.placed]
                chosen = [b if own else a for a, b, own in zip(now, sizes, mine, strict=True)]
                yield packing.with_batches(chosen)

    def _moved(self, trial: Trial) -> Iterator[Packing | Misfit]:
        """A model, or a part of one, elsewhere; least strained first. A replica more, on another card."""
        packing = trial.packing
        packer = self._packer({}, packing.spans)
        packer.pin(packing.spans)
        here = packing.contents(self.cards)
        found: dict[tuple[Content, ...], float] = {}
        for contents in self._contents_near(here, packer):
            scores = [packer.score(c, packer.slot(card)) for c, card in zip(contents, self.cards, strict=True)]
            found[tuple(contents)] = sum(scores)
        for least in sorted(found, key=lambda one: found[one])[:MOVES_MAX]:
            yield packer.place(self.cards, least, packing.spans)

    def _contents_near(self, here: Sequence[Content], packer: Packer) -> Iterator[list[Content]]:
        for a, content in enumerate(here):
            for b, card in enumerate(self.cards):
                if b == a:
                    continue
                pairs = [pair for pair in neighbours(content, here[b]) if _fitting(packer, pair[1], card)]
                for mine, theirs in pairs:
                    yield [mine if j == a else theirs if j == b else c for j, c in enumerate(here)]
                for model, share in content:
                    if model not in dict(here[b]) and packer.fits(model, card.kind):
                        rest = added(without(content, model), model, share / 2)
                        both = {a: rest, b: added(here[b], model, share / 2)}
                        yield [both.get(j, c) for j, c in enumerate(here)]

    # One candidate

    def replayed(self, packing: Packing, swap: SwapPolicy | None = None) -> Trial:
        """A packing screened by replays and, where it looks good, confirmed by others; refused between the two where it
        would be offered more than its headroom leaves."""
        question = self.question
        scenario, needs = question.scenario, question.needs
        deployment = deploy(scenario, needs, self.cards, packing.placed, swap)
        seen = replay(scenario, question.workload, needs, deployment, screen=True, tell=self.tell("trying"))
        trial = Trial(
            self.offered,
            self.fleet,
            tuple(self.cards),
            packing,
            deployment,
            seen,
            question.offers,
            limit=1 - scenario.headroom,
        )
        return self.confirmed(trial) if seen.promising or seen.met else trial

    def confirmed(self, trial: Trial) -> Trial:
        """The trial judged by its load, and by replays that had no part in choosing it.

        Where models take turns in memory, the loads of weights come on top of the batches, so the load that counts is
        the one that is measured; elsewhere that only has to be one that drains.
        """
        question = self.question
        judged = within_headroom(trial, trial.limit)
        if judged.overloaded:
            return judged
        tell = self.tell("confirming")
        seen = replay(question.scenario, question.workload, question.needs, trial.deployment, screen=False, tell=tell)
        return replace(trial, replay=seen)

    def _refuse(self, packing: Packing | Misfit, repaired: bool) -> Refused | None:
        """Why a packing is not worth a replay. A repaired one is strained on purpose; its headroom must be kept."""
        name = label(self.offered, self.fleet, self.swap, self.question.offers)
        cost = cost_usd_per_hour(self.offered, self.fleet)
        needs, scenario = self.question.needs, self.question.scenario
        if isinstance(packing, Misfit):
            why = misfit(name, packing, scenario.memory, cost)
            return Refused(why, None, packing.bottleneck is Bottleneck.MEMORY)
        if packing.work > 1 - scenario.headroom + 1e-9:
            return Refused(too_busy(name, packing, needs, scenario.headroom, cost), None, packing.held_back)
        if packing.strain > HOPELESS and not repaired:
            return Refused(too_strained(name, packing, needs, scenario.headroom, cost), None, packing.held_back)
        return None

    def _refusal(self) -> Refused:
        """Why nothing did: what came nearest, or what was refused first."""
        if not self.missed:
            return self.refused[0]
        nearest = self._nearest()
        held_back = nearest.packing.held_back and not self.too_few
        return Refused(missed_promise(nearest), nearest, held_back, self.too_few)


def beside(packing: Packing, models: Collection[str]) -> list[str]:
    """Models that share a card with one of these, in order."""
    cards = {card for p in packing.placed if p.portion.sized.model in models for card in p.cards}
    return list(dict.fromkeys(p.portion.sized.model for p in packing.placed if cards.intersection(p.cards)))


def within_headroom(trial: Trial, limit: float) -> Trial:
    """The trial, marked where it is offered more than `limit`, or more than can ever drain."""
    if trial.packing.work > limit + 1e-9:
        return replace(trial, overloaded=True, limit=limit)
    most = limit if any(p.swapped for p in trial.packing.placed) else LOAD_MAX
    return trial if trial.bears(1 / most) else replace(trial, overloaded=True, limit=most)


def _fitting(packer: Packer, content: Content, card: Card) -> bool:
    return all(packer.fits(model, card.kind) for model, _ in content)
