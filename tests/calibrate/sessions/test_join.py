"""Joining: sessions of other days, GPUs and hosts in one profile, how far they differ apart from their own spread."""

import json
from dataclasses import replace
from math import exp, expm1, log1p, sqrt
from pathlib import Path

import numpy as np
import pytest
from support.calibrated import PROVENANCE, TIMES_S, WEIGHTS, outcomes, session

from calibrate.assembling.runs import counted_runs
from calibrate.io.points import Point, PointOutcome, Status, What
from calibrate.library.lookup import SHIPPED, find_profiles
from calibrate.sessions.join import _pooled_point, join
from calibrate.sessions.spread import SessionTimes, spread_of
from calibrate.sweep import assemble
from calibrate.sweep.journal import Header
from planner.catalog.catalog import load_catalog
from simulator.errors import InputError

GPUS = load_catalog().gpus


def sessions(tmp_path: Path, *factors: float) -> list[Path]:
    return [session(tmp_path / str(number), factor, number) for number, factor in enumerate(factors)]


def test_sessions_are_one_profile_of_their_usual_times_and_how_far_they_differ(tmp_path):
    factors = (0.8, 1.0, 1.25)
    (joined,) = join(sessions(tmp_path, *factors), tmp_path / "out")
    (profile,) = find_profiles([tmp_path / "out"], GPUS).for_model("net")
    mean = float(np.mean(factors))  # the geometric mean is 1
    for batch, time_s in TIMES_S.items():
        assert profile.latency(batch) == pytest.approx(time_s * mean, rel=0.03)
    variance = np.var(np.log(factors), ddof=1) * (1 + 1 / 3)
    assert profile.session_cv == pytest.approx(sqrt(expm1(variance)), rel=0.03), "mean of 40 runs errs by 0.3 %"
    assert profile.latency_cv < 0.04, "the spread within a session is its own"
    assert joined.spread is not None
    assert list(joined.spread.cv) == ["sessions"]
    assert joined.spread.levels == pytest.approx(factors, rel=0.02)
    assert profile.load(WEIGHTS) == pytest.approx(0.0105 * mean, rel=0.02)
    assert profile.as_of == "2026-07-22"


def test_what_sessions_measured_is_kept_so_that_more_can_join(tmp_path):
    first, second, third = sessions(tmp_path, 1.0, 1.1, 0.95)
    join([first, second], tmp_path / "two")
    join([tmp_path / "two", third], tmp_path / "three")
    join([first, second, third], tmp_path / "at-once")
    after, at_once = (json.loads((tmp_path / name / "T4" / "net.json").read_text()) for name in ("three", "at-once"))
    assert after["latency_s"] == at_once["latency_s"]
    assert after["session_cv"] == at_once["session_cv"]
    one = json.loads((first / "T4" / "net.json").read_text())["measured"]["points"]
    assert one in [kept["points"] for kept in at_once["measured"]["sessions"]]


def test_what_was_measured_elsewhere_stays_so(tmp_path):
    first, second = sessions(tmp_path, 1.0, 1.1)
    for name, key in (("net.json", "memory_evidence"), ("device.json", "evidence")):
        raw = json.loads((file := first / "T4" / name).read_text())
        file.write_text(json.dumps({**raw, key: "measured-elsewhere"}))
    join([first, second], tmp_path / "out")
    profile, device = (json.loads((tmp_path / "out" / "T4" / name).read_text()) for name in ("net.json", "device.json"))
    assert (profile["memory_evidence"], device["evidence"]) == ("measured-elsewhere", "measured-elsewhere")
    assert profile["latency_evidence"] == "fitted"


