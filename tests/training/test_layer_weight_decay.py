"""A weight decay of the layers, other than that of the rest."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.optim import SGD, Adam, AdamW

from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.training import NodeClassifier

ADAM = partial(Adam, lr=0.01, weight_decay=5e-4)


def made(decay=0.01, optimizer=ADAM, **options):
    """A model and its parameter groups: their weight decays and parameters."""
    torch.manual_seed(0)
    model = NodeClassifier(
        4, 2, hidden_channels=8, num_layers=3, optimizer=optimizer, layer_weight_decay=decay, **options
    )
    groups = model.configure_optimizers().param_groups
    return model, [(group["weight_decay"], group["params"]) for group in groups]


def same(ours, theirs):
    return {id(parameter) for parameter in ours} == {id(parameter) for parameter in theirs}


@pytest.mark.parametrize("options", [{}, {"share_layers": True}, {"layer": partial(GAT, heads=2), "norm": [LayerNorm]}])
def test_the_layers_decay_by_themselves_and_all_else_as_the_optimizer_says(options):
    model, ((layers, ours), (rest, others)) = made(**options)
    assert (layers, rest) == (0.01, 5e-4)
    assert same(ours, model.stack.layers.parameters())
    assert same([*ours, *others], model.parameters())
    assert len(ours) + len(others) == len(list(model.parameters()))  # none is in both, and none twice


def test_a_stack_of_layers_alone_has_one_group():
    model, ((decay, parameters),) = made(encoder="none", decoder="none")
    assert decay == 0.01
    assert same(parameters, model.parameters())


def test_none_leaves_everything_to_the_optimizer():
    model, ((decay, parameters),) = made(None)
    assert decay == 5e-4
    assert same(parameters, model.parameters())


def test_groups_of_the_users_own_are_parted_and_keep_their_options():
    def grouped(parameters):
        matrices, vectors = [], []
        for parameter in parameters:
            (matrices if parameter.dim() > 1 else vectors).append(parameter)
        return AdamW([{"params": matrices, "lr": 0.5}, {"params": vectors, "weight_decay": 0.0}], lr=0.1)

    model, _ = made(0.3, grouped)
    found = model.configure_optimizers().param_groups
    assert [(group["lr"], group["weight_decay"]) for group in found] == [
        (0.5, 0.3),
        (0.5, 0.01),
        (0.1, 0.3),
        (0.1, 0.0),
    ]
    assert all(group["fused"] for group in found)


def test_a_step_follows_the_formula(tiny, make_trainer):
    model, _ = made(0.3, partial(SGD, lr=0.1, weight_decay=0.02))
    batch = tiny.batch
    loss = F.cross_entropy(model(batch)[batch.train_mask], batch.y[batch.train_mask])
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    expected = {
        name: weight.detach() - 0.1 * (gradient + (0.3 if name.startswith("stack.layers.") else 0.02) * weight.detach())
        for (name, weight), gradient in zip(model.named_parameters(), gradients)
    }
    make_trainer(1).fit(model, tiny)
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name])


def test_a_resumed_training_is_the_uninterrupted_one(tiny, make_trainer, tmp_path):
    whole, half, resumed = (made()[0] for _ in range(3))
    make_trainer(6).fit(whole, tiny)
    first = make_trainer(3)
    first.fit(half, tiny)
    first.save_checkpoint(tmp_path / "half.ckpt")
    make_trainer(6).fit(resumed, tiny, ckpt_path=tmp_path / "half.ckpt", weights_only=True)
    assert [group["weight_decay"] for group in resumed.optimizers().param_groups] == [0.01, 5e-4]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters()))


@pytest.mark.parametrize(
    ("decay", "optimizer", "message"),
    [
        (0.1, torch.optim.LBFGS, "layer_weight_decay 0.1 has no place in optimizer LBFGS, which has no weight decay"),
        (0.1, torch.optim.Rprop, "layer_weight_decay 0.1 has no place in optimizer Rprop"),
        (-0.1, ADAM, "layer_weight_decay must be a number of at least 0, not -0.1"),
        (float("nan"), ADAM, "layer_weight_decay must be a number of at least 0, not nan"),
    ],
)
def test_what_cannot_decay_so_is_refused(decay, optimizer, message):
    with pytest.raises(MisconfigurationException, match=message):
        made(decay, optimizer)
