"""The values of a user's tables: infinite, missing, out of range, or written in other ways."""

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from torch_geometric.data import Data

from gnn_depth.data import DataError, GraphSource, UserGraph
from gnn_depth.data.notation import mark_among
from gnn_depth.data.schema import Schema
from tests.data.conftest import noted


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


@pytest.mark.parametrize(
    ("value", "options"),
    [("inf", {}), ("-inf", {"fill": "median", "standardize": "log1p"}), ("1e400", {})],
)
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
    with pytest.raises(DataError, match="(?s)e.csv.*'w'.*is no finite number .row 1"):
        _ = made_of(tmp_path, nodes, edges, targets=["cost"], edge_features=["w"]).batch


@pytest.mark.parametrize("standardize", ["none", "log1p"])
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
    (said,) = noted(data.notes, "size_0")
    assert "3 columns" in said


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
        assert not noted(data.notes, "range")
    for name, factor in (("pa", 1e-3), ("hours", 1e-3), ("hours", 3600.0), ("leased", 2.0)):
        table = later[0].assign(**{name: later[0][name] * factor})
        data = made_of(tmp_path, table.to_csv()).read_as(schema, targets=False)
        (said,) = noted(data.notes, "outside the range")
        assert repr(name) in said
        assert said.count("in training") == 1


def test_one_extreme_number_and_shares_in_place_of_percent_are_said(tmp_path):
    percent = [max(2.0 * row - 20, 0.0) for row in range(40)]
    schema = made_of(tmp_path, rows_of("y,p", "ab" * 20, percent), label="y").schema
    for new, share in (
        (percent, None),
        ([*percent[:-1], 500.0], None),
        ([*percent[:-1], 1e5], "2.5%"),
        ([*percent[:-1], -1e5], "2.5%"),
        ([number / 100 for number in percent], "100%"),
        ([number / 100 for number in percent[20:30]], None),
        ([0.0] * 40, None),
    ):
        data = made_of(tmp_path, rows_of("p", new)).read_as(schema, targets=False)
        said = noted(data.notes, "outside the range")
        assert len(said) == (share is not None), new
        assert not share or f"'p' ({share}, " in said[0]


def test_edges_that_are_repeated_for_the_first_time_are_said(tmp_path):
    nodes, edges = rows_of("y,size", "abab", [1, 2, 3, 4]), "a,b\n0,1\n1,0\n2,3\n"
    twice = edges + "0,1\n2,3\n"
    for first, new, options, count in (
        (edges, edges, {}, 0),
        (edges, twice, {}, 1),
        (twice, twice, {}, 0),
        (edges, twice, {"undirected": True}, 0),
        (edges, twice, {"repeated_edges": "sum"}, 0),
    ):
        schema = made_of(tmp_path, nodes, first, label="y", **options).schema
        notes = made_of(tmp_path, nodes, new).read_as(schema, targets=False).notes
        said = noted(notes, "of an earlier one")
        assert len(said) == count
    assert Schema.from_dict(yaml.safe_load(schema.text())) == schema


def test_a_range_is_of_the_training_rows_and_that_of_the_edges_is_known_too(tmp_path):
    nodes = "id,size,y,split\n0,1,a,train\n1,3,b,train\n2,90,a,val\n3,2,b,test\n"
    edges = "a,b,w\n0,1,1\n1,2,2\n"
    data = made_of(tmp_path, nodes, edges, label="y", edge_features=["w"])
    assert data.schema.columns[0].span == (1, 3)
    assert data.schema.edge_columns[0].span == (1, 2)
    new = made_of(tmp_path, nodes, edges.replace("0,1,1", "0,1,1000").replace("1,2,2", "1,2,2000"))
    (said,) = noted(new.read_as(data.schema, targets=False).notes, "range")
    assert "'w' (100%, 2 rows: 1,000 to 2,000, in training 1 to 2)" in said


