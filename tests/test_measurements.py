import numpy as np
import pytest

from gnn_depth.measurements import MeasureValues, load_values, measure_names, save_values


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (1, 1)])
def test_a_measurement_comes_back_as_it_was_saved(tmp_path, shape):
    values = np.random.default_rng(0).normal(size=shape)
    values.flat[0] = np.nan
    first = MeasureValues(
        "delta", np.arange(shape[0]) * 10, values, "delta", True, np.arange(shape[1]) + 3, True
    )
    save_values(tmp_path, first)
    again = load_values(tmp_path, "delta")
    assert measure_names(tmp_path) == ["delta"]
    for field in ("steps", "values", "layers"):
        np.testing.assert_array_equal(getattr(again, field), getattr(first, field))
    assert (again.name, again.unit, again.log10) == ("delta", "delta", True)
    assert again.around_zero


def test_a_flipped_bit_is_one_plain_error_or_changes_nothing_that_is_read(tmp_path):
    first = MeasureValues("mu", np.arange(4), np.random.default_rng(0).normal(size=(4, 3)), "mu")
    path = save_values(tmp_path, first)
    whole, said = path.read_bytes(), []
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            again = load_values(tmp_path, "mu")
        except ValueError as error:
            said.append(str(error))
        else:  # dates and the like in the archive
            np.testing.assert_array_equal(again.values, first.values)
    assert len(said) > 100
    assert all("damaged" in text and text.isprintable() for text in said)


@pytest.mark.parametrize("name", ["../mu", "", "\x1b[31mred"])
def test_a_name_that_is_none_of_a_file_is_refused(tmp_path, name):
    values = MeasureValues(name, np.array([0]), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="not a file name"):
        save_values(tmp_path, values)
