"""How far the neurons of a stack are from balance over a training, and how much of it learns."""

from collections.abc import Sequence
from typing import Any, Protocol

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.attachment import check_attachment, save_despite
from gnn_depth.diagnostics.balance import Link
from gnn_depth.diagnostics.change import Change
from gnn_depth.diagnostics.neuron_log import NeuronLog
from gnn_depth.diagnostics.neurons import Neurons
from gnn_depth.diagnostics.schedule import Due, Schedule
from gnn_depth.diagnostics.sink import Quantity, Sink, run_folder
from gnn_depth.diagnostics.spreads import loss_scale
from gnn_depth.diagnostics.watch import select
from gnn_depth.measurements import Measurement, save

KINDS = ("weights", "attention")
STATISTICS = ("mean", "min", "q1", "median", "q3", "max")
LAWS = tuple(
    Quantity(f"balance_{law}_{statistic}", f"balance/{law}_{statistic}", f"{statistic} of {law}", log10=False)
    for law in ("c", "delta")
    for statistic in STATISTICS
)
NORMS = (
    Quantity("balance_gradient_weights", "balance/gradient_weights_log10", "||dLoss/dW|| / ||W||"),
    Quantity("balance_gradient_attention", "balance/gradient_attention_log10", "||dLoss/da|| / ||a||"),
)


class Stack(Protocol):
    """Layers with a method ``weight_chain()``, and the neurons between them."""

    layers: Sequence[Any]

    def links(self) -> Sequence[Link]: ...

    def why_no_law(self) -> str | None: ...


