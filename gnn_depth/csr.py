"""Orders of edges in which a sum over each node's edges is one pass over memory."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

LONGEST_INT32 = 2**31 - 1
#: Limits of the parts of padded rows: each part is a loop to compile,
MOST_PARTS = 8
#: and one with fewer slices fits into the cache anyway.
SMALLEST_PART = 2**13


def pointers(index: Tensor, size: int) -> Tensor:
    """CSR row pointers of the counts of ``index``."""
    ptr = torch.zeros(size + 1, dtype=torch.long, device=index.device)
    ptr[1:] = torch.bincount(index, minlength=size).cumsum(0)
    return ptr


class EdgeRows:
    """Edges x heads flattened to the non-zeros of a sparse (nodes * heads) x (sources * heads)
    matrix.

    Row ``i * heads + h`` holds the edges into node i of head h, so that every head's aggregation is
    one sparse product over rows of ``channels`` numbers. Two orders exist of the same edges: the
    *rows* order (by target node, head, source), and the order of the tensors that layers see,
    (edges, heads) flattened; ``order`` leads from the second to the first. With one head the two
    agree. Indices are int32, half the memory of int64, wherever the counts allow it.

    Attributes:
        ptr, source: CSR of the rows order; shapes (nodes * heads + 1,), (edges * heads,).
        order: Position in the flattened (edges, heads) tensor of each entry, or None for one head.
        inverse: The inverse permutation of ``order``, or None for one head.
        transposed_ptr, transposed_target: CSR of the transposed matrix (rows are sources).
        transposed_order: Position in the *flattened (edges, heads)* tensor of each transposed
            entry.
    """

    def __init__(self, source: Tensor, target: Tensor, shape: tuple[int, int], heads: int) -> None:
        self.shape = (shape[0] * heads, shape[1] * heads)
        longest = max(*self.shape, source.numel() * heads)
        dtype = torch.int64
        if longest <= LONGEST_INT32:
            dtype = torch.int32
        # The edges are sorted by target already, so with one head this order is theirs.
        ptr = pointers(target, shape[0])
        self.ptr = _pointers_of_heads(ptr, heads).to(dtype)
        self.source = _of_heads(source.to(dtype), heads)
        self.order: Tensor | None = None
        self.inverse: Tensor | None = None
        if heads > 1:
            self.inverse = _positions(ptr, heads, dtype)
            numbers = torch.arange(self.inverse.numel(), dtype=dtype, device=source.device)
            self.order = _scattered(numbers, self.inverse)
            self.source = self.source[self.order]
        # Stable, so that a source's edges stay sorted by target, and sums come in that order.
        transposed_ptr = pointers(source, shape[1])
        transposed = torch.argsort(source, stable=True)
        self.transposed_ptr = _pointers_of_heads(transposed_ptr, heads).to(dtype)
        self.transposed_order = _of_heads(transposed.to(dtype), heads)
        self.transposed_target = _of_heads(target[transposed].to(dtype), heads)
        if heads > 1:
            positions = _positions(transposed_ptr, heads, dtype)
            self.transposed_order = _scattered(self.transposed_order, positions)
            self.transposed_target = _scattered(self.transposed_target, positions)

    def csr(self, transposed: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Row pointers, neighbours and order of the matrix, or of its transpose."""
        if transposed:
            return self.transposed_ptr, self.transposed_target, self.transposed_order
        return self.ptr, self.source, self.order


def _of_heads(index: Tensor, heads: int) -> Tensor:
    """Row numbers of every head of some nodes or edges: index * heads + head, flattened."""
    head = torch.arange(heads, dtype=index.dtype, device=index.device)
    return (index[:, None] * heads + head).flatten()


def _pointers_of_heads(ptr: Tensor, heads: int) -> Tensor:
    """Row pointers where the rows of a CSR are repeated for every head."""
    head = torch.arange(heads, device=ptr.device)
    first = ptr[:-1, None] * heads + ptr.diff()[:, None] * head
    return torch.cat([first.flatten(), ptr[-1:] * heads])


