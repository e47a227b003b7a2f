"""What the documentation's build makes of formulas and docstrings."""

import re

import pytest

from tests.pages import ROOT

pytest.importorskip("latex2mathml")

from tools.site import cheat_sheet
from tools.site.docstrings import as_markdown
from tools.site.maths import mathml, with_mathml


def test_a_formula_of_a_page_becomes_mathml():
    page = with_mathml(r'<p>a <span class="arithmatex">\(x &lt; 1\)</span></p>')
    assert page.startswith("<p>a <math")
    assert "<mi>x</mi><mo>&#x0003C;</mo><mn>1</mn>" in page


def test_a_command_that_nothing_draws_is_refused():
    with pytest.raises(ValueError, match="nosuchcommand"):
        mathml(r"\nosuchcommand x")


def test_every_formula_of_the_package_is_drawn():
    found = 0
    for path in (ROOT / "gnn_depth").rglob("*.py"):
        markdown = as_markdown(path.read_text(encoding="utf-8"))
        assert ":math:" not in markdown
        for latex in re.findall(r"\$\$\n(.*?)\$\$|\$([^$\n]+)\$", markdown, re.DOTALL):
            mathml(latex[0] or latex[1])
            found += 1
    assert found > 150


def test_the_cheat_sheet_shows_what_the_parts_declare_today():
    assert cheat_sheet.PAGE.read_text() == cheat_sheet.page()
