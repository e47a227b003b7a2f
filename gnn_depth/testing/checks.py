"""The suites of norms, layers and skip connections."""

from collections.abc import Sequence
from functools import partial, update_wrapper
from typing import Any

from gnn_depth.nn.parts import FeatureNorm, Layer, Norm, ScoreNorm, Skip, WeightNorm
from gnn_depth.testing import properties, subjects
from gnn_depth.testing.processes import Source, in_processes
from gnn_depth.testing.subjects import Subject
from gnn_depth.testing.suite import Property, check, class_of

#: Properties of every module.
COMMON: list[Property[Subject]] = [
    Property("shape", properties.shape, "Return one tensor with a row for every node; set width of a layer or skip."),
    Property(
        "finite",
        properties.finite,
        "Guard each division and root: sqrt(x + eps) or x.clamp_min(eps), before the root, not after it.",
    ),
    Property(
        "gradient", properties.gradient, "Remove detach(), .data and torch.no_grad(), or correct the backward pass."
    ),
    Property("dtype", properties.dtype, "Make constants like the input: x.new_tensor(2.0), or plain Python numbers."),
    Property(
        "state",
        properties.state,
        "Keep tensors by register_buffer or nn.Parameter, with shapes that are fixed from the start.",
    ),
    Property("ddp", properties.ddp, "Make parameters in __init__, and only those that every pass uses."),
    Property(
        "compile",
        properties.compiles,
        "Remove .item(), float(tensor), print and branches on values; torch.where helps.",
    ),
    Property(
        "inputs", properties.inputs_stay, "Write x = x + y instead of x += y; use no in-place functions (x.add_())."
    ),
    Property("repeat", properties.repeat, "Check self.training before drawing random numbers or updating buffers."),
]
OF_NODES: list[Property[Subject]] = [
    Property(
        "permutation", properties.permutation, "Use the graph's edges and sums or means over nodes, no positions."
    ),
    Property(
        "batch",
        properties.batch,
        "Sum or average by graph_mean(x, graph) of gnn_depth.nn.functional, not over all nodes.",
    ),
]
BLOCKS = Property("blocks", properties.blocks, "Set nodewise = False (a norm) or takes_blocks = False (a layer).")
ROWS = Property("rows", properties.blocks, "Join every node by itself, without sums over nodes; use a norm for those.")
SPARSE = Property(
    "sparse", properties.sparse, "Pass x to gnn_depth.nn.linear.Linear alone, or set takes_sparse = False."
)
CHAIN = Property(
    "chain",
    properties.chain,
    "Name every weight and bias of a neuron in weight_chain(), or delete that method.",
    once=True,
)

ADDS = Property(
    "adds",
    properties.adds,
    "Name every matrix between the states in weight_chain(), or set adds = None.",
    once=True,
)
INVERTIBLE = Property(
    "invertible",
    properties.invertible,
    "Return states[-1] plus a function of the update, or set invertible = False.",
    once=True,
)


def check_norm(norm: type[Norm] | str, *, except_for: Sequence[str] = (), processes: int = 1, **options: Any) -> None:
    """Check that a norm has the properties of every norm.

    Properties: ``shape``, ``finite``, ``gradient``, ``dtype``, ``state``, ``ddp``, ``compile``, ``inputs``, ``repeat``;
    norms of features and scores also have ``permutation``, ``batch`` and ``blocks``. A norm of scores is checked with
    every kind of score that it serves, one of weights with wide and tall matrices.

    Args:
        norm: The class, or its registered name.
        except_for: Properties that it lacks on purpose.
        processes: With 2 or more it is also trained in that many processes, property ``processes``: some 10 s.
        options: Arguments of its constructor after the width.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is not a norm, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("norm", norm, FeatureNorm, ScoreNorm, WeightNorm)
    if issubclass(cls, WeightNorm):
        source, expected = Source(subjects.of_weight_norm, cls, options), COMMON
    else:
        make = subjects.of_feature_norm if issubclass(cls, FeatureNorm) else subjects.of_score_norm
        source, expected = Source(make, cls, options), [*COMMON, *OF_NODES, BLOCKS]
    _check("check_norm", source, expected, except_for, processes)


def check_layer(
    layer: type[Layer] | str, *, except_for: Sequence[str] = (), processes: int = 1, **options: Any
) -> None:
    """Check that a layer has the properties of every layer.

    Properties: those of :func:`check_norm`, ``sparse``, and ``chain``, the conservation law of a declared weight chain.

    Args:
        layer: The class, or its registered name.
        except_for: Properties that it lacks on purpose.
        processes: With 2 or more it is also trained in that many processes, property ``processes``: some 10 s.
        options: Arguments of its constructor after the two widths, 4 and 24.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is not a layer, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("layer", layer, Layer)
    expected = [*COMMON, *OF_NODES, BLOCKS, SPARSE, CHAIN]
    _check("check_layer", Source(subjects.of_layer, cls, options), expected, except_for, processes)


def check_skip(skip: type[Skip] | str, *, except_for: Sequence[str] = (), processes: int = 1, **options: Any) -> None:
    """Check that a skip connection has the properties of every one.

    Properties: those that all norms have, ``rows``, and its promises ``adds`` and ``invertible``. It gets the states
    that it ``reads``, no others. One that carries a second state is tried on two layers.

    Args:
        skip: The class, or its registered name.
        except_for: Properties that it lacks on purpose.
        processes: With 2 or more it is also trained in that many processes, property ``processes``: some 10 s.
        options: Arguments of its constructor after the widths.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is not a skip connection, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("skip", skip, Skip)
    _check(
        "check_skip", Source(subjects.of_skip, cls, options), [*COMMON, ROWS, ADDS, INVERTIBLE], except_for, processes
    )


def _check(
    call: str, source: Source, expected: Sequence[Property[Subject]], except_for: Sequence[str], processes: int
) -> None:
    __tracebackhide__ = True
    if processes > 1:
        together = update_wrapper(partial(in_processes, source, processes), in_processes)
        remedy = "See ddp; and do not let the part depend on the process it runs in."
        expected = [*expected, Property("processes", together, remedy, once=True)]
    check(call, source.cls, source.__call__, expected, except_for)
