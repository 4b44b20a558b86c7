"""An answer in the form that was asked for."""

from collections.abc import Callable
from typing import Any, TypeVar

from planner.io.store import to_json
from planner.show.document import Document
from planner.show.markdown import markdown
from planner.show.terminal import terminal
from planner.units.writing import Format, Screen

T = TypeVar("T")


def written(
    answer: T,
    document: Callable[[T], Document],
    form: Format,
    screen: Screen,
    raw: Callable[[T], Any] = lambda answer: answer,
) -> str:
    """JSON holds the answer itself, or what `raw` makes of it; `document` makes what people read."""
    match form:
        case Format.JSON:
            return to_json(raw(answer))
        case Format.MD:
            return markdown(document(answer))
    return terminal(document(answer), screen)
