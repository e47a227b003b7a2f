"""Amazon and Coauthor: products bought together, and authors of joint papers."""

from abc import ABC
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch_geometric.utils import to_undirected

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import SPLITS, DataError, match_choice
from gnn_depth.data.downloads import read_npz, resolve_root
from gnn_depth.data.draws import fraction_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import FilePath, Natural, Range, in_range
from gnn_depth.registry import register

URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
TRAIN, VAL = 0.6, 0.2  # of the random split; the rest is the test set


class _Benchmark(NodeDataModule, ABC):
    """The base of both families of data sets: two layouts of files, and the splits."""

    #: The names of a graph's file with the fixed split, and of the publisher's, which has none.
    files: ClassVar[dict[str, tuple[str, str]]]

    @in_range
    def __init__(
        self,
        name: str,
        split: str = "random",
        split_index: Natural = 0,
        root: FilePath | None = None,
        normalize_features: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        kind = type(self).__name__
        self.name: str = match_choice(f"{kind} data set", name, self.names)
        self.split = match_choice("split", split, ("random", "fixed"))
        if self.split == "fixed":  # of which there is one: another index would change nothing
            Range(0, 0).check("split_index of split 'fixed'", split_index)
        self.split_index = split_index
        self.normalize_features = normalize_features
        folder = resolve_root(root)
        with_split, published = self.files[self.name]
        self.path = folder / "medium" / with_split
        # Where PyTorch Geometric keeps its download, for a root of the name of its class.
        self.published = folder / kind / self.name / "raw" / published

    def load(self) -> NodeBatch:
        has_split = self.path.is_file()
        if self.split == "fixed" and not has_split:
            raise DataError(
                f"split 'fixed' is read from {str(self.path)!r}, which is missing; the publisher's "
                "file has no split. Use split 'random', which needs no other file."
            )
        path = self.path if has_split else self.published
        arrays = read_npz(path, f"{URL}/{self.published.name}")
        # The two files hold the same graph in two layouts.
        if has_split:
            features, labels = _matrix(arrays, "feature"), arrays["node_labels"]
            ends = arrays["edges"].T
        else:
            features, labels = _matrix(arrays, "attr"), arrays["labels"]
            entries = _matrix(arrays, "adj").tocoo()
            ends = np.stack([entries.row, entries.col])
        masks = fraction_split(len(labels), self.split_index, TRAIN, VAL)
        if self.split == "fixed":
            masks = tuple(torch.from_numpy(arrays[f"{part}_masks"][0]) for part in SPLITS)
        x = torch.from_numpy(features.toarray()).float()
        y = torch.from_numpy(labels).long()
        edges = torch.from_numpy(ends).long()
        # Both layouts may have an edge in one direction only, and loops.
        edges = edges[:, edges[0] != edges[1]]
        graph = Graph(to_undirected(edges, num_nodes=len(y)), len(y))
        return NodeBatch(x, y, graph, *masks)


def _matrix(arrays: Any, prefix: str) -> Any:
    """A sparse matrix that a file holds by its rows: true where it has a positive number."""
    values = arrays[f"{prefix}_data"] > 0
    rows = (values, arrays[f"{prefix}_indices"], arrays[f"{prefix}_indptr"])
    return csr_array(rows, tuple(arrays[f"{prefix}_shape"].tolist()))


@register("data", "Amazon")
class Amazon(_Benchmark):
    """Amazon: products and the products bought with them; features say which words occur in
    reviews, classes are the categories of the shop.

    McAuley et al., *Image-based Recommendations on Styles and Substitutes*, SIGIR 2015; graphs of
    Shchur et al., *Pitfalls of Graph Neural Network Evaluation*, 2018; fixed split of Luo, Shi &
    Wu, *Classic GNNs are Strong Baselines* (tunedGNN), NeurIPS 2024. The publisher's file is
    downloaded if no file is under ``root``; a file is read only if its checksum is right.

    Args:
        name: ``Photo`` or ``Computers``.
        split: ``random`` (60/20/20%, drawn with seed split_index) or ``fixed`` (60/20/20%, from the
            file ``medium/amazon_photo.npz`` or ``medium/amazon_cs.npz`` only).
        split_index: Seed of the random split; 0 for the fixed one.
        root: Folder that holds ``medium/`` or ``Amazon/<name>/raw/``. By default $GNN_DEPTH_DATA,
            else ``~/.cache/gnn_depth``.
        normalize_features: Divide each node's features by their sum.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: An unknown name or split, or a split_index that the split does not have.
    """

    names = ("Photo", "Computers")
    files: ClassVar = {
        "Photo": ("amazon_photo.npz", "amazon_electronics_photo.npz"),
        "Computers": ("amazon_cs.npz", "amazon_electronics_computers.npz"),
    }


@register("data", "Coauthor")
class Coauthor(_Benchmark):
    """Coauthor: authors, linked if they wrote a paper together; features say which keywords
    occur in their papers, classes are their most active fields.

    Graphs of Shchur et al., *Pitfalls of Graph Neural Network Evaluation*, 2018; fixed split of
    Luo, Shi & Wu, *Classic GNNs are Strong Baselines* (tunedGNN), NeurIPS 2024. The publisher's
    file is downloaded if no file is under ``root``; a file is read only if its checksum is right.

    Args:
        name: ``CS`` or ``Physics``.
        split: ``random`` (60/20/20%, drawn with seed split_index) or ``fixed`` (60/20/20%, from the
            file ``medium/coauthor_cs.npz`` or ``medium/coauthor_phy.npz`` only).
        split_index: Seed of the random split; 0 for the fixed one.
        root: Folder that holds ``medium/`` or ``Coauthor/<name>/raw/``. By default $GNN_DEPTH_DATA,
            else ``~/.cache/gnn_depth``.
        normalize_features: Divide each node's features by their sum.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: An unknown name or split, or a split_index that the split does not have.
    """

    names = ("CS", "Physics")
    files: ClassVar = {
        "CS": ("coauthor_cs.npz", "ms_academic_cs.npz"),
        "Physics": ("coauthor_phy.npz", "ms_academic_phy.npz"),
    }
