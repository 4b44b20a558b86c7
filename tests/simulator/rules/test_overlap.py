"""What holds each other up on a GPU, against work done piece by piece, runs of two processes, and measured pairs."""

import csv
from collections.abc import Iterator
from math import inf, log
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import DATA, ROOT

from simulator.rules.overlap import Overlap, beside_process

times = st.floats(0.001, 1.0)


def piece_by_piece(batch_s: float, begins_s: float, load_s: float, k: float) -> tuple[float, float]:
    """When a batch that begins at 0 and a load that begins later end, if both go on at 1/k of the pace together."""
    now_s, left = 0.0, {"batch": batch_s, "load": load_s}
    ended = {"batch": inf, "load": inf}
    while left:
        running = [name for name in left if name == "batch" or now_s >= begins_s]
        pace = 1 / k if len(running) == 2 else 1.0
        next_s = min([now_s + left[name] / pace for name in running] or [inf])
        until_s = min(next_s, begins_s) if now_s < begins_s else next_s
        for name in running:
            left[name] -= (until_s - now_s) * pace
            if left[name] < 1e-12:
                ended[name] = until_s
                del left[name]
        now_s = until_s
    return ended["batch"], ended["load"]


@given(batch_s=times, share=st.floats(0.0, 1.2), load_s=times, ks=st.tuples(st.floats(1, 2), st.floats(1, 2)))
def test_both_end_when_their_work_is_done(batch_s: float, share: float, load_s: float, ks: tuple[float, float]) -> None:
    begins_s, overlap = share * batch_s, Overlap()
    overlap.begin_batch(0.0, ks[0])
    alone_s = begins_s + load_s

    def load_ends_s() -> float:
        return alone_s + overlap.end_load(alone_s)

    if begins_s < batch_s:
        overlap.begin_load(begins_s, ks[1])
        first_s = load_ends_s() if alone_s <= batch_s else None
        batch_ends_s = batch_s + overlap.end_batch(batch_s)
        ends_s = batch_ends_s, first_s or load_ends_s()
    else:
        batch_ends_s = batch_s + overlap.end_batch(batch_s)
        overlap.begin_load(begins_s, ks[1])
        ends_s = batch_ends_s, load_ends_s()
    assert ends_s == pytest.approx(piece_by_piece(batch_s, begins_s, load_s, max(ks)))


def test_a_load_that_outlasts_a_batch_is_held_up_by_the_next_too() -> None:
    """At k 2 nothing is gained: 3 s of load and two batches of 1 s that begin as soon as they may end after 5 s."""
    overlap = Overlap()
    overlap.begin_batch(0.0, 1.0)
    overlap.begin_load(0.0, 2.0)
    first_s = 1 + overlap.end_batch(1.0)
    overlap.begin_batch(first_s, 1.0)
    second_s = first_s + 1 + overlap.end_batch(first_s + 1)
    assert (first_s, second_s) == (2.0, 4.0)
    assert 3 + overlap.end_load(3.0) == 5.0


# Processes


def together(
    rest_s: tuple[float, float], kernels_s: tuple[float, float], batches: int, rng: np.random.Generator
) -> Iterator[list[float]]:
    """Times of batches of two processes, each in turn at rest and on the GPU, which gives both half its pace."""
    resting = [True, True]
    left_s = [rng.exponential(rest_s[0]), rng.exponential(rest_s[1])]
    began_s, now_s, took_s = [0.0, 0.0], 0.0, [[], []]
    while min(map(len, took_s)) < batches:
        pace = 0.5 if not any(resting) else 1.0
        paces = [1.0 if at_rest else pace for at_rest in resting]
        step_s, who = min((left_s[i] / paces[i], i) for i in (0, 1))
        left_s = [left_s[i] - step_s * paces[i] for i in (0, 1)]
        now_s += step_s
        if not resting[who]:
            took_s[who].append(now_s - began_s[who])
            began_s[who] = now_s
        resting[who] = not resting[who]
        left_s[who] = rng.exponential((rest_s if resting[who] else kernels_s)[who])
    yield from took_s


@pytest.mark.parametrize(
    ("rest_s", "kernels_s"), [((0.7, 0.2), (0.3, 0.8)), ((0.5, 0.5), (0.5, 0.5)), ((0.01, 5.0), (1.0, 2.0))]
)
def test_two_processes_take_what_theory_says(rest_s: tuple[float, float], kernels_s: tuple[float, float]) -> None:
    """Within 99.9 % of the mean of twenty runs, each of five hundred batches and more."""
    rng = np.random.default_rng(3)
    busy = [k / (k + r) for r, k in zip(rest_s, kernels_s, strict=True)]
    runs = [[fmean(taken) for taken in together(rest_s, kernels_s, 500, rng)] for _ in range(20)]
    for process in (0, 1):
        means_s = [run[process] / (rest_s[process] + kernels_s[process]) for run in runs]
        half = 3.88 * stdev(means_s) / 20**0.5  # Student's t, 19 degrees of freedom
        assert fmean(means_s) == pytest.approx(beside_process(*busy), abs=half)


def pairs() -> list[tuple[str, str, str, float]]:
    """GPU, two jobs, and the mean share of their speed alone that they keep beside each other.

    Two trainings on one GPU: Narayanan et al., Gavel (OSDI 2020), github.com/stanford-futuredata/gavel at c4fa400,
    scheduler/simulation_throughputs.json.
    """
    with (DATA / "training-pairs.csv").open(encoding="utf-8", newline="") as file:
        return [
            (row["gpu"], row["job_a"], row["job_b"], (float(row["share_a"]) + float(row["share_b"])) / 2)
            for row in csv.DictReader(file)
        ]


def errors(gpu: str) -> tuple[float, float]:
    """Mean error of pairs of different jobs on a GPU, as a share: by how busy each is, and by halving.

    How busy a job is, it shows beside another of its kind: 1 / (1 + busy^2) of its speed is left.
    """
    seen = [(a, b, kept) for kind, a, b, kept in pairs() if kind == gpu]
    busy = {a: min(1.0, max(0.0, 1 / kept - 1) ** 0.5) for a, b, kept in seen if a == b}
    others = [(busy[a], busy[b], kept) for a, b, kept in seen if a != b and {a, b} <= busy.keys()]
    assert len(others) > 50
    predicted = fmean(abs(log(1 / beside_process(one, other) / kept)) for one, other, kept in others)
    return predicted, fmean(abs(log(0.5 / kept)) for *_, kept in others)


@pytest.mark.parametrize("gpu", ["K80", "P100", "V100"])
def test_pairs_that_were_measured_keep_about_what_is_predicted(gpu: str) -> None:
    """Nearer than by halving, and the page says how near."""
    predicted, halved = errors(gpu)
    assert predicted < halved
    page = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    assert f"| {gpu} | {predicted:.0%} | {halved:.0%} |".replace("%", " %") in page
