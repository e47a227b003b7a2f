"""The one door for graphs: every container becomes the same record, under the same checks."""

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from gnn_depth.builder import build
from gnn_depth.data.array_files import existing_file
from gnn_depth.data.base import GraphDataModule, KeptNodes, NodeBatch, copy_unread
from gnn_depth.data.checks import (
    MASKS,
    SPLITS,
    DataError,
    check_fractions,
    class_notes,
    refuse_one_value,
    task_of,
)
from gnn_depth.data.draws import Draws, fraction_split
from gnn_depth.data.features import conform_features, fit_features
from gnn_depth.data.graph_sets import GraphSet
from gnn_depth.data.node_order import NodeOrder
from gnn_depth.data.schema import Column, Scaling, Schema, Unknown
from gnn_depth.data.targets import Targets, conform_targets, no_targets, read_targets
from gnn_depth.data.transforms import Transforms
from gnn_depth.data.union import Arrays, UnionGraph, as_tensor, graphs_in, union_of
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, FilePath, Natural, Range, in_range
from gnn_depth.registry import register

ValShare = Annotated[float, Range(0, 1, above=True, below=True)]
SHARES = (0.6, 0.2)  # of the rows, to train and to validate on, where nothing else is given


@dataclass(eq=False)
class RawGraphs:
    """The arrays that an entrance found, before they are checked.

    Attributes:
        graphs: The arrays of each graph, by the names of PyTorch Geometric.
        node_ids: Names of the nodes.
        columns: The columns that x is made of; empty if it has no names.
        edge_columns: The columns that edge_attr is made of; empty if it has no names.
        target_names: Names of numbers to predict.
        of_schema: Further parts of the schema, by the names of its fields.
        notes: What was decided so far, one sentence each.
    """

    graphs: Sequence[Arrays]
    node_ids: np.ndarray | None = None
    columns: Sequence[Column] = ()
    edge_columns: Sequence[Column] = ()
    target_names: Sequence[str] = ()
    of_schema: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False)
class GraphRecord:
    """Names, ids, notes and remembered columns of a graph that was checked.

    Attributes:
        targets: The targets with the rows that have one, and names of the classes.
        node_ids: Names of the nodes, integers or text; None if they have none.
        of_schema: What a model remembers of the columns, by the names of the schema's fields.
        notes: What was decided where the data left a choice, one sentence each.
    """

    targets: Targets
    node_ids: np.ndarray | None
    of_schema: Mapping[str, Any]
    notes: list[str]


