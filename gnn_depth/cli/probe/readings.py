"""From the layers of a pass to numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gnn_depth.cli.probe.passes import Passed
from gnn_depth.diagnostics.balance import BalanceReader, size
from gnn_depth.diagnostics.callbacks import parameter_gradient_norm
from gnn_depth.diagnostics.hooks import Call
from gnn_depth.diagnostics.lipschitz import Guesses, local_lipschitz
from gnn_depth.diagnostics.measures import dirichlet_energy, effective_rank, norm, similarity
from gnn_depth.diagnostics.moments import row_moments
from gnn_depth.diagnostics.reading import Reading
from gnn_depth.graph import Graph
from gnn_depth.nn.stack import DeepGNN

WIDEST = 512  # features whose singular values are counted: of wider ones a layer would take seconds
TOLERANCE = 1e-2  # of the residual; measured constants are then good to some 5e-4, and three digits are shown


def of_pass(layers: Sequence[Passed]) -> list[Reading]:
    """What one pass tells of every layer: sizes and similarities of features and gradients."""
    with torch.no_grad():
        return [_of_layer(layer) for layer in layers]


def _of_layer(layer: Passed) -> Reading:
    reading = Reading(layer.number, out=layer.out)
    if (gradient := layer.gradient) is not None:
        reading = replace(reading, gradient=norm(gradient).item(), gradient_mu=similarity(gradient).item())
    if layer.call is None:
        return reading
    x = layer.call.x
    spread = row_moments(x)
    return replace(
        reading,
        norm=norm(spread).item(),
        mu=similarity(spread).item(),
        zeros=(x == 0).all(-1).double().mean().item() if x.numel() else None,
        rank=effective_rank(x.flatten(0, -2)).item() if min(x.shape) <= WIDEST else None,
        weight_gradient=parameter_gradient_norm(layer.call.module).item(),
    )


@torch.no_grad()
def in_full(readings: Sequence[Reading], layers: Sequence[Passed], scales: Sequence[float]) -> list[Reading]:
    """The same with what takes longer: energies, Lipschitz constants and their bounds.

    Args:
        readings: Of :func:`of_pass`.
        layers: The same layers.
        scales: Factors of the input, at which constants are measured too.
    """
    constants = _constants(layers, scales)
    return [
        replace(
            reading,
            energy=None if layer.call is None else _energy(layer.call),
            stretch=found.get(1.0),
            scaled=tuple((scale, value) for scale, value in found.items() if scale in scales and scale != 1),
            bound=None if layer.call is None else layer.call.bound,
        )
        for reading, layer, found in zip(readings, layers, constants, strict=True)
    ]


def _constants(layers: Sequence[Passed], scales: Sequence[float]) -> Iterator[dict[float, float]]:
    """The constant of every layer at each multiple of its input."""
    wanted = dict.fromkeys((1.0, *scales))
    guesses = {scale: Guesses() for scale in wanted}
    for layer in layers:
        yield {} if layer.call is None else {s: _constant(layer.call, s, guesses[s]) for s in wanted}


def _constant(call: Call, scale: float, guesses: Guesses) -> float:
    x = call.x if scale == 1 else scale * call.x
    stretch = local_lipschitz(call, x, guesses.of(call), tolerance=TOLERANCE)
    guesses.learn(stretch)
    return stretch.value


def _energy(call: Call) -> float | None:
    graph = next((item for item in (*call.rest, *call.named.values()) if isinstance(item, Graph)), None)
    if graph is None or call.x.ndim != 2:
        return None
    return dirichlet_energy(call.x, graph.source, graph.target).item()


def balanced(readings: Sequence[Reading], stack: DeepGNN) -> tuple[list[Reading], str | None]:
    """The same with the balance of the neurons, and what keeps it from being conserved; None where nothing does.

    Where the law does not hold, nothing is added: there c says nothing.
    """
    try:
        links = stack.links()
        reason = stack.why_no_law() if links else "it has no neurons that can be rescaled"
    except ValueError as error:
        return list(readings), str(error).partition(":")[0].rstrip(".")
    if reason:
        return list(readings), reason
    laws = BalanceReader(links, []).read(lambda parameter: parameter.grad).laws
    found = {
        state: (_median(c.abs(), size(link)), _largest(delta.abs()))
        for link, c, delta in zip(links, *laws, strict=True)
        for state in link.states
    }
    pairs = (found.get(reading.number - 1, (None, None)) for reading in readings)
    return [replace(r, imbalance=c, defect=delta) for r, (c, delta) in zip(readings, pairs, strict=True)], None


def _largest(values: Tensor) -> float:
    known = values[~values.isnan()]
    return known.max().item() if len(known) else float("nan")


def _median(c: Tensor, sizes: Tensor) -> float:
    """Of |c| as a share; a link may have fewer neurons than another, whose c is then filled up with NaN."""
    return (c[: len(sizes)] / sizes.clamp_min(1e-300)).median().item()
