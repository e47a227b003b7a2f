"""Planetoid's files and splits, on a tiny citation graph and on the published ones."""

import pickle
import shutil
import warnings

import numpy as np
import pytest
import torch

from gnn_depth.data import DataError, Planetoid
from gnn_depth.data.downloads import CHECKSUMS, sha256
from gnn_depth.data.planetoid import unpickle
from tests.data.conftest import CLASSES, EDGES, NODES, TEST


def nodes(mask: torch.Tensor) -> list[int]:
    return mask.nonzero().flatten().tolist()


def test_the_parts_are_put_where_the_test_index_says(tiny_cora):
    batch = Planetoid("Cora", root=str(tiny_cora), normalize_features=False).batch
    labelled = [node for node in range(NODES) if node != 9]
    assert batch.y[labelled].tolist() == [node % CLASSES for node in labelled]
    assert batch.x[labelled, 0].tolist() == [1.0] * len(labelled)
    assert not batch.x[9].any()  # a node that no file lists has no features
    normalized = Planetoid("Cora", root=str(tiny_cora)).batch.x
    torch.testing.assert_close(normalized.sum(1), (torch.arange(NODES) != 9).float())
    assert edges(batch.graph.edge_index) == set(EDGES) | {(b, a) for a, b in EDGES}
    assert (nodes(batch.train_mask), nodes(batch.val_mask), nodes(batch.test_mask)) == (
        [0, 1, 2, 3],
        [4, 5, 6],
        sorted(TEST),
    )


def test_a_geom_gcn_split_is_the_files(tiny_cora, monkeypatch):
    index = np.arange(NODES)
    masks = {
        "train_mask": index < 6,
        "val_mask": (index >= 6) & (index < 9),
        "test_mask": index >= 9,
    }
    path = tiny_cora / "Cora" / "geom-gcn" / "raw" / "cora_split_0.6_0.2_3.npz"
    path.parent.mkdir(parents=True)
    # CiteSeer's files hold bytes where Cora's hold yes and no.
    np.savez(path, **{name: mask.astype(np.uint8) for name, mask in masks.items()})
    with pytest.raises(DataError, match=r"cora_split_0\.6_0\.2_3\.npz.*sha256"):
        _ = Planetoid("Cora", split="geom-gcn", split_index=3, root=str(tiny_cora)).batch
    monkeypatch.setitem(CHECKSUMS, path.name, [sha256(path.read_bytes())])
    batch = Planetoid("Cora", split="geom-gcn", split_index=3, root=str(tiny_cora)).batch
    for name, mask in masks.items():
        assert getattr(batch, name).tolist() == mask.tolist()


def test_a_tampered_file_is_refused_before_it_is_read(tiny_cora, payload):
    make, mark = payload
    (tiny_cora / "Cora" / "raw" / "ind.cora.graph").write_bytes(pickle.dumps(make()))
    with pytest.raises(DataError, match=r"ind\.cora\.graph.*sha256"):
        _ = Planetoid("Cora", root=str(tiny_cora)).batch
    assert not mark.exists()


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_a_payload_does_not_run_even_where_its_checksum_is_right(payload, protocol):
    make, mark = payload

    class Outer:
        def __reduce__(self) -> tuple:
            return list, ([make()],), {"later": make()}

    for content in ([make()], {"x": Outer()}, np.array([make()], dtype=object)):
        with pytest.raises(DataError, match="asks for"):
            unpickle(pickle.dumps(content, protocol=protocol))
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "split"),
    [("Cora", "geom-gcn"), ("CiteSeer", "public"), ("CiteSeer", "geom-gcn"), ("PubMed", "full")],
)
def test_the_same_as_pytorch_geometric(real_data, tmp_path, name, split):
    from torch_geometric.datasets import Planetoid as Reference
    from torch_geometric.transforms import NormalizeFeatures

    shutil.copytree(real_data / name, tmp_path / name)
    for raw in (tmp_path / name / "raw").iterdir():
        shutil.copy(raw, tmp_path / name / "geom-gcn" / "raw")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = Reference(str(tmp_path), name, split)[0]
    ours = Planetoid(
        name, split, split_index=0, root=str(real_data), normalize_features=False
    ).batch
    assert torch.equal(ours.x, reference.x)
    assert torch.equal(ours.y, reference.y)
    assert edges(ours.graph.edge_index) == edges(reference.edge_index)
    for mask in ("train_mask", "val_mask", "test_mask"):
        theirs = getattr(reference, mask)
        assert torch.equal(
            getattr(ours, mask), (theirs[:, 0] if split == "geom-gcn" else theirs).bool()
        )
    normalized = Planetoid(name, root=str(real_data)).batch.x
    torch.testing.assert_close(normalized, NormalizeFeatures()(reference).x)


def edges(edge_index: torch.Tensor) -> set[tuple[int, int]]:
    return set(map(tuple, edge_index.T.tolist()))
