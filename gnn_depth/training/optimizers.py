"""Try an optimizer before training, fuse it, and give the layers a weight decay of their own."""

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable, ReduceLROnPlateau
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from gnn_depth.builder import LENGTHS

log = logging.getLogger(__name__)

FUSED = (Adagrad, Adam, AdamW, SGD)  # optimizers that torch has in a fused form
FUSED_KINDS = set(
    itertools.product((torch.float32, torch.float64), ("cpu", "cuda"), (torch.strided,))
)
REHEARSED = 10_000  # rehearse tries at most so many epochs; they take less than a second


def rehearse(
    optimizer: OptimizerCallable,
    scheduler: LRSchedulerCallable | None,
    epochs: int | None,
) -> None:
    """Try an optimizer and a learning rate schedule on a dummy weight, before the training.

    Some options fail only in a step of the optimizer, and a schedule that is too short fails only
    in its last epochs; a warning names one of another length. Optimizers from outside torch are not
    tried.

    Args:
        optimizer: Makes the optimizer.
        scheduler: Makes the schedule, which steps once an epoch; None for a constant rate.
        epochs: Number of epochs; None if the training has no end.

    Raises:
        MisconfigurationException: One of them fails.
    """
    # A matrix: some optimizers, such as Adafactor, treat vectors otherwise.
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.zeros(2, 2)
    what = "model.optimizer"  # what is tried, for the error message
    try:
        made = optimizer([weight])
        if not type(made).__module__.startswith("torch."):
            return
        what = "model.scheduler"
        schedule: Any = scheduler and scheduler(made)
        what = f"model.optimizer {type(made).__name__}"
        made.step(lambda: 0.0)  # LBFGS needs a function that computes the loss
        if scheduler is None:
            return
        length = LENGTHS.get(type(schedule).__name__, "")
        if epochs is not None and getattr(schedule, length, epochs) != epochs:
            rank_zero_only(log.warning)(
                f"{type(schedule).__name__} has {length} {getattr(schedule, length)}, and the "
                f"training {epochs} epochs: without {length} it is as long as trainer.max_epochs."
            )
        arguments = []
        if isinstance(schedule, ReduceLROnPlateau):
            arguments = [0.0]  # the value of the metric that it watches
        for epoch in range(1, min(epochs or 1, REHEARSED) + 1):
            what = f"model.scheduler {type(schedule).__name__}, in epoch {epoch} of {epochs},"
            schedule.step(*arguments)
    except Exception as error:
        raise MisconfigurationException(
            f"{what} fails with these options ({type(error).__name__}: {error})."
        ) from error


def decay_apart(optimizer: Optimizer, layers: set[nn.Parameter], weight_decay: float) -> None:
    """Give the layers' parameters a weight decay of their own, in groups of their own."""
    if "weight_decay" not in optimizer.defaults:
        raise MisconfigurationException(
            f"layer_weight_decay {weight_decay}: optimizer {type(optimizer).__name__} has no "
            "weight decay. Choose one "
            "that has, such as Adam, AdamW or SGD, or leave layer_weight_decay out."
        )
    groups = []
    for group in optimizer.param_groups:
        of_layers = [parameter for parameter in group["params"] if parameter in layers]
        others = [parameter for parameter in group["params"] if parameter not in layers]
        groups.append(group | {"params": of_layers, "weight_decay": weight_decay})
        groups.append(group | {"params": others})
    optimizer.param_groups = [group for group in groups if group["params"]]


def check_depth_rates(schedule: Any, optimizer: Optimizer, rates: Sequence[float]) -> None:
    """Refuse a schedule that undoes the option ``depth_lr``, in part or as a whole.

    Args:
        schedule: The learning rate schedule.
        optimizer: The optimizer that it was made for.
        rates: The learning rates of the groups before.

    Raises:
        MisconfigurationException: It sets rates of its own, or does not go as low.
    """
    kind = type(schedule).__name__
    # A schedule that multiplies the rates keeps those that it found as the initial ones; one that
    # waits for a plateau keeps none, and changes nothing yet.
    initial = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
    floor = max([getattr(schedule, "eta_min", 0.0), *getattr(schedule, "min_lrs", [])])
    if initial != rates or floor > min(rates):
        raise MisconfigurationException(
            f"depth_lr makes the learning rate {min(rates):.3g}, but {kind} sets its own, or does "
            f"not go below {floor:.3g}: give its eta_min or min_lr a smaller number, or choose "
            "another schedule."
        )


def fuse(optimizer: Optimizer) -> None:
    """Let an optimizer run a step in one kernel.

    That is several times faster for deep stacks, and its numbers are equal up to rounding. Nothing
    changes if torch has no fused form of it, or if the user chose ``fused`` or ``foreach``.
    """
    if type(optimizer) in FUSED and all(map(_can_be_fused, optimizer.param_groups)):
        for group in optimizer.param_groups:
            group["fused"] = True
        for parameter, state in optimizer.state.items():  # Adagrad has a state from the start
            state["step"] = state["step"].to(parameter.device)


def _can_be_fused(group: dict[str, Any]) -> bool:
    """True if the fused form takes the options and the parameters of a group."""
    if group.get("fused") is not None or group.get("foreach") is not None:
        return False  # the user chose
    if group.get("differentiable") or group.get("capturable") or isinstance(group["lr"], Tensor):
        return False
    kinds = {(each.dtype, each.device.type, each.layout) for each in group["params"]}
    return kinds <= FUSED_KINDS
