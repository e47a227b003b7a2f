"""Charts drawn: what Matplotlib was given is read back and compared with the chart."""

import re
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context, rcParams
from matplotlib.collections import PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from gnn_depth.reports import ReportError
from gnn_depth.reports.figures import restyled, save_figure
from gnn_depth.reports.figures.charts import Axis, Chart, HeatMap, Line, Panel, Points
from gnn_depth.reports.figures.drawing import (
    areas_and_bars,
    draw_chart,
    power_of_ten,
    stretches,
)

NAN = np.nan
DEPTHS = np.array([2.0, 5.0, 10.0, 30.0])
TICKS = tuple((place, f"{place:g}") for place in DEPTHS)


def line(label: str, y: list[float], half: list[float], style: int = 0) -> Line:
    mean, around = np.array(y), np.array(half)
    return Line(label, DEPTHS, mean, ((mean - around, mean + around),), style)


@pytest.fixture
def lines() -> Chart:
    """Two panels; the second line has a gap, and a point beyond it with a spread of its own."""
    full = line("gat", [80, 70, 60, 20], [1, 2, 3, 4])
    gap = line("lip", [81, 75, NAN, 60], [1, 1, NAN, 2], 1)
    panels = (Panel("data=Cora", (full, gap)), Panel("data=CiteSeer", (gap,)))
    y = Axis("accuracy, %", within=(-2, 102))
    return Chart(Axis("depth", TICKS), y, panels, "norm", caption="Mean, n = 3.")


@pytest.fixture
def maps() -> Chart:
    values = np.array([[0.0, 1.0, -np.inf], [NAN, np.inf, 2.0]])
    panel = Panel(
        "depth=2", map=HeatMap(np.array([0.0, 10.0, 20.0]), np.array([1, 2]), values, True)
    )
    return Chart(Axis("step"), Axis("layer", whole=True), (panel,), colour=Axis("log₁₀ mu"))


@pytest.fixture
def points() -> Chart:
    x, y, colour = np.array([[1.0, 2.0, 3.0], [4.0, NAN, 6.0], [50.0, 60.0, NAN]])
    panel = Panel("", points=(Points("gat", x, y, colour),))
    return Chart(Axis("mu(X)"), Axis("mu(G)"), (panel,), "layer", colour=Axis("accuracy, %"))


@pytest.fixture(params=["lines", "maps", "points"])
def any_chart(request: pytest.FixtureRequest) -> Chart:
    return request.getfixturevalue(request.param)


def parts(axes, kind: type) -> list:
    """What was drawn of a kind: bands, points or heat maps."""
    return [part for part in axes.collections if isinstance(part, kind)]


def corners(band: PolyCollection) -> set[tuple[float, float]]:
    return {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}


def test_means_and_the_edges_of_the_bands_are_those_of_the_chart(lines):
    figure = draw_chart(lines)
    for axes, panel in zip(figure.axes, lines.panels):
        drawn = {artist.get_label(): artist for artist in axes.lines}
        for expected in panel.lines:
            assert drawn[expected.label].get_xdata().tolist() == expected.x.tolist()
            np.testing.assert_array_equal(drawn[expected.label].get_ydata(), expected.y)
    full, gap = parts(figure.axes[0], PolyCollection)
    around = zip(DEPTHS, (80, 70, 60, 20), (1, 2, 3, 4))
    assert corners(full) == {(x, y) for x, mean, half in around for y in (mean - half, mean + half)}
    assert corners(gap) == {(2, 80), (2, 82), (5, 74), (5, 76)}
    (bar,) = figure.axes[0].containers
    assert sorted(bar[2][0].get_segments()[0].tolist()) == [[30, 58], [30, 62]]


def test_what_is_not_finite_is_hatched_and_an_exact_zero_is_dotted(maps):
    figure = draw_chart(maps)
    axes = figure.axes[0]
    (mesh,) = parts(axes, QuadMesh)
    values = maps.panels[0].map.values
    expected = np.where(np.isfinite(values), values, NAN)
    np.testing.assert_array_equal(mesh.get_array().filled(NAN), expected)
    assert mesh.get_coordinates()[0, :, 0].tolist() == [-5, 5, 15, 25]
    assert mesh.get_clim() == (0, 2)
    cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    marks = {patch.get_hatch(): patch.get_bbox().bounds for patch in cells}
    assert marks == {"////": (-5, 1.5, 20, 1), "....": (15, 0.5, 10, 1)}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["not finite", "exactly zero"]
    finite = Panel("", map=HeatMap(np.arange(3), np.array([1, 2]), np.ones((2, 3))))
    assert not draw_chart(replace(maps, panels=(finite,))).legends


@pytest.mark.parametrize(
    ("values", "around_zero", "limits"),
    [
        ([-1.0, 2.0], True, (-2, 2)),
        ([-8.0, 0.5], True, (-8, 8)),
        ([1.0, 2.0], True, (-2, 2)),
        ([0.0, 0.0], True, (-1, 1)),
        ([-1.0, 2.0], False, (-1, 2)),
        ([3.0, 3.0], False, (2.5, 3.5)),
    ],
)
def test_white_is_zero_for_measures_around_it_whatever_their_values(
    maps, values, around_zero, limits
):
    cells = HeatMap(np.arange(2), np.array([1]), np.array([values]), around_zero=around_zero)
    panel = Panel("", map=cells)
    chart = replace(maps, panels=(panel,))
    (mesh,) = parts(draw_chart(chart).axes[0], QuadMesh)
    assert mesh.get_clim() == limits
    is_white = mesh.get_cmap()(0.5)[:3] == pytest.approx((0.97, 0.97, 0.97), abs=0.01)
    assert is_white == around_zero


