"""Learnt: times of any model on any GPU, from the effects that `planner.prediction.learning` found in points."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from math import exp, sqrt
from pathlib import Path
from typing import NamedTuple

from planner.model.plan import Estimate
from planner.prediction.effects import NOISE, SPREAD, Case, effects, roofline
from planner.prediction.transfer import around
from simulator.world.hardware import GPU

SCHEMA = "planner.learnt/v1"
FILE = Path(__file__).parent / "data" / "learnt.json.gz"
SMALL_MAX = 4
"""Largest batch that counts as small: there overhead tells, and predictions err by more."""


class Nearness(StrEnum):
    """How near to a case something was measured, the nearest first."""

    SERIES = "series"
    """The model on the GPU at that precision and runtime, at another batch."""
    PAIR = "pair"
    """The model on the GPU, otherwise."""
    ELSEWHERE = "elsewhere"
    """The model at that precision and runtime on other GPUs, and the GPU with other models."""
    OTHERWISE = "otherwise"
    """The model on other GPUs, at other precisions or runtimes, and the GPU with other models."""
    NEW_GPU = "new-gpu"
    """The model, but nothing on that GPU."""
    NEW_MODEL = "new-model"
    """Nothing of the model."""


class Told(NamedTuple):
    """Logarithm of a time, as the effects tell it."""

    mean: float
    sd: float


@dataclass(frozen=True)
class Learnt:
    """Effects by group and key, each with its variance."""

    effects: Mapping[str, Mapping[str, tuple[float, float]]]
    widening: Mapping[str, float] = field(default_factory=dict)
    """By nearness and size of batch: times the spread, so that 80 % bands hold 80 %."""
    points_sha256: str = ""
    """Of the points that it was learnt from."""
    as_of: str = ""
    """ISO date of the newest source."""

    @classmethod
    def of(cls, effects: Mapping[str, Mapping[str, tuple[float, float]]]) -> "Learnt":
        """Effects alone."""
        return cls(effects)

    def log_time(self, case: Case, gpu: GPU) -> Told:
        """Mean and spread of ln(seconds); an effect that nobody has seen is zero, and spreads as its group does."""
        told = roofline(case, gpu)
        mean, variance = told.log_time, NOISE**2
        for group, key, weight in effects(case, told, gpu):
            effect, spread = self.effects.get(group, {}).get(key, (0.0, SPREAD[group] ** 2))
            mean += weight * effect
            variance += weight**2 * spread
        return Told(mean, sqrt(variance))

    def predict(self, case: Case, gpu: GPU) -> Estimate:
        """Seconds of a batch with their 80 % band."""
        told = self.log_time(case, gpu)
        size = "small" if case.batch <= SMALL_MAX else "large"
        return around(exp(told.mean), told.sd * self.widening.get(f"{self.nearness(case)} {size}", 1.0))

    def nearness(self, case: Case) -> Nearness:
        """How near to the case something was measured."""
        model, kind, runtime, precision = case.architecture, case.gpu, case.runtime, case.precision
        if self.knows("series", f"{model} {case.input} {kind} {precision} {runtime}"):
            return Nearness.SERIES
        if self.knows("work model gpu", f"{model} {kind}"):
            return Nearness.PAIR
        if not (self.knows("work model", model) or self.knows("work model?", model)):
            return Nearness.NEW_MODEL
        if not self.knows("work gpu", kind):
            return Nearness.NEW_GPU
        alike = self.knows("work model runtime precision", f"{model} {runtime} {precision}")
        return Nearness.ELSEWHERE if alike else Nearness.OTHERWISE

    def knows(self, group: str, key: str) -> bool:
        """Whether an effect was seen."""
        return key in self.effects.get(group, {})


@cache
def learnt(path: Path = FILE) -> Learnt:
    """What is shipped."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    return Learnt(content["effects"], content["widening"], content["points_sha256"], content["as_of"])
