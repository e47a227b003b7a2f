"""The abstract parts of a deep GNN, and everything that a part may declare about itself.

The stack, the training and the diagnostics refer to parts only by these classes. The arguments of a
part's constructor are its options.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth import torch_internals
from gnn_depth.graph import Graph
from gnn_depth.nn.functional.sparse_features import SparseFeatures
from gnn_depth.nn.scores import AdditiveScore, LinearScore, Score
from gnn_depth.nn.shapes import EdgesHeads, NodesHeads
from gnn_depth.ranges import Count, Probability, in_range
from gnn_depth.registry import described, registered

T = TypeVar("T")
W = TypeVar("W", bound="WeightNorm")
#: The numbers that layers take and return, those that norms of features do, and weights.
DenseInputs: TypeAlias = Float[Tensor, "sources inputs"]
Inputs: TypeAlias = DenseInputs | SparseFeatures
Outputs: TypeAlias = Float[Tensor, "targets outputs"]
Features: TypeAlias = Float[Tensor, "nodes channels"]
Matrix: TypeAlias = Float[Tensor, "outputs inputs"]


class Part:
    """The base of the abstract parts.

    Attributes:
        takes_shards: True if the part works on a graph of which other processes hold the rest,
            although it reads other nodes: through ``graph.fetch``, ``graph.all_reduce`` and
            ``graph_mean``. Parts with ``takes_blocks`` or ``nodewise`` work there anyway.
        takes_blocks: True if rows of nodes whose output nobody reads may be missing: see the kinds
            of parts. For norms, ``nodewise`` says so.
        export_refusal: Why a model with this part cannot be exported, as a sentence that names the
            part; empty if it can.
    """

    takes_shards: bool = False
    takes_blocks: bool = False
    export_refusal: str = ""


@dataclass(frozen=True)
class WeightChain:
    r"""The parameters of a layer or skip connection, sorted by the neurons that they lead into and
    out of.

    Neuron i can be rescaled by :math:`\lambda > 0`: multiply row i of the incoming matrices and
    entry i of the biases by :math:`\lambda`, and divide entry i of the attention parameters by it.
    Then neuron i is multiplied by :math:`\lambda`, and nothing else in the layer changes. To undo
    it in the next layer, divide column i of that layer's outgoing matrices by :math:`\lambda`. See
    :mod:`gnn_depth.nn.neurons`. Neurons are numbered over the concatenated heads.

    Attributes:
        incoming: Matrices (neurons, inputs); row i leads into neuron i of this layer.
        outgoing: Matrices (outputs, neurons of the layer before); column j leads out of neuron j of
            that layer.
        attention: Matrices (heads, channels); entry i of the flattened matrix belongs to neuron i.
        bias: Vectors (neurons); entry i is added to neuron i.
    """

    incoming: tuple[Tensor, ...] = ()
    outgoing: tuple[Tensor, ...] = ()
    attention: tuple[Tensor, ...] = ()
    bias: tuple[Tensor, ...] = ()

    @property
    def matrices(self) -> list[Tensor]:
        """The matrices of both sides, each once."""
        # A matrix is often on both; dict.fromkeys keeps the order and drops repetitions.
        return list(dict.fromkeys((*self.incoming, *self.outgoing)))


def present(*items: T | None) -> tuple[T, ...]:
    """The items that are not None: of a layer's optional parameters, those that it has."""
    return tuple(item for item in items if item is not None)


def declaring(kind: str, promise: str) -> list[str]:
    """The names of a kind's parts whose class makes a promise, such as ``takes_edge_weights``, or
    has a method that is optional."""
    return [name for name, cls in registered(kind).items() if getattr(cls, promise, None)]


