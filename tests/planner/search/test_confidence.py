"""Plans that rest on speeds in doubt: how sure they are, and each kind of GPU side by side."""

from dataclasses import replace
from math import exp, log, sqrt
from statistics import NormalDist

import pytest
from support.calibrated import session
from support.planning import CATALOG, T4, V100, demand, model, offer, planned, profile, question, scenario, shelf

import planner
from calibrate.library.lookup import Library, find_profiles
from calibrate.sessions.join import join
from planner.model.choices import PriceKind
from planner.model.parts.machines import BuySpec, EvidenceAsked, OwnMachine
from planner.model.plan import Drawn, Plan
from planner.model.scenario import Scenario
from planner.model.statement import Code
from planner.prediction.predict import Predictor
from planner.search.fleets.search import FleetSearch
from planner.search.placement import REPAIRS_DOUBTED
from planner.search.question import ask
from planner.show.kept import render
from planner.units.writing import Format, Screen
from simulator.world.curves import Interpolated
from simulator.world.doubt import DrawnTogether
from simulator.world.profile import Doubt, Profile

CAMERAS, FPS = 10, 30.0
OWN = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=40),))
WORLDS = 4000


def predicted(error_sd: float, confidence: float) -> Profile:
    """20 ms a frame at the median; its times stand at the quantile of the confidence."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (error_sd,)), shared=0.5, quantile=NormalDist().inv_cdf(confidence))
    exact = profile("detector", T4, 0.0, 0.020 * exp(error_sd * doubt.quantile))
    return replace(exact, doubt=doubt, predicted=True)


def asked(confidence: float) -> Scenario:
    """Cameras whose phases play no part: there are many, and an SLO of a second."""
    return scenario([model("detector", 1.0)], {"detector": (CAMERAS, FPS)}, buy=OWN, confidence=confidence)


def answer(error_sd: float, confidence: float) -> Plan:
    """The plan with a prediction that errs so."""
    return planned(asked(confidence), shelf(predicted(error_sd, confidence)))


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_a_plan_holds_in_as_many_worlds_as_was_asked(confidence: float) -> None:
    found, doubt = answer(0.3, confidence).recommendation, predicted(0.3, confidence).doubt
    assert found.feasible
    assert doubt is not None
    # In a world where frames take s seconds, n GPUs carry the load if its whole, rate x s, is below n: in larger
    # batches a frame takes no less.
    frame_s = predicted(0.3, confidence).latency(1)
    errors = [exp(0.3 * error) for error in DrawnTogether(range(WORLDS)).error(doubt, "detector", "T4")]
    loads = [CAMERAS * FPS * frame_s * error for error in errors]
    assert sum(load < found.gpu_count for load in loads) / WORLDS >= confidence


def test_less_sure_predictions_cost_more() -> None:
    costs = [answer(error_sd, 0.9).recommendation.cost_usd_per_hour for error_sd in (0.01, 0.3, 0.6)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_the_answer_says_what_was_drawn_and_how_often_it_held() -> None:
    replayed = answer(0.3, 0.9).recommendation.replayed
    assert replayed is not None
    assert replayed.drawn == (Drawn.PHASES, Drawn.SPEEDS)
    assert replayed.draws_kept is not None
    assert replayed.draws_kept.low >= 0.9


def test_p99_is_told_as_surely_as_the_slo_must_be_met() -> None:
    """One frame a second never waits: p99 of a draw is its time, and as many are no slower than what is shown."""
    alone = replace(asked(0.9), streams=scenario([model("detector", 1.0)], {"detector": (1, 1.0)}).streams)
    (one,) = planned(alone, shelf(predicted(0.3, 0.9))).recommendation.models
    assert one.p99_in_draws_s is not None
    assert one.p99_s < one.p99_shown_s == one.p99_in_draws_s
    no_slower = NormalDist(log(0.020), 0.3).cdf(log(one.p99_in_draws_s))
    draws = 160
    assert no_slower == pytest.approx(0.9, abs=NormalDist().inv_cdf(0.999) * sqrt(0.9 * 0.1 / draws))


def test_p99_of_cameras_is_that_of_nearly_all_sites_not_of_their_mean() -> None:
    """At two sites of five a frame waits for the other camera's, up to 20 ms: half of that on the mean of these."""
    pair = scenario([model("detector", 1.0)], {"detector": (2, 10.0)}, confidence=0.95)
    known = profile("detector", T4, 0.0, 0.020)
    (one,) = planned(pair, shelf(known)).recommendation.models
    assert one.p99_in_draws_s is not None
    assert one.p50_s >= 0.020
    assert one.p99_s < one.p99_shown_s == one.p99_in_draws_s


