"""Answers to `train`, `study`, `horizon` and `whatif` as objects that are printed, shown in a notebook and saved."""

from planner.objects import Shown
from planner.questions.horizons.answer import Horizon
from planner.questions.readiness.answer import WhatIf
from planner.questions.studies.results import StudyAnswer
from planner.questions.training.answer.option import TrainingPlan


class TrainingAnswer(Shown, TrainingPlan):
    """Ways to train, the cheapest and the fastest."""

    __slots__ = ()


class StudyResults(Shown, StudyAnswer):
    """One question at many points."""

    __slots__ = ()


class HorizonAnswer(Shown, Horizon):
    """Ways to keep GPUs over days."""

    __slots__ = ()


class WhatIfAnswer(Shown, WhatIf):
    """A plan under other circumstances."""

    __slots__ = ()
