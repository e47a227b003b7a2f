"""The linear model of the features and their means over neighbours, against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch_geometric.data import Data

from gnn_depth.data import GraphSource
from gnn_depth.training.linear_model import linear_metrics
from gnn_depth.training.tasks import make_task


def graph(kind, num_edges=0):
    """A graph whose targets follow the features, with noise; without edges all means are zero."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 5, generator=generator)
    truth = x @ torch.randn(5, 3, generator=generator) + torch.randn(300, 3, generator=generator)
    y = truth.argmax(1) if kind == "multiclass" else 1e6 * truth[:, 0] + 1e9
    edges = torch.randint(300, (2, num_edges), generator=generator)
    masks = torch.arange(300) % 3
    return Data(x, edges, y=y, train_mask=masks == 0, val_mask=masks == 1, test_mask=masks == 2)


def test_classes_are_those_of_scikit_learn_for_features_and_their_means_over_neighbours():
    data = graph("multiclass", num_edges=600)
    adjacency = torch.zeros(300, 300)
    source, target = data.edge_index
    adjacency.index_put_((target, source), torch.ones(600), accumulate=True)
    means = adjacency / adjacency.sum(1, keepdim=True).clamp_min(1)
    # Classes that the neighbours' features decide, and not a node's own.
    data.y = (means @ means @ data.x)[:, :3].argmax(1)
    found = linear_metrics(make_task(None, "multiclass", 3), GraphSource(data))
    blocks, x = [], data.x
    for _ in range(3):
        blocks.append(x / x[data.train_mask].var(0, correction=0).mean().sqrt())
        x = means @ x
    train, test, y, z = data.train_mask, data.test_mask, data.y, torch.cat(blocks, 1)
    theirs = LogisticRegression(C=1 / np.log(3), max_iter=1000, tol=1e-8).fit(z[train], y[train])
    accuracy = theirs.score(z[test], y[test])
    assert accuracy > 0.6
    assert found["test/acc"] == pytest.approx(accuracy, abs=0.021)


def test_scaled_numbers_are_those_of_scikit_learn():
    data = graph("numbers")
    task = make_task(None, "regression", 1)
    assert linear_metrics(task, GraphSource(data)) == {}
    source = GraphSource(data, scale_target=True)
    task.scale_targets(source.schema.targets_scaling)
    found = linear_metrics(task, source)
    train, test = data.train_mask.numpy(), data.test_mask.numpy()
    x, y = data.x.numpy().astype(float), data.y.numpy().astype(float)
    x = x / np.sqrt(x[train].var(0).mean())
    y = (y - y[train].mean()) / y[train].std()
    theirs = Ridge(alpha=0.5).fit(x[train], y[train])  # the mean of squares / L0, and a half of W
    assert found["test/r2"] > 0.5
    assert found["test/r2"] == pytest.approx(theirs.score(x[test], y[test]), abs=1e-3)
