r"""Docstrings as Markdown: ours have the formulas and the cross-references of reStructuredText."""

import re
import textwrap
from re import Match
from typing import Any

from griffe import Extension, Object

FORMULA = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +\S.*|[ ]*(?=\n\1 +\S)))*)", re.MULTILINE)
ROLE = re.compile(r":(math|class|func|meth|mod|attr):`~?([^`]+)`")
LITERAL = re.compile(
    r"^ *::\n", re.MULTILINE
)  # what is indented below it is code in Markdown anyway
REGISTERED = re.compile(r"""register\(["'](\w+)["'], ["'](\w+)["']\)""")


def as_markdown(text: str) -> str:
    """A docstring with ``$...$``, ``$$...$$`` and code in place of directives and roles."""
    return ROLE.sub(_role, FORMULA.sub(_block, LITERAL.sub("", text)))


def _block(found: Match[str]) -> str:
    lines = [line for line in textwrap.dedent(found[2]).strip().splitlines() if line.strip()]
    return "\n".join(
        [f"{found[1]}$$", *(found[1] + line.strip() for line in lines), f"{found[1]}$$"]
    )


def _role(found: Match[str]) -> str:
    role, text = found.groups()
    if role == "math":
        return f"${' '.join(text.split())}$"
    return (
        f"[`{text.rpartition('.')[2]}`][{text}]" if text.startswith("gnn_depth.") else f"`{text}`"
    )


class Markdown(Extension):
    """Rewrite every docstring before it is taken apart into its sections."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called by Griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _name(obj) + as_markdown(obj.docstring.value)


def _name(obj: Object) -> str:
    """How configs name a part, from its decorator; nothing for all else."""
    for decorator in getattr(obj, "decorators", ()):
        if found := REGISTERED.match(str(decorator.value)):
            kind, name = found.groups()
            return f"*In configs:* `{kind}: {name}`\n\n"
    return ""
