"""Matrix products by oneDNN, on processors where torch's own are slower.

Torch uses MKL. On processors that are not made by Intel, MKL uses its AVX2 kernels even if the
processor supports more; oneDNN uses what the processor supports. Torch has no switch for this that
does not also change the precision.
"""

import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CPU_INFO = Path("/proc/cpuinfo")
#: oneDNN generates code for every new shape. From this number of multiplications on, a single
#: product makes up for it, so mini-batches, which all have different sizes, lose nothing.
NEW_SHAPE = 16_000_000
#: A transposed first factor must be copied, which is too slow for products with fewer numbers.
FEWEST = 2**14


def is_faster() -> bool:
    """True if float32 products by oneDNN should be faster than torch's own here, judging by the
    processor's maker."""
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return (
        has_both
        and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        and _maker() != "GenuineIntel"
    )


def _maker() -> str:
    """The processor's maker; Intel if it cannot be found."""
    if not CPU_INFO.is_file():
        return platform.processor().split(" ")[-1] or "GenuineIntel"
    with (
        CPU_INFO.open() as lines
    ):  # stop at the first: the file lists every core, and reading it queries each
        return next(
            (line.split()[-1] for line in lines if line.startswith("vendor_id")), "GenuineIntel"
        )


#: Decided once, so that a resumed run computes the same way.
FASTER = is_faster()


def pays(left: Tensor, right: Tensor) -> bool:
    r"""True if :math:`A B^\top` is large enough for oneDNN; always in compiled code, where shapes
    never change."""
    (rows, inner), columns = left.shape, right.shape[0]
    if torch.compiler.is_compiling():
        return left.numel() > 0
    return rows * columns >= FEWEST and rows * inner * columns >= NEW_SHAPE


def _product(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    # oneDNN takes a thousand times as long for columns of a wider matrix, and misreads a row that
    # is not contiguous.
    right = right if right.is_contiguous() or right.t().is_contiguous() else right.contiguous()
    row = row if row is None else row.contiguous()
    out: Tensor = torch.ops.mkldnn._linear_pointwise(left.contiguous(), right, row, "none", [], "")
    return out


# A separate name: torch's compiler knows oneDNN's operator only for weights that never change.
_LIBRARY: Any = torch.library.Library("gnn_depth", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("product(Tensor left, Tensor right, Tensor? row=None) -> Tensor")
_LIBRARY.impl("product", _product, "CPU")


@torch.library.register_fake("gnn_depth::product", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _shape(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    return left.new_empty(left.shape[0], right.shape[0])


def multiply(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    r"""The product :math:`A B^\top` of float32 matrices on a CPU, plus a row, by oneDNN; it has no
    derivative."""
    if not torch.compiler.is_compiling():
        return _product(left, right, row)
    out: Tensor = torch.ops.gnn_depth.product(left, right, row)
    return out
