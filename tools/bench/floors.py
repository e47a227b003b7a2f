"""The time that a step takes at least on this machine: dense products, and tensors that must pass through memory.

Counted, in float32 with N nodes, E edges with self-loops, and layers from a to b channels:

- products: N x a by a x b forward, and the gradients of both factors; measured for these shapes;
- nodes: forward the input read, the product and the output written; backward the gradient of the output read, those
  of the product and the input written: 4 N (2 a + 4 b) bytes, at the rate of copying all that the step keeps,
  sum of 4 N (a + 2 b) over the layers;
- edges: every reduction over edges reads one row of b channels an edge, 4 E b bytes, at the rate of copying a table of
  4 N b bytes. How many reductions there are is the family's; none is fused across a softmax.

The features of the nodes are bags of words. Their product is the dense one (its input needs no gradient), or reads one
row of weights for each word, forward, and one row of the gradient for each, backward: whichever is less.

Not counted: numbers an edge and head (scores, softmax, masks), activations, dropout, the loss, the optimizer.
"""

from dataclasses import dataclass
from typing import Protocol

from tools.bench.cases import WIDTH, Case

FLOAT = 4


class Machine(Protocol):
    """What must be known of a machine."""

    def product(self, rows: int, inner: int, columns: int) -> float: ...

    def copy(self, footprint: int) -> float: ...


@dataclass(frozen=True)
class Sizes:
    """Of a graph: nodes, edges with self-loops, features, words (features that are not zero), classes."""

    nodes: int
    edges: int
    features: int
    words: int
    classes: int


@dataclass(frozen=True)
class Floor:
    """Seconds of each kind."""

    products: float
    nodes: float
    edges: float

    @property
    def seconds(self) -> float:
        return self.products + self.nodes + self.edges


def floor(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """The floor of a case."""
    return {"gat-lip": gat, "gatv2": gatv2, "gcn": gcn}[case.family](case, sizes, machine)


def gat(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Three reductions over edges a layer; encoder, L layers, decoder.

    Forward the sum of alpha_ij h_j (scores and norms are of nodes). Backward d alpha_ij = g_i . h_j, and the
    transposed sum of alpha_ij g_i. b = heads x 64; a = 64 in the first layer, then b.
    """
    width = WIDTH * case.heads
    layers = [(WIDTH, width), *[(width, width)] * (case.layers - 1)]
    ends = words(sizes, WIDTH, machine) + product(sizes, width, sizes.classes, machine)
    return _sum(layers, 3, ends, sizes, machine)


def gatv2(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Six reductions over edges a layer; L layers, the first of which reads the features.

    Forward the scores, of x_i + x_j, and the sum of alpha_ij x_j. Backward d alpha_ij = g_i . x_j, the transposed sum
    of alpha_ij g_i, and the scores' gradient summed into targets and into sources. a = b = 64; the last b = classes.
    A symmetric graph and an online softmax would make three of them.
    """
    layers = [(0, WIDTH), *[(WIDTH, WIDTH)] * (case.layers - 2), (WIDTH, sizes.classes)]
    return _sum(layers, 6, words(sizes, WIDTH, machine), sizes, machine)


def gcn(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Two reductions over edges a layer; encoder, L layers, decoder.

    Forward the sum of w_ij h_j, backward the transposed sum of w_ij g_i; the weights are fixed. a = b = 64.
    """
    ends = words(sizes, WIDTH, machine) + product(sizes, WIDTH, sizes.classes, machine)
    return _sum([(WIDTH, WIDTH)] * case.layers, 2, ends, sizes, machine)


def product(sizes: Sizes, inputs: int, outputs: int, machine: Machine) -> float:
    """Seconds of x W, of the gradient of W and of that of x."""
    forward = machine.product(sizes.nodes, inputs, outputs)
    return forward + machine.product(inputs, sizes.nodes, outputs) + machine.product(sizes.nodes, outputs, inputs)


def words(sizes: Sizes, outputs: int, machine: Machine) -> float:
    """Seconds of the product with the features, and of the gradient of its weights."""
    forward = machine.product(sizes.nodes, sizes.features, outputs)
    dense = forward + machine.product(sizes.features, sizes.nodes, outputs)
    table = FLOAT * outputs * max(sizes.features, sizes.nodes)
    return min(dense, 2 * FLOAT * sizes.words * outputs / machine.copy(table))


def _sum(layers: list[tuple[int, int]], reductions: int, ends: float, sizes: Sizes, machine: Machine) -> Floor:
    row = FLOAT * sizes.nodes
    kept = sum(row * (inputs + 2 * outputs) for inputs, outputs in layers)
    passed = sum(row * (2 * inputs + 4 * outputs) for inputs, outputs in layers)
    products = sum(product(sizes, *layer, machine) for layer in layers if layer[0])
    edges = sum(FLOAT * sizes.edges * outputs / machine.copy(row * outputs) for _, outputs in layers)
    return Floor(ends + products, passed / machine.copy(kept), reductions * edges)
