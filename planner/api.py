"""Every command as a call: `from planner import plan, simulate, study`. `merge analyze` is `merge_analyze`.

Calls give answers as data, print nothing, and raise `simulator.errors.InputError`, in lines for people, where a command
ends with exit code 2. Nothing is imported before it is needed.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from planner.knowledge import knowledge
from simulator.errors import InputError

if TYPE_CHECKING:
    from calibrate.doctor import Finding
    from planner.catalog import Instance
    from planner.compare.diff import Diff
    from planner.compare.reprice import Repriced
    from planner.horizons.answer import Horizon
    from planner.merging.analysis import Analysis
    from planner.merging.breakeven import Breakeven
    from planner.plans import Plan
    from planner.profiling.anatomy import Anatomy
    from planner.speed_prices import SpeedPrice
    from planner.studies.engine import Engine
    from planner.studies.results import StudyAnswer
    from planner.terminal import Simulation
    from planner.traces import TraceSummary, TraceTable
    from planner.training.check import Check
    from planner.training.plan import TrainingPlan
    from planner.validation.comparison import Validation
    from simulator.profile import Profile

File = str | Path
Files = Sequence[File]
COUNT_MAX = 10_000
"""GPUs that a simulation may have."""
Choice = TypeVar("Choice", bound=StrEnum)
Progress = Callable[[str, float], None]
"""Hears what goes on, and how much of it is done (0 to 1)."""


def silent(_text: str, _done: float) -> None:
    """Progress that nobody hears."""


# Serving


def plan(
    scenario: File,
    *,
    overrides: Sequence[str] = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    progress: Progress = silent,
) -> "Plan":
    """The cheapest GPUs that keep every promise of a scenario. `overrides` are those of `--set`."""
    from planner.load import load_scenario
    from planner.search import plan as search

    loaded = load_scenario(Path(scenario), seeded(overrides, seed))
    return search(loaded, *knowledge(paths(catalog), paths(profiles)), created_at=now(), progress=progress)


def simulate(
    scenario: File,
    gpu: str | None = None,
    count: int | None = None,
    *,
    plan: "Plan | None" = None,
    overrides: Sequence[str] = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    progress: Progress = silent,
) -> "Simulation":
    """A scenario replayed on `count` GPUs of a kind, or as `plan` placed it. InputError unless one of both is given."""
    from planner.load import load_scenario
    from planner.simulation import simulate_named, simulate_plan

    loaded = load_scenario(Path(scenario), seeded(overrides, seed))
    known, library = knowledge(paths(catalog), paths(profiles))
    today = datetime.now(UTC).date()
    if plan is not None and gpu is None and count is None:
        return simulate_plan(loaded, known, library, plan, today, progress)
    if plan is None and gpu is not None and count is not None:
        within("count", count, 1, COUNT_MAX)
        return simulate_named(loaded, known, library, gpu, count, today, progress)
    raise InputError("name either gpu and count, or plan.")


def horizon(
    scenario: File,
    *,
    overrides: Sequence[str] = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    check_day: str | None = None,
    progress: Progress = silent,
) -> "Horizon":
    """Ways to keep GPUs over the days of a scenario's `calendar`: fixed, autoscaled, a reserved base, spot.

    `check_day` names a way whose busiest day is replayed frame by frame too: minutes.
    """
    from planner.horizons.answer import Way
    from planner.horizons.weigh import horizon as weighed
    from planner.load import load_scenario

    loaded = load_scenario(Path(scenario), seeded(overrides, seed))
    known, library = knowledge(paths(catalog), paths(profiles))
    check = choice(Way, "check_day", check_day) if check_day is not None else None
    return weighed(loaded, known, library, created_at=now(), check=check, progress=progress)


def validate(
    scenario: File | None = None,
    *,
    replay: File | None = None,
    device: str = "cuda:0",
    duration_s: float | None = None,
    record: File | None = None,
    overrides: Sequence[str] = (),
    catalog: Files = (),
    profiles: Files = ("profiles",),
    seed: int | None = None,
) -> "Validation":
    """A scenario served for real for `duration_s` seconds, or a recorded run, beside the same simulated. **Runs the
    models' code** and measures what is missing into the first of `profiles`. InputError unless one of both is given.

    Without `duration_s` it lasts as long as the scenario's `horizon`, or 30 s. `record` keeps the run; a warning
    says where it cannot be kept.
    """
    from planner.catalog import load_catalog
    from planner.load import load_scenario
    from planner.store import StoreError
    from planner.validation.command import DURATION_S
    from planner.validation.comparison import validate as compare
    from planner.validation.recording import check_target, read_recording, write_recording
    from planner.validation.serving import Bench
    from planner.validation.serving import record as serve

    if (scenario is None) == (replay is None):
        raise InputError("name either scenario or replay.")
    if replay is not None:
        return compare(read_recording(Path(replay)))
    assert scenario is not None
    if record is not None:
        check_target(Path(record), Path(scenario))
    loaded = load_scenario(Path(scenario), seeded(overrides, seed))
    lasts_s = (loaded.scenario.horizon or DURATION_S) if duration_s is None else duration_s
    if not lasts_s > 0:
        raise InputError(f"duration_s: must be above 0, got {lasts_s:g}.")
    bench = Bench(device=device, catalog=load_catalog(paths(catalog)), directories=tuple(paths(profiles)))
    recording = serve(loaded, bench, lasts_s, now(), lambda _: None)
    if record is None:
        return compare(recording)
    try:
        write_recording(recording, Path(record))
    except StoreError as error:  # what was served is worth its comparison even where it cannot be kept
        warnings.warn(str(error), stacklevel=2)
    return compare(recording)


# Training, studies


def train(
    scenario: File, *, overrides: Sequence[str] = (), catalog: Files = (), profiles: Files = ()
) -> "TrainingPlan":
    """How long a training takes, whether it fits, and what it costs: all options, the cheapest, the fastest."""
    from planner.training.plan import train as answer
    from planner.training.scenario import load_training

    return answer(load_training(Path(scenario), overrides), *knowledge(paths(catalog), paths(profiles)))


def train_measured(
    scenario: File,
    device: str = "cuda:0",
    *,
    batch: int | None = None,
    samples: int | None = None,
    overrides: Sequence[str] = (),
) -> "Check":
    """`train --measure`: a short epoch here, beside what was foretold. **Runs the model's code.**"""
    from planner.training.check import check
    from planner.training.scenario import load_training

    return check(load_training(Path(scenario), overrides), device, batch, samples)


