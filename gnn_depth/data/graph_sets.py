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


class GraphSet(NodeDataModule):
    """A data set of many graphs, joined into one graph without edges between them.

    A subclass reads and joins them in :meth:`load`. If each graph has a target
    (``NodeBatch.per_graph``), a training batch can be ``batch_size`` graphs, shuffled in every
    epoch. Validation and test take all graphs at once.

    Args:
        batch_size: Graphs in a training batch, over all processes; None for all.
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
        if self.batch_size is None:
            return super().train_dataloader()
        if not self.batch.per_graph:
            raise DataError(
                "batch_size is for targets of whole graphs, and these are of nodes: wrap the set "
                "in MiniBatches, or leave batch_size out."
            )
        rank, processes = share(self.trainer, "batch_size", self.batch_size)
        whole = self.batch  # in the order of the data: a reordering is for one graph
        train = whole.train_mask.nonzero().flatten()
        # A remainder is spread over all batches, instead of making a small last one.
        num_batches = max(1, len(train) // self.batch_size)

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
