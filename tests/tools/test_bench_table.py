"""The cases and the table of benchmarks."""

import json
import sys

import pytest

from tools.bench import __main__ as bench
from tools.bench.cases import SHORT, choose
from tools.bench.table import render

PEAK = {"steps": 123456789, "first": 523456789, "reset": True}
ROW = {
    "case": "gatv2-40-squirrel",
    "malloc": "default",
    "origin": "generated",
    "path": "compiled",
    "rounds": 3,
    "difference": 2.1e-7,
    "peer": 28.162,
    "ours": 0.325,
    "ratio": 0.0115,
    "low": 0.0110,
    "high": 0.0121,
    "noisy": False,
    "fastest": {"name": "compiled", "peer": 8.1, "ratio": 0.0401},
    "default": {"ours": 0.31, "ratio": 0.0383},
    "default_and_compiled": {"ratio": 0.95},
    "first_step_s": 14.2,
    "memory": {"peer": PEAK | {"steps": 12_900_000_000}, "ours": PEAK},
}


def test_an_unknown_case_is_an_error_that_names_the_nearest():
    with pytest.raises(ValueError, match=r"no case 'gcn-64-coda'. Did you mean gcn-64-cora\?"):
        choose(["gcn-64-coda"], long=False)


def test_a_measurement_stands_in_the_table_with_failures_below():
    table = render([ROW])
    for text in ("28162", "0.011 (.011-.012)", "12.90 -> 0.12 "):
        assert text in table
    table = render(
        [
            ROW | {"failure": "no compiler"},
            {"case": "gcn-64-cora", "malloc": "tuned", "error": "no memory"},
        ]
    )
    assert "FAILED gcn-64-cora (tuned malloc): no memory" in table
    assert "gatv2-40-squirrel was not compiled: no compiler" in table


def test_what_was_measured_before_an_interrupt_is_printed_and_written(
    monkeypatch, tmp_path, capsys
):
    def one_case(case, given):
        if case.name == SHORT[1]:
            raise KeyboardInterrupt
        return iter([ROW])

    monkeypatch.setattr(bench, "measure", one_case)
    monkeypatch.setattr(sys, "argv", ["bench", "--json", str(tmp_path / "rows.json")])
    assert bench.main() == 130
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == [ROW]
    out, err = capsys.readouterr()
    assert "gatv2-40-squirrel" in out
    assert "interrupted: 1 of the measurements" in err
