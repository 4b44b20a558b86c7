"""Plans in brief: what must be there, how wide and how long it may be."""

from dataclasses import replace
from math import nan

import pytest
from support.answers import AZURE, BEST, INFEASIBLE, MERGED, NO_ROOM, PLAN, REPLAYED, VGG, YOLO
from support.paths import SCENARIOS

from planner import train
from planner.model.candidate import Candidate, OnGpu
from planner.model.choices import PriceKind
from planner.model.parts.merging import Merging
from planner.model.plan import (
    Bottleneck,
    Drawn,
    Estimate,
    Interval,
    KindLeftOut,
    Measurement,
    OfOneKind,
    Outlook,
    Plan,
    PlanWarning,
    PrecisionOutlook,
    Rejection,
    Searched,
    nearest,
)
from planner.model.statement import Code, Statement
from planner.search.rejections import NO_FLEET_OF_KIND
from planner.show.document import Tone
from planner.show.documents import training as training_document
from planner.show.documents.brief import brief, lead, limits, next_steps, savings
from planner.show.documents.plan import evidence_of_kind, on_demand_instead, rented_instead, weaker_memory
from planner.show.documents.replay import verdict
from planner.show.documents.uncertain import DOUBTS_SHOWN, one_a_date
from planner.show.kept import document_of, explained
from planner.show.terminal import terminal
from planner.show.text.explained.plan import standing
from planner.show.text.merging import reasons as merging_reasons
from planner.show.text.plan import headline
from planner.show.text.reasons import draws_seen, kinds_left_out, outlooks, precision_line, rejection_text
from planner.show.text.training import doubts
from planner.units.writing import Screen
from planner.words.candidates import candidate_name, subject_name
from simulator.world.profile import Evidence

PREDICTED = replace(VGG, predicted=True)


def with_models(*models):
    """The plan with other models."""
    return replace(PLAN, recommendation=replace(PLAN.recommendation, models=models))


