"""Files of whole graphs, read by the libraries of their formats: NetworkX and SciPy."""

import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from gnn_depth.data.checks import DataError
from gnn_depth.registry import unknown

if TYPE_CHECKING:
    import networkx

#: Formats of NetworkX that have attributes of nodes; and SciPy's format of arrays by name.
NETWORKX = (".gml", ".gml.gz", ".graphml", ".graphml.gz", ".json")
MATLAB = (".mat",)
#: What people call the arrays of a .mat file, in lower case.
ADJACENCY = ("edge_index", "a", "adj", "adjacency", "network", "net", "w", "graph")
FEATURES = ("x", "attributes", "attrb", "attr", "features", "feature", "feat", "fea")
LABELS = ("y", "label", "labels", "gnd", "group", "class", "truth")


# NetworkX

#: Names of nodes, or both ends of edges, each with its attributes.
Rows: TypeAlias = list[tuple[Any, Mapping[str, Any]]]


def read_networkx(path: Path) -> "networkx.Graph":
    """Read a file of NetworkX.

    Raises:
        DataError: It cannot be read.
    """
    import networkx

    name = path.name.lower().removesuffix(".gz")
    try:
        if name.endswith(".graphml"):
            return networkx.read_graphml(path)
        if name.endswith(".gml"):
            return _read_gml(path)
        return _read_node_link(path)
    except DataError:
        raise
    except Exception as error:  # of many kinds, as the parsers trust the file
        raise DataError(f"it cannot be read by NetworkX: {error}") from error


def rows_of(graph: "networkx.Graph") -> tuple[Rows, Rows]:
    """The nodes and the edges of a graph of NetworkX; edges of an undirected one run both ways."""
    if not graph.is_directed():
        graph = graph.to_directed()
    edges: Rows = []
    for source, target, attributes in graph.edges(data=True):
        edges.append(((source, target), attributes))
    return list(graph.nodes(data=True)), edges


def _read_gml(path: Path) -> "networkx.Graph":
    import networkx

    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        text = file.read()
    try:
        return networkx.parse_gml(text, label="id")
    except networkx.NetworkXError as error:
        if "duplicated" not in str(error):
            raise
        # It has parallel edges, and does not say so.
        several = re.sub(r"\bgraph\s*\[", "graph [ multigraph 1 ", text, count=1)
        return networkx.parse_gml(several, label="id")


def _read_node_link(path: Path) -> "networkx.Graph":
    import networkx

    content = json.loads(path.read_text(encoding="utf-8"))
    known = content if isinstance(content, dict) else {}
    edges = "links" if "links" in known else "edges"  # older versions of NetworkX write links
    if "nodes" not in known or edges not in known:
        raise DataError(
            "it is no node-link JSON, which is an object with nodes and links (or edges), as "
            "networkx.node_link_data gives it."
        )
    return networkx.node_link_graph(content, edges=edges)


# MATLAB


