"""Everything that measures send to loggers, whichever these are: curves, heat maps, findings,
TensorBoard's layout."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger

from gnn_depth.diagnostics.heat_map import heat_map, pixels
from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.measurements import MeasureValues

MAX_CURVES, THINNED = 32, 16  # so many curves can still be told apart
# A chart shows every curve whose tag matches from its beginning, whichever LightningModule logged
# it. Tags that begin with a tilde come last on TensorBoard's pages: those of the test set, final
# results, counters, measures, pictures, and bands of a sweep.
_TRAINED = r"(~test/|(?!~)(.*[/_])?)"
TRAINING = {
    "accuracy": ["Multiline", [_TRAINED + r"acc(uracy)?(_step|_epoch)?$"]],
    "loss": ["Multiline", [_TRAINED + r"loss(_step|_epoch)?$"]],
}
#: The measures that TensorBoard shows first, each by one heat map and one chart; the projection
#: takes the place of the similarity of states.
FIRST = {
    "gradient_norm_hidden",
    "gradient_similarity",
    "gradient_expansion",
    "projection",
    "representation_similarity",
    "update_ratio",
    "balance_share",
}
# The curves of a measure's chart, which has no legend: its title names them.
SUMMARY = ("first", "middle", "last", "min", "max")
SUMMARY_TITLE = "first, middle, last layer, min, max"


def shown_first(measures: Iterable[Measure]) -> set[str]:
    """The names of those of a training's measures that TensorBoard shows first."""
    found = FIRST & {measure.name for measure in measures}
    if "projection" in found:
        found.discard("representation_similarity")
    return found


def _known(one: MeasureValues) -> int:
    """The number of layers that have a value in some step; of all layers before the first step."""
    is_known = ~np.isnan(one.values).all(0) | (len(one.steps) == 0)
    return int(is_known.sum())


def _has_curves(measure: Measure, one: MeasureValues) -> bool:
    """True if loggers show a measure, and half of the layers have values."""
    return measure.shown and 2 * _known(one) >= len(one.layers)


def log_curves(
    loggers: Iterable[Logger], measures: Sequence[Measure], measured: Sequence[MeasureValues]
) -> None:
    """Log the curves of measures in some steps; a :class:`CSVLogger` gets none, because each curve
    would be a column."""
    pairs = zip(measures, measured, strict=True)
    shown = [pair for pair in pairs if _has_curves(*pair)]
    for logger in loggers:
        if isinstance(logger, CSVLogger) or not shown:
            continue
        for place, step in enumerate(measured[0].steps.tolist()):
            row: dict[str, float] = {}
            for measure, one in shown:
                row |= curve_points(measure, one.layers, one.values[place])
            if row:
                logger.log_metrics(row, step)
        logger.save()


