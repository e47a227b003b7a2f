"""Everything that measures send to loggers, whichever these are: curves, heat maps, findings,
TensorBoard's layout."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger

from gnn_depth.diagnostics.heat_map import heat_map
from gnn_depth.measurements import MeasureValues

# A chart shows every curve whose tag matches from its beginning, whichever LightningModule logged
# it. Tags that begin with a tilde are not training curves: they are final results, counters or
# bands of a sweep.
TRAINING = {
    "accuracy": ["Multiline", [r"(?!~)(.*[/_])?acc(uracy)?(_step|_epoch)?$"]],
    "loss": ["Multiline", [r"(?!~)(.*[/_])?loss(_step|_epoch)?$"]],
}


def log_curves(
    loggers: Iterable[Logger], curves: Iterable[tuple[int, Mapping[str, float]]]
) -> None:
    """Log the values of some steps; a :class:`CSVLogger` gets none, because each curve would be a
    column."""
    rows = list(curves)
    for logger in loggers:
        if not isinstance(logger, CSVLogger):
            for step, values in rows:
                if values:
                    logger.log_metrics(dict(values), step)
            logger.save()


def log_heat_maps(loggers: Iterable[Logger], measured: Iterable[tuple[str, MeasureValues]]) -> None:
    """Log the heat map of each measure as ``heat_map/TAG`` at its last step, to all loggers that
    take pictures."""
    writers: list[Any] = [
        logger
        for logger in loggers
        if isinstance(logger, TensorBoardLogger | MLFlowLogger) or hasattr(logger, "log_image")
    ]
    for tag, measurement in measured if writers else ():
        name, picture, step = f"heat_map/{tag}", heat_map(measurement), int(measurement.steps[-1])
        for logger in writers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image(name, picture, step, dataformats="HWC")
            elif isinstance(logger, MLFlowLogger):
                logger.experiment.log_image(logger.run_id, picture, key=name, step=step)
            else:  # W&B, and loggers with the same method
                logger.log_image(name, [picture], step)


def log_findings(
    loggers: Iterable[Logger], source: str, findings: Mapping[str, Mapping[str, Any]]
) -> None:
    """Log problems that were found: as text in TensorBoard, in the summary of W&B, as tags and a
    file in MLflow.

    ``source`` says where they come from. A finding has a ``text`` and numbers; the findings are
    given by their kind.
    """
    for logger in loggers if findings else ():
        experiment: Any = (
            None if isinstance(logger, CSVLogger) else getattr(logger, "experiment", None)
        )
        if isinstance(logger, TensorBoardLogger):
            experiment.add_text(
                source, "\n".join(f"- {finding['text']}" for finding in findings.values())
            )
        elif isinstance(logger, MLFlowLogger):
            for kind, finding in findings.items():
                experiment.set_tag(logger.run_id, f"{source}/{kind}", finding["text"])
            experiment.log_dict(logger.run_id, dict(findings), f"{source}.json")
        elif hasattr(experiment, "summary"):  # W&B
            experiment.summary.update(
                {f"{source}/{kind}": dict(finding) for kind, finding in findings.items()}
            )


def log_layout(loggers: Iterable[Logger], curves: Sequence[tuple[str, bool]]) -> None:
    """Order TensorBoard's page of custom scalars: accuracy and loss, then one chart for each
    measure.

    A measure's chart has its first, middle and last layer, and the smallest and largest value of
    all layers. Charts contain no layer numbers, so TensorBoard merges those of several runs, even
    if the runs differ in depth. A layout replaces the one before it, so that a run needs one for
    all its measures: ``curves`` has the tag of each, and whether it has a curve of the product over
    layers.
    """
    sections: dict[str, dict[str, list[Any]]] = {"training": dict(TRAINING)}
    for tag, product in curves:
        section, _, name = tag.rpartition("/")
        charts = sections.setdefault(section or tag, {})
        charts[name] = ["Multiline", ["~?" + re.escape(tag) + "/(first|middle|last|min|max)$"]]
        if product:
            charts[f"{name}, product of all layers"] = [
                "Multiline",
                ["~?" + re.escape(tag) + "/product$"],
            ]
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.experiment.add_custom_scalars(sections)
