"""The kernels as functions of tensors, without derivatives: ``gnn_depth.nn.functional`` adds those.

A kernel computes what the functions there compute. :func:`serve` says whether it may: for
float32 and float64 in the memory of a CPU or an NVIDIA GPU, outside the compiler and transforms of
``torch.func``. Kernels for CPUs are in C++ and called from here; those for GPUs are in ``gpu.py``.
"""

# N nodes (targets), S sources, E edges, H heads, C channels; of a block I inputs and O outputs;
# P parts of the nodes

import ctypes
import inspect
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, wraps
from importlib import import_module
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gnn_depth import torch_internals
from gnn_depth.graph import Graph
from gnn_depth.nn.native import build

log = logging.getLogger("gnn_depth")

#: Work of a part of the nodes: an edge is 1, and a node as much as this many edges.
WORK, WORK_OF_NODE, MOST_PARTS = 1024, 4, 64
ORDINARY = (Tensor, nn.Parameter)
CPU = torch.device("cpu")
#: Ends of the names of tensors whose shape is checked: the letters of their axes. What a forward
#: function keeps for its backward function is not checked, and differs between CPUs and GPUs.
AXES = ("_EH", "_NH", "_HC", "_NHC", "_SHC")
#: A loop of a kernel for GPUs counts a few edges further than there are.
MOST_EDGES_ON_GPU = 2**31 - 2**10
F = TypeVar("F", bound=Callable[..., Any])
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


class _Path:
    """Which way this process computes: decided at the first use, or before a training."""

    def __init__(self) -> None:
        self.decided = False
        self.wanted = True
        self.key: str | None = None  # of the loaded kernels
        self.reason = ""  # why there are none
        self.functions: dict[torch.dtype, dict[str, Any]] = {}  # by name, for each type


_path = _Path()


class _Gpu:
    """The module with the kernels for GPUs, imported at its first use with Triton."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_decided = False
        self.module: Any = None
        self.key = ""
        self.reason = ""  # why there are none

    def decide(self) -> None:
        """Import the module and try it out."""
        try:
            if build.is_switched_off():
                raise build.NoKernelsError(f"{build.SWITCH} is off")
            if torch.version.hip is not None:
                raise build.NoKernelsError("they were written for NVIDIA's GPUs, and this is AMD's")
            module = import_module("gnn_depth.nn.native.gpu")
            if torch.cuda.is_available():  # elsewhere Triton's interpreter runs them
                module.try_out()
                self.key = module.key()
            self.module = module
        except build.NoKernelsError as error:
            self.reason = str(error)
        except Exception as error:  # Triton's and its compilers' are of many kinds
            lines = str(error).splitlines() or [""]
            self.reason = f"{type(error).__name__}: {lines[0]}"
            log.warning("no kernels for GPUs, so layers run on PyTorch alone: %s", self.reason)


_gpu = _Gpu()


def is_on_gpu(x: Tensor) -> bool:
    """True if kernels for GPUs compute with a tensor."""
    return x.is_cuda


def available_on_gpu() -> str | None:
    """The key of the kernels for GPUs; None if PyTorch computes instead."""
    if not _gpu.is_decided:
        with _gpu.lock:
            if not _gpu.is_decided:
                _gpu.decide()
                _gpu.is_decided = True
    if _gpu.module is None or not _path.wanted:
        return None
    return _gpu.key


def available_for(device: torch.device) -> str | None:
    """The key of the kernels that compute on a device; None if PyTorch computes instead."""
    if device.type == "cuda":
        return available_on_gpu()
    if device.type == "cpu":
        return available()
    return None


def _or_on_gpu(function: F) -> F:
    """A function below for tensors on a CPU, and that of the same name in ``gpu.py`` for others."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def call(*arguments: Any) -> Any:
        first = next(each for each in arguments if isinstance(each, Tensor))
        if not is_on_gpu(first):
            return function(*arguments)
        given = dict(zip(names, arguments, strict=False))
        if "graph" in given:
            tensors = {name: given[name] for name in names if name.endswith(AXES)}
            _sizes_of(given["graph"], given.get("transposed", False), tensors)
        return getattr(_gpu.module, function.__name__)(*arguments)

    return call  # type: ignore[return-value]


