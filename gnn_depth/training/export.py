"""Write a trained model as a file that PyTorch runs without this package."""

import io
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth.data import table_reader
from gnn_depth.data.schema import Fitted
from gnn_depth.graph import Graph
from gnn_depth.nn.variants.export import export
from gnn_depth.runs import write_atomically
from gnn_depth.training.module import NodeClassifier

SUFFIX = ".pt2"
SCHEMA = "schema.yaml"  # the file inside that says what the model expects


class _Predictions(nn.Module):
    """The predictions of a model, as ``predict`` writes them, for features as the data has them."""

    def __init__(self, model: NodeClassifier, per_graph: bool) -> None:
        super().__init__()
        self.stack = model.stack
        self.task = model.task
        self.pool = model.pool if per_graph else None
        schema = model.schema
        self.x = self.edge_attr = None
        if schema is not None and schema.columns and isinstance(schema.num_features, int):
            self.x = Fitted(schema.columns)
        if schema is not None and schema.edge_columns:
            self.edge_attr = Fitted(schema.edge_columns)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        weight = next(self.stack.parameters())
        if self.x is not None:
            x = self.x(x).to(weight.dtype)
        if self.edge_attr is not None:
            graph.edge_attr = self.edge_attr(graph.edge_attr).to(weight.dtype)
        return self.task.prediction(self.stack(x, graph, None, self.pool))


def export_model(model: NodeClassifier, path: Path) -> Path:
    """Write the predictions of a model with ``torch.export``, for graphs of any size.

    A model of tables gets a second file of the same name, such as ``model.py``, which predicts from
    raw tables with PyTorch and pandas: see :mod:`gnn_depth.data.table_reader`.

    The model itself needs PyTorch alone:

    .. code-block:: python

        program = torch.export.load("model.pt2", extra_files={"schema.yaml": ""})
        probabilities = program.module()(x=x, edge_index=edge_index)

    It takes features as the data has them, after its transforms, and scales them itself; categories
    are features of 0 and 1, which the file ``schema.yaml`` inside lists. By name it takes
    ``edge_weight``, ``edge_attr`` and ``batch`` where the data has weights or features of edges,
    or a target for each graph. It gives probabilities or numbers, one row for each node or graph.
    It does not check its inputs. Before it is written, it is compared with the model on random
    graphs of several sizes.

    Args:
        model: A trained model.
        path: The file, which ends in ``.pt2``.

    Returns:
        The path.

    Raises:
        ValueError: A part of the model cannot be exported, which is named; the file's name does not
            fit, or there is such a file.
    """
    if path.suffix != SUFFIX:
        raise ValueError(
            f"a model is exported to a file that ends in {SUFFIX}, not to {str(path)!r}."
        )
    for method in ("forward", "predict_step"):
        if getattr(type(model), method) is not getattr(NodeClassifier, method):
            raise ValueError(
                f"{type(model).__name__} has a {method} of its own, which the exported model would "
                "not: export its stack with torch.export."
            )
    reader = path.with_suffix(".py")
    for file in (path, reader):
        if file.exists():
            raise ValueError(f"{file}: the file exists; move it away or choose another name.")
    schema = model.schema
    inside = {}
    per_graph = has_weights = reads_tables = False
    if schema is not None:
        inside[SCHEMA] = schema.text()
        per_graph, has_weights = schema.per_graph, bool(schema.edge_weight)
        # Not where features are made of the graph, which other packages do.
        reads_tables = bool(schema.named and not schema.transforms)
    widths: Any = model.hparams["in_channels"]
    # Without the LightningModule around it, of which a program has no use.
    predictions = _Predictions(model, per_graph)
    features = predictions.x and predictions.x.undo
    edge_channels = model.stack.edge_channels
    program = export(predictions, widths, edge_channels, has_weights, per_graph, features)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not by torch itself, which aborts the process where the disk is full.
    content = io.BytesIO()
    torch.export.save(program, content, extra_files=inside)
    write_atomically(path, content.getvalue())
    if reads_tables:
        # Last: it reads the model that lies beside it.
        shutil.copyfile(table_reader.__file__, reader)
    return path
