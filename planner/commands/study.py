"""The command `planner study`: one question at many points."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.api import studying
from planner.console.options import Catalogs, FormJson, Plot, Profiles, Quiet, shipped_path
from planner.console.output import ExitCode, check_plot, emit, note
from planner.questions.studies.engines import WORKERS_MAX, EngineName
from planner.units.writing import Format, counted, stdout_screen

if TYPE_CHECKING:
    from planner.questions.studies.run import Ran


def study(
    file: Annotated[
        Path, typer.Argument(metavar="STUDY", callback=shipped_path, help="YAML file, as in scenarios/studies.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the base, for all points. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where points and results go; study-NAME.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the points that are there; none is worked out twice.")
    ] = False,
    engine: Annotated[
        EngineName, typer.Option(help="local: processes of this machine. ray: tasks on a Ray cluster that is there.")
    ] = EngineName.LOCAL,
    address: Annotated[
        str | None, typer.Option(metavar="A", help="Of the Ray cluster: auto, this machine's, or ray://HOST:10001.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=WORKERS_MAX, help="Processes; one for each core if not given.")
    ] = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=2**32 - 1, help="Start of all random numbers, the same for all points."),
    ] = None,
    form: FormJson = Format.TABLE,
    plot: Plot = None,
    quiet: Quiet = False,
) -> None:
    """Answer one question at many points; say what matters most."""
    from planner.questions.studies.journal import FILE
    from planner.questions.studies.results import write
    from planner.show.kept import render

    directory = out or Path(f"study-{file.stem}")
    check_plot(plot, made=directory)
    if resume and not quiet and not (directory / FILE).exists():
        note(f"{directory} holds no points, so --resume found nothing to go on with.")
    try:
        with progress(quiet) as tell:
            ran = studying.run_study(
                file, directory, resume, engine, address, workers, overrides, catalog, profiles, seed, tell
            )
    except KeyboardInterrupt:
        if not quiet:
            note(f"Interrupted. What is finished is in {directory / FILE}; go on with --resume.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    written = write(ran.answer, directory)
    emit(render(ran.answer, form, stdout_screen()))
    if not quiet:
        for line in notes(ran, directory, written):
            note(line)
    if plot:  # last, so that the answer is there whatever becomes of the picture
        from planner.show.charts.kit.png import draw
        from planner.show.charts.studies import picture

        draw(plot, picture(ran.answer), ran.answer.name)
    raise typer.Exit(status(ran))


def notes(ran: "Ran", directory: Path, written: list[str]) -> Iterator[str]:
    """Lines beside the answer: points, files, and what is missing."""
    from planner.questions.studies.results import PARQUET

    before = f", {ran.taken} taken from before" if ran.taken else ""
    yield f"\n{counted(ran.computed, 'point')} worked out{before}. Kept in {directory}: {', '.join(written)}."
    if PARQUET not in written:
        yield f"No {PARQUET}, which takes duckdb: pip install 'gpu-capacity-planner[parquet]'."
    for reason in ran.lost:
        yield f"Lost, to be tried anew with --resume: {reason}."


def status(ran: "Ran") -> int:
    """The exit code: 0 where some point is feasible."""

    if ran.lost:
        return ExitCode.INTERNAL
    return ExitCode.FEASIBLE if any(point.feasible for point in ran.answer.points) else ExitCode.INFEASIBLE


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on standard error."""
    from planner.console.output import progress as bar

    with bar(quiet) as tell:
        tell("working out the first points", 0.0)
        yield lambda done, of, points: tell(f"{done} of {of} rows, {points} points worked out", done / of)
