"""The kernels as functions of tensors, without derivatives: ``gnn_depth.nn.functional`` adds those.

A kernel computes what the functions there compute. :func:`serve` says whether it may: for
float32 and float64 in the memory of a CPU or an NVIDIA GPU, outside the compiler and transforms of
``torch.func``. Kernels for CPUs are in C++ and called from here; those for GPUs are in ``gpu.py``.
"""

# N nodes (targets), S sources, E edges, H heads, C channels; of a block I inputs, O outputs,
# G groups and B numbers of weight and bias; P parts of the nodes, 2 vectors, M numbers of any
# tensor

import ctypes
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import product
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from gnn_depth import torch_internals
from gnn_depth.graph import Graph
from gnn_depth.nn.native import build

log = logging.getLogger("gnn_depth")

#: Work of a part of the nodes: an edge is 1, and a node as much as this many edges.
WORK, WORK_OF_NODE, MOST_PARTS = 1024, 4, 64
CPU = torch.device("cpu")
#: A loop of a kernel for GPUs counts a few edges further than there are.
MOST_EDGES_ON_GPU = 2**31 - 2**10
#: The C functions' names end with the type of their numbers.
TYPES = {torch.float32: "float", torch.float64: "double"}
#: The axis of a tensor of any shape.
ANY = "M"
#: The groups that block.cpp sums the gradient of the weights in, and the widths that it takes.
GROUPS, WIDTHS = 16, range(16, 257, 16)


def _load_on_cpu() -> str:
    key, libraries = build.load_kernels()
    for kernel in KERNELS:
        kernel.load(libraries)
    return key


def _load_on_gpu() -> str:
    if torch.version.hip is not None:
        raise build.NoKernelsError("they were written for NVIDIA's GPUs, and this is AMD's")
    module = _gpu_module()
    if not torch.cuda.is_available():  # Triton's interpreter runs them
        return ""
    module.try_out()
    key: str = module.key()
    return key


@cache
def _gpu_module() -> Any:
    return import_module("gnn_depth.nn.native.gpu")  # needs Triton


#: By the type of the device: they compile or import kernels, and return the key of these.
LOADERS = {"cpu": _load_on_cpu, "cuda": _load_on_gpu}
_LOCK = Lock()
_are_wanted = True  # by this process: see use


@cache  # a failed attempt is not repeated at every call
def _found(device: str) -> tuple[str | None, str]:
    """The key of the kernels for a type of device, or None and the reason why there are none."""
    if device not in LOADERS:
        return None, ""
    if build.is_switched_off():  # who has switched them off needs no warning
        return None, f"{build.SWITCH} is off"
    try:
        return LOADERS[device](), ""
    except Exception as error:  # Triton's and its compilers' are of many kinds
        reason = str(error).partition("\n")[0]
        if not isinstance(error, build.NoKernelsError):
            reason = f"{type(error).__name__}: {reason}"
        log.warning("no native kernels, so layers run on PyTorch alone: %s", reason)
        return None, reason


def is_on_gpu(x: Tensor) -> bool:
    """True if kernels for GPUs compute with a tensor."""
    return x.is_cuda


def available_for(device: torch.device = CPU) -> str | None:
    """The key of the kernels that compute on a device, compiled now if need be; None if PyTorch
    computes instead.

    It names the source, the compiler and the processor that they were compiled from and for.
    """
    if not _are_wanted:
        return None
    with _LOCK:
        return _found(device.type)[0]


def why_not(device: torch.device = CPU) -> str:
    """The reason why there are no kernels for a device."""
    with _LOCK:
        return _found(device.type)[1]


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
    global _are_wanted
    before, _are_wanted = _are_wanted, wanted
    return before


def serve(values: Sequence[Tensor | None], graph: Graph | None = None, *_: Any) -> bool:
    """True if the kernels compute with these tensors, all of one type, on this graph.

    None stands for a tensor that is not given; without a graph the tensors alone decide.
    """
    if torch_internals.is_traced():
        return False
    given = [value for value in values if value is not None]
    dtype, device = given[0].dtype, given[0].device
    for value in given:
        # A backward pass after a transform of torch.func still meets the tensors that it wrapped.
        if value.dtype != dtype or value.device != device or not torch_internals.is_ordinary(value):
            return False
    on = torch.device("cuda") if is_on_gpu(given[0]) else device
    if dtype not in TYPES or available_for(on) is None:
        return False
    if graph is None:
        return True
    if on.type == "cuda":
        return graph.device == device and graph.num_edges <= MOST_EDGES_ON_GPU
    return lists_of(graph).fits


