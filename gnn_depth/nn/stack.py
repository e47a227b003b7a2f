"""DeepGNN: a stack of named parts."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.base import (
    AttentionLayer,
    FeatureNorm,
    Layer,
    LayerFactory,
    NormFactory,
    ScoreNorm,
    Skip,
    SkipFactory,
    check_probability,
    part_class,
)
from gnn_depth.nn.block import Features, Join, block
from gnn_depth.nn.functional import SparseFeatures, sparse_features
from gnn_depth.nn.linear import Linear
from gnn_depth.nn.regional import Compiled
from gnn_depth.nn.skips.none import NoSkip
from gnn_depth.registry import name_of, registered

Activation = Literal[
    "celu", "elu", "gelu", "leaky_relu", "mish", "relu", "selu", "sigmoid", "silu", "softplus", "tanh", "identity"
]


class DeepGNN(nn.Module):
    r"""An encoder, L blocks (dropout, layer, norms, activation, skip) and a decoder.

    .. math:: X^{l+1} = \mathrm{skip}(X^l, \phi(\mathrm{norm}(\mathrm{layer}(\mathrm{dropout}(X^l)))))

    With a decoder, the last block has its norms and skip but, unless ``last_activation``, no
    activation. Without one the last layer gives the outputs themselves: nothing follows it, and
    its heads are averaged.

    Args:
        in_channels: Width of the input features.
        out_channels: Number of outputs of a node.
        layer: Makes a layer from (in_channels, out_channels).
        num_layers: L.
        hidden_channels: Width of one head of a hidden layer, and of the encoder's output.
        norms: Each makes a norm from the width (feature norms) or the number of heads (score norms).
        skip: Makes a skip from (widths of the earlier states, out_channels).
        activation: Name of a function in ``torch.nn.functional``, or ``identity``.
        last_activation: Whether an activation follows the last layer too; needs a decoder.
        dropout: Probability of dropping an input feature of a layer in training.
        encoder: Whether a ``linear`` map comes before the stack, or ``none``.
        decoder: Whether a ``linear`` map comes after the stack, or ``none``.

    Raises:
        ValueError: A norm has no place in the layer, or a number is out of its range.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        layer: LayerFactory,
        num_layers: int = 2,
        hidden_channels: int = 64,
        norms: Sequence[NormFactory] = (),
        skip: SkipFactory = NoSkip,
        activation: Activation = "relu",
        last_activation: bool = False,
        dropout: float = 0.0,
        encoder: Literal["linear", "none"] = "linear",
        decoder: Literal["linear", "none"] = "linear",
    ) -> None:
        super().__init__()
        _check(num_layers=num_layers, hidden_channels=hidden_channels, dropout=dropout)
        if last_activation and decoder == "none":
            raise ValueError("last_activation needs a decoder: without one the last layer gives the class scores.")
        self.dropout = dropout
        self.activation = _identity if activation == "identity" else getattr(F, activation)
        self.last_activation = last_activation
        self.encoder = Linear(in_channels, hidden_channels) if encoder == "linear" else nn.Identity()
        self.layers, self.norms, self.skips = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        widths = [hidden_channels if encoder == "linear" else in_channels]
        for position in range(num_layers):
            gives_output = decoder == "none" and position == num_layers - 1
            block = layer(widths[-1], out_channels if gives_output else hidden_channels)
            feature_norms = _place(norms, block, gives_output)
            self.layers.append(block)
            if not gives_output:
                joined = skip(list(widths), block.width)
                self.norms.append(feature_norms)
                self.skips.append(joined)
                widths.append(joined.width)
        unplaced = [cls for cls in map(part_class, norms) if issubclass(cls, FeatureNorm)] if not self.norms else []
        if unplaced:
            raise ValueError(
                f"norm {_name(unplaced[0])!r} acts between layers, and there is one layer, which gives the class "
                "scores itself: take more layers or a decoder."
            )
        self.decoder = nn.Linear(widths[-1], out_channels) if decoder == "linear" else MeanOfHeads(out_channels)
        self._compiled: Compiled | None = None
        self._in_rounds: list[nn.Module] = []

    def forward(self, x: Float[Tensor, "nodes features"], graph: Graph) -> Float[Tensor, "nodes outputs"]:
        """Class scores (logits) of every node."""
        run = self._block_for(graph)
        update: Any = self._encode(x)
        states: list[Tensor] = []
        join: Join | None = None
        for position, layer in enumerate(self.layers):
            if join is not None and join.skip.reads == "all":  # more of them in every round, and no two rounds alike
                update, join = join(update, states), None
            skip = self._skip(position)
            reads, norms = (skip.reads, self.norms[position]) if skip else ("nothing", None)
            before = Features(update, states, join)
            update, state = run(before, layer, norms, graph, self.dropout, reads != "nothing")
            if state is not None:
                states = [*states, state] if reads == "all" else [state]
            join = Join(skip, self._activation(position)) if skip else None
        return self.decoder(update if join is None else join(update, states))

    def _skip(self, position: int) -> Skip | None:
        """The skip connection after a layer; the last one has none where there is no decoder."""
        return self.skips[position] if position < len(self.skips) else None  # type: ignore[return-value]

    def compile_layers(self) -> None:
        """Compile the rounds of message passing: once for all of equal shape, at the next pass.

        Takes some 25 s on two cores where nothing is on disk yet. Rounds run uncompiled where they cannot be compiled
        (one warning says why), and in any pass during which a module of theirs has hooks.
        """
        self._compiled = Compiled(block)
        # Listed once: to walk the modules takes four times as long as to look at them, in every pass.
        self._in_rounds = [*self.layers.modules(), *self.norms.modules(), *self.skips.modules()]

    def _block_for(self, graph: Graph) -> Callable[..., tuple[Tensor, Tensor | None]]:
        if self._compiled is None or self._compiled.failed or any(map(_has_hooks, self._in_rounds)):
            return block
        if graph not in self._compiled.graphs:
            self._derive(graph)
            self._compiled.graphs.add(graph)
        return self._compiled

    @torch.no_grad()
    def _derive(self, graph: Graph) -> None:
        """Make the graph compute and keep what layers and norms will ask it for: compiled code cannot."""
        for layer in self.layers:
            training = layer.training
            assert isinstance(layer, Layer)
            weight = next(layer.parameters(), torch.zeros(0, device=graph.device))
            layer.eval()(weight.new_zeros((graph.num_sources, layer.in_channels)), graph)
            layer.train(training)
        graph.derive()

    def _encode(self, x: Tensor) -> Tensor | SparseFeatures:
        if isinstance(self.encoder, nn.Identity):
            takes_sparse = self.layers[0].takes_sparse and all(skip.reads == "nothing" for skip in self.skips[:1])
        else:
            takes_sparse = True
        return self.encoder(sparse_features(x) if takes_sparse else x)

    def _activation(self, position: int) -> Callable[[Tensor], Tensor]:
        return self.activation if position < len(self.layers) - 1 or self.last_activation else _identity

    def linear_maps(self) -> list[nn.Linear]:
        """Linear maps outside the layers: of the encoder, the skips and the decoder."""
        parts = [self.encoder, *self.skips, self.decoder]
        return [module for part in parts for module in part.modules() if isinstance(module, nn.Linear)]


