"""Where the norms of a stack go: each where its base class says that it acts."""

from collections.abc import Iterable, Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.factories import NormFactory, part_class
from gnn_depth.nn.parts import AttentionLayer, FeatureNorm, Layer, ScoreNorm
from gnn_depth.nn.weights import NormedWeights, WeightNorm
from gnn_depth.registry import name_of, registered


class FeatureNorms(nn.ModuleList):
    """The feature norms of one layer, applied in order."""

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        for norm in self:
            x = norm(x, graph)
        return x


class Placed:
    """The norms that were asked for, on their way to their places.

    Args:
        norms: Each makes a norm from the width (feature norms), the number of heads (score norms) or of layers (weight
            norms).

    Raises:
        ValueError: One of them is no norm, or two act on the weights.
    """

    def __init__(self, norms: Sequence[NormFactory]) -> None:
        classes = list(map(part_class, norms))
        for cls in classes:
            if not issubclass(cls, FeatureNorm | ScoreNorm | WeightNorm):
                raise ValueError(f"{cls.__name__} is no norm: subclass FeatureNorm, ScoreNorm or WeightNorm.")
        pairs = list(zip(norms, classes, strict=True))
        self._of_scores = [(make, cls) for make, cls in pairs if issubclass(cls, ScoreNorm)]
        self._of_features = [(make, cls) for make, cls in pairs if issubclass(cls, FeatureNorm)]
        self._of_weights = [(make, cls) for make, cls in pairs if issubclass(cls, WeightNorm)]
        if len(self._of_weights) > 1:
            names = " and ".join(repr(_name(cls)) for _, cls in self._of_weights)
            raise ValueError(f"norms {names} act on the same weights: take one of them.")
        self._places = 0

    def on_scores(self, layer: Layer) -> None:
        """Place the score norms in a layer.

        Raises:
            ValueError: It has no scores, or none that they serve.
        """
        for make, cls in self._of_scores:
            if not isinstance(layer, AttentionLayer):
                raise ValueError(_no_place(cls, layer))
            layer.place(make(layer.heads))  # type: ignore[arg-type]

    def on_features(self, width: int) -> FeatureNorms:
        """The feature norms of one more layer."""
        self._places += 1
        return FeatureNorms(make(width) for make, _ in self._of_features)

    def on_weights(self, layers: Iterable[nn.Module]) -> NormedWeights | None:
        """Place the norm of the layers' weights; None if there is none.

        Raises:
            ValueError: A layer has no weights that it could act on.
        """
        return NormedWeights(self._of_weights[0][0], layers) if self._of_weights else None

    def check(self) -> None:
        """Refuse feature norms for which there was no place.

        Raises:
            ValueError: There are some.
        """
        if self._of_features and not self._places:
            raise ValueError(
                f"norm {_name(self._of_features[0][1])!r} acts between layers, and there is one layer, which gives the "
                "class scores itself: take more layers or a decoder."
            )


def _no_place(norm: type, layer: Layer) -> str:
    with_scores = [name for name, cls in registered("layer").items() if issubclass(cls, AttentionLayer)]
    return (
        f"norm {_name(norm)!r} acts on attention scores, and layer {_name(type(layer))!r} has none. "
        f"Layers with scores: {', '.join(with_scores)}. To bound the weights of any layer use norm 'spectral'."
    )


def _name(cls: type) -> str:
    found = name_of(cls)
    return found[1] if found else cls.__name__
