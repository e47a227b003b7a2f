"""Readings: the numbers measured for every layer in one forward and backward pass."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnn_depth.diagnostics.balance import BalanceReader, size
from gnn_depth.diagnostics.hooks import (
    Call,
    entrances,
    evaluating,
    layers_of,
    numbers,
    recorded_calls,
    uncompiled,
    unwrapped,
)
from gnn_depth.diagnostics.lipschitz import Guesses, local_lipschitz
from gnn_depth.diagnostics.measures import dirichlet_energy, effective_rank, norm, similarity
from gnn_depth.diagnostics.moments import RowMoments, sum_of_squares
from gnn_depth.diagnostics.statistics import (
    MOMENTS,
    SQUARES,
    LayerStatistics,
    Processes,
    edges_of,
    measures_called,
    of_gradients,
)
from gnn_depth.graph import Graph
from gnn_depth.nn.parts import FeatureNorm

WIDEST = 512  # the singular values of wider features would take seconds a layer
TOLERANCE = 1e-2  # of the residual: enough for the three digits of a constant that are shown


@dataclass(frozen=True)
class Reading:
    r"""The measurements of a layer F with input X, where G is the gradient of the loss with respect
    to X.

    None stands for a value that was not or cannot be measured, NaN for one that is not finite.

    Attributes:
        number: Number of the layer, from 1.
        layer: Name of its class.
        norm: :math:`\|X\|`.
        mu: :math:`\mu(X)`, the distance of the nodes from their mean.
        zeros: Share of nodes that are zero in every channel.
        energy: Dirichlet energy of X.
        rank: Effective rank of X.
        out: :math:`\|F(X)\|`.
        gradient: :math:`\|G\|`.
        gradient_mu: :math:`\mu(G)`.
        weight_gradient: Norm of the gradients of the parameters of F.
        stretch: Lipschitz constant of F at X.
        scaled: The same at multiples of X, as pairs of a factor and a constant.
        bound: Upper limit of the constant for any X.
        imbalance: Median over the neurons of X of \|c\| as a share of all squares around a neuron.
        defect: Largest \|delta\| of these neurons.
    """

    number: int
    layer: str = ""
    norm: float | None = None
    mu: float | None = None
    zeros: float | None = None
    energy: float | None = None
    rank: float | None = None
    out: float | None = None
    gradient: float | None = None
    gradient_mu: float | None = None
    weight_gradient: float | None = None
    stretch: float | None = None
    scaled: tuple[tuple[float, float], ...] = ()
    bound: float | None = None
    imbalance: float | None = None
    defect: float | None = None

    def value(self, symbol: str) -> float | None:
        """The value in a column of the report."""
        found: float | None = getattr(self, COLUMNS[symbol][1])
        return found

    @property
    def share(self) -> float | None:
        r""":math:`\mu(X) / \|X\|`."""
        return None if self.mu is None or not self.norm else self.mu / self.norm

    @property
    def gradient_share(self) -> float | None:
        r""":math:`\mu(G) / \|G\|`."""
        return (
            None
            if self.gradient_mu is None or not self.gradient
            else self.gradient_mu / self.gradient
        )


#: The columns of a report: the title of its chart, and the attribute of a :class:`Reading`.
COLUMNS = {
    "||X||": ("Size of the hidden state, ||X||", "norm"),
    "||F(X)||": ("Size of the layer's output, ||F(X)||", "out"),
    "mu(X)": ("Difference between nodes, µ(X)", "mu"),
    "mu/||X||": ("Share of the difference, µ(X) / ||X||", "share"),
    "E(X)": ("Dirichlet energy, E(X)", "energy"),
    "rank(X)": ("Effective rank of X", "rank"),
    "||G||": ("Size of the gradient, ||G||", "gradient"),
    "mu(G)": ("Difference of gradients, µ(G)", "gradient_mu"),
    "mu/||G||": ("Share of the difference, µ(G) / ||G||", "gradient_share"),
    "||dW||": ("Gradient of the parameters, ||dW||", "weight_gradient"),
    "constant": ("Lipschitz constant at X", "stretch"),
    "bound": ("Bound of the Lipschitz constant", "bound"),
    "|c|": ("Imbalance of the neurons, |c|", "imbalance"),
    "delta": ("Violation of the balance law, delta", "defect"),
}


def loss_of(out: Any, inputs: Sequence[Any], loss: Callable[[Any], Tensor] | None) -> Tensor:
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


def read(
    model: nn.Module,
    run: Callable[[nn.Module], Tensor],
    layers: str | Sequence[str] | None,
    edge_index: Tensor | Graph | None,
    stack: str,
    scales: Sequence[float] | None,
) -> tuple[float, list[Reading], list[str]]:
    """The loss, a reading of every layer, and notes on values that are missing.

    ``run`` runs the model and returns its loss; without ``scales`` constants, bounds and energies
    are left out, which take longer than the pass. All else is as in
    :func:`gnn_depth.diagnostics.probe.probe`.
    """
    model = unwrapped(model)
    found = layers_of(model, layers)
    modules = list(found.values())
    measures = measures_called(["representation_norm", "gradient_norm_hidden"])
    statistics = LayerStatistics(entrances(model, found), modules, measures, repeats=True)
    outputs: list[float | None] = []  # norms, in the order of the calls

    def of_output(out: Any) -> None:
        outputs.append(
            sum_of_squares(out.detach()).sqrt().item() if isinstance(out, Tensor) else None
        )

    with evaluating(model), _left_as_it_was(model), uncompiled():
        with torch.enable_grad(), _batch_statistics(model):
            statistics.hooks.attach()
            try:
                with recorded_calls(modules, of_output) as calls:
                    value = run(model)
                value.backward()  # type: ignore[no-untyped-call]
            finally:
                statistics.hooks.remove()
        merged = statistics.merged(Processes(device=value.device))
        states, gradients = (_sizes(merged[key], len(modules)) for key in (MOMENTS, "gradients"))
        outs = outputs if len(outputs) == len(calls) else [None] * len(calls)
        readings = list(
            map(_reading, numbers(list(found)), modules, calls, outs, states, gradients)
        )
        readings, why_no_law = _with_balance(readings, getattr(model, stack, model))
        if scales is not None:
            readings = _with_constants(readings, calls, scales, edge_index)
    notes = [] if scales is None else _missing_bounds(readings, calls)
    if len(outputs) > len(calls):
        notes.append(
            f"{len(outputs)} calls of {len(calls)} layers in a pass: the table has their first "
            "calls, gnn_depth.watch "
            "measures all."
        )
    return value.item(), readings, [*notes, *([f"No balance: {why_no_law}."] if why_no_law else [])]


@contextmanager
def _left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Clear the gradients inside the context; restore them and the buffers afterwards."""
    gradients = {parameter: parameter.grad for parameter in model.parameters()}
    buffers = {buffer: buffer.clone() for buffer in model.buffers()}
    try:
        for parameter in gradients:
            parameter.grad = None
        yield
    finally:
        for parameter, gradient in gradients.items():
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)


