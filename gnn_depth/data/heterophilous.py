"""Heterophilous graphs: neighbours mostly differ in class."""

from typing import Annotated, Any

import torch
from torch_geometric.utils import coalesce, to_undirected

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import SPLITS, match_choice
from gnn_depth.data.downloads import read_npz, resolve_root
from gnn_depth.graph import Graph
from gnn_depth.ranges import FilePath, Range
from gnn_depth.registry import register

URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
GEOM_GCN = ("actor", "chameleon", "squirrel", "cornell", "texas", "wisconsin")
PLATONOV = ("chameleon_filtered", "squirrel_filtered", "roman_empire", "amazon_ratings")
BINARY = ("minesweeper", "tolokers", "questions")
NUM_SPLITS = 10


@register("data", "HeterophilousGraphs")
class HeterophilousGraphs(NodeDataModule):
    """Heterophilous graphs: neighbours mostly differ in class; each graph has ten fixed splits.

    Pei et al., *Geom-GCN*, ICLR 2020 (actor to wisconsin, duplicate edges removed); Platonov et
    al., *A Critical Look at the Evaluation of GNNs under Heterophily*, ICLR 2023 (the others;
    ``_filtered`` lacks repeated nodes, which leak from the training to the test set).

    Args:
        name: ``actor``, ``chameleon``, ``squirrel``, ``cornell``, ``texas``, ``wisconsin``,
            ``chameleon_filtered``, ``squirrel_filtered``, ``roman_empire``, ``amazon_ratings``,
            ``minesweeper``, ``tolokers`` or ``questions``. The last three have two classes and are
            also measured by ROC AUC.
        split: Number of the split, 0 to 9. Splits have 48/32/20% of the nodes, or 50/25/25%.
        root: Folder that holds ``heterophilous/<name>.npz``. By default $GNN_DEPTH_DATA, else
            ``~/.cache/gnn_depth``.
        normalize_features: Divide each node's features by the sum of their absolute values. The
            papers do not do this.
        undirected: Use every edge in both directions, not only in that of the file.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: An unknown name or split.
    """

    names = GEOM_GCN + PLATONOV + BINARY

    def __init__(
        self,
        name: str,
        split: Annotated[int, Range(0, NUM_SPLITS - 1)] = 0,
        root: FilePath | None = None,
        normalize_features: bool = False,
        undirected: bool = True,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.name: str = match_choice("heterophilous data set", name.replace("-", "_"), self.names)
        self.split = split
        self.path = resolve_root(root) / "heterophilous" / f"{self.name}.npz"
        self.normalize_features = normalize_features
        self.undirected = undirected

    @property
    def task(self) -> str:
        # As published: ROC AUC, as accuracy says little of the rarer class.
        return "binary" if self.name in BINARY else "multiclass"

    def load(self) -> NodeBatch:
        arrays = read_npz(self.path, f"{URL}/{self.name}.npz")
        x = torch.from_numpy(arrays["node_features"]).float()
        y = torch.from_numpy(arrays["node_labels"]).long()
        edges = torch.from_numpy(arrays["edges"]).long().T
        masks = [torch.from_numpy(arrays[f"{part}_masks"][self.split]) for part in SPLITS]
        # Some of the Geom-GCN files repeat edges.
        unique = to_undirected if self.undirected else coalesce
        graph = Graph(unique(edges, num_nodes=len(x)), len(x))
        return NodeBatch(x, y, graph, *masks)
