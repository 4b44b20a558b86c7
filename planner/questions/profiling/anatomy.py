"""Time and memory of one model, layer by layer, and what would change them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from calibrate.layers.facts import facts, timed
from calibrate.layers.facts import known as models_with_layers
from calibrate.layers.naming import profile_name
from calibrate.layers.work import Facts, FactsError
from calibrate.library.lookup import Library
from calibrate.published import names
from calibrate.published.accuracy import PublishedAccuracy, accuracies
from planner.model.plan import Prediction
from planner.prediction.predict import Predictor, is_alike
from planner.prediction.rules.roofline import UNLIMITED, Ceilings, Roofline, ceilings, under
from planner.questions.profiling.systolic import ArrayLayer, Dataflow, SystolicArray, arrays, map_model
from planner.questions.profiling.whatif import (
    ChangedModel,
    Checkpointing,
    LayerWhatIf,
    Unanswered,
    checkpointing,
    training_memory,
    what_ifs,
)
from planner.questions.profiling.working_set import Knee, MemoryLevel, cpu_levels, gpu_levels, knee_of, knees
from planner.questions.training.memory import TrainingMemory
from planner.units.reading import did_you_mean
from simulator.errors import InputError
from simulator.world.hardware import GPU

CPU = "cpu"
CURVE = (1, 2, 4, 8)
"""Batch sizes that `--measure` runs at least; the one asked for, and those between, come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The model and the device to look at."""

    model: str
    """A plain name, `source:name`, or `package.module:factory`."""
    input_shape: tuple[int, ...] | None
    resolution: int | None
    batch: int
    precision: str
    gpu: GPU | None
    device: str | None
    """`cpu` and `cuda:0` are of this machine; others are systolic arrays."""
    dataflow: Dataflow
    measure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OnArray:
    """A model on a systolic array."""

    array: SystolicArray
    dataflow: Dataflow
    layers: tuple[ArrayLayer, ...]

    @property
    def total_s(self) -> float:
        """One layer after another."""
        return sum(layer.time_s for layer in self.layers)

    @property
    def utilization(self) -> float:
        """Multiply-adds over cells x cycles of all layers, loading of weights included."""
        macs = sum(layer.macs for layer in self.layers)
        return macs / (self.array.rows * self.array.columns * self.array.clock_hz * self.total_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTimes:
    """Times of the model, run on a device."""

    device: str
    times_s: Mapping[int, float]
    """Time of a batch, by batch size."""

    @property
    def knee(self) -> int | None:
        """The first batch whose samples take clearly longer than those of a smaller one."""
        return knee_of(self.times_s)

    @property
    def exponent(self) -> float | None:
        """Exponent of time against data between the last two batch sizes; None for one size alone."""
        return exponent(self.times_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """Time and memory of one model, and of it on a device."""

    facts: Facts
    batch: int
    precision: str
    gpu: GPU | None
    roofline: Roofline
    prediction: Prediction | None
    accuracies: tuple[PublishedAccuracy, ...]
    """What lower precisions cost, as published."""
    what_ifs: tuple[LayerWhatIf | Unanswered, ...]
    training: TrainingMemory
    checkpointing: Checkpointing
    device: str | None
    levels: tuple[MemoryLevel, ...]
    knees: tuple[Knee, ...]
    on_array: OnArray | None
    measured: MeasuredTimes | None


def look(wish: Wish, library: Library, gpus: Mapping[str, GPU], directories: Sequence[Path] = ()) -> Anatomy:
    """The anatomy of a model; FactsError, PrecisionError or InputError where that cannot be known."""
    array = _array(wish.device)
    own = _layers(wish, library, directories)
    layers = own if wish.resolution is None else own.at(wish.resolution)
    gpu, levels = wish.gpu, _levels(wish)

    def limits(precision: str) -> Ceilings:
        return ceilings(gpu, precision, directories) if gpu else UNLIMITED

    return Anatomy(
        facts=layers,
        batch=wish.batch,
        precision=wish.precision,
        gpu=gpu,
        roofline=under(layers, limits(wish.precision), wish.batch, wish.precision),
        prediction=_predicted(wish, gpu, layers, own, library, gpus) if gpu else None,
        accuracies=_accuracies(layers),
        what_ifs=what_ifs(ChangedModel(layers, limits, wish.batch, wish.precision)),
        training=training_memory(layers, wish.batch),
        checkpointing=checkpointing(layers, wish.batch),
        device=wish.device,
        levels=levels,
        knees=knees(layers, levels, wish.precision),
        on_array=_on_array(layers, array, wish) if array else None,
        measured=_measured(wish) if wish.measure else None,
    )


def _layers(wish: Wish, library: Library, directories: Sequence[Path]) -> Facts:
    """The model's layers; FactsError that names where its times stand, where these are known without."""
    try:
        return facts(wish.model, wish.input_shape)
    except FactsError as error:
        if wish.input_shape or not (library.for_model(wish.model) or library.published_of(wish.model)):
            raise
        own = "".join(f" --profiles {directory}" for directory in directories)
        raise FactsError(f"{error} Its times are known: `planner profiles show {wish.model}{own}`.") from None


