"""Name, show, choose and group runs by their settings: axes of a sweep and hyperparameters.

``frame`` is a table of runs, one a row; ``frame.attrs`` lists the columns that are axes or
hyperparameters.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import pandas as pd

from gnn_depth.registry import as_written, counted, first_of, unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.runs import COLUMNS, RESULTS

Names: TypeAlias = Sequence[str]  # of axes, settings or measures
Labels: TypeAlias = tuple[str, ...]  # one value of each axis, as text

ABSENT = "-"  # the text of a missing value
# Runs that differ in these may be averaged: the last two change numbers by rounding alone.
MAY_DIFFER = ("seed_everything", "model.compile", "trainer.accelerator")
# Options of a part, which its label says: model.norm is "spectral per_depth=8.0".
OF_PART = r"model\.(layer|norm|init|skip|graph_dropout)\."
SHOWN = 3  # an error names at most so many settings, and so many values of each
WORDS = {
    "acc": "accuracy",
    "val": "validation",
    "f1": "F1",
    "auroc": "AUROC",
    "lr": "learning rate",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R2",
}


def settings(frame: pd.DataFrame) -> list[str]:
    """Names of the axes, then of the other hyperparameters."""
    return list(dict.fromkeys([*frame.attrs["axes"], *frame.attrs["hparams"]]))


def varying(frame: pd.DataFrame, missing: bool = True) -> list[str]:
    """The columns that have more than one value; that it is missing may count as one."""
    return [name for name in frame if frame[name].nunique(dropna=not missing) > 1]


def varying_axes(frame: pd.DataFrame) -> list[str]:
    """The axes that vary; without a sweep, the options that differ, except the seed."""
    axes = frame.attrs["axes"]
    if axes:
        return varying(frame[axes])
    # A run that failed before its model was built records no options, and differs in none.
    names = varying(_told_apart(frame), missing=False)
    return [name for name in names if not re.match(OF_PART, name)]


def full_name(frame: pd.DataFrame, name: str) -> str:
    """The full name of an axis or hyperparameter: ``model.num_layers`` for ``num_layers``."""
    known = settings(frame)
    # A short name may fit several settings, and most likely means one that varies.
    choices = frame.attrs["axes"] or varying(frame[known]) or known
    return resolve_name(name, choices, [*known, *COLUMNS])


def full_names(frame: pd.DataFrame, names: Names | None) -> Labels:
    """The full names of axes or hyperparameters; none for None."""
    return tuple(full_name(frame, name) for name in names or ())


def resolve_name(name: str, choices: Names, known: Names) -> str:
    """Find the full name for a name as users write it.

    For ``model.num_layers`` that may be the full name or its last part, ``num_layers``. Choices,
    which are known names too, are tried before the others, and an error lists them.
    """
    if name in known:
        return name
    for names in (choices, known):
        matches = [full for full in names if last_part(full) == name]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ReportError(
                f"several axes are called {name!r}: {', '.join(matches)}. Write the full name."
            )
    raise ReportError(unknown("axis", name, choices, also=known))


def last_part(name: str) -> str:
    """``num_layers`` for ``model.num_layers``."""
    return name.rpartition(".")[2]


def words(name: str) -> str:
    """``layers`` for ``model.num_layers``: the label in tables and figures."""
    return last_part(name).removeprefix("num_").replace("_", " ")


def short_words(names: Names) -> Labels:
    """The label of each name; the full names where several have the same label."""
    short = tuple(map(words, names))
    if len(set(short)) < len(short):
        return tuple(names)
    return short


def is_percent(metric: str) -> bool:
    """True for metrics that are fractions and shown in percent: acc, f1, auroc."""
    # As a word of its own: "accuracy_gap" of a plugin may be anything.
    return re.search(r"(^|[/_])(acc|f1|auroc)([/_]|$)", metric) is not None


def scale(metric: str) -> float:
    """The factor by which a metric is shown: 100 for fractions, which are shown in percent."""
    return 100.0 if is_percent(metric) else 1.0


def known_metric(frame: pd.DataFrame, metric: str | None) -> str:
    """The metric of this name, which some run must have; without a name the main metric."""
    known = frame.attrs["metrics"]
    if not known:
        raise ReportError(f"no run has a metric yet: {counted(frame['status'])}.")
    metric = metric or main_metric(frame)
    if metric not in known:
        raise ReportError(unknown("metric", metric, known))
    return metric


def main_metric(frame: pd.DataFrame) -> str:
    """The metric that chose the best epochs, on the test set at the best epoch:
    ``test_acc_at_best_val``, unless all runs name the same other.

    Where the loss was monitored, it is the metric of the task; where no test set was measured, the
    validation set counts.
    """
    found = {"monitor": "val/acc", "metric": "acc"}
    for column in found:
        named = frame[column].dropna().unique()
        if len(named) == 1:
            found[column] = named[0]
    name = found["monitor"].partition("/")[2]
    if name == "loss":  # of the test set none is measured
        name = found["metric"]
    of_test, of_val = f"test_{name}_at_best_val", f"val_{name}_at_best_val"
    metrics = frame.attrs["metrics"]
    return of_val if of_val in metrics and of_test not in metrics else of_test


def metric_words(metric: str) -> str:
    """``test accuracy at best validation (%)`` for ``test_acc_at_best_val``."""
    known = [WORDS.get(word, word) for word in re.split("[_/]", metric)]
    if is_percent(metric):
        known.append("(%)")
    return " ".join(known)


def label(value: object) -> str:
    """A value as YAML writes it; ``-`` if the run has none."""
    # In a column of numbers pandas writes NaN for None, and makes floats of integers.
    if pd.isna(value):
        return ABSENT
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return as_written(value)


def number(text: str) -> float | None:
    """The finite number that a label spells, or None."""
    with suppress(ValueError):
        if math.isfinite(float(text)):
            return float(text)
    return None


def same(one: str, other: str) -> bool:
    """True if two labels mean the same value, as ``1e-3`` and ``0.001`` do."""
    return one == other or number(one) == number(other) is not None


def in_order(labels: Iterable[Labels]) -> tuple[Labels, ...]:
    """Sort distinct labels: numbers by size, other values as they first appear, missing ones last.

    The first axis decides, then the second, and so on.
    """
    distinct = list(dict.fromkeys(labels))
    ranks = []  # for each axis, the place of each value
    for values in zip(*distinct, strict=True):
        known = [value for value in dict.fromkeys(values) if value != ABSENT]
        if None not in map(number, known):
            known.sort(key=float)
        ranks.append([*known, ABSENT])
    return tuple(sorted(distinct, key=lambda values: list(map(list.index, ranks, values))))


def tally(statuses: pd.Series) -> list[str]:
    """Sentences that count the diverged runs and those left out without a result, if any."""
    notes = []
    is_result = statuses.isin(RESULTS)
    results, diverged = is_result.sum(), (statuses == "diverged").sum()
    if diverged:
        notes.append(f"{diverged} of {results} runs diverged: what they reached before counts.")
    if results < len(statuses):
        notes.append(f"Left out: {counted(statuses[~is_result])}.")
    return notes


def n_of(counts: Collection[int]) -> str:
    """``n=3``, or ``n=3 to 5``, the number of runs."""
    least, most = min(counts), max(counts)
    return f"n={least}" + f" to {most}" * (least < most)


def known_labels(frame: pd.DataFrame, name: str) -> list[str]:
    """The distinct values of an axis or hyperparameter as text."""
    return list(dict.fromkeys(frame[full_name(frame, name)].map(label)))


def choose_runs(frame: pd.DataFrame, where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The runs that have one of the given values on each axis."""
    for word, values in where.items():
        name = full_name(frame, word)
        texts = frame[name].map(label)
        chosen = []
        for value in values:
            matches = [text for text in texts.unique() if same(text, value)]
            if not matches:
                raise ReportError(unknown(f"value of {name!r}", value, texts.unique()))
            chosen += matches
        frame = frame[texts.isin(chosen)]
    return frame


