"""Optimizers in their fused form, and a weight decay of the layers other than that of the rest."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop

from gnn_depth.config_file import read_config
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.training import NodeClassifier
from gnn_depth.training.models import select_section
from gnn_depth.training.module import fuse


@pytest.mark.parametrize(
    ("make", "options"),
    [(RMSprop, {}), (type("Mine", (Adam,), {}), {}), (Adam, {"foreach": False})],
)
def test_other_optimizers_and_the_users_choice_keep_their_form(make, options):
    optimizer = make(nn.Linear(4, 8).parameters(), **options)
    before = copy.deepcopy(optimizer.state_dict())
    fuse(optimizer)
    assert optimizer.state_dict() == before


def groups_of(**options):
    """A model and its parameter groups: their weight decays and parameters."""
    options |= {"hidden_channels": 8, "num_layers": 3, "layer_weight_decay": 0.01}
    model = NodeClassifier(4, 2, optimizer=partial(Adam, weight_decay=5e-4), **options)
    groups = model.configure_optimizers().param_groups
    return model, [(group["weight_decay"], group["params"]) for group in groups]


@pytest.mark.parametrize(
    "options", [{}, {"share_layers": True}, {"layer": partial(GAT, heads=2), "norm": [LayerNorm]}]
)
def test_the_layers_decay_by_themselves_and_all_else_as_the_optimizer_says(options):
    model, ((layers, ours), (rest, others)) = groups_of(**options)
    assert (layers, rest) == (0.01, 5e-4)
    assert set(ours) == set(model.stack.layers.parameters())
    assert set(ours) | set(others) == set(model.parameters())
    # None is in both, and none twice.
    assert len(ours) + len(others) == len(list(model.parameters()))
    _, ((decay, _),) = groups_of(encoder="none", decoder="none")
    assert decay == 0.01  # a stack of layers alone has one group


def test_a_schedule_of_another_length_than_the_training_is_named(make_trainer, tiny, caplog):
    schedule = {"name": "CosineAnnealingLR", "T_max": 5}
    make_trainer(2).fit(NodeClassifier(4, 2, hidden_channels=8, scheduler=schedule), tiny)
    assert "CosineAnnealingLR has T_max 5, and the training 2 epochs" in caplog.text


@pytest.mark.parametrize(
    ("schedule", "length"),
    [
        (read_config("gat_lip_30").data["model"]["scheduler"], {"T_max": 7}),
        ({"name": "PolynomialLR", "total_iters": 3}, {"total_iters": 3}),
        ({"name": "OneCycleLR", "max_lr": 0.1}, {"total_steps": 7}),
        ({"name": "LinearLR", "start_factor": 0.1}, {"total_iters": None}),
    ],
)
def test_a_schedule_is_as_long_as_the_training_unless_its_length_is_given(schedule, length):
    chosen = select_section("model", {"scheduler": schedule}, 7)["scheduler"]
    for name, value in length.items():
        assert chosen.options.get(name) == value


@pytest.mark.parametrize("cls", [Adam, AdamW, partial(SGD, lr=0.1), Adagrad])
@pytest.mark.parametrize("precision", ["bf16-mixed", "32-true"])
def test_a_fused_optimizer_is_the_same_to_rounding(make_trainer, tiny, cls, precision):
    def train(**options):
        torch.manual_seed(0)
        model = NodeClassifier(4, 2, hidden_channels=8, optimizer=partial(cls, **options))
        trainer = make_trainer(4, precision=precision, gradient_clip_val=0.1)
        trainer.fit(model, tiny)
        assert trainer.optimizers[0].param_groups[0]["fused"] is options.get("fused", True)
        return model.parameters()

    for fused, plain in zip(train(), train(fused=False), strict=True):
        torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-6)
