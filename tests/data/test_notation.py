"""Numbers and dates as people write them: decimal commas, days first, signs of currencies."""

import numpy as np
import pandas as pd
import pytest

from gnn_depth.data import DataError, UserGraph

ROWS = 40
EDGES = pd.DataFrame({"a": range(ROWS), "b": [*range(1, ROWS), 0], "sum": np.arange(ROWS) + 0.5})


def customers() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": range(ROWS),
            "debt": draw.normal(0, 1, ROWS).round(2) * 1e4,
            "since": pd.date_range("2020-01-01", periods=ROWS, freq="17D").strftime("%Y-%m-%d"),
            "risk": ["low", "high"] * (ROWS // 2),
        }
    )


def made_of(folder, nodes: pd.DataFrame, **options) -> UserGraph:
    """A graph of the table, written with points and commas."""
    nodes.to_csv(folder / "n.csv", index=False)
    EDGES.to_csv(folder / "e.csv", index=False)
    given = {"label": "risk", "dates": "days"} | options
    return UserGraph(str(folder / "e.csv"), str(folder / "n.csv"), **given)


def german(folder, **options) -> UserGraph:
    """The same graph as a German spreadsheet writes it."""
    nodes = customers()
    nodes["since"] = pd.to_datetime(nodes.since).dt.strftime("%d.%m.%Y")
    nodes.to_csv(folder / "n.csv", index=False, sep=";", decimal=",")
    EDGES.to_csv(folder / "e.csv", index=False, sep=";", decimal=",")
    given = {"label": "risk", "dates": "days"} | options
    return UserGraph(str(folder / "e.csv"), str(folder / "n.csv"), **given)


def test_a_german_table_is_read_as_the_same_with_points(tmp_path):
    data = german(tmp_path, decimal=",", date_format="%d.%m.%Y", edge_features=["sum"])
    plain = made_of(tmp_path / "..", customers(), edge_features=["sum"])
    assert data.batch.x.equal(plain.batch.x)
    assert data.batch.graph.edge_attr.equal(plain.batch.graph.edge_attr)


def test_inspect_proposes_decimals_and_dates_with_which_the_table_is_read(tmp_path):
    found = german(tmp_path).inspect()
    assert not found.open
    assert found.options["data.decimal"] == ","
    assert found.options["data.date_format"] == ["%d.%m.%Y"]
    roles = {name: role for name, _, role in found.tables[0][1]}
    assert "feature" in roles["debt"]
    assert "days" in roles["since"]


def test_without_the_options_both_are_named(tmp_path):
    with pytest.raises(DataError) as caught:
        _ = german(tmp_path).batch
    said = str(caught.value)
    assert "--data.decimal ," in said
    assert "--data.date_format '%d.%m.%Y'" in said
    assert "--data.drop" not in said


def test_a_trained_model_says_which_option_reads_another_notation(tmp_path):
    schema = made_of(tmp_path, customers()).schema
    data = german(tmp_path, label=None, dates=None).read_as(schema, targets=False)
    with pytest.raises(DataError) as caught:
        _ = data.batch
    for words in ("'debt'", "--data.decimal ,", "'since'", "'%d.%m.%Y'"):
        assert words in str(caught.value)
    read = german(tmp_path, label=None, dates=None, decimal=",", date_format=["%d.%m.%Y"])
    assert read.read_as(schema, targets=False).batch.x.shape == (ROWS, 2)


@pytest.mark.parametrize(
    ("written", "numbers", "noted"),
    [
        (["1.004,50", "2,5", "17"], [1004.5, 2.5, 17], True),
        (["1.004", "2.500", "17"], [1004, 2500, 17], True),
        (["3559.84", "2.5", "17"], [3559.84, 2.5, 17], False),
        (["-1,5e3", "2", "17"], [-1500, 2, 17], False),
        (["1", "2", "17"], [1, 2, 17], False),
    ],
)
def test_a_point_beside_decimal_commas_is_between_thousands(tmp_path, written, numbers, noted):
    nodes = customers().drop(columns="since")
    nodes["debt"] = (written * ROWS)[:ROWS]
    data = made_of(tmp_path, nodes, decimal=",", dates=None)
    assert data.batch.x[:3, 0].tolist() == pytest.approx(numbers)
    assert any("between thousands" in note for note in data.notes) == noted


