"""The planar graph's edges, features and labels against plain loops."""

import networkx as nx
import numpy as np
import pytest
import torch
from gnn_depth_remedies import KHopEccentricity
from gnn_depth_remedies.eccentricity import road_features

from gnn_depth.data.draws import Draws


@pytest.mark.parametrize("hops", [1, 2, 9])
def test_a_label_is_the_group_of_the_longest_shortest_path_inside_the_ball(hops):
    count, classes = 18, 3
    batch = KHopEccentricity(count, hops, num_classes=classes).batch
    points = Draws(0, "points").uniform(2 * count).reshape(count, 2)
    roads = nx.Graph()
    roads.add_nodes_from(range(count))
    for a, b in batch.graph.edge_index.T.tolist():
        roads.add_edge(a, b, weight=float(np.hypot(*(points[a] - points[b]))))
    far = []
    for node in range(count):
        ball = nx.single_source_shortest_path_length(roads, node, cutoff=hops)
        inside = nx.single_source_dijkstra_path_length(roads.subgraph(ball), node)
        far.append(max(inside.values()))
    order = sorted(range(count), key=lambda node: far[node])
    expected = torch.zeros(count, dtype=torch.long)
    for place, node in enumerate(order):
        expected[node] = place * classes // count
    assert torch.equal(batch.y, expected)


def test_roads_give_their_nodes_degree_and_lengths():
    edges = torch.tensor([[0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]])
    length = np.array([1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
    expected = torch.tensor([[2, 1, 2.5, 4], [2, 1, 1.5, 2], [2, 2, 3, 4]], dtype=torch.double)
    expected = expected - expected.mean(0)
    expected[:, 1:] /= expected[:, 1:].std(0, correction=0)
    torch.testing.assert_close(road_features(edges, length, 3), expected.float())
