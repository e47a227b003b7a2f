"""One pass of a model forwards and backwards, and what every layer was called with in it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.data.base import NodeBatch
from gnn_depth.diagnostics.hooks import Call, InputGradients, entrances, evaluating, numbers, recorded_calls, select
from gnn_depth.diagnostics.moments import RowMoments, row_moments, sum_of_squares
from gnn_depth.training import NodeClassifier

LAYERS = "stack.layers.*"


@dataclass(frozen=True)
class Passed:
    """A layer after one pass forwards and backwards.

    Attributes:
        number: Of the layer, from 1.
        call: The layer and what it was called with; None if it was not called with a tensor.
        out: The norm of what it gave; None where that is not known.
        gradient: The spread of the gradient of the loss with respect to what enters it; None where there is none.
    """

    number: int
    call: Call | None
    out: float | None
    gradient: RowMoments | None


def run(model: NodeClassifier, batch: NodeBatch) -> tuple[float, list[Passed]]:
    """The loss of the training nodes, and every layer after the pass. Gradients are left in the parameters.

    It is a pass as in training, without dropout: norms of features take the statistics of the batch, as they do there;
    at initialisation those that they keep for evaluation say nothing yet.
    """
    found = select(model, LAYERS)
    modules = list(found.values())
    hidden = InputGradients(entrances(model, found), row_moments)
    with evaluating(model), torch.enable_grad():
        model.stack.norms.train()
        hidden.attach()
        with recorded_calls(modules) as calls, _norms_of_outputs(modules) as outputs:
            scores = model(batch)
        hidden.end_forward()
        loss = F.cross_entropy(scores[: len(batch.y)][batch.train_mask], batch.y[batch.train_mask])
        loss.backward()  # type: ignore[no-untyped-call]
        hidden.detach()
    norms = outputs if len(outputs) == len(calls) else [None] * len(calls)
    gradients = map(_joined, hidden.taken, hidden.without)
    return loss.item(), list(map(Passed, numbers(list(found)), calls, norms, gradients))


def _joined(taken: Sequence[RowMoments], without: Sequence[torch.Size]) -> RowMoments | None:
    """The spread of a state's gradient: of all its parts, or of zeros where the loss does not depend on it."""
    if taken:
        return RowMoments.stack(taken).merged()
    return row_moments(torch.zeros(without[0])) if without else None


@contextmanager
def _norms_of_outputs(modules: Sequence[nn.Module]) -> Iterator[list[float | None]]:
    """The norms of what modules give, in the order in which they are called, while it lasts."""
    norms: list[float | None] = []

    def leave(module: nn.Module, args: Any, out: Any) -> None:
        norms.append(sum_of_squares(out.detach()).sqrt().item() if isinstance(out, Tensor) else None)

    handles = [module.register_forward_hook(leave) for module in dict.fromkeys(modules)]
    try:
        yield norms
    finally:
        for handle in handles:
            handle.remove()
