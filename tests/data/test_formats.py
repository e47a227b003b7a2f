"""Every layout of files gives the graph that the libraries of its format read."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch
from scipy import sparse
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.io import read_npz

from gnn_depth.data import DataError, UserGraph

NODES, EDGES = 12, 30
TABLE = {"label": "topic"}


def example(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes with ids from 100 on, two features and a class; edges without repetition."""
    rng = np.random.default_rng(seed)
    ids = 100 + rng.permutation(NODES)
    nodes = pd.DataFrame({"id": ids, "age": rng.integers(18, 80, NODES)})
    nodes["score"] = rng.standard_normal(NODES).round(3)
    nodes["topic"] = np.arange(NODES) % 3
    pairs = rng.permutation([(a, b) for a in range(NODES) for b in range(NODES) if a != b])
    ends = ids[pairs[:EDGES]]
    edges = pd.DataFrame({"source": ends[:, 0], "target": ends[:, 1]})
    edges["weight"] = rng.random(EDGES).round(3) + 0.5
    return nodes, edges


def networkx_graph(nodes: pd.DataFrame, edges: pd.DataFrame, directed: bool = True) -> nx.Graph:
    graph = nx.DiGraph() if directed else nx.Graph()
    for row in nodes.to_dict("records"):
        graph.add_node(row.pop("id"), **row)
    graph.add_weighted_edges_from(edges.itertuples(index=False))
    return graph


def tables(folder, nodes, edges, **how) -> dict:
    """Both tables as CSV files, written in some way."""
    nodes.to_csv(folder / "nodes.csv", index=False, **how)
    edges.to_csv(folder / "edges.csv", index=False, **how)
    return {"path": "edges.csv", "nodes": "nodes.csv", **TABLE}


def csv(folder, nodes, edges):
    return tables(folder, nodes, edges)


def semicolons(folder, nodes, edges):
    return tables(folder, nodes, edges, sep=";") | {"separator": "semicolon"}


def without_names(folder, nodes, edges):
    names = {"node_columns": list(nodes), "edge_columns": list(edges)}
    return tables(folder, nodes, edges, header=False) | names


def planetoid_words(folder, nodes, edges):
    """Words in counted columns, and no names, as in cora.content and cora.cites."""
    nodes.to_csv(folder / "cora.content", index=False, header=False, sep="\t")
    edges[["source", "target"]].to_csv(folder / "cora.cites", index=False, header=False, sep="\t")
    names = {"node_columns": ["id", "word*2", "topic"], "edge_columns": ["cited", "citing"]}
    return {"path": "cora.cites", "nodes": "cora.content", **names, **TABLE}


def comments_of_snap(folder, nodes, edges):
    """Comments before an edge list, of which the last one has the names."""
    rows = edges[["source", "target"]].to_csv(index=False, header=False, sep="\t")
    head = "# Directed graph: edges.txt\n# Nodes: 12 Edges: 30\n# FromNodeId\tToNodeId\n"
    (folder / "edges.txt").write_text(head + rows)
    return csv(folder, nodes, edges) | {"path": "edges.txt"}


def comments_between(folder, nodes, edges):
    options = csv(folder, nodes, edges)
    lines = (folder / "nodes.csv").read_text().splitlines()
    (folder / "nodes.csv").write_text("\n".join(["% made", *lines[:4], "% more", *lines[4:]]))
    return options


def spaces(folder, nodes, edges):
    (folder / "nodes.txt").write_text(nodes.to_string(index=False))
    (folder / "edges.txt").write_text(edges.to_string(index=False))
    return {"path": "edges.txt", "nodes": "nodes.txt", **TABLE}


def node_files_of_each_set(folder, nodes, edges):
    files = {}
    for name, part in zip(
        ("train", "val", "test"), (nodes[:6], nodes[6:9], nodes[9:]), strict=True
    ):
        part.to_csv(folder / f"{name}.csv", index=False)
        files[name] = f"{name}.csv"
    return csv(folder, nodes, edges) | {"nodes": files}


def lists_in_cells(folder, nodes, edges):
    feat = nodes["age"].astype(str) + ", " + nodes["score"].astype(str)
    return csv(folder, nodes[["id", "topic"]].assign(feat=feat), edges)


def dgl(folder, nodes, edges):
    feat = nodes["age"].astype(str) + "," + nodes["score"].astype(str)
    table = pd.DataFrame({"node_id": nodes["id"], "label": nodes["topic"], "feat": feat})
    table.to_csv(folder / "nodes_0.csv", index=False)
    edges.columns = ["src_id", "dst_id", "weight"]
    edges.to_csv(folder / "edges_0.csv", index=False)
    (folder / "meta.yaml").write_text(
        "dataset_name: mine\nedge_data:\n- file_name: edges_0.csv\n"
        "node_data:\n- file_name: nodes_0.csv\n"
    )
    return {"path": "."}