@pytest.mark.parametrize("mark", [-999, 9999])
def test_a_number_that_seems_to_mean_missing_is_said_with_its_count(tmp_path, mark):
    nodes = rows_of("y,size,kg", "abab", [0.5, mark, 2, mark], [1, 2, 3, 4])
    data = made_of(tmp_path, nodes, label="y")
    for notes in (data.notes, data.inspect().notes):
        (said,) = noted(notes, "If that means missing")
        assert f"'size' is {mark} in 2 rows" in said
    kept = made_of(tmp_path, rows_of("y,size", "abab", [1, 2, 3, 4]), label="y").schema
    new = made_of(tmp_path, nodes).read_as(kept, targets=False)
    assert noted(new.notes, f"'size' is {mark} in 2 rows")


@pytest.mark.parametrize("option", ["edge_features", "edge_weight"])
def test_a_value_of_an_edge_that_seems_to_mean_missing_is_said_with_its_count(tmp_path, option):
    nodes, heading = rows_of("y,size", "abab", [1, 2, 3, 4]), "a,b,amount\n"
    plain = heading + "0,1,0.5\n1,2,2\n2,3,3\n"
    marked = heading + "0,1,0.5\n1,2,9999\n2,3,9999\n"
    chosen = {option: ["amount"] if option == "edge_features" else "amount"}
    kept = made_of(tmp_path, nodes, plain, label="y", **chosen)
    assert not noted(kept.notes, "means missing")
    new = made_of(tmp_path, nodes, marked).read_as(kept.schema, targets=False)
    trained = made_of(tmp_path, nodes, marked, label="y", **chosen)
    for notes in (new.notes, trained.notes):
        (note,) = noted(notes, "If that means missing")
        assert "'amount' is 9999 in 2 rows" in note
        assert "every edge needs a" in note


def test_numbers_with_commas_and_dates_of_edges_are_named_as_those_of_nodes(tmp_path):
    nodes, heading = rows_of("y,size", "abab", [1, 2, 3, 4]), "a,b,amount\n"
    for second, words in (
        ("2,000", "thousands separators.*without commas"),
        ("7", "numbers with commas, '1,515', in row 0 .*without commas"),
    ):
        edges = f'{heading}0,1,"1,515"\n1,2,"{second}"\n2,3,{second[0]}\n3,0,4\n'
        with pytest.raises(DataError, match=f"'amount' cannot.*{words}"):
            _ = made_of(tmp_path, nodes, edges, label="y", edge_features=["amount"]).batch
    edges = heading + "0,1,20240131\n1,2,20240201\n"
    notes = made_of(tmp_path, nodes, edges, label="y", edge_features=["amount"]).notes
    assert len(noted(notes, "look like dates")) == 1


def test_weights_of_edges_in_other_units_are_said(tmp_path):
    nodes, edges = rows_of("y,size", "abab", [1, 2, 3, 4]), "a,b,w\n0,1,1\n1,2,2\n2,3,3\n"
    schema = made_of(tmp_path, nodes, edges, label="y", edge_weight="w").schema
    assert schema.edge_weight_span == (1, 3)
    assert Schema.from_dict(yaml.safe_load(schema.text())) == schema
    other = edges.replace(",1\n", ",1000\n").replace(",2\n", ",2000\n")
    for table, count in ((edges, 0), (other, 1)):
        notes = made_of(tmp_path, nodes, table).read_as(schema, targets=False).notes
        said = noted(notes, "outside the range")
        assert len(said) == count
    assert "'w' (" in said[0]


