"""Cora, CiteSeer and PubMed: their splits, and how their raw files are read."""

import codecs
import io
import pickle
from collections import defaultdict
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import coalesce

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import MASKS, DataError, match_choice
from gnn_depth.data.downloads import read_npz, read_verified, resolve_root
from gnn_depth.data.draws import random_split
from gnn_depth.graph import Graph
from gnn_depth.ranges import FilePath, Natural, Range
from gnn_depth.registry import register

URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
SPLITS_URL = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/master/splits"
TRAIN_PER_CLASS, NUM_VAL, NUM_TEST = 20, 500, 1000


@register("data", "Planetoid")
class Planetoid(NodeDataModule):
    """Planetoid: the citation graphs Cora, CiteSeer and PubMed. Nodes are documents, features their
    words.

    Sen et al., *Collective Classification in Network Data*, AI Magazine 2008; files and public
    split of Yang, Cohen & Salakhutdinov, *Revisiting Semi-Supervised Learning with Graph
    Embeddings*, ICML 2016. Files that are not under ``root`` are downloaded; a file is read only if
    its checksum is right.

    CiteSeer has 15 nodes with edges that no file describes. They have no features, and count as
    class 0 in the full, random and geom-gcn splits, as they do in PyTorch Geometric.

    Args:
        name: ``Cora``, ``CiteSeer`` or ``PubMed``.
        split: ``public`` (20 training nodes per class, 500 for validation, 1000 for test), ``full``
            (public, with all remaining nodes for training), ``random`` (the sizes of public, drawn
            with seed split_index) or ``geom-gcn`` (ten splits of 48/32/20%; Pei et al., ICLR 2020).
        split_index: Number of the geom-gcn split, 0 to 9, or seed of the random split; 0 for the
            others.
        root: Folder that holds ``<name>/raw/ind.*``. By default $GNN_DEPTH_DATA, else
            ``~/.cache/gnn_depth``.
        normalize_features: Divide each node's features by their sum.
        drop_isolated: Leave nodes without edges out of the masks. CiteSeer has 48 of them.
        **common: ``transforms``, as in every data set.

    Raises:
        ValueError: An unknown name or split, or a split_index that the split does not have.
    """

    names = ("Cora", "CiteSeer", "PubMed")

    def __init__(
        self,
        name: str,
        split: str = "public",
        split_index: Natural = 0,
        root: FilePath | None = None,
        normalize_features: bool = True,
        drop_isolated: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.name: str = match_choice("Planetoid data set", name, self.names)
        self.split = match_choice("split", split, ("public", "full", "random", "geom-gcn"))
        last = {"geom-gcn": 9, "random": inf}.get(self.split, 0)
        Range(0, last).check(f"split_index of split {self.split!r}", split_index)
        self.split_index = split_index
        self.root = resolve_root(root)
        self.normalize_features = normalize_features
        self.drop_isolated = drop_isolated

    def load(self) -> NodeBatch:
        # The first rows of allx are those of x, the training nodes.
        x, allx, tx = (self._content(part).toarray() for part in ("x", "allx", "tx"))
        ally, ty = self._content("ally"), self._content("ty")
        # Test nodes come last, in the order of test.index. CiteSeer's list lacks 15 nodes whose
        # features and class are unknown: they get zeros, hence class 0, and are in no mask of the
        # public split.
        test = np.array(self._content("test.index").split(), np.int64)
        nodes = int(test.max()) + 1
        full_x = np.zeros((nodes, allx.shape[1]), np.float32)
        full_y = np.zeros((nodes, ally.shape[1]), np.float32)
        full_x[: len(allx)], full_x[test] = allx, tx
        full_y[: len(allx)], full_y[test] = ally, ty
        y = torch.from_numpy(full_y.argmax(1))
        masks = self._masks(y, len(x), torch.from_numpy(test))
        edges = self._edges(nodes)
        if self.drop_isolated:
            has_edges = torch.bincount(edges.flatten(), minlength=nodes) > 0
            masks = tuple(mask & has_edges for mask in masks)
        return NodeBatch(torch.from_numpy(full_x), y, Graph(edges, nodes), *masks)

    def _masks(self, y: Tensor, num_train: int, listed_test: Tensor) -> tuple[Tensor, ...]:
        if self.split == "geom-gcn":
            # The files are called 0.6 and 0.2, and hold 48, 32 and 20%.
            name = f"{self.name.lower()}_split_0.6_0.2_{self.split_index}.npz"
            path = self.root / self.name / "geom-gcn" / "raw" / name
            arrays = read_npz(path, f"{SPLITS_URL}/{name}")
            return tuple(torch.from_numpy(arrays[name]).bool() for name in MASKS)
        if self.split == "random":
            return random_split(y, self.split_index, TRAIN_PER_CLASS, NUM_VAL, NUM_TEST)
        node = torch.arange(len(y))
        train = node < num_train
        val = ~train & (node < num_train + NUM_VAL)
        test = torch.isin(node, listed_test)
        if self.split == "full":
            train = ~(val | test)
        return train, val, test

    def _edges(self, nodes: int) -> Tensor:
        """Both directions of each edge once, without self-loops."""
        neighbours = self._content("graph").items()
        edges = torch.tensor([(node, other) for node, others in neighbours for other in others]).T
        return coalesce(edges[:, edges[0] != edges[1]], num_nodes=nodes)

    def _content(self, part: str) -> Any:
        file_name = f"ind.{self.name.lower()}.{part}"
        content = read_verified(self.root / self.name / "raw" / file_name, f"{URL}/{file_name}")
        return content if part == "test.index" else unpickle(content)


def unpickle(content: bytes) -> Any:
    """Load a raw Planetoid file, which is a pickle of Python 2 or 3, whose checksum has been
    verified.

    A pickle is a program. This one may call only the constructors of arrays, sparse matrices and
    dictionaries.

    Raises:
        DataError: The pickle calls anything else, which is not executed.
    """
    return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        from scipy.sparse import csr_matrix  # slow to import

        # The names that old and new versions of Python, NumPy and SciPy write.
        allowed = {
            "numpy.ndarray": np.ndarray,
            # NumPy warns of the flags that older versions wrote after the code.
            "numpy.dtype": lambda code, *_: np.dtype(code),
            "numpy.core.multiarray._reconstruct": np.ndarray.__new__,
            "numpy._core.multiarray._reconstruct": np.ndarray.__new__,
            "scipy.sparse.csr.csr_matrix": csr_matrix,
            "scipy.sparse._csr.csr_matrix": csr_matrix,
            "collections.defaultdict": defaultdict,
            "__builtin__.list": list,
            "_codecs.encode": codecs.encode,
        }
        if f"{module}.{name}" not in allowed:
            raise DataError(
                f"a raw Planetoid file asks for {module}.{name}, which is not part of an array."
            )
        return allowed[f"{module}.{name}"]
