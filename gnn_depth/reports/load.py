"""Read run folders as tables: results, curves over the epochs, and measures of layers."""

import json
import math
import os
import warnings
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth import measurements
from gnn_depth.measurements import FOLDER
from gnn_depth.registry import first_of, unknown
from gnn_depth.runs import ARCHIVE, COLUMNS, RESULTS, is_alive, read_result

NUMBERS = (
    "seed",
    "attempt",
    "seconds",
    "epochs",
    "steps",
    "best_epoch",
    "constant",
    "initial_averages",
    "num_parameters",
)
PARTS = ("metrics", "hparams", "axes")  # of a result, whose keys become columns
PLACE, EXPERIMENT = "place in its sweep", "what it is"  # no axis is called so
SHOWN = 5  # files named in a warning


class ReportError(ValueError):
    """A request for runs, axes, metrics or measures that do not exist or do not fit together."""


class ReportWarning(UserWarning):
    """Files of runs that were skipped, or runs whose numbers are hard to compare."""


def read_runs(*folders: str | Path) -> pd.DataFrame:
    """Read every ``result.json`` below some folders into one table with a row for each run.

    A folder with ``measures/`` but no ``result.json``, as `gnn_depth.watch` writes it, is a run
    too, with the axis ``run``. The columns are `gnn_depth.runs.COLUMNS`, the checksum of the data,
    the plugins and the options that change with the seed, then metrics by name, hyperparameters by
    dotted key and the axes of a sweep by name; ``frame.attrs`` lists these as ``metrics``,
    ``hparams`` and ``axes``. Folders called ``archive`` are skipped. Of runs with the same config,
    data and seed only the newest with a result is kept.

    Args:
        folders: Folders that contain runs, or folders of single runs.

    Raises:
        ReportError: A folder does not exist, or contains no run that can be read.
    """
    found = {}  # by folder
    bad = []
    # Each once: folders given may contain each other.
    for folder in dict.fromkeys(chain.from_iterable(map(_run_folders, folders))):
        try:
            found[folder] = _read_result(folder)
        except ValueError as error:
            bad.append(f"{str(Path(folder, 'result.json'))!r} {error}")
    if bad:
        _warn(f"skipped {first_of(bad, SHOWN, '; ')}.")
    if not found:
        where = ", ".join(map(repr, map(str, folders)))
        raise ReportError(
            f"no runs below {where}: there is no readable file result.json, and no folder {FOLDER}."
        )
    frame = _frame(found)
    # Of each identity the newest with a result, or the newest; also of a sweep that was run again
    # after an edit of a plugin. Without an identity no other run is known to repeat it.
    runs = frame.assign(
        has_result=frame["status"].isin(RESULTS), started=frame["started"].astype(str)
    )
    runs = runs.sort_values(["has_result", "started"])
    for key in ("identity", EXPERIMENT):
        runs = runs[~runs.duplicated(key, keep="last") | runs[key].isna()]
    kept = frame[frame.index.isin(runs.index)]
    repeats = list(frame.drop(runs.index)["folder"])
    if repeats:
        _warn(
            f"{len(repeats)} of {len(frame)} runs repeat others ({first_of(repeats, 2)}), some "
            "with older code perhaps: only the newest with a result counts."
        )
    versions = kept["version"].value_counts().sort_index()
    if len(versions) > 1:
        listed = [f"{version} ({count} runs)" for version, count in versions.items()]
        _warn(
            "the runs come from several versions of gnn-depth, and their numbers may not be "
            f"comparable: {', '.join(listed)}."
        )
    return kept.reset_index(drop=True)


def _run_folders(top: str | Path) -> Iterator[str]:
    """Folders of runs below a folder, sorted by name; a run's folder contains no other runs."""
    if not Path(top).is_dir():
        raise ReportError(f"there is no folder {str(top)!r}.")
    for folder, inside, files in os.walk(os.path.normpath(top)):
        if "result.json" in files or measurements.measure_names(Path(folder)):
            inside.clear()  # os.walk goes on with what is left in it
            yield folder
        else:
            inside[:] = sorted(set(inside) - {ARCHIVE})


def _read_result(folder: str) -> dict[str, Any]:
    """A run's result; raises a ValueError with the reason if it is none."""
    path = Path(folder, "result.json")
    if path.exists():
        result = read_result(folder)
    else:  # a training by other code, which has measures only
        result = {"status": "finished", "name": path.parent.name, "axes": {"run": folder}}
    if not isinstance(result.get("status"), str):
        raise ValueError("is not a result of a run")
    # Without a lock to tell it by, which is None, a run is not called dead.
    if result["status"] == "running" and is_alive(folder) is False:
        result["status"] = "died"
    for part in (*PARTS, "packages"):
        if not isinstance(result.setdefault(part, {}), dict):
            raise ValueError(f"has {part} that are not a mapping")
    for name in result["axes"]:
        if name in COLUMNS:  # its values would replace those of the run
            raise ValueError(f"has an axis {name!r}, which is the name of a column of every run")
    for name, value in result["metrics"].items():
        try:  # NaN and infinity are text in JSON, and a whole number may be too large
            result["metrics"][name] = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"has a metric {name!r} that is not a number: {value!r:.30}") from None
    for part in ("hparams", "axes"):
        for name, value in result[part].items():
            if isinstance(value, list | dict):
                result[part][name] = str(value)
            elif value is None and part == "axes":  # set to null; a run without it has none
                result[part][name] = "null"
    return result


