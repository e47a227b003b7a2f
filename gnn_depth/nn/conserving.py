"""What a stack tells of the conservation law of its neurons; the law itself knows the stack, and stands in links.py."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnn_depth.nn.parts import Link


class Conserving:
    """A stack that knows its neurons and the weights around them."""

    def links(self: Any) -> "list[Link]":
        """The neurons that can be rescaled, see :func:`gnn_depth.nn.neurons.links`."""
        from gnn_depth.nn.neurons import links

        return links(self)

    def why_no_law(self: Any) -> str | None:
        """What keeps the law from holding, see :func:`gnn_depth.nn.neurons.why_no_law`."""
        from gnn_depth.nn.neurons import why_no_law

        return why_no_law(self)