@contextmanager
def _batch_statistics(model: nn.Module) -> Iterator[None]:
    """Let feature norms use batch statistics, as in training: an untrained model has no useful
    running statistics."""
    norms = [module for module in model.modules() if isinstance(module, FeatureNorm | _BatchNorm)]
    for module in norms:
        module.train()
    try:
        yield
    finally:
        for module in norms:
            module.eval()


def _sizes(moments: RowMoments, layers: int) -> list[tuple[float | None, float | None]]:
    """The norm and mu of each of the first layers; None for a layer without rows."""
    table = torch.stack([moments.count, norm(moments), similarity(moments)], 1)[:layers].tolist()
    return [(size, mu) if count else (None, None) for count, size, mu in table]


@torch.no_grad()
def _reading(
    number: int,
    module: nn.Module,
    call: Call | None,
    out: float | None,
    state: tuple[float | None, float | None],
    gradient: tuple[float | None, float | None],
) -> Reading:
    """The measurements of a layer that need no further pass."""
    reading = Reading(
        number,
        type(module).__name__,
        *state,
        out=out,
        gradient=gradient[0],
        gradient_mu=gradient[1],
    )
    if call is None:
        return reading
    return replace(
        reading,
        zeros=(call.x == 0).all(-1).double().mean().item() if call.x.numel() else None,
        rank=effective_rank(call.x.flatten(0, -2)).item() if min(call.x.shape) <= WIDEST else None,
        weight_gradient=of_gradients(call.module, SQUARES)[0].sqrt().item(),
    )