def available() -> str | None:
    """The key of the kernels, compiled now if need be; None if PyTorch computes instead.

    It names the source, the compiler and the processor that they were compiled from and for.
    """
    if not _path.decided:
        _path.decided = True  # a failed attempt is not repeated at every call
        try:
            key, libraries = build.load_kernels()
        except build.NoKernelsError as error:
            _path.reason = str(error)
            # Who has switched them off needs no warning.
            if build.SWITCH not in _path.reason:
                log.warning("no native kernels, so layers run on PyTorch alone: %s", error)
        else:
            _path.functions = _functions_of(libraries)
            _path.key = key
    if not _path.wanted:
        return None
    return _path.key


def _functions_of(libraries: list[ctypes.CDLL]) -> dict[torch.dtype, dict[str, Any]]:
    """The C functions of all libraries, by type of the numbers and name."""
    found: dict[torch.dtype, dict[str, Any]] = {}
    for dtype, suffix in TYPES.items():
        signatures = SIGNATURES
        if dtype == torch.float32:
            signatures = SIGNATURES | SIGNATURES_FLOAT
        found[dtype] = {}
        for name, arguments in signatures.items():
            symbol = f"{name}_{suffix}"
            # Each function is in one of the libraries.
            library = next(each for each in libraries if hasattr(each, symbol))
            function = getattr(library, symbol)
            # Without them ctypes would pass every number as an int of 32 bits.
            function.argtypes = arguments
            function.restype = None
            found[dtype][name] = function
    return found


def why_not(device: torch.device = CPU) -> str:
    """The reason why there are no kernels for a device."""
    if device.type == "cuda":
        return _gpu.reason
    return _path.reason


@contextmanager
def without_kernels() -> Iterator[None]:
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


def serve(graph: Graph | None, *values: Tensor | None) -> bool:
    """True if the kernels compute with these tensors, all of one type, on this graph.

    None stands for a tensor that is not given; without a graph the tensors alone decide.
    """
    # Compiled code cannot call C functions, and a transform would hand them no numbers.
    if torch.compiler.is_compiling() or torch_internals.is_transforming():
        return False
    dtype, device = None, None
    on_gpu = False
    for value in values:
        if value is None:
            continue
        if dtype is None:
            dtype, device = value.dtype, value.device
            on_gpu = is_on_gpu(value)
        # A subclass may mean something else by its numbers.
        if type(value) not in ORDINARY or value.dtype != dtype or value.device != device:
            return False
        # A backward pass after a transform of torch.func still meets the tensors that it wrapped.
        if value.layout != torch.strided or torch_internals.is_wrapped(value):
            return False
    if dtype not in TYPES or not (on_gpu or device == CPU):
        return False
    if not on_gpu:
        return available() is not None and (graph is None or lists_of(graph).fits)
    if available_on_gpu() is None:
        return False
    return graph is None or (graph.device == device and graph.num_edges <= MOST_EDGES_ON_GPU)


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
    """Which numbers a dropout drops.

    Args:
        seed: The two numbers that determine the mask; None for no dropout.
        p: Probability of dropping a number.
        threshold: A position is kept if its hash is not below this number.
    """

    def __init__(self, seed: Tensor | None, p: float, threshold: int) -> None:
        self.seed = seed
        self.p = p
        self.threshold = threshold

    @cached_property
    def _structure(self) -> _Dropout:
        if self.seed is None:
            return _Dropout(None, 0, 0.0)
        return _Dropout(self.seed.data_ptr(), self.threshold, 1 / (1 - self.p))

    @property
    def address(self) -> int:
        """Address of the structure that the C functions read."""
        return ctypes.addressof(self._structure)


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
        self.fits = graph.device.type == "cpu" and rows.ptr.dtype == torch.int32  # as in common.h
        if not self.fits:
            return
        out = rows.transposed_ptr, rows.transposed_target, rows.transposed_order
        into = rows.ptr, rows.source, None
        self._kept: list[Tensor] = []  # the structure holds addresses only
        lists_into, lists_out = self._lists(*into), self._lists(*out)
        self.parts = max(lists_into.parts, lists_out.parts)
        self._structure = _Graph(lists_into, lists_out, graph.num_edges)
        self.graph = ctypes.addressof(self._structure)
        self.into = self.graph + _Graph.into.offset
        self.out = self.graph + _Graph.out.offset

    def _lists(self, ptr: Tensor, neighbour: Tensor, edge: Tensor | None) -> _Lists:
        # Parts of about equal work, whatever the degrees: threads take one after the other.
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


