"""``gnn-depth fit`` as a whole process, against a bare loop over the same functions as a whole
process.

Ten layers of GATv2 on Cora (configs/gatv2_xavier_10.yaml), a full-batch step and an evaluation an
epoch. The bare loop imports torch, the data and the model, and trains; it logs nothing and writes
nothing.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).parents[2]
CONFIG = HERE / "configs" / "gatv2_xavier_10.yaml"


def bare_loop(root: str, epochs: int) -> None:
    """Train and evaluate without Lightning."""
    import torch
    import torch.nn.functional as F

    from gnn_depth.data.planetoid import Planetoid
    from gnn_depth.nn.inits import Xavier
    from gnn_depth.nn.layers import GATv2
    from gnn_depth.nn.stack import DeepGNN
    from gnn_depth.nn.variants.compile import keep_compiled_code

    batch = Planetoid("Cora", root=root).batch
    layer = partial(GATv2, share_weights=True, bias=False)
    model = DeepGNN(1433, 7, layer, 10, 64, encoder="none", decoder="none")
    Xavier()(model)
    keep_compiled_code()
    model.compile_layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, fused=True)
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(
            model(batch.x, batch.graph)[batch.train_mask], batch.y[batch.train_mask]
        ).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(batch.x, batch.graph)
            F.cross_entropy(scores[batch.val_mask], batch.y[batch.val_mask])
            [
                (scores.argmax(-1) == batch.y)[mask].double().mean()
                for mask in (batch.val_mask, batch.test_mask)
            ]
        model.train()


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=HERE, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of Cora")
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bare", action="store_true", help="be the bare loop")
    options = parser.parse_args()
    root, epochs = str(Path(options.data).resolve()), str(options.epochs)
    if options.bare:
        return bare_loop(root, options.epochs)
    words = [
        "--config",
        str(CONFIG),
        "--data.root",
        root,
        "--trainer.max_epochs",
        epochs,
        "--model.compile",
        "on",
    ]
    commands = {
        "bare": [
            sys.executable,
            "-m",
            "tools.bench.fit",
            "--bare",
            "--data",
            root,
            "--epochs",
            epochs,
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        commands["fit"] = [sys.executable, "-m", "gnn_depth", "fit", *words, "--run.root", folder]
        found: dict[str, list[float]] = {name: [] for name in commands}
        for command in commands.values():  # both find their compiled code on disk from here on
            seconds(["20" if word == epochs else word for word in command])
        for _ in range(options.rounds):
            for name, command in commands.items():
                found[name].append(seconds(command))
    ratios = [fit / bare for fit, bare in zip(found["fit"], found["bare"], strict=True)]
    print(json.dumps({**found, "fit / bare": statistics.median(ratios)}))
    return None


if __name__ == "__main__":
    main()
