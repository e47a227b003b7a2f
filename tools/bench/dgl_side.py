"""A case on DGL, for ``dgl_peer``: times full training steps and prints JSON. Runs in an
environment with DGL."""

import json
import sys
from functools import partial
from itertools import pairwise

import dgl
import numpy as np
import torch
import torch.nn.functional as F
from dgl.nn import GATConv, GATv2Conv, GraphConv
from torch import Tensor, nn

from tools.bench import timing
from tools.bench.cases import CASES, Case

# Names of DGL's parameters: those of PyTorch Geometric.
RENAMED = {
    "attn_l": "att_src",
    "attn_r": "att_dst",
    "attn": "att",
    "fc_src": "lin_src",
    "fc": "lin",
}


class Stack(nn.Module):
    """The layers of a case, between two linear maps unless they are bare."""

    def __init__(self, case: Case, features: int, classes: int) -> None:
        super().__init__()
        self.family, width = case.family, case.width
        if self.family == "gatv2":
            widths = [features, *[width] * (case.layers - 1), classes]
            self.layers = nn.ModuleList(
                GATv2Conv(inputs, outputs, 1, share_weights=True, bias=False)
                for inputs, outputs in pairwise(widths)
            )
            return
        self.encoder = nn.Linear(features, width)
        make = partial(GATConv, width, width, 1, feat_drop=0.6, attn_drop=0.3)
        if self.family == "gcn":
            make = partial(GraphConv, width, width)
        self.layers = nn.ModuleList(make() for _ in range(case.layers))
        self.decoder = nn.Linear(width, classes)

    def forward(self, graph: dgl.DGLGraph, x: Tensor) -> Tensor:
        activation = F.elu if self.family == "gat-lip" else F.relu
        is_bare = self.family == "gatv2"
        if not is_bare:
            x = self.encoder(x)
        for position, layer in enumerate(self.layers):
            update = layer(graph, x).flatten(1)
            if position < len(self.layers) - 1:
                update = activation(update)
            x = x + update if self.family == "gcn" else update
        return x if is_bare else self.decoder(x)


@torch.no_grad()
def take_weights(model: Stack, given: dict[str, Tensor]) -> None:
    """Copy the weights of the other side, by the names of PyTorch Geometric."""
    left = dict(given)
    for name, parameter in model.named_parameters():
        *place, last = name.split(".")
        known = ".".join(RENAMED.get(part, part) for part in (*place, last))
        if model.family == "gcn" and name.startswith("layers.") and last == "weight":
            # GraphConv multiplies from the right.
            parameter.copy_(left.pop(".".join((*place, "lin", "weight"))).T)
        else:
            parameter.copy_(left.pop(known).view_as(parameter))
    assert not left, f"DGL's model has no counterpart of {', '.join(left)}"


def main() -> None:
    name, file, samples = sys.argv[1:]
    data, weights = {}, {}
    for key, array in np.load(file).items():
        of_kind = weights if key.startswith("w:") else data
        of_kind[key.removeprefix("w:")] = torch.from_numpy(array)
    x, y, train = data["x"], data["y"], data["train"]
    source, target = data["edge_index"]
    graph = dgl.add_self_loop(dgl.graph((source, target), num_nodes=len(x)))
    model = Stack(CASES[name], x.shape[1], data["scores"].shape[1])
    take_weights(model, weights)
    with torch.no_grad():
        scores = model.eval()(graph, x)
    difference = float((scores - data["scores"]).abs().max() / data["scores"].abs().max())
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), float(data["lr"]))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(graph, x)[train], y[train]).backward()
        optimizer.step()

    print(json.dumps({"seconds": timing.several(step, int(samples)), "difference": difference}))


if __name__ == "__main__":
    main()
