"""Charts: their figures are the answers', and both back ends draw every one of them."""

import re
import shutil
from dataclasses import replace
from itertools import pairwise
from math import inf, isfinite, nan
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answers import PLAN
from support.paths import ROOT

import planner
from calibrate.io import plot as pictures
from calibrate.io.points import COPIED_BYTES, PASSED_BYTES
from calibrate.library.lookup import find_profiles
from planner.catalog.catalog import load_catalog
from planner.model.choices import Picture
from planner.show.charts import plan as plans
from planner.show.charts import profiles, studies, training
from planner.show.charts.kit import png, svg
from planner.show.charts.kit.axes import ChartAxis, axis_around, axis_to, labelled
from planner.show.charts.kit.blocks import (
    PALETTE,
    Bar,
    Bars,
    Box,
    Dot,
    Graph,
    Heat,
    Lane,
    Lanes,
    Line,
    Look,
    Rule,
    Strip,
    area,
    colour,
    moved,
    stacked,
    stairs,
    upright,
)
from planner.show.documents.training import chosen
from simulator.errors import InputError
from simulator.world.curves import StraightLine

pytestmark = pytest.mark.usefixtures("forked")

PNG = b"\x89PNG\r\n\x1a\n"
X = ChartAxis(0, 10, [(0, "0"), (5, "five"), (10, "10")], "time")
Y = ChartAxis(1, 100, [(1, "1"), (100, "100")], "cost", log=True)
MARKS = [
    *(Line([(0, 1), (5, 50), (10, 20)], colour(i), look, name=look) for i, look in enumerate(Look)),
    Line([]),
    Rule(4, name="deadline", dashed=True),
    Rule(30, "fg", "budget", level=True),
    Box(1, 2, 1, 10, "fill", "a box"),
    Box(3, 4, 1, 10, "late", pale=True),
    Dot(5, 50, "best", "A", "the best"),
    Dot(6, 60, "off"),
]
GRAPH = Graph("A graph", X, Y, MARKS, "A note of $1 and $2.")
BARS = Bars("Bars", [Bar("one", [Box(0, 4, 0, 1, "fill"), upright(3)], "4 of 10"), Bar("two", [], "none", True)], X)
LANES = Lanes([Lane("gpu0", "T4", "busy", [Strip("work", [Box(0, 4, 0, 1, "c0")], 1, "Work"),
                                           Strip("memory", [area([(0, 3), (10, 3)])], 4, "Memory")])], X)  # fmt: skip
HEAT = Heat("Heat", "gpu", "load", ["1", "2"], [("T4", [("$1", 0), ("-", -1)]), ("V100", [("$2", 70), ("(3)", 35)])])
CHARTS = {"graph": GRAPH, "bars": BARS, "lanes": LANES, "heat": HEAT}
FINITE = st.floats(-1e9, 1e9)


@pytest.fixture(scope="module")
def deadlines(tmp_path_factory):
    file, out = ROOT / "scenarios" / "studies" / "deadline.yaml", tmp_path_factory.mktemp("study")
    return planner.study(file, out, workers=1, overrides=["buy.gpus=[H100]"])


def output(answer, name):
    return next(output for output in studies.Charts(answer).outputs if output.name == name)


# Axes and marks


@given(st.lists(FINITE, min_size=1, max_size=5), st.integers(1, 8))
def test_an_axis_holds_its_values_and_its_labels(values, count):
    axis = axis_around(values, "{:g}".format, count)
    assert axis.low <= min(values) <= max(values) <= axis.high
    assert all(axis.low - 1e-6 * abs(axis.low) <= at <= axis.high * (1 + 1e-6) + 1e-6 for at, _ in axis.ticks)
    assert min(values) < 0 or axis.low >= 0


@given(st.floats(0.01, 2), st.floats(1e-3, 1))
def test_no_two_labels_of_an_axis_of_shares_are_alike(low, width):
    texts = [text for _, text in axis_around([low, low + width], plans.share_tick).ticks]
    assert len(texts) > 1
    assert len(set(texts)) == len(texts)


