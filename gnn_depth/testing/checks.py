"""The suites: one function for each kind of part."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

import gnn_depth.nn  # noqa: F401  (registers the parts of the stacks)
from gnn_depth.graph import Graph
from gnn_depth.nn.parts import (
    FeatureNorm,
    GraphDropout,
    Init,
    Layer,
    Norm,
    ScoreNorm,
    Skip,
    WeightNorm,
)
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.testing import properties, subjects
from gnn_depth.testing.suite import (
    SubjectsOf,
    Suites,
    Violation,
    as_property,
    assert_all_close,
    assert_finite,
    check_part,
    seeded,
)

#: Properties of every module.
COMMON = [
    properties.shape,
    properties.finite_outputs,
    properties.gradient,
    properties.state,
    properties.ddp,
    properties.compiles,
    properties.inputs_unchanged,
    properties.repeat,
    properties.gpu,
]
OF_GRAPHS = [*COMMON, properties.permutation, properties.batch, properties.blocks]
ROWS = replace(
    properties.blocks,
    name="rows",
    remedy="Join every node by itself, without sums over nodes; use a norm for those.",
)


def check_norm(norm: type[Norm] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that a norm has the properties of every norm.

    Properties: ``shape``, ``finite``, ``gradient``, ``state``, ``ddp``, ``compile``, ``inputs``,
    ``repeat``, and ``gpu`` where PyTorch finds one; norms of features and scores also have
    ``permutation``, ``batch`` and ``blocks``. A norm of scores is checked with every kind of score
    that it serves, one of weights with wide and tall matrices.

    Args:
        norm: The class, or its registered name.
        except_for: Properties that it lacks on purpose.
        options: Arguments of its constructor after the width.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is not a norm, or there is no such property.
    """
    suites: Suites = {
        FeatureNorm: (subjects.of_features(subjects.CHANNELS), OF_GRAPHS),
        ScoreNorm: (subjects.of_score_norm, OF_GRAPHS),
        WeightNorm: (subjects.of_weight_norm, COMMON),  # without nodes to renumber or leave out
    }
    check_part("norm", norm, suites, except_for, options)


def check_layer(
    layer: type[Layer] | str, *, except_for: Sequence[str] = (), **options: Any
) -> None:
    """Check that a layer has the properties of every layer.

    Properties: those of :func:`check_norm`, ``sparse``, and ``chain``, the conservation law of a
    declared weight chain. Arguments and errors are those of :func:`check_norm`; ``options`` follow
    the two widths, 4 and 24.
    """
    expected = [*OF_GRAPHS, properties.sparse, properties.chain]
    of_layer = subjects.of_features(subjects.CHANNELS, subjects.OUT)
    check_part("layer", layer, {Layer: (of_layer, expected)}, except_for, options)


