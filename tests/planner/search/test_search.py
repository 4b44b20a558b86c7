"""The lower bound against brute force, fleets in order of price, and answers and refusals from end to end."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from math import ceil, isnan, log2
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from support import planning
from support.planning import T4, V100, Shelf, model, offer, profile, question, scenario, shelf

from planner.catalog.offers import Offer
from planner.io.store import plain
from planner.model.candidate import Candidate
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec, FailureSpec, OwnMachine
from planner.model.parts.streams import Phase, StreamSpec
from planner.model.plan import Bottleneck, Plan, PlanWarning, nearest
from planner.model.progress import silent
from planner.model.scenario import MemoryPolicy, Objective, Scenario
from planner.model.statement import Code, Statement
from planner.placing import fleets as cost
from planner.placing.fleets import Fleet, cost_usd_per_hour, dominates, gpu_count, machines_of
from planner.placing.packing.packed import Packing
from planner.placing.packing.packer import Packer
from planner.placing.sizing import Kind
from planner.replay.run import seed_of
from planner.replay.trial import Trial
from planner.replay.warnings import warnings_of
from planner.search import placement
from planner.search.even import evaluate
from planner.search.fleets.beside import Beside
from planner.search.fleets.descent import STEPS_DOWN, with_fewest
from planner.search.fleets.misses import Misses
from planner.search.fleets.search import FleetSearch
from planner.search.fleets.tried import ALTERNATIVE, PROOF, Effort
from planner.search.placement import LARGE_GPUS, Miss, OnFleet
from planner.search.question import NothingToPlanError, Question, undominated
from planner.search.rejections import missed_slo, too_many
from planner.show.documents.brief import limits as limits_of
from planner.show.text.explained.plan import binding
from planner.show.text.reasons import kinds_left_out, rejected_price, rejection_text
from planner.units import reading as units
from planner.words.candidates import candidate_name, machines_name
from planner.words.statements import rejection_remedy, warning, warning_line
from simulator.clock.metrics import Verdict
from simulator.world.curves import Interpolated
from simulator.world.deployment import Drop
from simulator.world.profile import Doubt
from simulator.world.workload import Stream, Trace, Workload

OFFERS = (offer(T4, 0.526), offer(T4, 1.8, gpu_count=4), offer(V100, 3.06), offer(V100, 11.0, gpu_count=4))
LIBRARY = shelf(
    *(profile(n, V100, floor_s, slope_s) for n, floor_s, slope_s in (("a", 0.004, 0.002), ("b", 0.008, 0.004))),
    *(profile(n, T4, 3 * floor_s, 3 * slope_s) for n, floor_s, slope_s in (("a", 0.004, 0.002), ("b", 0.008, 0.004))),
)


def asked(rate_a: float = 300, rate_b: float = 200, **changes: object) -> Scenario:
    models = [model("a", 0.2), model("b", 0.3, 0.95)]
    return scenario(models, {"a": (10, rate_a / 10), "b": (10, rate_b / 10)}, **changes)


def can_carry(q: Question, fleet: Fleet) -> bool:
    """Whether some sharing of the work, split at will between kinds, leaves every kind its headroom."""
    kinds = list(dict.fromkeys(map(Kind.of, q.offers)))
    cells = [(m, k) for m in q.needs for k in kinds if (m, k) in q.sized]
    room = [
        (1 - q.scenario.headroom)
        * sum(n * o.gpu_count for o, n in zip(q.offers, fleet, strict=True) if Kind.of(o) == kind)
        for kind in kinds
    ]
    found = linprog(
        [0.0] * len(cells),
        A_ub=[[q.sized[m, k].least_work * (k == kind) for m, k in cells] for kind in kinds],
        b_ub=room,
        A_eq=[[float(m == name) for m, _ in cells] for name in q.needs],
        b_eq=[1.0] * len(q.needs),
        bounds=[(0, 1 if room[kinds.index(k)] else 0) for _, k in cells],
    )
    return bool(found.success)


@settings(max_examples=12)
@given(st.floats(20, 900), st.floats(20, 500), st.sampled_from([0.0, 0.1, 0.3]))
def test_lower_bound_is_the_least_over_all_fleets(rate_a: float, rate_b: float, headroom: float) -> None:
    q = question(asked(rate_a, rate_b, headroom=headroom, memory=MemoryPolicy.AUTO), OFFERS, LIBRARY)
    fleets = product(range(4), range(6), range(4), range(2))
    by_price = sorted(fleets, key=lambda fleet: cost_usd_per_hour(q.offers, fleet))
    least = next(fleet for fleet in by_price if can_carry(q, fleet))
    bound = q.program().lower_bound_usd_per_hour()
    assert bound == pytest.approx(cost_usd_per_hour(q.offers, least), rel=1e-5)


def proposed(q: Question, objective: Objective = Objective.COST) -> Fleet:
    found = q.program().propose(objective)
    assert found is not None
    assert found.fleet is not None
    return found.fleet


def test_resident_weights_raise_the_bound() -> None:
    heavy = shelf(*(profile(n, T4, 0.004, 0.002, 6_000_000_000) for n in "abcde"))
    light = scenario([model(n, 0.5) for n in "abcde"], dict.fromkeys("abcde", (1, 1.0)))
    assert question(light, [OFFERS[0]], heavy).program().lower_bound_usd_per_hour() == pytest.approx(2 * 0.526)
    turns = replace(light, memory=MemoryPolicy.SWAP)
    assert question(turns, [OFFERS[0]], heavy).program().lower_bound_usd_per_hour() == pytest.approx(0.526)


def test_fleets_come_in_order_of_price_and_none_is_part_of_a_refused_one() -> None:
    q = question(asked(), OFFERS, LIBRARY)
    refused: list[Fleet] = []
    for _ in range(8):
        found = q.program().propose(Objective.COST, refused)
        assert found is not None
        assert found.proven
        fleet = found.fleet
        assert fleet is not None
        assert not any(all(n <= had for n, had in zip(fleet, no, strict=True)) for no in refused)
        refused.append(fleet)
    costs = [cost_usd_per_hour(q.offers, fleet) for fleet in refused]
    assert costs == sorted(costs)


def test_limits_on_what_may_be_bought_are_kept() -> None:
    few = proposed(question(asked(buy=BuySpec(max_gpus=3)), OFFERS, LIBRARY))
    assert gpu_count(OFFERS, few) <= 3
    one = (replace(OFFERS[2], count_max=1), OFFERS[0])
    assert proposed(question(asked(900, 500), one, LIBRARY), Objective.GPUS)[0] == 1
    assert question(asked(buy=BuySpec(max_gpus=1)), OFFERS[:1], LIBRARY).program().propose() is None


def test_dearer_offers_of_the_same_gpus_are_refused_by_name() -> None:
    kept, refused = undominated([offer(T4, 0.752, name="big"), *OFFERS[:2], offer(T4, 8.0, 8)], whole_hosts=False)
    assert [o.instance for o in kept] == ["4xT4", "1xT4"]  # 0.45 and 0.526 dollars a GPU
    assert [(no.bottleneck, no.limit) for no in refused] == [
        (Bottleneck.COST, pytest.approx(0.526)),
        (Bottleneck.COST, pytest.approx(3.6)),
    ]


def test_label_names_machines_and_gpus() -> None:
    assert machines_name(machines_of(OFFERS, (2, 0, 0, 1))) == "2 x 1xT4 (T4) + 1 x 4xV100 (4 x V100)"


OWN = BuySpec(
    own=(
        OwnMachine(name="small", gpu="T4", price=0.5, count=8),
        OwnMachine(name="large", gpu="V100", price=3.0, count=4),
    )
)


def planned(asked: Scenario, library: Shelf = LIBRARY) -> Plan:
    return planning.planned(asked, library)


def test_plan_keeps_every_slo_and_says_what_it_costs() -> None:
    answer = planned(asked(buy=OWN)).recommendation
    assert answer is not None
    assert answer.feasible
    assert all(m.slo_met and m.draws_kept and m.draws_kept.low >= 0.5 for m in answer.models)
    assert answer.cost_usd_per_hour == pytest.approx(sum(i.count * i.usd_per_hour for i in answer.instances))
    assert answer.cost_usd_per_month == pytest.approx(730 * answer.cost_usd_per_hour)
    assert answer.cost_usd_per_hour >= answer.lower_bound_usd_per_hour * (1 - 1e-6)
    assert {device for m in answer.models for device in m.gpus} <= {g.id for g in answer.gpus}


def test_alternatives_are_other_fleets_and_the_pareto_set_names_some_of_them() -> None:
    found = planned(asked(buy=OWN))
    assert found.recommendation is not None
    labels = [
        candidate_name(found.recommendation.candidate),
        *(candidate_name(a.candidate) for a in found.alternatives),
    ]
    assert len(set(labels)) == len(labels) > 1
    assert all(a.feasible for a in found.alternatives)
    assert set(found.pareto) <= set(range(len(labels)))
    assert found.pareto


def test_fewest_gpus_is_never_more_than_the_cheapest_plan_has() -> None:
    cheapest = planned(asked(600, 300, buy=OWN)).recommendation
    fewest = planned(asked(600, 300, buy=OWN, objective=Objective.GPUS)).recommendation
    assert cheapest is not None
    assert fewest is not None
    assert fewest.gpu_count <= cheapest.gpu_count


def test_a_machine_on_which_no_model_runs_is_not_bought() -> None:
    """Of three machines the models are on the second; one like it was said to miss, by a packing of its own."""
    on_offer = (offer(T4, 1.0, name="here"), offer(T4, 1.2, name="there"))
    of = question(scenario([model("m")], {"m": (4, 10.0)}), on_offer, shelf(profile("m", T4, 0.004, 0.002)))
    one, three = (OnFleet(of, on_offer, fleet, False, lambda _: silent) for fleet in ((1, 0), (2, 1)))
    packing = one._packer({}, None).pack(one.devices)
    assert isinstance(packing, Packing)
    second = three.devices[1]
    elsewhere = three.replayed(replace(packing, placed=tuple(replace(p, devices=(second,)) for p in packing.placed)))
    assert second.id == "here-2:0"
    search = FleetSearch(of, lambda *_: None)
    search.rejections = [too_many(one.replayed(packing).candidate, 0, 1.0), too_many(elsewhere.candidate, 2, 3.2)]
    left = search.without_idle(elsewhere)
    assert (left.stands, machines_of(left.offers, left.fleet)) == (True, machines_of(on_offer, (1, 0)))
    assert left.cost_usd_per_hour == pytest.approx(1.0)
    assert [no.subject for no in search.rejections] == [elsewhere.candidate]
    assert search.try_fleet(on_offer, (1, 0)) is left
    assert search.without_idle(left) is left


@pytest.mark.parametrize("visitors_rps", [20, 30])
def test_of_uncertain_speeds_too_models_that_miss_beside_others_get_gpus_of_their_own(visitors_rps: int) -> None:
    """A batch of `slow` takes 14 ms, of `quick` 14 ms too, and `quick` has 30: in one of five draws not beside it."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.2,)), shared=0.2, quantile=1.28)
    library = shelf(
        replace(profile("slow", T4, 0.006, 0.008), doubt=doubt, predicted=True),
        replace(profile("quick", T4, 0.008, 0.006), doubt=doubt, predicted=True),
    )
    cameras = scenario([model("slow", 0.04), model("quick", 0.03)], {"slow": (3, 10.0)}, confidence=0.9)
    visitors = StreamSpec(model="quick", poisson=f"{visitors_rps} rps")
    asked = replace(cameras, streams=(*cameras.streams, visitors))
    found = OnFleet(question(asked, [offer(T4, 1.0)], library), (offer(T4, 1.0),), (3,), False, lambda _: silent).find()
    assert isinstance(found, Trial)
    assert found.stands
    devices = [{p.devices[0].id for p in found.placed(name)} for name in ("slow", "quick")]
    assert not devices[0] & devices[1]


