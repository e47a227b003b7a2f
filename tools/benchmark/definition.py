"""The methods, data sets, depths, settings and splits that are compared: see PROTOCOL.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch_geometric.data import Data

import gnn_depth

DEPTHS = (2, 8, 32)
SHALLOW = DEPTHS[0]
WIDTH = 32
SPLITS = 10
SETTINGS = 16
EPOCHS, PATIENCE, VALIDATE_EVERY = 1000, 400, 5
#: Rounds of the tuning: how many settings go on, and the epochs of each. The first is longer than
#: the plateau that deep stacks sit on.
ROUNDS = ((SETTINGS, 250), (4, EPOCHS))
LOWEST_RATE, HIGHEST_RATE = 2e-4, 5e-2
#: The method that the others are compared with.
REFERENCE = "residual_layer"
#: The split whose training and validation nodes the settings are chosen by.
TUNING = -1


class Choice(tuple):  # type: ignore[type-arg]
    """The values of an option that the settings of a method draw from."""


_LOOKS_LINEAR = {"name": "orthogonal", "looks_linear": True}
#: The options of the model that each method sets; a GCN where no layer is named.
METHODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"skip": "residual"},
    "residual_batch": {"skip": "residual", "norm": "batch"},
    "residual_layer": {"skip": "residual", "norm": "layer"},
    "initial_residual": {"skip": {"name": "initial_residual", "alpha": Choice((0.1, 0.3, 0.5))}},
    "gcnii": {
        "layer": {
            "name": "gcnii",
            "alpha": Choice((0.1, 0.3, 0.5)),
            "theta": Choice((0.5, 1.0, 1.5)),
        },
        "first_activation": True,
        "last_activation": True,
    },
    "pair": {"norm": {"name": "pair", "scale": Choice((1.0, 10.0))}},
    "lipschitz": {"layer": {"name": "gat", "heads": Choice((1, 4))}, "norm": "lipschitz"},
    "orthogonal": {"init": Choice((_LOOKS_LINEAR, "identity"))},
    "balanced": {"layer": "gat", "init": Choice(("balanced_xavier", "balanced_orthogonal"))},
    "bounded_residual": {
        "skip": "residual",
        "norm": {"name": "spectral", "per_depth": Choice((1.0, 4.0, 8.0))},
    },
    "rezero": {"skip": "rezero"},
}


@dataclass(frozen=True)
class BenchmarkSet:
    """A data set.

    Attributes:
        section: The section ``data`` of a config.
        family: What the set is one of; sets of one family are not independent of each other.
        metric: The metric that is compared, as in ``test_acc_at_best_val``.
        is_redrawn: True if each split is data of its own, drawn from the seed.
    """

    section: Mapping[str, Any]
    family: str
    metric: str = "acc"
    is_redrawn: bool = False


def _set(class_path: str, family: str, metric: str = "acc", **options: Any) -> BenchmarkSet:
    return BenchmarkSet({"class_path": class_path, "init_args": options}, family, metric)


SETS = {
    "cora": _set("Planetoid", "citations", name="Cora", split="geom-gcn"),
    "chameleon": _set("HeterophilousGraphs", "Wikipedia links", name="chameleon_filtered"),
    "minesweeper": _set("HeterophilousGraphs", "grid game", "auroc", name="minesweeper"),
    "transfer": BenchmarkSet(
        {
            "class_path": "GraphTransfer",
            "init_args": {"shape": "line", "distance": 5, "num_graphs": 1000},
        },
        "long range",
        is_redrawn=True,
    ),
    "photo": _set("Amazon", "co-purchases", name="Photo"),
}
#: Shares of the nodes. Half of them are the pool, whose ten parts are the test nodes of the splits.
TRAIN_SHARE, VAL_SHARE = 0.3, 0.2


def split_nodes(num_nodes: int, split: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The training, validation and test nodes of a split.

    Half of the nodes are set aside once. The test nodes of split k are the k-th tenth of them, so
    no two splits share a test node. Training and validation nodes are drawn from the other half,
    anew for each split. The tuning split has no test nodes.
    """
    order = np.random.default_rng(2026).permutation(num_nodes)
    pool, rest = np.split(order, [num_nodes // 2])
    drawn = np.random.default_rng([2026, split - TUNING]).permutation(rest)
    num_train = round(TRAIN_SHARE * num_nodes)
    train, others = np.split(drawn, [num_train])
    val = others[: round(VAL_SHARE * num_nodes)]
    if split == TUNING:
        return train, val, np.array([], dtype=int)
    return train, val, np.array_split(pool, SPLITS)[split]


def load(name: str, split: int) -> Any:
    """The data of a split, as ``gnn_depth.fit`` takes it."""
    chosen = SETS[name]
    if chosen.is_redrawn:
        options = {**chosen.section["init_args"], "seed": split - TUNING}
        return gnn_depth.build("data", {**chosen.section, "init_args": options})
    batch = gnn_depth.build("data", chosen.section).batch
    data = Data(x=batch.x, edge_index=batch.graph.edge_index, y=batch.y)
    for part, nodes in zip(("train", "val", "test"), split_nodes(len(batch.y), split), strict=True):
        mask = torch.zeros(len(batch.y), dtype=torch.bool)
        mask[torch.from_numpy(nodes)] = True
        data[f"{part}_mask"] = mask
    return data


def settings(method: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The settings of a method: learning rate, dropout, weight decay and the method's own options.

    The range of learning rates is cut into as many parts as there are settings, equally wide on a
    logarithmic scale; each setting draws from one of them. Dropout is 0, 0.2, 0.5 or 0.7, weight
    decay 0, 5e-5, 5e-4 or 5e-3. These three are the same for all methods.
    """
    draws = np.random.default_rng(47)
    own_draws = np.random.default_rng([47, crc32(method.encode())])
    found = []
    for part in draws.permutation(SETTINGS):
        share = (part + draws.random()) / SETTINGS
        rate = LOWEST_RATE * (HIGHEST_RATE / LOWEST_RATE) ** share
        decay = draws.choice([0.0, 5e-5, 5e-4, 5e-3])
        optimizer = {"name": "Adam", "lr": float(f"{rate:.3g}"), "weight_decay": float(decay)}
        dropout = float(draws.choice([0.0, 0.2, 0.5, 0.7]))
        found.append({"optimizer": optimizer, "dropout": dropout, **_drawn(options, own_draws)})
    return found


def _drawn(value: Any, draws: np.random.Generator) -> Any:
    """A value in which each choice is replaced by one of its values."""
    if isinstance(value, Choice):
        return value[int(draws.integers(len(value)))]
    if isinstance(value, Mapping):
        return {key: _drawn(inner, draws) for key, inner in value.items()}
    return value
