"""Launch the kernels for NVIDIA GPUs. Each function takes the arguments of the kernel of the same
name in ``kernels.py``, which checks the shapes.

A forward function returns the output and what the backward function of this module needs.
"""

# N nodes (targets), S sources, E edges, H heads, C channels

from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.native import gpu_programs as programs
from gnn_depth.nn.native.masks import Mask

#: Limits of the edges that a program reads at once, by the mean degree, and of their numbers
#: (edges x channels). A node with more edges takes several rounds.
FEWEST_EDGES, MOST_EDGES = 32, 64
FEWEST_NUMBERS, MOST_NUMBERS = 128, 4096
#: Numbers that a program of dropout treats.
BLOCK = 1024
#: The threshold of dropout that keeps every entry.
LOWEST = -0x40000000


def key() -> str:
    """A key of the version of Triton, the model of GPU and a hash of the sources."""
    sources = (Path(__file__), Path(programs.__file__))
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return f"gpu-triton-{triton.__version__}-{torch.cuda.get_device_name()}-{digest[:12]}"


def try_out() -> None:
    """Run one kernel on the current GPU: Triton needs a C compiler when it first runs one."""
    seed = torch.zeros(2, dtype=torch.int32, device="cuda")
    drop(seed.float(), Mask(seed, 0.5))


def _launch(kernel: Any, count: int, *arguments: Any, **options: Any) -> None:
    """Start ``count`` programs (0 is allowed) on the device of the first tensor."""
    # Triton assumes contiguous tensors, and uses the current GPU.
    held = [each.contiguous() if isinstance(each, Tensor) else each for each in arguments]
    with torch.cuda.device_of(held[0]):  # type: ignore[no-untyped-call]
        kernel[(count,)](*held, **options, num_warps=4)


