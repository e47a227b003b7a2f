"""Find the part of a stack where training diverged."""

from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth.data.base import NodeBatch
from gnn_depth.nn.functional import SparseFeatures
from gnn_depth.nn.stack import DeepGNN


class Diverged(RuntimeError):
    """The loss became NaN or infinite."""


def first_non_finite(stack: DeepGNN, batch: NodeBatch) -> str:
    """Name the first part of a stack, in the order of computation, whose parameters or outputs are not finite.

    Takes one forward pass. Parameters come before outputs: a NaN parameter was made by the gradient of the previous
    step, and everything after it is a consequence.
    """
    bad: list[str] = []

    def look(name: str, part: nn.Module, output: Any) -> None:
        broken = [key for key, value in part.named_parameters() if not _finite(value)]
        if broken:
            bad.append(f"parameter {broken[0]!r} of {name}, after a non-finite gradient in the previous step")
        elif not _finite(output):
            bad.append(f"output of {name}")

    names: dict[nn.Module, list[str]] = {}  # a shared layer has several, one for each call
    for name, part in _named_parts(stack):
        names.setdefault(part, []).append(name)
    handles = [
        part.register_forward_hook(lambda part, _, output: look(names[part].pop(0), part, output)) for part in names
    ]
    try:
        with torch.no_grad():
            stack(batch.x, batch.graph, len(batch.y))
    finally:
        for handle in handles:
            handle.remove()
    return bad[0] if bad else "loss alone: every layer's output is finite"


def _named_parts(stack: DeepGNN) -> list[tuple[str, nn.Module]]:
    parts: list[tuple[str, nn.Module]] = [("the encoder", stack.encoder)]
    for number, layer in enumerate(stack.layers, 1):
        parts.append((f"layer {number} ({type(layer).__name__})", layer))
        if number <= len(stack.norms):
            norms, skip = stack.norms[number - 1].children(), stack.skips[number - 1]
            parts += [(f"norm {number} ({type(norm).__name__})", norm) for norm in norms]
            parts.append((f"skip {number} ({type(skip).__name__})", skip))
    return [*parts, ("the decoder", stack.decoder)]


def _finite(numbers: Tensor | SparseFeatures | tuple[Tensor | None, ...]) -> bool:
    if isinstance(numbers, tuple):  # of a skip connection that carries a second state
        return all(number is None or _finite(number) for number in numbers)
    return bool((numbers if isinstance(numbers, Tensor) else numbers.values).isfinite().all())
