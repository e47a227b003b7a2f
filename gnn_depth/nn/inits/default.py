"""PyTorch Geometric's initialisation."""

from gnn_depth.nn.parts import Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import register


@register("init", "default")
class DefaultInit(Init):
    """Draw every part as its library does: layers as PyTorch Geometric, linear maps as PyTorch."""

    def draw(self, stack: DeepGNN) -> None:
        for layer in stack.layers:
            assert isinstance(layer, Layer)
            layer.reset_parameters()
        for linear in stack.linear_maps():
            linear.reset_parameters()