def test_models_that_take_turns_bear_no_more_load_than_their_gpu() -> None:
    """Loads of 250 ms come on top of batches of 70 ms: they fill the GPU before the batches alone would."""
    names = "abc"
    heavy = shelf(*(profile(name, T4, 0.05, 0.02, 3_000_000_000) for name in names))
    machine = OwnMachine(name="box", gpu="T4", price=0.3, host_memory=64_000_000_000, memory=6_400_000_000)
    specs, cameras = [model(name, 2.0, 0.9) for name in names], dict.fromkeys(names, (2, 1.0))
    light = scenario(specs, cameras, memory=MemoryPolicy.AUTO, horizon=60.0, buy=BuySpec(own=(machine,)))
    turns = planned(light, heavy).recommendation
    assert turns.feasible
    assert {(one.mode, one.bottleneck) for one in turns.models} == {("swapped", Bottleneck.LOADING)}
    assert max(one.demand_factor_max for one in turns.models) <= turns.demand_factor_max


@pytest.mark.parametrize(
    ("slo_s", "memory_bytes", "by"),
    [(0.1, 16_000_000_000, Bottleneck.COMPUTE), (0.4, 4_000_000_000, Bottleneck.LOADING)],
)
def test_models_of_a_gpu_with_too_much_work_are_limited_by_that_and_not_by_an_slo(slo_s, memory_bytes, by) -> None:
    """Their SLO breaks at a quarter of the load: rounds of three batches of 20 ms and more take 60 ms and more."""
    names = "abc"
    known = shelf(*(profile(name, T4, 0.02, 0.001, 1_500_000_000) for name in names))
    box = OwnMachine(name="box", gpu="T4", price=0.3, host_memory=64_000_000_000, memory=memory_bytes)
    specs, cameras = [model(name, slo_s, 0.9) for name in names], dict.fromkeys(names, (30, 10.0))
    busy = scenario(specs, cameras, memory=MemoryPolicy.AUTO, buy=BuySpec(own=(box,)))
    answer = planned(busy, known).recommendation
    assert not answer.feasible
    assert {one.bottleneck for one in answer.models} == {by}
    assert max(one.demand_factor_max for one in answer.models) < 1


@pytest.mark.parametrize(("slo_s", "cameras"), [(0.012, 30), (0.012, 60), (0.015, 60)])
def test_a_model_whose_slo_leaves_small_batches_is_limited_by_these_and_a_longer_slo_would_do(slo_s, cameras) -> None:
    """At 12 ms 2 run at once and keep a GPU busy for 6 ms each; 16 in 26 ms would for 1.6 ms each."""
    known = shelf(profile("a", T4, 0.010, 0.001))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    short = planned(scenario([model("a", slo_s, 0.9)], {"a": (cameras, 10.0)}, buy=box), known)
    (one,) = short.recommendation.models
    assert (one.verdict, one.bottleneck) == (Verdict.OVERLOADED, Bottleneck.SLO_BATCH)
    assert "limited by the small batches that SLOs allow" in binding(one, short.recommendation)
    (longer,) = (r for no in short.rejections for r in no.remedies if r.code is Code.RAISE_LATENCY)
    slo = longer.figures["latency_s"]
    assert planned(scenario([model("a", slo, 0.9)], {"a": (cameras, 10.0)}, buy=box), known).recommendation.feasible


@pytest.mark.parametrize(("rate", "slo_s"), [("60 rps", 0.015), ("85 rps", 0.02)])
def test_as_long_an_slo_as_is_said_to_help_does(rate: str, slo_s: float) -> None:
    """A tenth less does not: random requests wait for one another, and replays say how long."""
    known = shelf(profile("a", T4, 0.010, 0.001))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    asked = scenario([model("a", slo_s)], {}, buy=box, streams=(StreamSpec(model="a", poisson=rate),), horizon=60.0)
    remedies = [one for no in planned(asked, known).rejections for one in no.remedies]
    (longer,) = (one for one in remedies if one.code is Code.RAISE_LATENCY)

    def is_met(latency_s: float) -> bool:
        return planned(replace(asked, models=(model("a", latency_s),)), known).recommendation.feasible

    assert longer.figures["latency_s"] > slo_s
    assert is_met(longer.figures["latency_s"])
    assert not is_met(0.9 * longer.figures["latency_s"])


