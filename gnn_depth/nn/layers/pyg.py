"""Any convolution of PyTorch Geometric as a layer."""

import inspect
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn import conv as CONVS

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import DenseInputs, Layer, Outputs
from gnn_depth.part_specs import options_of
from gnn_depth.registry import imported, register, unknown

# Arguments that the stack gives.
OF_THE_STACK = ("in_channels", "out_channels", "channels")


def _is_conv(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, MessagePassing) and cls is not MessagePassing


@register("layer", "pyg")
class PyGConv(Layer):
    r"""Any convolution of PyTorch Geometric, by the name of its class: ``conv: SAGEConv``.

    The stack gives the widths, the features, the ``edge_index``, and weights and features of the
    edges where the convolution takes ``edge_weight`` or ``edge_attr`` and ``edge_dim``; ``options``
    are its other arguments. Feature norms, skip connections and diagnostics work as for other
    layers. Norms of attention scores, norms of weights and balanced initialisations need a layer of
    this package and are refused; other initialisations leave the parameters as PyTorch Geometric
    draws them. A convolution without ``out_channels`` needs ``in_channels`` equal to
    ``out_channels``.

    Fey & Lenssen, *Fast Graph Representation Learning with PyTorch Geometric*, ICLR workshop 2019.

    Args:
        in_channels: Width of the incoming features.
        out_channels: Width of the outgoing features; of one head, if the convolution concatenates
            several.
        conv: Name of a class of ``torch_geometric.nn``, or the import path of another module whose
            ``forward`` takes features and ``edge_index``.
        options: Its other arguments.

    Raises:
        ValueError: There is no such convolution or option, a required option is missing, or its
            ``forward`` needs more than features and ``edge_index``.
    """

    #: The convolutions that can be named.
    names = tuple(name for name in CONVS.__all__ if _is_conv(getattr(CONVS, name)))

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        conv: str = "GraphConv",
        options: dict[str, Any] | None = None,
    ) -> None:
        cls = _class(conv)
        options = dict(options or {})
        reads = _reads(cls, conv)
        takes, _ = options_of(cls)
        own = [name for name in takes if name not in OF_THE_STACK]
        for name in options:
            if name not in own:
                raise ValueError(f"{conv}: {unknown('option', name, own)}")
        # A convolution that keeps the width calls it channels.
        widths = {"in_channels": in_channels, "out_channels": out_channels, "channels": in_channels}
        given = {name: width for name, width in widths.items() if name in takes}
        if "out_channels" not in given and in_channels != out_channels:
            raise ValueError(
                f"{conv} keeps the width: {in_channels} channels cannot become {out_channels}."
            )
        super().__init__(in_channels, out_channels)
        self.name = conv
        # Made again when the number of edge features is known.
        self._make = partial(cls, **given, **options)
        try:
            self.conv: nn.Module = self._make()
        except TypeError as error:  # such as a missing one
            raise ValueError(f"{conv} refuses its options: {error}.") from error
        if getattr(self.conv, "concat", True):  # heads that are averaged count as one
            self.heads = getattr(self.conv, "heads", 1)
        self.takes_edge_weights = "edge_weight" in reads
        self.takes_edge_features = "edge_attr" in reads and "edge_dim" in takes

    def add_edge_features(self, channels: int) -> None:
        super().add_edge_features(channels)
        given = self._make.keywords.get("edge_dim", channels)
        if given != channels:
            raise ValueError(
                f"{self.name}: edge_dim is {given}, and edges have {channels} features: leave it "
                "out."
            )
        self.conv = self._make(edge_dim=channels)

    def reset_parameters(self) -> None:
        """Draw the parameters as the convolution does, or else as each module inside does."""
        modules = [self.conv]
        if not hasattr(self.conv, "reset_parameters"):
            modules = list(self.conv.modules())
        for module in modules:
            draw = getattr(module, "reset_parameters", None)
            if callable(draw):
                draw()

    def forward(self, x: DenseInputs, graph: Graph) -> Outputs:
        of_edges = graph.of_edges(slice(None))
        # In the features' type: a product with a wider one would widen the states.
        for name, values in of_edges.items():
            of_edges[name] = values.to(x.dtype)
        out = self.conv(x, graph.edge_index, **of_edges)
        wanted = (graph.num_nodes, self.width)
        # Some return attention weights too, or another width, which would fail far from here.
        if not isinstance(out, Tensor) or out.shape != wanted:
            found = tuple(getattr(out, "shape", ())) or type(out).__name__
            raise ValueError(f"{self.name} returns {found} in place of features of shape {wanted}.")
        return out


def _class(conv: str) -> type[nn.Module]:
    """The class of a name or an import path."""
    cls: Any = imported("conv", conv, CONVS.__name__, PyGConv.names)
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ValueError(f"conv {conv!r} is not a module: name a class that is a torch.nn.Module.")
    return cls


def _reads(cls: type[nn.Module], conv: str) -> list[str]:
    """The arguments of a convolution's ``forward``, which may need features and ``edge_index``."""
    reads = list(inspect.signature(cls.forward).parameters.values())[1:]  # without self
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    needed = [one.name for one in reads if one.default is one.empty and one.kind is kind]
    if needed[1:] != ["edge_index"]:
        raise ValueError(
            f"{conv} cannot be a layer: its forward needs {', '.join(needed)}, not x, edge_index."
        )
    return [one.name for one in reads]
