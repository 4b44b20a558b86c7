"""The command line. Commands import what they need when they run, so that help comes at once."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TextIO

import typer

from planner.compare.command import diff, reprice
from planner.exports.command import export
from planner.horizons.command import horizon
from planner.importing.command import from_triton
from planner.knowledge import knowledge
from planner.layout import Format, stdout_screen
from planner.merging.command import analyze, breakeven
from planner.merging.train import train
from planner.page.command import report
from planner.profiling.command import profile
from planner.studies.command import study
from planner.training.command import train as train_model
from planner.validation.command import validate

if TYPE_CHECKING:
    from planner.plans import Plan
    from planner.units import Quantity


CONTROLS = re.compile("\r(?!\n)|(?!\x1b\\[[0-9;]*m)[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, but for ends of lines and colours."""
WORD_MAX, LINE_MAX = 60, 2000
LONG_WORD = re.compile(rf"[^\s/]{{{2 * WORD_MAX},}}")
"""Of an error that quotes what somebody wrote: longer ones are cut, but for paths."""


class Status(IntEnum):
    """Exit codes. Where several apply, the lowest."""

    FEASIBLE = 0
    INTERNAL = 1
    INPUT = 2
    INFEASIBLE = 3
    THRESHOLD = 4
    WEAK = 5


class Picture(StrEnum):
    """What can be drawn of a profile, as in `calibrate.plot`, which help must not import."""

    LATENCY = "latency"
    MEMORY = "memory"
    LAYERS = "layers"


