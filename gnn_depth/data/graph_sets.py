"""Data sets of many graphs, with a target for every graph or for every node."""

from collections.abc import Iterable
from typing import Any

from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import NodeBatch, NodeDataModule, masks_of
from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.loaders import EpochLoader, share
from gnn_depth.data.mini_batches import induced_subgraph, row_entries
from gnn_depth.ranges import Count, Natural, in_range

GRAPHS = 64  # in a training batch, unless another number is given


class GraphSet(NodeDataModule):
    """A data set of many graphs, joined into one graph without edges between them.

    A subclass reads and joins them in :meth:`load`. If each graph has a target
    (``NodeBatch.per_graph``), a training batch has up to ``batch_size`` graphs, shuffled in every
    epoch. Validation and test take all graphs at once.

    Args:
        batch_size: The most graphs in a training batch, over all processes; by default 64. A larger
            number than there are trains on all at once.
        seed: Determines which graphs are in which batch.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: A number is out of its range.
    """

    @in_range
    def __init__(self, batch_size: Count | None = None, seed: Natural = 0, **common: Any) -> None:
        super().__init__(**common)
        self.batch_size = batch_size
        self.seed = seed

    def train_dataloader(self) -> Iterable[NodeBatch]:
        whole = self.batch  # in the order of the data: a reordering is for one graph
        if self.batch_size is not None and not whole.per_graph:
            raise DataError(
                "batch_size is for targets of whole graphs, and these are of nodes: wrap the set "
                "in MiniBatches, or leave batch_size out."
            )
        train = whole.train_mask.nonzero().flatten()
        processes = self.trainer.world_size if self.trainer else 1
        size = self.batch_size or GRAPHS // processes * processes
        if self.batch_size is None and (not whole.per_graph or len(train) <= size):
            return super().train_dataloader()
        rank, processes = share(self.trainer, "batch_size", size)
        # As few batches as keep to the size, about equally large, with a graph for each process.
        num_batches = max(1, min(-(-len(train) // size), len(train) // processes))

        def graphs_of_batches(epoch: int) -> list[Tensor]:
            order = train[Draws(self.seed, f"graphs {epoch}").permutation(len(train))]
            return [part[rank::processes] for part in order.tensor_split(num_batches)]

        return EpochLoader(
            graphs_of_batches, lambda graphs: subset(whole, graphs), num_batches, self.trainer
        )


def subset(batch: NodeBatch, graphs: Int[Tensor, "chosen"]) -> NodeBatch:
    """Make a training batch of some graphs of a larger batch, in the given order."""
    graph_of_node = batch.graph.node_to_graph
    assert graph_of_node is not None
    # The nodes of a graph lie together, as the entries of a row of a sparse matrix do.
    nodes, new_graph = row_entries(pointers(graph_of_node, batch.graph.num_graphs), graphs)
    part = induced_subgraph(batch.graph, nodes, new_graph)
    return NodeBatch(
        batch.x[nodes], batch.y[graphs], part, *masks_of("train", len(graphs)), per_graph=True
    )
