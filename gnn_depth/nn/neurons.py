r"""The neurons of a stack that can be rescaled, and the weights around each of them.

A neuron is an entry of the features between two layers. Multiply the weights that lead into neuron
i by :math:`\lambda > 0`, and divide the weights that lead out of it and its attention parameters by
:math:`\lambda`. The loss does not change if everything between the weights is positively
homogeneous (ReLU, LeakyReLU, no activation). Its derivative with respect to :math:`\lambda` at 1 is
therefore zero,

.. math:: \delta_i = \sum_{W \in in} \langle W_{i:}, \nabla W_{i:} \rangle + \sum_b b_i \nabla b_i
    - \sum_a a_i \nabla a_i - \sum_{W \in out} \langle W_{:i}, \nabla W_{:i} \rangle = 0

for any parameters. Under gradient flow, :math:`\dot\theta = -\nabla \theta`, this is half the rate
at which

.. math:: c_i = \sum_{W \in in} \|W_{i:}\|^2 + \sum_b b_i^2 - \sum_a a_i^2 - \sum_{W \in out} \|W_{:i}\|^2

decreases. So c is conserved. A neuron with :math:`c_i = 0` is balanced. These weights enter the
sums:

- *Layers* declare theirs: see :class:`gnn_depth.nn.parts.WeightChain`. The law holds for each
  neuron of each head. If the next layer has separate weights for source and target, both matrices
  lead out of a neuron. Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023,
  print only that of the source (theorem 6.3), which suffices only while the next layer's a is zero.
  A GCN has no a. Parameters that do not depend on the scale of neurons, such as the omega of an
  omega-GAT, are in no term.
- *Encoder and decoder* count like any other map. Without them, inputs and outputs are not neurons.
- *Skip connections* that add neuron i of one layer to neuron i of another join the two into one
  neuron: all weights into and out of either count. A matrix between two joined layers counts both
  with its rows and with its columns, so its diagonal cancels. A projection leads out of one neuron
  and into the other.
- *Shared layers* join their output neurons at all depths, and likewise their input neurons. A
  decoder that reads the maximum of all layers' outputs also joins neurons, and so does a layer that
  mixes in the first state (GCNII).

The gradient is that of the loss. Dropout preserves the law; weight decay by the optimizer, clipping
and scaled losses do not. :func:`why_no_law` gives other reasons why it may not hold.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from gnn_depth.nn.encoder import Embedding
from gnn_depth.nn.parts import Link, Share, Skip, WeightChain
from gnn_depth.registry import described, registered


def links(stack: Any) -> list[Link]:
    """All neurons of a :class:`gnn_depth.nn.stack.DeepGNN` that can be rescaled, by depth.

    Raises:
        ValueError: A layer has no weight chain, or it is unknown how neurons are joined. This is so
            for some skip connections, for ``jump`` ``cat``, and in a reversible stack.
    """
    if stack.jump == "cat":
        raise ValueError(
            "with jump cat the neurons of every layer lead to a part of the decoder's matrix, and "
            "only whole matrices "
            "are rescaled: use jump last or max."
        )
    if stack.reversible:
        raise ValueError(
            "the blocks of a reversible stack read sums of groups of channels, and their neurons "
            "are not matched: use "
            "reversible 0."
        )
    layers, skips = list(stack.layers), list(stack.skips)
    chains = [layer.weight_chain() for layer in layers]
    of_skips = [_chain_of_skip(skip) for skip in skips]

    def into(state: int) -> Iterator[Share]:
        if state == 0:
            yield from _into_first(stack.encoder)
            return
        for chain in (chains[state - 1], of_skips[state - 1]):
            yield from (Share(weight, 0) for weight in chain.incoming)
            yield from (Share(bias, None) for bias in chain.bias)

    def out_of(state: int) -> Iterator[Share]:
        if state < len(chains):
            yield from (Share(weight, 1) for weight in chains[state].outgoing)
        elif isinstance(stack.decoder, nn.Linear):
            yield Share(stack.decoder.weight, 1)
        for position, (skip, chain) in enumerate(zip(skips, of_skips, strict=True)):
            if state == (0 if skip.adds == "first" else position):
                yield from (Share(weight, 1) for weight in chain.outgoing)

    return [
        Link(
            tuple(states),
            _distinct(share for state in states for share in into(state)),
            _distinct(
                Share(a, None) for state in states if state for a in chains[state - 1].attention
            ),
            _distinct(share for state in states for share in out_of(state)),
        )
        for states in _groups(stack, layers, skips, of_skips)
    ]


def hidden_states(stack: Any) -> list[int]:
    """The states that are neither inputs nor outputs of the stack."""
    first = 1 if isinstance(stack.encoder, nn.Identity) else 0
    return list(range(first, len(stack.joins) + 1))


def why_no_law(stack: Any) -> str | None:
    """The reason why rescaling neurons changes the outputs of a ``DeepGNN``; None if it does
    not."""
    sample = torch.tensor([-1.0, 1.0])
    is_used = len(stack.blocks) > 1 or stack.last_activation or stack.first_activation
    if is_used and not torch.allclose(stack.activation(2 * sample), 2 * stack.activation(sample)):
        return f"the activation {stack.activation.__name__} is not positively homogeneous"
    norms = [norm for norms in stack.norms for norm in norms if not norm.homogeneous]
    norms += [norm for layer in stack.layers for norm in getattr(layer, "score_norms", ())]
    if norms:
        return f"{type(norms[0]).__name__} changes the scale of features or scores by itself"
    for module in stack.modules():
        if getattr(module, "weight_norm", None) is not None or is_parametrized(module):
            return "a weight is computed from other parameters"
    return None


def _into_first(encoder: nn.Module) -> Iterator[Share]:
    if isinstance(encoder, Embedding):
        yield Share(encoder.weight, 1)
    elif isinstance(encoder, nn.Linear):
        yield Share(encoder.weight, 0)
        if encoder.bias is not None:
            yield Share(encoder.bias, None)


def _chain_of_skip(skip: Skip) -> WeightChain:
    """The weight chain of a skip connection, of which it must be known which neurons it joins."""
    if skip.adds is None and (skip.carries or skip.reads != "nothing"):
        skips: dict[str, Any] = registered("skip")
        known = [
            name
            for name, cls in skips.items()
            if cls.adds or (cls.reads == "nothing" and not cls.carries)
        ]
        raise ValueError(
            f"it is unknown which neurons {described(type(skip))} joins, and joined neurons can "
            "only "
            f"be rescaled together: use one of {', '.join(sorted(known))}, or set Skip.adds."
        )
    return skip.weight_chain()


def _groups(
    stack: Any, layers: list[Any], skips: list[Any], of_skips: list[WeightChain]
) -> list[list[int]]:
    """States whose neurons can only be rescaled together, without inputs and outputs of the
    stack."""
    group = list(range(len(layers) + 1))

    def join(one: int, other: int) -> None:
        group[:] = [group[one] if g == group[other] else g for g in group]

    for position, layer in enumerate(layers):
        if position < len(skips) and skips[position].adds and not of_skips[position].incoming:
            join(0 if skips[position].adds == "first" else position, position + 1)
        first = next(p for p, same in enumerate(layers) if same is layer)
        join(first, position)
        join(first + 1, position + 1)
        if layer.reads_first:
            join(0, position)
            if layer.in_channels == layer.out_channels:
                join(0, position + 1)
        if stack.jump == "max":
            join(1, position + 1)
    hidden = set(hidden_states(stack))
    found = [[state for state, g in enumerate(group) if g == name] for name in dict.fromkeys(group)]
    return [states for states in found if hidden.issuperset(states)]


def _distinct(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple({(id(share.parameter), share.axis): share for share in shares}.values())