def test_eight_models_fit_a_terminal_and_the_eye():
    eight = [replace(model, name=f"{model.name}_{i}", predicted=i > 2) for i in range(4) for model in (VGG, YOLO)]
    lines = brief(with_models(*eight), Screen(80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 30
    rows = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert [row for row in rows if row in {model.name for model in eight}] == [model.name for model in eight]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(width):
    for plan in (PLAN, INFEASIBLE, with_models(PREDICTED, YOLO)):
        assert max(map(len, brief(plan, Screen(width)).splitlines())) <= width


def test_only_what_is_predicted_is_marked():
    text = brief(with_models(PREDICTED, YOLO), Screen())
    assert f"{VGG.name} ~" in text
    assert f"{YOLO.name} ~" not in text
    assert "~" not in brief(with_models(VGG, YOLO), Screen())


def test_what_runs_stands_beside_the_largest_batch_in_full_answers():
    model = replace(VGG, batch_size=16, mean_batch_size=1.09)
    plan = with_models(model)
    full = terminal(document_of(plan), Screen())
    assert "mean batch" in full
    assert "1.09" in full
    assert "batches of 1.1 on average, of 16 at most" in explained(plan, Screen(1000))
    unknown = with_models(replace(model, mean_batch_size=nan))
    assert "on average, of 16 at most" not in explained(unknown, Screen(1000))


def test_prices_with_spares_are_told_from_those_without():
    said = "Prices of rejected fleets include spares only where these are named."
    assert said in explained(replace(PLAN, policies=replace(PLAN.policies, survive=1)), Screen(1000))
    assert said not in explained(PLAN, Screen(1000))


def test_a_mean_below_an_slo_that_is_met_in_the_draws_is_explained():
    """Met means: in as many draws as are asked. The mean share on time has those in it that miss."""
    kept = replace(
        YOLO, slo_met=True, draws_kept=Interval(0.97, 0.955, 0.98), slo_attainment=Interval(0.98, 0.97, 0.985)
    )
    text = brief(with_models(kept, VGG), Screen())
    assert "On time: the mean of all replications, with the few that miss the SLO of yolov3." in text
    assert standing(kept).endswith("those that miss it count in this mean")
    assert standing(replace(kept, slo_met=False)).endswith("missed")
    assert "On time: the mean" not in brief(with_models(VGG), Screen())


def test_what_is_given_up_has_no_latency_and_is_named_beside_it():
    few, many = (replace(YOLO, dropped_fraction=share) for share in (0.0099, 0.0198))
    assert "Up to 1.98 % of yolov3 are dropped." in brief(with_models(many, VGG), Screen())
    assert "dropped" not in brief(with_models(few, VGG), Screen())


def test_a_missed_slo_is_not_hidden():
    first, second = brief(INFEASIBLE, Screen()).splitlines()[:2]
    assert first.startswith("No feasible plan")
    assert "SLO" in second
    assert subject_name(NO_ROOM.subject) in brief(INFEASIBLE, Screen(200))


def test_notes_on_single_figures_come_after_what_weakens_the_plan():
    notes = [PlanWarning(what=Statement(code=Code.DOUBT, subjects=(f"m{i}",), text=f"note {i}")) for i in range(5)]
    host = PlanWarning(what=Statement(code=Code.HOST_WORK, subjects=("", "")))
    _, _, said = brief(replace(PLAN, warnings=(*DOUBTS_SHOWN * PLAN.warnings, *notes, host)), Screen()).partition(
        "What is"
    )
    assert "on the host are not included" in said
    assumed = PlanWarning(what=Statement(code=Code.PARTLY_ASSUMED, subjects=("vgg16 on V100",)))
    _, _, doubts = brief(replace(PLAN, warnings=(*notes, assumed)), Screen()).partition("What is uncertain\n")
    shown = [line for line in doubts.splitlines() if line.startswith("  - ")][:DOUBTS_SHOWN]
    assert "vgg16 on V100" in shown[0]
    assert [line for line in shown[1:] if "note" in line] == shown[1:]


@pytest.mark.parametrize(
    ("predicted", "evidence", "tone", "words"),
    [
        (False, Evidence.MEASURED, Tone.GOOD, "(SLO 99 %)."),
        (False, Evidence.PUBLISHED, Tone.GOOD, "(SLO 99 %)."),
        (False, Evidence.ASSUMED, Tone.WARN, "Figures of all models are partly assumed."),
        (False, Evidence.PREDICTED, Tone.WARN, "Figures of all models are partly predicted."),
        (True, Evidence.PREDICTED, Tone.WARN, "Figures of all models are predicted."),
    ],
)
def test_only_what_nobody_predicts_or_assumes_is_green(predicted, evidence, tone, words):
    models = tuple(replace(m, predicted=predicted, evidence=evidence) for m in PLAN.recommendation.models)
    shown = verdict(replace(PLAN.recommendation, models=models))
    assert shown.tone is tone
    assert shown.text.endswith(words)


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (Evidence.MEASURED, "Proven: no cheaper fleet can do this."),
        (Evidence.ASSUMED, "Proven by figures that are partly assumed: no cheaper fleet can do this."),
    ],
)
def test_a_proof_by_assumed_figures_says_so(evidence, said):
    best = PLAN.recommendation
    models = tuple(replace(m, evidence=evidence) for m in best.models)
    proven = replace(best, models=models, lower_bound_usd_per_hour=best.cost_usd_per_hour)
    assert savings(replace(PLAN, recommendation=proven)) == said


@pytest.mark.parametrize(
    ("plan", "worth_usd_per_month", "advised"),
    [(PLAN, 0.0, False), (PLAN, 37.0, True), (PLAN, nan, True), (INFEASIBLE, 0.0, True)],
)
def test_a_measurement_is_advised_unless_a_feasible_plan_saves_nothing_by_it(
    plan: Plan, worth_usd_per_month: float, advised: bool
) -> None:
    (asked,) = plan.measure_next
    one = replace(asked, minutes=10, usd=0.09, worth_usd_per_month=worth_usd_per_month)
    changed = replace(plan, measure_next=(one,))
    assert (asked.command in " ".join(brief(changed, Screen(80)).split())) is advised
    in_full = " ".join(explained(changed, Screen()).split())
    assert asked.command in in_full
    assert "$0.000" not in in_full
    assert ("surer, not cheaper" in in_full) is (worth_usd_per_month == 0)


@pytest.fixture(scope="module")
def training():
    return train(SCENARIOS / "training" / "resnet50.yaml")


def test_a_training_in_brief_holds_the_ends_of_what_nothing_beats_and_each_kind_of_gpu(training):
    shown = training_document.in_brief(training)
    assert len(shown) <= training_document.FEW
    assert all(o in shown for o in (training.cheapest, training.fastest))
    good = [o for o in training.options if o.fits and o.within_deadline and o.within_budget]
    for kind in {o.gpu for o in good} - {o.gpu for o in shown if o.pareto}:
        cheapest = min(o.cost_usd.mid for o in good if o.gpu == kind)
        assert min(o.cost_usd.mid for o in shown if o.gpu == kind) == cheapest


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_training_in_brief_is_as_wide_as_the_screen_and_a_page_long(training, width):
    lines = terminal(training_document.brief(training), Screen(width)).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 50


