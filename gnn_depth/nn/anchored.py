"""Layers that know where in a stack they stand."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Inputs, Layer


class AnchoredLayer(Layer):
    """A layer that reads what enters the first layer beside its own input, and knows its depth.

    Its input and the first state have equal widths, and neurons of the one are those of the other.

    Args:
        in_channels: Width of the incoming features, and of the first state.
        out_channels: Width of one head of the outgoing features.
        heads: Heads whose outputs are concatenated.

    Attributes:
        depth: Which layer of its stack it is, from 1; a tensor, so that compiled code serves every depth.
    """

    depth: Tensor

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__(in_channels, out_channels, heads)
        self.register_buffer("depth", torch.tensor(1), persistent=False)
        self._is_placed = False

    def place(self, depth: int, first_channels: int) -> None:
        """Told by the stack where it stands.

        Raises:
            ValueError: The first state has another width, or it stands elsewhere too.
        """
        if first_channels != self.in_channels:
            raise ValueError(
                f"{type(self).__name__} mixes what enters the first layer, of width {first_channels}, with the input "
                f"of layer {depth - 1}, of width {self.in_channels}: take encoder linear, and a skip that keeps widths."
            )
        if self._is_placed:
            raise ValueError(f"{type(self).__name__} depends on its depth, and share_layers gives it several.")
        self._is_placed = True
        self.depth.fill_(depth)

    @abstractmethod
    def forward(
        self, x: Inputs, graph: Graph, first: Float[Tensor, "_ inputs"] | None = None
    ) -> Float[Tensor, "targets outputs"]:
        """Pass messages.

        Args:
            x: The features that come in.
            graph: The edges.
            first: What enters the first layer, the rows of the targets before others; by default x itself.
        """


def place_layer(layer: Layer, depth: int, first_channels: int) -> None:
    """Tell a layer where it stands, if it wants to know.

    Raises:
        ValueError: It cannot stand there.
    """
    if isinstance(layer, AnchoredLayer):
        layer.place(depth, first_channels)
