"""DeepGNN: a stack of named parts."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.anchored import place_layer
from gnn_depth.nn.block import block, drop
from gnn_depth.nn.compile.compiled import Compiled, has_hooks
from gnn_depth.nn.conserving import Conserving
from gnn_depth.nn.decoder import Decoder, make_decoder
from gnn_depth.nn.encoder import Encoder, make_encoder
from gnn_depth.nn.factories import LayerFactory, NormFactory, SkipFactory
from gnn_depth.nn.functional import SparseFeatures, sparse_features
from gnn_depth.nn.graph_dropouts import GraphDropout, NoGraphDropout
from gnn_depth.nn.jumping import Jump, jumped
from gnn_depth.nn.memory.checkpointing import CheckpointEvery, in_segments, segment_length
from gnn_depth.nn.memory.reversible import check_reversible, group_width, run_reversible
from gnn_depth.nn.parts import Layer, Skip, check_probability
from gnn_depth.nn.placement import Placed
from gnn_depth.nn.receptive_field import graphs_of
from gnn_depth.nn.rounds import Flow, Round, Rounds
from gnn_depth.nn.skips.none import NoSkip
from gnn_depth.nn.stack_options import check_ends, check_sizes

Activation = Literal[
    "celu", "elu", "gelu", "leaky_relu", "mish", "relu", "selu", "sigmoid", "silu", "softplus", "tanh", "identity"
]


class DeepGNN(Conserving, nn.Module):
    r"""An encoder, L blocks (dropout, layer, norms, activation, skip) and a decoder.

    .. math:: X^{l+1} = \mathrm{skip}(X^l, \phi(\mathrm{norm}(\mathrm{layer}(\mathrm{dropout}(X^l)))))

    With a decoder, the last block has its norms and skip but, unless ``last_activation``, no
    activation. Without one the last layer gives the outputs themselves: nothing follows it, and
    its heads are averaged.

    Args:
        in_channels: Width of the input features; of integer features, the number of values of each column.
        out_channels: Number of outputs of a node.
        layer: Makes a layer from (in_channels, out_channels).
        num_layers: L.
        hidden_channels: Width of one head of a hidden layer, and of the encoder's output.
        norms: Each makes a norm from the width (feature norms), the number of heads (score norms) or of layers (weight
            norms).
        skip: Makes a skip from (widths of the earlier states, out_channels).
        activation: Name of a function in ``torch.nn.functional``, or ``identity``.
        last_activation: Whether an activation follows the last layer too; needs a decoder.
        dropout: Probability of dropping an input feature of a layer in training.
        encoder: What comes before the stack: a ``linear`` map, ``embedding`` for integer features, or ``none``.
        decoder: Whether a ``linear`` map comes after the stack, or ``none``.
        norm_after_skip: Whether feature norms come after the skip connection, not on the layer's output.
        share_layers: Whether all layers of equal shape are one and the same, as in recurrent networks.
        jump: What the decoder reads: the ``last`` state, or all layers' outputs, their ``max`` or ``cat`` (JKNet).
        checkpoint_every: Layers of a segment whose activations the backward pass computes again, to keep less; a
            number, ``sqrt`` (of the layers), or ``none``.
        reversible: Groups of channels, of which each round changes one, so that no activations are kept; 0: none.
        first_activation: Whether an activation follows the encoder.
        outer_dropout: Probability of dropping an input feature of a linear encoder or decoder in training.
        graph_dropout: What is dropped of the graph in training; where something is, rounds run uncompiled.

    Raises:
        ValueError: A norm has no place in the layer, the encoder does not take such features, or a number is out of
            its range.
    """

    def __init__(
        self,
        in_channels: int | Sequence[int],
        out_channels: int,
        layer: LayerFactory,
        num_layers: int = 2,
        hidden_channels: int = 64,
        norms: Sequence[NormFactory] = (),
        skip: SkipFactory = NoSkip,
        activation: Activation = "relu",
        last_activation: bool = False,
        dropout: float = 0.0,
        encoder: Encoder = "linear",
        decoder: Decoder = "linear",
        norm_after_skip: bool = False,
        share_layers: bool = False,
        jump: Jump = "last",
        checkpoint_every: CheckpointEvery = "none",
        reversible: int = 0,
        first_activation: bool = False,
        outer_dropout: float = 0.0,
        graph_dropout: GraphDropout = NoGraphDropout(),  # noqa: B008  (holds no state)
    ) -> None:
        super().__init__()
        check_sizes(num_layers, hidden_channels)
        check_probability("dropout", dropout)
        check_ends(encoder, decoder, first_activation, last_activation, outer_dropout)
        self.first_activation, self.outer_dropout, self.graph_dropout = first_activation, outer_dropout, graph_dropout
        self.segment_length = segment_length(checkpoint_every, num_layers)
        self.dropout, self.reversible, groups = dropout, reversible, max(reversible, 1)
        self.activation = _identity if activation == "identity" else getattr(F, activation)
        self.last_activation, self.norm_after_skip, self.jump = last_activation, norm_after_skip, jump
        self.encoder, width = make_encoder(encoder, in_channels, hidden_channels)
        hidden_channels, width = group_width(hidden_channels, reversible), width // groups
        self.layers, self.norms, self.skips = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        placed = Placed(norms)
        widths, known = [width], dict[tuple[int, int], Layer]()
        for position in range(num_layers):
            gives_output = decoder == "none" and position == num_layers - 1
            shape = widths[-1], out_channels if gives_output else hidden_channels
            if not share_layers or shape not in known:
                known[shape] = layer(*shape)
                placed.on_scores(known[shape])
            place_layer(known[shape], position + 1, widths[0])
            self.layers.append(known[shape])
            if not gives_output:
                joined = skip(list(widths), known[shape].width)
                self.skips.append(joined)
                widths.append(joined.width)
                self.norms.append(placed.on_features(widths[-1] if norm_after_skip else known[shape].width))
        placed.check()
        self._normed_weights = placed.on_weights(self.layers)
        self.decoder = make_decoder(decoder, jump, [groups * width for width in widths[1:]], out_channels)
        check_reversible(self, checkpointed=self.segment_length > 0)
        # What enters each layer passes one of these, before dropout: a place for hooks.
        self.states = nn.ModuleList(nn.Identity() for _ in range(num_layers))
        self._compiled: Compiled | None = None
        self._in_rounds: list[nn.Module] = []

    def forward(
        self, x: Float[Tensor, "nodes _"] | Int[Tensor, "nodes _"], graph: Graph, num_outputs: int | None = None
    ) -> Float[Tensor, "read outputs"]:
        """Class scores (logits) of the nodes.

        Args:
            x: Features of the nodes.
            graph: The edges.
            num_outputs: How many of the first nodes are read; all by default. Where every part allows it, what does not
                reach them is not computed.

        Raises:
            ValueError: There are features of more or fewer nodes than the graph has.
        """
        if len(x) != graph.num_nodes:
            raise ValueError(f"x has the features of {len(x)} nodes, and the graph has {graph.num_nodes}.")
        if self.training and self._normed_weights is not None:
            self._normed_weights.follow()
        thinned = self.graph_dropout(graph) if self.training else graph
        graphs = graphs_of(self, thinned, num_outputs)
        run = self._block_for(graph, graphs) if thinned is graph else block  # to compile for a graph takes many passes
        update: Any = self._encode(x if len(x) == graphs[0].num_sources else x[: graphs[0].num_sources])
        rounds = Rounds(self._rounds(graphs), run, self.dropout, self.norm_after_skip, self.jump != "last")
        out = self._through(rounds, update)
        out = out if num_outputs is None or len(out) == num_outputs else out[:num_outputs]
        return self.decoder(self._dropped(out, self.decoder))

    def _through(self, rounds: Rounds, x: Any) -> Tensor:
        if self.reversible:
            return run_reversible(rounds, x, self.reversible)
        return jumped(self.jump, rounds.end(in_segments(rounds, rounds.rounds, Flow(x), self.segment_length)))

    def _rounds(self, graphs: list[Graph]) -> list[Round]:
        parts: Any = zip(self.layers, self.states, graphs, strict=True)
        return [
            Round(layer, self.norms[p] if self._skip(p) else None, self._activation(p), self._skip(p), state, graph)
            for p, (layer, state, graph) in enumerate(parts)
        ]

    def _skip(self, position: int) -> Skip | None:
        """The skip connection after a layer; the last one has none where there is no decoder."""
        return self.skips[position] if position < len(self.skips) else None  # type: ignore[return-value]

    def compile_layers(self, only: Graph | None = None) -> None:
        """Compile the rounds of message passing: once for all of equal shape, at the next pass.

        Takes some 25 s on two cores where nothing is on disk yet. Rounds run uncompiled where they cannot be compiled
        (one warning says why), and in any pass during which a module of theirs has hooks.

        Args:
            only: Compile for training on this graph, and run as they are all passes on others, or in evaluation.
        """
        self._compiled = Compiled(block, only)
        # Listed once: to walk the modules takes four times as long as to look at them, in every pass.
        self._in_rounds = [*self.layers.modules(), *self.norms.modules(), *self.skips.modules(), *self.states]

    def _block_for(self, graph: Graph, graphs: list[Graph]) -> Callable[..., tuple[Tensor, Tensor | None]]:
        if self._compiled is None or self._compiled.failed or any(map(has_hooks, self._in_rounds)):
            return block
        if self._compiled.only is not None and not (self.training and graph is self._compiled.only):
            return block
        if any(graph not in self._compiled.graphs for graph in dict.fromkeys(graphs)):
            self._derive(graphs)
            self._compiled.graphs.update(graphs)
        return self._compiled

    @torch.no_grad()
    def _derive(self, graphs: list[Graph]) -> None:
        """Make the graphs compute and keep what layers and norms will ask them for: compiled code cannot."""
        for layer, graph in zip(self.layers, graphs, strict=True):
            training = layer.training
            assert isinstance(layer, Layer)
            weight = next(layer.parameters(), torch.zeros(0, device=graph.device))
            layer.eval()(weight.new_zeros((graph.num_sources, layer.in_channels)), graph)
            layer.train(training)
        for graph in dict.fromkeys(graphs):
            graph.derive()

    def _encode(self, x: Tensor) -> Tensor | SparseFeatures:
        if isinstance(self.encoder, nn.Identity):
            takes_sparse = self.layers[0].takes_sparse and all(skip.reads == "nothing" for skip in self.skips[:1])
        else:
            takes_sparse = True
        encoded = self.encoder(self._dropped(sparse_features(x) if takes_sparse else x, self.encoder))
        return self.activation(encoded) if self.first_activation else encoded

    def _dropped(self, x: Any, read_by: nn.Module) -> Any:
        """What the encoder or decoder reads, after dropout."""
        return drop(x, self.outer_dropout, self.training) if isinstance(read_by, nn.Linear) else x

    def _activation(self, position: int) -> Callable[[Tensor], Tensor]:
        return self.activation if position < len(self.layers) - 1 or self.last_activation else _identity

    def raw_weights(self) -> AbstractContextManager[None]:
        """Let the parameters that a norm computes weights from be read in their place, and drawn, for a while."""
        return nullcontext() if self._normed_weights is None else self._normed_weights.raw()

    def linear_maps(self) -> list[nn.Linear]:
        """Linear maps outside the layers: of the encoder, the skips and the decoder."""
        parts = [self.encoder, *self.skips, self.decoder]
        return [module for part in parts for module in part.modules() if isinstance(module, nn.Linear)]


def _identity(x: Tensor) -> Tensor:
    return x
