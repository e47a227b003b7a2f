"""The suite of tasks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnn_depth.testing.suite import as_property, assert_close, assert_finite, check, class_of, seeded
from gnn_depth.training.tasks import Task


class Trial(NamedTuple):
    """A task, outputs and targets."""

    task: Task
    out: Tensor
    y: Tensor


@as_property("loss", "Return the mean over the rows, computed by differentiable functions of out.")
def loss(trial: Trial) -> None:
    """The loss is a finite mean over the rows, with a finite gradient."""
    task, (out, y) = trial.task, (trial.out.clone().requires_grad_(), trial.y)
    value = task.loss(out, y)
    assert_finite({"the loss": value, "its gradient": torch.autograd.grad(value, out)[0]}, "20 rows")
    assert_close(task.loss(torch.cat([out, out]), torch.cat([y, y])), value, "20 rows, each twice")
    assert_close(task.prediction(trial.out)[:, :0], trial.out[:, :0], "the prediction of 20 rows")


@as_property("metrics", "Use metrics of torchmetrics, or subclasses, and name them in best and words.")
def metrics(trial: Trial) -> None:
    """Two batches have the metrics of the whole; ``best`` and ``words`` name metrics."""
    task, whole, parts = trial.task, trial.task.metrics(), trial.task.metrics()
    assert {task.best, *task.words} <= {*task.metric_names()}, f"the metrics are {', '.join(task.metric_names())}"
    for rows, updated in ((slice(None), whole), (slice(7), parts), (slice(7, None), parts)):
        for metric in updated.values():
            metric.update(*task.compared(trial.out[rows], trial.y[rows]))
    for name, metric in whole.items():
        assert_close(parts[name].compute(), metric.compute(), f"metric {name!r} of 20 rows", tolerance=1e-5)


def check_task(task: type[Task] | str, *, except_for: Sequence[str] = (), outputs: int = 2, **options: Any) -> None:
    """Check that a task with so many outputs has the properties of every one: ``loss`` and ``metrics``.

    Arguments and errors are those of :func:`check_norm`; ``options`` follow the number of outputs.
    """
    __tracebackhide__ = True
    cls = class_of("task", task, Task)

    def trials() -> list[Trial]:
        with seeded(0):
            out, labels = torch.randn(20, outputs, dtype=torch.float64), torch.randint(2, (20, outputs))
        y = {"classes": torch.arange(20) % outputs, "labels": labels, "numbers": out.flip(0) + labels}
        made = cls(outputs, **options)
        return [Trial(made, out, y[made.targets])]

    check("check_task", cls, trials, [loss, metrics], except_for)
