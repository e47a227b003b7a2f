"""How far the nodes' states are from being equal in every layer, over a training."""

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
from gnn_depth.diagnostics.watch import Inputs, InputStates

QUANTITIES = (
    Quantity("representation_similarity", "representation_similarity/mu_log10", "mu(X)"),
    Quantity("representation_similarity_relative", "representation_similarity/relative_log10", "mu(X) / ||X||"),
)


class RepresentationSimilarity(EveryLayer):
    r"""How far the rows of what enters a layer are from being equal, and that as a share of its norm.

    .. math:: \mu(X^l) = \Big\| X^l - \tfrac1N 1 1^T X^l \Big\|_F, \quad \frac{\mu(X^l)}{\|X^l\|_F}

    for :math:`X^l`, the first argument of layer l of any LightningModule (in our stacks before dropout), in the passes
    that are trained on. Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024, show
    it beside that of the gradients. Both fall with depth where representations smooth out; only mu falls where they
    vanish.

    The batches of a step are parts of one, whose rows are those of all of them, and so are those of all processes.
    Where all processes have the same batch (a loader whose attribute ``shared`` is true), it is the root mean square
    over them instead, which may differ by their dropout. NaN where a layer is not called with a tensor of
    floating-point numbers, and of a share where all of them are zero. Hooks are there in the steps that are measured
    only, and in these our layers run uncompiled.

    Loggers show the logarithms as ``representation_similarity/mu_log10/layer_007`` and
    ``representation_similarity/relative_log10/...``; ``measures/representation_similarity.npz`` and
    ``..._relative.npz`` in the run's folder have all of them.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step. The first and the last step of a
            training are always measured.

    Raises:
        ValueError: A cadence is not positive, or both are given.
        MisconfigurationException: No module has such a name, the strategy has no whole layers in one place, or the
            training has another RepresentationSimilarity.
    """

    def __init__(
        self, layers: str = "stack.layers.*", every_n_steps: int | None = None, every_n_epochs: int | None = None
    ) -> None:
        self.sink = Sink(QUANTITIES)
        self._spreads = Spreads()
        super().__init__(self.sink, layers, every_n_steps, every_n_epochs)

    def _watch(self, modules: Sequence[nn.Module]) -> Inputs:
        return InputStates(modules, counted_rows)

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        spread = self._spreads.of_states(trainer, self._inputs)
        return unless_unseen(spread, torch.stack([similarity(spread), relative_similarity(spread)]))
