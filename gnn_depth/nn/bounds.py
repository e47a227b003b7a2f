r"""Upper bounds of layers' Lipschitz constants for any input, from bounded scores and weights.

*Graph convolution.* :math:`\|J\| \le \|A\| \|W\|`, and the norm of the propagation :math:`A_{ij} =
1 / \sqrt{d_i d_j}`, for each edge from j to i of :math:`d_i` into i, obeys Schur's test: with
:math:`p_j = \sqrt{d_j}` it is :math:`A p = p` and :math:`(A^\top p)_j = p_j \, o_j / d_j` for
:math:`o_j` edges out of j, so

.. math:: \|A\|^2 \le \max_j o_j / d_j

which is 1 if every edge has its reverse, and at most 1 on a block of such a graph.

*Attention.* One head at node i gives :math:`o_i = \sum_j p_j v_j` over its n incoming edges,
:math:`v_j = W_v x_j`. It moves by

.. math:: d o_i = \sum_j p_j W_v \, dx_j + T_i, \qquad T_i = \sum_j p_j \, ds_j \, (v_j - o_i)

*Values.* Scores in :math:`[-\alpha, \alpha]` give :math:`\sum_j p_j^2 \le \max_j p_j \le 1 / (1 +
(n-1) e^{-2\alpha})`; call its root :math:`\rho_n`, at most :math:`e^\alpha / \sqrt n`. By Cauchy
and Schwarz the first sum is at most :math:`\rho_n \|W_v\| \|dx_{N(i)}\|`, for all heads together
with all rows of :math:`W_v`.

*Scores.* The variance of the values is at most their mean square, so :math:`\|T_i\| \le \max_j
|ds_j| \max_j \|v_j\|`.

For linear and additive scores of :math:`d_i = W_d x_i` and :math:`v_j`, divided by :math:`\|a\| R /
\alpha` with :math:`R = \max_k \sqrt{\|d_i\|^2 + \|v_k\|^2} \ge \max_j \|v_j\|`, the score and the
divisor each add at most :math:`\alpha \max_k \sqrt{\|dd_i\|^2 + \|dv_k\|^2} / R` to :math:`|ds_j|`.
Squared and summed over heads,

.. math:: \|T_i\| \le 2 \alpha \, \| [W_d; W_v] \| \, \|dx_{N(i) \cup \{i\}}\|

with the matrices stacked; :math:`\alpha \sqrt 8 \|W\|` where they are one. A LeakyReLU of slope c,
after the norm or inside the score, multiplies :math:`\alpha` by max(1, |c|).

For quadratic scores divided by a multiple of :math:`M = \max(uv, uw, vw)`, where u, v, w are the
sizes of the query and of the largest key and value, :math:`|s_j| \le \alpha u v / M`. The score
adds at most :math:`\alpha (\|dq_i\| + \max_k \|dk_k\|)` to :math:`|ds_j| w`, and M adds at most
:math:`\alpha` times the changes of those two of u, v, w whose product it is. In each case that is
at most :math:`\alpha \sqrt 8` times the root of the three squares' sum, so

.. math:: \|T_i\| \le \sqrt 8 \alpha \, \| [W_q; W_k; W_v] \| \, \|dx_{N(i) \cup \{i\}}\|

*All nodes.* With :math:`L_i` the sum of both, :math:`\sum_i L_i^2 \|dx_{N(i) \cup \{i\}}\|^2`
counts :math:`dx_j` at every node that reads it, so

.. math:: \|J\|^2 \le \max_j \sum_{i : \, j \in N(i) \cup \{i\}} L_i^2, \qquad
    L_i = \rho_{n_i} \|W_v\| +
    \begin{cases} 2 \alpha \| [W_d; W_v] \| \\ \sqrt 8 \alpha \| [W_q; W_k; W_v] \| \end{cases}

A node with one edge has :math:`L_i = \|W_v\|`, because its softmax is constant. Repeated edges
count repeatedly. The norm's guards against zero make divisors larger and their changes smaller, so
the bound still holds. It also holds if several entries are the maximum, where the derivative is a
mean of theirs. Attention dropout is off, as in evaluation.

This is the theorem of Dasoulas, Scaman & Virmaux, *Lipschitz Normalization for Self-Attention
Layers*, ICML 2021, :math:`e^\alpha \sqrt{m/n} + \alpha \sqrt 8` for m queries that share n keys,
node by node and with the weights. Its second term has no m, because the theorem uses one size for
all queries; in form ``paper`` each node has its own.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import AttentionLayer


def of_attention(
    layer: AttentionLayer,
    scored: Sequence[Tensor],
    graph: Graph,
    slope: float = 1.0,
    root: Linear | None = None,
) -> float | None:
    """The bound of attention whose values and scores all come from linear maps.

    None without a score norm that bounds the scores, or with several, because a norm may undo an
    earlier one.

    Args:
        layer: The layer.
        scored: Weights behind the scores: two for linear and additive scores, three for quadratic
            ones. The last is that of the values.
        graph: The graph or block, with the self-loops that the layer adds.
        slope: Slope of the LeakyReLU after the scores, or inside them.
        root: The map of the node itself that is added, if there is one.
    """
    norms: Any = layer.score_norms
    if len(norms) != 1:
        return None
    alpha = norms[0].bound(layer.score, layer.out_channels)
    if alpha is None:
        return None
    alpha *= max(1.0, abs(slope))  # a LeakyReLU stretches by its steeper side
    of_values = spectral_norm(scored[-1])
    factor = math.sqrt(8) if len(scored) == 3 else 2.0  # quadratic scores, and others
    of_scores = factor * alpha * spectral_norm(*scored)
    count = graph.in_degree.double()
    has_choice = count > 1  # the softmax over one edge is constant
    spread = (1 + (count.clamp_min(1) - 1) * math.exp(-2 * alpha)).rsqrt()
    square = (spread * of_values + of_scores * has_choice.double()).square()
    # A source is read by the targets of its edges.
    square_of_source = square.new_zeros(graph.num_sources)
    square_of_source.index_add_(0, graph.source, square[graph.target])
    reads_itself = torch.zeros_like(has_choice)
    reads_itself[graph.target[graph.source == graph.target]] = True
    # A node without a self-loop still reads itself, as the query.
    square_of_source[: graph.num_nodes] += square * (has_choice & ~reads_itself)
    bound = _largest_root(square_of_source, graph)
    if root is not None:  # the norm of a sum is at most the sum of the norms
        bound += spectral_norm(root.normed_weight)
    return bound


def of_propagation(graph: Graph) -> float:
    """The bound of the norm of a graph convolution's propagation, with the self-loops that the
    layer adds."""
    weight = graph.gcn_weights(torch.float64)
    # A block does not know d_j, the degrees of its sources: w^2 / (d_i d_j), times d_i, over w.
    share = weight.square() * graph.weighted_in_degree[graph.target]  # 1 / d_j
    if graph.edge_weight is not None:  # w / d_j
        share = torch.where(weight > 0, share / graph.edge_weight.double(), 0)
    total = share.new_zeros(graph.num_sources).index_add(0, graph.source, share)
    return _largest_root(total, graph)


def _largest_root(squares: Tensor, graph: Graph) -> float:
    """The root of the largest sum of squares of a source, over all processes."""
    if not graph.total_nodes:
        return 0.0
    return math.sqrt(graph.max(graph.collect(squares)))


def spectral_norm(*weights: Tensor) -> float:
    """The largest singular value of matrices stacked on one another, in float64; infinite if they
    are not finite."""
    stacked = torch.cat([weight.detach().cpu().double() for weight in weights])
    if not stacked.isfinite().all():
        return math.inf
    if not stacked.numel():
        return 0.0
    return torch.linalg.matrix_norm(stacked, 2).item()