def _experiment(result: dict[str, Any]) -> str | None:
    """The sweep, seed, data and options of a run, without the code of its plugins.

    None for a run of no sweep: equal options may belong to different models.
    """
    if not (result.get("sweep") and result["hparams"]):
        return None
    told = [result.get(name) for name in ("sweep", "seed", "data_sha256", "hparams", "axes")]
    return json.dumps(told, sort_keys=True, default=str)


def _frame(found: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """The runs of each sweep in the order of its grid; others, and older ones, as they are."""
    rows = []
    for folder, result in found.items():
        row = {name: result.get(name) for name in (*COLUMNS, "data_sha256")}
        changing = result.get("per_seed") or []
        code = [*(result.get("plugins") or []), *(result.get("code") or [])]
        row |= {
            "folder": folder,
            "version": result["packages"].get("gnn-depth"),
            # What options do not tell; older runs lack it.
            "plugin_files": ", ".join(map(str, code)) or None,
            EXPERIMENT: _experiment(result),
            "per_seed": tuple(name.replace(".init_args.", ".") for name in changing),
            PLACE: result.get("place"),
        }
        # An axis wins over a hyperparameter, because its labels may stand for whole sub-configs.
        rows.append(row | result["metrics"] | result["hparams"] | result["axes"])
    parts = {}
    for part in PARTS:  # names in the order of their first appearance
        names = chain.from_iterable(result[part] for result in found.values())
        parts[part] = list(dict.fromkeys(names))
    columns = dict.fromkeys(chain(row, *parts.values()))  # all rows begin alike
    frame = pd.DataFrame(rows, columns=list(columns))
    frame.attrs |= parts
    for name in (*NUMBERS, PLACE):  # a column with gaps would be one of objects
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    sweeps, _ = pd.factorize(frame["sweep"].astype(str))
    return frame.iloc[np.lexsort((frame[PLACE], sweeps))]


def _warn(text: str) -> None:
    warnings.warn(text, ReportWarning, stacklevel=3)


def read_measures(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Read ``measures/NAME.npz`` of every run: columns ``run``, ``step``, ``layer``, ``value``.

    Measures of neurons have a column ``neuron`` too. ``run`` is the run's label in the frame's
    index, so that ``read_measures(frame, name).join(frame["seed"], on="run")`` adds the seeds.
    ``attrs`` has the ``unit`` and, as ``log10``, whether the values are
    logarithms to base 10, where -inf stands for an exact zero. A run without the measure has no
    rows.

    Args:
        frame: Runs, as `read_runs` returns them.
        name: Name of the measure: ``gradient_similarity``.

    Raises:
        ReportError: No run has such a measure, or units differ between runs.
        ValueError: A file is damaged.
    """
    known = set()
    tables = {}
    kinds = set()
    for run, folder in frame["folder"].items():
        names = measurements.measure_names(Path(folder))
        known.update(names)
        if name in names:
            one = measurements.load_values(Path(folder), name)
            tables[run] = measurements.long(one)
            kinds.add((one.unit, one.log10, one.around_zero, one.values.ndim))
    if not tables:
        message = unknown("measure", name, known)
        if not known:
            message = "the runs have no measures: train with --trainer.callbacks GradientNorms."
        elif not name:
            message = f"name a measure: --measure NAME. Available: {', '.join(sorted(known))}."
        raise ReportError(message)
    if len(kinds) > 1:
        listed = []
        for unit, log10, *_ in sorted(kinds):
            listed.append(f"{unit!r} as log10" if log10 else repr(unit))
        raise ReportError(
            f"measure {name!r} is not the same quantity in all runs: {', '.join(listed)}. Choose "
            "runs of one kind."
        )
    # The runs' labels become a column, and the rows of each table are not numbered anew.
    long = pd.concat(tables, names=["run", None]).reset_index("run").reset_index(drop=True)
    ((unit, log10, around_zero, _),) = kinds
    long.attrs |= {"name": name, "unit": unit, "log10": log10, "around_zero": around_zero}
    return long


def at_edge(values: pd.DataFrame, column: str, edge: str) -> pd.DataFrame:
    """The values of each run at its first step or layer, ``min``, or at its last, ``max``."""
    return values[values[column] == values.groupby("run")[column].transform(edge)]
