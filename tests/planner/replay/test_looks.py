"""Looks at draws of speeds: what one leaves in doubt is looked at again, before it is bought and before more is."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support.worlds
from support.planning import T4, V100, demand, model, offer, profile, question, scenario, shelf

from planner.catalog.offers import Offer
from planner.model.candidate import Candidate, Memory
from planner.model.parts.streams import StreamSpec
from planner.model.plan import Interval
from planner.model.progress import silent
from planner.model.replications import WORLDS, Draws, least_share
from planner.model.scenario import Objective
from planner.model.statement import Code
from planner.placing.fleets import machines_of
from planner.placing.packing.packed import Packing
from planner.placing.sizing import Kind, Need
from planner.replay.inferred import Told
from planner.replay.replay import BY_CHANCE, SCREENED_DRAWS, Replay, WideLook
from planner.replay.run import LOST_EVERY, PLANNING, Replications, ShortLook, replay, seeds_of
from planner.replay.stretch import ReplayLength
from planner.replay.trial import Trial
from planner.replay.warnings import on_edge, remedies_unproven
from planner.search.fleets.beside import Beside
from planner.search.fleets.misses import Misses
from planner.search.fleets.search import FleetSearch
from planner.search.fleets.tried import ESTIMATE, GLANCE
from planner.search.placement import OnFleet
from planner.search.question import Question
from planner.search.rejections import missed_slo
from simulator.clock.metrics import Summary
from simulator.clock.worlds import Worlds
from simulator.world.curves import Interpolated
from simulator.world.doubt import Doubt
from simulator.world.profile import Evidence
from simulator.world.workload import SLO, Poisson, Stream, Workload

CONFIDENCE = 0.9
TRIES = 100
LATENCIES_S = [0.018, 0.02, 0.024, 0.026, 0.03]
EACH_CONFIRMED = replace(ESTIMATE, hopeful=False)
"""A search that confirms every fleet it goes on from."""


def asked(latency_s: float) -> Question:
    """Cameras on GPUs whose speed is in doubt."""
    of_cameras = scenario([model("detector", latency_s)], {"detector": (4, 10.0)}, confidence=CONFIDENCE)
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    doubted = replace(profile("detector", T4, 0.01, 0.0001), doubt=doubt, predicted=True)
    return question(of_cameras, [offer(T4, 1.0)], shelf(doubted))


def on_one(of: Question) -> Trial:
    """All of it on one GPU, screened."""
    trial = OnFleet(of, (offer(T4, 1.0),), (1,), False, lambda _: silent)
    packing = trial._packer({}, None).pack(trial.devices)
    assert isinstance(packing, Packing)
    return trial.screened(packing)


def as_if(one: Replay, kept: int, draws: int) -> Replay:
    """A replay in which so many of so many draws had all requests in time, and the others none."""
    as_seen = one.summaries[0].models["detector"]
    shares = [1.0] * kept + [0.0] * (draws - kept)
    summaries = tuple(Summary({"detector": as_seen._replace(slo_attainment=share)}, {}) for share in shares)
    return replace(one, summaries=summaries, overloads=((),) * draws, looks=WORLDS, noisy=False)


@pytest.fixture(scope="module")
def one_replay() -> Replay:
    of = asked(0.03)
    return replay(of.scenario, demand(of.scenario), of.needs, on_one(of).deployment, screen=False)


def as_counted(kept: int, draws: int) -> WideLook:
    """So many of so many draws, requests of which all were judged."""
    judged = np.ones(draws, dtype=bool)
    return WideLook(np.arange(draws) < kept, judged, {"detector": draws - kept}, {"detector": 0}, 0)


def as_if_wide(one: Replay, kept: int, draws: int) -> Replay:
    """The same seen by a look at so many draws, which the first left open."""
    return replace(as_if(one, 145, 160), wide=as_counted(kept, draws))


@pytest.mark.parametrize(
    ("kept", "draws", "met", "lost"),
    [
        (154, 160, True, False),  # surely
        (144, 160, False, False),  # enough are kept, but not surely: another look
        (143, 160, False, False),  # too few, but not surely
        (131, 160, False, True),  # too few, surely
        (15, 45, False, True),  # not even with all others of the first look
    ],
)
def test_a_share_of_the_first_draws_is_looked_at_again_until_it_is_sure(
    one_replay: Replay, kept: int, draws: int, met: bool, lost: bool
) -> None:
    one = as_if(one_replay, kept, draws)
    assert (one.met, one.lost) == (met, lost)


@pytest.mark.parametrize(("kept", "met", "decided"), [(2400, True, True), (2310, False, False), (2250, False, True)])
def test_a_wider_look_decides_where_it_leaves_no_doubt(one_replay: Replay, kept: int, met: bool, decided: bool) -> None:
    one = as_if_wide(one_replay, kept, WORLDS[-2])
    assert (one.met, one.decided) == (met, decided)
    assert one.margin("detector") == pytest.approx(kept / WORLDS[-2] - CONFIDENCE)


@pytest.mark.parametrize(("kept", "met"), [(4096, True), (4095, False)])
def test_of_the_draws_seen_as_many_must_keep_every_slo_as_are_asked(one_replay: Replay, kept: int, met: bool) -> None:
    """79.98 % of 5,120 are surely more than 78 %, and fewer than the 80 % that are asked."""
    one = replace(as_if_wide(one_replay, kept, WORLDS[-1]), draws=Draws(0.8, surely=False))
    assert one.all_kept is not None
    assert one.all_kept.low > least_share(0.8)
    assert one.met == met


@pytest.mark.parametrize(("kept", "met"), [(144, True), (143, False)])
def test_what_is_only_ranked_is_judged_by_the_share_of_the_first_draws(
    one_replay: Replay, kept: int, met: bool
) -> None:
    one = replace(as_if(one_replay, kept, 160), looks=WORLDS[:1], ranked=True)
    assert one.met == met
    assert one.preliminary


def gives_up(seen: Replay) -> bool:
    """Whether the look gives it up."""
    seen = replace(seen, wide=seen.wide or WideLook.of(seen))
    return seen.gives_up(seen.replications)


def accepted(one: Replay, kept: np.ndarray) -> bool:
    """Whether any look at such draws accepts."""
    first = replace(as_if(one, int(kept[: WORLDS[0]].sum()), WORLDS[0]), draws=one.draws)
    if first.decided or gives_up(first):
        return first.met
    for look in WORLDS[1:]:
        seen = replace(as_if_wide(one, int(kept[:look].sum()), look), draws=one.draws)
        if seen.decided or gives_up(seen):
            return seen.met
    return False


def part_accepted(one: Replay, asked: float, kept: float) -> float:
    """Of fleets that keep every SLO in such a share of draws, where another is asked."""
    of, rng = replace(one, draws=Draws(asked, surely=False)), np.random.default_rng(1)
    return sum(accepted(of, rng.random(WORLDS[-1]) < kept) for _ in range(TRIES)) / TRIES


@pytest.mark.parametrize("share", [0.8, 0.95, 0.99])
def test_what_keeps_less_than_must_be_is_seldom_accepted(one_replay: Replay, share: float) -> None:
    """All looks together: 5 % where a tenth more draws break an SLO than may; to 99.9 % of the binomial."""
    assert part_accepted(one_replay, share, least_share(share)) <= 0.05 + 3.1 * (0.05 * 0.95 / TRIES) ** 0.5


def test_what_keeps_more_than_is_asked_is_seldom_refused(one_replay: Replay) -> None:
    kept = CONFIDENCE + 0.1 * (1 - CONFIDENCE)
    assert part_accepted(one_replay, CONFIDENCE, kept) >= 0.95 - 3.1 * (0.05 * 0.95 / TRIES) ** 0.5


def test_what_hardly_any_draw_breaks_or_many_do_is_decided_by_few(one_replay: Replay) -> None:
    """A tenth of the draws may break an SLO: of a twentieth or a fifth of 640 nobody needs to see more."""
    assert as_if_wide(one_replay, 608, 640).met
    assert not gives_up(as_if_wide(one_replay, 576, 640))
    assert gives_up(as_if_wide(one_replay, 560, 640))
    assert gives_up(as_if(one_replay, 136, 160))
    assert as_if_wide(one_replay, 512, 640).decided


@pytest.mark.parametrize(("kept", "hardly"), [(138, False), (137, True), (130, True)])
def test_what_keeps_hardly_any_draw_more_than_what_missed_in_many_is_no_better(
    one_replay: Replay, kept: int, hardly: bool
) -> None:
    """Another kept 137 of 160 and 88 % of 640: one of 160 more may mean 2.4 % of all, and 90 % are within reach."""
    in_640 = np.array([*[True] * 137, *[False] * 23, *[True] * 426, *[False] * 54])
    missed = replace(as_if(one_replay, 137, 160), wide=replace(as_counted(563, 640), kept=in_640))
    one = as_if(one_replay, kept, 160)
    assert one.is_hardly_better(missed) == hardly
    assert not one.is_hardly_better(as_if(one_replay, 137, 160)), "that one was not seen in more draws"


def test_a_look_at_many_draws_counts_every_one() -> None:
    of = asked(0.025)
    trial = on_one(of)
    seen = replay(of.scenario, demand(of.scenario), of.needs, trial.deployment, screen=False)
    assert seen.wide is not None
    assert WORLDS[0] < seen.replications == seen.wide.draws
    seed_at = seeds_of(PLANNING, 1, doubted=True)
    seeds = [seed_at(number) for number in range(seen.wide.draws)]
    slow = sum(
        bool(one.growing) or one.summary.models["detector"].slo_attainment < of.needs["detector"].slo.attainment
        for one in worlds_of(trial, seen, of).seen(seeds)
    )
    assert 0 < slow == seen.wide.broken_together == seen.wide.broken["detector"]


def worlds_of(trial: Trial, seen: Replay, of: Question) -> Worlds:
    """All of its worlds."""
    length = seen.stretch
    return Worlds(trial.deployment, demand(of.scenario), length.horizon_s, length.warmup_s, seen.rates_rps(1.0))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("surely", [False, True])
def test_a_screening_seldom_refuses_what_the_last_look_would_accept(
    one_replay: Replay, confidence: float, surely: bool
) -> None:
    """A deployment on the verge of it, screened again and again: a dozen looks of a chance of 1 in 1,000 each."""
    draws = Draws(confidence, surely=surely)
    verge = replace(as_if(one_replay, 1, 1), draws=draws)._may_break
    tries, rng = 4000, np.random.default_rng(1)
    broken = np.cumsum(rng.random((tries, SCREENED_DRAWS)) < verge, axis=1)
    refused = 0
    for bad, seen in {(int(bad), seen) for row in broken for seen, bad in enumerate(row, 1)}:
        one = replace(as_if(one_replay, seen - bad, seen), draws=draws, screened=True)
        refused += bool(one.far_off) * int(np.sum(broken[:, seen - 1] == bad))
    assert refused / tries < SCREENED_DRAWS * BY_CHANCE
    hopeless = replace(as_if(one_replay, 0, SCREENED_DRAWS), draws=draws, screened=True)
    assert hopeless.far_off


def test_what_is_bought_is_sure_or_was_looked_at_to_the_last() -> None:
    draws = set()
    for latency_s in LATENCIES_S:
        of = asked(latency_s)
        search = FleetSearch(of, lambda *_: None)
        best = search.best(of.program(), of.scenario.objective)
        all_confirmed = FleetSearch(of, lambda *_: None).best(of.program(), Objective.COST, EACH_CONFIRMED)
        assert (best and best.fleet) == (all_confirmed and all_confirmed.fleet)
        if best is None:
            continue
        share = best.replay.all_kept
        assert best.stands
        assert share is not None
        assert share.low >= least_share(CONFIDENCE)
        draws.add(best.replay.wide is None)
    assert draws == {True, False}, "both kinds of answer are among these"


def test_what_was_only_screened_is_confirmed_before_it_is_bought() -> None:
    """As where spares decide: the cheapest with its own was seen at a glance, and that has no say in the verdict."""
    screened = 0
    for latency_s in LATENCIES_S:
        of = asked(latency_s)
        search = FleetSearch(of, lambda *_: None)
        glanced = search.try_fleet((offer(T4, 1.0),), (2,), GLANCE)
        if glanced is None or not glanced.replay.screened:
            continue  # a glance left it in doubt, so that it was confirmed at once
        screened += 1
        trial = search.confirmed(glanced)
        assert not trial.replay.screened
        assert len(trial.replay.latencies) == len(trial.replay.summaries)
        known = search.tried[(offer(T4, 1.0),), (2,)]
        assert (known is not None) == trial.stands
    assert screened


def test_gpus_that_missed_when_confirmed_stand_in_no_table_and_their_kind_does() -> None:
    """One T4 keeps every SLO in 92 % of the first draws and in 88 % of more; so does that of another machine."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=NormalDist().inv_cdf(0.78))
    doubted = replace(profile("f", T4, 0.0, 0.9 / 40), doubt=doubt, predicted=True)
    on_offer = (offer(T4, 1.0, name="here"), offer(T4, 1.2, name="there", host_memory_bytes=10**12), offer(V100, 1.1))
    of_cameras = scenario([model("f", 0.5)], {"f": (4, 10.0)}, confidence=CONFIDENCE, horizon=2.0)
    of = question(of_cameras, on_offer, shelf(doubted, profile("f", V100, 0.0, 0.005)))
    search = FleetSearch(of, lambda *_: None)
    found = Beside(search).found(search.best(of.program(on_offer[2:]), Objective.COST))
    (refused,) = [no for no in Misses(search).settled() if no.subject == one_t4(on_offer)]
    assert refused.why.code is Code.DRAWS_BREAK
    assert {no.code for no in refused.remedies} == {
        Code.MEASURING_DECIDES,
        Code.LOWER_CONFIDENCE,
        Code.MORE_GPUS,
    }
    assert found.best
    assert found.best.kinds == {Kind.of(on_offer[2])}
    assert [machines_of(trial.offers, trial.fleet) for trial in (*found.alone, *found.others)] == [
        machines_of(on_offer, fleet) for fleet in ((0, 0, 1), (2, 0, 0), (2, 0, 0))
    ]


