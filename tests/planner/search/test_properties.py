"""What holds for every question: over random scenarios, from the bound to the plan."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import SCENARIOS
from support.planning import T4, V100, Shelf, model, offer, planned, profile, question, scenario, shelf

from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.plan import Rejection
from planner.model.scenario import MemoryPolicy, Scenario
from planner.search.even import evaluate, force
from planner.words.statements import rejection_reason, rejection_remedy
from simulator.world.deployment import Drop

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


def bound(asked: Scenario, found: Shelf) -> float:
    return question(asked, OFFERS, found).program().lower_bound_usd_per_hour() or float("inf")


@settings(max_examples=8)
@given(MODELS)
def test_no_plan_is_cheaper_than_the_lower_bound(models: Drawn) -> None:
    """The most GPUs that cost less than the bound, with nothing kept free, fill and empty for long: they miss."""
    asked = replace(drawn(models, load=5.0, memory=MemoryPolicy.AUTO), headroom=0.0, horizon=30.0, warmup=5.0)
    for one in OFFERS:
        q = question(asked, [one], library(models))
        least = q.program().lower_bound_usd_per_hour()
        assert least is not None
        devices = ceil(least / one.usd_per_hour - 1e-6) - 1
        if devices:
            short = force(q, (one,), (devices,))
            assert isinstance(short, Rejection) or not short.replay.met


@settings(max_examples=4)
@given(MODELS)
def test_much_more_load_never_costs_less(models: Drawn) -> None:
    """With a margin: at twice the load, against what the same search found for the single one."""
    once, twice = (planned(drawn(models, load), library(models)).recommendation for load in (1.0, 2.0))
    assert once is not None
    if twice is not None and twice.feasible:
        assert once.feasible
        assert twice.cost_usd_per_hour >= once.cost_usd_per_hour - 1e-9


@settings(max_examples=15)
@given(MODELS, st.floats(1.0, 3.0))
def test_bound_never_falls_with_load(models: Drawn, factor: float) -> None:
    """Frames keep their rate; more cameras of the same kind come."""
    asked = drawn(models, memory=MemoryPolicy.AUTO)
    more = replace(asked, streams=tuple(replace(s, count=round(s.count * factor)) for s in asked.streams))
    assert bound(more, library(models)) >= bound(asked, library(models)) * (1 - 1e-6)


@settings(max_examples=15)
@given(MODELS, st.floats(0.3, 1.0))
def test_bound_never_rises_when_a_gpu_gets_faster(models: Drawn, v100: float) -> None:
    asked = drawn(models)
    assert bound(asked, library(models, v100)) <= bound(asked, library(models)) * (1 + 1e-6)


@settings(max_examples=8)
@given(MODELS)
def test_a_faster_gpu_never_waits_longer(models: Drawn) -> None:
    """Means over the same arrivals on one GPU. With 5 % of margin: smaller batches may come of shorter queues."""
    waits = [mean_waits(models, v100) for v100 in (1.0, 0.5)]
    for model_name in models:
        assert waits[1][model_name] <= 1.05 * waits[0][model_name] + 1e-4


def mean_waits(models: Drawn, v100: float) -> dict[str, float]:
    asked = drawn(models, load=0.3, drop=Drop.NEVER)
    seen = evaluate(question(asked, OFFERS, library(models, v100)), OFFERS[1], 1).replay
    return {name: seen.of(name)[0].mean_queueing_s for name in models}


def test_same_inputs_give_the_same_bytes_in_every_process() -> None:
    """Two processes that hash texts differently."""
    one, two = (written(hash_seed) for hash_seed in ("1", "2"))
    assert one == two
    assert b'"feasible": true' in one


def written(hash_seed: str) -> bytes:
    scenario_file = SCENARIOS / "trace.yaml"
    quick = ("--set", "horizon=2 s", "--set", "replications=2", "--set", "confidence=50 %")
    some = ("--set", "buy.gpus=[T4, L4, V100]")  # order shows among three kinds as among all
    done = subprocess.run(
        [sys.executable, "-m", "planner", "plan", str(scenario_file), *quick, *some, "--format", "json", "-q"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
    )
    without_date, dates = re.subn(rb'"created_at": "[^"]+"', b"", done.stdout)
    assert dates == 1
    return without_date


@settings(max_examples=4)
@given(MODELS)
def test_refusals_carry_figures_and_a_remedy(models: Drawn) -> None:
    for no in planned(drawn(models, load=2.0), library(models)).rejections:
        assert rejection_reason(no)
        assert rejection_remedy(no)
        if no.unit in ("s", "bytes", "GPUs"):
            assert no.observed > no.limit
