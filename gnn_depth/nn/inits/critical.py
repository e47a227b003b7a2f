"""The initialisation at the transition between states that become equal and states that stay
apart."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn
from torch_geometric.utils import to_scipy_sparse_matrix

from gnn_depth.graph import Graph
from gnn_depth.nn.inits.matrices import draw_layers
from gnn_depth.nn.parts import Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import described, register

POINTS = 4000  # of an expected value on either side of 0
NEAREST, FARTHEST = 1e-7, 12.0  # of these points from 0
DENSE = 64  # nodes up to which all eigenvalues are computed
LOWEST, HIGHEST = 1e-8, 1e6  # variances of a state among which one is looked for
GRID = 300  # of these variances are tried
STEPS = 60  # of the bisection, each of which halves the interval between two of them


@register("init", "critical")
class Critical(Init):
    r"""Critical initialisation: the smallest weights with which nodes do not become equal.

    Weights of a layer from n channels are drawn from :math:`N(0, \sigma^2 / n)`, and biases are
    zero. In a wide network of many layers, states that are equal at all nodes have a variance k
    before the activation, and small differences between nodes change in each layer by at most a
    factor :math:`\chi`:

    .. math::
        k = \sigma^2 \, E[\phi(\sqrt k z)^2], \qquad
        \chi = \sigma^2 \, E[\phi'(\sqrt k z)^2] \, \lambda_2^2, \qquad z \sim N(0, 1)

    where :math:`\phi` is the stack's activation, and :math:`\lambda_2` the second largest absolute
    eigenvalue of :math:`\hat A` of :class:`gnn_depth.nn.layers.GCN` on the largest component.
    Sigma is the smallest with :math:`\chi = 1`: with smaller weights all nodes become equal.
    Epping, René, Helias & Schaub, *Graph Neural Networks Do Not Always Oversmooth*, NeurIPS 2024,
    derive it for an error function and a propagation whose rows sum to 1. Other activations,
    :math:`\hat A` on graphs of several degrees, and other layers are an extrapolation. An
    activation that saturates, such as ``tanh``, always has such weights. With ReLU there are none:
    the states grow as fast as their differences.

    Encoder and decoder are drawn as PyTorch does. The graph is that of the first pass: with
    mini-batches, that of the first one.

    Raises:
        ValueError: On a call, a layer has no weight chain; in the first pass, the graph is not
            undirected, or no weights have chi = 1.
    """

    needs_data = True

    def draw(self, stack: DeepGNN) -> None:
        draw_layers(stack, nn.init.normal_)  # variance 1 until the graph is known

    def calibrate(self, stack: DeepGNN, x: Tensor, graph: Graph) -> None:
        name = described(type(self))
        propagation = _propagation(graph)
        if abs(propagation - propagation.T).max() > 1e-6:
            raise ValueError(f"{name} needs an undirected graph, with equal weights both ways.")
        eigenvalue = second_eigenvalue(propagation)
        variance = critical_variance(stack.activation, eigenvalue)
        if variance is None:
            activation = stack.activation.__name__
            raise ValueError(
                f"{name} finds no weights that keep nodes apart on this graph (second eigenvalue "
                f"{eigenvalue:.3g}) with the activation {activation}: use one that saturates, such "
                "as tanh."
            )
        for layer in dict.fromkeys(stack.layers):  # a shared layer once
            assert isinstance(layer, Layer)
            for weight in layer.weight_chain().matrices:
                weight.mul_((variance / layer.in_channels) ** 0.5)


def _propagation(graph: Graph) -> csr_matrix:
    r"""The matrix :math:`\hat A` of a graph."""
    graph = graph.with_self_loops()
    weights = graph.gcn_weights(torch.float64)
    # There the rows are the sources.
    edges = graph.edge_index.flip(0)
    return to_scipy_sparse_matrix(edges, weights, graph.num_nodes).tocsr()


def second_eigenvalue(propagation: csr_matrix) -> float:
    """The second largest absolute eigenvalue of a symmetric matrix on its largest component.

    Components do not mix, so each has a largest eigenvalue of its own.
    """
    _, component = connected_components(propagation, directed=False)
    inside = np.flatnonzero(component == np.bincount(component).argmax())
    block = propagation[inside][:, inside]
    if len(inside) == 1:
        return 0.0
    if len(inside) <= DENSE:
        eigenvalues = np.linalg.eigvalsh(block.toarray())
    else:
        # The start decides on the last digits: the same numbers on every call.
        eigenvalues = eigsh(block, k=2, which="LM", v0=np.ones(len(inside)))[0]
    return float(np.sort(np.abs(eigenvalues))[-2])


def critical_variance(activation: Callable[[Tensor], Tensor], eigenvalue: float) -> float | None:
    r"""The variance :math:`\sigma^2` with :math:`\chi = 1`; None if there is none.

    Both equations are solved for sigma at a given k, and the smallest k with chi = 1 is taken.
    """
    # Denser towards 0: the slope of an activation that saturates is 0 for all but small z.
    positive = torch.logspace(np.log10(NEAREST), np.log10(FARTHEST), POINTS, dtype=torch.float64)
    z = torch.cat([-positive.flip(0), positive])
    gaps = torch.cat([z.diff()[:1], z.diff()[1:] + z.diff()[:-1], z.diff()[-1:]])
    density = gaps * torch.exp(-z.square() / 2)
    density = density / density.sum()

    def at(k: float) -> tuple[float, float]:
        """The variance of the weights whose states have variance k, and their chi."""
        with torch.enable_grad():
            state = (k**0.5 * z).requires_grad_()
            value = activation(state)
            (slope,) = torch.autograd.grad(value.sum(), state)
        variance = k / float(density @ value.detach().square())
        return variance, variance * float(density @ slope.square()) * eigenvalue**2

    low, high = LOWEST, LOWEST
    for trial in np.geomspace(LOWEST, HIGHEST, GRID).tolist():
        high = trial
        if at(high)[1] >= 1:
            break
        low = high
    else:
        return None
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        if at(middle)[1] < 1:
            low = middle
        else:
            high = middle
    return at(high)[0]
