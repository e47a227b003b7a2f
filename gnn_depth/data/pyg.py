"""Any data set of PyTorch Geometric, by its name."""

import inspect
from typing import Any, ClassVar

import numpy as np

from gnn_depth.data.checks import MASKS, SPLITS, DataError
from gnn_depth.data.downloads import resolve_root
from gnn_depth.data.source import CheckedGraphs, RawGraphs
from gnn_depth.data.transforms import seeded_everywhere
from gnn_depth.data.union import Arrays, graphs_in
from gnn_depth.registry import imported, register


@register("data", "PyG")
class PyG(CheckedGraphs):
    """Any data set of PyTorch Geometric, loaded and cached by itself: ``--data PyG --data.dataset
    TUDataset``.

    Targets are one for each node or one for each graph; the task follows from their type and shape.
    The split is that of the data set (its masks, or its parts ``train``, ``val`` and ``test``), the
    given one, or random. PyTorch Geometric unpickles files, which can run code in them:
    ``--trusted-only`` refuses configs with this class.

    Fey & Lenssen, *Fast Graph Representation Learning with PyTorch Geometric*, ICLR workshop 2019.

    Args:
        dataset: Name of a class of ``torch_geometric.datasets``, or the import path of another one.
        name: Its argument ``name``, if it has one: MUTAG for TUDataset.
        options: Its other arguments. ``root``, the folder for its files, is by default a folder of
            its name in $GNN_DEPTH_DATA, else in ``~/.cache/gnn_depth``.
        **common: ``split``, ``standardize`` and the other options of :class:`CheckedGraphs`.

    Raises:
        ValueError: There is no such data set or option, or a number is out of its range.
    """

    runs_foreign_code: ClassVar[bool] = True

    def __init__(
        self,
        dataset: str,
        name: str | None = None,
        options: dict[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.dataset = dataset
        self.name = name
        import torch_geometric.datasets  # slow

        library = torch_geometric.datasets
        self._cls = imported("dataset", dataset, library.__name__, library.__all__)
        self._takes = inspect.signature(self._cls).parameters
        self._options = dict(options or {})
        if name is not None:
            self._options["name"] = name
        if "root" in self._takes:  # generated sets have no files
            folder = resolve_root(None) / "pyg" / dataset.rpartition(".")[2]
            self._options.setdefault("root", str(folder))

    def raw(self) -> RawGraphs:
        notes: list[str] = []
        # Sets with parts of their own, such as ZINC, take split="train" by default. Planetoid's
        # split is something else: which masks its one graph has.
        split = self._takes.get("split")
        if split is None or split.default != "train" or "split" in self._options:
            return RawGraphs(self._graphs(notes), notes=notes)
        graphs: list[Arrays] = []
        for name in SPLITS:  # PyTorch Geometric has the same three words
            for graph in self._graphs(notes, split=name):
                rows = len(np.atleast_1d(graph["y"]))
                masks = {mask: np.full(rows, mask == f"{name}_mask") for mask in MASKS}
                graphs.append({**graph, **masks})
        return RawGraphs(graphs, notes=notes)

    def _graphs(self, notes: list[str], **more: Any) -> list[Arrays]:
        """Load or generate; a generated set draws from generators of its own."""
        try:
            with seeded_everywhere(self.seed):
                made = self._cls(**self._options, **more)
                return graphs_in(made, notes)  # some draw when a graph is taken
        except TypeError as error:
            raise DataError(f"{self.dataset} refuses its options: {error}.") from error
