"""The structure of a graph: edges sorted by target, and what is derived from them, once."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, remove_self_loops

from gnn_depth import torch_internals
from gnn_depth.csr import EdgeRows, pointers

T = TypeVar("T")
G = TypeVar("G", bound="Graph")
#: The attributes that hold a row for each edge, where they are given.
OF_EDGES = ("edge_weight", "edge_attr")
# The graphs of Graph.of: edge_index -> its graph, and its entries or torch's version then.
_KNOWN: "WeakTensorKeyDictionary" = WeakTensorKeyDictionary()


def keeps_result(method: Callable[..., T]) -> Callable[..., T]:
    """Keep what a method derives from its graph, once for each of its arguments."""

    @wraps(method)
    def derived(graph: "Graph", *args: object) -> T:
        return graph.once((method.__name__, *args), lambda: method(graph, *args))

    return derived


class Graph:
    """A directed graph whose edges are sorted by target, then source.

    A message runs from ``source[e]`` to ``target[e]``; the edges into node i are ``ptr[i]:ptr[i +
    1]``. Everything derived (self-loops, degrees, GCN weights, the transposed order) is computed at
    its first use and kept, so the layers and the steps of a training share it. Repeated edges stay
    repeated.

    A *block* of a larger graph has more sources than targets: the first ``num_nodes`` sources are
    the targets themselves, and the others only send.

    Args:
        edge_index: Sources and targets, shape (2, edges), integers from 0.
        num_nodes: Number of nodes, isolated ones included; of a block, its targets.
        node_to_graph: For several graphs laid side by side, which one a node belongs to, shape
            (nodes,), numbered from 0 without gaps. All nodes are one graph where it is not given.
        num_sources: Number of nodes that messages may come from; by default the nodes themselves.
        edge_weight: A weight for each edge of ``edge_index``, shape (edges,), not below zero; None
            for equal ones. Only layers that say so (``takes_edge_weights``) read them, and stacks
            refuse others.
        edge_attr: Features of each edge, shape (edges, edge_channels); only layers with
            ``takes_edge_features`` read them, and stacks refuse others.

    Raises:
        ValueError: An edge that names a node out of range (the first one is named), graphs numbered
            with gaps, a weight that is negative or not finite, or a feature that is not finite.
    """

    #: True if it is one process's part of a graph: see gnn_depth.shard.
    is_shard = False
    #: Probability of dropping an entry of a message in this pass: see ``sum_messages``.
    message_dropout = 0.0

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        node_to_graph: Tensor | None = None,
        num_sources: int | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> None:
        if num_sources is None:
            num_sources = num_nodes
        _check_edges(edge_index, num_nodes, num_sources)
        _check_of_edges("edge_weight", edge_weight, edge_index.shape[1])
        _check_of_edges("edge_attr", edge_attr, edge_index.shape[1])
        self.num_nodes = num_nodes
        self.num_sources = num_sources
        self.node_to_graph = node_to_graph
        self.num_graphs = 1
        if node_to_graph is not None:
            # A gap would be a graph without nodes, whose mean does not exist.
            fits = (
                node_to_graph.shape == (num_nodes,) and num_nodes > 0 and node_to_graph.min() >= 0
            )
            if not fits or (torch.bincount(node_to_graph) == 0).any():
                raise ValueError(
                    f"node_to_graph must hold the graph of each of the {num_nodes} nodes, numbered "
                    "from 0 without gaps."
                )
            self.num_graphs = int(node_to_graph.max()) + 1
        self._whole: Graph | None = None
        self._set_edges(edge_index, edge_weight, edge_attr)

    def _set_edges(
        self, edge_index: Tensor, edge_weight: Tensor | None, edge_attr: Tensor | None
    ) -> None:
        order = self._order(edge_index)
        self.source = edge_index[0][order].contiguous()
        self.target = edge_index[1][order].contiguous()
        self.ptr = pointers(self.target, self.num_nodes)
        self.edge_weight, self.edge_attr = edge_weight, edge_attr
        for name, values in self.of_edges(order).items():
            # Detached: what is derived from them is kept from step to step, without a gradient.
            setattr(self, name, values.detach().contiguous())
        self._derived: dict[object, object] = {}

    def _order(self, edge_index: Tensor) -> Tensor:
        # Stable, so that repeated edges keep the order of their weights and features.
        return torch.argsort(edge_index[1] * self.num_sources + edge_index[0], stable=True)

    def _replace(self: G, **changes: Any) -> G:
        """Copy the graph with some attributes replaced, and nothing derived from it yet."""
        # Not through the constructor, which would check and sort the edges again.
        graph = type(self).__new__(type(self))
        graph.__dict__.update(self.__dict__, _derived={}, **changes)
        return graph

    @classmethod
    def of(cls, graph: "Graph | Tensor", num_nodes: int) -> "Graph":
        """Return the graph as it is, or make one of an ``edge_index`` and keep it.

        It is kept while the tensor lives and is unchanged. On the CPU every entry is compared in
        each call, so any change is seen, also one made through NumPy or ``.data``. On other devices
        torch's operations count changes, and one made through ``.data`` is not seen: give a new
        tensor, ``edge_index.clone()``, or a ``Graph``.
        """
        if isinstance(graph, Graph):
            return graph
        # By identity, weakly: the graph goes when its edge_index does.
        known, state = _KNOWN.get(graph, (None, None))  # type: ignore[no-untyped-call]
        # The same edges may be given with more isolated nodes.
        if known is None or known.num_nodes != num_nodes or not _is_unchanged(graph, state):
            known = cls(graph, num_nodes)
            # Entries on the CPU; elsewhere comparing them would wait for the device.
            is_here = graph.device.type == "cpu"
            _KNOWN[graph] = known, graph.clone() if is_here else torch_internals.version(graph)
        return known

    @property
    def num_edges(self) -> int:
        return self.source.numel()

    @property
    def whole(self) -> "Graph":
        """The graph that this is a block of, or the graph itself."""
        return self._whole or self

    @property
    def edge_channels(self) -> int:
        """Number of features of an edge; 0 if edges have none."""
        if self.edge_attr is None:
            return 0
        return self.edge_attr.shape[1]

    def of_edges(self, chosen: Tensor | slice) -> dict[str, Any]:
        """Weights and features of some edges, if there are any, as arguments of another graph."""
        found = {}
        for name in OF_EDGES:
            values = getattr(self, name)
            if values is not None:
                found[name] = values[chosen]
        return found

    @property
    def device(self) -> torch.device:
        return self.source.device

    @property
    @keeps_result
    def edge_index(self) -> Tensor:
        """Sources and targets, sorted by target, shape (2, edges)."""
        return torch.stack([self.source, self.target])

    @property
    def in_degree(self) -> Tensor:
        """Number of edges into each node, shape (nodes,)."""
        return self.ptr.diff()

    @property
    def weighted_in_degree(self) -> Tensor:
        """Sum of the weights of the edges into each node, in float64; without weights the
        in-degree."""
        if self.edge_weight is None:
            return self.in_degree.double()
        weight = self.edge_weight.double()
        return weight.new_zeros(self.num_nodes).index_add_(0, self.target, weight)

    @keeps_result
    def with_self_loops(self) -> "Graph":
        """The same graph with exactly one self-loop at every node.

        One that is added has weight 1; of several at a node the last one stays (on a GPU, any of
        them). The features of every self-loop are the mean of those of the node's other incoming
        edges, as in PyTorch Geometric; zero if there are none.
        """
        if self._whole is not None:
            return self._whole.with_self_loops().prefix(self.num_nodes)
        edges, nodes = self.edge_index, self.num_nodes
        edge_index, weight = add_remaining_self_loops(edges, self.edge_weight, 1.0, nodes)
        features = None
        if self.edge_attr is not None:
            proper = remove_self_loops(edges, self.edge_attr)
            _, features = add_self_loops(*proper, "mean", nodes)
        graph = self._replace()
        graph._set_edges(edge_index, weight, features)  # sorts them anew
        return graph

    @keeps_result
    def gcn_weights(self, dtype: torch.dtype) -> Tensor:
        r"""Weight :math:`w_{ij} / \sqrt{d_i d_j}` of each edge, shape (edges,).

        Without edge weights w is 1 and d the in-degree, otherwise the sum of the weights into a
        node. Kipf & Welling, ICLR 2017.

        Raises:
            ValueError: The graph is a block without the whole, and its sources may have neighbours
                outside it.
        """
        if self._whole is not None:
            return self._whole.gcn_weights(dtype)[: self.num_edges]
        if self.num_sources != self.num_nodes and not self.is_shard:
            raise ValueError(
                "a block does not know the degrees of its sources: use the weights of the whole "
                "graph."
            )
        # In float64, rounded once at the end. As in PyTorch Geometric a node of degree 0 sends and
        # gets nothing, rather than NaN; a shard fetches the roots of its other sources.
        degree = self.weighted_in_degree
        scale = torch.where(degree > 0, degree.rsqrt(), 0)
        weight = self.fetch(scale)[self.source] * self.sum_weights(torch.float64)
        return (weight * scale[self.target]).to(dtype)

    def sum_weights(self, dtype: torch.dtype) -> Tensor:
        """Weight :math:`w_{ij}` of each edge in a sum over neighbours, shape (edges,); 1 without
        weights."""
        if self.edge_weight is None:
            return torch.ones(self.num_edges, dtype=dtype, device=self.device)
        return self.edge_weight.to(dtype)

    @keeps_result
    def mean_weights(self, dtype: torch.dtype) -> Tensor:
        r"""Weight :math:`w_{ij} / \sum_j w_{ij}` of each edge in a mean over neighbours, shape
        (edges,); w is 1 where edges have none."""
        degree = self.weighted_in_degree
        scale = torch.where(degree > 0, degree.reciprocal(), 0)
        return (scale[self.target] * self.sum_weights(torch.float64)).to(dtype)

    def prefix(self, num_nodes: int) -> "Graph":
        """The block of all edges into the first ``num_nodes`` nodes; the graph itself for all.

        Its sources are the nodes up to the last one that sends along these edges. Its weights are
        those of the whole graph, restricted to these edges.

        Raises:
            ValueError: There are fewer nodes.
        """
        if not 0 <= num_nodes <= self.num_nodes:
            raise ValueError(
                f"the first {num_nodes} nodes of a graph that has {self.num_nodes} do not exist."
            )
        if num_nodes == self.num_nodes:
            return self
        return self._block(num_nodes)

    @keeps_result
    def _block(self, num_nodes: int) -> "Graph":
        # Sorted by target, the edges into the first nodes are the first edges.
        num_edges = int(self.ptr[num_nodes])
        source = self.source[:num_edges]
        num_sources = num_nodes
        if num_edges:
            num_sources = max(num_nodes, int(source.max()) + 1)
        block = self._replace(
            num_nodes=num_nodes,
            num_sources=num_sources,
            source=source,
            target=self.target[:num_edges],
            ptr=self.ptr[: num_nodes + 1],
            _whole=self.whole,
            **self.of_edges(slice(num_edges)),
        )
        if self.node_to_graph is not None:
            block.node_to_graph = self.node_to_graph[:num_nodes]
        return block

    def keeping(self, kept: Tensor) -> "Graph":
        """The same nodes with the edges where ``kept``, shape (edges,), is true.

        Degrees are those of the edges that stay.
        """
        assert self._whole is None, "a block takes derived tensors from the whole graph"
        source, target = self.source[kept], self.target[kept]
        ptr = pointers(target, self.num_nodes)
        return self._replace(source=source, target=target, ptr=ptr, **self.of_edges(kept))

    @keeps_result
    def dropping_messages(self, p: float) -> "Graph":
        """The same graph for a pass in which layers drop entries of messages with probability p."""
        return self._replace(message_dropout=p)

    @property
    @keeps_result
    def rows(self) -> EdgeRows:
        """The edges as rows of a sparse matrix."""
        return EdgeRows(self.source, self.target, (self.num_nodes, self.num_sources))

    @property
    @keeps_result
    def edge_ids(self) -> Tensor:
        """0, 1, ..., edges - 1, of the integer type of :meth:`rows`."""
        return torch.arange(self.num_edges, device=self.device, dtype=self.rows.ptr.dtype)

    @property
    @keeps_result
    def reverse(self) -> Tensor | None:
        """The reverse of each edge, shape (edges,); None unless every edge has one."""
        if self.num_sources != self.num_nodes:
            return None
        order = self.rows.transposed_order
        # The edges of an undirected graph, sorted by source, mirror those sorted by target.
        if not torch.equal(self.source[order], self.target):
            return None
        if not torch.equal(self.target[order], self.source):
            return None
        return order

    # A shard, whose nodes are only some of the graph's, answers these otherwise: see
    # gnn_depth.shard.

    @property
    def total_nodes(self) -> int:
        """Number of nodes, those of other processes included."""
        return self.num_nodes

    @property
    def node_numbers(self) -> Tensor | None:
        """Number of each node in the graph of all processes; None if this is the whole graph."""
        return None

    @property
    def edge_numbers(self) -> Tensor | None:
        """Number of each edge in the graph of all processes; None if this is the whole graph."""
        return None

    def fetch(self, x: Tensor) -> Tensor:
        """The rows of all sources, shape (sources, ...), given those of the nodes, (nodes, ...): a
        shard receives the others from other processes."""
        return x

    def all_reduce(self, sums: Tensor) -> Tensor:
        """Sums over all nodes, given those over the nodes of this shard."""
        return sums

    def collect(self, x: Tensor) -> Tensor:
        """Sums for each node over all edges, given those over the edges here: the adjoint of
        :meth:`fetch`."""
        return x

    def max(self, x: Tensor) -> float:
        """The largest number of x over all nodes."""
        return x.max().item()

    def draw_edges(self) -> Tensor:
        """A uniform random number for each edge, shape (edges,)."""
        return torch.rand(self.num_edges, device=self.device)

    def draw_sources(self) -> Tensor:
        """A uniform random number for each source, shape (sources,)."""
        return torch.rand(self.num_sources, device=self.device)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "Graph":
        """The graph on another device, or itself if it is already there."""
        device = torch.empty(0, device=device).device  # cuda is cuda:0
        if device == self.device:
            return self
        return self.once(("to", device), lambda: self._moved(device, non_blocking))

    def _moved(self, device: torch.device, non_blocking: bool) -> "Graph":
        moved = self._replace()
        for name, value in vars(self).items():
            if isinstance(value, Tensor | Graph):
                setattr(moved, name, value.to(device, non_blocking=non_blocking))
        return moved

    def __getstate__(self) -> dict[str, object]:
        # Derived tensors are large to pickle and cheap to compute again.
        return self.__dict__ | {"_derived": {}}

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Make something derived from the graph, and keep it for the next request."""
        if key not in self._derived:
            # Tensors that are made in inference mode could not be trained with later, and those
            # that are made inside a transform are of no use outside it.
            with torch.inference_mode(False), torch_internals.outside_traces(self.source):
                self._derived[key] = make()
        return self._derived[key]  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def _is_unchanged(edge_index: Tensor, state: Tensor | int | None) -> bool:
    if isinstance(state, Tensor):
        return torch.equal(edge_index, state)
    # A tensor of inference mode counts no versions.
    return state is not None and torch_internals.version(edge_index) == state


