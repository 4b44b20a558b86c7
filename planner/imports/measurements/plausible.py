"""Plausible: times that no GPU reaches are refused; those far from what is predicted are kept with a doubt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from calibrate.library.possible import LEFT_OUT_MAX
from calibrate.published import names
from planner.prediction.effects import PredictedCase, operations_s, peak_flops
from planner.prediction.learnt import learnt
from planner.prediction.rules.roofline import PrecisionError
from planner.units.writing import seconds
from simulator.errors import InputError
from simulator.world.hardware import GPU, with_article

FAR = 30.0
"""Times off by more are rather of another unit than of another host: while 2,028 figures of repositories
(`benchmarks/repositories.csv`) taught nothing, the worst was off by a factor of 9, so one in another unit would be off
by 100 at least."""
UNIT = 1000.0
"""Between seconds, milliseconds and microseconds."""


def doubts_of(
    facts: Mapping[str, str], known: names.Architecture | None, gpu: GPU, times_s: Mapping[int, float], place: str
) -> Sequence[str]:
    """What speaks against times by batch size. InputError where no arithmetic of the GPU is as fast."""
    if known is None or known.macs is None:
        return ()
    try:
        precision = learnt().precision(gpu, facts["precision"])
    except PrecisionError:
        return ()
    case = PredictedCase(
        gpu=gpu.name,
        architecture=known.name,
        input=facts["input"] or known.input,
        precision=precision,
        runtime=facts["runtime"],
        batch=1.0,
        counted=known,
    )
    _demand_possible(case, gpu, times_s, place)
    return () if gpu.cores else tuple(_far(case, gpu, times_s))  # of processors nothing was learnt


def _demand_possible(case: PredictedCase, gpu: GPU, times_s: Mapping[int, float], place: str) -> None:
    reached = {batch: operations_s(_of(case, batch), gpu) / time_s for batch, time_s in times_s.items()}
    batch = max(reached, key=reached.__getitem__)
    if reached[batch] <= LEFT_OUT_MAX:
        return
    peak = peak_flops(gpu, case.precision) / 1e12
    rate = f"{reached[batch] * peak:,.0f} TFLOP/s, and {with_article(gpu.name)} reaches {peak:,.0f} at {case.precision}"
    remedy = f"Were {seconds(times_s[batch] * UNIT)} meant? Else name the model, input and precision that ran"
    raise InputError(f"{place}: batch {batch} in {seconds(times_s[batch])} is {rate}. {remedy}.")


def _far(case: PredictedCase, gpu: GPU, times_s: Mapping[int, float]) -> Iterator[str]:
    """The batch that is farthest from what is predicted, where hosts and versions explain less."""
    ratios = {batch: time_s / learnt().predict(_of(case, batch), gpu).value for batch, time_s in times_s.items()}
    batch = max(ratios, key=lambda one: max(ratios[one], 1 / ratios[one]))
    ratio, time_s = ratios[batch], times_s[batch]
    if max(ratio, 1 / ratio) < FAR:
        return
    predicted, meant = seconds(time_s / ratio), seconds(time_s / UNIT if ratio > 1 else time_s * UNIT)
    usual = f"some {predicted} is predicted of this model there"
    yield f"Batch {batch} in {seconds(time_s)}: {usual}; was {meant} meant? Mend the unit, or measure it again"


def _of(case: PredictedCase, batch: int) -> PredictedCase:
    return replace(case, batch=float(batch))
