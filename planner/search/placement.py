"""Placement: on one fleet, replicas, batch sizes, cuts and rules of swapping under which every SLO is met."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, permutations, product, zip_longest
from math import sqrt
from random import Random

from planner.catalog.offers import Offer
from planner.model.plan import Bottleneck, Rejection
from planner.model.progress import Tell
from planner.model.statement import Code
from planner.placing.cutting import CutReplica, FleetGpu, too_large, ways_to_cut
from planner.placing.fleets import Fleet, cost_usd_per_hour
from planner.placing.packing.contents import Content, added, neighbours, without
from planner.placing.packing.packed import Misfit, Packing, Placed
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Need, judged
from planner.placing.stations import loads_on
from planner.replay.deploying import deploy, devices_of, failures
from planner.replay.replay import Replay
from planner.replay.run import replay
from planner.replay.trial import Trial, candidate_of
from planner.search.even import evenly
from planner.search.question import Question
from planner.search.rejections import (
    misfit,
    missed_slo,
    streams_refused,
    too_busy,
    too_few_stations,
    too_strained,
)
from simulator.clock.stability import drain
from simulator.world.deployment import Deployment, Eviction, Scheduling, SwapPolicy

REPAIRS = 4
"""How often a fleet that missed is packed anew, with more room for the models that missed: 1.2^4, twice the room."""
REPAIRS_DOUBTED = 2
"""The same where speeds are drawn, of which each replay takes longer: of a dozen fleets three cost 1 to 7 % less for
it, and no other one found more."""
TIGHTEN = 1.2
"""How much more room they get: less changes no batch, more overshoots what neighbours can spare."""
FINER, FINER_STEP = 12, 1.05
"""How often a fleet that nearly did is packed anew in small steps, each time to another local optimum: of six fleets of
16 to 19 GPUs for 50 models, three cost up to 3.6 % less for it."""
NEARLY = 0.9
"""Share of the requests in time that an SLO asks of each model, from which on a fleet nearly did."""
HOPELESS = 4.0
"""Strain above which a packing served in rounds is not worth a replay: the worst case is rare; up to about 3 SLOs were
kept."""
NEAR = 0.3
"""A miss by more than that share of requests is not mended by other batches or a model moved."""
MOVES_MAX = 24
"""Placements a step from the nearest miss that are replayed on one fleet."""
LOOKED_AT_MAX, FAR_LOOKED_AT_MAX = 60, 6
"""Placements a step away that are looked at, from a near miss and from one by a mile."""
MENDING_REQUESTS_MAX = 5e5
"""Requests after which no more placements are made from what missed, cut anew or a step away: a second or a few, ten
where models are cut."""
LOAD_MAX = 0.98
"""Load above which queues would take for ever to forget."""
ROOM = 1.04
"""Room for all models of a large fleet beyond what their SLOs ask: a GPU that runs small batches beside full ones is
then strained from 96 % of its time on, where queues still drain, and not only where they grow for good."""
FREE_MAX, FREE_STEP = 0.8, 0.03
"""Part of each GPU that is kept free at most, and how well the most is known."""
HEADROOMS = (0.1, 0.2, 0.3)
"""Headrooms under which a fleet is also packed where less is asked and what that packed has missed: what stands under
more headroom stands under less, and should never cost more."""
LARGE_GPUS = 64
"""GPUs of a large fleet: one more is under 1.6 % of them, so that it costs less than what else could be tried here."""
GPUS_DRAWN_MAX = 3
"""GPUs of a fleet on which stages of pipelines are also placed at random: on more, hardly any way is a good one."""
DRAWN_MAX, DRAWN_REPLAYED_MAX = 2_000, 200
"""Placements that are drawn there, and of them that are replayed: one in some dozens may be all that does."""
DRAWN_PARTS = (1.0, 0.5, 0.33, 0.2, 0.1, 0.0)
"""Parts of a pipeline's SLO in which the largest batch of a stage runs; the last is one item."""
GPUS_MOVED_MAX = 6
"""GPUs of a fleet above which only batches are changed after a miss: a model moved is then one change of very many."""


@dataclass(frozen=True)
class Miss:
    """A fleet under one policy of memory that did not do."""

    rejection: Rejection
    nearest: Trial | None
    """What came nearest of all that was replayed; None where nothing was."""
    short_of_memory: bool
    """Whether it might do were models to take turns in memory."""
    too_few: bool = False
    """Whether it failed only for want of requests, or machines fail too often, so that no other fleet would do."""


TellOf = Callable[[str], Tell]
"""Says what is going on, and hears how much of it is done."""


