"""Graphs too large for one step: a training on parts of them, an evaluation on the whole."""

from functools import cached_property, partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from gnn_depth.data.base import FullBatch, GraphDataModule, NodeDataModule
from gnn_depth.data.checks import check_range
from gnn_depth.data.epochs import batches_done, rank_and_processes
from gnn_depth.data.node_parts import Neighborhoods, NodeParts, PartLoader, Parts, chunk_parts
from gnn_depth.data.of_source import OfSource
from gnn_depth.registry import register

Method: TypeAlias = Literal["random", "partition", "neighbor"]
CHUNKS, NEIGHBORS = 8, (10, 10)


@register("data", "MiniBatches")
class MiniBatches(OfSource, GraphDataModule):
    r"""Another data set, trained on in parts of its graph and evaluated on all of it.

    An epoch has the same number of batches whatever the method, and trains on every training node once. With ``random``
    a batch is a random part of the nodes and the edges among them. With ``partition`` it is some chunks of nodes that
    hang together, other ones in every epoch, and the edges among them (Chiang et al., *Cluster-GCN*, KDD 2019). With
    ``neighbor`` it is a random part of the training nodes, some of their neighbours, drawn at random, some of the
    neighbours of these, and so on (Hamilton et al., *Inductive Representation Learning on Large Graphs*, NeurIPS 2017).

    The loss is the mean over the batch's training nodes. What layers and norms derive from a graph, GCN's weights
    :math:`1 / \sqrt{d_i d_j}` among it, they derive from the batch: a node's degree is the number of its edges there.

    Several processes take turns: batch k of process p is batch k P + p of the epoch. Each evaluates the whole graph.

    Args:
        source: The data set.
        method: How batches are made: ``random``, ``partition`` or ``neighbor``.
        parts: Batches of an epoch, of all processes together.
        chunks: With ``partition``, how many chunks are joined to a batch; 8 by default.
        neighbors: With ``neighbor``, how many neighbours of a node are drawn at most: of the training nodes, of the
            nodes drawn there, and so on; [10, 10] by default. More layers than numbers pass messages along the same
            edges again.
        seed: Which parts; those of an epoch depend on the seed and the epoch alone, on any machine.

    Raises:
        ValueError: A number is out of its range, or an option is of another method.
    """

    def __init__(
        self,
        source: NodeDataModule,
        method: Method = "random",
        parts: int = 10,
        chunks: int | None = None,
        neighbors: list[int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for option, value, owner in (("chunks", chunks, "partition"), ("neighbors", neighbors, "neighbor")):
            if value is not None and method != owner:
                raise ValueError(f"{option} is an option of method {owner}, and method is {method}: leave one out.")
        check_range("parts", parts, 1)
        check_range("chunks", CHUNKS if chunks is None else chunks, 1)
        if neighbors is not None and not neighbors:
            raise ValueError("neighbors is empty: give a number for every step away from the training nodes.")
        for number in neighbors or ():
            check_range("neighbors", number, 1)
        check_range("seed", seed, 0)
        self.source, self.method, self.parts, self.seed = source, method, parts, seed
        self.chunks = CHUNKS if chunks is None else chunks
        self.neighbors = list(NEIGHBORS) if neighbors is None else neighbors

    @property
    def num_features(self) -> int:
        return self.source.num_features

    @property
    def checksum(self) -> str:
        return self.source.checksum

    @property
    def missing_mask(self) -> Tensor | None:
        """The nodes whose features the source has erased; None if it erases none."""
        return getattr(self.source, "missing_mask", None)

    @property
    def missing_hash(self) -> str | None:
        """The source's checksum of them."""
        return getattr(self.source, "missing_hash", None)

    @cached_property
    def all_parts(self) -> Parts:
        """What the parts of every epoch are made from; chunks are found at their first use.

        Raises:
            DataError: There are too few training nodes, or too few nodes, for so many parts.
        """
        with torch.inference_mode(False):  # a test may come first, and what is made in it cannot be trained with
            batch = self.source.batch
            if self.method == "neighbor":
                return Neighborhoods(batch, self.parts, self.seed, self.neighbors)
            if self.method == "partition":
                return chunk_parts(batch, self.parts, self.seed, self.chunks)
            return NodeParts(batch, self.parts, self.seed, torch.arange(len(batch.x)))

    def train_dataloader(self) -> PartLoader:
        return PartLoader(self.all_parts, *rank_and_processes(self.trainer), partial(batches_done, self.trainer))

    def val_dataloader(self) -> FullBatch:
        return self.source.val_dataloader()

    def test_dataloader(self) -> FullBatch:
        return self.source.test_dataloader()

    def predict_dataloader(self) -> FullBatch:
        return self.source.predict_dataloader()
