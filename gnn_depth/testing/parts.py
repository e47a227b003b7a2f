"""The suites of norms, layers and skip connections."""

from collections.abc import Sequence
from functools import partial, update_wrapper
from typing import Any

from gnn_depth.nn.parts import FeatureNorm, Layer, Norm, ScoreNorm, Skip
from gnn_depth.nn.weights import WeightNorm
from gnn_depth.testing import modules, numbers, structure, subjects
from gnn_depth.testing.chain import chain
from gnn_depth.testing.processes import Source, in_processes
from gnn_depth.testing.subject import Subject
from gnn_depth.testing.suite import Property, check, class_of

#: Of everything that is a module.
COMMON: list[Property[Subject]] = [
    Property("shape", structure.shape, "Return a row for every node; a layer or skip sets width to what it gives."),
    Property(
        "finite",
        numbers.finite,
        "Guard each division and root: sqrt(x + eps) or x.clamp_min(eps), before the root, not after it.",
    ),
    Property("gradient", numbers.gradient, "Take out detach(), .data and torch.no_grad(), or mend the backward pass."),
    Property("dtype", numbers.dtype, "Make constants like the input: x.new_tensor(2.0), or plain Python numbers."),
    Property(
        "state", modules.state, "Keep tensors by register_buffer or nn.Parameter, with shapes fixed from the start."
    ),
    Property("ddp", modules.ddp, "Make parameters in __init__, and only those that every pass uses."),
    Property(
        "compile", modules.compiles, "Take out .item(), float(tensor), print and branches on values; torch.where helps."
    ),
    Property("inputs", modules.inputs_stay, "Write x = x + y in place of x += y, and no functions that end in _."),
    Property("repeat", modules.repeat, "Ask self.training before drawing random numbers or updating what is kept."),
]
OF_NODES: list[Property[Subject]] = [
    Property("permutation", structure.permutation, "Use the graph's edges and sums or means over nodes, no positions."),
    Property(
        "batch",
        structure.batch,
        "Sum or average by graph_mean(x, graph) of gnn_depth.nn.functional, not over all nodes.",
    ),
]
BLOCKS = Property("blocks", structure.blocks, "Say nodewise = False (a norm) or takes_blocks = False (a layer).")
ROWS = Property(
    "rows", structure.blocks, "Join every node by itself: no sums over nodes. A norm is the place for those."
)
SPARSE = Property(
    "sparse", structure.sparse, "Pass x to gnn_depth.nn.linear.Linear alone, or say takes_sparse = False."
)
CHAIN = Property(
    "chain", chain, "Name every weight and bias of a neuron in weight_chain(), or have no such method.", True
)


def check_norm(norm: type[Norm] | str, *, except_for: Sequence[str] = (), processes: int = 1, **options: Any) -> None:
    """Check that a norm does what every norm is expected to do.

    Properties: ``shape``, ``finite``, ``gradient``, ``dtype``, ``state``, ``ddp``, ``compile``, ``inputs``, ``repeat``;
    of norms of features and scores also ``permutation``, ``batch`` and ``blocks``. A norm of scores is checked with
    every kind of score that it serves, one of weights with wide and high matrices.

    Args:
        norm: The class, or its registered name.
        except_for: Properties that it lacks by intent.
        processes: With 2 or more it is also trained in that many processes, property ``processes``: some 10 s.
        options: What its constructor takes after the width.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is no norm, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("norm", norm, FeatureNorm, ScoreNorm, WeightNorm)
    if issubclass(cls, WeightNorm):
        source, properties = Source(subjects.of_weight_norm, cls, options), COMMON
    else:
        make = subjects.of_feature_norm if issubclass(cls, FeatureNorm) else subjects.of_score_norm
        source, properties = Source(make, cls, options), [*COMMON, *OF_NODES, BLOCKS]
    _check("check_norm", source, properties, except_for, processes)


def check_layer(
    layer: type[Layer] | str, *, except_for: Sequence[str] = (), processes: int = 1, **options: Any
) -> None:
    """Check that a layer does what every layer is expected to do.

    Properties: those of :func:`check_norm`, ``sparse``, and ``chain``, the conservation law of a declared weight chain.

    Args:
        layer: The class, or its registered name.
        except_for: Properties that it lacks by intent.
        processes: With 2 or more it is also trained in that many processes, property ``processes``: some 10 s.
        options: What its constructor takes after the two widths, 4 and 24.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is no layer, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("layer", layer, Layer)
    properties = [*COMMON, *OF_NODES, BLOCKS, SPARSE, CHAIN]
    _check("check_layer", Source(subjects.of_layer, cls, options), properties, except_for, processes)


def check_skip(skip: type[Skip] | str, *, except_for: Sequence[str] = (), processes: int = 1, **options: Any) -> None:
    """Check that a skip connection does what every one is expected to do.

    Properties: those that all norms share, and ``rows``. It gets the states that it says it ``reads``, no others.

    Args:
        skip: The class, or its registered name.
        except_for: Properties that it lacks by intent.
        processes: With 2 or more it is also trained in that many processes, property ``processes``: some 10 s.
        options: What its constructor takes after the widths.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is no skip connection, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("skip", skip, Skip)
    _check("check_skip", Source(subjects.of_skip, cls, options), [*COMMON, ROWS], except_for, processes)


def _check(
    call: str, source: Source, properties: Sequence[Property[Subject]], except_for: Sequence[str], processes: int
) -> None:
    __tracebackhide__ = True
    if processes > 1:
        together = update_wrapper(partial(in_processes, source, processes), in_processes)
        remedy = "See ddp; and nothing in the part may ask which process it is in."
        properties = [*properties, Property("processes", together, remedy, True)]
    check(call, source.cls, source(), properties, except_for)
