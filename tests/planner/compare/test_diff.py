"""Differences of answers: what changed is told, noise is called noise, and conditions on changes hold as written."""

import json
import re
from dataclasses import fields, replace
from math import nan

import pytest
from support.answers import BEST, DEARER, GPUS, INFEASIBLE, PLAN, POLICIES, REPLAYED, VGG, YOLO
from typer.testing import CliRunner

import planner
from planner import cli
from planner.compare.answers import answer_of, read_answer
from planner.compare.diff import FigureVerdict, Sign, compare, crossed, difference
from planner.compare.gate import parse_change, parse_condition
from planner.compare.report import SHOWN, figure_text, render
from planner.io.store import StoreError, to_json, write_answer
from planner.model.plan import NOTHING_TRIED, Interval
from planner.model.simulation import Simulation
from planner.model.statement import Code
from planner.questions.studies.results import PointAnswer
from planner.questions.training.answer.option import TrainingOption
from planner.units.writing import BAD, GOOD, WARN, Format, Screen
from simulator.clock.metrics import attainment_interval
from simulator.errors import InputError

SIMULATED = Simulation(
    scenario="video",
    scenario_sha256="a" * 64,
    seed=1,
    feasible=True,
    requests=72_000,
    wall_s=1.0,
    cost_usd_per_hour=None,
    demand_factor_max=1.5,
    replications=5,
    replayed=REPLAYED,
    policies=POLICIES,
    models=(VGG, YOLO),
    gpus=GPUS,
)
BIGGER = replace(
    PLAN,
    scenario_sha256="b" * 64,
    seed=2,
    created_at="2026-09-01T12:00:00Z",
    recommendation=replace(
        DEARER,
        models=(
            replace(VGG, batch_size=8, mode="swapped", p99=Interval(0.0902, 0.0898, 0.0906), p99_s=0.0902),
            replace(YOLO, p99=Interval(0.0395, 0.0388, 0.0402), p99_s=0.0395),
        ),
    ),
    alternatives=(),
)


def kept(folder, **answers):
    """Files of these answers, in order."""
    paths = []
    for name, answer in answers.items():
        path = folder / f"{name}.json"
        path.write_text(answer if isinstance(answer, str) else to_json(answer), encoding="utf-8")
        paths.append(path)
    return paths


def differ(folder, old, new):
    """The difference of two answers, through files."""
    return compare(*map(read_answer, kept(folder, old=old, new=new)))


def figure(diff, name, of=""):
    (found,) = [f for f in diff.figures if (f.name, f.of) == (name, of)]
    return found


@pytest.mark.parametrize(
    ("first", "second", "published"),
    [((56, 70), (48, 80), (0.2, 0.0524, 0.3339)), ((9, 10), (3, 10), (0.6, 0.1705, 0.8090))],
)
def test_intervals_of_differences_are_newcombes(first, second, published):
    """Newcombe, Interval estimation for the difference between independent proportions, 1998, table II, method 10."""
    new, old = (Interval(*attainment_interval([hits / n], [n])) for hits, n in (first, second))
    found = difference(old, new)
    assert (found.mean, found.low, found.high) == pytest.approx(published, abs=1e-4)


def test_equal_answers_do_not_differ(tmp_path):
    diff = differ(tmp_path, PLAN, replace(PLAN, created_at="2026-10-01T00:00:00Z"))
    assert diff.nothing
    assert diff.same_arrivals
    assert {f.verdict for f in diff.figures} == {FigureVerdict.SAME}


def test_what_changed_is_told(tmp_path):
    diff = differ(tmp_path, PLAN, BIGGER)
    changed = {(c.section, c.what, c.attribute): (c.old, c.new) for c in diff.changes if c.sign is Sign.CHANGED}
    assert changed[("inputs", "seed", "")] == (1, 2)
    assert changed[("machines", "NC6s_v3 (V100, azure eastus)", "count")] == (2, 3)
    assert changed[("models", "vgg16", "batch_size")] == (4, 8)
    assert changed[("models", "vgg16", "mode")] == ("resident", "swapped")
    assert ("models", "yolov3", "batch_size") not in changed
    cost = figure(diff, "cost_usd_per_hour")
    assert cost.difference.mean == pytest.approx(3.06)
    assert cost.relative == pytest.approx(0.5)
    assert cost.overlap is None
    assert not diff.same_arrivals
    (before,) = [note.what for note in diff.notes if note.what.code is Code.NEW_FLEET_MET]
    assert before.figures["cost_usd_per_hour"] == pytest.approx(9.18)
    gpus = figure(diff, "gpu_count")
    assert (gpus.difference.mean, gpus.relative) == (1, pytest.approx(0.5))


