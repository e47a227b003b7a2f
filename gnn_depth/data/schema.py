"""The schema of a model's data: columns by name, categories, scaling, classes.

A run writes its schema to ``schema.yaml`` and into every checkpoint. A graph for a trained model is
read by that schema: columns are taken by name, and scaled by the numbers of the training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import yaml
from torch import Tensor

from gnn_depth.data.checks import DataError

Method: TypeAlias = Literal["none", "standard", "robust", "log1p"]
#: What to do with a column or category that a model does not know, or misses.
Unknown: TypeAlias = Literal["error", "ignore"]
Kind: TypeAlias = Literal["number", "category", "date"]
#: A date as points on two circles: its day in the year, and in the week.
CYCLES = ("sin of the year", "cos of the year", "sin of the week", "cos of the week")


@dataclass(frozen=True)
class Scaling:
    r"""A scaling of numbers: :math:`x \mapsto (f(x) - \mathrm{shift}) / \mathrm{scale}`.

    Attributes:
        method: ``standard``: by mean and standard deviation; ``robust``: by median and
            interquartile range; ``log1p``: standard, of :math:`f(x) = \mathrm{sign}(x) \log(1 +
            |x|)`. Elsewhere f is the identity.
        shift: Mean or median.
        scale: Standard deviation or interquartile range; 1 where that is 0.
    """

    method: Method
    shift: float
    scale: float

    @staticmethod
    def fit(method: Method, values: Tensor) -> "Scaling":
        """The scaling of some numbers, shape (rows,); NaN is left out."""
        known = _curve(method, values)
        known = known[~known.isnan()]
        if not len(known):  # a column that is empty in the training rows
            return Scaling(method, 0.0, 1.0)
        if method == "robust":
            # torch.quantile takes at most 16 million numbers.
            low, shift, high = np.quantile(known.numpy(), [0.25, 0.5, 0.75]).tolist()
            scale = high - low
        else:
            shift, scale = known.mean().item(), known.std(correction=0).item()
        # The deviation of equal numbers is their rounding.
        if scale <= 1e-12 * abs(shift):
            scale = 1.0
        return Scaling(method, shift, scale)

    def apply(self, values: Tensor) -> Tensor:
        """The scaled numbers, in float64."""
        return (_curve(self.method, values) - self.shift) / self.scale

    def undo(self, scaled: Tensor) -> Tensor:
        """The numbers that were scaled, in float64."""
        values = scaled.double() * self.scale + self.shift
        if self.method == "log1p":
            return values.sign() * values.abs().expm1()
        return values


def _curve(method: Method, values: Tensor) -> Tensor:
    values = values.double()
    if method == "log1p":
        return values.sign() * values.abs().log1p()
    return values


@dataclass(frozen=True)
class Column:
    """A column of a table, and the features that it becomes.

    Attributes:
        name: Its name.
        kind: ``number``; ``category``, which becomes a feature of 0 and 1 for each value; or
            ``date``.
        values: The values of a category, in the order of its features.
        dates: How a date becomes numbers: ``days`` since the first one, or ``cyclic``.
        first: The day from which days are counted.
        mean: Of the numbers in the training rows, before any scaling.
        span: The smallest and the largest of these numbers; empty if they are not known.
        rows: How many of them there are; 0 if that is not known.
        commonest: The share of the most frequent one.
        fill: The number that stands for a missing one; None if none may be missing.
        scaling: Of the numbers; None if they are used as they are.
    """

    name: str
    kind: Kind = "number"
    values: tuple[str, ...] = ()
    dates: str = ""
    first: str = ""
    mean: float = 0.0
    span: tuple[float, ...] = ()
    rows: int = 0
    commonest: float = 0.0
    fill: float | None = None
    scaling: Scaling | None = None

    @property
    def stand_in(self) -> float:
        """The number that stands for a missing one: ``fill``, or the mean where that is ignored."""
        return self.mean if self.fill is None else self.fill

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.features)

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        if self.kind == "category":
            return [f"{self.name}_{value}" for value in self.values]
        if self.dates == "cyclic":
            return [f"{self.name}: {cycle}" for cycle in CYCLES]
        return [self.name]


@dataclass(frozen=True)
class Schema:
    """The schema of the data that a model was trained on.

    Attributes:
        num_features: Number of features of a node; a list for columns of integers.
        task: The task of the targets: ``multiclass``, ``multilabel`` or ``regression``.
        outputs: Names of the classes, labels or numbers; their positions if they have no names.
        per_graph: True if each graph has a target, not each node.
        columns: The columns of the nodes, in the order of their features; of features without names
            their positions, or empty.
        named: True if the columns are known by name, not by position.
        flags: Positions of the features without names that were 0 or 1 in every row.
        unit_rows: True if the features without names summed to 1 in every row, in absolute value,
            as they do once they are divided by their sum.
        label: Columns of the label or of the targets.
        split: Column of the split.
        missing_label: A label or target that marks rows without one.
        positive: The positive class of a binary task; empty for others.
        targets_scaling: The scaling of each number to predict; empty without any.
        lowest_targets: The smallest of each number to predict in the training rows.
        train_counts: Training rows of each class, or of each label that is true.
        train_rows: Number of training rows.
        id: Column of the ids of the nodes.
        ends: Source and target columns of the edges.
        edge_weight: Column, or array, of the weights of the edges.
        edge_weight_span: The smallest and the largest of them; empty if they are not known.
        edge_weight_rows: How many of them there are; 0 if that is not known.
        edge_columns: The columns of the edges, in the order of their features; empty if these have
            no names and are used as they are.
        num_edge_features: Number of features of an edge.
        repeated_ends: True if several edges had the same ends; None if it is not known.
        undirected: True if every edge is used in both directions.
        repeated_edges: What edges with the same ends become, ``sum`` or ``mean``; empty if they
            stay.
        normalize_features: True if each node's features are divided by their sum.
        make_features: The features that are made from the edges; empty for none.
        transforms: The transforms of PyTorch Geometric that are applied, as a config has them.
        transforms_seed: Determines what they draw at random; None without transforms.
    """

    num_features: int | tuple[int, ...]
    task: str
    outputs: tuple[str, ...]
    per_graph: bool = False
    columns: tuple[Column, ...] = ()
    named: bool = False
    flags: tuple[int, ...] = ()
    unit_rows: bool = False
    label: tuple[str, ...] = ()
    split: str | None = None
    missing_label: float | str | None = None
    positive: str = ""
    targets_scaling: tuple[Scaling, ...] = ()
    lowest_targets: tuple[float, ...] = ()
    train_counts: tuple[int, ...] = ()
    train_rows: int = 0
    id: str | None = None
    ends: tuple[str, ...] = ()
    edge_weight: str | None = None
    edge_weight_span: tuple[float, ...] = ()
    edge_weight_rows: int = 0
    edge_columns: tuple[Column, ...] = ()
    num_edge_features: int = 0
    repeated_ends: bool | None = None
    undirected: bool = False
    repeated_edges: str = ""
    normalize_features: bool = False
    make_features: str = ""
    transforms: tuple[object, ...] = ()
    transforms_seed: int | None = None

    def check_like(self, other: "Schema") -> None:
        """Refuse data of another shape, or with other classes, than a model was trained on.

        Args:
            other: The schema of the data.

        Raises:
            DataError: They differ; the message has both.
        """
        # In this order: with another shape of x nothing else needs to be compared.
        for name in ("num_features", "num_edge_features", "task", "per_graph"):
            trained, here = getattr(self, name), getattr(other, name)
            if trained != here:
                raise DataError(
                    f"the model was trained on data with {name} {trained}, and this data has "
                    f"{here}."
                )
        if self.outputs != other.outputs:
            raise DataError(
                f"the model was trained on the classes {', '.join(self.outputs)}, and this data "
                f"has {', '.join(other.outputs)}."
            )

    def as_dict(self) -> dict[str, object]:
        """The schema as plain values, without those that are empty."""
        # Without what is empty, so that a person can read the file.
        content: dict[str, object] = _plain(asdict(replace(self, transforms=())))
        if self.transforms:  # whole: an option may be empty
            content["transforms"] = list(self.transforms)
        return content

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Schema":
        """The schema of such values.

        Raises:
            ValueError: They are those of no schema.
        """
        # A file that somebody has edited may lack anything.
        try:
            columns = tuple(map(_column, content.get("columns", ())))
            of_edges = tuple(map(_column, content.get("edge_columns", ())))
            scalings = tuple(Scaling(**each) for each in content.get("targets_scaling", ()))
            parts: dict[str, Any] = {"columns": columns, "edge_columns": of_edges}
            return Schema(**_tuples(content) | parts | {"targets_scaling": scalings})
        except (TypeError, AttributeError) as error:
            raise ValueError(f"this is no schema of a model: {error}.") from error

    def text(self) -> str:
        """The schema as the text of its file, ``schema.yaml``."""
        head = "# What the model of this run expects of a graph; predict and test read it.\n"
        return head + yaml.safe_dump(self.as_dict(), sort_keys=False, allow_unicode=True)


def _column(content: Mapping[str, Any]) -> Column:
    """The column of the values in a file."""
    fields = _tuples(content)
    if "scaling" in fields:
        fields["scaling"] = Scaling(**fields["scaling"])
    return Column(**fields)


def _plain(value: Any) -> Any:
    """A value as a file has it: lists for tuples, and no empty fields."""
    if isinstance(value, Mapping):
        found = {}
        for key, item in value.items():
            # 0 and False stay: they are values.
            if item not in (None, (), ""):
                found[key] = _plain(item)
        return found
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a file, with tuples for lists."""
    found = {}
    for key, item in content.items():
        found[key] = tuple(item) if isinstance(item, list) else item
    return found


def features_of(columns: Sequence[Column]) -> list[str]:
    """Names of all features of some columns."""
    names = []
    for column in columns:
        names += column.features
    return names
