"""Pictures of studies: what is drawn of which study, and that the figures drawn are the study's."""

import re
import shutil

import pytest
from support.paths import ROOT

import planner
from calibrate.io import plot as pictures
from calibrate.io.plot import PlotError
from planner.show.plots import studies as plot

PNG = b"\x89PNG\r\n\x1a\n"
matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def deadlines(tmp_path_factory):
    return planner.study(ROOT / "scenarios" / "studies" / "deadline.yaml", tmp_path_factory.mktemp("study"))


def axes():
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def output(answer, name):
    return next(output for output in plot.drawable(answer) if output.name == name)


def test_a_study_is_drawn(deadlines, tmp_path):
    plot.draw(deadlines, tmp_path / "study.png")
    assert (tmp_path / "study.png").read_bytes().startswith(PNG)


def test_words_are_not_drawn(deadlines):
    assert "option" in [output.name for output in deadlines.outputs]
    assert "option" not in [output.name for output in plot.drawable(deadlines)]


def test_a_heat_map_has_every_point_and_a_dash_where_there_is_none(deadlines):
    drawn, cost = axes(), output(deadlines, "cost_usd")
    plot.heat_map(drawn, deadlines, cost, *deadlines.axes)
    said = [text.get_text() for text in drawn.texts]
    assert len(said) == len(deadlines.points)
    assert said.count("-") == sum(not point.feasible for point in deadlines.points) > 0
    first = next(point for point in deadlines.points if point.feasible)
    assert f"${first.values['cost_usd']['mid']:,.2f}" in said


def test_lines_carry_the_figures_and_their_intervals(deadlines):
    drawn, cost = axes(), output(deadlines, "cost_usd")
    plot.lines(drawn, deadlines, cost, deadlines.axes[0])
    on_demand = drawn.containers[0]
    points = [p for p in deadlines.points if p.axes["price"] == "on-demand" and p.feasible]
    assert list(on_demand.lines[0].get_ydata()) == pytest.approx([p.values["cost_usd"]["mid"] for p in points])
    (bars,) = on_demand.lines[2]
    assert [segment[1][1] for segment in bars.get_segments()] == pytest.approx(
        [p.values["cost_usd"]["high"] for p in points]
    )


def test_what_matters_most_spans_the_least_and_the_greatest_figure(deadlines):
    drawn, cost = axes(), output(deadlines, "cost_usd")
    plot.tornado(drawn, deadlines, cost)
    swings = [swing for swing in deadlines.sensitivity if swing.output == "cost_usd"]
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in drawn.patches]
    assert spans == [pytest.approx((swing.low_figure, swing.high_figure)) for swing in swings]


def test_no_axis_begins_below_zero_where_nothing_lies_there(deadlines):
    cost, time = output(deadlines, "cost_usd"), output(deadlines, "time_s")
    along, both = axes(), axes()
    plot.lines(along, deadlines, cost, deadlines.axes[0])
    plot.pareto(both, deadlines, cost, time)
    assert min(along.get_ylim()[0], both.get_xlim()[0], both.get_ylim()[0]) >= 0


def test_no_name_of_a_point_covers_another():
    drawn = axes()
    for i in range(6):
        drawn.annotate(f"point {i}", (0.5 + 0.001 * i, 0.5), (4, 4), textcoords="offset points", fontsize=6)
    plot.uncover(drawn)
    boxes = [text.get_window_extent() for text in drawn.texts if text.get_visible()]
    assert len(boxes) == len(plot.SIDES)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_labels_of_a_page_have_room_on_the_left(deadlines):
    from planner.show.charts.blocks import FigureGrid
    from planner.show.charts.kit import LETTER
    from planner.show.charts.studies import Charts

    figures = [one for block in Charts(deadlines).lines() if isinstance(block, FigureGrid) for one in block.figures]
    ends = [
        (float(x), words)
        for figure in figures
        for x, words in re.findall(r'<text x="([-\d.]+)"[^>]*text-anchor="end"[^>]*>([^<]*)<', str(figure.svg))
    ]
    assert ends
    assert all(x >= LETTER * len(words) for x, words in ends)


@pytest.mark.parametrize(
    ("high_x", "high_y", "kept"),
    [
        (False, False, [(1, 3), (2, 1)]),
        (True, False, [(2, 1), (3, 2)]),
        (False, True, [(1, 3)]),
        (True, True, [(1, 3), (3, 2)]),
    ],
)
def test_unbeaten_points_by_hand(high_x, high_y, kept):
    assert plot.unbeaten([(1, 3), (2, 1), (3, 2), (2, 2)], high_x, high_y) == kept


ONE_AT_A_TIME = """
base: training.yaml
design: one-at-a-time
axes:
  counts: [[1], [2], [4]]
  train.epochs: [1, 2, 3]
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
    plot.draw(answer, tmp_path / "study.png")
    assert (tmp_path / "study.png").read_bytes().startswith(PNG)
    drawn = axes()
    plot.lines(drawn, answer, output(answer, "time_s"), answer.axes[1])
    assert [len(container.lines[0].get_xdata()) for container in drawn.containers] == [3]


def invoke(study, out, picture):
    from typer.testing import CliRunner

    from planner.cli import app

    return CliRunner().invoke(app, ["study", str(study), "-o", str(out), "--workers", "1", "--plot", str(picture)])


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        ("a.svg", "must end in .png"),
        ("absent/a.png", "is no directory"),
        (".png", "must end in"),
        ("d.png", "is a directory"),
    ],
)
def test_where_nothing_can_be_drawn_nothing_is_worked_out(alone, tmp_path, picture, said):
    (tmp_path / "d.png").mkdir()
    done = invoke(alone, tmp_path / "out", tmp_path / picture)
    assert isinstance(done.exception, PlotError)
    assert said in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_nothing_is_worked_out(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    done = invoke(alone, tmp_path / "out", tmp_path / "a.png")
    assert "pip install matplotlib" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_the_answer_is_printed_even_where_its_picture_fails(alone, tmp_path):
    """The link looks like any file name; that its folder is not there shows only when it is written."""
    picture = tmp_path / "a.png"
    picture.symlink_to(tmp_path / "absent" / "a.png")
    done = invoke(alone, tmp_path / "out", picture)
    assert "cannot be written" in str(done.exception)
    assert "What matters most" in done.stdout


def test_a_picture_may_lie_with_the_results(alone, tmp_path):
    done = invoke(alone, tmp_path / "out", tmp_path / "out" / "a.png")
    assert done.exception is None or done.exit_code == 0, done.output
    assert (tmp_path / "out" / "a.png").read_bytes().startswith(PNG)


def test_a_picture_that_cannot_be_written_is_one_line(deadlines, tmp_path):
    with pytest.raises(PlotError, match=r"cannot be written .* Name another file with --plot"):
        plot.draw(deadlines, tmp_path / "absent" / "study.png")
