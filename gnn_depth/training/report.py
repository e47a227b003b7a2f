"""The closing report of a finished run: the main result, warnings about it, and every metric."""

from collections.abc import Mapping

from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.tasks import Task

SETS = {"test": "test", "val": "validation", "train": "training"}
SHARES = ("auroc", "acc", "f1")  # metrics between 0 and 1
NEAR_CHANCE = 0.02  # this little above chance is no result
FALLS = (
    0.1  # a last epoch this much worse than the best one is worth a warning, relative for errors
)


def report(recorder: RunRecorder, module: NodeClassifier) -> str:
    """The main result of a finished run, warnings, metrics of the best and the last epoch, and
    where to look next."""
    result, best, last = recorder.result, recorder.best, recorder.last_metrics
    words = _words(module.task)
    shown = best.metrics if best.epoch is not None else last
    measure = best.monitor.partition("/")[2]
    answer = next((f"{which}/{measure}" for which in SETS if f"{which}/{measure}" in shown), None)
    lines = []
    if answer:
        where = (
            f"the best validation epoch, {(best.epoch or 0) + 1} of"
            if best.epoch is not None
            else "the last epoch,"
        )
        lines.append(
            f"{words.get(answer, answer)} {_text(answer, shown[answer])} at {where} "
            f"{result['epochs']}"
        )
        if warnings := _warnings(answer, shown, last, module):
            assert recorder.shown is not None
            probe = f"gnn-depth probe --ckpt_path {recorder.shown / 'checkpoints' / 'last.ckpt'}"
            lines += [*warnings, f"  More epochs may help. See what fails, layer by layer: {probe}"]
    columns = {f"epoch {result['epochs']}": last}
    if best.epoch is not None and best.epoch + 1 != result["epochs"]:
        columns = {f"epoch {best.epoch + 1}": shown, **columns}
    return "\n".join(
        [
            *lines,
            *(["", rows(columns, module.task)] if last.keys() - {"train/lr"} else []),
            "",
            f"{result['status']} after {result['epochs']} epochs in {result['seconds']:.1f} s; "
            f"{result['num_parameters']:,} parameters",
            f"run folder: {recorder.shown}",
            f"curves:     tensorboard --logdir {recorder.root}",
        ]
    )


def rows(columns: Mapping[str, Mapping[str, float]], task: Task) -> str:
    """Metrics in words, one in a line, with a column of values for each head; a single head that is
    empty is left out.

    The last column decides which metrics are shown.
    """
    words, last = _words(task), list(columns.values())[-1]
    names = [*(name for name in words if name in last), *sorted(last.keys() - words - {"train/lr"})]
    width = max([22, *(len(words.get(name, name)) + 1 for name in names)])
    lines = (
        [f"  {'':<{width}}" + "".join(f"{head:>12}" for head in columns)] if any(columns) else []
    )
    for name in names:
        cells = [
            f"{metrics[name]:12.4f}" if name in metrics else " " * 12
            for metrics in columns.values()
        ]
        lines.append(f"  {words.get(name, name):<{width}}" + "".join(cells))
    return "\n".join(lines)


def _words(task: Task) -> dict[str, str]:
    """Metrics in the order in which they are shown, and in words."""
    measures = {**task.words, "loss": "loss"}
    return {
        f"{which}/{name}": f"{of_set} {word}"
        for which, of_set in SETS.items()
        for name, word in measures.items()
    }


def _warnings(
    answer: str, best: Mapping[str, float], last: Mapping[str, float], module: NodeClassifier
) -> list[str]:
    task, chance, found = module.task, module.chance, []
    judged = f"{answer.partition('/')[0]}/{task.chance_metric}" if task.chance_metric else answer
    if chance is not None and best.get(judged, 1.0) <= chance + NEAR_CHANCE:
        # A metric that is not the answer is named.
        name = "" if judged == answer else f"{task.words.get(judged.partition('/')[2], judged)} "
        text = (
            f"{name}{_text(judged, best[judged])}, and {task.constant} gives"
            if name
            else f"{task.constant} gives"
        )
        found.append(f"warning: this is no better than guessing: {text} {_text(judged, chance)}.")
    worse = best[answer] - last.get(answer, best[answer])
    if answer.partition("/")[2] in SHARES and worse > FALLS:
        found.append(
            f"warning: the last epoch has {_text(answer, last[answer])}, {100 * worse:.1f} points "
            "less."
        )
    elif task.lower_is_better and -worse > FALLS * abs(best[answer]):
        found.append(f"warning: the last epoch has {_text(answer, last[answer])}.")
    return found


def _text(metric: str, value: float) -> str:
    if metric.endswith("acc"):
        return f"{100 * value:.1f}%"
    return f"{value:.3f}" if metric.partition("/")[2] in SHARES else f"{value:.4g}"
