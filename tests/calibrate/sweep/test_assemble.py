"""Assembling: recorded outcomes become profiles and a device that planning can use, and nothing is hidden."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import worlds

from calibrate.assembling.measured import Measured
from calibrate.assembling.memory import raise_falls
from calibrate.assembling.points import outcomes_of, points_json
from calibrate.assembling.profile import limits, profile_json
from calibrate.assembling.telling import headline
from calibrate.devices.device import SHARED_COUNT
from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.library.lookup import find_kinds, find_profiles
from calibrate.sweep import assemble
from calibrate.sweep.assemble import file_name
from calibrate.sweep.journal import Header, JournalError
from planner.catalog.catalog import load_catalog
from planner.questions.training.speed import measured_steps
from simulator.clock.run import simulate
from simulator.world.curves import Interpolated
from simulator.world.hardware import GPU
from simulator.world.profile import Evidence, Profile, WeightSource, weakest
from simulator.world.workload import FixedRate, Stream, Workload

GPUS = load_catalog().gpus
PROVENANCE = {
    "gpu": "T4",
    "gpu_name": "Tesla T4",
    "memory_bytes": 15_843_721_216,
    "power_limit_w": 70.0,
    "driver": "570.1",
    "torch": "2.13.0",
    "date": "2026-07-20T12:00:00+00:00",
}
TIMES_S = {1: 0.010, 2: 0.011, 4: 0.014, 8: 0.024, 16: 0.046}
WEIGHTS = 102_000_000


def header(**changed) -> Header:
    return Header(provenance=PROVENANCE | changed, seed=1)


def point(what: What, batch: int = 0, **more) -> Point:
    return Point(what=what, model="net", batch=batch, **more)


def ok(asked: Point, **more) -> PointOutcome:
    return PointOutcome(point=asked, status=Status.OK, **more)


def around(middle: float, count: int = 11, share: float = 0.01) -> list[float]:
    """Samples with that median."""
    return [middle * (1 + share * (i - count // 2) / count) for i in range(count)]


def latency(batch: int, time_s: float, **values) -> PointOutcome:
    return ok(point(What.LATENCY, batch), samples={"wall_s": around(time_s)}, values=values)


def memory(batch: int, held_bytes: float, optimizer: str = "") -> PointOutcome:
    sizes = {"allocated_bytes": WEIGHTS + held_bytes, "weights_bytes": WEIGHTS}
    return ok(point(What.MEMORY, batch, optimizer=optimizer), values=sizes)


def layers(flops: float = 8.2e9) -> PointOutcome:
    listed = [{"name": "conv1", "type": "Conv2d", "weight_bytes": 2_000_000, "flops": int(flops)}]
    values = {"flops_per_sample": flops, "activation_bytes_per_sample": 20e6, "output_bytes_per_sample": 4000}
    return ok(point(What.LAYERS), values=values, details={"layers": listed})


def loading() -> PointOutcome:
    samples = {"pinned_s": around(0.0105), "pageable_s": around(0.021)}
    return ok(point(What.LOAD), values={"weight_bytes": WEIGHTS}, samples=samples)


def probe(name: str, **values) -> PointOutcome:
    return ok(Point(what=What.PROBE, probe=name), values=values)


def sweep() -> list[PointOutcome]:
    """A whole model on a T4."""
    return [
        layers(),
        loading(),
        *(memory(batch, 20e6 * batch) for batch in TIMES_S),
        PointOutcome(point=point(What.MEMORY, 32), status=Status.OUT_OF_MEMORY, message="CUDA out of memory"),
        *(latency(batch, time_s, power_w=50.0 + batch) for batch, time_s in TIMES_S.items()),
    ]


def probes() -> list[PointOutcome]:
    return [
        probe("matmul", fp32_flops=4e12, fp16_flops=20e12),
        probe("copy", to_device_pinned_bytes_per_s=12e9, from_device_pinned_bytes_per_s=12.5e9),
        probe("device_copy", bytes_per_s=240e9),
    ]


def written(tmp_path: Path, outcomes: list[PointOutcome], head: Header | None = None) -> Path:
    head = head or header()
    assemble.write(outcomes, head, tmp_path)
    return tmp_path / head.provenance["gpu"]


def read(tmp_path: Path, model: str = "net", gpus: dict[str, GPU] | None = None) -> Profile:
    gpus = {**find_kinds([tmp_path]), **(GPUS if gpus is None else gpus)}
    (found,) = find_profiles([tmp_path], gpus).for_model(model)
    return found


def test_a_sweep_becomes_a_profile(tmp_path):
    written(tmp_path, [*probes(), *sweep()])
    found = read(tmp_path)
    assert (found.gpu, found.precision, found.weight_bytes, found.largest_batch) == ("T4", "fp32", WEIGHTS, 16)
    assert [found.latency(batch) for batch in TIMES_S] == pytest.approx(list(TIMES_S.values()), rel=0.02)
    assert [found.workspace(batch) for batch in TIMES_S] == pytest.approx([20e6 * batch for batch in TIMES_S])
    assert found.latency_evidence is Evidence.FITTED, "the curve passes beside its points"
    assert found.memory_evidence is found.load_evidence is Evidence.MEASURED
    assert found.as_of == "2026-07-20"
    assert found.busy_w == 66  # of the largest batch
    assert 0 < found.latency_cv < 0.02
    assert found.doubts == ()


@pytest.mark.parametrize("count", [150, 997])
def test_replays_have_the_tail_that_was_measured(tmp_path, count):
    """Of a processor with other work: most runs take 0.5 ms, a fifth up to 9 ms. What is replayed, one request at a
    time, has its slowest hundredth where samples of that size may have it, four standard errors of their count around.
    """
    rng = np.random.default_rng(5)
    runs_s = np.where(rng.random(count) < 0.8, rng.uniform(4e-4, 6e-4, count), rng.uniform(1e-3, 9e-3, count))
    noisy = ok(point(What.LATENCY, 1), samples={"wall_s": [float(run_s) for run_s in runs_s]})
    calm = [latency(batch, 0.010 * batch) for batch in (2, 4, 8, 16)]
    written(tmp_path, [*probes(), *(one for one in sweep() if one.point.what is not What.LATENCY), noisy, *calm])
    found = replace(read(tmp_path), latency=Interpolated((1.0,), (float(runs_s.mean()),)), gpu=worlds.CARD.name)
    served = worlds.deployment(worlds.service(found))
    asked = Workload((Stream("net", FixedRate(20.0)),))
    done = simulate(served, asked, 500.0, seed=1).requests["net"]
    took_s = np.sort(done.finish_s - done.start_s)
    error = 4 * (0.99 * 0.01 / len(took_s)) ** 0.5
    low_s, high_s = np.quantile(runs_s, [0.99 - error, min(1.0, 0.99 + error)], method="inverted_cdf")
    assert low_s * 0.999 <= np.quantile(took_s, 0.99) <= high_s * 1.001  # figures are written with four digits
    assert took_s.mean() == pytest.approx(runs_s.mean(), abs=4 * runs_s.std() / len(took_s) ** 0.5)
    assert took_s.min() >= runs_s.min() * 0.999


@pytest.mark.parametrize(("threads", "spread", "said"), [(2, 0.9, True), (1, 0.9, False), (2, 0.01, False)])
def test_threads_that_may_have_waited_for_each_other_are_doubted(threads, spread, said):
    runs = ok(point(What.LATENCY, 1), samples={"wall_s": around(0.01, 40, spread)})
    outcomes = [layers(), loading(), memory(1, 20e6), runs]
    cpu = {"gpu": "cpu-amd-epyc", "torch_threads": threads}
    raw = profile_json(Measured("net", Settings(), PROVENANCE | cpu, {o.point.key: o for o in outcomes}, {}))
    assert any("OMP_NUM_THREADS=1" in doubt for doubt in raw["doubts"]) is said


def test_loading_is_the_devices_rate_and_what_many_tensors_add(tmp_path):
    written(tmp_path, [*probes(), *sweep()])
    found = read(tmp_path)
    assert found.load.bytes_per_s == 12e9
    assert found.load.t0_s == pytest.approx(0.0105 - WEIGHTS / 12e9, rel=1e-4)
    assert found.load(WEIGHTS) == pytest.approx(0.0105, rel=1e-4)
    assert found.load_from(WeightSource.PAGEABLE)(WEIGHTS) == pytest.approx(0.021, rel=1e-4)


@pytest.mark.parametrize(("share", "known"), [(1.0, True), (0.5, False), (None, False)])
def test_a_file_that_came_from_a_cache_says_nothing_of_the_disk(tmp_path, share, known):
    loaded = loading()
    disk = {"details": {"disk": {"share_from_storage": share}}, "samples": loaded.samples | {"disk_s": [0.2, 0.3, 0.4]}}
    outcomes = [replace(loaded, **disk) if o.point.what is What.LOAD else o for o in sweep()]
    written(tmp_path, outcomes)
    assert read(tmp_path).disk_bytes_per_s == (pytest.approx(WEIGHTS / 0.3) if known else None)


def test_limits_name_the_last_batch_that_fits_and_the_first_that_does_not():
    assert limits(sweep()) == {"inference": {"fits": 16, "fails": 32}}
    assert limits([memory(4, 1e6, "adam")]) == {"training.adam": {"fits": 4}}


def test_the_file_is_read_by_people(tmp_path):
    path = written(tmp_path, sweep()) / "net.json"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[1] == '  "schema": "planner.profile/v1",'
    assert len(lines) < 200
    assert path.stat().st_size < 8_000


def test_raw_samples_are_kept_and_make_the_same_profile_again(tmp_path):
    path = written(tmp_path, [*probes(), *sweep()]) / "net.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    kept = outcomes_of(raw["measured"]["points"], "net", Settings(), raw["measured"]["layers"])
    assert {o.point.key for o in kept} == {o.point.key for o in sweep()}
    again = written(tmp_path / "again", [*probes(), *kept]) / "net.json"
    assert again.read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


def test_points_of_a_later_run_join_those_of_an_earlier(tmp_path):
    small = [o for o in sweep() if o.point.batch <= 4]
    large = [o for o in sweep() if o.point.batch > 4]
    written(tmp_path / "apart", [*probes(), *small])
    written(tmp_path / "apart", large, header(date="2026-08-01T00:00:00+00:00"))
    written(tmp_path / "whole", [*probes(), *sweep()], header(date="2026-08-01T00:00:00+00:00"))
    for name in ("net.json", "device.json"):
        texts = [(tmp_path / run / "T4" / name).read_text(encoding="utf-8") for run in ("apart", "whole")]
        assert texts[0] == texts[1]


@pytest.mark.parametrize("what", ["net.json", "device.json"])
def test_figures_of_another_driver_are_not_mixed_and_the_key_is_named(tmp_path, what):
    directory = written(tmp_path, [*probes(), *sweep()])
    before = (directory / what).read_text(encoding="utf-8")
    with pytest.raises(JournalError, match=rf"{what}: driver was 570.1, now it is 580.2: such figures are not mixed"):
        assemble.write([*probes(), *sweep()], header(driver="580.2"), tmp_path)
    assert (directory / what).read_text(encoding="utf-8") == before


def test_settings_are_other_models_and_other_files():
    def named(**settings) -> tuple[str, str]:
        measured = Measured("net", Settings(**settings), PROVENANCE, {}, {})
        return measured.name, file_name(measured)

    assert named() == ("net", "net.json")
    assert named(precision="amp") == ("net", "net.amp.json")
    assert named(precision="amp", resolution=448, channels_last=True) == (
        "net.448px.channels_last",
        "net.448px.channels_last.amp.json",
    )


def test_a_model_of_ones_own_has_a_name_that_profiles_can_have(tmp_path):
    own = [replace(o, point=replace(o.point, model="my.package:factory")) for o in sweep()]
    written(tmp_path, own)
    assert read(tmp_path, "my.package.factory").largest_batch == 16


def test_a_fall_takes_the_dearer_figure_and_says_so(tmp_path):
    outcomes = [latency(8, 0.012) if o.point == point(What.LATENCY, 8) else o for o in sweep()]
    path = written(tmp_path, [*probes(), *outcomes]) / "net.json"
    found = read(tmp_path)
    assert dict(zip(found.latency.x, found.latency.y, strict=True))[8] == 0.014
    assert found.latency_evidence is Evidence.FITTED
    assert any("Latency of batch 8: 12 ms, less than the 14 ms of batch 4, which stands in." in d for d in found.doubts)
    samples = json.loads(path.read_text(encoding="utf-8"))["measured"]["points"]["latency"]["8"]["samples"]["wall_s"]
    assert samples == pytest.approx(around(0.012), rel=1e-4)


def test_memory_that_falls_takes_the_larger_figure_and_is_not_measured(tmp_path):
    written(tmp_path, [*probes(), *(memory(8, 60e6) if o.point == point(What.MEMORY, 8) else o for o in sweep())])
    found = read(tmp_path)
    assert found.workspace(8) == 80e6
    assert found.memory_evidence is Evidence.FITTED
    assert any("Memory of batch 8: 60 MB, less than the 80 MB of batch 4" in d for d in found.doubts)


def test_memory_that_a_small_batch_needs_more_of_is_read_back(tmp_path):
    """As measured on an H200 at strict fp32: at batch 2 cuDNN took an algorithm with 35 GB, at batch 8 not."""
    allocated, reserved = {1: 0.3e9, 2: 35.5e9, 4: 36.3e9, 8: 10.1e9}, {1: 0.5e9, 2: 35.6e9, 4: 46.4e9, 8: 19.6e9}

    def measured(batch: int) -> PointOutcome:
        sizes = {
            "allocated_bytes": WEIGHTS + allocated[batch],
            "weights_bytes": WEIGHTS,
            "reserved_bytes": WEIGHTS + reserved[batch],
        }
        return ok(point(What.MEMORY, batch), values=sizes)

    others = [o for o in sweep() if o.point.what is not What.MEMORY]
    written(tmp_path, [*probes(), *others, *map(measured, allocated)])
    found = read(tmp_path)
    assert [found.workspace(batch) for batch in reserved] == [0.5e9, 35.6e9, 46.4e9, 46.4e9]
    assert any("Memory of batch 8: 10.1 GB, less than the 36.3 GB of batch 4" in d for d in found.doubts)


@pytest.mark.parametrize(
    ("times_s", "form", "evidence"),
    [
        (TIMES_S, "smooth-maximum", "fitted"),
        ({1: 0.010, 2: 0.012, 4: 0.017, 8: 0.027}, "joined", "measured"),
        ({1: 0.010, 2: 0.011, 4: 0.013}, "interpolation", "measured"),
    ],
)
def test_figures_of_a_curve_beside_the_points_are_fitted(times_s, form, evidence):
    others = [o for o in sweep() if o.point.what is not What.LATENCY]
    outcomes = [*others, *(latency(batch, time_s) for batch, time_s in times_s.items())]
    raw = profile_json(Measured("net", Settings(), PROVENANCE, {o.point.key: o for o in outcomes}, {}))
    assert (raw["latency_fit"]["form"], raw["latency_evidence"]) == (form, evidence)


def test_falls_within_noise_stay():
    assert raise_falls({1: 10.0, 2: 7.0, 4: 9.0}, 0.15) == ({1: 10, 2: 10, 4: 9}, {2: 1})
    assert raise_falls({1: 10.0, 2: 9.8}, 0.05) == ({1: 10, 2: 9.8}, {})


@pytest.mark.parametrize(
    ("changed", "doubt"),
    [
        (latency(8, 0.024, clock_start_mhz=1500, clock_end_mhz=1200), "Batch 8: the clock fell by up to 20%"),
        (latency(8, 0.024, other_processes=2), "Batch 8: another process was on the device"),
        (ok(point(What.LATENCY, 8), samples={"wall_s": [0.024] * 4}), "Batch 8: 4 runs show no spread"),
        (ok(point(What.LATENCY, 8), samples={"wall_s": around(0.024, share=1)}), "Batch 8: run times spread"),
        (
            PointOutcome(point=point(What.LATENCY, 8), status=Status.TIMED_OUT, message="120 s\nare over"),
            "net/latency/8/fp32: timed-out (120 s are over); measure it again.",
        ),
        (layers(8.2e10), "times the arithmetic that the device was seen to reach"),
    ],
)
def test_what_speaks_against_a_figure_travels_with_it(changed, doubt):
    measured = Measured(
        "net",
        Settings(),
        PROVENANCE,
        {o.point.key: o for o in [*sweep(), changed]},
        {o.point.probe: o for o in probes()},
    )
    raw = profile_json(measured)
    assert raw
    assert any(doubt in said for said in raw["doubts"]), raw["doubts"]


def test_batches_faster_than_the_peak_are_raised_where_the_catalog_knows_the_peak(tmp_path):
    """8.2e10 operations in 10 ms are 8.2 TFLOP/s: above what products reached here, and above a T4's 8.1."""
    outcomes = [layers(8.2e10) if o.point.what is What.LAYERS else o for o in sweep()]
    written(tmp_path, [*probes(), *outcomes])
    found = read(tmp_path)
    assert found.latency(1) == pytest.approx(8.2e10 / GPUS["T4"].fp32_flops)
    assert found.latency_evidence is Evidence.ASSUMED
    assert any("the least its GPU's peak allows, stands in" in doubt for doubt in found.doubts)


