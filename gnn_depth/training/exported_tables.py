"""Predict from raw tables with an exported model: it needs PyTorch, pandas and PyYAML alone.

``gnn-depth export`` writes this file beside the model, under the same name: ``risk.py`` beside
``risk.pt2``. The tables are read as ``gnn-depth predict`` reads them, by the schema in the model:

.. code-block:: python

    from risk import predict

    table = predict("nodes.csv", "edges.csv")
"""

import re
import warnings
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml

MODEL = Path(__file__).with_suffix(".pt2")
#: Ways to write a missing number or date; a missing category is an empty text.
MISSING = ("", "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None")
INTEGER = r"0|-?[1-9]\d{0,17}"
NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?"
YEAR, WEEK = 365.2425, 7.0  # days
ENDS = ["source", "target"]
SPACED = (".txt", ".content", ".cites", ".edges", ".data")  # files whose values spaces separate
PREFIXES = {"multiclass": "class", "multilabel": "label", "regression": "value"}


def predict(
    nodes: str | Path | pd.DataFrame, edges: str | Path | pd.DataFrame, unknown: str = "error"
) -> pd.DataFrame:
    """Predict every node of a graph in two tables.

    Args:
        nodes: The table of nodes: text with a first line of names, a .parquet, or a DataFrame.
            Values are separated by what the end of the file's name says (.csv, .tsv, .txt), or by
            the semicolons, tabs or bars in its first line. Numbers have decimal points, and dates
            the form 2024-12-31. pandas reads 01 as 1 unless it is told ``dtype=str``.
        edges: The table of edges.
        unknown: Refuse missing columns, unknown categories and missing values (``error``); or
            ``ignore`` them: a category is none, a number is what ``fill`` chose in the training
            (such as the median), or else the mean.

    Returns:
        A row for each node: its id; for classes the predicted class and its probability; then a
        column for each class, label or number.

    Raises:
        ValueError: A table does not have what the model was trained on; column and row are named.
    """
    if unknown not in ("error", "ignore"):
        raise ValueError(f"unknown is 'error' or 'ignore', not {unknown!r}.")
    program, schema = _model()
    ids, inputs = _inputs(_table(nodes), _table(edges), schema, unknown == "ignore")
    with torch.no_grad():
        values = program(**inputs).numpy()
    columns: dict[str, Any] = {"node": ids}
    if schema["task"] == "multiclass":
        columns["predicted"] = np.array(schema["outputs"], object)[values.argmax(1)]
        columns["probability"] = values.max(1)
    for place, name in enumerate(schema["outputs"]):
        columns[f"{PREFIXES[schema['task']]}_{name}"] = values[:, place]
    return pd.DataFrame(columns)


@cache
def _model() -> tuple[Any, dict[str, Any]]:
    """The exported program, and what it expects."""
    inside = {"schema.yaml": ""}
    program = torch.export.load(MODEL, extra_files=inside)
    return program.module(), yaml.safe_load(inside["schema.yaml"])


def _table(table: str | Path | pd.DataFrame) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table.reset_index(drop=True)
    if str(table).lower().endswith(".parquet"):
        return pd.read_parquet(table).reset_index(drop=True)
    ending = str(table).lower().removesuffix(".gz")
    separator = ","
    if ending.endswith(".tsv"):
        separator = "\t"
    elif ending.endswith(SPACED):
        separator = r"\s+"
    names = list(_read_text(table, separator, 0))
    if len(names) == 1:  # a whole line, if it holds another sign
        separator = next((sign for sign in ";\t|" if sign in names[0]), separator)
    return _read_text(table, separator)


def _read_text(path: str | Path, separator: str, rows: int | None = None) -> pd.DataFrame:
    with warnings.catch_warnings():
        # pandas would drop the values that a row has too many.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # As text: 01 is not 1, and the types are those of the schema.
            frame = pd.read_csv(
                path,
                sep=separator,
                dtype=str,
                index_col=False,
                nrows=rows,
                keep_default_na=False,
                skipinitialspace=True,
                encoding="utf-8-sig",
            )
        except pd.errors.ParserWarning as warning:
            raise ValueError(
                f"{path}: rows have more values than the first line has names."
            ) from warning
    return frame.rename(columns=str.strip)


