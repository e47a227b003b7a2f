r"""Balanced initialisations: every neuron's incoming and outgoing weights have equal squared norms.

Neurons are balanced from the first layer to the last (the order of
:func:`gnn_depth.nn.neurons.links`), so their incoming weights are already fixed. Attention
parameters are zero. The outgoing weights of neuron i are divided by the :math:`e^{u_i}` that solves

.. math:: \sum_{W \in in} \|W_{i:}\|^2 = e^{-2 u_i} \sum_{W \in out} \|W_{:i}\|^2

With skip connections or shared layers, some matrices lead from some of the neurons to others. There
:math:`W_{ij}` becomes :math:`e^{u_i - u_j} W_{ij}`, and the equations

.. math:: r_i + \sum_j W_{ij}^2 e^{2 (u_i - u_j)} = \sum_j W_{ji}^2 e^{2 (u_j - u_i)} + s_i e^{-2 u_i}

hold at the minimum of a convex function of u. Here r and s are the sums of squared weights from and
to neurons outside this set: :math:`\sum_i r_i u_i + \frac12 \sum_{ij} W_{ij}^2 e^{2 (u_i - u_j)} +
\frac12 \sum_i s_i e^{-2 u_i}`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.nn.inits.matrices import LooksLinearOrthogonal, XavierZeroAttention
from gnn_depth.nn.neurons import hidden_states, links
from gnn_depth.nn.parts import Init, Link, Share
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.ranges import Positive
from gnn_depth.registry import register


@register("init", "balanced")
class Balanced(Init):
    r"""Balanced: draw parameters with another initialisation, then rescale them until every neuron
    is balanced.

    .. math:: \|W^1_{i:}\|^2 = \beta, \qquad \|W^{l+1}_{:i}\|^2 = \|W^l_{i:}\|^2, \qquad a^l = 0

    :mod:`gnn_depth.nn.neurons` defines the incoming and outgoing weights for several matrices,
    encoder and decoder, heads and skip connections. The squared norm beta applies to the first
    hidden state. Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023,
    procedure 2.6.

    Args:
        base: The initialisation that draws the parameters.
        beta: Squared norm of the weights into each neuron of the first hidden state.

    Raises:
        ValueError: On a call, the stack has neurons that cannot be balanced.
    """

    def __init__(self, base: Init, beta: Positive = 2.0) -> None:
        self.base = base
        self.beta = beta

    def draw(self, stack: DeepGNN) -> None:
        self.base.draw(stack)
        found = links(stack)
        missing = set(hidden_states(stack)) - {state for link in found for state in link.states}
        if missing:
            raise ValueError(
                f"what leaves layer {min(missing) - 1} is added to the input features, or is an "
                "output too, so that "
                "its neurons cannot be rescaled: use encoder linear and decoder linear, or no skip "
                "connections."
            )
        with torch.no_grad():
            for position, link in enumerate(found):
                _balance(link, self.beta if position == 0 else None)
            for layer in stack.layers:
                for attention in layer.weight_chain().attention:  # type: ignore[operator]
                    attention.zero_()


@register("init", "balanced_xavier")
class BalancedXavier(Balanced):
    """Balanced Xavier (Bal X): the same as ``{name: balanced, base: xavier_zero_attention}``.

    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (Bal X).

    Args:
        beta: Squared norm of the weights into each neuron of the first hidden state.
    """

    def __init__(self, beta: Positive = 2.0) -> None:
        super().__init__(XavierZeroAttention(), beta)


@register("init", "balanced_orthogonal")
class BalancedOrthogonal(Balanced):
    """Balanced orthogonal (Bal O): the same as ``{name: balanced, base: looks_linear_orthogonal}``.

    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (Bal O).

    Args:
        beta: Squared norm of the weights into each neuron of the first hidden state.
    """

    def __init__(self, beta: Positive = 2.0) -> None:
        super().__init__(LooksLinearOrthogonal(), beta)


def _balance(link: Link, beta: float | None) -> None:
    """Rescale outgoing weights; in the first layer also incoming weights, to a squared length of
    beta."""
    inner = [
        share for share in link.incoming if share.axis == 0 and _is_among(share, link.outgoing)
    ]
    coming = [share for share in link.incoming if not _is_among(share, inner)]
    leaving = [share for share in link.outgoing if not _is_among(share, inner)]
    into, flow = _squares(coming), sum(share.parameter.double().square() for share in inner)
    out = _squares(leaving)
    for what, total in (
        ("comes into", into),
        ("leaves", out if isinstance(flow, int) else out + flow.sum(0)),
    ):
        if not (total > 0).all():
            neuron = int((total <= 0).nonzero()[0])
            raise ValueError(
                f"what {what} neuron {neuron} of state {link.states[0]} is zero, and no scale "
                "balances it: use "
                "another base."
            )
    if beta is not None:
        for share in coming:
            _scale(share, (beta / into).sqrt())
        into = _squares(coming)
    log_scale = _log_scale(into, flow, out)
    for share in inner:
        _scale(share, log_scale.exp())
    for share in (*inner, *leaving):
        _scale(Share(share.parameter, 1), (-log_scale).exp())


def _log_scale(
    into: Float[Tensor, "neurons"], flow: Tensor | int, out: Float[Tensor, "neurons"]
) -> Float[Tensor, "neurons"]:
    """The u of the equations above, by Newton's method with damped steps."""
    if isinstance(flow, int):
        return (out / into).log() / 2
    u = torch.zeros_like(into)
    for _ in range(500):  # about twenty suffice
        within, leaves = flow * (2 * (u[:, None] - u)).exp(), out * (-2 * u).exp()
        slope = into + within.sum(1) - within.sum(0) - leaves
        if (slope.abs() <= 1e-12 * (into + within.sum(1))).all():
            return u
        curvature = 2 * (torch.diag(within.sum(0) + within.sum(1) + leaves) - within - within.t())
        step = torch.linalg.solve(curvature, slope)
        u = u - step / (1 + 2 * step.abs().max())
    raise ValueError("the neurons could not be balanced: use another base, or no skip connections.")


def _is_among(share: Share, others: tuple[Share, ...] | list[Share]) -> bool:
    return any(share.parameter is other.parameter for other in others)


def _squares(shares: list[Share]) -> Float[Tensor, "neurons"]:
    squares = [(share.parameter.double().square(), share.axis) for share in shares]
    return torch.stack(
        [s.flatten() if axis is None else s.sum(1 - axis) for s, axis in squares]
    ).sum(0)


def _scale(share: Share, factor: Float[Tensor, "neurons"]) -> None:
    """Multiply a parameter's contribution to each neuron."""
    shape = share.parameter.shape if share.axis is None else (-1, 1) if share.axis == 0 else (1, -1)
    share.parameter.copy_(share.parameter.double() * factor.reshape(shape))
