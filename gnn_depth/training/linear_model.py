"""Linear models of the features, without edges and with means over neighbours: what a graph network
must beat to be worth its layers."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from gnn_depth.data.base import FullBatch, GraphDataModule, NodeBatch
from gnn_depth.data.features import columns_differ
from gnn_depth.nn.functional import aggregate
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets, classes_counted
from gnn_depth.training.tasks import Task

# A model of more numbers would take too long: of the training nodes, and of all nodes.
MOST_FITTED, MOST_COPIED = 20_000_000, 100_000_000
STEPS = 30  # of L-BFGS
#: What the two models see, in words.
ALONE = "the features alone"
WITH_MEANS = "the features and their means over 1 and 2 hops"


def linear_metrics(task: Task, data: GraphDataModule) -> dict[str, dict[str, float]]:
    r"""Metrics of two linear models, fitted to the training nodes.

    .. math:: \min_{W, b} \; L(z W + b) / L_0 + \tfrac{1}{2n} \|W\|^2, \qquad z = x
        \quad \mathrm{or} \quad z = [x, P x, P^2 x]

    P takes the mean over the neighbours, L is the loss of the task, L_0 that of W = 0 and b = 0,
    and n the number of training nodes. Each of x, P x and P^2 x has deviation 1 on them: each
    column where columns differ by orders of magnitude, else all together. Numbers to predict that
    the task does not scale are standardised.

    Returns:
        By :data:`ALONE` and :data:`WITH_MEANS`, metrics such as ``test/acc``, of the validation and
        the test nodes. A model of too many numbers is left out; so are both if each graph has a
        target, if the features are integers, or if there is no single batch of all nodes.
    """
    loader = data.predict_dataloader()
    if data.per_graph or not isinstance(loader, FullBatch):
        return {}
    batch = loader.batch
    is_readable = batch.x.is_floating_point() and batch.x.numel() <= MOST_COPIED
    if not is_readable or batch.graph.is_shard or not batch.train_mask.any():
        return {}
    # Its weights of classes may be on another device.
    task = copy.deepcopy(task)
    metrics = EpochMetrics(("val", "test"), task)
    masks = [batch.val_mask, batch.test_mask]
    sets = NodeSets(batch.y, masks, classes_counted(task))
    found = {}
    # A caller may be in inference mode, in which nothing can be fitted.
    with torch.inference_mode(False):
        for words, hops in ((ALONE, 0), (WITH_MEANS, 2)):
            blocks = _means(batch, hops)
            with torch.enable_grad():
                out = _fitted(task, batch, blocks)
            if out is not None:
                metrics.add(sets, out[sets.nodes])
                found[words] = {name: float(value) for name, value in metrics.compute().items()}
    return found


def _means(batch: NodeBatch, hops: int) -> list[Tensor]:
    """The features of the rows that have a target, and their means over 1 to some hops."""
    x = batch.x.detach().float()
    blocks = [x[: len(batch.y)]]
    with torch.no_grad():
        for _ in range(hops):
            x = aggregate(batch.graph.mean_weights(x.dtype), x, batch.graph)
            blocks.append(x[: len(batch.y)])
    return blocks


def _fitted(task: Task, batch: NodeBatch, blocks: Sequence[Tensor]) -> Tensor | None:
    """The outputs for all rows that have a target; None if there are too many numbers, or the
    loss leaves nothing to fit."""
    y = batch.y
    rows = batch.train_mask.nonzero().flatten()
    width = sum(block.shape[1] for block in blocks)
    if len(rows) * width > MOST_FITTED:
        return None
    x = torch.cat([_scaled(block, rows) for block in blocks], 1)
    center, size = _span_of_targets(task, y[rows])
    weight = x.new_zeros(x.shape[1], task.num_outputs, requires_grad=True)
    bias = x.new_zeros(task.num_outputs, requires_grad=True)
    x_train, y_train = x[rows], y[rows]

    def outputs(features: Tensor) -> Tensor:
        return center + size * (features @ weight + bias)

    loss_of_zero = task.loss(outputs(x_train), y_train).detach()
    if not torch.isfinite(loss_of_zero) or loss_of_zero <= 0:
        return None
    # Convex for the tasks of this package; L-BFGS draws no random numbers.
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=STEPS, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        # Over the loss of zero: the penalty has the same strength for every task and unit.
        loss = task.loss(outputs(x_train), y_train) / loss_of_zero
        penalty = weight.square().sum() / (2 * len(rows))
        total: Tensor = loss + penalty
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return outputs(x)


def _scaled(x: Tensor, rows: Tensor) -> Tensor:
    """Features with deviation 1 in the training rows: each column of different ones, else all."""
    deviation, mean = torch.std_mean(x[rows], 0, correction=0)
    if not columns_differ(x):  # such as words of a text, of which the rare ones say no more
        size = deviation.square().mean().sqrt()
        return x / torch.where(size > 0, size, 1.0)
    scaled = (x - mean) / torch.where(deviation > 0, deviation, 1.0)
    scaled[:, deviation == 0] = 0.0  # constant in training: of other rows it says nothing known
    return scaled


def _span_of_targets(task: Task, y: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of numbers to predict that the task does not scale; 0 and 1 otherwise."""
    if task.targets != "numbers" or task.scales_targets:
        return torch.zeros(()), torch.ones(())
    deviation, mean = torch.std_mean(y.view(len(y), -1).float(), 0, correction=0)
    return mean, torch.where(deviation > 0, deviation, 1.0)
