"""Anatomy as text for people and as JSON."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from operator import attrgetter
from typing import Any, TypeVar

from calibrate.library.reading import USUAL_RUNTIME
from planner.model.plan import Estimate, Prediction
from planner.prediction.rules.roofline import Bound, LayerTime
from planner.questions.profiling.anatomy import Anatomy, MeasuredTimes, OnArray
from planner.questions.profiling.whatif import LayerWhatIf, Unanswered
from planner.questions.profiling.working_set import Knee, working_set_bytes
from planner.questions.training.memory import CONTEXT_BYTES, Fits
from planner.show.document import Column, Document, Rows, Section, Table, Text
from planner.units.writing import counted, seconds, share, signed_share
from simulator.world.hardware import GPU
from simulator.world.precision import VALUE_BYTES, value_share, weight_share
from simulator.world.signature import Signature

T = TypeVar("T")
SCHEMA = "planner.anatomy/v1"
SHOWN = 12
"""Layers in the table; JSON has all."""
PROBES_SHOWN = 5
"""Probes named; JSON names all."""
BEYOND_SEEN = 0.25
"""Share of the time that the roofline must leave open to be worth a word."""
LAUNCH_MOST_S = 1e-4
"""Longest launch of an operator that a host may need; PyTorch's take 5 to 20 us."""

FOLLOWS = 0.8
"""Exponent of time against data from which time follows the data."""
STANDS = 0.2
"""Exponent of time against data up to which time stands still."""


# Text


def document(seen: Anatomy) -> Document:
    """Where time and memory go, and what would change them."""
    on_gpu = seen.gpu is not None
    return Document(
        name=seen.facts.model,
        headline=_headline(seen),
        lead=[Text(_answer(seen) if on_gpu else "")],
        sections=[
            Section(_layers_title(seen), [Table(_layers(seen)), Text(_ceilings(seen) if on_gpu else "", indent=2)]),
            *(Section(_array_title(x), [Table(_array(x)), _array_note(x)]) for x in _known(seen.on_array)),
            Section("What if", [Table(_what_ifs(seen))]),
            Section("Accuracy at other precisions", _accuracies(seen)),
            Section("Memory of a training step", [Text(text, indent=2) for text in _training(seen)]),
            Section("Where the working set leaves a memory level", [Table(_knees(seen.knees))]),
            *(
                Section(f"Measured on {x.device}", [Table(_measured(x)), Text(_experiment(x), indent=2)])
                for x in _known(seen.measured)
            ),
        ],
    )


def _known(part: T | None) -> list[T]:
    """A part that not every anatomy has."""
    return [] if part is None else [part]


def _headline(seen: Anatomy) -> str:
    facts, roof = seen.facts, seen.roofline
    params = f"{facts.params / 1e6:.2f} M parameters" if facts.params >= 100_000 else f"{facts.params:,} parameters"
    return (
        f"{facts.model}: {params}, {_amount(facts.macs)} multiply-adds a sample of"
        f" {'x'.join(map(str, facts.input_shape))}; a batch of {seen.batch} at {seen.precision} moves"
        f" {_bytes(roof.bytes)} in {counted(facts.kernels, 'operator')}."
    )


def _answer(seen: Anatomy) -> str:
    assert seen.gpu is not None
    held = ", ".join(f"{bound} {share(part)}" for bound, part in seen.roofline.shares.items())
    bound = f"Bound by {seen.roofline.bound} ({held} of the roofline's {seconds(seen.roofline.total_s)})."
    if seen.prediction is None:
        return f"On {seen.gpu.name} nothing tells its time. {bound}"
    prediction = seen.prediction
    if prediction.latency_s.value < seen.roofline.total_s:
        faster = f"it takes less than the roofline's {seconds(seen.roofline.total_s)}, whose ceilings are none here"
        bound = f"By {seen.roofline.bound} most of all ({held}; {faster})."
    runtime = "" if prediction.runtime == USUAL_RUNTIME else f"in {prediction.runtime}, "
    basis = f"{runtime}{prediction.evidence}, by {_rule(prediction)}"
    return (
        f"On {seen.gpu.name}{_too_small(seen.gpu, prediction)}:"
        f" {_range(prediction.latency_s, seconds)} a batch ({basis});"
        f" {_bytes(prediction.memory_bytes)} of weights and tensors, {_bytes(prediction.reserved_bytes)} reserved"
        f" ({prediction.memory_evidence})."
        f" {bound}{_beyond(seen, prediction.latency_s.value)}"
    )


