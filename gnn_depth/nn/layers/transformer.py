"""Graph transformer: attention with dot-product scores over neighbourhoods."""

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import uniform

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_attention
from gnn_depth.nn.functional import (
    aggregate,
    attend,
    dropout,
    edge_dot,
    segment_softmax,
    segment_sum,
)
from gnn_depth.nn.linear import Linear, weights_of
from gnn_depth.nn.parts import AttentionLayer, Inputs, Outputs, WeightChain, present
from gnn_depth.nn.scores import QuadraticScore
from gnn_depth.nn.shapes import EdgesHeads
from gnn_depth.ranges import Count, Probability
from gnn_depth.registry import register


@register("layer", "transformer")
class Transformer(AttentionLayer):
    r"""Graph transformer: average the neighbours' values, weighted by products of queries and keys.

    .. math::
        q, k, v = W_q x + b_q, \; W_k x + b_k, \; W_v x + b_v, \quad
        s_{ij} = \frac{q_i \cdot k_j}{\sqrt C}, \quad
        \alpha_{i\cdot} = \mathrm{softmax}_{j \in N(i)} s_{ij}, \quad m_i = \sum_j \alpha_{ij} v_j

    for each head; the heads are concatenated. The node's own features :math:`r_i = W_r x_i + b_r`
    are added, :math:`x'_i = m_i + r_i`, or mixed in with a learned gate,

    .. math:: x'_i = \beta_i r_i + (1 - \beta_i) m_i, \quad
        \beta_i = \mathrm{sigmoid}(g_m \cdot m_i + g_r \cdot r_i + g_d \cdot (m_i - r_i))

    Score norms act on s. For a node without neighbours, :math:`m_i = 0`. Features :math:`e_{ij}` of
    the edges add :math:`W_{edge} e_{ij}` to the keys and values of an edge. Shi et al., *Masked
    Label Prediction: Unified Message Passing Model for Semi-Supervised Classification*, IJCAI 2021.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head.
        heads: Number of attention heads.
        dropout: Probability of dropping an attention weight in training.
        bias: Add all biases b.
        root_weight: Add the node's own features r.
        beta: Mix m and r with a learned gate.
        split_heads: Interpret out_channels as the width of all heads together.

    Raises:
        ValueError: ``beta`` is set without ``root_weight``.
    """

    takes_sparse = True
    takes_blocks = True
    takes_edge_features = True
    score = QuadraticScore
    gate_message: Any  # parameters, or None
    gate_root: Any
    gate_difference: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: Count = 1,
        dropout: Probability = 0.0,
        bias: bool = True,
        root_weight: bool = True,
        beta: bool = False,
        split_heads: bool = False,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, split_heads)
        if beta and not root_weight:
            raise ValueError(
                "beta true needs the node's own features, which root_weight false omits: change "
                "one."
            )
        self.dropout = dropout
        self.lin_query = Linear(in_channels, self.width, bias=bias)
        self.lin_key = Linear(in_channels, self.width, bias=bias)
        self.lin_value = Linear(in_channels, self.width, bias=bias)
        self.lin_root = Linear(in_channels, self.width, bias=bias) if root_weight else None
        self.lin_edge: Linear | None = None  # set by add_edge_features
        for gate in ("gate_message", "gate_root", "gate_difference"):
            parameter = nn.Parameter(torch.empty(heads, self.out_channels)) if beta else None
            self.register_parameter(gate, parameter)
        self.reset_parameters()

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        self.lin_edge = Linear(channels, self.width, bias=False)

    def reset_parameters(self) -> None:
        for lin in (self.lin_query, self.lin_key, self.lin_value, self.lin_root, self.lin_edge):
            if lin is not None:
                lin.reset_parameters()
        for gate in (self.gate_message, self.gate_root, self.gate_difference):
            uniform(3 * self.width, gate)

    def weight_chain(self) -> WeightChain:
        if self.lin_edge is not None:
            raise ValueError(
                "the edge features of layer 'transformer' are in keys and values: neurons have no "
                "scale."
            )
        into = present(self.lin_value, self.lin_root)
        return WeightChain(
            incoming=weights_of(*into),
            # Queries and keys lead to scores alone.
            outgoing=weights_of(self.lin_query, self.lin_key, *into),
            # The gates only read the neurons, like the attention parameters of other layers.
            attention=present(self.gate_message, self.gate_root, self.gate_difference),
            bias=present(*(lin.bias for lin in into)),
        )

    def lipschitz_bound(self, graph: Graph) -> float | None:
        if self.gate_message is not None:  # a product of two functions of x; neither is bounded
            return None
        maps = self.lin_query, self.lin_key, self.lin_value
        scored = [lin.normed_weight for lin in maps]
        return of_attention(self, scored, graph, root=self.lin_root)

    def propagation(self, x: Inputs, graph: Graph) -> tuple[Graph, Tensor] | None:
        if self.edge_channels:
            return None
        scores, *_ = self._scores(x, graph)
        return graph, segment_softmax(scores, graph)

    def _scores(self, x: Inputs, graph: Graph) -> tuple[EdgesHeads, Tensor, Tensor | None]:
        """The scores of all edges, the values of the nodes, and those of the edges' features."""
        query = self.by_head(self.lin_query.of_targets(x, graph))
        key = self.by_head(self.lin_key(x))
        value = self.by_head(self.lin_value(x))
        scores = edge_dot(query, key, graph)
        of_edges: Tensor | None = None
        if self.lin_edge is not None and graph.edge_attr is not None:
            of_edges = self.by_head(self.lin_edge(graph.edge_attr.to(key.dtype)))
            scores = scores + (query.index_select(0, graph.target) * of_edges).sum(-1)
        # Before the norms: they are those of the scores that the softmax reads.
        scores = scores / self.out_channels**0.5
        scores = self.normalise(scores, QuadraticScore(query, key, value), graph)
        return scores, value, of_edges

    def forward(self, x: Inputs, graph: Graph) -> Outputs:
        scores, value, of_edges = self._scores(x, graph)
        if of_edges is None:
            message = attend(scores, value, graph, self.dropout, self.training).flatten(1)
        else:
            alpha = segment_softmax(scores, graph)
            alpha = dropout(alpha, self.dropout, self.training, graph.edge_numbers)
            message = aggregate(alpha, value, graph).flatten(1)
            message = message + segment_sum((alpha[..., None] * of_edges).flatten(1), graph)
        if self.lin_root is None:
            return message
        root = self.lin_root.of_targets(x, graph)
        if self.gate_message is None:
            return message + root
        # g_m m + g_r r + g_d (m - r), sorted by m and r.
        of_message = (self.gate_message + self.gate_difference).flatten()
        of_root = (self.gate_root - self.gate_difference).flatten()
        beta = (message @ of_message + root @ of_root).sigmoid()[:, None]
        return beta * root + (1 - beta) * message