PLAIN: dict[str, Any] = {
    "add_completion": False,
    "no_args_is_help": True,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""Help and errors as plain text; errors of the planner itself are handled in `main`."""

app = typer.Typer(**PLAIN)
profiles_app = typer.Typer(help="What models cost on GPUs.", **PLAIN)
prices_app = typer.Typer(help="What GPUs cost.", **PLAIN)
trace_app = typer.Typer(help="Recorded arrivals.", **PLAIN)
merge_app = typer.Typer(help="Layers that models share, stored once.", **PLAIN)
app.add_typer(profiles_app, name="profiles")
app.add_typer(prices_app, name="prices")
app.add_typer(trace_app, name="trace")
app.add_typer(merge_app, name="merge")

Scenario = Annotated[Path, typer.Argument(metavar="SCENARIO", help="YAML file; `planner init` writes one.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the scenario. Repeatable.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Start of all random numbers, instead of the scenario's.")]
Catalogs = Annotated[
    list[Path] | None,
    typer.Option(
        "--catalog", metavar="DIR", help="Your gpus.yaml and prices.yaml, before the shipped ones. Repeatable."
    ),
]
Profiles = Annotated[
    list[Path] | None,
    typer.Option("--profiles", metavar="DIR", help="Your profiles, before the shipped ones. Repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
TraceFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="CSV, Azure 2023 or 2019, BurstGPT or Mooncake."),
]
TraceColumn = Annotated[str | None, typer.Option(metavar="NAME", help="Column of the time stamps.")]
TraceFunction = Annotated[
    str, typer.Option(metavar="HASH|N", help="Azure Functions: one function, or the N busiest together.")
]
Form = Annotated[Format, typer.Option("--format", help="How the answer is written to standard output.")]


def print_version(asked: bool) -> None:
    """Print the version."""
    if asked:
        from importlib.metadata import version

        emit(f"planner {version('gpu-capacity-planner')}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """How many GPUs, of which kind, at what cost, for your models - and how sure that is.

    \b
    Exit codes:
      0    feasible
      1    internal error; PLANNER_DEBUG=1 shows where
      2    bad usage or input
      3    infeasible, or an SLO is missed
      4    a --fail-on threshold is crossed
      5    --strict, and evidence is too weak or stale
      130  interrupted
    """


@app.command()
def plan(
    scenario: Scenario,
    overrides: Set = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: Form = Format.TABLE,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Keep the plan here; plan.json unless --format json."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 5 where evidence is weaker than fitted or prices are stale.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit 4 where it holds: cost, gpus, p99 or attainment with > >= < <=, e.g. 'cost>5'. Repeatable.",
        ),
    ] = None,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Find the cheapest GPUs that keep every promise."""
    from datetime import UTC, datetime

    from planner.gate import crossed, parse_conditions, weak
    from planner.load import load_scenario
    from planner.search import plan as search
    from planner.store import check_target
    from planner.terminal import render

    if target := target_of(out, form):
        check_target(target, scenario)
    conditions = parse_conditions(fail_on or [])
    loaded = load_scenario(scenario, with_seed(overrides, seed))
    known, library = knowledge(catalog, profiles)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with progress(quiet) as tell:
        answer = search(loaded, known, library, created_at=now, progress=tell)
    emit(render(answer, form, stdout_screen()))
    kept = target is None or keep(answer, target, form, quiet) or out is None
    too_weak, over = weak(answer) if strict else [], crossed(answer, conditions)
    for line in [*over, *too_weak]:
        note(line)
    failures = {
        Status.INPUT: not kept,
        Status.INFEASIBLE: not answer.recommendation.feasible,
        Status.THRESHOLD: bool(over),
        Status.WEAK: bool(too_weak),
    }
    raise typer.Exit(next((status for status, failed in failures.items() if failed), Status.FEASIBLE))


@app.command()
def simulate(
    scenario: Scenario,
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Kind of GPU, e.g. V100.")] = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, max=10_000, help="How many of them.")] = None,
    placed: Annotated[
        Path | None, typer.Option("--plan", metavar="PLAN", help="Instead: the placement of this plan, as it is.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=NAME",
            help="memory, scheduling, routing, drop or eviction, e.g. eviction=mru. Repeatable.",
        ),
    ] = None,
    overrides: Set = None,
    catalog: Catalogs = None,
    profiles: Profiles = None,
    form: Form = Format.TABLE,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Replay a scenario on GPUs that you name, or as a plan placed it."""
    from datetime import UTC, datetime

    from planner.load import load_scenario
    from planner.simulation import policy_override, simulate_named, simulate_plan
    from planner.store import read_plan
    from planner.terminal import render

    if (placed is None) == (gpu is None) or (gpu is None) != (count is None):
        raise typer.BadParameter("name either --gpu and --count, or --plan.")
    kept = read_plan(placed) if placed else None
    changes = [*with_seed(overrides, seed), *map(policy_override, policy or [])]
    known, library = knowledge(catalog, profiles)
    today = datetime.now(UTC).date()
    loaded = load_scenario(scenario, changes)
    with progress(quiet) as tell:
        if kept:
            answer = simulate_plan(loaded, known, library, kept, today, tell)
        else:
            assert gpu is not None
            assert count is not None
            answer = simulate_named(loaded, known, library, gpu, count, today, tell)
    emit(render(answer, form, stdout_screen()))
    raise typer.Exit(Status.FEASIBLE if answer.feasible else Status.INFEASIBLE)


app.command()(validate)
merge_app.command()(analyze)
merge_app.command()(train)
merge_app.command()(breakeven)
app.command()(profile)
app.command()(export)
app.command("train")(train_model)
app.command()(horizon)
app.command()(study)
app.command()(diff)
app.command()(report)
app.command()(reprice)
app.command()(from_triton)


@app.command()
def explain(plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json.")]) -> None:
    """Say why a plan is what it is, and what would change it."""
    from planner.reasons import explain as reasons
    from planner.store import read_plan

    emit(reasons(read_plan(plan_file), stdout_screen()))


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to write it.")] = Path("scenario.yaml"),
    training: Annotated[bool, typer.Option("--training", help="Of a training, for `planner train`.")] = False,
) -> None:
    """Write a commented scenario to start from."""
    from planner.starter import starter
    from planner.store import StoreError, write_text

    if file.exists():
        raise StoreError(f"{file}: exists already. Name another file.")
    write_text(starter(training=training), file)
    emit(f"Wrote {file}. Next: planner {'train' if training else 'plan'} {file}\n")


@app.command()
def schema(
    training: Annotated[bool, typer.Option("--training", help="Of training scenarios, for `planner train`.")] = False,
) -> None:
    """Print the JSON Schema of scenarios, for editors."""
    import json

    if training:
        from planner.training.scenario import schema as scenario_schema
    else:
        from planner.load import schema as scenario_schema

    emit(json.dumps(scenario_schema(), indent=2) + "\n")


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def calibrate(context: typer.Context) -> None:
    """Measure what models cost on this machine's device."""
    from calibrate.cli import main as measure

    # One parser for `planner calibrate` and for `python -m calibrate`, which runs where typer is not installed.
    raise typer.Exit(measure(context.args, "planner calibrate"))


@app.command()
def doctor(
    device: Annotated[str, typer.Option(metavar="D", help="cuda:0, cuda:1, ... or cpu.")] = "cuda:0",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where profiles shall go.")] = Path("profiles"),
) -> None:
    """Check whether a device can be measured, and say what to do where it cannot."""
    from calibrate.doctor import diagnose, exit_code, render

    findings = diagnose(device, out)
    emit(render(findings) + "\n")
    raise typer.Exit(exit_code(findings))


@profiles_app.command("list")
def profiles_list(profiles: Profiles = None, catalog: Catalogs = None) -> None:
    """List what is known about models on GPUs."""
    from planner.listings import profile_list

    _, library = knowledge(catalog, profiles)
    found = [profile for model in library.models() for profile in library.for_model(model)]
    emit(profile_list(found, stdout_screen()))


@profiles_app.command("show")
def profiles_show(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Only on this kind of GPU.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
) -> None:
    """Show all figures of a model, and where they come from."""
    from planner.listings import choose, profile_show

    _, library = knowledge(catalog, profiles)
    screen = stdout_screen()
    emit(
        "\n\n".join("\n".join(profile_show(p, screen, library.measured(p))) for p in choose(library, model, gpu)) + "\n"
    )


@profiles_app.command("plot")
def profiles_plot(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The PNG to write.")],
    what: Annotated[
        Picture, typer.Option(help="Time by batch size, memory by kind, or operations and working set by layer.")
    ] = Picture.LATENCY,
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="On this kind of GPU.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="At this precision, e.g. amp.")] = None,
    profiles: Profiles = None,
    catalog: Catalogs = None,
) -> None:
    """Draw what a model costs: measured points, fit and band; memory; layers."""
    from planner.pictures import draw

    _, library = knowledge(catalog, profiles)
    profile = draw(library, model, gpu, precision, what, out)
    emit(f"Wrote {out}: {what} of {profile.model} on {profile.gpu} at {profile.precision}.\n")


@prices_app.command("show")
def prices_show(
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Only with this kind of GPU.")] = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this provider.")] = None,
    catalog: Catalogs = None,
) -> None:
    """List what an hour of an instance costs and what a machine costs to buy, cheapest GPU first."""
    from planner.catalog import load_catalog
    from planner.listings import choose_instances, choose_purchases, price_list, purchase_list

    known, screen = load_catalog(catalog or []), stdout_screen()
    rented, bought = choose_instances(known, gpu, provider), choose_purchases(known, gpu, provider)
    parts = [price_list(known, rented, screen) if rented else "", purchase_list(bought, screen)]
    emit("\n".join(filter(None, parts)))


