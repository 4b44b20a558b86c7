"""Trainings: the time of one pass of a training, forward and backward, from published ones of any model on any GPU.

It is the roofline of its layers times effects of the model, the chip and whoever published: random numbers around one,
found at once as the best linear unbiased prediction (kriging). Kinds of one chip differ by their data sheets alone.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from math import exp, hypot, log, sqrt
from typing import NamedTuple

import numpy as np

from calibrate.layers.work import Facts
from calibrate.published import names
from calibrate.published.points import DATA
from planner.model.plan import Estimate
from planner.prediction.effects import FREE_FLOPS_PER_J, chip, family
from planner.prediction.rules.bands import around
from planner.prediction.rules.roofline import under, vendor_ceilings
from simulator.world.hardware import GPU

FILE = DATA / "trainings.csv"
PLAIN = "pytorch"
"""Software that teaches: PyTorch as it comes. Convolutions on pictures with channels last, and MLPerf's, are faster."""
PASSES = 3
"""Forward passes in time and operators that a pass forward and backward counts for."""
ISSUE_S = 35e-6
"""To issue an operator's share of a pass, before the mean effect of 1.6: for 12 pictures a ResNet-50 of 160 operators
takes 28 ms on an A100, a DenseNet-121 of 430 takes 76 ms (pytorch-gpu-benchmark)."""
POWER_SHARE = 0.4
"""How much is lost of the arithmetic beyond what clocks never fall for: an H100 may spend 1.4 tera-operations a joule
and reaches a third of them."""
DEPTHWISE, PRODUCTS, CONVOLUTIONS = "depthwise", "products", "convolutions"
DEPTHWISE_SHARE = 0.15
"""Share of a network's convolutions from which it counts as one of depthwise ones: EfficientNet has 0.19, MobileNetV3
0.24."""
MANY_PRODUCTS = 8
"""Products of one layer from which those with a single column are the channels of a depthwise convolution."""
HALF = ("amp", "amp-bf16", "bf16", "fp16")
NEITHER = 3
"""Rank of what is of another model, on another chip."""
OVERHEAD_SD = 0.5
"""Of ln(overhead): hosts and versions of PyTorch issue operators in half to twice that time. Assumed."""
NOISE = 0.10
"""Standard deviation of ln(time) that no effect explains."""
OTHER_VENDOR_SD = 0.34
"""Of ln(time) on GPUs of a vendor on whose none a training was published: their software is another one. Assumed: such
is the spread between publishers of inference."""


@dataclass(frozen=True, kw_only=True)
class StepCase:
    """One pass on one GPU, as layers and data sheets tell it."""

    architecture: str
    kind: str
    """What most of it is made of."""
    gpu: GPU
    precision: str
    work_s: float
    """Roofline of arithmetic at the clocks that power allows and of bandwidth, layer by layer."""
    overhead_s: float
    """To issue all operators."""
    source: str = ""
    """Who published it; empty: nobody."""

    @cached_property
    def log_s(self) -> float:
        """Logarithm of the seconds before all effects."""
        return log(hypot(self.work_s, self.overhead_s))

    @cached_property
    def overhead(self) -> float:
        """How far the time follows overhead, 0 to 1: it is hidden behind work until it takes longer."""
        return self.overhead_s**2 / (self.work_s**2 + self.overhead_s**2)

    @cached_property
    def words(self) -> Mapping[str, str]:
        """What an effect can be of."""
        return {
            "model": self.architecture,
            "family": family(self.architecture),
            "kind": self.kind,
            "chip": chip(self.gpu),
            "generation": self.gpu.compute_capability,
            "arithmetic": arithmetic(self.gpu, self.precision),
            "source": self.source,
        }


class StepEffect(NamedTuple):
    """Effects of ln(time): one for each value of the words that name it."""

    of: str
    sd: float
    """Their standard deviation."""

    def key(self, case: StepCase) -> tuple[str, ...]:
        """The words of a case that name its effect."""
        return tuple(case.words[word] for word in self.of.split())


