"""The command line. Commands import what they need when they run, so that help comes at once."""

import errno
import gc
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command

from planner.commands.answers import diff, explain, export, open_page, report, reprice
from planner.commands.calibrate import EVERYTHING_IS_PASSED_ON, calibrate, doctor
from planner.commands.groups import gpus, merge, prices, profiles, trace
from planner.commands.horizon import horizon
from planner.commands.plan import plan
from planner.commands.predict import predict
from planner.commands.profile import profile
from planner.commands.scenarios import from_triton, init, schema
from planner.commands.simulate import simulate
from planner.commands.study import study
from planner.commands.train import train
from planner.commands.validate import validate
from planner.commands.whatif import whatif
from planner.console.output import PLAIN, ExitCode, emit, not_written, note, shortened


@contextmanager
def ended_in_a_line() -> Iterator[None]:
    """Ctrl-C before a command has anything to say ends it so."""
    try:
        yield
    except KeyboardInterrupt:
        note("Interrupted before there was an answer.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


class Interruptible(TyperGroup):
    """Commands that say so where Ctrl-C ends them before they have anything to say."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Read what is asked for."""
        with ended_in_a_line():
            return super().make_context(*given, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is asked for."""
        with ended_in_a_line():
            return super().invoke(ctx)


app = typer.Typer(cls=Interruptible, **PLAIN)


def print_version(wanted: bool) -> None:
    """Print the version, and of when its prices and published figures are."""
    if wanted:
        from importlib.metadata import version

        from planner.catalog.catalog import load_catalog
        from planner.prediction.learnt import learnt

        priced = sorted(price.as_of for one in load_catalog().instances for price in one.prices.values())
        emit(f"planner {version('gpu-capacity-planner')}\n")
        emit(f"prices of {priced[0]} to {priced[-1]}, published figures to {learnt().as_of}\n")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Show the version, and the dates of its data."
        ),
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


app.command()(plan)
app.command()(simulate)
app.command()(whatif)
app.command()(validate)
app.command()(profile)
app.command()(predict)
app.command()(export)
app.command()(train)
app.command()(horizon)
app.command()(study)
app.command()(diff)
app.command()(report)
app.command("open")(open_page)
app.command()(reprice)
app.command()(from_triton)
app.command()(explain)
app.command()(init)
app.command()(schema)
app.command(add_help_option=False, context_settings=EVERYTHING_IS_PASSED_ON)(calibrate)
app.command()(doctor)
app.add_typer(profiles.app, name="profiles")
app.add_typer(prices.app, name="prices")
app.add_typer(gpus.app, name="gpus")
app.add_typer(trace.app, name="trace")
app.add_typer(merge.app, name="merge")


def fail(error: Exception) -> NoReturn:
    """End with what is wrong: the input, or the planner itself."""
    from calibrate.io.files import unusable
    from simulator.errors import InputError

    if text := (error.on_command_line or str(error)) if isinstance(error, InputError) else unusable(error):
        note("\n".join(map(shortened, text.split("\n"))))
        sys.exit(ExitCode.INPUT)
    if os.environ.get("PLANNER_DEBUG"):
        raise error
    what = " ".join(f"{type(error).__name__}: {error}".split())
    note(f"planner: internal error: {what[:300]}. PLANNER_DEBUG=1 shows where; please report it.")
    sys.exit(ExitCode.INTERNAL)


def keep_standard_output() -> None:
    """Keep standard output for answers: what libraries write there past Python goes nowhere.

    HiGHS 1.12 prints a line about its own work on some programs, whatever its options say (HiGHS.jl, issue 312).
    """
    out: TextIO | None = sys.__stdout__
    if out is None or out is not sys.stdout:  # it is closed, or someone listens inside this process
        return
    try:
        answers = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors=out.errors)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:  # which shows when an answer is written
        return
    sys.stdout = answers


CHECKED = "Value error, "
"""Put before a rule that a value breaks, by the library that typer checks with."""

INVALID = re.compile(r"Invalid value for '(--[\w-]+)': Input should be (.+)")
UNREADABLE = re.compile(r"Invalid value for .+: .*'(.+)' is not readable\.?")
RULES = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "a valid integer, unable to parse string as an integer": "a whole number",
    "a valid number, unable to parse string as a number": "a number",
}
"""Rules as that library writes them, and as we do."""

NAMED_MAX = 10
"""Commands of a group that an error names."""
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer says of options that cannot be; which library has its class depends on the version of typer."""


CREATED_MAX = 600_000
"""Objects created between two searches for cycles, of which Python takes 700: a plan makes millions and hardly a cycle,
and spent a tenth of its time on searches."""


@cache
def commands() -> Any:
    """All commands with their options: slow to make, and the same for every command line of a process."""
    return get_command(app)


def main() -> None:
    """Run the command line."""
    if sys.stdout is None:
        note("standard output: is closed. Send it to a file, or to /dev/null.")
        sys.exit(ExitCode.INPUT)
    gc.set_threshold(CREATED_MAX)
    keep_standard_output()
    try:
        status = commands()(prog_name="planner", standalone_mode=False)
    except UsageError as error:
        note(usage(error))
        status = ExitCode.INPUT
    except Exception as error:
        if not (isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None):
            fail(error)
        note(not_written(error))
        status = ExitCode.INPUT
    sys.exit(status if isinstance(status, int) else ExitCode.FEASIBLE)


def usage(error: Any) -> str:
    """`planner plan: No such option: --gpu. See planner plan --help.`; the help itself where nothing was asked."""
    message, context = error.format_message(), error.ctx
    if context is not None and message == context.get_help():
        return str(message)
    if found := UNREADABLE.fullmatch(" ".join(message.split())):
        from calibrate.io.files import MAKE_READABLE

        return shortened(f"{found[1]}: cannot be read. {MAKE_READABLE}.")
    command = context.command_path if context is not None else "planner"
    wrong = in_our_words(" ".join(message.split()).rstrip(".?").replace(CHECKED, "", 1), sys.argv)
    end = "?" if message.rstrip(".").endswith("?") else "."
    return shortened(f"{command}: {wrong}{end}{wanted(error, message)} See {command} --help.")


def in_our_words(message: str, arguments: Sequence[str]) -> str:
    """`--count 0: must be at least 1` for what the library that typer checks with says of a value, which it leaves out.

    >>> in_our_words("Invalid value for '--count': Input should be greater than or equal to 1", ["--count", "0"])
    '--count 0: must be at least 1'
    """
    if not (found := INVALID.fullmatch(message)):
        return message
    option, rule = found[1], found[2]
    for theirs, ours in RULES.items():
        rule = rule.replace(theirs, ours)
    beside = [value for name, value in pairwise(arguments) if name == option]
    joined = [one[len(option) + 1 :] for one in arguments if one.startswith(f"{option}=")]
    given = [*beside, *joined][-1] if beside or joined else ""
    return f"{option} {given}".rstrip() + f": must be {rule}"


def wanted(error: Any, message: str) -> str:
    """What is to be given: of an option that misses its help, of a group of few commands their names."""
    if message.startswith("Missing") and (text := getattr(getattr(error, "param", None), "help", "")):
        return f" {text}"
    commands = getattr(getattr(error.ctx, "command", None), "commands", {})
    if message.startswith("No such command") and "Did you mean" not in message and len(commands) <= NAMED_MAX:
        return f" Known: {', '.join(commands)}."
    return ""
