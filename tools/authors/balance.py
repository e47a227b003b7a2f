"""The released code of the balanced initialisation: Mustafa, Bojchevski & Burkholz 2023."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from tools.authors.released import Numbers, Released, Training, from_curves, run_script

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
HETEROPHILOUS = ("Actor", "Chameleon", "Cornell", "Squirrel", "Texas", "Wisconsin")
# Learning rates by depth, those of the paper.
SGD_RATES = {"2": 0.1, "5": 0.1, "10": 0.05, "20": 0.05, "40": 0.005}
HETEROPHILOUS_SGD_RATES = {"2": 0.05, "5": 0.05, "10": 0.01, "20": 0.005, "40": 0.0005}
ADAM_RATES = {"2": 0.005, "5": 0.005, "10": 0.0005, "20": 0.0005}
PUBMED_ADAM_RATES = {"2": 0.01, "5": 0.01, "10": 0.001, "20": 0.001}


class Script(NamedTuple):
    """One of the two released scripts, which are nearly the same."""

    path: str  # below the repository
    table: str  # of settings, which it reads
    results: str  # the folder that it writes to
    rows: str  # its line that names the rows of the table
    runs: str  # its line that names the seeds


PLANETOID_SCRIPT = Script(
    "Code/runExpPlatenoid.py",
    "InitExpSettings.csv",
    "ExpResults",
    "expIDs = range(1,2+1)",
    "runIDs =[]",
)
#: It ends when the training loss is below 0.001, the other one at 0.00001.
HETEROPHILOUS_SCRIPT = Script(
    "Code/runExpOthers.py",
    "hetExp/initExpSettingsGATv2Het.csv",
    "hetExp/ExpResultsHetGATv2",
    "expIDs =  range(178,186+1)",
    "runIDs =[]# [0,1]#1]",
)


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The row of the authors' table of settings for a cell of balance/table2, 3, 4 or 6.

    Raises:
        ValueError: The cell is none that this code trains.
    """
    name, depth = at.get("data", "Cora"), at["depth"]
    init = at.get("init", at.get("method", ""))
    if init not in INITS:
        raise ValueError(f"{init!r} is not trained by this code: {', '.join(INITS)}.")
    optimizer = at.get("optimizer", "SGD")
    rates = SGD_RATES
    if optimizer == "Adam":
        rates = PUBMED_ADAM_RATES if name == "PubMed" else ADAM_RATES
    elif name in HETEROPHILOUS:
        rates = HETEROPHILOUS_SGD_RATES
    if depth not in rates:
        raise ValueError(f"the paper has no rate of {optimizer} for {depth} layers on {name}.")
    found = DEFAULTS | {"dataset": name, "numLayers": depth}
    found |= {"optimizer": optimizer, "initialLR": rates[depth]}
    if name == "CiteSeer":
        found["dataTransform"] = "removeIsolatedNodes"
    return found | VARIATIONS[at.get("variation", "none")] | INITS[init]


def run(training: Training) -> Numbers:
    """Train once; the files of the data set are read from ``data``."""
    name = training.options["dataset"]
    if name in HETEROPHILOUS:
        script = HETEROPHILOUS_SCRIPT
        here, there = f"hetExp/data/{name}.npz", f"heterophilous/{name.lower()}.npz"
    else:
        script = PLANETOID_SCRIPT
        here, there = f"data/Planetoid/{name}/raw", f"{name}/raw"
    (training.workdir / here).parent.mkdir(parents=True)
    (training.workdir / here).symlink_to(training.data / there)
    (training.workdir / script.results).mkdir(parents=True)
    pd.DataFrame([{"expId": 1} | training.options]).to_csv(
        training.workdir / script.table, index=False
    )
    changes = [
        (script.rows, "expIDs = [1]"),
        (script.runs, f"runIDs = [{training.seed}]"),
        # PyTorch Geometric returns the weights of attention only if it is asked for them; older
        # versions did so for False as well.
        ("recordAlphas = False", "recordAlphas = True"),
        ("getAttnCoef=False", "getAttnCoef=True"),
    ]
    found = run_script(training.folder, script.path, training.workdir, changes=changes)
    return from_curves(found["valAcc"].tolist(), found["testAcc"].tolist())
