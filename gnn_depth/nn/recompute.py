"""What compiled layers compute again in the backward pass instead of keeping."""

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

GATHERS = (torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default)


class Recompute(CustomGraphPass):
    """Keep no booleans and no gathered values between the passes.

    A boolean is the smallest thing to keep, so the partition between forward and backward chooses the masks of
    activations and maxima. On CPUs they are stored and read some sixty times slower than floats (173,000 of them:
    0.9 and 0.3 ms).
    What is gathered from nodes to edges is larger than what it was gathered from, and a permutation of something that
    is kept already doubles it.
    """

    def __call__(self, graph: Graph) -> None:
        in_backward = _depending_on_gradients(graph)
        for node in graph.nodes:
            # Whether it is needed there is not known yet: the partition makes one node of equal ones, and the first of
            # them, of the forward pass, stays.
            if node not in in_backward and (_is_boolean(node) or _is_gathered(node)):
                node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE

    def uuid(self) -> str:
        # Part of the name under which compiled code is kept: a change here or in lowering.py wants another number.
        return "gnn_depth.Recompute.4"


def _depending_on_gradients(graph: Graph) -> set[Node]:
    found: set[Node] = set()
    for node in graph.nodes:
        if (node.op == "placeholder" and "tangents" in str(node.target)) or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _is_gathered(node: Node) -> bool:
    # Not those of edges x heads x channels: they are parts of loops that keep nothing.
    return node.target in GATHERS and node.meta["val"].dim() < 3


def _is_boolean(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op == "call_function" and isinstance(value, torch.Tensor) and value.dtype == torch.bool
