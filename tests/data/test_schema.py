"""Scaling, and the classes of a trained model in new data."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from gnn_depth.data.schema import Scaling, Schema
from gnn_depth.data.targets import conform_targets, read_targets

EIGHTHS = st.integers(-8_000_000, 8_000_000).map(lambda number: number / 8)
NUMBERS = st.lists(EIGHTHS, min_size=2, max_size=20)


@given(NUMBERS, NUMBERS)
def test_a_scaling_is_that_of_scikit_learn_and_can_be_undone(train, new):
    known, later = torch.tensor(train).double(), torch.tensor(new).double()
    scaling = Scaling.fit(known)
    expected = StandardScaler().fit(known[:, None].numpy()).transform(later[:, None].numpy())
    np.testing.assert_allclose(scaling.apply(later), expected[:, 0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scaling.undo(scaling.apply(later)), later, rtol=1e-6, atol=1e-3)


classes = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=8)


@given(classes.filter(any))
def test_classes_keep_the_numbers_of_the_training_whichever_are_there(names):
    schema = Schema(3, "multiclass", ("c", "a", "b"))
    found = conform_targets(read_targets(np.array(names, object), []), schema)
    assert found.y.tolist() == [schema.outputs.index(name) if name else 0 for name in names]
    assert found.labelled.tolist() == [bool(name) for name in names]
