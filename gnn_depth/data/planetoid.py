"""Cora, CiteSeer and PubMed."""

import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import DataError, check_range, choose
from gnn_depth.data.draws import Draws
from gnn_depth.data.features import normalize_rows
from gnn_depth.data.planetoid_files import SIZES, Citations, read_citations, read_split
from gnn_depth.data.verify import resolve_root
from gnn_depth.graph import Graph
from gnn_depth.registry import register

SPLITS = ("public", "full", "random", "geom-gcn")
TRAIN_PER_CLASS, NUM_VAL, NUM_TEST = 20, 500, 1000


@register("data", "Planetoid")
class Planetoid(NodeDataModule):
    """The citation graphs Cora, CiteSeer and PubMed: documents, their words, who cites whom.

    Sen et al., *Collective Classification in Network Data*, AI Magazine 2008; files and public split of Yang, Cohen &
    Salakhutdinov, *Revisiting Semi-Supervised Learning with Graph Embeddings*, ICML 2016, which are downloaded where
    they are not under ``root`` and read only when their checksums are right.

    Args:
        name: ``Cora``, ``CiteSeer`` or ``PubMed``.
        split: ``public`` (20 training nodes a class, 500 to validate, 1000 to test), ``full`` (the public one with
            all remaining nodes to train on), ``random`` (sizes of the public one, drawn from split_index) or
            ``geom-gcn`` (ten splits of 48/32/20 per cent; Pei et al., ICLR 2020).
        split_index: Which of the ten geom-gcn splits, 0 to 9, or the seed of the random one. The others have only 0.
        root: Folder that holds ``<name>/raw/ind.*``. By default $GNN_DEPTH_DATA, else ``~/.cache/gnn_depth``.
        normalize_features: Whether each node's features are divided by their sum.
        drop_isolated: Whether nodes without edges are taken out of the masks. CiteSeer has 48 of them.

    CiteSeer has 15 more nodes that no file describes: they have edges, but no features, and stand as class 0 in the
    full, random and geom-gcn splits, as they do in PyTorch Geometric.

    Raises:
        ValueError: An unknown name or split, or a split_index that the split does not have.
    """

    names = tuple(SIZES)

    def __init__(
        self,
        name: str,
        split: str = "public",
        split_index: int = 0,
        root: str | None = None,
        normalize_features: bool = True,
        drop_isolated: bool = False,
    ) -> None:
        super().__init__()
        self.name: str = choose("Planetoid data set", name, SIZES)
        self.split = choose("split", split, SPLITS)
        last = {"geom-gcn": 9, "random": None}.get(self.split, 0)
        check_range(f"split_index of split {self.split!r}", split_index, 0, last)
        self.split_index = split_index
        self.root = resolve_root(root)
        self.normalize_features = normalize_features
        self.drop_isolated = drop_isolated

    @property
    def num_classes(self) -> int:
        return SIZES[self.name][2]

    def load(self) -> NodeBatch:
        """Read the data.

        Raises:
            DataError: Files are missing, damaged or not the published ones, or lack the features this split needs.
        """
        data = read_citations(self.root, self.name)
        self.train_features_only = data.train_features_only
        if data.train_features_only and self.split != "public":
            raise DataError(
                f"the files of {self.name} in {str(self.root)!r} have the features of the public split's training "
                f"nodes only: split {self.split!r} trains on nodes without any.\nUse split public, or complete files."
            )
        masks = self._masks(data)
        graph = Graph(data.edge_index, len(data.y))
        if self.drop_isolated:
            linked = torch.bincount(data.edge_index.flatten(), minlength=len(data.y)) > 0
            masks = tuple(mask & linked for mask in masks)
        x = normalize_rows(data.x) if self.normalize_features else data.x
        return NodeBatch(x, data.y, graph, *masks)

    def _masks(self, data: Citations) -> tuple[Tensor, ...]:
        if self.split == "geom-gcn":
            return read_split(self.root, self.name, self.split_index)
        if self.split == "random":
            return random_split(data.y, self.split_index)
        train = data.train_mask if self.split == "public" else ~(data.val_mask | data.test_mask)
        return train, data.val_mask, data.test_mask


def random_split(
    y: Tensor, seed: int, per_class: int = TRAIN_PER_CLASS, num_val: int = NUM_VAL, num_test: int = NUM_TEST
) -> tuple[Tensor, Tensor, Tensor]:
    """``per_class`` training nodes of each class, then ``num_val`` and ``num_test`` of the remaining ones.

    The caller sees to it that there are enough nodes.
    """
    order = Draws(seed, "split").permutation(len(y))
    # Nodes grouped by class, in the drawn order within each; their places within the groups.
    grouped = order[torch.argsort(y[order], stable=True)]
    counts = torch.bincount(y)
    place = torch.arange(len(y)) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    masks = torch.zeros(3, len(y), dtype=torch.bool)
    masks[0, grouped[place < per_class]] = True
    rest = order[~masks[0, order]]
    masks[1, rest[:num_val]] = True
    masks[2, rest[num_val : num_val + num_test]] = True
    return masks[0], masks[1], masks[2]
