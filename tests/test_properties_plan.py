"""What holds for every question: over random scenarios, from the bound to the plan."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from planning import CATALOG, T4, V100, Shelf, model, offer, profile, question, scenario, shelf

from planner.load import Loaded
from planner.plan import Plan
from planner.scenario import BuySpec, MemoryPolicy, OwnMachine, Scenario
from planner.search import plan

Drawn = dict[str, tuple[float, float, float, float]]
MODELS = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(
        st.floats(0.002, 0.02),  # floor_s
        st.floats(0.0005, 0.004),  # slope_s
        st.floats(10, 150),  # rps
        st.sampled_from([0.15, 0.3, 0.6]),  # slo_s
    ),
    min_size=1,
    max_size=4,
)
OWN = BuySpec(
    own=(
        OwnMachine(name="small", gpu="T4", price=0.5, count=30),
        OwnMachine(name="large", gpu="V100", price=1.7, count=30),
    )
)
OFFERS = [offer(T4, 0.5), offer(V100, 1.7)]


def drawn(models: Drawn, load: float = 1.0, attainment: float = 0.95, **changes: object) -> Scenario:
    return scenario(
        [model(name, slo_s, attainment) for name, (_, _, _, slo_s) in models.items()],
        {name: (5, load * rps / 5) for name, (_, _, rps, _) in models.items()},
        buy=OWN,
        horizon=8.0,
        **changes,
    )


def library(models: Drawn, v100: float = 1.0) -> Shelf:
    """T4 three times as slow as a V100, which may be made faster still."""
    return shelf(
        *(profile(n, T4, 3 * floor, 3 * slope) for n, (floor, slope, _, _) in models.items()),
        *(profile(n, V100, v100 * floor, v100 * slope) for n, (floor, slope, _, _) in models.items()),
    )


def planned(asked: Scenario, found: Shelf) -> Plan:
    return plan(Loaded(asked, "0" * 64, Path("drawn.yaml")), CATALOG, found, created_at="2026-07-25T00:00:00")


def bound(asked: Scenario, found: Shelf) -> float:
    return question(asked, OFFERS, found).program().lower_bound_usd_per_hour() or float("inf")


@settings(max_examples=8)
@given(MODELS)
def test_no_plan_is_cheaper_than_the_lower_bound(models: Drawn) -> None:
    found = planned(drawn(models), library(models))
    assert found.recommendation is not None
    for answer in (found.recommendation, *found.alternatives):
        if answer.feasible:
            assert answer.cost_usd_per_hour >= answer.lower_bound_usd_per_hour * (1 - 1e-6)


@settings(max_examples=6)
@given(MODELS)
def test_much_more_load_never_costs_less(models: Drawn) -> None:
    """With a margin: at twice the load, against what the same search found for the single one."""
    once, twice = (planned(drawn(models, load), library(models)).recommendation for load in (1.0, 2.0))
    assert once is not None
    if twice is not None and twice.feasible:
        assert once.feasible
        assert twice.cost_usd_per_hour >= once.cost_usd_per_hour - 1e-9


@settings(max_examples=30)
@given(MODELS, st.floats(1.0, 3.0))
def test_bound_never_falls_with_load(models: Drawn, factor: float) -> None:
    """Frames keep their rate; more cameras of the same kind come."""
    asked = drawn(models, memory=MemoryPolicy.AUTO)
    more = replace(asked, streams=tuple(replace(s, count=round(s.count * factor)) for s in asked.streams))
    assert bound(more, library(models)) >= bound(asked, library(models)) * (1 - 1e-6)


@settings(max_examples=30)
@given(MODELS, st.floats(0.3, 1.0))
def test_bound_never_rises_when_a_gpu_gets_faster(models: Drawn, v100: float) -> None:
    asked = drawn(models)
    assert bound(asked, library(models, v100)) <= bound(asked, library(models)) * (1 + 1e-6)


@settings(max_examples=4)
@given(MODELS)
def test_same_inputs_give_the_same_bytes(models: Drawn) -> None:
    one, two = (planned(drawn(models), library(models)) for _ in range(2))
    assert as_bytes(one) == as_bytes(two)


def as_bytes(found: Plan) -> bytes:
    content: Mapping[str, object] = asdict(found)
    return json.dumps(content).encode()


@settings(max_examples=4)
@given(MODELS)
def test_refusals_carry_figures_and_a_way_out(models: Drawn) -> None:
    for no in planned(drawn(models, load=4.0), library(models)).rejections:
        assert no.reason
        assert no.way_out
        if no.unit in ("s", "bytes", "GPUs"):
            assert no.observed > no.limit
