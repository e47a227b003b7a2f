"""The properties of norms, layers and skip connections, one function for each."""

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from gnn_depth.diagnostics.balance import defect
from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.functional.sparse_features import sparse_form
from gnn_depth.nn.parts import Layer, Norm, ScoreNorm
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.testing.subjects import (
    OUT,
    Subject,
    backpropagate,
    has_edges,
    mixed,
    parameters_of,
    two_graphs,
    without_edges,
)
from gnn_depth.testing.suite import (
    Violation,
    as_property,
    assert_all_close,
    assert_close,
    assert_finite,
    seeded,
)


def with_gradients(
    subject: Subject, part: Any, inputs: Sequence[Tensor], graph: Graph, training: bool
) -> dict[str, Tensor]:
    """The output, and the gradients of a random weighted sum of it that there are, by name."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    part.zero_grad()
    out = subject.run(part, leaves, graph, training)
    if out.requires_grad:  # it need not: a norm may return zeros for a single node
        with seeded(5):
            weight = torch.randn(out.shape, dtype=out.dtype)
        torch.autograd.backward(out, weight.to(out.device))
    found = {"the output": out.detach()}
    named = {f"input {number}": leaf for number, leaf in enumerate(leaves)} | parameters_of(part)
    for name, leaf in named.items():
        if leaf.grad is not None:
            found[f"the gradient of {name}"] = leaf.grad
    return found


# Structure: the shape of the output, and the nodes and graphs that it depends on.


@as_property(
    "shape",
    "Return one tensor, a row for every node, of the input's type; set width of a layer or skip.",
)
def shape(subject: Subject) -> None:
    """Every node gets a row of finite numbers, as wide as the part says, of the input's type."""
    for kind in (torch.float64, torch.float32):
        graph, part, inputs = subject.on_mixed(kind)
        for training in (False, True):
            out = subject.run(part, inputs, graph, training)
            width = subject.widths[0] if isinstance(part, Norm) else part.width
            found, wanted = (*out.shape, out.dtype), (graph.num_nodes, width, kind)
            if found != wanted:
                raise Violation(f"{subject}: shape and type are {found} and should be {wanted}.")
            assert_finite({"the output": out}, f"{subject}, random features")


def compare_rows(
    subject: Subject, whole: Graph, what: str, other: Graph, read: Any, written: Any
) -> None:
    """Compare the output on another graph with rows of the output on a whole one.

    ``read`` and ``written`` are the rows of the other's inputs, and of its output, in the whole.
    """
    part, inputs = subject.part(), subject.inputs(whole)
    for training, where in subject.modes(whole):
        out = subject.run(part, inputs, whole, training)
        own = subject.run(part, [x[read] for x in inputs], other, training)
        assert_close(own, out[written], f"{where}, {what}")


@as_property("permutation", "Use the graph's edges and sums or means over nodes, no positions.")
def permutation(subject: Subject) -> None:
    """Renumbering the nodes renumbers the outputs and changes nothing else."""
    graph = mixed()
    with seeded(4):
        order = torch.randperm(graph.num_nodes)
    # Node i is node order[i] of the graph.
    other = Graph(torch.argsort(order)[graph.edge_index], graph.num_nodes)
    compare_rows(subject, graph, "nodes renumbered", other, order, order)


@as_property(
    "batch",
    "Sum or average by graph_mean(x, graph) of gnn_depth.nn.functional, not over all nodes.",
)
def batch(subject: Subject) -> None:
    """Two graphs in one batch get the same outputs as each alone."""
    together, alone = two_graphs()
    for number, (graph, nodes) in enumerate(alone):
        what = f"graph {number} of a batch of two"
        compare_rows(subject, together, what, graph, nodes, nodes)


@as_property("blocks", "Set nodewise = False (a norm) or takes_blocks = False (a layer).")
def blocks(subject: Subject) -> None:
    """The first nodes get the same outputs alone as among all nodes, if the part promises that.

    With ``takes_blocks`` (of a layer or a skip connection) or ``nodewise`` (of a norm) the stack
    leaves out nodes that are not read.
    """
    graph, part = mixed(), subject.part()
    if not part.takes_blocks:  # of a norm: nodewise
        return
    for nodes in (1, 5):
        block = graph.prefix(nodes)
        rows = nodes
        if isinstance(part, Layer | ScoreNorm):  # others read the targets alone
            rows = block.num_sources
        what = f"the first {nodes} nodes"
        compare_rows(subject, graph, what, block, slice(rows), slice(nodes))


@as_property("sparse", "Pass x to gnn_depth.nn.linear.Linear alone, or set takes_sparse = False.")
def sparse(subject: Subject) -> None:
    """Sparse features give the same output as dense ones, if the layer promises to take them.

    ``takes_sparse`` promises that the features go into :class:`gnn_depth.nn.linear.Linear` and
    nowhere else.
    """
    graph, part, (x,) = subject.on_mixed()
    if not part.takes_sparse:
        return
    x = x * (x > 0)  # half of it zeros
    wanted = subject.run(part, [x], graph)
    with seeded(2):
        got = subject.apply(part, [sparse_form(x)], graph)  # type: ignore[list-item]
    assert_close(got, wanted, f"{subject}, sparse features")


