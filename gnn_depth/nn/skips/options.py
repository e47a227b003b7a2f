"""Helpers of skip connections: maps between states of different widths."""

from torch import nn

from gnn_depth.nn.parts import WeightChain


def project(in_channels: int, out_channels: int) -> nn.Module:
    """The identity if the widths are equal, otherwise a linear map without bias."""
    return nn.Identity() if in_channels == out_channels else nn.Linear(in_channels, out_channels, bias=False)


def projection_chain(projection: nn.Module) -> WeightChain:
    """The weight chain of a skip connection with a projection as its only matrix, or without a matrix."""
    weights = (projection.weight,) if isinstance(projection, nn.Linear) else ()
    return WeightChain(incoming=weights, outgoing=weights)