@pytest.mark.parametrize(("rate", "attainment"), [("100 rps", 0.9), ("60 rps", 0.99)])
def test_load_is_limited_from_where_replays_end_and_not_before(rate: str, attainment: float) -> None:
    known = shelf(profile("a", T4, 0.010, 0.001))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    asked = scenario([model("a", 0.1, attainment)], {}, buy=box, streams=(StreamSpec(model="a", poisson=rate),))
    asked = replace(asked, horizon=60.0, replications=5)
    (one,) = planned(asked, known).recommendation.models

    def is_met(factor: float) -> bool:
        more = StreamSpec(model="a", poisson=f"{factor * float(rate.split(maxsplit=1)[0])} rps")
        return planned(replace(asked, streams=(more,)), known).recommendation.feasible

    assert is_met(0.97 * one.demand_factor_max)
    assert not is_met(1.2 * one.demand_factor_max)


@pytest.mark.parametrize(("slo_s", "limits"), [(0.06, "latency SLO ("), (0.05, "latency SLO, already at this load (")])
def test_a_worst_case_that_breaks_at_hardly_any_load_says_nothing_of_more(slo_s, limits, monkeypatch) -> None:
    """Three batches of 20 ms, and a fourth that waits for them, never fit; seldom do all three come at once."""
    names = "abc"
    monkeypatch.setattr("planner.search.remedies.GROWN_REQUESTS_MAX", 0.0)  # estimates alone
    known = shelf(*(profile(name, T4, 0.02, 0.0001) for name in names))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    visitors = tuple(StreamSpec(model=name, poisson="5 rps") for name in names)
    asked = scenario([model(name, slo_s) for name in names], {}, buy=box, streams=visitors, horizon=60.0)
    best = planned(asked, known).recommendation
    assert best.feasible == (slo_s > 0.05)
    assert {one.bottleneck for one in best.models} == {Bottleneck.LATENCY}
    assert [plain(one.demand_factor_max) for one in best.models] == [None] * 3
    assert limits in limits_of(best)


def test_longer_slos_of_all_models_that_need_them_are_asked_together_and_would_do() -> None:
    """At 12.5 ms 5 run at once, and each keeps its GPU busy half as long again as there is time."""
    known = shelf(profile("a", V100, 0.010, 0.0005), profile("b", T4, 0.010, 0.0005))
    own = OwnMachine(name="box", gpu="V100", price=1.0), OwnMachine(name="old", gpu="T4", price=1.0)

    def found(a_s: float, b_s: float, cameras: int) -> Plan:
        specs, of_cameras = [model("a", a_s), model("b", b_s)], {"a": (60, 10.0), "b": (cameras, 10.0)}
        return planned(scenario(specs, of_cameras, buy=BuySpec(own=own), horizon=10.0), known)

    (busy,) = (no for no in found(0.0125, 0.0125, 70).rejections if no.why.code is Code.TOO_BUSY)
    (longer,) = (one for one in busy.remedies if one.code is Code.RAISE_LATENCIES)
    assert longer.subjects == ("a", "b")
    assert rejection_remedy(busy).startswith("raise latency SLOs together: ")
    a_s, b_s = (longer.figures[f"latency_{i}_s"] for i in (1, 2))
    assert found(a_s, b_s, 70).recommendation.feasible
    assert not found(a_s, 0.0125, 70).recommendation.feasible
    (one,) = (no for no in found(0.0125, 0.0125, 30).rejections if no.why.code is Code.TOO_BUSY)
    assert "raise a's latency SLO to" in rejection_remedy(one)
    assert rejection_remedy(one).endswith("that is for a alone: b misses too")


@pytest.mark.parametrize(("slo_s", "rate"), [(0.03, 10.0), (0.2, 10.0), (0.03, 1.0)])
def test_no_longer_slo_is_asked_of_a_model_beside_which_another_would_wait_longer(slo_s, rate) -> None:
    """16 of `b` at once would do, in 26 ms. `a` would wait for them, and `b` for `a`. As many cameras of `b` are left
    as do, which may be none."""
    known = shelf(profile("a", T4, 0.005, 0.001), profile("b", T4, 0.010, 0.001))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    asked = scenario([model("a", slo_s, 0.9), model("b", 0.012, 0.9)], {"a": (5, rate), "b": (20, 10.0)}, buy=box)
    short = planned(asked, known)
    assert [one.bottleneck for one in short.recommendation.models if one.name == "b"] == [Bottleneck.SLO_BATCH]
    (busy,) = (no for no in short.rejections if no.why.code is Code.TOO_BUSY)
    assert {one.code for one in busy.remedies} - {Code.FEWER_CAMERAS} == {Code.MORE_GPUS}
    left = sum(round(one.figures["left"]) for one in busy.remedies if one.code is Code.FEWER_CAMERAS)

    def is_met(count: int) -> bool:
        a, b = asked.streams
        return planned(replace(asked, streams=(a, replace(b, count=count))), known).recommendation.feasible

    assert not is_met(left + 1)
    assert not left or is_met(left)


@pytest.mark.parametrize(("cameras", "rate"), [(23, 7.6), (60, 10.0)])
def test_as_many_cameras_as_are_said_to_help_do(cameras: int, rate: float) -> None:
    """They keep their rate: as many slower ones would meet far more often."""
    known = shelf(profile("a", T4, 0.020, 0.010))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    asked = scenario([model("a", 0.15, 0.99)], {"a": (cameras, rate)}, buy=box)
    (busy, *_) = (no for no in planned(asked, known).rejections if no.why.code is Code.TOO_BUSY)
    (fewer,) = (one for one in busy.remedies if one.code is Code.FEWER_CAMERAS)
    left = round(fewer.figures["left"])
    assert 1 < left < cameras
    followed = replace(asked, streams=(replace(asked.streams[0], count=left),))
    assert planned(followed, known).recommendation.feasible


@pytest.mark.parametrize("held", [3, 7])
def test_batches_that_memory_holds_are_not_said_to_be_held_by_an_slo(held) -> None:
    """The SLO allows 7 of `a` at once. Beside `b` memory holds 3 or 7, however long the SLO, and 30 without it."""
    known = shelf(*(profile(name, T4, floor_s, 0.001, 500_000_000) for name, floor_s in (("a", 0.010), ("b", 0.003))))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    specs, cameras = [model("a", 0.017, 0.9), model("b", 0.2, 0.9)], {"a": (60, 10.0), "b": (1, 1.0)}
    context = T4.memory_bytes - 1_000_000_000 - held * 20_000_000
    short = planned(scenario(specs, cameras, buy=box, context=context), known)
    assert {one.batch_size for one in short.recommendation.models} == {held}
    assert {one.bottleneck for one in short.recommendation.models} == {Bottleneck.COMPUTE}
    assert Code.RAISE_LATENCY not in {one.code for no in short.rejections for one in no.remedies}


def test_overloaded_models_that_take_turns_are_limited_by_loading_where_that_gives_way_before_rounds() -> None:
    """Queues grow from 0.69 times this load, headroom kept, for weights are loaded; rounds break an SLO from 0.84."""
    known = shelf(profile("a", T4, 0.053, 0.010, 600_000_000), profile("b", T4, 0.043, 0.017, 800_000_000))
    own = OwnMachine(name="box", gpu="T4", price=0.3, memory=1_700_000_000, host_memory=64_000_000_000)
    specs, cameras = [model("a", 0.5, 0.9), model("b", 0.3, 0.9)], {"a": (8, 5.0), "b": (12, 1.0)}
    box = BuySpec(own=(own,))
    answer = planned(scenario(specs, cameras, memory=MemoryPolicy.AUTO, buy=box, context=300_000_000), known)
    models = answer.recommendation.models
    assert {(one.verdict, one.mode) for one in models} == {(Verdict.OVERLOADED, "swapped")}
    assert {one.bottleneck for one in models} == {Bottleneck.LOADING}
    grow_at = 0.9 * answer.recommendation.demand_factor_max
    assert [one.demand_factor_max for one in models] == pytest.approx([grow_at, grow_at])


