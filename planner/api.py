"""Every command as a call: `from planner import plan, simulate, study`. `merge analyze` is `merge_analyze`.

Calls give answers as data, print nothing, and raise `simulator.errors.InputError`, in lines for people, where a command
ends with exit code 2. The command line calls them too. Nothing is imported before it is needed.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from planner.catalog.knowledge import Files, knowledge, paths
from planner.console.shipped import shipped
from planner.model.progress import Progress, silent
from simulator.errors import InputError

if TYPE_CHECKING:
    import planner.model.plan
    import planner.model.scenario
    from calibrate.devices.doctor import Finding
    from calibrate.sessions.join import JoinedProfile
    from planner.answers import HorizonAnswer, StudyResults, TrainingAnswer, WhatIfAnswer
    from planner.catalog.sold import Instance
    from planner.compare.diff import Diff
    from planner.compare.reprice import Repriced
    from planner.compare.speed_prices import SpeedPrice
    from planner.imports.price_lists.lists import PriceImport
    from planner.io.load import Loaded
    from planner.io.traces.summary import TraceSummary
    from planner.io.traces.table import TraceTable
    from planner.objects import Plan, Simulation
    from planner.placing.merging.analysis import Analysis
    from planner.prediction.queries import QueryAnswer
    from planner.questions.merging.breakeven import Breakeven
    from planner.questions.profiling.anatomy import Anatomy
    from planner.questions.profiling.model_costs import ModelCosts
    from planner.questions.studies.run import Ran
    from planner.questions.training.check import Check
    from planner.questions.validation.answer import Validation
    from planner.questions.validation.recording import Recording
    from simulator.world.hardware import GPU
    from simulator.world.profile import Profile

File = str | Path
Texts = Sequence[str] | None
Question: TypeAlias = "File | Mapping[str, Any] | planner.model.scenario.Scenario"
"""A YAML file, the same as a mapping, or a scenario made in Python."""
COUNT_MAX = 10_000
"""GPUs that a simulation may have."""
Shape = str | tuple[int, ...]
"""One sample's shape: `3x224x224` or `(3, 224, 224)`."""
Choice = TypeVar("Choice", bound=StrEnum)


def unheard(_text: str) -> None:
    """A note that nobody reads."""


# Serving


def plan(
    scenario: Question,
    *,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    cache: bool = False,
    progress: Progress = silent,
) -> "Plan":
    """The cheapest GPUs that meet every SLO of a scenario. `overrides` are those of `--set`.

    `cache`: keep it in the user's cache, and answer from there where nothing has changed since, the day included.
    """
    from planner.io.warm import warm_plan
    from planner.objects import Plan

    loaded, created_at = load(scenario, overrides, seed), now()

    def work() -> "planner.model.plan.Plan":
        from planner.search.plan import plan as search

        known, library = knowledge(catalog, profiles)
        return search(loaded, known, library, created_at=created_at, progress=progress)

    folders = paths(catalog), paths(profiles)
    return Plan.of(warm_plan(loaded, folders, created_at, work) if cache else work())


def simulate(
    scenario: Question,
    gpu: str | None = None,
    count: int | None = None,
    *,
    plan: "planner.model.plan.Plan | None" = None,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    progress: Progress = silent,
) -> "Simulation":
    """A scenario replayed on `count` GPUs of a kind, or as `plan` placed it. InputError unless one of both is given."""
    from planner.objects import Simulation
    from planner.search.simulation import simulate_named, simulate_plan

    named = gpu is not None and count is not None
    if named == (plan is not None) or (gpu is None) != (count is None):
        raise InputError("name either gpu and count, or plan.")
    if count is not None:
        within("count", count, 1, COUNT_MAX)
    known, library = knowledge(catalog, profiles)
    loaded = load(scenario, overrides, seed)
    today = datetime.now(UTC).date()
    if plan is not None:
        return Simulation.of(simulate_plan(loaded, known, library, plan, today, progress))
    assert gpu is not None
    assert count is not None
    return Simulation.of(simulate_named(loaded, known, library, gpu, count, today, progress))


