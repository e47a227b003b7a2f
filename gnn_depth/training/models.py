"""The sections ``model`` and ``trainer`` of a config: their options, and how a model is built."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from lightning import LightningDataModule, LightningModule, Trainer
from lightning.pytorch.cli import LightningCLI

from gnn_depth.builder import (
    LIVE,
    PartChoice,
    completed,
    instantiate,
    instantiate_options,
    options_to_config,
    set_option,
)
from gnn_depth.data.base import GraphDataModule
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.part_specs import GIVEN_BY_DATA, SECTIONS, Option, options_of
from gnn_depth.ranges import Range
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.monitors import with_modes

TRAINER_DEFAULTS = {
    "max_epochs": 200,
    # Not "auto": of several GPUs each would compute the same step of a whole graph.
    "devices": 1,
    # Lightning's 50 shows one point of fifty: a full batch is one step an epoch.
    "log_every_n_steps": 1,
    # It would be the same forward pass as the first epoch's validation.
    "num_sanity_val_steps": 0,
    # It would show one stack and three empty metrics; the report has the number of parameters.
    "enable_model_summary": False,
    # It would shuffle, and pad the test set.
    "use_distributed_sampler": False,
}
#: Ranges of Lightning's own options.
RANGES = {
    "accumulate_grad_batches": Range(1),
    "check_val_every_n_epoch": Range(1),
    "log_every_n_steps": Range(1),
    "gradient_clip_val": Range(0),
    "num_nodes": Range(1, 10_000),
    # Every one of them is a process, which imports all libraries: many stop a machine.
    "devices": Range(-1, 64),
}


def build_model(
    options: Mapping[str, Any], data: GraphDataModule | SimpleNamespace
) -> NodeClassifier:
    """Build the model of a config.

    Args:
        options: The section ``model``: parts that are selected already, names as a config writes
            them, or objects.
        data: The data set, or what a model needs to know of it: the numbers of features and
            classes, the task, the schema.

    Raises:
        PartError: An option does not exist or does not fit.
        ValueError: The options do not go together.
    """
    known = model_options()
    selected = select_section("model", options)
    of_data = {option: getattr(data, attribute) for option, attribute in GIVEN_BY_DATA.items()}
    model = NodeClassifier(**of_data, **instantiate_options(known, selected))
    # In checkpoints, parts stand as a config writes them.
    model.keep_options(of_data | options_to_config(known, selected), {})
    model.adopt(data.schema)
    return model


def build_module(
    chosen: PartChoice,
    data: LightningDataModule,
    optimizer: PartChoice | None = None,
    lr_scheduler: PartChoice | None = None,
) -> LightningModule:
    """Build a LightningModule of the user's; ``in_channels``, ``num_classes`` and so on are taken
    from the data where it takes them, the data has them, and they are not given. An optimizer
    replaces its ``configure_optimizers``, as in LightningCLI.

    Raises:
        ValueError: It is another class, or its schedule has no optimizer.
    """
    options = dict(chosen.options)
    for name, attribute in GIVEN_BY_DATA.items():
        is_open = name in chosen.part.options and options.get(name) is None
        if is_open and hasattr(data, attribute):
            options[name] = getattr(data, attribute)
    model = instantiate(PartChoice(chosen.part, options))
    if not isinstance(model, LightningModule):
        raise ValueError(f"model {chosen.part.path} is no LightningModule of lightning.")
    if optimizer is not None:
        make, make_schedule = instantiate(optimizer), instantiate(lr_scheduler)

        def configure_optimizers() -> Any:
            made = make(model.parameters())
            schedule = make_schedule and make_schedule(made)
            return LightningCLI.configure_optimizers(model, made, schedule)

        model.configure_optimizers = configure_optimizers  # type: ignore[method-assign]
    elif lr_scheduler is not None:
        raise ValueError("lr_scheduler needs an optimizer: --optimizer Adam.")
    return model


def select_section(
    section: str, given: Mapping[str, Any], epochs: int | None = None
) -> dict[str, Any]:
    """Check the options of the section ``model`` or ``trainer``, and select its parts. A
    callback or schedule that watches a metric gets its mode; a schedule that needs a length gets
    the epochs.

    Raises:
        PartError: An option does not exist or does not fit.
    """
    every = {f"trainer.{name}": option for name, option in trainer_options().items()}
    every |= {f"model.{name}": option for name, option in model_options().items()}
    options: dict[str, Any] = {}
    for key, value in given.items():
        set_option(options, f"{section}.{key}", value, replace(LIVE, options=every), (section, key))
    found = with_modes(completed(options, epochs))
    return {key.removeprefix(f"{section}."): value for key, value in found.items()}


@cache
def model_options() -> dict[str, Option]:
    """The options of the section ``model``, by name."""
    own = options_of(NodeClassifier)[0]
    found = {}
    # Twice its own: they come first, and their defaults count.
    for name, option in {**own, **options_of(DeepGNN)[0], **own}.items():
        if name not in GIVEN_BY_DATA and name != "out_channels":
            found[name] = replace(option, kind=SECTIONS.get(f"model.{name}"))
    return found


@cache
def trainer_options() -> dict[str, Option]:
    """The options of the section ``trainer``, by name: Lightning's, with our defaults."""
    found = {}
    for name, option in options_of(Trainer)[0].items():
        found[name] = replace(
            option,
            default=TRAINER_DEFAULTS.get(name, option.default),
            range=RANGES.get(name),
            kind=SECTIONS.get(f"trainer.{name}"),
        )
    return found


def trainer_objects(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the trainer, with the objects that the given ones stand for, and our defaults."""
    return TRAINER_DEFAULTS | instantiate_options(trainer_options(), given)
