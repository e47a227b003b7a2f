"""Record numbers that no change of the code may change, and compare with a recording.

::

    python -m tools.recorded --make FILE                  # all groups, three minutes
    python -m tools.recorded --compare FILE               # exit code 1 if anything differs
    python -m tools.recorded --compare FILE --only fits parts
    python -m tools.recorded --compare FILE --rtol 1e-4   # on another processor
    PYTHONPATH=OLD python tools/recorded --make FILE      # the numbers of another checkout

The groups:

configs
    ``fit --print_config`` of every config of one run.
grids
    ``sweep --dry-run`` of every grid, and ``reproduce --list``.
sweeps
    A few runs of grids with rules, from the grid's file to the table of the results.
fits
    Curves, results and measured arrays of short trainings of the shipped configs.
parts
    Loss and gradients of the first step for every registered part, in both precisions.
watch
    Every measure of a watched training loop.
resume
    A training that was stopped and resumed, beside the uninterrupted one.
own
    Short trainings on own data of every kind of target.
data
    The checksum of every data set that is here; GNN_DEPTH_DATA names the folder of real ones.
tables
    ``table --output FILE.csv`` for the results in docs/results, beside the published numbers.
refused
    Exit code and near miss of wrong command lines.

Everything runs on one thread of the CPU, in this process. One machine gives equal numbers to the
last bit; between processors the last digits differ, so that ``--rtol`` leaves out checksums of
floats. Only the command line and the public API are used, so that the same file records old and
new code. ``cases.yaml`` has the cases. ``numbers.json.gz`` beside this file is a recording.
"""

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import math
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import yaml
from torch_geometric.data import Data

import gnn_depth
import gnn_depth.data
from gnn_depth.cli import main as gnn_depth_main

HERE = Path(__file__).parent
ROOT = Path(gnn_depth.__file__).parents[1]  # of the code that is recorded
CONFIGS = ROOT / "configs"
CASES = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))
SIZES = {
    "num_nodes": 120,
    "num_edges": 360,
    "num_features": 24,
    "num_classes": 4,
    "num_train_per_class": 8,
    "num_val": 30,
    "num_test": 40,
}
CHECKSUM = "sha256"  # the last word of the keys that --rtol leaves out
SHOWN = 25  # differences of a group


def call(*words: str) -> tuple[int, str, str]:
    """Run a command line in this process: exit code, output and messages."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = gnn_depth_main(list(words))
    return code, out.getvalue(), err.getvalue()


def output_of(*words: str) -> str:
    """The output of a command line that has to succeed."""
    code, out, err = call(*words)
    if code:
        raise RuntimeError(f"gnn-depth {' '.join(words)} ended with {code}: {err}")
    return out


def written(suffix: str, *words: str) -> str:
    """The file that a command line writes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"file.{suffix}")
        output_of(*words, "--output", str(file))
        return file.read_text(encoding="utf-8")