def test_axes_labels_caption_and_size_are_as_asked(lines):
    chart = restyled(lines, log=["x", "y"], xlabel="L", ylabel="accuracy", caption="")
    figure = draw_chart(chart, size=(4, 3))
    axes = figure.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("L", "accuracy")
    assert figure.get_size_inches().tolist() == [4, 3]
    linear = draw_chart(restyled(chart, log=[])).axes[0]
    assert (linear.get_xscale(), linear.get_yscale()) == ("linear", "linear")
    assert vars(restyled(lines)) == vars(lines)
    categories = replace(lines, x=replace(lines.x, categories=True))
    with pytest.raises(ReportError, match="'depth'.*logarithmic"):
        restyled(categories, log=["x"])


def test_points_have_the_colours_of_their_values_and_stay_open_without_one(points):
    filled, open_ = parts(draw_chart(points).axes[0], PathCollection)
    assert filled.get_offsets().filled(NAN)[0].tolist() == [1, 4]
    assert filled.get_array()[0] == 50
    assert filled.get_offsets().mask.any(axis=1).tolist() == [False, True]
    assert open_.get_offsets().tolist() == [[3, 6]]
    assert open_.get_facecolor()[0].tolist() == list(to_rgba("white"))


def test_legend_and_caption_lie_below_the_panels_and_the_title_above(any_chart):
    figure = draw_chart(any_chart, "A title")
    figure.canvas.draw()
    low = min(axes.get_tightbbox().y0 for axes in figure.axes)
    assert low >= 0
    for part in (*figure.legends, figure.texts[-1]):
        box = part.get_window_extent()
        if box.height:
            assert box.y1 <= low + 1
            low = box.y0
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width
    title = figure.texts[0].get_window_extent()
    assert max(axes.get_tightbbox().y1 for axes in figure.axes) <= title.y0 + 1
    assert title.y1 <= figure.bbox.height
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 8


def test_drawing_leaves_matplotlib_as_it_was(any_chart):
    before = dict(rcParams)
    draw_chart(any_chart)
    assert dict(rcParams) == before
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_a_dollar_or_a_tag_in_a_label_is_itself(lines, tmp_path):
    panel = Panel("a<i>", lines.panels[0].lines)
    y = Axis("<b>y</b> $\\alpha$")
    chart = Chart(Axis("depth $x"), y, (panel,), "norm", caption="1 < 2 & 3")
    figure = draw_chart(chart, "$1 & $2")
    figure.canvas.draw()
    assert figure.axes[0].get_ylabel() == y.label
    assert not any(text.get_parse_math() for text in figure.findobj(Text) if "$" in text.get_text())
    save_figure(chart, tmp_path / "page.html", "<script>alert(1)</script>")
    page = (tmp_path / "page.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "1 &lt; 2 &amp; 3" in page


def test_ticks_stand_at_the_values_and_powers_of_ten_are_written_as_such(lines):
    axes = draw_chart(lines).axes[0]
    assert axes.get_xticks().tolist() == DEPTHS.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "5", "10", "30"]
    assert [power_of_ten(value) for value in (1e-3, 1.0, 1e12, 20.0)] == ["10⁻³", "10⁰", "10¹²", ""]


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_stretches_are_the_places_that_are_there_and_as_long_as_can_be(there):
    places = np.array(there, dtype=bool)
    every = np.flatnonzero(places).tolist()
    found = stretches(places)
    assert [place for part in found for place in range(part.start, part.stop)] == every
    assert all(after.start > before.stop for before, after in pairwise(found))
    edge = np.where(places, 1.0, NAN)
    areas, bars = areas_and_bars(edge, edge, apart=False)
    assert {part.stop - part.start for part in areas}.isdisjoint({1})
    inside = [place for part in areas for place in range(part.start, part.stop)]
    assert sorted(inside + bars) == every
    assert areas_and_bars(edge, edge, apart=True) == ([], every)


def test_files_are_what_their_suffix_says_and_need_no_other(lines, maps, tmp_path):
    for suffix, drawing, start in (
        (".png", lines, b"\x89PNG\r\n"),
        (".pdf", lines, b"%PDF-"),
        (".html", maps, b"<!DOCTYPE html>"),
    ):
        with rc_context({"pdf.compression": 0}):
            save_figure(drawing, tmp_path / f"figure{suffix}", "A title")
        assert (tmp_path / f"figure{suffix}").read_bytes().startswith(start)
    pdf = (tmp_path / "figure.pdf").read_bytes()
    assert b"/FontFile2" in pdf, "TrueType"
    assert b"/Type3" not in pdf
    page = (tmp_path / "figure.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 1
    assert not re.search(r'<\w+[^>]*\b(src|href)="(?!#|data:)', page), "loads nothing"
    assert "<script" not in page
    assert "<?xml" not in page


def test_an_existing_file_is_not_overwritten(lines, tmp_path):
    (tmp_path / "figure.png").write_text("mine")
    with pytest.raises(ReportError, match="exists"):
        save_figure(lines, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_text() == "mine"