def test_a_training_in_brief_counts_what_it_does_not_show(training):
    whole = len(training.options)
    cut = replace(training, options=training.options[:1])
    text = terminal(training_document.brief(training), Screen(200))
    assert f"and {whole - len(training_document.in_brief(training))} more options" in text
    assert "more option" not in terminal(training_document.brief(cut), Screen(200))


def test_kinds_left_out_for_a_reason_of_one_kind_take_one_line_with_the_nearest():
    def slow(gpu, run_s):
        why = Statement(code=Code.SAMPLE_TOO_SLOW, figures={"run_s": run_s, "slo_s": 0.15})
        return KindLeftOut(gpu=gpu, why=why)

    unsold = KindLeftOut(gpu="K80", why=Statement(code=Code.NOT_SOLD, subjects=("K80",)))
    plan = replace(PLAN, by_gpu_left_out=(slow("one", 2.5), unsold, slow("two", 0.5), slow("three", 0.7)))
    lines = kinds_left_out(plan)
    assert [line.partition(":")[2].split(":")[0].strip() for line in lines] == ["one, two, three", "K80"]
    assert "on two" in lines[0]
    assert "500" in lines[0]


def test_kinds_without_profiles_or_too_slow_by_other_evidence_take_one_line():
    """As the shares of a processor do, of which there are many."""
    none = [
        KindLeftOut(gpu=gpu, why=Statement(code=Code.NO_PROFILE, subjects=("a", "b", gpu)))
        for gpu in ("CPU-1", "CPU-2")
    ]
    slow = [
        KindLeftOut(
            gpu=gpu,
            why=Statement(
                code=Code.SAMPLE_MAY_BE_TOO_SLOW,
                subjects=(evidence,),
                figures={"run_s": run_s, "slo_s": 0.03, "mid_s": 0.025},
            ),
        )
        for gpu, evidence, run_s in (("CPU-3", "predicted", 0.05), ("CPU-4", "published", 0.04))
    ]
    limited = [
        KindLeftOut(gpu=gpu, why=Statement(code=Code.KIND_LIMITED, subjects=(key,)))
        for gpu, key in (("T4", "count"), ("L4", "buy.max_gpus"))
    ]
    assert kinds_left_out(replace(PLAN, by_gpu_left_out=(*none, *slow, *limited))) == [
        "Left out: CPU-1, CPU-2: no profile of a, b.",
        "Left out: CPU-3, CPU-4: on CPU-4 one sample alone takes 25 ms as published, but at the asked `confidence` "
        "up to 40 ms, over the SLO of 30 ms.",
        "Left out: T4: no fleet of it within `count` meets every SLO.",
        "Left out: L4: no fleet of it within `buy.max_gpus` meets every SLO.",
    ]


def test_who_takes_turns_in_memory_is_told_what_compares_it_with_merging_and_one_more_gpu():
    hint = "Or merged, or with one more GPU: `--set merging=auto` compares what each costs."
    swapped = with_models(replace(VGG, mode="swapped"), YOLO)
    assert hint in next_steps(swapped)
    assert hint not in next_steps(replace(swapped, merging=MERGED.merging))
    assert hint not in next_steps(PLAN)


def test_what_is_only_estimated_says_what_would_replay_it():
    one = PLAN.recommendation.candidate
    cost = Estimate(value=1.5, low=1.0, high=2.0)
    why = Statement(
        code=Code.MIGHT_DO_IT,
        subjects=("3 x t4-box (T4)", "vgg"),
        figures={"usd_per_hour": 1.5, "low_usd_per_hour": 1.0, "high_usd_per_hour": 2.0},
    )
    measured = Measurement(model="vgg", gpu="T4", why=why, command="planner calibrate")
    plan = replace(PLAN, outlooks=(Outlook(gpu="T4", candidate=one, cost_usd_per_hour=cost),), measure_next=(measured,))
    tried = "`--set 'buy.gpus=[T4]'` replays it at predicted speeds."
    assert tried in " ".join(next_steps(plan))
    assert outlooks(plan)[0].endswith(tried)
    least = replace(measured, why=Statement(code=Code.LEAST_ROOM, subjects=("fitted",)))
    assert "replays it" not in " ".join(next_steps(replace(plan, measure_next=(least,))))
    faster = PrecisionOutlook(
        precision="int8",
        runtime="tensorrt",
        evidence=Evidence.PREDICTED,
        candidate=one,
        cost_usd_per_hour=cost,
        instead_of=(),
    )
    said = next_steps(replace(PLAN, precisions=(faster,)))[-1]
    assert said.endswith(
        "Estimated, not replayed: to try it, set `precision: int8` and `runtime: tensorrt` of each model. Accuracy: -v."
    )
    said = next_steps(replace(PLAN, precisions=(replace(faster, some_keep=True),)))[-1]
    assert said.endswith("`runtime: tensorrt` of each model that leaves it open. Accuracy: -v.")


