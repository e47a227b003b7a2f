"""The abstract part that thins the graph."""

from abc import ABC, abstractmethod

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Part, check_probability


class GraphDropout(Part, ABC):
    """What is dropped of the graph in training: the layers of one pass see one thinner graph, evaluation the whole.

    What layers derive of the graph is that of the thinner one: degrees, GCN weights, and self-loops, so that those
    which layers add are never dropped. Random numbers are those of torch's generator.

    Args:
        p: Probability of dropping something; where it is 0 the graph stays the same.

    Raises:
        ValueError: It is no probability.
    """

    def __init__(self, p: float) -> None:
        check_probability("p of a graph dropout", p)
        self.p = p

    @abstractmethod
    def __call__(self, graph: Graph) -> Graph:
        """The graph of one pass in training."""
