"""GraphSAGE with means."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import uniform

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import Inputs, Layer, WeightChain
from gnn_depth.registry import register


@register("layer", "sage")
class SAGE(Layer):
    r"""GraphSAGE: add the mean of the neighbours and the node itself, each after its own linear map.

    .. math:: x'_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} W x_j + W_{root} x_i + b

    The mean is weighted where edges have weights. That of a node without neighbours is zero. A node is its own
    neighbour only if the graph has a self-loop there.
    Hamilton, Ying & Leskovec, *Inductive Representation Learning on Large Graphs*, NeurIPS 2017.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features.
        root_weight: Add the node itself.
        normalize: Divide each node's output by its Euclidean norm.
        bias: Add b.
    """

    takes_sparse = True
    takes_edge_weights = True
    takes_blocks = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        root_weight: bool = True,
        normalize: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels)
        self.normalize = normalize
        self.lin = Linear(in_channels, out_channels, bias=False)
        self.lin_root = Linear(in_channels, out_channels, bias=False) if root_weight else None
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()
        if self.lin_root is not None:
            self.lin_root.reset_parameters()
        uniform(self.in_channels, self.bias)

    def weight_chain(self) -> WeightChain:
        """The chain.

        Raises:
            ValueError: With ``normalize``, a neuron cannot be rescaled without changing the others.
        """
        if self.normalize:
            raise ValueError("layer 'sage' with normalize true has no weight chain: use normalize false.")
        both = (self.lin.weight,) if self.lin_root is None else (self.lin.weight, self.lin_root.weight)
        return WeightChain(incoming=both, outgoing=both, bias=() if self.bias is None else (self.bias,))

    def forward(self, x: Inputs, graph: Graph) -> Float[Tensor, "targets outputs"]:
        h = self.lin(x)
        out = aggregate(graph.mean_weights(h.dtype), h, graph)
        if self.lin_root is not None:
            out = out + self.lin_root.of_targets(x, graph)
        out = out if self.bias is None else out + self.bias
        return F.normalize(out) if self.normalize else out
