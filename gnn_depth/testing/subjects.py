"""Small graphs, and parts as functions of rows of features and a graph."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import (
    aggregate,
    at_source,
    at_target,
    edge_additive,
    edge_dot,
    targets,
)
from gnn_depth.nn.parts import Skip, WeightNorm
from gnn_depth.nn.scores import AdditiveScore, LinearScore, QuadraticScore, Score
from gnn_depth.testing.suite import SubjectsOf, Violation, seeded

CHANNELS, HEADS = 4, 2
OUT = 24  # can be shared by 2, 3, 4, 6 or 8 heads
NEURONS = 9  # rows of a weight matrix: as many as the graph has nodes
#: Parameters are moved by this much from their first values: ones and zeros hide mistakes.
MOVED = 0.1


def mixed() -> Graph:
    """Nine nodes, one isolated and one with a self-loop; an edge repeats, and most go one way."""
    source = [0, 1, 1, 2, 3, 4, 0, 5, 6, 6, 7, 7, 5]
    target = [1, 0, 2, 3, 4, 0, 4, 2, 2, 5, 7, 6, 2]
    return Graph(torch.tensor([source, target]), 9)


def without_edges(num_nodes: int = 9) -> Graph:
    """A graph without edges."""
    return Graph(torch.zeros(2, 0, dtype=torch.long), num_nodes)


def two_graphs() -> tuple[Graph, list[tuple[Graph, Tensor]]]:
    """The mixed graph and a smaller one in one batch; each alone with the numbers of its nodes."""
    first, second = mixed(), Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 0, 4]]), 5)
    # Alternating, so that a part that takes graphs as consecutive rows is found out.
    node_to_graph = torch.tensor([0, 1, 0, 1, 0] + [0, 1, 0] * 3)
    numbers = [(node_to_graph == graph).nonzero()[:, 0] for graph in (0, 1)]
    edges = torch.cat([numbers[0][first.edge_index], numbers[1][second.edge_index]], 1)
    return Graph(edges, 14, node_to_graph), [(first, numbers[0]), (second, numbers[1])]


def backpropagate(stack: nn.Module, dtype: torch.dtype) -> None:
    """Pass random features of the mixed graph through a stack, and back from a loss."""
    graph = mixed()
    with seeded(2):
        out = stack(torch.randn(graph.num_nodes, 5, dtype=dtype), graph)
    # Labels of every class; which node has which does not matter.
    torch.autograd.backward(F.cross_entropy(out, torch.arange(graph.num_nodes) % 3))


def has_edges(graph: Graph, edges: Tensor) -> bool:
    """True if the graph's edges are these, as sources and targets and as its ``edge_index``."""
    ends = torch.stack([graph.source, graph.target])
    return torch.equal(graph.edge_index, edges) and torch.equal(ends, edges)


