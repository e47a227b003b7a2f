"""Properties that every registered layer has."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.base import AttentionLayer, HasWeightChain, WeightChain
from gnn_depth.registry import registered

LAYERS = registered("layer")
every_layer = pytest.mark.parametrize("name", LAYERS)


def make(name, heads=2):
    cls = LAYERS[name]
    options = {"heads": heads} if issubclass(cls, AttentionLayer) else {}
    return cls(5, 3, **options).double()


@every_layer
def test_renumbering_the_nodes_renumbers_the_output(name, graph):
    layer, x = make(name), torch.randn(graph.num_nodes, 5, dtype=torch.float64)
    order = torch.randperm(graph.num_nodes)
    place = torch.argsort(order)
    renumbered = Graph(place[graph.edge_index], graph.num_nodes)
    torch.testing.assert_close(layer(x[order], renumbered), layer(x, graph)[order])


@every_layer
def test_two_graphs_side_by_side_give_what_each_gives_alone(name, graph):
    layer, x = make(name), torch.randn(graph.num_nodes, 5, dtype=torch.float64)
    edges = torch.cat([graph.edge_index, graph.edge_index + graph.num_nodes], 1)
    both = layer(torch.cat([x, 2 * x]), Graph(edges, 2 * graph.num_nodes))
    torch.testing.assert_close(both, torch.cat([layer(x, graph), layer(2 * x, graph)]))


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_isolated_nodes_zero_rows_and_no_edges_give_finite_outputs_and_gradients(name, dtype, graph):
    layer = make(name).to(dtype)
    for structure in (graph, Graph(torch.zeros(2, 0, dtype=torch.long), 9), Graph(torch.zeros(2, 0).long(), 1)):
        x = torch.randn(structure.num_nodes, 5, dtype=dtype)
        x[: structure.num_nodes // 2] = 0
        x.requires_grad_()
        out = layer(x, structure)
        out.square().sum().backward()
        assert out.isfinite().all()
        assert x.grad.isfinite().all()
        assert all(p.grad.isfinite().all() for p in layer.parameters())


@every_layer
def test_width_is_that_of_the_output(name, graph):
    layer = make(name)
    assert layer(torch.randn(9, 5, dtype=torch.float64), graph).shape == (9, layer.width)


@every_layer
def test_the_weight_chain_names_parameters_by_neuron(name):
    layer = make(name)
    assert isinstance(layer, HasWeightChain)
    chain = layer.weight_chain()
    assert isinstance(chain, WeightChain)
    parameters = {id(p) for p in layer.parameters()}
    assert all(id(weight) in parameters for weight in (*chain.incoming, *chain.outgoing, *chain.attention))
    assert all(weight.shape == (layer.width, 5) for weight in chain.incoming)
    assert all(attention.shape == (layer.heads, layer.out_channels) for attention in chain.attention)


@every_layer
def test_reset_draws_anew_and_zeroes_the_bias(name):
    layer = make(name)
    before = layer.weight_chain().incoming[0].clone()
    with torch.no_grad():
        layer.bias.fill_(1)
    layer.reset_parameters()
    assert not torch.equal(before, layer.weight_chain().incoming[0])
    assert (layer.bias == 0).all()


@every_layer
def test_a_width_below_one_is_refused(name):
    with pytest.raises(ValueError, match="out_channels must be at least 1, not 0"):
        LAYERS[name](5, 0)


ATTENTION = [name for name, cls in LAYERS.items() if issubclass(cls, AttentionLayer)]


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("p", [-0.5, 1.5])
def test_a_dropout_that_is_no_probability_is_refused(name, p):
    with pytest.raises(ValueError, match=r"dropout is a probability, in \[0, 1\], not"):
        LAYERS[name](5, 3, dropout=p)


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_dropout_drops_in_training_only(name, graph):
    layer = LAYERS[name](5, 3, heads=2, dropout=0.5)
    x = torch.randn(9, 5)
    assert not torch.equal(layer(x, graph), layer(x, graph))
    layer.eval()
    assert torch.equal(layer(x, graph), layer(x, graph))
