"""The one door for graphs: whatever brings one becomes the same record, under the same checks."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from gnn_depth.builder import build
from gnn_depth.data.base import GraphDataModule, KeptNodes, NodeBatch, copy_unread
from gnn_depth.data.checks import (
    SPLITS,
    DataError,
    check_finite,
    check_fractions,
    class_counts,
    class_notes,
    num_outputs_of,
    refuse_one_value,
    task_of,
)
from gnn_depth.data.containers import Arrays, graphs_in
from gnn_depth.data.draws import fraction_split
from gnn_depth.data.drift import out_of_range
from gnn_depth.data.features import one_column_of_integers, one_hot_as_trained, read_features
from gnn_depth.data.graph_sets import GraphSet
from gnn_depth.data.inspection import Inspection
from gnn_depth.data.joined import Joined, StandIn, side_by_side
from gnn_depth.data.made_features import MakeFeatures, make_features
from gnn_depth.data.masks import complete_masks, given_masks, split_masks
from gnn_depth.data.node_order import NodeOrder
from gnn_depth.data.repeated_edges import count_repeated
from gnn_depth.data.scaling import (
    METHODS,
    PerColumn,
    below_zero,
    check_unnamed,
    fit_columns,
    flags_in,
    has_unit_rows,
    scalable,
    scaled_features,
    scaled_in,
    words_of_columns,
)
from gnn_depth.data.schema import Column, Method, Scaling, Schema, Unknown, features_of
from gnn_depth.data.targets import Targets, as_trained, no_targets, read_targets
from gnn_depth.data.transforms import Transforms
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Finite, Natural, Probability, Range, in_range
from gnn_depth.registry import keep_arguments

MOST_SPANS, MOST_NUMBERS = 100, 5_000_000  # columns without names whose range is remembered
ValShare = Annotated[float, Range(0, 1, above=True, below=True)]


@dataclass(eq=False)
class Given:
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


class GraphSource(GraphSet):
    """A graph, or several, from Python: anything that holds one.

    A ``Data`` of PyTorch Geometric, a list, ``Batch``, ``DataLoader`` or data set of them, a dict
    of arrays, a graph of networkx, or the path of an ``.npz`` or ``.pt`` file. Targets are one for
    each node or one for each graph; the task follows from their type and shape. What is incomplete
    is refused, or told in :attr:`notes`: see docs/data_promises.md.

    Args:
        data: The graph or graphs.
        split: Numbers of the nodes or graphs under ``train``, ``val`` and ``test``, or masks of
            them. By default the masks of the data, or a random split if it has none.
        mask_column: Which split to use, where the masks of the data have several columns.
        train_fraction: Fraction to train on, where neither masks nor a split are given.
        val_fraction: Fraction to validate on; the rest is the test set.
        val_share: Part of the training rows to validate on, where the data has train_mask and
            test_mask only.
        missing_label: A value of y that marks rows without a target. By default -1 beside classes
            0, 1, ..., and NaN beside numbers.
        batch_size: Graphs in a training batch, where graphs have targets; None for all.
        seed: Determines a random split, and the batches.
        edge_features: Read ``edge_attr`` where the graphs have it; false leaves it out, for layers
            that cannot read it.
        standardize: How features are scaled: ``none``, ``standard``, ``robust`` or ``log1p`` (see
            ``gnn_depth.data.schema.Scaling``), fitted on the training rows; or a word for
            each column, ``*`` for the rest.
        edge_standardize: The same for features of edges, fitted on the edges from or to training
            nodes.
        scale_target: The same for numbers to predict; metrics and predictions stay in the units of
            the data.
        make_features: Features to make from the edges, beside those of the data: ``constant``,
            ``degree``, ``identity``, ``random_walk`` or ``laplacian``; see
            ``gnn_depth.data.made_features``.
        transforms: As in every data set.
        node_order: Order of the nodes in memory while a model is trained and evaluated; predictions
            keep that of the data. ``rcm`` (reverse Cuthill-McKee) puts neighbours close together,
            ``given`` leaves the nodes as they are, and ``auto`` is ``rcm`` for large graphs that
            gain by it.

    Raises:
        ValueError: A number is out of its range, or there is no such argument.
    """

    #: The arguments that were given, by name.
    arguments: Mapping[str, Any]

    @keep_arguments
    @in_range
    def __init__(
        self,
        data: Any,
        split: Mapping[str, Any] | None = None,
        mask_column: Natural = 0,
        train_fraction: Probability = 0.6,
        val_fraction: Probability = 0.2,
        batch_size: Count | None = None,
        seed: Natural = 0,
        edge_features: bool = True,
        val_share: ValShare | None = None,
        missing_label: Finite | str | None = None,
        standardize: PerColumn = "none",
        edge_standardize: PerColumn = "none",
        scale_target: Method = "none",
        make_features: MakeFeatures = "none",
        transforms: Transforms = (),
        node_order: NodeOrder = "auto",
    ) -> None:
        super().__init__(batch_size, seed, transforms=transforms)
        check_fractions(train_fraction, val_fraction)
        # Kept as it is, and read on first use: a run that ends at a wrong option has read nothing.
        self.data = data
        if isinstance(data, str | os.PathLike):
            self.origin = str(data)
        self.split = split
        self.mask_column = mask_column
        self.train_fraction = train_fraction
        self.val_fraction = val_fraction
        self.edge_features = edge_features
        self.val_share = val_share
        self.missing_label = missing_label
        self.make_features = make_features
        self.node_order = node_order
        self._labelled: Tensor | None = None
        self.standardize = standardize
        self.edge_standardize = edge_standardize
        self.scale_target = scale_target
        self.fill = "error"
        self.reads_targets = True
        self._record: GraphRecord | None = None
        self._overruled: list[str] = []  # options that a model's schema decides in another way

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

    @property
    def edge_fill(self) -> str:
        """How missing numbers of edges are filled, in the words of ``fill``."""
        return self.fill

    def given(self) -> Given:
        """Read the arrays of each graph."""
        notes: list[str] = []
        with self.naming_origin():
            graphs = graphs_in(self.data, notes)
        ids = graphs[0].get("node_ids") if len(graphs) == 1 else None
        return Given(graphs, node_ids=ids, notes=notes)

    @property
    def record(self) -> GraphRecord:
        """The graph with its names, ids and notes; read on first use."""
        _ = self.loaded
        assert self._record is not None
        return self._record

    @property
    def adds_features(self) -> bool:
        """True if features are made, or may be changed by transforms, after columns are read."""
        return bool(self._transforms) or self.make_features != "none"

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

    def read_as(
        self, schema: Schema, unknown: Unknown | None = None, targets: bool = True
    ) -> GraphDataModule:
        wanted = schema, targets, unknown or self.on_unknown
        if wanted == (self.adopted, self.reads_targets, self.on_unknown):
            return self  # which need not be read again
        other: Any = copy_unread(self)
        other.adopted, other.reads_targets, other.on_unknown = wanted
        other._overruled = self.overruled(schema)
        # What makes features of a graph belongs to the model: new data gets the same.
        other.make_features = schema.make_features or "none"
        other.transforms = list(schema.transforms)
        other._transforms = build("transform", other.transforms)
        if schema.transforms_seed is not None:
            # Another seed would draw another graph than the one that the model knows.
            other.seed = schema.transforms_seed
        for name in ("make_features", "transforms"):
            own, trained = getattr(self, name), getattr(other, name)
            if own not in ("none", [], trained):
                raise DataError(
                    f"the model was trained with {name} {trained or 'none'}, and this data has "
                    f"{own}: leave {name} out, it is part of the model."
                )
        return other

    def overruled(self, schema: Schema) -> list[str]:
        """The options, as they were given, that a model's schema decides in another way."""
        of_target = "none"
        for scaling in schema.targets_scaling:  # all by one method
            of_target = scaling.method
        trained = {
            "standardize": _methods(schema.columns),
            "edge_standardize": _methods(schema.edge_columns),
            "scale_target": {"target": of_target},
        }
        found = []
        for name, methods in trained.items():
            value = self.arguments.get(name, "none")
            if value == "none":  # nobody asked for a scaling
                continue
            asked = words_of_columns(name, value, [*methods], METHODS)
            if asked != methods or not methods:
                found.append(f"{name} {value}")
        return found

    def tested_whole(self) -> GraphDataModule:
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

    def inspect(self) -> Inspection:
        """The report on this data, with proposed options."""
        found = Inspection(notes=list(self.notes))
        found.look_at(self.batch, self.schema, directed=False)
        return found

    def remarks(self, batch: NodeBatch) -> list[str]:
        assert self._record is not None
        if self.adopted is not None:  # nothing is learned of it
            return self._record.notes
        names = self._record.class_names
        return [*self._record.notes, *class_notes(batch.y, batch.masks, names)]

    def load(self) -> NodeBatch:
        given = self.given()
        with self.naming_origin():
            self._record = self._checked(given)
        return self._record.batch

    def _checked(self, given: Given) -> GraphRecord:
        notes, trained = given.notes, self.adopted
        if self._overruled:
            verb = "is" if len(self._overruled) == 1 else "are"
            notes.append(
                f"{' and '.join(self._overruled)} {verb} not used: the schema of the model decides."
            )
        # Predictions need no targets, and those of new data may be missing or of another kind.
        stand_in: StandIn | None = None
        if trained is not None and not self.reads_targets:
            stand_in = "graph" if trained.per_graph else "node"
        joined = side_by_side(given.graphs, self.edge_features, notes, stand_in)
        nodes = joined.num_nodes
        arrays = self.merged(joined.arrays, nodes, notes)
        targets = self._targets(joined, given)
        notes += targets.notes
        self._labelled = targets.labelled
        masks = [targets.labelled] * 3
        if self.reads_targets:
            split = self._masks(joined, given.parts, targets.labelled, notes)
            masks = [mask & targets.labelled for mask in split]
            for part, mask, labelled in zip(SPLITS, split, masks, strict=True):
                if mask.any() and not labelled.any():
                    notes.append(f"none of the rows of {part} has a target: {part} is empty.")
        # The split comes first, because features are scaled by those of the training rows.
        rows = masks[0]
        if joined.per_graph and joined.node_to_graph is not None:
            rows = rows[joined.node_to_graph]  # the nodes of the training graphs
        if "x" in arrays and arrays["x"].shape[1:] != (0,):
            x, columns, flags = self._features(arrays["x"], given, rows)
        elif self.make_features != "none":
            x, columns, flags = torch.empty(nodes, 0), (), ()
        else:
            x, columns, flags = torch.ones(nodes, 1), (), ()
            notes.append(
                "there is no x: every node gets the feature 1. make_features makes others."
            )
        of_edges: dict[str, Any] = {}
        if "edge_weight" in arrays:
            of_edges["edge_weight"] = self._edge_weights(arrays["edge_weight"], notes)
        edge_columns: tuple[Column, ...] = ()
        # For a trained model this option is named among those that the schema decides.
        if "edge_attr" not in arrays and self.edge_standardize != "none" and trained is None:
            raise DataError(
                "edge_standardize is given, and the edges have no features: edge_features names "
                "the columns of a table that are."
            )
        if "edge_attr" in arrays:
            of_edges["edge_attr"], edge_columns = self._edge_features(arrays, given, rows)
        edge_index, of_edges = self.edges(arrays["edge_index"], of_edges, nodes)
        if self.make_features != "none":  # of the edges as they are used
            made = make_features(self.make_features, edge_index, nodes, joined.node_to_graph)
            x = torch.cat([x, made], 1)
        graph = Graph(edge_index, nodes, joined.node_to_graph, **of_edges)
        batch = NodeBatch(x, targets.y, graph, *masks, per_graph=joined.per_graph)
        if trained is not None:
            repeats = count_repeated(graph) if trained.repeated_ends is False else 0
            if repeats:
                notes.append(
                    f"{repeats:,} of {graph.num_edges:,} edges have the ends of an earlier one, "
                    "and none had in the training: each of them counts."
                )
            # Transforms may still change them.
            if not self._transforms and graph.edge_channels != trained.num_edge_features:
                raise DataError(
                    f"the model needs {trained.num_edge_features} features of each edge, and this "
                    f"graph has {graph.edge_channels}."
                )
            return GraphRecord(batch, targets.names, given.node_ids, notes, trained)
        # Before transforms, because a model's data is checked before its transforms too.
        schema = self._own_schema(batch, targets, columns, flags, given)
        schema = replace(schema, edge_columns=edge_columns)
        return GraphRecord(batch, targets.names, given.node_ids, notes, schema)

    def _edge_weights(self, values: Tensor, notes: list[str]) -> Tensor:
        """The weights of the edges, shape (edges,) or with several columns."""
        trained = self.adopted
        # Integers too are sizes here: as features they would become one-hot.
        weights = read_features("edge_weight", values.double(), notes, to_train=trained is None)
        if trained is not None and trained.edge_weight is not None:
            span, rows = trained.edge_weight_span, trained.edge_weight_rows
            notes += out_of_range([Column(trained.edge_weight, span=span, rows=rows)], weights)
        if weights.shape[1] == 1:
            return weights[:, 0]
        return weights

    @property
    def marked_missing(self) -> float | str | None:
        """The target that marks rows without one; by default that of the model's training."""
        if self.missing_label is None and self.adopted is not None:
            return self.adopted.missing_label
        return self.missing_label

    def _targets(self, joined: Joined, given: Given) -> Targets:
        """The targets, or stand-ins for those that are not read."""
        trained = self.adopted
        if trained is not None and not self.reads_targets:
            return no_targets(len(joined.arrays["y"]), trained)
        rows = "graphs" if joined.per_graph else "nodes"
        mark = self.marked_missing
        # A mark of the training need not occur in new data; one that is given here should.
        is_own = self.missing_label is not None
        found = read_targets(joined.arrays["y"], rows, mark, given.target_names, must_occur=is_own)
        if trained is None:
            refuse_one_value(found.y[found.labelled], found.names)
            return found
        return as_trained(found, trained, self.on_unknown)

    def _features(
        self, values: Tensor, given: Given, train: Tensor
    ) -> tuple[Tensor, tuple[Column, ...], tuple[int, ...]]:
        """The features as a model gets them, their columns, and which of them are flags."""
        trained, columns = self.adopted, tuple(given.columns)
        integers = one_column_of_integers(values)
        if trained is not None:
            if not columns:
                of_category = trained.columns and trained.columns[0].kind == "category"
                if integers is not None and of_category:
                    values = one_hot_as_trained(values, trained.columns[0], self.on_unknown)
                values = values.reshape(len(values), -1)
                if not self.adds_features:  # else the model's width is not that of x
                    check_unnamed(values, trained, self.on_unknown)
            given.notes += out_of_range(trained.columns, values)
            values = scaled_features(trained.columns, values)
            x = read_features("x", values, given.notes, to_train=False)
            return x, trained.columns, trained.flags
        if not columns and integers is not None:
            columns = (Column("x", "category", integers),)
        elif not columns and (self.standardize != "none" or _have_spans(values)):
            values = values.reshape(len(values), -1)
            columns = _by_position(values)
        if integers is None and columns:
            # An infinite number would make the scaled ones of its column NaN. NaN may be erased
            # later, as may be what no row to train on has.
            known = values.double().nan_to_num(0.0, torch.inf, -torch.inf)
            check_finite(known.masked_fill(~train[:, None], 0.0))
            columns, values = self._fitted("standardize", columns, values, train, given.notes)
        named = features_of(columns) if given.columns or self.standardize != "none" else ()
        x = read_features("x", values, given.notes, named, scaled=scaled_in(columns))
        flags = () if given.columns else flags_in(x)
        return x, columns, flags

    def _fitted(
        self,
        option: str,
        columns: tuple[Column, ...],
        values: Tensor,
        rows: Tensor,
        notes: list[str],
    ) -> tuple[tuple[Column, ...], Tensor]:
        """Columns with scalings and fills that fit some rows, and their values after these."""
        methods = words_of_columns(option, getattr(self, option), scalable(columns), METHODS)
        notes += below_zero(columns, values, methods)
        fill = self.fill if option == "standardize" else self.edge_fill
        columns = fit_columns(columns, values, rows, methods, fill)
        return columns, scaled_features(columns, values)

    def _edge_features(
        self, arrays: Mapping[str, Tensor], given: Given, train: Tensor
    ) -> tuple[Tensor, tuple[Column, ...]]:
        """The features of the edges as a model gets them, and their columns."""
        values = arrays["edge_attr"]
        is_new = self.adopted is None
        if self.adopted is not None:
            columns = self.adopted.edge_columns
            if values.dim() == 1 and columns:
                values = values[:, None]
            # Another number of features is refused once the graph is there.
            if sum(column.width for column in columns) == values.shape[-1]:
                given.notes += out_of_range(columns, values)
                values = scaled_features(columns, values)
        else:
            columns = tuple(given.edge_columns)
            if not columns and self.edge_standardize != "none":
                values = values.reshape(len(values), -1).double()
                columns = _by_position(values)
            if columns:
                # Only what a model sees in training may decide how it is scaled.
                source, target = arrays["edge_index"]
                near = train[source] | train[target]
                columns, values = self._fitted(
                    "edge_standardize", columns, values, near, given.notes
                )
        named, scaled = features_of(columns), scaled_in(columns)
        return read_features("edge_attr", values, given.notes, named, is_new, scaled), columns

    def _own_schema(
        self,
        batch: NodeBatch,
        targets: Targets,
        columns: tuple[Column, ...],
        flags: tuple[int, ...],
        given: Given,
    ) -> Schema:
        """The schema of data that is read to train on."""
        of_schema = dict(given.of_schema)
        if batch.graph.edge_weight is not None:  # of a file without columns
            of_schema["edge_weight"] = of_schema.get("edge_weight") or "edge_weight"
            weight = batch.graph.edge_weight
            if weight.numel() and weight.dim() == 1:
                of_schema["edge_weight_span"] = weight.min().item(), weight.max().item()
                of_schema["edge_weight_rows"] = weight.numel()
        if self.make_features != "none":
            of_schema["make_features"] = self.make_features
        # Arrays may have repeated edges for no reason, so nothing is said of those of new data.
        repeated_ends = count_repeated(batch.graph) > 0 if given.columns else None
        count = num_outputs_of(batch.y)
        names = targets.names or [str(number) for number in range(count)]
        scalings = []
        lowest: tuple[float, ...] = ()
        task = task_of(batch.y)
        if task == "regression":
            known = batch.y[batch.train_mask].view(-1, count)
            if len(known):  # else it is refused later
                lowest = tuple(known.amin(0).tolist())
            if self.scale_target != "none":
                scalings = [Scaling.fit(self.scale_target, column) for column in known.T]
        elif self.scale_target != "none":
            raise DataError(
                f"scale_target is for numbers to predict, and these are {task} targets."
            )
        return Schema(
            batch.x.shape[1],
            task,
            tuple(names),
            batch.per_graph,
            columns,
            bool(given.columns) or "id" in given.of_schema,  # of tables
            flags,
            # Of features with names nothing has to be guessed by what they look like.
            unit_rows=not given.columns and has_unit_rows(batch.x),
            targets_scaling=tuple(scalings),
            lowest_targets=lowest,
            train_counts=class_counts(batch.y, batch.train_mask),
            train_rows=int(batch.train_mask.sum()),
            missing_label=self.missing_label,
            num_edge_features=batch.graph.edge_channels,
            repeated_ends=repeated_ends,
            **of_schema,
        )

    def merged(
        self, arrays: Mapping[str, Any], num_nodes: int, notes: list[str]
    ) -> Mapping[str, Any]:
        """The arrays, with one edge for several rows where that is asked for."""
        return arrays

    def edges(
        self, edge_index: Tensor, of_edges: dict[str, Any], num_nodes: int
    ) -> tuple[Tensor, dict[str, Any]]:
        """The edges with their weights and features, as they are used."""
        return edge_index, of_edges

    def _masks(
        self,
        joined: Joined,
        parts: Mapping[str, int] | None,
        labelled: Tensor,
        notes: list[str],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The rows to train, validate and test on, with or without a target."""
        rows = len(labelled)
        given = given_masks(joined.arrays, rows, self.mask_column, notes)
        if self.split is not None:
            if given:
                notes.append("the masks of the data are not used, because a split is given.")
            return split_masks(rows, self.split)
        if parts is not None:
            # The graphs of a part follow each other, and each has as many rows as it has targets.
            split, first = {}, 0
            for name, count in parts.items():
                last = first + count
                split[name] = torch.arange(sum(joined.rows[:first]), sum(joined.rows[:last]))
                first = last
            return split_masks(rows, split)
        if given or self.val_share is not None:
            return complete_masks(given, self.val_share, self.seed, notes)
        if self.adopted is None:  # else a command says which rows it measures
            notes.append(f"there is no split: it is drawn at random with seed {self.seed}.")
        self.split_is_random = True
        fractions = self.train_fraction, self.val_fraction
        return fraction_split(rows, self.seed, *fractions, labelled)


def _by_position(values: Tensor) -> tuple[Column, ...]:
    """A column for each feature without a name, called by its position."""
    return tuple(Column(str(position)) for position in range(values.shape[1]))


def _have_spans(x: Tensor) -> bool:
    """True for features without names whose ranges are remembered, to tell other units by: few
    numbers, and not words of texts, which other checks know."""
    if x.dim() != 2 or not x.is_floating_point() or x.layout != torch.strided or not len(x):
        return False
    if x.shape[1] > MOST_SPANS or x.numel() > MOST_NUMBERS:
        return False
    return len(flags_in(x)) < x.shape[1] and not has_unit_rows(x)


def _methods(columns: Sequence[Column]) -> dict[str, str]:
    """The scaling of each column that could have one."""
    found: dict[str, str] = dict.fromkeys(scalable(columns), "none")
    for column in columns:
        if column.scaling is not None:
            found[column.name] = column.scaling.method
    return found
