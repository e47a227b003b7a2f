"""Charts drawn: what Matplotlib and Plotly were given is read back and compared with the chart."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib import rc_context, rcParams
from matplotlib.collections import PathCollection, PolyCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgba
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from gnn_depth.reports import ReportError
from gnn_depth.reports.figures import charts, restyled, save
from gnn_depth.reports.figures.charts import Axis, Chart, HeatMap, Line, Panel, Points
from gnn_depth.reports.figures.page import to_plotly, write_page
from gnn_depth.reports.figures.paper import DPI, draw, marked, power_of_ten

NAN = np.nan
DEPTHS = np.array([2.0, 5.0, 10.0, 30.0])


def line(label: str, y: list[float], half: list[float], style: int = 0) -> Line:
    mean, around = np.array(y), np.array(half)
    notes = tuple(f"{label} at {place:g}" for place in DEPTHS)
    return Line(label, DEPTHS, mean, ((mean - around, mean + around),), style, notes=notes)


@pytest.fixture
def lines() -> Chart:
    """Two panels; the second line has a gap, and a point beyond it with a spread of its own."""
    full = line("gat", [80, 70, 60, 20], [1, 2, 3, 4])
    gap = line("lip", [81, 75, NAN, 60], [1, 1, NAN, 2], 1)
    ticks = tuple((place, f"{place:g}") for place in DEPTHS)
    panels = (Panel("data=Cora", (full, gap)), Panel("data=CiteSeer", (gap,)))
    return Chart(
        Axis("depth", ticks),
        Axis("accuracy, %", within=(-2, 102)),
        panels,
        "norm",
        caption="Mean, n = 3.",
    )


@pytest.fixture
def maps() -> Chart:
    values = np.array([[0.0, 1.0, -np.inf], [NAN, np.inf, 2.0]])
    panel = Panel(
        "depth=2",
        map=HeatMap(np.array([0.0, 10.0, 20.0]), np.array([1, 2]), values, True, "runs/one"),
    )
    return Chart(
        Axis("step"),
        Axis("layer", whole=True),
        (panel,),
        colour=Axis("log₁₀ mu"),
        caption="One run.",
    )


@pytest.fixture
def points() -> Chart:
    some = Points(
        "gat",
        np.array([1.0, 2.0, 3.0]),
        np.array([4.0, NAN, 6.0]),
        np.array([50.0, 60.0, NAN]),
        0,
        ("a",) * 3,
    )
    return Chart(
        Axis("mu(X)"),
        Axis("mu(G)"),
        (Panel("", points=(some,)),),
        "layer",
        colour=Axis("accuracy, %"),
    )


@pytest.fixture(params=["lines", "maps", "points"])
def any_chart(request: pytest.FixtureRequest) -> Chart:
    return request.getfixturevalue(request.param)


def test_paper_draws_the_means_and_the_edges_of_the_bands(lines):
    figure = draw(lines)
    for axes, panel in zip(figure.axes, lines.panels):
        drawn = {artist.get_label(): artist for artist in axes.lines}
        for expected in panel.lines:
            assert drawn[expected.label].get_xdata().tolist() == expected.x.tolist()
            np.testing.assert_array_equal(drawn[expected.label].get_ydata(), expected.y)
    full, gap = (part for part in figure.axes[0].collections if isinstance(part, PolyCollection))
    assert corners(full) == {
        (x, y)
        for x, half, y in zip(DEPTHS, (1, 2, 3, 4), (80, 70, 60, 20))
        for y in (y - half, y + half)
    }
    assert corners(gap) == {(2, 80), (2, 82), (5, 74), (5, 76)}
    (bar,) = figure.axes[0].containers
    assert sorted(bar[2][0].get_segments()[0].tolist()) == [[30, 58], [30, 62]]


def corners(band: PolyCollection) -> set[tuple[float, float]]:
    return {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}


def test_a_page_has_the_means_and_the_edges_of_the_bands(lines):
    traces = to_plotly(lines).data
    means = [trace for trace in traces if trace.hovertext is not None]
    assert [trace.name for trace in means] == ["gat", "lip", "lip"]
    for trace, expected in zip(means, [*lines.panels[0].lines, *lines.panels[1].lines]):
        assert list(trace.x) == expected.x.tolist()
        np.testing.assert_array_equal(np.array(trace.y, dtype=float), expected.y)
        assert all(note in text for note, text in zip(expected.notes, trace.hovertext, strict=True))
    outline = next(
        trace for trace in traces if trace.fill == "toself" and trace.legendgroup == "lip"
    )
    assert list(zip(outline.x, outline.y)) == [(2, 80), (5, 74), (5, 76), (2, 82), (None, None)]
    bar = next(trace for trace in traces if trace.error_y.array is not None)
    assert (bar.x[0], bar.y[0], bar.error_y.array[0]) == (30, 60, 2)
    assert [trace.showlegend for trace in means] == [True, True, False], (
        "one entry in the legend for all panels"
    )


def test_hovering_over_a_point_shows_its_place_value_and_band_and_the_notes(lines):
    named = line("a", [1, 2, 3, 4], [0.5] * 4)
    named = replace(
        named, notes=("1st", "2nd\n<i>", "3rd", "4th"), note="runs/a\nruns/b", part="end"
    )
    *_, trace = to_plotly(Chart(lines.x, lines.y, (Panel("", (named,)),))).data
    assert trace.hovertext[1] == "a (end)<br>depth 5: 2<br>1.5 to 2.5<br>2nd<br>&lt;i&gt;"
    assert trace.hovertemplate == "%{hovertext}<br>runs/a<br>runs/b<extra></extra>"


def test_categories_are_not_joined_by_lines(lines):
    ticks = tuple((place, f"init {place:g}") for place in DEPTHS)
    apart = Chart(Axis("init", ticks, categories=True), lines.y, lines.panels[:1])
    axes = draw(apart).axes[0]
    assert not [part for part in axes.collections if isinstance(part, PolyCollection)]
    assert {
        artist.get_linestyle() for artist in axes.lines if artist.get_label() in ("gat", "lip")
    } == {"None"}
    assert [len(bars[2][0].get_segments()) for bars in axes.containers] == [4, 3]
    assert {trace.mode for trace in to_plotly(apart).data} == {"markers"}


def test_what_is_drawn_has_the_colours_markers_and_dashes_of_its_style(lines):
    drawn = {artist.get_label(): artist for artist in draw(lines).axes[0].lines}
    traces = {trace.name: trace for trace in to_plotly(lines).data if trace.name}
    for number, label in enumerate(("gat", "lip")):
        pen = charts.stroke(number)
        assert to_hex(drawn[label].get_color()).upper() == pen.colour
        assert drawn[label].get_marker() == pen.marker
        assert traces[label].line.color == pen.colour
        assert traces[label].marker.symbol == pen.symbol
    assert drawn["gat"].get_linestyle() == "-"
    assert drawn["lip"].get_linestyle() == "--"
    (band, *_) = to_plotly(lines).data
    assert band.fillcolor.replace(" ", "") == "rgba(0,114,178,0.16)"
    assert (traces["gat"].line.dash, traces["lip"].line.dash) == ("solid", "10px,3.2px")


def test_an_accuracy_axis_does_not_follow_a_band_beyond_all_accuracies(lines):
    wide = line("gat", [80, 70, 60, 20], [200, 2, 3, 4])
    chart = Chart(lines.x, lines.y, (Panel("", (wide,)),))
    assert draw(chart).axes[0].get_ylim() == (-2, 102)
    low, high = draw(lines).axes[0].get_ylim()
    assert -2 < low < 20 < 82 < high < 102
    assert to_plotly(chart).layout.yaxis.maxallowed == 102


def test_paper_hatches_what_is_not_finite_and_dots_an_exact_zero(maps):
    figure = draw(maps)
    axes = figure.axes[0]
    (mesh,) = (part for part in axes.collections if isinstance(part, QuadMesh))
    np.testing.assert_array_equal(
        mesh.get_array().filled(NAN),
        np.where(np.isfinite(maps.panels[0].map.values), maps.panels[0].map.values, NAN),
    )
    assert mesh.get_coordinates()[0, :, 0].tolist() == [-5, 5, 15, 25]
    assert mesh.get_clim() == (0, 2)
    marks = {
        patch.get_hatch(): patch.get_bbox().bounds
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    }
    assert marks == {"////": (-5, 1.5, 20, 1), "....": (15, 0.5, 10, 1)}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "not finite",
        "exactly zero",
    ]
    finite = Panel("", map=HeatMap(np.arange(3), np.array([1, 2]), np.ones((2, 3))))
    assert not draw(replace(maps, panels=(finite,))).legends


def test_a_page_says_of_every_cell_what_it_is(maps):
    lost, lost_key, zero, zero_key, values = to_plotly(maps).data
    np.testing.assert_array_equal(np.array(values.z, dtype=float), [[0, 1, NAN], [NAN, NAN, 2]])
    np.testing.assert_array_equal(
        np.isfinite(np.array(lost.z, dtype=float)), [[False] * 3, [True, True, False]]
    )
    np.testing.assert_array_equal(
        np.isfinite(np.array(zero.z, dtype=float)), [[False, False, True], [False] * 3]
    )
    assert "not finite" in lost.hovertemplate
    assert "exactly zero" in zero.hovertemplate
    assert values.text[1][2] == "layer 2, step 20"
    assert "runs/one" in values.hovertemplate
    assert [key.name for key in (lost_key, zero_key)] == ["not finite", "exactly zero"]


@pytest.mark.parametrize(
    ("values", "limits"), [([-1.0, 2.0], (-2, 2)), ([-8.0, 0.5], (-8, 0.5)), ([1.0, 2.0], (1, 2))]
)
def test_white_is_zero_where_values_lie_on_both_sides_of_it(maps, values, limits):
    panel = Panel("", map=HeatMap(np.arange(2), np.array([1]), np.array([values])))
    chart = replace(maps, panels=(panel,))
    (mesh,) = (part for part in draw(chart).axes[0].collections if isinstance(part, QuadMesh))
    assert mesh.get_clim() == limits
    assert chart.colours.diverging == (
        mesh.get_cmap()(0.5)[:3] == pytest.approx((0.97, 0.97, 0.97), abs=0.01)
    )
    colours = to_plotly(chart).layout.coloraxis
    assert (colours.cmin, colours.cmax) == limits
    assert len(colours.colorscale) == (11 if chart.colours.diverging else 10)


def test_axes_labels_caption_and_size_are_as_asked(lines, tmp_path):
    chart = restyled(lines, log=["x", "y"], xlabel="L", ylabel="accuracy", caption="")
    axes = draw(chart, size=(4, 3)).axes
    assert (axes[0].get_xscale(), axes[0].get_yscale()) == ("log", "log")
    assert (axes[0].get_xlabel(), axes[0].get_ylabel()) == ("L", "accuracy")
    assert to_plotly(chart).layout.yaxis.type == "log"
    assert draw(chart, size=(4, 3)).get_size_inches().tolist() == [4, 3]
    write_page(chart, tmp_path / "page.html", size=(4, 3))
    assert '"width":384' in (tmp_path / "page.html").read_text().replace(" ", "")
    linear = draw(restyled(chart, log=[])).axes[0]
    assert (linear.get_xscale(), linear.get_yscale()) == ("linear", "linear")
    assert vars(restyled(lines)) == vars(lines)
    categories = replace(lines, x=replace(lines.x, categories=True))
    with pytest.raises(ReportError, match="'depth'.*logarithmic"):
        restyled(categories, log=["x"])


def test_points_have_the_colours_of_their_values_and_stay_open_without_one(points):
    axes = draw(points).axes[0]
    filled, open_ = (part for part in axes.collections if isinstance(part, PathCollection))
    assert filled.get_offsets().filled(NAN)[0].tolist() == [1, 4]
    assert filled.get_array()[0] == 50
    assert filled.get_offsets().mask.any(axis=1).tolist() == [False, True]
    assert open_.get_offsets().tolist() == [[3, 6]]
    assert open_.get_facecolor()[0].tolist() == list(to_rgba("white"))
    coloured, blank = to_plotly(points).data
    assert list(coloured.marker.color) == [50, 60]
    assert (list(blank.x), blank.marker.color) == ([3], "white")
    assert (coloured.showlegend, blank.showlegend) == (True, False)


def test_points_without_a_scale_have_the_colours_of_their_styles(points):
    plain = Chart(points.x, points.y, points.panels, "layer")
    figure = draw(plain)
    (drawn,) = (part for part in figure.axes[0].collections if isinstance(part, PathCollection))
    assert to_hex(drawn.get_facecolor()[0]).upper() == charts.COLOURS[0]
    assert drawn.get_offsets().filled(NAN)[[0, 2]].tolist() == [[1, 4], [3, 6]]
    assert len(figure.axes) == 1, "no colour bar"
    (trace,) = to_plotly(plain).data
    assert (list(trace.x), trace.marker.color) == ([1, 2, 3], charts.COLOURS[0])


def test_legend_and_caption_lie_below_the_panels_and_the_title_above(any_chart):
    figure = draw(any_chart, "A title")
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
    draw(any_chart)
    assert dict(rcParams) == before
    assert (
        "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    )


def test_a_dollar_or_a_tag_in_a_label_is_itself(lines, tmp_path):
    panel = Panel("a<i>", lines.panels[0].lines)
    chart = Chart(
        Axis("depth $x"), Axis("<b>y</b> $\\alpha$"), (panel,), "norm", caption="1 < 2 & 3"
    )
    figure = draw(chart, "$1 & $2")
    figure.canvas.draw()
    assert figure.axes[0].get_ylabel() == "<b>y</b> $\\alpha$"
    assert not any(text.get_parse_math() for text in figure.findobj(Text) if "$" in text.get_text())
    write_page(chart, tmp_path / "page.html", "<script>alert(1)</script>")
    text = (tmp_path / "page.html").read_text()
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "1 &lt; 2 &amp; 3" in text


def test_the_lowest_panel_of_every_column_is_labelled_also_above_an_empty_place(lines):
    chart = Chart(lines.x, lines.y, lines.panels[:1] * 5)
    axes = draw(chart).axes
    assert [bool(one.get_xlabel()) for one in axes] == [False, False, True, True, True]
    assert [bool(one.get_ylabel()) for one in axes] == [True, False, False, True, False]
    assert axes[2].xaxis.get_tick_params()["labelbottom"]


def test_eight_lines_differ_in_everything_and_more_still_differ():
    pens = [charts.stroke(number) for number in range(64)]
    for part in ("colour", "marker", "symbol", "dashes"):
        assert len({getattr(pen, part) for pen in pens[:8]}) == 8
    assert len(set(pens)) == 64


def test_of_many_points_some_are_marked_and_a_lonely_one_always():
    y = np.arange(1000.0)
    y[400:600] = NAN
    y[501] = 1.0
    places = marked(Line("", np.arange(1000), y))
    assert 501 in places
    assert len(places) <= 9
    assert marked(Line("", DEPTHS, np.array([1.0, NAN, 2.0, 3.0]))) == [0, 2, 3]


def test_ticks_stand_at_the_values_and_powers_of_ten_are_written_as_such(lines):
    axes = draw(lines).axes[0]
    assert axes.get_xticks().tolist() == DEPTHS.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "5", "10", "30"]
    assert to_plotly(lines).layout.xaxis.tickvals == tuple(DEPTHS)
    assert [power_of_ten(value) for value in (1e-3, 1.0, 1e12, 20.0)] == ["10⁻³", "10⁰", "10¹²", ""]


def test_files_are_what_their_suffix_says_and_need_no_other(lines, tmp_path):
    for suffix, start in (
        (".png", b"\x89PNG\r\n"),
        (".pdf", b"%PDF-"),
        (".html", b"<!DOCTYPE html>"),
    ):
        with rc_context({"pdf.compression": 0}):
            save(lines, tmp_path / f"figure{suffix}", "A title")
        assert (tmp_path / f"figure{suffix}").read_bytes().startswith(start)
    pdf = (tmp_path / "figure.pdf").read_bytes()
    assert b"/FontFile2" in pdf, "TrueType"
    assert b"/Type3" not in pdf
    page = (tmp_path / "figure.html").read_text()
    assert not re.search(r"<(script|link|img|iframe)[^>]*\b(src|href)=", page)
    assert '"showSendToCloud": false' in page
    assert "cdn.plot.ly" not in page.split("<script")[1][:200]


def test_a_picture_shows_legend_and_caption_whole(lines, tmp_path):
    chart = replace(lines, caption="A sentence of several words. " * 12)
    save(chart, tmp_path / "figure.png", "A title")
    figure = draw(chart, "A title")
    box = figure.get_tightbbox(figure.canvas.get_renderer())
    height, _, _ = imread(tmp_path / "figure.png").shape
    assert height / DPI >= box.height
    assert all(
        box.y0 <= part.get_window_extent().y0 / figure.dpi + 1e-6
        for part in (*figure.legends, *figure.texts)
    )


def test_an_existing_file_is_not_overwritten(lines, tmp_path):
    (tmp_path / "figure.png").write_text("mine")
    with pytest.raises(ReportError, match="exists"):
        save(lines, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_text() == "mine"


def test_a_page_without_plotly_names_the_extra(lines, tmp_path, monkeypatch):
    for name in list(sys.modules):
        if name.startswith(("plotly", "gnn_depth.reports.figures.page")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ReportError, match=r"gnn-depth\[plots\]"):
        save(lines, tmp_path / "figure.html")
    assert not list(tmp_path.iterdir())
