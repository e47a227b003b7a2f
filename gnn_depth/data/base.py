"""The base classes of every data set: batches of nodes, their loaders and DataModules."""

import copy
import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, TypeVar

import lightning as L
import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.data.checks import (
    SPLITS,
    DataError,
    check_finite,
    check_nodes,
    class_counts,
    class_notes,
    num_outputs_of,
    task_of,
)
from gnn_depth.data.schema import Schema, Unknown
from gnn_depth.graph import Graph

log = logging.getLogger(__name__)


@dataclass(eq=False)  # not frozen: Lightning converts the precision of a batch field by field
class NodeBatch:
    """A graph with node features, targets, and masks of the nodes to train, validate and test on.

    Targets and masks may cover only the first nodes; the outputs of the others are not used.

    Attributes:
        x: Features; with integers, each column holds one of a fixed number of values.
        y: Classes, 0 to num_classes - 1; or labels of 0 and 1, shape (read, labels); or numbers, of
            floats.
        graph: The edges.
        train_mask, val_mask, test_mask: Disjoint sets of nodes.
        per_graph: True if targets and masks have a row for each graph of ``graph``, not for each
            node.
    """

    x: Float[Tensor, "nodes features"] | Int[Tensor, "nodes features"]
    y: Shaped[Tensor, "read *outputs"]
    graph: Graph
    train_mask: Bool[Tensor, "read"]
    val_mask: Bool[Tensor, "read"]
    test_mask: Bool[Tensor, "read"]
    per_graph: bool = field(default=False, kw_only=True)
    _moved: "dict[torch.device, NodeBatch]" = field(default_factory=dict, init=False, repr=False)

    @property
    def masks(self) -> tuple[Tensor, Tensor, Tensor]:
        """The nodes to train, validate and test on."""
        return self.train_mask, self.val_mask, self.test_mask

    @property
    def read(self) -> int:
        """How many of the first nodes have an output that is used."""
        return self.graph.num_nodes if self.per_graph else len(self.y)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Features, targets, edges and masks."""
        return self.x, self.y, self.graph.edge_index, *self.masks

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "NodeBatch":
        """The batch on a device: the same object if it is already there, otherwise a copy, made
        once and kept."""
        device = torch.empty(0, device=device).device  # cuda is cuda:0
        if self.x.device == device:
            return self
        if device not in self._moved:
            moved = {}
            # A tensor made in inference mode could not be trained with later.
            with torch.inference_mode(False):
                for part in fields(self):
                    if part.init and part.name != "per_graph":
                        value = getattr(self, part.name)
                        moved[part.name] = value.to(device, non_blocking=non_blocking)
            self._moved[device] = replace(self, **moved)
        return self._moved[device]


class Repeated(NamedTuple):
    """Everything that all full batches of a loader share."""

    graph: Graph  # their edges, the same object each time
    read: int  # how many of the first nodes are read out


class FullBatch:
    """A loader whose single batch is the whole graph, without the workers, collation and sampler of
    a DataLoader.

    Args:
        batch: The graph.
    """

    def __init__(self, batch: NodeBatch) -> None:
        self.batch = batch

    @property
    def shared(self) -> bool:
        """True if all processes get the same batch: diagnostics average over them instead of adding
        them up."""
        return not self.batch.graph.is_shard

    @property
    def repeated(self) -> Repeated:
        """The graph that all its batches share, and the number of nodes that are read."""
        return Repeated(self.batch.graph, self.batch.read)

    def __iter__(self) -> Iterator[NodeBatch]:
        yield self.batch

    def __len__(self) -> int:
        return 1


class GraphDataModule(L.LightningDataModule, ABC):
    """A data set whose loaders give :class:`NodeBatch`.

    The constructor checks all its arguments, before anything is read, drawn or downloaded.
    """

    #: Accepted values of an argument ``name``, if there is one.
    names: ClassVar[tuple[str, ...]] = ()
    #: The schema of the trained model that the data is read for; None if it is read to train.
    adopted: Schema | None = None
    #: What happens to columns and categories that a trained model misses or does not know.
    on_unknown: Unknown = "error"

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """Number of classes, or of labels or numbers to predict."""

    @property
    @abstractmethod
    def num_features(self) -> int | tuple[int, ...]:
        """Width of the node features; for integer features, the number of values of each column."""

    @property
    def num_edge_features(self) -> int:
        """Number of features of an edge; 0 if edges have none."""
        return 0

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; their numbers if they have no names."""
        return [str(number) for number in range(self.num_classes)]

    @property
    def node_ids(self) -> np.ndarray | None:
        """Names of the nodes, integers or text; None if they have no names."""
        return None

    @property
    def task(self) -> str:
        """Name of the task to train, unless another is asked for: ``multiclass``, ``binary``,
        ``multilabel`` or so."""
        return "multiclass"

    @property
    def schema(self) -> Schema:
        """What a model that is trained on this data expects of other data."""
        return Schema(
            self.num_features,
            self.task,
            tuple(self.class_names),
            self.per_graph,
            num_edge_features=self.num_edge_features,
        )

    def read_as(
        self, schema: Schema, unknown: Unknown | None = None, targets: bool = True
    ) -> "GraphDataModule":
        """This data, read for a model that was trained on data with another schema.

        Args:
            schema: That of the model.
            unknown: Refuse columns and categories that the model misses or does not know
                (``error``), or ``ignore`` them; by default as the data set's own option says.
            targets: Read the targets and the split; predictions need neither.

        Raises:
            DataError: The model cannot use this data.
        """
        schema.check_like(self.schema)
        return self

    @property
    def about(self) -> str:
        """The sizes of the data in words, which a run begins with."""
        outputs = {"multilabel": "labels", "regression": "numbers to predict"}.get(
            self.task, "classes"
        )
        return f"{self.num_classes} {outputs}"

    @property
    def notes(self) -> list[str]:
        """Sentences on choices that the data left open, and on what harms training.

        They are logged when the data is read.
        """
        return []

    @property
    def per_graph(self) -> bool:
        """True if each graph has a target, not each node."""
        return False

    @property
    @abstractmethod
    def checksum(self) -> str:
        """SHA-256, in hex, of the data that training sees: equal for equal data under any name."""

    def state_dict(self) -> dict[str, Any]:
        """The class names, because a model knows its classes only by position."""
        return {"class_names": self.class_names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Check that a checkpoint was trained on the same classes.

        Raises:
            DataError: The class names differ, or are none.
        """
        if not isinstance(state_dict, dict) or not isinstance(state_dict.get("class_names"), list):
            raise DataError("the checkpoint does not tell the classes it was trained on.")
        trained, here = state_dict["class_names"], self.class_names
        if trained != here:
            raise DataError(
                f"the checkpoint was trained on the classes {', '.join(trained)}, and this data "
                f"has {', '.join(here)}."
            )


class FullBatches:
    """The loaders of a data set whose single ``batch`` serves every stage; a mixin, listed before
    the base class."""

    batch: Any  # a NodeBatch

    def train_dataloader(self) -> FullBatch:
        return FullBatch(self.batch)

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


class NodeDataModule(FullBatches, GraphDataModule):
    """A data set that is one graph, or several side by side, trained on in full batches.

    A subclass reads the graph in :meth:`load`, which is called once, on first use; the result is
    checked here.
    """

    #: The file that the data comes from, which its errors name; empty without one.
    origin = ""

    @abstractmethod
    def load(self) -> NodeBatch:
        """Read the data.

        Raises:
            ValueError: The files are missing, damaged or inconsistent; the message says what to do.
        """

    @contextmanager
    def naming_origin(self) -> Iterator[None]:
        """Begin the errors inside with the file that the data comes from."""
        try:
            yield
        except ValueError as error:
            if not self.origin:
                raise DataError(str(error)) from None
            raise DataError(f"graph {self.origin!r} is refused: {error}") from None

    @cached_property
    def loaded(self) -> NodeBatch:
        """The whole graph as it was read, for a set that erases features: those that are unknown
        are NaN."""
        # A tensor made in inference mode could not be trained with later.
        with torch.inference_mode(False):
            batch = self.load()
        rows = batch.graph.num_graphs if batch.per_graph else None
        with self.naming_origin():
            trained = self.adopted is not None
            check_nodes(batch.x, batch.y, batch.graph.num_nodes, batch.masks, rows, trained)
        self._notes = self.remarks(batch)
        for note in self._notes:
            rank_zero_only(log.warning)(note)
        return batch

    def remarks(self, batch: NodeBatch) -> list[str]:
        """Sentences that a user should read about data that was just read."""
        return class_notes(batch.y, batch.train_mask)

    @cached_property
    def batch(self) -> NodeBatch:
        """The whole graph.

        Raises:
            DataError: The data is missing, damaged or inconsistent, or features are not finite.
        """
        loaded = self.loaded
        with self.naming_origin():
            check_finite(loaded.x)
        return loaded

    @property
    def num_classes(self) -> int:
        return num_outputs_of(self.loaded.y)

    @property
    def task(self) -> str:
        return task_of(self.loaded.y)

    @property
    def schema(self) -> Schema:
        batch = self.loaded
        counts = class_counts(batch.y, batch.train_mask)
        return replace(super().schema, train_counts=counts, train_rows=int(batch.train_mask.sum()))

    @property
    def per_graph(self) -> bool:
        return self.loaded.per_graph

    @property
    def num_features(self) -> int:
        return self.loaded.x.shape[1]

    @property
    def num_edge_features(self) -> int:
        return self.loaded.graph.edge_channels

    @property
    def notes(self) -> list[str]:
        _ = self.loaded
        return self._notes

    @property
    def about(self) -> str:
        batch = self.batch
        sets = "{:,}, {:,} and {:,}".format(*(int(mask.sum()) for mask in batch.masks))
        graphs, rows = "", "nodes"
        if batch.per_graph:
            graphs, rows = f"{batch.graph.num_graphs:,} graphs, ", "graphs"
        return (
            f"{graphs}{batch.graph.num_nodes:,} nodes, {len(batch.graph.source):,} edges, "
            f"{self.num_features:,} "
            f"features, {super().about}; {sets} {rows} to train, validate and test on"
        )

    @property
    def checksum(self) -> str:
        graph = self.batch.graph
        tensors = [*self.batch.tensors]
        if graph.node_to_graph is not None:
            tensors.append(graph.node_to_graph)
        return fingerprint(*tensors, *graph.of_edges(slice(None)).values())


class WrapsSource:
    """Classes, ids and task of a data set made from another one, its ``source``.

    A mixin: list it before the base class.
    """

    source: NodeDataModule
    num_classes: Any = property(attrgetter("source.num_classes"))
    num_edge_features: Any = property(attrgetter("source.num_edge_features"))
    class_names: Any = property(attrgetter("source.class_names"))
    node_ids: Any = property(attrgetter("source.node_ids"))
    task: Any = property(attrgetter("source.task"))
    notes: Any = property(attrgetter("source.notes"))
    schema: Any = property(attrgetter("source.schema"))

    def read_as(self, schema: Schema, unknown: Unknown | None = None, targets: bool = True) -> Any:
        """This data set made from its source, which is read for a trained model."""
        other: Any = copy_unread(self)
        other.source = self.source.read_as(schema, unknown, targets)
        return other

    def remarks(self, batch: NodeBatch) -> list[str]:
        """None: the source has said what is to be said."""
        return []

    def refuse_graphs(self) -> None:
        """Refuse a source whose targets are of whole graphs."""
        if self.source.per_graph:
            raise DataError(
                f"{type(self).__name__} is for targets of nodes, and those of its source are of "
                "graphs."
            )


Module = TypeVar("Module")


def copy_unread(data: Module) -> Module:
    """A copy of a data set that has not read anything yet."""
    other = copy.copy(data)
    for cls in type(data).__mro__:
        for name, value in vars(cls).items():
            if isinstance(value, cached_property):
                vars(other).pop(name, None)
    return other


def masks_of(stage: str, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of rows that are all to ``train``, ``val`` or ``test``."""
    train, val, test = (torch.full((count,), stage == split) for split in SPLITS)
    return train, val, test


def fingerprint(*tensors: Tensor) -> str:
    """SHA-256, in hex, of tensors with their shapes and types.

    Equal data gives an equal fingerprint, independent of names and paths. A different split,
    missing-feature mask or file changes it.
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def normalize_rows(x: Tensor) -> Tensor:
    r"""Divide each row by the sum of its absolute values, in place; rows of zeros stay as they are.

    .. math:: x_i \leftarrow x_i / \|x_i\|_1
    """
    size = torch.linalg.vector_norm(x, 1, dim=1, keepdim=True)
    return x.div_(size.masked_fill_(size == 0, 1))


def coalesce(edge_index: Tensor, num_nodes: int, undirected: bool) -> Tensor:
    """The distinct edges; with ``undirected``, in both directions."""
    if undirected:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    key = torch.unique(edge_index[0] * num_nodes + edge_index[1])
    return torch.stack([key.div(num_nodes, rounding_mode="floor"), key % num_nodes])
