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
    """Edges, sorted by target, as the non-zeros of a sparse matrix, and of its transpose.

    Indices are int32, half the memory of int64, wherever the counts allow it.

    Args:
        source, target: The columns and rows of the non-zeros.
        shape: Numbers of rows and columns.

    Attributes:
        ptr, source: CSR of the matrix.
        transposed_ptr, transposed_target: CSR of the transposed matrix, whose rows are sources.
        transposed_order: The edge of each of its entries.
    """

    def __init__(self, source: Tensor, target: Tensor, shape: tuple[int, int]) -> None:
        self.shape = shape
        dtype = torch.int64
        if max(*shape, source.numel()) <= LONGEST_INT32:
            dtype = torch.int32
        self.ptr = pointers(target, shape[0]).to(dtype)
        self.source = source.to(dtype)
        # Stable, so that a source's edges stay sorted by target, and sums come in that order.
        order = torch.argsort(source, stable=True)
        self.transposed_ptr = pointers(source, shape[1]).to(dtype)
        self.transposed_target = target[order].to(dtype)
        self.transposed_order = order.to(dtype)

    def csr(self, transposed: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Row pointers, neighbours and order of the matrix, or of its transpose."""
        if transposed:
            return self.transposed_ptr, self.transposed_target, self.transposed_order
        return self.ptr, self.source, None