@pytest.mark.parametrize("name", ["kFold", "cv_fold_1", "partition"])
def test_a_column_that_may_number_a_split_is_said_and_proposed_to_be_left_out(tmp_path, name):
    sizes = [row + 0.5 for row in range(30)]
    nodes = rows_of(f"y,size,{name}", "ab" * 15, sizes, [0, 1, 2] * 10)
    data = made_of(tmp_path, nodes, label="y")
    assert data.batch.x.shape == (30, 2)
    (said,) = noted(data.notes, "parts of a split")
    assert repr(name) in said
    for chosen in ({"features": ["size", name]}, {"drop": [name]}):
        notes = made_of(tmp_path, nodes, label="y", **chosen).notes
        assert not noted(notes, "parts of a split")
    found = made_of(tmp_path, nodes).inspect()
    assert found.options["data.drop"] == [name]
    assert found.options["data.label"] == "y"
    found = made_of(tmp_path, nodes.replace("y,size", "group,size")).inspect()
    assert found.options["data.label"] == "group"
    words = nodes.replace(",0\n", ",training\n").replace(",1\n", ",held out\n")
    with pytest.raises(DataError, match=f"'{name}'.*split takes train, val and test"):
        _ = made_of(tmp_path, words.replace(",2\n", ",later\n"), label="y").batch


def test_a_split_is_not_guessed_from_numbers_of_many_values_or_other_names(tmp_path):
    nodes = rows_of("y,skin_fold,manifold", "ab" * 20, range(40), [0, 1] * 20)
    data = made_of(tmp_path, nodes, label="y")
    assert not noted(data.notes, "parts of a split")
    assert "data.drop" not in data.inspect().options


def test_a_mark_of_the_training_that_new_tables_lack_is_no_matter(tmp_path):
    nodes = rows_of("cost,size", [1.5, -999, 2, 3], [1, 2, 3, 4])
    trained = made_of(tmp_path, nodes, targets=["cost"], missing_label=-999.0)
    whole = nodes.replace("-999", "4")
    for table, options in ((nodes, {}), (whole, {})):
        new = made_of(tmp_path, table, **options).read_as(trained.schema)
        assert not noted(new.notes, "no y has this value")
    own = made_of(tmp_path, whole, missing_label=-7.0).read_as(trained.schema)
    assert noted(own.notes, "missing_label is -7.0, and no y")


def test_columns_that_were_left_out_stay_so_beside_those_that_are_proposed(tmp_path):
    texts = [f"text {row}" for row in range(30)]
    nodes = rows_of("y,size,one,two", "ab" * 15, range(30), texts, texts)
    data = made_of(tmp_path, nodes, label="y", drop=["one"])
    assert data.inspect().options["data.drop"] == ["one", "two"]
    with pytest.raises(DataError, match=r"--data.drop '\[one, two\]'"):
        _ = data.batch


def test_numbers_of_nines_among_their_like_and_a_named_mark_are_no_matter(tmp_path):
    for values in ([990, 999, 1005, 10], [-40, -99, -70, 30], [999, 700, 300, 1]):
        data = made_of(tmp_path, rows_of("y,size", "abab", values), label="y")
        assert not noted(data.notes, "means missing")
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


def test_the_first_numbers_below_zero_of_a_logarithm_are_said_in_a_prediction(tmp_path):
    nodes = rows_of("y,size,kg", "abab", [1, 5, 2, 3], [1, 2, 3, -4])
    edges = "a,b,w\n0,1,1\n1,2,2\n2,3,3\n"
    options = {"standardize": "log1p", "edge_features": ["w"], "edge_standardize": "log1p"}
    schema = made_of(tmp_path, nodes, edges, label="y", **options).schema
    new = nodes.replace(",5,", ",-5,"), edges.replace("1,2,2", "1,2,-2")
    said = made_of(tmp_path, *new).read_as(schema, targets=False).notes
    found = [note for note in said if "below zero" in note]
    assert len(found) == 2
    assert "'size' (1 rows)" in found[0]
    assert "'w' (1 rows)" in found[1]
    assert "kg" not in found[0], "it was so in the training"
    said = made_of(tmp_path, new[0], new[1], label="y", **options).notes
    assert len([note for note in said if "below zero" in note]) == 2


