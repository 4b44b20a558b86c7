"""The call that asks one question at many points."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from planner.api.asking import File, Texts, choice, integer, path_of, seed_of, texts
from planner.catalog.knowledge import Files, knowledge
from planner.console.shipped import shipped
from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.answers import StudyResults
    from planner.questions.studies.run import Ran


def study(
    file: File,
    out: File,
    *,
    resume: bool = False,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
) -> "StudyResults":
    """One question at many points, kept in the folder `out`. With `resume`, points that are there already are taken.

    InputError where points are missing because their workers died; what is finished is kept.
    """
    from planner.answers import StudyResults
    from planner.questions.studies.results import write

    path_of("out", out)
    ran = run_study(file, out, resume, engine, address, workers, overrides, catalog, profiles, seed)
    write(ran.answer, Path(out))
    if ran.lost:
        raise InputError(f"{out}: points are missing: {ran.lost[0]}. Try them anew with resume.")
    return StudyResults.of(ran.answer)


def run_study(
    file: File,
    out: File,
    resume: bool,
    engine: str,
    address: str | None,
    workers: int | None,
    overrides: Texts,
    catalog: Files,
    profiles: Files,
    seed: int | None,
    progress: Callable[[int, int, int], None] = lambda _done, _rows, _points: None,
) -> "Ran":
    """The answer to a study and how it came about; its points are kept in `out`."""
    from planner.questions.studies.engine import Context
    from planner.questions.studies.engines import EngineName, opened
    from planner.questions.studies.reading import load_study
    from planner.questions.studies.run import run_study as run

    name = choice(EngineName, "engine", engine)
    processes = workers if workers is None else integer("workers", workers)
    study = load_study(shipped(path_of("file", file)), texts(overrides), seed_of(seed))
    context = Context(*knowledge(catalog, profiles))
    return run(study, context, opened(name, context, processes, address), Path(out), resume=resume, tell=progress)
