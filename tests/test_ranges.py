"""Every numeric option of every registered part, far outside its range: it works, or one clear ValueError says why."""

import time
import traceback
from pathlib import Path

import pytest
import torch

import gnn_depth
from gnn_depth import Graph, registry
from gnn_depth.data import SyntheticCitation
from gnn_depth.nn.parts import ScoreNorm
from gnn_depth.short_names import describe
from gnn_depth.training import NodeClassifier

PACKAGE = Path(gnn_depth.__file__).parent
#: Options without a default.
NEEDED = {
    "balanced": {"base": "xavier"},
    "Planetoid": {"name": "Cora"},
    "HeterophilousGraphs": {"name": "tolokers"},
    "MiniBatches": {"source": SyntheticCitation()},
    "MissingFeatures": {"source": SyntheticCitation(), "rate": 0.5},
    "UserGraph": {"path": "absent.csv"},
    "PyG": {"dataset": "FakeDataset"},
}
SECONDS = 2.0


def numbers(kind: str) -> list[tuple[str, str, bool]]:
    """Part, option, and whether it may be a fraction."""
    found = []
    for name, cls in registry.registered(kind).items():
        if not cls.__module__.startswith("gnn_depth."):
            continue
        for option in describe(kind, name, cls).options.values():
            if types := {"int", "float"} & set(option.type.split(" | ")):
                found.append((name, option.name, "float" in types))
    return found


def refusal(kind: str, name: str, options: dict[str, float]) -> ValueError | None:
    try:
        use(kind, name, options)
    except ValueError as error:
        return error
    return None


def use(kind: str, name: str, options: dict[str, float]) -> None:
    part = registry.get(kind, name)
    if kind == "data":
        part(**options)
        return
    layer = "gat" if kind == "norm" and issubclass(part, ScoreNorm) else "gcn"
    model = NodeClassifier(8, 3, num_layers=2, hidden_channels=8, **{"layer": layer, kind: {"name": name, **options}})
    graph = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 5)
    model.stack(torch.randn(5, 8), graph).sum().backward()
    model.stack.eval()(torch.randn(5, 8), graph)


@pytest.mark.parametrize("kind", [kind for kind in registry.KINDS if kind != "task"])  # no task takes a number
def test_a_number_far_outside_its_range_works_or_is_refused_in_one_line(kind: str):
    tried = 0
    for name, option, may_be_fraction in numbers(kind):
        for value in (-1, 0, 10**12, *([float("nan"), float("inf")] if may_be_fraction else [])):
            began, what = time.process_time(), f"{kind} {name} {option} {value}"
            tried += 1
            error = refusal(kind, name, NEEDED.get(name, {}) | {option: float(value) if may_be_fraction else value})
            if error is not None:
                raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
                assert raised_in.is_relative_to(PACKAGE), f"{what}: a library raised {error}"
                assert len(str(error).splitlines()) <= 2, what
            assert time.process_time() - began < SECONDS, what
    assert tried
