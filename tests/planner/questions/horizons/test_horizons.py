"""Days of load, and machines that follow it: step by step by hand, and against queueing theory."""

from bisect import bisect_right
from dataclasses import replace
from math import ceil, exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.planning import A10G, CATALOG, T4, Shelf, loaded, model, planned, profile, scenario, shelf
from support.theory import erlang_c

from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import Catalog
from planner.catalog.sold import Price
from planner.io.load import Loaded, ScenarioError, load_scenario
from planner.io.traces.table import TraceTable
from planner.model.calendar import (
    AutoscalingSpec,
    Between,
    CalendarSpec,
    CalendarTrace,
    Keep,
    RatesAre,
    ReservedSpec,
    SpotSpec,
)
from planner.model.candidate import MachineType
from planner.model.choices import HorizonWay, PriceKind
from planner.model.parts.machines import BuySpec, FailureSpec, OwnMachine
from planner.model.parts.streams import StreamSpec
from planner.model.plan import Bottleneck, Rejection
from planner.model.progress import silent
from planner.model.scenario import Scenario
from planner.model.statement import Code, Statement
from planner.questions.horizons.answer import Horizon, Mode
from planner.questions.horizons.cheapest import answered, one_more
from planner.questions.horizons.day import by_levels, check_day, piece, pieces
from planner.questions.horizons.demand import levels, recorded, request_count, shape_of, stamped, warped
from planner.questions.horizons.judging import Course, backlogged, hopeless, stretches
from planner.questions.horizons.machines import MachineBase, MachineGroup
from planner.questions.horizons.market import Market, Paid, at_its_price, market
from planner.questions.horizons.question import HorizonQuestion
from planner.questions.horizons.recording import blocks, shape_of_counts, unseen
from planner.questions.horizons.ways import WayCandidate, pairs
from planner.questions.horizons.weigh import horizon
from planner.show.text.horizons import answers, headline, in_short
from planner.words.statements import rejection_remedy
from simulator.clock.autoscaling import (
    Autoscaling,
    FleetTimeline,
    Interruptions,
    Wishes,
    constant,
    followed,
    kept,
    strikes,
    timeline,
    wanted,
)
from simulator.world.curves import Interpolated
from simulator.world.deployment import Drop, Routing
from simulator.world.profile import Doubt, Evidence
from simulator.world.workload import FixedRate, Floats, Poisson, Stream, Workload

DAY = tuple(0.3 + 0.7 * np.sin(np.pi * hour / 24) ** 2 for hour in range(24))
POLICY = Autoscaling(
    target_utilization=0.7,
    boot_s=90.0,
    load_s=30.0,
    scale_down_delay_s=300.0,
    interval_s=15.0,
    machines_min=1,
    machines_max=50,
)
MADE = "2026-11-22T00:00:00"


def factors_of(given: Loaded, calendar: CalendarSpec) -> Floats:
    """Load of every minute."""
    return shape_of(given, calendar).factors


def follow(policy: Autoscaling, load: Floats, slot_s: float, **taken: object) -> FleetTimeline:
    """Machines over time under an autoscaler."""
    return timeline(followed(policy, load, slot_s), policy.boot_s + policy.load_s, **taken)  # type: ignore[arg-type]


def asked(calendar: CalendarSpec) -> Loaded:
    """Ten cameras at 1 fps on T4 machines, of which all kinds of price are known but spot."""
    buy = BuySpec(instances=("g4dn.xlarge",))
    made = scenario([model("a", 4.5)], {"a": (10, 1.0)}, buy=buy, horizon=60.0, warmup=6.0)
    return loaded(replace(made, calendar=calendar))


def with_headroom(given: Loaded, headroom: float) -> Loaded:
    """The same with so much kept free."""
    return replace(given, scenario=replace(given.scenario, headroom=headroom))


def known() -> Shelf:
    """150 ms and 180 ms more for each frame: 16 take 3.03 s, so a GPU serves 5.3 a second."""
    return shelf(profile("a", T4, 0.15, 0.18))


# Load by the minute


def test_a_week_of_cameras_is_907_million_frames() -> None:
    week = CalendarSpec(hourly=DAY, weekly=(1, 1.1, 1, 1.2, 1, 0.5, 0.4))
    factors = factors_of(asked(week), week)
    cameras = Workload((Stream("a", FixedRate(15.0), 100),))
    assert len(factors) == 7 * 1440
    assert request_count(cameras, factors) == pytest.approx(100 * 15 * 604_800)
    assert factors.reshape(7, -1).mean(axis=1) == pytest.approx(
        np.array([1, 1.1, 1, 1.2, 1, 0.5, 0.4]) / np.mean([1, 1.1, 1, 1.2, 1, 0.5, 0.4]), rel=0.02
    )


def test_factors_hold_in_the_middle_of_hours_or_all_through_them() -> None:
    hourly = tuple(float(hour) for hour in range(24))
    step = CalendarSpec(hourly=hourly, days=1, between=Between.STEP, rates_are=RatesAre.UNIT)
    linear = replace(step, between=Between.LINEAR)
    assert factors_of(asked(step), step).tolist() == [hour for hour in hourly for _ in range(60)]
    straight = factors_of(asked(linear), linear)
    assert straight[6 * 60 + 29 : 6 * 60 + 31] == pytest.approx([6 - 0.5 / 60, 6 + 0.5 / 60])
    assert straight[7 * 60] == pytest.approx(6.5 + 0.5 / 60)
    assert straight[0] == pytest.approx(23 / 2, abs=0.5)  # between the last hour and the first


def test_rates_are_the_peak_or_the_mean() -> None:
    for kind, reduced in ((RatesAre.PEAK, np.max), (RatesAre.MEAN, np.mean)):
        calendar = CalendarSpec(hourly=DAY, days=2, rates_are=kind)
        assert reduced(factors_of(asked(calendar), calendar)) == pytest.approx(1.0)


def test_a_recording_is_stretched_repeated_and_counted() -> None:
    times_s = np.concatenate([np.linspace(0, 30, 3000, endpoint=False), np.linspace(30, 60, 9000, endpoint=False)])
    table = TraceTable(times_s, 60.0, "made")
    twice = recorded(table, CalendarTrace(file=Path("t.csv"), lasts=12 * 3600.0), 1).factors
    assert twice.sum() == pytest.approx(24_000)
    assert twice.reshape(4, 360).sum(axis=1) == pytest.approx([3000, 9000, 3000, 9000], abs=60)
    few = recorded(TraceTable(np.arange(0.0, 240.0), 240.0, "made"), CalendarTrace(file=Path("t.csv")), 1).factors
    assert few.max() < 1.1 * few.min()  # 240 arrivals in 1,440 minutes are no load of 0 and 1


