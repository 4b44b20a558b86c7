"""Serving a pipeline for real: frames come in time and pass the simulator's own stages; stations are threads, and
models run on the device. Needs torch, and PyAV."""

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from threading import Thread
from typing import Any

import numpy as np
import torch

from calibrate.devices.regime import in_regime
from calibrate.serving.executor import Executor, RealGpu, Stopwatch, WaitingLine, lent
from calibrate.serving.pictures import Pictures
from calibrate.serving.serve import Bench, Runner, ServingJob, Source, opened, recorded, requests, serve_on
from calibrate.serving.served import CROP, FOLLOW, WAKE, Actions, Notes, Scene, Served, ServeError
from calibrate.zoo import zoo
from simulator.clock.records import Requests, SimulationResult, StationUse, settled
from simulator.clock.run import settled_frames
from simulator.clock.serving import Clock
from simulator.flow.flow import OpenPipeline, linked
from simulator.flow.frames import Frames
from simulator.flow.items import StageItems, draw_items
from simulator.flow.stages import ModelStage, OpenStage, StageQueue
from simulator.rules.queues import Log, Stage
from simulator.world.deployment import Deployment, Service
from simulator.world.pipelines import ModelWork, Pipeline, PipelineStage, Station, StationWork
from simulator.world.workload import Demand

NAP_S = 0.05
"""Longest wait of a thread before it looks whether the run is over."""


def serve_pipeline(job: ServingJob, scene: Scene | None) -> Served:
    """Serve the one pipeline of a deployment of one device in this process. ServeError where that cannot be."""
    pipeline = only_pipeline(job.deployment, scene)
    assert scene is not None
    flow = opened_flow(job.deployment, pipeline, job.demand[pipeline.name], scene, job.seed)
    bench = opened(job)
    return serve_on(PipelineBench(bench.device, bench.weights, flow=flow), job)


def only_pipeline(deployment: Deployment, scene: Scene | None) -> Pipeline:
    """The pipeline that is served. ServeError where it is not alone, or not on one device."""
    if len(deployment.pipelines) != 1 or len(deployment.devices) != 1:
        counts = f"{len(deployment.pipelines)} on {len(deployment.devices)}"
        raise ServeError(f"pipelines: one on one device is served for real, got {counts}. Leave the others out")
    (pipeline,) = deployment.pipelines
    stages = {pipeline.name_of(stage) for stage in pipeline.stages if isinstance(stage.work, ModelWork)}
    if alone := [service.model for service in deployment.services if service.model not in stages]:
        raise ServeError(f"{alone[0]}: a pipeline is served for real by itself. Leave the model out")
    if scene is None:
        raise ServeError(f"{pipeline.name}: a pipeline needs a scene to look at. Name one")
    return pipeline


def counted(pipeline: Pipeline, models: Mapping[str, Source], scene: Scene) -> tuple[int, ...]:
    """Objects that the detector finds in each picture of the scene, one after another; none without a stage that crops.

    The same answers come while it serves, so that what follows from each frame is known before the clock starts.
    """
    detector = detector_of(pipeline, scene)
    if detector is None:
        return ()
    source = models[pipeline.name_of(detector)]
    built = zoo.build(source.name, source.input_shape)
    pictures = Pictures(scene)
    counts = []
    with in_regime(source.settings), torch.inference_mode():
        for frame in range(len(scene.counts)):
            pictures.decode(frame)
            seen = pictures.work("letterbox", frame, 0)
            assert seen is not None
            answers = boxes_of(source.name, built.forward(built.module, seen[None]))
            counts.append(pictures.see(frame, answers[0]))
            pictures.forget(frame)
    return tuple(counts)


def detector_of(pipeline: Pipeline, scene: Scene) -> PipelineStage | None:
    """The stage that finds what is cut out; None where nothing is. ServeError where crops follow no model."""
    crop = next((stage for stage in pipeline.stages if scene.steps.get(stage.name) == CROP), None)
    if crop is None:
        return None
    before = {edge.source for edge in crop.after}
    found = [stage for stage in pipeline.stages if stage.name in before]
    if len(found) != 1 or not isinstance(found[0].work, ModelWork):
        names = ", ".join(sorted(before)) or "none"
        raise ServeError(f"{pipeline.name_of(crop)}: crops follow one model, got {names}. Name the detector")
    return found[0]


