"""What people read: figures in their units, tables that fit, formats that parse."""

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import AZURE, BEST, INFEASIBLE, NO_ROOM, ONE_GPU, PLAN, POLICIES, REPLAYED, VGG, YOLO

from planner.api import modelling
from planner.compare.gate import crossed, parse_condition
from planner.io.store import StoreError, read_plan, to_json, write_answer, write_text
from planner.model.candidate import MachineType, OnGpu
from planner.model.parts.rules import AccuracyRule
from planner.model.plan import NOTHING_TRIED, Accuracy, Bottleneck, Drawn, Interval, nearest, overshoot
from planner.model.scenario import Objective
from planner.model.statement import Code, Statement
from planner.show.kept import explained, render
from planner.show.text.explained.plan import evidence as evidence_of
from planner.show.text.merging import told_apart
from planner.show.text.plan import (
    bound_line,
    fleet,
    headline,
    least_of_objective,
    provenance,
    replayed_line,
    rules_line,
    slo_line,
    tightest,
    uncertain,
)
from planner.show.text.reasons import assumption_lines, never_tried, refusals, warnings_of
from planner.units.writing import (
    BAD,
    Format,
    Screen,
    TextColumn,
    dollars,
    fit,
    per_second,
    percent,
    ranges,
    seconds,
    span,
    table,
)
from simulator.world.deployment import Eviction, Failures
from simulator.world.profile import Evidence
from simulator.world.signature import read_signature

OF_ONE_TYPE = replace(AZURE, spares=1)
TWO_TYPES = (replace(AZURE, count=1), replace(AZURE, instance="NC12s_v3", gpu_count=2, count=1))
ONE_OF_TWO_SPARED = (TWO_TYPES[0], replace(TWO_TYPES[1], spares=1))
FINITE = st.floats(min_value=0, max_value=1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("instances", "text"),
    [
        ((OF_ONE_TYPE,), "2 x NC6s_v3 (V100, azure eastus) and 1 spare for $3.06/h"),
        (TWO_TYPES, "1 x NC6s_v3 (V100, azure eastus) + 1 x NC12s_v3 (2 x V100, azure eastus)"),
        (
            ONE_OF_TWO_SPARED,
            "1 x NC6s_v3 (V100, azure eastus) + 1 x NC12s_v3 (2 x V100, azure eastus) and 1 spare NC12s_v3 for $3.06/h",
        ),
    ],
)
def test_spares_in_a_fleet_of_several_types_are_named_by_theirs(instances, text):
    assert fleet(instances) == text


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (seconds(0.0812, 0.0004), "81.2 ± 0.4 ms"),
        (seconds(1.2), "1.20 s"),
        (seconds(math.nan), "-"),
        (dollars(9.18), "$9.18"),
        (dollars(0.526), "$0.526"),
        (dollars(6701.4), "$6,701"),
        (per_second(7.5), "7.50/s"),
        (per_second(0.001), "0.0010/s"),
        (percent(0.98999), "98.99"),
        (percent(0.98991, up=True), "99.00"),
        (percent(0.9931), "99.31"),
        (ranges([1, 2, 3, 5]), "1-3, 5"),
        (span(0.2), "200 ms"),
        (span(60), "60 s"),
        (span(3420), "57 min"),
        (span(43_200), "12 h"),
    ],
)
def test_figures_are_in_peoples_units(said, text):
    assert said == text


@given(st.floats(min_value=0, max_value=1))
def test_a_percentage_never_rounds_over_an_slo(share):
    assert float(percent(share)) <= share * 100 + 1e-4
    assert float(percent(share, up=True)) >= share * 100 - 1e-4


