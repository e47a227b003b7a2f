"""DeepGNN: a stack of parts chosen by name."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnn_depth.builder import Named, build
from gnn_depth.graph import Graph
from gnn_depth.nn.block import Block, Flow, Join
from gnn_depth.nn.compile.compiled import CompiledBlocks
from gnn_depth.nn.decoder import Decoder, Jump, Pool, jumped, make_decoder, pooled
from gnn_depth.nn.encoder import Encoder, make_encoder
from gnn_depth.nn.functional import SparseFeatures, dropout, sparse_features
from gnn_depth.nn.graph_dropouts import NoGraphDropout
from gnn_depth.nn.layers.gcn import GCN
from gnn_depth.nn.memory.checkpointing import CheckpointEvery, checkpointed, segment_length
from gnn_depth.nn.memory.reversible import check_reversible, group_width, run_reversible
from gnn_depth.nn.neurons import links, why_no_law
from gnn_depth.nn.parts import GraphDropout, Init, Layer, LayerFactory, NormFactory, SkipFactory
from gnn_depth.nn.placement import FeatureNorms, NormPlacement
from gnn_depth.nn.skips import NoSkip
from gnn_depth.ranges import Count, Natural, Probability, Range, in_range
from gnn_depth.registry import described, registered

Activation = Literal[
    "celu",
    "elu",
    "gelu",
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

NumLayers: TypeAlias = Annotated[int, Range(1, 10_000)]  # more take minutes to build


class DeepGNN(nn.Module):
    r"""An encoder, L blocks of message passing, and a decoder.

    .. math:: X^{l+1} = \mathrm{skip}(X^l, \phi(\mathrm{norm}(\mathrm{layer}(\mathrm{dropout}(X^l)))))

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
        graph_dropout: Drops random edges or nodes of the graph in every training step; blocks then
            run uncompiled.
        init: Draws the parameters of the finished stack; None keeps those that the parts have
            drawn.
        edge_channels: Number of features of an edge that the layers read; 0 if edges have none.

    Attributes:
        blocks: The L blocks. Each begins with the activation and skip connection of the layer
            before.
        join: The activation and skip connection of the last layer; None without a decoder.
        layers: The layer of each block.
        joins, skips, norms: The join, skip connection and feature norms after each layer; without a
            decoder the last layer has none.
        states: Identities that the state of each block passes before dropout: places for hooks.

    Raises:
        ValueError: A norm does not fit the layer, the layer does not read edge features, the
            encoder does not accept the node features, a number is out of its range, or no part has
            this name.
    """

    joins: list[Join]
    layers: nn.ModuleList
    skips: nn.ModuleList
    norms: nn.ModuleList
    states: nn.ModuleList

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
        layer = build("layer", layer)
        norm = build("norm", norm)
        skip = build("skip", skip)
        graph_dropout = build("graph_dropout", graph_dropout)
        if init is not None:
            init = build("init", init)
        if last_activation and decoder == "none":
            raise ValueError(
                "last_activation needs a decoder: without one the last layer gives the class "
                "scores."
            )
        if first_activation and encoder == "none":
            raise ValueError(
                "first_activation needs an encoder: without one there are only the features "
                "themselves."
            )
        if outer_dropout and encoder != "linear" and decoder == "none":
            raise ValueError(
                "outer_dropout drops inputs of a linear encoder or decoder, and there is neither."
            )
        self.activation: Callable[[Tensor], Tensor] = (
            _identity if activation == "identity" else getattr(F, activation)
        )
        self.last_activation = last_activation
        self.first_activation = first_activation
        self.dropout = dropout
        self.outer_dropout = outer_dropout
        self.graph_dropout = graph_dropout
        self.norm_after_skip = norm_after_skip
        self.jump = jump
        self.reversible = reversible
        self.segment_length = segment_length(checkpoint_every, num_layers)

        self.edge_channels = edge_channels
        self._width = in_channels if encoder != "embedding" else None
        self.encoder, width = make_encoder(encoder, in_channels, hidden_channels)
        hidden_channels, width = (
            group_width(hidden_channels, reversible),
            width // max(reversible, 1),
        )
        placement = NormPlacement(norm)
        widths, known = [width], dict[tuple[int, int], Layer]()
        layers: list[Layer] = []
        joins: list[Join | None] = [None]
        norms: list[FeatureNorms | None] = []
        for position in range(num_layers):
            is_last = position == num_layers - 1
            gives_output = decoder == "none" and is_last
            shape = widths[-1], out_channels if gives_output else hidden_channels
            if not share_layers or shape not in known:
                known[shape] = layer(*shape)
                if edge_channels:
                    _check_reads([known[shape]], "features")
                    known[shape].add_edge_features(edge_channels)
                placement.on_scores(known[shape])
            known[shape].enter_stack(position + 1, widths[0])
            layers.append(known[shape])
            if gives_output:
                joins.append(None)
                norms.append(None)
                continue
            joined = skip(list(widths), known[shape].width)
            widths.append(joined.width)
            placed = placement.on_features(joined.width if norm_after_skip else known[shape].width)
            phi = _identity if is_last and not last_activation else self.activation
            joins.append(Join(phi, joined, placed if norm_after_skip else None))
            norms.append(None if norm_after_skip else placed)
        placement.check_features(len(widths) - 1)
        self._weight_norms = placement.on_weights(layers)

        reads = [None if join is None else join.skip.reads for join in joins[1:]]
        reads_first = any(each.reads_first for each in layers)
        self.blocks = nn.ModuleList()
        for position, (join, each, after) in enumerate(zip(joins, layers, norms, strict=False)):
            keeps: Any = reads[position] if reads[position] in ("input", "all") else "nothing"
            if position == 0 and keeps == "nothing" and "first" in reads:
                keeps = "input"
            is_output, is_first = jump != "last" and position > 0, reads_first and position == 0
            self.blocks.append(Block(join, dropout, each, after, keeps, is_output, is_first))
        self.join = joins[-1]
        self.decoder = make_decoder(
            decoder, jump, [max(reversible, 1) * width for width in widths[1:]], out_channels
        )
        # Lists of the parts of all blocks; they are modules of the blocks, not of these lists.
        blocks: list[Any] = list(self.blocks)
        joined_by = [join for join in joins if join is not None]
        holders: list[Any] = joined_by if norm_after_skip else blocks
        self.__dict__.update(
            joins=joined_by,
            layers=nn.ModuleList(layers),
            skips=nn.ModuleList(join.skip for join in joined_by),
            norms=nn.ModuleList(holder.norms for holder in holders if holder.norms is not None),
            states=nn.ModuleList(block.state for block in blocks),
        )
        check_reversible(self, checkpointed=self.segment_length > 0)
        self._compiled: CompiledBlocks | None = None
        if init is not None:
            init(self)

    def forward(
        self,
        x: Float[Tensor, "nodes _"] | Int[Tensor, "nodes _"],
        graph: Graph | Int[Tensor, "2 edges"],
        num_outputs: int | None = None,
        pool: Pool | None = None,
    ) -> Float[Tensor, "read outputs"]:
        """Class scores (logits), or other outputs, of the nodes, or of the graphs.

        Args:
            x: Features of the nodes.
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
        if self._width is not None and x.shape[-1] != self._width:
            raise ValueError(
                f"x has {x.shape[-1]} features, and the stack was made for "
                f"in_channels={self._width}."
            )
        graph = Graph.of(graph, len(x))
        if len(x) != graph.num_nodes:
            raise ValueError(
                f"x has the features of {len(x)} nodes, and the graph has {graph.num_nodes}."
            )
        if graph.edge_weight is not None:
            _check_reads(self.layers, "weights")
        if graph.edge_channels != self.edge_channels:
            _check_reads(self.layers, "features")
            raise ValueError(
                f"the edges of this graph have {graph.edge_channels} features, and the stack was "
                "made for "
                f"edge_channels={self.edge_channels}."
            )
        if graph.is_shard:
            self.check_shards()
        thinned = self.graph_dropout(graph) if self.training else graph
        self._weight_norms.update_state(thinned)
        graphs = self.receptive_fields(thinned, num_outputs)
        # A thinned graph is new in every step, and compiling for a graph pays off only over many
        # steps.
        compiled = self._compiled if thinned is graph and not graph.is_shard else None
        run = compiled.for_pass(self, graph, graphs) if compiled else None

        flow = Flow(
            self._encode(
                x if len(x) <= graphs[0].num_sources else x[: graphs[0].num_sources], graph
            )
        )
        if self.reversible:
            out = run_reversible(self, flow.update, graphs, run)
        else:
            if self.segment_length and torch.is_grad_enabled():
                flow = checkpointed(list(self.blocks), flow, graphs, run, self.segment_length)
            else:
                for block, edges in zip(self.blocks, graphs, strict=True):
                    flow = block(flow, edges, run)
            out = flow.update
            if self.join is not None:
                out, _ = self.join(out, flow.states, graphs[-1], flow.carried)
            out = jumped(self.jump, [*flow.outputs, out])
        if num_outputs is not None and num_outputs < len(out):
            out = out[:num_outputs]
        if pool is not None:
            out = pooled(pool, out, graph)
        return self.decoder(self._drop_outer(out, self.decoder, graph))

    def _node_norms(self) -> list[Any]:
        """The norms of scores and of features."""
        layers: list[Any] = list(self.layers)
        placed: list[Any] = [*(getattr(layer, "score_norms", ()) for layer in layers), *self.norms]
        return [norm for of_layer in placed for norm in of_layer]

    def check_shards(self) -> None:
        """Check that every part works on a graph of which other processes hold the rest."""
        parts: list[Any] = [*self.layers, *self.skips, *self._node_norms(), self.graph_dropout]
        for part in parts:
            is_local = getattr(part, "takes_blocks", False) or getattr(part, "nodewise", False)
            if not (is_local or part.takes_shards):
                raise ValueError(
                    f"{described(type(part))} reads nodes of other processes, and does not say "
                    "how: it cannot be used "
                    "when one graph is divided among several processes. Use strategy ddp or one "
                    "process."
                )

    def receptive_fields(self, graph: Graph, num_outputs: int | None) -> list[Graph]:
        """The subgraph that each layer needs when only the first ``num_outputs`` nodes are read
        out.

        The outputs of these nodes are the same as on the whole graph. If a part does not support
        blocks, every layer gets the whole graph.
        """
        graphs = [graph] * len(self.blocks)
        if num_outputs is None or num_outputs >= graph.num_nodes or self.reversible:
            return graphs
        takes_blocks = [part.takes_blocks for part in (*self.layers, *self.skips)]
        if not (all(takes_blocks) and all(norm.nodewise for norm in self._node_norms())):
            return graphs
        needed = num_outputs
        for position in reversed(range(len(graphs))):
            graphs[position] = graph.prefix(needed)
            needed = graphs[position].num_sources
        return graphs

    def compile_layers(self, only: Graph | None = None) -> None:
        """Compile the blocks at the next pass, once for all of equal shape.

        If compiling fails, blocks run uncompiled and a warning gives the reason. They also run
        uncompiled in any pass during which one of their modules has hooks.

        Args:
            only: Compile only for training on this graph; passes on other graphs and evaluation run
                uncompiled.
        """
        self._compiled = CompiledBlocks(Block.message if self.reversible else Block.compute, only)

    def linear_maps(self) -> list[nn.Linear]:
        """Linear maps outside the layers: of the encoder, the skip connections and the decoder."""
        parts = [self.encoder, *self.skips, self.decoder]
        return [
            module for part in parts for module in part.modules() if isinstance(module, nn.Linear)
        ]

    def reset_weight_norms(self) -> None:
        """Restart weight norms from the current parameters."""
        self._weight_norms.reset_state()

    def _encode(self, x: Tensor, graph: Graph) -> Tensor | SparseFeatures:
        if isinstance(self.encoder, nn.Identity):
            first: Any = self.blocks[0]
            takes_sparse = first.layer.takes_sparse and not (first.returns_state or graph.is_shard)
        else:
            takes_sparse = True
        encoded = self.encoder(
            self._drop_outer(sparse_features(x) if takes_sparse else x, self.encoder, graph)
        )
        return self.activation(encoded) if self.first_activation else encoded

    def _drop_outer(self, x: Any, reader: nn.Module, graph: Graph) -> Any:
        """Dropout of the features that a linear encoder or decoder reads."""
        if not isinstance(reader, nn.Linear):
            return x
        if isinstance(x, SparseFeatures):
            return x.dropout(self.outer_dropout, self.training, graph.node_numbers)
        return dropout(x, self.outer_dropout, self.training, graph.node_numbers)


def _check_reads(layers: Iterable[Any], what: Literal["weights", "features"]) -> None:
    for layer in layers:
        if not getattr(layer, f"takes_edge_{what}"):
            known: dict[str, Any] = registered("layer")
            names = ", ".join(
                name for name, cls in known.items() if getattr(cls, f"takes_edge_{what}")
            )
            argument = {"weights": "edge_weight", "features": "edge_dim"}[what]
            without = " Data sets of PyTorch Geometric leave them out with edge_features false." * (
                what == "features"
            )
            raise ValueError(
                f"the edges of this graph have {what}, and {described(type(layer))} does not read "
                "them. Layers that "
                f"do: {names}, and pyg with a convolution that takes {argument}.{without}"
            )


def _identity(x: Tensor) -> Tensor:
    return x
