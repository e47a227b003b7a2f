"""Configs and checkpoints from elsewhere: what they name is not imported unless it is known, or the
user says so."""

import ast
import sys
from pathlib import Path

import pytest
import torch

from gnn_depth.cli import trust
from gnn_depth.config_file import read_config
from tests.cli.conftest import SHORT

ROOT = Path(__file__).parents[2]
# A module that leaves a mark when it is imported.
EVIL = """
import pathlib
from lightning import Callback
pathlib.Path(__file__).with_name("mark").touch()
class Mark(Callback): ...
class Parameters(dict): ...
"""


@pytest.fixture
def mark(gnn_depth, tmp_path, monkeypatch):
    """A file that is there once the module `evil` has been imported."""
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "mark"
    sys.modules.pop("evil", None)


CODE = {
    "class path": "trainer:\n  callbacks:\n    - class_path: evil.Mark\n",
    "yaml in a text": 'trainer: {callbacks: "[{class_path: \\"ev\\\\x69l.Mark\\"}]"}\n',
    "no identifier": 'model: {norm: "evil.Mark!"}\n',
    "argument of a known class": "trainer: {callbacks: {class_path: LambdaCallback, init_args: {setup: evil.Mark}}}\n",
    "set in a text": 'trainer: {callbacks: "!!set {evil.Mark: null}"}\n',
    "plugin": "plugins: [evil.py]\n",
    "plugin that is added": "plugins+: [evil.py]\n",
    "function of a known package": "model: {optimizer: torch.optim.lr_scheduler.bisect}\n",
    "a transform that calls its argument": "data: {transforms: Compose}\n",
    "argument of a known transform": "data: {transforms: {class_path: torch_geometric.transforms.ToDevice, init_args: {device: evil.Mark}}}\n",
}


@pytest.mark.parametrize("text", CODE.values(), ids=CODE.keys())
def test_code_in_a_config_is_named_with_its_line_and_not_imported(refused, mark, text):
    Path("c.yaml").write_text(text)
    answer = refused("fit", "--config", "c.yaml", "--trusted-only")
    assert answer.removeprefix(f"{Path.cwd()}/").startswith(("c.yaml:1: ", "c.yaml:3: "))
    named = ("evil.Mark", "'evil.py'", "bisect", "'torch_geometric.transforms.", "'Compose'")
    assert any(word in answer for word in named)
    assert not mark.exists()


@pytest.mark.parametrize(
    "words",
    ["--config c.yaml", "--trusted-only --trainer.callbacks evil.Mark --plugins evil.py"],
)
def test_a_user_may_name_any_class(done, mark, words):
    Path("c.yaml").write_text(CODE["class path"])
    done("fit", *words.split(), "--print_config")
    assert mark.exists()


def test_a_config_names_no_other_file_to_read_and_the_option_is_true_or_false(refused, mark):
    Path("inner.yaml").write_text("callbacks: [{class_path: evil.Mark}]\n")
    Path("c.yaml").write_text("trainer: inner.yaml\n")
    assert "trainer has options" in refused("fit", "--config", "c.yaml")
    assert not mark.exists()
    assert "true or false, not 'maybe'" in refused("fit", "--trusted-only=maybe")


def test_known_classes_and_registered_names_are_accepted(done):
    Path("c.yaml").write_text(
        "model:\n  norm: {name: pair, scale: 2}\n  init: kaiming\n  optimizer: "
        "torch.optim.SGD\n"
        "  scheduler: {class_path: torch.optim.lr_scheduler.StepLR, init_args: {step_size: 3}}\n"
        "trainer:\n  callbacks:\n    - class_path: EarlyStopping\n      init_args: {monitor: "
        "val/loss}\n"
        "    - class_path: lightning.pytorch.callbacks.ModelCheckpoint\n      init_args: "
        "{filename: 'best.{epoch}'}\n"
        "    - class_path: gnn_depth.diagnostics.GradientNorms\nrun: {name: pair.two}\nplugins: "
        "[]\n"
    )
    done("fit", "--config", "c.yaml", "--trusted-only", "--print_config")


