"""Effects: what a measured time is made of, so that times of one model on one GPU say something of others.

A time is a smooth maximum of work and overhead, each a roofline times effects of the architecture, the GPU, the
precision, the runtime and of some of them together: random numbers around one whose spreads are learnt too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from math import exp, hypot, log, log2, tanh
from typing import NamedTuple

import numpy as np

from calibrate.library.held import own_counts
from calibrate.published import names
from calibrate.published.points import points
from simulator.world.hardware import GPU
from simulator.world.precision import VALUE_BYTES, WEIGHT_BYTES

FP8_BYTES = 1
"""Of a number at fp8, which scenarios do not know."""
WORK_REACHED, BANDWIDTH_REACHED = 0.4, 0.7
"""Shares of a data sheet's rates that whole models reach; effects correct them."""
OVERHEAD_S = {
    "tensorrt": 3e-4,
    "tensorrt-with-io": 3e-4,
    "paddle-tensorrt": 1e-3,
    "fastertransformer": 1e-3,
    "fastertransformer-int8-v1": 1e-3,
    "fastertransformer-int8-v2": 1e-3,
    "fastertransformer-pytorch": 1e-3,
    "fastertransformer-tensorrt": 1e-3,
    "fastertransformer-unpadded": 1e-3,
    "fastertransformer-unpadded-int8-v1": 1e-3,
    "fastertransformer-unpadded-int8-v2": 1e-3,
    "triton-onnxruntime": 2e-3,
    "triton-onnxruntime-tensorrt": 2e-3,
    "triton-pytorch": 2e-3,
    "triton-tensorflow": 2e-3,
    "triton-tensorrt": 2e-3,
}
"""Seconds that a pass of the usual network takes at least, by runtime; effects correct them."""
OVERHEAD_ELSE_S = 5e-3
ONE_BY_ONE = ("pytorch", "torchscript", "triton-pytorch", "mxnet", "paddle", "tensorflow", "triton-tensorflow")
"""Runtimes that run operators one by one, each of which reads and writes memory."""
MOVED_AGAIN = {"transformer": 2.4, "detector": 3.8, "segmenter": 3.6, "separable": 3.3, "convolutional": 3.7}
"""Bytes that operators move there over those that convolutions and products read and write, by style: medians of 158
networks whose layers are known. Half of the transformers are within 2.3 and 3.0, of convolutional ones within 2.9 and
4.1."""
MOVED_AGAIN_ELSE = 2.3
UNKNOWN = names.Architecture(name="", input="224", params=3e7, macs=4e9, activations=1e7)
"""Stands for an architecture whose operations are not known, until its own effect corrects it: of larger pictures it
takes more. Half of those that are known take no more than 4.6 billion at 224 pixels, and 39 at 640."""
SAME_NETWORKS = {
    "deit_base_patch16": "vit_b_16",
    "deit_small_patch16": "vit_small_patch16",
    "deit_tiny_patch16": "vit_tiny_patch16",
}
"""Networks that differ in their training alone (Touvron and others, 2012.12877)."""
SAME_MACS, SAME_KERNELS = 0.001, 0.05
"""Logarithms by which networks that are alike may differ: some number a text's tokens by kernels of their own."""
FREE_FLOPS_PER_J = 0.1e12
"""Peak arithmetic for each joule of the power limit from which clocks fall below those of the peak."""
USUAL_FLOPS_PER_J = 1e12 / 6
"""That of a kind of GPU whose effect of power is none, and of a device that does not tell its power."""
L2_BYTES_ELSE = 6e6
"""Of a GPU whose cache is not known: that of a V100 and an A10."""
FULL_AT = (-2.0, 0.0)
"""Half the logarithm of a billion multiply-adds for each multiprocessor, below which batches do not fill it."""
VARIANT = re.compile(r"^(?:tf_|se_|legacy_|ese_|fix_|nvidia_|timm_|tiny_(?=yolo)|distil(?=bert))|^se(?=res)")
"""Beginnings of a name that leave its family the same."""
FAMILY = re.compile(r"[a-z]+?(?=[^a-z]|$|v\d)(?:v\d+)?")
"""The first word of a name, with its version: `mobilenetv2` of `mobilenetv2_100`, `yolov8` of `yolov8n`."""
STYLES = {
    "transformer": re.compile(
        "bert|vit|deit|beit|swin|electra|cait|xcit|eva|gpt|transformer|twins|volo|mixer|mlp|pit_|pvt|tnt|levit|coat"
        "|focal|(?<!res)nest|clip|uniformer|hiera|visformer|sequencer|former"
        "|minilm|mpnet|bge-|^(?:multilingual-)?e5-|dinov2|siglip|whisper|wav2vec|dpt-|depth-anything|trocr"
    ),
    "detector": re.compile("yolo|ssd|rcnn|retina|detr|fcos|d_fine|det|ttf|solo|panoptic|fpn"),
    "segmenter": re.compile("unet|vnet|deeplab|seg|fcn|pspnet|hrnet"),
    "separable": re.compile(
        "mobile|efficient|mnas|ghost|lcnet|rexnet|fbnet|tinynet|mixnet|shuffle|(?<!r)esnet|hardcorenas|semnas|gpunet"
        "|convnext|starnet|fast|van_|inception_next|rdnet|lite"
    ),
    "convolutional": re.compile("res|net|vgg|inception|dla|dpn|xception|sel|rep|cs3|nf|rnn"),
}
"""How a network is made, by its name: those that are made alike gain and lose alike."""
READERS = "bert"
"""Family of networks that read tokens and that nobody published: most are made like it."""
LINEAR = re.compile(r"convnextv2_|convnext_(?:tiny|small|base|large|x)|edgenext")
"""Convolutional networks most of whose operations are linear layers."""
WINOGRAD = 2.25
"""Times that convolutions may seem to pass the peak: Winograd's form of 3x3 takes 16 products where 36 are counted."""
SOURCE_GROUPS = ("source gpu", "overhead source gpu", "source runtime", "overhead source", "source")
"""Groups of effects of whoever published a figure: those of a runtime on a GPU first, those of all figures last."""
OF_OVERHEAD = (
    "runtime, gpu, chip, generation, family, style, style runtime, model, model runtime, model gpu, model chip, "
    "runtime gpu, runtime generation, runtime precision, runtime precision gpu, family runtime"
)
"""What overhead is learnt of."""
OF_WORK = (
    "runtime, runtime precision, gpu, gpu precision, gpu runtime, gpu runtime precision, chip, chip precision, "
    "chip runtime, generation, generation precision, generation runtime precision, style, style generation "
    "precision, style runtime precision, family, family generation, family runtime precision, model, model input, "
    "model precision, model runtime, model runtime precision, model gpu"
)
"""What the reached share of rates is learnt of."""
OF_BOUND = "gpu, generation precision, runtime precision, gpu runtime precision, family, style"
"""What that share is learnt of where arithmetic binds."""
OF_BATCH = "model, gpu, runtime, style, gpu runtime precision"
"""What its growth with the batch is learnt of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedCase:
    """A batch of a model on a GPU, by the names of `calibrate.published.names`."""

    gpu: str
    architecture: str
    input: str
    precision: str
    runtime: str
    batch: float
    full: bool = False
    """Whether the batch was not stated: a throughput at the largest that paid."""
    counted: names.Architecture | None = None
    """Of a model whose layers were looked at: its own counts at this input."""
    products_share: float | None = None
    """Share of its operations that are matrix products, by its layers, where it is asked for as PyTorch comes."""


class EffectPart(StrEnum):
    """What an effect multiplies."""

    WORK = "work"
    OVERHEAD = "overhead"
    WHOLE = "whole"


class Effect(NamedTuple):
    """One effect in one case."""

    part: EffectPart
    group: str
    key: str
    weight: float


class CaseRoofline(NamedTuple):
    """What data sheets and counts of operations say of a case."""

    log_work: float
    """Logarithm of the seconds of its work."""
    log_overhead: float
    """Of the seconds that a pass takes at least."""
    arithmetic: float
    """1 where arithmetic binds the work, -1 where memory does."""
    counted: names.Architecture
    known: bool
    """Whether these counts are the architecture's own."""

    def log_time(self, work: float, overhead: float, full: bool) -> float:
        """Of the whole, where effects on work and overhead add up to these."""
        slow, least = self.log_work + work, self.log_overhead + overhead
        return slow if full else 0.5 * float(np.logaddexp(2 * slow, 2 * least))

    def share(self, work: float, overhead: float, full: bool) -> float:
        """How much of the time is work, 0 to 1: how far the time follows the work."""
        apart = 2 * (self.log_overhead + overhead - self.log_work - work)
        return 1.0 if full else 1 / (1 + exp(min(apart, 700.0)))