@prices_app.command("table")
def prices_table(
    gpu: Annotated[str | None, typer.Option(metavar="KIND", help="Only with this kind of GPU.")] = None,
    provider: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this provider.")] = None,
    catalog: Catalogs = None,
) -> None:
    """Dollars for a TFLOP/s by machine and precision: rented, reserved, bought."""
    from planner.catalog import load_catalog
    from planner.listings import choose_instances, choose_purchases
    from planner.speed_prices import speed_price_table, speed_prices

    known = load_catalog(catalog or [])
    rows = speed_prices(known, choose_instances(known, gpu, provider), choose_purchases(known, gpu, provider))
    emit(speed_price_table(rows, stdout_screen()))


@prices_app.command("status")
def prices_status(catalog: Catalogs = None) -> None:
    """Say how old the prices are."""
    from datetime import UTC, datetime

    from planner.catalog import load_catalog
    from planner.listings import price_status

    emit(price_status(load_catalog(catalog or []), datetime.now(UTC).date(), stdout_screen()))


@trace_app.command("describe")
def trace_describe(file: TraceFile, column: TraceColumn = None, function: TraceFunction = "1") -> None:
    """Count, rate and burstiness of a recording."""
    from planner.listings import trace_summary
    from planner.traces import describe, read_trace

    table = read_trace(file, column, which(function))
    emit(trace_summary(file.name, describe(table), stdout_screen()))


