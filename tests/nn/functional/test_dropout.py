import pytest
import torch

from gnn_depth.nn.functional import dropout
from gnn_depth.nn.functional.dropout import dropout_at, kept
from gnn_depth.nn.native.masks import Mask


def seeds(count):
    return torch.randint(-(2**31), 2**31 - 1, (count, 2), dtype=torch.int32)


@pytest.mark.parametrize("p", [0.3, 0.99])
def test_the_share_that_is_dropped_is_p_and_the_mean_is_kept(p):
    x = torch.ones(1000, 1001)
    out = dropout(x, p)
    dropped = (out == 0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5)
    assert out.double().mean().item() == pytest.approx(
        1.0, abs=6 * (p / (1 - p) / x.numel()) ** 0.5
    )
    assert out.unique().numel() == 2


@pytest.mark.parametrize("p", [1e-9, 1e-5, 1 - 1e-5])
def test_probabilities_near_zero_and_one_are_not_rounded_to_them(p):
    positions = torch.arange(2**20, dtype=torch.int32)
    dropped = sum(int((1 - kept(positions, Mask(seed, p))).sum()) for seed in seeds(8))
    expected = p * 8 * 2**20
    assert abs(dropped - expected) <= 5 * (expected * (1 - p)) ** 0.5 + 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_type_keeps_its_type_and_drops_the_same_elements(dtype):
    torch.manual_seed(3)
    out = dropout(torch.ones(40, 5, dtype=dtype), 0.5)
    torch.manual_seed(3)
    assert out.dtype == dtype
    assert torch.equal(out == 0, dropout(torch.ones(40, 5), 0.5) == 0)


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.3, True), (0.3, False), (1.0, True)])
def test_some_positions_are_dropped_as_in_the_whole(p, training):
    x = torch.rand(30, 41) + 1
    positions = torch.randperm(x.numel())[:500]
    torch.manual_seed(3)
    whole = dropout(x, p, training)
    torch.manual_seed(3)
    some = dropout_at(positions.int(), x.flatten()[positions], p, training)
    assert torch.equal(some, whole.flatten()[positions])


def test_nothing_is_dropped_in_evaluation_and_everything_at_p_one():
    x = torch.rand(5, 3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
    assert (dropout(x, 1.0) == 0).all()
    for shape in ((0, 3), (3, 0)):
        assert dropout(torch.zeros(shape), 0.5).shape == shape


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_counts_over_many_seeds_are_those_of_a_binomial(p):
    positions = torch.arange(2**16, dtype=torch.int32)
    counts = torch.stack([kept(positions, Mask(seed, p)).sum() for seed in seeds(200)])
    z = (counts - 2**16 * (1 - p)) / (2**16 * p * (1 - p)) ** 0.5
    assert abs(z.sum()) / 200**0.5 < 5
    assert z.abs().max() < 5
    assert abs(z.square().sum() - 200) / 400**0.5 < 5
