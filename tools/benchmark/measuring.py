"""What a training is measured by: measures at four moments, and the loss in evaluation mode."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning as L
import torch
from torch import Tensor

from gnn_depth.diagnostics import measures
from gnn_depth.diagnostics.layer_statistics import components
from gnn_depth.graph import Graph

MOMENTS = {"start": 0, "10": 10, "100": 100}  # steps; the fourth is the end of the training
#: Of the last hidden state X and of the gradient G of the first one.
NAMES = (
    "similarity_x",  # mu(X) / ||X||
    "projection_x",  # the share of X beside the direction that repeated propagation leads to
    "rank_x",  # effective rank
    "similarity_g",
    "rank_g",
    "log10_growth_g",  # from the last layer to the first
)
LOSS_EVERY = 20  # epochs


class Measuring(L.Callback):
    """Measure a full-batch training, and keep its lowest training loss in evaluation mode.

    Attributes:
        values: A measure's name and moment, as in ``rank_x_start``, and its value.
        lowest: The lowest training loss in evaluation mode.
    """

    def __init__(self, with_measures: bool) -> None:
        self.with_measures = with_measures
        self.values: dict[str, float] = {}
        self.lowest = math.inf

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._measure(trainer, pl_module, "start")

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, *_: Any) -> None:
        for name, step in MOMENTS.items():
            if step and trainer.global_step == step:
                self._measure(trainer, pl_module, name)
        if trainer.global_step % LOSS_EVERY == 0:
            with torch.no_grad(), untouched(pl_module, training=False):
                loss = training_loss(pl_module, batch_of(trainer))
            self.lowest = min(self.lowest, float(loss))

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        self._measure(trainer, pl_module, "end")

    def _measure(self, trainer: L.Trainer, pl_module: Any, moment: str) -> None:
        if self.with_measures:
            with untouched(pl_module, training=True):
                found = measured(pl_module, batch_of(trainer))
            for name, value in found.items():
                self.values[f"{name}_{moment}"] = value


@contextmanager
def untouched(module: Any, training: bool) -> Iterator[None]:
    """Within the block the module is in this mode; afterwards it is in training mode, and its
    buffers and PyTorch's random numbers are as before."""
    random = torch.get_rng_state()
    buffers = [buffer.clone() for buffer in module.buffers()]
    module.train(training)
    yield
    module.train()
    for buffer, before in zip(module.buffers(), buffers, strict=True):
        buffer.copy_(before)
    torch.set_rng_state(random)


def batch_of(trainer: L.Trainer) -> Any:
    return trainer.datamodule.batch  # type: ignore[attr-defined]


def training_loss(module: Any, batch: Any) -> Tensor:
    rows = batch.train_mask
    loss: Tensor = module.task.loss(module(batch)[rows], batch.y[rows])
    return loss


def measured(module: Any, batch: Any) -> dict[str, float]:
    """The measures in one forward and backward pass of the training."""
    states: list[Tensor] = []
    handles = []
    for block in module.stack.layers:
        handles.append(block.register_forward_hook(lambda *call: states.append(call[-1])))
    with torch.enable_grad():
        loss = training_loss(module, batch)
        gradients = torch.autograd.grad(loss, [states[0], states[-1]])
    for handle in handles:
        handle.remove()
    last = states[-1].detach()
    first_gradient, last_gradient = gradients
    growth = measures.log10_similarity(first_gradient) - measures.log10_similarity(last_gradient)
    values = (
        measures.relative_similarity(last),
        projection(last, batch.graph, of_attention=not is_gcn(module)),
        measures.effective_rank(last),
        measures.relative_similarity(first_gradient),
        measures.effective_rank(first_gradient),
        growth,
    )
    return {name: float(value) for name, value in zip(NAMES, values, strict=True)}


def is_gcn(module: Any) -> bool:
    """True if the layers propagate by D^(-1/2) (A + I) D^(-1/2)."""
    layer: str = module.hparams["layer"]["name"]
    return layer != "gat"


def projection(x: Tensor, graph: Graph, of_attention: bool) -> Tensor:
    """The share of the norm beside the limit of repeated propagation: in each connected component
    the root of degree + 1 for a GCN, and constant for attention."""
    direction = torch.ones(len(x))
    if not of_attention:
        direction = (measures.proper_degree(graph.edge_index, len(x)) + 1).sqrt()
    return measures.projection(x, direction, components(graph))
