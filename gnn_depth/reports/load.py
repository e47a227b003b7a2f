"""Load run folders as tables: results, curves over the epochs, and measures over steps and
layers."""

import csv
import itertools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth import measurements
from gnn_depth.measurements import FOLDER, MeasureValues
from gnn_depth.registry import unknown
from gnn_depth.runs import ARCHIVE, COLUMNS, RESULTS, is_alive, read_result

NUMBERS = ("seed", "attempt", "seconds", "epochs", "steps", "best_epoch", "num_parameters")
PARTS = ("metrics", "hparams", "axes")  # of a result, whose keys become columns
SHOWN = 5  # files named in a warning


class ReportError(ValueError):
    """A request for runs, axes, metrics or measures that do not exist or do not fit together."""


class ReportWarning(UserWarning):
    """Files of runs that were skipped, or runs whose numbers are hard to compare."""


def load(*folders: str | Path) -> pd.DataFrame:
    """Read every ``result.json`` below some folders into one table with a row for each run.

    A folder with ``measures/`` but no ``result.json``, as `gnn_depth.watch` writes it, is a run
    too, with the axis ``run``. The columns are `gnn_depth.runs.COLUMNS`, then metrics by name,
    hyperparameters by dotted key and the axes of a sweep by name; ``frame.attrs`` lists them as
    ``metrics``, ``hparams`` and ``axes``. Folders called ``archive`` are skipped. Of runs with the
    same config, data and seed only the newest with a result is kept.

    Args:
        folders: Folders that contain runs, or folders of single runs.

    Raises:
        ReportError: A folder does not exist, or contains no run that can be read.
    """
    found, bad = [], []
    for folder in dict.fromkeys(run for top in folders for run in _run_folders(top)):
        try:
            found.append((folder, _read_result(folder)))
        except ValueError as error:
            bad.append(f"{str(Path(folder, 'result.json'))!r} {error}")
    if bad:
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        _warn(f"skipped {'; '.join(bad[:SHOWN])}{more}.")
    if not found:
        where = ", ".join(repr(str(folder)) for folder in folders)
        raise ReportError(
            f"no runs below {where}: there is no readable file result.json, and no folder {FOLDER}."
        )
    kept = _newest(found)
    if repeated := len(found) - len(kept):
        _warn(
            f"{repeated} of {len(found)} runs repeat others: only the newest with a result counts."
        )
    frame = _frame(kept)
    versions = frame["version"].value_counts()
    if len(versions) > 1:
        listed = ", ".join(
            f"{version} ({count} runs)" for version, count in sorted(versions.items())
        )
        _warn(
            "the runs come from several versions of gnn-depth, and their numbers may not be "
            f"comparable: {listed}."
        )
    return frame


def _run_folders(top: str | Path) -> Iterator[str]:
    """Folders of runs below a folder, sorted by name; a run's folder contains no other runs."""
    if not Path(top).is_dir():
        raise ReportError(f"there is no folder {str(top)!r}.")
    for folder, inside, files in os.walk(os.path.normpath(top)):
        is_run = "result.json" in files or (FOLDER in inside and measurements.measure_names(Path(folder)))
        inside[:] = [] if is_run else sorted(name for name in inside if name != ARCHIVE)
        if is_run:
            yield folder


def _read_result(folder: str) -> dict[str, Any]:
    """A run's result; raises a ValueError with the reason if it is none."""
    path = Path(folder, "result.json")
    if not path.exists():  # a training by other code, which has measures only
        known = {"status": "finished", "name": path.parent.name, "axes": {"run": folder}}
        return {**known, "metrics": {}, "hparams": {}, "packages": {}}
    result = _printable(read_result(folder))
    if not isinstance(result.get("status"), str):
        raise ValueError("is not a result of a run")
    if result["status"] == "running" and is_alive(folder) is False:
        result["status"] = "died"
    for part in ("metrics", "hparams", "axes", "packages"):
        if not isinstance(result.setdefault(part, {}), dict):
            raise ValueError(f"has {part} that are not a mapping")
    if taken := [name for name in result["axes"] if name in COLUMNS]:
        raise ValueError(f"has an axis {taken[0]!r}, which is the name of a column of every run")
    return result


