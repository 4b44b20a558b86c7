"""Calls about training: options, and a short training here."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planner.api.asking import File, Texts, path_of, texts, whole, word
from planner.catalog.knowledge import Files, knowledge
from planner.console.shipped import shipped

BATCH_MAX, SAMPLES_MAX = 1_000_000, 10**9
"""Of a short training here."""

if TYPE_CHECKING:
    from planner.answers import TrainingAnswer
    from planner.questions.training.check import Check


def train(scenario: File, *, overrides: Texts = (), catalog: Files = (), profiles: Files = ()) -> "TrainingAnswer":
    """How long a training takes, whether it fits, and what it costs: all options, the cheapest, the fastest."""
    from planner.answers import TrainingAnswer
    from planner.questions.training.plan import train as answer
    from planner.questions.training.reading import load_training

    return TrainingAnswer.of(
        answer(
            load_training(shipped(path_of("scenario", scenario)), texts(overrides)),
            *knowledge(catalog, profiles),
            datetime.now(UTC).date(),
        )
    )


def train_measured(
    scenario: File,
    device: str = "cuda:0",
    *,
    batch: int | None = None,
    samples: int | None = None,
    overrides: Texts = (),
) -> "Check":
    """`train --measure`: a short epoch here, beside what was predicted. **Runs the model's code.**"""
    from planner.questions.training.check import check
    from planner.questions.training.reading import load_training

    size = batch if batch is None else whole("batch", batch, 1, BATCH_MAX)
    number = samples if samples is None else whole("samples", samples, 1, SAMPLES_MAX)
    loaded = load_training(shipped(path_of("scenario", scenario)), texts(overrides))
    return check(loaded, word("device", device), size, number)
