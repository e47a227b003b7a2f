"""The arena's trainings: which are missing, what is kept of them, and that they survive a stop."""

import dataclasses
import gzip
import itertools
import math
from pathlib import Path

import pytest
import torch

import gnn_depth
from gnn_depth.arena import running
from gnn_depth.arena.definition import Arena, ArenaRemedy, DataSet, drawn_settings
from gnn_depth.arena.records import MEASURES, RecordError, Records, TrainingJob, TrainingRecord
from gnn_depth.arena.running import (
    ProbeMoments,
    belongs,
    data_of,
    missing,
    perform,
    run_missing,
    training_identity,
)
from gnn_depth.builder import build
from gnn_depth.data.rewiring import FoSR
from gnn_depth.training.run import fit


@pytest.fixture
def made_up(monkeypatch):
    """Trainings that take no time: the validation metric of a setting is larger for a later one."""
    done = []

    def perform_at_once(arena, job, accelerator="cpu"):
        done.append(job)
        return TrainingRecord(
            job, training_identity(arena, job), "finished", val=0.5 + 0.1 * job.setting, test=0.6
        )

    monkeypatch.setattr(running, "perform", perform_at_once)
    return done


def test_a_stopped_arena_goes_on_where_it_was_and_trains_nothing_twice(tiny, made_up, tmp_path):
    with Records(tmp_path / "whole.jsonl", writes=True) as records:
        whole = run_missing(tiny, records)
    jobs, made_up[:] = list(made_up), []
    assert len(set(jobs)) == whole == len(jobs)

    path = tmp_path / "stopped.jsonl"
    for count in (3, 5, 1000):
        with Records(path, writes=True) as records:
            for job, _ in zip(missing(tiny, records), range(count), strict=False):
                records.add(running.perform(tiny, job))
        with path.open("a") as file:
            file.write('{"stage":"final","set":"ti')  # killed while it wrote
    assert made_up == jobs
    with Records(path, writes=True) as records:
        assert list(missing(tiny, records)) == []
        assert len(records) == whole


def test_each_remedy_gets_the_same_budget_and_the_best_setting_goes_on(tiny, made_up, tmp_path):
    with Records(tmp_path / "r.jsonl", writes=True) as records:
        run_missing(tiny, records)
    budgets = {}
    for job in made_up:
        if job.set == "tiny":
            of_cell = budgets.setdefault((job.remedy, job.depth), [])
            of_cell.append((job.stage, job.setting, job.split, job.epochs))
    tuning = [("tune", 0, 0, 2), ("tune", 1, 0, 2), ("tune", 1, 0, 3)]
    for remedy in tiny.remedies:
        assert budgets[remedy, 1][:3] == tuning
        assert [one for one in budgets[remedy, 1] if one[0] == "final"] == [
            ("final", 1, 0, 6),
            ("final", 1, 1, 6),
        ]
    assert len({tuple(budgets[remedy, 1]) for remedy in tiny.remedies}) == 1


def test_all_cells_have_a_split_before_one_has_two(tiny, made_up, tmp_path):
    with Records(tmp_path / "r.jsonl", writes=True) as records:
        run_missing(tiny, records)
    finals = [job for job in made_up if job.stage == "final" and job.depth in tiny.depths]
    assert [job.split for job in finals] == sorted(job.split for job in finals)
    assert len(finals) == 2 * 2 * 2


def test_the_cells_of_the_planned_comparison_get_all_their_splits_before_others(
    tiny, monkeypatch, tmp_path
):
    arena = dataclasses.replace(
        tiny, depths=(2, 8, 32), deepest=None, portions=(3, 5), small={}, reference=64
    )
    best = {(2, "residual"): 0.9, (8, "plain"): 0.8, (32, "plain"): 0.7}
    done = []

    def perform_at_once(arena, job, accelerator="cpu"):
        done.append(job)
        # Not better on the last splits: which cell is chosen does not depend on them.
        val = best.get((job.depth, job.remedy), 0.6) if job.split < 3 else 0.0
        identity = training_identity(arena, job)
        return TrainingRecord(
            job, identity, "finished", val=val, test=val, chance=0.5, settled=True, rows=(9, 9, 9)
        )

    monkeypatch.setattr(running, "perform", perform_at_once)
    with Records(tmp_path / "r.jsonl", writes=True) as records:
        run_missing(arena, records)
    later = [(job.depth, job.remedy, job.split) for job in done if job.split >= 3]
    assert later[:4] == [(32, "plain", 3), (32, "plain", 4), (2, "residual", 3), (2, "residual", 4)]
    assert len(later) == len(set(later)) == 2 * 3 * 2
    first = done.index(next(job for job in done if job.split >= 3))
    assert len({(job.depth, job.remedy) for job in done[:first] if job.stage == "final"}) == 6