def test_stages_of_a_pipeline_have_colours_of_their_own_in_the_drawn_fleet():
    gpu = replace(PLAN.recommendation.gpus[0], models=("crossing.detect", "crossing.classify"))
    (drawn,) = plans.fleet(replace(PLAN.recommendation, gpus=(gpu,)))
    colours = [chip for chip, _ in drawn.groups[0].models]
    assert set(colours) <= {colour(i) for i in range(len(PALETTE))}
    assert len(set(colours)) == 2


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5))
def test_so_does_one_of_equal_ratios(values):
    axis = axis_around(values, "{:g}".format, log=True)
    assert 0 < axis.low < min(values) <= max(values) < axis.high
    assert all(axis.low * 0.999 <= at <= axis.high * 1.001 for at, _ in axis.ticks)


@given(FINITE, FINITE, st.sampled_from([X, Y]))
def test_places_keep_the_order_of_values_and_stay_inside(one, other, axis):
    low, high = sorted((one, other))
    assert 0 <= axis.share(low) <= axis.share(high) <= 1
    assert (axis.share(axis.low), axis.share(axis.high), axis.share(inf)) == (0, 1, 1)


def test_ticks_of_hours_are_round_in_hours():
    axis = axis_around([0, 36_000], "{:g}".format, unit=3600.0)
    assert [at / 3600 for at, _ in axis.ticks] == pytest.approx([0, 2, 4, 6, 8, 10])
    assert axis_to(2.0, "{:g}".format).ticks == labelled([0, 0.5, 1.0, 1.5, 2.0], "{:g}".format)
    assert axis_to(10, str).labels[0] == (0.0, "0.0")


@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), max_size=6).map(sorted))
def test_stairs_go_level_and_upright_only(steps):
    corners = stairs([at for at, _ in steps], [value for _, value in steps], 2e3)
    assert len(corners) == 2 * len(steps)
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(corners))
    assert not steps or corners[-1] == (2e3, steps[-1][1])
    assert area(corners).look is Look.AREA


def test_bars_on_top_of_one_another_add_up():
    boxes = list(stacked([{"a": 1.0, "b": 10.0}, {"a": 2.0, "b": 20.0}]))
    assert [(box.low, box.high) for box in boxes] == [(0, 1), (1, 11), (0, 2), (2, 22)]
    assert {box.name for box in boxes} == {"a", "b"}


@pytest.mark.parametrize("mark", [m for m in MARKS if not isinstance(m, Rule)], ids=lambda m: type(m).__name__)
def test_what_is_moved_up_and_down_is_as_before(mark):
    assert moved(moved(mark, 3.0), -3.0) == mark


# Both back ends


def drawn(chart):
    """Elements of all SVG of a chart."""
    match chart:
        case Graph():
            parts = [svg.graph(chart)]
        case Bars():
            parts = [svg.strip(row.marks, chart.x, row.label) for row in chart.rows]
        case Lanes():
            parts = [svg.strip(s.marks, chart.x, s.about, s.high) for lane in chart.rows for s in lane.strips]
    return [element for part in parts for element in ElementTree.fromstring(part).iter()]


@pytest.mark.parametrize("name", ["graph", "bars", "lanes"])
def test_svg_lies_inside_its_frame(name):
    for element in drawn(CHARTS[name]):
        for key in ("x", "x1", "x2", "cx", "y", "y1", "y2", "cy"):
            assert 0 <= float(element.get(key, "0")) <= (svg.STRIP if name != "graph" else svg.WIDTH)
        assert float(element.get("width", "1")) > 0
        assert element.tag != "svg" or element.get("aria-label")


def test_svg_has_every_mark_its_title_and_its_name():
    elements = drawn(GRAPH)
    tags = [element.tag for element in elements]
    assert tags.count("path") == len(Look)
    assert tags.count("rect") == sum(isinstance(mark, Box) for mark in MARKS)
    assert tags.count("circle") == 2
    assert [element.text for element in elements if element.tag == "title"] == ["a box", "the best"]
    assert {"deadline", "budget", "A", "five", "time", "cost"} <= {e.text for e in elements if e.tag == "text"}


TEXTS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"])


