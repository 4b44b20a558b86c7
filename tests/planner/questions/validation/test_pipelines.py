"""Pipelines in a validation: what is shown, how a core's work is fitted and rehearsed, recordings, one real run."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.commands import planner
from support.paths import SCENARIOS

from calibrate.serving.served import FOLLOW, WAKE, Actions, HeldMemory
from planner.io.load import load_scenario
from planner.io.store import StoreError
from planner.questions.validation import bench as validation_bench
from planner.questions.validation import pipelines
from planner.questions.validation.answer import CauseKind
from planner.questions.validation.bench import THREADS, core_kept
from planner.questions.validation.comparison import validate
from planner.questions.validation.fitting import Case, Pace, busiest, fit
from planner.questions.validation.pipelines import CorePace, at_pace, core_stages, scene_of
from planner.questions.validation.recording import Recording, encode, kept, read_recording, write_recording
from planner.questions.validation.rehearsal import rehearsal_s
from planner.questions.validation.simulating import spread, stretched
from planner.questions.validation.speed import speed_of, thinned
from planner.questions.validation.takes import cut, in_sequence
from planner.show.text.validation import render
from planner.units.writing import Format, Screen
from simulator.clock.metrics import summarise
from simulator.clock.records import Outcome, SimulationResult
from simulator.clock.run import replicate, simulate
from simulator.errors import DeploymentError
from simulator.machine_code import cores
from simulator.rules.queues import Delays
from simulator.world.curves import Interpolated
from simulator.world.deployment import Deployment
from simulator.world.model import Layer
from simulator.world.pipelines import FanOutKind
from simulator.world.workload import draw

PATH = SCENARIOS / "validation" / "pipeline.yaml"
SINGLE = SCENARIOS / "validation" / "two-models.yaml"
PROBED_S = {"decode_1280x720_s": 0.004, "letterbox_1280x720_s": 0.008, "crop_1280x720_s": 0.001}
DETECT_S, CLASSIFY_S = (0.020, 0.036, 0.052, 0.068), (0.004, 0.006, 0.008, 0.010)


class Shelf:
    """Profiles of the detector and the classifier."""

    def get(self, model: str, gpu: str, precision: str | None = None, /):
        latency_s = DETECT_S if "detector" in model else CLASSIFY_S
        made = worlds.profile(model, latency_s, cv=0.05, layers=[Layer(model, 10**6)])
        return replace(made, workspace=Interpolated((1, 4), (10**7, 10**7)))


def case(*overrides: str, slower: Mapping[str, float] | None = None, found: tuple[int, ...] = ()) -> Case:
    pace = Pace(core=CorePace(probed_s=PROBED_S, slower=slower or {}, found=found))
    return fit(load_scenario(PATH, overrides), worlds.CARD, Shelf(), pace)


# What is shown


def test_the_video_shows_as_many_objects_as_the_fan_out_says() -> None:
    """Poisson of mean 2.5 in 60 pictures: the mean is within 5 standard errors, and no picture has more than lanes."""
    counts = np.array(case().scene.counts)
    assert len(counts) == pipelines.PICTURES
    assert abs(counts.mean() - 2.5) <= 5 * np.sqrt(2.5 / len(counts))
    assert counts.max() <= pipelines.MOST_OBJECTS
    recorded = case("pipelines[0].stages[3].after.fan_out={counts: [4, 0, 12]}").scene
    assert recorded.counts[:4] == (4, 0, pipelines.MOST_OBJECTS, 4)


def test_what_the_detector_found_is_what_follows() -> None:
    (pipeline,) = case(found=(1, 0, 2)).deployment.pipelines
    crop = next(stage for stage in pipeline.stages if stage.name == "crop")
    assert crop.after[0].fan_out.kind is FanOutKind.TABLE
    assert crop.after[0].fan_out.counts == (1, 0, 2)


def test_a_scenario_of_single_models_shows_nothing() -> None:
    assert scene_of(load_scenario(SCENARIOS / "validation" / "one-30.yaml").scenario) is None


# Fitting


def test_the_slo_is_in_work_of_one_frame_and_holds_for_all_stages() -> None:
    """4 + 8 + 20 ms, then one object of 1 + 4 ms: 37 ms, and 8 times that is allowed."""
    made = case(found=(1,)).deployment
    assert made.pipelines[0].slo.latency_s == pytest.approx(8 * 0.037)
    assert {service.slo for service in made.services} == {made.pipelines[0].slo}


def test_the_load_is_that_of_whatever_has_most_to_do() -> None:
    """A frame keeps the device for 17 ms in full batches of 4 and 2.5 ms for one object; the core for 13 ms."""
    made = case(found=(1,))
    (rate_rps,) = made.workload.rates_rps().values()
    assert rate_rps == pytest.approx(0.6 / 0.0195)
    slow_core = case(found=(1,), slower={"road.decode": 10.0})
    (rate_rps,) = slow_core.workload.rates_rps().values()
    assert rate_rps == pytest.approx(0.6 / 0.049)
    pace = Pace(core=CorePace(slower={"road.decode": 10.0}))
    assert busiest(slow_core.deployment, {"road": rate_rps}, pace) == pytest.approx(0.6)


STAGE = "pipelines[0].stages"
LETTERBOX, DETECT, CROP = f"{STAGE}[1]", f"{STAGE}[2]", f"{STAGE}[3]"


SLO = "slo: {latency: 1 s, attainment: 95 %}"


def short(name: str) -> str:
    """A pipeline of one stage."""
    return f"{{name: {name}, {SLO}, stages: [{{name: see, model: lenet}}]}}"


def asked(*names: str) -> str:
    """Streams that ask these."""
    return f"streams=[{', '.join(f'{{model: {name}, rate: 1 rps}}' for name in names)}]"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ([f"{STAGE}[0].resolution=640x480"], "stages[decode]: for real h264 of 1280x720 or 1920x1080 is decoded, got"),
        ([f"{STAGE}[0].decode=av1"], "stages[decode]: for real h264 of 1280x720 or 1920x1080 is decoded, got av1"),
        ([f"{LETTERBOX}={{name: letterbox, decode: h264, after: decode}}"], "one decodes for real, got decode, letter"),
        ([f"{STAGE}[0].after=up", f"{LETTERBOX}={{name: up, host: 1 ms}}", f"{DETECT}.after=decode"], "got up. Leave"),
        (
            [f"{CROP}={{name: up, copy: 1 MB, after: detect}}", f"{STAGE}[4].after=up"],
            "stages[up].copy: copies are not served for real. Leave the stage out.",
        ),
        (
            [f"{CROP}={{name: crop, host: 1 ms}}"],
            "stages[crop].after: crops are of what one model found, got none. Name the detector",
        ),
        ([f"{CROP}.after=letterbox"], "stages[crop].after: crops are of what one model found, got letterbox"),
        ([f"{CROP}.after=[letterbox, detect]"], "crops are of what one model found, got letterbox, detect"),
        (
            [f"{CROP}.after={{stage: detect, share: 50 %}}"],
            "stages[crop].after.share: every object is cut out, got 0.5",
        ),
        ([f"{DETECT}.input=3x320x320"], "stages[detect].input: crops follow it, so it sees 3x640x640, got 3x320x320"),
        (
            [f"{DETECT}={{name: detect, model: tiny_yolov3, after: letterbox}}"],
            "stages[detect].input: crops follow it, so it sees 3x640x640, got none",
        ),
        ([f"{DETECT}.after=decode"], "so it sees what a stage `letterbox` makes, got decode. Name such a stage"),
        (
            [f"{DETECT}={{name: detect, factory: 'calibrate.zoo.moving:detector', input: 3x640x640}}"],
            "so it sees what a stage `letterbox` makes, got none. Name such a stage",
        ),
        (
            [f"{LETTERBOX}.name=resize", f"{DETECT}.after=resize"],
            "stages[detect].after: crops follow it, so it sees what a stage `letterbox` makes, got resize",
        ),
        (
            [f"{DETECT}.after={{stage: letterbox, share: 50 %}}"],
            "stages[detect].after: crops follow, so each frame goes",
        ),
        ([f"{LETTERBOX}.after={{stage: decode, fan_out: 2}}"], "stages[letterbox].after: crops follow, so each frame"),
        (
            [f"{LETTERBOX}={{name: letterbox, host: 10 ms}}"],
            "stages[letterbox].after: crops follow, so one way leads here from a stage that de",
        ),
        ([f"{STAGE}[0]={{name: grab, host: 1 ms}}", f"{LETTERBOX}.after=grab"], "stages[grab].after: crops follow, so"),
        (
            ["validate.processes=2"],
            "validate.processes: must be 1 where a pipeline is served for real, got 2. Leave it",
        ),
        (
            [f"models=[{{name: m, model: lenet, {SLO}}}]", asked("road", "m")],
            "models[m]: a pipeline is served for real by itself",
        ),
        (
            [f"pipelines=[{short('road')}, {short('lane')}]", asked("road", "lane")],
            "pipelines: one is served for real, got 2: road, lane. Leave the others out.",
        ),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_line_before_anything_is_measured(
    overrides: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation_bench, "provenance", None)  # whoever looks for the device raises a TypeError
    bench = validation_bench.ValidationBench(device="cpu", catalog=None, directories=())
    with pytest.raises(DeploymentError, match=re.escape(says)) as refused:
        validation_bench.record(load_scenario(PATH, overrides), bench, 1.0, "", print)
    assert "\n" not in str(refused.value)


def test_what_cannot_be_served_ends_with_2() -> None:
    code, out, err = planner("validate", PATH, "--device", "cpu", "--set", f"{CROP}={{name: crop, host: 1 ms}}")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "pipelines[road].stages[crop].after: crops are of what one model found, got none." in err


def test_the_detector_sees_what_the_step_before_it_makes() -> None:
    from calibrate.devices import host

    assert pipelines.LETTERBOXED == (3, host.SIDE, host.SIDE)
    assert next(pipelines.unservable(load_scenario(PATH).scenario), None) is None


def test_a_time_that_nobody_measured_is_refused() -> None:
    with pytest.raises(DeploymentError, match="nobody measured how long a core takes to decode"):
        case(f"{STAGE}[0].resolution=1920x1080")


# Runs made up: a machine whose core or device is slower than was measured


def acted(result: SimulationResult, world: Deployment) -> tuple[Actions, ...]:
    """What an executor would note of a simulated run."""
    profiles = {service.model: service.replicas[0].profile for service in world.services}
    runs = [
        action(
            "run", b.model, b.device, b.start_s, b.count, [profiles[b.model].latency(n) for n in b.count], b.finish_s
        )
        for b in result.batches
    ]
    usual_s = {
        world.pipelines[0].name_of(stage): getattr(stage.work, "service_s", 0.0) for stage in world.pipelines[0].stages
    }
    works = []
    for name in core_stages(world.pipelines):
        items = result.requests[name]
        done = items.outcome == Outcome.FINISHED
        ones = np.ones(int(done.sum()), dtype=np.int32)
        expected_s = usual_s[name] * ones
        order = np.argsort(items.start_s[done], kind="stable")
        works.append(
            action("work", name, "core", items.start_s[done][order], ones, expected_s, items.finish_s[done][order])
        )
    return (*runs, *works)


def waited(result: SimulationResult, world: Deployment) -> Iterator[Actions]:
    """What an executor would note of the time before items of a core, which could begin when they had come and the one
    before was done."""
    items = [
        (*times, name)
        for name in core_stages(world.pipelines)
        for times in zip(*attrgetter("start_s", "arrival_s", "finish_s")(result.requests[name]), strict=True)
        if times[2] > 0
    ]
    waits: dict[tuple[str, str], list[tuple[float, float]]] = {}
    free_s = 0.0
    for start_s, came_s, finish_s, name in sorted(items):
        kind = WAKE if came_s > free_s else FOLLOW
        waits.setdefault((kind, name), []).append((max(came_s, free_s), start_s))
        free_s = finish_s
    for (kind, name), spans in waits.items():
        could_s, start_s = zip(*spans, strict=True)
        yield action(kind, name, "core", could_s, np.ones(len(spans)), np.zeros(len(spans)), start_s)


def action(kind: str, model: str, device: str, start_s, batch, expected_s, finish_s) -> Actions:
    return Actions(
        kind=kind,
        model=model,
        device=device,
        start_s=np.array(start_s),
        batch=np.array(batch, dtype=np.int32),
        expected_s=np.array(expected_s),
        actual_s=np.array(finish_s) - np.array(start_s),
    )


def recorded(
    made: Case,
    *,
    core: float = 1.0,
    device: float = 1.0,
    rehearsed: float | None = None,
    seed: int = 7,
    spread: tuple[float, ...] = (0.9, 1.1),
    wakes_s: float = 0.0,
) -> Recording:
    """A run of 10 s on a machine that is so much slower, after a rehearsal on one as slow as `rehearsed`. Items of its
    core take `spread` times their mean, and wait so long where it was idle."""
    names = core_stages(made.deployment.pipelines)

    def run(core: float, seed: int) -> SimulationResult:
        slow = at_pace(made.deployment, dict.fromkeys(names, core), dict.fromkeys(names, spread))
        slow = stretched(slow, {service.model: {1: device} for service in slow.services})
        delays = {name: Delays(repeat(wakes_s), repeat(0.0)) for name in names} if wakes_s else None
        return simulate(slow, made.workload, 10.0, seed, delays)

    def noted(result: SimulationResult) -> tuple[Actions, ...]:
        return (*acted(result, world), *(waited(result, world) if wakes_s else ()))

    result = run(core, seed)
    world = made.deployment
    rehearsals = [noted(run(rehearsed, seed + n)) for n in (100, 101)] if rehearsed else []
    return Recording(
        scenario="made up",
        scenario_text="",
        created_at="2026-11-01T12:00:00+00:00",
        machine={"gpu": "round"},
        result=replace(result, deployment=world),
        warmup_s=0.0,
        actions=noted(result),
        held={
            one.id: HeldMemory(
                limit_bytes=one.memory_bytes,
                counted_peak_bytes=int(result.memory[one.id].used_bytes.max()),
                workspace_bytes={},
                weight_bytes={},
                allocated_peak_bytes=None,
                context_bytes=None,
            )
            for one in world.devices
        },
        rehearsals=tuple(rehearsals),
    )


def rows(found) -> dict[str, Mapping[str, float]]:
    return {row.name: row.error for row in found.models}


def test_a_machine_that_is_as_it_was_rehearsed_lies_in_the_intervals() -> None:
    """The core takes half as long again as was probed, and the rehearsals say so. 85 % and more of the figures of four
    runs lie in intervals of 95 %: they move together, so they are few."""
    inside = of = 0
    for seed in range(4):
        found = validate(recorded(case(found=(2, 1)), core=1.5, rehearsed=1.5, seed=seed), causes=False)
        assert found.models[0].name == "road"
        assert abs(rows(found)["road"]["p50_s"]) < 0.10
        inside, of = inside + found.coverage.inside, of + found.coverage.of
    assert of > 100
    assert inside / of >= 0.85


def test_most_items_of_a_core_are_quick_where_a_few_were_interrupted() -> None:
    """Nine of ten take 0.4 of the mean, one 6.4 times as much. A Gamma distribution of that spread has its median at
    0.2 of the mean: crops were simulated half as long as they took."""
    found = validate(recorded(case(found=(2, 1)), rehearsed=1.0, spread=(0.4,) * 9 + (6.4,)), causes=False)
    assert abs(rows(found)["road.crop"]["p50_s"]) < 0.10
    assert abs(rows(found)["road.letterbox"]["p50_s"]) < 0.10


def test_the_time_to_wake_a_core_is_simulated() -> None:
    """A thread takes 3 ms to wake, three times as long as a crop; crops that follow another do not wait for it."""
    run = recorded(case(found=(2, 1)), rehearsed=1.0, wakes_s=0.003)
    assert run.rehearsals[0][-1].kind in (WAKE, FOLLOW)
    found = validate(run, causes=False)
    assert abs(rows(found)["road.crop"]["p50_s"]) < 0.10
    assert abs(rows(found)["road.decode"]["p50_s"]) < 0.10


def test_a_core_that_is_slower_than_rehearsed_is_named() -> None:
    found = validate(recorded(case(found=(2, 1)), core=2.0, rehearsed=1.0))
    assert rows(found)["road.letterbox"]["p50_s"] < -0.2
    assert found.causes[0].kind is CauseKind.WORK
    assert "Items of road." in render(found, Format.TABLE, Screen())


def test_speed_of_a_core_is_by_stage() -> None:
    """Twice as long in one rehearsal and as long as probed in the other: 1.5 times, each item 10 % more or less."""
    made = recorded(case(found=(2, 1)), core=1.0, rehearsed=2.0)
    once = recorded(case(found=(2, 1)), core=1.0, rehearsed=1.0)
    speed = speed_of((made.rehearsals[0], once.rehearsals[0]))
    assert speed.work.keys() == {"road.decode", "road.letterbox", "road.crop"}
    assert list(speed.work.values()) == pytest.approx([1.5] * 3, rel=0.03)
    assert all(np.std(factors) == pytest.approx(0.1, rel=0.2) for factors in speed.work_spread.values())
    assert speed.slowdown == {}


def test_what_a_device_loses_beside_a_core_is_seen_in_rehearsals() -> None:
    """Batches of 10 ms take 12 where the core works, as it does in every other of them."""
    starts_s = np.arange(20.0)
    took_s = np.where(starts_s % 2, 0.012, 0.010)
    work_s = starts_s[starts_s % 2 == 1]
    ones = np.ones(20)
    rehearsal = (
        action("run", "road.detect", "gpu", starts_s, ones, 0.01 * ones, starts_s + took_s),
        action("work", "road.decode", "core", work_s, ones[:10], 0.5 * ones[:10], work_s + 0.5),
    )
    (company,) = speed_of((rehearsal, rehearsal)).beside_core.values()
    assert company == pytest.approx((1.2, 0.5))


def test_batches_spread_as_they_were_seen_to() -> None:
    """Nine of ten take 10 ms, one 20: factors of 10 / 11 and 20 / 11, whatever the profile says."""
    took_s = np.where(np.arange(20) % 10, 0.010, 0.020)
    starts_s, ones = np.arange(20.0), np.ones(20)
    rehearsal = (
        action("run", "road.detect", "gpu", starts_s, ones, 0.01 * ones, starts_s + took_s),
        action("work", "road.decode", "core", starts_s + 0.5, ones, 0.1 * ones, starts_s + 0.6),
    )
    factors = speed_of((rehearsal, rehearsal)).run_spread["road.detect"]
    assert sorted(set(np.round(factors, 9))) == pytest.approx([10 / 11, 20 / 11])
    assert factors == tuple(sorted(factors))
    world = spread(case().deployment, {"road.detect": factors})
    seen = {one.model: one.replicas[0].profile.latency_factors for one in world.services}
    assert seen["road.detect"] == ((1, factors),)
    assert seen["road.classify"] == ()


def test_an_answer_lists_few_factors_of_many_items() -> None:
    """Of thousands their mean, their median and their tail stay."""
    seen = np.sort(np.random.default_rng(1).lognormal(0.0, 1.0, 4321))
    few = thinned(seen.tolist())
    assert len(few) == 400
    assert np.mean(few) == pytest.approx(seen.mean())
    for share in (0.5, 0.95, 0.99):
        assert np.searchsorted(seen, np.quantile(few, share)) / len(seen) == pytest.approx(share, abs=1 / 400)
    assert thinned([1.0, 2.0]) == (1.0, 2.0)


@pytest.mark.parametrize(("scenario", "given", "inside"), [(PATH, None, "3"), (PATH, "5", "5"), (SINGLE, None, None)])
def test_the_core_of_a_pipeline_is_not_a_thread_of_the_device(
    scenario: Path, given: str | None, inside: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four cores one works for the pipeline; who says how many threads there are has so many, and so has who serves
    models alone."""
    monkeypatch.setattr(validation_bench, "cores", lambda: 4)
    monkeypatch.delenv(THREADS, raising=False)
    if given:
        monkeypatch.setenv(THREADS, given)
    with core_kept(load_scenario(scenario).scenario, "cpu"):
        assert os.environ.get(THREADS) == inside
    assert os.environ.get(THREADS) == given
    with core_kept(load_scenario(scenario).scenario, "cuda:0"):
        assert os.environ.get(THREADS) == given


