"""The spreads of what enters every layer, from all batches of a step and all processes."""

from collections.abc import Sequence

import lightning as L
import torch
from jaxtyping import Float
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor

from gnn_depth.diagnostics.narrow import Moments
from gnn_depth.diagnostics.spread import Counted, Spread, counted
from gnn_depth.diagnostics.watch import InputGradients, Inputs


def spread_of(x: Tensor) -> Spread:
    """The spread of the rows of a tensor."""
    return Spread.of(_rows(x))


def counted_rows(x: Tensor) -> Counted:
    """What is enough to know the spread of the rows of a tensor, which :class:`Spreads` makes later."""
    return counted(_rows(x))


class Spreads:
    """The spread of each layer over a step: its batches are parts of one, and so are those of all processes.

    What is exchanged is one tensor a step, and in the first one the width of the widest layer, as a process may have
    nothing of it. Where all processes have the same batch (a loader whose attribute ``shared`` is true) its nodes count
    once, and mu and norms are the root mean squares over the processes, which may differ by their dropout.
    """

    def __init__(self) -> None:
        self._width = 0

    def of_states(self, trainer: L.Trainer, states: Inputs) -> Spread:
        """Spreads of what :func:`counted_rows` took, stacked by layer; a layer that was not seen has no rows."""
        return self._joined(trainer, states.taken)

    def of_gradients(self, trainer: L.Trainer, gradients: InputGradients) -> Spread:
        """Spreads of the gradients of the mean loss of all processes; zero where no loss depends on a state."""
        device = trainer.strategy.root_device
        parts = [
            [*taken, *[counted_rows(torch.zeros(shape, device=device)) for shape in without]] if without else taken
            for taken, without in zip(gradients.taken, gradients.without, strict=True)
        ]
        spread = self._joined(trainer, parts)
        factor = loss_scale(trainer, spread.scale[0]).reciprocal()
        return spread.times(factor if is_shared(trainer) else factor / trainer.world_size)

    def _joined(self, trainer: L.Trainer, taken: Sequence[Sequence[Counted]]) -> Spread:
        """One spread a layer, of all its parts here and in other processes."""
        layers = [[part for found in layer for part in _parts(found)] for layer in taken]
        alone = trainer.world_size == 1 and all(len(parts) == 1 for parts in layers)
        moments = [part for parts in layers for part in parts if isinstance(part, Moments)]
        if alone and len(moments) == len(layers):
            return Spread.of_lengths(moments)
        here = _stacked(layers, moments, trainer.strategy.root_device)
        if trainer.world_size == 1:
            return here
        width = self._agreed(trainer, here.mean.shape[-1])
        gathered = trainer.strategy.all_gather(here.widened(width).pack())
        everywhere = Spread.unpack(gathered, len(taken))
        return everywhere.abreast() if is_shared(trainer) else everywhere.merged()

    def _agreed(self, trainer: L.Trainer, width: int) -> int:
        """The width of the widest layer in any process."""
        if not self._width:
            widest = torch.tensor(width, device=trainer.strategy.root_device)
            self._width = int(trainer.strategy.reduce(widest, reduce_op="max"))
        if width > self._width:
            raise MisconfigurationException(
                f"a layer's input is {width} wide, and in the first step that was measured none was wider than "
                f"{self._width}: processes could not be compared."
            )
        return self._width


def is_shared(trainer: L.Trainer) -> bool:
    """Whether all processes train on the same batches, not on parts of them."""
    return bool(getattr(trainer.train_dataloader, "shared", False))


def loss_scale(trainer: L.Trainer, like: Tensor) -> Tensor:
    """What mixed precision multiplies the loss by, on the device: to ask for it as a number waits for the device."""
    scaler = getattr(trainer.precision_plugin, "scaler", None)
    one = torch.ones_like(like)
    return one if scaler is None else scaler.scale(one)


def _stacked(layers: Sequence[Sequence[Spread | Moments]], moments: Sequence[Moments], device: torch.device) -> Spread:
    """The spread of each layer, of all its parts, stacked; those of moments are made for all layers at once."""
    made = iter(Spread.of_moments(moments).unbind() if moments else ())
    spreads = [[part if isinstance(part, Spread) else next(made) for part in parts] for parts in layers]
    return Spread.stack([_merged(parts, device) for parts in spreads])


def _parts(found: Counted) -> Sequence[Spread | Moments]:
    return (found,) if isinstance(found, Spread) else found


def _merged(parts: Sequence[Spread], device: torch.device) -> Spread:
    if not parts:
        return Spread.empty(0, device)
    return parts[0] if len(parts) == 1 else Spread.stack(parts).merged()


def _rows(x: Tensor) -> Float[Tensor, "rows channels"]:
    """All dimensions but the last count the rows; a vector has one column."""
    x = x if x.layout is torch.strided else x.to_dense()
    if x.ndim == 2:
        return x
    return x.flatten(0, -2) if x.ndim > 2 else x.reshape(-1, 1)


def unless_unseen(spread: Spread, values: Float[Tensor, "*quantities layers"]) -> Float[Tensor, "*quantities layers"]:
    """Values of each layer, and NaN where it has no rows."""
    return torch.where(spread.count > 0, values, torch.nan)


def last_seen(count: Float[Tensor, "layers"], values: Float[Tensor, "layers"]) -> Float[Tensor, "1"]:
    """The value of the last layer that has rows, without asking the device which one that is."""
    place = ((count > 0) * torch.arange(1, len(count) + 1, device=count.device)).argmax(keepdim=True)
    return values.index_select(0, place)
