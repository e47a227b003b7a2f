"""Find the faulty part of a stack: one with NaN or infinity, or one that breaks its contract."""

from collections.abc import Iterator, Sequence
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
SIZES = (5, 7)  # nodes of the graphs on which parts are tried


class Diverged(RuntimeError):
    """The loss became NaN or infinite."""


class PartFault(ValueError):
    """A part cannot be used; the message names it and says what to change."""


def check_parts(stack: DeepGNN, in_channels: int | Sequence[int]) -> None:
    """Try all parts on two small graphs; refuse a part that fails or breaks its class's contract.

    An error of a plugin's part is raised as it is. The stack and torch's random state are as before
    afterwards.
    """
    for name, parameter in stack.named_parameters():
        if not parameter.isfinite().all():
            raise PartFault(f"the initialisation leaves NaN or infinity in {name}.")
    running: list[nn.Module] = []

    def enter(part: nn.Module, inputs: Any) -> None:
        running.append(part)

    def leave(part: nn.Module, inputs: Any, output: Any) -> None:
        fault = _fault(part, inputs, output)
        if fault:
            raise PartFault(f"{described(type(part))} {fault}")
        running.pop()

    handles = []
    for part in stack.modules():
        if isinstance(part, Layer | Norm | Skip):
            handles.append(part.register_forward_pre_hook(enter))
            handles.append(part.register_forward_hook(leave))
    # Running statistics of norms are those of the training, not of these graphs.
    buffers = {name: buffer.clone() for name, buffer in stack.named_buffers()}
    # An initialisation that reads data is for that of the training.
    waiting, stack.uncalibrated = stack.uncalibrated, None
    try:
        with torch.no_grad(), torch.random.fork_rng([]):
            torch.default_generator.manual_seed(0)  # those of a GPU are for the training
            # Two sizes: a part may return the right number of rows for one by chance.
            for num_nodes in SIZES:
                _try(stack, in_channels, num_nodes)
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
        stack.uncalibrated = waiting
        for handle in handles:
            handle.remove()
        for name, buffer in stack.named_buffers():
            if name in buffers:
                buffer.copy_(buffers[name])


def _try(stack: DeepGNN, in_channels: int | Sequence[int], num_nodes: int) -> None:
    """Take a forward pass on a small graph, whose last node has no edges."""
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 3]])
    features = None
    if stack.edge_channels:
        features = torch.ones(5, stack.edge_channels)
    graph = Graph(edges, num_nodes, edge_attr=features)
    thinned = stack.graph_dropout(graph)
    if not isinstance(thinned, Graph):
        part = described(type(stack.graph_dropout))
        raise PartFault(f"{part} returns {type(thinned).__name__}: it must return a Graph.")
    if isinstance(in_channels, int):
        x = torch.randn(num_nodes, in_channels)
    else:
        x = torch.zeros(num_nodes, len(in_channels), dtype=torch.long)
    stack(x, graph)


def _fault(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> str | None:
    """The fault in a part's output, and how to fix it; None if the output is correct."""
    given = inputs[0]
    shape = tuple(given.shape)
    if isinstance(part, Layer):
        shape = (inputs[1].num_nodes, part.width)
    elif isinstance(part, Skip):
        shape = (len(given), part.width)
        if part.carries:
            if not isinstance(output, tuple) or len(output) != 2:
                return "carries a second state: its forward must return the joined and the second."
            output = output[0]
    if not isinstance(output, Tensor):
        return f"returns {type(output).__name__}: it must return one tensor, of shape {shape}."
    if tuple(output.shape) != shape:
        return (
            f"returns a tensor of shape {tuple(output.shape)} for an input of "
            f"{tuple(given.shape)}; it must be {shape}."
        )
    # One float64 constant would make all that follows float64, and slower.
    if output.dtype != given.dtype:
        return (
            f"returns {output.dtype} for an input of {given.dtype}: make constants like the input, "
            "x.new_tensor(2.0), or use plain Python numbers."
        )
    # A large input may overflow in a part without a fault.
    if not output.isfinite().all() and _numbers_of(given).abs().max() < LARGE:
        return (
            f"returns NaN or infinity for finite features of {len(given)} nodes, one without "
            "edges: check its options, and guard divisions and roots, as in "
            "x / norm.clamp_min(1e-12)."
        )
    return None


def first_non_finite(stack: DeepGNN, batch: NodeBatch) -> str:
    """Name the first part of a stack, in the order of computation, whose parameters or outputs are
    not finite.

    Takes one forward pass. Parameters are checked before outputs: a NaN parameter comes from the
    gradient of the previous step, and every later NaN follows from it.
    """
    bad: list[str] = []
    names: dict[nn.Module, list[str]] = {}  # a shared layer has several, one for each call
    for name, part in _named_parts(stack):
        names.setdefault(part, []).append(name)

    def look(part: nn.Module, inputs: Any, output: Any) -> None:
        name = names[part].pop(0)
        broken = [key for key, value in part.named_parameters() if not _finite(value)]
        if broken:
            bad.append(
                f"parameter {broken[0]!r} of {name}, after a non-finite gradient in the previous "
                "step"
            )
            return
        # All processes of a divided graph name the same part.
        fails = torch.tensor(not _finite(output), dtype=torch.int32, device=batch.x.device)
        if batch.graph.all_reduce(fails):
            bad.append(f"output of {name}")

    handles = [part.register_forward_hook(look) for part in names]
    try:
        with torch.no_grad():
            stack(batch.x, batch.graph, batch.read)
    finally:
        for handle in handles:
            handle.remove()
    if not bad:
        return "loss alone: every layer's output is finite"
    return bad[0]


def _named_parts(stack: DeepGNN) -> Iterator[tuple[str, nn.Module]]:
    """The parts of a stack with their names, in the order of computation."""
    yield "the encoder", stack.encoder
    for number, layer in enumerate(stack.layers, 1):
        parts: list[tuple[str, nn.Module]] = [("layer", layer)]
        if number <= len(stack.norms):
            parts += [("norm", norm) for norm in stack.norms[number - 1].children()]
            parts.append(("skip", stack.skips[number - 1]))
        for kind, part in parts:
            words = [type(part).__name__, written_at(type(part))]
            yield f"{kind} {number} ({', '.join(filter(None, words))})", part
    yield "the decoder", stack.decoder


def _finite(output: Tensor | SparseFeatures | tuple[Tensor | None, ...]) -> bool:
    if isinstance(output, tuple):  # of a skip connection that carries a second state
        return all(each is None or _finite(each) for each in output)
    return bool(_numbers_of(output).isfinite().all())


def _numbers_of(x: Tensor | SparseFeatures) -> Tensor:
    if isinstance(x, SparseFeatures):
        return x.values
    return x
