"""By how much every layer multiplies the differences of the nodes' gradients, over a training."""

from collections.abc import Sequence

import lightning as L
import torch
from jaxtyping import Float
from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.every_layer import EveryLayer
from gnn_depth.diagnostics.measures import log10_growth, log10_similarity, log10_total_growth
from gnn_depth.diagnostics.sink import Quantity, Sink
from gnn_depth.diagnostics.spreads import Spreads, counted_rows, last_seen, unless_unseen
from gnn_depth.diagnostics.watch import InputGradients

QUANTITIES = (
    Quantity("gradient_growth", "gradient_expansion/growth_log10", "mu(G^l) / mu(G^(l+1))", product=True),
    Quantity("gradient_expansion", "gradient_expansion/total_log10", "mu(G^l) / mu(G^L)"),
)


class GradientExpansion(EveryLayer):
    r"""By how much each layer multiplies what comes to it from the layer above, and all from there to the last.

    .. math:: \frac{\mu(G^l)}{\mu(G^{l+1})}, \quad \frac{\mu(G^l)}{\mu(G^L)} = \prod_{k=l}^{L-1}
        \frac{\mu(G^k)}{\mu(G^{k+1})}, \qquad \mu(G) = \Big\| G - \tfrac1N 1 1^T G \Big\|_F

    for the gradients :math:`G^l` of what enters layer l, as :class:`GradientSimilarity` has them, of the layers but the
    last one. Above one gradients expand on their way back, below they smooth out. Park & Kim, *Taming Gradient
    Oversmoothing and Expansion in Graph Neural Networks*, 2024: a residual layer multiplies them by up to 1 + ||W||.

    NaN where one of two layers has no state with a gradient, or both are zero; L is the last layer that has one.

    Loggers show the logarithms as ``gradient_expansion/growth_log10/layer_007``, those of the product of all layers as
    ``gradient_expansion/growth_log10/product``, and from each layer to the last as
    ``gradient_expansion/total_log10/...``; ``measures/gradient_growth.npz`` and ``gradient_expansion.npz`` in the run's
    folder have all of them.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step. The first and the last step of a
            training are always measured.

    Raises:
        ValueError: A cadence is not positive, or both are given.
        MisconfigurationException: Fewer than two modules have such a name, the strategy has no whole layers in one
            place, or the training has another GradientExpansion.
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

    def _numbered(self, layers: Sequence[int]) -> Sequence[int]:
        if len(layers) < 2:
            raise MisconfigurationException(
                f"GradientExpansion compares each layer with the next, and only one is called {self.layers!r}: "
                "take a pattern of several, or GradientSimilarity."
            )
        return layers[:-1]

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "quantities layers"]:
        spread = self._spreads.of_gradients(trainer, self._inputs)
        log10_mu = unless_unseen(spread, log10_similarity(spread))
        last = last_seen(spread.count, log10_mu)
        total = log10_total_growth(torch.stack([log10_mu[:-1], last.expand(len(log10_mu) - 1)], -1))
        return 10 ** torch.stack([log10_growth(log10_mu), total])
