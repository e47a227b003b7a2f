"""Local Lipschitz constants: the largest singular value of a function's Jacobian at a point, and
that of each layer."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightning as L
import torch
from jaxtyping import Float
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnn_depth.diagnostics.callbacks import StepCallback
from gnn_depth.diagnostics.calls import CallRecorder, RecordedCall, evaluating
from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.hooks import layer_numbers
from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.diagnostics.log import MeasureLog
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Positive, in_range

Function = Callable[[Tensor], Tensor]

TINY = 1e-300
REASON = 160  # characters of another library's error


@dataclass(frozen=True)
class Stretch:
    """The largest factor by which a function stretches small changes of its input.

    Attributes:
        value: The local Lipschitz constant; never above the true one, NaN if the Jacobian is not
            finite.
        direction: The unit vector that is stretched most, in float64; a good starting direction at
            a nearby point. None if the constant is 0 or NaN.
        iterations: Number of iterations, each with one product with the Jacobian and one with its
            transpose.
        converged: True if the tolerance was reached.
    """

    value: float
    direction: Tensor | None
    iterations: int
    converged: bool


@torch.no_grad()
def local_lipschitz(
    function: Function,
    x: Tensor,
    start: Tensor | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-4,
    all_reduce: Callable[[Tensor], Tensor] = lambda sums: sums,
) -> Stretch:
    r"""The largest singular value of the Jacobian J of a function at x, computed without forming J.

    A locally optimal power iteration on :math:`J^T J`: each round takes the best direction in the
    space spanned by the current direction v, the residual :math:`w = J^T J v / \sigma^2 - v` and
    the last move, from the largest eigenvector of a 3 x 3 matrix. Power iteration needs about 1 /
    gap rounds, this needs the square root of that at the same cost: one product with J and one with
    its transpose. Knyazev, *Toward the Optimal Preconditioned Eigensolver: Locally Optimal Block
    Preconditioned Conjugate Gradient Method*, SIAM J. Sci. Comput. 2001.

    The function is linearised once. Sums run in float64, and J is only applied to vectors of norm
    1, so constants from 1e-30 to 1e30 can be measured in float32 too.

    Args:
        function: A deterministic function of a tensor like x, such as a layer in evaluation mode.
        x: The point.
        start: A guess of the direction, such as that of an earlier measurement; by default random,
            and the same in every call.
        max_iterations: Maximum number of rounds.
        tolerance: Relative error of the value, estimated from the residual, at which the iteration
            ends. Some singular value :math:`\sigma_k` is guaranteed to be this close; in practice
            the largest one is even closer.
        all_reduce: Adds up over processes that each hold some rows of x and of the function's
            output.
    """
    product, transposed_product = _linearised(function, x)
    tolerance = max(tolerance, torch.finfo(x.dtype).eps)
    basis, images = _begin(product, x, start, all_reduce)
    for iteration in range(1, max_iterations + 1):
        sigma = float(_norm(images[0], all_reduce))
        if sigma == 0:  # of a direction that was drawn at random: the function is constant
            return Stretch(0.0, None, iteration, True)
        if not math.isfinite(sigma):
            return Stretch(math.nan, None, iteration, False)
        # Divided first: the product is with a vector of norm 1, which any type can hold.
        residual = transposed_product(images[0] / sigma) / sigma - basis[0]
        size = float(_norm(residual, all_reduce))
        if math.isnan(size):  # only the product with the transpose is not finite
            return Stretch(math.nan, None, iteration, False)
        if size <= 2 * tolerance or iteration == max_iterations:  # twice: an eigenvalue is a square
            break
        new = _orthogonal(residual, basis, all_reduce)
        # The last move's image is a combination of known images: it costs no product.
        basis = torch.stack([basis[0], new, *basis[1:]])
        images = torch.stack([images[0], product(new), *images[1:]])
        basis, images = _best_of(basis, images, all_reduce)
    return Stretch(sigma, basis[0].view_as(x), iteration, size <= 2 * tolerance)


def _linearised(function: Function, x: Tensor) -> tuple[Function, Function]:
    """Products with a function's Jacobian and its transpose, in float64 outside and in the
    function's type inside.

    The function runs once. The product with J is the transpose of the product with its transpose,
    so it is a backward pass; forward mode would run the function again.
    """
    x = x.detach()
    out, pull = torch.func.vjp(function, x)
    _, push = torch.func.vjp(lambda u: pull(u)[0], torch.zeros_like(out))

    def applied(
        linear: Callable[[Tensor], tuple[Tensor]], like: Tensor, direction: Tensor
    ) -> Tensor:
        (image,) = linear(direction.view(like.shape).to(like.dtype))
        return image.flatten().double()

    return partial(applied, push, x), partial(applied, pull, out)


def _begin(
    product: Function, x: Tensor, start: Tensor | None, all_reduce: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """The first direction and its image, as matrices of one row."""
    if start is not None:
        direction = start.detach().flatten().double()
        size = _norm(direction, all_reduce)
        if size > 0:
            image = product(direction / size)
            if _norm(image, all_reduce) > 0:  # otherwise the function ignores this direction
                return (direction / size)[None], image[None]
    direction = _random(x.shape, x.device).flatten()
    direction = direction / _norm(direction, all_reduce)
    return direction[None], product(direction)[None]


def _random(shape: Sequence[int], device: torch.device) -> Tensor:
    """A direction that is the same in every call, and leaves the global generator alone."""
    draws = torch.Generator().manual_seed(0)
    return torch.randn(tuple(shape), generator=draws, dtype=torch.float64).to(device)


def _norm(x: Tensor, all_reduce: Callable[[Tensor], Tensor]) -> Tensor:
    return all_reduce(x.square().sum()).sqrt()


def _best_of(
    basis: Tensor, images: Tensor, all_reduce: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """The most stretched direction in the span of a basis, the step to it from the first vector,
    and their images."""
    scaled = images / _norm(images, all_reduce)  # their squares stay within range
    best = torch.linalg.eigh(all_reduce(scaled @ scaled.t())).eigenvectors[:, -1]
    moved = best[1:].norm()
    if moved == 0:
        return basis[:1], images[:1]
    # Computed from the coefficients: as a difference of two nearly equal directions the move would
    # be noise.
    move = torch.cat([-moved[None], best[1:] * (best[0] / moved)])
    combine = torch.stack([best, move])
    return combine @ basis, combine @ images


def _orthogonal(x: Tensor, basis: Tensor, all_reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """The part of x that is orthogonal to a basis, with norm 1."""
    for _ in range(2):  # if little is left, a single pass leaves rounding errors
        x = x - all_reduce(basis @ x) @ basis
    return x / _norm(x, all_reduce).clamp_min(TINY)


class Guesses:
    r"""Starting directions for the layers of a stack in turn, each from the direction found in the
    layer before.

    .. math:: V = n w^\top

    All layers pass messages along the same edges, so the profile n over the nodes hardly differs
    between them; the profile w over the channels is the first right singular vector of the incoming
    matrices in the layer's ``weight_chain()``. :func:`local_lipschitz` then takes one round in most
    layers, instead of ten.
    """

    def __init__(self) -> None:
        self._nodes: Tensor | None = None

    def of(self, call: RecordedCall) -> Float[Tensor, "nodes channels"] | None:
        """A starting direction for a layer; None if nothing is known."""
        weight, nodes = _incoming(call.module), self._nodes
        if weight is None or call.x.ndim != 2 or weight.shape[1] != call.x.shape[1]:
            return None
        if nodes is None or len(nodes) != len(call.x):
            nodes = torch.ones(len(call.x), dtype=torch.float64, device=call.x.device)
        guess = torch.outer(nodes, _first_direction(weight).to(nodes.device))
        return guess if bool(guess.isfinite().all()) else None

    def learn(self, stretch: Stretch) -> None:
        """Keep a found direction's profile over the nodes."""
        if stretch.direction is not None and stretch.direction.ndim == 2:
            direction = stretch.direction
            # One round of the power iteration, from the largest channel.
            nodes = direction @ (direction.t() @ direction[:, direction.square().sum(0).argmax()])
            self._nodes = nodes / nodes.norm()


