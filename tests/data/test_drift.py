"""What is said of new data that is unlike the data of the training."""

import numpy as np
import pandas as pd
import pytest
import torch

from gnn_depth.data import GraphSource, UserGraph
from gnn_depth.data.drift import out_of_range
from gnn_depth.data.notation import mark_among
from gnn_depth.data.scaling import fit_columns
from gnn_depth.data.schema import Column
from tests.data.conftest import noted

SIZES = (50, 300, 5000)
NAMES = ("normal", "balance", "income", "age", "rare", "count", "two", "days")


def drawn(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Columns as they are in tables of one month."""
    draw = np.random.default_rng(seed)
    return {
        "normal": draw.normal(0, 3, rows),
        "balance": draw.lognormal(9, 1.2, rows),
        "income": draw.lognormal(8, 0.5, rows),
        "age": draw.integers(18, 90, rows),
        "rare": draw.random(rows) < 0.02,
        "count": draw.poisson(2, rows),
        "two": draw.choice([3.0, 8.0], rows),
        "days": draw.integers(0, 2500, rows),
    }


def features(table: dict[str, np.ndarray]) -> torch.Tensor:
    return torch.tensor(np.stack([table[name].astype(float) for name in NAMES], 1))


def trained_on(table: dict[str, np.ndarray]) -> tuple[Column, ...]:
    columns = [Column(name) for name in NAMES[:-1]]
    columns.append(Column("days", "date", dates="days", first="2018-01-01"))
    x = features(table)
    rows = torch.ones(len(x), dtype=torch.bool)
    return fit_columns(columns, x, rows, dict.fromkeys(NAMES, "standard"), "error")


@pytest.mark.parametrize("trained_rows", SIZES)
@pytest.mark.parametrize("rows", SIZES)
def test_more_rows_of_the_same_kind_are_no_matter(trained_rows: int, rows: int):
    for seed in range(10):
        columns = trained_on(drawn(trained_rows, seed))
        assert out_of_range(columns, features(drawn(rows, 100 + seed))) == []


def changed(table: dict[str, np.ndarray], change: str) -> dict[str, np.ndarray]:
    rows = len(table["age"])
    part = {name: values.astype(float) for name, values in table.items()}
    if change == "every second age in months":
        part["age"][::2] *= 12
    elif change == "every tenth balance in cents":
        part["balance"][::10] *= 1e5
    elif change == "exchanged":
        part["balance"], part["income"] = part["income"], part["balance"]
    elif change == "constant":
        part["age"] = np.full(rows, 40.0)
    elif change == "later dates":
        part["days"] += 2500
    elif change == "earlier dates":
        part["days"] -= 33 * 365
    elif change == "one date":
        part["days"] = np.full(rows, 66_473.0)
    return part


@pytest.mark.parametrize("rows", [100, 800])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("every second age in months", "'age' (50%"),
        ("every tenth balance in cents", "'balance' (10"),
        ("exchanged", "'income' ("),
        ("constant", "'age' is 40 in all"),
        ("later dates", "in training 2018-01-0"),
        ("earlier dates", "'days' (100%"),
        ("one date", "2199-12-31 to 2199-12-31"),
    ],
)
def test_other_units_exchanged_columns_constants_and_other_dates_are_said(rows, change, words):
    columns = trained_on(drawn(900, 0))
    said = out_of_range(columns, features(changed(drawn(rows, 7), change)))
    assert len(said) == 1
    assert words in said[0]
    if change == "every second age in months":
        assert f"{rows // 2:,} rows" in said[0]


def test_dates_of_a_table_have_their_span_in_the_schema_and_a_prediction_says_when_they_leave_it(
    tmp_path,
):
    def made_of(since: pd.Series, **options) -> UserGraph:
        nodes = pd.DataFrame({"since": since.astype(str), "y": ["a", "b"] * 30})
        nodes.to_csv(tmp_path / "n.csv", index_label="id")
        (tmp_path / "e.csv").write_text("a,b\n0,1\n")
        return UserGraph(str(tmp_path / "e.csv"), str(tmp_path / "n.csv"), **options)

    dates = pd.Series(pd.date_range("2020-01-01", periods=60, freq="7D"))
    schema = made_of(dates, label="y", dates="days").schema
    assert schema.columns[0].span[0] >= 0
    for years, count in ((0, 0), (5, 1)):
        new = made_of(dates + pd.DateOffset(years=years)).read_as(schema, targets=False)
        said = noted(new.notes, "dates outside")
        assert len(said) == count
        assert all("2025-01-01 to 2026-02-17" in note for note in said)


def test_features_without_names_in_another_unit_are_said():
    def made_of(x: np.ndarray) -> GraphSource:
        edges = np.array([range(99), range(1, 100)])
        return GraphSource({"x": x, "y": np.arange(100) % 2, "edge_index": edges})

    draw = np.random.default_rng(0)
    drawn = [draw.uniform(10, 20, (100, 3)) for _ in range(2)]
    schema = made_of(drawn[0]).schema
    assert not schema.named
    assert [len(column.span) for column in schema.columns] == [2, 2, 2]
    new = drawn[1].copy()
    new[:, 1] *= 100
    for x, count in ((drawn[1], 0), (new, 1)):
        data = made_of(x).read_as(schema, targets=False)
        said = noted(data.notes, "outside the range")
        assert len(said) == count
        assert all("'1' (100%, 100 rows: 1" in note for note in said)
        np.testing.assert_allclose(data.batch.x, x, rtol=1e-6)
    words = made_of((draw.random((100, 3)) < 0.5).astype(float))
    assert words.schema.columns == ()
    assert words.schema.flags == (0, 1, 2)


@pytest.mark.parametrize(("share", "is_mark"), [(0.3, True), (0.1, False)])
def test_minus_one_below_a_scale_from_0_is_a_mark_if_it_stands_out(share, is_mark):
    draw = np.random.default_rng(0)
    scale = np.clip(draw.normal(7, 2, 3000).round(), 0, 10)
    found = mark_among(np.where(draw.random(3000) < share, -1.0, scale))
    assert (found is not None) == is_mark
    assert found is None or found[0] == -1
