"""Every built-in part conforms, and so does what ``gnn-depth new`` writes.

tests/nn/test_compiled.py compiles them, in a process of its own.
"""

import importlib
from pathlib import Path

import pytest

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth import testing
from gnn_depth.cli import main
from gnn_depth.nn.inits import Xavier
from gnn_depth.registry import KINDS, registered
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


pytestmark = pytest.mark.usefixtures("not_compiled")


@pytest.mark.parametrize("label", PARTS)
def test_a_built_in_part_conforms(label: str):
    kind, name, options = PARTS[label]
    CHECKS[kind](name, **options)


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
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name = f"Mine{words[-1].capitalize()}"
    assert main(["new", words[0], name, *words[1:], "--output", str(tmp_path)]) == 0
    monkeypatch.syspath_prepend(tmp_path)
    written = importlib.import_module(f"test_mine_{words[-1]}")
    tests = [test for title, test in vars(written).items() if title.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
