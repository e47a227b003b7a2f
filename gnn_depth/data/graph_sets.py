"""Data sets of many graphs, with a target for every graph or for every node."""

from typing import Any

from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import FullBatch, NodeBatch, NodeDataModule, masks_of
from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.loaders import EpochLoader, share
from gnn_depth.data.mini_batches import induced_subgraph, row_entries
from gnn_depth.ranges import Count, Natural, in_range


class GraphSet(NodeDataModule):
    """A data set of many graphs, which lie side by side as one graph.

    A subclass reads them in :meth:`load`. If each graph has a target (``NodeBatch.per_graph``),
    training can take ``batch_size`` graphs at a time, shuffled in every epoch; validation and test
    take all at once.

    Args:
        batch_size: Graphs in a training batch, over all processes; None for all.
        seed: Determines the batches.

    Raises:
        ValueError: A number is out of its range.
    """

    @in_range
    def __init__(self, batch_size: Count | None = None, seed: Natural = 0) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.seed = seed

    def train_dataloader(self) -> Any:
        if self.batch_size is None:
            return FullBatch(self.batch)
        if not self.batch.per_graph:
            raise DataError(
                "batch_size is for targets of whole graphs, and these are of nodes: wrap the set "
                "in MiniBatches, or "
                "leave batch_size out."
            )
        rank, processes = share(self.trainer, "batch_size", self.batch_size)
        batch, size = self.batch, self.batch_size
        train = batch.train_mask.nonzero().flatten()
        count = max(1, len(train) // size)

        def chosen(epoch: int) -> list[Tensor]:
            order = train[Draws(self.seed, f"graphs {epoch}").permutation(len(train))]
            return [part[rank::processes] for part in order.tensor_split(count)]

        return EpochLoader(chosen, lambda graphs: subset(batch, graphs), count, self.trainer)


def subset(batch: NodeBatch, graphs: Int[Tensor, "chosen"]) -> NodeBatch:
    """A training batch of some graphs of a batch of many, in the given order."""
    graph_of_node = batch.graph.node_to_graph
    assert graph_of_node is not None
    nodes, new_graph = row_entries(pointers(graph_of_node, batch.graph.num_graphs), graphs)
    part = induced_subgraph(batch.graph, nodes, new_graph)
    return NodeBatch(
        batch.x[nodes], batch.y[graphs], part, *masks_of("train", len(graphs)), per_graph=True
    )
