"""Days of load, and machines that follow it: step by step by hand, and against queueing theory."""

from dataclasses import replace
from math import ceil, exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning import CATALOG, T4, Shelf, loaded, model, profile, scenario, shelf

from planner.horizons.answer import Horizon, Way
from planner.horizons.day import by_levels, check_day, piece, pieces
from planner.horizons.demand import frames, levels, minute_factors, recorded, stamped, warped
from planner.horizons.machines import Group, group
from planner.horizons.sections import Between, CalendarSpec, CalendarTrace, Keep, RatesAre, SpotSpec
from planner.horizons.strategies import (
    Course,
    Prices,
    autoscaled,
    backlogged,
    cost,
    hopeless,
    one_more,
    strategy,
    stretches,
    with_base,
)
from planner.horizons.weigh import course_of, horizon, policy_of, prices_of
from planner.load import Loaded
from planner.scenario import BuySpec, Scenario, StreamSpec
from planner.search import silent
from planner.traces import TraceTable
from simulator.autoscaling import Autoscaling, Interruptions, Timeline, constant, follow, keep, wanted
from simulator.curves import Interpolated
from simulator.deployment import Drop, Routing
from simulator.theory import erlang_c
from simulator.workload import FixedRate, Poisson, Stream, Workload

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


def asked(calendar: CalendarSpec) -> Loaded:
    """Ten cameras at 1 fps on T4 machines, of which all kinds of price are known but spot."""
    buy = BuySpec(instances=("g4dn.xlarge",))
    made = scenario([model("a", 4.5)], {"a": (10, 1.0)}, buy=buy, horizon=60.0, warmup=6.0)
    return loaded(replace(made, calendar=calendar))


def known() -> Shelf:
    """150 ms and 180 ms more for each frame: 16 take 3.03 s, so a card serves 5.3 a second."""
    return shelf(profile("a", T4, 0.15, 0.18))


# Load by the minute


def test_a_week_of_cameras_is_907_million_frames() -> None:
    week = CalendarSpec(hourly=DAY, weekly=(1, 1.1, 1, 1.2, 1, 0.5, 0.4))
    factors = minute_factors(asked(week), week)
    cameras = Workload((Stream("a", FixedRate(15.0), 100),))
    assert len(factors) == 7 * 1440
    assert frames(cameras, factors) == pytest.approx(100 * 15 * 604_800)
    assert factors.reshape(7, -1).mean(axis=1) == pytest.approx(
        np.array([1, 1.1, 1, 1.2, 1, 0.5, 0.4]) / np.mean([1, 1.1, 1, 1.2, 1, 0.5, 0.4]), rel=0.02
    )


def test_factors_hold_in_the_middle_of_hours_or_all_through_them() -> None:
    hourly = tuple(float(hour) for hour in range(24))
    step = CalendarSpec(hourly=hourly, days=1, between=Between.STEP, rates_are=RatesAre.UNIT)
    linear = replace(step, between=Between.LINEAR)
    assert minute_factors(asked(step), step).tolist() == [hour for hour in hourly for _ in range(60)]
    straight = minute_factors(asked(linear), linear)
    assert straight[6 * 60 + 29 : 6 * 60 + 31] == pytest.approx([6 - 0.5 / 60, 6 + 0.5 / 60])
    assert straight[7 * 60] == pytest.approx(6.5 + 0.5 / 60)
    assert straight[0] == pytest.approx(23 / 2, abs=0.5)  # between the last hour and the first


def test_rates_are_the_peak_or_the_mean() -> None:
    for kind, reduced in ((RatesAre.PEAK, np.max), (RatesAre.MEAN, np.mean)):
        calendar = CalendarSpec(hourly=DAY, days=2, rates_are=kind)
        assert reduced(minute_factors(asked(calendar), calendar)) == pytest.approx(1.0)


def test_a_recording_is_stretched_repeated_and_counted() -> None:
    times_s = np.concatenate([np.linspace(0, 30, 3000, endpoint=False), np.linspace(30, 60, 9000, endpoint=False)])
    table = TraceTable(times_s, 60.0, "made")
    twice = recorded(table, CalendarTrace(file=Path("t.csv"), lasts=12 * 3600.0), 1)
    assert twice.sum() == pytest.approx(24_000)
    assert twice.reshape(4, 360).sum(axis=1) == pytest.approx([3000, 9000, 3000, 9000], abs=60)
    few = recorded(TraceTable(np.arange(0.0, 240.0), 240.0, "made"), CalendarTrace(file=Path("t.csv")), 1)
    assert few.max() < 1.1 * few.min()  # 240 arrivals in 1,440 minutes are no load of 0 and 1


