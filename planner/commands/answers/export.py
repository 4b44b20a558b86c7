"""The command `planner export`: a plan in the words of the programs that run it, watch it or draw it."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import answering
from planner.console.options import PlanFile, Quiet
from planner.model.choices import Target


def export(
    plan_file: PlanFile,
    target: Annotated[Target, typer.Option("--to", help="What runs, watches or draws it.")],
    out: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="The folder to write: new, empty, or an earlier export."),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace exported files that were changed since.")] = False,
    quiet: Quiet = False,
) -> None:
    """Turn a plan into files that deploy, watch or draw it.

    Beside those that deploy it lies a script that measures whether its SLOs are met.
    """
    from planner.console.output import say
    from planner.exports.targets import described

    files = answering.export(plan_file, target, out, force=force)
    start = f" Start with {out / 'README.md'}." if "README.md" in files else ""
    if not quiet:
        say(f"Wrote to {out}: {described(files)}.{start}")
