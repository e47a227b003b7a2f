"""The structure of a graph: edges sorted by target, and all that layers derive from it, computed once."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class Graph:
    """A directed graph whose edges are sorted by target, then source.

    A message runs from ``source[e]`` to ``target[e]``; the edges into node i are
    ``ptr[i]:ptr[i + 1]``. Everything derived (self-loops, degrees, GCN weights, the
    transposed order) is computed at its first use and kept, so the L layers and the
    steps of a training share it. Repeated edges stay repeated.

    Args:
        edge_index: Sources and targets, shape (2, edges), integers in ``[0, num_nodes)``.
        num_nodes: Number of nodes, isolated ones included.
        node_to_graph: For several graphs laid side by side, which one a node belongs to,
            shape (nodes,), non-decreasing. All nodes are one graph where it is not given.

    Raises:
        ValueError: An edge that names a node out of range (the first one is named), or graphs out of order.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, node_to_graph: Tensor | None = None) -> None:
        _check_edges(edge_index, num_nodes)
        _check_graphs(node_to_graph, num_nodes)
        order = torch.argsort(edge_index[1] * num_nodes + edge_index[0], stable=True)
        self.num_nodes = num_nodes
        self.source = edge_index[0][order].contiguous()
        self.target = edge_index[1][order].contiguous()
        self.ptr = _pointers(self.target, num_nodes)
        self.node_to_graph = node_to_graph
        self.num_graphs = 1 if node_to_graph is None else int(node_to_graph[-1]) + 1
        self._derived: dict[object, object] = {}

    @property
    def num_edges(self) -> int:
        return self.source.numel()

    @property
    def device(self) -> torch.device:
        return self.source.device

    @property
    def edge_index(self) -> Tensor:
        """Sources and targets, sorted by target, shape (2, edges)."""
        return torch.stack([self.source, self.target])

    @property
    def in_degree(self) -> Tensor:
        """Number of edges into each node, shape (nodes,)."""
        return self.ptr.diff()

    def with_self_loops(self) -> "Graph":
        """The same graph with exactly one self-loop at every node."""
        return self._once("self_loops", self._add_self_loops)

    def _add_self_loops(self) -> "Graph":
        loops = torch.arange(self.num_nodes, device=self.device).expand(2, -1)
        proper = self.edge_index[:, self.source != self.target]
        return Graph(torch.cat([proper, loops], 1), self.num_nodes, self.node_to_graph)

    def gcn_weights(self, dtype: torch.dtype) -> Tensor:
        r"""Weight :math:`1 / \sqrt{d_i d_j}` of each edge, shape (edges,); Kipf & Welling, ICLR 2017."""
        return self._once(("gcn_weights", dtype), lambda: self._gcn_weights().to(dtype))

    def _gcn_weights(self) -> Tensor:
        scale = self.in_degree.double().clamp_min(1).rsqrt()
        return scale[self.source] * scale[self.target]

    def rows(self, heads: int) -> "EdgeRows":
        """The edges as rows of a sparse matrix, one for every head; see :class:`EdgeRows`."""
        return self._once(("rows", heads), lambda: EdgeRows(self, heads))

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Graph":
        """The graph on another device; itself where it is there already."""
        device = torch.empty(0, device=device).device  # cuda is cuda:0
        if device == self.device:
            return self
        return self._once(("to", device), lambda: self._copy_to(device, non_blocking))

    def _copy_to(self, device: torch.device, non_blocking: bool) -> "Graph":
        copy = Graph.__new__(Graph)
        copy.__dict__.update(self.__dict__)
        for name in ("source", "target", "ptr", "node_to_graph"):
            tensor = getattr(self, name)
            setattr(copy, name, None if tensor is None else tensor.to(device, non_blocking=non_blocking))
        copy._derived = {}
        return copy

    def __getstate__(self) -> dict[str, object]:
        # What is derived costs twenty times the graph to pickle, and little to compute again.
        return self.__dict__ | {"_derived": {}}

    def _once(self, key: object, make: Callable[[], T]) -> T:
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


class EdgeRows:
    """Edges x heads flattened to the non-zeros of a sparse (nodes * heads) x (nodes * heads) matrix.

    Row ``i * heads + h`` holds the edges into node i of head h, so that every head's
    aggregation is one sparse product over rows of ``channels`` numbers. Two orders exist of
    the same edges: the *rows* order (by target node, head, source), and the order of the
    tensors that layers see, (edges, heads) flattened; ``order`` leads from the second to the
    first. With one head the two agree.

    Attributes:
        ptr, source: CSR of the rows order; shapes (nodes * heads + 1,), (edges * heads,), int32.
        order: Position in the flattened (edges, heads) tensor of each entry, or None for one head.
        inverse: The inverse permutation of ``order``, or None for one head.
        transposed_ptr, transposed_target: CSR of the transposed matrix (rows are sources), int32.
        transposed_order: Position in the *flattened (edges, heads)* tensor of each transposed entry.
    """

    def __init__(self, graph: Graph, heads: int) -> None:
        head = torch.arange(heads, device=graph.device)
        target = (graph.target[:, None] * heads + head).flatten()
        source = (graph.source[:, None] * heads + head).flatten()
        self.num_rows = graph.num_nodes * heads
        order = torch.argsort(target, stable=True)
        self.order = None if heads == 1 else order
        self.inverse = None if heads == 1 else torch.argsort(order)
        self.ptr = _pointers(target, self.num_rows).int()
        self.source = source[order].int()
        self.transposed_order = torch.argsort(source, stable=True)
        self.transposed_ptr = _pointers(source, self.num_rows).int()
        self.transposed_target = target[self.transposed_order].int()

    def csr(self, transposed: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Row pointers, neighbours, and the order of the non-zeros, of the matrix or its transpose."""
        if transposed:
            return self.transposed_ptr, self.transposed_target, self.transposed_order
        return self.ptr, self.source, self.order


def _pointers(index: Tensor, size: int) -> Tensor:
    """CSR row pointers of the counts of ``index``."""
    ptr = torch.zeros(size + 1, dtype=torch.long, device=index.device)
    ptr[1:] = torch.bincount(index, minlength=size).cumsum(0)
    return ptr


def _check_edges(edge_index: Tensor, num_nodes: int) -> None:
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.long:
        raise ValueError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} {tuple(edge_index.shape)}."
        )
    bad = ((edge_index < 0) | (edge_index >= num_nodes)).any(0).nonzero()
    if len(bad):
        edge = int(bad[0])
        ends = tuple(edge_index[:, edge].tolist())
        raise ValueError(f"edge {edge} is {ends}, but nodes run from 0 to {num_nodes - 1}.")


def _check_graphs(node_to_graph: Tensor | None, num_nodes: int) -> None:
    if node_to_graph is None:
        return
    fits = node_to_graph.shape == (num_nodes,) and num_nodes > 0
    if not fits or node_to_graph[0] != 0 or (node_to_graph.diff() < 0).any():
        raise ValueError(
            f"node_to_graph must hold the graph of each of the {num_nodes} nodes, from 0 and never decreasing."
        )
