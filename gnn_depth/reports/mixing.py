"""Runs that must not be averaged with one another."""

from collections.abc import Collection, Iterable, Sequence

import pandas as pd

from gnn_depth.reports.errors import ReportError
from gnn_depth.reports.settings import axes, label, settings, varying
from gnn_depth.runs import RESULTS

FREE = ("seed_everything", "model.compile")  # what may differ: results are the same, up to chance and last bits
SHOWN = 3  # settings that a message names, and values of each


def check_one_experiment(frame: pd.DataFrame, groups: Iterable[Sequence[int]], names: Collection[str]) -> None:
    """Refuse groups of runs that differ in more than their seed.

    Args:
        frame: Runs, as `load` gives them.
        groups: Positions in the frame of the runs of each group.
        names: Axes that the groups were formed by.

    Raises:
        ReportError: Runs of a group differ in an axis or a hyperparameter, or two with a result have the same seed.
    """
    columns = _telling(frame, [name for name in varying(frame, settings(frame)) if name not in names])
    status, seeds, folders = (frame[name].tolist() for name in ("status", "seed", "folder"))
    for group in groups:
        values = {name: dict.fromkeys(texts[run] for run in group) for name, texts in columns.items()}
        mixed = {name: [text for text in found if text] for name, found in values.items()}
        mixed = {name: found for name, found in mixed.items() if len(found) > 1}
        if mixed:
            of_axes = {name: found for name, found in mixed.items() if name in axes(frame)}
            raise ReportError(_explain(of_axes or mixed))
        _check_seeds([(seeds[run], folders[run]) for run in group if status[run] in RESULTS])


def _telling(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, list[str]]:
    """Settings that may not differ, of every run as text; empty where it is not known.

    An old run does not say its hyperparameters, nor a run of another sweep a value of this sweep's axes. In any other
    run not to be mentioned is a value of its own: no gradient clipping.
    """
    silent = frame[frame.attrs["hparams"]].isna().all(axis=1)
    found = {}
    for name in names:
        if name not in FREE and not (name.startswith("data.") and name.endswith(".root")):
            unsaid = frame[name].isna() if name in axes(frame) else silent
            found[name] = frame[name].map(label).mask(unsaid, "").tolist()
    return found


def _explain(mixed: dict[str, list[str]]) -> str:
    # The options of a part differ because the part does.
    roots = [name for name in mixed if not any(name.startswith(f"{other}.") for other in mixed)]
    said = " and ".join(f"{name} {_few(mixed[name])}" for name in roots[:SHOWN])
    more = f" and {len(roots) - SHOWN} more" if len(roots) > SHOWN else ""
    it = "it" if len(roots) == 1 else "them"
    chosen = " ".join(f"{name}={mixed[name][0]}" for name in roots[:SHOWN])
    own = "an axis of its own" if len(roots) == 1 else "axes of their own"
    return f"cells mix {said}{more}: give {it} {own} in the table or figure, or choose with --where {chosen}."


def _few(values: list[str]) -> str:
    return ", ".join(values[:SHOWN]) + (", ..." if len(values) > SHOWN else "")


def _check_seeds(runs: list[tuple[float, str]]) -> None:
    first: dict[float, str] = {}
    for seed, folder in runs:
        other = first.setdefault(seed, folder)  # NaN, a run without a seed, equals no other
        if other is not folder:
            raise ReportError(
                f"seed {seed:.0f} counts twice in one cell, by {other!r} and {folder!r}: choose between them with "
                "--where, or move one into a folder called archive."
            )
