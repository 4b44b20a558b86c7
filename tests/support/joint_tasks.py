"""Tasks for the tests of joint training: linear models of digits, and tasks that go wrong."""

import os
import time

from torch import nn

from calibrate.tasks import Task, digits

HANGS = "JOINT_TASK_HANGS"
"""Environment variable: the batch of training at which a process hangs, so that it can be killed there."""


def linear(label):
    """One layer, so that two tasks share all of their model or nothing."""
    return digits.task(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), label)


def parity():
    return linear(lambda digit: digit % 2)


def larger_than_four():
    return linear(lambda digit: (digit > 4).long())


def in_float64():
    task = parity()
    doubled = [(pictures.double(), classes) for pictures, classes in task.train]
    return Task(task.model.double(), doubled, doubled)


def without_weights():
    return digits.task(nn.Flatten(), lambda digit: digit)


def metric_is_nan():
    task = parity()
    return Task(task.model, task.train, task.validation, metric=lambda model, batches: float("nan"))


def metric_is_zero():
    task = parity()
    return Task(task.model, task.train, task.validation, metric=lambda model, batches: 0.0)


def metric_raises():
    def metric(model, batches):
        raise KeyError("label")

    task = parity()
    return Task(task.model, task.train, task.validation, metric=metric)


def loss_raises():
    def loss(model, batch):
        raise ValueError("expected 10 classes\ngot 2")

    task = parity()
    return Task(task.model, task.train, task.validation, loss=loss)


def loss_is_nan():
    task = parity()
    return Task(task.model, task.train, task.validation, loss=lambda model, batch: model(batch[0]).sum() * float("nan"))


def no_data():
    task = parity()
    return Task(task.model, [], task.validation)


def nothing_to_judge_by():
    task = parity()
    return Task(task.model, task.train, [])


def nothing_to_train():
    task = parity()
    return Task(task.model.requires_grad_(False), task.train, task.validation)


def raising():
    raise FileNotFoundError("frames/ is empty")


def no_task():
    return nn.Linear(1, 1)


def no_model():
    task = parity()
    return Task("resnet50", task.train, task.validation)


class Dropping(nn.Sequential):
    """Draws random numbers in training."""

    batches = 0

    def forward(self, pictures):
        self.batches += self.training
        if self.batches == int(os.environ.get(HANGS, "-1")):
            time.sleep(3600)
        return super().forward(pictures)


def dropping():
    task = parity()
    model = Dropping(nn.Flatten(), nn.Dropout(0.2), nn.Linear(64, 2))
    return Task(model, task.train, task.validation)


not_a_function = 7