def test_a_device_not_in_the_catalog_reaches_what_was_seen(tmp_path):
    head = header(gpu="a-new-GPU", power_limit_w=None, torch_threads=8)
    outcomes = [layers(8.2e10) if o.point.what is What.LAYERS else o for o in sweep()]
    written(tmp_path, [*probes(), *outcomes], head)
    kind = find_kinds([tmp_path])["a-new-GPU"]
    assert kind.fp32_flops == pytest.approx(16 * 8.2e10 / 0.046, rel=1e-3)
    assert kind.memory_bytes_per_s == 240e9
    assert kind.pcie_bytes_per_s >= 12.5e9
    assert (kind.tdp_w, kind.memory_bytes) == (80, 15_843_721_216)
    profile = read(tmp_path)
    assert weakest(profile.latency_evidence, profile.memory_evidence, profile.load_evidence) is Evidence.FITTED


def test_without_probes_models_stand_for_the_peaks(tmp_path):
    written(tmp_path, sweep(), header(gpu="a-new-GPU"))
    found = read(tmp_path)
    assert found.load(WEIGHTS) == pytest.approx(0.0105, rel=1e-4)
    raw = json.loads((tmp_path / "a-new-GPU" / "device.json").read_text(encoding="utf-8"))
    assert raw["doubts"] == [
        "Not probed: matmul, copy, device_copy: models stand for its peaks. Measure it with --mode device --resume."
    ]


