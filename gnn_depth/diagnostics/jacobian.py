"""From how far a trained node reads: the influence of the nodes around it, by their distance."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import dijkstra
from torch import Tensor, nn
from torch_geometric.utils import to_scipy_sparse_matrix

from gnn_depth.diagnostics.states import evaluating
from gnn_depth.graph import Graph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 1e-4  # the smallest share with a line of its own


@dataclass(frozen=True)
class Influence:
    r"""The influence of other nodes on the outputs of some nodes.

    The influence of node v on node u is the sum of the Jacobian's entries without their signs,

    .. math:: I_u(v) = \sum_{a, b} \left| \frac{\partial f(X)_{u a}}{\partial x_{v b}} \right|.

    Liang et al., *Towards Quantifying Long-Range Interactions in Graph Machine Learning*, ICLR
    2026, where it is summed by distance as here.

    Attributes:
        nodes: The nodes u.
        by_hop: The sum of the influence of all nodes at each distance, from 0 on; a row for each
            node u.
        without_path: The influence of nodes from which no path leads to u; a number for each node.
            A norm over all nodes can be the reason.
    """

    nodes: np.ndarray
    by_hop: np.ndarray
    without_path: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """The share of each distance in a node's influence, averaged over the nodes that read
        anything; what comes without a path is in none of them."""
        total = self.by_hop.sum(1) + self.without_path
        reads = total > 0
        shares: np.ndarray = (self.by_hop[reads] / total[reads, None]).mean(0)
        return shares

    @property
    def range(self) -> float:
        r"""The mean distance of what a node reads, weighted by influence, averaged over the nodes.

        .. math:: \hat\rho_u = \sum_v \frac{I_u(v)}{\sum_w I_u(w)} \, d(u, v)

        Bamberger et al., *On Measuring Long-Range Interactions in Graph Neural Networks*, ICML
        2025. Only nodes with a path to u count.
        """
        total = self.by_hop.sum(1)
        reads = total > 0
        if not reads.any():
            return float("nan")
        distances = np.arange(self.by_hop.shape[1])
        return float((self.by_hop[reads] @ distances / total[reads]).mean())

    def hops_within(self, share: float = 0.9) -> int | None:
        """The smallest distance within which this share of the influence lies; None if more than
        the rest comes without a path."""
        reached = np.flatnonzero(self.shares.cumsum() >= share)
        return int(reached[0]) if len(reached) else None

    def __str__(self) -> str:
        lines = [f"share of the influence on {len(self.nodes)} nodes, by distance:"]
        shares = self.shares
        last = np.flatnonzero(shares >= SHOWN).max(initial=0)
        for hop in range(last + 1):
            lines.append(f"  {hop:>4} hops {shares[hop]:8.2%}")
        if last + 1 < len(shares):
            lines.append(f"  farther   {shares[last + 1 :].sum():8.2%}")
        unread = int((self.by_hop.sum(1) + self.without_path == 0).sum())
        if unread:
            lines.append(f"  {unread} of the nodes read nothing and are left out")
        without_path = 1 - shares.sum()
        if without_path >= SHOWN:
            lines.append(f"  no path   {without_path:8.2%}")
        lines.append(f"range (mean distance): {self.range:.2f} hops")
        return "\n".join(lines)

    def plot(self) -> "Figure":
        """A bar for each distance."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3), layout="constrained")
        axes = figure.subplots()
        axes.bar(np.arange(len(self.shares)), 100 * self.shares)
        axes.axvline(self.range, color="black", linestyle="--", label=f"range {self.range:.2f}")
        axes.set_xlabel("distance, hops")
        axes.set_ylabel("share of the influence, %")
        axes.legend()
        return figure


def influence(
    model: Callable[[Tensor, Any], Tensor],
    x: Float[Tensor, "nodes channels"],
    edge_index: Graph | Int[Tensor, "2 edges"],
    nodes: int | Sequence[int] = 32,
    largest: bool = False,
) -> Influence:
    """Measure from how far nodes read: exact, with a backward pass for each node and output.

    Args:
        model: Any model of ``model(x, edge_index)`` with a row of outputs for each node. A module
            is measured in evaluation mode.
        x: Features of the nodes.
        edge_index: The edges, which give the distances.
        nodes: The nodes, or how many to draw, always the same ones.
        largest: Measure only the largest output of each node, such as the score of its class.

    Raises:
        ValueError: The features are integers, there are no nodes, they read nothing, or a
            derivative is not finite.
    """
    if not x.is_floating_point():
        raise ValueError(f"the features are {x.dtype}: there is no derivative by them.")
    edges = edge_index.edge_index if isinstance(edge_index, Graph) else edge_index
    if isinstance(nodes, int):
        order = np.random.default_rng(0).permutation(len(x))
        nodes = sorted(order[:nodes])
    if not len(nodes):
        raise ValueError("there are no nodes to measure: name some, or ask for 1 or more.")
    x = x.detach().clone().requires_grad_()
    mode = evaluating(model) if isinstance(model, nn.Module) else nullcontext()
    with mode, torch.enable_grad():
        out = model(x, edge_index)
    distances = hops_to(nodes, edges, len(x))
    by_hop = np.zeros((len(nodes), int(distances[distances.isfinite()].max()) + 1))
    without_path = np.zeros(len(nodes))
    for row, (node, distance) in enumerate(zip(nodes, distances, strict=True)):
        outputs = out[node].flatten()
        if largest:
            outputs = outputs.max()[None]
        total = x.new_zeros(len(x), dtype=torch.float64)
        for output in outputs:
            (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
            total += gradient.abs().sum(1, dtype=torch.float64)
        reached = distance.isfinite()
        summed = torch.bincount(distance[reached].long(), total[reached])
        by_hop[row, : len(summed)] = summed.cpu()
        without_path[row] = total[~reached].sum().item()
    if not 0 < by_hop.sum() + without_path.sum() < np.inf:  # NaN too
        raise ValueError("these nodes read nothing, or a derivative of theirs is NaN or infinite.")
    return Influence(np.asarray(nodes), by_hop, without_path)


def hops_to(
    nodes: Sequence[int], edge_index: Tensor, num_nodes: int
) -> Float[Tensor, "chosen nodes"]:
    """The length of the shortest path from each node to some; infinite without a path."""
    matrix = to_scipy_sparse_matrix(edge_index, num_nodes=num_nodes)
    found = dijkstra(matrix.T, indices=nodes, unweighted=True)
    return torch.from_numpy(found).to(edge_index.device)
