"""PyTorch Geometric's initialisation."""

from gnn_depth.nn.parts import Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import register


@register("init", "default")
class DefaultInit(Init):
    """Library defaults: draw layers as PyTorch Geometric does, and linear maps as PyTorch does."""

    def draw(self, stack: DeepGNN) -> None:
        for layer in stack.layers:
            assert isinstance(layer, Layer)
            layer.reset_parameters()
        for linear in stack.linear_maps():
            linear.reset_parameters()
