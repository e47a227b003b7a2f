"""What is measured of balance is right, whatever stands between the loss and the optimizer's
step."""

import copy
import json
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.optim import SGD

from gnn_depth import measurements
from gnn_depth.cli import main
from gnn_depth.diagnostics import Balancedness
from gnn_depth.diagnostics.balance import (
    change_measures,
    changes,
    defect,
    imbalance,
    size,
)
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import TinyDouble
from tests.training.conftest import Several, Tiny

PLAIN = {"name": "gatv2", "share_weights": True, "bias": False}
BARE = {"num_layers": 4, "hidden_channels": 6, "encoder": "none", "decoder": "none"}
STATISTICS = ("mean", "min", "q1", "median", "q3", "max")


def model(layer=PLAIN, init=None, optimizer=None, **options):
    torch.manual_seed(0)
    optimizer = optimizer or partial(SGD, lr=0.1)
    return NodeClassifier(
        4, 2, layer=layer, init=init or "xavier", optimizer=optimizer, **(BARE | options)
    ).double()


@pytest.fixture
def watch(make_trainer):
    """Train a model and return its callback."""

    def run(module=None, data=None, loader=None, options=None, **trainer):
        callback = Balancedness(**(options or {}))
        made = make_trainer([callback], **({"max_epochs": 3} | trainer))
        if loader is None:
            made.fit(module or model(), datamodule=data or TinyDouble())
        else:
            made.fit(module or model(), loader, Several(TinyDouble(), 1))
        return callback

    return run


def values(callback):
    """All measures by their names, those that are shown as logarithms as they are."""
    return {
        m.name: 10**m.values if m.log10 else m.values for m in callback.measure_log.measurements()
    }


def same(one, other, rel=1e-10):
    ours, theirs = values(one), values(other)
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], rel=rel, abs=1e-14, nan_ok=True), name


def by_hand(module, batch):
    """What a step shows, by differentiating with respect to the parameters themselves."""
    loss = F.cross_entropy(module(batch)[batch.train_mask], batch.y[batch.train_mask])
    parameters = list(module.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        parameter.grad = gradient
    laws = {"c": [imbalance(link) for link in module.stack.links()]}
    laws["delta"] = [defect(link) for link in module.stack.links()]
    shown = {
        f"balance_{law}_{name}": [of(neurons.numpy()) for neurons in each]
        for law, each in laws.items()
        for name, of in zip(
            STATISTICS, (np.mean, *(partial(np.quantile, q=q) for q in (0, 0.25, 0.5, 0.75, 1)))
        )
    }
    for kind, name in (("weights", "incoming"), ("attention", "attention")):
        of = [getattr(layer.weight_chain(), name)[0] for layer in module.stack.layers]
        shown[f"balance_gradient_{kind}"] = [(p.grad.norm() / p.norm()).item() for p in of]
    return shown


def test_every_step_shows_what_is_found_by_hand(watch):
    module = model()
    by_foot, batch = copy.deepcopy(module), TinyDouble().batch
    found = values(watch(module))
    optimizer = SGD(by_foot.parameters(), lr=0.1)
    for step in range(3):
        for name, expected in by_hand(by_foot, batch).items():
            shown = found[name][step][: len(expected)]
            assert shown == pytest.approx(expected, rel=1e-9, abs=1e-14), name
        optimizer.zero_grad()
        F.cross_entropy(by_foot(batch)[batch.train_mask], batch.y[batch.train_mask]).backward()
        optimizer.step()
    assert np.isnan(found["balance_c_mean"][:, 3]).all()  # what leaves the last layer is no neuron


def test_clipping_comes_after_the_measurement(watch):
    free, clipped = (values(watch(max_epochs=1, gradient_clip_val=bound)) for bound in (None, 1e-6))
    for name in free:
        assert np.array_equal(free[name], clipped[name], equal_nan=True)


def test_batches_that_are_accumulated_are_measured_as_the_one_that_they_make(watch):
    parts = watch(loader=Several(TinyDouble(), 2), accumulate_grad_batches=2)
    same(parts, watch(loader=Several(TinyDouble(), 1)))
    assert parts.measure_log.measurements()[0].steps.tolist() == [0, 1, 2]


@pytest.mark.parametrize("fused", [True, False])
def test_the_scale_of_mixed_precision_is_taken_out(watch, fused):
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**9))
    full = values(watch(model().float(), Tiny(), max_epochs=1))
    module = model(optimizer=partial(SGD, lr=0.1, fused=fused)).float()
    half = values(watch(module, Tiny(), max_epochs=1, plugins=plugin))
    expected = full["balance_gradient_weights"]
    assert half["balance_gradient_weights"] == pytest.approx(expected, rel=2e-2)
    # Scaled, delta would be ten times as large.
    assert np.nanmax(np.abs(half["balance_delta_max"])) < 0.02 * np.nanmax(expected)


