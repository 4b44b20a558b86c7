"""Anatomy as text for people and as JSON."""

from collections.abc import Callable, Iterator
from typing import Any

from planner.layout import Column, Format, Screen, counted, markdown, seconds, share, table
from planner.plans import Estimate, Prediction
from planner.prediction.roofline import Bound, LayerTime
from planner.profiling.anatomy import Anatomy, Measured, OnArray
from planner.profiling.systolic import ArrayLayer
from planner.profiling.whatif import Unanswered, WhatIf
from planner.profiling.working_set import Knee, working_set_bytes
from planner.store import to_json
from planner.training.memory import CONTEXT_BYTES, Fits
from simulator.errors import InputError
from simulator.precision import VALUE_BYTES, value_share, weight_share

SCHEMA = "planner.anatomy/v1"
SHOWN = 12
"""Layers in the table; JSON has all."""
PROBES_SHOWN = 5
"""Probes named; JSON names all."""


class FormatError(InputError):
    """A form that this answer is not written in; the text is one line."""


def render(seen: Anatomy, form: Format, screen: Screen) -> str:
    """The answer in the form that was asked for."""
    match form:
        case Format.JSON:
            return to_json(document(seen))
        case Format.TABLE | Format.MD:
            return "\n".join(_lines(seen, screen, form)) + "\n"
    raise FormatError(f"--format {form}: a profile of one model is written as table, json or md. Write one of them.")


# Text


def _lines(seen: Anatomy, screen: Screen, form: Format) -> Iterator[str]:
    yield from screen.wrap(_headline(seen))
    if seen.gpu:
        yield from screen.wrap(_answer(seen))
    yield from _section(screen, form, *_layers(seen))
    if seen.gpu:
        yield from screen.wrap(_ceilings(seen), indent=2)
    if seen.on_array:
        yield from _section(screen, form, *_array(seen.on_array))
    yield from _section(screen, form, "What if", _what_ifs(seen))
    yield from _training(seen, screen)
    if seen.knees:
        title = "Where the working set leaves a memory level"
        yield from _section(screen, form, title, _knees(seen.knees))
    if seen.measured:
        yield from _section(screen, form, f"Measured on {seen.measured.device}", _measured(seen.measured))
        yield from screen.wrap(_experiment(seen.measured), indent=2)


def _section(screen: Screen, form: Format, title: str, columns: list[Column]) -> Iterator[str]:
    yield ""
    yield f"## {title}" if form is Format.MD else screen.bold(title)
    if form is Format.MD:
        yield ""
    yield from markdown(columns) if form is Format.MD else table(columns, screen)


def _headline(seen: Anatomy) -> str:
    facts, roof = seen.facts, seen.roofline
    return (
        f"{facts.model}: {_params(facts.params)}, {_amount(facts.macs)} multiply-adds a sample of"
        f" {'x'.join(map(str, facts.input_shape))}; a batch of {seen.batch} at {seen.precision} moves"
        f" {_bytes(roof.bytes)} in {counted(facts.kernels, 'operator')}."
    )


def _params(count: int) -> str:
    """`25.56 M parameters`; `9,118 parameters`."""
    return f"{count / 1e6:.2f} M parameters" if count >= 100_000 else f"{count:,} parameters"


def _answer(seen: Anatomy) -> str:
    assert seen.gpu is not None
    held = ", ".join(f"{bound} {share(part)}" for bound, part in seen.roofline.shares.items())
    bound = f"Bound by {seen.roofline.bound} ({held} of the roofline's {seconds(seen.roofline.total_s)})."
    if seen.prediction is None:
        return f"On {seen.gpu.name} nothing tells its time. {bound}"
    told = seen.prediction
    return (
        f"On {seen.gpu.name}: {_range(told.latency_s, seconds)} a batch;"
        f" {_range(told.memory_bytes, _bytes)} of weights and workspace ({told.evidence}, by {_rule(told)}). {bound}"
    )


def _range(estimate: Estimate, written: Callable[[float], str]) -> str:
    """`8.50 ms`, or with its 80 % band where it has one: `8.50 ms (80 %: 7.10 ms to 9.90 ms)`."""
    if estimate.low == estimate.high:
        return written(estimate.value)
    return f"{written(estimate.value)} (80 %: {written(estimate.low)} to {written(estimate.high)})"


def _rule(told: Prediction) -> str:
    """`measured-ratio with nvidia_resnet50`; many probes are counted, their names are in the JSON."""
    if len(told.probes) > PROBES_SHOWN:
        return f"{told.rule} of {len(told.probes)} models"
    return str(told.rule) + (f" with {', '.join(told.probes)}" if told.probes else "")