def test_what_draws_of_published_speeds_leave_undecided_may_be_taken_as_it_stands() -> None:
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), quantile=NormalDist().inv_cdf(0.78))
    published = replace(profile("f", T4, 0.0, 0.3 / 40), doubt=doubt, latency_evidence=Evidence.PUBLISHED)
    of_cameras = scenario([model("f", 0.5)], {"f": (4, 10.0)}, confidence=CONFIDENCE, horizon=2.0)
    search = FleetSearch(question(of_cameras, [offer(T4, 1.0)], shelf(published)), lambda *_: None)
    trial = search.try_fleet((offer(T4, 1.0),), (1,), GLANCE)
    assert isinstance(trial, Trial)
    assert [(one.code, one.subjects) for one in remedies_unproven(trial, "f")] == [
        (Code.MEASURING_DECIDES, ()),
        (Code.AS_THEY_STAND, ("published",)),
        (Code.LOWER_CONFIDENCE, ()),
    ]


def one_t4(on_offer: Sequence[Offer]) -> Candidate:
    """The cheaper one."""
    return Candidate(machines=machines_of(on_offer, (1, 0, 0)), memory=Memory.RESIDENT)


def test_one_draw_alone_shows_nothing(one_replay: Replay) -> None:
    one = replace(as_if(one_replay, 1, 1), looks=(1,))
    assert one.kept == {"detector": None}
    assert one.too_few
    assert not one.met