def _inputs(
    nodes: pd.DataFrame, edges: pd.DataFrame, schema: dict[str, Any], ignore: bool
) -> tuple[pd.Index, dict[str, torch.Tensor]]:
    """The ids of the nodes, and what the program takes, by name."""
    source, target = schema["ends"]
    for table, name in ((nodes, schema["id"]), (edges, source), (edges, target)):
        if name in table:
            continue
        message = f"there is no column {name!r}, which had the ids in the training."
        if schema["id"] in edges and {source, target} <= set(nodes):
            message += " The tables are in each other's place: predict(nodes, edges)."
        raise ValueError(message)
    texts = _texts(nodes[schema["id"]])
    ids = pd.Index(texts)
    _refuse((texts == "") | ids.duplicated(), "the id is missing, or that of an earlier row", texts)
    graph = pd.DataFrame()
    has_integers = ids.str.fullmatch(INTEGER).all()
    for end, name in zip(ENDS, schema["ends"], strict=True):
        texts = _texts(edges[name])
        if has_integers:  # 744.0, as programs write integers of a column with gaps
            texts = texts.str.replace(r"^(-?\d+)\.0+$", r"\1", regex=True)
        graph[end] = ids.get_indexer(texts)
        _refuse(graph[end] < 0, f"{name!r} is no id of a node", texts)
    if has_integers:
        ids = ids.astype(np.int64)

    x = np.ones((len(nodes), 1))  # for a model without columns
    if "columns" in schema:
        x = _scaled(_features(nodes, schema["columns"], ignore), schema["columns"])
    if schema["normalize_features"]:
        size = np.abs(x).sum(1, keepdims=True)
        # A row of zeros stays one.
        x = x / np.where(size == 0, 1, size)

    of_edges = schema.get("edge_columns", [])
    if "edge_weight" in schema:
        name = schema["edge_weight"]
        weight = _features(edges, [{"name": name, "kind": "number"}], ignore=False)[:, 0]
        _refuse(pd.Series(weight < 0), f"{name!r} is below zero", pd.Series(weight))
        graph["edge_weight"] = weight
    features = pd.DataFrame(_features(edges, of_edges, ignore))
    graph = _merged(pd.concat([graph, features], axis=1), schema)
    graph[features.columns] = _scaled(graph[features.columns].to_numpy(), of_edges)
    if schema["undirected"]:
        graph = _both_ways(graph)

    inputs = {"x": torch.tensor(x, dtype=torch.float32)}
    inputs["edge_index"] = torch.tensor(graph[ENDS].to_numpy().T.copy())
    if "edge_weight" in schema:
        inputs["edge_weight"] = torch.tensor(graph["edge_weight"].to_numpy(), dtype=torch.float32)
    if of_edges:
        attr = graph[features.columns].to_numpy()
        inputs["edge_attr"] = torch.tensor(attr, dtype=torch.float32)
    # torch.export takes sizes of 0 and 1 for constants of the program.
    if len(nodes) < 2 or len(graph) < 2:
        raise ValueError("an exported model needs at least two nodes and two edges.")
    return ids, inputs


def _refuse(rows: pd.Series, fault: str, values: pd.Series) -> None:
    if rows.any():
        row = int(np.flatnonzero(rows)[0])
        raise ValueError(f"row {row} (from 0), {str(values[row])!r}: {fault}.")


