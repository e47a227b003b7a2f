import pytest
import torch

from gnn_depth.nn.functional import dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.6, 0.99])
def test_the_share_that_is_dropped_is_p_and_the_mean_is_kept(p):
    x = torch.ones(1000, 1001)
    out = dropout(x, p)
    dropped = (out == 0).double().mean().item()
    assert dropped == pytest.approx(p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5 + 1 / 65536)
    assert out.double().mean().item() == pytest.approx(1.0, abs=6 * (p / (1 - p) / x.numel()) ** 0.5)
    assert out.unique().numel() == 2


def test_elements_are_dropped_independently_of_their_neighbours():
    kept = (dropout(torch.ones(1 << 20), 0.5) > 0).double() - 0.5
    for lag in (1, 2, 3, 4, 5, 64):
        correlation = (kept[lag:] * kept[:-lag]).mean().item() / 0.25
        assert abs(correlation) < 5 / len(kept) ** 0.5


def test_the_gradient_is_scaled_and_dropped_as_the_value_was():
    x = torch.rand(50, 3, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x, out)


def test_a_seed_gives_the_same_mask_for_any_number_of_threads():
    masks = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(3)
            masks.append(dropout(torch.ones(300, 301), 0.5))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*masks)


def test_nothing_is_dropped_in_evaluation_and_everything_at_p_one():
    x = torch.rand(5, 3)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x
    assert (dropout(x, 1.0) == 0).all()
