"""Pages: an answer's view in a template, with styles and script inside, so that one file is all there is."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibrate.files import MADE, quoted
from planner.page.plan_page import plan_page
from planner.page.study_page import study_page
from planner.plans import SCHEMA
from planner.store import StoreError, plan_of, read_json
from planner.studies.results import SCHEMA as STUDY
from planner.studies.results import read_study

FOLDER = Path(__file__).parent


def report_page(path: Path) -> str:
    """The page of the answer in a JSON file; StoreError, in one line, where it holds none that has a page."""
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == SCHEMA:
        return render("plan.html.j2", plan_page(plan_of(data, path)))
    if schema == STUDY:
        return render("study.html.j2", study_page(read_study(data, path)))
    got = f"has schema {quoted(schema)}" if schema else "has no `schema`"
    raise StoreError(f"{path}: {got}, and no report is made of that. Name a plan.json or a study.json.")


def render(template: str, page: Any) -> str:
    """HTML of a page. All that comes from the answer is escaped; the script alone may run."""
    script = (FOLDER / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    known = Environment(
        loader=PackageLoader("planner.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known.filters["code"] = code
    return known.get_template(template).render(
        page=page,
        made=MADE,
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


def code(text: str) -> Markup:
    """What stands between backticks as code: `planner calibrate`."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one is without its partner
        return Markup("{}").format(text)
    return Markup("").join(Markup("<code>{}</code>" if i % 2 else "{}").format(part) for i, part in enumerate(parts))
