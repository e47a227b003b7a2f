"""What a checkpoint holds stands in for what is not said, and what is damaged is not used."""

import fcntl
import resource
import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch

from gnn_depth import registry
from gnn_depth.data import SyntheticCitation
from gnn_depth.reports import read_runs
from gnn_depth.runs import read_result, write_result
from gnn_depth.training.finished import load
from tests.cli.conftest import DEEP, QUIET, SHORT

TWO, FOUR = ["--trainer.max_epochs", "2"], ["--trainer.max_epochs", "4"]
CPU = [*QUIET, "--trainer.accelerator", "cpu"]


@pytest.fixture
def folder(trained, gnn_depth):
    """A run below the working directory."""
    return Path(shutil.copytree(trained, Path("runs/first") / trained.name))


def write_graph(folder: Path, last: int = 1) -> list[str]:
    """A small graph in a file, and what names it; of one node the class is given."""
    folder.mkdir(exist_ok=True)
    path, node = folder / "graph.npz", np.arange(10)
    edges = [node, (node + 1) % 10]
    np.savez(path, x=node[:, None] / 7, edge_index=edges, y=[*(node[1:] % 2), last])
    return ["--data", "UserGraph", "--data.path", str(path)]


def test_a_training_goes_on_with_data_that_was_moved_but_not_with_other_data(
    refused, done, gnn_depth
):
    words = ["fit", *CPU, "--model.compile", "off", "--run.name", "mine"]
    done(*words, *TWO, *write_graph(Path("here")))
    words += [*FOUR, "--ckpt_path", str(next(Path("runs/mine").iterdir()))]
    answer = gnn_depth(*words, *write_graph(Path("there")))
    assert (answer.code, "warning" in answer.err) == (0, False), answer.err
    assert "not with other data" in refused(*words, *write_graph(Path("elsewhere"), last=0))
    for auto in ([], ["--ckpt_path", "auto"]):
        assert "files that were changed" in refused(
            *words, *write_graph(Path("here"), last=0), *auto
        )
    assert len(list(Path("runs/mine").iterdir())) == 2