def test_sessions_that_differ_make_a_plan_less_sure(tmp_path) -> None:
    """Three calibrations at 0.8, 1 and 1.25 times, joined, and one alone: the share in time has a wider interval."""
    folders = [session(tmp_path / str(n), factor, n) for n, factor in enumerate((0.8, 1.0, 1.25))]
    join(folders, tmp_path / "joined")
    (tmp_path / "net.yaml").write_text(
        "models: [{name: net, slo: {latency: 100 ms, attainment: 95 %}}]\n"
        "streams: [{model: net, poisson: 100 rps}]\n"
        "buy: {gpus: [T4]}\n",
        encoding="utf-8",
    )
    question, widths = tmp_path / "net.yaml", []
    for folder in (folders[1], tmp_path / "joined"):
        attained = planner.plan(question, profiles=[folder]).recommendation.models[0].slo_attainment
        widths.append(attained.high - attained.low)
    assert widths[0] < widths[1] / 2


def test_a_speed_that_differs_between_sessions_is_drawn_too() -> None:
    known = profile("detector", T4, 0.0, 0.020)
    differs = planned(asked(0.9), shelf(replace(known, session_cv=0.3))).recommendation
    steady = planned(asked(0.9), shelf(known)).recommendation
    assert steady.replayed is not None
    assert differs.replayed is not None
    assert Drawn.SPEEDS in differs.replayed.drawn
    assert Drawn.SPEEDS not in steady.replayed.drawn
    assert differs.cost_usd_per_hour > steady.cost_usd_per_hour


def sized_kinds(evidence: EvidenceAsked) -> set[str]:
    """Kinds of GPU on which a model is considered that was measured on the V100 alone."""
    library = Library({("detector", "V100", "fp32"): profile("detector", V100, 0.002, 0.001)})
    buy = BuySpec(gpus=("V100", "T4"), retired=True, evidence=evidence)
    one = scenario([model("detector")], {"detector": (2, 10.0)}, buy=buy)
    question, _ = ask(one, demand(one), CATALOG, library)
    return {kind.gpu.name for _, kind in question.sized}


def test_measured_evidence_leaves_out_what_nobody_measured() -> None:
    assert sized_kinds(EvidenceAsked.MEASURED) == {"V100"}
    assert sized_kinds(EvidenceAsked.PREDICTED) == {"V100", "T4"}


def test_each_kind_of_gpu_stands_beside_the_others() -> None:
    both = shelf(profile("detector", T4, 0.0, 0.020), profile("detector", CATALOG.gpus["A10G"], 0.0, 0.010))
    one = scenario(
        [model("detector", 0.5)], {"detector": (4, 30.0)}, buy=BuySpec(providers=("aws",), gpus=("T4", "A10G"))
    )
    plan = planned(one, both)
    by_gpu = {kind.gpu: kind for kind in plan.by_gpu}
    assert set(by_gpu) == {"T4", "A10G"}
    assert [kind.cost_usd_per_hour for kind in plan.by_gpu] == sorted(k.cost_usd_per_hour for k in plan.by_gpu)
    assert plan.recommendation.cost_usd_per_hour <= plan.by_gpu[0].cost_usd_per_hour
    t4 = by_gpu["T4"]
    assert t4.usd_per_hour_by_price[PriceKind.ON_DEMAND] == pytest.approx(t4.cost_usd_per_hour)
    assert t4.usd_per_hour_by_price[PriceKind.SPOT] < t4.cost_usd_per_hour
    assert t4.prices_as_of_by_price[PriceKind.ON_DEMAND] == t4.prices_as_of
    assert 4 * 30.0 * 0.020 / t4.gpu_count == pytest.approx(t4.utilization, rel=0.1)


