"""What commands that report on runs share: runs chosen on the command line."""

import sys
import warnings
from collections.abc import Sequence

import pandas as pd

from gnn_depth.cli.errors import UsageError
from gnn_depth.reports.errors import ReportWarning
from gnn_depth.reports.load import load
from gnn_depth.reports.settings import choose


def load_runs(folders: Sequence[str], where: Sequence[str]) -> pd.DataFrame:
    """Read runs and keep those that ``--where`` chooses; warnings are said on the standard error.

    Args:
        folders: Folders of runs.
        where: Words of the form AXIS=VALUE,VALUE.

    Raises:
        UsageError: A word is of another form.
        ReportError: There are no such runs.
    """
    chosen = _chosen(where)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReportWarning)
        frame = load(*folders)
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    return choose(frame, chosen)


def _chosen(words: Sequence[str]) -> dict[str, list[str]]:
    chosen: dict[str, list[str]] = {}
    for word in words:
        axis, _, values = word.partition("=")
        if not axis or not values:
            raise UsageError(f"--where takes AXIS=VALUE or AXIS=VALUE,VALUE, not {word!r}.")
        chosen.setdefault(axis, []).extend(values.split(","))
    return chosen
