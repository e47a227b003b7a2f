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


class WeightNorms:
    """All weight norms of a stack, which it places in the linear maps of the layers.

    Args:
        factories: One that makes the norm of a map from the number of layers, or none.
        layers: The layers; a norm that limits one as a whole needs its Lipschitz bound.
    """

    def __init__(self, factories: Iterable[NormFactory], layers: Sequence[Layer]) -> None:
        self._by_shape: dict[Any, list[Any]] = {}  # of linear maps
        self._whole: dict[Any, list[WeightNorm]] = {}  # norms that limit a layer as a whole
        # The graph keeps the bounds, under a key that no other stack on this graph has.
        self._key = object()
        for make in factories:
            for layer in dict.fromkeys(layers):  # a shared layer once
                for linear in _normed_maps(layer):
                    norm: Any = make(len(layers))
                    linear.weight_norm = norm
                    self._by_shape.setdefault(linear.weight.shape, []).append(linear)
                    if norm.whole_layer:
                        self._whole.setdefault(layer, []).append(norm)
        self.reset_state()
        for layer, norms in self._whole.items():
            _check_bound(layer, type(norms[0]))

    @torch.no_grad()
    def reset_state(self) -> None:
        """Restart from the current parameters."""
        for linears in self._by_shape.values():
            for linear in linears:
                linear.weight_norm.reset_state(linear.weight)

    @torch.no_grad()
    def update_state(self, graph: Graph) -> None:
        """Update the norms to the graph and to the parameters, one shape of matrices at a time."""
        if self._whole:
            # Those of matrices of spectral norm 1.
            bounds = graph.once(
                self._key, lambda: [layer.lipschitz_bound(graph, 1.0) for layer in self._whole]
            )
            for norms_of_layer, bound in zip(self._whole.values(), bounds, strict=True):
                for norm in norms_of_layer:
                    norm.set_bound(bound)
        # One batched update for all matrices of a shape is faster than one for each.
        for linears in self._by_shape.values():
            norms: list[Any] = [linear.weight_norm for linear in linears]
            norms[0].update_state(norms, [linear.weight for linear in linears])


class NormFactories:
    """The factories of a stack's norms, sorted by what the norms act on.

    Norms are made later, when the width (of feature norms), the number of heads (of score norms) or
    that of layers (of weight norms) is known.

    Raises:
        ValueError: A factory does not make a norm, or two of them act on the weights.
    """

    def __init__(self, factories: Sequence[NormFactory]) -> None:
        self.features: list[NormFactory] = []
        self.scores: list[NormFactory] = []
        self.weights: list[NormFactory] = []
        for make in factories:
            cls = _made_by(make)
            if issubclass(cls, FeatureNorm):
                self.features.append(make)
            elif issubclass(cls, ScoreNorm):
                self.scores.append(make)
            elif issubclass(cls, WeightNorm):
                self.weights.append(make)
            else:
                raise ValueError(
                    f"{cls.__name__} is not a norm: subclass FeatureNorm, ScoreNorm or WeightNorm."
                )
        if len(self.weights) > 1:
            names = " and ".join(described(_made_by(make)) for make in self.weights)
            raise ValueError(f"{names} act on the same weights: choose one of them.")

    def add_score_norms(self, layer: Layer) -> None:
        """Place the score norms in a layer, which must have scores that they have a formula for."""
        for make in self.scores:
            if not isinstance(layer, AttentionLayer):
                with_scores = ", ".join(declaring("layer", "score"))
                raise ValueError(
                    f"{described(_made_by(make))} acts on attention scores, and "
                    f"{described(type(layer))} has none. Layers with scores: {with_scores}. To "
                    "bound the weights of any layer use norm 'spectral'."
                )
            layer.add_score_norm(make(layer.heads))  # type: ignore[arg-type]

    def feature_norms(self, width: int) -> FeatureNorms:
        """Make the feature norms of one layer."""
        return FeatureNorms(make(width) for make in self.features)


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
        wanted = set()
        for name, weight in layer.named_parameters():
            if name.rpartition(".")[2] == "weight" and weight.dim() == 2:
                wanted.add(weight)
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


def _check_bound(layer: Layer, norm: type) -> None:
    """Check that a layer has a bound; whether it has one does not depend on the graph."""
    one_edge = Graph(torch.zeros(2, 1, dtype=torch.long), 1)
    bound = getattr(layer, "lipschitz_bound", None)
    if bound is not None and bound(one_edge, 1.0) is not None:
        return
    bounded = ", ".join(declaring("layer", "lipschitz_bound"))
    raise ValueError(
        f"{described(norm)} with whole_layer needs a layer whose Lipschitz bound is known, and "
        f"{described(type(layer))} has none with its present options and norms. Layers with a "
        f"bound: {bounded}; those with attention need norm 'lipschitz' in form 'paper' "
        "as their only score norm, and no option beta."
    )
