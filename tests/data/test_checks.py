"""Faults that would train without complaint: each is refused by its first index."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import DataError, check_nodes, check_range, choose
from gnn_depth.graph import Graph

NODES = 8


def parts() -> dict:
    """Sound data of eight nodes."""
    index = torch.arange(NODES)
    masks = (index < 3, (index >= 3) & (index < 5), index >= 5)
    return {"x": torch.ones(NODES, 2), "y": index % 3, "num_nodes": NODES, "masks": masks}


def mask(*nodes: int) -> torch.Tensor:
    return torch.zeros(NODES, dtype=torch.bool).index_fill(0, torch.tensor(nodes, dtype=torch.long), True)


def test_sound_data_passes():
    check_nodes(**parts())


@given(st.integers(0, NODES - 1), st.integers(0, 1), st.sampled_from([float("nan"), float("inf"), -float("inf")]))
def test_features_that_are_not_finite_are_refused_at_the_first(node, feature, value):
    data = parts()
    data["x"][node:, feature] = value
    with pytest.raises(DataError, match=rf"x\[{node}, {feature}\] is {value}"):
        check_nodes(**data)


@given(st.integers(0, NODES - 1), st.integers(-(2**62), -1))
def test_negative_classes_are_refused_at_the_first(node, value):
    data = parts()
    data["y"][node:] = value
    with pytest.raises(DataError, match=rf"y\[{node}\] is {value}"):
        check_nodes(**data)


@given(st.integers(1, NODES - 1), st.integers(4, 2**62))
def test_classes_with_a_gap_are_refused_at_the_first_beyond_it(node, value):
    data = parts()
    data["y"][:] = 0
    data["y"][node:] = value
    with pytest.raises(DataError, match=rf"y\[{node}\] is {value}, but no node has class 1"):
        check_nodes(**data)


@given(st.integers(0, 1), st.integers(5, 7))
def test_overlapping_masks_are_refused_at_the_first_node(which, node):
    data = parts()
    data["masks"][which][node:] = True
    first, second = (("train_mask", "test_mask"), ("val_mask", "test_mask"))[which]
    with pytest.raises(DataError, match=f"node {node} is in {first} and in {second}"):
        check_nodes(**data)


def test_an_empty_training_set_is_refused():
    with pytest.raises(DataError, match="train_mask is empty"):
        check_nodes(**{**parts(), "masks": (mask(), mask(0), mask(1))})


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"x": torch.ones(NODES)}, "x must be floats"),
        ({"x": torch.ones(NODES, 2, dtype=torch.long)}, "x must be floats"),
        ({"x": torch.ones(NODES - 1, 2)}, "x has 7 rows, but the graph has 8"),
        ({"y": torch.zeros(NODES)}, "y must be torch.int64"),
        ({"y": torch.zeros(NODES, 1, dtype=torch.long)}, "y must be torch.int64"),
        ({"masks": (mask(0), mask(1), mask(2)[:-1])}, "test_mask must be torch.bool"),
        ({"num_nodes": 0}, "no nodes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(fault, words):
    with pytest.raises(DataError, match=words):
        check_nodes(**{**parts(), **fault})


def test_one_class_one_node_no_edges_and_no_test_set_are_legal():
    yes = torch.ones(1, dtype=torch.bool)
    check_nodes(torch.zeros(1, 3), torch.zeros(1, dtype=torch.long), 1, (yes, ~yes, ~yes))
    check_nodes(**{**parts(), "y": torch.zeros(NODES, dtype=torch.long), "masks": (mask(0), mask(), mask())})


@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.1])
def test_nothing_outside_a_range_passes(value):
    with pytest.raises(ValueError, match="rate must be from 0 to 1"):
        check_range("rate", value, 0, 1)


def test_a_choice_is_taken_in_any_case_and_a_wrong_one_names_the_near_miss():
    assert choose("split", "FULL", ["public", "full"]) == "full"
    with pytest.raises(ValueError, match=r"unknown split 'fulll'\. Did you mean 'full'\? Available: full, public"):
        choose("split", "fulll", ["public", "full"])


class Given(NodeDataModule):
    """A set of given parts, which counts how often it is read."""

    num_classes = 3

    def __init__(self, **changes) -> None:
        super().__init__()
        self.parts = {**parts(), **changes}
        self.reads = 0

    def load(self) -> NodeBatch:
        self.reads += 1
        graph = Graph(torch.empty(2, 0, dtype=torch.long), NODES)
        return NodeBatch(self.parts["x"], self.parts["y"], graph, *self.parts["masks"])


def test_every_data_set_is_read_once_and_checked():
    data = Given()
    assert data.num_features == 2
    for loader in (data.train_dataloader(), data.val_dataloader(), data.test_dataloader(), data.predict_dataloader()):
        assert len(loader) == 1
        assert [batch is data.batch for batch in loader] == [True]
    assert data.reads == 1
    with pytest.raises(DataError, match="train_mask is empty"):
        _ = Given(masks=(mask(), mask(0), mask(1))).batch


def test_a_set_with_the_training_nodes_features_only_is_not_used_as_it_is():
    data = Given()
    data.train_features_only = True
    with pytest.raises(DataError, match=r"MissingFeatures with rate 1\.0"):
        _ = data.batch
    assert data.loaded.x.shape == (NODES, 2)