def test_noise_is_called_noise_and_overlap_is_no_proof(tmp_path):
    diff = differ(tmp_path, PLAN, BIGGER)
    assert figure(diff, "p99_s", "vgg16").verdict is FigureVerdict.DIFFERS
    assert figure(diff, "p99_s", "vgg16").overlap is False
    noise = figure(diff, "p99_s", "yolov3")
    assert noise.verdict is FigureVerdict.NOISE
    assert noise.difference.low < 0 < noise.difference.high
    assert noise.overlap
    near = replace(VGG, p99=Interval(0.0819, 0.0815, 0.0823))
    closer = differ(tmp_path, PLAN, replace(PLAN, recommendation=replace(BEST, models=(near, YOLO))))
    beside = figure(closer, "p99_s", "vgg16")
    assert (beside.verdict, beside.overlap) == (FigureVerdict.DIFFERS, True)


def test_one_replication_has_no_interval_to_judge_by(tmp_path):
    nan = float("nan")
    alone = replace(VGG, p99=Interval(0.09, nan, nan))
    diff = differ(tmp_path, PLAN, replace(PLAN, recommendation=replace(BEST, models=(alone, YOLO))))
    assert figure(diff, "p99_s", "vgg16").verdict is FigureVerdict.UNSURE


def test_what_draws_keep_has_no_interval_to_judge_by(tmp_path):
    drawn, other = (replace(YOLO, uncertain=True, p99_in_draws_s=s) for s in (0.0492, 0.0530))
    old, new = (replace(PLAN, recommendation=replace(BEST, models=(VGG, one))) for one in (drawn, other))
    assert figure(differ(tmp_path, old, new), "p99_s", "yolov3").verdict is FigureVerdict.UNSURE
    assert figure(differ(tmp_path, old, old), "p99_s", "yolov3").verdict is FigureVerdict.SAME


@pytest.mark.parametrize(
    ("unit", "figure", "text"),
    [
        ("s", (1.004, 0.995, 1.0132), "1.00 s [0.99, 1.01]"),  # all three in seconds
        ("s", (0.0812, 0.0808, 0.0816), "81.2 ms [80.8, 81.6]"),
        ("USD", (9.39, 5.72, 21.56), "$9.39 [$5.72, $21.56]"),
        ("USD/h", (6.12, 6.12, 6.12), "$6.12/h"),
        ("fraction", (0.98999, nan, nan), "98.99 %"),
        ("bytes", (5.63e9, nan, nan), "5.63 GB"),
        ("", (2.0, 2.0, 2.0), "2"),
        ("kWh", (2.5, 2.5, 2.5), "2.5 kWh"),
        ("s", (nan, nan, nan), "-"),
    ],
)
def test_the_ends_of_an_interval_are_in_the_unit_of_its_middle(unit, figure, text):
    assert figure_text(unit, *figure) == text


def test_figures_say_their_unit(tmp_path):
    units = {f.name: f.unit for f in differ(tmp_path, PLAN, BIGGER).figures}
    assert units == {
        "cost_usd_per_hour": "USD/h",
        "lower_bound_usd_per_hour": "USD/h",
        "gpu_count": "",
        "p99_s": "s",
        "attainment": "fraction",
    }


def test_what_was_added_changed_and_removed_is_coloured(tmp_path):
    diff = differ(tmp_path, PLAN, BIGGER)
    screen = Screen(400, colour=True)
    lines = render(diff, Format.TABLE, screen).splitlines()
    assert screen.paint(f"- {diff.old.path}: {diff.old.answer}", BAD) in lines
    assert screen.paint(f"+ {diff.new.path}: {diff.new.answer}", GOOD) in lines
    assert screen.paint("  ~ seed: 1 -> 2", WARN) in lines
    assert "\x1b" not in render(diff, Format.TABLE, Screen(400))
    blocks = render(diff, Format.MD, screen).split("```")[1::2]
    assert {line[0] for block in blocks for line in block.removeprefix("diff\n").splitlines()} == {"+", "-", "!"}