def test_text_among_numbers_with_commas_is_named_by_its_row(tmp_path):
    nodes = customers().drop(columns="since")
    nodes["debt"] = [f"{row},5" for row in range(ROWS)]
    nodes.loc[7, "debt"] = "abc"
    with pytest.raises(DataError, match="'debt' is abc.*'abc', in row 7 .from 0"):
        _ = made_of(tmp_path, nodes, decimal=",", dates=None).batch


@pytest.mark.parametrize("bad", ["03.05.2020", "2", "soon"])
def test_a_bad_date_is_named_by_row_and_value_and_its_column_stays_one_of_dates(tmp_path, bad):
    nodes = customers()
    nodes.loc[7, "since"] = bad
    data = made_of(tmp_path, nodes)
    with pytest.raises(DataError) as caught:
        _ = data.batch
    said = str(caught.value)
    assert f"row 7 (from 0): 'since' is {bad}" in said
    assert "correct these cells" in said
    assert "drop [" not in said
    assert "--data.drop '[since]'" not in said
    assert "row 7" in data.inspect().open[0]


def test_dates_in_which_day_and_month_may_be_either_are_not_guessed(tmp_path):
    nodes = customers()
    nodes["since"] = [f"{row % 12 + 1:02}/{row % 11 + 1:02}/2020" for row in range(ROWS)]
    data = made_of(tmp_path, nodes)
    with pytest.raises(DataError, match="day is first.*'%d/%m/%Y'.*month is: '%m/%d/%Y'"):
        _ = data.batch
    assert data.inspect().open
    first = made_of(tmp_path, nodes, date_format="%d/%m/%Y").batch.x[:, 1]
    assert not first.equal(made_of(tmp_path, nodes, date_format="%m/%d/%Y").batch.x[:, 1])
    nodes.loc[3, "since"] = "31/01/2020"
    assert made_of(tmp_path, nodes).inspect().options["data.date_format"] == ["%d/%m/%Y"]


def test_a_format_needs_day_month_and_year(tmp_path):
    with pytest.raises(DataError, match="'%m/%Y' must have a day"):
        made_of(tmp_path, customers(), date_format="%m/%Y")


@pytest.mark.parametrize("form", ["€ {}", "{}€", "{} EUR"])
def test_a_column_with_a_sign_is_not_proposed_to_be_left_out(tmp_path, form):
    nodes = customers()
    nodes["debt"] = [form.format(value) for value in nodes.debt]
    data = made_of(tmp_path, nodes)
    with pytest.raises(DataError) as caught:
        _ = data.batch
    sign = form.replace("{}", "").strip()
    assert f"str.replace({sign!r}, '')" in str(caught.value)
    assert "data.drop" not in str(caught.value)
    assert "debt" not in data.inspect().options.get("data.drop", [])


@pytest.mark.parametrize(
    ("date", "form"),
    [("9999-12-31", "days"), ("0001-01-01", "days"), ("1066-10-14", "cyclic")],
)
def test_dates_beyond_nanoseconds_are_read(tmp_path, date, form):
    nodes = customers()
    nodes.loc[5:9, "since"] = date
    data = made_of(tmp_path, nodes, dates=form)
    assert data.batch.x.isfinite().all()
    assert not data.inspect().open
    days = (np.datetime64(date) - np.datetime64("2020-01-01")).astype(int)
    if form == "days":
        first = min(days, 0)
        assert data.batch.x[5, 1].item() == days - first
    trained = made_of(tmp_path, customers(), dates=form).schema
    made_of(tmp_path, nodes)
    new = UserGraph(str(tmp_path / "e.csv"), str(tmp_path / "n.csv"))
    assert new.read_as(trained, targets=False).batch.x.isfinite().all()
