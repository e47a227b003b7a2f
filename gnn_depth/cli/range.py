"""``gnn-depth range``: from how far the nodes of a trained model read."""

from gnn_depth.cli.outputs import check_output, write_whole


def main(run: str, *, nodes: int = 32, output: str | None = None) -> int:
    """Show the share of the influence on test nodes that comes from each distance, in hops.

    Args:
        run: The folder of a run, or one above with a single run.
        nodes: How many test nodes; 32 by default.
        output: Draw a bar for each distance into this file: .pdf, .png or .svg.
    """
    file = None
    if output is not None:
        file = check_output(output, (".pdf", ".png", ".svg"))
    from gnn_depth.training.finished import load
    from gnn_depth.training.loggers import quiet

    with quiet():
        loaded = load(run)
        layers = len(loaded.model.stack.layers)  # a model that cannot be loaded says so first
        found = loaded.range(nodes)
    print(found)
    print(f"the model has {layers} layers")
    if file:
        write_whole(file, found.plot().savefig)
        print(file)
    return 0
