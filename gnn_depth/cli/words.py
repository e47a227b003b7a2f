"""The command line before the parser sees it: config files, plugins and the short names of parts."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yaml import YAMLError

from gnn_depth import registry
from gnn_depth.cli import trust
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.files import Config, load, read
from gnn_depth.cli.sections import LIBRARIES, SECTIONS, check_sections, expand_config, expand_library
from gnn_depth.short_names import PartError, argument_kind, expand, expand_one, options


@dataclass(frozen=True)
class CommandLine:
    """The words after the command.

    Attributes:
        configs: The config files, in the order that they are applied in.
        plugins: All plugins, those of the config files first; files by their full path.
        words: Everything else.
        trusted: What was said of ``--trusted-only``; None for nothing.
    """

    configs: list[Config]
    plugins: list[str]
    words: list[str]
    trusted: bool | None = None

    def for_parser(self) -> list[str]:
        """Words that the parser understands. Config files come first, so that options beat them wherever they stand.

        Raises:
            UsageError: A part or an option of a part that does not exist.
        """
        try:
            words = expand_words(self.words)
        except PartError as error:
            raise UsageError(str(error)) from None
        said = [config for config in self.configs if any(value is not None for value in config.data.values())]
        files = [word for config in said for word in ("--config", _as_word(config))]
        plugins = [f"--plugins={json.dumps(self.plugins)}"] if self.plugins else []
        return [*files, *plugins, *_help_last(words)]

    def value_of(self, key: str) -> Any:
        """What a top-level option is set to, before everything is parsed; None where it is not."""
        found = [config.data[key] for config in self.configs if key in config.data]
        for position, word in enumerate(self.words):
            flag, equals, value = word.partition("=")
            if flag == f"--{key}":
                found += [_value(text) for text in ([value] if equals else self.words[position + 1 : position + 2])]
        return found[-1] if found else None

    def asked_help(self) -> tuple[str, str | None] | None:
        """Of which part --model.KIND.help or --data.help asks for help: the option, and the part's name if given."""
        for position, word in enumerate(self.words):
            flag, equals, value = word.partition("=")
            if flag.endswith(".help") and (key := flag[2:].removesuffix(".help")) in SECTIONS:
                following = self.words[position + 1 : position + 2]
                return key, value if equals else next((w for w in following if not w.startswith("-")), None)
        return None


def _as_word(config: Config) -> str:
    return config.source if config.is_file else json.dumps(config.data)


def split(words: list[str]) -> CommandLine:
    """Take config files and plugins out of a command line, and read the files.

    Raises:
        UsageError: A file is missing, is no config, or is not to be trusted; nothing of it has been imported then.
    """
    trusted, rest = trust.take(words)
    sources, rest = _take(("-c", "--config"), rest)
    named, rest = _take(("--plugins",), rest)
    configs = [read(source) for source in sources]
    trust.check(configs, trusted)
    trust.check_words(rest, trusted)
    plugins = [plugin for config in configs for plugin in plugins_of(config)]
    plugins += [_full_path(name, Path.cwd()) for text in named for name in _names(_value(text), "--plugins")]
    return CommandLine(configs, list(dict.fromkeys(plugins)), rest, trusted)


def load_plugins(plugins: list[str]) -> None:
    """Import the plugins, those of installed packages first: of these, what does not load is said and left out.

    Raises:
        UsageError: One that was asked for does not load; it is named.
    """
    import gnn_depth.data
    import gnn_depth.nn  # noqa: F401  (registers every built-in part, so that a plugin cannot take its name)

    for failure in registry.load_entry_points():
        print(f"warning: {failure}", file=sys.stderr)
    try:
        for plugin in plugins:
            registry.load_plugin(plugin)
    except registry.RegistryError as error:
        raise UsageError(str(error)) from error.__cause__


def check(configs: list[Config]) -> None:
    """Check the names of all parts and of their options, and what the parser would pass over.

    Raises:
        UsageError: One does not exist; file and line are named.
    """
    for config in configs:
        try:
            expand_config(config.data)
            check_sections(config.data)
        except PartError as error:
            raise UsageError(f"{config.at(error.where)}: {error}") from None


