"""ContraNorm against its formula, pair by pair."""

import torch
import torch.nn.functional as F

from gnn_depth.nn.norms import ContraNorm

DTYPE = torch.float64


def test_a_node_moves_away_from_the_nodes_that_send_it_no_edge(graph):
    x = torch.randn(9, 4, dtype=DTYPE)
    rows = []
    for node in range(9):
        neighbours = set(graph.source[graph.target == node].tolist())
        others = [other for other in range(9) if other == node or other not in neighbours]
        similarity = F.cosine_similarity(x[node][None], x[others]) / 0.7
        pull = (similarity.softmax(0)[:, None] * x[others]).sum(0)
        rows.append(F.layer_norm(1.4 * x[node] - 0.4 * pull, (4,)))
    norm = ContraNorm(4, scale=0.4, temperature=0.7)
    torch.testing.assert_close(norm(x, graph), torch.stack(rows), rtol=1e-9, atol=1e-9)
