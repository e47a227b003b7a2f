"""Properties of the registered feature norms, beside those of tests/testing/built_in.py."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.norms import GraphNorm, MeanNorm, NodeNorm, PairNorm, PairNormSI
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.registry import registered
from tests import reference, reference_norms

NORMS = {name: cls for name, cls in registered("norm").items() if issubclass(cls, FeatureNorm)}
NODEWISE = {"layer", "node", "none"}
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
one_graph = Graph(NO_EDGES, 6)
every_norm = pytest.mark.parametrize("name", NORMS)
LOOPS = {
    "mean": (MeanNorm(4), reference_norms.mean),
    "graph": (GraphNorm(4), reference_norms.graph_norm),
    "pair": (PairNorm(4, scale=2.0), lambda x, graph: reference_norms.pair(x, graph, 2.0)),
    "pair_si": (PairNormSI(4, scale=2.0), lambda x, graph: reference_norms.pair_si(x, graph, 2.0)),
    **{
        f"node, p = {p}": (
            NodeNorm(4, p=p),
            lambda x, graph, p=p: reference_norms.node(x, graph, p),
        )
        for p in (1.0, 2.0, 3.0)
    },
}


@pytest.mark.parametrize("kind", LOOPS)
def test_values_and_gradients_are_those_of_a_loop(kind, together):
    (norm, loop), x = LOOPS[kind], torch.randn(14, 4, dtype=torch.float64, requires_grad=True)
    reference.drawn(norm)
    own = [norm.alpha, norm.gamma, norm.beta] if kind == "graph" else []
    expected = loop(x, together.whole, *own)
    reference.agree(norm(x, together.whole), expected, [x, *own])


@every_norm
def test_a_norm_says_it_is_nodewise_exactly_if_other_nodes_change_nothing(name, graph):
    assert NORMS[name].nodewise == (name in NODEWISE)
    norm, x = NORMS[name](4).double(), torch.randn(9, 4, dtype=torch.float64)
    changed = torch.cat([x[:3], torch.randn(6, 4, dtype=torch.float64)])
    same = torch.equal(norm(x, graph)[:3], norm(changed, graph)[:3])
    assert same == NORMS[name].nodewise


@pytest.mark.parametrize(
    ("half", "convert"), [(torch.bfloat16, False), (torch.float16, True)], ids=str
)
@every_norm
def test_half_precision_comes_back_as_it_came_and_near_what_float32_gives(
    name, convert, half, graph
):
    norm = NORMS[name](4)
    for where, nodes in ((graph, 9), (Graph(NO_EDGES, 1), 1)):
        x = torch.randn(nodes, 4).to(half)
        expected = norm.float()(x.float(), where)
        norm, x = norm.to(half) if convert else norm, x.requires_grad_()
        out = norm(x, where)
        (out * torch.randn_like(out)).sum().backward()
        assert out.dtype == half
        assert x.grad.isfinite().all()
        torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("norm", [PairNorm, PairNormSI])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_of_half_precision_neither_overflow_nor_vanish(norm, dtype):
    x = torch.randn(6, 4)
    for size in (1e-3, 1e3):
        out = norm(4)((size * x).to(dtype), one_graph)
        torch.testing.assert_close(out.float(), norm(4)(size * x, one_graph), rtol=0.05, atol=0.02)
