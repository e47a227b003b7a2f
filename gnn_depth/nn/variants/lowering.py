"""Importing this module teaches the compiler to call oneDNN directly from C++."""

import torch
from torch._inductor.ir import FixedLayout, IRNode, TensorBox
from torch._inductor.lowering import register_lowering
from torch._inductor.mkldnn_ir import LinearUnary


@register_lowering(torch.ops.gnn_depth.product, type_promotion_kind=None)
def lower_product(left: TensorBox, right: TensorBox, row: TensorBox | None = None) -> TensorBox:
    """The call of torch's compiler for a linear map by oneDNN, with weights that may change."""
    # Compiled code copies a transposed factor faster than oneDNN.
    factors = [LinearUnary.require_contiguous(LinearUnary.realize_input(left)), _dense(right)]
    size = [factor.get_size()[0] for factor in factors]
    layout = FixedLayout(torch.device("cpu"), factors[0].get_dtype(), size)
    nothing_after = ("none", [-1], "")
    if row is None:
        return TensorBox.create(LinearUnary(layout, factors, [None, *nothing_after]))
    factors.append(LinearUnary.require_contiguous(LinearUnary.realize_input(row)))
    return TensorBox.create(LinearUnary(layout, factors, [*nothing_after]))


def _dense(factor: TensorBox) -> IRNode:
    """The factor unchanged, transposed, or copied where it is part of a wider matrix, as in the
    eager product."""
    realized = LinearUnary.realize_input(factor)
    rows, columns = realized.get_size()
    as_it_lies = tuple(realized.get_stride()) in ((columns, 1), (1, rows))
    if as_it_lies:
        return realized
    return LinearUnary.require_contiguous(realized)
