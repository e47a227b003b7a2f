"""Transforms, applied to the graph of any data set: registered ones and PyTorch Geometric's."""

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.batch import NodeBatch
from gnn_depth.data.checks import MASKS, DataError
from gnn_depth.graph import OF_EDGES, Graph
from gnn_depth.part_specs import PartsOf
from gnn_depth.registry import described, name_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

#: Transforms by name, with options or as objects; a single one stands for a list of one.
Transforms: TypeAlias = Annotated[Any, PartsOf("transform")]
NUMBER = "number_of_node"  # an attribute that follows each node: its number from 1 on
LABELLED = "has_target"  # and one that is True where it has a target
READ = ("x", "y", "edge_index", "num_nodes", NUMBER, LABELLED, *OF_EDGES, *MASKS)


@contextmanager
def seeded_everywhere(seed: int) -> Iterator[None]:
    """Seed the generators of Python, NumPy and PyTorch on the CPU, and restore them afterwards."""
    # Transforms and generated data sets of PyTorch Geometric draw from all three.
    state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)  # a GPU draws nothing here
            random.seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)


def transformed(
    batch: NodeBatch,
    transforms: "Sequence[Callable[[Data], Data]]",
    labelled: Tensor | None,
    seed: int,
) -> tuple[NodeBatch, Tensor, list[str]]:
    """Apply transforms to each graph of a batch, one after another.

    Floating-point columns that a transform adds under another name than x, such as positional
    encodings, become features. A transform with ``adds_nodes = True`` may append nodes to those of
    the graph. They have features and edges, the number 0 and no target: outputs are read from the
    nodes that were there before.

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
    adding = [transform for transform in transforms if getattr(transform, "adds_nodes", False)]
    if adding and (batch.graph.node_to_graph is not None or batch.per_graph):
        raise DataError(
            f"{_name(adding[0])} adds nodes without targets, which is defined for one graph with "
            "targets of its nodes: leave it out for several graphs."
        )
    # One graph at a time: an encoding of several at once would mix them.
    graphs = _graphs(batch, labelled)
    with seeded_everywhere(seed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # of PyTorch's own tensors
        for transform in transforms:
            graphs = [_apply(transform, graph) for graph in graphs]

    notes: list[str] = []
    for graph in graphs:
        _add_features(graph, notes)
        _check_rows(graph, batch.per_graph)
        _leave_added_nodes_unread(graph, batch.per_graph, bool(adding), notes)
    made, numbers = _joined(graphs, batch)
    return made, numbers, list(dict.fromkeys(notes))


def _graphs(batch: NodeBatch, labelled: Tensor | None) -> list[Any]:
    """Each graph of a batch as a ``Data``."""
    from torch_geometric.data import Data
    from torch_geometric.utils import unbatch, unbatch_edge_index

    graph = batch.graph
    if batch.read != graph.num_nodes:
        raise DataError("transforms need graphs whose nodes all have targets.")
    count = graph.num_graphs
    owner = graph.node_to_graph
    if owner is None:
        owner = torch.zeros(graph.num_nodes, dtype=torch.long)
    owner_of_row = torch.arange(count) if batch.per_graph else owner
    if labelled is None:
        labelled = torch.ones(len(batch.y), dtype=torch.bool)
    of_nodes = {"x": batch.x, NUMBER: torch.arange(graph.num_nodes) + 1}
    of_rows = {"y": batch.y, LABELLED: labelled, **dict(zip(MASKS, batch.masks, strict=True))}
    of_edges = graph.of_edges(slice(None))
    sizes = owner.bincount(minlength=count).tolist()
    edges = unbatch_edge_index(graph.edge_index, owner, count)
    found = []
    for size, own_edges in zip(sizes, edges, strict=True):
        found.append(Data(edge_index=own_edges, num_nodes=size))
    for values, of_graph in (
        (of_nodes, owner),
        (of_rows, owner_of_row),
        (of_edges, owner[graph.target]),
    ):
        for name, value in values.items():
            for data, own in zip(found, unbatch(value, of_graph, batch_size=count), strict=True):
                data[name] = own
    return found


def _name(transform: Any) -> str:
    """A transform as a message names it."""
    cls = type(transform)
    if name_of(cls):
        return described(cls)
    return f"the transform {cls.__name__}"


def _apply(transform: Any, graph: Any) -> Any:
    name = _name(transform)
    try:
        changed = transform(graph)
    except DataError as error:
        raise DataError(f"{name} is refused: {error}") from None
    except Exception as error:  # of many kinds, as each transform needs other attributes
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise DataError(f"{name} fails on this graph: {reason}") from error
    return changed


def _add_features(graph: Any, notes: list[str]) -> None:
    """Append the columns that transforms have added to x."""
    if graph.edge_index is None:
        raise DataError("the transforms leave no edge_index: do not apply ToSparseTensor.")
    if graph.x is None:
        raise DataError("the transforms leave no features x.")
    x = graph.x.float()
    for name, value in graph.to_dict().items():
        if name in READ:
            continue
        is_of_nodes = isinstance(value, Tensor) and value.dim() in (1, 2) and len(value) == len(x)
        # Integers and flags are numbers of nodes or of groups rather than features.
        if is_of_nodes and value.is_floating_point():
            columns = value.reshape(len(value), -1).float()
            notes.append(f"{name}, which a transform adds, is {columns.shape[1]} more features.")
            x = torch.cat([x, columns], 1)
        else:
            notes.append(f"{name}, which a transform adds, is not read.")
    graph.x = x


def _check_rows(graph: Any, per_graph: bool) -> None:
    nodes = len(graph.x)
    rows = 1 if per_graph else nodes
    for name in (NUMBER, "y", LABELLED, *MASKS):
        value = graph.get(name, None)
        wanted = nodes if name == NUMBER else rows
        if value is None or len(value) != wanted:
            raise DataError(
                f"after the transforms {name} does not fit the {nodes:,} rows of x: targets and "
                "masks must follow the nodes. Leave out transforms that add or drop nodes."
            )


def _leave_added_nodes_unread(
    graph: Any, per_graph: bool, adds_nodes: bool, notes: list[str]
) -> None:
    """Cut targets and masks of nodes that transforms have appended."""
    # Transforms that pad attributes of nodes give a new node the number 0.
    added = int((graph[NUMBER] == 0).sum())
    if per_graph or not added:
        return
    if not adds_nodes:
        raise DataError(
            "the transforms add nodes, which have no targets: use them for graphs with a target "
            "each."
        )
    read = len(graph.x) - added
    if (graph[NUMBER][:read] == 0).any():
        raise DataError("the transforms add nodes before those of the graph, not after them.")
    for name in ("y", NUMBER, LABELLED, *MASKS):
        graph[name] = graph[name][:read]
    notes.append(
        f"the transforms add {added:,} nodes, which have no target: splits, metrics and "
        f"predictions use the {read:,} others, measures of hidden states all."
    )


def _joined(graphs: list[Any], before: NodeBatch) -> tuple[NodeBatch, Tensor]:
    """The graphs side by side, and the number that each node had before."""

    def rows_of(name: str) -> Tensor:
        return torch.cat([graph[name] for graph in graphs])

    nodes = 0
    edges = []
    for graph in graphs:
        edges.append(graph.edge_index + nodes)
        nodes += len(graph.x)
    of_edges: dict[str, Any] = {}
    for name in OF_EDGES:
        given = [graph[name] for graph in graphs if name in graph]
        if not given:
            continue
        for number, graph in enumerate(graphs):
            # A graph without edges needs none.
            if name not in graph and graph.edge_index.shape[1]:
                raise DataError(
                    f"after the transforms graph {number} has no {name}, and another graph has it."
                )
        of_edges[name] = torch.cat(given)
    owner = None
    if before.graph.node_to_graph is not None:
        sizes = torch.tensor([len(graph.x) for graph in graphs])
        owner = torch.arange(len(graphs)).repeat_interleave(sizes)
    joined = Graph(torch.cat(edges, 1), nodes, owner, **of_edges)
    # A split that a transform draws may have rows that have no target.
    masks: dict[str, Any] = {name: rows_of(name).bool() & rows_of(LABELLED) for name in MASKS}
    made = replace(before, x=rows_of("x"), y=rows_of("y"), graph=joined, **masks)
    return made, rows_of(NUMBER) - 1
