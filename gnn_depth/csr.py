"""Orders of a graph's edges in which a sum over the edges of a node is one pass over memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

LONGEST_INT32 = 2**31 - 1


def pointers(index: Tensor, size: int) -> Tensor:
    """CSR row pointers of the counts of ``index``."""
    ptr = torch.zeros(size + 1, dtype=torch.long, device=index.device)
    ptr[1:] = torch.bincount(index, minlength=size).cumsum(0)
    return ptr


class EdgeRows:
    """Edges x heads flattened to the non-zeros of a sparse (nodes * heads) x (sources * heads) matrix.

    Row ``i * heads + h`` holds the edges into node i of head h, so that every head's
    aggregation is one sparse product over rows of ``channels`` numbers. Two orders exist of
    the same edges: the *rows* order (by target node, head, source), and the order of the
    tensors that layers see, (edges, heads) flattened; ``order`` leads from the second to the
    first. With one head the two agree.

    Indices are int32, half the memory of int64, wherever the counts allow it.

    Attributes:
        ptr, source: CSR of the rows order; shapes (nodes * heads + 1,), (edges * heads,).
        order: Position in the flattened (edges, heads) tensor of each entry, or None for one head.
        inverse: The inverse permutation of ``order``, or None for one head.
        transposed_ptr, transposed_target: CSR of the transposed matrix (rows are sources).
        transposed_order: Position in the *flattened (edges, heads)* tensor of each transposed entry.
    """

    def __init__(self, source: Tensor, target: Tensor, shape: tuple[int, int], heads: int) -> None:
        head = torch.arange(heads, device=source.device)
        target = (target[:, None] * heads + head).flatten()
        source = (source[:, None] * heads + head).flatten()
        self.shape = (shape[0] * heads, shape[1] * heads)
        dtype = torch.int32 if max(*self.shape, source.numel()) <= LONGEST_INT32 else torch.int64
        order = None if heads == 1 else torch.argsort(target, stable=True)
        self.order = None if order is None else order.to(dtype)
        self.inverse = None if order is None else torch.argsort(order).to(dtype)
        self.ptr = pointers(target, self.shape[0]).to(dtype)
        self.source = (source if order is None else source[order]).to(dtype)
        transposed = torch.argsort(source, stable=True)
        self.transposed_order = transposed.to(dtype)
        self.transposed_ptr = pointers(source, self.shape[1]).to(dtype)
        self.transposed_target = target[transposed].to(dtype)

    def csr(self, transposed: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Row pointers, neighbours, and the order of the non-zeros, of the matrix or its transpose."""
        if transposed:
            return self.transposed_ptr, self.transposed_target, self.transposed_order
        return self.ptr, self.source, self.order


@dataclass(frozen=True)
class PaddedRows:
    """Neighbour lists of equal length: every node's list is cut into slices of ``width``, and the last one padded.

    A compiled loop over slices runs without a scatter; the sums of a node's slices are then added up. Slices of 4
    pad little even where most nodes have few neighbours.

    Attributes:
        node: The node that a slice belongs to, shape (slices,).
        neighbour: Its neighbours, padded with 0, shape (slices, width).
        edge: The edges, padded with the number of edges, shape (slices, width).
        ptr: The slices of node i are ``ptr[i]:ptr[i + 1]``; shape (nodes + 1,), int32 where the counts allow it.
        index: 0, 1, ..., slices - 1, of the type of ``ptr``.
    """

    node: Tensor
    neighbour: Tensor
    edge: Tensor
    ptr: Tensor
    index: Tensor


def padded_rows(ptr: Tensor, neighbour: Tensor, order: Tensor | None, width: int = 4) -> PaddedRows:
    """Cut the rows of a CSR into slices of equal width.

    Args:
        ptr, neighbour: The CSR.
        order: The edge of each of its entries; they are in order if it is None.
        width: Length of a slice.
    """
    slices = (ptr.diff().long() + width - 1) // width
    first_slice = torch.zeros_like(ptr, dtype=torch.long)
    first_slice[1:] = slices.cumsum(0)
    node = torch.repeat_interleave(torch.arange(len(slices), device=ptr.device), slices)
    index = torch.arange(len(node), device=ptr.device)
    entry = (ptr[node] + (index - first_slice[node]) * width)[:, None] + torch.arange(width, device=ptr.device)
    real = entry < ptr[node + 1, None]
    entry = entry.where(real, 0)
    edge = entry if order is None else order[entry]
    return PaddedRows(
        node=node.to(ptr.dtype),
        neighbour=neighbour[entry].where(real, 0),
        edge=edge.to(ptr.dtype).where(real, len(neighbour)),
        ptr=first_slice.to(ptr.dtype),
        index=index.to(ptr.dtype),
    )