def test_silent_ends_of_a_recording_are_hours_without_load(tmp_path: Path) -> None:
    times = "".join(f"{1 + n / 12_000:.6f}\n" for n in range(12_000))
    (tmp_path / "t.csv").write_text(f"# from 0 s, lasts 4 s\narrival_s\n{times}")
    calendar = CalendarSpec(trace=CalendarTrace(file=Path("t.csv")), days=1)
    factors = factors_of(replace(asked(calendar), path=tmp_path / "s.yaml"), calendar)
    assert factors.reshape(4, 360).mean(axis=1) == pytest.approx([0, 4, 0, 0], abs=0.05)


@given(st.lists(st.floats(0, 10), min_size=2, max_size=300), st.integers(2, 40))
def test_levels_lose_no_load(values: list[float], count: int) -> None:
    factors = np.array(values)
    found = levels(factors, count)
    assert len(found.factor) <= count
    assert found.minutes.sum() == len(factors)
    assert float(found.factor @ found.minutes) == pytest.approx(factors.sum())
    width = (factors.max() - factors.min()) / count
    assert np.all(np.abs(found.factor[found.of_minute] - factors) <= width + 1e-9)


def test_load_that_changes_brings_frames_where_it_is() -> None:
    factors = np.array([1.0, 2.0, 0.5, 1.0])
    cameras = Workload((Stream("a", FixedRate(10.0), 5), Stream("b", Poisson(100.0))))
    seen = warped(cameras, factors, 30.0, 210.0, seed=3)
    minutes = np.histogram(seen["a"] + 30.0, bins=[30, 60, 120, 180, 210])[0]
    assert minutes == pytest.approx(50 * np.array([30, 120, 30, 30]), abs=6)
    assert len(seen["b"]) == pytest.approx(100 * 210, rel=0.03)
    assert all(times.min() >= 0 and times.max() < 180 and np.all(np.diff(times) >= 0) for times in seen.values())
    assert stamped(seen, 180.0).rates_rps()["a"] == pytest.approx(len(seen["a"]) / 180)


# How many machines are wanted


@given(st.floats(0, 60), st.floats(0.1, 1.0))
def test_no_machine_has_more_than_its_target_and_none_is_spare(load: float, target: float) -> None:
    found = int(wanted(np.array([load]), replace(POLICY, target_utilization=target, machines_max=10_000))[0])
    assert load / found <= target * (1 + 1e-6)
    assert found == 1 or load / (found - 1) > target * (1 - 1e-6)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 12))
def test_fewer_are_kept_only_after_the_delay(wishes: list[int], looks: int) -> None:
    assert kept(np.array(wishes), looks).tolist() == [
        max(wishes[max(0, i - looks + 1) : i + 1]) for i in range(len(wishes))
    ]


def test_load_doubles_and_capacity_comes_one_look_a_boot_and_a_load_later() -> None:
    load = np.repeat([3.5, 7.0], [10, 20])  # 5 machines at 70 %, then 10, from 600 s on
    found = follow(POLICY, load, 60.0)
    changes = [(at, paid, ready) for at, paid, ready in zip(found.at_s, found.paid, found.ready, strict=True)]
    assert changes == [(0.0, 5, 5), (615.0, 10, 5), (615.0 + 90 + 30, 10, 10)]
    assert found.orders == 5


def test_load_halves_and_machines_leave_after_the_delay() -> None:
    load = np.repeat([7.0, 3.5], [10, 20])
    found = follow(POLICY, load, 60.0)
    # The last look that wanted 10 was at 600 s; 300 s later fewer have been enough for long enough.
    assert found.at_s.tolist() == [0.0, 900.0]
    assert found.ready.tolist() == [10, 5]
    assert found.machine_hours() == pytest.approx((10 * 900 + 5 * 900) / 3600)


def test_a_dip_shorter_than_the_delay_changes_nothing() -> None:
    found = follow(POLICY, np.repeat([7.0, 1.0, 7.0], [10, 4, 10]), 60.0)
    assert found.ready.tolist() == [10]


def test_a_machine_that_still_boots_is_given_back_and_never_answers() -> None:
    slow = replace(POLICY, boot_s=3000.0, scale_down_delay_s=60.0)
    found = follow(slow, np.repeat([0.7, 7.0, 0.7], [2, 5, 30]), 60.0)
    assert found.ready.max() == 1
    assert found.paid.max() == 10
    assert found.paid[-1] == 1


def test_spot_machines_are_missed_from_their_end_until_the_next_answers() -> None:
    taken = Interruptions(rate_per_s=0.3 / 3600, notice_s=50.0)
    days = follow(POLICY, np.full(5 * 1440, 7.0), 60.0, interruptions=taken, seed=7)
    expected = 10 * 0.3 * 120
    assert days.interruptions == pytest.approx(expected, abs=4 * expected**0.5)  # Poisson
    missing_s = float((10 - days.ready) @ days.lengths_s)
    assert missing_s == pytest.approx(days.interruptions * (120 - 50), rel=0.02)
    assert days.machine_hours() * 3600 == pytest.approx(10 * days.duration_s + days.interruptions * 50, rel=1e-4)
    again = follow(POLICY, np.full(5 * 1440, 7.0), 60.0, interruptions=taken, seed=7)
    assert again.at_s.tolist() == days.at_s.tolist()


def test_a_zone_is_taken_at_once_and_has_no_more_for_a_while() -> None:
    together = Interruptions(rate_per_s=0.1 / 3600, notice_s=50.0, together=1.0, zones=2, shortage_s=600.0)
    days = follow(POLICY, np.full(20 * 1440, 7.0), 60.0, interruptions=together, seed=3)
    strikes = 2 * 0.1 * 480  # of two zones
    assert days.interruptions == pytest.approx(5 * strikes, abs=5 * 4 * strikes**0.5)
    assert set(np.unique(days.ready).tolist()) <= {0.0, 5.0, 10.0}
    missing_s = float((10 - days.ready) @ days.lengths_s)
    assert missing_s == pytest.approx(days.interruptions * (600 + 120 - 50), rel=0.05)
    alone = replace(together, together=0.0)
    one_by_one = follow(POLICY, np.full(20 * 1440, 7.0), 60.0, interruptions=alone, seed=3)
    assert one_by_one.ready.min() > 5


def test_no_machine_is_had_in_a_shortage_not_even_for_more_load() -> None:
    struck = Interruptions(rate_per_s=1 / 3600, notice_s=50.0, together=1.0, shortage_s=5000.0)
    ((first_s, *_),) = strikes(struck, 7200.0, 1)
    wishes = Wishes(np.array([0.0, first_s + 300]), np.array([1, 3]), 7200.0)
    found = timeline(wishes, 120.0, interruptions=struck, seed=1)
    during = (found.at_s >= first_s + 50) & (found.at_s < min(first_s + 5000, 7200))
    assert found.paid[during].max(initial=0) == 0
    assert found.interruptions >= 1


