"""Erased features: how many, whose, and the same ones anywhere."""

from hashlib import sha256

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data import MissingFeatures, SyntheticCitation

RATES = st.floats(0, 1)
SEEDS = st.integers(0, 2**32)
# Read once: wrapping leaves it as it is, which is tested too.
SOURCE = SyntheticCitation(60, 90, 14, num_train_per_class=2, num_val=10, num_test=20)


@given(RATES, SEEDS)
def test_exactly_the_rounded_rate_is_erased_and_no_training_node(rate, seed):
    data = MissingFeatures(SOURCE, rate, seed)
    erased = ~data.batch.x.any(1)
    pool = ~SOURCE.batch.train_mask
    assert torch.equal(erased, data.missing_mask)
    assert int(erased.sum()) == round(rate * int(pool.sum()))
    assert not (erased & ~pool).any()
    assert torch.equal(data.batch.x[~erased], SOURCE.batch.x[~erased])


@given(RATES, RATES, SEEDS)
def test_a_higher_rate_adds_to_the_same_nodes(one, other, seed):
    low, high = sorted((one, other))
    fewer, more = (MissingFeatures(SOURCE, rate, seed).missing_mask for rate in (low, high))
    assert not (fewer & ~more).any()


def test_the_nodes_are_those_of_every_machine_and_leave_other_generators_alone():
    torch.manual_seed(0)
    wanted = torch.rand(2)
    torch.manual_seed(0)
    known = "df45d9f12572536bb8e7b1be1c260d148c5ab79b15ebe19d5b5788c6919d2c9a"
    found, other = (MissingFeatures(SOURCE, 0.5, seed).missing_mask for seed in (0, 1))
    assert sha256(np.packbits(found.numpy())).hexdigest() == known
    assert not torch.equal(found, other)
    assert torch.equal(torch.rand(2), wanted)
