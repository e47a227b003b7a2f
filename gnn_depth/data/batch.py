"""A graph with features, targets and masks: what every data set gives and every model reads."""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gnn_depth.graph import Graph


@dataclass(eq=False)  # not frozen: Lightning converts the precision of a batch field by field
class NodeBatch:
    """A graph with node features, targets, and masks of the nodes to train, validate and test on.

    Targets and masks may cover only the first nodes; the outputs of the others are not used.

    Attributes:
        x: Features; with integers, each column holds one of a fixed number of values.
        y: Classes, 0 to num_classes - 1; or labels of 0 and 1, shape (read, labels); or numbers, of
            floats.
        graph: The edges.
        train_mask, val_mask, test_mask: Disjoint sets of nodes.
        per_graph: True if targets and masks have a row for each graph of ``graph``, not for each
            node.
        order: Number of each node here in the data set, if the batch has other nodes or another
            order: ``batch.x`` is ``data.batch.x[batch.order]``. None if it is the data set's own
            batch, or if it was made to train on a part of it.
    """

    x: Float[Tensor, "nodes features"] | Int[Tensor, "nodes features"]
    y: Shaped[Tensor, "read *outputs"]
    graph: Graph
    train_mask: Bool[Tensor, "read"]
    val_mask: Bool[Tensor, "read"]
    test_mask: Bool[Tensor, "read"]
    _: KW_ONLY
    per_graph: bool = False
    order: Int[Tensor, "nodes"] | None = None
    _moved: "dict[torch.device, NodeBatch]" = field(default_factory=dict, init=False, repr=False)

    @property
    def masks(self) -> tuple[Tensor, Tensor, Tensor]:
        """The nodes to train, validate and test on."""
        return self.train_mask, self.val_mask, self.test_mask

    @property
    def read(self) -> int:
        """How many of the first nodes have an output that is used."""
        # A readout of graphs pools all nodes.
        return self.graph.num_nodes if self.per_graph else len(self.y)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Features, targets, edges and masks."""
        return self.x, self.y, self.graph.edge_index, *self.masks

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "NodeBatch":
        """The batch on a device: the same object if it is already there, otherwise a copy, made
        once and kept."""
        device = torch.empty(0, device=device).device  # cuda is cuda:0
        if self.x.device == device:
            return self
        if device not in self._moved:
            moved: dict[str, Any] = {}
            # A tensor made in inference mode could not be trained with later.
            with torch.inference_mode(False):
                for name, value in vars(self).items():
                    if isinstance(value, Tensor | Graph):
                        moved[name] = value.to(device, non_blocking=non_blocking)
            self._moved[device] = replace(self, **moved)
        return self._moved[device]
