"""Noise: factors on the times of batches, a stream of its own for each queue."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from simulator.rules.queues import Queue, Stage
from simulator.seeding import Generators, entropy_of, spawned
from simulator.world.workload import Floats

FACTORS = 1024
"""Factors of a queue that are drawn at once."""


def factors(stage: Stage, rng: np.random.Generator, count: int) -> Floats:
    """Factors of mean 1 as they were measured, else Gamma of that spread: near normal when small, exponential at 1.

    Drawn in parts they are the same.
    """
    if stage.factors:
        return rng.choice(np.array(stage.factors), count)
    return rng.gamma(stage.cv**-2, stage.cv * stage.cv, count)


def noise_by_queue(
    by_device: Sequence[Sequence[Queue]], noises: np.random.SeedSequence
) -> Iterator[Sequence[Iterator[float]]]:
    """By device and queue."""
    if not any(queue.stage.cv for queues in by_device for queue in queues):
        yield from ([repeat(1.0) for _ in queues] for queues in by_device)
        return
    for queues, child in zip(by_device, noises.spawn(len(by_device)), strict=True):
        streams = child.spawn(len(queues))
        yield [
            _without_end(queue.stage, np.random.default_rng(own)) if queue.stage.cv else repeat(1.0)
            for queue, own in zip(queues, streams, strict=True)
        ]


def _without_end(stage: Stage, rng: np.random.Generator) -> Iterator[float]:
    return chain.from_iterable(factors(stage, rng, FACTORS).tolist() for _ in repeat(None))


class NoiseOfWorlds(NamedTuple):
    """The same factors in many worlds, where `SeedSequence([seed, 1])` is that of each and noise its first child."""

    stages: dict[int, Stage]
    """Of queues that have any, by number, one device after another."""
    generators: Generators
    """Of these queues, world after world."""

    @classmethod
    def of(cls, by_device: Sequence[Sequence[Queue]], seeds: Sequence[int]) -> "NoiseOfWorlds":
        """Those of worlds by their seeds."""
        every = [(queue.stage, (0, d, q)) for d, queues in enumerate(by_device) for q, queue in enumerate(queues)]
        stages = {number: stage for number, (stage, _) in enumerate(every) if stage.cv}
        keys = [every[number][1] for number in stages]
        words = [[*entropy_of(seed, 1), *key] for seed in seeds for key in keys]
        return cls(stages, spawned(np.array(words, dtype=np.uint32)))

    def first(self, world: int, number: int, count: int, rng: np.random.Generator) -> Floats:
        """The first factors of a queue in one world; `rng` is given another state for it."""
        place = world * len(self.stages) + list(self.stages).index(number)
        return factors(self.stages[number], self.generators.begin(rng, place), count)
