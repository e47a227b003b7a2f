"""Linear maps, by oneDNN or not, and dot products of heads."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

from gnn_depth import torch_internals
from gnn_depth.nn.functional import head_dots, linear, onednn
from gnn_depth.nn.functional.linear import NARROW, matrix_product
from tests.reference import agree

AMD = "processor : 0\nvendor_id\t: AuthenticAMD\nflags : avx512f\n"
INTEL = "vendor_id\t: GenuineIntel\n"
needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here"
)


@pytest.fixture
def by_onednn(monkeypatch):
    """Every product goes to oneDNN; gives the number of those that did."""
    calls = []
    original = torch_internals.onednn_linear

    def counted(*factors):
        calls.append(factors)
        return original(*factors)

    monkeypatch.setattr(torch_internals, "onednn_linear", counted)
    monkeypatch.setattr(onednn, "FASTER", True)
    monkeypatch.setattr(onednn, "FEWEST", 1)
    monkeypatch.setattr(onednn, "NEW_SHAPE", 1)
    return calls


def draw(nodes, inputs, outputs, dtype=torch.float32):
    draws = torch.Generator().manual_seed(0)
    shapes = (nodes, inputs), (outputs, inputs), (outputs,)
    return [torch.randn(shape, generator=draws, dtype=dtype).requires_grad_() for shape in shapes]


def passes(function, *inputs):
    out = function(*inputs)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return out, *torch.autograd.grad(out, inputs, direction)


def in_float64(function, *inputs):
    return passes(function, *(given.detach().double().requires_grad_() for given in inputs))


def test_products_agree_with_differences_twice():
    given = draw(5, 3, 4, torch.float64)
    assert gradcheck(matrix_product, given)
    assert gradgradcheck(matrix_product, given)


@needs_onednn
@pytest.mark.parametrize(("nodes", "inputs", "outputs"), [(1, 1, 1), (301, 64, 64), (33, 130, 257)])
@pytest.mark.parametrize("bias", [True, False])
def test_onednn_gives_the_same_numbers_and_gradients_as_float64(
    by_onednn, nodes, inputs, outputs, bias
):
    given = draw(nodes, inputs, outputs)[: 3 if bias else 2]
    ours, exact = passes(linear, *given), in_float64(F.linear, *given)
    assert len(by_onednn) == 3  # forward, and for each factor backward
    for got, wanted in zip(ours, exact, strict=True):
        assert got.dtype == torch.float32
        assert (got - wanted).norm() <= 1e-6 * wanted.norm()


@needs_onednn
def test_onednn_takes_tensors_as_they_lie(by_onednn):
    x, weight, bias = draw(300, 64, 48)
    for given in (
        (x[::2], weight),
        (x[:, :32], weight[:, 16:48]),
        (x.t()[:, :64], weight),
        (x[3:, :48], weight.t()),
    ):
        torch.testing.assert_close(linear(*given), F.linear(*given), rtol=1e-5, atol=1e-4)
    for row in (bias.repeat_interleave(2)[::2], bias[:1].expand(48), bias.flip(0)):
        torch.testing.assert_close(
            linear(x, weight, row), F.linear(x, weight, row), rtol=1e-5, atol=1e-4
        )
    assert len(by_onednn) == 7


def test_torch_computes_what_onednn_does_not(by_onednn, monkeypatch):
    x, weight, bias = draw(40, 16, 24)
    wide = [given.double() for given in (x, weight, bias)]
    assert torch.equal(linear(*wide), F.linear(*wide))
    of_three_axes = x.view(4, 10, 16)
    assert torch.equal(linear(of_three_axes, weight, bias), F.linear(of_three_axes, weight, bias))
    assert linear(x[:, :0], weight[:, :0]).eq(0).all()
    assert linear(x[:0], weight).shape == (0, 24)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    monkeypatch.setattr(onednn, "FASTER", False)
    linear(*draw(300, 512, 512)).sum().backward()
    assert not by_onednn


@pytest.mark.parametrize(
    ("cpuinfo", "named", "capability", "faster"),
    [
        (AMD, "", "AVX512", True),
        (AMD, "", "AVX2", False),
        (INTEL, "", "AVX512", False),
        (None, "", "AVX512", False),
    ],
)
def test_which_is_faster_is_told_by_the_maker(
    tmp_path, monkeypatch, cpuinfo, named, capability, faster
):
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(onednn, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.processor", lambda: named)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    for library in (torch.backends.mkl, torch.backends.mkldnn):
        monkeypatch.setattr(library, "is_available", lambda: True)
    assert onednn.is_faster() == faster
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert not onednn.is_faster()


@pytest.mark.parametrize("channels", [1, NARROW - 1, NARROW])
@pytest.mark.parametrize("nodes", [0, 5])
def test_products_and_their_gradients_are_those_of_einsum(nodes, channels):
    x = torch.randn(nodes, 4, channels, dtype=torch.float64, requires_grad=True)
    vectors = [torch.randn(4, channels, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ours = torch.stack(head_dots(x, *vectors))
    expected = torch.stack([torch.einsum("nhc,hc->nh", x, a) for a in vectors])
    agree(ours, expected, [x, *vectors], 1e-12, allow_unused=nodes == 0)


@pytest.mark.parametrize("channels", [8, 20])
def test_products_with_wider_numbers_are_wider(channels):
    x, a = torch.randn(5, 2, channels, dtype=torch.bfloat16), torch.randn(2, channels)
    (out,) = head_dots(x, a)
    torch.testing.assert_close(out, (x.float() * a).sum(-1))
