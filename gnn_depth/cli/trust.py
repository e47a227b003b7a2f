"""``--trusted-only``: configs that name nothing but registered parts and known classes.

A config is code: a class path in it is imported, and importing a module runs it. What is not known is not imported.
"""

import importlib.util
import re
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

from jsonargparse.typing import Path as ParserPath
from yaml import YAMLError

from gnn_depth import registry
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.files import Config, load, parse
from gnn_depth.short_names import Where, load_class

FLAG = "--trusted-only"
# Packages whose classes are accepted, or single classes: they do what their names say.
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
# Options that name files or folders, and are read as no config.
FILES = ("path", "nodes", "root", "default_root_dir", "dirpath", "save_dir", "filename", "ckpt_path", "output")
MOST_BYTES = 1_000_000  # of a file that may be a config
# Text that is the same whether or not it is read as YAML: a byte order mark, say, would be gone.
PLAIN = re.compile(r"[\w./+-]*", re.ASCII)
# What leads out of the working directory, whoever reads it: full paths, home folders, steps up, and addresses of files.
ELSEWHERE = re.compile(r"\s*[/\\~]|(.*[/\\])?\.\.([/\\]|$)|(.*::)?(file|local|dir):", re.DOTALL)


def take(words: list[str]) -> tuple[bool | None, list[str]]:
    """What the words say of ``--trusted-only``, the last time they do, and the other words.

    Raises:
        UsageError: It is given another value than true or false.
    """
    said, rest, remaining = None, [], list(words)
    while remaining:
        word = remaining.pop(0)
        flag, equals, value = word.partition("=")
        if flag.replace("_", "-") != FLAG:
            rest.append(word)
            continue
        if not equals:
            value = remaining.pop(0) if remaining and remaining[0].lower() in ("true", "false") else "true"
        if value.lower() not in ("true", "false"):
            raise UsageError(f"{FLAG} is true or false, not {value!r}.")
        said = value.lower() == "true"
    return said, rest


def check(configs: Sequence[Config], trusted: bool | None) -> None:
    """Refuse configs that would import or run what is not known; those from the network unless told otherwise.

    Args:
        configs: None of them has been acted on yet.
        trusted: What the user has said; None for nothing.

    Raises:
        UsageError: One names a plugin, an unknown class, or, if it is from the network, a file of this machine.
    """
    for config in configs:
        if config.is_remote if trusted is None else trusted:
            _check(config, ())


def check_words(words: Sequence[str], trusted: bool | None) -> None:
    """The same for files that options name, such as ``--model FILE``: these are configs, too.

    Raises:
        UsageError: As :func:`check`.
    """
    for word, following in zip(words, [*words, ""][1:], strict=True):
        flag, equals, value = word.partition("=")
        if trusted and flag.startswith("--"):
            _check_file(Config(flag, {}), (flag[2:].rpartition(".")[2],), value if equals else following, ())


def check_checkpoint(path: Path, content: Any, own_words: Any, trusted: bool | None) -> None:
    """Refuse a checkpoint whose options would import what is not known, unless the user has named it or allowed it.

    Args:
        path: The checkpoint.
        content: Its options.
        own_words: What the command line and its configs say: a class that they name is the user's own choice.
        trusted: What the user has said; None for nothing.

    Raises:
        UsageError: It names such a class.
    """
    if trusted is False:
        return
    own = {text for _, text in _strings(own_words)}
    parts = {registry.import_path(cls) for kind in registry.KINDS for cls in registry.registered(kind).values()}
    config = Config(str(path), content)
    for where, text in _strings(content):
        if _is_importable(text.partition(".")[0]):  # otherwise the parser says that it does not exist
            _check_text(config, where, text, own | parts)
        _check_file(config, where, text, ())