def _by_rows(
    kernel: Any, graph: Graph, like: Tensor, *given: Any, transposed: bool = False, **options: Any
) -> None:
    """Start a program for each head of each node, or of each source if transposed.

    Args:
        kernel: The program.
        graph: The graph.
        like: Any tensor of shape (..., heads, channels), for its sizes.
        *given: Arguments of the program between the edges and the sizes.
        transposed: Pass the edges out of each source instead of those into each node.
        **options: Constants of the program.
    """
    ptr, neighbour, edge = graph.rows.csr(transposed)
    if edge is None:
        edge = graph.edge_ids
    heads, channels = like.shape[-2:]
    width = triton.next_power_of_2(channels)
    mean = triton.next_power_of_2(1 + graph.num_edges // (1 + graph.num_nodes))
    at_once = max(min(mean, MOST_EDGES), FEWEST_EDGES, FEWEST_NUMBERS // width)
    at_once = max(1, min(at_once, MOST_NUMBERS // width))
    given = ptr, neighbour, edge, *given, heads, channels
    _launch(kernel, (len(ptr) - 1) * heads, *given, **options, EDGES=at_once, CHANNELS=width)


def sum_rows(weights_EH: Tensor, x_SHC: Tensor, graph: Graph, transposed: bool) -> Tensor:
    y = x_SHC.new_empty(len(graph.rows.csr(transposed)[0]) - 1, *x_SHC.shape[1:])
    _by_rows(programs.sum_rows, graph, y, weights_EH, x_SHC, y, transposed=transposed)
    return y


def additive_scores(
    x_NHC: Tensor, z_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
) -> Tensor:
    scores = z_SHC.new_empty(graph.num_edges, z_SHC.shape[1])
    _by_rows(programs.additive_scores, graph, z_SHC, x_NHC, z_SHC, att_HC, scores, SLOPE=slope)
    return scores


def additive_slopes(
    grad_EH: Tensor,
    own_NHC: Tensor,
    other_SHC: Tensor,
    graph: Graph,
    transposed: bool,
    slope: float,
) -> Tensor:
    sums = own_NHC.new_empty(own_NHC.shape)
    given = grad_EH, own_NHC, other_SHC, sums
    _by_rows(programs.additive_slopes, graph, sums, *given, transposed=transposed, SLOPE=slope)
    return sums


def _mask(dropout: Mask, graph: Graph) -> tuple[Tensor, int]:
    """The seed and threshold of a dropout; without one, placeholders that keep every entry."""
    if dropout.seed is None:
        return graph.rows.ptr, LOWEST
    return dropout.seed, dropout.threshold


def attend(scores_EH: Tensor, x_SHC: Tensor, graph: Graph, dropout: Mask) -> tuple[Tensor, Tensor]:
    alpha = scores_EH.new_empty(scores_EH.shape)
    y = x_SHC.new_empty(graph.num_nodes, *x_SHC.shape[1:])
    given = x_SHC, *_mask(dropout, graph), scores_EH, alpha, y
    _by_rows(programs.attend, graph, y, *given, SCALE=dropout.scale)
    return y, alpha


def attend_backward(grad_NHC: Tensor, *given: Any) -> tuple[Tensor, ...]:
    # Given scores have no LeakyReLU and no term of the source: a placeholder takes its place.
    return _attend_backward(*(grad_NHC, *given, given[1], 1.0))[:2]


def _attend_backward(
    grad_NHC: Tensor,
    scores_EH: Tensor,
    x_SHC: Tensor,
    graph: Graph,
    dropout: Mask,
    alpha: Tensor,
    other: Tensor,
    slope: float,
) -> tuple[Tensor, ...]:
    """The gradients of scores before their LeakyReLU and of x, and the two sums of the program."""
    weights, of_scores = alpha.new_empty(2, *alpha.shape)
    sums = alpha.new_empty(2, graph.num_nodes, alpha.shape[1])
    given = x_SHC, *_mask(dropout, graph), scores_EH, other, alpha, grad_NHC
    found = weights, of_scores, *sums
    scale = dropout.scale
    _by_rows(programs.attend_backward, graph, x_SHC, *given, *found, SCALE=scale, SLOPE=slope)
    return of_scores, sum_rows(weights, grad_NHC, graph, True), *sums


def attend_linear(
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> tuple[Tensor, ...]:
    own = torch.einsum("nhc,hc->nh", x_SHC[: graph.num_nodes], dst_HC)
    other = torch.einsum("shc,hc->sh", x_SHC, src_HC)
    scores = x_SHC.new_empty(graph.num_edges, x_SHC.shape[1])
    given = own, other, _or_ones(factor_NH, own), scores
    _by_rows(programs.linear_scores, graph, other[..., None], *given, SLOPE=slope)
    return *attend(scores, x_SHC, graph, dropout), scores, own, other


def attend_linear_backward(
    grad_NHC: Tensor,
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
    alpha: Tensor,
    scores: Tensor,
    own: Tensor,
    other: Tensor,
) -> tuple[Tensor | None, ...]:
    given = grad_NHC, scores, x_SHC, graph, dropout, alpha, other, slope
    of_scores, of_x, total, mixed = _attend_backward(*given)
    factor = _or_ones(factor_NH, own)
    of_factor = None
    if factor_NH is not None:
        of_factor = torch.addcmul(mixed, own, total)
    of_own = (total * factor)[..., None]
    of_other = sum_rows(of_scores, factor[..., None], graph, True)
    of_x.addcmul_(of_other, src_HC)
    of_x[: graph.num_nodes].addcmul_(of_own, dst_HC)
    of_dst = (of_own * x_SHC[: graph.num_nodes]).sum(0)
    return of_x, of_dst, (of_other * x_SHC).sum(0), of_factor


def _or_ones(factor: Tensor | None, like: Tensor) -> Tensor:
    if factor is None:
        return torch.ones_like(like)
    return factor


def largest(values_SH: Tensor, graph: Graph) -> tuple[Tensor, ...]:
    heads = values_SH.shape[1]
    most, count = values_SH.new_empty(2, graph.num_nodes, heads)
    is_largest = values_SH.new_empty(graph.num_edges, heads)
    _by_rows(programs.largest, graph, most[..., None], values_SH, most, count, is_largest)
    return most, count, is_largest


def largest_backward(
    grad_NH: Tensor, values_SH: Tensor, graph: Graph, count: Tensor, is_largest: Tensor
) -> tuple[Tensor]:
    return (sum_rows(is_largest, (grad_NH / count)[..., None], graph, True).squeeze(-1),)


def drop(x: Tensor, dropout: Mask) -> Tensor:
    y, count = x.new_empty(x.shape), x.numel()
    given = dropout.seed, dropout.threshold, x, y, count, dropout.scale, BLOCK
    _launch(programs.drop, triton.cdiv(count, BLOCK), *given)
    return y
