"""Training models together: those that share layers hold one object, and one step serves all of them."""

import copy
import hashlib
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrate.io.files import one_line
from calibrate.joint.spec import JointSpec, TaskSpec
from calibrate.joint.state import JointError, JointWork, Progress, Weights
from calibrate.layers.modules import WHOLE, Tracer
from calibrate.tasks import Batches, Task
from simulator.world.model import LayerFacts
from simulator.world.sharing import Group, Sharing, shareable

ALPHA = 0.75
"""How much more a model counts that is far from its target: (target / accuracy) ^ 0.75, as published."""
WEIGHT_MAX = 10.0
PATIENCE = 2
"""Epochs in a row after which a model that will not get there in time ends the attempt, as published."""
Modules = dict[str, nn.Module]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Net:
    """A task and its model, whose layers are known."""

    name: str
    task: Task
    layers: Sequence[LayerFacts]
    """Those that can stand elsewhere too, in execution order."""

    def layer_of(self, group: Group) -> str:
        """Path of the layer that a group means in this model."""
        alike = [layer.name for layer in self.layers if shareable(layer) and layer.signature == group.signature]
        return alike[group.copy]


@contextmanager
def blamed(what: str, remedy: str) -> Iterator[None]:
    """The user's code runs here: what it raises becomes one line that says whose it is."""
    try:
        yield
    except JointError:
        raise
    except (Exception, SystemExit) as error:
        text = one_line(error).rstrip(".")
        raise JointError(f"{what} raised {type(error).__name__}{text and ': '}{text}. {remedy}.") from error


# Tasks


def build(spec: TaskSpec, seed: int) -> Net:
    """The task that the user's factory gives, with the layers of its model as one pass shows them."""
    path, _, attribute = spec.factory.partition(":")
    what = f"task {spec.name}: {spec.factory}"
    with blamed(f"task {spec.name}: importing {path}", f"Start where python -c 'import {path}' works"):
        module = import_module(path)
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise JointError(f"{what}: {path} has no function {attribute}. Name one that returns a calibrate.tasks.Task.")
    sow(seed, spec.name, 0)
    with blamed(f"{what}: the factory", f"Try python -c 'import {path} as m; m.{attribute}()'"):
        task = factory()
    if not isinstance(task, Task):
        raise JointError(f"{what}: returned {type(task).__name__}, not a calibrate.tasks.Task. Return one.")
    if not isinstance(task.model, nn.Module):
        raise JointError(
            f"{what}: its model is {type(task.model).__name__}, not a torch.nn.Module. Give the model itself."
        )
    return Net(spec.name, task, layers(spec.name, task))


def layers(name: str, task: Task) -> list[LayerFacts]:
    """Layers of a task's model in execution order. What has parts of its own cannot be exchanged, and is left out."""
    remedy = "See that it works on validation data"
    with blamed(f"task {name}: its validation data", remedy):
        first = list(islice(task.validation, 1))
    if not first:
        raise JointError(f"task {name}: its validation data is empty. Give it some.")
    task.model.eval()
    tracer = Tracer(task.model)
    with blamed(f"task {name}: its metric on one batch", remedy):
        tracer.run(lambda: task.metric(task.model, first))
    modules = dict(task.model.named_modules())
    return [fact for fact in tracer.facts() if _whole(modules.get(fact.name))]


def _whole(module: nn.Module | None) -> bool:
    return module is not None and (isinstance(module, WHOLE) or not any(module.children()))


def sow(seed: int, stage: str, epoch: int) -> None:
    """Random numbers of an epoch depend on nothing that went before: a resumed training draws the same."""
    number = int.from_bytes(hashlib.sha256(f"{seed} {stage} {epoch}".encode()).digest()[:4])
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)  # what older data loaders draw from


# Sharing one object


def tied(nets: Mapping[str, Net], names: Sequence[str], weights: Weights, sharing: Sharing, device: str) -> Modules:
    """Copies of the models with these weights, in which models that share a layer hold one object: the first's."""
    modules: Modules = {}
    for name in names:
        with blamed(f"task {name}: copying its model", "Give a model that copy.deepcopy can copy"):
            modules[name] = copy.deepcopy(nets[name].task.model)
        with blamed(
            f"task {name}: restoring its weights", "Its factory must give the same model again, or name another --out"
        ):
            modules[name].load_state_dict(weights[name])
    for group in sharing:
        if group.models[0] not in modules:
            continue  # models that share nothing with these, nor through others
        shared = modules[group.models[0]].get_submodule(nets[group.models[0]].layer_of(group))
        for name in group.models[1:]:
            exchange(modules[name], modules[name].get_submodule(nets[name].layer_of(group)), shared)
    return {name: module.to(device) for name, module in modules.items()}


