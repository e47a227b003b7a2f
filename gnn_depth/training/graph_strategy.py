"""The strategy ``graph``: train on one full batch whose nodes are divided among the processes."""

from typing import Any

import lightning as L
import torch
import torch.distributed as dist
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.strategies import DDPStrategy, StrategyRegistry
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim import Optimizer

from gnn_depth.data.base import FullBatch, NodeBatch
from gnn_depth.data.shards import division, shard_batch


class GraphStrategy(DDPStrategy):
    r"""Divide one graph among the processes; loss, gradients and measures are those of a single
    process.

    Each process holds some nodes, their features, and the edges into them. Before every layer it
    gets the states of the other nodes that these edges come from, and the backward pass returns
    their gradients. Parameters are equal in all processes. As with DDP the loss is the mean over
    the P processes, of :math:`L_r = \tfrac PN \sum_{i \in r} L_i`, and so are the gradients of the
    parameters.

    Layers run uncompiled. With one process nothing is divided.

    Args:
        nodes: Division of the nodes: ``contiguous`` chunks in the order of the nodes, or
            ``metis``.
        **options: Options of :class:`lightning.pytorch.strategies.DDPStrategy`.

    Raises:
        MisconfigurationException: The data is not one full batch, gradients are accumulated, or
            predictions are asked for.
        ValueError: A part of the model does not work on shards.
    """

    #: Data sets may give each process its part at once.
    divides_graphs = True

    def __init__(self, nodes: str = "contiguous", **options: Any) -> None:
        # Shards are made on the CPU before they move to their devices.
        if torch.cuda.is_available():
            options.setdefault("process_group_backend", "cpu:gloo,cuda:nccl")
        super().__init__(**options)
        self.nodes = nodes
        self._shards: dict[NodeBatch, NodeBatch] = {}

    def setup(self, trainer: L.Trainer) -> None:
        if self.world_size > 1:
            if trainer.accumulate_grad_batches > 1:
                raise MisconfigurationException(
                    "strategy graph has one batch, the whole graph: use "
                    "trainer.accumulate_grad_batches 1."
                )
            if trainer.state.fn == TrainerFn.PREDICTING:
                raise MisconfigurationException(
                    "strategy graph does not write predictions: use trainer.devices 1."
                )
            self._check_same_data(trainer)
        super().setup(trainer)

    def _check_same_data(self, trainer: L.Trainer) -> None:
        """Refuse processes that hold different graphs: each would train on a part of another."""
        checksum = getattr(trainer.datamodule, "checksum", None)  # type: ignore[attr-defined]
        checksums: list[Any] = [None] * self.world_size
        # Not only from the first: every process must know that it has to stop.
        dist.all_gather_object(checksums, checksum)
        for process, other in enumerate(checksums):
            if other != checksums[0]:
                raise MisconfigurationException(
                    f"process {process} has other data than process 0; their SHA-256 are {other} "
                    f"and {checksums[0]}: strategy graph divides one graph, so give every process "
                    "the same files and options."
                )

    def configure_ddp(self) -> None:
        # No DistributedDataParallel around the model: backward averages the gradients. Parameters
        # begin equal, as it would make them.
        assert self.model is not None
        with torch.no_grad():
            for tensor in (*self.model.parameters(), *self.model.buffers()):
                dist.broadcast(tensor, 0)

    def process_dataloader(self, dataloader: object) -> object:
        if self.world_size == 1:
            return dataloader
        if not isinstance(dataloader, FullBatch):
            raise MisconfigurationException(
                "strategy graph divides one full batch among the processes, and "
                f"{type(dataloader).__name__} gives "
                "mini-batches: use data without them, or strategy ddp."
            )
        batch = dataloader.batch
        if batch.graph.is_shard:
            return dataloader
        if batch not in self._shards:  # training and validation have the same batch
            self._shards[batch] = shard_batch(batch, division(self.nodes, batch, self.world_size))
        return FullBatch(self._shards[batch])

    def backward(
        self, closure_loss: Tensor, optimizer: Optimizer | None, *args: Any, **kwargs: Any
    ) -> Tensor:
        self.pre_backward(closure_loss)
        module: Any = self.lightning_module
        closure_loss = self.precision_plugin.pre_backward(closure_loss, module)
        self.precision_plugin.backward(closure_loss, module, optimizer, *args, **kwargs)
        # Means over the processes, before on_after_backward, where callbacks read them. In one
        # vector: the number of exchanges costs more than their size.
        gradients = [each.grad for each in module.parameters() if each.grad is not None]
        if self.world_size > 1:
            flat = parameters_to_vector(gradients)
            dist.all_reduce(flat)
            vector_to_parameters(flat / self.world_size, gradients)
        closure_loss = self.precision_plugin.post_backward(closure_loss, module)
        self.post_backward(closure_loss)
        return closure_loss


StrategyRegistry.register(
    "graph", GraphStrategy, description="One graph divided among the processes."
)
