"""Stacks of every layer that has a weight chain, put together in every way that a law of neurons
must know of."""

import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.skips import Residual
from gnn_depth.registry import registered
from tests.nn.layers.variants import VARIANTS

#: Layers without a weight chain.
WITHOUT_CHAIN = ("acm", "antisymmetric", "ggnn", "mean", "pyg", "reaction", "swan", "unitary")
WITH_CHAIN = [variant for variant, (layer, _) in VARIANTS.items() if layer not in WITHOUT_CHAIN]


class Oscillator(Residual):
    """A skip connection with a second state: Y' = Y / 2 + (F(X) - X) / 2, X' = X + Y' / 2."""

    carries = True
    invertible = False

    def forward(self, update, states, graph, velocity):
        x = self.project(states[-1])
        velocity = (update - x) / 2 + (0 if velocity is None else velocity / 2)
        return x + velocity / 2, velocity


#: How a stack is put together: options of DeepGNN.
BARE = {"encoder": "none", "decoder": "none"}
ASSEMBLIES = {
    "bare": BARE,
    "encoder_and_decoder": {},
    "decoder_after_an_activation": {"encoder": "none", "last_activation": True},
    "odd_width": {"hidden_channels": 7, **BARE},
    "leaky": {"activation": "leaky_relu", **BARE},
    "dropout": {"dropout": 0.5, "decoder": "none"},
    "embedding": {"in_channels": (3, 4), "encoder": "embedding"},
    "residual": {"skip": "residual"},
    "residual_after_a_map": {"skip": "residual", **BARE},
    "initial_residual": {"skip": "initial_residual"},
    "linear_residual": {"skip": "linear"},
    "gated": {"skip": "gated"},
    "rezero": {"skip": {"name": "rezero", "initial": 0.5}},
    "layer_scale": {"skip": {"name": "layer_scale", "initial": 0.5}},
    "shared_layers": {"share_layers": True},
    "first_activation": {"first_activation": True, "last_activation": True},
    "second_state": {"skip": Oscillator},
    "mean_norm": {"norm": "mean"},
    "largest_of_all": {"jump": "max"},
}

#: Every layer in the simplest stack and in a stream, and every assembly of some layers: variant,
#: assembly.
STACKS = [
    (variant, assembly)
    for variant in WITH_CHAIN
    for assembly in ASSEMBLIES
    if variant != "gcnii"
    and (assembly in ("bare", "residual") or variant in ("gatv2", "gin", "transformer_with_gate"))
]
#: It needs an encoder, and layers of its own for every depth.
STACKS += [
    ("gcnii", assembly) for assembly in ("encoder_and_decoder", "residual", "first_activation")
]


def stack_of(variant, assembly, num_layers=3, **more):
    """Three layers from 5 (or integer) features to 3 outputs."""
    name, options = VARIANTS[variant]

    def layer(in_channels, out_channels):
        fitting = 6 * -(-out_channels // 6) if options.get("split_heads") else out_channels
        return registered("layer")[name](in_channels, fitting, **options)

    chosen = {
        "in_channels": 5,
        "out_channels": 3,
        "hidden_channels": 6,
        **ASSEMBLIES[assembly],
        **more,
    }
    return DeepGNN(layer=layer, num_layers=num_layers, **chosen)


def inputs(assembly, nodes, dtype=torch.float64):
    if assembly == "embedding":
        return torch.stack([torch.randint(values, (nodes,)) for values in (3, 4)], 1)
    return torch.randn(nodes, 5, dtype=dtype)


def rescale(link, factor):
    """Multiply neurons, and divide by the same factors what reads them."""
    for role in link.incoming:
        multiply(role, factor)
    for role in (*link.attention, *link.outgoing):
        multiply(role, 1 / factor)


def multiply(role, factor):
    shape = {0: (-1, 1), 1: (1, -1), None: role.parameter.shape}[role.axis]
    role.parameter.mul_(factor.reshape(shape))
