"""Compare one command, with the flags that ``gnn-depth inspect`` proposes, with a script by hand.

::

    python -m tools.own_tables               # all four tables, three seeds each
    python -m tools.own_tables credit --seeds 1

Four pairs of tables are generated in the layouts of public files: credit (four classes of 70, 20, 7
and 3%), twitch and pages (columns of very different sizes), sales (numbers near 1e9 to predict).
The script of :func:`by_hand` is what somebody writes with pandas, scikit-learn's formulas and
PyTorch Geometric who knows the table: the same split, model, optimizer and number of epochs.
"""

import argparse
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.utils import to_undirected

from gnn_depth.cli import main as gnn_depth
from gnn_depth.data import UserGraph
from gnn_depth.runs import read_result

NODES, EDGES, EPOCHS = 3000, 9000, 200


@dataclass(frozen=True)
class Case:
    """A pair of tables.

    Attributes:
        make: Makes the tables of nodes and edges, given a generator.
        target: The column to predict.
        metric: What is compared, as ``result.json`` calls it.
        logs, numbers, words, days: The columns as somebody would use them who knows the table.
    """

    make: Callable[[np.random.Generator], tuple[pd.DataFrame, pd.DataFrame]]
    target: str
    metric: str
    logs: Sequence[str] = ()
    numbers: Sequence[str] = ()
    words: Sequence[str] = ()
    days: Sequence[str] = ()


