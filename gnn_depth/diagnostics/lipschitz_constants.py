"""How much every layer stretches its input, over a training."""

import math
from collections.abc import Sequence
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.attachment import check_attachment, save_despite
from gnn_depth.diagnostics.calls import Call, evaluating, recorded_calls
from gnn_depth.diagnostics.lipschitz import local_lipschitz
from gnn_depth.diagnostics.sink import Quantity, Sink
from gnn_depth.diagnostics.watch import numbers, select

QUANTITIES = (
    Quantity("lipschitz_measured", "lipschitz/measured_log10", "||dF(X)/dX||", product=True),
    Quantity("lipschitz_bound", "lipschitz/bound_log10", "bound of ||dF(X)/dX||", product=True),
)


class LipschitzConstants(L.Callback):
    r"""The local Lipschitz constant of every layer at its input, beside the bound that its score norm gives.

    .. math:: \sigma_{\max} \left( \frac{\partial F^l(X^l)}{\partial X^l} \right)

    for layers :math:`F^l` of any LightningModule, in evaluation mode (no dropout), by :func:`local_lipschitz`; the
    bound is what the layer's ``lipschitz_bound`` says of the rest of its arguments, NaN where it says nothing.
    :math:`X^l` are the inputs in a pass ``module(batch)`` over the training batch of the moment. Dasoulas, Scaman &
    Virmaux, *Lipschitz Normalization for Self-Attention Layers*, ICML 2021.

    Measured are the model before the first step of every n-th epoch, and the trained one. The training goes on as if
    nothing had been: modes, gradients and random numbers are untouched. Of several processes the first one measures.

    Loggers show the logarithms as ``lipschitz/measured_log10/layer_007`` and ``lipschitz/bound_log10/...``, and those
    of the products over the layers, which bound a stack without skip connections up to its encoder and activations, as
    ``lipschitz/measured_log10/product``; ``measures/lipschitz_measured.npz`` and ``..._bound.npz`` in the run's folder
    have all layers.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_epochs: Epochs from one measurement to the next.
        iterations: Rounds of the power iteration of a layer, at most.
        tolerance: Relative error at which it ends sooner.

    Raises:
        ValueError: A number is not positive.
        MisconfigurationException: No module has such a name, the strategy has no whole model in one place, or the
            training has another LipschitzConstants.
    """

    def __init__(
        self,
        layers: str = "stack.layers.*",
        every_n_epochs: int = 10,
        iterations: int = 100,
        tolerance: float = 1e-3,
    ) -> None:
        for name, value in (
            ("every_n_epochs", every_n_epochs),
            ("iterations", iterations),
            ("tolerance", tolerance),
        ):
            if not value > 0:
                raise ValueError(f"{name} of LipschitzConstants must be positive, not {value}.")
        self.layers = layers
        self.every_n_epochs, self.iterations, self.tolerance = every_n_epochs, iterations, tolerance
        self.sink = Sink(QUANTITIES)
        self._modules: Sequence[nn.Module] = ()
        self._starts: list[Tensor | None] = []
        self._batch: Any = None

    @property
    def state_key(self) -> str:
        return self._generate_state_key(layers=self.layers)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        check_attachment(trainer, self)
        found = select(pl_module, self.layers)
        self._modules, self._starts = list(found.values()), [None] * len(found)
        self._batch = None
        self.sink.open(numbers(list(found)))

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._batch = batch
        if batch_idx == 0 and trainer.current_epoch % self.every_n_epochs == 0:
            self._measure(trainer, pl_module)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._batch is not None:  # None if there was nothing left to train
            self._measure(trainer, pl_module)
        self._batch = None
        self.sink.close(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._batch = None
        save_despite(self, lambda: self.sink.close(trainer))

    def state_dict(self) -> dict[str, Any]:
        return self.sink.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.sink.load_state_dict(state_dict)

    @torch.no_grad()
    def _measure(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # A resumed training begins where the one before it ended, and was measured.
        if not trainer.is_global_zero or self.sink.last_step == trainer.global_step:
            return
        with evaluating(pl_module):
            with recorded_calls(self._modules) as calls:
                pl_module(self._batch)
            pairs = [(self._constant(place, call), bound_of(call)) for place, call in enumerate(calls)]
        measured, bounds = zip(*pairs, strict=True)
        known = [math.nan if bound is None else bound for bound in bounds]
        self.sink.add(trainer, trainer.global_step, torch.tensor([measured, known], dtype=torch.float64))

    def _constant(self, place: int, call: Call | None) -> float:
        if call is None:
            return math.nan
        start = self._starts[place]
        if start is not None and start.shape != call.x.shape:  # of a larger batch than this one
            start = None
        stretch = local_lipschitz(call, call.x, start, self.iterations, self.tolerance)
        # A guess needs few digits, and there is one for every layer.
        self._starts[place] = None if stretch.direction is None else stretch.direction.to(torch.bfloat16)
        return stretch.value


def bound_of(call: Call | None) -> float | None:
    """What a layer says of its Lipschitz constant, given the rest of its arguments; None where it says nothing."""
    bound = None if call is None else getattr(call.module, "lipschitz_bound", None)
    return None if call is None or bound is None else bound(*call.rest, **call.named)
