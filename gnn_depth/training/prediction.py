"""Predict with a trained model: new nodes, or another graph altogether."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.data.base import GraphDataModule
from gnn_depth.data.schema import Unknown
from gnn_depth.data.source import GraphSource
from gnn_depth.training.checkpoints import DamagedError, options_in, read_checkpoint
from gnn_depth.training.lightning_internals import evaluation_mode
from gnn_depth.training.metrics import predicted_classes
from gnn_depth.training.module import NodeClassifier

log = logging.getLogger(__name__)

#: For each kind of target: the words for its predictions, and the prefix of their columns.
WORDS = {
    "classes": ("class probabilities", "class"),
    "labels": ("label probabilities", "label"),
    "numbers": ("numbers", "value"),
}
#: Makes the predictions of all rows, one tensor a batch.
Forward: TypeAlias = Callable[[NodeClassifier, GraphDataModule], list[Tensor]]


def one_pass(model: NodeClassifier, data: GraphDataModule) -> list[Tensor]:
    """The predictions of all batches, computed on the model's device."""
    weight = next(model.parameters())
    data.prepare_data()
    data.setup("predict")
    found = []
    with evaluation_mode(model), torch.inference_mode():
        for batch in data.predict_dataloader():
            batch = batch.to(weight.device)
            if batch.x.is_floating_point():
                batch = replace(batch, x=batch.x.to(weight.dtype))
            found.append(model.predict_step(batch, 0).cpu())
    return found


def predictions_of(
    model: NodeClassifier,
    data: Any,
    unknown: Unknown = "error",
    forward: Forward = one_pass,
) -> pd.DataFrame:
    """Predict every node, or every graph, of some data.

    Columns are taken by name, and neither labels nor a split are needed:

    .. code-block:: python

        predictions_of(run.model, Tables("nodes.csv", "edges.csv"))

    Args:
        model: A model that was trained.
        data: A graph, as ``gnn_depth.fit`` takes it: the one of the training with new nodes, or
            another one.
        unknown: Refuse categories that the model does not know (``error``), or ``ignore`` them. By
            default as the data set's own option says, which is ``error``.
        forward: Makes the predictions; by default one pass over the data on the model's device.

    Returns:
        A table with a row for each node, or graph, in the order of the data: its id; for classes
        the predicted class and its probability; then a column for each class, label or number.
        The row of a node that transforms leave out is empty, and a warning counts these nodes.

    Raises:
        ValueError: The model cannot use this data, or knows nothing of the data of its training.
    """
    if model.schema is None:
        raise ValueError(
            "the model knows nothing of the data that it was trained on: give a checkpoint of a "
            "run, or a model that gnn_depth.fit has trained."
        )
    as_trained = GraphSource.of(data).conform_to(model.schema, unknown, targets=False)
    values = torch.cat(forward(model, as_trained))
    row = "graph" if as_trained.per_graph else "node"
    if values.dim() != 2:
        raise ValueError(
            f"predict_step gives the shape {tuple(values.shape)}, not probabilities or numbers of "
            "shape (rows, outputs)."
        )
    # NumPy does not have bfloat16.
    numbers = values.to(torch.promote_types(values.dtype, torch.float32))
    names = model.schema.outputs
    undefined = int(numbers.isnan().any(1).sum())
    if undefined:
        rank_zero_only(log.warning)(
            f"the model gives NaN for {undefined:,} of {len(numbers):,} {row}s: they have no "
            "prediction."
        )
    word = WORDS[model.task.targets][1]
    table = pd.DataFrame(numbers.numpy(), columns=[f"{word}_{name}" for name in names])
    if model.task.targets == "classes":
        # Rows with a NaN have no predicted class.
        choices = np.array([*names, None], object)
        table.insert(0, "predicted", choices[predicted_classes(numbers).numpy()])
        table.insert(1, "probability", numbers.amax(1).numpy())
    ids = as_trained.node_ids
    if ids is None or as_trained.per_graph:
        ids = table.index
    table.insert(0, row, ids)
    return table


def load_model(path: str | Path) -> NodeClassifier:
    """The model of a checkpoint, with the precision of its weights.

    Raises:
        OSError: The file is damaged, or not a checkpoint.
    """
    try:
        content = read_checkpoint(Path(path))
        options = options_in(content)
    except DamagedError as error:
        raise DamagedError(f"{path}: {error}.") from error
    model = NodeClassifier(**options)
    # Not copied into the new weights, which would round float64 to float32.
    model.load_state_dict(content["state_dict"], assign=True)
    model.read_schema(content)
    return model
