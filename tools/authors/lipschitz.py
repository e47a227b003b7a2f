"""LipschitzNorm's released code: the GAT and the graph transformer of Dasoulas et al. 2021."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tools.authors.curves import Curves
from tools.authors.released import Released, run_script

RELEASED = Released(
    "gdasoulas/LipschitzNorm",
    "25ddec3c8daf28ec45eddff4ae0420ef239c8426",
    "Dasoulas et al. 2021",
)
NORMS = {"GAT": "none", "GAT-Pn": "pair", "GAT-Lip": "lipschitz"}
#: Their names of our norms. Their GAT has no LayerNorm; their GT with it fails with several heads.
THEIRS = {
    "GAT": {"none": None, "lipschitz": "lipschitznorm", "pair": "pairnorm"},
    "GT": {"none": "None", "lipschitz": "lipschitznorm", "pair": "pairnorm"},
}
SCRIPTS = {"GAT": "train_deepgat_missing.py", "GT": "train_deepgt_depth.py"}
#: The script of the GAT removes features on the device, which fails on a GPU. That of the graph
#: transformer runs a list of norms and depths, and looks at the test nodes after the last epoch.
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "GAT": (
        ("data = dataset[0].to(device)", "data = dataset[0]"),
        ("missing_rate = opt.missing_rate)", "missing_rate = opt.missing_rate).to(device)"),
    ),
    "GT": (
        ("['None', 'layernorm','lipschitznorm','lipschitznorm+layernorm']", "[opt.norm]"),
        ("[1,5,10,15,20, 25, 30, 35]", "[opt.num_layers]"),
        (
            "'acc_val': acc_val.item(),",
            "'acc_val': acc_val.item(), 'acc_test': "
            "accuracy(output[data.test_mask], data.y[data.test_mask]).item(),",
        ),
    ),
}
#: Layers of each method without and with missing features, the best ones in the paper.
LAYERS = {
    ("GAT", "Cora"): (2, 4),
    ("GAT", "CiteSeer"): (2, 4),
    ("GAT", "PubMed"): (6, 4),
    ("GAT-Pn", "Cora"): (4, 12),
    ("GAT-Pn", "CiteSeer"): (4, 10),
    ("GAT-Pn", "PubMed"): (8, 12),
    ("GAT-Lip", "Cora"): (5, 11),
    ("GAT-Lip", "CiteSeer"): (3, 9),
    ("GAT-Lip", "PubMed"): (5, 15),
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
#: Our epochs with 100% missing, where our runs have no schedule.
EPOCHS = {"GAT": 300, "GAT-Pn": 1000, "GAT-Lip": 200}
LOWER = 0.001  # our learning rate of deep stacks


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The options of a cell of lipschitz/table1 or lipschitz/depth: those of our runs.

    ``lr_patience`` is on or off: above 0 the rate falls after ten epochs without a lower loss.

    Raises:
        ValueError: The released code has no such network.
    """
    if "method" in at:
        method, missing = at["method"], at["missing"].rstrip("%")
        key = (method, at["data"])
        if key not in LAYERS:
            raise ValueError(f"the released code has {', '.join(NORMS)}, and not {method!r}.")
        norm = THEIRS["GAT"][NORMS[method]]
        options = DEFAULTS | {"norm": norm, "num_layers": LAYERS[key][missing == "100"]}
        if missing == "100":
            options |= {"lr_patience": 0, "nepoch": EPOCHS[method]}
            if method == "GAT-Lip":
                options["lr"] = LOWER
        return options | {"missing_rate": missing}
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


def run(
    folder: Path,
    data: Path,
    workdir: Path,
    at: Mapping[str, str],
    options: dict[str, Any],
    seed: int,
) -> Curves:
    """Train once; the raw files of Planetoid are read from ``data``."""
    # PyTorch Geometric writes its processed copy beside the raw files, so these are linked.
    raw = workdir / at["data"] / at["data"] / "raw"
    raw.parent.mkdir(parents=True)
    raw.symlink_to(data / at["data"] / "raw")
    on_gpu = torch.cuda.is_available()
    words = ["--datadir", str(workdir), "--dataset", at["data"], "--nexps", "1"]
    words += ["--device", "0" if on_gpu else "-1"]
    for option, value in options.items():
        if value is not None and option != "normalize_features":
            words += [f"--{option}", str(value)]
    layer = at.get("layer", "GAT")
    changes = list(CHANGES[layer])
    if options["normalize_features"]:
        changes.append(NORMALIZED)
    torch.manual_seed(seed)
    np.random.seed(seed)
    states = run_script(folder / SCRIPTS[layer], words, workdir, changes)["states"]
    return Curves(
        [state["acc_val"] for state in states],
        [state["acc_test"] for state in states],
        "gpu" if on_gpu else "cpu",
    )
