"""A stack that also runs backwards."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn

from gnn_depth import DeepGNN, Graph, build
from gnn_depth.nn.block import Block, Blocks, Hidden, States

#: Most fixed-point iterations of a step, and the mean change at which they end.
ITERATIONS = 10
TOLERANCE = 1e-5
#: Relative change in the last iteration from which a step counts as not solved.
LARGEST_CHANGE = 1e-2


class ReverseProcess(DeepGNN):
    r"""A stack whose decoder reads the last state, and the state that leads to the first one.

    Blocks are residual, :math:`B(x) = x + F(x)` with :math:`F = \phi \circ \mathrm{norms} \circ
    \mathrm{layer}`. If F is a contraction, B has an inverse, which the fixed-point iteration
    :math:`x \leftarrow y - F(x)` finds from y. With L blocks and K steps the decoder reads

    .. math::
        [B_L \circ \dots \circ B_1 (X^0), \; B_1^{-1} \circ \dots \circ B_L^{-1} (X^0)]

    where further steps begin again with the last block. Forwards the states get smoother, backwards
    sharper. Gradients go through the iterations. Park, Heo & Kim, *Mitigating Oversmoothing Through
    Reverse Process of GNNs for Heterophilic Graphs*, ICML 2024: one block for all steps
    (``share_layers``), ReLU, K up to 256, weight matrices divided by :math:`\max(1, \|W\|_F /
    0.999)`, and a decoder of two layers, where ours has one.

    Args:
        in_channels, out_channels, layer, **options: As those of ``DeepGNN``.
        inverse_steps: K.

    Raises:
        ValueError: The blocks have no inverse.
    """

    def __init__(
        self,
        in_channels: int | Sequence[int],
        out_channels: int,
        layer: Any = "gcn",
        inverse_steps: int = 16,
        init: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, layer, **options)
        if not _has_inverse(self):
            raise ValueError(
                "a reverse process starts from an encoder's output, adds to the input of every "
                "block, and reads two states. Use encoder and decoder linear, skip residual, "
                "last_activation true, dropout 0, jump last, norm weight_frobenius or spectral and "
                "no other, layers without an initial residual, as many output as input channels, "
                "checkpoint_every none and reversible 0."
            )
        self.decoder = nn.Linear(2 * self.decoder.in_features, out_channels)
        self.blocks = InverseBlocks(self.blocks, inverse_steps)
        if init is not None:
            build("init", init)(self)

    def links(self) -> NoReturn:
        raise ValueError(
            "in a reverse process neurons of several states lead to one column of the decoder's "
            "matrix and others, and only whole matrices are rescaled: use a DeepGNN."
        )


def _has_inverse(stack: DeepGNN) -> bool:
    """True if every block is its input plus a function that is the same in every call."""
    # Identity alone keeps a negative number. Attention dropout is random too.
    has_activation = stack.activation(torch.tensor(-1.0, device="cpu")).item() != -1
    is_random = stack.dropout > 0 or any(getattr(each, "dropout", 0) for each in stack.layers)
    adds = all(skip.adds_input is True and not skip.weight_chain().incoming for skip in stack.skips)
    return (
        isinstance(stack.encoder, nn.Linear)
        and isinstance(stack.decoder, nn.Linear)
        and adds
        and not any(len(norms) for norms in stack.norms)
        and (stack.last_activation or not has_activation)
        and not is_random
        and not any(layer.reads_first for layer in stack.layers)
        and stack.jump == "last"
        and not (stack.segment_length or stack.reversible)
    )


class InverseBlocks(Blocks):
    """Blocks that run forwards, and backwards from the same state.

    Args:
        blocks: The blocks.
        steps: Number of steps backwards.
    """

    takes_prefixes: ClassVar[bool] = False
    export_refusal: ClassVar[str] = (
        "a reverse process cannot be exported: each step ends when its change is small, so the "
        "number of iterations depends on the data, and an exported program has a fixed one."
    )

    def __init__(self, blocks: Blocks, steps: int) -> None:
        super().__init__(blocks)
        self.steps = steps
        self.has_warned = False

    def forward(self, x: Hidden, graphs: Sequence[Graph], states: States) -> Tensor:
        forwards = super().forward(x, graphs, states)
        backwards = x
        for step in range(self.steps):
            # From the last block to the first, and again.
            position = len(self) - 1 - step % len(self)
            block = self[position]
            assert isinstance(block, Block)
            backwards = self._before(block, backwards, graphs[position])
        return torch.cat([forwards, backwards], 1)

    def _before(self, block: Block, y: Tensor, graph: Graph) -> Tensor:
        """The state that a block maps to y."""
        x = y
        change = y.new_zeros(())
        for _ in range(ITERATIONS):
            # Not under no_grad: gradients go through the iterations.
            following = y - block.update(x, graph, None)
            change = (following - x).detach().abs().mean()
            x = following
            if change < TOLERANCE:
                return x
        # So written that NaN warns too.
        if not self.has_warned and not change <= LARGEST_CHANGE * y.detach().abs().mean():
            self.has_warned = True
            warnings.warn(
                f"reverse process: a block's inverse is not found within {ITERATIONS} iterations, "
                "because the block changes its input too much: use norm {name: weight_frobenius, "
                "bound: 0.999} or a smaller bound.",
                stacklevel=2,
            )
        return x
