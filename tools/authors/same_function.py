"""Whether a network of the released code and ours are the same function: equal weights, equal
outputs and gradients.

::

    python -m tools.authors.same_function lipschitz LipschitzNorm

Both networks get the same random weights, in float64 and without dropout, and compute the loss of
Cora's training nodes, or of the nodes of some trees. Printed is the largest difference of the
outputs, and of the gradients of all weights, each relative to the largest entry of all. Training
noise plays no part, so this is stronger than equal accuracies: what remains are the initialisation,
the optimizer and the protocol.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gnn_depth import DeepGNN
from gnn_depth.data import Planetoid, TreeNeighborsMatch
from gnn_depth.data.base import NodeBatch
from tools.authors import balance, gcnii, lipschitz, trees
from tools.authors.released import run_script

WIDTH, HEADS, LAYERS = 16, 4, 4


def cora() -> NodeBatch:
    """Cora with raw features in float64."""
    batch = Planetoid("Cora", normalize_features=False).batch
    batch.x = batch.x.double()
    return batch


def difference(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """The largest difference, relative to the largest entry of all."""
    one = torch.cat([tensor.flatten() for tensor in ones])
    other = torch.cat([tensor.flatten() for tensor in others])
    return float((one - other).abs().max() / other.abs().max())


def compare(
    theirs: nn.Module,
    output: Callable[[nn.Module], Tensor],
    ours: DeepGNN,
    pairs: Mapping[str, tuple[str, Callable[[Tensor], Tensor]]],
    batch: NodeBatch,
) -> tuple[float, float]:
    """Copy their weights into ours, and compare log probabilities and gradients.

    Args:
        theirs: Their network.
        output: Computes its output, class scores or log probabilities.
        ours: Our network.
        pairs: For each of our parameters the name of theirs, and what maps theirs to ours.
        batch: The graph.
    """
    of_theirs = dict(theirs.named_parameters())
    of_ours = dict(ours.named_parameters())
    assert set(pairs) == set(of_ours), sorted(set(pairs) ^ set(of_ours))
    assert {name for name, _ in pairs.values()} == set(of_theirs)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in of_theirs.values():  # biases as well, which start at zero
            scale = parameter.shape[-1] ** -0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=draw))
        for name, (other, mapping) in pairs.items():
            of_ours[name].copy_(mapping(of_theirs[other]))
    results = []
    for network in (theirs, ours):
        network.eval()
        scores = output(theirs) if network is theirs else ours(batch.x, batch.graph)
        found = torch.log_softmax(scores, dim=1)
        loss = nn.functional.nll_loss(found[batch.train_mask], batch.y[batch.train_mask])
        loss.backward()
        results.append(found.detach())
    gradients_of_ours, gradients_of_theirs = [], []
    for name, (other, mapping) in pairs.items():
        of_their, of_our = of_theirs[other].grad, of_ours[name].grad
        assert of_their is not None
        assert of_our is not None
        gradients_of_ours.append(of_our)
        gradients_of_theirs.append(mapping(of_their))
    gradient = difference(gradients_of_ours, gradients_of_theirs)
    return difference([results[1]], [results[0]]), gradient


def same(tensor: Tensor) -> Tensor:
    return tensor


def linear(ours: str, theirs: str) -> dict[str, tuple[str, Callable[[Tensor], Tensor]]]:
    return {f"{ours}.{part}": (f"{theirs}.{part}", same) for part in ("weight", "bias")}


#: By network of LipschitzNorm's code the names of our parameters of a layer and of theirs.
LIPSCHITZ_PAIRS: dict[str, dict[str, tuple[str, Callable[[Tensor], Tensor]]]] = {
    "gat": {
        "lin.weight": ("lin_l.weight", same),
        "bias": ("bias", same),
        "att_src": ("att_l", lambda tensor: tensor[0]),
        "att_dst": ("att_r", lambda tensor: tensor[0]),
    },
    "transformer": linear("lin_query", "lin_query")
    | linear("lin_key", "lin_key")
    | linear("lin_value", "lin_value")
    | linear("lin_root", "lin_skip"),
}


def of_lipschitz(folder: Path) -> Iterator[tuple[str, float, float]]:
    """The GAT and the graph transformer (GT) without a norm, with LipschitzNorm and PairNorm."""
    batch = cora()
    features, classes = batch.x.shape[1], int(batch.y.max()) + 1
    released = {"name": "lipschitz", "form": "released"}
    pair = {"norm": "pair", "norm_after_skip": True}
    norms: dict[str, dict[str, dict[str, Any]]] = {
        "gat": {
            "none": {},
            "lipschitznorm": {"norm": released | {"per_head": False}},
            "lipschitznorm-si": {"norm": released},
            "pairnorm": pair,
        },
        "transformer": {"none": {}, "lipschitznorm": {"norm": released}, "pairnorm": pair},
    }
    theirs = {
        "gat": ("deepgat.py", "DeepGAT({features}, {width}, {classes}, {heads}, {layers}, {norm})"),
        "transformer": (
            "deepgt.py",
            "DeepGT({features}, {width}, {classes}, {layers}, {heads}, {norm})",
        ),
    }
    data = Data(x=batch.x, edge_index=batch.graph.edge_index)
    for name, (script, call) in theirs.items():
        pairs = linear("encoder", "lin") | linear("decoder", "fc1")
        for layer in range(LAYERS):
            for ours_of, (of_theirs, mapping) in LIPSCHITZ_PAIRS[name].items():
                of_layer = f"layers.{layer}.{of_theirs}"
                pairs[f"blocks.{layer}.layer.{ours_of}"] = (of_layer, mapping)
        for norm, options in norms[name].items():
            network = call.format(
                features=features,
                width=WIDTH,
                classes=classes,
                heads=HEADS,
                layers=LAYERS,
                norm=repr(norm),
            )
            more = f"import torch\nnetwork = {network}.double()\n"
            found = run_script(folder / "models" / script, [], folder, [], more, root=folder)
            ours = DeepGNN(
                features,
                classes,
                {"name": name, "heads": HEADS},
                LAYERS,
                WIDTH,
                activation="elu",
                **options,
            ).double()
            title = f"{name}, {norm}"
            yield title, *compare(found["network"], lambda one: one(data), ours, pairs, batch)


def of_gcnii(folder: Path) -> Iterator[tuple[str, float, float]]:
    """GCNII with the authors' alpha and lambda, and their normalised adjacency matrix."""
    import scipy.sparse as sp

    batch = cora()
    classes = int(batch.y.max()) + 1
    pairs = linear("encoder", "fcs.0") | linear("decoder", "fcs.1")
    for layer in range(LAYERS):
        pairs[f"blocks.{layer}.layer.lin.weight"] = (f"convs.{layer}.weight", lambda one: one.T)
    more = (
        "from utils import *\n"
        f"network = GCNII({batch.x.shape[1]}, {LAYERS}, {WIDTH}, {classes}, 0.6, 0.5, 0.1, False)\n"
    )
    found = run_script(folder / "model.py", [], folder, [], more)
    nodes = batch.graph.num_nodes
    source, target = batch.graph.edge_index.numpy()
    adjacency = sp.coo_matrix(([1.0] * len(source), (source, target)), (nodes, nodes))
    normalised = found["sys_normalized_adjacency"](adjacency)
    indices = torch.from_numpy(normalised.nonzero()[0]), torch.from_numpy(normalised.nonzero()[1])
    values = torch.from_numpy(normalised.tocsr()[normalised.nonzero()]).flatten()
    sparse = torch.sparse_coo_tensor(torch.stack(indices).long(), values, (nodes, nodes))
    network = found["network"].double()
    ours = DeepGNN(
        batch.x.shape[1],
        classes,
        "gcnii",
        LAYERS,
        WIDTH,
        first_activation=True,
        last_activation=True,
    ).double()
    yield "GCNII", *compare(network, lambda one: one(batch.x, sparse), ours, pairs, batch)


