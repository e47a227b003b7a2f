import numpy as np
import pytest

from gnn_depth.measurements import MeasureValues, load_values, measure_names, save_values


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (1, 1)])
def test_a_measurement_comes_back_as_it_was_saved(tmp_path, shape):
    values = np.random.default_rng(0).normal(size=shape)
    values.flat[0] = np.nan
    first = MeasureValues(
        "delta", np.arange(shape[0]) * 10, values, "delta", True, np.arange(shape[1]) + 3
    )
    save_values(tmp_path, first)
    again = load_values(tmp_path, "delta")
    assert measure_names(tmp_path) == ["delta"]
    for field in ("steps", "values", "layers"):
        np.testing.assert_array_equal(getattr(again, field), getattr(first, field))
    assert (again.name, again.unit, again.log10) == ("delta", "delta", True)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04"])
def test_a_damaged_measurement_is_named(tmp_path, content):
    save_values(tmp_path, MeasureValues("mu", np.array([0]), np.zeros((1, 3)))).write_bytes(content)
    with pytest.raises(ValueError, match=r"mu\.npz.*damaged"):
        load_values(tmp_path, "mu")


def test_a_measurement_that_is_not_there_is_missed(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_values(tmp_path, "mu")