# ---- Calls --------------------------------------------------------------------------------------


def _sizes_of(
    graph: Graph, transposed: bool, tensors: Mapping[str, Tensor | None]
) -> dict[str, int]:
    """The size of every axis of some tensors, by its letter.

    Raises:
        ValueError: A tensor has another shape: a kernel would read what is not there.
    """
    nodes, sources = graph.num_nodes, graph.num_sources
    if transposed:
        nodes, sources = sources, nodes
    sizes = {"N": nodes, "S": sources, "E": graph.num_edges}
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        axes = name.rpartition("_")[2]
        for letter, size in zip(axes, tensor.shape, strict=False):
            sizes.setdefault(letter, size)
        wanted = tuple(sizes.get(letter, letter) for letter in axes)
        if tuple(tensor.shape) != wanted:
            raise ValueError(f"{name} must have the shape {wanted}, not {tuple(tensor.shape)}.")
    return sizes


class _Call:
    """The given tensors of a call and their sizes, and the call of a C function with them.

    Args:
        graph: The graph.
        transposed: Exchange nodes and sources.
        **tensors: The tensors, by names that end with the letters of their axes: ``x_SHC``. Letters
            that the graph does not know take their size from the first tensor that has them.

    Attributes:
        given: The tensors in their order; None for one that is not given.
        graph: Address of the graph's lists of edges.
        edges: Address of the list into the nodes, or, if transposed, out of the sources.

    Raises:
        ValueError: A tensor has another shape: a kernel would read what is not there.
    """

    def __init__(self, graph: Graph, /, transposed: bool = False, **tensors: Any) -> None:
        lists = lists_of(graph)
        self.graph = lists.graph
        self.edges = lists.into
        if transposed:
            self.edges = lists.out
        self.given = tuple(tensors.values())
        self._sizes = _sizes_of(graph, transposed, tensors) | {"P": lists.parts, "2": 2}
        self._dtype = next(each.dtype for each in self.given if each is not None)

    def _shape(self, axes: str) -> torch.Size:
        return torch.Size([self._sizes[letter] for letter in axes])

    def new(self, axes: str) -> Tensor:
        """A tensor for a kernel to write to: all of it, so it is not filled here."""
        return torch.empty(self._shape(axes), dtype=self._dtype)

    def run(self, name: str, lists: int, *arguments: Any, axes: str = "HC") -> None:
        """Call a C function with lists of edges, arguments, and the sizes of its innermost axes."""
        _run(name, self._dtype, lists, *arguments, *self._shape(axes))


def _run(name: str, dtype: torch.dtype, *arguments: Any) -> None:
    """Call a C function for numbers of a type; a tensor becomes the address of its numbers."""
    # Copies of tensors that are not contiguous must live until the function returns.
    held = []
    given = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            held.append(argument.contiguous())
            argument = held[-1].data_ptr()
        given.append(argument)
    _path.functions[dtype][name](*given)


# ---- Sums ---------------------------------------------------------------------------------------


@_or_on_gpu
def sum_rows(weights_EH: Tensor, x_SHC: Tensor, graph: Graph, transposed: bool) -> Tensor:
    """Weighted sum of the rows at the other end of each node's edges."""
    call = _Call(graph, transposed, weights_EH=weights_EH, x_SHC=x_SHC)
    y = call.new("NHC")
    call.run("sum_rows", call.edges, *call.given, y)
    return y


