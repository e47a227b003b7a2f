"""What a terminal shows of a docstring."""

# ruff: noqa: RUF001 (signs that look like letters are meant)
import re

import pytest

from gnn_depth import registry
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.plain import formula, plain


@pytest.mark.parametrize(
    ("latex", "typed"),
    [
        (r"\tilde x_i = s \, x^c_i / \|x_i\|", "x̃_i = s x^c_i / ‖x_i‖"),
        (r"\frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + \epsilon}}", "(x_i - μ_i) / sqrt(σ_i^2 + ε)"),
        (r"\max_{k \in N(i) \cup \{i\}} W^{l+1}_{:i}", "max_(k ∈ N(i) ∪ {i}) W^(l+1)_:i"),
        (r"\mathop{\mathrm{mean}}_{j} \tfrac1N \Big( a \Big), \qquad b", "mean_j 1/N (a),   b"),
        (r"W^\top W \unknown{x}", r"Wᵀ W \unknown{x}"),
    ],
)
def test_a_formula_reads_as_it_would_be_typed(latex: str, typed: str):
    assert formula(latex) == typed


def test_directives_and_roles_are_gone_and_the_text_around_them_stays():
    text = "Of :math:`a_{ij}`, ``b`` and :class:`~torch.nn.Linear`:\n\n.. math::\n    x = y, \\quad\n    z\n\nEnd."
    assert plain(text) == "Of a_ij, `b` and Linear:\n\n    x = y,\n    z\n\nEnd."


def test_no_built_in_part_shows_what_is_not_plain():
    parts = [part for kind in registry.KINDS for part in catalogue([]).parts[kind].values()]
    assert len(parts) > 40
    assert [
        part.path for part in parts if re.search(r"\\|:\w+:`|\.\. \w+::", plain(part.doc))
    ] == []