@given(st.text(TEXTS, min_size=1))
def test_names_cannot_break_out_of_a_chart(name):
    found = drawn(Graph(name, X, Y, [Dot(5, 50, "best", name, name)], about=name))
    assert found[0].get("aria-label") == name
    assert [e.text or "" for e in found if e.tag == "title"] == ([name] if name else [])


def test_a_line_beyond_the_end_of_its_axis_is_not_drawn_at_the_end():
    rules = [Rule(11), Rule(5), Rule(200, level=True), Rule(100, level=True)]
    assert Graph("", X, Y, [*rules, Dot(99, 5, "off")]).seen == [rules[1], rules[3], Dot(99, 5, "off")]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_has_every_chart(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    file = tmp_path / f"a.{suffix}"
    png.draw(file, [[GRAPH, BARS], [HEAT], [LANES]], "All")
    assert file.read_bytes().startswith(PNG if suffix == "png" else b"<?xml")


def test_words_on_a_heat_map_stand_out_at_every_shade():
    """WCAG 2.1, success criterion 1.4.3: 4.5 to 1."""
    colormaps = pytest.importorskip("matplotlib").colormaps

    def contrast(shade):
        parts = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in colormaps["Blues"](shade / 100)]
        ground = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
        return 1.05 / (ground + 0.05) if shade > png.DARK else (ground + 0.05) / 0.05

    assert min(map(contrast, range(101))) >= 4.5


def test_every_colour_of_a_page_has_one_in_a_picture():
    used = {mark.colour for mark in MARKS} | {colour(i) for i in range(2 * len(PALETTE))}
    assert used <= png.COLOURS.keys()
    style = (ROOT / "planner" / "show" / "page" / "style.css").read_text(encoding="utf-8")
    named = png.COLOURS.keys() - {colour(i) for i in range(len(PALETTE))}
    assert named <= set(re.findall(r"\.([a-z]+)(?=[ ,])", style))


def test_money_is_no_formula(tmp_path):
    """Two dollar signs in a text would be set in italics, without blanks."""
    pytest.importorskip("matplotlib")
    png.draw(tmp_path / "a.svg", [[Graph("$1 to $2", X, Y, [])]])
    assert "$1 to $2" in (tmp_path / "a.svg").read_text(encoding="utf-8")


# Of plans and trainings


def test_an_unknown_latency_has_no_bar_and_no_line():
    (known,) = plans.room(PLAN.recommendation.models)
    assert all(len(row.marks) == 3 for row in known.rows)
    unknown = plans.room_bar(replaced(PLAN.recommendation.models[0], nan))
    assert [type(mark) for mark in unknown.marks] == [Line]


def replaced(model, p99_s):
    from dataclasses import replace

    return replace(model, p99_s=p99_s, p99=replace(model.p99, low=nan, high=nan))


def test_a_training_is_drawn_with_the_letters_of_its_table(tmp_path):
    answer = planner.train(ROOT / "scenarios" / "training" / "dawnbench.yaml")
    shown = chosen(answer)
    (graph,) = training.graphs(answer, answer.options, shown)
    dots = [mark for mark in graph.marks if isinstance(mark, Dot)]
    assert len(dots) == len(training.drawable(answer.options))
    named = {dot.label: dot for dot in dots if dot.label}
    for mark, option in zip(training.MARKS, shown, strict=False):
        if option.pareto and isfinite(option.time_s.mid):
            assert (named[mark].x, named[mark].y) == (option.time_s.mid, option.cost_usd.mid)
    assert training.graphs(answer, answer.options[:1], shown) == []


# Of profiles

PROFILE = find_profiles((), load_catalog().gpus).for_model("nvidia_resnet50")[0]
RAW = {
    "points": {
        "latency": {"1": {"samples": {"wall_s": [0.01, 0.02]}}, "2": {"samples": {}}},
        "memory.adam": {
            "1": {"status": "ok", "values": {"weights_bytes": 1e6, "optimizer_bytes": 2e6}},
            "2": {"status": "failed"},
        },
    },
    "limits": {"training.adam": {"fails": 2}},
    "knee": 3,
    "layers": [{"name": "conv", "flops": 2e6, "input_bytes": 1e6}, {"name": "conv", "flops": 1e6}],
}


