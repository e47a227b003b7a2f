"""What was measured of one layer in one pass, as plain numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    r"""A layer's input X, the gradient G of the loss with respect to it, and the layer F itself.

    None stands for what was not or cannot be measured, NaN for what is not finite.

    Attributes:
        number: Of the layer, from 1.
        norm: :math:`\|X\|`.
        mu: :math:`\mu(X)`, how far the nodes are from being equal.
        zeros: The share of nodes that are zero in every channel.
        energy: The Dirichlet energy of X.
        rank: The effective rank of X.
        out: :math:`\|F(X)\|`.
        gradient: :math:`\|G\|`.
        gradient_mu: :math:`\mu(G)`.
        weight_gradient: The norm of the gradients of the parameters of F.
        stretch: The Lipschitz constant of F at X.
        scaled: The same at multiples of X, by the factor.
        bound: What the constant cannot exceed at any X.
        imbalance: Of the neurons of X, the median of \|c\| as a share of all squares around a neuron.
        defect: Of the same neurons, the largest \|delta\|.
    """

    number: int
    norm: float | None = None
    mu: float | None = None
    zeros: float | None = None
    energy: float | None = None
    rank: float | None = None
    out: float | None = None
    gradient: float | None = None
    gradient_mu: float | None = None
    weight_gradient: float | None = None
    stretch: float | None = None
    scaled: tuple[tuple[float, float], ...] = ()
    bound: float | None = None
    imbalance: float | None = None
    defect: float | None = None

    @property
    def share(self) -> float | None:
        r""":math:`\mu(X) / \|X\|`."""
        return _share(self.mu, self.norm)

    @property
    def gradient_share(self) -> float | None:
        r""":math:`\mu(G) / \|G\|`."""
        return _share(self.gradient_mu, self.gradient)


def _share(mu: float | None, norm: float | None) -> float | None:
    return None if mu is None or not norm else mu / norm
