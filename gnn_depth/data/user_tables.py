"""A user's graph in two tables: edges, and nodes with their features and classes."""

import gzip
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.data.checks import MASKS, SPLITS, DataError
from gnn_depth.data.columns import (
    DECIMAL_COMMA,
    FEW_CATEGORIES,
    FOLD,
    THOUSANDS,
    ColumnFacts,
    Proposal,
    date_mark_among,
    facts_of,
    mark_among,
    propose,
)
from gnn_depth.data.encoding import (
    Encoder,
    category_column,
    date_column,
    in_text,
    missing_columns,
    refuse_faults,
    stand_in,
)
from gnn_depth.data.scaling import METHODS, PerColumn, words_of_columns
from gnn_depth.data.schema import Column, Schema, Unknown
from gnn_depth.data.source import Given
from gnn_depth.data.targets import INTEGER, MISSING
from gnn_depth.registry import hint, unknown

SPACES = r"\s+"
#: What separates the values in a row, by the end of the file's name; also with .gz.
CSV = {".csv": ",", ".tsv": "\t"}
for suffix in (".txt", ".content", ".cites", ".edges", ".data"):
    CSV[suffix] = SPACES
CSV |= {f"{suffix}.gz": separator for suffix, separator in CSV.items()}
SUFFIXES = (*CSV, ".parquet")
#: What separates the values in a row, by the words of the option.
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "spaces": SPACES}
COMMENT = ("#", "%")  # a line that begins so is a comment
DATES = ("days", "cyclic")
ROWS_PER_CLASS = 10  # fewer may agree with a column by chance
MAX_LISTED = 20  # columns that a message lists
MAX_SHOWN = 40  # characters of a value in a message
#: What to do about a number such as -999, of nodes and of edges.
EMPTY_CELLS = "leave these cells empty (features need fill; missing_label {} does it for a target)"
NO_ROWS = "leave out these rows or the column: every edge needs a value"
ONE_ROLE = (
    "every column has one: id (by default the first column), label or target, split, category or "
    "feature; of edges source, target, weight or feature."
)

#: The word for a part of a split in the name of a column.
PART = re.compile(r"(?<![a-z])(train|val|valid|validation|dev|test)(ing)?(?![a-z])")


@dataclass(frozen=True)
class NodeColumns:
    """The roles of the columns of a table of nodes.

    Attributes:
        label: The class of each node; None if numbers are predicted.
        id: The name of each node in the table of edges; by default the first column.
        split: train, val or test for each node, if it is given.
        features: Columns of numbers; by default all that have no other role.
        categories: Columns of text; each value becomes a feature of 0 and 1.
        targets: Columns of numbers to predict, instead of a label.
        drop: Columns that are not read.
        dates: How dates become numbers, ``days`` or ``cyclic``, or a word for each column; empty if
            they must not.
        fills: Whether missing numbers and categories are filled in.
    """

    label: str | None
    id: str | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    categories: Sequence[str] = ()
    targets: Sequence[str] = ()
    drop: Sequence[str] = ()
    dates: PerColumn = ""
    fills: bool = False


@dataclass(frozen=True)
class EdgeColumns:
    """The roles of the columns of a table of edges, or of the arrays in a file.

    Attributes:
        ends: Source and target, of a table; the first two columns if it is empty.
        weight: Weights of the edges; None for the usual name, empty for none.
        features: Features of the edges; None for the usual name.
    """

    ends: Sequence[str] = ()
    weight: str | None = None
    features: Sequence[str] | None = None

    @property
    def of_each(self) -> list[str]:
        """The columns or arrays that are named for values of the edges."""
        return [name for name in (self.weight, *(self.features or ())) if name]


@dataclass(frozen=True)
class TargetModel:
    """The model that tables are read for.

    Attributes:
        schema: What it expects.
        targets: Whether targets and split are read.
        unknown: What happens to columns and categories that it misses or does not know.
    """

    schema: Schema
    targets: bool
    unknown: Unknown


def read_tables(
    edges: "TableFile",
    nodes: "TableFile",
    columns: NodeColumns,
    of_edges: EdgeColumns,
    missing_label: float | str | None = None,
    trained: TargetModel | None = None,
    scales: bool = False,
) -> Given:
    """Read a graph from two tables, with an edge or a node in each row.

    Args:
        edges: The table of edges.
        nodes: The table of nodes.
        columns: The roles of the columns of nodes.
        of_edges: The roles of the columns of edges.
        missing_label: A mark of nodes without a target.
        trained: The model that the tables are read for; None to train one.
        scales: Whether columns are scaled, for what a message proposes.

    Raises:
        DataError: They cannot be read or do not fit each other; the message names file and row.
    """
    notes: list[str] = []
    if trained is not None and trained.schema.named:
        columns, of_edges = _as_trained(edges, nodes, columns, of_edges, trained)
    columns, masks = _roles(nodes, columns, notes)
    if trained is not None and not trained.targets:
        columns, masks = replace(columns, label=None, targets=(), split=None), []
    assert columns.id is not None
    names = list(columns.features or ())
    text = [columns.id, *masks]
    # Text, so that 1.1 and 1.10 stay two values.
    text += [name for name in (columns.label, columns.split, *columns.categories) if name]
    frame = nodes.read([*text, *names, *columns.targets], text)
    if not len(frame):
        raise nodes.error("it has no rows; every node needs one.")
    arrays: dict[str, Any] = {}
    if trained is not None and trained.schema.named:
        x = _features_as_trained(nodes, frame, columns, trained, notes)
        found: Sequence[Column] = trained.schema.columns
    else:
        needs_label = trained is None and not columns.label and not columns.targets
        files = f"{nodes.path} {edges.path}"
        _check_decided(nodes, frame, columns, needs_label, scales, files)
        _note_answers(frame, columns, missing_label, notes)
        x, found = _new_features(nodes, frame, columns, notes)
    if x.shape[1]:
        arrays["x"] = x
    else:  # features can be made from the edges
        arrays["num_nodes"] = len(frame)
    if columns.label:
        arrays["y"] = frame[columns.label].to_numpy(object)
    elif columns.targets:
        arrays["y"] = _targets(nodes, frame[list(columns.targets)], missing_label)
        targets = np.split(arrays["y"].reshape(len(frame), -1), len(columns.targets), 1)
        _note_marks(list(map(Column, columns.targets)), targets, missing_label, notes)
    if columns.split:
        arrays |= _masks_of_split(nodes, frame[columns.split])
    for name in masks:
        arrays[name] = _is_true(nodes, frame[name])
    ids = _ids(nodes, frame[columns.id])
    source = f"{columns.id!r} of {str(nodes.path)!r}"
    _note_unread(edges, of_edges, notes)
    arrays["edge_index"] = edges.edge_index(of_edges, ids, source)
    if of_edges.weight:
        rule = "edge_weight must be finite numbers."
        weight = _numbers(edges, edges.read([of_edges.weight]), rule)[:, 0]
        edges.check_rows(
            weight < 0, lambda row: f"{of_edges.weight!r} is {weight[row]:g}, below zero."
        )
        span = () if trained is None else trained.schema.edge_weight_span
        column = Column(of_edges.weight, span=span)
        _note_marks([column], [weight[:, None]], None, notes, NO_ROWS)
        arrays["edge_weight"] = weight
    edge_columns: Sequence[Column] = ()
    if of_edges.features or (trained is not None and trained.schema.edge_columns):
        arrays["edge_attr"], edge_columns = _edge_features(edges, of_edges, trained, notes)
    of_schema = {
        "label": (columns.label,) if columns.label else tuple(columns.targets),
        "split": columns.split,
        "id": columns.id,
        "ids": "integers" if ids.dtype == np.int64 else "text",
        "ends": tuple(of_edges.ends or edges.columns[:2]),
        "edge_weight": of_edges.weight or None,
    }
    return Given(
        [arrays],
        node_ids=ids.to_numpy(),
        columns=found,
        edge_columns=edge_columns,
        target_names=columns.targets,
        of_schema=of_schema,
        notes=[*nodes.notes, *edges.notes, *notes],
    )