def _ceilings(seen: Anatomy) -> str:
    limits = seen.roofline.ceilings
    per_value = limits.operations_per_value(VALUE_BYTES[seen.precision])
    return (
        f"Ceilings: {limits.flops_per_s / 1e12:.3g} TFLOP/s, {limits.bytes_per_s / 1e9:.4g} GB/s,"
        f" {limits.launch_s * 1e6:.3g} us an operator ({limits.evidence}: {limits.source}). Arithmetic dominates from"
        f" {limits.balance:.3g} operations a byte: {per_value:.0f} for a number that is read and written."
    )


def _layers(seen: Anatomy) -> tuple[str, list[Column]]:
    def weight(time: LayerTime) -> float:
        return time.time_s or time.bytes

    times = sorted(seen.roofline.layers, key=weight, reverse=True)[:SHOWN]
    total = sum(map(weight, seen.roofline.layers)) or 1.0
    order = sorted(times, key=seen.roofline.layers.index)
    columns = [
        Column("layer", [time.layer.name for time in order]),
        Column("type", [time.layer.type for time in order]),
        Column("operations", [_amount(time.flops) for time in order], right=True),
        Column("moved", [_bytes(time.bytes) for time in order], right=True),
        Column("operations/byte", [f"{time.intensity:.3g}" for time in order], right=True),
        Column("working set", [_bytes(working_set_bytes(time.layer, 1, seen.precision)) for time in order], right=True),
        Column("share", [share(weight(time) / total, 1) for time in order], right=True),
    ]
    if seen.gpu:
        columns += [
            Column("time", [_time(time.time_s) for time in order], right=True),
            Column("bound", [str(time.bound) for time in order]),
        ]
    most = "take longest" if seen.gpu else "move most"
    return f"The {len(order)} of {len(seen.roofline.layers)} layers that {most}, in the order they run", columns


def _what_ifs(seen: Anatomy) -> list[Column]:
    now = seen.roofline
    answers = seen.what_ifs
    columns = [
        Column("change", [each.name for each in answers]),
        Column("operations", [_change(each, "flops", now.flops) for each in answers], right=True),
        Column("moved", [_change(each, "bytes", now.bytes) for each in answers], right=True),
        Column("assumes", [each.assumes if isinstance(each, WhatIf) else each.reason for each in answers]),
    ]
    if seen.gpu:
        columns.insert(3, Column("time", [_change(each, "time_s", now.total_s) for each in answers], right=True))
    return columns


def _change(each: WhatIf | Unanswered, what: str, now: float) -> str:
    value = getattr(each, what, None)
    if value is None:
        return "-"
    if each.name == "as it is":
        return _time(value) if what == "time_s" else _bytes(value) if what == "bytes" else _amount(value)
    return f"{100 * (value / now - 1):+.1f} %" if now else "-"


def _training(seen: Anatomy, screen: Screen) -> Iterator[str]:
    held, less = seen.training, seen.checkpointing
    yield ""
    yield screen.bold("Memory of a training step")
    kept = held.activations
    yield from screen.wrap(
        f"{_bytes(held.total.mid)} ({_bytes(held.total.low)} to {_bytes(held.total.high)}) at fp32 and batch"
        f" {seen.batch}: weights {_bytes(held.weights)}, gradients {_bytes(held.gradients)}, momentum"
        f" {_bytes(held.optimizer)}, activations {_bytes(kept.mid)} ({_bytes(kept.low)} to {_bytes(kept.high)}), the"
        f" rest is the allocator's; the framework's context, about {_bytes(CONTEXT_BYTES)}, comes on top."
        f"{_too_much(seen)}",
        indent=2,
    )
    if less.segments > 1:
        yield from screen.wrap(
            f"With activation checkpointing in {less.segments} segments: {_bytes(less.checkpointed_bytes)} of"
            f" activations instead of {_bytes(less.kept_bytes)}, for {share(less.more_operations)} more operations."
            f" Assumes: {less.assumes}.",
            indent=2,
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


def _knees(found: tuple[Knee, ...]) -> list[Column]:
    return [
        Column("level", [knee.level.name for knee in found]),
        Column("size", [_bytes(knee.level.size_bytes) for knee in found], right=True),
        Column("from batch", [f"{knee.batch:,}" for knee in found], right=True),
        Column("first layer", [knee.layer or "all together" for knee in found]),
        Column("layers outside", [share(knee.share) for knee in found], right=True),
    ]


def _array(found: OnArray) -> tuple[str, list[Column]]:
    order = sorted(sorted(found.layers, key=lambda x: -x.time_s)[:SHOWN], key=found.layers.index)
    title = (
        f"On {found.array.name}, {found.dataflow}: {seconds(found.total_s)} a batch, {share(found.utilization, 1)}"
        f" of its cells busy; the {len(order)} longest of {len(found.layers)} layers"
    )
    return title, [
        Column("layer", [x.layer.name for x in order]),
        Column("folds", [f"{x.folds:,}" for x in order], right=True),
        Column("cycles", [f"{x.cycles:,}" for x in order], right=True),
        Column("utilization", [share(x.utilization, 2) for x in order], right=True),
        Column("time", [_time(x.time_s) for x in order], right=True),
        Column("bound", [x.bound for x in order]),
        Column("on the chip", ["yes" if x.fits else "no" for x in order]),
    ]


def _measured(found: Measured) -> list[Column]:
    pairs = sorted(found.times_s.items())
    return [
        Column("batch", [str(batch) for batch, _ in pairs], right=True),
        Column("time", [seconds(time_s) for _, time_s in pairs], right=True),
        Column("a sample", [seconds(time_s / batch) for batch, time_s in pairs], right=True),
    ]


def _experiment(found: Measured) -> str:
    knee = f"Time a sample rises at batch {found.knee}." if found.knee else "Time a sample rises nowhere."
    return f"{found.follows[0].upper()}{found.follows[1:]}. {knee}"


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


def document(seen: Anatomy) -> dict[str, Any]:
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
        "what_ifs": [_what_if(each) for each in seen.what_ifs],
        "training_memory_bytes": {
            **seen.training.kinds(),
            "total": {"value": total.mid, "low": total.low, "high": total.high},
        },
        "checkpointing": {
            "segments": seen.checkpointing.segments,
            "activations_bytes": seen.checkpointing.checkpointed_bytes,
            "more_operations": seen.checkpointing.more_operations,
        },
        "memory_levels": [
            {
                "level": knee.level.name,
                "size_bytes": knee.level.size_bytes,
                "from_batch_size": knee.batch,
                "layer": knee.layer,
                "layers_outside": knee.share,
            }
            for knee in seen.knees
        ],
    }
    return found | _on_gpu(seen) | _on_array(seen.on_array) | _run(seen.measured)


