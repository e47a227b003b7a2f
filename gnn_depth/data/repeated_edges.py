"""Edges that occur more than once, such as several payments between two parties."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.features import one_column_of_integers
from gnn_depth.graph import OF_EDGES, Graph

#: What becomes of rows with the same ends.
RepeatedEdges: TypeAlias = Literal["none", "sum", "mean"]


def merged(
    arrays: Mapping[str, Any],
    num_nodes: int,
    rule: RepeatedEdges,
    undirected: bool,
    notes: list[str],
) -> dict[str, Any]:
    """Arrays with one edge for all rows of the same ends, with the sum or mean of their values.

    Args:
        arrays: ``edge_index`` of shape (2, edges), ``edge_weight`` and ``edge_attr`` with a row for
            each edge, and others, which stay as they are.
        num_nodes: Number of nodes.
        rule: ``sum`` or ``mean``.
        undirected: Rows from a to b and from b to a are the same edge; unless all edges are there
            both ways with the same values, which are the two directions of each.
        notes: Gets a sentence on what was merged.

    Raises:
        DataError: Features of the edges are categories, which cannot be added.
    """
    edge_index = arrays["edge_index"]
    values = {name: arrays[name] for name in OF_EDGES if name in arrays}
    if "edge_attr" in values and one_column_of_integers(values["edge_attr"]) is not None:
        raise DataError(
            f"repeated_edges {rule} is for numbers, and edge_attr is a column of integers, which "
            "are read as categories. If they are sizes, give floats: edge_attr.float()."
        )
    rows = edge_index.shape[1]
    pairs, found = _merged_rows(edge_index, values, num_nodes, rule)
    if undirected and not _is_mirrored(pairs, found, num_nodes):
        low_first = torch.stack([edge_index.amin(0), edge_index.amax(0)])
        pairs, found = _merged_rows(low_first, values, num_nodes, rule)
    if pairs.shape[1] < rows:
        notes.append(
            f"{rows:,} rows of edges are {pairs.shape[1]:,} edges: repeated_edges {rule} makes one "
            "of those with the same ends."
        )
    return {**arrays, **found, "edge_index": pairs}


def _merged_rows(
    edge_index: Tensor, values: Mapping[str, Tensor], num_nodes: int, rule: RepeatedEdges
) -> tuple[Tensor, dict[str, Tensor]]:
    """The different columns of ``edge_index``, and the sums or means of their values."""
    source, target = edge_index
    keys, edge_of = torch.unique(source * num_nodes + target, return_inverse=True)
    counts = torch.bincount(edge_of, minlength=len(keys)).double()
    found = {}
    for name, each in values.items():
        exact = each.double()  # sums of many amounts would lose cents in float32
        total = exact.new_zeros(len(keys), *exact.shape[1:]).index_add_(0, edge_of, exact)
        if rule == "mean":
            total = total / counts.view(-1, *[1] * (exact.dim() - 1))
        found[name] = total
    return torch.stack([keys // num_nodes, keys % num_nodes]), found


def _is_mirrored(pairs: Tensor, values: Mapping[str, Tensor], num_nodes: int) -> bool:
    """True if the reverse of each edge is an edge too, with the same values."""
    source, target = pairs
    keys, reverse = source * num_nodes + target, target * num_nodes + source
    order = reverse.argsort()  # the keys are in order already
    if not torch.equal(reverse[order], keys):
        return False
    # Sums of the same rows in another order differ by rounding.
    return all(torch.allclose(each[order], each, rtol=1e-9) for each in values.values())


def once_each_way(
    edge_index: Tensor, of_edges: Mapping[str, Tensor], num_nodes: int
) -> tuple[Tensor, dict[str, Tensor], tuple[int, str] | None]:
    """Both directions of each edge once, and the first row that contradicts an earlier one.

    Args:
        edge_index: Source and target of each row, shape (2, rows).
        of_edges: Values of each row.
        num_nodes: Number of nodes.

    Returns:
        The edges; their values, of several rows those of the first; and the row whose value is
        another than that of an earlier row with the same edge, with the name of the value, or None.
    """
    source, target = edge_index
    keys = torch.cat([source * num_nodes + target, target * num_nodes + source])
    # What agrees is one edge, however often and in whichever direction the table has it.
    key, edge_of = torch.unique(keys, return_inverse=True)
    rows = torch.arange(len(source)).repeat(2)
    # Of several equal edges the first row counts.
    first = torch.zeros_like(key).scatter_reduce(0, edge_of, rows, "amin", include_self=False)
    conflict = None
    for name, values in of_edges.items():
        differs = (values[rows] != values[first[edge_of]]).view(len(rows), -1).any(1)
        if differs.any() and conflict is None:
            conflict = int(rows[differs][0]), name
    once = {name: values[first] for name, values in of_edges.items()}
    return torch.stack([key // num_nodes, key % num_nodes]), once, conflict


def count_repeated(graph: Graph) -> int:
    """How many edges have the source and target of an earlier one."""
    # One number for each pair of nodes, which is far faster to compare than two.
    keys = graph.source * graph.num_nodes + graph.target
    return graph.num_edges - len(torch.unique(keys))
