"""A user's graph in two tables: edges, and nodes with their features and classes."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.data.checks import MASKS, SPLITS, listed
from gnn_depth.data.columns import (
    FEW_CATEGORIES,
    ColumnFacts,
    EdgeColumns,
    NodeColumns,
    date_mark_among,
    facts_of,
    propose,
)
from gnn_depth.data.default_roles import are_dates, with_defaults
from gnn_depth.data.encoding import (
    MAX_SHOWN,
    NO_COLUMN,
    Encoder,
    category_column,
    date_column,
    in_text,
    missing_columns,
    stand_in,
)
from gnn_depth.data.leaks import note_leaks
from gnn_depth.data.notation import MISSING, mark_among
from gnn_depth.data.scaling import words_of_columns
from gnn_depth.data.schema import Column, Schema, Unknown
from gnn_depth.data.source import Given
from gnn_depth.data.table_files import MAX_LISTED, TableFile, shown_value
from gnn_depth.data.targets import INTEGER
from gnn_depth.registry import unknown

DATES = ("days", "cyclic")
#: What to do about a number such as -999, of nodes and of edges.
EMPTY_CELLS = "leave these cells empty (features need fill; missing_label {} does it for a target)"
EMPTY_DATES = "leave these cells empty and give fill"
NO_ROWS = "leave out these rows or the column: every edge needs a weight"
#: What values must be, and advice by words of the faults.
FINITE = "features must be finite numbers."
FILLED = {
    "is missing": (
        "fill (--data.fill median) stands for missing values, but not of edges that "
        "repeated_edges adds up."
    )
}
TRAINED = "the model was trained on other columns or values:"
IGNORED = {
    "": (
        "With unknown ignore (--data.unknown ignore) unknown categories are none, and missing "
        "numbers are what fill chose in the training, or else their mean."
    ),
    NO_COLUMN: (
        "A column that is not there is replaced as a whole: every row gets what stands for a "
        "missing value."
    ),
}
EMPTY_OF_EDGES = "leave these cells empty and give fill: every edge needs a value"


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
    edges: TableFile,
    nodes: TableFile,
    columns: NodeColumns,
    of_edges: EdgeColumns,
    missing_label: float | str | None,
    trained: TargetModel | None,
    scales: bool,
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
    # A model of arrays knows no names: its tables are read as those of a training are.
    by_name = trained if trained is not None and trained.schema.named else None
    if by_name is not None:
        columns, of_edges = _as_trained(edges, nodes, columns, of_edges, by_name)
    columns, masks = with_defaults(nodes, columns, notes)
    # After the defaults, so that a split in the table is no feature, either.
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
    if by_name is not None:
        x = _features_as_trained(nodes, frame, columns, by_name, notes)
        found: Sequence[Column] = by_name.schema.columns
    else:
        needs_label = trained is None and not columns.label and not columns.targets
        seen = " shows every column and what would be read.\n"
        shown_by = f"`gnn-depth inspect {nodes.path} {edges.path}`{seen}"
        if nodes.is_frame:
            shown_by = f"`gnn-depth inspect`, on tables saved as files,{seen}"
        elif nodes.path == edges.path:  # inspect shows no columns of one file with a whole graph
            shown_by = ""
        # One error lists all columns that need a decision, before any of them is encoded.
        facts = [facts_of(name, frame[name]) for name in names]
        _check_decided(nodes, frame, facts, columns, needs_label, scales, shown_by)
        notes += note_leaks(frame, columns, missing_label)
        x, found = _new_features(nodes, frame, facts, columns, notes)
    if x.shape[1]:
        arrays["x"] = x
    else:  # features can be made from the edges
        arrays["num_nodes"] = len(frame)
    if columns.label:
        arrays["y"] = frame[columns.label].to_numpy(object)
    elif columns.targets:
        arrays["y"] = _targets(nodes, frame[list(columns.targets)], missing_label)
        # Here, where the names of the targets are known, and not once they are an array.
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
        # Here and not in Graph, whose error would have no row of the table.
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
    label = (columns.label,) if columns.label else tuple(columns.targets)
    of_schema = {
        "label": label,
        "split": columns.split,
        "id": columns.id,
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
    edges: TableFile,
    nodes: TableFile,
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
    ends = list(of_edges.ends)
    if not ends or not set(ends) <= set(edges.columns):
        ends = list(schema.ends)
    _refuse_renamed(edges, "ends", ends, "[SOURCE, TARGET]")
    of_each = [column.name for column in schema.edge_columns]
    # Features that are lacking may have stand-ins; a weight that is lacking has none.
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
        for name in (schema.split, columns.split):  # an option comes before the training's name
            if name in nodes.columns:
                split = name
    here = [column for column in schema.columns if column.name in nodes.columns]
    categories = [column.name for column in here if column.kind == "category"]
    features = [column.name for column in here if column.kind != "category"]
    roles = NodeColumns(label, id, split, features, categories, targets)
    return roles, EdgeColumns(ends, schema.edge_weight or "", present)


def _refuse_renamed(table: TableFile, option: str, names: Sequence[str], value: str) -> None:
    """Refuse a table for a trained model without the columns of its ids, which an option names."""
    lacking = [repr(name) for name in names if name not in table.columns]
    if not lacking:
        return
    raise table.error(
        f"there is no column {' and no column '.join(lacking)}, which had the ids in the training. "
        f"If they have another name here, say so: {option} {value} (--data.{option} "
        f"{shlex.quote(value)}). Available: {listed(table.columns, MAX_LISTED)}."
    )


def _features_as_trained(
    nodes: TableFile,
    frame: pd.DataFrame,
    columns: NodeColumns,
    trained: TargetModel,
    notes: list[str],
) -> np.ndarray:
    """The features that a model was trained on, shape (rows, features)."""
    schema = trained.schema
    known = {*schema.label, columns.id, schema.split, columns.split, *MASKS, "split"}
    known |= {column.name for column in schema.columns}
    extra = [name for name in nodes.columns if name not in known]
    if extra:
        shown = listed(list(map(repr, extra)), MAX_LISTED)
        notes.append(f"not read, because the model does not know them: {shown}.")
    encoder = Encoder(trained.unknown)
    lacking = missing_columns(schema.columns, nodes.columns, encoder, unread=extra)
    parts = _encoded(nodes, encoder, schema.columns, frame, TRAINED, IGNORED, lacking)
    return _joined(encoder, schema.columns, parts, frame, notes)


def _encoded(
    table: TableFile,
    encoder: Encoder,
    columns: Sequence[Column],
    frame: pd.DataFrame,
    rule: str,
    advice: Mapping[str, str],
    lacking: Collection[str] = (),
) -> list[np.ndarray]:
    """The features of each column, shape (rows, width), and stand-ins for those that a table lacks.

    Raises:
        DataError: A value is not what the rule says; one error has all faults, and the advice whose
            words occur in them.
    """
    parts = []
    for column in columns:
        if column.name in lacking:
            parts.append(stand_in(column, len(frame)))
        else:
            parts.append(encoder.encode(column, frame[column.name]))
    if encoder.faults:
        lines = "".join(f"\n  {fault}" for fault in encoder.faults)
        said = [each for words, each in advice.items() if words in lines]
        raise table.error("\n".join([f"{rule}{lines}", *said]))
    return parts


def _joined(
    encoder: Encoder,
    columns: Sequence[Column],
    parts: Sequence[np.ndarray],
    frame: pd.DataFrame,
    notes: list[str],
    rows: str = "rows",
    advice: str = EMPTY_CELLS,
) -> np.ndarray:
    """The features of all columns, shape (rows, features), with notes on what was read as what."""
    encoder.note_blanks(len(frame), rows)
    notes += encoder.notes
    _note_marks(columns, parts, None, notes, advice)
    return np.concatenate([np.empty((len(frame), 0)), *parts], 1)


def _edge_features(
    edges: TableFile,
    roles: EdgeColumns,
    trained: TargetModel | None,
    notes: list[str],
) -> tuple[np.ndarray, Sequence[Column]]:
    """The features of the edges, shape (rows, features), and their columns: those of a trained
    model, or new ones, whose missing values may be filled in."""
    if trained is None or not trained.schema.edge_columns:
        names = list(roles.features or ())
        frame = edges.read(names)
        columns = [_edge_column(edges, frame[name], notes) for name in names]
        encoder = Encoder(fills=roles.fills)
        parts = _encoded(edges, encoder, columns, frame, FINITE, FILLED)
    else:
        columns = list(trained.schema.edge_columns)
        names = [column.name for column in columns]
        encoder = Encoder(trained.unknown)
        read = {*trained.schema.ends, *roles.ends, *names}
        unread = [name for name in edges.columns if name not in read]
        lacking = missing_columns(columns, edges.columns, encoder, "edge", unread)
        frame = edges.read([name for name in names if name not in lacking])
        parts = _encoded(edges, encoder, columns, frame, TRAINED, IGNORED, lacking)
    return _joined(encoder, columns, parts, frame, notes, "edges", EMPTY_OF_EDGES), columns


def _edge_column(edges: TableFile, values: pd.Series, notes: list[str]) -> Column:
    """A new column of features of the edges: numbers, or text of few values as features of 0 and 1.

    Raises:
        DataError: It is neither.
    """
    facts = facts_of(str(values.name), values)
    # There is no option for categories of edges: the values decide, and a note says so.
    is_text = facts.kind == "text" and facts.distinct <= FEW_CATEGORIES
    if not (facts.is_numeric or is_text) or len(facts.strange):
        raise edges.error(
            f"{facts.name!r} cannot be a feature of the edges: {facts.unread}. "
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


def _new_features(
    nodes: TableFile,
    frame: pd.DataFrame,
    facts: Sequence[ColumnFacts],
    columns: NodeColumns,
    notes: list[str],
) -> tuple[np.ndarray, Sequence[Column]]:
    """The features of a table to train on, shape (rows, features), and their columns."""
    names = [one.name for one in facts]
    dates = [one.name for one in facts if are_dates(one, columns)]
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
    notes += _spellings(found)
    encoder = Encoder(fills=columns.fills)
    parts = _encoded(nodes, encoder, found, frame, FINITE, FILLED)
    return _joined(encoder, found, parts, frame, notes), found


def _spellings(columns: Sequence[Column]) -> list[str]:
    """Sentences on categories whose names differ by upper and lower case alone."""
    notes = []
    for column in columns:
        by_word: dict[str, list[str]] = {}
        for value in column.values:
            by_word.setdefault(value.casefold(), []).append(value)
        several = []
        for spellings in by_word.values():
            if len(spellings) > 1:
                several.append(" and ".join(map(repr, spellings)))
        if several:
            shown = ", ".join(several[:MAX_LISTED])
            notes.append(f"categories that differ by case alone, in {column.name!r}: {shown}.")
    return notes


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
        # Cyclic dates have no day any more, and 1900-01-01 is a day of the year like others.
        if column.dates == "days":
            date = date_mark_among(values[:, 0], column.first)
            if date is not None:
                mark, count, others = date
                notes.append(
                    f"{column.name!r} is {mark} in {count:,} rows, far from its other dates "
                    f"({others}). If that means missing, {EMPTY_DATES}."
                )
        if column.kind != "number":
            continue
        found = mark_among(values[:, 0])
        # Within the range of the training a number is one that the model has learned from.
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


def _check_decided(
    nodes: TableFile,
    frame: pd.DataFrame,
    facts: Sequence[ColumnFacts],
    columns: NodeColumns,
    needs_label: bool,
    scales: bool,
    shown_by: str,
) -> None:
    """Name all columns of a table that cannot be features as they are, and options that decide."""
    proposal = propose(facts, columns, needs_label, scales)
    lines = []
    for column in facts:
        if column.name in proposal.why:
            lines.append(f"  {_first(frame, column)}: {proposal.why[column.name]}")
    for name in columns.categories:
        blank = np.flatnonzero(in_text(frame[name]) == "")
        if len(blank) and not columns.fills:
            values = facts_of(name, frame[name]).described
            lines.append(f"  row {blank[0]} (from 0): {name!r} is missing: {values}")
            proposal.options["fill"] = "median"
    if needs_label:
        lines.insert(0, "  no column is the label (classes) or one of the targets (numbers)")
    if not lines:
        return
    if needs_label and not {"label", "targets"} & set(proposal.options):
        proposal.options["label"] = "COLUMN"  # no column looks like one
    count = "a decision is" if len(lines) == 1 else f"{len(lines)} decisions are"
    if proposal.options:
        lines.append(f"For example: {proposal.flags}")
    raise nodes.error(
        f"{count} needed before training.\n" + "\n".join(lines) + "\n"
        f"{shown_by}"
        "`label` or `targets` is what is predicted, `categories` become features of 0 and 1, "
        "`drop` leaves columns out (`features` lists those to use), `dates` become numbers, `fill` "
        "stands for missing values, and `split` has train, val and test."
    )


def _first(frame: pd.DataFrame, column: ColumnFacts) -> str:
    """The first row of a column that needs a decision, in words."""
    row = 0
    if column.is_numeric or column.kind == "dates":
        # Among numbers it is the first odd cell that needs a decision, else the first empty one.
        row = int([*column.strange, *column.missing, 0][0])
    value = frame[column.name].iloc[row]
    said = f"is {str(value)[:MAX_SHOWN]}"
    if pd.isna(value) or str(value).strip() in MISSING:
        said = "is missing"
    return f"row {row} (from 0): {column.name!r} {said}"


def _note_unread(edges: TableFile, columns: EdgeColumns, notes: list[str]) -> None:
    """Tell which columns of the edges are not read, unless their roles were chosen."""
    if columns.weight is not None or columns.features is not None:
        return
    ends = columns.ends or edges.columns[:2]
    unread = [name for name in edges.columns if name not in ends]
    if unread:
        verb = "is" if len(unread) == 1 else "are"
        notes.append(
            f"{' and '.join(unread)} of {edges.path.name} {verb} not read: edge_weight names a "
            "column of weights, edge_features columns of features."
        )


def _ids(table: TableFile, column: pd.Series) -> pd.Index:
    """The ids of the nodes: int64 if all are plain integers, otherwise text, so that ``007`` is not
    ``7``."""
    table.check_rows(column == "", lambda _: f"{column.name!r} is missing; every node needs an id.")
    ids = pd.Index(column.to_numpy(), dtype=object)
    if column.str.fullmatch(INTEGER).all():
        ids = ids.astype(np.int64)

    def reason(row: int) -> str:
        first = int((ids == ids[row]).argmax())
        return f"id {shown_value(column[row])} is already in row {first}; every node needs its own."

    table.check_rows(ids.duplicated(), reason)
    return ids


def _targets(
    table: TableFile, frame: pd.DataFrame, missing_label: float | str | None
) -> np.ndarray:
    """The numbers to predict at each node, NaN where one is missing."""
    # A mark that is a number is found later, among numbers, however it is written here.
    if isinstance(missing_label, str):
        frame = frame.mask(frame.astype(str) == missing_label)
    rule = "targets must be finite numbers, or empty for a node without one."
    numbers = _numbers(table, frame, rule, empty=True)
    if numbers.shape[1] == 1:
        return numbers[:, 0]
    return numbers


def _numbers(table: TableFile, frame: pd.DataFrame, rule: str, empty: bool = False) -> np.ndarray:
    """Columns of finite numbers, shape (rows, columns); with ``empty``, NaN where a value is
    missing."""
    numbers, blanks = frame.copy(), frame.isna()
    for name in frame:
        # One odd cell makes a column text: its numbers are read, and the cell is named.
        if frame[name].dtype.kind not in "biuf":
            texts = frame[name].astype(str).str.strip()
            numbers[name] = pd.to_numeric(texts, errors="coerce")
            blanks[name] |= texts.isin(MISSING)
    values = numbers.to_numpy(np.float64, copy=True)  # without the copy it may be read-only
    fits = np.isfinite(values)
    if empty:
        fits |= blanks.to_numpy(bool)

    def reason(row: int) -> str:
        name = frame.columns[int(np.argmin(fits[row]))]  # the first that does not fit
        value = frame[name].iloc[row]
        said = "missing" if pd.isna(value) else str(value)[:MAX_SHOWN]
        return f"{name!r} is {said}; {rule}"

    table.check_rows(~fits.all(1), reason)
    return values


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
    # Programs write 1.0 for the 1 of a column that once had gaps.
    words = column.str.lower()
    true, false = ("true", "1", "1.0"), ("false", "0", "0.0")
    table.check_rows(
        ~words.isin([*true, *false]),
        lambda row: f"{column.name!r} is {shown_value(column[row])}, and must be true or false.",
    )
    return words.isin(true).to_numpy(bool)