def test_the_nearest_miss_is_told_by_the_share_of_replications_and_where_none_meets_an_slo_by_requests_in_time():
    def missed(gpu_count, code, observed, **figures):
        return Rejection(
            subject=replace(BEST.candidate, machines=(replace(AZURE.machines, count=gpu_count),)),
            bottleneck=Bottleneck.COMPUTE,
            observed=observed,
            limit=0.95 if code is Code.DRAWS_BREAK else 0.99,
            unit="fraction",
            why=Statement(code=code, subjects=("a",), figures={"asked": 0.95, "target": 0.99, **figures}),
            remedies=(),
            cost_usd_per_hour=0.5,
        )

    by_mean = missed(1, Code.MISSED_IN_DRAWS, 0.98, mean=0.98, kept=0.56)
    by_count = missed(3, Code.DRAWS_BREAK, 0.94, mean=0.97, broken=39, draws=640)
    none, fewer = (
        missed(n, Code.DRAWS_BREAK, 0.0, mean=mean, broken=3, draws=3) for n, mean in ((AZURE.count, 0.7), (4, 0.4))
    )
    model = replace(NO_ROOM, subject=OnGpu(gpu="T4", models=("a",)), observed=0.0301, limit=0.03)
    found = replace(PLAN, rejections=(by_mean, fewer, none, by_count))
    assert nearest(found) == [by_count, by_mean, none, fewer]
    all_miss = replace(INFEASIBLE, rejections=(model, fewer, by_count, none))
    assert all_miss.recommendation.candidate == none.subject
    assert nearest(all_miss)[0] == none


@pytest.mark.parametrize(
    ("low", "met", "decides"),
    [
        (0.98, True, True),
        (0.995, True, False),
        (0.98, False, False),
        (0.995, False, True),
        (0.98, None, False),
    ],
)
def test_where_the_interval_of_requests_says_otherwise_it_is_said_that_replications_decide(low, met, decides):
    shares = Interval(0.997, low, 1.0)
    model = replace(VGG, slo_met=met, draws_kept=Interval(0.96, 0.95, 0.97), slo_attainment=shares)
    seen = replace(PLAN.recommendation.replayed, draws_asked=0.95, draws_kept=Interval(0.96, 0.947, 0.97))
    answer = replace(PLAN.recommendation, models=(model,), replayed=seen)
    text = " ".join(terminal(document_of(replace(PLAN, recommendation=answer)), Screen(200)).split())
    assert ("met in 96.00 % of replications, the share that counts" in text) is decides
    assert ("`SLO met in`, the share of replications, decides; not the interval" in text) is decides
    drifts = replace(answer, replayed=replace(seen, draws_mixed=24))
    assert "decides" not in terminal(document_of(replace(PLAN, recommendation=drifts)), Screen(200))


def test_a_probability_that_is_accepted_says_how_low_its_low_end_may_be():
    def said(mean, low):
        seen = replace(
            PLAN.recommendation.replayed,
            draws_asked=0.95,
            draws_kept=Interval(mean, low, 0.97),
            drawn=(Drawn.SPEEDS,),
            draws=5120,
        )
        found = replace(PLAN, recommendation=replace(PLAN.recommendation, replayed=seen))
        return " ".join((brief(found, Screen(200)) + terminal(document_of(found), Screen(200))).split())

    assert said(0.953, 0.946).count("95 % was asked for, with a low end of at least 94.5 %.") == 2
    assert "low end" not in said(0.96, 0.952)
    assert "low end" not in said(0.94, 0.93)


