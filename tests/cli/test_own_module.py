"""``fit --model a_users_module.MyModule``: a LightningModule of the user's, as LightningCLI takes it."""

import importlib
import re
import sys
from pathlib import Path

import lightning as L
import pytest
import yaml
from lightning.pytorch.cli import LightningCLI

from gnn_depth import measurements
from gnn_depth.runs import read_result
from tests.cli.conftest import QUIET, SMALL

MODULE = """
import lightning as L
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN


class Mine(L.LightningModule):
    def __init__(self, in_channels, num_classes, hidden=8, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = GCN(in_channels, hidden, num_layers=4, out_channels=num_classes)

    def forward(self, batch):
        return self.net(batch.x, batch.graph.edge_index)

    def training_step(self, batch, batch_idx):
        train = batch.train_mask
        loss = torch.nn.functional.cross_entropy(self(batch)[train], batch.y[train])
        self.log("train/loss", loss, batch_size=1)
        return loss

    def validation_step(self, batch, batch_idx):
        hits = (self(batch).argmax(-1) == batch.y).float()
        self.log("val/acc", hits[batch.val_mask].mean(), batch_size=1)
        self.log("test/acc", hits[batch.test_mask].mean(), batch_size=1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


class Other:
    pass


class Plain(Mine):
    def forward(self, batch):
        return self.net(batch.x, batch.edge_index)


class Idle(Plain):
    configure_optimizers = L.LightningModule.configure_optimizers


class Loaders(L.LightningDataModule):
    def __init__(self, nodes=20):
        super().__init__()
        x, y = torch.eye(nodes), torch.arange(nodes) % 3
        ring = torch.arange(nodes).repeat(2, 1).clone()
        ring[1] = ring[1].roll(1)
        everywhere = torch.ones(nodes, dtype=torch.bool)
        masks = {f"{name}_mask": everywhere for name in ("train", "val", "test")}
        self.data = Data(x, ring, y=y, **masks)

    def train_dataloader(self):
        return DataLoader([self.data])

    def val_dataloader(self):
        return DataLoader([self.data])
"""
WORDS = ["--model", "a_users_module.Mine", *SMALL, *QUIET, "--trainer.accelerator", "cpu"]


