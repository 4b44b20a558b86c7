"""Statements: every code has one sentence; what lacks a subject or a figure is refused where it is read."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from support.answers import ONE_GPU, PLAN

from planner.io.store import StoreError, read_plan, to_json
from planner.model.candidate import Candidate, Machines, MachineType, Memory, OnGpu
from planner.model.parts.merging import Merging
from planner.model.plan import PlanWarning
from planner.model.statement import Code, Statement
from planner.words.candidates import candidate_name, machine_name, subject_name
from planner.words.statements import (
    ADDITIONS,
    ASSUMPTIONS,
    MEASUREMENTS,
    NOTES,
    REASONS,
    REMEDIES,
    WARNINGS,
    addition,
    reason,
    rejection_line,
    rejection_lines,
    rejection_remedy,
    remedies,
    warning,
)

TABLES = (REASONS, REMEDIES, ADDITIONS, WARNINGS, ASSUMPTIONS, MEASUREMENTS, NOTES)
T4 = Machines(provider="aws", region="us-east-1", instance="g4dn.xlarge", gpu="T4", gpu_count=1, count=2)
V100 = Machines(provider="azure", region="eastus", instance="NC24s_v3", gpu="V100", gpu_count=4, count=1)


def test_every_code_has_one_sentence():
    """But `network`, which is a warning now and was an assumption of plans kept before."""
    assert Counter(code for table in TABLES for code in table) == Counter([*Code, Code.NETWORK])


@pytest.mark.parametrize(
    ("candidate", "name"),
    [
        (Candidate(machines=(T4,)), "2 x g4dn.xlarge (T4)"),
        (
            Candidate(machines=(T4, V100), memory=Memory.SWAPPED),
            "2 x g4dn.xlarge (T4) + 1 x NC24s_v3 (4 x V100), swapped",
        ),
        (
            Candidate(machines=(replace(T4, ambiguous=True),), memory=Memory.RESIDENT, merging=Merging.LAYERS),
            "2 x g4dn.xlarge (T4, aws us-east-1), resident, merged layers",
        ),
    ],
)
def test_names_of_candidates(candidate, name):
    assert candidate_name(candidate) == name
    assert candidate.gpu_count == sum(one.count * one.gpu_count for one in candidate.machines)


def test_names_of_what_else_is_rejected():
    offer = MachineType(provider="azure", region="eastus", instance="NC24s_v3", gpu="V100", gpu_count=4)
    assert machine_name(offer) == "NC24s_v3 (4 x V100, azure eastus)"
    models = ("a", "b", "c")
    assert [subject_name(OnGpu(gpu="T4", models=models[:n])) for n in (0, 1, 3)] == ["T4", "a on T4", "3 models on T4"]


def test_remedies_are_alternatives_and_what_they_leave_open_follows():
    changes = [
        Statement(code=Code.FEWER_CAMERAS, subjects=("a",), figures={"left": 28, "count": 40}),
        Statement(code=Code.MORE_GPUS, figures={"gpu_count": 3}),
    ]
    open_ = [Statement(code=Code.OTHERS_MISS_TOO, subjects=("a", "b", "c"))]
    assert remedies(changes, open_) == (
        "drop to 28 or fewer of 40 cameras of a, or 3 more GPUs; that is for a alone: b, c miss too"
    )
    seen = Statement(code=Code.MISSED_IN_A_REPLAY, subjects=("a", "b", "c"), figures={"undecided": 2})
    assert addition(seen) == "in a replay a misses, b, c are undecided"
    assert addition(replace(seen, figures={"undecided": 3})) == "in a replay a, b, c are undecided"


@pytest.mark.parametrize(("days", "said"), [(1, "(1 day ago)"), (2, "(2 days ago)"), (1000, "(1,000 days ago)")])
def test_one_of_a_kind_is_no_plural(days, said):
    old = Statement(code=Code.STALE_PRICE, subjects=("x", "2026-01-01"), figures={"days": days, "usual": 1})
    assert said in warning(PlanWarning(what=old))[0]
    assert "usually change within 1 day" in warning(PlanWarning(what=old))[0]
    more = replace(ONE_GPU, why=Statement(code=Code.TOO_MANY_GPUS, figures={"gpu_count": 2, "gpu_count_max": 1}))
    assert "1 is allowed" in rejection_line(more)


@pytest.mark.parametrize(("rate", "said"), [(840.89, "840"), (0.04567, "0.0456"), (1234.5, "1,230"), (0.0, "0")])
def test_a_rate_that_is_advised_is_no_more_than_replays_bore(rate, said):
    remedy = Statement(code=Code.LOWER_RATE, subjects=("m",), figures={"rate_rps": rate})
    assert remedies([remedy]) == f"lower m's rate to {said} rps or less"


def test_what_is_rejected_alike_has_one_line():
    elsewhere, elsewhere_too = (replace(ONE_GPU, subject=OnGpu(gpu=gpu, models=("vgg16",))) for gpu in ("T4", "L4"))
    (line,) = rejection_lines([elsewhere, elsewhere_too])
    assert line.startswith("vgg16 on T4, vgg16 on L4: vgg16 would wait 131 ms")
    assert rejection_lines([ONE_GPU]) == [rejection_line(ONE_GPU)]


def test_a_rejection_in_one_line():
    assert rejection_line(ONE_GPU) == (
        "1 x NC6s_v3 (V100), resident: vgg16 would wait 131 ms in the worst case while its GPU serves other models. "
        "May help: raise vgg16's latency SLO to 131 ms or more."
    )
    more = Statement(code=Code.MORE_GPUS, figures={"gpu_count": 1})
    assert rejection_remedy(replace(ONE_GPU, remedies=(more,), cost_usd_per_hour=3.06)) == "one more GPU ($3.06/h more)"


def test_draws_that_may_be_enough_but_not_surely_are_refused_in_these_words():
    """254 of 5,120 are fewer than one in twenty."""
    why = Statement(code=Code.DRAWS_BREAK, subjects=("a",), figures={"broken": 254, "draws": 5120, "asked": 0.95})
    assert "too many for 95 % confidence" in rejection_line(replace(ONE_GPU, why=why))


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("rejections", Statement(code=Code.LONG_WAIT, subjects=("vgg16",))),
        ("rejections", Statement(code=Code.LONG_WAIT, figures={"worst_s": 0.1})),
        ("rejections", Statement(code=Code.SPOT, subjects=("g5.xlarge",))),
        ("assumptions", Statement(code=Code.TOO_DEAR)),
    ],
)
def test_a_statement_that_cannot_be_said_is_refused(tmp_path, place, why):
    broken = replace(ONE_GPU, why=why) if place == "rejections" else why
    path = tmp_path / "plan.json"
    path.write_text(to_json(replace(PLAN, **{place: (broken,)})), encoding="utf-8")
    with pytest.raises(StoreError, match=rf"plan\.json: {place}\[0\]: lacks a subject or a figure of its code"):
        read_plan(path)


def test_a_code_that_another_version_wrote_is_refused_in_one_short_line(tmp_path):
    path = tmp_path / "plan.json"
    written = json.loads(to_json(replace(PLAN, assumptions=(Statement(code=Code.SPOT, subjects=("g5.xlarge",)),))))
    written["assumptions"][0]["code"] = "decode-memory"
    path.write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(StoreError, match=r"that this version of planner knows.* Run `planner plan` again\.$") as raised:
        read_plan(path)
    assert Code.OFFERED_FOR_LESS not in str(raised.value)


def test_a_plan_of_version_1_is_refused_in_one_line(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**json.loads(to_json(PLAN)), "schema": "planner.plan/v1"}), encoding="utf-8")
    with pytest.raises(StoreError, match=r"has schema `planner\.plan/v1`, not .* run `planner plan` again\.$"):
        read_plan(path)


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        (("a on T4",), "a on T4:"),
        (("a on T4", "b on T4"), "a on T4, b on T4:"),
        (tuple("abcdefg"), "a, b, c and 4 more:"),
    ],
)
def test_all_that_nobody_measured_is_counted(pairs, named):
    what, _ = warning(PlanWarning(what=Statement(code=Code.PREDICTED, subjects=pairs)))
    assert named in what


@pytest.mark.parametrize(
    ("models", "ends"), [(24, "m22, m23 are partly assumed"), (1000, "m2 and 997 more are partly assumed")]
)
def test_sentences_name_no_thousand_models(models: int, ends: str) -> None:
    subjects = tuple(f"m{number}" for number in range(models))
    what, _ = warning(PlanWarning(what=Statement(code=Code.PARTLY_ASSUMED, subjects=subjects)))
    assert what.endswith(ends)


def test_work_at_the_slow_ends_of_uncertain_speeds_is_told_with_that_at_their_middle():
    def told(code, **figures):
        return reason(Statement(code=code, figures={"headroom": 0.1, "limit": 0.9, "loading": 0.0, **figures}))

    band = " if uncertain speeds are at their slow end, 62.0 % at the middle"
    assert f"126.2 % of the time{band}; 10 %" in told(Code.TOO_BUSY, work=1.262, work_at_middle=0.62)
    assert "126.2 % of the time; 10 %" in told(Code.TOO_BUSY, work=1.262)
    assert band in told(Code.OVERLOADED, load=1.262, load_at_middle=0.62)