def _too_small(gpu: GPU, prediction: Prediction) -> str:
    """`, whose 16 GB do not hold it`; empty where they do. The framework's context comes on top."""
    room_bytes = gpu.memory_bytes - CONTEXT_BYTES
    if prediction.memory_bytes > room_bytes:
        return f", whose {_bytes(gpu.memory_bytes)} do not hold it"
    if prediction.reserved_bytes > room_bytes:
        return f", whose {_bytes(gpu.memory_bytes)} may not hold it, so that no plan runs it there"
    return ""


def _beyond(seen: Anatomy, time_s: float) -> str:
    """What the roofline leaves open; empty where it explains the time."""
    left_s = time_s - seen.roofline.total_s
    if left_s < BEYOND_SEEN * time_s:
        return ""
    slow = f" The other {seconds(left_s)}: kernels reach less than those ceilings"
    each_s = time_s / seen.facts.kernels
    if each_s > LAUNCH_MOST_S:
        return f"{slow}."
    return (
        f"{slow}, or the launch of {seen.facts.kernels:,} operators takes {each_s * 1e6:.3g} us each; then smaller"
        " batches take as long."
    )


def _range(estimate: Estimate, figure: Callable[[float], str]) -> str:
    """`8.50 ms`, or with its 80 % band where it has one: `8.50 ms (80 %: 7.10 ms to 9.90 ms)`."""
    if estimate.low == estimate.high:
        return figure(estimate.value)
    return f"{figure(estimate.value)} (80 %: {figure(estimate.low)} to {figure(estimate.high)})"


def _rule(prediction: Prediction) -> str:
    """`measured-ratio with nvidia_resnet50`; many probes are counted, their names are in the JSON."""
    if len(prediction.probes) > PROBES_SHOWN:
        return f"{prediction.rule} of {len(prediction.probes)} models"
    return str(prediction.rule) + (f" with {', '.join(prediction.probes)}" if prediction.probes else "")


def _ceilings(seen: Anatomy) -> str:
    limits = seen.roofline.ceilings
    per_value = limits.operations_per_value(VALUE_BYTES[seen.precision])
    products = limits.products_flops_per_s
    slower = f" ({products / 1e12:.3g} for matrix products, in fp32)" if products else ""
    return (
        f"Ceilings: {limits.flops_per_s / 1e12:.3g} TFLOP/s{slower}, {limits.bytes_per_s / 1e9:.4g} GB/s,"
        f" {limits.launch_s * 1e6:.3g} us an operator ({limits.evidence}: {limits.source}). Arithmetic dominates from"
        f" {limits.balance:.3g} operations a byte: {per_value:.0f} for a number that is read and written."
    )


def _weight(time: LayerTime) -> float:
    """Its time; of an anatomy without a GPU the bytes it moves."""
    return time.time_s or time.bytes


def _longest(seen: Anatomy) -> list[LayerTime]:
    """The layers that take or move most, in the order they run."""
    times = sorted(seen.roofline.layers, key=_weight, reverse=True)[:SHOWN]
    return sorted(times, key=seen.roofline.layers.index)


def _layers_title(seen: Anatomy) -> str:
    most = "take longest" if seen.gpu else "move most"
    count = len(seen.roofline.layers)
    return f"The {min(SHOWN, count)} of {count} layers that {most}, in the order they run"


