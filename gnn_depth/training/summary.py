"""The summary of a finished run: the main result, warnings about it, and every metric."""

import math
import textwrap
from collections.abc import Mapping

import pandas as pd

from gnn_depth.training.loggers import UNDEFINED, in_digits
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.tasks import Task

SETS = {"test": "test", "val": "validation", "train": "training"}
NEAR_CHANCE = 0.02  # a result this close to chance is a guess
NEAR_CHANCE_IN_THE_MEAN = 0.05  # for the mean over the classes, some of which are small
LAGS = 0.05  # running averages with more of their initial values are not those of the data
#: What the linear model sees.
FEATURES = "the features and their means over 1 and 2 hops"
FALLS = 0.1  # an error that is this share smaller is better


def report(
    recorder: RunRecorder,
    module: NodeClassifier,
    linear: Mapping[str, float],
) -> str:
    """Describe the result of a finished run, what is wrong with it, and where to look next.

    Args:
        recorder: What was recorded.
        module: The model.
        linear: The metrics of a linear model to compare with; empty without one.
    """
    result, best, last = recorder.result, recorder.best, recorder.last_metrics
    epochs = result["epochs"]
    words = _words(module.task)
    shown, where = last, f"the last epoch, {epochs}"
    columns: dict[str, Mapping[str, float]] = {}
    if best.epoch is not None:
        shown, where = best.metrics, f"the best validation epoch, {best.epoch + 1} of {epochs}"
        columns[f"epoch {best.epoch + 1}"] = best.metrics
    columns[f"epoch {epochs}"] = last
    # Where the loss chooses the best epoch, the task's own metric is the answer: of the test set no
    # loss is measured.
    measure = recorder.monitor.partition("/")[2]
    if f"test/{measure}" not in {**last, **best.metrics}:
        measure = type(module.task).best
    lines = []
    answers = [f"{which}/{measure}" for which in SETS if f"{which}/{measure}" in shown]
    if answers:
        answer = answers[0]
        lines.append(f"{words.get(answer, answer)} {_text(answer, shown[answer])} at {where}")
        initial = result["initial_averages"]
        if initial > LAGS:
            lines.append(
                f"warning: {initial:.0%} of the running averages of batch norm, which evaluation "
                "uses, are their initial values: the same weights may predict far better after "
                "more steps, or with a larger momentum."
            )
        lines += _comparison(answer, shown[answer], linear, module)
        guess = _guess(answer, shown, module)
        if guess:
            lines += [
                guess,
                "  More epochs may help. See what fails, layer by layer: "
                f"gnn-depth probe --ckpt_path {recorder.shown}/checkpoints/last.ckpt",
            ]
    if best.epoch is None and recorder.monitor in last:
        name = words.get(recorder.monitor, recorder.monitor)
        lines.append(f"no epoch is the best: {name} was undefined in all of them.")
    lines += [
        "",
        rows(columns, module),
        "",
        f"{result['status']} after {epochs} epochs in {result['seconds']:.1f} s; "
        f"{result['num_parameters']:,} parameters",
        f"run folder: {recorder.shown}",
        f"curves:     tensorboard --logdir {recorder.root}",
    ]
    return "\n".join(lines)


def rows(columns: Mapping[str, Mapping[str, float]], module: NodeClassifier) -> str:
    """A table of metrics with a column for each epoch, and notes below it: why a metric is
    undefined, and what it leaves out."""
    words = _words(module.task)
    cells: dict[str, dict[str, str]] = {}
    notes = []
    for head, metrics in columns.items():
        cells[head] = {name: in_digits(value) for name, value in metrics.items()}
        for name in metrics:
            # Measures, and what a user's callbacks log, come after the metrics.
            words.setdefault(name, name)
    words.pop("train/lr", None)
    table = pd.DataFrame(cells)
    table = table.reindex([name for name in words if name in table.index])
    for name in table.index[(table == UNDEFINED).any(axis=1)]:
        why = module.task.undefined(name.partition("/")[2])
        notes.append(f"{words[name]} is undefined: {why}.")
    for name, remark in module.eval_metrics.remarks():
        if name in table.index:
            notes.append(f"{words[name]} {remark}.")
    text = table.rename(index=words).to_string(na_rep="", header=any(columns), col_space=11)
    return textwrap.indent("\n".join([text, *notes]), "  ")


def _words(task: Task) -> dict[str, str]:
    """The display name of each metric, in display order."""
    measures = {**task.words, "loss": "loss"}
    if task.scalings:  # it does not have the units of the other errors
        measures["loss"] = "loss (scaled)"
    words = {}
    for which, of_set in SETS.items():
        for name, word in measures.items():
            words[f"{which}/{name}"] = f"{of_set} {word}"
    return words


def _guess(answer: str, found: Mapping[str, float], module: NodeClassifier) -> str | None:
    """A warning if the result is no better than a constant prediction.

    Where one class is much larger than the others, a model that has learned can have the accuracy
    of guessing. So the mean over the classes must be near that of guessing, too.
    """
    task = module.task
    of_set, _, measure = answer.partition("/")
    judged = task.chance_metric or measure
    chance = module.chance(judged)
    if chance is None or f"{of_set}/{judged}" not in found:
        return None
    # A task without classes has no bacc, and is judged by its own metric alone.
    for name, margin in (("bacc", NEAR_CHANCE_IN_THE_MEAN), (judged, NEAR_CHANCE)):
        limit, value = module.chance(name), found.get(f"{of_set}/{name}")
        if limit is not None and value is not None and not value <= limit + margin:
            return None
    text = f"{task.constant} gives {_text(judged, chance)}"
    if judged != measure:
        name = task.words.get(judged, judged)
        text = f"{name} {_text(judged, found[f'{of_set}/{judged}'])}, and {text}"
    return f"warning: this is no better than guessing: {text}."


def _comparison(
    answer: str, found: float, linear: Mapping[str, float], module: NodeClassifier
) -> list[str]:
    """Compare the result with a linear model and the best constant prediction, and warn if the
    linear model is better."""
    measure = answer.partition("/")[2]
    words, lines = [], []
    value = linear.get(answer, math.nan)
    if not math.isnan(value):
        words.append(f"a linear model of {FEATURES} {_text(answer, value)}")
    constant = module.chance(measure)
    if constant is not None:
        words.append(f"the best constant prediction {_text(answer, constant)}")
    if words:
        lines.append(f"  to compare: {', '.join(words)}")
    gain, margin = value - found, NEAR_CHANCE
    if module.task.directions().get(measure) == "min":
        # An error has no range of its own: the margin is a part of it.
        gain, margin = found - value, FALLS * abs(value)
    if gain > margin:
        lines.append(f"warning: the linear model predicts better, {_text(answer, value)}.")
    return lines


def _text(metric: str, value: float) -> str:
    if metric.rpartition("/")[2] in ("acc", "bacc") and not math.isnan(value):
        return f"{100 * value:.1f}%"
    return in_digits(value)
