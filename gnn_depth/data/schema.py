"""The schema of a model's data: columns by name, categories, scaling, classes.

A run writes its schema to ``schema.yaml`` and into every checkpoint. Data for a trained model is
read by that schema: columns are taken by name, and scaled by the numbers of the training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from gnn_depth.data.checks import DataError

#: What to do with a category that a model does not know.
Unknown: TypeAlias = Literal["error", "ignore"]


@dataclass(frozen=True)
class Scaling:
    r"""A standardisation: :math:`x \mapsto (x - \mathrm{shift}) / \mathrm{scale}`.

    Attributes:
        shift: Mean.
        scale: Standard deviation; 1 where that is 0.
    """

    shift: float
    scale: float

    @staticmethod
    def fit(values: Tensor) -> "Scaling":
        """The scaling of some numbers, shape (rows,); NaN is left out."""
        known = values.double()
        known = known[~known.isnan()]
        if not len(known):  # a note says so of targets, and features are refused
            return Scaling(0.0, 1.0)
        shift, scale = known.mean().item(), known.std(correction=0).item()
        # The deviation of equal numbers is their rounding.
        if scale <= 1e-12 * abs(shift):
            scale = 1.0
        return Scaling(shift, scale)

    def apply(self, values: Tensor) -> Tensor:
        """The scaled numbers, in float64."""
        return (values.double() - self.shift) / self.scale

    def undo(self, scaled: Tensor) -> Tensor:
        """The numbers that were scaled, in float64."""
        return scaled.double() * self.scale + self.shift


@dataclass(frozen=True)
class Column:
    """A column, and the features that it becomes.

    Attributes:
        name: Its name; its position if it has none.
        kind: ``number``; ``date``, in days since 1970; or ``category``, which becomes a feature of
            0 and 1 for each value.
        values: The values of a category, in the order of its features.
        span: The smallest and the largest number in the training rows; empty for categories.
        fill: The number that stands for a missing one; None if none may be missing.
        scaling: Of the numbers; None if they are used as they are.
    """

    name: str
    kind: Literal["number", "category", "date"] = "number"
    values: tuple[str, ...] = ()
    span: tuple[float, ...] = ()
    fill: float | None = None
    scaling: Scaling | None = None

    @property
    def width(self) -> int:
        """Number of features."""
        if self.kind == "category":
            return len(self.values)
        return 1


class Fitted(nn.Module):
    """Turns features as the data has them into those that a model reads, as fitted.

    Args:
        columns: The columns, in the order of their features.
    """

    numbers: Tensor  # shift, scale and fill of each feature

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        numbers = []
        for column in columns:
            scaling = column.scaling or Scaling(0.0, 1.0)
            fill = np.nan if column.fill is None else column.fill
            numbers += [(scaling.shift, scaling.scale, fill)] * column.width
        self.register_buffer("numbers", torch.tensor(numbers, dtype=torch.float64))

    def forward(self, values: Tensor) -> Tensor:
        # The numbers are float64, and so is the result; a float32 or float64 comes in.
        shift, scale, fill = self.numbers.unbind(-1)
        return (torch.where(values.isnan(), fill, values) - shift) / scale

    def undo(self, scaled: Tensor) -> Tensor:
        """Features as the data has them."""
        shift, scale, _ = self.numbers.unbind(-1)
        return (scaled * scale + shift).to(scaled)


def fit_columns(
    columns: Sequence[Column], x: Tensor, rows: Tensor, standardize: bool
) -> tuple[Column, ...]:
    """Columns with what is known of the training rows: their span, their median for missing
    numbers, and their scaling.

    Args:
        columns: The columns, in the order of their features.
        x: The features of all rows; NaN where one is missing.
        rows: A mask of the training rows.
        standardize: Whether numbers are scaled.

    Raises:
        DataError: None of the rows has a value, or one is infinite.
    """
    fitted = []
    first = 0
    for column in columns:
        values = x[rows, first].double()
        first += column.width
        if column.kind == "category":
            fitted.append(column)
            continue
        known = values[~values.isnan()]
        if not len(known) or known.isinf().any():
            fault = "is infinite" if len(known) else "has no value"
            raise DataError(f"column {column.name!r} {fault} in the training rows.")
        column = replace(column, span=(known.min().item(), known.max().item()))
        if column.fill is not None:
            column = replace(column, fill=float(np.median(known.numpy())))
            values = values.nan_to_num(column.fill)
        if standardize:
            column = replace(column, scaling=Scaling.fit(values))
        fitted.append(column)
    return tuple(fitted)


@dataclass(frozen=True)
class Schema:
    """The schema of the data that a model was trained on.

    Attributes:
        num_features: Number of features of a node; a list for columns of integers.
        task: The task of the targets: ``multiclass``, ``multilabel`` or ``regression``.
        outputs: Names of the classes, labels or numbers; their positions if they have no names.
        per_graph: True if each graph has a target, not each node.
        columns: The columns of the nodes, in the order of their features; empty if nothing of them
            is remembered.
        positive: The positive class of a binary task; empty for others.
        targets_scaling: The scaling of each number to predict; empty without any.
        train_counts: Training rows of each class, or of each label that is true.
        label: Columns of the classes, or of the numbers to predict, in a table.
        id: Column of the ids of the nodes; None for data that is not in tables.
        ends: Source and target columns of the edges.
        directed: False if every edge of a table is used in both directions.
        edge_weight: Column, or array, of the weights of the edges.
        edge_columns: The columns of the edges, in the order of their features.
        num_edge_features: Number of features of an edge.
        transforms: The transforms of PyTorch Geometric that are applied, as a config has them.
        transforms_seed: Determines what they draw at random; None without transforms.
    """

    num_features: int | tuple[int, ...]
    task: str
    outputs: tuple[str, ...]
    per_graph: bool = False
    columns: tuple[Column, ...] = ()
    positive: str = ""
    targets_scaling: tuple[Scaling, ...] = ()
    train_counts: tuple[int, ...] = ()
    label: tuple[str, ...] = ()
    id: str | None = None
    ends: tuple[str, ...] = ()
    directed: bool = True
    edge_weight: str | None = None
    edge_columns: tuple[Column, ...] = ()
    num_edge_features: int = 0
    transforms: tuple[object, ...] = ()
    transforms_seed: int | None = None

    @property
    def named(self) -> bool:
        """True if the columns are known by name, not by position."""
        return self.id is not None

    def as_dict(self) -> dict[str, Any]:
        """The schema as plain values."""
        return asdict(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Schema":
        """The schema of such values, as :meth:`as_dict` gives them.

        Raises:
            ValueError: They are not the values of a schema.
        """
        # A file that somebody has edited may lack anything.
        try:
            parts = dict(content)
            for name in ("columns", "edge_columns"):
                parts[name] = tuple(_column(each) for each in parts[name])
            parts["targets_scaling"] = tuple(Scaling(**each) for each in parts["targets_scaling"])
            return Schema(**parts)
        except (TypeError, KeyError) as error:
            raise ValueError(f"this is not the schema of a model: {error}.") from error

    def text(self) -> str:
        """The schema as the text of its file, ``schema.yaml``."""
        head = "# What the model of this run expects of a graph; predict and test read it.\n"
        return head + yaml.safe_dump(self.as_dict(), sort_keys=False, allow_unicode=True)


def _column(content: Mapping[str, Any]) -> Column:
    scaling = content.get("scaling")
    return Column(**{**content, "scaling": scaling and Scaling(**scaling)})