def split_of(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.choice(["train", "val", "test"], count, p=[0.5, 0.25, 0.25])


def edges_of(rng: np.random.Generator, group: np.ndarray, same: float) -> np.ndarray:
    """Pairs of nodes, most of them from one group."""
    pairs = rng.integers(len(group), size=(20 * EDGES, 2))  # far more than are kept
    keep = (group[pairs[:, 0]] == group[pairs[:, 1]]) | (rng.random(len(pairs)) > same)
    pairs = np.sort(pairs[keep & (pairs[:, 0] != pairs[:, 1])], 1)
    pairs = np.unique(pairs, axis=0)
    return pairs[rng.permutation(len(pairs))][:EDGES]


def credit(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Customers with a risk in four classes of very different sizes."""
    risk = rng.choice(4, NODES, p=[0.7, 0.2, 0.07, 0.03])
    nodes = pd.DataFrame(
        {
            "customer": [f"C{number:05}" for number in range(NODES)],
            "age": rng.normal(45 - 4 * risk, 12, NODES).clip(18, 95).round(),
            "income": rng.lognormal(10.5 - 0.5 * risk, 0.8, NODES).round(2),
            "debt": rng.lognormal(7 + 0.6 * risk, 1.5, NODES).round(2),
            "late_payments": rng.poisson(0.3 + 0.8 * risk),
            "region": rng.choice(["north", "south", "east", "west"], NODES),
            "opened": pd.Timestamp("2010-01-01")
            + pd.to_timedelta(rng.integers(0, 4000, NODES) - 200 * risk, "D"),
            "risk": np.array(["none", "low", "medium", "high"])[risk],
            "split": split_of(rng, NODES),
        }
    )
    nodes["opened"] = nodes.opened.dt.strftime("%Y-%m-%d")
    pairs = edges_of(rng, risk, 0.75)
    return nodes, pd.DataFrame(nodes.customer.to_numpy()[pairs], columns=["payer", "payee"])


def twitch(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accounts with views of six orders of magnitude, flags and a language."""
    affiliate = rng.integers(2, size=NODES)
    nodes = pd.DataFrame(
        {
            "numeric_id": rng.permutation(10 * NODES)[:NODES],
            "views": rng.lognormal(7 + 1.5 * affiliate, 2.5, NODES).round().astype(np.int64),
            "mature": rng.integers(2, size=NODES),
            "life_time": rng.normal(1400 + 300 * affiliate, 600, NODES).clip(1).round(),
            "dead_account": (rng.random(NODES) < 0.05 - 0.04 * affiliate).astype(int),
            "language": rng.choice(["EN", "DE", "FR", "ES", "RU", "JA"], NODES),
            "affiliate": affiliate,
            "split": split_of(rng, NODES),
        }
    )
    pairs = edges_of(rng, affiliate, 0.5)
    ids = nodes.numeric_id.to_numpy()[pairs]
    return nodes, pd.DataFrame(ids, columns=["numeric_id_1", "numeric_id_2"])


def pages(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pages in four categories, with counts of very different sizes."""
    kind = rng.integers(4, size=NODES)
    nodes = pd.DataFrame(
        {
            "id": np.arange(NODES),
            "followers": rng.lognormal(9 + 0.7 * kind, 2, NODES).round(),
            "posts": rng.poisson(60 + 20 * (kind % 2), NODES),
            "share_of_links": rng.beta(2 + kind, 5, NODES).round(4),
            "founded": rng.integers(1950, 2015, NODES) + 5 * (kind // 2),
            "traffic": (1e6 * rng.gamma(2 + kind, 1, NODES)).round(),
            "page_type": np.array(["politician", "company", "government", "tvshow"])[kind],
            "split": split_of(rng, NODES),
        }
    )
    pairs = edges_of(rng, kind, 0.85)
    return nodes, pd.DataFrame(pairs, columns=["id_1", "id_2"])


def sales(rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Firms with a turnover near 1e9, which follows from their own numbers and their partners'."""
    sector = rng.integers(6, size=NODES)
    staff = rng.lognormal(6, 1, NODES).round()
    floor = rng.normal(5000, 1500, NODES).clip(100).round(1)
    pairs = edges_of(rng, sector, 0.8)
    own = 0.5 * np.log(staff) + floor / 5000 + 0.4 * sector
    degree = np.bincount(pairs.ravel(), minlength=NODES).clip(1)
    partners = (
        np.bincount(pairs[:, 0], own[pairs[:, 1]], NODES)
        + np.bincount(pairs[:, 1], own[pairs[:, 0]], NODES)
    ) / degree
    turnover = 1e9 + 1e8 * (own + partners - 10) + rng.normal(0, 2e7, NODES)
    nodes = pd.DataFrame(
        {
            "firm": [f"F{number}" for number in range(NODES)],
            "staff": staff,
            "floor": floor,
            "sector": np.array(["a", "b", "c", "d", "e", "f"])[sector],
            "turnover": turnover.round(2),
            "split": split_of(rng, NODES),
        }
    )
    return nodes, pd.DataFrame(nodes.firm.to_numpy()[pairs], columns=["seller", "buyer"])


CASES = {
    "credit": Case(
        credit,
        "risk",
        "test_f1_at_best_val",
        logs=["income", "debt"],
        numbers=["age", "late_payments"],
        words=["region"],
        days=["opened"],
    ),
    "twitch": Case(
        twitch,
        "affiliate",
        "test_auroc_at_best_val",
        logs=["views"],
        numbers=["mature", "life_time", "dead_account"],
        words=["language"],
    ),
    "pages": Case(
        pages,
        "page_type",
        "test_acc_at_best_val",
        logs=["followers"],
        numbers=["posts", "share_of_links", "founded", "traffic"],
    ),
    "sales": Case(
        sales,
        "turnover",
        "test_mae_at_best_val",
        logs=["staff"],
        numbers=["floor"],
        words=["sector"],
    ),
}


class TwoLayers(torch.nn.Module):
    """Two layers of GCN between two linear layers, with an activation after all but the last."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(features, 64), torch.nn.Linear(64, outputs)
        self.layers = torch.nn.ModuleList([GCNConv(64, 64), GCNConv(64, 64)])

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = self.first(x).relu()
        for layer in self.layers:
            x = layer(x, edges).relu()
        return self.last(x)


def by_hand(case: Case, nodes: pd.DataFrame, edges: pd.DataFrame, seed: int) -> float:
    """The metric of a script that somebody writes for this table."""
    train = (nodes.split == "train").to_numpy()  # all statistics are of these rows alone
    parts = [np.log1p(nodes[[*case.logs]].to_numpy(float)), nodes[[*case.numbers]].to_numpy(float)]
    for name in case.days:
        parts.append(pd.to_datetime(nodes[name]).astype("int64").to_numpy()[:, None] / 86400e9)
    x = np.concatenate(parts, 1)
    x = (x - x[train].mean(0)) / x[train].std(0)
    words = [pd.get_dummies(nodes[name]).to_numpy(float) for name in case.words]
    features = torch.tensor(np.concatenate([x, *words], 1), dtype=torch.float32)
    row = dict(zip(nodes.iloc[:, 0], range(len(nodes)), strict=True))
    ends = torch.tensor(edges.map(row.get).to_numpy().T)
    ends = to_undirected(ends)
    masks = {}
    for name in ("train", "val", "test"):
        masks[name] = torch.tensor((nodes.split == name).to_numpy())
    values = nodes[case.target]
    metric = case.metric.split("_")[1]
    if metric == "mae":
        numbers = torch.tensor(values.to_numpy(float))
        shift, scale = numbers[masks["train"]].mean(), numbers[masks["train"]].std(correction=0)
        y, outputs = ((numbers - shift) / scale).float(), 1
    else:
        y = torch.tensor(pd.Categorical(values).codes.astype(np.int64))
        outputs = int(y.max()) + 1
    weights = None
    if metric == "f1":  # the mean over the classes: rare ones count as much
        counts = torch.bincount(y[masks["train"]])
        weights = counts.sum() / (outputs * counts)
    torch.manual_seed(seed)
    model = TwoLayers(features.shape[1], outputs)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)
    best, answer = -np.inf, np.nan
    for _ in range(EPOCHS):
        model.train()
        optimizer.zero_grad()
        out = model(features, ends)
        chosen = out[masks["train"]]
        if metric == "mae":
            loss = F.mse_loss(chosen[:, 0], y[masks["train"]])
        else:
            loss = F.cross_entropy(chosen, y[masks["train"]], weight=weights)
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            out = model(features, ends)
        validated = score_of(metric, out[masks["val"]], y[masks["val"]])
        if validated > best:
            best = validated
            answer = score_of(metric, out[masks["test"]], y[masks["test"]])
    if metric == "mae":  # back in the units of the table
        return -answer * float(scale)
    return answer


def score_of(metric: str, out: Tensor, y: Tensor) -> float:
    """A metric of which larger values are better."""
    from sklearn.metrics import f1_score, roc_auc_score

    if metric == "mae":
        return -(out[:, 0] - y).abs().mean().item()
    if metric == "auroc":
        return roc_auc_score(y, out[:, 1] - out[:, 0])
    if metric == "f1":
        return f1_score(y, out.argmax(1), average="macro")
    return (out.argmax(1) == y).double().mean().item()


def proposed(case: Case) -> list[str]:
    """The command that inspect proposes for the tables of this folder, told what to predict."""
    flag = ["--data.label", case.target]
    if "mae" in case.metric:
        flag = ["--data.targets", f"[{case.target}]"]
    out = StringIO()
    with redirect_stdout(out):
        assert gnn_depth(["inspect", "nodes.csv", "edges.csv", *flag]) == 0
    command = out.getvalue().partition("Train with")[2].replace("\\\n", " ")
    return shlex.split(command)[1:]


def by_command(case: Case, words: Sequence[str], seed: int) -> float:
    """The metric of one command."""
    root = f"runs-{seed}"
    more = ["--seed_everything", str(seed), "--run.root", root]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert gnn_depth([*words, *more, "--trainer.enable_progress_bar", "false"]) == 0
    (folder,) = Path(root).glob("*/*")
    return read_result(folder)["metrics"][case.metric]


def in_python(case: Case, words: Sequence[str], seed: int) -> float:
    """The same in Python: the flags are the arguments."""
    import yaml

    import gnn_depth as package

    options: dict[str, dict[str, Any]] = {"data": {}, "model": {}}
    for flag, value in pairwise(words):
        found = re.fullmatch(r"--(data|model)\.(\w+)", flag)
        if found:
            options[found[1]][found[2]] = yaml.safe_load(value)
    data = UserGraph("edges.csv", nodes="nodes.csv", **options["data"])
    with redirect_stderr(StringIO()):
        run = package.fit(
            options["model"], data, seed=seed, root="python", enable_progress_bar=False
        )
    return run.metrics[case.metric]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--python", action="store_true", help="measure gnn_depth.fit, too")
    options = parser.parse_args()
    for name in options.cases or CASES:
        case = CASES[name]
        nodes, edges = case.make(np.random.default_rng(0))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # inspect proposes a command for the files of its folder
            nodes.to_csv("nodes.csv", index=False)
            edges.to_csv("edges.csv", index=False)
            words = proposed(case)
            print(f"{name}: gnn-depth {shlex.join(words)}", flush=True)
            for seed in range(options.seeds):
                ours = by_command(case, words, seed)
                hand = by_hand(case, nodes, edges, seed)
                said = f"  {case.metric} {ours:.6g}, by hand {hand:.6g}"
                if options.python:
                    said += f", in Python {in_python(case, words, seed):.6g}"
                print(said, flush=True)
            os.chdir("/")


if __name__ == "__main__":
    main()