class CheckedGraphs(GraphSet):
    """The base of every data set that users bring: a subclass finds the arrays in :meth:`raw`, and
    all checks are here.

    Args:
        split: How rows are divided: the number of a column of the masks, where these have several;
            shares to train and validate on, such as [0.6, 0.2]; or numbers or masks of the nodes or
            graphs under ``train``, ``val`` and ``test``. By default the masks of the data, or the
            shares [0.6, 0.2] if it has none.
        val_share: Part of the training rows to validate on, where the data has train_mask and
            test_mask only.
        batch_size: Graphs in a training batch, where graphs have targets; None for all.
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
        split: Any = None,
        val_share: ValShare | None = None,
        batch_size: Count | None = None,
        seed: Natural = 0,
        edge_features: bool = True,
        standardize: bool = False,
        scale_target: bool = False,
        transforms: Transforms = (),
        node_order: NodeOrder = "auto",
    ) -> None:
        super().__init__(batch_size, seed, transforms=transforms)
        self.split = split
        self.val_share = val_share
        self.edge_features: Any = edge_features
        self.standardize = standardize
        self.scale_target = scale_target
        self.node_order = node_order
        self.reads_targets = True
        self._record: GraphRecord | None = None
        if isinstance(split, list | tuple):
            if len(split) != 2:
                raise DataError(f"split {split} has two shares, to train and to validate on.")
            check_fractions(*split)

    @abstractmethod
    def raw(self) -> RawGraphs:
        """Read the arrays of each graph.

        Raises:
            ValueError: They cannot be read.
        """

    @property
    def record(self) -> GraphRecord:
        """The graph with its names, ids and notes; read on first use."""
        _ = self.loaded
        assert self._record is not None
        return self._record

    @property
    def schema(self) -> Schema:
        if self.adopted is not None:
            return self.adopted
        return replace(super().schema, **self.record.of_schema)

    def conform_to(
        self, schema: Schema, unknown: Unknown | None = None, targets: bool = True
    ) -> GraphDataModule:
        wanted = schema, targets, unknown or self.on_unknown
        if wanted == (self.adopted, self.reads_targets, self.on_unknown):
            return self  # which need not be read again
        other: Any = copy_unread(self)
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
        other: Any = copy_unread(self)
        # Nothing else of what was read changes, so it is not read again.
        whole = replace(batch, train_mask=no_row, val_mask=no_row, test_mask=labelled)
        vars(other)["loaded"] = whole
        other.split_is_random = False
        return other

    @property
    def num_classes(self) -> int:
        # New data need not have all classes of the model.
        return len(self.adopted.outputs) if self.adopted else super().num_classes

    @property
    def task(self) -> str:
        return self.adopted.task if self.adopted else super().task

    @property
    def class_names(self) -> list[str]:
        return self.record.targets.names or super().class_names

    @property
    def node_ids(self) -> np.ndarray | None:
        ids = self.record.node_ids
        if ids is None or self.kept is None:
            return ids
        # A transform such as LargestConnectedComponents has left nodes out.
        return ids[self.kept.numpy()]

    @property
    def kept_nodes(self) -> KeptNodes | None:
        found, ids = super().kept_nodes, self.record.node_ids
        if found is None or ids is None:
            return found
        return found._replace(ids=ids)

    @property
    def labelled(self) -> Tensor | None:
        assert self._record is not None
        return self._record.targets.labelled

    def remarks(self, batch: NodeBatch) -> list[str]:
        assert self._record is not None
        if self.adopted is not None:  # nothing is learned of it
            return self._record.notes
        names = self._record.targets.names
        return [*self._record.notes, *class_notes(batch.y, batch.masks, names)]

    def load(self) -> NodeBatch:
        with self.naming_origin():
            raw = self.raw()
            # Predictions need no targets, and those of new data may be missing.
            per_graph = None
            if self.adopted is not None and not self.reads_targets:
                per_graph = self.adopted.per_graph
            reads_edges = self.edge_features is not False  # a list names columns of tables
            union = union_of(raw.graphs, reads_edges, raw.notes, per_graph)
            targets = self._targets(union, raw)
            # The split comes before the features, which are scaled by those of the training rows.
            masks = self._masks(union, raw, targets.labelled)
            x, columns = self._features(union, raw, masks[0])
            graph, edge_columns = self._edges(union, raw)
            batch = NodeBatch(x, targets.y, graph, *masks, per_graph=union.per_graph)
            of_schema = dict(raw.of_schema, columns=columns, edge_columns=edge_columns)
            if graph.edge_weight is not None:
                of_schema.setdefault("edge_weight", "edge_weight")
            if self.scale_target and self.adopted is None:
                of_schema["targets_scaling"] = _scalings(batch)
            self._record = GraphRecord(targets, raw.node_ids, of_schema, raw.notes)
        return batch

    def _targets(self, union: UnionGraph, raw: RawGraphs) -> Targets:
        """The targets, or stand-ins for those that are not read."""
        trained = self.adopted
        if trained is not None and not self.reads_targets:
            return no_targets(len(union.arrays["y"]), trained)
        found = read_targets(union.arrays["y"], raw.notes, raw.target_names)
        if trained is not None:
            return conform_targets(found, trained)
        refuse_one_value(found.y[found.labelled], found.names)
        return found

    def _masks(
        self, union: UnionGraph, raw: RawGraphs, labelled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The labelled rows to train, validate and test on."""
        if not self.reads_targets:
            return labelled, labelled, labelled
        notes, rows, split = raw.notes, len(labelled), self.split
        given = {name: union.arrays[name] for name in MASKS if name in union.arrays}
        if isinstance(split, Mapping):
            masks = split_masks(rows, split)
        elif isinstance(split, list | tuple):
            masks = self._drawn(split, labelled)
        elif given or self.val_share is not None:
            column = split if isinstance(split, int) else None
            masks = complete_masks(given, column, self.val_share, self.seed, notes)
        else:
            if self.adopted is None:  # else a command says which rows it measures
                notes.append(f"there is no split: it is drawn at random with seed {self.seed}.")
            masks = self._drawn(SHARES, labelled)
        for name, mask in zip(SPLITS, masks, strict=True):
            if mask.any() and not (mask & labelled).any():
                notes.append(f"none of the rows of {name} has a target: {name} is empty.")
        train, val, test = masks
        return train & labelled, val & labelled, test & labelled

    def _drawn(self, shares: Sequence[float], labelled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A random split by shares to train and validate on."""
        self.split_is_random = True
        train, val = shares
        return fraction_split(len(labelled), self.seed, train, val, labelled)

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
        if trained is not None:
            columns, width = trained.columns, trained.num_features
            # Transforms may still change the number of features.
            wanted = None if self._transforms else width
            return conform_features("x", x, columns, wanted, self.on_unknown, raw.notes), columns
        if union.per_graph and union.node_to_graph is not None:
            train = train[union.node_to_graph]  # the nodes of the training graphs
        return fit_features("x", x, raw.columns, train, self.standardize, raw.notes)

    def _edges(self, union: UnionGraph, raw: RawGraphs) -> tuple[Graph, Sequence[Column]]:
        """The edges with their weights and features, and the columns of these."""
        arrays, trained = union.arrays, self.adopted
        columns: Sequence[Column] = raw.edge_columns
        attr = arrays.get("edge_attr")
        if trained is not None:
            if attr is None:
                attr = torch.empty(arrays["edge_index"].shape[1], 0)
            columns, width = trained.edge_columns, trained.num_edge_features
            wanted = None if self._transforms else width
            attr = conform_features("edge_attr", attr, columns, wanted, self.on_unknown, raw.notes)
            if not attr.shape[1]:
                attr = None
        elif attr is not None:
            rows = torch.ones(len(attr), dtype=torch.bool)
            attr, columns = fit_features("edge_attr", attr, columns, rows, bool(columns), raw.notes)
        weight = arrays.get("edge_weight")
        if trained is not None and (weight is None) != (trained.edge_weight is None):
            had, has = ("no ", "") if trained.edge_weight is None else ("", "no ")
            raise DataError(
                f"the model was trained with {had}weights of edges, and this graph has {has}"
                "edge_weight."
            )
        if weight is not None:
            weight = weight.float().reshape(len(weight), -1).squeeze(1)
        of_edges: dict[str, Any] = {"edge_weight": weight, "edge_attr": attr}
        edges = arrays["edge_index"]
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
        **options: As in :class:`CheckedGraphs`: ``split``, ``standardize`` and so on.
    """

    def __init__(self, data: Any, split: Any = None, **options: Any) -> None:
        super().__init__(split, **options)
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
            return GraphSource(data, split, batch_size=batch_size, seed=seed)
        if split is not None or batch_size is not None:
            raise ValueError(
                f"split and batch_size are for Data objects: {type(data).__name__} has its own."
            )
        return data

    def raw(self) -> RawGraphs:
        return raw_graphs(self.data)


@register("data", "UserGraph")
class UserGraph(CheckedGraphs):
    """Your own graph in one file of arrays: ``gnn-depth fit graph.npz``.

    An ``.npz`` has ``x`` (nodes, features), ``y`` (nodes,), ``edge_index`` (2, edges), and
    optionally ``edge_weight``, ``edge_attr``, ``train_mask``, ``val_mask`` and ``test_mask``. A
    ``.pt`` has a ``Data`` of PyTorch Geometric, a list of them, or a dict of tensors with these
    names, saved by ``torch.save``. Floats in ``y`` are numbers to predict.

    Args:
        path: The file.
        split: How rows are divided: the number of a column of the masks, where these have several;
            shares to train and validate on, such as [0.6, 0.2]; or numbers of the rows under
            ``train``, ``val`` and ``test``. By default the masks of the file, or the shares.
        val_share: Part of the training rows to validate on, where the file has train_mask and
            test_mask only.
        batch_size: Graphs in a training batch, where graphs have targets; None for all.
        seed: Determines a random split, and the batches.
        edge_features: Read ``edge_attr``; false leaves it out, for layers that cannot read it.
        standardize: Scale every feature of the nodes to mean 0 and deviation 1.
        scale_target: The same for numbers to predict; metrics stay in the units of the data.
        transforms: Transforms of PyTorch Geometric, by name, applied after the file is read.
        node_order: Order of the nodes in memory: ``auto``, ``given`` or ``rcm``.

    Raises:
        ValueError: The file does not exist, or a number is out of its range.
    """

    def __init__(
        self,
        path: FilePath,
        split: dict[str, Any] | Natural | list[float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(split, **options)
        self.path = self.origin = path
        existing_file("graph file", path)

    def raw(self) -> RawGraphs:
        return raw_graphs(self.path)


def raw_graphs(data: Any) -> RawGraphs:
    """The arrays in a container or file; a single graph may name its nodes in ``node_ids``."""
    notes: list[str] = []
    graphs = graphs_in(data, notes)
    ids = graphs[0].get("node_ids") if len(graphs) == 1 else None
    return RawGraphs(graphs, node_ids=ids, notes=notes)


def complete_masks(
    given: Mapping[str, Tensor],
    column: int | None,
    val_share: float | None,
    seed: int,
    notes: list[str],
) -> tuple[Tensor, Tensor, Tensor]:
    """All three masks, each of shape (rows,); with ``val_share``, validation takes this part of the
    training rows.

    Args:
        given: The masks of a single split, or with a column for each of several.
        column: Which of several splits to use; the first by default.
        val_share: Part of the training rows, where there is no val_mask.
        seed: Determines these rows.
        notes: Gets a sentence for each decision.

    Raises:
        DataError: A mask is missing or has another shape, or other values than true and false.
    """
    masks = {}
    for name, mask in given.items():
        if mask.dim() > 2 or not ((mask == 0) | (mask == 1)).all():
            raise DataError(f"{name} must be true or false for each row.")
        mask = mask.bool().reshape(len(mask), -1)
        count = mask.shape[1]
        if (column or 0) >= count:
            raise DataError(f"split is {column}, and the masks have the columns 0 to {count - 1}.")
        if count > 1 and column is None:
            notes.append(f"{name} holds {count} splits: the first is used (split 0).")
        masks[name] = mask[:, column or 0]
    missing = [name for name in MASKS if name not in masks]
    if val_share is not None:
        if missing != ["val_mask"]:
            raise DataError(
                "val_share is for data with train_mask and test_mask only, and here "
                f"{' and '.join(masks) or 'no mask'} is given: leave val_share out."
            )
        train = masks["train_mask"].nonzero().flatten()
        # One at least: without any the best epoch could not be chosen.
        count = max(1, round(val_share * len(train)))
        chosen = train[Draws(seed, "val share").permutation(len(train))[:count]]
        masks["val_mask"] = torch.zeros_like(masks["train_mask"])
        masks["val_mask"][chosen] = True
        masks["train_mask"] = masks["train_mask"] & ~masks["val_mask"]
        notes.append(f"{count:,} of {len(train):,} training rows validate (val_share).")
    elif missing:
        raise DataError(
            f"{' and '.join(masks)} given, and {' and '.join(missing)} not: give all three, or "
            "none. To validate on part of the training rows, give train_mask and test_mask, and "
            "val_share 0.2."
        )
    return masks["train_mask"], masks["val_mask"], masks["test_mask"]


def split_masks(count: int, split: Mapping[str, object]) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of the rows to train, validate and test on, given their numbers or masks.

    Raises:
        DataError: A list is missing, or a number is out of range.
    """
    if set(split) != set(SPLITS):
        raise DataError(
            f"a split has lists called {', '.join(SPLITS)}, not {', '.join(map(str, split))}."
        )
    masks = torch.zeros(3, count, dtype=torch.bool)
    for name, mask in zip(SPLITS, masks, strict=True):
        rows = as_tensor(name, split[name])
        # Only a mask of the right length: short ones are lists of 0 and 1 by mistake.
        if rows.dtype == torch.bool and rows.shape == mask.shape:
            rows = rows.nonzero().flatten()
        is_numbers = not rows.is_floating_point() and rows.dtype != torch.bool
        # A negative number would count from the end.
        if len(rows) and (not is_numbers or rows.min() < 0 or rows.max() >= count):
            raise DataError(
                f"{name} of the split must have numbers of rows, 0 to {count - 1}, or a mask of "
                f"all {count} rows."
            )
        mask[rows.long()] = True
    return masks[0], masks[1], masks[2]


def _scalings(batch: NodeBatch) -> tuple[Scaling, ...]:
    """A scaling of each number to predict, fitted on the training rows."""
    if task_of(batch.y) != "regression":
        raise DataError(
            f"scale_target is for numbers to predict, and these are {task_of(batch.y)} targets."
        )
    known = batch.y[batch.train_mask]
    return tuple(Scaling.fit(column) for column in known.view(len(known), -1).T)
