"""Effects: what a measured time is made of, so that times of one model on one GPU say something of others.

The logarithm of a time is that of a roofline, plus effects of the architecture, the GPU, the precision, the runtime and
of some of them together, each a random number around zero. Effects of work count by how much a batch is bound by work,
effects of overhead by the rest.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import hypot, log, log2, tanh
from typing import NamedTuple

from calibrate.published import names
from simulator.world.hardware import GPU

WORK_REACHED, BANDWIDTH_REACHED = 0.4, 0.7
"""Shares of a data sheet's rates that whole models reach; effects correct them."""
OVERHEAD_S = {"tensorrt": 3e-4, "paddle-tensorrt": 4e-4}
"""Seconds that a pass takes at least, where a runtime is compiled."""
OVERHEAD_ELSE_S = 3e-3
VALUE_BYTES = {"fp32": 4, "tf32": 4, "int8": 1, "fp8": 1}
"""Of a number in memory; 2 in all other precisions."""
UNKNOWN = names.Architecture(name="", input="", params=3e7, macs=4e9, activations=1e7)
"""Stands for an architecture of which nothing is known, until its own effect corrects it."""
CHIP = re.compile(r"-MIG.*|-\d+GB|-PCIe|-NVL|-SXM2|-vGPU")
"""Parts of a kind's name that leave its chip the same."""
FAMILY = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A batch of a model on a GPU, by the names of `calibrate.published.names`."""

    gpu: str
    architecture: str
    input: str
    precision: str
    runtime: str
    batch: float
    full: bool = False
    """Whether the batch was not stated: a throughput at the largest that paid."""


SPREAD = {
    "mean": 2.0,
    "overhead runtime": 0.7,
    "overhead gpu": 0.3,
    "overhead chip": 0.25,
    "overhead generation": 0.2,
    "overhead family": 0.4,
    "overhead model": 0.5,
    "overhead model?": 1.2,
    "overhead model runtime": 0.4,
    "overhead model gpu": 0.1,
    "overhead model chip": 0.1,
    "overhead runtime gpu": 0.2,
    "overhead runtime generation": 0.2,
    "overhead runtime precision": 0.2,
    "work runtime": 0.3,
    "work runtime precision": 0.4,
    "work gpu": 0.2,
    "work gpu precision": 0.15,
    "work gpu runtime": 0.12,
    "work gpu runtime precision": 0.12,
    "work chip": 0.2,
    "work chip precision": 0.15,
    "work chip runtime": 0.15,
    "work generation": 0.2,
    "work generation precision": 0.15,
    "work generation runtime precision": 0.15,
    "work family": 0.35,
    "work family gpu": 0.1,
    "work family chip": 0.1,
    "work family generation": 0.1,
    "work family gpu precision": 0.1,
    "work family runtime precision": 0.2,
    "work model": 0.35,
    "work model?": 1.5,
    "work model input": 0.15,
    "work model input?": 0.8,
    "work model precision": 0.15,
    "work model runtime": 0.15,
    "work model runtime precision": 0.12,
    "work model gpu": 0.1,
    "work model chip": 0.08,
    "series": 0.08,
    "bound gpu": 0.2,
    "bound runtime precision": 0.25,
    "bound gpu runtime precision": 0.12,
    "batch model": 0.15,
    "batch gpu": 0.1,
    "full runtime": 0.3,
    "slope": 0.1,
    "source": 0.1,
}
"""Standard deviation of each group's effects, in logarithms of time."""
NOISE = 0.05
"""Of one figure, the same."""


class Effect(NamedTuple):
    """One effect in one case."""

    group: str
    key: str
    weight: float


class Roofline(NamedTuple):
    """What data sheets and counts of operations say of a case."""

    log_time: float
    work: float
    """How much of the time is work, 0 to 1; the rest is overhead."""
    arithmetic: float
    """1 where arithmetic binds the work, -1 where memory does."""
    known: bool
    """Whether the architecture's operations are known."""


def roofline(case: Case, gpu: GPU) -> Roofline:
    """A smooth maximum of overhead and work, and of arithmetic and memory within the work."""
    facts = names.facts_of(case.architecture, case.input)
    known = facts is not None and facts.macs is not None
    counted = at_size(facts, case.input) if facts and known else UNKNOWN
    macs, activations, params = counted.macs or 0.0, counted.activations or 1e7, counted.params or 3e7
    size = VALUE_BYTES.get(case.precision, 2)
    arithmetic_s = 2 * macs * case.batch / (WORK_REACHED * peak_flops(gpu, case.precision))
    moved_bytes = (2 * activations * case.batch + params) * size
    memory_s = moved_bytes / (BANDWIDTH_REACHED * gpu.memory_bytes_per_s)
    work_s, overhead_s = hypot(arithmetic_s, memory_s), OVERHEAD_S.get(case.runtime, OVERHEAD_ELSE_S)
    work = 1.0 if case.full else work_s**2 / (work_s**2 + overhead_s**2)
    return Roofline(log(hypot(work_s, overhead_s)), work, tanh(log(arithmetic_s / memory_s) / 2), known)


