"""Scaling, dates, missing values and what a schema keeps of them."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import RobustScaler, StandardScaler

from gnn_depth.data import DataError, GraphSource, SyntheticCitation, UserGraph
from gnn_depth.data.schema import Column, Scaling, Schema
from gnn_depth.data.targets import as_trained, read_targets

EIGHTHS = st.integers(-8_000_000, 8_000_000).map(lambda number: number / 8)
NUMBERS = st.lists(EIGHTHS, min_size=2, max_size=20)


@given(NUMBERS, NUMBERS)
def test_scalings_are_those_of_scikit_learn_and_can_be_undone(train, new):
    known, later = torch.tensor(train).double(), torch.tensor(new).double()
    makers = {"standard": (StandardScaler, lambda x: x), "robust": (RobustScaler, lambda x: x)}
    makers["log1p"] = StandardScaler, lambda x: x.sign() * x.abs().log1p()
    for method, (make, curve) in makers.items():
        scaling = Scaling.fit(method, known)
        theirs = make().fit(curve(known)[:, None].numpy())
        expected = theirs.transform(curve(later)[:, None].numpy())[:, 0]
        np.testing.assert_allclose(scaling.apply(later), expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(scaling.undo(scaling.apply(later)), later, rtol=1e-6, atol=1e-3)


def test_equal_and_missing_numbers_are_scaled_without_a_division_by_zero():
    for method in ("standard", "robust", "log1p"):
        assert Scaling.fit(method, torch.full((5,), 1e9)).scale == 1
        assert Scaling.fit(method, torch.tensor([torch.nan])) == Scaling(method, 0.0, 1.0)
        known = Scaling.fit(method, torch.tensor([1.0, torch.nan, 3.0]))
        assert known == Scaling.fit(method, torch.tensor([1.0, 3.0]))


def source(**options) -> GraphSource:
    rng = np.random.default_rng(0)
    mask = np.arange(20)
    arrays = {
        "x": rng.normal(1e4, 1e3, size=(20, 3)),
        "y": mask % 2,
        "edge_index": rng.integers(20, size=(2, 30)),
        "train_mask": mask < 10,
        "val_mask": (mask >= 10) & (mask < 15),
        "test_mask": mask >= 15,
    }
    return GraphSource(arrays, **options)


def test_scalings_are_fitted_on_the_training_rows_only():
    raw, batch = source().batch.x.double(), source(standardize="standard").batch
    train = batch.x[batch.train_mask].double()
    torch.testing.assert_close(train.mean(0), torch.zeros(3).double(), rtol=0, atol=1e-4)
    torch.testing.assert_close(
        train.std(0, correction=0), torch.ones(3).double(), rtol=1e-3, atol=0
    )
    mean, spread = raw[:10].mean(0), raw[:10].std(0, correction=0)
    torch.testing.assert_close(batch.x.double(), (raw - mean) / spread, rtol=1e-3, atol=1e-3)


def test_columns_may_be_scaled_one_by_one():
    plain, some = source().batch.x, source(standardize={"1": "robust"}).batch.x
    assert torch.equal(plain[:, [0, 2]], some[:, [0, 2]])
    assert some[:10, 1].quantile(0.5).abs() < 1e-4
    every = source(standardize={"1": "none", "*": "standard"}).batch.x
    assert torch.equal(every[:, 1], plain[:, 1])
    assert every[:, [0, 2]].abs().max() < 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"standardize": "standart"}, "standardize 'standart'.*'standard'"),
        ({"standardize": {"7": "robust"}}, "column of standardize '7'.*0, 1, 2"),
        ({"scale_target": "standard"}, "scale_target is for numbers.*multiclass"),
    ],
)
def test_scalings_that_do_not_exist_or_fit_are_refused(options, words):
    with pytest.raises(DataError, match=words):
        _ = source(**options).batch


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UserGraph]:
    """``table(column=values, ...)``: a data set of a table with these columns, all to train on."""
    monkeypatch.chdir(tmp_path)

    def make(values: dict, **options) -> UserGraph:
        count = len(next(iter(values.values())))
        nodes = pd.DataFrame({"id": range(count), "y": [k % 2 for k in range(count)], **values})
        nodes.assign(split="train").to_csv("nodes.csv", index=False)
        Path("edges.csv").write_text("s,t\n0,1\n")
        return UserGraph("edges.csv", nodes="nodes.csv", label="y", **options)

    return make


def test_days_are_counted_from_the_first_date_and_cycles_return_after_a_year_and_a_week(table):
    dates = ["2021-03-01", "2021-03-08", "2022-03-01 06:00"]
    data = table({"d": dates}, dates="days")
    assert data.batch.x.flatten().tolist() == [0, 7, 365.25]
    x = table({"d": dates}, dates="cyclic").batch.x
    assert x.shape == (3, 4)
    torch.testing.assert_close(x[:, ::2] ** 2 + x[:, 1::2] ** 2, torch.ones(3, 2))
    torch.testing.assert_close(x[0, 2:], x[1, 2:], rtol=0, atol=1e-3)  # a week later
    torch.testing.assert_close(x[0, :2], x[2, :2], rtol=0, atol=1e-2)  # a year later
    assert (x[0, :2] - x[1, :2]).norm() > 0.1
    both = table({"d": dates, "e": dates}, dates={"d": "days", "e": "cyclic"})
    assert [column.width for column in both.schema.columns] == [1, 4]
    with pytest.raises(DataError, match="dates 'weekly'.*cyclic, days"):
        _ = table({"d": dates}, dates="weekly").batch


@pytest.mark.parametrize(("fill", "expected"), [("mean", 4), ("median", 2), ("zero", 0)])
def test_missing_numbers_are_filled_and_missing_categories_are_none(table, fill, expected):
    columns = {"n": [1, None, 2, 9], "c": ["a", "b", "", "a"]}
    data = table(columns, fill=fill, categories=["c"])
    assert data.batch.x.tolist() == [[1, 1, 0], [expected, 0, 1], [2, 0, 0], [9, 1, 0]]
    scaled = table(columns, fill=fill, categories=["c"], standardize="standard").batch.x
    assert scaled[:, 0].mean().abs() < 1e-6


def test_columns_that_are_dropped_are_not_read(table):
    assert table({"n": [1, 2], "text": ["a", "b"]}, drop=["text"]).batch.x.tolist() == [[1], [2]]
    with pytest.raises(DataError, match="unknown column 'txt'.*'text'"):
        _ = table({"n": [1, 2], "text": ["a", "b"]}, drop=["txt"]).batch


def test_a_large_target_is_scaled_by_its_training_rows(table):
    data = table({"price": [1e9, 3e9]}, scale_target="standard")
    data.columns = data.columns.__class__(None, targets=["price"], features=["y"])
    assert data.schema.targets_scaling == (Scaling("standard", 2e9, 1e9),)
    assert data.batch.y.tolist() == [1e9, 3e9], "the units of the table"


def test_every_data_set_has_a_schema_of_its_shape():
    data = SyntheticCitation(
        num_nodes=40,
        num_edges=60,
        num_features=5,
        num_classes=2,
        num_train_per_class=3,
        num_val=5,
        num_test=5,
    )
    assert data.schema.num_features == 5
    assert data.schema.train_counts == (3, 3)
    other = Schema(4, "multiclass", ("0", "1"))
    with pytest.raises(DataError, match="num_features 4, and this data has 5"):
        data.read_as(other)
    assert data.read_as(data.schema) is data


classes = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=8)


@given(classes.filter(any))
def test_classes_keep_the_numbers_of_the_training_whichever_are_there(names):
    schema = Schema(3, "multiclass", ("c", "a", "b"))
    found = as_trained(read_targets(np.array(names, object), "nodes"), schema, "error")
    expected = [schema.outputs.index(name) if name else 0 for name in names]
    assert found.y.tolist() == expected
    assert found.labelled.tolist() == [bool(name) for name in names]


def test_a_class_that_the_model_does_not_know_is_refused_or_left_out():
    schema = Schema(3, "multiclass", ("art", "law"))
    found = read_targets(np.array(["law", "ort", "ort"], object), "nodes")
    with pytest.raises(DataError, match=r"2 rows, first y\[1\] 'ort'.*'art'"):
        as_trained(found, schema, "error")
    ignored = as_trained(found, schema, "ignore")
    assert ignored.labelled.tolist() == [True, False, False]
    assert "in no mask" in ignored.notes[-1]
    with pytest.raises(DataError, match="trained for regression"):
        as_trained(found, Schema(3, "regression", ("price",)), "error")


def test_no_schema_is_refused():
    with pytest.raises(ValueError, match="no schema"):
        Schema.from_dict({"width": 3})
    column = Column("when", "date", dates="cyclic")
    schema = Schema(4, "multiclass", ("0",), columns=(column,), named=True)
    assert Schema.from_dict(schema.as_dict()) == schema
    assert len(column.features) == column.width == 4
    assert math.isclose(column.mean, 0)
