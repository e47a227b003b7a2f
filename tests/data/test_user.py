"""A user's own graph, sound and otherwise."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnn_depth.data import DataError, UserGraph

NODES = 10


def arrays(**changes) -> dict[str, np.ndarray]:
    """A sound graph of ten nodes; None leaves a part out."""
    rng = np.random.default_rng(0)
    sound = {
        "x": rng.random((NODES, 3)),
        "y": np.arange(NODES) % 3,
        "edge_index": np.array([[0, 1, 2, 2, 0], [1, 2, 0, 0, 0]]),
    }
    return {name: value for name, value in {**sound, **changes}.items() if value is not None}


def saved(tmp_path, **changes) -> str:
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays(**changes))
    return str(path)


def masks() -> dict[str, np.ndarray]:
    at = np.arange(NODES)
    return {"train_mask": at < 4, "val_mask": (at >= 4) & (at < 6), "test_mask": at >= 6}


def test_the_graph_is_that_of_the_file(tmp_path):
    data = UserGraph(saved(tmp_path, **masks()))
    batch = data.batch
    given = arrays()
    np.testing.assert_array_equal(batch.x, given["x"].astype(np.float32))
    assert batch.y.tolist() == given["y"].tolist()
    assert sorted(batch.graph.edge_index.T.tolist()) == sorted(given["edge_index"].T.tolist())
    for name, mask in masks().items():
        assert getattr(batch, name).tolist() == mask.tolist()
    assert data.num_classes == 3


def test_edges_are_taken_in_either_orientation_and_both_ways_without_repetition_if_undirected(
    tmp_path,
):
    wide = UserGraph(saved(tmp_path)).batch.graph
    tall = UserGraph(saved(tmp_path, edge_index=arrays()["edge_index"].T)).batch.graph
    assert torch.equal(tall.edge_index, wide.edge_index)
    graph = UserGraph(saved(tmp_path), undirected=True).batch.graph
    assert sorted(map(tuple, graph.edge_index.T.tolist())) == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 2),
        (2, 0),
        (2, 1),
    ]
    for shape in ((2, 0), (0, 2)):
        assert UserGraph(saved(tmp_path, edge_index=np.zeros(shape))).batch.graph.num_edges == 0


def test_floats_are_numbers_to_predict_and_edges_keep_their_weights_and_features(tmp_path):
    y, weight, features = np.arange(NODES) / 4, np.arange(5.0), np.arange(10.0).reshape(5, 2)
    y[3] = np.nan
    path = saved(tmp_path, y=y, w=weight, edge_attr=features[:, :1], more=features[:, 1])
    options = {"edge_weight": "w", "edge_features": ["edge_attr", "more"]}
    data = UserGraph(path, train_fraction=1.0, val_fraction=0.0, **options)
    assert UserGraph(path, edge_features=[]).batch.graph.edge_attr is None
    assert (data.task, data.num_classes, data.num_edge_features) == ("regression", 1, 2)
    assert data.batch.train_mask.tolist() == [node != 3 for node in range(NODES)]
    graph, given = data.batch.graph, arrays()["edge_index"]
    for source, target, own, row in zip(
        graph.source, graph.target, graph.edge_weight, graph.edge_attr, strict=True
    ):
        assert given[:, int(own)].tolist() == [source, target]
        assert row.tolist() == features[int(own)].tolist()
    labels = np.arange(2 * NODES).reshape(NODES, 2) % 2
    assert (
        UserGraph(saved(tmp_path, y=labels)).task,
        UserGraph(saved(tmp_path, y=labels)).num_classes,
    ) == (
        "multilabel",
        2,
    )


@settings(deadline=None)
@given(st.floats(0.01, 1), st.floats(0, 1), st.integers(0, 2**32))
def test_without_masks_every_node_is_drawn_into_one_set(tmp_path_factory, train, val, seed):
    path = saved(tmp_path_factory.getbasetemp())
    val = min(val, 1 - train)
    batch = UserGraph(path, train_fraction=train, val_fraction=val, seed=seed).batch
    assert torch.stack(batch.masks).sum(0).tolist() == [1] * NODES
    assert int(batch.train_mask.sum()) == max(1, round(train * NODES))
    again = UserGraph(path, train_fraction=train, val_fraction=val, seed=seed).batch
    assert torch.equal(torch.stack(batch.masks), torch.stack(again.masks))


def test_a_payload_in_a_saved_file_does_not_run(tmp_path, payload):
    make, mark = payload
    torch.save({"x": make()}, tmp_path / "data.pt")
    np.savez(tmp_path / "data.npz", **arrays(y=np.array([make()] * NODES, dtype=object)))
    for name, words in (("data.pt", "was not loaded"), ("data.npz", "cannot be read as npz")):
        with pytest.raises(DataError, match=words) as caught:
            _ = UserGraph(str(tmp_path / name)).batch
        assert "np.savez" in str(caught.value)
        assert "weights_only" not in str(caught.value), "advice to load unsafely"
    assert not mark.exists()


@pytest.mark.parametrize("name", ["graph.npz", "graph.pt"])
@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04" + bytes(50)])
def test_a_damaged_file_is_refused_by_name(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"(?s){name}'.*np.savez"):
        _ = UserGraph(str(tmp_path / name)).batch


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": None}, "no y; .*edge_index, x"),
        ({"y": None, "edge_index": None}, "no edge_index and no y; .*x"),
        ({"w": -np.ones(5)}, r"edge_weight\[0\] is -1"),
        ({"v": np.ones(5)}, "array 'w'.*v"),
        ({"w": np.array(1.0)}, r"w .*\(5\).*\(\)"),
        ({"y": np.array(0.5)}, "1 targets.* 10 nodes"),
        ({"edge_index": np.array([[0, 1], [1, NODES]])}, r"edge 1 is \(1, 10\)"),
        ({"edge_index": np.zeros((2, 3))}, "edge_index .*torch.float64"),
        ({**masks(), "val_mask": np.ones((NODES, 10), bool)}, r"val_mask .*\(10, 10\)"),
    ],
)
def test_a_faulty_graph_is_refused_with_the_file_and_the_first_index(tmp_path, changes, words):
    with pytest.raises(DataError, match=rf"graph\.npz.*{words}"):
        _ = UserGraph(
            saved(tmp_path, **changes), edge_weight="w" if {"v", "w"} & set(changes) else None
        ).batch


def test_edge_features_of_another_length_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"graph\.npz.*v .*\(5\).*\(4,\)"):
        _ = UserGraph(saved(tmp_path, w=np.ones(5), v=np.ones(4)), edge_features=["w", "v"]).batch


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "nowhere.npz"}, "'nowhere.npz' does not exist"),
        ({"path": "."}, "'.' is a folder"),
        ({"train_fraction": 0.9, "val_fraction": 0.2}, r"train_fraction \+ val_fraction .*1.1"),
    ],
)
def test_a_wrong_option_is_refused_at_construction(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        UserGraph(**{"path": saved(tmp_path), **options})
