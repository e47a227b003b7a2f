"""Train stacks on shards of a graph in several processes; run by tests/test_shards.py."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.shards import contiguous, metis, shard_batch
from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN

NODES, LAYERS, WIDTH = 41, 3, 8
STEPS = 1

GAT = {"name": "gat", "heads": 2, "dropout": 0.4}
CASES = {
    "gcn, residual, dropout": {
        "layer": "gcn",
        "skip": "residual",
        "dropout": 0.3,
        "outer_dropout": 0.2,
    },
    "gcn with roots, batch norm": {
        "layer": {"name": "gcn", "root_weight": True},
        "norm": "batch",
        "skip": "gated",
    },
    "sage, pair norm": {"layer": "sage", "norm": "pair", "outer_dropout": 0.2, "skip": "rezero"},
    "gin, batch norm inside": {
        "layer": {"name": "gin", "batch_norm": True},
        "norm": "pair_si",
        "skip": "layer_scale",
    },
    "gat, two norms": {
        "layer": GAT,
        "norm": ["lipschitz", "layer"],
        "dropout": 0.2,
        "skip": "none",
    },
    "gatv2, graph norm": {
        "layer": GAT | {"name": "gatv2"},
        "norm": ["lipschitz", "graph"],
        "skip": "initial_residual",
    },
    "transformer, group norm": {
        "layer": GAT | {"name": "transformer"},
        "norm": ["lipschitz", "group"],
        "skip": "dense",
    },
    # Per channel, rounding errors of 1e-15 in the features of one process grow to 4 within 20
    # steps.
    "omega_gat, neighbour norm": {
        "layer": GAT | {"name": "omega_gat"},
        "norm": {"name": "neighbor", "per_channel": False},
    },
    "ggnn, mean norm": {"layer": "ggnn", "norm": "mean"},
    "gcnii, node norm": {"layer": "gcnii", "norm": "node"},
    "weights, jumps": {"layer": "gcn", "jump": "cat", "norm": "weight"},
    "spectral norm of whole layers": {
        "layer": "gcn",
        "norm": {"name": "spectral", "whole_layer": True},
    },
    "spectral norm of attention": {
        "layer": GAT,
        "norm": ["lipschitz", {"name": "spectral", "whole_layer": True}],
    },
    "frobenius norm": {"layer": "sage", "norm": "weight_frobenius", "jump": "max"},
    "dropped edges": {"layer": GAT, "graph_dropout": {"name": "drop_edge", "p": 0.3}},
    "dropped nodes": {
        "layer": "gcn",
        "graph_dropout": {"name": "drop_node", "p": 0.3},
        "norm": "none",
    },
    "checkpointed": {"layer": "gat", "norm": "batch", "checkpoint_every": 2, "dropout": 0.2},
    "reversible": {"layer": "gcn", "skip": "residual", "reversible": 2, "dropout": 0.2},
    "acm, linear residual": {"layer": "acm", "skip": "linear"},
    "antisymmetric, adaptive": {"layer": "antisymmetric", "skip": "adaptive_initial"},
    "gate, oscillators": {"layer": {"name": "gate", "heads": 2}, "skip": "graphcon"},
    "mean, ordered": {"layer": "mean", "skip": {"name": "ordered", "chunks": 2}},
    "reaction, feed forward": {
        "layer": {"name": "reaction", "reaction": "source"},
        "skip": "feed_forward",
    },
    "gated local": {"layer": "gcn", "skip": "gated_local"},
    "dropped by degree": {"layer": "gcn", "graph_dropout": {"name": "drop_sens", "p": 0.3}},
    "dropped entries of messages": {
        "layer": GAT | {"root_weight": True},
        "graph_dropout": {"name": "drop_message", "p": 0.3},
    },
    "no encoder, no decoder": {"layer": "gat", "encoder": "none", "decoder": "none"},
}


@dataclass
class Trained:
    losses: list[float]
    gradients: list[Tensor]
    weights: list[Tensor]
    bytes_sent: int


def graph_batch(dtype: torch.dtype = torch.float64, weighted: bool = False) -> NodeBatch:
    """A directed graph with self-loops, repeated edges and isolated nodes; only early nodes are
    trained on."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NODES - 3, (2, 150), generator=generator)
    edges = torch.cat([edges, edges[:, :5]], 1)
    weight = torch.rand(155, generator=generator, dtype=dtype) if weighted else None
    x = torch.randn(NODES, 6, generator=generator, dtype=dtype)
    y = torch.randint(0, 3, (NODES,), generator=generator)
    train = torch.arange(NODES) < 9
    return NodeBatch(
        x, y, Graph(edges, NODES, edge_weight=weight), train, ~train, torch.zeros_like(train)
    )


