"""LipschitzNorm's released code: ``train_deepgat_missing.py`` of Dasoulas et al. 2021."""

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
NORMS = {"GAT": None, "GAT-Pn": "pairnorm", "GAT-Lip": "lipschitznorm"}
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
DEFAULTS = {"heads": 8, "lr": 0.005, "lr_patience": 50, "nepoch": 200, "hidden_dim": 64}


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The options of a cell of lipschitz/table1 or lipschitz/depth.

    Raises:
        ValueError: The released code has no such method.
    """
    if "method" in at:
        method, missing = at["method"], at["missing"].rstrip("%")
        key = (method, at["data"])
        if key not in LAYERS:
            raise ValueError(f"the released code has {', '.join(NORMS)}, and not {method!r}.")
        layers = LAYERS[key][missing == "100"]
        return DEFAULTS | {"norm": NORMS[method], "num_layers": layers, "missing_rate": missing}
    norms = {"none": None, "lipschitz": "lipschitznorm", "pair": "pairnorm"}
    if at["layer"] != "GAT" or at["norm"] not in norms:
        raise ValueError(f"this runs a GAT with {', '.join(norms)}, and not {dict(at)}.")
    return DEFAULTS | {"norm": norms[at["norm"]], "num_layers": at["depth"], "missing_rate": 0}


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
    words = ["--datadir", str(workdir), "--dataset", at["data"], "--device", "-1", "--nexps", "1"]
    for option, value in options.items():
        if value is not None:
            words += [f"--{option}", str(value)]
    torch.manual_seed(seed)
    np.random.seed(seed)
    states = run_script(folder / "train_deepgat_missing.py", words, workdir)["states"]
    return Curves([state["acc_val"] for state in states], [state["acc_test"] for state in states])