def test_a_queue_that_grows_behind_small_batches_of_another_is_not_said_to_be_short_of_latency() -> None:
    """The GPU would be busy for 74 % of its time in full batches: rounds are so short that `a` has batches of one."""
    costs = {"a": (0.04, 0.001), "b": (0.01, 0.001), "c": (0.005, 0.003)}
    specs = [model("a", 0.05), model("b", 0.05), model("c", 0.2, 0.9)]
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3),))
    busy = scenario(specs, {"a": (5, 5.0), "b": (20, 10.0), "c": (10, 10.0)}, buy=box)
    found = planned(busy, shelf(*(profile(name, T4, *cost, 200_000_000) for name, cost in costs.items())))
    (grows,) = (one for one in found.recommendation.models if one.verdict is not Verdict.STABLE)
    assert grows.bottleneck is Bottleneck.SLO_BATCH
    assert grows.mean_batch_size < 0.9 * grows.batch_size
    said = binding(grows, found.recommendation)
    assert "In full batches box-1:0 would be busy 74 % of the time, but SLOs keep rounds too short for them" in said


@pytest.mark.parametrize(("slo_s", "larger"), [(0.2, Bottleneck.BATCH_RANGE), (0.08, Bottleneck.COMPUTE)])
def test_a_queue_that_grows_in_full_batches_is_short_of_larger_ones_only_where_the_slo_leaves_time(slo_s, larger):
    """Full batches of `a` and small ones of `b` fill the GPU. 32 of `a` would take 42 ms: they wait and run in 84."""
    known = shelf(profile("a", T4, 0.010, 0.001), profile("b", T4, 0.020, 0.0005))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=1),))
    specs, cameras = [model("a", slo_s, 0.9), model("b", 0.2, 0.9)], {"a": (36, 10.0), "b": (10, 10.0)}
    grows, other = planned(scenario(specs, cameras, buy=box, drop=Drop.NEVER), known).recommendation.models
    assert (grows.verdict, other.verdict) == (Verdict.OVERLOADED, Verdict.STABLE)
    assert (grows.mean_batch_size, grows.batch_size) == (16, 16)
    assert grows.bottleneck is larger


def test_a_rejection_says_of_each_model_what_the_table_says_of_it() -> None:
    costs = {"a": (0.02954, 0.003354), "b": (0.02802, 0.002925), "c": (0.02142, 0.002379), "d": (0.02477, 0.00177)}
    slos = {"a": (1.5, 0.9), "b": (0.3, 0.99), "c": (0.08, 0.9), "d": (0.08, 0.99)}
    cameras = {"a": (40, 10.0), "b": (20, 5.0), "c": (2, 5.0), "d": (5, 1.0)}
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3),))
    busy = scenario([model(name, *slo) for name, slo in slos.items()], cameras, memory=MemoryPolicy.AUTO, buy=box)
    found = planned(busy, shelf(*(profile(name, T4, *cost, 300_000_000) for name, cost in costs.items())))
    met = {one.name: one.slo_met for one in found.recommendation.models}
    (said,) = (one for no in found.rejections for one in no.but if one.code is Code.MISSED_IN_A_REPLAY)
    split = len(said.subjects) - int(said.figures["undecided"])
    assert {met[name] for name in said.subjects[:split]} == {False}
    assert {met[name] for name in said.subjects[split:]} == {None}


def test_warnings_and_assumptions_name_models_as_the_scenario_and_its_tables_do() -> None:
    doubted = replace(profile("a", T4, 0.01, 0.002), doubts=("it is cold",), assumptions=("it is warm",))
    specs = [replace(model(name, 0.5), profile="a") for name in ("doors", "gates")]
    small = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3),))
    found = planned(scenario(specs, {"doors": (1, 5.0), "gates": (1, 5.0)}, buy=small), shelf(doubted))
    both = ("doors on T4", "gates on T4")
    assert [one.what.subjects for one in found.warnings if one.what.code is Code.DOUBT] == [both]
    assert [one.subjects for one in found.assumptions if one.text == "it is warm"] == [both]
    assert "doors on T4, gates on T4: it is cold" in [warning(one)[0] for one in found.warnings]


def test_swapping_serves_what_does_not_fit_together() -> None:
    heavy = shelf(*(profile(n, T4, 0.01, 0.002, 8_000_000_000) for n in "ab"))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, host_memory=32_000_000_000),))
    light = scenario([model("a", 5.0, 0.9), model("b", 5.0, 0.9)], {"a": (1, 1.0), "b": (1, 1.0)}, buy=box)
    turns = planned(replace(light, memory=MemoryPolicy.AUTO, horizon=60.0), heavy).recommendation
    assert turns is not None
    assert turns.feasible
    assert {m.mode for m in turns.models} == {"swapped"}
    assert turns.gpus[0].swaps_per_s > 0
    resident = planned(light, heavy)
    assert not resident.recommendation.models
    assert {no.bottleneck for no in resident.rejections} == {Bottleneck.MEMORY, Bottleneck.GPU_COUNT}


@pytest.mark.parametrize("predicted", [False, True])
def test_the_end_of_the_known_batches_is_named_where_larger_ones_would_carry_more(predicted: bool) -> None:
    found = {}
    for slope_s in (0.001, 0.01):  # twice the batch carries 24 % more, and 3 %
        busy = scenario([model("a", 0.5)], {"a": (20, 30.0)}, buy=BuySpec(gpus=("V100",), retired=True))
        known = replace(profile("a", V100, 0.010, slope_s), predicted=predicted)
        found[slope_s] = planned(busy, shelf(known))
    near, far = (plan.recommendation.models[0].bottleneck for plan in found.values())
    assert (near, far) == (Bottleneck.BATCH_RANGE, Bottleneck.COMPUTE)
    ends = {Code.BATCHES_END, Code.PREDICTED_BATCHES_END}
    near, far = ([w.what for w in plan.warnings if w.what.code in ends] for plan in found.values())
    code = Code.PREDICTED_BATCHES_END if predicted else Code.BATCHES_END
    assert near == [Statement(code=code, subjects=("a on V100",))]
    assert far == []


def test_larger_batches_are_asked_to_be_measured_only_where_memory_holds_them_beside_the_others() -> None:
    """32 of `a` take 640 MB of workspace."""
    known = shelf(profile("a", T4, 0.010, 0.001, 500_000_000), profile("b", T4, 0.003, 0.001, 500_000_000))
    asked = scenario([model("a", 0.5), model("b", 0.5)], {"a": (20, 30.0), "b": (1, 1.0)})
    found = {}
    for free in (630_000_000, 650_000_000):
        box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, memory=1_300_000_000 + free),))
        answer = planned(replace(asked, buy=box, context=300_000_000), known).recommendation
        found[free] = answer.models[0].bottleneck
    assert list(found.values()) == [Bottleneck.COMPUTE, Bottleneck.BATCH_RANGE]


def test_model_over_two_gpus_is_planned_as_stages() -> None:
    wide = shelf(profile("a", T4, 0.02, 0.002, 20_000_000_000))
    pair = BuySpec(own=(OwnMachine(name="pair", gpu="T4", gpu_count=2, price=1.0, count=2),))
    answer = planned(scenario([model("a", 0.5)], {"a": (4, 5.0)}, buy=pair), wide).recommendation
    assert answer is not None
    assert answer.feasible
    assert answer.models[0].gpus == ("pair-1:0", "pair-1:1")


@pytest.mark.parametrize(
    ("buy", "bottleneck", "remedy"),
    [
        (replace(OWN, max_gpus=1), Bottleneck.GPU_COUNT, Statement(code=Code.RAISE_MAX_GPUS, figures={"gpu_count": 4})),
        (
            replace(OWN, max_cost=1.0),
            Bottleneck.COST,
            Statement(code=Code.RAISE_MAX_COST, figures={"cost_usd_per_hour": 7.0}),
        ),
    ],
)
def test_limit_that_leaves_no_fleet_is_named(buy: BuySpec, bottleneck: Bottleneck, remedy: Statement) -> None:
    found = planned(asked(500, 500, buy=buy))
    assert not found.recommendation.feasible
    named = [no for no in found.rejections if no.bottleneck is bottleneck]
    assert [no.remedies for no in named] == [(remedy,)]
    assert named[0].observed > named[0].limit


