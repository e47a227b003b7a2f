"""Arrays measured during training, in a run's folder: one file for each measure."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "measures"


@dataclass(frozen=True, eq=False)
class Measurement:
    """A quantity at several steps of a training and in several layers."""

    name: str  # of the measure and of its file: gradient_similarity
    steps: np.ndarray  # optimizer steps, increasing, shape (T,)
    values: np.ndarray  # shape (T, layers), or (T, layers, neurons); NaN where there is no value
    unit: str = ""  # label of its axis, such as µ(G)
    log10: bool = False  # the values are logarithms to base 10
    # Number of each layer, shape (layers,); 1, 2, ... by default.
    layers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))

    def __post_init__(self) -> None:
        if not len(self.layers):
            object.__setattr__(self, "layers", np.arange(1, self.values.shape[1] + 1))
        assert self.values.ndim in (2, 3), "values are steps x layers, or steps x layers x neurons"
        assert self.values.shape[:2] == (len(self.steps), len(self.layers)), (
            "steps, layers and values disagree"
        )


def save(folder: Path, measurement: Measurement) -> Path:
    """Write a measurement atomically into a run's folder, and return the file."""
    target = folder / FOLDER / f"{measurement.name}.npz"
    target.parent.mkdir(exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    with part.open("wb") as file:
        arrays = {
            name: getattr(measurement, name)
            for name in ("steps", "layers", "values", "unit", "log10")
        }
        np.savez_compressed(file, **arrays)
    part.replace(target)
    return target


def load(folder: Path, name: str) -> Measurement:
    """Read a measurement from a run's folder; a ValueError says that the file is damaged, or not a
    measurement."""
    path = folder / FOLDER / f"{name}.npz"
    try:
        with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
            unit, log10 = str(file["unit"]), bool(file["log10"])
            return Measurement(name, file["steps"], file["values"], unit, log10, file["layers"])
    except (OSError, KeyError, ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{str(path)!r} is damaged, or not a measurement ({error}).") from error


def names(folder: Path) -> list[str]:
    """Names of the measurements in a run's folder."""
    return sorted(path.stem for path in (folder / FOLDER).glob("*.npz"))


def edges(centres: np.ndarray) -> np.ndarray:
    """Edges of a heat map's cells: midway between neighbouring centres, and as far beyond the first
    and the last."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def long(one: Measurement) -> "pd.DataFrame":
    """A measurement in long form: columns ``step``, ``layer``, for neurons ``neuron``, and
    ``value``."""
    import pandas as pd

    axes = {"step": one.steps, "layer": one.layers}
    if one.values.ndim == 3:
        axes["neuron"] = np.arange(one.values.shape[2])
    places = pd.MultiIndex.from_product(axes.values(), names=axes)
    return pd.Series(one.values.ravel(), places, name="value").reset_index()


def frame(measurements: "Sequence[Measurement]") -> "pd.DataFrame":
    """Measurements in long form: columns ``step``, ``layer``, ``measure``, ``value``, and
    ``neuron`` for neurons.

    Values are those measured, not their logarithms.
    """
    import pandas as pd

    parts = [pd.DataFrame(columns=["step", "layer", "measure", "value"])] * (not measurements)
    for one in measurements:
        table = long(one)
        table.insert(table.shape[1] - 1, "measure", one.name)
        parts.append(table.assign(value=10 ** table["value"]) if one.log10 else table)
    return pd.concat(parts, ignore_index=True)
