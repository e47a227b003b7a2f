"""``split.csv`` in a run's folder: the set that each node was in, by its id."""

from pathlib import Path

import numpy as np
import pandas as pd

from gnn_depth.data.base import FullBatch, GraphDataModule
from gnn_depth.data.checks import SPLITS
from gnn_depth.runs import write_atomically

FILE = "split.csv"


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
    write_atomically(folder / FILE, table.to_csv(index=False, lineterminator="\n"))


def sets_in(folder: Path, ids: pd.Series) -> np.ndarray | None:
    """The set that each node was in, empty for none; None if these are not the ids of the
    training."""
    path = folder / FILE
    if not path.is_file():
        return None
    # As text: a node may be called 01 or NA.
    known = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("node")["set"]
    if len(ids) != len(known) or not known.index.is_unique:
        return None
    found = ids.astype(str).map(known)
    if found.isna().any():
        return None
    return found.to_numpy(object)
