"""The conservation law of all neurons of a stack at once, in some forty operations whatever its depth."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnn_depth.diagnostics.balance import Link

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


class Read(NamedTuple):
    """What was read off the parameters and their gradients.

    Attributes:
        laws: The c and the delta of every neuron; NaN where a link has fewer neurons than another.
        norms: Norms of the parameters of each set, and of their gradients; NaN where a set is empty.
    """

    laws: Float[Tensor, "2 links neurons"]
    norms: Float[Tensor, "2 sets"]


class Group(NamedTuple):
    """Parameters of equal shape, and the axes that neurons lie along in any of them."""

    parameters: list[Tensor]
    axes: list[int | None]


class Neurons:
    """Reads the :func:`imbalance` and the :func:`defect` of many links, and the norms of sets of parameters.

    Parameters of equal shape are stacked and multiplied by themselves and by their gradients together. The sums of
    these products over rows and over columns make one long vector, and an index that is made once says which of its
    entries belong to each neuron.

    Args:
        links: Neurons of any number each.
        sets: Parameters whose norm is wanted together, such as the matrices of a layer.
    """

    def __init__(self, links: Sequence[Link], sets: Sequence[Sequence[Tensor]]) -> None:
        shares = [share for link in links for share in (*link.incoming, *link.attention, *link.outgoing)]
        axes = dict.fromkeys((id(share.parameter), share.axis) for share in shares)
        every = {id(p): p for p in (*(share.parameter for share in shares), *(p for one in sets for p in one))}
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for parameter in every.values():
            by_shape.setdefault(parameter.shape, []).append(parameter)
        self._groups = [
            Group(alike, [axis for axis in (None, 0, 1) if any((id(p), axis) in axes for p in alike)])
            for alike in by_shape.values()
        ]
        self._device = next(iter(every.values()), torch.empty(0)).device
        self._index_laws(links)
        self._index_sets(sets)

    @torch.no_grad()
    def read(self, gradient: Callable[[Tensor], Tensor | None]) -> Read:
        """The laws and norms of the moment.

        Args:
            gradient: That of the loss by a parameter; None counts as zero.
        """
        sums, norms = [], []
        for alike, axes in self._groups:
            stacked = torch.stack([*alike, *(_dense(gradient(p), p) for p in alike)])
            both = stacked.to(torch.promote_types(stacked.dtype, torch.float32)).view(2, len(alike), *alike[0].shape)
            # In float64: float32 has no room for the squares of gradients below 1e-19.
            norms.append(torch.linalg.vector_norm(both.flatten(2), dim=2, dtype=torch.float64))
            products = both * both[0] if axes else both
            sums += [(products if axis is None else products.sum(3 - axis)).flatten(1) for axis in axes]
        laws = (_and_zero(sums)[:, self._index] * self._sign).sum(1) if sums else self._sign.new_zeros(2, 0, 0)
        squares = _and_zero(norms).square()[:, self._members].sum(1)
        return Read(laws.masked_fill(self._absent, torch.nan), squares.sqrt().masked_fill(self._empty, torch.nan))

    def distribution(self, laws: Float[Tensor, "2 links neurons"]) -> Float[Tensor, "2 statistics links"]:
        """Mean, least, quartiles and largest of the neurons of each link; NaN where one of them is NaN."""
        mean = laws.masked_fill(self._absent, 0).sum(2) / self._counts
        ordered = laws.sort(dim=2).values  # what is no number comes last
        low, high = (ordered.gather(2, at.expand(2, -1, -1)) for at in (self._low, self._high))
        quantiles = torch.lerp(low, high, self._between.to(low.dtype))
        found = torch.cat([mean[:, :, None], quantiles], 2)
        unknown = (laws.isnan() & ~self._absent).any(2, keepdim=True)
        return found.masked_fill(unknown, torch.nan).transpose(1, 2)

    def _index_laws(self, links: Sequence[Link]) -> None:
        """Find where the terms of every neuron stand among all sums; what has fewer terms is filled up with a zero."""
        places, offset = dict[tuple[int, int | None], Int[Tensor, "neurons"]](), 0
        for alike, axes in self._groups:
            for axis in axes:
                count = alike[0].numel() if axis is None else alike[0].shape[axis]
                for parameter in alike:
                    places[id(parameter), axis] = torch.arange(offset, offset + count)
                    offset += count
        signed = [
            [*((1, s) for s in link.incoming), *((-1, s) for s in (*link.attention, *link.outgoing))] for link in links
        ]
        counts = [len(places[id(terms[0][1].parameter), terms[0][1].axis]) for terms in signed]
        shape = max(map(len, signed), default=0), len(signed), max(counts, default=0)
        index, sign = torch.full(shape, offset), torch.zeros(shape[0], shape[1], 1)
        for number, terms in enumerate(signed):
            for term, (one, share) in enumerate(terms):
                index[term, number, : counts[number]] = places[id(share.parameter), share.axis]
                sign[term, number] = one
        number_of = torch.tensor(counts, dtype=torch.long)
        self._index, self._sign = index.to(self._device), sign.to(self._device)
        self._absent: Bool[Tensor, "links neurons"] = (torch.arange(shape[2]) >= number_of[:, None]).to(self._device)
        self._counts = number_of.to(self._device)
        at = torch.tensor(QUANTILES, dtype=torch.float64) * (number_of[:, None] - 1)
        self._low, self._high = at.floor().long().to(self._device), at.ceil().long().to(self._device)
        self._between = at.frac().to(self._device)

    def _index_sets(self, sets: Sequence[Sequence[Tensor]]) -> None:
        order = {id(p): place for place, p in enumerate(p for group in self._groups for p in group.parameters)}
        members = torch.full((max(map(len, sets), default=0), len(sets)), len(order))
        for number, one in enumerate(sets):
            members[: len(one), number] = torch.tensor([order[id(p)] for p in one], dtype=torch.long)
        self._members = members.to(self._device)
        self._empty = torch.tensor([not one for one in sets], dtype=torch.bool, device=self._device)


def _dense(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient.to_dense() if gradient.is_sparse else gradient


def _and_zero(parts: Sequence[Float[Tensor, "2 _"]]) -> Float[Tensor, "2 _"]:
    """All parts, and one zero more."""
    return torch.cat([*parts, torch.zeros_like(parts[0][:, :1])], 1)