def test_of_memory_the_most_that_was_seen_counts(tmp_path):
    first = session(tmp_path / "1", 1.0, 1)
    header = Header(provenance=PROVENANCE | {"date": "2026-07-30T12:00:00+00:00"}, seed=1)
    assemble.write(outcomes(1.0, 9, held=25e6), header, tmp_path / "2")
    join([first, tmp_path / "2"], tmp_path / "out")
    (profile,) = find_profiles([tmp_path / "out"], GPUS).for_model("net")
    assert profile.workspace(16) == pytest.approx(25e6 * 16)


def test_cards_and_drivers_may_differ_where_figures_agree_and_are_named(tmp_path):
    gpus = [session(tmp_path / str(n), 1 + n / 20, n, gpu_uuid_sha256=f"gpu-{n}", driver=f"570.{n}") for n in range(3)]
    (joined,) = join(gpus, tmp_path / "out")
    assert joined.differs == {"gpu_uuid_sha256": ["gpu-0", "gpu-1", "gpu-2"], "driver": ["570.0", "570.1", "570.2"]}
    assert joined.spread is not None
    assert list(joined.spread.cv) == ["gpus"], "one session on each GPU cannot tell both apart"
    slow = session(tmp_path / "slow", 1.5, 7, gpu_uuid_sha256="gpu-7")
    with pytest.raises(InputError, match="gpu_uuid_sha256"):
        join([*gpus, slow], tmp_path / "other")