def test_what_limits_most_models_is_said_once_and_who_differs_is_named():
    names = ("a", "b", "c", "d")
    by = (Bottleneck.COMPUTE, Bottleneck.LATENCY, Bottleneck.COMPUTE, Bottleneck.LOADING)
    models = [replace(VGG, name=name, bottleneck=b) for name, b in zip(names, by, strict=True)]
    said = limits(with_models(*models).recommendation)
    begin = "More load is limited by compute"
    assert said.startswith(f"{begin}; for b by the latency SLO")
    assert said.endswith("; for d by weight loading (headroom kept).")
    assert limits(with_models(*models[::2]).recommendation) == f"{begin} (headroom kept)."
    at = [replace(one, demand_factor_max=factor) for one, factor in zip(models, (2.0, 3.4, 1.5, 0.9), strict=True)]
    assert limits(with_models(*at).recommendation) == (
        "More load is limited for d by weight loading, with no room left; for a, c by compute, from 1.50 times this "
        "load; for b by the latency SLO, from 3.40 (headroom kept)."
    )
    missed = replace(with_models(*at).recommendation, feasible=False)
    assert "for d by weight loading, already at this load;" in limits(missed)
    tight = limits(with_models(replace(models[1], demand_factor_max=0.7)).recommendation)
    assert tight == "More load is limited by the latency SLO, with no room left in the worst case (headroom kept)."
    predicted = limits(
        with_models(replace(models[0], speed_evidence=Evidence.PREDICTED, uncertain=True)).recommendation
    )
    assert predicted.endswith(" (headroom kept, predicted speeds at their slow end).")


def test_tf32_is_named_where_a_gpu_has_it_and_the_plan_does_not_use_it():
    def said(*subjects):
        one = Statement(code=Code.COMPUTES_IN, subjects=subjects)
        return " ".join(brief(replace(PLAN, assumptions=(one,)), Screen(200)).split())

    default = "PyTorch's own default (`precision: torch`) has it on for convolutions on A10G, L4."
    assert default in said("fp32", "A10G", "L4")
    assert "TF32" not in said("fp32") + said("torch", "A10G") + said("amp")


@pytest.mark.parametrize(
    ("precisions", "runtimes", "said"),
    [
        (("fp32",), ("pytorch", "pytorch"), "; this plan costs $6.12/h, at fp32, in pytorch."),
        (
            ("fp16",),
            ("tensorrt", "pytorch"),
            "; this plan costs $6.12/h, at fp16, some models in pytorch, some in tensorrt.",
        ),
        (("fp16", "fp32"), ("pytorch",), "; this plan costs $6.12/h, in pytorch, some models at fp16, some at fp32."),
        ((), (), "; this plan costs $6.12/h."),
    ],
)
def test_what_another_precision_is_compared_with_says_which_models_run_how(precisions, runtimes, said):
    models = [replace(VGG, name=str(i), runtime=runtime) for i, runtime in enumerate(runtimes)]
    plan = with_models(*models)
    cost = Estimate(value=1.0, low=0.5, high=1.5)
    fleet = PLAN.recommendation.candidate
    other = PrecisionOutlook(
        precision="fp16", runtime="onnxruntime", candidate=fleet, cost_usd_per_hour=cost, instead_of=precisions
    )
    assert precision_line(plan, other).endswith(f"){said}")


def test_a_precision_that_may_cost_more_at_its_bad_end_is_said_to():
    def said(high, plan=PLAN):
        cost = Estimate(value=1.0, low=0.5, high=high)
        fleet = PLAN.recommendation.candidate
        other = PrecisionOutlook(precision="fp16", candidate=fleet, cost_usd_per_hour=cost, instead_of=("fp32",))
        return precision_line(plan, other)

    now = PLAN.recommendation.cost_usd_per_hour
    assert now > 1
    assert "more than now" in said(now * 1.1)
    assert "more than now" not in said(now * 0.9)
    assert "with its spares" not in said(now)
    assert "with its spares" in said(now, replace(PLAN, policies=replace(PLAN.policies, survive=1)))