@pytest.mark.parametrize(
    ("count", "limits", "key"),
    [(1, {}, "count"), (8, {"max_gpus": 2}, "buy.max_gpus"), (8, {"max_cost": 1.0}, "buy.max_cost")],
)
def test_a_kind_that_a_limit_on_buying_leaves_out_says_which(count: int, limits: dict[str, float], key: str) -> None:
    """1,900 frames a second are work for three T4, of 21 ms for 16; a V100 does them ten times as fast."""
    both = shelf(profile("a", T4, 0.005, 0.001), profile("a", V100, 0.0005, 0.0001))
    own = OwnMachine(name="box", gpu="T4", price=0.5, count=count), OwnMachine(name="large", gpu="V100", price=0.9)
    plan = planned(scenario([model("a")], {"a": (190, 10.0)}, buy=BuySpec(own=own, **limits)), both)
    assert [kind.gpu for kind in plan.by_gpu] == ["V100"]
    (left,) = plan.by_gpu_left_out
    assert (left.gpu, left.why) == ("T4", Statement(code=Code.KIND_LIMITED, subjects=(key,)))
    assert kinds_left_out(plan) == [
        f"Left out: T4 (3 GPUs and $1.50/h at least): no fleet of it within `{key}` meets every SLO."
    ]


def test_memory_that_a_refusal_of_a_fleet_asks_for_is_enough() -> None:
    def found(memory_bytes: int) -> Plan:
        mine = OwnMachine(name="mine", gpu="V100", memory=memory_bytes, price=0.3)
        return planned(asked(30, 20, buy=BuySpec(own=(mine,)), context=812_345_678))

    refused = next(no for no in found(1_000_000_000).rejections if no.bottleneck is Bottleneck.MEMORY)
    wanted = re.search(r"at least ([\d.]+) GB", rejection_remedy(refused))
    assert wanted
    enough = found(round(float(wanted[1]) * 1e9))
    assert all(no.bottleneck is not Bottleneck.MEMORY for no in enough.rejections)


def test_deployment_one_names_is_replayed_even_if_too_small() -> None:
    q = question(asked(900, 500), OFFERS, LIBRARY)
    trial = evaluate(q, OFFERS[0], 1)
    assert not trial.replay.met
    assert trial.replay.requests > 0
    wide = shelf(profile("a", T4, 0.02, 0.002, 20_000_000_000))
    alone = question(scenario([model("a", 0.5)], {"a": (1, 1.0)}), [offer(T4, 1.0, gpu_count=2)], wide)
    with pytest.raises(NothingToPlanError, match="no GPUs are left that can hold a"):
        evaluate(alone, offer(T4, 0.5), 1)


def test_frames_that_may_not_be_dropped_are_all_served() -> None:
    answer = planned(asked(buy=OWN, drop=Drop.NEVER)).recommendation
    assert answer is not None
    assert answer.feasible
    assert all(m.dropped_fraction == 0 for m in answer.models)


