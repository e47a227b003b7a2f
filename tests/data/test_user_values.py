"""The values of a user's tables: infinite, missing, out of range, or written in other ways."""

import numpy as np
import pandas as pd
import pytest
import yaml

from gnn_depth.data import DataError, GraphSource, UserGraph
from gnn_depth.data.schema import Schema


def made_of(folder, nodes: str, edges: str = "a,b\n0,1\n", **options) -> UserGraph:
    (folder / "n.csv").write_text(nodes)
    (folder / "e.csv").write_text(edges)
    return UserGraph(str(folder / "e.csv"), str(folder / "n.csv"), **options)


def rows_of(heading: str, *columns) -> str:
    """A table with these columns after one of ids."""
    lines = [f"id,{heading}"]
    for row, values in enumerate(zip(*columns, strict=True)):
        lines.append(",".join([str(row), *map(str, values)]))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("value", ["inf", "-inf", "1e400"])
@pytest.mark.parametrize("options", [{}, {"fill": "median", "standardize": "log1p"}])
def test_an_infinite_number_is_refused_by_column_and_row(tmp_path, value, options):
    nodes = f"id,topic,size\n0,a,1\n1,b,{value}\n2,b,3\n"
    data = made_of(tmp_path, nodes, label="topic", **options)
    with pytest.raises(DataError, match="(?s)n.csv.*'size'.*is no finite number .row 1"):
        _ = data.batch
    assert "'size'" in data.inspect().open[0]


@pytest.mark.parametrize("value", ["inf", "-inf", "1e400"])
def test_an_infinite_number_is_refused_as_a_target_and_as_a_feature_of_an_edge(tmp_path, value):
    nodes = f"id,size,cost\n0,1,4\n1,2,{value}\n2,2,1\n"
    with pytest.raises(DataError, match="n.csv', row 1 .from 0.: 'cost' is"):
        _ = made_of(tmp_path, nodes, targets=["cost"]).batch
    edges = f"a,b,w\n0,1,1\n1,2,{value}\n"
    nodes = nodes.replace(value, "3")
    with pytest.raises(DataError, match="e.csv', row 1 .from 0.: 'w' is"):
        _ = made_of(tmp_path, nodes, edges, targets=["cost"], edge_features=["w"]).batch


@pytest.mark.parametrize("standardize", ["none", "standard", "log1p"])
def test_an_infinite_number_of_arrays_is_named_where_it_stands(standardize):
    x = np.arange(12.0).reshape(6, 2)
    x[4, 1] = np.inf
    arrays = {"x": x, "y": [0, 1] * 3, "edge_index": np.array([[0], [1]])}
    for name, rows in (("train", [1, 2, 3, 4]), ("val", [0]), ("test", [5])):
        arrays[f"{name}_mask"] = np.isin(np.arange(6), rows)
    with pytest.raises(DataError, match=r"x\[4, 1\] is inf"):
        _ = GraphSource(arrays, standardize=standardize).batch


@pytest.mark.parametrize("written", [["2,515,506", "15,506", "7"], ["1,515", "2,000", "3,001.5"]])
def test_thousands_separators_are_named_and_not_read_as_a_list(tmp_path, written):
    nodes = rows_of("y,size", "aba", [f'"{value}"' for value in written])
    with pytest.raises(DataError, match="'size'.*thousands separators.*without commas"):
        _ = made_of(tmp_path, nodes, label="y").batch


@pytest.mark.parametrize(
    "written",
    [
        ["0.1, 0.2, 0.3", "1, 2, 3", "4, 5, 6"],
        ["[100,200,300]", "[4,5,6]", "[7,8,9]"],
        ["100,200,300", "400,500,600", "7,8,9"],
        ["100, 200, 300", "400, 500, 600", "700, 800, 900"],
    ],
)
def test_a_list_in_each_cell_is_a_column_for_each_position_and_it_is_said(tmp_path, written):
    nodes = rows_of("y,size", "aba", [f'"{value}"' for value in written])
    data = made_of(tmp_path, nodes, label="y")
    assert data.batch.x.shape == (3, 3)
    said = [note for note in data.notes if "size_0" in note]
    assert len(said) == 1
    assert "3 columns" in said[0]