class FeatureNorms(nn.ModuleList):
    """The feature norms of one layer, applied in order."""

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        for norm in self:
            x = norm(x, graph)
        return x


class MeanOfHeads(nn.Module):
    """Average the concatenated heads of the last layer: (nodes, heads x outputs) to (nodes, outputs)."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels

    def forward(self, x: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes outputs"]:
        return x.view(x.shape[0], -1, self.out_channels).mean(1)


def _place(norms: Sequence[NormFactory], layer: Layer, gives_output: bool) -> FeatureNorms:
    """Put each norm where its base class says; the feature norms are returned."""
    feature_norms = FeatureNorms()
    for make in norms:
        cls = part_class(make)
        if issubclass(cls, ScoreNorm):
            if not isinstance(layer, AttentionLayer):
                raise ValueError(_no_place(cls, layer))
            layer.place(make(layer.heads))  # type: ignore[arg-type]
        elif issubclass(cls, FeatureNorm):
            if not gives_output:
                feature_norms.append(make(layer.width))
        else:
            raise ValueError(f"{cls.__name__} is no norm: subclass FeatureNorm or ScoreNorm.")
    return feature_norms


def _no_place(norm: type, layer: Layer) -> str:
    with_scores = [name for name, cls in registered("layer").items() if issubclass(cls, AttentionLayer)]
    return (
        f"norm {_name(norm)!r} acts on attention scores, and layer {_name(type(layer))!r} has none. "
        f"Layers with scores: {', '.join(with_scores)}."
    )


def _name(cls: type) -> str:
    found = name_of(cls)
    return found[1] if found else cls.__name__


def _check(num_layers: int, hidden_channels: int, dropout: float) -> None:
    for name, value in (("num_layers", num_layers), ("hidden_channels", hidden_channels)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}.")
    check_probability("dropout", dropout)


def _has_hooks(module: nn.Module) -> bool:
    # What compiled code does not call, or calls as it was when it was compiled.
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _identity(x: Tensor) -> Tensor:
    return x
