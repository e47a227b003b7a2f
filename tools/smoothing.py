"""Train plain models of several depths, and write what the probe finds before and after it.

::

    python -m tools.smoothing shallow    # docs/results/smoothing_shallow.csv: limits of findings
    python -m tools.smoothing deep       # docs/results/smoothing_deep.csv: table of the page

Adam with a learning rate of 0.01 and weight decay of 5e-4, dropout of 0.5, first split of each data
set. A row has the smallest value over the layers.
"""

import sys
from copy import deepcopy
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import torch
import torch.nn.functional as F

import gnn_depth
from gnn_depth.data import HeterophilousGraphs, Planetoid
from gnn_depth.diagnostics import influence
from gnn_depth.training import NodeClassifier

FOLDER = Path(__file__).parents[1] / "docs/results"
GAT = {"name": "gat", "heads": 8, "split_heads": True}
MODELS = {
    "gcn": {"layer": "gcn"},
    "gcn_residual": {"layer": "gcn", "skip": "residual"},
    "gcnii": {"layer": "gcnii", "encoder": "linear"},
    "gat": {"layer": GAT},
    "gat_lipschitz": {"layer": GAT, "norm": "lipschitz"},
    "sage": {"layer": "sage"},
}
SMALL = ("Cora", "CiteSeer", "PubMed", "chameleon_filtered", "squirrel_filtered")
#: Data sets, depths, width, seeds, epochs, epochs without a better validation, and epochs from one
#: validation to the next.
STUDIES = {
    "shallow": (SMALL, (2, 3, 4), 64, range(2), 200, 50, 1),
    "deep": (("Cora", "squirrel_filtered"), (2, 8, 32, 64), 32, range(1), 300, 150, 4),
}
SYMBOLS = {"d": "d(X)", "mu": "mu/||X||", "rank": "rank(X)", "d_gradient": "d(G)"}


def data_called(name):
    data = Planetoid(name) if name in SMALL[:3] else HeterophilousGraphs(name)
    data.setup("fit")
    return data


def made(data, batch, name, layers, width, seed):
    torch.manual_seed(seed)
    options = {"num_layers": layers, "hidden_channels": width, "dropout": 0.5, **MODELS[name]}
    return NodeClassifier(batch.x.shape[1], data.num_classes, **options)


def train(model, batch, epochs, patience, every):
    """Train, and put the weights of the best validation back; the test accuracy and the epochs."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, since = (-1.0, -1.0, {}), 0
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        if epoch % every:
            continue
        model.eval()
        with torch.no_grad():
            right = model(batch).argmax(-1) == batch.y
        validation = right[batch.val_mask].double().mean().item()
        since += every
        if validation > best[0]:
            test = right[batch.test_mask].double().mean().item()
            best, since = (validation, test, deepcopy(model.state_dict())), 0
        if since >= patience:
            break
    model.load_state_dict(best[2])
    return {"test": best[1], "epochs": epoch + 1}


def loss_of(model, batch):
    return F.cross_entropy(model(batch)[batch.train_mask], batch.y[batch.train_mask])


def probed(model, batch, when):
    # Lipschitz constants take most of a probe's time, and are not part of this study.
    with patch("gnn_depth.diagnostics.probe.layer_values._add_constants", return_value=[]):
        report = gnn_depth.probe(model, batch)
    row = {f"{name}_{when}": report.values[of].min() for name, of in SYMBOLS.items()}
    modes = [f"{finding.mode} {finding.layer}" for finding in report.findings]
    return row | {f"findings_{when}": "; ".join(modes)}


def reach(model, batch):
    """From how far 16 test nodes read, for their largest output."""
    nodes = batch.test_mask.nonzero()[:, 0]
    chosen = nodes[:: len(nodes) // 16][:16].tolist()
    try:
        found = influence(model.stack, batch.x, batch.graph, chosen, largest=True)
    except ValueError:  # these nodes read nothing
        return {"range": float("nan"), "hops_90": ""}
    return {"range": found.range, "hops_90": found.hops_within(0.9)}


def main(study):
    names, depths, width, seeds, *training = STUDIES[study]
    models = [name for name in MODELS if study == "shallow" or name != "sage"]
    rows = []
    for name in names:
        data = data_called(name)
        batch = next(iter(data.train_dataloader()))
        for seed, layers, model_name in product(seeds, depths, models):
            model = made(data, batch, model_name, layers, width, seed)
            row = {"data": name, "model": model_name, "layers": layers, "seed": seed}
            row |= probed(model, batch, "before")
            row |= train(model, batch, *training)
            row |= probed(model, batch, "after")
            if study == "deep":
                row |= reach(model, batch)
            rows.append(row)
            print(*row.values(), flush=True)
    table = pd.DataFrame(rows)
    table.to_csv(FOLDER / f"smoothing_{study}.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main(sys.argv[1])