@torch.no_grad()
def _with_constants(
    readings: Sequence[Reading],
    calls: Sequence[Call | None],
    scales: Sequence[float],
    edge_index: Tensor | Graph | None,
) -> list[Reading]:
    """Add Dirichlet energies, Lipschitz constants at each multiple of the input, and their
    bounds."""
    guesses = {scale: Guesses() for scale in (1.0, *scales)}
    complete = []
    for reading, call in zip(readings, calls, strict=True):
        if call is not None:
            constants = {}
            for scale, guess in guesses.items():
                x = call.x if scale == 1 else scale * call.x
                stretch = local_lipschitz(call, x, guess.of(call), tolerance=TOLERANCE)
                guess.learn(stretch)
                constants[scale] = stretch.value
            edges = edges_of(call.x, (call.x, *call.rest), call.named, edge_index)
            reading = replace(
                reading,
                energy=None if edges is None else dirichlet_energy(call.x, edges[0]).item(),
                stretch=constants[1.0],
                scaled=tuple(
                    (scale, value)
                    for scale, value in constants.items()
                    if scale in scales and scale != 1
                ),
                bound=call.bound,
            )
        complete.append(reading)
    return complete


def _missing_bounds(readings: Sequence[Reading], calls: Sequence[Call | None]) -> list[str]:
    """A note for each reason why layers have no bound."""
    reasons: dict[str, list[int]] = {}
    for reading, call in zip(readings, calls, strict=True):
        if call is not None and reading.bound is None:
            reasons.setdefault(why_no_bound(call.module), []).append(reading.number)
    return [
        f"No bound for layer{f's {own[0]} to {own[-1]}' if len(own) > 1 else f' {own[0]}'}: "
        f"{reason}."
        for reason, own in reasons.items()
    ]


def why_no_bound(layer: nn.Module) -> str:
    """The reason why a layer has no bound of its Lipschitz constant."""
    name = type(layer).__name__
    norms: Any = getattr(layer, "score_norms", ())
    if not hasattr(layer, "lipschitz_bound"):
        return f"none is known for {name}"
    if len(norms) == 0:
        return "no norm bounds its attention scores"
    if len(norms) > 1:
        return "none is known for several score norms in a row"
    if norms[0].bound(layer.score, layer.out_channels) is None:
        return f"{type(norms[0]).__name__}({norms[0].extra_repr()}) does not bound its scores"
    return f"none is known for these options of {name}"


def _with_balance(readings: Sequence[Reading], stack: Any) -> tuple[list[Reading], str | None]:
    """Add the balance of the neurons, or a note why not: without the conservation law c is
    meaningless."""
    if not (hasattr(stack, "links") and hasattr(stack, "why_no_law")):
        return list(readings), None
    try:
        links = stack.links()
        reason = stack.why_no_law() if links else "it has no neurons that can be rescaled"
    except ValueError as error:
        return list(readings), str(error).partition(":")[0].rstrip(".")
    if reason:
        return list(readings), reason
    laws, _ = BalanceReader(links, []).read(lambda parameter: parameter.grad)
    found: dict[int, tuple[float, float]] = {}
    for link, c, delta in zip(
        links, *laws, strict=True
    ):  # NaN where a link has fewer neurons than another
        sizes, known = size(link), delta.abs()[~delta.isnan()]
        share = (c.abs()[: len(sizes)] / sizes.clamp_min(1e-300)).median().item()
        found |= dict.fromkeys(link.states, (share, known.max().item() if len(known) else math.nan))
    pairs = (found.get(reading.number - 1, (None, None)) for reading in readings)
    return [
        replace(r, imbalance=c, defect=delta) for r, (c, delta) in zip(readings, pairs, strict=True)
    ], None
