"""``gnn-depth probe``: measure every layer of a model in one pass, before or after training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from jsonargparse import ArgumentParser

from gnn_depth.cli.config import GIVEN_BY_DATA, expand_config
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import write_whole
from gnn_depth.data.checks import DataError
from gnn_depth.diagnostics.probe import Report
from gnn_depth.diagnostics.probe import probe as probe_model
from gnn_depth.ranges import Positive
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import read_checkpoint


def add_probe_options(parser: ArgumentParser) -> None:
    """Add the options that only ``gnn-depth probe`` has."""
    scales = "Factors by which to scale each layer's input for further measurements of its Lipschitz constant."
    parser.add_argument("--scales", type=Positive, nargs="+", default=[], help=scales)
    layers = "Layers to show in the table, `some` or `all`; every layer is measured."
    parser.add_argument("--layers", type=Literal["some", "all"], default="some", help=layers)
    page = "File for a web page with charts of every measure: FILE.html."
    parser.add_argument("--html", type=str | None, default=None, help=page)
    trials = "Probe the model with each proposed remedy too, and compare."
    parser.add_argument("--try", action="store_true", help=trials)


def probe(cli: Any) -> str:
    """Probe the model of a command line, write the web page if requested, and return the report's text.

    Args:
        cli: The assembled command line, with data, model and options.
    """
    report = measure(cli)
    text = report.text(every=cli.config.layers == "all")
    if cli.config.html is None:
        return text
    path = Path(cli.config.html)
    write_whole(path, report.html, "--html")
    return f"{text}\n\nweb page: {path}"


def measure(cli: Any) -> Report:
    """Probe the model of a command line.

    Args:
        cli: The assembled command line, with data, model and options.
    """
    model, data, device = cli.model, cli.datamodule, cli.trainer.strategy.root_device
    if cli.checkpoint:
        model.load_state_dict(read_checkpoint(cli.checkpoint.path)["state_dict"])
    try:
        data.prepare_data()
        data.setup("fit")
        batch = next(iter(data.train_dataloader())).to(device)
    except DataError as error:
        raise UsageError(str(error)) from error
    title = f"{cli.what}, {'at ' + str(cli.checkpoint.path) if cli.checkpoint else 'at initialisation'}"
    given = {key: model.hparams[key] for key in GIVEN_BY_DATA if key in model.hparams}
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(NodeClassifier, "model", sub_configs=True, fail_untyped=False)

    def build(options: Mapping[str, Any]) -> NodeClassifier:
        """The model that a command line with these options and this seed would build."""
        with torch.random.fork_rng([]):
            torch.manual_seed(cli.config.seed_everything or 0)
            config = {"model": {**expand_config({"model": dict(options)})["model"], **given}}
            parsed = parser.parse_object(config, defaults=False)  # complete already, and adding defaults is slow
            built: NodeClassifier = parser.instantiate_classes(parsed).model
        return built.to(device)

    return probe_model(
        model.to(device),
        batch,
        loss=lambda out: model.task.loss(out[batch.train_mask], batch.y[batch.train_mask]),
        scales=cli.config.scales,
        title=title,
        options=cli.config_dump["model"],
        build=build,
        try_remedies=cli.config["try"],
    )
