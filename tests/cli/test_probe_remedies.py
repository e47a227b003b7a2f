"""gnn-depth probe: the problems that it finds, and the remedies that it proposes."""

from itertools import chain
from pathlib import Path

import pytest

from gnn_depth import registry
from gnn_depth.builder import LIVE
from gnn_depth.diagnostics.probe.findings import FAILURE_MODES
from gnn_depth.diagnostics.probe.remedies import (
    KINDS,
    REMEDIES,
    add_remedy,
)
from gnn_depth.diagnostics.probe.report import NO_PROBLEM
from tests.cli.conftest import SHORT, Answer

# Weights so small that sixteen layers lose what a default stack loses in forty.
SMALL_WEIGHTS = [*SHORT, "--model.init", "xavier", "--model.init.gain", "0.5"]
DEEP = [*SMALL_WEIGHTS, "--model.num_layers", "10"]


def said(answer: Answer) -> str:
    """What is below the table, on one line."""
    assert answer.code == 0, answer.err
    return " ".join(answer.out.partition("Product over all layers")[2].split())


def test_a_deep_gcn_is_told_that_its_gradients_vanish_and_what_treats_that_a_plugins_part_included(
    gnn_depth, own_registry
):
    Path("mine_treats.py").write_text(PLUGIN)
    text = said(gnn_depth("probe", *DEEP, "--plugins", "mine_treats.py"))
    assert "The signal dies: from layer" in text
    assert "Gradients vanish: from layer" in text
    for words in ("--model.norm pair", "--model.skip gated", "--model.init balanced_orthogonal"):
        assert words in text
    assert "lipschitz" not in text  # a GCN has no scores
    assert "--model.norm mine --model.norm.size 2" in text


PLUGIN = '''
"""Mine."""
from gnn_depth import FeatureNorm, register
from gnn_depth.diagnostics.probe import add_remedy

add_remedy("vanishing_gradients", "norm", "mine", size=2)


@register("norm", "mine")
class Mine(FeatureNorm):
    def __init__(self, channels: int, size: int = 1) -> None:
        super().__init__(channels)

    def forward(self, x, graph):
        return x / x.norm(dim=1, keepdim=True)
'''


def test_residual_connections_turn_that_into_growth_and_a_bound_of_the_weights_ends_it(
    gnn_depth,
):
    deep = [*SHORT, "--model.init", "xavier", "--model.init.gain", "3", "--model.num_layers", "12"]
    residual = said(gnn_depth("probe", *deep, "--model.skip", "residual"))
    assert "The signal explodes" in residual
    assert "Gradients expand" in residual
    assert "vanish" not in residual
    remedy = "--model.norm spectral --model.norm.per_depth 8"
    assert remedy in residual
    bounded = said(gnn_depth("probe", *deep, "--model.skip", "residual", *remedy.split()))
    assert NO_PROBLEM in bounded


def test_every_failure_mode_has_remedies_that_are_registered():
    for kind, name in chain(*REMEDIES.values()):
        LIVE.find(kind, name)
    assert set(REMEDIES) == set(FAILURE_MODES)
    assert {*KINDS, "data", "task", "transform"} == set(registry.KINDS)


def test_a_remedy_that_is_not_registered_is_refused_by_the_probe(refused):
    add_remedy("vanishing_gradients", "skip", "gatd")
    assert "Did you mean 'gated'?" in refused("probe", *DEEP)


@pytest.fixture(autouse=True)
def own_remedies():
    """Remedies that a test adds are there for that test only."""
    before = {mode: dict(parts) for mode, parts in REMEDIES.items()}
    yield
    REMEDIES.update(before)
