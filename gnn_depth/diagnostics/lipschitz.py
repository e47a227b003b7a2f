"""Local Lipschitz constants: the largest singular value of a function's Jacobian at a point, and
that of each layer."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnn_depth.diagnostics.callbacks import LayerCallback
from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.hooks import layer_numbers
from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.diagnostics.log import MeasureLog
from gnn_depth.diagnostics.passes import BackwardPasses
from gnn_depth.diagnostics.states import CallArguments, evaluating
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Positive, in_range

Function = Callable[[Tensor], Tensor]

TINY = 1e-300


@torch.no_grad()
def local_lipschitz(
    function: Function,
    x: Tensor,
    start: Tensor | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-4,
    all_reduce: Function = lambda sums: sums,
) -> float:
    r"""The largest singular value of the Jacobian J of a function at x, computed without forming J:
    never above the true one, and NaN if J is not finite.

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
        start: The first direction; by default random, and the same in every call.
        max_iterations: Maximum number of rounds.
        tolerance: Relative error of the value, estimated from the residual, at which the iteration
            ends. Some singular value :math:`\sigma_k` is guaranteed to be this close, and in
            practice the largest one: see :class:`LipschitzConstants`.
        all_reduce: Adds up over processes that each hold some rows of x and of the function's
            output; ``start`` then has the same rows of one direction.
    """
    product, transposed_product = _linearised(function, x)
    tolerance = max(tolerance, torch.finfo(x.dtype).eps)
    if start is None:
        start = _random(x.shape, x.device)
    direction = start.flatten().double() / _norm(start.double(), all_reduce)
    basis, images = direction[None], product(direction)[None]
    for iteration in range(1, max_iterations + 1):
        sigma = float(_norm(images[0], all_reduce))
        if sigma == 0:  # of a direction that was drawn at random: the function is constant
            return 0.0
        if not math.isfinite(sigma):
            return math.nan
        # Divided first: the product is with a vector of norm 1, which any type can hold.
        residual = transposed_product(images[0] / sigma) / sigma - basis[0]
        size = float(_norm(residual, all_reduce))
        if math.isnan(size):  # only the product with the transpose is not finite
            return math.nan
        if size <= 2 * tolerance or iteration == max_iterations:  # twice: an eigenvalue is a square
            break
        new = _orthogonal(residual, basis, all_reduce)
        # The last move's image is a combination of known images: it costs no product.
        basis = torch.stack([basis[0], new, *basis[1:]])
        images = torch.stack([images[0], product(new), *images[1:]])
        basis, images = _best_of(basis, images, all_reduce)
    return sigma


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
        (image,) = linear(direction.view_as(like).to(like))
        return image.flatten().double()

    return partial(applied, push, x), partial(applied, pull, out)


def _random(shape: Sequence[int], device: torch.device) -> Tensor:
    """A direction that is the same in every call, and leaves the global generator alone."""
    draws = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=draws, dtype=torch.float64).to(device)


def _norm(x: Tensor, all_reduce: Function) -> Tensor:
    return all_reduce(x.square().sum()).sqrt()


def _best_of(basis: Tensor, images: Tensor, all_reduce: Function) -> tuple[Tensor, Tensor]:
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


def _orthogonal(x: Tensor, basis: Tensor, all_reduce: Function) -> Tensor:
    """The part of x that is orthogonal to a basis, with norm 1."""
    for _ in range(2):  # if little is left, a single pass leaves rounding errors
        x = x - all_reduce(basis @ x) @ basis
    return x / _norm(x, all_reduce).clamp_min(TINY)


_factor = partial(Measure, product=True, around_zero=True)
CONSTANTS = (
    _factor("lipschitz_measured", "lipschitz/measured_log10", "||dF(X)/dX||"),
    _factor("lipschitz_bound", "lipschitz/bound_log10", "bound of ||dF(X)/dX||"),
)


class CannotLinearise(ValueError):
    """A layer's Jacobian cannot be applied; the text says why, as the end of a sentence."""


