"""The summary of a finished run: the main result, warnings about it, and every metric."""

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from gnn_depth.data.columns import LARGE
from gnn_depth.training.loggers import in_digits
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.tasks import Task

SETS = {"test": "test", "val": "validation", "train": "training"}
SHARES = ("auroc", "acc", "f1", "f1_positive", "bacc", "ap")  # metrics between 0 and 1
MAX_CLASSES = 8  # of a confusion table that is printed
MAX_NAME = 16  # characters of a class's name in it
NEAR_CHANCE = 0.02  # this little above chance is no result
NEAR_CHANCE_IN_THE_MEAN = 0.05  # for the mean over the classes, which is of few nodes for some
# A validation loss that rises this much after a best epoch among the first ones is overfitting.
RISES, EARLY, MANY_EPOCHS = 1.2, 0.25, 20
# A last epoch this much worse than the best one is worth a warning; relative for errors.
FALLS = 0.1


def report(
    recorder: RunRecorder,
    module: NodeClassifier,
    linear: Mapping[str, Mapping[str, float]] | None = None,
) -> str:
    """Say what a finished run found, what is wrong with it, and where to look next.

    Args:
        recorder: What was recorded.
        module: The model.
        linear: The metrics of linear models to compare with, by what they see.
    """
    result, best, last = recorder.result, recorder.best, recorder.last_metrics
    epochs = result["epochs"]
    words = _words(module.task)
    # Where the loss chooses the best epoch, the task's own metric is the answer: of the test set no
    # loss is measured.
    measure = best.monitor.partition("/")[2]
    if f"test/{measure}" not in {**last, **best.metrics}:
        measure = type(module.task).best
    if best.epoch is None:
        shown, where = last, f"the last epoch, {epochs}"
    else:
        shown, where = best.metrics, f"the best validation epoch, {best.epoch + 1} of {epochs}"
    lines = []
    answers = [f"{which}/{measure}" for which in SETS if f"{which}/{measure}" in shown]
    if answers:
        answer = answers[0]
        lines.append(f"{words.get(answer, answer)} {_text(answer, shown[answer])} at {where}")
        lines += _comparison(answer, shown[answer], linear or {}, module)
        guess = _guess(answer, shown, module)
        fall = _fall(answer, shown, last, module)
        if guess or fall:
            assert recorder.shown is not None
            checkpoint = recorder.shown / "checkpoints" / "last.ckpt"
            advice = f"See what fails, layer by layer: gnn-depth probe --ckpt_path {checkpoint}"
            if not fall:
                advice = f"More epochs may help. {advice}"
            lines += [*guess, *fall, f"  {advice}"]
        elif best.epoch is not None:
            lines += _overfit(best.epoch, epochs, shown, last)
    if best.epoch is None and best.monitor in last:
        lines.append(
            f"no epoch is the best: {words.get(best.monitor, best.monitor)} was undefined in all "
            "of them."
        )
    columns = _columns(recorder)
    if any(column.keys() - {"train/lr"} for column in columns.values()):
        lines += ["", rows(columns, module)]
    if best.confusion is not None:
        lines += confusion_lines(best.confusion, module)
    lines += [
        "",
        f"{result['status']} after {epochs} epochs in {result['seconds']:.1f} s; "
        f"{result['num_parameters']:,} parameters",
        f"run folder: {recorder.shown}",
        f"curves:     tensorboard --logdir {recorder.root}",
    ]
    return "\n".join(lines)


def rows(columns: Mapping[str, Mapping[str, float]], module: NodeClassifier) -> str:
    """Metrics in words, one a line, with a column for each head, and why some are undefined.

    A last line says how many rows they are of.

    A single head that is empty is left out.
    """
    words = _words(module.task)
    known: set[str] = set()
    for metrics in columns.values():
        known.update(metrics)
    known.discard("train/lr")
    names = [name for name in words if name in known]
    for name in sorted(known - words.keys()):  # measures, and what a user's callbacks log
        names.append(name)
        words[name] = name
    width = max([21, *(len(words[name]) for name in names)]) + 1
    lines = []
    if any(columns):
        lines.append(" " * (2 + width) + "".join(f"{head:>12}" for head in columns))
    notes = []
    for name in names:
        line = f"  {words[name]:<{width}}"
        is_undefined = False
        for metrics in columns.values():
            cell = ""
            if name in metrics:
                cell = in_digits(metrics[name])
                is_undefined = is_undefined or math.isnan(metrics[name])
            line += f"{cell:>12}"
        lines.append(line.rstrip())
        if is_undefined:
            why = module.task.undefined(name.partition("/")[2])
            notes.append(f"  {words[name]} is undefined: {why}.")
    for name, remark in module.eval_metrics.remarks():
        if name in names:
            notes.append(f"  {words[name]} {remark}.")
    return "\n".join([*lines, *notes, *_measured_on(names, module)])


