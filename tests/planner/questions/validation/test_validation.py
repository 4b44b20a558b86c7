"""Validation: what is compared, how honest the intervals are, what is named as the cause; recordings as files."""

import json
import resource
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from support import worlds
from support.paths import SCENARIOS

from benchmarks.making.validation_page import BEGIN, END, Folder, folder_of, of_sessions, pooled, renew
from calibrate.serving.served import SEGMENTS_BYTES, Actions, HeldMemory, apart
from planner.io.load import load_scenario, schema
from planner.io.store import StoreError
from planner.questions.validation.answer import (
    MODEL_METRICS,
    CauseKind,
    ErringFigure,
    MemoryKind,
    Validation,
    error_of,
)
from planner.questions.validation.comparison import least_and_most, memory_parts, validate
from planner.questions.validation.fitting import Pace, fit, offered_work, tight_bytes
from planner.questions.validation.recording import Recording, encode, kept, read_recording, write_recording
from planner.questions.validation.rehearsal import SIGHTINGS, at_once, rehearsal_s, turns
from planner.questions.validation.simulating import expected_slowdown, stretched
from planner.questions.validation.speed import RehearsedSpeed, of_actions, of_size, speed_of
from planner.questions.validation.takes import actions_joined, in_sequence, lengths, starts
from planner.show.text.validation import (
    DISTURBING_CORES,
    METRICS,
    action_columns,
    likely_cause,
    render,
    speed_line,
    spoilt_by,
    summary,
)
from planner.units.writing import Format, Screen
from simulator.clock.metrics import summarise
from simulator.clock.records import Outcome, SimulationResult
from simulator.clock.run import simulate
from simulator.errors import DeploymentError
from simulator.rules.queues import Delays
from simulator.world.curves import Interpolated
from simulator.world.deployment import BatchingPolicy, Deployment, Drop, Scheduling
from simulator.world.model import Layer
from simulator.world.workload import Poisson, Stream, Trace, Workload

SCENARIOS = sorted(path for path in (SCENARIOS / "validation").glob("*.yaml") if path.stem != "pipeline")
"""Of single models; pipelines are tested beside."""


class Shelf:
    """A profile of any model that is asked for."""

    def get(self, model: str, gpu: str, precision: str | None = None, /):
        size = 2 * 10**8 if model == "resnet50" else 10**8
        latency_s = [0.008 + 0.002 * n for n in range(1, 9)]
        made = worlds.profile(model, latency_s, cv=0.05, layers=[Layer(model, size)])
        return replace(made, workspace=Interpolated((1, 8), (10**7, 10**7)))


def case(name: str, *overrides: str):
    path = next(p for p in SCENARIOS if p.stem == name)
    return fit(load_scenario(path, overrides), worlds.CARD, Shelf())


def acted(result: SimulationResult, world: Deployment) -> tuple[Actions, ...]:
    """What an executor would note: every batch and load, with what its profile says."""
    profiles = {s.model: s.replicas[0].profile for s in world.services}
    runs = [
        Actions(
            kind="run",
            model=b.model,
            device=b.device,
            start_s=b.start_s,
            batch=b.count,
            expected_s=np.array([profiles[b.model].latency(n) for n in b.count]),
            actual_s=b.finish_s - b.start_s,
        )
        for b in result.batches
    ]
    loads = [
        Actions(
            kind="load",
            model=load.model,
            device=load.device,
            start_s=np.array([load.start_s]),
            batch=np.zeros(1, dtype=np.int32),
            expected_s=np.array([profiles[load.model].load(load.size_bytes)]),
            actual_s=np.array([load.finish_s - load.start_s]),
        )
        for load in result.loads
    ]
    return (*runs, *loads)


def harness(world: Deployment, waited_s: float) -> tuple[Actions, ...]:
    """What an executor that takes so long notes, for some batches that found the device idle and some that waited."""
    return tuple(
        Actions(
            kind=kind,
            model=world.services[0].model,
            device=device.id,
            start_s=np.arange(10.0),
            batch=np.ones(10, dtype=np.int32),
            expected_s=np.zeros(10),
            actual_s=np.full(10, waited_s),
        )
        for device in world.devices
        for kind in ("wake", "follow")
    )


def recorded(
    world: Deployment,
    workload: Workload,
    *,
    seed: int = 7,
    slower: float | dict[str, float] = 1.0,
    waited_s: float = 1e-4,
    duration_s: float = 10.0,
    **known,
) -> Recording:
    """A run as a device would give it whose run times are `slower` times what its profiles say, by an executor that
    takes `waited_s` to start a batch."""
    factors = slower if isinstance(slower, dict) else {s.model: slower for s in world.services}
    real = stretched(world, {model: {1: factor} for model, factor in factors.items()})
    delays = {d.id: Delays(repeat(waited_s), repeat(waited_s)) for d in world.devices}
    result = simulate(real, workload, duration_s, seed, delays)
    return Recording(
        scenario="made up",
        scenario_text="",
        created_at="2026-08-01T12:00:00+00:00",
        machine={"gpu": "round", "host_cpu": "some", "torch": "2.13.0"},
        result=replace(result, deployment=world),
        warmup_s=0.0,
        actions=(*acted(result, world), *harness(world, waited_s)),
        held={
            d.id: HeldMemory(
                limit_bytes=d.memory_bytes,
                counted_peak_bytes=int(result.memory[d.id].used_bytes.max()),
                workspace_bytes={},
                weight_bytes={},
                allocated_peak_bytes=None,
                context_bytes=None,
            )
            for d in world.devices
        },
        **known,
    )


@pytest.fixture(scope="module")
def swapping() -> Recording:
    made = case("swap-round-robin")
    return kept(recorded(made.deployment, made.workload, duration_s=5.0))


