"""Fits: laws are found again, errors are those of points not seen, bands hold, doubts say what to do."""

import math
import subprocess
import sys
from functools import cache
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import ROOT

import benchmarks.__main__
from benchmarks.fits import NEXUS, calibrated, coverage, mean_error, nexus, published, series, summary, table, within
from calibrate.library import fit
from calibrate.library.fit import LATENCY_FORMS, FitWork, doubts, fit_latency, fit_load, fit_memory, regime
from simulator.world.curves import FORMS, SmoothMaximum, curve_of

JUDGED = series()


@cache
def judged_table():
    return table(JUDGED)


DOUBLINGS = tuple(2**i for i in range(9))
ENOUGH = [0.010] * fit.SAMPLES_MIN


def smooth(a=0.008, c=0.0005, p=3.0, batches=DOUBLINGS):
    curve = SmoothMaximum(batches, (1.0,) * len(batches), a=a, c=c, p=p)
    return {batch: curve(batch) for batch in batches}


# Forms


@pytest.mark.parametrize("p", [0.7, 1.0, 3.0, 8.0])
def test_a_smooth_maximum_is_found_again(p):
    found = fit_latency(smooth(p=p))
    assert found.error_max < 0.01
    assert found.knee == pytest.approx(16, rel=0.15)
    assert (found.curve.x[0], found.curve.x[-1]) == (1, 256)


def test_a_straight_line_is_found_again():
    wiggle = {1: 1.004, 2: 0.995, 4: 1.006, 8: 0.996, 16: 1.005, 32: 0.994}
    found = fit_memory({batch: (5e7 + 2e7 * batch) * off for batch, off in wiggle.items()})
    assert (found.form, found.error_max) == ("straight-line", pytest.approx(0.01, abs=0.005))
    assert found.parameters == pytest.approx({"fixed": 5e7, "slope": 2e7}, rel=0.01)


KNOCKED = {1: 6.31e-3, 2: 12.1e-3, 4: 23.7e-3, 8: 44.9e-3, 16: 378e-3}
"""Run times of a processor, of which the last batch no longer fits its cache."""


def test_no_form_is_chosen_that_misses_an_end_by_more_than_its_band():
    """The ends are never held out: a line through the others passed the last at a quarter of what was measured."""
    found = fit_latency(KNOCKED)
    assert found.form == "joined"
    assert found.curve(16) == pytest.approx(KNOCKED[16])
    assert fit_latency(KNOCKED | {16: 90e-3}).form == "smooth-maximum"


def test_steps_are_interpolated():
    found = fit_memory({1: 1e8, 2: 1e8, 4: 1e8, 5: 9e8, 8: 9e8, 16: 9e8})
    assert found.form == "interpolation"


def test_memory_may_be_nothing():
    found = fit_memory({1: 0, 2: 0, 4: 1e8, 8: 2e8, 16: 4e8})
    assert (found.form, found.error_mean, found.curve(2)) == ("interpolation", None, 0)


@pytest.mark.parametrize(
    ("count", "form"), [(1, "interpolation"), (2, "interpolation"), (3, "interpolation"), (4, "joined")]
)
def test_few_points_leave_no_choice(count, form):
    found = fit_latency(smooth(batches=DOUBLINGS[:count]))
    assert found.form == form
    assert (found.error_mean is None) == (count < 3)
    assert found.band > 0.05


@pytest.mark.parametrize("points", [{}, {1: -1.0}, {1: math.nan}, {1: math.inf, 2: 1.0}])
def test_points_that_cannot_be_are_refused(points):
    with pytest.raises(ValueError, match="finite and not below 0"):
        fit_latency(points)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(1e-5, 10), min_size=1, max_size=8))
def test_any_series_is_fitted_and_read_back_as_the_same_curve(times):
    found = fit_latency(dict(zip(DOUBLINGS, times, strict=False)))
    raw = found.to_json()
    again = curve_of(raw["form"], found.curve.x, found.curve.y, raw["parameters"])
    assert again == found.curve
    assert raw["form"] in FORMS
    assert all(0 < found.curve(b) < math.inf for b in range(1, int(found.curve.x[-1]) + 1))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(1e-3, 1), min_size=3, max_size=8))
def test_no_point_is_missed_by_more_than_the_fit_says(times):
    found = fit_latency(dict(zip(DOUBLINGS, times, strict=False)))
    misses = [abs(found.curve(x) / y - 1) for x, y in zip(found.curve.x, found.curve.y, strict=True)]
    assert max(misses) <= found.error_max + 1e-6