def test_draws_decide_where_the_slowest_end_alone_is_overloaded() -> None:
    """A GPU that would be offered 105 % were its speed at the end that 95 of 100 draws keep: 9 of 10 draws are asked,
    so it does. It was called overloaded, with 154 good draws of 160."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=NormalDist().inv_cdf(0.97))
    of_cameras = scenario([model("detector", 0.5)], {"detector": (4, 10.0)}, confidence=CONFIDENCE)
    doubted = replace(profile("detector", T4, 0.0, 1.05 / 40), doubt=doubt, predicted=True)
    trial = on_one(question(of_cameras, [offer(T4, 1.0)], shelf(doubted)))
    assert not trial.bears(1.0)
    seen = replay(of_cameras, trial.replay.traffic, trial.replay.needs, trial.deployment, screen=False)
    assert seen.all_kept is not None
    assert seen.all_kept.mean >= CONFIDENCE
    assert seen.met


def lasting(horizon_s: float, warmup_s: float) -> ReplayLength:
    return ReplayLength(horizon_s=horizon_s, warmup_s=warmup_s, settling_s=0.0, repeat_s=None)


@pytest.mark.parametrize(
    ("load", "in_time", "clear"),
    [(0.8, 0.9995, True), (0.81, 1.0, False), (0.5, 0.9994, False), (0.9, 0.9801, False), (0.9, 0.9799, True)],
)
def test_a_short_look_is_clear_where_queues_are_calm_and_hardly_any_request_is_late_or_twice_what_may(
    load: float, in_time: float, clear: bool
) -> None:
    worlds = Worlds(support.worlds.deployment(), Workload(()), 1.0, 0.0, {})
    short = ShortLook.of(worlds, {"m": Need("m", 1.0, SLO(1.0, 0.99), 0.0, True, (), 0.0)}, lasting(1.0, 0.0))
    assert short.is_clear(np.array([load]), {"m": np.array([in_time])}) == [clear]


def test_a_short_look_and_a_whole_one_where_it_is_open_tell_what_whole_ones_tell() -> None:
    """Random arrivals, of which a GPU is too slow in one draw of ten, in some of them by little."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    doubted = replace(support.worlds.profile("detector", 0.0005), doubt=doubt)
    deployment = support.worlds.deployment(support.worlds.service(doubted, slo_s=0.005))
    arrivals = Stream("detector", Poisson(1000.0))
    worlds = Worlds(deployment, Workload((arrivals,)), 24.0, 0.1, {"detector": 1000.0})
    need = Need("detector", 1000.0, SLO(0.005, 0.99), 0.0, True, (arrivals,), 1.0)
    short = ShortLook.of(worlds, {"detector": need}, lasting(6.0, 0.1))
    draws = Replications(asked(0.03).scenario, worlds, seeds_of(PLANNING, 1, doubted=True), short, None)
    seeds = draws.seeds(0, 320)
    told, whole, one_by_one = draws.shares(0, 320), worlds.shares(seeds), list(draws.in_turn([0, 320]))
    assert 0.05 < np.mean(whole.in_time["detector"] < 0.99) < 0.2
    assert draws.clear == sum(one.clear or bool(one.figures.growing) for one in one_by_one) > 0.7 * 320
    assert np.array_equal(told.in_time["detector"] < 0.99, whole.in_time["detector"] < 0.99)
    for one in one_by_one:  # a histogram counts short ones alike; five standard deviations of 5,900, and rounding
        assert one.figures.growing or one.figures.latency_counts["detector"].sum() == pytest.approx(23_900, rel=0.08)
    missed = [one.figures.summary.models["detector"].slo_attainment < 0.99 for one in one_by_one]
    assert missed == (whole.in_time["detector"] < 0.99).tolist()