@pytest.mark.parametrize(
    ("kept", "cost_share", "is_told"), [(0.9, 0.5, True), (0.7, 0.5, False), (0.9, 0.9, False)], ids=str
)
def test_a_fleet_that_is_much_cheaper_but_less_sure_is_told(kept, cost_share, is_told):
    fleet = next(no for no in INFEASIBLE.rejections if isinstance(no.subject, Candidate))
    why = Statement(code=Code.DRAWS_BREAK, subjects=("vgg16",), figures={"broken": 1, "draws": 10, "asked": 0.95})
    dollars_per_hour = cost_share * PLAN.recommendation.cost_usd_per_hour
    no = replace(fleet, why=why, beside=(), observed=kept, limit=0.95, cost_usd_per_hour=dollars_per_hour)
    shown = " ".join(brief(replace(PLAN, rejections=(no,)), Screen(120)).split())
    assert (f"${dollars_per_hour:.2f}/h meets every SLO in {kept:.0%}".replace("%", " %") in shown) is is_told


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (0.948, "94 % of replications (95 % was asked for)"),
        (0.90, "90 % of replications (95 % was asked for)"),
        (0.826, "82 % of replications (95 % was asked for)"),
        (0.951, "95.1 % of replications, too few of them to be sure of 95 %"),
    ],
)
def test_too_few_draws_never_look_like_enough(kept, told):
    assert draws_seen(replace(NO_ROOM, observed=kept, limit=0.95)) == told


def test_a_measurement_decides_where_a_fleet_was_rejected_at_slow_ends_alone():
    one = replace(INFEASIBLE.measure_next[0], minutes=10, usd=0.0, worth_usd_per_month=0.0)
    no = replace(NO_ROOM, remedies=(Statement(code=Code.MEASURING_DECIDES),))
    shown = " ".join(brief(replace(INFEASIBLE, measure_next=(one,), rejections=(no,)), Screen(120)).split())
    assert "helps to decide on a fleet that was rejected" in shown
    assert "not cheaper" not in shown


def test_a_kind_left_out_is_told_with_the_sizes_that_were_tried():
    one = KindLeftOut(gpu="L4", why=NO_FLEET_OF_KIND, usd_per_hour_at_least=1.5, gpus_tried=(2, 3, 5))
    others = replace(one, gpu="T4", usd_per_hour_at_least=None, gpus_tried=(4,)), replace(one, gpu="P4", gpus_tried=())
    (line,) = kinds_left_out(replace(PLAN, by_gpu_left_out=(one, *others)))
    kinds = line.partition(": ")[2].rpartition(": no fleet")[0]
    assert kinds == "L4 (2 to 5 tried, $1.50/h at least), T4 (4 tried), P4 ($1.50/h at least)"


def test_an_infeasible_plan_shows_what_each_kind_of_gpu_came_to():
    one = KindLeftOut(gpu="L4", why=NO_FLEET_OF_KIND, usd_per_hour_at_least=2.5, gpus_at_least=5, gpus_tried=(5, 6))
    two = replace(one, gpu="T4", usd_per_hour_at_least=1.5, gpus_at_least=None, gpus_tried=())
    shown = brief(replace(INFEASIBLE, by_gpu_left_out=(one, two)), Screen(200)).partition("Each kind of GPU alone")[2]
    rows = [line.split() for line in shown.splitlines()[2:4]]
    assert [row[:4] for row in rows] == [["T4", "-", "$1.50", "none"], ["L4", "5", "$2.50", "5,"]]
    assert "Left out" not in shown
    assert "precision" not in shown
    mixed = (replace(one, precision="tf32"), replace(two, precision="fp32"))
    shown = brief(replace(INFEASIBLE, by_gpu_left_out=mixed), Screen(200)).partition("Each kind of GPU alone")[2]
    assert ["fp32" in shown.splitlines()[2], "tf32" in shown.splitlines()[3]] == [True, True]
    assert "Precisions differ between kinds" in shown


def test_of_camera_phases_alone_what_is_known_is_said():
    kept = Interval(mean=1.0, low=0.9501, high=1.0)
    seen = replace(PLAN.recommendation.replayed, draws_kept=kept, draws_asked=0.95, draws_mixed=1)
    phases, speeds = (
        lead(replace(PLAN, recommendation=replace(PLAN.recommendation, replayed=replace(seen, drawn=(one,)))))[0].text
        for one in (Drawn.PHASES, Drawn.SPEEDS)
    )
    assert "with probability 95.01 % at least, over camera phases; 95 % was asked for." in phases
    assert "with probability 100.00 % [95.01, 100.00], over" in speeds


def test_columns_of_models_are_explained_where_there_are_models():
    assert "Batch/most: requests of a batch, on average and at most." in brief(PLAN, Screen(200))
    without = replace(INFEASIBLE.recommendation, models=(), gpus=(), instances=())
    assert "Batch/most" not in brief(replace(INFEASIBLE, recommendation=without), Screen(200))