class Layer(Part, nn.Module, ABC):
    """A message-passing layer: maps node features and a graph to new node features.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head of the outgoing features.
        heads: Number of heads; their outputs are concatenated.

    Attributes:
        takes_sparse: True if the incoming features may be :class:`SparseFeatures`. The layer then
            passes them to :class:`gnn_depth.nn.linear.Linear` and nowhere else.
        takes_blocks: True if the graph may be a block, with more sources than nodes. The layer then
            takes the features of the sources and returns those of the nodes, with the same values
            as on the whole graph.
        reads_first: True if ``forward(x, graph, first)`` also reads the first state, which is the
            input of the first layer. Its rows begin with those of the targets. It has the width of
            the layer's input, and their neurons correspond.
        takes_edge_weights: True if the layer reads ``graph.edge_weight`` where there is one.
        takes_edge_features: True if the layer can read ``graph.edge_attr``: see
            :meth:`add_edge_features`.
        edge_channels: The number of features of an edge that the layer reads; 0 if it reads none.
        drops_messages: True if the layer drops entries of its messages where
            ``graph.message_dropout`` says so: see ``gnn_depth.nn.functional.sparse``.
        lipschitz_bound: A method of layers that know an upper bound of their Lipschitz constant,
            valid for any input in evaluation mode: ``lipschitz_bound(graph)`` returns the bound on
            a graph or a block with the present weights, or None.
    """

    takes_sparse: ClassVar[bool] = False
    takes_edge_weights: bool = False
    takes_edge_features: bool = False
    edge_channels: int = 0
    drops_messages: ClassVar[bool] = False
    reads_first: ClassVar[bool] = False

    @in_range
    def __init__(self, in_channels: Count, out_channels: Count, heads: Count = 1) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads

    @property
    def width(self) -> int:
        """Width of the outgoing features: heads x channels."""
        return self.heads * self.out_channels

    def by_head(self, x: Tensor) -> Tensor:
        """Rows of the layer's width with an axis for the heads: (nodes, heads, channels)."""
        return x.view(-1, self.heads, self.out_channels)

    @abstractmethod
    def forward(self, x: Any, graph: Graph) -> Outputs: ...  # Inputs, or DenseInputs

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draw the parameters as PyTorch Geometric does for this layer."""

    def whole_block(self, x: Inputs, graph: Graph, relu: bool, residual: bool) -> Outputs | None:
        r"""A block without norms and dropout around this layer, if one kernel computes it.

        Args:
            x: The layer's input.
            graph: The graph.
            relu: The activation is ReLU; otherwise there is none.
            residual: The skip connection adds the input; otherwise there is none.

        Returns:
            :math:`[x +] \phi(\mathrm{layer}(x))`, or None (default).
        """
        return None  # then the stack runs layer, activation and skip connection one by one

    def weight_chain(self) -> WeightChain:
        """The weights that lead into and out of the layer's neurons, for initialisations and
        diagnostics.

        Raises:
            ValueError: The layer has none (default), or none with its present options.
        """
        raise ValueError(
            f"{described(type(self))} has no weight chain: give it a method weight_chain(). The "
            "balance of neurons and every init but 'default' need one."
        )

    def limits(self, graph: Graph) -> tuple[Tensor | None, Tensor | None]:
        r"""The directions, over the nodes of each connected component, to which repeated
        propagation turns features, and the gradients on their way back; None where it is not known
        (default).

        These are the dominant right and left eigenvectors of the matrix P in :math:`P X W`. The
        second may hold for undirected graphs alone; for others, and where it is None, it is found
        from :meth:`propagation`.
        """
        return None, None

    def propagation(self, x: Inputs, graph: Graph) -> tuple[Graph, Tensor] | None:
        """The matrix P of :meth:`limits` in evaluation mode at a state: a graph, and a weight for
        each of its edges, and for each head if there are several; None if it is not known
        (default)."""
        return None

    def add_edge_features(self, channels: int) -> None:
        """Make the parameters that read ``graph.edge_attr``; called once, on layers with
        ``takes_edge_features``."""
        self.edge_channels = channels

    def enter_stack(self, depth: int, first_channels: int) -> None:
        """Tell the layer its position, from 1, and the width of the first state; called once per
        position.

        Raises:
            ValueError: The layer cannot be at this position.
        """

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"


class AttentionLayer(Layer):
    """A layer with attention scores on its edges, which score norms may normalise before the
    softmax.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head, or of all heads together.
        heads: Number of heads; their outputs are concatenated.
        split_heads: True if out_channels is the width of all heads together.

    Attributes:
        score: The class of its scores: :class:`LinearScore`, :class:`AdditiveScore` or
            :class:`QuadraticScore`.
        score_norms: The norms that the stack has placed here, applied in order.

    Raises:
        ValueError: The width of all heads together is not divisible by their number.
    """

    score: ClassVar[type]

    @in_range
    def __init__(
        self, in_channels: int, out_channels: int, heads: Count = 1, split_heads: bool = False
    ) -> None:
        if split_heads and out_channels % heads:
            raise ValueError(
                f"{heads} heads cannot share a width of {out_channels}: choose a multiple of "
                f"{heads}, another number of heads, or split_heads false."
            )
        if split_heads:
            out_channels //= heads
        super().__init__(in_channels, out_channels, heads)
        self.score_norms = nn.ModuleList()

    def limits(self, graph: Graph) -> tuple[Tensor | None, Tensor | None]:
        # The weights of a node's edges add up to 1. Backwards the limit depends on the weights.
        return torch.ones(graph.num_nodes, device=graph.device), None

    def add_score_norm(self, norm: "ScoreNorm") -> None:
        """Add a norm of the scores.

        Raises:
            ValueError: The norm has no formula for this kind of score, or the scores also read edge
                features.
        """
        if self.score not in norm.serves:
            served = ", ".join(score.__name__ for score in norm.serves)
            raise ValueError(
                f"{type(norm).__name__} supports {served}, and {type(self).__name__} has "
                f"{self.score.__name__}."
            )
        self.score_norms.append(norm)
        self._check_score_norms()

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        self._check_score_norms()

    def _check_score_norms(self) -> None:
        # The bounds of the norms hold for scores of the ends' features alone.
        if self.edge_channels and len(self.score_norms):
            raise ValueError(
                f"{type(self.score_norms[0]).__name__} divides scores by the size of node "
                "features, and with edge features the scores do not depend on these alone: use "
                "norms of features or weights, or data without edge features."
            )

    def normalise(self, scores: EdgesHeads, score: Score, graph: Graph) -> EdgesHeads:
        """Apply the score norms in order."""
        for norm in self.score_norms:
            scores = norm(scores, score, graph)
        return scores

    @property
    def scales_targets(self) -> bool:
        """True if the score norms together multiply all scores of a node's edges by one factor,
        :meth:`target_factor`. Hooks on a norm want to see it called."""
        # Factors multiply; a norm that shifts a score ends that.
        norms: Any = self.score_norms
        return all(norm.scales_targets and not torch_internals.has_hooks(norm) for norm in norms)

    def target_factor(self, score: Score, graph: Graph) -> NodesHeads | None:
        """The factor of every node's scores by all score norms; None without any."""
        norms: Any = self.score_norms
        factors = [norm.target_factor(score, graph) for norm in norms]
        if not factors:
            return None
        return reduce(torch.mul, factors)


