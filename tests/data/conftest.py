"""Small raw files in the published formats, a server of files on this computer."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from gnn_depth.data import SyntheticCitation, planetoid
from gnn_depth.data.downloads import CHECKSUMS, sha256

# The tiny citation graph: 12 nodes, 4 features, 2 classes; nodes 0 to 3 are trained on, 4 to 6
# validated, and of the last five, node 9 is in no list (as CiteSeer has such nodes) and the others
# are the test set, out of order.
NODES, FEATURES, CLASSES = 12, 4, 2
TEST = [11, 7, 10, 8]
LISTED = 7
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 10), (10, 11), (0, 11)]


def small(**options) -> SyntheticCitation:
    """A generated graph of 60 nodes, 16 features and 3 classes."""
    sizes = {"num_nodes": 60, "num_edges": 120, "num_features": 16, "num_classes": 3}
    sizes |= {"num_train_per_class": 5, "num_val": 10, "num_test": 10}
    return SyntheticCitation(**sizes | options)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    """No test looks into the user's cache, or downloads into it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def tiny_cora(tmp_path, monkeypatch) -> Path:
    """A root whose Cora is the tiny citation graph, with its checksums in the table."""
    rng = np.random.default_rng(0)
    x = (rng.random((NODES, FEATURES)) < 0.6).astype(np.float32)
    x[:, 0] = 1
    y = np.eye(CLASSES, dtype=np.int32)[np.arange(NODES) % CLASSES]
    graph: dict[int, list[int]] = {node: [] for node in range(NODES)}
    for one, other in EDGES:
        graph[one].append(other)
        graph[other].append(one)
    # The published files have repeated edges and self-loops.
    graph[0] += [0, 1]
    arrays = {"x": csr_matrix(x[:4]), "allx": csr_matrix(x[:LISTED]), "tx": csr_matrix(x[TEST])}
    arrays |= {"y": y[:4], "ally": y[:LISTED], "ty": y[TEST], "graph": graph}
    files = {name: pickle.dumps(value, protocol=2) for name, value in arrays.items()}
    files["test.index"] = "\n".join(map(str, TEST)).encode()
    monkeypatch.setattr(planetoid, "NUM_VAL", 3)
    folder = tmp_path / "root" / "Cora" / "raw"
    folder.mkdir(parents=True)
    for part, content in files.items():
        monkeypatch.setitem(CHECKSUMS, f"ind.cora.{part}", [sha256(content)])
        (folder / f"ind.cora.{part}").write_bytes(content)
    return tmp_path / "root"


@pytest.fixture
def tiny_texas(tmp_path, monkeypatch) -> Path:
    """A root whose texas has 20 nodes on a ring and 3 classes."""
    order = np.stack([np.random.default_rng(split).permutation(20) for split in range(10)])
    path = tmp_path / "root" / "heterophilous" / "texas.npz"
    path.parent.mkdir(parents=True)
    np.savez(
        path,
        node_features=np.random.default_rng(0).random((20, 5), np.float32),
        node_labels=np.arange(20) % 3,
        edges=np.stack([np.arange(20), (np.arange(20) + 1) % 20], 1),
        train_masks=order < 10,
        val_masks=(order >= 10) & (order < 15),
        test_masks=order >= 15,
    )
    monkeypatch.setitem(CHECKSUMS, "texas.npz", [sha256(path.read_bytes())])
    return tmp_path / "root"


@dataclass
class Server:
    """Files served on this computer.

    Attributes:
        files: Content by name.
        requests: Names asked for, in order.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            state.requests.append(name)
            if name not in state.files:
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(state.files[name])

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        state.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture
def payload(tmp_path) -> tuple[Callable[[], object], Path]:
    """An object whose unpickling makes a file, and the file: it is there if the payload has run."""
    mark = tmp_path / "payload-has-run"

    class Payload:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(mark),)

    pickle.loads(pickle.dumps(Payload()))
    assert mark.exists()  # else the payload would prove nothing
    mark.rmdir()
    return Payload, mark
