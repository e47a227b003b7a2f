"""A graph from the user's own files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from gnn_depth.data.base import NodeBatch, NodeDataModule, normalize_rows
from gnn_depth.data.checks import DataError, check_finite, check_fractions, check_nodes
from gnn_depth.data.draws import fraction_split
from gnn_depth.data.user_arrays import NPZ_HINT, EdgeColumns, UserContent, read_arrays
from gnn_depth.data.user_arrays import SUFFIXES as ARRAYS
from gnn_depth.data.user_tables import SUFFIXES as TABLES
from gnn_depth.data.user_tables import NodeColumns, Table, is_table, read_tables
from gnn_depth.graph import Graph
from gnn_depth.ranges import FilePath, Natural, Probability, Range
from gnn_depth.registry import register


@register("data", "UserGraph")
class UserGraph(NodeDataModule):
    """Your own graph: two tables, or one file of arrays, with class labels or regression targets of
    the nodes.

    Tables are ``.csv``, ``.tsv`` (both also ``.gz``) or ``.parquet``. The first line of a text
    table has the names of the columns. ``path`` has one edge per row, ``nodes`` one node per row.
    Ids are integers if all of them are plain integers; otherwise they are text as written, so that
    ``007`` differs from ``7``. A node with an empty label or target is left out of training and
    evaluation, but gets a prediction.

    Args:
        path: A table of edges; or an ``.npz`` with ``x`` (nodes, features), ``y`` (nodes,),
            ``edge_index`` (2, edges) or (edges, 2), read as (2, edges) if both fit, and optionally
            ``train_mask``, ``val_mask`` and ``test_mask`` (nodes,); or, saved by ``torch.save`` as
            ``.pt`` or ``.pth``, a PyTorch Geometric ``Data`` or a dict of tensors with the same
            names. Floats in ``y`` are numbers to predict, NaN where there is none.
        nodes: The table of nodes, if path is a table of edges. The options from here to ends are
            for tables.
        label: Column of the classes, text or numbers.
        id: Column of the ids that the table of edges uses; the first one by default.
        split: Column with train, val or test; empty for a node in none of these sets.
        features: Columns of numbers; by default all columns without another role.
        categories: Columns of text, encoded one-hot.
        targets: Columns of numbers to predict, instead of a label.
        ends: The source column and the target column of the edges; the first two by default.
        edge_weight: Column, or array in the file, with non-negative weights of the edges.
        edge_features: Columns, or arrays in the file, with numeric features of the edges.
        undirected: Use every edge in both directions, each direction once.
        normalize_features: Divide each node's features by the sum of their absolute values.
        train_fraction: Fraction of the nodes to train on, above 0, if the files have no split.
        val_fraction: Fraction of the nodes to validate on, if the files have no split; the rest is
            the test set.
        seed: Determines this split.

    Raises:
        ValueError: A file does not exist, an option does not fit its type, or the fractions add up
            to more than one.
    """

    def __init__(
        self,
        path: FilePath,
        nodes: FilePath | None = None,
        label: str | None = None,
        id: str | None = None,
        split: str | None = None,
        features: list[str] | None = None,
        categories: list[str] = [],  # noqa: B006  (read only)
        targets: list[str] = [],  # noqa: B006
        ends: list[str] = [],  # noqa: B006
        edge_weight: str | None = None,
        edge_features: list[str] = [],  # noqa: B006
        undirected: bool = False,
        normalize_features: bool = False,
        train_fraction: Annotated[float, Range(0, 1, above=True)] = 0.6,
        val_fraction: Probability = 0.2,
        seed: Natural = 0,
    ) -> None:
        super().__init__()
        self.path = _existing_file("graph file", path)
        roles = {
            "label": label,
            "id": id,
            "split": split,
            "features": features,
            "categories": categories,
        }
        _check_options(path, nodes, {**roles, "targets": targets, "ends": ends})
        self.nodes = _existing_file("table of nodes", nodes) if nodes else None
        check_fractions(train_fraction, val_fraction)
        self.columns = NodeColumns(label, id, split, features, categories, targets)
        self.of_edges = EdgeColumns(ends, edge_weight, edge_features)
        self.undirected = undirected
        self.normalize_features = normalize_features
        self.train_fraction = train_fraction
        self.val_fraction = val_fraction
        self.seed = seed
        self._node_ids: np.ndarray | None = None
        self._class_names: list[str] | None = None
        self._split_is_drawn = False

    @property
    def class_names(self) -> list[str]:
        _ = self.loaded
        return self._class_names or super().class_names

    @property
    def node_ids(self) -> np.ndarray | None:
        _ = self.loaded
        return self._node_ids

    @property
    def about(self) -> str:
        return super().about + f" (drawn at random with seed {self.seed})" * self._split_is_drawn

    def load(self) -> NodeBatch:
        tables = (
            read_tables(Table(self.path), Table(self.nodes), self.columns, self.of_edges)
            if self.nodes
            else None
        )
        try:
            content = tables or read_arrays(self.path, self.of_edges)
            x, y, masks = content.x, content.y, content.masks
            if masks is None:
                fractions = self.train_fraction, self.val_fraction
                masks = fraction_split(len(y), self.seed, *fractions, content.labelled)
            check_nodes(x, y, len(x), masks)
            check_finite(x)
            graph = Graph(content.edge_index, len(x), **content.of_edges)
        except ValueError as error:
            raise DataError(f"graph {str(self.nodes or self.path)!r} is refused: {error}") from None
        if self.undirected:
            graph = self._both_ways(content)
        self._node_ids, self._class_names = content.node_ids, content.class_names
        self._split_is_drawn = content.masks is None
        return NodeBatch(normalize_rows(x) if self.normalize_features else x, y, graph, *masks)

    def _both_ways(self, content: UserContent) -> Graph:
        """Every edge in both directions once; repetitions of an edge must have equal weights and
        features."""
        nodes, edges = len(content.x), content.edge_index
        key, edge_of = torch.unique(
            torch.cat([edges[0] * nodes + edges[1], edges[1] * nodes + edges[0]]),
            return_inverse=True,
        )
        rows = torch.arange(edges.shape[1]).repeat(2)
        first = torch.zeros_like(key).scatter_reduce(0, edge_of, rows, "amin", include_self=False)
        for name, values in content.of_edges.items():
            differs = (values[rows] != values[first[edge_of]]).view(len(rows), -1).any(1)
            if differs.any():
                row = int(rows[differs][0])
                place = Table(self.path).place(row) if self.nodes else f"edge {row}"
                raise DataError(
                    f"{str(self.path)!r}, {place}: an earlier row has this edge with another "
                    f"{name}, and undirected "
                    f"true makes one edge of both. Give both the same {name}, or set undirected "
                    "false."
                )
        of_edges = {name: values[first] for name, values in content.of_edges.items()}
        return Graph(torch.stack([key // nodes, key % nodes]), nodes, **of_edges)


def _existing_file(name: str, path: str) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        fault = "is a folder" if file.is_dir() else "does not exist"
        raise DataError(
            f"{name} {path!r} {fault}: give the path of a file (looked in {str(Path.cwd())!r})."
        )
    return file


def _check_options(
    path: str, nodes: str | None, table_options: dict[str, Sequence[str] | None]
) -> None:
    """Check that files are arrays or tables, and that options for tables are not combined with
    arrays."""
    if Path(path).suffix.lower() in ARRAYS:
        given = [name for name, value in {"nodes": nodes, **table_options}.items() if value]
        if given:
            raise DataError(
                f"{given[0]} is an option for tables, and {path!r} has nodes and edges in one file."
            )
        return
    if not is_table(path):
        raise DataError(
            f"path {path!r} must be a table ({', '.join(TABLES)}) or arrays ({', '.join(ARRAYS)}), "
            "for example: "
            f"{NPZ_HINT}"
        )
    if nodes and not is_table(nodes):
        raise DataError(f"nodes {nodes!r} must be a table ({', '.join(TABLES)}).")
    label, targets = table_options["label"], table_options["targets"]
    if label and targets:
        raise DataError(
            f"label {label!r} is for classes and targets for numbers to predict: give one of them."
        )
    missing = [name for name, value in (("nodes", nodes), ("label", label or targets)) if not value]
    if missing:
        raise DataError(
            f"{path!r} is a table of edges, which also needs {' and '.join(missing)}, for example "
            "nodes: nodes.csv, "
            "label: topic (--data.nodes nodes.csv --data.label topic), or targets for numbers to "
            "predict."
        )
