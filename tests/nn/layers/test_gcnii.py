"""GCNII: the layer, and the model of its paper as a configuration of parts."""

import pytest
import torch
from torch_geometric.nn import GCN2Conv

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from tests.reference import agree


def model(**options):
    layer = {"name": "gcnii", "alpha": 0.2, "theta": 0.7}
    options = {"first_activation": True, "last_activation": True} | options
    return DeepGNN(6, 3, layer, 4, 5, **options).double()


def test_the_model_of_the_paper_is_a_stack(graph):
    # Kinds of node that PyTorch Geometric treats as we do: no repeated edges and no self-loops.
    edges = torch.unique(graph.edge_index[:, graph.source != graph.target], dim=1)
    weight = torch.rand(edges.shape[1], dtype=torch.float64)
    stack, x = model(), torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    assert not any("depth" in name for name in stack.state_dict())
    first = h = torch.relu(stack.encoder(x))
    for position, layer in enumerate(stack.layers, start=1):
        conv = GCN2Conv(5, alpha=0.2, theta=0.7, layer=position).double()
        del conv.weight1
        conv.weight1 = layer.lin.weight.t()
        h = torch.relu(conv(h, first, edges, weight))
    ours = stack(x, Graph(edges, 9, edge_weight=weight))
    agree(ours, stack.decoder(h), [x, *stack.parameters()])


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"skip": "dense"}, "width 5.* layer 2, .*width 10"),
        ({"share_layers": True}, "share_layers false"),
    ],
)
def test_a_stack_in_which_it_has_no_place_is_refused(options, answer):
    with pytest.raises(ValueError, match=answer):
        model(**options)
