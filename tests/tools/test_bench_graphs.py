"""The graphs of the benchmarks."""

import pytest

from tools.bench import graphs


@pytest.mark.parametrize(
    ("name", "share", "sizes"),
    [("chameleon", 0.48, (2277, 31371, 2325, 5)), ("cora", 140 / 2708, (2708, 5278, 1433, 7))],
)
def test_where_there_are_no_files_a_graph_of_the_same_size_is_generated(
    name, share, sizes, tmp_path
):
    nodes, edges, features, classes = sizes
    data = graphs.load(name, str(tmp_path))
    assert data.origin == "generated"
    assert (data.x.shape, data.graph.num_edges, data.classes) == (
        (nodes, features),
        2 * edges,
        classes,
    )
    assert len(data.train) == pytest.approx(share * nodes, rel=0.01)