def test_a_remedy_is_not_trained_on_a_set_that_it_is_too_large_for(tiny, made_up, tmp_path):
    arena = dataclasses.replace(tiny, left_out={"residual": {"tiny": "for a test"}})
    with Records(tmp_path / "r.jsonl", writes=True) as records:
        run_missing(arena, records)
    assert {(job.set, job.remedy) for job in made_up} == {
        ("tiny", "plain"),
        ("tiny_too", "plain"),
        ("tiny_too", "residual"),
    }


def test_a_record_is_the_result_of_a_training_with_the_same_options(tiny, tmp_path):
    job = TrainingJob("final", "tiny", "residual", 2, 4, 1, 1, 6)
    record = perform(tiny, job)
    again = perform(tiny, job)
    without_time = [dataclasses.replace(one, seconds=0) for one in (record, again)]
    assert without_time[0] == without_time[1]
    data = build("data", tiny.sets["tiny"].with_split(1))
    run = gnn_depth.fit(
        {
            "skip": "residual",
            "num_layers": 2,
            "hidden_channels": 4,
            "dropout": 0.5,
            "optimizer": {"name": "Adam", "lr": 0.02, "weight_decay": 5e-4},
        },
        data,
        epochs=record.ran,
        seed=1,
        root=str(tmp_path),
        progress=False,
        logger=False,
    )
    assert record.test == pytest.approx(run.metrics["test_acc_at_best_val"], rel=1e-4)
    assert record.best_epoch == run.result["best_epoch"]
    assert record.rows == (12, 10, 14)
    assert record.bytes > 0
    assert TrainingRecord.from_line(record.line()) == record


def test_a_probe_is_kept_at_every_moment_and_leaves_the_training_as_it_was(tiny, monkeypatch):
    monkeypatch.setattr(running, "STEPS", (0, 2))
    job = TrainingJob("final", "tiny", "plain", 3, 4, 1, 0, 6)
    probed = perform(tiny, job)
    monkeypatch.setattr(ProbeMoments, "_measure", lambda *_: None)
    plain = perform(tiny, job)
    assert probed.test == plain.test
    assert probed.val == plain.val
    assert list(probed.probe) == ["0", "2", "end"]
    at_start = dict(zip(MEASURES, probed.probe["0"], strict=True))
    assert len(at_start["norm"]) == 3
    at_end = dict(zip(MEASURES, probed.probe["end"], strict=True))
    assert at_start["norm"] != at_end["norm"]


def test_a_record_says_that_it_was_trained_on_a_gpu_and_has_no_processor_time(tiny, monkeypatch):
    job = TrainingJob("tune", "tiny", "plain", 2, 4, 0, 0, 2)
    assert "device" not in perform(tiny, job).line()
    asked = []

    def fit_on_the_cpu(*given, **options):
        asked.append(options.pop("accelerator"))
        return fit(*given, **options, accelerator="cpu")

    monkeypatch.setattr(running, "fit", fit_on_the_cpu)  # the tests of GPUs train on one
    record = TrainingRecord.from_line(perform(tiny, job, "gpu").line())
    assert asked == ["gpu"]
    assert record.device == "gpu"
    assert math.isnan(record.seconds)
    arena = tiny.with_remedies({"odd": ArenaRemedy({"skip": {"name": "ordered", "chunks": 3}})})
    failed = perform(arena, TrainingJob("final", "tiny", "odd", 2, 4, 0, 0, 6), "gpu")
    assert (failed.status, failed.device) == ("failed", "gpu")