def test_search_that_is_cut_off_proves_less_but_nothing_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven kinds of machine of odd sizes and prices, which the solver cannot settle at its root."""
    offers = [
        offer(T4, 0.5 * n + 0.013 * n * n % 0.3, n, host_memory_bytes=10**9 * n) for n in (2, 3, 5, 7, 11, 13, 17)
    ]
    q = question(asked(3000, 2000), offers, LIBRARY)
    whole = q.program().propose()
    assert whole is not None
    assert whole.proven
    monkeypatch.setattr(cost, "NODES_MAX", 0)
    anew = replace(q.program())
    cut = anew.propose()
    assert cut is not None
    assert not cut.proven
    assert cut.bound <= whole.bound + 1e-9
    bound = anew.lower_bound_usd_per_hour()
    assert bound is not None
    assert bound <= whole.bound + 1e-9


def test_hosts_that_hold_too_few_weights_do_not_stand_for_others_with_the_same_gpus() -> None:
    heavy = shelf(*(profile(n, T4, 0.004, 0.002, 3_000_000_000) for n in "ab"))
    hosts = [(0.5, 4_000_000_000), (0.6, 32_000_000_000)]
    boxes = [OwnMachine(name=f"box-{i}", gpu="T4", price=usd, host_memory=held) for i, (usd, held) in enumerate(hosts)]
    found = planned(asked(20, 20, buy=BuySpec(own=tuple(boxes))), heavy).recommendation
    assert [(one.instance, one.count) for one in found.instances] == [("box-1", 1)]


def test_more_host_memory_is_never_stood_in_for_by_less() -> None:
    small, large, unknown = (offer(T4, 0.5, host_memory_bytes=held) for held in (8 * 10**9, 64 * 10**9, None))
    assert dominates(large, small, whole_hosts=False)
    assert dominates(unknown, unknown, whole_hosts=False)
    for a, b in ((small, large), (unknown, small), (small, unknown)):
        assert not dominates(a, b, whole_hosts=False)
    assert not dominates(small, offer(T4, 4.0, 4, host_memory_bytes=32 * 10**9), whole_hosts=False)
    for other in (large, unknown):
        assert dominates(small, other, whole_hosts=False, weight_bytes=8 * 10**9)
        assert not dominates(small, other, whole_hosts=False, weight_bytes=8 * 10**9 + 1)


def test_of_fleets_that_cost_the_same_one_of_small_machines_is_taken() -> None:
    lots = [offer(T4, 0.5 * n, n, host_memory_bytes=n * 10**9) for n in (4, 2, 1)]
    assert proposed(question(asked(20), lots, LIBRARY))[2] > 0


def test_spares_that_are_too_dear_are_counted_once() -> None:
    """A box at $0.50 carries this, another must stand ready: $1.00 are not allowed."""
    boxes = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=8),), max_cost=0.75)
    answer = planned(asked(20, 20, buy=boxes, survive=1))
    (no,) = [no for no in answer.rejections if no.why.code is Code.TOO_DEAR]
    assert no.why.figures["cost_usd_per_hour"] == no.observed == pytest.approx(1.0)
    assert rejected_price(answer, no) == "$0.500/h, $1.00/h with 1 spare"


def test_machines_that_are_too_few_are_counted_with_their_spares() -> None:
    """There is one box; of so many as are advised one stands ready."""
    boxes = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=1),))
    answer = planned(asked(survive=1, buy=boxes))
    (no,) = [no for no in answer.rejections if no.why.code is Code.TOO_FEW_MACHINES]
    (count,) = [one.figures["count"] for one in no.remedies if one.code is Code.RAISE_COUNT]
    enough = planned(asked(survive=1, buy=replace(boxes, own=(replace(boxes.own[0], count=int(count)),))))
    assert enough.recommendation
    assert enough.recommendation.feasible
    assert sum(one.paid for one in enough.recommendation.instances) == count


def test_label_tells_regions_apart_where_it_must() -> None:
    two = (offer(T4, 0.5), offer(T4, 0.6, region="eu-west-1", host_memory_bytes=10**10))
    assert machines_name(machines_of(two, (1, 2), two)) == "1 x 1xT4 (T4, aws us-east-1) + 2 x 1xT4 (T4, aws eu-west-1)"
    q = question(asked(100, 60), two, LIBRARY)
    labels = {candidate_name(evaluate(q, one, 2).candidate) for one in two}
    assert labels == {"2 x 1xT4 (T4, aws us-east-1), resident", "2 x 1xT4 (T4, aws eu-west-1), resident"}


RARE = replace(scenario([model("a", 0.2, 0.99)], {}, buy=OWN), streams=(StreamSpec(model="a", poisson=3.0),))
"""Thirty requests in one replication: 690 must be in time to prove 99 % at one of six looks."""


def test_slo_is_not_given_up_while_more_replications_would_prove_it() -> None:
    answer = planned(RARE).recommendation
    assert answer is not None
    assert answer.feasible
    assert answer.replications > RARE.replications


def test_too_few_requests_ask_for_time_and_not_for_gpus() -> None:
    """40 runs of 1 s bring 120 frames, all in time. What is advised must do."""
    short = replace(RARE, horizon=1.0, warmup=0.0)
    found = planned(short)
    assert found.recommendation is not None
    assert not found.recommendation.feasible
    refused = [no for no in found.rejections if no.bottleneck is Bottleneck.EVIDENCE]
    assert len(refused) == 1
    assert refused[0].observed < refused[0].limit
    assert Code.MORE_GPUS not in {one.code for no in found.rejections for one in no.remedies}
    advised = re.search(r"`horizon: (.+?)`", rejection_remedy(refused[0]))
    assert advised
    assert any(advised[0] in warning_line(warning) for warning in found.warnings)
    again = planned(replace(short, horizon=units.duration(advised[1]))).recommendation
    assert again is not None
    assert again.feasible
    unasked = planned(replace(short, horizon=None)).recommendation
    assert unasked is not None
    assert unasked.feasible


def test_model_without_any_judged_request_is_no_near_miss() -> None:
    never = replace(RARE, models=(*RARE.models, model("b", 0.3)))
    never = replace(never, streams=(*RARE.streams, StreamSpec(model="b", poisson=1e-6)), horizon=2.0)
    q = question(never, OFFERS, LIBRARY)
    seen = evaluate(q, OFFERS[0], 1).replay
    assert isnan(seen.attainment["b"].mean)
    assert seen.nearest_by_margin < (True, -1.0)
    assert missed_slo(evaluate(q, OFFERS[0], 1)).bottleneck is Bottleneck.EVIDENCE


def test_of_fleets_of_which_no_draw_keeps_an_slo_the_one_with_most_in_time_is_the_nearest() -> None:
    """The cheaper one is tried first; neither keeps the SLO at any site."""
    both = shelf(profile("a", T4, 0.0045, 0.0022), profile("a", V100, 0.004, 0.0018))
    own = OwnMachine(name="slow", gpu="T4", price=0.5), OwnMachine(name="quick", gpu="V100", price=1.0)
    buy = BuySpec(own=own, max_gpus=1)
    plan = planned(scenario([model("a", 0.014)], {"a": (20, 10.0)}, buy=buy, headroom=0.0, horizon=10.0), both)
    missed = [no for no in plan.rejections if no.why.code is Code.MISSED_IN_DRAWS]
    assert [no.why.figures["kept"] for no in missed] == [0.0, 0.0]
    assert not plan.recommendation.feasible
    assert [gpu.kind for gpu in plan.recommendation.gpus] == ["V100"]
    assert nearest(plan)[0] == max(missed, key=lambda no: no.observed)


def test_what_is_not_random_is_replayed_once() -> None:
    aligned = replace(RARE, streams=(StreamSpec(model="a", count=10, rate=30.0, phase=Phase.ALIGNED),))
    answer = planned(aligned).recommendation
    assert answer is not None
    assert answer.feasible
    assert (answer.replications, answer.requests) == (1, 3000)


def test_no_two_scenario_seeds_share_a_replication() -> None:
    seeds = [seed_of(seed, stage, i) for seed in (0, 1, 2, 2**31, 2**32 - 1) for stage in (0, 1) for i in range(40)]
    assert len(set(seeds)) == len(seeds)


def test_headroom_is_kept_by_repaired_packings_too() -> None:
    search = FleetSearch(question(asked(headroom=0.3), OFFERS, LIBRARY), silent)
    trial = search.best(search.question.program(), Objective.COST, ALTERNATIVE)
    assert trial
    on_fleet = search.on_fleet(trial)
    busy = replace(trial.packing, strain=0.5, worst="a", work=0.8, busiest="a")
    for repaired in (False, True):
        miss = on_fleet._miss_unreplayed(busy, repaired=repaired)
        assert miss is not None
        assert (miss.rejection.observed, miss.rejection.limit) == (0.8, 0.7)


def many_models(seed: int) -> Question:
    """Some two dozen models of random speeds, SLOs and cameras."""
    random = Random(seed)
    names = [f"m{number}" for number in range(random.randint(16, 28))]
    profiles, specs, cameras = [], [], {}
    for name in names:
        profiles.append(profile(name, T4, random.uniform(0.002, 0.02), random.uniform(0.0005, 0.004)))
        specs.append(model(name, random.choice([0.08, 0.1, 0.15, 0.2, 0.4])))
        cameras[name] = random.randint(2, 12), random.uniform(2, 15)
    return question(scenario(specs, cameras, headroom=0.1), (offer(T4, 0.5),), shelf(*profiles))


@pytest.mark.parametrize("seed", [15, 37])
def test_a_fleet_that_nearly_does_is_packed_anew_in_small_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = many_models(seed)
    cheapest = FleetSearch(asked, silent).best(asked.program(), Objective.COST)
    monkeypatch.setattr(placement, "FINER", 0)
    coarse = FleetSearch(asked, silent).best(asked.program(), Objective.COST)
    assert cheapest is not None
    assert coarse is not None
    assert len(cheapest.devices) < len(coarse.devices)


@pytest.mark.parametrize("seed", [10, 11, 37])
def test_fleets_that_carry_less_than_the_first_step_are_tried(seed: int) -> None:
    random = Random(seed)
    names = [f"m{number}" for number in range(random.randint(6, 12))]
    profiles, specs, cameras = [], [], {}
    for name in names:
        floor_s, slope_s = random.uniform(0.002, 0.02), random.uniform(0.0005, 0.004)
        faster = floor_s * random.uniform(0.25, 0.6), slope_s * random.uniform(0.15, 0.5)
        profiles += [profile(name, T4, floor_s, slope_s), profile(name, V100, *faster)]
        specs.append(model(name, random.choice([0.1, 0.15, 0.2, 0.4])))
        cameras[name] = random.randint(2, 12), random.uniform(2, 15)
    asked = question(scenario(specs, cameras, headroom=0.1), (offer(T4, 0.5), offer(V100, 1.1)), shelf(*profiles))
    efforts = [Effort(first=0, halvings=halvings) for halvings in (0, 4)]
    trials = [FleetSearch(asked, silent).best(asked.program(), Objective.COST, effort) for effort in efforts]
    first, halved = (trial.cost_usd_per_hour for trial in trials if trial)
    assert halved < first


def test_model_with_a_tight_slo_gets_gpus_of_its_own() -> None:
    """Beside others it waits for their batches, on however many GPUs; alone it does not."""
    trial = FleetSearch(q := tight_beside_three(), silent).try_fleet(q.offers, (6,))
    assert trial
    assert trial.replay.met
    beside = {c.id for m in "bcd" for p in trial.placed(m) for c in p.devices}
    assert not beside & {c.id for p in trial.placed("a") for c in p.devices}


def tight_beside_three(**changes: object) -> Question:
    models = [model("a", 0.003), model("b", 0.3), model("c", 0.2), model("d", 0.15)]
    made = scenario(models, {"a": (6, 30.0), "b": (10, 20.0), "c": (8, 15.0), "d": (6, 15.0)}, **changes)
    library = shelf(profile("a", V100, 0.002, 0.0001), *(profile(m, V100, 0.008, 0.004) for m in "bcd"))
    return question(made, [offer(V100, 3.06)], library)


def test_more_gpus_are_named_as_remedy_only_where_they_help() -> None:
    q = tight_beside_three()
    search = FleetSearch(q, silent)
    for gpus in (4, 5, 6):
        search.try_fleet(q.offers, (gpus,))
    more = {
        no.subject.gpu_count: [remedy.figures["gpu_count"] for remedy in no.remedies if remedy.code is Code.MORE_GPUS]
        for no in Misses(search).settled()
    }
    assert more == {4: [2], 5: [1]}


RAISES = {Code.RAISE_LATENCY, Code.RAISE_LATENCY_WITH_WAITING, Code.RAISE_ANY_LATENCY}


@pytest.mark.parametrize(("rate_rps", "boxes", "count"), [(300.0, 9, 3), (400.0, 9, 4), (300.0, 2, 2), (300.0, 1, 1)])
def test_changes_of_the_nearest_miss_are_such_as_a_plan_then_meets(rate_rps: float, boxes: int, count: int) -> None:
    """Of the answer where nothing is feasible, and of what is cheaper than the answer where it is."""
    known = shelf(profile("a", T4, 0.010, 0.004))

    def found(rate_rps: float, boxes: int, slo_s: float = 0.04) -> Plan:
        box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, count=boxes),))
        made = scenario([model("a", slo_s)], {"a": (1, 1.0)}, buy=box, horizon=60.0, replications=10, confidence=0.95)
        return planning.planned(replace(made, streams=(StreamSpec(model="a", poisson=rate_rps),)), known)

    first = found(rate_rps, boxes)
    miss = nearest(first)[0]
    assert miss.replayed
    assert isinstance(miss.subject, Candidate)
    assert miss.subject.gpu_count == count
    assert not found(rate_rps, count).recommendation.feasible
    assert rejection_text(first, miss).count("What helps: ") == 1
    seen = set()
    for change in miss.remedies:
        seen.add(change.code)
        match change.code:
            case Code.LOWER_RATE:
                assert found(change.figures["rate_rps"], count).recommendation.feasible
            case Code.RAISE_LATENCY:
                assert found(rate_rps, count, change.figures["latency_s"]).recommendation.feasible
            case Code.MORE_GPUS:
                more = round(change.figures["gpu_count"])
                assert found(rate_rps, count + more).recommendation.feasible
                assert not found(rate_rps, count + more - 1).recommendation.feasible
    assert Code.MORE_GPUS in seen


def test_more_gpus_are_no_remedy_where_they_did_not_help() -> None:
    """A run time that is often longer than the SLO is so on however many GPUs."""
    made = scenario([model("a", 0.0022)], {"a": (4, 30.0)}, horizon=60.0)
    noisy = replace(profile("a", V100, 0.002, 0.0001), latency_cv=0.3)
    q = question(made, [offer(V100, 3.06)], shelf(noisy))
    search = FleetSearch(q, silent)
    for gpus in (4, 5, 6):
        assert search.try_fleet(q.offers, (gpus,)) is None
    assert len(Misses(search).settled()) == 3
    advised = [{remedy.code for remedy in no.remedies} for no in Misses(search).settled()]
    assert all(Code.MORE_GPUS not in codes and codes & RAISES for codes in advised)


def test_refusal_of_the_nearest_miss_quotes_its_confirmation() -> None:
    search = FleetSearch(q := tight_beside_three(), silent)
    search.try_fleet(q.offers, (5,))
    shown = Misses(search).closest()
    assert shown
    (refused,) = Misses(search).settled()
    assert refused.observed == shown.replay.attainment["a"].mean


def test_models_take_turns_where_memory_holds_their_batches_back() -> None:
    """Together with both models' weights there is room for batches of two: 20 frames a second, where 30 come."""
    pair = shelf(*(profile(n, T4, 0.1, 0.001, 1_000_000_000) for n in "ab"))
    box = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.3, memory=2_850_000_000),))
    models = [model(n, 2.5, 0.95) for n in "ab"]
    asked_both = scenario(models, dict.fromkeys("ab", (5, 3.0)), buy=box, horizon=60.0, headroom=0.0)
    resident = planned(asked_both, pair)
    assert not resident.recommendation.feasible
    turns = planned(replace(asked_both, memory=MemoryPolicy.AUTO), pair).recommendation
    assert turns is not None
    assert turns.feasible
    assert {m.mode for m in turns.models} == {"swapped"}
    assert all(m.batch_size > 2 for m in turns.models)
    assert turns.gpus[0].swaps_per_s > 0