def ogb(folder, nodes, edges):
    raw, split = folder / "raw", folder / "split" / "time"
    raw.mkdir()
    split.mkdir(parents=True)
    number = {name: row for row, name in enumerate(nodes["id"])}
    ends = edges[["source", "target"]].map(number.get)

    def write(path: Path, content: object) -> None:
        pd.DataFrame(content).to_csv(path, index=False, header=False)

    write(raw / "edge.csv.gz", ends)
    write(raw / "node-feat.csv.gz", nodes[["age", "score"]])
    write(raw / "node-label.csv.gz", nodes["topic"])
    write(raw / "num-node-list.csv.gz", [NODES])
    write(raw / "num-edge-list.csv.gz", [EDGES])
    write(split / "train.csv.gz", range(6))
    write(split / "valid.csv.gz", range(6, 9))
    write(split / "test.csv.gz", range(9, 12))
    return {"path": "."}


def gml(folder, nodes, edges):
    nx.write_gml(networkx_graph(nodes, edges), folder / "graph.gml")
    return {"path": "graph.gml", "features": ["age", "score"], **TABLE}


def graphml(folder, nodes, edges):
    nx.write_graphml(networkx_graph(nodes, edges), folder / "graph.graphml")
    return {"path": "graph.graphml", **TABLE}


def node_link(folder, nodes, edges):
    content = nx.node_link_data(networkx_graph(nodes, edges), edges="links")
    (folder / "graph.json").write_text(json.dumps(content, default=float))
    return {"path": "graph.json", **TABLE}


def edge_list(folder, nodes, edges):
    nx.write_edgelist(networkx_graph(nodes, edges), folder / "graph.edgelist")
    return csv(folder, nodes, edges) | {"path": "graph.edgelist"}


def weighted_edge_list(folder, nodes, edges):
    nx.write_weighted_edgelist(networkx_graph(nodes, edges), folder / "graph.edgelist")
    return csv(folder, nodes, edges) | {"path": "graph.edgelist"}


def adjacency(nodes, edges) -> sparse.coo_array:
    return nx.to_scipy_sparse_array(networkx_graph(nodes, edges), format="coo")


def matrix_market(folder, nodes, edges):
    scipy.io.mmwrite(folder / "graph.mtx", adjacency(nodes, edges))
    return csv(folder, nodes, edges) | {"path": "graph.mtx"}


def matlab(folder, nodes, edges):
    """As the attributed graphs of anomaly detection are published."""
    content = {"Network": adjacency(nodes, edges).tocsc()}
    content["Attributes"] = sparse.csc_array(nodes[["age", "score"]].to_numpy())
    content["Label"] = nodes[["topic"]].to_numpy(float)
    scipy.io.savemat(folder / "graph.mat", content)
    return {"path": "graph.mat"}


def matlab_facebook(folder, nodes, edges):
    """As Facebook100: the class is a column of the information on each node."""
    info = nodes[["age", "topic", "score"]].to_numpy(float)
    scipy.io.savemat(folder / "g.mat", {"A": adjacency(nodes, edges), "local_info": info})
    return {"path": "g.mat", "features": ["local_info"], "label": "local_info[1]"}


def benchmark(folder, nodes, edges):
    matrix = adjacency(nodes, edges).tocsr()
    x = sparse.csr_array(nodes[["age", "score"]].to_numpy())
    content = {"labels": nodes["topic"].to_numpy()}
    for name, value in (("adj", matrix), ("attr", x)):
        for part in ("data", "indices", "indptr", "shape"):
            content[f"{name}_{part}"] = getattr(value, part)
    np.savez(folder / "graph.npz", **content)
    return {"path": "graph.npz"}


def torch_data(nodes, edges) -> Data:
    number = {name: row for row, name in enumerate(nodes["id"])}
    ends = edges[["source", "target"]].map(number.get).to_numpy()
    x = torch.tensor(nodes[["age", "score"]].to_numpy(), dtype=torch.float)
    return Data(x=x, edge_index=torch.tensor(ends.T), y=torch.tensor(nodes["topic"].to_numpy()))


def saved_data_set(folder, nodes, edges):
    InMemoryDataset.save([torch_data(nodes, edges)], str(folder / "data.pt"))
    return {"path": "data.pt"}