def test_a_timetable_has_its_machines_ready_at_the_hour() -> None:
    wishes = Wishes(np.array([0.0, 3600.0, 7200.0]), np.array([1, 3, 0]), 10_800.0)
    found = timeline(wishes, 120.0, ahead=True)
    rows = list(zip(found.at_s.tolist(), found.paid.tolist(), found.ready.tolist(), strict=True))
    assert rows == [(0, 1, 1), (3480, 3, 1), (3600, 3, 3), (7200, 0, 0)]
    assert found.machine_hours() == pytest.approx(1 + 3 + 2 * 120 / 3600)
    assert found.orders == 2


def test_autoscaled_machines_in_steady_state_are_those_of_erlang() -> None:
    """Fewest servers that answer 95 % in time: from replays, and from the formula of M/M/c."""
    service_s, slo_s, rate_rps = 0.1, 0.5, 40.0
    noisy = replace(profile("a", T4, 0.1, 0.0), latency=Interpolated((1.0,), (service_s,)), latency_cv=1.0)
    calendar = CalendarSpec(hourly=DAY, days=1)
    made = Scenario(
        models=(model("a", slo_s, 0.95),),
        streams=(StreamSpec(model="a", poisson=rate_rps),),
        buy=BuySpec(instances=("g4dn.xlarge",)),
        drop=Drop.NEVER,
        routing=Routing.SHARED,
        headroom=0.0,
        replications=2,
        horizon=60.0,
        warmup=1.0,
        calendar=calendar,
    )
    machines = group(loaded(made), shelf(noisy), 1.5)
    assert machines.load_erlangs == pytest.approx(rate_rps * service_s)
    for factor in (0.25, 1.5):
        load = factor * rate_rps * service_s
        theory = next(c for c in range(1, 50) if late(c, load, slo_s / service_s) <= 0.05)
        seen = 1 - machines.behaviour(factor, theory).attainment["a"]
        assert seen == pytest.approx(late(theory, load, slo_s / service_s), abs=0.025)
        assert abs(machines.needed(factor) - theory) <= (abs(seen - 0.05) < 0.02)


def late(servers: int, load: float, limit: float) -> float:
    """Share that stays longer than `limit` service times in M/M/c, first come first served.

    Wait W > t with C exp(-(c - a) t), service exponential: Gross et al. (2008), sec. 2.3.
    """
    if load >= servers:
        return 1.0
    waits, spare = erlang_c(servers, load), servers - load
    if abs(spare - 1) < 1e-9:
        return exp(-limit) * (1 + waits * limit)
    return exp(-limit) * (1 + waits * (1 - exp(-limit * (spare - 1))) / (spare - 1))


# What it costs, and who is late


@given(st.lists(st.floats(0.0, 9.0), min_size=3, max_size=40), st.integers(1, 9), st.floats(0.3, 1.0))
def test_a_base_below_machines_that_follow_the_load_is_as_if_the_autoscaler_kept_it(
    load: list[float], machines: int, target: float
) -> None:
    policy = replace(POLICY, target_utilization=target, scale_down_delay_s=120.0)
    erlangs = np.array(load)
    above = timeline(followed(policy, erlangs, 60.0).beyond(machines), policy.boot_s + policy.load_s)
    whole = follow(replace(policy, machines_min=machines), erlangs, 60.0)
    moments = np.linspace(0.0, whole.duration_s, 997, endpoint=False)
    for rows in ("paid", "ready"):
        seen = [getattr(t, rows)[np.searchsorted(t.at_s, moments, side="right") - 1] for t in (above, whole)]
        assert (machines + seen[0]).tolist() == seen[1].tolist()
    assert machines * whole.duration_s / 3600 + above.machine_hours() == pytest.approx(whole.machine_hours())


def on_offer(given: Loaded, shelf: Shelf, peak: float) -> Market:
    """What may be had."""
    return market(given, CATALOG, shelf, peak, silent)


def group(given: Loaded, shelf: Shelf, peak: float) -> MachineGroup:
    """The only machines on offer."""
    found = on_offer(given, shelf, peak)
    machines = found.group(found.offers[Paid.ON_DEMAND][0])
    assert machines is not None
    return machines


def small_group() -> MachineGroup:
    """One model, whatever the calendar."""
    return group(asked(CalendarSpec(hourly=DAY, days=1)), known(), 1.5)


def test_hours_paid_in_vain_and_hours_missed_by_hand() -> None:
    """Two machines are needed for two hours; 1 is reserved, and 2, 1 and 0 more are there for 30, 60 and 30 minutes."""
    given = with_headroom(asked(CalendarSpec(hourly=DAY, days=1)), 0.0)
    on_sale = on_offer(given, known(), 1.5)
    (rest,), (base,) = (on_sale.offers[paid] for paid in (Paid.ON_DEMAND, Paid.RESERVED))
    machines, reserved = on_sale.group(rest), on_sale.group(base)
    assert machines is not None
    assert reserved is not None
    assert given.scenario.calendar is not None
    factors = np.ones(120)
    question = HorizonQuestion(on_sale, given.scenario.calendar, factors, levels(factors, 2), silent)
    assert question.course(machines).needed.tolist() == [2]
    wishes = Wishes(np.array([0.0, 1800.0, 5400.0]), np.array([2, 1, 0]), 7200.0)
    way = WayCandidate(
        HorizonWay.RESERVED, MachineBase(reserved, 1), machines, Mode.AUTOSCALED, 0.7, lambda: wishes, 0.0
    )
    found = answered(question, way).strategy
    assert found.gpu_hours == pytest.approx(2 + 1 + 1)
    assert found.wasted_gpu_hours == pytest.approx(0.5)
    assert found.short_gpu_hours == pytest.approx(0.5)
    assert found.cost_usd == pytest.approx(2 * base.usd_per_hour + 2 * rest.usd_per_hour)
    assert found.parts[0].commitment_usd == pytest.approx(8760 * base.usd_per_hour)
    assert found.gpus_by_hour == pytest.approx((2.5, 1.5))
    one, two, three = (machines.behaviour(1.0, n).attainment["a"] for n in (1, 2, 3))
    (said,) = found.slos
    assert said.slo_attainment == pytest.approx(three * 0.25 + two * 0.5 + one * 0.25)
    assert said.slo_attainment_low <= said.slo_attainment
    assert said.worst_hour == pytest.approx(min(three * 0.5 + two * 0.5, two * 0.5 + one * 0.5))
    assert said.worst_minute == pytest.approx(min(three, two, one))


