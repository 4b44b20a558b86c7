"""What a training is told that has no answer as it is asked: changes that were tried, and the way out."""

from pathlib import Path

import pytest
from support.paths import SCENARIOS

from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.io.load import ScenarioError
from planner.questions.training.answer.choosing import is_allowed
from planner.questions.training.answer.option import TrainingPlan
from planner.questions.training.plan import train
from planner.questions.training.reading import load_training
from planner.show.text.training import answers, doubts, in_short

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
    (line,) = [line for line in answers(plan) if line.startswith("In passes as large as now")]
    for tried in ("`train.recompute` selective, full", "`parallel.tensor` 2, 4, 8", "`parallel.zero` 1, 2, 3"):
        assert tried in line


def test_a_precision_that_no_gpu_on_offer_computes_in_is_not_tried() -> None:
    given = ("train.global_batch=16384", "counts=[4]", "buy.gpus=[T4]")
    assert "train.precision" not in {one.key for one in answer(RESNET50, *given).tried}
    ampere = answer(RESNET50, "train.global_batch=65536", "counts=[4]", "buy.gpus=[A10G]").tried
    assert "bf16" in {value for one in ampere if one.key == "train.precision" for value in one.values}


def test_fewer_samples_a_pass_are_named_where_there_are_fewer() -> None:
    plan = answer(RESNET50, "train.global_batch=65536", "counts=[1]", "prices=[on-demand]")
    assert not any(o.may_fit for o in plan.options)
    first = answers(plan)[0]
    most = int(first.split("at most ")[1].split(" samples a pass")[0].replace(",", ""))
    assert 1 < most < 65_536
    fewer = 2 ** (65_536 // most).bit_length()
    assert any(o.fits for o in answer(RESNET50, "train.global_batch=65536", "counts=[1]", "prices=[on-demand]",
                                      f"train.accumulation={fewer}").options)  # fmt: skip


def test_a_smaller_micro_batch_is_named_where_it_is_larger_than_one(long: Path) -> None:
    fits = answer(long, "model.transformer.sequence=2048", "train={epochs: 3, micro_batch: 1, precision: amp-bf16}")
    assert fits.cheapest
    plan = answer(long, "model.transformer.sequence=2048", "train={epochs: 3, micro_batch: 64, precision: amp-bf16}")
    assert not any(o.may_fit for o in plan.options)
    (smaller,) = [one for one in plan.tried if one.key == "train.micro_batch"]
    assert smaller.option
    assert smaller.option.micro_batch == int(smaller.values[0]) < 64
    assert not any(one.key == "train.micro_batch" for one in answer(long).tried)


def test_nothing_is_tried_where_something_fits() -> None:
    assert answer(RESNET50).tried == ()


# Prices


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("prices=[reserved-1y]",), "prices: no reserved-1y price is known of any of "),
        (("prices=null", "buy.price=reserved-1y"), "buy.price: no reserved-1y price is known of any of "),
        (("prices=[reserved-1y, reserved-3y]",), "prices: no reserved-1y or reserved-3y price is known of any of "),
    ],
)
def test_a_price_that_no_machine_has_is_one_line_with_the_kinds_that_they_have(
    given: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        answer(RESNET50, *given)
    (line,) = str(error.value).splitlines()
    assert said in line
    assert "machines with A100-80GB, A10G, H100, L4. Write spot or on-demand, or put such prices into" in line
    assert answer(RESNET50, "prices=[on-demand]").options


def test_what_lacks_a_price_and_what_nobody_sells_have_a_line_each() -> None:
    with pytest.raises(ScenarioError) as error:
        answer(RESNET50, "prices=[reserved-1y]", "buy.gpus=[V100, GTX580]")
    priced, sold = str(error.value).splitlines()
    assert "of 12 machines with V100" in priced
    assert "buy: GTX580: no instance with it is priced" in sold


# What is stated, and has no part in the answer


@pytest.mark.parametrize("key", ["buy.gpus", "buy.own"])
def test_a_speed_of_a_gpu_that_is_not_on_offer_is_said_first(key: str) -> None:
    kind = "B200" if key == "buy.gpus" else "GTX580"
    speed = f"speed=[{{gpu: {kind}, achieved: 1 TFLOP/s}}]"
    plan = answer(RESNET50, speed)
    (line,) = plan.unused
    assert f"speed: that of {kind} counts for nothing" in line
    assert f"`{key}`" in line
    assert doubts(plan)[0] == line
    assert plan.options == answer(RESNET50).options
    wider = {"buy.gpus": "buy.gpus=[A10G, A100-80GB, H100, L4, B200]",
             "buy.own": "buy={own: [{name: old, gpu: GTX580, price: $0.1/h}], max_gpus: 1}"}[key]  # fmt: skip
    more = ("train.precision=fp32", "counts=[1]") if key == "buy.own" else ()
    assert answer(RESNET50, speed, wider, *more).unused == ()


# Too short


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("train.epochs=0.0001",), "data.samples: 128 samples in 0.0001 epochs are less than one step of 1,024."),
        (("data.samples=1000", "train.epochs=1"), "1,000 samples in 1 epoch are less than one step of 1,024."),
        (("data.samples=10", "train={epochs: 1, micro_batch: 16}"), "are less than one step of 16."),
    ],
)
def test_less_than_a_step_is_no_training(given: tuple[str, ...], said: str) -> None:
    with pytest.raises(ScenarioError) as error:
        answer(RESNET50, *given)
    (line,) = str(error.value).splitlines()
    assert said in line


