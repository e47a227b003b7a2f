"""A case on DGL, for ``tools.bench --dgl``. DGL's last release for CPUs needs an older torch, so an
environment of its own:

    python3.11 -m venv dgl-env
    dgl-env/bin/pip install dgl==2.1.0 torch==2.2.1 torchdata==0.7.1 \\
        'numpy<2' 'pandas<3' pyyaml pydantic
    python -m tools.bench --dgl dgl-env/bin/python --case gcn-64-cora

DGL has no LipschitzNorm: its GAT is timed without, and scores are compared without.
"""

import json
import sys
from functools import partial
from typing import Any

import dgl
import numpy as np
import torch
import torch.nn.functional as F
from dgl.nn import GATConv, GATv2Conv, GraphConv
from torch import Tensor, nn

from tools.bench.stack import LEARNING_RATE, Stack, check_equal
from tools.bench.timing import in_turns

# Names of DGL's parameters: those of PyTorch Geometric.
RENAMED = {
    "attn_l": "att_src",
    "attn_r": "att_dst",
    "attn": "att",
    "fc_src": "lin_src",
    "fc": "lin",
}


class StackOnDGL(Stack):
    def update(self, layer: nn.Module, x: Tensor, graph: Any) -> Tensor:
        return layer(graph, x).flatten(1)

    @torch.no_grad()
    def take_weights(self, given: dict[str, Tensor]) -> None:
        """Copy the weights of the other side, by the names of PyTorch Geometric."""
        for name, parameter in self.named_parameters():
            if self.family == "gcn" and name.startswith("layers.") and name.endswith(".weight"):
                # GraphConv multiplies from the right.
                weight = given.pop(name.replace("weight", "lin.weight")).T
            else:
                words = [RENAMED.get(word, word) for word in name.split(".")]
                weight = given.pop(".".join(words)).view_as(parameter)
            parameter.copy_(weight)
        assert not given, f"DGL's model has no counterpart of {', '.join(given)}"


def main() -> None:
    task = json.loads(sys.argv[1])
    data: dict[str, Tensor] = {}
    weights: dict[str, Tensor] = {}
    for name, array in np.load(task["file"]).items():
        kind = weights if name.startswith("weight:") else data
        kind[name.removeprefix("weight:")] = torch.from_numpy(array)
    x, rows, expected = data["x"], data["rows"], data["scores"]
    graph = dgl.add_self_loop(dgl.graph(tuple(data["edges"]), num_nodes=len(x)))
    heads = task["heads"]
    layers = {
        "gat-lip": partial(GATConv, num_heads=heads, attn_drop=0.3),
        "gatv2": partial(GATv2Conv, num_heads=heads, share_weights=True, bias=False),
        "gcn": GraphConv,
    }
    sizes = (x.shape[1], expected.shape[1], task["layers"], task["width"], heads)
    model = StackOnDGL(task["family"], layers[task["family"]], *sizes)
    model.take_weights(weights)
    with torch.no_grad():
        check_equal(expected, model.eval()(x, graph))
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x, graph)[rows], data["y"]).backward()
        optimizer.step()

    print(json.dumps(in_turns({"dgl": step}, task["rounds"])))


if __name__ == "__main__":
    main()