def boxes_of(name: str, outputs: Any) -> torch.Tensor:
    """Answers of a detector. ServeError where they are none."""
    if isinstance(outputs, torch.Tensor) and outputs.dim() == 3 and outputs.shape[2] >= 5:
        return outputs
    raise ServeError(
        f"{name}: crops follow it, so it must answer rows of left, top, right, bottom and score for each picture. "
        "Name such a detector, e.g. calibrate.zoo.moving:detector"
    )


# Stages


class RealFrames(Frames):
    """Frames whose pictures are let go once they are answered or lost."""

    def __init__(self, demand: Demand, pipeline: Pipeline, drawn: Mapping[str, StageItems], pictures: Pictures) -> None:
        super().__init__(demand, pipeline, drawn)
        self.pictures = pictures

    def lose(self, frames: Iterable[int], now_s: float) -> None:
        lost = list(frames)
        super().lose(lost, now_s)
        for frame in lost:
            self.pictures.forget(frame)

    def count_done(self, frames: Iterable[int], now_s: float) -> None:
        done = list(frames)
        super().count_done(done, now_s)
        for frame in done:
            if not self.left[frame]:
                self.pictures.forget(frame)


class RealModelStage(ModelStage):
    """A stage whose items are batches of a real model: inputs are what the stage before made of them."""

    def __init__(
        self, stage: PipelineStage, frames: RealFrames, items: StageItems, deadline_s: float, before: str, found: bool
    ) -> None:
        super().__init__(frames, items, deadline_s, fed_by_source=not stage.after)
        self.name = stage.name
        self.pictures = frames.pictures
        self.begins = items.begins
        self.before = before
        """The stage that makes its inputs; empty where several do, or none."""
        self.found = found
        """Whether crops follow from what it finds."""

    def given(self, item: int) -> torch.Tensor | None:
        """The input of an item; None where nothing was made for it."""
        if self.begins is None:
            return None
        made_of = int(np.searchsorted(self.begins, item, side="right")) - 1
        return self.pictures.made.get(self.frame[item], {}).get((self.before, made_of))

    def see(self, items: Sequence[int], outputs: Any) -> None:
        """Keep what was found. ServeError where it is another number than was found before the clock started."""
        answers = boxes_of(self.name, outputs)
        for item, answer in zip(items, answers, strict=True):
            frame = self.frame[item]
            if self.frames.is_lost[frame]:
                continue
            count = self.pictures.see(frame, answer)
            for way in self.following:
                known = way.begins[item + 1] - way.begins[item]
                if isinstance(way.stage, RealStationStage) and way.stage.step == CROP and count != known:
                    raise ServeError(
                        f"{self.name}: found {count} objects in frame {frame}, and {known} before it served. "
                        "Take a detector that answers the same to the same picture"
                    )


class RealStationStage(OpenStage):
    """A stage whose items are worked on by threads."""

    def __init__(self, stage: PipelineStage, frames: RealFrames, items: StageItems, step: str | None) -> None:
        super().__init__(frames, items)
        assert isinstance(stage.work, StationWork)
        self.name = stage.name
        self.work = stage.work
        self.pictures = frames.pictures
        self.step = step
        """The work on its items; None: to compute for as long as it says."""
        self.begins = items.begins
        self.start_s = array("d")
        """By place."""
        self.finish_s = array("d")
        self.station: RealStation

    def send(self, first: int, now_s: float) -> None:
        places = range(first, len(self.items))
        self.start_s.extend([nan] * len(places))
        self.finish_s.extend([nan] * len(places))
        self.station.take(self, places)

    def do(self, item: int, clock: Stopwatch) -> None:
        """The work of one item, for real."""
        frame = self.frame[item]
        if self.step is None:
            compute(clock, self.work.service_s)
        elif (made := self.pictures.work(self.step, frame, self._number(item))) is not None:
            self.pictures.keep(frame, (self.name, item), made)

    def _number(self, item: int) -> int:
        """Its place among those that follow from the same item."""
        if self.begins is None:
            return 0
        return item - int(self.begins[int(np.searchsorted(self.begins, item, side="right")) - 1])