def horizon(
    scenario: Question,
    *,
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    check_day: str | None = None,
    progress: Progress = silent,
) -> "HorizonAnswer":
    """Ways to keep GPUs over the days of a scenario's `calendar`: fixed, autoscaled, a reserved base, spot.

    `check_day` names a way whose busiest day is replayed frame by frame too: minutes.
    """
    from planner.answers import HorizonAnswer
    from planner.model.choices import HorizonWay
    from planner.questions.horizons.weigh import horizon as weighed

    check = None if check_day is None else choice(HorizonWay, "check_day", check_day)
    loaded = load(scenario, overrides, seed)
    known, library = knowledge(catalog, profiles)
    answer = weighed(loaded, known, library, created_at=now(), check=check, progress=progress)
    return HorizonAnswer.of(answer)


def whatif(
    plan: "planner.model.plan.Plan",
    *,
    lose: int = 0,
    load: float = 1.0,
    overrides: Texts = (),
    scenario: File | None = None,
    catalog: Files = (),
    profiles: Files = (),
    seed: int | None = None,
    progress: Progress = silent,
) -> "WhatIfAnswer":
    """What a plan does as it stands with `lose` machines away, at `load` times the rates, with its scenario changed.

    `scenario` is where the plan's scenario lay, if it names recordings beside it.
    """
    from planner.answers import WhatIfAnswer
    from planner.io.load import MADE, load_text
    from planner.questions.readiness.whatif import whatif as answered

    if not plan.scenario_text:
        raise InputError("plan: does not hold its scenario. Run `planner plan` again.")
    changes = seeded(overrides, seed)
    path = MADE if scenario is None else Path(scenario)
    loaded = load_text(plan.scenario_text, path, [*plan.scenario_overrides, *changes])
    known, library = knowledge(catalog, profiles)
    return WhatIfAnswer.of(
        answered(
            loaded,
            known,
            library,
            plan,
            lose=lose,
            load=load,
            overrides=changes,
            created_at=now(),
            progress=progress,
        )
    )


