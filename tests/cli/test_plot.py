"""``gnn-depth plot``: the words, the file, and what is refused before anything is drawn."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.plot import main
from gnn_depth.measurements import Measurement
from gnn_depth.reports.load import ReportError
from tests.reports.made import balance, make_run, similarity


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "runs"
    for norm in ("gat", "lip"):
        for depth in (3, 5):
            for seed in range(2):
                measures: list[Measurement] = [
                    similarity("gradients", seed, depth=depth),
                    similarity("hidden", seed, depth=depth),
                    balance(seed, depth=depth),
                ]
                curves = {"val/acc": [0.1, 0.2, 0.3 + seed / 10], "val/loss": [3.0, 2.0, 1.0]}
                make_run(root, {"model.norm": norm, "model.num_layers": depth}, seed, 0.5, "finished", curves, measures)
    return root


@pytest.fixture
def refused(runs: Path, tmp_path: Path) -> Callable[..., str]:
    """``refused("depth", ...)``: the message that answers a wrong command line, which leaves no file."""

    def ask(kind: str, *words: str, output: str = "figure.png") -> str:
        before = set(tmp_path.iterdir())
        with pytest.raises((UsageError, ReportError)) as error:
            main([kind, str(runs), *words, "--output", str(tmp_path / output)])
        assert set(tmp_path.iterdir()) == before
        return str(error.value)

    return ask


@pytest.mark.parametrize(
    "words",
    [
        "depth --x model.num_layers --line norm --spread ci --log x y --size 4 3 --xlabel L --caption None",
        "heatmap --measure gradients",
        "layers --measure gradients --panel norm",
        "history --measure balance --layers 1 3 --where norm=gat",
        "convergence --tag val/loss --panel num_layers",
        "scatter --measure hidden gradients --line norm --at mean mean",
    ],
)
def test_every_kind_is_written_as_a_picture_and_as_a_page(runs, tmp_path, capsys, words):
    kind, *options = words.split()
    for suffix in (".png", ".html"):
        output = tmp_path / f"figure{suffix}"
        assert main([kind, str(runs), *options, "--output", str(output), "--title", "T"]) == 0
        assert output.stat().st_size > 5000
        assert str(output) in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"figure.png", "figure.html"}


def test_where_chooses_runs_and_the_caption_is_printed(runs, tmp_path, capsys):
    main(["depth", str(runs), "--where", "norm=lip", "num_layers=3,5", "--output", str(tmp_path / "a.html")])
    assert "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}2." in capsys.readouterr().out
    text = (tmp_path / "a.html").read_text()
    assert "model.norm=lip" in text
    assert "model.norm=gat" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("heatmp", "'heatmp'. Did you mean 'heatmap'?"),
        ("depth --x nm_layers", "'nm_layers'. Did you mean"),
        ("depth --metric test_ac_at_best_val", "'test_ac_at_best_val'. Did you mean 'test_acc_at_best_val'?"),
        ("depth --measure gradients", "'measure'. Accepted: x, line, panel, metric, spread."),
        ("depth --line --where num_layers=3", "model.norm (gat, lip): draw a line for each with --line model.norm,"),
        ("scatter", "--measure: balance, gradients, hidden."),
        ("heatmap --measure gradient", "'gradient'. Did you mean 'gradients'?"),
        ("convergence --tag val/ac", "'val/ac'. Did you mean 'val/acc'?"),
        ("history --measure balance --layers 9", "layer 9 was not measured"),
        ("depth --size 4", "--size: expected 2"),
        ("depth --pannel norm", "'--pannel'. Did you mean '--panel'?"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(refused, words, message):
    assert message in refused(*words.split())


def test_the_output_is_checked_before_anything_is_read(refused, tmp_path):
    assert "'.svg'. Available: .png, .pdf, .html." in refused("depth", output="figure.svg")
    assert "there is no folder" in refused("depth", output="nowhere/figure.png")
    (tmp_path / "mine.png").write_text("mine")
    assert "the file exists" in refused("depth", output="mine.png")
    assert (tmp_path / "mine.png").read_text() == "mine"


def test_damaged_curves_are_warned_of_in_one_line(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    copy = shutil.copytree(runs, tmp_path / "runs")
    path = min(copy.rglob("metrics.csv"))
    path.write_bytes(b"\xff\xfe\x00\n")
    assert main(["convergence", str(copy), "--output", str(tmp_path / "figure.html")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: skipped '{path}'")
