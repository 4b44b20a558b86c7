"""The command `planner plan`: the cheapest GPUs for a scenario."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from planner.api import serving
from planner.console.options import Catalogs, Form, Profiles, Quiet, Scenario, Seed, Set, Verbose
from planner.console.output import ExitCode, emit, note, progress, say
from planner.units.writing import Format, stdout_screen
from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.objects import Plan


def plan(
    scenario: Scenario,
    overrides: Set = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: Form = Format.TABLE,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Keep the plan here; plan.json or infeasible.json, unless --format json, or exit 4 or 5.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 where evidence is weaker than fitted or prices are stale.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit 4 where it holds: cost, gpus, p99 or attainment with > >= < <=, e.g. 'cost>5'. Repeatable.",
        ),
    ] = None,
    seed: Seed = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    watch: Annotated[bool, typer.Option("--watch", help="Answer again each time the file is saved.")] = False,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", envvar="PLANNER_NO_CACHE", help="Work it out, though nothing changed since."),
    ] = False,
) -> None:
    """Find the cheapest GPUs that meet every SLO."""
    from planner.compare.gate import crossed, parse_condition, weak
    from planner.io.store import check_target
    from planner.model.plan import InterruptedSearch
    from planner.objects import Plan
    from planner.show.documents.brief import brief
    from planner.show.kept import render

    for feasible in (True, False):
        if target := target_of(out, form, feasible=feasible):
            check_target(target, scenario)
    conditions = list(map(parse_condition, fail_on or []))

    def answer() -> "tuple[Plan, ExitCode]":
        try:
            with progress(quiet) as tell:
                found = serving.plan(
                    scenario,
                    overrides=overrides,
                    catalog=catalog,
                    profiles=profiles,
                    seed=seed,
                    cache=not no_cache,
                    progress=tell,
                )
        except InterruptedSearch as stop:
            found = Plan.of(stop.plan)
        over, too_weak = crossed(found, conditions), weak(found) if strict else []
        short = form is Format.TABLE and not verbose
        vain = found.interrupted and not found.feasible
        unwanted = out is None and bool(over or too_weak or vain)  # it takes no place of a plan that somebody wanted
        place = None if unwanted else target_of(out, form, feasible=found.feasible)
        wrong = place and keep(found, place)  # before it is shown, for standard output may be full
        emit(brief(found, stdout_screen()) if short else render(found, form, stdout_screen()))
        if wrong:
            note(wrong)
        elif place and not quiet:
            tell_of(place, form, short=short)
        for line in [*over, *too_weak]:
            note(line)
        kept = not wrong or out is None  # only a file that somebody named must be there
        return found, status_of(found, kept=kept, over=bool(over), too_weak=bool(too_weak))

    if watch:
        again(scenario, answer)
    raise typer.Exit(answer()[1])


def status_of(found: "Plan", *, kept: bool, over: bool, too_weak: bool) -> ExitCode:
    """The first that holds of all that can be wrong."""
    failures = {
        ExitCode.INTERRUPTED: found.interrupted,
        ExitCode.INPUT: not kept,
        ExitCode.INFEASIBLE: not found.feasible,
        ExitCode.THRESHOLD: over,
        ExitCode.WEAK: too_weak,
    }
    return next((status for status, failed in failures.items() if failed), ExitCode.FEASIBLE)


def again(scenario: Path, answer: "Callable[[], tuple[Plan, ExitCode]]") -> NoReturn:
    """Answer now and each time the scenario is saved, and say what that changed; until the user ends it."""
    from planner.console.watching import saved
    from planner.show.text.plan import since

    if not scenario.is_file():  # nobody saves it in a moment: its name is wrong, and the answer says so
        raise typer.Exit(answer()[1])
    before: Plan | None = None
    looks = saved(scenario)
    while True:
        try:
            next(looks)
        except KeyboardInterrupt:
            if before is None:
                raise
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        try:
            found, status = answer()
        except InputError as error:  # half a change: the next one may mend it
            note(str(error))
            continue
        if status is ExitCode.INTERRUPTED:
            raise typer.Exit(status)
        if before:
            emit(f"\n{since(before, found)}\n")
        before = found


def target_of(out: Path | None, form: Format, *, feasible: bool) -> Path | None:
    """Where a plan is kept; None where it is not. One that came to nothing takes no place of a good one."""
    name = "plan.json" if feasible else "infeasible.json"
    return out or (None if form is Format.JSON else Path(name))


def keep(answer: "Plan", target: Path) -> str:
    """Write the plan, and say what is wrong where that cannot be done."""
    from planner.io.store import StoreError, write_answer

    try:
        write_answer(answer, target)
    except StoreError as error:
        return str(error)
    return ""


def tell_of(target: Path, form: Format, *, short: bool) -> None:
    """Say where the plan is kept, and what shows all of it; `short`: it was shown in short."""
    page = f"All figures: -v, or `planner report {target}`" if short else f"A page of it: `planner report {target}`"
    text = f"Plan kept in {target}. Why so: `planner explain {target}`. {page}"
    if form is Format.TABLE:
        say(f"\n{text}")
    else:
        note(text)
