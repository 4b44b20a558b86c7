"""Answers kept as JSON: plans, simulations, ways to train, studies, horizons, what plans would do; each is shown here.

Most commands know one of them, and import no other.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrate.io.files import quoted
from planner.io.schemas import kind_of
from planner.io.store import StoreError, answer_of, of_simulation, plan_of, read_json
from planner.model.plan import SCHEMA as PLAN
from planner.model.plan import Plan
from planner.model.simulation import SCHEMA as SIMULATION
from planner.model.simulation import Simulation
from planner.show.document import Document
from planner.show.forms import written
from planner.show.spreadsheet import to_csv
from planner.show.terminal import terminal
from planner.units.writing import Format, Screen
from simulator.errors import InputError

AGAIN = "Make it again"


def readers() -> Mapping[str, Callable[[Any, Path], Any]]:
    """By schema: the answer that a file's JSON is."""
    from planner.questions.horizons.answer import SCHEMA as HORIZON
    from planner.questions.horizons.answer import Horizon
    from planner.questions.horizons.answer import contradictions as of_horizon
    from planner.questions.readiness.answer import SCHEMA as WHATIF
    from planner.questions.readiness.answer import WhatIf
    from planner.questions.readiness.answer import contradictions as of_whatif
    from planner.questions.studies.results import SCHEMA as STUDY
    from planner.questions.studies.results import read_study
    from planner.questions.training.answer.option import SCHEMA as TRAINING
    from planner.questions.training.answer.option import TrainingPlan

    return {
        PLAN: plan_of,
        SIMULATION: partial(answer_of, kind=Simulation, remedy=AGAIN, contradictions=of_simulation),
        TRAINING: partial(answer_of, kind=TrainingPlan, remedy=AGAIN),
        STUDY: read_study,
        HORIZON: partial(answer_of, kind=Horizon, remedy=AGAIN, contradictions=of_horizon),
        WHATIF: partial(answer_of, kind=WhatIf, remedy=AGAIN, contradictions=of_whatif),
    }


def read_kept(path: Path, schemas: Sequence[str] = ()) -> Any:
    """The answer in a file; StoreError, in one line, where it is none of these, or of all."""
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == PLAN and PLAN in (schemas or (PLAN,)):
        return plan_of(data, path)  # other kinds import what predicts, which takes longer than all else
    known = readers()
    schemas = schemas or tuple(known)
    if isinstance(schema, str) and schema in schemas:
        return known[schema](data, path)
    got = f"has schema {quoted(schema)}" if schema else "has no `schema`"
    hint = "Name a plan, a study, or what `--format json` of a command writes"
    if kind_of(data) in {kind_of({"schema": one}) for one in schemas}:
        hint = "Another version of the planner kept it: make it again"
    raise StoreError(f"{path}: {got}: must be one of {', '.join(schemas)}. {hint}.")


MODULES = {
    "plan": ("documents.plan", "text.explained.plan"),
    "simulation": ("documents.simulation", "text.explained.simulation"),
    "training": ("documents.training", "text.explained.training"),
    "study": ("documents.studies", "text.explained.study"),
    "horizon": ("documents.horizons", "text.explained.horizon"),
    "whatif": ("documents.whatif", "documents.whatif"),
}
"""By kind of answer: what makes the document that people read of it, and the one that says why it is so."""


def document_of(answer: Any) -> Document:
    """What people read of it."""
    return _made(MODULES[_kind(answer)][0], answer)


def _kind(answer: Any) -> str:
    kind = str(kind_of({"schema": getattr(answer, "schema", None)}))
    if kind not in MODULES:
        got = type(answer).__name__
        raise InputError(f"answer: must be one of {', '.join(MODULES)}, or the file that keeps one, got {got}.")
    return kind


def _made(module: str, answer: Any) -> Document:
    document: Document = import_module(f"planner.show.{module}").document(answer)
    return document


def explained(answer: Any, screen: Screen) -> str:
    """Why it is what it is, as a terminal shows it."""
    return terminal(_made(MODULES[_kind(answer)][1], answer), screen)


def render(answer: Any, form: Format, screen: Screen) -> str:
    """In the form that was asked for; CSV has a line for each model that is served."""
    match form, answer:
        case Format.CSV, Plan():
            return to_csv(answer.recommendation.models)
        case Format.CSV, Simulation():
            return to_csv(answer.models)
    return written(answer, document_of, form, screen)
