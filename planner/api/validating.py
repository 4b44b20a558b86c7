"""The call that serves a scenario for real, and compares."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from planner.api.asking import File, Note, Question, Texts, load, now, path_of, quantity, unheard
from planner.catalog.knowledge import Files, paths
from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.questions.validation.answer import Validation
    from planner.questions.validation.recording import Recording


def validate(
    scenario: "Question | None" = None,
    *,
    replay: File | None = None,
    device: str = "cuda:0",
    duration_s: float | str | None = None,
    record: File | None = None,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = ("profiles",),
    seed: int | None = None,
    by_profiles: bool = False,
) -> "Validation":
    """A scenario served for real for `duration_s` seconds, or a recorded run, beside the same simulated. **Runs the
    models' code** and measures what is missing into the first of `profiles`. InputError unless one of both is given.

    Without `duration_s` it lasts as long as the scenario's `horizon`, or 30 s. `record` keeps the run; a warning
    says where it cannot be kept. `by_profiles` simulates as a plan would, at the speed of the profiles.
    """
    recording = recorded(scenario, replay, device, duration_s, record, overrides, catalog, profiles, seed)
    answer, unkept = compared(recording, record if replay is None else None, by_profiles)
    if unkept:
        warnings.warn(str(unkept), stacklevel=2)
    return answer


def recorded(
    scenario: "Question | None",
    replay: File | None,
    device: str,
    duration_s: float | str | None,
    record: File | None,
    overrides: Texts,
    catalog: Files,
    profiles: Files,
    seed: int | None,
    note: Note = unheard,
) -> "Recording":
    """The run that is compared. `record` is where it will be kept: an InputError comes before it is served."""
    from planner.catalog.catalog import load_catalog
    from planner.questions.validation.bench import DURATION_S, LONGEST_S, ValidationBench
    from planner.questions.validation.bench import record as served
    from planner.questions.validation.recording import check_target, read_recording
    from planner.units.reading import duration

    if (scenario is None) == (replay is None):
        raise InputError("name either scenario or replay.")
    if replay is not None:
        return read_recording(path_of("replay", replay))
    assert scenario is not None
    if record is not None:
        check_target(path_of("record", record), Path(scenario) if isinstance(scenario, File) else Path())
    loaded = load(scenario, overrides, seed)
    usual_s = loaded.scenario.horizon or DURATION_S
    lasts_s = usual_s if duration_s is None else quantity("duration_s", duration, duration_s)
    if not 0 < lasts_s <= LONGEST_S:
        raise InputError(f"duration_s: must be above 0, and a day at most, got {lasts_s:g}.")
    bench = ValidationBench(device=device, catalog=load_catalog(paths(catalog)), directories=tuple(paths(profiles)))
    return served(loaded, bench, lasts_s, now(), note)


def compared(recording: "Recording", record: File | None, by_profiles: bool) -> "tuple[Validation, InputError | None]":
    """The comparison, and why its run could not be kept: what was served is worth it even then."""
    from planner.io.store import StoreError
    from planner.questions.validation.comparison import validate as compare
    from planner.questions.validation.recording import write_recording

    unkept: InputError | None = None
    if record is not None:
        try:
            write_recording(recording, Path(record))
        except StoreError as error:
            unkept = error
    return compare(recording, by_profiles=by_profiles), unkept
