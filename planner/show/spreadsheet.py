"""Models of a plan or a simulation as CSV, for spreadsheets."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from calibrate.io.tables import csv_text
from planner.io.store import plain
from planner.model.plan import ModelAnswer

if TYPE_CHECKING:  # it needs SciPy, and most answers are no predictions
    from planner.prediction.queries import QueryAnswer


def answers_csv(answers: "Sequence[QueryAnswer]") -> str:
    """One row for each, empty where there is no figure."""
    from planner.prediction.queries import QueryAnswer

    columns = [one.name for one in fields(QueryAnswer)]
    return csv_text(columns, ([figure(getattr(answer, name)) for name in columns] for answer in answers))


def answers_json(answers: "Sequence[QueryAnswer]") -> str:
    """A list of objects with the same keys; null where there is no figure."""
    return json.dumps([plain(asdict(answer)) for answer in answers], indent=2) + "\n"


def figure(value: object) -> object:
    """A time with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else value


def to_csv(models: Sequence[ModelAnswer]) -> str:
    """One row for each model, in seconds and requests per second; several GPUs are parted by blanks."""
    return csv_text(CSV_COLUMNS, ([row[name] for name in CSV_COLUMNS] for row in map(csv_row, models)))


CSV_COLUMNS = [
    *("name", "batch_size", "max_queue_delay_s", "gpus", "mode", "slo_s", "slo_attainment_target"),
    *("slo_attainment", "slo_attainment_low", "slo_attainment_high", "slo_met"),
    *("draws_kept", "draws_kept_low", "draws_kept_high"),
    *("mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "p99_low_s", "p99_high_s", "p99_in_draws_s"),
    *("throughput_rps", "offered_rps", "goodput_rps"),
    *("dropped_fraction", "processed_fraction", "mean_batch_size", "joules_per_inference"),
    *("accuracy_lost_is_wrong", "accuracy_reuse_last"),
    *("verdict", "bottleneck", "evidence", "predicted", "speed_evidence", "uncertain", "precision", "runtime"),
]


def csv_row(model: ModelAnswer) -> dict[str, object]:
    """A model's fields, its intervals spread over columns."""
    punctual = model.slo_attainment
    flags = {name: str(getattr(model, name)).lower() for name in ("predicted", "uncertain")}
    met = "" if model.slo_met is None else str(model.slo_met).lower()
    row = {key: value for key, value in asdict(model).items() if key not in ("p99", "accuracy", "replicas")}
    row |= {"gpus": " ".join(model.gpus), "slo_met": met, **flags}
    row |= {"slo_attainment": punctual.mean}
    row |= {"slo_attainment_low": punctual.low, "slo_attainment_high": punctual.high}
    drawn = model.draws_kept
    row |= {"draws_kept": drawn.mean if drawn else ""}
    row |= {"draws_kept_low": drawn.low if drawn else "", "draws_kept_high": drawn.high if drawn else ""}
    row |= {"p99_low_s": model.p99.low, "p99_high_s": model.p99.high}
    row |= {"p99_in_draws_s": "" if model.p99_in_draws_s is None else model.p99_in_draws_s}
    row |= {f"accuracy_{rule}": value for rule, value in asdict(model.accuracy).items()}
    return {key: f"{value:.9g}" if isinstance(value, float) else value for key, value in row.items()}