def test_long_lists_end_with_what_is_left_out(tmp_path):
    many = tuple(replace(VGG, name=f"other{i}") for i in range(30))
    diff = differ(tmp_path, PLAN, replace(PLAN, recommendation=replace(BEST, models=many)))
    for form in (Format.TABLE, Format.MD):
        text = render(diff, form, Screen(400))
        assert len(re.findall(r"^\s*\+ other\d+:", text, re.MULTILINE)) == SHOWN - 2  # two models went, which are first
        assert f"... and {30 + 2 - SHOWN} more in the JSON." in text


def test_models_and_machines_come_and_go(tmp_path):
    other = replace(BEST.instances[0], instance="g5.xlarge", provider="aws", region="us-east-1", gpu="A10G", count=1)
    new = replace(PLAN, recommendation=replace(BEST, instances=(other,), models=(VGG, replace(YOLO, name="yolov8"))))
    changes = {(c.sign, c.section, c.what) for c in differ(tmp_path, PLAN, new).changes}
    assert {
        (Sign.REMOVED, "machines", "NC6s_v3 (V100, azure eastus)"),
        (Sign.ADDED, "machines", "g5.xlarge (A10G, aws us-east-1)"),
        (Sign.REMOVED, "models", "yolov3"),
        (Sign.ADDED, "models", "yolov8"),
    } <= changes


def test_lines_of_the_scenario_are_shown(tmp_path):
    old = replace(PLAN, scenario_text="# a\nrate: 10 fps\nseed: 1\n")
    new = replace(PLAN, scenario_text="# b\nrate: 20 fps\nseed: 1\n", scenario_overrides=("seed=1",))
    lines = [(str(c.sign), c.what) for c in differ(tmp_path, old, new).section("scenario")]
    assert lines == [("-", "rate: 10 fps"), ("+", "rate: 20 fps"), ("+", "--set seed=1")]


def test_comments_and_layout_are_no_change_of_a_scenario(tmp_path):
    old = replace(PLAN, scenario_text='{name: "box #1", rate: 10 fps}  # ten\n')
    new = replace(PLAN, scenario_text='name: "box #1"   # ours\nrate: 10 fps\n', scenario_sha256="c" * 64)
    diff = differ(tmp_path, old, new)
    assert not diff.section("scenario")
    assert Code.HIDDEN_CHANGES not in {note.what.code for note in diff.notes}
    faster = replace(new, scenario_text='name: "box #1"\nrate: 20 fps # twice\n')
    lines = [c.what for c in differ(tmp_path, new, faster).section("scenario")]
    assert lines == ["rate: 10 fps", "rate: 20 fps"]


