"""The kernels as functions of tensors, without derivatives: ``gnn_depth.nn.functional`` adds those.

A kernel computes what the plain functions there compute. :func:`serve` says whether it may: for
float32 and float64 in the memory of a CPU, outside the compiler and transforms of ``torch.func``.
"""

# N nodes, S sources, E edges, H heads, C channels

import ctypes
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth import torch_internals
from gnn_depth.graph import Graph
from gnn_depth.nn.native import build

log = logging.getLogger("gnn_depth")

#: Work of a part of the nodes: an edge is 1, and a node as much as this many edges.
WORK, WORK_OF_NODE, MOST_PARTS = 1024, 4, 64
PLAIN = (Tensor, nn.Parameter)
#: The C functions' names end with the type of their numbers.
TYPES = {torch.float32: "float", torch.float64: "double"}

_P, _I, _D = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
# Pointers to structures and tensors, whole numbers and floats, in the order of the C functions.
SIGNATURES = {
    "sum_rows": (_P, _P, _P, _P, _I, _I),
    "sum_edges": (_P, _P, _P, _I),
    "dot_rows": (_P, _P, _P, _P, _I, _I),
    "largest": (_P, _P, _P, _I),
    "softmax": (_P, _P, _P, _I),
    "softmax_backward": (_P, _P, _P, _P, _I),
    "attend": (_P, _P, _P, _P, _P, _P, _I, _I),
    "attend_backward": (_P, _P, _P, _P, _P, _P, _P, _I, _I),
    "attend_linear": (_P, _P, _P, _P, _P, _D, _P, _P, _P, _P, _P, _I, _I),
    "attend_linear_backward": (*[_P] * 6, _D, *[_P] * 10, _I, _I),
    "additive_scores": (_P, _P, _P, _P, _D, _P, _I, _I),
    "additive_slopes": (_P, _P, _P, _P, _D, _P, _I, _I),
    "attend_additive": (*[_P] * 5, _D, _P, _P, _P, _I, _I),
    "attend_additive_backward": (*[_P] * 6, _D, *[_P] * 9, _I, _I, _I),
    "sizes": (_P, _P, _P, _D, _P, _P, _P, _P, _I, _I),
    "sizes_backward": (*[_P] * 11, _I, _I),
    "elu": (_P, _P, _I),
    "elu_backward": (_P, _P, _P, _I),
    "drop": (_P, _P, _P, _I),
}

#: Those of float32 alone.
SIGNATURES_FLOAT = {
    "block": (*[_P] * 5, _I, _I, _P, _P, _I, _I),
    "block_backward": (*[_P] * 6, _I, *[_P] * 4, _I, _I),
}
#: The groups that block.cpp sums the gradient of the weights in, and the widths that it takes.
GROUPS, WIDTHS = 16, range(16, 257, 16)


class Kernels:
    """The loaded C functions, by type of the numbers and name.

    Attributes:
        key: Names the source, the compiler and the processor that they were compiled from and for.
    """

    def __init__(self) -> None:
        self.key, libraries = build.load_kernels()
        self.of: dict[torch.dtype, dict[str, Any]] = {}
        for dtype, suffix in TYPES.items():
            functions = {}
            signatures = SIGNATURES
            if dtype == torch.float32:
                signatures = SIGNATURES | SIGNATURES_FLOAT
            for name, arguments in signatures.items():
                function = _found(libraries, f"{name}_{suffix}")
                function.argtypes = arguments
                function.restype = None
                functions[name] = function
            self.of[dtype] = functions


def _found(libraries: list[ctypes.CDLL], name: str) -> Any:
    for library in libraries:
        if hasattr(library, name):
            return getattr(library, name)
    raise build.NoKernelsError(f"no library has {name}")


class _Path:
    """Which way this process computes: decided at the first use, or before a training."""

    def __init__(self) -> None:
        self.decided = False
        self.wanted = True
        self.kernels: Kernels | None = None
        self.reason = ""


_path = _Path()


