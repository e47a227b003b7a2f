"""Orders of edges in which a sum over each node's edges is one pass over memory."""

import torch
from torch import Tensor

LONGEST_INT32 = 2**31 - 1


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