def test_replays_meet_the_arrivals_of_the_seed_that_they_name():
    """A plan's own, also when it is replayed; one that is typed, also where the scenario has the same."""
    asked = {"models": [{"name": "resnet50", "slo": {"latency": "100 ms"}}], "predict": "never"}
    asked |= {"streams": [{"model": "resnet50", "poisson": "50 rps"}], "buy": {"gpus": ["V100"]}, "seed": 3}
    plan = planner.plan(asked)
    (bought,) = plan.recommendation.instances
    named = planner.simulate(asked, bought.gpu, bought.gpu_count * bought.count)
    again, typed, other = (planner.simulate(asked, plan=plan, seed=seed) for seed in (None, 3, 4))
    assert again.seed == plan.seed
    assert [one.seed for one in (named, typed, other)] == [3, 3, 4]
    assert named.models[0].offered_rps == typed.models[0].offered_rps
    assert named.requests == typed.requests
    assert len({one.requests for one in (again, typed, other)}) == 3
    answers = [answer_of(one, "a.json") for one in (plan, again, named, typed, other)]
    same = [[compare(old, new).same_arrivals for new in answers] for old in answers]
    assert same == [[i // 2 == j // 2 for j in range(5)] for i in range(5)]
    lost = planner.whatif(plan), planner.whatif(plan, seed=3)
    assert [one.seed for one in lost] == [plan.seed, 3]
    made_with_another = planner.plan(asked, seed=7)
    assert planner.simulate(asked, plan=made_with_another).seed == planner.whatif(made_with_another).seed == plan.seed


def test_a_simulation_beside_a_plan(tmp_path):
    diff = differ(tmp_path, PLAN, SIMULATED)
    assert diff.same_arrivals
    assert {f.verdict for f in diff.figures if f.of} == {FigureVerdict.SAME}
    assert not diff.section("GPUs")
    more = replace(SIMULATED, gpus=(*GPUS, replace(GPUS[0], id="gpu2")))
    (change,) = differ(tmp_path, SIMULATED, more).section("GPUs")
    assert (change.what, change.old, change.new) == ("V100", 2, 3)


def test_a_mean_beside_what_draws_keep_is_said_to_be_of_another_kind(tmp_path):
    first, *others = BEST.models
    drawn = replace(first, uncertain=True, p99_in_draws_s=2 * first.p99_s)
    draws = replace(PLAN, recommendation=replace(BEST, models=(drawn, *others)))
    for old, new, of in ((PLAN, draws, (first.name,)), (draws, PLAN, (first.name,)), (draws, draws, None)):
        diff = differ(tmp_path, old, new)
        said = [note.what.subjects for note in diff.notes if note.what.code is Code.P99_OF_TWO_KINDS]
        assert said == ([of] if of else [])
        assert not diff.section("models"), "the note says it, once"
    assert "p99 of vgg16 is a mean in one answer" in " ".join(
        render(differ(tmp_path, PLAN, draws), Format.TABLE, Screen()).split()
    )


def test_predicted_speeds_of_an_older_plan_are_as_much_in_doubt(tmp_path):
    """It was kept when plans said `predicted` alone."""
    first, *others = BEST.models
    drawn = replace(first, predicted=True, p99_in_draws_s=2 * first.p99_s)
    gpus = (replace(GPUS[0], predicted=True), *GPUS[1:])
    data = json.loads(to_json(replace(PLAN, recommendation=replace(BEST, models=(drawn, *others), gpus=gpus))))
    for one in (*data["recommendation"]["models"], *data["recommendation"]["gpus"]):
        del one["speed_evidence"], one["uncertain"]
    (path,) = kept(tmp_path, old=json.dumps(data))
    answer = read_answer(path)
    assert answer.side.answer.startswith("Predicted, not measured: ")
    assert answer.p99_of_draws == {first.name}
    best = answer.source.recommendation
    assert (best.uncertain, best.gpus[0].uncertain, best.gpus[1].uncertain) == (True, True, False)


def training(**changes):
    """An answer of `planner train`, cut down to what is compared."""
    band = {"low": 16.0, "mid": 24.0, "high": 51.0}
    made = fields_of(TrainingOption) | {
        "machines": 1,
        "instance": "p4de.24xlarge",
        "gpu": "A100-80GB",
        "gpu_count": 8,
        "price_kind": "spot",
        "price_as_of": "2026-01-01",
        "global_batch": 1024,
        "parallel": "data 8",
        "memory": {},
        "memory_range_bytes": band,
        "bottleneck": "arithmetic",
        "evidence": "assumed",
        "rule": "roofline",
        "region": "us-east-1",
        "time_parts_s": {},
        "interruptions": None,
        "network_bytes_per_s": None,
        "step_range_s": None,
        "sources": [],
        "cost_usd": band,
        "time_s": {k: 300 * v for k, v in band.items()},
    }
    option = made | changes
    answer = {"schema": "planner.training/v1", "name": "r", "options": [option], "cheapest": option, "fastest": option}
    return json.dumps(answer | {"deadline_s": 1.0, "budget_usd": 2.0, "prices_as_of": "2026-01-01"})


def fields_of(kind: type) -> dict[str, object]:
    """Something for each field, 1 or true where it is a figure."""
    return {one.name: "x" if one.type is str else True if one.type is bool else 1 for one in fields(kind)}


def test_trainings_are_compared_by_their_middles(tmp_path):
    dearer = training(cost_usd={"low": 17.0, "mid": 26.4, "high": 52.0})
    diff = differ(tmp_path, training(), dearer)
    cost = figure(diff, "cost_usd", "cheapest")
    assert (cost.verdict, cost.overlap) == (FigureVerdict.DIFFERS, True)
    assert crossed(diff, [parse_change("cost>+5%")]) == [
        "--fail-on cost>+5%: cheapest: it went from $24.00 to $26.40 (+10.0 %)."
    ]
    with pytest.raises(InputError, match="a training has no cost by the hour"):
        crossed(diff, [parse_change("cost>+$5/h")])
    with pytest.raises(InputError, match="has no p99 to check"):
        crossed(diff, [parse_change("p99>+5%")])


def study(**points):
    """An answer of `planner study`: feasibility and cost by the value of its axis."""
    found = [
        fields_of(PointAnswer)
        | {
            "axes": {"count": at},
            "threshold": None,
            "feasible": ok,
            "reason": "",
            "evidence": None,
            "speed_evidence": None,
            "values": {"cost_usd_per_hour": usd, "mean_s": usd / 9},
        }
        for at, (ok, usd) in points.items()
    ]
    axis = {"name": "count", "values": list(points), "numbers": None, "unit": "", "log": False, "reference": 0}
    about = dict.fromkeys(("name", "base", "on", "fingerprint", "design"), "x") | {"prices_as_of": "2026-08-01"}
    about |= {"schema": "planner.study/v2", "seed": 1, "changes": [], "versions": {}, "points": found, "ask": "plan"}
    return json.dumps(about | {"axes": [axis], "search": None, "outputs": [], "sensitivity": []})


def test_studies_are_compared_point_by_point(tmp_path):
    diff = differ(tmp_path, study(a=(True, 1.0), b=(True, 2.0)), study(a=(True, 1.2), b=(True, 2.0), c=(True, 3.0)))
    assert figure(diff, "cost_usd_per_hour", "count=a").verdict is FigureVerdict.DIFFERS
    assert figure(diff, "cost_usd_per_hour", "count=b").verdict is FigureVerdict.SAME
    assert figure(diff, "mean_s", "count=a").verdict is FigureVerdict.UNSURE
    assert (Sign.ADDED, "count=c") in {(c.sign, c.what) for c in diff.section("points")}
    (line,) = crossed(diff, [parse_change("cost>+10%")])
    assert line == "--fail-on cost>+10%: count=a: it went from $1.00/h to $1.20/h (+20.0 %)."
    lost = differ(tmp_path, study(a=(True, 1.0), b=(True, 2.0)), study(a=(True, 1.0), b=(False, 2.0)))
    assert crossed(lost, [parse_change("infeasible")]) == ["--fail-on infeasible: infeasible now at count=b."]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("cost>+49.9%", True),
        ("cost>+50%", False),
        ("cost>=+50 %", True),
        ("cost>+$3/h", True),
        ("cost>+3.07", False),
        ("cost>9", True),
        ("cost<-1%", False),
        ("gpus>+0", True),
        ("gpus>+1", False),
        ("gpus>=3", True),
        ("p99>+10%", True),
        ("p99>+12%", False),
        ("p99>+8 ms", True),
        ("p99>100 ms", False),
        ("attainment<-0.1%", False),
        ("attainment<=-0%", True),
        ("infeasible", False),
    ],
)
def test_conditions_on_changes(tmp_path, condition, holds):
    assert bool(crossed(differ(tmp_path, PLAN, BIGGER), [parse_change(condition)])) is holds