def test_behind_a_backlog_all_is_late_until_it_is_worked_off() -> None:
    machines = replace(small_group(), erlangs={"a": 1.0})
    factors = np.array([3.0, 1.0, 1.0, 1.0])
    course = Course(machines, factors, levels(factors, 2), Keep.WHOLE, 1.0)
    # One minute of one erlang too much leaves 60 erlang-seconds; one erlang to spare takes a minute for them.
    late_share = backlogged(course, stretches(timeline(constant(2, 240.0), 0.0), 4))
    assert late_share.tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(("routing", "share"), [(Routing.ROUND_ROBIN, 1), (Routing.LEAST_OUTSTANDING, 2)])
def test_machines_that_fail_are_away_at_every_level_for_their_part_of_the_time(routing: Routing, share: int) -> None:
    """Up for 24 h and away for 10 min: no replay of a level shows it, or one that is all late. Two share the load, of
    which either has enough room."""
    failing = asked(CalendarSpec(hourly=DAY, days=1))
    failures = FailureSpec(mean_time_between=86400.0, recovery=600.0)
    machines = group(
        replace(failing, scenario=replace(failing.scenario, failures=failures, routing=routing)), known(), 1.5
    )
    away = 600 / 87000
    for factor in (0.1, 0.3, 0.4):
        seen = machines.behaviour(factor, 2).attainment["a"]
        assert 1 - seen == pytest.approx(away**share, rel=0.02, abs=3e-4)
        assert seen < small_group().behaviour(factor, 2).attainment["a"] == 1


# What counts as kept


def weighed(**changes: object) -> Horizon:
    """Two days of which an hour is busy, on machines of which none may be missing for long."""
    hourly = (1.0,) * 12 + (3.0,) + (1.0,) * 11
    calendar = CalendarSpec(hourly=hourly, days=2, representatives=6, between=Between.STEP)
    return horizon(asked(replace(calendar, **changes)), CATALOG, known(), created_at=MADE)  # type: ignore[arg-type]


def test_an_hour_that_is_missed_counts_unless_one_asks_of_the_whole() -> None:
    every_hour, every_day, whole = (weighed(keep=keep, rates_are=RatesAre.UNIT) for keep in Keep)
    for found in (every_hour, every_day, whole):
        for s in found.strategies:
            assert s.met == all(p.met_share >= 1 for p in s.slos)
            assert all(p.worst_minute <= p.worst_hour <= p.slo_attainment for p in s.slos)
            assert all(p.slo_attainment_low <= p.slo_attainment for p in s.slos)
    hourly, daily, at_all = ({s.way: s for s in found.strategies} for found in (every_hour, every_day, whole))
    for way, strict in hourly.items():
        assert strict.cost_usd >= daily[way].cost_usd - 1e-9
        assert daily[way].cost_usd >= at_all[way].cost_usd - 1e-9
        assert min(p.worst_hour for p in strict.slos) >= 0.99
    some = weighed(keep=Keep.HOUR, keep_share=0.95, rates_are=RatesAre.UNIT)
    assert all(s.cost_usd <= hourly[s.way].cost_usd + 1e-9 for s in some.strategies)


@pytest.mark.parametrize(
    ("kept", "limits"),
    [
        ({"keep": Keep.DAY}, (7,)),
        ({"keep": Keep.WHOLE}, (7,)),
        ({"keep": Keep.HOUR, "keep_share": 0.95}, (3, 4)),
    ],
)
def test_where_hours_may_miss_no_limit_of_machines_makes_a_way_cheaper(
    kept: dict[str, Any], limits: tuple[int, ...]
) -> None:
    """The limit is one of those that are weighed. Seven machines are the fewest that keep whole days, of
    which 10 % stay free."""
    free = {s.way: s.cost_usd for s in weighed(rates_are=RatesAre.UNIT, **kept).strategies if s.met}
    for most in limits:
        limited = weighed(rates_are=RatesAre.UNIT, autoscaling=AutoscalingSpec(max=most), **kept)
        met = {s.way: s.cost_usd for s in limited.strategies if s.met}
        assert HorizonWay.AUTOSCALED in met
        assert all(usd >= free[way] - 1e-9 for way, usd in met.items())


def test_what_no_machine_has_time_for_is_seen_without_a_replay() -> None:
    machines = small_group()
    factors = np.ones(120)
    course = Course(machines, factors, levels(factors, 2), Keep.HOUR, 1.0)
    enough = ceil(float(course.load_erlangs[0]))

    def never(count: int) -> bool:
        return hopeless(course, timeline(constant(count, 7200.0), 0.0))

    assert not never(enough)
    assert never(enough - 1) is ((enough - 1) / float(course.load_erlangs[0]) < 0.99)


# All of it


def test_one_more_value_lies_between_the_ends_with_95_percent() -> None:
    rng = np.random.default_rng(1)
    tried = 4000
    inside = 0
    for sample in rng.normal(100, 5, size=(tried, 11)):
        low, mean, high = one_more(sample[:10].tolist())
        assert low < mean < high
        inside += low <= sample[10] <= high
    assert inside / tried == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / tried) ** 0.5)
    assert one_more([9, 10, 11]) == pytest.approx(
        (10 - 4.303 * (4 / 3) ** 0.5, 10, 10 + 4.303 * (4 / 3) ** 0.5), rel=1e-3
    )
    assert one_more([7.0]) == (7.0, 7.0, 7.0)


def test_all_ways_side_by_side() -> None:
    calendar = CalendarSpec(hourly=DAY, days=2, representatives=6, spot=SpotSpec(interruptions=0.2 / 3600, price=0.16))
    shares: list[float] = []
    checked = horizon(
        asked(calendar),
        CATALOG,
        known(),
        created_at=MADE,
        check=HorizonWay.FIXED,
        progress=lambda _, share: shares.append(share),
    )
    told = [share for share in shares if share]
    assert told == sorted(told), "the bar begins anew"
    assert told[-1] < 1
    found = horizon(asked(calendar), CATALOG, known(), created_at=MADE)
    assert replace(checked, check=None, wall_s=0.0) == replace(found, wall_s=0.0), "the same each time"
    ways = {s.way: s for s in found.strategies}
    assert list(ways) == [way for way in HorizonWay if way is not HorizonWay.OWN]
    assert sum(found.requests_by_hour) == pytest.approx(found.requests) == pytest.approx(10 * 172_800)
    assert sum(x.minutes for x in found.levels) == 2880
    assert sum(x.minutes * 60 * x.rate_rps for x in found.levels) == pytest.approx(found.requests)
    fixed, scheduled, following, reserved, spot = ways.values()
    assert fixed.gpu_hours == fixed.gpus_max * 48
    assert fixed.cost_usd == pytest.approx(fixed.gpu_hours * 0.526)
    assert following.cost_usd == pytest.approx(following.gpu_hours * 0.526)
    needed = sum(found.gpus_needed_by_hour)
    for s in found.strategies:
        assert s.met
        assert sum(s.gpus_by_hour) == pytest.approx(s.gpu_hours)
        assert s.wasted_gpu_hours >= s.gpu_hours - needed - 1e-6
        assert all(p.worst_minute <= p.worst_hour <= p.slo_attainment <= 1 for p in s.slos)
        assert s.cost_usd >= found.bound_usd
        assert s.cost_usd == pytest.approx(sum(p.usd_per_hour * p.machine_hours for p in s.parts))
    assert fixed.gpu_hours + fixed.short_gpu_hours == pytest.approx(needed + fixed.wasted_gpu_hours)
    assert scheduled.cost_usd <= fixed.cost_usd
    assert reserved.base_gpus + reserved.gpus_max >= 1
    assert reserved.cost_usd < following.cost_usd
    assert spot.cost_usd_range.low <= spot.cost_usd_range.mid <= spot.cost_usd_range.high
    assert found.best == min(found.strategies, key=lambda s: s.cost_usd).way