def validate(
    scenario: "Question | None" = None,
    *,
    replay: File | None = None,
    device: str = "cuda:0",
    duration_s: float | None = None,
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
    answer, unkept = run_validation(
        scenario, replay, device, duration_s, record, overrides, catalog, profiles, seed, by_profiles
    )
    if unkept:
        warnings.warn(str(unkept), stacklevel=2)
    return answer


def run_validation(
    scenario: "Question | None",
    replay: File | None,
    device: str,
    duration_s: float | None,
    record: File | None,
    overrides: Texts,
    catalog: Files,
    profiles: Files,
    seed: int | None,
    by_profiles: bool,
    note: Callable[[str], None] = unheard,
) -> "tuple[Validation, InputError | None]":
    """The comparison, and why its run could not be kept: what was served is worth it even then."""
    from planner.io.store import StoreError
    from planner.questions.validation.comparison import validate as compare
    from planner.questions.validation.recording import read_recording, write_recording

    if (scenario is None) == (replay is None):
        raise InputError("name either scenario or replay.")
    if replay is not None:
        return compare(read_recording(Path(replay)), by_profiles=by_profiles), None
    assert scenario is not None
    recording = serve(scenario, device, duration_s, record, overrides, catalog, profiles, seed, note)
    unkept: InputError | None = None
    if record is not None:
        try:
            write_recording(recording, Path(record))
        except StoreError as error:
            unkept = error
    return compare(recording, by_profiles=by_profiles), unkept


def serve(
    scenario: Question,
    device: str,
    duration_s: float | None,
    record: File | None,
    overrides: Texts,
    catalog: Files,
    profiles: Files,
    seed: int | None,
    note: Callable[[str], None],
) -> "Recording":
    """The run that is compared. `record` is where it will be kept: an InputError comes before it is served."""
    from planner.catalog.catalog import load_catalog
    from planner.questions.validation.bench import DURATION_S, LONGEST_S, ValidationBench
    from planner.questions.validation.bench import record as served
    from planner.questions.validation.recording import check_target

    if record is not None:
        check_target(Path(record), Path(scenario) if isinstance(scenario, File) else Path())
    loaded = load(scenario, overrides, seed)
    lasts_s = (loaded.scenario.horizon or DURATION_S) if duration_s is None else duration_s
    if not 0 < lasts_s <= LONGEST_S:
        raise InputError(f"duration_s: must be above 0, and a day at most, got {lasts_s:g}.")
    bench = ValidationBench(device=device, catalog=load_catalog(paths(catalog)), directories=tuple(paths(profiles)))
    return served(loaded, bench, lasts_s, now(), note)


# Training, studies


def train(scenario: File, *, overrides: Texts = (), catalog: Files = (), profiles: Files = ()) -> "TrainingAnswer":
    """How long a training takes, whether it fits, and what it costs: all options, the cheapest, the fastest."""
    from planner.answers import TrainingAnswer
    from planner.questions.training.plan import train as answer
    from planner.questions.training.scenario import load_training

    return TrainingAnswer.of(
        answer(
            load_training(shipped(Path(scenario)), texts(overrides)),
            *knowledge(catalog, profiles),
            datetime.now(UTC).date(),
        )
    )


def train_measured(
    scenario: File,
    device: str = "cuda:0",
    *,
    batch: int | None = None,
    samples: int | None = None,
    overrides: Texts = (),
) -> "Check":
    """`train --measure`: a short epoch here, beside what was predicted. **Runs the model's code.**"""
    from planner.questions.training.check import check
    from planner.questions.training.scenario import load_training

    return check(load_training(shipped(Path(scenario)), texts(overrides)), device, batch, samples)


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
    from planner.questions.studies.run import run_study as run
    from planner.questions.studies.scenario import load_study

    name = choice(EngineName, "engine", engine)
    study = load_study(shipped(Path(file)), texts(overrides), seed)
    context = Context(*knowledge(catalog, profiles))
    return run(study, context, opened(name, context, workers, address), Path(out), resume=resume, tell=progress)


# Models


def profile(
    model: str,
    gpu: str | None = None,
    *,
    batch: int = 1,
    precision: str = "fp32",
    resolution: int | None = None,
    input_shape: Shape | None = None,
    device: str | None = None,
    dataflow: str | None = None,
    measure: bool = False,
    catalog: Files = (),
    profiles: Files = (),
) -> "Anatomy":
    """Where one model's time and memory go, layer by layer. `input_shape` is one sample's. **Runs one's own code.**"""
    from planner.questions.profiling.anatomy import look
    from planner.questions.profiling.wish import BATCH_MAX, SIDE_MAX, SIDE_MIN, wished

    within("batch", batch, 1, BATCH_MAX)
    if resolution is not None:
        within("resolution", resolution, SIDE_MIN, SIDE_MAX)
    known, library = knowledge(catalog, profiles)
    wish = wished(known, model, shape_text(input_shape), resolution, batch, precision, gpu, device, dataflow, measure)
    return look(wish, library, known.gpus, paths(profiles))


def predict(file: File, *, catalog: Files = ()) -> "list[QueryAnswer]":
    """Times of batches that nobody may have measured, a row for each of a CSV file: gpu, model, input, precision,
    runtime, batch; an empty cell means the usual."""
    from planner.catalog.catalog import load_catalog
    from planner.prediction.queries import answers

    return list(answers(shipped(Path(file)), load_catalog(paths(catalog)).gpus))


def merge_analyze(*models: str, input_shape: Shape | None = None, profiles: Files = ()) -> "Analysis":
    """Layers that models could share: names of any models or of measured profiles.

    `input_shape` is that of one sample of those that are named by where they come from. **Their code is run.**
    """
    from planner.placing.merging.analysis import analyze
    from planner.placing.merging.layers import layers_of, named
    from planner.questions.profiling.wish import sizes

    library = knowledge((), profiles)[1] if profiles else None
    text = shape_text(input_shape)
    shape = sizes(text) if text else None
    return analyze(named(models, lambda model: layers_of(model, library, shape if ":" in model else None)))


def merge_breakeven(
    scenario: Question,
    *,
    loads: Sequence[float] = (),
    counts: Sequence[int] = (),
    overrides: Texts = (),
    catalog: Files = (),
    profiles: Files = (),
    progress: Progress = silent,
) -> "Breakeven":
    """Which way of serving costs least, at `loads` times the scenario's and with the first `counts` of its models."""
    from planner.questions.merging.breakeven import breakeven

    loaded = load(scenario, overrides)
    return breakeven(loaded, *knowledge(catalog, profiles), loads, counts, progress)


def merge_train(spec: File, out: File, device: str = "cuda:0", *, resume: bool = False) -> dict[str, Any]:
    """Models trained to share layers: accuracy against memory, as in `curve.json`. **Runs the tasks' code.**

    InputError where it did not end well; standard error has the reason.
    """
    import json

    from calibrate.joint.spec import CURVE

    if code := run_joint(spec, out, device, resume, quiet=True):
        raise InputError(f"{spec}: the training ended with exit code {code}.")
    return dict(json.loads((Path(out) / CURVE).read_text(encoding="utf-8")))


def run_joint(spec: File, out: File, device: str, resume: bool, quiet: bool) -> int:
    """The exit code of a training of models that share layers; below 0 the signal that ended it."""
    import json

    from planner.questions.merging.joint import read_joint_spec, run

    options = ["--out", str(out), "--device", device]
    if resume:
        options.append("--resume")
    if quiet:
        options.append("--quiet")
    return run(json.dumps(read_joint_spec(Path(spec)).to_json()), options)


def calibrate(*options: str) -> int:
    """Measure what models cost, by the options of the command: `calibrate("--device", "cpu", ...)`; its exit code."""
    from calibrate.cli import main

    return main(options, "planner calibrate")


def doctor(device: str = "cuda:0", out: File = "profiles") -> "list[Finding]":
    """Findings about a device: obstacles to measuring it, each with a remedy."""
    from calibrate.devices.doctor import diagnose

    return diagnose(device, Path(out))


def profiles_list(profiles: Files = (), catalog: Files = ()) -> "list[Profile]":
    """Profiles of all models on all GPUs, then what was published of all architectures."""
    from calibrate.published.names import architectures

    library = knowledge(catalog, profiles)[1]
    named = [profile for model in library.models() for profile in library.for_model(model)]
    return [*named, *(profile for name in architectures() for profile in library.published_of(name))]


def profiles_show(model: str, gpu: str | None = None, *, profiles: Files = (), catalog: Files = ()) -> "list[Profile]":
    """All figures of a model; InputError where nothing is known."""
    from planner.catalog.choosing import choose

    return list(choose(knowledge(catalog, profiles)[1], model, gpu))


def profiles_table(
    *models: str,
    batches: Sequence[int] = (1, 2, 4),
    gpu: str | None = None,
    precision: str | None = None,
    profiles: Files = (),
    catalog: Files = (),
) -> "ModelCosts":
    """Memory and time to load models and to run them, side by side; on one `gpu` what nobody measured is predicted."""
    from calibrate.zoo.sources import LECTURE
    from planner.questions.profiling.model_costs import model_costs

    known, library = knowledge(catalog, profiles)
    groups = {"all": (), "lecture": LECTURE}
    named = [model for name in models for model in groups.get(name, (name,))]
    return model_costs(library, known, batches, named, gpu, precision, everything="all" in models)


def profiles_device(
    kind: str | None = None, *, profiles: Files = (), plot: File | None = None
) -> list[Mapping[str, Any]]:
    """The files of measured devices, or of one: `gpu`, `probes` with samples, `provenance`; `plot` draws it."""
    from calibrate.library.lookup import device_files

    found = device_files(paths(profiles), kind)
    if plot:
        from planner.show.pictures import draw_device

        draw_device(found, Path(plot))
    return found


def profiles_join(*folders: File, out: File) -> "list[JoinedProfile]":
    """Calibrations joined into profiles under `out`, which say how far sessions, GPUs and hosts differ."""
    from calibrate.sessions.join import join

    return join([Path(folder) for folder in folders], Path(out))


def profiles_import(
    *files: File, out: File = "profiles", form: str | None = None, catalog: Files = (), **added: Any
) -> "tuple[Profile, Path]":
    """The profile that another tool's files make, and where in the folder `out` it is.

    `added` says what they do not: `model`, `gpu`, `precision`, `runtime`, `input`, `batch`, `batches` of each file,
    `column`, `gpu_count`, `weight_bytes`, `memory_bytes`.
    """
    from planner.catalog.catalog import load_catalog
    from planner.imports.measurements.files import Added
    from planner.imports.measurements.profiles import import_profile
    from planner.model.choices import MeasurementFormat

    known = load_catalog(paths(catalog)).gpus
    named = choice(MeasurementFormat, "form", form) if form else None
    return import_profile([Path(file) for file in files], Path(out), Added(**added), known, named)


def profiles_export(
    model: str, gpu: str | None = None, precision: str | None = None, *, profiles: Files = (), catalog: Files = ()
) -> str:
    """A profile as plain CSV, which `profiles_import` reads back."""
    from planner.imports.measurements.profiles import export_profile
    from planner.show.pictures import choose_one

    library = knowledge(catalog, profiles)[1]
    return export_profile(choose_one(library, model, gpu, precision), library)


def profiles_plot(
    model: str,
    out: File,
    what: str = "latency",
    gpu: str | None = None,
    precision: str | None = None,
    *,
    profiles: Files = (),
    catalog: Files = (),
) -> "Profile":
    """A picture of what a model costs: `latency`, `memory` or `layers`."""
    from planner.model.choices import Picture
    from planner.show.pictures import draw

    library = knowledge(catalog, profiles)[1]
    return draw(library, model, gpu, precision, choice(Picture, "what", what), Path(out))


def prices_import(
    *files: File,
    out: File = "catalog",
    form: str | None = None,
    provider: str | None = None,
    region: str | None = None,
    as_of: str | None = None,
    catalog: Files = (),
) -> "PriceImport":
    """Price lists of others put into `out`/prices.csv, and what that changes."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.price_lists.lists import files_of, import_prices, read_source
    from planner.model.choices import PriceListFormat

    named = choice(PriceListFormat, "form", form) if form else None
    found = files_of([Path(file) for file in files])
    sources = [read_source(file, named, provider, region, as_of) for file in found]
    return import_prices(sources, Path(out), load_catalog(paths(catalog)))


def prices_refresh(*names: str, out: File = "catalog", url: str | None = None, catalog: Files = ()) -> "PriceImport":
    """The same of public lists, **fetched from the internet**, from their own addresses or from `url`."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.price_lists.lists import import_prices
    from planner.imports.price_lists.refresh import fetched
    from planner.model.choices import PublicList

    sources = [fetched(choice(PublicList, "names", name), url) for name in names]
    return import_prices(sources, Path(out), load_catalog(paths(catalog)))


def gpus_show(kind: str | None = None, *, catalog: Files = ()) -> "dict[str, GPU]":
    """Kinds of GPU by name: all, or one."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.gpu_kinds import chosen

    return chosen(load_catalog(paths(catalog)).gpus, kind)


def gpus_add(kind: str, out: File = "catalog", *, catalog: Files = (), **figures: Any) -> Path:
    """A kind of GPU put into `out`/gpus.yaml; `figures` are its keys there, such as `memory_gb=11`."""
    from planner.catalog.catalog import load_catalog
    from planner.imports.gpu_kinds import add_kind

    return add_kind(kind, figures, Path(out), load_catalog(paths(catalog)).gpus)


def prices_show(gpu: str | None = None, provider: str | None = None, *, catalog: Files = ()) -> "list[Instance]":
    """Instances and their prices."""
    from planner.catalog.catalog import load_catalog
    from planner.catalog.choosing import choose_instances

    return list(choose_instances(load_catalog(paths(catalog)), gpu, provider))


def prices_table(gpu: str | None = None, provider: str | None = None, *, catalog: Files = ()) -> "list[SpeedPrice]":
    """Machines at every kind of price, least dollars for a TFLOP/s first."""
    from planner.catalog.catalog import load_catalog
    from planner.catalog.choosing import choose_instances, choose_purchases
    from planner.compare.speed_prices import speed_prices

    known = load_catalog(paths(catalog))
    return speed_prices(known, choose_instances(known, gpu, provider), choose_purchases(known, gpu, provider))


# Answers


def explain(answer: Any) -> str:
    """Why an answer is what it is: a plan, simulation, training, study, horizon, or what a plan would do."""
    from planner.show.kept import explained
    from planner.units.writing import Screen

    return explained(answer, Screen())


def read_plan(file: File) -> "Plan":
    """A plan that was kept."""
    from planner.io.store import read_plan as read
    from planner.objects import Plan

    return Plan.of(read(Path(file)))


def write_plan(plan: "planner.model.plan.Plan", file: File) -> None:
    """Keep a plan; commands go on from there. InputError where the file holds something else."""
    from planner.objects import Plan

    Plan.of(plan).save(file)


def report(answer: File, out: File) -> None:
    """A kept answer as one HTML page that opens offline: a plan, simulation, training, study or horizon as JSON."""
    from planner.io.store import write_text
    from planner.show.kept import document_of, read_kept
    from planner.show.page.render import check_page, page

    check_page(Path(out))
    write_text(page(document_of(read_kept(Path(answer)))), Path(out))


def diff(old: File, new: File) -> "Diff":
    """Differences between two kept answers, and which figures differ by more than chance."""
    from planner.compare.answers import read_answer
    from planner.compare.diff import compare

    return compare(read_answer(Path(old)), read_answer(Path(new)))


def reprice(plan: "planner.model.plan.Plan | File", prices: File, kind: str | None = None) -> "tuple[Plan, Repriced]":
    """A plan at the prices in a file or folder, and what that changes. Nothing is simulated again."""
    from planner.compare.reprice import read_prices
    from planner.compare.reprice import reprice as at_prices
    from planner.model.choices import PriceKind
    from planner.objects import Plan

    wanted = None if kind is None else choice(PriceKind, "kind", kind)
    known = read_prices(Path(prices), wanted)
    old = read_plan(plan) if isinstance(plan, File) else plan
    name = str(plan) if isinstance(plan, File) else plan.scenario
    new, changes = at_prices(old, name, known, now())
    return Plan.of(new), changes


def export(plan: "planner.model.plan.Plan | File", to: str, out: File, *, force: bool = False) -> Mapping[str, str]:
    """Files that deploy, watch or draw a plan, written to a folder. Their texts by path in that folder.

    `to`: one of `planner.model.choices.Target`.
    """
    from planner.exports.targets import export as written

    if isinstance(plan, File):
        return written(read_plan(plan), to, Path(out), force, str(plan))
    return written(plan, to, Path(out), force)


# From and for other programs


def from_triton(repository: File, *, rates: Sequence[str] = (), slos: Sequence[str] = (), profiles: Files = ()) -> str:
    """The text of a scenario made of a Triton model repository: `rates=["10 rps", "resnet50=20 rps"]`."""
    from planner.imports.serving.from_triton import read

    return read(Path(repository), rates, slos, knowledge((), profiles)[1]).text()


def trace_describe(file: File, column: str | None = None, function: str | int = 1) -> "TraceSummary":
    """Count, rate and burstiness of a recording."""
    from planner.io.traces.reading import read_trace
    from planner.io.traces.summary import describe

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
    from planner.io.store import demand_place
    from planner.io.traces.writing import import_trace

    if Path(out).suffix.lower() != ".csv":
        raise InputError(f"out: must end in .csv, got {out}.")
    demand_place(Path(out))
    return import_trace(Path(file), Path(out), rate_rps, duration_s, function, column)


def init(source: File | None = None, *, training: bool = False, profiles: Files = ()) -> str:
    """The text of a commented scenario to start from; with `source`, of what another tool serves by that file."""
    from planner.io.starter import starter

    if source is None:
        return starter(training=training)
    from planner.imports.serving.formats import read
    from planner.imports.serving.scenario_text import Import

    return Import(read(Path(source)), knowledge((), profiles)[1]).text()


def schema(*, training: bool = False) -> dict[str, Any]:
    """The JSON Schema of scenarios."""
    from planner.io.load import schema as schema_of
    from planner.model.scenario import Scenario
    from planner.questions.training.scenario import TrainingScenario

    return schema_of(TrainingScenario if training else Scenario)


# Shared by the calls


def load(scenario: Question, overrides: Texts, seed: int | None = None) -> "Loaded":
    """A scenario with what belongs to it; InputError lists all that is wrong with it."""
    from planner.io.load import load_data, load_scenario
    from planner.model.checked import stated, values_of
    from planner.model.scenario import Scenario

    changes = seeded(overrides, seed)
    match scenario:
        case str() | Path():
            return load_scenario(shipped(Path(scenario)), changes)
        case Mapping():
            return load_data(scenario, changes)
        case Scenario():
            return load_data(stated(Scenario, values_of(scenario)), changes)
    raise InputError(f"scenario: must be a file, a mapping or a Scenario, got a {type(scenario).__name__}.")


def texts(overrides: Texts) -> list[str]:
    """Overrides in a list."""
    if isinstance(overrides, str):
        raise InputError(f'overrides: must be a list of texts. Write ["{overrides}"].')
    return list(overrides or ())


def seeded(overrides: Texts, seed: int | None) -> list[str]:
    """Overrides, the seed among them."""
    if seed is not None and seed < 0:
        raise InputError(f"--seed: must be at least 0, got {seed}. Write a whole number from 0.")
    return texts(overrides) + ([] if seed is None else [f"seed={seed}"])


def shape_text(shape: Shape | None) -> str | None:
    """A sample's shape as people write it."""
    return "x".join(map(str, shape)) if isinstance(shape, tuple) else shape


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
