"""The command `planner explain`: why an answer is what it is."""

from planner.console.options import Answer
from planner.console.output import emit
from planner.units.writing import stdout_screen


def explain(answer: Answer) -> None:
    """Say why an answer is what it is, and what would change it."""
    from planner.show.kept import explained, read_kept

    emit(explained(read_kept(answer), stdout_screen()))
