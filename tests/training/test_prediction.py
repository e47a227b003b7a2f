"""Predictions of a trained model: for arrays, graphs, tables with ids, and wrapped data sets."""

import logging

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.data import DataError, GraphSource, MiniBatches, MissingFeatures
from gnn_depth.data.schema import Schema
from gnn_depth.training.models import build_model
from gnn_depth.training.prediction import predictions_of

LARGEST = ["LargestConnectedComponents"]


def arrays(**changes):
    """A graph of 12 nodes with other arrays; None leaves one out."""
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.normal(size=(12, 3)), dtype=torch.float32)
    edges = torch.tensor(rng.integers(12, size=(2, 30)))
    parts = {"x": x, "y": torch.arange(12) % 3, "edge_index": edges, **changes}
    return Data(**{name: value for name, value in parts.items() if value is not None})


def model_of(data, layer="sage"):
    torch.manual_seed(0)
    return build_model({"layer": layer, "num_layers": 2, "hidden_channels": 8}, data)


OTHER_ARRAYS = {
    "no y": ({"y": None}, ""),
    "other classes": ({"y": torch.full((12,), 7)}, ""),
    "another width": ({"x": torch.ones(12, 2)}, "the model needs 3 features in x, and here are 2"),
    "weights of edges": (
        {"edge_weight": torch.ones(30)},
        "one has edge_weight, the other has none",
    ),
    "an infinite feature": ({"x": torch.full((12, 3), torch.inf)}, "is inf: features"),
}


@pytest.mark.parametrize("name", OTHER_ARRAYS)
def test_arrays_without_names_are_checked_by_width(name):
    data = GraphSource(arrays())
    model = model_of(data)
    changes, refusal = OTHER_ARRAYS[name]
    if refusal:
        with pytest.raises(DataError, match=refusal):
            predictions_of(model, arrays(**changes))
    else:
        expected = predictions_of(model, data)
        pd.testing.assert_frame_equal(predictions_of(model, arrays(**changes)), expected)


@pytest.mark.parametrize("name", ["x", "edge_attr"])
def test_integers_that_were_categories_keep_their_places(name):
    rows = {"x": 12, "edge_attr": 30}[name]
    data = GraphSource(arrays(**{name: torch.arange(rows) % 4 + 5}))
    model = model_of(data, "gat")
    part = arrays(**{name: torch.full((rows,), 6)})
    batch = GraphSource(part).conform_to(model.schema, targets=False).batch
    seen = {"x": batch.x, "edge_attr": batch.graph.edge_attr}[name]
    assert seen.tolist() == [[0, 1, 0, 0]] * rows
    with pytest.raises(DataError, match="unknown category '9'.*5, 6, 7, 8"):
        predictions_of(model, arrays(**{name: torch.full((rows,), 9)}))


def test_transforms_are_part_of_the_model_and_draw_by_its_seed():
    transforms = ["NormalizeFeatures", {"name": "AddRandomWalkPE", "walk_length": 3}]
    raw = arrays(x=torch.rand(12, 3) + 1)
    data = GraphSource(raw, transforms=transforms, seed=7)
    model = model_of(data)
    assert Schema.from_dict(data.schema.as_dict()) == data.schema
    assert data.schema.transforms_seed == 7
    pd.testing.assert_frame_equal(predictions_of(model, raw), predictions_of(model, data))
    assert GraphSource(raw, seed=3).conform_to(data.schema, targets=False).seed == 7
    with pytest.raises(DataError, match="trained with transforms .*AddSelfLoops.*leave transforms"):
        predictions_of(model, GraphSource(raw, transforms=["AddSelfLoops"]))


def test_nodes_that_a_transform_leaves_out_have_no_row_and_a_warning(tmp_path, caplog):
    ring = torch.arange(9)
    edges = torch.stack([ring, ring.roll(1)])  # three nodes are alone
    split = {"train": range(3), "val": range(3, 6), "test": range(6, 9)}
    given = {**arrays(edge_index=edges).to_dict(), "node_ids": np.arange(100, 112)}
    data = GraphSource(given, transforms=LARGEST, split=split)
    run = gnn_depth.fit({"num_layers": 2}, data, epochs=1, root=str(tmp_path), progress=False)
    again = GraphSource(given | {"y": None})
    with caplog.at_level(logging.WARNING):
        found = run.predict(again)
    assert "the transforms leave out 3 nodes" in caplog.text
    assert found.node.tolist() == list(range(100, 109))
    pd.testing.assert_frame_equal(gnn_depth.load(run.folder).predict(again), found)
    # The nodes that are left have the predictions of their own graph.
    expected = predictions_of(run.model, Data(x=given["x"][:9], edge_index=edges))
    classes = list(expected)[1:]
    pd.testing.assert_frame_equal(found[classes], expected[classes], rtol=1e-5)


def test_numbers_are_predicted_in_their_own_units_and_graphs_one_by_one():
    graphs = []
    for number in range(8):
        graph = arrays(y=torch.tensor([1e9 + 1e6 * number]))
        graph.x = graph.x + number
        graphs.append(graph)
    data = GraphSource(graphs, scale_target=True, standardize=True)
    model = model_of(data, "gin")
    found = predictions_of(model, data)
    assert list(found) == ["graph", "value_0"]
    assert found.value_0.between(0.9e9, 1.1e9).all()  # near the targets before any training
    for graph in graphs:
        del graph.y
    pd.testing.assert_frame_equal(predictions_of(model, graphs), found)
    pd.testing.assert_frame_equal(predictions_of(model, graphs[:3]), found[:3])


def test_data_sets_around_a_graph_are_read_for_a_model():
    data = GraphSource(arrays())
    model = model_of(data)
    expected = predictions_of(model, data)
    for wrapped in (MissingFeatures(data, rate=0.0), MiniBatches(data, parts=2)):
        pd.testing.assert_frame_equal(predictions_of(model, wrapped), expected, rtol=1e-5)


def test_a_node_whose_output_is_nan_has_no_prediction_and_is_counted(caplog):
    data = GraphSource(arrays())

    def with_nan(model, data):
        out = torch.rand(12, 3)
        out[3, 1] = torch.nan
        return [out]

    found = predictions_of(model_of(data), data, forward=with_nan)
    assert found.index[found.predicted.isna()].tolist() == [3]
    assert np.isnan(found.probability[3])
    assert "NaN for 1 of 12 nodes" in caplog.text
