"""After balancing as much comes into every neuron as leaves it."""

from functools import partial
from itertools import pairwise

import pytest
import torch

from gnn_depth.diagnostics.balance import imbalance, size
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits import Balanced, BalancedXavier, DefaultInit, Orthogonal, Xavier
from gnn_depth.nn.layers import GCN, GGNN, GATv2
from gnn_depth.nn.neurons import links
from gnn_depth.nn.skips import Dense, Residual
from tests.nn.inits.test_matrices import INITS
from tests.nn.stacks import STACKS, stack_of

BASES = INITS | {"default": DefaultInit()}
#: Those that every stack begins with: one with attention and one with many zeros.
OF_ALL = ("xavier", "looks-linear identity")
LL_ORTHOGONAL = Orthogonal(looks_linear=True)
XAVIER_ZERO = Xavier(attention="zero")


def assert_balanced(stack):
    found = links(stack)
    assert found
    for link in found:
        assert (imbalance(link).abs() <= 1e-6 * size(link)).all()
        assert (size(link) > 1e-3).all()
    assert all((att == 0).all() for layer in stack.layers for att in layer.weight_chain().attention)
    assert all(parameter.isfinite().all() for parameter in stack.parameters())


@pytest.mark.parametrize(("variant", "assembly"), STACKS)
def test_every_neuron_is_balanced_for_every_base_layer_and_assembly(variant, assembly):
    stack = stack_of(variant, assembly)
    assert not all((imbalance(link).abs() <= 1e-6 * size(link)).all() for link in links(stack))
    for name, base in BASES.items():
        fits = stack.jump == "last" or not getattr(base, "looks_linear", False)
        tried = assembly == "bare" or variant == "gatv2" or name in OF_ALL
        if fits and tried:
            Balanced(base, beta=1.5)(stack)
            assert_balanced(stack)


def test_balancing_is_the_procedure_of_the_paper():
    options = {"encoder": "none", "decoder": "none"}
    ours = DeepGNN(10, 4, partial(GATv2, share_weights=True), 4, 6, **options)
    torch.manual_seed(5)
    Balanced(LL_ORTHOGONAL, beta=3.0)(ours)
    theirs = DeepGNN(10, 4, partial(GATv2, share_weights=True), 4, 6, **options)
    torch.manual_seed(5)
    LL_ORTHOGONAL(theirs)
    weights = [layer.lin_src.weight.detach().double() for layer in theirs.layers]
    for row in weights[0]:
        row *= 3.0**0.5 / row.norm()
    for before, after in pairwise(weights):
        for i in range(6):
            after[:, i] *= before[i].norm() / after[:, i].norm()
    for layer, weight in zip(ours.layers, weights, strict=True):
        torch.testing.assert_close(layer.lin_src.weight.double(), weight, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("beta", [0.5, 2.0])
@pytest.mark.parametrize("encoder", ["none", "linear"])
def test_beta_is_the_squared_length_of_what_comes_into_the_first_neurons(beta, encoder):
    stack = DeepGNN(10, 4, GATv2, 3, 6, encoder=encoder)
    Balanced(XAVIER_ZERO, beta)(stack)
    first = stack.layers[0]
    weights = [first.lin_src.weight, first.lin_dst.weight]
    if encoder == "linear":
        weights = [stack.encoder.weight]
    found = sum(weight.square().sum(1) for weight in weights)
    torch.testing.assert_close(found, torch.full((6,), beta))


@pytest.mark.parametrize(
    ("layer", "options", "reason"),
    [
        (GGNN, {}, "'ggnn' has no weight chain"),
        (GCN, {"skip": Dense}, "'dense'.*gated, .*residual"),
        (GCN, {"skip": Residual, "encoder": "none"}, "encoder linear"),
    ],
)
def test_what_cannot_be_balanced_is_refused_with_the_reason(layer, options, reason):
    with pytest.raises(ValueError, match=reason):
        BalancedXavier()(DeepGNN(6, 4, layer, 3, 6, **options))