def test_the_answer_comes_first():
    first, *rest = render(PLAN, Format.TABLE, Screen()).splitlines()[:3]
    assert first == "2 x NC6s_v3 (V100, azure eastus): $6.12/h, $4,468/month (prices of 2026-06-18)"
    second = "SLO met: 2 of 2 models. Closest to its SLO: vgg16, 99.31 [99.20, 99.43] % on time (SLO 99 %)."
    assert " ".join(map(str.strip, rest)) == f"{second} Figures of 1 of 2 models are partly assumed."


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("show", [lambda p, s: render(p, Format.TABLE, s), explained])
@pytest.mark.parametrize("plan", [PLAN, INFEASIBLE])
def test_no_line_is_wider_than_the_screen(plan, show, width):
    text = show(plan, Screen(width))
    assert max(map(len, text.splitlines())) <= width


def test_every_column_survives_a_narrow_screen():
    titles = [f"column{i}" for i in range(9)]
    columns = [TextColumn(title, ["cell"]) for title in titles]
    shown = "\n".join(table(columns, Screen(40))).split()
    assert [title for title in titles if title not in shown] == []
    assert all(part[0].title == "column0" for part in fit(columns, 38))


@pytest.mark.parametrize("width", range(40, 80))
def test_figures_keep_their_units_and_intervals_their_ends(width):
    text = "\n".join(Screen(width).wrap(f"{slo_line(BEST)} {rules_line(POLICIES, (VGG, YOLO))}"))
    assert all(figure in text for figure in ("[99.20, 99.43] %", "99 %", "10 %", "60 s", "2 s"))


def test_colours_only_where_wanted():
    assert "\x1b[" not in render(INFEASIBLE, Format.TABLE, Screen(colour=False))
    assert f"\x1b[{BAD}m" in render(INFEASIBLE, Format.TABLE, Screen(colour=True))


def test_the_tightest_model_has_least_of_its_allowed_misses_left():
    assert tightest((VGG, YOLO)) is VGG
    loose = replace(VGG, slo_attainment_target=0.9)
    half = replace(YOLO, slo_attainment=Interval(0.996, 0.995, 0.997))
    assert tightest((loose, half)) is half


def test_a_model_nobody_answered_is_the_tightest():
    unknown = replace(YOLO, slo_attainment=Interval(math.nan, math.nan, math.nan), slo_met=None)
    assert tightest((VGG, unknown)) is unknown
    assert slo_line(replace(BEST, models=(VGG, unknown))).startswith("SLO UNDECIDED: 1 of 2 models.")


def test_speeds_of_others_are_named_in_the_first_words():
    first, second = BEST.models
    published = replace(first, speed_evidence=Evidence.PUBLISHED)
    for other in (Evidence.MEASURED, Evidence.PUBLISHED, Evidence.ASSUMED, Evidence.PREDICTED):
        models = (published, replace(second, speed_evidence=other))
        weakest = "Published" if other is Evidence.MEASURED else str(other).capitalize()
        said = headline(replace(PLAN, recommendation=replace(BEST, models=models)))
        assert said == f"{weakest}, not measured: {headline(PLAN)}"


@pytest.mark.parametrize(
    ("speed", "weakest", "said"),
    [
        (Evidence.MEASURED, Evidence.FITTED, "fitted"),
        (Evidence.PUBLISHED, Evidence.PUBLISHED, "published"),
        (Evidence.PUBLISHED, Evidence.PREDICTED, "speed published, memory or weight loading predicted"),
        (Evidence.MEASURED, Evidence.ASSUMED, "speed measured, memory or weight loading assumed"),
        (Evidence.PREDICTED, Evidence.TRANSFERRED, "speed predicted, evidence transferred"),
        (None, Evidence.PREDICTED, "predicted"),
    ],
)
def test_the_evidence_of_speeds_is_that_of_the_headline(speed, weakest, said):
    model = replace(YOLO, speed_evidence=speed, evidence=weakest, predicted=False)
    assert evidence_of(replace(BEST, models=(model,))) == [f"{said}: yolov3"]


def test_all_speeds_that_are_drawn_are_named():
    kinds = (Evidence.PUBLISHED, Evidence.PREDICTED, Evidence.ASSUMED, Evidence.MEASURED)
    models = [replace(YOLO, speed_evidence=one, uncertain=one is not Evidence.MEASURED) for one in kinds]
    assert uncertain(models) == "assumed, predicted and published speeds"
    assert uncertain(models[-1:]) == ""