@pytest.mark.parametrize(("horizon_s", "tells"), [(20.0, True), (10.0, False)])
def test_draws_tell_of_each_other_where_all_last_as_long_as_was_asked(
    monkeypatch: pytest.MonkeyPatch, horizon_s: float, tells: bool
) -> None:
    """400 visitors a second, of whom 1 % may wait too long: 50 such come in 12.5 s. A GPU that is too slow in about one
    of ten draws, as many as may be; what others tell of is what it shows itself."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    visitors = replace(
        scenario([model("detector", 0.1)], {}, confidence=CONFIDENCE, horizon=horizon_s),
        streams=(StreamSpec(model="detector", poisson="400 rps"),),
    )
    doubted = replace(profile("detector", T4, 0.0, 0.68 / 400), doubt=doubt, predicted=True)
    trial = on_one(question(visitors, [offer(T4, 1.0)], shelf(doubted)))
    of = trial.replay.traffic, trial.replay.needs, trial.deployment
    seen = replay(visitors, *of, screen=False)
    assert (seen.inferred > 0.5 * seen.replications) == tells
    monkeypatch.setattr(Told, "of", lambda *_: None)
    whole = replay(visitors, *of, screen=False)
    assert not whole.inferred
    assert seen.all_kept == whole.all_kept


def test_what_is_too_slow_in_more_draws_than_may_be_is_refused_after_few_replays() -> None:
    """Of 40 frames a second a GPU has 0.8 s of work in the middle; lognormal, more than a second in 23 of 100 draws."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.3,)), shared=0.5, quantile=0.0)
    of_cameras = scenario([model("detector", 0.5)], {"detector": (4, 10.0)}, confidence=CONFIDENCE)
    doubted = replace(profile("detector", T4, 0.0, 0.8 / 40), doubt=doubt, predicted=True)
    trial = on_one(question(of_cameras, [offer(T4, 1.0)], shelf(doubted)))
    asked_of = trial.replay.traffic, trial.replay.needs, trial.deployment
    seen = replay(of_cameras, *asked_of, screen=False, verdict_only=True)
    assert not seen.met
    assert len(seen.summaries) == LOST_EVERY
    assert seen.replications == WORLDS[-1]
    too_slow = 1 - NormalDist().cdf(-math.log(0.8 * of_cameras.asked[0].slo.attainment) / 0.3)
    assert seen.all_kept is not None
    assert 1 - seen.all_kept.mean == pytest.approx(too_slow, abs=5 * (too_slow * (1 - too_slow) / WORLDS[-1]) ** 0.5)


