"""The loop of a sweep, over a pool whose calls come out as a test says."""

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from gnn_depth.sweeps import drive
from gnn_depth.sweeps.drive import Sweep
from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool, PoolError
from gnn_depth.sweeps.store import Record, RunKey, Store
from gnn_depth.sweeps.worker import RUNNING_ELSEWHERE

DEATH = BrokenProcessPool("it died")


class Scripted(Pool):
    """The n-th call of a seed comes out as ``script[seed][n]``; one without a word for it runs
    until it is killed."""

    def __init__(self, script, workers=2):
        self.script = {seed: list(answers) for seed, answers in script.items()}
        self.number, self.calls, self.open, self.stops = workers, [], [], []

    @property
    def workers(self):
        return self.number

    def submit(self, function, job):
        future = Future()
        self.calls.append(job.run.key.seed)
        answers = self.script.get(job.run.key.seed)
        answer = answers.pop(0) if answers else None
        if isinstance(answer, Exception):
            future.set_exception(answer)
        elif answer:
            future.set_result(Record(Path(), {"status": answer, "reason": answer}))
        else:
            self.open.append(future)
        return future

    def stop(self, grace):
        self.stops.append(grace)
        while self.open:
            self.open.pop().set_exception(DEATH)


def run_of(seed):
    return PlannedRun(RunKey("all", seed, f"{seed}" * 64), {}, {}, "")


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """``sweep(pool, seeds)``: a sweep, whose runs came out as ``statuses(sweep)`` says."""
    monkeypatch.setattr(drive, "LOOK_SECONDS", 0.01)
    store = Store(tmp_path, "s")
    store.make_folder()

    def run(pool, seeds):
        sweep = Sweep(Plan(None, [run_of(seed) for seed in range(seeds)], store), pool, print, 1)
        run.latest = sweep
        sweep.run()
        return {int(identity[0]): record.status for identity, record in sweep.records.items()}

    run.store = store
    return run


def test_a_call_that_fails_fails_its_run_and_a_lost_pool_ends_the_sweep(sweep):
    pool = Scripted({0: [OSError(12, "Cannot allocate memory")], 1: ["finished"]})
    assert sweep(pool, 2) == {0: "failed", 1: "finished"}
    assert "Cannot allocate memory" in sweep.latest.records["0" * 64].reason
    assert sweep.latest.failed == 1
    with pytest.raises(PoolError, match="gone"):
        sweep(Scripted({0: [PoolError("gone")]}), 1)


@pytest.mark.parametrize("end", [DEATH, "interrupted"])
def test_a_run_that_died_is_tried_again_a_bounded_number_of_times(sweep, end):
    pool = Scripted({0: [end, "finished"], 1: [end] * 10})
    found = sweep(pool, 2)
    assert found[0] == "finished"
    assert sweep.latest.failed == 1
    assert (pool.calls.count(0), pool.calls.count(1)) == (2, 3)


def test_a_run_elsewhere_is_looked_at_again_while_others_run(sweep):
    class Ends(Scripted):
        """Its seed 0 runs until seed 1 is done."""

        def submit(self, function, job):
            future = super().submit(function, job)
            if job.run.key.seed == 1 and future.result().status == "finished":
                self.open.pop().set_result(Record(Path(), {"status": "finished"}))
            return future

    pool = Ends({1: [RUNNING_ELSEWHERE, RUNNING_ELSEWHERE, "finished"]})
    assert sweep(pool, 2) == {0: "finished", 1: "finished"}


def test_no_run_starts_after_the_deadline(sweep):
    pool = Scripted({})
    late = Sweep(Plan(None, [run_of(0)], sweep.store), pool, print, 1, deadline=0.0)
    late.run()
    assert pool.calls == []


class Interrupted(Scripted):
    """Ctrl-C at the third call, and as often again as ``again`` says while calls are waited for."""

    again = 0

    def submit(self, function, job):
        future = super().submit(function, job)
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
        sweep.store.begin(run_of(seed).key, {"identity": f"{seed}" * 64})


def on_disk(sweep):
    return {record.result["seed"]: record.status for record in sweep.store.records().values()}


@pytest.mark.parametrize("again", [0, 1])
def test_ctrl_c_once_or_twice_marks_what_was_killed_as_interrupted(sweep, again):
    pool = Interrupted({0: ["finished"]})
    pool.again = again
    begin(sweep, [1])
    sweep(pool, 4)
    assert isinstance(sweep.latest.interrupted, KeyboardInterrupt)
    assert pool.stops == [0 if again else drive.GRACE_SECONDS]
    assert on_disk(sweep) == {1: "interrupted"}


def test_a_run_that_another_process_works_on_is_not_marked(sweep):
    begin(sweep, [1])
    with sweep.store.claim("1" * 64):
        sweep(Interrupted({0: ["finished"]}), 4)
    assert on_disk(sweep) == {1: "running"}
