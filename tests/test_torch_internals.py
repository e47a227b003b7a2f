"""What the package expects of private parts of PyTorch."""

import pytest
import torch

from gnn_depth import torch_internals


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [True, False])
def test_bags_are_summed(dtype, weighted):
    x = torch.randn(5, 3, dtype=dtype)
    index, ptr = torch.tensor([4, 0, 0, 2]), torch.tensor([0, 1, 1, 4])
    weights = torch.randn(4, dtype=dtype) if weighted else None
    rows = x[index]
    if weights is not None:
        rows = weights[:, None] * rows
    wanted = torch.stack([rows[0], torch.zeros(3, dtype=dtype), rows[1:].sum(0)])
    torch.testing.assert_close(torch_internals.embedding_bag(x, index, ptr, weights), wanted)


def test_another_shape_of_a_new_tensor_shares_its_memory_and_is_no_view():
    x = torch.randn(6)
    out = torch_internals.reshaped(x, [2, 3])
    assert torch.equal(out, x.view(2, 3))
    assert out.data_ptr() == x.data_ptr()
    assert not out._is_view()


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
@pytest.mark.parametrize("row", [torch.randn(4), None])
def test_a_product_by_onednn_is_that_of_torch(row):
    left, right = torch.randn(5, 3), torch.randn(4, 3)
    wanted = torch.nn.functional.linear(left, right, row)
    torch.testing.assert_close(torch_internals.onednn_linear(left, right, row), wanted)


def test_transforms_and_the_tensors_that_they_wrap_are_known():
    seen = []

    def function(x):
        seen.append((torch_internals.is_transforming(), torch_internals.is_wrapped(x)))
        return x.sum()

    x = torch.randn(3)
    torch.func.grad(function)(x)
    torch.func.vmap(function)(x[:, None])
    torch.func.jvp(function, (x,), (x,))
    function(x)
    assert seen == [(True, True), (True, True), (True, True), (False, False)]


def test_levels_of_forward_mode_differentiation_are_known():
    assert not torch_internals.in_forward_mode()
    with torch.autograd.forward_ad.dual_level():
        assert torch_internals.in_forward_mode()
    assert not torch_internals.in_forward_mode()


def test_operations_in_place_are_counted_except_in_inference_mode():
    x = torch.zeros(3)
    before = torch_internals.version(x)
    assert torch_internals.version(x) == before
    x.add_(1)
    assert torch_internals.version(x) != before
    with torch.inference_mode():
        assert torch_internals.version(torch.zeros(3)) is None


def test_hooks_are_away_for_a_while_and_back_afterwards():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    seen = []
    model.register_forward_hook(lambda *_: seen.append("outer"))
    model[0].register_forward_pre_hook(lambda *_: seen.append("inner"))
    model[0].register_full_backward_hook(lambda *_: seen.append("backward"))
    x = torch.randn(2, 3, requires_grad=True)
    with torch_internals.without_hooks(model):
        model(x).sum().backward()
        assert not torch_internals.has_hooks(model[0])
        handle = model.register_forward_hook(lambda *_: seen.append("within"))
        model(x)
        handle.remove()
    assert seen == ["within"]
    model(x).sum().backward()
    assert seen == ["within", "inner", "outer", "backward"]