class Norm(Part, nn.Module, ABC):
    """A norm keeps magnitudes within bounds; its base class determines where the stack applies it.

    Attributes:
        nodewise: True if each node's output depends only on that node, or, for score norms, on the
            edges into it. The stack may then leave out nodes whose output nobody reads.
    """

    nodewise: bool = False

    @property
    def takes_blocks(self) -> bool:  # type: ignore[override]
        return self.nodewise


class FeatureNorm(Norm):
    """A norm of node features, after a layer and before its activation.

    Args:
        channels: Width of the node features.

    Attributes:
        homogeneous: True if scaling a channel of the input by a positive number scales the same
            channel of the output by it. The conservation law of neurons then holds.
    """

    homogeneous: ClassVar[bool] = False

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    @abstractmethod
    def forward(self, x: Features, graph: Graph) -> Features: ...


class ScoreNorm(Norm):
    """A norm of attention scores, before the softmax.

    Args:
        heads: Number of attention heads.

    Attributes:
        serves: The kinds of score that the norm supports.
        scales_targets: True if the norm multiplies all scores of a node's edges by one factor,
            which :meth:`target_factor` returns. Attention then needs no tensor of scores.
    """

    serves: ClassVar[tuple[type, ...]] = (LinearScore, AdditiveScore)
    scales_targets: bool = False

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    @abstractmethod
    def forward(self, scores: EdgesHeads, score: Score, graph: Graph) -> EdgesHeads: ...

    def target_factor(self, score: Score, graph: Graph) -> NodesHeads:
        """The factor of each node's scores, for norms with ``scales_targets``."""
        raise NotImplementedError(
            f"{type(self).__name__} has scales_targets and needs a method target_factor()."
        )

    def bound(self, score: type, channels: int) -> float | None:
        r"""A bound :math:`\alpha` of the normalised scores, :math:`|\tilde s| \le \alpha`; None
        (default) if unknown.

        It must also bound both parts of the scores' derivative (of the score and of the divisor),
        each multiplied by the size of the features.
        """
        return None


class WeightNorm(Norm):
    """A norm of one weight matrix: the layer reads the normalised matrix in place of the parameter.

    The stack places it in a :class:`gnn_depth.nn.linear.Linear` of a layer.

    Args:
        num_layers: Number of layers of the stack.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers

    @abstractmethod
    def forward(self, weight: Matrix) -> Matrix:
        """The matrix that the layer reads."""

    def reset_state(self, weight: Matrix) -> None:
        """Compute the norm's own state for a newly drawn matrix."""

    @classmethod
    def update_state(cls: type[W], norms: Sequence[W], weights: Sequence[Tensor]) -> None:
        """Update the states of norms of this class to their matrices, all of one shape, before
        every pass."""


