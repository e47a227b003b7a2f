"""Export a stack with ``torch.export``: a file that PyTorch reads and runs without this package."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import config
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Part
from gnn_depth.registry import described

#: Exported outputs may differ from the model's by this fraction of the largest output: parts may
#: amplify rounding, for instance by a division by small deviations.
TOLERANCE = 1e-3
FEWEST = 2  # nodes and edges of a graph: torch.export makes constants of smaller numbers
# Nodes and edges of the graph that is traced, and of those on which the models are compared.
SIZE = (20, 50)
COMPARED = ((7, 19), (40, 11), (150, 900))


class ExportedGraph(Graph):
    """A graph of a size that is not known yet, without checks and without an order of its edges."""

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        node_to_graph: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> None:
        self.num_nodes = self.num_sources = num_nodes
        self.node_to_graph = node_to_graph
        self.num_graphs = 1
        if node_to_graph is not None:
            count: Any = node_to_graph.max().item()  # a symbol, which int() would fix
            self.num_graphs = count + 1
            torch._check(self.num_graphs >= 1)  # type: ignore[no-untyped-call]
        self._whole = None
        self._set_edges(edge_index, edge_weight, edge_attr)

    def _set_edges(
        self, edge_index: Tensor, edge_weight: Tensor | None, edge_attr: Tensor | None
    ) -> None:
        self.source, self.target = edge_index[0], edge_index[1]
        self.edge_weight, self.edge_attr = edge_weight, edge_attr
        self._derived: dict[object, object] = {}

    @property
    def in_degree(self) -> Tensor:
        ones = torch.ones_like(self.target)
        return ones.new_zeros(self.num_nodes).index_add(0, self.target, ones)

    @property
    def reverse(self) -> Tensor | None:
        return None


class _OnTensors(nn.Module):
    """A model that takes tensors instead of a graph.

    Args:
        model: Takes features and a graph.
        make_graph: The class of the graph.
    """

    def __init__(self, model: nn.Module, make_graph: type[Graph]) -> None:
        super().__init__()
        self.model = model
        self.make_graph = make_graph

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        of_edges: dict[str, Any] = {"edge_weight": edge_weight, "edge_attr": edge_attr}
        graph = self.make_graph(edge_index, x.shape[0], batch, **of_edges)
        outputs: Tensor = self.model(x, graph)
        return outputs


def export(
    model: nn.Module,
    in_channels: int | Sequence[int],
    edge_channels: int = 0,
    edge_weights: bool = False,
    per_graph: bool = False,
    features: Callable[[Tensor], Tensor] | None = None,
) -> torch.export.ExportedProgram:
    """Export a model for graphs of any number of nodes and edges.

    The program takes ``x`` and ``edge_index`` and, by name, ``edge_weight``, ``edge_attr`` and
    ``batch`` (the number of each node's graph) where the model reads them. It does not check them.
    The program is compared with the model on random graphs before it is returned.

    Args:
        model: Takes features and a graph. It is not changed.
        in_channels: Number of features of a node; for integer features, of the values of each
            column.
        edge_channels: Number of features of an edge; 0 if edges have none.
        edge_weights: The edges have weights.
        per_graph: The outputs are those of graphs.
        features: Brings random features, of mean 0 and variance 1, to the size of those that the
            model takes.

    Raises:
        ValueError: A part cannot be exported, which is named; or the outputs differ.
    """
    # A copy, in evaluation: the caller's model may be in the middle of a training.
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for module in model.modules():
        refusal = getattr(module, "export_refusal", "")
        if refusal:
            raise ValueError(refusal)

    def sample(nodes: int, edges: int) -> dict[str, Tensor]:
        """Random inputs of a graph with loops, repeated edges and, if few edges, isolated nodes."""
        draws = torch.Generator().manual_seed(nodes)
        if isinstance(in_channels, int):
            x = torch.randn(nodes, in_channels, generator=draws)
            if features is not None:
                x = features(x)
        else:
            columns = [torch.randint(size, (nodes,), generator=draws) for size in in_channels]
            x = torch.stack(columns, 1)
        inputs = {"x": x, "edge_index": torch.randint(nodes, (2, edges), generator=draws)}
        if edge_weights:
            inputs["edge_weight"] = torch.rand(edges, generator=draws)
        if edge_channels:
            inputs["edge_attr"] = torch.randn(edges, edge_channels, generator=draws)
        if per_graph:
            inputs["batch"] = torch.arange(nodes) * 2 // nodes
        return inputs

    first = sample(*SIZE)
    on_graph = _OnTensors(model, Graph)
    on_graph(**first)  # weight norms compute their state here, once
    program = _traced(_OnTensors(model, ExportedGraph), first)
    # Of other sizes than the traced one: a fixed number would show.
    run = program.module()
    for nodes, edges in COMPARED:
        inputs = sample(nodes, edges)
        wanted = on_graph(**inputs)
        error = float((run(**inputs) - wanted).abs().max() / wanted.abs().max().clamp_min(1))
        if not error <= TOLERANCE:  # so written that NaN is refused too
            raise ValueError(
                f"the exported model differs from the model by {error:.1e} of the largest output, "
                "on random graphs: it is not saved."
            )
    return program


def _traced(wrapped: _OnTensors, sample: dict[str, Tensor]) -> torch.export.ExportedProgram:
    checks = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)  # where shapes are checked: sizes are symbols here
    try:
        # The program refuses sizes outside these limits.
        nodes = torch.export.Dim("nodes", min=FEWEST)
        edges = torch.export.Dim("edges", min=FEWEST)
        every = {
            "x": {0: nodes},
            "edge_index": {1: edges},
            "edge_weight": {0: edges},
            "edge_attr": {0: edges},
            "batch": {0: nodes},
        }
        shapes = {name: every[name] for name in sample}
        with torch.no_grad():
            return torch.export.export(wrapped, (), sample, dynamic_shapes=shapes, strict=False)
    except Exception as error:  # of many kinds, as a part may do anything
        kinds = dict.fromkeys(map(type, wrapped.modules()))
        parts = ", ".join(described(kind) for kind in kinds if issubclass(kind, Part))
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"a model of {parts} cannot be exported: {type(error).__name__}: {reason}"
        ) from error
    finally:
        config.update("jaxtyping_disable", checks)