@settings(deadline=None, max_examples=20)
@given(st.floats(1e-6, 1e6))
def test_units_do_not_matter(scale):
    points = smooth(p=2.3)
    found, scaled = fit_latency(points), fit_latency({b: t * scale for b, t in points.items()})
    assert scaled.form == found.form
    assert scaled.error_mean == pytest.approx(found.error_mean, abs=1e-4)


# Held-out points and bands


def test_a_held_out_point_has_no_part_in_its_own_error():
    """Whatever is measured at a point, the same is predicted for it."""
    x = tuple(map(float, DOUBLINGS))
    told = []
    for time_s in (0.001, 0.009, 0.5):
        y = tuple({**smooth(), 8: time_s}.values())
        told.append(math.exp(fit.held_out_errors(x, y, LATENCY_FORMS)[8.0]) * time_s)
    assert told == pytest.approx([told[0]] * 3)


def test_ends_are_not_held_out():
    x, y = tuple(map(float, DOUBLINGS)), tuple(smooth().values())
    assert set(fit.held_out_errors(x, y, LATENCY_FORMS)) == set(x[1:-1])


def test_the_band_narrows_as_points_agree_and_widens_as_they_do_not():
    none, good, bad = (fit.band_log(errors) for errors in ([], [0.001] * 10, [0.2] * 10))
    assert good < none < bad
    assert none == pytest.approx(fit.BAND_FACTOR * fit.BAND_SPREAD)


def test_the_band_holds_on_noise_it_has_not_seen():
    """Points with noise of 4 % around a law, every second one measured."""
    draw = np.random.default_rng(5)
    hits = []
    for _ in range(40):
        noisy = {b: t * math.exp(draw.normal(0, 0.04)) for b, t in smooth(batches=tuple(range(1, 24, 2))).items()}
        found = fit_latency(noisy)
        seen = {b: t * math.exp(draw.normal(0, 0.04)) for b, t in smooth(batches=tuple(range(2, 23, 2))).items()}
        hits += [abs(math.log(found.curve(b) / t)) <= math.log1p(found.band) for b, t in seen.items()]
    assert fmean(hits) > 0.85


# Series that others measured


def test_there_are_the_series_that_are_promised():
    assert len(published()) == 31
    assert len(nexus()) in (0, len(NEXUS))


def test_errors_and_bands_are_as_promised():
    assert mean_error(s.ours for s in JUDGED) <= 0.03
    inside = within(JUDGED)
    hits = [hit for of_series in inside.values() for hit in of_series]
    assert coverage(inside) >= 0.9
    assert fmean(hits) >= 0.9


def test_ours_errs_less_than_each_form_alone():
    ours = mean_error(s.ours for s in JUDGED)
    line, interpolation = mean_error(s.line for s in JUDGED), mean_error(s.interpolation for s in JUDGED)
    assert ours < interpolation < line
    assert line > 1.5 * ours


@pytest.mark.skipif(not nexus(), reason="the files of Nexus are not here")
def test_the_bands_figures_are_those_of_the_series():
    band = calibrated(JUDGED)
    assert (round(band.spread, 4), round(band.factor, 2)) == (fit.BAND_SPREAD, fit.BAND_FACTOR)


def test_the_table_in_the_docs_is_what_the_command_gives():
    docs = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8").splitlines()
    if nexus():
        expected = [*judged_table(), *(f"- {line}" for line in summary(JUDGED))]
        assert [line for line in expected if line not in docs] == []
        return
    known = {line.rsplit("|", 2)[0] for line in docs}  # the band is made of all series, and two are not here
    assert [line for line in judged_table()[:-1] if line.rsplit("|", 2)[0] not in known] == []


def test_the_command_prints_the_table(monkeypatch, capsys):
    monkeypatch.setattr(benchmarks.__main__, "series", lambda: JUDGED)  # which keep what they were judged by
    monkeypatch.setattr(sys, "argv", ["benchmarks", "fits"])
    benchmarks.__main__.main()
    assert "\n".join(judged_table()) in capsys.readouterr().out


def test_a_benchmark_that_is_not_known_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "fist"])
    with pytest.raises(SystemExit) as refused:
        benchmarks.__main__.main()
    assert refused.value.code == (  # a text, which Python writes to standard error, and ends with 1
        "'fist' is not known. Write some of: memory speed loop rules pipelines commands fits predictions studies scale "
        "learnt truths large fuzz kills"
    )


# Loads


def test_fixed_part_and_bandwidth_are_found_again():
    found = fit_load((size, 20e-6 + size / 12e9) for size in (1e5, 1e6, 1e7, 1e8))
    assert found.load.t0_s == pytest.approx(20e-6)
    assert found.load.bytes_per_s == pytest.approx(12e9)
    assert found.error_max < 1e-9