def _check_edges(edge_index: Tensor, num_nodes: int, num_sources: int) -> None:
    if num_sources < num_nodes:
        raise ValueError(
            f"the first sources of a block are its {num_nodes} targets, but num_sources is "
            f"{num_sources}."
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype != torch.long:
        raise ValueError(
            f"edge_index must be an int64 tensor of shape (2, edges), not {edge_index.dtype} "
            f"{tuple(edge_index.shape)}."
        )
    # Sources and targets have limits of their own: only a block has more sources.
    sizes = torch.tensor([[num_sources], [num_nodes]], device=edge_index.device)
    outside = (edge_index < 0) | (edge_index >= sizes)
    bad = outside.any(0).nonzero()
    if len(bad):
        edge = int(bad[0])
        ends = tuple(edge_index[:, edge].tolist())
        of_sources = ""
        if num_sources != num_nodes:
            of_sources = f", sources to {num_sources - 1}"
        raise ValueError(
            f"edge {edge} is {ends}, but nodes run from 0 to {num_nodes - 1}{of_sources}."
        )


def _check_of_edges(name: str, values: Tensor | None, num_edges: int) -> None:
    if values is None:
        return
    if name == "edge_weight":
        wanted, has_shape = f"({num_edges},)", values.dim() == 1
        # Weights below zero can make a degree negative, which has no square root.
        least, rule = 0.0, "weights are finite and not below zero"
    else:
        wanted = f"({num_edges}, edge_channels)"
        has_shape = values.dim() == 2 and values.shape[1] > 0
        least, rule = -torch.inf, "features must be finite"
    if not (has_shape and len(values) == num_edges and values.is_floating_point()):
        raise ValueError(
            f"{name} must be floats of shape {wanted}, not {values.dtype} {tuple(values.shape)}."
        )
    bad = (~(values.isfinite() & (values >= least))).nonzero()
    if len(bad):
        position = bad[0].tolist()
        raise ValueError(f"{name}{position} is {values[tuple(position)].item()}: {rule}.")