@trace_app.command("import")
def trace_import(
    file: TraceFile,
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The CSV to write.")] = Path("trace.csv"),
    column: TraceColumn = None,
    function: TraceFunction = "1",
    rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="Scale time to this mean rate, e.g. '20 rps'.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="Keep only so much of it, e.g. '10 min'.")
    ] = None,
) -> None:
    """Turn a recording into a CSV that a scenario can name."""
    from planner.traces import import_trace
    from planner.units import duration as seconds
    from planner.units import rate as per_second

    if out.suffix.lower() != ".csv":
        raise typer.BadParameter(f"-o {out}: must end in .csv. Name such a file.")
    rate_rps = None if rate is None else quantity("--rate", per_second, rate)
    duration_s = None if duration is None else quantity("--duration", seconds, duration)
    table = import_trace(file, out, rate_rps, duration_s, which(function), column)
    for said in table.notes:
        note(f"{file}: {said}")
    emit(f"Wrote {table.times_s.size:,} arrivals at {table.rate_rps:.3g}/s to {out}. Use it: trace: {{file: {out}}}\n")


def which(function: str) -> str | int:
    """A function's hash, or how many of the busiest."""
    return int(function) if function.isdecimal() and len(function) < 9 else function


def quantity(option: str, read: "Quantity", text: str) -> float:
    """An option in people's units."""
    try:
        return read(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from None


def with_seed(overrides: list[str] | None, seed: int | None) -> list[str]:
    """Overrides of the scenario, the seed among them."""
    return [*(overrides or []), *([] if seed is None else [f"seed={seed}"])]


def target_of(out: Path | None, form: Format) -> Path | None:
    """Where a plan is kept; None where it is not."""
    return out or (None if form is Format.JSON else Path("plan.json"))


def keep(answer: "Plan", target: Path, form: Format, quiet: bool) -> bool:
    """Write the plan; False where that cannot be done."""
    from planner.store import StoreError, write_plan

    try:
        write_plan(answer, target)
    except StoreError as error:
        note(str(error))
        return False
    if not quiet:
        said = f"Plan kept in {target}. Why so: planner explain {target}"
        emit(f"\n{said}\n") if form is Format.TABLE else note(said)
    return True


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error that shows what goes on; none where nobody watches."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda _text, _done: None
        return
    from planner.progress import bar

    with bar() as tell:
        yield tell


def note(text: str) -> None:
    """A line for people, beside the answer."""
    if sys.stderr is not None:
        print(harmless(text), file=sys.stderr)


def emit(text: str) -> None:
    """Write to standard output. Where its reader has left, the rest is not needed."""
    if sys.stdout is None:  # it was closed
        return
    encoding = sys.stdout.encoding or "utf-8"
    known = harmless(text).replace("±", "±" if can_encode("±", encoding) else "+-")
    try:
        sys.stdout.write(known.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            from planner.store import StoreError

            raise StoreError(f"standard output: cannot be written: {error.strerror}.") from error


def harmless(text: str) -> str:
    """A text in which control characters are shown (`\\x1b`), and not sent to a terminal; colours of ours stay."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def can_encode(text: str, encoding: str) -> bool:
    """Whether an encoding has all these characters."""
    return text.encode(encoding, "ignore").decode(encoding) == text


def fail(error: Exception) -> NoReturn:
    """End with what is wrong: the input, or the planner itself."""
    from calibrate.files import unusable
    from simulator.errors import InputError

    if said := str(error) if isinstance(error, InputError) else unusable(error):
        note("\n".join(map(shortened, said.split("\n"))))
        sys.exit(Status.INPUT)
    if os.environ.get("PLANNER_DEBUG"):
        raise error
    what = " ".join(f"{type(error).__name__}: {error}".split())
    note(f"planner: internal error: {what[:300]}. PLANNER_DEBUG=1 shows where; please report it.")
    sys.exit(Status.INTERNAL)


def shortened(line: str) -> str:
    """A line that a person can read, whatever it quotes."""
    from calibrate.files import printable

    line = LONG_WORD.sub(lambda found: f"{found[0][:WORD_MAX]}...", printable(line))
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX // 2]} ... {line[-LINE_MAX // 2 :]}"


def keep_standard_output() -> None:
    """Keep standard output for answers: what libraries write there by themselves goes to standard error.

    HiGHS prints a line of its own on some programs, past Python, in the middle of JSON.
    """
    out: TextIO | None = sys.__stdout__
    if out is None or out is not sys.stdout:  # it is closed, or someone listens inside this process
        return
    try:
        answers = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors=out.errors)
        os.dup2(2 if is_open(2) else os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:  # which shows when an answer is written
        return
    sys.stdout = answers


def is_open(descriptor: int) -> bool:
    """Whether anything is behind it."""
    with suppress(OSError):
        os.fstat(descriptor)
        return True
    return False


def main() -> None:
    """Run the command line."""
    keep_standard_output()
    try:
        app()
    except Exception as error:
        fail(error)