def test_missed_slos_are_said_loudly():
    said = slo_line(INFEASIBLE.recommendation)
    assert said.startswith("SLO MISSED by 1 of 2 models: vgg16, 95.00 [94.00, 96.00] %")
    assert headline(INFEASIBLE).startswith("No feasible plan. The closest is 2 x NC6s_v3")
    assert headline(replace(PLAN, recommendation=NOTHING_TRIED)) == "No feasible plan: 2 candidates rejected."


def test_reasons_of_rejections_are_counted_once():
    """Three kinds of GPU in one line, three fleets of one reason in others; two offers that no line tells of."""
    untried = [
        replace(
            ONE_GPU,
            subject=OnGpu(gpu=gpu, models=("a",)),
            bottleneck=Bottleneck.PROFILE,
            why=Statement(code=Code.NO_PROFILE, subjects=("a", gpu)),
        )
        for gpu in ("T4", "L4", "A10G")
    ]
    dearer = replace(ONE_GPU, bottleneck=Bottleneck.COST, why=Statement(code=Code.OFFERED_FOR_LESS))
    dearer = replace(
        dearer, subject=MachineType(provider="aws", region="us-east-1", instance="big", gpu="T4", gpu_count=1)
    )
    fleets = [replace(ONE_GPU, cost_usd_per_hour=cost) for cost in (3.06, 3.5, 4.0)]
    nothing = replace(PLAN, recommendation=NOTHING_TRIED, rejections=(*fleets, *untried, dearer, dearer))
    said = "6 candidates rejected, for 2 reasons; 2 dearer offers of the same GPUs left out."
    assert headline(nothing) == f"No feasible plan: {said}"
    assert len(refusals(nothing)) == 4


def test_what_could_still_be_saved():
    assert "a better one saves at most $0.520/h (8.5 %)" in bound_line(BEST, (), 0.1)
    assert "roven" not in bound_line(BEST, (), 0.1)
    for evidence, proven in (
        (Evidence.FITTED, "Proven cheapest, with 10 %"),
        (Evidence.PREDICTED, "Proven cheapest with memory as layers predict it, with 10 %"),
        (Evidence.ASSUMED, "Proven cheapest by figures that are partly assumed, with 10 %"),
    ):
        models = tuple(replace(model, evidence=evidence) for model in BEST.models)
        at_bound = replace(BEST, models=models, lower_bound_usd_per_hour=6.12)
        assert bound_line(at_bound, (), 0.1).startswith(proven)
    at_bound = replace(BEST, lower_bound_usd_per_hour=6.12)
    drawn = replace(at_bound, replayed=replace(REPLAYED, drawn=(Drawn.SPEEDS,)))
    assert bound_line(drawn, (), 0.1).startswith("Cheapest")  # of fleets with speeds in doubt not all are tried
    theirs = {"evidence": Evidence.ASSUMED, "speed_evidence": Evidence.ASSUMED, "uncertain": True}
    drawn = replace(drawn, models=tuple(replace(one, **theirs) for one in BEST.models))
    drawn = replace(drawn, replayed=replace(drawn.replayed, draws_asked=0.95))
    assert "Cheapest with assumed speeds at their slow 95 % end, with 10 %" in bound_line(drawn, (), 0.1)
    gap = replace(NO_ROOM, bottleneck=Bottleneck.PROFILE)
    assert "cheapest on GPUs that have profiles" in bound_line(replace(BEST, lower_bound_usd_per_hour=6.12), [gap], 0.1)


@pytest.mark.parametrize(("uncertain", "and_slow"), [(True, " and assumed speeds at their slow end"), (False, "")])
def test_a_bound_says_wherever_it_stands_that_speeds_are_at_their_slow_end(uncertain, and_slow):
    models = tuple(replace(one, speed_evidence=Evidence.ASSUMED, uncertain=uncertain) for one in BEST.models)
    plan = replace(PLAN, recommendation=replace(BEST, models=models, lower_bound_usd_per_hour=6.12), rejections=())
    assert refusals(plan)[0] == f"No placement under $6.12/h can do this with 10 % headroom{and_slow}."
    bound = dict(provenance(plan))["lower bound on cost"]
    assert bound.endswith(f"/h{and_slow.replace('and', 'with', 1)}, the answer itself")


