"""Changes of a training that take less memory, for one of which nothing fits: tried, not guessed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planner.questions.training.answer.remarks import computes
from planner.questions.training.memory import CAST_BYTES
from planner.questions.training.reading import wrong
from planner.questions.training.scenario import RECOMPUTE, TrainingScenario
from planner.questions.training.sources import MachineSource
from simulator.world.precision import WEIGHT_BYTES

EIGHT_BIT = "adam8bit"
OF_EIGHT_BIT = ("adam", "adamw")
"""Optimizers whose states have a form of 8 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One key of a scenario at another value."""

    key: str
    """As `--set` takes it."""
    value: str
    scenario: TrainingScenario
    """With that value."""


def changes(scenario: TrainingScenario, machines: Sequence[MachineSource]) -> Iterator[Change]:
    """Changes of one key after which each GPU holds less of the same training, but those that a scenario may not have.

    Passes of a `global_batch` are not among them: as few samples as fit are known without a try.
    """
    train, parallel = scenario.train, scenario.parallel
    most = max((one.gpus_each for one in machines), default=1) // parallel.pipeline
    tensors = [2**n for n in range(1, most.bit_length()) if parallel.tensor < 2**n <= most]
    tried: dict[str, Sequence[str | int]] = {
        "train.micro_batch": halves(train.micro_batch or 1),
        "train.recompute": RECOMPUTE[RECOMPUTE.index(train.recompute) + 1 :],
        "parallel.tensor": tensors,
        "parallel.zero": range(parallel.zero + 1, 4),
        "train.precision": [
            precision
            for precision in smaller_precisions(train.precision)
            if any(computes(scenario, one.gpu, precision) for one in machines)
        ],
        "train.optimizer": [EIGHT_BIT] if train.optimizer in OF_EIGHT_BIT else [],
    }
    for key, values in tried.items():
        for value in values:
            part, name = key.split(".")
            changed = replace(scenario, **{part: replace(getattr(scenario, part), **{name: value})})
            if not any(wrong(changed)):
                yield Change(key=key, value=str(value), scenario=changed)


def halves(batch: int) -> list[int]:
    """Half of a batch, half of that, and so on: of 12 samples 6, 3, 1."""
    return [batch >> n for n in range(1, batch.bit_length())]


def smaller_precisions(precision: str) -> list[str]:
    """Precisions in which states or activations take fewer bytes: of fp32 amp and bf16, of amp bf16."""
    if WEIGHT_BYTES[precision] < WEIGHT_BYTES["fp32"]:
        return []
    return ["bf16"] if precision in CAST_BYTES else ["amp", "bf16"]