def _incoming(layer: Any) -> Tensor | None:
    """The incoming matrices of a layer, stacked."""
    try:
        incoming = [weight.detach() for weight in layer.weight_chain().incoming]
    except (AttributeError, ValueError):  # it has no chain, at all or with its present options
        return None
    widths = {weight.shape[1] for weight in incoming}
    return torch.cat(incoming) if len(widths) == 1 else None


def _first_direction(weight: Tensor) -> Float[Tensor, "inputs"]:
    """The first right singular vector, from the smaller of the matrix's two products with its
    transpose."""
    wide = torch.nan_to_num(weight.double(), 0.0, 0.0, 0.0)
    # The scale does not matter, and squares of entries near 1 stay within range.
    wide = wide / wide.abs().amax().clamp_min(torch.finfo(torch.float64).tiny)
    if len(wide) >= wide.shape[1]:
        return torch.linalg.eigh(wide.t() @ wide).eigenvectors[:, -1]
    return wide.t() @ torch.linalg.eigh(wide @ wide.t()).eigenvectors[:, -1]


_factor = partial(Measure, product=True, around_zero=True)


class CannotLinearise(ValueError):
    """A layer's Jacobian cannot be applied; the text says why, as the end of a sentence."""


def layer_constant(
    call: RecordedCall,
    x: Tensor,
    start: Tensor | None = None,
    function: Function | None = None,
    **options: Any,
) -> Stretch:
    """The local Lipschitz constant of a recorded layer at a state: see :func:`local_lipschitz`.

    The function takes the place of the layer where that reads more than the state.

    Raises:
        CannotLinearise: PyTorch cannot differentiate the layer twice.
    """
    try:
        # Flash attention has no second derivative; the same attention in plain products has one.
        with sdpa_kernel(SDPBackend.MATH):
            return local_lipschitz(function or call, x, start, **options)
    except torch.OutOfMemoryError:  # a RuntimeError that says nothing about the layer
        raise
    # What functorch raises of code that it cannot differentiate has no class of its own.
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0][:REASON].rstrip(". ")
        name = type(call.module).__name__
        raise CannotLinearise(f"{name} cannot be linearised ({reason})") from error


