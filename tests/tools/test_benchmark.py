"""The benchmark trains nothing twice, keeps what it trained, and its page is that of its records."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from gnn_depth.graph import Graph
from gnn_depth.reports.comparison import PairedTest
from gnn_depth.training.module import NodeClassifier
from tools.benchmark import definition, measuring, page, records, running
from tools.benchmark.__main__ import PAGE, RECORDS
from tools.benchmark.definition import METHODS, SETS, SPLITS, BenchmarkSet, settings, split_nodes

SIZES = {"nodes": 100, "edges": 200, "features": 12, "classes": 3, "val": 15, "test": 15}
OPTIONS = {f"num_{name}": size for name, size in SIZES.items()} | {"num_train_per_class": 5}
SMALL = BenchmarkSet({"class_path": "SyntheticCitation", "init_args": OPTIONS}, "made up")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(SETS, "small", SMALL)
    sizes = {"SETTINGS": 3, "EPOCHS": 4, "SPLITS": 2, "VALIDATE_EVERY": 2}
    for name, value in {"ROUNDS": ((3, 2), (2, 4)), **sizes}.items():
        monkeypatch.setattr(running, name, value)
    monkeypatch.setattr(measuring, "LOSS_EVERY", 1)


def test_splits_test_each_node_of_the_pool_once_and_tune_on_none_of_it():
    parts = [split_nodes(1000, split) for split in range(SPLITS)]
    pool = np.concatenate([test for _, _, test in parts])
    assert len(np.unique(pool)) == len(pool) == 500
    tuning = split_nodes(1000, definition.TUNING)
    assert len(tuning[2]) == 0
    for train, val, _ in [*parts, tuning]:
        assert (len(train), len(val)) == (300, 200)
        assert not np.intersect1d(train, val).size
        assert not np.intersect1d(np.concatenate([train, val]), pool).size


def test_settings_cover_the_range_of_rates_and_share_it_between_methods():
    rates = [setting["optimizer"]["lr"] for setting in settings("plain", {})]
    shares = np.log(np.array(rates) / 2e-4) / np.log(250)
    assert sorted((16 * shares).astype(int)) == list(range(16))
    for name, options in METHODS.items():
        found = settings(name, options)
        assert [one["optimizer"]["lr"] for one in found] == rates
        model = NodeClassifier(4, 3, num_layers=2, hidden_channels=32, **found[0])
        assert len(model.stack.layers) == 2


def test_a_stopped_benchmark_continues_and_trains_nothing_twice(small, tmp_path):
    path = tmp_path / "records.csv"
    assert not running.Benchmark(path, until=0.0).run_cell("small", "residual", 2)
    assert running.Benchmark(path).run_cell("small", "residual", 2)
    first = records.read(path)
    assert first.stage.tolist()[:5] == ["tune"] * 5
    assert first.stage.tolist()[-2:] == ["final"] * 2
    assert first.test.notna().tolist() == (first.stage == "final").tolist()
    path.write_text(path.read_text() + "final,small")  # what a killed process leaves
    assert running.Benchmark(path).run_cell("small", "residual", 2)
    pd.testing.assert_frame_equal(records.read(path), first)


@pytest.mark.parametrize("method", ["plain", "residual_batch"])
def test_measuring_changes_no_training(small, method):
    key = ("small", method, 3, 1, 2, 4)
    plain = running.perform(dict(zip(records.KEY, ("tune", *key), strict=True)), METHODS[method])
    final = running.perform(dict(zip(records.KEY, ("final", *key), strict=True)), METHODS[method])
    assert (plain["val"], plain["loss"]) == (final["val"], final["loss"])
    assert math.isfinite(final["rank_x_end"])
    assert final["rank_x_end"] != final["rank_x_start"]


def test_the_projection_leaves_nothing_of_the_limit_of_a_gcn_and_all_beside_it():
    graph = Graph(torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]), 5)  # a path and a pair
    limit = torch.tensor([2.0, 3.0, 2.0, 2.0, 2.0]).sqrt()[:, None] * torch.tensor([[1.0, -2.0]])
    limit[3:] *= 7
    assert measuring.projection(limit, graph, of_attention=False) < 1e-7
    assert measuring.projection(limit, graph, of_attention=True) > 0.01


def made_up(gain):
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
    error = math.sqrt((1 / 5 + 0.25) * d.var(ddof=1))
    p = 2 * stats.t.sf(abs(d.mean()) / error, 4)
    equal = max(stats.t.sf((d.mean() + 0.01) / error, 4), stats.t.cdf((d.mean() - 0.01) / error, 4))
    half = stats.t.ppf(0.975, 4) * error
    text = page.SetResults(frame, "cora").against_reference(32)
    difference = f"{100 * d.mean():+.1f} ± {100 * half:.1f}"
    assert p < 0.0005
    assert f"| gcnii | 32 | {difference} | < 0.001 | {equal:.3f} |" in text


@pytest.mark.parametrize("tests", [1, 11])
def test_the_detectable_difference_is_found_with_the_stated_power_as_the_smallest_p(tests):
    test = PairedTest(difference=0.0, p=1.0, count=10, error=0.02)
    shift = page.detectable(test, tests) / test.error
    power = stats.nct.sf(stats.t.ppf(1 - 0.025 / tests, 9), 9, shift)
    assert power == pytest.approx(0.8, abs=1e-6)


def test_a_training_that_diverged_counts_as_a_constant_prediction():
    frame = made_up(0.0)
    frame.loc[0, "test"] = math.nan
    assert page.finals_of(frame).score[0] == 0.3


def test_a_committed_record_is_trained_again_to_the_same_numbers(real_data):
    frame = records.read(RECORDS)
    quick = frame[(frame.set == "cora") & (frame.depth == 2) & (frame.epochs == 250)].head(1)
    again = running.perform(quick[list(records.KEY)].to_dict("records")[0], METHODS["plain"])
    assert again["val"] == pytest.approx(float(quick.val.iloc[0]), abs=0.02)


def test_the_committed_page_holds_the_tables_of_the_committed_records(tmp_path):
    (tmp_path / "pictures").mkdir()
    copy = tmp_path / "benchmark.md"
    copy.write_text(PAGE.read_text())
    page.write(records.read(RECORDS), copy)
    assert copy.read_text() == PAGE.read_text()
