"""Other precisions work, or are refused before there is a run."""

from pathlib import Path

import pytest

from gnn_depth.runs import read_result
from tests.cli.conftest import DEEP


@pytest.mark.parametrize("precision", ["64", "bf16-true"])
def test_a_run_in_another_precision_ends_with_finite_losses(fit, precision):
    answer, folder = fit(*DEEP, "--trainer.precision", precision, "--trainer.max_epochs", "2")
    assert answer.code == 0, answer.err
    result = read_result(folder)
    assert isinstance(result["metrics"]["train/loss"], float)
    assert result["status"] == "finished"


@pytest.mark.parametrize("precision", ["16-mixed", "16-true", "transformer-engine"])
def test_what_a_cpu_cannot_compute_is_refused_and_not_replaced(fit, precision):
    answer, _ = fit("--trainer.precision", precision)
    assert answer.code == 2
    assert not Path("runs").exists()