def test_a_category_of_a_number_is_the_same_with_and_without_its_decimals(tmp_path):
    nodes = rows_of("y,kind", "abab", ["1.0", "1.1", "2.0", "2.0"])
    trained = made_of(tmp_path, nodes, label="y", categories=["kind"]).schema
    assert trained.columns[0].values == ("1.0", "1.1", "2.0")
    same = made_of(tmp_path, rows_of("kind", ["2", "2", "1"])).read_as(trained, targets=False)
    assert same.batch.x.tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]
    other = made_of(tmp_path, rows_of("kind", ["2", "x", "01"])).read_as(trained, targets=False)
    with pytest.raises(DataError, match="'x' is no category.*row 1, 2"):
        _ = other.batch


def test_categories_that_are_equal_numbers_stay_apart(tmp_path):
    nodes = rows_of("y,kind", "abab", ["1", "1.0", "x", "x"])
    data = made_of(tmp_path, nodes, label="y", categories=["kind"])
    assert data.batch.x.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    other = made_of(tmp_path, rows_of("kind", ["1.00", "x", "x"])).read_as(data.schema, None, False)
    with pytest.raises(DataError, match="'1.00' is no category"):
        _ = other.batch


def months(count: int) -> list[pd.DataFrame]:
    """Tables of one month each, drawn alike."""
    tables = []
    for month in range(count):
        draw = np.random.default_rng(month)
        pressure = draw.normal(2.5e6 + 5e4 * month, 2e5, 80)
        columns = {
            "pa": pressure,
            "hours": draw.lognormal(9, 1, 80),
            "leased": draw.integers(2, size=80),
        }
        columns |= {"leap": [2020 + month] * 80, "y": ["a", "b"] * 40}
        tables.append(pd.DataFrame(columns).rename_axis("id"))
    return tables


def test_the_next_month_is_no_matter_but_other_units_and_flags_are_said(tmp_path):
    first, *later = months(5)
    schema = made_of(tmp_path, first.to_csv(), label="y").schema
    assert Schema.from_dict(yaml.safe_load(schema.text())) == schema
    assert schema.columns[2].span == (0, 1)
    for table in (first, *later):
        data = made_of(tmp_path, table.to_csv()).read_as(schema, targets=False)
        assert not [note for note in data.notes if "range" in note]
    for name, factor in (("pa", 1e-3), ("hours", 1e-3), ("hours", 3600.0), ("leased", 2.0)):
        table = later[0].assign(**{name: later[0][name] * factor})
        data = made_of(tmp_path, table.to_csv()).read_as(schema, targets=False)
        said = [note for note in data.notes if "outside the range" in note]
        assert len(said) == 1
        assert repr(name) in said[0]
        assert said[0].count("in training") == 1


def test_a_range_is_of_the_training_rows_and_that_of_the_edges_is_known_too(tmp_path):
    nodes = "id,size,y,split\n0,1,a,train\n1,3,b,train\n2,900,a,val\n3,2,b,test\n"
    edges = "a,b,w\n0,1,1\n1,2,2\n"
    data = made_of(tmp_path, nodes, edges, label="y", edge_features=["w"])
    assert data.schema.columns[0].span == (1, 3)
    assert data.schema.edge_columns[0].span == (1, 2)
    new = made_of(tmp_path, nodes, edges.replace("0,1,1", "0,1,1000").replace("1,2,2", "1,2,2000"))
    said = [note for note in new.read_as(data.schema, targets=False).notes if "range" in note]
    assert len(said) == 1
    assert "'w' (100%: 1,000 to 2,000, in training 1 to 2)" in said[0]


@pytest.mark.parametrize("mark", [-999, -9999, 9999])
def test_a_number_that_seems_to_mean_missing_is_said_with_its_count(tmp_path, mark):
    nodes = rows_of("y,size,kg", "abab", [0.5, mark, 2, mark], [1, 2, 3, 4])
    data = made_of(tmp_path, nodes, label="y")
    for notes in (data.notes, data.inspect().notes):
        said = [note for note in notes if "If that means missing" in note]
        assert len(said) == 1
        assert f"'size' is {mark} in 2 rows" in said[0]
    kept = made_of(tmp_path, rows_of("y,size", "abab", [1, 2, 3, 4]), label="y").schema
    new = made_of(tmp_path, nodes).read_as(kept, targets=False)
    assert [note for note in new.notes if f"'size' is {mark} in 2 rows" in note]


def test_numbers_of_nines_among_their_like_and_a_named_mark_are_no_matter(tmp_path):
    for values in ([990, 999, 1005, 10], [-40, -99, -70, 30], [999, 700, 300, 1]):
        data = made_of(tmp_path, rows_of("y,size", "abab", values), label="y")
        assert not [note for note in data.notes if "means missing" in note]
    nodes = rows_of("size,cost", [1, 2, 3, 4], [1.5, -999, 2, 3])
    said = made_of(tmp_path, nodes, targets=["cost"]).notes
    assert [note for note in said if "missing_label -999" in note]
    said = made_of(tmp_path, nodes, targets=["cost"], missing_label=-999.0).notes
    assert not [note for note in said if "means missing" in note]