def uncertain() -> Shelf:
    """The same speeds at the slow end of a band of 95 %, twice as fast in the middle."""
    doubt = Doubt(error_sd=Interpolated((1.0,), (log(2) / 1.645,)), quantile=1.645)
    return shelf(replace(profile("a", T4, 0.15, 0.18), doubt=doubt, predicted=True))


def test_uncertain_speeds_are_at_their_slow_ends_and_the_busiest_minute_holds_in_enough_draws() -> None:
    calendar = CalendarSpec(hourly=DAY, days=1, representatives=2)
    doubt = Doubt(error_sd=Interpolated((1.0,), (0.1,)), quantile=1.645)
    theirs = replace(profile("a", T4, 0.15, 0.18), doubt=doubt)
    predicted, published = (
        shelf(replace(theirs, **how)) for how in ({"predicted": True}, {"latency_evidence": Evidence.PUBLISHED})
    )
    for library, ground in ((predicted, "predicted"), (published, "published"), (known(), "")):
        found = horizon(asked(calendar), CATALOG, library, created_at=MADE)
        assert found.speed_confidence == (0.5 if ground else None)
        assert headline(found).endswith(f" Speeds are {ground}, not measured.") is bool(ground)
        (bound,) = [line for line in answers(found) if line.startswith("No way on offer can cost less than")]
        assert bound.endswith("never idle, with uncertain speeds at their slow ends.") is bool(ground)
        assert any("Uncertain speeds are at the slow 50 % end" in one for one in found.assumptions) is bool(ground)
        assert any("draws of these speeds; 50 % was asked for." in line for line in answers(found)) is bool(ground)
        for s in found.strategies:
            assert (s.draws_kept is not None and s.draws_kept >= 0.5) is bool(ground)
            assert (s.draws > 0) is bool(ground)


def of_busiest_minute(given: Loaded) -> Scenario:
    """The same load at all times, without a calendar."""
    assert given.scenario.calendar is not None
    peak = float(factors_of(given, given.scenario.calendar).max())
    streams = tuple(replace(one, poisson=one.poisson * peak) for one in given.scenario.streams if one.poisson)
    return replace(given.scenario, streams=streams, calendar=None)


def by_chance(**changes: Any) -> Loaded:
    """Ten requests a second at random on average, three times as many for eight hours as in the others."""
    calendar = CalendarSpec(hourly=(1.0,) * 8 + (3.0,) * 8 + (1.0,) * 8, days=1, between=Between.STEP)
    given = asked(calendar)
    streams = (StreamSpec(model="a", poisson=10.0),)
    return replace(given, scenario=replace(given.scenario, streams=streams, **changes))


@pytest.mark.parametrize("headroom", [0.0, 0.1, 0.5])
def test_as_much_stays_free_as_in_a_plan_of_the_busiest_minute(headroom: float) -> None:
    given = by_chance(headroom=headroom)
    wanted = planned(of_busiest_minute(given), known()).recommendation.gpu_count
    ways = {s.way: s for s in horizon(given, CATALOG, known(), created_at=MADE).strategies}
    for way in (HorizonWay.FIXED, HorizonWay.SCHEDULED):
        assert ways[way].met
        assert ways[way].gpus_max == wanted


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_no_way_does_with_less_than_a_plan_of_the_busiest_minute_on_uncertain_speeds(confidence: float) -> None:
    given = by_chance(confidence=confidence)
    wanted = planned(of_busiest_minute(given), uncertain()).recommendation.gpu_count
    (fixed,) = [
        s for s in horizon(given, CATALOG, uncertain(), created_at=MADE).strategies if s.way is HorizonWay.FIXED
    ]
    assert fixed.met
    assert fixed.gpus_max == wanted
    assert fixed.draws_kept is not None
    assert fixed.draws_kept >= confidence


TWO_PREDICTED = """
name: two
models:
  - {name: yolov8s, slo: {latency: 150 ms, attainment: 99 %}}
  - {name: vit_b_16, slo: {latency: 200 ms, attainment: 95 %}}
streams:
  - {model: yolov8s, count: 30, rate: 5 fps}
  - {model: vit_b_16, poisson: 40 rps}
buy: {providers: [gcp], gpus: [T4], max_gpus: 32}
calendar:
  days: 2
  hourly: [0.2, 0.2, 0.2, 0.2, 0.2, 0.4, 0.8, 1.3, 1.7, 1.5, 1.3, 1.3, 1.4, 1.4, 1.4, 1.4, 1.7, 1.9, 1.7, 1.3, 1, 0.7,
    0.5, 0.3]
  representatives: 4
  spot: {interruptions: 0.05 /h, notice: 30 s}
"""


def test_a_spot_machine_that_is_taken_for_a_minute_costs_no_fleet_without_it(tmp_path: Path) -> None:
    """The busiest minute must hold on the machines that are wanted; whether one may be away, SLOs by the hour say."""
    path = tmp_path / "two.yaml"
    path.write_text(TWO_PREDICTED)
    found = horizon(load_scenario(path), CATALOG, find_profiles((), CATALOG.gpus), created_at=MADE)
    ways = {s.way: s for s in found.strategies}
    assert ways[HorizonWay.SPOT].met
    assert ways[HorizonWay.SPOT].interruptions > 0
    assert ways[HorizonWay.SPOT].cost_usd < ways[HorizonWay.FIXED].cost_usd


def test_nothing_is_short_where_the_worst_minute_misses_nothing() -> None:
    for headroom in (0.0, 0.1, 0.3):
        given = by_chance(headroom=headroom)
        for library in (known(), uncertain()):
            for s in horizon(given, CATALOG, library, created_at=MADE).strategies:
                least = min(one.worst_minute - one.slo_attainment_target for one in s.slos)
                assert (s.short_gpu_hours > 0) <= (least < 0)
                assert s.wasted_gpu_hours <= s.gpu_hours


