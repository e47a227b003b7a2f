"""Tensors of modules that a norm computes from parameters, in classes that many modules share.

:mod:`torch.nn.utils.parametrize` gives every module a class of its own. A round would then be compiled anew for every
layer, and no such class can be pickled.
"""

import functools
from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, register_parametrization


def parametrise(module: nn.Module, norms: Mapping[str, nn.Module]) -> list[ParametrizationList]:
    """Let each of some parameters of a module be read through a norm.

    Args:
        module: Has no such parameters yet.
        norms: A norm for each parameter, by name.

    Returns:
        Where torch keeps each norm and the parameter that it reads.
    """
    base: Any = type(module)
    for name, norm in norms.items():
        register_parametrization(module, name, norm)
    module.__class__ = _shared_class(base, tuple(norms))
    return [getattr(module.parametrizations, name) for name in norms]


class _Shared(ABCMeta):
    """The type of classes that keep their properties: torch deletes one when it removes the norm of one module."""

    def __delattr__(cls, name: str) -> None:
        pass


@functools.cache
def _shared_class(base: Any, names: tuple[str, ...]) -> Any:
    reduce = {"__reduce_ex__": lambda module, protocol: (_blank, (base, names), module.__getstate__())}
    return _Shared(f"Parametrized{base.__name__}", (base,), {**{name: _reader(name) for name in names}, **reduce})


def _blank(base: Any, names: tuple[str, ...]) -> Any:
    cls = _shared_class(base, names)
    return cls.__new__(cls)


def _reader(name: str) -> property:
    def read(module: Any) -> Tensor:
        if name not in module.parametrizations:  # removed: the module finds it among its parameters
            raise AttributeError(name)
        computed: Tensor = module.parametrizations[name]()
        return computed

    def write(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(read, write)


def on_raw_weights(init: Callable[..., None]) -> Callable[..., None]:
    """Let an initialisation draw, in place, the parameters that weights are computed from."""

    @functools.wraps(init)
    def draw(self: Any, stack: Any) -> None:
        with stack.raw_weights():
            init(self, stack)

    return draw
