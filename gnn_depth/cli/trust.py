"""``--trusted-only``: accept only configs that use registered parts and known classes.

A config is code: a class path in it is imported, and importing a module runs it. What is not known is not imported.
"""

import importlib.util
import re
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from yaml import YAMLError

from gnn_depth import registry
from gnn_depth.cli.config_file import Source, load_yaml
from gnn_depth.cli.errors import UsageError
from gnn_depth.short_names import Where, load_class
from gnn_depth.yaml_limits import TooLargeError

FLAG = "--trusted-only"
# Packages whose classes are accepted, or single classes.
KNOWN = (
    "gnn_depth",
    "torch.optim",
    "lightning.pytorch.accelerators",
    "lightning.pytorch.callbacks",
    "lightning.pytorch.cli.ReduceLROnPlateau",
    "lightning.pytorch.loggers",
    "lightning.pytorch.plugins",
    "lightning.pytorch.profilers",
    "lightning.pytorch.strategies",
    "lightning.fabric.plugins",
)
# Text that is the same whether or not it is read as YAML: a byte order mark, say, would be gone.
PLAIN = re.compile(r"[\w./+-]*", re.ASCII)


def take(argv: list[str]) -> tuple[bool | None, list[str]]:
    """The last value of ``--trusted-only``, and the other arguments."""
    said, rest, remaining = None, [], list(argv)
    while remaining:
        argument = remaining.pop(0)
        flag, equals, value = argument.partition("=")
        if flag.replace("_", "-") != FLAG:
            rest.append(argument)
            continue
        if not equals:
            value = remaining.pop(0) if remaining and remaining[0].lower() in ("true", "false") else "true"
        if value.lower() not in ("true", "false"):
            raise UsageError(f"{FLAG} must be true or false, not {value!r}.")
        said = value.lower() == "true"
    return said, rest


def refuse_unknown(sources: Sequence[Source]) -> None:
    """Refuse configs that would import or run something unknown, before any of them takes effect."""
    for source in sources:
        for where, names in _plugins(source.data):
            raise UsageError(
                f"{_place(source, where)} names code to run, {names!r}, and {FLAG} refuses that in a config."
                f"\nTo run it, name it yourself with --plugins, or use {FLAG} false."
            )
        for where, text in _strings(source.data):
            _check_text(source, where, text, ())


def check_checkpoint(path: Path, content: Any, own: Any, trusted: bool | None) -> None:
    """Refuse a checkpoint whose options would import something unknown, unless the user has named or allowed it.

    Args:
        path: The checkpoint.
        content: Its options.
        own: The user's own configs and arguments: a class that they name is the user's choice.
        trusted: The value of ``--trusted-only``; None if it is not given.
    """
    if trusted is False:
        return
    named = {text for _, text in _strings(own)}
    for where, text in _strings(content):
        # A package that cannot be imported is named by the parser.
        if not _is_registered(text) and _is_importable(text.partition(".")[0]):
            _check_text(Source(str(path), content), where, text, named)


def check_sizes(value: Any) -> None:
    """Refuse text that the parser would read as YAML without end.

    Raises:
        TooLargeError: There is such a text.
    """
    for _ in _walk(value, ()):
        pass


def _check_text(source: Source, where: Where, text: str, also: Container[str]) -> None:
    """Refuse text that could be an import path, because the parser would try to import the part before a dot.

    Also a registered data set that says that loading its files may run code.
    """
    if text not in also and where[-1:] in (("class_path",), ("data",), ("source",)) and _runs_foreign_code(text):
        raise UsageError(
            f"{_place(source, where)}: loading {text} may run code in its files, and {FLAG} refuses that in a config."
            f"\nIf you trust its source, use {FLAG} false."
        )
    if "." not in text or text in also or _is_known(text):
        return
    if where[-1:] != ("class_path",) and not _is_importable(text.partition(".")[0]):
        return
    raise UsageError(
        f"{_place(source, where)}: {text!r} is neither a registered name nor a known class, and {FLAG} does not import "
        f"it.\nIf you trust its source, use {FLAG} false. Known are the classes of {', '.join(KNOWN)}."
    )


def _place(source: Source, where: Where) -> str:
    key = ".".join(map(str, where))
    return f"{source.at(where)}: {key}" if source.entries else f"{source.name}: {key}"


def _is_registered(path: str) -> bool:
    """True if an import path leads to a registered part, also through a re-export; nothing is imported."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return any(found is cls for kind in registry.KINDS for cls in registry.registered(kind).values())


def _runs_foreign_code(text: str) -> bool:
    import gnn_depth.data  # noqa: F401  (fills the registry)

    known = registry.registered("data")
    cls = known.get(text.rpartition(".")[2], load_class(text) if _is_of_known(text) else None)
    return bool(getattr(cls, "runs_foreign_code", False))


def _is_known(path: str) -> bool:
    """True if a known package defines this class itself rather than importing it from another package."""
    if not _is_of_known(path):
        return False
    found = load_class(path)
    return isinstance(found, type) and _is_of_known(registry.import_path(found))


def _is_of_known(path: str) -> bool:
    return any(f"{path}.".startswith(f"{known}.") for known in KNOWN)


def _is_importable(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # not a name
        return False


def _plugins(config: Any) -> Iterator[tuple[Where, Any]]:
    """Every non-empty ``plugins`` value, except Lightning's option of that name."""
    for where, value in _walk(config, ()):
        # Four deep, trainer is a label of a grid's axis.
        of_lightning = where[-2:-1] == ("trainer",) and len(where) != 4
        if value and where and str(where[-1]).removesuffix("+") == "plugins" and not of_lightning:
            yield where, value


def _strings(value: Any) -> Iterator[tuple[Where, str]]:
    """Every text in a value."""
    return ((where, text) for where, text in _walk(value, ()) if isinstance(text, str))


def _walk(value: Any, where: Where) -> Iterator[tuple[Where, Any]]:
    """A value and everything inside it, including YAML inside text, because the parser reads that too."""
    yield where, value
    if isinstance(value, str):
        inner = _inner(value)
        if inner != value:
            yield from _walk(inner, where)
    elif isinstance(value, dict | list | tuple | set):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _walk(item, (*where, key))


def _inner(text: str) -> Any:
    try:
        return text if PLAIN.fullmatch(text) else load_yaml(text)
    except TooLargeError:
        raise
    except (YAMLError, ValueError):
        return text
