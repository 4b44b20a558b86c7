"""What a plan would do: machines away, another load, another scenario; against the plan itself and against counting."""

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from math import comb, inf, isfinite, log
from statistics import NormalDist

import pytest
from support.planning import CATALOG, T4, loaded, model, planned, profile, scenario, shelf

from planner.io.demand import with_load
from planner.model.parts.machines import BuySpec, OwnMachine
from planner.model.parts.streams import StreamSpec
from planner.model.progress import silent
from planner.model.statement import Code
from planner.questions.readiness.answer import MendKind
from planner.questions.readiness.losing import losses, without
from planner.questions.readiness.whatif import CASES_MAX, whatif
from planner.search.simulation import as_planned
from planner.show.documents.whatif import document
from planner.show.terminal import terminal
from planner.show.text.readiness import about_anew, headline, mend, obstacles, planned_anew, taken_over
from planner.units.writing import Screen, percent
from planner.words.statements import rejection_line
from simulator.errors import InputError
from simulator.world.curves import Interpolated, LoadTime
from simulator.world.profile import DISK_BYTES_PER_S, Doubt

# A T4 runs 16 of `a` in 21 ms: 762 a second at most, so 1,900 need 2.5 GPUs, with a headroom of 10 % three.
LIBRARY = shelf(profile("a", T4, 0.005, 0.001), profile("b", T4, 0.005, 0.001))
BOXES = BuySpec(own=(OwnMachine(name="box", gpu="T4", price=0.5, count=8),))
ASKED = scenario([model("a")], {"a": (190, 10.0)}, buy=BOXES)


@cache
def the_plan():
    return planned(ASKED, LIBRARY)


def answer(asked=ASKED, kept=None, lose=0, load=1.0, progress=silent):
    return whatif(
        loaded(asked),
        CATALOG,
        LIBRARY,
        kept or the_plan(),
        lose=lose,
        load=load,
        overrides=(),
        created_at="2026-07-25T00:00:00",
        progress=progress,
    )


def test_as_it_stands_a_plan_does_what_it_says():
    assert (the_plan().recommendation.feasible, the_plan().recommendation.gpu_count) == (True, 3)
    as_is = answer()
    (case,) = as_is.cases
    assert as_is.feasible
    assert (case.lost, case.unserved, case.rejection, as_is.mends) == ((), (), None, ())
    assert [m.slo_attainment for m in case.models] == [m.slo_attainment for m in the_plan().recommendation.models]


def test_of_three_machines_two_cannot_carry_two_and_a_half():
    away = answer(lose=1)
    assert not away.feasible
    (case,) = away.cases  # all three do the same
    assert case.ways == 3
    assert [m.slo_met for m in case.models] == [False]
    (mend,) = away.mends
    assert mend.kind is MendKind.SPARES
    assert mend.cost_usd_per_hour == pytest.approx(4 * 0.5)
    assert mend.cost_added_usd_per_hour == pytest.approx(0.5)


def test_a_plan_is_mended_at_its_own_prices_whatever_a_price_list_says_meanwhile():
    rented = replace(ASKED, buy=BuySpec(gpus=("T4",), providers=("aws",), instances=("g4dn.xlarge",)))
    kept = planned(rented, LIBRARY)
    (machines,) = kept.recommendation.instances
    cheap = replace(machines, usd_per_hour=0.25, price_as_of="2026-11-20")
    best = replace(kept.recommendation, instances=(cheap,), cost_usd_per_hour=0.25 * machines.count)
    (mend,) = answer(rented, replace(kept, recommendation=best), lose=1).mends
    assert mend.cost_usd_per_hour == pytest.approx(0.25 * (machines.count + 1))
    assert mend.cost_added_usd_per_hour == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (4, "1 x box (T4) to take over what is away: $2.00"),
        (3, "away; 1 x box (T4) of that beyond your `count`: $2.00"),
    ],
)
def test_a_spare_that_ones_own_count_does_not_have_is_called_beyond_it(count, said):
    few = replace(ASKED, buy=BuySpec(own=(replace(BOXES.own[0], count=count),)))
    (one,) = answer(few, planned(few, LIBRARY), lose=1).mends
    assert sum(machines.count for machines in one.beyond_count) == 4 - count
    assert said in mend(one)


