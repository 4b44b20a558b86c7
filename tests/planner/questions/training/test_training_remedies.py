"""What a training is told that has no answer as it is asked: changes that were tried, and the way out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.paths import SCENARIOS

from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.questions.training.answer.choosing import is_allowed
from planner.questions.training.answer.option import TrainingPlan
from planner.questions.training.plan import train
from planner.questions.training.reading import load_training
from planner.show.text.training import answers

CATALOG = load_catalog()
LIBRARY = find_profiles((), CATALOG.gpus)
RESNET50 = SCENARIOS / "training" / "resnet50.yaml"
LONG = """\
model:
  transformer: {layers: 32, hidden: 4096, heads: 32, sequence: 8192, vocabulary: 32000, params: 6.74e9}
data: {tokens: 1e9}
train: {epochs: 3, global_batch: 64, precision: amp-bf16, optimizer: adamw}
parallel: {zero: 3}
buy: {gpus: [H100, H200], max_gpus: 64, providers: [aws, nebius]}
prices: [on-demand, spot]
deadline: 3 days
budget: $3000
"""


@pytest.fixture
def long(tmp_path: Path) -> Path:
    path = tmp_path / "long.yaml"
    path.write_text(LONG)
    return path


def answer(path: Path, *overrides: str) -> TrainingPlan:
    return train(load_training(path, overrides), CATALOG, LIBRARY)


# Memory


def test_changes_that_are_named_were_seen_to_fit_the_cheapest_first(long: Path) -> None:
    plan = answer(long)
    assert not any(o.may_fit for o in plan.options)
    helpful = [one for one in plan.tried if one.option]
    assert {one.key for one in helpful} >= {"train.recompute", "parallel.tensor"}
    assert list(plan.tried[: len(helpful)]) == helpful
    for one in helpful:
        assert one.option
        (value,) = one.values
        again = answer(long, f"{one.key}={value}")
        assert again.cheapest
        assert is_allowed(one.option)
        assert one.option.paid_usd == again.cheapest.paid_usd
    paid = [one.option.paid_usd for one in helpful if one.option]
    assert paid == sorted(paid)
    told = [line for line in answers(plan) if line.startswith("Remedy: ")]
    assert [line.split("`")[1] for line in told] == [f"{one.key}: {one.values[0]}" for one in helpful]


def test_changes_that_do_not_help_are_no_remedy(long: Path) -> None:
    """One sample a pass does not fit on any GPU: neither is a smaller batch one."""
    plan = answer(long)
    for one in plan.tried:
        if one.option is None:
            assert all(not any(o.may_fit for o in answer(long, f"{one.key}={value}").options) for value in one.values)
    told = " ".join(answers(plan))
    assert "smaller batch" not in told
    assert "samples a pass" not in told
    assert not any(o.may_fit for o in answer(long, "train.global_batch=8").options)


def test_where_no_change_helps_it_says_which_were_tried(long: Path) -> None:
    plan = answer(long, "model.transformer.params=700e9", "parallel.zero=0")
    assert plan.tried
    assert not any(one.option for one in plan.tried)
    (line,) = [line for line in answers(plan) if line.startswith("Nothing fits either")]
    for tried in ("`train.recompute` selective, full", "`parallel.tensor` 2, 4, 8", "`parallel.zero` 1, 2, 3"):
        assert tried in line


def test_fewer_samples_a_pass_are_named_where_there_are_fewer() -> None:
    plan = answer(RESNET50, "train.global_batch=65536", "counts=[1]", "prices=[on-demand]")
    assert not any(o.may_fit for o in plan.options)
    first = answers(plan)[0]
    most = int(first.split("at most ")[1].split(" samples a pass")[0].replace(",", ""))
    assert 1 < most < 65_536
    fewer = 2 ** (65_536 // most).bit_length()
    assert any(o.fits for o in answer(RESNET50, "train.global_batch=65536", "counts=[1]", "prices=[on-demand]",
                                      f"train.accumulation={fewer}").options)  # fmt: skip


def test_nothing_is_tried_where_something_fits() -> None:
    assert answer(RESNET50).tried == ()
