"""Estimate whether a training on the whole graph fits into memory, before any of it is
allocated."""

import contextlib
import math
import os
import warnings
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth.data.base import GraphDataModule, NodeDataModule
from gnn_depth.nn.parts import Layer
from gnn_depth.nn.stack import DeepGNN, NumLayers

VARIABLE = "GNN_DEPTH_MEMORY"
GB = 1e9
# Bytes per edge, and per edge and head, of the tensors that a graph derives from its edges.
OF_EDGE, OF_EDGE_AND_HEAD = 60, 36
#: Bytes of a number where the strategy converts the whole model when it starts.
CONVERTED = {"64-true": 8, "bf16-true": 2}
OF_PROCESS = 300e6  # bytes of the imported libraries
#: Number of tensors of nodes x width that exist at the same time in the backward pass.
PASSING = 3


def check_memory(stack: DeepGNN, data: GraphDataModule, trainer: L.Trainer) -> None:
    """Refuse a training on full batches that would not fit into memory."""
    if (
        not isinstance(data, NodeDataModule)
        or type(data).train_dataloader is not NodeDataModule.train_dataloader
    ):
        return
    graph, device = data.batch.graph, trainer.strategy.root_device
    free = available(device)
    processes = (
        trainer.num_devices if device.type == "cpu" else 1
    )  # these share memory; each GPU has its own
    size = CONVERTED.get(str(trainer.precision)) or next(stack.parameters()).element_size()
    need = processes * estimate(stack, graph.num_nodes, graph.num_edges, size)
    if need > free:
        count = "" if processes == 1 else f" of {processes} processes"
        raise MisconfigurationException(
            f"a training{count} on the whole graph, {graph.num_nodes:,} nodes and "
            f"{graph.num_edges:,} edges, needs "
            f"about {need / GB:.3g} GB of memory for {len(stack.layers)} layers, and "
            f"{free / GB:.3g} GB are free.\n"
            "Train on parts of the graph: --data MiniBatches --data.source DATA --data.parts 50; "
            "or keep fewer "
            "activations: --model.checkpoint_every sqrt, or --model.reversible 2 --model.skip "
            "residual.\n"
            "If the estimate is wrong, set the gigabytes it may take: "
            f"{VARIABLE}={math.ceil(need / GB)}, or inf."
        )


