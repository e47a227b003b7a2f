"""``gnn-depth plot``: the words, the file, and what is refused before anything is drawn."""

from pathlib import Path

import pytest

from gnn_depth.cli.plot import main
from gnn_depth.measurements import MeasureValues
from tests.reports.made import balance, make_run, similarity


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "runs"
    for norm in ("gat", "lip"):
        for depth in (3, 5):
            for seed in range(2):
                measures: list[MeasureValues] = [
                    similarity("gradients", seed, depth=depth),
                    similarity("hidden", seed, depth=depth),
                    balance(seed, depth=depth),
                ]
                curves = {"val/acc": [0.1, 0.2, 0.3 + seed / 10], "val/loss": [3.0, 2.0, 1.0]}
                make_run(
                    root,
                    {"model.norm": norm, "model.num_layers": depth},
                    seed,
                    0.5,
                    "finished",
                    curves,
                    measures,
                )
    return root


@pytest.mark.parametrize(
    "words",
    [
        "depth --x model.num_layers --line norm --spread ci --log x y --size 4 3 --xlabel L "
        "--caption None",
        "heatmap --measure gradients --where norm=gat num_layers=3",
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
    output = str(tmp_path / "a.html")
    where = ["--where", "norm=lip", "num_layers=3", "--line", "norm"]
    main(["convergence", str(runs), *where, "--output", output])
    caption = capsys.readouterr().out.splitlines()[1]
    assert "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}2." in caption
    page = (tmp_path / "a.html").read_text()
    assert caption in page
    assert "lip" in page
    assert "gat" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("heatmp", "'heatmp'. Did you mean 'heatmap'?"),
        ("depth --x nm_layers", "'nm_layers'. Did you mean"),
        ("depth --measure gradients", "'measure'. Accepted: x, line, panel, metric, spread."),
        (
            "depth --line --where num_layers=3",
            "model.norm (gat, lip): draw a line for each with --line model.norm,",
        ),
        ("scatter", "--measure: balance, gradients, hidden."),
        ("history --measure balance --layers 9", "layer 9 was not measured"),
        ("depth --pannel norm", "'--pannel'. Did you mean '--panel'?"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(refused, runs, words, message):
    kind, *options = words.split()
    assert message in refused("plot", kind, str(runs), *options, "--output", "figure.png")
    assert list(Path().iterdir()) == []


def test_codes_for_terminals_in_the_name_of_a_measure_reach_no_terminal(tmp_path, capsys):
    folder = make_run(tmp_path / "runs", {"depth": 3}, measures=[similarity("gradients")])
    known = folder / "measures" / "gradients.npz"
    known.with_name("\x1b[31mred.npz").write_bytes(known.read_bytes())
    main(["heatmap", str(tmp_path / "runs"), "--output", str(tmp_path / "a.png")])
    answer = capsys.readouterr()
    assert "\x1b" not in answer.out + answer.err
    assert (tmp_path / "a.png").is_file()
