r"""LaTeX to MathML while the site is built: browsers draw it themselves, so no page loads a script
for it."""

import html
import re
from re import Match

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves: \( \) in a span, \[ \] in a block.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)


def with_mathml(page: str) -> str:
    """A page of HTML with every formula drawn by the browser."""
    page = INLINE.sub(lambda found: mathml(_source(found)), page)
    return BLOCK.sub(
        lambda found: f'<div class="formula">{mathml(_source(found), display="block")}</div>', page
    )


def mathml(latex: str, display: str = "inline") -> str:
    """A formula as MathML.

    Args:
        latex: The formula, without delimiters.
        display: ``inline`` or ``block``.

    Raises:
        ValueError: A command was not understood and would stand in the page as it is.
    """
    text: str = convert(latex.replace(r"\|", "‖"), display=display)
    if left := re.search(r">(\\[a-zA-Z|]+)<", text):
        raise ValueError(
            f"the formula {latex!r} has {left[1]}, which nothing draws: write it another way."
        )
    return text


def _source(found: Match[str]) -> str:
    return html.unescape(found[1]).strip()