def test_a_figure_that_is_no_longer_known_is_a_difference_and_keeps_no_slo(tmp_path):
    """As where a model answers nobody any more."""
    best = PLAN.recommendation
    first, *others = best.models
    nothing = Interval(nan, nan, nan)
    mute = replace(PLAN, recommendation=replace(best, models=(replace(first, p99_s=nan, p99=nothing), *others)))
    diff = differ(tmp_path, PLAN, mute)
    assert figure(diff, "p99_s", first.name).verdict is FigureVerdict.REMOVED
    assert crossed(diff, [parse_change("p99>+5%")]) == [
        f"--fail-on p99>+5%: {first.name}: there was a figure, and there is none any more."
    ]
    assert figure(differ(tmp_path, mute, PLAN), "p99_s", first.name).verdict is FigureVerdict.ADDED
    assert figure(differ(tmp_path, mute, mute), "p99_s", first.name).verdict is FigureVerdict.SAME


def test_studies_without_random_numbers_draw_from_no_seed(tmp_path):
    old, new = (json.dumps({**json.loads(study(a=(True, usd))), "seed": None}) for usd in (1.0, 2.0))
    assert differ(tmp_path, old, new).notes == ()


def test_a_crossing_that_may_be_noise_says_so(tmp_path):
    lines = crossed(differ(tmp_path, PLAN, BIGGER), [parse_change("p99>+1%")])
    assert lines == [
        "--fail-on p99>+1%: vgg16: it went from 81.2 ms to 90.2 ms (+11.1 %).",
        "--fail-on p99>+1%: yolov3: it went from 39.1 ms to 39.5 ms (+1.0 %), within noise.",
    ]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("cost", "is no condition"),
        ("cots>+5%", "unknown metric `cots`. Did you mean `cost`?"),
        ("cost>+%", "must be a share, got `%`. Write e.g. `+5%`."),
        ("cost>++5%", "must have one sign, got a second before `5%`"),
        ("gpus>+1.5", "must be a whole number"),
        ("p99>+5 GB", "unknown unit `GB`"),
    ],
)
def test_what_is_no_condition(condition, said):
    with pytest.raises(InputError) as error:
        parse_change(condition)
    assert said in str(error.value)


