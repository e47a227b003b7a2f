"""Stacks whose backward pass computes states again: what is measured of them is what there is to measure."""

import pytest
import torch

from gnn_depth.diagnostics import GradientNorms
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.skips import Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import values
from tests.diagnostics.test_own_stacks import TinyDouble

PARTS = {"layer": GAT, "skip": Residual, "num_layers": 5, "hidden_channels": 6, "dropout": 0.5, "activation": "tanh"}


def measured(make_trainer, **options):
    torch.manual_seed(0)
    model, callback = NodeClassifier(4, 2, **PARTS, **options).double(), GradientNorms()
    make_trainer([callback], max_epochs=3, num_sanity_val_steps=0).fit(model, datamodule=TinyDouble())
    return values(callback)


@pytest.mark.parametrize("every", [2, "sqrt"])
def test_checkpoints_change_no_digit_of_any_measurement(make_trainer, every):
    steps, hidden, parameters = measured(make_trainer, checkpoint_every=every)
    expected = measured(make_trainer)
    assert steps.tolist() == expected[0].tolist() == [0, 1, 2]
    assert (hidden == expected[1]).all()
    assert (parameters == expected[2]).all()


def test_the_states_of_a_reversible_stack_are_measured_whole(make_trainer):
    torch.manual_seed(0)
    model, data, expected = NodeClassifier(4, 2, **PARTS, reversible=2).double(), TinyDouble(), []
    for state in model.stack.states:
        offset = torch.zeros(20, 6, dtype=torch.float64, requires_grad=True)
        handle = state.register_forward_hook(lambda module, args, output, offset=offset: output + offset)
        torch.manual_seed(5)
        scores = model(data.batch)[data.batch.train_mask]
        handle.remove()
        loss = torch.nn.functional.cross_entropy(scores, data.batch.y[data.batch.train_mask])
        expected.append(float(torch.autograd.grad(loss, offset)[0].norm()))
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callback = GradientNorms()
    make_trainer([callback], max_epochs=1, num_sanity_val_steps=0).fit(model, datamodule=data)
    assert values(callback)[1][0] == pytest.approx(expected, rel=1e-10)


def test_measured_and_unmeasured_runs_of_a_reversible_stack_agree(make_trainer):
    weights = []
    for callbacks in ([GradientNorms()], []):
        torch.manual_seed(0)
        model = NodeClassifier(4, 2, **PARTS, reversible=2).double()
        make_trainer(callbacks, max_epochs=3, num_sanity_val_steps=0).fit(model, datamodule=TinyDouble())
        weights.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(*weights, rtol=1e-9, atol=1e-9)