def layer_constant(
    call: CallArguments, x: Tensor, function: Function | None = None, **options: Any
) -> float:
    """The local Lipschitz constant of a recorded layer at a state: see :func:`local_lipschitz`.

    The function takes the place of the layer where that reads more than the state.

    Raises:
        CannotLinearise: PyTorch cannot differentiate the layer twice.
    """
    try:
        # Flash attention has no second derivative; the same attention in plain products has one.
        with sdpa_kernel(SDPBackend.MATH):
            return local_lipschitz(function or call.call, x, **options)
    except torch.OutOfMemoryError:  # a RuntimeError that says nothing about the layer
        raise
    # What functorch raises of code that it cannot differentiate has no class of its own.
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(". ")
        name = type(call.module).__name__
        raise CannotLinearise(f"{name} cannot be linearised ({reason})") from error


class LipschitzConstants(LayerCallback):
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
        layers: Names of the layers in the LightningModule; ``*`` matches any characters but a dot.
            In a module without a ``NodeClassifier``'s stack the default is its outermost
            message-passing layers, ours and PyTorch Geometric's.
        every_n_epochs: Epochs from one measurement to the next.
        iterations: Maximum number of rounds of the power iteration for each layer.
        tolerance: Relative error at which the power iteration ends earlier. At the default it may
            settle on the second singular value where that is 1% or 2% smaller; 1e-4 avoids this.

    Raises:
        ValueError: A number is not positive.
        MisconfigurationException: No module has such a name, the strategy splits layers over
            processes, or the training has another LipschitzConstants.
    """

    @in_range
    def __init__(
        self,
        layers: str = "stack.blocks.*.layer",
        every_n_epochs: Count = 10,
        iterations: Count = 100,
        tolerance: Positive = 1e-3,
    ) -> None:
        super().__init__(layers, every_n_epochs=every_n_epochs)
        self.measure_log = MeasureLog(CONSTANTS)
        self.iterations = iterations
        self.tolerance = tolerance
        self._warned: set[str] = set()

    def _open(
        self, trainer: L.Trainer, pl_module: L.LightningModule, found: dict[str, nn.Module]
    ) -> None:
        self._driver = LayerDriver(pl_module, found, (), keeps_calls=True)
        self.measure_log.open(layer_numbers(found))

    def _begin(self, trainer: L.Trainer, is_first: bool) -> None:
        # A resumed run was measured at its first step by the run before, as that one's last.
        if is_first and self.measure_log.last_step != trainer.global_step:
            super()._begin(trainer, is_first)

    def _measure(self, trainer: L.Trainer) -> None:
        self._driver.remove()
        if self._measured is not None:  # a further evaluation of the step: the inputs are the same
            return
        columns = self._driver.calls_by_column()
        calls: dict[int, CallArguments] = {}  # the first one of each layer that was called
        for place, column in enumerate(columns):
            for call in column:
                if call.recorded is not None:
                    calls.setdefault(place, call.recorded)
        self._driver.begin_step()
        # Processes that share one graph compute each constant together: all of them go on.
        shares = any(map(_shard_of, calls.values()))
        if trainer.world_size > 1 and not shares:
            rank_zero_warn("LipschitzConstants measures the batch of the first process alone.")
        measures = trainer.is_global_zero or shares
        if not measures or not any(columns):
            return
        values = torch.full((2, len(columns)), math.nan, dtype=torch.float64)
        with BackwardPasses.only(self):
            for place, recorded in calls.items():
                values[0, place] = self._constant(recorded)
                values[1, place] = recorded.bound
        self._measured = values

    def _constant(self, call: CallArguments) -> float:
        x, graph = call.x, _shard_of(call)
        options: dict[str, Any] = {"max_iterations": self.iterations, "tolerance": self.tolerance}
        if graph is not None:  # the layer was called with the rows of other processes, too
            x = x[: graph.num_nodes]
            options["function"] = lambda rows: call.call(graph.fetch(rows))
            options["all_reduce"] = graph.all_reduce
            # Parts of one direction, which all processes draw alike.
            whole = _random((graph.total_nodes, *x.shape[1:]), x.device)
            options["start"] = whole[graph.node_numbers]
        try:
            with evaluating(call.module):
                return layer_constant(call, x, **options)
        except CannotLinearise as error:
            if str(error) not in self._warned:  # once for all layers of a class
                self._warned.add(str(error))
                rank_zero_warn(f"LipschitzConstants: {error}: its constant is NaN.")
            return math.nan


def _shard_of(call: CallArguments) -> Graph | None:
    """The graph of which this process has a part, if a layer was called with one."""
    graph = call.graph
    return graph if graph is not None and graph.is_shard else None