@pytest.fixture(scope="module")
def found(swapping: Recording) -> Validation:
    return validate(swapping)


def busy() -> tuple[Deployment, Workload]:
    world = worlds.deployment(
        worlds.service(worlds.profile("a", [0.01, 0.015, 0.02], cv=0.1), batch=BatchingPolicy(3), slo_s=0.05),
        worlds.service(worlds.profile("b", 0.02, cv=0.1), slo_s=0.1, drop=Drop.LATE),
        memory_bytes=10**9,
    )
    return world, Workload((Stream("a", Poisson(50)), Stream("b", Poisson(10))))


# Memory


def test_each_part_of_memory_stands_beside_what_was_planned_for_it() -> None:
    world, workload = busy()
    flat = Interpolated((1.0,), (3e6,))
    service = world.services[0]
    replica = replace(service.replicas[0], profile=replace(service.replicas[0].profile, slack=flat))
    world = replace(world, services=(replace(service, replicas=(replica,)), *world.services[1:]))
    seen = recorded(world, workload, duration_s=1.0)
    (name,) = seen.held
    held = replace(
        seen.held[name],
        workspace_bytes={"a": 9 * 10**6, "b": 8 * 10**6},
        weight_bytes={"a": 10**8, "b": 10**8},
        allocated_peak_bytes=210 * 10**6,
        context_bytes=5 * 10**8,
        process_peak_bytes=715 * 10**6,
    )
    parts = {
        part.kind: (part.planned_bytes, part.held_bytes) for part in memory_parts(replace(seen, held={name: held}))
    }
    assert parts == {
        MemoryKind.WEIGHTS: (2 * 10**8, 2 * 10**8),
        MemoryKind.TENSORS: (10**7, 9 * 10**6),
        MemoryKind.SLACK: (3e6 + SEGMENTS_BYTES, 5 * 10**6),
        MemoryKind.CONTEXT: (world.devices[0].context_bytes, 5 * 10**8),
    }
    without = {part.kind: part.held_bytes for part in memory_parts(seen)}
    assert set(without.values()) == {None}, "on a processor nothing of it is read"


# Fitting a scenario to a device


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_fits_a_device_at_the_load_it_names(path: Path) -> None:
    loaded = load_scenario(path)
    made = fit(loaded, worlds.CARD, Shelf())
    assert offered_work(made.deployment, made.workload.rates_rps()) == pytest.approx(loaded.scenario.validate.load)
    assert len(made.deployment.devices) == loaded.scenario.validate.processes
    result = simulate(made.deployment, made.workload, 5.0)
    assert result.request_count > 20
    assert all(np.all(r.outcome <= Outcome.RUNNING) for r in result.requests.values())


def test_the_scenarios_are_those_that_were_asked_for() -> None:
    found = {path.stem: load_scenario(path).scenario for path in SCENARIOS}
    assert {s.validate.load for s in found.values()} >= {0.3, 0.6, 0.8, 0.95}
    assert {len(s.models) for s in found.values()} == {1, 2, 4}
    swapped = {s.scheduling for s in found.values() if s.validate.memory_share == 0.5}
    assert swapped == {Scheduling.ROUND_ROBIN, Scheduling.SWAP_AWARE}
    assert any(stream.gamma and stream.gamma.cv == 4 for s in found.values() for stream in s.streams)
    assert any(s.validate.processes == 2 for s in found.values())
    assert any(s.validate.delay_scale and s.validate.batch_size > 1 for s in found.values())


def test_a_slow_device_gets_as_much_less_to_do_as_it_is_slow() -> None:
    path = next(p for p in SCENARIOS if p.stem == "batching")
    pace = Pace(run={"resnet50": {1: 2.0}})
    usual, slow = case("batching"), fit(load_scenario(path), worlds.CARD, Shelf(), pace)
    assert slow.workload.rates_rps()["resnet50"] == pytest.approx(usual.workload.rates_rps()["resnet50"] / 2)
    (one,), (two,) = usual.deployment.services, slow.deployment.services
    assert two.slo.latency_s == pytest.approx(2 * one.slo.latency_s)
    assert two.replicas[0].batching.max_queue_delay_s == pytest.approx(2 * one.replicas[0].batching.max_queue_delay_s)
    assert two.replicas[0].profile == one.replicas[0].profile


def test_slos_and_waits_are_in_run_times() -> None:
    (one,) = case("batching").deployment.services
    assert one.slo.latency_s == pytest.approx(5 * 0.024)
    assert one.replicas[0].batching == BatchingPolicy(8, pytest.approx(2 * 0.010))


def test_half_of_the_weights_fit() -> None:
    made = case("swap-round-robin")
    (device,) = made.deployment.devices
    assert device.memory_bytes == device.context_bytes + 10**7 + (2 + 1 + 1 + 1) * 10**8 // 2
    result = simulate(made.deployment, made.workload, 5.0)
    assert len(result.loads) > 10
    assert max(result.memory[device.id].used_bytes) <= device.memory_bytes


def test_memory_always_holds_the_largest_model() -> None:
    shelf = Shelf()
    pair = tuple(worlds.service(shelf.get(name, "")) for name in ("resnet50", "b"))
    assert tight_bytes(pair, 0.1, 0) == 2 * 10**8 + 10**7


