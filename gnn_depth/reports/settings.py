"""What runs were set to: names of axes and hyperparameters, their values as text, and runs chosen by them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.errors import ReportError
from gnn_depth.runs import COLUMNS

ABSENT = "-"


def axes(frame: pd.DataFrame) -> list[str]:
    """Names of the axes of the sweeps that a frame's runs are of.

    Raises:
        ReportError: The frame has lost what `load` said of its columns.
    """
    return _kind(frame, "axes")


def metrics(frame: pd.DataFrame) -> list[str]:
    """Names of the metrics that a frame's runs have, errors as of `axes`."""
    return _kind(frame, "metrics")


def settings(frame: pd.DataFrame) -> list[str]:
    """Names of the axes, then of the other hyperparameters, errors as of `axes`."""
    return list(dict.fromkeys([*_kind(frame, "axes"), *_kind(frame, "hparams")]))


def _kind(frame: pd.DataFrame, kind: str) -> list[str]:
    if kind not in frame.attrs:
        raise ReportError(
            f"this frame no longer says which of its columns are {kind} (pandas' merge and concat lose it): "
            "set frame.attrs to that of a frame from gnn_depth.reports.load."
        )
    return [name for name in frame.attrs[kind] if name in frame]


def varying(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Those of some columns that have several values."""
    return [name for name in names if frame[name].nunique(dropna=False) > 1]


def called(frame: pd.DataFrame, word: str) -> str:
    """The full name of an axis or hyperparameter that is called by it, or by its last word where that is one's alone.

    Args:
        frame: Runs, as `load` gives them.
        word: ``model.num_layers``, or ``num_layers``.

    Raises:
        ReportError: Nothing is called so, or several are.
    """
    known = settings(frame)
    choices = axes(frame) or varying(frame, known) or known
    return resolve(word, choices, [*known, *COLUMNS])


def resolve(word: str, choices: Sequence[str], known: Sequence[str]) -> str:
    """The one of some names that is a word, or ends with it after a dot.

    Args:
        word: What somebody wrote.
        choices: Names that come first, and that an error offers.
        known: All names.

    Raises:
        ReportError: Nothing is called so, or several are.
    """
    if word in choices or word in known:
        return word
    for names in (choices, known):
        last = [name for name in names if name.rpartition(".")[2] == word]
        if len(last) == 1:
            return last[0]
        if last:
            raise ReportError(f"several axes are called {word!r}: {', '.join(last)}. Write the whole name.")
    raise ReportError(unknown("axis", word, choices, also=known))


def label(value: Any) -> str:
    """A value as text, as YAML writes it; ``-`` where a run has none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ABSENT
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # a whole number too, in a column with gaps
    return str(value).lower() if str(value) in ("True", "False") else str(value)


def number(text: str) -> float | None:
    """The number that a label is, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def same(one: str, other: str) -> bool:
    """Whether two labels mean one value: ``1e-3`` and ``0.001`` do."""
    return one == other or (number(one) is not None and number(one) == number(other))


def known_labels(frame: pd.DataFrame, word: str) -> list[str]:
    """The different values of an axis or hyperparameter as text; it is called as for `called`, whose errors it has."""
    return list(dict.fromkeys(frame[called(frame, word)].map(label)))


def choose(frame: pd.DataFrame, where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The runs that have one of some values of each of some axes, in the order in which the values are given.

    Args:
        frame: Runs, as `load` gives them.
        where: Name of an axis, in full or its last word -> values, as text.

    Raises:
        ReportError: There is no such axis or value, or no run has all of them together.
    """
    chosen, order = frame, {}
    for word, values in where.items():
        name = called(frame, word)
        known = known_labels(frame, name)
        for value in values:
            if not any(same(text, value) for text in known):
                raise ReportError(unknown(f"value of {name!r}", value, known))
        order[name] = {text: place for text in known for place, value in enumerate(values) if same(text, value)}
        chosen = chosen[chosen[name].map(label).isin(order[name])]
    if chosen.empty:
        said = " and ".join(f"{word}={','.join(values)}" for word, values in where.items())
        raise ReportError(f"no run has {said}.")
    places = [chosen[name].map(label).map(place) for name, place in order.items()]
    return chosen.iloc[sorted(range(len(chosen)), key=lambda run: [place.iloc[run] for place in places])]
