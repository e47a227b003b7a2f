"""Graphs that do not fit: refused before the allocation, or trained on in parts and evaluated
whole."""

import math
import os
import re
import time
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch_geometric.data import Data

from gnn_depth import DeepGNN, fit
from gnn_depth.cli import main
from gnn_depth.data import MiniBatches
from gnn_depth.graph import Graph
from gnn_depth.nn.layers import GAT, GCN, GGNN, GATv2
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import Residual
from gnn_depth.training import memory

NODES, EDGES, WIDTH = 3000, 30_000, 32
LAYERS = {
    "gcn": GCN,
    "gat": GAT,
    "8 heads": partial(GAT, heads=8, split_heads=True),
    "gatv2": GATv2,
    "ggnn": GGNN,
}


def stack(layer, depth=6, **options):
    return DeepGNN(16, 3, layer, depth, WIDTH, **options)


def kept_by(model, x, graph):
    """Bytes that autograd keeps of a forward pass, but for features, parameters and what is the
    graph's."""
    model(x, graph)  # the graph derives what it will be asked for
    kept = {}
    known = {part.untyped_storage().data_ptr() for part in (x, *model.parameters())}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        scores = model(x, graph)
    assert scores.requires_grad
    return sum(size for pointer, size in kept.items() if pointer not in known)


FULL_STACK = {"skip": Residual, "dropout": 0.5, "norm": [LayerNorm]}


@pytest.mark.parametrize(
    ("layer", "options"),
    [*((layer, FULL_STACK) for layer in LAYERS), ("gcn", {}), ("gatv2", {})],
    ids=[*LAYERS, "plain gcn", "plain gatv2"],
)
def test_the_estimate_of_a_layer_is_what_autograd_keeps_of_it(layer, options):
    x, graph = torch.randn(NODES, 16), Graph(torch.randint(NODES, (2, EDGES)), NODES)
    few, many = (stack(LAYERS[layer], depth, **options) for depth in (3, 7))
    measured = kept_by(many, x, graph) - kept_by(few, x, graph)
    estimated = memory.estimate(many, NODES, EDGES, 4) - memory.estimate(few, NODES, EDGES, 4)
    assert measured / 1.5 < estimated < measured * 1.5


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"checkpoint_every": "sqrt"}, 0.5),
        ({"checkpoint_every": 3}, 0.5),
        ({"reversible": 2, "skip": Residual}, 0.2),
    ],
    ids=["sqrt", "3", "reversible"],
)
def test_what_is_computed_again_is_not_counted(options, most):
    whole = memory.estimate(stack(GCN, 64), NODES, EDGES, 4)
    assert memory.estimate(stack(GCN, 64, **options), NODES, EDGES, 4) < most * whole


def test_memory_is_that_of_the_machine_or_what_the_variable_says(monkeypatch, tmp_path):
    cpu = torch.device("cpu")
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < memory.free_bytes(cpu) <= whole
    monkeypatch.setenv(memory.VARIABLE, "1.5")
    assert memory.free_bytes(cpu) == 1.5e9
    monkeypatch.setenv(memory.VARIABLE, "inf")
    assert memory.free_bytes(cpu) == math.inf
    monkeypatch.setenv(memory.VARIABLE, "lots")
    with pytest.raises(
        MisconfigurationException, match="number of gigabytes, or inf to check nothing, not 'lots'"
    ):
        memory.free_bytes(cpu)


@pytest.mark.parametrize(
    ("of_process", "available", "free"),
    [
        ("0::/jobs/4711\n", 10**6, 600),  # of the inner group: 700 - 100
        ("0::/jobs\n", 10**6, 800),
        (
            "5:cpu,cpuacct:/box\n4:memory:/box\n",
            10**6,
            430,
        ),  # version 1, with 30 bytes of cached pages
        ("4:memory:/../other\n", 10**6, 5000),  # outside of what a container sees
        ("0::/\n", 3, 3 * 1024),
        (None, 10**6, 10**6 * 1024),
    ],
)
def test_free_memory_is_that_of_the_machine_within_every_control_group_around_the_process(
    tmp_path, of_process, available, free
):
    files = {
        "": {"memory.max": "max", "memory.current": "50"},
        "jobs": {"memory.max": "900", "memory.current": "100"},
        "jobs/4711": {"memory.max": "700", "memory.current": "100"},
        "memory": {"memory.limit_in_bytes": "5000", "memory.usage_in_bytes": "0"},
        "memory/box": {"memory.limit_in_bytes": "500", "memory.usage_in_bytes": "100"},
    }
    for group, content in files.items():
        (tmp_path / group).mkdir(exist_ok=True)
        for name, text in content.items():
            (tmp_path / group / name).write_text(text)
    (tmp_path / "memory/box/memory.stat").write_text("inactive_file 1\ntotal_inactive_file 30\n")
    (tmp_path / "meminfo").write_text(f"MemAvailable: {available} kB\n")
    if of_process:
        (tmp_path / "cgroup").write_text(of_process)
    assert memory._free(str(tmp_path / "meminfo"), str(tmp_path / "cgroup"), str(tmp_path)) == free


