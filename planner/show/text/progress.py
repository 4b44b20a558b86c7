"""Progress: a bar on standard error for whoever watches. Imports rich, so only where there is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """`bar() as tell`: each `tell("replaying 2 x T4", 0.4)` moves the bar; all of it is gone at the end."""
    what = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    whole = Column(no_wrap=True, min_width=7)  # h:mm:ss, however narrow the terminal
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(table_column=whole), what)
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=1.001)  # a bar that was full once stops its clock and its spinner
        yield lambda text, done: shown.update(task, description=text, completed=done)
