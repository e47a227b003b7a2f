"""Axes and hyperparameters of runs: find their names, show their values as text, and choose runs by
them."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.runs import COLUMNS, RESULTS, on_test_set

Labels: TypeAlias = tuple[str, ...]  # one value of each axis, as text

ABSENT = "-"
MAY_DIFFER = ("seed_everything", "model.compile")  # between runs that are averaged
SHOWN = 3  # settings named in a message, and values of each
WORDS = {
    "acc": "accuracy",
    "val": "validation",
    "f1": "F1",
    "auroc": "AUROC",
    "lr": "learning rate",
}
WORDS |= {"mae": "mean absolute error", "rmse": "root mean squared error", "r2": "R2"}


def settings(frame: pd.DataFrame) -> list[str]:
    """Names of the axes, then of the other hyperparameters."""
    return list(dict.fromkeys([*frame.attrs["axes"], *frame.attrs["hparams"]]))


def varying(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """The columns that have more than one value."""
    return [name for name in names if frame[name].nunique(dropna=False) > 1]


def varying_axes(frame: pd.DataFrame) -> list[str]:
    """The axes that vary; for runs that belong to no sweep, the options that differ between them,
    the seed apart."""
    if axes := frame.attrs["axes"]:
        return varying(frame, axes)
    differing = {
        name: texts for name, texts in _told_apart(frame).items() if len(set(texts) - {""}) > 1
    }

    def follows(name: str, part: str) -> bool:
        """True for an option of a part, such as its class, that differs only because the part
        does."""
        pairs = set(zip(differing[part], differing[name], strict=True))
        return name.startswith(f"{part}.") and len(pairs) == len({value for value, _ in pairs})

    return [name for name in differing if not any(follows(name, part) for part in differing)]


def full_name(frame: pd.DataFrame, name: str) -> str:
    """The full name of an axis or hyperparameter, such as ``model.num_layers`` for ``num_layers``;
    see `resolve`."""
    known = settings(frame)
    return resolve(name, frame.attrs["axes"] or varying(frame, known) or known, [*known, *COLUMNS])


def resolve(name: str, choices: Sequence[str], known: Sequence[str]) -> str:
    """The full name that equals a name, or whose last part does, or its word in a table: ``layers``
    for num_layers.

    Choices are tried before the other known names, and are listed in an error.
    """
    if name in choices or name in known:
        return name
    for short, names in itertools.product((last_part, words), (choices, known)):
        matches = [full for full in names if short(full) == name]
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
    """``layers`` for ``model.num_layers``, as a label for readers."""
    return last_part(name).removeprefix("num_").replace("_", " ")


def short_words(names: Sequence[str]) -> Labels:
    """The words of each name, or its full name where others have the same words."""
    found = [words(name) for name in names]
    return tuple(
        word if found.count(word) == 1 else name for name, word in zip(names, found, strict=True)
    )


def is_percent(metric: str) -> bool:
    """True for metrics that are fractions and shown in percent: acc, f1, auroc."""
    return re.search(r"(^|[/_])(acc|f1|auroc)([/_]|$)", metric) is not None


def monitor(frame: pd.DataFrame) -> str:
    """The metric by which the runs chose their best epochs: ``val/acc``, unless they all say
    another."""
    found = list(frame["monitor"].dropna().unique()) if "monitor" in frame else []
    return found[0] if len(found) == 1 else "val/acc"


def main_metric(frame: pd.DataFrame) -> str:
    """The same metric of the test set, at the best validation epoch: ``test_acc_at_best_val``."""
    return on_test_set(monitor(frame))


def metric_words(metric: str) -> str:
    """``test accuracy at best validation (%)`` for ``test_acc_at_best_val``."""
    text = " ".join(WORDS.get(word, word) for word in re.split("[_/]", metric))
    return text + (" (%)" if is_percent(metric) else "")


def label(value: Any) -> str:
    """A value as text, as YAML writes it; ``-`` where a run has none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ABSENT
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # pandas makes floats of integers in a column with gaps
    return str(value).lower() if str(value) in ("True", "False") else str(value)


