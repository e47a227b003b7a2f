"""TensorBoard's views of measures beyond single curves: heat maps, and a page with the curves in order."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import lightning as L

from gnn_depth.diagnostics.heat_map import heat_map
from gnn_depth.measurements import Measurement

# A chart shows every curve whose tag matches from its beginning, whichever LightningModule logged it. Tags that begin
# with a tilde are not training curves: they are final results, counters or bands of a sweep.
TRAINING = {
    "accuracy": ["Multiline", [r"(?!~)(.*[/_])?acc(uracy)?(_step|_epoch)?$"]],
    "loss": ["Multiline", [r"(?!~)(.*[/_])?loss(_step|_epoch)?$"]],
}


def add_heat_maps(trainer: L.Trainer, measured: Iterable[tuple[str, Measurement]]) -> None:
    """Log the heat map of each measure to TensorBoard, as ``heat_map/TAG`` at its last step.

    Args:
        trainer: The trainer with the loggers; without TensorBoard among them nothing is drawn.
        measured: The tag of each measure, and its values.
    """
    writers = _writers(trainer)
    for tag, measurement in measured if writers else ():
        picture = heat_map(measurement)
        for writer in writers:
            writer.add_image(f"heat_map/{tag}", picture, int(measurement.steps[-1]), dataformats="HWC")


def add_layout(trainer: L.Trainer, curves: Sequence[tuple[str, bool]]) -> None:
    """Order the page of custom scalars: accuracy and loss, then one chart for each measure.

    A layout replaces the one before it, so that a run needs one for all its measures.

    Args:
        trainer: The trainer with the loggers.
        curves: The tag of each measure, and whether it has a curve of the product over layers.
    """
    for writer in _writers(trainer):
        writer.add_custom_scalars(layout(curves))


def layout(curves: Sequence[tuple[str, bool]]) -> dict[str, dict[str, list[Any]]]:
    """Sections of charts, each with a regular expression for the tags of its curves.

    A measure's chart has its first, middle and last layer, and the smallest and largest value of all layers. Charts
    contain no layer numbers, so TensorBoard merges those of several runs, even if the runs differ in depth.
    """
    sections: dict[str, dict[str, list[Any]]] = {"training": dict(TRAINING)}
    for tag, product in curves:
        section, _, name = tag.rpartition("/")
        charts = sections.setdefault(section or tag, {})
        charts[name] = ["Multiline", [re.escape(tag) + "/(first|middle|last|min|max)$"]]
        if product:
            charts[f"{name}, product of all layers"] = ["Multiline", [re.escape(tag) + "/product$"]]
    return sections


def _writers(trainer: L.Trainer) -> list[Any]:
    """TensorBoard's writers, in the process that logs."""
    writers = [getattr(logger, "experiment", None) for logger in trainer.loggers if trainer.is_global_zero]
    return [writer for writer in writers if hasattr(writer, "add_image") and hasattr(writer, "add_custom_scalars")]