def test_prices_of_one_date_take_one_line_before_the_others():
    def stale(instance, date):
        return PlanWarning(what=Statement(code=Code.STALE_PRICE, subjects=(instance, date)))

    assumed = PlanWarning(what=Statement(code=Code.PARTLY_ASSUMED, subjects=("vgg16 on V100",)))
    given = (stale("x", "2026-01-01"), assumed, stale("y", "2026-02-02"), stale("z", "2026-01-01"))
    assert [one.what.subjects for one in one_a_date(given)] == [
        ("x", "z", "2026-01-01"),
        ("y", "2026-02-02"),
        ("vgg16 on V100",),
    ]


def test_an_answer_on_weak_figures_is_not_green():
    sure = replace(VGG, predicted=False, evidence=Evidence.MEASURED)
    for model, tone in ((sure, Tone.GOOD), (replace(sure, evidence=Evidence.ASSUMED), Tone.WARN)):
        assert lead(with_models(model))[0].tone is tone


def test_the_dates_of_prices_that_a_training_recommends_are_said(training):
    days = {training.cheapest.price_as_of, training.fastest.price_as_of}
    assert all(days)
    lines = doubts(training)
    assert {day for day in days if any(day in line for line in lines)} == days
    cheapest = replace(training.cheapest, price_as_of="")
    own = replace(training, cheapest=cheapest, fastest=None, stale_prices=())
    assert not any("price" in line for line in doubts(own))


def test_a_price_without_the_spares_that_are_asked_for_says_so():
    policies = replace(PLAN.policies, survive=1)
    best = replace(PLAN.recommendation, feasible=False)
    assert ", without spares)" in headline(replace(PLAN, policies=policies, recommendation=best))
    assert "without spares" not in headline(replace(PLAN, recommendation=best))
    fleet = replace(PLAN.rejections[0], subject=PLAN.recommendation.candidate, cost_usd_per_hour=6.0)
    (machines,) = PLAN.recommendation.candidate.machines
    said = rejection_text(replace(PLAN, policies=policies), fleet)
    assert f"at $6.00/h, ${6 + 6 / machines.count:.2f}/h with 1 spare: " in said


def test_a_share_of_few_replications_says_of_how_many():
    rough = OfOneKind(
        gpu="T4",
        candidate=PLAN.recommendation.candidate,
        gpu_count=1,
        cost_usd_per_hour=0.5,
        usd_per_hour_by_price={},
        utilization=0.5,
        power_w=70.0,
        slo_held=Interval(1.0, 0.78, 1.0),
        evidence=Evidence.PREDICTED,
        predicted=True,
        searched=Searched.SCREENED,
        replications=12,
    )
    screened = " ".join(brief(replace(PLAN, by_gpu=(rough,)), Screen(80)).split())
    assert "100 % of 12" in screened
    assert "only" not in screened
    fewer = replace(rough, slo_held=Interval(11 / 12, 0.64, 0.99), undecided=True)
    assert "only 92 % of 12" in " ".join(brief(replace(PLAN, by_gpu=(fewer,)), Screen(80)).split())
    assert "`+`: by the first replications alone, not confirmed" in screened
    sure = " ".join(brief(replace(PLAN, by_gpu=(replace(rough, searched=Searched.CONFIRMED),)), Screen(80)).split())
    assert "100 % of 12" in sure
    assert "`+`" not in sure
    ranked = replace(rough, searched=Searched.RANKED, slo_held=Interval(1.0, 0.97, 1.0), replications=160)
    drawn = replace(REPLAYED, draws=160, draws_kept=Interval(0.99, 0.95, 1.0))
    for kept, replications, signed in ((1.0, 160, False), (0.98, 160, True), (1.0, 159, True)):
        one = replace(ranked, slo_held=Interval(kept, 0.9, 1.0), replications=replications)
        best = replace(PLAN.recommendation, replayed=drawn, replications=160)
        shown = brief(replace(PLAN, recommendation=best, by_gpu=(one,), alternatives=()), Screen(80))
        assert ("$0.500+" in shown, "`+`" in shown) == (signed, signed)
    measured = replace(rough, slo_held=None, predicted=False, evidence=Evidence.MEASURED)
    undrawn = " ".join(brief(replace(PLAN, by_gpu=(measured,)), Screen(80)).split())
    assert "not confirmed" in undrawn
    assert " of 12" not in undrawn
    mixed = brief(
        replace(PLAN, by_gpu=(replace(rough, precision="amp"), replace(rough, precision="fp32"))), Screen(120)
    )
    assert [line.split()[-1] for line in mixed.splitlines() if line.split()[:1] in (["GPU"], ["T4"])] == [
        "precision",
        "amp",
        "fp32",
    ]
    assert "Precisions differ between kinds" in mixed
    assert "Precisions differ" not in screened
    dated = {"usd_per_hour_by_price": {"spot": 0.2}, "prices_as_of_by_price": {"spot": "2025-01-01"}}
    spot = brief(replace(PLAN, by_gpu=(replace(rough, prices_as_of="2026-07-20", **dated),)), Screen(120))
    assert "Spot prices of T4 are from 2025-01-01." in spot
    sure = replace(rough, searched=Searched.CONFIRMED)
    assert "first replications" not in brief(replace(PLAN, by_gpu=(sure,)), Screen(80))


