"""The page of parts and their abilities, from what the parts declare.

``python -m tools.site.cheat_sheet`` writes it; a test compares it with the committed page.
"""

from pathlib import Path

import torch

from gnn_depth import Graph
from gnn_depth.nn.parts import AttentionLayer
from gnn_depth.registry import registered

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cheat_sheet.md"
TOP = """# Parts and their abilities

*For choosing a part. You need the [basic concepts](../concepts.md). Written by
`python -m tools.site.cheat_sheet` from what each part declares with its default options.*
"""
LAYERS = """
## Layers

- **edge weights, edge features**: the layer reads `edge_weight`, `edge_attr`.
- **scores**: the kind of attention score, which score norms act on.
- **divided**: one graph can be divided among processes (`--trainer.strategy graph`).
- **bound**: an upper bound of the Lipschitz constant is known.
- **export**: `run.export` writes the model.

| layer | edge weights | edge features | scores | divided | bound | export |
|---|---|---|---|---|---|---|
"""
NORMS = """
## Norms

**local**: the output of a node depends on that node alone, or on the edges into it.

| norm | acts on | local | divided | export |
|---|---|---|---|---|
"""
SKIPS = """
## Skip connections

**reads**: the earlier states that are kept. **invertible**: usable in reversible stacks.

| skip connection | reads | invertible | divided | export |
|---|---|---|---|---|
"""
PLACES = {"FeatureNorm": "features", "ScoreNorm": "scores", "WeightNorm": "weights"}


def built_in(kind: str) -> list[str]:
    """The names of the package's own parts, sorted."""
    parts = registered(kind)
    return sorted(name for name in parts if parts[name].__module__.startswith("gnn_depth."))


def mark(has_ability: bool) -> str:
    return "yes" if has_ability else ""


def layer_row(name: str) -> list[str]:
    torch.manual_seed(0)
    # A convolution of PyTorch Geometric declares nothing but what its options say.
    layer = registered("layer")[name](16, 16)
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    score = layer.score.__name__.removesuffix("Score") if isinstance(layer, AttentionLayer) else ""
    has_bound = False
    if hasattr(layer, "lipschitz_bound"):
        has_bound = layer.eval().lipschitz_bound(graph) is not None
    abilities = [layer.takes_edge_weights, layer.takes_edge_features]
    last = [layer.takes_blocks or layer.takes_shards, has_bound, not layer.export_refusal]
    return [f"`{name}`", *map(mark, abilities), score.lower(), *map(mark, last)]


def norm_row(name: str) -> list[str]:
    # The width, the heads or the number of layers, depending on where the norm acts.
    norm = registered("norm")[name](16)
    bases = [base.__name__ for base in type(norm).__mro__]
    place = next(place for base, place in PLACES.items() if base in bases)
    divided = place == "weights" or norm.nodewise or norm.takes_shards
    return [f"`{name}`", place, *map(mark, [norm.nodewise, divided, not norm.export_refusal])]


def skip_row(name: str) -> list[str]:
    skip = registered("skip")[name]([16, 16], 16)
    divided = skip.takes_blocks or skip.takes_shards
    return [
        f"`{name}`",
        skip.reads,
        *map(mark, [skip.invertible, divided, not skip.export_refusal]),
    ]


def page() -> str:
    """The page as Markdown."""
    text = TOP
    tables = {
        LAYERS: [layer_row(name) for name in built_in("layer")],
        NORMS: [norm_row(name) for name in built_in("norm")],
        SKIPS: [skip_row(name) for name in built_in("skip")],
    }
    for heading, rows in tables.items():
        text += heading
        for row in rows:
            text += f"| {' | '.join(row)} |\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
