"""What the callbacks have in common that look at every layer in the steps of a training."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import lightning as L
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.attachment import check_attachment, save_despite
from gnn_depth.diagnostics.schedule import Due, Schedule
from gnn_depth.diagnostics.watch import Inputs, entrances, numbers, select


class Log(Protocol):
    """Takes what was measured in each step, as a :class:`Sink` does."""

    def open(self, layers: Sequence[int]) -> None: ...
    def add(self, trainer: L.Trainer, step: int, values: Tensor, keep: bool = True) -> None: ...
    def close(self, trainer: L.Trainer) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class EveryLayer(L.Callback, ABC):
    """Look at what enters every layer, or at its gradient, in the steps that are due, and measure it once a step.

    Hooks are there in these steps only, and nothing is exchanged between processes in them: :meth:`_measure` is called
    when the gradients of a whole step are there, before they are clipped.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step.
    """

    def __init__(self, log: Log, layers: str, every_n_steps: int | None, every_n_epochs: int | None) -> None:
        self.layers = layers
        self.schedule = Schedule(every_n_steps, every_n_epochs)
        self._log = log
        self._modules: Sequence[nn.Module] = ()
        self._inputs = self._watch(())
        self._step, self._due = -1, Due.NO

    @abstractmethod
    def _watch(self, modules: Sequence[nn.Module]) -> Inputs:
        """What is taken of the inputs of modules."""

    @abstractmethod
    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        """The values of a step, of what ``self._inputs`` has taken in it."""

    def _numbered(self, layers: Sequence[int]) -> Sequence[int]:
        """The numbers of the layers that values are of."""
        return layers

    @property
    def state_key(self) -> str:
        return self._generate_state_key(layers=self.layers)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        check_attachment(trainer, self)
        found = select(pl_module, self.layers)
        self._modules = list(found.values())
        self._inputs = self._watch(entrances(pl_module, found))
        self._step, self._due = -1, Due.NO
        self._log.open(self._numbered(numbers(list(found))))

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.schedule.start(trainer)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if trainer.global_step != self._step:  # the first batch of a step
            self._step, self._due = trainer.global_step, self.schedule.due(trainer, batch_idx)
            self._inputs.clear()
        if self._due is not Due.NO:
            self._inputs.attach()

    def on_before_backward(self, trainer: L.Trainer, pl_module: L.LightningModule, loss: Tensor) -> None:
        self._inputs.end_forward()

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer) -> None:
        if self._due is Due.NO:
            return
        self._inputs.detach()
        if any(parameter.grad is not None for parameter in pl_module.parameters()):  # a step may have had no loss
            values = self._measure(trainer, pl_module, optimizer)
            self._log.add(trainer, self._step, values, keep=self._due is Due.YES)
        self._inputs.clear()
        self._due = Due.NO  # an optimizer that searches comes here several times in a step

    def on_train_batch_end(self, *args: Any) -> None:
        self._inputs.detach()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._log.close(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._inputs.detach()
        save_despite(self, lambda: self._log.close(trainer))

    def state_dict(self) -> dict[str, Any]:
        return self._log.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._log.load_state_dict(state_dict)
