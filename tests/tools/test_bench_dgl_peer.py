"""The comparison with DGL: what its process reads, what is refused, and the table. DGL itself is
not installed here."""

import numpy as np
import pytest
import torch

from tools.bench import dgl_peer, graphs
from tools.bench.cases import Case

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