class Skip(Part, nn.Module, ABC):
    """A skip connection: joins a layer's output with earlier states.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.

    Attributes:
        width: Width of the joined state.
        reads: The states that it reads: ``nothing``, the layer's ``input``, the ``first`` state, or
            ``all``. The stack stores only these.
        carries: True if it carries a second state per node from layer to layer: see
            :meth:`forward`.
        adds: ``input`` or ``first`` if the joined state is a multiple of that state plus a multiple
            of the update. The balance then rescales neuron i of both states together, unless a
            matrix of :meth:`weight_chain` lies between them. None (default) if the skip connection
            does something else.
        invertible: True if the joined state is exactly the layer's input plus a function of the
            update. Reversible stacks need this, and do not allow matrices that change the width.
        adds_input: True if the joined state is exactly the layer's input plus the update, False if
            it is the update alone; None (default) otherwise. A layer may compute such a block at
            once: see :meth:`Layer.whole_block`.
        takes_blocks: True if each node is joined separately, so that rows of unread nodes may be
            missing. False if the skip connection passes messages along the graph.
    """

    reads: ClassVar[Literal["nothing", "input", "first", "all"]] = "input"
    carries: ClassVar[bool] = False
    adds: ClassVar[Literal["input", "first"] | None] = None
    invertible: ClassVar[bool] = False
    takes_blocks = True
    adds_input: bool | None = None

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__()
        self.width = out_channels

    @abstractmethod
    def forward(self, update: Features, states: Sequence[Tensor], graph: Graph) -> Any:
        """Join the update with earlier states.

        A skip that ``carries`` takes a fourth argument, the second state, shape (nodes, channels)
        or None after the first layer, and returns both: the joined state and the second state.

        Args:
            update: The layer's output, normalised and activated.
            states: The states that it reads, oldest first; for ``input`` and ``all`` the last is
                the layer's input.
            graph: The graph that the layer saw; its targets are the nodes.
        """

    def weight_chain(self) -> WeightChain:
        """The matrices that lead from the state it adds into the joined state, and out of the
        states it reads."""
        return WeightChain()


class Init(Part, ABC):
    """An initialisation: draws the parameters of an assembled stack.

    Attributes:
        needs_data: True if it also reads features and a graph. The stack then calls
            :meth:`calibrate` once, at its first pass after the draw, with what it is given there:
            in a training with full batches, the whole graph. Loading other parameters cancels it.
    """

    needs_data: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        # It would skip what follows a draw, and the norms would keep the state of old matrices.
        if "__call__" in vars(cls):
            raise TypeError(
                f"{cls.__name__} overrides __call__: override draw(stack), which it calls."
            )

    @final
    def __call__(self, stack: Any) -> None:
        """Draw all parameters of a ``DeepGNN``; weight norms then restart from the drawn
        matrices."""
        try:
            self.draw(stack)
        finally:  # also after a refusal, which may come when some matrices are drawn
            stack.reset_weight_norms()
        stack.uncalibrated = self if self.needs_data else None

    def calibrate(self, stack: Any, x: Tensor, graph: Graph) -> None:
        """Adjust the drawn parameters of a ``DeepGNN`` in place; only for ``needs_data``.

        Args:
            stack: The stack.
            x: The features of its first pass.
            graph: The graph of its first pass.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has needs_data and needs a method calibrate()."
        )

    @abstractmethod
    def draw(self, stack: Any) -> None:
        """Draw all parameters of a ``DeepGNN`` in place."""


class GraphDropout(Part, ABC):
    """A graph dropout: all layers use the same thinned graph in a training pass, and the whole
    graph in evaluation.

    Layers compute degrees and GCN weights from the thinned graph. They add their self-loops
    afterwards, so these are never dropped. Random numbers come from torch's generator.

    Args:
        p: Probability of dropping an edge or node; with 0 the graph stays the same.

    Attributes:
        of_messages: True if it drops entries of messages: the graph it returns has a
            ``message_dropout``, which only layers with ``drops_messages`` read.
    """

    of_messages: ClassVar[bool] = False

    @in_range
    def __init__(self, p: Probability = 0.5) -> None:
        self.p = p

    @abstractmethod
    def __call__(self, graph: Graph) -> Graph:
        """The graph of one training pass."""


LayerFactory: TypeAlias = Callable[[int, int], Layer]
NormFactory: TypeAlias = Callable[[int], Norm]
SkipFactory: TypeAlias = Callable[[list[int], int], Skip]