def _layer(seen: Anatomy, time: LayerTime) -> dict[str, Any]:
    layer = time.layer
    row: dict[str, Any] = {
        "name": layer.name,
        "type": layer.type,
        "signature": layer.signature,
        "params": layer.params,
        "flops": time.flops,
        "bytes_moved": time.bytes,
        "intensity": time.intensity,
        "operators": layer.kernels,
        "input_bytes": round(value_share(seen.precision) * layer.input_bytes),
        "weight_bytes": round(weight_share(seen.precision) * layer.weight_bytes),
        "output_bytes": round(value_share(seen.precision) * layer.output_bytes),
        "working_set_bytes": round(working_set_bytes(layer, 1, seen.precision)),
    }
    return row | ({"time_s": time.time_s, "bound": str(time.bound)} if seen.gpu else {})


def _what_if(each: WhatIf | Unanswered) -> dict[str, Any]:
    if isinstance(each, Unanswered):
        return {"name": each.name, "reason": each.reason}
    timed = {} if each.time_s is None else {"time_s": each.time_s}
    return {"name": each.name, "flops": each.flops, "bytes_moved": each.bytes, **timed, "assumes": each.assumes}


def _on_gpu(seen: Anatomy) -> dict[str, Any]:
    if seen.gpu is None:
        return {}
    roof, limits = seen.roofline, seen.roofline.ceilings
    found: dict[str, Any] = {
        "gpu": seen.gpu.name,
        "bound": str(roof.bound),
        "bound_shares": {str(bound): part for bound, part in roof.shares.items() if bound is not Bound.NONE},
        "roofline_s": roof.total_s,
        "ceilings": {
            "flops_per_s": limits.flops_per_s,
            "bytes_per_s": limits.bytes_per_s,
            "launch_s": limits.launch_s,
            "evidence": str(limits.evidence),
            "source": limits.source,
        },
    }
    if (told := seen.prediction) is None:
        return found
    return found | {
        "latency_s": _ends(told.latency_s),
        "memory_bytes": _ends(told.memory_bytes),
        "load_s": _ends(told.load_s),
        "evidence": str(told.evidence),
        "rule": str(told.rule),
        "probes": list(told.probes),
    }


def _ends(estimate: Estimate) -> dict[str, float]:
    return {end: getattr(estimate, end) for end in ("value", "low", "high")}


def _on_array(found: OnArray | None) -> dict[str, Any]:
    if found is None:
        return {}
    return {
        "array": {
            "device": found.array.name,
            "dataflow": str(found.dataflow),
            "time_s": found.total_s,
            "cycles": sum(x.cycles for x in found.layers),
            "utilization": found.utilization,
            "source": found.array.source,
            "layers": [_mapped(x) for x in found.layers],
        }
    }


def _mapped(x: ArrayLayer) -> dict[str, Any]:
    return {
        "name": x.layer.name,
        "folds": x.folds,
        "cycles": x.cycles,
        "utilization": x.utilization,
        "time_s": x.time_s,
        "bound": x.bound,
        "on_chip": x.fits,
    }


def _run(found: Measured | None) -> dict[str, Any]:
    if found is None:
        return {}
    times = {str(batch): time_s for batch, time_s in sorted(found.times_s.items())}
    return {"measured": {"device": found.device, "latency_s": times, "knee": found.knee, "verdict": found.follows}}
