"""Predicted times for people to look at, beside what was asked."""

from collections.abc import Mapping, Sequence

from calibrate.published import names, runtimes
from planner.prediction.learnt import NEAREST
from planner.prediction.queries import QueryAnswer
from planner.show.document import Document, Items, Rows, Section, Table, Text
from planner.show.terminal import terminal
from planner.units.writing import Screen, begin, counted, gigabytes, seconds

USUAL = {"precision": "fp32", "batch": "1"}
"""What an empty cell means; of the input it depends on the model, of the runtime on the precision."""


def predictions_table(queries: Sequence[Mapping[str, str]], answers: Sequence[QueryAnswer], screen: Screen) -> str:
    """A row for each that has an answer, and why the others have none."""
    numbered = list(enumerate(zip(queries, answers, strict=True), start=1))
    table = Rows([(asked, answer) for _, (asked, answer) in numbered if answer.latency_s is not None])
    columns = [
        table.words("GPU", lambda row: row[0]["gpu"]),
        table.words("model", lambda row: row[0]["model"]),
        table.words("precision", lambda row: cell(row[0], "precision"), once="at {}"),
        table.words("runtime", lambda row: runtime_cell(row[0]), once="in {}"),
        table.figures("batch", lambda row: cell(row[0], "batch")),
        table.figures("time", lambda row: seconds(row[1].latency_s or 0)),
        table.figures("80 % band", lambda row: band(row[1])),
        table.worked("memory", lambda row: row[1].memory_bytes, gigabytes),
        table.worked("reserved", lambda row: row[1].reserved_bytes, gigabytes),
        table.words("rule", lambda row: row[1].rule),
    ]
    reasons = [(answer.latency_s is None, f"row {i}: {answer.reason}") for i, (_, answer) in numbered if answer.reason]
    refused, too_large = ([text for without, text in reasons if without is asked] for asked in (True, False))
    timed = f"{counted(len(table.items), 'time')} of a batch"
    seen = {answer.rule for answer in answers if answer.latency_s is not None}
    rests = {"published": "the same was published", "profile": "a profile has it"}
    rests |= {str(near): f"published {said}" for near, said in NEAREST.items()}
    said = "; ".join(f"{rule}: {what}" for rule, what in rests.items() if rule in seen)
    said_of_rules = f"{begin(said)}." if said else ""
    return terminal(
        Document(
            name="Predictions",
            headline=f"{timed}, {counted(len(refused), 'row')} without an answer:" if refused else f"{timed}:",
            sections=[
                Section("", [Table(columns), Text(said_of_rules, indent=2)]),
                Section("Too large for the GPU, or for a plan", [Items(too_large)]),
                Section("Without an answer", [Items(refused)]),
            ],
        ),
        screen,
    )


def cell(asked: Mapping[str, str], name: str) -> str:
    """What was written, or the usual."""
    return asked.get(name) or USUAL[name]


def runtime_cell(asked: Mapping[str, str]) -> str:
    """What was written, or the runtime that is meant: PyTorch computes nothing in int8 on a GPU."""
    is_processor = names.gpu(asked["gpu"]) in names.processors()
    usual = runtimes.usual(None if is_processor else names.precision(asked.get("precision", "")))
    return asked.get("runtime") or usual


def band(answer: QueryAnswer) -> str:
    """`7.10 to 9.90 ms`."""
    low_s, high_s = answer.latency_low_s or 0, answer.latency_high_s or 0
    return f"{seconds(low_s, unit=low_s < 1 <= high_s)} to {seconds(high_s)}"