def _as_trained(
    edges: "TableFile",
    nodes: "TableFile",
    columns: NodeColumns,
    of_edges: EdgeColumns,
    trained: TargetModel,
) -> tuple[NodeColumns, EdgeColumns]:
    """The roles in tables that are read for a model: its columns, by name.

    Only the columns of ids, ends and split may have other names, which the options say.
    """
    schema = trained.schema
    id = columns.id if columns.id in nodes.columns else schema.id
    _refuse_renamed(nodes, "id", [id or ""], "NAME")
    nodes.distinct([id or ""])
    ends = list(of_edges.ends)
    if not ends or not set(ends) <= set(edges.columns):
        ends = list(schema.ends)
    _refuse_renamed(edges, "ends", ends, "[SOURCE, TARGET]")
    of_each = [column.name for column in schema.edge_columns]
    present = [name for name in of_each if name in edges.columns]
    edges.distinct([*ends, *filter(None, [schema.edge_weight]), *present])
    label: str | None = None
    targets: Sequence[str] = ()
    split = None
    if trained.targets:
        nodes.distinct(schema.label)
        if schema.task == "multiclass":
            label = schema.label[0]
        else:
            targets = schema.label
        for name in (schema.split, columns.split):
            split = name if name in nodes.columns else split
    here = [column for column in schema.columns if column.name in nodes.columns]
    roles = NodeColumns(
        label,
        id,
        split,
        [column.name for column in here if column.kind != "category"],
        [column.name for column in here if column.kind == "category"],
        targets,
    )
    return roles, EdgeColumns(ends, schema.edge_weight or "", present)


def _refuse_renamed(table: "TableFile", option: str, names: Sequence[str], value: str) -> None:
    """Refuse a table for a trained model without the columns of its ids, which an option names."""
    lacking = [repr(name) for name in names if name not in table.columns]
    if not lacking:
        return
    listed = ", ".join(table.columns[:MAX_LISTED])
    if len(table.columns) > MAX_LISTED:
        listed += f", ... {len(table.columns)} in all"
    flag_value = value if value.isalpha() else f"'{value}'"
    raise table.error(
        f"there is no column {' and no column '.join(lacking)}, which had the ids in the training. "
        f"If they have another name here, say so: {option} {value} (--data.{option} {flag_value}). "
        f"Available: {listed}."
    )


def _features_as_trained(
    nodes: "TableFile",
    frame: pd.DataFrame,
    columns: NodeColumns,
    trained: TargetModel,
    notes: list[str],
) -> np.ndarray:
    """The features that a model was trained on, shape (rows, features)."""
    schema = trained.schema
    known = {column.name for column in schema.columns}
    known |= {*schema.label, columns.id or "", schema.split or ""}
    extra = [name for name in nodes.columns if name not in known]
    extra = [name for name in extra if name not in (*MASKS, "split", columns.split)]
    if extra:
        shown = ", ".join(map(repr, extra[:MAX_LISTED]))
        if len(extra) > MAX_LISTED:
            shown += f", ... {len(extra)} in all"
        notes.append(f"not read, because the model does not know them: {shown}.")
    encoder = Encoder(trained.unknown)
    lacking = missing_columns(schema.columns, nodes.columns, encoder)
    parts = []
    for column in schema.columns:
        if column.name in lacking:
            parts.append(stand_in(column, len(frame)))
        else:
            parts.append(encoder.encode(column, frame[column.name]))
    refuse_faults(nodes, encoder.faults)
    encoder.note_blanks(len(frame))
    notes += encoder.notes
    _note_marks(schema.columns, parts, None, notes)
    return np.concatenate([np.empty((len(frame), 0)), *parts], 1)


def _edge_features(
    edges: "TableFile", roles: EdgeColumns, trained: TargetModel | None, notes: list[str]
) -> tuple[np.ndarray, Sequence[Column]]:
    """The features of the edges, shape (rows, features), and their columns: those of a trained
    model, or new ones."""
    names = list(roles.features or ())
    if trained is None or not trained.schema.edge_columns:
        frame = edges.read(names)
        columns = [_edge_column(edges, frame[name], notes) for name in names]
        encoder = Encoder()
        parts = [encoder.encode(one, frame[one.name]) for one in columns]
        _refuse_faulty(edges, encoder)
        _note_marks(columns, parts, None, notes, NO_ROWS)
        return np.concatenate(parts, 1), columns
    columns = list(trained.schema.edge_columns)
    encoder = Encoder(trained.unknown)
    lacking = missing_columns(columns, edges.columns, encoder, "edge")
    frame = edges.read([column.name for column in columns if column.name not in lacking])
    parts = []
    for column in columns:
        if column.name in lacking:
            parts.append(stand_in(column, len(edges.read([]))))
        else:
            parts.append(encoder.encode(column, frame[column.name]))
    refuse_faults(edges, encoder.faults)
    notes += encoder.notes
    _note_marks(columns, parts, None, notes, NO_ROWS)
    return np.concatenate(parts, 1), columns


