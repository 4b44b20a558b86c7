"""Pages: a document in a template, with styles and script inside, so that one file is all there is."""

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibrate.io.files import MADE, FileError, demand_ours, quoted
from planner.io.store import StoreError, answer_of, plan_of, read_json
from planner.model.plan import SCHEMA as PLAN
from planner.model.simulation import SCHEMA as SIMULATION
from planner.model.simulation import Simulation
from planner.questions.horizons.answer import SCHEMA as HORIZON
from planner.questions.horizons.answer import Horizon
from planner.questions.studies.results import SCHEMA as STUDY
from planner.questions.studies.results import read_study
from planner.questions.training.plan import SCHEMA as TRAINING
from planner.questions.training.plan import TrainingPlan
from planner.show.charts import svg
from planner.show.charts.blocks import PALETTE
from planner.show.document import Document, View, visible
from planner.show.documents import horizons, plan, simulation, studies, training

FOLDER = Path(__file__).parent
AGAIN = "Make it again"


def report_page(path: Path) -> str:
    """The page of the answer in a JSON file; StoreError, in one line, where it holds none that has a page."""
    return page(document_of(read_json(path), path))


def document_of(data: Any, path: Path) -> Document:
    """The document of the answer that a file's JSON is."""
    schema = data.get("schema") if isinstance(data, dict) else None
    match schema:
        case _ if schema == PLAN:
            return plan.document(plan_of(data, path))
        case _ if schema == SIMULATION:
            return simulation.document(answer_of(data, path, Simulation, AGAIN))
        case _ if schema == TRAINING:
            return training.document(answer_of(data, path, TrainingPlan, AGAIN))
        case _ if schema == STUDY:
            return studies.document(read_study(data, path))
        case _ if schema == HORIZON:
            return horizons.document(answer_of(data, path, Horizon, AGAIN))
    got = f"has schema {quoted(schema)}" if schema else "has no `schema`"
    hint = "Name a plan, a study, or what `--format json` of `simulate`, `train` or `horizon` writes"
    raise StoreError(f"{path}: {got}, and no report is made of that. {hint}.")


def page(document: Document) -> str:
    """HTML of a document. All that comes from the answer is escaped; the script alone may run."""
    script = (FOLDER / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    templates = Environment(
        loader=PackageLoader("planner.show.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"code": code, "zipped": zipped, "graph": svg.graph, "strip": svg.strip}
    return templates.get_template("page.html.j2").render(
        name=document.name,
        headline=document.headline,
        lead=visible(document.lead, View.PAGE),
        sections=visible(document.sections, View.PAGE),
        made=MADE,
        palette=PALETTE,
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


def zipped(columns: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Rows of columns."""
    return list(zip(*columns, strict=True))


def code(text: str) -> Markup:
    """The words between backticks as code: `planner calibrate`."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one is without its partner
        return Markup("{}").format(text)
    return Markup("").join(Markup("<code>{}</code>" if i % 2 else "{}").format(part) for i, part in enumerate(parts))


def check_page(out: Path) -> None:
    """StoreError where a page would stand under another file's name, or replace what is no page of ours."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise StoreError(f"-o {out}: must end in .html. Name such a file.")
    try:
        demand_ours(out, "report")
    except FileError as error:
        raise StoreError(f"-o {out}: {error}. Name another file, or remove this one.") from None
