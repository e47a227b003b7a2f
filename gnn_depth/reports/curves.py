"""Curves of runs over their epochs, from metrics.csv."""

import csv
import warnings
from pathlib import Path

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.errors import ReportError, ReportWarning


def curves(frame: pd.DataFrame, tag: str) -> pd.DataFrame:
    """Values of one metric in every epoch that has one, in long form: columns ``run``, ``epoch``, ``value``.

    ``run`` is the run's label in the frame's index, so that ``curves(frame, tag).join(frame["seed"], on="run")`` has
    the seeds beside. A run without ``metrics.csv`` has no rows.

    Args:
        frame: Runs, as `load` gives them.
        tag: Name of the metric: ``val/acc``.

    Raises:
        ReportError: No run has such a metric.
    """
    tags: set[str] = set()
    rows: list[tuple[object, int, float]] = []
    for run, folder in frame["folder"].items():
        path = Path(folder, "metrics.csv")
        if not path.is_file():
            continue
        try:
            names, found = _read(path, tag)
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"skipped {str(path)!r}, which is damaged ({error!r}).", ReportWarning, stacklevel=2)
            continue
        tags |= names
        rows += [(run, *point) for point in found]
    if tag not in tags:
        raise ReportError(unknown("metric", tag, tags))
    return pd.DataFrame(rows, columns=["run", "epoch", "value"])


def _read(path: Path, tag: str) -> tuple[set[str], list[tuple[int, float]]]:
    """The metrics of a file, and epochs and values of one of them."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")  # what follows was cut off in the writing
    lines = csv.DictReader(whole.splitlines())
    names = set(lines.fieldnames or ()) - {"epoch", "step"}
    return names, [(int(line["epoch"]), float(line[tag])) for line in lines if line.get(tag)]
