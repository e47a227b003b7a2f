"""The parser of ``fit``, ``validate``, ``test`` and ``predict``."""

from typing import Any, NoReturn

import yaml
from jsonargparse import set_dumper, set_loader, set_parsing_settings
from lightning.pytorch.cli import LightningArgumentParser

from gnn_depth import registry
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.explain import explain, unknown_key
from gnn_depth.cli.files import Config, load
from gnn_depth.cli.sections import SECTIONS, check_given, contract_config, expand_config, keys_of
from gnn_depth.short_names import PartError

MODE = "gnn_depth"  # the parser's name for YAML with short names

# Lightning lets whatever is a part of a config be fetched from anywhere: ours are files, or fetched by `remote`.
set_parsing_settings(config_read_mode_fsspec_enabled=False)
set_loader(MODE, lambda text: expand_config(load(text)), exceptions=(yaml.YAMLError, registry.RegistryError))
set_dumper(MODE, lambda config: yaml.safe_dump(contract_config(config), sort_keys=False, allow_unicode=True))


class Parser(LightningArgumentParser):
    """A parser whose configs know short names, and whose errors are written for people.

    Attributes:
        configs: The config files that are being parsed, so that errors can say where in them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs |= {"parser_mode": MODE, "allow_abbrev": False}
        super().__init__(*args, **kwargs)
        self.configs: list[Config] = []

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.exit_on_error:  # a parser inside the parser, for the options of one class
            super().error(message, ex)
        raise UsageError(explain(message, self, self.configs)) from ex

    def parse_args(self, *args: Any, **kwargs: Any) -> Any:
        self._check_keys()
        config = super().parse_args(*args, **kwargs)
        try:
            check_given(config.as_dict())
        except PartError as error:
            raise UsageError(str(error)) from None
        return config

    def _check_keys(self) -> None:
        """Refuse unknown keys whatever they hold: super passes over those that hold nothing."""
        for config in self.configs:
            for section, key in keys_of(config.data):
                if said := unknown_key(section, key, self):
                    hint = " A grid of runs is for gnn-depth sweep." if key in ("base", "axes", "rules") else ""
                    raise UsageError(f"{config.at((*section, key))}: {said.text}{hint}")

    def name_parts_in_help(self) -> None:
        """Add to the help of each part the names that it can have."""
        for action in self._actions:
            if (kind := SECTIONS.get(action.dest)) and action.help and not action.dest.endswith(".help"):
                names = ", ".join(registry.registered(kind))
                action.help += f" One of: {names} (`gnn-depth list {kind}`)."
