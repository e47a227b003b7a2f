"""A graph over several processes: each holds some nodes and the edges into them, its shard."""

from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.autograd import Function

from gnn_depth.graph import Graph, keeps_result

# What processes do together: sum, or fetch the rows of the halo, or return what belongs to these.
ADJOINTS = {"sum": "sum", "fetch": "return", "return": "fetch"}


class Shard(Graph):
    """One process's nodes of a graph that several processes hold, and the edges into these nodes.

    It is a block whose other sources, the *halo*, are nodes of other processes: :meth:`fetch` gets
    their rows. Sums over all nodes are :meth:`all_reduce`. Both are differentiable, and all
    processes have to call them together.

    Nodes have two numbers. Their *position* counts through the processes: those from
    ``bounds[rank]`` to ``bounds[rank + 1]`` are here. Their number in the whole graph decides the
    order of edges and the random numbers of dropout, which therefore do not depend on the
    processes.

    Args:
        edges: Positions of the sources and targets of all edges into the nodes here, shape (2,
            edges).
        bounds: First position of each process, and the number of all nodes; shape (processes + 1,).
        numbers: Numbers of the nodes here in the whole graph, shape (nodes,).
        group: The processes; by default all.
        **of_edges: ``edge_weight`` and ``edge_attr`` of the edges, as in :class:`Graph`.

    Attributes:
        numbers: Numbers of the sources in the whole graph; the nodes here come first.
        bytes_sent: Bytes of rows that went to other processes so far, in both directions.
    """

    is_shard = True

    def __init__(
        self,
        edges: Int[Tensor, "2 edges"],
        bounds: Int[Tensor, "_"],
        numbers: Int[Tensor, "nodes"],
        group: dist.ProcessGroup | None = None,
        **of_edges: Any,
    ) -> None:
        # Positions are dealt out in one range for each process.
        rank = dist.get_rank(group)
        first, after = int(bounds[rank]), int(bounds[rank + 1])
        source = edges[0]
        is_here = (source >= first) & (source < after)
        halo: Tensor = source[~is_here].unique()  # type: ignore[no-untyped-call]
        self.group = group
        self._total_nodes = int(bounds[-1])
        # How many rows this process receives from each other one, and how many each wants of it.
        counts = torch.searchsorted(halo, bounds).diff()
        wanted = torch.empty_like(counts)
        dist.all_to_all_single(wanted, counts, group=group)
        self._receives: list[int] = counts.tolist()
        self._sends: list[int] = wanted.tolist()
        self.bytes_sent = 0
        # The positions that the others want, as numbers of the rows here that are sent to them.
        self._sent_rows = _together(halo, self, "return") - first
        self.numbers = self.fetch(numbers)
        self.bytes_sent = 0  # what is above does not count
        # Sources here count from 0; those elsewhere follow, in the order of the halo.
        position_in_halo = torch.searchsorted(halo, source)
        local = torch.where(is_here, source - first, len(numbers) + position_in_halo)
        super().__init__(
            torch.stack([local, edges[1] - first]),
            after - first,
            num_sources=len(self.numbers),
            **of_edges,
        )

    def _order(self, edge_index: Tensor) -> Tensor:
        # Not by local sources: sums over edges, and random numbers for them, come in the order of
        # the whole graph.
        order = edge_index[1] * self.total_nodes + self.numbers[edge_index[0]]
        return torch.argsort(order, stable=True)

    @property
    def total_nodes(self) -> int:
        return self._total_nodes

    @property
    def node_numbers(self) -> Tensor | None:
        return self.numbers[: self.num_nodes]

    @property
    @keeps_result
    def edge_numbers(self) -> Tensor | None:
        # Edges are numbered by target, so the targets' degrees everywhere tell the first numbers.
        degree = torch.zeros(self.total_nodes, dtype=torch.long, device=self.device)
        degree[self.node_numbers] = self.in_degree
        dist.all_reduce(degree, group=self.group)
        first = degree.cumsum(0)[self.node_numbers] - self.in_degree  # edge into each node here
        shift = first - self.ptr[:-1]
        return shift[self.target] + torch.arange(self.num_edges, device=self.device)

    def fetch(self, x: Shaped[Tensor, "nodes *rest"]) -> Shaped[Tensor, "sources *rest"]:
        return torch.cat([x, _together(x.index_select(0, self._sent_rows), self, "fetch")])

    def all_reduce(self, sums: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "*any"]:
        return _together(sums, self, "sum")

    def collect(self, x: Shaped[Tensor, "sources *rest"]) -> Shaped[Tensor, "nodes *rest"]:
        # The sums for the halo belong to other processes, whose sums for ours come back: several
        # may return those of the same row.
        returned = _together(x[self.num_nodes :], self, "return")
        sums = returned.new_zeros(self.num_nodes, *returned.shape[1:])
        return x[: self.num_nodes] + sums.index_add(0, self._sent_rows, returned)

    def max(self, x: Tensor) -> float:
        # A process without numbers still takes part: the others wait for it.
        largest = x.new_full((), -torch.inf)
        if x.numel():
            largest = x.max()
        dist.all_reduce(largest, dist.ReduceOp.MAX, self.group)
        return largest.item()

    def draw_edges(self) -> Float[Tensor, "edges"]:
        # Every process draws the numbers of all edges, so that the draws do not depend on how many
        # processes there are.
        total = int(self.all_reduce(torch.tensor(self.num_edges, device=self.device)))
        return torch.rand(total, device=self.device)[self.edge_numbers]

    def draw_sources(self) -> Float[Tensor, "sources"]:
        return torch.rand(self.total_nodes, device=self.device)[self.numbers]


class _Collective(Function):
    """A linear map that all processes compute together. The gradient is that of its adjoint: each
    process reads a sum over all, and who receives a row returns the row's gradient."""

    @staticmethod
    def forward(x: Tensor, shard: Shard, kind: str) -> Tensor:
        if kind == "sum":
            total = x.detach().clone()
            dist.all_reduce(total, group=shard.group)
            return total
        receives, sends = shard._receives, shard._sends
        if kind == "return":
            receives, sends = sends, receives
        shard.bytes_sent += x.numel() * x.element_size()
        out = x.new_empty(sum(receives), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), receives, sends, group=shard.group)
        return out

    @staticmethod  # which transforms of functions need, as those of LipschitzConstants
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.shard, ctx.kind = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _together(grads[0], ctx.shard, ADJOINTS[ctx.kind]), None, None


def _together(x: Tensor, shard: Shard, kind: str) -> Tensor:
    out: Tensor = _Collective.apply(x, shard, kind)  # type: ignore[no-untyped-call]
    return out
