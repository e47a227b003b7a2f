"""Every built-in part conforms, and so does what ``gnn-depth new`` writes.

Run by tests/nn/test_compiled.py, in a process of its own: torch cannot compile through the shape checks of others.
"""

import importlib
from pathlib import Path

import pytest

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth import testing
from gnn_depth.cli import main
from gnn_depth.nn.inits import Xavier
from gnn_depth.registry import KINDS, get, registered
from gnn_depth.testing import checks, properties, subjects
from tests.nn.layers.variants import VARIANTS as LAYERS

CHECKS = {kind: getattr(testing, f"check_{kind}") for kind in KINDS if kind != "data"}

#: Options that a part needs, or that make it another one; and what it does not do by intent, with the reason.
VARIANTS = {
    ("norm", "batch"): {"except_for": ["batch"]},  # statistics of the step, whichever graphs it holds
    ("norm", "group"): {"except_for": ["batch"]},  # the same, group by group
    ("init", "balanced"): {"base": Xavier()},
    ("skip", "rezero"): {"initial": 0.5},
    ("graph_dropout", "drop_edge"): {"undirected": True},
}
PARTS = [(kind, name) for kind in CHECKS for name in registered(kind) if kind != "layer"]


@pytest.fixture(params=["all but compiling", pytest.param("all", marks=pytest.mark.slow)])
def extent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """To compile a part takes three times as long as all else."""
    if request.param != "all":
        monkeypatch.setattr(checks, "COMMON", [each for each in checks.COMMON if each.name != "compile"])


@pytest.mark.usefixtures("extent")
@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_built_in_part_conforms(kind: str, name: str):
    CHECKS[kind](name, **VARIANTS.get((kind, name), {}))


@pytest.mark.usefixtures("extent")
@pytest.mark.parametrize("variant", LAYERS)
def test_a_built_in_layer_conforms(variant: str):
    name, options = LAYERS[variant]
    testing.check_layer(name, **options, except_for=["batch"] * ("batch" in variant))


@pytest.mark.parametrize("variant", [variant for variant, (name, _) in LAYERS.items() if variant == name])
def test_a_built_in_layer_compiles_as_a_whole(variant: str):
    name, options = LAYERS[variant]
    for subject in subjects.of_layer(get("layer", name), options):
        properties.compiles.holds(subject)


@pytest.mark.usefixtures("extent")
@pytest.mark.parametrize(
    "words",
    [["norm"], ["norm", "--kind-of", "score"], ["norm", "--kind-of", "weight"], ["layer"], ["init"], ["skip"]],
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
