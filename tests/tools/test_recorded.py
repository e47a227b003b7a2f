"""The numbers of the code are those that were recorded."""

import pytest

from tools.recorded.__main__ import HERE, compare, read, record

pytestmark = pytest.mark.long
#: Tolerance of floats, since processors differ in the last digits.
RTOL = 1e-3


@pytest.mark.parametrize("group", ["parts", "watch", "own", "refused"])
def test_a_group_of_numbers_is_as_recorded(group):
    known = read(HERE / "numbers.json.gz")
    assert not compare(known[group], record([group])[group], RTOL)


def test_a_comparison_finds_a_changed_float_and_a_missing_case_and_takes_nan_for_equal():
    old = {"a": {"loss": 1.0, "undefined": float("nan")}, "b": {"loss": 2.0}}
    assert not compare(old, {**old})
    changed = {"a": {"loss": 1.0 + 1e-15, "undefined": float("nan")}}
    assert len(compare(old, changed)) == 2
    assert len(compare(old, changed, rtol=1e-6)) == 1
