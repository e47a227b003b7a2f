"""What is measured: the cases, and the sets they are run in. Imports nothing heavy."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WIDTH = 64
MALLOCS = ("default", "tuned")


@dataclass(frozen=True)
class Case:
    """A model on a graph, or on batches of trees.

    Attributes:
        name: What the command line calls it.
        family: Which pair of models.
        data: Which graph, or trees of which depth.
        layers: Number of message-passing layers.
        heads: Heads of each.
        width: Width of a head; in trees of all heads together.
    """

    name: str
    family: Literal["gat-lip", "gt-lip", "gatv2", "gcn", "trees"]
    data: Literal["cora", "squirrel", "chameleon", "trees-3", "trees-5", "trees-6"]
    layers: int
    heads: int = 1
    width: int = WIDTH

    @property
    def peers(self) -> tuple[str, ...]:
        """PyTorch Geometric as it is, under ``torch.compile``, and the GCN as products of sparse
        matrices."""
        if self.family == "trees":  # collating is no tensor operation
            return ("peer",)
        if self.family == "gcn":
            return ("peer", "compiled", "torch.sparse")
        return ("peer", "compiled")

    @property
    def mallocs(self) -> tuple[str, ...]:
        """The settings worth measuring: both on the graph where the allocator decides much."""
        return MALLOCS if self.data == "squirrel" else MALLOCS[:1]


CASES = {
    case.name: case
    for case in (
        Case("gat-lip-30-h1", "gat-lip", "cora", 30),
        Case("gat-lip-30-h8", "gat-lip", "cora", 30, 8),
        Case("gatv2-10-cora", "gatv2", "cora", 10),
        Case("gatv2-40-cora", "gatv2", "cora", 40),
        Case("gatv2-10-squirrel", "gatv2", "squirrel", 10),
        Case("gatv2-40-squirrel", "gatv2", "squirrel", 40),
        Case("gcn-64-cora", "gcn", "cora", 64),
        Case("gcn-128-cora", "gcn", "cora", 128),
        Case("gcn-64-chameleon", "gcn", "chameleon", 64),
        Case("gcn-128-chameleon", "gcn", "chameleon", 128),
        Case("gt-lip-20-h8", "gt-lip", "cora", 20, 8),
        Case("gat-trees-5", "trees", "trees-5", 6, 4, width=32),
        Case("gat-trees-6", "trees", "trees-6", 7, 4, width=32),
    )
}
SHORT = (
    "gat-lip-30-h1",
    "gatv2-10-cora",
    "gatv2-10-squirrel",
    "gcn-64-cora",
    "gcn-64-chameleon",
    "gt-lip-20-h8",
    "gat-trees-5",
)


def choose(names: Sequence[str], long: bool) -> list[Case]:
    """The named cases, or those of the short or the long set.

    Raises:
        ValueError: There is no case of that name.
    """
    for name in names:
        if name not in CASES:
            near = difflib.get_close_matches(name, CASES, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ValueError(f"no case {name!r}.{hint} There are: {', '.join(CASES)}.")
    if not names:
        names = list(CASES) if long else SHORT
    return [CASES[name] for name in names]
