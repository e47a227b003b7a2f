r"""Rescale neurons during training, without changing what the network computes.

Neuron i of a hidden state can be multiplied by :math:`\lambda_i > 0` in its incoming weights and
divided by it in its outgoing weights and attention parameters: see :mod:`gnn_depth.nn.neurons`.
The outputs stay the same, and gradients change, so the later course of the training does.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import lightning as L
import torch
from jaxtyping import Float
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor

from gnn_depth import DeepGNN
from gnn_depth.nn.neurons import Link, WeightRole
from gnn_depth.ranges import Count, in_range

Criterion: TypeAlias = Literal["norms", "gradients"]
#: No neuron is multiplied by less or by more in one sweep.
LEAST, MOST = 1e-5, 2.0


class Rebalance(L.Callback):
    r"""Rebalance the neurons of a ``DeepGNN`` every few epochs.

    With criterion ``norms`` the incoming and outgoing squared norms of a neuron become equal,

    .. math:: \lambda_i = \Big( \frac{\|W_{:i}\|^2_{out} + \|a_i\|^2}{\|W_{i:}\|^2_{in}} \Big)^{1/4}

    and with ``gradients`` the sums of squared relative gradients,

    .. math:: \lambda_i = \Big( \frac{\sum_{in} (g/w)^2}{\sum_{out} (g/w)^2 + (g_a/a)^2} \Big)^{1/8}

    A factor is held between 1e-5 and 2, and is 1 where it is undefined. Biases are incoming
    weights. The moments of the optimizer are not rescaled. Mustafa & Burkholz, *Dynamic Rescaling
    for Training GNNs*, NeurIPS 2024.

    Args:
        criterion: ``norms`` or ``gradients``.
        every_n_epochs: Rebalance after each so many epochs.
        sweeps: Number of passes over the layers each time.
        stack: The name of the ``DeepGNN`` in the LightningModule.
    """

    @in_range
    def __init__(
        self,
        criterion: Criterion = "norms",
        every_n_epochs: Count = 1,
        sweeps: Count = 1,
        stack: str = "stack",
    ) -> None:
        self.criterion = criterion
        self.every_n_epochs = every_n_epochs
        self.sweeps = sweeps
        self.stack = stack

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        stack: Any = pl_module.get_submodule(self.stack)
        # Now, and not at the end of the first epoch.
        reason = stack.why_no_law()
        if reason is not None:
            raise MisconfigurationException(
                f"Rebalance would change the outputs of the network, because {reason}."
            )
        stack.links()  # refuses stacks without links

    def on_train_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        # Validation comes before the end of the epoch, and frees the gradients.
        if self.criterion == "gradients" and trainer.is_last_batch:
            self._rebalance(trainer, pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.criterion == "norms":
            self._rebalance(trainer, pl_module)

    def _rebalance(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            stack: Any = pl_module.get_submodule(self.stack)
            rebalance(stack, self.criterion, self.sweeps)


@torch.no_grad()
def rebalance(stack: DeepGNN, criterion: Criterion = "norms", sweeps: int = 1) -> None:
    """Rescale the neurons of a ``DeepGNN`` once: see :class:`Rebalance`.

    Gradients of the parameters are rescaled too, inversely, so they stay those of the same loss.

    Raises:
        ValueError: The criterion is ``gradients``, and no parameter has a gradient.
    """
    if criterion == "gradients" and all(one.grad is None for one in stack.parameters()):
        raise ValueError("no parameter has a gradient: rebalance by gradients after a backward().")
    for _ in range(sweeps):
        for link in stack.links():
            if criterion == "norms":
                factor = _factor(link, _square_of_value, 1 / 4)
            else:
                # Inverse: g / w becomes smaller where w is made larger.
                factor = 1 / _factor(link, _square_of_relative_gradient, 1 / 8)
            # 0 / 0 is a neuron without weights: it keeps its scale.
            factor = factor.nan_to_num(nan=1.0).clamp(LEAST, MOST)
            for role in link.incoming:
                _multiply(role, factor)
            for role in (*link.attention, *link.outgoing):
                _multiply(role, 1 / factor)


def _factor(
    link: Link, entries: Callable[[Tensor], Tensor], power: float
) -> Float[Tensor, "neurons"]:
    """A power of the ratio of what leaves each neuron to what enters it."""
    leaves = _sum(entries, (*link.attention, *link.outgoing))
    enters = _sum(entries, link.incoming)
    return (leaves / enters).pow(power)


def _sum(
    entries: Callable[[Tensor], Tensor], roles: tuple[WeightRole, ...]
) -> Float[Tensor, "neurons"]:
    return torch.stack([role.by_neuron(entries(role.parameter)) for role in roles]).sum(0)


def _square_of_value(parameter: Tensor) -> Tensor:
    return parameter.double().square()


def _square_of_relative_gradient(parameter: Tensor) -> Tensor:
    """(g / w)^2; zero where there is no gradient or no weight."""
    if parameter.grad is None:
        return torch.zeros_like(parameter, dtype=torch.float64)
    ratio = parameter.grad.double() / parameter.double()
    return ratio.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).square()


def _multiply(role: WeightRole, factor: Float[Tensor, "neurons"]) -> None:
    """Multiply a parameter's contribution to each neuron, and divide its gradient."""
    parameter: Any = role.parameter
    by_entry = role.by_entry(factor)
    parameter.copy_(parameter.double() * by_entry)
    if parameter.grad is not None:
        parameter.grad.copy_(parameter.grad.double() / by_entry)
