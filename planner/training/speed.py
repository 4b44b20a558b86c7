"""How fast one pass runs on one kind of GPU, from the best evidence there is, and what holds it.

In order: speeds the scenario states; the measured training curve of a profile; its inference curve times a factor; the
same of inference predicted from other GPUs or models; the roofline of the model's layers; operations over a share of
the peak.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, hypot, log
from typing import Any

from calibrate.layer_facts import Facts, facts, traced
from calibrate.library import profile_name
from planner.plans import Rule
from planner.prediction.predict import Predictor
from planner.prediction.roofline import LAUNCH_S, Bound, PrecisionError, latency_s, peak_flops
from planner.training.closed_forms import (
    END_TO_END,
    VISION_EFFICIENCY,
    Range,
    exactly,
    is_depthwise,
    step_from_inference,
    training_flops,
    with_channels,
)
from planner.training.memory import Transformer
from planner.training.scenario import SpeedSpec, TrainingScenario
from simulator.curves import Curve, Interpolated
from simulator.hardware import GPU
from simulator.profile import Evidence, Profile, weakest

MEASURED_BAND = 0.1
"""How far a step on another card of the same kind may lie from the measured one."""
PAST_BAND = 0.3
"""The same past the measured batches."""
FLAT = 0.25
"""Growth of time over growth of the batch below which a series is held by overhead."""
PAST_MOST = 2
"""Times the largest measured batch up to which a curve is believed at all."""
MEASURED_OPTIMIZER = {"sgd": "sgd", "momentum": "sgd", "adam": "adam", "adamw": "adam"}
"""With which of the two that calibration measures an optimizer's step compares."""


class Limit(StrEnum):
    """What holds a training job."""

    ARITHMETIC = "arithmetic"
    BANDWIDTH = "bandwidth"
    MEMORY = "memory"
    LOADER = "loader"
    NETWORK = "network"
    OVERHEAD = "overhead"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is trained: its layers, or its shape."""

    name: str
    params: float
    active_params: float
    buffer_bytes: float = 0.0
    facts: Facts | None = None
    shape: Transformer | None = None
    profile: str = ""
    """Whose measured times count."""
    own: Facts | None = None
    """The layers as its profile measured them: before pixels and channels were changed."""

    @property
    def depthwise(self) -> bool:
        """Whether its steps take longer over inference than others'."""
        return self.facts is not None and is_depthwise(self.facts)

    @property
    def layers(self) -> int:
        """Among which a pipeline can divide it: blocks, or layers that compute."""
        return self.shape.layers if self.shape else sum(x.flops > 0 for x in self.facts.layers) if self.facts else 1

    def step_flops(self, samples: float, per_param_token: float) -> float:
        """Operations of a training step."""
        if self.shape:
            return training_flops(self.active_params, samples * self.shape.sequence, per_param_token)
        assert self.facts
        return per_param_token / 2 * self.facts.flops * samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How long one pass of a micro-batch takes, forward and backward, on one GPU that holds the whole model."""

    pass_s: Range
    limit: Limit
    evidence: Evidence
    source: str
    whole: bool = False
    """Whether links, waiting and restarts are in it already."""
    least_s: float = 0.0
    """Where `whole` is a band of other runs: computing alone takes so long at best, and what this run's links and
    waiting add to that none of them had."""


def subject(s: TrainingScenario) -> Subject:
    """The model of a scenario; FactsError where nobody knows it."""
    m = s.model
    if t := m.transformer:
        shape = Transformer(
            layers=t.layers, hidden=t.hidden, heads=t.heads, sequence=t.sequence, vocabulary=t.vocabulary
        )
        params = t.params or shape.params
        active = t.active_params or params
        return Subject(name=s.name or "transformer", params=params, active_params=active, shape=shape)
    name = m.zoo or m.factory or ""
    own = facts(m.zoo) if m.zoo else traced(name, m.input)
    known = with_channels(own.at(m.pixels) if m.pixels else own, m.channels or own.input_shape[0])
    return Subject(
        name=name,
        params=known.params,
        active_params=known.params,
        buffer_bytes=max(0.0, known.weight_bytes - 4 * known.params),
        facts=known,
        profile=m.profile or profile_name(name, m.input),
        own=own,
    )


def speed(s: TrainingScenario, what: Subject, gpu: GPU, batch: float, predictor: Predictor) -> Speed | None:
    """The pass of so many samples by the best evidence but the scenario's own runs; None: no such precision."""
    if given := achieved(s.speed, gpu):
        per = given.flops_per_param_token or s.flops_per_param_token
        assert given.achieved is not None
        pass_s = exactly(what.step_flops(batch, per) / given.achieved)
        source = f"{given.achieved / 1e12:g} TFLOP/s achieved, as the scenario says"
        return Speed(pass_s=pass_s, limit=Limit.ARITHMETIC, evidence=Evidence.PUBLISHED, source=source, whole=True)
    ways = (from_training_curve, from_inference_curve, from_prediction, from_roofline, from_peak)
    try:
        found = next((told for way in ways if (told := way(s, what, gpu, batch, predictor))), None)
    except PrecisionError:
        return None
    return again(found, s) if found else None