def test_the_plan_that_may_cost_less_than_mends_is_asked_with_all_changes():
    asked = replace(answer(lose=1), plan_overrides=("headroom=30 %",), overrides=("seed=2",), load=1.5)
    said = planned_anew(asked)
    typed = "`planner plan SCENARIO --set 'headroom=30 %' --set seed=2 --set survive=1`"
    assert said.endswith(f"multiply the rates in the scenario by 1.5, then run {typed}.")
    assert not planned_anew(answer())


def test_a_plan_with_a_spare_survives_and_is_what_was_advised():
    ready = planned(replace(ASKED, survive=1), LIBRARY)
    best = ready.recommendation
    assert (best.feasible, [(i.count, i.spares) for i in best.instances]) == (True, [(3, 1)])
    assert best.cost_usd_per_hour == pytest.approx(answer(lose=1).mends[0].cost_usd_per_hour)
    away = answer(replace(ASKED, survive=1), ready, lose=1)
    assert away.feasible
    assert away.cases[0].taken_over == away.cases[0].lost
    assert not answer(replace(ASKED, survive=1), ready, lose=2).feasible


def test_what_mends_more_load_is_what_a_plan_of_it_would_buy():
    grown = answer(load=1.5)
    assert not grown.feasible
    (mend,) = grown.mends
    anew = planned(with_load(loaded(ASKED), 1.5).scenario, LIBRARY).recommendation
    assert (mend.kind, mend.candidate.gpu_count) == (MendKind.MACHINES, anew.gpu_count)
    assert mend.cost_usd_per_hour == pytest.approx(anew.cost_usd_per_hour)


def test_what_would_help_a_case_counts_the_gpus_that_mend_it():
    grown = answer(load=2.2)
    (case,), (mend,) = grown.cases, grown.mends
    more = mend.candidate.gpu_count - the_plan().recommendation.gpu_count
    assert more > 1
    asked = [one.figures["gpu_count"] for one in case.rejection.remedies if one.code is Code.MORE_GPUS]
    assert asked == [more]
    assert all("May help at 2.2 times the load: " in said for said in obstacles(grown))


def test_of_predicted_speeds_the_draws_decide_where_a_load_is_too_much_for_some():
    """Frames that take 16 ms as planned with, e^(0.2 x 1.28) times the middle; 75 a second are 1.2 there, 0.93 here.
    Draws bear it that are less than log(1 / 0.93) / 0.2 standard deviations slower: to 99.9 % of those seen."""
    sd = 0.2
    doubt = Doubt(error_sd=Interpolated((1.0,), (sd,)), shared=0.5, quantile=NormalDist().inv_cdf(0.9))
    shy = shelf(replace(profile("a", T4, 0.0, 0.016), doubt=doubt, predicted=True))
    asked = scenario([model("a", 1.0)], {"a": (4, 10.0)}, buy=BOXES, confidence=0.9)
    at, kept = "2026-07-25T00:00:00", planned(asked, shy)
    grown = whatif(loaded(asked), CATALOG, shy, kept, lose=0, load=1.875, overrides=(), created_at=at)
    why = grown.cases[0].rejection.why
    assert why.code is Code.DRAWS_BREAK
    bear = NormalDist().cdf((sd * doubt.quantile - log(1.2)) / sd)
    broken, draws = why.figures["broken"], why.figures["draws"]
    assert 1 - broken / draws == pytest.approx(bear, abs=3.29 * (bear * (1 - bear) / draws) ** 0.5)