def test_every_shipped_config_is_accepted():
    configs = [read_config(str(path), labels=True) for path in (ROOT / "configs").rglob("*.yaml")]
    assert len(configs) > 50
    trust.refuse_unknown(configs)


@pytest.mark.parametrize(
    "value",
    ["!!set {a: null}", "!!python/object/apply:os.mkdir [mark]"],
)
def test_a_tag_is_refused_and_makes_no_object(refused, mark, value):
    Path("c.yaml").write_text(f"seed_everything: 1\ntrainer: {{callbacks: {value}}}\n")
    said = f"c.yaml:2: the tag {value.split()[0]} "
    assert refused("fit", "--config", "c.yaml").startswith(said)
    assert not mark.exists()


GRIDS = {
    "axis": "axes: {model.norm: [none, evil.Mark]}\n",
    "label": "axes: {method: {a: {}, b: {trainer: {callbacks: {class_path: evil.Mark}}}}}\n",
    "plugins": "axes: {method: {a: {}, b: {plugins: evil.py}}}\n",
    "configs in place of files": "base: ['{plugins: evil.py}', '{model: {}}']\naxes: {model.num_layers: [2, 3]}\n",
    "base": "base: base.yaml\naxes: {model.num_layers: [2, 3]}\n",
}


@pytest.mark.parametrize(
    ("command", "text"),
    [("reproduce", GRIDS["axis"]), *(("sweep", text) for text in GRIDS.values())],
)
def test_a_grid_is_a_config_too_and_reproduce_trusts_no_other(refused, mark, command, text):
    Path("parts").mkdir()
    Path("parts/base.yaml").write_text("seed_everything: 1\nmodel: {norm: evil.Mark}\n")
    Path("parts/grid.yaml").write_text(text)
    axis = "method" if "method" in text else "model.num_layers"
    Path("item.yaml").write_text(
        f"title: T\nsource: S\ngrid: parts/grid.yaml\ntable: {{rows: [{axis}]}}\n"
    )
    words = {"sweep": "parts/grid.yaml --trusted-only --dry-run", "reproduce": "item.yaml"}
    answer = refused(command, *words[command].split())
    assert answer.startswith(("parts/grid.yaml:", "parts/base.yaml:2:")), answer
    assert not mark.exists()


def test_a_checkpoint_imports_nothing_that_is_not_known_or_named(refused, done, gnn_depth, mark):
    done("fit", *SHORT, "--trainer.max_epochs", "1")
    (best,) = Path("runs").glob("*/*/checkpoints/best.ckpt")
    content = torch.load(best, weights_only=True)
    content["hyper_parameters"]["optimizer"] = {"class_path": "evil.Mark", "init_args": {}}
    torch.save(content, "else.ckpt")
    words = ["test", "--ckpt_path", "else.ckpt", *SHORT[-6:-2]]
    assert "else.ckpt:1: model.optimizer.class_path: 'evil.Mark' is neither" in refused(*words)
    assert not mark.exists()
    assert (
        "is neither" not in gnn_depth(*words, "--model.optimizer", "evil.Mark").err
    )  # the user's own word
    assert mark.exists()
    mark.unlink()
    sys.modules.pop("evil")
    assert "is neither" not in gnn_depth(*words, "--trusted-only", "false").err
    assert mark.exists()


# Ruff's rules on security, which pyproject.toml selects, know pickle, YAML, eval and shells.
LOADERS = {
    "torch.load": "weights_only=True",
    "load_from_checkpoint": "weights_only=True",
    "np.load": "allow_pickle=False",
}


def test_no_loader_in_the_package_unpickles_what_could_run():
    seen = set()
    for path in (ROOT / "gnn_depth").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            for loader, option in LOADERS.items():
                # The caller of Lightning's own method chooses.
                if called.endswith(loader) and not called.startswith("super()"):
                    seen.add(loader)
                    assert option in ast.unparse(node), f"{path}:{node.lineno}"
    assert seen >= {"torch.load", "np.load"}
