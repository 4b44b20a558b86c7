"""Ordered: what was learnt, told so that no answer contradicts another one or the data sheets.

No batch takes less than its operators need, nor less than one sample or more than as many of them; no larger input
takes less than a smaller one, no slice of a GPU less than the whole, and narrower numbers take no longer than wider
ones, but for published figures, which stand as they are. No kind of GPU is slower than one that it is as good as in
everything: of one generation, of one GPU's slices, and of any where operators run one by one and somebody published the
like.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, replace
from functools import cached_property, reduce
from math import exp, fsum, hypot, inf, log, log2
from typing import NamedTuple

from calibrate.layers.work import Facts
from planner.catalog.mig import is_slice, whole_of
from planner.model.plan import Estimate
from planner.prediction.effects import ONE_BY_ONE, PredictedCase, products_share
from planner.prediction.learnt import MOST, OCTAVE_SD, Learnt, Regime, Seen, seen, series_of
from planner.prediction.rules.bands import SAME, SPREAD_80, around, at_least, beside_one, no_faster, no_slower
from planner.prediction.rules.floors import floor_of, passed_by
from planner.prediction.rules.inputs import at_input, in_order_of_size, is_usual, layers_at, usual_input
from planner.prediction.rules.roofline import lacks, peak_flops
from simulator.world.curves import Curve
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
WIDER = {
    "torch": ("fp32",),
    "tf32": ("fp32",),
    "amp": ("fp32",),
    "fp16": ("amp", "fp32"),
    "bf16": ("amp", "fp32"),
}
"""Of each precision, those whose operators move and multiply no less."""
SD_MIN = 1e-3
"""Of a time that is taken as known, so that its weight is finite."""


class Weighed(NamedTuple):
    """A time on one kind of GPU: its logarithm, and how sure it is."""

    log_s: float
    weight: float


@dataclass(frozen=True)
class Ordered:
    """Predictions for kinds of GPU that are known."""

    learnt: Learnt
    gpus: Mapping[str, GPU]

    def predict(self, case: PredictedCase, layers: Facts | None = None, at_usual: Estimate | None = None) -> Estimate:
        """Seconds of a batch with their 80 % band; `layers` are those of the model at its input, if they are known.

        `at_usual` is what is said of the usual input, where that is not only learnt.
        """
        if is_usual(case.architecture, case.input):
            return self._of_input(case, layers)

        def told(size: str) -> Estimate:
            if at_usual and size == usual_input(case.architecture):
                return at_usual
            there = layers_at(layers, size)
            return self._of_input(at_input(case, size, there), there)

        ordered = in_order_of_size(case.architecture, case.input, told)
        return at_least(ordered, self.least_s(case, layers))

    def past(self, case: PredictedCase, layers: Facts | None, curve: Curve, spread: float) -> Estimate:
        """A batch past the last that somebody timed: as what was learnt, drawn through its batches, goes on.

        `spread`: of the times of the curve, in natural logarithms.
        """
        last = curve.x[-1]
        of_last = around(curve(last), spread)
        series = [Seen(batch, log(curve(batch))) for batch in curve.x]
        away = OCTAVE_SD * log2(case.batch / last)
        grown = self.learnt.beside(self._of_one_kind(case), self.gpus[case.gpu], series).mean
        told = around(exp(grown), hypot(spread, away))
        timed = zip(curve.x, curve.y, strict=True)
        passed = passed_by(timed, lambda batch: self.least_s(replace(case, batch=batch), layers))
        return at_least(beside_one(told, of_last, case.batch / last), self.least_s(case, layers) / passed)

    def _of_input(self, case: PredictedCase, layers: Facts | None) -> Estimate:
        """The batch at its input, whatever others take."""
        if case.precision == "torch":
            told = at_least(self._as_it_comes(case, layers), self.least_s(case, layers))
            return self._beside_wider(told, case, layers)
        asked = replace(case, batch=1.0), layers.model if layers else ""
        if asked not in self._of_one:
            self._of_one[asked] = self._by_itself(asked[0], layers)
        of_one = self._of_one[asked]
        told = of_one if case.batch == 1 else beside_one(self._by_itself(case, layers), of_one, case.batch)
        return self._beside_wider(told, case, layers)

    def _beside_wider(self, told: Estimate, case: PredictedCase, layers: Facts | None) -> Estimate:
        """No slower than in wider numbers, where the GPU computes in them no faster; what was published stands."""
        gpu = self.gpus[case.gpu]
        for wider in () if seen(series_of(case)) else WIDER.get(case.precision, ()):
            if is_as_fast(gpu, case.precision, wider) and not self._casts_tell(case, gpu, wider):
                told = no_slower(told, self._of_input(_at_precision(case, wider), layers))
        return at_least(told, self.least_s(case, layers))

    def _casts_tell(self, case: PredictedCase, gpu: GPU, wider: str) -> bool:
        """Whether casts between operators, of `amp` alone and not of engines, make the difference: to small batches."""
        if wider == "amp":
            return case.runtime not in ONE_BY_ONE
        return case.precision == "amp" and self.learnt.log_time(case, gpu).regime is not Regime.WORK

    def _as_it_comes(self, case: PredictedCase, layers: Facts | None) -> Estimate:
        """In PyTorch as it comes: products at the time of fp32, convolutions at that of TF32."""
        share = products_share(case.architecture, case.products_share)
        products, convolutions = (self._of_input(_at_precision(case, at), layers) for at in ("fp32", "tf32"))
        value, low, high = (
            share * of_products + (1 - share) * of_convolutions
            for of_products, of_convolutions in zip(astuple(products), astuple(convolutions), strict=True)
        )
        return Estimate(value=value, low=low, high=high)

    def _of_one_kind(self, case: PredictedCase) -> PredictedCase:
        """In PyTorch as it comes, at the precision of most of its operations."""
        if case.precision != "torch":
            return case
        share = products_share(case.architecture, case.products_share)
        return _at_precision(case, "fp32" if share > MOST else "tf32")

    def _by_itself(self, case: PredictedCase, layers: Facts | None) -> Estimate:
        return at_least(self._among_kinds(case, layers), self.least_s(case, layers))

    def _among_kinds(self, case: PredictedCase, layers: Facts | None) -> Estimate:
        """In order with other kinds: what was seen on some of them, by certainty, and what was not, beside that.

        So no answer depends on which kinds are asked for.
        """
        if is_slice(case.gpu) and whole_of(case.gpu) in self.gpus:
            return self._of_slice(case, replace(case, gpu=whole_of(case.gpu)), layers)
        if case.gpu not in self._as_good:  # one of which not all is known
            return self._alone(case, self.gpus[case.gpu], layers)
        asked = replace(case, gpu=""), layers.model if layers else ""
        if asked not in self._known:
            told = {here.gpu: self._alone(here, self.gpus[here.gpu], layers) for here in self._seen_on(case)}
            self._known[asked] = in_order(told, self._as_good)
        known = self._known[asked]
        return known[case.gpu] if case.gpu in known else self._beside(known, case, layers)

    def _of_slice(self, case: PredictedCase, whole: PredictedCase, layers: Facts | None) -> Estimate:
        """In order with other slices of the same GPU, and no faster than the whole."""
        asked, of_whole = (whole, layers.model if layers else ""), self._among_kinds(whole, layers)
        if asked not in self._of_slices:
            some = [
                one for one in map(self.gpus.__getitem__, self._slices[whole.gpu]) if not lacks(one, case.precision)
            ]
            told = {one.name: self._cut(whole, of_whole, one, layers) for one in some}
            self._of_slices[asked] = in_order(told, self._slices[whole.gpu])
        own = self._of_slices[asked].get(case.gpu) or self._cut(whole, of_whole, self.gpus[case.gpu], layers)
        return no_faster(own, of_whole)

    def _cut(self, whole: PredictedCase, of_whole: Estimate, gpu: GPU, layers: Facts | None) -> Estimate:
        """As learnt of a slice where its like was seen, else as much slower than the whole as what was learnt of that
        says at the slice's rates: 84 published times of slices that were left out err by 12 % then, by 14 % as of
        kinds of their own."""
        case = replace(whole, gpu=gpu.name)
        if self.learnt.is_seen(case, gpu):
            return self._alone(case, gpu, layers)
        cut, uncut = (self.learnt.predict(whole, rates) for rates in (gpu, self.gpus[whole.gpu]))
        return at_least(_moved(cut, of_whole.value / uncut.value), self.least_s(case, layers))

    @cached_property
    def _of_slices(self) -> dict[tuple[PredictedCase, str], dict[str, Estimate]]:
        """What was asked for before, by the whole GPU."""
        return {}

    @cached_property
    def _slices(self) -> dict[str, dict[str, set[str]]]:
        """By the whole GPU: its slices, each with those that it is as good as."""
        found: dict[str, list[GPU]] = {}
        for gpu in self.gpus.values():
            if is_slice(gpu.name):
                found.setdefault(whole_of(gpu.name), []).append(gpu)
        return {whole: as_good(some) for whole, some in found.items()}

    def _seen_on(self, case: PredictedCase) -> Iterator[PredictedCase]:
        """The batch on each kind that computes it and of which the like was seen; at fp32 on those without TF32.

        None in runtimes that fuse operators, by kernels that are each kind's own: there other chips tell less than
        what was learnt of the kind.
        """
        for name in self._as_good if case.runtime in ONE_BY_ONE else ():
            gpu = self.gpus[name]
            is_fp32 = case.precision == "tf32" and not gpu.has_tf32
            here = replace(case, gpu=name, precision="fp32" if is_fp32 else case.precision)
            if not lacks(gpu, here.precision) and self.learnt.is_seen(here, gpu):
                yield here

    def _beside(self, known: Mapping[str, Estimate], case: PredictedCase, layers: Facts | None) -> Estimate:
        """On a kind of which the like was not seen, in order with those of its generation that are no better known."""
        asked = replace(case, gpu=""), layers.model if layers else "", self.gpus[case.gpu].compute_capability
        if asked not in self._others:
            kin = [k for k in self._kin[asked[-1]] if k.name not in known and not lacks(k, case.precision)]
            told = {kind.name: self._between(known, kind, self._alone(case, kind, layers)) for kind in kin}
            self._others[asked] = in_order(told, self._as_good)
        gpu = self.gpus[case.gpu]
        return self._others[asked].get(case.gpu) or self._between(known, gpu, self._alone(case, gpu, layers))

    def _between(self, known: Mapping[str, Estimate], gpu: GPU, own: Estimate) -> Estimate:
        """Its own time, no faster than on kinds that are as good as it, and no slower than on those that it is."""
        least = max((e.value for name, e in known.items() if gpu.name in self._as_good[name]), default=0.0)
        most = min((e.value for name, e in known.items() if name in self._as_good[gpu.name]), default=inf)
        return _moved(own, min(max(own.value, least), most) / own.value)

    @cached_property
    def _known(self) -> dict[tuple[PredictedCase, str], dict[str, Estimate]]:
        """What was asked for before, on kinds of which the like was seen."""
        return {}

    @cached_property
    def _of_one(self) -> dict[tuple[PredictedCase, str], Estimate]:
        """One sample, as asked for before."""
        return {}

    @cached_property
    def _others(self) -> dict[tuple[PredictedCase, str, str], dict[str, Estimate]]:
        """The same on other kinds, by generation."""
        return {}

    @cached_property
    def _kin(self) -> dict[str, list[GPU]]:
        """Whole GPUs of each generation."""
        found: dict[str, list[GPU]] = {}
        for gpu in self.gpus.values():
            if gpu.sm_count and not gpu.mig_profile:
                found.setdefault(gpu.compute_capability, []).append(gpu)
        return found

    @cached_property
    def _as_good(self) -> dict[str, set[str]]:
        """Whole GPUs, each with those that it is as good as."""
        return as_good([gpu for kin in self._kin.values() for gpu in kin])

    def _alone(self, case: PredictedCase, gpu: GPU, layers: Facts | None) -> Estimate:
        """As learnt, and no less than operators need."""
        here = replace(case, gpu=gpu.name)
        return at_least(self.learnt.predict(here, gpu, seen(series_of(here))), self.least_s(here, layers))

    def least_s(self, case: PredictedCase, layers: Facts | None) -> float:
        """Seconds that operators need, unless published batches of the series needed less."""
        gpu, series = self.gpus[case.gpu], seen(series_of(case))
        floor_s = floor_of(layers, gpu, case.precision, case.runtime)
        passed = passed_by(((batch, exp(log_s)) for batch, log_s in series), floor_s)
        return max(floor_s(case.batch) / passed, self.learnt.least_s(case, gpu, series))


def _at_precision(case: PredictedCase, precision: str) -> PredictedCase:
    """The same at one precision, of products and convolutions alike."""
    return replace(case, precision=precision, products_share=None)


def chip_of(gpu: GPU) -> tuple[str, int]:
    """What kinds of one chip have in common: an H200 is an H100 with faster memory."""
    return gpu.compute_capability, gpu.sm_count or 0


def is_as_good(one: GPU, other: GPU) -> bool:
    """Whether a kind has all that another one has."""
    pairs = ((getattr(one, name) or 0.0, getattr(other, name) or 0.0) for name in RATES)
    return all(first >= second for first, second in pairs)


def as_good(some: Sequence[GPU]) -> dict[str, set[str]]:
    """Kinds of GPU, each with those of them that it is as good as."""
    return {one.name: {other.name for other in some if other is not one and is_as_good(one, other)} for one in some}


def is_as_fast(gpu: GPU, precision: str, wider: str) -> bool:
    """Whether a GPU computes at a precision, and no slower than at a wider one."""
    return not lacks(gpu, precision) and peak_flops(gpu, precision) >= peak_flops(gpu, wider)


def in_order(told: Mapping[str, Estimate], as_good: Mapping[str, Set[str]]) -> dict[str, Estimate]:
    """The same where each kind is as fast as any that it is as good as.

    Those that contradict one another take their mean by certainty, the farthest apart first, and keep their bands but
    for ends that contradict one another.
    """
    own = {name: Weighed(log(estimate.value), _weight(estimate)) for name, estimate in told.items()}
    groups = {name: frozenset([name]) for name in told}
    means = {name: time.log_s for name, time in own.items()}
    pairs = [(better, worse) for better in told for worse in told if worse in as_good[better]]
    while pairs:
        better, worse = max(pairs, key=lambda pair: means[pair[0]] - means[pair[1]])
        if means[better] - means[worse] < SAME:
            break
        both = groups[better] | groups[worse]
        groups |= dict.fromkeys(both, both)
        means |= dict.fromkeys(both, _mean([own[name] for name in both]))
    moved = {name: _moved(estimate, exp(means[name] - own[name].log_s)) for name, estimate in told.items()}
    return {
        name: reduce(no_slower, (moved[other] for other in as_good[name] if other in moved), estimate)
        for name, estimate in moved.items()
    }


def _weight(estimate: Estimate) -> float:
    """One over the variance of its logarithm."""
    return max(SD_MIN, log(estimate.high / estimate.low) / (2 * SPREAD_80)) ** -2


def _mean(times: list[Weighed]) -> float:
    """By certainty; the same to the last bit in whichever order they come, which that of a set is not."""
    return fsum(time.log_s * time.weight for time in times) / fsum(time.weight for time in times)


def _moved(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(value=estimate.value * factor, low=estimate.low * factor, high=estimate.high * factor)
