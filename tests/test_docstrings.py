"""Every public name has a docstring that begins with a sentence, explains its arguments and names a
part's source."""

import inspect
import re
from importlib import import_module

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers every built-in part)
from gnn_depth import registry

ROOMS = [
    "gnn_depth",
    "gnn_depth.nn",
    "gnn_depth.nn.layers",
    "gnn_depth.nn.norms",
    "gnn_depth.nn.inits",
    "gnn_depth.nn.skips",
    "gnn_depth.nn.graph_dropouts",
    "gnn_depth.data",
    "gnn_depth.diagnostics",
    "gnn_depth.reports",
    "gnn_depth.training",
    "gnn_depth.testing",
    "gnn_depth.diagnostics.measures",
    "gnn_depth.registry",
    "gnn_depth.nn.parts",
    "gnn_depth.nn.scores",
]
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


def public(module):
    """The public classes and functions of a module or package: those in ``__all__`` or, without
    one, those that are defined there."""
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        own = hasattr(module, "__all__") or f"{home}.".startswith(f"{module.__name__}.")
        if (
            own
            and not name.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
        ):
            yield value


NAMES = {
    registry.import_path(value): value for room in ROOMS for value in public(import_module(room))
}


def test_every_public_name_begins_with_a_sentence_of_its_own():
    faulty = {}
    for path, value in NAMES.items():
        text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        first = inspect.cleandoc(text or "").partition("\n\n")[0]
        if not re.search(r"[.:](\s|\Z)", first):
            faulty[path] = first
    assert len(NAMES) > 100
    assert faulty == {}


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
