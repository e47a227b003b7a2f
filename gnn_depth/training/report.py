"""The closing report of a finished run: the main result, warnings about it, and every metric."""

from collections.abc import Mapping

from gnn_depth.training.recorder import RunRecorder

SETS = {"test": "test", "val": "validation", "train": "training"}
MEASURES = {"auroc": "ROC AUC", "acc": "accuracy", "f1": "macro F1", "loss": "loss"}
#: Metrics in the order in which they are shown, and in words.
WORDS = {f"{which}/{measure}": f"{set_} {word}" for which, set_ in SETS.items() for measure, word in MEASURES.items()}
NEAR_CHANCE = 0.02  # this little above chance is no result
FALLS = 0.1  # a last epoch this much worse than the best one is worth a warning


def report(recorder: RunRecorder) -> str:
    """The main result of a finished run, warnings, metrics of the best and the last epoch, and where to look next."""
    result, best, last = recorder.result, recorder.best, recorder.last_metrics
    shown = best.metrics if best.epoch is not None else last
    measure = best.monitor.partition("/")[2]
    answer = next((f"{which}/{measure}" for which in SETS if f"{which}/{measure}" in shown), None)
    lines = []
    if answer:
        where = (
            f"the best validation epoch, {(best.epoch or 0) + 1} of" if best.epoch is not None else "the last epoch,"
        )
        lines.append(f"{WORDS[answer]} {_text(answer, shown[answer])} at {where} {result['epochs']}")
    warnings = _warnings(answer, shown, last, recorder.chance) if answer else []
    if warnings:
        lines += [
            *warnings,
            f"  see what fails, layer by layer: gnn-depth probe --ckpt_path {recorder.last_checkpoint}",
        ]
    columns = {f"epoch {result['epochs']}": last}
    if best.epoch is not None and best.epoch + 1 != result["epochs"]:
        columns = {f"epoch {best.epoch + 1}": shown, **columns}
    names = [*(name for name in WORDS if name in last), *sorted(last.keys() - WORDS - {"train/lr"})]
    lines += ["", f"  {'':<22}" + "".join(f"{head:>12}" for head in columns)] if names else []
    for name in names:
        cells = [f"{metrics[name]:12.4f}" if name in metrics else " " * 12 for metrics in columns.values()]
        lines.append(f"  {WORDS.get(name, name):<22}" + "".join(cells))
    return "\n".join(
        [
            *lines,
            "",
            f"{result['status']} after {result['epochs']} epochs in {result['seconds']:.1f} s; "
            f"{result['num_parameters']:,} parameters",
            f"run folder: {recorder.folder}",
            f"curves:     tensorboard --logdir {recorder.root}",
        ]
    )


def _warnings(answer: str, best: Mapping[str, float], last: Mapping[str, float], chance: float | None) -> list[str]:
    found = []
    if chance is not None and best[answer] <= chance + NEAR_CHANCE:
        guess = "a coin" if answer.endswith("auroc") else "the most frequent class for every node"
        found.append(f"warning: this is chance level: {guess} gives {_text(answer, chance)}.")
    if best[answer] - last.get(answer, best[answer]) > FALLS:
        points = 100 * (best[answer] - last[answer])
        found.append(f"warning: the last epoch has {_text(answer, last[answer])}, {points:.1f} points less.")
    return found


def _text(metric: str, value: float) -> str:
    return f"{100 * value:.1f}%" if metric.endswith("acc") else f"{value:.3f}"
