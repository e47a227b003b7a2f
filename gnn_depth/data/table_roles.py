"""The roles of the columns of two tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from gnn_depth.data.scaling import PerColumn


@dataclass(frozen=True)
class NodeColumns:
    """The roles of the columns of a table of nodes.

    Attributes:
        label: The class of each node; None if numbers are predicted.
        id: The name of each node in the table of edges; by default the first column.
        split: train, val or test for each node, if it is given.
        features: Columns of numbers; by default all that have no other role.
        categories: Columns of text; each value becomes a feature of 0 and 1.
        targets: Columns of numbers to predict, instead of a label.
        drop: Columns that are not read.
        dates: How dates become numbers, ``days`` or ``cyclic``, or a word for each column; empty if
            they must not.
        fills: Whether missing numbers and categories are filled in.
    """

    label: str | None
    id: str | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    categories: Sequence[str] = ()
    targets: Sequence[str] = ()
    drop: Sequence[str] = ()
    dates: PerColumn = ""
    fills: bool = False


@dataclass(frozen=True)
class EdgeColumns:
    """The roles of the columns of a table of edges, or of the arrays in a file.

    Attributes:
        ends: Source and target, of a table; the first two columns if it is empty.
        weight: Weights of the edges; None for the usual name, empty for none.
        features: Features of the edges; None for the usual name.
        fills: Whether missing numbers and categories of the features are filled in.
    """

    ends: Sequence[str] = ()
    weight: str | None = None
    features: Sequence[str] | None = None
    fills: bool = False

    @property
    def of_each(self) -> list[str]:
        """The columns or arrays that are named for values of the edges."""
        return [name for name in (self.weight, *(self.features or ())) if name]