@pytest.fixture
def fit(done, monkeypatch):
    Path("a_users_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(Path.cwd())
    monkeypatch.delitem(sys.modules, "a_users_module", raising=False)
    return lambda *words: done("fit", *words)


def test_it_gets_a_run_folder_with_curves_measures_checkpoints_and_result(fit):
    words = "--trainer.callbacks GradientNorms --trainer.callbacks.layers net.convs.[1-3]"
    answer = fit(*WORDS, *words.split(), "--model.lr", "0.2", "--trainer.max_epochs", "3")
    (folder,) = Path("runs").glob("Mine-*/*")
    result = read_result(folder)
    assert (result["status"], result["epochs"]) == ("finished", 3)
    assert result["hparams"]["model"] == "a_users_module.Mine"
    assert {"test_acc_at_best_val", "train/loss"} <= result["metrics"].keys()
    assert f"{result['metrics']['train/loss']:.4f}" in answer.out
    assert measurements.load_values(folder, "gradient_norm_hidden").values.shape == (3, 3)
    again = yaml.safe_load((folder / "config.yaml").read_text())["model"]
    assert again == {"class_path": "a_users_module.Mine", "init_args": {"hidden": 8, "lr": 0.2}}


def test_a_file_as_of_lightning_cli_and_a_resume_give_the_same_weights(fit):
    file = {"model": {"class_path": "a_users_module.Mine", "init_args": {"hidden": 4}}}
    file |= {"seed_everything": True, "optimizer": None, "weights_only": None}  # its defaults
    Path("cli.yaml").write_text(yaml.safe_dump(file))
    Path("more.yaml").write_text("model: {init_args: {lr: 0.05}}\n")
    words = ["-c", "cli.yaml", "-c", "more.yaml", *WORDS[2:]]
    found = []
    for name, epochs in (("whole", "4"), ("half", "2"), ("rest", "4")):
        if name == "rest":
            words += ["--ckpt_path", str(folder)]
        fit(*words, "--run.name", name, "--trainer.max_epochs", epochs)
        (folder,) = Path("runs", name).iterdir()
        found.append(read_result(folder)["metrics"]["train/loss"])
    assert found[0] == found[2] != found[1]


def test_options_and_data_that_are_left_out_are_those_of_the_run(fit, done):
    fit(*WORDS, "--model.hidden", "4", "--data.seed", "3", "--trainer.max_epochs", "2")
    (folder,) = Path("runs").glob("Mine-*/*")
    answer = done("validate", *WORDS[:2], "--ckpt_path", str(folder)).out
    expected = read_result(folder)["metrics"]["val_acc_at_best_val"]
    assert re.search(f"val/acc +{expected:.4f}", answer)


def test_an_optimizer_and_schedule_are_used_as_lightning_cli_uses_them(fit, monkeypatch):
    file = yaml.safe_load("""
model: {class_path: a_users_module.Idle, init_args: {in_channels: 20, num_classes: 3}}
data: {class_path: a_users_module.Loaders}
optimizer: {class_path: Adam, init_args: {lr: 0.05}}
lr_scheduler:
  class_path: lightning.pytorch.cli.ReduceLROnPlateau
  init_args: {monitor: val/acc, mode: max, patience: 0, factor: 0.5}
trainer: {max_epochs: 4, accelerator: cpu, enable_progress_bar: false}
seed_everything: 0
""")
    Path("cli.yaml").write_text(yaml.safe_dump(file))
    fit("-c", "cli.yaml", "--run.name", "mine")
    (folder,) = Path("runs/mine").iterdir()
    words = ["cli.py", "fit", "--config", "cli.yaml", "--trainer.logger", "false"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")  # Lightning's own calls
    theirs = LightningCLI(save_config_callback=None)
    metrics = read_result(folder)["metrics"]
    for name, value in theirs.trainer.callback_metrics.items():
        assert metrics[name] == pytest.approx(value.item(), rel=1e-6)
    (optimizer,) = theirs.trainer.optimizers
    assert optimizer.param_groups[0]["lr"] < 0.05  # the schedule acted


def test_it_may_have_a_data_module_of_the_users(fit):
    file = {
        "model": {"class_path": "a_users_module.Plain"},
        "data": {"class_path": "a_users_module.Loaders", "init_args": {"nodes": 30}},
    }
    file["model"]["init_args"] = {"in_channels": 30, "num_classes": 3}
    Path("cli.yaml").write_text(yaml.safe_dump(file))
    fit("-c", "cli.yaml", "--trainer.max_epochs", "3", "--run.name", "mine")
    (folder,) = Path("runs/mine").iterdir()
    own = importlib.import_module("a_users_module")
    L.seed_everything(0)
    model, data = own.Plain(30, 3), own.Loaders(30)
    trainer = L.Trainer(max_epochs=3, logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.fit(model, data)
    result = read_result(folder)
    expected = trainer.callback_metrics["train/loss"].item()
    assert result["metrics"]["train/loss"] == pytest.approx(expected, rel=1e-6)
    assert result["data_sha256"] is None  # equal runs may have other data: no test of them
    assert yaml.safe_load((folder / "config.yaml").read_text())["data"] == file["data"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", *WORDS, "--model.hiden", "3"], "module 'Mine' has no option 'hiden'. Did you"),
        (["fit", "--model", "a_users_module.Mien"], "Did you mean 'a_users_module.Mine'?"),
        (["fit", "--model", "a_users_module.Idle"], "needs an optimizer: --optimizer Adam."),
        (["fit", *WORDS, "--lr_scheduler", "ConstantLR"], "lr_scheduler needs an opt"),
        (["fit", "--model", "a_users_module.Other"], "a_users_module.Other is no LightningModule"),
        (["fit", "--data", "a_users_module.Loaders"], "a Loaders is not a graph: give a Data"),
        (["predict", *WORDS], "predict takes no class as --model"),
        (["fit", *WORDS, "--ckpt_path", "last"], "there is no file 'last'. A module of your own"),
        (["fit", "--optimizer.lr", "fast"], "optimizer.lr must be a number"),
        (["fit", *WORDS, "--optimizer.lr", "1"], "name the optimizer before its options lr, as"),
    ],
)
def test_what_does_not_fit_is_refused(fit, refused, words, message):
    assert message in refused(*words)


def test_what_its_file_cannot_import_is_said_and_not_taken_for_a_missing_file(fit, refused):
    Path("a_broken_module.py").write_text("import no_such_package\n")
    answer = refused("fit", "--model", "a_broken_module.Mine")
    assert "your code raises ModuleNotFoundError: No module named 'no_such_package'" in answer
    assert "a_broken_module.py:1" in answer
    assert "cannot be imported as a class" in refused("fit", "--model", "no_such_file.Mine")


def test_it_is_swept_as_it_is_trained_alone(fit, done, refused):
    base = {"model": {"class_path": "a_users_module.Plain"}, "trainer": {"max_epochs": 2}}
    base["model"]["init_args"] = {"in_channels": 20, "num_classes": 3}
    base |= {"data": {"class_path": "a_users_module.Loaders"}, "seed_everything": 1}
    Path("base.yaml").write_text(yaml.safe_dump(base))
    grid = {"base": "base.yaml", "axes": {"model.hidden": [4, 8]}, "seeds": 2}
    Path("grid.yaml").write_text(yaml.safe_dump(grid))
    done("sweep", "grid.yaml", "--workers", "1")
    fit("-c", "base.yaml", "--model.hidden", "4", "--run.name", "alone")
    (alone,) = Path("runs/alone").iterdir()
    (swept,) = Path("runs/grid/hidden=4").glob("seed_1-*")
    expected = read_result(alone)["metrics"]["train/loss"]
    assert read_result(swept)["metrics"]["train/loss"] == expected
    grid["search"] = {"options": {"model.lr": {"low": 0.1, "high": 0.2}}, "trials": 2}
    Path("search.yaml").write_text(yaml.safe_dump(grid))
    assert "needs the metrics of a NodeClassifier" in refused("sweep", "search.yaml")


def test_a_run_of_it_gives_its_weights_and_is_no_model_of_ours(fit, gnn_depth):
    words = [*WORDS, "--trainer.max_epochs", "1"]
    fit(*words, "--run.name", "mine")
    fit(*words, "--init_from", "runs/mine")
    (folder,) = Path("runs/mine").iterdir()
    answer = gnn_depth("validate", *WORDS, "--ckpt_path", "runs/mine").out
    assert "checkpoints/best.ckpt" in answer
    assert f"test/acc    {read_result(folder)['metrics']['test/acc']:.4f}" in answer
    assert "`test_step()`" in gnn_depth("test", *WORDS, "--ckpt_path", "runs/mine").err
    assert "load it with CLASS.load_from_checkpoint" in gnn_depth("range", "runs/mine").err


def test_a_config_that_lightning_cli_prints_needs_the_name_of_its_data(gnn_depth):
    Path("printed.yaml").write_text("""
seed_everything: true
trainer: {log_every_n_steps: null, num_sanity_val_steps: null}
model: {in_channels: 1433, num_classes: 7, default_task: multiclass, edge_channels: 0, pool: mean}
data: {name: CiteSeer, normalize_features: false}
optimizer: null
ckpt_path: null
weights_only: null
""")
    answer = gnn_depth("fit", "-c", "printed.yaml", "--data", "Planetoid", "--print_config")
    options = answer.config["data"]["init_args"]
    assert (options["name"], options["normalize_features"]) == ("CiteSeer", False)
    trainer = answer.config["trainer"]
    assert (trainer["log_every_n_steps"], trainer["num_sanity_val_steps"]) == (1, 0)
    assert "model.num_classes is left out: the data determines it" in answer.err
    assert "--data Planetoid" in gnn_depth("fit", "-c", "printed.yaml").err


def test_optimizer_and_schedule_have_the_names_of_lightning_cli_too(gnn_depth):
    Path("cli.yaml").write_text("""
model:
  class_path: gnn_depth.training.NodeClassifier
  init_args: {num_layers: 6}
lr_scheduler: {class_path: CosineAnnealingLR}
""")
    words = ["-c", "cli.yaml", "--optimizer", "SGD", "--optimizer.lr", "0.3", "--print_config"]
    model = gnn_depth("fit", *words).config["model"]
    assert model["optimizer"]["class_path"] == "torch.optim.SGD"
    assert model["optimizer"]["init_args"]["lr"] == 0.3
    assert model["scheduler"]["init_args"]["T_max"] == 200


def test_its_data_is_shared_among_processes_unless_asked_otherwise(gnn_depth, fit):
    words = ["fit", "--model", "a_users_module.Plain", "--data", "a_users_module.Loaders"]
    words += ["--model.in_channels", "20", "--model.num_classes", "3", "--print_config"]
    option = "use_distributed_sampler"
    assert gnn_depth(*words).config["trainer"][option] is True
    assert gnn_depth(*words, f"--trainer.{option}", "false").config["trainer"][option] is False
    assert gnn_depth("fit", *WORDS, "--print_config").config["trainer"][option] is False  # ours


def test_its_help_shows_its_options_and_nothing_of_another_class(gnn_depth, fit):
    for words in (
        ["--model", "a_users_module.Mine", "--model.help"],
        ["--model.help", "a_users_module.Mine"],
    ):
        assert "--model.hidden = 8" in gnn_depth("fit", *words).out
    text = gnn_depth("fit", "--model", "a_users_module.Mine", "--help").out
    assert "Optimizer of all parameters, in place of configure_optimizers." in text
