"""Edge orders (CSR and padded rows) in which summing over each node's edges is one pass over
memory."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

LONGEST_INT32 = 2**31 - 1
#: Limits of the parts of padded rows: each part is a loop to compile, and small ones fit into the
#: cache anyway.
MOST_PARTS, SMALLEST_PART = 8, 2**13


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
        dtype = (
            torch.int32
            if max(*self.shape, source.numel() * heads) <= LONGEST_INT32
            else torch.int64
        )
        ptr, transposed_ptr = pointers(target, shape[0]), pointers(source, shape[1])
        transposed = torch.argsort(source, stable=True)
        self.order = self.inverse = None
        if heads > 1:
            self.inverse = _places(ptr, heads, dtype)
            self.order = _scattered(
                torch.arange(self.inverse.numel(), dtype=dtype, device=source.device), self.inverse
            )
        self.ptr = _pointers_of_heads(ptr, heads).to(dtype)
        self.source = _of_heads(source.to(dtype), heads)
        self.source = self.source if self.order is None else self.source[self.order]
        places = None if heads == 1 else _places(transposed_ptr, heads, dtype)
        self.transposed_order = _scattered(_of_heads(transposed.to(dtype), heads), places)
        self.transposed_ptr = _pointers_of_heads(transposed_ptr, heads).to(dtype)
        self.transposed_target = _scattered(_of_heads(target[transposed].to(dtype), heads), places)

    def csr(self, transposed: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Row pointers, neighbours, and the order of the non-zeros, of the matrix or its
        transpose."""
        if transposed:
            return self.transposed_ptr, self.transposed_target, self.transposed_order
        return self.ptr, self.source, self.order


def _of_heads(index: Tensor, heads: int) -> Tensor:
    """Row numbers of every head of some nodes or edges: index * heads + head, flattened."""
    return (
        index[:, None] * heads + torch.arange(heads, dtype=index.dtype, device=index.device)
    ).flatten()


def _pointers_of_heads(ptr: Tensor, heads: int) -> Tensor:
    """Row pointers where the rows of a CSR are repeated for every head."""
    head = torch.arange(heads, device=ptr.device)
    return torch.cat(
        [(ptr[:-1, None] * heads + ptr.diff()[:, None] * head).flatten(), ptr[-1:] * heads]
    )


def _places(ptr: Tensor, heads: int, dtype: torch.dtype) -> Tensor:
    """The positions of a CSR's entries, repeated for every head, in the order of row, head, entry.

    Computed by arithmetic: sorting edges x heads would take several times the memory of the result.
    """
    length = ptr.diff()
    row = torch.repeat_interleave(torch.arange(len(length), device=ptr.device), length)
    first = torch.arange(len(row), device=ptr.device) + ptr[row] * (heads - 1)
    head = torch.arange(heads, dtype=dtype, device=ptr.device)
    return (first.to(dtype)[:, None] + length.to(dtype)[row, None] * head).flatten()


def _scattered(values: Tensor, places: Tensor | None) -> Tensor:
    """The values at their places; unchanged if there are no places."""
    return values if places is None else torch.empty_like(values).scatter_(0, places.long(), values)


@dataclass(frozen=True)
class PaddedRows:
    """Neighbour lists of equal length: every node's list is cut into slices of ``width``, and the
    last one padded.

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
        return [self._part(*begin, *end) for begin, end in pairwise(self.borders)]

    def _part(self, node: int, first: int, last_node: int, end: int) -> "PaddedRows":
        inner, length = slice(first, end), end - first
        return PaddedRows(
            node=self.node[inner],
            neighbour=self.neighbour[inner],
            edge=self.edge[inner],
            ptr=self.ptr[node : last_node + 1] - first,
            index=self.index[:length],
            borders=((0, 0), (last_node - node, length)),
        )


def padded_rows(ptr: Tensor, neighbour: Tensor, order: Tensor | None, width: int = 4) -> PaddedRows:
    """Cut the rows of a CSR into slices of equal width; ``order`` is the edge of each entry, None
    if in order."""
    slices = (ptr.diff().long() + width - 1) // width
    first_slice = torch.zeros_like(ptr, dtype=torch.long)
    first_slice[1:] = slices.cumsum(0)
    node = torch.repeat_interleave(torch.arange(len(slices), device=ptr.device), slices)
    index = torch.arange(len(node), device=ptr.device)
    entry = (ptr[node] + (index - first_slice[node]) * width)[:, None] + torch.arange(
        width, device=ptr.device
    )
    real = entry < ptr[node + 1, None]
    entry = entry.where(real, 0)
    edge = entry if order is None else order[entry]
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
    even = torch.arange(1, count, device=first_slice.device) * (total // count)
    borders = sorted({0, *torch.searchsorted(first_slice, even).tolist(), nodes})
    return tuple(zip(borders, first_slice[borders].tolist(), strict=True))