def _printable(value: Any) -> Any:
    """The same with control characters of texts written out, as somebody else's file may hold codes
    for terminals."""
    if isinstance(value, str):
        return (
            value
            if value.isprintable()
            else "".join(c if c.isprintable() else repr(c)[1:-1] for c in value)
        )
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def _newest(found: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """One run for each identity: preferably one with a result, and of these the newest."""
    kept: dict[Any, str] = {}

    def rank(run: tuple[str, dict[str, Any]]) -> tuple[bool, str]:
        return run[1]["status"] in RESULTS, str(run[1].get("started", ""))

    for folder, result in sorted(found, key=rank, reverse=True):
        config = result.get("config_sha256")
        kept.setdefault(
            result.get("identity") or (config and (config, result.get("seed"))) or folder, folder
        )
    newest = set(kept.values())
    return [(folder, result) for folder, result in found if folder in newest]


def _frame(found: list[tuple[str, dict[str, Any]]]) -> pd.DataFrame:
    rows = []
    for folder, result in found:
        # An axis set to null has a value; a run without the axis has none.
        axes = {name: "null" if value is None else value for name, value in result["axes"].items()}
        # An axis wins over a hyperparameter, because its labels may stand for whole sub-configs.
        settings = result["hparams"] | axes
        texts = {
            name: str(value) for name, value in settings.items() if isinstance(value, list | dict)
        }
        own = {"folder": folder, "version": result["packages"].get("gnn-depth")}
        rows.append(
            {name: result.get(name) for name in COLUMNS}
            | own
            | result["metrics"]
            | settings
            | texts
        )
    parts = {
        part: list(dict.fromkeys(key for _, result in found for key in result[part]))
        for part in PARTS
    }
    frame = pd.DataFrame(
        rows, columns=list(dict.fromkeys([*COLUMNS, *itertools.chain(*parts.values())]))
    )
    numbers = [*NUMBERS, *parts["metrics"]]
    frame[numbers] = frame[numbers].apply(pd.to_numeric, errors="coerce")  # also "inf" and "nan"
    frame.attrs = parts
    return frame


def _warn(text: str) -> None:
    warnings.warn(text, ReportWarning, stacklevel=3)


def curves(frame: pd.DataFrame, tag: str) -> pd.DataFrame:
    """Read one metric of every epoch from ``metrics.csv``, in long form: columns ``run``,
    ``epoch``, ``value``.

    ``run`` is the run's label in the frame's index, so that ``curves(frame,
    tag).join(frame["seed"], on="run")`` adds the seeds. A run without ``metrics.csv`` has no rows.

    Args:
        frame: Runs, as `load` returns them.
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
            whole, _, _ = path.read_text(encoding="utf-8").rpartition(
                "\n"
            )  # drops a row cut off while being written
            lines = csv.DictReader(whole.splitlines())
            values = [
                (run, int(line["epoch"]), float(line[tag])) for line in lines if line.get(tag)
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            _warn(f"skipped {str(path)!r}, which is damaged ({error!r}).")
            continue
        tags |= set(lines.fieldnames or ()) - {"epoch", "step"}
        rows += values
    if tag not in tags:
        raise ReportError(unknown("metric", tag, tags))
    return pd.DataFrame(rows, columns=["run", "epoch", "value"])


def measures(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Read a measure from ``measures/NAME.npz``, in long form: columns ``run``, ``step``,
    ``layer``, ``value``.

    Measures of neurons have a column ``neuron`` too. ``run`` is the run's label in the frame's
    index, as in `curves`. ``attrs`` has the ``unit`` and, as ``log10``, whether the values are
    logarithms to base 10, where -inf stands for an exact zero. A run without the measure has no
    rows.

    Args:
        frame: Runs, as `load` returns them.
        name: Name of the measure: ``gradient_similarity``.

    Raises:
        ReportError: No run has such a measure, a file is damaged, or units differ between runs.
    """
    known = {run: measurements.measure_names(Path(folder)) for run, folder in frame["folder"].items()}
    having = [run for run, names in known.items() if name in names]
    if not having:
        raise ReportError(
            unknown("measure", name, {name for names in known.values() for name in names})
        )
    found = [read_measure(frame["folder"][run], name) for run in having]
    kinds = {(one.unit, one.log10, one.values.ndim) for one in found}
    if len(kinds) > 1:
        listed = ", ".join(
            f"{unit!r}{' as log10' if log10 else ''}" for unit, log10, _ in sorted(kinds)
        )
        raise ReportError(
            f"measure {name!r} is not the same quantity in all runs: {listed}. Choose runs of one "
            "kind."
        )
    by_run = pd.concat(map(measurements.long, found), keys=having, names=["run", None])
    long = by_run.reset_index("run").reset_index(drop=True)
    ((long.attrs["unit"], long.attrs["log10"], _),) = kinds
    return long


def read_measure(folder: str | Path, name: str) -> MeasureValues:
    """Read one measure of one run."""
    try:
        return measurements.load_values(Path(folder), name)
    except ValueError as error:
        raise ReportError(str(error)) from error