def test_a_pipeline_rehearses_for_a_third_of_a_take() -> None:
    """It is slower at first, which must not count for more than in the run."""
    assert rehearsal_s(60.0, of_pipeline=True) == 20.0
    assert rehearsal_s(30.0, of_pipeline=True) == 10.0
    assert rehearsal_s(30.0) == 6.0


# Recordings


def test_a_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    run = kept(recorded(case(found=(2, 0, 1)), rehearsed=1.0))
    write_recording(run, tmp_path / "run.json.gz")
    again = read_recording(tmp_path / "run.json.gz")
    assert encode(again) == encode(run)
    assert again.result.deployment.pipelines == run.result.deployment.pipelines
    assert repr(summarise(again.result)) == repr(summarise(run.result)), "no batch is NaN, which differs from itself"


def test_a_recording_of_a_frame_that_never_came_is_refused(tmp_path: Path) -> None:
    run = recorded(case(found=(2, 0, 1)), rehearsed=1.0)
    raw = encode(run)
    count = len(raw["requests"]["road"]["arrival"])
    raw["frames"]["road.crop"][0] = count
    (tmp_path / "run.json").write_text(json.dumps(raw))
    wrong = f"frames[road.crop]: must be below the number of frames, {count}, got {count}"
    with pytest.raises(StoreError, match=re.escape(wrong)):
        read_recording(tmp_path / "run.json")


