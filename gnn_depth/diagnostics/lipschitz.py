r"""The local Lipschitz constant of a function at a point: the largest singular value of its Jacobian there."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

TINY = 1e-300


@dataclass(frozen=True)
class Stretch:
    """How much a function stretches small changes of its input, at most.

    Attributes:
        value: The constant; never above the true one, NaN where the Jacobian is not finite.
        direction: The change that is stretched most, of norm 1, in float64: a good start nearby. None for a constant 0
            or NaN.
        iterations: How many products with the Jacobian, and as many with its transpose, it took.
        converged: Whether the tolerance was reached.
    """

    value: float
    direction: Tensor | None
    iterations: int
    converged: bool


@torch.no_grad()
def local_lipschitz(
    function: Function,
    x: Tensor,
    start: Tensor | None = None,
    max_iterations: int = 200,
    tolerance: float = 1e-4,
) -> Stretch:
    r"""The largest singular value of the Jacobian J of a function at x, without J.

    Power iteration on :math:`J^T J` that also looks back: each round takes the best of the plane spanned by the
    direction v so far, the residual :math:`w = J^T J v / \sigma^2 - v` and the last move, by the largest eigenvector of
    a 3 x 3 matrix. Where power iteration needs some 1 / gap rounds, that needs the root of it, at the same cost: one
    product with J and one with its transpose. Knyazev, *Toward the Optimal Preconditioned Eigensolver: Locally Optimal
    Block Preconditioned Conjugate Gradient Method*, SIAM J. Sci. Comput. 2001.

    The function is linearised once. Sums run in float64, and J is only ever given vectors of norm 1, so that values
    from 1e-30 to 1e30 are measured in float32 as well.

    Args:
        function: Takes a tensor like x; has no random parts, such as a layer in evaluation mode.
        x: Where.
        start: A guess of the direction, such as that of an earlier measurement; random by default, and the same in
            every call.
        max_iterations: Rounds after which it ends in any case.
        tolerance: It ends where the residual shows an error of the value of this size, relative to it: some
            :math:`\sigma_k` is that near, and in practice the largest is nearer.
    """
    jacobian = Linearised(function, x)
    tolerance = max(tolerance, torch.finfo(x.dtype).eps)
    basis, images = _begin(jacobian, x, start)
    for iteration in range(1, max_iterations + 1):
        sigma = float(images[0].norm())
        if not 0 < sigma < float("inf"):
            return Stretch(0.0 if sigma == 0 else float("nan"), None, iteration, sigma == 0)
        residual = jacobian.transposed(images[0] / sigma) / sigma - basis[0]
        size = float(residual.norm())
        if size != size:  # of the products only the transposed one is not finite
            return Stretch(float("nan"), None, iteration, False)
        if size <= 2 * tolerance or iteration == max_iterations:  # twice: an eigenvalue is a square
            break
        new = _orthogonal(residual, basis)
        basis, images = torch.stack([basis[0], new, *basis[1:]]), torch.stack([images[0], jacobian(new), *images[1:]])
        basis, images = _best_of(basis, images)
    return Stretch(sigma, basis[0].view_as(x), iteration, size <= 2 * tolerance)


class Linearised:
    """Products with the Jacobian of a function at a point, in float64 outside and in the function's type inside.

    The function runs once. The product with J is the transpose of that with its transpose, which is linear too: it
    costs a backward pass, as that does, where forward mode would run the function again.
    """

    def __init__(self, function: Function, x: Tensor) -> None:
        x = x.detach()
        out, self._pull = torch.func.vjp(function, x)
        _, self._push = torch.func.vjp(lambda u: self._pull(u)[0], torch.zeros_like(out))
        self._input, self._output = x, out

    def __call__(self, direction: Tensor) -> Tensor:
        (image,) = self._push(direction.view(self._input.shape).to(self._input.dtype))
        return image.flatten().double()

    def transposed(self, direction: Tensor) -> Tensor:
        (image,) = self._pull(direction.view(self._output.shape).to(self._output.dtype))
        return image.flatten().double()


def _begin(jacobian: Linearised, x: Tensor, start: Tensor | None) -> tuple[Tensor, Tensor]:
    """The first direction and its image, as matrices of one row."""
    if start is not None and start.any():
        direction = _unit(start)
        image = jacobian(direction)
        if image.any():  # otherwise the function does not feel it
            return direction[None], image[None]
    draws = torch.Generator().manual_seed(0)
    direction = _unit(torch.randn(x.shape, generator=draws, dtype=torch.float64).to(x.device))
    return direction[None], jacobian(direction)[None]


def _best_of(basis: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
    """The most stretched direction of an orthonormal basis, the move there from the first one, and their images."""
    scaled = images / images.abs().max()  # their squares stay within range
    best = torch.linalg.eigh(scaled @ scaled.t()).eigenvectors[:, -1]
    moved = best[1:].norm()
    if moved == 0:
        return basis[:1], images[:1]
    # Of norm 1 and orthogonal to the best by its coefficients: as a difference of the two directions it would be noise.
    move = torch.cat([-moved[None], best[1:] * (best[0] / moved)])
    combine = torch.stack([best, move])
    return combine @ basis, combine @ images


def _orthogonal(x: Tensor, basis: Tensor) -> Tensor:
    """The direction of what of x is orthogonal to a basis."""
    for _ in range(2):  # where little is left, one pass leaves rounding errors
        x = x - (basis @ x) @ basis
    return x / x.norm().clamp_min(TINY)


def _unit(x: Tensor) -> Tensor:
    wide = x.detach().flatten().double()
    return wide / wide.norm()