def checksum(*arrays: Any) -> str:
    """A short checksum of the bytes, types and shapes of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def summary(array: Any) -> dict[str, Any]:
    """Shape, sum, root of the sum of squares, and checksum of an array."""
    array = np.asarray(array)
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    return {
        "shape": "x".join(map(str, array.shape)),
        "undefined": int(values.size - finite.size),
        "sum": math.fsum(finite.ravel()),
        "norm": math.sqrt(math.fsum(np.square(finite).ravel())),
        CHECKSUM: checksum(array),
    }


def configs() -> Iterator[tuple[str, Any]]:
    for path in sorted(CONFIGS.rglob("*.yaml")):
        name = path.relative_to(CONFIGS).with_suffix("").as_posix()
        if name.startswith(("sweeps/", "reproduce/")):
            continue
        printed = output_of("fit", "--config", str(path), "--print_config")
        yield name, yaml.safe_load(printed)


def grids() -> Iterator[tuple[str, Any]]:
    for path in sorted((CONFIGS / "sweeps").glob("*.yaml")):
        first, *lines = output_of("sweep", str(path), "--dry-run").splitlines()
        groups = [line.split()[0] for line in lines if "=" in line]
        yield (
            path.stem,
            {
                "runs": re.findall(r"\d+", first),
                "first": groups[0],
                "last": groups[-1],
                "all": checksum(groups),
            },
        )
    listed = output_of("reproduce", "--list")
    yield "items", re.findall(r"^(\w+/\w+)|^ +(\d+) runs", listed, re.MULTILINE)


def sweeps() -> Iterator[tuple[str, Any]]:
    for name, words in CASES["sweeps"].items():
        grid = str(CONFIGS / "sweeps" / f"{name}.yaml")
        output_of("sweep", grid, *words.split(), "--workers", "1", "--root", "sweeps")
        found = {}
        for folder in sorted(path.parent for path in Path("sweeps", name).rglob("result.json")):
            seed = folder.name.partition("-")[0]
            found[f"{folder.parent.name} {seed}"] = run_in(folder)
        found["table"] = table_of(f"sweeps/{name}", "--metric", "val/loss")
        yield name, found


def fits() -> Iterator[tuple[str, Any]]:
    for name, words in CASES["fits"].items():
        yield name, trained(f"fits/{name}", name, *words.split())


def trained(root: str, name: str, *words: str) -> dict[str, Any]:
    """Train a shipped config for a few epochs, below a folder."""
    files = ["--config", str(CONFIGS / f"{name}.yaml")]
    short = ["--trainer.max_epochs", str(CASES["epochs"]), "--trainer.accelerator", "cpu"]
    short += ["--trainer.enable_progress_bar", "false", "--run.root", root]
    output_of("fit", *files, *short, *words)
    (result,) = Path(root).rglob("result.json")
    return run_in(result.parent)


def run_in(folder: Path) -> dict[str, Any]:
    """Curves, metrics, findings, measures and weights of a run's folder."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    found = {key: result.get(key) for key in CASES["results"]}
    lines = (folder / "metrics.csv").read_text(encoding="utf-8").splitlines()
    head = lines[0].split(",")
    for place, line in enumerate(lines[1:]):
        row = zip(head, line.split(","), strict=True)
        found[f"row {place}"] = {key: float(value) for key, value in row if value}
    for path in sorted(folder.glob("measures/*.npz")):
        with np.load(path) as arrays:
            found[path.stem] = summary(arrays["values"])
    weights = torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    found["weights"] = {"all": summary(in_one(weights.values()))}
    return found


def parts() -> Iterator[tuple[str, Any]]:
    for name, options in CASES["parts"].items():
        for dtype in (torch.float32, torch.float64):
            yield f"{name} {str(dtype).removeprefix('torch.')}", first_step(options, dtype)