def exchange(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put `new` wherever `old` is."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)


def weights_of(modules: Modules) -> Weights:
    """Copies on the CPU, each model's own and shared ones alike."""
    return {
        name: {key: value.detach().cpu().clone() for key, value in module.state_dict().items()}
        for name, module in modules.items()
    }


def restore(modules: Modules, weights: Weights) -> None:
    """Put weights into models."""
    for name, module in modules.items():
        module.load_state_dict(weights[name])


# One training


@dataclass(frozen=True, slots=True)
class Training:
    """How models are trained, alone or together."""

    work: JointWork
    spec: JointSpec
    nets: Mapping[str, Net]
    say: Say

    def run(
        self, stage: str, modules: Modules, epochs: int, alone: Mapping[str, float], targets: Mapping[str, float] | None
    ) -> Progress:
        """Train `modules` for `epochs`, from where `stage` ended before; each epoch is on disk when it is over.

        Accuracies are over those `alone`. With `targets` it ends once all are met, or when one will not be met in time;
        without, it ends with the weights of the best epoch, the start among them.
        """
        optimizer = self.optimizer(modules) if epochs else None
        progress, best = self.resumed(stage, modules, optimizer)
        if not progress.history:
            progress.history.append(self.judged(modules, alone))
            best = weights_of(modules)
        while optimizer and not ended(progress, epochs, targets):
            began_s = time.monotonic()
            self.go_on(progress, modules, optimizer, epochs, alone, targets or {})
            if not progress.diverged and progress.best == progress.epochs:
                best = weights_of(modules)
            progress.wall_s += time.monotonic() - began_s
            kept = {"weights": weights_of(modules), "optimizer": optimizer.state_dict()}
            if not targets:
                kept["best"] = best
            self.work.keep_flight(progress, kept)
        if targets is None:
            restore(modules, best)
        return progress

    def go_on(
        self,
        progress: Progress,
        modules: Modules,
        optimizer: torch.optim.Optimizer,
        epochs: int,
        alone: Mapping[str, float],
        targets: Mapping[str, float],
    ) -> None:
        """Train one epoch more, and judge it."""
        stage = progress.stage
        sow(self.spec.seed, stage, progress.epochs + 1)
        if not self.epoch(modules, optimizer, loss_factors(progress.history[-1], targets)):
            progress.diverged = True
            self.say(f"{stage}: a loss is no number any more")
            return
        progress.history.append(self.judged(modules, alone))
        accuracies = ", ".join(f"{name} {value:.4f}" for name, value in progress.history[-1].items())
        self.say(f"{stage}: epoch {progress.epochs} of {epochs}: {accuracies}")

    def optimizer(self, modules: Modules) -> torch.optim.SGD:
        """SGD on all weights, shared ones once."""
        parameters = {id(p): p for module in modules.values() for p in module.parameters() if p.requires_grad}
        if not parameters:
            raise JointError(f"{', '.join(modules)}: no weight may be trained. Set requires_grad on some.")
        return torch.optim.SGD(
            list(parameters.values()),
            lr=self.spec.learning_rate,
            momentum=self.spec.momentum,
            weight_decay=self.spec.weight_decay,
        )

    def resumed(
        self, stage: str, modules: Modules, optimizer: torch.optim.Optimizer | None
    ) -> tuple[Progress, Weights]:
        """The progress of a stage, and its best weights; its last go into `modules`, its momenta into `optimizer`."""
        kept = self.work.flight(stage)
        if kept is None or optimizer is None:
            return Progress(stage), {}
        progress, data = kept
        with blamed(f"{stage}: restoring what was done of it", "Name another --out"):
            restore(modules, data["weights"])
            optimizer.load_state_dict(data["optimizer"])
        return progress, data.get("best", {})

    def epoch(self, modules: Modules, optimizer: torch.optim.Optimizer, factors: Mapping[str, float]) -> bool:
        """One pass over the longest training data, shorter ones anew; False where a loss is no number."""
        for module in modules.values():
            module.train()
        for batches in rounds({name: self.nets[name].task.train for name in modules}):
            optimizer.zero_grad()
            for name, batch in batches.items():
                with blamed(f"task {name}: its loss", "See that it works on a batch of training data"):
                    loss = factors.get(name, 1.0) * self.nets[name].task.loss(
                        modules[name], moved(batch, self.work.device)
                    )
                    # Gradients add up: as of the sum of all losses, with one model's activations at a time in memory.
                    loss.backward()  # type: ignore[no-untyped-call]
                if not math.isfinite(float(loss.detach())):
                    return False
            optimizer.step()
        return True

    def judged(self, modules: Modules, alone: Mapping[str, float]) -> dict[str, float]:
        """Accuracy of each model on its own validation data, over that alone."""
        return {
            name: accuracy(self.nets[name], m, self.work.device) / alone.get(name, 1.0) for name, m in modules.items()
        }


def rounds(trains: Mapping[str, Batches]) -> Iterator[dict[str, Any]]:
    """A batch of each task, again and again, until the longest is through; shorter ones begin anew."""
    feeds = {name: passes(name, batches) for name, batches in trains.items()}
    through: set[str] = set()
    while True:
        found: dict[str, Any] = {}
        for name, feed in feeds.items():
            if (batch := next(feed)) is None:
                through.add(name)
                if len(through) == len(trains):
                    return
                batch = next(feed)
            found[name] = batch
        yield found


def passes(name: str, batches: Batches) -> Iterator[Any]:
    """The batches of one task over and over; None after each pass."""
    while True:
        count = 0
        with blamed(f"task {name}: its training data", "See that it can be gone through"):
            for count, batch in enumerate(batches, start=1):  # noqa: B007
                yield batch
        if not count:
            raise JointError(f"task {name}: its training data is empty. Give it some, anew at each pass.")
        yield None


def accuracy(net: Net, module: nn.Module, device: str) -> float:
    """The accuracy of a model by its task's metric."""
    module.eval()
    remedy = "See that it works on validation data"
    with torch.no_grad(), blamed(f"task {net.name}: its metric", remedy):
        value = float(net.task.metric(module, Moved(net.task.validation, device)))
    if not 0 <= value < math.inf:
        raise JointError(
            f"task {net.name}: its metric gave {value}; it must be a number of at least 0. Look at its metric."
        )
    return value


def ended(progress: Progress, epochs: int, targets: Mapping[str, float] | None) -> bool:
    """True where a training is over: out of epochs, diverged, all targets met, or one out of reach."""
    if progress.diverged or progress.epochs >= epochs:
        return True
    return targets is not None and (
        met(progress.history[-1], targets) or bool(hopeless(progress.history, targets, epochs))
    )


def met(accuracy: Mapping[str, float], targets: Mapping[str, float]) -> bool:
    """True where all models meet their targets."""
    return all(value >= targets[name] for name, value in accuracy.items())


def hopeless(history: Sequence[Mapping[str, float]], targets: Mapping[str, float], epochs: int) -> list[str]:
    """Models that will not get there: two epochs in a row, what an epoch brought times those left is below the gap.

    At .80 after .79 with 5 of 10 epochs left and a target of .95: 5 x .01 is less than .15.
    """
    if len(history) <= PATIENCE:
        return []
    left = epochs - (len(history) - 1)
    steps = list(pairwise(history[-PATIENCE - 1 :]))

    def is_slow(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> bool:
        gain = max(0.0, left * (after[name] - before[name]))
        return gain < targets[name] - after[name]

    return [name for name in history[-1] if all(is_slow(name, before, after) for before, after in steps)]


def loss_factors(accuracy: Mapping[str, float], targets: Mapping[str, float]) -> dict[str, float]:
    """How much each model's loss counts: (target / accuracy) ^ 0.75, at most 10. .95 at an accuracy of .60: 1.41."""
    return {
        name: min((target / accuracy[name]) ** ALPHA, WEIGHT_MAX) if accuracy[name] else WEIGHT_MAX
        for name, target in targets.items()
        if name in accuracy
    }


@dataclass(frozen=True, slots=True)
class Moved:
    """Batches on a device."""

    batches: Batches
    device: str

    def __iter__(self) -> Iterator[Any]:
        return (moved(batch, self.device) for batch in self.batches)


def moved(batch: Any, device: str) -> Any:
    """A batch with all its tensors on a device."""
    match batch:
        case Tensor():
            return batch.to(device)
        case Mapping():
            return {key: moved(value, device) for key, value in batch.items()}
        case tuple() | list():
            parts = [moved(value, device) for value in batch]
            return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch
