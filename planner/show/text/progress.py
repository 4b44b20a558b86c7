"""Progress: a bar on standard error for whoever watches. Imports rich, so only where there is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column


class ShareColumn(BarColumn):
    """The bar, where it is known how much there is to do."""

    def render(self, task: Task) -> RenderableType:  # type: ignore[override]
        """Nothing where nobody knows."""
        return super().render(task) if task.completed else ""


@contextmanager
def bar() -> Iterator[Callable[[str, float], None]]:
    """`bar() as tell`: each `tell("12 of 30 rows", 0.4)` moves the bar; without a share there is none. All of it is
    gone at the end."""
    what = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    whole = Column(no_wrap=True, min_width=7)  # h:mm:ss, however narrow the terminal
    columns = (SpinnerColumn(), ShareColumn(bar_width=20), TimeElapsedColumn(table_column=whole), what)
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as shown:
        task = shown.add_task("", total=None)

        def tell(text: str, done: float) -> None:
            # A bar that was full once stops its clock and its spinner.
            shown.update(task, description=text, completed=done, total=1.001 if done else None)

        yield tell