def test_silent_ends_of_a_recording_are_hours_without_load(tmp_path: Path) -> None:
    times = "".join(f"{1 + n / 12_000:.6f}\n" for n in range(12_000))
    (tmp_path / "t.csv").write_text(f"# from 0 s, lasts 4 s\narrival_s\n{times}")
    calendar = CalendarSpec(trace=CalendarTrace(file=Path("t.csv")), days=1)
    factors = minute_factors(replace(asked(calendar), path=tmp_path / "s.yaml"), calendar)
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
    found = wanted(load, replace(POLICY, target_utilization=target, machines_max=10_000))
    assert load / found <= target * (1 + 1e-6)
    assert found == 1 or load / (found - 1) > target * (1 - 1e-6)


def test_fewer_are_kept_only_after_the_delay() -> None:
    wishes = [(45.0, 8), (60.0, 8), (75.0, 4)]
    assert keep([*wishes, (359.0, 4)], 359.0, 300.0) == 8
    assert keep([*wishes, (360.0, 4)], 360.0, 300.0) == 4


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
    assert follow(POLICY, np.full(1440, 7.0), 60.0, interruptions=taken, seed=7).at_s.tolist() == [
        at for at in days.at_s.tolist() if at < 86_400
    ]


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
    machines = group(loaded(made), CATALOG, shelf(noisy), 1.5, silent)
    assert machines.erlangs == pytest.approx(rate_rps * service_s)
    for factor in (0.25, 0.75, 1.5):
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
    alone = with_base(follow(policy, erlangs, 60.0), machines)
    kept = follow(replace(policy, machines_min=machines), erlangs, 60.0)
    moments = np.linspace(0.0, kept.duration_s, 997, endpoint=False)
    for rows in ("paid", "ready"):
        seen = [getattr(t, rows)[np.searchsorted(t.at_s, moments, side="right") - 1] for t in (alone, kept)]
        assert seen[0].tolist() == seen[1].tolist()
    assert alone.machine_hours() == pytest.approx(kept.machine_hours())


def small_group() -> Group:
    """One model, whatever the calendar."""
    return group(asked(CalendarSpec(hourly=DAY, days=1)), CATALOG, known(), 1.5, silent)


def test_hours_paid_in_vain_and_hours_missed_by_hand() -> None:
    machines = small_group()
    factors = np.ones(120)
    course = Course(machines, factors, levels(factors, 2), np.array([2]))
    at_s = np.array([0.0, 1800.0, 5400.0])
    timeline = Timeline(at_s, np.array([3.0, 4.0, 1.0]), np.array([3.0, 2.0, 1.0]), 7200.0)
    found = strategy(course, Way.AUTOSCALED, [timeline], 0, Prices(2.0))
    assert found.gpu_hours == pytest.approx(1.5 + 4 + 0.5)
    assert found.wasted_gpu_hours == pytest.approx(0.5 + 2)
    assert found.short_gpu_hours == pytest.approx(0.5)
    assert found.cost_usd.mid == pytest.approx(12.0)
    assert found.gpus_by_hour == pytest.approx((3.5, 2.5))
    assert cost(Way.RESERVED, [timeline], 1, Prices(2.0, reserved=1.0)).mid == pytest.approx(2 * 1.0 + 4 * 2.0)
    times = stretches(timeline, 120)
    assert times.lengths_s.sum() == pytest.approx(7200)
    one = machines.behaviour(1.0, 1).attainment["a"]
    three = machines.behaviour(1.0, 3).attainment["a"]
    two = machines.behaviour(1.0, 2).attainment["a"]
    (said,) = found.promises
    assert said.slo_attainment == pytest.approx(three * 0.25 + two * 0.5 + one * 0.25)
    assert said.slo_attainment_low <= said.slo_attainment
    assert said.worst_hour == pytest.approx(min(three * 0.5 + two * 0.5, two * 0.5 + one * 0.5))
    assert said.worst_minute == pytest.approx(min(three, two, one))


def test_behind_a_backlog_all_is_late_until_it_is_worked_off() -> None:
    machines = replace(small_group(), erlangs=1.0)
    factors = np.array([3.0, 1.0, 1.0, 1.0])
    course = Course(machines, factors, levels(factors, 2), np.array([1, 3]))
    # One minute of one erlang too much leaves 60 erlang-seconds; one erlang to spare takes a minute for them.
    late_share = backlogged(course, stretches(constant(2, 240.0), 4))
    assert late_share.tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])


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
            assert s.met == all(p.kept_share >= 1 for p in s.promises)
            assert all(p.worst_minute <= p.worst_hour <= p.slo_attainment for p in s.promises)
            assert all(p.slo_attainment_low <= p.slo_attainment for p in s.promises)
    hourly, daily, at_all = ({s.way: s for s in found.strategies} for found in (every_hour, every_day, whole))
    for way, strict in hourly.items():
        assert strict.cost_usd.mid >= daily[way].cost_usd.mid - 1e-9
        assert daily[way].cost_usd.mid >= at_all[way].cost_usd.mid - 1e-9
        assert min(p.worst_hour for p in strict.promises) >= 0.99
    some = weighed(keep=Keep.HOUR, keep_share=0.95, rates_are=RatesAre.UNIT)
    assert all(s.cost_usd.mid <= hourly[s.way].cost_usd.mid + 1e-9 for s in some.strategies)


