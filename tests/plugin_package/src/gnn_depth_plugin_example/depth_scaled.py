"""An initialisation."""

import torch

from gnn_depth import DeepGNN, Init, register


@register("init", "depth_scaled")
class DepthScaled(Init):
    r"""Draw every part as its library does, then make the layers smaller the more there are.

    .. math:: W^l \leftarrow W^l / L^p

    Args:
        power: p.
    """

    def __init__(self, power: float = 0.5) -> None:
        self.power = power

    def draw(self, stack: DeepGNN) -> None:
        for layer in stack.layers:
            layer.reset_parameters()
        for linear in stack.linear_maps():
            linear.reset_parameters()
        matrices = {
            id(weight): weight for layer in stack.layers for weight in layer.weight_chain().incoming
        }
        with torch.no_grad():
            for weight in matrices.values():
                weight.mul_(len(stack.blocks) ** -self.power)
