"""The code that computes a training's layers: native kernels or PyTorch, compiled or not."""

import sys
from typing import Literal, TypeAlias

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities import rank_zero_only

from gnn_depth.nn import native
from gnn_depth.nn.stack import DeepGNN

# YAML reads an unquoted on or off as a boolean.
Compile: TypeAlias = Literal["on", "off"] | bool

UNKNOWN = "unknown"  # in place of the key of a training's kernels, before it begins


def is_on(choice: Compile) -> bool:
    return choice in ("on", True)


def check_compile(choice: Compile, stack: DeepGNN) -> None:
    """Refuse to compile layers whose graph is another one in every step."""
    dropout = stack.graph_dropout
    if is_on(choice) and dropout.p:
        raise ValueError(
            f"compile on: {type(dropout).__name__} changes the graph in every step, so layers "
            "would be compiled again. Choose compile off, or graph_dropout none."
        )


def compile_layers(choice: Compile, stack: DeepGNN, trainer: L.Trainer) -> None:
    """Compile the layers of a training that begins, if the user asks for it."""
    if not is_on(choice):
        return
    if not getattr(trainer.train_dataloader, "shared", True):
        raise MisconfigurationException(
            "compile on: a graph that is divided among processes cannot be compiled for. "
            "Choose compile off."
        )
    stack.compile_layers()


def fix_kernels(before: str | None, device: torch.device) -> str | None:
    """Choose the kernels of a training that begins or goes on: those of a resumed training's
    checkpoint, if they are available.

    Args:
        before: The key of the checkpoint's kernels (see
            :func:`gnn_depth.nn.native.available_for`), None for PyTorch alone; ``UNKNOWN`` if the
            training begins.
        device: Where it trains.

    Returns:
        The key.
    """
    if before is None:
        # It began on PyTorch alone, from which the kernels differ in the last bits.
        native.use(False)
    key = native.available_for(device)
    if before not in (UNKNOWN, key):
        now = f"{key}: another compiler, processor or version of this package"
        if key is None:
            now = f"PyTorch alone ({native.why_not(device) or 'they are switched off'})"
        rank_zero_only(print)(
            f"this run began on native kernels {before}, and continues on {now}; numbers may "
            "differ in their last bits",
            file=sys.stderr,
        )
    return key
