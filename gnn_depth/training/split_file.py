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
    if ids is None or data.per_graph:
        return
    loader = data.predict_dataloader()
    if not isinstance(loader, FullBatch) or loader.batch.graph.is_shard:
        return
    sets = np.full(len(loader.batch.y), "", object)
    for name, mask in zip(SPLITS, loader.batch.masks, strict=True):
        sets[mask.numpy()] = name
    kept = data.kept_nodes
    if kept is not None:  # a node that transforms leave out is in no set
        ids, of_kept = kept.ids, sets
        sets = np.full(len(ids), "", object)
        sets[kept.rows] = of_kept
    table = pd.DataFrame({"node": ids[: len(sets)], "set": sets})
    write_atomically(folder / FILE, table.to_csv(index=False, lineterminator="\n"))


def sets_in(folder: Path, ids: np.ndarray) -> np.ndarray | None:
    """The set that each node was in, empty for none; None if these are not the ids of the
    training."""
    path = folder / FILE
    if not path.is_file():
        return None
    # As text: a node may be called 01 or NA.
    known = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("node")["set"]
    if len(ids) != len(known) or not known.index.is_unique:
        return None
    found = known.reindex(pd.Index(ids).astype(str))
    if found.isna().any():
        return None
    return found.to_numpy(object)