def again(found: Speed, s: TrainingScenario) -> Speed:
    """With one more forward pass where activations are computed again."""
    if s.train.recompute != "full" or found.whole:
        return found
    return replace(found, pass_s=found.pass_s * (4 / 3))


def achieved(speeds: Iterable[SpeedSpec], gpu: GPU) -> SpeedSpec | None:
    """The rate of operations that the scenario states of a kind of GPU."""
    return next((x for x in speeds if x.gpu == gpu.name and x.achieved is not None), None)


# Ways to know


def from_training_curve(
    s: TrainingScenario, what: Subject, gpu: GPU, batch: float, predictor: Predictor
) -> Speed | None:
    """Steps that were measured on this kind of GPU, their optimizer in them."""
    profile = predictor.library.get(what.profile, gpu.name, s.train.precision) if what.profile else None
    optimizer = MEASURED_OPTIMIZER.get(s.train.optimizer)
    if profile is None or optimizer is None:
        return None
    steps = measured_steps(predictor.library.measured(profile), optimizer)
    if not steps or batch > PAST_MOST * max(steps):
        return None
    curve = Interpolated(tuple(steps), tuple(steps.values()))
    text = "training steps measured on it"
    return _scaled(what, gpu, profile, curve, batch, (1.0, 1.0, 1.0), text, Evidence.MEASURED)


def measured_steps(measured: Mapping[str, Any], optimizer: str) -> dict[float, float]:
    """Seconds of a training step by batch, as a profile's file has them; never shorter than a smaller batch's."""
    rows = measured.get("training", {}).get(optimizer, {})
    found, longest = {}, 0.0
    for batch in sorted(map(int, rows)):
        longest = max(longest, float(rows[str(batch)]["step_s"]))
        found[float(batch)] = longest
    return found


def from_inference_curve(
    s: TrainingScenario, what: Subject, gpu: GPU, batch: float, predictor: Predictor
) -> Speed | None:
    """Inference that was measured on this kind of GPU, times what training usually takes over it."""
    profile = predictor.library.get(what.profile, gpu.name, s.train.precision) if what.profile else None
    if profile is None or batch > PAST_MOST * profile.latency.x[-1]:
        return None
    band = step_from_inference(1.0, what.depthwise)
    ends = (band.low, band.mid, band.high)
    text = f"inference measured on it, times {band.low:g} to {band.high:g}"
    kind = weakest(profile.latency_evidence, Evidence.EXTRAPOLATED)
    return _scaled(what, gpu, profile, profile.latency, batch, ends, text, kind)


def from_prediction(s: TrainingScenario, what: Subject, gpu: GPU, batch: float, predictor: Predictor) -> Speed | None:
    """Inference that is predicted from other GPUs or other models, times what training usually takes over it; the two
    err independently.

    Where only a roofline tells it, or the scenario says which share of the peak is reached, that is left to
    `from_roofline`, whose share of the peak is that of training.
    """
    told = predictor.told(what.profile, gpu.name, s.train.precision) if what.own and not s.utilization else None
    if told is None or told.rule is Rule.ROOFLINE:
        return None
    assert what.facts
    assert what.own
    time_s, step = told.prediction(batch).latency_s, step_from_inference(1.0, what.depthwise)
    scale = what.facts.flops / what.own.flops
    slower = exp(hypot(log(time_s.high / time_s.value), log(step.high / step.mid)))
    faster = exp(hypot(log(time_s.value / time_s.low), log(step.mid / step.low)))
    mid_s = time_s.value * step.mid * scale
    held = latency_s(what.facts, gpu, max(1, round(batch)), s.train.precision).bound
    return Speed(
        pass_s=Range(low=mid_s / faster, mid=mid_s, high=mid_s * slower),
        limit=Limit.OVERHEAD if held is Bound.NONE else Limit(held.value),
        evidence=weakest(told.evidence, Evidence.EXTRAPOLATED),
        source=f"inference predicted ({told.why}), times {step.low:g} to {step.high:g}",
    )


