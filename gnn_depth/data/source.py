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
    class_counts,
    class_notes,
    num_outputs_of,
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
        parts: Numbers of graphs to train, validate and test on, if the source divides them.
        node_ids: Names of the nodes.
        columns: The columns that x is made of; empty if it has no names.
        edge_columns: The columns that edge_attr is made of; empty if it has no names.
        target_names: Names of numbers to predict.
        of_schema: Further parts of the schema, by the names of its fields.
        notes: What was decided so far, one sentence each.
    """

    graphs: Sequence[Arrays]
    parts: Mapping[str, int] | None = None
    node_ids: np.ndarray | None = None
    columns: Sequence[Column] = ()
    edge_columns: Sequence[Column] = ()
    target_names: Sequence[str] = ()
    of_schema: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(eq=False)
class GraphRecord:
    """A graph, or several side by side, after all checks.

    Attributes:
        batch: Features, edges with weights and features, targets and masks.
        class_names: Names of the classes, or of numbers to predict; None if they have none.
        node_ids: Names of the nodes, integers or text; None if they have none.
        notes: What was decided where the data left a choice, one sentence each.
        schema: What a model that is trained on it expects of other data.
    """

    batch: NodeBatch
    class_names: list[str] | None
    node_ids: np.ndarray | None
    notes: list[str]
    schema: Schema


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
        self._labelled: Tensor | None = None
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
        found = self.record.schema
        if not self._transforms:
            return found
        batch = self.loaded
        return replace(
            found,
            num_features=batch.x.shape[1],
            num_edge_features=batch.graph.edge_channels,
            train_counts=class_counts(batch.y, batch.train_mask),
            train_rows=int(batch.train_mask.sum()),
            transforms=tuple(self.transforms),
            transforms_seed=self.seed,
        )

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
        other._record = replace(self.record, batch=whole)
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
        return self.record.class_names or super().class_names

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
        return self._labelled

    def remarks(self, batch: NodeBatch) -> list[str]:
        assert self._record is not None
        if self.adopted is not None:  # nothing is learned of it
            return self._record.notes
        names = self._record.class_names
        return [*self._record.notes, *class_notes(batch.y, batch.masks, names)]

    def load(self) -> NodeBatch:
        with self.naming_origin():
            raw = self.raw()
            trained = self.adopted
            # Predictions need no targets, and those of new data may be missing.
            per_graph = None
            if trained is not None and not self.reads_targets:
                per_graph = trained.per_graph
            reads_edges = self.edge_features is not False  # a list names columns of tables
            union = union_of(raw.graphs, reads_edges, raw.notes, per_graph)
            targets = self._targets(union, raw)
            self._labelled = targets.labelled
            # The split comes before the features, which are scaled by those of the training rows.
            masks = self._masks(union, raw, targets.labelled)
            x, columns = self._features(union, raw, masks[0])
            graph, edge_columns = self._edges(union, raw)
            batch = NodeBatch(x, targets.y, graph, *masks, per_graph=union.per_graph)
            # Before transforms, because a model's data is checked before its transforms too.
            schema = trained or self._schema(batch, targets, raw, columns, edge_columns)
            self._record = GraphRecord(batch, targets.names, raw.node_ids, raw.notes, schema)
        return batch

    def _targets(self, union: UnionGraph, raw: RawGraphs) -> Targets:
        """The targets, or stand-ins for those that are not read."""
        trained = self.adopted
        if trained is not None and not self.reads_targets:
            return no_targets(len(union.arrays["y"]), trained)
        found = read_targets(union.arrays["y"], raw.notes, raw.target_names)
        if trained is not None:
            return conform_targets(found, trained, self.on_unknown, raw.notes)
        refuse_one_value(found.y[found.labelled], found.names)
        return found

    def _masks(
        self, union: UnionGraph, raw: RawGraphs, labelled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The labelled rows to train, validate and test on."""
        if not self.reads_targets:
            return labelled, labelled, labelled
        split = self._split(union, raw, labelled)
        used = []
        for name, mask in zip(SPLITS, split, strict=True):
            used.append(mask & labelled)
            if mask.any() and not used[-1].any():
                raw.notes.append(f"none of the rows of {name} has a target: {name} is empty.")
        return used[0], used[1], used[2]

    def _split(
        self, union: UnionGraph, raw: RawGraphs, labelled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The rows to train, validate and test on, with or without a target."""
        notes, rows, split = raw.notes, len(labelled), self.split
        given = {name: union.arrays[name] for name in MASKS if name in union.arrays}
        if given and isinstance(split, Mapping | list | tuple):
            notes.append("the masks of the data are not used, because a split is given.")
        if isinstance(split, Mapping):
            return split_masks(rows, split)
        if isinstance(split, list | tuple):
            return self._random_split(split, labelled)
        if raw.parts is not None:
            # The graphs of a part follow each other, and each has as many rows as it has targets.
            of_parts, first = {}, 0
            for name, count in raw.parts.items():
                last = first + count
                start, end = sum(union.rows[:first]), sum(union.rows[:last])
                of_parts[name] = torch.arange(start, end)
                first = last
            return split_masks(rows, of_parts)
        if given or self.val_share is not None:
            column = split if isinstance(split, int) else None
            return complete_masks(given, column, self.val_share, self.seed, notes)
        if self.adopted is None:  # else a command says which rows it measures
            notes.append(f"there is no split: it is drawn at random with seed {self.seed}.")
        return self._random_split(SHARES, labelled)

    def _random_split(
        self, shares: Sequence[float], labelled: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        self.split_is_random = True
        train, val = shares
        return fraction_split(len(labelled), self.seed, train, val, labelled)

    def _features(
        self, union: UnionGraph, raw: RawGraphs, train: Tensor
    ) -> tuple[Tensor, tuple[Column, ...]]:
        """The features as a model gets them, and their columns."""
        trained, notes = self.adopted, raw.notes
        x = union.arrays.get("x")
        if x is None or x.shape[1:] == (0,):
            notes.append("there is no x: every node gets the feature 1.")
            return torch.ones(union.num_nodes, 1), tuple(raw.columns)
        if trained is None:
            if union.per_graph and union.node_to_graph is not None:
                train = train[union.node_to_graph]  # the nodes of the training graphs
            return fit_features("x", x, raw.columns, train, self.standardize, notes)
        if trained.named and not raw.columns:
            raise DataError(
                "the model knows its columns by name, and x has none: give two tables with the "
                f"columns {', '.join(column.name for column in trained.columns)}."
            )
        x = conform_features("x", x, trained.columns, self.on_unknown, notes)
        # Transforms may still change the number of features.
        if not self._transforms and x.shape[1] != trained.num_features:
            raise DataError(
                f"the model needs {trained.num_features} features, and x has {x.shape[1]:,}."
            )
        return x, trained.columns

    def _edges(self, union: UnionGraph, raw: RawGraphs) -> tuple[Graph, tuple[Column, ...]]:
        """The edges with their weights and features, and the columns of these."""
        arrays, trained, notes = union.arrays, self.adopted, raw.notes
        of_edges: dict[str, Any] = {}
        columns: tuple[Column, ...] = ()
        if "edge_weight" in arrays:
            weight = arrays["edge_weight"].float()
            of_edges["edge_weight"] = weight.reshape(len(weight), -1).squeeze(1)
        if "edge_attr" in arrays and trained is None:
            values, scales = arrays["edge_attr"], bool(raw.edge_columns)
            rows = torch.ones(len(values), dtype=torch.bool)
            values, columns = fit_features(
                "edge_attr", values, raw.edge_columns, rows, scales, notes
            )
            of_edges["edge_attr"] = values
        elif "edge_attr" in arrays and trained is not None:
            of_edges["edge_attr"] = conform_features(
                "edge_attr", arrays["edge_attr"], trained.edge_columns, self.on_unknown, notes
            )
        graph = Graph(arrays["edge_index"], union.num_nodes, union.node_to_graph, **of_edges)
        has_other = trained is not None and graph.edge_channels != trained.num_edge_features
        if trained is not None and has_other and not self._transforms:
            raise DataError(
                f"the model needs {trained.num_edge_features} features of each edge, and this "
                f"graph has {graph.edge_channels}."
            )
        return graph, columns

    def _schema(
        self,
        batch: NodeBatch,
        targets: Targets,
        raw: RawGraphs,
        columns: tuple[Column, ...],
        edge_columns: tuple[Column, ...],
    ) -> Schema:
        """The schema of data to train on."""
        count, task = num_outputs_of(batch.y), task_of(batch.y)
        scalings = []
        if self.scale_target and task != "regression":
            raise DataError(
                f"scale_target is for numbers to predict, and these are {task} targets."
            )
        if self.scale_target:
            known = batch.y[batch.train_mask].view(-1, count)
            scalings = [Scaling.fit(column) for column in known.T]
        of_schema = dict(raw.of_schema)
        if batch.graph.edge_weight is not None:
            of_schema.setdefault("edge_weight", "edge_weight")
        return Schema(
            batch.x.shape[1],
            task,
            tuple(targets.names or map(str, range(count))),
            batch.per_graph,
            columns,
            targets_scaling=tuple(scalings),
            train_counts=class_counts(batch.y, batch.train_mask),
            train_rows=int(batch.train_mask.sum()),
            edge_columns=edge_columns,
            num_edge_features=batch.graph.edge_channels,
            **of_schema,
        )


class GraphSource(CheckedGraphs):
    """A graph, or several, from Python: anything that holds one.

    A ``Data`` of PyTorch Geometric, a list, ``Batch``, ``DataLoader`` or data set of them, a dict
    of arrays, or the path of an ``.npz`` or ``.pt`` file. Targets are one for each node or one for
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
        if rows.numel() == 0:  # an empty list of Python holds floats
            continue
        if rows.is_floating_point() or rows.dtype == torch.bool:
            raise DataError(
                f"{name} of the split has numbers of rows, or a mask of shape ({count},), not "
                f"{rows.dtype} of shape {tuple(rows.shape)}."
            )
        # A negative number would count from the end.
        outside = rows[(rows < 0) | (rows >= count)]
        if len(outside):
            raise DataError(f"{name} has row {int(outside[0])}, and rows are 0 to {count - 1}.")
        mask[rows.long()] = True
    return masks[0], masks[1], masks[2]
