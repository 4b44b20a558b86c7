"""What if: a plan replayed as it stands with machines away, at another load, with the scenario changed; and mended."""

from collections.abc import Collection, Iterator, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from math import isfinite, nan
from operator import ne

from planner.catalog.catalog import Catalog
from planner.catalog.offers import Offer
from planner.io.demand import with_load
from planner.io.load import Loaded
from planner.model.plan import ModelAnswer, Plan
from planner.model.progress import Progress, counting, silent
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.placing.fleets import Fleet, cost_usd_per_hour, machines_of
from planner.placing.packing.packed import Placed
from planner.placing.sizing import Profiles
from planner.questions.readiness.answer import LossCase, Mend, MendKind, PlacedAnew, WhatIf
from planner.questions.readiness.losing import Loss, alike, anew_s, left_of, losses, takeover_s, without
from planner.replay.answer import recommend
from planner.replay.spares import of_each_type, together, ways_to_spare
from planner.replay.trial import Trial
from planner.search.fleets.search import FleetSearch
from planner.search.fleets.tried import ALTERNATIVE
from planner.search.rejections import missed_slo
from planner.search.remedies import as_replayed
from planner.search.simulation import AsPlanned, as_planned
from planner.units.reading import load_factor
from simulator.errors import InputError, wrong_argument

CASES_MAX = 12
"""Cases that are replayed: each takes seconds, and those after it leave the models more."""


def whatif(
    loaded: Loaded,
    catalog: Catalog,
    library: Profiles,
    kept: Plan,
    *,
    lose: int,
    load: float,
    overrides: Sequence[str],
    created_at: str,
    progress: Progress = silent,
) -> WhatIf:
    """What a plan does with `lose` machines away, at `load` times the rates; `loaded` has the overrides already.

    Ctrl-C after the first case leaves the answer with the cases so far, and no mends.
    """
    try:
        load_factor(load)
    except ValueError as error:
        raise InputError(f"load: {error}", on_command_line=f"--load {error}") from None
    if not kept.recommendation.models:
        raise InputError(f"{kept.scenario}: the plan recommends nothing. Name a plan with machines.")
    as_it_is = as_planned(with_load(loaded, load), catalog, library, kept, typed=overrides)
    planned = as_it_is.in_batches_allowed()
    if not 0 <= lose <= len(planned.hosts):
        most = f"{len(planned.hosts)}, the machines of the plan that serve"
        raise wrong_argument("lose", lose, f"must be from 0 to {most}", "Write e.g. 1.")
    found = losses(planned, lose)
    search = FleetSearch(planned.question, progress)
    asked, interrupted = _until_interrupted(planned, found[:CASES_MAX], search, progress)
    survive = planned.question.scenario.survive
    best = kept.recommendation
    answer = WhatIf(
        scenario=loaded.scenario.name or kept.scenario,
        scenario_sha256=loaded.sha256,
        seed=as_it_is.seed,
        created_at=created_at,
        lose=lose,
        survive=survive,
        load=load,
        overrides=tuple(overrides),
        plan_overrides=tuple(kept.scenario_overrides),
        smaller_batches=tuple(_in_smaller_batches(as_it_is.placed, planned.placed)),
        candidate=best.candidate,
        cost_usd_per_hour=best.cost_usd_per_hour,
        spares=machines_of(planned.offers, planned.spares),
        feasible=all(case.survived if lose <= survive else case.feasible for case in asked),
        cases=tuple(asked),
        ways_left_out=sum(one.ways for one in found[len(asked) :]),
        interrupted=interrupted,
        mends=(),
    )
    if answer.feasible or interrupted:
        return answer
    try:
        return _mended(answer, tuple(_mends(planned, answer, search, progress)))
    except KeyboardInterrupt:
        return replace(answer, interrupted=True)


def _in_smaller_batches(before: Sequence[Placed], now: Sequence[Placed]) -> dict[str, None]:
    """Models whose replicas run smaller batches than before, each once."""
    pairs = zip(before, now, strict=True)
    return {new.portion.sized.model: None for old, new in pairs if new.batch_size_max < old.batch_size_max}


def _until_interrupted(
    planned: AsPlanned, losses: Sequence[Loss], search: FleetSearch, progress: Progress
) -> tuple[list[LossCase], bool]:
    """The cases that were worked out, and whether Ctrl-C left others out. Raises KeyboardInterrupt before the first."""
    asked: list[LossCase] = []
    trials: dict[tuple[int, ...], Trial] = {}
    group_of = {host: number for number, hosts in enumerate(alike(planned)) for host in hosts}
    try:
        for one in losses:
            missing = tuple(sorted(group_of[host] for host in one.missing))
            asked.append(_case(planned, one, missing, progress, trials))
            asked[-1] = _with_anew(planned, asked[-1], search)
    except KeyboardInterrupt:
        if not asked:
            raise
        return asked, True
    return asked, False


def _unserved(planned: AsPlanned, served: Collection[str]) -> tuple[str, ...]:
    return tuple(model for model in planned.question.needs if model not in served)