def test_a_logarithm_of_numbers_below_zero_is_said(tmp_path):
    nodes = rows_of("y,size,kg", "abab", [-1, -5, 2, 3], [1, 2, 3, -4])
    methods = {"size": "log1p", "*": "standard"}
    said = made_of(tmp_path, nodes, label="y", standardize=methods).notes
    found = [note for note in said if "below zero" in note]
    assert len(found) == 1
    assert "'size' (2 rows)" in found[0]
    assert "kg" not in found[0]


def test_what_is_filled_in_is_counted_by_column_in_training_and_prediction(tmp_path):
    days = ["2024-01-01", "", "2024-02-01", "2024-03-01"]
    nodes = rows_of("y,size,kind,day", "abab", ["", 2, "", 4], ["u", "", "v", "u"], days)
    data = made_of(tmp_path, nodes, label="y", categories=["kind"], dates="days", fill="median")
    new = made_of(tmp_path, nodes).read_as(data.schema, targets=False)
    counted = "of 4 rows: 2 numbers of 'size', 1 dates of 'day', 1 categories of 'kind'."
    for notes in (data.notes, new.notes, data.inspect().notes):
        assert [note for note in notes if note.endswith(counted)]


def test_integers_that_look_like_dates_are_said_and_read_as_dates_if_they_are_named(tmp_path):
    nodes = rows_of("y,day,size", "aba", [20240131, 20240201, 20240301], [1, 2, 3])
    plain = made_of(tmp_path, nodes, label="y", dates="days")
    assert plain.batch.x[1].tolist() == [20240200, 2]  # float32 rounds it, which is said
    for notes in (plain.notes, plain.inspect().notes):
        said = [note for note in notes if "look like dates" in note]
        assert len(said) == 1
        assert "dates {day: days}" in said[0]
    assert "look like dates" in str(plain.inspect().tables)
    named = made_of(tmp_path, nodes, label="y", dates={"day": "days"})
    assert named.batch.x.tolist() == [[0, 1], [1, 2], [30, 3]]
    assert not [note for note in named.notes if "look like dates" in note]
    assert "feature: days" in str(named.inspect().tables)
    new = made_of(tmp_path, nodes).read_as(named.schema, targets=False)
    assert new.batch.x.tolist() == [[0, 1], [1, 2], [30, 3]]
    wrong = made_of(tmp_path, nodes.replace("20240301", "20241301")).read_as(
        named.schema, None, False
    )
    with pytest.raises(DataError, match="'day'.*is no date.*row 2"):
        _ = wrong.batch


def numbers_with(*odd: str) -> str:
    return rows_of("y,size", "ab" * 30, [*odd, *range(60 - len(odd))])


def test_a_few_odd_words_among_numbers_are_named_with_their_rows_and_not_dropped(tmp_path):
    data = made_of(tmp_path, numbers_with("1", "n/a?", "old"), label="y")
    with pytest.raises(DataError, match="text, 'n/a.', 'old', in row 1, 2 .*correct") as caught:
        _ = data.batch
    assert "data.drop" not in str(caught.value)
    assert "'n/a?'" in data.inspect().open[0]


def test_a_column_of_numbers_and_much_text_is_proposed_to_be_dropped(tmp_path):
    with pytest.raises(
        DataError, match="(?s)text, 'a', 'b', 'c', in row 0, 1, 2, ... 6.*data.drop"
    ):
        _ = made_of(tmp_path, numbers_with(*"abcdef"), label="y").batch


def test_decimal_commas_are_named_beside_an_odd_word_or_whole_numbers(tmp_path):
    commas = [f'"{value},25"' for value in range(40)]
    for odd in ([], ["n/a?"], ['"1,2e-05"']):
        nodes = rows_of("y,size", "ab" * 30, [*commas, *odd, *range(20 - len(odd))])
        with pytest.raises(DataError, match="decimal commas.*without commas") as caught:
            _ = made_of(tmp_path, nodes, label="y").batch
        assert "data.drop" not in str(caught.value)
    with pytest.raises(DataError, match="numbers with commas, '0,25', .*without commas"):
        _ = made_of(tmp_path, numbers_with(*commas[:20]), label="y").batch
