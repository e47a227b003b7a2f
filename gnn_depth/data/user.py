"""A graph from the user's own files."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import pandas as pd
import torch
from torch import Tensor

from gnn_depth.data.base import GraphDataModule, NodeBatch, normalize_rows
from gnn_depth.data.checks import DataError, refuse_pointer
from gnn_depth.data.columns import (
    LARGE,
    ColumnFacts,
    EdgeColumns,
    NodeColumns,
    Proposal,
    facts_of,
)
from gnn_depth.data.containers import graphs_in
from gnn_depth.data.default_roles import ends_by_value, refuse_misplaced, refuse_other_ends
from gnn_depth.data.features import columns_differ
from gnn_depth.data.folders import read_dgl, read_ogb
from gnn_depth.data.graph_files import MATLAB, NETWORKX, read_mat, read_networkx
from gnn_depth.data.graph_tables import EDGES_ONLY, read_edges, tables_of
from gnn_depth.data.inspection import Inspection
from gnn_depth.data.made_features import MakeFeatures
from gnn_depth.data.node_order import NodeOrder
from gnn_depth.data.notation import Notation
from gnn_depth.data.repeated_edges import RepeatedEdges, merge_repeated, once_each_way
from gnn_depth.data.scaling import PerColumn
from gnn_depth.data.schema import Column, Method, Schema, Unknown
from gnn_depth.data.source import Given, GraphSource, ValShare
from gnn_depth.data.table_files import SUFFIXES as TABLES
from gnn_depth.data.table_files import SeveralTables, TableFile
from gnn_depth.data.table_report import look_at_nodes, roles_of_edges, roles_of_nodes
from gnn_depth.data.tensors import as_tensor
from gnn_depth.data.transforms import Transforms
from gnn_depth.data.user_arrays import NPZ_HINT
from gnn_depth.data.user_arrays import SUFFIXES as ARRAYS
from gnn_depth.data.user_tables import TargetModel, read_tables
from gnn_depth.ranges import FilePath, Finite, Natural, Probability, Range
from gnn_depth.registry import keep_arguments, register, unknown

Separator = Literal["comma", "semicolon", "tab", "bar", "spaces"]
#: What stands for missing numbers.
Fill: TypeAlias = Literal["error", "mean", "median", "zero"]
#: The options that only tables have; those that arrays have too stay out.
OF_TABLES = (
    "nodes",
    "label",
    "id",
    "split",
    "features",
    "categories",
    "targets",
    "ends",
    "drop",
    "dates",
)


@register("data", "UserGraph")
class UserGraph(GraphSource):
    """Your own graph, with class labels or regression targets of the nodes: two tables, a file of
    NetworkX, MATLAB or arrays, or a folder of OGB or DGL.

    Tables are ``.csv``, ``.tsv``, ``.txt`` with spaces (all also ``.gz``) or ``.parquet``. The
    first line of a text table has the names of the columns, unless they are given; lines before it
    that begin with # or % are comments. ``path`` has one edge per row, ``nodes`` one node per row.
    Ids are integers if all of them are plain integers; otherwise they are text as written, so that
    ``007`` differs from ``7``. A node with an empty label or target is left out of training and
    evaluation, but gets a prediction. In Python a table may also be a ``DataFrame`` of pandas: it
    is read as the CSV file that it would be written as, an index with a name included.

    Args:
        path: A table of edges, also ``.edgelist`` or ``.mtx``; a graph of NetworkX with attributes
            of its nodes (``.gml``, ``.graphml``, node-link ``.json``), which label, features and
            so on name; a ``.mat`` with an adjacency matrix, features and labels; a folder of OGB's
            raw files, or of a CSV data set of DGL; an ``.npz`` of gnn-benchmark; or an ``.npz``
            with ``x`` (nodes, features), ``y`` (nodes,), ``edge_index`` (2, edges) or (edges, 2),
            read as (2, edges) if both fit, and optionally ``edge_weight``, ``edge_attr``,
            ``train_mask``, ``val_mask`` and ``test_mask``; or, saved by ``torch.save`` as ``.pt``
            or ``.pth``, a PyTorch Geometric ``Data``, what it saves of a data set, or a dict of
            tensors with the same names. Floats in ``y`` are numbers to predict, NaN where there
            is none.
        nodes: The table of nodes, if path is a table of edges; or three, under ``train``, ``val``
            and ``test``. The options from here to ends are for tables.
        label: Column of the classes, text or numbers.
        id: Column of the ids that the table of edges uses; the first one by default.
        split: Column with train, val or test; empty for a node in none of these sets. By default
            the columns train_mask, val_mask and test_mask, or one called split, if there are any.
        features: Columns of numbers; by default all columns without another role.
        categories: Columns of text, encoded one-hot.
        targets: Columns of numbers to predict, instead of a label.
        ends: The source column and the target column of the edges; the first two by default.
        edge_weight: Column, or array in the file, with non-negative weights of the edges. By
            default the array ``edge_weight`` of a file that has it; an empty text leaves it out.
        edge_features: Columns, or arrays in the file, with features of the edges: numbers, or text
            of few values, which becomes features of 0 and 1. By default the array ``edge_attr`` of
            a file that has it; an empty list leaves it out.
        undirected: Use every edge in both directions, each direction once.
        repeated_edges: What becomes of rows with the same ends, such as several payments between
            two parties: one edge with the ``sum`` or the ``mean`` of their weights and features.
            Undirected, rows in either direction have the same ends. With ``none`` each row is an
            edge; undirected, rows that agree are one edge, and others are refused.
        normalize_features: Divide each node's features by the sum of their absolute values.
        train_fraction: Fraction of the nodes to train on, above 0, if the files have no split.
        val_fraction: Fraction of the nodes to validate on, if the files have no split; the rest is
            the test set.
        seed: Determines this split.
        val_share: Part of the training nodes to validate on, where the files have train_mask and
            test_mask only.
        missing_label: A label or target that marks nodes without one, such as unknown or -999. By
            default -1 beside classes 0, 1, ..., NaN beside numbers, and empty text.
        mask_column: Which split to use, where the masks of a file have several columns.
        drop: Columns of the table of nodes that are not read.
        dates: How columns of dates become features: ``days`` since the first one, or ``cyclic``,
            the day of the year and of the week as points on circles; or a word for each column.
        fill: What stands for missing numbers of nodes and edges: the ``mean`` or ``median`` of the
            training, or ``zero``; a missing category is none. ``error`` refuses them, as do edges
            that ``repeated_edges`` adds up.
        standardize: How columns of numbers are scaled: ``none``; ``standard``, to mean 0 and
            deviation 1; ``robust``, by median and quartiles; ``log1p``, standard of the logarithm;
            fitted on the training nodes. Or a word for each column, with ``*`` for the rest:
            ``{age: robust, "*": standard}``.
        edge_standardize: The same for the features of the edges, fitted on the edges from or to
            training nodes.
        scale_target: The same for numbers to predict. Metrics and predictions stay in the units of
            the table.
        unknown: For a trained model: refuse columns and categories that it misses or does not know
            (``error``), or ``ignore`` them.
        node_columns: Names of the columns of nodes, for a table without a first line of names;
            ``word*3`` stands for word_0, word_1 and word_2.
        edge_columns: The same of the table of edges.
        separator: What separates the values of text tables; by default what the end of the file's
            name says, or what the first line shows.
        decimal: What begins the decimals of numbers: a point, or a comma as in 1.234,5.
        date_format: How dates are written that are not year-month-day: ``'%d.%m.%Y'`` with the day
            first, ``'%m/%d/%Y'`` with the month first; or several such formats.
        make_features: Features to make from the edges, beside those of the file: ``constant``,
            ``degree``, ``identity``, ``random_walk`` or ``laplacian``; see
            ``gnn_depth.data.made_features``.
        transforms: Transforms of PyTorch Geometric that are applied to the graph after it is read:
            names, or names with options, such as ``{name: AddRandomWalkPE, walk_length: 8}``.
        node_order: Order of the nodes in memory while a model is trained and evaluated; predictions
            keep that of the data. ``rcm`` (reverse Cuthill-McKee) puts neighbours close together,
            ``given`` leaves the nodes as they are, and ``auto`` is ``rcm`` for large graphs that
            gain by it.

    Raises:
        ValueError: A file does not exist, an option does not fit its type or another option, or the
            fractions add up to more than one.
    """

    @keep_arguments
    def __init__(
        self,
        path: FilePath,
        nodes: FilePath | dict[str, FilePath] | None = None,
        label: str | None = None,
        id: str | None = None,
        split: str | None = None,
        features: list[str] | None = None,
        categories: list[str] = [],  # noqa: B006  (read only)
        targets: list[str] = [],  # noqa: B006
        ends: list[str] = [],  # noqa: B006
        edge_weight: str | None = None,
        edge_features: list[str] | None = None,
        undirected: bool = False,
        repeated_edges: RepeatedEdges = "none",
        normalize_features: bool = False,
        train_fraction: Annotated[float, Range(0, 1, above=True)] = 0.6,
        val_fraction: Probability = 0.2,
        seed: Natural = 0,
        val_share: ValShare | None = None,
        missing_label: Finite | str | None = None,
        mask_column: Natural = 0,
        drop: list[str] = [],  # noqa: B006
        dates: PerColumn | None = None,
        fill: Fill = "error",
        standardize: PerColumn = "none",
        edge_standardize: PerColumn = "none",
        scale_target: Method = "none",
        unknown: Unknown = "error",
        node_columns: list[str] = [],  # noqa: B006
        edge_columns: list[str] = [],  # noqa: B006
        separator: Separator | None = None,
        decimal: Literal[".", ","] = ".",
        date_format: list[str] | str = [],  # noqa: B006
        make_features: MakeFeatures = "none",
        transforms: Transforms = (),
        node_order: NodeOrder = "auto",
    ) -> None:
        self._frames: dict[Path, pd.DataFrame] = {}
        # What is read later, by inspect too, is what was given now.
        path, nodes = _kept(path), _kept(nodes)
        self._files = path, nodes
        path, nodes = self._named("edges", path), self._named("nodes", nodes)
        features, categories = _listed(features), _listed(categories)
        targets, drop, ends = _listed(targets), _listed(drop), _listed(ends)
        node_columns, edge_columns = _listed(node_columns), _listed(edge_columns)
        edge_features, date_format = _listed(edge_features), _listed(date_format)
        given = dict(locals())  # before other names are among them
        self._written = {}  # the options that are not the defaults, for a command that has them
        for name, option in inspect.signature(UserGraph).parameters.items():
            if name not in ("path", "nodes") and given[name] != option.default:
                self._written[name] = given[name]
        self.path = Path(path)
        if self.path not in self._frames:
            self.path = _existing("graph file", path, folders=True)
        _check_options(path, {name: given[name] for name in OF_TABLES})
        # A column of a split takes the place of the option split, which numbers rows.
        super().__init__(
            self.path,
            None,
            mask_column,
            train_fraction,
            val_fraction,
            seed=seed,
            edge_features=edge_features != [],
            val_share=val_share,
            missing_label=missing_label,
            standardize=standardize,
            edge_standardize=edge_standardize,
            scale_target=scale_target,
            make_features=make_features,
            node_order=node_order,
            transforms=transforms,
        )
        self.on_unknown = unknown
        self.fill = fill
        self.node_files: dict[str, Path] = {}
        for name, file in _named_files(nodes).items():
            self.node_files[name] = Path(file)
            if Path(file) not in self._frames:
                self.node_files[name] = _existing(f"table of nodes {name}".rstrip(), file)
        self.nodes = next(iter(self.node_files.values()), None)
        self.origin = str(self.nodes or self.path)
        self.columns = NodeColumns(
            label, id, split, features, categories, targets, drop, dates or "", fill != "error"
        )
        self.undirected = undirected
        self.repeated_edges = repeated_edges
        self.of_edges = EdgeColumns(ends, edge_weight, edge_features, self.edge_fill != "error")
        self.normalize_features = normalize_features
        self.node_columns, self.edge_columns = node_columns, edge_columns
        self.separator = separator
        self.notation = Notation(decimal, tuple(date_format))

    def _named(self, role: str, given: Any) -> Any:
        """A file as it was given; a table of pandas is kept under a name for messages."""
        if isinstance(given, Mapping):
            return {name: self._named(f"{role} {name}", file) for name, file in given.items()}
        if not isinstance(given, pd.DataFrame):
            return given
        name = f"{role} (DataFrame).csv"
        self._frames[Path(name)] = given
        return name

    @property
    def edge_fill(self) -> str:
        # A sum of which a part is missing is not known, and stands for no typical edge.
        return self.fill if self.repeated_edges == "none" else "error"

    def given(self) -> Given:
        of_schema: dict[str, Any] = {
            "undirected": self.undirected,
            "normalize_features": self.normalize_features,
        }
        if self.repeated_edges != "none":
            of_schema["repeated_edges"] = self.repeated_edges
        with self.naming_origin():
            tables = self.tables()
            if tables is None:
                notes: list[str] = []
                graphs = self._arrays(notes)
                renamed = [_rename_edges(arrays, self.of_edges) for arrays in graphs]
                return Given(renamed, of_schema=of_schema, notes=notes)
        trained = None
        if self.adopted is not None:
            trained = TargetModel(self.adopted, self.reads_targets, self.on_unknown)
        edges, nodes, columns = tables
        scales = self.standardize != "none"
        try:
            found = read_tables(
                edges, nodes, columns, self.of_edges, self.marked_missing, trained, scales
            )
        except DataError:
            # Tables in the wrong place make one of many errors, none of which would say so.
            if self.adopted is not None:
                columns = replace(columns, id=columns.id or self.adopted.id)
            refuse_misplaced(edges, nodes, columns, self.of_edges)
            if self.adopted is None:
                refuse_other_ends(edges, nodes, columns, self.of_edges)
            raise
        return replace(found, of_schema={**found.of_schema, **of_schema})

    def tables(self) -> tuple[TableFile, TableFile, NodeColumns] | None:
        """The tables of edges and of nodes, with the roles of its columns; None if the file holds
        arrays."""
        path, columns = self.path, self.columns
        if path.is_dir():
            found = read_dgl(path)
            if found is None:
                return None
            if not columns.label and not columns.targets:
                columns = replace(columns, label="label")  # as DGL's format has it
            return found[1], found[0], columns
        if self.node_files:  # whatever brings the edges
            return self._edges(), self._nodes(), columns
        # Attributes that an option names are columns; else those called x and y are arrays.
        is_for_model = self.adopted is not None and self.adopted.named
        if _ends_in(path, NETWORKX) and (columns.label or columns.targets or is_for_model):
            nodes, edges = tables_of(read_networkx(path), path)
            return edges, nodes, columns
        return None

    def _edges(self) -> TableFile:
        if _ends_in(self.path, (*NETWORKX, *EDGES_ONLY)):
            return read_edges(self.path)
        return self._table(self.path, self.edge_columns)

    def _table(self, path: Path, names: Sequence[str]) -> TableFile:
        return TableFile(path, names, self.separator, self.notation, self._frames.get(path))

    def _nodes(self) -> TableFile:
        tables = {}
        for name, file in self.node_files.items():
            tables[name] = self._table(file, self.node_columns)
        if "" in tables:
            return tables[""]
        return SeveralTables(tables)

    def _arrays(self, notes: list[str]) -> Sequence[Mapping[str, Any]]:
        """The arrays of each graph in a file or folder without tables."""
        if self.path.is_dir():
            graphs = read_ogb(self.path, notes)
            if graphs is None:
                raise DataError(
                    "it is a folder, and none of raw files of OGB (edge.csv.gz, node-label.csv.gz, "
                    "num-node-list.csv.gz, ...) and a data set of DGL (meta.yaml)."
                )
            return graphs
        if _ends_in(self.path, MATLAB):
            roles = self.columns
            ends = self.of_edges.ends
            return [read_mat(self.path, roles.label, roles.features, roles.targets, ends, notes)]
        return graphs_in(self.path, notes)

    def read_as(
        self, schema: Schema, unknown: Unknown | None = None, targets: bool = True
    ) -> GraphDataModule:
        other: Any = super().read_as(schema, unknown, targets)
        if other is self:
            return self
        # What is done to edges and features belongs to the model, whatever the options say.
        other.undirected = schema.undirected
        other.repeated_edges = schema.repeated_edges or "none"
        other.normalize_features = schema.normalize_features
        return other

    def overruled(self, schema: Schema) -> list[str]:
        trained = {
            "undirected": schema.undirected,
            "repeated_edges": schema.repeated_edges or "none",
            "normalize_features": schema.normalize_features,
            "fill": _fill_of(schema.columns),
        }
        found = []
        for name, value in trained.items():
            # What was not given cannot contradict the model.
            asked = self.arguments.get(name, value)
            if value is not None and asked != value:
                found.append(f"{name} {str(asked).lower()}")
        found += super().overruled(schema)
        if schema.named:
            found += self._other_columns(schema)
        return found

    def _other_columns(self, schema: Schema) -> list[str]:
        """The lists of columns, as they were given, that are not those of a model."""
        names = [column.name for column in schema.columns]
        numbers = [column.name for column in schema.columns if column.kind == "number"]
        roles = self.columns
        features, categories = list(roles.features or ()), list(roles.categories)
        found = []
        are_the_same = _covered(features, numbers) == numbers and _all_cover(features, names)
        if features and not are_the_same:
            found.append(f"features {features}")
        if not _all_cover(categories, names):
            found.append(f"categories {categories}")
        dropped = [name for name in roles.drop if name in names]
        if dropped:
            found.append(f"drop {dropped}")
        return found

    def inspect(self) -> Inspection:
        if self.nodes is None:
            found = super().inspect()
            found.files = [str(self.path)]
            return found
        edges, nodes = self._edges(), self._nodes()
        # First, because every proposal for exchanged tables would be nonsense.
        refuse_misplaced(edges, nodes, self.columns, self.of_edges)
        facts, proposal = look_at_nodes(nodes, self.columns, self.standardize != "none")
        notation = self._proposed_notation(edges, proposal)
        if notation:  # with which other columns are numbers or dates
            return UserGraph(*self._files, **self._written, **notation).inspect()
        can_fill = self.fill == "error" and self.repeated_edges == "none"
        if can_fill and _have_gaps(edges, self.of_edges):
            proposal.options["fill"] = "median"
        found = Inspection(files=[str(self.nodes), str(self.path)])
        proposed_ends = ends_by_value(edges, nodes, self.columns, self.of_edges)[:2]
        if proposed_ends:
            proposal.options["ends"] = proposed_ends
        written = {**self._written, **proposal.options}
        found.options = {f"data.{name}": value for name, value in written.items()}
        # The report is of the data as the proposed command would read it.
        complete = UserGraph(*self._files, **written)
        proposed = set(proposal.options)
        of_nodes = roles_of_nodes(nodes, facts, complete.columns, complete.standardize, proposed)
        of_edges = roles_of_edges(edges, complete.of_edges, self.edge_standardize)
        found.tables = [
            (f"{self.nodes}: {facts[0].rows:,} nodes", of_nodes),
            (f"{self.path}: edges", of_edges),
        ]
        try:
            batch = complete.batch
        except DataError as error:  # the columns are reported all the same
            found.open = [str(error)]
            return found
        found.notes = [*complete.notes]
        guessed = proposed & {"label", "targets"}
        if guessed:
            name = complete.columns.label or ", ".join(complete.columns.targets)
            found.notes.append(
                f"{name!r} is a guess of what is to be predicted: say it with --data.label COLUMN "
                "(classes) or --data.targets '[COLUMN]' (numbers), here and in fit."
            )
        found.look_at(batch, complete.schema, not self.undirected)
        if found.options.get("data.undirected") == "true" and self.repeated_edges == "none":
            _propose_one_edge(found, batch, _have_gaps(edges, self.of_edges))
        values = batch.graph.edge_attr
        are_large = values is not None and bool((values.abs() > LARGE).any())
        if (are_large or columns_differ(values)) and self.edge_standardize == "none":
            found.options["data.edge_standardize"] = "standard"
        # Columns of a table say more together: without these the model is linear up to its layers.
        found.options["model.first_activation"] = "true"
        found.options["model.last_activation"] = "true"
        found.notes.append(
            "first_activation and last_activation let columns of a node combine before and after "
            "the layers. On another graph, such as next month's, a model without them may predict "
            "better: try both."
        )
        if complete.schema.task == "regression":
            # A number to predict follows a node's own features more often than a class does; the
            # default layer counts a node as one of its neighbours (docs/howto).
            found.options["model.layer"] = "sage"
        if batch.graph.edge_channels:  # which neither sage nor the default layer reads
            found.options["model.layer"] = "gat" if batch.graph.edge_weight is None else "gin"
        for column in facts:
            is_large = column.name in complete.columns.targets and column.largest > LARGE
            if is_large and self.scale_target == "none":
                found.options["data.scale_target"] = "standard"
        return found

    def _proposed_notation(self, edges: TableFile, proposal: Proposal) -> dict[str, Any]:
        """Options on decimals and dates by which more columns of the tables can be read."""
        found = {}
        for facts in _facts_of_each(edges, self.of_edges.of_each):
            if facts.has_decimal_commas:
                found["decimal"] = ","
        for name in ("decimal", "date_format"):
            if name in proposal.options:
                found[name] = proposal.options[name]
            if name in self._written:
                found.pop(name, None)
        return found

    def load(self) -> NodeBatch:
        batch = super().load()
        if self.normalize_features:  # after scalings, so that rows sum to 1 whatever these do
            batch = replace(batch, x=normalize_rows(batch.x))
        return batch

    def edges(
        self, edge_index: Tensor, of_edges: dict[str, Any], num_nodes: int
    ) -> tuple[Tensor, dict[str, Any]]:
        """The edges as they were read, or both directions of each once.

        Raises:
            DataError: Repetitions of an edge have different weights or features.
        """
        if not self.undirected:
            return edge_index, of_edges
        # Both directions may be in the table already, so they are not just added.
        edges, once, conflict = once_each_way(edge_index, of_edges, num_nodes)
        if conflict is not None:
            row, name = conflict
            place = f"row {row} (from 0)" if self.nodes else f"edge {row}"
            raise DataError(
                f"{str(self.path)!r}, {place}: an earlier row has this edge with another "
                f"{name}, and undirected true makes one edge of both. Say what it gets: "
                "repeated_edges sum or mean (--data.repeated_edges sum); or set undirected false."
            )
        return edges, once

    def merged(
        self, arrays: Mapping[str, Any], num_nodes: int, notes: list[str]
    ) -> Mapping[str, Any]:
        if self.repeated_edges == "none":
            return arrays
        return merge_repeated(arrays, num_nodes, self.repeated_edges, self.undirected, notes)


def _kept(given: Any) -> Any:
    """A copy of a table of pandas, Arrow or Polars, as one of pandas; a path as it is."""
    if isinstance(given, Mapping):
        return {name: _kept(file) for name, file in given.items()}
    if hasattr(given, "to_pandas"):
        given = given.to_pandas()
    if isinstance(given, pd.DataFrame):
        return given.copy()
    return given


def _facts_of_each(edges: TableFile, names: Sequence[str]) -> list[ColumnFacts]:
    """The facts of each column with one of these names; a name without a column has none."""
    names = [name for name in names if name in edges.columns]
    frame = edges.read(names)
    return [facts_of(name, frame[name]) for name in names]


def _have_gaps(edges: TableFile, columns: EdgeColumns) -> bool:
    """True if a column of features of the edges has missing values."""
    return any(len(facts.missing) for facts in _facts_of_each(edges, columns.features or ()))


def _fill_of(columns: Sequence[Column]) -> Fill | None:
    """The option ``fill`` that a model's columns were read with; None if they do not tell."""
    filled = [column for column in columns if column.fill is not None]
    if not filled:
        return "error"
    numbers = [column for column in filled if column.kind == "number"]
    if not numbers:
        return None
    # A mean of 0 may be either, and both words fill in the same.
    if all(column.fill == column.mean for column in numbers):
        return "mean"
    if all(column.fill == 0 for column in numbers):
        return "zero"
    return "median"