@pytest.mark.parametrize("objective", [Objective.ENERGY, Objective.GPUS])
def test_a_plan_that_is_not_the_cheapest_on_purpose_says_what_costs_less(objective):
    cheaper, dearer = (replace(BEST, cost_usd_per_hour=factor * BEST.cost_usd_per_hour) for factor in (0.5, 2.0))
    asked = replace(PLAN, policies=replace(POLICIES, objective=objective), alternatives=(dearer, cheaper))
    assert f"costs least, {dollars(cheaper.cost_usd_per_hour)}/h" in least_of_objective(asked)
    assert "none of them costs less" in least_of_objective(replace(asked, alternatives=(dearer,)))
    for form in (Format.TABLE, Format.MD):
        said = render(asked, form, Screen())
        assert "roven" not in said
        assert "saves at most" not in said
    assert "stays cheaper" in explained(replace(PLAN, alternatives=(dearer,)), Screen())
    assert "stays cheaper" not in explained(replace(asked, alternatives=(dearer,)), Screen())


def test_the_price_of_a_plan_has_no_room_where_the_next_best_costs_as_much():
    slower = replace(BEST, cost_usd_per_hour=BEST.cost_usd_per_hour + 1e-9)
    dearer = replace(BEST, cost_usd_per_hour=2 * BEST.cost_usd_per_hour)
    said = " ".join(explained(replace(PLAN, alternatives=(dearer, slower)), Screen()).split())
    assert "costs as much: " in said
    assert "It is cheaper as soon as the price of this plan rises." in said
    assert "stays cheaper" not in said


@pytest.mark.parametrize("form", [Format.TABLE, Format.MD])
def test_every_answer_names_its_rules_and_what_its_intervals_mean(form):
    text = " ".join(render(PLAN, form, Screen()).split())
    assert (
        "Rules: drop late, accuracy lost-is-wrong, memory auto, scheduling edf, routing shared, headroom 10 %, "
        "horizon 60 s, warm-up 2 s, no failures." in text
    )
    assert "Intervals: 95 % confidence (share on time: over all looks together), 5 replications" in text


def test_rules_of_swapping_padding_and_failures_are_named_where_they_hold():
    swapped, aging = replace(YOLO, mode="swapped"), {"accuracy": AccuracyRule.REUSE_LAST, "half_life_s": 5.0}
    policies = replace(POLICIES, eviction=Eviction.MRU, pinned=False, padded=True, **aging)
    policies = replace(policies, failures=Failures(mean_time_between_s=43_200.0, recovery_s=180.0))
    said = rules_line(policies, (VGG, swapped))
    assert "accuracy reuse-last (half-life 5 s), memory auto, eviction mru, prefetch, not pinned, scheduling" in said
    assert "padded batches, headroom 10 %" in said
    assert said.endswith("failures every 12 h for 3 min.")
    assert "eviction" not in rules_line(policies, (VGG, YOLO))


def test_accuracy_is_shown_where_it_says_more_than_the_share_on_time():
    """Under the rule of the scenario; the JSON and the CSV have both."""
    alike = [replace(m, accuracy=Accuracy(lost_is_wrong=m.slo_attainment.mean, reuse_last=0.97)) for m in (VGG, YOLO)]
    plan = replace(PLAN, recommendation=replace(BEST, models=tuple(alike)))
    reusing = replace(plan, policies=replace(POLICIES, accuracy=AccuracyRule.REUSE_LAST, half_life_s=5.0))
    assert "accuracy  " not in render(plan, Format.TABLE, Screen(200))
    assert "97.00 %" in render(reusing, Format.TABLE, Screen(200))
    (row, _) = csv.DictReader(io.StringIO(render(plan, Format.CSV, Screen())))
    assert (row["accuracy_lost_is_wrong"], row["accuracy_reuse_last"]) == ("0.99314", "0.97")


