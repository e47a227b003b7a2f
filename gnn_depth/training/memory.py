"""Estimate whether a training on the whole graph fits into memory, before it is allocated."""

import contextlib
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth.data.base import GraphDataModule, NodeDataModule, Repeated
from gnn_depth.nn.parts import AttentionLayer, Layer
from gnn_depth.nn.scores import LinearScore
from gnn_depth.nn.stack import DeepGNN, NumLayers
from gnn_depth.nn.variants.inverse import ITERATIONS

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
    if not isinstance(data, NodeDataModule):
        return
    every_batch: Repeated | None = getattr(data.train_dataloader(), "repeated", None)
    if every_batch is None:  # batches are parts of the graph
        return
    graph, device = every_batch.graph, trainer.strategy.root_device
    free = free_bytes(device)
    processes, who = 1, "a training"
    if device.type == "cpu":  # processes share its memory; each GPU has its own
        processes = trainer.num_devices
    if processes > 1:
        who = f"a training of {processes} processes"
    size = CONVERTED.get(str(trainer.precision)) or next(stack.parameters()).element_size()
    need = processes * estimate(stack, graph.num_nodes, graph.num_edges, size)
    if need > free:
        raise MisconfigurationException(
            f"{who} on the whole graph, {graph.num_nodes:,} nodes and "
            f"{graph.num_edges:,} edges, needs about {need / GB:.3g} GB of memory for "
            f"{len(stack.layers)} layers, and {free / GB:.3g} GB are free.\n"
            "Train on parts of the graph: --data MiniBatches --data.source DATA --data.parts 50; "
            "or keep fewer activations: --model.checkpoint_every sqrt, or --model.reversible 2 "
            "--model.skip residual.\n"
            "If the estimate is wrong, set the gigabytes it may take: "
            f"{VARIABLE}={math.ceil(need / GB)}, or inf."
        )


def check_weights(
    in_channels: int | Sequence[int],
    num_classes: int,
    num_layers: NumLayers = 2,
    **stack_options: Any,
) -> None:
    """Refuse a stack whose parameters would not fit into memory, before they are allocated.

    The parameters of stacks with two and three layers, on the meta device, tell those of any depth.
    """
    sizes = []
    try:
        with torch.device("meta"), torch.random.fork_rng([]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for depth in (min(num_layers, 2), min(num_layers, 3)):
                stack = DeepGNN(in_channels, num_classes, num_layers=depth, **stack_options)
                weights = stack.parameters()
                # The meta device allocates nothing.
                sizes.append(sum(weight.numel() * weight.element_size() for weight in weights))
        two, three = sizes
        need: float = two + max(num_layers - 2, 0) * (three - two)
    except Exception as error:
        # Anything else is raised again where the whole stack is built.
        if "overflow" not in str(error):
            return
        need = math.inf
    free = _largest()
    if need > free:
        raise ValueError(
            f"the model's parameters need {need / GB:.3g} GB of memory, and {free / GB:.3g} GB are "
            "free. Use a smaller hidden_channels, num_layers or number of heads."
        )


def check_processes(trainer: L.Trainer) -> None:
    """Refuse more processes on a CPU than its memory has room for; each imports all libraries."""
    need, free = trainer.num_devices * OF_PROCESS, _largest()
    if trainer.strategy.root_device.type == "cpu" and trainer.num_devices > 1 and need > free:
        raise MisconfigurationException(
            f"trainer.devices {trainer.num_devices} processes need about {need / GB:.3g} GB of "
            f"memory, and {free / GB:.3g} GB are free; this machine has {os.cpu_count()} cores."
        )


def estimate(stack: DeepGNN, num_nodes: int, num_edges: int, size: int) -> int:
    """Estimate the peak bytes of a training step of an uncompiled stack, without the data.

    The estimate is right within a factor of 1.5. A number of the hidden states has ``size`` bytes.
    """
    edges = num_nodes + num_edges  # with self-loops
    rounds, states, widths, heads = [], [], [], [0]
    for position, layer in enumerate(stack.layers):
        assert isinstance(layer, Layer)
        rounds.append(size * _kept_by_block(stack, position, layer, num_nodes, edges))
        states.append(size * num_nodes * layer.in_channels)
        widths += [layer.in_channels, layer.width]
        if isinstance(layer, AttentionLayer):
            heads.append(layer.heads)
    every = stack.segment_length
    if stack.reversible:  # the first and the last state, and one block that is recomputed
        kept = 2 * stack.reversible * max(states) + max(rounds)
    elif every:
        # The inputs of all segments, and the activations of the largest one.
        largest = 0
        for start in range(0, len(rounds), every):
            largest = max(largest, sum(rounds[start : start + every]))
        kept = sum(states[::every]) + largest
    else:
        kept = sum(rounds) + stack.inverse_steps * ITERATIONS * max(rounds)
    passing = PASSING * size * num_nodes * max(widths)
    return kept + passing + edges * (OF_EDGE + OF_EDGE_AND_HEAD * max(heads))


def _kept_by_block(stack: DeepGNN, position: int, layer: Layer, nodes: int, edges: int) -> int:
    """Number of values that a block keeps for the backward pass."""
    copies, norms = 1, 0  # of the block's input
    # Dropout gives the layer a copy, and a skip connection keeps the input itself.
    if stack.dropout > 0:
        copies = 2
    if position < len(stack.skips):
        norms = len(list(stack.norms[position].children()))
        if stack.skips[position].reads != "nothing":
            copies = 2
    own = copies * nodes * layer.in_channels + norms * nodes * layer.width
    return own + kept_by_layer(layer, nodes, edges)


def kept_by_layer(layer: Layer, nodes: int, edges: int) -> int:
    """Number of values that a layer keeps for the backward pass besides its input.

    These are the outputs of its linear maps. Only attention keeps that of the last one too, because
    sums with fixed weights keep nothing. Attention also keeps its scores, before and after each
    norm. Edges include self-loops.
    """
    outputs = 0
    for name, weight in layer.named_parameters():
        if weight.dim() == 2 and name.rpartition(".")[2].startswith("weight"):
            outputs += weight.shape[0]
    if not isinstance(layer, AttentionLayer):
        return nodes * max(outputs - layer.width, 0)
    scores = 2 + len(layer.score_norms)
    if getattr(layer, "dropout", 0) > 0:
        scores += 1
    of_edge = scores * layer.heads
    if layer.edge_channels and layer.score is not LinearScore:
        of_edge += 2 * layer.width  # these scores are made of a tensor of edges x width
    return nodes * outputs + edges * of_edge


def free_bytes(device: torch.device) -> float:
    """Free bytes of a device, or the value of the variable if it is set."""
    given = os.environ.get(VARIABLE)
    if given:
        try:
            return float(given) * GB
        except ValueError:
            raise MisconfigurationException(
                f"{VARIABLE} must be a number of gigabytes, or inf to check nothing, not {given!r}."
            ) from None
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + unused)
    if device.type == "cpu":
        return _free()
    return math.inf  # torch does not say it of other devices


