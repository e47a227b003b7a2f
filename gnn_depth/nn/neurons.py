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

.. math:: c_i = \sum_{W \in in} \|W_{i:}\|^2 + \sum_b b_i^2
    - \sum_a a_i^2 - \sum_{W \in out} \|W_{:i}\|^2

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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from gnn_depth.nn.encoder import Embedding
from gnn_depth.nn.linear import weights_of
from gnn_depth.nn.parts import Skip, WeightChain, present
from gnn_depth.registry import described, registered


class WeightRole(NamedTuple):
    """A parameter's contribution to neurons.

    Attributes:
        axis: The axis along which its neurons lie; None if every entry belongs to another neuron.
    """

    parameter: Tensor
    axis: Literal[0, 1] | None

    def by_neuron(self, entries: Tensor) -> Tensor:
        """The sums of numbers for each entry of the parameter, shape (neurons,)."""
        if self.axis is None:
            return entries.flatten()
        return entries.sum(1 - self.axis)

    def by_entry(self, neurons: Tensor) -> Tensor:
        """A number for each neuron, in a shape that multiplies the entries of the parameter."""
        if self.axis is None:
            return neurons.reshape(self.parameter.shape)
        if self.axis == 0:
            return neurons[:, None]
        return neurons[None, :]


@dataclass(frozen=True)
class Link:
    """Neurons that can only be rescaled together, and the weights that change with them.

    Attributes:
        states: The states that the neurons belong to: state 0 is the input of the first layer,
            state l the output of layer l.
        incoming: Matrices and biases that lead into the neurons.
        attention: Attention parameters of the neurons.
        outgoing: Matrices that lead out of the neurons. A matrix from some of them to others is
            also in ``incoming``.
    """

    states: tuple[int, ...]
    incoming: tuple[WeightRole, ...]
    attention: tuple[WeightRole, ...]
    outgoing: tuple[WeightRole, ...]


def links(stack: Any) -> list[Link]:
    """All neurons of a :class:`gnn_depth.nn.stack.DeepGNN` that can be rescaled, by depth.

    Raises:
        ValueError: A layer has no weight chain, or it is unknown how neurons are joined. This is so
            for some skip connections, for ``jump`` ``cat``, and in a reversible stack.
    """
    if stack.jump == "cat":
        raise ValueError(
            "with jump cat the neurons of every layer lead to a part of the decoder's matrix, and "
            "only whole matrices are rescaled: use jump last or max."
        )
    if stack.reversible:
        raise ValueError(
            "the blocks of a reversible stack read sums of groups of channels, and their neurons "
            "are not matched: use reversible 0."
        )
    layers, skips = list(stack.layers), list(stack.skips)
    chains = [layer.weight_chain() for layer in layers]
    of_skips = [_chain_of_skip(skip) for skip in skips]

    # Of every state. It is the sum of a layer's output and what its skip connection adds, so the
    # weights of both lead into it.
    into = [_into_first(stack.encoder)]
    attention: list[list[WeightRole]] = [[]]
    out_of: list[list[WeightRole]] = []
    for one in chains:
        into.append(_roles(one.incoming, 0) + _roles(one.bias, None))
        attention.append(_roles(one.attention, None))
        out_of.append(_roles(one.outgoing, 1))
    out_of.append(_roles(weights_of(stack.decoder), 1))
    for position, (skip, one) in enumerate(zip(skips, of_skips, strict=True)):
        into[position + 1] += _roles(one.incoming, 0)
        out_of[_state_added(skip, position)] += _roles(one.outgoing, 1)

    found = []
    for states in _groups(stack, layers, skips, of_skips):
        roles = []
        for side in (into, attention, out_of):
            # Each parameter once for each axis.
            together = chain.from_iterable(side[state] for state in states)
            roles.append(tuple(dict.fromkeys(together)))
        found.append(Link(tuple(states), *roles))
    return found


def _roles(parameters: Iterable[Tensor], axis: Literal[0, 1] | None) -> list[WeightRole]:
    return [WeightRole(parameter, axis) for parameter in parameters]


