"""The runs behind a table, one line each."""

from pathlib import Path

import pandas as pd

from gnn_depth.reports.cells import Table
from gnn_depth.reports.errors import ReportError
from gnn_depth.reports.settings import number

ALWAYS = ("seed", "status", "folder")


def raw(table: Table) -> pd.DataFrame:
    """Axes, seed, status, value (under the metric's name) and folder of every run, also of those that do not count."""
    names = [name for name in (*table.axes, *table.row_names, *table.column_names) if name not in ALWAYS]
    names = list(dict.fromkeys(names))
    lines = []
    for row, column, cell in table.each():
        shared = dict(cell.settings) | table.labels(row, column)
        values = [shared.get(name) for name in names]
        lines += [(*values, run.seed, run.status, run.value, run.folder) for run in cell.runs]
    frame = pd.DataFrame(lines, columns=[*names, "seed", "status", table.metric, "folder"])
    for name in names:
        numbers = [None if text is None else number(text) for text in frame[name]]
        if None not in numbers:
            frame[name] = pd.Series(numbers).convert_dtypes()
    return frame.astype({"seed": "Int64"})


def to_csv(table: Table) -> str:
    """The runs behind a table as CSV; nothing stands where there is no value."""
    return str(raw(table).to_csv(index=False, lineterminator="\n"))


def write_parquet(table: Table, path: Path) -> None:
    """Write the runs behind a table to a Parquet file.

    Raises:
        ReportError: The library for it is not installed.
    """
    try:
        raw(table).to_parquet(path, engine="pyarrow", index=False)
    except ImportError as error:
        raise ReportError("Parquet needs the extra `parquet`: pip install 'gnn-depth[parquet]'.") from error
