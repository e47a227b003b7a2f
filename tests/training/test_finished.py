"""A finished run in Python: loaded, used for predictions, and exported."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.data import GraphSource, Tables
from gnn_depth.runs import write_result
from tests.data.test_tables import tables

MODEL = {"layer": "sage", "norm": "layer", "num_layers": 2, "hidden_channels": 8}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on tables, and their folder."""
    folder, paths = tmp_path_factory.mktemp("trained"), []
    for name, table in zip(("nodes", "edges"), tables()):
        paths.append(str(folder / f"{name}.csv"))
        table.to_csv(paths[-1], index=False)
    data = Tables(*paths, label="topic", features=["age", "balance"])
    run = gnn_depth.fit(MODEL, data, epochs=4, root=str(folder / "runs"), name="x", progress=False)
    return run, folder


def test_a_loaded_run_is_the_run_that_was_trained(trained):
    run, folder = trained
    for path in (run.folder, folder / "runs"):
        loaded = gnn_depth.load(path)
        assert isinstance(loaded, gnn_depth.Run)
        assert loaded.folder == run.folder
        assert loaded.metrics == run.metrics
        assert loaded.curves.equals(run.curves)
        assert loaded.config["model"]["num_layers"] == 2
    for mine, its in zip(run.model.parameters(), loaded.model.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_metrics_are_numbers(trained, tmp_path):
    run, _ = trained
    result = run.result
    undefined = {**result["metrics"], "val/acc": float("nan")}
    shutil.copytree(run.folder, tmp_path / "copy")
    write_result(tmp_path / "copy", {**result, "metrics": undefined})
    found = gnn_depth.load(tmp_path / "copy").metrics
    assert all(isinstance(value, float) for value in found.values())
    assert np.isnan(found["val/acc"])


@pytest.fixture
def data():
    return Data(x=torch.rand(20, 3), edge_index=torch.randint(20, (2, 40)), y=torch.arange(20) % 2)


def test_data_that_was_given_in_python_is_asked_for_again(data, tmp_path):
    run = gnn_depth.fit(MODEL, data, epochs=1, root=str(tmp_path), name="y", progress=False)
    loaded = gnn_depth.load(run.folder)
    with pytest.raises(ValueError, match=r"run.predict\(data\)"):
        loaded.predict()
    pd.testing.assert_frame_equal(loaded.predict(data), run.predict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_export_scales_the_features_of_a_graph_as_predict_does(tmp_path, dtype):
    x = torch.rand(40, 3, dtype=dtype) * torch.tensor([1.0, 1e3, 10]) + torch.tensor([0, 1e6, 5])
    edges = torch.randint(40, (2, 90))
    graph = Data(
        x=x.to(dtype), edge_index=edges, y=100 * x[:, 2].float(), edge_attr=torch.rand(90, 2)
    )
    data = GraphSource(graph, standardize=True, scale_target=True)
    model = {**MODEL, "layer": "gat"}
    run = gnn_depth.fit(model, data, epochs=9, root=str(tmp_path), progress=False)
    path = run.export(tmp_path / "numbers.pt2")
    with pytest.raises(ValueError, match="the file exists"):
        run.export(path)
    program = torch.export.load(path).module()
    found = program(x=graph.x, edge_index=edges, edge_attr=graph.edge_attr)
    wanted = run.predict(graph)["value_0"].to_numpy()
    assert np.ptp(wanted) > 1
    np.testing.assert_allclose(found[:, 0].numpy(), wanted, rtol=1e-5)
