"""``gnn-depth probe``: measure every layer of a model in one pass, before or after training."""

from collections.abc import Mapping
from typing import Any

import torch

from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.diagnostics.probe import probe
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import read_checkpoint
from gnn_depth.training.models import build_model
from gnn_depth.training.recorder import initial_share
from gnn_depth.training.run import title
from gnn_depth.training.summary import LAGS


def probe_command(cli: CommandLineInterface) -> str:
    """Probe the model of a command line, and return the report's text."""
    model, data, device = cli.model, cli.datamodule, cli.trainer.strategy.root_device
    moment = "at initialisation"
    if cli.checkpoint:
        # The checkpoint's options are in the config already; its weights come here.
        model.load_state_dict(read_checkpoint(cli.checkpoint.path)["state_dict"])
        moment = f"at {cli.checkpoint.path}"
        initial = initial_share(model, model.state_dict())
        if initial > LAGS:
            moment += f", {initial:.0%} of batch norm's running averages are their initial values"
    data.prepare_data()
    data.setup("fit")
    batch = next(iter(data.train_dataloader())).to(device)

    def build(options: Mapping[str, Any]) -> NodeClassifier:
        """The model that a command line with these options and this seed would build."""
        with torch.random.fork_rng([]):
            seed = cli.resolved["seed_everything"] or 0
            torch.default_generator.manual_seed(seed)  # weights are drawn on the CPU
            return build_model(options, data).to(device)

    report = probe(
        model.to(device),
        batch,
        loss=lambda out: model.task.loss(out[batch.train_mask], batch.y[batch.train_mask]),
        scales=cli.resolved["scales"],
        title=f"{title(model, data)}, {moment}",
        options=cli.resolved["model"],
        build=build,
        steps=cli.resolved["steps"],
    )
    return report.text(every=cli.resolved["layers"] == "all")
