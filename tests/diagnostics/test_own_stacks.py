"""Of this package's own model: stacks that compute states again, and the way from the command line
to the figure."""

import pytest
import torch

from gnn_depth.diagnostics import GradientNorms
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.skips import Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import values
from tests.training.conftest import Tiny


class TinyDouble(Tiny):
    def load(self):
        batch = super().load()
        object.__setattr__(batch, "x", batch.x.double())
        return batch


PARTS = {
    "layer": GAT,
    "skip": Residual,
    "num_layers": 5,
    "hidden_channels": 6,
    "dropout": 0.5,
    "activation": "tanh",
}


def test_the_states_of_a_reversible_stack_are_measured_whole(make_trainer):
    model, data, expected = NodeClassifier(4, 2, **PARTS, reversible=2).double(), TinyDouble(), []
    for block in model.stack.blocks:
        offset = torch.zeros(20, 6, dtype=torch.float64, requires_grad=True)
        handle = block.register_forward_pre_hook(
            lambda module, args, offset=offset: (args[0] + offset, *args[1:])
        )
        torch.manual_seed(5)
        scores = model(data.batch)[data.batch.train_mask]
        handle.remove()
        loss = torch.nn.functional.cross_entropy(scores, data.batch.y[data.batch.train_mask])
        expected.append(float(torch.autograd.grad(loss, offset)[0].norm()))
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callback = GradientNorms()
    make_trainer([callback], max_epochs=1).fit(model, datamodule=data)
    assert values(callback)[1][0] == pytest.approx(expected, rel=1e-10)
