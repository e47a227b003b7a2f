"""Trainings and measures on a GPU: the same numbers as on the CPU. ``pytest -m gpu``."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch_geometric.data import Data

import gnn_depth
from gnn_depth.measurements import load_values, measure_names
from gnn_depth.nn import native
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.registry import registered
from gnn_depth.testing import checks
from gnn_depth.training import Diverged
from tests.nn.native.interpreted import TOLERANCES as INTERPRETED
from tests.nn.native.interpreted import compare
from tests.testing.test_built_in import CHECKS, PARTS
from tools.benchmark.definition import METHODS, settings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU"),
    # PyTorch's, for the first product in a thread.
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
]

EPOCHS = 4
DEVICES = ("cpu", "gpu")
SEED = 3


def planted(nodes=60, seed=0, dtype=torch.float32):
    """A graph of three communities, whose features hint at them."""
    draws = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % 3
    pairs = torch.randint(nodes, (2, 6 * nodes), generator=draws)
    is_near = y[pairs[0]] == y[pairs[1]]
    kept = pairs[:, is_near | (torch.rand(pairs.shape[1], generator=draws) < 0.2)]
    x = torch.randn(nodes, 8, generator=draws) + 2 * torch.eye(3, 8)[y]
    edges = torch.cat([kept, kept.flip(0)], 1)
    return Data(x=x.to(dtype), edge_index=edges, y=y)


SPLIT = {"train": range(30), "val": range(30, 45), "test": range(45, 60)}


def trained(model, accelerator, root, **more):
    """A run in float64, whose numbers are those of the formulas."""
    options = {"epochs": EPOCHS, "seed": SEED, "split": SPLIT, "precision": "64-true"} | more
    return gnn_depth.fit(
        model,
        planted(),
        root=str(Path(root) / accelerator),
        progress=False,
        accelerator=accelerator,
        **options,
    )


def curves(run):
    frame = run.curves.select_dtypes("number")
    return {name: frame[name].to_numpy() for name in frame if "seconds" not in name}


def assert_same(one, other, tolerance=1e-7):
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(
            other[name], values, rtol=tolerance, atol=tolerance, err_msg=name
        )


# Parts.


@pytest.mark.parametrize(
    "label", [label for label, (kind, *_) in PARTS.items() if kind in ("layer", "norm", "skip")]
)
def test_a_part_computes_the_same_on_a_gpu(label, monkeypatch):
    for suite in ("COMMON", "OF_GRAPHS"):
        kept = [each for each in getattr(checks, suite) if each.name in ("shape", "batch", "gpu")]
        monkeypatch.setattr(checks, suite, kept)
    kind, name, options = PARTS[label]
    CHECKS[kind](name, **options)


# Trainings.


MODELS = {name: settings(name, options)[0] for name, options in METHODS.items()}
MODELS |= {
    "gat, LipschitzNorm": {"layer": {"name": "gat", "heads": 4}, "norm": "lipschitz"},
    "transformer": {"layer": {"name": "transformer", "heads": 2}, "norm": "lipschitz"},
    "recomputed": {"skip": "residual", "checkpoint_every": 2},
    "reversible": {"skip": "residual", "reversible": 2},
}


@pytest.mark.parametrize("label", MODELS)
def test_a_training_has_the_same_curves(label, tmp_path):
    # Not Adam, which makes full steps of gradients that are zero but for rounding; no dropout,
    # since each device draws its own random numbers.
    optimizer = {"class_path": "SGD", "init_args": {"lr": 0.1}}
    sizes = {"num_layers": 6, "hidden_channels": 16}
    model = sizes | MODELS[label] | {"optimizer": optimizer, "dropout": 0.0}
    found = {device: curves(trained(model, device, tmp_path)) for device in DEVICES}
    assert_same(found["cpu"], found["gpu"], 1e-6)


MEASURING = [
    "GradientNorms",
    "GradientSimilarity",
    "GradientExpansion",
    "RepresentationSimilarity",
    "DirichletEnergy",
    "MeanAverageDistance",
    "EffectiveRank",
    "LipschitzConstants",
    "Balancedness",
]


@pytest.mark.parametrize("name", MEASURING)
def test_a_callback_measures_the_same(name, tmp_path):
    model = {"layer": "gat", "num_layers": 5, "hidden_channels": 8, "dropout": 0.0}
    found = {}
    for device in DEVICES:
        run = trained(model, device, tmp_path, callbacks=[{"class_path": name}])
        folder = Path(run.folder)
        found[device] = {
            measure: load_values(folder, measure).values for measure in measure_names(folder)
        }
    # LipschitzConstants begin at a random direction; both devices draw it on their own.
    tolerance = 1e-3 if name == "LipschitzConstants" else 1e-6
    assert found["cpu"]
    assert_same(found["cpu"], found["gpu"], tolerance)


def test_a_run_of_a_gpu_is_read_and_predicts_on_the_cpu(tmp_path):
    run = trained({"num_layers": 3}, "gpu", tmp_path)
    result = json.loads((Path(run.folder) / "result.json").read_text())
    assert result["device"] == torch.cuda.get_device_name()
    on_gpu = run.predict(planted())
    read = gnn_depth.load(run.folder)
    assert next(read.model.parameters()).device.type == "cpu"
    on_cpu = read.predict(planted())
    one, other = (table.select_dtypes("number").to_numpy() for table in (on_gpu, on_cpu))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "bf16-mixed", "bf16-true", "64-true"])
def test_every_precision_trains(precision, tmp_path):
    model = {"layer": "gat", "norm": "lipschitz", "num_layers": 4, "dropout": 0.2}
    run = trained(
        model, "gpu", tmp_path, precision=precision, epochs=30, callbacks=["GradientNorms"]
    )
    losses = run.curves["train/loss"].to_numpy()
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


# Recorded steps.

RECORDED = {f"layer {name}": {"layer": name} for name in registered("layer")}
RECORDED |= {f"norm {name}": {"layer": "gat", "norm": name} for name in registered("norm")}
RECORDED |= {f"skip {name}": {"skip": name} for name in registered("skip")}
RECORDED |= {
    "clipped": {"gradient_clip_val": 0.1},
    "bf16": {"precision": "bf16-mixed"},
    "sgd": {"optimizer": {"class_path": "SGD", "init_args": {"lr": 0.1, "momentum": 0.9}}},
    "schedule": {"scheduler": "CosineAnnealingLR"},
    "messages": {"graph_dropout": "drop_message"},
    "recomputed": {"checkpoint_every": 2},
    "measured": {
        "callbacks": [{"class_path": "GradientNorms", "init_args": {"every_n_epochs": 4}}]
    },
}
# Each reads a value on the CPU: the singular vectors that are not exact yet, and an error.
UNRECORDABLE = {
    "norm spectral": RECORDED.pop("norm spectral"),
    "reversible": {"skip": "residual", "reversible": 2},
}
# They add numbers up by PyTorch's atomic operations, in another order each time.
UNORDERED = ("layer pyg", "skip gradient_gating")
OF_TRAINER = ("gradient_clip_val", "precision", "callbacks")


def recorded(record, root, options, epochs=12, **more):
    """A run in float32 with dropout, whose steps are recorded or not."""
    model = {"num_layers": 4, "hidden_channels": 16, "dropout": 0.5, "record": record}
    of_trainer = {"precision": "32-true"}
    for name, value in options.items():
        place = of_trainer if name in OF_TRAINER else model
        place[name] = value
    return trained(model, "gpu", Path(root) / record, epochs=epochs, **of_trainer, **more)


@pytest.mark.parametrize("label", RECORDED)
def test_replayed_steps_are_those_of_an_ordinary_training(label, tmp_path):
    found = {}
    for record in ("on", "off"):
        found[record] = curves(recorded(record, tmp_path, RECORDED[label]))
    assert_same(found["off"], found["on"], 1e-5 if label in UNORDERED else 0)


@pytest.mark.parametrize("label", UNRECORDABLE)
def test_what_reads_a_value_trains_as_before(label, tmp_path, caplog):
    found = {}
    for record in ("auto", "off"):
        found[record] = curves(recorded(record, tmp_path, UNRECORDABLE[label]))
    assert_same(found["off"], found["auto"], 0)
    assert "steps are not recorded" in caplog.text


def test_a_resumed_training_is_recorded_again_and_ends_the_same(tmp_path):
    options = {
        "layer": "gat",
        "scheduler": {"class_path": "ExponentialLR", "init_args": {"gamma": 0.9}},
    }
    whole = recorded("on", tmp_path / "whole", options, epochs=20)
    recorded("on", tmp_path / "parts", options, epochs=11)
    parts = recorded("on", tmp_path / "parts", options, epochs=20)
    assert_same(curves(whole), curves(parts), 0)


class Running(FeatureNorm):
    """A plugin's norm in plain PyTorch, which keeps a running mean."""

    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x, graph):
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return x - self.mean


