"""From the combinations of a grid to resolved configs and identities, before anything runs."""

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonargparse
import lightning as L

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers every built-in part)
from gnn_depth.cli import trust
from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.errors import AbsentDataError, UsageError, innermost
from gnn_depth.cli.files import INLINE, Config, read
from gnn_depth.cli.identity import identity
from gnn_depth.cli.quiet import quiet
from gnn_depth.cli.sections import expand_config
from gnn_depth.cli.words import CommandLine, check, load_plugins, plugins_of
from gnn_depth.data.base import GraphDataModule
from gnn_depth.data.checks import DataError
from gnn_depth.sweeps.grid import Combination, Grid, Label
from gnn_depth.sweeps.store import Place


@dataclass(frozen=True)
class PlannedRun:
    """A run of a grid, ready to start.

    Attributes:
        place: Its group, seed and identity.
        labels: Its label on every axis.
        config: Its resolved config.
        data_sha256: Checksum of its data.
    """

    place: Place
    labels: dict[str, Label]
    config: dict[str, Any]
    data_sha256: str


class Resolver:
    """Command lines of ``fit`` to resolved configs, by one parser: making it takes longer than using it.

    Args:
        plugins: Loaded before the parser is made.
    """

    def __init__(self, plugins: list[str]) -> None:
        load_plugins(plugins)
        self.plugins = plugins
        self._parser: Any = None
        self._data: dict[str, str] = {}

    def resolve(self, line: CommandLine) -> dict[str, Any]:
        """The config that a command line comes to, as it would stand in the run's folder.

        Raises:
            UsageError: Something that it asks for does not exist or does not fit.
        """
        check(line.configs)
        with quiet():
            if self._parser is None:
                self._parser = CommandLineInterface("fit", CommandLine([], self.plugins, []), build=False).parser
            self._parser.configs = line.configs
            config = self._parser.parse_args(line.for_parser())
            return jsonargparse.get_loader("yaml")(self._parser.dump(config, skip_unset=False))

    def data_sha256(self, config: dict[str, Any]) -> str:
        """Checksum of the data of a resolved config; the data is read, once for equal configs.

        Raises:
            AbsentDataError: The data is missing, damaged or refuses its options.
        """
        data = expand_config({"data": config["data"]})["data"]
        key = json.dumps(data, sort_keys=True)
        if key not in self._data:
            parser = jsonargparse.ArgumentParser(exit_on_error=False)
            parser.add_subclass_arguments(GraphDataModule, "data")
            try:
                with quiet():
                    L.seed_everything(0, verbose=False)  # data that draws from it is then the same in every order
                    module = parser.instantiate_classes(parser.parse_object({"data": data})).data
                    self._data[key] = module.checksum
            except (DataError, ValueError) as error:
                raise AbsentDataError(str(innermost(error))) from error
        return self._data[key]


def resolve_all(grid: Grid, folder: Path, line: CommandLine, absent: dict[str, str] | None = None) -> list[PlannedRun]:
    """All runs of a grid, each resolved.

    Args:
        grid: The grid.
        folder: Where its config files are sought.
        line: What the command line says of all runs: it beats the grid.
        absent: Where it is given, groups whose data is not here are left out and noted in it, with the reason.

    Raises:
        UsageError: An option that does not exist or does not fit, data that cannot be read, or two equal runs.
    """
    lines = [(combination, line_of(combination, grid.base, folder, line)) for combination in grid.combinations()]
    # What is no file stands in the grid, which has been checked as a whole.
    files = {config.source: config for _, each in lines for config in each.configs if config.is_file}
    trust.check(list(files.values()), line.trusted)
    resolver = Resolver(list(dict.fromkeys(plugin for _, line in lines for plugin in line.plugins)))
    runs: list[PlannedRun] = []
    for combination, line in lines:
        try:
            runs += _seeds(grid, combination, resolver, line)
        except AbsentDataError as error:
            if absent is None:
                raise AbsentDataError(f"{error}\nOr leave such runs out with --subset.") from error
            absent[combination.group] = str(error)
    _check_distinct(runs)
    return runs


def _seeds(grid: Grid, combination: Combination, resolver: Resolver, line: CommandLine) -> Iterable[PlannedRun]:
    try:
        config = resolver.resolve(line)
        _check_alone(config)
        data_sha256 = resolver.data_sha256(config)
    except UsageError as error:
        raise type(error)(f"{combination.group}: {error}") from error
    for seed in grid.seeds:
        mine = copy.deepcopy(config) | {"seed_everything": seed}
        place = Place(combination.group, seed, identity(mine, data_sha256))
        yield PlannedRun(place, combination.labels, mine, data_sha256)


def line_of(combination: Combination, base: Sequence[str], folder: Path, line: CommandLine) -> CommandLine:
    """The command line that a combination stands for: its whole sections as configs, its options as words.

    Args:
        combination: Its settings.
        base: Config files under them.
        folder: Where config files are sought.
        line: What stands over them.

    Raises:
        UsageError: A config file is missing or is none.
    """
    layers, options, plugins = [*(read(str(folder / name)) for name in base), *line.configs], [], []
    for settings in combination.settings:
        for key, value in settings.items():
            if key == "config":
                layers.append(read(str(folder / value)))
            elif key == "plugins":
                plugins += plugins_of(Config(str(folder / "grid"), {key: value}))
            elif isinstance(value, dict) and key in ("model", "data", "trainer"):
                layers.append(Config(INLINE, {key: value}))
            else:
                options.append(f"--{key}={value if isinstance(value, str) else json.dumps(value)}")
    of_files = [plugin for config in layers for plugin in plugins_of(config)]
    return CommandLine(layers, list(dict.fromkeys([*of_files, *plugins, *line.plugins])), [*options, *line.words])


def _check_alone(config: dict[str, Any]) -> None:
    """Refuse what a run in one process of a sweep cannot have."""
    trainer = config["trainer"]
    if trainer.get("devices") not in ("auto", 1, "1") or trainer.get("num_nodes", 1) != 1:
        raise UsageError(
            f"each run of a sweep is one process on one device, and trainer.devices is {trainer.get('devices')}; "
            "several runs at once use the others."
        )
    if trainer.get("fast_dev_run") or config.get("ckpt_path"):
        key = "ckpt_path" if config.get("ckpt_path") else "trainer.fast_dev_run"
        raise UsageError(f"{key} is for a single fit: the runs of a sweep start afresh and keep their results.")


def _check_distinct(runs: list[PlannedRun]) -> None:
    seen: dict[str, PlannedRun] = {}
    for run in runs:
        other = seen.setdefault(run.place.identity, run)
        if other is not run:
            raise UsageError(
                f"{other.place.label!r} and {run.place.label!r} are one and the same run: "
                "what differs between them changes nothing. Take one of them out, by a rule with skip: true."
            )
