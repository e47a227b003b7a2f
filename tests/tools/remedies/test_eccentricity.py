"""The planar graph's edges, features and labels against plain loops."""

import numpy as np
import pytest
import torch
from gnn_depth_remedies import KHopEccentricity
from gnn_depth_remedies.eccentricity import road_features

from gnn_depth.data.draws import Draws


def shortest_roads(count, roads):
    """The shortest path between all pairs of nodes, by Floyd and Warshall."""
    length = [[0.0 if a == b else float("inf") for b in range(count)] for a in range(count)]
    for (a, b), road in roads.items():
        length[a][b] = road
    for middle in range(count):
        for a in range(count):
            for b in range(count):
                length[a][b] = min(length[a][b], length[a][middle] + length[middle][b])
    return length


@pytest.mark.parametrize("hops", [1, 2, 9])
def test_a_label_is_the_group_of_the_longest_shortest_path_inside_the_ball(hops):
    count, classes = 18, 3
    batch = KHopEccentricity(count, hops, num_classes=classes).batch
    points = Draws(0, "points").uniform(2 * count).reshape(count, 2)
    pairs = [tuple(pair) for pair in batch.graph.edge_index.T.tolist()]
    steps = shortest_roads(count, dict.fromkeys(pairs, 1.0))
    far = []
    for node in range(count):
        ball = {other for other in range(count) if steps[node][other] <= hops}
        roads = {}
        for a, b in pairs:
            if a in ball and b in ball:
                roads[a, b] = float(np.hypot(*(points[a] - points[b])))
        inside = shortest_roads(count, roads)[node]
        far.append(max(inside[other] for other in ball))
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
