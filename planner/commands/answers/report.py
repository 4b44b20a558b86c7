"""The command `planner report`: an answer as one HTML file that opens offline."""

from pathlib import Path
from typing import Annotated

import typer

from planner.api import answering
from planner.console.options import Answer, Quiet


def report(
    answer: Answer,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The HTML to write.")] = Path(
        "report.html"
    ),
    quiet: Quiet = False,
) -> None:
    """Write an answer as one HTML page that opens offline."""
    from planner.console.output import say

    answering.report(answer, out)
    if not quiet:
        say(f"Wrote {out}: {out.stat().st_size / 1e3:.0f} kB. Open it in a browser; it needs no network.")
