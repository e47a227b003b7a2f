"""GCNII: the layer, and the model of its paper as a configuration of parts."""

from functools import partial

import pytest
import torch
from torch_geometric.nn import GCN2Conv

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import GCNII
from gnn_depth.nn.skips import Dense
from tests.nn.functional.cases import distance

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
MODEL = {"first_activation": True, "last_activation": True}


def model(num_layers=4, **options):
    return DeepGNN(
        6, 3, partial(GCNII, alpha=0.2, theta=0.7), num_layers, 5, **MODEL | options
    ).double()


def convolutions(stack):
    """PyTorch Geometric's layers with the weights of ours."""
    found = []
    for position, layer in enumerate(stack.layers):
        conv = GCN2Conv(5, alpha=0.2, theta=0.7, layer=position + 1).double()
        with torch.no_grad():
            conv.weight1.copy_(layer.lin.weight.t())
        found.append(conv)
    return found


def test_the_model_of_the_paper_is_a_stack(graph):
    # Kinds of node that PyTorch Geometric treats as we do: no repeated edges and no self-loops.
    edges = torch.unique(graph.edge_index[:, graph.source != graph.target], dim=1)
    weight = torch.rand(edges.shape[1], dtype=torch.float64)
    stack, x = model(), X.clone().requires_grad_()
    assert not any("depth" in name for name in stack.state_dict())
    convs = convolutions(stack)
    ours = stack(x, Graph(edges, 9, edge_weight=weight))
    first = h = torch.relu(stack.encoder(x))
    for conv in convs:
        h = torch.relu(conv(h, first, edges, weight))
    theirs = stack.decoder(h)
    direction = torch.randn_like(ours)
    kept = {"retain_graph": True}
    into = [x, stack.encoder.weight, stack.decoder.weight]
    assert distance([ours], [theirs]) <= 1e-12
    got = torch.autograd.grad(
        ours, [*into, *(layer.lin.weight for layer in stack.layers)], direction, **kept
    )
    wanted = torch.autograd.grad(theirs, [*into, *(conv.weight1 for conv in convs)], direction)
    wanted = [*wanted[:3], *(gradient.t() for gradient in wanted[3:])]
    assert distance(got, wanted) <= 1e-12


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"skip": Dense}, "width 5.* layer 2, .*width 10"),
        ({"share_layers": True}, "share_layers false"),
    ],
)
def test_a_stack_in_which_it_has_no_place_is_refused(options, answer):
    with pytest.raises(ValueError, match=answer):
        model(**options)