def read_mat(
    path: Path,
    label: str | None,
    features: Sequence[str] | None,
    targets: Sequence[str],
    edges: Sequence[str],
    notes: list[str],
) -> dict[str, np.ndarray | int]:
    """Read the arrays of a ``.mat`` file by the names of PyTorch Geometric.

    ``local_info[1]`` names column 1 of an array, counted from 0.

    Args:
        path: The file.
        label: The array of the classes; by default one with a usual name.
        features: The arrays of the features; by default one with a usual name.
        targets: The arrays of numbers to predict, instead of a label.
        edges: The adjacency matrix; by default one with a usual name.
        notes: Gets a sentence for each array that is taken by its name.

    Raises:
        DataError: It cannot be read, or an array that is needed is not there.
    """
    import scipy.io

    try:
        content = scipy.io.loadmat(path)
    except NotImplementedError:  # MATLAB 7.3
        raise DataError("it is HDF5 (MATLAB 7.3): save it with the flag -v7 instead.") from None
    except Exception as error:  # of many kinds, as the parser trusts the file
        raise DataError(f"it cannot be read by SciPy: {error}") from error
    known = {name: value for name, value in content.items() if not name.startswith("__")}

    def usual(what: str, option: str, names: Sequence[str], needed: bool = True) -> list[str]:
        found = [name for name in known if name.lower() in names]
        if len(found) == 1:
            notes.append(f"{found[0]} is read as {what}.")
            return found
        if not found and not needed:
            return []
        said = f"no array is called like {what}; it has {_shapes(known)}"
        if found:
            said = f"several arrays may be {what}: {', '.join(found)}"
        raise DataError(f"{said}. Name one: {option}.")

    adjacency = list(edges) or usual("the edges", "ends ARRAY", ADJACENCY)
    if adjacency[0] not in known:
        raise DataError(f"{unknown('array', adjacency[0], known)} It has {_shapes(known)}.")
    arrays = _of_matrix(known[adjacency[0]], adjacency[0], notes)
    if features is None:
        features = usual("the features", "features ARRAY", FEATURES, needed=False)
    named_label = [] if label is None else [label]
    if not named_label and not targets:
        named_label = usual("the label", "label ARRAY", LABELS)
    used = [*named_label, *targets]
    # A label may be a column of the features, among which it would give itself away.
    columns = [_without(_array(known, name), name, used) for name in features]
    if columns:
        arrays["x"] = np.concatenate(columns, 1)
    y = np.concatenate([_array(known, name) for name in used], 1)
    if named_label:  # MATLAB keeps whole numbers as doubles
        if not np.array_equal(y, np.round(y)):
            raise DataError(f"{label} holds numbers that are not whole: name them with targets.")
        y = y.astype(np.int64)
    else:
        y = y.astype(np.float64)
    arrays["y"] = y  # one column is read as a vector
    return arrays


def _array(known: Mapping[str, Any], name: str) -> np.ndarray:
    """An array, or a column of one, with a row for each node."""
    plain, column = _split_name(name)
    if plain not in known:
        raise DataError(f"{unknown('array', plain, known)} It has {_shapes(known)}.")
    value = known[plain]
    if sparse.issparse(value):
        value = value.toarray()
    if value.dtype.kind not in "biuf":
        raise DataError(f"{plain} holds no numbers.")
    if value.ndim == 2 and len(value) == 1:  # MATLAB has no vectors
        value = value.T
    if column is None:
        return value
    if column >= value.shape[1]:
        raise DataError(f"{name}: {plain} has the columns 0 to {value.shape[1] - 1}.")
    return value[:, [column]]


def _without(array: np.ndarray, name: str, used: Iterable[str]) -> np.ndarray:
    """The columns of an array of features that are no label or target."""
    taken = []
    for each in used:
        plain, column = _split_name(each)
        if plain == name and column is not None:
            taken.append(column)
    return np.delete(array, taken, axis=1)


def _split_name(name: str) -> tuple[str, int | None]:
    """The array and the column of a name such as ``local_info[1]``; None for all columns."""
    found = re.fullmatch(r"(.*)\[(\d+)\]", name)
    if found is None:
        return name, None
    return found[1], int(found[2])


def _of_matrix(matrix: Any, name: str, notes: list[str]) -> dict[str, np.ndarray | int]:
    """Edges from an adjacency matrix, or from their list."""
    rows, columns = matrix.shape
    if rows != columns:  # two nodes with two edges are read as a matrix
        if 2 not in matrix.shape:
            raise DataError(
                f"{name} is of shape {matrix.shape}, and an adjacency matrix is square: name the "
                "array of the edges: ends ARRAY."
            )
        return {"edge_index": matrix.astype(np.int64)}
    entries = sparse.coo_array(matrix)
    arrays: dict[str, np.ndarray | int] = {
        "edge_index": np.stack([entries.row, entries.col]).astype(np.int64),
        "num_nodes": rows,
    }
    if not (entries.data == 1).all():
        notes.append(
            f"the values of {name} are the weights of the edges; edge_weight '' leaves them out."
        )
        arrays["edge_weight"] = entries.data.astype(np.float64)
    return arrays


def _shapes(known: Mapping[str, Any]) -> str:
    """The arrays of a file with their shapes, in words."""
    words = [f"{name} {getattr(value, 'shape', '')}" for name, value in known.items()]
    return ", ".join(words) or "nothing"
