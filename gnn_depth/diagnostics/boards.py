"""What TensorBoard shows of measures besides their curves: pictures, and a page on which the curves stand in order."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import lightning as L

from gnn_depth.diagnostics.heat_map import heat_map
from gnn_depth.measurements import Measurement

# A chart takes every curve whose tag matches from its start: ours, and those of other LightningModules. What a run came
# to, for the page of hyperparameters, is one point at step 0 and no part of a curve.
TRAINING = {
    "accuracy": ["Multiline", [r"(?!final/)(.*[/_])?acc(uracy)?(_step|_epoch)?$"]],
    "loss": ["Multiline", [r"(?!final/)(.*[/_])?loss(_step|_epoch)?$"]],
}


def boards(trainer: L.Trainer) -> list[Any]:
    """The writers of TensorBoard that a run logs to, in the process that logs."""
    writers = [getattr(logger, "experiment", None) for logger in trainer.loggers if trainer.is_global_zero]
    return [writer for writer in writers if hasattr(writer, "add_image") and hasattr(writer, "add_custom_scalars")]


def show(trainer: L.Trainer, measured: Iterable[tuple[str, Measurement]]) -> None:
    """Give every board the heat map of each measure, as ``heat_map/TAG`` at its last step."""
    writers = boards(trainer)
    for tag, measurement in measured if writers else ():
        picture = heat_map(measurement)
        for writer in writers:
            writer.add_image(f"heat_map/{tag}", picture, int(measurement.steps[-1]), dataformats="HWC")


def lay_out(trainer: L.Trainer, curves: Sequence[tuple[str, bool]]) -> None:
    """Order the page of custom scalars: accuracy and loss, then a chart with all layers of each measure.

    A layout replaces the one before it, so that a run has one for all its measures.

    Args:
        trainer: Has the loggers.
        curves: The tag of each measure, and whether it has a curve of its product.
    """
    for writer in boards(trainer):
        writer.add_custom_scalars(layout(curves))


def layout(curves: Sequence[tuple[str, bool]]) -> dict[str, dict[str, list[Any]]]:
    """Sections of charts of expressions that tags match.

    Expressions, no lists of layers: TensorBoard brings the layouts of several runs together, where charts that are
    equal become one, also of runs that differ in their depth.
    """
    sections: dict[str, dict[str, list[Any]]] = {"training": dict(TRAINING)}
    for tag, product in curves:
        section, _, name = tag.rpartition("/")
        charts = sections.setdefault(section or tag, {})
        charts[name] = ["Multiline", [re.escape(tag) + r"/layer_\d+$"]]
        if product:
            charts[f"{name}, product of all layers"] = ["Multiline", [re.escape(tag) + "/product$"]]
    return sections