def at_size(facts: names.Architecture, size: str) -> names.Architecture:
    """The architecture at another size of picture: operations and activations grow with pixels."""
    if not (size.isdigit() and facts.input.isdigit()) or size == facts.input:
        return facts
    pixels = (int(size) / int(facts.input)) ** 2
    return replace(facts, macs=(facts.macs or 0) * pixels, activations=(facts.activations or 0) * pixels or None)


def peak_flops(gpu: GPU, precision: str) -> float:
    """Highest rate (FLOP/s); one of fp16 where that of a narrower number is not known."""
    return gpu.peak_flops("int8" if precision == "fp8" else precision)


def family(architecture: str) -> str:
    """`resnet` of `resnet50`."""
    found = FAMILY.match(architecture.lower())
    return found[0] if found else architecture


def chip(gpu: str) -> str:
    """`A100` of `A100-80GB-PCIe`."""
    return CHIP.sub("", gpu)


def effects(case: Case, told: Roofline, gpu: GPU) -> Iterator[Effect]:
    """All effects of a case."""
    work, overhead = told.work, 1 - told.work
    model, kind, runtime, precision = case.architecture, case.gpu, case.runtime, case.precision
    group, of_chip, generation = family(model), chip(kind), gpu.compute_capability
    unknown = "" if told.known else "?"
    yield Effect("mean", "", 1.0)
    yield from (
        Effect(f"overhead {what}", key, overhead)
        for what, key in (
            ("runtime", runtime),
            ("gpu", kind),
            ("chip", of_chip),
            ("generation", generation),
            ("family", group),
            (f"model{unknown}", model),
            ("model runtime", f"{model} {runtime}"),
            ("model gpu", f"{model} {kind}"),
            ("model chip", f"{model} {of_chip}"),
            ("runtime gpu", f"{runtime} {kind}"),
            ("runtime generation", f"{runtime} {generation}"),
            ("runtime precision", f"{runtime} {precision}"),
        )
    )
    yield from (
        Effect(f"work {what}", key, work)
        for what, key in (
            ("runtime", runtime),
            ("runtime precision", f"{runtime} {precision}"),
            ("gpu", kind),
            ("gpu precision", f"{kind} {precision}"),
            ("gpu runtime", f"{kind} {runtime}"),
            ("gpu runtime precision", f"{kind} {runtime} {precision}"),
            ("chip", of_chip),
            ("chip precision", f"{of_chip} {precision}"),
            ("chip runtime", f"{of_chip} {runtime}"),
            ("generation", generation),
            ("generation precision", f"{generation} {precision}"),
            ("generation runtime precision", f"{generation} {runtime} {precision}"),
            ("family", group),
            ("family gpu", f"{group} {kind}"),
            ("family chip", f"{group} {of_chip}"),
            ("family generation", f"{group} {generation}"),
            ("family gpu precision", f"{group} {kind} {precision}"),
            ("family runtime precision", f"{group} {runtime} {precision}"),
            (f"model{unknown}", model),
            (f"model input{unknown}", f"{model} {case.input}"),
            ("model precision", f"{model} {precision}"),
            ("model runtime", f"{model} {runtime}"),
            ("model runtime precision", f"{model} {runtime} {precision}"),
            ("model gpu", f"{model} {kind}"),
            ("model chip", f"{model} {of_chip}"),
        )
    )
    yield Effect("series", f"{model} {case.input} {kind} {precision} {runtime}", 1.0)
    bound = work * told.arithmetic
    yield Effect("bound gpu", kind, bound)
    yield Effect("bound runtime precision", f"{runtime} {precision}", bound)
    yield Effect("bound gpu runtime precision", f"{kind} {runtime} {precision}", bound)
    grown = work * log2(case.batch) / 5
    yield Effect("batch model", model, grown)
    yield Effect("batch gpu", kind, grown)
    yield Effect("full runtime", runtime, float(case.full))
    peak = log(peak_flops(gpu, precision) / 5e13)
    yield Effect("slope", "peak", work * peak)
    yield Effect("slope", "bandwidth", work * log(gpu.memory_bytes_per_s / 6e11))
    yield Effect("slope", "overhead by fp32 rate", overhead * log(gpu.fp32_flops / 2e13))
    yield Effect("slope", "batch", grown)
    yield Effect("slope", "batch by peak", grown * peak)
