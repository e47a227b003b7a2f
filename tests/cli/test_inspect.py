"""``inspect`` shows columns, types and roles, and the command that it prints trains."""

import shlex

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import QUIET

TABLES = ["nodes.csv", "edges.csv"]


@pytest.fixture(autouse=True)
def tables(gnn_depth):
    count = np.arange(20)
    nodes = pd.DataFrame({"id": count, "age": count / 3, "old": count > 9})
    nodes.loc[3, "age"] = np.nan
    nodes.to_csv("nodes.csv", index=False)
    # In pairs of one class, and two edges between the classes.
    ends = {"from": [0, 2, 4, 6, 10, 12, 9, 8], "to": [1, 3, 5, 7, 11, 13, 10, 11]}
    pd.DataFrame({**ends, "times": 2}).to_csv("edges.csv", index=False)


def test_columns_types_roles_classes_and_homophily_are_shown_and_the_command_trains(
    done,
):
    options = ["--data.label", "old", "--data.features", "[age]", "--data.missing", "median"]
    answer = done("inspect", *TABLES, *options)
    rows = [line.split() for line in answer.out.splitlines()]
    assert ["age", "float64", "1", "feature:", "number"] in rows
    assert ["id", "int64", "0", "id"] in rows
    assert ["old", "bool", "0", "class"] in rows
    assert ["times", "int64", "0", "not", "read"] in rows
    assert "classes: False 10, True 10" in answer.out
    assert "homophily: 0.75 of the edges" in answer.out
    command = shlex.split(answer.out.rstrip().splitlines()[-1])
    assert command[:2] == ["gnn-depth", "fit"]
    done(*command[1:], *QUIET, "--trainer.max_epochs", "1")


def test_a_label_may_be_chosen_by_the_table_and_a_missing_value_is_an_error(refused, done):
    out = done("inspect", *TABLES).out
    assert out.index("age") < out.index("--data.label COLUMN")
    assert "column 'age' has 1 missing" in refused("inspect", *TABLES, "--data.label", "old")


def test_numbers_and_incomplete_labels_have_no_classes(done):
    rows = np.arange(40)
    labels = np.where(rows[:, None] % 5 == [[0, 1]], np.nan, rows[:, None] % 2)
    for y in (rows / 7, labels):
        np.savez("g.npz", x=np.ones((40, 2)), y=y, edge_index=np.stack([rows, rows[::-1]]))
        answer = done("inspect", "g.npz")
        assert "Train with" in answer.out
        assert "classes: " not in answer.out
        assert "homophily" not in answer.out


def test_a_data_set_by_name_is_described(gnn_depth):
    assert "classes: 0 " in gnn_depth("inspect", "--data", "SyntheticCitation").out
