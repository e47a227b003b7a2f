"""Which options of a stack go together."""

from gnn_depth.nn.decoder import Decoder
from gnn_depth.nn.encoder import Encoder
from gnn_depth.nn.parts import check_probability


def check_sizes(num_layers: int, hidden_channels: int) -> None:
    """Refuse a stack without layers or channels.

    Raises:
        ValueError: A number is below one.
    """
    for name, value in (("num_layers", num_layers), ("hidden_channels", hidden_channels)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}.")


def check_ends(
    encoder: Encoder, decoder: Decoder, first_activation: bool, last_activation: bool, outer_dropout: float
) -> None:
    """Refuse options of an encoder or decoder that is not there.

    Raises:
        ValueError: There is one, or the dropout is no probability.
    """
    check_probability("outer_dropout", outer_dropout)
    if last_activation and decoder == "none":
        raise ValueError("last_activation needs a decoder: without one the last layer gives the class scores.")
    if first_activation and encoder == "none":
        raise ValueError("first_activation needs an encoder: without one there are the features themselves.")
    if outer_dropout and encoder != "linear" and decoder == "none":
        raise ValueError("outer_dropout drops inputs of a linear encoder or decoder, and there is neither.")