def compute(clock: Stopwatch, work_s: float) -> None:
    """Keep a core busy for so long."""
    end_s = clock.now + work_s
    while clock.now < end_s:
        pass


class StageLine(StageQueue, WaitingLine):
    """Items of a stage that wait for one real model."""

    of: RealModelStage

    def __init__(self, service: Service, stage: Stage, runner: Runner) -> None:
        super().__init__(service, stage, (), self._forward)
        self.runner = runner
        self.outputs: Any = None
        """Of the batch that ran last."""
        self.answered = self.end_batch

    def _forward(self, count: int) -> None:
        self.outputs = self.runner.answer(count)

    def run(self, count: int, clock: Clock) -> tuple[float, float]:
        """The batch, from when it takes its inputs: nothing else can be chosen from there on."""
        begun_s = clock.now
        items = [self.of.items[place] for place in self.running[-1]]
        for row, item in enumerate(items):
            made = self.of.given(item)
            if made is not None and made.shape == self.runner.inputs[row].shape:
                self.runner.inputs[row].copy_(made)
        _, finish_s = super().run(count, clock)
        self.log.start_s[-1] = begun_s
        if self.of.found:
            self.of.see(items, self.outputs[:count])
        return begun_s, finish_s


@dataclass(slots=True)
class RealFlow:
    """The stages of one pipeline, for real."""

    deployment: Deployment
    pipeline: Pipeline
    pictures: Pictures
    open: OpenPipeline


def opened_flow(deployment: Deployment, pipeline: Pipeline, demand: Demand, scene: Scene, seed: int) -> RealFlow:
    """A pipeline before its first frame. What follows from each frame is as the simulator has it."""
    drawn = draw_items(pipeline, demand, seed)
    pictures = Pictures(scene)
    frames = RealFrames(demand, pipeline, drawn, pictures)
    works = {stage.name: stage.work for stage in pipeline.stages}
    detector = detector_of(pipeline, scene)

    def opened_stage(stage: PipelineStage) -> OpenStage:
        items = drawn[stage.name]
        if isinstance(stage.work, StationWork):
            return RealStationStage(stage, frames, items, scene.steps.get(stage.name))
        single = [edge.source for edge in stage.after] if len(stage.after) == 1 else []
        before = next((name for name in single if isinstance(works[name], StationWork)), "")
        slo_s = pipeline.slo_of(stage).latency_s
        return RealModelStage(stage, frames, items, slo_s, before, stage is detector)

    stages = {stage.name: opened_stage(stage) for stage in pipeline.stages}
    return RealFlow(deployment, pipeline, pictures, linked(pipeline, frames, stages, drawn))


# Who works on them


class RealStation:
    """Threads that take items first come, first served."""

    def __init__(self, station: Station, executor: "PipelineExecutor") -> None:
        self.station = station
        self.executor = executor
        self.notes = Notes(station.id)
        self.waiting: deque[tuple[RealStationStage, int]] = deque()
        self.start_s: list[float] = []
        self.finish_s: list[float] = []

    def take(self, stage: RealStationStage, places: Sequence[int]) -> None:
        """Items wait here from now on."""
        self.waiting.extend((stage, place) for place in places)
        self.executor.turn.notify_all()

    def serve(self) -> None:
        """One item after another, until the run is over."""
        torch.set_num_threads(1)
        executor, free_s = self.executor, 0.0
        with executor.turn:
            while not executor.closing:
                if self.waiting:
                    free_s = self._work(*self.waiting.popleft(), free_s)
                else:
                    executor.turn.wait(NAP_S)

    def _work(self, stage: RealStationStage, place: int, free_s: float) -> float:
        """Work on one item by a thread that is free since `free_s`. When it was done."""
        executor, item = self.executor, stage.items[place]
        start_s = stage.start_s[place] = executor.clock.now
        with lent(executor.turn):
            stage.do(item, executor.clock)
        finish_s = stage.finish_s[place] = executor.clock.now
        self.start_s.append(start_s)
        self.finish_s.append(finish_s)
        name = f"{executor.flow.pipeline.name}.{stage.name}"
        came_s = stage.came_s[place]
        could_s = max(came_s, free_s)
        self.notes.add(WAKE if came_s > free_s else FOLLOW, name, could_s, 1, 0.0, start_s - could_s)
        self.notes.add("work", name, start_s, 1, stage.work.service_s, finish_s - start_s)
        stage.answer([place], finish_s)
        return finish_s


