"""Graphs of every kind that the fast functions treat differently."""

import torch

from gnn_depth.graph import Graph


def graph_of(pairs, num_nodes, num_sources=None):
    return Graph(
        torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t(), num_nodes, num_sources=num_sources
    )


def both_ways(pairs):
    return pairs + [(target, source) for source, target in pairs]


# Node 0 has more edges than a slice of padded rows is wide.
STAR = [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (2, 1), (3, 1), (4, 5)]

#: Nodes 6 and 7 are isolated where the name says so; of the block, sources 6 to 8 only send.
GRAPHS = {
    "directed": lambda: graph_of([*STAR, (0, 3), (0, 0)], 6),
    "symmetric": lambda: graph_of(both_ways(STAR), 6),
    "repeated": lambda: graph_of(both_ways([*STAR, (1, 0), (1, 0), (3, 3)]), 6),
    "isolated": lambda: graph_of([*STAR, (5, 5)], 8),
    "isolated_symmetric": lambda: graph_of(both_ways(STAR), 8),
    "block": lambda: graph_of([*STAR, (7, 0), (8, 2), (8, 1), (6, 1), (0, 0)], 6, 9),
    "no_edges": lambda: graph_of([], 3),
}
