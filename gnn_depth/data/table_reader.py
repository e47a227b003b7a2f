"""Read two tables by the schema of a model, with PyTorch, pandas and PyYAML alone.

Training and ``gnn-depth predict`` read tables with this file, and ``gnn-depth export`` copies it
beside a model of tables, under the same name: ``risk.py`` beside ``risk.pt2``. Then

.. code-block:: python

    from risk import predict

    table = predict("nodes.csv", "edges.csv")

A column is a mapping as in ``schema.yaml``: its ``name``, its ``kind``, the ``values`` of a
category, and what was fitted in the training: ``fill`` and ``scaling``.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml

ENDS = ["source", "target"]
PREFIXES = {"multiclass": "class", "multilabel": "label", "regression": "value"}


def read_table(table: str | Path | pd.DataFrame, texts: Sequence[str] = ()) -> pd.DataFrame:
    """A table as pandas reads it; some columns as text, so that the category ``01`` is not 1.

    Raises:
        ValueError: It cannot be read, its columns have no names, or two have one name.
    """
    if isinstance(table, pd.DataFrame):
        found = table.reset_index(drop=True).rename(columns=str)
    else:
        try:
            as_text = pd.read_csv(table, dtype=str)
        except ValueError as error:  # it is empty, or no table of commas
            raise ValueError(f"{table}: {error}") from None
        # A number has no leading zeros; a code such as 01067 has.
        codes = [name for name in as_text if as_text[name].str.fullmatch(r"0\d+").any()]
        # In one piece: of a long table each piece would get types of its own.
        found = pd.read_csv(table, dtype=dict.fromkeys([*texts, *codes], str), low_memory=False)
        if not isinstance(found.index, pd.RangeIndex):
            raise ValueError(f"{table}: rows have more values than the first line has names.")
    if not found.columns.is_unique:
        raise ValueError(f"two columns are called {found.columns[found.columns.duplicated()][0]!r}")
    return found


def take(table: pd.DataFrame | Mapping[str, pd.Series], name: str) -> pd.Series:
    """A column of a table.

    Raises:
        ValueError: There is none of this name.
    """
    if name not in table:
        hint = "".join(f" Did you mean {near!r}?" for near in get_close_matches(name, table, 1))
        raise ValueError(f"there is no column {name!r}; there are {', '.join(table)}.{hint}")
    return table[name]


def encoded(
    frame: pd.DataFrame, columns: Sequence[Mapping[str, Any]], unknown: str = "error"
) -> np.ndarray:
    """The features of some columns before they are scaled, shape (rows, features).

    Raises:
        ValueError: A column is not there, has another type, or a value that the model cannot take.
    """
    parts = [np.empty((len(frame), 0))]
    for column in columns:
        name = column["name"]
        part = _encoded_column(take(frame, name), column, unknown)
        missing = int(np.isnan(part).any(1).sum())
        if missing and column["fill"] is None:
            raise ValueError(
                f"column {name!r} has {missing:,} missing values: fill them with "
                f"table[{name!r}].fillna(...), or train with the option missing: median."
            )
        parts.append(part)
    return np.concatenate(parts, 1)


def _encoded_column(values: pd.Series, column: Mapping[str, Any], unknown: str) -> np.ndarray:
    """The features of one column; NaN where a value is missing."""
    name, kind = column["name"], column["kind"]
    is_number = pd.api.types.is_numeric_dtype(values)
    if kind == "number":
        if not is_number:
            raise ValueError(
                f"column {name!r} has the type {values.dtype}, and must have numbers: "
                f"table[{name!r}] = pd.to_numeric(table[{name!r}])."
            )
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        if np.isinf(numbers).any():
            raise ValueError(f"column {name!r} is infinite in row {np.isinf(numbers).argmax()}.")
        return numbers[:, None]
    if kind == "date":
        # Other ways to write a date would have to be guessed, for each table anew.
        texts = values.astype(object).where(values.notna() & (not is_number))
        dates = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        wrong = values[dates.isna() & values.notna()]
        if len(wrong):
            raise ValueError(
                f"column {name!r} has {wrong.iloc[0]!r}, and dates are written as 2024-12-31: "
                f"table[{name!r}] = pd.to_datetime(table[{name!r}], format='%d.%m.%Y')."
            )
        days = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
        return days.to_numpy(np.float64)[:, None]
    if is_number and values.notna().any():
        raise ValueError(
            f"column {name!r} has the type {values.dtype}, and had text in the training: "
            f"table[{name!r}] = table[{name!r}].astype(str)."
        )
    texts = values.astype(object)
    places = pd.Index(column["values"]).get_indexer(texts.astype(str))
    strange = (places < 0) & texts.notna().to_numpy()
    if strange.any() and unknown == "error":
        raise ValueError(
            f"column {name!r} has the unknown category {texts[strange.argmax()]!r} in "
            f"{strange.sum():,} row(s); the model knows {', '.join(column['values'])}. With "
            "unknown='ignore' it is encoded as zeros."
        )
    features = (places[:, None] == np.arange(len(column["values"]))).astype(np.float64)
    features[texts.isna().to_numpy()] = np.nan
    return features


def read_graph(
    nodes: pd.DataFrame, edges: pd.DataFrame, schema: Mapping[str, Any], unknown: str = "error"
) -> tuple[pd.Index, dict[str, np.ndarray]]:
    """The ids of the nodes, and the arrays of the graph before they are scaled.

    Raises:
        ValueError: A table does not have what the schema names, or an id is wrong.
    """
    ids = pd.Index(take(nodes, schema["id"]))
    wrong = ids.isna() | ids.duplicated()
    if wrong.any():
        row = wrong.argmax()
        raise ValueError(
            f"row {row} (from 0) of the nodes has the id '{ids[row]}', which is missing or that of "
            "an earlier row."
        )
    graph = pd.DataFrame()
    for end, name in zip(ENDS, schema["ends"], strict=True):
        ends = take(edges, name)
        if pd.api.types.is_string_dtype(ids):  # codes, of which these need not have a zero
            ends = ends.astype(str)
        graph[end] = ids.get_indexer(ends)
        unknown_end = graph[end] < 0
        if unknown_end.any():
            row = unknown_end.argmax()
            raise ValueError(
                f"row {row} (from 0) of the edges has '{edges[name][row]}' as {name}, which is "
                f"not the id ({schema['id']}) of a node; ids are such as '{ids[0]}'."
            )
    of_edges, weight = list(schema["edge_columns"]), schema["edge_weight"]
    if weight is not None:
        of_edges.insert(0, {"name": weight, "kind": "number", "fill": None})
    graph = pd.concat([graph, pd.DataFrame(encoded(edges, of_edges, unknown))], axis=1)
    if not schema["directed"]:  # each edge once in both directions
        reverse = graph.rename(columns={"source": "target", "target": "source"})
        both = pd.concat([graph, reverse[graph.columns]], ignore_index=True)
        # An edge that the table has in both directions would be there twice.
        both = both.drop_duplicates()
        conflicting = both.index[both.duplicated(ENDS)]
        if len(conflicting):
            raise ValueError(
                f"row {conflicting[0] % len(graph)} (from 0) of the edges repeats an earlier edge "
                "with other values, and directed false makes one edge of both: merge them with "
                "edges.groupby([...]).sum()."
            )
        graph = both
    values = graph.drop(columns=ENDS).to_numpy()
    arrays = {"x": encoded(nodes, schema["columns"], unknown)}
    arrays["edge_index"] = graph[ENDS].to_numpy(np.int64).T.copy()
    if weight is not None:
        arrays["edge_weight"], values = values[:, 0], values[:, 1:]
        if (arrays["edge_weight"] < 0).any():
            raise ValueError(f"{weight!r} is below 0: weights must not be negative.")
    if schema["edge_columns"]:
        arrays["edge_attr"] = values
    return ids, arrays


def predict(
    nodes: str | Path | pd.DataFrame, edges: str | Path | pd.DataFrame, unknown: str = "error"
) -> pd.DataFrame:
    """Predict every node of a graph in two tables with the exported model beside this file.

    Args:
        nodes: The table of nodes: a CSV file or a DataFrame.
        edges: The table of edges.
        unknown: Refuse categories that the model does not know (``error``), or ``ignore`` them.

    Returns:
        A row for each node: its id; for classes the predicted class and its probability; then a
        column for each class, label or number.

    Raises:
        ValueError: A table does not have what the model was trained on; the column is named.
    """
    inside = {"schema.yaml": ""}
    program = torch.export.load(Path(__file__).with_suffix(".pt2"), extra_files=inside)
    schema = yaml.safe_load(inside["schema.yaml"])
    columns, of_edges = schema["columns"], schema["edge_columns"]
    texts = [column["name"] for column in (*columns, *of_edges) if column["kind"] == "category"]
    tables = read_table(nodes, texts), read_table(edges, texts)
    ids, arrays = read_graph(*tables, schema, unknown)
    if not columns:
        arrays["x"] = np.ones((len(ids), 1), np.float32)
    if "edge_weight" in arrays:
        arrays["edge_weight"] = arrays["edge_weight"].astype(np.float32)
    # The program scales what it is given.
    inputs = {name: torch.tensor(values) for name, values in arrays.items()}
    with torch.no_grad():
        outputs = program.module()(**inputs).numpy()
    table: dict[str, Any] = {"node": ids}
    if schema["task"] == "multiclass":
        table["predicted"] = np.array(schema["outputs"], object)[outputs.argmax(1)]
        table["probability"] = outputs.max(1)
    for place, name in enumerate(schema["outputs"]):
        table[f"{PREFIXES[schema['task']]}_{name}"] = outputs[:, place]
    return pd.DataFrame(table)
