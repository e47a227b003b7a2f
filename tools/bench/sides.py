"""The sides of a case, ours and its peers, as full training steps of the same model."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth import DeepGNN
from gnn_depth.nn.encoder import Embedding
from gnn_depth.nn.layers import GAT, GCN, GATv2, Transformer
from gnn_depth.nn.norms import LayerNorm, LipschitzNorm
from gnn_depth.nn.skips import Residual
from gnn_depth.nn.variants.compile import keep_compiled_code
from tools.bench import peers
from tools.bench.cases import Case
from tools.bench.graphs import Data

Compile = Literal["on", "off"]
# So small that the weights stay where both sides began: one side takes more steps than the other,
# and numbers that vanish or grow on the way would be timed too.
LEARNING_RATE = 1e-6
TOLERANCE = 1e-4
# Layers with LipschitzNorm, and the dropout of their inputs.
LIPSCHITZ: dict[str, tuple[type, float]] = {"gat-lip": (GAT, 0.6), "gt-lip": (Transformer, 0.5)}
# Names of the peer's parameters that are other ones in ours.
RENAMED = {
    r"\.lin_l\.": ".lin_src.",
    r"\.lin_skip\.": ".lin_root.",
    r"^norms\.(\d+)\.": r"norms.\1.0.norm.",
}


@dataclass
class Side:
    """A model, what a loader feeds it, and its optimizer; a call is one training step."""

    model: nn.Module
    feed: Callable[[], tuple[Any, ...]]
    optimizer: torch.optim.Optimizer
    train: Tensor
    classes: Tensor

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(*self.feed())[self.train], self.classes).backward()
        self.optimizer.step()

    @property
    def path(self) -> str:
        """``compiled`` or ``eager``; which of them is known once a step has run."""
        compiled = getattr(self.model, "compiled", None)
        return "eager" if compiled is None or compiled.failed else "compiled"

    @property
    def failure(self) -> str | None:
        """Why layers that were to be compiled run as they are."""
        return getattr(getattr(self.model, "compiled", None), "failed", None)

    @torch.no_grad()
    def scores(self) -> Tensor:
        """Class scores of the nodes that are read, in evaluation mode."""
        self.model.eval()
        scores = self.model(*self.feed())
        self.model.train()
        return scores


def ours(case: Case, data: Data, compiling: Compile = "on") -> Side:
    """The case in this package, with the optimizer its training uses on CPU."""
    model = DeepGNN(data.features, data.classes, **parts(case))
    if compiling == "on":
        keep_compiled_code()
        model.compile_layers(data.graph if data.trees else None)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True)
    return Side(model, data.ours, optimizer, data.train, data.y[data.train])


def peer(case: Case, data: Data, kind: str = "peer") -> Side:
    """The case in PyTorch Geometric, or a GCN on ``torch.sparse``, with torch's default Adam; not
    compiled yet."""
    make = peers.SparseGCN if kind == "torch.sparse" else _peer(case)
    model = make(data.features, data.classes, case.layers, case.width)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE)
    return Side(model, data.peers, optimizer, data.train, data.y[data.train])


def parts(case: Case) -> dict[str, Any]:
    """The options of our model, after the numbers of features and classes."""
    common: dict[str, Any] = {"num_layers": case.layers, "hidden_channels": case.width}
    if case.family in LIPSCHITZ:
        layer, dropout = LIPSCHITZ[case.family]
        common |= {"norm": [LipschitzNorm], "activation": "elu", "dropout": dropout}
        return common | {"layer": partial(layer, heads=case.heads, dropout=0.3)}
    if case.family == "trees":
        layer = partial(GAT, heads=case.heads, split_heads=True)
        after = {"skip": Residual, "norm": [LayerNorm], "norm_after_skip": True}
        return common | after | {"layer": layer, "activation": "identity", "encoder": "embedding"}
    if case.family == "gatv2":
        layer = partial(GATv2, share_weights=True, bias=False)
        return common | {"layer": layer, "encoder": "none", "decoder": "none"}
    return common | {"layer": GCN, "skip": Residual}


def _peer(case: Case) -> Callable[..., nn.Module]:
    make: dict[str, Callable[..., nn.Module]] = {
        "gat-lip": partial(peers.AttentionLip, peers.LipschitzGATConv, heads=case.heads, p=0.6),
        "gt-lip": partial(
            peers.AttentionLip, peers.LipschitzTransformerConv, heads=case.heads, p=0.5
        ),
        "gatv2": peers.GATv2,
        "gcn": peers.ResidualGCN,
        "trees": partial(peers.TreeGAT, heads=case.heads),
    }
    return make[case.family]


@torch.no_grad()
def share_weights(source: nn.Module, target: nn.Module) -> None:
    """Copy our parameters into the peer; PyTorch Geometric keeps a leading 1 on those of the
    attention.

    Raises:
        ValueError: A parameter of one side has no counterpart.
    """
    given = parameters(source)
    for name, parameter in target.named_parameters():
        found = given.pop(_renamed(name), None)
        if found is None or found.numel() != parameter.numel():
            raise ValueError(
                f"the peer's {name} {tuple(parameter.shape)} has no counterpart in ours."
            )
        parameter.copy_(found.view_as(parameter))
    if given:
        raise ValueError(f"the peer has no counterpart of {', '.join(given)}.")


def parameters(model: nn.Module) -> dict[str, Tensor]:
    """By the names that the peers use: layers and norms by number, and an embedding's tables by
    column."""
    stack: Any = model
    lists = {"layers": stack.layers, "norms": stack.norms}
    given: dict[str, Tensor] = {}
    for kind, parts in lists.items():
        for name, parameter in parts.named_parameters():
            given[f"{kind}.{name}"] = parameter
    for name, parameter in model.named_parameters():
        if name.startswith(("encoder", "decoder")):
            given[name] = parameter
    encoder = getattr(model, "encoder", None)
    if isinstance(encoder, Embedding):  # one table here, one for each column there
        tables = given.pop("encoder.weight").split(encoder.sizes)
        for column, table in enumerate(tables):
            given[f"encoder.{column}.weight"] = table
    return given


def _renamed(name: str) -> str:
    for theirs, ours in RENAMED.items():
        name = re.sub(theirs, ours, name)
    return name


def check_equal(first: Tensor, second: Tensor) -> float:
    """The largest difference of two sides' scores, in units of the largest score.

    Raises:
        ValueError: They differ, so the two are not the same model.
    """
    difference = float((first - second).abs().max() / first.abs().max().clamp_min(1e-30))
    if not difference <= TOLERANCE:
        raise ValueError(
            f"the sides differ by {difference:.1e} of the largest score, more than {TOLERANCE:.0e}."
        )
    return difference
