"""A graph in two tables, of nodes and of edges, as pandas reads them."""

from dataclasses import asdict
from typing import Any, Literal

import pandas as pd

from gnn_depth.data.checks import SPLITS, DataError
from gnn_depth.data.schema import Column, Schema
from gnn_depth.data.source import CheckedGraphs, RawGraphs
from gnn_depth.data.table_reader import encoded, read_graph, read_table, take
from gnn_depth.data.union import existing_file
from gnn_depth.ranges import FilePath, Natural
from gnn_depth.registry import register

MOST_CATEGORIES = 50  # of a column of text
#: Fields of the schema that tables decide.
OF_TABLES = ("columns", "id", "ends", "label", "edge_weight", "edge_columns", "directed")


@register("data", "Tables")
class Tables(CheckedGraphs):
    """Your own graph in two tables: ``gnn-depth fit nodes.csv edges.csv --data.label COLUMN``.

    pandas reads the files and decides the types of the columns. Numbers are standardised, those to
    predict for the loss only, and text with few values is one-hot encoded. A model remembers its
    columns by name, with categories, mean and deviation, and reads the next table by them.
    ``gnn-depth inspect nodes.csv edges.csv`` shows the types and roles of all columns.

    Args:
        nodes: The table of nodes, one a row, with their ids in the first column: a CSV file, in
            Python also a DataFrame.
        edges: The table of edges, one a row, with the ids of source and target in the first two
            columns.
        label: Column of the classes. A node with an empty label is in no set, but gets a
            prediction.
        targets: Columns of numbers to predict, instead of a label.
        split: Column with train, val or test, empty for a node in none of them; or shares to train
            and validate on. By default the shares [0.6, 0.2].
        features: Columns of features; by default all columns without another role.
        dates: Those of them that are dates, written as 2024-12-31; columns that pandas has read as
            dates need no name.
        edge_weight: Column of non-negative weights of the edges.
        edge_features: Columns of features of the edges.
        missing: Refuse missing values (``error``), or use the ``median`` of the training rows; a
            missing category is then none of its values.
        directed: Use each edge in its direction only; false uses it once in both.
        seed: Determines a random split.

    Raises:
        ValueError: A file does not exist, or an option does not fit its type.
    """

    def __init__(
        self,
        nodes: FilePath,
        edges: FilePath,
        label: str | None = None,
        targets: list[str] = [],  # noqa: B006  (read only)
        split: str | list[float] | None = None,
        features: list[str] | None = None,
        dates: list[str] = [],  # noqa: B006
        edge_weight: str | None = None,
        edge_features: list[str] = [],  # noqa: B006
        missing: Literal["error", "median"] = "error",
        directed: bool = True,
        seed: Natural = 0,
    ) -> None:
        self.split_column = None
        if isinstance(split, str):
            self.split_column, split = split, None
        super().__init__(split, seed=seed, standardize=True, scale_target=bool(targets))
        self.nodes, self.edges = nodes, edges
        for name, table in (("nodes", nodes), ("edges", edges)):
            if not isinstance(table, pd.DataFrame):
                existing_file(name, table)
                self.origin = str(nodes)
        if label and targets:
            raise DataError(
                f"label {label!r} is for classes and targets for numbers to predict: give one."
            )
        self.label = label
        self.targets = targets
        self.features = features
        self.dates = dates
        self.edge_weight = edge_weight
        self.edge_features = edge_features
        self.missing = missing
        self.directed = directed

    def raw(self) -> RawGraphs:
        schema, notes = self.adopted, []
        if schema is not None and not schema.named:
            raise DataError("the model was trained on arrays without names: give it a Data.")
        columns = (*schema.columns, *schema.edge_columns) if schema else ()
        texts = [column.name for column in columns if column.values]
        nodes, edges = read_table(self.nodes, texts), read_table(self.edges, texts)
        if schema is None:
            schema = self.proposed(nodes, edges)
            read = {*schema.ends, self.edge_weight, *self.edge_features}
            unread = ", ".join(name for name in edges if name not in read)
            if unread:
                notes.append(
                    f"columns of the edges that are not read: {unread} (edge_weight or "
                    "edge_features reads them)."
                )
        of_schema = {name: getattr(schema, name) for name in OF_TABLES}
        # The next table may name its label otherwise.
        if self.label or self.targets:
            of_schema["label"] = tuple(self.targets) or (self.label,)
        targets: dict[str, Any] = {}
        if self.reads_targets:
            targets = self._targets_in(nodes, of_schema["label"])
        ids, graph = read_graph(nodes, edges, schema.as_dict(), self.on_unknown)
        return RawGraphs([graph | targets], ids.to_numpy(), of_schema, notes)

    def proposed(self, nodes: pd.DataFrame, edges: pd.DataFrame) -> Schema:
        """The roles and types of the columns to train on.

        Raises:
            DataError: The edges have no source and target, or a column is not there, or neither
                numbers nor text with few values.
        """
        if len(edges.columns) < 2:
            raise DataError("the edges need two columns, the ids of source and target.")
        names = self.features
        if names is None:  # all columns without another role
            others = {nodes.columns[0], self.label, *self.targets, self.split_column}
            names = [name for name in nodes if name not in others]
        for name in self.dates:
            take({**nodes, **edges}, name)
        unknown = 0, "", ()  # until the whole graph is read
        return Schema(
            *unknown,
            columns=tuple(self._column(take(nodes, name)) for name in names),
            id=nodes.columns[0],
            ends=tuple(edges.columns[:2]),
            directed=self.directed,
            edge_weight=self.edge_weight,
            edge_columns=tuple(self._column(take(edges, name)) for name in self.edge_features),
        )

    def _column(self, values: pd.Series) -> Column:
        """The features that a column becomes, by the type that pandas gives it.

        Raises:
            DataError: It is neither numbers nor text with few values.
        """
        name = str(values.name)
        fill = 0.0 if self.missing == "median" else None  # fitted later
        if name in self.dates or pd.api.types.is_datetime64_any_dtype(values):
            return Column(name, "date", fill=fill)
        if pd.api.types.is_numeric_dtype(values):
            return Column(name, fill=fill)
        categories = sorted(values.dropna().astype(str).unique())
        column = Column(name, "category", tuple(categories), fill=fill)
        if isinstance(values.dtype, pd.CategoricalDtype):
            return column
        is_number = pd.to_numeric(pd.Series(categories, dtype=object), errors="coerce").notna()
        # Only codes with leading zeros, such as 01067, are numbers throughout.
        if 2 * is_number.sum() > len(categories) > is_number.sum():
            raise DataError(
                f"column {name!r} has numbers, and text such as {categories[is_number.argmin()]!r}:"
                f" table[{name!r}] = pd.to_numeric(table[{name!r}], errors='coerce') makes it "
                f"missing, and table[{name!r}].astype('category') makes all of them categories."
            )
        if len(categories) > MOST_CATEGORIES:
            raise DataError(
                f"column {name!r} is text with {len(categories):,} different values: leave it out "
                f"with features (--data.features '[...]'), or name it in dates if it has dates."
            )
        return column

    def _targets_in(self, nodes: pd.DataFrame, label: tuple[str, ...]) -> dict[str, Any]:
        """The targets, and the masks if a column has the split."""
        if not label:
            raise DataError(
                "which column is to be predicted? Give label for classes (--data.label COLUMN) or "
                f"targets for numbers (--data.targets '[COLUMN]'); there are {', '.join(nodes)}."
            )
        are_numbers = bool(self.targets)
        if self.adopted is not None:
            are_numbers = self.adopted.task != "multiclass"
        if are_numbers:
            # Missing targets are NaN, and their rows in no set.
            y = encoded(nodes, [asdict(Column(name, fill=0.0)) for name in label])
        else:
            values = take(nodes, label[0])
            if pd.api.types.is_float_dtype(values):
                values = values.convert_dtypes()  # integers, some of which are missing
            if pd.api.types.is_float_dtype(values):
                raise DataError(
                    f"label {label[0]!r} has numbers with decimals, not classes: to predict them, "
                    f"give targets (--data.targets '[{label[0]}]')."
                )
            # The names of classes as text, empty where there is none.
            names = values.astype(object).where(values.notna(), "").astype(str)
            y = names.to_numpy(object)
        found = {"y": y}
        if self.split_column:
            words = take(nodes, self.split_column).fillna("")
            strange = words[~words.isin([*SPLITS, ""])]
            if len(strange):
                raise DataError(
                    f"column {self.split_column!r} has {strange.iloc[0]!r}, and a split has train, "
                    "val, test or nothing."
                )
            found |= {f"{part}_mask": (words == part).to_numpy() for part in SPLITS}
        return found
