"""The command `planner open`: an answer in the browser."""

from pathlib import Path
from tempfile import mkdtemp

import typer

from planner.api import answering
from planner.console.options import Answer
from planner.console.output import ExitCode, emit, note


def open_page(answer: Answer) -> None:
    """Show an answer in the browser, as `planner report` does."""
    import webbrowser

    page = Path(mkdtemp(prefix="planner-")) / f"{answer.stem}.html"
    answering.report(answer, page)
    emit(f"{page}\n")
    if not webbrowser.open(page.as_uri()):
        note("No browser could be started here: open the file above in one, or set BROWSER.")
        raise typer.Exit(ExitCode.INPUT)
