"""Place a stack's norms on features, attention scores or weights, by their base class."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn

from gnn_depth.graph import Graph
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.parts import (
    AttentionLayer,
    FeatureNorm,
    Features,
    HasLipschitzBound,
    Layer,
    NormFactory,
    ScoreNorm,
    WeightNorm,
)
from gnn_depth.registry import described, registered


class FeatureNorms(nn.ModuleList):
    """The feature norms of one layer, applied in order."""

    def forward(self, x: Features, graph: Graph) -> Features:
        for norm in self:
            x = norm(x, graph)
        return x


class WeightNorms:
    """All weight norms of a stack.

    Args:
        placed: The linear maps that have a weight norm, and the layer of each.
    """

    def __init__(self, placed: Iterable[tuple[Linear, Layer]] = ()) -> None:
        self._by_shape: dict[Any, list[Any]] = {}  # of linear maps
        self._whole: dict[Any, list[WeightNorm]] = {}  # norms that limit a layer as a whole
        # The graph keeps the bounds, under a key that no other stack on this graph has.
        self._key = object()
        for linear, layer in placed:
            self._by_shape.setdefault(linear.weight.shape, []).append(linear)
            if linear.weight_norm is not None and linear.weight_norm.whole_layer:
                self._whole.setdefault(layer, []).append(linear.weight_norm)
        self.reset_state()

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
            bounds = graph.once(self._key, lambda: self._bounds(graph))
            for norms_of_layer, bound in zip(self._whole.values(), bounds, strict=True):
                for norm in norms_of_layer:
                    norm.set_bound(bound)
        # One batched update for all matrices of a shape is faster than one for each.
        for linears in self._by_shape.values():
            norms: list[Any] = [linear.weight_norm for linear in linears]
            norms[0].update_state(norms, [linear.weight for linear in linears])

    def _bounds(self, graph: Graph) -> list[float]:
        """The Lipschitz bound of each layer for matrices of spectral norm 1."""
        return [layer.lipschitz_bound(graph, 1.0) for layer in self._whole]


class NormPlacement:
    """Places the norms of a stack while it is built.

    Args:
        factories: Each makes a norm from the width (feature norms), the number of heads (score
            norms) or the number of layers (weight norms).

    Raises:
        ValueError: A factory does not make a norm, or two of them act on the weights.
    """

    def __init__(self, factories: Sequence[NormFactory]) -> None:
        self._norms: dict[type, list[tuple[NormFactory, type]]] = {
            ScoreNorm: [],
            FeatureNorm: [],
            WeightNorm: [],
        }
        # Sorted by class: they are made later, when widths and heads are known.
        for make in factories:
            cls = part_class(make)
            for base, placed in self._norms.items():
                if issubclass(cls, base):
                    placed.append((make, cls))
                    break
            else:
                raise ValueError(
                    f"{cls.__name__} is not a norm: subclass FeatureNorm, ScoreNorm or WeightNorm."
                )
        if len(self._norms[WeightNorm]) > 1:
            names = " and ".join(described(cls) for _, cls in self._norms[WeightNorm])
            raise ValueError(f"{names} act on the same weights: choose one of them.")

    def on_scores(self, layer: Layer) -> None:
        """Place the score norms in a layer, which must have scores that they have a formula for."""
        for make, cls in self._norms[ScoreNorm]:
            if not isinstance(layer, AttentionLayer):
                with_scores = ", ".join(_layers(AttentionLayer))
                raise ValueError(
                    f"{described(cls)} acts on attention scores, and {described(type(layer))} has "
                    f"none. Layers with scores: {with_scores}. To bound the weights of any layer "
                    "use norm 'spectral'."
                )
            layer.add_score_norm(make(layer.heads))  # type: ignore[arg-type]

    def on_features(self, width: int) -> FeatureNorms:
        """Make the feature norms of one layer."""
        return FeatureNorms(make(width) for make, _ in self._norms[FeatureNorm])

    def on_weights(self, layers: Iterable[Layer]) -> WeightNorms:
        """Place the weight norm in the linear maps of all layers.

        A norm of whole layers needs their Lipschitz bounds.
        """
        layers = list(layers)
        placed: list[tuple[Linear, Layer]] = []
        for make, cls in self._norms[WeightNorm]:
            for layer in dict.fromkeys(layers):  # a shared layer once
                maps = _normed_maps(layer)
                norms: list[Any] = [make(len(layers)) for _ in maps]
                if any(norm.whole_layer for norm in norms):
                    _check_bound(layer, cls)
                for linear, norm in zip(maps, norms, strict=True):
                    linear.weight_norm = norm
                    placed.append((linear, layer))
        return WeightNorms(placed)

    def check_features(self, places: int) -> None:
        """Check that feature norms, if there are any, have a place in the stack."""
        features = self._norms[FeatureNorm]
        if features and not places:
            raise ValueError(
                f"{described(features[0][1])} acts between layers, and there is only one layer, "
                "which gives the class scores itself: use more layers or a decoder."
            )


def _normed_maps(layer: Layer) -> list[Linear]:
    """The linear maps of a layer whose weights a norm normalises.

    They are those of its weight chain, or all maps if it has none.
    """
    wanted: set[int] = set()  # by identity: comparing tensors compares their numbers
    try:
        chain = layer.weight_chain()
        wanted.update(id(matrix) for matrix in (*chain.incoming, *chain.outgoing))
    except ValueError:  # it has no chain
        for name, weight in layer.named_parameters():
            if name.rpartition(".")[2] == "weight" and weight.dim() == 2:
                wanted.add(id(weight))
    found = []
    for module in layer.modules():
        if isinstance(module, Linear) and id(module.weight) in wanted:
            found.append(module)
    # A matrix outside a Linear would stay as it is without a word.
    if not wanted or wanted - {id(linear.weight) for linear in found}:
        raise ValueError(
            f"{described(type(layer))} has no place for a norm of weights: keep its matrices in "
            "gnn_depth.nn.linear.Linear, and let weight_chain(), if there is one, return their "
            "weights."
        )
    return found


def _check_bound(layer: Layer, norm: type) -> None:
    """Check that a layer has a bound; whether it has one does not depend on the graph."""
    one_edge = Graph(torch.zeros(2, 1, dtype=torch.long), 1)
    if isinstance(layer, HasLipschitzBound) and layer.lipschitz_bound(one_edge, 1.0) is not None:
        return
    bounded = [name for name, each in _layers(Layer).items() if hasattr(each, "lipschitz_bound")]
    raise ValueError(
        f"{described(norm)} with whole_layer needs a layer whose Lipschitz bound is known, and "
        f"{described(type(layer))} has none with its present options and norms. Layers with a "
        f"bound: {', '.join(bounded)}; those with attention need norm 'lipschitz' in form 'paper' "
        "as their only score norm, and no option beta."
    )


def _layers(base: Any) -> dict[str, type]:
    """The registered layers that are subclasses of a class."""
    return {name: each for name, each in registered("layer").items() if issubclass(each, base)}


def part_class(factory: Callable[..., object]) -> type:
    """The class that a part's factory makes.

    That is the class itself, or the one inside a ``functools.partial``.
    """
    for item in (factory, getattr(factory, "func", None), *getattr(factory, "args", ())):
        if isinstance(item, type):
            return item
    raise ValueError(f"a part must be a class or a functools.partial of one, not {factory!r}.")
