"""What GPUs send each other during a step: gradients, halves of layers, activations between stages, batch norms."""

from dataclasses import dataclass

from planner.training.closed_forms import Link, all_reduce_s
from planner.training.memory import Split
from planner.training.scenario import TrainingScenario
from planner.training.sources import Source
from planner.training.speed import Subject
from simulator.precision import VALUE_BYTES, WEIGHT_BYTES

INSIDE_LATENCY_S = 5e-6
"""Of one message between GPUs of one machine: NCCL's rings take 4 to 8 us a hop."""
REDUCTIONS = {"none": 4, "selective": 4, "full": 6}
"""Sums over a tensor-parallel group in each block of a transformer: two forward, two backward, two more where the
forward pass is run again. Shoeybi et al. (2019), figure 4."""
ZERO_3 = 1.5
"""Traffic of ZeRO-3 over plain data parallel: weights are gathered twice. Rajbhandari et al. (2020), 7.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Times of messages in one step of an option. A copy of the model fills a machine before it takes another."""

    s: TrainingScenario
    what: Subject
    source: Source
    machines: int
    split: Split
    micro: float
    """Samples of one pass on one copy of the model."""

    @property
    def inside(self) -> Link:
        """Between GPUs of one machine."""
        return Link(bytes_per_s=self.source.gpu.link_bytes_per_s, latency_s=INSIDE_LATENCY_S)

    @property
    def between(self) -> Link:
        """Between machines."""
        return Link(bytes_per_s=self.s.network.bandwidth, latency_s=self.s.network.latency)

    def link(self, gpus: int) -> Link:
        """The slowest among so many neighbours."""
        return self.inside if gpus <= self.source.gpus_each else self.between

    def gradients_s(self) -> float:
        """Of a step, between all copies: a ring where they wait for each other; else each sends its own and fetches
        what the others made of the parameters, which are spread over all machines."""
        size = self.what.params / self.split.parts * WEIGHT_BYTES[self.s.train.precision]
        if not self.s.parallel.synchronous:
            link = self.between if self.machines > 1 else self.inside
            return 2 * (size / link.bytes_per_s + link.latency_s) if self.split.data > 1 else 0.0
        return self.ring_s(size * (ZERO_3 if self.split.zero == 3 else 1.0))

    def ring_s(self, size_bytes: float) -> float:
        """All-reduce over the copies; parts of one copy in the same machine share its link to others."""
        in_machine = min(self.split.data, max(1, self.source.gpus_each // self.split.parts))
        between = max(1, min(self.machines, self.split.data // in_machine))
        shards = min(self.split.parts, self.source.gpus_each)
        share = Link(bytes_per_s=self.between.bytes_per_s / shards, latency_s=self.between.latency_s)
        return all_reduce_s(size_bytes, in_machine, between, self.inside, share)

    def tensor_s(self) -> float:
        """What layers put out, summed over the GPUs among which each is divided: one micro-batch, both passes."""
        if self.split.tensor == 1:
            return 0.0
        link = self.link(self.split.tensor)
        number = VALUE_BYTES[self.s.train.precision]
        if shape := self.what.shape:
            size = self.micro * shape.sequence * shape.hidden * number
            return REDUCTIONS[self.s.train.recompute] * shape.layers * link.ring_s(size, self.split.tensor)
        assert self.what.facts
        size = self.what.facts.activation_bytes_per_sample * number / 4 * self.micro
        return 2 * link.ring_s(size, self.split.tensor)

    def hand_over_s(self) -> float:
        """Activations of a micro-batch from one stage of a pipeline to the next: bytes over the link, and its latency.

        A transformer's are s b h numbers; other networks' are what their layers put out on average.
        """
        if self.split.pipeline == 1:
            return 0.0
        number = VALUE_BYTES[self.s.train.precision]
        if shape := self.what.shape:
            size = self.micro * shape.sequence * shape.hidden * number
        else:
            assert self.what.facts
            layers = max(1, sum(layer.flops > 0 for layer in self.what.facts.layers))
            size = self.what.facts.activation_bytes_per_sample * number / 4 * self.micro / layers
        link = self.link(self.split.parts)
        return size / link.bytes_per_s + link.latency_s

    def norms_s(self) -> float:
        """Statistics of batch norms, agreed on twice in each pass: messages too short for anything but latency."""
        if not self.s.train.sync_batch_norm or not self.what.facts:
            return 0.0
        norms = sum(layer.type == "BatchNorm2d" for layer in self.what.facts.layers)
        return 2 * norms * self.s.train.accumulation * self.ring_s(0.0)