def _scaled(
    what: Subject,
    gpu: GPU,
    profile: Profile,
    curve: Curve,
    batch: float,
    ends: tuple[float, ...],
    source: str,
    kind: Evidence,
) -> Speed:
    """A series at a batch size, and for other pictures than were measured; the band widens with each step away."""
    least, most = curve.x[0], curve.x[-1]
    at = min(max(batch, least), most)
    time_s = float(curve(batch))
    away = PAST_BAND if at != batch else MEASURED_BAND
    assert what.facts
    scale = what.facts.flops / what.own.flops if what.own else 1.0
    if scale != 1:
        away, kind = max(away, PAST_BAND), weakest(kind, Evidence.EXTRAPOLATED)
        source += f", times {scale:.2f} for other pictures"
    if at != batch:
        kind = weakest(kind, Evidence.EXTRAPOLATED)
        source += f", carried from batch {at:g} to {batch:g}"
    low, mid, high = (time_s * scale * end for end in ends)
    held = latency_s(what.facts, gpu, max(1, round(batch)), profile.precision).bound
    half = max(least, at / 2)  # flat: twice the batch takes little longer, so what takes time is not the samples
    flat = at > half and float(curve(at)) / float(curve(half)) < 1 + FLAT * (at / half - 1)
    return Speed(
        pass_s=Range(low=low / (1 + away), mid=mid, high=high * (1 + away)),
        limit=Limit.OVERHEAD if flat or held is Bound.NONE else Limit(held.value),
        evidence=kind,
        source=source,
    )


def from_roofline(s: TrainingScenario, what: Subject, gpu: GPU, batch: float, predictor: Predictor) -> Speed | None:
    """Three times the roofline of a forward pass, at the share of it that networks reach."""
    if what.facts is None:
        return None
    line = latency_s(what.facts, gpu, max(1, round(batch)), s.train.precision)
    ideal_s = 3 * line.total_s * batch / max(1, round(batch))
    slow, usual, fast = VISION_EFFICIENCY
    if s.utilization:
        slow = usual = fast = s.utilization
    return Speed(
        pass_s=Range(low=ideal_s / fast, mid=ideal_s / usual, high=ideal_s / slow),
        limit=Limit(line.bound.value) if line.bound is not Bound.NONE else Limit.OVERHEAD,
        evidence=Evidence.ASSUMED,
        source=f"the vendor's peaks and the model's layers, at {share(slow, fast)} of them",
    )


def from_peak(s: TrainingScenario, what: Subject, gpu: GPU, batch: float, predictor: Predictor) -> Speed | None:
    """Operations over a share of the peak, as long runs reach it end to end."""
    if what.shape is None:
        return None
    ideal_s = what.step_flops(batch, s.flops_per_param_token) / peak_flops(gpu, s.train.precision)
    slow, usual, fast = (s.utilization,) * 3 if s.utilization else END_TO_END
    return Speed(
        pass_s=Range(low=ideal_s / fast, mid=ideal_s / usual, high=ideal_s / slow),
        limit=Limit.ARITHMETIC,
        evidence=Evidence.ASSUMED,
        source=f"{share(slow, fast)} of the vendor's peak, end to end",
        whole=True,
        least_s=ideal_s / fast,
    )


def share(low: float, high: float) -> str:
    """`14 % to 52 %`, `40 %`."""
    ends = dict.fromkeys(f"{100 * end:.0f} %" for end in (low, high))
    return " to ".join(ends)


def launches_s(what: Subject) -> float:
    """To issue the operators of one step: three times those of a forward pass."""
    kernels = what.facts.kernels if what.facts else 20 * (what.shape.layers if what.shape else 0)
    return 3 * kernels * LAUNCH_S