def of_trees(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Three networks on trees, with residual connections and LayerNorm; the class scores of all
    nodes are compared, with a bias that theirs lack."""
    trees_of_data = TreeNeighborsMatch(3, batch_size=16)
    trees_of_data.prepare_data()
    few = next(iter(trees_of_data.train_dataloader()))
    classes = trees_of_data.num_classes + 1  # as theirs count them
    draw = torch.Generator().manual_seed(1)
    nodes = len(few.x)
    everywhere = torch.ones(nodes, dtype=torch.bool)
    y = torch.randint(classes, (nodes,), generator=draw)
    batch = NodeBatch(few.x, y, few.graph, everywhere, everywhere, everywhere)
    data = Data(x=few.x.long(), edge_index=few.graph.edge_index, root_mask=everywhere)
    pairs_of: dict[str, dict[str, tuple[str, Callable[[Tensor], Tensor]]]] = {
        "GAT": {
            "lin.weight": ("lin.weight", same),
            "bias": ("bias", same),
            "att_src": ("att_src", lambda one: one[0]),
            "att_dst": ("att_dst", lambda one: one[0]),
        },
        "GCN": {"lin.weight": ("lin.weight", same), "bias": ("bias", same)},
        "GGNN": {"lin.weight": ("weight", lambda one: one[0])},
    }
    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        pairs_of["GGNN"][f"gru.{part}"] = (f"rnn.{part}", same)
    layers: dict[str, Any] = {
        "GAT": {"name": "gat", "heads": HEADS, "split_heads": True},
        "GCN": "gcn",
        "GGNN": "ggnn",
    }
    for kind, layer in layers.items():
        # GGNN has neither, as in their scripts.
        has_activation = has_residual = kind != "GGNN"
        more = (
            "from common import GNN_TYPE\n"
            f"network = GraphModel(GNN_TYPE.{kind}, {LAYERS}, {classes - 1}, {WIDTH}, "
            f"{classes - 1}, False, False, True, {has_activation}, {has_residual}).double()\n"
        )
        network = run_script(folder / "experiment.py", [], folder, [], more)["network"]
        _join_tables(network, classes)
        skip, activation = ("residual", "relu") if has_residual else ("none", "identity")
        ours = DeepGNN(
            trees_of_data.num_features,
            classes,
            layer,
            LAYERS,
            WIDTH,
            encoder="embedding",
            activation=activation,
            skip=skip,
            norm="layer",
            norm_after_skip=True,
            last_activation=has_activation,
        ).double()
        pairs = linear("decoder", "out_layer") | {"encoder.weight": ("table", same)}
        for number in range(LAYERS):
            block = f"blocks.{number}"
            norm = next(name for name in ours.state_dict() if f"{block}.norms" in name)
            pairs |= linear(norm.removesuffix(".weight"), f"layer_norms.{number}")
            for one, (other, mapping) in pairs_of[kind].items():
                pairs[f"{block}.layer.{one}"] = (f"layers.{number}.{other}", mapping)
        yield kind, *compare(network, lambda one: one(data), ours, pairs, batch)


def _join_tables(network: nn.Module, classes: int) -> None:
    """One table for both columns of the features, as ours has it, and a bias of the scores."""
    table = torch.empty(2 * classes, WIDTH, dtype=torch.float64)
    network.table = nn.Parameter(table)
    del network.layer0_keys, network.layer0_values
    network.layer0_keys = lambda key: network.table[key]
    network.layer0_values = lambda value: network.table[classes + value]
    network.out_layer = nn.Linear(WIDTH, classes).double()


def of_balance(folder: Path) -> Iterator[tuple[str, float, float]]:
    """GATv2 with shared weights, and with unshared ones."""
    batch = cora()
    classes = int(batch.y.max()) + 1
    found = run_script(
        folder / "Code" / "runExpPlatenoid.py",
        [],
        folder,
        [("getAttnCoef=False", "getAttnCoef=True")],
        until="expSetting = pd.read_csv",
    )
    dims = [batch.x.shape[1], *[WIDTH] * (LAYERS - 1), classes]
    edges = batch.graph.edge_index
    concat = [True] * (LAYERS - 1) + [False]
    for shared in (True, False):
        network = found["GATv2"](LAYERS, dims, [1] * (LAYERS + 1), concat, shared).double()
        pairs = {}
        for layer in range(LAYERS):
            ours, theirs = f"blocks.{layer}.layer", f"GATv2Convs.{layer}"
            pairs[f"{ours}.lin_src.weight"] = (f"{theirs}.lin_l.weight", same)
            pairs[f"{ours}.att"] = (f"{theirs}.att", lambda tensor: tensor[0])
            if not shared:
                pairs[f"{ours}.lin_dst.weight"] = (f"{theirs}.lin_r.weight", same)
        layer_options = {"name": "gatv2", "share_weights": shared, "bias": False}
        ours = DeepGNN(
            batch.x.shape[1],
            classes,
            layer_options,
            LAYERS,
            WIDTH,
            encoder="none",
            decoder="none",
        ).double()
        name = "GATv2" if shared else "GATv2, unshared weights"
        yield name, *compare(network, lambda one: one(batch.x, edges, True)[0], ours, pairs, batch)


CODE = {
    "lipschitz": (lipschitz.RELEASED, of_lipschitz),
    "balance": (balance.RELEASED, of_balance),
    "gcnii": (gcnii.RELEASED, of_gcnii),
    "trees": (trees.RELEASED, of_trees),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.authors.same_function",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("code", choices=list(CODE))
    parser.add_argument("folder", type=Path, help="a clone of the repository")
    given = parser.parse_args()
    released, comparisons = CODE[given.code]
    if "GNN_DEPTH_DATA" not in os.environ:
        parser.error("set GNN_DEPTH_DATA to the folder with the data.")
    released.check(given.folder)
    for name, output, gradient in comparisons(given.folder.resolve()):
        print(f"{released.name}, {name}: outputs {output:.1e}, gradients {gradient:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
