"""Kernels of a resumed training, and the option ``compile``."""

from types import SimpleNamespace

import pytest
import torch

from gnn_depth.nn import native
from gnn_depth.nn.graph_dropouts import DropNode
from gnn_depth.training import NodeClassifier
from gnn_depth.training.resume import UNKNOWN, fix_kernels

CPU = torch.device("cpu")


def test_to_compile_for_graphs_that_are_thinned_anew_is_refused():
    with pytest.raises(ValueError, match=r"compile on: DropNode.*graph_dropout none"):
        NodeClassifier(8, 3, graph_dropout=DropNode(0.2), compile="on")
    NodeClassifier(8, 3, graph_dropout=DropNode(0.0), compile="on")


@pytest.fixture
def kernels(monkeypatch):
    """Kernels of a key that a test chooses; None for a machine without any."""
    state = SimpleNamespace(key="new", wanted=True)
    monkeypatch.setattr(native, "available_for", lambda device: state.key if state.wanted else None)
    monkeypatch.setattr(native, "use", lambda wanted: setattr(state, "wanted", wanted))
    monkeypatch.setattr(native, "why_not", lambda device: "no C++ compiler was found")
    return state


@pytest.mark.parametrize(
    ("before", "now", "after", "said"),
    [
        (UNKNOWN, "new", "new", ""),
        ("new", "new", "new", ""),
        (None, "new", None, ""),
        ("old", "new", "new", "kernels old, and continues on new"),
        ("old", None, None, "continues on PyTorch alone (no C++ compiler was found)"),
    ],
)
def test_a_resumed_training_keeps_its_kernels_or_says_what_changed(
    kernels, before, now, after, said, capsys
):
    kernels.key = now
    assert fix_kernels(before, CPU) == after
    assert native.available_for(CPU) == after
    message = capsys.readouterr().err
    assert said in message
    assert bool(message) == bool(said)
