"""How norms, layers and skips are used, as functions of rows of features and a graph."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, at_source, at_target, edge_additive, edge_dot, targets
from gnn_depth.nn.parts import FeatureNorm, Layer, ScoreNorm, Skip
from gnn_depth.nn.scores import AdditiveScore, LinearScore, QuadraticScore, Score
from gnn_depth.nn.weights import WeightNorm
from gnn_depth.testing.subject import Subject, seeded

CHANNELS, OUT, HEADS = 4, 24, 2  # 24 can be shared by 2, 3, 4, 6 or 8 heads
NEURONS = 9  # as many as the graph has nodes


def rows(*widths: int) -> Any:
    """Draws features of these widths."""
    return lambda count: tuple(torch.randn(count, width, dtype=torch.float64) for width in widths)


def on_graph(part: Any, inputs: Sequence[Tensor], graph: Graph) -> Tensor:
    return part(inputs[0], graph)


def of_feature_norm(cls: type[FeatureNorm], options: dict[str, Any]) -> list[Subject]:
    return [
        Subject(
            "features",
            make=partial(cls, **options),
            build=lambda make: make(CHANNELS),
            draw=rows(CHANNELS),
            apply=on_graph,
            width=lambda part: CHANNELS,
            by_rows=lambda part: part.nodewise,
        )
    ]


def of_layer(cls: type[Layer], options: dict[str, Any]) -> list[Subject]:
    return [
        Subject(
            "features",
            make=partial(cls, **options),
            build=lambda make: make(CHANNELS, OUT),
            draw=rows(CHANNELS),
            apply=on_graph,
            width=lambda part: part.width,
            takes_sources=True,
            by_rows=lambda part: part.takes_blocks,
        )
    ]


def of_score_norm(cls: type[ScoreNorm], options: dict[str, Any]) -> list[Subject]:
    """One for every kind of score that it serves."""
    return [
        Subject(
            f"scores of kind {score.__name__}",
            make=partial(cls, **options),
            build=lambda make: make(HEADS),
            draw=rows(HEADS * CHANNELS, HEADS * CHANNELS),
            apply=partial(_sum_of_values, score),
            width=lambda part: HEADS * CHANNELS,
            takes_sources=True,
            by_rows=lambda part: part.nodewise,
        )
        for score in cls.serves
    ]


def _sum_of_values(kind: type, part: Any, inputs: Sequence[Tensor], graph: Graph) -> Tensor:
    """Normed scores as the weights of a sum over edges, so that what comes out belongs to nodes."""
    x, value = (x.view(-1, HEADS, CHANNELS) for x in inputs)
    scores, score = _scores(kind, x, value, graph)
    return aggregate(part(scores, score, graph), value, graph).flatten(1)


def _scores(kind: type, x: Tensor, value: Tensor, graph: Graph) -> tuple[Tensor, Score]:
    """Scores of a kind, and what they are made of."""
    with seeded(6):
        one, other = (torch.randn(HEADS, CHANNELS, dtype=torch.float64).to(x.dtype) for _ in range(2))
    x_dst = targets(x, graph)
    if kind is LinearScore:
        scores = at_target((x_dst * one).sum(-1), graph) + at_source((x * other).sum(-1), graph)
        return scores, LinearScore(x, one, other)
    if kind is AdditiveScore:
        return edge_additive(x_dst, x, one, graph, 0.2), AdditiveScore(x_dst, x, one)
    return edge_dot(x_dst, x, graph) / CHANNELS**0.5, QuadraticScore(x_dst, x, value)


def of_weight_norm(cls: type[WeightNorm], options: dict[str, Any]) -> list[Subject]:
    """Of matrices that are high or wide: of nine neurons, and five inputs or twelve."""
    return [
        Subject(
            f"a matrix of {inputs} inputs",
            make=partial(cls, **options),
            build=partial(_settled, inputs),
            draw=lambda count, inputs=inputs: (torch.randn(NEURONS, inputs, dtype=torch.float64),),
            apply=lambda part, inputs, graph: part(inputs[0]),
            width=lambda part, inputs=inputs: inputs,
            prepare=_follow,
        )
        for inputs in (5, 12)
    ]


def _follow(part: Any, inputs: Sequence[Tensor]) -> None:
    """What a stack does before a pass in training; of a compiled norm only the forward is compiled."""
    getattr(part, "_orig_mod", part).follow([part], [inputs[0]])


def _settled(inputs: int, make: Callable[[int], WeightNorm]) -> WeightNorm:
    norm = make(3)
    norm.settle(torch.randn(NEURONS, inputs))
    norm.raw = False
    return norm


def of_skip(cls: type[Skip], options: dict[str, Any]) -> list[Subject]:
    """Of states of one width, and of several unless it refuses those."""
    found = [_of_skip(cls, options, [OUT, OUT])]
    try:
        cls([3, 5], OUT, **options)
    except ValueError:
        return found
    return [*found, _of_skip(cls, options, [3, 5])]


def _of_skip(cls: type[Skip], options: dict[str, Any], widths: list[int]) -> Subject:
    return Subject(
        f"states of widths {', '.join(map(str, widths))}",
        make=partial(cls, **options),
        build=lambda make: make(widths, OUT),
        draw=rows(OUT, *widths),
        apply=lambda part, inputs, graph: part(inputs[0], _read_by(part, inputs[1:])),
        width=lambda part: part.width,
        by_rows=lambda part: True,
    )


def _read_by(part: Any, states: Sequence[Tensor]) -> list[Tensor]:
    """The states that the stack keeps for a skip: those that it says it reads, no others."""
    kept = {"nothing": [], "input": states[-1:], "first": states[:1], "all": states}
    return list(kept[part.reads])
