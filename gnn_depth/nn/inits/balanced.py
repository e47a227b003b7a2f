r"""Balanced initialisations: every neuron's incoming and outgoing weights have equal squared norms.

Neurons are balanced from the first layer to the last (the order of
:func:`gnn_depth.nn.neurons.links`), so their incoming weights are already fixed. Attention
parameters are zero. The outgoing weights of neuron i are divided by the :math:`e^{u_i}` that solves

.. math:: \sum_{W \in in} \|W_{i:}\|^2 = e^{-2 u_i} \sum_{W \in out} \|W_{:i}\|^2

With skip connections or shared layers, some matrices lead from some of the neurons to others. There
:math:`W_{ij}` becomes :math:`e^{u_i - u_j} W_{ij}`, and the equations

.. math:: r_i + \sum_j W_{ij}^2 e^{2 (u_i - u_j)}
    = \sum_j W_{ji}^2 e^{2 (u_j - u_i)} + s_i e^{-2 u_i}

hold at the minimum of a convex function of u. Here r and s are the sums of squared weights from and
to neurons outside this set: :math:`\sum_i r_i u_i + \frac12 \sum_{ij} W_{ij}^2 e^{2 (u_i - u_j)} +
\frac12 \sum_i s_i e^{-2 u_i}`.
"""

from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.nn.inits.matrices import Orthogonal, Xavier
from gnn_depth.nn.neurons import Link, WeightRole, hidden_states
from gnn_depth.nn.parts import Init
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.ranges import Positive
from gnn_depth.registry import register

#: Newton's method takes about twenty steps.
MOST_STEPS = 500


@register("init", "balanced")
class Balanced(Init):
    r"""Balanced: draw parameters with another initialisation, then balance every neuron.

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
        found = stack.links()  # refuses what cannot be balanced
        missing = hidden_states(stack).difference(*(link.states for link in found))
        if missing:
            raise ValueError(
                f"the output of layer {min(missing) - 1} is added to the input features, or is "
                "also an output of the stack, so its neurons cannot be rescaled: use encoder "
                "linear and decoder linear, or no skip connections."
            )
        with torch.no_grad():
            for position, link in enumerate(found):
                beta = self.beta if position == 0 else None
                _balance(link, beta)
            for layer in stack.layers:
                for attention in layer.weight_chain().attention:  # type: ignore[operator]
                    attention.zero_()


@register("init", "balanced_xavier")
class BalancedXavier(Balanced):
    """Balanced Xavier (Bal X): ``{name: balanced, base: {name: xavier, attention: zero}}``.

    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (Bal X).

    Args:
        beta: Squared norm of the weights into each neuron of the first hidden state.
    """

    def __init__(self, beta: Positive = 2.0) -> None:
        super().__init__(Xavier(attention="zero"), beta)


@register("init", "balanced_orthogonal")
class BalancedOrthogonal(Balanced):
    """Balanced orthogonal (Bal O): balanced, with base ``{name: orthogonal, looks_linear: true}``.

    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (Bal O).

    Args:
        beta: Squared norm of the weights into each neuron of the first hidden state.
    """

    def __init__(self, beta: Positive = 2.0) -> None:
        super().__init__(Orthogonal(looks_linear=True), beta)


def _balance(link: Link, beta: float | None) -> None:
    """Rescale the outgoing weights; with beta first the incoming ones, to this squared norm."""
    # Matrices from some of these neurons to others stand on both sides; W_ij leads from j to i.
    out_of = {share.parameter for share in link.outgoing}
    inner = [share for share in link.incoming if share.axis == 0 and share.parameter in out_of]
    within = {share.parameter for share in inner}
    coming = [share for share in link.incoming if share.parameter not in within]
    leaving = [share for share in link.outgoing if share.parameter not in within]
    into = _squares(coming)
    out = _squares(leaving)
    leaves, flow = out, None
    if inner:
        flow = reduce(torch.add, [share.parameter.double().square() for share in inner])
        leaves = out + flow.sum(0)
    for side, squares in (("into", into), ("out of", leaves)):
        zeros = (~(squares > 0)).nonzero()
        if len(zeros):
            raise ValueError(
                f"the weights {side} neuron {int(zeros[0])} of state {link.states[0]} are zero, "
                "and no scale balances them: use another base."
            )
    if beta is not None:
        for share in coming:
            _scale(share, (beta / into).sqrt())
        into = _squares(coming)
    log_scale = log_scales(into, flow, out)
    for share in inner:
        _scale(share, log_scale.exp())
    # The columns of an inner matrix lead out of the neurons too.
    for share in (*inner, *leaving):
        _scale(WeightRole(share.parameter, 1), (-log_scale).exp())


def log_scales(
    into: Float[Tensor, "neurons"], flow: Tensor | None, out: Float[Tensor, "neurons"]
) -> Float[Tensor, "neurons"]:
    """Solve for the u of the equations above, by Newton's method with damped steps.

    Args:
        into: Sums of squared weights from outside into each neuron, r above.
        flow: Squared weights between the neurons; None if there are none.
        out: Sums of squared weights from each neuron to outside, s above.

    Raises:
        ValueError: The method does not converge.
    """
    if flow is None:
        return (out / into).log() / 2
    u = torch.zeros_like(into)
    # Damped steps cannot overshoot into the exponentials' growth; close to the minimum they are
    # Newton's own.
    for _ in range(MOST_STEPS):
        within = flow * (2 * (u[:, None] - u)).exp()
        leaves = out * (-2 * u).exp()
        comes, goes = within.sum(1), within.sum(0)
        slope = into + comes - goes - leaves
        if (slope.abs() <= 1e-12 * (into + comes)).all():
            return u
        curvature = 2 * (torch.diag(goes + comes + leaves) - within - within.t())
        step = torch.linalg.solve(curvature, slope)
        u = u - step / (1 + 2 * step.abs().max())
    raise ValueError("the neurons could not be balanced: use another base, or no skip connections.")


def _squares(shares: list[WeightRole]) -> Float[Tensor, "neurons"]:
    """Sums of squares of all parameters, for each neuron."""
    sums = [share.by_neuron(share.parameter.double().square()) for share in shares]
    return torch.stack(sums).sum(0)


def _scale(share: WeightRole, factor: Float[Tensor, "neurons"]) -> None:
    """Multiply a parameter's contribution to each neuron."""
    share.parameter.copy_(share.parameter.double() * share.by_entry(factor))
