"""A notebook run without Jupyter: its cells in order, each with what it prints and its last value."""

import ast
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

Cell = dict[str, Any]


def run(notebook: dict[str, Any]) -> Iterator[tuple[Cell, list[dict[str, Any]]]]:
    """Each cell of code, and its outputs as Jupyter would write them."""
    names: dict[str, Any] = {}
    cells = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    for number, cell in enumerate(cells, start=1):
        assert cell["execution_count"] == number
        printed, value = executed("".join(cell["source"]), names)
        yield cell, [*stream(printed), *result(value, number)]


def executed(source: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line where that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    return printed.getvalue(), value


def stream(printed: str) -> list[dict[str, Any]]:
    """An output of lines that were printed; none of none."""
    text = printed.splitlines(keepends=True)
    return [{"name": "stdout", "output_type": "stream", "text": text}] if text else []


def result(value: object, number: int) -> list[dict[str, Any]]:
    """An output of a value; none of None."""
    if value is None:
        return []
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    return [{"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}]