def _edge_column(edges: "TableFile", values: pd.Series, notes: list[str]) -> Column:
    """A new column of features of the edges: numbers, or text of few values as features of 0 and 1.

    Raises:
        DataError: It is neither.
    """
    facts = facts_of(str(values.name), values)
    is_text = facts.kind == "text" and facts.distinct <= FEW_CATEGORIES
    if not (facts.is_numeric or is_text) or len(facts.strange):
        raise edges.error(
            f"{facts.name!r} cannot be a feature of the edges: {facts.unread(can_fill=False)}. "
            f"edge_features takes numbers, and text of at most {FEW_CATEGORIES} values, which "
            "become features of 0 and 1. Leave the column out, or turn it into numbers first."
        )
    if facts.are_days:
        said = _days_as_numbers([facts.name])
        notes.append(f"{said} Turn them into days since a first one, or leave the column out.")
    if facts.is_numeric:
        return Column(facts.name)
    column = category_column(facts.name, values)
    count = len(column.values)
    notes.append(f"{facts.name!r} of {edges.path.name} is text: {count} features of 0 and 1.")
    return column


def _days_as_numbers(names: Sequence[str]) -> str:
    """A sentence on columns of numbers such as 20241231."""
    shown = ", ".join(map(repr, names))
    return f"read as numbers though they look like dates such as 20241231: {shown}."


def _refuse_faulty(table: "TableFile", encoder: Encoder) -> None:
    """Refuse a table to train on whose values cannot be features."""
    if encoder.faults:
        lines = "\n".join(f"  {fault}" for fault in encoder.faults)
        raise table.error(f"features must be finite numbers.\n{lines}")


def _new_features(
    nodes: "TableFile", frame: pd.DataFrame, columns: NodeColumns, notes: list[str]
) -> tuple[np.ndarray, Sequence[Column]]:
    """The features of a table to train on, shape (rows, features), and their columns."""
    names = list(columns.features or ())
    facts = [facts_of(name, frame[name]) for name in names]
    dates = [one.name for one in facts if _is_dates(one, columns)]
    undated = [one.name for one in facts if one.are_days and one.name not in dates]
    if undated:
        notes.append(f"{_days_as_numbers(undated)} dates {{{undated[0]}: days}} reads dates.")
    forms = words_of_columns("dates", columns.dates or "days", dates, DATES)
    found = []
    for name in names:
        made = Column(name)
        if name in dates:
            made = date_column(name, frame[name], forms[name])
        found.append(made)
    found += [category_column(name, frame[name]) for name in columns.categories]
    encoder = Encoder(fills=columns.fills)
    parts = [encoder.encode(column, frame[column.name]) for column in found]
    _refuse_faulty(nodes, encoder)
    encoder.note_blanks(len(frame))
    notes += encoder.notes
    _note_marks(found, parts, None, notes)
    return np.concatenate([np.empty((len(frame), 0)), *parts], 1), found


def _is_dates(column: ColumnFacts, columns: NodeColumns) -> bool:
    """True for dates, and for numbers such as 20241231 in a column that ``dates`` names."""
    is_named = not isinstance(columns.dates, str) and column.name in columns.dates
    return column.kind == "dates" or (column.are_days and is_named)


def _note_marks(
    columns: Sequence[Column],
    parts: Sequence[np.ndarray],
    missing_label: float | str | None,
    notes: list[str],
    advice: str = EMPTY_CELLS,
) -> None:
    """Tell which columns have a number that seems to stand for a missing one, such as -999.

    Args:
        columns: The columns; those of a trained model may have such numbers in their range.
        parts: Their values before any scaling, shape (rows, width) each.
        missing_label: A number that is known to do so.
        notes: Gets a sentence for each column.
        advice: What to do about it.
    """
    for column, values in zip(columns, parts, strict=True):
        if column.dates == "days":
            date = date_mark_among(values[:, 0], column.first)
            if date is not None:
                mark, count, others = date
                notes.append(
                    f"{column.name!r} is {mark} in {count:,} rows, far from its other dates "
                    f"({others}). If that means missing, {advice.format(mark)}."
                )
        if column.kind != "number":
            continue
        found = mark_among(values[:, 0])
        low, high = column.span or (np.inf, -np.inf)
        if found is None or found[0] == missing_label or low <= found[0] <= high:
            continue
        number, count = found
        known = values[np.isfinite(values) & (values != number)]
        notes.append(
            f"{column.name!r} is {number:g} in {count:,} rows, far from its other numbers "
            f"({known.min():,g} to {known.max():,g}). If that means missing, "
            f"{advice.format(f'{number:g}')}."
        )


def _note_answers(
    frame: pd.DataFrame,
    columns: NodeColumns,
    missing_label: float | str | None,
    notes: list[str],
) -> None:
    """Tell which features have one value for each class, and so are the label by another name."""
    if not columns.label:
        return
    labels = pd.Series(in_text(frame[columns.label]), frame.index)
    labels = labels[(labels != "") & (labels != str(missing_label))]
    classes = labels.nunique()
    if classes < 2 or len(labels) < ROWS_PER_CLASS * classes:  # too few to be no chance
        return
    found = []
    for name in dict.fromkeys([*(columns.features or ()), *columns.categories]):
        values = frame[name][labels.index]
        pairs = pd.DataFrame({"value": values, "label": labels}).drop_duplicates()
        if values.nunique() == classes == len(pairs):
            found.append(repr(name))
    if found:
        notes.append(
            f"{' and '.join(found)} {'has' if len(found) == 1 else 'have'} one value for each "
            f"class of {columns.label!r}: is it the label by another name? drop leaves it out."
        )