WORDS = """
--data.num_nodes=120 --data.num_edges=240 --data.num_features=30 --data.num_train_per_class=5
--data.num_val=30 --data.num_test=30 --trainer.max_epochs=3 --trainer.accelerator=cpu
--model.hidden_channels=8 --trainer.enable_progress_bar=false
"""
FULL = WORDS.split()
OF_SOURCE = WORDS.replace("--data.", "--data.source.").split()
PARTS = ["--data=MiniBatches", "--data.source=SyntheticCitation", *OF_SOURCE, "--data.parts=4"]


def test_a_graph_larger_than_memory_is_refused_with_the_numbers_and_the_ways_out(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(memory.VARIABLE, "0.00001")
    assert main(["fit", *FULL]) == 2
    said = capsys.readouterr().err
    for part in (
        "120 nodes and 480 edges",
        "2 layers, and 1e-05 GB are free",
        "--data MiniBatches",
        "--model.checkpoint_every sqrt",
        f"{memory.VARIABLE}=1",
    ):
        assert part in said
    assert not (tmp_path / "runs").exists()
    assert main(["fit", *PARTS, "--run.root=parts"]) == 0
    monkeypatch.setenv(memory.VARIABLE, "1")
    assert main(["fit", *FULL, "--run.root=full"]) == 0


def test_ones_own_graph_larger_than_memory_is_refused_too(monkeypatch, tmp_path):
    monkeypatch.setenv(memory.VARIABLE, "0.00001")
    graph = Data(
        x=torch.randn(20, 4),
        y=torch.arange(20) % 3,
        edge_index=torch.arange(20).expand(2, -1).clone(),
    )
    with pytest.raises(MisconfigurationException, match="20 nodes and 20 edges, needs about"):
        fit({"num_layers": 2}, graph, epochs=1, root=str(tmp_path / "runs"), progress=False)
    assert not (tmp_path / "runs").exists()


def test_what_is_needed_depends_on_the_precision(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(memory.VARIABLE, "0.00001")

    def needed(*words):
        assert main(["fit", *FULL, "--model.hidden_channels=512", *words]) == 2
        return float(re.search(r"about ([\d.]+) GB", capsys.readouterr().err)[1])

    single = needed()
    for precision, times in (("64-true", 2), ("bf16-mixed", 1)):
        assert needed(f"--trainer.precision={precision}") == pytest.approx(
            times * single, rel=0.02
        ), precision


def test_parts_that_do_not_fit_are_refused_before_there_is_a_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["fit", *PARTS, "--trainer.devices=3", "--trainer.strategy=ddp"]) == 2
    assert "parts 4 is not divisible by the 3 processes" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("method", ["partition", "neighbor"])
def test_a_training_on_parts_learns_and_is_measured_on_the_whole_graph(
    tiny, make_trainer, model, method
):
    data = MiniBatches(tiny, method, 2, chunks=2 if method == "partition" else None)
    before = F.cross_entropy(
        model(tiny.batch)[tiny.batch.train_mask], tiny.batch.y[tiny.batch.train_mask]
    ).item()
    trainer = make_trainer(10)
    trainer.fit(model, datamodule=data)
    assert trainer.global_step == 20
    scores = model.eval()(tiny.batch)
    val, train = tiny.batch.val_mask, tiny.batch.train_mask
    assert F.cross_entropy(scores[train], tiny.batch.y[train]).item() < 0.95 * before
    expected = F.cross_entropy(scores[val], tiny.batch.y[val]).item()
    assert trainer.callback_metrics["val/loss"].item() == pytest.approx(expected, rel=1e-5)
    (predicted,) = trainer.predict(model, datamodule=data)
    torch.testing.assert_close(predicted, scores.softmax(-1))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model.hidden_channels=1000000"], "GB of memory"),
        (["--model.layer=gat", "--model.layer.heads=1000000000000"], "GB of memory"),
        (["--data.num_nodes=1000000000000"], "num_nodes 1000000000000"),
        (["--trainer.devices=99999"], "99999 processes"),
    ],
)
def test_sizes_that_cannot_fit_are_refused_before_anything_is_allocated(
    monkeypatch, tmp_path, capsys, words, said
):
    monkeypatch.chdir(tmp_path)
    began = time.process_time()
    assert main(["fit", *FULL, *words]) == 2
    assert time.process_time() - began < 2
    error = capsys.readouterr().err.partition("error: ")[2]
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