EFFECTS = (
    StepEffect("", 0.34),
    StepEffect("model", 0.06),
    StepEffect("family", 0.15),
    StepEffect("kind arithmetic", 0.11),
    StepEffect("kind generation", 0.175),
    StepEffect("chip", 0.075),
    StepEffect("generation arithmetic", 0.07),
    StepEffect("source", 0.07),
    StepEffect("source arithmetic", 0.055),
)
"""At these spreads the published steps are likeliest, each with a usual one of 0.1 as evidence of its own: a test shows
it. `source` is who published: software and hosts differ by as much."""


def arithmetic(gpu: GPU, precision: str) -> str:
    """`half` of all that compute in 16 bits; PyTorch as it comes has TF32 where the GPU has it."""
    if precision in HALF:
        return "half"
    if precision == "torch":
        return "tf32" if gpu.has_tf32 else "fp32"
    return precision


def step_case(facts: Facts, gpu: GPU, precision: str, batch: int, source: str = "") -> StepCase:
    """The case of a batch of a network; PrecisionError where the GPU has no such precision."""
    limits = vendor_ceilings(gpu, precision)
    slower = slowed_by_power(gpu, limits.flops_per_s)
    layers = under(facts, limits, batch, precision).layers
    work_s = sum(hypot(slower * layer.arithmetic_s, layer.bandwidth_s) for layer in layers)
    return StepCase(
        architecture=names.architecture(facts.model),
        kind=kind_of(facts),
        gpu=gpu,
        precision=precision,
        work_s=PASSES * work_s,
        overhead_s=PASSES * facts.kernels * ISSUE_S,
        source=source,
    )


def slowed_by_power(gpu: GPU, flops_per_s: float) -> float:
    """How many times as long arithmetic takes at the clocks that the power limit leaves. An L4 at fp16: 3.1."""
    return float(max(1.0, flops_per_s / gpu.tdp_w / FREE_FLOPS_PER_J) ** POWER_SHARE) if gpu.tdp_w else 1.0


def kind_of(facts: Facts) -> str:
    """What most of a network is made of: networks that are made alike gain and lose alike."""
    convolutions = [layer for layer in facts.layers if layer.type == "Conv2d"]
    thin = sum(
        any(product.times > MANY_PRODUCTS and product.columns == 1 for product in layer.products)
        for layer in convolutions
    )
    if convolutions and thin / len(convolutions) >= DEPTHWISE_SHARE:
        return DEPTHWISE
    return PRODUCTS if (facts.products_share or 0.0) > 0.5 else CONVOLUTIONS


@dataclass(frozen=True, kw_only=True)
class PublishedStep:
    """A published training, with what its layers and data sheets say of it."""

    model: str
    """By which its layers are known."""
    input: str
    """Pixels of a side, or tokens."""
    gpu: str
    precision: str
    batch: int
    samples_per_s: float
    software: str
    source: str
    place: str
    kind: str
    work_s: float
    overhead_s: float

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.batch / self.samples_per_s

    def case(self, gpus: Mapping[str, GPU]) -> StepCase:
        """The case that it is of."""
        return StepCase(
            architecture=names.architecture(self.model),
            kind=self.kind,
            gpu=gpus[self.gpu],
            precision=self.precision,
            work_s=self.work_s,
            overhead_s=self.overhead_s,
            source=self.source,
        )


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    """All that are shipped, as `benchmarks.making.trainings` writes them."""
    with FILE.open(encoding="utf-8", newline="") as lines:
        return tuple(_step(row) for row in csv.DictReader(lines))


def _step(row: Mapping[str, str]) -> PublishedStep:
    numbers = {name: float(row[name]) for name in ("samples_per_s", "work_s", "overhead_s")}
    return PublishedStep(**{**row, **numbers, "batch": int(row["batch"])})  # type: ignore[arg-type]


class NearTrainings(NamedTuple):
    """Published steps near to a case, by how many there are."""

    of_model: int
    on_chip: int
    of_both: int
    sources: tuple[str, ...]
    """Who published them: of the model on the chip first, then of the model, then on the chip."""