@dataclass
class OnFleet:
    """Looks for a placement on one fleet that meets every SLO."""

    question: Question
    offered: tuple[Offer, ...]
    fleet: Fleet
    swap: bool
    """Whether models may take turns in memory."""
    tell: TellOf
    verdict_only: bool = True
    """Whether of a fleet that does not do no figures are wanted but what it keeps at best."""
    ranked: bool = False
    """Whether it is only set beside others: then the first look at draws of speeds is enough."""
    hopeful: bool = False
    """Whether a first look that leaves hope is enough, as somebody else confirms it."""
    replays: list[tuple[Deployment, Replay]] = field(default_factory=list)
    """All on this fleet."""
    begun: list[tuple[Deployment, Replay]] = field(default_factory=list)
    """First looks that leave hope, on any fleet."""
    looked_wide: list[Replay] = field(default_factory=list)
    """Replays that missed in many draws of speeds, on any fleet."""
    being_confirmed: list[Trial] = field(default_factory=list)
    """What a screening speaks for, while it is confirmed, on any fleet."""
    missed: list[Trial] = field(default_factory=list)
    """What was replayed and did not do, in order."""
    unreplayed: list[Miss] = field(default_factory=list)
    """What was rejected before any replay, in order."""

    def __post_init__(self) -> None:
        self.devices = devices_of(self.offered, self.fleet)
        self.models = list(self.question.needs)
        self.is_large = len(self.devices) >= LARGE_GPUS
        self.too_few = False
        self.mending_requests = 0

    def find(self) -> Trial | Miss:
        """The first placement that meets every SLO, or why none was found.

        First the usual way to cut models that are too large, packed again and again with more room for what missed;
        then other ways to cut; then all of these with larger batches and with stages in the opposite order; then other
        batches, rules of swapping and small moves from what came nearest.
        """
        if short := self.short_of_stations():
            return short
        trial = self._repaired()
        cuts = self._other_cuts()
        while not (trial or self.too_few) and (spans := next(cuts, None)):
            trial = self._packed_once(spans)
        if not (trial or self.too_few):
            trial = self._cut_anew() or self._near_misses()
        return trial or self._miss()

    def find_with_more_headroom(self) -> Trial | None:
        """The first placement that would be found under more headroom; None where none was, or speeds are drawn: then
        such packings are among the usual ones."""
        if self.is_large or self.too_few or self.doubted:
            return None
        for headroom in self._more_headrooms():
            scenario = replace(self.question.scenario, headroom=headroom)
            stricter = replace(self, question=replace(self.question, scenario=scenario), missed=[], unreplayed=[])
            found = stricter.find()
            if isinstance(found, Trial):
                return replace(found, limit=1 - self.question.scenario.headroom)
        return None

    def _more_headrooms(self) -> list[float]:
        """Those of `HEADROOMS` that are more than is asked, and that this fleet may leave."""
        at_most = 1 - self._packer({}, None).busy_at_least(self.devices) + 1e-9
        return [headroom for headroom in HEADROOMS if self.question.scenario.headroom < headroom <= at_most]

    def glance(self) -> Trial | None:
        """The usual packing, or one with replicas on all GPUs, if a screening speaks for it, or leaves it in doubt that
        a confirmation removes."""
        if short := self.short_of_stations():
            self.unreplayed.append(short)
            return None
        for packing in (self._packer({}, None).pack(self.devices), self._evenly()):
            miss = self._miss_unreplayed(packing, repaired=False)
            if miss:
                self.unreplayed.append(miss)
            if miss or isinstance(packing, Misfit):
                continue
            trial = self.screened(packing)
            if trial.replay.looks_met:
                return trial
            if trial.replay.promising and (trial := self.confirmed(trial)).met:
                return trial
            self.missed.append(trial)
        return None

    @property
    def doubted(self) -> bool:
        """Whether any speed on GPUs of this fleet is predicted."""
        kinds = {device.kind for device in self.devices}
        return any(sized.profile.doubt for (_, kind), sized in self.question.sized.items() if kind in kinds)

    @property
    def short_of_memory(self) -> bool:
        """Whether something that did not do might, were models to take turns in memory."""
        held_back = any(trial.packing.held_back for trial in self.missed)
        return held_back or any(miss.short_of_memory for miss in self.unreplayed)

    def short_of_stations(self) -> Miss | None:
        """Why engines for video, cores or links of this fleet cannot do the work, or its GPUs cannot hold the streams;
        None where they can."""
        question = self.question
        loads = loads_on(question.needs, self.devices)
        busiest = max(loads, key=lambda one: one.load, default=None)
        if busiest is None:
            return None
        candidate = candidate_of(self.offered, self.fleet, self.swap, question.offers)
        cost = cost_usd_per_hour(self.offered, self.fleet)
        if busiest.load > 1 - question.scenario.headroom + 1e-9:
            return Miss(too_few_stations(candidate, busiest, question.scenario.headroom, cost), None, False)
        refusal = streams_refused(candidate, question.scenario, question.needs, self.devices, cost)
        return Miss(refusal, None, False) if refusal else None

    @property
    def may_do(self) -> bool:
        """Whether all that is asked finds room and time here by arithmetic, before any replay."""
        if self.short_of_stations():
            return False
        packings = (self._packer({}, None).pack(self.devices), self._evenly())
        return any(self._miss_unreplayed(packing, repaired=False) is None for packing in packings)

    def _other_cuts(self) -> Iterator[tuple[CutReplica, ...]]:
        """Ways to cut models besides that of packing itself."""
        must_cut = too_large(self.models, self.question.sized, {device.kind for device in self.devices})
        ways = ways_to_cut(self.models, self.question.sized, self.devices, self.question.scenario.headroom)
        yield from [spans for spans in ways if spans][int(bool(must_cut)) :]

    def _repaired(self) -> Trial | None:
        """The first of the repairs that meets every SLO."""
        for trial in self._repairs():
            if trial.met:
                return trial
            self.missed.append(trial)
            self.too_few = trial.never_in_time or (trial.too_few and not trial.replay.short)
            if self.too_few:
                break
        return None

    def _repairs(self) -> Iterator[Trial]:
        """The usual packing; one with replicas on all GPUs; each stage of pipelines on each GPU; what a model must give
        away and no more; then such with ever more room for what missed.

        Where even replicas on all GPUs miss, models that always missed get GPUs of their own.
        """
        if self.is_large and not self.doubted:
            yield from self._in_large()
            return
        first = self._replayed_if_new(self._packer({}, None).pack(self.devices))
        if first:
            yield first
        even = self._replayed_if_new(self._evenly())
        if even:
            yield even
        if failures(self.question.scenario) and (twice := self._replayed_if_new(self._twice())):
            yield twice
        if first is None or first.deployment.doubted:
            yield from self._repairs_of_doubted()
            return
        if self.question.scenario.pipelines and not first.packing.spans:
            yield from filter(None, map(self._replayed_if_new, self._side_by_side(first.packing)))
        if even and even.replay.short and (apart := self._apart()):
            yield apart
        yield from self._relieved()
        yield from self._tighter(first)
        yield from () if self.ranked else self._finer(first)

    def _repairs_of_doubted(self) -> Iterator[Trial]:
        """Where speeds are drawn, any model may be what is slower than predicted: with more of each GPU kept free; with
        GPUs of their own for what always missed; a little more room for what missed."""
        yield from filter(None, map(self._replayed_if_new, self._spread()))
        if self.missed and (apart := self._apart()):
            yield apart
        yield from self._relieved()
        nearest = max(self.missed, key=lambda trial: trial.nearest_by_shares, default=None)
        if nearest and not (self.ranked or nearest.replay.far_off):
            yield from islice(self._tighter(nearest), REPAIRS_DOUBTED)

    def _in_large(self) -> Iterator[Trial]:
        """Of a large fleet: with room for all models, then with more for what missed; then the usual packing, and one
        with replicas on all GPUs; then with GPUs of their own for models that always missed."""
        if roomy := self._roomy():
            yield roomy
            yield from islice(self._tighter(roomy, ROOM), 1)
        for packing in (self._packer({}, None).pack(self.devices), self._evenly()):
            if trial := self._replayed_if_new(packing):
                yield trial
        if self.missed and (apart := self._apart()):
            yield apart

    def _roomy(self) -> Trial | None:
        """Packed with a little more room for all models."""
        return self._replayed_if_new(self._packer(dict.fromkeys(self.models, ROOM), None).pack(self.devices))

    def _tighter(self, trial: Trial, room: float = 1.0) -> Iterator[Trial]:
        """Packed again and again, with so much room for all models and ever more for what missed."""
        tightness = dict.fromkeys(self.models, room)
        for seed in range(2, 2 + REPAIRS):
            tightness |= {m: tightness.get(m, room) * TIGHTEN for m in trial.short}
            tighter = self._replayed_if_new(self._packer(tightness, None, seed).pack(self.devices))
            if tighter is None:
                return
            yield tighter
            if tighter.replay.far_off:
                return
            trial = tighter

    def _finer(self, trial: Trial) -> Iterator[Trial]:
        """The same in small steps from what nearly did, and from others that nearly do on the way."""
        tightness: dict[str, float] = {}
        for seed in range(2 + REPAIRS, 2 + REPAIRS + FINER):
            if next(iter(trial.replay.nearest_by_shares[-1]), 0.0) > NEARLY:
                tightness |= {m: tightness.get(m, 1.0) * FINER_STEP for m in trial.short}
            if finer := self._replayed_if_new(self._packer(tightness, None, seed).pack(self.devices)):
                yield finer
                trial = finer

    def _replayed_if_new(self, packing: Packing | Misfit) -> Trial | None:
        """A packing replayed; None where it is rejected before, or was replayed already."""
        miss = self._miss_unreplayed(packing, repaired=bool(self.missed))
        if miss and not self.missed:
            self.unreplayed.append(miss)
        if miss or isinstance(packing, Misfit) or self._tried_already(packing):
            return None
        like_it = next((t for t in self.missed if packing.replays_like(t.packing)), None)
        return replace(like_it, packing=packing) if like_it else self.replayed(packing)

    def _packed_once(self, spans: Sequence[CutReplica]) -> Trial | None:
        packing = self._packer({}, spans).pack(self.devices)
        miss = self._miss_unreplayed(packing, repaired=False)
        if miss:
            self.unreplayed.append(miss)
        if miss or isinstance(packing, Misfit) or self._tried_already(packing):
            return None
        return self._tried(packing)

    def _packer(
        self, tightness: Mapping[str, float], spans: Sequence[CutReplica] | None, seed: int = 0, even: bool = False
    ) -> Packer:
        rules = self.question.rules(self.swap, tightness)
        return Packer(self.models, self.question.sized, rules, seed, even, spans=spans)

    def _evenly(self) -> Packing | Misfit:
        """Replicas on all GPUs."""
        return evenly(self._packer({}, None, seed=1, even=True), self.devices)

    def _twice(self) -> Packing | Misfit:
        """Each model on either half of the machines, each of which bears all of it, so that one may be away."""
        hosts = list(dict.fromkeys(device.host for device in self.devices))
        packer, held = self._packer({}, ()), dict[str, Content]()
        for half in (hosts[::2], hosts[1::2]):
            devices = [device for device in self.devices if device.host in half]
            filled = packer.fill(devices) if devices else None
            if filled is None:
                return Misfit(Bottleneck.GPU_COUNT, len(hosts), len(hosts) + 1, self.models[0])
            for device, content in zip(devices, filled, strict=True):
                held[device.id] = tuple((model, share / 2) for model, share in content)
        return packer.place(self.devices, [held[device.id] for device in self.devices])

    def _spread(self) -> Iterator[Packing]:
        """Packed with more of each GPU kept free: so a fleet is put to use whole, and what is slower than predicted
        finds room. First with as much as it allows, to a few percent, whatever headroom is asked; then with less, which
        mixes models less.
        """
        kept = self.question.scenario.headroom
        at_most = 1 - self._packer({}, None).busy_at_least(self.devices) + 1e-9
        most, too_much, freest = 0.0, FREE_MAX, None
        while too_much - most > FREE_STEP:
            more = (most + too_much) / 2
            if more <= kept:
                most = more
            elif more <= at_most and (packing := self._with_free(more)):
                most, freest = more, packing
            else:
                too_much = more
        if freest:
            yield freest
            yield from filter(None, (self._with_free(free) for free in reversed(self._more_headrooms()) if free < most))

    def _with_free(self, free: float) -> Packing | None:
        """Packed with such a part of each GPU kept free; None where it was not found to go."""
        rules = replace(self.question.rules(self.swap, {}), headroom=free)
        packing = Packer(self.models, self.question.sized, rules).pack(self.devices)
        return packing if isinstance(packing, Packing) and packing.work <= 1 - free + 1e-9 else None

    def _side_by_side(self, packing: Packing) -> Iterator[Packing | Misfit]:
        """Each model on all GPUs that hold it, by their speeds: the items of one frame come at once, and those that run
        one after another on one GPU are late. Where memory is short, beside what a packing has there: as many replicas
        of one model as there is room for, then of the others; each model once the first."""
        packer = self._packer({}, ())
        here = [[model for model, _ in content] for content in packing.contents(self.devices)]
        tried: list[list[set[str]]] = []
        for first in self.models:
            held = self._filled_up(packer, here, sorted(self.models, key=lambda model: model != first))
            if held not in tried:
                tried.append(held)
                found = packer.place(self.devices, self._by_speeds(held))
                yield found
                if isinstance(found, Packing):
                    yield self._widened(found, self.models)

    def _filled_up(self, packer: Packer, here: Sequence[Sequence[str]], models: Sequence[str]) -> list[set[str]]:
        """What each GPU holds, and of these models in turn all that find room beside it."""
        held = [set(mine) for mine in here]
        for model, (place, device) in product(models, enumerate(self.devices)):
            if packer.fills.has_room({*held[place], model}, device.kind):
                held[place].add(model)
        return held

    def _by_speeds(self, held: Sequence[set[str]]) -> list[Content]:
        """Contents of all GPUs that hold these models, each model's requests by the speeds of its GPUs."""
        contents: list[Content] = [()] * len(held)
        for model in self.models:
            speeds = {
                place: 1 / self.question.sized[model, self.devices[place].kind].least_work
                for place, mine in enumerate(held)
                if model in mine
            }
            for place, speed in speeds.items():
                contents[place] = added(contents[place], model, speed / sum(speeds.values()))
        return contents

    def _tried_already(self, packing: Packing) -> bool:
        return any(packing.placed == t.packing.placed for t in self.missed)

    def _apart(self) -> Trial | None:
        """GPUs of their own for the models that every packing so far has missed; None where none can be spared."""
        always = [m for m, need in self.question.needs.items() if self._always_missed(need)]
        rules = self.question.rules(self.swap, {})
        packing = Packer(self.models, self.question.sized, rules, apart=always).pack(self.devices)
        if self._miss_unreplayed(packing, repaired=True) or isinstance(packing, Misfit) or self._tried_already(packing):
            return None
        return self.replayed(packing)

    def _relieved(self) -> Iterator[Trial]:
        """Of a model that one GPU could carry whole, were no part of it kept free, just what must go elsewhere."""
        packing = self._packer({}, None).relieved(self.devices)
        if packing and (trial := self._replayed_if_new(packing)):
            yield trial

    def _always_missed(self, need: Need) -> bool:
        return all(trial.replay.margin(need.judged.model) < 0 for trial in self.missed)

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
        a quick first stage they are small, and it may starve however well its GPUs look.
        """
        for packing in self._cut_otherwise():
            if self._miss_unreplayed(packing, repaired=True) or self._tried_already(packing):
                continue
            if met := self._mended(packing):
                return met
            if self.mending_requests > MENDING_REQUESTS_MAX:
                break
        return None

    def _cut_otherwise(self) -> Iterator[Packing]:
        for trial in [t for t in self.missed if t.packing.spans]:
            for packing in (trial.packing, self._turned(trial.packing)):
                if not isinstance(packing, Misfit):
                    yield from (packing, self._widened(packing, trial.short))

    def _mended(self, packing: Packing, swap: SwapPolicy | None = None) -> Trial | None:
        """What was made from a miss, replayed; None where it missed too."""
        trial = self._tried(packing, swap)
        if trial is None:
            self.mending_requests += self.missed[-1].replay.requests
        return trial

    def _turned(self, packing: Packing) -> Packing | Misfit:
        """The same contents of all GPUs, with the stages on them in the opposite order."""
        spans = [replace(span, devices=span.devices[::-1]) for span in packing.spans]
        packer = self._packer({}, spans)
        packer.fills.pin(spans)
        return packer.place(self.devices, packing.contents(self.devices), spans)

    def _widened(self, packing: Packing, models: Collection[str]) -> Packing:
        """The largest batches that memory allows for some models."""
        sizes = ((p.batch_size_fit if p.portion.sized.model in models else p.batch_size_max) for p in packing.placed)
        return packing.with_batches(list(sizes))

    # From the nearest miss on

    def _near_misses(self) -> Trial | None:
        """Steps from what came nearest, each a little better than the last, until one meets every SLO."""
        if not self.missed or self.missed[-1].deployment.doubted:  # no move mends what the speeds break
            return None
        if self.is_large:
            return None
        nearest, tried = self._nearest(), 0
        steps = self._steps(nearest)
        while (step := next(steps, None)) and tried < MOVES_MAX and self.mending_requests <= MENDING_REQUESTS_MAX:
            packing, swap = step
            if any(packing.replays_like(t.packing) and t.deployment.swap == swap for t in self.missed):
                continue
            if trial := self._mended(packing, swap):
                return trial
            last, tried = self.missed[-1], tried + 1
            if last.nearest_by_margin > nearest.nearest_by_margin:
                nearest, steps = last, self._steps(last)
        return None

    def _nearest(self) -> Trial:
        return max(self.missed, key=lambda t: t.nearest_by_margin)

    def _steps(self, trial: Trial) -> Iterator[tuple[Packing, SwapPolicy]]:
        """Placements a step away: other rules of swapping, other batches, a model elsewhere or on one GPU more.

        A backlog tells at once, and better than any replay, whether rounds of loads and batches have time enough.
        A miss by a mile is not mended by a model moved, and seldom by other batches.
        """
        near = trial.replay.nearest_by_margin[1] > -NEAR
        most = 1 - self.question.scenario.headroom
        for packing, swap in islice(self._all_steps(trial, near), LOOKED_AT_MAX if near else FAR_LOOKED_AT_MAX):
            if self._miss_unreplayed(packing, repaired=True) or isinstance(packing, Misfit):
                continue
            if not any(p.swapped for p in packing.placed) or self._drains(packing, most, swap):
                yield packing, swap

    def _drains(self, packing: Packing, most: float, swap: SwapPolicy | None = None) -> bool:
        """Whether a backlog is worked off where only so much of the time may be used."""
        q = self.question
        rates_rps = {m: need.needed_rps / most for m, need in judged(q.needs).items()}
        deployment = deploy(q.scenario, q.needs, self.devices, packing.placed, swap)
        return not drain(deployment, rates_rps, q.workload).growing

    def _all_steps(self, trial: Trial, near: bool) -> Iterator[tuple[Packing | Misfit, SwapPolicy]]:
        swap = trial.deployment.swap
        if near and any(p.swapped for p in trial.packing.placed):
            yield from ((trial.packing, other) for other in self.question.scenario.swap.policies if other != swap)
        batches = self._other_batches(trial)
        moved = self._moved(trial) if near and len(self.devices) <= GPUS_MOVED_MAX else iter(())
        yield from ((packing, swap) for packing in self._in_order(batches, moved))

    def _in_order(
        self, batches: Iterator[Packing | Misfit], moved: Iterator[Packing | Misfit]
    ) -> Iterator[Packing | Misfit]:
        """Other batches before models moved; of pipelines in turns: items of a frame come at once, so that where they
        run matters as much as in which batches."""
        if not self.question.scenario.pipelines:
            return chain(batches, moved)
        return filter(None, chain.from_iterable(zip_longest(batches, moved)))

    def _other_batches(self, trial: Trial) -> Iterator[Packing]:
        """The largest batches that memory allows, those half-way, half of what is allowed; then model by model, down to
        a quarter, and to between all and half: where one model misses beside all, another beside half.

        Small batches leave the weights of others in memory, and keep others waiting for a shorter time. Models that
        share no GPU with one that missed have no part in it.
        """
        packing = trial.packing
        now = [p.batch_size_max for p in packing.placed]
        fit = [p.batch_size_fit for p in packing.placed]
        between = [round(sqrt(a * b)) for a, b in zip(now, fit, strict=True)]
        half = [max(1, n // 2) for n in now]
        quarter = [max(1, n // 4) for n in now]
        less = [round(sqrt(a * b)) for a, b in zip(now, half, strict=True)]
        for sizes in (fit, between, half):
            yield packing.with_batches(sizes)
        models = beside(packing, trial.short or self.models)
        for sizes, model in product((fit, half, quarter, less), models):
            yield packing.with_batches_of(model, sizes)

    def _moved(self, trial: Trial) -> Iterator[Packing | Misfit]:
        """Of pipelines, the same with even shares. Then a model, or a part of one, elsewhere; least strained first. A
        replica more, on another GPU."""
        packing = trial.packing
        packer = self._packer({}, packing.spans)
        packer.fills.pin(packing.spans)
        here = packing.contents(self.devices)
        if self.question.scenario.pipelines:
            yield packer.place(self.devices, with_even_shares(here), packing.spans)
        score: dict[tuple[Content, ...], float] = {}
        for contents in self._contents_near(here, packer):
            score[tuple(contents)] = sum(packer.fills.scores_on(self.devices, contents))
        for least_strained in sorted(score, key=lambda one: score[one])[:MOVES_MAX]:
            yield packer.place(self.devices, least_strained, packing.spans)

    def _contents_near(self, here: Sequence[Content], packer: Packer) -> Iterator[list[Content]]:
        for a, b in permutations(range(len(here)), 2):
            device = self.devices[b]
            for mine, theirs in neighbours(here[a], here[b]):
                if _fitting(packer, mine, self.devices[a]) and _fitting(packer, theirs, device):
                    yield with_contents(here, {a: mine, b: theirs})
            for model, share in here[a]:
                if model in dict(here[b]) or not packer.fills.fits(model, device.kind):
                    continue
                rest = without(here[a], model)
                half = added(rest, model, share / 2)
                yield with_contents(here, {a: half, b: added(here[b], model, share / 2)})
                yield from self._instead(here, {a: half}, b, (model, share / 2))
                yield from self._instead(here, {a: rest}, b, (model, share))

    def _instead(
        self, here: Sequence[Content], changed: Mapping[int, Content], place: int, more: tuple[str, float]
    ) -> Iterator[list[Content]]:
        """A replica in the place of another model's, all of which is done elsewhere where it runs too."""
        for model, share in here[place]:
            for other in range(len(here)):
                if other != place and other not in changed and model in dict(here[other]):
                    there = {place: added(without(here[place], model), *more), other: added(here[other], model, share)}
                    yield with_contents(here, {**changed, **there})

    # Pipelines on a few GPUs

    def find_at_random(self) -> Trial | None:
        """Stages of pipelines placed at random, where all steps from what came nearest may be worse; each may take the
        whole SLO."""
        random, packer = Random(0), self._packer({}, ())
        drawn = (self._drawn(packer, random) for _ in range(DRAWN_MAX))
        new = (packing for packing in drawn if packing and not self._tried_already(packing))
        for packing in islice(new, DRAWN_REPLAYED_MAX):
            if trial := self._mended(packing):
                return trial
            if self.mending_requests > MENDING_REQUESTS_MAX:
                break
        return None

    def _drawn(self, packer: Packer, random: Random) -> Packing | None:
        """Each model on some GPUs, in even shares or by their speeds; None where that does not go."""
        held: list[set[str]] = [set() for _ in self.devices]
        for model in self.models:
            able = [place for place, device in enumerate(self.devices) if packer.fills.fits(model, device.kind)]
            for place in random.sample(able, random.randint(min(1, len(able)), len(able))):
                held[place].add(model)
        contents = self._by_speeds(held)
        packing = packer.place(self.devices, random.choice([contents, with_even_shares(contents)]))
        if isinstance(packing, Misfit) or not set(self.models) <= set().union(*held):
            return None
        common = random.choice(DRAWN_PARTS)
        parts = {model: random.choice([common, random.choice(DRAWN_PARTS)]) for model in self.models}
        packing = packing.with_batches([_largest_within(p, parts[p.portion.sized.model]) for p in packing.placed])
        return None if self._miss_unreplayed(packing, repaired=True) else packing

    # One candidate

    def replayed(self, packing: Packing, swap: SwapPolicy | None = None) -> Trial:
        """A packing screened by replays and, where it looks good, confirmed by others; given up between the two where
        it would be offered more than its headroom leaves."""
        trial = self.screened(packing, swap)
        if not (trial.replay.promising or trial.replay.met):
            return trial
        if trial.replay.looks_met:
            self.being_confirmed.append(trial)
        confirmed = self.confirmed(trial)
        self.being_confirmed.clear()
        return confirmed

    def screened(self, packing: Packing, swap: SwapPolicy | None = None) -> Trial:
        """A packing replayed a few times, to choose by."""
        question = self.question
        deployment = deploy(question.scenario, question.needs, self.devices, packing.placed, swap)
        return Trial(
            self.offered,
            self.fleet,
            tuple(self.devices),
            packing,
            deployment,
            self._seen(deployment, screen=True),
            question.offers,
            limit=1 - question.scenario.headroom,
        )

    def confirmed(self, trial: Trial) -> Trial:
        """The trial judged by its load, and by replays that had no part in choosing it.

        Where models take turns in memory, the loads of weights come on top of the batches, so the load that counts is
        the one that is measured; elsewhere that only has to be one that drains.
        """
        judged = within_headroom(trial, trial.limit)
        return judged if judged.overloaded else replace(trial, replay=self._seen(trial.deployment, screen=False))

    def _seen(self, deployment: Deployment, *, screen: bool) -> Replay:
        """A deployment replayed: once, though several splits of the SLOs of pipelines lead to it."""
        if known := _of(deployment, [one for one in self.replays if one[1].screened == screen]):
            return known
        question = self.question
        seen = replay(
            question.scenario,
            question.workload,
            question.needs,
            deployment,
            screen=screen,
            tell=self.tell("trying" if screen else "confirming"),
            verdict_only=self.verdict_only,
            ranked=self.ranked,
            hopeful=self.hopeful,
            missed=self.looked_wide if self.verdict_only else (),
            begun=None if screen or self.ranked or self.hopeful else _of(deployment, self.begun),
        )
        self.replays.append((deployment, seen))
        if seen.hopeful:
            self.begun.append((deployment, seen))
        if seen.wide and not seen.met:
            self.looked_wide.append(seen)
        return seen

    def _miss_unreplayed(self, packing: Packing | Misfit, repaired: bool) -> Miss | None:
        """Why a packing is not worth a replay. A repaired one is strained on purpose; its headroom must be kept."""
        candidate = candidate_of(self.offered, self.fleet, self.swap, self.question.offers)
        cost = cost_usd_per_hour(self.offered, self.fleet)
        needs, scenario = self.question.needs, self.question.scenario
        if isinstance(packing, Misfit):
            rejection = misfit(candidate, packing, scenario.memory, cost)
            return Miss(rejection, None, packing.bottleneck is Bottleneck.MEMORY)
        if packing.work > 1 - scenario.headroom + 1e-9:
            rejection = too_busy(
                candidate, packing, needs, scenario.headroom, cost, drains=self._drains(packing, LOAD_MAX)
            )
            return Miss(rejection, None, packing.held_back)
        if packing.strain > HOPELESS and not repaired and self._turns_as_strain_counts(packing):
            return Miss(too_strained(candidate, packing, needs, scenario.headroom, cost), None, packing.held_back)
        return None

    def _turns_as_strain_counts(self, packing: Packing) -> bool:
        """Whether each GPU serves its models one batch each in turn, and loads each of those that are swapped every
        time. Other rules let one wait for less than a round, or load fewer; only a replay tells what they do."""
        scenario = self.question.scenario
        in_turn = scenario.scheduling is Scheduling.ROUND_ROBIN
        reloads = {policy.eviction for policy in scenario.swap.policies} == {Eviction.LRU}
        return in_turn and (reloads or not any(p.swapped for p in packing.placed))

    def _miss(self) -> Miss:
        """Why nothing did: what came nearest, or the best of what was rejected before any replay."""
        if not self.missed:
            return unreplayed_at_best(self.unreplayed)
        nearest = self._nearest()
        held_back = nearest.packing.held_back and not self.too_few
        return Miss(missed_slo(nearest), nearest, held_back, self.too_few)