def hidden_states(stack: Any) -> set[int]:
    """The states that are neither inputs nor outputs of the stack."""
    # Without encoder the first state is the input features.
    first = 1 if isinstance(stack.encoder, nn.Identity) else 0
    return set(range(first, len(stack.skips) + 1))


def why_no_law(stack: Any) -> str | None:
    """The reason why rescaling neurons changes the outputs of a ``DeepGNN``, or None."""
    sample = torch.tensor([[-1.0, 1.0], [1.0, -1.0]])
    factors = torch.tensor([2.0, 3.0])
    is_used = len(stack.blocks) > 1 or stack.last_activation or stack.first_activation
    # Positively homogeneous: a factor of each neuron, above zero, passes through the activation.
    scaled_before = stack.activation(factors * sample)
    scaled_after = factors * stack.activation(sample)
    if is_used and not torch.allclose(scaled_before, scaled_after):
        name = stack.activation.__name__
        return f"the activation {name} is not positively homogeneous in each neuron"
    rescaling: list[nn.Module] = []
    for norms in stack.norms:
        rescaling.extend(norm for norm in norms if not norm.homogeneous)
    for layer in stack.layers:
        rescaling.extend(getattr(layer, "score_norms", ()))
    if rescaling:
        return f"{type(rescaling[0]).__name__} changes the scale of features or scores by itself"
    for module in stack.modules():
        if getattr(module, "weight_norm", None) is not None or is_parametrized(module):
            return "a weight is computed from other parameters"
    return None


def _into_first(encoder: nn.Module) -> list[WeightRole]:
    if isinstance(encoder, Embedding):
        return _roles([encoder.weight], 1)  # a row for each value, a column for each neuron
    # An identity has neither.
    bias = getattr(encoder, "bias", None)
    return _roles(weights_of(encoder), 0) + _roles(present(bias), None)


def _chain_of_skip(skip: Skip) -> WeightChain:
    """The weight chain of a skip connection, if it is known which neurons it joins."""
    if _joins_known_neurons(skip):
        return skip.weight_chain()
    skips: dict[str, Any] = registered("skip")
    known = sorted(name for name, cls in skips.items() if _joins_known_neurons(cls))
    raise ValueError(
        f"it is unknown which neurons {described(type(skip))} joins, and joined neurons can only "
        f"be rescaled together: use one of {', '.join(known)}, or set Skip.adds."
    )


def _joins_known_neurons(skip: Skip | type[Skip]) -> bool:
    return skip.adds is not None or (skip.reads == "nothing" and not skip.carries)


def _state_added(skip: Skip, position: int) -> int:
    """The state that the skip connection after a layer adds to the update."""
    if skip.adds == "first":
        return 0
    return position


def _groups(
    stack: Any, layers: Sequence[Any], skips: Sequence[Skip], of_skips: Sequence[WeightChain]
) -> list[list[int]]:
    """Hidden states grouped by neurons that can only be rescaled together."""
    group = list(range(len(layers) + 1))  # of each state

    def join(one: int, other: int) -> None:
        # All states of the other group move to the first one.
        kept, merged = group[one], group[other]
        for state, name in enumerate(group):
            if name == merged:
                group[state] = kept

    for position, layer in enumerate(layers):
        # A matrix between both states can take up the difference of their scales; without it
        # neuron i of one is added to neuron i of the other.
        if position < len(skips) and skips[position].adds and not of_skips[position].incoming:
            join(_state_added(skips[position], position), position + 1)
        # A shared layer has one matrix for all its positions; index finds the first of them.
        first = layers.index(layer)
        join(first, position)
        join(first + 1, position + 1)
        if layer.reads_first:  # their neurons correspond to those of the layer's input
            join(0, position)
            if layer.in_channels == layer.out_channels:
                join(0, position + 1)
        if stack.jump == "max":  # the decoder reads one neuron of all layers' outputs
            join(1, position + 1)
    members: dict[int, list[int]] = {}
    for state, name in enumerate(group):
        members.setdefault(name, []).append(state)
    # A group with an input or output of the stack cannot be rescaled without changing it.
    hidden = hidden_states(stack)
    return [states for states in members.values() if hidden.issuperset(states)]
