"""VirGo: an initialisation that reads the graph and the features."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from gnn_depth import DeepGNN, Graph, Init, register
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.inits.matrices import draw_layers
from gnn_depth.registry import described

Direction: TypeAlias = Literal["both", "forward", "backward"]


@register("init", "virgo")
class VirGo(Init):
    r"""VirGo: weights whose variance makes up for what this graph does to states and gradients.

    The matrices of layer l of L are drawn from :math:`U(-\sqrt{3 c_l}, \sqrt{3 c_l})`, hence with
    variance :math:`c_l`. With the mean :math:`\bar x` of each node's features, ones
    :math:`\mathbf 1` for all N nodes, :math:`\hat A` of :class:`gnn_depth.nn.layers.GCN`, and a
    layer from n to m channels,

    .. math::
        c^{for}_l = \frac{2}{n}
        \frac{\|\hat A^{l-1} \bar x\|^2}{\|\hat A^l \bar x\|^2}, \qquad
        c^{back}_l = \frac{2}{m}
        \frac{\|\hat A^{L-l} \mathbf 1\|^2}{\|\hat A^{L-l+1} \mathbf 1\|^2}

    but :math:`c^{for}_1 = 2 / n`, and :math:`c^{back}_L = N / ((m - 1) \|\hat A \mathbf 1\|^2)` for
    a last layer that gives the class scores. ``both`` is their harmonic mean. Li et al., *On the
    Initialization of Graph Neural Networks*, ICML 2023, derive it for GCNs with ReLUs, and use the
    same :math:`\hat A` for other layers. They have neither encoder nor decoder; ours are drawn as
    PyTorch does, and layers between them follow the general formulas. Attention parameters and
    others of a layer are drawn as PyTorch Geometric does; biases of a layer are zero.

    The graph and the features are those of the first pass: with full batches, all; with
    mini-batches, those of the first one.

    Args:
        direction: ``forward`` keeps the variance of states, ``backward`` that of gradients.

    Raises:
        ValueError: On a call, a layer has no weight chain or stands at several positions; in the
            first pass, features are integers or have a mean of zero at every node.
    """

    needs_data = True

    def __init__(self, direction: Direction = "both") -> None:
        self.direction = direction

    def draw(self, stack: DeepGNN) -> None:
        layers = list(stack.layers)
        if len(set(layers)) < len(layers):
            raise ValueError(
                f"{described(type(self))} gives every layer its own variance: use share_layers "
                "false."
            )
        if not isinstance(stack.decoder, nn.Linear) and layers[-1].width < 2:
            raise ValueError(
                f"{described(type(self))} needs two outputs or more of a last layer that gives "
                "the class scores: use decoder linear."
            )
        # Variance 1 until the graph is known.
        draw_layers(stack, lambda weight: nn.init.uniform_(weight, -(3**0.5), 3**0.5))

    def calibrate(self, stack: DeepGNN, x: Tensor, graph: Graph) -> None:
        variances = self._variances(stack, x, graph)
        for layer, variance in zip(stack.layers, variances, strict=True):
            for weight in layer.weight_chain().matrices:
                weight.mul_(variance**0.5)

    def _variances(self, stack: DeepGNN, x: Tensor, graph: Graph) -> list[float]:
        """The variance of the matrices of each layer."""
        layers = list(stack.layers)
        forward: list[float] = []
        backward: list[float] = []
        if self.direction != "backward":
            if not x.is_floating_point():
                raise ValueError(
                    f"{described(type(self))} reads the mean of a node's features, and these are "
                    "integers: use direction backward."
                )
            ratios = _ratios(x.double().mean(1), graph, len(layers))
            ratios[0] = 1.0  # the exception above: c_1 = 2 / n
            for layer, ratio in zip(layers, ratios, strict=True):
                forward.append(2 / layer.in_channels * ratio)
        if self.direction != "forward":
            ones = torch.ones(graph.num_nodes, dtype=torch.float64, device=graph.device)
            ratios = _ratios(ones, graph, len(layers))[::-1]
            for layer, ratio in zip(layers, ratios, strict=True):
                backward.append(2 / layer.width * ratio)
            if not isinstance(stack.decoder, nn.Linear):
                backward[-1] = ratios[-1] / (layers[-1].width - 1)
        if not backward:
            return forward
        if not forward:
            return backward
        return [2 / (1 / one + 1 / other) for one, other in zip(forward, backward, strict=True)]


def _ratios(values: Tensor, graph: Graph, count: int) -> list[float]:
    r"""The ratios :math:`\|\hat A^{l-1} v\|^2 / \|\hat A^l v\|^2` for l = 1, 2, ..., count."""
    graph = graph.with_self_loops()
    weights = graph.gcn_weights(torch.float64)
    found = []
    for _ in range(count):
        size = values.square().sum()
        values = aggregate(weights, values[:, None], graph)[:, 0]
        following = values.square().sum()
        if following <= 0:
            raise ValueError(
                "init 'virgo' divides by the size of the nodes' mean features, which is zero on "
                "this graph: use direction backward."
            )
        found.append(float(size / following))
        # The next ratio stays the same, and nothing underflows in deep stacks.
        values = values / following.sqrt()
    return found
