"""``gnn-depth table``."""

import csv
import re
from pathlib import Path

import pytest

from tests.reports.made import METRIC, make_run

MEANS = {(2, "lipschitz"): 0.8, (2, "none"): 0.8, (10, "lipschitz"): 0.7, (10, "none"): 0.2}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A sweep of two depths and two norms, three seeds each: ``made`` in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for (depth, norm), mean in MEANS.items():
        for seed in range(3):
            value = mean + seed / 100
            metrics = {METRIC: value, "val/loss": 1 - value}
            axes = {"model.num_layers": depth, "norm": norm}
            make_run(Path("made"), axes, seed, result={"metrics": metrics, "hparams": {}})
    return "made"


@pytest.fixture
def said(done):
    """``said("made", ...)``: what the command prints."""
    return lambda *words: done("table", *words).out


def fields(text):
    """The fields of all lines."""
    return [re.split("  +", line.strip()) for line in text.splitlines() if line]


def test_a_sweep_is_shown_by_its_axes_without_being_asked_how(runs, said):
    assert fields(said(runs))[:4] == [
        ["layers", "lipschitz", "none"],
        ["2", "81.0 ± 1.0", "81.0 ± 1.0"],
        ["10", "71.0 ± 1.0", "21.0 ± 1.0"],
        ["Test accuracy at best validation (%), mean ± standard deviation over seeds, n=3;"],
    ]


def test_a_cell_that_a_constant_prediction_nearly_reaches_is_named(tmp_path, said):
    for norm, constant in (("none", 0.195), ("pair", 0.185), ("layer", None)):  # None: not known
        result = {"metrics": {METRIC: 0.21}, "metric": "acc", "constant": constant, "hparams": {}}
        result["initial_averages"] = constant  # 5% are too few steps
        make_run(tmp_path, {"norm": norm}, 0, result=result)
    text = said(str(tmp_path))
    assert text.endswith("initial values: none; pair.\n")
    assert "\nAt most two points above the best constant prediction: none.\n" in text
    with_lower_ones = said(str(tmp_path), "--where", "norm=pair,layer")
    assert "constant" not in with_lower_ones


def test_axes_metric_spread_and_runs_are_chosen(runs, said):
    words = ["--rows", "norm", "--columns", "num_layers", "--metric", "val/loss", "--spread", "ci"]
    lines = fields(said(runs, *words, "--where", "norm=none,lipschitz", "num_layers=10"))
    assert lines[0] == ["norm", "10"]
    assert lines[1:3] == [["lipschitz", "0.29 ± 0.02484"], ["none", "0.79 ± 0.02484"]]
    once = said(runs, "--where", "num_layers=2,10", "norm=none")
    assert said(runs, "--where", "num_layers=2", "--where", "norm=none", "num_layers=10") == once


def test_comparisons_and_published_numbers_stand_below(runs, said):
    entry = "[{source: A, where: {norm: none}, over: num_layers, values: {2: 81, 10: 30}}]"
    Path("numbers.yaml").write_text(f"published: {entry}")
    text = said(runs, "--compare", "norm=none", "--published", "numbers.yaml")
    assert "Not tested: 2 lipschitz; 10 lipschitz; the same difference in every seed." in text
    said(runs, "--compare", "norm=none", "--output", "compared.csv")
    lines = list(csv.DictReader(Path("compared.csv").read_text().splitlines()))
    assert [(line["norm"], line["n"], line["p"]) for line in lines] == [("lipschitz", "3", "")] * 2
    assert [float(line["difference"]) for line in lines] == pytest.approx([0, 0.5])
    assert ["2", "none", "81.0 ± 1.0", "81.0 [1]", "+0.0", "inside"] in fields(text)


def test_a_file_has_the_format_of_its_suffix_and_is_not_written_twice(runs, said, refused):
    for suffix, start in (("txt", "layers"), ("md", "| layers"), ("csv", "model.num_layers,")):
        file = Path(f"table.{suffix}")
        assert said(runs, "--output", str(file)) == f"{file}\n"
        text = file.read_text()
        assert text.startswith(start)
        assert "the file exists" in refused("table", runs, "--output", str(file))
        assert file.read_text() == text
    assert len(text.splitlines()) == 13


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("missing", "there is no folder 'missing'."),
        ("made --rows num_layer", "'model.num_layers'?"),
        ("made --rows num_layers --columns status", "--rows model.num_layers norm,"),
        ("made --where norm=noen", "'norm' 'noen'. Did you mean 'none'?"),
        ("made --compare norm=nnoe", "'nnoe'. Did you mean 'none'?"),
        ("made --compare none", "an axis and a value, such as norm=none."),
        ("made --compare nrom=none", "'nrom'. Did you mean 'norm'?"),
        ("made --compare norm=none --ratio -1", "ratio must be at least 0, not -1."),
        ("made --published missing.yaml", "'missing.yaml' cannot be read"),
        ("made --output table.doc", "with suffix .txt or .md"),
        ("", "FOLDER"),
    ],
)
def test_what_does_not_exist_or_fit_is_answered(runs, refused, words, message):
    assert message in refused("table", *words.split())