def serve_on_cpu(values: Sequence[Tensor | None], graph: Graph | None = None, *_: Any) -> bool:
    """:func:`serve`, for a kernel that only CPUs have: no timed model was faster with it on a
    GPU (docs/speed.md)."""
    if any(is_on_gpu(value) for value in values if value is not None):
        return False
    return serve(values, graph)


def on_gpu(name: str) -> Callable[..., Any]:
    """A kernel that only GPUs have; Triton is imported at its first call."""
    return lambda *given: getattr(_gpu_module(), name)(*given)


# ---- Structures that the C functions read -------------------------------------------------------


class _Lists(ctypes.Structure):
    _fields_ = [
        ("ptr", ctypes.c_void_p),
        ("neighbour", ctypes.c_void_p),
        ("edge", ctypes.c_void_p),
        ("part", ctypes.c_void_p),
        ("parts", ctypes.c_int64),
        ("nodes", ctypes.c_int64),
    ]


class _Graph(ctypes.Structure):
    _fields_ = [("into", _Lists), ("out", _Lists), ("edges", ctypes.c_int64)]


class GraphLists:
    """The edges into and out of each node, as the kernels read them.

    Attributes:
        fits: False if the kernels cannot: on another device, or with too many edges for int32.
        parts: The larger number of parts of the nodes.
        graph: Address of the structure; into, out: addresses of its lists.
    """

    def __init__(self, graph: Graph) -> None:
        rows = graph.rows
        is_read = graph.device == CPU and torch_internals.is_ordinary(graph.source)
        self.fits = is_read and rows.ptr.dtype == torch.int32  # as in common.h
        if not self.fits:
            return
        self._kept: list[Tensor] = []  # the structure holds addresses only
        into, out = self._lists(*rows.csr(False)), self._lists(*rows.csr(True))
        self.parts = max(into.parts, out.parts)
        self._structure = _Graph(into, out, graph.num_edges)
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


# ---- The kernels --------------------------------------------------------------------------------

KERNELS: list["Kernel"] = []


class Kernel:
    """A C function, by the names of what it takes and gives.

    A name ends with the letters of a tensor's axes: ``x_SHC``. Of a name without them the tensor is
    not checked. ``graph`` is a graph, ``edges`` its list of edges into the nodes, or out of the
    sources if ``transposed``; a letter is the size of an axis.

    Args:
        name: Of the C function, without the type of its numbers, and of that for GPUs.
        takes: What a call takes, in order.
        passes: What the C function takes, in order. Tensors that are not given are made: it writes
            all of them. ``of_x_NHC`` is the gradient of ``x_NHC``, and is not computed if that is
            None.
        gives: What a call returns.
    """

    def __init__(self, name: str, takes: str, passes: str, gives: str) -> None:
        KERNELS.append(self)
        self.name = name
        self.takes = takes.split()
        self.passes = passes.split()
        self.gives = gives.split()
        self.functions: dict[torch.dtype, Any] = {}

    def load(self, libraries: list[ctypes.CDLL]) -> None:
        """Find the C functions, each of which is in one of the libraries."""
        # Without them ctypes would pass every number as an int of 32 bits.
        argument_types = [C_TYPES.get(name, ctypes.c_void_p) for name in self.passes]
        for (dtype, suffix), library in product(TYPES.items(), libraries):
            function = getattr(library, f"{self.name}_{suffix}", None)
            if function is not None:  # a block has none for doubles
                function.argtypes, function.restype = argument_types, None
                self.functions[dtype] = function

    def __call__(self, *arguments: Any) -> Any:
        first = next(each for each in arguments if isinstance(each, Tensor))
        values = dict(zip(self.takes, arguments, strict=False))
        sizes = self._sizes(values)
        if is_on_gpu(first):
            return getattr(_gpu_module(), self.name)(*arguments)
        # Where both ends of the edges have the same features, x is z and None is given for it: a
        # tensor that is given twice would get two gradients, while a kernel adds them up in one.
        is_one = values.get("x_NHC", first) is None
        if "graph" in values:
            graph = values["graph"]
            lists = lists_of(graph)
            sizes["P"], sizes["2"] = lists.parts, 2
            if "O" in sizes:
                sizes["G"], sizes["B"] = GROUPS, sizes["O"] * (sizes["I"] + 1)
            values["graph"], values["edges"] = lists.graph, lists.into
            if values.get("transposed"):
                values["edges"] = lists.out
            # Then one pass over the edges into each node does what otherwise takes a second one,
            # over those out of it.
            values["symmetric"] = is_one and graph.reverse is not None
        # Copies of tensors that are not contiguous must live until the function returns.
        held: list[Tensor] = []
        given: list[Any] = []
        value: Any
        for name in self.passes:
            axes = _axes(name)
            if is_one:
                name = name.replace("x_N", "z_S")
            if name in sizes:
                value = sizes[name]
            elif name in values:
                value = values[name]
            elif name.startswith("of_") and values.get(name[3:], first) is None:
                value = None
            else:
                shape = list(first.shape)
                if axes != ANY:
                    shape = [sizes[letter] for letter in axes]
                value = values[name] = first.new_empty(shape)  # also where "meta" is the default
            if isinstance(value, Tensor):
                value = value.contiguous()
                held.append(value)
                value = value.data_ptr()
            given.append(value)
        self.functions[first.dtype](*given)
        found: list[Tensor | None] = []
        for name in self.gives:
            if name.endswith("_2HC"):
                found.extend(values[name])
            else:
                found.append(values.get(name))
        if len(found) == 1:
            return found[0]
        return tuple(found)

    def _sizes(self, values: dict[str, Any]) -> dict[str, int]:
        """The size of every axis of the given tensors, by its letter.

        Letters that the graph does not know take their size from the first tensor that has them.

        Raises:
            ValueError: A tensor has another shape: a kernel would read what is not there.
        """
        sizes: dict[str, int] = {}
        if "graph" in values:
            graph = values["graph"]
            nodes, sources = graph.num_nodes, graph.num_sources
            if values.get("transposed"):
                nodes, sources = sources, nodes
            sizes = {"N": nodes, "S": sources, "E": graph.num_edges}
        for name, tensor in values.items():
            axes = _axes(name)
            if not axes or tensor is None:
                continue
            shape = tuple(tensor.shape)
            if axes == ANY:
                shape = (tensor.numel(),)
            for letter, size in zip(axes, shape, strict=False):
                sizes.setdefault(letter, size)
            wanted = tuple([sizes.get(letter, letter) for letter in axes])
            if shape != wanted:
                raise ValueError(f"{name} must have the shape {wanted}, not {shape}.")
        return sizes


