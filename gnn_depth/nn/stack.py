"""DeepGNN: a stack of parts chosen by name."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch_geometric.data import Data

from gnn_depth.builder import Named, build
from gnn_depth.graph import OF_EDGES, Graph
from gnn_depth.nn.block import (
    Block,
    Blocks,
    FusedBlock,
    Hidden,
    States,
    drop_features,
    unchanged,
)
from gnn_depth.nn.decoder import Decoder, Jump, Pool, jumped, make_decoder, pooled
from gnn_depth.nn.encoder import Encoder, make_encoder
from gnn_depth.nn.functional import elu, first_rows, group_sort, sparse_features
from gnn_depth.nn.graph_dropouts import NoGraphDropout
from gnn_depth.nn.layers.gcn import GCN
from gnn_depth.nn.neurons import links, why_no_law
from gnn_depth.nn.parts import (
    FeatureNorm,
    GraphDropout,
    Init,
    Layer,
    LayerFactory,
    NormFactory,
    Part,
    ScoreNorm,
    Skip,
    SkipFactory,
    WeightNorm,
    declaring,
)
from gnn_depth.nn.placement import (
    FeatureNorms,
    add_score_norms,
    add_weight_norms,
    sorted_norms,
    update_weight_norms,
)
from gnn_depth.nn.skips import NoSkip
from gnn_depth.nn.variants.checkpoint import CheckpointedBlocks, CheckpointEvery, segment_length
from gnn_depth.nn.variants.export import ExportedGraph
from gnn_depth.nn.variants.reversible import group_width, make_reversible
from gnn_depth.ranges import Count, Natural, Probability, Range, in_range
from gnn_depth.registry import described
from gnn_depth.torch_internals import is_recorded

Activation = Literal[
    "celu",
    "elu",
    "gelu",
    "group_sort",
    "leaky_relu",
    "mish",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "tanh",
    "identity",
]

#: Activations that are not PyTorch's own; ELU has a kernel here.
OWN = {"elu": elu, "group_sort": group_sort, "identity": unchanged}

#: Why a graph is refused, with a place for the layer's name.
WEIGHTS = (
    "the edges of this graph have weights, and {} does not read them, as some convolutions of "
    "layer pyg do."
)
FEATURES = (
    "the edges of this graph have features, and {} does not read them, as some convolutions of "
    "layer pyg do. Data sets of PyTorch Geometric leave them out with edge_features false."
)

NumLayers: TypeAlias = Annotated[int, Range(1, 10_000)]  # more take minutes to build


class DeepGNN(nn.Module):
    r"""An encoder, L blocks of message passing, and a decoder.

    .. math:: X^{l+1} = \mathrm{skip}(
        \phi(\mathrm{norm}(\mathrm{layer}(\mathrm{dropout}(X^l)))), \mbox{states})

    With a decoder, norms and the skip connection also follow the last layer, but no activation
    unless ``last_activation`` is set. Without a decoder the last layer gives the outputs: nothing
    follows it, and its heads are averaged.

    A part can be a class, a factory, its registered name (``"gat"``), or a dict of its name and
    options (``{"name": "gat", "heads": 8}``).

    Args:
        in_channels: Width of the input features; for integer features, the number of values of each
            column.
        out_channels: Number of outputs of a node.
        layer: Message-passing layer.
        num_layers: Number of message-passing layers.
        hidden_channels: Width of one head of a hidden layer, and of the encoder's output.
        norm: A norm or a list of norms of node features, attention scores or weight matrices,
            applied in order.
        skip: Skip connection: joins a layer's output with earlier states.
        activation: Function between the layers.
        last_activation: Apply the activation after the last layer too; needs a decoder.
        dropout: Probability of dropping an input feature of a layer in training.
        encoder: ``linear`` map before the layers, ``embedding`` of integer features, or ``none``.
        decoder: ``linear`` map after the layers, or ``none``: the last layer gives the class
            scores.
        norm_after_skip: Apply feature norms after the skip connection, not to the layer's output.
        share_layers: Use the same layer at all positions of equal shape, as in recurrent networks.
        jump: States that the decoder reads: the ``last``, or the ``max`` or ``cat`` of all layers'
            outputs (JKNet).
        checkpoint_every: Number of layers per checkpointed segment, ``sqrt`` (of the number of
            layers), or ``none``. The backward pass recomputes the activations of a segment, which
            saves memory.
        reversible: Number of channel groups of a reversible stack, which stores no activations; 0
            for an ordinary one.
        first_activation: Apply the activation after the encoder.
        outer_dropout: Probability of dropping an input feature of a linear encoder or decoder in
            training.
        graph_dropout: Drops edges, nodes or entries of messages at random in training.
        init: Draws the parameters of the finished stack; None keeps those that the parts have
            drawn.
        edge_channels: Number of features of an edge that the layers read; 0 if edges have none.

    Attributes:
        blocks: The L blocks; a subclass of ``Blocks`` where a variant runs them in another way.
        layers: The layer of each block.
        skips, norms: The skip connection and the feature norms after each layer; without a decoder
            the last layer has none.
        uncalibrated: An initialisation that waits for the first pass, as it ``needs_data``.

    Raises:
        ValueError: A norm does not fit the layer, the layer does not read edge features, the
            encoder does not accept the node features, a number is out of its range, or no part has
            this name.
    """

    blocks: Blocks
    layers: nn.ModuleList
    skips: nn.ModuleList
    norms: nn.ModuleList

    links = links  # methods with the docstrings of gnn_depth.nn.neurons
    why_no_law = why_no_law

    @in_range
    def __init__(
        self,
        in_channels: int | Sequence[int],
        out_channels: int,
        layer: Named[LayerFactory] = GCN,
        num_layers: NumLayers = 2,
        hidden_channels: Count = 64,
        norm: Named[list[NormFactory]] = [],  # noqa: B006  (read only; None would be one more case in every config)
        skip: Named[SkipFactory] = NoSkip,
        activation: Activation = "relu",
        last_activation: bool = False,
        dropout: Probability = 0.0,
        encoder: Encoder = "linear",
        decoder: Decoder = "linear",
        norm_after_skip: bool = False,
        share_layers: bool = False,
        jump: Jump = "last",
        checkpoint_every: CheckpointEvery = "none",
        reversible: Natural = 0,
        first_activation: bool = False,
        outer_dropout: Probability = 0.0,
        graph_dropout: Named[GraphDropout] = NoGraphDropout(),  # noqa: B008  (holds no state)
        init: Named[Init] | None = None,
        edge_channels: Natural = 0,
    ) -> None:
        super().__init__()
        self.activation: Callable[[Tensor], Tensor]
        self.activation = OWN.get(activation) or getattr(F, activation)
        self.last_activation = last_activation
        self.first_activation = first_activation
        self.dropout = dropout
        self.outer_dropout = outer_dropout
        self.graph_dropout: GraphDropout = build("graph_dropout", graph_dropout)
        self.norm_after_skip = norm_after_skip
        self.jump = jump
        self.reversible = reversible
        self.segment_length = segment_length(checkpoint_every, num_layers)
        self.edge_channels = edge_channels
        self._check_ends(encoder, decoder)
        self.uncalibrated: Init | None = None
        self.register_load_state_dict_post_hook(_cancel_calibration)  # type: ignore[no-untyped-call]

        # Of the features; an embedding checks its columns itself.
        self._width = None if encoder == "embedding" else in_channels
        self.encoder, width = make_encoder(encoder, in_channels, hidden_channels)
        # A reversible stack is built like one of the width of a group.
        groups = max(reversible, 1)
        channels = [group_width(hidden_channels, reversible)] * num_layers
        if decoder == "none":
            channels[-1] = out_channels
        widths = [width // groups]  # of all hidden states, or of one group of their channels
        parts = build("layer", layer), build("skip", skip), sorted_norms(build("norm", norm))
        self._make_blocks(*parts, channels, widths, share_layers, decoder != "none")
        if self.graph_dropout.of_messages:
            dropping = described(type(self.graph_dropout))
            reason = f"{dropping} drops entries of messages, and {{}} does not say that it does so."
            _check_layers(self.layers, "drops_messages", reason)
        output_widths = [groups * width for width in widths[1:]]
        self.decoder = make_decoder(decoder, jump, output_widths, out_channels)
        self._note_reads()
        # Variants take the blocks as they are, so they come last; each refuses the others.
        if reversible:
            make_reversible(self)
        if self.segment_length:
            self.blocks = CheckpointedBlocks(self.blocks, self.segment_length)
        if init is not None:
            build("init", init)(self)

    def _check_ends(self, encoder: Encoder, decoder: Decoder) -> None:
        """Check that options of an encoder or decoder have one."""
        reason = ""
        if self.last_activation and decoder == "none":
            reason = "last_activation needs a decoder: without one the last layer gives the scores"
        elif self.first_activation and encoder == "none":
            reason = "first_activation needs an encoder: without one there are only the features"
        elif self.outer_dropout and encoder != "linear" and decoder == "none":
            reason = "outer_dropout needs a linear encoder or decoder, whose inputs it drops"
        if reason:
            raise ValueError(f"{reason}.")

    def _make_blocks(
        self,
        make_layer: LayerFactory,
        make_skip: SkipFactory,
        makes: dict[type, list[NormFactory]],
        channels: list[int],
        widths: list[int],
        share_layers: bool,
        has_decoder: bool,
    ) -> None:
        """Make the blocks, whose widths of one head are ``channels``; the widths of their states
        are added to ``widths``."""
        known: dict[tuple[int, int], Layer] = {}  # by input and output width, to share
        layers: list[Layer] = []
        skips: list[Skip] = []
        norms: list[FeatureNorms] = []
        blocks: list[Block] = []
        for position, out_channels in enumerate(channels):
            shape = widths[-1], out_channels
            if not share_layers or shape not in known:
                known[shape] = make_layer(*shape)
                layer = known[shape]
                if self.edge_channels:
                    _check_layers([layer], "takes_edge_features", FEATURES)
                    layer.add_edge_features(self.edge_channels)
                add_score_norms(layer, makes[ScoreNorm])
            layer = known[shape]
            # A layer may refuse its place, or read what it says.
            layer.enter_stack(position + 1, widths[0])
            layers.append(layer)
            is_last = position == len(channels) - 1
            is_bare = is_last and not self.last_activation
            phi = unchanged if is_bare else self.activation
            before, after = FeatureNorms(), FeatureNorms()
            if is_last and not has_decoder:  # nothing follows the layer
                skip: Skip = NoSkip(list(widths), layer.width)
            else:
                skip = make_skip(list(widths), layer.width)
                skips.append(skip)
                widths.append(skip.width)
                width = skip.width if self.norm_after_skip else layer.width
                before.extend(make(width) for make in makes[FeatureNorm])
                norms.append(before)
            if self.norm_after_skip:
                before, after = after, before
            # Decided once, not in every pass.
            has_known_sum = skip.adds_input is not None and not (before or after)
            is_fused = has_known_sum and phi in (unchanged, F.relu)
            kind = FusedBlock if is_fused else Block
            blocks.append(kind(layer, before, phi, skip, after, self.dropout))
        if makes[FeatureNorm] and not skips:
            raise ValueError(
                "norms of features act between layers, and there is only one layer, which gives "
                "the class scores itself: use more layers or a decoder."
            )
        self._normed_maps = add_weight_norms(layers, makes[WeightNorm])
        self.reset_weight_norms()
        self.blocks = Blocks(blocks)
        # These lists are not modules of the stack: their items are modules of its blocks.
        self.__dict__.update(
            layers=nn.ModuleList(layers), skips=nn.ModuleList(skips), norms=nn.ModuleList(norms)
        )

    def _note_reads(self) -> None:
        """Keep in every pass what a part declares to read, and nothing else."""
        reads = [skip.reads for skip in self.skips]
        self._keeps_all = "all" in reads or self.jump != "last"
        is_read_again = "all" in reads or "first" in reads or reads[:1] == ["input"]
        #: True if the first layer alone reads the features, and reads sparse ones.
        self._first_takes_sparse = (
            self.layers[0].takes_sparse
            and not is_read_again
            and not any(layer.reads_first for layer in self.layers)
        )

    def forward(
        self,
        x: Float[Tensor, "nodes _"] | Int[Tensor, "nodes _"] | Data,
        graph: Graph | Int[Tensor, "2 edges"] | None = None,
        num_outputs: int | None = None,
        pool: Pool | None = None,
    ) -> Float[Tensor, "read outputs"]:
        """Class scores (logits), or other outputs, of the nodes, or of the graphs.

        Args:
            x: Features of the nodes; or a ``Data`` or ``Batch`` of PyTorch Geometric with features
                and edges, in place of both.
            graph: A graph or an ``edge_index``. The sorted form of an ``edge_index`` is cached
                while it is unchanged.
            num_outputs: Number of first nodes to compute outputs for; all nodes by default. If
                every part allows it, the stack leaves out nodes outside their receptive fields.
            pool: One output for each graph, from the ``mean``, ``sum`` or ``max`` of its nodes'
                states.

        Raises:
            ValueError: x has another width than ``in_channels``, or another number of nodes than
                the graph, or the edges have weights or features that a layer does not read.
        """
        if isinstance(x, Data):
            of_edges = {name: x.get(name) for name in OF_EDGES}
            graph = Graph(x.edge_index, x.num_nodes, x.get("batch"), **of_edges)
            x = x.x
        if graph is None:
            raise ValueError("a stack takes x and a graph or edge_index, or a Data with both.")
        if is_recorded():
            # What can be checked then holds, and the norms have their last state. Of a graph that
            # is made of edges now, a trace would keep some numbers.
            if isinstance(graph, Tensor):
                graph = ExportedGraph(graph, x.shape[0])
            thinned = graph
        else:
            graph = self._check_inputs(x, graph)
            thinned = graph
            if self.training:
                thinned = self.graph_dropout(graph)
            update_weight_norms(self._normed_maps)
        graphs = self.receptive_fields(thinned, num_outputs)
        states = States(self._keeps_all)

        hidden = self._encode(first_rows(x, graphs[0].num_sources), graph)
        hidden = self.blocks(hidden, graphs, states)
        return self._decode(hidden, states, graph, num_outputs, pool)

    def _check_inputs(self, x: Tensor, graph: Graph | Tensor) -> Graph:
        """Check that features and edges fit the stack; an ``edge_index`` becomes a graph."""
        if self._width is not None and x.shape[-1] != self._width:
            raise ValueError(
                f"x has {x.shape[-1]} features, and the stack was made for "
                f"in_channels={self._width}."
            )
        graph = Graph.of(graph, len(x))  # a graph that was given stays as it is
        if len(x) != graph.num_nodes:
            raise ValueError(
                f"x has the features of {len(x)} nodes, and the graph has {graph.num_nodes}."
            )
        if graph.edge_weight is not None:
            _check_layers(self.layers, "takes_edge_weights", WEIGHTS)
        if graph.edge_channels != self.edge_channels:
            _check_layers(self.layers, "takes_edge_features", FEATURES)
            raise ValueError(
                f"the edges of this graph have {graph.edge_channels} features, and the stack was "
                f"made for edge_channels={self.edge_channels}."
            )
        if graph.is_shard:
            self.check_shards()
        if self.uncalibrated is not None:  # after all checks: it may run the stack
            self.calibrate(x, graph)
        return graph

    def calibrate(self, x: Tensor, graph: Graph) -> None:
        """Let an initialisation that waits for data adjust the parameters; does nothing without.

        Raises:
            ValueError: Several processes train, and each would adjust them to its own data.
        """
        waiting = self.uncalibrated
        if waiting is None:
            return
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            raise ValueError(
                f"{described(type(waiting))} reads the graph, and each of several processes would "
                "draw other parameters: use one process."
            )
        self.uncalibrated = None  # the initialisation may run the stack
        # What is computed in inference mode has no gradient.
        with torch.inference_mode(False), torch.no_grad():
            if x.is_inference():
                x = x.clone()
            waiting.calibrate(self, x, graph)
        self.reset_weight_norms()

    def _encode(self, x: Tensor, graph: Graph) -> Hidden:
        features: Hidden = x
        has_encoder = not isinstance(self.encoder, nn.Identity)
        # A layer fetches rows of other processes, which are dense.
        if has_encoder or (self._first_takes_sparse and not graph.is_shard):
            features = sparse_features(x)
        encoded = self.encoder(self._drop_outer(features, self.encoder, graph))
        if self.first_activation:
            encoded = self.activation(encoded)
        return encoded

    def _decode(
        self, x: Tensor, states: States, graph: Graph, num_outputs: int | None, pool: Pool | None
    ) -> Tensor:
        x = jumped(self.jump, [*states.all[1:], x])  # the first state is no layer's output
        if num_outputs is not None:
            x = first_rows(x, num_outputs)
        if pool is not None:
            x = pooled(pool, x, graph)
        return self.decoder(self._drop_outer(x, self.decoder, graph))

    def _drop_outer(self, x: Hidden, reader: nn.Module, graph: Graph) -> Hidden:
        """Dropout of the features that a linear encoder or decoder reads."""
        if not isinstance(reader, nn.Linear):
            return x
        return drop_features(x, self.outer_dropout, self.training, graph)

    def _parts(self) -> list[Part]:
        """All parts that read nodes: layers, skip connections, and norms of scores and features."""
        parts = [module for module in self.blocks.modules() if isinstance(module, Part)]
        return [part for part in parts if not isinstance(part, WeightNorm)]

    def check_shards(self) -> None:
        """Check that every part works on a graph of which other processes hold the rest."""
        for part in (*self._parts(), self.graph_dropout):
            if not (part.takes_blocks or part.takes_shards):
                raise ValueError(
                    f"{described(type(part))} reads nodes of other processes, and does not say "
                    "how: it cannot be used when one graph is divided among several processes. "
                    "Use strategy ddp or one process."
                )

    def receptive_fields(self, graph: Graph, num_outputs: int | None) -> list[Graph]:
        """The subgraph each layer needs when only the first ``num_outputs`` nodes are read out.

        The outputs of these nodes are the same as on the whole graph. If a part does not support
        blocks, every layer gets the whole graph.
        """
        graphs = [graph] * len(self.blocks)
        if num_outputs is None or num_outputs >= graph.num_nodes:
            return graphs
        if not (self.blocks.takes_prefixes and all(part.takes_blocks for part in self._parts())):
            return graphs
        needed = num_outputs  # nodes of each layer's output, the last layer first
        for position in reversed(range(len(graphs))):
            graphs[position] = graph.prefix(needed)
            needed = graphs[position].num_sources
        return graphs

    def compile_layers(self) -> None:
        """Compile every block with ``torch.compile``, at its next pass; blocks of equal shape share
        compiled code.

        The primitives then run in their reference form. It pays for parts that are many small
        operations on edges, such as a norm computed from the score of each edge.
        """
        for block in self.blocks:
            # The random numbers of uncompiled code: a seed gives the same dropout masks.
            block.compile(dynamic=False, options={"fallback_random": True})

    def linear_maps(self) -> list[nn.Linear]:
        """Linear maps outside the layers: of the encoder, the skip connections and the decoder."""
        parts = nn.ModuleList([self.encoder, *self.skips, self.decoder])
        return [module for module in parts.modules() if isinstance(module, nn.Linear)]

    @torch.no_grad()
    def reset_weight_norms(self) -> None:
        """Restart weight norms from the current parameters."""
        for linear in chain.from_iterable(self._normed_maps):
            linear.weight_norm.reset_state(linear.weight)  # type: ignore[union-attr]


def _cancel_calibration(stack: DeepGNN, _: Any) -> None:
    """Loaded parameters are not those of an initialisation."""
    stack.uncalibrated = None


def _check_layers(layers: Iterable[Any], promise: str, reason: str) -> None:
    """Check that all layers make a promise; the reason names a layer that does not, as ``{}``."""
    for layer in layers:
        if not getattr(layer, promise):
            names = ", ".join(declaring("layer", promise))
            raise ValueError(f"{reason.format(described(type(layer)))} Layers that do: {names}.")
