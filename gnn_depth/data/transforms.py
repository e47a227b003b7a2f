"""Transforms, applied to the graph of any data set: registered ones and PyTorch Geometric's."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import torch
from torch import Tensor

from gnn_depth.data.batch import NodeBatch
from gnn_depth.data.checks import MASKS, DataError
from gnn_depth.data.made_features import seeded_everywhere
from gnn_depth.graph import OF_EDGES, Graph
from gnn_depth.part_specs import PartsOf
from gnn_depth.registry import described, name_of

if TYPE_CHECKING:
    from torch_geometric.data import Data

#: Transforms by name, with options or as objects; a single one stands for a list of one.
Transforms: TypeAlias = Annotated[Any, PartsOf("transform")]
NUMBER = "number_of_node"  # an attribute that follows each node: its number from 1 on
LABELLED = "has_target"  # and one that says whether it has a target
READ = ("x", "y", "edge_index", "num_nodes", NUMBER, LABELLED, *OF_EDGES, *MASKS)


def transformed(
    batch: NodeBatch,
    transforms: "Sequence[Callable[[Data], Data]]",
    labelled: Tensor | None,
    seed: int,
) -> tuple[NodeBatch, Tensor, list[str]]:
    """Apply transforms to each graph of a batch, one after another.

    Columns that a transform adds under another name than x, such as positional encodings, become
    features. A transform with ``adds_nodes = True`` may append nodes to those of the graph. They
    have features and edges, the number 0 and no target: outputs are read of the nodes that were
    there before.

    Args:
        batch: The graph, or several side by side.
        transforms: The transforms.
        labelled: The rows that have a target; by default all.
        seed: Of the random numbers that transforms draw.

    Returns:
        The batch; the number that each of its nodes had before, from 0 on; and what was decided,
        one sentence each.

    Raises:
        DataError: A transform fails, or leaves what is no graph with targets.
    """
    notes: list[str] = []
    adds_nodes = False
    for transform in transforms:
        if getattr(transform, "adds_nodes", False):
            adds_nodes = True
            if batch.graph.node_to_graph is not None or batch.per_graph:
                raise DataError(
                    f"{_name(transform)} adds nodes without targets, which is defined for one "
                    "graph with targets of its nodes: leave it out for several graphs."
                )
    # One graph at a time, as an encoding of several at once would mix them.
    graphs = _graphs(batch, labelled)
    with seeded_everywhere(seed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse")  # of PyTorch's own tensors
        for transform in transforms:
            graphs = [_apply(transform, graph) for graph in graphs]
    parts, edges, owners = [], [], []
    nodes = 0
    for number, graph in enumerate(graphs):
        part = _checked(graph, batch.per_graph, adds_nodes, notes)
        parts.append(part)
        edges.append(part.edge_index + nodes)
        owners.append(torch.full((len(part.x),), number))
        nodes += len(part.x)

    def joined(name: str) -> Tensor:
        return torch.cat([part[name] for part in parts])

    of_edges: dict[str, Any] = {}
    for name in OF_EDGES:
        given = [part[name] for part in parts if name in part]
        if not given:
            continue
        for number, part in enumerate(parts):
            # A graph without edges needs none.
            if name not in part and part.edge_index.shape[1]:
                raise DataError(
                    f"after the transforms graph {number} has no {name}, and another graph has it."
                )
        of_edges[name] = torch.cat(given)
    node_to_graph = None
    if batch.graph.node_to_graph is not None:
        node_to_graph = torch.cat(owners)
    graph = Graph(torch.cat(edges, 1), nodes, node_to_graph, **of_edges)
    # A split that a transform draws may have rows that have no target.
    changed: dict[str, Any] = {name: joined(name).bool() & joined(LABELLED) for name in MASKS}
    made = replace(batch, x=joined("x"), y=joined("y"), graph=graph, **changed)
    return made, joined(NUMBER) - 1, list(dict.fromkeys(notes))


def _graphs(batch: NodeBatch, labelled: Tensor | None) -> list[Any]:
    """Each graph of a batch as a ``Data``."""
    from torch_geometric.data import Data

    if batch.read != batch.graph.num_nodes:
        raise DataError("transforms are for graphs all of whose nodes have targets.")
    graph = batch.graph
    rows = {"y": batch.y, **dict(zip(MASKS, batch.masks, strict=True))}
    rows[LABELLED] = torch.ones(len(batch.y), dtype=torch.bool) if labelled is None else labelled
    of_nodes = {"x": batch.x, NUMBER: torch.arange(graph.num_nodes) + 1}
    edges = graph.edge_index
    of_edges = graph.of_edges(slice(None))
    owner = graph.node_to_graph
    if owner is None:
        return [Data(edge_index=edges, num_nodes=graph.num_nodes, **of_nodes, **rows, **of_edges)]
    found = []
    first_node = 0
    for number, count in enumerate(owner.bincount(minlength=graph.num_graphs).tolist()):
        last_node = first_node + count
        own_nodes = slice(first_node, last_node)
        own_rows = slice(number, number + 1) if batch.per_graph else own_nodes
        own_edges = (edges[0] >= first_node) & (edges[0] < last_node)
        parts = {}
        for values, own in ((of_nodes, own_nodes), (rows, own_rows), (of_edges, own_edges)):
            for name, value in values.items():
                parts[name] = value[own]
        found.append(Data(edge_index=edges[:, own_edges] - first_node, num_nodes=count, **parts))
        first_node = last_node
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
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        raise DataError(f"{name} fails on this graph: {said}") from error
    if type(changed) is not type(graph):
        kind = type(changed).__name__
        raise DataError(f"{name} makes a {kind} of the graph, not a Data.")
    return changed


def _checked(graph: Any, per_graph: bool, adds_nodes: bool, notes: list[str]) -> Any:
    """A graph after the transforms, with all features in x, and rows of the nodes with targets."""
    if graph.edge_index is None:
        raise DataError("the transforms leave no edge_index: do not apply ToSparseTensor.")
    if graph.x is None:
        raise DataError("the transforms leave no features x.")
    x = graph.x.float()
    nodes = len(x)
    for name, value in graph.to_dict().items():
        if name in READ:
            continue
        is_of_nodes = isinstance(value, Tensor) and value.dim() in (1, 2) and len(value) == nodes
        # Integers and flags are numbers of nodes or of groups rather than features.
        if is_of_nodes and value.is_floating_point():
            columns = value.reshape(nodes, -1).float()
            notes.append(f"{name}, which a transform adds, is {columns.shape[1]} more features.")
            x = torch.cat([x, columns], 1)
        else:
            notes.append(f"{name}, which a transform adds, is not read.")
    graph.x = x
    rows = 1 if per_graph else nodes
    wanted = {"y": rows, NUMBER: nodes, LABELLED: rows, **dict.fromkeys(MASKS, rows)}
    for name, count in wanted.items():
        value = graph.get(name, None)
        has = "no" if value is None else f"{len(value):,} rows of"
        if value is None or len(value) != count:
            what = "nodes" if name == NUMBER else name
            raise DataError(
                f"the transforms leave {has} {what} beside {nodes:,} rows of x, and targets and "
                "masks must follow the nodes."
            )
    if per_graph:
        return graph
    # Transforms that pad what has a row for each node give a new one the number 0.
    added = int((graph[NUMBER] == 0).sum())
    if added and not adds_nodes:
        raise DataError(
            "the transforms add nodes, which have no targets: they are for graphs with "
            "a target each."
        )
    if added:
        read = nodes - added
        if (graph[NUMBER][:read] == 0).any():
            raise DataError("the transforms add nodes before those of the graph, not after them.")
        for name in ("y", NUMBER, LABELLED, *MASKS):
            graph[name] = graph[name][:read]
        notes.append(
            f"the transforms add {added:,} nodes, which have no target: sets, metrics and "
            f"predictions are of the {read:,} others, measures of hidden states of all."
        )
    return graph
