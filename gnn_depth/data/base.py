"""The base classes of every data set: batches of nodes, their loaders and DataModules."""

import copy
import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

import lightning as L
import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.builder import build, resolved
from gnn_depth.data.batch import NodeBatch as NodeBatch  # others import it from here
from gnn_depth.data.checks import (
    SPLITS,
    DataError,
    check_batch,
    check_finite,
    class_counts,
    class_notes,
    num_outputs_of,
    task_of,
)
from gnn_depth.data.node_order import NodeOrder, ordered
from gnn_depth.data.schema import Schema, Unknown
from gnn_depth.data.transforms import Transforms, transformed
from gnn_depth.part_specs import items_of

log = logging.getLogger(__name__)


@dataclass(eq=False)
class FullBatch:
    """A loader whose single batch is the whole graph, without the workers, collation and sampler of
    a DataLoader.

    Attributes:
        batch: The graph.
    """

    batch: NodeBatch

    @property
    def shared(self) -> bool:
        """True if all processes get the same batch: diagnostics average over them instead of adding
        them up."""
        return not self.batch.graph.is_shard

    def __iter__(self) -> Iterator[NodeBatch]:
        yield self.batch

    def __len__(self) -> int:
        return 1


class GraphDataModule(L.LightningDataModule, ABC):
    """A data set whose loaders give :class:`NodeBatch`; by default its ``batch``, at every stage.

    The constructor checks all its arguments, before anything is read, drawn or downloaded.

    Losses and metrics do not depend on the order of the nodes, so they are computed in the order of
    ``node_order``. What has a row for each node, the predictions, comes from ``batch`` itself.
    """

    #: Accepted values of an argument ``name``, if there is one.
    names: ClassVar[tuple[str, ...]] = ()
    #: The schema of the trained model that the data is read for; None if it is read to train.
    adopted: Schema | None = None
    #: What happens to columns and categories that a trained model misses or does not know.
    on_unknown: Unknown = "error"
    #: True if the rows to train, validate and test on were drawn at random when it was read.
    split_is_random: bool = False
    batch: Any  # a NodeBatch; subclasses have it as a property, which may not replace an attribute
    #: The order to compute in: see :func:`gnn_depth.data.node_order.ordered`.
    node_order: NodeOrder = "given"

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
        """Names of the nodes, integers or text; of nodes without names that transforms have kept,
        their numbers before; None if the batch numbers them."""
        return None

    @property
    def task(self) -> str:
        """Name of the task to train, unless another is asked for: ``multiclass``, ``binary``,
        ``multilabel`` or so."""
        return "multiclass"

    @property
    def schema(self) -> Schema:
        """The schema that other data must fit to be read by a model trained on this data."""
        return Schema(
            self.num_features,
            self.task,
            tuple(self.class_names),
            self.per_graph,
            num_edge_features=self.num_edge_features,
        )

    def conform_to(
        self, schema: Schema, unknown: Unknown = "error", targets: bool = True
    ) -> "GraphDataModule":
        """This data, read for a model that was trained on data with another schema.

        Args:
            schema: That of the model.
            unknown: Refuse columns and categories that the model misses or does not know
                (``error``), or ``ignore`` them.
            targets: Read the targets and the split; predictions need neither.

        Raises:
            DataError: The model cannot use this data.
        """
        own = self.schema
        # In this order: with another shape of x nothing else needs to be compared.
        for name in ("num_features", "num_edge_features", "task", "per_graph", "outputs"):
            trained, here = getattr(schema, name), getattr(own, name)
            if trained != here:
                raise DataError(
                    f"the model was trained on data with {name} {trained}, and this data has "
                    f"{here}."
                )
        return self

    def with_all_rows_as_test(self) -> "GraphDataModule":
        """This data with all rows that have a target in the test set.

        It is asked for where :attr:`split_is_random`.
        """
        return self

    @property
    def about(self) -> str:
        """The sizes of the data in words, which a run begins with."""
        words = {"multilabel": "label(s)", "regression": "number(s) to predict"}
        return f"{self.num_classes} {words.get(self.task, 'classes')}"

    def __str__(self) -> str:  # Lightning's would list loaders
        return f"{type(self).__name__}: {self.about}"

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

    @cached_property
    def ordered_batch(self) -> NodeBatch:
        """The batch with its nodes in the order to compute in."""
        return ordered(self.batch, self.node_order)

    def train_dataloader(self) -> Iterable[NodeBatch]:
        return FullBatch(self.ordered_batch)

    val_dataloader = test_dataloader = train_dataloader

    def predict_dataloader(self) -> Iterable[NodeBatch]:
        return FullBatch(self.batch)  # in the order of the data, which predictions keep

    def state_dict(self) -> dict[str, list[str]]:
        """The class names, because a model knows its classes only by position."""
        return {"class_names": self.class_names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Check that a checkpoint was trained on the same classes.

        Raises:
            DataError: The class names differ.
        """
        trained, here = state_dict.get("class_names"), self.class_names
        if trained != here:
            raise DataError(
                f"the checkpoint was trained on the classes {trained}, and this data has {here}."
            )


class NodeDataModule(GraphDataModule):
    """A data set that is one graph, or several side by side, trained on in full batches.

    A subclass reads the graph in :meth:`load`, which is called once, on first use; the result is
    checked here.

    Args:
        transforms: Transforms that are applied to the graph after it is read, registered ones or
            PyTorch Geometric's: names, or names with options, such as ``{name: AddRandomWalkPE,
            walk_length: 8}``.

    Attributes:
        kept: After transforms, the number that each node had before them; None without.
    """

    #: The file that the data comes from, which its errors name; empty without one.
    origin = ""
    #: Determines what transforms draw at random.
    seed = 0
    #: Divide each node's features by the sum of their absolute values.
    normalize_features = False
    #: Names of the nodes before any transform, set by :meth:`load`; None if they have none.
    all_ids: np.ndarray | None = None
    #: The rows that have a target, before any transform, set by :meth:`load`; None if all have one.
    labelled: Tensor | None = None

    def __init__(self, transforms: Transforms = []) -> None:  # noqa: B006  (read only)
        super().__init__()
        self.transforms: list[object] = resolved("transform", items_of(transforms))
        self._transforms: list[Any] = build("transform", self.transforms)
        self.kept: Tensor | None = None

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
            refused = f"graph {self.origin!r} is refused: " if self.origin else ""
            raise DataError(f"{refused}{error}") from None

    @cached_property
    def loaded(self) -> NodeBatch:
        """The whole graph as it was read, for a set that erases features: those that are unknown
        are NaN."""
        # A tensor made in inference mode could not be trained with later.
        with torch.inference_mode(False):
            batch = self.load()
            notes: list[str] = []
            if self.normalize_features:
                # In place; rows of zeros stay as they are.
                torch.nn.functional.normalize(batch.x, p=1, eps=1e-38, out=batch.x)
            if self._transforms:
                with self.naming_origin():
                    batch, self.kept, notes = transformed(
                        batch, self._transforms, self.labelled, self.seed
                    )
        with self.naming_origin():
            check_batch(batch, trained=self.adopted is not None)
        self._notes = [*self.remarks(batch), *notes]
        for note in self._notes:
            rank_zero_only(log.warning)(note)
        return batch

    @property
    def node_ids(self) -> np.ndarray | None:
        _ = self.loaded
        ids = self.all_ids
        if self.kept is None:
            return ids
        kept = self.kept.numpy()
        return kept if ids is None else ids[kept]

    def remarks(self, batch: NodeBatch) -> list[str]:
        """Sentences that a user should read about data that was just read."""
        return class_notes(batch.y, batch.masks)

    @cached_property
    def batch(self) -> NodeBatch:
        """The whole graph.

        Raises:
            DataError: The data is missing, damaged or inconsistent, or features are not finite.
        """
        # Apart from loaded, because MissingFeatures may erase the features that are not finite.
        loaded = self.loaded
        with self.naming_origin():
            check_finite(loaded.x)
        return loaded

    @property
    def num_classes(self) -> int:
        # New data need not have all classes of the model.
        if self.adopted is not None:
            return len(self.adopted.outputs)
        return num_outputs_of(self.loaded.y)

    @property
    def task(self) -> str:
        if self.adopted is not None:
            return self.adopted.task
        return task_of(self.loaded.y)

    @property
    def schema(self) -> Schema:
        batch = self.loaded
        return replace(
            super().schema,
            train_counts=class_counts(batch.y, batch.train_mask),
            transforms=tuple(self.transforms),
            transforms_seed=self.seed if self.transforms else None,
        )

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
            f"{graphs}{batch.graph.num_nodes:,} nodes, {batch.graph.num_edges:,} edges, "
            f"{self.num_features:,} features, {super().about}; "
            f"{sets} {rows} to train, validate and test on"
        )

    @property
    def checksum(self) -> str:
        graph = self.batch.graph
        tensors = [*self.batch.tensors]
        # Appended where they exist, so that plain graphs keep the checksum of their runs.
        if graph.node_to_graph is not None:
            tensors.append(graph.node_to_graph)
        return fingerprint(*tensors, *graph.of_edges(slice(None)).values())


def of_source(name: str) -> Any:
    """A property that is the source's."""
    return property(attrgetter(f"source.{name}"))