def _check_decided(
    nodes: "TableFile",
    frame: pd.DataFrame,
    columns: NodeColumns,
    needs_label: bool,
    scales: bool,
    files: str,
) -> None:
    """Name all columns of a table that cannot be features as they are, and options that decide."""
    facts = [facts_of(name, frame[name]) for name in columns.features or ()]
    proposal = propose(facts, needs_label, bool(columns.dates), columns.fills, scales)
    _keep_given(proposal, columns)
    lines = []
    for column in facts:
        if column.name in proposal.why:
            lines.append(f"  {_first(frame, column)}: {proposal.why[column.name]}")
    for name in columns.categories:
        column = facts_of(name, frame[name])
        blank = np.flatnonzero(in_text(frame[name]) == "")
        if len(blank) and not columns.fills:
            lines.append(f"  row {blank[0]} (from 0): {name!r} is missing: {column.described}")
            proposal.options["fill"] = "median"
    if needs_label:
        lines.insert(0, "  no column is the label (classes) or one of the targets (numbers)")
    if not lines:
        return
    if needs_label and not {"label", "targets"} & set(proposal.options):
        proposal.options["label"] = "COLUMN"
    count = "a decision is" if len(lines) == 1 else f"{len(lines)} decisions are"
    if proposal.options:
        lines.append(f"For example: {proposal.flags}")
    raise nodes.error(
        f"{count} needed before training.\n" + "\n".join(lines) + "\n"
        f"`gnn-depth inspect {files}` shows every column and what would be read.\n"
        "`label` or `targets` is what is predicted, `categories` become features of 0 and 1, "
        "`drop` leaves columns out (`features` lists those to use), `dates` become numbers, `fill` "
        "stands for missing values, and `split` has train, val and test."
    )


def _keep_given(proposal: Proposal, columns: NodeColumns) -> None:
    """Add what was given of an option to what is proposed, which would stand in its place."""
    for name, given in (("categories", columns.categories), ("drop", columns.drop)):
        if given and name in proposal.options:
            proposal.options[name] = [*given, *proposal.options[name]]


def look_at_nodes(
    nodes: "TableFile", columns: NodeColumns, scales: bool
) -> tuple[list[ColumnFacts], Proposal]:
    """Every column of a table of nodes, and options for those that need a decision."""
    frame = nodes.read(nodes.columns)
    facts = [facts_of(name, frame[name]) for name in nodes.columns]
    roles, _ = _roles(nodes, columns, [])
    open_columns = [column for column in facts if column.name in (roles.features or ())]
    needs_label = not roles.label and not roles.targets
    proposal = propose(open_columns, needs_label, bool(roles.dates), roles.fills, scales)
    _keep_given(proposal, columns)
    blank = [one.name for one in facts if one.name in roles.categories and len(one.missing)]
    if blank and not roles.fills:
        proposal.options["fill"] = "median"
    return facts, proposal


def roles_of_nodes(
    nodes: "TableFile",
    facts: Sequence[ColumnFacts],
    columns: NodeColumns,
    standardize: PerColumn,
    proposed: Collection[str],
) -> list[tuple[str, str, str]]:
    """For each column of a table of nodes its name, what it holds, and what it is read as.

    Args:
        nodes: The table.
        facts: Its columns.
        columns: Their roles.
        standardize: How numbers are scaled.
        proposed: The names of the options that nobody has given yet.
    """
    roles, masks = _roles(nodes, columns, [])
    numbers = [one.name for one in facts if one.is_numeric or one.kind == "dates"]
    named = {} if isinstance(standardize, str) else standardize
    known = {name: word for name, word in named.items() if name in numbers or name == "*"}
    methods = words_of_columns(
        "standardize", standardize if isinstance(standardize, str) else known, numbers, METHODS
    )
    rows = []
    for column in facts:
        name, option = column.name, ""
        if name == roles.id:
            role = "id"
        elif name == roles.label:
            role, option = "label", "label"
        elif name in roles.targets:
            role, option = "target", "targets"
        elif name == roles.split or name in masks:
            role, option = "split", "split"
        elif name in roles.drop:
            role, option = "not read", "drop"
        elif name in roles.categories:
            role, option = f"{column.distinct} features of 0 and 1", "categories"
        elif name not in (roles.features or ()):
            role = "not read"
        else:
            role, option = "feature", "standardize"
            if _is_dates(column, roles):
                word = roles.dates if isinstance(roles.dates, str) else roles.dates.get(name, "")
                role, option = f"feature: {word}", "dates"
            if methods[name] != "none" and word_is_scaled(column, roles):
                role += f", {methods[name]}"
            else:
                option = option if _is_dates(column, roles) else ""
            if len(column.missing):
                role += ", filled"
        if option in proposed:
            role += " (proposed)"
        values = "; ".join(words for words in (column.described, column.share_missing) if words)
        rows.append((name, values, role))
    return rows


def word_is_scaled(column: ColumnFacts, columns: NodeColumns) -> bool:
    """True if a column becomes one number, which can be scaled."""
    dates = columns.dates
    if not _is_dates(column, columns):
        return True
    return (dates if isinstance(dates, str) else dates.get(column.name, "days")) != "cyclic"


def roles_of_edges(
    edges: "TableFile", columns: EdgeColumns, standardize: PerColumn
) -> list[tuple[str, str, str]]:
    """For each column of a table of edges its name, what it holds, and what it is read as."""
    frame = edges.read(edges.columns)
    named = list(columns.features or ())
    methods = words_of_columns("edge_standardize", standardize, named, METHODS)
    ends = list(columns.ends or edges.columns[:2])
    rows = []
    for name in edges.columns:
        column = facts_of(name, frame[name])
        role = "not read"
        if name in ends:
            role = "source" if name == ends[0] else "target"
        elif name == columns.weight:
            role = "weight"
        elif name in (columns.features or ()):
            role = "feature of the edge"
            if column.kind == "text":
                role = f"{column.distinct} features of 0 and 1"
            elif methods.get(name, "none") != "none":
                role += f", {methods[name]}"
        elif column.is_numeric:
            role = "not read (edge_weight, edge_features)"
        elif column.kind == "text" and column.distinct <= FEW_CATEGORIES:
            role = "not read (edge_features)"
        values = "; ".join(words for words in (column.described, column.share_missing) if words)
        rows.append((name, values, role))
    return rows


