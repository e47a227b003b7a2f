"""Norms of weight matrices: spectral, Frobenius, weight normalisation."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.norms import FrobeniusNorm, SpectralNorm, WeightNormalisation
from gnn_depth.nn.norms.weights import TOLERANCE, certified, largest_vectors
from gnn_depth.nn.skips import Residual

WIDE = torch.float64


def nearly_equal_at_the_top():
    q = torch.linalg.qr(torch.randn(6, 6, dtype=WIDE)).Q
    values = torch.tensor([2.0, 1.9999, 1.99, 1.0, 0.5, 0.1], dtype=WIDE)
    return q @ torch.diag(values) @ q.flip(1).T


MATRICES = {
    "square": lambda: torch.randn(8, 8, dtype=WIDE),
    "high": lambda: torch.randn(9, 4, dtype=WIDE),
    "wide": lambda: torch.randn(3, 7, dtype=WIDE),
    "row": lambda: torch.randn(1, 5, dtype=WIDE),
    "column": lambda: torch.randn(5, 1, dtype=WIDE),
    "number": lambda: torch.full((1, 1), -3.0, dtype=WIDE),
    "nearly_equal": nearly_equal_at_the_top,
    "rank_one": lambda: torch.outer(torch.randn(4, dtype=WIDE), torch.randn(6, dtype=WIDE)),
    "tiny": lambda: 1e-20 * torch.randn(4, 4, dtype=WIDE),
    "huge": lambda: 1e20 * torch.randn(4, 4, dtype=WIDE),
}
every_matrix = pytest.mark.parametrize("kind", MATRICES)


def with_state(norm, weight):
    with torch.no_grad():
        norm.reset_state(weight)
    return norm


def largest(weight):
    return torch.linalg.matrix_norm(weight.detach(), 2)


@every_matrix
def test_cap_leaves_smaller_ones_as_they_are(kind):
    weight = MATRICES[kind]()
    small = weight.clone().requires_grad_()
    normed = with_state(SpectralNorm(4, largest(weight).item() * 1.1), weight)(small)
    assert torch.equal(normed, weight)
    assert (torch.autograd.grad(normed.sum(), small)[0] == 1).all()


@every_matrix
@pytest.mark.parametrize("mode", ["cap", "exact"])
def test_the_gradient_is_that_of_the_formula_by_singular_values(kind, mode):
    weight = MATRICES[kind]().requires_grad_()
    limit = 0.4 * largest(weight)
    # Of a formula that is linear in the direction, with the size taken out of the way.
    direction = torch.randn_like(weight)
    normed = with_state(SpectralNorm(4, limit.item(), mode=mode), weight.detach())(weight)
    wanted = weight * limit / torch.linalg.svdvals(weight)[0]
    torch.testing.assert_close(normed, wanted, rtol=1e-9, atol=0)
    (ours,) = torch.autograd.grad(normed, weight, direction)
    (theirs,) = torch.autograd.grad(wanted, weight, direction)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@given(
    seed=st.integers(0, 2**32 - 1),
    above=st.floats(1e-5, 0.5),
    shape=st.sampled_from([(4, 4), (3, 7), (9, 2)]),
)
def test_only_a_limit_that_holds_is_certified(seed, above, shape):
    draws = torch.Generator().manual_seed(seed)
    weight = torch.randn(1, *shape, dtype=WIDE, generator=draws)
    u, v = largest_vectors(weight)
    size = largest(weight).item()
    assert certified(weight, u, v, 0.0)
    assert certified(weight, u, v, size * (1 + above))
    # Vectors that miss the largest singular value by more than the tolerance.
    missed = u * (1 - 2 * TOLERANCE)
    assert not certified(weight, missed, v, 0.0)


def cap_of(stack, bound):
    return max(largest(layer.lin.normed_weight.double()).item() for layer in stack.layers) / bound


def test_no_matrix_exceeds_the_cap_in_training_evaluation_or_after_loading():
    ring = torch.arange(12)
    graph = Graph(torch.cat([torch.stack([ring, (ring + s) % 12]) for s in (1, -1)], 1), 12)
    make = partial(DeepGNN, 6, 3, GCN, 4, 16, [partial(SpectralNorm, per_depth=2.0)], Residual)
    stack, x, classes = make(), torch.randn(12, 6), ring % 3
    optimizer = torch.optim.Adam(stack.parameters(), 0.05)
    for _ in range(6):  # weights move fast
        torch.nn.functional.cross_entropy(stack(x, graph), classes).backward()
        assert cap_of(stack, 0.5) <= 1.001
        optimizer.step()
        optimizer.zero_grad()
        with torch.inference_mode():
            stack.eval()(x, graph)
        assert cap_of(stack, 0.5) <= 1.001
        stack.train()
    optimizer.step()
    loaded = make()
    loaded.load_state_dict(stack.state_dict())
    loaded.eval()(x, graph)
    assert cap_of(loaded, 0.5) <= 1.001


@pytest.mark.parametrize(
    ("size", "mode", "after"), [(3.0, "cap", 2.0), (1.0, "cap", 1.0), (1.0, "exact", 2.0)]
)
def test_the_frobenius_norm_is_capped_or_made_exact(size, mode, after):
    weight = torch.randn(4, 3, dtype=torch.float64)
    weight *= size / weight.norm()
    normed = with_state(FrobeniusNorm(8, bound=2.0, mode=mode), weight)(weight)
    torch.testing.assert_close(normed, weight * after / size)


@pytest.mark.parametrize(
    "norm", [FrobeniusNorm(2), FrobeniusNorm(2, mode="exact"), WeightNormalisation(2)]
)
def test_zeros_stay_zero_with_a_finite_gradient(norm):
    weight = torch.zeros(3, 2, requires_grad=True)
    normed = with_state(norm, weight.detach())(weight)
    (grad,) = torch.autograd.grad(normed.sum(), weight)
    assert torch.equal(normed, weight)
    assert grad.isfinite().all()


def test_weight_normalisation_begins_at_the_weights_and_is_torchs_in_values_and_gradients():
    linear = torch.nn.Linear(3, 4, bias=False, dtype=torch.float64)
    weight = linear.weight.detach().clone().requires_grad_()
    norm = with_state(WeightNormalisation(2), weight)
    torch.testing.assert_close(norm(weight), weight)
    torch.nn.utils.parametrizations.weight_norm(linear)
    theirs = linear.parametrizations.weight
    with torch.no_grad():
        theirs.original1.copy_(weight.add_(torch.randn(4, 3)))
        theirs.original0.copy_(norm.length.mul_(torch.rand(4) + 0.5)[:, None])
    along = torch.randn(4, 3, dtype=torch.float64)
    torch.testing.assert_close(norm(weight), linear.weight)
    length, ours = torch.autograd.grad(norm(weight), (norm.length, weight), along)
    of_theirs = (theirs.original0, theirs.original1)
    wanted = torch.autograd.grad(linear.weight, of_theirs, along)
    torch.testing.assert_close((length[:, None], ours), wanted)
