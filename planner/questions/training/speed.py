"""The time of one pass on one kind of GPU, by the best evidence there is, and what limits it.

In order: speeds the scenario states; the measured training curve of a profile; published trainings, with the measured
inference curve of a profile times a factor where there is one; the roofline of the model's layers, or its operations,
over a share of the peak.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import hypot
from typing import Any

from planner.model.plan import Estimate
from planner.model.ranges import Range, exactly, ranged
from planner.prediction.effects import chip
from planner.prediction.predict import Predictor
from planner.prediction.rules.bands import joined
from planner.prediction.rules.roofline import Bound, PrecisionError, Roofline, latency_s, peak_flops
from planner.prediction.trainings import PASSES, slowed_by_power, step_case
from planner.questions.training.closed_forms import END_TO_END, step_from_inference
from planner.questions.training.layout import Subject
from planner.questions.training.scenario import TrainingScenario
from simulator.world.curves import Curve, Interpolated
from simulator.world.hardware import GPU
from simulator.world.precision import VALUE_BYTES
from simulator.world.profile import Evidence, Profile, weakest

MEASURED_BAND = 0.1
"""Share by which a step on another GPU of the same kind may differ from the measured or stated one."""
PAST_BAND = 0.3
"""Share by which a step may differ past the measured batches, from one that is stated of other GPUs, and from what a
stated rate of operations says."""
FLAT = 0.25
"""Growth of time over growth of the batch below which overhead limits a series."""
PAST_MOST = 2
"""Times the largest measured batch up to which a curve is believed at all."""
EXPLAINED = 0.5
"""Share of a time that the roofline must take for what it says to count, and growth from twice the samples, of 1."""
LONG_RUNS_SLOWED = 2.3
"""Times as long as at its peak that arithmetic takes on an A100 for its power limit."""
OF_LONG_RUNS = ", on A100s; of other GPUs less or more, as power and bandwidth hold them to it"
"""What a share of the peak is of, where long runs say it."""
MOVED_OVER_KEPT = 7.5
"""Bytes that a pass moves, forward and backward, over those it keeps between both: 7.0 to 7.7 of BERT, BGE and ViT."""
SOURCES_MAX = 3
"""Publications that are named of one speed."""
MEASURED_OPTIMIZER = {"sgd": "sgd", "momentum": "sgd", "adam": "adam", "adamw": "adam"}
"""The optimizer among the two that calibration measures whose step takes as long."""


class Limit(StrEnum):
    """The limit of a training."""

    ARITHMETIC = "arithmetic"
    BANDWIDTH = "bandwidth"
    MEMORY = "memory"
    LOADER = "loader"
    STORAGE = "storage"
    NETWORK = "network"
    OVERHEAD = "overhead"


class SpeedRule(StrEnum):
    """How the time of a pass was found; those of `PredictionRule` are of answers of before trainings were published."""

    STATED = "stated"
    """The scenario says it."""
    TRAINING_STEPS = "training-steps"
    """Steps were measured on the GPU."""
    PROFILE = "profile"
    """Inference was measured on the GPU, and joined with published trainings."""
    TRAININGS = "trainings"
    """From published trainings of this and other models on this and other GPUs."""
    LEARNT = "learnt"
    MEASURED_RATIO = "measured-ratio"
    LAYER_MODEL = "layer-model"
    DATA_SHEETS = "data-sheets"
    ROOFLINE = "roofline"
    """From the model's layers, by a share of the vendor's peaks that the scenario states."""
    PEAK = "peak"
    """Operations over the shares of the vendor's peak that long runs reached."""


