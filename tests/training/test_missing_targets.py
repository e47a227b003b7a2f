"""Labels and numbers of which some are missing: the loss is that of the others."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.data import GraphSource
from gnn_depth.training.tasks import make_task

ROWS, OUTPUTS = 60, 3


def drawn(task):
    """Outputs, targets with gaps, and the places that are known; no row lacks all."""
    draw = torch.Generator().manual_seed(3)
    out = torch.randn(ROWS, OUTPUTS, generator=draw, dtype=torch.double)
    y = torch.randn(ROWS, OUTPUTS, generator=draw, dtype=torch.double) + 5
    if task == "multilabel":
        y = (y > 5).double()
    known = torch.rand(ROWS, OUTPUTS, generator=draw) < 0.6
    known[torch.arange(ROWS), torch.arange(ROWS) % OUTPUTS] = True
    return out, y.masked_fill(~known, torch.nan), known.numpy()


@pytest.mark.parametrize(
    ("task", "loss"),
    [("multilabel", F.binary_cross_entropy_with_logits), ("regression", F.mse_loss)],
)
def test_the_loss_and_its_gradient_are_those_of_the_known_targets(task, loss):
    out, y, known = drawn(task)
    given = out.clone().requires_grad_()
    found = make_task(None, task, OUTPUTS).loss(given, y)
    wanted = loss(expected := out[known].requires_grad_(), y[known])
    torch.testing.assert_close(found, wanted)
    (gradient,) = torch.autograd.grad(found, given)
    torch.testing.assert_close(gradient[known], torch.autograd.grad(wanted, expected)[0])
    assert not gradient[~known].any()


@pytest.mark.parametrize(("missing", "dtype"), [(torch.nan, torch.float), (-1, torch.long)])
def test_graphs_with_some_labels_are_trained_on_and_measured(tmp_path, missing, dtype):
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(2, (40, 4), generator=draw).to(dtype)
    y[torch.arange(40), torch.arange(40) % 4] = missing  # every graph lacks one
    y[::8] = missing
    graphs = []
    for labels in y.split(1):
        edges = torch.randint(8, (2, 16), generator=draw)
        graphs.append(Data(x=torch.randn(8, 5, generator=draw), edge_index=edges, y=labels))
    source = GraphSource(graphs)
    assert sum(int(mask.sum()) for mask in source.batch.masks) == 35
    assert source.task == "multilabel"
    run = gnn_depth.fit({"num_layers": 2}, graphs, 2, root=str(tmp_path), progress=False)
    assert np.isfinite(run.metrics["test/auroc"])


def test_a_target_without_a_known_value_is_named_and_spoils_no_other(tmp_path):
    draw = torch.Generator().manual_seed(0)
    x, part = torch.randn(40, 3, generator=draw), torch.arange(40) % 3
    y = 100 * x[:, :2] + 7
    y[part == 0, 1] = torch.nan
    masks = {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part == 2}
    data = Data(x=x, y=y, edge_index=torch.randint(40, (2, 90), generator=draw), **masks)
    source = GraphSource(data, scale_target=True)
    run = gnn_depth.fit({"num_layers": 2}, source, 2, root=str(tmp_path), progress=False)
    assert "no training row has the target '1': it cannot be learned." in source.notes
    assert np.isfinite(run.predict(data).to_numpy()).all()