FAST = (
    "T4", "A10G", "L4", "A10", "L40S", "A100-40GB", "A100-80GB", "H100", "H200", "RTX4090", "RTX-A6000", "B200", "B300",
    "GH200-96GB", "V100",
)  # fmt: skip
"""Kinds that are rented."""


def test_each_kind_that_is_named_has_its_fleet_or_a_reason() -> None:
    """All are equally fast but the RTX 3090, which is too slow: whatever is dearest is over twice the cheapest."""
    known = [profile("detector", CATALOG.gpus[gpu], 0.0, 0.020) for gpu in FAST]
    slow = profile("detector", CATALOG.gpus["RTX3090"], 0.0, 2.0)
    asked_kinds = (*FAST, "RTX3090", "K80", "Jetson-AGX-Xavier")
    one = scenario([model("detector", 0.5)], {"detector": (4, 30.0)}, buy=BuySpec(gpus=asked_kinds))
    plan = planned(one, shelf(*known, slow))
    left_out = {kind.gpu: kind for kind in plan.by_gpu_left_out}
    assert sorted([*left_out, *(kind.gpu for kind in plan.by_gpu)]) == sorted(asked_kinds)
    assert left_out["RTX3090"].why.code is Code.SAMPLE_TOO_SLOW
    assert left_out["K80"].why.code is Code.NOT_SOLD
    assert left_out["Jetson-AGX-Xavier"].why.code is Code.GPU_NOT_PRICED
    dear = [kind for kind in plan.by_gpu_left_out if kind.why.code is Code.KIND_TOO_DEAR]
    assert dear
    for kind in dear:
        assert kind.usd_per_hour_at_least is not None
        assert kind.usd_per_hour_at_least > 2 * plan.recommendation.cost_usd_per_hour
    text = render(plan, Format.TABLE, Screen())
    assert all(kind in text for kind in asked_kinds)


def test_a_prediction_is_made_at_the_quantile_that_is_asked() -> None:
    library = find_profiles([], CATALOG.gpus)
    low, middle, high = (
        Predictor(library, CATALOG.gpus, quantile=quantile).get("inceptionv3", "T4") for quantile in (-1.0, 0.0, 1.0)
    )
    assert low is not None
    assert middle is not None
    assert high is not None
    assert low.latency(4) < middle.latency(4) < high.latency(4)
    assert high.doubt is not None
    assert high.latency(4) / middle.latency(4) == pytest.approx(exp(high.doubt.error_sd(4)))


def test_a_gpu_more_than_the_usual_packing_takes_is_used_where_that_one_is_too_busy() -> None:
    """With 5 or 64 GPUs the usual packing puts ResNet-50 on three, 92 % busy: the others must not lie idle."""
    slo = {"latency": "100 ms", "attainment": "99 %"}
    runs = {"precision": "fp16", "runtime": "tensorrt", "slo": slo}
    asked_for = {
        "models": [{"name": "resnet50", **runs}, {"name": "bert-base", **runs}],
        "streams": [{"model": "resnet50", "poisson": "2050 rps"}, {"model": "bert-base", "poisson": "300 rps"}],
        "buy": {"gpus": ["T4"]},
    }
    found = planner.plan(asked_for).recommendation
    assert found.feasible
    loads = [gpu.offered_load for gpu in found.gpus]
    assert max(loads) <= 0.9
    assert sum(loads) > 0.9 * (found.gpu_count - 1)  # one GPU fewer would be too busy, however work is dealt


