"""Machines that fail: what no luck of a replay makes better, against long replays of the same deployment."""

from dataclasses import replace
from datetime import date
from math import floor
from pathlib import Path

import pytest
from support.planning import CATALOG, T4, demand, loaded, model, offer, planned, profile, question, scenario, shelf

from calibrate.library.lookup import find_profiles
from planner.io.load import load_scenario, workload
from planner.model.parts.machines import BuySpec, FailureSpec, OwnMachine
from planner.model.parts.streams import StreamSpec
from planner.model.scenario import Scenario
from planner.model.simulation import Simulation
from planner.model.statement import Code, Statement
from planner.placing.outages import attainment_max, machines_asked
from planner.replay.warnings import warnings_of
from planner.search.even import evaluate
from planner.search.outlooks import other_precisions
from planner.search.question import ask, predictor_of
from planner.search.simulation import simulate_named
from planner.show.kept import explained, render
from planner.units.writing import Format, Screen
from simulator.world.deployment import Failures, Routing
from simulator.world.sharing import NOTHING_SHARED

KNOWN = shelf(profile("a", T4, 0.001, 0.001))
BOXES = BuySpec(own=(OwnMachine(name="t4", gpu="T4", price=0.5, count=3),))
OFTEN = FailureSpec(mean_time_between="60 s", recovery=6.0)  # type: ignore[arg-type]


def asked(attainment: float, routing: Routing, failures: FailureSpec, **changes: object) -> Scenario:
    """Ten requests a second, for which one GPU is enough."""
    made = scenario([model("a", 0.1, attainment)], {"a": (1, 10.0)}, routing=routing, failures=failures, buy=BOXES)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hosts", "routing"), [(1, Routing.ROUND_ROBIN), (2, Routing.ROUND_ROBIN), (2, Routing.LEAST_OUTSTANDING)]
)
def test_no_more_is_in_time_than_outages_leave(hosts: int, routing: Routing) -> None:
    """A T4 that is up for 60 s and away for 6 is away 8.9 % of the time, but for the last 0.1 s."""
    long = asked(0.9, routing, OFTEN, horizon=400.0, replications=4)
    trial = evaluate(question(long, [offer(T4, 0.5)], KNOWN), offer(T4, 0.5), hosts)
    dealt_to = 1 if routing is Routing.ROUND_ROBIN else hosts
    most = attainment_max(Failures(mean_time_between_s=60.0, recovery_s=6.0), 0.1, dealt_to)
    assert most == pytest.approx(1 - (5.9 / 66) ** dealt_to)
    seen = trial.replay.attainment["a"]
    assert seen.low <= most
    if dealt_to == 1:
        assert seen.low <= most <= seen.high, "nothing but outages makes any late"


RARE = FailureSpec(mean_time_between=600 * 3600.0, recovery=3600.0)
"""Away 0.17 % of the time: an outage is seen in one of 60 plans."""


@pytest.mark.parametrize(
    ("routing", "gpus", "remedy"),
    [(Routing.ROUND_ROBIN, None, Code.ROUTE_AROUND), (Routing.LEAST_OUTSTANDING, 2, Code.MORE_GPUS)],
)
def test_what_outages_break_is_not_met_however_lucky_its_replays_are(
    routing: Routing, gpus: int | None, remedy: Code
) -> None:
    plan = planned(asked(0.999, routing, RARE), KNOWN)
    found = plan.recommendation
    assert found.feasible is (gpus is not None)
    assert gpus is None or found.gpu_count == gpus
    alone = plan.rejections[0]
    assert alone.why.code is Code.OFTEN_AWAY
    assert alone.observed == pytest.approx(1 - 3599.9 / (601 * 3600))
    assert remedy in {one.code for one in alone.remedies}
    assert planned(asked(0.99, routing, RARE), KNOWN).recommendation.gpu_count == 1


