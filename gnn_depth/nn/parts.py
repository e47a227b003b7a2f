"""The abstract parts that a deep GNN is assembled from. A part's constructor signature is its config."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional.sparse_features import SparseFeatures
from gnn_depth.nn.parametrised import on_raw_weights
from gnn_depth.nn.scores import AdditiveScore, LinearScore, Score

if TYPE_CHECKING:
    from gnn_depth.nn.stack import DeepGNN

FailureMode: TypeAlias = Literal[
    "non_finite",
    "dying_signal",
    "equal_rows",
    "rank_collapse",
    "exploding_signal",
    "vanishing_gradients",
    "expanding_gradients",
    "smoothed_gradients",
    "unbounded_attention",
    "imbalance",
]

#: What users read for each.
FAILURE_MODES: dict[FailureMode, str] = {
    "non_finite": "numbers overflow",
    "dying_signal": "the signal dies",
    "equal_rows": "all nodes become equal",
    "rank_collapse": "all nodes point in one direction",
    "exploding_signal": "the signal explodes",
    "vanishing_gradients": "gradients vanish",
    "expanding_gradients": "gradients expand",
    "smoothed_gradients": "all nodes get the same gradient",
    "unbounded_attention": "attention is not bounded",
    "imbalance": "neurons are out of balance",
}

Inputs: TypeAlias = Float[Tensor, "sources inputs"] | SparseFeatures


class Part:
    """The base of the abstract parts.

    Attributes:
        treats: Failure modes of deep stacks that this part is a remedy for; the probe proposes it where it finds one.
        remedy_options: Options to use as a remedy, where the defaults are not meant for it.
    """

    treats: ClassVar[tuple[FailureMode, ...]] = ()
    remedy_options: ClassVar[Mapping[str, Any]] = {}


class Layer(Part, nn.Module, ABC):
    """A message-passing layer: features of the nodes and a graph in, features of the nodes out.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head of the outgoing features.
        heads: Heads whose outputs are concatenated.

    Attributes:
        takes_sparse: Whether the features that come in may be :class:`SparseFeatures`: it passes them to
            :class:`gnn_depth.nn.linear.Linear` and nowhere else. Otherwise they are always a tensor.
        takes_blocks: Whether the graph may be a block, with more sources than nodes: features of the sources come in,
            those of the nodes go out, each as on the whole graph.
    """

    takes_sparse: ClassVar[bool] = False
    takes_blocks: bool = False

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels), ("heads", heads)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}.")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads

    @property
    def width(self) -> int:
        """Width of the outgoing features: heads x channels."""
        return self.heads * self.out_channels

    @abstractmethod
    def forward(self, x: Inputs, graph: Graph) -> Float[Tensor, "targets outputs"]: ...

    @abstractmethod
    def reset_parameters(self) -> None:
        """Draw the parameters as PyTorch Geometric does for this layer."""

    @property
    def edge_heads(self) -> int:
        """Number of heads that have numbers of their own on every edge, as attention scores."""
        return 0

    def kept_numbers(self, nodes: int, edges: int) -> int:
        """Estimate how many numbers it keeps for the backward pass, besides its input.

        By default a matrix of nodes x width for each linear map but the last: sums with fixed weights keep nothing.

        Args:
            nodes: Nodes of the graph.
            edges: Its edges, with self-loops.
        """
        return max(_number_of_maps(self) - 1, 0) * nodes * self.width

    def compile_saving(self, nodes: int, edges: int) -> float:
        """Estimate the seconds that compiling saves in one of its training steps; rather too few than too many.

        Args:
            nodes: Source nodes of the graph.
            edges: Its edges.
        """
        return 1e-9 * nodes * self.width

    def extra_repr(self) -> str:
        heads = f", heads={self.heads}" if self.heads > 1 else ""
        return f"{self.in_channels}, {self.out_channels}{heads}"


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability.

    Raises:
        ValueError: It is outside [0, 1].
    """
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a probability, in [0, 1], not {value}.")


