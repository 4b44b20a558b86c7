"""Pages: a document in a template, with styles and script inside, so that one file is all there is."""

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from calibrate.io.files import MADE, demand_ours, named
from planner.io.store import StoreError, demand_place
from planner.show.charts.kit import svg
from planner.show.charts.kit.blocks import PALETTE
from planner.show.document import Document, View, visible
from planner.units.writing import with_units

FOLDER = Path(__file__).parent
NAME_MAX = 30
"""Letters of a name that stays on one line: a screen of 360 pixels has room for them."""
CODE = MarkdownIt("zero").enable("backticks")


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
    templates.filters |= {
        "code": code,
        "zipped": zipped,
        "whole": whole,
        "pieces": pieces,
        "with_units": with_units,
        "graph": svg.graph,
        "strip": svg.strip,
    }
    return templates.get_template("page.html.j2").render(
        name=document.name,
        headline=document.headline,
        lead=visible(document.lead, View.PAGE),
        sections=visible(document.sections, View.PAGE),
        first_page=visible(document.first_page, View.PAGE),
        made=MADE,
        palette=PALETTE,
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


def zipped(columns: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """Rows of columns."""
    return list(zip(*columns, strict=True))


def whole(text: str) -> Markup:
    """Names with hyphens stay on one line: `g2-standard-4` of a headline. Code is marked."""
    if "`" in text:
        return code(text)
    words = (spanned("whole", word) if "-" in word and len(word) <= NAME_MAX else word for word in text.split(" "))
    return Markup(" ").join(words)


def pieces(text: str) -> Markup:
    """A figure and its band, or its SLO, between which a narrow column breaks."""
    parts = re.split(r" (?=[(/])" if "/" in text else r" (?=[(\[])", text)
    return Markup(" ").join([spanned("piece", part) for part in parts] if len(parts) > 1 else parts)


def spanned(style: str, text: str) -> Markup:
    """A part of a line that looks otherwise."""
    return Markup('<span class="{}">{}</span>').format(style, text)


def code(text: str) -> Markup:
    """Markdown of which only code is marked: `planner calibrate` between backticks; elsewhere figures keep units."""
    tokens = CODE.parseInline(text)
    for token in (child for line in tokens for child in line.children or ()):
        token.content = with_units(token.content) if token.type == "text" else token.content
    return Markup(CODE.renderer.render(tokens, CODE.options, {}))


def check_page(out: Path) -> None:
    """StoreError where a page would stand under another file's name, replace what is not ours, or has no place."""
    if out.suffix.lower() not in (".html", ".htm"):
        other = out / "report.html" if out.is_dir() else out.with_suffix(".html")
        raise StoreError(f"{out}: must end in .html. Write e.g. {other}.")
    with named(out, "Name another file, or remove this one", StoreError):
        demand_ours(out, "report")
    demand_place(out)
