"""After a load: what swapping costs as it happens. Weights that were away come in, a batch runs, weights go again.

A load is timed by `calibrate.sweep.loads` from memory at hand to memory at hand, and a batch over and over. Where
models take turns both take longer: places are found anew, tensors are shown to the model, and caches hold another
model. Both are timed side by side here, so that the drift of the device plays no part. Needs torch.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from calibrate.assembling.figures import short_all
from calibrate.devices import provenance
from calibrate.devices.device import Device, find_device
from calibrate.devices.regime import in_regime
from calibrate.devices.timer import Timer
from calibrate.io.files import lines_json, one_line, read_json, replacing
from calibrate.io.points import Settings
from calibrate.layers.naming import profile_name
from calibrate.library.lookup import profile_file
from calibrate.serving.resident import Weights
from calibrate.sweep.loads import Cooler, copying
from calibrate.sweep.measure import MeasuredModel, prepared
from calibrate.sweep.request import Request
from simulator.world.model import Layer

LARGEST_BATCH = 4
"""Of larger batches the first moments after a load are a small part."""
ROUNDS = 8
"""Rounds of all models, each with a load, a batch right after it and two more: medians of so few are sure to some per
cent."""
COOLED_BYTES = 1 << 28
"""Several times the largest cache of common processors."""
RESIDENT_RUNS = 2
"""Batches after the one that follows a load, to compare it with."""


@dataclass(slots=True)
class SwapTimes:
    """Times (s) of one model whose weights come and go."""

    load_s: list[float] = field(default_factory=list)
    """Of loads of weights that were away."""
    usual_load_s: list[float] = field(default_factory=list)
    """Of the same copies as a calibration times them."""
    after_s: dict[int, list[float]] = field(default_factory=dict)
    """By batch size: of batches right after a load."""
    resident_s: dict[int, list[float]] = field(default_factory=dict)
    """By batch size: of the batches that followed those."""

    @property
    def load_ratio(self) -> float:
        """Loads of weights that were away over those of a calibration: 3 ms over 2 ms is 1.5; never below 1."""
        return max(1.0, median(self.load_s) / median(self.usual_load_s))

    @property
    def batch_ratio(self) -> float:
        """Batches right after a load over others, geometric mean over batch sizes; never below 1."""
        ratios = [median(self.after_s[batch]) / median(self.resident_s[batch]) for batch in self.after_s]
        return max(1.0, exp(fmean(map(log, ratios))))


@dataclass(frozen=True, slots=True)
class Swapped:
    """One real model whose weights come and go."""

    model: MeasuredModel
    inputs: Mapping[int, Any]
    """By batch size, on the device."""
    keys: tuple[str, ...]
    """Of its layers."""


def swap_times(
    names: Sequence[str],
    device: Device,
    settings: Settings,
    batches: Sequence[int],
    *,
    input_shape: tuple[int, ...] | None = None,
    rounds: int = ROUNDS,
) -> dict[str, SwapTimes]:
    """Times of models that take turns, by name: one alone on the device for a batch of every size in each round.

    ZooError for a model that cannot be had; what the models' own code raises.
    """
    weights, timer = Weights(device, pinned=True), device.timer()
    if not names:
        return {}
    with in_regime(settings):
        models = {name: adopted(name, device, settings, batches, weights, input_shape) for name in names}
        largest = max(held_bytes(weights, one) for one in models.values())
        weights.reserve(largest)
        cool = cooler(device)
        found = {name: SwapTimes() for name in names}
        for counts in [False] + [True] * rounds:  # the first round compiles, chooses algorithms and allocates
            for name, one in models.items():
                for batch in batches:
                    cool()
                    take_turn(one, batch, weights, timer, found[name] if counts else SwapTimes())
                found[name].usual_load_s += usual_loads(weights, one, device, timer, cool) if counts else []
    return found


def adopted(
    name: str,
    device: Device,
    settings: Settings,
    batches: Sequence[int],
    weights: Weights,
    input_shape: tuple[int, ...] | None,
) -> Swapped:
    """A model with its weights in host memory, off the device."""
    model = prepared(name, input_shape if ":" in name else None, device, settings)
    inputs = {batch: model.inputs(batch) for batch in batches}
    layers = weights.adopt(name, model.module, (Layer(name, 1),))
    return Swapped(model, inputs, tuple(layer.key for layer in layers))


def cooler(device: Device) -> Cooler:
    """Drives weights that are away out of a processor's caches."""
    others = torch.zeros(COOLED_BYTES, dtype=torch.uint8) if device.kind == "cpu" else None
    return Cooler(others, 0)


