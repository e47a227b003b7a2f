"""Results of runs as one table: a row a run."""

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth.reports.errors import ReportError, ReportWarning
from gnn_depth.runs import ARCHIVE, COLUMNS, FORMAT, RESULTS

NUMBERS = ("seed", "attempt", "seconds", "epochs", "steps", "best_epoch", "num_parameters")
SHOWN = 5  # files that a warning names


def load(*folders: str | Path) -> pd.DataFrame:
    """Read every ``result.json`` below some folders into one table, a row a run.

    The columns are those of `COLUMNS`, then metrics by their names, hyperparameters by their dotted keys, and the axes
    of a sweep by their names; ``frame.attrs`` lists them as ``metrics``, ``hparams`` and ``axes``. Folders called
    ``archive`` are skipped. Of runs of the same config, data and seed the newest that came to a result is kept.

    Args:
        folders: Folders of runs, or of single ones.

    Raises:
        ReportError: A folder does not exist, or holds no result that can be read.
    """
    found, bad = [], []
    for folder in dict.fromkeys(run for top in folders for run in _runs(top)):
        try:
            found.append((folder, _read(folder)))
        except (OSError, ValueError) as error:
            bad.append(f"{str(Path(folder, 'result.json'))!r} {_reason(error)}")
    if bad:
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        _warn(f"skipped {'; '.join(bad[:SHOWN])}{more}.")
    if not found:
        where = ", ".join(repr(str(folder)) for folder in folders)
        raise ReportError(f"there is no result of a run below {where}: no file result.json that can be read.")
    kept = _newest(found)
    if repeated := len(found) - len(kept):
        _warn(f"{repeated} of {len(found)} runs repeat others: of each the newest that came to a result counts.")
    frame = _frame(kept)
    versions = frame["version"].value_counts()
    if len(versions) > 1:
        listed = ", ".join(f"{version} ({count} runs)" for version, count in sorted(versions.items()))
        _warn(f"the runs are of several versions of gnn-depth, whose numbers may differ: {listed}.")
    return frame


def _runs(top: str | Path) -> Iterator[str]:
    """Folders of runs below a folder, in the order of their names; a run holds no further ones."""
    if not Path(top).is_dir():
        raise ReportError(f"there is no folder {str(top)!r}.")
    for folder, inside, files in os.walk(os.path.normpath(top)):
        is_run = "result.json" in files
        inside[:] = [] if is_run else sorted(name for name in inside if name != ARCHIVE)
        if is_run:
            yield folder


def _read(folder: str) -> dict[str, Any]:
    result = json.loads(Path(folder, "result.json").read_bytes())
    if not isinstance(result, dict) or not isinstance(result.get("status"), str):
        raise ValueError("is no result of a run")
    form = result.get("format", 1)  # the first results did not say
    if not isinstance(form, int) or form > FORMAT:
        raise ValueError(f"has format {form!r}, of another gnn-depth (this one reads up to {FORMAT})")
    for part in ("metrics", "hparams", "axes", "packages"):
        if not isinstance(result.setdefault(part, {}), dict):
            raise ValueError(f"has {part} that are no table")
    if taken := [name for name in result["axes"] if name in COLUMNS]:
        raise ValueError(f"has an axis {taken[0]!r}, which is the name of a column of every run")
    return result


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be read ({error.strerror})"
    damaged = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
    return "is truncated or damaged" if damaged else str(error)


def _newest(found: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    kept: dict[Any, tuple[str, dict[str, Any]]] = {}
    for folder, result in found:
        config = result.get("config_sha256")
        same = result.get("identity") or (config and (config, result.get("seed"))) or folder
        if same not in kept or _rank(result) > _rank(kept[same][1]):
            kept[same] = (folder, result)
    return list(kept.values())


def _rank(result: dict[str, Any]) -> tuple[bool, str]:
    return result["status"] in RESULTS, str(result.get("started", ""))


def _frame(found: list[tuple[str, dict[str, Any]]]) -> pd.DataFrame:
    results = [result for _, result in found]
    metrics, hparams, axes = (_union(result[part] for result in results) for part in ("metrics", "hparams", "axes"))
    columns: dict[str, list[Any]] = {name: [result.get(name) for result in results] for name in COLUMNS}
    columns["folder"] = [folder for folder, _ in found]
    columns["version"] = [result["packages"].get("gnn-depth") for result in results]
    columns |= {name: [_number(result["metrics"].get(name)) for result in results] for name in metrics}
    settings = [_settings(result) for result in results]
    columns |= {name: [setting.get(name) for setting in settings] for name in (*hparams, *axes)}
    for name in NUMBERS:
        columns[name] = [_number(value) for value in columns[name]]
    frame = pd.DataFrame(columns)
    frame.attrs = {"metrics": metrics, "hparams": hparams, "axes": axes}
    return frame


def _union(tables: Iterable[dict[str, Any]]) -> list[str]:
    """All keys, in the order of their first appearance."""
    return list(dict.fromkeys(key for table in tables for key in table))


def _settings(result: dict[str, Any]) -> dict[str, Any]:
    """Hyperparameters and axes: an axis, whose labels may stand for whole sub-configs, wins over the former."""
    # An axis that says null has a value, as opposed to a run without this axis.
    axes = {name: "null" if value is None else value for name, value in result["axes"].items()}
    merged = result["hparams"] | axes
    return {name: str(value) if isinstance(value, list | dict) else value for name, value in merged.items()}


def _number(value: Any) -> float:
    """A number, also by its name where it is not finite; NaN for anything else."""
    if isinstance(value, int):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _warn(text: str) -> None:
    warnings.warn(text, ReportWarning, stacklevel=3)
