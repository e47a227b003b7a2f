"""Every part names its source."""

import inspect
import re

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers every built-in part)
from gnn_depth import registry

SOURCE = re.compile(r"\b(19|20)\d\d\b|\b[Oo]urs?\b")
# These do nothing, draw as PyTorch Geometric does, or are the user's own: there is nobody to name.
NOBODYS = {
    "layer mean",
    "norm none",
    "skip none",
    "graph_dropout none",
    "init default",
    "data UserGraph",
}


def test_every_part_names_its_source_or_is_ours():
    found = [
        (kind, name, cls)
        for kind in registry.KINDS
        for name, cls in registry.registered(kind).items()
    ]
    # The losses of tasks are in every textbook.
    ours = [one for one in found if one[0] != "task" and one[2].__module__.startswith("gnn_depth.")]
    parts = {cls: f"{kind} {name}" for kind, name, cls in ours}
    faulty = [name for cls, name in parts.items() if not SOURCE.search(inspect.getdoc(cls) or "")]
    assert set(faulty) == NOBODYS
