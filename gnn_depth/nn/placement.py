"""Place a stack's norms on features, attention scores or weights, by their base class."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from gnn_depth.graph import Graph
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import (
    AttentionLayer,
    FeatureNorm,
    Features,
    Layer,
    NormFactory,
    ScoreNorm,
    WeightNorm,
    declaring,
)
from gnn_depth.registry import described


class FeatureNorms(nn.ModuleList):
    """The feature norms of one layer, applied in order."""

    def forward(self, x: Features, graph: Graph) -> Features:
        for norm in self:
            x = norm(x, graph)
        return x


def sorted_norms(factories: Sequence[NormFactory]) -> dict[type, list[NormFactory]]:
    """The factories of a stack's norms by what the norms act on: FeatureNorm, ScoreNorm or
    WeightNorm.

    Norms are made later, when the width (of feature norms), the number of heads (of score norms) or
    that of layers (of weight norms) is known.

    Raises:
        ValueError: A factory does not make a norm, or two of them act on the weights.
    """
    found: dict[type, list[NormFactory]] = {FeatureNorm: [], ScoreNorm: [], WeightNorm: []}
    for make in factories:
        cls = _made_by(make)
        kinds = [kind for kind in found if issubclass(cls, kind)]
        if not kinds:
            raise ValueError(
                f"{cls.__name__} is not a norm: subclass FeatureNorm, ScoreNorm or WeightNorm."
            )
        found[kinds[0]].append(make)
    if len(found[WeightNorm]) > 1:
        names = " and ".join(described(_made_by(make)) for make in found[WeightNorm])
        raise ValueError(f"{names} act on the same weights: choose one of them.")
    return found


def add_score_norms(layer: Layer, factories: Iterable[NormFactory]) -> None:
    """Place score norms in a layer, which must have scores that they have a formula for."""
    for make in factories:
        if not isinstance(layer, AttentionLayer):
            with_scores = ", ".join(declaring("layer", "score"))
            raise ValueError(
                f"{described(_made_by(make))} acts on attention scores, and "
                f"{described(type(layer))} has none. Layers with scores: {with_scores}. To "
                "bound the weights of any layer use norm 'spectral'."
            )
        layer.add_score_norm(make(layer.heads))  # type: ignore[arg-type]


def add_weight_norms(
    layers: Sequence[Layer], factories: Iterable[NormFactory]
) -> list[list[Linear]]:
    """Place weight norms in the linear maps of the layers; return these maps by shape."""
    by_shape: dict[Any, list[Linear]] = {}
    for make in factories:
        for layer in dict.fromkeys(layers):  # a shared layer once
            for linear in _normed_maps(layer):
                norm: Any = make(len(layers))
                linear.weight_norm = norm
                by_shape.setdefault(linear.weight.shape, []).append(linear)
    return list(by_shape.values())


@torch.no_grad()
def update_weight_norms(maps: list[list[Linear]]) -> None:
    """Update weight norms to the parameters."""
    # One batched update for all matrices of a shape is faster than one for each.
    for linears in maps:
        norms: list[Any] = [linear.weight_norm for linear in linears]
        norms[0].update_state(norms, [linear.weight for linear in linears])


def _made_by(factory: NormFactory) -> type:
    """The class that a factory makes."""
    cls = getattr(factory, "func", factory)  # of a functools.partial
    if not isinstance(cls, type):
        raise ValueError(f"a norm must be a class or a functools.partial of one, not {cls!r}.")
    return cls


def _normed_maps(layer: Layer) -> list[Linear]:
    """The linear maps of a layer whose weights a norm normalises.

    They are those of its weight chain, or all maps if it has none.
    """
    try:
        wanted = set(layer.weight_chain().matrices)
    except ValueError:  # it has no chain
        named = layer.named_parameters()
        every = {weight for name, weight in named if name.rpartition(".")[2] == "weight"}
        wanted = {weight for weight in every if weight.dim() == 2}
    maps = [module for module in layer.modules() if isinstance(module, Linear)]
    found = [linear for linear in maps if linear.weight in wanted]
    # A matrix outside a Linear would stay as it is without a word.
    if not wanted or wanted - {linear.weight for linear in found}:
        raise ValueError(
            f"{described(type(layer))} has no place for a norm of weights: keep its matrices in "
            "gnn_depth.nn.linear.Linear, and let weight_chain(), if there is one, return their "
            "weights."
        )
    return found
