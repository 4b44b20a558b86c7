"""Progress: a bar on standard error for whoever watches. Imports rich, so only where there is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """`bar() as tell`: each `tell("12 of 30 rows", 0.4)` moves the bar; without a share it only shows that something
    goes on. All of it is gone at the end."""
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    what = TextColumn("{task.description}", markup=False, table_column=rest)
    whole = Column(no_wrap=True, min_width=7)  # h:mm:ss, however narrow the terminal
    columns = (SpinnerColumn(), BarColumn(bar_width=20), TimeElapsedColumn(table_column=whole), what)
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as shown:
        task = shown.add_task("", total=None)

        def tell(text: str, done: float) -> None:
            # A bar that was full once stops its clock and its spinner.
            shown.update(task, description=text, completed=done, total=1.001 if done else None)

        yield tell
