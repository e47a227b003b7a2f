"""``gnn-depth table``."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.table import main
from gnn_depth.reports.load import ReportError

METRIC = "test_acc_at_best_val"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A sweep of two depths and two norms, three seeds each: ``runs`` in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for depth in (2, 10):
        for norm in ("lipschitz", "none"):
            for seed in range(3):
                folder = Path("runs", "grid", f"depth={depth},norm={norm}", f"seed_{seed}-00000000")
                folder.mkdir(parents=True)
                value = (0.8 if depth == 2 else 0.7) - (0.5 if (depth, norm) == (10, "none") else 0) + seed / 100
                result = {
                    "status": "finished",
                    "seed": seed,
                    "identity": str(folder),
                    "axes": {"model.num_layers": depth, "norm": norm},
                    "metrics": {METRIC: value, "val/loss": 1 - value},
                }
                (folder / "result.json").write_text(json.dumps(result))
    return "runs"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """``said("runs", ...)``: what the command prints."""

    def call(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def refused() -> Callable[..., str]:
    """``refused("runs", ...)``: the message that answers a wrong command line."""

    def call(*words: str) -> str:
        with pytest.raises((UsageError, ReportError)) as caught:
            main(list(words))
        return str(caught.value)

    return call


def fields(text: str) -> list[list[str]]:
    return [[field.strip() for field in line.split("  ") if field.strip()] for line in text.splitlines() if line]


def test_a_sweep_is_shown_by_its_axes_without_being_asked_how(runs: str, said: Callable):
    head, _, *lines = fields(said(runs))
    assert head == ["layers", "lipschitz", "none"]
    assert lines[:2] == [["2", "81.0 ± 1.0", "81.0 ± 1.0"], ["10", "71.0 ± 1.0", "21.0 ± 1.0"]]
    assert lines[2] == ["Test accuracy at best validation (%), mean ± standard deviation over 3 seeds;"]


def test_axes_metric_spread_and_runs_are_chosen(runs: str, said: Callable):
    words = ["--rows", "norm", "--columns", "num_layers", "--metric", "val/loss", "--spread", "ci"]
    head, _, *lines = fields(said(runs, *words, "--where", "norm=none,lipschitz", "num_layers=10"))
    assert head == ["norm", "10"]
    assert lines[:2] == [["none", "0.79 ± 0.02484"], ["lipschitz", "0.29 ± 0.02484"]]
    once = said(runs, "--where", "num_layers=2,10", "norm=none")
    assert said(runs, "--where", "num_layers=2", "--where", "norm=none", "num_layers=10") == once
    for path in Path(runs).rglob("result.json"):
        path.write_text(path.read_text().replace('"none"', '"a,b"'))
    assert "lipschitz" in said(runs, "--where", "norm=lipschitz,a,b", "--rows", "num_layers")
    assert "lipschitz" not in said(runs, "--where", "norm=a,b", "--rows", "num_layers")


def test_a_baseline_and_published_numbers_stand_below(runs: str, said: Callable):
    entry = "[{source: A, where: {norm: none}, over: num_layers, values: {2: 81, 10: 30}}]"
    Path("numbers.yaml").write_text(f"published: {entry}")
    text = said(runs, "--baseline", "none", "--test", "t", "--published", "numbers.yaml")
    assert "71.0 ± 1.0*" in text
    assert ["10", "+50.0, p < 0.0001"] in fields(text)
    assert ["2", "none", "81.0 ± 1.0", "81.0 [1]", "+0.0", "overlapping"] in fields(text)
    assert ["10", "none", "21.0 ± 1.0", "30.0 [1]", "-9.0", "outside"] in fields(text)


def test_a_file_has_the_format_of_its_suffix_and_is_not_written_twice(runs: str, said: Callable, refused: Callable):
    starts = {
        "txt": "layers",
        "md": "| layers",
        "tex": r"\begin{table}",
        "html": "<!DOCTYPE",
        "csv": "model.num_layers,",
    }
    for suffix, start in starts.items():
        file = Path(f"table.{suffix}")
        assert said(runs, "--output", str(file)) == f"{file}\n"
        text = file.read_text()
        assert text.startswith(start)
        assert "the file exists" in refused(runs, "--output", str(file))
        assert file.read_text() == text
    assert {path.name for path in Path().iterdir()} == {"runs", *(f"table.{suffix}" for suffix in starts)}
    said(runs, "--output", "table.parquet")
    assert len(pd.read_parquet("table.parquet")) == 12
    assert said(runs, "--format", "markdown").startswith("| layers | lipschitz | none |")
    assert len(said(runs, "--format", "csv").splitlines()) == 13


def test_a_damaged_result_is_warned_of_and_the_rest_shown(runs: str, capsys: pytest.CaptureFixture[str]):
    damaged = next(Path(runs).rglob("result.json"))
    damaged.write_text(damaged.read_text()[:20])
    assert main([runs]) == 0
    answer = capsys.readouterr()
    assert answer.err.startswith(f"warning: skipped '{damaged}' is truncated or damaged")
    assert "(n = 2)" not in answer.out
    assert "n = 2" in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing", "there is no folder 'missing'."),
        ("runs --rows num_layer", "'model.num_layers'?"),
        ("runs --rows norm --columns norm", "other axes than rows"),
        ("runs --rows num_layers --columns status", "--rows model.num_layers norm,"),
        ("runs --where norm", "not 'norm'"),
        ("runs --where norm=noen", "'norm' 'noen'. Did you mean 'none'?"),
        ("runs --metric test_acc_at_best", f"Did you mean '{METRIC}'?"),
        ("runs --baseline nnoe", "'nnoe'. Did you mean 'none'?"),
        ("runs --spread sdt", "'sdt'. Did you mean 'std'?"),
        ("runs --published missing.yaml", "'missing.yaml' cannot be read"),
        ("runs --output table.doc", "'.doc'. Available: .txt, .md, .tex, .html, .csv, .parquet."),
        ("runs --output no/table.md", "there is no folder 'no'"),
        ("runs --output table.md --format latex", ".tex"),
        ("runs --format parquet", "--output FILE.parquet"),
        ("runs --format csv --baseline none", "--baseline"),
        ("", "FOLDER"),
    ],
)
def test_what_does_not_exist_or_fit_is_answered(runs: str, refused: Callable, words: str, message: str):
    assert message in refused(*words.split())