def _positions(ptr: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """The positions of a CSR's entries, repeated for every head, in the order of row, head, entry.

    Computed by arithmetic: sorting edges x heads would take several times the memory of the result.
    """
    length = ptr.diff()
    row = torch.repeat_interleave(torch.arange(len(length), device=ptr.device), length)
    first = torch.arange(len(row), device=ptr.device) + ptr[row] * (heads - 1)
    head = torch.arange(heads, dtype=dtype, device=ptr.device)
    return (first.to(dtype)[:, None] + length.to(dtype)[row, None] * head).flatten()


def _scattered(values: Tensor, positions: Tensor) -> Tensor:
    """The values, each moved to its position."""
    return torch.empty_like(values).scatter_(0, positions.long(), values)


@dataclass(frozen=True)
class PaddedRows:
    """Neighbour lists in slices of equal ``width``, of which each node's last one is padded.

    A compiled loop over slices runs without a scatter; the sums of a node's slices are then added
    up. Slices of 4 pad little even where most nodes have few neighbours.

    Attributes:
        node: The node that a slice belongs to, shape (slices,).
        neighbour: Its neighbours, padded with 0, shape (slices, width).
        edge: The edges, padded with the number of edges, shape (slices, width).
        ptr: The slices of node i are ``ptr[i]:ptr[i + 1]``; shape (nodes + 1,), int32 where the
            counts allow it.
        index: 0, 1, ..., slices - 1, of the type of ``ptr``.
        borders: Nodes that begin a part, and the last one's end, each with its first slice.
    """

    node: Tensor
    neighbour: Tensor
    edge: Tensor
    ptr: Tensor
    index: Tensor
    borders: tuple[tuple[int, int], ...]

    def parts(self) -> "list[PaddedRows]":
        """The slices of consecutive groups of nodes, each part with pointers that begin with 0.

        A loop over a part leaves results that are small and still in the cache when they are read
        again.
        """
        parts = []
        for (node, first), (last_node, end) in pairwise(self.borders):
            part = PaddedRows(
                node=self.node[first:end],
                neighbour=self.neighbour[first:end],
                edge=self.edge[first:end],
                ptr=self.ptr[node : last_node + 1] - first,
                index=self.index[: end - first],
                borders=((0, 0), (last_node - node, end - first)),
            )
            parts.append(part)
        return parts


def padded_rows(ptr: Tensor, neighbour: Tensor, order: Tensor | None, width: int = 4) -> PaddedRows:
    """Cut the rows of a CSR into slices; ``order`` is the edge of each entry, None if in order."""
    slices = (ptr.diff().long() + width - 1) // width  # of each node, rounded up
    first_slice = torch.zeros_like(ptr, dtype=torch.long)
    first_slice[1:] = slices.cumsum(0)
    node = torch.repeat_interleave(torch.arange(len(slices), device=ptr.device), slices)
    index = torch.arange(len(node), device=ptr.device)
    first_entry = ptr[node] + (index - first_slice[node]) * width
    entry = first_entry[:, None] + torch.arange(width, device=ptr.device)
    real = entry < ptr[node + 1, None]
    # Padding must point somewhere, here to the first entry, until its value is replaced below.
    entry = entry.where(real, 0)
    edge = entry
    if order is not None:
        edge = order[entry]
    return PaddedRows(
        node=node.to(ptr.dtype),
        neighbour=neighbour[entry].where(real, 0),
        edge=edge.to(ptr.dtype).where(real, len(neighbour)),
        ptr=first_slice.to(ptr.dtype),
        index=index.to(ptr.dtype),
        borders=_borders(first_slice),
    )


def _borders(first_slice: Tensor) -> tuple[tuple[int, int], ...]:
    """Nodes, with their first slices, that divide the slices into parts of about equal size."""
    nodes, total = len(first_slice) - 1, int(first_slice[-1])
    count = min(MOST_PARTS, max(1, total // SMALLEST_PART))
    # A border lies between nodes, never in one: its sum is one loop's.
    even = torch.arange(1, count, device=first_slice.device) * (total // count)
    borders = sorted({0, *torch.searchsorted(first_slice, even).tolist(), nodes})
    return tuple(zip(borders, first_slice[borders].tolist(), strict=True))