def _layers(seen: Anatomy) -> list[Column]:
    total = sum(map(_weight, seen.roofline.layers)) or 1.0
    rows = Rows(_longest(seen))
    columns = [
        rows.words("layer", "layer.name"),
        rows.words("type", "layer.type"),
        rows.shown("operations", "flops", _amount),
        rows.shown("moved", "bytes", _bytes),
        rows.figures("operations/byte", lambda time: f"{time.intensity:.3g}"),
        rows.figures("working set", lambda time: _bytes(working_set_bytes(time.layer, 1, seen.precision))),
        rows.figures("share", lambda time: share(_weight(time) / total, 1)),
    ]
    if seen.gpu:
        columns.append(rows.shown("time", "time_s", _time))
        columns.append(rows.words("bound", "bound"))
    return columns


def _what_ifs(seen: Anatomy) -> list[Column]:
    now, rows = seen.roofline, Rows(seen.what_ifs)
    columns = [
        rows.words("change", "name"),
        rows.figures("operations", lambda each: _change(each, "flops", now.flops)),
        rows.figures("moved", lambda each: _change(each, "bytes", now.bytes)),
    ]
    if seen.gpu:
        columns.append(rows.figures("time", lambda each: _change(each, "time_s", now.total_s)))
    return [
        *columns,
        rows.words("assumes", lambda each: each.assumes if isinstance(each, LayerWhatIf) else each.reason),
    ]


def _accuracies(seen: Anatomy) -> list[Table | Text]:
    """What is published of it, or that nothing is."""
    if not seen.accuracies:
        return [Text(f"What another precision costs {seen.facts.model} in accuracy is not published.", indent=2)]
    rows = Rows(seen.accuracies)
    columns = [
        rows.words("precision", "precision"),
        rows.words("runtime", "runtime"),
        rows.words("how", "method"),
        rows.words("metric", "metric"),
        rows.figures("at fp32", lambda one: f"{one.reference:g} %"),
        rows.figures("then", lambda one: f"{one.value:g} %"),
        rows.figures("points lost", lambda one: f"{one.lost:.2f}"),
        rows.words("source", "source", cited=True),
    ]
    return [Table(columns)]


def _change(each: LayerWhatIf | Unanswered, what: str, now: float) -> str:
    value = getattr(each, what, None)
    if value is None or isinstance(each, Unanswered):
        return "-"
    if not each.is_change:
        return _time(value) if what == "time_s" else _bytes(value) if what == "bytes" else _amount(value)
    return signed_share(value / now - 1) if now else "-"


def _training(seen: Anatomy) -> Iterator[str]:
    held, less = seen.training, seen.checkpointing
    kept = held.activations
    yield (
        f"{_bytes(held.total.mid)} ({_bytes(held.total.low)} to {_bytes(held.total.high)}) at fp32 and batch"
        f" {seen.batch}: weights {_bytes(held.weights)}, gradients {_bytes(held.gradients)}, momentum"
        f" {_bytes(held.optimizer)}, activations {_bytes(kept.mid)} ({_bytes(kept.low)} to {_bytes(kept.high)}), the"
        f" rest is the allocator's; the framework's context, about {_bytes(CONTEXT_BYTES)}, comes on top."
        f"{_too_much(seen)}"
    )
    if less.segments > 1:
        yield (
            f"With activation checkpointing in {less.segments} segments: {_bytes(less.checkpointed_bytes)} of"
            f" activations instead of {_bytes(less.kept_bytes)}, for {share(less.more_operations)} more operations."
            f" Assumes: {less.assumes}."
        )


def _too_much(seen: Anatomy) -> str:
    if seen.gpu is None:
        return ""
    says = {
        Fits.YES: "",
        Fits.LIKELY: "it fits at the middle of that band, not at its upper end.",
        Fits.UNLIKELY: "it fits at the lower end of that band only.",
        Fits.NO: "it does not fit.",
    }[Fits.of(seen.training.total + CONTEXT_BYTES, seen.gpu.memory_bytes)]
    return f" {seen.gpu.name} has {_bytes(seen.gpu.memory_bytes)}: {says}" if says else ""


def _knees(knees: tuple[Knee, ...]) -> list[Column]:
    rows = Rows(knees)
    return [
        rows.words("level", "level.name"),
        rows.shown("size", "level.size_bytes", _bytes),
        rows.figures("from batch", lambda knee: f"{knee.batch:,}"),
        rows.words("first layer", lambda knee: knee.layer or "all together"),
        rows.shown("layers outside", "share", share),
    ]