def test_every_fleet_that_was_refused_is_named_also_those_tried_for_alternatives() -> None:
    tight = scenario([model("a", 0.05), model("b", 0.3)], {"a": (10, 60.0), "b": (10, 30.0)}, horizon=2.0)
    q = question(tight, OFFERS[::2], LIBRARY)
    search = FleetSearch(q, silent)
    best = search.best(q.program(), Objective.COST, ALTERNATIVE)
    assert best is not None
    before = set(search.tried)
    beside = Beside(search)
    beside.others(best, beside.alone(best))
    failed = [key for key, trial in search.tried.items() if trial is None]
    assert set(failed) - before
    for key in failed:
        assert any(no.subject.machines == machines_of(*key) for no in search.rejections)


def test_prices_are_as_old_as_those_of_the_answer() -> None:
    found = plan_of_two_kinds()
    assert found.recommendation is not None
    assert found.alternatives
    assert found.prices_as_of == min(i.price_as_of for i in found.recommendation.instances)
    assert found.prices_as_of > min(i.price_as_of for a in found.alternatives for i in a.instances)


def plan_of_two_kinds() -> Plan:
    """Rented: the T4's price is younger than the V100's."""
    rented = BuySpec(instances=("g4dn.xlarge", "NC6s_v3"), retired=True)
    return planned(asked(60, 30, buy=rented))


def test_assumptions_speak_of_the_kinds_in_use_only() -> None:
    found = plan_of_two_kinds()
    assert found.recommendation is not None
    assert {g.kind for g in found.recommendation.gpus} == {"T4"}
    about = {one.code: one.subjects for one in found.assumptions}
    assert about[Code.IDLE_POWER] == ("T4",)
    assert about[Code.POWER_BY_PACE] == ("b on T4", "a on T4")


def warned(asked: Scenario, offers: Sequence[Offer] = OFFERS, streams: Sequence[Stream] = ()) -> dict[Code, Statement]:
    """All warnings on a deployment of one machine."""
    q = question(asked, offers, LIBRARY)
    given = Workload(tuple(streams)) if streams else q.workload
    found = warnings_of(asked, given, evaluate(q, offers[0], 1), date(2026, 7, 25))
    return {one.what.code: one.what for one in found}


def test_warnings_name_what_the_replays_left_out() -> None:
    whole = warned(RARE, streams=[Stream("a", Trace(np.arange(0.0, 10.0), 10.0))])
    assert Code.WINDOWS not in whole
    cut = warned(RARE, streams=[Stream("a", Trace(np.arange(0.0, 3600.0), 3600.0))])[Code.WINDOWS].figures
    assert (cut["window_s"], cut["recording_s"]) == (10.0, 3600.0)
    assert Code.FEW_OUTAGES in warned(replace(RARE, failures=FailureSpec(mean_time_between=36000.0, recovery=0.0)))
    assert Code.FEW_OUTAGES not in warned(replace(RARE, failures=FailureSpec(mean_time_between="0.5 s", recovery=0.0)))
    spot = [offer(T4, 0.2, price_kind=PriceKind.SPOT)]
    assert warned(RARE, spot)[Code.SPOT].subjects == ("1xT4",)
    given = replace(RARE, failures=FailureSpec(mean_time_between=36000.0, recovery=60.0))
    assert Code.SPOT not in warned(given, spot)


def test_a_plan_without_host_stages_says_that_their_work_is_not_in_it() -> None:
    """With the cores of the machine that has fewest, where they are known."""
    known = warned(RARE, [replace(offer(T4, 0.2), host_cores=4)])[Code.HOST_WORK]
    assert warning(PlanWarning(what=known))[0] == (
        "Decoding and tokenizing on the host are not included; 1xT4 has 4 vCPUs: docs/pipelines.md"
    )
    unknown = warned(RARE, [offer(T4, 0.2)])[Code.HOST_WORK]
    assert warning(PlanWarning(what=unknown))[0].endswith("are not included: docs/pipelines.md")


