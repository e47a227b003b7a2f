"""Tree-NeighborsMatch: the root of a tree must learn the value of one of its leaves."""

from collections.abc import Sequence
from functools import cached_property, partial
from math import factorial
from typing import Annotated, NamedTuple

import torch
from jaxtyping import Int, Int16
from torch import Tensor

from gnn_depth.data.base import GraphDataModule, NodeBatch, fingerprint, masks_of
from gnn_depth.data.draws import Draws
from gnn_depth.data.loaders import EpochLoader, FixedLoader, share
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, Range
from gnn_depth.registry import register

#: Upper limits for the permutations of the values and for the examples, at any depth.
PERMUTATIONS = 1000
EXAMPLES = 32_000
TRAINED = 0.8  # of the trees of each class


@register("data", "TreeNeighborsMatch")
class TreeNeighborsMatch(GraphDataModule):
    r"""Tree-NeighborsMatch: binary trees of a given depth; the root must learn the value of the
    leaf that has its key.

    Nodes are pairs (key, value): the root (k, 0), leaf t (t, :math:`\pi_t`) for a permutation
    :math:`\pi` of 1 .. :math:`2^r`, all others (0, 0); the class is :math:`\pi_k - 1`. Edges run
    from child to parent and from each node to itself, so information from the leaves needs r layers
    to reach the root, where a single vector has to hold all of it. The examples outside the
    training set are used for validation, test and prediction. Alon & Yahav, *On the bottleneck of
    graph neural networks and its practical implications*, ICLR 2021.

    Several processes share each training batch, so training does not depend on their number. If
    they do not divide the number of examples, the remainder is left out, different examples in each
    epoch. Each process evaluates all trees.

    Args:
        depth: r, from 2 to 8.
        batch_size: Trees in a batch, over all processes.
        passes: Passes over the training set in an epoch; without it a small set makes short epochs.
        seed: Determines the trees, the training set and the order in each epoch; the same on any
            machine.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        depth: Annotated[int, Range(2, 8)] = 3,
        batch_size: Count = 1024,
        passes: Annotated[int, Range(1, 10_000)] = 1,
        seed: Natural = 0,
    ) -> None:
        super().__init__()
        # As published: 2^r examples of each permutation.
        count = min(PERMUTATIONS, EXAMPLES // 2**depth, factorial(2**depth))
        self.permutations, self.trained = count, round(TRAINED * count)
        self.depth = depth
        self.batch_size = batch_size
        self.passes = passes
        self.seed = seed
        self._graphs: dict[int, Graph] = {}

    @property
    def num_classes(self) -> int:
        return int(2**self.depth)

    @property
    def num_features(self) -> tuple[int, ...]:
        return self.num_classes + 1, self.num_classes + 1

    @property
    def about(self) -> str:
        train, held_out = len(self.examples.train), len(self.examples.held_out)
        return f"{train:,} trees to train on, {held_out:,} to validate and test on, {super().about}"

    @property
    def checksum(self) -> str:
        return fingerprint(*self.examples)

    @cached_property
    def examples(self) -> "TreeExamples":
        """Distinct permutations, and a fraction of the examples of each value to train on; drawn on
        first use."""
        leaves, count = self.num_classes, self.permutations
        draws = Draws(self.seed, "tree values")
        distinct: dict[tuple[int, ...], None] = {}
        while len(distinct) < count:
            distinct.setdefault(tuple(draws.permutation(leaves).tolist()))
        values = torch.tensor(list(distinct))
        # The example of each permutation whose answer is a value: its key is where the value is.
        of_value = torch.arange(count)[:, None] * leaves + values.argsort(1)
        draws = Draws(self.seed, "tree split")
        columns = [of_value[draws.permutation(count), value] for value in range(leaves)]
        order = torch.stack(columns, 1)
        train, held_out = order[: self.trained].flatten(), order[self.trained :].flatten()
        return TreeExamples(values.short() + 1, train.sort().values, held_out.sort().values)

    def train_dataloader(self) -> EpochLoader[Tensor]:
        count = self.passes * len(self.examples.train)
        rank, processes = share(self.trainer, "batch_size", self.batch_size)

        def plan(epoch: int) -> Sequence[Tensor]:
            # All in a random order, for each pass.
            draws, train = Draws(self.seed, f"tree order {epoch}"), self.examples.train
            passes = [train[draws.permutation(len(train))] for _ in range(self.passes)]
            return training_batches(torch.cat(passes), self.batch_size, rank, processes)

        return EpochLoader(
            plan,
            partial(self.make_batch, stage="train"),
            length=-(-(count // processes * processes) // self.batch_size),
            trainer=self.trainer,
        )

    def val_dataloader(self) -> FixedLoader[Tensor]:
        return self._held_out("val")

    def test_dataloader(self) -> FixedLoader[Tensor]:
        return self._held_out("test")

    predict_dataloader = test_dataloader

    def _held_out(self, stage: str) -> FixedLoader[Tensor]:
        """All trees that are held out, in every process."""
        batches = torch.split(self.examples.held_out, self.batch_size)
        return FixedLoader(batches, partial(self.make_batch, stage=stage))

    def make_batch(self, chosen: Int[Tensor, "batch"], stage: str) -> NodeBatch:
        """The examples with these numbers, which belong to the set ``stage``, as trees side by
        side.

        Node v of example b of B is row v B + b: the roots are the first rows and each level comes
        before the next, so that a layer can skip the last rows once they are no longer needed.
        """
        leaves, size = self.num_classes, len(chosen)
        values = self.examples.values[chosen // leaves]
        leaf = chosen % leaves
        # Keys and values count from 1, as 0 says that a node has none.
        x = torch.zeros(2 * leaves - 1, size, 2, dtype=torch.long)
        x[0, :, 0] = leaf + 1
        x[-leaves:, :, 0] = torch.arange(1, leaves + 1)[:, None]
        x[-leaves:, :, 1] = values.T
        y = values[torch.arange(size), leaf].long() - 1
        return NodeBatch(x.view(-1, 2), y, self.graph(size), *masks_of(stage, size))

    def graph(self, size: int) -> Graph:
        """The graph of ``size`` trees side by side, the same object every time."""
        # Kept, as parts of a graph that layers need are computed once for each object.
        if size not in self._graphs:
            # A tensor made in inference mode could not be trained with later.
            with torch.inference_mode(False):
                # Breadth first: the root is 0, and node v has the children 2 v + 1 and 2 v + 2.
                # From each node to its parent, and to itself.
                node = torch.arange(2 * self.num_classes - 1)
                child = node[1:]
                sources, targets = torch.cat([child, node]), torch.cat([(child - 1) // 2, node])
                edges = torch.stack([sources, targets])[:, :, None] * size + torch.arange(size)
                rows = torch.arange(len(node) * size)
                self._graphs[size] = Graph(edges.flatten(1), len(rows), rows % size)
        return self._graphs[size]


class TreeExamples(NamedTuple):
    """Permutations of the values over the leaves, each combined with every key.

    Example e is permutation ``e // leaves`` with the key of leaf ``e % leaves``, so all keys and
    all values are equally frequent, and no two examples are the same.
    """

    values: Int16[Tensor, "permutations leaves"]  # of each leaf, 1 to leaves
    train: Int[Tensor, "train"]  # examples to train on, equally many of every value
    held_out: Int[Tensor, "held_out"]  # the others


def training_batches(
    order: Int[Tensor, "examples"], batch_size: int, rank: int, processes: int
) -> Sequence[Int[Tensor, "batch"]]:
    """The batches of one process, as many and as large as every other process's; leaves out the
    remainder."""
    end = len(order) - len(order) % processes
    return torch.split(order[rank:end:processes], batch_size // processes)