def _covered(given: Sequence[str], names: Sequence[str]) -> list[str]:
    """The columns of a model that are given, each as itself or as a part of a column of lists."""
    found = []
    for name in names:
        if name in given or name.startswith(tuple(f"{one}_" for one in given)):
            found.append(name)
    return found


def _all_cover(given: Sequence[str], names: Sequence[str]) -> bool:
    """True if a model has each of the columns that are given."""
    return all(_covered([one], names) for one in given)


def _propose_one_edge(found: Inspection, batch: NodeBatch, have_gaps: bool) -> None:
    """Propose what becomes of rows that contradict each other, where undirected is proposed; it is
    not, if values are missing, which cannot be added."""
    graph = batch.graph
    of_edges = graph.of_edges(slice(None))
    _, _, conflict = once_each_way(graph.edge_index, of_edges, graph.num_nodes)
    if conflict is not None and have_gaps:
        del found.options["data.undirected"]
        found.notes.append(
            f"undirected is not proposed: rows with the same ends have another {conflict[1]}, and "
            "repeated_edges takes no missing values."
        )
    elif conflict is not None:
        found.options["data.repeated_edges"] = "sum"
        found.notes.append(
            f"rows with the same ends have another {conflict[1]}: --data.repeated_edges sum makes "
            "one edge of them with their sum, mean with their mean."
        )


