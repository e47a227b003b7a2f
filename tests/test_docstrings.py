"""Whoever asks for help about a public name gets an answer: a sentence, its arguments, and where a part comes from."""

import dataclasses
import inspect
import re
from importlib import import_module

import docstring_parser
import pytest

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers every built-in part)
from gnn_depth import registry

ROOMS = [
    *("gnn_depth", "gnn_depth.nn", "gnn_depth.nn.layers", "gnn_depth.nn.norms", "gnn_depth.nn.inits"),
    *("gnn_depth.nn.skips", "gnn_depth.nn.graph_dropouts", "gnn_depth.data", "gnn_depth.diagnostics"),
    *("gnn_depth.reports", "gnn_depth.training", "gnn_depth.testing"),
]
MODULES = ["gnn_depth.diagnostics.measures", "gnn_depth.registry", "gnn_depth.nn.parts", "gnn_depth.nn.scores"]
SOURCE = re.compile(r"\b(19|20)\d\d\b|\b[Oo]urs?\b")


def public(module):
    """The public classes and functions of a module: of a room those in its list, of another those that it defines."""
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(value, "__module__", None) == module.__name__
        if own and not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield value


NAMES = {registry.import_path(value): value for room in [*ROOMS, *MODULES] for value in public(import_module(room))}
CLASSES = {path: value for path, value in NAMES.items() if inspect.isclass(value)}
# What does nothing, draws as PyTorch Geometric does, or is the user's own has nobody to name.
NOBODYS = {"norm none", "skip none", "graph_dropout none", "init default", "data UserGraph"}
PARTS = {cls: f"{kind} {name}" for kind in registry.KINDS for name, cls in registry.registered(kind).items()}
OWED = {cls: name for cls, name in PARTS.items() if name not in NOBODYS}


@pytest.mark.parametrize("path", NAMES)
def test_a_public_name_begins_with_a_sentence_of_its_own(path):
    text = vars(NAMES[path]).get("__doc__") if inspect.isclass(NAMES[path]) else NAMES[path].__doc__
    assert text, f"{path} has no docstring"
    first = inspect.cleandoc(text).partition("\n\n")[0]
    assert re.search(r"[.:](\s|\Z)", first), f"{path} begins with no sentence: {first!r}"


@pytest.mark.parametrize("path", CLASSES)
def test_every_argument_of_a_constructor_is_explained(path):
    cls = CLASSES[path]
    if issubclass(cls, BaseException) or ("__init__" not in vars(cls) and not dataclasses.is_dataclass(cls)):
        return  # its base's
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    arguments = {name for name, each in inspect.signature(cls).parameters.items() if each.kind not in kinds}
    parsed = docstring_parser.parse(inspect.getdoc(cls) or "", docstring_parser.DocstringStyle.GOOGLE)
    explained = {name.strip() for each in parsed.params for name in each.arg_name.split(",")}
    assert arguments <= explained, f"Args of {path} lack {sorted(arguments - explained)}"
    assert not re.search(r"^Args:\s*(\n\S|\Z)", inspect.getdoc(cls) or "", re.MULTILINE)


@pytest.mark.parametrize("cls", OWED, ids=OWED.get)
def test_a_part_names_its_source_or_is_ours(cls):
    assert SOURCE.search(inspect.getdoc(cls) or ""), f"{PARTS[cls]}: who proposed it, and when?"