@_or_on_gpu
def sum_edges(values_EH: Tensor, graph: Graph, transposed: bool) -> Tensor:
    """Sum of the values of each node's edges."""
    call = _Call(graph, transposed, values_EH=values_EH)
    y = call.new("NH")
    call.run("sum_edges", call.edges, values_EH, y, axes="H")
    return y


@_or_on_gpu
def dot_rows(query_NHC: Tensor, key_SHC: Tensor, graph: Graph) -> Tensor:
    """The dot product of both ends of each edge."""
    call = _Call(graph, query_NHC=query_NHC, key_SHC=key_SHC)
    s = call.new("EH")
    call.run("dot_rows", call.edges, *call.given, s)
    return s


@_or_on_gpu
def max_edges(values_EH: Tensor, graph: Graph) -> Tensor:
    """The maximum over the edges into each node, -inf where there are none."""
    call = _Call(graph, values_EH=values_EH)
    y = call.new("NH")
    call.run("largest", call.edges, values_EH, y, axes="H")
    return y


# ---- Attention ----------------------------------------------------------------------------------


@_or_on_gpu
def softmax_forward(scores_EH: Tensor, graph: Graph) -> Tensor:
    """Softmax over the edges into each node."""
    call = _Call(graph, scores_EH=scores_EH)
    alpha = call.new("EH")
    call.run("softmax", call.graph, scores_EH, alpha, axes="H")
    return alpha


@_or_on_gpu
def softmax_backward(alpha_EH: Tensor, grad_EH: Tensor, graph: Graph) -> Tensor:
    """The symmetric Jacobian of a softmax, times a gradient or tangent."""
    call = _Call(graph, alpha_EH=alpha_EH, grad_EH=grad_EH)
    out = call.new("EH")
    call.run("softmax_backward", call.graph, *call.given, out, axes="H")
    return out


@_or_on_gpu
def additive_scores(
    x_NHC: Tensor, z_SHC: Tensor, att_HC: Tensor, graph: Graph, slope: float
) -> Tensor:
    """a . LeakyReLU(x_i + z_j) for each edge."""
    call = _Call(graph, x_NHC=x_NHC, z_SHC=z_SHC, att_HC=att_HC)
    s = call.new("EH")
    call.run("additive_scores", call.edges, *call.given, slope, s)
    return s


@_or_on_gpu
def additive_slopes(
    grad_EH: Tensor,
    own_NHC: Tensor,
    other_SHC: Tensor,
    graph: Graph,
    transposed: bool,
    slope: float,
) -> Tensor:
    """The sum of g LeakyReLU'(own_i + other_j) over the edges into each node, or out of it."""
    call = _Call(graph, transposed, grad_EH=grad_EH, own_NHC=own_NHC, other_SHC=other_SHC)
    sums = call.new("NHC")
    call.run("additive_slopes", call.edges, *call.given, slope, sums)
    return sums


@_or_on_gpu
def attend_forward(
    scores_EH: Tensor, x_SHC: Tensor, graph: Graph, dropout: Mask
) -> tuple[Tensor, Tensor]:
    """Sums of the sources weighted by the softmax of scores, and that softmax before dropout."""
    call = _Call(graph, scores_EH=scores_EH, x_SHC=x_SHC)
    alpha, y = call.new("EH"), call.new("NHC")
    call.run("attend", call.graph, *call.given, dropout.address, alpha, y)
    return y, alpha