class PipelineExecutor(Executor):
    """Drives a GPU to which items come from other stages."""

    def __init__(self, gpu: RealGpu, flow: RealFlow) -> None:
        super().__init__(gpu)
        self.flow = flow
        self.rung = False
        gpu.ring = self._ring
        self.stations = [RealStation(station, self) for station in flow.deployment.stations]
        at = {station.station.kind: station for station in self.stations}
        for stage in flow.open.stages.values():
            if isinstance(stage, RealStationStage):
                stage.station = at[stage.work.station]

    def helpers(self) -> list[Thread]:
        works = [(one.serve, f"{one.station.id} {n}") for one in self.stations for n in range(one.station.servers)]
        threads = [Thread(target=self._kept, args=(work,), name=name, daemon=True) for work, name in works]
        return [*super().helpers(), *threads, Thread(target=self._kept, args=(self._feed,), name="feed", daemon=True)]

    def actions(self) -> tuple[Actions, ...]:
        works = [actions for station in self.stations for actions in station.notes.columns()]
        return (*super().actions(), *works)

    def _kept(self, work: Callable[[], None]) -> None:
        """Let the loop raise what goes wrong in a thread."""
        try:
            work()
        except Exception as error:
            self.failure = error

    def _feed(self) -> None:
        """Frames come when they are due."""
        first = [stage for stage in self.flow.open.first.values() if isinstance(stage, RealStationStage)]
        with self.turn:
            for frame, at_s in enumerate(self.flow.open.frames.arrival_s):
                while (left_s := at_s - self.clock.now) > 0 and not self.closing:
                    self.turn.wait(min(left_s, NAP_S))
                if self.closing:
                    return
                for stage in first:
                    stage.take((frame,), at_s)

    def _ring(self) -> None:
        self.rung = True
        self.turn.notify_all()

    def _rest(self, until_s: float) -> bool:
        """Wait until then or until something comes; not to the last microsecond, for others need the turn."""
        left_s = until_s - self.clock.now
        if self.rung or left_s <= 0:
            self.rung = False
            return False
        self.turn.wait(min(left_s, NAP_S))
        return True


@dataclass(slots=True)
class PipelineBench(Bench):
    """A bench whose models are stages."""

    flow: RealFlow = field(kw_only=True)

    def over(self, gpu: RealGpu) -> Executor:
        return PipelineExecutor(gpu, self.flow)

    def line(self, service: Service, stage: Stage, demand: Demand, runner: Runner) -> WaitingLine:
        line = StageLine(service, stage, runner)
        of = self.flow.open.stages[service.model]
        assert isinstance(of, RealModelStage)
        of.queues.append(line)
        of.open_alone()
        return line

    def recorded(self, executor: Executor, job: ServingJob, ended_s: float, wall_s: float) -> SimulationResult:
        assert isinstance(executor, PipelineExecutor)
        one = self.flow.open
        whole = recorded(executor.gpu, replace(job, demand={}), ended_s, wall_s)
        logs = {line.stage.model: line.log for line in executor.gpu.lines}
        stages = {name: _requests(stage, logs.get(name), ended_s) for name, stage in one.stages.items()}
        frames = settled_frames(one, stages, ended_s)
        known = int(np.searchsorted(frames.arrival_s, ended_s))
        return replace(
            whole,
            requests={one.pipeline.name: frames.until(known), **stages},
            frames={name: one.stages[name].frame_by_place[: len(came.arrival_s)] for name, came in stages.items()},
            stations={
                at.station.id: StationUse(np.array(at.start_s), np.array(at.finish_s)) for at in executor.stations
            },
        )


def _requests(stage: OpenStage, log: Log | None, ended_s: float) -> Requests:
    """The items of a stage that came by the end."""
    if log is not None:
        return requests(log, stage.demand, ended_s)
    assert isinstance(stage, RealStationStage)
    items = settled(stage.demand, np.array(stage.start_s), np.array(stage.finish_s), ended_s)
    return items.until(int(np.searchsorted(items.arrival_s, ended_s)))