def curve_points(
    measure: Measure, layers: np.ndarray, values: Float[np.ndarray, "layers"]
) -> dict[str, float]:
    """The points of a measure's curves in one step: those of the layers, and a summary of them."""
    count = len(values)
    if not count:  # from layer to layer, of one layer
        return {}
    shown = np.arange(count)
    if count > MAX_CURVES:
        shown = np.linspace(0, count - 1, THINNED).round().astype(int)
    points = {f"layer_{layers[place]:03d}": values[place] for place in shown}
    points |= {"first": values[0], "middle": values[(count - 1) // 2], "last": values[-1]}
    finite = values[np.isfinite(values)]
    if len(finite):
        points |= {"min": finite.min(), "max": finite.max()}
    if measure.product:
        with np.errstate(invalid="ignore"):  # the product of zero and infinity
            points["product"] = values.sum()
    return {
        f"{measure.tag}/{name}": float(value)
        for name, value in points.items()
        if np.isfinite(value)  # loggers draw no gap for NaN, or refuse it
    }


def log_heat_maps(
    loggers: Iterable[Logger],
    measures: Sequence[Measure],
    measured: Sequence[MeasureValues],
    together: Sequence[tuple[Measure, MeasureValues]] = (),
) -> None:
    """Log the heat map of each measure as ``heat_map/TAG`` at its last step, to all loggers that
    take pictures.

    In TensorBoard they stand behind the curves of the training: those of :func:`shown_first` as
    ``~heat_map/TAG``, others as ``~heat_map_more/TAG``, and a line of text for each measure that
    has no value in most layers. ``together`` are all measures of the training, in whose order
    TensorBoard then shows their charts.
    """
    writers: list[Any] = []
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger | MLFlowLogger) or hasattr(logger, "log_image"):
            writers.append(logger)
    if not writers:  # drawing takes time
        return
    drawn = [measure for measure, one in together if _has_curves(measure, one)]
    first = shown_first(drawn or measures)
    for measure, one in zip(measures, measured, strict=True):
        if not measure.shown or not one.values.size:  # from layer to layer, of one layer
            continue
        name, step, tag = f"heat_map/{measure.tag}", int(one.steps[-1]), measure.tag
        text, picture = "", None
        if _has_curves(measure, one):
            picture = pixels(heat_map(one))
        else:
            count = f"{_known(one)} of {len(one.layers)}"
            text = f"{one.name} ({one.unit}) has no picture: {count} layers have values."
        group = "~heat_map" if measure.name in first else "~heat_map_more"
        for logger in writers:
            if isinstance(logger, TensorBoardLogger) and text:
                logger.experiment.add_text(f"no_picture/{tag}", text, step)
            elif text:
                continue
            elif isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image(f"{group}/{tag}", picture, step, dataformats="HWC")
            elif isinstance(logger, MLFlowLogger):
                logger.experiment.log_image(logger.run_id, picture, key=name, step=step)
            else:  # W&B, and loggers with the same method
                logger.log_image(name, [picture], step)
    for logger in writers:
        if isinstance(logger, TensorBoardLogger) and together:
            logger.experiment.add_custom_scalars(_layout(drawn))


def log_findings(
    loggers: Iterable[Logger], source: str, findings: Mapping[str, Mapping[str, object]]
) -> None:
    """Log problems that were found: as text in TensorBoard, in the summary of W&B, as a file in
    MLflow.

    ``source`` says where they come from. A finding has a ``text`` and numbers; the findings are
    given by their kind.
    """
    if not findings:
        return
    for logger in loggers:
        if isinstance(logger, CSVLogger):  # asking for its experiment would make a folder
            continue
        experiment: Any = getattr(logger, "experiment", None)
        if isinstance(logger, TensorBoardLogger):
            listed = "\n".join(f"- {finding['text']}" for finding in findings.values())
            experiment.add_text(source, listed)
        elif isinstance(logger, MLFlowLogger):
            experiment.log_dict(logger.run_id, dict(findings), f"{source}.json")
        elif hasattr(experiment, "summary"):  # W&B
            for kind, finding in findings.items():
                experiment.summary.update({f"{source}/{kind}": dict(finding)})


def _layout(measures: Sequence[Measure]) -> dict[str, dict[str, list[Any]]]:
    """The order of TensorBoard's page of custom scalars: accuracy and loss, then one chart for each
    measure, those of :func:`shown_first` first.

    A measure's chart has its first, middle and last layer, and the smallest and largest value of
    all layers. TensorBoard draws no legend, and shows a curve's tag only under the pointer and in
    the closed list below a chart, so the title names the curves. Charts contain no layer numbers,
    so TensorBoard merges those of several runs, even if the runs differ in depth. A layout replaces
    the one before it, so that a run needs one for all its measures.
    """
    sections: dict[str, dict[str, list[Any]]] = {"training": dict(TRAINING), "layers": {}}
    first = shown_first(measures)
    for measure in measures:
        section = "layers" if measure.name in first else "more measures"
        charts = sections.setdefault(section, {})
        tag = "~?" + re.escape(measure.tag)  # charts match tags by a regular expression
        value = f"log₁₀ {measure.unit}" if measure.log10 else measure.unit
        curves = [f"{tag}/{name}$" for name in SUMMARY]
        charts[f"{value}: {SUMMARY_TITLE}"] = ["Multiline", curves]
        if measure.product:
            charts[f"{value}: product of all layers, without skips"] = [
                "Multiline",
                [f"{tag}/product$"],
            ]
    return sections
