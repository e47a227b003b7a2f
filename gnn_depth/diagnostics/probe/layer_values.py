"""The values that a probe measures for every layer in one forward and backward pass."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnn_depth.diagnostics.balance import defect, relative_imbalance
from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.hooks import layers_of, unwrapped
from gnn_depth.diagnostics.layer_statistics import FLOORS, Processes, measures_called
from gnn_depth.diagnostics.lipschitz import CannotLinearise, layer_constant
from gnn_depth.diagnostics.passes import BackwardPasses
from gnn_depth.diagnostics.states import Call, evaluating
from gnn_depth.graph import Graph
from gnn_depth.nn.parts import FeatureNorm

# Of the residual. At 1e-3 the iteration settled on the second singular value in 1% to 4% of cases
# where that was 1% or 2% smaller, at 1e-4 in none of 450.
TOLERANCE = 1e-4
#: The columns that a driver measures, and its names for them.
MEASURED = {
    "||X||": "representation_norm",
    "mu(X)": "representation_similarity",
    "mu/||X||": "representation_similarity_relative",
    "d(X)": "projection",
    "E(X)": "dirichlet_energy",
    "rank(X)": "effective_rank",
    "||G||": "gradient_norm_hidden",
    "mu(G)": "gradient_similarity",
    "mu/||G||": "gradient_similarity_relative",
    "d(G)": "gradient_projection",
    "||dW||": "gradient_norm_parameters",
}
NORMS = (FeatureNorm, _BatchNorm)  # which have statistics of a batch
FLOOR_SYMBOLS = ("floor of mu/||X||", "floor of mu/||G||")


def loss_of(out: Any, inputs: Sequence[object], loss: Callable[[Any], Tensor] | None) -> Tensor:
    """The loss of what a model returns: see :func:`gnn_depth.diagnostics.probe.probe`.

    Raises:
        ValueError: It is not known.
    """
    if loss is not None:
        return loss(out)
    batch: Any = inputs[0] if len(inputs) == 1 else None
    if hasattr(batch, "y") and hasattr(batch, "train_mask"):
        return F.cross_entropy(out[: len(batch.y)][batch.train_mask], batch.y[batch.train_mask])
    if isinstance(out, Tensor) and out.numel() == 1:
        return out.sum()
    raise ValueError(
        "probe needs a loss, because its input is not one batch with y and train_mask: "
        "give it loss=FUNCTION of what the model returns, such as loss=lambda out: "
        "out.square().mean()."
    )


def measure_layers(
    model: nn.Module,
    run: Callable[[nn.Module], Tensor],
    layers: str | Sequence[str] | None,
    edge_index: Tensor | Graph | None,
    scales: Sequence[float],
) -> tuple[float, pd.DataFrame, list[str]]:
    """The loss, the values of every layer, and notes on values that are missing.

    The values have a row for each layer, or for each call of a layer that is called several times,
    and a column for each quantity: NaN where it cannot be measured, and infinite where a norm is
    not finite. ``run`` runs the model and returns its loss. All else is as in
    :func:`gnn_depth.diagnostics.probe.probe`.
    """
    model = unwrapped(model)
    found = layers_of(model, layers)
    measures = [*measures_called(list(MEASURED.values())), *FLOORS]
    driver = LayerDriver(
        model, found, measures, edge_index=edge_index, by_call=True, keeps_calls=True
    )
    with (
        closing(driver),
        evaluating(model),
        _left_as_it_was(model),
        BackwardPasses.only(driver.recorder.passes),
    ):
        driver.begin_step("in the pass")
        driver.attach()
        # Batch statistics, as in training: an untrained model has no useful running ones.
        norms = nn.ModuleList(one for one in model.modules() if isinstance(one, NORMS)).train()
        with torch.enable_grad():
            loss = run(model)
            loss.backward()  # type: ignore[no-untyped-call]
        norms.eval()
        driver.remove()
        driver.processes = Processes(device=loss.device)
        measured = driver.end_step().t().cpu()
        values = pd.DataFrame(measured.numpy(), list(driver.layers), [*MEASURED, *FLOOR_SYMBOLS])
        # The first call of each column.
        calls = {}
        for number, column in zip(driver.layers, driver.calls_by_column(), strict=True):
            if column and column[0].recorded is not None:
                calls[number] = column[0]
        _add_outputs(values, calls)
        notes = [*driver.notes.values(), *_add_constants(values, calls, scales)]
        notes += _add_balance(values, getattr(model, "stack", model))
    layer_count = len(set(driver.modules()))
    if len(values) > layer_count:
        notes.append(f"{len(values)} calls of {layer_count} layers in a pass: each call has a row.")
    return loss.item(), values.dropna(axis=1, how="all"), notes


@contextmanager
def _left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Clear the gradients inside the context; restore them and the buffers afterwards."""
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    buffers = {buffer: buffer.clone() for buffer in model.buffers()}
    try:
        model.zero_grad()
        yield
    finally:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        # Feature norms with batch statistics update their running ones.
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)