def test_refusals_are_sorted_by_how_near_they_came():
    assert nearest(PLAN) == [ONE_GPU, NO_ROOM]
    assert overshoot(ONE_GPU) == pytest.approx(0.31)
    dearer = replace(ONE_GPU, cost_usd_per_hour=50.0)
    assert nearest(replace(PLAN, rejections=(dearer,))) == []
    assert nearest(replace(INFEASIBLE, rejections=(dearer,))) == [dearer]


def test_a_fleet_beyond_the_budget_is_a_reason_a_dominated_offer_is_none():
    dear = replace(ONE_GPU, bottleneck=Bottleneck.COST)
    offer = MachineType(provider="azure", region="eastus", instance="NC24s_v3", gpu="V100", gpu_count=4)
    dominated = replace(ONE_GPU, subject=offer, bottleneck=Bottleneck.COST)
    assert nearest(replace(INFEASIBLE, rejections=(dominated, dear))) == [dear]


def test_old_prices_are_warned_of():
    fresh, old = replace(PLAN, warnings=()), replace(PLAN, warnings=(), created_at="2026-09-17T00:00:00Z")
    assert warnings_of(fresh) == ()
    assert [one.what.code for one in warnings_of(old)] == [Code.STALE_PRICES]


def test_csv_has_a_row_for_each_model():
    rows = list(csv.DictReader(io.StringIO(render(PLAN, Format.CSV, Screen()))))
    assert [row["name"] for row in rows] == ["vgg16", "yolov3"]
    assert [float(rows[0][f"{figure}_s"]) for figure in ("mean", "p50", "p90", "p95", "p99")] == [
        *(0.0433, 0.0412, 0.0644, 0.0721, 0.0812)
    ]
    assert rows[0]["accuracy_reuse_last"] == ""
    assert float(rows[0]["slo_attainment_low"]) == 0.99202
    assert rows[0]["gpus"] == "gpu0 gpu1"


def test_markdown_tables_have_equal_rows():
    lines = render(PLAN, Format.MD, Screen()).splitlines()
    blocks = "\n".join(lines).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) == 3
    assert all(len({row.count("|") for row in rows}) == 1 for rows in tables)


def test_explanation_names_what_binds_and_what_to_measure():
    text = " ".join(explained(PLAN, Screen()).split())
    assert "yolov3: stable, limited by compute. In full batches gpu1 would be busy 66 % of the time." in text
    assert "gpu1 has the largest offered load" in text
    assert "raise vgg16's latency SLO to 131 ms or more." in text
    assert "Measure this next - yolov3 on V100: of the models with assumed figures, it has the least room." in text


def test_room_for_more_load_counts_from_full_batches():
    """The same figure as in the line of what was replayed: there is one limit, however much small batches load."""
    device = replace(BEST.gpus[0], offered_load=0.08, load_share=0.25, utilization=1.0)
    best = replace(BEST, gpus=(device,), demand_factor_max=10.02)
    text = " ".join(explained(replace(PLAN, recommendation=best), Screen()).split())
    assert f"{device.id} has the largest offered load, 8 %; queues stay stable up to 10.02 times" in text


def test_what_was_never_tried_is_said_once():
    gap = replace(NO_ROOM, bottleneck=Bottleneck.PROFILE, cost_usd_per_hour=None)
    gaps = [
        replace(
            gap,
            subject=OnGpu(gpu=gpu, models=("vgg16",)),
            why=Statement(code=Code.NO_PROFILE, subjects=("vgg16", gpu)),
        )
        for gpu in ("L4", "A10G")
    ]
    sold_out = replace(
        NO_ROOM,
        subject=MachineType(provider="aws", region="us-east-1", instance="p2.xlarge", gpu="K80", gpu_count=1),
        bottleneck=Bottleneck.RETIRED,
        why=Statement(code=Code.NOT_SOLD, subjects=("aws",)),
        remedies=(Statement(code=Code.ALLOW_RETIRED),),
    )
    assert never_tried(replace(PLAN, rejections=(*gaps, sold_out))) == [
        "Not tried on L4, A10G: no profile of vgg16. Remedy: measure, or name a folder with --profiles.",
        "p2.xlarge (K80, aws us-east-1): aws still lists it but no longer sells it. "
        "Remedy: set buy.retired to true if you still have access to it.",
    ]


