"""Pictures of studies: what is drawn of which study, and that the figures drawn are the study's."""

from pathlib import Path

import pytest

import planner
from calibrate.plot import PlotError
from planner.studies import plot

ROOT = Path(__file__).resolve().parent.parent
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


def test_a_picture_that_cannot_be_written_is_one_line(deadlines, tmp_path):
    with pytest.raises(PlotError, match=r"cannot be written .* Name another file with --plot"):
        plot.draw(deadlines, tmp_path / "absent" / "study.png")
