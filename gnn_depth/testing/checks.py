"""The suites of norms, layers and skip connections."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gnn_depth.nn.parts import FeatureNorm, Layer, Norm, ScoreNorm, Skip, WeightNorm
from gnn_depth.testing import properties, subjects
from gnn_depth.testing.subjects import Subject
from gnn_depth.testing.suite import Property, check, class_of

#: Properties of every module.
COMMON: list[Property[Subject]] = [
    properties.shape,
    properties.finite,
    properties.gradient,
    properties.dtype,
    properties.state,
    properties.ddp,
    properties.compiles,
    properties.inputs_stay,
    properties.repeat,
]
OF_GRAPHS = [*COMMON, properties.permutation, properties.batch, properties.blocks]
ROWS = replace(
    properties.blocks, name="rows", remedy="Join every node by itself, without sums over nodes; use a norm for those."
)


def check_norm(norm: type[Norm] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that a norm has the properties of every norm.

    Properties: ``shape``, ``finite``, ``gradient``, ``dtype``, ``state``, ``ddp``, ``compile``, ``inputs``, ``repeat``;
    norms of features and scores also have ``permutation``, ``batch`` and ``blocks``. A norm of scores is checked with
    every kind of score that it serves, one of weights with wide and tall matrices.

    Args:
        norm: The class, or its registered name.
        except_for: Properties that it lacks on purpose.
        options: Arguments of its constructor after the width.

    Raises:
        NotConforming: A property does not hold.
        ValueError: It is not a norm, or there is no such property.
    """
    __tracebackhide__ = True
    cls = class_of("norm", norm, FeatureNorm, ScoreNorm, WeightNorm)
    of_norm: Callable[..., list[Subject]] = subjects.of_weight_norm
    if not issubclass(cls, WeightNorm):
        of_norm = subjects.of_feature_norm if issubclass(cls, FeatureNorm) else subjects.of_score_norm
    expected = COMMON if issubclass(cls, WeightNorm) else OF_GRAPHS
    check("check_norm", cls, partial(of_norm, cls, options), expected, except_for)


def check_layer(layer: type[Layer] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that a layer has the properties of every layer.

    Properties: those of :func:`check_norm`, ``sparse``, and ``chain``, the conservation law of a declared weight chain.
    Arguments and errors are those of :func:`check_norm`; ``options`` follow the two widths, 4 and 24.
    """
    __tracebackhide__ = True
    cls = class_of("layer", layer, Layer)
    expected = [*OF_GRAPHS, properties.sparse, properties.chain]
    check("check_layer", cls, partial(subjects.of_layer, cls, options), expected, except_for)


def check_skip(skip: type[Skip] | str, *, except_for: Sequence[str] = (), **options: Any) -> None:
    """Check that a skip connection has the properties of every one.

    Properties: those that all norms have, ``rows``, and its promises ``adds`` and ``invertible``. It gets the states
    that it ``reads``, no others. One that carries a second state is tried on two layers.
    Arguments and errors are those of :func:`check_norm`; ``options`` follow the widths.
    """
    __tracebackhide__ = True
    cls = class_of("skip", skip, Skip)
    expected = [*COMMON, ROWS, properties.adds, properties.invertible]
    check("check_skip", cls, partial(subjects.of_skip, cls, options), expected, except_for)
