import importlib

import pytest
import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.functional import SparseFeatures, dropout, sparse_features
from gnn_depth.nn.functional.sparse_features import DENSEST, SMALLEST, sparse_form
from gnn_depth.nn.linear import Linear
from tests.nn.functional.cases import distance

# The package has a function of the same name.
MODULE = importlib.import_module("gnn_depth.nn.functional.sparse_features")


def words(rows, columns, share=0.05, dtype=torch.float32):
    dense = torch.randn(rows, columns, dtype=dtype) * (torch.rand(rows, columns) < share)
    dense[rows // 2] = 0
    return dense


@pytest.fixture
def large():
    return words(256, 256)


def test_it_is_used_for_large_float_matrices_of_few_non_zeros_only(large):
    assert (DENSEST, SMALLEST) == (0.1, 2**16)
    x = torch.zeros(256, 256)
    x.view(-1)[: 2**16 // 10] = 1  # 6553 of 6553.6
    assert isinstance(sparse_features(x), SparseFeatures)
    x.view(-1)[2**16 // 10] = 1
    assert sparse_features(x) is x
    for other in (large[:-1], large.int(), large.view(-1), large.view(16, 16, 256)):
        assert sparse_features(other) is other


def set_by_torch(x):
    x[3, 5] = 7.0


def scaled_by_numpy(x):
    x.numpy()[...] *= 2


def shuffled_through_data(x):
    x.data = x.data.roll(3, 0)


@pytest.mark.parametrize("change", [set_by_torch, scaled_by_numpy, shuffled_through_data])
def test_it_is_made_once_for_a_tensor_until_that_changes(large, change):
    before = sparse_features(large)
    assert sparse_features(large) is before
    change(large)
    assert torch.equal(sparse_features(large).dense(), large)
    large.fill_(1.0)
    assert sparse_features(large) is large


def test_features_that_require_a_gradient_stay_dense(large):
    x = large.requires_grad_()
    assert sparse_features(x) is x


@pytest.mark.parametrize("p", [0.0, 0.4, 0.6, 1.0])
def test_dropout_of_the_sparse_form_is_that_of_the_matrix(p):
    dense = words(30, 40)
    torch.manual_seed(3)
    expected = dropout(dense, p)
    torch.manual_seed(3)
    dropped = sparse_form(dense).dropout(p)
    everything = Linear(40, 40, bias=False)
    with torch.no_grad():
        everything.weight.copy_(torch.eye(40))
    assert torch.equal(everything(dropped), expected)
    assert torch.equal(
        sparse_form(dense).dropout(p, training=False).values, sparse_form(dense).values
    )


STACKS = {
    "gat": {"layer": {"name": "gat", "heads": 2, "dropout": 0.3}, "encoder": "none"},
    "gatv2": {"layer": "gatv2", "encoder": "none"},
    "residual": {"encoder": "none", "skip": "residual"},
    "encoder": {},
}


def logits_and_gradients(stack, x, graph):
    torch.manual_seed(3)
    stack.zero_grad()
    out = stack(x, graph)
    out.square().sum().backward()
    return [out, *(parameter.grad for parameter in stack.parameters())]


@pytest.mark.parametrize("kind", STACKS)
def test_a_stack_gives_the_same_logits_and_gradients_with_sparse_features_as_without(
    kind, graph, monkeypatch
):
    x = words(9, 200, dtype=torch.float64)
    options = {"num_layers": 2, "hidden_channels": 8, "dropout": 0.5} | STACKS[kind]
    stack = DeepGNN(200, 3, **options).double()
    seen = []
    original = SparseFeatures.linear
    monkeypatch.setattr(SparseFeatures, "linear", lambda *args: seen.append(1) or original(*args))
    monkeypatch.setattr(MODULE, "SMALLEST", 1)
    sparse = logits_and_gradients(stack, x, graph)
    assert bool(seen) == (kind != "residual")  # whose skip reads the features themselves
    seen.clear()
    monkeypatch.setattr(MODULE, "SMALLEST", float("inf"))
    assert distance(sparse, logits_and_gradients(stack, x, graph)) <= 1e-12
    assert not seen
