"""Decoders: turn the hidden states of the last layer, or of all layers, into outputs."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.utils import scatter

from gnn_depth.graph import Graph

Decoder: TypeAlias = Literal["linear", "none"]
Jump: TypeAlias = Literal["last", "max", "cat"]
Pool: TypeAlias = Literal["mean", "sum", "max"]


def make_decoder(
    decoder: Decoder, jump: Jump, widths: Sequence[int], out_channels: int
) -> nn.Module:
    """Make a decoder of output states of these widths."""
    if decoder == "linear":
        if jump == "max" and len(set(widths)) > 1:
            raise ValueError(
                f"jump max compares states of one width, and these have {list(widths)}: use cat or "
                "last."
            )
        width = sum(widths) if jump == "cat" else widths[-1]
        return nn.Linear(width, out_channels)
    if jump != "last":
        raise ValueError(
            f"jump {jump} needs a decoder, since without one the last layer gives the class "
            "scores: use decoder linear."
        )
    return MeanOfHeads(out_channels)


class MeanOfHeads(nn.Module):
    """Average the concatenated heads of the last layer."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels

    def forward(self, x: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes outputs"]:
        return x.view(x.shape[0], -1, self.out_channels).mean(1)


def jumped(jump: Jump, states: Sequence[Float[Tensor, "_ _"]]) -> Float[Tensor, "nodes outputs"]:
    r"""The last state, or the maximum or concatenation of all layers' output states.

    They are read at the nodes of the last one.

    .. math:: \max(X^1_i, \dots, X^L_i) \quad \mathrm{or} \quad [X^1_i, \dots, X^L_i]

    Xu et al., *Representation Learning on Graphs with Jumping Knowledge Networks*, ICML 2018.
    """
    if jump == "last":
        return states[-1]
    count = states[-1].shape[0]
    rows = [state[:count] for state in states]
    if jump == "cat":
        return torch.cat(rows, 1)
    # Where several layers have the maximum, amax shares the gradient among them.
    return torch.stack(rows).amax(0)


def pooled(
    pool: Pool, x: Float[Tensor, "nodes width"], graph: Graph
) -> Float[Tensor, "graphs width"]:
    """The mean, sum or maximum over the nodes of each graph."""
    if graph.node_to_graph is not None:
        return scatter(x, graph.node_to_graph, 0, graph.num_graphs, pool)
    reduction = "amax" if pool == "max" else pool
    one_row: Tensor = getattr(torch, reduction)(x, 0, keepdim=True)
    return one_row
