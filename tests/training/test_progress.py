import io
import re
import sys

import pytest

from gnn_depth.training.loggers import EpochProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def fit(make_trainer, tiny, model):
    def run(epochs):
        make_trainer(epochs, callbacks=[EpochProgress()], enable_progress_bar=True).fit(model, datamodule=tiny)

    return run


def test_a_log_gets_a_line_every_tenth_of_the_epochs(fit, capsys):
    fit(20)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch")]
    assert [line.split(":")[0] for line in lines] == [f"epoch {n}/20" for n in range(2, 21, 2)]
    assert all(re.search(r"train/loss \d\.\d{4}, val/loss .*, val/acc .*, test/acc \d", line) for line in lines)


def test_a_short_run_gets_a_line_an_epoch(fit, capsys):
    fit(3)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("epoch")] == [
        "epoch 1/3",
        "epoch 2/3",
        "epoch 3/3",
    ]


def test_a_terminal_gets_one_bar_over_all_epochs(fit, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fit(5)
    assert "5/5" in terminal.getvalue()
    assert "epoch 5/5" not in terminal.getvalue()