def test_takes_are_one_run() -> None:
    """Frames and items of two takes, each counted from its own beginning, are those of one run of both."""
    made = case(found=(2, 0, 1))
    asked = draw(made.workload, 8.0, 3)
    takes = [replicate(made.deployment, one, 4.0, 3) for one in cut(asked, (4.0, 4.0))]
    whole = in_sequence(takes)
    assert whole.duration_s == 8.0
    assert len(whole.requests["road"].arrival_s) == len(asked["road"].arrival_s)
    for name, frames in whole.frames.items():
        items = whole.requests[name]
        assert len(frames) == len(items.arrival_s)
        came_s = whole.requests["road"].arrival_s[frames]
        assert np.all(came_s <= items.arrival_s + 1e-9)
    uses = whole.stations["core"]
    assert len(uses.start_s) == sum(len(take.stations["core"].start_s) for take in takes)
    assert whole.request_count == len(asked["road"].arrival_s)


# For real


TRIES = 3
"""Other programs share the processor: a try that they slowed says nothing of the simulation."""


def test_a_pipeline_is_served_and_lies_in_its_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four seconds of a video of 20 pictures. An interval of 95 % is some 4.4 standard deviations wide; a figure that
    lies a whole width outside is off by 6 of them, which chance does not do."""
    monkeypatch.setattr(validation_bench, "SECONDS_PER_POINT", 0.1)
    monkeypatch.setattr(pipelines, "PICTURES", 20)
    monkeypatch.setattr(pipelines, "ONE_CAMERA", pipelines.ONE_CAMERA[:20])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    outside = [""]
    for number in range(TRIES):
        run, compared = served(tmp_path / f"run-{number}.json.gz", tmp_path / "profiles")
        assert run.stopped == ""
        assert run.machine["torch_threads"] == max(1, cores() - 1), "the core of the pipeline is not the device's"
        (pipeline,) = run.result.deployment.pipelines
        crop = next(stage for stage in pipeline.stages if stage.name == "crop")
        counts = crop.after[0].fan_out.counts
        assert counts == scene_of(load_scenario(PATH).scenario).counts, "the detector found what was drawn"
        cropped = np.bincount(run.result.frames["road.crop"], minlength=1)
        assert set(np.flatnonzero(cropped != np.resize(counts, len(cropped)))) <= unfinished(run)
        if not (outside := figures_outside(compared)):
            break
    assert not outside


def served(record: Path, profiles: Path) -> tuple[Recording, dict[str, Any]]:
    """Measured and served for real: what is kept of it, and how it compares."""
    on = ["--device", "cpu", "--duration", "4s", "--profiles", profiles, "--quiet", "--format", "json"]
    code, out, err = planner("validate", PATH, *on, "--record", record)
    assert code == 0, err
    return read_recording(record), json.loads(out)


def figures_outside(compared: dict[str, Any]) -> list[str]:
    """What was measured more than a width outside the interval that is simulated."""
    road = compared["models"][0]
    outside = []
    for metric in ("p50_s", "p95_s", "processed_fraction"):
        measured, (low, high) = road["measured"][metric], road["intervals"][metric]
        finite = None not in (measured, low, high)  # none where nothing was processed, on so busy a processor
        if not finite or not 2 * low - high <= measured <= 2 * high - low:
            outside.append(f"{metric}: {measured} of {low} to {high}")
    return outside


def unfinished(run: Recording) -> set[int]:
    """Frames of which something is still to come."""
    return set(np.flatnonzero(run.result.requests["road"].outcome != Outcome.FINISHED).tolist())
