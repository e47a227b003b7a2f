"""The loop of a sweep, over a pool whose calls come out as a test says."""

from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from gnn_depth.sweeps import drive
from gnn_depth.sweeps.drive import Sweep
from gnn_depth.sweeps.plan import Plan
from gnn_depth.sweeps.pool import Pool, PoolError
from gnn_depth.sweeps.store import Record, Store
from gnn_depth.sweeps.worker import RETRIES, RUNNING_ELSEWHERE
from tests.sweeps.jobs import planned

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

    def submit(self, function, store, run, train):
        future = Future()
        self.calls.append(run.seed)
        answers = self.script.get(run.seed)
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
    return planned("all", seed, f"{seed}" * 64)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """``sweep(pool, seeds)``: a sweep, whose runs came out as ``statuses(sweep)`` says."""
    monkeypatch.setattr(drive, "LOOK_SECONDS", 0.01)
    store = Store(tmp_path, "s")

    def run(pool, seeds):
        sweep = Sweep(Plan(None, [run_of(seed) for seed in range(seeds)], store), pool, print)
        run.latest = sweep
        sweep.run()
        return {int(identity[0]): record.status for identity, record in sweep.records.items()}

    run.store = store
    return run


def test_a_call_that_fails_fails_its_run_and_a_lost_pool_ends_the_sweep(sweep):
    pool = Scripted({0: [OSError(12, "Cannot allocate memory")], 1: ["finished"]})
    assert sweep(pool, 2) == {0: "failed", 1: "finished"}
    assert "Cannot allocate memory" in str(sweep.latest.records["0" * 64].result)
    assert sweep.latest.failed == 1
    with pytest.raises(PoolError, match="cannot be reached"):
        sweep(Scripted({0: [CancelledError()]}), 1)


@pytest.mark.parametrize("end", [DEATH, "interrupted"])
def test_a_run_that_died_is_tried_again_a_bounded_number_of_times(sweep, end):
    pool = Scripted({0: [end, "finished"], 1: [end] * 10})
    found = sweep(pool, 2)
    assert found[0] == "finished"
    assert sweep.latest.failed == 1
    assert (pool.calls.count(0), pool.calls.count(1)) == (2, RETRIES + 2)


def test_a_run_elsewhere_is_looked_at_again(sweep):
    pool = Scripted({0: ["finished"], 1: [RUNNING_ELSEWHERE, RUNNING_ELSEWHERE, "finished"]})
    assert sweep(pool, 2) == {0: "finished", 1: "finished"}


def test_ctrl_c_lets_running_runs_save(sweep):
    class Interrupted(Scripted):
        def submit(self, *call):
            future = super().submit(*call)
            if len(self.calls) == 3:
                raise KeyboardInterrupt
            return future

    pool = Interrupted({0: ["finished"]})
    assert sweep(pool, 4) == {0: "finished"}
    assert isinstance(sweep.latest.interrupted, KeyboardInterrupt)
    assert pool.stops == [drive.GRACE_SECONDS]
