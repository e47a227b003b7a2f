"""A user's own graph."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule, coalesce, normalize_rows
from gnn_depth.data.checks import DataError, check_nodes, check_range
from gnn_depth.data.draws import Draws
from gnn_depth.data.table_files import SUFFIXES as TABLES
from gnn_depth.data.table_files import is_table, open_table
from gnn_depth.data.user_files import NPZ_HINT, Content, read_file
from gnn_depth.data.user_files import SUFFIXES as ARRAYS
from gnn_depth.data.user_nodes import NodeColumns
from gnn_depth.data.user_tables import read_tables
from gnn_depth.graph import Graph
from gnn_depth.registry import register


@register("data", "UserGraph")
class UserGraph(NodeDataModule):
    """A graph of your own, whose nodes are to be classified: from two tables, or from a file of arrays.

    Tables are ``.csv``, ``.tsv`` (both also ``.gz``) or ``.parquet``; the first line of text has the names of the
    columns. ``path`` has an edge in each row, ``nodes`` a node. Ids are integers, or else text as it stands there: then
    ``007`` is not ``7``. A node whose label is empty is never trained on or measured, and predicted all the same.

    Args:
        path: A table of edges; or an ``.npz`` with ``x`` (nodes, features), ``y`` (nodes,), ``edge_index`` (2, edges)
            or (edges, 2), which for two edges means the former, and, if you like, ``train_mask``, ``val_mask`` and
            ``test_mask`` (nodes,); or, saved by ``torch.save`` as ``.pt`` or ``.pth``, a PyTorch Geometric ``Data`` or
            a dict of tensors with the same names.
        nodes: The table of nodes, where path is a table of edges; all options down to ends are about the two.
        label: Column of the classes, text or numbers.
        id: Column of the ids that edges call the nodes by; the first one by default.
        split: Column that says train, val or test, or nothing for none of them.
        features: Columns of numbers; by default all columns that are nothing else.
        categories: Columns of text, each value of which becomes a feature of 0 and 1.
        ends: The two columns of the edges that hold sources and targets; the first two by default.
        undirected: Whether every edge is to run in both directions, without repetitions.
        normalize_features: Whether each node's features are divided by the sum of their sizes.
        train_fraction: Part of the nodes to train on where the files have no split, above 0.
        val_fraction: Part of the nodes to validate on where the files have no split; the rest is to test on.
        seed: Which nodes these are.

    Raises:
        ValueError: There is no such file, an option is not for such files, or the fractions add up to more than one.
    """

    def __init__(
        self,
        path: str,
        nodes: str | None = None,
        label: str | None = None,
        id: str | None = None,
        split: str | None = None,
        features: list[str] | None = None,
        categories: list[str] = [],  # noqa: B006  (read only)
        ends: list[str] = [],  # noqa: B006
        undirected: bool = False,
        normalize_features: bool = False,
        train_fraction: float = 0.6,
        val_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.path = _existing("graph file", path)
        about_nodes = {"label": label, "id": id, "split": split, "features": features, "categories": categories}
        _check_kind(path, {"nodes": nodes, **about_nodes, "ends": ends})
        self.nodes = _existing("table of nodes", nodes) if nodes else None
        if train_fraction == 0:
            raise ValueError("train_fraction must be above 0: there would be no node to train on.")
        check_range("train_fraction", train_fraction, 0, 1)
        check_range("val_fraction", val_fraction, 0, 1)
        # Rounded, as 0.58 + 0.42 and the like may come out a bit above one.
        check_range("train_fraction + val_fraction", round(train_fraction + val_fraction, 12), 0, 1)
        check_range("seed", seed, 0)
        self.columns = NodeColumns(label or "", id, split, features, categories)
        self.ends = ends
        self.undirected = undirected
        self.normalize_features = normalize_features
        self.train_fraction = train_fraction
        self.val_fraction = val_fraction
        self.seed = seed
        self._node_ids: np.ndarray | None = None
        self._class_names: list[str] | None = None

    @property
    def num_classes(self) -> int:
        return int(self.loaded.y.max()) + 1

    @property
    def class_names(self) -> list[str]:
        _ = self.loaded
        return self._class_names or super().class_names

    @property
    def node_ids(self) -> np.ndarray | None:
        _ = self.loaded
        return self._node_ids

    def load(self) -> NodeBatch:
        """Read the files.

        Raises:
            DataError: They cannot be read, lack a part, or do not fit each other.
        """
        content = self._read()
        x = content.x
        with _naming(self.nodes or self.path):
            masks = content.masks or self._draw(content.labelled)
            check_nodes(x, content.y, len(x), masks)
            graph = Graph(content.edge_index, len(x))
        self._node_ids, self._class_names = content.node_ids, content.class_names
        if self.undirected:
            graph = Graph(coalesce(content.edge_index, len(x), undirected=True), len(x))
        return NodeBatch(normalize_rows(x) if self.normalize_features else x, content.y, graph, *masks)

    def _read(self) -> Content:
        if self.nodes is None:
            with _naming(self.path):
                return read_file(self.path)
        return read_tables(open_table(self.path), open_table(self.nodes), self.columns, self.ends)

    def _draw(self, labelled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sets of the nodes that have a label, each in one of them."""
        order = Draws(self.seed, "split").permutation(len(labelled))
        order = order[labelled[order]]
        first = max(1, round(self.train_fraction * len(order)))
        last = max(first, round((self.train_fraction + self.val_fraction) * len(order)))
        masks = torch.zeros(3, len(labelled), dtype=torch.bool)
        for mask, part in zip(masks, (order[:first], order[first:last], order[last:]), strict=True):
            mask[part] = True
        return masks[0], masks[1], masks[2]


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DataError(f"graph {str(path)!r} is refused: {error}") from None


def _existing(what: str, path: str) -> Path:
    file = Path(path).expanduser()
    if file.is_dir():
        raise DataError(f"{what} {path!r} is a folder: name a file in it.")
    if not file.is_file():
        raise DataError(f"{what} {path!r} does not exist (looked in {str(Path.cwd())!r}).")
    return file


def _check_kind(path: str, options: dict[str, str | list[str] | None]) -> None:
    """Refuse what is neither arrays nor tables, and options of the one for the other."""
    given = [name for name, value in options.items() if value]
    if Path(path).suffix in ARRAYS:
        if given:
            raise DataError(f"{given[0]} is for tables, and {path!r} is none: it has nodes and edges in one.")
        return
    for name, file in {"path": path, "nodes": options["nodes"]}.items():
        if file and not is_table(str(file)):
            kinds = f"be a table ({', '.join(TABLES)})"
            arrays = f" or have arrays ({', '.join(ARRAYS)}); to save such: {NPZ_HINT}"
            raise DataError(f"{name} {str(file)!r} must {kinds}{arrays if name == 'path' else '.'}")
    missing = [name for name in ("nodes", "label") if not options[name]]
    if missing:
        raise DataError(
            f"{path!r} is a table of edges; {' and '.join(missing)} must be given, too, such as "
            "nodes: nodes.csv, label: topic (--data.nodes nodes.csv --data.label topic)."
        )
