"""Nodes in another order: the same graph, the same training, and predictions as the data has them."""

import logging

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.data import (
    GraphSource,
    node_order,
)
from gnn_depth.diagnostics import MEASURES, LayerMeasures

NODES = 24


def path(nodes: int = NODES, ways: int = 2, **options) -> Data:
    """A path whose nodes come in random order, with features, classes and masks."""
    draw = torch.Generator().manual_seed(1)
    name = torch.randperm(nodes, generator=draw)
    edges = torch.stack([name[:-1], name[1:]])
    if ways == 2:
        edges = torch.cat([edges, edges.flip(0)], 1)
    part = torch.randperm(nodes, generator=draw) % 4
    return Data(
        x=torch.randn(nodes, 3, generator=draw),
        y=torch.randint(3, (nodes,), generator=draw),
        edge_index=edges,
        train_mask=part < 2,
        val_mask=part == 2,
        test_mask=part == 3,
        **options,
    )


def test_auto_orders_large_graphs_that_gain_by_it_and_says_so_in_one_line(monkeypatch, caplog):
    def orders(data: Data) -> bool:
        source = GraphSource(data)
        _ = source.batch
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            moved = source.ordered_batch is not source.batch
        lines = [record.message for record in caplog.records if "Cuthill" in record.message]
        assert len(lines) == moved
        return moved

    large = path(200)
    assert not orders(large)
    monkeypatch.setattr(node_order, "FEWEST", 200)
    assert orders(large)
    assert not orders(path(199))
    in_order = torch.stack([torch.arange(199), torch.arange(1, 200)])
    for edges in (in_order, torch.randint(200, (2, 1000)), in_order[:, :0]):
        large.edge_index = edges
        assert not orders(large)


MODEL = {"layer": "gatv2", "norm": "layer", "skip": "residual", "dropout": 0.0}
MODEL |= {"num_layers": 3, "hidden_channels": 8}


@pytest.mark.filterwarnings("ignore:LayerMeasures. the limit")  # that of attention backwards
def test_a_training_in_another_order_has_the_losses_metrics_measures_and_predictions_of_the_given_one(
    tmp_path,
):
    runs, measured = {}, {}
    names = [f"n{node}" for node in range(NODES)]
    options = {"root": str(tmp_path), "progress": False, "precision": "64-true"}
    for order in ("given", "rcm"):
        callback = LayerMeasures([*MEASURES])
        data = GraphSource(path(node_ids=np.array(names, object)), node_order=order)
        runs[order] = gnn_depth.fit(MODEL, data, 2, callbacks=[callback], **options)
        measured[order] = callback.measure_log.measurements()
    given, moved = runs["given"], runs["rcm"]
    assert moved.data.ordered_batch.order is not None
    assert given.data.ordered_batch.order is None
    assert len(given.curves) == 2
    assert {"train/loss", "val/loss"} <= set(given.curves)
    for name, curve in given.curves.items():
        np.testing.assert_allclose(moved.curves[name], curve, rtol=1e-12, err_msg=name)
    assert len(measured["given"]) == len(MEASURES)
    for ours, theirs in zip(measured["rcm"], measured["given"], strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-9, atol=1e-9)
    table, wanted = moved.predict(), given.predict()
    assert table.node.tolist() == names
    assert table.predicted.tolist() == wanted.predicted.tolist()
    numbers = [name for name in wanted if name.startswith("class_")]
    np.testing.assert_allclose(table[numbers], wanted[numbers], rtol=1e-10)
    assert moved.result["identity"] != given.result["identity"]
