"""The command `planner simulate`: a scenario on GPUs that somebody names."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import answering, asking, serving
from planner.console.options import Catalogs, Form, GpuKind, Out, Profiles, Quiet, Scenario, Seed, Set, Verbose
from planner.console.output import ExitCode, answered, check_out, placed_by, progress
from planner.units.writing import Format, stdout_screen


def simulate(
    scenario: Scenario,
    gpu: GpuKind = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, max=10_000, help="How many of them.")] = None,
    placed: Annotated[
        Path | None, typer.Option("--plan", metavar="PLAN", help="Instead: the placement of this plan, as it is.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=NAME",
            help="memory, scheduling, routing, drop or eviction, e.g. eviction=mru. Repeatable.",
        ),
    ] = None,
    overrides: Set = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: Form = Format.TABLE,
    out: Out = None,
    seed: Seed = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Replay a scenario on GPUs you name, or as a plan placed it."""
    from planner.search.simulation import policy_override
    from planner.show.documents.simulation import brief
    from planner.show.kept import render
    from planner.show.terminal import terminal

    if (placed is None) == (gpu is None) or (gpu is None) != (count is None):
        raise typer.BadParameter("name either --gpu and --count, or --plan.")
    check_out(out, "simulation", scenario)
    kept = answering.read_plan(placed) if placed else None
    changes = [*asking.seeded(overrides, seed), *map(policy_override, policy or [])]
    with progress(quiet) as tell, placed_by(placed):
        answer = serving.simulate(
            scenario, gpu, count, plan=kept, overrides=changes, catalog=catalog, profiles=profiles, progress=tell
        )
    short = form is Format.TABLE and not verbose
    text = terminal(brief(answer), stdout_screen()) if short else render(answer, form, stdout_screen())
    answered(text, answer, out, quiet)
    raise typer.Exit(ExitCode.FEASIBLE if answer.feasible else ExitCode.INFEASIBLE)
