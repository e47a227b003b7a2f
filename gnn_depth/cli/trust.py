"""``--trusted-only``: accept only configs that use registered parts and known classes.

A config is code: a class path in it is imported, and importing a module runs it. What is not known
is not imported.
"""

import importlib.util
import sys
from collections.abc import Container, Iterable
from typing import Any

from gnn_depth.builder import PartIndex
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.errors import UsageError
from gnn_depth.config_file import Source
from gnn_depth.part_specs import GIVEN
from gnn_depth.yaml_limits import contents

FLAG = "--trusted-only"
#: The class that the section ``model`` is for.
OURS = ("gnn_depth.NodeClassifier", "gnn_depth.training.NodeClassifier")


def refuse_unknown(
    sources: Iterable[Source], known: PartIndex | None = None, also: Container[str] = ()
) -> None:
    """Refuse configs that would import or run something that is neither a part nor one of ``also``,
    before any of them takes effect."""
    known = known or catalogue([])
    safe, unsafe = set(OURS), set()
    for kind in GIVEN:
        for part in known.parts(kind).values():
            if part.runs_code:
                unsafe |= {part.name, part.class_name, part.path}
            else:
                safe.add(part.path)
    for source in sources:
        for where, value in contents(source.data):
            key = str(where[-1]).removesuffix("+") if where else ""
            # Lightning's trainer has plugins too; four deep, trainer is a label of a grid's axis.
            of_trainer = where[-2:-1] == ("trainer",) and len(where) != 4
            if value and key == "plugins" and not of_trainer:
                problem = f"names code to run, {value!r}"
            elif not isinstance(value, str) or value in also or value in safe:
                continue
            elif value in unsafe:
                problem = f"{value!r} may run code that its files or options hold"
            # Other text with a dot, such as the name of a file, is imported by nobody.
            elif "." in value and (key == "class_path" or _is_importable(value.partition(".")[0])):
                problem = f"{value!r} is neither a registered name nor a known class"
            else:
                continue
            raise UsageError(
                f"{source.at(where)}: {'.'.join(map(str, where))}: {problem}, so it is "
                f"refused.\nIf you trust its source, use {FLAG} false. For a run of a "
                "class of your own, it is enough to name the class again, as in --data mine.Graphs."
            )


def check_run(name: str, content: dict[str, Any], arguments: Any, known: PartIndex) -> None:
    """Refuse a run or checkpoint whose options would import something unknown, unless the user has
    named or allowed it.

    A class that the user's own configs and arguments name is the user's choice.
    """
    if arguments.trusted is False:
        return
    own = [source.data for source in arguments.layers]
    named = [value for _, value in contents(own)]
    refuse_unknown([Source(name, content)], known, named)


def _is_importable(module: str) -> bool:
    try:
        return module in sys.modules or importlib.util.find_spec(module) is not None
    except ValueError:  # not a name
        return False
