"""The kind of answer that a file says it holds."""

import pytest

from planner.io.schemas import kind_of


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"schema": "planner.plan/v3"}, "plan"),
        ({"schema": "planner.plan/v1"}, "plan"),
        ({"schema": "planner.training/v1"}, "training"),
        ({"schema": "planner."}, ""),
        ({"schema": "somebody.plan/v2"}, None),
        ({"schema": ["planner.plan/v3"]}, None),
        ({"schema": None}, None),
        ({}, None),
        (["planner.plan/v3"], None),
        ("planner.plan/v3", None),
    ],
)
def test_the_kind_is_that_of_the_schema_whatever_its_version(data, kind):
    assert kind_of(data) == kind
