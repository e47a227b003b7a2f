"""Heterophilous graphs: neighbours mostly differ in class."""

import io
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from gnn_depth.data.base import NodeBatch, NodeDataModule, coalesce, normalize_rows
from gnn_depth.data.checks import match_choice
from gnn_depth.data.downloads import PublishedFile, read_verified, resolve_root
from gnn_depth.graph import Graph
from gnn_depth.ranges import Range
from gnn_depth.registry import register

URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
# Nodes, undirected edges, features and classes of each set.
SIZES = {
    "actor": (7600, 26659, 932, 5),
    "chameleon": (2277, 31371, 2325, 5),
    "squirrel": (5201, 198353, 2089, 5),
    "cornell": (183, 277, 1703, 5),
    "texas": (183, 279, 1703, 5),
    "wisconsin": (251, 450, 1703, 5),
    "chameleon_filtered": (890, 8854, 2325, 5),
    "squirrel_filtered": (2223, 46998, 2089, 5),
    "roman_empire": (22662, 32927, 300, 18),
    "amazon_ratings": (24492, 93050, 300, 5),
    "minesweeper": (10000, 39402, 7, 2),
    "tolokers": (11758, 519000, 10, 2),
    "questions": (48921, 153540, 301, 2),
}
BINARY = ("minesweeper", "tolokers", "questions")
NUM_SPLITS = 10


@register("data", "HeterophilousGraphs")
class HeterophilousGraphs(NodeDataModule):
    """Heterophilous graphs: neighbours mostly differ in class; each graph has ten fixed splits.

    Pei et al., *Geom-GCN*, ICLR 2020 (actor to wisconsin, duplicate edges removed); Platonov et al., *A Critical Look
    at the Evaluation of GNNs under Heterophily*, ICLR 2023 (the others; ``_filtered`` lacks repeated nodes, which leak
    from the training to the test set).

    Args:
        name: ``actor``, ``chameleon``, ``squirrel``, ``cornell``, ``texas``, ``wisconsin``, ``chameleon_filtered``,
            ``squirrel_filtered``, ``roman_empire``, ``amazon_ratings``, ``minesweeper``, ``tolokers`` or
            ``questions``. The last three have two classes and are also measured by ROC AUC.
        split: Number of the split, 0 to 9. Splits have 48/32/20% of the nodes, or 50/25/25%.
        root: Folder that holds ``heterophilous/<name>.npz`` or ``<name>.npz``. By default $GNN_DEPTH_DATA, else
            ``~/.cache/gnn_depth``.
        normalize_features: Divide each node's features by the sum of their absolute values. The papers do not do this.
        undirected: Use every edge in both directions, not only in that of the file.

    Raises:
        ValueError: An unknown name or split.
    """

    names = tuple(SIZES)

    def __init__(
        self,
        name: str,
        split: Annotated[int, Range(0, NUM_SPLITS - 1)] = 0,
        root: str | None = None,
        normalize_features: bool = False,
        undirected: bool = True,
    ) -> None:
        super().__init__()
        self.name: str = match_choice("heterophilous data set", name.replace("-", "_"), SIZES)
        self.split = split
        self.root = resolve_root(root)
        self.normalize_features = normalize_features
        self.undirected = undirected

    @property
    def num_classes(self) -> int:
        return SIZES[self.name][3]

    @property
    def task(self) -> str:
        return "binary" if self.name in BINARY else "multiclass"

    @property
    def path(self) -> Path:
        """The path of the stored file, which may not exist yet."""
        nested, plain = self.root / "heterophilous" / f"{self.name}.npz", self.root / f"{self.name}.npz"
        return plain if plain.is_file() and not nested.is_file() else nested

    def load(self) -> NodeBatch:
        file = PublishedFile(self.path, f"{URL}/{self.name}.npz")
        with np.load(io.BytesIO(read_verified(file)), allow_pickle=False) as arrays:
            x = torch.from_numpy(arrays["node_features"].astype(np.float32))
            y = torch.from_numpy(arrays["node_labels"].astype(np.int64))
            edges = torch.from_numpy(arrays["edges"].astype(np.int64)).T
            masks = [torch.from_numpy(arrays[f"{part}_masks"][self.split]) for part in ("train", "val", "test")]
        graph = Graph(coalesce(edges, len(x), self.undirected), len(x))
        return NodeBatch(normalize_rows(x) if self.normalize_features else x, y, graph, *masks)
