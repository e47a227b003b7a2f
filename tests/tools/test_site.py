"""What the documentation's build makes of formulas and docstrings."""

import re

import pytest

from tests.pages import ROOT

pytest.importorskip("latex2mathml")

from tools.site.docstrings import as_markdown
from tools.site.maths import mathml, with_mathml


def test_a_formula_becomes_mathml_in_a_line_and_in_a_block():
    page = with_mathml(
        r'<p>a <span class="arithmatex">\(x &lt; 1\)</span></p><div class="arithmatex">\['
        + "\ny^2\n"
        + r"\]</div>"
    )
    assert page.count("<math") == 2
    assert "<mi>x</mi><mo>&#x0003C;</mo><mn>1</mn>" in page
    assert re.search(r'<div class="formula"><math[^>]*display="block"', page)
    assert "arithmatex" not in page


def test_norms_have_bars_of_any_size_and_a_command_that_nothing_draws_is_refused():
    assert r"\|" not in mathml(r"\Big\| X \Big\|_F + \|a\|")
    with pytest.raises(ValueError, match="nosuchcommand"):
        mathml(r"\nosuchcommand x")


def test_every_formula_of_the_package_is_drawn():
    found = 0
    for path in (ROOT / "gnn_depth").rglob("*.py"):
        markdown = as_markdown(path.read_text(encoding="utf-8"))
        for latex in re.findall(r"\$\$\n(.*?)\$\$|\$([^$\n]+)\$", markdown, re.DOTALL):
            mathml(latex[0] or latex[1])
            found += 1
    assert found > 150


def test_directives_and_roles_become_markdown():
    text = """A norm :math:`\\|X\\|` of :class:`gnn_depth.graph.Graph`, like :func:`~torch.sum`.

    .. math:: a = b,
        c = d

    After it.

    Args:
        x: The :math:`x`.
    """
    assert (
        as_markdown(text)
        == """A norm $\\|X\\|$ of [`Graph`][gnn_depth.graph.Graph], like `torch.sum`.

    $$
    a = b,
    c = d
    $$

    After it.

    Args:
        x: The $x$.
    """
    )