def _first(frame: pd.DataFrame, column: ColumnFacts) -> str:
    """The first row of a column that needs a decision, in words."""
    faulty = [*column.strange, *column.missing] if column.is_numeric else []
    row = int([*faulty, 0][0])
    value = frame[column.name].iloc[row]
    blank = pd.isna(value) or str(value).strip() in MISSING
    said = "is missing" if blank else f"is {str(value)[:MAX_SHOWN]}"
    return f"row {row} (from 0): {column.name!r} {said}"


def _roles(
    nodes: "TableFile", columns: NodeColumns, notes: list[str]
) -> tuple[NodeColumns, list[str]]:
    """The roles with their defaults, and the columns that are masks."""
    columns = replace(columns, id=columns.id or nodes.columns[0])
    if columns.features is not None:
        columns = replace(columns, features=nodes.expanded(columns.features))
    named = [name for name in (columns.id, columns.label, columns.split) if name]
    named += [*columns.categories, *columns.targets, *columns.drop]
    found = [name for name in MASKS if name in nodes.columns and name not in named]
    masks = found
    if columns.split:
        masks = []
        if found:
            notes.append(f"{' and '.join(found)} are not read: split is {columns.split!r}.")
    elif found:
        notes.append(f"{' and '.join(found)} are the split.")
    elif "split" in nodes.columns and "split" not in [*named, *(columns.features or ())]:
        columns = replace(columns, split="split")
        named.append("split")
        notes.append("the column split is the split.")
    used = nodes.distinct([*named, *found, *(columns.features or ())])
    if columns.features is None:
        rest = [name for name in nodes.columns if name not in used]
        columns = replace(columns, features=rest)
        _refuse_split(nodes, rest)
        _note_folds(nodes, rest, notes)
    return columns, masks


def _refuse_split(nodes: "TableFile", features: Sequence[str]) -> None:
    """Refuse columns of true and false that look like a split and would become features."""
    parts = [name for name in features if PART.search(name.lower())]
    if not any("train" in name.lower() for name in parts):
        return
    frame = nodes.read(parts)
    found = [name for name in parts if set(frame[name].unique()) <= {True, False}]
    if found:
        raise nodes.error(
            f"{' and '.join(found)} hold true and false, and look like the split: call them "
            "train_mask, val_mask and test_mask. If they are features, list all in `features`."
        )


def _note_folds(nodes: "TableFile", features: Sequence[str], notes: list[str]) -> None:
    """Tell which features seem to number the parts of a split."""
    named = [name for name in features if FOLD.search(name.lower())]
    frame = nodes.read(named) if named else pd.DataFrame()
    found = [repr(name) for name in named if facts_of(name, frame[name]).may_be_split]
    if found:
        notes.append(
            f"{' and '.join(found)} {'is a feature' if len(found) == 1 else 'are features'}, and "
            "may number the parts of a split: drop leaves it out; split takes a column of train, "
            "val and test."
        )


def _note_unread(edges: "TableFile", columns: EdgeColumns, notes: list[str]) -> None:
    """Tell which columns of the edges are not read, unless their roles were chosen."""
    if columns.weight is not None or columns.features is not None:
        return
    ends = columns.ends or edges.columns[:2]
    unread = [name for name in edges.columns if name not in ends]
    if unread:
        notes.append(
            f"{' and '.join(unread)} of {edges.path.name} {'is' if len(unread) == 1 else 'are'} "
            "not read: edge_weight names a column of weights, edge_features columns of features."
        )


def refuse_misplaced(
    edges: "TableFile", nodes: "TableFile", columns: NodeColumns, of_edges: EdgeColumns
) -> None:
    """Refuse tables in each other's place, and ids in another column than the first one.

    Raises:
        DataError: The first two columns of the nodes are ids in the first one of the edges; or no
            option says where the ids of the nodes are, and the ends of all edges are in another
            column than the first one.
    """
    try:
        named = list(of_edges.ends or edges.columns[:2])
        if not set(named) <= set(edges.columns):
            return
        first = edges.read(edges.columns[:1], edges.columns[:1]).iloc[:, 0]
        pairs = nodes.read(nodes.columns[:2], nodes.columns[:2])
        ends = set(edges.read(named, named).to_numpy().ravel())
        texts = nodes.read(nodes.columns, nodes.columns)
    except DataError:  # another fault, which is named elsewhere
        return
    are_ends = pairs.shape[1] == 2 and bool(pairs.isin(set(first)).all(axis=None))
    if are_ends and len(pairs) and first.is_unique:
        raise DataError(
            f"the tables are in each other's place: {nodes.path.name} has edges, and "
            f"{edges.path.name} has nodes. The command takes the nodes first, then the edges; in "
            "Python nodes is the table of nodes, and path that of the edges."
        )
    if columns.id is not None or ends <= set(texts.iloc[:, 0]):
        return
    for name in nodes.columns[1:]:
        if ends <= set(texts[name]) and texts[name].is_unique:
            raise nodes.error(
                f"the first column, {nodes.columns[0]!r}, is no id: the edges name values of "
                f"{name!r}. Say so: id {name} (--data.id {name})."
            )


def ends_by_value(
    edges: "TableFile", nodes: "TableFile", columns: NodeColumns, of_edges: EdgeColumns
) -> list[str]:
    """The columns of the edges whose values are ids of nodes, if no option says which these are
    and the first two columns are not.
    """
    try:
        if of_edges.ends or len(edges.columns) < 3:
            return []
        id = columns.id or nodes.columns[0]
        ids = set(nodes.read([id], [id])[id])
        frame = edges.read(edges.columns, edges.columns)
    except (DataError, KeyError):  # another fault, which is named elsewhere
        return []
    shares = {name: frame[name].isin(ids).mean() for name in edges.columns}
    found = [name for name in edges.columns if shares[name] == 1]
    # A column with a few other values is one of ids with faults, which are named by row.
    if len(found) < 2 or min(shares[name] for name in edges.columns[:2]) >= 0.5:
        return []
    return found


