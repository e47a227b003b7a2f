"""``--trusted-only``: accept only configs that use registered parts and known classes.

A config is code: a class path in it is imported, and importing a module runs it. What is not known
is not imported.
"""

import importlib.util
import re
import sys
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from gnn_depth import registry
from gnn_depth.cli.errors import UsageError
from gnn_depth.config_file import Source
from gnn_depth.part_specs import Where, load_class, options_of
from gnn_depth.yaml_limits import contents

if TYPE_CHECKING:
    from gnn_depth.cli.checkpoints import Checkpoint

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
# The package whose transforms are accepted, except those that call what a config gives them.
TRANSFORMS = "torch_geometric.transforms"


def refuse_unknown(sources: Sequence[Source]) -> None:
    """Refuse configs that would import or run something unknown, before any of them takes
    effect."""
    for source in sources:
        for where, value in contents(source.data):
            named = bool(where) and str(where[-1]).removesuffix("+") == "plugins"
            # Lightning's trainer has plugins too; four deep, trainer is a label of a grid's axis.
            of_trainer = where[-2:-1] == ("trainer",) and len(where) != 4
            if value and named and not of_trainer:
                raise UsageError(
                    f"{_place(source, where)} names code to run, {value!r}, and {FLAG} refuses "
                    "that in a config.\n"
                    f"To run it, name it yourself with --plugins, or use {FLAG} false."
                )
            if isinstance(value, str):
                _check_text(source, where, value, ())


def check_checkpoint(checkpoint: "Checkpoint", arguments: Any) -> None:
    """Refuse a checkpoint whose options would import something unknown, unless the user has named
    or allowed it.

    A class that the user's own configs and arguments name is the user's choice.
    """
    if arguments.trusted is False:
        return
    own = [source.data for source in arguments.sources]
    values = [argument.partition("=")[2] for argument in arguments.argv]
    named = {
        text for _, text in contents([*own, *arguments.argv, *values]) if isinstance(text, str)
    }
    content: dict[str, Any] = {"model": checkpoint.hparams, "data": checkpoint.data}
    if checkpoint.schema is not None:
        # They are built for the data to predict. The schema's other text is not imported.
        content["schema"] = {"transforms": list(checkpoint.schema.transforms)}
    source = Source(str(checkpoint.path), content)
    for where, text in contents(content):
        if not isinstance(text, str) or _is_registered(text):
            continue
        # A package that cannot be imported is named when the model is built.
        if _is_importable(text.partition(".")[0]):
            _check_text(source, where, text, named)


def _check_text(source: Source, where: Where, text: str, also: Container[str]) -> None:
    """Refuse text that could be an import path, and a data set whose files may run code."""
    if text in also:
        return
    if where[-1:] in (("class_path",), ("data",), ("source",)) and _runs_foreign_code(text):
        raise UsageError(
            f"{_place(source, where)}: loading {text} may run code in its files, and {FLAG} "
            f"refuses that in a config.\nIf you trust its source, use {FLAG} false."
        )
    if "." not in text or _is_known(text):
        return
    # Other text with a dot, such as the name of a file, is imported by nobody.
    if where[-1:] != ("class_path",) and not _is_importable(text.partition(".")[0]):
        return
    raise UsageError(
        f"{_place(source, where)}: {text!r} is neither a registered name nor a known class, and "
        f"{FLAG} does not import it.\n"
        f"If you trust its source, use {FLAG} false. Known are the classes of {', '.join(KNOWN)}, "
        f"and the transforms of {TRANSFORMS} that take no function and no module."
    )


def _place(source: Source, where: Where) -> str:
    key = ".".join(map(str, where))
    return f"{source.at(where)}: {key}" if source.lines else f"{source.name}: {key}"


def _is_registered(path: str) -> bool:
    """True if an import path leads to a registered part, also through a re-export; nothing is
    imported."""
    module, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and registry.name_of(found) is not None


def _runs_foreign_code(text: str) -> bool:
    import gnn_depth.data  # noqa: F401  (fills the registry)

    cls = registry.registered("data").get(text.rpartition(".")[2])
    if cls is None and _is_of_known(text):
        cls = load_class(text)
    return bool(getattr(cls, "runs_foreign_code", False))


def _is_known(path: str) -> bool:
    """True if a known package defines this class itself rather than importing it from another
    package; a transform of PyTorch Geometric gets only plain values."""
    is_transform = path.startswith(f"{TRANSFORMS}.")
    if not (is_transform or _is_of_known(path)):
        return False
    found = load_class(path)
    if not isinstance(found, type):
        return False
    defined = registry.import_path(found)
    if not is_transform:
        return _is_of_known(defined)
    base = load_class(f"{TRANSFORMS}.BaseTransform")
    if not defined.startswith(f"{TRANSFORMS}.") or not issubclass(found, base):
        return False
    # Compose and AddGPSE call their argument. No transform takes a path.
    options, _ = options_of(found)
    return not any(re.search("Callable|Module", option.type) for option in options.values())


def _is_of_known(path: str) -> bool:
    return any(f"{path}.".startswith(f"{known}.") for known in KNOWN)


def _is_importable(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # not a name
        return False
