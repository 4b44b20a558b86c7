"""Answers that are kept as JSON: a plan, a simulation, ways to train, a study, a horizon; each read and shown here."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from calibrate.io.files import quoted
from planner.io.store import StoreError, answer_of, of_simulation, plan_of, read_json
from planner.model.plan import SCHEMA as PLAN
from planner.model.plan import Plan
from planner.model.simulation import SCHEMA as SIMULATION
from planner.model.simulation import Simulation
from planner.questions.horizons.answer import SCHEMA as HORIZON
from planner.questions.horizons.answer import Horizon
from planner.questions.studies.results import SCHEMA as STUDY
from planner.questions.studies.results import StudyAnswer, read_study
from planner.questions.training.plan import SCHEMA as TRAINING
from planner.questions.training.plan import TrainingPlan
from planner.show.document import Document
from planner.show.documents import horizons, plan, simulation, studies, training
from planner.show.forms import written
from planner.show.spreadsheet import to_csv
from planner.units.writing import Format, Screen

Kept = Plan | Simulation | TrainingPlan | StudyAnswer | Horizon
AGAIN = "Make it again"
READERS: Mapping[str, Callable[[Any, Path], Kept]] = {
    PLAN: plan_of,
    SIMULATION: partial(answer_of, kind=Simulation, remedy=AGAIN, contradictions=of_simulation),
    TRAINING: partial(answer_of, kind=TrainingPlan, remedy=AGAIN),
    STUDY: read_study,
    HORIZON: partial(answer_of, kind=Horizon, remedy=AGAIN),
}
"""By schema: the answer that a file's JSON is."""


def read_kept(path: Path, schemas: Sequence[str] = tuple(READERS)) -> Kept:
    """The answer in a file; StoreError, in one line, where it is none of these."""
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if isinstance(schema, str) and schema in schemas:
        return READERS[schema](data, path)
    got = f"has schema {quoted(schema)}" if schema else "has no `schema`"
    hint = "Name a plan, a study, or what `--format json` of a command writes"
    raise StoreError(f"{path}: {got}: must be one of {', '.join(schemas)}. {hint}.")


def document_of(answer: Kept) -> Document:
    """What people read of it."""
    match answer:
        case Plan():
            return plan.document(answer)
        case Simulation():
            return simulation.document(answer)
        case TrainingPlan():
            return training.document(answer)
        case StudyAnswer():
            return studies.document(answer)
        case Horizon():
            return horizons.document(answer)


def render(answer: Kept, form: Format, screen: Screen) -> str:
    """In the form that was asked for; CSV has a line for each model that is served."""
    match form, answer:
        case Format.CSV, Plan():
            return to_csv(answer.recommendation.models)
        case Format.CSV, Simulation():
            return to_csv(answer.models)
    return written(answer, document_of, form, screen)