def test_memory_that_was_not_measured_is_assumed_and_says_so(tmp_path):
    written(tmp_path, [o for o in sweep() if o.point.what is not What.MEMORY])
    found = read(tmp_path)
    assert found.memory_evidence is Evidence.ASSUMED
    assert found.workspace(4) == 80e6
    assert any("taken as all activations held at once" in text for text in found.assumptions)


def test_memory_has_three_parts(tmp_path):
    """Tensors, what the allocator holds beyond them, what the process holds beyond its allocator."""

    def held(batch: int, slack: float, context: float) -> PointOutcome:
        tensors = memory(batch, 20e6 * batch)
        reserved = tensors.values["allocated_bytes"] + slack
        values = {**tensors.values, "reserved_bytes": reserved, "device_bytes": reserved + context}
        return replace(tensors, values=values, details={"device_bytes_by": "NVML, this process"})

    slack = dict(zip(TIMES_S, (5e6, 5e6, 9e6, 9e6, 30e6), strict=True))
    peaks = [held(batch, slack[batch], 480e6 + 1e6 * batch) for batch in TIMES_S]
    written(tmp_path / "own", [*probes(), *(o for o in sweep() if o.point.what is not What.MEMORY), *peaks])
    found = read(tmp_path / "own")
    assert found.context_bytes == 496_000_000, "the most that was held besides"
    assert found.workspace(4) == 80e6 + 9e6
    assert found.slack is not None
    assert found.slack(16) == 30e6
    shared = [replace(o, details={"device_bytes_by": SHARED_COUNT}) for o in peaks]
    written(tmp_path / "shared", [*probes(), *(o for o in sweep() if o.point.what is not What.MEMORY), *shared])
    assert read(tmp_path / "shared").context_bytes is None, "others may have held it"