def _measured_on(names: Sequence[str], module: NodeClassifier) -> list[str]:
    """Lines on the number of rows that the metrics of each set are measured on."""
    sizes = {**module.eval_metrics.sizes, **module.train_metrics.sizes}
    shown = {name.partition("/")[0] for name in names}
    words = []
    for which, of_set in SETS.items():
        if which in shown and sizes.get(which):
            words.append(f"{sizes[which]:,} {of_set}")
    lines = []
    if words:
        row = "node"
        if module.schema is not None and module.schema.per_graph:
            row = "graph"
        if not words[-1].startswith("1 "):
            row += "s"
        listed = words[-1]
        if len(words) > 1:
            listed = f"{', '.join(words[:-1])} and {listed}"
        lines.append(f"  measured on {listed} {row}")
    if "train" in shown:
        lines.append(
            "  training metrics are of the steps themselves: with dropout, before weights changed"
        )
    return lines


def confusion_lines(counts: Tensor, module: NodeClassifier) -> list[str]:
    """The confusion table of the test nodes, or of the validation nodes; none if it is large."""
    schema = module.schema
    if schema is None or len(schema.outputs) > MAX_CLASSES:
        return []
    of_set, matrix = "test", counts[-1]
    if not matrix.any():
        of_set, matrix = "validation", counts[0]
    if not matrix.any():
        return []
    names = []
    for name in schema.outputs:
        if len(name) > MAX_NAME:
            name = f"{name[: MAX_NAME - 1]}…"
        names.append(name)
    first = max(len("class"), *map(len, names))
    width = max(len(f"{int(matrix.max()):,}"), *map(len, names)) + 2
    head = "".join(f"{name:>{width}}" for name in names)
    lines = ["", f"  {of_set} nodes by class (rows) and predicted class (columns)"]
    lines.append(f"  {'class':<{first}}{head}{'found':>9}")
    for number, row in enumerate(matrix.tolist()):
        # The last column counts nodes without a prediction.
        cells = "".join(f"{count:>{width},}" for count in row[: len(names)])
        found = "none"
        if any(row):
            found = f"{100 * row[number] / sum(row):.1f}%"
        lines.append(f"  {names[number]:<{first}}{cells}{found:>9}")
    return lines


def _columns(recorder: RunRecorder) -> dict[str, Mapping[str, float]]:
    """The metrics of the best epoch, of the last validated one, and of the last one."""
    # By epoch, as two of the three may be one.
    of_epoch: dict[int, Mapping[str, float]] = {}
    if recorder.validated is not None:
        epoch, metrics = recorder.validated
        of_epoch[epoch] = metrics
    if recorder.best.epoch is not None:
        of_epoch[recorder.best.epoch] = recorder.best.metrics
    of_epoch[recorder.result["epochs"] - 1] = recorder.last_metrics
    return {f"epoch {epoch + 1}": of_epoch[epoch] for epoch in sorted(of_epoch)}


def _words(task: Task) -> dict[str, str]:
    """Metrics in words, in the order in which they are shown."""
    measures = {**task.words, "loss": "loss"}
    if task.scales_targets:  # it has not the units of the other errors
        measures["loss"] = "loss (scaled)"
    words = {}
    for which, of_set in SETS.items():
        for name, word in measures.items():
            words[f"{which}/{name}"] = f"{of_set} {word}"
    return words


def _guess(answer: str, best: Mapping[str, float], module: NodeClassifier) -> list[str]:
    """Says that the answer is no better than guessing, if it is."""
    task = module.task
    of_set, _, measure = answer.partition("/")
    judged = f"{of_set}/{task.chance_metric or measure}"
    chance = module.chance(task.chance_metric or measure)
    if chance is None or not _is_guess(judged, best, module):
        return []
    text = f"{task.constant} gives {_text(judged, chance)}"
    if judged != answer:  # a metric that is not the answer is named
        name = task.words.get(judged.partition("/")[2], judged)
        text = f"{name} {_text(judged, best[judged])}, and {text}"
    found = [f"warning: this is no better than guessing: {text}."]
    schema = module.schema
    # Large targets are far from the first outputs, and small steps take long to reach them.
    is_raw = schema is not None and schema.task == "regression" and not schema.targets_scaling
    if is_raw and best[answer] > LARGE:
        found.append(
            "  The targets are large: --data.scale_target standard, in Python "
            "GraphSource(..., scale_target='standard'), scales them for the loss."
        )
    return found