@pytest.mark.parametrize(("key", "value"), [("torch", "2.9.0"), ("power_limit_w", 40.0)])
def test_what_moves_figures_must_agree(tmp_path, key, value):
    first, other = session(tmp_path / "1", 1.0, 1), session(tmp_path / "2", 1.0, 2, **{key: value})
    with pytest.raises(InputError, match=key):
        join([first, other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_session_counts_once_and_no_other_profile_is_replaced(tmp_path):
    first, second = sessions(tmp_path, 1.0, 1.1)
    with pytest.raises(InputError, match="Name each once"):
        join([first, first], tmp_path / "out")
    with pytest.raises(InputError, match="Name another --out"):
        join([first, second], first)
    join([first, second], tmp_path / "out")
    join([first, second], tmp_path / "out")  # what was joined may be joined anew
    for folder in (tmp_path / "absent", tmp_path / "out" / "T4" / "none"):
        with pytest.raises(InputError, match="is not a directory"):
            join([folder], tmp_path / "other")


def test_a_joined_profile_takes_no_further_points(tmp_path):
    join(sessions(tmp_path, 1.0, 1.1), tmp_path / "out")
    before = (tmp_path / "out" / "T4" / "net.json").read_bytes()
    with pytest.raises(assemble.JournalError, match="profiles join"):
        session(tmp_path / "out", 1.0, 5)
    assert (tmp_path / "out" / "T4" / "net.json").read_bytes() == before


def test_a_model_of_one_session_is_taken_as_it_is(tmp_path):
    (only,) = sessions(tmp_path, 1.0)
    (joined,) = join([only], tmp_path / "out")
    assert joined.spread is None
    assert (tmp_path / "out" / "T4" / "net.json").read_bytes() == (only / "T4" / "net.json").read_bytes()


def test_levels_are_told_apart():
    """On many hosts with two GPUs each and two sessions on each, each level's spread comes out as it was drawn.

    With 300 hosts a variance is known to root(2/300) = 8 %, so a spread to 4 %: three times that is asked. The means
    within add less than a tenth of that.
    """
    draw, drawn = np.random.default_rng(3), {"hosts": 0.10, "gpus": 0.06, "sessions": 0.04}
    seen = []
    for host in range(300):
        of_host = drawn["hosts"] * draw.standard_normal()
        for gpu in range(2):
            of_gpu = of_host + drawn["gpus"] * draw.standard_normal()
            for _ in range(2):
                level = of_gpu + drawn["sessions"] * draw.standard_normal()
                mean_s = {batch: batch * exp(level + 0.01 * draw.standard_normal()) for batch in (1, 2)}
                seen.append(SessionTimes(host=f"{host}", gpu=f"{gpu}", mean_s=mean_s, cv={1: 0.01, 2: 0.01}))
    found = spread_of(seen)
    assert {level: found.cv[level] for level in drawn} == pytest.approx(drawn, rel=0.12)
    assert found.session_cv == pytest.approx(sqrt(expm1(sum(cv**2 for cv in drawn.values()))), rel=0.12)


def test_a_session_on_another_host_is_as_far_off_as_few_hosts_say():
    """Two hosts of five sessions: their mean errs by half of a host's variance, not by a tenth.

    A variance from two hosts has a relative spread of root(2), so the mean of 1,500 worlds one of 3.7 %: thrice that.
    """
    draw, worlds = np.random.default_rng(7), 1500
    host_sd, session_sd = 0.08, 0.02
    said = []
    for _ in range(worlds):
        levels = host_sd * draw.standard_normal((2, 1)) + session_sd * draw.standard_normal((2, 5))
        seen = [
            SessionTimes(host=f"{host}", gpu="g", mean_s={1: exp(level)}, cv={1: 1e-6})
            for host, of_host in enumerate(levels)
            for level in of_host
        ]
        said.append(log1p(spread_of(seen).session_cv ** 2))
    true = host_sd**2 * (1 + 1 / 2) + session_sd**2 * (1 + 1 / 10)
    assert np.mean(said) == pytest.approx(true, rel=3 * 0.037)


def test_what_held_the_clock_down_in_one_session_is_a_doubt_of_all(tmp_path):
    capped = {"slow_reasons": {"sw_power_cap": 0.4}}
    folders = []
    for number, details in enumerate((capped, {}, {})):
        header = Header(provenance=PROVENANCE | {"date": f"2026-07-2{number}T12:00:00+00:00"}, seed=1)
        taken = [
            replace(one, details=details) if one.point.what is What.LATENCY else one for one in outcomes(1.0, number)
        ]
        assemble.write(taken, header, tmp_path / f"{number}")
        folders.append(tmp_path / f"{number}")
    join(folders, tmp_path / "out")
    (first, last, joined) = (
        json.loads((folder / "T4" / "net.json").read_text())["doubts"]
        for folder in (folders[0], folders[2], tmp_path / "out")
    )
    assert len(first) == len(joined) > len(last)


def noisy(draw: np.random.Generator, share: float) -> list[float]:
    """Runs of one batch of which a share is held up, some for a moment, some for long."""
    runs = 0.01 * draw.lognormal(0, draw.uniform(0.01, 0.5)) * draw.lognormal(0, 0.05, draw.integers(20, 300))
    held = draw.random(len(runs)) < share
    return list(np.where(held, runs * draw.choice([1.8, 100.0], len(runs)), runs))


@pytest.mark.parametrize("seed", range(200))
def test_what_sessions_become_lies_between_them(seed):
    """Runs that are held up in a tenth of a session are how the device is; pooled with quiet ones they still are."""
    draw = np.random.default_rng(seed)
    found = []
    for number in range(draw.integers(2, 5)):
        samples = {
            "wall_s": noisy(draw, draw.uniform(0, 0.3)),
            "step_s": noisy(draw, draw.uniform(0, 0.6)),
        }
        point = Point(what=What.LATENCY, model="net", batch=number)
        found.append(PointOutcome(point=point, status=Status.OK, samples=samples))
    levels = [float(level) for level in draw.lognormal(0, 0.5, len(found))]
    pooled = _pooled_point(found, levels)
    means = [np.mean(counted_runs(one)) for one in found]
    assert min(means) <= np.mean(counted_runs(pooled)) * (1 + 1e-9) <= max(means) * (1 + 1e-6)
    medians = [np.median(one.samples["step_s"]) for one in found]
    assert min(medians) <= np.median(pooled.samples["step_s"]) * (1 + 1e-9) <= max(medians) * (1 + 1e-6)
    lacking = _pooled_point([None, *found[1:]], levels)
    levelled = [mean / level for mean, level in zip(means[1:], levels[1:], strict=True)]
    would = [np.exp(np.mean(np.log(levelled))) * levels[0], *means[1:]]
    assert min(would) <= np.mean(counted_runs(lacking)) * (1 + 1e-9) <= max(would) * (1 + 1e-6)


def test_two_noisy_sessions_are_no_quiet_one(tmp_path):
    """12 % of runs are held up, so they count: 80 and 143 ms. Together, at one mean, the bulks of both lie so far apart
    that only the 7 % which took longest would seem to be hiccups: without them 12 ms were left.
    """
    folders, means = [], []
    for number, longest_s in enumerate((1.0, 1.9)):
        taken = [0.010] * 88 + [0.020] * 5 + [longest_s] * 7
        means.append(np.mean(taken))
        of_session = [
            replace(one, samples={"wall_s": taken}) if one.point.key == "net/latency/16/fp32" else one
            for one in outcomes(1.0, number)
        ]
        header = Header(provenance=PROVENANCE | {"date": f"2026-07-2{number}T12:00:00+00:00"}, seed=1)
        folders.append(tmp_path / f"{number}")
        assemble.write(of_session, header, folders[-1])
    join(folders, tmp_path / "out")
    raw = json.loads((tmp_path / "out" / "T4" / "net.json").read_text())
    assert raw["latency_s"]["16"] == pytest.approx(np.mean(means), rel=0.01)


def test_runs_that_spread_are_no_difference_between_sessions():
    """Three means that differ by no more than their runs explain: nothing is left between sessions."""
    same = [SessionTimes(host="h", gpu="c", mean_s={1: mean}, cv={1: 0.05}) for mean in (1.0, 1.02, 0.98)]
    assert spread_of(same).session_cv == 0


def test_a_slow_host_slows_no_batch_that_the_gpu_takes_longer_for(tmp_path):
    """A batch of 32 that only the quiet session measured takes what it took; one that hosts hold up is of both."""
    times_s = {1: 0.04, 8: 0.05, 16: 0.20, 32: 0.40}
    busy_s = {1: 0.01, 8: 0.02, 16: 0.199, 32: 0.398}

    def left(number: int, slow: float, batches: tuple[int, ...]) -> Path:
        held = {batch: 1.0 if busy_s[batch] > 0.9 * times_s[batch] else slow for batch in batches}
        kept = [o for o in outcomes(1.0, number) if o.point.what is not What.LATENCY]
        kept += [
            PointOutcome(
                point=Point(what=What.LATENCY, model="net", batch=batch),
                status=Status.OK,
                samples={"wall_s": [times_s[batch] * factor] * 20},
                values={"host_s": 0.03, "busy_s": busy_s[batch]},
            )
            for batch, factor in held.items()
        ]
        header = Header(provenance=PROVENANCE | {"date": f"2026-07-2{number}T12:00:00+00:00"}, seed=1)
        assemble.write(kept, header, tmp_path / str(number))
        return tmp_path / str(number)

    join([left(1, 1.0, (1, 8, 16, 32)), left(2, 1.2, (1, 8, 16))], tmp_path / "out")
    (profile,) = find_profiles([tmp_path / "out"], GPUS).for_model("net")
    raw = json.loads((tmp_path / "out" / "T4" / "net.json").read_text())
    assert raw["latency_s"]["32"] == pytest.approx(0.40)
    assert raw["latency_s"]["8"] == pytest.approx(0.05 * 1.1)
    assert profile.latency.x == (1, 8, 16, 32)


def test_shipped_profiles_join_though_their_layers_are_left_out(tmp_path):
    found = join([SHIPPED / "H200"], tmp_path / "out")
    assert {one.spread for one in found} == {None}
    assert len(found) == len(list((SHIPPED / "H200").glob("*.json"))) - 1, "all but the device's"