def test_without_a_time_there_is_no_profile(tmp_path):
    directory = written(tmp_path, [*probes(), *(o for o in sweep() if o.point.what is not What.LATENCY)])
    assert [path.name for path in directory.iterdir()] == ["device.json"]


def test_points_keep_training_apart():
    steps = {"step_s": around(0.03), "forward_s": around(0.01)}
    outcomes = [memory(2, 1e8, "adam"), ok(point(What.TRAINING, 2, optimizer="adam"), samples=steps)]
    assert list(points_json(outcomes)) == ["memory.adam", "training.adam"]
    raw = profile_json(Measured("net", Settings(), PROVENANCE, {o.point.key: o for o in [*sweep(), *outcomes]}, {}))
    assert raw
    assert raw["measured"]["training"]["adam"]["2"]["step_s"] == 0.03
    assert raw["measured"]["limits"]["training.adam"] == {"fits": 2}


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "T4").write_text("in the way", encoding="utf-8")
    with pytest.raises(JournalError, match=r"device.json: cannot be read"):
        assemble.write(sweep(), header(), tmp_path)


def test_doubts_about_training_are_no_plans_of_inference():
    """Four steps show no spread: said of training, and in no sentence that a plan of inference repeats."""
    steps = ok(point(What.TRAINING, 2, optimizer="sgd"), samples={"step_s": [0.03] * 4})
    failed = PointOutcome(point=point(What.TRAINING, 4, optimizer="sgd"), status=Status.FAILED, message="no")
    raw = profile_json(Measured("net", Settings(), PROVENANCE, {o.point.key: o for o in [*sweep(), steps, failed]}, {}))
    assert raw
    assert [doubt for doubt in raw["measured"]["training_doubts"]["sgd"] if "4 runs show no spread" in doubt]
    assert [doubt for doubt in raw["measured"]["training_doubts"]["sgd"] if "failed (no)" in doubt]
    assert raw["doubts"] == []