def _rename_edges(arrays: Mapping[str, Any], columns: EdgeColumns) -> dict[str, Any]:
    """Give the arrays that options name for edges the names that are read."""
    renamed = dict(arrays)
    for name in columns.of_each:
        if name not in arrays:
            raise DataError(unknown("array", name, arrays))
    if columns.weight is not None:  # an empty name leaves weights out
        renamed["edge_weight"] = arrays.get(columns.weight)
    if columns.features:
        edges = max(as_tensor("edge_index", arrays.get("edge_index", ())).shape)
        parts = []
        for name in columns.features:
            values = as_tensor(name, arrays[name])
            # Each by itself, as an array of nodes may have as many numbers as edges need.
            if values.shape[:1] != (edges,):
                raise DataError(
                    f"{name} must have one row per edge ({edges:,}), not shape "
                    f"{tuple(values.shape)}."
                )
            if values.dim() == 1:
                values = values[:, None]
            parts.append(values.flatten(1))
        renamed["edge_attr"] = torch.cat(parts, 1)
    return renamed


def _existing(name: str, path: str, folders: bool = False) -> Path:
    """The path of a file, or of a folder where that is accepted too, which is there."""
    found = Path(path).expanduser()
    # An empty path is the working folder, which nobody means.
    if found.is_dir() and folders and found.resolve() != Path.cwd():
        return found
    if not found.is_file():
        fault = "is a folder" if found.is_dir() else "does not exist"
        raise DataError(
            f"{name} {path!r} {fault}: give the path of a file (looked in {str(Path.cwd())!r})."
        )
    refuse_pointer(found)
    return found