def check_skip(skip: type[Skip] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that a skip connection has the properties of every one.

    Properties: those that all norms have, ``rows``, and its promises ``adds`` and ``invertible``.
    It gets the states that it ``reads``, no others. One that carries a second state is tried on two
    layers. Arguments and errors are those of :func:`check_norm`; ``options`` follow the widths.
    """
    expected = [*COMMON, ROWS, properties.adds, properties.invertible]
    check_part("skip", skip, {Skip: (subjects.of_skip, expected)}, except_for, options)


@dataclass(frozen=True)
class Case:
    """A part, and what it works on: a stack or a graph."""

    label: str  # its description in messages
    part: Callable[[Any], Any]
    build: Callable[[], Any]  # makes what it works on

    def __str__(self) -> str:
        return self.label

    def apply(self, to: Any) -> Any:
        """The output of the part, always with the same seed."""
        with seeded(1):
            return self.part(to)


def _cases(builders: Mapping[str, Callable[[], Any]]) -> SubjectsOf:
    """The subjects of a part: each of these."""
    return lambda make: (Case(label, make(), build) for label, build in builders.items())


_stack = partial(DeepGNN, 5, 3, num_layers=3, hidden_channels=4)
#: Stacks on which every initialisation is tested.
STACKS = {
    "a GCN of even width": partial(_stack, hidden_channels=6),
    "a GCN of odd width": partial(_stack, hidden_channels=7),
    "one GCN layer": partial(_stack, num_layers=1),
    "a GAT of two heads": partial(_stack, layer={"name": "gat", "heads": 2}, hidden_channels=5),
    "a GAT without encoder and decoder": partial(
        _stack, layer="gat", encoder="none", decoder="none"
    ),
    "a residual GCN": partial(_stack, hidden_channels=5, skip="residual"),
    "a GCN with a norm of its weights": partial(_stack, num_layers=2, norm="weight_frobenius"),
}


@as_property(
    "drawn",
    "Draw all weights and biases with torch's functions and their default generator; for layers "
    "call reset_parameters() first.",
)
def drawn(drawing: Case) -> None:
    """The result depends on torch's seed alone, not on the values before.

    A parameter that is forgotten would keep the values of its module's own initialisation.
    """
    results = []
    for before in (0.5, -0.25):
        stack = drawing.build()
        for parameter in stack.parameters():
            nn.init.constant_(parameter, before)
        drawing.apply(stack)
        results.append(stack.state_dict())
    assert_all_close(results[0], results[1], f"{drawing}, drawn twice from one seed", tolerance=0)


@as_property("finite", "Look for divisions by a width minus one, or by a sum that may be zero.")
def finite_start(drawing: Case) -> None:
    """Parameters are finite, and so are the outputs and gradients of the first step."""
    stack = drawing.build()
    drawing.apply(stack)
    subjects.backpropagate(stack, torch.float32)
    for name, parameter in stack.named_parameters():
        assert_finite({name: parameter, f"the gradient of {name}": parameter.grad}, f"{drawing}")


@as_property("in_place", "Draw inside torch.no_grad(), with normal_(), copy_() and the like.")
def in_place(drawing: Case) -> None:
    """Parameters are drawn in place: same tensors, shapes and types, trained as before."""
    stack = drawing.build().double()
    before = _facts(stack)
    drawing.apply(stack)
    if before != _facts(stack):
        raise Violation(
            f"{drawing}: a parameter is another tensor, has another shape or type, or is trained "
            "otherwise."
        )


def _facts(stack: DeepGNN) -> list[tuple[Any, ...]]:
    every = stack.parameters()
    return [(id(one), one.shape, one.dtype, one.requires_grad) for one in every]


def check_init(init: type[Init] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that an initialisation has the properties of every one, on seven small stacks.

    Properties: ``drawn``, ``finite``, ``in_place``. Arguments and errors are those of
    :func:`check_norm`.
    """
    expected = [drawn, finite_start, in_place]
    check_part("init", init, {Init: (_cases(STACKS), expected)}, except_for, options)


@as_property("fewer", "Return graph.keeping(mask), with one truth value for every edge.")
def fewer(thinning: Case) -> None:
    """The nodes stay the same, and the edges are some of the graph's."""
    graph = thinning.build()
    thin = thinning.apply(graph)
    if not isinstance(thin, Graph):
        raise Violation(f"{thinning}: it returns {type(thin).__name__}, not a Graph.")
    if thin.num_nodes != graph.num_nodes or thin.node_to_graph is not graph.node_to_graph:
        raise Violation(f"{thinning}: its nodes are others, or belong to other graphs of a batch.")
    # By counts, as edges may repeat: dropping one of three is allowed, adding one is not.
    before = Counter(zip(*graph.edge_index.tolist(), strict=True))
    added = Counter(zip(*thin.edge_index.tolist(), strict=True)) - before
    for source, target in added:
        raise Violation(f"{thinning}: an edge from {source} to {target} was not there before.")


@as_property("seed", "Draw with torch's functions and their default generator only.")
def same_edges(thinning: Case) -> None:
    """The same seed of torch drops the same edges."""
    # Of two graphs, as a graph may keep what was drawn for it.
    one = thinning.apply(thinning.build())
    other = thinning.apply(thinning.build())
    if not torch.equal(one.edge_index, other.edge_index):
        raise Violation(f"{thinning}: other edges after the same seed.")


@as_property("inputs", "Return a new graph: graph.keeping(mask) leaves this one alone.")
def graph_unchanged(thinning: Case) -> None:
    """The input graph does not change: evaluation uses all of its edges."""
    graph = thinning.build()
    before = graph.edge_index.clone()
    thinning.apply(graph)
    if not subjects.has_edges(graph, before):
        raise Violation(f"{thinning}: the graph has other edges afterwards.")


def both_ways(graph: Graph) -> Graph:
    """The graph with every edge in both directions."""
    edges = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)
    return Graph(edges, graph.num_nodes, graph.node_to_graph)


GRAPHS = {
    "a graph": lambda: both_ways(subjects.mixed()),
    "two graphs": lambda: both_ways(subjects.two_graphs()[0]),
    "a graph without edges": subjects.without_edges,
    "a graph of one node": lambda: subjects.without_edges(1),
}


def check_graph_dropout(
    part: type[GraphDropout] | str, *, except_for: Sequence[str] = (), **options: Any
) -> None:
    """Check that a graph dropout has the properties of every one.

    Properties: ``fewer``, ``seed``, ``inputs``. Arguments and errors are those of
    :func:`check_norm`.
    """
    expected = [fewer, same_edges, graph_unchanged]
    check_part(
        "graph_dropout", part, {GraphDropout: (_cases(GRAPHS), expected)}, except_for, options
    )
