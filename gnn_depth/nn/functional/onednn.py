"""Matrix products by oneDNN, on processors where torch's own are slower.

Torch uses MKL. On processors that are not made by Intel, MKL uses its AVX2 kernels even if the
processor supports more; oneDNN uses what the processor supports. Torch has no switch for this that
does not also change the precision.
"""

import platform
from pathlib import Path

import torch
from torch import Tensor

from gnn_depth import torch_internals

CPU_INFO = Path("/proc/cpuinfo")
INTEL = "GenuineIntel"
#: oneDNN generates code for every new shape. From this number of multiplications on, a single
#: product makes up for it, so mini-batches, which all have different sizes, lose nothing.
NEW_SHAPE = 16_000_000
#: A transposed first factor must be copied, which is too slow for products with fewer numbers.
FEWEST = 2**14


def is_faster() -> bool:
    """True if oneDNN's float32 products should be faster here, judging by the processor's maker."""
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (has_mkl and has_onednn):
        return False
    has_avx512 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return has_avx512 and _maker() != INTEL


def _maker() -> str:
    """The processor's maker; Intel if it cannot be found."""
    if not CPU_INFO.is_file():
        return platform.processor().split(" ")[-1] or INTEL
    # Stop at the first core: the file lists every one, and reading it queries each.
    with CPU_INFO.open() as lines:
        for line in lines:
            if line.startswith("vendor_id"):
                return line.split()[-1]
    return INTEL


#: Decided once, so that a resumed run computes the same way.
FASTER = is_faster()


def pays(left: Tensor, right: Tensor) -> bool:
    r"""True if :math:`A B^\top` is large enough for oneDNN."""
    (rows, inner), columns = left.shape, right.shape[0]
    return rows * columns >= FEWEST and rows * inner * columns >= NEW_SHAPE


def multiply(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    r"""Compute :math:`A B^\top` of float32 matrices on a CPU, plus a row, without a derivative."""
    # oneDNN takes a thousand times as long for columns of a wider matrix, and misreads a row that
    # is not contiguous.
    if not (right.is_contiguous() or right.t().is_contiguous()):
        right = right.contiguous()
    if row is not None:
        row = row.contiguous()
    return torch_internals.onednn_linear(left.contiguous(), right, row)
