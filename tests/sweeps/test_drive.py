"""The loop of a sweep, over an engine whose calls come out as a test says."""

from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from gnn_depth.sweeps import drive
from gnn_depth.sweeps.drive import Sweep
from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool, PoolError, WorkerDied
from gnn_depth.sweeps.store import Record, RunKey, Store
from gnn_depth.sweeps.worker import ELSEWHERE, Job


def ended(status):
    measured = (
        {"monitor": "val/mae", "metrics": {"test_mae_at_best_val": 0.25}}
        if status == "finished"
        else {}
    )
    return Record(Path(), {"status": status, "reason": status, **measured})


class Scripted(Pool):
    """The n-th call of a seed comes out as ``script[seed][n]``; one without a word for it runs
    until it is killed."""

    def __init__(self, script, workers=2):
        super().__init__()
        self.script = {seed: list(answers) for seed, answers in script.items()}
        self.number, self.calls, self.ended = workers, [], 0

    @property
    def workers(self):
        return self.number

    def _submit(self, function, args):
        (task,) = args
        future = Future()
        self.calls.append(task.run.key.seed)
        answers = self.script.get(task.run.key.seed)
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer:
            future.set_result(ended(answer))
        return future

    def _end(self):
        self.ended += 1
        for future in self._futures:
            if not future.done():
                future.set_exception(CancelledError())


class Silent:
    said: list[str]

    def __init__(self):
        self.said, self.metric, self.values = [], None, []

    def print(self, text):
        self.said.append(text)

    def start(self, *_):
        pass

    def end(self, label, status, value, seconds):
        self.values.append(value)

    def retry(self, label, reason, goes_on=True):
        self.said += [reason] * bool(reason)
        self.last_goes_on = goes_on


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """``sweep(engine, seeds)``: what came of each seed, the store, and what was said."""
    monkeypatch.setattr(drive, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(drive, "GRACE_SECONDS", 0.01)
    store, live = Store(tmp_path, "s"), Silent()
    store.make_folder()

    def run(engine, seeds, retries=1):
        tasks = [
            Job(store, PlannedRun(place, {}, {}, ""), (), retries, str(tmp_path / "stop"), print)
            for place in (RunKey("all", seed, f"{seed}" * 64) for seed in range(seeds))
        ]
        run.tally = Sweep(Plan(None, [], store), engine, live).run(tasks)
        return {
            int(identity[0]): outcome.status for identity, outcome in run.tally.outcomes.items()
        }

    run.store, run.live = store, live
    return run


def test_a_call_that_cannot_be_made_fails_its_run_alone_and_a_lost_engine_ends_the_sweep(sweep):
    engine = Scripted(
        {0: [OSError(12, "Cannot allocate memory")], 1: ["finished"], 2: [CancelledError()]}
    )
    assert sweep(engine, 3) == {0: "failed", 1: "finished", 2: "failed"}
    assert "Cannot allocate memory" in sweep.tally.outcomes["0" * 64].reason
    with pytest.raises(PoolError, match="gone"):
        sweep(Scripted({0: [PoolError("gone")]}), 1)


def test_runs_are_compared_by_the_metric_of_their_task_unless_the_grid_names_one(sweep):
    sweep(Scripted({0: ["failed"], 1: ["finished"]}, workers=1), 2)
    assert (sweep.live.metric, sweep.live.values) == ("test_mae_at_best_val", [None, 0.25])
    sweep.live.metric = "test_rmse_at_best_val"
    sweep(Scripted({0: ["finished"]}), 1)
    assert (sweep.live.metric, sweep.live.values[-1]) == ("test_rmse_at_best_val", None)


@pytest.mark.parametrize("end", [WorkerDied("it died"), "interrupted"])
def test_a_run_that_died_or_was_stopped_by_others_is_tried_again_a_bounded_number_of_times(
    sweep, end
):
    engine = Scripted({0: [end, "finished"], 1: [end] * 10})
    assert sweep(engine, 2) == {0: "finished", 1: "failed"}
    assert (engine.calls.count(0), engine.calls.count(1)) == (2, 3)
    # The last worker only marks a run as failed whose process died too often.
    assert sweep.live.last_goes_on == (end == "interrupted")


def test_a_run_elsewhere_is_looked_at_again_while_others_run(sweep):
    class Ends(Scripted):
        """Its seed 0 runs until seed 1 is done."""

        def _submit(self, function, args):
            future = super()._submit(function, args)
            if args[0].run.key.seed == 0:
                self.first = future
            elif future.result().status == "finished":
                self.first.set_result(ended("finished"))
            return future

    assert sweep(Ends({1: [ELSEWHERE, ELSEWHERE, "finished"]}), 2) == {0: "finished", 1: "finished"}


class Interrupted(Scripted):
    """Ctrl-C at a call while two runs are under way, and as often again as ``again`` says while
    they are waited for."""

    again = 0

    def _submit(self, function, args):
        future = super()._submit(function, args)
        if len(self.calls) == 3:
            raise KeyboardInterrupt
        return future

    def stop(self, grace):
        if self.again:
            self.again -= 1
            raise KeyboardInterrupt
        super().stop(grace)


def begin(sweep, seeds):
    for seed in seeds:
        sweep.store.begin(RunKey("all", seed, f"{seed}" * 64), {"identity": f"{seed}" * 64})


def on_disk(sweep):
    return {record.result["seed"]: record.status for record in sweep.store.records().values()}


@pytest.mark.parametrize("again", [0, 1])
def test_ctrl_c_once_or_twice_marks_what_was_killed_as_interrupted(sweep, again):
    engine = Interrupted({0: ["finished"]})
    engine.again = again
    begin(sweep, [1, 2])
    sweep(engine, 4)
    assert isinstance(sweep.tally.interrupted, KeyboardInterrupt)
    assert engine.ended == 1
    assert on_disk(sweep)[1] == "interrupted"
    assert Path(sweep.store.root / "stop").exists(), "nobody was asked to stop"


def test_a_run_that_cannot_be_marked_does_not_keep_others_from_it(sweep, monkeypatch):
    marked = []

    def mark(record, status, reason):
        marked.append(record.result["seed"])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sweep.store, "mark", mark)
    begin(sweep, [0, 1])
    sweep(Interrupted({}, workers=3), 3)
    assert sorted(marked) == [0, 1]
    assert sum("No space left" in said for said in sweep.live.said) == 2


def test_a_run_that_another_process_works_on_is_not_marked(sweep):
    begin(sweep, [1, 2])
    with sweep.store.claim("1" * 64):
        sweep(Interrupted({0: ["finished"]}), 4)
    assert on_disk(sweep)[1] == "running"