# Numbers: finite, with correct derivatives, in the precision of the input.


@as_property(
    "finite",
    "Guard each division and root: sqrt(x + eps) or x.clamp_min(eps), before the root, not after "
    "it.",
)
def finite_outputs(subject: Subject) -> None:
    """Outputs and gradients are finite on zeros, equal or isolated nodes, one node and no edges."""
    graphs = {
        "a graph with an isolated node": mixed(),
        "a graph without edges": without_edges(),
        "a graph of one node": without_edges(1),
    }
    # In float32, where squares of 1e-30 are zero.
    for place, graph in graphs.items():
        part, drawn = subject.part(torch.float32), subject.inputs(graph, torch.float32)
        extremes = {
            "random features": drawn,
            "zeros": [torch.zeros_like(x) for x in drawn],
            "a row of zeros": [torch.cat([torch.zeros_like(x[:1]), x[1:]]) for x in drawn],
            "equal rows": [x[:1].expand_as(x) for x in drawn],
            "features of 1e-30": [1e-30 * x for x in drawn],
        }
        for kind, inputs in extremes.items():
            for mode in ("training", "evaluation"):
                found = with_gradients(subject, part, inputs, graph, mode == "training")
                assert_finite(found, f"{subject}, {kind} on {place}, in {mode}")


@as_property(
    "gradient", "Remove detach(), .data and torch.no_grad(), or correct the backward pass."
)
def gradient(subject: Subject) -> None:
    """Gradients with respect to inputs and parameters agree with finite differences, in float64."""
    graph, part, inputs = subject.on_mixed()
    parameters = parameters_of(part)

    def function(*values: Tensor) -> Tensor:  # gradcheck moves the part's own parameters
        with seeded(2):
            return subject.apply(part, [value.clone() for value in values[: len(inputs)]], graph)

    for training, where in subject.modes(graph):
        subject.run(part, inputs, graph, training)
        leaves = [x.clone().requires_grad_() for x in inputs]
        try:
            gradcheck(function, (*leaves, *parameters.values()), fast_mode=True)
        except GradcheckError as error:
            # It numbers the inputs, and after them the parameters.
            text = " ".join(str(error).split())[:200]
            raise Violation(f"{where}: {text}; parameters: {', '.join(parameters)}") from None


# Modules: state, parameters, side effects, compilation.


@as_property(
    "state",
    "Keep tensors by register_buffer or nn.Parameter, with shapes that are fixed from the start.",
)
def state(subject: Subject) -> None:
    """A new part with the saved state gives the same output as the saved part.

    Checkpoints hold ``state_dict()`` alone, so all that is drawn or learned has to be a parameter
    or a buffer.
    """
    graph, part, inputs = subject.on_mixed()
    subject.run(part, inputs, graph, training=True)
    again = subject.part(seed=17)  # drawn otherwise, so what is not loaded differs
    again.load_state_dict(part.state_dict())
    out = subject.run(again, inputs, graph)
    assert_close(out, subject.run(part, inputs, graph), f"{subject}, loaded into a new part")


@as_property("ddp", "Make parameters in __init__, and only those that every pass uses.")
def ddp(subject: Subject) -> None:
    """Parameters exist from the start, stay the same objects, and all get gradients in every step.

    DistributedDataParallel lists them once, at the start, and waits for each of their gradients.
    """
    graph, part, inputs = subject.on_mixed()
    before = dict(part.named_parameters())
    out = subject.run(part, inputs, graph, training=True)
    after = dict(part.named_parameters())
    # By identity: DDP and optimizers hold the objects, not the names.
    for name in before | after:
        if before.get(name) is not after.get(name):
            raise Violation(f"{subject}: forward makes, removes or replaces the parameter {name}.")
    if out.requires_grad:
        torch.autograd.backward(out.square().sum())
    unused = [name for name, parameter in parameters_of(part).items() if parameter.grad is None]
    if unused:
        raise Violation(f"{subject}: no gradient arrives at {', '.join(unused)}.")


@as_property(
    "compile", "Remove .item(), float(tensor), print and branches on values; torch.where helps."
)
def compiles(subject: Subject) -> None:
    """torch.compile takes the part as a whole, and outputs and gradients stay the same."""
    graph, part, inputs = subject.on_mixed()
    torch.compiler.reset()
    with warnings.catch_warnings(), native.without_kernels():
        warnings.simplefilter("ignore")  # the compiler's own
        wanted = with_gradients(subject, part, inputs, graph, training=True)
        part = subject.part()
        # fullgraph: a part that breaks the graph would run, but slowly.
        part.compile(backend="aot_eager", fullgraph=True)
        got = with_gradients(subject, part, inputs, graph, training=True)
    assert_all_close(got, wanted, f"{subject}, compiled")


