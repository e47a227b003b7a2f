"""The primitives of message passing: sums and scores over edges, without an edges x heads x channels tensor."""

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.additive import additive, shared_additive
from gnn_depth.nn.functional.sparse import sddmm, spmm


def aggregate(
    weights: Float[Tensor, "edges *heads"], x: Float[Tensor, "sources *heads channels"], graph: Graph
) -> Float[Tensor, "nodes *heads channels"]:
    r"""Weighted sum over incoming edges, :math:`y_{ih} = \sum_{j \to i} w_{ijh} x_{jh}`; zero where there is none.

    Tensors without a heads dimension have one head.
    """
    if x.dim() == 2:
        # Not [:, 0], whose backward pass writes a gradient of zeros and copies into it.
        return spmm(weights[:, None], x[:, None], graph, False).squeeze(1)
    return spmm(weights, x, graph, False)


def edge_dot(
    query: Float[Tensor, "nodes heads channels"], key: Float[Tensor, "sources heads channels"], graph: Graph
) -> Float[Tensor, "edges heads"]:
    r"""Dot-product scores :math:`s_{ijh} = q_{ih} \cdot k_{jh}` of the edges :math:`j \to i`."""
    return sddmm(*_two(query, key), graph)


def edge_additive(
    x_dst: Float[Tensor, "nodes heads channels"],
    x_src: Float[Tensor, "sources heads channels"],
    att: Float[Tensor, "heads channels"],
    graph: Graph,
    negative_slope: float = 0.2,
) -> Float[Tensor, "edges heads"]:
    r"""Additive scores of the edges :math:`j \to i`.

    .. math:: s_{ijh} = a_h \cdot \mathrm{LeakyReLU}(x^{dst}_{ih} + x^{src}_{jh})
    """
    if x_dst is x_src and graph.reverse is not None:
        return shared_additive(x_src, att, graph, negative_slope)
    return additive(*_two(x_dst, x_src), att, graph, negative_slope)


def _two(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Make two tensors of one used at both ends, because the compiler cannot trace a function given one twice."""
    return (first.view_as(first) if first is second else first), second
