"""The size of neighbourhoods, which norms of attention scores divide by."""

# N nodes, S sources, H heads, C channels

from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.rules import by_kernel
from gnn_depth.nn.functional.segments import at_source, segment_max
from gnn_depth.nn.native import kernels
from gnn_depth.nn.shapes import NodesHeads, NodesHeadsChannels, SourcesHeadsChannels

# Rows underflow to zero in deep stacks, where the derivative of the square root is infinite.
TINY = 1e-20


def neighbourhood_size(
    x_dst: NodesHeadsChannels,
    x_src: SourcesHeadsChannels,
    graph: Graph,
) -> NodesHeads:
    r"""The size of each node and its largest neighbour together.

    .. math:: r_i = \max_{j \to i} \sqrt{\|x^{dst}_i\|^2 + \|x^{src}_j\|^2}

    It is :math:`\|x^{dst}_i\|` for a node without neighbours. Of several largest ones each gets an
    equal share of the gradient.
    """
    own = None if x_dst is x_src else x_dst
    return _sizes(own, x_src, graph, TINY)


def _sizes_composed(x_dst: Tensor | None, x_src: Tensor, graph: Graph, tiny: float) -> Tensor:
    of_src = of_dst = square(x_src)
    if x_dst is not None:  # the ends have features of their own
        of_dst = square(x_dst)
    return (of_dst + largest_source(of_src, graph) + tiny).sqrt()


def square(x: NodesHeadsChannels) -> NodesHeads:
    """The squared norm of every row."""
    return x.square().sum(-1)


def root(square: NodesHeads) -> NodesHeads:
    """The square root, with a finite derivative at zero."""
    return (square + TINY).sqrt()


def _largest_composed(square: Tensor, graph: Graph) -> Tensor:
    return segment_max(at_source(square, graph), graph).clamp_min(0)


def _serve_on_gpu(given: tuple[Tensor], graph: Graph) -> bool:
    return kernels.is_on_gpu(given[0]) and kernels.serve(given, graph)


#: largest_source(squares, graph): the largest of some squares, (sources, heads), among the sources
#: of each node; zero where there is none.
largest_source = by_kernel(
    _largest_composed,
    _serve_on_gpu,
    kernels.on_gpu("largest"),
    kernels.on_gpu("largest_backward"),
    1,
)
_sizes = by_kernel(
    _sizes_composed,
    kernels.serve_on_cpu,
    kernels.sizes_forward,
    kernels.sizes_backward,
    2,
)
