"""What each layer of a stack needs of a graph of which only the first nodes are read."""

from typing import TYPE_CHECKING

from gnn_depth.graph import Graph

if TYPE_CHECKING:
    from gnn_depth.nn.stack import DeepGNN


def graphs_of(stack: "DeepGNN", graph: Graph, num_outputs: int | None) -> list[Graph]:
    """The edges that each layer needs, so that the first nodes get what they get on the whole graph.

    Args:
        stack: The stack. Where a part of it does not take blocks, all its layers get the whole graph.
        graph: All edges.
        num_outputs: How many of the first nodes are read; all by default.
    """
    graphs = [graph] * len(stack.layers)
    if num_outputs is None or num_outputs >= graph.num_nodes or stack.reversible or not _takes_blocks(stack):
        return graphs
    needed = num_outputs
    for position in reversed(range(len(graphs))):
        graphs[position] = graph.prefix(needed)
        needed = graphs[position].num_sources
    return graphs


def _takes_blocks(stack: "DeepGNN") -> bool:
    norms = [norm for layer in stack.layers for norm in getattr(layer, "score_norms", ())]
    norms += [norm for of_layer in stack.norms for norm in of_layer]  # type: ignore[attr-defined]
    return all(layer.takes_blocks for layer in stack.layers) and all(norm.nodewise for norm in norms)
