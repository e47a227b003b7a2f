"""Select a model's layers by name, find where their hidden states enter, and put hooks there.

All private parts of PyTorch that measuring needs are touched in this file, and counters of
versions in ``passes.py``.
"""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import torch
from torch import nn

from gnn_depth.nn.parts import Layer
from gnn_depth.part_specs import items_of
from gnn_depth.registry import first_of, hint

MAX_NAMES = 20  # listed in an error
OURS = "stack.blocks.*.layer"  # the layers of a NodeClassifier


def modules_named(root: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """The submodules whose names match a pattern, in order; a module with several names appears
    under each.

    Args:
        root: The module to search.
        pattern: A dotted name in which ``*``, ``?`` and ``[0-9]`` match within one part:
            ``stack.blocks.*.layer`` matches the layers, but not their submodules.

    Raises:
        ValueError: No submodule matches.
    """
    if "**" in pattern:
        raise ValueError(
            f"{pattern!r}: ** is not known. A star stands for one part of a name, as in "
            "stack.blocks.*.layer."
        )
    parts = pattern.split(".")
    found = {}
    for name, module in root.named_modules(remove_duplicate=False):
        names = name.split(".")
        if name and len(names) == len(parts) and all(map(fnmatchcase, names, parts)):
            found[name] = module
    if not found:
        patterns = _patterns(root)
        # The outer modules first: somebody who does not know the names looks for the layers.
        patterns.sort(key=lambda name: name.count("."))
        available = first_of(patterns, MAX_NAMES) or "none"
        raise ValueError(
            f"no module of {type(root).__name__} is called {pattern!r}.{hint(pattern, patterns)} "
            f"Available: {available}. Callbacks take it as layers: NAME, Balancedness as "
            "stack: NAME."
        )
    return found


def _patterns(root: nn.Module) -> list[str]:
    """The names of all submodules, with a star for each number."""
    names = [name for name, _ in root.named_modules(remove_duplicate=False) if name]
    return list(dict.fromkeys(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name) for name in names))


def layers_of(root: nn.Module, patterns: str | Sequence[str] | None) -> dict[str, nn.Module]:
    """The layers that patterns of :func:`modules_named` match, by name.

    Without patterns they are the outermost message-passing layers, ours and PyTorch Geometric's;
    so they are for :data:`OURS` in a module without such a stack.

    Raises:
        ValueError: There are none.
    """
    found: dict[str, nn.Module] = {}
    if patterns == OURS and not hasattr(getattr(root, "stack", None), "blocks"):
        patterns = None
    if patterns is not None:
        for pattern in items_of(patterns):
            found |= modules_named(root, str(pattern))
    else:
        for name, module in root.named_modules(remove_duplicate=False):
            # PyTorch Geometric's MessagePassing, and others that have its methods.
            passes_messages = hasattr(module, "propagate") and hasattr(module, "message")
            is_layer = isinstance(module, Layer) or passes_messages
            if name and is_layer and not any(name.startswith(f"{outer}.") for outer in found):
                found[name] = module
    if not found:
        example = next(iter(_patterns(root)), "NAME")
        raise ValueError(
            f"{type(root).__name__} has no message-passing layers, or layers is empty: say which "
            f"modules are its layers, such as layers={example!r}."
        )
    return found


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself, without the wrappers of ``torch.compile`` and ``DistributedDataParallel``.

    Raises:
        ValueError: It is a ``DataParallel``, which copies its layers in every pass.
    """
    if isinstance(model, nn.DataParallel):
        raise ValueError(
            "DataParallel copies its layers in every pass: use DistributedDataParallel, or its "
            "module."
        )
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return unwrapped(model.module)
    if hasattr(model, "_orig_mod"):  # torch.compile's wrapper
        return unwrapped(model._orig_mod)  # type: ignore[arg-type]
    return model


class uncompiled:  # noqa: N801 - a context manager
    """Run compiled models uncompiled inside the context: a compiled graph would skip hooks, or
    break at them.

    Contexts may end in any order; the last one that ends restores the former stance.
    """

    _count: ClassVar[int] = 0
    _stance: ClassVar[Any] = None

    def __enter__(self) -> None:
        uncompiled._count += 1
        # Nothing is compiled before torch._dynamo is imported, which takes seconds.
        if uncompiled._stance is None and "torch._dynamo" in sys.modules:
            uncompiled._stance = torch.compiler.set_stance("force_eager")

    def __exit__(self, *_: object) -> None:
        uncompiled._count -= 1
        if not uncompiled._count and uncompiled._stance is not None:
            uncompiled._stance.__exit__(None, None, None)
            uncompiled._stance = None


def entrances(root: nn.Module, names: Iterable[str]) -> list[nn.Module]:
    """The modules whose input is each layer's hidden state: usually the layers themselves.

    A block of ``DeepGNN`` takes the place of its layer, because it drops features of the hidden
    state before the layer reads it.
    """
    modules = dict(root.named_modules(remove_duplicate=False))
    found = []
    for name in names:
        entrance = modules[name]
        around = modules.get(name.removesuffix(".layer"), entrance)
        if getattr(around, "takes_hidden_state", False):
            entrance = around
        found.append(entrance)
    return found


def layer_numbers(names: Collection[str]) -> list[int]:
    """The number of each layer: one plus the last index in its name; if these do not increase, 1,
    2, ..."""
    places = []
    for name in names:
        indices = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
        if indices:
            places.append(int(indices[-1]) + 1)
    in_order = sorted(set(places))
    if places != in_order or len(places) < len(
        names
    ):  # those of several lists, say: their numbers would clash
        return list(range(1, len(names) + 1))
    return places


def in_backward() -> bool:
    """True during a backward pass, in which layers are called only to recompute their states."""
    return backward_number() != -1


def backward_number() -> int:
    """The number of the backward pass that is running; -1 if there is none."""
    return torch._C._current_graph_task_id()  # what torch.utils.checkpoint asks too


def keeps_graph() -> bool:
    """True if the backward pass that is running keeps its graph for another one."""
    return torch._C._autograd._get_current_graph_task_keep_graph()


def at_end_of_backward(function: Callable[[], None]) -> None:
    """Call a function at the end of the backward pass, after what others have queued there."""
    # The engine has no public callback. The inner one comes after those that others queue.
    queue = torch.autograd.Variable._execution_engine.queue_callback
    queue(lambda: queue(function))
