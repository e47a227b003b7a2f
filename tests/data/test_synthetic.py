"""The generated citation graph: sizes, structure, difficulty, and the same one everywhere."""

import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data import NodeBatch, SyntheticCitation
from gnn_depth.data.synthetic import count_pairs


@pytest.fixture(scope="module")
def default() -> NodeBatch:
    return SyntheticCitation().batch


def fingerprint(batch: NodeBatch) -> str:
    parts = (batch.graph.edge_index, batch.x > 0, batch.y, *batch.masks)
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()


def test_the_graph_is_that_of_every_machine_at_any_number_of_threads(default):
    assert (
        fingerprint(default) == "73e029340faa4accbf7e18c3784c49459f628a2ad7eef96c8bbcbebd883a1f4c"
    )
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 + threads % 2)
        again = SyntheticCitation().batch
    finally:
        torch.set_num_threads(threads)
    assert (
        fingerprint(again) == fingerprint(default) != fingerprint(SyntheticCitation(seed=1).batch)
    )
    assert torch.equal(again.x, default.x)


@given(
    st.integers(2, 5),
    st.integers(2, 200),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_any_sizes_are_met_exactly(classes, nodes, fraction, homophily, seed, normalize):
    nodes = max(nodes, 2 * classes)
    within, across = count_pairs(nodes, classes)
    most = min(within / (homophily or 1), across / (1 - homophily) if homophily < 1 else within)
    edges = int(fraction * 0.5 * most)
    # Rounding to whole edges may ask for one more than there is room for.
    edges = max(0, edges - 2)
    sizes = (nodes, edges, 11, classes, homophily, 1, 1, nodes - 2 * classes)
    batch = SyntheticCitation(*sizes, normalize, seed).batch
    graph = batch.graph
    assert graph.num_edges == 2 * edges
    assert len(set(map(tuple, graph.edge_index.T.tolist()))) == 2 * edges
    assert not (graph.source == graph.target).any()
    assert int((batch.y[graph.source] == batch.y[graph.target]).sum()) == 2 * round(
        homophily * edges
    )
    sizes = torch.bincount(batch.y, minlength=classes)
    assert int(sizes.max() - sizes.min()) <= 1
    assert torch.bincount(batch.y[batch.train_mask], minlength=classes).tolist() == [1] * classes
    assert batch.x.any(1).all()
