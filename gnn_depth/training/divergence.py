"""Find the faulty part of a stack: one with NaN or infinity, or one that breaks its contract."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gnn_depth.data.base import NodeBatch
from gnn_depth.graph import Graph
from gnn_depth.nn.functional import SparseFeatures
from gnn_depth.nn.parts import Layer, Norm, Skip
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import described

LARGE = 1e6  # inputs that may overflow without a fault of the part
SIZES = (5, 7)  # nodes of the graphs on which parts are tried


class Diverged(RuntimeError):
    """The loss became NaN or infinite."""


class PartFault(ValueError):
    """A part cannot be used; the message names it and says what to change."""


def check_parts(stack: DeepGNN, in_channels: int | Sequence[int]) -> None:
    """Try all parts on two small graphs; refuse a part that fails or breaks its class's contract.

    An error that a part raises is raised as it is. The stack and torch's random state are as before
    afterwards.
    """
    for name, parameter in stack.named_parameters():
        if not parameter.isfinite().all():
            raise PartFault(f"the initialisation leaves NaN or infinity in {name}.")

    def look(part: nn.Module, inputs: Any, output: Any) -> None:
        fault = _fault(part, inputs, output)
        if fault:
            raise PartFault(f"{described(type(part))} {fault}")

    # Running statistics of norms are those of the training, not of these graphs.
    buffers = {name: buffer.clone() for name, buffer in stack.named_buffers()}
    with ExitStack() as after, torch.no_grad(), torch.random.fork_rng([]):
        # An initialisation that reads data is for that of the training.
        after.callback(setattr, stack, "uncalibrated", stack.uncalibrated)
        stack.uncalibrated = None
        for part in stack.modules():
            if isinstance(part, Layer | Norm | Skip):
                after.enter_context(part.register_forward_hook(look))
        torch.default_generator.manual_seed(0)  # those of a GPU are for the training
        # Two sizes: a part may return the right number of rows for one by chance.
        for num_nodes in SIZES:
            # The last node has no edges.
            edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 3]])
            features = None
            if stack.edge_channels:
                features = torch.ones(5, stack.edge_channels)
            if isinstance(in_channels, int):
                x = torch.randn(num_nodes, in_channels)
            else:
                x = torch.zeros(num_nodes, len(in_channels), dtype=torch.long)
            functional_call(stack, buffers, (x, Graph(edges, num_nodes, edge_attr=features)))


def _fault(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> str | None:
    """The fault in a part's output, and how to fix it; None if the output is correct."""
    given = inputs[0]
    shape = tuple(given.shape)
    if isinstance(part, Layer):
        shape = (inputs[1].num_nodes, part.width)
    elif isinstance(part, Skip):
        shape = (len(given), part.width)
        if part.carries:
            output, _ = output
    returned = getattr(output, "shape", None)
    if returned != shape:
        return (
            f"returns {type(output).__name__} of shape {returned} for an input of "
            f"{tuple(given.shape)}; it must be one tensor of shape {shape}."
        )
    if output.dtype != given.dtype:
        return f"returns {output.dtype} for {given.dtype}: end with .to(x.dtype)."
    # A large input may overflow in a part without a fault.
    if not output.isfinite().all() and given.abs().max() < LARGE:
        return (
            f"returns NaN or infinity for finite features of {len(given)} nodes, one without "
            "edges: check its options, and guard divisions and roots, as in "
            "x / norm.clamp_min(1e-12)."
        )
    return None


def first_non_finite(stack: DeepGNN, batch: NodeBatch) -> str:
    """Name the first parameter of a stack that is not finite, or the first module, in the order of
    computation, whose output is not: ``output of blocks.3.layer (GCN)``, that of the fourth layer.

    Takes one forward pass. Parameters come first: a NaN in one comes from the gradient of the
    previous step, and every other NaN follows from it.
    """
    for name, parameter in stack.named_parameters():
        if not _is_finite(parameter):
            return f"parameter {name!r}, after a non-finite gradient in the previous step"
    bad: list[str] = []
    names = {part: name for name, part in stack.named_modules()}

    def look(part: nn.Module, inputs: Any, output: Any) -> None:
        # All processes of a divided graph name the same module.
        fails = torch.tensor(not _is_finite(output), dtype=torch.int32, device=batch.x.device)
        if batch.graph.all_reduce(fails):
            bad.append(f"output of {names[part]} ({type(part).__name__})")

    with ExitStack() as hooks, torch.no_grad():
        for part in names:
            hooks.enter_context(part.register_forward_hook(look))
        stack(batch.x, batch.graph, batch.read)
    if not bad:
        return "loss alone: every layer's output is finite"
    return bad[0]


def _is_finite(output: Any) -> bool:
    """True if no tensor of a module's output has a NaN or infinity."""
    if isinstance(output, SparseFeatures):
        output = output.values
    if isinstance(output, tuple):  # of a skip connection that carries a second state
        return all(map(_is_finite, output))
    return not isinstance(output, Tensor) or bool(output.isfinite().all())