def test_the_curve_of_a_profile_runs_through_its_means_and_every_run_is_a_mark():
    drawn = profiles.time(PROFILE, RAW)
    lines = {mark.look: mark.points for mark in drawn.marks if isinstance(mark, Line)}
    means = [(mark.x, mark.y) for mark in drawn.marks if isinstance(mark, Dot)]
    assert means == [(x, 1e3 * y) for x, y in zip(PROFILE.latency.x, PROFILE.latency.y, strict=True)]
    assert lines[Look.DOTS] == [(1, 10.0), (1, 20.0)]
    assert (lines[Look.PLAIN][0], lines[Look.PLAIN][-1]) == (pytest.approx(means[0]), pytest.approx(means[-1]))
    assert [mark.at for mark in drawn.marks if isinstance(mark, Rule)] == [3]
    rates = [mark.y for mark in profiles.rate(PROFILE, RAW).marks if isinstance(mark, Dot)]
    assert rates == [pytest.approx(1e3 * x / y) for x, y in means]


def test_means_far_beside_the_curve_are_drawn_where_they_lie_and_named_as_what_they_are():
    """A curve far above all times: each mean lies within its axes; one of fewer runs than all says so."""
    beside = replace(PROFILE, latency=StraightLine(PROFILE.latency.x, PROFILE.latency.y, 0.5, 0.1))
    for graph in (profiles.time(beside, {}), profiles.rate(beside, {}), *profiles.compared([beside])[0]):
        assert all(graph.y.low < mark.y < graph.y.high for mark in graph.marks if isinstance(mark, Dot))
    first_s = PROFILE.latency.y[0]
    for all_s, name in ((first_s, "mean, measured"), (3 * first_s, "mean, without hiccups")):
        raw = {"points": {"latency": {"1": {"samples": {"wall_s": [all_s]}}}}}
        assert name in {mark.name for mark in profiles.time(PROFILE, raw).marks if isinstance(mark, Dot)}


def test_a_batch_that_did_not_fit_has_no_bar_and_is_named():
    (adam,) = profiles.trainings(RAW)
    assert [text for _, text in adam.x.ticks] == ["1"]
    assert "2" in adam.title
    boxes = [(box.name, box.high - box.low) for box in adam.marks if box.high > box.low]
    assert boxes == [("weights", 1.0), ("optimizer", 2.0)]


def test_a_layer_that_runs_twice_has_two_bars():
    operations, held = profiles.layers(PROFILE, RAW)
    assert [box.high for box in operations.marks] == [2.0, 1.0]
    assert [text for _, text in held.x.ticks] == ["conv", "conv"]
    with pytest.raises(InputError):
        profiles.layers(PROFILE, {})


@pytest.mark.parametrize("what", Picture)
def test_every_picture_of_a_profile_is_drawn(what, tmp_path):
    pytest.importorskip("matplotlib")
    png.draw(tmp_path / "a.png", profiles.profile_charts(PROFILE, RAW, what))
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_several_gpus_are_drawn_as_plans_know_them(tmp_path):
    pytest.importorskip("matplotlib")
    drawn = planner.profiles_plot("resnet50", tmp_path / "a.png", gpu=["T4", "A100-40GB", "T4"])
    library = find_profiles((), load_catalog().gpus)
    assert drawn == (library.get("resnet50", "T4"), library.get("resnet50", "A100-40GB", "int8"))
    for graph in profiles.compared(drawn)[0]:
        lines = [mark for mark in graph.marks if isinstance(mark, Line)]
        assert [line.name.split(",")[0] for line in lines] == ["T4", "A100-40GB"]
        assert next(mark.y for mark in graph.marks if isinstance(mark, Dot)) == lines[0].points[0][1]
    with pytest.raises(InputError, match=r"--gpu: memory is drawn of one kind of GPU, got 2. Name one, or draw"):
        planner.profiles_plot("resnet50", tmp_path / "b.png", "memory", ["T4", "A100-40GB"])


# Of studies


def test_words_are_not_drawn(deadlines):
    assert "option" in [output.name for output in deadlines.outputs]
    assert "option" not in [output.name for output in studies.Charts(deadlines).outputs]


