"""Schemas: the kind of answer that a file says it holds."""

import re

SCHEMA = re.compile(r"planner\.(\w*)(/.*)?", re.DOTALL)


def kind_of(data: object) -> str | None:
    """`plan` for `planner.plan/v2`, whatever the version; None where a file holds no answer of ours."""
    schema = data.get("schema") if isinstance(data, dict) else None
    named = SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    return named[1] if named else None
