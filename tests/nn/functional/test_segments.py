import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, segment_max, segment_softmax, segment_sum


def test_softmax_sums_to_one_over_every_neighbourhood_even_at_huge_scores(graph):
    scores = torch.randn(graph.num_edges, 3) * 1e4
    total = segment_sum(segment_softmax(scores, graph), graph)
    has_edges = graph.in_degree > 0
    torch.testing.assert_close(total[has_edges], torch.ones_like(total[has_edges]))
    assert (total[~has_edges] == 0).all()


def test_tied_maxima_share_the_gradient_evenly():
    graph = Graph(torch.tensor([[0, 1, 2], [0, 0, 0]]), 3)
    values = torch.tensor([[1.0], [1.0], [0.5]], requires_grad=True)
    segment_max(values, graph)[0].sum().backward()
    assert values.grad.flatten().tolist() == [0.5, 0.5, 0.0]


def test_graph_mean_is_taken_over_each_graph_alone():
    x = torch.tensor([[1.0], [3.0], [10.0]])
    two = Graph(torch.zeros(2, 0, dtype=torch.long), 3, torch.tensor([0, 0, 1]))
    assert graph_mean(x, two).flatten().tolist() == [2.0, 2.0, 10.0]
    one = Graph(torch.zeros(2, 0, dtype=torch.long), 3)
    assert graph_mean(x, one).item() == pytest.approx(14 / 3)
