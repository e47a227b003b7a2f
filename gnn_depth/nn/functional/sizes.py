"""The size of neighbourhoods, which norms of attention scores divide by."""

# N nodes, S sources, H heads, C channels

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.rules import by_kernel
from gnn_depth.nn.functional.segments import at_source, segment_max
from gnn_depth.nn.native import kernels

# Rows underflow to zero in deep stacks, where the derivative of the square root is infinite.
TINY = 1e-20


def neighbourhood_size(
    x_dst: Float[Tensor, "nodes heads channels"],
    x_src: Float[Tensor, "sources heads channels"],
    graph: Graph,
) -> Float[Tensor, "nodes heads"]:
    r"""The size of each node and its largest neighbour together.

    .. math:: r_i = \max_{j \to i} \sqrt{\|x^{dst}_i\|^2 + \|x^{src}_j\|^2}

    It is :math:`\|x^{dst}_i\|` for a node without neighbours. Of several largest ones each gets an
    equal share of the gradient.
    """
    if not kernels.serve_on_cpu(graph, x_dst, x_src):
        return _sizes(x_dst, x_src, graph, TINY)
    own: Tensor | None = x_dst
    if x_dst is x_src:
        own = None
    return _sizes_by_kernel(own, x_src, graph, TINY)


def _sizes(x_dst: Tensor | None, x_src: Tensor, graph: Graph, tiny: float) -> Tensor:
    of_src = of_dst = square(x_src)
    if x_dst is not None and x_dst is not x_src:  # the ends have features of their own
        of_dst = square(x_dst)
    return (of_dst + largest_source(of_src, graph) + tiny).sqrt()


def square(x: Float[Tensor, "nodes heads channels"]) -> Float[Tensor, "nodes heads"]:
    """The squared norm of every row."""
    return x.square().sum(-1)


def root(square: Float[Tensor, "nodes heads"]) -> Float[Tensor, "nodes heads"]:
    """The square root, with a finite derivative at zero."""
    return (square + TINY).sqrt()


def largest_source(
    square: Float[Tensor, "sources heads"], graph: Graph
) -> Float[Tensor, "targets heads"]:
    """The largest of some squares among the sources of each node; zero where there is none."""
    if kernels.is_on_gpu(square) and kernels.serve(graph, square):
        return _largest_by_kernel(square, graph)
    return _largest_source(square, graph)


def _largest_source(square: Tensor, graph: Graph) -> Tensor:
    return segment_max(at_source(square, graph), graph).clamp_min(0)


_largest_by_kernel = by_kernel(
    _largest_source, kernels.largest_on_gpu, kernels.largest_on_gpu_backward, 1
)
_sizes_by_kernel = by_kernel(_sizes, kernels.sizes_forward, kernels.sizes_backward, 2)
