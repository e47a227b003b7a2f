"""Compare a network of the released code with ours: equal weights must give equal outputs and
gradients.

::

    python -m tools.authors.same_function lipschitz LipschitzNorm

Both networks get the same random weights, in float64 and without dropout, and compute the loss of
Cora's training nodes, or of the nodes of some trees. It prints the largest difference of the
outputs, and of the gradients of all weights, each relative to the largest entry of all. Training
noise plays no part, so this is stronger than equal accuracies: what remains are the initialisation,
the optimizer and the protocol.
"""

import argparse
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gnn_depth import DeepGNN
from gnn_depth.data import NodeBatch, Planetoid, TreeNeighborsMatch
from tools.authors import balance, gcnii, lipschitz, trees
from tools.authors.released import run_script

WIDTH, HEADS, LAYERS = 16, 4, 4


def compare(
    theirs: nn.Module,
    inputs: Sequence[Any],
    ours: DeepGNN,
    names: Mapping[str, str],
    batch: NodeBatch,
    transposed: Collection[str] = (),
) -> tuple[float, float]:
    """Copy their weights into ours, and compare log probabilities and gradients.

    Args:
        theirs: Their network, which gives class scores or log probabilities, perhaps first of
            several results.
        inputs: What it is called with.
        ours: Our network.
        names: For each of our parameters the name of theirs, which may have axes of size one more.
        batch: The graph.
        transposed: Those of our parameters that are a matrix of theirs transposed.
    """
    of_theirs = dict(theirs.double().named_parameters())
    of_ours = dict(ours.double().named_parameters())
    assert set(names) == set(of_ours), sorted(set(names) ^ set(of_ours))
    assert set(names.values()) == set(of_theirs)

    def as_ours(name: str, value: Tensor) -> Tensor:
        if name in transposed:
            value = value.T
        return value.reshape(of_ours[name].shape)

    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in of_theirs.values():  # biases as well, which start at zero
            scale = parameter.shape[-1] ** -0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=draw))
        for name, parameter in of_ours.items():
            parameter.copy_(as_ours(name, of_theirs[names[name]]))
    results = []
    for network, given in ((theirs, inputs), (ours, (batch.x, batch.graph))):
        scores = network.eval()(*given)
        if isinstance(scores, tuple):
            scores = scores[0]
        found = torch.log_softmax(scores, dim=1)
        nn.functional.nll_loss(found[batch.train_mask], batch.y[batch.train_mask]).backward()
        results.append(found.detach())
    gradients_of_ours, gradients_of_theirs = [], []
    for name, parameter in of_ours.items():
        gradients_of_ours.append(parameter.grad.flatten())
        gradients_of_theirs.append(as_ours(name, of_theirs[names[name]].grad).flatten())
    gradient = difference(torch.cat(gradients_of_ours), torch.cat(gradients_of_theirs))
    return difference(results[1], results[0]), gradient


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to the largest entry of all."""
    return float((one - other).abs().max() / other.abs().max())


def linear(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")}


def in_layers(theirs: str, of_layer: Mapping[str, str]) -> dict[str, str]:
    """The names of the parameters of all layers, from those of one."""
    found = {}
    for number in range(LAYERS):
        for one, other in of_layer.items():
            found[f"blocks.{number}.layer.{one}"] = f"{theirs}.{number}.{other}"
    return found


def cora() -> tuple[NodeBatch, int, int]:
    """Cora with raw features in float64, and the numbers of its features and classes."""
    batch = Planetoid("Cora", normalize_features=False).batch
    batch.x = batch.x.double()
    return batch, batch.x.shape[1], int(batch.y.max()) + 1


Compared = Iterator[tuple[str, float, float]]  # name, differences of outputs and of gradients


def of_lipschitz(folder: Path) -> Compared:
    """The GAT and the graph transformer (GT) without a norm, with LipschitzNorm and PairNorm."""
    batch, features, classes = cora()
    released = {"name": "lipschitz", "form": "released"}
    norms = {
        "none": {},
        "lipschitznorm": {"norm": released},
        "pairnorm": {"norm": "pair", "norm_after_skip": True},
    }
    gat_norms = norms | {
        "lipschitznorm": {"norm": released | {"per_head": False}},
        "lipschitznorm-si": {"norm": released},
    }
    gat = {"lin.weight": "lin_l.weight", "bias": "bias", "att_src": "att_l", "att_dst": "att_r"}
    transformer = linear("lin_root", "lin_skip")
    for name in ("lin_query", "lin_key", "lin_value"):
        transformer |= linear(name, name)
    networks = [
        ("gat", "deepgat.py", "DeepGAT", (HEADS, LAYERS), gat, gat_norms),
        ("transformer", "deepgt.py", "DeepGT", (LAYERS, HEADS), transformer, norms),
    ]
    data = Data(x=batch.x, edge_index=batch.graph.edge_index)
    for name, script, network, sizes, of_layer, with_norms in networks:
        found = run_script(folder, f"models/{script}", folder)
        names = linear("encoder", "lin") | linear("decoder", "fc1") | in_layers("layers", of_layer)
        for norm, options in with_norms.items():
            theirs = found[network](features, WIDTH, classes, *sizes, norm)
            layer_options = {"name": name, "heads": HEADS}
            ours = DeepGNN(
                features, classes, layer_options, LAYERS, WIDTH, activation="elu", **options
            )
            yield f"{name}, {norm}", *compare(theirs, [data], ours, names, batch)


def of_gcnii(folder: Path) -> Compared:
    """GCNII with the authors' alpha and lambda, and their normalised adjacency matrix."""
    batch, features, classes = cora()
    names = linear("encoder", "fcs.0") | linear("decoder", "fcs.1")
    convolutions = in_layers("convs", {"lin.weight": "weight"})
    found = run_script(folder, "model.py", folder, more="from utils import *")
    nodes = batch.graph.num_nodes
    source, target = batch.graph.edge_index.numpy()
    adjacency = found["sp"].coo_matrix(([1.0] * len(source), (source, target)), (nodes, nodes))
    normalised = found["sys_normalized_adjacency"](adjacency)
    sparse = torch.from_numpy(normalised.toarray()).to_sparse()
    theirs = found["GCNII"](features, LAYERS, WIDTH, classes, 0.6, 0.5, 0.1, False)
    ours = DeepGNN(
        features, classes, "gcnii", LAYERS, WIDTH, first_activation=True, last_activation=True
    )
    inputs = batch.x, sparse
    yield "GCNII", *compare(theirs, inputs, ours, names | convolutions, batch, convolutions)


