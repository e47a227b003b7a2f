"""Train stacks on shards of a graph in several processes; run by tests/test_shards.py."""

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


def case(layer="gcn", norm=(), skip="none", **more):
    return {"layer": layer, "norm": norm, "skip": skip, **more}


def attention(name, **more):
    return {"name": name, "heads": 2, "dropout": 0.4, **more}


def dropped(name):
    return {"name": name, "p": 0.3}


# Per channel, rounding errors of 1e-15 in the features of one process grow to 4 within 20 steps.
NEIGHBOR = {"name": "neighbor", "per_channel": False}
RANDOM = case(skip="residual", dropout=0.3, outer_dropout=0.2)
ATTENDING = case(attention("gat"), ["lipschitz", "layer"], dropout=0.2)
CASES = [
    RANDOM,
    ATTENDING,
    case({"name": "gcn", "root_weight": True}, "batch", "gated"),
    case("sage", "pair", "rezero", outer_dropout=0.2),
    case({"name": "gin", "batch_norm": True}, "pair_si", "layer_scale"),
    case(attention("gatv2"), ["lipschitz", "graph"], "initial_residual"),
    case(attention("transformer"), ["lipschitz", "group"], "dense"),
    case(attention("omega_gat"), NEIGHBOR),
    case("ggnn", "mean"),
    case("gcnii", "node"),
    case(norm="weight", jump="cat"),
    case(norm="spectral"),
    case("sage", "weight_frobenius", jump="max"),
    case(attention("gat"), graph_dropout=dropped("drop_edge")),
    case(norm="none", graph_dropout=dropped("drop_node")),
    case("gat", "batch", checkpoint_every=2, dropout=0.2),
    case(skip="residual", reversible=2, dropout=0.2),
    case("acm", skip="linear"),
    case("antisymmetric", skip="adaptive_initial"),
    case({"name": "gate", "heads": 2}, skip="graphcon"),
    case("mean", skip={"name": "ordered", "chunks": 2}),
    case({"name": "reaction", "reaction": "source"}, skip="feed_forward"),
    case(skip="gated_local"),
    case(graph_dropout=dropped("drop_sens")),
    case(attention("gat", root_weight=True), graph_dropout=dropped("drop_message")),
    case("gat", encoder="none", decoder="none"),
]


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
    graph = Graph(edges, NODES, edge_weight=weight)
    return NodeBatch(x, y, graph, train, ~train, torch.zeros_like(train))


def train(batch: NodeBatch, options: dict, group: object = None) -> dict[str, list | int]:
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
    numbers = [torch.tensor(losses), *(gradient.cpu() for gradient in gradients), *state]
    return {"numbers": numbers, "bytes": getattr(graph, "bytes_sent", 0)}


def difference(batch: NodeBatch, assigned: Tensor, options: dict, group: object) -> float:
    """The largest error of a training of several processes, relative to the largest number of each
    tensor, or to 1e-6 where that is smaller; in the first process."""
    found = train(shard_batch(batch, assigned, group), options, group)["numbers"]
    if dist.get_rank():
        return 0.0
    pairs = zip(found, train(batch, options)["numbers"], strict=True)
    return max(
        ((a - b).abs().max() / b.abs().max().clamp_min(1e-6)).item() for a, b in pairs if a.numel()
    )


def main(folder: Path, processes: int, rank: int) -> None:
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.device_count() >= processes else "gloo"
    meet = f"file://{folder}/meet"
    dist.init_process_group(backend, init_method=meet, rank=rank, world_size=processes)
    groups = {count: dist.new_group(list(range(count))) for count in range(2, processes + 1)}
    whole, halves = graph_batch(), contiguous(NODES, 2)
    uneven = torch.randint(0, 4, (NODES,), generator=torch.Generator().manual_seed(5))
    uneven[uneven == 1] = 0
    uneven[30] = 1  # a process with one node, which is not trained on
    assigned = {2: halves, 3: metis(whole.graph, 3), 4: uneven}
    found: dict[str, object] = {}
    for count, group in groups.items():
        if rank >= count:
            continue
        # Three and four processes take a third of the cases each.
        for options in CASES if count == 2 else CASES[count - 3 :: 3]:
            error = difference(whole, assigned[count], options, group)
            found[f"{count} processes: {options}"] = error
    extra: dict[str, object] = {}
    if rank < 2:
        group = groups[2]
        weighted, narrow = graph_batch(weighted=True), graph_batch(torch.float32)
        found["2 processes: edge weights"] = difference(weighted, halves, RANDOM, group)
        extra["float32"] = difference(narrow, halves, ATTENDING, group)
        plain = shard_batch(whole, halves, group)
        extra["bytes"] = train(plain, {"layer": "sage"}, group)["bytes"]
        extra["halo"] = plain.graph.num_sources - plain.graph.num_nodes
    torch.save({"differences": found, **extra}, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
