"""Norms of weight matrices, and the weights of a stack that they act on."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from gnn_depth.nn.factories import NormFactory
from gnn_depth.nn.parametrised import parametrise
from gnn_depth.nn.parts import HasWeightChain, Layer, Norm
from gnn_depth.registry import name_of


class WeightNorm(Norm):
    """A norm of one weight matrix, which the layer reads instead of the parameter: of every pass, of every reader.

    It acts through :mod:`torch.nn.utils.parametrize`: the parameter is ``parametrizations.weight.original``, and the
    norm ``parametrizations.weight[0]``.

    Args:
        num_layers: Number of layers of the stack.

    Attributes:
        raw: Whether the parameter itself is read at the moment, to be drawn; at first, until it is settled.
    """

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.raw = True

    def forward(self, weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs inputs"]:
        return weight if self.raw else self.normed(weight)

    @abstractmethod
    def normed(self, weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs inputs"]:
        """What the layer reads."""

    def settle(self, weight: Float[Tensor, "outputs inputs"]) -> None:
        """Compute what the norm keeps of a parameter that was drawn."""

    @classmethod
    def follow(cls, norms: Sequence[Any], weights: Sequence[Tensor]) -> None:
        """Bring up to date what norms keep of their parameters, of one shape, before a pass in training."""


class NormedWeights:
    """The weights of a stack that a norm computes: those of its layers, of encoder, skips and decoder none.

    Args:
        make: Makes a norm from the number of layers.
        layers: The layers.

    Raises:
        ValueError: A layer has no weight matrix, or one that is no parameter.
    """

    def __init__(self, make: NormFactory, layers: Iterable[nn.Module]) -> None:
        layers = list(layers)
        self._groups: dict[Any, list[ParametrizationList]] = {}
        for layer in dict.fromkeys(layers):
            assert isinstance(layer, Layer)
            for module, names in _owners(layer):
                for each in parametrise(module, {name: make(len(layers)) for name in names}):
                    self._groups.setdefault(each.original.shape, []).append(each)
        self._settle()

    @torch.no_grad()
    def follow(self) -> None:
        """Bring the norms up to date, all matrices of one shape at once."""
        for group in self._groups.values():
            norms: list[Any] = [each[0] for each in group]
            norms[0].follow(norms, [each.original for each in group])

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Let the parameters themselves be read, and drawn in place, for a while."""
        norms: list[Any] = [each[0] for group in self._groups.values() for each in group]
        if norms[0].raw:
            yield
            return
        for norm in norms:
            norm.raw = True
        try:
            yield
        finally:
            self._settle()

    @torch.no_grad()
    def _settle(self) -> None:
        for group in self._groups.values():
            for each in group:
                norm = each[0]
                assert isinstance(norm, WeightNorm)
                norm.settle(each.original)
                norm.raw = False


def _owners(layer: Layer) -> list[tuple[nn.Module, list[str]]]:
    """The modules of a layer that hold its weight matrices, and the names of these there.

    Raises:
        ValueError: There is none, or one of them is no parameter.
    """
    wanted = {id(weight) for weight in matrices(layer)}
    owners = [
        (module, [name for name, parameter in module._parameters.items() if id(parameter) in wanted])
        for module in layer.modules()
    ]
    held = {id(module._parameters[name]) for module, names in owners for name in names}
    if not wanted or wanted - held:
        found = name_of(type(layer))
        what = "is computed from others already" if wanted else "is not there: no matrix is called weight"
        raise ValueError(
            f"a norm of weights has no place in layer {found[1] if found else type(layer).__name__!r}: "
            f"what it would act on {what}. Let weight_chain() return its matrices, which are parameters."
        )
    return [(module, names) for module, names in owners if names]


def matrices(layer: nn.Module) -> list[Tensor]:
    """The weight matrices of a layer: all of its weight chain, or else all parameters of two dimensions named weight.

    Of several heads it is the one matrix of them all, and weights that are not shared are matrices of their own.
    """
    if isinstance(layer, HasWeightChain):
        try:
            chain = layer.weight_chain()
            return list(dict.fromkeys((*chain.incoming, *chain.outgoing)))
        except ValueError:  # it has one with other options
            pass
    return _called_weight(layer.named_parameters())


def _called_weight(parameters: Iterable[tuple[str, Tensor]]) -> list[Tensor]:
    return [weight for name, weight in parameters if weight.dim() == 2 and name.rpartition(".")[2] == "weight"]
