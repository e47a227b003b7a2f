"""Mean curves and bands over the seeds of a group of runs, as TensorBoard runs of their own."""

import io
import math
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from gnn_depth.runs import curves_text, event_tag

FOLDER = "summary"
# Sorts after every metric: TensorBoard shows these charts last, in closed sections.
BAND = "~band"
TRAINING = "~runs/still_training"
EVENTS = "events.out.tfevents.*"
TITLE = "mean and standard deviation over seeds"


def write_summary(folder: Path, group: str, runs: Sequence[Path]) -> Path | None:
    r"""Write the mean curve of each metric over a group of runs, with its band, for TensorBoard.

    .. math::
        \bar x_t = \tfrac1n \sum_i x_{i,t}, \qquad
        s_t^2 = \tfrac1{n-1} \sum_i (x_{i,t} - \bar x_t)^2

    The run ``summary/GROUP`` has the mean under the tag that the metric has in its runs, so that it
    lies in one chart with the seeds, and ``mean - s`` and ``mean + s`` under ``~band/``;
    TensorBoard's page Custom Scalars draws these as a band. ``~runs/still_training`` counts the
    seeds that had not stopped yet; a seed that has stopped counts with its last value (see
    `average`). One seed has a mean and no band.

    An existing summary is replaced, whole or not at all. The event file is returned, None where no
    run has curves yet.
    """
    tables = []
    when = 0.0  # the time of the newest curves rather than of the writing
    for run in runs:
        table = read_metrics(run)
        if table is not None:
            tables.append(table)
            when = max(when, (run / "metrics.csv").stat().st_mtime)
    if not tables:
        return None
    curves = summarise(tables)
    if curves.empty:
        return None
    with tempfile.TemporaryDirectory() as place:
        return _replace(folder / FOLDER / group, _write_events(Path(place), curves, when))


def read_metrics(run: Path) -> pd.DataFrame | None:
    """The metrics of a run, one row per step; None if it has none, with a warning if damaged."""
    path = run / "metrics.csv"
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(io.StringIO(curves_text(path))).groupby("step").last()
        table = table.drop(columns="epoch", errors="ignore").astype(float)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return None
    except (OSError, ValueError, KeyError) as error:
        warnings.warn(f"{str(path)!r} is left out of the summary ({error}).", stacklevel=2)
        return None
    return None if table.empty else table


def average(curves: Sequence[pd.Series]) -> pd.DataFrame:
    """Mean and sample standard deviation of curves, at every step at which one of them has a value.

    A curve that ends early (early stopping, divergence) continues at its last finite value. A mean
    over only the runs still training would jump whenever one stops and describe only the survivors;
    a mean cut at the shortest curve would hide most of the training if one run diverged early. For
    the same reason the mean starts where all have begun. A curve without any finite value cannot be
    averaged and is left out.
    """
    finite = [curve[curve.abs() < math.inf] for curve in curves]
    finite = [curve for curve in finite if len(curve)]
    if not finite:
        return pd.DataFrame({"mean": [], "std": []}, dtype=float)
    values = pd.concat(finite, axis=1).sort_index().ffill().dropna()
    return pd.DataFrame({"mean": values.mean(axis=1), "std": values.std(axis=1, ddof=1)})


def summarise(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """All curves of a summary by step: means, bands and the number of runs still training."""
    columns: dict[str, pd.Series] = {}
    tags: dict[str, None] = {}
    for table in tables:
        tags |= dict.fromkeys(table)
    for tag in tags:
        curve = average([table[tag] for table in tables if tag in table])
        columns[tag] = curve["mean"]
        lower, upper = band(tag)
        columns[lower] = curve["mean"] - curve["std"]
        columns[upper] = curve["mean"] + curve["std"]
    wide = pd.DataFrame(columns).sort_index().dropna(axis=1, how="all")
    wide[TRAINING] = sum((wide.index <= table.index[-1]).astype(float) for table in tables)
    return wide


def band(tag: str) -> tuple[str, str]:
    """Tags of a metric's lower and upper edge."""
    return f"{BAND}/{tag}/lower", f"{BAND}/{tag}/upper"


def _write_events(folder: Path, wide: pd.DataFrame, when: float) -> Path:
    """Write the curves as one event file, with a chart for each metric that has a band."""
    from torch.utils.tensorboard import SummaryWriter

    # The purge step makes a running TensorBoard forget what it read from the file that this one
    # replaces.
    with SummaryWriter(str(folder), purge_step=0) as writer:
        charts = {}
        for name in wide:
            if band(name)[0] in wide:
                charts[name] = ["Margin", [event_tag(name), *band(name)]]
        # One category, because TensorBoard loses charts when runs bring different categories.
        writer.add_custom_scalars({TITLE: charts})
        for step, row in wide.iterrows():
            for name, value in row.dropna().items():
                writer.add_scalar(event_tag(str(name)), value, step, walltime=when)
    return next(folder.glob(EVENTS))


def _replace(folder: Path, written: Path) -> Path:
    """Make an event file the only non-empty one of a folder, for a running TensorBoard too.

    Without its data server TensorBoard stays forever at a file that vanishes, so the files before
    it are only emptied.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{os.getpid()}.part"
    shutil.copyfile(written, part)
    # The new name sorts after the old ones: a running TensorBoard reads files in this order, and
    # each only once.
    new = part.rename(folder / EVENTS.replace("*", f"{time.time_ns()}.summary"))
    for path in folder.glob(EVENTS):
        if path.name < new.name:
            os.truncate(path, 0)
    return new
