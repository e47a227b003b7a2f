"""The primitives of message passing: the only functions that would need a tensor of edges x heads x channels."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.sparse import sddmm, spmm


def aggregate(
    weights: Float[Tensor, "edges heads"], x: Float[Tensor, "nodes heads channels"], graph: Graph
) -> Float[Tensor, "nodes heads channels"]:
    r"""Weighted sum over incoming edges, :math:`y_{ih} = \sum_{j \to i} w_{ijh} x_{jh}`; zero where there is none."""
    return spmm(weights.flatten(), x.flatten(0, 1), graph.rows(x.shape[1])).view_as(x)


def edge_dot(
    query: Float[Tensor, "nodes heads channels"], key: Float[Tensor, "nodes heads channels"], graph: Graph
) -> Float[Tensor, "edges heads"]:
    r"""Dot-product scores :math:`s_{ijh} = q_{ih} \cdot k_{jh}` of the edges :math:`j \to i`."""
    heads = query.shape[1]
    return sddmm(query.flatten(0, 1), key.flatten(0, 1), graph.rows(heads)).view(graph.num_edges, heads)


def edge_additive(
    x_dst: Float[Tensor, "nodes heads channels"],
    x_src: Float[Tensor, "nodes heads channels"],
    att: Float[Tensor, "heads channels"],
    graph: Graph,
    negative_slope: float = 0.2,
) -> Float[Tensor, "edges heads"]:
    r"""Additive scores of the edges :math:`j \to i`.

    .. math:: s_{ijh} = a_h \cdot \mathrm{LeakyReLU}(x^{dst}_{ih} + x^{src}_{jh})
    """
    pairs = x_dst.index_select(0, graph.target) + x_src.index_select(0, graph.source)
    return (F.leaky_relu(pairs, negative_slope) * att).sum(-1)
