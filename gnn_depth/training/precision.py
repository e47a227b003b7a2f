"""Precisions of a trainer that deep stacks can do with."""

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException


def check_precision(trainer: L.Trainer) -> None:
    """Refuse parameters of 16 bits with 5 for the exponent.

    Raises:
        MisconfigurationException: The trainer has such.
    """
    if trainer.precision == "16-true":
        raise MisconfigurationException(
            "precision 16-true has no room for deep stacks: take 16-mixed, bf16-mixed or bf16-true."
        )
