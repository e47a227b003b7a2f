"""Amazon and Coauthor, on a tiny file."""

import numpy as np
from scipy.sparse import csr_matrix

from gnn_depth.data import Amazon
from gnn_depth.data.downloads import CHECKSUMS, sha256

NODES = 20
WORDS = csr_matrix(np.random.default_rng(0).integers(0, 3, (NODES, 6)).astype(np.float32))
LABELS = np.arange(NODES) % 4
RING = np.stack([np.arange(NODES), (np.arange(NODES) + 1) % NODES], 1)


def parts(prefix, matrix):
    """A sparse matrix as the arrays of a file."""
    return {
        f"{prefix}_data": matrix.data,
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


def test_the_fixed_split_is_that_of_the_file_and_random_ones_follow_their_seed(
    tmp_path, monkeypatch
):
    order = np.random.default_rng(1).permutation(NODES)
    masks = {"train_masks": (order < 12)[None], "val_masks": ((order >= 12) & (order < 16))[None]}
    masks["test_masks"] = (order >= 16)[None]
    path = tmp_path / "medium" / "amazon_photo.npz"
    path.parent.mkdir()
    np.savez(path, node_labels=LABELS, edges=RING, **parts("feature", WORDS), **masks)
    monkeypatch.setitem(CHECKSUMS, path.name, [sha256(path.read_bytes())])
    fixed = Amazon("Photo", "fixed", root=str(tmp_path)).batch
    assert fixed.train_mask.tolist() == masks["train_masks"][0].tolist()
    assert fixed.test_mask.tolist() == masks["test_masks"][0].tolist()
    draws = {Amazon("Photo", split_index=seed, root=str(tmp_path)).checksum for seed in (0, 0, 1)}
    assert len(draws) == 2
    random = Amazon("Photo", root=str(tmp_path)).batch
    assert [int(mask.sum()) for mask in random.masks] == [12, 4, 4]
