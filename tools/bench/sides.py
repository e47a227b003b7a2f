"""The sides of a case: ours and its peers, as training steps of the same model.

Each process of ``tools.bench`` runs ``measure``.
"""

import json
import sys
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth import DeepGNN
from gnn_depth.nn import native
from gnn_depth.training.recorded import ORDINARY, CudaGraph
from tools.bench import peers
from tools.bench.cases import CASES, Case, Data, load
from tools.bench.stack import DROPOUT, LEARNING_RATE, check_equal
from tools.bench.timing import in_turns

PROFILED = 10  # steps
#: Our sides, and the options of the model that they change.
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    "recorded": {},
    "compiled": {},
    "no-kernels": {},
    "no-kernels-recorded": {},
    "checkpoint": {"checkpoint_every": "sqrt"},
    "reversible": {"reversible": 2},
}
OF_PYG = ("pyg", "pyg-compiled", "pyg-recorded")
PEERS = {"gat-lip": OF_PYG, "gatv2": OF_PYG, "gcn": (*OF_PYG, "torch.sparse"), "depth": ()}


class Side:
    """A model with its optimizer and data; a call is one training step."""

    def __init__(self, name: str, case: Case, data: Data) -> None:
        self.name, self.data = name, data
        if name in OURS:
            options = parts(case) | OURS[name]
            self.model: nn.Module = DeepGNN(data.batch.x.shape[1], data.classes, **options)
            self.inputs: tuple[Any, ...] = (data.batch.x, data.batch.graph)
        else:
            self.model = peers.model(name, case, data)
            edges = data.batch.graph.edge_index
            if name == "pyg-recorded" and case.family != "gcn":
                edges = peers.with_loops(edges, len(data.batch.x))
            self.inputs = (data.batch.x, edges)
        self.y = data.batch.y[data.rows]
        self.model.to(self.y.device)
        self.graph: CudaGraph | None = None
        # Ours as it is trained by default, and the peers with torch's default.
        fused = name in OURS or None
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            LEARNING_RATE,
            fused=fused,
            capturable=name.endswith("recorded"),
        )

    def __call__(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        else:
            self.step()

    def record(self) -> None:
        """Replay a recorded step from now on."""
        for _ in range(ORDINARY):
            self.step()
        graph = CudaGraph()
        graph.capture(self.step)
        self.graph = graph

    def step(self) -> None:
        native.use(not self.name.startswith("no-kernels"))
        self.optimizer.zero_grad()
        scores = self.model(*self.inputs)[self.data.rows]
        F.cross_entropy(scores, self.y).backward()
        self.optimizer.step()

    @torch.no_grad()
    def scores(self) -> Tensor:
        """Class scores in evaluation mode."""
        native.use(not self.name.startswith("no-kernels"))
        self.model.eval()
        scores = self.model(*self.inputs)
        self.model.train()
        return scores

    def compile(self) -> None:
        if isinstance(self.model, DeepGNN):
            self.model.compile_layers()
        else:
            # On a GPU torch records what it compiles.
            mode = "reduce-overhead" if self.y.is_cuda else "default"
            self.model.compile(mode=mode)


def parts(case: Case) -> dict[str, Any]:
    """The options of our model, after the numbers of features and classes."""
    gat = {"name": "gat", "heads": case.heads, "dropout": 0.3}
    gcn = {"layer": "gcn", "skip": "residual"}
    families: dict[str, dict[str, Any]] = {
        "gat-lip": {"layer": gat, "norm": "lipschitz", "activation": "elu", "dropout": DROPOUT},
        "gatv2": {
            "layer": {"name": "gatv2", "share_weights": True, "bias": False},
            "encoder": "none",
            "decoder": "none",
        },
        "gcn": gcn,
        "depth": gcn | {"norm": "layer"},
    }
    sizes = {"num_layers": case.layers, "hidden_channels": case.width}
    return sizes | families[case.family]


def equal_sides(case: Case, data: Data, names: list[str]) -> dict[str, Side]:
    """Sides with the same weights, whose scores are compared before they are timed.

    Raises:
        ValueError: They are not the same model.
    """
    reference = Side("default", case, data)
    scores = reference.scores()
    found = {}
    for name in names:
        side = Side(name, case, data)
        if name == "compiled":
            side.compile()
        if name != "reversible":  # another function of the features
            share_weights(reference.model, side.model)
            check_equal(scores, side.scores())
        if name == "pyg-compiled":
            side.compile()
        if name.endswith("recorded"):
            side.record()
        found[name] = side
    return found


@torch.no_grad()
def share_weights(source: Any, target: nn.Module) -> None:
    """Copy our parameters into another side; PyTorch Geometric keeps a leading 1 on those of the
    attention.

    Raises:
        KeyError, ValueError: A parameter of one side has no counterpart.
    """
    if isinstance(target, DeepGNN):
        target.load_state_dict(source.state_dict())
        return
    given: dict[str, Tensor] = {}
    for kind in ("encoder", "layers", "decoder"):
        for name, parameter in getattr(source, kind).named_parameters():
            given[f"{kind}.{name}"] = parameter
    for name, parameter in target.named_parameters():
        name = name.replace(".lin_l.", ".lin_src.")  # as GATv2 of PyTorch Geometric has it
        parameter.copy_(given.pop(name).view_as(parameter))
    if given:
        raise ValueError(f"the peer has no counterpart of {', '.join(given)}.")


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step of every side in turns."""
    torch.manual_seed(0)
    case = CASES[task["case"]]
    data = load(case.data, task["device"])
    sides = equal_sides(case, data, task["sides"])
    seconds = in_turns(sides, task["rounds"], now)
    busy = {}
    if task["device"] == "cuda":
        busy = {name: seconds_busy(side) for name, side in sides.items()}
    return {"seconds": seconds, "busy": busy}


def seconds_busy(side: Side) -> float:
    """Seconds of a step in which the GPU computes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(PROFILED):
            side()
        torch.cuda.synchronize()
    return sum(each.self_device_time_total for each in profile.key_averages()) / PROFILED / 1e6


def now() -> float:
    """The time when a GPU has nothing left to do."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