def test_a_heat_map_has_every_point_and_a_dash_where_there_is_none(deadlines):
    (heat,) = studies.Charts(deadlines).heat(output(deadlines, "cost_usd"))
    said = [field for _, fields in heat.rows for field in fields]
    assert len(said) == len(deadlines.points)
    assert said.count(("-", -1)) == sum(not point.feasible for point in deadlines.points) > 0
    first = next(point for point in deadlines.points if point.feasible)
    assert f"${first.values['cost_usd']['mid']:,.2f}" in [text for text, _ in said]
    shades = [shade for _, shade in said if shade >= 0]
    assert (min(shades), max(shades)) == (0, studies.DARKEST)


def test_lines_carry_the_figures_and_their_intervals(deadlines):
    (graph,) = studies.Charts(deadlines).line_chart(output(deadlines, "cost_usd"))
    points = [p for p in deadlines.points if p.axes["price"] == "on-demand" and p.feasible]
    line = next(mark for mark in graph.marks if isinstance(mark, Line) and mark.name == "on-demand")
    assert [y for _, y in line.points] == [p.values["cost_usd"]["mid"] for p in points]
    ribbon = next(mark for mark in graph.marks if isinstance(mark, Line) and mark.look is Look.RIBBON)
    highs = [y for _, y in reversed(ribbon.points[len(points) :])]
    assert highs == [p.values["cost_usd"]["high"] for p in points]


def test_what_matters_most_spans_the_least_and_the_greatest_figure(deadlines):
    (bars,) = studies.Charts(deadlines).swings(output(deadlines, "cost_usd"))
    swings = [swing for swing in deadlines.sensitivity if swing.output == "cost_usd"]
    spans = [(box.left, box.right) for row in bars.rows for box in row.marks if isinstance(box, Box)]
    assert spans == [(swing.low_figure, swing.high_figure) for swing in swings]


def test_no_axis_begins_below_zero_where_nothing_lies_there(deadlines):
    charts = studies.Charts(deadlines)
    graphs = [graph for one in charts.outputs for graph in charts.line_chart(one)] + charts.unbeaten()
    assert len(graphs) == 4
    assert min(axis.low for graph in graphs for axis in (graph.x, graph.y)) >= 0


def test_a_study_is_drawn(deadlines, tmp_path):
    pytest.importorskip("matplotlib")
    png.draw(tmp_path / "study.png", studies.picture(deadlines), deadlines.name)
    assert (tmp_path / "study.png").read_bytes().startswith(PNG)


def test_labels_of_a_page_have_room_on_the_left(deadlines):
    charts = studies.Charts(deadlines)
    pages = [svg.graph(graph) for one in charts.outputs for graph in charts.line_chart(one)]
    ends = [found for page in pages for found in re.findall(r'<text x="([-\d.]+)"[^>]*"end"[^>]*>([^<]*)<', page)]
    assert ends
    assert all(float(x) >= svg.LETTER * len(words) for x, words in ends)


def test_unbeaten_points_by_hand():
    assert studies.unbeaten([(1, 3), (2, 1), (3, 2), (2, 2)]) == [True, True, False, False]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_some_point_is_always_unbeaten_and_beats_no_other_of_them(costs):
    kept = {cost for cost, best in zip(costs, studies.unbeaten(costs), strict=True) if best}
    assert min(costs) in kept
    assert all(a == b or a[0] < b[0] or a[1] < b[1] for a in kept for b in kept)


ONE_AT_A_TIME = """
base: training.yaml
design: one-at-a-time
axes:
  counts: [[1], [2], [4]]
  train.epochs: [1, 2, 3]
set: {buy.gpus: [H100]}
outputs: [cost_usd, time_s]
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A study without corners, three values of two axes."""
    folder = tmp_path_factory.mktemp("alone")
    shutil.copy(ROOT / "scenarios" / "training" / "resnet50.yaml", folder / "training.yaml")
    (folder / "study.yaml").write_text(ONE_AT_A_TIME, encoding="utf-8")
    return folder / "study.yaml"


