"""Xavier initialisation."""

from typing import Literal

from torch import nn

from gnn_depth.nn.base import HasWeightChain, Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import register


@register("init", "xavier")
class Xavier(Init):
    r"""Draw every matrix so that neither activations nor gradients change their variance.

    .. math:: \mathrm{Var}(W_{ij}) = g^2 \frac{2}{n_{in} + n_{out}}

    Attention parameters are drawn as the matrix (1, channels) of each head; biases are zero, and what else a layer
    has is drawn as PyTorch Geometric does.
    Glorot & Bengio, *Understanding the difficulty of training deep feedforward neural networks*, AISTATS 2010.

    Args:
        distribution: ``normal`` or ``uniform``.
        gain: g, a factor on the standard deviation.
    """

    def __init__(self, distribution: Literal["normal", "uniform"] = "normal", gain: float = 1.0) -> None:
        self.distribution = distribution
        self.gain = gain

    def __call__(self, stack: DeepGNN) -> None:
        draw = nn.init.xavier_normal_ if self.distribution == "normal" else nn.init.xavier_uniform_
        for position, layer in enumerate(stack.layers):
            if not isinstance(layer, HasWeightChain):
                raise ValueError(
                    f"init 'xavier' needs the weight chain of layer {position}, and {type(layer).__name__} has none; "
                    "give it a method weight_chain() or use init 'default'."
                )
            assert isinstance(layer, Layer)
            layer.reset_parameters()
            chain = layer.weight_chain()
            for weight in dict.fromkeys((*chain.incoming, *chain.outgoing)):
                draw(weight, gain=self.gain)
            for attention in chain.attention:
                for head in range(len(attention)):
                    draw(attention[head : head + 1], gain=self.gain)
            for name, parameter in layer.named_parameters():
                if name.rpartition(".")[2] == "bias":
                    nn.init.zeros_(parameter)
        for linear in stack.linear_maps():
            draw(linear.weight, gain=self.gain)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