def study(
    file: File,
    out: File,
    *,
    resume: bool = False,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    overrides: Sequence[str] = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
) -> "StudyAnswer":
    """One question at many points, kept in the folder `out`. With `resume`, points that are there already are taken.

    InputError where points are missing because their workers died; what is finished is kept.
    """
    from planner.studies.command import EngineName, opened
    from planner.studies.engine import Context
    from planner.studies.results import write
    from planner.studies.run import run_study
    from planner.studies.scenario import load_study

    context = Context(*knowledge(paths(catalog), paths(profiles)))
    working: Engine = opened(choice(EngineName, "engine", engine), context, workers, address)
    ran = run_study(load_study(Path(file), overrides, seed), context, working, Path(out), resume=resume)
    write(ran.answer, Path(out))
    if ran.lost:
        raise InputError(f"{out}: points are missing: {ran.lost[0]}. Try them anew with resume.")
    return ran.answer


# Models


def profile(
    model: str,
    gpu: str | None = None,
    *,
    batch: int = 1,
    precision: str = "fp32",
    resolution: int | None = None,
    input_shape: tuple[int, ...] | None = None,
    device: str | None = None,
    dataflow: str | None = None,
    measure: bool = False,
    catalog: Files = (),
    profiles: Files = (),
) -> "Anatomy":
    """Where one model's time and memory go, layer by layer. `input_shape` is one sample's. **Runs one's own code.**"""
    from typer import BadParameter

    from planner.profiling.anatomy import look
    from planner.profiling.command import BATCH_MAX, SIDE_MAX, SIDE_MIN, wished

    within("batch", batch, 1, BATCH_MAX)
    if resolution is not None:
        within("resolution", resolution, SIDE_MIN, SIDE_MAX)
    known, library = knowledge(paths(catalog), paths(profiles))
    shape = "x".join(map(str, input_shape)) if input_shape else None
    try:
        wish = wished(known, model, shape, resolution, batch, precision, gpu, device, dataflow, measure)
    except BadParameter as error:
        raise InputError(error.message) from None
    return look(wish, library, known.gpus, paths(profiles))


