"""The floors count what their docstrings say."""

from gnn_depth.data.trees import tree_edges
from gnn_depth.graph import Graph
from tools.bench.cases import CASES, WIDTH
from tools.bench.floors import Sizes, floor
from tools.bench.measure import blocks

SIZES = Sizes(nodes=1000, edges=5000, features=200, words=3000, classes=7)


class Unit:
    """A machine of one byte and one multiplication and addition a second, or of endless speed in
    one of them."""

    def __init__(self, products: bool = True, copies: bool = True) -> None:
        self.products, self.copies = products, copies

    def product(self, rows: int, inner: int, columns: int) -> float:
        return float(rows * inner * columns) * self.products

    def copy(self, footprint: int) -> float:
        return 1.0 if self.copies else float("inf")


def test_edges_are_read_once_a_reduction_and_layer():
    def edges(name):
        return floor(CASES[name], SIZES, Unit(products=False)).edges

    assert edges("gat-lip-30-h1") == 3 * 30 * 4 * SIZES.edges * WIDTH
    assert edges("gcn-64-cora") == 2 * 64 * 4 * SIZES.edges * WIDTH
    assert edges("gatv2-10-cora") == 6 * 4 * SIZES.edges * (9 * WIDTH + SIZES.classes)
    assert (
        edges("gt-lip-20-h8") == 20 * 6 * 4 * (SIZES.edges - SIZES.nodes) * 8 * WIDTH
    )  # no self-loops


def test_of_trees_only_what_reaches_the_roots_counts():
    graph = Graph(tree_edges(2), 7).with_self_loops()
    layers = blocks(graph, 1, 3)
    assert layers == ((7, 7, 13), (7, 3, 9), (3, 1, 3))
    sizes = Sizes(nodes=7, edges=13, features=2, words=6, classes=4, blocks=layers)
    found = floor(CASES["gat-trees-5"], sizes, Unit(products=False))
    assert found.edges == 3 * 4 * 32 * (13 + 9 + 3)
    assert found.nodes == 4 * 32 * (2 * 7 + 4 * 17 + 2 * 11)
    products = floor(CASES["gat-trees-5"], sizes, Unit(copies=False)).products
    assert products == 3 * 32 * (17 * 32 + 4)


def test_a_product_counts_three_times_and_that_with_the_features_twice():
    found = floor(CASES["gcn-64-cora"], SIZES, Unit(copies=True)).products
    inner = 3 * SIZES.nodes * WIDTH * (64 * WIDTH + SIZES.classes)
    words = 2 * 4 * SIZES.words * WIDTH
    assert found == inner + words
