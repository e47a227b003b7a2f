"""The released code of the balanced initialisation: Mustafa, Bojchevski & Burkholz 2023."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.authors.curves import Curves
from tools.authors.released import Released, run_script

RELEASED = Released(
    "RelationalML/GAT_Balanced_Initialization",
    "0fdd1470560a06cdd44a72c19f16cf7d9035c555",
    "Mustafa et al. 2023",
)
INITS = {
    "Xav": {"initScheme": "xavierN"},
    "XavZ": {"initScheme": "xavrWzeroA"},
    "BalX": {"initScheme": "xavrWzeroA", "scalScheme": "balLtoRconst", "scalHP": "2|0|1"},
    "BalO": {"initScheme": "LLortho", "scalScheme": "balLtoRconst", "scalHP": "2|0|1"},
}
VARIATIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "8 heads": {"attnHeads": 8},
    "ELU": {"activation": "elu"},
    "dropout 0.6": {"attnDropout": 0.6},
    "weight decay 0.0005": {"wghtDecay": 0.0005},
    # The script calls bool on a number of the table, and an empty text is False.
    "unshared weights": {"weightSharing": 0},
}
DEFAULTS: dict[str, Any] = {
    "numRuns": 1,
    "dataTransform": "",
    "hiddenDim": 64,
    "attnHeads": 1,
    "activation": "relu",
    "weightSharing": 1,
    "optimizer": "SGD",
    "maxEpochs": 5000,
    "lrDecayFactor": 1,
    "lrDecayPatience": "",
    "attnDropout": 0,
    "wghtDecay": 0,
    "initScheme": "",
    "scalScheme": "",
    "scalHP": "",
    "useIdMap": 0,
    "useResLin": 0,
    "mulLastAttHead": 0,
}
ADAM_RATES = {"5": 0.005, "10": 0.0005}
SGD_RATES = {"2": 0.1, "5": 0.1, "10": 0.05, "20": 0.05, "40": 0.005}


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The row of the authors' table of settings for a cell of balance/table2, 3 or 4."""
    found = DEFAULTS | {"dataset": at.get("data", "Cora"), "numLayers": at["depth"]}
    if at.get("optimizer") == "Adam":
        found |= {"optimizer": "Adam", "initialLR": ADAM_RATES[at["depth"]]}
    else:
        found |= {"initialLR": SGD_RATES[at["depth"]]}
    if found["dataset"] == "CiteSeer":
        found["dataTransform"] = "removeIsolatedNodes"
    return found | VARIATIONS[at.get("variation", "none")] | INITS[at["init"]]


def run(
    folder: Path,
    data: Path,
    workdir: Path,
    at: Mapping[str, str],
    options: dict[str, Any],
    seed: int,
) -> Curves:
    """Train once; the raw files of Planetoid are read from ``data``."""
    raw = workdir / "data" / "Planetoid" / options["dataset"] / "raw"
    raw.parent.mkdir(parents=True)
    raw.symlink_to(data / options["dataset"] / "raw")
    (workdir / "ExpResults").mkdir()
    row = {"expId": 1} | options
    with (workdir / "InitExpSettings.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(row))
        writer.writeheader()
        writer.writerow(row)
    changes = [
        ("expIDs = range(1,2+1)", "expIDs = [1]"),
        ("runIDs =[]", f"runIDs = [{seed}]"),
        # PyTorch Geometric returns the weights of attention only if it is asked for them; older
        # versions did so for False as well.
        ("recordAlphas = False", "recordAlphas = True"),
        ("getAttnCoef=False", "getAttnCoef=True"),
    ]
    found = run_script(folder / "Code" / "runExpPlatenoid.py", [], workdir, changes)
    return Curves(found["valAcc"].tolist(), found["testAcc"].tolist())