def test_tokens_of_less_than_a_step_are_counted_in_samples(long: Path) -> None:
    with pytest.raises(ScenarioError, match=r"data.tokens: 0[.]037 samples of 8,192 tokens in 3 epochs are less than"):
        answer(long, "data.tokens=100")
    enough = 64 * 8192 / 3
    with pytest.raises(ScenarioError, match=r"data.tokens: 64 samples"):
        answer(long, f"data.tokens={0.999 * enough}")
    (one,) = {round(o.steps, 2) for o in answer(long, f"data.tokens={1.001 * enough}").options}
    assert one == 1.0


def test_counts_whose_step_is_longer_than_the_training_are_left_out() -> None:
    plan = answer(RESNET50, "data.samples=1000", "train={epochs: 1, micro_batch: 128}")
    assert {o.gpu_count for o in plan.options} == {1, 2, 4}
    assert "Left out: 8, 16, 32, 64 GPUs, of which one step has more samples than the whole training." in plan.warnings


def test_a_run_of_seconds_is_said_to_be_mostly_its_start() -> None:
    short, long = (answer(RESNET50, f"train.epochs={epochs}") for epochs in (0.01, 90))
    assert any("`interruptions.restart`, 5 min) is mostly its start" in line for line in short.warnings)
    assert not any("mostly its start" in line for line in long.warnings)


# Parts of a model


def test_numbers_of_gpus_that_the_parts_do_not_divide_are_left_out_unless_they_are_named() -> None:
    given = ("parallel.tensor=4", "prices=[on-demand]")
    plan = answer(RESNET50, *given)
    assert {o.gpu_count % 4 for o in plan.options} == {0}
    assert not any(o.undivided for o in plan.options)
    assert any(
        line.startswith("Left out: 1, 2 GPUs, which tensor 4 x pipeline 1 do not divide.") for line in plan.warnings
    )
    named = answer(RESNET50, *given, "counts=[2, 8]", "buy={gpus: [L4], max_gpus: 8}")
    assert {(o.gpu_count, o.undivided) for o in named.options} == {(2, True), (8, False)}
    for o in named.options:
        assert ("the model whole on each of 2 GPUs, which `parallel` does not divide" in in_short(o)) is o.undivided
    whole = answer(RESNET50, "prices=[on-demand]", "counts=[2]", "buy={gpus: [L4], max_gpus: 8}").options
    assert {o.time_s for o in named.options if o.undivided} == {o.time_s for o in whole}


def test_parts_that_no_usual_number_has_are_one_line() -> None:
    with pytest.raises(ScenarioError, match="tensor 3 x pipeline 1 divide none of 1, 2, 4, 8, 16, 32, 64 GPUs"):
        answer(RESNET50, "parallel.tensor=3")
