"""A linear model of the features and their means over neighbours: what a graph network must beat to
be worth its layers."""

import torch
from torch import Tensor

from gnn_depth.data.base import FullBatch, GraphDataModule
from gnn_depth.nn.functional import aggregate
from gnn_depth.training.epoch_metrics import EpochMetrics, NodeSets
from gnn_depth.training.loggers import in_numbers
from gnn_depth.training.tasks import Task

MOST_FITTED = 20_000_000  # a model of more numbers of the training nodes would take too long
STEPS = 30  # of L-BFGS
HOPS = 2


@torch.inference_mode(False)  # a caller may be in it, and nothing can be fitted there
def linear_metrics(task: Task, data: GraphDataModule) -> dict[str, float]:
    r"""Metrics of a linear model, fitted to the training nodes.

    .. math:: \min_{W, b} \; L(z W + b) / L_0 + \tfrac{1}{2n} \|W\|^2, \qquad z = [x, P x, P^2 x]

    P takes the mean over the neighbours, L is the loss of the task, L_0 that of W = 0 and b = 0,
    and n the number of training nodes, on which each of x, P x and P^2 x has deviation 1.

    Returns:
        Metrics such as ``test/acc``, of the validation and the test nodes. Empty for a model of too
        many numbers; if each graph has a target; if the features are integers, targets are missing
        or numbers to predict are not scaled; or if there is no single batch of all nodes.
    """
    loader = data.predict_dataloader()
    if data.per_graph or not isinstance(loader, FullBatch):
        return {}
    batch = loader.batch
    x = batch.x
    train = NodeSets(batch.y, [batch.train_mask], task)
    evaluated = NodeSets(batch.y, [batch.val_mask, batch.test_mask], task)
    rows = train.nodes
    is_small = 0 < len(rows) * x.shape[1] * (1 + HOPS) <= MOST_FITTED
    if not is_small or not x.is_floating_point() or train.targets.isnan().any():
        return {}
    if task.targets == "numbers" and not task.scalings:
        return {}
    means = [x.detach().float()]
    weights = batch.graph.mean_weights(torch.float32)
    for _ in range(HOPS):
        means.append(aggregate(weights, means[-1], batch.graph))
    blocks = []
    for block in means:
        deviation = block[rows].std(0, correction=0).square().mean().sqrt()
        blocks.append(block[: len(batch.y)] / torch.where(deviation > 0, deviation, 1.0))
    metrics = EpochMetrics(("val", "test"), task)
    outputs = _fitted(task, torch.cat(blocks, 1), train)
    metrics.add(evaluated, outputs[evaluated.nodes])
    return in_numbers(metrics.compute())


@torch.enable_grad()
def _fitted(task: Task, x: Tensor, train: NodeSets) -> Tensor:
    """The outputs of a linear model for all rows."""
    x_train, y_train, rows = x[train.nodes], train.targets, len(train.nodes)
    weight = x.new_zeros(x.shape[1], task.num_outputs, requires_grad=True)
    bias = x.new_zeros(task.num_outputs, requires_grad=True)

    # Where all targets are equal there is nothing to fit.
    loss_of_zero = task.loss(x_train @ weight + bias, y_train).detach().clamp_min(1e-12)
    # Convex for the tasks of this package; L-BFGS draws no random numbers.
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=STEPS, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        # Over the loss of zero: the penalty has the same strength for every task and unit.
        loss = task.loss(x_train @ weight + bias, y_train) / loss_of_zero
        penalty = weight.square().sum() / (2 * rows)
        total: Tensor = loss + penalty
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    return (x @ weight + bias).detach()
