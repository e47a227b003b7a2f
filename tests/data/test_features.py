"""What is said of features that float32 or their sizes spoil, and the advice that goes with it."""

import torch

from gnn_depth.data.features import read_features
from gnn_depth.data.source import GraphSource

LARGE = 16777217.0  # float32 rounds it


def said(name, values, **options):
    notes = []
    read_features(name, torch.tensor(values, dtype=torch.float64), notes, **options)
    return " ".join(notes)


def test_columns_that_are_scaled_already_are_not_to_be_scaled_again():
    values, names = [[1.0, 0.5], [LARGE, 0.5]], ["debt", "age"]
    plain = said("x", values, columns=names)
    assert "standardize='standard'" in plain
    scaled = said("x", values, columns=names, scaled=["debt"])
    assert "standardize='standard'" not in scaled
    assert "'debt') reaches 1.68e+07" in scaled
    assert "in row 1" in scaled
    assert "scaled already; look for a wrong value" in scaled
    other = said("x", values, columns=names, scaled=["age"])
    assert "standardize='standard'" in other


def test_features_for_a_trained_model_get_no_advice():
    values = [[1.0, 0.5], [LARGE, 0.5]]
    assert said("x", values, to_train=False) == (
        "x[1, 0] is 16777217, and float32 rounds it to 16777216."
    )


def test_weights_of_edges_are_not_to_become_negative():
    text = said("edge_weight", [LARGE, 1.0])
    assert "edge_features" in text
    assert "mean" not in text


def test_a_scaling_that_is_given_counts_as_one_in_a_data_set():
    x = torch.rand(20, 2)
    x[-1, 0] = 1e12  # of a node outside the training: the scaling does not know it
    masks = {f"{name}_mask": torch.arange(20) // 8 == place for place, name in enumerate(SETS)}
    graph = {"x": x, "y": torch.arange(20) % 2, "edge_index": torch.tensor([[0], [1]]), **masks}
    data = GraphSource(graph, standardize="standard")
    (text,) = [note for note in data.notes if "very different size" in note]
    assert "scaled already" in text


SETS = ("train", "val", "test")