def merge_analyze(*models: str, profiles: Files = ()) -> "Analysis":
    """What models could share: names of the zoo or of measured profiles, or package.module:factory."""
    from planner.merging.analysis import analyze, layers_of, named

    library = knowledge((), paths(profiles))[1] if profiles else None
    return analyze(named(models, lambda model: layers_of(model, library)))


def merge_breakeven(
    scenario: File,
    *,
    loads: Sequence[float] = (),
    counts: Sequence[int] = (),
    overrides: Sequence[str] = (),
    catalog: Files = (),
    profiles: Files = (),
    progress: Progress = silent,
) -> "Breakeven":
    """Which way of serving costs least, at `loads` times the scenario's and with the first `counts` of its models."""
    from planner.load import load_scenario
    from planner.merging.breakeven import LOADS, breakeven

    loaded = load_scenario(Path(scenario), overrides)
    return breakeven(loaded, *knowledge(paths(catalog), paths(profiles)), loads or LOADS, counts, progress)


def merge_train(spec: File, out: File, device: str = "cuda:0", *, resume: bool = False) -> dict[str, Any]:
    """Models trained to share layers: accuracy against memory, as in `curve.json`. **Runs the tasks' code.**

    InputError where it did not end well; what is wrong is said on standard error.
    """
    import json

    from calibrate.joint_spec import CURVE
    from planner.merging.train import read_joint_spec, run

    told = json.dumps(read_joint_spec(Path(spec)).to_json())
    if code := run(told, ["--out", str(out), "--device", device, "--quiet", *["--resume"] * resume]):
        raise InputError(f"{spec}: the training ended with exit code {code}.")
    return dict(json.loads((Path(out) / CURVE).read_text(encoding="utf-8")))


def calibrate(*options: str) -> int:
    """Measure what models cost, by the options of the command: `calibrate("--device", "cpu", ...)`; its exit code."""
    from calibrate.cli import main

    return main(options)


def doctor(device: str = "cuda:0", out: File = "profiles") -> "list[Finding]":
    """Whether a device can be measured, and what to do where it cannot."""
    from calibrate.doctor import diagnose

    return diagnose(device, Path(out))


def profiles_list(profiles: Files = ()) -> "list[Profile]":
    """What is known about models on GPUs."""
    library = knowledge((), paths(profiles))[1]
    return [profile for model in library.models() for profile in library.for_model(model)]


def profiles_show(model: str, gpu: str | None = None, *, profiles: Files = ()) -> "list[Profile]":
    """All figures of a model; ListingError where nothing is known."""
    from planner.listings import choose

    return list(choose(knowledge((), paths(profiles))[1], model, gpu))


def profiles_plot(
    model: str, out: File, what: str = "latency", gpu: str | None = None, *, profiles: Files = ()
) -> "Profile":
    """A picture of what a model costs: `latency`, `memory` or `layers`."""
    from calibrate.plot import What
    from planner.pictures import draw

    return draw(knowledge((), paths(profiles))[1], model, gpu, None, choice(What, "what", what), Path(out))


def prices_show(gpu: str | None = None, provider: str | None = None, *, catalog: Files = ()) -> "list[Instance]":
    """Instances and their prices."""
    from planner.catalog import load_catalog
    from planner.listings import choose_instances

    return list(choose_instances(load_catalog(paths(catalog)), gpu, provider))


def prices_table(gpu: str | None = None, provider: str | None = None, *, catalog: Files = ()) -> "list[SpeedPrice]":
    """Machines at every kind of price, least dollars for a TFLOP/s first."""
    from planner.catalog import load_catalog
    from planner.listings import choose_instances, choose_purchases
    from planner.speed_prices import speed_prices

    known = load_catalog(paths(catalog))
    return speed_prices(known, choose_instances(known, gpu, provider), choose_purchases(known, gpu, provider))


# Answers


def explain(plan: "Plan") -> str:
    """Why a plan is what it is, and what would change it."""
    from planner.layout import Screen
    from planner.reasons import explain as reasons

    return reasons(plan, Screen())


def read_plan(file: File) -> "Plan":
    """A plan that was kept."""
    from planner.store import read_plan as read

    return read(Path(file))


