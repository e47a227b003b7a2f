"""Whole configs: the parts under ``model`` and ``data``, and the classes of other libraries among them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gnn_depth.short_names import (
    GIVEN_BY_STACK,
    PartError,
    Where,
    argument_kind,
    check_keys,
    contract,
    defaults,
    expand,
    load_class,
    options,
    parameters,
)

SECTIONS = {f"model.{kind}": kind for kind in GIVEN_BY_STACK if kind != "data"} | {"data": "data"}
# Options of the model that a data set answers.
GIVEN_BY_DATA = ("in_channels", "num_classes", "task")
# Arguments of data sets that say where files lie.
PATHS = ("path", "nodes", "root")
LIBRARIES = {
    # Lightning's ReduceLROnPlateau comes first: it takes the metric to watch, torch's does not.
    "scheduler": ("lightning.pytorch.cli", "torch.optim.lr_scheduler"),
    "optimizer": ("torch.optim",),
}


def expand_config(config: Any) -> Any:
    """Expand the parts of a config, under ``model`` and ``data``.

    Raises:
        PartError: As :func:`expand` does.
    """
    if not isinstance(config, dict):
        return config
    # A section whose keys are all commented out is null; it says nothing.
    config = {
        key: value
        for key, value in config.items()
        if not (value is None and key in ("model", "data", "trainer", "run"))
    }
    if isinstance(model := config.get("model"), dict):
        config["model"] = {
            key: expand_library(key, value) if key in LIBRARIES else value for key, value in model.items()
        }
    return _at_parts(config, expand)


def contract_config(config: Any) -> Any:
    """The inverse of :func:`expand_config`, defaults apart; paths of data become full, for use from any folder."""
    return _at_parts(config, lambda kind, value, _: contract(kind, full_paths(value) if kind == "data" else value))


def full_paths(value: Any) -> Any:
    """A data set's class path and arguments with full paths."""
    if not isinstance(value, dict):
        return value
    return {
        key: str(Path(item).expanduser().absolute())
        if key in PATHS and item and isinstance(item, str)
        else full_paths(item)
        for key, item in value.items()
    }


def _at_parts(config: Any, change: Callable[[str, Any, Where], Any]) -> Any:
    if not isinstance(config, dict):
        return config
    config = dict(config)
    if isinstance(model := config.get("model"), dict):
        config["model"] = {
            key: change(key, value, ("model", key)) if f"model.{key}" in SECTIONS else value
            for key, value in model.items()
        }
    if "data" in config:
        config["data"] = change("data", config["data"], ("data",))
    return config


def expand_library(key: str, value: Any) -> Any:
    """Write out the defaults of an optimizer or schedule that is named, by class name or import path.

    Raises:
        PartError: Something stands beside class_path and init_args, or it is named as a part of this package is.
    """
    name = value.get("class_path") if isinstance(value, dict) else value
    if isinstance(value, dict) and name is not None:
        check_keys(value, ("model", key))
    if isinstance(value, dict) and name is None and "name" in value:
        given = ", ".join(f"{option}: {item}" for option, item in value.items() if option != "name")
        form = f"class_path: {value['name']}" + (f", init_args: {{{given}}}" if given else "")
        raise PartError(f"a class of a library is named by class_path: {key}: {{{form}}}.", ("model", key, "name"))
    if not isinstance(name, str):
        return value
    paths = [name] if "." in name else [f"{module}.{name}" for module in LIBRARIES[key]]
    found = [(path, cls) for path in paths if isinstance(cls := load_class(path), type)]
    if "." not in name:  # a module has names in it that others define
        found = [(path, cls) for path, cls in found if cls.__module__.startswith(path.rpartition(".")[0])]
    if not found:
        return value  # the parser says what is wrong with it
    path, cls = found[0]
    arguments = value.get("init_args") or {} if isinstance(value, dict) else {}
    # The first argument is what is optimised or scheduled.
    return {"class_path": path, "init_args": defaults(parameters(cls, 1)) | arguments}


def check_sections(config: dict[str, Any]) -> None:
    """Refuse what the parser would pass over, or say badly.

    Raises:
        PartError: A config in a config, a section that is none, or an option that only the data can answer.
    """
    if "config" in config:
        raise PartError("a config file cannot name another; give --config several times.", ("config",))
    for section in ("model", "trainer", "run"):
        if not isinstance(config.get(section), dict | str | None):
            raise PartError(f"{section} is made of keys with values, not of {config[section]!r}.", (section,))
    model = config.get("model")
    for key in GIVEN_BY_DATA:
        if isinstance(model, dict) and key in model:
            raise PartError(f"{key!r} is taken from the data, and cannot be chosen.", ("model", key))


def keys_of(config: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys of a config and of those sections that are no parts, each with what leads to it."""
    for key, value in config.items():
        yield (), key
        if key in ("model", "trainer", "run") and isinstance(value, dict):
            yield from (((key,), inner) for inner in value)


def check_given(config: dict[str, Any]) -> None:
    """Refuse null where a part's argument has neither a default nor a type: the parser takes it for any value.

    Raises:
        PartError: An argument of a part is not given.
    """
    model = {f"model.{key}": value for key, value in (config.get("model") or {}).items()}
    for key, value in {**model, "data": config.get("data")}.items():
        if kind := SECTIONS.get(key):
            _check_part(key, kind, value)


def _check_part(key: str, kind: str, value: Any) -> None:
    for part in value if isinstance(value, list) else [value]:
        cls = load_class(part["class_path"]) if isinstance(part, dict) and "class_path" in part else None
        if not isinstance(cls, type):
            continue
        arguments = part.get("init_args") or {}
        for name, parameter in options(kind, cls).items():
            untyped = parameter.annotation is parameter.default is parameter.empty
            if untyped and arguments.get(name) is None:
                raise PartError(f"{cls.__name__} needs {name}: --{key}.{name} VALUE.", tuple(key.split(".")))
            if inner := argument_kind(cls, name):
                _check_part(f"{key}.{name}", inner, arguments.get(name))
