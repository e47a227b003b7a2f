"""Faults that would train without complaint: each is refused with its first index."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from gnn_depth.data import MissingFeatures
from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import (
    MASKS,
    DataError,
    check_batch,
    check_finite,
    class_notes,
    num_outputs_of,
)
from gnn_depth.data.source import GraphSource
from gnn_depth.graph import Graph

NODES = 8
NAN = float("nan")
NO_EDGES = {"edge_index": torch.empty(2, 0, dtype=torch.long)}


def parts(num_nodes=NODES, masks=None, **changes) -> NodeBatch:
    """Sound data of eight nodes, but for the changes."""
    index = torch.arange(NODES)
    masks = masks or (index < 3, (index >= 3) & (index < 5), index >= 5)
    found = {"x": torch.ones(NODES, 2), "y": index % 3, **dict(zip(MASKS, masks, strict=True))}
    # Not by the constructor, whose arguments have their types checked here.
    batch = object.__new__(NodeBatch)
    vars(batch).update(found | changes, graph=Graph(NO_EDGES["edge_index"], num_nodes))
    return batch


def mask(*nodes: int) -> torch.Tensor:
    return torch.zeros(NODES, dtype=torch.bool).index_fill(
        0, torch.tensor(nodes, dtype=torch.long), True
    )


def refused(batch: NodeBatch, words: str) -> None:
    with pytest.raises(DataError, match=words):
        check_batch(batch)


@given(st.integers(1, NODES - 1), st.sampled_from([NAN, float("inf")]), st.integers(1, 2**62))
@example(3, NAN, 1)  # -1, and classes 0 and 2
def test_features_and_classes_are_refused_at_the_first_fault(node, value, large):
    check_batch(parts())
    for column in (0, 1):
        x = torch.ones(NODES, 2)
        x[node:, column] = value
        with pytest.raises(DataError, match=rf"x\[{node}, {column}\] is {value}.*MissingFeatures"):
            check_finite(x)
    negative = parts()
    negative.y[node:] = -large
    refused(negative, rf"y\[{node}\] is -{large}")
    gap = parts(y=torch.zeros(NODES, dtype=torch.long))
    gap.y[node:] = large + 1
    refused(gap, rf"y\[{node}\] is {large + 1}.* class 1")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"x": torch.ones(NODES + 1, 2)}, "x has 9 rows.* 8"),
        ({"y": torch.zeros(NODES - 1)}, r"y .*\(7,\)"),
        ({"y": torch.tensor([0.0, NAN, *[0.0] * 6])}, r"y\[1\] .*nan"),
        ({"y": torch.tensor([[0, 1]] * 7 + [[0, 2]])}, r"y\[7\] .*\[0, 2\]"),
        ({"masks": (mask(0), mask(1), mask(2)[:-1])}, r"test_mask .*\(7,\)"),
        ({"masks": (mask(1, 6, 7), mask(2), mask(6, 7))}, "node 6 .*train_mask.*test_mask"),
        ({"num_nodes": 0}, "no nodes"),
    ],
)
def test_shapes_and_masks_that_do_not_fit_are_refused(fault, words):
    refused(parts(**fault), words)


def test_one_node_no_edges_and_no_test_set_are_legal():
    yes = torch.ones(1, dtype=torch.bool)
    check_batch(parts(1, (yes, ~yes, ~yes), x=torch.zeros(1, 3), y=torch.zeros(1)))
    check_batch(parts(masks=(mask(0), mask(), mask())))


def test_a_single_value_is_refused_to_train_on_and_one_among_several_is_not():
    y = torch.tensor([2.5, float("nan"), 2.5, 2.5])
    with pytest.raises(ValueError, match="target is 2.5 in all 3 rows.*--data.label"):
        _ = GraphSource({"x": torch.rand(4, 2), "y": y, **NO_EDGES}).batch
    several = torch.stack([torch.full((4,), 2.5), torch.arange(4.0)], 1)
    assert GraphSource({"x": torch.rand(4, 2), "y": several, **NO_EDGES}).batch.y.shape == (4, 2)
    for one in (torch.zeros(NODES), torch.full((NODES,), 2)):
        check_batch(parts(y=one), trained=True)


def test_the_task_follows_from_the_targets_and_numbers_may_be_missing_outside_the_masks():
    given = {
        "multiclass": torch.arange(NODES) % 3,
        "multilabel": torch.ones(NODES, 3),
        "regression": torch.tensor([*range(7), NAN]),
    }
    for task, y in given.items():
        data = Given(y=y, masks=(mask(0, 1), mask(2), mask(3)))
        assert (data.task, data.batch.y is y) == (task, True)
    assert [num_outputs_of(y) for y in given.values()] == [3, 3, 1]


class Given(NodeDataModule):
    """A set of given parts, which counts how often it is read."""

    num_classes = 3

    def __init__(self, **changes) -> None:
        super().__init__()
        self.parts = parts(**changes)
        self.reads = 0

    def load(self) -> NodeBatch:
        self.reads += 1
        return self.parts


def test_features_that_are_unknown_are_refused_unless_all_of_them_are_erased():
    x = torch.ones(NODES, 2)
    x[3:] = NAN
    data = Given(x=x)
    with pytest.raises(DataError, match=r"x\[3, 0\] is nan.*MissingFeatures"):
        _ = data.batch
    erased = MissingFeatures(data, 1.0)
    assert (erased.num_features, erased.num_edge_features) == (2, 0)
    assert torch.equal(erased.batch.x, x.nan_to_num(0))
    with pytest.raises(DataError, match=r"is nan.*rate 1\.0"):
        _ = MissingFeatures(data, 0.5).batch


def test_a_class_is_missed_by_sets_that_have_rows():
    y = torch.arange(NODES) % 2
    assert class_notes(y, (mask(0, 1), mask(), mask())) == []
    (note,) = class_notes(y, (mask(0, 1), mask(2), mask()))
    assert "no validation row has the class '1'" in note
