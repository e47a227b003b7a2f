"""Tree-NeighborsMatch's released code: Alon & Yahav 2021."""

from collections.abc import Mapping
from typing import Any

from tools.authors.released import Numbers, Released, Training, percent, run_script

RELEASED = Released(
    "tech-srl/bottleneck",
    "bfe83b4a6dd7939ddb19cabea4f1e072f3c35432",
    "Alon & Yahav 2021",
    stopped="as ours",
)
#: What the scripts run-*-2-8.py set for each network.
NETWORKS: dict[str, dict[str, Any]] = {
    "GAT": {"no_activation": True},
    "GCN": {},
    "GIN": {},
    "GGNN": {"no_activation": True, "no_residual": True},
}
#: By depth: passes through the data, as many as ours are given in whole looks, few where the paper
#: has 50,000; and passes of one look at the accuracy, which the learning rate follows. With depth 2
#: both end when they have learned everything.
PASSES = {2: (2000, 100), 3: (200, 10), 4: (75, 5), 5: (10, 5)}


def settings(at: Mapping[str, str]) -> dict[str, Any]:
    """The options of a cell of lipschitz/trees."""
    depth = int(at["depth"])
    passes, of_one_look = PASSES[depth]
    found = {"type": at["method"], "depth": depth, "num_layers": depth + 1, "batch_size": 64}
    if at["norm"] not in ("layer", "none"):
        raise ValueError(f"the released code has the norms layer and none, not {at['norm']!r}.")
    if at["norm"] == "none":
        found["no_layer_norm"] = True
    found |= {"max_epochs": passes, "eval_every": of_one_look}
    return found | NETWORKS[at["method"]]


def run(training: Training) -> Numbers:
    """Train once; the number is the best training accuracy of one look."""
    more = (
        "import main\n"
        f"given = main.get_fake_args(**{training.options!r})\n"
        "given.type = main.GNN_TYPE.from_string(given.type)\n"
        "best_train_acc, _, _ = Experiment(given).run()\n"
    )
    changes = [("seed = 11", f"seed = {training.seed}")]
    script = training.folder, "experiment.py", training.workdir
    found = run_script(*script, changes=changes, more=more)
    return {"values": percent(found["best_train_acc"])}
