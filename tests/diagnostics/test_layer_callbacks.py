"""What is common to the callbacks of every layer's gradients and states. Their values are compared
in test_watch.py."""

import pandas as pd
import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from torch.optim import Adam

from gnn_depth.diagnostics import GradientNorms, GradientSimilarity, RepresentationSimilarity
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import NoSkip, Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import chain, rows, values
from tests.diagnostics.test_own_stacks import TinyDouble
from tests.diagnostics.test_watch import by_hand
from tools.attack.numbers.layers import different, expected_values


@pytest.mark.parametrize(
    "optimizer", [lambda p: Adam(p, lr=0.1, fused=True), lambda p: Adam(p, lr=0.1)]
)
def test_the_scale_of_mixed_precision_is_taken_out(measure, optimizer):
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**9))
    x, module = rows(dtype=torch.float32), chain(optimizer=optimizer).float()
    _, *half = values(measure(module, x, plugins=plugin, max_epochs=2))
    for found, expected in zip(half, values(measure(x=x.double()))[1:]):
        assert found[0] == pytest.approx(expected[0], rel=1e-2)
        assert (found[1] < 10 * expected.max()).all()


def test_a_step_without_a_loss_is_no_measurement(measure):
    module = chain()
    step = module.training_step
    module.training_step = lambda batch, batch_idx: (
        None if batch_idx == 0 else step(batch, batch_idx)
    )
    with pytest.warns(UserWarning, match="returned `None`"):
        callback = measure(module, batch_size=10)
    assert values(callback)[0].tolist() == [1]


@pytest.mark.parametrize(
    "options",
    [
        {"layer": GCN},
        {"layer": GAT, "share_layers": True},
        {"layer": GAT, "norm": [LayerNorm], "norm_after_skip": True, "activation": "tanh"},
        {"layer": GAT, "skip": NoSkip},
    ],
)
def test_our_own_states_are_those_before_dropout(make_trainer, options):
    parts = {"skip": Residual, "num_layers": 3, "hidden_channels": 5, "dropout": 0.5} | options
    torch.manual_seed(0)
    model, data = NodeClassifier(4, 2, **parts).double(), TinyDouble()

    def loss(model):
        torch.manual_seed(5)
        mask = data.batch.train_mask
        return torch.nn.functional.cross_entropy(model(data.batch)[mask], data.batch.y[mask])

    expected = expected_values(by_hand(model, "stack.blocks.*", loss), data.batch.graph.edge_index)
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callbacks = [RepresentationSimilarity(), GradientSimilarity(), GradientNorms()]
    make_trainer(callbacks, max_epochs=1).fit(model, datamodule=data)
    frame = pd.concat([callback.frame() for callback in callbacks])
    names = set(frame.measure) - {"gradient_norm_parameters"}  # of a layer without its block
    assert list(different(frame, {name: expected[name] for name in names})) == []
