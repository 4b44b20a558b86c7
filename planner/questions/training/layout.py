"""The layout of a training: the model, on how many GPUs of which machines, and how these share the work."""

from dataclasses import dataclass
from functools import cached_property
from math import inf

from calibrate.layers.facts import facts, known
from calibrate.layers.naming import profile_name
from calibrate.layers.work import Facts, FactsError
from planner.model.ranges import Range, exactly, ranged
from planner.prediction.trainings import DEPTHWISE, kind_of
from planner.questions.training.closed_forms import epoch_law, training_flops
from planner.questions.training.memory import CAST_BYTES, Split
from planner.questions.training.scenario import TrainingScenario, TrainSpec, Transformer
from planner.questions.training.sources import MachineSource
from simulator.world.hardware import GPU

PICTURE = 3
"""Sides of a sample that is a picture."""
KERNELS_OF_BLOCK = 20
"""Operators of one block of a transformer, forward: products, norms, softmax, activation, residuals and their views."""
CASTS_OF_BLOCK = 23
"""Operators more where PyTorch casts weights and activations itself, as under `amp`: counted by its profiler in a block
of Transformers' BERT, in PyTorch 2.13."""

ISSUE_S = ranged(7.5e-6, 20e-6, 30e-6)
"""Time to issue one of these operators: BERT-large's forward pass of one sample takes 9.1 to 14.1 ms in PyTorch on A30,
A100 and V100, 3.6 ms where TensorRT joins operators (DeepLearningExamples, 128 tokens), and has 480 of them."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The model that is trained: its layers, or its shape."""

    name: str
    params: float
    active_params: float
    buffer_bytes: float = 0.0
    facts: Facts | None = None
    shape: Transformer | None = None
    casts: bool = False
    """Whether the framework casts what it computes with, which a shape's operators count."""
    profile: str = ""
    """Name of the profile whose measured times count."""
    own: Facts | None = None
    """The layers as the profile measured them: before pixels and channels were changed."""

    @property
    def is_same_in_passes(self) -> bool:
        """Several passes of a step come to what one does: no batch norm sees the samples of one pass alone. A file in
        ONNX may hide some, folded into convolutions."""
        if self.facts is None:
            return self.shape is not None
        has_batch_norm = any("batchnorm" in layer.type.casefold() for layer in self.facts.layers)
        return not (has_batch_norm or self.name.startswith("onnx:"))

    @property
    def depthwise(self) -> bool:
        """Its steps take longer over inference than those of other networks."""
        return self.facts is not None and kind_of(self.facts) == DEPTHWISE

    @property
    def layers(self) -> int:
        """Layers among which a pipeline can divide it: blocks, or layers that compute."""
        if self.shape:
            return self.shape.layers
        return sum(layer.flops > 0 for layer in self.facts.layers) if self.facts else 1

    @property
    def flops_over_own(self) -> float:
        """Operations over those of the layers that the profile measured."""
        if self.facts is None or self.own is None:
            return 1.0
        return self.facts.flops / self.own.flops

    def step_flops(self, samples: float, per_param_token: float) -> float:
        """Operations of a training step."""
        if self.shape:
            return training_flops(self.active_params, samples * self.shape.sequence, per_param_token)
        assert self.facts
        return per_param_token / 2 * self.facts.flops * samples

    @property
    def operators(self) -> int:
        """Operators of one pass, forward and backward: three times those of inference."""
        if self.facts:
            return 3 * self.facts.kernels
        if self.shape is None:
            return 0
        return 3 * (KERNELS_OF_BLOCK + CASTS_OF_BLOCK * self.casts) * self.shape.layers

    @property
    def issued_s(self) -> Range:
        """Least time of a pass, however few its samples and however many GPUs share each layer."""
        return ISSUE_S * self.operators


