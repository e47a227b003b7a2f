"""The values that a probe measures for every layer in one forward and backward pass."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from gnn_depth.diagnostics.balance import laws_of, size
from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.hooks import layers_of, unwrapped
from gnn_depth.diagnostics.layer_statistics import (
    Processes,
    check_edges,
    edges_of,
    measures_called,
)
from gnn_depth.diagnostics.lipschitz import CannotLinearise, layer_constant
from gnn_depth.diagnostics.measures import dirichlet_energy, effective_rank
from gnn_depth.diagnostics.passes import BackwardPasses
from gnn_depth.diagnostics.states import Call, evaluating
from gnn_depth.graph import Graph
from gnn_depth.nn.parts import FeatureNorm

WIDEST = 512  # the singular values of wider features would take seconds a layer
TOLERANCE = 1e-3  # of the residual: more than the three digits of a constant that are shown
# The measures that a driver takes: norm and mu of a state and of its gradient, and the norm of the
# gradients of parameters.
MEASURED = measures_called(
    [
        "representation_norm",
        "representation_similarity",
        "gradient_norm_hidden",
        "gradient_similarity",
        "gradient_norm_parameters",
    ]
)


@dataclass(frozen=True)
class LayerValues:
    r"""The values of a layer F with input X, where G is the gradient of the loss with respect to X.

    A layer that is called several times has values for each call.

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
        found: float | None = getattr(self, COLUMNS[symbol])
        return found

    @property
    def share(self) -> float | None:
        r""":math:`\mu(X) / \|X\|`."""
        if self.mu is None or not self.norm:
            return None
        return self.mu / self.norm

    @property
    def gradient_share(self) -> float | None:
        r""":math:`\mu(G) / \|G\|`."""
        if self.gradient_mu is None or not self.gradient:
            return None
        return self.gradient_mu / self.gradient


#: The columns of a report, and the attributes of :class:`LayerValues` that they show.
COLUMNS = {
    "||X||": "norm",
    "||F(X)||": "out",
    "mu(X)": "mu",
    "mu/||X||": "share",
    "E(X)": "energy",
    "rank(X)": "rank",
    "||G||": "gradient",
    "mu(G)": "gradient_mu",
    "mu/||G||": "gradient_share",
    "||dW||": "weight_gradient",
    "constant": "stretch",
    "bound": "bound",
    "|c|": "imbalance",
    "delta": "defect",
}


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
    stack: str,
    scales: Sequence[float] | None,
) -> tuple[float, list[LayerValues], list[str]]:
    """The loss, the values of every layer, and notes on values that are missing.

    ``run`` runs the model and returns its loss; without ``scales`` constants, bounds and energies
    are left out, which take longer than the pass. All else is as in
    :func:`gnn_depth.diagnostics.probe.probe`.
    """
    check_edges(edge_index)
    model = unwrapped(model)
    found = layers_of(model, layers)
    driver = LayerDriver(model, found, MEASURED, by_call=True, keeps_calls=True)
    with (
        closing(driver),
        evaluating(model),
        _left_as_it_was(model),
        BackwardPasses.only(driver.recorder.passes),
    ):
        driver.begin_step()
        driver.attach()
        try:
            with torch.enable_grad(), _batch_statistics(model):
                loss = run(model)
                loss.backward()  # type: ignore[no-untyped-call]
        finally:
            driver.remove()
        driver.processes = Processes(device=loss.device)
        driver.end_backward()
        measured = driver.end_step().t().tolist()
        modules = driver.modules()
        calls: list[Call | None] = []  # the first one of each column
        values = []
        several = []
        columns = zip(driver.layers, driver.calls_by_column(), measured, strict=True)
        for place, (number, column, of_layer) in enumerate(columns):
            call = column[0] if column else None
            values.append(_values_of(number, modules[place], call, of_layer))
            calls.append(call)
            if call is not None and call.returns_several:
                several.append(number)
        values, notes = _with_balance(values, getattr(model, stack, model))
        if scales is not None:
            values, reasons = _with_constants(values, calls, scales, edge_index)
            notes = [*reasons, *_missing_bounds(values, calls), *notes]
    layer_count = len(set(modules))
    if len(values) > layer_count:
        notes.append(f"{len(values)} calls of {layer_count} layers in a pass: each call has a row.")
    if several:
        notes.append(f"F(X) of {_numbered(several)}: the first tensor of the tuple it returns.")
    return loss.item(), values, notes


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
        # Feature norms with batch statistics update their running ones.
        with torch.no_grad():
            for buffer, before in buffers.items():
                buffer.copy_(before)


@contextmanager
def _batch_statistics(model: nn.Module) -> Iterator[None]:
    """Let feature norms use batch statistics, as in training: an untrained model has no useful
    running statistics."""
    norms = [module for module in model.modules() if isinstance(module, FeatureNorm | _BatchNorm)]
    nn.ModuleList(norms).train()
    try:
        yield
    finally:
        nn.ModuleList(norms).eval()