class AttentionLayer(Layer):
    """A layer with attention scores on its edges, which score norms may normalise before the softmax.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of one head, or of all together.
        heads: Heads whose outputs are concatenated.
        split_heads: Whether out_channels is the width of all heads together.

    Attributes:
        score: What the scores are made of, one of the score classes.
        score_norms: The norms that the stack has placed here, applied in order.

    Raises:
        ValueError: The heads do not divide the width that they are to share.
    """

    score: ClassVar[type]

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, split_heads: bool = False) -> None:
        if split_heads and heads >= 1 and out_channels % heads:
            near = out_channels // heads * heads
            raise ValueError(
                f"{heads} heads cannot share a width of {out_channels}, which they do not divide: take a width of "
                f"{f'{near} or ' if near else ''}{near + heads}, other heads, or split_heads false."
            )
        super().__init__(in_channels, out_channels // heads if split_heads and heads >= 1 else out_channels, heads)
        self.score_norms = nn.ModuleList()

    @property
    def edge_heads(self) -> int:
        return self.heads

    def kept_numbers(self, nodes: int, edges: int) -> int:
        """Estimate how many numbers it keeps: outputs of the linear maps, and scores before and after each norm."""
        scores = 2 + len(self.score_norms) + (getattr(self, "dropout", 0) > 0)
        return _number_of_maps(self) * nodes * self.width + scores * edges * self.heads

    def compile_saving(self, nodes: int, edges: int) -> float:
        """Estimate the seconds that compiling saves: most with score norms, and with scores made of every channel."""
        numbers = nodes * self.width
        of_edges = 1.5e-9 * edges * self.width if self.score is AdditiveScore else 0.0
        of_norms = 8e-4 + 4.5e-9 * numbers if self.score_norms else 0.0
        return 1.2e-4 + 1.6e-9 * numbers + of_edges + of_norms

    def place(self, norm: "ScoreNorm") -> None:
        """Add a norm of the scores.

        Raises:
            ValueError: The norm does not serve this kind of score.
        """
        if self.score not in norm.serves:
            served = ", ".join(score.__name__ for score in norm.serves)
            raise ValueError(
                f"{type(norm).__name__} serves {served}, and {type(self).__name__} has {self.score.__name__}."
            )
        self.score_norms.append(norm)

    def normalise(
        self, scores: Float[Tensor, "edges heads"], score: Score, graph: Graph
    ) -> Float[Tensor, "edges heads"]:
        for norm in self.score_norms:
            scores = norm(scores, score, graph)
        return scores


def _number_of_maps(layer: nn.Module) -> int:
    return sum(isinstance(module, nn.Linear) for module in layer.modules())


class Norm(Part, nn.Module, ABC):
    """What holds magnitudes in bounds. Its base class says where it acts, and the stack puts it there.

    Attributes:
        nodewise: Whether what a node gets depends on that node alone, or on the edges into it if edges are normed:
            then nodes whose output nobody reads may be left out.
    """

    nodewise: bool = False


class FeatureNorm(Norm):
    """A norm of node features, after a layer and before its activation.

    Args:
        channels: Width of the node features.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    @abstractmethod
    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]: ...


class ScoreNorm(Norm):
    """A norm of attention scores, before the softmax.

    Args:
        heads: Number of attention heads.

    Attributes:
        serves: The kinds of score it has a formula for.
    """

    serves: ClassVar[tuple[type, ...]] = (LinearScore, AdditiveScore)

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    @abstractmethod
    def forward(
        self, scores: Float[Tensor, "edges heads"], score: Score, graph: Graph
    ) -> Float[Tensor, "edges heads"]: ...

    def bound(self, score: type, channels: int) -> float | None:
        r"""The :math:`\alpha` that normed scores obey: :math:`|\tilde s| \le \alpha`, and so do the two parts of its
        derivative times the size of the features, that of the score and that of what divides it.

        None where nothing is known, by default.

        Args:
            score: What the scores are made of, a score class.
            channels: Width of a head.
        """
        return None


class Skip(Part, nn.Module, ABC):
    """How a layer's output joins what came before it.

    Args:
        widths: Width of every earlier state, the layer's input last.
        out_channels: Width of the layer's output.

    Attributes:
        width: Width of what :meth:`forward` returns.
        reads: Which states it reads: ``nothing``, the layer's ``input``, the ``first`` of all, or ``all`` before the
            update. The stack keeps no others.
    """

    reads: ClassVar[Literal["nothing", "input", "first", "all"]] = "input"

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__()
        self.width = out_channels

    @abstractmethod
    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor]
    ) -> Float[Tensor, "nodes outputs"]:
        """Join, every node by itself: where only some nodes are read, these rows are all there is.

        Args:
            update: The layer's output, normed and activated.
            states: The states that it reads, oldest first; the last one is the layer's input.
        """


class Init(Part, ABC):
    """How the parameters of a stack are drawn. Called once, on the assembled stack.

    Where a norm computes weights from parameters, it is these that are drawn.
    """

    def __init_subclass__(cls) -> None:
        if "__call__" in vars(cls):
            cls.__call__ = on_raw_weights(cls.__call__)  # type: ignore[method-assign]

    @abstractmethod
    def __call__(self, stack: "DeepGNN") -> None: ...


@dataclass(frozen=True)
class WeightChain:
    r"""The parameters of a layer by the neurons that they lead into and out of; neurons run over concatenated heads.

    To multiply row i of the incoming matrices and entry i of the biases by :math:`\lambda > 0`, and to divide entry i
    of the attention parameters by it, is to multiply neuron i by it and to change nothing else. To divide column j of
    the outgoing matrices by it undoes that neuron j of the layer before was multiplied: see
    :mod:`gnn_depth.nn.neurons`.

    Attributes:
        incoming: Matrices (neurons, inputs); row i is what comes into neuron i of this layer.
        outgoing: Matrices (outputs, neurons of the layer before); column j is what leaves neuron j of that layer.
        attention: Matrices (heads, channels); the entry at i of the flattened matrix belongs to neuron i.
        bias: Vectors (neurons); entry i is added to neuron i.
    """

    incoming: tuple[Tensor, ...]
    outgoing: tuple[Tensor, ...]
    attention: tuple[Tensor, ...] = ()
    bias: tuple[Tensor, ...] = ()


@runtime_checkable
class HasWeightChain(Protocol):
    """A layer that says which weights lead into and out of its neurons, so that inits and diagnostics can serve it."""

    def weight_chain(self) -> WeightChain: ...


class Share(NamedTuple):
    """The weights that a parameter contributes to neurons.

    Attributes:
        parameter: The parameter.
        axis: The axis along which its neurons lie; None if every entry belongs to another neuron.
    """

    parameter: Tensor
    axis: Literal[0, 1] | None


@dataclass(frozen=True)
class Link:
    """Neurons, and the weights around them that change if one of them is rescaled.

    Attributes:
        states: The hidden states whose entries they are: 0 enters the first layer, l leaves the l-th.
        incoming: Matrices and biases that lead into them.
        attention: Attention parameters on them.
        outgoing: Matrices that lead out of them. One that leads from some of the neurons to others is in ``incoming``
            too.
    """

    states: tuple[int, ...]
    incoming: tuple[Share, ...]
    attention: tuple[Share, ...]
    outgoing: tuple[Share, ...]