def test_layers_without_attention_and_parameters_that_rest_have_their_numbers(watch):
    module = model("gcn")
    module.stack.layers[1].lin.weight.requires_grad_(False)
    found = values(watch(module))
    assert np.isnan(found["balance_gradient_attention"]).all()
    assert (found["balance_gradient_weights"][:, 1] == 0).all()
    assert np.isfinite(found["balance_gradient_weights"]).all()


def test_loggers_get_one_measure_the_share_of_c(watch):
    callback, before = watch(max_epochs=1), model()
    shown = [measure.name for measure in callback.measure_log.measures if measure.shown]
    assert shown == ["balance_share"]
    shares = values(callback)["balance_share"][0]
    by_hand = [
        (imbalance(link).abs() / size(link)).median().item() for link in before.stack.links()
    ]
    assert shares[:3] == pytest.approx(by_hand, rel=1e-6)
    assert np.isnan(shares[3])


def test_the_distribution_is_that_of_the_neurons(watch):
    callback = watch(options={"neurons": True})
    shown = values(callback)
    for found in callback.neuron_log.measurements():
        for statistic, of in (("mean", np.mean), ("q1", partial(np.quantile, q=0.25))):
            expected = shown[f"{found.name}_{statistic}"][:, :3]
            assert of(found.values, axis=2) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_changes_are_relative_for_weights_and_absolute_for_attention():
    weights = nn.Parameter(torch.tensor([[1.0, -2.0], [0.0, 0.0]]))
    attention = nn.Parameter(torch.tensor([0.0, 4.0]))
    before = {weights: weights.detach().clone(), attention: attention.detach().clone()}
    with torch.no_grad():
        weights.copy_(torch.tensor([[1.5, -2.0], [0.0, 3.0]]))
        attention.copy_(torch.tensor([0.5, 3.0]))
    names = [measure.name.removeprefix("balance_") for measure in change_measures(0.05)]
    found = dict(
        zip(names, changes([[[weights]], [[attention]]], before, 0.05)[:, 0].tolist(), strict=True)
    )
    expected = {"changed_weights": 0.5, "unchanged_weights": 0.5, "unchanged_attention": 0}
    expected |= {"changed_attention": 1, "change_weights_min": 0, "change_weights_max": np.inf}
    expected |= {"change_attention_min": 0.5, "change_attention_mean": 0.75}
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "ggnn", "init": "default"}, "layer 'ggnn' has no weight chain"),
        ({"weight_norm": True}, "a weight is computed from other parameters"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(watch, options, message):
    is_normed = options.pop("weight_norm", False)
    made = model(**options, encoder="linear", decoder="linear")
    if is_normed:
        torch.nn.utils.parametrizations.weight_norm(made.stack.layers[1].lin_src)
    with pytest.raises(MisconfigurationException, match=message):
        watch(made)


def test_where_the_law_does_not_hold_a_warning_says_why_and_it_is_measured(watch):
    with pytest.warns(UserWarning, match="delta .*'stack'.*elu"):
        found = values(watch(model(activation="elu")))
    assert np.nanmax(np.abs(found["balance_delta_max"])) > 1e-6


def test_a_run_has_its_arrays_its_figure_and_its_findings(tmp_path, capsys):
    sizes = {"nodes": 120, "edges": 240, "features": 30, "val": 30, "test": 30}
    words = [f"--data.num_{name}={size}" for name, size in sizes.items()]
    words += ["--data.num_train_per_class=4", "--model.layer=gatv2", "--model.hidden_channels=8"]
    words += ["--model.num_layers=3", "--trainer.max_epochs=4", "--trainer.accelerator=cpu"]
    words += ["--trainer.callbacks=gnn_depth.diagnostics.Balancedness", f"--run.root={tmp_path}"]
    assert main(["fit", *words, "--trainer.callbacks.neurons=true"]) == 0
    (path,) = tmp_path.rglob("result.json")
    found = json.loads(path.read_text())["findings"]["Balancedness"]["changed"]
    assert measurements.load_values(path.parent, "balance_c").values.shape == (4, 4, 8)
    changed = measurements.load_values(path.parent, "balance_changed_weights")
    assert changed.values[0].tolist() == found["weights"]
    words = ["history", str(tmp_path), "--measure", "balance_c", "--output", f"{tmp_path}/c.svg"]
    assert main(["plot", *words]) == 0, capsys.readouterr().err


def test_delta_is_zero_all_through_a_training(watch):
    module = model({"name": "gat", "heads": 2}, encoder="linear", decoder="linear")
    callback = watch(module, max_epochs=8)
    found = values(callback)
    assert callback.measure_log.layers.tolist() == [0, 1, 2, 3, 4]
    largest = max(size(link).max().item() for link in module.stack.links())
    for name in ("min", "max"):
        assert np.abs(found[f"balance_delta_{name}"]).max() < 1e-10 * largest
    assert np.nanmax(found["balance_gradient_weights"]) > 1e-4  # there was something to add up
