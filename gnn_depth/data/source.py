"""The one door for graphs: every container becomes the same record, under the same checks."""

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnn_depth.builder import build
from gnn_depth.data.base import GraphDataModule, NodeBatch, NodeDataModule, copy_unread
from gnn_depth.data.checks import MASKS, SPLITS, DataError, class_notes, task_of
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.data.features import read_features
from gnn_depth.data.loaders import EpochLoader, share
from gnn_depth.data.mini_batches import subset
from gnn_depth.data.node_order import NodeOrder
from gnn_depth.data.schema import Column, Scaling, Schema, Unknown
from gnn_depth.data.targets import Targets, conform_targets, read_targets
from gnn_depth.data.transforms import Transforms
from gnn_depth.data.union import Arrays, UnionGraph, as_tensor, existing_file, graphs_in, union_of
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, FilePath, Natural, Range, in_range
from gnn_depth.registry import register

GRAPHS = 64  # in a training batch, unless another number is given
SHARES = (0.6, 0.2)  # of the rows, to train and to validate on, where nothing else is given


@dataclass(eq=False)
class RawGraphs:
    """The arrays that an entrance found, before they are checked.

    Attributes:
        graphs: The arrays of each graph, by the names of PyTorch Geometric.
        node_ids: Names of the nodes, integers or text; None if they have none.
        of_schema: What is known of the schema, by the names of its fields: the ``columns`` and
            ``edge_columns`` that x and edge_attr are made of, the ``label``, and so on.
        notes: What was decided where the data left a choice, one sentence each.
    """

    graphs: Sequence[Arrays]
    node_ids: np.ndarray | None = None
    of_schema: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class CheckedGraphs(NodeDataModule):
    """The base of every data set that users bring: a subclass finds the arrays in :meth:`raw`, and
    all checks are here.

    Several graphs are joined into one without edges between them. If each has a target
    (``NodeBatch.per_graph``), a training batch has up to ``batch_size`` of them, shuffled in every
    epoch. Validation and test take all graphs at once.

    Args:
        split: How rows are divided: the number of a column of the masks, where these have several;
            shares to train and validate on, such as [0.6, 0.2]; or numbers of the nodes or graphs
            under ``train``, ``val`` and ``test``. By default the masks of the data, or the
            shares [0.6, 0.2] if it has none.
        batch_size: The most graphs in a training batch, over all processes, where graphs have
            targets; by default 64. A larger number than there are trains on all at once.
        seed: Determines a random split, and the batches.
        edge_features: Read ``edge_attr`` where the graphs have it; false leaves it out, for layers
            that cannot read it.
        standardize: Scale every feature of the nodes to mean 0 and deviation 1 in the training
            rows.
        scale_target: The same for numbers to predict; metrics and predictions stay in the units of
            the data.
        transforms: Transforms of PyTorch Geometric that are applied to the graph after it is read:
            names, or names with options, such as ``{name: AddRandomWalkPE, walk_length: 8}``.
        node_order: Order of the nodes in memory while a model is trained and evaluated; predictions
            keep that of the data. ``rcm`` (reverse Cuthill-McKee) puts neighbours close together,
            ``given`` leaves the nodes as they are, and ``auto`` is ``rcm`` for large graphs that
            gain by it.

    Raises:
        ValueError: A number is out of its range.
    """

    @in_range
    def __init__(
        self,
        split: dict[str, Any] | Natural | list[float] | None = None,
        batch_size: Count | None = None,
        seed: Natural = 0,
        edge_features: bool = True,
        standardize: bool = False,
        scale_target: bool = False,
        transforms: Transforms = [],  # noqa: B006  (read only)
        node_order: NodeOrder = "auto",
    ) -> None:
        super().__init__(transforms=transforms)
        self.batch_size = batch_size
        self.seed = seed
        self.split: Any = split
        self.edge_features: Any = edge_features
        self.standardize = standardize
        self.scale_target = scale_target
        self.node_order = node_order
        self.reads_targets = True
        if isinstance(split, list | tuple):
            if len(split) != 2:
                raise DataError(f"split {split} needs two fractions, for training and validation.")
            # Rounded because sums such as 0.58 + 0.42 may exceed one slightly.
            Range(0, 1).check("split and the sum", [*split, round(sum(split), 12)])

    @abstractmethod
    def raw(self) -> RawGraphs:
        """Read the arrays of each graph.

        Raises:
            ValueError: They cannot be read.
        """

    @property
    def schema(self) -> Schema:
        return self.adopted or replace(super().schema, **self._raw.of_schema)

    def conform_to(
        self, schema: Schema, unknown: Unknown = "error", targets: bool = True
    ) -> GraphDataModule:
        wanted = schema, targets, unknown
        if wanted == (self.adopted, self.reads_targets, self.on_unknown):
            return self  # which need not be read again
        other = copy_unread(self)
        other.adopted, other.reads_targets, other.on_unknown = wanted
        # Transforms belong to the model: new data gets the same, with the same random numbers.
        other.transforms = list(schema.transforms)
        other._transforms = build("transform", other.transforms)
        if schema.transforms_seed is not None:
            other.seed = schema.transforms_seed
        if self.transforms not in ([], other.transforms):
            raise DataError(
                f"the model was trained with transforms {other.transforms}, and this data has "
                f"{self.transforms}: leave transforms out, they are part of the model."
            )
        return other

    def with_all_rows_as_test(self) -> GraphDataModule:
        batch = self.loaded
        no_row = torch.zeros_like(batch.test_mask)
        labelled = batch.train_mask | batch.val_mask | batch.test_mask
        other = copy_unread(self)
        # Nothing else of what was read changes, so it is not read again.
        other.loaded = replace(batch, train_mask=no_row, val_mask=no_row, test_mask=labelled)
        other.split_is_random = False
        return other

    @property
    def class_names(self) -> list[str]:
        _ = self.loaded
        return self._targets.names or super().class_names

    def remarks(self, batch: NodeBatch) -> list[str]:
        notes = self._raw.notes
        if self.adopted is None:  # else nothing is learned of it
            notes += class_notes(batch.y, batch.masks, self._targets.names)
        return notes

    def train_dataloader(self) -> Iterable[NodeBatch]:
        whole = self.batch  # in the order of the data: a reordering is for one graph
        if self.batch_size is not None and not whole.per_graph:
            raise DataError(
                "batch_size is for targets of whole graphs, and these are of nodes: wrap the set "
                "in MiniBatches, or leave batch_size out."
            )
        train = whole.train_mask.nonzero().flatten()
        rank, processes = share(self.trainer, "batch_size", self.batch_size or 0)
        size = self.batch_size or GRAPHS // processes * processes
        if self.batch_size is None and (not whole.per_graph or len(train) <= size):
            return super().train_dataloader()
        # As few batches as keep to the size, about equally large, with a graph for each process.
        num_batches = max(1, min(-(-len(train) // size), len(train) // processes))

        def graphs_of_batches(epoch: int) -> list[Tensor]:
            order = train[Draws(self.seed, f"graphs {epoch}").permutation(len(train))]
            return [part[rank::processes] for part in order.tensor_split(num_batches)]

        return EpochLoader(
            graphs_of_batches, lambda graphs: subset(whole, graphs), num_batches, self.trainer
        )

    def load(self) -> NodeBatch:
        with self.naming_origin():
            raw, trained = self.raw(), self.adopted
            # Predictions need no targets, and those of new data may be missing.
            per_graph = None
            if not self.reads_targets and trained is not None:
                per_graph = trained.per_graph
            reads_edges = self.edge_features is not False  # a list names columns of tables
            union = union_of(raw.graphs, reads_edges, raw.notes, per_graph)
            targets = self._read_targets(union, raw)
            # The split comes before the features, which are scaled by those of the training rows.
            masks = [mask & targets.labelled for mask in self._masks(union, raw, targets.labelled)]
            x, columns = self._features(union, raw, masks[0])
            graph, edge_columns = self._edges(union, raw)
            batch = NodeBatch(x, targets.y, graph, *masks, per_graph=union.per_graph)
            raw.of_schema |= {"columns": columns, "edge_columns": edge_columns}
            if graph.edge_weight is not None:
                raw.of_schema.setdefault("edge_weight", "edge_weight")
            if self.scale_target and trained is None:
                if task_of(targets.y) != "regression":
                    raise DataError(
                        "scale_target is for numbers to predict, and these are "
                        f"{task_of(targets.y)} targets."
                    )
                known = targets.y[batch.train_mask]
                scalings = map(Scaling.fit, known.view(len(known), -1).T)
                raw.of_schema["targets_scaling"] = tuple(scalings)
            self._raw, self._targets = raw, targets
            self.all_ids, self.labelled = raw.node_ids, targets.labelled
        return batch

    def _read_targets(self, union: UnionGraph, raw: RawGraphs) -> Targets:
        """The targets, or stand-ins for those that are not read."""
        trained, y = self.adopted, union.arrays["y"]
        if trained is not None and not self.reads_targets:
            return Targets(y, torch.zeros(len(y), dtype=torch.bool), list(trained.outputs))
        found = read_targets(y, raw.notes, raw.of_schema.get("label", ()))
        return found if trained is None else conform_targets(found, trained)

    def _masks(self, union: UnionGraph, raw: RawGraphs, labelled: Tensor) -> Sequence[Tensor]:
        """The rows to train, validate and test on."""
        if not self.reads_targets:
            return labelled, labelled, labelled
        split: Any = self.split
        shares: Sequence[float] = ()
        given = {name: union.arrays[name] for name in MASKS if name in union.arrays}
        if isinstance(split, Mapping):
            masks: Any = split_masks(len(labelled), split)
        elif isinstance(split, list | tuple):
            shares = split
        elif given:
            masks = complete_masks(given, split, raw.notes)
        else:
            shares = SHARES
            if self.adopted is None:  # else a command says which rows it measures
                raw.notes.append(f"there is no split: it is drawn at random with seed {self.seed}.")
        if shares:
            self.split_is_random = True
            train, val = shares
            masks = fraction_split(len(labelled), self.seed, train, val, labelled)
        for name, mask in zip(SPLITS, masks, strict=True):
            if mask.any() and not (mask & labelled).any():
                raw.notes.append(f"none of the rows of {name} has a target: {name} is empty.")
        return masks

    def _features(
        self, union: UnionGraph, raw: RawGraphs, train: Tensor
    ) -> tuple[Tensor, Sequence[Column]]:
        """The features as a model gets them, and their columns."""
        trained = self.adopted
        if trained is not None and trained.named and "id" not in raw.of_schema:
            raise DataError(
                "the model knows its columns by name, and x has none: give two tables with the "
                f"columns {', '.join(column.name for column in trained.columns)}."
            )
        x = union.arrays.get("x")
        if x is None or x.shape[1:] == (0,):
            raw.notes.append("there is no x: every node gets the feature 1.")
            x = torch.ones(union.num_nodes, 1)
            if trained is None:
                return x, ()
        columns, width = raw.of_schema.get("columns", ()), None
        rows: Tensor | None = train
        if trained is not None:
            columns, rows = trained.columns, None
            if not self._transforms:  # which may still change the number of features
                width = trained.num_features
        elif union.per_graph and union.node_to_graph is not None:
            rows = train[union.node_to_graph]  # the nodes of the training graphs
        return read_features(
            "x", x, columns, rows, raw.notes, self.standardize, width, self.on_unknown
        )

    def _edges(self, union: UnionGraph, raw: RawGraphs) -> tuple[Graph, Sequence[Column]]:
        """The edges with their weights and features, and the columns of these."""
        trained, edges = self.adopted, union.arrays["edge_index"]
        weight, attr = union.arrays.get("edge_weight"), union.arrays.get("edge_attr")
        columns, width, count = raw.of_schema.get("edge_columns", ()), 0, edges.shape[1]
        rows: Tensor | None = torch.ones(count, dtype=torch.bool)
        if trained is not None:
            if (weight is None) != (trained.edge_weight is None):
                raise DataError(
                    "the model and this graph differ: one has edge_weight, the other has none."
                )
            columns, rows, width = trained.edge_columns, None, trained.num_edge_features
            if attr is None and width:
                attr = torch.empty(count, 0)  # refused, as the model needs some
        if attr is not None:
            attr, columns = read_features(
                "edge_attr", attr, columns, rows, raw.notes, bool(columns), width, self.on_unknown
            )
        if weight is not None:
            weight = weight.float().reshape(count, -1).squeeze(1)
        of_edges: dict[str, Any] = {"edge_weight": weight, "edge_attr": attr}
        return Graph(edges, union.num_nodes, union.node_to_graph, **of_edges), columns


class GraphSource(CheckedGraphs):
    """A graph, or several, from Python: anything that holds one.

    A ``Data`` of PyTorch Geometric, a list, ``Batch``, ``DataLoader`` or data set of them, a dict
    of arrays, or the path of an ``.npz`` or ``.pt`` file. A single graph may name its nodes in
    ``node_ids``. Targets are one for each node or one for
    each graph; the task follows from their type and shape. Incomplete data raises an error with a
    fix, or prints one notice: see docs/data_promises.md.

    Args:
        data: The graph or graphs.
        **options: The options of :class:`CheckedGraphs`: ``split``, ``batch_size`` and so on.
    """

    def __init__(self, data: Any, **options: Any) -> None:
        super().__init__(**options)
        # Kept as it is, and read on first use: a run that ends at a wrong option has read nothing.
        self.data = data
        if isinstance(data, str | os.PathLike):
            self.origin = str(data)

    @staticmethod
    def of(
        data: Any,
        split: Mapping[str, Any] | None = None,
        batch_size: int | None = None,
        seed: int = 0,
    ) -> GraphDataModule:
        """The data set of anything that holds a graph; one of this package is taken as it is.

        Raises:
            ValueError: The data set of this package is given with options of other data.
        """
        if not isinstance(data, GraphDataModule):
            return GraphSource(data, split=split, batch_size=batch_size, seed=seed)
        if split is not None or batch_size is not None:
            raise ValueError(
                f"split and batch_size are for Data objects: {type(data).__name__} has its own."
            )
        return data

    def raw(self) -> RawGraphs:
        found = RawGraphs([])
        found.graphs = graphs_in(self.data, found.notes)
        if len(found.graphs) == 1:
            found.node_ids = found.graphs[0].get("node_ids")
        return found


@register("data", "UserGraph")
class UserGraph(CheckedGraphs):
    """Your own graph in one file of arrays: ``gnn-depth fit graph.npz``.

    An ``.npz`` has ``x`` (nodes, features), ``y`` (nodes,), ``edge_index`` (2, edges), and
    optionally ``edge_weight``, ``edge_attr``, ``train_mask``, ``val_mask`` and ``test_mask``. A
    ``.pt`` has a ``Data`` of PyTorch Geometric, a list of them, or a dict of tensors with these
    names, saved by ``torch.save``. Floats in ``y`` are numbers to predict.

    Args:
        path: The file.
        **common: ``split``, ``standardize`` and the other options of :class:`CheckedGraphs`.

    Raises:
        ValueError: The file does not exist, or a number is out of its range.
    """

    def __init__(self, path: FilePath, **common: Any) -> None:
        super().__init__(**common)
        self.data = self.path = self.origin = path
        existing_file("graph file", path)

    raw: Any = GraphSource.raw


def complete_masks(
    given: Mapping[str, Tensor], column: int | None, notes: list[str]
) -> list[Tensor]:
    """The three masks of a split, each of shape (rows,).

    Args:
        given: The masks of a single split, or with a column for each of several.
        column: Which of several splits to use; the first by default.
        notes: Gets a sentence for each decision.

    Raises:
        DataError: A mask is missing or has another shape, or other values than true and false.
    """
    missing = [name for name in MASKS if name not in given]
    if missing:
        raise DataError(
            f"{' and '.join(given)} given, and {' and '.join(missing)} not: give all three, or "
            "let split [0.6, 0.2] draw them."
        )
    masks = []
    for name in MASKS:
        mask = given[name].reshape(len(given[name]), -1)
        if not ((mask == 0) | (mask == 1)).all():
            raise DataError(f"{name} must be true or false for each row.")
        count = mask.shape[1]
        if (column or 0) >= count:
            raise DataError(f"split is {column}, and the masks have the columns 0 to {count - 1}.")
        if count > 1 and column is None:
            notes.append(f"{name} holds {count} splits: the first is used (split 0).")
        masks.append(mask[:, column or 0].bool())
    return masks


def split_masks(count: int, split: Mapping[str, object]) -> list[Tensor]:
    """Masks of the rows to train, validate and test on, given their numbers.

    Raises:
        DataError: A list is missing, or a number is out of range.
    """
    if set(split) != set(SPLITS):
        raise DataError(
            f"a split has lists called {', '.join(SPLITS)}, not {', '.join(map(str, split))}."
        )
    masks = []
    every = torch.arange(count)
    for name in SPLITS:
        rows = as_tensor(name, split[name])
        is_numbers = rows.dtype == torch.long or not len(rows)
        # A negative number would count from the end.
        if not is_numbers or not torch.isin(rows, every).all():
            raise DataError(
                f"{name} of the split must have numbers of rows, 0 to {count - 1}: of a mask, "
                "mask.nonzero().flatten()."
            )
        masks.append(torch.isin(every, rows))
    return masks