def test_without_a_gpu_nothing_is_recorded_as_failed_on_one(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with Records(tmp_path / "r.jsonl", writes=True) as records:
        with pytest.raises(ValueError, match="finds no GPU here"):
            run_missing(tiny, records, accelerator="gpu")
        assert len(records) == 0


def test_a_training_that_cannot_be_is_recorded_with_the_reason(tiny):
    arena = tiny.with_remedies({"odd": ArenaRemedy({"skip": {"name": "ordered", "chunks": 3}})})
    record = perform(arena, TrainingJob("final", "tiny", "odd", 2, 4, 0, 0, 6))
    assert record.status == "failed"
    assert "chunks" in record.reason
    assert math.isnan(record.test)


def test_data_that_is_missing_stops_the_arena_instead_of_failing_a_remedy(tiny, tmp_path):
    absent = DataSet(
        {"class_path": "Planetoid", "init_args": {"name": "Cora", "root": str(tmp_path)}},
        ("init_args", "split_index"),
    )
    arena = dataclasses.replace(tiny, sets={"absent": absent})
    with pytest.raises(ValueError, match="Cora"):
        perform(arena, TrainingJob("tune", "absent", "plain", 2, 4, 0, 0, 2))


def test_a_training_is_settled_if_nothing_better_came_for_as_long_as_the_patience(tiny):
    job = TrainingJob("final", "tiny", "plain", 1, 4, 1, 0, 60)
    settled = perform(dataclasses.replace(tiny, patience=5), job)
    assert settled.settled
    assert settled.ran == settled.best_epoch + 6
    cut = perform(dataclasses.replace(tiny, patience=70), job)
    assert not cut.settled


def test_settings_are_drawn_from_the_search_space_and_always_the_same():
    settings = drawn_settings(50, seed=1)
    assert settings[:8] == drawn_settings(8, seed=1)
    assert settings != drawn_settings(50, seed=2)
    assert all(5e-4 <= setting.lr <= 2e-2 for setting in settings)
    assert {setting.dropout for setting in settings} == {0.0, 0.2, 0.5, 0.7}
    assert {setting.weight_decay for setting in settings} == {0.0, 5e-5, 5e-4, 5e-3}


@pytest.mark.parametrize("remedy", Arena().remedies)
def test_every_remedy_of_the_arena_can_be_trained(remedy, tiny):
    arena = dataclasses.replace(tiny, remedies=Arena().remedies)
    record = perform(arena, TrainingJob("tune", "tiny", remedy, 3, 8, 0, 0, 2))
    assert record.reason == ""
    assert record.ran == 2


def test_every_committed_record_belongs_to_the_arena():
    records = list(Records(Path(__file__).parents[2] / "docs/results/arena.jsonl.gz"))
    others = [record.job for record in records if not belongs(Arena(), record)]
    assert not others
    assert len(records) > 1900


def test_each_part_of_a_remedy_makes_trainings_of_its_own(tiny):
    remedies = {
        "plain": ArenaRemedy(),
        "model": ArenaRemedy({"depth_lr": 1.5}),
        "data": ArenaRemedy(transforms=({"name": "fosr"},)),
        "trainer": ArenaRemedy(callbacks=({"class_path": "Rebalance"},)),
    }
    identities = set()
    for remedy in remedies.values():
        arena = dataclasses.replace(tiny, remedies={"same name": remedy})
        job = TrainingJob("final", "tiny", "same name", 2, 4, 0, 0, 6)
        identities.add(training_identity(arena, job))
    assert len(identities) == len(remedies)


@pytest.mark.parametrize("remedy", ["rebalance", "depth_lr", "half_hop", "fosr", "sdrf"])
def test_a_remedy_beside_the_model_changes_what_is_trained(remedy, tiny):
    arena = dataclasses.replace(tiny, remedies=Arena().remedies)
    trained = {}
    for name in ("plain", remedy):
        trained[name] = perform(arena, TrainingJob("final", "tiny", name, 2, 8, 1, 0, 6))
    mine, plain = trained[remedy], trained["plain"]
    assert mine.rows == plain.rows, "sets stay those of the nodes that were there"
    if remedy == "rebalance":  # the function stays, and the weights change
        assert mine.probe["end"] != plain.probe["end"]
        assert mine.probe["0"] == plain.probe["0"]
    elif remedy == "depth_lr":
        assert mine.probe["0"] == plain.probe["0"]
        assert mine.probe["end"] != plain.probe["end"]
    else:
        assert mine.probe["0"] != plain.probe["0"]


@pytest.mark.long
def test_no_two_remedies_train_the_same_network(tiny):
    arena = dataclasses.replace(tiny, remedies=Arena().remedies)
    measured = {}
    for name in arena.remedies:
        record = perform(arena, TrainingJob("final", "tiny", name, 6, 8, 1, 0, 12))
        assert record.status == "finished"
        numbers = []
        for of_places in record.probe["end"]:
            numbers += of_places or [None] * 3
        known = [math.nan if number is None else number for number in numbers]
        measured[name] = torch.tensor(known, dtype=torch.float64)
    for one, other in itertools.combinations(measured, 2):
        difference = (measured[one] - measured[other]).abs()
        size = measured[one].abs() + measured[other].abs()
        is_apart = difference > 0.01 * size
        assert is_apart.any(), f"{one} and {other} are the same"


def test_a_graph_is_transformed_once_for_all_trainings_on_a_split(tiny, monkeypatch):
    calls = []
    forward = FoSR.forward
    monkeypatch.setattr(FoSR, "forward", lambda *given: calls.append(1) or forward(*given))
    running._data.cache_clear()
    arena = dataclasses.replace(tiny, remedies={"fosr": Arena().remedies["fosr"]})
    for setting in (0, 1):
        perform(arena, TrainingJob("tune", "tiny", "fosr", 2, 4, setting, 0, 1))
    assert len(calls) == 1


@pytest.mark.parametrize("remedy", ["half_hop", "fosr"])
def test_every_small_set_can_be_transformed_or_is_left_out(remedy):
    arena = Arena()
    for name in arena.small:
        job = TrainingJob("small", name, remedy, 4, 16, 0, 0, 60)
        if arena.takes(remedy, name):
            assert build("data", data_of(arena, job)).batch.graph.num_edges > 0
    assert not arena.takes(remedy, "transfer_small")


def test_a_transform_is_one_of_the_set_whose_split_is_numbered():
    section = Arena().sets["cora_cold"].with_split(3, [{"name": "fosr"}])
    source = section["init_args"]["source"]["init_args"]
    assert source["transforms"] == [{"name": "fosr"}]
    assert source["split_index"] == 3
    assert "transforms" not in section["init_args"]


def test_what_keeps_two_processes_from_one_file(tmp_path):
    path = tmp_path / "r.jsonl"
    with Records(path, writes=True):
        with pytest.raises(RecordError, match="another process"):
            Records(path, writes=True)
        assert len(Records(path)) == 0
    Records(path, writes=True).close()


def made_record(identity):
    job = TrainingJob("final", "tiny", "plain", 1, 4, 0, 0, 6)
    return TrainingRecord(job, identity, "finished", test=0.5, rows=(3, 2, 1))


def test_packed_records_are_those_of_a_plain_file_also_if_their_process_was_killed(tmp_path):
    path, wanted = tmp_path / "r.jsonl.gz", [made_record(str(number)) for number in range(40)]
    records = Records(path, writes=True)
    for number, record in enumerate(wanted[:20]):
        records.add(record)
        assert len(Records(path)) == number + 1
    records._file.close()  # killed, and not closed
    whole = path.read_bytes()
    last = len(gzip.compress(wanted[0].line().encode(), mtime=0))
    for missing_bytes in (1, 9, last - 3):  # of the last line, down to its first bytes
        path.write_bytes(whole[:-missing_bytes])
        assert len(Records(path)) == 19
    with Records(path, writes=True) as records:
        for record in wanted[19:]:
            records.add(record)
        before = path.stat().st_size
    assert path.stat().st_size < before / 2  # packed as one
    assert list(Records(path)) == wanted
    with Records(path, writes=True):
        pass
    assert list(Records(path)) == wanted
    with Records(tmp_path / "r.jsonl", writes=True) as plain:
        for record in wanted:
            plain.add(record)
    assert gzip.decompress(path.read_bytes()) == (tmp_path / "r.jsonl").read_bytes()


def test_a_packed_file_that_is_damaged_is_refused(tmp_path):
    path = tmp_path / "r.jsonl.gz"
    with Records(path, writes=True) as records:
        for number in range(40):
            records.add(made_record(str(number)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    for writes in (False, True):
        with pytest.raises(RecordError, match="damaged"):
            Records(path, writes=writes)
    path.write_text("no gzip")
    with pytest.raises(RecordError, match="damaged"):
        Records(path)


def test_a_file_that_holds_no_records_is_refused(tmp_path):
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(RecordError, match="format"):
        Records(tmp_path / "other.jsonl")
    with pytest.raises(RecordError, match="no file"):
        Records(tmp_path / "none.jsonl")
    with Records(tmp_path / "r.jsonl", writes=True):
        pass
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(RecordError, match="line 2"):
        Records(tmp_path / "r.jsonl")


def test_the_bytes_of_a_step_are_those_that_it_keeps():
    weight = torch.nn.Parameter(torch.ones(10, 10))
    module = torch.nn.ParameterList([weight])
    moments = ProbeMoments(probes=False)

    class Trainer:
        global_step = 0

    moments.on_train_batch_start(Trainer(), module, None, 0)
    x = torch.ones(7, 10, requires_grad=True)
    loss = (x @ weight).exp().sum()  # keeps x and the exponentials, 70 numbers each
    moments.on_before_backward(Trainer(), module, loss)
    assert moments.bytes == 2 * 70 * 4