def test_a_change_needs_two_answers():
    with pytest.raises(InputError, match="a change needs an older answer"):
        parse_condition("cost>+5%")


def test_losing_feasibility_makes_every_condition_hold(tmp_path):
    conditions = [parse_change("cost>+50%"), parse_change("infeasible")]
    diff = differ(tmp_path, PLAN, INFEASIBLE)
    assert len(crossed(diff, conditions)) == 2
    assert Code.NO_LONGER_FEASIBLE in {note.what.code for note in diff.notes}
    assert crossed(differ(tmp_path, INFEASIBLE, PLAN), conditions) == []
    nothing = replace(PLAN, recommendation=NOTHING_TRIED, alternatives=(), pareto=())
    assert len(crossed(differ(tmp_path, PLAN, nothing), conditions)) == 2
    assert crossed(differ(tmp_path, nothing, PLAN), conditions) == []
    assert crossed(differ(tmp_path, nothing, nothing), [parse_change("infeasible")]) == []
    with pytest.raises(InputError, match="has no cost to check"):
        crossed(differ(tmp_path, nothing, nothing), conditions)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "has no `schema`: must be one of planner.plan/v3"),
        ("[]", "has no `schema`"),
        ("no", "is not JSON"),
        ('{"schema": "planner.merge/v1"}', "has schema `planner.merge/v1`: must be one of"),
        ('{"schema": "planner.training/v1"}', "name: is missing. Add it. Make it again."),
        ('{"schema": "planner.study/v2", "points": 3}', "is missing. Add it. Run `planner study` again."),
        ('{"schema": "planner.simulation/v2"}', "scenario: is missing. Add it. Make it again."),
    ],
)
def test_what_is_no_answer(tmp_path, text, said):
    with pytest.raises(StoreError) as error:
        differ(tmp_path, PLAN, text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_answers_without_figures_in_common(tmp_path):
    with pytest.raises(StoreError, match="these have no figures in common"):
        differ(tmp_path, PLAN, training())


def test_the_command(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write_answer(PLAN, old)
    write_answer(BIGGER, new)
    done = CliRunner().invoke(cli.app, ["diff", str(old), str(new), "--format", "json", "--fail-on", "cost>+5%"])
    assert done.exit_code == 4
    assert "--fail-on cost>+5%: it went from $6.12/h to $9.18/h (+50.0 %)." in done.stderr
    data = json.loads(done.stdout)
    assert data["schema"] == "planner.diff/v2"
    assert {"sign": "~", "section": "inputs", "what": "seed", "attribute": "", "old": 1, "new": 2} in data["changes"]
    plain = CliRunner().invoke(cli.app, ["diff", str(old), str(new), "--format", "md"])
    assert plain.exit_code == 0
    assert "! vgg16: batch 4 -> 8; mode resident -> swapped" in plain.stdout
    assert CliRunner().invoke(cli.app, ["diff", str(old), str(new), "--format", "csv"]).exit_code == 2