def test_search_in_steps_ends_with_a_fleet_that_spares_no_machine() -> None:
    """So tight that the dozen cheapest fleets miss; then machines of a kind are left out down to the last."""
    tight = scenario([model("a", 0.06), model("b", 0.1)], {"a": (10, 60.0), "b": (10, 30.0)})
    search = FleetSearch(question(tight, OFFERS[::2], LIBRARY), silent)
    found = search.best(search.question.program(), Objective.COST, Effort(first=2, halvings=4))
    assert found is not None
    assert found.replay.met
    for offer_left_out in found.offers:
        fewer = tuple(n - (o == offer_left_out) for o, n in zip(found.offers, found.fleet, strict=True))
        assert search.try_fleet(found.offers, fewer) is None


@pytest.mark.parametrize(("gpus", "least"), [(3, 1), (8, 6), (40, 40), (178, 166), (1000, 617), (1000, 1)])
def test_the_fewest_gpus_that_do_are_found_in_few_tries(gpus: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    search = FleetSearch(q := tight_beside_three(), silent)
    tried: list[int] = []

    def try_fleet(offered: tuple[Offer, ...], fleet: Fleet, _effort: Effort) -> object:
        tried.append(*fleet)
        return SimpleNamespace(offers=offered, fleet=fleet) if fleet[0] >= least else None

    monkeypatch.setattr(search, "try_fleet", try_fleet)
    whole: Any = SimpleNamespace(offers=q.offers, fleet=(gpus,))
    assert with_fewest(search, whole, q.offers[0], PROOF).fleet == (least,)
    assert len(tried) <= STEPS_DOWN + ceil(log2(gpus / STEPS_DOWN + 2))
    (nearly,) = with_fewest(search, whole, q.offers[0], ALTERNATIVE).fleet
    assert least <= nearly <= max(least, least + gpus // LARGE_GPUS - 1)


def test_a_large_fleet_is_found_in_steps_from_the_bound_on(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order = FleetSearch(q := tight_beside_three(), silent)
    in_steps = FleetSearch(q, silent)
    expected = in_order.best(q.program(), Objective.COST, PROOF)
    monkeypatch.setattr("planner.search.fleets.descent.LARGE_GPUS", 1)
    found = in_steps.best(q.program(), Objective.COST, PROOF)
    assert expected
    assert found
    assert found.met
    assert found.fleet == expected.fleet
    assert found.fleet[0] > min(fleet[0] for _, fleet in in_steps.tried)


def test_models_of_a_large_fleet_get_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    q = tight_beside_three()
    monkeypatch.setattr("planner.search.placement.LARGE_GPUS", 1)
    found = FleetSearch(q, silent).best(q.program(), Objective.COST, PROOF)
    assert found
    assert found.met
    fewer = OnFleet(q, q.offers, (found.fleet[0] - 1,), False, lambda _: silent)
    assert isinstance(fewer.find(), Miss)
    assert len(fewer.missed) <= 5, "with room, with more for what missed, as usual, on all GPUs, some models apart"


def test_a_huge_fleet_is_found_in_few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    q = tight_beside_three()
    for module in ("placement", "fleets.descent", "fleets.misses", "fleets.beside"):
        monkeypatch.setattr(f"planner.search.{module}.LARGE_GPUS", 1)
    for module in ("fleets.descent", "fleets.beside"):
        monkeypatch.setattr(f"planner.search.{module}.HUGE_GPUS", 1)
    search = FleetSearch(q, silent)
    found = search.best(q.program(), Objective.COST, PROOF)
    assert found
    assert found.met
    tried = len(search.tried)
    assert tried <= 1 + 3 + PROOF.halvings, "the first, steps up to half more work, and halves of the last"
    beside = Beside(search)
    assert not beside.others(found, beside.alone(found))
    assert len(search.tried) == tried


def test_what_is_found_under_more_headroom_is_found_under_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no packing under less did: a packing moves with headroom, and is no better where less is asked."""
    q, find = tight_beside_three(), OnFleet.find
    miss = OnFleet(q, q.offers, (4,), False, lambda _: silent).find()

    def find_under_much(here: OnFleet) -> Trial | Miss:
        asked = here.question.scenario.headroom
        return find(here) if asked >= 0.3 else miss

    much = replace(q, scenario=replace(q.scenario, headroom=0.3))
    strictest = FleetSearch(much, silent).try_fleet(q.offers, (8,))
    assert strictest
    assert strictest.met
    monkeypatch.setattr(OnFleet, "find", find_under_much)
    for headroom in (0.0, 0.05, 0.2):
        little = replace(q, scenario=replace(q.scenario, headroom=headroom))
        found = FleetSearch(little, silent).try_fleet(q.offers, (8,))
        assert found
        assert found.packing.placed == strictest.packing.placed
        assert found.limit == 1 - headroom
    work = Packer(list(q.needs), q.sized, q.rules(False, {})).busy_at_least(strictest.devices[:2])
    assert work > 0.7, "two GPUs cannot leave so much"
    assert FleetSearch(q, silent).try_fleet(q.offers, (2,)) is None


def test_only_speeds_on_gpus_of_a_fleet_put_it_in_doubt() -> None:
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.2,)), shared=0.5)
    on_t4 = replace(profile("a", T4, 0.004, 0.002), doubt=doubt, predicted=True)
    made = scenario([model("a", 0.1)], {"a": (4, 30.0)})
    q = question(made, [offer(V100, 3.06), offer(T4, 0.5)], shelf(profile("a", V100, 0.002, 0.001), on_t4))
    kinds = [one.gpu.name for one in q.offers]
    for fleet in ((1, 0), (0, 1), (1, 1)):
        here = OnFleet(q, q.offers, fleet, False, lambda _: silent)
        assert here.doubted is (fleet[kinds.index("T4")] > 0)


@settings(max_examples=4)
@given(st.integers(4, 8), st.floats(0.0, 0.09))
def test_packings_with_more_kept_free_do_not_move_with_the_headroom(gpus: int, headroom: float) -> None:
    q = tight_beside_three()

    def kept_free(asked: float) -> list[Any]:
        scenario = replace(q.scenario, headroom=asked)
        here = OnFleet(replace(q, scenario=scenario), q.offers, (gpus,), False, lambda _: silent)
        return [packing.placed for packing in (*here._spread(), here._with_free(asked)) if packing]

    looser, stricter = kept_free(headroom), kept_free(0.1)
    assert all(placed in looser for placed in stricter)


def test_more_room_goes_to_what_broke_its_slo_in_a_draw() -> None:
    q = tight_beside_three()
    here = OnFleet(q, q.offers, (4,), False, lambda _: silent)
    assert isinstance(here.find(), Miss)
    screened = [trial for trial in here.missed if trial.replay.screened and trial.replay.broken]
    assert screened
    for trial in screened:
        kept = trial.replay.draws_kept
        growing = {m for m, verdict in trial.replay.verdicts.items() if verdict is not Verdict.STABLE}
        assert set(trial.short) == growing | {m for m in q.needs if kept[m].mean < 1}


def test_more_room_goes_to_what_does_not_keep_up_though_all_was_in_time() -> None:
    q = tight_beside_three()
    met = FleetSearch(q, silent).try_fleet(q.offers, (6,))
    assert met
    assert not met.replay.broken
    behind = replace(met, replay=replace(met.replay, overloaded=("c",)))
    assert behind.short == ["c"]


def test_what_a_request_a_right_answer_and_a_stream_cost() -> None:
    """Ten cameras at 30 fps send 1.08 million requests an hour, of which a model is right in 80 %."""
    sharp = replace(model("a", 0.2, 0.99), accuracy=0.8)
    cameras = planned(scenario([sharp], {"a": (10, 30.0)}, buy=OWN)).recommendation
    unit = cameras.unit_costs
    assert unit is not None
    assert unit.per_million_requests == pytest.approx(cameras.cost_usd_per_hour / 1.08, rel=0.01)
    assert unit.per_million_right == pytest.approx(unit.per_million_requests / 0.8, rel=0.02)
    assert unit.per_stream_month == pytest.approx(cameras.cost_usd_per_month / 10)
    at_random = planned(RARE).recommendation.unit_costs
    assert at_random is not None
    assert at_random.per_stream_month is None