def _texts(column: pd.Series) -> pd.Series:
    """Values as text, empty where there is none."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")  # integers with a missing one among them come as floats
    return column.astype(object).where(column.notna(), "").astype(str).str.strip()


def _features(table: pd.DataFrame, columns: list[dict[str, Any]], ignore: bool) -> np.ndarray:
    """The features of columns before they are scaled, shape (rows, features)."""
    faults = []
    parts = [np.empty((len(table), 0))]
    for column in columns:
        name, kind = column["name"], column["kind"]
        is_there = name in table
        texts = pd.Series("", table.index)
        if is_there:
            texts = _texts(table[name])
        if kind == "category":
            part, blank = _one_hot(texts, column["values"]), texts == ""
        elif kind == "date":
            part, blank = _dates(texts, column), texts.isin(MISSING)
        else:
            part, blank = _numbers(texts), texts.isin(MISSING)
        without = np.isnan(part).any(1)
        wrong = np.flatnonzero(without & ~blank)
        missing = np.flatnonzero(without & blank)
        if not is_there:
            faults.append(f"there is no column {name!r}.")
        elif len(wrong):
            value = texts[wrong[0]]
            faults.append(
                f"{name!r}: {value!r} is no {kind} of the model (row {wrong[0]}, from 0; "
                f"{len(wrong):,} rows in all)."
            )
        if is_there and len(missing) and "fill" not in column:
            faults.append(f"{name!r} is missing (row {missing[0]}, from 0).")
        stand_in = column.get("fill", column.get("mean", 0.0))
        if kind == "category" or column.get("dates") == "cyclic":
            stand_in = 0.0
        parts.append(np.nan_to_num(part, nan=stand_in))
    if faults and not ignore:
        raise ValueError("\n".join([*faults, "unknown='ignore' takes them as none."]))
    for fault in faults:
        warnings.warn(f"{fault} Taken as missing.", stacklevel=2)
    return np.concatenate(parts, 1)


def _numbers(texts: pd.Series) -> np.ndarray:
    words = texts.str.lower().replace({"true": "1", "false": "0"})
    numbers = pd.to_numeric(words, errors="coerce").to_numpy(np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)[:, None]


def _dates(texts: pd.Series, column: dict[str, Any]) -> np.ndarray:
    # 20241231 is a date, and other numbers are not.
    texts = texts.mask(texts.str.fullmatch(r"\d+") & (texts.str.len() != 8), "")
    dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    days = ((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy()
    if column["dates"] == "cyclic":
        angles = 2 * np.pi * np.stack([days / YEAR, days / WEEK], 1)
        return np.stack([np.sin(angles), np.cos(angles)], 2).reshape(len(days), 4)
    first = pd.Timestamp(column["first"]) - pd.Timestamp(0)
    return (days - first / pd.Timedelta(days=1))[:, None]


def _one_hot(texts: pd.Series, values: list[str]) -> np.ndarray:
    """A feature of 0 and 1 for each value of a category; NaN in the rows of another value."""
    places = pd.Index(values).get_indexer(texts)
    numbers = [_as_number(value) for value in values]
    # 2.0 is the category 2 if no other one is, and 02 is not.
    for row in np.flatnonzero(places < 0):
        number = _as_number(texts[row])
        if number is not None and numbers.count(number) == 1:
            places[row] = numbers.index(number)
    features = (places[:, None] == np.arange(len(values))).astype(np.float64)
    features[places < 0] = np.nan
    return features


def _as_number(text: str) -> Decimal | None:
    if re.fullmatch(NUMBER, text):
        return Decimal(text)  # exact: 0.1 is no other number
    return None


def _scaled(x: np.ndarray, columns: list[dict[str, Any]]) -> np.ndarray:
    x = x.copy()
    place = 0
    for column in columns:
        if "scaling" in column:
            scaling, values = column["scaling"], x[:, place]
            if scaling["method"] == "log1p":
                values = np.sign(values) * np.log1p(np.abs(values))
            x[:, place] = (values - scaling["shift"]) / scaling["scale"]
        if "values" in column:  # a feature for each category
            place += len(column["values"])
        elif column.get("dates") == "cyclic":  # sine and cosine of year and week
            place += 4
        else:
            place += 1
    return x


def _merged(graph: pd.DataFrame, schema: dict[str, Any]) -> pd.DataFrame:
    """One edge for all rows with the same ends, if the model was trained so."""
    if "repeated_edges" not in schema:
        return graph
    rule = schema["repeated_edges"]
    merged = graph.groupby(ENDS, as_index=False).agg(rule)
    if not schema["undirected"]:
        return merged
    reverse = _reversed(merged).sort_values(ENDS)
    is_mirrored = np.array_equal(reverse[ENDS], merged[ENDS])
    if is_mirrored and np.allclose(reverse, merged, rtol=1e-9):
        return merged  # the two directions of each edge
    low_first = graph.copy()
    low_first[ENDS] = np.sort(graph[ENDS].to_numpy(), 1)
    return low_first.groupby(ENDS, as_index=False).agg(rule)


def _both_ways(graph: pd.DataFrame) -> pd.DataFrame:
    """Each edge once in both directions."""
    # An edge that the table has in both directions would be there twice.
    both = pd.concat([graph, _reversed(graph)], ignore_index=True).drop_duplicates()
    conflicting = both[both.duplicated(ENDS)]
    if len(conflicting):
        row = int(conflicting.index[0]) % len(graph)
        raise ValueError(f"edge {row} (from 0) has other values than an earlier one of its ends.")
    return both


def _reversed(graph: pd.DataFrame) -> pd.DataFrame:
    return graph.rename(columns=dict(zip(ENDS, ENDS[::-1], strict=True)))[graph.columns]
