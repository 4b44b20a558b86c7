"""The command `planner export`: a plan in the words of the programs that run it, watch it or draw it."""

from pathlib import Path
from typing import Annotated

import typer

from planner.console.options import PlanFile
from planner.model.choices import Target


def export(
    plan_file: PlanFile,
    target: Annotated[Target, typer.Option("--to", help="What runs, watches or draws it.")],
    out: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="DIR", help="The folder to write: new, empty, or an earlier export."),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace exported files that were changed since.")] = False,
) -> None:
    """Turn a plan into files that deploy it, with a script that measures whether its SLOs are met."""
    from planner.console.output import emit
    from planner.exports.fleet import ExportError
    from planner.exports.folder import write_folder
    from planner.exports.targets import described, files_of
    from planner.io.store import read_plan

    plan = read_plan(plan_file)
    try:
        files = files_of(plan, target)
    except ExportError as error:
        raise ExportError(f"{plan_file}: {error}") from error
    write_folder(out, target, files, force)
    start = f" Start with {out / 'README.md'}." if "README.md" in files else ""
    emit(f"Wrote to {out}: {described(files)}.{start}\n")
