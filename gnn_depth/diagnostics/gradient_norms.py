"""How large the gradients are in every layer, over a training."""

from collections.abc import Sequence

import lightning as L
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.every_layer import EveryLayer
from gnn_depth.diagnostics.narrow import sum_of_squares
from gnn_depth.diagnostics.sink import Quantity, Sink
from gnn_depth.diagnostics.spreads import is_shared, loss_scale
from gnn_depth.diagnostics.watch import InputGradients, Inputs

QUANTITIES = (
    Quantity("gradient_norm_hidden", "gradient_norm/hidden_log10", "||dLoss/dX||"),
    Quantity("gradient_norm_parameters", "gradient_norm/parameters_log10", "||dLoss/dW||"),
)


class GradientNorms(EveryLayer):
    r"""Norms of the gradients of the hidden states and of the parameters, in every layer of any LightningModule.

    .. math:: \|G^l\|_F, \; G^l = \partial \mathrm{loss} / \partial X^l, \qquad
        \|\partial \mathrm{loss} / \partial W^l\|_2

    for :math:`X^l`, which enters layer l (its first argument; in our stacks before dropout), with the gradient through
    everything that reads it, skip connections too, and for all parameters of layer l together. Dasoulas, Scaman &
    Virmaux, *Lipschitz Normalization for Self-Attention Layers*, ICML 2021, show them for 25 layers.

    They are those of the loss that the optimizer's step lowers: without the scaling of mixed precision, before
    clipping. The batches of a step are parts of one: of accumulated gradients the squares of all batches add up, as do
    those of all processes, each part of the mean loss. Where all processes have the same batch (a loader whose
    attribute ``shared`` is true), it is the root mean square over them instead. Zero where the loss does
    not depend on a state; NaN where a layer has none with a gradient, or no parameters. Hooks are there in the steps
    that are measured only, and in these our layers run uncompiled.

    Loggers show the logarithms as ``gradient_norm/hidden_log10/layer_007`` and ``gradient_norm/parameters_log10/...``;
    ``measures/gradient_norm_hidden.npz`` and ``..._parameters.npz`` in the run's folder have all of them.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step. The first and the last step of a
            training are always measured.

    Raises:
        ValueError: A cadence is not positive, or both are given.
        MisconfigurationException: No module has such a name, the strategy has no whole gradients in one place, or the
            training has another GradientNorms.
    """

    def __init__(
        self, layers: str = "stack.layers.*", every_n_steps: int | None = None, every_n_epochs: int | None = None
    ) -> None:
        self.sink = Sink(QUANTITIES)
        super().__init__(self.sink, layers, every_n_steps, every_n_epochs)

    def _watch(self, modules: Sequence[nn.Module]) -> Inputs:
        return InputGradients(modules, sum_of_squares)

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        return torch.stack([self._of_hidden(trainer, pl_module), self._of_parameters(trainer, optimizer)])

    def _of_hidden(self, trainer: L.Trainer, pl_module: L.LightningModule) -> Float[Tensor, "layers"]:
        zero = torch.zeros((), dtype=torch.float64, device=pl_module.device)
        squares = [sum((part.to(zero.device) for part in parts), zero) for parts in self._inputs.taken]
        seen = torch.tensor(self._inputs.seen, dtype=torch.float64).to(zero.device, non_blocking=True)
        total, seen = _sum_over_processes(trainer, torch.stack([torch.stack(squares), seen]))
        # The loss is the mean of the processes': each has a part of its gradient, or all have the same.
        parts = trainer.world_size if is_shared(trainer) else trainer.world_size**2
        norms = (total / parts).sqrt() / loss_scale(trainer, zero)
        return torch.where(seen > 0, norms, torch.nan)

    def _of_parameters(self, trainer: L.Trainer, optimizer: Optimizer) -> Float[Tensor, "layers"]:
        norms = torch.stack([parameter_gradient_norm(module) for module in self._modules])
        # Lightning leaves the scale to optimizers that can undo it themselves, as fused ones can.
        scaled = getattr(optimizer, "_step_supports_amp_scaling", False)
        return norms / loss_scale(trainer, norms[0]) if scaled else norms


def parameter_gradient_norm(module: nn.Module) -> Float[Tensor, ""]:
    """The norm of the gradients of all parameters together, in float64: NaN if there is nothing to train."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    dense = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
    device = next(module.parameters(), torch.empty(0)).device
    if not dense:
        return torch.full((), 0.0 if trained else torch.nan, dtype=torch.float64, device=device)
    return torch.stack([sum_of_squares(gradient) for gradient in dense]).sum().sqrt()


def _sum_over_processes(trainer: L.Trainer, values: Tensor) -> Tensor:
    return values if trainer.world_size == 1 else trainer.strategy.reduce(values, reduce_op="sum")
