"""How far the nodes' gradients are from being equal in every layer, over a training."""

from collections.abc import Sequence

import lightning as L
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.every_layer import EveryLayer
from gnn_depth.diagnostics.measures import relative_similarity, similarity
from gnn_depth.diagnostics.sink import Quantity, Sink
from gnn_depth.diagnostics.spreads import Spreads, counted_rows, unless_unseen
from gnn_depth.diagnostics.watch import InputGradients

QUANTITIES = (
    Quantity("gradient_similarity", "gradient_similarity/mu_log10", "mu(G)"),
    Quantity("gradient_similarity_relative", "gradient_similarity/relative_log10", "mu(G) / ||G||"),
)


class GradientSimilarity(EveryLayer):
    r"""How far the rows of a layer's gradient are from being equal, and that as a share of its norm.

    .. math:: \mu(G^l) = \Big\| G^l - \tfrac1N 1 1^T G^l \Big\|_F, \quad \frac{\mu(G^l)}{\|G^l\|_F}, \qquad
        G^l = \partial \mathrm{loss} / \partial X^l

    for :math:`X^l`, which enters layer l of any LightningModule (its first argument; in our stacks before dropout),
    with the gradient through everything that reads it. Park & Kim, *Taming Gradient Oversmoothing and Expansion in
    Graph Neural Networks*, 2024: it falls with depth where gradients smooth out, and grows where they expand. The share
    falls only where they smooth out, whatever their size.

    The gradients are those of the loss that the optimizer's step lowers: without the scaling of mixed precision, before
    clipping. The batches of a step are parts of one, whose rows are those of all of them; so are those of all
    processes, each with its part of the mean loss. Where all processes have the same batch (a loader whose attribute
    ``shared`` is true), it is the root mean square over them instead. Zero where the loss does not depend on a state,
    whose share is NaN; NaN where a layer has no state with a gradient. Hooks are there in the steps that are measured
    only, and in these our layers run uncompiled.

    Loggers show the logarithms as ``gradient_similarity/mu_log10/layer_007`` and
    ``gradient_similarity/relative_log10/...``; ``measures/gradient_similarity.npz`` and ``..._relative.npz`` in the
    run's folder have all of them.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step. The first and the last step of a
            training are always measured.

    Raises:
        ValueError: A cadence is not positive, or both are given.
        MisconfigurationException: No module has such a name, the strategy has no whole layers in one place, or the
            training has another GradientSimilarity.
    """

    _inputs: InputGradients

    def __init__(
        self, layers: str = "stack.layers.*", every_n_steps: int | None = None, every_n_epochs: int | None = None
    ) -> None:
        self.sink = Sink(QUANTITIES)
        self._spreads = Spreads()
        super().__init__(self.sink, layers, every_n_steps, every_n_epochs)

    def _watch(self, modules: Sequence[nn.Module]) -> InputGradients:
        return InputGradients(modules, counted_rows)

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        spread = self._spreads.of_gradients(trainer, self._inputs)
        return unless_unseen(spread, torch.stack([similarity(spread), relative_similarity(spread)]))