def test_loads_of_the_clockwork_zoo():
    """7 us and 12.29 GB/s through the load times that were published: off by 0.06 ms at most."""
    copies = [(46.7e6, 3.81e-3), (102.2e6, 8.32e-3), (240.6e6, 19.56e-3), (333.4e6, 27.18e-3), (24.0e6, 1.96e-3)]
    found = fit_load(copies)
    assert found.load.bytes_per_s == pytest.approx(12.29e9, rel=0.01)
    assert found.error_max < 0.01
    assert found.error_max_at_bytes in dict(copies)


def test_copies_of_one_size_have_no_fixed_part():
    found = fit_load([(1e8, 0.010), (1e8, 0.010)])
    assert (found.load.t0_s, found.load.bytes_per_s) == (0, pytest.approx(1e10))


def test_copies_whose_size_does_not_matter_still_have_a_bandwidth():
    assert fit_load([(1e3, 1e-5), (1e5, 1e-6)]).load.bytes_per_s > 0


@pytest.mark.parametrize("copies", [[], [(0, 1.0)], [(1e6, 0.0)]])
def test_copies_of_nothing_are_refused(copies):
    with pytest.raises(ValueError, match="at least 1 byte"):
        fit_load(copies)


# Regimes and doubts

WORK = FitWork(flops_per_sample=8e9, bytes_per_sample=1e8, weight_bytes=1e8, peak_flops=20e12, peak_bytes_per_s=900e9)


def test_below_the_knee_overhead_above_it_what_is_nearer_its_peak():
    found = fit_latency(smooth())
    assert [regime(found, batch, WORK) for batch in (1, 8, 64)] == ["overhead", "overhead", "arithmetic"]
    slow_memory = FitWork(flops_per_sample=8e9, bytes_per_sample=1e8, peak_flops=20e12, peak_bytes_per_s=210e9)
    assert regime(found, 64, slow_memory) == "bandwidth"
    assert regime(found, 64, FitWork()) == "unknown"


def test_a_batch_whose_kernels_wait_for_the_host_is_held_up_by_overhead_wherever_the_knee_seems_to_be():
    found = fit_latency(smooth())
    assert [regime(found, batch, WORK, by_host) for batch, by_host in ((64, True), (1, False))] == [
        "overhead",
        "arithmetic",
    ]


def test_achieved_shares_of_the_peaks():
    assert FitWork(flops_per_sample=8e9, peak_flops=4e12).arithmetic_share(1, 0.004) == pytest.approx(0.5)
    moved = FitWork(bytes_per_sample=1e6, weight_bytes=1e8, peak_bytes_per_s=4e11)
    assert moved.bandwidth_share(100, 0.001) == pytest.approx(0.5)


def test_good_measurements_are_not_doubted():
    assert doubts(fit_latency(smooth()), dict.fromkeys(DOUBLINGS, ENOUGH), WORK) == []


DOUBTS = {
    "few samples": (smooth(), {1: ENOUGH, 2: [0.01] * 3}, FitWork(), "Batch 2: 3 runs show no spread, 10 do; give"),
    "few points": (smooth(batches=(1, 64)), {}, FitWork(), "Latency was measured at 2 batch sizes, too few"),
    "unsteady": (KNOCKED, {}, FitWork(), "Between batches that were measured, latency is known within 68% only"),
    "wide": (smooth(), {4: [0.010, 0.020] * 10}, FitWork(), "Batch 4: run times spread by up to 34% of their mean"),
    "just wide": (
        smooth(),
        {4: [0.902, 1.098] * 10},
        FitWork(),
        "Batch 4: run times spread by up to 10.1% of their",
    ),
    "no knee": (smooth(a=0.5), {}, FitWork(), "Up to batch 256 a fixed cost outweighs the work"),
    "flat": (dict.fromkeys(DOUBLINGS, 0.01), {}, FitWork(), "Up to batch 256 a fixed cost outweighs the work"),
    "too fast": (smooth(), {}, FitWork(flops_per_sample=8e9, peak_flops=8e12), "Batch 256: 2 times the arithmetic"),
}


@pytest.mark.parametrize("case", DOUBTS)
def test_doubts_name_what_is_wrong_and_what_to_do(case):
    points, samples, work, begins = DOUBTS[case]
    (text,) = doubts(fit_latency(points), samples, work)
    assert text.startswith(begins)
    assert text.endswith(".")
    assert any(word in text for word in ("measure", "give", "time it"))


def test_fitting_needs_no_torch():
    code = "import sys, calibrate.library.fit; print({'torch', 'simpy', 'pydantic'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_profiles_are_read_without_fitting():
    """Reading takes neither NumPy nor SciPy, so listing profiles does not wait for them."""
    code = "import sys, calibrate.library.lookup; print({'scipy', 'numpy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
