"""A pipeline for real: a decoder, a detector, crops and a classifier see what was drawn into the video."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import pipelines, worlds
from support.pipelines import after, model, work

from calibrate.serving.entry import serve
from calibrate.serving.pictures import Pictures, to_and_fro
from calibrate.serving.pipelines import counted
from calibrate.serving.serve import Source
from calibrate.serving.served import Scene, Served, ServeError
from calibrate.zoo.moving import COLOURS, LANES, classifier, detector
from simulator.clock.metrics import summarise
from simulator.clock.records import Outcome
from simulator.clock.run import simulate
from simulator.world.deployment import BatchingPolicy, Deployment, Drop
from simulator.world.model import Layer
from simulator.world.pipelines import FanOutKind
from simulator.world.workload import Demand, FixedRate, Stream, Trace, Workload, draw

DETECTOR = Source(name="calibrate.zoo.moving:detector", input_shape=(3, 640, 640))
CLASSIFIER = Source(name="calibrate.zoo.moving:classifier", input_shape=(3, 224, 224))
MODELS = {"p.detect": DETECTOR, "p.classify": CLASSIFIER}
COUNTS = (2, 0, 1, 3, LANES, 1)
STEPS = {"decode": "decode", "letterbox": "letterbox", "crop": "crop"}
SCENE = Scene(width=1280, height=720, counts=COUNTS, steps=STEPS)
HOST_S, DETECT_S, CLASSIFY_S = 0.01, 0.03, 0.006


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def deployment(counts: tuple[int, ...] = COUNTS, *, slo_s: float = 10.0, drop: Drop = Drop.NEVER) -> Deployment:
    asked = pipelines.pipeline(
        work("decode", HOST_S, at="host"),
        work("letterbox", HOST_S, "decode", at="host"),
        model("detect", "letterbox"),
        work("crop", HOST_S, after("detect", kind=FanOutKind.TABLE, counts=counts), at="host"),
        model("classify", "crop"),
        work("answer", 0.001, "classify", at="host"),
        slo_s=slo_s,
    )
    services = [
        worlds.service(
            worlds.profile(name, [took_s] * 2, layers=[Layer(name, 10**6)]),
            batch=BatchingPolicy(2),
            slo_s=slo_s,
            drop=drop,
        )
        for name, took_s in (("p.detect", DETECT_S), ("p.classify", CLASSIFY_S))
    ]
    return pipelines.deployment(asked, *services)


def served(given: Deployment, demand: Demand, duration_s: float, scene: Scene | None = SCENE) -> Served:
    return serve(given, {"p": demand}, MODELS, "cpu", duration_s, seed=1, scene=scene)


def frames_at(rate_rps: float, duration_s: float) -> Demand:
    return draw(Workload((Stream("p", FixedRate(rate_rps, 0.0)),)), duration_s, 1)["p"]


# What is seen


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)], ids=str)
def test_the_detector_finds_what_was_drawn_and_the_classifier_its_colours(size: tuple[int, int]) -> None:
    pictures = Pictures(replace(SCENE, width=size[0], height=size[1]))
    find, name = detector().eval(), classifier().eval()
    with torch.inference_mode():
        for frame, count in enumerate(COUNTS * 2):  # the video begins again
            pictures.work("decode", frame, 0)
            seen = pictures.work("letterbox", frame, 0)
            assert seen is not None
            assert pictures.see(frame, find(seen[None])[0]) == count
            for number in range(count):
                crop = pictures.work("crop", frame, number)
                assert crop is not None
                assert int(name(crop[None]).argmax()) == number % len(COLOURS)
            pictures.forget(frame)
    assert not pictures.shown
    assert not pictures.found


def test_a_moving_detector_makes_all_its_tensors_where_its_pictures_are() -> None:
    """A GPU sets no default device: what is made without one lies on the processor."""
    answer = detector().to("meta")(torch.empty(2, 3, 640, 640, device="meta"))
    assert answer.device.type == "meta"
    assert answer.shape == (2, LANES, 5)


def test_nothing_is_kept_of_a_frame_that_is_gone() -> None:
    """A thread may be at work on it while it is lost."""
    pictures = Pictures(SCENE)
    pictures.decode(0)
    pictures.keep(0, ("crop", 0), torch.zeros(1))
    assert pictures.shown
    assert pictures.made
    pictures.forget(0)
    pictures.keep(0, ("crop", 1), torch.zeros(1))
    pictures.decode(0)
    assert not pictures.made
    assert not pictures.shown


class AnswerOfGpu:
    """Rows that can only be read once they were copied to the processor."""

    def cpu(self) -> torch.Tensor:
        return torch.tensor([[0.0, 140.0, 64.0, 172.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])


def test_boxes_are_read_on_the_processor() -> None:
    """640 pixels of the detector are 1280 of the frame, below 140 of grey."""
    pictures = Pictures(SCENE)
    assert pictures.see(0, AnswerOfGpu()) == 1  # type: ignore[arg-type]
    assert pictures.found[0] == [[0.0, 0.0, 128.0, 64.0]]


def test_what_is_found_is_counted_before_the_clock_starts() -> None:
    (pipeline,) = deployment().pipelines
    assert counted(pipeline, MODELS, SCENE) == COUNTS
    assert counted(pipeline, MODELS, replace(SCENE, steps={})) == ()


def test_objects_go_to_and_fro() -> None:
    assert [to_and_fro(way, 10) for way in (0, 4, 10, 12, 20, 23)] == [0, 4, 10, 8, 0, 3]


# What is served


@pytest.fixture(scope="module")
def run() -> Served:
    torch.set_num_threads(1)
    return served(deployment(), frames_at(6.0, 2.0), 8.0)


def test_every_item_comes_once_and_passes_every_stage(run: Served) -> None:
    requests = run.result.requests
    assert run.stopped is None
    frames = requests["p"]
    assert len(frames.arrival_s) == 12
    assert np.all(frames.outcome == Outcome.FINISHED)
    objects = 2 * sum(COUNTS)
    expected = {"decode": 12, "letterbox": 12, "detect": 12, "crop": objects, "classify": objects, "answer": objects}
    assert {name: len(requests[f"p.{name}"].arrival_s) for name in expected} == expected
    by_frame = np.bincount(run.result.frames["p.crop"], minlength=12)
    assert tuple(by_frame.tolist()) == COUNTS * 2
    for items in requests.values():
        assert np.all(items.arrival_s <= items.start_s)
        assert np.all(items.start_s < items.finish_s)


def test_a_frame_is_answered_with_its_last_item(run: Served) -> None:
    """Stages follow each other: what comes to one was done in the one before it. Of a frame without objects the last
    item is the detector's, whose answer is handed on some time after its batch."""
    requests, frames = run.result.requests, run.result.frames
    ends_s = np.zeros(12)
    for name, of_frame in frames.items():
        np.maximum.at(ends_s, of_frame, requests[name].finish_s)
    has_objects = np.array(COUNTS * 2) > 0
    assert requests["p"].finish_s[has_objects] == pytest.approx(ends_s[has_objects])
    assert np.all(requests["p"].finish_s >= ends_s)
    assert np.all(requests["p.letterbox"].arrival_s >= requests["p.decode"].finish_s - 1e-9)
    assert np.all(requests["p.detect"].arrival_s >= requests["p.letterbox"].finish_s - 1e-9)