def test_no_base_of_another_size_is_cheaper_and_kept() -> None:
    """Every base by itself, alone and below machines that follow the load: none is kept for less than the answer."""
    given = asked(CalendarSpec(hourly=DAY, days=1, representatives=6))
    assert given.scenario.calendar is not None
    found = horizon(given, CATALOG, known(), created_at=MADE)
    factors = minute_factors(given, given.scenario.calendar)
    machines = group(given, CATALOG, known(), float(factors.max()), silent)
    course = course_of(machines, factors, 6, silent)
    policy = policy_of(machines, given.scenario.calendar.autoscaling)
    prices, _ = prices_of(machines, CATALOG, given.scenario.calendar)
    following = autoscaled(course, policy)
    tried = [
        strategy(course, Way.RESERVED, [line], n, prices)
        for n in range(1, policy.machines_max + 1)
        for line in (constant(n, course.duration_s), with_base(following, n))
    ]
    best = min((s for s in tried if s.met), key=lambda s: s.cost_usd.mid)
    (answered,) = [s for s in found.strategies if s.way is Way.RESERVED]
    assert answered.cost_usd.mid == pytest.approx(best.cost_usd.mid)


def test_what_no_machine_has_time_for_is_seen_without_a_replay() -> None:
    machines = small_group()
    factors = np.ones(120)
    course = Course(machines, factors, levels(factors, 2), np.array([2]))
    enough = ceil(float(course.load_erlangs()[0]))
    assert not hopeless(course, constant(enough, 7200.0), Keep.HOUR, 1.0)
    assert hopeless(course, constant(enough - 1, 7200.0), Keep.HOUR, 1.0) is (
        (enough - 1) / float(course.load_erlangs()[0]) < 0.99
    )


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
    found = horizon(asked(calendar), CATALOG, known(), created_at=MADE)
    ways = {s.way: s for s in found.strategies}
    assert list(ways) == list(Way)
    assert sum(found.requests_by_hour) == pytest.approx(found.requests) == pytest.approx(10 * 172_800)
    assert sum(x.minutes for x in found.levels) == 2880
    assert sum(x.minutes * 60 * x.rate_rps for x in found.levels) == pytest.approx(found.requests)
    fixed, following, reserved, spot = (ways[way] for way in Way)
    assert fixed.gpu_hours == fixed.gpus_max * 48
    assert fixed.cost_usd.mid == pytest.approx(fixed.gpu_hours * 0.526)
    assert following.cost_usd.mid == pytest.approx(following.gpu_hours * 0.526)
    needed = sum(found.gpus_needed_by_hour)
    for s in found.strategies:
        assert sum(s.gpus_by_hour) == pytest.approx(s.gpu_hours)
        assert s.wasted_gpu_hours >= s.gpu_hours - needed - 1e-6
        assert all(p.worst_hour <= p.slo_attainment <= 1 for p in s.promises)
    assert fixed.met
    assert fixed.gpu_hours + fixed.short_gpu_hours == pytest.approx(needed + fixed.wasted_gpu_hours)
    assert reserved.base_gpus >= 1
    assert reserved.cost_usd.mid < following.cost_usd.mid
    assert spot.interruptions > 0
    assert spot.cost_usd.low <= spot.cost_usd.mid <= spot.cost_usd.high
    assert found.best == min((s for s in found.strategies if s.met), key=lambda s: s.cost_usd.mid).way
    again = horizon(asked(calendar), CATALOG, known(), created_at=MADE)
    assert replace(again, wall_s=0.0) == replace(found, wall_s=0.0)


def test_levels_say_what_a_day_replayed_frame_by_frame_says() -> None:
    """At a target so high that many frames are late: the reduction must tell how many."""
    calendar = CalendarSpec(hourly=DAY, days=1, representatives=12)
    given = asked(replace(calendar, autoscaling=replace(calendar.autoscaling, target_utilization=1.0)))
    factors = minute_factors(given, calendar)
    machines = group(given, CATALOG, known(), float(factors.max()), silent)
    course = course_of(machines, factors, 12, silent)
    assert given.scenario.calendar is not None
    timeline = autoscaled(course, policy_of(machines, given.scenario.calendar.autoscaling))
    cut = pieces(timeline, 0.0, 86_400.0)
    assert (cut[0], cut[-1]) == (0.0, 86_400.0)
    assert max(np.diff(cut)) <= 600
    found = check_day(course, Way.AUTOSCALED, timeline, silent)
    assert found.requests == pytest.approx(10 * 86_400, rel=1e-3)
    assert found.slo_attainment_levels == pytest.approx(found.slo_attainment, abs=0.005)
    assert found.busy_gpu_hours_levels == pytest.approx(found.busy_gpu_hours, rel=0.02)
    assert by_levels(course, stretches(timeline, 1440), 0)[0] == found.slo_attainment_levels
    assert piece(course, 0, 0.0, 60.0, 1)[2] == 0.0