# Rates and load for long


def doubts_of(*changed: PointOutcome) -> set[str]:
    """Doubts that the profile of a sweep has only since these outcomes took the place of its own."""
    usual = {outcome.point.key: outcome for outcome in sweep()}
    profiles = [
        profile_json(Measured("net", Settings(), PROVENANCE, outcomes, {}))
        for outcomes in (usual, usual | {outcome.point.key: outcome for outcome in changed})
    ]
    before, after = (set(profile["doubts"]) for profile in profiles if profile)
    return after - before


def slowed(outcome: PointOutcome, *reasons: str) -> PointOutcome:
    return replace(outcome, details={"slow_reasons": dict.fromkeys(reasons, 0.5)})


def test_what_holds_clocks_down_is_a_doubt():
    assert len(doubts_of(slowed(latency(8, 0.024, power_w=58.0), "sw_power_cap"))) == 1
    assert doubts_of(slowed(latency(8, 0.024, power_w=58.0), "application_clocks")) == set()


@pytest.mark.parametrize(("host_s", "count"), [(0.012, 1), (0.002, 0)])
def test_a_host_that_is_slower_than_the_gpu_is_a_doubt(host_s, count):
    assert len(doubts_of(latency(1, 0.010, power_w=51.0, host_s=host_s, busy_s=0.009, sustained_s=0.012))) == count