@pytest.mark.parametrize(
    ("low", "high", "draws", "surely", "is_on_edge"),
    [
        (0.945, 0.959, 5120, False, True),
        (0.951, 0.964, 5120, False, False),
        (0.935, 0.949, 5120, False, False),
        (0.945, 0.959, 640, False, False),  # more draws would have decided
        (0.945, 0.959, 5120, True, False),
    ],
)
def test_what_another_seed_may_decide_otherwise_is_said(
    low: float, high: float, draws: int, surely: bool, is_on_edge: bool
) -> None:
    seen: Any = SimpleNamespace(
        all_kept=Interval((low + high) / 2, low, high),
        draws=Draws(0.95, surely=surely),
        wide=SimpleNamespace(draws=draws),
        looks=WORLDS,
    )
    assert [one.what.code for one in on_edge(seen)] == [Code.ON_EDGE] * is_on_edge


def seldom_asked(*rates_rps: float, late: str = "") -> Question:
    """Models that may be so seldom asked that most replications of 10 s bring no request, at doubtful speeds; some of
    them are late in half of all draws."""
    names = "abcde"[: len(rates_rps)]
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.1,)), shared=0.5, quantile=0.0)
    doubted = [replace(profile(name, T4, 0.01, 0.0001), doubt=doubt, predicted=True) for name in names]
    models = [model(name, 0.0101 if name in late else 0.05) for name in names]
    of_all = scenario(models, {}, confidence=0.95, horizon=10.0)
    streams = tuple(StreamSpec(model=name, poisson=rate) for name, rate in zip(names, rates_rps, strict=True))
    return question(replace(of_all, streams=streams), [offer(T4, 1.0)], shelf(*doubted))


