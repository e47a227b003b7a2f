"""Mean curves and bands of runs that differ in their seed alone, as TensorBoard runs of their own."""

import contextlib
import io
import json
import math
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gnn_depth.runs import RESULTS

if TYPE_CHECKING:
    import pandas as pd
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

FOLDER = "summary"
# Sorts after every metric, so that TensorBoard shows these charts last, in a section that is closed at first.
BAND = "~band"
TRAINING = "runs/still_training"
EVENTS = "events.out.tfevents.*"
PATIENCE = 60.0  # seconds; TensorBoard looks every five
TITLE = "mean and standard deviation over seeds"


def write_summary(folder: Path, group: str, runs: Sequence[Path]) -> Path | None:
    r"""Write the mean curve of each metric over the seeds of a group, with its band, for TensorBoard.

    .. math:: \bar x_t = \tfrac1n \sum_i x_{i,t}, \qquad s_t^2 = \tfrac1{n-1} \sum_i (x_{i,t} - \bar x_t)^2

    The run ``summary/GROUP`` has the mean under the metric's own tag, so that it lies in one chart with the seeds,
    and ``mean - s`` and ``mean + s`` under ``~band/``; TensorBoard's page Custom Scalars draws these as a band.
    ``runs/still_training`` counts the seeds that had not stopped yet: from where it falls, a stopped seed counts with
    its last value (see `average`). One seed has a mean and no band.

    A summary that is there is replaced, whole or not at all; it is left as it is where nothing has changed.

    Args:
        folder: The sweep's folder.
        group: Name of the group.
        runs: Folders of its runs; those that neither finished nor diverged do not count.

    Returns:
        TensorBoard's event file; None where no run has curves yet.
    """
    tables = {run: table for run in runs if _counts(run) and (table := read_curves(run)) is not None}
    curves = summarise(list(tables.values())) if tables else None
    if curves is None or curves.empty:
        return None
    # The time of the newest curves, not of the writing: equal runs then give an equal file.
    when = max((run / "metrics.csv").stat().st_mtime for run in tables)
    return _replace(folder / FOLDER / group, _encode(curves, when))


def _counts(run: Path) -> bool:
    try:
        return json.loads((run / "result.json").read_text(encoding="utf-8")).get("status") in RESULTS
    except (OSError, ValueError, AttributeError):
        return False  # whoever reads results says what is wrong with them


def read_curves(run: Path) -> "pd.DataFrame | None":
    """The metrics of a run, one row a step; None where it has none yet or, with a warning, where they are damaged."""
    import pandas as pd

    path = run / "metrics.csv"
    try:
        table = pd.read_csv(path).groupby("step").last().drop(columns="epoch", errors="ignore").astype(float)
    except (FileNotFoundError, pd.errors.EmptyDataError):
        return None
    except (OSError, ValueError, KeyError) as error:
        warnings.warn(f"{str(path)!r} is left out of the summary ({error}).", stacklevel=2)
        return None
    return None if table.empty else table


def average(curves: "Sequence[pd.Series]") -> "pd.DataFrame":
    """Mean and sample standard deviation of curves, at every step where one of them has a value.

    A curve that ends early (early stopping, divergence) goes on at its last finite value: the mean over those that
    still train would jump whenever one leaves and be that of the survivors, and a mean cut at the shortest would hide
    most of the training for one run that diverged early. The mean starts where all have begun, for the same reason.
    A curve without any finite value cannot be averaged and is left out.

    Args:
        curves: Value by step, one for each run.
    """
    import pandas as pd

    finite = [kept for curve in curves if len(kept := curve[curve.abs() < math.inf])]
    if not finite:
        return pd.DataFrame({"mean": [], "std": []}, dtype=float)
    values = pd.concat(finite, axis=1).sort_index().ffill().dropna()
    return pd.DataFrame({"mean": values.mean(axis=1), "std": values.std(axis=1, ddof=1)})


def summarise(tables: "Sequence[pd.DataFrame]") -> "pd.DataFrame":
    """All curves of a summary, a column each, by step: means, bands and the number of runs still training."""
    import pandas as pd

    columns: dict[str, pd.Series] = {}
    for tag in dict.fromkeys(tag for table in tables for tag in table):
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


def _layout(tags: Sequence[str]) -> "Summary.Value":
    """What the page Custom Scalars shows: a chart with a band for each metric that has one.

    One category, because TensorBoard loses charts when runs bring different categories.
    """
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.custom_scalar import layout_pb2, metadata

    charts = []
    for tag in tags:
        if band(tag)[0] in tags:
            series = layout_pb2.MarginChartContent.Series(value=tag, lower=band(tag)[0], upper=band(tag)[1])
            charts.append(layout_pb2.Chart(title=tag, margin=layout_pb2.MarginChartContent(series=[series])))
    layout = layout_pb2.Layout(category=[layout_pb2.Category(title=TITLE, chart=charts)])
    text = TensorProto(dtype=DT_STRING, string_val=[layout.SerializeToString()], tensor_shape=TensorShapeProto())
    return Summary.Value(tag=metadata.CONFIG_SUMMARY_TAG, metadata=metadata.create_summary_metadata(), tensor=text)


def _events(wide: "pd.DataFrame", when: float) -> "list[Event]":
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary

    tags = list(wide)
    events = [
        Event(wall_time=when, file_version="brain.Event:2"),
        # Tells a TensorBoard that is running to forget what it read of the file that this one replaces.
        Event(wall_time=when, step=0, session_log=SessionLog(status=SessionLog.START)),
        Event(wall_time=when, step=0, summary=Summary(value=[_layout(tags)])),
    ]
    for step, row in zip(wide.index.tolist(), wide.to_numpy().tolist(), strict=True):
        values = [Summary.Value(tag=tag, simple_value=x) for tag, x in zip(tags, row, strict=True) if x == x]
        events.append(Event(wall_time=when, step=int(step), summary=Summary(value=values)))
    return events


def _encode(wide: "pd.DataFrame", when: float) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    file = io.BytesIO()
    writer = RecordWriter(file)
    for event in _events(wide, when):
        writer.write(event.SerializeToString(deterministic=True))
    return file.getvalue()


def _replace(folder: Path, content: bytes) -> Path:
    """Make a folder hold one event file, with this content; those that it replaces are left empty for a while."""
    folder.mkdir(parents=True, exist_ok=True)
    full = [path for path in sorted(folder.glob(EVENTS)) if _size(path)]
    if len(full) == 1 and full[0].read_bytes() == content:
        return full[0]
    part = folder / f".{os.getpid()}.part"
    part.write_bytes(content)
    # A new name, later than the old: a TensorBoard that is running reads no file twice, and reads them in this order.
    new = part.rename(folder / EVENTS.replace("*", f"{time.time_ns()}.summary"))
    for path in folder.glob(EVENTS):
        if path.name < new.name:
            with contextlib.suppress(FileNotFoundError):  # another sweep on the same folder was first
                _retire(path)
    return new


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _retire(path: Path) -> None:
    """Empty a file that is out of date; remove it once every TensorBoard that is running has gone on to the next.

    Without its data server TensorBoard stays for ever at a file that vanishes while it is the newest.
    """
    if _size(path):
        os.truncate(path, 0)
    elif time.time() - path.stat().st_mtime > PATIENCE:
        path.unlink()