class Balancedness(L.Callback):
    r"""The imbalance c and the defect delta of every neuron, relative gradient norms, and how many parameters changed.

    .. math:: c_i = \|W^l_{i:}\|^2 - (a^l_i)^2 - \|W^{l+1}_{:i}\|^2, \quad
        \delta_i = \langle W^l_{i:}, \nabla W^l_{i:} \rangle - a^l_i \nabla a^l_i
        - \langle W^{l+1}_{:i}, \nabla W^{l+1}_{:i} \rangle, \quad
        \|\nabla W^l\|_F / \|W^l\|_F, \quad \|\nabla a^l\| / \|a^l\|

    in general :mod:`gnn_depth.diagnostics.balance`; matrices and attention parameters of a layer are taken together.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023: delta is zero, gradient descent of small
    steps leaves c as it is, and deep nets train when all c are zero. Where the law does not hold one warning says why.

    They are those of a step's parameters before it is made, and of the gradient of the loss: of all accumulated batches
    and all processes, before clipping and without the scaling of mixed precision. Weight decay of the optimizer is not
    in it. No gradient counts as zero. Relative norms are infinite while a is zero and its gradient is not, zero where
    the gradient is, and NaN where a layer has no such parameters.

    Layer l has the neurons that leave the l-th layer, and that layer's gradients; 0 those that enter the first.
    Neurons that skip connections or shared layers make one of stand in the first of their layers. Loggers show
    mean, least, quartiles and largest c as ``balance/c_mean/layer_007``, ``.../c_min``, ``c_q1``, ``c_median``,
    ``c_q3``, ``c_max``, those of delta likewise, and the logarithms of the relative gradient norms as
    ``balance/gradient_weights_log10`` and ``.../gradient_attention_log10``. ``measures/balance_c_mean.npz`` and so on
    have all of them, ``balance_changed_weights.npz`` and ``..._attention.npz`` the fractions of parameters with

    .. math:: |\theta_T - \theta_0| > \epsilon |\theta_0|

    at the end of the training, which are in ``result.json`` too: of those that began at zero, all that moved.

    Args:
        stack: Name of the stack in the LightningModule: what has ``layers``, ``links()`` and ``why_no_law()``.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step. The first and the last step of a
            training are always measured.
        neurons: Whether every neuron's values are kept too, for ``measures/balance_c.npz`` and ``balance_delta.npz``,
            which are written when the training ends.
        changed: Epsilon.

    Raises:
        ValueError: A cadence is not positive, both are given, or epsilon is negative.
        MisconfigurationException: There is no such stack, it does not know its neurons, the strategy has no whole
            gradients in one place, or the training has another Balancedness.
    """

    def __init__(
        self,
        stack: str = "stack",
        every_n_steps: int | None = None,
        every_n_epochs: int | None = None,
        neurons: bool = False,
        changed: float = 0.05,
    ) -> None:
        if not changed >= 0:
            raise ValueError(f"changed of Balancedness is a relative change, 0 or more, not {changed}.")
        self.stack, self.neurons, self.changed = stack, neurons, changed
        self.schedule = Schedule(every_n_steps, every_n_epochs)
        self.sink, self.of_neurons, self.change = Sink((*LAWS, *NORMS)), NeuronLog(("c", "delta")), Change()
        self._links: list[Link] = []
        self._sets: list[Sequence[Tensor]] = []
        self._step, self._due = -1, Due.NO

    @property
    def state_key(self) -> str:
        return self._generate_state_key(stack=self.stack)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        check_attachment(trainer, self)
        stack = find(pl_module, self.stack)
        try:
            self._links = list(stack.links())
        except ValueError as error:
            raise MisconfigurationException(f"Balancedness: {error}") from error
        chains = [layer.weight_chain() for layer in stack.layers]
        self._sets = [*(chain.incoming for chain in chains), *(chain.attention for chain in chains)]
        self._check_law(stack)
        layers = [link.states[0] for link in self._links]
        self.sink.open(range(min([1, *layers]), len(chains) + 1))
        self.of_neurons.open(layers)
        self.change.open()
        self._step, self._due = -1, Due.NO

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.schedule.start(trainer)
        self._neurons = Neurons(self._links, self._sets)  # now that the parameters are on their device
        self.change.start(self._sets)
        places = [link.states[0] - int(self.sink.layers[0]) for link in self._links]
        self._places = torch.tensor(places, dtype=torch.long, device=pl_module.device)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self._step:  # the first batch of a step
            self._step, self._due = trainer.global_step, self.schedule.due(trainer, batch_idx)

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        if self._due is Due.NO:
            return
        if any(parameter.grad is not None for parameter in pl_module.parameters()):  # a step may have had no loss
            # Lightning leaves the scale to optimizers that can undo it themselves, as fused ones can.
            scaled = getattr(optimizer, "_step_supports_amp_scaling", False)
            self._measure(trainer, scaled, keep=self._due is Due.YES)
        self._due = Due.NO  # an optimizer that searches comes here several times in a step

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._write(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        save_despite(self, lambda: self._write(trainer))

    def findings(self) -> dict[str, Any]:
        """For ``result.json``: the fraction of each layer's parameters that changed, None where it has none."""
        fractions = self.change.fractions(self.changed)
        kinds = dict(zip(KINDS, np.array(fractions, dtype=object).reshape(2, -1).tolist(), strict=True))
        return {"changed": {"by_more_than": self.changed, **kinds}} if fractions else {}

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name).state_dict() for name in ("sink", "of_neurons", "change")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name, state in state_dict.items():
            getattr(self, name).load_state_dict(state)

    def _check_law(self, stack: Stack) -> None:
        """Refuse parameters that are none, and warn where what is measured need not obey the law.

        Raises:
            MisconfigurationException: A matrix is made of others.
        """
        shares = [share for link in self._links for share in (*link.incoming, *link.attention, *link.outgoing)]
        parameters = [*(share.parameter for share in shares), *(p for one in self._sets for p in one)]
        reason = stack.why_no_law() if self._links else "it has no neurons that can be rescaled"
        if not all(isinstance(parameter, nn.Parameter) for parameter in parameters):
            raise MisconfigurationException(
                f"Balancedness: there is no law for {self.stack!r}: {reason}. Take no norm of weights."
            )
        if reason:
            rank_zero_warn(f"Balancedness: delta need not be zero in {self.stack!r}, nor c stay as it is: {reason}.")

    def _measure(self, trainer: L.Trainer, scaled: bool, keep: bool) -> None:
        laws, norms = self._neurons.read(lambda parameter: parameter.grad)
        if scaled:
            scale = loss_scale(trainer, norms[1, 0])
            laws, norms = (torch.stack([both[0], both[1] / scale.to(both.dtype)]) for both in (laws, norms))
        values = norms.new_full((len(self.sink.quantities), len(self.sink.layers)), torch.nan)
        if self._links:
            of_laws = self._neurons.distribution(laws).flatten(0, 1).to(values.dtype)
            values[: len(LAWS)].index_copy_(1, self._places, of_laws)
        values[len(LAWS) :, 1 - int(self.sink.layers[0]) :] = _relative(*norms).view(len(KINDS), -1)
        self.sink.add(trainer, self._step, values, keep)
        if self.neurons and keep:
            self.of_neurons.add(self._step, laws)

    def _write(self, trainer: L.Trainer) -> None:
        self.sink.close(trainer)
        self.of_neurons.write(trainer)
        fractions = np.array(self.change.fractions(self.changed), dtype=float).reshape(2, 1, -1)
        folder = run_folder(trainer)
        if not trainer.is_global_zero or folder is None or not fractions.size:
            return
        folder.mkdir(parents=True, exist_ok=True)
        for kind, values in zip(KINDS, fractions, strict=True):
            unit = f"fraction of {kind} changed by more than {self.changed:g}"
            save(folder, Measurement(f"balance_changed_{kind}", np.array([trainer.global_step]), values, unit))


def find(module: nn.Module, name: str) -> Stack:
    """The stack of a name.

    Raises:
        MisconfigurationException: There is none, or it does not know its neurons.
    """
    if "*" in name:
        raise MisconfigurationException(f"Balancedness watches one stack, and {name!r} may be several: name one.")
    (found,) = select(module, name).values()
    if missing := [part for part in ("layers", "links", "why_no_law") if not hasattr(found, part)]:
        raise MisconfigurationException(
            f"Balancedness: {name!r} is a {type(found).__name__}, which has no {missing[0]!r}: name a module that has "
            "layers, links() and why_no_law(), as DeepGNN."
        )
    return found  # type: ignore[return-value]


def _relative(norms: Float[Tensor, "sets"], gradients: Float[Tensor, "sets"]) -> Float[Tensor, "sets"]:
    return torch.where(gradients == 0, gradients, gradients / norms)
