"""Messages of GPUs during a step: gradients, halves of layers, activations between stages, batch norms."""

from dataclasses import dataclass

from planner.questions.training.closed_forms import NetworkLink, all_reduce_s
from planner.questions.training.layout import TrainingLayout
from simulator.world.precision import VALUE_BYTES, WEIGHT_BYTES

INSIDE_LATENCY_S = 5e-6
"""Latency of one message between GPUs of one machine: NCCL's rings take 4 to 8 us a hop."""
REDUCTIONS = {"none": 4, "selective": 4, "full": 6}
"""Sums over a tensor-parallel group in each block of a transformer: two forward, two backward, two more where the
forward pass is run again. Shoeybi et al. (2019), figure 4."""
SHARED_OUT = 0.5
"""Sharing out, or gathering, over a sum in a ring, which does both. Rajbhandari et al. (2020), 7.1."""
FACTS_BYTES = 4
"""Bytes of each number in the layers' facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Times of messages in one step of a layout. A copy of the model fills a machine before it takes another."""

    layout: TrainingLayout
    network_bytes_per_s: float
    """Bandwidth of one machine to others."""
    reached: float = 1.0
    """Bandwidth that messages get over that of their links."""

    @property
    def inside(self) -> NetworkLink:
        """The link between GPUs of one machine."""
        return NetworkLink(bytes_per_s=self.reached * self.layout.gpu.link_bytes_per_s, latency_s=INSIDE_LATENCY_S)

    @property
    def between(self) -> NetworkLink:
        """The link between machines."""
        latency_s = self.layout.scenario.network.latency
        return NetworkLink(bytes_per_s=self.reached * self.network_bytes_per_s, latency_s=latency_s)

    def link(self, gpus: int) -> NetworkLink:
        """The slowest link among so many neighbours."""
        return self.inside if gpus <= self.layout.source.gpus_each else self.between

    def gradients_s(self) -> float:
        """Time of a step's gradients between all copies.

        Copies that wait for each other form a ring. Else each sends its own gradients and fetches the parameters that
        the others changed, which are spread over all machines.
        """
        layout, split = self.layout, self.layout.split
        size_bytes = layout.subject.params / split.parts * WEIGHT_BYTES[layout.scenario.train.precision]
        if layout.scenario.parallel.synchronous:
            return self.ring_s(size_bytes * self.sums)
        if split.data == 1:
            return 0.0
        link = self.between if layout.machines > 1 else self.inside
        return 2 * (size_bytes / link.bytes_per_s + link.latency_s)

    @property
    def every_pass(self) -> bool:
        """Copies send something in each pass: who holds a part of the gradients alone cannot collect them."""
        return self.layout.split.zero >= 2

    @property
    def sums(self) -> float:
        """Sums over all copies that a step's messages come to: one, after its last pass.

        ZeRO-2 shares gradients out in each pass, ZeRO-3 gathers weights twice in each besides.
        """
        passes = self.layout.scenario.train.passes
        match self.layout.split.zero:
            case 3:
                return 3 * SHARED_OUT * passes
            case 2:
                return SHARED_OUT * (passes + 1)
            case _:
                return 1.0

    def ring_s(self, size_bytes: float) -> float:
        """All-reduce over the copies; parts of one copy in the same machine share its link to others."""
        layout, split = self.layout, self.layout.split
        gpus_each = layout.source.gpus_each
        in_machine = min(split.data, max(1, gpus_each // split.parts))
        machines = max(1, min(layout.machines, split.data // in_machine))
        sharers = min(split.parts, gpus_each)
        share = NetworkLink(bytes_per_s=self.between.bytes_per_s / sharers, latency_s=self.between.latency_s)
        return all_reduce_s(size_bytes, in_machine, machines, self.inside, share)

    def tensor_s(self) -> float:
        """Time to sum outputs of layers over the GPUs among which each is divided: one micro-batch, both passes."""
        layout, tensor = self.layout, self.layout.split.tensor
        if tensor == 1:
            return 0.0
        link = self.link(tensor)
        shape = layout.subject.shape
        if shape is None:
            return 2 * link.ring_s(self._outputs_bytes(), tensor)
        reductions = REDUCTIONS[layout.scenario.train.recompute] * shape.layers
        return reductions * link.ring_s(self._block_bytes(shape.sequence * shape.hidden), tensor)

    def hand_over_s(self) -> float:
        """Time of a micro-batch's activations from one stage of a pipeline to the next.

        A transformer hands over s b h numbers; other networks hand over the outputs of an average layer.
        """
        layout, split = self.layout, self.layout.split
        if split.pipeline == 1:
            return 0.0
        if shape := layout.subject.shape:
            size_bytes = self._block_bytes(shape.sequence * shape.hidden)
        else:
            size_bytes = self._outputs_bytes() / max(1, layout.subject.layers)
        link = self.link(split.parts)
        return size_bytes / link.bytes_per_s + link.latency_s

    def norms_s(self) -> float:
        """Time of batch norms' statistics, agreed on twice in each pass: messages for which latency alone counts."""
        train, facts = self.layout.scenario.train, self.layout.subject.facts
        if not train.sync_batch_norm or not facts:
            return 0.0
        norms = sum(layer.type == "BatchNorm2d" for layer in facts.layers)
        return 2 * norms * train.passes * self.ring_s(0.0)

    @property
    def _value_bytes(self) -> float:
        return VALUE_BYTES[self.layout.scenario.train.precision]

    def _block_bytes(self, numbers: int) -> float:
        """A transformer's activations of a micro-batch, between two blocks."""
        return self.layout.micro_batch * numbers * self._value_bytes

    def _outputs_bytes(self) -> float:
        """Outputs of all layers of a micro-batch."""
        facts = self.layout.subject.facts
        assert facts
        return facts.activation_bytes_per_sample * self._value_bytes / FACTS_BYTES * self.layout.micro_batch
