"""All parts, and all options of a run: the imported ones, or text from a cache on disk, by which a
misspelt name is found without PyTorch."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from gnn_depth import registry
from gnn_depth.builder import PartIndex
from gnn_depth.cli import RUNS
from gnn_depth.cli.errors import LIBRARIES, OURS
from gnn_depth.part_specs import GIVEN, Option, PartsOf, PartSpec, options_of, parts_of
from gnn_depth.ranges import Natural, Positive, Range
from gnn_depth.runs import digest, write_atomically

#: The options that only some commands have.
COMMANDS = {
    "ckpt_path": ("fit", "validate", "test", "predict", "probe"),
    "force": ("validate", "test", "predict"),
    "output": ("predict",),
    "scales": ("probe",),
    "layers": ("probe",),
    "steps": ("probe",),
    "init_from": ("fit",),
}
#: What the cache holds as objects, and the key by which it knows them.
KEPT = {cls.__name__: cls for cls in (Option, PartSpec, Range)}
CLASS = "__class__"


class OwnOptions:
    """The options of commands beside those of the model, the trainer and the run's folder.

    Args:
        seed_everything: Seed of all random numbers.
        plugins: Python files or modules that register parts, imported first; may be repeated. Paths
            count from the working directory, in a config file from that file's folder.
        data: Data set; a generated citation graph by default.
        ckpt_path: Checkpoint: a file, a run folder, or `last`, the newest run of this name.
            validate and probe do without. fit resumes from it in a new folder, and takes `auto`
            too: the run with the same model, data, seed and code that was trained furthest.
        init_from: Folder of a run: a new training begins with its weights, where name and shape fit
            this model.
        force: Use a checkpoint of a model that has diverged.
        output: File for the predictions, a .csv.
        scales: Factors by which to scale each layer's input for further measurements of its
            Lipschitz constant.
        layers: Layers to show in the table, `some` or `all`; every layer is measured.
        steps: Train the model, and the same one with 4 layers, for some steps, and compare.
    """

    def __init__(
        self,
        seed_everything: Annotated[int, Range(0, 2**32 - 1)] | None = 0,  # NumPy's
        plugins: list[str] = (),  # type: ignore[assignment]
        data: Annotated[Any, PartsOf("data")] = "SyntheticCitation",
        ckpt_path: str | None = None,
        init_from: str | None = None,
        force: bool = False,
        output: str | None = None,
        scales: list[Positive] = (),  # type: ignore[assignment]
        layers: Literal["some", "all"] = "some",
        steps: Natural = 0,
    ) -> None: ...


def catalogue(plugins: Sequence[str], command: str = "fit") -> PartIndex:
    """The parts, with those of these plugins beside those of installed packages, and the options of
    a run command."""
    load = partial(load_plugins, plugins)

    def build() -> tuple[Any, Any]:
        load()
        return {kind: parts_of(kind) for kind in GIVEN}, options_of_runs()

    if any(registry.registered(kind) for kind in registry.KINDS):  # everything is imported already
        parts, options = build()
    else:
        parts, options = cached(plugins, build)
    taken = {key: each for key, each in options.items() if command in COMMANDS.get(key, RUNS)}
    return PartIndex(parts.__getitem__, load, [], taken)


def options_of_runs() -> dict[str, Option]:
    """The options of all commands that train or use a model, by dotted key."""
    from gnn_depth.training.models import model_options, trainer_options
    from gnn_depth.training.recorder import RunRecorder

    recorder, _ = options_of(RunRecorder)
    after = {
        "plugins": {"trainer": trainer_options(), "model": model_options()},
        "data": {"run": recorder},
    }
    found = {}
    own, _ = options_of(OwnOptions)
    for name, option in own.items():
        found[name] = option
        for section, options in after.get(name, {}).items():
            for last, each in options.items():
                key = f"{section}.{last}"
                found[key] = replace(each, name=key)
    return found


def load_plugins(plugins: Iterable[str]) -> None:
    """Import the plugins of installed packages, with a warning for those that fail, and then the
    named plugins."""
    # It imports all rooms that register built-in parts, whose names no plugin can take.
    import gnn_depth.training  # noqa: F401

    for failure in registry.load_entry_points():
        print(f"warning: {failure}", file=sys.stderr)
    for plugin in plugins:
        registry.load_plugin(plugin)


# The cache


def cached(plugins: Sequence[str], build: Callable[[], Any]) -> Any:
    """Keep on disk what ``build`` makes of the imported package and plugins, until a source file
    changes.

    An entry holds time and size of every source file that it was
    built from; a damaged or outdated one is built anew. A cache that cannot be written does no
    harm.
    """
    installed = registry.entry_points(group=registry.ENTRY_POINT_GROUP)  # type: ignore[attr-defined]
    modules = [*plugins, *sorted(entry.module for entry in installed)]
    # An entry for each set of plugins, and where they come from: else projects would share one.
    key = [sys.prefix, str(OURS), version("torch"), version("lightning")]
    for module in modules:
        key += [module, str(registry.origin(_top(module)))]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache, "gnn_depth", "catalogue")
    path = folder / f"catalogue-{digest(json.dumps(key))[:16]}.json"
    # Whatever is wrong with an entry, or if there is none, it is built anew.
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        entry = json.loads(path.read_text(encoding="utf-8"), object_hook=_read)
        if _stamps(entry["sources"]) == entry["sources"]:
            return entry["content"]
    content = build()
    if registry.not_loaded():  # a broken plugin may be mended without a change of its own files
        return content
    stamps = _stamps(_sources({"gnn_depth", *map(_top, modules)}))
    text = json.dumps({"sources": stamps, "content": content}, default=_plain)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    return content


def _plain(content: Any) -> Any:
    """A description without its classes, as JSON keeps it."""
    name = type(content).__name__
    if name not in KEPT:
        return str(content)
    return {CLASS: name, **vars(content), "annotation": None, "cls": None}


def _read(fields: dict[str, Any]) -> Any:
    """A description from its JSON; other mappings are left as they are."""
    if CLASS not in fields:
        return fields
    cls = KEPT[fields.pop(CLASS)]
    return cls(**{field: fields[field] for field in cls.__dataclass_fields__})


def _top(module: str) -> str:
    return module.partition(".")[0]


def _sources(packages: set[str]) -> set[str]:
    """Files and folders of these imported packages, and of modules outside of libraries, which have
    versions."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if _top(name) in packages:
            found |= {file, *getattr(module, "__path__", ())}
        elif not file.startswith(LIBRARIES):
            found.add(file)
    # torch invents some.
    return {file for file in found if Path(file).is_absolute() and Path(file).exists()}


def _stamps(files: Iterable[str]) -> dict[str, list[int]]:
    """Time and size of each file, and how many modules a folder holds."""
    found = {}
    for file in files:
        path = Path(file)
        status = path.stat()
        found[file] = [status.st_mtime_ns, status.st_size]
        if path.is_dir():  # its time changes with the bytecode that Python keeps in it, too
            found[file] = [len(list(path.glob("*.py")))]
    return found