def subject_of(scenario: TrainingScenario) -> Subject:
    """The model of a scenario; FactsError where its layers are not known."""
    if shape := scenario.model.transformer:
        params = shape.params or shape.shape_params
        return Subject(
            name=scenario.name or "transformer",
            params=params,
            active_params=shape.active_params or params,
            shape=shape,
            casts=scenario.train.precision in CAST_BYTES,
        )
    name = scenario.model.zoo or scenario.model.factory or ""
    own = facts(name, scenario.model.input or None)
    is_usual = name in known() and scenario.model.input == own.input_shape
    for key, value in (("pixels", scenario.model.pixels), ("channels", scenario.model.channels)):
        if value and len(own.input_shape) != PICTURE:
            raise FactsError(f"{name} reads no pictures, got {value}. Leave {key} out.", key)
    layers = own.at(scenario.model.pixels) if scenario.model.pixels else own
    if scenario.model.channels:
        layers = layers.with_channels(scenario.model.channels)
    return Subject(
        name=name,
        params=layers.params,
        active_params=layers.params,
        buffer_bytes=max(0.0, layers.weight_bytes - 4 * layers.params),
        facts=layers,
        profile=scenario.model.profile or profile_name(name, () if is_usual else scenario.model.input),
        own=own,
    )


def epochs_of(train: TrainSpec, batch: float) -> Range:
    """Epochs to the end, or to the target with so many samples a step."""
    if train.epochs_to_target:
        law = epoch_law([(point.global_batch, point.epochs) for point in train.epochs_to_target])
        return law.range(batch)
    return exactly(train.epochs if train.epochs is not None else 1.0)


@dataclass(frozen=True, kw_only=True)
class TrainingLayout:
    """A training on so many GPUs of one source, divided among them."""

    scenario: TrainingScenario
    subject: Subject
    source: MachineSource
    gpu_count: int
    micro_batch: float
    """Samples of one pass on one copy of the model."""
    loader_rate: float = inf
    """Samples a second that one worker of the loader makes ready."""

    @property
    def gpu(self) -> GPU:
        """The kind of GPU."""
        return self.source.gpu

    @property
    def machines(self) -> int:
        """Machines that make up the GPUs."""
        return self.gpu_count // self.source.gpus_each

    @cached_property
    def split(self) -> Split:
        """How the GPUs share the work; each has a whole copy where the parts do not divide their number."""
        parallel = self.scenario.parallel
        if self.gpu_count % parallel.parts:
            return Split(data=self.gpu_count, zero=parallel.zero)
        return Split(
            data=self.gpu_count // parallel.parts,
            tensor=parallel.tensor,
            pipeline=parallel.pipeline,
            zero=parallel.zero,
            sequence_parallel=parallel.sequence_parallel,
        )

    @property
    def global_batch(self) -> int:
        """Samples of a step on all GPUs."""
        return round(self.micro_batch * self.split.data * self.scenario.train.passes)

    @property
    def network_bytes_per_s(self) -> Range:
        """Bandwidth of one machine to others: as the scenario states it, else as listed or assumed."""
        stated = self.scenario.network.bandwidth
        return self.source.network_bytes_per_s if stated is None else exactly(stated)

    @property
    def is_network_assumed(self) -> bool:
        """Nobody states or lists that bandwidth."""
        return self.scenario.network.bandwidth is None and self.source.listed_network_bytes_per_s is None

    # How much there is to do

    def samples(self) -> float:
        """Samples of one epoch."""
        return self.scenario.epoch_samples

    def epochs(self) -> Range:
        """Epochs to the end, or to the target."""
        late = self.scenario.parallel.epochs_per_staleness * self.staleness()
        return epochs_of(self.scenario.train, self.global_batch) * (1 + late)

    def staleness(self) -> int:
        """Updates by other copies before a gradient arrives; 0 where all step together."""
        return 0 if self.scenario.parallel.synchronous else self.split.data - 1

    def steps(self) -> Range:
        """Steps of all GPUs together; asynchronous: as many updates, `data` of them in the time of one."""
        return self.epochs() * (self.samples() / self.global_batch)

    def in_words(self) -> str:
        """`data 8, tensor 8, pipeline 16`."""
        split = self.split
        parts = {"data": split.data, "tensor": split.tensor, "pipeline": split.pipeline}
        words = [f"{name} {count}" for name, count in parts.items() if count > 1]
        if split.zero:
            words.append(f"ZeRO-{split.zero}")
        if not self.scenario.parallel.synchronous:
            words.append("asynchronous")
        return ", ".join(words) or "one GPU"
