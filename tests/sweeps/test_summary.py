import csv
import math
import statistics
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from gnn_depth.runs import event_tag
from gnn_depth.sweeps.summary import TRAINING, average, band, write_summary

GROUP = "data=Cora,depth=2"


def make_run(folder: Path, seed: int, curves: dict) -> Path:
    run = folder / GROUP / f"seed_{seed}-0123abcd"
    run.mkdir(parents=True)
    epochs = max(map(len, curves.values()))
    with (run / "metrics.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "step", *curves])
        for epoch in range(epochs):
            # two steps an epoch: the step is what TensorBoard has on its axis, not the epoch
            rows.writerow(
                [
                    epoch,
                    2 * epoch + 1,
                    *(c[epoch] if epoch < len(c) else "" for c in curves.values()),
                ]
            )
    return run


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder / "summary" / GROUP)).Reload()


def points(events: EventAccumulator, tag: str) -> list[tuple[int, float]]:
    return [(point.step, round(point.value, 6)) for point in events.Scalars(tag)]


curve = st.lists(
    st.floats(-10, 10) | st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=8
)


@given(st.lists(curve, min_size=1, max_size=5))
def test_the_mean_is_over_all_seeds_and_a_stopped_one_counts_with_its_last_finite_value(curves):
    expected = {}
    begun = [values for values in curves if any(map(math.isfinite, values))]
    for step in range(max(map(len, curves))):
        if not any(step < len(values) and math.isfinite(values[step]) for values in begun):
            continue
        lasts = [[x for x in values[: step + 1] if math.isfinite(x)][-1:] for values in begun]
        if all(lasts):
            now = [last[0] for last in lasts]
            expected[step] = (
                statistics.fmean(now),
                statistics.stdev(now) if len(now) > 1 else math.nan,
            )
    found = average([pd.Series(values, dtype=float) for values in curves])
    assert list(found.index) == list(expected)
    for step, (mean, std) in expected.items():
        assert found["mean"][step] == pytest.approx(mean, abs=1e-9)
        assert found["std"][step] == pytest.approx(std, abs=1e-6, nan_ok=True)


def test_tensorboard_reads_the_mean_under_the_metrics_own_tag_and_steps_and_the_band_beside_it(
    tmp_path,
):
    runs = [
        make_run(tmp_path, seed, {"val/acc": [0.1 * seed, 0.5 + 0.1 * seed]}) for seed in (1, 2, 3)
    ]
    file = write_summary(tmp_path, GROUP, runs)
    events = read(tmp_path)
    lower, upper = band("val/acc")
    assert file.parent == tmp_path / "summary" / GROUP
    assert set(events.Tags()["scalars"]) == {"val/acc", lower, upper, TRAINING}
    assert points(events, "val/acc") == [(1, 0.2), (3, 0.7)]
    assert points(events, lower) == [(1, 0.1), (3, 0.6)]
    assert points(events, upper) == [(1, 0.3), (3, 0.8)]


def test_a_mean_of_the_test_set_lies_in_the_chart_of_its_runs(tmp_path):
    runs = [make_run(tmp_path, seed, {"test/acc": [0.2, 0.6]}) for seed in (0, 1)]
    write_summary(tmp_path, GROUP, runs)
    events = read(tmp_path)
    assert points(events, event_tag("test/acc")) == [(1, 0.2), (3, 0.6)]
    (event,) = events.Tensors("custom_scalars__config__")
    (category,) = Layout.FromString(event.tensor_proto.string_val[0]).category
    (series,) = category.chart[0].margin.series
    assert {series.value, series.lower, series.upper} <= set(events.Tags()["scalars"])


def test_custom_scalars_are_told_to_draw_a_band_for_every_metric(tmp_path):
    write_summary(
        tmp_path,
        GROUP,
        [make_run(tmp_path, s, {"val/acc": [0.5], "val/loss": [1.0 + s]}) for s in (0, 1)],
    )
    (event,) = read(tmp_path).Tensors("custom_scalars__config__")
    (category,) = Layout.FromString(event.tensor_proto.string_val[0]).category
    series = [(c.title, s.value, s.lower, s.upper) for c in category.chart for s in c.margin.series]
    assert series == [(tag, tag, *band(tag)) for tag in ("val/acc", "val/loss")]


def test_one_seed_has_no_band_and_of_several_it_is_said_how_many_were_still_training(tmp_path):
    runs = [
        make_run(tmp_path, seed, {"val/acc": [0.5] * length})
        for seed, length in {0: 4, 1: 2, 2: 3}.items()
    ]
    write_summary(tmp_path, GROUP, runs[:1])
    assert set(read(tmp_path).Tags()["scalars"]) == {"val/acc", TRAINING}
    write_summary(tmp_path, GROUP, runs)
    assert points(read(tmp_path), TRAINING) == [(1, 3), (3, 3), (5, 2), (7, 1)]


def test_runs_without_curves_do_not_count(tmp_path):
    runs = [make_run(tmp_path, seed, {"val/acc": [0.5 + seed]}) for seed in range(4)]
    (runs[1] / "metrics.csv").unlink()
    (runs[2] / "metrics.csv").write_text("")
    (runs[3] / "metrics.csv").write_text("epoch,step,val/acc\n")
    assert write_summary(tmp_path, GROUP, runs[1:]) is None
    assert not (tmp_path / "summary").exists()
    write_summary(tmp_path, GROUP, runs)
    assert points(read(tmp_path), "val/acc") == [(1, 0.5)]


@pytest.mark.parametrize(
    "text", ["no table\n1,2,3\n4\n", "epoch,step,val/acc\n0,1,half\n", "epoch,val/acc\n0,0.5\n"]
)
def test_damaged_curves_are_left_out_with_a_warning_that_names_the_file(tmp_path, text):
    runs = [make_run(tmp_path, seed, {"val/acc": [0.5 + seed]}) for seed in (0, 1)]
    (runs[1] / "metrics.csv").write_text(text)
    with pytest.warns(UserWarning, match=r"seed_1-0123abcd.metrics\.csv' is left out"):
        write_summary(tmp_path, GROUP, runs)
    assert points(read(tmp_path), "val/acc") == [(1, 0.5)]


def test_a_last_row_that_was_cut_off_does_not_count(tmp_path):
    runs = [make_run(tmp_path, seed, {"val/acc": [0.5 + seed]}) for seed in (0, 1)]
    path = runs[1] / "metrics.csv"
    path.write_text(path.read_text() + "1,3,0.7")  # of 0.75
    write_summary(tmp_path, GROUP, runs)
    assert points(read(tmp_path), "val/acc") == [(1, 1.0)]


def test_a_tensorboard_that_is_running_sees_the_summary_of_more_seeds_in_place_of_the_old(tmp_path):
    runs = [make_run(tmp_path, 0, {"val/acc": [0.2, 0.2, 0.2]})]
    write_summary(tmp_path, GROUP, runs)
    running = read(tmp_path)
    for seed, mean in ((1, 0.3), (2, 0.4)):  # 0.2 and 0.4; then 0.6 as well
        runs.append(make_run(tmp_path, seed, {"val/acc": [0.2 + 0.2 * seed] * 2}))
        write_summary(tmp_path, GROUP, runs)
        for events in (running.Reload(), read(tmp_path)):
            assert points(events, "val/acc") == [(1, mean), (3, mean), (5, mean)]
    sizes = [path.stat().st_size for path in sorted((tmp_path / "summary" / GROUP).iterdir())]
    assert [size > 0 for size in sizes] == [False, False, True], (
        "the files before the newest are empty"
    )