@pytest.mark.parametrize(("slo_s", "error_sd", "code"), [
    (0.025, 0.3, Code.SAMPLE_MAY_BE_TOO_SLOW), (0.015, 0.0, Code.SAMPLE_TOO_SLOW),
])  # fmt: skip
def test_a_sample_that_is_too_slow_at_the_bad_end_alone_is_no_fact(slo_s: float, error_sd: float, code: Code) -> None:
    """20 ms in the middle and 29 at the end that 90 % ask for: the answer says which is which."""
    one = scenario([model("detector", slo_s)], {"detector": (1, 1.0)}, buy=OWN, confidence=0.9)
    refused = planned(one, shelf(predicted(error_sd, 0.9))).rejections
    told = next(no for no in refused if no.why.code is code)
    assert told.why.figures["run_s"] == pytest.approx(0.020 * exp(error_sd * NormalDist().inv_cdf(0.9)))
    assert told.why.figures.get("mid_s", 0.020) == pytest.approx(0.020)
    helps = {remedy.code for remedy in told.remedies} & {Code.MEASURE, Code.LOWER_CONFIDENCE, Code.AS_THEY_STAND}
    assert helps == ({Code.MEASURE, Code.LOWER_CONFIDENCE} if code is Code.SAMPLE_MAY_BE_TOO_SLOW else set())


@pytest.mark.parametrize(("error_sd", "decides"), [(0.3, True), (0.03, False)])
def test_a_fleet_that_is_too_slow_at_the_slow_end_alone_is_rejected_with_both_figures(error_sd, decides):
    """A frame of 20 ms at the middle: 7 GPUs of one's own work 86 % of the time, and 140 % at the end of 95 %."""
    few = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=7 if decides else 5),))
    plan = planned(replace(asked(0.95), buy=few), shelf(predicted(error_sd, 0.95)))
    assert not plan.recommendation.feasible
    (no,) = [no for no in plan.rejections if no.why.code is Code.TOO_BUSY]
    middle = no.why.figures["work"] / exp(error_sd * NormalDist().inv_cdf(0.95))
    assert no.why.figures["work_at_middle"] == pytest.approx(middle, rel=1e-6)
    for code in (Code.MEASURING_DECIDES, Code.LOWER_CONFIDENCE):
        assert any(remedy.code is code for remedy in no.remedies) is decides


@pytest.mark.parametrize(("repairs", "found"), [(0, False), (REPAIRS_DOUBTED, True)])
def test_models_that_slow_draws_break_are_given_more_room(
    repairs: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On these five GPUs no packing for all models alike keeps every SLO in enough draws; found among random ones."""
    monkeypatch.setattr("planner.search.placement.REPAIRS_DOUBTED", repairs)
    rows = [  # floor and slope in ms, error, SLO in s, cameras
        (0.84, 0.83, 0.101, 0.15, 13),
        (2.56, 4.50, 0.107, 0.20, 7),
        (1.79, 4.29, 0.187, 0.10, 6),
        (2.07, 1.24, 0.167, 0.20, 14),
        (0.63, 2.99, 0.281, 0.08, 14),
        (3.06, 4.90, 0.220, 0.10, 14),
        (1.88, 2.29, 0.171, 0.15, 4),
    ]
    models, cameras, profiles = [], {}, []
    for number, (floor_ms, slope_ms, error_sd, slo_s, count) in enumerate(rows):
        name, error = f"m{number}", Interpolated((1.0,), (error_sd,))
        doubt = Doubt(error_sd=error, shared=0.2, quantile=NormalDist().inv_cdf(0.95))
        slower = exp(error_sd * doubt.quantile) / 1e3
        exact = profile(name, V100, floor_ms * slower, slope_ms * slower)
        profiles.append(replace(exact, doubt=doubt, predicted=True))
        models.append(model(name, slo_s))
        cameras[name] = (count, 15.0)
    asked = question(scenario(models, cameras, confidence=0.95), [offer(V100, 1.0)], shelf(*profiles))
    trial = FleetSearch(asked, lambda *_: None).try_fleet(asked.offers, (5,))
    assert (trial is not None) == found
