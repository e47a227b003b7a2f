"""A skip connection with a second state per node."""

from collections.abc import Sequence

from torch import Tensor

from gnn_depth import Graph, Skip, register


@register("skip", "oscillator")
class Oscillator(Skip):
    r"""Move the states of nodes like damped oscillators that the layers drive.

    .. math:: V^{l+1} = V^l + \Delta t \, (F(X^l) - \gamma V^l - \alpha X^l), \qquad X^{l+1} = X^l + \Delta t \, V^{l+1}

    Rusch et al., *Graph-Coupled Oscillator Networks*, ICML 2022 (GraphCON). V, the velocity, is
    zero at first.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        step: :math:`\Delta t`, the time step.
        damping: :math:`\gamma`.
        stiffness: :math:`\alpha`.

    Raises:
        ValueError: The layer changes the width.
    """

    carries = True
    adds = "input"

    def __init__(
        self,
        widths: list[int],
        out_channels: int,
        step: float = 1.0,
        damping: float = 1.0,
        stiffness: float = 1.0,
    ) -> None:
        super().__init__(widths, out_channels)
        if widths[-1] != out_channels:
            raise ValueError(
                f"skip 'oscillator' keeps the width, and a layer changes {widths[-1]} to "
                f"{out_channels}."
            )
        self.step = step
        self.damping = damping
        self.stiffness = stiffness

    def forward(
        self, update: Tensor, states: Sequence[Tensor], graph: Graph, velocity: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        force = update - self.stiffness * states[-1]
        moved = (
            self.step * force
            if velocity is None
            else velocity + self.step * (force - self.damping * velocity)
        )
        return states[-1] + self.step * moved, moved
