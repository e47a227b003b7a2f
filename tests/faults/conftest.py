"""What the tests of faults share: the command line on small data, callbacks that do harm, and a
disk to fill."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import QUIET, SMALL, Answer, gnn_depth  # noqa: F401  (a fixture)

OPTIONS = "--trainer.accelerator=cpu --model.hidden_channels=8 --model.dropout=0.5 --run.name=run"
FIT = ["fit", *QUIET, *OPTIONS.split(), "--model.compile=off"]

PLUGIN = '''
import shutil
import signal
from pathlib import Path

import lightning as L


class Harm(L.Callback):
    def __init__(self, moment: str, epoch: int = 2):
        self.moment, self.epoch, self.done = moment, epoch, False
        setattr(self, moment, self._come)

    def _come(self, trainer, *rest, **named):
        if not self.done and trainer.current_epoch == self.epoch:
            self.done = True
            self.do(trainer)


class Send(Harm):
    def __init__(self, number: int, moment: str = "on_before_optimizer_step", epoch: int = 2, times: int = 1):
        super().__init__(moment, epoch)
        self.number, self.times = number, times

    def do(self, trainer):
        for _ in range(self.times):
            signal.raise_signal(self.number)


class SendWhileSaving(Send):
    """A signal, and three more while what it causes to be saved is saved."""

    def on_save_checkpoint(self, trainer, module, checkpoint):
        for _ in range(3):
            self.do(trainer)


class Fill(Harm):
    def __init__(self, folder: str, left: int, epoch: int = 2):
        super().__init__("on_train_epoch_start", epoch)
        self.folder, self.left = Path(folder), left

    def do(self, trainer):
        (self.folder / "filler").write_bytes(b"x" * (shutil.disk_usage(self.folder).free - self.left))
'''


@pytest.fixture
def harm(tmp_path, monkeypatch):
    """``harm("Send", number=15)``: the words that add a callback which does harm in the third
    epoch."""
    (tmp_path / "plug_harm.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "plug_harm", raising=False)

    def words(name: str, **options: Any) -> list[str]:
        given = [f"--trainer.callbacks.{option}={value}" for option, value in options.items()]
        return ["--plugins", "plug_harm.py", "--trainer.callbacks", f"plug_harm.{name}", *given]

    return words


@pytest.fixture
def fit(gnn_depth):  # noqa: F811
    """``fit(...)``: the answer to a fit of four epochs, and the folder of its run."""

    def run(*words: str, root: str = "runs", data: Sequence[str] = SMALL) -> tuple[Answer, Path]:
        before = set(Path(root).glob("run/*"))
        answer = gnn_depth(*FIT, *data, "--trainer.max_epochs", "4", "--run.root", root, *words)
        new = set(Path(root).glob("run/*")) - before
        return answer, new.pop() if new else Path("no folder")

    return run


@pytest.fixture
def mounted(tmp_path):
    """``mounted("size=1m")``: a small disk of its own; the test is skipped where nothing may be
    mounted."""
    folders: list[Path] = []

    def mount(options: str) -> Path:
        if sys.platform != "linux" or not shutil.which("mount"):
            pytest.skip("mounting a small disk needs Linux")
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounting a small disk is not permitted here: {done.stderr.strip()}")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