@cache
def overloaded(load):
    """Of two machines' frames or so, where a machine bears the plan's at nine of ten speeds."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.2,)), shared=0.5, quantile=NormalDist().inv_cdf(0.9))
    shy = shelf(replace(profile("a", T4, 0.0, 0.016), doubt=doubt, predicted=True))
    asked = scenario([model("a", 1.0)], {"a": (4, 10.0)}, buy=BOXES, confidence=0.9)
    at, kept = "2026-07-25T00:00:00", planned(asked, shy)
    return whatif(loaded(asked), CATALOG, shy, kept, lose=0, load=load, overrides=(), created_at=at)


@pytest.mark.parametrize(("load", "decides", "lower"), [(1.875, True, True), (2.25, True, False), (4, False, False)])
def test_a_lower_confidence_is_a_remedy_where_half_of_the_draws_keep_the_slos(load, decides, lower):
    """Measuring is one where a tenth do, for a speed past the band would have to be measured below that."""
    (case,) = overloaded(load).cases
    figures = case.rejection.why.figures
    kept = 1 - figures["broken"] / figures["draws"]
    helps = {one.code for one in case.rejection.remedies}
    assert (Code.MEASURING_DECIDES in helps) is decides is (kept >= 0.1)
    assert (Code.LOWER_CONFIDENCE in helps) is lower is (kept >= 0.5)
    assert helps


def test_a_case_has_the_notes_of_a_plan():
    """p99 stands for answered requests and for as many replications as it says."""
    answered = overloaded(4)
    (case,) = answered.cases
    text = " ".join(terminal(document(answered), Screen(width=200)).split())
    dropped = case.models[0].dropped_fraction
    assert dropped > 0.01
    assert f"p99: of answered requests. Up to {percent(dropped, up=True)} % of a are dropped." in text
    assert f"Replications that meet the SLO: a {percent(case.models[0].draws_kept.mean)} %." in text
    assert "p99: not exceeded in 90 % of replications." in text
    assert "as many replications as must" not in text
    assert "~: predicted" in text


def test_draws_that_keep_an_slo_only_as_long_as_they_are_replayed_are_said_to_have_queues_that_grow():
    """Of 1.28 times the frames that a machine bears, those of six seconds wait 1.7 s at most: within the SLO of 3 s."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.02,)), shared=0.5, quantile=NormalDist().inv_cdf(0.9))
    shy = shelf(replace(profile("a", T4, 0.0, 0.016), doubt=doubt, predicted=True))
    asked = scenario([model("a", 3.0)], {"a": (4, 10.0)}, buy=BOXES, horizon=6.0, warmup=0.0)
    at, kept = "2026-07-25T00:00:00", planned(asked, shy)
    grown = whatif(loaded(asked), CATALOG, shy, kept, lose=0, load=2, overrides=(), created_at=at)
    ((case,), no) = grown.cases, grown.cases[0].rejection
    assert case.models[0].slo_attainment.mean == 1
    assert (isfinite(case.models[0].p99_s), case.models[0].p99_shown_s) == (True, inf)
    assert no.why.code is Code.DRAWS_BREAK
    assert "every SLO is met as long as they run, but queues of a grow without end" in rejection_line(no)


def test_what_mends_a_plan_with_a_spare_has_one_too():
    ready = replace(ASKED, survive=1)
    grown = answer(ready, planned(ready, LIBRARY), load=1.5)
    (mend,) = grown.mends
    assert [machines.count for machines in mend.spares] == [1]
    assert mend.cost_usd_per_hour == pytest.approx((mend.candidate.gpu_count + 1) * 0.5)


# One small machine serves beside one with two GPUs; no more small ones can be had.
FEW = BuySpec(
    own=(
        OwnMachine(name="box", gpu="T4", price=0.5, count=2),
        OwnMachine(name="big", gpu="T4", gpu_count=2, price=1.2, count=8),
    )
)
MIXED = scenario([model("a"), model("b")], {"a": (150, 10.0), "b": (30, 10.0)}, buy=FEW, survive=1)


