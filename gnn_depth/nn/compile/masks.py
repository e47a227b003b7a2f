"""Booleans that compiled layers keep between the passes, as bytes."""

from typing import Any

import torch
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

#: Of what is kept: nodes x heads x channels.
MOST_DIMENSIONS = 3


def keep_as_bytes(graph: Graph, in_backward: set[Node]) -> None:
    """Offer the partition between forward and backward a byte for every boolean that both read.

    A boolean is the smallest thing to keep, so the partition chooses the masks of activations and maxima. On CPUs
    compiled code stores and reads booleans one by one, fifty and fourteen times slower than floats (173,000 of them,
    one thread: 1.5 and 0.5 ms), and bytes that come of floats as fast as floats. Where what a boolean follows from is
    kept anyway, the partition keeps neither. Booleans of slices of neighbours x heads x channels are parts of loops
    that keep nothing: they stay what they are, and are computed again.
    """
    for node in list(graph.nodes):
        readers = [user for user in node.users if user in in_backward]
        if node in in_backward or not readers or not _is_boolean(node):
            continue
        if node.meta["val"].dim() > MOST_DIMENSIONS:
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
            continue
        number = _convert(graph, node, torch.float32)
        again = _convert(graph, _convert(graph, number, torch.uint8), torch.float32)
        mask = _after(graph, again, torch.ops.aten.ne.Scalar, again, 0)
        mask.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE  # or it would be what is kept
        for reader in readers:
            reader.replace_input_with(node, mask)


def _is_boolean(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op == "call_function" and isinstance(value, torch.Tensor) and value.dtype == torch.bool


def _convert(graph: Graph, node: Node, dtype: torch.dtype) -> Node:
    return _after(graph, node, torch.ops.prims.convert_element_type.default, node, dtype)


def _after(graph: Graph, before: Node, function: Any, *args: Any) -> Node:
    """Call a function of a node and of constants, and say what it gives, as the compiler wants to know."""
    with graph.inserting_after(before):
        node = graph.call_function(function, args)
    value = before.meta["val"]
    with value.fake_mode:
        node.meta["val"] = function(*(arg.meta["val"] if isinstance(arg, Node) else arg for arg in args))
    return node
