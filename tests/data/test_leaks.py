"""Features that alone tell what is to be predicted, and features that tell nothing."""

import numpy as np
import pandas as pd
import pytest

from gnn_depth.data.columns import NodeColumns, facts_of, propose
from gnn_depth.data.leaks import note_leaks

ROWS = 400


def table(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Features of some use for a class and a number, and none that tells all."""
    draw = np.random.default_rng(seed)
    balance, age = draw.lognormal(9, 1.2, rows), draw.integers(18, 90, rows)
    region = draw.choice(["north", "south", "east"], rows)
    score = np.log(balance) + (region == "east") + draw.normal(0, 0.4, rows)
    risk = np.array(["low", "middle", "high"])[np.digitize(score, [9, 11])]
    return pd.DataFrame(
        {"balance": balance, "age": age, "region": region, "risk": risk, "spend": np.exp(score)}
    )


def said(frame: pd.DataFrame, numbers: list[str], categories=(), **what) -> list[str]:
    roles = {"label": None} | what
    return note_leaks(frame, NodeColumns(features=numbers, categories=categories, **roles), None)


@pytest.mark.parametrize("rows", [60, 400, 5000])
def test_useful_features_are_no_leak(rows: int):
    for seed in range(10):
        frame = table(seed, rows)
        assert said(frame, ["balance", "age"], ["region"], label="risk") == []
        assert said(frame, ["balance", "age"], ["region"], targets=["spend"]) == []


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("order", [["low", "middle", "high"], ["middle", "low", "high"]])
def test_the_class_as_a_number_with_noise_is_said(noise: float, order: list[str]):
    frame = table()
    codes = frame.risk.map({name: code for code, name in enumerate(order)})
    frame["grade"] = codes + noise * np.random.default_rng(1).normal(size=ROWS)
    (note,) = said(frame, ["balance", "age", "grade"], ["region"], label="risk")
    assert "'grade'" in note
    assert "'balance'" not in note


def test_a_rare_class_is_not_found_by_a_column_that_tells_nothing():
    frame = pd.DataFrame({"size": np.random.default_rng(0).normal(size=ROWS)})
    frame["risk"] = ["bad", "bad", "bad", "bad", *["good"] * (ROWS - 4)]
    assert said(frame, ["size"], label="risk") == []
    frame["size"] += 100.0 * (frame.risk == "bad")
    (note,) = said(frame, ["size"], label="risk")
    assert "'size' (100%)" in note


def test_a_category_within_each_class_is_said_also_with_more_categories_than_classes():
    frame = table()
    half = np.array(["a", "b"])[np.arange(ROWS) % 2]
    frame["branch"] = frame.risk + half
    (note,) = said(frame, ["age"], ["region", "branch"], label="risk")
    assert "'branch' (" in note


@pytest.mark.parametrize(
    "leak",
    [
        lambda y: 2 * y + 1,
        lambda y: -np.log(y),
        lambda y: y * (1 + 0.001 * np.arange(len(y)) % 0.01),
    ],
)
def test_a_target_in_other_words_is_said(leak):
    frame = table()
    frame["total"] = leak(frame.spend)
    frame.loc[::7, "total"] = np.nan
    (note,) = said(frame, ["balance", "age", "total"], ["region"], targets=["spend"])
    assert "'total' (rank correlation" in note
    assert "'balance'" not in note
    frame["band"] = pd.qcut(frame.spend, 40).astype(str)
    (note,) = said(frame, ["balance"], ["region", "band"], targets=["spend"])
    assert "'band' (R2" in note


def test_a_constant_feature_is_said_and_inspect_leaves_it_out():
    frame = table().assign(country=3, land="de", since="2024-01-31")
    names = ["country", "since"]
    (note,) = said(frame, ["age", *names], ["region", "land"], label="risk")
    assert "'country' and 'since' and 'land' have one value" in note
    facts = [facts_of(name, frame[name]) for name in ("age", "land", *names)]
    proposal = propose(facts, NodeColumns(None), False, False)
    assert proposal.options["drop"] == ["land", "country", "since"]
    assert "country" not in proposal.why
