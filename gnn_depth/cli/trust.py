"""``--trusted-only``: accept only configs that use registered parts and known classes.

A config is code: a class path in it is imported, and importing a module runs it. What is not known
is not imported.
"""

import importlib.util
import re
import sys
from collections.abc import Container, Iterator, Sequence
from typing import Any

from gnn_depth import registry
from gnn_depth.cli.config_file import Source, value_in
from gnn_depth.cli.errors import UsageError
from gnn_depth.short_names import Where, load_class

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


def refuse_unknown(sources: Sequence[Source]) -> None:
    """Refuse configs that would import or run something unknown, before any of them takes
    effect."""
    for source in sources:
        for where, value in _walk(source.data, ()):
            is_plugins = value and where and str(where[-1]).removesuffix("+") == "plugins"
            # Lightning has an option of that name; four deep, trainer is a label of a grid's axis.
            if is_plugins and (where[-2:-1] != ("trainer",) or len(where) == 4):
                raise UsageError(
                    f"{_place(source, where)} names code to run, {value!r}, and {FLAG} refuses "
                    "that in a config."
                    f"\nTo run it, name it yourself with --plugins, or use {FLAG} false."
                )
            if isinstance(value, str):
                _check_text(source, where, value, ())


def check_checkpoint(checkpoint: Any, arguments: Any) -> None:
    """Refuse a checkpoint whose options would import something unknown, unless the user has named
    or allowed it.

    A class that the user's own configs and arguments name is the user's choice.
    """
    if arguments.trusted is False:
        return
    own = [*(source.data for source in arguments.sources), *arguments.argv]
    own += [argument.partition("=")[2] for argument in arguments.argv]
    named = {text for _, text in _walk(own, ()) if isinstance(text, str)}
    content = {"model": checkpoint.hparams, "data": checkpoint.data}
    for where, text in _walk(content, ()):
        # A package that cannot be imported is named by the parser.
        if (
            isinstance(text, str)
            and not _is_registered(text)
            and _is_importable(text.partition(".")[0])
        ):
            _check_text(Source(str(checkpoint.path), content), where, text, named)


def check_sizes(value: Any) -> None:
    """Refuse text that the parser would read as YAML without end, by a TooLargeError."""
    for _ in _walk(value, ()):
        pass


def _check_text(source: Source, where: Where, text: str, also: Container[str]) -> None:
    """Refuse text that could be an import path, because the parser would try to import the part
    before a dot.

    Also a registered data set that says that loading its files may run code.
    """
    if (
        text not in also
        and where[-1:] in (("class_path",), ("data",), ("source",))
        and _runs_foreign_code(text)
    ):
        raise UsageError(
            f"{_place(source, where)}: loading {text} may run code in its files, and {FLAG} "
            "refuses that in a config."
            f"\nIf you trust its source, use {FLAG} false."
        )
    if "." not in text or text in also or _is_known(text):
        return
    if where[-1:] != ("class_path",) and not _is_importable(text.partition(".")[0]):
        return
    raise UsageError(
        f"{_place(source, where)}: {text!r} is neither a registered name nor a known class, and "
        f"{FLAG} does not import "
        f"it.\nIf you trust its source, use {FLAG} false. Known are the classes of "
        f"{', '.join(KNOWN)}."
    )


def _place(source: Source, where: Where) -> str:
    key = ".".join(map(str, where))
    return f"{source.at(where)}: {key}" if source.entries else f"{source.name}: {key}"


def _is_registered(path: str) -> bool:
    """True if an import path leads to a registered part, also through a re-export; nothing is
    imported."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return any(
        found is cls for kind in registry.KINDS for cls in registry.registered(kind).values()
    )


def _runs_foreign_code(text: str) -> bool:
    import gnn_depth.data  # noqa: F401  (fills the registry)

    known = registry.registered("data")
    cls = known.get(text.rpartition(".")[2], load_class(text) if _is_of_known(text) else None)
    return bool(getattr(cls, "runs_foreign_code", False))


def _is_known(path: str) -> bool:
    """True if a known package defines this class itself rather than importing it from another
    package."""
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


def _walk(value: Any, where: Where) -> Iterator[tuple[Where, Any]]:
    """A value and everything inside it, including YAML inside text, because the parser reads that
    too."""
    yield where, value
    if isinstance(value, str):
        inner = value if PLAIN.fullmatch(value) else value_in(value)
        if inner != value:
            yield from _walk(inner, where)
    elif isinstance(value, dict | list | tuple | set):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _walk(item, (*where, key))
