"""The weights that a layer says lead into and out of its neurons are those that can be rescaled against each other."""

import pytest
import torch

from gnn_depth.nn.parts import HasWeightChain
from tests.nn.layers.variants import IN, VARIANTS, features, make

WITH_CHAIN = [name for name in VARIANTS if name not in ("ggnn", "sage_of_one_length")]
every_chain = pytest.mark.parametrize("variant", WITH_CHAIN)


@every_chain
def test_a_chain_names_parameters_by_neuron(variant):
    layer = make(variant)
    assert isinstance(layer, HasWeightChain)
    chain = layer.weight_chain()
    parameters = {id(p) for p in layer.parameters()}
    named = (*chain.incoming, *chain.outgoing, *chain.attention, *chain.bias)
    assert all(id(weight) in parameters for weight in named)
    assert all(bias.shape == (layer.width,) for bias in chain.bias)
    assert all(len(weight) == layer.width for weight in chain.incoming)
    assert all(weight.shape[1] == IN for weight in chain.outgoing)
    assert all(attention.shape == (layer.heads, layer.out_channels) for attention in chain.attention)


def two_rounds(variant, graph):
    """Two layers without biases and a ReLU between them, and each parameter's product with its gradient."""
    first = make(variant, bias=False)
    second = make(variant, in_channels=first.width, bias=False)
    hidden = torch.relu(first(features(graph), graph))
    out = second(hidden, graph)
    (out * torch.randn_like(out)).sum().backward()

    def products(weight):
        return (weight * weight.grad).detach()

    return first.weight_chain(), second.weight_chain(), products


# A gcnii maps neurons to themselves too: tests/nn/test_conservation.py has what flows through all of them.
@pytest.mark.parametrize("variant", [name for name in WITH_CHAIN if name != "gcnii"])
def test_what_flows_into_a_neuron_flows_out_of_it(variant, graph):
    before, after, products = two_rounds(variant, graph)
    into = sum(products(weight).sum(1) for weight in before.incoming)
    attention = sum(products(weight).flatten() for weight in before.attention)
    out = sum(products(weight).sum(0) for weight in after.outgoing)
    size = into.abs().max()
    assert size > 1e-3
    assert (into - attention - out).abs().max() <= 1e-10 * size


@pytest.mark.parametrize("variant", [name for name in WITH_CHAIN if make(name).weight_chain().attention])
def test_without_its_attention_the_sum_is_off(variant, graph):
    before, after, products = two_rounds(variant, graph)
    into = sum(products(weight).sum(1) for weight in before.incoming)
    out = sum(products(weight).sum(0) for weight in after.outgoing)
    assert (into - out).abs().max() > 1e-6 * into.abs().max()


def test_a_gated_unit_has_no_chain():
    assert not isinstance(make("ggnn"), HasWeightChain)


def test_outputs_of_one_length_have_no_chain():
    with pytest.raises(ValueError, match="layer 'sage' with normalize true has no weight chain"):
        make("sage_of_one_length").weight_chain()