@pytest.mark.parametrize("mark", ["1900-01-01", "9999-12-31", "0001-01-01"])
def test_a_date_that_seems_to_mean_missing_is_said_in_training_and_prediction(tmp_path, mark):
    days = ["2024-01-01", "2024-02-01", "2024-03-01", "2024-05-01"]
    marked = [*days[:2], mark, mark]
    plain = made_of(tmp_path, rows_of("y,day", "abab", days), label="y", dates="days")
    assert not noted(plain.notes, "means missing")
    new = made_of(tmp_path, rows_of("day", marked)).read_as(plain.schema, targets=False)
    trained = made_of(tmp_path, rows_of("y,day", "abab", marked), label="y", dates="days")
    expected = (np.datetime64(mark) - np.datetime64("2024-01-01")).astype(int)
    assert new.batch.x.flatten().tolist() == [0, 31, expected, expected]
    assert trained.batch.x.diff(dim=0)[0] == 31
    for notes in (new.notes, trained.notes):
        (said,) = noted(notes, "If that means missing")
        assert f"'day' is {mark} in 2 rows" in said


def test_the_sizes_of_columns_are_no_matter_once_a_model_is_trained(tmp_path):
    nodes = rows_of("y,size,kg", "abab", [1, 5, 2, 3], [1000, 2000, 3000, 4000])
    edges = "a,b,v,w\n0,1,1,1000\n1,2,2,2000\n2,3,3,3000\n"
    data = made_of(tmp_path, nodes, edges, label="y", edge_features=["v", "w"])
    assert len(noted(data.notes, "very different size")) == 2
    new = made_of(tmp_path, nodes, edges).read_as(data.schema, targets=False)
    assert not noted(new.notes, "very different size")


def test_a_date_without_end_is_one_in_digits_too(tmp_path):
    nodes = rows_of("y,day", "abab", [20240131, 20240201, 20240301, 99991231])
    found = made_of(tmp_path, nodes, label="y").inspect()
    assert found.options["data.dates"] == {"day": "days"}
    assert noted(found.notes, "'day' is 9999-12-31 in 1 rows")


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
        said = noted(notes, "look like dates")
        assert len(said) == 1
        assert "dates {day: days}" in said[0]
    assert "look like dates" in str(plain.inspect().tables)
    for table, words in (
        (nodes, {"day": "days"}),
        (
            rows_of("y,day,on", "aba", [20240131] * 3, ["2024-01-01"] * 3),
            {"day": "days", "*": "days"},
        ),
    ):
        found = made_of(tmp_path, table, label="y").inspect()
        assert found.options["data.dates"] == words
        assert "feature: days, standard (proposed)" in str(found.tables)
        assert not noted(found.notes, "look like dates")
    named = made_of(tmp_path, nodes, label="y", dates={"day": "days"})
    assert named.batch.x.tolist() == [[0, 1], [1, 2], [30, 3]]
    assert not noted(named.notes, "look like dates")
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


@pytest.mark.parametrize(
    ("others", "mark", "is_mark"),
    [
        ([661, 1200.5, 13178, 4000], -1, True),
        ([100.5, 99, 101, 120], -1, True),
        ([0.1, 0.5, 0.9, 0.3], -1, True),
        ([0, 0, 0, 1, 2, 3], -1, True),
        ([3, 5, 4, 6], -9, True),
        ([1, 2, 3, 4], 9999, True),
        ([1, 2, 3, 4], 100_000, True),
        ([0, 1], -1, False),  # three classes
        ([-2, 0, 1, 2], -1, False),
        ([0, 1, 2, 2, 2, 3], -1, False),  # as of a temperature
        ([3.5, -2, 7, 9], -1, False),
    ],
)
def test_a_number_of_another_sign_or_far_away_that_is_repeated_is_a_mark(others, mark, is_mark):
    found = mark_among(np.array([*others * 2, *[mark] * 4], float))
    assert found == ((mark, 4) if is_mark else None)


