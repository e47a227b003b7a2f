"""Activation checkpointing: of some rounds in a row only what enters them is kept."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Literal, TypeAlias, TypeVar

import torch
from torch.utils.checkpoint import checkpoint

from gnn_depth.nn.memory.snapshot import Replay
from gnn_depth.nn.rounds import Round

CheckpointEvery: TypeAlias = int | Literal["sqrt", "none"]
T = TypeVar("T")


def segment_length(every: CheckpointEvery, num_layers: int) -> int:
    r"""How many rounds make one segment; 0 where all activations are kept.

    With segments of k rounds a pass keeps what enters :math:`L/k` segments and, in the backward pass, the activations
    of k rounds: least for k of the order of :math:`\sqrt L`. Chen et al., *Training Deep Nets with Sublinear Memory
    Cost*, 2016.

    Raises:
        ValueError: It is neither a positive number nor ``sqrt`` or ``none``.
    """
    if every == "none":
        return 0
    if every == "sqrt":
        return math.ceil(math.sqrt(num_layers))
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"checkpoint_every must be a number of layers, at least 1, sqrt or none, not {every!r}.")
    return every


def in_segments(run: Callable[[range, T], T], rounds: Sequence[Round], first: T, length: int) -> T:
    """Run all rounds; where gradients are wanted, by segments that the backward pass computes again.

    Args:
        run: Runs the rounds of some positions on what comes from the round before them.
        rounds: The rounds.
        first: What enters the first.
        length: Rounds of a segment; 0 keeps all activations.
    """
    count, passed = len(rounds), first
    if length == 0 or not torch.is_grad_enabled():
        return run(range(count), first)
    for start in range(0, count, length):
        positions = range(start, min(start + length, count))
        passed = _segment(run, [rounds[position] for position in positions], positions, passed)
    return passed


def _segment(run: Callable[[range, T], T], rounds: Sequence[Round], positions: range, entering: T) -> T:
    """Run some rounds and keep nothing of them but what enters, and what later rounds read."""
    replay = Replay([module for each in rounds for module in each.modules()], rounds[0].graph.device)
    found: T = checkpoint(
        run,
        positions,
        entering,
        use_reentrant=False,
        preserve_rng_state=False,  # Replay does, and takes care of buffers
        context_fn=lambda: (nullcontext(), replay()),
    )
    return found