SELDOM = FailureSpec(mean_time_between=12 * 3600.0, recovery=300.0)
"""Away 0.69 % of the time: no replay of seconds shows it, or all of it."""


def cameras(**changes: object) -> Scenario:
    """Ten cameras, for which one GPU is enough."""
    made = scenario([model("a", 0.2, 0.99)], {"a": (10, 10.0)}, failures=SELDOM, buy=BOXES, routing=Routing.ROUND_ROBIN)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_outages_are_the_same_in_each_draw(confidence: float) -> None:
    """A draw of phases is a site: its outages come and go, so none is a site that always fails."""
    plan = planned(cameras(confidence=confidence), KNOWN)
    found = plan.recommendation
    assert (found.feasible, found.gpu_count) == (True, 1)
    assert found.models[0].slo_attainment.mean == pytest.approx(1 - 300 / 43500, abs=2e-5)
    assert not {Code.FEW_OUTAGES, Code.RARE_OUTAGES} & {one.what.code for one in plan.warnings}


def test_what_outages_break_on_any_number_of_machines_is_said_of_one() -> None:
    """More machines are as often away: the nearest miss holds none that does nothing, and no remedy is more of them."""
    plan = planned(cameras(models=(model("a", 0.2, 0.995),)), KNOWN)
    found = plan.recommendation
    assert not found.feasible
    assert found.candidate.gpu_count == 1
    assert all(gpu.models for gpu in found.gpus)
    codes = [one.code for no in plan.rejections for one in no.remedies]
    assert codes == [Code.ROUTE_AROUND, Code.SHORTER_RECOVERY, Code.LOWER_SLO]


def test_remedies_of_outages_work() -> None:
    asked = cameras(models=(model("a", 0.2, 0.995),))
    route, shorter, lower = planned(asked, KNOWN).rejections[0].remedies
    assert route.code is Code.ROUTE_AROUND
    assert planned(replace(asked, routing=Routing.LEAST_OUTSTANDING), KNOWN).recommendation.feasible
    sooner = replace(SELDOM, recovery=shorter.figures["recovery_s"])
    assert planned(replace(asked, failures=sooner), KNOWN).recommendation.feasible
    rounded_down = floor(1000 * lower.figures["attainment"]) / 1000
    assert planned(replace(asked, models=(model("a", 0.2, rounded_down),)), KNOWN).recommendation.feasible


def test_two_machines_of_which_one_cannot_do_it_alone_are_not_enough() -> None:
    """One of two is away 0.5 % of the time; the other does 100 of 140 a second."""
    known = shelf(profile("a", T4, 0.0, 0.01))
    asked = cameras(
        models=(model("a", 0.15, 0.999),),
        streams=(StreamSpec(model="a", poisson=140.0),),
        routing=Routing.LEAST_OUTSTANDING,
        failures=FailureSpec(mean_time_between=200 * 3600.0, recovery=1800.0),
    )
    plan = planned(asked, known)
    two = next(no for no in plan.rejections if no.subject.gpu_count == 2)  # type: ignore[union-attr]
    assert two.why.code is Code.OFTEN_AWAY
    assert two.why.figures["up"] > 0.999 > two.observed
    assert plan.recommendation.gpu_count == 3


def test_a_replay_that_shows_few_outages_says_what_shows_more() -> None:
    """By a horizon, unless that would take more requests than are replayed."""

    def said(failures: FailureSpec) -> Statement:
        asked = cameras(failures=failures)
        trial = evaluate(question(asked, [offer(T4, 0.5)], KNOWN), offer(T4, 0.5), 1)
        found = (one.what for one in warnings_of(asked, demand(asked), trial, date(2026, 7, 25)))
        return next(one for one in found if one.code in (Code.FEW_OUTAGES, Code.RARE_OUTAGES))

    few = said(FailureSpec(mean_time_between=3600.0 - 300.0, recovery=300.0))
    mostly_away = said(FailureSpec(mean_time_between=3600.0 - 3000.0, recovery=3000.0))
    assert few.code is Code.FEW_OUTAGES
    assert few.figures["outages"] < mostly_away.figures["outages"], "hosts that start away count"
    assert said(FailureSpec(mean_time_between=1e8, recovery=60.0)).code is Code.RARE_OUTAGES