def roofline(case: PredictedCase, gpu: GPU) -> CaseRoofline:
    """Work is the slower of arithmetic and memory, smoothly."""
    facts = case.counted or names.facts_of(case.architecture, case.input)
    known = facts is not None and facts.macs is not None
    counted = at_size(facts if facts and known else UNKNOWN, case.input)
    macs, activations, params = counted.macs or 0.0, counted.activations or 0.0, counted.params or 0.0
    arithmetic_s = 2 * macs * case.batch / (WORK_REACHED * peak_flops(gpu, case.precision))
    value_bytes = VALUE_BYTES.get(case.precision, FP8_BYTES)
    weight_bytes = WEIGHT_BYTES.get(case.precision, FP8_BYTES)
    again = MOVED_AGAIN.get(style(case.architecture), MOVED_AGAIN_ELSE) if case.runtime in ONE_BY_ONE else 1.0
    moved_bytes = again * 2 * activations * case.batch * value_bytes + params * weight_bytes
    memory_s = moved_bytes / (BANDWIDTH_REACHED * gpu.memory_bytes_per_s)
    return CaseRoofline(
        log(hypot(arithmetic_s, memory_s)),
        log(OVERHEAD_S.get(case.runtime, OVERHEAD_ELSE_S)),
        tanh(log(arithmetic_s / memory_s) / 2),
        counted,
        known,
    )


