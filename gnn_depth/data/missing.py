"""Features that are missing for some nodes."""

from dataclasses import replace
from functools import cached_property

import torch
from jaxtyping import Bool
from torch import Tensor

from gnn_depth.data.base import GraphDataModule, NodeBatch, NodeDataModule, WrapsSource
from gnn_depth.data.draws import Draws
from gnn_depth.data.schema import Schema, Unknown
from gnn_depth.ranges import Natural, Probability
from gnn_depth.registry import register


@register("data", "MissingFeatures")
class MissingFeatures(WrapsSource, NodeDataModule):
    """Missing features: another data set, with the features of some nodes outside its training set
    erased (all zero).

    Exactly ``round(rate * n)`` of the n nodes outside the training set lose their features; a
    higher rate erases a superset. The choice depends only on the seed and the training set, on any
    machine. The setting of Zhao & Akoglu, *PairNorm*, ICLR 2020.

    Args:
        source: The data set whose features are erased.
        rate: Fraction of the nodes outside the training set, 0 to 1.
        seed: Determines the nodes.

    Raises:
        ValueError: A rate outside 0 to 1 or a negative seed.
    """

    def __init__(self, source: NodeDataModule, rate: Probability, seed: Natural = 0) -> None:
        super().__init__()
        self.source = source
        self.rate = rate
        self.seed = seed

    @cached_property
    def missing_mask(self) -> Bool[Tensor, "nodes"]:
        """The nodes whose features are erased."""
        self.refuse_graphs()
        train_mask = self.source.loaded.train_mask
        # One order for all rates, so that a higher rate erases a superset.
        order = Draws(self.seed, "missing").permutation(len(train_mask))
        candidates = order[~train_mask[order]]
        mask = torch.zeros_like(train_mask)
        mask[candidates[: round(self.rate * len(candidates))]] = True
        return mask

    def conform_to(
        self, schema: Schema, unknown: Unknown = "error", targets: bool = True
    ) -> GraphDataModule:
        """As of its source; with the targets, because the training set decides what is missing."""
        return super().conform_to(schema, unknown)

    def load(self) -> NodeBatch:
        batch = self.source.loaded  # whose features may be NaN where they are erased
        return replace(batch, x=batch.x.masked_fill(self.missing_mask[:, None], 0))