def loaded(*extra: PointOutcome) -> dict:
    """The profile of a sweep with more points."""
    outcomes = {outcome.point.key: outcome for outcome in [*sweep(), *extra]}
    profile = profile_json(Measured("net", Settings(), PROVENANCE, outcomes, {}))
    assert profile
    return profile


def in_row(batch: int, time_s: float, row_s: list[float], **values) -> PointOutcome:
    alone = latency(batch, time_s, **values)
    return replace(alone, samples={**alone.samples, "sustained_s": row_s})


@pytest.mark.parametrize(
    ("row_s", "time_s"),
    [
        (around(0.060), 0.060),
        (around(0.0465), 0.046),  # by no more than noise
        (around(0.060, share=1.5), 0.046),  # by no more than a row spreads
        (around(0.030), 0.046),  # the host queues ahead, which a server that waits does not
    ],
)
def test_the_longer_of_alone_and_in_a_row_is_planned_with(row_s, time_s):
    profile = loaded(in_row(16, 0.046, row_s))
    assert profile["latency_s"]["16"] == pytest.approx(time_s, rel=0.02)
    assert len(profile["assumptions"]) - len(loaded()["assumptions"]) == (time_s > 0.046)


def soak(first_s: float, end_s: float) -> PointOutcome:
    return ok(
        point(What.SOAK, 16),
        samples={"sustained_s": [first_s, end_s]},
        values={"first_s": first_s, "sustained_s": end_s},
    )