def least_s(case: PredictedCase, gpu: GPU) -> float:
    """Seconds that a case takes at the vendor's peak at least: at fp32, Winograd's convolutions spare operations."""
    convolves_fp32 = case.precision == "fp32" and style(case.architecture) != "transformer"
    return operations_s(case, gpu) / (WINOGRAD if convolves_fp32 else 1.0)


def operations_s(case: PredictedCase, gpu: GPU) -> float:
    """Seconds that all operations of a case take at the vendor's peak; 0 where they are not known."""
    facts = case.counted or names.facts_of(case.architecture, case.input)
    macs = (at_size(facts, case.input).macs or 0.0) if facts else 0.0
    return 2 * macs * case.batch / peak_flops(gpu, case.precision)


@cache
def at_size(facts: names.Architecture, size: str) -> names.Architecture:
    """The architecture at another size of input: operations and activations grow with pixels, and with tokens."""
    grown = names.grown(facts.input, size)
    macs = (facts.macs or 0.0) * grown
    activations = facts.activations and facts.activations * grown
    grown_facts = replace(facts, macs=macs, activations=activations, params=facts.params or UNKNOWN.params)
    return replace(grown_facts, activations=names.activations_of(grown_facts))


def peak_flops(gpu: GPU, precision: str) -> float:
    """Highest rate (FLOP/s); one of fp16 where that of a narrower number is not known."""
    return gpu.peak_flops("int8" if precision == "fp8" else precision)


def flops_per_j(gpu: GPU, precision: str) -> float:
    """Peak arithmetic for each joule of the power limit; no less than what clocks never fall for."""
    return max(peak_flops(gpu, precision) / gpu.tdp_w, FREE_FLOPS_PER_J) if gpu.tdp_w else USUAL_FLOPS_PER_J


def network(case: PredictedCase) -> str:
    """The published architecture that a case's network is: its own, or one made alike under another name.

    `vit_b_16` of `deit_base_patch16`; `bert_base` of RoBERTa-base, of which the vocabulary alone is another.
    """
    if not names.tokens(case.input):
        return SAME_NETWORKS.get(case.architecture, case.architecture)
    own = own_counts(case.architecture) or case.counted
    return _reader(case.architecture, own) if own else case.architecture


@cache
def _reader(architecture: str, own: names.Architecture) -> str:
    """Of networks that read tokens, the published one of as many operations and kernels."""
    known = ((name, own_counts(name)) for name in _published_readers())
    return next((name for name, other in known if other and _are_alike(own, other)), architecture)


def _are_alike(one: names.Architecture, other: names.Architecture) -> bool:
    pairs = ((one.macs, other.macs, SAME_MACS), (one.kernels, other.kernels, SAME_KERNELS))
    return one.input == other.input and all(a and b and abs(log(a / b)) < apart for a, b, apart in pairs)