@torch.no_grad()
def _values_of(
    number: int, module: nn.Module, call: Call | None, measured: Sequence[float]
) -> LayerValues:
    """The values of a layer that need no further pass."""
    if call is None or call.recorded is None or call.x is None:
        return LayerValues(number, type(module).__name__)
    norm, mu, gradient, gradient_mu, weight_gradient = measured
    known: dict[str, Any] = {"norm": norm, "mu": mu}
    # A driver's NaN may be a value that is not finite: what cannot be measured is None here.
    if call.gradient is not None:
        known |= {"gradient": gradient, "gradient_mu": gradient_mu}
    if any(parameter.requires_grad for parameter in module.parameters()):
        known["weight_gradient"] = weight_gradient
    # Not what the layer itself reads, which in a reversible block is a part of the state.
    x = call.x
    if x.numel():
        known["zeros"] = (x == 0).all(-1).double().mean().item()
    if min(x.shape) <= WIDEST:
        known["rank"] = effective_rank(x.flatten(0, -2)).item()
    return LayerValues(number, type(module).__name__, out=call.out_norm, **known)


@torch.no_grad()
def _with_constants(
    layers: Sequence[LayerValues],
    calls: Sequence[Call | None],
    scales: Sequence[float],
    edge_index: Tensor | Graph | None,
) -> tuple[list[LayerValues], list[str]]:
    """Add Dirichlet energies, Lipschitz constants at each multiple of the input, and their bounds;
    and say which constants cannot be measured."""
    complete = []
    failed: dict[str, list[int]] = {}
    for layer, call in zip(layers, calls, strict=True):
        if call is None or call.recorded is None or call.x is None:
            complete.append(layer)
            continue
        recorded = call.recorded
        constants: dict[float, float] = {}
        try:
            for scale in (1.0, *scales):
                x = recorded.x if scale == 1 else scale * recorded.x
                constants[scale] = layer_constant(recorded, x, tolerance=TOLERANCE).value
        except CannotLinearise as error:
            failed.setdefault(str(error), []).append(layer.number)
            constants = {}
        edges = edges_of(recorded.x, recorded, edge_index)
        if edges is not None:
            layer = replace(layer, energy=dirichlet_energy(call.x, edges[0]).item())
        stretch = constants.pop(1.0, None)
        scaled = tuple(constants.items())
        complete.append(replace(layer, stretch=stretch, scaled=scaled, bound=recorded.bound))
    return complete, _reasons("constant", failed)


def _reasons(what: str, layers: Mapping[str, Sequence[int]]) -> list[str]:
    """A note for each reason why layers, given by their numbers, have no value."""
    notes = []
    for reason, numbers in layers.items():
        notes.append(f"No {what} for {_numbered(numbers)}: {reason}.")
    return notes


def _numbered(numbers: Sequence[int]) -> str:
    """The numbers of some layers, in words."""
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    if list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"layers {numbers[0]} to {numbers[-1]}"
    return f"layers {', '.join(map(str, numbers))}"


def _missing_bounds(layers: Sequence[LayerValues], calls: Sequence[Call | None]) -> list[str]:
    """A note for each reason why layers have no bound."""
    reasons: dict[str, list[int]] = {}
    for layer, call in zip(layers, calls, strict=True):
        if call is not None and call.recorded is not None and layer.bound is None:
            reasons.setdefault(why_no_bound(call.recorded.module), []).append(layer.number)
    return _reasons("bound", reasons)


def why_no_bound(layer: nn.Module) -> str:
    """The reason why a layer has no bound of its Lipschitz constant."""
    name = type(layer).__name__
    if not hasattr(layer, "lipschitz_bound"):
        return f"none is known for {name}"
    if not len(getattr(layer, "score_norms", ())):
        return "no norm bounds its attention scores"
    return f"none is known for these options and score norms of {name}"


def _with_balance(layers: Sequence[LayerValues], stack: Any) -> tuple[list[LayerValues], list[str]]:
    """Add the balance of the neurons, or a note why not: without the conservation law c is
    meaningless."""
    if not (hasattr(stack, "links") and hasattr(stack, "why_no_law")):
        return list(layers), []
    try:
        links = stack.links()
        reason = stack.why_no_law() if links else "it has no neurons that can be rescaled"
    except ValueError as error:
        reason = str(error).partition(":")[0].rstrip(".")  # the rest is advice for the callback
    if reason:
        return list(layers), [f"No balance: {reason}."]
    found: dict[int, tuple[float, float]] = {}  # by the place of the layer whose input they are
    # A law is NaN where a link has fewer neurons than another.
    for link, c, delta in zip(links, *laws_of(links), strict=True):
        sizes = size(link)
        share = (c.abs()[: len(sizes)] / sizes.clamp_min(1e-300)).median().item()
        known = delta.abs()[~delta.isnan()]
        largest = known.max().item() if len(known) else math.nan
        found |= dict.fromkeys(link.states, (share, largest))
    complete = []
    for layer in layers:
        imbalance, defect = found.get(layer.number - 1, (None, None))
        complete.append(replace(layer, imbalance=imbalance, defect=defect))
    return complete, []
