"""The comparison with DGL: what its process reads, what is refused, and the table. DGL itself is
not installed here."""

import sys

import numpy as np
import pytest
import torch

from tools.bench import dgl_peer, graphs, sides
from tools.bench.cases import CASES, Case

SMALL = Case("gat-lip-2", "gat-lip", "cora", 2)


@pytest.fixture(scope="module")
def data():
    return graphs.load("cora", None)


def test_the_other_process_reads_our_weights_and_the_scores_of_a_gat_without_lipschitznorm(
    data, tmp_path
):
    dgl_peer.write(SMALL, data, tmp_path / "case.npz")
    found = {
        name: torch.from_numpy(value) for name, value in np.load(tmp_path / "case.npz").items()
    }
    assert torch.equal(found["edge_index"], data.edge_index)
    assert torch.equal(found["train"], data.train)
    h = found["x"] @ found["w:encoder.weight"].T + found["w:encoder.bias"]
    n = len(h)
    to = torch.zeros(n, n, dtype=torch.bool)
    to[data.edge_index[1], data.edge_index[0]] = True
    to |= torch.eye(n, dtype=torch.bool)
    for layer in range(2):
        weight = {
            name.split(".", 2)[2]: value
            for name, value in found.items()
            if name.startswith(f"w:layers.{layer}.")
        }
        h = h @ weight["lin.weight"].T
        scores = torch.nn.functional.leaky_relu(
            (h @ weight["att_dst"].T) + (h @ weight["att_src"].T).T, 0.2
        )
        h = scores.masked_fill(~to, -torch.inf).softmax(1) @ h + weight["bias"]
        h = torch.nn.functional.elu(h) if layer == 0 else h
    scores = h @ found["w:decoder.weight"].T + found["w:decoder.bias"]
    torch.testing.assert_close(found["scores"], scores, rtol=1e-4, atol=1e-5)


def test_ratios_are_those_of_pairs_and_models_that_differ_are_refused(data, monkeypatch):
    seconds = {
        "tools.bench.dgl_side": iter([0.4, 0.2, 0.5]),
        "tools.bench.dgl_peer": iter([0.1, 0.1, 0.1]),
    }
    difference = [0.0]

    def run(module, *arguments, **options):
        return {"seconds": [next(seconds[module])] * 3, "difference": difference[0]}

    monkeypatch.setattr(dgl_peer.children, "run", run)
    monkeypatch.setattr(dgl_peer.graphs, "load", lambda *_: data)
    found = dgl_peer.compare(SMALL, "python", None, 3)
    assert dgl_peer.row(found) == "| gat-lip-2 | generated | 400 | 100 | 0.25 (0.20-0.50) |"
    difference[0] = 2 * sides.TOLERANCE
    seconds = {module: iter([1.0]) for module in seconds}
    with pytest.raises(
        ValueError, match="gat-lip-2: the sides differ by 2.0e-04 of the largest score"
    ):
        dgl_peer.compare(SMALL, "python", None, 1)


def test_an_environment_without_dgl_and_a_python_that_is_not_there_are_answered_in_one_line(
    monkeypatch, capsys
):
    for python, answer in (
        (sys.executable, "No module named 'dgl'"),
        ("no/python", "No such file"),
    ):
        monkeypatch.setattr(
            sys, "argv", ["dgl_peer", "--python", python, "--case", "gatv2-10-cora"]
        )
        assert dgl_peer.main() == 1
        error = capsys.readouterr().err
        assert answer in error
        assert error.count("\n") == 1
    assert all(name in CASES for name in dgl_peer.NAMES)