def refuse_other_ends(
    edges: "TableFile", nodes: "TableFile", columns: NodeColumns, of_edges: EdgeColumns
) -> None:
    """Refuse a table of edges whose ends are in other columns than the first two.

    Raises:
        DataError: They are; the message has the option that names them.
    """
    found = ends_by_value(edges, nodes, columns, of_edges)
    if not found:
        return
    said = f"the values of {' and '.join(map(repr, found))} are"
    ends = f"[{found[0]}, {found[1]}]"
    raise edges.error(
        f"the first two columns, {' and '.join(map(repr, edges.columns[:2]))}, are not the ids of "
        f"nodes, and {said}. For example: ends {ends} (--data.ends '{ends}')."
    )


def is_table(path: str) -> bool:
    """True if the file name has the suffix of a table."""
    return path.lower().endswith(SUFFIXES)


class TableFile:
    """A CSV or Parquet file, read on demand; errors name the file and the row.

    Args:
        path: The file.
        names: The names of the columns, of a file without a first line of names; ``word*3`` stands
            for word_0, word_1 and word_2.
        separated_by: One of :data:`SEPARATORS`; by default what the end of the file's name says.

    Attributes:
        separator: Of the values in a row; None for Parquet.
        notes: What was decided about the table, one sentence each.
    """

    def __init__(
        self, path: Path, names: Sequence[str] = (), separated_by: str | None = None
    ) -> None:
        self.path = path
        self.notes: list[str] = []
        self.separator: str | None = None
        for suffix, separator in CSV.items():
            if path.name.lower().endswith(suffix):
                self.separator = SEPARATORS[separated_by] if separated_by else separator
        self._is_chosen = separated_by is not None
        self._names = _counted(names)
        self._skipped: list[int] = []  # lines of comments
        if names and self.separator is None:
            raise self.error(
                "it has names of its columns: node_columns and edge_columns are for "
                "text without a first line of names."
            )

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns; one with a list in each row is as many columns."""
        return self.expanded(self.stored)

    def expanded(self, names: Sequence[str]) -> list[str]:
        """Names of columns, where one that holds lists stands for feat_0, feat_1, ..."""
        found = []
        for name in names:
            width = self._widths.get(name)
            if width is None:
                found.append(name)
            else:
                found += [f"{name}_{position}" for position in range(width)]
        return found

    @cached_property
    def _widths(self) -> dict[str, int]:
        """The length of the lists in each column that holds them, as its first row has it."""
        found = {}
        first = self._read_stored(self.stored, rows=1)
        for name in first:
            for item in first[name]:
                numbers = _numbers_in(item)
                # 1.004,50 and 2,515,506 are numbers, which are refused, rather than lists.
                is_one = isinstance(item, str) and re.fullmatch(DECIMAL_COMMA, item.strip())
                if numbers is None or is_one or self._has_thousands(str(name), item):
                    continue
                width = found[str(name)] = len(numbers)
                self.notes.append(
                    f"{self.path.name}: each {str(name)!r} is a list of {width} numbers: {width} "
                    f"columns, {name}_0 to {name}_{width - 1}."
                )
        return found

    def _has_thousands(self, name: str, first: Any) -> bool:
        """True if every value of a column is a number such as 2,515,506, as the first one is."""
        if not isinstance(first, str) or not re.fullmatch(THOUSANDS, first.strip()):
            return False
        texts = self._read_stored([name])[name].dropna().astype(str).str.strip()
        return bool(texts[~texts.isin(MISSING)].str.fullmatch(THOUSANDS).all())

    @cached_property
    def stored(self) -> list[str]:
        """The names of the columns in the file, none of which is missing or repeated."""
        with self._errors():
            if self.separator is None:  # without the index that pandas stores as a column
                stored = self._parquet_file().schema_arrow.names
                names = [name for name in stored if not re.fullmatch(r"__index_level_\d+__", name)]
            else:
                names = self._heading(self.separator)
        if "" in names:
            raise self.error(
                f"column {names.index('') + 1} has no name. If pandas wrote its index there, write "
                "with index=False."
            )
        if repeated := _repeated(names):
            raise self.error(f"two columns are called {repeated!r}.")
        return names

    def _heading(self, separator: str) -> list[str]:
        comments = self._find_comments()
        try:
            first = self._parse(header=None, nrows=1, dtype=str)
        except pd.errors.EmptyDataError:
            raise self.error(
                "it is empty; the first line must have the names of the columns."
            ) from None
        names = [name.strip() for name in first.iloc[0]]
        if self._names:
            if len(names) != len(self._names):
                raise self.error(
                    f"its first line has {len(names)} values, and {len(self._names)} columns are "
                    "named."
                )
            if names == self._names:
                raise self.error("its first line has these names already: name no columns.")
            return self._names
        if comments and all(_is_number(name) for name in names):
            # As np.savetxt writes them: the last comment has the names.
            last = comments[-1].lstrip("".join(COMMENT)).strip()
            named = [name.strip() for name in re.split(separator, last)]
            if len(named) == len(names) and not any(map(_is_number, named)):
                self.notes.append(
                    f"{self.path.name}: the last of its first comments has the names of the "
                    f"columns, {', '.join(named)}."
                )
                self._names = named
                return named
        if len(names) == 1:
            for other in ";\t|, ":
                if other not in names[0]:
                    continue
                if not self._is_chosen and other in ";\t|":  # no part of a name
                    self.notes.append(f"{self.path.name}: its values are separated by {other!r}.")
                    self.separator = other
                    return self._heading(other)
                words = {sign: word for word, sign in SEPARATORS.items()}
                advice = f"separator {words.get(other, 'spaces')}"
                if self._is_chosen:
                    advice = "without the option separator each table is read by its own"
                raise self.error(
                    f"its values seem to be separated by {other!r}, not by {separator!r}: {advice}."
                )
        return names

    def _find_comments(self) -> list[str]:
        """Find the lines that are comments, if the first one is, and return the first ones."""
        opened = gzip.open if self.path.suffix == ".gz" else open
        first: list[str] = []
        with opened(self.path, "rt", encoding="utf-8-sig") as file:
            for number, line in enumerate(file):
                if line.startswith(COMMENT):
                    self._skipped.append(number)
                    if len(first) == number:
                        first.append(line)
                elif not first:
                    return []
        if first:
            self.notes.append(
                f"{self.path.name}: {len(self._skipped):,} lines that begin with "
                f"{first[0][0]} are comments."
            )
        return first

    def _parse(self, **options: Any) -> pd.DataFrame:
        return pd.read_csv(
            self.path,
            sep=self.separator,
            skiprows=self._skipped or None,
            keep_default_na=False,
            skipinitialspace=True,
            encoding="utf-8-sig",
            **options,
        )

    def distinct(self, names: Sequence[str]) -> list[str]:
        """Check that names are those of columns, each in one role; an error has the nearest match
        and the columns."""
        for name in names:
            if name not in self.columns:
                listed = ", ".join(self.columns[:MAX_LISTED])
                if len(self.columns) > MAX_LISTED:
                    listed += f", ... {len(self.columns)} in all"
                raise self.error(
                    f"unknown column {name!r}.{hint(name, self.columns)} Available: {listed}."
                )
        if repeated := _repeated(names):
            raise self.error(f"column {repeated!r} has several roles, and {ONE_ROLE}")
        return list(names)

    def read(self, columns: Sequence[str], text: Collection[str] = ()) -> pd.DataFrame:
        """Some columns, of which ``text`` come without surrounding spaces, and empty where the
        value is missing.

        The type of the others depends on their values.
        """
        homes = {}  # the column in the file of each column
        for name in self.stored:
            homes.update(dict.fromkeys(self.expanded([name]), name))
        wanted = dict.fromkeys(homes[name] for name in columns)
        frame = self._read_stored(list(wanted), text)
        for name in wanted:
            if name in self._widths:
                frame = pd.concat([frame.drop(columns=name), self._lists(frame[name])], axis=1)
        texts = {name: in_text(frame[name]) for name in text}
        return frame[list(columns)].assign(**texts)

    def _read_stored(
        self, columns: Sequence[str], text: Collection[str] = (), rows: int | None = None
    ) -> pd.DataFrame:
        """Some columns of the file, of all rows or the first ones."""
        with self._errors(), warnings.catch_warnings():
            if self.separator is None:
                file = self._parquet_file()
                if rows is None:
                    table = file.read(list(columns))
                else:
                    table = next(file.iter_batches(rows, columns=list(columns)), None)
                if table is None:
                    return pd.DataFrame(columns=list(columns))
                frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
            else:
                # Mixed types are refused, with the row.
                warnings.simplefilter("ignore", pd.errors.DtypeWarning)
                # pandas would drop what the first row has too many.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                missing = {name: list(MISSING) for name in self.stored if name not in text}
                # All columns are read: with some of them, pandas accepts lines that have too many
                # values.
                frame = self._parse(
                    names=self.stored,
                    header=None if self._names else 0,
                    index_col=False,
                    dtype=dict.fromkeys(text, object),
                    na_values=missing,
                    nrows=rows,
                )
        return frame[list(columns)]

    def _lists(self, column: pd.Series) -> pd.DataFrame:
        """A column of lists as a column for each position."""
        lists = column.map(_numbers_in)
        width = self._widths[str(column.name)]
        lengths = lists.map(lambda numbers: -1 if numbers is None else len(numbers))
        self.check_rows(
            lengths != width,
            lambda row: (
                f"{column.name!r} is {str(column.iloc[row])[:MAX_SHOWN]!r}, and the first "
                f"row has a list of {width} numbers."
            ),
        )
        return pd.DataFrame(lists.tolist(), column.index, self.expanded([str(column.name)]))

    def edge_index(self, columns: EdgeColumns, ids: pd.Index, source: str) -> np.ndarray:
        """Positions of the ends of each row in ``ids``, which come from the column ``source``;
        shape (2, edges)."""
        return _edge_index(self, columns, ids, source)

    def error(self, reason: str) -> DataError:
        """The error for a fault of the table as a whole."""
        return DataError(f"table {str(self.path)!r}: {reason}")

    def check_rows(self, faulty: Any, reason: Callable[[int], str]) -> None:
        """Refuse the first faulty row, for the reason that a function of it gives."""
        rows = np.flatnonzero(faulty)
        if len(rows):
            row = int(rows[0])
            raise DataError(f"{str(self.path)!r}, row {row} (from 0): {reason(row)}")

    def _parquet_file(self) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise self.error(
                "Parquet needs the extra `parquet`: pip install 'gnn-depth[parquet]'."
            ) from None
        return ParquetFile(self.path)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Name the file in the errors that pandas, pyarrow and gzip raise for damaged files."""
        try:
            yield
        except (DataError, MemoryError):
            raise
        except pd.errors.ParserWarning:
            count = len(self.stored)
            raise self.error(f"row 0 (from 0) has more values than the {count} columns.") from None
        except UnicodeDecodeError:
            raise self.error(
                "it is not UTF-8. Save it as UTF-8, in a spreadsheet as 'CSV UTF-8'."
            ) from None
        except (OSError, EOFError, ValueError, zlib.error) as error:
            reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
                reason = (
                    f"line {found[2]} has {found[3]} values for {found[1]} columns. "
                    "Text that contains a separator needs quotes."
                )
            raise self.error(f"it cannot be read: {reason or type(error).__name__}") from None


