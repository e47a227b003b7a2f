"""Find the faulty part of a stack: the first one with NaN or infinity, or one that breaks its base
class's contract."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth.data.base import NodeBatch
from gnn_depth.graph import Graph
from gnn_depth.nn.functional import SparseFeatures
from gnn_depth.nn.parts import Layer, Norm, Skip
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import described, written_at

LARGE = 1e6  # inputs that may overflow without a fault of the part


class Diverged(RuntimeError):
    """The loss became NaN or infinite."""


class PartFault(ValueError):
    """A part cannot be used; the message names it and says what to change."""


def check_parts(stack: DeepGNN, in_channels: int | Sequence[int]) -> None:
    """Try all parts once on five nodes; refuse a part that raises an error or breaks its base
    class's contract.

    An error of a plugin's part is raised as it is. The stack and torch's random state are as before
    afterwards.
    """
    for name, parameter in stack.named_parameters():
        if not parameter.isfinite().all():
            raise PartFault(f"the initialisation leaves NaN or infinity in {name}.")
    features = torch.ones(5, stack.edge_channels) if stack.edge_channels else None
    graph = Graph(
        torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 3]]), 5, edge_attr=features
    )  # node 4 is isolated
    running: list[nn.Module] = []

    def leave(part: nn.Module, inputs: Any, output: Any) -> None:
        if fault := _fault(part, inputs, output):
            raise PartFault(f"{described(type(part))} {fault}")
        running.pop()

    handles = []
    for part in stack.modules():
        if isinstance(part, Layer | Norm | Skip):
            handles.append(part.register_forward_pre_hook(lambda part, _: running.append(part)))
            handles.append(part.register_forward_hook(leave))
    buffers = {name: buffer.clone() for name, buffer in stack.named_buffers()}
    try:
        with torch.no_grad(), torch.random.fork_rng([]):
            torch.manual_seed(0)
            if not isinstance(thinned := stack.graph_dropout(graph), Graph):
                raise PartFault(
                    f"{described(type(stack.graph_dropout))} returns {_type(thinned)}: it must "
                    "return a Graph."
                )
            if isinstance(in_channels, int):
                stack(torch.randn(5, in_channels), graph)
            else:
                stack(torch.zeros(5, len(in_channels), dtype=torch.long), graph)
    except PartFault:
        raise
    except Exception as error:
        if not running or written_at(type(running[-1])) is not None:
            raise  # where it was raised in the user's code says more
        reason = str(error).strip().partition("\n")[0]
        raise PartFault(
            f"{described(type(running[-1]))} cannot compute with these options: {reason}"
        ) from error
    finally:
        for handle in handles:
            handle.remove()
        for name, buffer in stack.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])


def _fault(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> str | None:
    """The fault in a part's output, and how to fix it; None if the output is correct."""
    given = inputs[0]
    if isinstance(part, Skip) and part.carries:
        if not isinstance(output, tuple) or len(output) != 2:
            return f"returns {_type(output)}, and with carries it must return two: the joined and the second state."
        output = output[0]
    shape = tuple(given.shape)
    if isinstance(part, Layer):
        shape = (inputs[1].num_nodes, part.width)
    elif isinstance(part, Skip):
        shape = (len(given), part.width)
    if not isinstance(output, Tensor):
        return (
            f"returns {_type(output)}: its forward must return one tensor, here of shape {shape}."
        )
    if tuple(output.shape) != shape:
        return f"returns a tensor of shape {tuple(output.shape)} for an input of {tuple(given.shape)}; it must be {shape}."
    if output.dtype != given.dtype:
        return (
            f"returns {output.dtype} for an input of {given.dtype}: make constants like the input, "
            "x.new_tensor(2.0), "
            "or use plain Python numbers."
        )
    numbers = given if isinstance(given, Tensor) else given.values
    if not output.isfinite().all() and numbers.abs().max() < LARGE:
        count = int((~output.isfinite()).sum())
        return (
            f"returns NaN or infinity in {count} of {output.numel()} numbers, for finite features "
            "of five nodes, one "
            "without edges: check its options, and guard divisions and roots, as in x / "
            "norm.clamp_min(1e-12)."
        )
    return None


def first_non_finite(stack: DeepGNN, batch: NodeBatch) -> str:
    """Name the first part of a stack, in the order of computation, whose parameters or outputs are
    not finite.

    Takes one forward pass. Parameters are checked before outputs: a NaN parameter comes from the
    gradient of the previous step, and every later NaN follows from it.
    """
    bad: list[str] = []

    def look(name: str, part: nn.Module, output: Any) -> None:
        broken = [key for key, value in part.named_parameters() if not _finite(value)]
        if broken:
            bad.append(
                f"parameter {broken[0]!r} of {name}, after a non-finite gradient in the previous "
                "step"
            )
        elif batch.graph.all_reduce(
            torch.tensor(not _finite(output), dtype=torch.int32, device=batch.x.device)
        ):
            bad.append(f"output of {name}")

    names: dict[nn.Module, list[str]] = {}  # a shared layer has several, one for each call
    for name, part in _named_parts(stack):
        names.setdefault(part, []).append(name)
    handles = [
        part.register_forward_hook(lambda part, _, output: look(names[part].pop(0), part, output))
        for part in names
    ]
    try:
        with torch.no_grad():
            stack(batch.x, batch.graph, batch.read)
    finally:
        for handle in handles:
            handle.remove()
    return bad[0] if bad else "loss alone: every layer's output is finite"


def _named_parts(stack: DeepGNN) -> list[tuple[str, nn.Module]]:
    parts: list[tuple[str, nn.Module]] = [("the encoder", stack.encoder)]
    for number, layer in enumerate(stack.layers, 1):
        parts.append((f"layer {number} ({_class(layer)})", layer))
        if number <= len(stack.norms):
            norms, skip = stack.norms[number - 1].children(), stack.skips[number - 1]
            parts += [(f"norm {number} ({_class(norm)})", norm) for norm in norms]
            parts.append((f"skip {number} ({_class(skip)})", skip))
    return [*parts, ("the decoder", stack.decoder)]


def _type(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _class(part: nn.Module) -> str:
    place = written_at(type(part))
    return f"{type(part).__name__}, {place}" if place else type(part).__name__


def _finite(numbers: Tensor | SparseFeatures | tuple[Tensor | None, ...]) -> bool:
    if isinstance(numbers, tuple):  # of a skip connection that carries a second state
        return all(number is None or _finite(number) for number in numbers)
    return bool((numbers if isinstance(numbers, Tensor) else numbers.values).isfinite().all())
