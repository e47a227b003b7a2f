"""``split.csv`` in a run's folder: the set that each node was in, by its id."""

from pathlib import Path

import pandas as pd

from gnn_depth.data.base import FullBatch, GraphDataModule
from gnn_depth.data.checks import SPLITS
from gnn_depth.runs import write_atomically


def write_split(folder: Path, data: GraphDataModule) -> None:
    """Write which nodes a run trains, validates and tests on; nothing for nodes without ids."""
    ids = data.node_ids
    loader = data.predict_dataloader()
    if ids is None or data.per_graph or not isinstance(loader, FullBatch):
        return
    if loader.batch.graph.is_shard:
        return
    table = pd.DataFrame({"set": ""}, range(len(loader.batch.y)))
    for name, mask in zip(SPLITS, loader.batch.masks, strict=True):
        table.loc[mask.numpy(), "set"] = name
    kept = data.kept_nodes
    if kept is not None:  # a node that transforms leave out is in no set
        ids = kept.ids
        table = table.set_axis(kept.rows).reindex(range(len(ids)), fill_value="")
    table.insert(0, "node", ids[: len(table)])
    write_atomically(folder / "split.csv", table.to_csv(index=False, lineterminator="\n"))
