"""Read the runs chosen on the command line, for commands that report on runs."""

from collections.abc import Sequence

import pandas as pd

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import split_values
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.reports.load import ReportWarning, load
from gnn_depth.reports.settings import choose, known_labels


def load_runs(folders: Sequence[str], where: Sequence[str]) -> pd.DataFrame:
    """Read runs and keep those that ``--where`` chooses; warnings go to standard error.

    Args:
        folders: Folders of runs.
        where: Conditions of the form AXIS=VALUE,VALUE.

    Raises:
        UsageError: A condition has another form.
        ReportError: No run fulfils the conditions.
    """
    chosen = _chosen(where)
    with plain_warnings(ReportWarning):
        frame = load(*folders)
    values = {
        axis: [value for text in texts for value in split_values(text, known_labels(frame, axis))]
        for axis, texts in chosen.items()
    }
    return choose(frame, values)


def _chosen(conditions: Sequence[str]) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for condition in conditions:
        axis, _, values = condition.partition("=")
        if not axis or not values:
            raise UsageError(f"--where takes AXIS=VALUE or AXIS=VALUE,VALUE, not {condition!r}.")
        chosen.setdefault(axis, []).append(values)
    return chosen
