import copy

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop

from gnn_depth.training.optimizers import fused

ADAM = {"lr": 0.01, "weight_decay": 0.1}


def losses(model, optimizer, steps=20):
    x, y = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def forms(optimizer):
    return {(group["fused"], group["foreach"]) for group in optimizer.param_groups}


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("cls", "options"),
    [(Adam, ADAM | {"amsgrad": True}), (AdamW, ADAM), (SGD, {"lr": 0.1, "momentum": 0.9}), (Adagrad, {"lr": 0.1})],
)
def test_a_fused_optimizer_is_the_same_to_rounding(model, cls, options):
    twin = copy.deepcopy(model)
    optimizer = fused(cls(model.parameters(), **options), None)
    assert type(optimizer) is cls
    assert forms(optimizer) == {(True, None)}
    assert losses(model, optimizer) == pytest.approx(losses(twin, cls(twin.parameters(), **options)), rel=1e-5)


def test_every_group_keeps_its_own_options(model):
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters(), "weight_decay": 0.3}]
    optimizer = fused(AdamW(groups, lr=0.01, betas=(0.5, 0.6)), None)
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(0.5, 0.01), (0.01, 0.3)]
    assert optimizer.param_groups[0]["betas"] == (0.5, 0.6)


@pytest.mark.parametrize(
    "options", [{"fused": False}, {"foreach": True}, {"foreach": False}, {"differentiable": True}, {"capturable": True}]
)
def test_what_the_user_chose_stays(model, options):
    optimizer = Adam(model.parameters(), **options)
    assert fused(optimizer, None) is optimizer


def test_other_optimizers_and_other_numbers_are_left_alone(model):
    other = RMSprop(model.parameters())
    assert fused(other, None) is other

    class Mine(Adam):
        pass

    mine = Mine(model.parameters())
    assert fused(mine, None) is mine
    half = Adam(model.bfloat16().parameters())
    assert fused(half, None) is half


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_written_either_way_resumes_in_the_runs_own_form(model, first):
    def make(is_fused):
        return fused(Adam(model.parameters(), **ADAM, fused=None if is_fused else False), None)

    before = make(first)
    losses(model, before, 5)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(before.state_dict())
    expected = losses(model, before, 5)
    model.load_state_dict(weights)
    after = make(not first)
    form = forms(after)
    after.load_state_dict(state)
    assert forms(after) == form
    assert losses(model, after, 5) == pytest.approx(expected, rel=1e-5)


def test_scaled_gradients_that_are_clipped_keep_the_plain_form(model):
    class Trainer:
        precision, gradient_clip_val = "16-mixed", 1.0

    optimizer = Adam(model.parameters())
    assert fused(optimizer, Trainer()) is optimizer
