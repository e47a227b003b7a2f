"""Every built-in part conforms, and so does what ``gnn-depth new`` writes.

Run by tests/nn/test_compiled.py, in a process of its own: torch cannot compile through the shape
checks of others.
"""

import importlib
from pathlib import Path

import pytest

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth import testing
from gnn_depth.cli import main
from gnn_depth.nn.inits import Xavier
from gnn_depth.registry import KINDS, registered
from gnn_depth.testing import checks
from tests.nn.layers.variants import VARIANTS as LAYERS

CHECKS = {
    kind: getattr(testing, f"check_{kind}")
    for kind in KINDS
    if kind not in ("task", "data", "transform")
}

#: Options that a part needs, or that make it another one; and what it does not do by intent, with
#: the reason.
VARIANTS = {
    ("norm", "batch"): {
        "except_for": ["batch"]
    },  # statistics of the step, whichever graphs it holds
    ("norm", "group"): {"except_for": ["batch"]},  # the same, group by group
    ("init", "balanced"): {"base": Xavier()},
    ("init", "critical"): {
        "except_for": ["finite"]
    },  # needs an undirected graph, and an activation that saturates
    ("skip", "rezero"): {"initial": 0.5},
    ("graph_dropout", "drop_edge"): {"undirected": True},
}
PARTS = {
    f"{kind}, {name}": (kind, name, VARIANTS.get((kind, name), {}))
    for kind in CHECKS
    for name in registered(kind)
    if kind != "layer"
}
PARTS |= {
    f"layer, {variant}": ("layer", name, options | {"except_for": ["batch"] * ("batch" in variant)})
    for variant, (name, options) in LAYERS.items()
}
COMPILABLE = [label for label, (kind, *_) in PARTS.items() if kind in ("layer", "norm", "skip")]
#: Compiled in every run: sums, attention, and a norm of neighbourhoods.
COMPILED = ["layer, gcn", "layer, gat", "norm, neighbor"]
#: Layers with further options, which conform by the slow tests.
FURTHER = [f"layer, {variant}" for variant, (name, _) in LAYERS.items() if variant != name]


def leave_out(names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in ("COMMON", "OF_GRAPHS"):
        monkeypatch.setattr(
            checks, suite, [each for each in getattr(checks, suite) if each.name not in names]
        )


@pytest.mark.parametrize(
    "label",
    [pytest.param(label, marks=[pytest.mark.slow] * (label in FURTHER)) for label in PARTS],
)
def test_a_built_in_part_conforms(label: str, monkeypatch: pytest.MonkeyPatch):
    leave_out({"compile"}, monkeypatch)  # which takes three times as long as all else
    kind, name, options = PARTS[label]
    CHECKS[kind](name, **options)


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=[pytest.mark.slow] * (label not in COMPILED))
        for label in COMPILABLE
    ],
)
def test_a_built_in_part_compiles_as_a_whole(label: str, monkeypatch: pytest.MonkeyPatch):
    leave_out({each.name for each in checks.OF_GRAPHS} - {"shape", "compile", "batch"}, monkeypatch)
    kind, name, options = PARTS[label]
    CHECKS[kind](name, **options)


@pytest.mark.parametrize(
    "extent", ["all but compiling", pytest.param("all", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "words",
    [
        ["norm"],
        ["norm", "--kind-of", "score"],
        ["norm", "--kind-of", "weight"],
        ["layer"],
        ["init"],
        ["skip"],
    ],
    ids=lambda words: words[-1],
)
def test_the_tests_of_a_part_that_was_just_written_pass(
    words: list[str], extent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    leave_out({"compile"} if extent != "all" else set(), monkeypatch)
    name = f"Mine{words[-1].capitalize()}"
    assert main(["new", words[0], name, *words[1:], "--output", str(tmp_path)]) == 0
    monkeypatch.syspath_prepend(tmp_path)
    written = importlib.import_module(f"test_mine_{words[-1]}")
    tests = [test for title, test in vars(written).items() if title.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
