"""The hooks that mkdocs.yml names."""

import os
import re
from contextlib import redirect_stdout
from io import StringIO
from re import Match
from typing import Any

from gnn_depth.cli import main
from tools.site.maths import with_mathml

ASKED = re.compile(r"^<!-- what `gnn-depth (.+)` prints -->$", re.MULTILINE)
TEST = re.compile(r"<code>(tests/[^<]+::\w+)</code>")
BREAK, MAY_BREAK = re.compile(r"(::|[/_])"), r"\1<wbr>"
COLUMNS = "100"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what a command prints where a page asks for it, so that it is always that of this
    version."""
    return ASKED.sub(_printed, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draw the formulas, keep a number and its deviation on one line, and let the names of tests
    break."""
    html = TEST.sub(
        lambda found: f'<code class="test">{BREAK.sub(MAY_BREAK, found[1])}</code>', html
    )
    return with_mathml(html.replace(" ± ", "&nbsp;±&nbsp;"))


def _printed(found: Match[str]) -> str:
    """A block of code with the output of a command.

    Raises:
        RuntimeError: The command failed.
    """
    out = StringIO()
    os.environ["COLUMNS"] = COLUMNS
    with redirect_stdout(out):
        code = main(found[1].split())
    if code:
        raise RuntimeError(f"gnn-depth {found[1]}: exit code {code}")
    return f"```text\n{out.getvalue().rstrip()}\n```"