def available() -> str | None:
    """The key of the kernels, compiled now if need be; None if PyTorch computes instead."""
    if not _path.decided:
        _path.decided = True
        try:
            _path.kernels = Kernels()
        except build.NoKernelsError as error:
            _path.reason = str(error)
            if build.SWITCH not in _path.reason:
                log.warning("no native kernels, so layers run on PyTorch alone: %s", error)
    if _path.kernels is None or not _path.wanted:
        return None
    return _path.kernels.key


def why_not() -> str:
    """The reason why there are no kernels."""
    return _path.reason


@contextmanager
def plain() -> Iterator[None]:
    """Leave everything to PyTorch for a while."""
    before = use(False)
    try:
        yield
    finally:
        use(before)


def use(wanted: bool) -> bool:
    """Use the kernels from now on, if there are any, or leave everything to PyTorch.

    Returns what held before.
    """
    before, _path.wanted = _path.wanted, wanted
    return before


def serve(graph: Graph, *values: Tensor) -> bool:
    """True if the kernels compute with these tensors, all of one type, on this graph."""
    return serve_values(*values) and lists_of(graph).fits


def serve_values(*values: Tensor) -> bool:
    """True if the kernels compute with these tensors, all of one type."""
    if torch.compiler.is_compiling() or torch_internals.is_transforming():
        return False
    dtype = values[0].dtype
    if dtype not in TYPES:
        return False
    for value in values:
        if type(value) not in PLAIN or value.dtype != dtype or not value.is_cpu:
            return False
        # A backward pass after a transform of torch.func still meets the tensors that it wrapped.
        if value.layout != torch.strided or torch_internals.is_wrapped(value):
            return False
    return available() is not None


# ---- Structures that the C functions read -------------------------------------------------------


class _Lists(ctypes.Structure):
    _fields_ = [
        ("ptr", _P),
        ("neighbour", _P),
        ("edge", _P),
        ("part", _P),
        ("parts", _I),
        ("nodes", _I),
    ]


class _Graph(ctypes.Structure):
    _fields_ = [("into", _Lists), ("out", _Lists), ("edges", _I)]


class _Dropout(ctypes.Structure):
    _fields_ = [("seed", _P), ("threshold", ctypes.c_int32), ("scale", _D)]


class Mask:
    """Dropout as the kernels read it.

    Args:
        seed: The two numbers that determine the mask; None for no dropout.
        p: Probability of dropping a number.
        threshold: What the hash of a kept position is not below.

    Attributes:
        address: Address of the structure.
    """

    def __init__(self, seed: Tensor | None, p: float, threshold: int) -> None:
        self._seed = seed  # the structure holds its address only
        if seed is None:
            self._structure = _Dropout(None, 0, 0.0)
        else:
            self._structure = _Dropout(seed.data_ptr(), threshold, 1 / (1 - p))
        self.address = ctypes.addressof(self._structure)


NO_DROPOUT = Mask(None, 0.0, 0)


class GraphLists:
    """The edges into and out of each node, as the kernels read them.

    Attributes:
        fits: False if the kernels cannot: on another device, or with too many edges for int32.
        parts: The larger number of parts of the nodes.
        graph: Address of the structure; into, out: addresses of its lists.
    """

    def __init__(self, graph: Graph) -> None:
        rows = graph.rows(1)
        self.fits = graph.device.type == "cpu" and rows.ptr.dtype == torch.int32
        if not self.fits:
            return
        out = rows.transposed_ptr, rows.transposed_target, rows.transposed_order
        into = rows.ptr, rows.source, None
        self._kept: list[Tensor] = []  # the structure holds addresses only
        both = [self._lists(*tensors) for tensors in (into, out)]
        self.parts = max(lists.parts for lists in both)
        self._structure = _Graph(*both, graph.num_edges)
        self.graph = ctypes.addressof(self._structure)
        self.into = self.graph + _Graph.into.offset
        self.out = self.graph + _Graph.out.offset

    def _lists(self, ptr: Tensor, neighbour: Tensor, edge: Tensor | None) -> _Lists:
        nodes = len(ptr) - 1
        work = ptr.long() + WORK_OF_NODE * torch.arange(nodes + 1)
        total = int(work[-1])
        parts = min(MOST_PARTS, max(1, math.ceil(total / WORK)))
        borders = torch.arange(parts + 1) * total // parts
        part = torch.searchsorted(work, borders).clamp_max(nodes).int()
        self._kept += [ptr, neighbour, part]
        address = None
        if edge is not None:
            self._kept.append(edge)
            address = edge.data_ptr()
        return _Lists(ptr.data_ptr(), neighbour.data_ptr(), address, part.data_ptr(), parts, nodes)


