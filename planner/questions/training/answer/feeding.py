"""Pictures that processors must make ready for a training, where the scenario says little of its loader."""

import math
from collections.abc import Iterator, Mapping, Sequence

from planner.questions.training.answer.option import TrainingOption
from planner.questions.training.layout import Subject
from planner.questions.training.scenario import TrainingScenario
from planner.questions.training.speed import SpeedRule

A_WORKER = 150.0
"""Pictures of 500x375 that a vCPU decodes and resizes to 224 in a second, to begin with: Pillow makes 320 to 390 on one
core of a Xeon at 2.5 GHz, of 91 and of 40 kB, and a core is two vCPUs."""
A_VCPU_MOST = 195.0
"""The same at most: half of what one core makes of the small ones."""


def probed_rates(scenario: TrainingScenario, rates: Mapping[str, float]) -> Iterator[str]:
    """Rates of loaders that the scenario does not state."""
    loader = scenario.data.loader
    if loader and not loader.rate:
        each = ", ".join(f"{rate:,.0f}/s on the host of {gpu}" for gpu, rate in sorted(rates.items()))
        yield f"A worker of the loader makes {each}, as probed there: pictures of 500x375, decoded and resized to 224."


def fed(scenario: TrainingScenario, subject: Subject, answers: Sequence[TrainingOption]) -> Iterator[str]:
    """What processors have to make ready that the scenario does not say, or more workers than they have."""
    loader = scenario.data.loader
    if loader is None:
        if hungry := [option for option in answers if makes_pictures(scenario, subject, option)]:
            yield unstated_loader(
                max(hungry, key=lambda option: pictures_per_s(option) / (option.host_cores or math.inf))
            )
        return
    for option in answers:
        workers = loader.workers * option.gpu_count // option.machines
        if option.host_cores and workers > option.host_cores:
            yield (
                f"data.loader.workers: {workers} on each {option.instance}, which has {option.host_cores} vCPUs: they"
                " share these, and are counted as if each had its own. Write fewer."
            )


def unstated_loader(option: TrainingOption) -> str:
    """The pictures that a machine must make ready, and how to say how fast it does."""
    cores = f"{option.host_cores} vCPUs" if option.host_cores else "vCPUs that nobody lists"
    needed_per_s, gpus = pictures_per_s(option), option.gpu_count // option.machines
    workers = math.ceil(needed_per_s / gpus / A_WORKER)
    few = ""
    if option.host_cores and needed_per_s > A_WORKER * option.host_cores:
        workers = max(1, option.host_cores // gpus)
        few = f", which likely make {A_WORKER * option.host_cores:,.0f}: take machines with more"
    return (
        f"Assumed: the loader is never too slow. Each {option.instance} must make {needed_per_s:,.0f} pictures"
        f" a second ready and has {cores}{few}; write `data.loader`, e.g."
        f" `{{workers: {workers}, rate: {A_WORKER:g} /s}}`, and it is counted."
    )


def keeping_up(
    scenario: TrainingScenario, subject: Subject, options: Sequence[TrainingOption]
) -> Sequence[TrainingOption]:
    """Without those that no loader can feed, where the scenario states none; all, where that leaves none."""
    if scenario.data.loader is not None:
        return options
    return [option for option in options if not is_starved(scenario, subject, option)] or options


def is_starved(scenario: TrainingScenario, subject: Subject, option: TrainingOption) -> bool:
    """Its processors cannot make as many pictures ready as its GPUs take."""
    most_per_s = A_VCPU_MOST * (option.host_cores or math.inf)
    return makes_pictures(scenario, subject, option) and pictures_per_s(option) > most_per_s


def pictures_per_s(option: TrainingOption) -> float:
    """Samples that one of its machines must make ready in a second."""
    return option.global_batch / option.step_s / option.machines


def makes_pictures(scenario: TrainingScenario, subject: Subject, option: TrainingOption) -> bool:
    """Samples are pictures, and no stated run or step says how fast they come."""
    pictures = subject.facts is not None and len(subject.facts.input_shape) == len(("colours", "rows", "columns"))
    return pictures and option.rule is not SpeedRule.STATED and scenario.data.samples is not None
