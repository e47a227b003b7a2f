"""The calls of the kernels for NVIDIA GPUs: each function is called as the kernel of its name in
``kernels.py``, which checks the shapes.

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
from gnn_depth.nn.native.gpu_programs import ADDITIVE, GIVEN, LINEAR
from gnn_depth.nn.native.masks import Mask

#: Edges that a program takes at once: at least, at most, and rounds of the node with most of them.
FEWEST_EDGES, MOST_EDGES, MOST_ROUNDS = 4, 64, 64
#: Edges times channels that a program holds at most; it takes fewer edges for wide rows.
NUMBERS = 4096
#: A warp of threads for every so many of them, and at most so many warps.
NUMBERS_OF_WARP, MOST_WARPS = 512, 4
#: Numbers that a program of dropout treats.
BLOCK = 1024


def key() -> str:
    """A name of Triton, the sources of the kernels, and the kind of GPU."""
    sources = (Path(__file__), Path(programs.__file__))
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    return f"gpu-triton-{triton.__version__}-{torch.cuda.get_device_name()}-{digest[:12]}"


def try_out() -> None:
    """Run one kernel on the current GPU: Triton needs a C compiler when it first runs one."""
    x = torch.ones(1, device="cuda")
    _launch(programs.squares, 1, x, torch.empty_like(x), 1, CHANNELS=1, num_warps=1)


class _Lists:
    """The edges into and out of each node, and how many of them a program takes at once."""

    def __init__(self, graph: Graph) -> None:
        rows = graph.rows
        self.into = rows.ptr, rows.source, rows.source  # has no numbers of its own for edges
        self.out = rows.transposed_ptr, rows.transposed_target, rows.transposed_order
        mean = graph.num_edges // max(1, graph.num_nodes) + 1
        largest = 0
        if graph.num_edges:
            largest = int(max(each.diff().max() for each in (self.into[0], self.out[0])))
        wanted = triton.next_power_of_2(max(mean, largest // MOST_ROUNDS))
        self.edges = min(MOST_EDGES, max(FEWEST_EDGES, wanted))

    def of(self, transposed: bool) -> tuple[Tensor, ...]:
        if transposed:
            return self.out
        return self.into


def _lists(graph: Graph) -> _Lists:
    return graph.once("native_gpu", lambda: _Lists(graph))


def _sizes_of(lists: _Lists, channels: int) -> dict[str, int]:
    """How much a program of a row holds, and how many warps of threads it gets."""
    width = triton.next_power_of_2(max(1, channels))
    edges = max(1, min(lists.edges, NUMBERS // width))
    warps = max(1, min(MOST_WARPS, edges * width // NUMBERS_OF_WARP))
    return {"EDGES": edges, "CHANNELS": width, "num_warps": warps}


def _new(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def _launch(kernel: Any, rows: int, *arguments: Any, **options: Any) -> None:
    """Start a program for every row, on the device of the first tensor."""
    if rows == 0:
        return
    held = [each.contiguous() if isinstance(each, Tensor) else each for each in arguments]
    device = held[0].device
    # Triton starts programs on the current GPU, whichever the tensors are on.
    if device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            kernel[(rows,)](*held, **options)
    else:
        kernel[(rows,)](*held, **options)


def sum_rows(weights_EH: Tensor, x_SHC: Tensor, graph: Graph, transposed: bool) -> Tensor:
    lists = _lists(graph)
    ptr, neighbour, edge = lists.of(transposed)
    heads, channels = x_SHC.shape[1:]
    y = _new(x_SHC, len(ptr) - 1, heads, channels)
    options = _sizes_of(lists, channels)
    given = ptr, neighbour, edge, weights_EH, x_SHC, y, heads, channels
    _launch(programs.sum_rows, y.shape[0] * heads, *given, HAS_EDGE=transposed, **options)
    return y


def largest(values_EH: Tensor, graph: Graph) -> Tensor:
    return sum_edges(values_EH, graph, False, maximum=True)


def sum_edges(values_EH: Tensor, graph: Graph, transposed: bool, maximum: bool = False) -> Tensor:
    lists = _lists(graph)
    ptr, _, edge = lists.of(transposed)
    heads = values_EH.shape[1]
    y = _new(values_EH, len(ptr) - 1, heads)
    options = {"HAS_EDGE": transposed, "MAXIMUM": maximum, "EDGES": lists.edges, "num_warps": 1}
    _launch(programs.sum_edges, y.numel(), ptr, edge, values_EH, y, heads, **options)
    return y


def dot_rows(query_NHC: Tensor, key_SHC: Tensor, graph: Graph) -> Tensor:
    lists = _lists(graph)
    ptr, neighbour, _ = lists.into
    heads, channels = key_SHC.shape[1:]
    products = _new(key_SHC, graph.num_edges, heads)
    given = ptr, neighbour, query_NHC, key_SHC, products, heads, channels
    _launch(programs.dot_rows, (len(ptr) - 1) * heads, *given, **_sizes_of(lists, channels))
    return products


def softmax(scores_EH: Tensor, graph: Graph) -> Tensor:
    lists = _lists(graph)
    heads = scores_EH.shape[1]
    alpha = _new(scores_EH, *scores_EH.shape)
    given = lists.into[0], scores_EH, alpha, heads
    rows = graph.num_nodes * heads
    _launch(programs.softmax, rows, *given, EDGES=lists.edges, num_warps=1)
    return alpha


def softmax_backward(alpha_EH: Tensor, grad_EH: Tensor, graph: Graph) -> Tensor:
    lists = _lists(graph)
    heads = alpha_EH.shape[1]
    out = _new(alpha_EH, *alpha_EH.shape)
    given = lists.into[0], alpha_EH, grad_EH, out, heads
    rows = graph.num_nodes * heads
    _launch(programs.softmax_backward, rows, *given, EDGES=lists.edges, num_warps=1)
    return out


def additive_scores(
    x_NHC: Tensor, z_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
) -> Tensor:
    lists = _lists(graph)
    heads, channels = z_SHC.shape[1:]
    scores = _new(z_SHC, graph.num_edges, heads)
    given = *lists.into[:2], x_NHC, z_SHC, att_HC, slope, scores, heads, channels
    _launch(programs.additive_scores, graph.num_nodes * heads, *given, **_sizes_of(lists, channels))
    return scores


def additive_slopes(
    grad_EH: Tensor,
    own_NHC: Tensor,
    other_SHC: Tensor,
    graph: Graph,
    transposed: bool,
    slope: float,
) -> Tensor:
    lists = _lists(graph)
    heads, channels = own_NHC.shape[1:]
    ptr, neighbour, edge = lists.of(transposed)
    sums = _new(own_NHC, *own_NHC.shape)
    given = ptr, neighbour, edge, grad_EH, own_NHC, other_SHC, slope, sums, heads, channels
    options = _sizes_of(lists, channels)
    _launch(
        programs.additive_slopes, (len(ptr) - 1) * heads, *given, HAS_EDGE=transposed, **options
    )
    return sums


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """A program takes a tensor for each of its arguments, also for one that it does not read."""
    if tensor is None:
        return other
    return tensor


class _Attention:
    """Attention with one kind of scores, forward and backward.

    Args:
        kind: How scores are computed: given, linear or additive.
        graph: The graph.
        dropout: Which weights are dropped.
        z_SHC: Features of the sources, which are summed.
        slope: Slope of the LeakyReLU below zero.
        **given: Of ``scores`` the given ones, ``x`` the features of the targets, for additive
            scores, ``dst`` and ``vector`` the vectors of targets and sources, and ``factor`` of the
            scores. A program takes a tensor for each of them, also for one that it does not read.
    """

    def __init__(
        self,
        kind: int,
        graph: Graph,
        dropout: Mask,
        z_SHC: Tensor,
        slope: float = 1.0,
        **given: Tensor | None,
    ) -> None:
        self.kind, self.graph, self.z, self.slope = kind, graph, z_SHC, slope
        self.lists = _lists(graph)
        self.heads, self.channels = z_SHC.shape[1:]
        self.nodes, self.sources = graph.num_nodes, graph.num_sources
        self.has_factor = given.get("factor") is not None
        names = ("scores", "x", "dst", "vector", "factor")
        self.scores, self.x, self.dst, self.vector, self.factor = (
            _or(given.get(name), z_SHC) for name in names
        )
        # Without dropout p is 0.
        scale = 1 / (1 - dropout.p)
        self.dropout = _or(dropout.seed, self.lists.into[0]), dropout.threshold, scale
        has_dropout = dropout.seed is not None
        self.flags = {"HAS_FACTOR": self.has_factor, "HAS_DROPOUT": has_dropout}
        self.options = _sizes_of(self.lists, self.channels)

    def _new(self, *shape: int) -> Tensor:
        return _new(self.z, *shape)

    def _given(self) -> tuple[Any, ...]:
        tensors = self.scores, self.x, self.z, self.dst, self.vector, self.factor
        return *self.lists.into[:2], *tensors, *self.dropout, self.slope

    def forward(self) -> tuple[Tensor, ...]:
        """The output; the largest scores and sums behind the softmax, for the backward pass."""
        y = self._new(self.nodes, self.heads, self.channels)
        most, sums = self._new(self.nodes, self.heads), self._new(self.nodes, self.heads)
        given = *self._given(), y, most, sums, self.heads, self.channels
        rows = self.nodes * self.heads
        _launch(programs.attend, rows, *given, KIND=self.kind, **self.flags, **self.options)
        return y, most, sums

    def backward(self, grad: Tensor, *kept: Tensor) -> None:
        """Compute all gradients, as attributes."""
        heads, channels, nodes = self.heads, self.channels, self.nodes
        grad = grad.contiguous()
        of_scores = self._new(self.graph.num_edges, heads)
        weights = torch.empty_like(of_scores)
        of_own = of_factor = slopes = of_scores  # not written where it is not needed
        if self.kind == LINEAR:
            of_own = self._new(nodes, heads)
        if self.has_factor:
            of_factor = self._new(nodes, heads)
        if self.kind == ADDITIVE:
            slopes = self._new(nodes, heads, channels)
        given = *self._given(), grad, *kept, of_scores, weights, of_own, of_factor, slopes
        kind = {"KIND": self.kind, **self.options}
        _launch(programs.attend_into, nodes * heads, *given, heads, channels, **self.flags, **kind)
        of_z = self._new(self.sources, heads, channels)
        of_sources = of_scores
        if self.kind == LINEAR:
            of_sources = self._new(self.sources, heads)
        if self.kind == ADDITIVE:
            of_sources = self._new(self.sources, heads, channels)
        is_one = self.x is self.z
        given = *self.lists.out, self.x, self.z, self.dst, self.vector, self.slope, grad
        given = *given, of_scores, weights, of_own, slopes, of_z, of_sources
        sizes = nodes, heads, channels
        _launch(programs.attend_out, self.sources * heads, *given, *sizes, IS_ONE=is_one, **kind)
        self.of_z, self.of_scores, self.of_sources = of_z, of_scores, of_sources
        self.of_own, self.slopes = of_own, slopes
        self.of_factor: Tensor | None = None
        if self.has_factor:
            self.of_factor = of_factor


def attend(*given: Any) -> tuple[Tensor, ...]:
    return _given(*given).forward()


def attend_backward(grad_NHC: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
    found = _given(*given[:4])
    found.backward(grad_NHC, *given[4:])
    return found.of_scores, found.of_z


def _given(scores_EH: Tensor, x_SHC: Tensor, graph: Graph, dropout: Mask) -> _Attention:
    return _Attention(GIVEN, graph, dropout, x_SHC, scores=scores_EH)


def attend_linear(*given: Any) -> tuple[Tensor, ...]:
    return _linear(*given).forward()


def attend_linear_backward(grad_NHC: Tensor, *given: Any) -> tuple[Tensor | None, ...]:
    found = _linear(*given[:7])
    found.backward(grad_NHC, *given[7:])
    of_dst = (found.of_own[..., None] * found.z[: found.nodes]).sum(0)
    of_src = (found.of_sources[..., None] * found.z).sum(0)
    return found.of_z, of_dst, of_src, found.of_factor


def _linear(
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> _Attention:
    vectors = {"dst": dst_HC, "vector": src_HC, "factor": factor_NH}
    return _Attention(LINEAR, graph, dropout, x_SHC, slope, **vectors)


def attend_additive(*given: Any) -> tuple[Tensor, ...]:
    return _additive(*given).forward()


def attend_additive_backward(grad_NHC: Tensor, *given: Any) -> tuple[Tensor | None, ...]:
    found = _additive(*given[:7])
    found.backward(grad_NHC, *given[7:])
    of_x = None
    if found.x is not found.z:
        of_x = found.slopes * found.vector
    return of_x, found.of_z, found.of_sources.sum(0), found.of_factor


def _additive(
    x_NHC: Tensor | None,
    z_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> _Attention:
    vectors = {"x": x_NHC, "vector": att_HC, "factor": factor_NH}
    return _Attention(ADDITIVE, graph, dropout, z_SHC, slope, **vectors)


def sizes(x_NHC: Tensor | None, z_SHC: Tensor, graph: Graph, tiny: float) -> tuple[Tensor, ...]:
    lists = _lists(graph)
    of_z = _squares_of(z_SHC)
    of_x = of_z
    if x_NHC is not None:
        of_x = _squares_of(x_NHC)
    nodes, heads = graph.num_nodes, z_SHC.shape[1]
    most, ties, sizes = (_new(z_SHC, nodes, heads) for _ in range(3))
    given = *lists.into[:2], of_x, of_z, most, ties, sizes, heads
    _launch(programs.sizes, nodes * heads, *given, TINY=tiny, EDGES=lists.edges, num_warps=1)
    return sizes, sizes, of_z, most, ties


def _squares_of(x: Tensor) -> Tensor:
    squares = _new(x, *x.shape[:2])
    channels = x.shape[2]
    width = triton.next_power_of_2(channels)
    _launch(programs.squares, squares.numel(), x, squares, channels, CHANNELS=width, num_warps=1)
    return squares


def sizes_backward(
    grad_NH: Tensor,
    x_NHC: Tensor | None,
    z_SHC: Tensor,
    graph: Graph,
    tiny: float,
    size: Tensor,
    of_z: Tensor,
    most: Tensor,
    ties: Tensor,
) -> tuple[Tensor | None, Tensor]:
    lists = _lists(graph)
    sources, heads, channels = z_SHC.shape
    grad_z = _new(z_SHC, *z_SHC.shape)
    given = *lists.out[:2], grad_NH, z_SHC, of_z, most, ties, size, grad_z
    sizes = graph.num_nodes, heads, channels
    options = _sizes_of(lists, channels)
    _launch(
        programs.sizes_backward, sources * heads, *given, *sizes, IS_ONE=x_NHC is None, **options
    )
    if x_NHC is None:
        return None, grad_z
    return x_NHC * (grad_NH / size)[..., None], grad_z


def drop(x: Tensor, dropout: Mask) -> Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    count = x.numel()
    given = dropout.seed, dropout.threshold, x, y, count
    options = {"SCALE": 1 / (1 - dropout.p), "BLOCK": BLOCK, "num_warps": 4}
    _launch(programs.drop, triton.cdiv(count, BLOCK), *given, **options)
    return y
