"""The benchmark trains nothing twice, keeps what it trained, and its page is that of its records."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import gnn_depth
from tools.benchmark import page, records, running
from tools.benchmark.definition import METHODS, SETS, BenchmarkSet, settings

SMALL = BenchmarkSet(
    {
        "class_path": "SyntheticCitation",
        "init_args": {
            "num_nodes": 60,
            "num_edges": 120,
            "num_features": 12,
            "num_classes": 3,
            "num_train_per_class": 5,
            "num_val": 15,
            "num_test": 15,
        },
    },
    ("init_args", "seed"),
    is_redrawn=True,
)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(SETS, "small", SMALL)
    monkeypatch.setattr(running, "ROUNDS", ((3, 2), (2, 3)))
    monkeypatch.setattr(running, "EPOCHS", 4)
    monkeypatch.setattr(running, "WIDTH", 8)


def test_a_stopped_benchmark_continues_and_trains_nothing_twice(small, tmp_path):
    path = tmp_path / "records.csv"
    assert not running.Benchmark(path, until=0.0).run_cell("small", "residual", 2, 2)
    assert running.Benchmark(path).run_cell("small", "residual", 2, 1)
    first = records.read(path)
    assert first.stage.tolist() == ["tune"] * 5 + ["final"]
    path.write_text(path.read_text() + "final,small")  # what a killed process leaves
    assert running.Benchmark(path).run_cell("small", "residual", 2, 1)
    pd.testing.assert_frame_equal(records.read(path), first)


def test_a_record_is_the_result_of_the_same_training_by_hand(small, tmp_path):
    training = dict(zip(records.KEY, ("final", "small", "pair", 3, 1, 2, 4), strict=True))
    record = running.perform(training, METHODS["pair"])
    setting = settings()[1]
    rates = {"lr": setting["lr"], "weight_decay": setting["weight_decay"]}
    run = gnn_depth.fit(
        {
            "num_layers": 3,
            "hidden_channels": 8,
            "dropout": setting["dropout"],
            "norm": "pair",
            "optimizer": {"name": "Adam", **rates},
        },
        gnn_depth.build("data", SMALL.with_split(2, {})),
        epochs=4,
        seed=2,
        root=str(tmp_path),
        progress=False,
        logger=False,
        accelerator="cpu",
        check_val_every_n_epoch=5,
    )
    assert record["status"] == "finished"
    assert record["train"] == run.metrics["train/acc"]
    assert record["train_rows"] == 15


def test_every_method_names_options_that_its_model_has():
    for name, method in METHODS.items():
        section = SETS["cora"].with_split(3, method)
        assert section["init_args"]["split_index"] == 3
        assert ("transforms" in section["init_args"]) == ("data" in method), name


def made_up(gain: float) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    rows = []
    for split in range(5):
        for method, more in (("residual_layer", 0.0), ("gcnii", gain)):
            row = dict.fromkeys(records.COLUMNS, 0)
            row |= {"stage": "final", "set": "cora", "method": method, "depth": 32, "split": split}
            row |= {"test": 0.6 + more + 0.02 * draws.normal(), "chance": 0.3}
            rows.append(row | {"train_rows": 1000, "test_rows": 250})
    return pd.DataFrame(rows)


def test_a_comparison_is_the_corrected_paired_test_over_shared_splits():
    frame = made_up(0.1)
    table = frame.pivot_table(index="split", columns="method", values="test")
    d = (table.gcnii - table.residual_layer).to_numpy()
    t = d.mean() / math.sqrt((1 / 5 + 0.25) * d.var(ddof=1))
    p = 2 * stats.t.sf(abs(t), 4)
    text = page.comparison_table(page.scores(frame), "cora", 32)
    assert f"| gcnii | {100 * d.mean():+.1f} | {p:.3f} | {p:.3f} | 5 |" in text


def test_a_training_that_diverged_counts_as_a_constant_prediction():
    frame = made_up(0.0)
    frame.loc[0, "test"] = math.nan
    assert page.scores(frame).score[0] == 0.3


def test_the_committed_page_holds_the_tables_of_the_committed_records(tmp_path, monkeypatch):
    from tools.benchmark.__main__ import PAGE, RECORDS

    copy = tmp_path / "benchmark.md"
    copy.write_text(PAGE.read_text())
    page.write(records.read(RECORDS), copy)
    assert copy.read_text() == PAGE.read_text()
