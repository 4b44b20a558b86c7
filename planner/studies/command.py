"""The command `planner study`: one question at many points."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.layout import Format

if TYPE_CHECKING:
    from planner.studies.engine import Context, Engine
    from planner.studies.run import Ran


WORKERS_MAX = 1024


class EngineName(StrEnum):
    """Where points are worked out."""

    LOCAL = "local"
    RAY = "ray"


def study(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="YAML file, as in scenarios/studies.")],
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
    catalog: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Your gpus.yaml and prices.yaml, before the shipped ones. Repeatable."),
    ] = None,
    profiles: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Your profiles, before the shipped ones. Repeatable.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=2**32 - 1, help="Start of all random numbers, the same for all points."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.TABLE,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it as PNG; needs matplotlib.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")] = False,
) -> None:
    """Answer one question at many points, and say what matters most."""
    from planner.cli import emit, note
    from planner.knowledge import knowledge
    from planner.layout import stdout_screen
    from planner.store import to_json
    from planner.studies.engine import Context
    from planner.studies.journal import FILE
    from planner.studies.report import report
    from planner.studies.results import write
    from planner.studies.run import run_study
    from planner.studies.scenario import load_study

    if form not in (Format.TABLE, Format.JSON):
        raise typer.BadParameter(f"--format: must be table or json, got {form}.")
    asked = load_study(file, overrides or [], seed)
    context = Context(*knowledge(catalog, profiles))
    directory = out or Path(f"study-{file.stem}")
    if plot:
        from calibrate.plot import check_picture

        check_picture(plot, made=directory)
    try:
        with progress(quiet) as tell:
            ran = run_study(
                asked, context, opened(engine, context, workers, address), directory, resume=resume, tell=tell
            )
    except KeyboardInterrupt:
        if not quiet:
            note(f"Interrupted. What is finished is in {directory / FILE}; go on with --resume.")
        raise
    written = write(ran.answer, directory)
    emit(to_json(ran.answer) if form is Format.JSON else report(ran.answer, stdout_screen()))
    if not quiet:
        for line in said(ran, directory, written, resume):
            note(line)
    if plot:  # last, so that the answer is there whatever becomes of the picture
        from planner.studies.plot import draw

        draw(ran.answer, plot)
    raise typer.Exit(status(ran))


def opened(engine: EngineName, context: "Context", workers: int | None, address: str | None) -> "Engine":
    """The engine that was named; InputError where an option does not go with it."""
    from simulator.errors import InputError

    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise InputError(f"workers: must be from 1 to {WORKERS_MAX:,}, got {workers}.")
    match engine:
        case EngineName.LOCAL:
            if address:
                raise InputError(f"--address {address} goes with --engine ray alone.")
            from planner.studies.local_engine import LocalEngine, cores

            return LocalEngine(context, workers or cores())
        case EngineName.RAY:
            if workers:
                raise InputError(f"--workers {workers}: with --engine ray the cluster says how many.")
            from planner.studies.ray_engine import RayEngine

            return RayEngine(context, address or "auto")


def said(ran: "Ran", directory: Path, written: list[str], resume: bool) -> Iterator[str]:
    """What was done, beside the answer."""
    from planner.layout import counted
    from planner.studies.results import PARQUET

    before = f", {ran.taken} taken from before" if ran.taken else ""
    yield f"\n{counted(ran.computed, 'point')} worked out{before}. Kept in {directory}: {', '.join(written)}."
    if resume and not ran.taken:
        yield f"Nothing in {directory} was of this study as it is now, so --resume found nothing to go on with."
    if PARQUET not in written:
        yield f"No {PARQUET}, which takes duckdb: pip install 'gpu-capacity-planner[parquet]'."
    for reason in ran.lost:
        yield f"Lost, to be tried anew with --resume: {reason}."


def status(ran: "Ran") -> int:
    """The exit code: 0 where some point is feasible."""
    from planner.cli import Status

    if ran.lost:
        return Status.INTERNAL
    return Status.FEASIBLE if any(point.feasible for point in ran.answer.points) else Status.INFEASIBLE


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[int, int, int], None]]:
    """A bar on standard error."""
    from planner.cli import progress as bar

    with bar(quiet) as tell:
        yield lambda done, of, points: tell(f"{done} of {of} rows, {points} points worked out", done / of)
