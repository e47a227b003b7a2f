"""Callbacks that measure every layer's input during training, and its gradient."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

import lightning as L
import torch
from jaxtyping import Float
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities import rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.hooks import InputGradients, InputHooks, InputStates, entrances, numbers, select
from gnn_depth.diagnostics.log import MeasureLog, Quantity
from gnn_depth.diagnostics.measures import (
    log10_growth,
    log10_similarity,
    log10_total_growth,
    relative_similarity,
    similarity,
)
from gnn_depth.diagnostics.moments import RowMoments, row_moments, sum_of_squares


class Due(Enum):
    """The decision to measure a step; ``PERHAPS`` keeps its values only if it turns out to be the last."""

    NO = 0
    YES = 1
    PERHAPS = 2


class Schedule:
    """Every n steps of the optimizer or epochs, and the first and the last step of a training.

    In an epoch it is the first step. The last step is the one at which ``max_steps`` or ``max_epochs`` ends the
    training, or after which :class:`EarlyStopping` runs out of patience; other endings cannot be foreseen.

    Args:
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step.

    Raises:
        ValueError: Both are given, or one is not positive.
    """

    def __init__(self, every_n_steps: int | None = None, every_n_epochs: int | None = None) -> None:
        for name, value in (("every_n_steps", every_n_steps), ("every_n_epochs", every_n_epochs)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}.")
        if every_n_steps and every_n_epochs:
            raise ValueError(f"use every_n_steps ({every_n_steps}) or every_n_epochs ({every_n_epochs}), not both.")
        self.every_n_steps = every_n_steps
        self.every_n_epochs = every_n_epochs
        self._last: float = -1

    def start(self, trainer: L.Trainer) -> None:
        """Find the last step of a training that begins."""
        self._last = trainer.estimated_stepping_batches - 1

    def due(self, trainer: L.Trainer, batch_idx: int) -> Due:
        """Decide at the first batch of a step whether to measure the step.

        Args:
            trainer: Has not made the step yet.
            batch_idx: Number of the batch in its epoch.
        """
        step, epoch = trainer.global_step, trainer.current_epoch
        if self.every_n_epochs:
            regular = epoch % self.every_n_epochs == 0 and batch_idx < trainer.accumulate_grad_batches
        else:
            regular = step % (self.every_n_steps or 1) == 0
        if regular or step in (0, self._last):
            return Due.YES
        return Due.PERHAPS if _may_stop(trainer, batch_idx) else Due.NO


def _may_stop(trainer: L.Trainer, batch_idx: int) -> bool:
    """True in the last step of an epoch after which early stopping may end the training."""
    if batch_idx + trainer.accumulate_grad_batches < trainer.num_training_batches:
        return False
    stopping = [callback for callback in trainer.callbacks if isinstance(callback, EarlyStopping)]  # type: ignore[attr-defined]
    return any(callback.wait_count + 1 >= callback.patience for callback in stopping)


def check_attachment(trainer: L.Trainer, callback: L.Callback) -> None:
    """Refuse a second callback of the same class, and strategies that may split layers over processes.

    Raises:
        MisconfigurationException: Two callbacks would overwrite each other's files and curves, or no process has the
            whole layers.
    """
    name = type(callback).__name__
    same = [other for other in trainer.callbacks if type(other) is type(callback)]  # type: ignore[attr-defined]
    if len(same) > 1:
        patterns = " and ".join(repr(getattr(other, "layers", getattr(other, "stack", ""))) for other in same)
        raise MisconfigurationException(
            f"{len(same)} {name} callbacks in one training, for {patterns}, would write the same files and curves: "
            "use one, with a pattern that matches all names."
        )
    if not isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy):
        raise MisconfigurationException(
            f"{name} needs whole layers, which {type(trainer.strategy).__name__} may split over processes: "
            "use trainer.strategy auto or ddp."
        )


def save_despite(callback: L.Callback, save: Callable[[], None]) -> None:
    """Save the measurements made before an exception; a failure is only a warning, so that the exception is shown."""
    try:
        save()
    except Exception as error:
        rank_zero_warn(f"the last values of {type(callback).__name__} could not be saved: {error}")


def is_shared(trainer: L.Trainer) -> bool:
    """True if all processes train on the same batches, not on parts of them."""
    return bool(getattr(trainer.train_dataloader, "shared", False))


def loss_scale(trainer: L.Trainer, like: Tensor) -> Tensor:
    """The factor of the loss in mixed precision, as a tensor: reading it as a number would wait for the device."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    one = torch.ones_like(like)
    return one if scaler is None else scaler.scale(one)


