"""Calls about training: options, and a short training here."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from planner.api.asking import File, Texts, texts, whole, word
from planner.catalog.knowledge import Files, knowledge
from planner.console.shipped import shipped
from simulator.errors import InputError

BATCH_MAX, SAMPLES_MAX = 1_000_000, 10**9
"""Of a short training here."""

if TYPE_CHECKING:
    from planner.answers import TrainingAnswer
    from planner.questions.training.check import Check
    from planner.questions.training.reading import LoadedTraining
    from planner.questions.training.scenario import TrainingScenario

Training: TypeAlias = "File | Mapping[str, Any] | TrainingScenario"
"""A YAML file, the same as a mapping, or a training scenario made in Python."""


def load_training(scenario: Training, overrides: Sequence[str]) -> "LoadedTraining":
    """A training scenario; InputError lists all that is wrong with it."""
    from planner.io.load import MADE
    from planner.model.checked import stated, values_of, written
    from planner.questions.training.reading import load_training as read
    from planner.questions.training.reading import load_training_text
    from planner.questions.training.scenario import TrainingScenario

    match scenario:
        case str() | Path():
            return read(shipped(Path(scenario)), overrides)
        case Mapping():
            return load_training_text(written(scenario), MADE, overrides)
        case TrainingScenario():
            return load_training_text(written(stated(TrainingScenario, values_of(scenario))), MADE, overrides)
    raise InputError(f"scenario: must be a file, a mapping or a TrainingScenario, got a {type(scenario).__name__}.")


def train(scenario: Training, *, overrides: Texts = (), catalog: Files = (), profiles: Files = ()) -> "TrainingAnswer":
    """How long a training takes, whether it fits, and what it costs: all options, the cheapest, the fastest."""
    from planner.answers import TrainingAnswer
    from planner.questions.training.plan import train as answer

    return TrainingAnswer.of(
        answer(
            load_training(scenario, texts(overrides)),
            *knowledge(catalog, profiles),
            datetime.now(UTC).date(),
        )
    )


def train_measured(
    scenario: Training,
    device: str = "cuda:0",
    *,
    batch: int | None = None,
    samples: int | None = None,
    overrides: Texts = (),
) -> "Check":
    """`train --measure`: a short epoch here, beside what was predicted. **Runs the model's code.**"""
    from planner.questions.training.check import check

    size = batch if batch is None else whole("batch", batch, 1, BATCH_MAX)
    number = samples if samples is None else whole("samples", samples, 1, SAMPLES_MAX)
    loaded = load_training(scenario, texts(overrides))
    return check(loaded, word("device", device), size, number)