def check_weights(
    in_channels: Any, num_classes: int, num_layers: NumLayers = 2, **stack_options: Any
) -> None:
    """Refuse a stack whose parameters would not fit into memory, before they are allocated.

    The parameters of stacks with two and three layers, on the meta device, tell those of any depth.
    """
    few = [min(num_layers, depth) for depth in (2, 3)]
    try:
        with torch.device("meta"), torch.random.fork_rng([]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stacks = [
                DeepGNN(in_channels, num_classes, num_layers=depth, **stack_options)
                for depth in few
            ]
        two, three = (
            sum(weight.numel() * weight.element_size() for weight in stack.parameters())
            for stack in stacks
        )
        need: float = two + max(num_layers - 2, 0) * (three - two)
    except Exception as error:
        if "overflow" not in str(
            error
        ):  # anything else is raised again where the whole stack is built
            return
        need = math.inf
    free = _largest()
    if need > free:
        raise ValueError(
            f"the model's parameters need {need / GB:.3g} GB of memory, and {free / GB:.3g} GB are "
            "free. Use a smaller "
            "hidden_channels, num_layers or number of heads."
        )


def check_processes(trainer: L.Trainer) -> None:
    """Refuse more processes on a CPU than its memory has room for; each imports all libraries."""
    need, free = trainer.num_devices * OF_PROCESS, _largest()
    if trainer.strategy.root_device.type == "cpu" and trainer.num_devices > 1 and need > free:
        raise MisconfigurationException(
            f"trainer.devices {trainer.num_devices} processes need about {need / GB:.3g} GB of "
            "memory, and "
            f"{free / GB:.3g} GB are free; this machine has {os.cpu_count()} cores."
        )


def estimate(stack: DeepGNN, num_nodes: int, num_edges: int, size: int) -> int:
    """Estimate the peak bytes of a training step of an uncompiled stack, without the data, within a
    factor of 1.5.

    A number of the hidden states has ``size`` bytes.
    """
    edges = num_nodes + num_edges  # with self-loops
    layers = [layer for layer in stack.layers if isinstance(layer, Layer)]
    rounds = [
        size * _kept_by_block(stack, place, layer, num_nodes, edges)
        for place, layer in enumerate(layers)
    ]
    states = [size * num_nodes * layer.in_channels for layer in layers]
    every, widest = (
        stack.segment_length,
        max(max(layer.in_channels, layer.width) for layer in layers),
    )
    if stack.reversible:
        kept = 2 * stack.reversible * max(states) + max(rounds)
    elif every:
        kept = sum(states[::every]) + max(
            sum(rounds[start : start + every]) for start in range(0, len(rounds), every)
        )
    else:
        kept = sum(rounds)
    heads = max(layer.edge_heads for layer in layers)
    return kept + PASSING * size * num_nodes * widest + edges * (OF_EDGE + OF_EDGE_AND_HEAD * heads)


def _kept_by_block(stack: DeepGNN, place: int, layer: Layer, nodes: int, edges: int) -> int:
    """Number of values that a block keeps for the backward pass."""
    skip = stack.skips[place] if place < len(stack.skips) else None
    norms = len(list(stack.norms[place].children())) if place < len(stack.norms) else 0
    twice = stack.dropout > 0 or (skip is not None and skip.reads != "nothing")
    own = nodes * layer.in_channels * (2 if twice else 1) + norms * nodes * layer.width
    return own + layer.kept_numbers(nodes, edges)


def available(device: torch.device) -> float:
    """Free bytes of a device, or the value of the variable if it is set."""
    if given := os.environ.get(VARIABLE):
        try:
            return float(given) * GB
        except ValueError:
            raise MisconfigurationException(
                f"{VARIABLE} must be a number of gigabytes, or inf to check nothing, not {given!r}."
            ) from None
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + unused)
    return _free() if device.type == "cpu" else math.inf


def _largest() -> float:
    """Free bytes of the machine, or more if the variable says so."""
    return max(_free(), available(torch.device("cpu")))


def _free(
    meminfo: str = "/proc/meminfo",
    groups: str = "/proc/self/cgroup",
    mounted: str = "/sys/fs/cgroup",
) -> float:
    """Free bytes of this machine within the limits of the process's control groups; infinite where
    nothing says so.

    Args:
        meminfo: File with the machine's memory.
        groups: File with the groups of the process, one line ``number:controllers:path`` per
            hierarchy.
        mounted: Where they are mounted: version 2 here, each hierarchy of version 1 in a folder of
            its controllers.
    """
    free = [_lines(meminfo).get("MemAvailable:", math.inf) * 1024]
    for line in Path(groups).read_text().splitlines() if Path(groups).exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        limit, used = ("limit_in_bytes", "usage_in_bytes") if controllers else ("max", "current")
        inner = (
            () if ".." in path else Path(path).parts[1:]
        )  # in a container it may lead outside the mount
        for depth in range(len(inner) + 1):  # a limit holds for all groups inside
            group = Path(mounted, controllers, *inner[:depth])
            with contextlib.suppress(OSError, ValueError):  # no such group, or a limit of "max"
                left = int((group / f"memory.{limit}").read_text()) - int(
                    (group / f"memory.{used}").read_text()
                )
                # Cached file pages count as used, but are freed when memory is short. Version 1
                # lists those of inner groups apart.
                pages = _lines(group / "memory.stat")
                free.append(left + pages.get("total_inactive_file", pages.get("inactive_file", 0)))
    return min(free)


def _lines(path: str | Path) -> dict[str, int]:
    """The first word and the number of each line of a file; empty if there is none."""
    rows = (
        [line.split() for line in Path(path).read_text().splitlines()]
        if Path(path).exists()
        else []
    )
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}
