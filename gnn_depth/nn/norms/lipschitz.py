"""LipschitzNorm."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.base import AdditiveScore, LinearScore, Score, ScoreNorm
from gnn_depth.nn.functional import at_source, at_target, segment_max, widen
from gnn_depth.registry import register

# Rows of h underflow to exact zero in deep stacks, and the root's derivative is infinite there.
TINY = 1e-20
EPS = 1e-12


@register("norm", "lipschitz")
class LipschitzNorm(ScoreNorm):
    r"""Divide attention scores by the size of what made them, so that attention is Lipschitz at any input.

    .. math::
        \tilde s_{ij} = \frac{s_{ij}}{\lambda \, \|a\| \, \max_{k \in N(i)} \sqrt{\|h_i\|^2 + \|h_k\|^2}},
        \qquad a = [a_{dst} \,\|\, a_{src}]

    for linear scores, form ``paper``. Form ``released`` is the authors' code, which the published numbers come
    from: under the root stands the *source* of each edge, :math:`\max_k \|h_k\|^2 + \|h_j\|^2`, and with several
    heads the (nodes x heads) maxima are flattened and then read at the target's number, hence another node's.
    Dasoulas, Scaman & Virmaux, *Lipschitz Normalization for Self-Attention Layers*, ICML 2021.

    Additive scores (GATv2) are our extension: :math:`|a \cdot \sigma(h_i + h_j)| \le \sqrt 2 \|a\|
    \sqrt{\|h_i\|^2 + \|h_j\|^2}` is the linear bound for [a || a], so they take the same formula.

    Args:
        heads: Number of attention heads.
        scale: lambda, one over the bound of the normalised scores.
        form: ``paper`` or ``released``.
        per_head: Whether ||a|| is taken for each head, or over all heads at once (the authors' default).
    """

    serves = (LinearScore, AdditiveScore)

    def __init__(
        self, heads: int, scale: float = 4.0, form: Literal["paper", "released"] = "paper", per_head: bool = True
    ) -> None:
        super().__init__(heads)
        if scale <= 0:
            raise ValueError(f"scale of LipschitzNorm must be positive, not {scale}.")
        self.scale = scale
        self.form = form
        self.per_head = per_head

    def forward(self, scores: Float[Tensor, "edges heads"], score: Score, graph: Graph) -> Float[Tensor, "edges heads"]:
        att, x_dst, x_src = (widen(part) for part in _linear_form(score))
        norm_att = torch.linalg.vector_norm(att, dim=-1 if self.per_head else None)
        square_src = x_src.square().sum(-1)
        largest = segment_max(at_source(square_src, graph), graph)
        if self.form == "paper":
            square = x_dst.square().sum(-1) + largest  # the same for all edges into a node
        else:
            misread = largest.flatten().index_select(0, graph.target)[:, None]
            square = misread + at_source(square_src, graph)
        divisor = self.scale * norm_att * (square + TINY).sqrt() + EPS
        factor = at_target(1 / divisor, graph) if self.form == "paper" else 1 / divisor
        return (scores * factor).to(scores.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, form={self.form}, per_head={self.per_head}"


def _linear_form(score: Score) -> tuple[Tensor, Tensor, Tensor]:
    """Attention vector of the concatenated pair, shape (heads, 2 channels), and the two ends' features."""
    if isinstance(score, LinearScore):
        return torch.cat([score.att_dst, score.att_src], -1), score.x, score.x
    return torch.cat([score.att, score.att], -1), score.x_dst, score.x_src
