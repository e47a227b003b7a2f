"""Choose the tensors that compiled blocks keep for the backward pass; the others are recomputed."""

from collections.abc import Iterator
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, Node
from torch.utils.checkpoint import CheckpointPolicy

GATHERS = (torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default)
PRODUCTS = (
    torch.ops.gnn_depth.product.default,
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
)
VIEWS = (
    torch.ops.aten.permute.default,
    torch.ops.aten.select.int,
    torch.ops.aten.slice.Tensor,
    torch.ops.aten.squeeze.dim,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.view.default,
)
#: A product is recomputed if it takes at most this many multiplications per number that edges read
#: from it. Recomputing it is then cheap compared with reading it once per edge.
FEW_MULTIPLICATIONS = 4
#: Most dimensions of a mask that is kept: nodes x heads x channels.
MASK_DIMENSIONS = 3


class Recompute(CustomGraphPass):
    """Keeps no booleans, no gathered values, and no products or factors that follow from kept
    tensors.

    - Values gathered from nodes to edges are larger than their source.
    - A product of node features with a weight is cheap to recompute if many edges read it. Its
      factors are kept anyway for the gradient of the weight.
    - That gradient reads the features after activation and dropout. They follow elementwise from
      the state before them, which is also kept, so storing both would double the memory.
    """

    def __call__(self, graph: Graph) -> None:
        in_backward = _depending_on_gradients(graph)
        _keep_as_bytes(graph, in_backward)
        for node in graph.nodes:
            # It is not yet known which of them the backward pass needs: the partition merges equal
            # nodes later and keeps the first one, from the forward pass.
            if node not in in_backward and (_is_gathered(node) or _is_cheap_product(node)):
                node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
        for factor in _factors(in_backward):
            if all(_is_read(source, factor, in_backward) for source in _sources(factor)):
                factor.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE

    def uuid(self) -> str:
        # Part of the cache key of compiled code: increase it after a change here or in lowering.py.
        return f"gnn_depth.Recompute.9 {FEW_MULTIPLICATIONS}"


def _depending_on_gradients(graph: Graph) -> set[Node]:
    found: set[Node] = set()
    for node in graph.nodes:  # in the order of execution, so inputs come first
        is_gradient = node.op == "placeholder" and "tangents" in str(node.target)
        if is_gradient or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return found


def _is_gathered(node: Node) -> bool:
    # Tensors of edges x heads x channels exist only inside loops, which store nothing.
    return node.target in GATHERS and node.meta["val"].dim() < 3


def _is_cheap_product(node: Node) -> bool:
    """True for a product of node features with a weight that is cheap to recompute.

    That is so if many edges read it.
    """
    if node.target not in PRODUCTS:
        return False
    position = 0
    if node.target == torch.ops.aten.addmm.default:  # its first input is the bias
        position = 1
    left = node.all_input_nodes[position]
    multiplications = _size(left) * node.meta["val"].shape[1]
    numbers_read = max(map(_size, _gathers_of(node)), default=0)
    return multiplications <= FEW_MULTIPLICATIONS * numbers_read


def _gathers_of(node: Node) -> Iterator[Node]:
    for user in node.users:
        if user.target in GATHERS:
            yield user
        elif user.target in VIEWS:
            yield from _gathers_of(user)


def _factors(in_backward: set[Node]) -> Iterator[Node]:
    """Factors of the backward pass's products that the forward pass computed elementwise."""
    for product in in_backward:
        if product.target not in PRODUCTS:
            continue
        for factor in product.all_input_nodes:
            while factor.target in VIEWS and factor not in in_backward:
                factor = factor.all_input_nodes[0]
            if factor not in in_backward and _is_elementwise(factor) and not _is_returned(factor):
                yield factor


def _sources(node: Node) -> Iterator[Node]:
    """The tensors that a value is computed from elementwise, if they have its size.

    Dropout seeds and biases are smaller.
    """
    seen, open_nodes = {node}, [node]
    while open_nodes:
        for given in open_nodes.pop().all_input_nodes:
            if given in seen:
                continue
            seen.add(given)
            if _is_elementwise(given) or given.target in VIEWS:
                open_nodes.append(given)
            elif _size(given) >= _size(node):
                yield given


def _is_read(source: Node, factor: Node, in_backward: set[Node]) -> bool:
    """True if the backward pass reads a value, or one computed from it elementwise.

    The factor does not count.
    """
    seen, open_nodes = {source, factor}, [source]
    while open_nodes:
        for user in open_nodes.pop().users:
            if user in in_backward:
                return True
            if user not in seen and (_is_elementwise(user) or user.target in VIEWS):
                seen.add(user)
                open_nodes.append(user)
    return False


def _size(node: Node) -> int:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return value.numel()
    return 0


def _is_elementwise(node: Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _is_returned(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def _keep_as_bytes(graph: Graph, in_backward: set[Node]) -> None:
    """Replace every boolean that both passes read by a byte, or recompute it.

    The partition prefers to keep booleans, such as masks of activations and maxima, because they
    are small. But compiled CPU code stores and reads booleans one by one, much slower than bytes
    converted from floats. Booleans of neighbour slices x heads x channels exist only inside loops,
    which store nothing, so they are recomputed.
    """
    for node in list(graph.nodes):  # a copy, because nodes are inserted
        readers = [user for user in node.users if user in in_backward]
        if node in in_backward or not readers or not _is_boolean(node):
            continue
        is_in_loop = node.meta["val"].dim() > MASK_DIMENSIONS
        # What a block returns is kept anyway, as the input of the next block.
        follows_from_output = all(_is_returned(given) for given in node.all_input_nodes)
        if is_in_loop or follows_from_output:
            node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
            continue
        # By way of a float: compiled code has fast conversions of floats alone.
        number = _convert(graph, node, torch.float32)
        again = _convert(graph, _convert(graph, number, torch.uint8), torch.float32)
        mask = _after(graph, again, torch.ops.aten.ne.Scalar, again, 0)
        # Otherwise the mask itself would be kept.
        mask.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
        for reader in readers:
            reader.replace_input_with(node, mask)


def _is_boolean(node: Node) -> bool:
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return False
    return value.dtype == torch.bool


def _convert(graph: Graph, node: Node, dtype: torch.dtype) -> Node:
    return _after(graph, node, torch.ops.prims.convert_element_type.default, node, dtype)


def _after(graph: Graph, before: Node, function: Any, *args: Any) -> Node:
    """Insert a call after a node, with the shape and type of its result."""
    with graph.inserting_after(before):
        node = graph.call_function(function, args)
    values = []
    for arg in args:
        if isinstance(arg, Node):
            arg = arg.meta["val"]
        values.append(arg)
    # Later passes read shapes and types; a fake call computes them without numbers.
    with before.meta["val"].fake_mode:
        node.meta["val"] = function(*values)
    return node
