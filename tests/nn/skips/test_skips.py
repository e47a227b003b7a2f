import torch

from gnn_depth.nn.skips import NoSkip, Residual


def test_no_skip_returns_the_update():
    update = torch.randn(3, 2)
    assert NoSkip([4], 2)(update, [torch.randn(3, 4)]) is update


def test_residual_adds_the_latest_state():
    update, first, latest = torch.randn(3, 2), torch.randn(3, 5), torch.randn(3, 2)
    assert torch.equal(Residual([5, 2], 2)(update, [first, latest]), latest + update)


def test_residual_maps_a_state_of_another_width():
    skip, state = Residual([5], 2), torch.randn(3, 5)
    update = torch.zeros(3, 2)
    assert torch.equal(skip(update, [state]), skip.project(state))
    assert skip.project.bias is None
