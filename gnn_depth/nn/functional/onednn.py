"""Matrix products by oneDNN, on processors where torch's own take longer.

Torch takes MKL, which gives processors that are not Intel's its kernels for AVX2, whatever else they know; oneDNN asks
the processor what it knows. On an AMD EPYC of the fifth generation it needs half of the time. Torch has no switch for
that which would leave the precision alone.
"""

import platform
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CPU_INFO = Path("/proc/cpuinfo")
#: oneDNN writes code for every new shape of its factors. From so many multiplications on that is paid for by the first
#: product, so that mini-batches, all of other sizes, lose nothing.
NEW_SHAPE = 16_000_000
#: It wants a transposed first factor put in order, which takes torch too long for a product of fewer numbers.
FEWEST = 2**14


def is_faster() -> bool:
    """Whether products of float32 by oneDNN are faster than torch's own on this machine, as far as its maker tells."""
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_both and torch.backends.cpu.get_cpu_capability().startswith("AVX512") and _maker() != "GenuineIntel"


def _maker() -> str:
    """As processors name it, or Intel's name where there is none to be found."""
    if not CPU_INFO.is_file():
        return platform.processor().split(" ")[-1] or "GenuineIntel"
    with CPU_INFO.open() as lines:  # no further than to the first: it lists every core, and asks each
        return next((line.split()[-1] for line in lines if line.startswith("vendor_id")), "GenuineIntel")


#: Found once: a run that is resumed takes the same way.
FASTER = is_faster()


def pays(left: Tensor, right: Tensor) -> bool:
    r"""Whether :math:`A B^\top` is large enough for oneDNN: in compiled code, where shapes never change, always.

    Args:
        left: Shape (rows, inner).
        right: Shape (columns, inner).
    """
    (rows, inner), columns = left.shape, right.shape[0]
    if torch.compiler.is_compiling():
        return left.numel() > 0
    return rows * columns >= FEWEST and rows * inner * columns >= NEW_SHAPE


def _product(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    # Columns of a wider matrix take it a thousand times as long; of a row it reads what lies behind its first entry.
    right = right if right.is_contiguous() or right.t().is_contiguous() else right.contiguous()
    row = row if row is None else row.contiguous()
    out: Tensor = torch.ops.mkldnn._linear_pointwise(left.contiguous(), right, row, "none", [], "")
    return out


# A name of its own: torch's compiler knows oneDNN's operator for weights that never change only.
_LIBRARY: Any = torch.library.Library("gnn_depth", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("product(Tensor left, Tensor right, Tensor? row=None) -> Tensor")
_LIBRARY.impl("product", _product, "CPU")


@torch.library.register_fake("gnn_depth::product", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _shape(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    return left.new_empty(left.shape[0], right.shape[0])


def product(left: Tensor, right: Tensor, row: Tensor | None = None) -> Tensor:
    r"""The product :math:`A B^\top`, plus a row, by oneDNN; it has no derivative.

    Args:
        left: Shape (rows, inner), float32, on a CPU.
        right: Shape (columns, inner), as ``left``.
        row: Shape (columns,), as ``left``.
    """
    if not torch.compiler.is_compiling():
        return _product(left, right, row)
    out: Tensor = torch.ops.gnn_depth.product(left, right, row)
    return out