def _add_outputs(values: pd.DataFrame, calls: dict[int, Call]) -> None:
    """Add the norms of the outputs and the shares of nodes that are zero, and tell numbers that are
    not finite from those that cannot be measured."""
    values.insert(1, "||F(X)||", math.nan)
    for number, call in calls.items():
        assert call.recorded is not None
        x = call.recorded.x
        if x.numel():
            values.loc[number, "zeros"] = (x == 0).all(-1).double().mean().item()
        known = ["||X||"]
        if call.out_norm is not None:
            values.loc[number, "||F(X)||"] = call.out_norm
            known.append("||F(X)||")
        if call.gradient is not None:
            known.append("||G||")
        for symbol in known:
            if not math.isfinite(values.loc[number, symbol]):
                values.loc[number, symbol] = math.inf
    # No direction of zeros is more than another.
    values["rank(X)"] = values["rank(X)"].where(values["||X||"] > 0)


@torch.no_grad()
def _add_constants(
    values: pd.DataFrame, calls: dict[int, Call], scales: Sequence[float]
) -> list[str]:
    """Add Lipschitz constants at the input and at multiples of it, and their bounds; return why
    constants cannot be measured."""
    failed: dict[str, list[int]] = {}
    for number, call in calls.items():
        recorded = call.recorded
        assert recorded is not None
        try:
            for scale in dict.fromkeys([1.0, *scales]):
                symbol = "constant" if scale == 1 else f"at {scale:g} X"
                x = scale * recorded.x
                values.loc[number, symbol] = layer_constant(recorded, x, tolerance=TOLERANCE)
        except CannotLinearise as error:
            failed.setdefault(str(error), []).append(number)
        values.loc[number, "bound"] = recorded.bound
    scaled = values.filter(regex="^at ")
    if not scaled.empty:
        constants = values["constant"].where(values["constant"] > 0)
        values["growth"] = scaled.max(axis=1) / constants
    return [f"No constant for layers {numbers}: {reason}." for reason, numbers in failed.items()]


def _add_balance(values: pd.DataFrame, stack: Any) -> list[str]:
    """Add the balance of the neurons, or return why not: without the conservation law c is
    meaningless."""
    if not (hasattr(stack, "links") and hasattr(stack, "why_no_law")):
        return []
    try:
        links = stack.links()
        reason = stack.why_no_law() if links else "it has no neurons that can be rescaled"
    except ValueError as error:
        reason = str(error).partition(":")[0].rstrip(".")  # the rest is advice for the callback
    if reason:
        return [f"No balance: {reason}."]
    for link in links:
        numbers = [state + 1 for state in link.states if state + 1 in values.index]
        values.loc[numbers, "|c|"] = relative_imbalance(link).item()
        values.loc[numbers, "delta"] = defect(link).abs().max().item()
    return []