def lists_of(graph: Graph) -> GraphLists:
    """The lists of a graph, made once."""
    return graph.once("native", lambda: GraphLists(graph))


def _functions(x: Tensor) -> dict[str, Any]:
    assert _path.kernels is not None
    return _path.kernels.of[x.dtype]


def _require(what: str, x: Tensor, *shape: int) -> None:
    """Refuse a tensor of another shape: a kernel would read what is not there."""
    if x.shape != shape:
        raise ValueError(f"{what} must have the shape {shape}, not {tuple(x.shape)}.")


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


# ---- Sums ---------------------------------------------------------------------------------------


def sum_rows(weights_EH: Tensor, x_SHC: Tensor, graph: Graph, transposed: bool) -> Tensor:
    """Weighted sum of the rows at the other end of each node's edges."""
    lists = lists_of(graph)
    weights_EH, x_SHC = weights_EH.contiguous(), x_SHC.contiguous()
    _, heads, channels = x_SHC.shape
    nodes, others = graph.num_nodes, graph.num_sources
    if transposed:
        nodes, others = others, nodes
    _require("the weights of edges", weights_EH, graph.num_edges, heads)
    _require("the features of nodes", x_SHC, others, heads, channels)
    y = x_SHC.new_empty(nodes, heads, channels)
    _functions(y)["sum_rows"](
        lists.out if transposed else lists.into,
        weights_EH.data_ptr(),
        x_SHC.data_ptr(),
        y.data_ptr(),
        heads,
        channels,
    )
    return y


def sum_edges(values_EH: Tensor, graph: Graph, transposed: bool) -> Tensor:
    """Sum of the values of each node's edges."""
    lists = lists_of(graph)
    values_EH = values_EH.contiguous()
    _require("the values of edges", values_EH, graph.num_edges, values_EH.shape[1])
    nodes = graph.num_sources if transposed else graph.num_nodes
    y = values_EH.new_empty(nodes, values_EH.shape[1])
    _functions(y)["sum_edges"](
        lists.out if transposed else lists.into,
        values_EH.data_ptr(),
        y.data_ptr(),
        values_EH.shape[1],
    )
    return y


def dot_rows(query_NHC: Tensor, key_SHC: Tensor, graph: Graph) -> Tensor:
    """The dot product of both ends of each edge."""
    query_NHC, key_SHC = query_NHC.contiguous(), key_SHC.contiguous()
    _, heads, channels = query_NHC.shape
    _require("queries", query_NHC, graph.num_nodes, heads, channels)
    _require("keys", key_SHC, graph.num_sources, heads, channels)
    s = query_NHC.new_empty(graph.num_edges, heads)
    _functions(s)["dot_rows"](
        lists_of(graph).into,
        query_NHC.data_ptr(),
        key_SHC.data_ptr(),
        s.data_ptr(),
        heads,
        channels,
    )
    return s


def largest(values_EH: Tensor, graph: Graph) -> Tensor:
    """The maximum over the edges into each node, -inf where there are none."""
    values_EH = values_EH.contiguous()
    _require("the values of edges", values_EH, graph.num_edges, values_EH.shape[1])
    y = values_EH.new_empty(graph.num_nodes, values_EH.shape[1])
    _functions(y)["largest"](
        lists_of(graph).into, values_EH.data_ptr(), y.data_ptr(), values_EH.shape[1]
    )
    return y


# ---- Attention ----------------------------------------------------------------------------------


