"""What is measured: the cases, the targets set for them, and the sets they are run in. Imports nothing heavy."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

WIDTH = 64
FLOOR_TARGET = 2.0
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
        ratio: The time of a step over the peer's that is aimed at, for each malloc setting that has such an aim.
        gigabytes: The peak memory of a step that is aimed at.
    """

    name: str
    family: Literal["gat-lip", "gt-lip", "gatv2", "gcn", "trees"]
    data: Literal["cora", "squirrel", "chameleon", "trees-3", "trees-5", "trees-6"]
    layers: int
    heads: int = 1
    ratio: Mapping[str, float] = field(default_factory=dict)
    gigabytes: float | None = None
    width: int = WIDTH

    @property
    def peers(self) -> tuple[str, ...]:
        """PyTorch Geometric as it is, under ``torch.compile``, and the GCN as products of sparse matrices."""
        if self.family == "trees":  # collating is no tensor operation
            return ("peer",)
        return ("peer", "compiled", "torch.sparse") if self.family == "gcn" else ("peer", "compiled")

    @property
    def mallocs(self) -> tuple[str, ...]:
        """The settings worth measuring: both where a target says that the allocator decides much."""
        return MALLOCS if len(self.ratio) > 1 else MALLOCS[:1]


SQUIRREL = {"default": 0.02, "tuned": 0.08}
CASES = {
    case.name: case
    for case in (
        Case("gat-lip-30-h1", "gat-lip", "cora", 30, 1, {"default": 0.20}, 0.12),
        Case("gat-lip-30-h8", "gat-lip", "cora", 30, 8, {"default": 0.30}, 0.65),
        Case("gatv2-10-cora", "gatv2", "cora", 10, 1, {"default": 0.25}),
        Case("gatv2-40-cora", "gatv2", "cora", 40, 1, {"default": 0.25}, 0.15),
        Case("gatv2-10-squirrel", "gatv2", "squirrel", 10, 1, SQUIRREL),
        Case("gatv2-40-squirrel", "gatv2", "squirrel", 40, 1, SQUIRREL, 0.35),
        Case("gcn-64-cora", "gcn", "cora", 64, 1, {"default": 0.45}),
        Case("gcn-128-cora", "gcn", "cora", 128, 1, {"default": 0.45}),
        Case("gcn-64-chameleon", "gcn", "chameleon", 64, 1, {"default": 0.15}, 0.15),
        Case("gcn-128-chameleon", "gcn", "chameleon", 128, 1, {"default": 0.15}, 0.15),
        Case("gt-lip-20-h8", "gt-lip", "cora", 20, 8, {"default": 0.35}),
        Case("gat-trees-5", "trees", "trees-5", 6, 4, {"default": 0.22}, width=32),
        Case("gat-trees-6", "trees", "trees-6", 7, 4, {"default": 0.22}, width=32),
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
    return [CASES[name] for name in names or (CASES if long else SHORT)]