def held_bytes(weights: Weights, one: Swapped) -> int:
    """Bytes of a model's weights."""
    return sum(weights.groups[key].weight_bytes for key in one.keys)


def take_turn(one: Swapped, batch: int, weights: Weights, timer: Timer, times: SwapTimes) -> None:
    """Load, run at once, run again, and leave."""

    def run() -> None:
        one.model.forward(one.inputs[batch])

    times.load_s.append(timer.time(lambda: weights.load(one.keys)).wall_s)
    times.after_s.setdefault(batch, []).append(timer.time(run).wall_s)
    for _ in range(RESIDENT_RUNS):
        times.resident_s.setdefault(batch, []).append(timer.time(run).wall_s)
    weights.evict(one.keys)


def usual_loads(weights: Weights, one: Swapped, device: Device, timer: Timer, cool: Cooler) -> list[float]:
    """Copies to memory at hand, as a calibration times them: one that does not count, then two."""
    copy = copying([tensor for key in one.keys for tensor in weights.groups[key].host], device)
    copy()
    taken = []
    for _ in range(RESIDENT_RUNS):
        cool()
        taken.append(timer.time(copy).wall_s)
    return taken


# Into profiles


def measure_swapping(request: Request) -> int:
    """Measure all models of a request under each setting, and note it in their profiles; exit code.

    0: each model's profile has it. 2: a model has no profile, or does not run; a line on standard error says which.
    """
    device = find_device(request.device)
    device.open()
    where = provenance.read(device)
    folder = request.out / str(where["gpu"])
    return max(_measure_under(settings, request, device, folder, str(where["date"])) for settings in request.settings)


def _measure_under(settings: Settings, request: Request, device: Device, folder: Path, date: str) -> int:
    """The same under one setting."""
    paths = {name: folder / file_name(name, settings, request.input_shape) for name in request.models}
    known = {name: path for name, path in paths.items() if path.is_file()}
    for name in [name for name in paths if name not in known]:
        print(f"{name}: has no profile in {folder}. Measure it with --mode inference,swapping.", file=sys.stderr)
    try:
        found = swap_times(
            list(known),
            device,
            settings,
            [batch for batch in request.batches if batch <= LARGEST_BATCH] or [request.batches[0]],
            input_shape=request.input_shape,
        )
    except Exception as error:
        print(f"swapping: not measured: {one_line(error, 400)}", file=sys.stderr)
        return 2
    for name, times in found.items():
        noted(known[name], times, list(known), date)
    return 0 if known == paths else 2


def file_name(name: str, settings: Settings, input_shape: tuple[int, ...] | None) -> str:
    """Of a model's profile."""
    shape = (input_shape or ()) if ":" in name else ()
    return profile_file(profile_name(name, shape, settings.suffix), settings.precision)


def noted(path: Path, times: SwapTimes, beside: Sequence[str], date: str) -> None:
    """Write what swapping costs into a profile: `after_load`, and all samples under `measured`."""
    raw = read_json(path)
    raw["after_load"] = {"batch_ratio": round(times.batch_ratio, 4), "load_ratio": round(times.load_ratio, 4)}
    raw["measured"]["after_load"] = {
        "date": date,
        "models": list(beside),
        "load_s": short_all(times.load_s),
        "usual_load_s": short_all(times.usual_load_s),
        "after_s": {str(batch): short_all(taken) for batch, taken in times.after_s.items()},
        "resident_s": {str(batch): short_all(taken) for batch, taken in times.resident_s.items()},
    }
    with replacing(path) as file:
        file.write(f"{lines_json(raw)}\n".encode())
    ratios = f"batches {times.batch_ratio:.3g} times, loads {times.load_ratio:.3g} times as long"
    print(f"{path.stem}: after a load {ratios}. Wrote {path}", flush=True)
