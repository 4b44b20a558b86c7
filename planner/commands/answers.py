"""Commands on an answer that was kept: `diff`, `explain`, `export`, `open`, `report` and `reprice`."""

from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from planner.api import answering
from planner.console.options import Answer, FormNoCsv, PlanFile, Quiet
from planner.console.output import ExitCode, emit, note, say
from planner.model.choices import PriceKind, Target
from planner.units.writing import Format, stdout_screen


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A plan.json, or what --format json wrote.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another of the same kind.")],
    form: FormNoCsv = Format.TABLE,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit 4 where it holds, e.g. 'cost>+5%', 'p99>+10 ms', 'attainment<-0.1%', infeasible. Repeatable.",
        ),
    ] = None,
) -> None:
    """Say what differs between two answers by more than chance."""
    from planner.compare.diff import crossed
    from planner.compare.gate import parse_change
    from planner.compare.report import render

    conditions = [parse_change(text) for text in fail_on or []]
    changes = answering.diff(old, new)
    emit(render(changes, form, stdout_screen()))
    over = crossed(changes, conditions)
    for line in over:
        note(line)
    raise typer.Exit(ExitCode.THRESHOLD if over else ExitCode.FEASIBLE)


def explain(answer: Answer) -> None:
    """Say why an answer is what it is, and what would change it."""
    from planner.show.kept import explained, read_kept

    emit(explained(read_kept(answer), stdout_screen()))


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
    from planner.exports.targets import described

    files = answering.export(plan_file, target, out, force=force)
    start = f" Start with {out / 'README.md'}." if "README.md" in files else ""
    if not quiet:
        say(f"Wrote to {out}: {described(files)}.{start}")


def open_page(answer: Answer) -> None:
    """Show an answer in the browser, as `planner report` does."""
    import webbrowser

    page = Path(mkdtemp(prefix="planner-")) / f"{answer.stem}.html"
    answering.report(answer, page)
    emit(f"{page}\n")
    if not webbrowser.open(page.as_uri()):
        note("No browser could be started here: open the file above in one, or set BROWSER.")
        raise typer.Exit(ExitCode.INPUT)


def report(
    answer: Answer,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The HTML to write.")] = Path(
        "report.html"
    ),
    quiet: Quiet = False,
) -> None:
    """Write an answer as one HTML page that opens offline."""

    answering.report(answer, out)
    if not quiet:
        say(f"Wrote {out}: {out.stat().st_size / 1e3:.0f} kB. Open it in a browser; it needs no network.")


def reprice(
    plan: PlanFile,
    prices: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A prices.yaml or prices.csv, or a --catalog directory with one."),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the plan at its new prices here.")
    ] = None,
    kind: Annotated[
        PriceKind | None, typer.Option("--price", help="Another kind of price than the plan was made with.")
    ] = None,
    form: FormNoCsv = Format.TABLE,
    quiet: Quiet = False,
) -> None:
    """Say what a plan costs at other prices, not simulated again."""
    from planner.compare.report import reprice_document
    from planner.io.store import check_target
    from planner.show.forms import written

    if out:
        check_target(out, plan)
    new, changes = answering.reprice(plan, prices, kind)
    emit(written(changes, reprice_document, form, stdout_screen()))
    if out:
        answering.write_plan(new, out)
        if not quiet:
            note(f"Plan kept in {out}. What differs: planner diff {plan} {out}")