_I, _D = ctypes.c_int64, ctypes.c_double
#: The types of what is no address.
C_TYPES = dict.fromkeys((*"HCIOM", "symmetric", "relu", "residual"), _I) | {"slope": _D, "tiny": _D}


@cache
def _axes(name: str) -> str:
    """The letters of a tensor's axes, at the end of its name; empty if it has none."""
    axes = name.rpartition("_")[2]
    if axes.upper() == axes:
        return axes
    return ""


#: Weighted sum of the rows at the other end of each node's edges.
sum_rows = Kernel(
    "sum_rows",
    "weights_EH x_SHC graph transposed",
    "edges weights_EH x_SHC y_NHC H C",
    "y_NHC",
)
#: Sum of the values of each node's edges.
sum_edges = Kernel("sum_edges", "values_EH graph transposed", "edges values_EH y_NH H", "y_NH")
#: The dot product of both ends of each edge.
dot_rows = Kernel("dot_rows", "query_NHC key_SHC graph", "edges query_NHC key_SHC s_EH H C", "s_EH")
#: The maximum over the edges into each node, -inf where there are none.
max_edges = Kernel("largest", "values_EH graph", "edges values_EH y_NH H", "y_NH y_NH")
#: Softmax over the edges into each node, twice.
softmax_forward = Kernel(
    "softmax", "scores_EH graph", "graph scores_EH alpha_EH H", "alpha_EH alpha_EH"
)
#: The symmetric Jacobian of a softmax, times a gradient.
softmax_backward = Kernel(
    "softmax_backward",
    "grad_EH scores_EH graph alpha_EH",
    "graph alpha_EH grad_EH out_EH H",
    "out_EH",
)
#: a . LeakyReLU(x_i + z_j) for each edge.
additive_scores = Kernel(
    "additive_scores",
    "x_NHC z_SHC att_HC graph slope",
    "edges x_NHC z_SHC att_HC slope s_EH H C",
    "s_EH",
)
#: The sum of g LeakyReLU'(own_i + other_j) over the edges into each node, or out of it.
additive_slopes = Kernel(
    "additive_slopes",
    "grad_EH own_NHC other_SHC graph transposed slope",
    "edges grad_EH own_NHC other_SHC slope sums_NHC H C",
    "sums_NHC",
)

# A forward function returns the output and what its backward function takes last: on a CPU the
# softmax before dropout. That is not checked, and differs between CPUs and GPUs.

