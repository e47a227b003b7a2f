"""Where to look for the direction that a layer stretches most."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.diagnostics.calls import Call
from gnn_depth.diagnostics.lipschitz import Stretch


class Guesses:
    r"""Guesses for the layers of a stack, one after another, each from what was found in the one before.

    .. math:: V = n w^\top

    Messages pass along the same edges in every layer, so that the profile n over the nodes of what is stretched most
    hardly differs between layers, while the profile w over the channels is that of the weights: the first right
    singular vector of what the layer's ``weight_chain()`` says comes in. Of 128 GCNs or GATs on Cora all but the first
    then take one round of :func:`local_lipschitz` instead of ten.
    """

    def __init__(self) -> None:
        self._nodes: Tensor | None = None

    def of(self, call: Call) -> Float[Tensor, "nodes channels"] | None:
        """A guess for a layer; None where there is nothing to go by."""
        weight, nodes = _weight(call.module), self._nodes
        if weight is None or call.x.ndim != 2 or weight.shape[1] != call.x.shape[1]:
            return None
        if nodes is None or len(nodes) != len(call.x):
            nodes = torch.ones(len(call.x), dtype=torch.float64, device=call.x.device)
        guess = torch.outer(nodes, _first_direction(weight).to(nodes.device))
        return guess if bool(guess.isfinite().all()) else None

    def learn(self, stretch: Stretch) -> None:
        """Take over the profile over the nodes of what was found."""
        if stretch.direction is not None and stretch.direction.ndim == 2:
            direction = stretch.direction
            # One round of the power iteration, from the largest channel.
            nodes = direction @ (direction.t() @ direction[:, direction.square().sum(0).argmax()])
            self._nodes = nodes / nodes.norm()


def _weight(layer: Any) -> Tensor | None:
    """The matrices that come into a layer, stacked."""
    if not hasattr(layer, "weight_chain"):
        return None
    incoming = [weight.detach() for weight in layer.weight_chain().incoming]
    widths = {weight.shape[1] for weight in incoming}
    return torch.cat(incoming) if len(widths) == 1 else None


def _first_direction(weight: Tensor) -> Float[Tensor, "inputs"]:
    """The first right singular vector, by the smaller of the two products of a matrix with itself."""
    wide = torch.nan_to_num(weight.double(), 0.0, 0.0, 0.0)
    wide = wide / wide.abs().amax().clamp_min(torch.finfo(torch.float64).tiny)
    if len(wide) >= wide.shape[1]:
        return torch.linalg.eigh(wide.t() @ wide).eigenvectors[:, -1]
    return wide.t() @ torch.linalg.eigh(wide @ wide.t()).eigenvectors[:, -1]
