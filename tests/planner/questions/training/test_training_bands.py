"""Bands of a training's time: what is in doubt widens them, whatever limits the run."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.paths import SCENARIOS

from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.questions.training.answer.option import TrainingOption, TrainingPlan
from planner.questions.training.closed_forms import (
    BACKWARD_SHARE,
    ended_within_s,
    interruptions_spread_s,
    with_interruptions_s,
)
from planner.questions.training.plan import train
from planner.questions.training.reading import load_training
from planner.questions.training.speed import Limit
from planner.show.text.training import chance_in_time, interruption_line

HOUR = 3600.0
CATALOG = load_catalog()
LIBRARY = find_profiles((), CATALOG.gpus)
BOXES = """\
model: {transformer: {layers: 12, hidden: 768, heads: 12, sequence: 512, vocabulary: 30522}}
data: {tokens: 3.3e9}
train: {epochs: 10, global_batch: 256, precision: amp, optimizer: adam}
counts: [8]
buy: {own: [{name: box, gpu: RTX4090, gpu_count: 4, count: 4, price: $1.2/h}]}
network: {bandwidth: 10 Gb/s}
"""


@pytest.fixture
def boxes(tmp_path: Path) -> Path:
    path = tmp_path / "boxes.yaml"
    path.write_text(BOXES)
    return path


def option(path: Path, *overrides: str) -> TrainingOption:
    (found,) = train(load_training(path, overrides), CATALOG, LIBRARY).options
    return found


@cache
def resnet50(*overrides: str) -> TrainingPlan:
    return train(load_training(SCENARIOS / "training" / "resnet50.yaml", overrides), CATALOG, LIBRARY)


# Links


def test_links_are_added_to_computing_at_each_end(boxes: Path) -> None:
    """Two machines send 435.5 MB at 1.25 GB/s, of which two thirds of the computing hide a part at each end."""
    slow = option(boxes)
    computing = option(boxes, "network.bandwidth=100 TB/s").step_range_s
    params = 12 * 12 * 768**2 * (1 + 13 / (12 * 768)) + (30522 + 512) * 768
    ring_s = 4 * params / 1.25e9
    assert ring_s == pytest.approx(0.348, rel=0.01)
    assert slow.bottleneck is Limit.NETWORK
    assert slow.step_range_s
    assert computing
    for end, own_s, faster in zip(slow.step_range_s.ends, computing.ends, (1.1, 1.0, 1 / 1.1), strict=True):
        # Inside a machine 4 GPUs sum up the same bytes first, over links of 32 GB/s, which takes a few hundredths.
        assert 0 < end - (own_s + ring_s / faster - BACKWARD_SHARE * own_s) < 0.05


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_the_middle_lies_between_the_ends_where_copies_share_their_states(boxes: Path, zero: int) -> None:
    for gbits in (1, 10, 100, 1000, 10_000):
        time_s = option(boxes, f"parallel.zero={zero}", f"network.bandwidth={gbits} Gb/s").time_s
        assert time_s.low < 0.999 * time_s.mid
        assert time_s.mid < 0.999 * time_s.high


@pytest.mark.parametrize("of_middle", [0.98, 1.02])
def test_nobody_is_sure_of_a_deadline_near_the_middle(boxes: Path, of_middle: float) -> None:
    found = option(boxes)
    near = option(boxes, f"deadline={of_middle * found.time_s.mid:.0f} s")
    assert near.deadline_probability
    assert 0.3 < near.deadline_probability < 0.7
    assert chance_in_time(near) not in ("0 %", "100 %")


@pytest.mark.parametrize("given", [
    ("parallel.zero=3",), ("parallel.tensor=8",), ("parallel={tensor: 4, pipeline: 2}", "train.accumulation=8"),
])  # fmt: skip
def test_the_middle_lies_between_the_ends_over_links_that_are_listed(boxes: Path, given: tuple[str, ...]) -> None:
    """Also where a provider lists no bursts, and inside of a machine: messages err as much as a stated speed."""
    model = "model={transformer: {layers: 32, hidden: 4096, heads: 32, sequence: 2048, params: 6.74e9}}"
    bought = ("buy={providers: [gcp, azure, aws], max_gpus: 64}", "network={}", "counts=[8, 64]")
    plan = train(load_training(boxes, (model, *bought, *given)), CATALOG, LIBRARY)
    assert sum(o.bottleneck is Limit.NETWORK for o in plan.options) > 10
    for o in plan.options:
        assert o.time_s.low * 1.05 < o.time_s.mid < o.time_s.high / 1.05


# Whatever limits it


@pytest.mark.parametrize("given", [
    ("data.storage=0.05GB/s",),
    ("data.loader={workers: 1, rate: 50}",),
    ("data.storage=0.05GB/s", "speed=[{gpu: H100, step: 100 ms}]"),
    ("network.bandwidth=0.1 Gb/s",),
])  # fmt: skip
@pytest.mark.parametrize("price", ["on-demand", "spot"])
def test_no_end_meets_the_middle(given: tuple[str, ...], price: str) -> None:
    """What a scenario says of storage, loader and network is no more exact than a speed that it states."""
    plan = resnet50("goodput=90%", "buy.gpus=[H100, L4]", f"prices=[{price}]", *given)
    assert {o.bottleneck for o in plan.options} & {Limit.STORAGE, Limit.LOADER, Limit.NETWORK}
    for o in plan.options:
        assert o.time_s.low * 1.01 < o.time_s.mid < o.time_s.high / 1.01
        assert o.cost_usd.low < o.cost_usd.mid < o.cost_usd.high


# Interruptions


def played_s(work_s: float, between_s: float, restart_s: float, runs: int) -> np.ndarray:
    """Times of runs of one part, without a write: each try ends at the next interruption, or with the work."""
    random = np.random.default_rng(1)
    times_s = np.zeros(runs)
    for run in range(runs):
        needed_s = work_s
        while (fails_s := random.exponential(between_s)) < needed_s:
            times_s[run] += fails_s
            needed_s = work_s + restart_s
        times_s[run] += needed_s
    return times_s


@pytest.mark.parametrize("between_s", [2 * HOUR, 6 * HOUR, 40 * HOUR])
def test_the_spread_of_interrupted_runs_is_that_of_runs_played_out(between_s: float) -> None:
    """A checkpoint would take ten days: runs have one part."""
    work_s, write_s, restart_s, runs = 2 * HOUR, 240 * HOUR, 0.2 * HOUR, 20_000
    times_s = played_s(work_s, between_s, restart_s, runs)
    away = times_s - times_s.mean()
    error = np.sqrt(np.mean(away**4) - np.mean(away**2) ** 2) / runs**0.5 / (2 * times_s.std())
    found_s = interruptions_spread_s(work_s, between_s, write_s, restart_s)
    assert found_s == pytest.approx(times_s.std(), abs=4 * error)
    # Of runs that meet no interruption the share is exact; that of the others is a normal distribution's.
    for share in (0.1, 0.9):
        ended = np.mean(times_s <= ended_within_s(share, work_s, between_s, write_s, restart_s) + 1e-6)
        assert ended >= share - 0.05
    none = np.exp(-work_s / between_s)
    assert ended_within_s(0.999 * none, work_s, between_s, write_s, restart_s) == work_s
    assert ended_within_s(none + 0.9 * (1 - none), work_s, between_s, write_s, restart_s) > work_s


@pytest.mark.parametrize("work_h", [0.01, 1.0, 30.0])
def test_more_of_the_runs_need_more_time(work_h: float) -> None:
    given = (work_h * HOUR, 8 * HOUR, 60.0, 300.0)
    ends = [ended_within_s(share, *given) for share in (0.01, 0.1, 0.5, 0.9, 0.99)]
    assert ends == sorted(ends)
    assert work_h * HOUR <= ends[0]
    assert ends[1] <= with_interruptions_s(*given)


def test_runs_that_nothing_interrupts_or_that_never_end_have_no_spread() -> None:
    assert ended_within_s(0.9, HOUR, float("inf"), 60.0, 300.0) == HOUR
    assert ended_within_s(0.9, HOUR, 60.0, 600.0, 36_000.0) == float("inf")


def test_an_assumed_rate_of_interruptions_widens_the_band_more_than_a_stated_one() -> None:
    """At the same middle: the number of interruptions is in doubt in both, their rate in one."""
    asked = ("data.storage=0.05GB/s", "goodput=90%", "buy={gpus: [H100], providers: [nebius]}", "counts=[1]")
    day = "interruptions={spot_mean_time_between: 24 h}"
    never = "interruptions={spot_mean_time_between: 8000 days}"
    plans = [resnet50(*asked, "prices=[spot]", *more) for more in ((), (day,), (never,))]
    assumed, stated, rare = (plan.options[0] for plan in plans)
    assert assumed.time_s.mid == stated.time_s.mid
    widths = [o.time_s.high / o.time_s.low for o in (assumed, stated, rare)]
    assert widths[0] > 1.01 * widths[1] > 1.01 * widths[2]
    assert assumed.interruptions
    assert "interrupted every 24 h (6 h to 4 days, assumed; " in interruption_line(assumed, assumed.interruptions)
    assert stated.interruptions
    assert "interrupted every 24 h (60 s to write" in interruption_line(stated, stated.interruptions)