class LipschitzConstants(StepCallback):
    r"""The local Lipschitz constant of every layer at its input, beside the bound that its score
    norm gives.

    .. math:: \sigma_{\max} \left( \frac{\partial F^l(X^l)}{\partial X^l} \right)

    for the layers :math:`F^l` of any LightningModule, in evaluation mode (no dropout), by
    :func:`local_lipschitz`. The bound is what the layer's ``lipschitz_bound`` returns for its other
    arguments, NaN if it has none. :math:`X^l` is the layer's input in its first call of the
    training step, whatever the step calls. A constant is NaN for layers that cannot be
    differentiated twice, and a warning says why. Dasoulas, Scaman & Virmaux, *Lipschitz
    Normalization for Self-Attention Layers*, ICML 2021.

    The first step of every n-th epoch is measured, before its update, and so is the last, unless
    training stops early. Training is not affected: modes, gradients and random numbers stay as they
    were. Of several processes with batches of their own only the first one measures.

    Loggers show the logarithms as ``lipschitz/measured_log10/layer_007`` and
    ``lipschitz/bound_log10/...``, and those of the products over the layers, which bound a stack
    without skip connections up to its encoder and activations, as
    ``lipschitz/measured_log10/product``; ``measures/lipschitz_measured.npz`` and ``..._bound.npz``
    in the run's folder have all layers.

    Args:
        layers: Names of the layers in the LightningModule, ``*`` matches any characters but a dot.
        every_n_epochs: Epochs from one measurement to the next.
        iterations: Maximum number of rounds of the power iteration for each layer.
        tolerance: Relative error at which the power iteration ends earlier.

    Raises:
        ValueError: A number is not positive.
        MisconfigurationException: No module has such a name, the strategy splits layers over
            processes, or the training has another LipschitzConstants.
    """

    measures = (
        _factor("lipschitz_measured", "lipschitz/measured_log10", "||dF(X)/dX||"),
        _factor("lipschitz_bound", "lipschitz/bound_log10", "bound of ||dF(X)/dX||"),
    )

    @in_range
    def __init__(
        self,
        layers: str = "stack.blocks.*.layer",
        every_n_epochs: Count = 10,
        iterations: Count = 100,
        tolerance: Positive = 1e-3,
    ) -> None:
        log = MeasureLog(self.measures)
        super().__init__(log, every_n_epochs=every_n_epochs, layers=layers)
        self.layers = layers
        self.iterations = iterations
        self.tolerance = tolerance
        self._driver: LayerDriver | None = None
        self._measured: Tensor | None = None  # waits for the end of the step
        self._warned: set[str] = set()

    def _open(
        self, trainer: L.Trainer, pl_module: L.LightningModule, found: dict[str, nn.Module]
    ) -> None:
        self._starts: list[Tensor | None] = [None] * len(found)
        self._driver = LayerDriver(pl_module, found, [], keeps_calls=True)
        self.measure_log.open(layer_numbers(list(found)))

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        begins = trainer.global_step != self._step
        super().on_train_batch_start(trainer, pl_module, batch, batch_idx)
        # A resumed run was measured at its first step by the run before, as that one's last.
        if self._due and begins and self.measure_log.last_step != trainer.global_step:
            assert self._driver is not None
            self._driver.begin_step()
            self._driver.attach()

    def _measure(self, trainer: L.Trainer, scale: Tensor | None) -> None:
        assert self._driver is not None
        self._driver.remove()
        if self._measured is not None:  # a further evaluation of the step: the inputs are the same
            return
        columns = self._driver.calls_by_column()
        calls: dict[int, RecordedCall] = {}  # the first one of each layer that was called
        is_shard = False
        for place, column in enumerate(columns):
            for call in column:
                if call.recorded is not None:
                    calls.setdefault(place, call.recorded)
                    is_shard = is_shard or _shard_of(call.recorded) is not None
        self._driver.begin_step()
        # Processes that share one graph compute each constant together: all of them go on.
        if not (trainer.is_global_zero or is_shard) or not any(columns):
            return
        values = torch.full((2, len(columns)), math.nan, dtype=torch.float64)
        with CallRecorder.alone(self):
            for place, recorded in calls.items():
                values[0, place] = self._constant(place, recorded)
                bound = recorded.bound
                if bound is not None:
                    values[1, place] = bound
        self._measured = values

    def _record(self, trainer: L.Trainer) -> None:
        assert self._driver is not None
        self._driver.remove()
        if self._measured is not None:
            values, self._measured = self._measured, None
            self.measure_log.add(trainer, self._step, values)

    def _close(self, trainer: L.Trainer) -> None:
        if self._driver is not None:
            self._driver.close()
        self._driver = None  # nothing of the model is kept
        super()._close(trainer)

    def _constant(self, place: int, call: RecordedCall) -> float:
        start, x = self._starts[place], call.x
        options: dict[str, Any] = {"max_iterations": self.iterations, "tolerance": self.tolerance}
        graph = _shard_of(call)
        if graph is not None:  # the layer was called with the rows of other processes, too
            x = x[: graph.num_nodes]
            options["function"] = lambda rows: call(graph.fetch(rows))
            options["all_reduce"] = graph.all_reduce
            if start is None:  # part of one direction, which all processes draw alike
                start = _random((graph.total_nodes, *x.shape[1:]), x.device)[graph.node_numbers]
        elif start is not None and start.shape != x.shape:  # from a batch of another size
            start = None
        try:
            with evaluating(call.module):
                stretch = layer_constant(call, x, start, **options)
        except CannotLinearise as error:
            if str(error) not in self._warned:  # once for all layers of a class
                self._warned.add(str(error))
                rank_zero_warn(f"LipschitzConstants: {error}: its constant is NaN.")
            return math.nan
        # A starting direction needs few digits, and every layer keeps one.
        self._starts[place] = None
        if stretch.direction is not None:
            self._starts[place] = stretch.direction.to(torch.bfloat16)
        return stretch.value


def _shard_of(call: RecordedCall) -> Graph | None:
    """The graph of which this process has a part, if a layer was called with one."""
    graph = call.arguments.graph
    return graph if graph is not None and graph.is_shard else None