def saved_data_and_slices(folder, nodes, edges):
    torch.save(InMemoryDataset.collate([torch_data(nodes, edges)]), folder / "data.pt")
    return {"path": "data.pt"}


LAYOUTS: list[Callable] = [
    *(csv, semicolons, without_names, planetoid_words, comments_of_snap),
    *(comments_between, spaces, node_files_of_each_set, lists_in_cells, dgl, ogb, gml, graphml),
    *(node_link, edge_list, weighted_edge_list, matrix_market, matlab, matlab_facebook),
    *(saved_data_set, saved_data_and_slices),
]


@pytest.mark.parametrize("write", LAYOUTS, ids=lambda write: write.__name__)
def test_a_layout_gives_the_counts_features_labels_and_edges_that_were_written(
    tmp_path, monkeypatch, write
):
    folder = tmp_path / "graph"
    folder.mkdir()
    monkeypatch.chdir(folder)
    nodes, edges = example()
    options = write(folder, nodes.copy(), edges.copy())
    if options["path"] == ".":
        monkeypatch.chdir(tmp_path)
        options["path"] = "graph"
    batch = UserGraph(**options).batch
    np.testing.assert_array_equal(batch.x, nodes[["age", "score"]].to_numpy(np.float32))
    assert batch.y.tolist() == nodes["topic"].tolist()
    number = {name: row for row, name in enumerate(nodes["id"])}
    wanted = [(number[a], number[b]) for a, b in edges[["source", "target"]].to_numpy()]
    assert sorted(map(tuple, batch.graph.edge_index.T.tolist())) == sorted(wanted)
    if write in (ogb, node_files_of_each_set):
        assert [mask.nonzero().flatten().tolist() for mask in batch.masks] == [
            [0, 1, 2, 3, 4, 5],
            [6, 7, 8],
            [9, 10, 11],
        ]


def test_gnn_benchmark_is_read_as_pytorch_geometric_reads_it(tmp_path):
    benchmark(tmp_path, *example())
    data = UserGraph(str(tmp_path / "graph.npz"))
    wanted = read_npz(str(tmp_path / "graph.npz"))
    assert torch.equal(data.batch.x, wanted.x)
    assert torch.equal(data.batch.y, wanted.y)
    ends = sorted(map(tuple, wanted.edge_index.T.tolist()))
    assert sorted(map(tuple, data.batch.graph.edge_index.T.tolist())) == ends
    assert any("above 0 become 1" in note for note in data.notes)


@pytest.mark.parametrize("write", [gml, graphml, node_link])
def test_an_undirected_graph_of_networkx_runs_both_ways(tmp_path, monkeypatch, write):
    undirected = partial(networkx_graph, directed=False)
    monkeypatch.setattr(f"{__name__}.networkx_graph", undirected)
    nodes, edges = example()
    options = write(tmp_path, nodes, edges)
    graph = UserGraph(**{**options, "path": str(tmp_path / options["path"])}).batch.graph
    pairs = {frozenset(pair) for pair in edges[["source", "target"]].to_numpy().tolist()}
    assert graph.num_edges == 2 * len(pairs)


