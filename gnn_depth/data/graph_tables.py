"""Graphs of NetworkX and matrices as two tables in memory, of nodes and edges.

The options and checks of tables hold for them.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from gnn_depth.data.checks import DataError
from gnn_depth.data.columns import EdgeColumns
from gnn_depth.data.graph_files import Rows, read_networkx, rows_of
from gnn_depth.data.table_files import TableFile

if TYPE_CHECKING:
    import networkx

#: Formats with edges only, which need a table of nodes.
EDGES_ONLY = (".edgelist", ".edgelist.gz", ".mtx", ".mtx.gz")
WEIGHT = "weight"  # the column of a matrix's values


class FrameTable(TableFile):
    """A table in memory, under the checks of one in a file.

    Args:
        path: The file that it comes from.
        frame: The table.
        notes: What was decided about it, one sentence each.
    """

    def __init__(self, path: Path, frame: pd.DataFrame, notes: Iterable[str] = ()) -> None:
        super().__init__(path)
        self.frame = frame.rename(columns=str)
        self.notes = list(notes)

    @property
    def stored(self) -> list[str]:
        return list(self.frame.columns)

    def _read_stored(
        self, columns: Sequence[str], text: Collection[str] = (), rows: int | None = None
    ) -> pd.DataFrame:
        return self.frame[list(columns)].head(rows or len(self.frame))


class MatrixTable(FrameTable):
    """The edges of an adjacency matrix, whose rows are those of the table of nodes, in order.

    Args:
        path: The file.
        matrix: The matrix; the edge of an entry leads from its row to its column.
    """

    def __init__(self, path: Path, matrix: sparse.spmatrix | np.ndarray) -> None:
        entries = sparse.coo_array(matrix)
        frame = pd.DataFrame({"source": entries.row, "target": entries.col, WEIGHT: entries.data})
        notes = ["row i of the matrix is row i of the table of nodes."]
        if not (entries.data == 1).all():
            notes.append(f"the values of the matrix are its column {WEIGHT}.")
        super().__init__(path, frame, notes)
        self.shape = entries.shape

    def edge_index(self, columns: EdgeColumns, ids: pd.Index, source: str) -> np.ndarray:
        if self.shape != (len(ids), len(ids)):
            raise self.error(
                f"it is a matrix of shape {self.shape}, and there are {len(ids):,} nodes: it must "
                "have a row and a column for each of them, in their order."
            )
        return self.frame[["source", "target"]].to_numpy(np.int64).T


def tables_of(graph: "networkx.Graph", path: Path) -> tuple[FrameTable, FrameTable]:
    """The nodes and the edges of a graph of NetworkX as tables."""
    nodes, edges = rows_of(graph)
    names, of_nodes = _as_columns(nodes)
    # The ids come first, as in a table; an attribute may be called id, too.
    named = next(name for name in ("id", "node", "node_id") if name not in of_nodes)
    of_nodes.insert(0, named, names)
    ends, of_edges = _as_columns(edges)
    frame = pd.DataFrame(ends, columns=["source", "target"])
    others = of_edges.drop(columns=list(frame), errors="ignore")
    return FrameTable(path, of_nodes), FrameTable(path, frame.join(others))


def _as_columns(rows: Rows) -> tuple[list[Any], pd.DataFrame]:
    """The names or ends of rows, and a column for each attribute."""
    names = [name for name, _ in rows]
    attributes = [values for _, values in rows]
    return names, pd.DataFrame.from_records(attributes, index=range(len(rows)))


def _read_edge_list(path: Path) -> "networkx.Graph":
    import networkx

    # As a table has its rows: each once, in its direction, repeated ones too.
    options: dict[str, Any] = {"create_using": networkx.MultiDiGraph}
    try:
        try:
            graph = networkx.read_edgelist(path, data=True, **options)
        except (TypeError, IndexError):  # the third value is a weight, not a dict
            graph = networkx.read_weighted_edgelist(path, **options)
    except Exception as error:  # of many kinds, as the parser trusts the file
        raise DataError(f"{str(path)!r} cannot be read by NetworkX: {error}") from error
    if not graph.number_of_edges():
        raise DataError(
            f"{str(path)!r} has no edges: each line has a source and a target, separated by a "
            "space. Other tables of edges end in .csv, .tsv or .txt."
        )
    return graph


def read_edges(path: Path) -> TableFile:
    """The edges of a file as a table.

    Raises:
        DataError: It cannot be read.
    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".mtx"):
        import scipy.io

        try:
            return MatrixTable(path, scipy.io.mmread(path))
        except (ValueError, OSError, EOFError) as error:
            raise DataError(f"{str(path)!r} cannot be read by SciPy: {error}") from error
    read = _read_edge_list if name.endswith(".edgelist") else read_networkx
    _, edges = tables_of(read(path), path)
    return edges