def replay_of(of: Question) -> Replay:
    return replay(of.scenario, demand(of.scenario), of.needs, on_one(of).deployment, screen=False)


@pytest.mark.parametrize("rate_rps", [0.02, 0.1, 1.0])
def test_a_draw_without_a_request_says_nothing_against_a_fleet(rate_rps: float) -> None:
    """A request comes in a fifth of the replications at 0.02 a second: these alone count."""
    seen = replay_of(seldom_asked(rate_rps))
    assert seen.met
    assert seen.all_kept is not None
    assert seen.all_kept == seen.draws_kept["a"]
    assert seen.all_kept.mean == 1
    assert seen.replications == pytest.approx(seen.replayed * (1 - math.exp(-rate_rps * 9.9)), rel=0.25)
    assert seen.all_kept.low == pytest.approx(seen.risk ** (1 / seen.replications))


def test_a_draw_without_a_request_says_nothing_for_a_fleet() -> None:
    """Every request is late: the draws that bring none do not make up for it."""
    seen = replay_of(seldom_asked(0.02, late="a"))
    assert not seen.met
    assert seen.kept_share < 0.95
    always = replay_of(seldom_asked(1.0, late="a"))
    assert seen.kept_share == pytest.approx(always.kept_share, abs=0.2)


def test_a_model_that_is_seldom_asked_does_not_hide_what_another_breaks() -> None:
    of = seldom_asked(0.02, 5.0)
    seen = replay_of(of)
    assert seen.met
    assert seen.draws_kept["b"].mean == 1


@pytest.mark.parametrize(("rate_rps", "proven"), [(0.05, True), (0.02, False)])
def test_phases_that_bring_no_frame_say_nothing(rate_rps: float, proven: bool) -> None:
    """A camera that sends a frame in each second replay of 10 s, or in each fifth: 64 of at most 320 prove no 95 %."""
    asked = scenario([model("a", 0.1)], {"a": (1, rate_rps)}, confidence=0.95, horizon=10.0)
    seen = replay_of(question(asked, [offer(T4, 1.0)], shelf(profile("a", T4, 0.01, 0.0001))))
    assert seen.draws == Draws(0.95)
    assert seen.all_kept is not None
    assert seen.all_kept.mean == 1
    assert (seen.met, seen.too_few) == (proven, not proven)
    assert seen.replayed > seen.replications


