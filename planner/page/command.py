"""The command `planner report`: an answer as one HTML file that opens offline."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    answer: Annotated[Path, typer.Argument(metavar="ANSWER", help="A plan.json or a study.json.")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The HTML to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Write an answer as one HTML page that opens offline and can be sent on."""
    from planner.cli import emit
    from planner.page.render import report_page
    from planner.store import write_text

    check_page(out)
    page = report_page(answer)
    write_text(page, out)
    emit(f"Wrote {out}: {len(page.encode()) / 1e3:.0f} kB. Open it in a browser; it needs no network.\n")


def check_page(out: Path) -> None:
    """StoreError where a page would stand under another file's name, or replace what is no page of ours."""
    from calibrate.files import FileError, demand_ours
    from planner.store import StoreError

    if out.suffix.lower() not in (".html", ".htm"):
        raise StoreError(f"-o {out}: must end in .html. Name such a file.")
    try:
        demand_ours(out, "report")
    except FileError as error:
        raise StoreError(f"-o {out}: {error}. Name another file, or remove this one.") from None
