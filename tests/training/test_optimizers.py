"""Optimizers in their fused form, and a weight decay of the layers other than that of the rest."""

import copy
from functools import partial

import pytest
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop
from torch.optim.lr_scheduler import OneCycleLR

from gnn_depth.config_file import read_config
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.training import NodeClassifier
from gnn_depth.training.models import select_section
from gnn_depth.training.optimizers import fuse, rehearse


@pytest.mark.parametrize(
    ("make", "options"),
    [(RMSprop, {}), (type("Mine", (Adam,), {}), {}), (Adam, {"foreach": False})],
)
def test_other_optimizers_and_the_users_choice_keep_their_form(make, options):
    optimizer = make(nn.Linear(4, 8).parameters(), **options)
    before = copy.deepcopy(optimizer.state_dict())
    fuse(optimizer)
    assert optimizer.state_dict() == before


DECAYING = partial(Adam, lr=0.01, weight_decay=5e-4)


def groups_of(decay=0.01, optimizer=DECAYING, **options):
    """A model and its parameter groups: their weight decays and parameters."""
    torch.manual_seed(0)
    options |= {"hidden_channels": 8, "num_layers": 3, "optimizer": optimizer}
    model = NodeClassifier(4, 2, layer_weight_decay=decay, **options)
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
    assert decay == 0.01, "a stack of layers alone has one group"


def test_a_schedule_that_is_too_short_for_the_training_is_refused_before_it():
    schedule = partial(OneCycleLR, max_lr=0.1, total_steps=5)
    rehearse(partial(Adam), schedule, epochs=5)
    with pytest.raises(MisconfigurationException, match=r"OneCycleLR, in epoch 6 of 20, fails"):
        rehearse(partial(Adam), schedule, epochs=20)


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


@pytest.mark.parametrize("decay", [None, 0.01])
def test_learning_rates_fall_with_depth_as_the_exponent_says_and_schedules_start_there(decay):
    for layers, exponent, wanted in ((16, 1.5, 0.01 / 64), (16, 0.5, 0.01 / 4), (3, 0.0, 0.01)):
        options = {"num_layers": layers, "layer_weight_decay": decay, "depth_lr": exponent}
        options["scheduler"] = {"name": "StepLR", "step_size": 1, "gamma": 0.5}
        model = NodeClassifier(4, 2, hidden_channels=8, optimizer=DECAYING, **options)
        made = model.configure_optimizers()
        optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
        rates = [group["lr"] for group in optimizer.param_groups]
        assert rates == pytest.approx([wanted] * len(rates))
        optimizer.step()
        schedule.step()
        halved = [group["lr"] for group in optimizer.param_groups]
        assert halved == pytest.approx([wanted / 2] * len(rates))


def test_a_schedule_with_rates_of_its_own_is_refused_beside_depth_lr():
    options = {"hidden_channels": 8, "num_layers": 4, "depth_lr": 1.5}
    own = {"name": "OneCycleLR", "max_lr": 0.01, "total_steps": 6}
    model = NodeClassifier(4, 2, scheduler=own, **options)
    with pytest.raises(MisconfigurationException, match="but OneCycleLR sets"):
        model.configure_optimizers()
    warm = {"name": "LinearLR", "start_factor": 0.1}
    NodeClassifier(4, 2, scheduler=warm, **options).configure_optimizers()