def test_what_keeps_an_autoscaler_from_enough_machines_is_said() -> None:
    calendar = CalendarSpec(hourly=(1.0,) * 12 + (3.0,) * 12, days=1, between=Between.STEP)
    for changes, said in (
        ({"target_utilization": 1.0}, "`calendar.autoscaling.target_utilization: 100 %` asks for at most "),
        ({"max": 2}, "`calendar.autoscaling.max` allows at most 2 machines, of "),
    ):
        scaled = replace(calendar, autoscaling=AutoscalingSpec(**changes))
        found = horizon(by_chance(calendar=scaled, headroom=0.3), CATALOG, known(), created_at=MADE)
        (way,) = [s for s in found.strategies if s.way is HorizonWay.AUTOSCALED]
        assert not way.met
        assert way.reason.startswith(said)
        assert in_short(way, found).endswith(f". It misses: {way.reason}")


def test_levels_say_what_a_day_replayed_frame_by_frame_says() -> None:
    """At a target so high that many frames are late: the reduction must tell how many."""
    calendar = CalendarSpec(hourly=DAY, days=1, representatives=12, keep=Keep.WHOLE)
    given = asked(replace(calendar, autoscaling=AutoscalingSpec(target_utilization=1.0)))
    factors = factors_of(given, calendar)
    on_sale = on_offer(given, known(), float(factors.max()))
    assert given.scenario.calendar is not None
    question = HorizonQuestion(on_sale, given.scenario.calendar, factors, levels(factors, 12), silent)
    machines = group(given, known(), float(factors.max()))
    wishes = followed(question.policy(machines, 1.0), question.course(machines).load_erlangs, 60.0)
    candidate = WayCandidate(HorizonWay.AUTOSCALED, None, machines, Mode.AUTOSCALED, 1.0, lambda: wishes, 0.0)
    way = answered(question, candidate)
    (line,) = way.timelines
    cut = pieces(line, 0.0, 86_400.0)
    assert (cut[0], cut[-1]) == (0.0, 86_400.0)
    assert max(np.diff(cut)) <= 600
    found = check_day(question, way, silent)
    assert found.requests == pytest.approx(10 * 86_400, rel=1e-3)
    assert found.slo_attainment_levels == pytest.approx(found.slo_attainment, abs=0.005)
    assert found.busy_gpu_hours_levels == pytest.approx(found.busy_gpu_hours, rel=0.02)
    course = question.course(machines)
    assert by_levels(course, stretches(line, 1440), 0)[0] == found.slo_attainment_levels
    assert piece(course, 0, 0.0, 60.0, 1).in_time == 0.0


# Recordings


def test_a_constant_recording_has_no_peak_and_a_crowd_has_its_own() -> None:
    rng = np.random.default_rng(1)
    assert (
        sum(len(np.unique(shape_of_counts(rng.poisson(3, 480)).factors)) > 1 for _ in range(40)) <= 5
    )  # 5 % of them, at most
    counts = rng.poisson(3, 480)
    counts[200:220] = rng.poisson(15, 20)
    found = shape_of_counts(counts)
    assert found.factors[200:220].mean() == pytest.approx(counts[200:220].mean(), rel=0.1)
    assert found.peak_low * found.factors.max() <= 15 <= found.peak_high * found.factors.max()
    assert found.factors.sum() == pytest.approx(counts.sum())


def test_a_long_constant_recording_has_no_peak_either() -> None:
    rng = np.random.default_rng(4)
    for rate, days in ((3.0, 4), (0.02, 20)):  # two pieces that are cut apart from each other, and ten
        factors = shape_of_counts(rng.poisson(rate, days * 1440)).factors
        assert factors.max() <= 1.1 * factors.mean()


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_steps_cover_the_recording_and_lose_no_arrival(cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.choice([0.1, 2.0, 50.0], cells))
    edges = blocks(counts)
    assert edges[0] == 0
    assert edges[-1] == cells
    assert np.all(np.diff(edges) > 0)
    assert shape_of_counts(counts).factors.sum() == pytest.approx(counts.sum())


def test_the_smallest_crowd_that_shows_is_found_about_as_often_as_not() -> None:
    """At the least height that pays for its two steps, chance decides; at twice the excess, it is seen."""
    rng = np.random.default_rng(2)
    least = unseen(3 * 5, 3 * 480)

    def seen(times: float) -> float:
        found = 0
        for _ in range(40):
            counts = rng.poisson(3.0, 480)
            counts[200:205] = rng.poisson(3 * times, 5)
            found += shape_of_counts(counts).factors[202] > 3 * (1 + (times - 1) / 2)
        return found / 40

    assert 0.15 <= seen(least) <= 0.85
    assert seen(1 + 2 * (least - 1)) >= 0.9
    assert seen(1 + (least - 1) / 3) <= 0.15


# Against brute force


def test_random_calendars_cost_what_brute_force_finds() -> None:
    """Four calendars of two types of machines: every base of both, at two kinds of price, and every way of the rest."""
    for seed in range(4):
        given = random_calendar(seed)
        found = horizon(given, CATALOG, two_kinds(), created_at=MADE)
        ways = {s.way: s.cost_usd for s in found.strategies if s.met}
        best = min(ways.values(), default=np.inf)
        assert brute_force(given, below_usd=best / 1.01) is None, seed
        assert best >= found.bound_usd
        assert ways[HorizonWay.SCHEDULED] <= ways[HorizonWay.FIXED]
        assert ways[HorizonWay.AUTOSCALED] >= ways[HorizonWay.RESERVED]


def test_models_that_suit_different_machines_get_them() -> None:
    """Model a is far faster on one type, b on the other: the bound gives each its own, and so does the answer."""
    fast, slow = (0.05, 0.05), (0.5, 0.8)
    suited = shelf(
        profile("a", T4, *fast), profile("b", T4, *slow), profile("a", A10G, *slow), profile("b", A10G, *fast)
    )
    buy = BuySpec(providers=("aws",), instances=("g4dn.xlarge", "g5.xlarge"), max_gpus=12)
    made = scenario(
        [model("a", 9.0), model("b", 9.0)], {"a": (7, 1.0), "b": (7, 1.0)}, buy=buy, horizon=60.0, warmup=6.0
    )
    calendar = CalendarSpec(hourly=(1.0,) * 24, days=1)
    found = horizon(loaded(replace(made, calendar=calendar)), CATALOG, suited, created_at=MADE)
    ways = {s.way: s for s in found.strategies if s.met}
    for way in (HorizonWay.FIXED, HorizonWay.SCHEDULED, HorizonWay.RESERVED):
        assert {part.instance: part.machines_max for part in ways[way].parts} == {"g4dn.xlarge": 1, "g5.xlarge": 1}
        assert ways[way].cost_usd >= found.bound_usd


