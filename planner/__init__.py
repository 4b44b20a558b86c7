"""Questions: a scenario goes in; a recommendation, its price and its reasons come out.

Every command is a call: `plan(scenario)`. Scenarios and answers are objects: `Scenario(...)`, `Plan`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from planner.api.answering import diff, explain, export, read_plan, report, reprice, write_plan
from planner.api.modelling import merge_analyze, merge_breakeven, merge_train, predict, profile
from planner.api.pricing import gpus_add, gpus_show, prices_import, prices_refresh, prices_show, prices_table
from planner.api.profiling import (
    calibrate,
    doctor,
    profiles_device,
    profiles_export,
    profiles_import,
    profiles_join,
    profiles_list,
    profiles_plot,
    profiles_show,
    profiles_table,
)
from planner.api.serving import horizon, plan, simulate, whatif
from planner.api.starting import from_triton, init, schema, trace_describe, trace_import
from planner.api.studying import study
from planner.api.training import train, train_measured
from planner.api.validating import validate
from simulator.errors import InputError

if TYPE_CHECKING:
    from planner.answers import HorizonAnswer, StudyResults, TrainingAnswer, WhatIfAnswer
    from planner.model.calendar import (
        AutoscalingSpec,
        CalendarSpec,
        CalendarTrace,
        ReservedSpec,
        SpotSpec,
    )
    from planner.model.parts.machines import BuySpec, FailureSpec, OwnMachine
    from planner.model.parts.merging import RetrainingSpec, SharingSpec
    from planner.model.parts.models import ModelSpec, SloSpec
    from planner.model.parts.rules import AccuracySpec, ClockDriftSpec, SwapSpec, ValidateSpec
    from planner.model.parts.streams import GammaSpec, StreamSpec, TraceSpec
    from planner.objects import Plan, Scenario, Simulation

__all__ = [
    "AccuracySpec",
    "AutoscalingSpec",
    "BuySpec",
    "CalendarSpec",
    "CalendarTrace",
    "ClockDriftSpec",
    "FailureSpec",
    "GammaSpec",
    "HorizonAnswer",
    "InputError",
    "ModelSpec",
    "OwnMachine",
    "Plan",
    "ReservedSpec",
    "RetrainingSpec",
    "Scenario",
    "SharingSpec",
    "Simulation",
    "SloSpec",
    "SpotSpec",
    "StreamSpec",
    "StudyResults",
    "SwapSpec",
    "TraceSpec",
    "TrainingAnswer",
    "ValidateSpec",
    "WhatIfAnswer",
    "calibrate",
    "diff",
    "doctor",
    "explain",
    "export",
    "from_triton",
    "gpus_add",
    "gpus_show",
    "horizon",
    "init",
    "merge_analyze",
    "merge_breakeven",
    "merge_train",
    "plan",
    "predict",
    "prices_import",
    "prices_refresh",
    "prices_show",
    "prices_table",
    "profile",
    "profiles_device",
    "profiles_export",
    "profiles_import",
    "profiles_join",
    "profiles_list",
    "profiles_plot",
    "profiles_show",
    "profiles_table",
    "read_plan",
    "report",
    "reprice",
    "schema",
    "simulate",
    "study",
    "trace_describe",
    "trace_import",
    "train",
    "train_measured",
    "validate",
    "whatif",
    "write_plan",
]

HOMES = (
    "planner.objects",
    "planner.model.parts.machines",
    "planner.model.parts.merging",
    "planner.model.parts.models",
    "planner.model.parts.rules",
    "planner.model.parts.streams",
    "planner.model.calendar",
    "planner.answers",
)
"""Modules of the classes. They are imported when one is first used, for `planner --help` needs none of them."""


def __getattr__(name: str) -> Any:
    """A class by its name."""
    if name in __all__:
        for home in map(import_module, HOMES):
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module `planner` has no attribute `{name}`")