def of_trees(folder: Path) -> Compared:
    """Three networks on trees, with residual connections and LayerNorm; the class scores of all
    nodes are compared, with a bias that theirs lack."""
    data_set = TreeNeighborsMatch(3, batch_size=16)
    data_set.prepare_data()
    few = next(iter(data_set.train_dataloader()))
    classes = data_set.num_classes + 1  # as theirs count them
    everywhere = torch.ones(len(few.x), dtype=torch.bool)
    y = torch.randint(classes, (len(few.x),), generator=torch.Generator().manual_seed(1))
    batch = NodeBatch(few.x, y, few.graph, everywhere, everywhere, everywhere)
    data = Data(x=few.x.long(), edge_index=few.graph.edge_index, root_mask=everywhere)
    gcn = {"lin.weight": "lin.weight", "bias": "bias"}
    ggnn = {"lin.weight": "weight"}
    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        ggnn[f"gru.{part}"] = f"rnn.{part}"
    gat = gcn | {"att_src": "att_src", "att_dst": "att_dst"}
    networks = [
        ("GAT", {"name": "gat", "heads": HEADS, "split_heads": True}, gat),
        ("GCN", "gcn", gcn),
        ("GGNN", "ggnn", ggnn),
    ]
    found = run_script(folder, "experiment.py", folder, more="from common import GNN_TYPE")
    for kind, layer, of_layer in networks:
        # GGNN has neither, as in their scripts.
        has_activation = has_residual = kind != "GGNN"
        sizes = LAYERS, classes - 1, WIDTH, classes - 1
        flags = False, False, True, has_activation, has_residual
        theirs = found["GraphModel"](found["GNN_TYPE"][kind], *sizes, *flags)
        _join_tables(theirs, classes)
        skip, activation = "none", "identity"
        if has_residual:
            skip, activation = "residual", "relu"
        ours = DeepGNN(
            data_set.num_features,
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
        )
        names = linear("decoder", "out_layer") | {"encoder.weight": "table"}
        names |= in_layers("layers", of_layer)
        for number in range(LAYERS):
            norm = f"blocks.{number}.norms_after_skip.0.norm"
            names |= linear(norm, f"layer_norms.{number}")
        yield kind, *compare(theirs, [data], ours, names, batch)


def _join_tables(network: nn.Module, classes: int) -> None:
    """One table for both columns of the features, as ours has it, and a bias of the scores."""
    network.table = nn.Parameter(torch.empty(2 * classes, WIDTH))
    del network.layer0_keys, network.layer0_values
    network.layer0_keys = lambda key: network.table[key]
    network.layer0_values = lambda value: network.table[classes + value]
    network.out_layer = nn.Linear(WIDTH, classes)


def of_balance(folder: Path) -> Compared:
    """GATv2 with shared weights, and with unshared ones."""
    batch, features, classes = cora()
    changes = [("getAttnCoef=False", "getAttnCoef=True")]
    script = folder, balance.PLANETOID_SCRIPT.path, folder
    found = run_script(*script, changes=changes, until="expSetting = pd.read_csv")
    widths = [features, *[WIDTH] * (LAYERS - 1), classes]
    concat = [True] * (LAYERS - 1) + [False]
    inputs = batch.x, batch.graph.edge_index, True
    of_layer = {"lin_src.weight": "lin_l.weight", "att": "att"}
    unshared = {"lin_dst.weight": "lin_r.weight"}
    for name, more in (("GATv2", {}), ("GATv2, unshared weights", unshared)):
        theirs = found["GATv2"](LAYERS, widths, [1] * (LAYERS + 1), concat, not more)
        names = in_layers("GATv2Convs", of_layer | more)
        options = {"name": "gatv2", "share_weights": not more, "bias": False}
        ours = DeepGNN(features, classes, options, LAYERS, WIDTH, encoder="none", decoder="none")
        yield name, *compare(theirs, inputs, ours, names, batch)


CODE = {
    "lipschitz": (lipschitz.RELEASED, of_lipschitz),
    "balance": (balance.RELEASED, of_balance),
    "gcnii": (gcnii.RELEASED, of_gcnii),
    "trees": (trees.RELEASED, of_trees),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.authors.same_function")
    parser.add_argument("code", choices=list(CODE))
    parser.add_argument("folder", type=Path, help="a clone of the repository")
    given = parser.parse_args()
    released, comparisons = CODE[given.code]
    released.check(given.folder)
    for name, output, gradient in comparisons(given.folder.resolve()):
        print(f"{released.name}, {name}: outputs {output:.1e}, gradients {gradient:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