def test_an_assumption_of_several_models_is_said_once():
    assumed = (
        Statement(code=Code.CONTEXT, figures={"context_bytes": 0.8e9}),
        Statement(code=Code.OF_PROFILES, subjects=("vgg16 on V100", "ssd on V100"), text="taken for fp32"),
        Statement(code=Code.OF_PROFILES, subjects=("yolov3 on V100",), text="taken for fp32"),
    )
    assert assumption_lines(assumed) == [
        "vgg16 on V100, ssd on V100, yolov3 on V100: taken for fp32.",
        "One process on each GPU holds 0.8 GB besides weights and workspace.",
    ]


def test_what_all_models_share_is_said_once_where_room_is_short():
    alike = replace(BEST, models=(VGG, replace(YOLO, evidence=VGG.evidence)))
    wide, narrow = (render(replace(PLAN, recommendation=alike), Format.TABLE, Screen(w)) for w in (160, 100))
    assert "All: resident; evidence published." not in wide
    assert "All: resident; evidence published." in narrow


@pytest.mark.parametrize("plan", [PLAN, INFEASIBLE, replace(PLAN, recommendation=NOTHING_TRIED, alternatives=())])
def test_a_plan_comes_back_as_it_went(tmp_path, plan):
    write_answer(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.json"]


def test_a_figure_that_does_not_exist_is_null(tmp_path):
    silent = replace(VGG, p99_s=math.nan, slo_met=None)
    write_answer(replace(PLAN, recommendation=replace(BEST, models=(silent,))), tmp_path / "plan.json")
    back = read_plan(tmp_path / "plan.json").recommendation
    assert back is not None
    assert math.isnan(back.models[0].p99_s)
    assert back.models[0].slo_met is None


@given(FINITE)
def test_floats_are_written_with_nine_digits(value):
    written = json.loads(to_json({"schema": "s", "value": value}))["value"]
    assert written == pytest.approx(value, rel=1e-8)
    assert len(repr(written).split("e")[0].replace(".", "").strip("0")) <= 9


def test_schema_comes_first_and_keys_are_those_named():
    data = json.loads(to_json(PLAN))
    assert next(iter(data)) == "schema"
    assert data["recommendation"]["models"][0]["slo_attainment"] == {"mean": 0.99314, "low": 0.99202, "high": 0.99426}
    assert data["recommendation"]["models"][0]["evidence"] == "published"
    assert data["recommendation"]["models"][0]["accuracy"] == {"lost_is_wrong": 0.97, "reuse_last": None}
    assert data["recommendation"]["models"][0].keys() >= {"mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "verdict"}
    assert data["policies"].items() >= {"drop": "late", "routing": "shared", "headroom": 0.1, "failures": None}.items()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON: it ends too early"),
        ('{"schema": "planner.plan/v3"', "is not JSON: it ends too early"),
        ("video:\n  x", "is not JSON"),
        ("[1]", "it has no `schema`"),
        ('{"schema": "planner.simulation/v2"}', "not `planner.plan/v3`. Name what `planner plan` keeps"),
        (
            '{"schema": "planner.plan/v0"}',
            "not `planner.plan/v3`. Another version of the planner kept it: run `planner plan` again.",
        ),
        ('{"schema": "planner.plan/v3"}', "scenario"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(StoreError) as error:
        read_plan(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def spoilt(**changes):
    """A plan with another recommendation or other keys."""
    own = {key: changes.pop(key) for key in ("created_at",) if key in changes}
    return replace(PLAN, **own, recommendation=replace(BEST, **changes))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (spoilt(created_at="yesterday"), "created_at: must be a time such as 2026-08-01T12:00:00Z, got `yesterday`"),
        (spoilt(models=(), gpus=()), "recommendation.models: must not be empty in a feasible plan"),
        (spoilt(gpus=()), "which is not among `gpus`"),
        (
            spoilt(cost_usd_per_hour=-5.0),
            "recommendation.cost_usd_per_hour: must be a finite number from 0, got `-5.0`",
        ),
        (spoilt(cost_usd_per_hour=1e999), "recommendation.cost_usd_per_hour: must be above 0"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused_in_one_line(tmp_path, plan, said):
    write_answer(plan, tmp_path / "plan.json")
    with pytest.raises(StoreError) as error:
        read_plan(tmp_path / "plan.json")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["missing/plan.json", "x" * 300, "."])
def test_a_file_that_cannot_be_written_is_said_in_one_line(tmp_path, name):
    with pytest.raises(StoreError, match=r"cannot be written: .* Name another file with -o"):
        write_text("new", tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_in_one_line():
    with pytest.raises(StoreError, match="/dev/full: cannot be written: No space left"):
        write_text("new", Path("/dev/full"))


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "plan.json").symlink_to("real.json")
    write_text("new", tmp_path / "plan.json")
    assert (tmp_path / "plan.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"


def test_a_plan_of_nothing_tells_scripts_that_it_is_not_feasible(tmp_path):
    write_answer(replace(PLAN, recommendation=NOTHING_TRIED, alternatives=()), tmp_path / "plan.json")
    best = json.loads((tmp_path / "plan.json").read_text())["recommendation"]
    assert (best["feasible"], best["gpu_count"], best["cost_usd_per_hour"]) == (False, 0, None)
    assert best["instances"] == best["models"] == best["gpus"] == []
    back = read_plan(tmp_path / "plan.json")
    assert back.recommendation == NOTHING_TRIED
    assert headline(back) == "No feasible plan: 2 candidates rejected."
    assert crossed(back, [*map(parse_condition, ["cost>1", "gpus<1", "p99>1 ms"])]) == []


def test_layers_of_one_short_name_are_told_apart_by_what_they_differ_in():
    strided, plain, other = map(
        read_signature,
        (
            "Conv2d kernel_size=3x3 stride=2x2 padding=1x1 weight=8x8x3x3",
            "Conv2d kernel_size=3x3 stride=1x1 padding=1x1 weight=8x8x3x3",
            "Conv2d kernel_size=1x1 stride=1x1 padding=0x0 weight=8x8x1x1",
        ),
    )
    assert told_apart([strided, plain, other]) == {
        strided: "Conv2d 8x8x3x3 stride=2x2",
        plain: "Conv2d 8x8x3x3 stride=1x1",
        other: "Conv2d 8x8x1x1",
    }


def test_no_two_rows_of_equal_layers_look_the_same():
    analysis = modelling.merge_analyze("resnet152", "resnet50", "ssd_vgg", "vgg16")
    shown = told_apart({group.signature for group in analysis.groups})
    rows = [(shown[group.signature], group.copy) for group in analysis.groups]
    assert len(set(rows)) == len(rows) > len({(group.signature.short, group.copy) for group in analysis.groups})


@pytest.mark.parametrize(("is_drawn", "said"), [
    (True, "(without headroom and SLOs, with predicted speeds at their slow end)"),
    (False, "(without headroom and SLOs)"),
])  # fmt: skip
def test_the_load_that_queues_bear_says_at_which_speeds(is_drawn: bool, said: str) -> None:
    models = [replace(YOLO, uncertain=is_drawn, speed_evidence=Evidence.PREDICTED)]
    (line,) = replayed_line(replace(BEST, models=models, replayed=REPLAYED, demand_factor_max=1.71))
    assert line.endswith(f"Queues stay stable up to 1.71 times this load {said}.")
