"""Power: what a busy GPU draws by the pace of its batches, against runs that others measured."""

import csv
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from support import worlds
from support.paths import PUBLIC

from simulator.clock.metrics import summarise
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy
from simulator.world.power import AT_FULL_PACE, AT_REST, busy_w
from simulator.world.workload import Poisson, Stream, Workload

ZEUS = {"summary_power_v100.csv": 250.0, "summary_power_a40.csv": 300.0}
"""Power limits of the GPUs."""
OTHER = ("ncf", "bert_base_uncased")
"""The first waits for its processor; the second is two tasks under one name."""

PROFILE = worlds.profile("m", [0.01, 0.012, 0.014, 0.016])


def test_a_batch_at_full_pace_draws_most_and_a_slower_one_less() -> None:
    watts = [busy_w(worlds.CARD, PROFILE, size) for size in (1, 2, 3, 4)]
    assert watts == sorted(watts)
    span_w = worlds.CARD.tdp_w - worlds.CARD.idle_w
    assert watts[-1] == pytest.approx(worlds.CARD.idle_w + AT_FULL_PACE * span_w)
    paces = np.array([1, 2, 3, 4]) / PROFILE.latency.y / 250
    assert watts == pytest.approx(worlds.CARD.idle_w + span_w * (AT_REST + (AT_FULL_PACE - AT_REST) * paces))


def test_what_was_measured_goes_first() -> None:
    assert busy_w(worlds.CARD, replace(PROFILE, busy_w=123.0), 1) == 123.0


def test_a_gpu_that_is_always_busy_and_lightly_loaded_draws_little() -> None:
    """Batches of one instead of four: all of the time busy, with a quarter or so of what full batches do."""
    service = worlds.service(PROFILE, slo_s=1.0, batch=BatchingPolicy(1))
    seen = simulate(worlds.deployment(service), Workload((Stream("m", Poisson(95)),)), 50.0, seed=1)
    (device,) = summarise(seen, 5.0).devices.values()
    assert device.utilization > 0.85
    assert device.mean_power_w < 0.5 * worlds.CARD.tdp_w


@pytest.mark.skipif(not (PUBLIC / "zeus").is_dir(), reason="the public measurements are not here")
def test_the_line_lies_nearer_to_measured_runs_than_the_power_limit() -> None:
    share, pace = [], []
    for name, limit_w in ZEUS.items():
        runs = defaultdict(list)
        for row in csv.DictReader((PUBLIC / "zeus" / name).read_text(encoding="utf-8").splitlines()):
            if float(row["power_limit"]) == limit_w and row["network"] not in OTHER:
                runs[row["network"], row["optimizer"]].append(
                    (float(row["time_per_epoch"]), float(row["average_power"]))
                )
        for of_one in runs.values():
            quickest = min(time_s for time_s, _ in of_one)
            pace += [quickest / time_s for time_s, _ in of_one]
            share += [(watts - 0.2 * limit_w) / (0.8 * limit_w) for _, watts in of_one]
    line = AT_REST + (AT_FULL_PACE - AT_REST) * np.array(pace)
    assert len(share) > 60
    assert np.sqrt(np.mean((line - share) ** 2)) < 0.15
    assert np.sqrt(np.mean((1 - np.array(share)) ** 2)) > 0.45
