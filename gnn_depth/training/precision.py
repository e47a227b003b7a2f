"""Precisions of a trainer that deep stacks can do with."""

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import nn

#: Bytes of a number where the strategy converts the whole model when it starts.
CONVERTED = {"64-true": 8, "bf16-true": 2}


def check_precision(trainer: L.Trainer) -> None:
    """Refuse parameters of 16 bits with 5 for the exponent.

    Raises:
        MisconfigurationException: The trainer has such.
    """
    if trainer.precision == "16-true":
        raise MisconfigurationException(
            "precision 16-true has no room for deep stacks: take 16-mixed, bf16-mixed or bf16-true."
        )


def number_size(trainer: L.Trainer, module: nn.Module) -> int:
    """Bytes of a number of the states that a training of a module will keep."""
    return CONVERTED.get(str(trainer.precision)) or next(module.parameters()).element_size()