def exponent(times_s: Mapping[int, float]) -> float | None:
    """Exponent of time against data between the last two sizes: 1 where both double; None for one size alone.

    >>> round(exponent({4: 0.005, 8: 0.010, 16: 0.0196}), 2)
    0.97
    """
    if len(times_s) < 2:
        return None
    (small, before_s), (large, after_s) = sorted(times_s.items())[-2:]
    return log(after_s / before_s) / log(large / small)


def is_local(device: str | None) -> bool:
    """The device is one of this machine."""
    return device is not None and (device == CPU or device.startswith("cuda:"))


def _array(device: str | None) -> SystolicArray | None:
    if device is None or is_local(device):
        return None
    known = arrays()
    if device not in known:
        hint = did_you_mean(device, list(known)) or f" Write cpu, cuda:0 or {', '.join(known)}."
        raise InputError(f"--device {device}: is not known.{hint} A kind of GPU is named with --gpu.")
    return known[device]


def _levels(wish: Wish) -> tuple[MemoryLevel, ...]:
    if wish.device == CPU:
        return cpu_levels()
    return gpu_levels(wish.gpu) if wish.gpu else ()


def _predicted(
    wish: Wish, gpu: GPU, layers: Facts, own: Facts, library: Library, gpus: Mapping[str, GPU]
) -> Prediction | None:
    # Profiles are of a model at its own resolution, so that at another it has a name of its own.
    resolution = "" if layers is own else f".{layers.input_shape[-1]}px"
    name = profile_name(layers.model, wish.input_shape or (), resolution)
    is_shipped = names.architecture(layers.model) in models_with_layers()
    if is_shipped and not wish.input_shape and name not in library.models():
        name = layers.model  # as plans ask for it: whatever is known of its architecture counts

    def layers_of(model: str) -> Facts:
        return layers if model == name else facts(model)

    predictor = Predictor(library, {**gpus, gpu.name: gpu}, facts_of=layers_of)
    return predictor.predict(name, gpu.name, wish.precision, wish.batch)


def _accuracies(layers: Facts) -> tuple[PublishedAccuracy, ...]:
    """Those of the published network that it is; none of a network of one's own that has the name of one."""
    architecture = names.architecture(layers.model)
    is_own = ":" in layers.model and not is_alike(layers, architecture)
    return () if is_own else accuracies(architecture)


def _on_array(layers: Facts, array: SystolicArray, wish: Wish) -> OnArray:
    mapped = map_model(layers, array, wish.dataflow, wish.batch)
    return OnArray(array=array, dataflow=wish.dataflow, layers=mapped)


def _measured(wish: Wish) -> MeasuredTimes:
    device = wish.device or CPU
    doubled = (2**power for power in range(wish.batch.bit_length()))
    sizes = sorted({*CURVE, *doubled, wish.batch, 2 * wish.batch})
    return MeasuredTimes(device=device, times_s=timed(wish.model, wish.input_shape, device, sizes))