@dataclass(frozen=True)
class Trainings:
    """Published steps that teach."""

    cases: Sequence[StepCase]
    log_s: Sequence[float]
    """Logarithm of their seconds."""
    effects: Sequence[StepEffect] = EFFECTS
    noise: float = NOISE

    def predict(self, case: StepCase) -> Estimate:
        """Seconds with their 80 % band, in software of somebody else than those who published."""
        shared = self._shared(case)
        variance = sum(effect.sd**2 for effect in self.effects) + self.noise**2
        variance += (OVERHEAD_SD * case.overhead) ** 2 - float(shared @ self._inverse @ shared)
        if not self.knows_vendor(case.gpu):
            variance += OTHER_VENDOR_SD**2
        return around(exp(case.log_s + float(shared @ self._weights)), sqrt(variance))

    def knows_vendor(self, gpu: GPU) -> bool:
        """Whether a training was published on any of its vendor's."""
        return (gpu.capability > (0,)) in self._vendors

    def near(self, case: StepCase) -> NearTrainings:
        """Those of its model and those on its chip."""
        model, on = case.architecture, chip(case.gpu)
        same = [(other.architecture == model, chip(other.gpu) == on) for other in self.cases]
        ranked = sorted((2 * (not m) + (not c), other.source) for (m, c), other in zip(same, self.cases, strict=True))
        sources = dict.fromkeys(source for apart, source in ranked if apart < NEITHER)
        of_model, on_chip = (sum(flags) for flags in zip(*same, strict=True))
        return NearTrainings(of_model, on_chip, same.count((True, True)), tuple(sources))

    def without(self, left: Iterable[bool]) -> "Trainings":
        """The same without those that are marked."""
        kept = [(case, log_s) for case, log_s, out in zip(self.cases, self.log_s, left, strict=True) if not out]
        return replace(self, cases=[case for case, _ in kept], log_s=[log_s for _, log_s in kept])

    def log_likelihood(self) -> float:
        """Of the steps at these spreads, but for a constant."""
        _, log_determinant = np.linalg.slogdet(self._inverse)
        return float(0.5 * (log_determinant - self._errors @ self._weights))

    @cached_property
    def _vendors(self) -> set[bool]:
        """Whether they are NVIDIA, which numbers its generations, of all that were published."""
        return {case.gpu.capability > (0,) for case in self.cases}

    @cached_property
    def _columns(self) -> Sequence[tuple[StepEffect, Mapping[tuple[str, ...], np.ndarray]]]:
        """Of each effect, by its value: covariances of each step with a case that has it."""
        return [(effect, self._column(effect)) for effect in self.effects]

    def _column(self, effect: StepEffect) -> dict[tuple[str, ...], np.ndarray]:
        found: dict[tuple[str, ...], np.ndarray] = {}
        for i, case in enumerate(self.cases):
            column = found.setdefault(effect.key(case), np.zeros(len(self.cases)))
            column[i] = effect.sd**2
        return found

    def _shared(self, case: StepCase) -> np.ndarray:
        """Covariance of ln(time) with each step, by the effects that both have."""
        total = np.zeros(len(self.cases))
        for effect, columns in self._columns:
            column = columns.get(effect.key(case))
            if column is not None:
                total += column
        return total

    @cached_property
    def _inverse(self) -> np.ndarray:
        """Of the covariances of the steps."""
        covariances = np.stack([self._shared(case) for case in self.cases])
        inverse: np.ndarray = np.linalg.inv(covariances + self.noise**2 * np.eye(len(self.cases)))
        return inverse

    @cached_property
    def _errors(self) -> np.ndarray:
        """Of the cases before all effects."""
        return np.array(self.log_s) - [case.log_s for case in self.cases]

    @cached_property
    def _weights(self) -> np.ndarray:
        weights: np.ndarray = self._inverse @ self._errors
        return weights


def trainings(gpus: Mapping[str, GPU]) -> Trainings:
    """All that teach, of kinds that the catalog has."""
    published = dict.fromkeys(step.gpu for step in published_steps())
    return _trainings(tuple((name, gpus[name]) for name in published if name in gpus))


@lru_cache(maxsize=4)
def _trainings(gpus: tuple[tuple[str, GPU], ...]) -> Trainings:
    """The same of kinds that somebody published of. To learn from them takes as long as a training's other figures."""
    known = dict(gpus)
    taught = [step for step in published_steps() if step.software == PLAIN and step.gpu in known]
    return Trainings([step.case(known) for step in taught], [log(step.step_s) for step in taught])
