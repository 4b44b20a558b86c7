"""A model's `config.pbtxt` of Triton Inference Server: what it says of batches and instances, each field checked.

The fields are those of `model_config.proto` (github.com/triton-inference-server/common).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.io.files import named, read_text
from planner.imports.serving.textproto import Message, TextprotoValue, parse
from planner.io.strict_yaml import MAX_BYTES
from planner.units.reading import did_you_mean
from simulator.errors import InputError
from simulator.near import known_ones

INTEGERS = {
    "int32": range(-(2**31), 2**31),
    "uint32": range(2**32),
    "int64": range(-(2**63), 2**63),
    "uint64": range(2**64),
}
Kind = str | tuple[str, ...]
"""A type by its name; or the words of which a field takes one."""
OPAQUE = "message"
"""A message whose fields say nothing of batches and instances; only its grammar is checked."""
DATA_TYPES = (
    "TYPE_INVALID",
    "TYPE_BOOL",
    *("TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64"),
    *("TYPE_INT8", "TYPE_INT16", "TYPE_INT32", "TYPE_INT64"),
    *("TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_STRING", "TYPE_BF16"),
)
FIELDS: Mapping[str, Mapping[str, Kind | list[str]]] = {
    "ModelConfig": {
        **dict.fromkeys(("name", "platform", "backend", "runtime", "default_model_filename"), "string"),
        "version_policy": "ModelVersionPolicy",
        "max_batch_size": "int32",
        "input": ["ModelInput"],
        "dynamic_batching": "ModelDynamicBatching",
        "ensemble_scheduling": "ModelEnsembling",
        "instance_group": ["ModelInstanceGroup"],
        "parameters": ["ParametersEntry"],
        **{key: [OPAQUE] for key in ("output", "batch_input", "batch_output", "cc_model_filenames")},
        **{key: [OPAQUE] for key in ("metric_tags", "model_warmup")},
        "optimization": "ModelOptimizationPolicy",
        **dict.fromkeys(("sequence_batching", "model_operations", "model_metrics"), OPAQUE),
        **dict.fromkeys(("model_transaction_policy", "model_repository_agents", "response_cache"), OPAQUE),
    },
    "ModelInput": {
        "name": "string",
        "data_type": DATA_TYPES,
        "format": ("FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"),
        "dims": ["int64"],
        "reshape": OPAQUE,
        **dict.fromkeys(("is_shape_tensor", "allow_ragged_batch", "optional", "is_non_linear_format_io"), "bool"),
    },
    "ParametersEntry": {"key": "string", "value": "ModelParameter"},
    "ModelParameter": {"string_value": "string"},
    "ModelOptimizationPolicy": {
        "priority": ("PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"),
        "execution_accelerators": "ExecutionAccelerators",
        **dict.fromkeys(("graph", "cuda", "input_pinned_memory", "output_pinned_memory"), OPAQUE),
        "gather_kernel_buffer_threshold": "uint32",
        "eager_batching": "bool",
    },
    "ExecutionAccelerators": {
        "gpu_execution_accelerator": ["Accelerator"],
        "cpu_execution_accelerator": ["Accelerator"],
    },
    "Accelerator": {"name": "string", "parameters": ["AcceleratorParameter"]},
    "AcceleratorParameter": {"key": "string", "value": "string"},
    "ModelVersionPolicy": {"latest": "Latest", "all": OPAQUE, "specific": "Specific"},
    "Latest": {"num_versions": "uint32"},
    "Specific": {"versions": ["int64"]},
    "ModelDynamicBatching": {
        "preferred_batch_size": ["int32"],
        "max_queue_delay_microseconds": "uint64",
        "preserve_ordering": "bool",
        "priority_levels": "uint64",
        "default_priority_level": "uint64",
        "default_queue_policy": "ModelQueuePolicy",
        "priority_queue_policy": [OPAQUE],
    },
    "ModelQueuePolicy": {
        "timeout_action": ("REJECT", "DELAY"),
        "default_timeout_microseconds": "uint64",
        "allow_timeout_override": "bool",
        "max_queue_size": "uint32",
    },
    "ModelEnsembling": {"step": ["Step"], "max_inflight_requests": "uint32"},
    "Step": {
        "model_name": "string",
        "model_version": "int64",
        "input_map": [OPAQUE],
        "output_map": [OPAQUE],
        "model_namespace": "string",
    },
    "ModelInstanceGroup": {
        "name": "string",
        "kind": ("KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"),
        "count": "int32",
        "rate_limiter": "ModelRateLimiter",
        "gpus": ["int32"],
        "secondary_devices": [OPAQUE],
        "profile": ["string"],
        "passive": "bool",
        "host_policy": "string",
    },
    "ModelRateLimiter": {"resources": ["Resource"], "priority": "uint32"},
    "Resource": {"name": "string", "global": "bool", "count": "uint32"},
}
"""Type of each field by message; in a list, of one that is repeated."""
BOOLEANS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False, 1: True, 0: False}
Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGroup:
    """Copies of a model that Triton keeps loaded."""

    kind: str
    """`KIND_GPU`, `KIND_CPU`, `KIND_AUTO` or `KIND_MODEL`."""
    count: int
    """On each of its GPUs, or in all where it is on none."""
    gpus: tuple[int, ...]
    """Empty: every GPU of the server."""
    rate_limited: bool

    def __str__(self) -> str:
        """`2 on each of GPU 0, 1`."""
        if self.kind == "KIND_CPU":
            return f"{self.count} on processors"
        if not self.gpus:
            return f"{self.count} on every GPU"
        listed = ", ".join(map(str, self.gpus))
        return f"{self.count} on {'each of ' if len(self.gpus) > 1 else ''}GPU {listed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonInput:
    """A tensor that a request brings."""

    name: str
    data_type: str
    sides: tuple[int, ...]
    """Of one sample, without the batch; -1 is free."""

    def __str__(self) -> str:
        """`3x224x224 fp32`."""
        sides = "x".join("?" if side < 0 else str(side) for side in self.sides)
        return f"{sides} {self.data_type.removeprefix('TYPE_').lower()}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonConfig:
    """Fields of a `config.pbtxt` that a scenario or its reader may want."""

    name: str
    """Empty where the file does not say."""
    backend: str
    max_batch_size: int
    """Most samples in one request or batch; 1 where the model takes no batches."""
    inputs: tuple[TritonInput, ...]
    dynamic: bool
    """True where Triton gathers requests into batches."""
    preferred_batch_sizes: tuple[int, ...]
    max_queue_delay_s: float
    timeout_s: float | None
    """Requests that waited so long are given up or put last."""
    groups: tuple[InstanceGroup, ...]
    steps: tuple[str, ...]
    """Models of an ensemble."""
    ensemble: bool
    stateful: bool
    """True where requests come in sequences that stay with one instance."""
    versions: tuple[int, ...] | int
    """Numbers that are served, or how many of the latest; 0: all."""
    accelerators: Mapping[str, Mapping[str, str]]
    """Software that compiles parts of the model for GPUs, with what it is told: `precision_mode` of `tensorrt`."""
    parameters: Mapping[str, str]
    """Notes of whoever wrote the file, for backends or for `planner from-triton`: `profile`, `precision`."""


def read_config(path: Path) -> TritonConfig:
    """Contents of a `config.pbtxt`; InputError, in one line with its place, where it cannot be read."""
    with named(path, "Mend the file"):
        text = read_text(path, MAX_BYTES)
    return of_message(checked(parse(text, str(path)), "ModelConfig"))


def of_message(config: Config) -> TritonConfig:
    """A checked message as data."""
    batching = config.get("dynamic_batching", {})
    policy = batching.get("default_queue_policy", {})
    timeout = policy.get("default_timeout_microseconds")
    scheduling = config.get("ensemble_scheduling", {})
    return TritonConfig(
        name=str(config.get("name", "")),
        backend=str(config.get("backend") or config.get("platform") or ""),
        max_batch_size=max(1, config.get("max_batch_size", 0)),
        inputs=tuple(_input(one, config.get("max_batch_size", 0)) for one in config.get("input", [])),
        dynamic="dynamic_batching" in config,
        preferred_batch_sizes=tuple(batching.get("preferred_batch_size", [])),
        max_queue_delay_s=batching.get("max_queue_delay_microseconds", 0) / 1e6,
        timeout_s=timeout / 1e6 if timeout else None,
        groups=tuple(group(g) for g in config.get("instance_group", []) if not g.get("passive")),
        steps=tuple(str(step.get("model_name", "")) for step in scheduling.get("step", [])),
        ensemble="ensemble_scheduling" in config or config.get("platform") == "ensemble",
        stateful="sequence_batching" in config,
        versions=versions(config.get("version_policy", {})),
        accelerators={
            str(one.get("name", "")): {
                entry.get("key", ""): entry.get("value", "") for entry in one.get("parameters", [])
            }
            for one in config.get("optimization", {})
            .get("execution_accelerators", {})
            .get("gpu_execution_accelerator", [])
        },
        parameters={
            str(entry.get("key", "")): str(entry.get("value", {}).get("string_value", ""))
            for entry in config.get("parameters", [])
        },
    )


def _input(found: Config, batch_max: int) -> TritonInput:
    """One input; a model that takes no batches has the batch of 1 among its sides."""
    sides = tuple(found.get("dims", ()))
    own = sides[1:] if batch_max < 1 and len(sides) > 1 and sides[0] in (1, -1) else sides
    return TritonInput(name=str(found.get("name", "")), data_type=str(found.get("data_type", "")), sides=own)


def group(found: Config) -> InstanceGroup:
    """One group; Triton's own defaults where it does not say."""
    return InstanceGroup(
        kind=str(found.get("kind", "KIND_AUTO")),
        count=max(1, found.get("count", 0)),
        gpus=tuple(found.get("gpus", [])),
        rate_limited="rate_limiter" in found,
    )


