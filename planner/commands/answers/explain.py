"""The command `planner explain`: why a plan is what it is."""

from planner import api
from planner.console.options import PlanFile
from planner.console.output import emit
from planner.units.writing import stdout_screen


def explain(plan_file: PlanFile) -> None:
    """Say why a plan is what it is, and what would change it."""
    from planner.show.text.explain import explain as reasons

    emit(reasons(api.read_plan(plan_file), stdout_screen()))
