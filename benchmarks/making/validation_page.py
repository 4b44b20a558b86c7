"""The page of all recorded runs, measured beside simulated: `make validation` writes it into docs/validation.md."""

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import hypot, isfinite, log, sqrt
from pathlib import Path
from statistics import fmean, geometric_mean, median, stdev

from planner.io.store import StoreError, write_text
from planner.questions.validation.answer import SHARES, Compared, Coverage, Validation
from planner.questions.validation.comparison import validate
from planner.questions.validation.recording import Recording, read_recording
from planner.questions.validation.simulating import stretched
from planner.questions.validation.speed import RehearsedSpeed, speed_of
from planner.show.document import Rows
from planner.show.terminal import plain
from planner.show.text.validation import (
    METRICS,
    coverage_line,
    error,
    figure,
    largest_error,
    likely_cause,
    machine_line,
    times,
)
from planner.units.writing import counted, markdown

BEGIN, END = "<!-- made by `make validation` -->", "<!-- end -->"
PAGE_METRICS = ("p50_s", "p95_s", "p99_s", "slo_attainment")
SESSIONS = (3, 4)
"""Sessions of a calibration whose worth the page shows."""


def page(directory: Path) -> list[str]:
    """A section for each folder of recordings, a folder for each machine."""
    lines: list[str] = []
    for path in sorted(path for path in directory.glob("*") if path.is_dir()):
        recordings = [read_recording(file) for file in sorted(path.glob("*.json*"))]
        if recordings:
            folder = folder_of(path.name, recordings)
            lines += ["", *section(folder.name, folder.rehearsed, otherwise(folder))]
    return lines


@dataclass(frozen=True, slots=True)
class Folder:
    """All runs of one machine, in order of time."""

    name: str
    rehearsed: Sequence[Validation]
    """As they were rehearsed."""
    alone: Sequence[Validation]
    """By profiles of one session."""
    joined: Mapping[int, Sequence[Validation]]
    """By profiles of so many sessions, those runs that had enough before them."""


def otherwise(folder: Folder) -> list[str]:
    """How far all runs together are off by profiles alone."""
    lines = ["", *block("The same by profiles alone, as if nobody had rehearsed:", folder.alone)]
    for count, answers in folder.joined.items():
        if answers:
            runs = counted(len(answers), "run")
            title = f"By profiles of {count} sessions joined, the first and the last {count - 1} before each of {runs}:"
            lines += ["", *block(title, answers)]
    return lines


def folder_of(name: str, recordings: Sequence[Recording]) -> Folder:
    """All runs of one machine in all ways."""
    in_time = sorted(recordings, key=lambda recording: recording.created_at)
    joined = {
        count: [
            validate(of_sessions(in_time[number], in_time[number - count + 1 : number]), by_profiles=True, causes=False)
            for number in range(count - 1, len(in_time))
        ]
        for count in SESSIONS
    }
    alone = [validate(recording, by_profiles=True, causes=False) for recording in recordings]
    return Folder(name, list(map(validate, recordings)), alone, joined)


def section(name: str, answers: Sequence[Validation], beside: Sequence[str] = ()) -> list[str]:
    """All runs of one machine; `beside` are lines on the same runs told otherwise."""
    return [
        *(f"## {name}", "", *(f"{line}." for line in dict.fromkeys(map(machine_line, answers))), ""),
        *(*block("Errors over all models of all runs:", answers), *beside, ""),
        *("Measured / simulated, and the error:", "", *rows_markdown(answers), ""),
        *device_rows_markdown(answers),
    ]


def block(title: str, answers: Sequence[Validation]) -> list[str]:
    """Errors and coverage of some runs together."""
    return [title, "", *overall(answers), f"- {coverage_line(pooled(answers))}"]


def overall(answers: Sequence[Validation]) -> list[str]:
    """How far all runs together are off, each figure the median over models and runs, and the worst."""
    models = [model for answer in answers for model in answer.models]
    lines = []
    for metric in PAGE_METRICS:
        found = sorted(abs(model.error[metric]) for model in models if isfinite(model.error[metric]))
        if found:
            unit = "points" if metric in SHARES else "%"
            middle, average = median(found), fmean(found)
            lines.append(
                f"- {METRICS[metric][0]}: median {middle * 100:.1f} {unit}, mean {average * 100:.1f} {unit}, "
                f"worst {found[-1] * 100:.1f} {unit}"
            )
    return lines


