"""Agenda: which points are still worth measuring, given what came out so far. Pure: asked again after each outcome."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from calibrate.io.points import Point, PointOutcome, Settings, Status, What
from calibrate.sweep.request import LARGEST_BATCH, Request

DOUBLINGS_MAX = 12
"""Past the largest batch asked for: a model so small that memory does not end by then will not show where it does."""
PROBES = ("idle", "context", "copy", "device_copy", "matmul", "launch", "knees", "loader", "host", "links")
"""In the order to run them: idle power before there is a context."""
CUDA_ONLY = ("idle", "links")
ENDS_LADDER = (Status.OUT_OF_MEMORY, Status.TIMED_OUT)
"""A larger batch would come to the same end."""


@dataclass(frozen=True, slots=True)
class PointGroup:
    """Points that one worker measures: a model as it is set, or the device alone."""

    model: str
    """Empty for the device's probes."""
    settings: Settings

    @property
    def name(self) -> str:
        """As shown to people: `resnet50.448px at amp`."""
        return f"{self.model}{self.settings.suffix} at {self.settings.precision}" if self.model else "device"


def groups(request: Request) -> list[PointGroup]:
    """All groups of a request, in the order they are measured: what needs the device alone comes first."""
    probes = [PointGroup("", Settings())] if "device" in request.modes else []
    models = request.models if {"inference", "training"} & set(request.modes) else ()
    return probes + [PointGroup(model, settings) for model in models for settings in request.settings]


def probe_names(device_kind: str) -> tuple[str, ...]:
    """Probes that mean something on `cpu` or `cuda`."""
    return PROBES if device_kind == "cuda" else tuple(name for name in PROBES if name not in CUDA_ONLY)


def agenda(
    request: Request, group: PointGroup, done: Mapping[str, PointOutcome], seed: int, probes: Sequence[str]
) -> list[Point]:
    """Points to measure next and after that, without those `done`, as far as they can be known.

    Layers and loading, then upward in batch size until memory ends, then the batches that fitted in random order: a
    device that warms up must not look like a larger batch. Last the soak of the largest batch, where one is asked for.
    """
    of_device = (Point(what=What.PROBE, probe=name) for name in probes)
    listed = _of_model(request, group, done, seed) if group.model else of_device
    return [point for point in listed if point.key not in done]


def _of_model(request: Request, group: PointGroup, done: Mapping[str, PointOutcome], seed: int) -> Iterator[Point]:
    point = partial(Point, model=group.model, settings=group.settings)
    yield point(what=What.LAYERS)
    yield point(what=What.LOAD)
    if "inference" in request.modes:
        ladder = _ladder(request, point, done, seed, What.LATENCY, "")
        yield from ladder
        timed = [one.batch for one in ladder if one.what is What.LATENCY]
        if timed and request.soak_s:
            yield point(what=What.SOAK, batch=max(timed))
    if "training" in request.modes:
        for optimizer in request.optimizers:
            yield from _ladder(request, point, done, seed, What.TRAINING, optimizer)


def _ladder(
    request: Request, point: "partial[Point]", done: Mapping[str, PointOutcome], seed: int, timed: What, optimizer: str
) -> list[Point]:
    """Memory upward, then times of what fitted. A batch not tried yet counts as fitting until it is known."""
    steps: list[Point] = []
    fitted: list[int] = []
    for batch in _batches(request):
        step = point(what=What.MEMORY, batch=batch, optimizer=optimizer)
        outcome = done.get(step.key)
        # Doublings past the list are shown one at a time: it is not known yet how many there will be.
        beyond = batch > request.batches[-1]
        if beyond and outcome is None and steps and steps[-1].key not in done:
            break
        steps.append(step)
        if outcome is None or outcome.status is Status.OK:
            fitted.append(batch)
        elif outcome.status in ENDS_LADDER or beyond:
            break
    times = partial(point, what=timed, optimizer=optimizer)
    random.Random(f"{seed} {times().key}").shuffle(fitted)
    return steps + [times(batch=batch) for batch in fitted]


def _batches(request: Request) -> Sequence[int]:
    if not request.until_memory_ends:
        return request.batches
    doubled = [request.batches[-1] << n for n in range(1, DOUBLINGS_MAX + 1)]
    return [*request.batches, *(batch for batch in doubled if batch <= LARGEST_BATCH)]
