"""Calls about serving: a plan, a simulation, days of load, what a plan would do."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planner.api.asking import (
    File,
    Question,
    Texts,
    choice,
    integer,
    kept_plan,
    load,
    maybe,
    now,
    path_of,
    quantity,
    seeded,
    whole,
)
from planner.catalog.knowledge import Files, knowledge, paths
from planner.model.progress import Progress, silent
from simulator.errors import InputError

if TYPE_CHECKING:
    import planner.model.plan
    from planner.answers import HorizonAnswer, WhatIfAnswer
    from planner.objects import Plan, Simulation

COUNT_MAX = 10_000
"""GPUs that a simulation may have."""


def plan(
    scenario: Question,
    *,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    cache: bool = False,
    progress: Progress = silent,
) -> "Plan":
    """The cheapest GPUs that meet every SLO of a scenario. `overrides` are those of `--set`.

    `cache`: keep it in the user's cache, and answer from there where nothing has changed since, the day included.
    """
    from planner.io.warm import warm_plan
    from planner.objects import Plan

    loaded, created_at = load(scenario, overrides, seed), now()

    def work() -> "planner.model.plan.Plan":
        from planner.search.plan import plan as search

        known, library = knowledge(catalog, profiles)
        return search(loaded, known, library, created_at=created_at, progress=progress)

    folders = paths(catalog), paths(profiles)
    return Plan.of(warm_plan(loaded, folders, created_at, work) if cache else work())


def simulate(
    scenario: Question,
    gpu: str | None = None,
    count: int | None = None,
    *,
    plan: "planner.model.plan.Plan | File | None" = None,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    progress: Progress = silent,
) -> "Simulation":
    """A scenario replayed on `count` GPUs of a kind, or as `plan` placed it. InputError unless one of both is given."""
    from planner.objects import Simulation
    from planner.search.simulation import simulate_named, simulate_plan

    named = gpu is not None and count is not None
    if named == (plan is not None) or (gpu is None) != (count is None):
        raise InputError("name either gpu and count, or plan.")
    kind = maybe("gpu", gpu)
    number = count if count is None else whole("count", count, 1, COUNT_MAX)
    known, library = knowledge(catalog, profiles)
    loaded = load(scenario, overrides, seed)
    today = datetime.now(UTC).date()
    if plan is not None:
        return Simulation.of(simulate_plan(loaded, known, library, kept_plan(plan), today, progress))
    assert kind is not None
    assert number is not None
    return Simulation.of(simulate_named(loaded, known, library, kind, number, today, progress))


def horizon(
    scenario: Question,
    *,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    check_day: str | None = None,
    progress: Progress = silent,
) -> "HorizonAnswer":
    """Ways to keep GPUs over the days of a scenario's `calendar`: fixed, autoscaled, a reserved base, spot.

    `check_day` names a way whose busiest day is replayed frame by frame too: minutes.
    """
    from planner.answers import HorizonAnswer
    from planner.model.choices import HorizonWay
    from planner.questions.horizons.weigh import horizon as weighed

    check = None if check_day is None else choice(HorizonWay, "check_day", check_day)
    loaded = load(scenario, overrides, seed)
    known, library = knowledge(catalog, profiles)
    answer = weighed(loaded, known, library, created_at=now(), check=check, progress=progress)
    return HorizonAnswer.of(answer)


def whatif(
    plan: "planner.model.plan.Plan | File",
    *,
    lose: int = 0,
    load: float | str = 1.0,
    overrides: Texts = (),
    scenario: File | None = None,
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    progress: Progress = silent,
) -> "WhatIfAnswer":
    """What a plan does as it stands with `lose` machines away, at `load` times the rates, with its scenario changed.

    `load` is a number or a text, `1.3` or `"130 %"`.

    `scenario` is where the plan's scenario lay, if it names recordings beside it.
    """
    from planner.answers import WhatIfAnswer
    from planner.io.load import MADE, load_text
    from planner.questions.readiness.whatif import whatif as answered
    from planner.units.reading import load_factor

    away, factor = integer("lose", lose), quantity("load", load_factor, load)
    kept = kept_plan(plan)
    if not kept.scenario_text:
        raise InputError("plan: does not hold its scenario. Run `planner plan` again.")
    changes = seeded(overrides, seed)
    path = MADE if scenario is None else path_of("scenario", scenario)
    loaded = load_text(kept.scenario_text, path, [*kept.scenario_overrides, *changes])
    known, library = knowledge(catalog, profiles)
    return WhatIfAnswer.of(
        answered(
            loaded,
            known,
            library,
            kept,
            lose=away,
            load=factor,
            overrides=changes,
            created_at=now(),
            progress=progress,
        )
    )