def _comparison(
    answer: str,
    found: float,
    linear: Mapping[str, Mapping[str, float]],
    module: NodeClassifier,
) -> list[str]:
    """Compare the result with linear models and the best constant prediction, and warn if a linear
    model is better."""
    measure = answer.partition("/")[2]
    lower_is_better = module.task.directions().get(measure) == "min"
    words: list[str] = []
    better: list[str] = []
    for features, metrics in linear.items():
        value = metrics.get(answer, math.nan)
        if math.isnan(value):
            continue
        text = f"of {features} {_text(answer, value)}"
        if not words:
            text = f"a linear model {text}"
        words.append(text)
        gain, margin = value - found, NEAR_CHANCE
        if lower_is_better:
            # An error has no range of its own: the margin is a part of it.
            gain, margin = found - value, FALLS * abs(value)
        if gain > margin:
            better.append(features)
    constant = module.chance(measure)
    if constant is not None:
        words.append(f"the best constant prediction {_text(answer, constant)}")
    lines = []
    if words:
        lines.append(f"  to compare: {', '.join(words)}")
    schema = module.schema
    if schema is not None and schema.named and not schema.per_graph and answer.startswith("test/"):
        lines.append(
            "  these nodes are in the graph of the training: on another graph, such as next "
            "month's, the result may be worse; gnn-depth test measures it"
        )
    if better:
        lines.append(
            f"warning: a linear model of {better[0]} predicts better: features of very different "
            "size, the edges or this network may be why."
        )
    return lines


def _fall(
    answer: str, best: Mapping[str, float], last: Mapping[str, float], module: NodeClassifier
) -> list[str]:
    """Says that the answer was lost by the last epoch, if it was."""
    worse = best[answer] - last.get(answer, best[answer])
    if answer.partition("/")[2] in SHARES and worse > FALLS:
        points = f"{100 * worse:.1f} points less"
        return [f"warning: the last epoch has {_text(answer, last[answer])}, {points}."]
    if module.task.lower_is_better and -worse > FALLS * abs(best[answer]):
        return [f"warning: the last epoch has {_text(answer, last[answer])}."]
    return []


def _overfit(
    best_epoch: int, epochs: int, best: Mapping[str, float], last: Mapping[str, float]
) -> list[str]:
    """Says that most epochs fitted the training rows alone, if they did."""
    begun, ended = best.get("val/loss", math.nan), last.get("val/loss", math.nan)
    is_early = epochs >= MANY_EPOCHS and best_epoch < EARLY * epochs
    # Written so that NaN is no rise.
    if not is_early or not ended > RISES * begun:
        return []
    return [
        f"  since then the validation loss has risen from {begun:.3g} to {ended:.3g}: the later "
        "epochs fit the training rows alone. More dropout or weight decay, or fewer layers or "
        "channels, may predict better."
    ]


def _is_guess(judged: str, metrics: Mapping[str, float], module: NodeClassifier) -> bool:
    """True if a metric is that of a constant prediction.

    Where one class is much larger than the others, a model that has learned can have the accuracy
    of guessing. So the mean over the classes must be near that of guessing, too.
    """
    of_set, _, measure = judged.partition("/")
    # A task without classes has no bacc, and is judged by its own metric alone.
    limits = {"bacc": NEAR_CHANCE_IN_THE_MEAN, measure: NEAR_CHANCE}
    for name, margin in limits.items():
        chance = module.chance(name)
        found = metrics.get(f"{of_set}/{name}")
        if chance is not None and found is not None and not found <= chance + margin:
            return False
    return f"{of_set}/{measure}" in metrics


def _text(metric: str, value: float) -> str:
    if math.isnan(value):
        return in_digits(value)
    if metric.endswith("acc"):
        return f"{100 * value:.1f}%"
    if metric.partition("/")[2] in SHARES:
        return f"{value:.3f}"
    return f"{value:.4g}"