@pytest.mark.parametrize(("mark", "is_said"), [(-999.0, True), (-1.0, True), (150.0, False)])
def test_a_number_that_may_mean_missing_is_said_of_the_targets_of_a_graph_in_memory(mark, is_said):
    y = torch.linspace(100, 200, 60)
    y[::9] = mark
    graph = Data(x=torch.ones(60, 1), y=y, edge_index=torch.tensor([[0], [1]]))
    said = noted(GraphSource(graph).notes, "missing_label")
    assert bool(said) == is_said, said
    if is_said:
        assert f"y is {mark:g} in 7 rows" in said[0]
        again = GraphSource(graph, missing_label=mark)
        assert not noted(again.notes, "If that means missing")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_each_column_of_targets_is_looked_at_by_itself_in_any_precision(dtype):
    y = torch.stack([torch.linspace(100, 200, 60), torch.linspace(-3, 4, 60)], 1)
    y[::9, 0] = -999
    graph = Data(x=torch.ones(60, 1), y=y.to(dtype), edge_index=torch.tensor([[0], [1]]))
    said = noted(GraphSource(graph).notes, "missing_label")
    assert len(said) == 1, said
    assert "in 7 rows" in said[0]


def test_ordinary_numbers_have_no_mark_of_a_missing_one():
    for seed in range(10):
        draw = np.random.default_rng(seed)
        for size in (50, 500, 5000):
            for values in (
                draw.normal(0, 1, size),
                draw.normal(100, 20, size).round(),
                draw.lognormal(5, 1, size).round(2),
                draw.poisson(1, size).astype(float),
                draw.integers(0, 2, size).astype(float),
                draw.integers(-1, 2, size).astype(float),
            ):
                assert mark_among(values) is None


def test_missing_values_of_edges_are_filled_as_those_of_nodes(tmp_path):
    nodes = rows_of("y,size", "abab", [1, 2, 3, 4])
    edges = "a,b,w,kind\n0,1,1,x\n1,2,,y\n2,3,5,\n3,0,9,x\n"
    chosen = {"label": "y", "edge_features": ["w", "kind"], "train_fraction": 1.0}
    chosen["val_fraction"] = 0.0
    with pytest.raises(DataError, match="(?s)'w': is missing.*'kind': is missing.*fill"):
        _ = made_of(tmp_path, nodes, edges, **chosen).batch
    assert made_of(tmp_path, nodes, edges, **chosen).inspect().options["data.fill"] == "median"
    for fill, value in (("mean", 5), ("median", 5), ("zero", 0)):
        data = made_of(tmp_path, nodes, edges, fill=fill, **chosen)
        found = data.batch.graph.edge_attr.tolist()
        assert found == [[9, 1, 0], [1, 1, 0], [value, 0, 1], [5, 0, 0]]  # in the order of targets
        assert len(noted(data.notes, "filled in, of 4 edges")) == 1
        schema = Schema.from_dict(yaml.safe_load(data.schema.text()))
        new = made_of(tmp_path, rows_of("size", [1, 2, 3, 4]), edges)
        assert new.read_as(schema, targets=False).batch.graph.edge_attr.tolist() == found


@pytest.mark.parametrize("rule", ["sum", "mean"])
def test_a_sum_of_edges_of_which_a_part_is_missing_is_refused(tmp_path, rule):
    nodes = rows_of("y,size", "abab", [1, 2, 3, 4])
    edges = "a,b,w\n0,1,1\n0,1,\n1,2,5\n"
    chosen = {"edge_features": ["w"], "fill": "zero", "repeated_edges": rule}
    with pytest.raises(DataError, match="(?s)'w': is missing .row 1.*not of edges that repeated"):
        _ = made_of(tmp_path, nodes, edges, label="y", **chosen).batch
    schema = made_of(tmp_path, nodes, edges.replace("1,\n", "1,2\n"), label="y", **chosen).schema
    assert schema.edge_columns[0].fill is None
    new = made_of(tmp_path, nodes, edges).read_as(schema, targets=False)
    with pytest.raises(DataError, match="'w': is missing .row 1"):
        _ = new.batch