def test_models_that_cannot_share_a_gpu_each_get_two_hosts() -> None:
    """A request of `slow` takes 0.3 s, three SLOs of `a`: on one GPU of its own each is away too often, and replicas of
    both on all GPUs are late."""
    known = shelf(profile("a", T4, 0.001, 0.001), profile("slow", T4, 0.3, 0.001))
    given = scenario(
        [model("a", 0.1, 0.95), model("slow", 1.0, 0.93)],
        {"a": (1, 10.0), "slow": (1, 2.0)},
        routing=Routing.LEAST_OUTSTANDING,
        failures=OFTEN,
        buy=BuySpec(own=(OwnMachine(name="t4", gpu="T4", price=0.5, count=6),)),
        horizon=120.0,
    )
    found = planned(given, known).recommendation
    assert found.feasible
    hosts = {gpu.id: gpu.host for gpu in found.gpus}
    assert all(len({hosts[gpu] for gpu in one.gpus}) == 2 for one in found.models)


@pytest.mark.parametrize(
    ("recovery_s", "routing", "carrying", "machines"),
    [
        (600.0, Routing.ROUND_ROBIN, 1, 1),  # away 0.69 % of the time
        (1200.0, Routing.ROUND_ROBIN, 1, None),  # 1.37 %: nobody takes it over
        (1200.0, Routing.LEAST_OUTSTANDING, 1, 2),
        (600.0, Routing.LEAST_OUTSTANDING, 3, 4),  # one of three is away 2 % of the time
        (4 * 86400.0, Routing.LEAST_OUTSTANDING, 1, 21),  # away 80 % of the time: 0.8^21 is 0.9 %
    ],
)
def test_so_many_machines_are_asked_that_enough_are_up(
    recovery_s: float, routing: Routing, carrying: int, machines: int | None
) -> None:
    """Of those of which all carry the work, up for a day at a time."""
    failures = Failures(mean_time_between_s=86400.0, recovery_s=recovery_s)
    needs = question(asked(0.99, routing, OFTEN), [offer(T4, 0.5)], KNOWN).needs.values()
    assert machines_asked(failures, routing, needs, carrying, carrying) == machines
    assert machines_asked(None, routing, needs, carrying, carrying) == carrying


ON_A_BOX = """
models: [{name: resnet50, precision: null, slo: {latency: 200 ms, attainment: 99 %}}]
streams: [{model: resnet50, poisson: 60 rps}]
buy: {own: [{name: box, gpu: T4, price: $1/h, count: 8}]}
horizon: 20 s
replications: 2
confidence: 50 %
failures: {mean_time_between: 24 h, recovery: 20 min}
"""


@pytest.mark.parametrize(("routing", "boxes"), [("least-outstanding", {2}), ("round-robin", set())])
def test_another_precision_is_priced_with_the_machines_that_failures_ask_for(
    tmp_path: Path, routing: str, boxes: set[int]
) -> None:
    """One box carries the work, and is up 98.6 % of the time."""
    (path := tmp_path / "box.yaml").write_text(f"{ON_A_BOX}routing: {routing}\n", encoding="utf-8")
    read, library = load_scenario(path), find_profiles((), CATALOG.gpus)
    given, _ = ask(read.scenario, workload(read), CATALOG, library)
    predictor = predictor_of(read.scenario, CATALOG, library)
    found = list(other_precisions(given, CATALOG, predictor, None, NOTHING_SHARED))
    assert {one.candidate.gpu_count for one in found} == boxes
    assert {one.cost_usd_per_hour.value for one in found} == {float(n) for n in boxes}


