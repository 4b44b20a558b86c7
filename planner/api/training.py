"""Calls about training: options, and a short training here."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planner.api.asking import File, Texts, path_of, texts
from planner.catalog.knowledge import Files, knowledge
from planner.console.shipped import shipped

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

    return check(load_training(shipped(path_of("scenario", scenario)), texts(overrides)), device, batch, samples)
