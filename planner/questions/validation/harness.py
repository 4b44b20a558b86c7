"""Harness: the time that serving for real takes between batches. No plan has it, so it is measured and allowed for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from math import nan

import numpy as np

from calibrate.serving.served import FOLLOW, WAKE, Actions, launches
from planner.questions.validation.answer import Overhead
from planner.questions.validation.recording import Recording
from simulator.clock.drivers import Delays
from simulator.world.workload import Floats

DRAWN = 1024
"""Times that are drawn at once."""


@dataclass(frozen=True, slots=True)
class Harness:
    """Times (s) from the moment a batch could run until it was started, by device."""

    wake: Mapping[str, Floats] = field(default_factory=dict)
    """Of batches that found the device idle: a sleep that ends late is part of it."""
    follow: Mapping[str, Floats] = field(default_factory=dict)
    """Of batches that waited for the one before."""

    def delays(self, rng: np.random.Generator) -> dict[str, Delays]:
        """By device: times drawn from those seen, with repetition."""
        names = dict.fromkeys([*self.wake, *self.follow])
        return {name: Delays(drawn(self.wake.get(name), rng), drawn(self.follow.get(name), rng)) for name in names}


def drawn(seen_s: Floats | None, rng: np.random.Generator) -> Iterator[float]:
    """Times drawn with repetition; 0 where none was seen."""
    if seen_s is None or not len(seen_s):
        return repeat(0.0)
    return chain.from_iterable(rng.choice(seen_s, DRAWN).tolist() for _ in repeat(None))


def of_actions(actions: Sequence[Actions]) -> Harness:
    """The harness as it was while these actions happened."""
    return Harness(by_device(actions, WAKE), by_device(actions, FOLLOW))


def by_device(actions: Sequence[Actions], kind: str) -> dict[str, Floats]:
    """Times of one kind of action."""
    names = dict.fromkeys(one.device for one in actions if one.kind == kind)
    return {
        name: np.concatenate([one.actual_s for one in actions if one.kind == kind and one.device == name])
        for name in names
    }


def harness_of(recording: Recording) -> Harness:
    """The harness as it was in the rehearsals; in a recording that did not keep that, as it was in the run."""
    return of_actions(rehearsed(recording) or recording.actions)


def rehearsed(recording: Recording) -> list[Actions]:
    """What the harness took in the rehearsals; none in recordings that did not keep it."""
    return [one for rehearsal in recording.rehearsals for one in rehearsal if one.kind in (WAKE, FOLLOW)]


def overhead(recording: Recording) -> Overhead:
    """Time that the harness took in the run."""
    names = [device.id for device in recording.result.deployment.devices]
    waits_s = np.concatenate([launches(recording.actions, name) for name in names])
    if not len(waits_s):
        return Overhead(batches=0, mean_s=nan, p99_s=nan, share=nan)
    return Overhead(
        batches=len(waits_s),
        mean_s=float(waits_s.mean()),
        p99_s=float(np.quantile(waits_s, 0.99)),
        share=float(waits_s.sum()) / (len(names) * recording.result.duration_s),
    )