@dataclass(frozen=True)
class Subject:
    """A part, used as a function of rows of features and a graph."""

    label: str  # its description in messages
    make: Callable[..., Any]  # the class with its options
    args: tuple[Any, ...]  # its other arguments, for the widths of the inputs
    widths: tuple[int, ...]  # of the inputs
    apply: Callable[[Any, Sequence[Tensor], Graph], Tensor] = lambda part, inputs, graph: part(
        inputs[0], graph
    )
    rows: int | None = None  # of the inputs; by default one for each node

    def __str__(self) -> str:
        return self.label

    def part(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
        """A new part, the same for the same seed, with moved parameters."""
        with seeded(seed), torch.no_grad():
            part = self.make(*self.args).double()
            for parameter in part.parameters():
                parameter.add_(MOVED * torch.randn_like(parameter))
        return part.to(dtype)

    def inputs(self, graph: Graph, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        """Random inputs, the same in every call."""
        rows = self.rows or graph.num_nodes
        with seeded(1):
            drawn = [torch.randn(rows, width, dtype=torch.float64) for width in self.widths]
        return [x.to(dtype) for x in drawn]

    def on_mixed(self, dtype: torch.dtype = torch.float64) -> tuple[Graph, Any, list[Tensor]]:
        """The mixed graph, the part, and random inputs."""
        graph = mixed()
        return graph, self.part(dtype), self.inputs(graph, dtype)

    def run(
        self,
        part: Any,
        inputs: Sequence[Tensor],
        graph: Graph,
        training: bool = False,
        seed: int = 2,
    ) -> Tensor:
        """The output for copies of the inputs, in training or evaluation."""
        copies = [x.clone() for x in inputs]
        with seeded(seed):
            part.train(training)
            if training and isinstance(part, WeightNorm):
                with torch.no_grad():  # as the stack does before a pass
                    part.update_state([part], copies)
            out = self.apply(part, copies, graph)
        if not isinstance(out, Tensor):
            raise Violation(f"{self}: forward returns {type(out).__name__}, not a tensor.")
        return out

    def modes(self, graph: Graph) -> Iterator[tuple[bool, str]]:
        """The modes to check: evaluation, and training unless its output is random."""
        yield False, f"{self} in evaluation"
        part, inputs = self.part(), self.inputs(graph)
        one = self.run(part, inputs, graph, training=True)
        other = self.run(part, inputs, graph, training=True, seed=3)
        if torch.equal(one, other):
            yield True, f"{self} in training"


def parameters_of(part: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained."""
    return {name: each for name, each in part.named_parameters() if each.requires_grad}


# The subjects of a part, from its class with its options.


def of_features(*args: int) -> SubjectsOf:
    """A part of one input, constructed with these widths."""
    return lambda make: [Subject("features", make, args, widths=args[:1])]


def of_score_norm(make: Any) -> Iterator[Subject]:
    """One subject for every kind of score that the norm serves.

    The normalised scores are the weights of a sum over edges, so that the output has a row for
    every node.
    """
    for score in make.func.serves:
        yield Subject(
            f"scores of kind {score.__name__}",
            make,
            (HEADS,),
            widths=(HEADS * CHANNELS,) * 2,
            apply=partial(_weighted_sum, score),
        )


def _weighted_sum(kind: type, part: Any, inputs: Sequence[Tensor], graph: Graph) -> Tensor:
    x, value = (one.view(-1, HEADS, CHANNELS) for one in inputs)
    x_dst = targets(x, graph)
    with seeded(6):
        one, other = torch.randn(2, HEADS, CHANNELS, dtype=torch.float64).to(x)
    score: Score = QuadraticScore(x_dst, x, value)
    scores = edge_dot(x_dst, x, graph) / CHANNELS**0.5
    if kind is LinearScore:
        scores = at_target((x_dst * one).sum(-1), graph) + at_source((x * other).sum(-1), graph)
        score = LinearScore(x, one, other)
    elif kind is AdditiveScore:
        scores, score = edge_additive(x_dst, x, one, graph, 0.2), AdditiveScore(x_dst, x, one)
    return aggregate(part(scores, score, graph), value, graph).flatten(1)


def of_weight_norm(make: partial[WeightNorm]) -> Iterator[Subject]:
    """Matrices of nine neurons, with five inputs or twelve."""
    for inputs in (5, 12):  # a tall one and a wide one
        yield Subject(
            f"a matrix of {inputs} inputs",
            partial(_for_matrix, make, inputs),
            (),
            widths=(inputs,),
            rows=NEURONS,
            apply=lambda part, inputs, graph: part(inputs[0]),
        )


def _for_matrix(make: Callable[[int], WeightNorm], inputs: int) -> WeightNorm:
    norm = make(3)
    norm.reset_state(torch.randn(NEURONS, inputs))
    return norm


def of_skip(make: partial[Skip]) -> Iterator[Subject]:
    """States of one width, and of several widths unless the skip connection refuses those."""
    every = [[OUT, OUT], [3, 5]]
    try:
        make([3, 5], OUT)
    except ValueError:
        every.pop()
    for widths in every:
        yield Subject(f"states of widths {widths}", make, (widths, OUT), (OUT, *widths), _joined)


def _joined(part: Any, inputs: Sequence[Tensor], graph: Graph) -> Tensor:
    """The joined state of the states that the stack keeps for a skip connection.

    With a second state, the one after two layers, which also depends on the second state.
    """
    update, *every = inputs
    known = {"nothing": [], "input": every[-1:], "first": every[:1], "all": every}
    states = known[part.reads]
    if not part.carries:
        return part(update, states, graph)
    _, carried = part(update, states, graph, None)
    state, _ = part(update, states, graph, carried)
    return state
