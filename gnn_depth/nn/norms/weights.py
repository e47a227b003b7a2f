"""Norms of weight matrices: the spectral norm, the Frobenius norm and weight normalisation."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gnn_depth.nn.functional import widen
from gnn_depth.nn.parts import Matrix, WeightNorm
from gnn_depth.ranges import Positive, in_range
from gnn_depth.registry import register

Mode: TypeAlias = Literal["cap", "exact"]

#: Matrices and rows smaller than this are left unchanged, because the division could overflow.
TINY = 1e-30
#: How far, relatively, the largest singular value may be above what the norm divides by.
TOLERANCE = 5e-4
#: Rounds of the power iteration before the singular vectors are computed anew.
ITERATIONS = 5


class LimitedNorm(WeightNorm):
    """A norm that limits the size of a matrix.

    Args:
        num_layers: Number of layers of the stack.
        bound: The limit c; 1 by default.
        per_depth: Set c = k / L instead, for L layers; k is this number.
        mode: ``cap`` scales down larger matrices only; ``exact`` scales all matrices to the bound.

    Raises:
        ValueError: There is no such mode, or both bounds are given.
    """

    @in_range
    def __init__(
        self,
        num_layers: int,
        bound: Positive | None = None,
        per_depth: Positive | None = None,
        mode: Mode = "cap",
    ) -> None:
        super().__init__(num_layers)
        if bound is not None and per_depth is not None:
            raise ValueError(
                f"{type(self).__name__} takes bound {bound}, or per_depth {per_depth} for a bound "
                f"of {per_depth} / num_layers: give one."
            )
        self.bound = 1.0
        if bound is not None:
            self.bound = bound
        elif per_depth is not None:
            self.bound = per_depth / num_layers
        self.mode = mode

    def limited(self, weight: Matrix, size: Float[Tensor, ""]) -> Matrix:
        """Scale a matrix of this size down to the limit, in mode ``exact`` also up; zero stays."""
        if self.mode == "cap":
            stretch = size.clamp_min(self.bound) / self.bound  # 1 for smaller matrices
        else:
            stretch = torch.where(size > TINY, size / self.bound, 1.0)
        return (weight * stretch.reciprocal()).to(weight.dtype)


@register("norm", "weight_frobenius")
class FrobeniusNorm(LimitedNorm):
    r"""Frobenius norm: hold the Frobenius norm of every weight matrix at or below a bound.

    .. math:: \tilde W = W \min \big( 1, c / \|W\|_F \big) \quad (\mathrm{cap}), \qquad
        \tilde W = c \, W / \|W\|_F \quad (\mathrm{exact})

    The Frobenius norm is at least the spectral norm, so the guarantees of :class:`SpectralNorm`
    hold. The limit is stricter, by a factor of up to the square root of the width. It acts on the
    same matrices and needs no iterations. Ours, for comparison.

    Args:
        num_layers: Number of layers of the stack.
        bound: The limit c; 1 by default.
        per_depth: Set c = k / L instead, for L layers; k is this number.
        mode: ``cap`` scales down larger matrices only; ``exact`` scales all matrices to the bound.
    """

    def forward(self, weight: Matrix) -> Matrix:
        return self.limited(weight, torch.linalg.vector_norm(widen(weight)))


@register("norm", "weight")
class WeightNormalisation(WeightNorm):
    r"""Weight normalisation: learn the length of each neuron's weights apart from their direction.

    .. math:: \tilde W_{i:} = g_i \, W_{i:} / \|W_{i:}\|

    where the learned g starts at :math:`\|W_{i:}\|`, which leaves W unchanged. It bounds nothing.
    Zero weights stay zero. Salimans & Kingma, *Weight Normalization*, NeurIPS 2016, like
    :func:`torch.nn.utils.parametrizations.weight_norm`, but safe for zero weights. It acts on the
    same matrices as :class:`SpectralNorm`.

    Args:
        num_layers: Number of layers of the stack.
    """

    length: nn.Parameter

    def forward(self, weight: Matrix) -> Matrix:
        size = _lengths(weight)
        factor = self.length[:, None] / torch.where(size > TINY, size, 1.0)
        return (weight * factor).to(weight.dtype)

    def reset_state(self, weight: Matrix) -> None:
        length = _lengths(weight.detach())[:, 0].to(weight.dtype)
        if hasattr(self, "length"):  # an optimizer may hold the parameter already
            self.length.copy_(length)
        else:
            self.length = nn.Parameter(length)


def _lengths(weight: Matrix) -> Float[Tensor, "outputs 1"]:
    return torch.linalg.vector_norm(widen(weight), dim=1, keepdim=True)


@register("norm", "spectral")
class SpectralNorm(LimitedNorm):
    r"""Spectral norm: hold the largest singular value of every weight matrix at or below a bound.

    .. math:: \tilde W = W \min \big( 1, c / \sigma(W) \big) \quad (\mathrm{cap}), \qquad
        \tilde W = c \, W / \sigma(W) \quad (\mathrm{exact}), \qquad \sigma(W) = u^\top W v

    For a GCN with symmetric normalisation on a graph that has both directions of every edge, a
    residual block then stretches its input, and a gradient on its way back, by at most 1 + c, and L
    blocks by :math:`(1 + c)^L`: with c = k / L less than :math:`e^k` at any depth. This does not
    hold for attention, whose weights depend on the features, nor for directed graphs. With c = 1 a
    stack may still grow as :math:`2^L`; with k below 4 features hardly spread. Values of k from 4
    to 16 worked on Cora. Weight decay shrinks W, but not :math:`\tilde W` where the limit acts, so
    relative steps grow: with it the loss of a residual GCN of 32 layers jumped late in training.

    The limit holds up to a factor of 1.001 in every pass, in training and in evaluation. The
    singular vectors u and v are kept as long as a Cholesky factorisation of :math:`t^2 I - W^\top
    W` proves that :math:`\sigma(W)` is not above :math:`t = 1.0005 \, u^\top W v`. Otherwise they
    follow W by the power iteration, for all matrices of equal shape at once, and if that does not
    suffice they are computed anew. The gradient is that of the formula: :math:`\partial \sigma /
    \partial W = u v^\top`. In 16-bit types the limit holds up to their precision.

    It acts on each matrix of a layer's weight chain. All heads are one matrix; separate weights for
    source and target are two. Encoder, decoder and skip connections are not normalised. Park & Kim,
    *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024; the power
    iteration is that of Miyato et al., *Spectral Normalization for Generative Adversarial
    Networks*, ICLR 2018.

    Args:
        num_layers: Number of layers of the stack.
        bound: The limit c; 1 by default.
        per_depth: Set c = k / L instead, for L layers; k is this number.
        mode: ``cap`` scales down larger matrices only; ``exact`` scales all matrices to the bound.
    """

    u: Tensor
    v: Tensor

    def forward(self, weight: Matrix) -> Matrix:
        # As a sum and not as products of matrices, which autocast would compute in 16 bits.
        size = (widen(weight) * torch.outer(widen(self.u), widen(self.v))).sum()
        return self.limited(weight, size)

    def reset_state(self, weight: Matrix) -> None:
        # Exact at the start, as a drawn matrix has no vectors of the step before.
        u, v = largest_vectors(weight.detach()[None])
        self.register_buffer("u", u[0].to(weight.dtype))
        self.register_buffer("v", v[0].to(weight.dtype))

    @classmethod
    def update_state(cls, norms: Sequence["SpectralNorm"], weights: Sequence[Tensor]) -> None:
        # In mode "cap" matrices below the bound need no exact vectors.
        limit = norms[0].bound if norms[0].mode == "cap" else 0.0
        # Lightning evaluates in inference mode, and no backward pass could use vectors made there.
        with torch.inference_mode(False), torch.autocast(weights[0].device.type, enabled=False):
            dtype = weights[0].dtype
            stacked = widen(torch.stack([weight.detach() for weight in weights]))
            u = widen(torch.stack([norm.u for norm in norms]))
            v = widen(torch.stack([norm.v for norm in norms]))
            moved = (~certified(stacked, u, v, limit)).nonzero()[:, 0]
            if not len(moved):
                return
            u[moved], v[moved] = iterated(stacked[moved], u[moved])
            failed = moved[~certified(stacked[moved], u[moved], v[moved], limit)]
            if len(failed):
                left, right = largest_vectors(stacked[failed])
                u[failed], v[failed] = left.to(u.dtype), right.to(u.dtype)
            # New tensors: a backward pass may still need those of the step before.
            for position in moved.tolist():
                norms[position].u = u[position].to(dtype)
                norms[position].v = v[position].to(dtype)


def certified(
    weights: Float[Tensor, "matrices outputs inputs"],
    u: Float[Tensor, "matrices outputs"],
    v: Float[Tensor, "matrices inputs"],
    limit: float,
) -> Bool[Tensor, " matrices"]:
    r"""True where no singular value is above :math:`t = \max(c, (1 + \epsilon) u^\top W v)`.

    That is so if :math:`I - W^\top W / t^2` is positive definite, that is, if it has a Cholesky
    factorisation. Here u and v are approximate singular vectors, and values below the limit c need
    no scaling.
    """
    size = torch.einsum("moi,mo,mi->m", weights, u, v)
    most = (size * (1 + TOLERANCE)).clamp_min(max(limit, TINY))
    scaled = weights / most[:, None, None]
    # The smaller of both products has the same largest eigenvalue.
    if scaled.shape[1] <= scaled.shape[2]:
        scaled = scaled.mT
    gram = scaled.mT @ scaled
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return torch.linalg.cholesky_ex(identity - gram).info == 0


def iterated(
    weights: Float[Tensor, "matrices outputs inputs"],
    u: Float[Tensor, "matrices outputs"],
) -> tuple[Float[Tensor, "matrices outputs"], Float[Tensor, "matrices inputs"]]:
    r"""Rounds of :math:`v = W^\top u / \|W^\top u\|, \; u = W v / \|W v\|`.

    Matrices are divided by their largest entry first, so that they may have any size that their
    type can hold.
    """
    weights = weights / weights.abs().amax((1, 2), keepdim=True).clamp_min(TINY)
    for _ in range(ITERATIONS):
        v = _unit(_product(weights.mT, u))
        u = _unit(_product(weights, v))
    return u, v


def largest_vectors(
    weights: Float[Tensor, "matrices outputs inputs"],
) -> tuple[Float[Tensor, "matrices outputs"], Float[Tensor, "matrices inputs"]]:
    """The singular vectors of the largest singular values, in float64.

    They are zero where a matrix is zero or not finite.
    """
    wide = torch.nan_to_num(weights.double(), 0.0, 0.0, 0.0)
    wide = wide / wide.abs().amax((1, 2), keepdim=True).clamp_min(TINY)
    is_high = wide.shape[1] > wide.shape[2]
    if not is_high:  # the smaller product, whose eigenvector is that of the other side
        wide = wide.mT
    # Some ten times as fast as singular values, and as exact for the largest one.
    v = torch.linalg.eigh(wide.mT @ wide).eigenvectors[..., -1]
    u = _unit(_product(wide, v))
    v = _unit(_product(wide.mT, u))
    if is_high:
        return u, v
    return v, u


def _product(matrices: Tensor, vectors: Tensor) -> Tensor:
    return (matrices @ vectors[..., None])[..., 0]


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp_min(TINY)
