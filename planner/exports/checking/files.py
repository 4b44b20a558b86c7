"""SLOs of a plan and the load that it is for, as the script reads them that measures what was deployed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from planner.io.demand import recorded, scenario_of, sources_of
from planner.io.store import plain
from planner.model.plan import Plan

SCHEMA = "planner.slo/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a part of a model's requests goes."""

    endpoint: str
    share: float


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a deployed model is."""

    path: str
    """At every endpoint."""
    routes: Sequence[Route]


def slo_files(plan: Plan, endpoints: Mapping[str, str], models: Mapping[str, Destination]) -> dict[str, str]:
    """The script, and the load and SLOs it reads. `endpoints`: addresses by name, empty where not known."""
    script = Path(__file__).with_name("check_slo.py").read_text(encoding="utf-8")
    data = {
        "schema": SCHEMA,
        "scenario": plan.scenario,
        "endpoints": dict(endpoints),
        "models": slos(plan, models),
    }
    return {"check_slo.py": script, "slo.json": json.dumps(plain(data), indent=2) + "\n"}


def slos(plan: Plan, destinations: Mapping[str, Destination]) -> list[dict[str, Any]]:
    """One entry a model."""
    scenario = scenario_of(plan)
    return [
        {
            "name": model.name,
            **asdict(destinations[model.name]),
            "slo_s": model.slo_s,
            "slo_attainment_target": model.slo_attainment_target,
            "p50_s": model.p50_s,
            "p99_s": model.p99_shown_s,
            "offered_rps": model.offered_rps,
            "sources": sources_of(scenario, model),
            "stands_in": recorded(scenario, model),
        }
        for model in plan.recommendation.models
    ]