def first_step(options: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    x, edge_index, y = small_graph()
    torch.manual_seed(0)
    model = gnn_depth.DeepGNN(x.shape[1], 4, **(CASES["stack"] | options)).to(dtype)
    torch.manual_seed(1)
    loss = torch.nn.functional.cross_entropy(model(x.to(dtype), edge_index), y)
    loss.backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    return {"loss": loss.item(), "gradients": summary(in_one(gradients))}


def in_one(tensors: Iterable[torch.Tensor]) -> np.ndarray:
    """All entries of tensors in one array."""
    return torch.cat([one.double().ravel() for one in tensors]).numpy()


def small_graph() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, edges in both directions without self-loops, and classes."""
    draw = torch.Generator().manual_seed(7)
    source, target = torch.randint(60, (2, 150), generator=draw)
    source, target = source[source != target], target[source != target]
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    x = torch.randn(60, 12, generator=draw, dtype=torch.float64)
    return x, edges.unique(dim=1), torch.randint(4, (60,), generator=draw)


def watch() -> Iterator[tuple[str, Any]]:
    for name, options in CASES["watched"].items():
        torch.manual_seed(0)
        x, edge_index, y = small_graph()
        model = gnn_depth.DeepGNN(x.shape[1], 4, **(CASES["stack"] | options)).double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        measures = list(gnn_depth.diagnostics.MEASURES)
        with gnn_depth.watch(model, measures=measures, edge_index=edge_index) as watched:
            for _ in range(3):
                loss = torch.nn.functional.cross_entropy(model(x, edge_index), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                watched.step()
        found: dict[str, Any] = {}
        for row in watched.frame().itertuples():
            found.setdefault(row.measure, {})[f"{row.step} {row.layer}"] = row.value
        yield name, found
        yield f"{name}, findings", watched.findings()


def resume() -> Iterator[tuple[str, Any]]:
    name, *words = CASES["resume"].split()
    longer = [*words, "--trainer.max_epochs", "5"]
    yield "whole", trained("resume/whole", name, *longer)
    yield "half", trained("resume/half", name, *words)
    yield "resumed", trained("resume/again", name, *longer, "--ckpt_path", "resume/half")


def own() -> Iterator[tuple[str, Any]]:
    for kind, options in CASES["own"].items():
        model = {"num_layers": 3, "hidden_channels": 8, **options}
        gnn_depth.fit(model, own_data(kind), 3, root=f"own/{kind}", progress=False)
        (result,) = Path("own", kind).rglob("result.json")
        yield kind, run_in(result.parent)


def own_data(kind: str) -> Any:
    """A graph with targets of some kind and masks, or many small graphs."""
    x, edge_index, classes = small_graph()
    targets = {
        "multiclass": classes,
        "binary": classes % 2,
        "multilabel": torch.stack([classes % 2, classes // 2], dim=1).float(),
        "regression": x[:, :2].sum(1).float(),
    }
    if kind == "graphs":
        return [
            Data(
                x=x[:9].float() + y,
                edge_index=edge_index[:, (edge_index < 9).all(0)],
                y=torch.tensor([y]),
            )
            for y in [0, 1] * 10
        ]
    masks = {}
    for place, split in enumerate(("train", "val", "test")):
        masks[f"{split}_mask"] = torch.arange(60) % 3 == place
    return Data(x=x.float(), edge_index=edge_index, y=targets[kind], **masks)


def data() -> Iterator[tuple[str, Any]]:
    for name, options in CASES["data"].items():
        torch.manual_seed(0)
        class_path = name.split()[0]
        made = gnn_depth.build("data", {"class_path": class_path, "init_args": options})
        sizes = [made.task, made.num_classes, str(made.num_features)]
        yield name, {"sizes": sizes, CHECKSUM: made.checksum}


def tables() -> Iterator[tuple[str, Any]]:
    for path in sorted((ROOT / "docs/results").glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        root = f"tables/{path.stem}"
        metric = content.get("metric", "test_acc_at_best_val")
        count = 0
        for claim in content["claims"]:
            for seed, value in zip(claim.get("seeds", ()), claim.get("values", ()), strict=False):
                write_run(Path(root, f"run_{count}"), claim["at"], seed, metric, value / 100)
                count += 1
        if not count:
            continue
        words = ["--rows", *content["rows"], "--metric", metric]
        if "columns" in content:
            words += ["--columns", *content["columns"]]
        if "item" in content:
            item = CONFIGS / "reproduce" / f"{content['item']}.yaml"
            words += ["--published", str(item)] * ("published:" in item.read_text())
        yield path.stem, table_of(root, *words)


def table_of(root: str, *words: str) -> dict[str, Any]:
    """The values of the runs behind a table, and the numbers and verdicts that its text shows."""
    axes = []
    for place, word in enumerate(words):
        if word == "--published":
            axes = [*words[:place], *words[place + 2 :]]
    rows = written("csv", "table", root, *(axes or words)).splitlines()
    found: dict[str, Any] = {
        "runs": len(rows) - 1,
        "csv": rows[0],
        "all": checksum(sorted(rows[1:])),
    }
    for spread in ("std", "ci"):
        text = written("md", "table", root, *words, "--spread", spread)
        found[spread] = " ".join(re.findall(CASES["numbers"], text))
    return found


def write_run(folder: Path, axes: dict[str, Any], seed: int, metric: str, value: float) -> None:
    """Write the result of a run, as a training does."""
    folder.mkdir(parents=True)
    result = {
        "format": 1,
        "status": "finished",
        "name": folder.parent.name,
        "seed": seed,
        "started": "2026-11-21T08:35:02+00:00",
        "identity": str(folder),
        "sweep": folder.parent.name,
        "axes": axes,
        "metrics": {metric: value},
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def refused() -> Iterator[tuple[str, Any]]:
    Path("wrong.yaml").write_text(CASES["wrong_file"], encoding="utf-8")
    for words, fragment in CASES["refused"].items():
        code, _, err = call(*words.split())
        meant = re.findall(r"Did you mean '([^']+)'", err)
        yield words, {"code": code, "meant": meant, fragment: fragment in err}


#: The groups by their names, in the order in which they are recorded.
GROUPS: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {}
for group in (configs, grids, sweeps, fits, parts, watch, resume, own, data, tables, refused):
    GROUPS[group.__name__] = group


def record(names: list[str]) -> dict[str, Any]:
    """The numbers of some groups; a case that fails is recorded as its error."""
    torch.set_num_threads(1)
    before = Path.cwd()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        for name in names:
            found[name] = {}
            try:
                for case, value in GROUPS[name]():
                    found[name][case] = json.loads(json.dumps(value))
            except Exception as error:
                found[name]["error"] = f"{type(error).__name__}: {error}"[:500]
            print(f"{name}: {len(found[name])} cases", file=sys.stderr)
        os.chdir(before)
    return found


def flat(value: Any, place: str = "") -> dict[str, Any]:
    """All entries of nested mappings and lists, by their places."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {place: value}
    found: dict[str, Any] = {} if value else {place: "empty"}
    for key, entry in value.items():
        found |= flat(entry, f"{place}\t{key}")
    return found


def compare(old: Any, new: Any, rtol: float | None = None) -> dict[str, list[str]]:
    """The cases that differ, by what differs in them; with a tolerance, floats may differ by it."""
    before, after = flat(old), flat(new)
    found: dict[str, list[str]] = {}
    for place in before | after:
        first, second = before.get(place, "(none)"), after.get(place, "(none)")
        is_equal = repr(first) == repr(second)  # NaN equals itself
        if rtol is not None and isinstance(first, int | float) and isinstance(second, int | float):
            is_equal = is_equal or math.isclose(first, second, rel_tol=rtol, abs_tol=rtol)
        elif rtol is not None and place.endswith(f"\t{CHECKSUM}"):
            is_equal = True
        if not is_equal:
            _, case, *rest = place.split("\t")
            found.setdefault(f"{'.'.join(rest)}: {first} -> {second}", []).append(case)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("--make", type=Path, metavar="FILE", help="write a recording")
    either.add_argument("--compare", type=Path, metavar="FILE", help="compare with a recording")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--rtol", type=float, help="tolerance of floats; by default they are equal")
    options = parser.parse_args()
    found = record(options.only)
    if options.make:
        write(options.make, found)
        return 0
    known = read(options.compare)
    differs = False
    for name in options.only:
        differences = compare(known.get(name, {}), found[name], options.rtol)
        differs = differs or bool(differences)
        print(f"{name}: {len(found[name])} cases, {len(differences)} differences")
        for difference, cases in list(differences.items())[:SHOWN]:
            print(f"  {difference}\n    in {len(cases)} cases: {', '.join(cases[:4])}")
    return int(differs)


def write(path: Path, found: dict[str, Any]) -> None:
    """Write a recording; compressed if its name ends in .gz."""
    content = json.dumps(found, indent=1).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    path.write_bytes(content)


def read(path: Path) -> dict[str, Any]:
    """A recording that was written by ``write``."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    found: dict[str, Any] = json.loads(content)
    return found


if __name__ == "__main__":
    sys.exit(main())
