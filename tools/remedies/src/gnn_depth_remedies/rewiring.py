"""Transforms that change the edges of a graph for training and evaluation: FoSR, SDRF and BORF.

They are controls: reports of their gains are in doubt (arXiv 2305.19717, 2407.09381).
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import numpy as np
import torch
import torch_geometric.transforms as T
from scipy.optimize import linear_sum_assignment, linprog
from torch_geometric.data import Data

from gnn_depth import register
from gnn_depth.data import DataError
from gnn_depth.ranges import Finite, NonNegative, Range

#: FoSR takes eight bytes for each pair of nodes.
MOST_NODES = 20_000
Added: TypeAlias = Annotated[int, Range(0, 100_000)]
Adjacency: TypeAlias = np.ndarray  # nodes x nodes, of booleans, symmetric, no loops


class Rewiring(T.BaseTransform):
    """A transform that adds and removes edges of an undirected graph.

    Self-loops and repeated edges stay as they are, but those that are removed; new edges run both
    ways.
    """

    @abstractmethod
    def rewire(self, adjacent: Adjacency) -> None:
        """Change the matrix of all edges without self-loops, in place, to another symmetric one."""

    def forward(self, data: Data) -> Data:
        """The graph with other edges.

        Raises:
            DataError: The edges have weights or features, some go one way only, or there are too
                many nodes.
        """
        for name in ("edge_weight", "edge_attr"):
            if data.get(name) is not None:
                raise DataError(f"it adds edges, for which there is no {name}: leave that out.")
        nodes = data.num_nodes
        if nodes > MOST_NODES:
            raise DataError(
                f"it compares all pairs of nodes, and {nodes:,} nodes are more than {MOST_NODES:,}."
            )
        source, target = data.edge_index.numpy()
        before = np.zeros((nodes, nodes), bool)
        before[source, target] = True
        np.fill_diagonal(before, False)
        if not np.array_equal(before, before.T):
            raise DataError("it is for undirected graphs: use undirected true.")
        adjacent = before.copy()
        self.rewire(adjacent)
        # Edges that stay keep their order, so that nothing changes where nothing is rewired.
        stays = torch.from_numpy(adjacent[source, target] | (source == target))
        added = torch.from_numpy(np.stack(np.nonzero(adjacent & ~before)))
        data.edge_index = torch.cat([data.edge_index[:, stays], added], 1)
        return data


@register("transform", "fosr")
class FoSR(Rewiring):
    r"""FoSR: add edges that widen the spectral gap, one by one.

    With the second eigenvector x of :math:`D^{-1/2} A D^{-1/2}`, the edge that is added joins the
    two nodes u, v that have none and the least :math:`y_u y_v`, where :math:`y_i = x_i / \sqrt{d_i
    + 1}`: to first order it lowers the second eigenvalue most. x is found by power iteration,
    which goes on by one step after each edge. Karhadkar, Banerjee & Montúfar, *FoSR: First-order
    Spectral Rewiring for Addressing Oversquashing in GNNs*, ICLR 2023. Their gains come from
    relational layers, which know the added edges.

    Args:
        num_edges: Number of edges to add.
        first_steps: Steps of the power iteration before the first edge.
    """

    def __init__(
        self, num_edges: Added = 50, first_steps: Annotated[int, Range(0, 10_000)] = 5
    ) -> None:
        self.num_edges = num_edges
        self.first_steps = first_steps

    def rewire(self, adjacent: Adjacency) -> None:
        degree = adjacent.sum(1).astype(float)
        source, target = np.nonzero(adjacent)
        # Of PyTorch's generator, which the data set seeds for its transforms.
        x = torch.rand(len(adjacent), dtype=torch.float64).numpy() * 2 - 1
        for _ in range(self.first_steps):
            x = _power_step(x, source, target, degree)
        for _ in range(self.num_edges):
            pair = _least_product(x / np.sqrt(degree + 1), adjacent)
            if pair is None:
                return
            one, other = pair
            adjacent[one, other] = adjacent[other, one] = True
            source, target = np.append(source, pair), np.append(target, pair[::-1])
            degree[[one, other]] += 1
            x = _power_step(x, source, target, degree)


def _power_step(
    x: np.ndarray, source: np.ndarray, target: np.ndarray, degree: np.ndarray
) -> np.ndarray:
    r"""A step with :math:`I + D^{-1/2} A D^{-1/2}`, orthogonal to its first eigenvector
    :math:`\sqrt d`."""
    root = np.sqrt(degree)
    # Rounding brings the first eigenvector back in each step, and it would win.
    if root.any():
        x = x - root * (x @ root) / (root @ root)
    scale = np.divide(1, root, out=np.zeros_like(root), where=root > 0)
    sums = np.bincount(target, (scale * x)[source], minlength=len(x))
    x = x + scale * sums
    length = np.linalg.norm(x)
    if length == 0:
        return x
    return x / length


def _least_product(y: np.ndarray, adjacent: Adjacency) -> tuple[int, int] | None:
    """The two nodes without an edge that have the least product; None if all have one."""
    product = np.outer(y, y)
    product[adjacent] = np.inf
    np.fill_diagonal(product, np.inf)
    row, column = np.unravel_index(product.argmin(), product.shape)
    if np.isinf(product[row, column]):
        return None
    return int(row), int(column)


@register("transform", "sdrf")
class SDRF(Rewiring):
    r"""SDRF: support the edge of the lowest curvature with another one, again and again.

    In each step the edge i, j of the lowest balanced Forman curvature is taken. Of all pairs k, l
    without an edge, k being i or a neighbour of i and l being j or a neighbour of j, one is added,
    drawn with probability :math:`\propto e^{\tau \Delta}`, where :math:`\Delta` is by how much it
    raises the curvature of i, j. Then the edge of the highest curvature is removed if that is
    above a bound. Topping, Di Giovanni, Chamberlain, Dong & Bronstein, *Understanding
    Over-squashing and Bottlenecks on Graphs via Curvature*, ICLR 2022: this is the paper's
    algorithm, of which the released code for CPUs computes the curvature of few edges.

    Args:
        steps: Number of steps.
        tau: Tau; large ones take the best pair.
        remove_above: Remove the edge of the highest curvature if it is above this.
    """

    def __init__(
        self, steps: Added = 50, tau: NonNegative = 20.0, remove_above: Finite = 0.5
    ) -> None:
        self.steps = steps
        self.tau = tau
        self.remove_above = remove_above

    def rewire(self, adjacent: Adjacency) -> None:
        curvature: dict[tuple[int, int], float] = {}
        _update_curvature(curvature, adjacent, range(len(adjacent)))
        for _ in range(self.steps):
            if not curvature:
                return
            lowest = min(curvature, key=curvature.__getitem__)
            pair = self._draw_pair(adjacent, *lowest)
            if pair is not None:
                _set_edge(adjacent, curvature, pair, True)
            highest = max(curvature, key=curvature.__getitem__)
            is_removed = curvature[highest] > self.remove_above
            if is_removed:
                _set_edge(adjacent, curvature, highest, False)
            if pair is None and not is_removed:
                return  # all further steps would be the same

    def _draw_pair(self, adjacent: Adjacency, i: int, j: int) -> tuple[int, int] | None:
        """The pair to add around an edge; None if all have an edge."""
        pairs, gain = [], []
        before = balanced_forman(adjacent, i, j)
        around_j = [j, *np.flatnonzero(adjacent[j])]
        for k in [i, *np.flatnonzero(adjacent[i])]:
            for other in around_j:
                if k == other or adjacent[k, other]:
                    continue
                # Added for a moment, to see what it does.
                adjacent[k, other] = adjacent[other, k] = True
                gain.append(balanced_forman(adjacent, i, j) - before)
                adjacent[k, other] = adjacent[other, k] = False
                pairs.append((int(k), int(other)))
        if not pairs:
            return None
        chance = torch.softmax(self.tau * torch.tensor(gain, dtype=torch.float64), 0)
        return pairs[int(torch.multinomial(chance, 1))]


def _set_edge(
    adjacent: Adjacency, curvature: dict[tuple[int, int], float], pair: tuple[int, int], on: bool
) -> None:
    """Add or remove an edge, and compute the curvatures that this changes."""
    # The curvature of an edge depends on the neighbours of its ends, before and after.
    one, other = pair
    near = adjacent[one] | adjacent[other]
    near[[one, other]] = True
    adjacent[one, other] = adjacent[other, one] = on
    if not on:
        del curvature[min(pair), max(pair)]
    _update_curvature(curvature, adjacent, np.flatnonzero(near))


def _update_curvature(
    curvature: dict[tuple[int, int], float], adjacent: Adjacency, nodes: Sequence[int] | np.ndarray
) -> None:
    """Compute the curvature of every edge at one of these nodes."""
    done = set()
    for node in nodes:
        for neighbour in np.flatnonzero(adjacent[node]):
            edge = int(min(node, neighbour)), int(max(node, neighbour))
            if edge not in done:
                done.add(edge)
                curvature[edge] = balanced_forman(adjacent, *edge)


def balanced_forman(adjacent: Adjacency, i: int, j: int) -> float:
    r"""The balanced Forman curvature of the edge between i and j.

    .. math::
        \frac{2}{d_i} + \frac{2}{d_j} - 2
        + \frac{2 |\Delta|}{\max(d_i, d_j)} + \frac{|\Delta|}{\min(d_i, d_j)}
        + \frac{|\Box_i| + |\Box_j|}{\gamma \, \max(d_i, d_j)}

    and 0 if a degree is 1. :math:`\Delta` are the common neighbours. :math:`\Box_i` are the
    neighbours of i on a cycle of four edges through i and j without diagonals, and
    :math:`\gamma` is the largest number of such cycles through one of these nodes. Topping et al.,
    ICLR 2022, definition 1.
    """
    of_i, of_j = adjacent[i], adjacent[j]
    degrees = int(of_i.sum()), int(of_j.sum())
    least, most = min(degrees), max(degrees)
    if least <= 1:
        return 0.0
    triangles = int((of_i & of_j).sum())
    curvature = 2 / degrees[0] + 2 / degrees[1] - 2 + 2 * triangles / most + triangles / least
    only_i, only_j = of_i & ~of_j, of_j & ~of_i
    only_i[j] = only_j[i] = False
    # Each edge between the two sets closes a cycle of four edges.
    closes = adjacent[np.ix_(np.flatnonzero(only_i), np.flatnonzero(only_j))]
    if closes.any():
        through = closes.sum(1), closes.sum(0)
        corners = int((through[0] > 0).sum() + (through[1] > 0).sum())
        gamma = int(max(through[0].max(), through[1].max()))
        curvature += corners / (gamma * most)
    return curvature


@register("transform", "borf")
class BORF(Rewiring):
    r"""BORF: in rounds, bridge the edges of the lowest Ollivier-Ricci curvature and drop the
    highest.

    The curvature of an edge u, v is :math:`1 - W`, where W is the least cost of moving the uniform
    distribution on the neighbours of u to that on the neighbours of v, over distances in the graph.
    Each round computes all curvatures. For each of the edges of lowest curvature it joins the two
    nodes between which most is paid (amount times distance), unless they have an edge, and it
    removes the edges of highest curvature. Nguyen et al., *Revisiting Over-smoothing and
    Over-squashing Using Ollivier-Ricci Curvature*, ICML 2023. Edges are undirected here.

    Args:
        rounds: Number of rounds.
        add: Number of edges of lowest curvature to bridge in a round.
        remove: Number of edges of highest curvature to remove in a round.
    """

    def __init__(
        self, rounds: Annotated[int, Range(0, 1000)] = 3, add: Added = 20, remove: Added = 10
    ) -> None:
        self.rounds = rounds
        self.add = add
        self.remove = remove

    def rewire(self, adjacent: Adjacency) -> None:
        for _ in range(self.rounds):
            bridges: dict[tuple[int, int], tuple[int, int]] = {}
            curvature: dict[tuple[int, int], float] = {}
            for edge in zip(*np.nonzero(np.triu(adjacent)), strict=True):
                one, other = int(edge[0]), int(edge[1])
                curvature[one, other], bridges[one, other] = ollivier_ricci(adjacent, one, other)
            # As published: all curvatures are those at the start of the round.
            ordered = sorted(curvature, key=curvature.__getitem__)
            for edge in ordered[: self.add]:
                one, other = bridges[edge]
                if one != other:
                    adjacent[one, other] = adjacent[other, one] = True
            for one, other in ordered[max(0, len(ordered) - self.remove) :]:
                adjacent[one, other] = adjacent[other, one] = False


def ollivier_ricci(adjacent: Adjacency, u: int, v: int) -> tuple[float, tuple[int, int]]:
    """The Ollivier-Ricci curvature of an edge without idleness, and the two nodes between which an
    optimal plan pays most."""
    of_u, of_v = adjacent[u], adjacent[v]
    amount = of_u / of_u.sum() - of_v / of_v.sum()  # what both hold stays where it is
    gives, takes = np.flatnonzero(amount > 1e-12), np.flatnonzero(amount < -1e-12)
    if not len(gives):
        return 1.0, (u, u)
    # All are neighbours of two joined nodes, so their distances are 1, 2 or 3.
    share = adjacent[gives].astype(np.float32) @ adjacent[takes].astype(np.float32).T > 0
    distance = np.where(adjacent[np.ix_(gives, takes)], 1.0, np.where(share, 2.0, 3.0))
    plan = _transport(amount[gives], -amount[takes], distance)
    paid = plan * distance
    row, column = np.unravel_index(paid.argmax(), paid.shape)
    return 1 - float(paid.sum()), (int(gives[row]), int(takes[column]))


def _transport(supply: np.ndarray, demand: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """An optimal plan, shape (suppliers, consumers)."""
    rows, columns = cost.shape
    # Equal amounts on both sides are an assignment, which is solved far faster.
    if rows == columns and np.allclose(supply, supply[0]) and np.allclose(demand, supply[0]):
        plan = np.zeros_like(cost)
        plan[linear_sum_assignment(cost)] = supply[0]
        return plan
    leaves = np.kron(np.eye(rows), np.ones(columns))
    arrives = np.kron(np.ones(rows), np.eye(columns))
    # Sums that differ by rounding would have no solution.
    amounts = np.concatenate([supply, demand * (supply.sum() / demand.sum())])
    solved = linprog(cost.ravel(), A_eq=np.concatenate([leaves, arrives]), b_eq=amounts)
    return solved.x.reshape(cost.shape)