@_or_on_gpu
def attend_backward(
    grad_NHC: Tensor,
    scores_EH: Tensor,
    x_SHC: Tensor,
    graph: Graph,
    dropout: Mask,
    alpha: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of scores and features."""
    call = _Call(graph, grad_NHC=grad_NHC, x_SHC=x_SHC, alpha_EH=alpha)
    of_scores, of_x = call.new("EH"), call.new("SHC")
    call.run("attend_backward", call.graph, *call.given, dropout.address, of_scores, of_x)
    return of_scores, of_x


@_or_on_gpu
def attend_linear_forward(
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
    call = _Call(graph, x_SHC=x_SHC, dst_HC=dst_HC, src_HC=src_HC, factor_NH=factor_NH)
    of_dst, of_src, alpha = call.new("NH"), call.new("SH"), call.new("EH")
    y = call.new("NHC")
    kept = of_dst, of_src, alpha
    call.run("attend_linear", call.graph, *call.given, slope, dropout.address, *kept, y)
    return y, *kept


@_or_on_gpu
def attend_linear_backward(
    grad_NHC: Tensor,
    x_SHC: Tensor,
    dst_HC: Tensor,
    src_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
    *kept: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of x, both vectors and the factor."""
    call = _Call(
        graph, grad_NHC=grad_NHC, x_SHC=x_SHC, dst_HC=dst_HC, src_HC=src_HC, factor_NH=factor_NH
    )
    # Room for sums; each part of the nodes adds to vectors of its own, so that no thread waits.
    room = call.new("EH"), call.new("NH"), call.new("P2HC")
    of_x, of_vectors = call.new("SHC"), call.new("2HC")
    of_factor = None
    if factor_NH is not None:
        of_factor = call.new("NH")
    out = of_x, of_vectors, of_factor
    given = *call.given, slope, dropout.address, *kept
    call.run("attend_linear_backward", call.graph, *given, *room, *out)
    return of_x, of_vectors[0], of_vectors[1], of_factor


# Where both ends of the edges have the same features x is z, and None is given for it: a tensor
# that is given twice would get two gradients, while the kernel adds them up in one.


@_or_on_gpu
def attend_additive_forward(
    x_NHC: Tensor | None,
    z_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
) -> tuple[Tensor, Tensor]:
    """Attention with additive scores, and their softmax before dropout."""
    if x_NHC is None:
        x_NHC = z_SHC
    call = _Call(graph, x_NHC=x_NHC, z_SHC=z_SHC, att_HC=att_HC, factor_NH=factor_NH)
    alpha, y = call.new("EH"), call.new("NHC")
    call.run("attend_additive", call.graph, *call.given, slope, dropout.address, alpha, y)
    return y, alpha


@_or_on_gpu
def attend_additive_backward(
    grad_NHC: Tensor,
    x_NHC: Tensor | None,
    z_SHC: Tensor,
    att_HC: Tensor,
    factor_NH: Tensor | None,
    graph: Graph,
    slope: float,
    dropout: Mask,
    alpha: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of x, if it is not z, of z, the vectors and the factor."""
    is_one = x_NHC is None
    if x_NHC is None:
        x_NHC = z_SHC
    call = _Call(
        graph, grad_NHC=grad_NHC, x_NHC=x_NHC, z_SHC=z_SHC, att_HC=att_HC, factor_NH=factor_NH
    )
    room = call.new("EH"), call.new("EH"), call.new("PHC")
    of_z, of_att = call.new("SHC"), call.new("HC")
    of_x = of_z
    if not is_one:
        of_x = call.new("NHC")
    of_factor = None
    if factor_NH is not None:
        of_factor = call.new("NH")
    out = of_x, of_z, of_att, of_factor
    given = *call.given, slope, dropout.address, alpha
    # Then one pass over the edges into each node does what otherwise takes a second one, over those
    # out of it.
    is_symmetric = is_one and graph.reverse is not None
    call.run("attend_additive_backward", call.graph, *given, *room, *out, is_symmetric)
    if is_one:
        return None, of_z, of_att, of_factor
    return out


# ---- Sizes --------------------------------------------------------------------------------------


@_or_on_gpu
def sizes_forward(
    x_NHC: Tensor | None, z_SHC: Tensor, graph: Graph, tiny: float
) -> tuple[Tensor, ...]:
    """The size of each node and its largest neighbour together, and what the backward pass needs:
    it again, the squares of the sources and the largest of them."""
    is_one = x_NHC is None
    if x_NHC is None:
        x_NHC = z_SHC
    call = _Call(graph, x_NHC=x_NHC, z_SHC=z_SHC)
    of_z, most, size = call.new("SH"), call.new("NH"), call.new("NH")
    of_x = of_z
    if not is_one:
        of_x = call.new("NH")
    call.run("sizes", call.graph, *call.given, tiny, of_x, of_z, most, size)
    return size, size, of_z, most


@_or_on_gpu
def sizes_backward(
    grad_NH: Tensor,
    x_NHC: Tensor | None,
    z_SHC: Tensor,
    graph: Graph,
    tiny: float,
    size: Tensor,
    of_z: Tensor,
    most: Tensor,
) -> tuple[Tensor | None, Tensor]:
    """The gradients of x, if it is not z, and of z."""
    is_one = x_NHC is None
    if x_NHC is None:
        x_NHC = z_SHC
    call = _Call(graph, grad_NH=grad_NH, x_NHC=x_NHC, z_SHC=z_SHC)
    room = call.new("NH"), call.new("NH")
    grad_z = call.new("SHC")
    grad_x = grad_z
    if not is_one:
        grad_x = call.new("NHC")
    call.run("sizes_backward", call.graph, *call.given, of_z, most, size, *room, grad_x, grad_z)
    if is_one:
        return None, grad_z
    return grad_x, grad_z


# ---- Blocks, activations and dropout ------------------------------------------------------------


def block_forward(
    x_NI: Tensor,
    weight_OI: Tensor,
    bias_O: Tensor | None,
    weights_E: Tensor,
    graph: Graph,
    relu: bool,
    residual: bool,
) -> tuple[Tensor, Tensor | None]:
    """A block of a convolution with fixed weights, and the signs that its ReLU reads."""
    call = _Call(graph, x_NI=x_NI, weight_OI=weight_OI, bias_O=bias_O, weights_E=weights_E)
    y = call.new("NO")
    if residual and y.shape != x_NI.shape:
        raise ValueError(f"a block of {x_NI.shape[1]} channels cannot add {y.shape[1]} to them.")
    signs = None
    if relu:
        # At least 4 numbers share a vector, and each vector has 16 bits.
        signs = torch.empty(y.numel() // 4, dtype=torch.int16)
    given = weights_E, x_NI, weight_OI.t(), bias_O
    call.run("block", call.graph, *given, relu, residual, signs, y, axes="IO")
    return y, signs


def block_backward(
    grad_NO: Tensor,
    x_NI: Tensor,
    weight_OI: Tensor,
    bias_O: Tensor | None,
    weights_E: Tensor,
    graph: Graph,
    relu: bool,
    residual: bool,
    signs: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of x, the weight and the bias; the weights of the edges have none."""
    call = _Call(graph, weights_E=weights_E, grad_NO=grad_NO, x_NI=x_NI, weight_OI=weight_OI)
    on_nodes = None
    if relu:
        on_nodes = call.new("NO")
    # The gradients of weight and bias lie one after the other, once for each group and in total.
    numbers = weight_OI.numel()
    size = numbers + len(weight_OI)
    of_groups, of_both = grad_NO.new_empty(GROUPS, size), grad_NO.new_empty(size)
    of_x = call.new("NI")
    out = on_nodes, of_groups, of_x, of_both
    call.run("block_backward", call.graph, *call.given, signs, residual, *out, axes="IO")
    of_bias = None
    if bias_O is not None:
        of_bias = of_both[numbers:]
    return of_x, of_both[:numbers].view_as(weight_OI), of_bias, None


# These three treat every number by itself, so that any shape will do.


def elu_forward(x: Tensor) -> tuple[Tensor, Tensor]:
    """ELU of a tensor, twice: the backward pass reads the output."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _run("elu", x.dtype, x, y, x.numel())
    return y, y


def elu_backward(grad: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor]:
    """The gradient of the input of an ELU, given its output."""
    of_x = torch.empty_like(y, memory_format=torch.contiguous_format)
    _run("elu_backward", y.dtype, grad, y, of_x, y.numel())
    return (of_x,)


@_or_on_gpu
def drop_by_hash(x: Tensor, dropout: Mask) -> Tensor:
    """Dropout of a tensor, by the hash of each position."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    _run("drop", x.dtype, dropout.address, x, y, x.numel())
    return y