def number(text: str) -> float | None:
    """The finite number that a label spells, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def same(one: str, other: str) -> bool:
    """True if two labels mean the same value, as ``1e-3`` and ``0.001`` do."""
    return one == other or (number(one) is not None and number(one) == number(other))


def labels_of(frame: pd.DataFrame, names: Sequence[str]) -> list[Labels]:
    """The labels of every run on some axes."""
    columns = [frame[name].map(label).tolist() for name in names]
    return [tuple(values) for values in zip(*columns, strict=True)] if names else [()] * len(frame)


def in_order(labels: Iterable[Labels]) -> tuple[Labels, ...]:
    """Distinct labels in the order of first appearance; numbers by size, missing values last."""
    distinct = list(dict.fromkeys(labels))
    ranks: list[dict[str, float]] = []
    for values in map(dict.fromkeys, zip(*distinct, strict=True)):
        numbers = {value: known for value in values if (known := number(value)) is not None}
        by_size = set(values) - set(numbers) <= {ABSENT}
        appearance = {value: float(place) for place, value in enumerate(values)}
        ranks.append((numbers if by_size else appearance) | {ABSENT: math.inf})
    return tuple(
        sorted(
            distinct,
            key=lambda values: [rank[value] for rank, value in zip(ranks, values, strict=True)],
        )
    )


def plural(count: int, what: str = "run") -> str:
    """``1 run``, ``2 runs``."""
    return f"{count} {what}" + ("" if count == 1 else "s")


def counted(statuses: Iterable[str]) -> str:
    """``2 failed, 1 running``, in the order of first appearance."""
    return ", ".join(f"{count} {status}" for status, count in Counter(statuses).items())


def known_labels(frame: pd.DataFrame, name: str) -> list[str]:
    """The distinct values of an axis or hyperparameter as text."""
    return list(dict.fromkeys(frame[full_name(frame, name)].map(label)))


def choose(frame: pd.DataFrame, where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The runs with one of the given values on every given axis, in the order in which the values
    are given."""
    places = pd.DataFrame(index=frame.index)
    for word, values in where.items():
        name, known = full_name(frame, word), known_labels(frame, word)
        for value in values:
            if not any(same(text, value) for text in known):
                raise ReportError(unknown(f"value of {name!r}", value, known))
        order = {
            text: place for text in known for place, value in enumerate(values) if same(text, value)
        }
        places[name] = frame[name].map(label).map(order)
    chosen = places.dropna().sort_values(list(places), kind="stable").index
    if chosen.empty:
        wanted = " and ".join(f"{word}={','.join(values)}" for word, values in where.items())
        raise ReportError(f"no run has {wanted}.")
    return frame.loc[chosen]


def _told_apart(frame: pd.DataFrame) -> dict[str, list[str]]:
    """The values of every run, as text, for the settings that vary and make different experiments.

    An old run does not record its hyperparameters, and a run of another sweep does not record the
    axes of this one: their values are empty. In any other run, a missing setting counts as a value:
    a run without gradient clipping differs from one with it.
    """
    silent, columns = frame[frame.attrs["hparams"]].isna().all(axis=1), {}
    for name in varying(frame, settings(frame)):
        if name not in MAY_DIFFER and not (name.startswith("data.") and name.endswith(".root")):
            unknown_here = frame[name].isna() if name in frame.attrs["axes"] else silent
            columns[name] = frame[name].map(label).mask(unknown_here, "").tolist()
    return columns


def grouped(
    frame: pd.DataFrame, names: Sequence[str], remedy: str | None
) -> dict[Labels, pd.DataFrame]:
    """The runs by their labels on some axes, in the order of the frame; those of a group may differ
    only in their seed.

    The error about other differences ends with the remedy and the names of the settings that
    differ; without a remedy anything may differ.
    """
    places: dict[Labels, list[int]] = {}
    for run, labels in enumerate(labels_of(frame, names)):
        places.setdefault(labels, []).append(run)
    groups = {labels: frame.iloc[runs] for labels, runs in places.items()}
    if remedy is None:
        return groups
    columns = {name: texts for name, texts in _told_apart(frame).items() if name not in names}
    for labels, group in groups.items():
        values = {
            name: dict.fromkeys(texts[run] for run in places[labels])
            for name, texts in columns.items()
        }
        several = {
            name: known
            for name, texts in values.items()
            if len(known := list(filter(None, texts))) > 1
        }
        # A difference in an axis of the sweep explains those in other options.
        if (
            mixed := {name: several[name] for name in several if name in frame.attrs["axes"]}
            or several
        ):
            raise ReportError(_explain(mixed, remedy))
        for seed, runs in group[group["status"].isin(RESULTS)].groupby(
            "seed"
        ):  # without runs that have no seed
            if len(runs) > 1:
                first, second, *_ = runs["folder"]
                raise ReportError(
                    f"seed {seed:.0f} counts twice in one cell, in {first!r} and {second!r}: "
                    "choose one with --where, or move the other into a folder called archive."
                )
    return groups


def _explain(mixed: Mapping[str, Sequence[str]], remedy: str) -> str:
    # The options of a part differ because the part does, so that naming the part is enough.
    roots = [name for name in mixed if not any(name.startswith(f"{other}.") for other in mixed)]
    few = {
        name: ", ".join(mixed[name][:SHOWN]) + ", ..." * (len(mixed[name]) > SHOWN)
        for name in roots
    }
    some = " and ".join(f"{name} ({few[name]})" for name in roots[:SHOWN])
    more = f" and {len(roots) - SHOWN} more" if len(roots) > SHOWN else ""
    chosen = " ".join(f"{name}={mixed[name][0]}" for name in roots[:SHOWN])
    return f"these runs differ in {some}{more}: {remedy} {' '.join(roots)}, or choose with --where {chosen}."
