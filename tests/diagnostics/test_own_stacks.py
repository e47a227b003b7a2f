"""Of this package's own model, from the command line to the figure."""

import json

import numpy as np
import pytest
import torch

from gnn_depth import measurements
from gnn_depth.cli import main
from gnn_depth.diagnostics import GradientNorms
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import NoSkip, Residual
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import values
from tests.training.conftest import Tiny

CALLBACK = "gnn_depth.diagnostics.GradientNorms"


class TinyDouble(Tiny):
    def load(self):
        batch = super().load()
        object.__setattr__(batch, "x", batch.x.double())
        return batch


def of_offset(model, batch, place):
    """The norm of the gradient with respect to something that is added to what enters a layer."""
    offset = torch.zeros((), dtype=torch.float64).expand(20, model.stack.layers[place].in_channels).clone()
    offset.requires_grad_()
    handle = model.stack.states[place].register_forward_hook(lambda module, args, output: output + offset)
    torch.manual_seed(5)
    scores = model(batch)[batch.train_mask]
    handle.remove()
    (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, batch.y[batch.train_mask]), offset)
    return float(gradient.norm())


@pytest.mark.parametrize("options", [{}, {"norm": [LayerNorm], "norm_after_skip": True}, {"share_layers": True}])
@pytest.mark.parametrize(("layer", "skip"), [(GCN, Residual), (GAT, Residual), (GAT, NoSkip)])
def test_a_state_is_measured_before_dropout_and_with_all_that_reads_it(make_trainer, layer, skip, options):
    torch.manual_seed(0)
    parts = {"layer": layer, "skip": skip, "num_layers": 3, "hidden_channels": 5, "dropout": 0.5, "activation": "tanh"}
    model, data = NodeClassifier(4, 2, **parts, **options).double(), TinyDouble()
    expected = [of_offset(model, data.batch, place) for place in range(3)]
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callback = GradientNorms()
    make_trainer([callback], max_epochs=1, num_sanity_val_steps=0).fit(model, datamodule=data)
    assert values(callback)[1][0] == pytest.approx(expected, rel=1e-10)


def test_measured_and_unmeasured_runs_are_equal_to_the_last_bit(make_trainer):
    losses = []
    for callbacks in ([GradientNorms()], []):
        torch.manual_seed(0)
        model = NodeClassifier(4, 2, layer=GAT, num_layers=3, dropout=0.5, hidden_channels=4)
        trainer = make_trainer(callbacks, max_epochs=5, num_sanity_val_steps=0)
        trainer.fit(model, datamodule=Tiny())
        losses.append({name: float(value) for name, value in trainer.callback_metrics.items()})
    assert losses[0] == losses[1]


def fit(root, *words):
    line = ["--data.num_nodes=120", "--data.num_edges=240", "--data.num_features=30", "--data.num_train_per_class=4"]
    line += ["--data.num_val=30", "--data.num_test=30", "--trainer.max_epochs=4", "--trainer.accelerator=cpu"]
    line += ["--trainer.enable_progress_bar=false", f"--run.root={root}", "--model.num_layers=3"]
    return main(["fit", *line, f"--trainer.callbacks={CALLBACK}", *words])


def test_a_config_names_the_callback_and_figures_read_its_arrays(tmp_path, capsys):
    words = ["--model.layer=gat", "--model.norm=lipschitz", "--trainer.callbacks.every_n_steps=2"]
    assert fit(tmp_path / "runs", *words) == 0
    (folder,) = (path.parent for path in (tmp_path / "runs").rglob("result.json"))
    for name in ("gradient_norm_hidden", "gradient_norm_parameters"):
        measured = measurements.load(folder, name)
        assert measured.steps.tolist() == [0, 2, 3]
        assert measured.layers.tolist() == [1, 2, 3]
        assert np.isfinite(measured.values).all()
    assert "gradient_norm" not in (folder / "metrics.csv").read_text()
    for kind in ("heatmap", "layers", "history"):
        output = tmp_path / f"{kind}.html"
        words = ["plot", kind, str(tmp_path / "runs"), "--measure", "gradient_norm_hidden", "--output", str(output)]
        assert main(words) == 0, capsys.readouterr().err
        assert "dLoss" in output.read_text()


def test_a_name_that_no_layer_has_is_a_users_error(tmp_path, capsys):
    assert fit(tmp_path, "--trainer.callbacks.layers=stack.layer.*") == 2
    error = capsys.readouterr().err
    assert "no module of NodeClassifier is called 'stack.layer.*'. Did you mean 'stack.blocks.*.layer'?" in error
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["status"] == "failed"


def test_a_cadence_that_is_none_is_a_users_error(tmp_path, capsys):
    assert fit(tmp_path, "--trainer.callbacks.every_n_steps=0") == 2
    assert "every_n_steps must be at least 1, not 0" in capsys.readouterr().err
