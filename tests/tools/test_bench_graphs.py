"""The graphs of the benchmarks."""

import pytest

from gnn_depth.data.heterophilous import SIZES
from tools.bench import graphs


@pytest.mark.parametrize("name", ["squirrel", "chameleon"])
def test_where_there_are_no_files_a_graph_of_the_same_size_is_generated(name, tmp_path):
    nodes, edges, features, classes = SIZES[name]
    data = graphs.load(name, str(tmp_path))
    assert data.origin == "generated"
    assert (data.x.shape, data.graph.num_edges, data.classes) == ((nodes, features), 2 * edges, classes)
    assert len(data.train) == pytest.approx(0.48 * nodes, rel=0.01)


def test_cora_too_is_generated_without_files():
    data = graphs.load("cora", None)
    assert (data.origin, data.x.shape, data.graph.num_edges, data.classes) == ("generated", (2708, 1433), 10556, 7)
    assert len(data.train) == 140


@pytest.mark.parametrize(("name", "edges"), [("cora", 10556), ("squirrel", 396706), ("chameleon", 62742)])
def test_real_graphs_are_read_where_their_files_are(name, edges, real_data):
    data = graphs.load(name, str(real_data))
    assert (data.origin, data.graph.num_edges) == ("real", edges)
