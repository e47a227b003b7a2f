"""Train a module of one's own, such as a model of PyTorch Geometric."""

from typing import Any

from torch import Tensor, nn

from gnn_depth.diagnostics.hooks import layers_of
from gnn_depth.graph import Graph
from gnn_depth.nn.decoder import Pool, pooled
from gnn_depth.training.module import NodeClassifier


class ModuleClassifier(NodeClassifier):
    """Train any module of ``module(x, edge_index)`` that has a row of outputs for each node.

    Callbacks find its layers by name, such as ``layers="stack.module.convs.*"``. Its checkpoints
    hold its weights, and only a program can make it again.

    Args:
        module: The module. Weights and features of edges are passed by the names ``edge_weight``
            and ``edge_attr``, where the data has them.
        in_channels: Number of features.
        num_classes: Number of classes, labels or numbers to predict.
        **options: Options of :class:`NodeClassifier` that are not about its stack: ``optimizer``,
            ``scheduler``, ``task`` and so on.
    """

    def __init__(
        self, module: nn.Module, in_channels: Any, num_classes: int, **options: Any
    ) -> None:
        # The stack is replaced at once: the smallest will do.
        super().__init__(in_channels, num_classes, num_layers=1, hidden_channels=1, **options)
        self.stack: Any = ModuleStack(module, num_classes)


class ModuleStack(nn.Module):
    """A module in the place of a :class:`gnn_depth.nn.stack.DeepGNN`."""

    edge_channels = 0
    uncalibrated = None

    def __init__(self, module: nn.Module, num_outputs: int) -> None:
        super().__init__()
        self.module = module
        self.num_outputs = num_outputs

    @property
    def layers(self) -> list[nn.Module]:
        return list(layers_of(self.module, None).values())

    def forward(
        self, x: Tensor, graph: Graph | Tensor, read: int | None = None, pool: Pool | None = None
    ) -> Tensor:
        if isinstance(graph, Tensor):
            graph = Graph(graph, len(x))
        out: Tensor = self.module(x, graph.edge_index, **graph.of_edges(slice(None)))
        if out.shape[-1] != self.num_outputs:
            raise ValueError(
                f"{type(self.module).__name__} has {out.shape[-1]} outputs, and the data needs "
                f"{self.num_outputs}."
            )
        if pool is not None:
            return pooled(pool, out, graph)
        return out[:read]