def said_of(run: Simulation) -> str:
    return " ".join(render(run, Format.TABLE, Screen()).split())


def simulated(scenario: Scenario, count: int = 1) -> Simulation:
    return simulate_named(loaded(scenario), CATALOG, KNOWN, "T4", count, date(2026, 7, 25))


@pytest.mark.parametrize("seed", range(4))
def test_a_simulation_by_chance_without_outages_misses_what_they_break_and_says_by_how_much(seed: int) -> None:
    """Away 0.69 % of the time, which no replay of ten seconds shows; the SLO lets 0.5 % be late."""
    run = simulated(cameras(models=(model("a", 0.2, 0.995),), seed=seed))
    (seen,) = run.models
    assert not run.feasible
    assert seen.slo_met is False
    assert seen.attainment_max == pytest.approx(1 - (300 - 0.2) / 43500)
    text = said_of(run)
    assert ("at most 99.31 % on time in the long run" in text) is (seen.slo_attainment.mean >= 0.995)
    assert "headroom, or" not in text
    assert "SLO NOT SURE" not in text


@pytest.mark.parametrize("attainment", [0.99, 0.995])
def test_a_simulation_tells_no_probability_of_failing_machines_and_how_few_outages_it_saw(attainment: float) -> None:
    run = simulated(cameras(models=(model("a", 0.2, attainment),)))
    text = said_of(run)
    assert "so at least" not in text
    assert "such stretches of 10 s do" in text
    assert text.index("outages are expected") < text.index("Replayed:")
    assert text.count("outages are expected") == 1
    assert " ".join(explained(run, Screen()).split()).count("outages are expected") == 1
    calm = said_of(simulated(cameras(models=(model("a", 0.2, attainment),), failures=None)))
    assert "so at least" in calm
    assert "outages" not in calm


@pytest.mark.parametrize("routing", [Routing.ROUND_ROBIN, Routing.LEAST_OUTSTANDING])
def test_an_slo_of_100_percent_is_met_by_no_number_of_machines_that_fail(routing: Routing) -> None:
    plan = planned(cameras(models=(model("a", 0.2, 1.0),), routing=routing), KNOWN)
    assert not plan.recommendation.feasible
    codes = {one.code for no in plan.rejections for one in no.remedies}
    assert Code.LOWER_SLO in codes
    assert not codes & {Code.MORE_GPUS, Code.RAISE_COUNT, Code.ROUTE_AROUND}
    needs = question(cameras(), [offer(T4, 0.5)], KNOWN).needs
    all_asked = replace(needs["a"], slo=replace(needs["a"].slo, attainment=1.0))
    assert machines_asked(Failures(mean_time_between_s=1e5, recovery_s=1.0), routing, [all_asked], 1, 1) is None


@pytest.mark.parametrize(("survive", "failures", "said"), [(1, SELDOM, True), (0, SELDOM, False), (1, None, False)])
def test_a_plan_with_spares_and_failures_says_that_these_count_none(
    survive: int, failures: FailureSpec | None, said: bool
) -> None:
    plan = planned(cameras(survive=survive, failures=failures), KNOWN)
    assert plan.recommendation.feasible
    assert (Code.SPARES_UNCOUNTED in {one.what.code for one in plan.warnings}) is said


@pytest.mark.parametrize("survive", [0, 1])
def test_where_failures_break_it_a_spare_that_takes_over_is_a_remedy_that_works(survive: int) -> None:
    asked = cameras(models=(model("a", 0.2, 0.995),), survive=survive)
    plan = planned(asked, KNOWN)
    remedies = {one.code for no in plan.rejections for one in no.remedies}
    assert (Code.TAKEOVER_AS_RECOVERY in remedies) is bool(survive)
    taken_over = planned(replace(asked, failures=replace(SELDOM, recovery=1.0)), KNOWN)
    assert taken_over.recommendation.feasible