@cache
def mixed_plan():
    return planned(MIXED, LIBRARY)


def test_a_plan_that_survives_by_placing_anew_is_held_to_that_and_shown_as_it_stands_too():
    best = mixed_plan().recommendation
    assert [(one.instance, one.count, one.spares) for one in best.instances] == [("box", 1, 0), ("big", 1, 1)]
    away = answer(MIXED, mixed_plan(), lose=1)
    by_host = {case.lost[0]: case for case in away.cases}
    box, big = by_host["box-1"], by_host["big-1"]
    assert (best.feasible, away.feasible, away.mends) == (True, True, ())
    assert (box.feasible, box.anew.feasible, big.feasible, big.anew) == (False, True, True, None)
    assert [(one.instance, one.count) for one in box.anew.machines] == [("big", 2)]
    assert all(model.slo_met for model in box.anew.models)
    assert headline(away).endswith(
        "away: as it stands 1 of 2 cases misses an SLO; with the models placed anew every SLO is met."
    )
    assert "as `survive` counts on" in about_anew(away)
    assert [one.code for one in mixed_plan().assumptions if one.code in (Code.SPARES, Code.PLACED_ANEW)] == [
        Code.PLACED_ANEW
    ]


def test_a_placement_that_a_plan_found_only_by_moves_survives_here_too():
    """Four models of 4 and 9 GB, two on each GPU at most: those of two big machines meet every SLO, not at a glance.
    Weights come at 120 GB/s, so that it takes little time to see which queues drain."""
    seconds = {"a": (0.004, 0.002), "b": (0.016, 0.004), "c": (0.008, 0.004), "d": (0.008, 0.002)}
    sizes = {"a": 4e9, "b": 9e9, "c": 4e9, "d": 9e9}
    profiles = (profile(name, T4, *seconds[name], weights_bytes=int(sizes[name])) for name in seconds)
    library = shelf(*(replace(one, load=LoadTime(0.0, 120e9)) for one in profiles))
    slos = {"a": 0.1, "b": 0.05, "c": 0.2, "d": 0.1}
    streams = tuple(StreamSpec(model=name, poisson=rate) for name, rate in zip("abcd", (50, 50, 100, 100), strict=True))
    own = (
        OwnMachine(name="box", gpu="T4", price=0.5, count=1),
        OwnMachine(name="big", gpu="T4", gpu_count=2, price=0.95, count=2),
    )
    asked = replace(
        scenario([model(*one) for one in slos.items()], {}, headroom=0.1, survive=1, buy=BuySpec(own=own)),
        streams=streams,
    )
    kept = planned(asked, library)
    away = whatif(loaded(asked), CATALOG, library, kept, lose=1, load=1, overrides=(), created_at="2026-07-25T00:00:00")
    assert any(not case.feasible for case in away.cases)
    assert (kept.recommendation.feasible, away.feasible) == (True, True)


def test_without_survive_placing_anew_is_shown_and_does_not_count():
    away = answer(replace(MIXED, survive=0), mixed_plan(), lose=1)
    assert not away.feasible
    assert [case.anew.feasible for case in away.cases if case.anew] == [True]
    assert "survive" not in about_anew(away)
    fewer, certain = away.mends  # what `survive` buys, before a spare of each type
    best = mixed_plan().recommendation
    assert [(one.instance, one.count) for one in fewer.spares] == [("big", 1)]
    assert fewer.cost_usd_per_hour == pytest.approx(best.cost_usd_per_hour)
    assert certain.cost_usd_per_hour == pytest.approx(best.cost_usd_per_hour + 0.5)
    assert mend(fewer).startswith("1 x big (2 x T4), with the models placed anew after a loss on all that is left: $")