def _told_apart(frame: pd.DataFrame) -> pd.DataFrame:
    """The settings that tell experiments apart, each with its value in every run as text.

    A value is missing where it is not recorded: a run that failed before its model was built does
    not record its hyperparameters, and a run of another sweep not the axes of this one. In any
    other run a missing setting counts as a value: a run without gradient clipping differs from one
    with it.
    """
    never_began = frame["started"].isna()
    columns = {}
    for name in varying(frame[settings(frame)]):
        # The same data may lie elsewhere on another machine.
        if name in MAY_DIFFER or re.match(r"data\.(.*\.)?root$", name):
            continue
        is_axis = name in frame.attrs["axes"]
        not_recorded = frame[name].isna() if is_axis else never_began
        columns[name] = frame[name].map(label).mask(not_recorded)
    return pd.DataFrame(columns, index=frame.index)


def grouped(frame: pd.DataFrame, names: Names, remedy: str | None) -> dict[Labels, pd.DataFrame]:
    """Group the runs by their labels on some axes; runs of a group may differ only in their seed.

    The error about other differences ends with the remedy, such as an option of the command, and
    the names of the settings that differ. Without a remedy anything may differ.
    """
    # Without names all runs have the same labels, none.
    labels = map(tuple, frame[list(names)].map(label).to_numpy())
    groups = dict(iter(frame.groupby(pd.Series(list(labels), frame.index), sort=False)))
    if remedy is not None:
        apart = _told_apart(frame).drop(columns=list(names), errors="ignore")
        for group in groups.values():
            _check_group(group, apart.loc[group.index], remedy)
    return groups


