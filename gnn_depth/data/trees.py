"""Tree-NeighborsMatch: trees whose root must learn what one of its leaves knows."""

from functools import cached_property, partial

from gnn_depth.data.base import GraphDataModule
from gnn_depth.data.checks import check_range
from gnn_depth.data.epochs import batches_done, rank_and_processes
from gnn_depth.data.fingerprint import fingerprint
from gnn_depth.data.tree_batches import Stage, TreeBatches
from gnn_depth.data.tree_examples import TreeExamples, num_trained
from gnn_depth.data.tree_loaders import InOrder, Share, Shuffle, Shuffled
from gnn_depth.registry import register


@register("data", "TreeNeighborsMatch")
class TreeNeighborsMatch(GraphDataModule):
    r"""Full binary trees of depth r, to be read at their root: what value has the leaf whose key the root holds?

    Nodes are pairs (key, value): the root (k, 0), leaf t (t, :math:`\pi_t`) for a permutation :math:`\pi` of
    1 .. :math:`2^r`, all others (0, 0); the class is :math:`\pi_k - 1`. Edges run from child to parent and from each
    node to itself, so it takes r layers to reach the root, and one vector there for the pairs of all leaves. The
    examples that are not trained on are those to validate, to test and to predict on. Alon & Yahav, *On the bottleneck
    of graph neural networks and its practical implications*, ICLR 2021.

    With several processes each takes its part of every batch, so a training does not depend on their number; where that
    does not divide the examples of an epoch, the few that are left over are left out, other ones each time.

    Args:
        depth: r, from 2 to 8.
        batch_size: Trees of a batch, of all processes together.
        train_fraction: Part of the trees of each class to train on.
        passes: How often an epoch goes through the training set; a small set makes short epochs otherwise.
        seed: Which trees, which of them are held out, and the order of each epoch; the same on any machine.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self, depth: int = 3, batch_size: int = 1024, train_fraction: float = 0.8, passes: int = 1, seed: int = 0
    ) -> None:
        super().__init__()
        check_range("depth", depth, 2, 8)
        check_range("batch_size", batch_size, 1)
        check_range("train_fraction", train_fraction, 0, 1)
        num_trained(depth, train_fraction)
        check_range("passes", passes, 1)
        check_range("seed", seed, 0)
        self.depth, self.batch_size, self.passes, self.seed = depth, batch_size, passes, seed
        self.train_fraction = train_fraction

    @property
    def num_classes(self) -> int:
        return int(2**self.depth)

    @property
    def num_features(self) -> tuple[int, ...]:
        return self.num_classes + 1, self.num_classes + 1

    @property
    def checksum(self) -> str:
        return fingerprint(*self.examples.parts)

    @cached_property
    def examples(self) -> TreeExamples:
        """Drawn at their first use."""
        return TreeExamples.draw(self.depth, self.train_fraction, self.seed)

    @cached_property
    def batches(self) -> TreeBatches:
        """What makes batches of the examples."""
        return TreeBatches(self.examples)

    def train_dataloader(self) -> Shuffled:
        shuffle = Shuffle(self.examples.train, self.passes, self.seed)
        share, done = self._share(), partial(batches_done, self.trainer)
        share.check(len(shuffle), self.batch_size)
        make = partial(self.batches.batch, stage="train")
        return Shuffled(shuffle, share, self.batch_size, make, done, self.batches.graph)

    def val_dataloader(self) -> InOrder:
        return self._held_out("val", self._share())

    def test_dataloader(self) -> InOrder:
        return self._held_out("test", self._share())

    def predict_dataloader(self) -> InOrder:
        return self._held_out("test", Share(0, 1))  # all in each process, as one of them writes down what it predicts

    def _held_out(self, stage: Stage, share: Share) -> InOrder:
        share.check(len(self.examples.held_out), self.batch_size)
        parts = share.of_evaluation(self.examples.held_out, self.batch_size)
        return InOrder(parts, partial(self.batches.batch, stage=stage))

    def _share(self) -> Share:
        return Share(*rank_and_processes(self.trainer))