def _array_title(array: OnArray) -> str:
    busy = f"{seconds(array.total_s)} a batch, {share(array.utilization, 1)} of its cells busy"
    count = len(array.layers)
    return f"On {array.array.name}, {array.dataflow}: {busy}; the {min(SHOWN, count)} longest of {count} layers"


def _array_note(array: OnArray) -> Text:
    """The widths and rates by which these times are counted, which are the array's own."""
    held = f"{counted(array.array.value_bytes, 'byte')} a weight, whatever the precision above"
    rate = f"weights come at {array.array.memory_bytes_per_s / 1e9:.3g} GB/s"
    return Text(f"{held}; {rate}. Source: {array.array.source}.", indent=2)


def _array(array: OnArray) -> list[Column]:
    rows = Rows(sorted(sorted(array.layers, key=lambda x: -x.time_s)[:SHOWN], key=array.layers.index))
    return [
        rows.words("layer", "layer.name"),
        rows.figures("folds", lambda x: f"{x.folds:,}"),
        rows.figures("cycles", lambda x: f"{x.cycles:,}"),
        rows.figures("utilization", lambda x: share(x.utilization, 2)),
        rows.shown("time", "time_s", _time),
        rows.words("bound", "bound"),
        rows.words("on the chip", lambda x: "yes" if x.fits else "no"),
    ]


def _measured(measured: MeasuredTimes) -> list[Column]:
    rows = Rows(sorted(measured.times_s.items()))
    return [
        rows.figures("batch", lambda pair: str(pair[0])),
        rows.figures("time", lambda pair: seconds(pair[1])),
        rows.figures("a sample", lambda pair: seconds(pair[1] / pair[0])),
    ]


def _experiment(measured: MeasuredTimes) -> str:
    knee = f"Time a sample rises at batch {measured.knee}." if measured.knee else "Time a sample rises nowhere."
    return f"{verdict(measured.exponent).capitalize()}. {knee}"


def verdict(exponent: float | None) -> str:
    """How time follows the data, by the exponent of the one against the other."""
    if exponent is None:
        return "one size alone shows nothing"
    if exponent >= FOLLOWS:
        return f"time follows the data (exponent {exponent:.2f}): bound by arithmetic or bandwidth"
    if exponent <= STANDS:
        return f"time stands still (exponent {exponent:.2f}): bound by overhead"
    return f"time follows the data in part (exponent {exponent:.2f}): overhead and work both hold it"


