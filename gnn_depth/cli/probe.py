"""``gnn-depth probe``: what every layer of a model does before, or after, any training."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.errors import UsageError
from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.diagnostics.calls import Call, evaluating, recorded_calls
from gnn_depth.diagnostics.gradient_norms import parameter_gradient_norm
from gnn_depth.diagnostics.lipschitz import local_lipschitz
from gnn_depth.diagnostics.lipschitz_constants import bound_of
from gnn_depth.diagnostics.narrow import sum_of_squares
from gnn_depth.diagnostics.watch import InputGradients, entrances, numbers, select
from gnn_depth.nn.bounds import why_no_bound
from gnn_depth.reports.sheet import NOTHING, Entry, Sheet
from gnn_depth.reports.terminal import terminal

TOLERANCE = 1e-2  # of the residual; measured constants are then good to some 5e-4, and three digits are shown
LAYERS = "stack.layers.*"


@dataclass(frozen=True)
class Probed:
    """A layer after one pass forwards and backwards.

    Attributes:
        number: Of the layer, from 1.
        call: The layer and what it was called with; None if it was not called with a tensor.
        gradient: The norm of the gradient of the loss with respect to what enters it; None where there is none.
    """

    number: int
    call: Call | None
    gradient: float | None


Measure = Callable[[Call], float | None]


def probe(cli: CommandLineInterface) -> str:
    """Tell the size of features and gradients in every layer, and by how much the layer stretches its input.

    Raises:
        UsageError: The data is not there, or the model does not run on it.
    """
    scales = [float(scale) for scale in cli.config.scales]
    for scale in scales:
        if scale <= 0:
            raise UsageError(f"--scales are numbers above 0, not {scale:g}.")
    model, device = cli.model, cli.trainer.strategy.root_device
    if cli.checkpoint:
        content = torch.load(cli.checkpoint.path, map_location="cpu", weights_only=True)
        model.load_state_dict(content["state_dict"])
    batch = _first_batch(cli.datamodule).to(device)
    with evaluating(model.to(device)):
        loss, layers = _pass(model, batch)
        sheet = _sheet(f"{_what(cli)}, loss {loss:.4g}", layers, _columns(scales))
    return terminal([sheet], styled=sys.stdout.isatty()).rstrip("\n")


def _first_batch(data: Any) -> NodeBatch:
    try:
        data.prepare_data()
        data.setup("fit")
        batch: NodeBatch = next(iter(data.train_dataloader()))
    except DataError as error:
        raise UsageError(str(error)) from error
    return batch


def _pass(model: nn.Module, batch: NodeBatch) -> tuple[float, list[Probed]]:
    found = select(model, LAYERS)
    hidden = InputGradients(entrances(model, found), sum_of_squares)
    hidden.attach()
    with recorded_calls(list(found.values())) as calls:
        scores = model(batch)
    hidden.end_forward()
    loss = F.cross_entropy(scores[: len(batch.y)][batch.train_mask], batch.y[batch.train_mask])
    loss.backward()  # type: ignore[no-untyped-call]
    hidden.detach()
    gradients = [_root(hidden.taken[place]) if hidden.seen[place] else None for place in range(len(found))]
    layers = map(Probed, numbers(list(found)), calls, gradients)
    return loss.item(), list(layers)


def _root(squares: Sequence[Tensor]) -> float:
    return math.sqrt(sum(part.item() for part in squares))


# What stands in a column: its head, and a function of the layer. To add one, add it to _columns.


def _input_norm(layer: Probed) -> float | None:
    return None if layer.call is None else _norm(layer.call.x)


def _output_norm(layer: Probed) -> float | None:
    return None if layer.call is None else _norm(layer.call(layer.call.x))


def _hidden_gradient(layer: Probed) -> float | None:
    return layer.gradient


def _parameter_gradient(layer: Probed) -> float | None:
    return None if layer.call is None else parameter_gradient_norm(layer.call.module).item()


def _measured(layer: Probed, scale: float = 1.0) -> float | None:
    if layer.call is None:
        return None
    return local_lipschitz(layer.call, scale * layer.call.x, tolerance=TOLERANCE).value


def _bound(layer: Probed) -> float | None:
    return bound_of(layer.call)


MEASURED, BOUND = "measured", "bound"


def _columns(scales: Sequence[float]) -> dict[str, Callable[[Probed], float | None]]:
    scaled = {f"at {scale:g} X": partial(_measured, scale=scale) for scale in scales if scale != 1}
    return {
        "||X||": _input_norm,
        "||F(X)||": _output_norm,
        "||dL/dX||": _hidden_gradient,
        "||dL/dW||": _parameter_gradient,
        MEASURED: _measured,
        **scaled,
        BOUND: _bound,
    }


@torch.no_grad()
def _sheet(title: str, layers: Sequence[Probed], columns: dict[str, Callable[[Probed], float | None]]) -> Sheet:
    table = {head: [column(layer) for layer in layers] for head, column in columns.items()}
    lines = [
        (Entry(str(layer.number)), *(Entry(_say(values[place])) for values in table.values()))
        for place, layer in enumerate(layers)
    ]
    notes = [
        "X enters the layer F, L is the loss of the training nodes, W are the parameters of F; without dropout.",
        "measured: the largest singular value of dF(X)/dX; bound: what it cannot exceed at any X.",
        f"product of all layers: measured {_product(table[MEASURED])}, bound {_product(table[BOUND])}.",
        *_why(layers, table[BOUND]),
    ]
    return Sheet(title, ("layer", *columns), 1, tuple(lines), tuple(notes))


def _why(layers: Sequence[Probed], bounds: Sequence[float | None]) -> list[str]:
    """Why there is no bound, for each reason once."""
    reasons: dict[str, list[str]] = {}
    for layer, bound in zip(layers, bounds, strict=True):
        if bound is None and layer.call is not None:
            reasons.setdefault(why_no_bound(layer.call.module), []).append(str(layer.number))
    return [
        f"no bound of layer{f's {own[0]} to {own[-1]}' if len(own) > 1 else f' {own[0]}'}: {reason}."
        for reason, own in reasons.items()
    ]


def _product(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "unknown"
    if any(math.isnan(value) for value in known):
        return "nan"
    if 0 in known:
        return "0"
    exponent = sum(math.log10(value) for value in known)
    return f"10^{exponent:.2f}" if abs(exponent) > 3 else f"{10**exponent:.3g}"


def _norm(x: Tensor) -> float:
    return torch.linalg.vector_norm(x, dtype=torch.float64).item()


def _say(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def _what(cli: CommandLineInterface) -> str:
    layers, data = cli.model.stack.layers, cli.datamodule
    name = getattr(data, "name", None) or type(data).__name__
    return f"{len(layers)} layer{'s' * (len(layers) > 1)} of {type(layers[0]).__name__} on {name}"
