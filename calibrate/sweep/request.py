"""Request: the options of a calibration, read as people write them. Needs no torch."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NoReturn, TypeVar

from calibrate.io.points import OPTIMIZERS, PRECISIONS, Settings
from calibrate.layers.naming import OWN
from calibrate.zoo.sources import is_sourced
from simulator.errors import InputError
from simulator.near import near_names, spaced
from simulator.world.signature import read_sizes

MODES = ("inference", "training", "device", "swapping")
LARGEST_BATCH = 1_000_000
BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTES |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The models and devices to measure, for how long, and where the figures go."""

    models: tuple[str, ...]
    """Names in the zoo, or `package.module:factory`."""
    device: str = "cuda:0"
    input_shape: tuple[int, ...] | None = None
    """One sample's shape for models of one's own, e.g. (3, 224, 224)."""
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    """Ascending."""
    modes: tuple[str, ...] = ("inference", "device")
    """Some of `MODES`."""
    probes: tuple[str, ...] = ()
    """Probes of the device to run; empty: all."""
    settings: tuple[Settings, ...] = (Settings(),)
    optimizers: tuple[str, ...] = OPTIMIZERS
    """Optimizers of a training step: some of `OPTIMIZERS`."""
    out: Path = Path("profiles")
    seconds_per_point: float = 1.0
    """Time for repeats of one point; less where the median is sure before."""
    soak_s: float = 0.0
    """How long the largest batch of each model runs back to back at the end; 0: not at all."""
    timeout_s: float = 120.0
    """A point, or the building of a model, that takes longer is given up."""
    budget_s: float | None = None
    """Stop cleanly after so long; None: when all is measured."""
    memory_bytes: int | None = None
    """No more than this for the model; None: all there is."""
    memory_log: Path | None = None
    """Where to write what the device's memory did over the run."""
    until_memory_ends: bool = False
    """Go on doubling past the largest of `batches`."""
    sessions: int = 1
    """How often all is measured, to see how far times differ between sessions."""
    apart_s: float = 60.0
    """Between the end of a session and the start of the next."""
    seed: int = 0
    resume: bool = False
    dry_run: bool = False
    cluster: str | None = None
    """Address of the Ray cluster whose GPUs are measured; None: this machine's."""


def batch_sizes(text: str) -> tuple[int, ...]:
    """`8,1,2` is (1, 2, 8)."""
    return tuple(sorted(set(batches_in_order("--batches", text))))


def batches_in_order(option: str, text: str) -> list[int]:
    """`8,1,2` is [8, 1, 2]."""
    return [_whole(option, part, LARGEST_BATCH) for part in _parts(option, text, "1,2,4,8")]


def axes(precision: str = "fp32", resolution: str = "", **switches: bool) -> tuple[Settings, ...]:
    """Every combination of the precisions and resolutions asked for, each with the same switches."""
    sizes = [_whole("--resolution", part, 16_384) for part in _parts("--resolution", resolution, "224,448", empty=True)]
    named = some("--precision", precision, PRECISIONS)
    asked = product(named, dict.fromkeys(sizes) or [None])
    return tuple(Settings(precision=each, resolution=size, **switches) for each, size in asked)


def shape(text: str) -> tuple[int, ...]:
    """`3x224x224` is (3, 224, 224), `seq128` (128,)."""
    if (found := read_sizes(text)) is None:
        _refuse("--input", text, "is not the shape of one sample", "Write e.g. 3x224x224, without the batch")
    return found


def sessions(text: str) -> int:
    """How many sessions: 1 to 99."""
    return _whole("--sessions", text, 99)


def whole(option: str, text: str) -> int:
    """A whole number from 0."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        _refuse(option, text, "is not a whole number from 0 to 999999999", "Write e.g. 1")
    return int(text)


def seconds(option: str, text: str) -> float:
    """A time above zero, e.g. `0.5`."""
    if not re.fullmatch(r"\d{1,6}(\.\d*)?|\.\d+", text) or float(text) == 0:
        _refuse(option, text, "is not a number of seconds above 0", "Write e.g. 10")
    return float(text)


def size(option: str, text: str) -> int:
    """`8GB` is 8,000,000,000 bytes, `8 GiB` is 8 x 2**30."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?) ?([kKMGT]?i?B)?", text.strip())
    value = float(match[1]) * BYTES[(match[2] or "B").upper()] if match else 0
    if value < 1:
        _refuse(option, text, "is not an amount of memory", "Write e.g. 8GB")
    return int(value)


def device(text: str) -> str:
    """`cpu`, or a GPU: `cuda` is `cuda:0`."""
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?", text):
        _refuse("--device", text, "is not a device", "Write cpu or e.g. cuda:0")
    return "cuda:0" if text == "cuda" else text


def models(
    listed: str, own: Sequence[str], groups: Callable[[str], Sequence[str] | None], *, needed: bool
) -> tuple[str, ...]:
    """Names of models: `listed` in the zoo, with groups such as `all` expanded by `groups`, then one's `own`."""
    for name in own:
        if not (is_sourced(name) or re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name)):
            wrong = "has spaces, as no name has" if spaced(name) else "does not name a factory"
            _refuse("--model", name, wrong, "Write package.module:factory, or e.g. timm:resnet50")
    names = _parts("--models", listed, "resnet50,vgg16", empty=True)
    known = [model for name in names for model in groups(name) or _unknown(name, groups("all") or ())]
    if needed and not known and not own:
        raise InputError("--models: nothing to measure. Write e.g. --models resnet50, or --mode device alone.")
    return tuple(dict.fromkeys([*known, *own]))


def _unknown(name: str, known: Sequence[str]) -> NoReturn:
    close = near_names(name, known)
    listed = f"Write all, lecture, or some of {', '.join(known)}; one of yours with {OWN}."
    remedy = f"Did you mean {' or '.join(close)}?" if close else listed
    raise InputError(f"--models: {name} is not known.{spaced(name)} {remedy}")


def _parts(option: str, text: str, example: str, *, empty: bool = False) -> list[str]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if "" in parts or not (parts or empty):
        wrong = "names nothing between two commas" if parts else "is empty"
        _refuse(option, repr(text), wrong, f"Write e.g. {example}")
    return parts


def some(option: str, text: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Those that are named, in their own order."""
    parts = _parts(option, text, allowed[0])
    if unknown := [part for part in parts if part not in allowed]:
        _refuse(option, unknown[0], "is not known", f"Write some of {','.join(allowed)}")
    return tuple(name for name in allowed if name in parts)


def _whole(option: str, text: str, largest: int) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text) or int(text) > largest:
        _refuse(option, text, f"is not a whole number from 1 to {largest}", "Write e.g. 1,2,4,8")
    return int(text)


def _refuse(option: str, value: str, wrong: str, remedy: str) -> NoReturn:
    raise InputError(f"{option}: {value} {wrong}. {remedy}.")