def versions(policy: Config) -> tuple[int, ...] | int:
    """Which versions are served; the latest where nothing is said."""
    if "all" in policy:
        return 0
    if "specific" in policy:
        return tuple(policy["specific"].get("versions", ()))
    latest: int = policy.get("latest", {}).get("num_versions", 0)
    return max(1, latest)


def checked(message: Message, kind: str) -> dict[str, object]:
    """A message as plain values: repeated fields as lists. InputError names the first field that cannot be."""
    known = FIELDS[kind]
    plain: dict[str, object] = {}
    for name, field in message.items():
        if name not in known:
            hint = did_you_mean(name, list(known)) or known_ones(name, known, "Triton's model_config.proto")
            raise InputError(f"{field.place}: `{name}` is no field of {kind}.{hint}")
        match known[name]:
            case [str() as wanted]:
                plain[name] = [typed(value, wanted, name) for value in field.values]
            case _ if field.listed or len(field.values) > 1:
                raise InputError(f"{field.place}: `{name}` must have one value, got several. Keep one.")
            case str() | tuple() as wanted:
                plain[name] = typed(field.values[0], wanted, name)
    return plain


def typed(value: TextprotoValue, wanted: Kind, name: str) -> object:
    """One value, if it is what its field wants."""
    found = converted(value, wanted)
    if found is None:
        shown = "a message" if value.kind == "message" else f"`{str(value.value)[:40]}`"
        raise InputError(f"{value.place}: `{name}` must be {described(wanted)}, got {shown}. Mend the file.")
    return found


def converted(value: TextprotoValue, wanted: Kind) -> object:
    """The value as its field keeps it; None where it is of another kind."""
    match value.kind, value.value:
        case "string", text if wanted == "string":
            return text
        case "message", dict() as message if isinstance(wanted, str) and wanted in FIELDS:
            return checked(message, wanted)
        case "message", _ if wanted == OPAQUE:
            return {}
        case "int", int() as number if wanted in INTEGERS:
            return number if number in INTEGERS[wanted] else None
    if value.kind in ("int", "word"):
        return choices(wanted).get(value.value)
    return None


def choices(wanted: Kind) -> Mapping[Any, object]:
    """Values of a field that has few, by what may be written: words, or their numbers."""
    if wanted == "bool":
        return BOOLEANS
    words = wanted if isinstance(wanted, tuple) else ()
    return {word: word for word in words} | dict(enumerate(words))


def described(wanted: Kind) -> str:
    """The type of a field in words."""
    if isinstance(wanted, tuple):
        return f"one of {', '.join(wanted)}"
    if wanted in INTEGERS:
        return f"a whole number ({wanted})"
    return {"bool": "`true` or `false`", "string": "a text in quotes"}.get(wanted, "a message in `{}`")