def test_a_spare_reads_what_the_lost_machine_held_from_disk_and_the_others_only_what_they_lack():
    """A model has 100 MB, and each that a machine lacks on one of its GPUs is read by itself."""
    one_s = 0.1e9 / DISK_BYTES_PER_S
    away = answer(MIXED, mixed_plan(), lose=1)
    by_host = {case.lost[0]: case for case in away.cases}
    held = Counter(gpu.host for gpu in mixed_plan().recommendation.gpus for _ in gpu.models)
    assert by_host["big-1"].takeover_s == pytest.approx(held["big-1"] * one_s, rel=0.01)
    assert taken_over(by_host["big-1"]).startswith("big-1 in ")
    loads = by_host["box-1"].anew.load_s / one_s  # of the spare, whose two GPUs hold nothing: one or two models each
    assert 2 * 0.99 <= loads <= 4 * 1.01


def test_spares_that_are_too_few_are_said_to_be_in_what_was_placed_anew():
    ready = replace(ASKED, survive=1)
    kept = planned(ready, LIBRARY)
    assert about_anew(answer(ready, kept, lose=1)).startswith("A spare takes over once")
    away = answer(ready, kept, lose=2)
    (case,) = away.cases
    assert (away.feasible, case.anew.feasible, [one.count for one in case.anew.machines]) == (False, False, [2])
    assert headline(away).endswith("away: an SLO is missed, also with the models placed anew.")


@pytest.mark.parametrize("latency_s", [0.006, 0.012, 0.02])
def test_under_a_tighter_slo_batches_are_no_larger_than_it_allows(latency_s):
    """A batch of n runs 5 + n ms."""
    asked = replace(ASKED, models=(replace(ASKED.models[0], slo=replace(ASKED.models[0].slo, latency=latency_s)),))
    found = answer(asked)
    (case,) = found.cases
    assert found.smaller_batches == ("a",)
    assert case.models[0].batch_size <= round(1e3 * latency_s - 5) < the_plan().recommendation.models[0].batch_size
    assert not case.feasible


@pytest.mark.parametrize(("factor", "met"), [(0.97, True), (1.1, False)])
def test_a_plan_bears_the_load_that_it_says(factor, met):
    load = factor * the_plan().recommendation.demand_factor_max
    (case,) = answer(load=load).cases
    assert (case.models[0].verdict == "stable") is met


@pytest.mark.parametrize("stream", [StreamSpec(model="a", poisson=100.0), StreamSpec(model="a", count=4, rate=25.0)])
def test_slos_are_met_up_to_the_load_from_which_a_model_is_limited(stream):
    """Random requests leave no room in which rounds of the mean load still seem to fit."""
    library = shelf(profile("a", T4, 0.009, 0.001))
    asked = replace(ASKED, models=(model("a", 0.03, 0.99),), streams=(stream,), horizon=None, warmup=None)
    kept = planned(asked, library)
    limit = kept.recommendation.models[0].demand_factor_max
    assert limit > 1.2
    replayed = partial(whatif, loaded(asked), CATALOG, library, kept, lose=0, overrides=(), created_at="2026-07-25")
    assert replayed(load=0.97 * limit).feasible
    assert not replayed(load=1.25 * limit).feasible


@pytest.mark.parametrize("more", [1.1, 1.3, 2.0])
def test_less_load_helps_as_far_as_it_is_said_to(more):
    """Where SLOs are missed a little, by far, and where queues grow."""
    library = shelf(profile("a", T4, 0.009, 0.001))
    stream = StreamSpec(model="a", poisson=200.0)
    asked = replace(ASKED, models=(model("a", 0.03, 0.99),), streams=(stream,), horizon=None, warmup=None)
    kept = planned(asked, library)
    load = more * kept.recommendation.models[0].demand_factor_max
    replayed = partial(whatif, loaded(asked), CATALOG, library, kept, lose=0, overrides=(), created_at="2026-07-25")
    (case,) = replayed(load=load).cases
    (remedy,) = (one for one in case.rejection.remedies if one.code in (Code.LOWER_RATE, Code.LESS_DEMAND))
    share = remedy.figures.get("share") or remedy.figures["rate_rps"] / (200.0 * load)
    assert replayed(load=share * load).feasible