def _check(config: Config, inside: tuple[Path, ...]) -> None:
    for where, names in _plugins(config.data):
        raise UsageError(
            f"{_place(config, where)} names what is to be run, {names!r}, and {FLAG} refuses that in a config."
            f"\nTo run them, name them yourself with --plugins, or say {FLAG} false."
        )
    for where, text in _strings(config.data):
        _check_text(config, where, text, ())
        if config.is_remote:
            _check_local(config, where, text)
        else:
            _check_file(config, where, text, inside)


def _check_text(config: Config, where: Where, text: str, also: Container[str]) -> None:
    """Refuse what could be an import path: whatever stands before a dot is imported, if it can be."""
    if "." not in text or text in also or _is_known(text):
        return
    if where[-1:] != ("class_path",) and not _is_importable(text.partition(".")[0]):
        return
    raise UsageError(
        f"{_place(config, where)}: {text!r} is neither a registered name nor a class that is known to do no harm, and "
        f"{FLAG} does not import it.\nIf you trust where it comes from, say {FLAG} false. "
        f"Known are the classes of {', '.join(KNOWN)}."
    )


def _place(config: Config, where: Where) -> str:
    key = ".".join(map(str, where))
    return f"{config.at(where)}: {key}" if config.entries else f"{config.source}: {key}"


def _is_known(path: str) -> bool:
    """Whether a path leads to a class that a known package itself defines: modules have names of others in them."""
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


def _check_local(config: Config, where: Where, text: str) -> None:
    """What is from the network names no file of this machine but in the working directory."""
    named = where[-1:] and where[-1] in FILES
    if ELSEWHERE.match(text) or (not named and _file(text, Path())):
        raise UsageError(
            f"{_place(config, where)} names a file or folder of this machine, {text!r}, and "
            "this config is from the network.\nDownload it, look at it, and name your copy with --config."
        )


def _check_file(config: Config, where: Where, text: str, inside: tuple[Path, ...]) -> None:
    """Check a config that stands in a file of its own, from the config's folder or the working directory."""
    if where[-1:] and where[-1] in FILES:
        return
    for folder in {Path(), Path(config.source).parent}:
        path = _file(text, folder)
        if path is None or path in inside:
            continue
        if not path.is_file() or path.stat().st_size > MOST_BYTES:  # what a pipe gives, it gives once
            raise UsageError(f"{_place(config, where)}: {text!r} is no file of a config's size; {FLAG} refuses it.")
        inner = _as_config(path)
        if inner is not None:
            _check(inner, (*inside, path))


def _as_config(path: Path) -> Config | None:
    """A file as a config, if the parser could take it for one: it is less strict than we are."""
    try:
        text = path.read_text(encoding="utf-8")
        try:
            return parse(text, str(path), labels=True)
        except UsageError:
            return Config(str(path), load(text))
    except (OSError, ValueError, YAMLError, RecursionError):
        return None


def _file(text: str, folder: Path) -> Path | None:
    """The file that the parser would read for a text, by its own rules; None where there is none."""
    if text == "-":  # not read, as of what is no option's
        return None
    try:
        return Path(ParserPath(text, mode="fr", cwd=str(folder)).absolute)
    except (TypeError, OSError, ValueError, RuntimeError):  # no name for a file
        return None


def _plugins(config: Any) -> Iterator[tuple[Where, Any]]:
    """Every ``plugins`` that is not empty, but for Lightning's of that name."""
    for where, value in _walk(config, ()):
        # Four deep, trainer is a label of a grid's axis.
        of_lightning = where[-2:-1] == ("trainer",) and len(where) != 4
        if value and where and str(where[-1]).removesuffix("+") == "plugins" and not of_lightning:
            yield where, value


def _strings(value: Any) -> Iterator[tuple[Where, str]]:
    """Every text in a value."""
    return ((where, text) for where, text in _walk(value, ()) if isinstance(text, str))


def _walk(value: Any, where: Where) -> Iterator[tuple[Where, Any]]:
    """A value and all that it is made of; a text is made of what it says as YAML: the parser reads such."""
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
        return text if PLAIN.fullmatch(text) else load(text)
    except (YAMLError, ValueError, RecursionError):
        return text