def test_weights_of_every_format_of_edges_belong_to_their_edges(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes, edges = example()
    number = {name: row for row, name in enumerate(nodes["id"])}
    wanted = {(number[a], number[b]): w for a, b, w in edges.itertuples(index=False)}
    for write in (csv, graphml, edge_list, weighted_edge_list, matrix_market):
        options = write(tmp_path, nodes.copy(), edges.copy())
        graph = UserGraph(**options, edge_weight="weight").batch.graph
        for source, target, weight in zip(
            graph.source.tolist(), graph.target.tolist(), graph.edge_weight.tolist(), strict=True
        ):
            assert weight == pytest.approx(wanted[source, target], rel=1e-6)


def test_graphs_of_ogb_have_the_rows_of_their_own(tmp_path):
    sizes, edge_counts = [3, 2], [2, 1]
    rng = np.random.default_rng(0)
    x, edge_attr = rng.random((5, 2)).round(3), rng.random((3, 2)).round(3)
    files = {
        "edge": [[0, 1], [1, 2], [1, 0]],
        "node-feat": x,
        "edge-feat": edge_attr,
        "graph-label": [0, 1],
        "num-node-list": sizes,
        "num-edge-list": edge_counts,
    }
    for name, content in files.items():
        pd.DataFrame(content).to_csv(tmp_path / f"{name}.csv.gz", index=False, header=False)
    batch = UserGraph(str(tmp_path), train_fraction=1.0, val_fraction=0.0).batch
    assert batch.per_graph
    assert batch.y.tolist() == [0, 1]
    np.testing.assert_array_equal(batch.x, x.astype(np.float32))
    assert batch.graph.edge_index.T.tolist() == [[0, 1], [1, 2], [4, 3]]
    np.testing.assert_array_equal(batch.graph.edge_attr, edge_attr.astype(np.float32))
    assert batch.graph.node_to_graph.tolist() == [0, 0, 0, 1, 1]


def test_several_saved_graphs_are_several_graphs(tmp_path):
    graphs = [torch_data(*example(seed)) for seed in (0, 1)]
    InMemoryDataset.save(graphs, str(tmp_path / "data.pt"))
    batch = UserGraph(str(tmp_path / "data.pt")).batch
    assert torch.equal(batch.x, torch.cat([graph.x for graph in graphs]))
    assert batch.graph.num_graphs == 2


def test_a_pointer_of_git_lfs_is_named_as_such(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"
    for name in ("graph.npz", "graph.mat", "edges.csv"):
        (tmp_path / name).write_text(pointer)
        options = {"nodes": str(tmp_path / name), "label": "y"} if name == "edges.csv" else {}
        with pytest.raises(DataError, match=r"pointer of Git LFS.*git lfs pull"):
            UserGraph(str(tmp_path / name), **options)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("g.gml", "graph [ node", "read by NetworkX"),
        ("g.graphml", "<graphml><node>", "read by NetworkX"),
        ("g.json", '{"a": 1}', "node-link JSON"),
        ("g.mat", "text", "read by SciPy"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=rf"(?s){name}.*{words}"):
        _ = UserGraph(str(tmp_path / name), label="topic").batch


def test_an_empty_edge_list_and_a_matrix_of_another_size_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    csv(tmp_path, *example())
    Path("g.edgelist").write_text("1,2\n2,3\n")
    with pytest.raises(DataError, match=r"g.edgelist.*no edges"):
        _ = UserGraph("g.edgelist", nodes="nodes.csv", label="topic").batch
    scipy.io.mmwrite("g.mtx", sparse.coo_array(np.eye(3)))
    with pytest.raises(DataError, match=r"g.mtx.*\(3, 3\).*12 nodes"):
        _ = UserGraph("g.mtx", nodes="nodes.csv", label="topic").batch


def test_arrays_of_a_mat_file_that_could_both_be_the_label_are_not_guessed(tmp_path):
    nodes, edges = example()
    content = {"A": adjacency(nodes, edges), "Label": nodes["topic"], "Class": nodes["topic"]}
    scipy.io.savemat(
        tmp_path / "g.mat", {key: np.asarray(v) if key != "A" else v for key, v in content.items()}
    )
    with pytest.raises(DataError, match=r"g.mat.*several.*Label, Class.*label ARRAY"):
        _ = UserGraph(str(tmp_path / "g.mat")).batch
    with pytest.raises(DataError, match=r"array 'topics'.*Label \(1, 12\)"):
        _ = UserGraph(str(tmp_path / "g.mat"), label="topics").batch


def test_a_header_that_does_not_fit_the_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes, edges = example()
    options = csv(tmp_path, nodes, edges)
    with pytest.raises(DataError, match=r"edges.csv.*3 values, and 2 columns are named"):
        _ = UserGraph(**options, edge_columns=["source", "target"]).batch
    with pytest.raises(DataError, match=r"edges.csv.*these names already"):
        _ = UserGraph(**options, edge_columns=["source", "target", "weight"]).batch


def test_tables_of_sets_with_other_columns_are_refused_with_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nodes, edges = example()
    options = node_files_of_each_set(tmp_path, nodes, edges)
    nodes[6:9].drop(columns="age").to_csv("val.csv", index=False)
    with pytest.raises(DataError, match=r"val.csv.*age"):
        _ = UserGraph(**options).batch
    nodes[6:9].assign(age="x").to_csv("val.csv", index=False)
    with pytest.raises(DataError, match=r"(?s)train.csv.*val.csv.*row 6 .*'age' is x"):
        _ = UserGraph(**options).batch
    with pytest.raises(DataError, match=r"'trian'.*train"):
        _ = UserGraph(**{**options, "nodes": {"trian": "val.csv"}}).batch


def test_a_gzipped_graph_of_networkx_is_read(tmp_path):
    nodes, edges = example()
    options = graphml(tmp_path, nodes, edges)
    packed = tmp_path / "graph.graphml.gz"
    packed.write_bytes(gzip.compress((tmp_path / "graph.graphml").read_bytes()))
    assert UserGraph(**{**options, "path": str(packed)}).batch.graph.num_edges == EDGES