def softmax(scores_EH: Tensor, graph: Graph) -> Tensor:
    """Softmax over the edges into each node."""
    scores_EH = scores_EH.contiguous()
    _require("the scores of edges", scores_EH, graph.num_edges, scores_EH.shape[1])
    alpha = torch.empty_like(scores_EH)
    _functions(alpha)["softmax"](
        lists_of(graph).graph, scores_EH.data_ptr(), alpha.data_ptr(), alpha.shape[1]
    )
    return alpha


def softmax_backward(alpha_EH: Tensor, grad_EH: Tensor, graph: Graph) -> Tensor:
    """The symmetric Jacobian of a softmax, times a gradient or tangent."""
    alpha_EH, grad_EH = alpha_EH.contiguous(), grad_EH.contiguous()
    _require("the gradients of edges", grad_EH, *alpha_EH.shape)
    out = torch.empty_like(alpha_EH)
    _functions(out)["softmax_backward"](
        lists_of(graph).graph,
        alpha_EH.data_ptr(),
        grad_EH.data_ptr(),
        out.data_ptr(),
        out.shape[1],
    )
    return out


def additive_scores(
    x_NHC: Tensor, z_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
) -> Tensor:
    """a . LeakyReLU(x_i + z_j) for each edge."""
    x_NHC, z_SHC, att_HC = x_NHC.contiguous(), z_SHC.contiguous(), att_HC.contiguous()
    _, heads, channels = x_NHC.shape
    _require("the features of targets", x_NHC, graph.num_nodes, heads, channels)
    _require("the features of sources", z_SHC, graph.num_sources, heads, channels)
    _require("the vectors of heads", att_HC, heads, channels)
    s = x_NHC.new_empty(graph.num_edges, heads)
    _functions(s)["additive_scores"](
        lists_of(graph).into,
        x_NHC.data_ptr(),
        z_SHC.data_ptr(),
        att_HC.data_ptr(),
        slope,
        s.data_ptr(),
        heads,
        channels,
    )
    return s


def additive_slopes(
    grad_EH: Tensor, own: Tensor, other: Tensor, graph: Graph, transposed: bool, slope: float
) -> Tensor:
    """The sum of g LeakyReLU'(own_i + other_j) over the edges into each node, or out of it."""
    lists = lists_of(graph)
    grad_EH, own, other = grad_EH.contiguous(), own.contiguous(), other.contiguous()
    sums = torch.empty_like(own)
    _, heads, channels = own.shape
    _require("the gradients of edges", grad_EH, graph.num_edges, heads)
    _functions(own)["additive_slopes"](
        lists.out if transposed else lists.into,
        grad_EH.data_ptr(),
        own.data_ptr(),
        other.data_ptr(),
        slope,
        sums.data_ptr(),
        heads,
        channels,
    )
    return sums


def attend(scores_EH: Tensor, x_SHC: Tensor, graph: Graph, dropout: Mask) -> tuple[Tensor, Tensor]:
    """Sums of the sources weighted by the softmax of scores, and that softmax before dropout."""
    scores_EH, x_SHC = scores_EH.contiguous(), x_SHC.contiguous()
    _, heads, channels = x_SHC.shape
    _require("the scores of edges", scores_EH, graph.num_edges, heads)
    _require("the features of sources", x_SHC, graph.num_sources, heads, channels)
    alpha = torch.empty_like(scores_EH)
    y = x_SHC.new_empty(graph.num_nodes, heads, channels)
    _functions(y)["attend"](
        lists_of(graph).graph,
        scores_EH.data_ptr(),
        x_SHC.data_ptr(),
        dropout.address,
        alpha.data_ptr(),
        y.data_ptr(),
        heads,
        channels,
    )
    return y, alpha


def attend_backward(
    grad_NHC: Tensor, x_SHC: Tensor, alpha_EH: Tensor, graph: Graph, dropout: Mask
) -> tuple[Tensor, Tensor]:
    """The gradients of scores and features."""
    grad_NHC, x_SHC = grad_NHC.contiguous(), x_SHC.contiguous()
    _, heads, channels = x_SHC.shape
    of_scores, of_x = torch.empty_like(alpha_EH), torch.empty_like(x_SHC)
    _functions(x_SHC)["attend_backward"](
        lists_of(graph).graph,
        grad_NHC.data_ptr(),
        x_SHC.data_ptr(),
        alpha_EH.data_ptr(),
        dropout.address,
        of_scores.data_ptr(),
        of_x.data_ptr(),
        heads,
        channels,
    )
    return of_scores, of_x