def catalog_of(*prices: tuple[str, str, PriceKind, float]) -> Catalog:
    """Instances of AWS by their name and region, with these prices alone."""
    known = {instance.name: instance for instance in CATALOG.instances if instance.region == "us-east-1"}
    found: dict[tuple[str, str], dict[PriceKind, Price]] = {}
    for name, region, kind, usd_per_hour in prices:
        price = Price(usd_per_hour=usd_per_hour, as_of="2026-07-20", source="made up")
        found.setdefault((name, region), {})[kind] = price
    made = (replace(known[name], region=region, prices=of) for (name, region), of in found.items())
    return replace(CATALOG, instances=tuple(made))


def on_demand(north: float, south: float) -> list[tuple[str, str, PriceKind, float]]:
    """One type of machine in two regions."""
    prices = {"north": north, "south": south}
    return [("g4dn.xlarge", region, PriceKind.ON_DEMAND, usd) for region, usd in prices.items()]


SPOT_SPEC = SpotSpec(interruptions=0.2 / 3600)


def test_base_and_rest_stand_in_one_region() -> None:
    """Spot machines of other regions are cheaper; there they are weighed alone."""
    given = asked(CalendarSpec(hourly=DAY, days=1, spot=SPOT_SPEC))
    found = on_offer(given, known(), 1.5)
    assert len({offer.region for offer in found.offers[Paid.SPOT]}) > 1
    mixed = {way: [pair for pair in pairs(found, way) if pair.base] for way in HorizonWay}
    for way in (HorizonWay.AUTOSCALED, HorizonWay.RESERVED, HorizonWay.SPOT):
        assert mixed[way]
        assert all(pair.base and pair.base.place == pair.rest.place for pair in mixed[way])
    (one,) = {text for text in found.rejections if "us-east-2" in text}
    assert "no on-demand price of it is known: it is compared at spot alone" in one


def test_your_own_machines_stand_beside_any() -> None:
    own = OwnMachine(name="box", gpu="T4", price=0.1)
    given = asked(CalendarSpec(hourly=DAY, days=1, spot=SPOT_SPEC))
    buy = BuySpec(own=(own,), providers=("aws",), instances=("g4dn.xlarge",))
    found = on_offer(replace(given, scenario=replace(given.scenario, buy=buy)), known(), 1.5)
    beside = {pair.rest.region for pair in pairs(found, HorizonWay.OWN) if pair.base and pair.rest.region}
    assert {"us-east-1", "us-east-2"} <= beside
    assert all(found.offers[Paid.OWN][0] in some for some in found.together)


def test_a_price_of_the_calendar_stands_in_every_region_on_offer() -> None:
    catalog = catalog_of(*on_demand(0.5, 0.6), ("g4dn.xlarge", "south", PriceKind.SPOT, 0.2))
    given = asked(CalendarSpec(hourly=DAY, days=1, reserved=ReservedSpec(price=0.3), spot=SPOT_SPEC))
    found = market(given, catalog, known(), 1.5, silent)
    assert [(o.region, o.usd_per_hour) for o in found.offers[Paid.RESERVED]] == [("north", 0.3), ("south", 0.3)]


TWO_TYPES = [("g4dn.xlarge", "north", PriceKind.ON_DEMAND, 0.5), ("g4dn.12xlarge", "north", PriceKind.ON_DEMAND, 4.0)]


@pytest.mark.parametrize(
    ("price", "key"),
    [
        ({"reserved": ReservedSpec(price=1.0)}, "reserved"),
        ({"spot": SpotSpec(interruptions=0.2 / 3600, price=1.0)}, "spot"),
    ],
)
def test_a_price_of_the_calendar_is_of_no_type_where_two_are_on_offer(price: dict[str, Any], key: str) -> None:
    """Also where one of them does the work of the other for less, on demand."""
    given = asked(CalendarSpec(hourly=DAY, days=1, **price))
    given = replace(given, scenario=replace(given.scenario, buy=BuySpec(providers=("aws",))))
    said = rf"calendar\.{key}\.price: \$1\.00/h is of one type of machine, and on offer are .*Name one type in `buy"
    with pytest.raises(ScenarioError, match=said):
        market(given, catalog_of(*TWO_TYPES), known(), 1.5, silent)


def test_a_region_where_all_is_dearer_is_not_weighed() -> None:
    given = asked(CalendarSpec(hourly=DAY, days=1))
    found = market(given, catalog_of(*on_demand(0.5, 0.5)), known(), 1.5, silent)
    assert [offer.region for offer in found.offers[Paid.ON_DEMAND]] == ["north"]


def test_kinds_of_price_of_no_common_region_are_not_put_together() -> None:
    """Of on demand in the north and spot in the south, each is weighed alone; it is said why, and what helps."""
    catalog = catalog_of(
        ("g4dn.xlarge", "north", PriceKind.ON_DEMAND, 0.5), ("g4dn.xlarge", "south", PriceKind.SPOT, 0.2)
    )
    calendar = CalendarSpec(hourly=(1.0,) * 24, days=1, spot=SPOT_SPEC)
    found = horizon(asked(calendar), catalog, known(), created_at=MADE)
    assert {part.region for s in found.strategies if s.way is HorizonWay.SPOT for part in s.parts} == {"south"}
    said = "spot beside on-demand: no region of one provider has both prices. Give `calendar.spot.price`."
    assert said in found.not_compared
    assert found.not_compared == tuple(dict.fromkeys(found.not_compared))


def test_no_way_is_cheaper_than_one_region_with_each_model_on_its_best_machine() -> None:
    """Where each region has the machine that suits one model, the bound is that of a region: no longer each model's."""
    fast, slow = (0.05, 0.05), (0.1, 0.1)
    suited = shelf(
        profile("a", T4, *fast), profile("b", T4, *slow), profile("a", A10G, *slow), profile("b", A10G, *fast)
    )
    buy = BuySpec(providers=("aws",), max_gpus=12)
    made = scenario(
        [model("a", 9.0), model("b", 9.0)], {"a": (7, 1.0), "b": (7, 1.0)}, buy=buy, horizon=60.0, warmup=6.0
    )
    calendar = CalendarSpec(hourly=(1.0,) * 24, days=1)
    given = loaded(replace(made, calendar=calendar))
    bounds = []
    for region in ("north", "south"):
        catalog = catalog_of(
            ("g4dn.xlarge", "north", PriceKind.ON_DEMAND, 0.5), ("g5.xlarge", region, PriceKind.ON_DEMAND, 0.5)
        )
        found = market(given, catalog, suited, 1.0, silent)
        factors = factors_of(given, calendar)
        bounds.append(HorizonQuestion(found, calendar, factors, levels(factors, 2), silent).bound_usd)
    together, apart = bounds
    assert apart == pytest.approx(1.5 * together)  # an erlang each of a and b: 1 + 1 together, 1 + 2 apart


