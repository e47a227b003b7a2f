"""Read run folders as tables: results, curves over the epochs, and measures of layers."""

import csv
import math
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth import measurements
from gnn_depth.measurements import FOLDER, MeasureValues
from gnn_depth.registry import first_of, unknown
from gnn_depth.runs import ARCHIVE, COLUMNS, RESULTS, curves_text, is_alive, read_result

NUMBERS = ("seed", "attempt", "seconds", "epochs", "steps", "best_epoch", "num_parameters")
PARTS = ("metrics", "hparams", "axes")  # of a result, whose keys become columns
SHOWN = 5  # files named in a warning
LARGEST = 2**53  # above it not every whole number is a float64


class ReportError(ValueError):
    """A request for runs, axes, metrics or measures that do not exist or do not fit together."""


class ReportWarning(UserWarning):
    """Files of runs that were skipped, or runs whose numbers are hard to compare."""


def read_runs(*folders: str | Path) -> pd.DataFrame:
    """Read every ``result.json`` below some folders into one table with a row for each run.

    A folder with ``measures/`` but no ``result.json``, as `gnn_depth.watch` writes it, is a run
    too, with the axis ``run``. The columns are `gnn_depth.runs.COLUMNS`, then metrics by name,
    hyperparameters by dotted key and the axes of a sweep by name; ``frame.attrs`` lists them as
    ``metrics``, ``hparams`` and ``axes``, and has, by folder, the checksum of the ``data`` and the
    versions of the ``plugins``. Folders called ``archive`` are skipped. Of runs with the
    same config, data and seed only the newest with a result is kept.

    Args:
        folders: Folders that contain runs, or folders of single runs.

    Raises:
        ReportError: A folder does not exist, or contains no run that can be read.
    """
    found: dict[str, dict[str, Any]] = {}  # by folder
    bad: dict[str, str] = {}
    for top in folders:
        for folder in _run_folders(top):
            if folder in found or folder in bad:  # folders given may contain each other
                continue
            try:
                found[folder] = _read_result(folder)
            except ValueError as error:
                bad[folder] = f"{str(Path(folder, 'result.json'))!r} {error}"
    if bad:
        _warn(f"skipped {first_of(list(bad.values()), SHOWN, '; ')}.")
    if not found:
        where = ", ".join(map(repr, map(str, folders)))
        raise ReportError(
            f"no runs below {where}: there is no readable file result.json, and no folder {FOLDER}."
        )
    kept = _newest(found)
    if len(kept) < len(found):
        _warn(
            f"{len(found) - len(kept)} of {len(found)} runs repeat others: only the newest with a "
            "result counts."
        )
    frame = _frame(_in_order(kept))
    versions = Counter(frame["version"].dropna())
    if len(versions) > 1:
        listed = [f"{version} ({count} runs)" for version, count in sorted(versions.items())]
        _warn(
            "the runs come from several versions of gnn-depth, and their numbers may not be "
            f"comparable: {', '.join(listed)}."
        )
    return frame


def _run_folders(top: str | Path) -> Iterator[str]:
    """Folders of runs below a folder, sorted by name; a run's folder contains no other runs."""
    if not Path(top).is_dir():
        raise ReportError(f"there is no folder {str(top)!r}.")
    for folder, inside, files in os.walk(os.path.normpath(top)):
        has_measures = FOLDER in inside and measurements.measure_names(Path(folder))
        if "result.json" in files or has_measures:
            inside.clear()  # os.walk goes on with what is left in it
            yield folder
        else:
            inside[:] = sorted(set(inside) - {ARCHIVE})


def _read_result(folder: str) -> dict[str, Any]:
    """A run's result; raises a ValueError with the reason if it is none."""
    path = Path(folder, "result.json")
    result: dict[str, Any] = {"status": "finished", "name": path.parent.name}
    if path.exists():
        result = _printable(read_result(folder))
    else:  # a training by other code, which has measures only
        result["axes"] = {"run": folder}
    if not isinstance(result.get("status"), str):
        raise ValueError("is not a result of a run")
    # Without a lock to tell it by, which is None, a run is not called dead.
    if result["status"] == "running" and is_alive(folder) is False:
        result["status"] = "died"
    for part in (*PARTS, "packages"):
        if not isinstance(result.setdefault(part, {}), dict):
            raise ValueError(f"has {part} that are not a mapping")
    per_seed = result.get("per_seed") or []
    if not isinstance(per_seed, list) or not all(isinstance(name, str) for name in per_seed):
        raise ValueError("has per_seed that are not a list of options")
    for name in result["axes"]:
        if name in COLUMNS:  # its values would replace those of the run
            raise ValueError(f"has an axis {name!r}, which is the name of a column of every run")
    for name, value in result["metrics"].items():
        if value is not None and _number(value) is None:
            raise ValueError(f"has a metric {name!r} that is not a number: {str(value)[:30]!r}")
    return result


