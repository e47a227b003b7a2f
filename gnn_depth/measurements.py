"""Arrays measured during training, in a run's folder: one file for each measure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gnn_depth.registry import printable

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "measures"
ARRAYS = ("steps", "layers", "values", "unit", "log10", "around_zero")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)  # of a measure, and so of its file
LEAST = 0.01  # range of a colour scale, as a share of the largest value


@dataclass(frozen=True, eq=False)
class MeasureValues:
    """The values of a measure at several steps of a training and in several layers."""

    name: str  # of the measure and of its file: gradient_similarity
    steps: np.ndarray  # optimizer steps, increasing, shape (T,)
    values: np.ndarray  # shape (T, layers), or (T, layers, neurons); NaN where there is no value
    unit: str = ""  # label of its axis, such as µ(G)
    log10: bool = False  # the values are logarithms to base 10
    # Number of each layer, shape (layers,); 1, 2, ... by default.
    layers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    # Zero separates two kinds of values: a factor below and above one, a balance that leans to one
    # side or the other.
    around_zero: bool = False

    def __post_init__(self) -> None:
        if not len(self.layers):
            object.__setattr__(self, "layers", np.arange(1, self.values.shape[1] + 1))
        assert self.values.ndim in (2, 3), "values are steps x layers, or steps x layers x neurons"
        shape = (len(self.steps), len(self.layers))
        assert self.values.shape[:2] == shape, "steps, layers and values disagree"


def save_values(folder: Path, values: MeasureValues) -> Path:
    """Write the values of a measure atomically into a run's folder, and return the file.

    Raises:
        ValueError: The name is not one of a file.
    """
    if not NAME.fullmatch(values.name):
        raise ValueError(
            f"a measure is saved under its name, and {values.name!r} is not a file name: use "
            "letters, digits, '_', '-' and '.', beginning with a letter or digit."
        )
    target = folder / FOLDER / f"{values.name}.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    # A run that is killed while it writes leaves the file of the last time.
    part = target.with_name(f".{target.name}.part")
    with part.open("wb") as file:
        np.savez_compressed(file, **{name: getattr(values, name) for name in ARRAYS})
    part.replace(target)
    return target


def load_values(folder: Path, name: str) -> MeasureValues:
    """Read the values of a measure from a run's folder.

    Raises:
        ValueError: The file is damaged, or no file of a measure.
        FileNotFoundError: There is none.
    """
    path = folder / FOLDER / f"{name}.npz"
    try:
        with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
            found = MeasureValues(
                name,
                file["steps"],
                file["values"],
                str(file["unit"]),
                bool(file["log10"]),
                file["layers"],
                bool(file["around_zero"]),
            )
        for array in (found.steps, found.layers, found.values):
            if array.dtype.kind not in "fiu":
                raise ValueError("its arrays are not numbers")
    except FileNotFoundError:
        raise
    # A flipped bit may show as anything: zlib, zipfile and NumPy have errors of their own.
    except Exception as error:
        kind = type(error).__name__
        # NumPy and zipfile quote what they read.
        reason = printable(" ".join(str(error).split()))[:120] or kind
        raise ValueError(
            f"{str(path)!r} is damaged, or holds no measure ({reason}): measure again, or delete "
            "it."
        ) from error
    return found


def measure_names(folder: Path) -> list[str]:
    """Names of the measures in a run's folder; files with other names are left out."""
    paths = (folder / FOLDER).glob("*.npz")
    return sorted(path.stem for path in paths if NAME.fullmatch(path.stem))


def colour_scale(values: np.ndarray, around_zero: bool) -> tuple[str, float, float]:
    """The colour map of a measure's values, by Matplotlib's name, and its limits, the same ones in
    every picture.

    They span the range of the finite values, and at least 1% of the largest, so that noise does not
    look like a change; 0 to 1 without any. Around zero they go from blue over
    white, which is zero, to red, as far to both sides as the value that is furthest from it.
    """
    finite = values[np.isfinite(values)]
    low, high = 0.0, 1.0
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
    if around_zero:
        furthest = max(-low, high) or 1.0
        return "RdBu_r", -furthest, furthest
    least = LEAST * max(-low, high) or 1.0
    beyond = max(0.0, least - (high - low)) / 2
    return "viridis", low - beyond, high + beyond


def lost_and_zero(values: np.ndarray, log10: bool) -> tuple[np.ndarray, np.ndarray]:
    """Masks of the values that are not finite, and of exact zeros, whose logarithm is -inf."""
    zero = np.isneginf(values) & log10
    return ~np.isfinite(values) & ~zero, zero


def edges(centres: np.ndarray) -> np.ndarray:
    """Edges of a heat map's cells: midway between neighbouring centres, and as far beyond the first
    and the last."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    around = np.pad(centres.astype(float), 1, "reflect", reflect_type="odd")
    return (around[1:] + around[:-1]) / 2


def long(one: MeasureValues) -> "pd.DataFrame":
    """A measurement in long form: columns ``step``, ``layer``, for neurons ``neuron``, and
    ``value``."""
    import pandas as pd

    axes = {"step": one.steps, "layer": one.layers}
    if one.values.ndim == 3:
        axes["neuron"] = np.arange(one.values.shape[2])
    places = pd.MultiIndex.from_product(axes.values(), names=axes)
    return pd.Series(one.values.ravel(), places, name="value").reset_index()


def frame(measurements: "Sequence[MeasureValues]") -> "pd.DataFrame":
    """Several measures in long form: columns ``step``, ``layer``, ``measure``, ``value``, and
    ``neuron`` for neurons.

    Values are those measured, not their logarithms.
    """
    import pandas as pd

    if not measurements:
        return pd.DataFrame(columns=["step", "layer", "measure", "value"])
    parts = []
    for one in measurements:
        table = long(one)
        table.insert(table.shape[1] - 1, "measure", one.name)
        if one.log10:
            table["value"] = 10 ** table["value"]
        parts.append(table)
    return pd.concat(parts, ignore_index=True)
