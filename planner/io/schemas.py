"""Schemas: the kind of answer that a file says it holds."""

import re

SCHEMA = re.compile(r"planner\.(\w*)(/.*)?", re.DOTALL)
DOCUMENTS = {
    "a scenario of serving: `planner plan` reads it": {"models", "streams"},
    "a scenario of training: `planner train` reads it": {"model", "data", "train"},
    "a study: `planner study` reads it": {"base", "axes", "search"},
}
"""Kinds of documents, and the keys at their top that the others have not."""


def kind_of(data: object) -> str | None:
    """`plan` for `planner.plan/v3`, whatever the version; None where a file holds no answer of ours."""
    schema = data.get("schema") if isinstance(data, dict) else None
    named = SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    return named[1] if named else None


def document_of(data: object) -> str | None:
    """Which kind of question a document is, and the command that reads it; None where it has none of their keys."""
    keys = data.keys() if isinstance(data, dict) else ()
    return next((what for what, theirs in DOCUMENTS.items() if theirs & set(keys)), None)