def test_a_study_without_corners_is_drawn(alone, tmp_path):
    answer = planner.study(alone, tmp_path / "out")
    assert len(answer.points) == 5
    png.draw(tmp_path / "study.png", studies.picture(answer))
    assert (tmp_path / "study.png").read_bytes().startswith(PNG)
    (graph,) = studies.Charts(answer).line_chart(output(answer, "time_s"))
    assert max(len(mark.points) for mark in graph.marks if isinstance(mark, Line) and mark.name) == 3


def invoke(study, out, picture):
    from typer.testing import CliRunner

    from planner.cli import app

    return CliRunner().invoke(app, ["study", str(study), "-o", str(out), "--workers", "1", "--plot", str(picture)])


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        ("a.svg", "must end in .png"),
        ("absent/a.png", "is not there"),
        (".png", "must end in"),
        ("d.png", "is a directory"),
    ],
)
def test_where_nothing_can_be_drawn_nothing_is_worked_out(alone, tmp_path, picture, said):
    (tmp_path / "d.png").mkdir()
    done = invoke(alone, tmp_path / "out", tmp_path / picture)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_is_worked_out(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    done = invoke(alone, tmp_path / "out", tmp_path / "a.png")
    assert "pip install matplotlib" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_the_answer_is_printed_even_where_its_picture_fails(alone, tmp_path):
    """That a device is full shows only when it is written to."""
    picture = tmp_path / "a.png"
    picture.symlink_to("/dev/full")
    done = invoke(alone, tmp_path / "out", picture)
    assert "cannot be written" in str(done.exception)
    assert "What matters most" in done.stdout


def test_a_picture_may_lie_with_the_results(alone, tmp_path):
    done = invoke(alone, tmp_path / "out", tmp_path / "out" / "a.png")
    assert done.exception is None or done.exit_code == 0, done.output
    assert (tmp_path / "out" / "a.png").read_bytes().startswith(PNG)


def test_a_picture_that_cannot_be_written_is_one_line(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match=r"cannot be written: .* Name another file with --plot"):
        png.draw(tmp_path / "absent" / "study.png", [[GRAPH]])


def test_what_was_probed_of_a_device_is_drawn_as_far_as_its_file_goes():
    passed = {f"{size}_s": [size * (1e-9 if size > 1 << 15 else 1e-10)] for size in PASSED_BYTES[:4]}
    ways = {"to_device_pinned": 25e9, "to_device_pageable": 6e9}
    copied = {f"{way}_{size}_s": [size / rate] for way, rate in ways.items() for size in COPIED_BYTES[:3]}
    probes = {
        "knees": {"samples": passed, "details": {"knees_bytes": [1 << 15]}},
        "copy": {"samples": copied},
        "loader": {"values": {"workers_0_samples_per_s": 90.0, "workers_2_samples_per_s": 160.0}},
    }
    ((knees, copies, loading),) = profiles.device_charts({"probes": probes})
    line, _, end = knees.marks
    assert [y for _, y in line.points] == pytest.approx([0.1, 0.1, 1.0, 1.0])
    assert (end.at, end.name) == (1 << 15, "a cache ends at 32 kB")
    rates = {mark.name: {round(y, 6) for _, y in mark.points} for mark in copies.marks}
    assert list(rates.values()) == [{25.0}, {6.0}]
    assert loading.marks[0].points == [(0, 90.0), (2, 160.0)]
    assert len(profiles.device_charts({"probes": {"copy": probes["copy"]}})[0]) == 1
    with pytest.raises(InputError, match="--what knees,copy,loader"):
        profiles.device_charts({"gpu": {"name": "mine"}, "probes": {"idle": {}}})


def test_a_drawing_without_labels_has_no_axis() -> None:
    """Boxes in a plane stand on nothing; a figure with labels stands on its axis."""
    bare = ChartAxis(0.0, 1.0)
    mark = [Box(0.2, 0.4, 0.2, 0.4, "c0")]
    drawn = svg.graph(Graph("a drawing", bare, bare, mark, "", "boxes"))
    labelled_too = svg.graph(Graph("a figure", axis_to(1.0, str), bare, mark, "", "boxes"))
    assert 'class="axis"' not in drawn
    assert 'class="axis"' in labelled_too