def test_requests_in_too_few_draws_ask_for_time_and_for_no_gpu() -> None:
    """Two models, one asked in 26 of 5,120 replications: not even 100 % of these would prove 94.5 %."""
    of = seldom_asked(0.0005, 0.05)
    trial = on_one(of)
    seen = replay_of(of)
    assert not seen.met
    assert not seen.short
    assert seen.too_few
    assert seen.rare == ["a"]
    assert seen.kept == {"a": None, "b": True}
    assert seen.replayed < WORLDS[-1]
    (remedy,) = remedies_unproven(replace(trial, replay=seen), "a")
    assert remedy.code is Code.ANY_LONGER_HORIZON
    longer = replace(of, scenario=replace(of.scenario, horizon=600.0))
    assert replay_of(longer).met


@pytest.mark.parametrize("rates_rps", [(0.011, 0.011), (0.0101,) * 5])
def test_a_draw_counts_for_all_models_where_any_had_requests(rates_rps: tuple[float, ...]) -> None:
    """Hardly a replication brings requests of all models: those that bring some tell of all together."""
    seen = replay_of(seldom_asked(*rates_rps))
    assert seen.met
    assert seen.all_kept is not None
    assert seen.all_kept.mean == 1
    assert seen.replications == pytest.approx(seen.replayed * (1 - math.exp(-sum(rates_rps) * 9.9)), rel=0.25)
    for name, rate_rps in zip(seen.needs, rates_rps, strict=True):
        assert seen.told_by(name) == pytest.approx(seen.replayed * (1 - math.exp(-rate_rps * 9.9)), rel=0.35)


def test_a_model_that_is_seldom_asked_and_often_late_is_not_hidden_by_draws_without_it() -> None:
    """A twentieth of the draws bring a request of it, late in half of them: in 97 % of all draws nothing is late."""
    of = seldom_asked(0.005, 5.0, late="a")
    seen = replay_of(of)
    assert seen.all_kept is not None
    assert seen.all_kept.mean > 0.95
    assert seen.draws_kept["a"].high < 0.95
    assert seen.kept["a"] is False
    assert seen.missed == ["a"]
    assert seen.short
    assert seen.nearest_by_margin[1] < 0
    refused = missed_slo(replace(on_one(of), replay=seen))
    assert refused.why.code is Code.MISSED_IN_DRAWS
    assert refused.why.figures["draws"] == seen.told_by("a") < seen.replications
    assert refused.why.figures["kept"] == seen.draws_kept["a"].mean


@pytest.mark.parametrize(("of_a", "of_b", "given_up"), [(0, 7, False), (0, 24, True), (6, 0, True)])
def test_what_is_given_up_counts_breaks_and_draws_alike(of_a: int, of_b: int, given_up: bool) -> None:
    """Of 160 draws each brings requests of one model and 16 of another: 7 are few of 160, and 6 many of 16."""
    seen = replay_of(seldom_asked(0.011, 5.0))
    first = WideLook.of(replace(seen, wide=None))
    assert not first.silent_together
    assert first.silent["a"] == pytest.approx(first.draws * math.exp(-0.011 * 9.9), rel=0.1)
    kept = np.arange(160) < 160 - of_a - of_b
    look = WideLook(kept, np.ones(160, dtype=bool), {"a": of_a, "b": of_b}, {"a": 144, "b": 0}, 0)
    assert replace(seen, wide=look).gives_up(160) == given_up


def test_no_request_in_any_draw_decides_nothing_and_asks_for_time() -> None:
    of = seldom_asked(1e-6, 1e-6)
    trial = on_one(of)
    seen = replay_of(of)
    assert seen.kept == {"a": None, "b": None}
    assert not seen.met
    assert not seen.short
    assert seen.too_few
    assert not seen.replications
    assert seen.replayed == WORLDS[0]
    undecided = missed_slo(replace(trial, replay=seen))
    assert undecided.why.code is Code.NOT_JUDGED
    assert [remedy.code for remedy in undecided.remedies] == [Code.ANY_LONGER_HORIZON]
    assert not math.isnan(undecided.observed)
