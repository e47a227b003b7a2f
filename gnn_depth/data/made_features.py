"""Features that are made from the edges, for graphs without features of their own."""

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.features import LARGEST_ONE_HOT
from gnn_depth.data.transforms import seeded_everywhere

MakeFeatures = Literal["none", "constant", "degree", "identity", "random_walk", "laplacian"]
STEPS = 16  # of random walks
EIGENVECTORS = 8


def make_features(
    kind: MakeFeatures, edge_index: Tensor, num_nodes: int, node_to_graph: Tensor | None
) -> Float[Tensor, "nodes made"]:
    """Features of each node that follow from the edges.

    - ``constant``: a 1.
    - ``degree``: the number of edges that leave a node; and its least, largest and mean value and
      standard deviation over the nodes that they lead to (Cai & Wang, *A simple yet effective
      baseline for non-attributed graph classification*, 2018).
    - ``identity``: a column for each node.
    - ``random_walk``: the probabilities that a walk is back after 1 to 16 steps (Dwivedi et al.,
      *Graph neural networks with learnable structural and positional representations*, ICLR 2022).
    - ``laplacian``: the first 8 eigenvectors of the normalised Laplacian that are not constant,
      for edges in both directions (Dwivedi et al., *Benchmarking graph neural networks*, 2020);
      zeros where a graph has fewer.

    Args:
        kind: One of these.
        edge_index: The edges.
        num_nodes: Number of nodes.
        node_to_graph: The graph of each node; None for a single graph.

    Raises:
        DataError: The edges, or the number of graphs, do not allow it.
    """
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddRandomWalkPE, Constant, LocalDegreeProfile

    whole = Data(edge_index=edge_index, num_nodes=num_nodes)
    if kind == "constant":
        return Constant()(whole).x
    if kind == "degree":
        return LocalDegreeProfile()(whole).x.float()
    if kind == "random_walk":
        # No walk leaves its graph, so several graphs need no separation.
        return AddRandomWalkPE(STEPS, attr_name=None)(whole).x.float()
    if kind == "laplacian":
        return _laplacian(edge_index, num_nodes, node_to_graph)
    if node_to_graph is not None:
        raise DataError("make_features identity is for a single graph: its nodes are the columns.")
    if num_nodes**2 > LARGEST_ONE_HOT:
        raise DataError(
            f"make_features identity would make {num_nodes:,} columns for {num_nodes:,} nodes: use "
            "degree, random_walk or laplacian."
        )
    return torch.eye(num_nodes)


def _laplacian(edge_index: Tensor, num_nodes: int, node_to_graph: Tensor | None) -> Tensor:
    """Eigenvectors of each graph by itself, as those of a union may mix its graphs."""
    from torch_geometric.utils import is_undirected, subgraph

    if not is_undirected(edge_index, num_nodes=num_nodes):
        raise DataError(
            "make_features laplacian needs edges in both directions: set undirected true, or add "
            "the transform ToUndirected."
        )
    if node_to_graph is None:
        node_to_graph = torch.zeros(num_nodes, dtype=torch.long)
    parts: list[Tensor] = []
    start = 0
    for end in node_to_graph.bincount().cumsum(0).tolist():
        own = torch.arange(start, end)
        edges, _ = subgraph(own, edge_index, relabel_nodes=True, num_nodes=num_nodes)
        parts.append(_eigenvectors(edges, len(own)))
        start = end
    return torch.cat(parts)


def _eigenvectors(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Eigenvectors of one graph, which has edges in both directions."""
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE

    # The solver starts from a vector of its own, which would differ from run to run.
    options: dict[str, Any] = {"v0": Draws(0, "laplacian").uniform(num_nodes) - 0.5}
    count = min(EIGENVECTORS, num_nodes - 1)
    found = torch.zeros(num_nodes, EIGENVECTORS)
    if count < 1:  # a single node has the constant one only
        return found
    transform = AddLaplacianEigenvectorPE(count, attr_name=None, is_undirected=True, **options)
    with seeded_everywhere(0):  # it draws the signs
        vectors = transform(Data(edge_index=edge_index, num_nodes=num_nodes)).x
    found[:, :count] = vectors.float()
    return found
