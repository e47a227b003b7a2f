"""Parts by name in Python, as in a config: ``DeepGNN(8, 4, layer="gat", norm={"name": "pair",
"scale": 2})``."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from gnn_depth import registry
from gnn_depth.short_names import (
    GIVEN,
    LISTS,
    Names,
    PartError,
    argument_kind,
    load_class,
    registered_parts,
)

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    Named: TypeAlias = T | Any
else:

    class Named:
        """The type of an argument that may be a name too; the command line, which has names of its
        own, sees T."""

        def __class_getitem__(cls, part: object) -> object:
            return part


def takes_names(init: Callable[P, None]) -> Callable[P, None]:
    """Decorator of a constructor: arguments called as a kind of part (``layer``, ``norm``) may be
    names.

    Raises:
        RegistryError: No part has such a name, or it has no such option.
    """
    signature = inspect.signature(init)

    @wraps(init)
    def with_parts(*args: P.args, **kwargs: P.kwargs) -> None:
        given = signature.bind(*args, **kwargs)
        named = [(name, value) for name, value in given.arguments.items() if name in registry.KINDS]
        given.arguments.update(
            {kind: part(kind, value) for kind, value in named if (kind, value) != ("init", None)}
        )
        init(*given.args, **given.kwargs)

    return with_parts


def part(kind: str, value: Any) -> Any:
    """The part that a name, or a dict of its name and options, stands for; anything else is
    returned as it is.

    A part that the stack calls with widths is returned as a factory, and norms as a list.

    Raises:
        RegistryError: No part has such a name, or it has no such option; the message has the near
            miss and the choices.
    """
    if kind in LISTS:
        return [
            _one(kind, item) for item in (value if isinstance(value, list | tuple) else [value])
        ]
    return _one(kind, value)


def _one(kind: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str | Mapping):
        return value
    try:
        found = Names(registered_parts()).expand_one(kind, value, in_list=True)
    except PartError:
        registry.load_entry_points()  # the part of an installed plugin
        found = Names(registered_parts()).expand_one(kind, value, in_list=True)
    cls = load_class(found["class_path"])
    if not isinstance(value, Mapping):
        return partial(cls) if GIVEN[kind] else cls()
    given = (
        value.get("init_args") or {}
        if "class_path" in value
        else {k: v for k, v in value.items() if k != "name"}
    )
    options = {key: _argument(cls, key, item) for key, item in given.items()}
    return partial(cls, **options) if GIVEN[kind] else cls(**options)


def _argument(cls: type, name: str, value: Any) -> Any:
    """An option of a part, which may be a part itself: ``{"name": "balanced", "base":
    "xavier"}``."""
    kind = argument_kind(cls, name)
    if kind is None:
        return value
    return [_one(kind, item) for item in value] if isinstance(value, list) else _one(kind, value)