def test_what_a_soak_slows_down_is_planned_with():
    profile = loaded(soak(0.046, 0.046 * 1.2))
    assert list(profile["latency_s"].values()) == pytest.approx([1.2 * time_s for time_s in TIMES_S.values()], rel=0.02)
    assert loaded(soak(0.046, 0.0461))["latency_s"] == loaded()["latency_s"]


def test_a_clock_that_falls_slows_kernels_and_not_the_host():
    profile = loaded(latency(1, 0.010, busy_s=0.002), soak(0.046, 0.046 * 1.5))
    assert profile["latency_s"]["1"] == pytest.approx(0.011, rel=0.01)


def test_a_soak_that_began_hot_is_held_against_the_first_row():
    profile = loaded(in_row(16, 0.046, around(0.046)), soak(0.055, 0.0552))
    assert profile["latency_s"]["16"] == pytest.approx(0.0552, rel=0.01)


@pytest.mark.parametrize(("beside_s", "k"), [(0.0462, None), (0.048, 1 + 0.002 / 0.0105), (0.060, 2.0)])
def test_what_a_batch_and_a_load_hold_each_other_up_by_is_planned_with(beside_s, k):
    """A batch of 46 ms and a load of 10.5 ms: what both took beyond the batch, over the load; 2 at most."""
    profile = loaded(latency(16, 0.046, power_w=66.0, beside_load_s=beside_s))
    assert profile.get("beside_load") == (k and pytest.approx(k, rel=0.05))


@pytest.mark.parametrize("slower", [1.0, 1.5])
def test_what_is_the_hosts_and_what_the_kernels_is_planned_with(tmp_path, slower):
    """Kernels as they are after long load."""
    outcomes = {o.point.key: o for o in [*probes(), *sweep(), latency(16, 0.046, host_s=0.03, busy_s=0.04)]}
    written(tmp_path, [*outcomes.values(), soak(0.046, 0.046 * slower)])
    found = read(tmp_path)
    assert (found.host_s(16), found.busy_s(16)) == (0.03, pytest.approx(0.04 * slower))


