import pytest
import torch

from gnn_depth.nn.norms import FrobeniusNorm, WeightNormalisation


def settled(norm, weight):
    with torch.no_grad():
        norm.settle(weight)
    return norm


@pytest.mark.parametrize(("size", "mode", "after"), [(3.0, "cap", 2.0), (1.0, "cap", 1.0), (1.0, "exact", 2.0)])
def test_the_frobenius_norm_is_capped_or_made_exact(size, mode, after):
    weight = torch.randn(4, 3, dtype=torch.float64)
    weight *= size / weight.norm()
    normed = settled(FrobeniusNorm(8, bound=2.0, mode=mode), weight)(weight)
    torch.testing.assert_close(normed, weight * after / size)


@pytest.mark.parametrize("mode", ["cap", "exact"])
def test_gradients_through_the_frobenius_norm_are_those_of_differences(mode):
    weight = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(settled(FrobeniusNorm(8, per_depth=4.0, mode=mode), weight), weight)


@pytest.mark.parametrize("norm", [FrobeniusNorm(2), FrobeniusNorm(2, mode="exact"), WeightNormalisation(2)])
def test_zeros_stay_zero_with_a_finite_gradient(norm):
    weight = torch.zeros(3, 2, requires_grad=True)
    normed = settled(norm, weight.detach())(weight)
    (grad,) = torch.autograd.grad(normed.sum(), weight)
    assert torch.equal(normed, weight)
    assert grad.isfinite().all()


def test_weight_normalisation_begins_at_the_weights_and_is_torchs_in_values_and_gradients():
    linear = torch.nn.Linear(3, 4, bias=False, dtype=torch.float64)
    weight = linear.weight.detach().clone().requires_grad_()
    norm = settled(WeightNormalisation(2), weight)
    torch.testing.assert_close(norm(weight), weight)
    torch.nn.utils.parametrizations.weight_norm(linear)
    theirs = linear.parametrizations.weight
    with torch.no_grad():
        for direction, length in ((weight, norm.length[:, None]), (theirs.original1, theirs.original0)):
            torch.manual_seed(3)
            direction.add_(torch.randn(4, 3))
            length.mul_(torch.rand(4, 1) + 0.5)
    along = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(norm(weight), linear.weight)
    ours = torch.autograd.grad((norm(weight) * along).sum(), (norm.length, weight))
    wanted = torch.autograd.grad((linear.weight * along).sum(), (theirs.original0, theirs.original1))
    torch.testing.assert_close(ours[0][:, None], wanted[0])
    torch.testing.assert_close(ours[1], wanted[1])
