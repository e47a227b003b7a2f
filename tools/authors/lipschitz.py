"""LipschitzNorm's released code: the GAT and the graph transformer of Dasoulas et al. 2021."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tools.authors.released import Numbers, Released, Training, from_curves, run_script

RELEASED = Released(
    "gdasoulas/LipschitzNorm",
    "25ddec3c8daf28ec45eddff4ae0420ef239c8426",
    "Dasoulas et al. 2021",
)
#: Their names of our norms. Their GAT has no LayerNorm; their GT with it fails with several heads.
THEIRS = {
    "GAT": {"none": None, "lipschitz": "lipschitznorm", "pair": "pairnorm"},
    "GT": {"none": "None", "lipschitz": "lipschitznorm", "pair": "pairnorm"},
}
#: By method its norm, our epochs with all features missing, where our runs have no schedule, and
#: the layers without and with missing features, the best ones in the paper.
METHODS: dict[str, tuple[str, int, dict[str, tuple[int, int]]]] = {
    "GAT": ("none", 300, {"Cora": (2, 4), "CiteSeer": (2, 4), "PubMed": (6, 4)}),
    "GAT-Pn": ("pair", 1000, {"Cora": (4, 12), "CiteSeer": (4, 10), "PubMed": (8, 12)}),
    "GAT-Lip": ("lipschitz", 200, {"Cora": (5, 11), "CiteSeer": (3, 9), "PubMed": (5, 15)}),
}
SCRIPTS = {"GAT": "train_deepgat_missing.py", "GT": "train_deepgt_depth.py"}
#: The script of the graph transformer runs a list of norms and depths, and looks at the test nodes
#: after the last epoch.
CHANGES: dict[str, list[tuple[str, str]]] = {
    "GAT": [],
    "GT": [
        ("['None', 'layernorm','lipschitznorm','lipschitznorm+layernorm']", "[opt.norm]"),
        ("[1,5,10,15,20, 25, 30, 35]", "[opt.num_layers]"),
        (
            "'acc_val': acc_val.item(),",
            "'acc_val': acc_val.item(), 'acc_test': "
            "accuracy(output[data.test_mask], data.y[data.test_mask]).item(),",
        ),
    ],
}
DEFAULTS = {
    "heads": 8,
    "lr": 0.005,
    "lr_patience": 50,
    "nepoch": 200,
    "hidden_dim": 64,
    "normalize_features": False,  # no option of theirs: a line of the script is replaced
}
NORMALIZED = (
    "transform = None",
    "from torch_geometric.transforms import NormalizeFeatures; transform = NormalizeFeatures()",
)
LOWER = 0.001  # our learning rate of deep stacks


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The options of a cell of lipschitz/table1 or lipschitz/depth: those of our runs.

    ``lr_patience`` is on or off: above 0 the rate falls after ten epochs without a lower loss.

    Raises:
        ValueError: The released code has no such network.
    """
    if "method" in at:
        method, is_missing = at["method"], at["missing"] == "100%"
        if method not in METHODS:
            raise ValueError(f"the released code has {', '.join(METHODS)}, and not {method!r}.")
        norm, epochs, layers = METHODS[method]
        options = DEFAULTS | {"norm": THEIRS["GAT"][norm]}
        options["num_layers"] = layers[at["data"]][is_missing]
        if is_missing:
            options |= {"lr_patience": 0, "nepoch": epochs}
            if method == "GAT-Lip":
                options["lr"] = LOWER
        return options | {"missing_rate": at["missing"].rstrip("%")}
    layer, norm = at["layer"], at["norm"]
    if norm not in THEIRS.get(layer, {}):
        raise ValueError(
            f"the released code has {', '.join(THEIRS)}, each with {', '.join(THEIRS['GAT'])}, "
            f"and not {layer!r} with {norm!r}."
        )
    depth = int(at["depth"])
    options = DEFAULTS | {"norm": THEIRS[layer][norm], "num_layers": at["depth"]}
    if depth >= 10 or (layer == "GT" and depth >= 5):
        options["lr"] = LOWER
    return options | {"missing_rate": 0}


def run(training: Training) -> Numbers:
    """Train once; the raw files of Planetoid are read from ``data``."""
    # PyTorch Geometric writes its processed copy beside the raw files, so these are linked.
    raw = training.workdir / training.at["data"] / training.at["data"] / "raw"
    raw.parent.mkdir(parents=True)
    raw.symlink_to(training.data / training.at["data"] / "raw")
    words = ["--datadir", str(training.workdir), "--dataset", training.at["data"], "--nexps", "1"]
    words += ["--device", "-1"]
    for option, value in training.options.items():
        if value is not None and option != "normalize_features":
            words += [f"--{option}", str(value)]
    layer = training.at.get("layer", "GAT")
    changes = CHANGES[layer]
    if training.options["normalize_features"]:
        changes = [*changes, NORMALIZED]
    torch.manual_seed(training.seed)
    np.random.seed(training.seed)
    found = run_script(training.folder, SCRIPTS[layer], training.workdir, words, changes)
    states = found["states"]
    val = [state["acc_val"] for state in states]
    return from_curves(val, [state["acc_test"] for state in states])
