"""Properties of a part as a module: its state, its parameters, what it leaves alone, that it compiles."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gnn_depth.testing.graphs import mixed
from gnn_depth.testing.structure import parameters_of
from gnn_depth.testing.subject import Subject
from gnn_depth.testing.suite import Violation, assert_close


def state(subject: Subject) -> None:
    """A new part with the saved state gives what the saved one gave.

    Checkpoints hold ``state_dict()`` alone: what is drawn or learned belongs into parameters and buffers.
    """
    graph = mixed()
    part, inputs = subject.part(), subject.inputs(graph)
    subject.run(part, inputs, graph, training=True)
    saved = io.BytesIO()
    torch.save(part.state_dict(), saved)
    saved.seek(0)
    again = subject.part(seed=17)
    again.load_state_dict(torch.load(saved, weights_only=True))
    out, wanted = (subject.run(each, inputs, graph) for each in (again, part))
    assert_close(out, wanted, f"{subject}, loaded into a new part")


def ddp(subject: Subject) -> None:
    """Parameters are there before the first pass, stay those, and all get a gradient in every step.

    DistributedDataParallel lists them once, at the start, and waits for each of their gradients.
    """
    graph = mixed()
    part = subject.part()
    before = {name: id(parameter) for name, parameter in part.named_parameters()}
    out = subject.run(part, subject.inputs(graph), graph, training=True)
    after = {name: id(parameter) for name, parameter in part.named_parameters()}
    if before != after:
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        raise Violation(f"{subject}: forward makes, removes or replaces the parameters {', '.join(changed)}.")
    if not out.requires_grad:
        if parameters_of(part):
            raise Violation(f"{subject}: the output depends on no parameter, and there are some.")
        return
    torch.autograd.backward(out.square().sum())
    unused = [name for name, parameter in parameters_of(part).items() if parameter.grad is None]
    if unused:
        raise Violation(f"{subject}: no gradient arrives at {', '.join(unused)}.")


def compiles(subject: Subject) -> None:
    """torch.compile takes the part as a whole, and its numbers and gradients stay what they were.

    Layers are compiled round by round; a part that breaks the graph makes a deep stack several times slower.
    """
    graph = mixed()
    inputs, results = subject.inputs(graph), []
    torch.compiler.reset()
    for each in (subject.part(), torch.compile(subject.part(), backend="aot_eager", fullgraph=True)):
        leaves = [x.clone().requires_grad_() for x in inputs]
        with _quiet():
            out = subject.run(each, leaves, graph, training=True)
            torch.autograd.backward(out.square().sum())
        results.append([out.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad for x in leaves)])
        graph.derive()
    for got, wanted in zip(*reversed(results), strict=True):
        assert_close(got, wanted, f"{subject}, compiled")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the compiler warns of by itself, and without its trace, which pytest would show."""
    trace = logging.getLogger("torch.__trace")
    level = trace.level
    trace.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        trace.setLevel(level)


def inputs_stay(subject: Subject) -> None:
    """Inputs are as they were after a pass.

    Skip connections and the backward pass read them later.
    """
    graph = mixed()
    part, inputs = subject.part(), subject.inputs(graph)
    edges = graph.edge_index.clone()
    for training in (True, False):
        part.train(training)
        given = [x.clone() for x in inputs]
        with torch.no_grad():
            subject.apply(part, given, graph)
        for number, (x, before) in enumerate(zip(given, inputs, strict=True)):
            assert_close(x, before, f"{subject}, input {number} after a pass", 0)
    if not torch.equal(edges, graph.edge_index):
        raise Violation(f"{subject}: the graph has other edges after a pass.")


def repeat(subject: Subject) -> None:
    """In evaluation nothing changes: the same input gives the same output, whatever ran before, and uses no chance.

    Otherwise to look at a model changes it, and a resumed run is another one.
    """
    graph = mixed()
    part, inputs = subject.part(), subject.inputs(graph)
    first = subject.run(part, inputs, graph)
    before = {name: value.clone() for name, value in part.state_dict().items()}
    second = subject.run(part, inputs, graph, seed=3)
    assert_close(second, first, f"{subject}, a second pass after another seed", 0)
    for name, value in part.state_dict().items():
        assert_close(value, before[name], f"{subject}, {name} after a pass in evaluation", 0)
    numbers = torch.get_rng_state()
    with torch.no_grad():
        subject.apply(part.eval(), [x.clone() for x in inputs], graph)
    moved = not torch.equal(numbers, torch.get_rng_state())
    torch.set_rng_state(numbers)
    if moved:
        raise Violation(f"{subject}: a pass in evaluation draws random numbers.")