def _named_files(nodes: str | Mapping[str, str] | None) -> dict[str, str]:
    """The tables of nodes by the set that they are for; a single one has no name."""
    if nodes is None:
        return {}
    if isinstance(nodes, Mapping):
        return dict(nodes)
    return {"": nodes}


def _ends_in(path: str | Path, suffixes: Sequence[str]) -> bool:
    return str(path).lower().endswith(tuple(suffixes))


def _listed(columns: Any) -> Any:
    """A single column as a list of one, as the command takes it; lists and None as they are."""
    return [columns] if isinstance(columns, str) else columns


def _check_options(path: str, of_tables: Mapping[str, Any]) -> None:
    """Check that options for tables are given with tables, and all that tables need."""
    given = [name for name, value in of_tables.items() if value]
    # Both may be read as tables or as arrays; the roles decide when they are read.
    if Path(path).is_dir() or _ends_in(path, NETWORKX):
        return
    if _ends_in(path, ARRAYS):
        if given:
            raise DataError(
                f"{given[0]} is an option for tables, and {path!r} has nodes and edges in one file."
            )
        return
    if _ends_in(path, MATLAB):
        wrong = [name for name in given if name not in ("label", "features", "targets", "ends")]
        if wrong:
            raise DataError(f"{wrong[0]} is an option for tables, and {path!r} has arrays.")
        return
    if not _ends_in(path, (*TABLES, *EDGES_ONLY)):
        graphs = (*NETWORKX, *EDGES_ONLY, *MATLAB)
        raise DataError(
            f"path {path!r} must be a table ({', '.join(TABLES)}), a graph "
            f"({', '.join(graphs)}) or arrays ({', '.join(ARRAYS)}), for example: {NPZ_HINT}"
        )
    nodes, label, targets = of_tables["nodes"], of_tables["label"], of_tables["targets"]
    for file in _named_files(nodes).values():
        if not _ends_in(file, TABLES):
            raise DataError(f"nodes {file!r} must be a table ({', '.join(TABLES)}).")
    if label and targets:
        raise DataError(
            f"label {label!r} is for classes and targets for numbers to predict: give one of them."
        )
    missing = []
    if not nodes:
        missing.append("nodes")
    if not nodes and not label and not targets:
        missing.append("label")
    if missing:
        raise DataError(
            f"{path!r} is one table, and a graph in tables has two, of nodes and of edges "
            "(`gnn-depth inspect nodes.csv edges.csv`). A table of edges also needs "
            f"{' and '.join(missing)}, for example nodes: nodes.csv, label: topic (--data.nodes "
            "nodes.csv --data.label topic), or targets for numbers to predict."
        )