def _help_last(words: list[str]) -> list[str]:
    """Put --model.optimizer.help SGD and its like last: the parser reads every word after it as SGD's options."""
    start = next((i for i, word in enumerate(words) if re.match(r"--[\w.]+\.help(=|$)", word)), len(words))
    asked, rest = words[start : start + 1], words[start + 1 :]
    if asked and "=" not in asked[0] and rest and not rest[0].startswith("-"):
        asked, rest = [*asked, rest[0]], rest[1:]
    return [*words[:start], *rest, *asked]


def _take(flags: tuple[str, ...], words: list[str]) -> tuple[list[str], list[str]]:
    """The values of a repeatable option, and the other words."""
    values, rest, remaining = [], [], iter(words)
    for word in remaining:
        flag, equals, value = word.partition("=")
        if flag not in flags:
            rest.append(word)
            continue
        text = value if equals else next(remaining, None)
        if not text:
            raise UsageError(f"{flag} needs a value, the name of a file.")
        values.append(text)
    return values, rest


def plugins_of(config: Config) -> list[str]:
    """A config's plugins; files are sought from the config's folder, and named by their full path."""
    folder = Path(config.source).parent if config.is_file else Path.cwd()
    names = config.data.get("plugins")
    return [_full_path(name, folder) for name in _names(names, config.at(("plugins",)))]


def _names(value: Any, where: str) -> list[str]:
    names = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where}: plugins are names of files or modules, not {value!r}.")
    return names


def _full_path(plugin: str, folder: Path) -> str:
    # A full path, so that the resolved config runs from any folder.
    return str((folder / plugin).resolve()) if plugin.endswith(".py") else plugin


def expand_words(words: list[str]) -> list[str]:
    """Expand the values of ``--model.KIND`` and ``--data``, given with ``=`` or as the next word.

    Raises:
        PartError: A part or an option of a part that does not exist.
    """
    out: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        flag, equals, text = word.partition("=")
        change = _change_of(flag)
        if change is None:
            out.append(word)
            continue
        if not equals:
            if position == len(words) or words[position].startswith("--"):
                out.append(word)  # without its value: the parser says so
                continue
            text = words[position]
            position += 1
        if not text:
            raise PartError(f"{flag} needs a value.", ())
        value = change(_value(text))
        out.append(f"{flag}={value if isinstance(value, str) else json.dumps(value)}")
    return out


def _value(text: str) -> Any:
    """A value as YAML; text that is none stays text, for the parser to complain about."""
    try:
        return load(text)
    except YAMLError:
        return text


def _content(value: Any) -> Any:
    """The content of a file that holds the model's part of a config."""
    try:
        return read(value).data if isinstance(value, str) and Path(value).is_file() else value
    except OSError:  # too long for a name
        return value


def _change_of(flag: str) -> Callable[[Any], Any] | None:
    """How the value of an option is expanded; None where the option names no part."""
    match = re.fullmatch(r"--(model|data)((?:\.\w+)*)(\+)?", flag)
    if match is None:
        return None
    key, append = match[1] + match[2], match[3]
    section, _, option = key.rpartition(".")
    if key == "model":
        return lambda value: expand_config({"model": _content(value)})["model"]
    if section == "model" and option in LIBRARIES:
        return lambda value: expand_library(option, value)
    if key in SECTIONS:
        one = expand_one if append else expand
        return lambda value: one(SECTIONS[key], value)
    # --model.init.base xavier: whichever init it is, if all that have a `base` take a part of one kind there.
    section = section.removesuffix(".init_args")
    if section not in SECTIONS or append:
        return None
    classes = registry.registered(SECTIONS[section]).values()
    kinds = {argument_kind(cls, option) for cls in classes if option in options(SECTIONS[section], cls)}
    inner = kinds.pop() if len(kinds) == 1 else None
    return None if inner is None else lambda value: expand_one(inner, value)