def test_generated_data_that_this_machine_rounds_otherwise_is_a_warning(done, monkeypatch):
    words = ["fit", *CPU, "--model.compile", "off", "--run.name", "made"]
    done(*words, *TWO)
    exact = SyntheticCitation.checksum.fget
    monkeypatch.setattr(SyntheticCitation, "checksum", property(lambda data: exact(data)[::-1]))
    answer = done(*words, *FOUR, "--ckpt_path", "last")
    assert "this machine rounds otherwise" in answer.err


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with ZipFile(path) as archive:  # between its files are gaps, where a bit is nothing to anybody
        largest = max(archive.infolist(), key=lambda file: file.file_size)
        written = archive.read(largest)
    content[content.index(written) + len(written) // 2] ^= 1
    path.write_bytes(content)


def test_instead_of_a_truncated_checkpoint_the_previous_one_is_used(refused, done, gnn_depth):
    words = ["fit", *SHORT, *FOUR, "--run.save_every_epochs", "3"]
    done(*words, "--run.name", "twice")
    (run,) = Path("runs/twice").iterdir()
    last, before = run / "checkpoints/last.ckpt", run / "checkpoints/last-1.ckpt"
    words.append("--ckpt_path")
    assert "last.ckpt is already complete: 4 epochs" in gnn_depth(*words, str(run)).out
    last.write_bytes(last.read_bytes()[:-1000])
    assert "finished after 4 epochs" in gnn_depth(*words, str(before)).out
    answer = gnn_depth(*words, str(run), "--trainer.max_epochs", "3")
    assert f"'{last}' cannot be used" in answer.err
    # A folder is its newest checkpoint that is whole.
    assert "last-1.ckpt is already complete: 3 epochs" in answer.out
    flip(before)
    assert "no checkpoint in" in refused(*words, str(run))
    assert gnn_depth("test", *CPU, "--ckpt_path", str(run)).code == 0  # its best one is whole


def test_last_is_the_newest_run_of_this_name_or_an_error(refused, done, gnn_depth):
    words = ["fit", *SHORT, "--run.name", "mine", "--ckpt_path"]
    assert "no checkpoint in 'runs/mine' can be used" in refused(*words, "last", *TWO)
    assert not Path("runs").exists()
    assert "finished after 2 epochs" in gnn_depth(*words, "auto", *TWO).out
    assert "finished after 4 epochs" in gnn_depth(*words, "last", *FOUR).out
    runs = set(Path("runs/mine").iterdir())
    assert "already complete: 4 epochs" in gnn_depth(*words, "last", *FOUR).out
    assert set(Path("runs/mine").iterdir()) == runs  # a run that does nothing leaves no folder
    newest = max(Path("runs/mine").iterdir())
    best = read_result(newest)["best_epoch"] + 1
    answer = done("test", *SHORT, "--run.name", "mine", "--ckpt_path", "last")
    assert f"best.ckpt, of epoch {best}\n" in answer.err
    answer = gnn_depth("test", "--ckpt_path", "runs/mine").err
    assert f"choose one, the newest first:\n  {newest}\n" in answer
    assert gnn_depth("test", "--ckpt_path", "lst").err.endswith("Did you mean 'last'?\n")
    answer = gnn_depth("test", *SHORT, "--run.name", "mine", "--ckpt_path", "auto")
    assert "--ckpt_path auto is for fit" in answer.err


def newest_result(name: str) -> dict:
    """Of the run of this name that was trained last."""
    return read_result(max(Path("runs", name).iterdir(), key=lambda run: run.stat().st_ctime))


def test_auto_resumes_the_run_with_the_same_model_data_and_seed(
    gnn_depth,
):
    words = ["fit", *SHORT, "--ckpt_path", "auto", "--run.name", "mine"]
    for seed in ("0", "1"):
        assert "finished after 2 epochs" in gnn_depth(*words, *TWO, "--seed_everything", seed).out
    assert "already complete: 2 epochs" in gnn_depth(*words, *TWO, "--seed_everything", "0").out
    assert "finished after 2 epochs" in gnn_depth(*words, *TWO, "--model.dropout", "0.5").out
    assert "finished after 4 epochs" in gnn_depth(*words, *FOUR, "--seed_everything", "1").out
    result = newest_result("mine")
    assert (result["seed"], result["steps"]) == (1, 4)
    assert "resumed_from" in result
    assert "already complete: 4 epochs" in gnn_depth(*words, *FOUR, "--seed_everything", "1").out


PLUGIN = """
from gnn_depth import FeatureNorm, register

@register("norm", "own")
class Own(FeatureNorm):
    def forward(self, x, graph):
        return 2 * x
"""


@pytest.mark.usefixtures("own_registry")
def test_auto_passes_over_a_run_with_other_code_or_precision(
    done,
    gnn_depth,
):
    Path("plug_own.py").write_text(PLUGIN)
    words = ["fit", *SHORT, "--run.name", "mine", "--plugins", "plug_own.py", "--model.norm", "own"]
    done(*words, *TWO)
    answer = gnn_depth(*words, *FOUR, "--ckpt_path", "auto")
    assert (answer.code, answer.err.count("warning")) == (0, 0)
    assert newest_result("mine")["resumed_from"]
    for more, edited in ((["--trainer.precision", "64-true"], PLUGIN), ([], PLUGIN + "#")):
        Path("plug_own.py").write_text(edited)
        del sys.modules["plug_own"], registry._TABLE["norm"]["own"]
        assert "finished" in done(*words, *TWO, *more, "--ckpt_path", "auto").out
        assert "resumed_from" not in newest_result("mine")


def test_auto_does_not_train_what_a_living_process_trains(refused, folder, gnn_depth):
    words = ["fit", *SHORT, *DEEP, "--data.seed", "3", *FOUR]
    words += ["--run.name", "first", "--ckpt_path", "auto"]
    write_result(folder, read_result(folder) | {"status": "running"})
    with (folder / ".lock").open("w") as process:
        fcntl.flock(process, fcntl.LOCK_EX)
        assert str(folder) in refused(*words)
        assert read_runs("runs")["status"].tolist() == ["running"]
    assert read_runs("runs")["status"].tolist() == ["died"]
    assert "finished after 4 epochs" in gnn_depth(*words).out
    for run in Path("runs/first").iterdir():
        (run / "config.yaml").write_text("model: [")
    answer = gnn_depth(*words, "--trainer.max_epochs", "1")
    assert answer.code == 0
    assert "resumed_from" not in answer.out  # auto passes over it


def test_a_model_that_has_diverged_is_used_on_request_only(refused, done, gnn_depth):
    assert gnn_depth("fit", *SHORT, "--model.optimizer.lr", "1e30").code == 1
    (last,) = Path("runs").glob("*/*/checkpoints/last.ckpt")
    content = torch.load(last, weights_only=True)
    content["state_dict"]["stack.encoder.weight"][0] = torch.nan
    torch.save(content, "broken.ckpt")
    for command, path, said in (
        ("test", "broken.ckpt", "stack.encoder.weight has NaN"),
        ("validate", str(last), "diverged: later the validation loss"),
    ):
        words = [command, *SHORT[:-2], "--ckpt_path", path]
        assert said in refused(*words)
        done(*words, "--force")


def test_a_deeper_stack_begins_with_the_weights_of_a_shallower_one(
    done, trained, gnn_depth, caplog
):
    words = ["fit", *SHORT, *DEEP, "--data.seed", "3", "--trainer.max_epochs", "1"]
    words += ["--model.num_layers", "16", "--run.name", "fine"]
    done(*words, "--init_from", str(trained))
    assert "These begin anew: stack.blocks.2.layer" in caplog.text
    assert "do not fit" not in caplog.text
    fine = load("runs/fine")
    assert fine.config["init_from"] == str(trained)
    assert "resumed_from" not in fine.result
    started = gnn_depth(*words, "--ckpt_path", "auto")
    assert "auto: no run" in started.err  # a run that began elsewhere is another run
    identities = {read_result(run)["identity"] for run in Path("runs/fine").iterdir()}
    assert len(identities) == 2
    refused = gnn_depth(*words, "--init_from", "nowhere")
    assert (refused.code, "'nowhere' does not exist." in refused.err) == (2, True)


def test_an_export_that_the_disk_has_no_room_for_is_an_error_and_no_abort(trained, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    run = load(trained)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            run.export(tmp_path / "model.pt2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