def test_the_station_does_one_item_at_a_time(run: Served) -> None:
    use = run.result.stations["host-0"]
    assert np.all(use.start_s[1:] >= use.finish_s[:-1] - 1e-9)
    assert len(use.start_s) == 2 * 12 + 2 * 2 * sum(COUNTS)


def test_work_is_noted_as_batches_are(run: Served) -> None:
    works = {one.model: one for one in run.actions if one.kind == "work"}
    assert works.keys() == {"p.decode", "p.letterbox", "p.crop", "p.answer"}
    assert len(works["p.decode"].actual_s) == 12
    assert np.all(works["p.answer"].actual_s >= 0.001)  # computes for as long as it says
    assert {one.model for one in run.actions if one.kind == "run"} == {"p.detect", "p.classify"}


def test_figures_are_those_of_a_simulation(run: Served) -> None:
    """The same names, items and counts as the simulator has for the same frames."""
    frames = run.result.requests["p"]
    world = simulate(deployment(), Workload((Stream("p", Trace(frames.arrival_s, 8.0)),)), 8.0, 1)
    real, simulated = summarise(run.result), summarise(world)
    assert real.models.keys() == simulated.models.keys()
    assert real.stages.keys() == simulated.stages.keys()
    assert {n: one.items for n, one in real.stations.items()} == {n: one.items for n, one in simulated.stations.items()}


def test_frames_that_come_too_late_are_lost() -> None:
    """An SLO of half a detection: nothing can be in time, and nothing follows from what is lost."""
    run = served(deployment(slo_s=0.005, drop=Drop.LATE), frames_at(6.0, 1.0), 2.0)
    assert np.all(run.result.requests["p"].outcome == Outcome.DROPPED)
    assert not len(run.result.requests["p.crop"].arrival_s)


def test_a_detector_that_answers_otherwise_ends_the_run() -> None:
    run = served(deployment((1,)), frames_at(6.0, 2.0), 2.0)
    assert run.stopped is not None
    assert "found 2 objects in frame 0, and 1 before it served" in run.stopped


# What cannot be served


@pytest.mark.parametrize(
    ("given", "scene", "says"),
    [
        (deployment(), None, "needs a scene"),
        (replace(deployment(), pipelines=deployment().pipelines * 2), SCENE, "one on one device"),
        (deployment(), replace(SCENE, steps={"letterbox": "crop"}), "p.letterbox: crops follow one model, got decode"),
        (deployment(), replace(SCENE, steps={"decode": "crop"}), "p.decode: crops follow one model, got none"),
    ],
)
def test_what_cannot_be_served_is_one_line(given: Deployment, scene: Scene | None, says: str) -> None:
    with pytest.raises(ServeError, match=says) as refused:
        served(given, frames_at(6.0, 1.0), 1.0, scene)
    assert "\n" not in str(refused.value)


def test_a_model_that_finds_no_boxes_cannot_be_cropped_after() -> None:
    (pipeline,) = deployment().pipelines
    with pytest.raises(ServeError, match="must answer rows of left, top, right, bottom and score"):
        counted(pipeline, {**MODELS, "p.detect": Source(name="tiny_yolov3")}, SCENE)