def _check_group(group: pd.DataFrame, apart: pd.DataFrame, remedy: str) -> None:
    """Refuse runs that differ in more than their seed, and two runs with the same seed."""
    # Options that change with the seed in some of the runs alone are a difference between them.
    per_seed = set.intersection(*map(set, group["per_seed"]))
    mixed = [name for name in varying(apart, missing=False) if name not in per_seed]
    # If an axis of the sweep differs, other options differ because of it.
    axes = [name for name in mixed if name in group.attrs["axes"]]
    if mixed:
        mixed = axes or mixed
        # The options of a part differ because the part does, so naming the part is enough.
        roots = [name for name in mixed if not any(name.startswith(f"{part}.") for part in mixed)]
        differences, choices = [], []
        for name in roots:
            values = apart[name].dropna().unique().tolist()
            differences.append(f"{name} ({first_of(values, SHOWN)})")
            choices.append(f"{name}={values[0]}")
        raise ReportError(
            f"these runs differ in {first_of(differences, SHOWN, ' and ')}: {remedy} "
            f"{' '.join(roots)}, or choose with --where {' '.join(choices[:SHOWN])}."
        )
    averaged = group[group["status"].isin(RESULTS) & group["seed"].notna()]
    for seed, folders in averaged.groupby("seed")["folder"]:
        if len(folders) > 1:
            first, second, *_ = folders
            raise ReportError(
                f"seed {seed:.0f} counts twice in one cell, in {first!r} and {second!r}, whose "
                "options agree; the data or code may differ. Move one of the two into a folder "
                "called archive."
            )
    # What options do not tell: data and plugins whose content had changed in between.
    contents = {"data": "data_sha256", "plugins": "plugin_files"}
    if any(name.startswith("data.") for name in per_seed):
        del contents["data"]  # each seed has its own
    for what, column in contents.items():
        folders = averaged.dropna(subset=column).drop_duplicates(column)["folder"]
        if len(folders) > 1:
            first, second, *_ = folders
            raise ReportError(
                f"{first!r} and {second!r} have equal options, but their {what} had changed in "
                "between: move those that no longer count into a folder called archive."
            )