def test_a_model_on_one_machine_is_not_served_without_it():
    asked = scenario([model("a"), model("b")], {"a": (190, 10.0), "b": (1, 1.0)}, buy=BOXES)
    kept = planned(asked, LIBRARY)
    away = answer(asked, kept, lose=1)
    holding = {gpu.host for gpu in kept.recommendation.gpus if "b" in gpu.models}
    lost = {case.lost[0] for case in away.cases if case.unserved == ("b",)}
    assert len(holding) == 1
    assert lost == holding


def test_without_its_only_machine_none_is_left_and_nothing_is_placed_anew():
    asked = scenario([model("a")], {"a": (10, 10.0)}, buy=BOXES)
    alone = answer(asked, planned(asked, LIBRARY), lose=1)
    assert headline(alone) == "1 x box (T4), as planned, with 1 machine away: no machine is left."
    shown = terminal(document(alone), Screen())
    assert "laced anew" not in shown
    ready = replace(asked, survive=1)
    assert "no machine is left" not in headline(answer(ready, planned(ready, LIBRARY), lose=1))


@pytest.mark.parametrize("lose", [1, 2])
def test_every_way_to_lose_machines_counts_once(lose):
    standing = as_planned(loaded(ASKED), CATALOG, LIBRARY, the_plan())
    found = losses(standing, lose)
    assert sum(one.ways for one in found) == comb(len(standing.hosts), lose)
    for hosts in combinations(standing.hosts, lose):
        left = without(standing, frozenset(hosts))
        shares = Counter()
        for placed in left.placed:
            shares[placed.portion.sized.model] += placed.portion.share
        assert all(share == pytest.approx(1) for share in shares.values())
        assert not {device.host for device in left.devices} & set(hosts)


def test_no_more_cases_are_replayed_than_a_person_waits_for():
    assert len(answer(lose=1).cases) <= CASES_MAX


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"lose": 4}, "lose 4: must be from 0 to 3, the machines of the plan that serve. Write e.g. 1."),
        ({"load": 0.0}, "load: must be above 0, got 0.0. Write e.g. `1.3` or `130 %`."),
        ({"load": float("nan")}, "load: must be finite, got nan."),
        ({"load": 130.0}, "load: must be at most 100 times, got 130.0. Write e.g. `1.3` or `130 %`."),
    ],
)
def test_what_cannot_be_is_said_in_a_line(asked, text):
    with pytest.raises(InputError) as error:
        answer(**asked)
    assert str(error.value).startswith(text)
    assert error.value.on_command_line.startswith(f"--{text.replace('load:', 'load')}")
    assert "\n" not in str(error.value)


def test_where_spares_take_over_the_plan_is_replayed_once():
    two = replace(
        ASKED,
        models=(*ASKED.models, model("b")),
        streams=(*ASKED.streams, StreamSpec(model="b", count=40, rate=10.0)),
        survive=1,
    )
    replayed = set()
    away = answer(
        two, planned(two, LIBRARY), lose=1, progress=lambda activity, _: replayed.add(activity.partition(":")[0])
    )
    assert len(away.cases) > 1
    assert all(case.taken_over == case.lost and case.feasible for case in away.cases)
    assert len(replayed) == 1


def test_ctrl_c_leaves_the_cases_that_were_worked_out():
    def stop_at(part):
        def progress(activity, share):
            if activity.startswith(part):
                raise KeyboardInterrupt

        return progress

    with pytest.raises(KeyboardInterrupt):
        answer(lose=1, progress=stop_at("replaying the plan without"))
    cut = answer(lose=1, progress=stop_at("trying"))
    assert (cut.interrupted, len(cut.cases), cut.mends) == (True, 1, ())
    assert headline(cut).startswith("Interrupted; so far: 3 x box (T4), as planned, with 1 machine away: ")
