"""Features that are missing for some nodes."""

import hashlib
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import DataError, check_range
from gnn_depth.data.draws import Draws
from gnn_depth.data.of_source import OfSource
from gnn_depth.registry import register


@register("data", "MissingFeatures")
class MissingFeatures(OfSource, NodeDataModule):
    """Another data set with the features of some nodes outside its training set erased (all zero).

    Exactly ``round(rate * n)`` of the n nodes outside the training set lose theirs. Raising the rate adds to the same
    nodes. Which ones depends on the seed and the training set only, on any machine. The setting of Zhao & Akoglu,
    *PairNorm*, ICLR 2020.

    Args:
        source: The data set whose features are erased.
        rate: Fraction of the nodes outside the training set, 0 to 1.
        seed: Which nodes.

    Raises:
        ValueError: A rate outside 0 to 1 or a negative seed.
    """

    def __init__(self, source: NodeDataModule, rate: float, seed: int = 0) -> None:
        super().__init__()
        check_range("rate", rate, 0, 1)
        check_range("seed", seed, 0)
        self.source = source
        self.rate = rate
        self.seed = seed

    @cached_property
    def missing_mask(self) -> Bool[Tensor, "nodes"]:
        """The nodes whose features are erased."""
        train_mask = self.source.loaded.train_mask
        order = Draws(self.seed, "missing").permutation(len(train_mask))
        pool = order[~train_mask[order]]
        mask = torch.zeros_like(train_mask)
        mask[pool[: round(self.rate * len(pool))]] = True
        return mask

    @property
    def missing_hash(self) -> str:
        """SHA-256 of the mask as packed bits, in hex: equal hashes, equal nodes."""
        return hashlib.sha256(np.packbits(self.missing_mask.numpy()).tobytes()).hexdigest()

    def load(self) -> NodeBatch:
        """The source with the features erased; the source keeps its own.

        Raises:
            DataError: The source's data is refused, or has only the training nodes' features and rate is below 1.
        """
        batch = self.source.loaded
        if self.source.train_features_only and not self._erases_all():
            raise DataError(
                f"these files of {type(self.source).__name__} have the features of the training nodes only, so rate "
                f"must be 1.0, not {self.rate}.\nPoint the source's root at the complete files for other rates."
            )
        return replace(batch, x=batch.x.masked_fill(self.missing_mask[:, None], 0))

    def _erases_all(self) -> bool:
        return bool((self.missing_mask | self.source.loaded.train_mask).all())