def write_plan(plan: "Plan", file: File) -> None:
    """Keep a plan; commands go on from there. InputError where the file holds something else."""
    from planner.store import check_target
    from planner.store import write_plan as write

    check_target(Path(file))
    write(plan, Path(file))


def report(answer: File, out: File) -> None:
    """A kept plan or study (plan.json, study.json) as one HTML page that opens offline."""
    from planner.page.command import check_page
    from planner.page.render import report_page
    from planner.store import write_text

    check_page(Path(out))
    write_text(report_page(Path(answer)), Path(out))


def diff(old: File, new: File) -> "Diff":
    """What differs between two kept answers, and which figures by more than chance."""
    from planner.compare.answers import read_answer
    from planner.compare.diff import compare

    return compare(read_answer(Path(old)), read_answer(Path(new)))


def reprice(plan: "Plan", prices: File, kind: str | None = None) -> "tuple[Plan, Repriced]":
    """A plan at the prices in a file or folder, and what that changes. Nothing is simulated again."""
    from planner.compare.reprice import read_prices
    from planner.compare.reprice import reprice as at_prices
    from planner.scenario import PriceKind

    wanted = choice(PriceKind, "kind", kind) if kind is not None else None
    return at_prices(plan, plan.scenario, read_prices(Path(prices), wanted), now())


def export(plan: "Plan", to: str, out: File, *, force: bool = False) -> Mapping[str, str]:
    """Files that deploy, watch or draw a plan, written to a folder: triton, skypilot, kubernetes, ray-serve,
    openmetrics or perfetto. Their texts by path in that folder."""
    from planner.exports.folder import write_folder
    from planner.exports.targets import Target, files_of

    files = files_of(plan, choice(Target, "to", to))
    write_folder(Path(out), to, files, force)
    return files


# What comes from elsewhere


def from_triton(repository: File, *, rates: Sequence[str] = (), slos: Sequence[str] = (), profiles: Files = ()) -> str:
    """The text of a scenario made of a Triton model repository: `rates=["10 rps", "resnet50=20 rps"]`."""
    from planner.importing.from_triton import profiled, read_repository, scenario_text, short_waits, wishes

    found = read_repository(Path(repository))
    wished = wishes(found, rates, slos)
    short_waits(found, wished)
    library = knowledge((), paths(profiles))[1]
    return scenario_text(found, wished, profiled(found, library))


def trace_describe(file: File, column: str | None = None, function: str | int = 1) -> "TraceSummary":
    """Count, rate and burstiness of a recording."""
    from planner.traces import describe, read_trace

    return describe(read_trace(Path(file), column, function))


def trace_import(
    file: File,
    out: File,
    rate_rps: float | None = None,
    duration_s: float | None = None,
    function: str | int = 1,
    column: str | None = None,
) -> "TraceTable":
    """A recording turned into a CSV that a scenario can name."""
    from planner.traces import import_trace

    if Path(out).suffix.lower() != ".csv":
        raise InputError(f"out: must end in .csv, got {out}.")
    return import_trace(Path(file), Path(out), rate_rps, duration_s, function, column)


def init() -> str:
    """The text of a commented scenario to start from."""
    from planner.starter import starter

    return starter()


def schema() -> dict[str, Any]:
    """The JSON Schema of scenarios."""
    from planner.load import schema as scenario_schema

    return scenario_schema()


def paths(files: Files) -> list[Path]:
    """Folders by name."""
    return [Path(file) for file in files]


def seeded(overrides: Sequence[str], seed: int | None) -> list[str]:
    """Overrides, the seed among them."""
    if isinstance(overrides, str):
        raise InputError(f'overrides: must be a list of texts. Write ["{overrides}"].')
    return [*overrides, *([] if seed is None else [f"seed={seed}"])]


def choice(choices: type[Choice], name: str, text: str) -> Choice:
    """The one that is meant; InputError where there is none."""
    if text not in list(choices):
        raise InputError(f"{name}: must be one of {', '.join(choices)}, got {text}.")
    return choices(text)


def within(name: str, number: int, least: int, most: int) -> None:
    """InputError where a number lies outside of what the command would take."""
    if not least <= number <= most:
        raise InputError(f"{name}: must be from {least:,} to {most:,}, got {number}.")


def now() -> str:
    """An ISO time stamp."""
    return datetime.now(UTC).isoformat(timespec="seconds")
