"""The methods, data sets, depths and settings that are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The options that each method sets, by section of a config; a GCN where no layer is named.
#: Defaults that make a method what it is are written out. virgo, rebalance, half_hop, fosr, sdrf
#: and borf, and the set eccentricity, need ``pip install ./tools/remedies``.
METHODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "residual": {"model": {"skip": "residual"}},
    "batch": {"model": {"norm": "batch"}},
    "residual_batch": {"model": {"skip": "residual", "norm": "batch"}},
    "residual_layer": {"model": {"skip": "residual", "norm": "layer"}},
    "linear": {"model": {"layer": {"name": "gcn", "root_weight": True}}},
    "linear_batch": {"model": {"layer": {"name": "gcn", "root_weight": True}, "norm": "batch"}},
    "initial_residual": {"model": {"skip": "initial_residual"}},
    "adaptive_initial": {"model": {"skip": "adaptive_initial"}},
    "gcnii": {"model": {"layer": "gcnii", "first_activation": True, "last_activation": True}},
    "rezero": {"model": {"skip": "rezero"}},
    "gated": {"model": {"skip": "gated"}},
    "gradient_gating": {"model": {"skip": "gradient_gating"}},
    "graphcon": {"model": {"skip": {"name": "graphcon", "step_size": 0.5}}},
    "ordered": {"model": {"layer": "mean", "activation": "identity", "skip": "ordered"}},
    "gnnplus": {"model": {"skip": {"name": "feed_forward", "norm": "batch"}, "norm": "batch"}},
    "antisymmetric": {
        "model": {"layer": "antisymmetric", "activation": "identity", "share_layers": True}
    },
    "swan": {"model": {"layer": "swan", "activation": "identity", "share_layers": True}},
    "reaction": {"model": {"layer": "reaction", "activation": "identity", "share_layers": True}},
    "layer": {"model": {"norm": "layer"}},
    "pair": {"model": {"norm": "pair"}},
    "node": {"model": {"norm": "node"}},
    "spectral": {"model": {"norm": {"name": "spectral", "mode": "exact", "bound": 1.0}}},
    "orthogonal": {"model": {"init": {"name": "orthogonal", "looks_linear": True}}},
    "virgo": {"model": {"init": "virgo"}},
    "critical": {"model": {"init": "critical", "activation": "tanh"}},
    "drop_edge": {"model": {"graph_dropout": "drop_edge"}},
    "drop_sens": {"model": {"graph_dropout": {"name": "drop_sens", "p": 0.1}}},
    "drop_message": {"model": {"graph_dropout": "drop_message"}},
    "acm": {"model": {"layer": "acm"}},
    "contra": {"model": {"norm": "contra"}},
    "unitary": {"model": {"layer": {"name": "unitary", "terms": 8}, "activation": "group_sort"}},
    "rebalance": {"trainer": {"callbacks": [{"class_path": "gnn_depth_remedies.Rebalance"}]}},
    # Controls: a step size that shrinks with depth, and other graphs for the same model.
    "depth_lr": {"model": {"depth_lr": 1.5}},
    "half_hop": {"data": {"transforms": [{"name": "half_hop", "p": 0.5}]}},
    "fosr": {"data": {"transforms": [{"name": "fosr", "num_edges": 50}]}},
    "sdrf": {"data": {"transforms": [{"name": "sdrf", "steps": 50}]}},
    "borf": {"data": {"transforms": [{"name": "borf", "rounds": 3}]}},
}
#: The method that the others are compared with.
REFERENCE = "residual_layer"
DEPTHS = (2, 8, 32)
WIDTH = 32
SPLITS = 10
EPOCHS, PATIENCE, VALIDATE_EVERY = 1000, 400, 5


@dataclass(frozen=True)
class BenchmarkSet:
    """A data set with numbered splits.

    Attributes:
        section: The section ``data`` of a config, without the split.
        split: The keys that lead to the number of the split.
        metric: The metric that is compared, as in ``test_acc_at_best_val``.
        is_redrawn: True if each split is data of its own: two splits then share no rows.
    """

    section: Mapping[str, Any]
    split: tuple[str, ...]
    metric: str = "acc"
    is_redrawn: bool = False

    def with_split(self, split: int, method: Mapping[str, Any]) -> dict[str, Any]:
        """The section ``data`` with a split, and with the options that a method sets there."""
        options = {self.split[-1]: split, **method.get("data", {})}
        return _with(self.section, self.split[:-1], options)


def _with(
    section: Mapping[str, Any], path: tuple[str, ...], more: dict[str, Any]
) -> dict[str, Any]:
    if not path:
        return {**section, **more}
    return {**section, path[0]: _with(section.get(path[0], {}), path[1:], more)}


def _set(class_path: str, numbered: str, metric: str = "acc", **options: Any) -> BenchmarkSet:
    """A set whose option ``numbered`` is the number of the split."""
    section = {"class_path": class_path, "init_args": options}
    return BenchmarkSet(section, ("init_args", numbered), metric, is_redrawn=numbered == "seed")


_CORA = {"class_path": "Planetoid", "init_args": {"name": "Cora", "split": "geom-gcn"}}
SETS = {
    "cora": _set("Planetoid", "split_index", name="Cora", split="geom-gcn"),
    "transfer": _set("GraphTransfer", "seed", shape="line", distance=5, num_graphs=1000),
    "transfer_crossed": _set(
        "GraphTransfer", "seed", shape="crossed_ring", distance=5, num_graphs=1000
    ),
    "eccentricity": _set(
        "KHopEccentricity", "seed", num_nodes=1000, train_fraction=0.5, val_fraction=0.25
    ),
    "cora_cold": BenchmarkSet(
        {"class_path": "MissingFeatures", "init_args": {"rate": 1.0, "source": _CORA}},
        ("init_args", "source", "init_args", "split_index"),
    ),
    "squirrel_filtered": _set("HeterophilousGraphs", "split", name="squirrel_filtered"),
    "minesweeper": _set("HeterophilousGraphs", "split", "auroc", name="minesweeper"),
    "photo": _set("Amazon", "split_index", name="Photo"),
}


def settings(count: int = 16, seed: int = 47) -> list[dict[str, float]]:
    """Settings drawn from the search space, the same for every method.

    Learning rates are log-uniform from 5e-4 to 2e-2, dropout is 0, 0.2, 0.5 or 0.7, and weight
    decay 0, 5e-5, 5e-4 or 5e-3.
    """
    draws = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        rate = 5e-4 * 40 ** draws.random()
        dropout = draws.choice([0.0, 0.2, 0.5, 0.7])
        decay = draws.choice([0.0, 5e-5, 5e-4, 5e-3])
        found.append(
            {"lr": float(f"{rate:.3g}"), "dropout": float(dropout), "weight_decay": float(decay)}
        )
    return found