def pooled(answers: Sequence[Validation]) -> Coverage:
    """Coverage over several runs."""
    found = [answer.coverage for answer in answers]
    return Coverage(inside=sum(c.inside for c in found), of=sum(c.of for c in found), fixed=sum(c.fixed for c in found))


def rows_markdown(answers: Sequence[Validation]) -> list[str]:
    """One row for each model of each run: measured beside simulated."""
    rows = Rows([(answer, model) for answer in answers for model in answer.models])
    return markdown(
        plain(
            [
                rows.words("scenario", lambda row: row[0].scenario),
                rows.words("model", lambda row: row[1].name),
                *(rows.figures(METRICS[metric][0], partial(with_error, metric)) for metric in PAGE_METRICS),
            ]
        )
    )


def with_error(metric: str, row: tuple[Validation, Compared]) -> str:
    """`81.2 ms / 79.9 ms (-1.6 %)`."""
    return f"{beside(metric, row[1])} ({error(metric, row[1].error[metric])})"


def device_rows_markdown(answers: Sequence[Validation]) -> list[str]:
    """One row for each run: what the device did, how many figures lie in their intervals, and why the rest differ."""
    rows = Rows(answers)
    return markdown(
        plain(
            [
                rows.words("scenario", "scenario"),
                rows.figures("requests", lambda a: f"{a.requests:,}"),
                rows.figures("speed", lambda a: " / ".join(map(times, levels(a.speeds)))),
                rows.figures("time loading", lambda a: beside("load_share", a.device)),
                rows.figures("peak memory", lambda a: beside("peak_memory_bytes", a.device)),
                rows.figures("in their intervals", lambda a: f"{a.coverage.inside} of {a.coverage.of}"),
                rows.figures("harness", lambda a: f"{a.overhead.share * 100:.2f} %"),
                rows.words("largest error, and its likely cause", lambda a: f"{largest_error(a)} {likely_cause(a)}"),
            ]
        )
    )


def beside(metric: str, row: Compared) -> str:
    """`81.2 ms / 79.9 ms`: measured, simulated."""
    return f"{figure(metric, row.measured[metric])} / {figure(metric, row.simulated[metric])}"


def levels(speeds: Sequence[RehearsedSpeed]) -> list[float | None]:
    """Run times over those of the profiles in each rehearsal."""
    return [*(speed.before for speed in speeds), speeds[-1].after]


def of_sessions(recording: Recording, earlier: Sequence[Recording]) -> Recording:
    """The recording as if its profiles were of several sessions: their own, and the first rehearsals of earlier runs.

    Rehearsals time the same batches some minutes later, so they are sessions of one calibration. All models share what
    they say of the device's speed, as factors on the profiles': a geometric mean, and one standard deviation s of a
    session, which from the mean of n is s x root(1 + 1/n). Speeds of 1, 1.1 and 1.21: 1.1, and 11 %.
    """
    levels = [1.0, *filter(None, (speed_of(other.rehearsals[:1]).before for other in earlier))]
    speed = geometric_mean(levels)
    session_cv = stdev(map(log, levels)) * sqrt(1 + 1 / len(levels)) if len(levels) > 1 else 0.0
    models = {service.model for service in recording.result.deployment.services}
    deployment = stretched(
        recording.result.deployment, {model: {1: speed} for model in models}, dict.fromkeys(models, speed)
    )
    return replace(
        recording,
        result=replace(recording.result, deployment=deployment),
        run_error={model: hypot(error, session_cv) for model, error in recording.run_error.items()},
        load_error={model: hypot(error, session_cv) for model, error in recording.load_error.items()},
    )


def renew(file: Path, recordings: Path) -> None:
    """Write the part of the document between its marks anew."""
    before, begin, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise StoreError(f"{file}: has no `{BEGIN}` and `{END}`. Put both on lines of their own.")
    made = "\n".join([BEGIN, *page(recordings), "", END])
    write_text(f"{before}{made}{after}", file)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("recordings", type=Path, help="their folder")
    asked = parser.parse_args()
    renew(asked.page, asked.recordings)
