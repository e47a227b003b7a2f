"""What the package expects of private parts of PyTorch."""

import pytest
import torch

from gnn_depth import torch_internals


class Sub(torch.Tensor):
    pass


ORDINARY = {
    "tensor": torch.ones(3),
    "parameter": torch.nn.Parameter(torch.ones(3)),
    "part": torch.ones(3, 4)[:, 1],
    "subclass": torch.ones(3).as_subclass(Sub),
    "negative": torch.ones(3, dtype=torch.complex64).conj().imag,
    "zero": torch._efficientzerotensor((3,)),
    "sparse": torch.eye(3).to_sparse(),
    "meta": torch.ones(3, device="meta"),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_it_is_known_which_tensors_have_their_numbers_in_memory(name):
    is_ordinary = name in ("tensor", "parameter", "part", "meta")
    assert torch_internals.is_ordinary(ORDINARY[name]) == is_ordinary
    with torch.inference_mode():
        assert torch_internals.is_ordinary(torch.ones(3))


def test_operations_in_place_are_counted_except_in_inference_mode():
    x = torch.zeros(3)
    before = torch_internals.version(x)
    assert torch_internals.version(x) == before
    x.add_(1)
    assert torch_internals.version(x) != before
    with torch.inference_mode():
        assert torch_internals.version(torch.zeros(3)) is None


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "full_backward_pre", "full_backward"])
def test_every_kind_of_hook_is_seen(kind):
    model = torch.nn.Linear(3, 3)
    assert not torch_internals.has_hooks(model)
    handle = getattr(model, f"register_{kind}_hook")(print)
    assert torch_internals.has_hooks(model)
    handle.remove()
    assert not torch_internals.has_hooks(model)