def _printable(value: Any) -> Any:
    """The value with control characters written out: somebody else's file may hold codes."""
    if isinstance(value, str):
        return measurements.printable(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return value


def _number(value: Any) -> float | None:
    """A number, or a text that spells one, such as "nan"; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # a whole number of 400 digits overflows
        return None
    if isinstance(value, int) and abs(value) < LARGEST:
        return int(value)
    return number


def _newest(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One run for each identity: preferably one with a result, and of these the newest."""

    def rank(folder: str) -> tuple[bool, str]:
        result = found[folder]
        return result["status"] in RESULTS, str(result.get("started", ""))

    kept: dict[str, str] = {}
    for folder in sorted(found, key=rank, reverse=True):
        # Without an identity no other run is known to repeat it.
        kept.setdefault(found[folder].get("identity") or folder, folder)
    newest = set(kept.values())
    return {folder: result for folder, result in found.items() if folder in newest}


def _in_order(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The runs of each sweep in the order of its grid; others, and older ones, as they are."""
    sweeps: dict[str, int] = {}

    def rank(item: tuple[str, dict[str, Any]]) -> tuple[int, float]:
        place = item[1].get("place")
        of_sweep = sweeps.setdefault(str(item[1].get("sweep")), len(sweeps))
        if not isinstance(place, int):
            place = math.inf
        return of_sweep, place

    return dict(sorted(found.items(), key=rank))


def _frame(found: dict[str, dict[str, Any]]) -> pd.DataFrame:
    rows = []
    # Dicts keep names in the order of their first appearance.
    parts: dict[str, dict[str, None]] = defaultdict(dict)
    for folder, result in found.items():
        row = {name: result.get(name) for name in COLUMNS}
        row |= {"folder": folder, "version": result["packages"].get("gnn-depth")}
        row |= result["metrics"]
        # An axis wins over a hyperparameter, because its labels may stand for whole sub-configs.
        for part in ("hparams", "axes"):
            for name, value in result[part].items():
                if isinstance(value, list | dict):
                    value = str(value)
                elif value is None and part == "axes":  # set to null; a run without it has none
                    value = "null"
                row[name] = value
        rows.append(row)
        for part in PARTS:
            parts[part] |= dict.fromkeys(result[part])
    names = {**dict.fromkeys(COLUMNS), **parts["metrics"], **parts["hparams"], **parts["axes"]}
    frame = pd.DataFrame(rows, columns=list(names))
    # NaN and infinity are text in JSON, and a column with gaps would be one of objects.
    for name in (*NUMBERS, *parts["metrics"]):
        frame[name] = pd.to_numeric(frame[name].map(_number, na_action="ignore"))
    for part in PARTS:
        frame.attrs[part] = list(parts[part])
    # By folder, options that change with the seed: runs with other values of them are repeats.
    frame.attrs["per_seed"] = {
        folder: [name.replace(".init_args.", ".") for name in result.get("per_seed") or []]
        for folder, result in found.items()
    }
    # What options do not tell: the content of the data, and of the plugins. Older runs lack it.
    frame.attrs["data"] = {folder: result.get("data_sha256") for folder, result in found.items()}
    frame.attrs["plugins"] = {
        folder: ", ".join(map(str, result.get("plugins") or [])) for folder, result in found.items()
    }
    return frame


def _warn(text: str) -> None:
    warnings.warn(text, ReportWarning, stacklevel=3)


def read_curves(frame: pd.DataFrame, tag: str) -> pd.DataFrame:
    """Read one metric of every epoch from ``metrics.csv``: columns ``run``, ``epoch``, ``value``.

    ``run`` is the run's label in the frame's index, so that ``read_curves(frame,
    tag).join(frame["seed"], on="run")`` adds the seeds. A run without ``metrics.csv`` has no rows.

    Args:
        frame: Runs, as `read_runs` returns them.
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
        values = []  # of this run, all of which count or none
        try:
            lines = csv.DictReader(curves_text(path).splitlines())
            for line in lines:
                if line.get(tag):
                    values.append((run, int(line["epoch"]), float(line[tag])))
        except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
            _warn(f"skipped {str(path)!r}, which is damaged ({error!r}).")
            continue
        tags |= set(lines.fieldnames or ()) - {"epoch", "step"}
        rows += values
    if tag not in tags:
        raise ReportError(unknown("metric", tag, tags))
    return pd.DataFrame(rows, columns=["run", "epoch", "value"])


def read_measures(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Read ``measures/NAME.npz`` of every run: columns ``run``, ``step``, ``layer``, ``value``.

    Measures of neurons have a column ``neuron`` too. ``run`` is the run's label in the frame's
    index, as in `read_curves`. ``attrs`` has the ``unit`` and, as ``log10``, whether the values are
    logarithms to base 10, where -inf stands for an exact zero. A run without the measure has no
    rows.

    Args:
        frame: Runs, as `read_runs` returns them.
        name: Name of the measure: ``gradient_similarity``.

    Raises:
        ReportError: No run has such a measure, a file is damaged, or units differ between runs.
    """
    known: set[str] = set()
    tables = {}
    kinds = set()
    for run, folder in frame["folder"].items():
        names = measurements.measure_names(Path(folder))
        known.update(names)
        if name in names:
            one = read_measure(folder, name)
            tables[run] = measurements.long(one)
            kinds.add((one.unit, one.log10, one.values.ndim))
    if not tables:
        raise ReportError(unknown("measure", name, known))
    if len(kinds) > 1:
        listed = []
        for unit, log10, _ in sorted(kinds):
            listed.append(f"{unit!r} as log10" if log10 else repr(unit))
        raise ReportError(
            f"measure {name!r} is not the same quantity in all runs: {', '.join(listed)}. Choose "
            "runs of one kind."
        )
    # The runs' labels become a column, and the rows of each table are not numbered anew.
    long = pd.concat(tables, names=["run", None]).reset_index("run").reset_index(drop=True)
    ((long.attrs["unit"], long.attrs["log10"], _),) = kinds
    return long


def read_measure(folder: str | Path, name: str) -> MeasureValues:
    """Read one measure of one run."""
    try:
        return measurements.load_values(Path(folder), name)
    except ValueError as error:
        raise ReportError(str(error)) from error
