"""Who is measured, and what comes of it in an epoch of one batch."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gnn_depth.data.base import NodeBatch
from gnn_depth.training.metrics import accuracy, auroc, confusion, macro_f1


@dataclass(frozen=True, eq=False)
class Measured:
    """The nodes of one or more sets, one set after the other, and their classes.

    Attributes:
        names: Names of the sets.
        sizes: Number of nodes of each.
        nodes: The nodes.
        classes: The class of each.
        num_classes: Number of classes.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    nodes: Int[Tensor, "measured"]
    classes: Int[Tensor, "measured"]
    num_classes: int

    @classmethod
    def of(cls, y: Int[Tensor, "nodes"], masks: dict[str, Tensor], num_classes: int) -> "Measured":
        """The nodes of masks; a set without nodes is left out."""
        found = {name: mask.nonzero().flatten() for name, mask in masks.items()}
        found = {name: nodes for name, nodes in found.items() if len(nodes)}
        nodes = torch.cat([y.new_zeros(0), *found.values()])
        return cls(tuple(found), tuple(len(nodes) for nodes in found.values()), nodes, y[nodes], num_classes)

    @cached_property
    def rows(self) -> Int[Tensor, "measured"]:
        """The first cell of each node's row in the confusion matrices of all sets, one matrix after the other."""
        sets = [torch.full((size,), place, device=self.nodes.device) for place, size in enumerate(self.sizes)]
        return (torch.cat([self.nodes.new_zeros(0), *sets]) * self.num_classes + self.classes) * self.num_classes

    def counts(self, scores: Float[Tensor, "measured classes"]) -> Float[Tensor, "sets classes classes"]:
        """The confusion matrix of each set."""
        return confusion(self.rows + scores.argmax(-1), len(self.names), self.num_classes)

    def metrics(self, counts: Float[Tensor, "sets classes classes"]) -> dict[str, Float[Tensor, ""]]:
        """Accuracy and macro F1 of each set."""
        by_name = {"acc": accuracy(counts).unbind(), "f1": macro_f1(counts).unbind()}
        return {f"{name}/{metric}": row[i] for i, name in enumerate(self.names) for metric, row in by_name.items()}

    def areas(self, scores: Float[Tensor, "measured classes"]) -> dict[str, Float[Tensor, ""]]:
        """ROC AUC of each set of a binary task."""
        # The difference of the scores ranks the nodes as the probabilities do, and never saturates.
        margins = (scores[:, 1].double() - scores[:, 0].double()).split_with_sizes(self.sizes)
        pairs = zip(self.names, margins, self.classes.split_with_sizes(self.sizes), strict=True)
        return {f"{name}/auroc": auroc(margin, classes) for name, margin, classes in pairs}

    def losses(self, scores: Float[Tensor, "measured classes"]) -> dict[str, Float[Tensor, ""]]:
        """Cross-entropy of the validation set, where there is one."""
        if "val" not in self.names:
            return {}
        place = self.names.index("val")
        of_val = (scores.split_with_sizes(self.sizes)[place], self.classes.split_with_sizes(self.sizes)[place])
        return {"val/loss": F.cross_entropy(*of_val)}


class Sets:
    """The sets of a batch: who is trained on, and who is evaluated.

    Found once per batch and kept: to look for the nodes of a mask costs as much as a metric, and on a GPU a wait.
    """

    def __init__(self, batch: NodeBatch, num_classes: int) -> None:
        self._seen = (batch.y, *batch.masks)
        self.train = Measured.of(batch.y, {"train": batch.train_mask}, num_classes)
        masks = {"val": batch.val_mask, "test": batch.test_mask}
        self.evaluated = Measured.of(batch.y, masks, num_classes)

    @classmethod
    def of(cls, batch: NodeBatch, num_classes: int, known: "Sets | None") -> "Sets":
        """The sets of a batch: the known ones if they are."""
        masks = (batch.y, *batch.masks)
        same = known is not None and all(old is new for old, new in zip(known._seen, masks, strict=True))
        return known if known is not None and same else cls(batch, num_classes)