def test_models_are_dealt_to_processes() -> None:
    made = case("two-processes")
    assert [s.replicas[0].devices for s in made.deployment.services] == [("process-1",), ("process-2",)]
    assert {d.memory_bytes for d in made.deployment.devices} == {worlds.CARD.memory_bytes // 2}


@pytest.mark.parametrize(
    ("name", "override", "said"),
    [
        ("one-30", "validate.batch_size=9", "validate.batch_size must be at most 8"),
        ("one-30", "validate.processes=2", "2 processes need as many models, got 1"),
        ("batching", "validate.delay_scale=1000", "Make delay_scale less or slo_scale more"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(name: str, override: str, said: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        case(name, override)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_nobody_measured_is_refused() -> None:
    class Empty:
        def get(self, *_):
            return None

    with pytest.raises(DeploymentError, match="no profile of resnet50 on round"):
        fit(load_scenario(SCENARIOS[0]), worlds.CARD, Empty())


def test_the_validate_section_is_in_the_schema() -> None:
    import yaml

    checker = Draft202012Validator(schema())
    for path in SCENARIOS:
        raw = yaml.safe_load(path.read_text())
        assert checker.is_valid(raw)
        assert not checker.is_valid({**raw, "validate": {**raw["validate"], "lod": 0.5}}), "an unknown key"


# Recordings


def test_a_recording_comes_back_as_it_was(swapping: Recording, tmp_path: Path) -> None:
    for name in ("run.json", "run.json.gz"):
        write_recording(swapping, tmp_path / name)
        again = read_recording(tmp_path / name)
        assert encode(again) == encode(swapping)
        assert summarise(again.result) == summarise(swapping.result)
    assert (tmp_path / "run.json.gz").stat().st_size < (tmp_path / "run.json").stat().st_size / 3


def test_times_are_kept_to_the_microsecond() -> None:
    world, workload = busy()
    before = recorded(world, workload)
    after = kept(before)
    for model, requests in before.result.requests.items():
        found = after.result.requests[model]
        np.testing.assert_array_equal(found.outcome, requests.outcome)
        for name in ("arrival_s", "start_s", "finish_s"):
            np.testing.assert_allclose(getattr(found, name), getattr(requests, name), atol=1.01e-6)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it ends too early"),
        (b"\x1f\x8bnonsense", "cannot be unpacked by gzip"),
        (b"[]", "has schema `None`"),
        (b'{"schema": "planner.plan/v3"}', "has schema `planner.plan/v3`"),
        (b'{"schema": "planner.recording/v1"}', "scenario: is missing"),
    ],
)
def test_what_is_no_recording_is_refused_in_a_line(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(data)
    with pytest.raises(StoreError, match=said) as caught:
        read_recording(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_write_that_fails_leaves_the_older_recording(swapping: Recording, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_recording(swapping, path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as if the disk were full
    try:
        with pytest.raises(StoreError, match=r"cannot be written: .*with --record\.$"):
            write_recording(swapping, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_recording_is_refused(swapping: Recording, tmp_path: Path) -> None:
    raw = encode(swapping)
    next(iter(raw["requests"].values()))["start"].pop()
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(StoreError, match="start: must have as many entries as `arrival`"):
        read_recording(path)


# Comparing


def test_a_device_that_is_its_profile_lies_in_the_intervals() -> None:
    inside = of = 0
    world, workload = busy()
    for seed in range(12):
        found = validate(recorded(world, workload, seed=seed), causes=False).coverage
        inside, of = inside + found.inside, of + found.of
    # 95 % are expected of figures that move together within a run: 12 runs are about 12 x 3 independent ones,
    # of which 85 % or more lie inside with a probability of 98 %.
    assert of > 150
    assert inside / of >= 0.85


def test_a_slower_device_is_seen_and_named() -> None:
    found = validate(recorded(*busy(), slower=1.3))
    assert found.coverage.share < 0.7
    assert all(model.error["p50_s"] < -0.1 for model in found.models)
    assert found.causes[0].kind is CauseKind.RUN
    assert all(one.error < -0.2 for one in found.timings)


def test_a_faster_device_is_seen_too() -> None:
    found = validate(recorded(*busy(), slower=0.8))
    assert found.causes[0].kind is CauseKind.RUN
    assert all(one.error > 0.2 for one in found.timings)


def small_and_large() -> tuple[Deployment, Workload]:
    """Two models as far apart as LeNet and ResNet-18 on a processor."""
    world = worlds.deployment(
        worlds.service(worlds.profile("lenet", 0.0004, cv=0.05), slo_s=0.05),
        worlds.service(worlds.profile("resnet18", 0.03, cv=0.05), slo_s=0.3),
        memory_bytes=10**9,
    )
    return world, Workload((Stream("lenet", Poisson(40)), Stream("resnet18", Poisson(4))))


def as_rehearsed(world: Deployment, waited_s: float) -> tuple[Actions, ...]:
    """A rehearsal in which batches took what their profiles say, and the executor so long."""
    runs = [
        replace(took(s.model, d.id, [0.95, 1.0, 1.05] * 4, at_s=n), expected_s=np.full(12, 0.1))
        for d in world.devices
        for n, s in enumerate(world.services)
    ]
    return (*runs, *harness(world, waited_s))


def test_the_harness_of_the_rehearsals_is_allowed_for() -> None:
    """Batches of 0.4 ms, started 1.5 ms after they could run: the first-order error if nobody simulated it."""
    world, workload = small_and_large()
    rehearsals = (as_rehearsed(world, 0.0015), as_rehearsed(world, 0.0015))
    run = recorded(world, workload, waited_s=0.0015, duration_s=60.0, rehearsals=rehearsals)
    found = validate(run, causes=False)
    lenet = found.models[0]
    assert lenet.measured["p50_s"] > 0.0015
    assert abs(lenet.error["p50_s"]) < 0.1
    low, high = lenet.intervals["p50_s"]
    assert low <= lenet.measured["p50_s"] <= high


def test_a_harness_that_took_longer_than_rehearsed_is_named_and_not_another_model() -> None:
    """The larger model took longer too, and more device time was lost with it: that is not what makes LeNet late."""
    world, workload = small_and_large()
    rehearsals = (as_rehearsed(world, 1e-5), as_rehearsed(world, 1e-5))
    run = recorded(
        world,
        workload,
        slower={"lenet": 1.0, "resnet18": 1.05},
        waited_s=0.0015,
        duration_s=60.0,
        rehearsals=rehearsals,
    )
    found = validate(run)
    first = found.causes[0]
    assert (first.kind, first.model) == (CauseKind.HARNESS, "")
    assert first.share == pytest.approx(1.0, abs=0.1)
    assert ("run", "resnet18") in {(cause.kind, cause.model) for cause in found.causes}


def test_run_times_of_the_model_that_errs_are_named_before_those_that_cost_more() -> None:
    world, workload = small_and_large()
    found = validate(recorded(world, workload, slower={"lenet": 2.0, "resnet18": 1.05}, duration_s=60.0))
    assert (found.causes[0].kind, found.causes[0].model) == (CauseKind.RUN, "lenet")


def test_causes_are_shares_of_an_error() -> None:
    """All of it where one thing alone was other than expected."""
    found = validate(recorded(*busy(), slower={"a": 1.0, "b": 1.5}))
    (cause,) = [one for one in found.causes if one.kind is CauseKind.RUN]
    assert cause.model == "b"
    assert cause.share == pytest.approx(1.0, abs=0.35)


def test_a_stated_error_widens_the_intervals_until_they_hold() -> None:
    world, workload = busy()
    run = recorded(world, workload, slower=1.1)
    sure, unsure = (validate(one, causes=False) for one in (run, replace(run, run_error={"a": 0.08, "b": 0.08})))
    assert sure.coverage.share < unsure.coverage.share
    assert unsure.coverage.share >= 0.85


def test_arrivals_are_those_of_the_run() -> None:
    world, workload = busy()
    found = validate(recorded(world, workload), causes=False)
    for model in found.models:
        low, high = model.intervals["throughput_rps"]
        assert high - low < 0.1 * model.measured["throughput_rps"]


def took(model: str, device: str, ratios: list[float], *, at_s: float, kind: str = "run", size: int = 1) -> Actions:
    """One action after another, each expected to take 0.1 s."""
    actual_s = 0.1 * np.array(ratios)
    return Actions(
        kind=kind,
        model=model,
        device=device,
        start_s=at_s + np.cumsum(actual_s) - actual_s,
        batch=np.full(len(ratios), size, dtype=np.int32),
        expected_s=np.full(len(ratios), 0.1),
        actual_s=actual_s,
    )


def by_turns(*, beside: float) -> tuple[Actions, ...]:
    """Two processes, each alone for a second, then both at once, when they take `beside` times as long."""
    parts = [("resnet50", "process-1"), ("tiny_yolov3", "process-2")]
    alone = [took(model, device, [1.0] * 10, at_s=n) for n, (model, device) in enumerate(parts)]
    both = [took(model, device, [beside] * 5, at_s=2.0) for model, device in parts]
    return (*alone, *both)


def rehearsal(run: float, load: float) -> tuple[Actions, ...]:
    """Of two models whose batches take `run` times as long as they should, more or less, and loads `load` times."""
    runs = [took(model, "g0", [0.9 * run, run, 1.1 * run], at_s=0.0) for model in ("a", "b")]
    return (*runs, took("a", "g0", [load], at_s=1.0, kind="load"))


def test_speed_is_the_mean_of_both_rehearsals() -> None:
    found = speed_of((rehearsal(1.2, 2.0), rehearsal(1.0, 1.0)))
    assert found.run == {"a": {1: pytest.approx(1.1)}, "b": {1: pytest.approx(1.1)}}
    assert found.load == pytest.approx({"a": 1.5})
    assert (found.before, found.after) == (pytest.approx(1.2), pytest.approx(1.0))
    assert found.cv == pytest.approx(0.1)
    assert found.run_error["a"] == {1: pytest.approx(0.1 / np.sqrt(6))}
    assert found.slowdown == {}


def test_sizes_that_a_profile_has_wrong_say_nothing_of_others() -> None:
    """Batches of 1 take 1.2 times what the profile says, batches of 8, which no queue forms here, 0.5 times."""
    runs = (took("a", "gpu", [1.2] * 4, at_s=0.0), took("a", "gpu", [0.5] * 4, at_s=1.0, size=8))
    found = speed_of((runs, runs))
    assert found.run == {"a": {1: pytest.approx(1.2), 8: pytest.approx(0.5)}}
    assert [of_size(found.run["a"], n) for n in (1, 3, 8, 16)] == pytest.approx([1.2, 1.0, 0.5, 0.5])
    assert (found.cv, found.drift) == (pytest.approx(0.0), pytest.approx(0.0)), "no noise, but another profile"
    assert found.before == pytest.approx(np.sqrt(1.2 * 0.5))


def test_a_size_that_not_every_rehearsal_saw_twice_is_left_out() -> None:
    both = [took("a", "gpu", [level] * 4, at_s=0.0) for level in (1.0, 1.4)]
    stray = took("a", "gpu", [1.4], at_s=1.0, size=3)
    found = speed_of(((both[0],), (both[1], stray)))
    assert found.run == {"a": {1: pytest.approx(1.2)}}
    assert found.after == pytest.approx(1.4)


def test_sizes_that_were_seen_once_are_thrown_together() -> None:
    """Else nothing would be known of noise and drift, and intervals would have no width."""
    once = tuple(took("a", "gpu", [ratio], at_s=size, size=size) for size, ratio in ((1, 0.9), (2, 1.0), (4, 1.1)))
    found = speed_of((once, once))
    assert found.run == {"a": {0: pytest.approx(1.0)}}
    assert (found.cv, found.run_error["a"][0]) == (pytest.approx(0.1), pytest.approx(0.1 / np.sqrt(6)))
    assert found.drift > 0


def test_a_load_of_nothing_says_nothing() -> None:
    empty = replace(took("a", "gpu", [1.0], at_s=2.0, kind="load"), expected_s=np.zeros(1))
    assert speed_of(((*rehearsal(1.0, 2.0), empty),)).load == {"a": pytest.approx(2.0)}


def test_drift_is_what_neighbouring_stretches_differ_by() -> None:
    flat = [(took("a", "gpu", [level] * 4, at_s=0.0),) for level in (1.2, 1.0)]
    found = speed_of(flat)
    # Halves do not differ, the rehearsals do: an Allan variance of (0 + 0 + ln(1.2)^2) / 3 / 2.
    assert found.drift == pytest.approx(np.log(1.2) / np.sqrt(6) * np.sqrt(1.5))
    assert speed_of((flat[0], flat[0])).drift == pytest.approx(0.0)


def test_processes_that_overlap_tell_how_much_they_slow_each_other_down() -> None:
    found = speed_of((by_turns(beside=1.5),))
    assert found.slowdown == pytest.approx({"process-1": 1.5, "process-2": 1.5})
    assert found.run == {model: {1: pytest.approx(1.0)} for model in ("resnet50", "tiny_yolov3")}, (
        "what overlaps is not the speed alone"
    )
    assert found.after is None


def test_a_long_run_is_served_in_takes_of_about_a_minute() -> None:
    assert lengths(30) == (30,)
    assert lengths(80) == (80,)
    assert lengths(240) == (60, 60, 60, 60)
    assert lengths(100) == (50, 50)


def in_takes(*slower: float, rehearsed: tuple[float, ...]) -> Recording:
    """A run in takes of 20 s whose batches take other times in each, and the rehearsals around them."""
    world, workload = busy()
    parts = [recorded(world, workload, seed=n, slower=factor, duration_s=20.0) for n, factor in enumerate(slower)]
    begin_s = starts([20.0] * len(parts))
    moved = [
        replace(one, start_s=one.start_s + at_s)
        for part, at_s in zip(parts, begin_s, strict=True)
        for one in part.actions
    ]
    return kept(
        replace(
            parts[0],
            result=in_sequence([part.result for part in parts]),
            actions=actions_joined(moved),
            takes_s=(20.0,) * len(parts),
            rehearsals=tuple(rehearsal(level, 1.0) for level in rehearsed),
        )
    )


def test_takes_are_one_run() -> None:
    found = in_takes(1.0, 1.0, rehearsed=(1.0, 1.0, 1.0))
    assert found.result.duration_s == 40
    for requests in found.result.requests.values():
        assert np.all(np.diff(requests.arrival_s) >= 0)
        assert requests.arrival_s.max() > 20
        done = requests.outcome == Outcome.FINISHED
        assert np.all(requests.finish_s[done] > requests.start_s[done])
    for batches in found.result.batches:
        assert np.all(np.diff(batches.start_s) > 0)
    assert encode(found) == encode(kept(found))


def test_each_take_is_simulated_at_the_speed_around_it() -> None:
    """A device that is 1.6 times as slow in the second take: one speed for both would be wrong for each."""
    drifting = in_takes(1.0, 1.6, rehearsed=(1.0, 1.3, 1.9))
    found = validate(drifting, causes=False)
    assert [speed.run["a"][1] for speed in found.speeds] == [pytest.approx(1.15), pytest.approx(1.6)]
    alone = validate(drifting, by_profiles=True, causes=False)
    assert abs(found.models[0].error["p95_s"]) < abs(alone.models[0].error["p95_s"])
    assert found.coverage.share > alone.coverage.share
    expected_s = {one.model: one.expected_s for one in found.timings}
    assert expected_s["b"] == pytest.approx(0.02 * (1.15 + 1.6) / 2, rel=0.05)


def test_takes_must_last_as_long_as_the_run(tmp_path: Path) -> None:
    raw = encode(in_takes(1.0, 1.0, rehearsed=(1.0, 1.0, 1.0)))
    raw["takes"][0] += 1000
    path = tmp_path / "long.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(StoreError, match="takes: must last as long as the run, 40 s"):
        read_recording(path)


def test_by_profiles_alone_the_rehearsals_say_nothing() -> None:
    world, workload = busy()
    slow = (rehearsal(1.3, 1.0), rehearsal(1.3, 1.0))
    run = recorded(world, workload, slower=1.3, rehearsals=slow)
    found = validate(run, by_profiles=True, causes=False)
    assert found.by_profiles
    assert found.coverage.share < validate(run, causes=False).coverage.share
    assert found.models == validate(replace(run, rehearsals=()), causes=False).models


def test_sessions_joined_make_profiles_of_their_mean_and_their_spread() -> None:
    world, workload = busy()
    earlier = [recorded(world, workload, rehearsals=(rehearsal(level, 1.0),)) for level in (1.1, 1.21)]
    run = recorded(world, workload, slower=1.25, run_error={"a": 0.03, "b": 0.03}, load_error={"a": 0.0, "b": 0.0})
    joined = of_sessions(run, earlier)
    for before, after in zip(run.result.deployment.services, joined.result.deployment.services, strict=True):
        assert after.replicas[0].profile.latency(1) == pytest.approx(1.1 * before.replicas[0].profile.latency(1))
    session_cv = np.log(1.1) * np.sqrt(1 + 1 / 3)
    assert joined.run_error["a"] == pytest.approx(np.hypot(0.03, session_cv))
    assert joined.load_error["b"] == pytest.approx(session_cv)
    alone, of_three = (validate(one, by_profiles=True, causes=False) for one in (run, joined))
    assert of_three.coverage.share > alone.coverage.share
    assert of_three.coverage.share >= 0.85
    assert of_sessions(run, ()).run_error == run.run_error, "one session says nothing of the next"


RECORDINGS = Path("scenarios/validation/recordings")
committed_run = cache(read_recording)
"""Recordings are large, and two tests read all of them."""


def test_recordings_that_kept_the_harness_by_batch_have_it_among_their_actions() -> None:
    """All of them; the first of each machine is also written as it was read."""
    for folder in sorted(RECORDINGS.iterdir()):
        recordings = list(map(committed_run, sorted(folder.glob("*.json.gz"))))
        for found in recordings:
            waits = [one for one in found.actions if one.kind in ("wake", "follow")]
            runs = [one for one in found.actions if one.kind == "run"]
            assert sum(len(one.start_s) for one in waits) == sum(len(one.start_s) for one in runs)
            assert {one.kind for one in waits} == {"wake", "follow"}
        assert encode(recordings[0]) == encode(kept(recordings[0]))


def row(kind: str, start_s: Sequence[float], actual_s: Sequence[float], model: str = "a") -> Actions:
    """Actions on one device."""
    ones = np.ones(len(start_s))
    return Actions(
        kind=kind,
        model=model,
        device="g0",
        start_s=np.array(start_s),
        batch=ones.astype(np.int32),
        expected_s=ones,
        actual_s=np.array(actual_s),
    )


def test_a_batch_and_a_load_that_met_are_timed_as_if_they_had_not() -> None:
    """12 s of a batch, 4 of them beside a load of 4 s that only then took twice as long: 10 s and 2 s."""
    run, load = apart([row("run", [0.0], [12.0]), row("load", [8.0], [4.0], "b")], {"a": 1.5, "b": 2.0})
    assert (run.actual_s, load.actual_s) == (10.0, 2.0)
    alike = apart([row("run", [0.0], [12.0]), row("load", [8.0], [4.0], "b")], {"a": 1.0, "b": 1.0})
    assert [one.actual_s for one in alike] == [12.0, 4.0]


def test_room_for_weights_is_made_by_their_load_and_not_by_the_harness() -> None:
    """The second batch waits 3 s while others go and 5 s for its weights; the third finds them there."""
    actions = [
        row("follow", [0.0, 1.0, 10.0], [0.5, 3.0, 0.25]),
        row("load", [4.0], [5.0]),
        row("run", [0.5, 9.0, 10.25], [0.5, 1.0, 1.0]),
    ]
    waits, load, _ = apart(actions, {})
    assert waits.actual_s.tolist() == [0.5, 0.25]
    assert (load.start_s, load.actual_s) == (1.0, 8.0)


def test_what_serving_begins_with_is_no_delay_of_later_batches() -> None:
    """The first batch of a rehearsal is due as the clock starts; the program began meanwhile."""
    found = of_actions([row("follow", [0.0, 1.0], [0.07, 5e-5])])
    assert found.follow["g0"].tolist() == [5e-5]


def test_a_run_nobody_rehearsed_has_no_speed() -> None:
    assert speed_of(()) == RehearsedSpeed()


def test_a_device_as_slow_as_it_was_rehearsed_lies_in_the_intervals() -> None:
    world, workload = busy()
    slow = (rehearsal(1.3, 1.0), rehearsal(1.3, 1.0))
    found = validate(recorded(world, workload, slower=1.3, rehearsals=slow), causes=False)
    assert found.coverage.share >= 0.85
    assert (found.speeds[0].before, found.speeds[-1].after) == (pytest.approx(1.3), pytest.approx(1.3))


def test_all_models_take_turns_in_a_rehearsal() -> None:
    made = case("four-models")
    found = turns(made, 10.0)
    sizes = {model: np.unique(demand.arrival_s, return_counts=True)[1] for model, demand in found.items()}
    assert all(set(counts) == {1, 2} for counts in sizes.values())
    assert max(map(len, sizes.values())) - min(map(len, sizes.values())) <= 1
    assert max(demand.arrival_s.max() for demand in found.values()) < 10.0


def test_a_rehearsal_sees_every_size_or_in_little_time_every_doubling() -> None:
    made = case("batching")
    for lasts_s, sizes in ((10.0, {1, 2, 3, 4, 5, 6, 7, 8}), (0.5, {1, 2, 4, 8})):
        (found,) = turns(made, lasts_s).values()
        seen = np.unique(np.unique(found.arrival_s, return_counts=True)[1], return_counts=True)
        assert set(seen[0]) == sizes
        assert min(seen[1]) >= SIGHTINGS or lasts_s < 1


@pytest.mark.parametrize("name", ["one-30", "one-60", "one-95", "two-models", "swap-round-robin"])
def test_a_rehearsal_keeps_the_device_as_busy_as_the_run(name: str) -> None:
    made = case(name)
    again = Workload(tuple(Stream(m, Trace(d.arrival_s, 60.0)) for m, d in turns(made, 60.0).items()))
    run, rehearsed = (
        summarise(simulate(made.deployment, asked, 60.0)).devices["process-1"] for asked in (made.workload, again)
    )
    assert rehearsed.utilization + rehearsed.load_share == pytest.approx(run.utilization + run.load_share, abs=0.08)


def test_batches_at_once_are_those_of_a_busy_period() -> None:
    assert [at_once(load) for load in (0.05, 0.3, 0.6, 0.8, 0.95)] == [1, 1, 2, 5, 20]


def test_a_rehearsal_lasts_a_fifth_of_the_run_and_ten_seconds_at_most() -> None:
    assert rehearsal_s(30) == 6
    assert rehearsal_s(600) == 10


def test_processes_slow_each_other_down() -> None:
    made = case("two-processes")
    run = recorded(made.deployment, made.workload)
    free, tied = (validate(one, causes=False) for one in (run, replace(run, rehearsals=(by_turns(beside=2.0),))))
    for before, after in zip(free.models, tied.models, strict=True):
        factor = after.simulated["p50_s"] / before.simulated["p50_s"]
        assert 1.1 < factor < 2


def test_by_profiles_two_processes_leave_each_other_the_time_of_their_hosts() -> None:
    """Kernels keep the GPU busy for half of one's time and 0.8 of the other's: 1.4 times while the other runs too."""
    made = case("two-processes")

    def with_kernels(*shares: float | None) -> Deployment:
        services = []
        for service, share in zip(made.deployment.services, shares, strict=True):
            (replica,) = service.replicas
            busy_s = share and Interpolated((1.0,), (share * replica.profile.latency(1),))
            known = replace(replica, profile=replace(replica.profile, busy_s=busy_s))
            services.append(replace(service, replicas=(known,)))
        return replace(made.deployment, services=tuple(services))

    assert expected_slowdown(with_kernels(0.5, None)) == {}
    assert expected_slowdown(busy()[0]) == {}, "one process has none beside it"
    tied = with_kernels(0.5, 0.8)
    assert expected_slowdown(tied) == {device.id: pytest.approx(1.4) for device in tied.devices}
    run = kept(recorded(tied, made.workload))
    found, free = (
        validate(one, by_profiles=True, causes=False) for one in (run, recorded(made.deployment, made.workload))
    )
    assert "1.4 times as long beside the others" in " ".join(render(found, Format.TABLE, Screen(120)).split())
    for before, after in zip(free.models, found.models, strict=True):
        assert 1.05 < after.simulated["p50_s"] / before.simulated["p50_s"] < 1.4


def test_loading_is_compared(found: Validation) -> None:
    assert found.device.measured["load_share"] > 0.02
    low, high = found.device.intervals["load_share"]
    assert low <= found.device.measured["load_share"] <= high
    assert found.device.error["peak_memory_bytes"] == 0
    assert {one.kind for one in found.timings} == {"run", "load"}


def test_the_same_recording_gives_the_same_bytes(swapping: Recording, found: Validation) -> None:
    assert render(found, Format.JSON, Screen()) == render(validate(kept(swapping)), Format.JSON, Screen())


def test_a_run_that_stopped_early_is_compared_as_far_as_it_came() -> None:
    world, workload = busy()
    whole = recorded(world, workload)
    result = simulate(world, workload, 5.0, 7)
    found = validate(replace(whole, result=result, actions=(), stopped="interrupted after 5 s"), causes=False)
    assert (found.stopped, found.duration_s) == ("interrupted after 5 s", 5)


def test_other_programs_are_mentioned() -> None:
    world, workload = busy()
    alone = replace(recorded(world, workload, duration_s=2.0), others_cores=0.1)
    assert not [*spoilt_by(validate(alone, 3, causes=False))]
    assert len([*spoilt_by(validate(replace(alone, others_cores=1.5), 3, causes=False))]) == 1


def test_chance_is_not_named_where_the_device_was_not_the_one_that_was_profiled() -> None:
    world, workload = busy()
    quiet = replace(validate(recorded(world, workload, duration_s=2.0), 3), causes=(), others_cores=0.0)
    quiet = replace(quiet, largest_error=ErringFigure(name="a", metric="p99_s", error=0.2))
    as_profiled = replace(quiet, speeds=(RehearsedSpeed(before=1.1, after=0.9),))
    slow = replace(quiet, speeds=(RehearsedSpeed(before=215.0, after=190.0),))
    assert likely_cause(as_profiled).endswith("chance of one run.")
    assert "190 to 215 times what profiles say" in likely_cause(slow)
    assert "threads" in speed_line(slow.speeds)
    assert "this device" not in speed_line(slow.speeds)  # whoever replays a recording may not have it
    assert "expected over actual" in [column.title for column in action_columns(slow)]
    assert "threads" not in speed_line(as_profiled.speeds)
    assert "other programs" in likely_cause(replace(as_profiled, others_cores=1.0))


def test_models_that_differ_much_from_their_profiles_are_told_one_by_one() -> None:
    world, workload = busy()
    found = validate(recorded(world, workload, duration_s=2.0), 3)
    timing = next(one for one in found.timings if one.kind == "run")
    timings = (
        replace(timing, model="tags", count=10, actual_s=0.097),
        replace(timing, model="lenet", count=30, actual_s=0.001),
    )
    speed = RehearsedSpeed(before=2.58, after=2.58, run={"lenet": {1: 6.5, 2: 6.5}, "tags": {1: 1.03}})
    apart = replace(found, timings=timings, speeds=(speed,), causes=(), others_cores=0.0)
    said = "batches of lenet took 6.5 times what its profile says (3 % of all run time), of tags 1.03 times (97 %)"
    (line,) = [line for line in summary(apart) if line.startswith("Speed")]
    assert said in line
    assert "2.58" not in line
    alike = replace(apart, speeds=(replace(speed, run={"lenet": {1: 2.6}, "tags": {1: 2.5}}),))
    (line,) = [line for line in summary(alike) if line.startswith("Speed")]
    assert "2.58" in line


def test_a_run_in_which_nothing_finished_is_said() -> None:
    world, _ = busy()
    nothing = Workload((Stream("a", Trace(np.empty(0), 10.0)), Stream("b", Trace(np.empty(0), 10.0))))
    found = validate(replace(recorded(world, nothing), actions=()))
    assert "-" in render(found, Format.TABLE, Screen())
    json.loads(render(found, Format.JSON, Screen()))


def test_errors_are_relative_or_points() -> None:
    assert error_of("p50_s", 0.104, 0.100) == pytest.approx(0.04)
    assert error_of("slo_attainment", 0.98, 0.99) == pytest.approx(-0.01)
    assert least_and_most(np.array([np.nan, 2.0, 1.0])) == (1.0, 2.0)


# What people and programs read


def test_json_has_the_same_metrics_on_both_sides(found: Validation) -> None:
    raw = json.loads(render(found, Format.JSON, Screen()))
    assert raw["schema"] == "planner.validation/v2"
    for row in raw["models"]:
        assert set(row) == {"name", "measured", "simulated", "error", "intervals"}
        assert all(set(row[part]) == set(MODEL_METRICS) for part in ("measured", "simulated", "error", "intervals"))
    assert set(raw["device"]["measured"]) == set(METRICS) - set(MODEL_METRICS)
    assert set(raw["coverage"]) == {"inside", "of", "fixed", "share"}
    assert {
        "overhead",
        "machine",
        "speeds",
        "by_profiles",
        "timings",
        "causes",
        "largest_error",
        "likely_cause",
    } <= set(raw)


@pytest.mark.parametrize("width", [60, 120])
def test_the_table_fits_the_screen(found: Validation, width: int) -> None:
    text = render(found, Format.TABLE, Screen(width))
    assert max(map(len, text.splitlines())) <= width
    for said in ("Largest error:", "Likely cause:", "Intervals (95 % for one run):", "Harness:", "What actions took"):
        assert said in text


def test_the_page_is_made_from_recordings(tmp_path: Path) -> None:
    folder = tmp_path / "recordings" / "some-machine"
    folder.mkdir(parents=True)
    write_recording(recorded(*busy(), duration_s=2.0), folder / "busy.json.gz")
    document = tmp_path / "page.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    renew(document, tmp_path / "recordings")
    text = document.read_text()
    assert text.startswith(f"before\n{BEGIN}")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "some-machine" in text
    renew(document, tmp_path / "recordings")
    assert document.read_text() == text


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("mine")
    with pytest.raises(StoreError, match="has no"):
        renew(document, tmp_path)
    assert document.read_text() == "mine"


SHORT = {"h100-16-cores", "h200-16-cores"}
"""Machines of one run of half a minute, of which an average says little: docs/validation.md tells how far off it is."""


@pytest.fixture(scope="module", params=sorted(path.name for path in RECORDINGS.iterdir()))
def committed(request) -> Sequence[Validation]:
    """All runs of one machine, compared with what the simulator says today."""
    return machine(request.param).rehearsed


@cache
def machine(name: str) -> Folder:
    """All runs of one machine in all ways."""
    return folder_of(name, list(map(committed_run, sorted((RECORDINGS / name).glob("*.json.gz")))))


def errors(answers: Sequence[Validation], metric: str) -> np.ndarray:
    """Sizes of the errors of one metric, over all models of all runs."""
    found = np.array([model.error[metric] for answer in answers for model in answer.models])
    return np.abs(found[np.isfinite(found)])


@pytest.mark.parametrize("metric", ["p50_s", "p95_s"])
def test_latency_errs_by_less_than_ten_percent_in_the_median(metric: str) -> None:
    """In runs of four minutes. The percentiles of the hundred requests of a shorter run err by more by chance alone."""
    assert np.median(errors(machine("xeon-2-cores").rehearsed, metric)) < 0.10


@pytest.mark.parametrize("name", sorted({path.parent.name for path in RECORDINGS.rglob("*.json.gz")} - SHORT))
def test_the_share_within_the_slo_errs_by_less_than_two_points_on_average(name: str) -> None:
    assert np.mean(errors(machine(name).rehearsed, "slo_attainment")) < 0.02


def test_measured_figures_lie_in_their_intervals(committed: Sequence[Validation]) -> None:
    assert pooled(committed).share >= 0.85


def test_profiles_of_three_sessions_hold_nine_figures_in_ten() -> None:
    """By profiles alone, each run told from three sessions before it, on a processor whose speed moves by a quarter."""
    found = machine("xeon-2-cores")
    for answers in found.joined.values():
        assert pooled(answers).share >= 0.895
    assert np.median(errors(found.joined[3], "p95_s")) < np.median(errors(found.alone, "p95_s"))
    assert np.median(errors(found.joined[4], "p95_s")) < 0.20


def test_every_scenario_is_recorded() -> None:
    assert len(machine("xeon-2-cores").rehearsed) == len(SCENARIOS)


def test_profiles_of_three_sessions_joined_hold_on_a_quiet_processor() -> None:
    """Served minutes after three calibrations, simulated by their profiles alone."""
    found = machine("epyc-2-cores").alone
    assert pooled(found).share >= 0.9
    assert np.median(errors(found, "p95_s")) < 0.2


def test_the_run_of_a_pipeline_is_as_near_as_was_aimed_at() -> None:
    """Of frames, and of every stage: p50 within 10 %, p95 within 15 %, loss within a point."""
    (found,) = machine("epyc-2-cores-pipeline").rehearsed
    for row in found.models:
        assert abs(row.error["p50_s"]) < 0.10
        assert abs(row.error["p95_s"]) < 0.15
        assert abs(row.error["processed_fraction"]) < 0.01


def test_every_run_is_rehearsed_and_undisturbed(committed: Sequence[Validation]) -> None:
    assert all(answer.speeds[-1].after and not answer.stopped for answer in committed)
    assert all((answer.others_cores or 0.0) <= DISTURBING_CORES for answer in committed)


def test_no_run_held_more_memory_than_was_planned(committed: Sequence[Validation]) -> None:
    assert all(answer.device.error["peak_memory_bytes"] >= 0 for answer in committed)


def test_the_page_shows_what_the_committed_recordings_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.making.validation_page.folder_of", lambda name, _: machine(name))
    page = tmp_path / "validation.md"
    page.write_text(Path("docs/validation.md").read_text())
    renew(page, RECORDINGS)
    assert page.read_text() == Path("docs/validation.md").read_text()