def _ids(table: TableFile, column: pd.Series) -> pd.Index:
    """The ids of the nodes: int64 if all are plain integers, otherwise text, so that ``007`` is not
    ``7``."""
    table.check_rows(column == "", lambda _: f"{column.name!r} is missing; every node needs an id.")
    integers = bool(column.str.fullmatch(INTEGER).all())
    ids = pd.Index(column.to_numpy(), dtype=object).astype(np.int64 if integers else object)

    def reason(row: int) -> str:
        first = int((ids == ids[row]).argmax())
        return f"id {_shown(column[row])} is already in row {first}; every node needs its own."

    table.check_rows(ids.duplicated(), reason)
    return ids


def _edge_index(table: TableFile, columns: EdgeColumns, ids: pd.Index, source: str) -> np.ndarray:
    """Positions of sources and targets in ``ids``, which come from the column ``source``; shape (2,
    edges)."""
    names = list(columns.ends or table.columns[:2])
    if len(names) != 2:
        raise table.error(f"an edge has two ends, in two columns, not in {', '.join(names)}.")
    table.distinct([*names, *columns.of_each])
    if all(re.fullmatch(INTEGER, name) or name in ids for name in names):
        raise table.error(
            f"its first line, {', '.join(names)}, is an edge instead of column names.\n"
            "Name the columns: edge_columns [source, target]."
        )
    # Integers are far faster to read and find than text.
    frame = table.read(names) if ids.dtype == np.int64 else None
    if frame is None or any(frame[name].dtype.kind != "i" for name in names):
        frame = table.read(names, text=names)
        ids = pd.Index([str(value) for value in ids], dtype=object)
    found = np.stack([ids.get_indexer(frame[name]) for name in names])

    def reason(row: int) -> str:
        name = names[int(found[0, row] >= 0)]
        value = str(frame[name].iloc[row])
        if not value:
            return f"{name} is missing."
        return (
            f"{name} {_shown(value)} is not an id in the column {source}, whose ids look like "
            f"{_shown(str(ids[0]))}."
        )

    table.check_rows((found < 0).any(0), reason)
    return found


