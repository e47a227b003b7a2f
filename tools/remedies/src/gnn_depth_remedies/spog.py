"""SPoGInit: an initialisation that searches for the scale of every layer on the graph itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth import DeepGNN, Graph, Init, register
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.inits import Xavier
from gnn_depth.ranges import Positive, Range
from gnn_depth.registry import described
from gnn_depth.torch_internals import hooks_of

Steps: TypeAlias = Annotated[int, Range(0, 10_000)]
Objective: TypeAlias = Callable[[Tensor], float]
#: Random directions of a step, and the length of a trial along one. Theirs is 1e-5, a difference
#: that float32 does not resolve.
DIRECTIONS, TRIAL = 3, 1e-3
#: The step size is multiplied by DECAY after so many steps.
DECAY_EVERY, DECAY = 20, 0.7
#: The search ends when so many steps bring nothing.
PATIENCE = 10
SMALLEST = 1e-3  # of a scale
NOT_FINITE = 1e30  # the objective where a number is not


@contextmanager
def without_hooks(module: nn.Module) -> Iterator[None]:
    """Take the hooks of a module and of all inside it away for a while."""
    taken = []
    for each in module.modules():
        for hooks in hooks_of(each):
            taken.append((hooks, dict(hooks)))
            hooks.clear()
    try:
        yield
    finally:
        for hooks, before in taken:
            hooks.update(before)


@register("init", "spog")
class SPoG(Init):
    r"""SPoGInit: scale every layer until states, gradients and smoothness keep their size.

    The matrices of layer l are those of another initialisation times a number :math:`s_l`. A random
    search looks for the least

    .. math::
        \Big( \frac{\|X^1\|}{\|X^L\|} - 1 \Big)^2
        + \Big( \frac{\|G_2\|}{\|G_{L-1}\|} - 1 \Big)^2
        + \big( D(X) - D(X^L) \big)^2, \qquad
        D(X) = \frac{1}{2C} \sum_{k=1}^C \frac{x_k^\top (I - \hat A) x_k}{x_k^\top x_k}

    where X are the features, :math:`X^l` the output of block l, :math:`G_l` the gradient of the
    matrices of layer l, :math:`x_k` the C columns, and :math:`\hat A` that of
    :class:`gnn_depth.nn.layers.GCN`. All scales start at 1. In each step they move by the step
    size, against the sign of a slope that three random directions estimate; the best ones of all
    steps stay. Wang, Chen, Zhang, Sun & Ding, *Exploring and Improving Initialization for Deep
    Graph Neural Networks: A Signal Propagation Perspective*, TMLR 2025. An initialisation has no
    labels: here the gradients are those of a cross entropy with random ones.

    The graph and the features are those of the first pass: with full batches, all; with
    mini-batches, those of the first one. A step takes four passes, forwards and backwards. A stack
    of one layer has no second term.

    Args:
        base: The initialisation that draws the parameters.
        steps: Most steps; the search ends when 10 steps bring nothing.
        step_size: The first step size; it falls by 30% every 20 steps.

    Raises:
        ValueError: On a call, a layer has no weight chain; in the first pass, features are
            integers, or states or gradients are zero or not finite.
    """

    needs_data = True

    def __init__(
        self,
        base: Init = Xavier(),  # noqa: B008  (holds no state)
        steps: Steps = 100,
        step_size: Positive = 0.05,
    ) -> None:
        self.base = base
        self.steps = steps
        self.step_size = step_size

    def draw(self, stack: DeepGNN) -> None:
        for layer in stack.layers:
            layer.weight_chain()  # refuses layers without one
        self.base.draw(stack)

    def calibrate(self, stack: DeepGNN, x: Tensor, graph: Graph) -> None:
        if not x.is_floating_point():
            raise ValueError(
                f"{described(type(self))} compares the features' smoothness with that of states, "
                "and these are integers: use another initialisation."
            )
        # Dropout would make the objective random, and norms would average over these passes.
        was_training = stack.training
        stack.eval()
        try:
            with without_hooks(stack):  # these passes are not measured
                trial = _Trial(stack, x, graph)
                scales = self._search(trial.value, trial.count)
                trial.set_scales(scales)
        finally:
            stack.train(was_training)

    def _search(self, objective: Objective, count: int) -> Tensor:
        """The best scales found, shape (count,)."""
        scales = torch.ones(count, dtype=torch.float64)
        best, least, waited = scales, float("inf"), 0
        size = self.step_size
        for step in range(self.steps):
            value = objective(scales)
            if step == 0 and value >= NOT_FINITE:
                raise ValueError(
                    f"{described(type(self))} starts from states or gradients that are zero or "
                    "not finite: use another base, or fewer layers."
                )
            # A trial is noisy, so a worse step is no reason to stop.
            waited += 1
            if value < least:
                best, least, waited = scales, value, 0
            if waited >= PATIENCE:
                break
            slope = torch.zeros_like(scales)
            for _ in range(DIRECTIONS):
                direction = torch.randn(count, dtype=torch.float64)
                slope += (objective(scales + TRIAL * direction) - value) * direction
            scales = (scales - size * slope.sign()).clamp_min(SMALLEST)
            if (step + 1) % DECAY_EVERY == 0:
                size *= DECAY
        return best


class _Trial:
    """The objective of a stack on a graph, as a function of the layers' scales.

    A layer that stands at several positions has one scale.

    Args:
        stack: The stack, in evaluation.
        x: The features.
        graph: The graph.
    """

    def __init__(self, stack: DeepGNN, x: Tensor, graph: Graph) -> None:
        self.stack = stack
        self.x = x
        self.graph = graph
        self.matrices: dict[nn.Module, list[Tensor]] = {}
        self.drawn: dict[nn.Module, list[Tensor]] = {}
        for layer in stack.layers:
            self.matrices[layer] = layer.weight_chain().matrices
            self.drawn[layer] = [weight.detach().clone() for weight in self.matrices[layer]]
        self.count = len(self.matrices)
        self.smoothness = _smoothness(x, graph)
        with torch.no_grad():
            outputs = stack(x, graph)
        self.labels = torch.randint(outputs.shape[1], (len(outputs),), device=x.device)

    def set_scales(self, scales: Tensor) -> None:
        with torch.no_grad():
            for layer, scale in zip(self.matrices, scales.tolist(), strict=True):
                for weight, drawn in zip(self.matrices[layer], self.drawn[layer], strict=True):
                    weight.copy_(drawn * scale)

    def value(self, scales: Tensor) -> float:
        self.set_scales(scales)
        states: list[Tensor] = []
        handles = []
        for block in self.stack.blocks:
            handles.append(block.register_forward_hook(lambda *call: states.append(call[2])))
        layers = list(self.stack.layers)
        second = self.matrices[layers[1 % len(layers)]]
        last_but_one = self.matrices[layers[-2 % len(layers)]]
        try:
            with torch.enable_grad():  # initialisations run without gradients
                loss = F.cross_entropy(self.stack(self.x, self.graph), self.labels)
                gradients = torch.autograd.grad(
                    loss, [*second, *last_but_one], allow_unused=True, materialize_grads=True
                )
        finally:
            for handle in handles:
                handle.remove()
        first, last = states[0].detach().double(), states[-1].detach().double()
        total = (first.norm() / last.norm() - 1).square()
        total = total + (self.smoothness - _smoothness(last, self.graph)).square()
        if len(layers) > 1:
            norms = torch.stack([gradient.double().norm() for gradient in gradients])
            ratio = norms[: len(second)].norm() / norms[len(second) :].norm()
            total = total + (ratio - 1).square()
        if not total.isfinite():
            return NOT_FINITE
        return float(total)


def _smoothness(x: Tensor, graph: Graph) -> Tensor:
    r"""D(X): half the mean over the columns of their Rayleigh quotients with :math:`I - \hat A`.

    A column of zeros has the quotient 0.
    """
    x = x.detach().double()
    graph = graph.with_self_loops()
    smoothed = aggregate(graph.gcn_weights(torch.float64), x, graph)
    energy = (x * (x - smoothed)).sum(0)
    return (energy / x.square().sum(0).clamp_min(1e-300)).mean() / 2