def _amount(value: float) -> str:
    """`4.09 G`, `118 M`, `0`."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 999.5 * size else f"{value / size:.0f} {unit}"
    return f"{value:.0f}"


def _bytes(value: float) -> str:
    """`361 MB`."""
    return f"{_amount(value)}B" if value >= 1e3 else f"{value:.0f} B"


def _time(value_s: float) -> str:
    """Microseconds below a tenth of a millisecond."""
    return f"{value_s * 1e6:.1f} us" if value_s < 1e-4 else seconds(value_s)


# JSON


LAYER = {
    "name": "layer.name",
    "type": "layer.type",
    "signature": "layer.signature",
    "params": "layer.params",
    "flops": "flops",
    "bytes_moved": "bytes",
    "intensity": "intensity",
    "operators": "layer.kernels",
}
MAPPED = {
    "name": "layer.name",
    "folds": "folds",
    "cycles": "cycles",
    "utilization": "utilization",
    "time_s": "time_s",
    "bound": "bound",
    "on_chip": "fits",
}
LEVEL = {
    "level": "level.name",
    "size_bytes": "level.size_bytes",
    "from_batch_size": "batch",
    "layer": "layer",
    "layers_outside": "share",
}
"""Keys of the JSON, and where their figures stand."""
ACCURACY = "precision runtime method metric reference value lost source as_of"
CEILINGS = "flops_per_s products_flops_per_s bytes_per_s launch_s evidence source"
PREDICTION = "latency_s memory_bytes reserved_bytes load_s evidence memory_evidence rule probes runtime"
"""The same of figures that stand under their keys."""


def _picked(thing: object, keys: Mapping[str, str] | str) -> dict[str, Any]:
    named = {key: key for key in keys.split()} if isinstance(keys, str) else keys
    return {key: _written(attrgetter(path)(thing)) for key, path in named.items()}


def _written(value: object) -> object:
    """A band as its ends, a signature as its text."""
    if isinstance(value, Estimate):
        return asdict(value)
    return str(value) if isinstance(value, Signature) else value


def as_json(seen: Anatomy) -> dict[str, Any]:
    """All figures, SI units."""
    facts, roof, total = seen.facts, seen.roofline, seen.training.total
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "model": facts.model,
        "input_shape": list(facts.input_shape),
        "batch_size": seen.batch,
        "precision": seen.precision,
        "params": facts.params,
        "macs": facts.flops // 2,
        "weight_bytes": round(weight_share(seen.precision) * facts.weight_bytes),
        "flops": roof.flops,
        "bytes_moved": roof.bytes,
        "operators": facts.kernels,
        "layers": [_layer(seen, time) for time in roof.layers],
        "what_ifs": list(map(_what_if, seen.what_ifs)),
        "accuracies": [_picked(one, ACCURACY) for one in seen.accuracies],
        "training_memory_bytes": {
            **seen.training.kinds(),
            "total": {"value": total.mid, "low": total.low, "high": total.high},
        },
        "checkpointing": {
            "segments": seen.checkpointing.segments,
            "activations_bytes": seen.checkpointing.checkpointed_bytes,
            "more_operations": seen.checkpointing.more_operations,
        },
        "memory_levels": [_picked(knee, LEVEL) for knee in seen.knees],
    }
    return found | _on_gpu(seen) | _on_array(seen.on_array) | _run(seen.measured)


def _layer(seen: Anatomy, time: LayerTime) -> dict[str, Any]:
    layer = time.layer
    row = _picked(time, LAYER) | {
        "input_bytes": round(value_share(seen.precision) * layer.input_bytes),
        "weight_bytes": round(weight_share(seen.precision) * layer.weight_bytes),
        "output_bytes": round(value_share(seen.precision) * layer.output_bytes),
        "working_set_bytes": round(working_set_bytes(layer, 1, seen.precision)),
    }
    return row | (_picked(time, "time_s bound") if seen.gpu else {})


def _what_if(each: LayerWhatIf | Unanswered) -> dict[str, Any]:
    if isinstance(each, Unanswered):
        return {"name": each.name, "reason": each.reason}
    timed = {} if each.time_s is None else {"time_s": each.time_s}
    return {"name": each.name, "flops": each.flops, "bytes_moved": each.bytes, **timed, "assumes": each.assumes}


def _on_gpu(seen: Anatomy) -> dict[str, Any]:
    if seen.gpu is None:
        return {}
    roof = seen.roofline
    found: dict[str, Any] = {
        "gpu": seen.gpu.name,
        "bound": roof.bound,
        "bound_shares": {bound: part for bound, part in roof.shares.items() if bound is not Bound.NONE},
        "roofline_s": roof.total_s,
        "ceilings": _picked(roof.ceilings, CEILINGS),
    }
    return found | (_picked(seen.prediction, PREDICTION) if seen.prediction else {})


def _on_array(array: OnArray | None) -> dict[str, Any]:
    if array is None:
        return {}
    return {
        "array": {
            "device": array.array.name,
            "dataflow": array.dataflow,
            "time_s": array.total_s,
            "cycles": sum(x.cycles for x in array.layers),
            "utilization": array.utilization,
            "source": array.array.source,
            "layers": [_picked(x, MAPPED) for x in array.layers],
        }
    }


def _run(measured: MeasuredTimes | None) -> dict[str, Any]:
    if measured is None:
        return {}
    times = {str(batch): time_s for batch, time_s in sorted(measured.times_s.items())}
    words = verdict(measured.exponent)
    return {"measured": {"device": measured.device, "latency_s": times, "knee": measured.knee, "verdict": words}}