def _targets(
    table: TableFile, frame: pd.DataFrame, missing_label: float | str | None
) -> np.ndarray:
    """The numbers to predict at each node, NaN where one is missing."""
    if isinstance(missing_label, str):
        frame = frame.mask(frame.astype(str) == missing_label)
    rule = "targets must be finite numbers, or empty for a node without one."
    numbers = _numbers(table, frame, rule, empty=True)
    return numbers[:, 0] if numbers.shape[1] == 1 else numbers


def _numbers(table: TableFile, frame: pd.DataFrame, rule: str, empty: bool = False) -> np.ndarray:
    """Columns of finite numbers, shape (rows, columns); with ``empty``, NaN where a value is
    missing."""
    numbers, blanks = frame.copy(), frame.isna()
    for name in frame:
        if frame[name].dtype.kind not in "biuf":  # text, dates
            texts = frame[name].astype(str).str.strip()
            numbers[name] = pd.to_numeric(texts, errors="coerce")
            blanks[name] |= texts.isin(MISSING)
    values = numbers.to_numpy(np.float64, copy=True)  # without the copy it may be read-only
    fits = np.isfinite(values)
    if empty:
        fits |= blanks.to_numpy(bool)

    def reason(row: int) -> str:
        name = frame.columns[int(np.argmin(fits[row]))]
        value = frame[name].iloc[row]
        said = "missing" if pd.isna(value) else str(value)[:MAX_SHOWN]
        return f"{name!r} is {said}; {rule}"

    table.check_rows(~fits.all(1), reason)
    return values


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return False
    return True


def _counted(names: Sequence[str]) -> list[str]:
    """Names of columns, of which ``word*3`` stands for word_0, word_1 and word_2."""
    found = []
    for name in names:
        several = re.fullmatch(r"(.*)\*(\d+)", name)
        if several is None:
            found.append(name)
        else:
            found += [f"{several[1]}_{number}" for number in range(int(several[2]))]
    return found


def _numbers_in(value: Any) -> list[float] | None:
    """The numbers of a list, or of text such as ``0.1, 0.2``; None for another value."""
    if isinstance(value, str):
        words: Any = value.strip("[]() ").replace(",", " ").split()
        return [float(word) for word in words] if _are_numbers(words) else None
    if isinstance(value, list | tuple | np.ndarray) and _are_numbers(value):
        return [float(item) for item in value]
    return None


def _are_numbers(items: Any) -> bool:
    return len(items) > 1 and all(_is_number(item) for item in items)


class SeveralTables(TableFile):
    """Tables of the nodes to train, validate and test on, as one with the column ``split``.

    Args:
        tables: The table of each set.
    """

    def __init__(self, tables: Mapping[str, TableFile]) -> None:
        for name in tables:
            if name not in SPLITS:
                raise DataError(unknown("set of nodes", name, SPLITS))
        first = next(iter(tables.values()))
        super().__init__(first.path)
        self.tables = tables

    @cached_property
    def columns(self) -> list[str]:
        first, *others = self.tables.values()
        for other in others:
            if set(other.columns) != set(first.columns):
                differing = sorted({*first.columns} ^ {*other.columns})
                raise other.error(
                    f"it must have the columns of {first.path.name}; they differ in "
                    f"{', '.join(differing[:MAX_LISTED])}."
                )
        if "split" in first.columns:
            raise first.error("it has a column called split, and the tables are the split.")
        for table in self.tables.values():
            self.notes += table.notes
        return [*first.columns, "split"]

    def read(self, columns: Sequence[str], text: Collection[str] = ()) -> pd.DataFrame:
        _ = self.columns
        frames = []
        own = [name for name in columns if name != "split"]
        for split, table in self.tables.items():
            frame = table.read(own, [name for name in text if name != "split"])
            frames.append(frame.assign(split=split))
        return pd.concat(frames, ignore_index=True)[list(columns)]

    def error(self, reason: str) -> DataError:
        files = ", ".join(str(table.path) for table in self.tables.values())
        return DataError(f"tables {files}, one after the other: {reason}")

    def check_rows(self, faulty: Any, reason: Callable[[int], str]) -> None:
        rows = np.flatnonzero(faulty)
        if not len(rows):
            return
        start = row = int(rows[0])
        for table in self.tables.values():
            length = len(table.read([]))
            if start < length:
                raise DataError(f"{str(table.path)!r}, row {start} (from 0): {reason(row)}")
            start -= length


def _masks_of_split(table: TableFile, column: pd.Series) -> dict[str, np.ndarray]:
    """The masks that a column of train, val and test stands for."""
    split = column.str.lower()

    def reason(row: int) -> str:
        fault = unknown(str(column.name), column[row][:MAX_SHOWN], SPLITS)
        return f"{fault} Leave it empty for a node in none of them."

    table.check_rows(~split.isin([*SPLITS, ""]), reason)
    return {f"{name}_mask": (split == name).to_numpy(bool) for name in SPLITS}


def _is_true(table: TableFile, column: pd.Series) -> np.ndarray:
    """A column of true and false, or of 1 and 0."""
    words = column.str.lower()
    true, false = ("true", "1", "1.0"), ("false", "0", "0.0")
    table.check_rows(
        ~words.isin([*true, *false]),
        lambda row: f"{column.name!r} is {_shown(column[row])}, and must be true or false.",
    )
    return words.isin(true).to_numpy(bool)


def _shown(value: str) -> str:
    return repr(value[:MAX_SHOWN])


def _repeated(names: Sequence[str]) -> str | None:
    """The first name that occurs more than once."""
    for name, count in Counter(names).items():
        if count > 1:
            return name
    return None