def _of(deployment: Deployment, replays: Sequence[tuple[Deployment, Replay]]) -> Replay | None:
    """The first that is of a deployment."""
    return next((seen for other, seen in replays if other == deployment), None)


def unreplayed_at_best(misses: Sequence[Miss]) -> Miss:
    """What was rejected first; of placements on which a GPU is too busy the one on which it is least so."""
    first = misses[0].rejection.why.code
    alike = [miss for miss in misses if miss.rejection.why.code is first]
    return min(alike, key=lambda miss: miss.rejection.observed) if first is Code.TOO_BUSY else misses[0]


def with_contents(here: Sequence[Content], changes: Mapping[int, Content]) -> list[Content]:
    """The contents of all GPUs, with those of some changed."""
    return [changes.get(place, content) for place, content in enumerate(here)]


def with_even_shares(here: Sequence[Content]) -> list[Content]:
    """The same models on all GPUs, each model's requests in equal parts: steady frames then come to each at steady
    times."""
    shares: dict[str, list[float]] = {}
    for model, share in chain.from_iterable(here):
        shares.setdefault(model, []).append(share)
    return [tuple((model, sum(shares[model]) / len(shares[model])) for model, _ in content) for content in here]


def _largest_within(placed: Placed, part: float) -> int:
    """The largest batch that runs in a part of the SLO, one item at least."""
    sized = placed.portion.sized
    longest_s = part * sized.need.slo.latency_s
    return max(1, sum(run_s <= longest_s for run_s in sized.latency_s[: placed.batch_size_fit]))


def beside(packing: Packing, models: Collection[str]) -> list[str]:
    """Models that share a GPU with one of these, in order."""
    devices = {device for p in packing.placed if p.portion.sized.model in models for device in p.devices}
    return list(dict.fromkeys(p.portion.sized.model for p in packing.placed if devices.intersection(p.devices)))


def within_headroom(trial: Trial, limit: float) -> Trial:
    """The trial, marked where it is offered more than `limit`, or more than can ever drain."""
    if trial.packing.work > limit + 1e-9:
        return replace(trial, overloaded=True, limit=limit)
    most = limit if any(p.swapped for p in trial.packing.placed) else LOAD_MAX
    return trial if trial.bears(1 / most) else replace(trial, overloaded=True, limit=most)


def _fitting(packer: Packer, content: Content, device: FleetGpu) -> bool:
    return all(packer.fills.fits(model, device.kind) for model, _ in content)
