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


def edge_keys(edge_index: Tensor, num_nodes: int) -> Tensor:
    """One number for each edge, which is far faster to compare than two; :func:`ends_of` reads it
    back."""
    return edge_index[0] * num_nodes + edge_index[1]


def ends_of(keys: Tensor, num_nodes: int) -> Tensor:
    """The ``edge_index`` of :func:`edge_keys`, shape (2, edges)."""
    return torch.stack([keys // num_nodes, keys % num_nodes])


def merge_repeated(
    arrays: Mapping[str, Any],
    num_nodes: int,
    rule: Literal["sum", "mean"],
    undirected: bool,
    notes: list[str],
) -> dict[str, Any]:
    """Merge all rows with the same ends into one edge, with the sum or mean of their values.

    Args:
        arrays: ``edge_index`` of shape (2, edges), ``edge_weight`` and ``edge_attr`` with a row for
            each edge, and others, which stay as they are.
        num_nodes: Number of nodes.
        rule: ``sum`` or ``mean``.
        undirected: Also merge a row from b to a into one from a to b. Edges that are all there in
            both directions with equal values stay as they are: merging them would double each sum.
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
            f"repeated_edges {rule}: {rows:,} rows of edges are merged into {pairs.shape[1]:,} "
            "edges."
        )
    return {**arrays, **found, "edge_index": pairs}


def _merged_rows(
    edge_index: Tensor, values: Mapping[str, Tensor], num_nodes: int, rule: Literal["sum", "mean"]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The different columns of ``edge_index``, and the sums or means of their values."""
    keys, edge_of = torch.unique(edge_keys(edge_index, num_nodes), return_inverse=True)
    counts = torch.bincount(edge_of, minlength=len(keys)).double()
    found = {}
    for name, each in values.items():
        exact = each.double()  # sums of many amounts would lose cents in float32
        total = exact.new_zeros(len(keys), *exact.shape[1:]).index_add_(0, edge_of, exact)
        if rule == "mean":
            total = total / counts.view(-1, *[1] * (exact.dim() - 1))
        found[name] = total
    return ends_of(keys, num_nodes), found


def _is_mirrored(pairs: Tensor, values: Mapping[str, Tensor], num_nodes: int) -> bool:
    """True if the reverse of each edge is an edge too, with the same values."""
    keys, reverse = edge_keys(pairs, num_nodes), edge_keys(pairs.flip(0), num_nodes)
    order = reverse.argsort()  # the keys are in order already
    if not torch.equal(reverse[order], keys):
        return False
    # Sums of the same rows in another order differ by rounding.
    return all(torch.allclose(each[order], each, rtol=1e-9) for each in values.values())


def once_each_way(
    edge_index: Tensor, of_edges: Mapping[str, Tensor], num_nodes: int
) -> tuple[Tensor, dict[str, Tensor], tuple[int, str] | None]:
    """Each edge once in both directions, and the first row that contradicts an earlier one.

    Args:
        edge_index: Source and target of each row, shape (2, rows).
        of_edges: Values of each row.
        num_nodes: Number of nodes.

    Returns:
        The ``edge_index``; the values of the first row of each edge; and the first row whose values
        are not those of the first row of its edge, with the name of the value, or None.
    """
    keys = edge_keys(torch.cat([edge_index, edge_index.flip(0)], 1), num_nodes)
    # What agrees is one edge, however often and in whichever direction the table has it.
    key, edge_of = torch.unique(keys, return_inverse=True)
    rows = torch.arange(edge_index.shape[1]).repeat(2)
    # Of several equal edges the first row counts.
    first = torch.zeros_like(key).scatter_reduce(0, edge_of, rows, "amin", include_self=False)
    conflicts = []
    for name, values in of_edges.items():
        differs = (values[rows] != values[first[edge_of]]).view(len(rows), -1).any(1)
        if differs.any():
            conflicts.append((int(rows[differs].min()), name))
    once = {name: values[first] for name, values in of_edges.items()}
    return ends_of(key, num_nodes), once, min(conflicts, default=None)


def count_repeated(graph: Graph) -> int:
    """How many edges have the source and target of an earlier one."""
    keys = edge_keys(graph.edge_index, graph.num_nodes)
    return graph.num_edges - len(torch.unique(keys))
