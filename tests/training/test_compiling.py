from functools import partial
from types import SimpleNamespace

import lightning as L
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from gnn_depth.data import SyntheticCitation, TreeNeighborsMatch
from gnn_depth.data.base import FullBatch
from gnn_depth.nn import native
from gnn_depth.nn.graph_dropouts import DropEdge, DropNode
from gnn_depth.nn.layers import GAT, GCN, GATv2
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.parts import ScoreNorm
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.training import NodeClassifier, compiling
from gnn_depth.training.compiling import KernelPath, decide, steps_of

CORA = [(2708, 13_264)] * 30


@pytest.fixture
def stack():
    return DeepGNN(8, 3, partial(GAT, heads=2), num_layers=30, hidden_channels=32)


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    monkeypatch.setattr(compiling, "which", lambda name: f"/usr/bin/{name}")


def test_a_long_training_is_compiled_and_a_short_one_is_not(stack):
    assert decide("auto", stack, CORA, steps=10_000).compiled
    assert not decide("auto", stack, CORA, steps=10).compiled
    assert decide("auto", stack, CORA, steps=-1).compiled


def test_what_cannot_gain_is_not_compiled_and_says_why(stack, monkeypatch):
    thinned = DeepGNN(8, 3, GAT, num_layers=30, hidden_channels=32, graph_dropout=DropEdge(0.2))
    others = decide("auto", stack, None, steps=10**9), decide("auto", thinned, CORA, steps=10**9)
    monkeypatch.setattr(compiling, "which", lambda name: None)
    for decision, word in zip(
        (*others, decide("auto", stack, CORA, 10**6)), ("batch", "graph_dropout", "no C++")
    ):
        assert not decision.compiled
        assert word in decision.reason


def test_on_and_off_are_obeyed_whatever_it_costs(stack):
    for on, off in (("on", "off"), (True, False)):  # as YAML reads them unquoted
        assert decide(on, stack, CORA, steps=1).compiled
        assert not decide(off, stack, CORA, steps=10**9).compiled


def test_a_gcn_gains_less_than_attention():
    gcn = DeepGNN(8, 3, GCN, num_layers=30, hidden_channels=64)
    gat = DeepGNN(8, 3, GAT, num_layers=30, hidden_channels=64)
    assert not decide("auto", gcn, CORA, 4000).compiled
    assert decide("auto", gat, CORA, 4000).compiled


def test_scores_of_every_channel_of_every_edge_gain_with_the_edges():
    dense, few = [(2277, 40_000)] * 2, [(2277, 100)] * 2
    gat, gatv2 = (DeepGNN(8, 3, layer, num_layers=2, hidden_channels=64) for layer in (GAT, GATv2))
    assert decide("auto", gatv2, dense, 4000).compiled
    assert not decide("auto", gatv2, few, 4000).compiled
    assert not decide("auto", gat, dense, 4000).compiled


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"epochs": 7}, 21),
        ({"epochs": 7, "max_steps": 5}, 5),
        ({"epochs": -1, "max_steps": 5}, 5),
        ({"epochs": -1}, -1),
        ({"epochs": 7, "max_steps": 4, "accumulate_grad_batches": 2}, 8),
    ],
)
def test_a_training_ends_with_whatever_ends_first(make_trainer, options, expected):
    found = []

    class Count(L.Callback):
        def on_train_start(self, trainer, pl_module):
            found.append(steps_of(trainer))
            trainer.should_stop = True

    module = BoringModel()
    make_trainer(callbacks=[Count()], **options).fit(module, DataLoader(RandomDataset(32, 3)))
    assert found == [expected]


def trainer_of(loader, steps):
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    return SimpleNamespace(
        train_dataloader=loader,
        estimated_stepping_batches=steps,
        accumulate_grad_batches=1,
        strategy=strategy,
        precision="32-true",
        progress_bar_callback=None,
    )


def test_batches_of_trees_are_compiled_for_since_they_have_one_graph(monkeypatch):
    trees = TreeNeighborsMatch(4, batch_size=32)
    trees.prepare_data()
    loader = trees.train_dataloader()
    stack = DeepGNN(
        trees.num_features, 16, partial(GAT, heads=4), num_layers=5, encoder="embedding"
    )
    monkeypatch.setattr(native, "available_for", lambda device: None)
    compiling.compile_layers("auto", stack, trainer_of(loader, steps=10**7))
    assert stack.compiled.only is next(iter(loader)).graph is loader.repeated.graph
    assert loader.repeated.read == 32


def test_every_block_of_a_tree_is_compiled_by_itself(stack):
    shrinking = [(2708 - layer, 13_264 - layer) for layer in range(30)]
    steps = 3000
    assert decide("auto", stack, CORA, steps).compiled
    decision = decide("auto", stack, shrinking, steps)
    assert not decision.compiled
    assert "compiling takes 240 s" in decision.reason
    assert decide("auto", stack, shrinking, 10 * steps).compiled


def test_one_graph_alone_is_compiled_for_in_evaluation_too(stack):
    sizes = {
        "num_nodes": 200,
        "num_edges": 300,
        "num_train_per_class": 2,
        "num_val": 20,
        "num_test": 20,
    }
    batch = SyntheticCitation(num_features=8, **sizes).batch
    compiling.compile_layers("on", stack, trainer_of(FullBatch(batch), steps=1))
    assert stack.compiled.only is None


def test_to_compile_for_graphs_that_are_thinned_anew_is_refused():
    with pytest.raises(ValueError, match=r"compile on: DropNode.*graph_dropout none"):
        NodeClassifier(8, 3, graph_dropout=DropNode(0.2), compile="on")
    NodeClassifier(8, 3, graph_dropout=DropNode(0.0), compile="on")


def test_where_kernels_compute_auto_does_not_compile(stack):
    decision = decide("auto", stack, CORA, steps=-1, has_kernels=True)
    assert not decision.compiled
    assert "native kernels" in decision.reason
    assert decide("on", stack, CORA, steps=1, has_kernels=True).compiled


class Plugin(ScoreNorm):
    """A norm of each edge's score, in PyTorch."""

    def forward(self, scores, score, graph):
        return scores.tanh()


def test_where_kernels_compute_a_norm_of_edges_is_compiled_in_a_long_training_alone():
    stack = DeepGNN(8, 3, GAT, num_layers=30, hidden_channels=64, norm=[Plugin])
    decided = []
    for steps in (200, 10_000):
        decided.append(decide("auto", stack, CORA, steps, has_kernels=True).compiled)
    assert decided == [False, True]
    scaling = DeepGNN(8, 3, GAT, num_layers=30, hidden_channels=64, norm=[LipschitzNorm])
    assert not decide("auto", scaling, CORA, 10_000, has_kernels=True).compiled


CPU = torch.device("cpu")


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