#: Sums of the sources weighted by the softmax of scores.
attend_forward = Kernel(
    "attend",
    "scores_EH x_SHC graph dropout",
    "graph scores_EH x_SHC dropout alpha_EH y_NHC H C",
    "y_NHC alpha_EH",
)
attend_backward = Kernel(
    "attend_backward",
    "grad_NHC scores_EH x_SHC graph dropout alpha",
    "graph grad_NHC x_SHC alpha dropout of_scores_EH of_x_SHC H C",
    "of_scores_EH of_x_SHC",
)
#: Attention with linear scores; both parts of the scores are kept too.
attend_linear_forward = Kernel(
    "attend_linear",
    "x_SHC dst_HC src_HC factor_NH graph slope dropout",
    "graph x_SHC dst_HC src_HC factor_NH slope dropout by_dst_NH by_src_SH alpha_EH y_NHC H C",
    "y_NHC by_dst_NH by_src_SH alpha_EH",
)
#: Rooms for sums come before the gradients; each part of the nodes adds to vectors of its own, so
#: that no thread waits.
attend_linear_backward = Kernel(
    "attend_linear_backward",
    "grad_NHC x_SHC dst_HC src_HC factor_NH graph slope dropout by_dst by_src alpha",
    "graph grad_NHC x_SHC dst_HC src_HC factor_NH slope dropout by_dst by_src alpha "
    "room_EH room_NH room_P2HC of_x_SHC of_vectors_2HC of_factor_NH H C",
    "of_x_SHC of_vectors_2HC of_factor_NH",
)
#: Attention with additive scores.
attend_additive_forward = Kernel(
    "attend_additive",
    "x_NHC z_SHC att_HC factor_NH graph slope dropout",
    "graph x_NHC z_SHC att_HC factor_NH slope dropout alpha_EH y_NHC H C",
    "y_NHC alpha_EH",
)
attend_additive_backward = Kernel(
    "attend_additive_backward",
    "grad_NHC x_NHC z_SHC att_HC factor_NH graph slope dropout alpha",
    "graph grad_NHC x_NHC z_SHC att_HC factor_NH slope dropout alpha room_EH more_EH room_PHC "
    "of_x_NHC of_z_SHC of_att_HC of_factor_NH symmetric H C",
    "of_x_NHC of_z_SHC of_att_HC of_factor_NH",
)
#: The size of each node and its largest neighbour together; kept are it again, the squares of the
#: sources and the largest of them.
sizes_forward = Kernel(
    "sizes",
    "x_NHC z_SHC graph tiny",
    "graph x_NHC z_SHC tiny squares_x_NH squares_z_SH most_NH size_NH H C",
    "size_NH size_NH squares_z_SH most_NH",
)
sizes_backward = Kernel(
    "sizes_backward",
    "grad_NH x_NHC z_SHC graph tiny size squares most",
    "graph grad_NH x_NHC z_SHC squares most size room_NH more_NH of_x_NHC of_z_SHC H C",
    "of_x_NHC of_z_SHC",
)
_block = Kernel(
    "block",
    "x_NI weight_IO bias_O weights_E graph relu residual signs",
    "graph weights_E x_NI weight_IO bias_O relu residual signs y_NO I O",
    "y_NO",
)
_block_backward = Kernel(
    "block_backward",
    "grad_NO x_NI weight_OI weights_E graph residual signs",
    "graph weights_E grad_NO x_NI weight_OI signs residual room_NO room_GB of_x_NI of_both_B I O",
    "of_x_NI of_both_B",
)
#: ELU, twice: the backward pass reads the output. These three treat every number by itself, so
#: that any shape will do.
elu_forward = Kernel("elu", "x_M", "x_M y_M M", "y_M y_M")
elu_backward = Kernel("elu_backward", "grad_M x_M y_M", "grad_M y_M of_x_M M", "of_x_M")
#: Dropout of a tensor, by the hash of each position.
drop = Kernel("drop", "x_M dropout", "dropout x_M y_M M", "y_M")


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
    if residual and weight_OI.shape[0] != x_NI.shape[1]:
        raise ValueError(
            f"a block of {x_NI.shape[1]} channels cannot add {weight_OI.shape[0]} to them."
        )
    signs = None
    if relu:
        # At least 4 numbers share a vector, and each vector has 16 bits.
        signs = torch.empty(x_NI.shape[0] * weight_OI.shape[0] // 4, dtype=torch.int16)
    y: Tensor = _block(x_NI, weight_OI.t(), bias_O, weights_E, graph, relu, residual, signs)
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
    given = grad_NO, x_NI, weight_OI, weights_E, graph, residual, signs
    # Those of the weight and the bias lie one after the other.
    of_x, of_both = _block_backward(*given)
    numbers = weight_OI.numel()
    of_bias = None if bias_O is None else of_both[numbers:]
    return of_x, of_both[:numbers].view_as(weight_OI), of_bias, None