def train(batch: NodeBatch, options: dict, group: object = None) -> Trained:
    on_gpus = torch.cuda.device_count() >= dist.get_world_size()
    batch = batch.to(torch.device("cuda", dist.get_rank()) if on_gpus else "cpu")
    torch.manual_seed(0)
    torch.set_default_dtype(batch.x.dtype)
    stack = DeepGNN(6, 3, num_layers=LAYERS, hidden_channels=WIDTH, **options).to(batch.x.device)
    optimizer = torch.optim.SGD(stack.parameters(), lr=0.05)
    graph, rows, losses = batch.graph, batch.train_mask.nonzero().flatten(), []
    count = graph.all_reduce(torch.tensor(len(rows), device=rows.device))
    torch.manual_seed(1)
    for _ in range(STEPS):
        loss = F.cross_entropy(stack(batch.x, graph)[rows], batch.y[rows], reduction="sum") / count
        optimizer.zero_grad()
        loss.backward()
        gradients = [weight.grad for weight in stack.parameters() if weight.grad is not None]
        if graph.is_shard:
            together = parameters_to_vector(gradients)  # one message in place of one for each
            dist.all_reduce(together, group=group)
            vector_to_parameters(together, gradients)
        optimizer.step()
        losses.append(graph.all_reduce(loss.detach()).item())
    state = [weight.detach().cpu() for weight in (*stack.parameters(), *stack.buffers())]
    return Trained(
        losses, [gradient.cpu() for gradient in gradients], state, getattr(graph, "bytes_sent", 0)
    )


def difference(found: Trained, expected: Trained) -> float:
    """The largest error, relative to the largest number of each tensor, or to 1e-6 where that is
    smaller."""
    pairs = [
        *zip(found.gradients, expected.gradients, strict=True),
        *zip(found.weights, expected.weights, strict=True),
    ]
    errors = [
        ((a - b).abs().max() / b.abs().max().clamp_min(1e-6)).item() for a, b in pairs if a.numel()
    ]
    return max(
        errors + [abs(a / b - 1) for a, b in zip(found.losses, expected.losses, strict=True)]
    )


def main(folder: Path, processes: int, rank: int) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.device_count() >= processes else "gloo"
    dist.init_process_group(
        backend, init_method=f"file://{folder}/meet", rank=rank, world_size=processes
    )
    groups = {count: dist.new_group(list(range(count))) for count in range(2, processes + 1)}
    whole = graph_batch()
    expected = {}
    if rank == 0:
        expected = {name: train(whole, options) for name, options in CASES.items()}
    found: dict[str, float] = {}
    for count, group in groups.items():
        if rank >= count:
            continue
        uneven = torch.randint(0, count, (NODES,), generator=torch.Generator().manual_seed(5))
        uneven[uneven == 1] = 0
        uneven[30] = 1  # a process with one node, which is not trained on
        chosen = list(CASES.items())
        if count > 2:  # three and four processes take a third of the cases each
            chosen = chosen[count - 3 :: 3]
        for name, options in chosen:
            assigned = (
                contiguous(NODES, count)
                if count == 2
                else metis(whole.graph, 3)
                if count == 3
                else uneven
            )
            trained = train(shard_batch(whole, assigned, group), options, group)
            if rank == 0:
                found[f"{count} processes: {name}"] = difference(trained, expected[name])
    extra: dict[str, object] = {}
    group = groups[2]
    if rank < 2:
        weighted = graph_batch(weighted=True)
        shard = shard_batch(weighted, contiguous(NODES, 2), group)
        trained = train(shard, CASES["gcn, residual, dropout"], group)
        single = graph_batch(torch.float32)
        narrow = train(
            shard_batch(single, contiguous(NODES, 2), group), CASES["gat, two norms"], group
        )
        if rank == 0:
            found["2 processes: edge weights"] = difference(
                trained, train(weighted, CASES["gcn, residual, dropout"])
            )
            extra["float32"] = difference(narrow, train(single, CASES["gat, two norms"]))
        plain = shard_batch(whole, contiguous(NODES, 2), group)
        extra["bytes"] = train(plain, {"layer": "sage"}, group).bytes_sent
        extra["halo"] = plain.graph.num_sources - plain.graph.num_nodes
    torch.save({"differences": found, **extra}, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