def two_kinds() -> Shelf:
    """One model on two kinds of GPUs: one is faster, and dearer."""
    return shelf(profile("a", T4, 0.15, 0.18), profile("a", A10G, 0.05, 0.10))


def random_calendar(seed: int) -> Loaded:
    """Two time zones, a weekend, a crowd, growth, or some of these."""
    rng = np.random.default_rng(seed)
    hours = np.arange(24)
    day = 0.3 + np.clip(np.sin((hours - rng.integers(0, 24)) / 24 * 2 * np.pi), 0, None)
    if rng.random() < 0.5:  # a second time zone
        day = day + np.roll(day, int(rng.integers(4, 12)))
    if rng.random() < 0.5:  # a crowd
        day[int(rng.integers(0, 24))] *= rng.uniform(2, 4)
    weekly = (1.0, *np.where(rng.random(6) < 0.3, rng.uniform(0.2, 0.8, 6), 1 + rng.uniform(0, 0.3, 6)))
    calendar = CalendarSpec(
        hourly=tuple(float(x) for x in day),
        weekly=tuple(float(x) for x in weekly),
        days=2,
        representatives=8,
        between=Between.STEP if rng.random() < 0.5 else Between.LINEAR,
        autoscaling=AutoscalingSpec(target_utilization=0.7, boot=float(rng.choice([60, 300])), load=30.0),
        reserved=ReservedSpec(),
    )
    buy = BuySpec(providers=("aws",), instances=("g4dn.xlarge", "g5.xlarge"), max_gpus=12)
    count = int(rng.integers(6, 16))
    made = scenario([model("a", 4.5)], {"a": (count, 1.0)}, buy=buy, horizon=60.0, warmup=6.0)
    return loaded(replace(made, calendar=calendar))


def brute_force(given: Loaded, below_usd: float) -> float | None:
    """The least cost of all ways that cost less than this and keep every hour; None where none does.

    Machines, hours and dollars are counted one by one.
    """
    calendar = given.scenario.calendar
    assert calendar is not None
    factors = factors_of(given, calendar)
    on_sale = on_offer(given, two_kinds(), float(factors.max()))
    course_levels = levels(factors, calendar.representatives)
    offers = {
        (offer.instance, paid): offer for paid in (Paid.ON_DEMAND, Paid.RESERVED) for offer in on_sale.offers[paid]
    }
    groups = {instance: on_sale.group(offer) for (instance, _), offer in offers.items()}
    hours = len(factors) // 60

    def kept_by(rest: str, base: str | None, machines: int, ready: Floats) -> bool:
        alone = groups[rest]
        assert alone is not None
        other = groups[base] if base else None
        there = alone.beside(MachineBase(other, machines)) if other and machines else alone
        does = machines * alone.load_erlangs / other.load_erlangs if other else 0.0
        for hour in range(hours):
            asked_for = timely = done = 0.0
            errors: dict[tuple[float, int], float] = {}
            for minute in range(60 * hour, 60 * hour + 60):
                load = float(course_levels.factor[course_levels.of_minute[minute]])
                for count in ready[minute]:
                    seen = there.behaviour(load, int(count))
                    weight = factors[minute] / len(ready[minute])
                    asked_for += weight
                    done += weight * min(1.0, (count + does) / (factors[minute] * alone.load_erlangs))
                    timely += weight * seen.attainment["a"]
                    errors[load, int(count)] = errors.get((load, int(count)), 0.0) + weight * seen.error.get("a", 0.0)
            unsure = 1.96 * sum(e**2 for e in errors.values()) ** 0.5
            # A level is the mean of its minutes: in the busiest, no machine does more than it has time for.
            if min(timely - unsure, done) < 0.99 * asked_for:
                return False
        return True

    ways: list[tuple[float, str, str | None, int, Floats]] = []
    for base, paid in [(None, None), *offers]:
        for machines in range(1, 9) if base else (0,):
            fixed = machines * hours * offers[base, paid].usd_per_hour if base and paid else 0.0
            if fixed >= below_usd:
                continue
            for rest in ("g4dn.xlarge", "g5.xlarge"):
                alone, price = groups[rest], offers[rest, Paid.ON_DEMAND].usd_per_hour
                assert alone is not None
                other = groups[base] if base else None
                does = machines * alone.load_erlangs / other.load_erlangs if other else 0.0
                load = factors * alone.load_erlangs
                rows = [(n, np.full((len(load), 4), n)) for n in range(0 if base else 1, 9)]
                for n, ready in rows:
                    ways.append((fixed + n * hours * price, rest, base, machines, ready))
                paid_s, ready = autoscaler_second_by_second(load, does, calendar.autoscaling, 0 if base else 1)
                ways.append((fixed + paid_s / 3600 * price, rest, base, machines, ready))
    cheaper = sorted((way for way in ways if way[0] < below_usd), key=lambda way: way[0])
    return next((usd for usd, rest, base, machines, ready in cheaper if kept_by(rest, base, machines, ready)), None)


def autoscaler_second_by_second(load: Floats, does: float, spec: AutoscalingSpec, least: int) -> tuple[float, Floats]:
    """Machine-seconds paid, and machines that answer in each quarter of each minute: machine by machine."""
    assert spec.target_utilization is not None
    answering: list[float] = []  # since when each answers, the oldest first
    wishes: list[int] = []
    paid_s, ready = 0.0, []
    start_s = spec.boot + (spec.load or 0.0)
    looks = ceil(spec.scale_down_delay / 15)
    of_minute = load.tolist()
    for look in range(len(load) * 4):
        seen = of_minute[0] if look == 0 else of_minute[(look - 1) // 4]
        want = max(ceil(max(0.0, seen - spec.target_utilization * does) / spec.target_utilization - 1e-9), least)
        if look == 0:
            answering = [0.0] * want
        else:
            wishes.append(want)
            while len(answering) < want:
                answering.append(look * 15 + start_s)
            del answering[max(wishes[-looks:]) :]
        paid_s += 15 * len(answering)
        ready.append(bisect_right(answering, look * 15))
    return paid_s, np.array(ready).reshape(len(load), 4)


def test_another_price_is_no_remedy_with_a_calendar_that_weighs_all() -> None:
    machine = MachineType(provider="aws", region="r", instance="i", gpu="T4", gpu_count=1)
    no = Rejection(
        subject=machine,
        bottleneck=Bottleneck.PRICE,
        observed=0.0,
        limit=0.0,
        unit="",
        why=Statement(code=Code.NO_PRICE, subjects=("on-demand",)),
        remedies=(Statement(code=Code.OTHER_PRICE, subjects=("on-demand", "spot")),),
    )
    assert rejection_remedy(no).startswith("set buy.price to spot, or put")
    assert rejection_remedy(at_its_price(no, {})).startswith("put its on-demand price")