class Log(Protocol):
    """Takes the values measured in each step, as :class:`MeasureLog` does."""

    def open(self, layers: Sequence[int]) -> None: ...
    def add(self, trainer: L.Trainer, step: int, values: Tensor, keep: bool = True) -> None: ...
    def close(self, trainer: L.Trainer) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class EveryLayer(L.Callback, ABC):
    """Measure every layer's input, or its gradient, in the scheduled steps.

    Hooks are attached in these steps only, where our layers run uncompiled, and no process waits for another in them:
    :meth:`_measure` runs when all gradients of a step are there, before they are clipped.

    The gradients are those of the loss that the optimizer's step lowers, without the scaling of mixed precision. The
    batches of a step (accumulated gradients) are parts of one batch, and so are those of all processes, each with its
    part of the mean loss. Where all processes have the same batch (a loader whose attribute ``shared`` is true),
    measures are root mean squares over the processes, which may differ by their dropout.

    Args:
        layers: Names of the layers in the LightningModule; ``*`` matches any characters but a dot.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step. The first and the last step of a
            training are always measured.

    Raises:
        ValueError: A number is not positive, or both are given.
        MisconfigurationException: No module has such a name, the strategy splits layers over processes, or the training
            has another callback of this class.
    """

    quantities: ClassVar[tuple[Quantity, ...]] = ()

    def __init__(
        self, layers: str = "stack.blocks.*.layer", every_n_steps: int | None = None, every_n_epochs: int | None = None
    ) -> None:
        self.layers = layers
        self.schedule = Schedule(every_n_steps, every_n_epochs)
        self.measure_log = self._make_log()
        self._modules: Sequence[nn.Module] = ()
        self._inputs = self._hooks(())
        self._step, self._due = -1, Due.NO

    def _make_log(self) -> Any:
        """The log that takes the values: a :class:`Log`."""
        return MeasureLog(self.quantities)

    @abstractmethod
    def _hooks(self, modules: Sequence[nn.Module]) -> InputHooks:
        """Hooks on the modules that states enter."""

    @abstractmethod
    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        """The values of a step, computed from the results that ``self._inputs`` collected."""

    def _numbered(self, layers: Sequence[int]) -> Sequence[int]:
        """The numbers of the layers that have values."""
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
        self._inputs = self._hooks(entrances(pl_module, found))
        self._step, self._due = -1, Due.NO
        self.measure_log.open(self._numbered(numbers(list(found))))

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
            self.measure_log.add(trainer, self._step, values, keep=self._due is Due.YES)
        self._inputs.clear()
        self._due = Due.NO  # optimizers with a line search come here several times in a step

    def on_train_batch_end(self, *args: Any) -> None:
        self._inputs.detach()

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.measure_log.close(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._inputs.detach()
        save_despite(self, lambda: self.measure_log.close(trainer))

    def state_dict(self) -> dict[str, Any]:
        return self.measure_log.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.measure_log.load_state_dict(state_dict)


class LayerMoments(EveryLayer):
    """A callback that measures the row moments of every layer's input, or of its gradient.

    Processes exchange one tensor a step, and in the first one the width of the widest layer, as a process may have no
    rows of it.
    """

    _width = 0

    def _hooks(self, modules: Sequence[nn.Module]) -> InputHooks:
        return InputGradients(modules, row_moments)

    def _moments(self, trainer: L.Trainer) -> RowMoments:
        """Row moments of each layer, stacked, over all batches and processes; a layer that was not seen has no rows.

        Gradients are those of the mean loss of all processes, and zero where no loss depends on a state.
        """
        taken = self._inputs.taken
        if not isinstance(self._inputs, InputGradients):
            return self._merged(trainer, taken)
        device = trainer.strategy.root_device
        taken = [
            [*found, *(row_moments(torch.zeros(shape, device=device)) for shape in without)]
            for found, without in zip(taken, self._inputs.without, strict=True)
        ]
        moments = self._merged(trainer, taken)
        factor = loss_scale(trainer, moments.scale[0]).reciprocal()
        return moments.times(factor if is_shared(trainer) else factor / trainer.world_size)

    def _merged(self, trainer: L.Trainer, taken: Sequence[Sequence[RowMoments]]) -> RowMoments:
        device = trainer.strategy.root_device
        here = RowMoments.stack([_merge_batches(parts, device) for parts in taken])
        if trainer.world_size == 1:
            return here
        gathered = trainer.strategy.all_gather(here.widened(self._agreed_width(trainer, here)).pack())
        everywhere = RowMoments.unpack(gathered, len(taken))
        return everywhere.side_by_side() if is_shared(trainer) else everywhere.merged()

    def _agreed_width(self, trainer: L.Trainer, here: RowMoments) -> int:
        """The width of the widest layer in any process."""
        width = here.mean.shape[-1]
        if not self._width:
            widest = torch.tensor(width, device=trainer.strategy.root_device)
            self._width = int(trainer.strategy.reduce(widest, reduce_op="max"))
        if width > self._width:
            raise MisconfigurationException(
                f"a layer's input is {width} wide, and none was wider than {self._width} in the first measured step: "
                "several processes cannot compare it."
            )
        return self._width


def _merge_batches(parts: Sequence[RowMoments], device: torch.device) -> RowMoments:
    if not parts:
        return RowMoments.empty(0, device)
    return parts[0] if len(parts) == 1 else RowMoments.stack(parts).merged()


def unless_unseen(moments: RowMoments, values: Float[Tensor, "*quantities layers"]) -> Float[Tensor, "*_ layers"]:
    """The values of each layer, and NaN for layers without rows."""
    return torch.where(moments.count > 0, values, torch.nan)


class GradientNorms(EveryLayer):
    r"""Norms of the gradients of hidden states and of parameters, in every layer of any LightningModule.

    .. math:: \|G^l\|_F, \; G^l = \partial \mathrm{loss} / \partial X^l, \qquad
        \|\partial \mathrm{loss} / \partial W^l\|_2

    for :math:`X^l`, which enters layer l (its first argument; in our stacks before dropout), with the gradient through
    everything that reads it, skip connections too, and for all parameters of layer l together. Dasoulas, Scaman &
    Virmaux, *Lipschitz Normalization for Self-Attention Layers*, ICML 2021, show them for 25 layers.

    Squares add up over accumulated batches and over processes. Zero where the loss does not depend on a state; NaN
    where a layer has no state with a gradient, or no parameters.

    Loggers show the logarithms as ``gradient_norm/hidden_log10/layer_007`` and ``gradient_norm/parameters_log10/...``;
    ``measures/gradient_norm_hidden.npz`` and ``..._parameters.npz`` in the run's folder have all of them.
    """

    quantities = (
        Quantity("gradient_norm_hidden", "gradient_norm/hidden_log10", "||dLoss/dX||"),
        Quantity("gradient_norm_parameters", "gradient_norm/parameters_log10", "||dLoss/dW||"),
    )

    def _hooks(self, modules: Sequence[nn.Module]) -> InputHooks:
        return InputGradients(modules, sum_of_squares)

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        return torch.stack([self._of_hidden(trainer, pl_module), self._of_parameters(trainer, optimizer)])

    def _of_hidden(self, trainer: L.Trainer, pl_module: L.LightningModule) -> Float[Tensor, "layers"]:
        zero = torch.zeros((), dtype=torch.float64, device=pl_module.device)
        squares = [sum((part.to(zero.device) for part in parts), zero) for parts in self._inputs.taken]
        seen = torch.tensor(self._inputs.seen, dtype=torch.float64).to(zero.device, non_blocking=True)
        both = torch.stack([torch.stack(squares), seen])
        total, seen = both if trainer.world_size == 1 else trainer.strategy.reduce(both, reduce_op="sum")
        # The loss is the mean over processes: each has a part of its gradient, or all have the same.
        parts = trainer.world_size if is_shared(trainer) else trainer.world_size**2
        norms = (total / parts).sqrt() / loss_scale(trainer, zero)
        return torch.where(seen > 0, norms, torch.nan)

    def _of_parameters(self, trainer: L.Trainer, optimizer: Optimizer) -> Float[Tensor, "layers"]:
        norms = torch.stack([parameter_gradient_norm(module) for module in self._modules])
        # Lightning leaves the unscaling to optimizers that can do it themselves, such as fused ones.
        scaled = getattr(optimizer, "_step_supports_amp_scaling", False)
        return norms / loss_scale(trainer, norms[0]) if scaled else norms


def parameter_gradient_norm(module: nn.Module) -> Float[Tensor, ""]:
    """The norm of the gradients of all parameters of a module together, in float64; NaN if none is trained."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    dense = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
    device = next(module.parameters(), torch.empty(0)).device
    if not dense:
        return torch.full((), 0.0 if trained else torch.nan, dtype=torch.float64, device=device)
    return torch.stack([sum_of_squares(gradient) for gradient in dense]).sum().sqrt()


class GradientSimilarity(LayerMoments):
    r"""The similarity mu of the nodes' gradients in every layer, absolute and relative to their norm.

    .. math:: \mu(G^l) = \Big\| G^l - \tfrac1N 1 1^T G^l \Big\|_F, \quad \frac{\mu(G^l)}{\|G^l\|_F}, \qquad
        G^l = \partial \mathrm{loss} / \partial X^l

    for :math:`X^l`, which enters layer l of any LightningModule (its first argument; in our stacks before dropout),
    with the gradient through everything that reads it. Park & Kim, *Taming Gradient Oversmoothing and Expansion in
    Graph Neural Networks*, 2024: it falls with depth where gradients smooth out, and grows where they expand. The share
    falls only where they smooth out, whatever their size.

    Where the loss does not depend on a state mu is zero and the share NaN; both are NaN where a layer has no state with
    a gradient.

    Loggers show the logarithms as ``gradient_similarity/mu_log10/layer_007`` and
    ``gradient_similarity/relative_log10/...``; ``measures/gradient_similarity.npz`` and ``..._relative.npz`` in the
    run's folder have all of them.
    """

    quantities = (
        Quantity("gradient_similarity", "gradient_similarity/mu_log10", "µ(G)"),
        Quantity("gradient_similarity_relative", "gradient_similarity/relative_log10", "µ(G) / ||G||"),
    )

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        moments = self._moments(trainer)
        return unless_unseen(moments, torch.stack([similarity(moments), relative_similarity(moments)]))


class GradientExpansion(LayerMoments):
    r"""The growth factor of the gradients' similarity mu through each layer, and from each layer to the last.

    .. math:: \frac{\mu(G^l)}{\mu(G^{l+1})}, \quad \frac{\mu(G^l)}{\mu(G^L)} = \prod_{k=l}^{L-1}
        \frac{\mu(G^k)}{\mu(G^{k+1})}, \qquad \mu(G) = \Big\| G - \tfrac1N 1 1^T G \Big\|_F

    for the gradients :math:`G^l` of :class:`GradientSimilarity`, in all layers but the last. Above one gradients expand
    on their way back, below they smooth out. Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural
    Networks*, 2024: a residual layer multiplies them by up to 1 + ||W||.

    NaN where one of two layers has no state with a gradient, or both are zero; L is the last layer that has one.

    Loggers show the logarithms as ``gradient_expansion/growth_log10/layer_007``, those of the product of all layers as
    ``gradient_expansion/growth_log10/product``, and from each layer to the last as
    ``gradient_expansion/total_log10/...``; ``measures/gradient_growth.npz`` and ``gradient_expansion.npz`` in the run's
    folder have all of them.
    """

    quantities = (
        Quantity("gradient_growth", "gradient_expansion/growth_log10", "µ(G^l) / µ(G^(l+1))", product=True),
        Quantity("gradient_expansion", "gradient_expansion/total_log10", "µ(G^l) / µ(G^L)"),
    )

    def _numbered(self, layers: Sequence[int]) -> Sequence[int]:
        if len(layers) < 2:
            raise MisconfigurationException(
                f"GradientExpansion compares each layer with the next, and only one is called {self.layers!r}: "
                "take a pattern that matches several, or GradientSimilarity."
            )
        return layers[:-1]

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        moments = self._moments(trainer)
        log10_mu = unless_unseen(moments, log10_similarity(moments))
        # The last layer that has rows, found without waiting for the device.
        places = torch.arange(1, len(log10_mu) + 1, device=log10_mu.device)
        last = log10_mu.index_select(0, ((moments.count > 0) * places).argmax(keepdim=True))
        total = log10_total_growth(torch.stack([log10_mu[:-1], last.expand(len(log10_mu) - 1)], -1))
        return 10 ** torch.stack([log10_growth(log10_mu), total])


class RepresentationSimilarity(LayerMoments):
    r"""The similarity mu of the nodes' hidden states in every layer, absolute and relative to their norm.

    .. math:: \mu(X^l) = \Big\| X^l - \tfrac1N 1 1^T X^l \Big\|_F, \quad \frac{\mu(X^l)}{\|X^l\|_F}

    for :math:`X^l`, the first argument of layer l of any LightningModule (in our stacks before dropout), in the forward
    passes of the training. Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024,
    show it beside that of the gradients. Both fall with depth where representations smooth out; only mu falls where
    they vanish.

    NaN where a layer is not called with a floating-point tensor; the share is NaN where all entries are zero.

    Loggers show the logarithms as ``representation_similarity/mu_log10/layer_007`` and
    ``representation_similarity/relative_log10/...``; ``measures/representation_similarity.npz`` and
    ``..._relative.npz`` in the run's folder have all of them.
    """

    quantities = (
        Quantity("representation_similarity", "representation_similarity/mu_log10", "µ(X)"),
        Quantity("representation_similarity_relative", "representation_similarity/relative_log10", "µ(X) / ||X||"),
    )

    def _hooks(self, modules: Sequence[nn.Module]) -> InputHooks:
        return InputStates(modules, row_moments)

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        moments = self._moments(trainer)
        return unless_unseen(moments, torch.stack([similarity(moments), relative_similarity(moments)]))