def test_the_sweep_prints_the_figure_that_the_profile_will_have():
    """Without hiccups, of the row where that is longer; of a step that of the row, else the median."""
    held_up = replace(latency(8, 0.024), samples={"wall_s": [*[0.020] * 10, *[0.028] * 9, 0.9]})
    for outcome in (held_up, in_row(16, 0.046, around(0.060)), latency(4, 0.014)):
        time_s = loaded(outcome)["latency_s"][str(outcome.point.batch)]
        assert headline(outcome).startswith(f"{time_s * 1e3:.3g} ms a batch, ")
    uneven = {"step_s": [0.030] * 10 + [0.034] * 9}
    for samples in (uneven, uneven | {"sustained_s": [0.027, 0.028, 0.035]}):
        step = ok(point(What.TRAINING, 2, optimizer="sgd"), samples=samples)
        (step_s,) = measured_steps(loaded(step)["measured"], "sgd").values()
        assert headline(step).startswith(f"{step_s * 1e3:.3g} ms a step, ")


def test_a_hiccup_moves_no_figure_and_is_a_doubt():
    held_up = latency(8, 0.024, power_w=58.0)
    held_up = replace(held_up, samples={"wall_s": [*around(0.024, 19), 0.9]})
    assert len(doubts_of(held_up)) == 1
    outcomes = {outcome.point.key: outcome for outcome in [*sweep(), held_up]}
    profile = profile_json(Measured("net", Settings(), PROVENANCE, outcomes, {}))
    assert profile["latency_s"]["8"] == pytest.approx(0.024, rel=0.01)
    assert 0.9 in profile["measured"]["points"]["latency"]["8"]["samples"]["wall_s"], "told apart, not thrown away"


@pytest.mark.parametrize("often", [False, True])
def test_hiccups_of_a_curve_are_left_out_at_all_sizes_or_at_none(often):
    """8 % at batch 4, and 5 or 30 % at batch 8: with either share a sample of batch 8 takes no more than one of 4."""
    held_up = [
        replace(latency(batch, 0.0), samples={"wall_s": [0.01 + batch / 1e4] * quiet + [0.2] * (100 - quiet)})
        for batch, quiet in ((4, 92), (8, 70 if often else 95))
    ]
    profile = loaded(*held_up)
    times_s = profile["latency_s"]
    assert (times_s["4"] > 0.02) == (times_s["8"] > 0.02) == often
    (doubt,) = [one for one in profile["doubts"] if "held up" in one]
    assert ("count all the same, for at batch 8 more than 10% took over" in doubt) == often


def test_the_runtime_stands_in_the_profile(tmp_path):
    settings = Settings(precision="torch", cuda_graph=True)
    outcomes = [replace(outcome, point=replace(outcome.point, settings=settings)) for outcome in sweep()]
    folder = written(tmp_path, outcomes)
    assert (folder / "net.cuda_graph.torch.json").exists()
    found = read(tmp_path, "net.cuda_graph")
    assert (found.precision, found.runtime) == ("torch", "cuda-graphs")


def test_a_batch_that_ended_otherwise_is_told_with_the_largest():
    def ended(batch: int, status: Status, message: str) -> PointOutcome:
        return PointOutcome(point=point(What.MEMORY, batch), status=status, message=message)

    failed = ended(32, Status.FAILED, "ValueError:\nno")
    assert limits([failed, memory(16, 1e6)]) == {
        "inference": {"fits": 16, "ended": {"batch": 32, "how": "failed", "why": "ValueError: no"}}
    }
    assert limits([failed, memory(64, 1e6)]) == {"inference": {"fits": 64}}, "a larger one ran"


def test_what_the_models_own_code_raised_is_not_to_be_measured_again():
    failed = PointOutcome(point=point(What.MEMORY, 32), status=Status.FAILED, message="ValueError: no")
    outcomes = {o.point.key: o for o in [*sweep(), failed]}
    raw = profile_json(Measured("net", Settings(), PROVENANCE, outcomes, {}))
    assert raw
    (doubt,) = [said for said in raw["doubts"] if "ValueError" in said]
    assert doubt.endswith("failed (ValueError: no); correct the model, or leave that batch out of --batches.")
