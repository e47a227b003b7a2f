"""Kernels of a resumed training, and the option ``compile``."""

from types import SimpleNamespace

import pytest
import torch

from gnn_depth.data import SyntheticCitation, TreeNeighborsMatch
from gnn_depth.data.base import FullBatch
from gnn_depth.nn import native
from gnn_depth.nn.graph_dropouts import DropNode
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.training import NodeClassifier, compiling
from gnn_depth.training.compiling import KernelPath

CPU = torch.device("cpu")
SIZES = {
    "num_nodes": 200,
    "num_edges": 300,
    "num_train_per_class": 2,
    "num_val": 20,
    "num_test": 20,
}


def trainer_of(loader):
    return SimpleNamespace(
        train_dataloader=loader, strategy=SimpleNamespace(root_device=torch.device("cpu"))
    )


def test_layers_are_compiled_for_the_one_graph_of_the_training():
    trees = TreeNeighborsMatch(4, batch_size=32)
    trees.prepare_data()
    loader = trees.train_dataloader()
    stack = DeepGNN(trees.num_features, 16, num_layers=5, encoder="embedding")
    compiling.compile_layers("on", stack, trainer_of(loader))
    assert stack.compiled.only is next(iter(loader)).graph is loader.repeated.graph

    full = DeepGNN(8, 3)
    data = SyntheticCitation(num_features=8, **SIZES)
    compiling.compile_layers(True, full, trainer_of(FullBatch(data.batch)))
    assert full.compiled.only is None  # in evaluation, too


@pytest.mark.parametrize("choice", ["off", False])
def test_nothing_is_compiled_unless_asked_for(choice):
    stack = DeepGNN(8, 3)
    compiling.compile_layers(choice, stack, trainer_of(None))
    assert stack.compiled is None


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
        (KernelPath.UNKNOWN, "new", "new", ""),
        (KernelPath.UNKNOWN, None, None, ""),
        ("new", "new", "new", ""),
        (None, "new", None, ""),
        (None, None, None, ""),
        ("old", "new", "new", "kernels old, and continues on new"),
        ("old", None, None, "continues on PyTorch alone (no C++ compiler was found)"),
    ],
)
def test_a_resumed_training_keeps_its_kernels_or_says_what_changed(
    kernels, before, now, after, said, capsys
):
    kernels.key = now
    path = KernelPath()
    path.key = before
    path.fix(CPU)
    assert path.key == after
    assert native.available_for(CPU) == after
    message = capsys.readouterr().err
    assert said in message
    assert bool(message) == bool(said)
