r"""The neurons of a stack that can be rescaled, and the weights around each of them.

A neuron is an entry of the features that pass from one layer to the next. Where all between the weights is positively
homogeneous (ReLU, LeakyReLU, no activation), to multiply by :math:`\lambda > 0` what comes into neuron i, and to divide
by :math:`\lambda` what leaves it and what attends to it, leaves the loss as it is. Its derivative by :math:`\lambda` at
1 is therefore zero,

.. math:: \delta_i = \sum_{W \in in} \langle W_{i:}, \nabla W_{i:} \rangle + \sum_b b_i \nabla b_i
    - \sum_a a_i \nabla a_i - \sum_{W \in out} \langle W_{:i}, \nabla W_{:i} \rangle = 0

at any parameters, and under gradient flow, :math:`\dot\theta = -\nabla \theta`, this is half the rate at which

.. math:: c_i = \sum_{W \in in} \|W_{i:}\|^2 + \sum_b b_i^2 - \sum_a a_i^2 - \sum_{W \in out} \|W_{:i}\|^2

falls: c is conserved. A neuron with :math:`c_i = 0` is balanced. What comes in, leaves and attends:

- *Layers* say it themselves, see :class:`gnn_depth.nn.parts.WeightChain`. Heads are concatenated, and the law holds for
  each neuron of each head; to average the last layer's heads changes nothing before it. Without shared weights
  both matrices of the next layer leave a neuron: Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS
  2023, print the source's alone (theorem 6.3), which is enough only while the next layer's a is zero. A GCN has no a.
  What has no scale, such as the omega of an omega-GAT, is in no term.
- *Encoder and decoder* come in and leave as any other map; where there is none, inputs and outputs are no neurons.
- *Skip connections* that add neuron i of one layer to neuron i of another make one neuron of the two: all that comes
  into either counts, and all that leaves. A matrix between two layers of such a stream counts with its rows and with
  its columns, its diagonal not at all. A map on the way comes into the one and leaves the other.
- *Shared layers* likewise make one neuron of those that they give at every depth, and of those that they read; so does
  a decoder that reads the largest of all layers' outputs, and a layer that mixes the first state in (GCNII).

The gradient is that of the loss: dropout leaves the law as it is, weight decay that the optimizer adds, clipping and
scaled losses do not. :func:`why_no_law` says what else stands against it.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from gnn_depth.nn.anchored import AnchoredLayer
from gnn_depth.nn.embedding import Embedding
from gnn_depth.nn.norms import NoNorm
from gnn_depth.nn.parts import HasWeightChain, Link, Share, Skip, WeightChain
from gnn_depth.nn.skips import Gated, InitialResidual, LayerScale, NoSkip, Residual, ReZero
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import name_of

#: Skips that add a state of an earlier layer, or a linear map of it, to some multiple of the update.
ADDING = (Residual, InitialResidual, Gated, ReZero, LayerScale)


def links(stack: DeepGNN) -> list[Link]:
    """All neurons of a stack that can be rescaled, by depth.

    Raises:
        ValueError: A layer has no weight chain, or it is not known how neurons are joined: by a skip connection,
            since the decoder reads the outputs of all layers side by side, or since the stack is reversible.
    """
    if stack.jump == "cat":
        raise ValueError(
            "with jump cat every layer's neurons leave to a part of the decoder's matrix, and only whole matrices are "
            "rescaled: take jump last or max."
        )
    if stack.reversible:
        raise ValueError(
            "the rounds of a reversible stack read sums of groups of channels, and their neurons are not matched: take "
            "reversible 0."
        )
    chains = [chain_of(layer, position, "the law") for position, layer in enumerate(stack.layers)]
    maps = [_maps(skip) for skip in stack.skips]
    return [
        Link(
            tuple(states),
            _distinct(share for state in states for share in _into(stack, state, chains)),
            _distinct(Share(a, None) for state in states if state for a in chains[state - 1].attention),
            _distinct(share for state in states for share in _out_of(stack, state, chains, maps)),
        )
        for states in _groups(stack)
    ]


def hidden_states(stack: DeepGNN) -> list[int]:
    """The features that are neither inputs nor outputs of the stack."""
    first = 1 if isinstance(stack.encoder, nn.Identity) else 0
    return list(range(first, len(stack.skips) + 1))


def chain_of(layer: nn.Module, position: int, wanted_by: str) -> WeightChain:
    """The weight chain of a layer.

    Raises:
        ValueError: It has none.
    """
    if not isinstance(layer, HasWeightChain):
        raise ValueError(
            f"{wanted_by} needs the weight chain of layer {position + 1}, and {type(layer).__name__} has none; "
            "give it a method weight_chain() or use init 'default'."
        )
    return layer.weight_chain()


def why_no_law(stack: DeepGNN) -> str | None:
    """What keeps a stack from being the same after neurons are rescaled; None where nothing does."""
    sample = torch.tensor([-1.0, 1.0])
    is_used = len(stack.layers) > 1 or stack.last_activation or stack.first_activation
    if is_used and not torch.allclose(stack.activation(2 * sample), 2 * stack.activation(sample)):
        return f"the activation {stack.activation.__name__} is not positively homogeneous"
    norms = [norm for norms in stack.norms for norm in norms if not isinstance(norm, NoNorm)]  # type: ignore[attr-defined]
    norms += [norm for layer in stack.layers for norm in getattr(layer, "score_norms", ())]
    if norms:
        return f"{type(norms[0]).__name__} changes the scale of features or scores by itself"
    if any(is_parametrized(module) for module in stack.modules()):
        return "a weight is computed from other parameters"
    return None


def _into(stack: DeepGNN, state: int, chains: list[WeightChain]) -> Iterator[Share]:
    if state == 0:
        maps: list[nn.Module] = [stack.encoder]
    else:
        chain = chains[state - 1]
        yield from (Share(weight, 0) for weight in chain.incoming)
        yield from (Share(bias, None) for bias in chain.bias)
        maps = [getattr(stack.skips[state - 1], "project", nn.Identity())]
    for module in maps:
        if isinstance(module, Embedding):
            yield Share(module.weight, 1)
        elif isinstance(module, nn.Linear):
            yield Share(module.weight, 0)
            if module.bias is not None:
                yield Share(module.bias, None)


def _out_of(
    stack: DeepGNN, state: int, chains: list[WeightChain], maps: list[tuple[nn.Module, ...]]
) -> Iterator[Share]:
    if state < len(chains):
        yield from (Share(weight, 1) for weight in chains[state].outgoing)
    elif isinstance(stack.decoder, nn.Linear):
        yield Share(stack.decoder.weight, 1)
    for position, skip in enumerate(stack.skips):
        for module in maps[position]:
            reads = 0 if isinstance(skip, InitialResidual) else position
            if reads == state and isinstance(module, nn.Linear):
                yield Share(module.weight, 1)


def _maps(skip: nn.Module) -> tuple[nn.Module, ...]:
    """What a skip connection reads earlier features through.

    Raises:
        ValueError: It is not known.
    """
    if isinstance(skip, NoSkip):
        return ()
    if not isinstance(skip, ADDING):
        assert isinstance(skip, Skip)
        found = name_of(type(skip))
        known = ", ".join(sorted(name for _, name in filter(None, map(name_of, (NoSkip, *ADDING)))))
        raise ValueError(
            f"it is not known which neurons skip {found[1] if found else type(skip).__name__!r} joins, and they can "
            f"only be rescaled together: take one of {known}."
        )
    assert isinstance(skip.project, nn.Module)
    return (skip.project, skip.gate) if isinstance(skip, Gated) else (skip.project,)


def _groups(stack: DeepGNN) -> list[list[int]]:
    """States whose neurons are one, without those that are the inputs or outputs."""
    group = list(range(len(stack.layers) + 1))

    def join(one: int, other: int) -> None:
        group[:] = [group[one] if g == group[other] else g for g in group]

    for position, layer in enumerate(stack.layers):
        skip = stack.skips[position] if position < len(stack.skips) else None
        if isinstance(skip, ADDING) and isinstance(skip.project, nn.Identity):
            join(0 if isinstance(skip, InitialResidual) else position, position + 1)
        first = next(p for p, same in enumerate(stack.layers) if same is layer)
        join(first, position)
        join(first + 1, position + 1)
        if isinstance(layer, AnchoredLayer):
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
