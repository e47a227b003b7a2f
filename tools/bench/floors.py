"""The time that a step takes at least on this machine: dense products, and tensors that must pass
through memory.

Counted, in float32 with N nodes, E edges with self-loops, and layers from a to b channels:

- products: N x a by a x b forward, and the gradients of both factors; measured for these shapes;
- nodes: forward the input read, the product and the output written; backward the gradient of the
  output read, those of the product and the input written: 4 N (2 a + 4 b) bytes, at the rate of
  copying all that the step keeps, sum of 4 N (a + 2 b) over the layers;
- layers of several products have as many more tensors of nodes, and their input is read for all at
  once;
- edges: every reduction over edges reads one row of b channels an edge, 4 E b bytes, at the rate of
  copying a table of 4 N b bytes. How many reductions there are is the family's; none is fused
  across a softmax.

The features of the nodes are bags of words. Their product is the dense one (its input needs no
gradient), or reads one row of weights for each word, forward, and one row of the gradient for each,
backward: whichever is less.

Not counted: numbers an edge and head (scores, softmax, masks), activations, dropout, feature norms,
the loss, the optimizer.
"""

from dataclasses import dataclass, replace
from typing import Protocol

from tools.bench.cases import WIDTH, Case

FLOAT = 4


class Machine(Protocol):
    """What must be known of a machine."""

    def product(self, rows: int, inner: int, columns: int) -> float: ...

    def copy(self, footprint: int) -> float: ...


@dataclass(frozen=True)
class Sizes:
    """Of a graph: nodes, edges with self-loops, features, words (features that are not zero),
    classes.

    Of trees also, for each layer, the sources, targets and edges that reach the roots.
    """

    nodes: int
    edges: int
    features: int
    words: int
    classes: int
    blocks: tuple[tuple[int, int, int], ...] = ()


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
    families = {"gat-lip": gat, "gt-lip": transformer, "gatv2": gatv2, "gcn": gcn, "trees": trees}
    return families[case.family](case, sizes, machine)


def gat(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Three reductions over edges a layer; encoder, L layers, decoder.

    Forward the sum of alpha_ij h_j (scores and norms are of nodes). Backward d alpha_ij = g_i .
    h_j, and the transposed sum of alpha_ij g_i. b = heads x 64; a = 64 in the first layer, then b.
    """
    width = WIDTH * case.heads
    layers = [(WIDTH, width), *[(width, width)] * (case.layers - 1)]
    ends = words(sizes, WIDTH, machine) + product(sizes.nodes, width, sizes.classes, machine)
    return _sum(layers, 3, ends, sizes, machine)


def transformer(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Four products and six reductions over edges a layer, without self-loops; encoder, L layers,
    decoder.

    Queries, keys, values and the nodes themselves are products of one input. Forward the scores q_i
    . k_j and the sum of alpha_ij v_j. Backward d alpha_ij = g_i . v_j, the transposed sum of
    alpha_ij g_i, and the scores' gradient times keys and times queries. The gradient of the nodes
    themselves is that of the output. b = heads x 64.
    """
    width = WIDTH * case.heads
    layers = [(WIDTH, width), *[(width, width)] * (case.layers - 1)]
    ends = words(sizes, WIDTH, machine) + product(sizes.nodes, width, sizes.classes, machine)
    bare = replace(sizes, edges=sizes.edges - sizes.nodes)
    return _sum(layers, 6, ends, bare, machine, products=4, kept=5, passed=9)


def trees(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """As :func:`gat`, with a = b = 32, of those rows and edges alone that reach the roots.

    The embeddings are written once, and their gradient read.
    """
    width, row = case.width, FLOAT * case.width
    sources, targets = (
        sum(block[0] for block in sizes.blocks),
        sum(block[1] for block in sizes.blocks),
    )
    ends = product(sizes.blocks[-1][1], width, sizes.classes, machine)
    products = sum(product(block[0], width, width, machine) for block in sizes.blocks)
    passed = row * (2 * sizes.nodes + 4 * sources + 2 * targets)
    at_once = [3 * row * block[2] / machine.copy(row * block[0]) for block in sizes.blocks]
    return Floor(
        ends + products, passed / machine.copy(row * (2 * sources + targets)), sum(at_once)
    )


def gatv2(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Six reductions over edges a layer; L layers, the first of which reads the features.

    Forward the scores, of x_i + x_j, and the sum of alpha_ij x_j. Backward d alpha_ij = g_i . x_j,
    the transposed sum of alpha_ij g_i, and the scores' gradient summed into targets and into
    sources. a = b = 64; the last b = classes. A symmetric graph and an online softmax would make
    three of them.
    """
    layers = [(0, WIDTH), *[(WIDTH, WIDTH)] * (case.layers - 2), (WIDTH, sizes.classes)]
    return _sum(layers, 6, words(sizes, WIDTH, machine), sizes, machine)


def gcn(case: Case, sizes: Sizes, machine: Machine) -> Floor:
    """Two reductions over edges a layer; encoder, L layers, decoder.

    Forward the sum of w_ij h_j, backward the transposed sum of w_ij g_i; the weights are fixed. a =
    b = 64.
    """
    ends = words(sizes, WIDTH, machine) + product(sizes.nodes, WIDTH, sizes.classes, machine)
    return _sum([(WIDTH, WIDTH)] * case.layers, 2, ends, sizes, machine)


def product(nodes: int, inputs: int, outputs: int, machine: Machine) -> float:
    """Seconds of x W, of the gradient of W and of that of x."""
    forward = machine.product(nodes, inputs, outputs)
    return (
        forward + machine.product(inputs, nodes, outputs) + machine.product(nodes, outputs, inputs)
    )


def words(sizes: Sizes, outputs: int, machine: Machine) -> float:
    """Seconds of the product with the features, and of the gradient of its weights."""
    forward = machine.product(sizes.nodes, sizes.features, outputs)
    dense = forward + machine.product(sizes.features, sizes.nodes, outputs)
    table = FLOAT * outputs * max(sizes.features, sizes.nodes)
    return min(dense, 2 * FLOAT * sizes.words * outputs / machine.copy(table))


def _sum(
    layers: list[tuple[int, int]],
    reductions: int,
    ends: float,
    sizes: Sizes,
    machine: Machine,
    products: int = 1,
    kept: int = 2,
    passed: int = 4,
) -> Floor:
    """Of layers from a to b channels that keep so many tensors of b channels, and pass so many
    through memory."""
    row = FLOAT * sizes.nodes
    footprint = sum(row * (inputs + kept * outputs) for inputs, outputs in layers)
    passing = sum(row * (2 * inputs + passed * outputs) for inputs, outputs in layers)
    dense = products * sum(product(sizes.nodes, *layer, machine) for layer in layers if layer[0])
    edges = sum(
        FLOAT * sizes.edges * outputs / machine.copy(row * outputs) for _, outputs in layers
    )
    return Floor(ends + dense, passing / machine.copy(footprint), reductions * edges)
