"""``gnn_depth.fit``: three lines in a notebook give a run with its metrics, curves and
checkpoint."""

import copy
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

import gnn_depth
from gnn_depth.diagnostics import GradientNorms
from gnn_depth.reports.load import ReportError, ReportWarning, read_runs
from gnn_depth.reports.settings import grouped
from gnn_depth.training.checkpoints import read_checkpoint
from tests.training.conftest import Raise

QUIET = {"enable_progress_bar": False, "accelerator": "cpu"}


@pytest.fixture(scope="module")
def graphs():
    """Paths of one length or the other: the class."""
    draws = torch.Generator().manual_seed(0)
    found = []
    for number in range(20):
        size = 3 + 3 * (number % 2)
        path = torch.arange(size - 1)
        edges = torch.stack([torch.cat([path, path + 1]), torch.cat([path + 1, path])])
        x = torch.randn(size, 2, generator=draws)
        found.append(Data(x, edges, y=torch.tensor([number % 2])))
    return found


@pytest.fixture(scope="module")
def run(graphs, tmp_path_factory):
    model = {"layer": {"name": "gin"}, "num_layers": 2, "hidden_channels": 8, "pool": "sum"}
    model["optimizer"] = {"name": "Adam", "lr": 0.01}
    root = str(tmp_path_factory.mktemp("runs"))
    return gnn_depth.fit(model, graphs, epochs=12, batch_size=4, root=root, **QUIET)


def test_a_run_has_curves_metrics_a_report_and_the_weights_of_its_best_epoch(run):
    curves = run.curves
    assert curves["epoch"].tolist() == list(range(12))
    assert curves["val/acc"].max() == run.metrics["val_acc_at_best_val"]
    assert str(run).startswith("test accuracy ")
    saved = read_checkpoint(run.checkpoint)
    assert saved["epoch"] == int(curves["val/acc"].idxmax())
    for name, weight in saved["state_dict"].items():
        assert torch.equal(run.model.state_dict()[name], weight)


FAILS = Raise(RuntimeError("after an epoch"), 1)


@pytest.mark.parametrize("failing", [[], [FAILS]], ids=["ends", "fails"])
def test_a_training_leaves_the_global_generators_as_they_were(graphs, tmp_path, failing):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with pytest.raises(RuntimeError, match="after an epoch") if failing else nullcontext():
        gnn_depth.fit(
            {"layer": "gin"}, graphs, epochs=1, root=str(tmp_path), callbacks=failing, **QUIET
        )
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]


def test_a_config_file_gives_model_and_epochs_and_its_other_sections_are_named(
    graphs, tmp_path, caplog
):
    config = tmp_path / "small.yaml"
    text = "model: {layer: gcn, num_layers: 3, hidden_channels: 4}\ntrainer: {max_epochs: 2}\n"
    config.write_text(f"{text}data: Cora\nrun: {{name: mine}}\n")
    run = gnn_depth.fit(config, graphs, root=str(tmp_path), **QUIET)
    assert (len(run.model.stack.layers), len(run.curves)) == (3, 2)
    assert "small.yaml: fit leaves out these sections: data, run." in caplog.text


def test_runs_on_other_data_or_with_other_epochs_do_not_repeat_each_other(graphs, tmp_path):
    options = {"layer": "gin", "num_layers": 2, "hidden_channels": 4, "compile": "off"}
    split = {"train": [0, 1, 2, 3], "val": [4, 5], "test": [6, 7]}
    for data, epochs in ((graphs, 1), (graphs, 2), (graphs[:10], 1), (graphs, 1)):
        gnn_depth.fit(options, data, epochs=epochs, split=split, root=str(tmp_path), **QUIET)
    with pytest.warns(ReportWarning, match="1 of 4 runs repeat others"):
        frame = read_runs(tmp_path)
    assert len(frame) == 3
    with pytest.raises(ReportError, match=r"max_epochs|given_in_python"):
        grouped(frame, [], remedy="Choose some of them")


def test_a_training_of_nothing_is_refused_before_it_has_a_folder(graphs, tmp_path):
    with pytest.raises(MisconfigurationException, match="max_epochs is 0"):
        gnn_depth.fit({"layer": "gin"}, graphs, 0, root=str(tmp_path), **QUIET)
    assert not list(tmp_path.iterdir())


def test_a_model_of_pytorch_geometric_trains_as_in_a_loop_and_is_measured(tmp_path):
    edges, y = torch.randint(60, (2, 200)), torch.randint(3, (60,))
    data = Data(torch.randn(60, 5), edges, y=y)
    split = {"train": range(0, 60, 3), "val": range(1, 60, 3), "test": range(2, 60, 3)}
    net = GraphSAGE(5, 8, num_layers=2, out_channels=3)
    twin = copy.deepcopy(net)
    norms = GradientNorms(layers="stack.module.convs.1")
    run = gnn_depth.fit(net, data, 4, 0, split, root=str(tmp_path), callbacks=[norms], **QUIET)
    optimizer, losses = torch.optim.Adam(twin.parameters(), lr=0.005, weight_decay=5e-4), []
    for _ in range(4):
        losses.append(torch.nn.functional.cross_entropy(twin(data.x, edges)[::3], y[::3]))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    expected = torch.stack(losses).tolist()
    assert run.curves["train/loss"].tolist() == pytest.approx(expected, rel=1e-5)
    assert norms.frame().value.notna().all()
    assert run.config["model"]["module"]["class_path"].endswith("GraphSAGE")
    expected = run.model(data.x, edges).softmax(-1)[:, 1].detach().numpy()
    np.testing.assert_allclose(run.predict(data)["class_1"], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="has 4 outputs, and the data needs 3"):
        gnn_depth.fit(GraphSAGE(5, 8, 2, 4), data, epochs=1, root=str(tmp_path), **QUIET)
