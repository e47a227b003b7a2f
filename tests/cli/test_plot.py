"""``gnn-depth plot``: the words, the file, and what is refused before anything is drawn."""

from pathlib import Path

import pytest

from gnn_depth.cli import main
from tests.reports.made import balance, make_run, similarity


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("made") / "runs"
    for norm in ("gat", "lip"):
        for depth in (3, 5):
            for seed in range(2):
                both = [similarity(name, seed, depth=depth) for name in ("gradients", "hidden")]
                axes = {"model.norm": norm, "model.num_layers": depth}
                make_run(root, axes, seed, measures=[*both, balance(seed, depth=depth)])
    return root


@pytest.mark.parametrize(
    "words",
    [
        "depth --x model.num_layers --line norm --spread ci",
        "heatmap --measure gradients --where norm=gat num_layers=3",
        "layers --measure gradients --panel norm",
        "history --measure balance --layers 1 3 --where norm=gat",
        "scatter --measure hidden gradients --line norm",
    ],
)
def test_every_kind_is_drawn_into_a_file_and_its_caption_printed(runs, tmp_path, capsys, words):
    kind, *options = words.split()
    output = tmp_path / "figure.png"
    words = ["plot", kind, str(runs), *options, "--output", str(output), "--title", "T"]
    assert main(words) == 0
    assert output.stat().st_size > 5000
    path, caption = capsys.readouterr().out.splitlines()
    assert path == str(output)
    assert "n=" in caption or kind == "scatter"
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("heatmp", "'heatmp'. Did you mean 'heatmap'?"),
        ("depth --x nm_layers", "'nm_layers'. Did you mean"),
        ("depth --measure gradients", "unknown option of figure 'depth' 'measure'"),
        (
            "depth --line --where num_layers=3",
            "model.norm (gat, lip): tell them apart with --line or --panel model.norm,",
        ),
        ("heatmap", "name a measure: --measure NAME. Available: balance, gradients, hidden."),
        ("scatter", "name a measure: --measure NAME."),
        ("scatter --measure hidden --metric acc", "unknown metric 'acc'"),
        ("history --measure balance --layers 9", "unknown layer '9'"),
        ("depth --pannel norm", "'--pannel'. Did you mean '--panel'?"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(refused, runs, words, message):
    kind, *options = words.split()
    assert message in refused("plot", kind, str(runs), *options, "--output", "figure.png")
    assert list(Path().iterdir()) == []
