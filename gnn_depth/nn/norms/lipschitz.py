"""LipschitzNorm."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import at_source, at_target, neighbourhood_size, targets, widen
from gnn_depth.nn.functional.sizes import largest_source, root, square
from gnn_depth.nn.parts import ScoreNorm
from gnn_depth.nn.scores import AdditiveScore, LinearScore, QuadraticScore, Score
from gnn_depth.nn.shapes import EdgesHeads, NodesHeads
from gnn_depth.ranges import Positive
from gnn_depth.registry import register

EPS = 1e-12
# A product of two norms is smaller than a norm; the square of its inverse must stay within float32.
EPS_OF_PRODUCTS = 1e-18


@register("norm", "lipschitz")
class LipschitzNorm(ScoreNorm):
    r"""LipschitzNorm: divide scores by the size of their features, so that attention is Lipschitz.

    .. math::
        \tilde s_{ij} = \frac{s_{ij}}
        {\lambda \, \|a\| \, \max_{k \in N(i)} \sqrt{\|h_i\|^2 + \|h_k\|^2}},
        \qquad a = [a_{dst} \,\|\, a_{src}]

    for linear scores, and for quadratic ones

    .. math::
        \tilde s_{ij} = \frac{s_{ij}}{\lambda \max(u_i v_i, u_i w_i, v_i w_i)}, \qquad
        u_i = \|q_i\|, \quad v_i = \max_{k \in N(i)} \|k_k\|, \quad w_i = \max_{k \in N(i)} \|v_k\|

    in form ``paper``. Form ``released`` follows the authors' code, which produced the published
    numbers. It differs in these points:

    - Linear scores: the root contains the *source* of each edge, :math:`\max_k \|h_k\|^2 +
      \|h_j\|^2`.
    - Linear scores with several heads: the flattened (nodes x heads) maxima are indexed by the
      target's number, so they are those of another node.
    - Quadratic scores: u is the Frobenius norm of the queries of all edges, :math:`u^2 = \sum_{j
      \to i} \|q_i\|^2`.

    Dasoulas, Scaman & Virmaux, *Lipschitz Normalization for Self-Attention Layers*, ICML 2021.

    Additive scores (GATv2) are our extension: :math:`|a \cdot \sigma(h_i + h_j)| \le \sqrt 2 \|a\|
    \sqrt{\|h_i\|^2 + \|h_j\|^2}` is the linear bound for [a || a], so the same formula applies.

    Args:
        heads: Number of attention heads.
        scale: lambda; by default the paper's value: 4 for linear and additive scores, 1 for
            quadratic scores.
        form: ``paper`` or ``released``.
        per_head: Compute ||a|| for each head; false computes it over all heads at once (the
            authors' default).
    """

    serves = (LinearScore, AdditiveScore, QuadraticScore)

    def __init__(
        self,
        heads: int,
        scale: Positive | None = None,
        form: Literal["paper", "released"] = "paper",
        per_head: bool = True,
    ) -> None:
        super().__init__(heads)
        self.scale = scale
        self.form = form
        self.per_head = per_head
        self.nodewise = form == "paper"
        self.scales_targets = form == "paper"

    def forward(self, scores: EdgesHeads, score: Score, graph: Graph) -> EdgesHeads:
        # All sizes but one are of a node, and one factor serves all edges into it.
        if isinstance(score, QuadraticScore) or self.form == "paper":
            factor = at_target(self.target_factor(score, graph), graph)
        else:
            # ||a|| sqrt(max_k ||h_k||^2 + ||h_j||^2), the size of an edge and not of its target.
            att, _, x_src = _linear_form(score, graph)
            square_src = square(x_src)
            # (nodes, heads) flattened, as in the released code, but read by numbers of nodes: with
            # several heads those of others.
            largest = largest_source(square_src, graph).flatten()
            misread = largest.index_select(0, graph.target)[:, None]
            size = self._size(att) * root(misread + at_source(square_src, graph))
            factor = 1 / (self._scale(type(score)) * size + EPS)
        return (scores * factor).to(scores.dtype)

    def target_factor(self, score: Score, graph: Graph) -> NodesHeads:
        scale = self._scale(type(score))
        if isinstance(score, QuadraticScore):
            # max(u v, u w, v w), with one u of the queries of all edges or one for every query.
            square_u = square(widen(score.query))
            if self.form == "released":
                # Each query counts once for each of its edges.
                count = graph.in_degree[:, None].to(square_u.dtype)
                square_u = (count * square_u).sum(0, keepdim=True)
            u = root(square_u)
            v = root(largest_source(square(widen(score.key)), graph))
            w = root(largest_source(square(widen(score.value)), graph))
            size = torch.maximum(u * torch.maximum(v, w), v * w)
            return 1 / (scale * size + EPS_OF_PRODUCTS)
        # ||a|| max_k sqrt(||h_i||^2 + ||h_k||^2): the same for all edges into a node.
        att, x_dst, x_src = _linear_form(score, graph)
        size = self._size(att) * neighbourhood_size(x_dst, x_src, graph)
        return 1 / (scale * size + EPS)

    def bound(self, score: type, channels: int) -> float | None:
        r"""In form ``paper`` :math:`1 / \lambda`, over :math:`\sqrt C` for quadratic scores."""
        # No bound is known for what the released code divides by.
        if self.form == "released" or not issubclass(score, self.serves):
            return None
        scale = self._scale(score)
        if issubclass(score, QuadraticScore):
            scale *= channels**0.5
        return 1 / scale

    def _size(self, att: Float[Tensor, "heads _"]) -> Tensor:
        if self.per_head:
            return torch.linalg.vector_norm(att, dim=-1)
        return torch.linalg.vector_norm(att)

    def _scale(self, score: type) -> float:
        if self.scale is not None:
            return self.scale
        if issubclass(score, QuadraticScore):
            return 1.0
        return 4.0


def _linear_form(score: LinearScore | AdditiveScore, graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """The attention vector [a_dst || a_src], shape (heads, 2 channels), and both ends' features."""
    if isinstance(score, LinearScore):
        x = widen(score.x)
        return widen(torch.cat([score.att_dst, score.att_src], -1)), targets(x, graph), x
    return widen(torch.cat([score.att, score.att], -1)), widen(score.x_dst), widen(score.x_src)