def _largest() -> float:
    """Free bytes of the machine, or more if the variable says so."""
    return max(_free(), free_bytes(torch.device("cpu")))


def _free(
    meminfo: str = "/proc/meminfo",
    groups: str = "/proc/self/cgroup",
    mounted: str = "/sys/fs/cgroup",
) -> float:
    """Free bytes of this machine within the limits of the process's control groups.

    Infinite where nothing says so.

    Args:
        meminfo: File with the machine's memory.
        groups: File with the groups of the process, one line ``number:controllers:path`` per
            hierarchy.
        mounted: Where they are mounted: version 2 here, each hierarchy of version 1 in a folder of
            its controllers.
    """
    free = [_numbers(meminfo).get("MemAvailable:", math.inf) * 1024]
    for line in _read_lines(groups):
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            limit, used = "memory.max", "memory.current"
        elif controllers == "memory":
            limit, used = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inner = Path(path).parts[1:]
        if ".." in path:  # in a container it may lead outside the mount
            inner = ()
        for depth in range(len(inner) + 1):  # a limit holds for all groups inside
            group = Path(mounted, controllers, *inner[:depth])
            with contextlib.suppress(OSError, ValueError):  # no such group, or a limit of "max"
                left = int((group / limit).read_text()) - int((group / used).read_text())
                # Cached file pages count as used, but are freed when memory is short. Version 1
                # lists those of inner groups apart.
                pages = _numbers(group / "memory.stat")
                free.append(left + pages.get("total_inactive_file", pages.get("inactive_file", 0)))
    return min(free)


def _read_lines(path: str | Path) -> list[str]:
    """The lines of a file; none if there is no file."""
    if not Path(path).exists():
        return []
    return Path(path).read_text().splitlines()


def _numbers(path: str | Path) -> dict[str, int]:
    """The number that follows the first word of each line of a file."""
    found = {}
    for line in _read_lines(path):
        words = line.split()
        if len(words) > 1 and words[1].isdigit():
            found[words[0]] = int(words[1])
    return found