class WrapsSource:
    """Classes, ids and task of a data set made from another one, its ``source``.

    A mixin: list it before the base class.
    """

    source: NodeDataModule

    def conform_to(
        self, schema: Schema, unknown: Unknown = "error", targets: bool = True
    ) -> GraphDataModule:
        """This data set made from its source, which is read for a trained model."""
        return self._made_from(self.source.conform_to(schema, unknown, targets))

    def with_all_rows_as_test(self) -> GraphDataModule:
        """This data set made from its source, all of whose rows are to test on."""
        return self._made_from(self.source.with_all_rows_as_test())

    def _made_from(self, source: GraphDataModule) -> GraphDataModule:
        other: Any = copy_unread(self)
        other.source = source
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


# Properties of the base classes, which __getattr__ would not reach.
for _name in (
    "num_classes",
    "num_edge_features",
    "class_names",
    "node_ids",
    "node_order",
    "task",
    "notes",
    "schema",
    "split_is_random",
):
    setattr(WrapsSource, _name, of_source(_name))

Module = TypeVar("Module")


def copy_unread(data: Module) -> Module:
    """A copy of a data set that has not read anything yet."""
    other = copy.copy(data)
    # What was read, and all that was computed of it, is kept in cached properties.
    for name in vars(data):
        if isinstance(getattr(type(data), name, None), cached_property):
            delattr(other, name)
    return other


def masks_of(stage: str, count: int) -> tuple[Tensor, ...]:
    """Masks of rows that are all to ``train``, ``val`` or ``test``."""
    return tuple(torch.full((count,), stage == split) for split in SPLITS)


def fingerprint(*tensors: Tensor) -> str:
    """SHA-256, in hex, of tensors with their shapes and types.

    Equal data gives an equal fingerprint, independent of names and paths. A different split,
    missing-feature mask or file changes it.
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        # Without the shapes, bytes could move from one tensor to the next unnoticed.
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
