"""Layers against their formula in loops over nodes and neighbours, in float64, gradients too.

The others are compared with PyTorch Geometric's in test_against_pyg.py.
"""

from functools import partial

import pytest
import torch

from gnn_depth.nn.norms import LipschitzNorm
from tests import reference
from tests.nn.layers.variants import ATTENTION, VARIANTS, features, make


def heads_of(layer, x):
    return x.view(len(x), layer.heads, layer.out_channels)


def plus(out, bias):
    return out if bias is None else out + bias


def attend(layer, scores, x, graph):
    return plus(
        reference.aggregate(reference.softmax(scores, graph), x, graph).flatten(1),
        getattr(layer, "bias", None),
    )


def scores_of(layer, h, graph, normed):
    scores = (layer.att_dst * h[graph.target] + layer.att_src * h[graph.source]).sum(-1)
    scores = normed(scores, (h, h, layer.att_dst, layer.att_src), graph)
    return torch.where(scores > 0, scores, 0.2 * scores)


def gat(layer, x, graph, normed):
    graph = reference.with_loops(graph)
    h = heads_of(layer, x @ layer.lin.weight.t())
    out = attend(layer, scores_of(layer, h, graph, normed), h, graph)
    return out if layer.lin_root is None else out + x @ layer.lin_root.weight.t()


def omega_gat(layer, x, graph, normed):
    graph = reference.with_loops(graph)
    h = heads_of(layer, x @ layer.lin.weight.t())
    alpha = reference.softmax(scores_of(layer, h, graph, normed), graph)
    heads = []
    for head, weight in enumerate(layer.lin.weight.chunk(layer.heads)):
        mean = reference.aggregate(alpha[:, head : head + 1], x[:, None], graph)[:, 0]
        heads.append((x - layer.omega * (x - mean)) @ weight.t())
    return plus(torch.cat(heads, 1), layer.bias)


def gatv2(layer, x, graph, normed):
    graph = reference.with_loops(graph)
    x_src = heads_of(layer, x @ layer.lin_src.weight.t())
    x_dst = x_src if layer.lin_dst is None else heads_of(layer, x @ layer.lin_dst.weight.t())
    scores = reference.edge_additive(x_dst, x_src, layer.att, graph, 0.2)
    return attend(layer, normed(scores, (x_dst, x_src, layer.att, layer.att), graph), x_src, graph)


def transformer(layer, x, graph, normed):
    query, key, value = (
        heads_of(layer, lin(x)) for lin in (layer.lin_query, layer.lin_key, layer.lin_value)
    )
    scores = reference.edge_dot(query, key, graph) / layer.out_channels**0.5
    message = attend(layer, normed(scores, (query, key, value), graph), value, graph)
    if layer.lin_root is None:
        return message
    root = layer.lin_root(x)
    if layer.gate_root is None:
        return message + root
    gates = [
        gate.flatten() for gate in (layer.gate_message, layer.gate_root, layer.gate_difference)
    ]
    beta = torch.sigmoid(torch.cat([message, root, message - root], 1) @ torch.cat(gates))[:, None]
    return beta * root + (1 - beta) * message


LOOPS = {"gat": gat, "omega_gat": omega_gat, "gatv2": gatv2, "transformer": transformer}


@pytest.mark.parametrize("form", ["", "paper", "released"])
@pytest.mark.parametrize("variant", ATTENTION)
def test_a_layer_and_its_gradients_are_those_of_a_loop_with_normed_scores_too(variant, form, graph):
    layer, x, name = make(variant), features(graph), VARIANTS[variant][0]

    def normed(scores, parts, graph):
        return scores

    if form:
        layer.add_score_norm(LipschitzNorm(layer.heads, form=form, scale=2.0))
        kind = "released_" * (form == "released") + "quadratic_" * (name == "transformer")
        normed = partial(getattr(reference, f"{kind}lipschitz"), scale=2.0)
    wanted = LOOPS[name](layer, x, graph, normed)
    reference.agree(layer(x, graph), wanted, [x, *layer.parameters()])
