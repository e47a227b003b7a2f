"""Transforms, applied to the graph of any data set: registered ones and PyTorch Geometric's."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import torch
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor

from gnn_depth.data.batch import NodeBatch
from gnn_depth.data.checks import LABELLED, MASKS, NUMBER, READ, DataError
from gnn_depth.data.union import union_of
from gnn_depth.graph import OF_EDGES, Graph
from gnn_depth.part_specs import PartsOf

if TYPE_CHECKING:
    from torch_geometric.data import Data

#: Transforms by name, with options or as objects; a single one stands for a list of one.
Transforms: TypeAlias = Annotated[Any, PartsOf("transform")]


@contextmanager
def generators_kept(include_cuda: bool = True) -> Iterator[None]:
    """Restore the global random generators afterwards; after an error too, unlike Lightning."""
    isolated = isolate_rng(include_cuda)
    isolated.__enter__()
    try:
        yield
    finally:
        isolated.__exit__(None, None, None)


@contextmanager
def seeded_everywhere(seed: int) -> Iterator[None]:
    """Seed the generators of Python, NumPy and PyTorch on the CPU, and restore them afterwards."""
    # Transforms and generated data sets of PyTorch Geometric draw from all three.
    with generators_kept(include_cuda=False):
        torch.default_generator.manual_seed(seed)  # a GPU draws nothing here
        random.seed(seed)
        np.random.seed(seed % 2**32)
        yield


def transformed(
    batch: NodeBatch,
    transforms: "Sequence[Callable[[Data], Data]]",
    labelled: Tensor | None,
    seed: int,
) -> tuple[NodeBatch, Tensor, list[str]]:
    """Apply transforms to each graph of a batch, one after another.

    Floating-point columns that a transform adds under another name than x, such as positional
    encodings, become features.

    Args:
        batch: The graph, or several side by side.
        transforms: The transforms.
        labelled: The rows that have a target; by default all.
        seed: Seed of the random numbers that transforms draw.

    Returns:
        The batch; the number that each of its nodes had before, from 0 on; and one sentence for
        each attribute that transforms have added.

    Raises:
        DataError: A transform fails, or leaves a graph without edges, features or targets.
    """
    # One graph at a time: an encoding of several at once would mix them.
    graphs = _graphs(batch, labelled)
    notes: list[str] = []
    with seeded_everywhere(seed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # of PyTorch's own tensors
        for transform in transforms:
            try:
                graphs = [transform(graph) for graph in graphs]
            except Exception as error:  # of many kinds, as each transform needs other attributes
                reason = f"{type(error).__name__}: {error}".rstrip(": ")
                name = type(transform).__name__
                raise DataError(f"the transform {name} fails on this graph: {reason}") from error
    for graph in graphs:
        _add_features(graph, notes)
    union = union_of([graph.to_dict() for graph in graphs], True, notes)
    arrays = union.arrays
    of_edges = {name: arrays[name] for name in OF_EDGES if name in arrays}
    graph = Graph(arrays["edge_index"], union.num_nodes, union.node_to_graph, **of_edges)
    number = arrays[NUMBER]
    # Transforms that pad attributes of nodes give a new node the number 0.
    if not batch.per_graph and not number.all():
        raise DataError(
            "the transforms add nodes, which have no targets: use them for graphs with a target "
            "each."
        )
    lost = batch.graph.num_nodes - int((number > 0).sum())
    if lost:
        notes.append(f"the transforms leave out {lost:,} nodes, which get no prediction.")
    # A split that a transform draws may have rows that have no target.
    masks = {name: arrays[name].bool() & arrays[LABELLED] for name in MASKS}
    made = replace(batch, x=arrays["x"], y=arrays["y"], graph=graph, **masks)
    return made, number - 1, list(dict.fromkeys(notes))


def _graphs(batch: NodeBatch, labelled: Tensor | None) -> list[Any]:
    """Each graph of a batch as a ``Data``."""
    from torch_geometric.data import Data
    from torch_geometric.utils import unbatch, unbatch_edge_index

    graph, count = batch.graph, batch.graph.num_graphs
    owner = graph.node_to_graph
    if owner is None:
        owner = torch.zeros(graph.num_nodes, dtype=torch.long)
    of_row = owner
    if batch.per_graph:
        of_row = torch.arange(count)
    if labelled is None:
        labelled = torch.ones_like(batch.train_mask)
    of_nodes = {"x": batch.x, NUMBER: torch.arange(len(owner)) + 1}
    of_rows = {"y": batch.y, LABELLED: labelled, **dict(zip(MASKS, batch.masks, strict=True))}
    of_edges = graph.of_edges(slice(None))
    found = [Data(edge_index=own) for own in unbatch_edge_index(graph.edge_index, owner, count)]
    # Arrays, and the graph of each of their rows.
    kinds = (of_nodes, owner), (of_rows, of_row), (of_edges, owner[graph.target])
    for arrays, of_graph in kinds:
        for name, value in arrays.items():
            for data, own in zip(found, unbatch(value, of_graph, 0, count), strict=True):
                data[name] = own
    return found


def _add_features(graph: Any, notes: list[str]) -> None:
    """Append the columns that transforms have added to x."""
    if graph.x is None or graph.edge_index is None:  # as ToSparseTensor does
        raise DataError("the transforms leave no x or no edge_index.")
    x = graph.x.float()
    for name, value in graph.to_dict().items():
        is_of_nodes = isinstance(value, Tensor) and value.dim() in (1, 2) and len(value) == len(x)
        # Integers and flags are numbers of nodes or of groups rather than features.
        if name not in READ and is_of_nodes and value.is_floating_point():
            columns = value.reshape(len(value), -1).float()
            notes.append(f"{name}, which a transform adds, is {columns.shape[1]} more features.")
            x = torch.cat([x, columns], 1)
            del graph[name]
    graph.x = x
    graph.num_nodes = len(x)
