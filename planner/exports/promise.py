"""Promise: what was promised and how it is asked for, for the script that measures a deployed plan."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.exports.demand import recorded, scenario_of, sources_of
from planner.plans import Plan
from planner.store import plain

SCHEMA = "planner.promise/v1"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a part of a model's requests goes."""

    endpoint: str
    share: float


@dataclass(frozen=True, slots=True)
class Asked:
    """How a deployed model is reached."""

    path: str
    """Of the model, at every endpoint."""
    routes: Sequence[Route]


def promise_files(plan: Plan, endpoints: Mapping[str, str], asked: Mapping[str, Asked]) -> dict[str, str]:
    """The script, and the load and promise it reads. `endpoints`: addresses by name, empty where not known."""
    script = Path(__file__).with_name("check_promise.py").read_text(encoding="utf-8")
    data = {"schema": SCHEMA, "scenario": plan.scenario, "endpoints": dict(endpoints), "models": promises(plan, asked)}
    return {"check_promise.py": script, "promise.json": json.dumps(plain(data), indent=2) + "\n"}


def promises(plan: Plan, asked: Mapping[str, Asked]) -> list[dict[str, Any]]:
    """One entry a model."""
    scenario = scenario_of(plan)
    return [
        {
            "name": model.name,
            "path": asked[model.name].path,
            "routes": [{"endpoint": r.endpoint, "share": r.share} for r in asked[model.name].routes],
            "slo_s": model.slo_s,
            "slo_attainment_target": model.slo_attainment_target,
            "p50_s": model.p50_s,
            "p99_s": model.p99_s,
            "offered_rps": model.offered_rps,
            "sources": sources_of(scenario, model),
            "stands_in": recorded(scenario, model),
        }
        for model in plan.recommendation.models
    ]