@as_property("inputs", "Write x = x + y instead of x += y; use no in-place functions (x.add_()).")
def inputs_unchanged(subject: Subject) -> None:
    """A pass does not change its inputs."""
    graph, part, inputs = subject.on_mixed()
    edges = graph.edge_index.clone()
    for training in (True, False):
        part.train(training)
        given = [x.clone() for x in inputs]
        with torch.no_grad():
            subject.apply(part, given, graph)
        for number, (x, before) in enumerate(zip(given, inputs, strict=True)):
            assert_close(x, before, f"{subject}, input {number} after a pass", 0)
    if not has_edges(graph, edges):
        raise Violation(f"{subject}: the graph has other edges after a pass.")


@as_property("repeat", "Check self.training before drawing random numbers or updating buffers.")
def repeat(subject: Subject) -> None:
    """In evaluation an input always has the same output, and no state or random number changes."""
    graph, part, inputs = subject.on_mixed()
    first = subject.run(part, inputs, graph)
    before = deepcopy(part.state_dict())
    with seeded(3), torch.no_grad():
        numbers = torch.get_rng_state()
        second = subject.apply(part, [x.clone() for x in inputs], graph)
        moved = not torch.equal(numbers, torch.get_rng_state())
    assert_close(second, first, f"{subject}, a second pass after another seed", 0)
    assert_all_close(part.state_dict(), before, f"{subject}, after a pass in evaluation", 0)
    if moved:
        raise Violation(f"{subject}: a pass in evaluation draws random numbers.")


@as_property(
    "gpu",
    "Make tensors on the device of the input, as in torch.zeros(3, device=x.device); keep those "
    "of the part by register_buffer.",
)
def gpu(subject: Subject) -> None:
    """Outputs and gradients on a GPU are those on the CPU; tried where PyTorch finds a GPU."""
    graph, part, inputs = subject.on_mixed()
    for training, where in subject.modes(graph):
        wanted = with_gradients(subject, part, inputs, graph, training)
        on_gpu = [x.cuda() for x in inputs]
        got = with_gradients(subject, subject.part().cuda(), on_gpu, graph.to("cuda"), training)
        assert_all_close(got, wanted, f"{where}, on a GPU")


# Promises that a layer or a skip connection may make.


@as_property(
    "chain",
    "Name every weight and bias of a neuron in weight_chain(), or delete that method.",
)
def chain(subject: Subject) -> None:
    """A declared weight chain obeys the conservation law of its neurons.

    Summed over the weights into a neuron, weight times gradient equals the same sum over the
    weights out of it and its attention parameters: :mod:`gnn_depth.nn.neurons`. Balanced
    initialisation and diagnostics rely on it.
    """
    layer = subject.part()
    try:
        declared = layer.weight_chain()
    except ValueError:  # it has none, at all or with these options
        return
    own = {id(parameter) for parameter in layer.parameters()}
    for name, tensors in vars(declared).items():
        if not own.issuperset(map(id, tensors)):
            raise Violation(f"{name} of its weight chain is not a parameter of the layer.")
    _check_law(layer=subject.make)


@as_property("adds", "Name every matrix between the states in weight_chain(), or set adds = None.")
def adds(subject: Subject) -> None:
    """The neurons that a skip connection joins obey the conservation law, if it ``adds`` a state.

    Balanced initialisation and diagnostics rescale neuron i of the added state and of the joined
    state together.
    """
    part: Any = subject.part()
    if part.adds is not None:
        _check_law(skip=subject.make)


@as_property(
    "invertible",
    "Return states[-1] plus a function of the update, or set invertible = False.",
)
def invertible(subject: Subject) -> None:
    """The joined state is the layer's input plus a function of the update, if ``invertible``.

    Reversible stacks compute the input again as the difference.
    """
    graph, part, (update, *earlier, x) = subject.on_mixed()
    # A matrix between states of two widths is not promised to be.
    if not part.invertible or x.shape != update.shape:
        return
    out = subject.run(part, [update, *earlier, x], graph, training=True)
    moved = subject.run(part, [update, *earlier, x + 1], graph, training=True)
    assert_close(moved, out + 1, f"{subject}, the input plus one")


def _check_law(**parts: Any) -> None:
    """Check the conservation law of all neurons in three layers, at random parameters."""
    with seeded(7):
        stack = DeepGNN(5, 3, num_layers=3, hidden_channels=OUT, **parts).double().eval()
        with torch.no_grad():
            for parameter in stack.parameters():  # biases too: zeros hide a term that is missing
                parameter.normal_()
                if parameter.dim():  # a matrix keeps the size of what it maps
                    parameter.mul_(parameter.shape[-1] ** -0.5)
        if stack.why_no_law() is not None:
            return
        backpropagate(stack, torch.float64)
    # Relative to the largest term: the two sides are sums of such terms.
    terms = [each.detach() * each.grad for each in stack.parameters() if each.grad is not None]
    largest = max(term.abs().max() for term in terms)
    for link in stack.links():
        off = defect(link).abs().max()
        if not off <= 1e-8 * largest:
            raise Violation(
                f"state {link.states[0]} of three layers: the two sides differ by {off:.2g}, with "
                f"terms up to {largest:.2g}."
            )
