"""Properties of what comes out: its shape, and which nodes and graphs may decide it."""

import torch
from torch import nn

from gnn_depth.nn.functional.sparse_features import _sparse
from gnn_depth.testing.graphs import both_ways, mixed, pair, renumbered
from gnn_depth.testing.subject import Subject, seeded
from gnn_depth.testing.suite import Violation, assert_close


def shape(subject: Subject) -> None:
    """Every node gets one row, as wide as the part says.

    The stack gives the next part what it announces: a layer's and skip's ``width``, a norm's own channels.
    """
    graph = mixed()
    part = subject.part()
    out = subject.run(part, subject.inputs(graph), graph)
    wanted = (graph.num_nodes, subject.width(part))
    if out.shape != wanted:
        raise Violation(f"{subject}: the shape is {tuple(out.shape)} and should be {wanted}.")


def permutation(subject: Subject) -> None:
    """Renumbering the nodes renumbers the outputs and changes nothing else.

    The numbers of nodes are arbitrary: a part that reads them learns what no other graph has.
    """
    graph = mixed()
    part, inputs = subject.part(), subject.inputs(graph)
    with seeded(4):
        order = torch.randperm(graph.num_nodes)
    other = renumbered(graph, order)
    for training, where in subject.modes(graph).items():
        out = subject.run(part, inputs, graph, training)
        moved = subject.run(part, [x[order] for x in inputs], other, training)
        assert_close(moved, out[order], f"{where}, nodes renumbered")


def batch(subject: Subject) -> None:
    """Two graphs side by side get what each gets alone.

    Otherwise a prediction depends on which graphs happen to be in its batch. ``graph.node_to_graph`` tells them apart.
    """
    both = pair()
    part, inputs = subject.part(), subject.inputs(both.together)
    for training, where in subject.modes(both.together).items():
        out = subject.run(part, inputs, both.together, training)
        for number, (graph, nodes) in enumerate(both.alone):
            alone = subject.run(part, [x[nodes] for x in inputs], graph, training)
            assert_close(out[nodes], alone, f"{where}, graph {number} of a batch of two")


def blocks(subject: Subject) -> None:
    """The first nodes alone get what they get among all nodes, where the part says so.

    ``takes_blocks`` of a layer and ``nodewise`` of a norm let the stack leave out what nobody reads; skips always do.
    """
    graph = mixed()
    part, inputs = subject.part(), subject.inputs(graph)
    if not subject.by_rows(part):
        return
    for training, where in subject.modes(graph).items():
        out = subject.run(part, inputs, graph, training)
        for nodes in (1, 5):
            block = graph.prefix(nodes)
            rows = block.num_sources if subject.takes_sources else nodes
            few = subject.run(part, [x[:rows] for x in inputs], block, training)
            assert_close(few, out[:nodes], f"{where}, the first {nodes} of {graph.num_nodes} nodes")


def sparse(subject: Subject) -> None:
    """Sparse features give what dense ones give, where the layer says that it takes them.

    ``takes_sparse`` of a layer promises that features go into :class:`gnn_depth.nn.linear.Linear` and nowhere else.
    """
    graph = both_ways()
    part = subject.part()
    if not getattr(part, "takes_sparse", False):
        return
    (x,) = subject.inputs(graph)
    x = x * (x > 0)
    wanted = subject.run(part, [x], graph)
    with seeded(2):
        got = subject.apply(part, [_sparse(x)], graph)  # type: ignore[list-item]
    assert_close(got, wanted, f"{subject}, sparse features")


def parameters_of(part: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained."""
    return {name: parameter for name, parameter in part.named_parameters() if parameter.requires_grad}
