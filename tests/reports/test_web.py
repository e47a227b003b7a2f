"""Pages that need no library: text, tables, charts."""

import math
import re

from gnn_depth.reports.sheet import Entry, Sheet
from gnn_depth.reports.web import JOIN, chart, paragraph, table, web_page


def points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_a_chart_has_a_point_for_every_value_and_rises_with_it():
    found = points(chart("norm", [1, 2, 3, 4], [1.0, 2.0, None, 1.5]))
    assert len(found) == 3
    assert found[0][0] < found[1][0] < found[2][0]
    assert found[1][1] < found[2][1] < found[0][1], "upwards is towards 0"


def test_values_far_apart_go_by_powers_of_ten():
    found = points(chart("norm", [1, 2, 3], [1e-20, 1e-10, 1.0]))
    assert abs(found[0][1] - 2 * found[1][1] + found[2][1]) < 0.2, "on a line"


def test_what_is_not_finite_is_marked_on_the_axis_and_parts_the_line():
    svg = chart("norm", [1, 2, 3, 4, 5], [1.0, 2.0, math.nan, 3.0, 4.0])
    assert svg.count("<polyline") == 2
    assert "layer 3: not finite" in svg
    assert "nan" not in svg
    assert chart("norm", [1, 2], [math.inf, math.nan]).count("not finite") == 2
    assert chart("norm", [1], [None]) == ""


def test_equal_values_and_a_single_layer_have_a_place():
    for numbers, values in (([1, 2], [2.0, 2.0]), ([7], [0.0])):
        assert all(0 <= y <= 170 for _, y in points(chart("norm", numbers, values)))


def test_text_is_text_whatever_it_holds():
    sheet = Sheet("", ("a<b",), 1, ((Entry("<script>", "*"),),), ("x & y",))
    text = web_page("<i>", paragraph("1 < 2") + table(sheet))
    assert "<script>" not in text
    assert "<h1>&lt;i&gt;</h1>" in text
    assert "&lt;script&gt;*" in text
    assert "x &amp; y" in text


def test_words_of_a_command_line_stay_together_and_are_copied_with_plain_spaces():
    text = paragraph(f"1: --model.norm{JOIN}pair, --model.skip{JOIN}gated")
    assert "<code>--model.norm pair</code>, <code>--model.skip gated</code>" in text