AS_STATED = (SpeedRule.STATED, SpeedRule.ROOFLINE)
"""Rules that rest on what the scenario states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSpeed:
    """Time of one pass of a micro-batch, forward and backward, on one GPU that holds the whole model."""

    pass_s: Range
    limit: Limit
    rule: SpeedRule
    evidence: Evidence
    source: str
    """Where the time comes from."""
    sources: tuple[str, ...] = ()
    """Publications and profiles that it rests on; empty where the scenario or data sheets say it."""
    whole: bool = False
    """What a run takes over its steps is in it already."""
    linked: bool = False
    """So are links, and waiting for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass:
    """One pass of so many samples on one kind of GPU."""

    scenario: TrainingScenario
    subject: Subject
    gpu: GPU
    batch: float
    predictor: Predictor

    @property
    def precision(self) -> str:
        """Precision of the training."""
        return self.scenario.train.precision

    @property
    def whole_batch(self) -> int:
        """The batch as a whole number, 1 or more."""
        return max(1, round(self.batch))

    @property
    def profile(self) -> Profile | None:
        """The model's profile on this kind of GPU; None where there is none."""
        if not self.subject.profile:
            return None
        return self.predictor.library.get(self.subject.profile, self.gpu.name, self.precision)

    def roofline(self) -> Roofline:
        """The roofline of the forward pass."""
        assert self.subject.facts
        return latency_s(self.subject.facts, self.gpu, self.whole_batch, self.precision)

    def speed(self) -> PassSpeed | None:
        """The time by the best evidence but the scenario's own runs; None where the GPU has no such precision."""
        sources = (
            self.from_achieved,
            self.from_training_curve,
            self.from_trainings,
            self.from_roofline,
            self.from_peak,
        )
        try:
            return next((speed for source in sources if (speed := source())), None)
        except PrecisionError:
            return None

    # Sources, the best first

    def from_achieved(self) -> PassSpeed | None:
        """Operations a second that the scenario states of this kind of GPU."""
        stated = next(
            (speed for speed in self.scenario.speed if speed.gpu == self.gpu.name and speed.achieved is not None), None
        )
        if stated is None or stated.achieved is None:
            return None
        per_param_token = stated.flops_per_param_token or self.scenario.flops_per_param_token
        flops = self.subject.step_flops(self.batch, per_param_token)
        return PassSpeed(
            pass_s=doubted(exactly(flops / stated.achieved), PAST_BAND),
            limit=Limit.ARITHMETIC,
            rule=SpeedRule.STATED,
            evidence=Evidence.ASSUMED,
            source=f"{stated.achieved / 1e12:g} TFLOP/s achieved, as the scenario says",
            whole=True,
            linked=True,
        )

    def from_training_curve(self) -> PassSpeed | None:
        """Steps that were measured on this kind of GPU, their optimizer included; with SGD where none were with it."""
        profile = self.profile
        if profile is None:
            return None
        measured = self.predictor.library.measured(profile)
        optimizer = steps_optimizer(measured, self.scenario.train.optimizer)
        steps = measured_steps(measured, optimizer)
        if not steps or self.batch > PAST_MOST * max(steps):
            return None
        asked = self.scenario.train.optimizer
        same = optimizer == MEASURED_OPTIMIZER.get(asked)
        series = Series(
            curve=Interpolated(tuple(steps), tuple(steps.values())),
            factor=exactly(1.0),
            rule=SpeedRule.TRAINING_STEPS,
            evidence=Evidence.MEASURED if same else Evidence.EXTRAPOLATED,
            source="training steps measured on it" + ("" if same else f" with {optimizer}, for {asked}"),
            sources=(profile.source,),
            band=MEASURED_BAND if same else PAST_BAND,
        )
        return self.from_series(series)

    def from_trainings(self) -> PassSpeed | None:
        """Published trainings; joined with inference that was measured on this kind of GPU, times a step over it.

        Nothing where the scenario says which share of the peak is reached.
        """
        if self.subject.facts is None or self.scenario.utilization:
            return None
        case = step_case(self.subject.facts, self.gpu, self.precision, self.whole_batch)
        step_s = self.predictor.trainings.predict(case)
        is_known = self.predictor.trainings.knows_vendor(self.gpu)
        near, model, on = self.predictor.trainings.near(case), case.architecture, chip(self.gpu)
        ours = self.again(
            PassSpeed(
                pass_s=ranged(step_s.low, step_s.value, step_s.high) * (self.batch / self.whole_batch),
                limit=self._limit_of_trainings(step_s.value),
                rule=SpeedRule.TRAININGS,
                evidence=Evidence.PREDICTED if is_known else Evidence.ASSUMED,
                source=f"published trainings: {near.of_model} of {model}, {near.on_chip} on {on}, {near.of_both} both",
                sources=near.sources[:SOURCES_MAX],
            )
        )
        inferred = self.from_inference_curve()
        return ours if inferred is None else both(inferred, ours)

    def _limit_of_trainings(self, pass_s: float) -> Limit:
        """Overhead where the roofline explains less than half of the time and twice the samples take little longer."""
        roofline = self.roofline()
        if PASSES * roofline.total_s > EXPLAINED * pass_s:
            return limit_of(roofline.bound)
        assert self.subject.facts
        twice = step_case(self.subject.facts, self.gpu, self.precision, 2 * self.whole_batch)
        growth = self.predictor.trainings.predict(twice).value / pass_s
        return Limit.OVERHEAD if growth < 1 + EXPLAINED else limit_of(roofline.bound)

    def from_inference_curve(self) -> PassSpeed | None:
        """Inference that was measured on this kind of GPU, times a training step over it."""
        profile = self.profile
        if profile is None or self.batch > PAST_MOST * profile.latency.x[-1]:
            return None
        if profile.latency_evidence.rank > Evidence.ELSEWHERE.rank:
            return None
        factor = step_from_inference(1.0, self.subject.depthwise)
        series = Series(
            curve=profile.latency,
            factor=factor,
            rule=SpeedRule.PROFILE,
            evidence=weakest(profile.latency_evidence, Evidence.EXTRAPOLATED),
            source=f"inference measured on it, times {factor.low:g} to {factor.high:g}",
            sources=(profile.source,),
        )
        return self.from_series(series)

    def from_series(self, series: "Series") -> PassSpeed:
        """A measured series at this batch and for these pictures; the band widens with each step away from it."""
        bound = self.roofline().bound
        measured_batch = min(max(self.batch, series.curve.x[0]), series.curve.x[-1])
        extrapolated = measured_batch != self.batch
        away = PAST_BAND if extrapolated else series.band
        evidence, source = series.evidence, series.source
        scale = self.subject.flops_over_own
        if scale != 1:
            away = max(away, PAST_BAND)
            evidence = weakest(evidence, Evidence.EXTRAPOLATED)
            source += f", times {scale:.2f} for other pictures"
        if extrapolated:
            evidence = weakest(evidence, Evidence.EXTRAPOLATED)
            source += f", carried from batch {measured_batch:g} to {self.batch:g}"
        time_s = (series.factor * series.growth(self.batch)) * (float(series.curve(self.batch)) * scale)
        if series.is_flat(measured_batch):
            bound = Bound.NONE
        return self.again(
            PassSpeed(
                pass_s=doubted(time_s, away),
                limit=limit_of(bound),
                rule=series.rule,
                evidence=evidence,
                source=source,
                sources=series.sources,
            )
        )

    def from_roofline(self) -> PassSpeed | None:
        """Three times the roofline of a forward pass, at the share of it that the scenario states."""
        share = self.scenario.utilization
        if self.subject.facts is None or not share:
            return None
        roofline = self.roofline()
        return self.again(
            PassSpeed(
                pass_s=doubted(exactly(3 * roofline.total_s * self.batch / self.whole_batch / share), PAST_BAND),
                limit=limit_of(roofline.bound),
                rule=SpeedRule.ROOFLINE,
                evidence=Evidence.ASSUMED,
                source=f"the vendor's peaks and the model's layers, at {share_text(exactly(share))} of them",
            )
        )

    def from_peak(self) -> PassSpeed | None:
        """Operations over a share of the peak, as long runs reach it end to end."""
        if self.subject.shape is None:
            return None
        stated = self.scenario.utilization
        ideal_s = self.at_peak_s if stated else self.held_to_peak_s
        share = exactly(stated) if stated else END_TO_END
        computing_s = ranged(ideal_s / share.high, ideal_s / share.mid, ideal_s / share.low)
        if stated:
            computing_s = doubted(computing_s, PAST_BAND)
        issued_s = self.issued_s
        held_as = "" if stated else OF_LONG_RUNS
        return PassSpeed(
            pass_s=computing_s.joined(max, issued_s),
            limit=Limit.OVERHEAD if issued_s.mid > computing_s.mid else Limit.ARITHMETIC,
            rule=SpeedRule.STATED if stated else SpeedRule.PEAK,
            evidence=Evidence.ASSUMED,
            source=f"{share_text(share)} of the vendor's peak, end to end{held_as}",
            whole=True,
        )

    @property
    def at_peak_s(self) -> float:
        """Time of a pass of a shape's operations at the vendor's peak."""
        flops = self.subject.step_flops(self.batch, self.scenario.flops_per_param_token)
        return flops / peak_flops(self.gpu, self.precision)

    @property
    def held_to_peak_s(self) -> float:
        """The same on a GPU whose power or bandwidth holds it further from its peak than the GPUs of those long runs.

        They were of A100s, mostly. An L4 does 12 blocks of BERT at a smaller share of its peak than an A10G.
        """
        assert self.subject.shape
        slower = slowed_by_power(self.gpu, peak_flops(self.gpu, self.precision)) / LONG_RUNS_SLOWED
        kept = self.subject.shape.activation_bytes(1) * VALUE_BYTES[self.precision] / 2 * self.batch
        return hypot(slower * self.at_peak_s, MOVED_OVER_KEPT * kept / self.gpu.memory_bytes_per_s * END_TO_END.mid)

    @property
    def issued_s(self) -> Range:
        """Least time of a pass: its operators are issued one after another."""
        return self.subject.issued_s * (1 + self.scenario.computed_again)

    def again(self, speed: PassSpeed) -> PassSpeed:
        """The speed with what is computed again for activations that are not kept."""
        return replace(speed, pass_s=speed.pass_s * (1 + self.scenario.computed_again))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Measured times by batch, and the factor that makes training steps of them."""

    curve: Curve
    factor: Range
    rule: SpeedRule
    evidence: Evidence
    source: str
    sources: tuple[str, ...]
    band: float = MEASURED_BAND
    """Share by which a step may differ from it at a measured batch."""

    def growth(self, batch: float) -> Range:
        """Past the last batch over the line through the last two: at most the last batch's time a sample.

        A host that held up the first of them is not what larger batches wait for.
        """
        last = self.curve.x[-1]
        most = max(1.0, float(self.curve(last)) * batch / last / float(self.curve(batch))) if batch > last else 1.0
        return ranged(1.0, most**0.5, most)

    def is_flat(self, batch: float) -> bool:
        """Twice the batch takes little longer: the time is not spent on samples."""
        half = max(self.curve.x[0], batch / 2)
        if batch <= half:
            return False
        growth = float(self.curve(batch)) / float(self.curve(half))
        return growth < 1 + FLAT * (batch / half - 1)


def doubted(time_s: Range, share: float) -> Range:
    """A time that may differ by so much. 10 s by 0.3: 7.7 to 13 s."""
    return ranged(time_s.low / (1 + share), time_s.mid, time_s.high * (1 + share))


def both(one: PassSpeed, other: PassSpeed) -> PassSpeed:
    """The first, with its time and that of the other averaged by their certainty."""
    found = joined(*(Estimate(value=s.pass_s.mid, low=s.pass_s.low, high=s.pass_s.high) for s in (one, other)))
    return replace(
        one,
        pass_s=ranged(found.low, found.value, found.high),
        evidence=weakest(one.evidence, other.evidence),
        source=f"{one.source}, and {other.source}",
        sources=(*one.sources, *other.sources),
    )


def steps_optimizer(measured: Mapping[str, Any], asked: str) -> str:
    """The optimizer whose measured steps count for the one that is asked: SGD's where none were measured with it.

    Passes are the same with each; what an update takes more is added apart.
    """
    own = MEASURED_OPTIMIZER.get(asked, "sgd")
    return own if measured.get("training", {}).get(own) else "sgd"


def measured_steps(measured: Mapping[str, Any], optimizer: str) -> dict[float, float]:
    """Seconds of a training step by batch, as a profile's file has them; never shorter than a smaller batch's.

    A training queues step after step, so those in a row count where they were measured.
    """
    rows = measured.get("training", {}).get(optimizer, {})
    steps, longest_s = {}, 0.0
    for batch in sorted(map(int, rows)):
        row = rows[str(batch)]
        longest_s = max(longest_s, float(row.get("sustained_s", row["step_s"])))
        steps[float(batch)] = longest_s
    return steps


def limit_of(bound: Bound) -> Limit:
    """The bound of a roofline as the limit of a training."""
    return Limit.OVERHEAD if bound is Bound.NONE else Limit(bound.value)


def share_text(share: Range) -> str:
    """`14 % to 52 %`, `40 %`."""
    ends = dict.fromkeys(f"{100 * end:.0f} %" for end in (share.low, share.high))
    return " to ".join(ends)