@cache
def _published_readers() -> list[str]:
    """Networks that read tokens, with published points."""
    return [name for name in names.architectures() if names.tokens(names.usual_input(name)) and any(points(name))]


@cache
def family(architecture: str) -> str:
    """`resnet` of `resnet50`."""
    plain = VARIANT.sub("", VARIANT.sub("", _bare(architecture)))
    found = FAMILY.match(plain)
    return found[0] if found else plain


@cache
def style(architecture: str) -> str:
    """How a network is made: `transformer` for `vit_b_16`."""
    plain = _bare(architecture)
    return next((name for name, pattern in STYLES.items() if pattern.search(plain)), "other")


def _bare(architecture: str) -> str:
    """A name without the package or owner of the model: `all-minilm-l6-v2`."""
    return re.split("[:/]", architecture.lower())[-1]


def products_share(architecture: str, of_layers: float | None) -> float:
    """Share of its operations that are matrix products: by its layers, else by its name."""
    if of_layers is not None:
        return of_layers
    return float(style(architecture) == "transformer" or bool(LINEAR.match(architecture)))


def chip(gpu: GPU) -> str:
    """`A100` of the A100-80GB-PCIe, and `A10` of the A10G."""
    return gpu.chip or gpu.name


def effects(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> Iterator[Effect]:
    """All effects of a case, whoever measures it."""
    yield from effects_of_any_batch(case, told, gpu)
    yield from effects_of_batch(case, told, gpu)


def effects_of_any_batch(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> Iterator[Effect]:
    """Those that are the same for every batch: most, so that they need to be looked up once only."""
    model, kind, runtime, precision = case.architecture, case.gpu, case.runtime, case.precision
    yield Effect(EffectPart.WHOLE, "mean", "", 1.0)
    yield Effect(EffectPart.WHOLE, "full runtime", runtime, float(case.full))
    yield Effect(EffectPart.WHOLE, "series", f"{model} {case.input} {kind} {precision} {runtime}", 1.0)
    yield from _of_overhead(case, told, gpu)
    yield from _of_work(case, told, gpu)
    yield from _of_size(case, told, gpu)


def source_effects(case: PredictedCase, source: str) -> Iterator[Effect]:
    """Those of whoever published a case: versions of software, hosts, and how it was measured."""
    kind, runtime, precision = case.gpu, case.runtime, case.precision
    yield Effect(EffectPart.WHOLE, "source", source, 1.0)
    yield Effect(EffectPart.WHOLE, "source runtime", f"{source} {runtime} {precision}", 1.0)
    yield Effect(EffectPart.WHOLE, "source gpu", f"{source} {kind} {runtime}", 1.0)
    yield Effect(EffectPart.OVERHEAD, "overhead source", f"{source} {runtime}", 1.0)
    yield Effect(EffectPart.OVERHEAD, "overhead source gpu", f"{source} {runtime} {kind}", 1.0)


def is_repository(source: str) -> bool:
    """Whether a source is a repository, `owner/name`, of whose times it is seldom said how they were measured."""
    return "/" in source


def _words(case: PredictedCase, gpu: GPU) -> dict[str, str]:
    """What an effect can be of, by the words that name it."""
    model = network(case)
    return {
        "runtime": case.runtime,
        "precision": case.precision,
        "gpu": case.gpu,
        "chip": chip(gpu),
        "generation": gpu.compute_capability,
        "family": READERS if case.counted and names.tokens(case.input) else family(model),
        "style": style(model),
        "model": model,
        "input": case.input,
    }


def _keys(named: str, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each of the names, with what it is of: of `model gpu`, `resnet50 T4`."""
    for name, parts in _parts(named):
        yield name, " ".join([words[word] for word in parts])


@cache
def _parts(named: str) -> list[tuple[str, list[str]]]:
    """The names, each with its words: they are asked for at every prediction."""
    return [(name, name.split()) for name in named.split(", ")]


def _of_overhead(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> Iterator[Effect]:
    """Launching kernels is the runtime's and the host's, and grows with how many there are."""
    runtime = case.runtime
    for what, key in _keys(OF_OVERHEAD, _words(case, gpu)):
        yield Effect(EffectPart.OVERHEAD, f"overhead {_marked(what, told)}", key, 1.0)
    for what, size in _sizes(told):
        yield Effect(EffectPart.OVERHEAD, "overhead slope", what, size)
        yield Effect(EffectPart.OVERHEAD, "overhead slope runtime", f"{what} {runtime}", size)
    yield Effect(EffectPart.OVERHEAD, "overhead slope", "fp32 rate", log(gpu.fp32_flops / 2e13))
    yield Effect(EffectPart.OVERHEAD, "overhead slope", "bandwidth", log(gpu.memory_bytes_per_s / 6e11))


def _of_work(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> Iterator[Effect]:
    """Shares of the roofline's rates that are reached."""
    for what, key in _keys(OF_WORK, _words(case, gpu)):
        yield Effect(EffectPart.WORK, f"work {_marked(what, told)}", key, 1.0)


def _marked(what: str, told: CaseRoofline) -> str:
    """The name of an effect: a model whose layers are not known is another one."""
    return f"{what}?" if what in ("model", "model input") and not told.known else what


def _of_size(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> Iterator[Effect]:
    """How the reached shares change with the network's size and the GPU's."""
    runtime, precision = case.runtime, case.precision
    of_style, generation = style(case.architecture), gpu.compute_capability
    for what, size in _sizes(told):
        yield Effect(EffectPart.WORK, "slope of size", what, size)
        yield Effect(EffectPart.WORK, "slope of size runtime precision", f"{what} {runtime} {precision}", size)
        yield Effect(EffectPart.WORK, "slope of size generation", f"{what} {generation}", size)
        yield Effect(EffectPart.WORK, "slope of size style", f"{what} {of_style}", size)
    yield Effect(EffectPart.WORK, "slope", "peak", _log_peak(case, gpu))
    yield Effect(EffectPart.WORK, "slope", "bandwidth", log(gpu.memory_bytes_per_s / 6e11))
    yield Effect(EffectPart.WORK, "slope", "watts", 2 * log(USUAL_FLOPS_PER_J / flops_per_j(gpu, precision)))
    yield Effect(EffectPart.WORK, "slope", "l2", log((gpu.l2_bytes or L2_BYTES_ELSE) / 1e7) / 2)


def effects_of_batch(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> Iterator[Effect]:
    """How the reached shares change with what binds the work and with the batch."""
    for weight, keys in zip(weights_of_batch(case, told, gpu), keys_of_batch(case, gpu), strict=True):
        for group, key in keys:
            yield Effect(EffectPart.WORK, group, key, weight)


def weights_of_batch(case: PredictedCase, told: CaseRoofline, gpu: GPU) -> tuple[float, ...]:
    """What each list of `keys_of_batch` is multiplied by."""
    grown = log2(case.batch) / 5
    each = log((told.counted.macs or 0.0) * case.batch / (gpu.sm_count or 40) / 1e9) / 2
    lacking = (max(0.0, limit - each) for limit in FULL_AT)
    return told.arithmetic, grown, grown * _log_peak(case, gpu), *lacking


def keys_of_batch(case: PredictedCase, gpu: GPU) -> Iterator[list[tuple[str, str]]]:
    """Groups and keys of what changes with the batch, whatever it is."""
    kind, words, way = case.gpu, _words(case, gpu), f"{case.runtime} {case.precision}"
    yield [(f"bound {what}", key) for what, key in _keys(OF_BOUND, words)]
    yield [*((f"batch {what}", key) for what, key in _keys(OF_BATCH, words)), ("slope", "batch")]
    yield [("slope", "batch by peak")]
    for limit in FULL_AT:
        of = {"": "", " runtime precision": way, " gpu": kind, " style": style(case.architecture)}
        yield [(f"fill{what}", f"{limit:g} {key}".rstrip()) for what, key in of.items()]


def _log_peak(case: PredictedCase, gpu: GPU) -> float:
    """Logarithm of the highest rate over a usual one."""
    return log(peak_flops(gpu, case.precision) / 5e13)


def _sizes(told: CaseRoofline) -> Iterator[tuple[str, float]]:
    """Half the logarithms of the architecture's counts over usual ones; none where they are not known."""
    if told.known:
        yield "params", log((told.counted.params or 3e7) / 3e7) / 2
        yield "macs", log((told.counted.macs or 4e9) / 4e9) / 2
        yield "activations", log((told.counted.activations or 1e7) / 1e7) / 2
