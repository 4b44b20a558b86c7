"""Ordered: what was learnt, told so that no answer contradicts another one or the data sheets.

No batch takes less than its operators need, nor less than one sample or more than as many of them, and of two kinds of
one chip none is slower that is better in everything.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from math import exp, log
from typing import NamedTuple

from calibrate.layers.work import Facts
from planner.model.plan import Estimate
from planner.prediction.effects import PredictedCase
from planner.prediction.learnt import Learnt, seen, series_of
from planner.prediction.rules.bands import SPREAD_80, at_least, beside_one
from planner.prediction.rules.floors import floor_of, passed_by
from simulator.world.hardware import GPU

RATES = (
    "fp32_flops",
    "tensor_fp16_flops",
    "tensor_tf32_flops",
    "tensor_int8_flops",
    "memory_bytes_per_s",
    "l2_bytes",
    "sm_count",
    "tdp_w",
)
"""Figures of a data sheet by which one kind is better than another."""
SD_MIN = 1e-3
"""Of a time that is taken as known, so that its weight is finite."""
SAME = 1e-9
"""Logarithms that differ by less are equal but for rounding."""


class Weighed(NamedTuple):
    """A time on one kind of GPU: its logarithm, and how sure it is."""

    log_s: float
    weight: float


@dataclass(frozen=True)
class Ordered:
    """Predictions for kinds of GPU that are known."""

    learnt: Learnt
    gpus: Mapping[str, GPU]

    def predict(self, case: PredictedCase, layers: Facts | None = None) -> Estimate:
        """Seconds of a batch with their 80 % band; `layers` are those of the model at its input, if they are known."""
        told = self._among_kin(case, layers)
        if case.batch == 1:
            return told
        return beside_one(told, self._among_kin(replace(case, batch=1.0), layers), case.batch)

    def _among_kin(self, case: PredictedCase, layers: Facts | None) -> Estimate:
        """A batch by itself, in order with other kinds of the chip."""
        gpu = self.gpus[case.gpu]
        kinds = self._kin.get(chip_of(gpu), [])
        if gpu not in kinds:  # a slice, or one of an unknown chip
            return self._alone(case, gpu, layers)
        asked = replace(case, gpu=""), layers.model if layers else "", chip_of(gpu)
        if asked not in self._told:
            self._told[asked] = in_order({kind.name: self._alone(case, kind, layers) for kind in kinds}, self.gpus)
        return self._told[asked][case.gpu]

    @cached_property
    def _told(self) -> dict[tuple[PredictedCase, str, tuple[str, int]], dict[str, Estimate]]:
        """What was asked for before, by kind of GPU."""
        return {}

    @cached_property
    def _kin(self) -> dict[tuple[str, int], list[GPU]]:
        """Whole GPUs of each chip."""
        found: dict[tuple[str, int], list[GPU]] = {}
        for gpu in self.gpus.values():
            if gpu.sm_count and not gpu.mig_profile:
                found.setdefault(chip_of(gpu), []).append(gpu)
        return found

    def _alone(self, case: PredictedCase, gpu: GPU, layers: Facts | None) -> Estimate:
        """As learnt, and no less than operators need, unless published batches of the series needed less."""
        here = replace(case, gpu=gpu.name)
        series = seen(series_of(here))
        floor_s = floor_of(layers, gpu, case.precision, case.runtime)
        passed = passed_by(((batch, exp(log_s)) for batch, log_s in series), floor_s)
        return at_least(self.learnt.predict(here, gpu, series), floor_s(case.batch) / passed)


def chip_of(gpu: GPU) -> tuple[str, int]:
    """What kinds of one chip have in common: an H200 is an H100 with faster memory."""
    return gpu.compute_capability, gpu.sm_count or 0


def is_as_good(one: GPU, other: GPU) -> bool:
    """Whether a kind has all that another one has."""
    pairs = ((getattr(one, name) or 0.0, getattr(other, name) or 0.0) for name in RATES)
    return all(first >= second for first, second in pairs)


def in_order(told: Mapping[str, Estimate], gpus: Mapping[str, GPU]) -> dict[str, Estimate]:
    """The same where each kind is as fast as any that it is as good as.

    Those that contradict one another take their mean by certainty, the farthest apart first, and keep their bands.
    """
    own = {name: Weighed(log(estimate.value), _weight(estimate)) for name, estimate in told.items()}
    groups = {name: frozenset([name]) for name in told}
    pairs = _as_good_pairs({name: gpus[name] for name in told})
    while pairs:
        means = _means(groups, own)
        better, worse = max(pairs, key=lambda pair: means[pair[0]] - means[pair[1]])
        if means[better] - means[worse] < SAME:
            break
        both = groups[better] | groups[worse]
        groups |= dict.fromkeys(both, both)
    means = _means(groups, own)
    return {name: _moved(estimate, exp(means[name] - own[name].log_s)) for name, estimate in told.items()}


def _as_good_pairs(gpus: Mapping[str, GPU]) -> list[tuple[str, str]]:
    """Two kinds each, of which the first has all that the second has."""
    return [(one, other) for one, other in permutations(gpus, 2) if is_as_good(gpus[one], gpus[other])]


def _means(groups: Mapping[str, Set[str]], own: Mapping[str, Weighed]) -> dict[str, float]:
    """The mean logarithm of each kind's group."""
    return {name: _mean([own[member] for member in group]) for name, group in groups.items()}


def _weight(estimate: Estimate) -> float:
    """One over the variance of its logarithm."""
    return max(SD_MIN, log(estimate.high / estimate.low) / (2 * SPREAD_80)) ** -2


def _mean(times: list[Weighed]) -> float:
    """By certainty."""
    return sum(time.log_s * time.weight for time in times) / sum(time.weight for time in times)


def _moved(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(value=estimate.value * factor, low=estimate.low * factor, high=estimate.high * factor)
