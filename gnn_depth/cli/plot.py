"""``gnn-depth plot``: figures of runs."""

from typing import Any, Literal

from gnn_depth.cli.options import load_runs
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.ranges import Natural
from gnn_depth.reports import figures


def main(
    kind: Literal["depth", "heatmap", "layers", "history", "scatter"],
    folders: list[str],
    *,
    output: list[str],
    where: list[str] | None = None,
    title: str = "",
    line: list[str] | None = None,
    panel: list[str] | None = None,
    x: str | None = None,
    published: str | None = None,
    metric: str | None = None,
    spread: Literal["std", "ci"] | None = None,
    measure: list[str] | None = None,
    layers: list[Natural] | None = None,
) -> int:
    """Draw a figure of runs: a metric against depth, or a measure over layers, over steps
    (history, heatmap) or against another one (scatter).

    Args:
        kind: depth, heatmap, layers, history or scatter.
        folders: Folders with runs.
        output: Files to write: .png, .pdf or .svg.
        where: Only these runs: AXIS=VALUE or AXIS=VALUE,VALUE.
        title: Heading of the figure.
        line: Axes whose values get a line each; by default all that vary.
        panel: Axes whose values get a panel each; in a heatmap all that vary.
        x: In depth the x axis, depth or num_layers by default.
        published: In depth a YAML file of published numbers.
        metric: In depth and scatter; test_METRIC_at_best_val of the task by default.
        spread: In depth the bars, std or ci; std by default.
        measure: The measure, or two for a scatter.
        layers: In history which layers; at most six by default.
    """
    outputs = [check_output(file, figures.FORMATS) for file in output]
    own: dict[str, Any] = {
        "line": line,
        "panel": panel,
        "x": x,
        "published": published,
        "metric": metric,
        "spread": spread,
        "measure": measure,
        "layers": layers,
    }
    # Each kind has its own defaults.
    chosen = {name: value for name, value in own.items() if value is not None}
    # Before the runs are read, which takes long.
    figures.check_options(kind, chosen)
    picture = figures.draw(kind, load_runs(folders, where), title, **chosen)
    for file in outputs:
        write_whole(file, picture.save)
        print(file)
    print(" ".join(picture.notes))
    return 0
