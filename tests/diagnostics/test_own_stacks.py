"""Of this package's own model: stacks that compute states again, and the way from the command line
to the figure."""

import json

import numpy as np
import pytest
import torch

from gnn_depth import measurements
from gnn_depth.cli import main
from gnn_depth.diagnostics import GradientNorms
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.skips import Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import values
from tests.training.conftest import Tiny


class TinyDouble(Tiny):
    def load(self):
        batch = super().load()
        object.__setattr__(batch, "x", batch.x.double())
        return batch


PARTS = {
    "layer": GAT,
    "skip": Residual,
    "num_layers": 5,
    "hidden_channels": 6,
    "dropout": 0.5,
    "activation": "tanh",
}


def test_the_states_of_a_reversible_stack_are_measured_whole(make_trainer):
    torch.manual_seed(0)
    model, data, expected = NodeClassifier(4, 2, **PARTS, reversible=2).double(), TinyDouble(), []
    for block in model.stack.blocks:
        offset = torch.zeros(20, 6, dtype=torch.float64, requires_grad=True)
        handle = block.register_forward_pre_hook(
            lambda module, args, offset=offset: (args[0] + offset, *args[1:])
        )
        torch.manual_seed(5)
        scores = model(data.batch)[data.batch.train_mask]
        handle.remove()
        loss = torch.nn.functional.cross_entropy(scores, data.batch.y[data.batch.train_mask])
        expected.append(float(torch.autograd.grad(loss, offset)[0].norm()))
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callback = GradientNorms()
    make_trainer([callback], max_epochs=1, num_sanity_val_steps=0).fit(model, datamodule=data)
    assert values(callback)[1][0] == pytest.approx(expected, rel=1e-10)


def fit(root, *words, callback="GradientNorms"):
    line = [
        "--data.num_nodes=120",
        "--data.num_edges=240",
        "--data.num_features=30",
        "--data.num_train_per_class=4",
    ]
    line += [
        "--data.num_val=30",
        "--data.num_test=30",
        "--trainer.max_epochs=4",
        "--trainer.accelerator=cpu",
    ]
    line += ["--trainer.enable_progress_bar=false", f"--run.root={root}", "--model.num_layers=3"]
    return main(["fit", *line, f"--trainer.callbacks=gnn_depth.diagnostics.{callback}", *words])


def test_a_config_names_the_callback_and_figures_read_its_arrays(tmp_path, capsys):
    words = ["--model.layer=gat", "--model.norm=lipschitz", "--trainer.callbacks.every_n_steps=2"]
    assert fit(tmp_path / "runs", *words) == 0
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("result.json"))
    for name in ("gradient_norm_hidden", "gradient_norm_parameters"):
        measured = measurements.load_values(folder, name)
        assert measured.steps.tolist() == [0, 2, 3]
        assert measured.layers.tolist() == [1, 2, 3]
        assert np.isfinite(measured.values).all()
    assert "gradient_norm" not in (folder / "metrics.csv").read_text()
    words = ["heatmap", str(tmp_path / "runs"), "--measure", "gradient_norm_hidden"]
    assert main(["plot", *words, "--output", str(tmp_path / "h.svg")]) == 0, capsys.readouterr().err


def test_a_name_that_no_layer_has_is_a_users_error(tmp_path, capsys):
    assert fit(tmp_path, "--trainer.callbacks.layers=stack.layer.*") == 2
    error = capsys.readouterr().err
    assert (
        "no module of NodeClassifier is called 'stack.layer.*'. Did you mean "
        "'stack.blocks.*.layer'?" in error
    )
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["status"] == "failed"
