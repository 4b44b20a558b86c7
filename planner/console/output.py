"""The console: what all commands say, ask and end with."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer

if TYPE_CHECKING:
    from planner.units.reading import Quantity

CONTROLS = re.compile("\r(?!\n)|(?!\x1b\\[[0-9;]*m)[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, but for ends of lines and colours."""
LINE_EVERY_S = 10.0
"""Between two lines of progress."""
WORD_MAX, LINE_MAX = 60, 2000
LONG_WORD = re.compile(rf"[^\s/]{{{2 * WORD_MAX},}}")
"""Words of an error that are cut, for it quotes what somebody wrote; paths are not."""


PLAIN: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""Help and errors as plain text; errors of the planner itself are handled in `main`."""


class ExitCode(IntEnum):
    """Exit codes. Where several apply, the lowest."""

    FEASIBLE = 0
    INTERNAL = 1
    INPUT = 2
    INFEASIBLE = 3
    THRESHOLD = 4
    WEAK = 5
    INTERRUPTED = 130


def quantity(option: str, read: "Quantity", text: str) -> float:
    """An option in people's units."""
    try:
        return read(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from None


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error that shows what goes on; where that is no terminal, a line every ten seconds."""
    if quiet or sys.stderr is None:
        yield lambda _text, _done: None
        return
    if not sys.stderr.isatty():
        yield lines()
        return
    from planner.show.text.progress import bar

    with bar() as tell:
        yield tell


def lines() -> Callable[[str, float], None]:
    """What goes on and the share that is done, a plain line at a time, as logs want it; nothing of what ends soon."""
    begun_s = said_s = time.monotonic()

    def tell(text: str, done: float) -> None:
        nonlocal said_s
        now_s = time.monotonic()
        if now_s - said_s >= LINE_EVERY_S:
            said_s = now_s
            share = f", {100 * min(1.0, done):.0f} % done" if done else ""
            note(f"{now_s - begun_s:.0f} s: {text}{share}")

    return tell


def check_plot(plot: Path | None, forms: Sequence[str] = (".png",), made: Path | None = None) -> None:
    """InputError where no picture can be written there, before anything is worked out."""
    if plot:
        from calibrate.io.plot import check_picture

        check_picture(plot, forms, made=made)


def check_out(out: Path | None, kind: str, question: Path) -> None:
    """StoreError where no answer of that kind can be kept there, before anything is worked out."""
    if out:
        from planner.io.store import check_target

        check_target(out, question, kind)


def answered(text: str, answer: Any, out: Path | None, quiet: bool = False) -> None:
    """Keep an answer where `-o` says so, and show it, whichever of both cannot be written."""
    if out is None:
        emit(text)
        return
    from planner.io.store import StoreError, write_answer

    try:
        write_answer(answer, out)
    except StoreError:
        emit(text)
        raise
    emit(text)
    if not quiet:
        note(f"Kept in {out}. Why so: `planner explain {out}`. A page of it: `planner report {out}`")


def note(text: str) -> None:
    """A line for people, beside the answer."""
    if sys.stderr is not None:
        print(harmless(lines_on(sys.stderr, text)), file=sys.stderr)


def say(text: str) -> None:
    """A line for people, as the answer."""
    emit(f"{lines_on(sys.stdout, text)}\n")


def lines_on(stream: TextIO | None, text: str) -> str:
    """As many lines as it takes on a terminal; for other programs a line stays one."""
    if stream is None or not stream.isatty():
        return text
    from planner.units.writing import screen_of

    screen = screen_of(stream)
    return "\n".join("\n".join(screen.wrap(line, hang=2)) for line in text.split("\n"))


@contextmanager
def placed_by(plan: Path | None) -> Iterator[None]:
    """Name the file of a plan that does not fit its scenario."""
    from planner.search.simulation import PlanMisfitError

    try:
        yield
    except PlanMisfitError as error:
        raise PlanMisfitError(error.wrong, plan) from None


def emit(text: str) -> None:
    """Write to standard output. Where its reader has left, the rest is not needed."""
    encoding = sys.stdout.encoding or "utf-8"
    known = harmless(text).replace("±", "±" if can_encode("±", encoding) else "+-")
    try:
        sys.stdout.write(known.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        unwritten = not_written(error)
        if not isinstance(error, BrokenPipeError):
            from planner.io.store import StoreError

            raise StoreError(unwritten) from error


def not_written(error: OSError) -> str:
    """What is wrong with standard output, which is not written to again: else Python says so too, as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"standard output: cannot be written: {error.strerror}."


def harmless(text: str) -> str:
    """A text in which control characters are shown (`\\x1b`), and not sent to a terminal; colours of ours stay."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def can_encode(text: str, encoding: str) -> bool:
    """True where an encoding has all these characters."""
    return text.encode(encoding, "ignore").decode(encoding) == text


def shortened(line: str) -> str:
    """A line that a person can read, whatever it quotes."""
    from calibrate.io.files import printable

    line = LONG_WORD.sub(lambda found: f"{found[0][:WORD_MAX]}...", printable(line))
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX // 2]} ... {line[-LINE_MAX // 2 :]}"
