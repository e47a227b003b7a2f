"""Every layer with its options, for the tests of what all layers have in common."""

import torch

from gnn_depth.nn.parts import AttentionLayer
from gnn_depth.registry import registered
from tests.reference import drawn

#: Name of a variant: the registered name and the options.
VARIANTS = {
    "acm": ("acm", {}),
    "acm_with_layer_norm": ("acm", {"layer_norm": True}),
    "antisymmetric": ("antisymmetric", {}),
    "antisymmetric_with_a_sum": ("antisymmetric", {"aggregation": "sum"}),
    "gcn": ("gcn", {}),
    "gcnii": ("gcnii", {"alpha": 0.3}),
    "gat": ("gat", {"heads": 2}),
    "gat_with_root": ("gat", {"heads": 2, "root_weight": True}),
    "gat_sharing_a_width": ("gat", {"heads": 3, "split_heads": True}),
    "omega_gat": ("omega_gat", {"heads": 2}),
    "gatv2": ("gatv2", {"heads": 2}),
    "gatv2_of_shared_weights": ("gatv2", {"heads": 2, "share_weights": True}),
    "transformer": ("transformer", {"heads": 2}),
    "transformer_with_gate": ("transformer", {"heads": 2, "beta": True}),
    "transformer_without_root": ("transformer", {"heads": 2, "root_weight": False}),
    "gate": ("gate", {"heads": 2}),
    "ggnn": ("ggnn", {}),
    "gin": ("gin", {"eps": 0.3}),
    "gin_learning_eps": ("gin", {"train_eps": True}),
    "gin_with_batch_norm": ("gin", {"batch_norm": True}),
    "mean": ("mean", {}),
    "reaction": ("reaction", {}),
    "reaction_with_source": ("reaction", {"reaction": "source"}),
    "pyg": ("pyg", {"conv": "GraphConv"}),
    "sage": ("sage", {}),
    "sage_of_neighbours": ("sage", {"root_weight": False}),
    "swan": ("swan", {}),
    "unitary": ("unitary", {}),
}

ATTENTION = [
    name
    for name, (layer, _) in VARIANTS.items()
    if issubclass(registered("layer")[layer], AttentionLayer)
]

IN, OUT = 4, 6


def make(variant, dtype=torch.float64, in_channels=IN, **more):
    """A layer from IN to OUT channels whose every parameter is drawn, biases too."""
    name, options = VARIANTS[variant]
    layer = registered("layer")[name](in_channels, OUT, **(options | more))
    return drawn(layer).to(dtype)


def features(graph, dtype=torch.float64):
    return torch.randn(graph.num_sources, IN, dtype=dtype, requires_grad=True)