class Looks(FeatureNorm):
    """A norm that depends on a value."""

    def forward(self, x, graph):
        if x.abs().max() > 1:
            return x / 2
        return x


def test_a_plugins_norm_is_recorded_as_a_built_in_one(tmp_path):
    found = [curves(recorded(record, tmp_path, {"norm": [Running]})) for record in ("off", "on")]
    assert_same(*found, 0)


def test_a_part_that_looks_at_values_is_named_and_trains_as_before(tmp_path, caplog):
    ordinary = curves(recorded("off", tmp_path, {"norm": [Looks]}))
    found = curves(recorded("auto", tmp_path, {"norm": [Looks]}))
    assert_same(ordinary, found, 0)
    assert "steps are not recorded: blocks.0.norms.0 (Looks), test_gpu.py:" in caplog.text


class Overflow(Callback):
    """Make the second layer overflow after an epoch."""

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == 8:
            with torch.no_grad():
                pl_module.stack.blocks[1].layer.lin.weight.fill_(3e38)


def test_a_recorded_training_that_diverges_names_its_step_and_layer(tmp_path):
    messages = []
    for record in ("off", "on"):
        with pytest.raises(Diverged) as error:
            recorded(record, tmp_path, {"callbacks": [Overflow()]}, epochs=30)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "at step 9" in messages[1]
    assert "blocks.1.layer" in messages[1]


# Kernels.


def test_the_kernels_compute_what_pytorch_does():
    assert native.available_for(torch.device("cuda")) is not None
    for shape, tolerance in INTERPRETED.items():
        assert compare(*shape, "cuda") <= tolerance


# The command.