def _case(
    planned: AsPlanned,
    loss: Loss,
    missing: tuple[int, ...],
    progress: Progress,
    trials: MutableMapping[tuple[int, ...], Trial],
) -> LossCase:
    """What is left after a loss, replayed where its streams can come; models without a replica are served no more.

    `missing`: the groups of hosts alike that are missing; where spares take over, none are. `trials`: by them, what was
    replayed already.
    """
    left = without(planned, loss.missing)
    served = {one.portion.sized.model for one in left.placed}
    unserved = _unserved(planned, served)
    answers = bool(served) and not (unserved and planned.question.scenario.pipelines)  # which need every stage
    refusal = left.refusal if answers else None
    if answers and not refusal and missing not in trials:
        away = f" without {', '.join(loss.hosts)}" if loss.hosts else ""
        trials[missing] = left.of_models(served).replayed(counting(progress, f"replaying the plan{away}"))
    trial = trials.get(missing)
    draws, rejection = trial.replay.draws if trial else None, refusal
    if trial and not trial.met:
        rejection = as_replayed(left.of_models(served).question, trial, missed_slo(trial))
    places = [planned.place_of(host) for host in loss.hosts]
    return LossCase(
        lost=loss.hosts,
        machines=machines_of(planned.offers, tuple(places.count(place) for place in range(len(planned.offers)))),
        taken_over=loss.taken_over,
        takeover_s=takeover_s(planned, loss.taken_over),
        ways=loss.ways,
        feasible=trial is not None and trial.met and not unserved,
        unserved=unserved,
        models=recommend(trial, nan).models if trial else (),
        draws_asked=draws.share if draws else None,
        rejection=rejection,
    )


def _with_anew(planned: AsPlanned, case: LossCase, search: FleetSearch) -> LossCase:
    """The case with its models placed anew, where machines are away and something is amiss: at a glance, else as
    thoroughly as the search of the plan may have tried these machines."""
    if case.feasible or not case.lost:
        return case
    left = left_of(planned, case.lost)
    trial = (search.anew(planned.offers, left) or search.try_fleet(planned.offers, left)) if any(left) else None
    load_s, models = nan, tuple[ModelAnswer, ...]()
    if trial:
        places = {device.host: planned.offers.index(trial.bought[device.machines]) for device in trial.devices}
        load_s = anew_s(planned, case.lost, trial.packing.placed, places)
        models = recommend(trial, nan).models
    machines = machines_of(planned.offers, left)
    return replace(case, anew=PlacedAnew(machines=machines, feasible=bool(trial), load_s=load_s, models=models))


# What would help


def _mended(answer: WhatIf, mends: Sequence[Mend]) -> WhatIf:
    """The answer with its mends; where one is of more machines, cases ask for as many GPUs."""
    more = [mend.candidate.gpu_count - answer.candidate.gpu_count for mend in mends if mend.kind is MendKind.MACHINES]
    cases = tuple(_asking_for(case, max(more)) for case in answer.cases) if more else answer.cases
    return replace(answer, cases=cases, mends=tuple(mends))


def _asking_for(case: LossCase, gpus: int) -> LossCase:
    """A case whose rejection says how many more GPUs would do."""
    if case.rejection is None or gpus < 1:
        return case
    counted = Statement(code=Code.MORE_GPUS, figures={"gpu_count": gpus})
    remedies = tuple(counted if one.code is Code.MORE_GPUS else one for one in case.rejection.remedies)
    return replace(case, rejection=replace(case.rejection, remedies=remedies))


def _mends(planned: AsPlanned, answer: WhatIf, search: FleetSearch, progress: Progress) -> Iterator[Mend]:
    """Changes after which every SLO is met, the cheapest first: spares alone, or another placement with them."""
    # As other mends are judged: by the first look at draws of speeds.
    stands = answer.lose and not planned.refusal
    if stands and planned.replayed(counting(progress, "replaying the plan"), ranked=True).met:
        yield from _readied(planned, planned.fleet, MendKind.SPARES, answer, search)
        return
    program = planned.question.program(planned.offers)
    if trial := search.best(program, Objective.COST, ALTERNATIVE):
        counts = dict(zip(trial.offers, trial.fleet, strict=True))
        fleet = tuple(counts.get(offer, 0) for offer in planned.offers)
        kind = MendKind.ANEW if fleet == planned.fleet else MendKind.MACHINES
        yield from _readied(planned, fleet, kind, answer, search)


def _readied(planned: AsPlanned, fleet: Fleet, kind: MendKind, answer: WhatIf, search: FleetSearch) -> Iterator[Mend]:
    """A fleet and, of each of its types, as many spares as machines are away, or as the scenario wants to `survive`;
    before it, with fewer that cost less, where they do once the models are placed anew."""
    offers, away = planned.offers, max(answer.lose, planned.question.scenario.survive)
    certain = of_each_type(fleet, away)
    cheaper = takewhile(partial(ne, certain), ways_to_spare(offers, fleet, away))
    fewer = next((spares for spares in cheaper if search.spares.survives(offers, fleet, spares, away)), None)
    if fewer is not None:
        yield replace(_with_spares(planned, fleet, fewer, kind, answer), anew=True)
    yield _with_spares(planned, fleet, certain, kind, answer)


def _with_spares(planned: AsPlanned, fleet: Fleet, spares: Fleet, kind: MendKind, answer: WhatIf) -> Mend:
    """A fleet and its spares, and what they cost over the plan."""
    cost = cost_usd_per_hour(planned.offers, fleet) + cost_usd_per_hour(planned.offers, spares)
    added = cost - answer.cost_usd_per_hour
    return Mend(
        kind=kind,
        candidate=replace(answer.candidate, machines=machines_of(planned.offers, fleet)),
        spares=machines_of(planned.offers, spares),
        beyond_count=machines_of(planned.offers, _beyond(planned.offers, together(fleet, spares))),
        cost_usd_per_hour=cost,
        cost_added_usd_per_hour=added if isfinite(added) else nan,
    )


def _beyond(offers: Sequence[Offer], fleet: Fleet) -> Fleet:
    """How many machines of each offer are more than may be had of it."""
    return tuple(0 if o.count_max is None else max(0, n - o.count_max) for o, n in zip(offers, fleet, strict=True))
