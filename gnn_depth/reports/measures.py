"""Measures of runs over steps and layers, from measures/NAME.npz."""

from pathlib import Path

import numpy as np
import pandas as pd

from gnn_depth import measurements
from gnn_depth.measurements import Measurement
from gnn_depth.registry import unknown
from gnn_depth.reports.errors import ReportError


def measures(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Values of a measure, in long form: columns ``run``, ``step``, ``layer``, of neurons ``neuron`` too, ``value``.

    ``run`` is the run's label in the frame's index, as in `curves`. ``attrs`` has the ``unit``, and says as ``log10``
    whether the values are logarithms to base 10, of which -inf is that of an exact zero. A run without the measure has
    no rows.

    Args:
        frame: Runs, as `load` gives them.
        name: Name of the measure: ``gradient_similarity``.

    Raises:
        ReportError: No run has such a measure, a file is damaged, or the measure is not the same thing in all runs.
    """
    known = {run: measurements.names(Path(folder)) for run, folder in frame["folder"].items()}
    having = [run for run, there in known.items() if name in there]
    if not having:
        raise ReportError(unknown("measure", name, sorted({one for there in known.values() for one in there})))
    try:
        found = {run: measurements.load(Path(frame["folder"][run]), name) for run in having}
    except ValueError as error:
        raise ReportError(str(error)) from error
    kinds = {(one.unit, one.log10, one.values.ndim) for one in found.values()}
    if len(kinds) > 1:
        listed = ", ".join(f"{unit!r}{' as log10' if log10 else ''}" for unit, log10, _ in sorted(kinds))
        raise ReportError(f"measure {name!r} is not the same thing in all runs: {listed}. Choose runs of one kind.")
    long = pd.concat([_long(run, one) for run, one in found.items()], ignore_index=True)
    ((long.attrs["unit"], long.attrs["log10"], _),) = kinds
    return long


def _long(run: object, one: Measurement) -> pd.DataFrame:
    axes = [("step", one.steps), ("layer", one.layers)]
    axes += [("neuron", np.arange(size)) for size in one.values.shape[2:]]
    places = np.meshgrid(*(values for _, values in axes), indexing="ij")
    columns = {axis: place.ravel() for (axis, _), place in zip(axes, places, strict=True)}
    return pd.DataFrame({"run": run, **columns, "value": one.values.ravel()}, index=range(one.values.size))
