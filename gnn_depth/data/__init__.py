"""Data sets, one per file; each class is registered under its name."""

from gnn_depth.data.base import FullBatch, GraphDataModule, NodeBatch, NodeDataModule
from gnn_depth.data.checks import DataError
from gnn_depth.data.generated import ContextualSBM, GraphTransfer
from gnn_depth.data.gnn_benchmark import Amazon, Coauthor
from gnn_depth.data.heterophilous import HeterophilousGraphs
from gnn_depth.data.mini_batches import MiniBatches
from gnn_depth.data.missing import MissingFeatures
from gnn_depth.data.planetoid import Planetoid
from gnn_depth.data.pyg import PyG
from gnn_depth.data.source import CheckedGraphs, GraphSource, RawGraphs, UserGraph
from gnn_depth.data.synthetic import SyntheticCitation
from gnn_depth.data.tables import Tables
from gnn_depth.data.trees import TreeNeighborsMatch

__all__ = [
    "Amazon",
    "CheckedGraphs",
    "Coauthor",
    "ContextualSBM",
    "DataError",
    "FullBatch",
    "GraphDataModule",
    "GraphSource",
    "GraphTransfer",
    "HeterophilousGraphs",
    "MiniBatches",
    "MissingFeatures",
    "NodeBatch",
    "NodeDataModule",
    "Planetoid",
    "PyG",
    "RawGraphs",
    "SyntheticCitation",
    "Tables",
    "TreeNeighborsMatch",
    "UserGraph",
]