def attend_linear(
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> tuple[Tensor, ...]:
    """Attention with linear scores; also what the backward pass needs: both parts of the scores,
    and their softmax."""
    x_SHC, dst_HC, src_HC = x_SHC.contiguous(), dst_HC.contiguous(), src_HC.contiguous()
    factor_NH = _contiguous(factor_NH)
    _, heads, channels = x_SHC.shape
    _require("the features of sources", x_SHC, graph.num_sources, heads, channels)
    _require("the vectors of targets", dst_HC, heads, channels)
    _require("the vectors of sources", src_HC, heads, channels)
    if factor_NH is not None:
        _require("the factors of nodes", factor_NH, graph.num_nodes, heads)
    y = x_SHC.new_empty(graph.num_nodes, heads, channels)
    of_dst = x_SHC.new_empty(graph.num_nodes, heads)
    of_src = x_SHC.new_empty(graph.num_sources, heads)
    alpha = x_SHC.new_empty(graph.num_edges, heads)
    _functions(y)["attend_linear"](
        lists_of(graph).graph,
        x_SHC.data_ptr(),
        dst_HC.data_ptr(),
        src_HC.data_ptr(),
        _address(factor_NH),
        slope,
        dropout.address,
        of_dst.data_ptr(),
        of_src.data_ptr(),
        alpha.data_ptr(),
        y.data_ptr(),
        heads,
        channels,
    )
    return y, of_dst, of_src, alpha


def attend_linear_backward(
    grad_NHC: Tensor,
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
    saved: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor | None, ...]:
    """The gradients of x, both vectors and the factor."""
    grad_NHC, x_SHC = grad_NHC.contiguous(), x_SHC.contiguous()
    dst_HC, src_HC = dst_HC.contiguous(), src_HC.contiguous()
    factor_NH = _contiguous(factor_NH)
    of_dst, of_src, alpha = saved
    _, heads, channels = x_SHC.shape
    lists = lists_of(graph)
    on_edges, on_nodes = torch.empty_like(alpha), torch.empty_like(of_dst)
    parts = x_SHC.new_empty(lists.parts, 2, heads, channels)
    of_x, of_vectors = torch.empty_like(x_SHC), x_SHC.new_empty(2, heads, channels)
    of_factor = None if factor_NH is None else torch.empty_like(factor_NH)
    _functions(x_SHC)["attend_linear_backward"](
        lists.graph,
        grad_NHC.data_ptr(),
        x_SHC.data_ptr(),
        dst_HC.data_ptr(),
        src_HC.data_ptr(),
        _address(factor_NH),
        slope,
        dropout.address,
        of_dst.data_ptr(),
        of_src.data_ptr(),
        alpha.data_ptr(),
        on_edges.data_ptr(),
        on_nodes.data_ptr(),
        parts.data_ptr(),
        of_x.data_ptr(),
        of_vectors.data_ptr(),
        _address(of_factor),
        heads,
        channels,
    )
    return of_x, of_vectors[0], of_vectors[1], of_factor


def attend_additive(
    x_NHC: Tensor,
    z_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> tuple[Tensor, Tensor]:
    """Attention with additive scores, and their softmax before dropout."""
    x_NHC, z_SHC, att_HC = x_NHC.contiguous(), z_SHC.contiguous(), att_HC.contiguous()
    factor_NH = _contiguous(factor_NH)
    _, heads, channels = z_SHC.shape
    _require("the features of targets", x_NHC, graph.num_nodes, heads, channels)
    _require("the features of sources", z_SHC, graph.num_sources, heads, channels)
    _require("the vectors of heads", att_HC, heads, channels)
    if factor_NH is not None:
        _require("the factors of nodes", factor_NH, graph.num_nodes, heads)
    alpha = z_SHC.new_empty(graph.num_edges, heads)
    y = z_SHC.new_empty(graph.num_nodes, heads, channels)
    _functions(y)["attend_additive"](
        lists_of(graph).graph,
        x_NHC.data_ptr(),
        z_SHC.data_ptr(),
        att_HC.data_ptr(),
        _address(factor_NH),
        slope,
        dropout.address,
        alpha.data_ptr(),
        y.data_ptr(),
        heads,
        channels,
    )
    return y, alpha


def attend_additive_backward(
    grad_NHC: Tensor,
    x_NHC: Tensor,
    z_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
    alpha_EH: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of x, z, the vectors and the factor; that of z is in x's if they are one."""
    grad_NHC, att_HC, factor_NH = grad_NHC.contiguous(), att_HC.contiguous(), _contiguous(factor_NH)
    is_one = x_NHC is z_SHC
    z_SHC = z_SHC.contiguous()
    x_NHC = z_SHC if is_one else x_NHC.contiguous()
    _, heads, channels = z_SHC.shape
    lists = lists_of(graph)
    weights, of_scores = torch.empty_like(alpha_EH), torch.empty_like(alpha_EH)
    parts = z_SHC.new_empty(lists.parts, heads, channels)
    of_x, of_att = torch.empty_like(x_NHC), torch.empty_like(att_HC)
    of_z = of_x if is_one else torch.empty_like(z_SHC)
    of_factor = None if factor_NH is None else torch.empty_like(factor_NH)
    _functions(z_SHC)["attend_additive_backward"](
        lists.graph,
        grad_NHC.data_ptr(),
        x_NHC.data_ptr(),
        z_SHC.data_ptr(),
        att_HC.data_ptr(),
        _address(factor_NH),
        slope,
        dropout.address,
        alpha_EH.data_ptr(),
        weights.data_ptr(),
        of_scores.data_ptr(),
        parts.data_ptr(),
        of_x.data_ptr(),
        of_z.data_ptr(),
        of_att.data_ptr(),
        _address(of_factor),
        is_one and graph.reverse is not None,
        heads,
        channels,
    )
    return of_x, None if is_one else of_z, of_att, of_factor


# ---- Sizes --------------------------------------------------------------------------------------


def sizes(x_NHC: Tensor, z_SHC: Tensor, graph: Graph, tiny: float) -> tuple[Tensor, ...]:
    """The size of each node and its largest neighbour together, the squares of the sources and
    the largest of them."""
    is_one = x_NHC is z_SHC
    z_SHC = z_SHC.contiguous()
    x_NHC = z_SHC if is_one else x_NHC.contiguous()
    _, heads, channels = z_SHC.shape
    _require("the features of targets", x_NHC, graph.num_nodes, heads, channels)
    _require("the features of sources", z_SHC, graph.num_sources, heads, channels)
    of_z = z_SHC.new_empty(graph.num_sources, heads)
    of_x = of_z if is_one else z_SHC.new_empty(graph.num_nodes, heads)
    most = z_SHC.new_empty(graph.num_nodes, heads)
    size = torch.empty_like(most)
    _functions(z_SHC)["sizes"](
        lists_of(graph).graph,
        x_NHC.data_ptr(),
        z_SHC.data_ptr(),
        tiny,
        of_x.data_ptr(),
        of_z.data_ptr(),
        most.data_ptr(),
        size.data_ptr(),
        heads,
        channels,
    )
    return size, of_z, most


def sizes_backward(
    grad_NH: Tensor,
    x_NHC: Tensor,
    z_SHC: Tensor,
    graph: Graph,
    saved: tuple[Tensor, Tensor, Tensor],
) -> tuple[Tensor, Tensor | None]:
    """The gradients of x and z; that of z is in x's if they are one."""
    size, of_z, most = saved
    is_one = x_NHC is z_SHC
    grad_NH, z_SHC = grad_NH.contiguous(), z_SHC.contiguous()
    x_NHC = z_SHC if is_one else x_NHC.contiguous()
    _, heads, channels = z_SHC.shape
    on_nodes = z_SHC.new_empty(2, *size.shape)
    grad_z = torch.empty_like(z_SHC)
    grad_x = grad_z if is_one else torch.empty_like(x_NHC)
    _functions(z_SHC)["sizes_backward"](
        lists_of(graph).graph,
        grad_NH.data_ptr(),
        x_NHC.data_ptr(),
        z_SHC.data_ptr(),
        of_z.data_ptr(),
        most.data_ptr(),
        size.data_ptr(),
        on_nodes[0].data_ptr(),
        on_nodes[1].data_ptr(),
        grad_x.data_ptr(),
        grad_z.data_ptr(),
        heads,
        channels,
    )
    return grad_x, None if is_one else grad_z


# ---- Blocks and activations ---------------------------------------------------------------------


def block(
    x_NC: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    weights_E: Tensor,
    graph: Graph,
    relu: bool,
    residual: bool,
) -> tuple[Tensor, Tensor | None]:
    """A block of a convolution with fixed weights, and the signs that its ReLU reads."""
    x_NC, weights_E, bias = x_NC.contiguous(), weights_E.contiguous(), _contiguous(bias)
    transposed = weight.t().contiguous()
    outputs, inputs = weight.shape
    _require("the features of nodes", x_NC, graph.num_nodes, inputs)
    _require("the weights of edges", weights_E, graph.num_edges)
    if bias is not None:
        _require("the bias", bias, outputs)
    if residual:
        _require("a weight whose output is added to its input", weight, inputs, inputs)
    y = x_NC.new_empty(len(x_NC), outputs)
    # At least 4 numbers share a vector, and each vector has 16 bits.
    signs = x_NC.new_empty(y.numel() // 4, dtype=torch.int16) if relu else None
    _functions(y)["block"](
        lists_of(graph).graph,
        weights_E.data_ptr(),
        x_NC.data_ptr(),
        transposed.data_ptr(),
        _address(bias),
        relu,
        residual,
        _address(signs),
        y.data_ptr(),
        inputs,
        outputs,
    )
    return y, signs


def block_backward(
    grad: Tensor,
    x_NC: Tensor,
    weight: Tensor,
    weights_E: Tensor,
    graph: Graph,
    signs: Tensor | None,
    residual: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, the weight and the bias."""
    grad, x_NC, weight = grad.contiguous(), x_NC.contiguous(), weight.contiguous()
    weights_E = weights_E.contiguous()
    outputs, inputs = weight.shape
    size = outputs * inputs + outputs
    on_nodes = None if signs is None else torch.empty_like(grad)
    of_groups = weight.new_empty(GROUPS, size)
    of_x, of_both = torch.empty_like(x_NC), weight.new_empty(size)
    _functions(x_NC)["block_backward"](
        lists_of(graph).graph,
        weights_E.data_ptr(),
        grad.data_ptr(),
        x_NC.data_ptr(),
        weight.data_ptr(),
        _address(signs),
        residual,
        _address(on_nodes),
        of_groups.data_ptr(),
        of_x.data_ptr(),
        of_both.data_ptr(),
        inputs,
        outputs,
    )
    numbers = weight.numel()
    return of_x, of_both[:numbers].view_as(weight), of_both[numbers:]


def elu(x: Tensor) -> Tensor:
    """ELU of a tensor."""
    x = x.contiguous()
    y = torch.empty_like(x)
    _functions(x)["elu"](x.data_ptr(), y.data_ptr(), x.numel())
    return y


def elu_backward(grad: Tensor, y: Tensor) -> Tensor:
    """The gradient of the input of an ELU, given its output."""
    grad, y = grad.contiguous(), y.contiguous()
    of_x = torch.empty_like(y)
    _functions(y)["elu_backward"](grad.data_ptr(), y.data_ptr(), of_x.data_ptr(), y.numel())
    return of_x


# ---- Dropout ------------------------------------------------------------------------------------


def drop(x: Tensor, dropout: Mask) -> Tensor:
    """Dropout of a tensor, by the hash of each position."""
    x = x.contiguous()
    y = torch.empty_like(x)
    _functions(x)["drop"](dropout.address, x.data_ptr(), y.data_ptr(), x.numel())
    return y