def test_a_reserved_plan_says_what_the_cheapest_kind_costs_on_demand():
    best = PLAN.recommendation
    row = OfOneKind(
        gpu="T4",
        candidate=best.candidate,
        gpu_count=1,
        cost_usd_per_hour=best.cost_usd_per_hour,
        usd_per_hour_by_price={"on-demand": best.cost_usd_per_hour / 2},
        utilization=0.5,
        power_w=70.0,
        slo_held=None,
        evidence=Evidence.MEASURED,
        predicted=False,
    )
    own = tuple(replace(one, price_kind=PriceKind.RESERVED_1Y) for one in best.instances)
    reserved = replace(PLAN, recommendation=replace(best, instances=own), by_gpu=(row,))
    (line,) = on_demand_instead(reserved)
    assert line == f"On demand: {candidate_name(best.candidate)} costs $3.06/h, which is less than this plan."
    spared = replace(reserved, policies=replace(PLAN.policies, survive=1))
    (line,) = on_demand_instead(spared)
    assert line.startswith(f"On demand: {candidate_name(best.candidate)} and 1 spare costs $3.06/h")
    dearer = replace(row, usd_per_hour_by_price={"on-demand": 2 * best.cost_usd_per_hour})
    assert "less than" not in " ".join(on_demand_instead(replace(reserved, by_gpu=(dearer,))))
    assert not [*on_demand_instead(replace(PLAN, by_gpu=(row,)))]


def test_kinds_of_gpu_name_the_evidence_of_speeds_as_the_headline_does():
    best = PLAN.recommendation
    row = OfOneKind(
        gpu="T4",
        candidate=best.candidate,
        gpu_count=1,
        cost_usd_per_hour=1.0,
        usd_per_hour_by_price={},
        utilization=0.5,
        power_w=70.0,
        slo_held=None,
        evidence=Evidence.MEASURED,
        predicted=False,
    )
    published = replace(row, speed_evidence=Evidence.PUBLISHED, evidence=Evidence.PREDICTED)
    assert evidence_of_kind(published) == "published"  # as the headline has it
    assert [*weaker_memory(replace(PLAN, by_gpu=(row, published)))] == [
        "Evidence is that of speeds; memory or weight loading is predicted on T4."
    ]
    assert evidence_of_kind(replace(published, predicted=True)) == "predicted"
    assert not [*weaker_memory(replace(PLAN, by_gpu=(row, replace(published, predicted=True))))]


def test_beside_machines_of_ones_own_the_cheapest_fleet_without_them_is_said():
    best = PLAN.recommendation
    own = [replace(one, provider="own") for one in best.instances]
    dear, cheap = (replace(best, cost_usd_per_hour=cost) for cost in (9.0, 7.5))
    mine = replace(PLAN, recommendation=replace(best, instances=tuple(own)), alternatives=(dear, cheap), by_gpu=())
    assert rented_instead(PLAN) == []
    assert rented_instead(replace(mine, alternatives=())) == []
    assert rented_instead(mine) == [f"Without your own machines: {candidate_name(best.candidate)}, $7.50/h."]


def test_why_merging_is_no_way_stands_among_the_ways():
    alone = Statement(code=Code.OF_MERGING, text="merging stem: nothing was found")
    for way, is_said in ((replace(MERGED, merging=Merging.NONE), True), (MERGED, False)):
        said = merging_reasons(replace(PLAN, merging=(way,), assumptions=(alone,)))
        assert ("Merging stem: nothing was found." in said) is is_said
