"""Every part and option that a command line can name, and messages for names that do not exist."""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal

from gnn_depth import registry
from gnn_depth.builder import PartIndex
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import PREDICTIONS_TEXT
from gnn_depth.part_specs import Option, imported_parts, meanings, option_of, options_of
from gnn_depth.ranges import Natural, Positive, Range

DEFAULT_DATA = "SyntheticCitation"
SEED = Annotated[int, Range(0, 2**32 - 1)]  # NumPy's
PLUGINS_HELP = (
    "Python files or modules that register parts, imported first; may be repeated. Paths count "
    "from the working directory, in a config file from that file's folder."
)
CKPT_HELP = (
    "Checkpoint: a file, a run folder, or `last`, the newest run of this name; validate and probe "
    "do without. fit resumes from it in a new folder, and takes `auto` too: the run with the same "
    "model, data, seed and code that was trained furthest."
)
INIT_HELP = (
    "Folder of a run: a new training begins with its weights, where name and shape fit this model."
)
SCALES_HELP = (
    "Factors by which to scale each layer's input for further measurements of its Lipschitz "
    "constant."
)


@dataclass(frozen=True)
class CommandIndex(PartIndex):
    """The parts that can be named, and the options of a command by dotted key."""

    options: dict[str, Option] = field(default_factory=dict)


def known_parts(command: str, plugins: Iterable[str]) -> CommandIndex:
    """Collect the imported parts; the plugins are imported before a class that is not known."""
    names = tuple(plugins)
    return CommandIndex(imported_parts(), lambda: load_plugins(names), options_of_run(command))


def options_of_run(command: str) -> dict[str, Option]:
    """The options of a command that trains or uses a model, by dotted key."""
    from gnn_depth.training.models import model_options, trainer_options
    from gnn_depth.training.recorder import RunRecorder

    about = meanings(RunRecorder.__doc__)
    of_run = options_of(RunRecorder)[0]
    found = {
        "seed_everything": _own(SEED | None, 0, "Seed of all random numbers."),
        "plugins": _own(list[str], [], PLUGINS_HELP),
    }
    found |= {f"trainer.{name}": option for name, option in trainer_options().items()}
    found |= {f"model.{name}": option for name, option in model_options().items()}
    found["data"] = replace(_own(Any, DEFAULT_DATA, ""), kind="data")
    for name, option in of_run.items():
        found[f"run.{name}"] = replace(option, about=about.get(name, ""))
    found.update(_options_of_one(command))
    return {name: replace(option, name=name) for name, option in found.items()}


def _options_of_one(command: str) -> Iterator[tuple[str, Option]]:
    """The options that only some commands have."""
    if command != "inspect":
        yield "ckpt_path", _own(str | None, None, CKPT_HELP)
    if command == "fit":
        yield "init_from", _own(str | None, None, INIT_HELP)
    if command in ("validate", "test", "predict"):
        about = "Use a checkpoint of a model that has diverged."
        yield "force", _own(bool, False, about, nargs=0)
    if command == "predict":
        about = f"File for the predictions; {PREDICTIONS_TEXT} by its suffix."
        yield "output", _own(str | None, None, about)
    if command == "probe":
        yield "scales", _own(list[Positive], [], SCALES_HELP, nargs="+")
        about = "Layers to show in the table, `some` or `all`; every layer is measured."
        yield "layers", _own(Literal["some", "all"], "some", about)
        about = "Train the model, and the same one with 4 layers, for some steps, and compare."
        yield "steps", _own(Natural, 0, about)


def _own(annotation: Any, default: Any, about: str, nargs: int | str | None = None) -> Option:
    # As if it were an argument of a class: types are read in one place.
    parameter = Parameter("_", Parameter.KEYWORD_ONLY, default=default)
    return replace(option_of(parameter, annotation, about), nargs=nargs)


def load_plugins(plugins: Iterable[str]) -> None:
    """Import the plugins of installed packages, with a warning for those that fail, and then the
    named plugins."""
    # All three register the built-in parts, whose names no plugin can take.
    import gnn_depth.data
    import gnn_depth.nn
    import gnn_depth.training  # noqa: F401

    for failure in registry.load_entry_points():
        print(f"warning: {failure}", file=sys.stderr)
    folder = Path.cwd()
    try:
        for plugin in plugins:
            registry.load_plugin(plugin)
            os.chdir(folder)  # a plugin that leaves it would move the run
    except registry.RegistryError as error:
        raise UsageError(str(error)) from error.__cause__
