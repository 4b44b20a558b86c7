"""Strain: a GPU never looks less strained for one more neighbour."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.planning import V100, model, offer, profile, question, scenario, shelf

from planner.model.parts.streams import StreamSpec
from planner.placing.duty import Portion, Rules, duty_cycle, held_bytes, least_work, strain
from planner.placing.packing.strain import Strains
from planner.placing.rounds import score
from planner.placing.sizing import Kind
from planner.search.question import Question
from simulator.clock.run import Compiled

Model = tuple[float, float, float, float, float, bool]
"""Floor and slope of run times, rate, SLO, attainment, and whether it is asked by one camera or at random."""

MODELS = st.tuples(
    st.floats(0.001, 0.05),
    st.floats(0.0005, 0.01),
    st.floats(0.1, 40.0),
    st.floats(0.1, 2.0),
    st.sampled_from([0.9, 0.95, 0.99, 0.999]),
    st.booleans(),
)


def asked(models: list[Model], weights_bytes: int) -> Question:
    names = [f"m{i}" for i in range(len(models))]
    streams = tuple(
        StreamSpec(model=name, rate=rate) if camera else StreamSpec(model=name, poisson=rate)
        for name, (_, _, rate, _, _, camera) in zip(names, models, strict=True)
    )
    specs = [model(name, slo_s, share) for name, (_, _, _, slo_s, share, _) in zip(names, models, strict=True)]
    made = replace(scenario(specs, {}), streams=streams)
    known = [profile(n, V100, floor, slope, weights_bytes) for n, (floor, slope, *_) in zip(names, models, strict=True)]
    return question(made, [offer(V100, 3.06)], shelf(*known))


@settings(max_examples=150, deadline=None)
@given(
    models=st.lists(MODELS, min_size=2, max_size=5),
    shares=st.lists(st.floats(0.05, 1.0), min_size=5, max_size=5),
    swap=st.booleans(),
    weights_bytes=st.sampled_from([100_000_000, 3_000_000_000, 6_000_000_000]),
)
def test_a_neighbour_never_relieves(models: list[Model], shares: list[float], swap: bool, weights_bytes: int) -> None:
    q = asked(models, weights_bytes)
    kind = Kind.of(q.offers[0])
    known = [name for name in q.needs if (name, kind) in q.sized]
    portions = [Portion(q.sized[name, kind], share) for name, share in zip(known, shares, strict=False)]
    rules = q.rules(swap, {})
    for count in range(1, len(portions)):
        fewer, more = strain(portions[:count], kind, rules), strain(portions[: count + 1], kind, rules)
        if more is not None:
            assert fewer is not None
            assert more >= fewer * (1 - 1e-9)


@settings(max_examples=100, deadline=None)
@given(
    models=st.lists(MODELS, min_size=1, max_size=5),
    fills=st.lists(st.dictionaries(st.integers(0, 4), st.floats(0.05, 1.0), min_size=1), min_size=1, max_size=8),
    swap=st.booleans(),
    prefetch=st.booleans(),
    tightness=st.sampled_from([{}, {"m0": 1.44}]),
    weights_bytes=st.sampled_from([100_000_000, 3_000_000_000, 6_000_000_000]),
)
def test_many_at_once_are_judged_like_each(
    models: list[Model],
    fills: list[dict[int, float]],
    swap: bool,
    prefetch: bool,
    tightness: dict[str, float],
    weights_bytes: int,
) -> None:
    q = asked(models, weights_bytes)
    kind = Kind.of(q.offers[0])
    rules = replace(q.rules(swap, tightness), prefetch=prefetch)
    strains = Strains(list(q.needs), q.sized, rules)
    numbers = strains.numbers.get(kind, {})
    known = [[(f"m{i}", share) for i, share in sorted(fill.items()) if f"m{i}" in numbers] for fill in fills]
    known = [fill for fill in known if fill]
    if not known:
        return
    fills_by_number = [[(numbers[name], share) for name, share in fill] for fill in known]
    expected = [judged([Portion(q.sized[name, kind], share) for name, share in fill], kind, rules) for fill in known]
    assert [strains.one_score(fill) for fill in fills_by_number] == expected
    if Compiled.installed:
        assert strains.by_machine_code(fills_by_number) == expected


def judged(portions: list[Portion], kind: Kind, rules: Rules) -> float:
    """The score of one GPU by itself."""
    found = strain(portions, kind, rules)
    held = held_bytes(portions, rules) / kind.memory_bytes
    return score(least_work(portions)[0], inf if found is None else found, held, rules.headroom)


def test_a_part_of_a_slow_camera_does_not_relieve_a_fast_one() -> None:
    """Where 5 % of the heavy model stood beside the light one, its round looked rare and the GPU half as strained."""
    heavy, light = (0.05, 0.0001, 1.0, 0.2, 0.99, True), (0.02, 0.0001, 2.0, 0.03, 0.99, True)
    q = asked([heavy, light], 100_000_000)
    kind = Kind.of(q.offers[0])
    alone = [Portion(q.sized["m1", kind], 1.0)]
    rules = q.rules(False, {})
    beside = strain([*alone, Portion(q.sized["m0", kind], 0.05)], kind, rules)
    found = strain(alone, kind, rules)
    assert beside is not None
    assert found is not None
    assert beside > found
    assert found < 1  # a camera at 2 fps whose frames take 20 ms never waits for itself


def test_what_a_rare_neighbour_costs_is_its_misses() -> None:
    """an SLO of 95 % beside a model of which 0.95/s must run: half of the misses leave 0.025 / 0.95 s out."""
    q = asked([(0.01, 0.0, 10.0, 1.0, 0.95, False), (0.1, 0.0, 1.0, 1.0, 0.95, False)], 100_000_000)
    kind = Kind.of(q.offers[0])
    portions = [Portion(q.sized[name, kind], 1.0) for name in q.needs]
    duty = duty_cycle(portions, kind, replace(q.rules(False, {}), headroom=0.0))
    assert duty is not None
    assert duty.worst_s[0] == pytest.approx(0.11 + 0.01)
    assert duty.strain == pytest.approx(0.11 - 0.025 / 0.95 + 0.1)  # of the rare one: its own last batch is as rare
