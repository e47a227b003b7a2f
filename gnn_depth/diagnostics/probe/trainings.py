"""Short trainings of a deep model and of its shallow form, side by side."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.probe.remedies import Build

SHALLOW = 4  # layers


def short_trainings(
    build: Build,
    options: Mapping[str, Any],
    loss_of: Callable[[nn.Module], Tensor],
    steps: int,
) -> pd.DataFrame:
    """Train a model, and the same one with 4 layers, for some steps of their optimizer.

    One pass cannot tell whether a network will learn; that the deep one follows the shallow one for
    a hundred steps is stronger evidence.

    Args:
        build: Builds a model, whose ``optimizer`` makes an optimizer of parameters and whose
            ``stack.layers`` are its layers.
        options: Its options, with ``num_layers``.
        loss_of: The training loss of a model.
        steps: Number of steps.

    Returns:
        A row for each measured step, before which the values were taken: the loss and the norm of
        the gradient of the first layer's parameters, for each number of layers.
    """
    shown = sorted({max(1, round(steps * share)) for share in (0.0, 0.1, 0.25, 0.5, 1.0)})
    columns = {}
    for num_layers in (options["num_layers"], SHALLOW):
        model: Any = build({**options, "num_layers": num_layers}).train()
        optimizer = model.optimizer(model.parameters())
        losses, norms = [], []
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss = loss_of(model)
            torch.autograd.backward(loss)
            if step in shown:
                parameters = model.stack.layers[0].parameters()
                gradients = [one.grad for one in parameters if one.grad is not None]
                losses.append(loss.item())
                norms.append(float(torch.nn.utils.get_total_norm(gradients)))
            optimizer.step()
        columns[f"loss, {num_layers} layers"] = losses
        columns[f"gradient, {num_layers} layers"] = norms
    return pd.DataFrame(columns, pd.Index(shown, name="step")).sort_index(axis=1, ascending=False)
